//! What a task was seen to do, compactly: recordings have millions of it.

use std::mem::take;

use schedlab_model::Costs;

/// One step that a task was seen to take. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Used so much CPU time, net of what the simulator charges by itself.
    Run(u64),
    /// Slept so long, until a timer, an interrupt or a task outside the workload woke it.
    Sleep(u64),
    /// Slept until its own high-resolution timer expired, so long after its last one or after the beginning.
    Timer(u64),
    /// Slept until another task woke it.
    Await,
    /// Woke the task of this number.
    Wake(u32),
    /// Woke several tasks in one system call: a number of [`WakeGroups`](crate::wake_group::WakeGroups).
    WakeAll(u32),
    /// Made the task of this number.
    Fork(u32),
    /// Changed: an index into all changes.
    Set(u32),
}

/// The cause of a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Another task of the workload.
    Task(u32),
    /// A high-resolution timer of a sleeper (`hrtimer_wakeup`).
    Timer,
    /// Another interrupt, or work done after one: the timer wheel, a device, the network.
    Interrupt,
    /// No cause that the recording shows.
    Unknown,
}

/// A sleep that was ended by a timer: how long it was, and when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// The number of the task's step.
    pub(crate) at: usize,
    /// When it ended.
    pub(crate) time: u64,
}

/// The steps of one task, and the CPU time that was not put down yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActivityLog {
    pub(crate) activities: Vec<Activity>,
    /// Of the sleeps that timers ended.
    pub(crate) expiries: Vec<Expiry>,
    /// CPU time since the last step.
    run: u64,
    /// Modelled costs within that time that are still to be taken off.
    owed: u64,
    /// Those of interrupts and preemptions, which are a part of computing by the clock.
    interrupts: u64,
    /// What the simulator charges for each operation.
    operation: u64,
    /// What it charges beyond that where one computes for [`Costs::CLOCKED`] or longer.
    compute: u64,
    /// What was taken off.
    pub(crate) costs: u64,
}

impl ActivityLog {
    /// One of whose doings each costs so much, and computing so much more.
    pub(crate) fn charging(operation: u64, compute: u64) -> Self {
        Self { operation, compute, ..Self::default() }
    }

    pub(crate) fn ran(&mut self, time: u64) {
        self.run = self.run.saturating_add(time);
    }

    /// Something happened that the simulator will charge for.
    pub(crate) fn owes(&mut self, cost: u64) {
        self.owed = self.owed.saturating_add(cost);
    }

    /// An interrupt, or a preemption, that the simulator will charge for unless it comes while one computes by the clock.
    pub(crate) fn interrupted(&mut self, cost: u64) {
        self.interrupts = self.interrupts.saturating_add(cost);
    }

    /// Part of an interrupt that the simulator will not charge for after all.
    pub(crate) fn spared(&mut self, cost: u64) {
        self.interrupts = self.interrupts.saturating_sub(cost);
    }

    /// A switch away or back: an interrupt where one has begun to compute.
    pub(crate) fn switched(&mut self, cost: u64) {
        if self.run > self.owed.saturating_add(Costs::CLOCKED.as_nanos()) {
            self.interrupted(cost)
        } else {
            self.owes(cost)
        }
    }

    /// Modelled costs that were longer than the time in which they happened.
    pub(crate) fn uncovered(&self) -> u64 {
        self.owed
    }

    /// Puts the CPU time down, net of costs; what costs exceed it by is taken off what follows.
    pub(crate) fn settle(&mut self) {
        let (run, interrupts) = (take(&mut self.run), take(&mut self.interrupts));
        // Computing is an operation, too, where any of it is left.
        let left = |owed: u64| run.saturating_sub(owed.saturating_add(self.operation));
        if self.compute > 0 && left(self.owed) >= self.compute.saturating_add(Costs::CLOCKED.as_nanos()) {
            self.owed += self.operation + self.compute;
        } else {
            self.owed = self.owed.saturating_add(interrupts);
            self.owed += if left(self.owed) > 0 { self.operation } else { 0 };
        }
        let covered = self.owed.min(run);
        self.owed -= covered;
        self.costs += covered;
        if run > covered {
            self.activities.push(Activity::Run(run - covered));
        }
    }

    /// Puts down what it did after what it ran.
    pub(crate) fn did(&mut self, activity: Activity) {
        self.owes(self.operation);
        self.settle();
        self.activities.push(activity);
    }

