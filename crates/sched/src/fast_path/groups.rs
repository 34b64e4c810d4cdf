//! Tasks of groups on the fast path.

use schedlab_model::{CpuId, TaskId, TaskState};

use crate::decider::Ours;
use crate::fast_path::wake::Wakeup;
use crate::machine::Sched;

impl Sched<Ours> {
    /// Whether groups have nothing but a weight: no quota, which throttles, and no `cpu.idle`.
    pub(super) fn has_plain_groups(&self) -> bool {
        self.groups.iter().all(|group| !group.idle && group.bandwidth.quota.is_none())
    }

    /// [`Sched::flat_wake`] where there are groups.
    #[inline(never)]
    pub(super) fn group_wake(&mut self, wakeup: Wakeup) {
        let (task, cpu) = (wakeup.task(), wakeup.cpu());
        self.rqs[cpu.index()].set_clocks_at(self.balance.now, self.pelt_origin);
        let woken = self.try_to_wake_up(task, cpu);
        debug_assert!(woken, "a task that sleeps");
    }

    /// [`Sched::flat_block`] where there are groups.
    #[inline(never)]
    pub(super) fn group_block(&mut self, cpu: CpuId) -> Option<TaskId> {
        let rq = &mut self.rqs[cpu.index()];
        rq.set_clocks_at(self.balance.now, self.pelt_origin);
        if rq.dl.first().is_some() || rq.balance.push_cpu.is_some() {
            return None;
        }
        Some(self.schedule(cpu, TaskState::Interruptible).next)
    }
}
