//! What a recording is cut into: the sequences of core.c that it stands for.
//!
//! `probed.rs` finds them where the fair class's functions are probed (L1), `traced.rs` where there are tracepoints alone (L0, and
//! L0k with `place_entity` beside them).

use schedlab_model::Attributes;
use schedlab_trace::{Pid, RecordState, TaskRef};

use crate::read::cursor::{Placement, QueueView, Runtime, SetView};

/// `MAX_RT_PRIO`: priorities below it are real-time, deadline and stop tasks.
pub(crate) const FIRST_FAIR_PRIORITY: i32 = 100;

/// What `check_preempt_wakeup` (`check_preempt_wakeup_fair`) was asked, saw and did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check {
    pub(crate) woken: Pid,
    /// `WF_*`.
    pub(crate) flags: u32,
    /// Whether the running task was about to be rescheduled already.
    pub(crate) need_resched: bool,
    /// The queue, where the answer takes a look at it (EEVDF); the last look, where earlier ones dequeued delayed tasks.
    pub(crate) queue: Option<QueueView>,
    /// The answer; none if it is hidden, the running task being about to be rescheduled lazily anyway.
    pub(crate) resched: Option<bool>,
}

/// How a task comes to be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coming {
    /// Forked, for the first time.
    New,
    /// From sleep.
    Woken,
    /// From sleep, but it had not left the queue yet (EEVDF).
    Delayed,
    /// From sleep; whether it had left is not recorded.
    Awake,
}

/// One look of the fair class at its queue to pick a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) queue: QueueView,
    /// The picked task, if it is delayed and is dequeued now; another look follows then (EEVDF).
    pub(crate) delayed: Option<Pid>,
}

/// What is recorded of the picks of one schedule.
#[derive(Debug, Clone)]
pub(crate) enum Picks {
    /// Each look, and the task that was set (`set_next_task_fair`).
    Looks(Vec<Look>, Option<SetView>),
    /// Only the task that runs in the end.
    Outcome,
}

/// What changes of a task.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// `sched_move_task`.
    Group,
    /// `set_cpus_allowed`.
    Affinity,
    /// `set_user_nice` or `__sched_setscheduler`, of which the new weight is recorded.
    Weight(u64),
    /// The same, with what it is from now on; `moves` if `DEQUEUE_MOVE` is recorded.
    Attributes { moves: bool, attributes: Attributes },
}

/// What a system call asks for, where only its entry is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The calling task.
    pub(crate) by: Pid,
    /// The task that is to change.
    pub(crate) pid: Pid,
    /// The policy's number, if it is told; another one's affinity, nice level or priority change without one.
    pub(crate) policy: Option<u32>,
    /// The priority that the task is next seen with; none where the call is about affinity.
    pub(crate) priority: Option<i32>,
    /// Whether it is taken off its queue with `DEQUEUE_MOVE`: not by `set_user_nice`.
    pub(crate) moves: bool,
}

/// One critical section.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// `task_tick_fair`.
    Tick {
        runtime: Option<Runtime>,
        /// What was decided; none if that is hidden, the running task being about to be rescheduled anyway.
        resched: Option<bool>,
        /// Whether the slice's end was what it came for (`hrtick`): then the running task must go in any case.
        ends: bool,
    },
    /// `try_to_wake_up` or `wake_up_new_task` of a fair task.
    Wake { pid: Pid, coming: Coming, runtime: Option<Runtime>, placement: Option<Placement>, check: Option<Check> },
    /// `try_to_wake_up` of a task of a higher class, which the fair class's probes do not show.
    WakeHigher { task: &'a TaskRef },
    /// `check_preempt_curr` alone: a wake-up of a task that was still queued.
    Check { check: Check, runtime: Option<Runtime> },
    /// `sched_fork`, with the placement that CFS makes there.
    Fork { parent: Option<Pid>, child: Pid, runtime: Option<Runtime>, placement: Option<Placement> },
    /// `__schedule`.
    Schedule {
        dequeued: Option<Pid>,
        runtime: Option<Runtime>,
        picks: Picks,
        switch: Option<(&'a TaskRef, RecordState, &'a TaskRef)>,
    },
    /// A task is taken off its queue if it is on one, changed, and put back.
    Change {
        pid: Pid,
        what: Change,
        runtime: Option<Runtime>,
        set: Option<SetView>,
        check: Option<Check>,
        /// Whether the kernel rescheduled for it.
        resched: bool,
    },
    /// `wait_task_inactive`: a delayed task is dequeued.
    WaitInactive { pid: Pid, runtime: Option<Runtime> },
    /// `__schedule` before the record, which shows by the flag need_resched alone: no task was charged, and the running task runs on.
    PickAgain,
    /// As `PickAgain`, but it may also come after the record: neither the preemption count nor anything else shows which.
    MayPickAgain,
    /// `sched_yield(2)` was entered.
    Yield,
    /// `yield_task_fair`.
    YieldNow { runtime: Option<Runtime> },
    /// A system call that changes a task was entered; what it does shows in the next charge, if in anything.
    Ask(Asked),
    /// `update_curr` from elsewhere, such as reading a CPU clock.
    UpdateCurr { runtime: Runtime },
    /// Another class asked for a schedule.
    Asked,
    /// Nothing that concerns a queue.
    Nothing,
    /// A probe that no sequence explains.
    Unexplained,
}
