//! The idle class: what a CPU does when there is nothing to do.

use schedlab_model::{CpuId, TaskId};

use crate::class::Class;
use crate::decider::Decider;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// The class of the current task of `cpu`.
    #[inline]
    pub fn curr_class(&self, cpu: CpuId) -> Class {
        let curr = self.rqs[cpu.index()].curr;
        if curr == TaskId::IDLE { Class::Idle } else { self.tasks[curr.index()].class }
    }

    /// Whether `cpu` idles and nothing waits there (`idle_cpu`).
    #[inline]
    pub fn idle_cpu(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu.index()];
        // Where they are recorded, wake-ups may be on their way to it (`ttwu_pending`).
        let awaits = self.balance.recorded && !self.idle_cpus.contains(cpu.index());
        rq.curr == TaskId::IDLE && rq.nr_running == 0 && !awaits
    }
}
