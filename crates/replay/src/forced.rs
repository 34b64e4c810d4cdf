//! The decider of a replay: notes what ours would be, gives back what the kernel did.

use schedlab_model::{CpuId, TaskId};
use schedlab_sched::{Decider, Pick, Preemption, Vruntime};

/// What the kernel did in the coming step, and what the rules said to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forced {
    /// The task the kernel picked; ours if it picked none.
    pub(crate) kernels_pick: Option<TaskId>,
    /// Whether the kernel rescheduled.
    pub(crate) kernels_preempt: bool,
    /// Our pick.
    pub(crate) pick: Option<(Pick, TaskId)>,
    /// Our answer to a tick or a wake-up.
    pub(crate) preempt: Option<(Preemption, bool)>,
    /// Where ours placed a task.
    pub(crate) place: Option<(TaskId, Vruntime)>,
}

impl Forced {
    /// Prepares for a step in which the kernel did this.
    pub(crate) fn expect(&mut self, pick: Option<TaskId>, preempt: bool) {
        *self = Self { kernels_pick: pick, kernels_preempt: preempt, ..Self::default() };
    }
}

impl Decider for Forced {
    fn pick(&mut self, pick: Pick, ours: TaskId) -> TaskId {
        self.pick = Some((pick, ours));
        self.kernels_pick.unwrap_or(ours)
    }

    fn preempt(&mut self, preemption: Preemption, ours: bool) -> bool {
        self.preempt = Some((preemption, ours));
        self.kernels_preempt
    }

    /// Where the kernel placed it is seen only later; ours stands, and is compared then.
    fn place(&mut self, task: TaskId, ours: Vruntime) -> Vruntime {
        self.place = Some((task, ours));
        ours
    }

    fn select_cpu(&mut self, _: TaskId, ours: CpuId) -> CpuId {
        ours
    }
}
