//! The one point through which every decision passes.

use schedlab_model::{CpuId, Reason, TaskId};

use crate::balance::env::Idle;
use crate::entity::{EntityId, Vruntime};

/// A pick among fair tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// The CPU that picks.
    pub cpu: CpuId,
    /// How many tasks could have been picked.
    pub candidates: u32,
    /// What the naive rule would pick: the first of the timeline, no buddies, no eligibility.
    pub naive: TaskId,
    /// Whether `ours` is a delayed task (EEVDF's delayed dequeue): when picked it is dequeued, and another pick follows.
    pub delayed: bool,
}

/// Why the running task may have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// Its slice is looked at on a tick, with so many tasks on the queue.
    Tick {
        /// The CPU.
        cpu: CpuId,
    },
    /// `woken` became runnable beside it.
    Wakeup {
        /// The CPU.
        cpu: CpuId,
        /// The woken task.
        woken: TaskId,
    },
}

/// A CPU looks at one of its domains for tasks to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    /// The CPU.
    pub cpu: CpuId,
    /// How it stands.
    pub idle: Idle,
    /// Whether a task waits on another CPU of the domain.
    pub waits: bool,
    /// The task that the rules would take first, and its CPU.
    pub ours: Option<(TaskId, CpuId)>,
}

/// Takes part in each decision: gets ours, gives back the one that stands.
pub trait Decider {
    /// Whether it asks for reasons. Where it does not, none is made.
    #[inline(always)]
    fn explains(&self) -> bool {
        false
    }

    /// Takes a decision of the rules with its reason: ours, whichever stands.
    fn explain(&mut self, _cpu: CpuId, _reason: Reason) {}

    /// The task to run next; there may be only one candidate.
    fn pick(&mut self, pick: Pick, ours: TaskId) -> TaskId;

    /// Whether the running task is to be rescheduled.
    fn preempt(&mut self, preemption: Preemption, ours: bool) -> bool;

    /// The virtual time at which a task was placed.
    fn place(&mut self, task: TaskId, ours: Vruntime) -> Vruntime;

    /// The CPU on which a waking or new task is queued.
    fn select_cpu(&mut self, task: TaskId, ours: CpuId) -> CpuId;

    /// `enqueue_task_fair` begins.
    #[inline(always)]
    fn enqueues(&mut self) {}

    /// The weight that a group's entity gets of its group's shares, in place of the one it has; with the ten extra bits.
    #[inline(always)]
    fn group_weight(&mut self, _entity: EntityId, _before: u64, ours: u64) -> u64 {
        ours
    }

    /// Where an entity stands as the kernel sets it to run, before its weight in a single timeline (7.3) follows its groups'.
    #[inline(always)]
    fn set_next(&mut self, _entity: EntityId, _vruntime: Vruntime, _deadline: Vruntime) {}

    /// The CPU from whose queue `cpu` takes tasks, as load is balanced; none if that is balanced.
    #[inline]
    fn balance(&mut self, _cpu: CpuId, _idle: Idle, ours: Option<CpuId>) -> Option<CpuId> {
        ours
    }

    /// Balancing while the recording says which tasks move ([`Sched::follow_balancing`](crate::Sched::follow_balancing)): `pull` has the
    /// first task that the rules would take, and its CPU. Returns the CPU from which a task is taken; `within`: the CPUs that are searched.
    #[inline]
    fn pull(&mut self, pull: Pull, _within: impl Fn(CpuId) -> bool) -> Option<CpuId> {
        pull.ours.map(|(_, from)| from)
    }
}

/// The engine's decider: what the rules say stands.
#[derive(Debug, Clone, Default)]
pub struct Ours {
    reasons: Option<Vec<(CpuId, Reason)>>,
}

impl Ours {
    /// One that keeps each decision's reason until it is taken ([`Ours::take_reasons`]).
    pub const fn explaining() -> Self {
        Self { reasons: Some(Vec::new()) }
    }

    /// The decisions since this was last called, in order, each with its CPU.
    pub fn take_reasons(&mut self) -> Vec<(CpuId, Reason)> {
        self.reasons.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Decider for Ours {
    #[inline(always)]
    fn explains(&self) -> bool {
        self.reasons.is_some()
    }

    fn explain(&mut self, cpu: CpuId, reason: Reason) {
        if let Some(reasons) = &mut self.reasons {
            reasons.push((cpu, reason));
        }
    }

    #[inline]
    fn pick(&mut self, _: Pick, ours: TaskId) -> TaskId {
        ours
    }

    #[inline]
    fn preempt(&mut self, _: Preemption, ours: bool) -> bool {
        ours
    }

    #[inline]
    fn place(&mut self, _: TaskId, ours: Vruntime) -> Vruntime {
        ours
    }

    #[inline]
    fn select_cpu(&mut self, _: TaskId, ours: CpuId) -> CpuId {
        ours
    }
}
