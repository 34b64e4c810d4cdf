//! CPUs that go off line and come back: `sched_cpu_deactivate` to `sched_cpu_dying`, and `sched_cpu_activate` (`kernel/sched/core.c`).
//!
//! The driver gives every queue its clocks, takes the CPU off line ([`Sched::sched_cpu_deactivate`]), moves its tasks away one after the
//! other ([`Sched::balance_push`], then [`Sched::move_queued_task`]) and says how many CPUs are left ([`Sched::set_online_cpus`]).

use schedlab_model::{CpuId, TaskId};

use crate::bitmap::Bitmap;
use crate::decider::Decider;
use crate::hrtick::Hrtick;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `cpu_active`.
    #[inline]
    pub fn is_online(&self, cpu: CpuId) -> bool {
        self.offline.as_ref().is_none_or(|offline| !offline.contains(cpu.index()))
    }

    /// What `stop_one_cpu` does to the running task: it is put back on its CPU's queue, and the CPU runs no task. The driver moves the task
    /// ([`Sched::move_queued_task`]) and has the CPU schedule. The queue must have its clocks.
    pub fn stop_current(&mut self, cpu: CpuId) {
        let curr = self.curr(cpu);
        if curr == TaskId::IDLE {
            return;
        }
        self.update_curr(cpu);
        self.put_prev_task(cpu, curr);
        let rq = &mut self.rqs[cpu.index()];
        (rq.curr, rq.need_resched) = (TaskId::IDLE, false);
    }

    /// `sched_cpu_deactivate`: no task is placed on this CPU any more, and its current task makes way for the stopper. Its tasks are
    /// still queued.
    pub fn sched_cpu_deactivate(&mut self, cpu: CpuId) {
        let cpus = self.rqs.len();
        self.offline.get_or_insert_with(|| Box::new(Bitmap::new(cpus))).insert(cpu.index());
        let curr = self.curr(cpu);
        if curr != TaskId::IDLE {
            self.update_curr(cpu);
        }
        self.rq_offline(cpu);
        self.put_prev_task(cpu, curr);
        let rq = &mut self.rqs[cpu.index()];
        (rq.curr, rq.need_resched) = (TaskId::IDLE, false);
        rq.hrtick = Hrtick::default();
        self.idle_cpus.remove(cpu.index());
        if self.balance.on() {
            self.balance.nohz.idle_cpus.remove(cpu.index());
            self.rebuild_domains(None);
        }
    }

    /// `__balance_push_cpu_stop`: the task that would run next on a CPU that goes off line, and the CPU to move it to; none once there
    /// are no more. Delayed tasks are dequeued on the way.
    pub fn balance_push(&mut self, cpu: CpuId) -> Option<(TaskId, CpuId)> {
        let task = self.pick_next_task(cpu);
        self.rqs[cpu.index()].need_resched = false;
        (task != TaskId::IDLE).then(|| (task, self.select_fallback_rq(task)))
    }

    /// `sched_cpu_activate`: the CPU is back, and idle.
    pub fn sched_cpu_activate(&mut self, cpu: CpuId) {
        if let Some(offline) = &mut self.offline {
            offline.remove(cpu.index());
        }
        self.rq_online(cpu);
        self.idle_cpus.insert(cpu.index());
        if let Some(state) = self.balance_of_mut(cpu) {
            // It idles without a tick.
            state.tick_stopped = true;
            self.balance.nohz.idle_cpus.insert(cpu.index());
            self.rebuild_domains(Some(cpu));
        }
    }

    /// `select_fallback_rq`, but for the choice among CPUs that will do: the kernel takes the first and leaves it to the balancer to
    /// spread tasks again; here it is the one with the fewest. A task that may run on none of those left may run on all of them
    /// from then on.
    pub(crate) fn select_fallback_rq(&mut self, task: TaskId) -> CpuId {
        self.mend_affinity(task);
        self.least_loaded_for(task, CpuId(0))
    }

    /// Where no CPU on which the task may run is on line, it may run on all.
    pub(crate) fn mend_affinity(&mut self, task: TaskId) {
        if self.offline.is_none() {
            return;
        }
        let record = &self.tasks[task.index()];
        let usable = |cpu: &CpuId| self.is_online(*cpu) && record.may_run_on(*cpu);
        if !(0..self.rqs.len() as u32).map(CpuId).any(|cpu| usable(&cpu)) {
            self.tasks[task.index()].affinity = None;
        }
    }

    /// `rq_offline_fair` (`unthrottle_offline_cfs_rqs`) and `rq_offline_rt` (`__disable_runtime`): nothing is throttled here any more,
    /// so that all can leave.
    fn rq_offline(&mut self, cpu: CpuId) {
        for group in 0..self.groups.len() {
            let Some((queue, _)) = self.groups[group].cpus.get(cpu.index()).copied().flatten() else { continue };
            let record = &mut self.cfs_rqs[queue.index()];
            if std::mem::take(&mut record.runtime_enabled) {
                record.runtime_remaining = 1;
                if record.throttled {
                    self.unthrottle_cfs_rq(queue);
                }
            }
        }
        if self.rules.rt_runtime().is_some() {
            self.disable_rt_runtime(cpu);
        }
    }

    /// `rq_online_fair` (`update_runtime_enabled`) and `rq_online_rt` (`__enable_runtime`).
    fn rq_online(&mut self, cpu: CpuId) {
        for group in 0..self.groups.len() {
            if let Some((queue, _)) = self.groups[group].cpus.get(cpu.index()).copied().flatten() {
                self.cfs_rqs[queue.index()].runtime_enabled = self.groups[group].bandwidth.quota.is_some();
            }
        }
        self.enable_rt_runtime(cpu);
    }
}
