//! The event schema of simulated and real runs: the kernel's scheduler tracepoints.

use crate::{Decision, Time};

/// A CPU, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

/// A task of a run. [`TaskId::IDLE`] is the idle task of whatever CPU the event names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    /// The idle task, as pid 0 in traces.
    pub const IDLE: Self = Self(u32::MAX);

    /// As an index into per-task tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl CpuId {
    /// As an index into per-CPU tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The state in which a task is switched out, as `sched_switch`'s `prev_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// `R`: still runnable; it was preempted or yielded.
    Running,
    /// `S`: asleep until something happens.
    Interruptible,
    /// `D`: asleep in the kernel.
    Uninterruptible,
    /// `T`: stopped, traced or parked until another task lets it go on: a special state (`is_special_task_state`), which EEVDF does not delay.
    Stopped,
    /// `X`: ended.
    Dead,
}

impl TaskState {
    /// The letter that ftrace prints.
    pub const fn letter(self) -> char {
        match self {
            Self::Running => 'R',
            Self::Interruptible => 'S',
            Self::Uninterruptible => 'D',
            Self::Stopped => 'T',
            Self::Dead => 'X',
        }
    }
}

/// One event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, since the start of the run.
    pub time: Time,
    /// On which CPU.
    pub cpu: CpuId,
    /// What.
    pub kind: EventKind,
}

/// The kind of an event; each variant is one of the kernel's tracepoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// `sched_process_fork`: `parent` made `child`.
    Fork {
        /// The parent, [`TaskId::IDLE`] for a task that is there from the start.
        parent: TaskId,
        /// The new task.
        child: TaskId,
    },
    /// `sched_waking` and `sched_wakeup`: `task` becomes runnable on `target`.
    Waking {
        /// The woken task.
        task: TaskId,
        /// The waker, [`TaskId::IDLE`] for an interrupt.
        waker: TaskId,
        /// The CPU it is queued on.
        target: CpuId,
    },
    /// `sched_wakeup_new`: a forked task becomes runnable on `target`.
    WakeupNew {
        /// The new task.
        task: TaskId,
        /// The CPU it is queued on.
        target: CpuId,
    },
    /// `sched_switch`.
    Switch {
        /// The task switched out.
        previous: TaskId,
        /// The state of the task switched out.
        state: TaskState,
        /// The task switched in.
        next: TaskId,
    },
    /// `sched_migrate_task`: a queued or waking task changes its CPU.
    Migrate {
        /// The task.
        task: TaskId,
        /// From where.
        from: CpuId,
        /// To where.
        to: CpuId,
    },
    /// `sched_process_exit`.
    Exit {
        /// The ending task.
        task: TaskId,
    },
    /// A mark that the workload itself sets (`Step::Mark`).
    Mark {
        /// The task that reached it.
        task: TaskId,
        /// The mark's index in the program.
        mark: u32,
    },
}

/// Virtual time of a fair task as it is switched in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// When, since the start of the run.
    pub time: Time,
    /// The task.
    pub task: TaskId,
    /// The task's virtual time in nanoseconds, on its queue's scale: each CPU and group has a scale of its own.
    pub vruntime: i64,
    /// The task's lag (EEVDF), the virtual service that it is owed; negative where it had more than its share.
    pub lag: Option<i64>,
    /// The task's virtual deadline (EEVDF), on the scale of `vruntime`.
    pub deadline: Option<i64>,
}

/// Takes events as they happen. The engine is generic over it, so that an unwatched run pays nothing.
pub trait EventSink {
    /// Whether events are wanted; a constant, so that unwatched runs do not even build events.
    const LISTENS: bool = true;

    /// Whether the sink takes the scheduler's decisions with their reasons. The run takes longer then; its outcome is the same.
    const EXPLAINS: bool = false;

    /// Takes one event. Events come in the order in which they happen.
    fn event(&mut self, event: Event);

    /// Takes a fair task's virtual time, after each switch of it in or out.
    #[inline]
    fn standing(&mut self, _: Standing) {}

    /// Takes a decision with its reason, before the events that it leads to.
    #[inline]
    fn decision(&mut self, _: Decision) {}

    /// Takes the CPUs on which a task may run (an empty list: all of them), where the sink asks for reasons: before the task's first event,
    /// and when they change.
    #[inline]
    fn affinity(&mut self, _: TaskId, _: &[u32]) {}
}

impl EventSink for Vec<Decision> {
    const EXPLAINS: bool = true;

    fn event(&mut self, _: Event) {}

    fn decision(&mut self, decision: Decision) {
        self.push(decision);
    }
}

impl EventSink for Vec<Standing> {
    fn event(&mut self, _: Event) {}

    fn standing(&mut self, standing: Standing) {
        self.push(standing);
    }
}

/// Takes no events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    const LISTENS: bool = false;

    #[inline]
    fn event(&mut self, _: Event) {}
}

impl EventSink for Vec<Event> {
    fn event(&mut self, event: Event) {
        self.push(event);
    }
}

impl<A: EventSink, B: EventSink> EventSink for (A, B) {
    const LISTENS: bool = A::LISTENS || B::LISTENS;
    const EXPLAINS: bool = A::EXPLAINS || B::EXPLAINS;

    #[inline]
    fn event(&mut self, event: Event) {
        self.0.event(event);
        self.1.event(event);
    }

    #[inline]
    fn standing(&mut self, standing: Standing) {
        self.0.standing(standing);
        self.1.standing(standing);
    }

    #[inline]
    fn decision(&mut self, decision: Decision) {
        match (A::EXPLAINS, B::EXPLAINS) {
            (true, true) => {
                self.0.decision(decision.clone());
                self.1.decision(decision);
            }
            (true, false) => self.0.decision(decision),
            (false, _) => self.1.decision(decision),
        }
    }

    #[inline]
    fn affinity(&mut self, task: TaskId, cpus: &[u32]) {
        self.0.affinity(task, cpus);
        self.1.affinity(task, cpus);
    }
}

impl<S: EventSink> EventSink for &mut S {
    const LISTENS: bool = S::LISTENS;
    const EXPLAINS: bool = S::EXPLAINS;

    #[inline]
    fn event(&mut self, event: Event) {
        (**self).event(event);
    }

    #[inline]
    fn standing(&mut self, standing: Standing) {
        (**self).standing(standing);
    }

    #[inline]
    fn decision(&mut self, decision: Decision) {
        (**self).decision(decision);
    }

    #[inline]
    fn affinity(&mut self, task: TaskId, cpus: &[u32]) {
        (**self).affinity(task, cpus);
    }
}
