//! One task of the recording, from its first sight to its last.

use schedlab_model::{Change, Policy};
use schedlab_trace::Pid;

use crate::activity::ActivityLog;
use crate::call::Call;

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It was not seen yet: it exists, asleep or waiting.
    Unseen,
    /// On a CPU.
    Running,
    /// Waiting for one.
    Runnable,
    /// Asleep.
    Asleep,
    /// Ended.
    Dead,
}

/// A task. Times in nanoseconds since the beginning of what is looked at.
#[derive(Debug, Clone)]
pub(crate) struct TaskTrace {
    pub(crate) pid: Pid,
    /// Its latest name: a program that another executes keeps its number.
    pub(crate) name: Box<str>,
    pub(crate) state: State,
    /// Since when its CPU time, or its sleep, is still to be put down.
    pub(crate) since: u64,
    pub(crate) log: ActivityLog,
    /// The task that made it, if it was made meanwhile.
    pub(crate) parent: Option<u32>,
    /// The system call that it is in, where that is recorded.
    pub(crate) call: Option<Call>,
    /// Whether it was made meanwhile, by any task.
    pub(crate) born: bool,
    /// Whether it ran, so that it belongs to the workload.
    pub(crate) ran: bool,
    /// The kernel's priority as it was seen last.
    pub(crate) priority: Option<i32>,
    /// The priority with which it was first seen.
    pub(crate) first_priority: Option<i32>,
    /// Whether it has another's priority for as long as it holds a lock (`sched_pi_setprio`).
    pub(crate) boosted: bool,
    /// What it will be once the change shows that was asked for.
    pub(crate) asked: Option<Policy>,
    /// Its control group as the part that is looked at begins, or as it was made; none for the root.
    pub(crate) group: Option<String>,
    /// Changes that other tasks made of it while it did not run.
    pub(crate) changes: Vec<Change>,
    /// The CPU it ran on last, and that CPU's count of switches when it was switched in there.
    pub(crate) ran_on: Option<(u32, u64)>,
}

impl TaskTrace {
    pub(crate) fn new(pid: Pid, name: &str, log: ActivityLog) -> Self {
        Self {
            pid,
            name: name.into(),
            state: State::Unseen,
            since: 0,
            log,
            parent: None,
            call: None,
            born: false,
            ran: false,
            priority: None,
            first_priority: None,
            boosted: false,
            asked: None,
            group: None,
            changes: Vec::new(),
            ran_on: None,
        }
    }

    /// Puts down what it ran until now, with the ticks in that time.
    pub(crate) fn charge(&mut self, now: u64, tick: u64, period: u64) {
        if self.state == State::Running && now > self.since {
            self.log.ran(now - self.since);
            self.log.interrupted(tick.saturating_mul(now / period - self.since / period));
            self.since = now;
        }
    }
}

/// What the kernel's priority says of a policy: `MAX_RT_PRIO` and `NICE_TO_PRIO` (`include/linux/sched/prio.h`).
pub(crate) fn policy_of(priority: i32) -> (Policy, i8) {
    match priority {
        100.. => (Policy::Other, (priority - 120).clamp(-20, 19) as i8),
        // The priority does not contain a deadline task's parameters; the task comes before all others all the same.
        ..=0 => (Policy::Fifo(99), 0),
        _ => (Policy::Fifo((99 - priority).clamp(1, 99) as u8), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_the_kernels() {
        // 120 + nice, and 99 − priority of the real-time policies.
        assert_eq!(policy_of(115), (Policy::Other, -5));
        assert_eq!(policy_of(139), (Policy::Other, 19));
        assert_eq!(policy_of(49), (Policy::Fifo(50), 0));
        assert_eq!(policy_of(98), (Policy::Fifo(1), 0));
        assert_eq!(policy_of(-1), (Policy::Fifo(99), 0));
    }

    #[test]
    fn ticks_are_those_between() {
        let mut trace = TaskTrace::new(1, "a", ActivityLog::default());
        (trace.state, trace.since) = (State::Running, 3_999_999);
        // From 3.999999 ms to 8 ms there are ticks at 4 and 8 ms.
        trace.charge(8_000_000, 100, 4_000_000);
        trace.log.settle();
        assert_eq!(trace.log.activities, [crate::activity::Activity::Run(4_000_001 - 200)]);
    }
}