    /// Woke one more task in the system call in which it woke those before, which may cost it so much more; `join` has that one join them.
    ///
    /// The time between the wake-ups is the kernel's own, and no preemption falls into it: it goes before the first of them. False where the
    /// last doing is no wake-up.
    pub(crate) fn woke_too(&mut self, cost: u64, join: impl FnOnce(Activity) -> Activity) -> bool {
        let Some(woke @ (Activity::Wake(_) | Activity::WakeAll(_))) = self.activities.last().copied() else {
            return false;
        };
        let first = self.activities.len() - 1;
        self.owes(cost);
        self.settle();
        let time = match self.activities.get(first + 1) {
            Some(Activity::Run(time)) => *time,
            _ => 0,
        };
        self.activities.truncate(first);
        match self.activities.last_mut() {
            Some(Activity::Run(before)) => *before = before.saturating_add(time),
            _ if time > 0 => self.activities.push(Activity::Run(time)),
            _ => {}
        }
        self.activities.push(join(woke));
        true
    }

    /// A sleep that a timer ended.
    pub(crate) fn timed(&mut self, slept: u64, time: u64) {
        self.owes(self.operation);
        self.settle();
        self.expiries.push(Expiry { at: self.activities.len(), time });
        self.activities.push(Activity::Sleep(slept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake_group::WakeGroups;

    #[test]
    fn a_doing_is_two_words() {
        assert!(size_of::<Activity>() <= 16);
    }

    #[test]
    fn tasks_woken_in_one_call_are_one_doing() {
        let (mut log, mut groups) = (ActivityLog::default(), WakeGroups::default());
        log.ran(100);
        assert!(!log.woke_too(0, |woke| groups.add(woke, 1)), "it woke none before");
        log.did(Activity::Wake(1));
        // 30 and 20 between the wake-ups, of which 5 each are charged for; then 7 until it sleeps.
        for (task, time) in [(2, 30), (3, 20)] {
            log.ran(time);
            assert!(log.woke_too(5, |woke| groups.add(woke, task)));
        }
        log.ran(7);
        log.did(Activity::Await);
        assert_eq!(log.activities, [Activity::Run(140), Activity::WakeAll(0), Activity::Run(7), Activity::Await]);
        assert_eq!((groups.of(0), log.costs), (&[1, 2, 3][..], 10));
        // A waker that did not run before its first wake-up has the time in front of it as well.
        let mut log = ActivityLog::default();
        log.did(Activity::Wake(1));
        log.ran(9);
        assert!(log.woke_too(0, |woke| groups.add(woke, 2)));
        assert_eq!(log.activities, [Activity::Run(9), Activity::WakeAll(1)]);
    }

    #[test]
    fn every_operation_is_charged() {
        let mut log = ActivityLog::charging(10, 0);
        // Two operations: 80 of 100 are left to compute. Then one that there is no time for: it is taken off what follows.
        log.ran(100);
        log.did(Activity::Await);
        log.did(Activity::Wake(1));
        log.ran(50);
        log.settle();
        assert_eq!(log.activities, [Activity::Run(80), Activity::Await, Activity::Wake(1), Activity::Run(30)]);
        assert_eq!((log.costs, log.uncovered()), (40, 0));
    }

    #[test]
    fn computing_is_charged_where_it_is_long_enough_for_clocks() {
        let mut log = ActivityLog::charging(10, 300);
        // Two operations, and the clocks: 5000 − 10 − 10 − 300. Then 1319 − 320 would be less than a microsecond, which looks at none.
        for ran in [5_000, 1_319, 1_320] {
            log.ran(ran);
            log.did(Activity::Await);
        }
        let runs = [4_680, 1_299, 1_000].map(|left| [Activity::Run(left), Activity::Await]);
        assert_eq!(log.activities, runs.concat());
    }

    #[test]
    fn interrupts_are_a_part_of_computing_by_the_clock() {
        // 5000 less the operation's 10, and the clocks' 300 or the interrupt's 400.
        for (compute, left) in [(300, 4_690), (0, 4_590)] {
            let mut log = ActivityLog::charging(10, compute);
            log.ran(5_000);
            log.interrupted(400);
            log.settle();
            assert_eq!(log.activities, [Activity::Run(left)]);
        }
    }

    #[test]
    fn costs_are_taken_off_once() {
        let mut log = ActivityLog::default();
        log.ran(100);
        log.owes(30);
        log.did(Activity::Await);
        // 40 of which 25 are owed, and 60 that only 10 of 70 are left of.
        log.ran(10);
        log.owes(25);
        log.did(Activity::Wake(1));
        log.ran(50);
        log.settle();
        assert_eq!(log.activities, [Activity::Run(70), Activity::Await, Activity::Wake(1), Activity::Run(35)]);
        assert_eq!((log.costs, log.uncovered()), (55, 0));
    }
}
