//! `sched_balance_update_blocked_averages` (`kernel/sched/fair.c`): averages of a CPU that were not updated for a while; and the time that real-time
//! and deadline tasks use there.

use schedlab_model::CpuId;

use crate::class::Class;
use crate::decider::Decider;
use crate::fair::group::GroupId;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `sched_balance_update_blocked_averages` (`update_blocked_averages` before 6.10).
    #[doc(alias = "update_blocked_averages")]
    pub(crate) fn sched_balance_update_blocked_averages(&mut self, cpu: CpuId) {
        self.update_rq_clock(cpu);
        let class = self.curr_class(cpu);
        self.update_class_load_avg(cpu, Class::Rt, class == Class::Rt);
        self.update_class_load_avg(cpu, Class::Deadline, class == Class::Deadline);
        let mut blocked = false;
        // From the bottom up: groups are made after those above them.
        for group in (1..self.groups.len()).rev() {
            if let Some((queue, se)) = self.groups[group].cpus.get(cpu.index()).copied().flatten() {
                blocked |= self.update_blocked_queue(queue, Some(se));
            }
        }
        debug_assert_eq!(GroupId::ROOT.0, 0);
        blocked |= self.update_blocked_queue(self.rqs[cpu.index()].cfs, None);
        let now = self.jiffies(cpu);
        let state = &mut self.rqs[cpu.index()].balance;
        blocked |= state.avg_rt.util_avg > 0 || state.avg_dl.util_avg > 0;
        state.last_blocked_update = now;
        if !blocked {
            state.has_blocked_load = false;
        }
    }

    /// `update_rt_rq_load_avg` and `update_dl_rq_load_avg`: `running` says whether the class ran until now.
    #[inline]
    pub(crate) fn update_class_load_avg(&mut self, cpu: CpuId, class: Class, running: bool) {
        if !self.balance.on() {
            return;
        }
        let rq = &mut self.rqs[cpu.index()];
        let (now, state) = (rq.clock_pelt, &mut rq.balance);
        let avg = if class == Class::Rt { &mut state.avg_rt } else { &mut state.avg_dl };
        let one = u64::from(running);
        if avg.update_sum(now, one, one, running) {
            avg.update_avg(1);
        }
    }

    /// `scale_rt_capacity`: what real-time and deadline tasks leave of a CPU, of 1024.
    pub(super) fn scale_rt_capacity(&self, cpu: CpuId) -> u64 {
        let state = &self.rqs[cpu.index()].balance;
        let used = state.avg_rt.util_avg + state.avg_dl.util_avg;
        if used >= 1024 { 1 } else { 1024 - used }
    }
}
