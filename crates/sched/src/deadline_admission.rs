//! Which deadline tasks a machine takes: the admission test of `__sched_setscheduler` (`kernel/sched/deadline.c`).

use schedlab_model::{Attributes, TaskId};

use crate::deadline::{BW_SHIFT, DlEntityId, to_ratio};
use crate::decider::Decider;
use crate::error::SchedError;
use crate::machine::Sched;
use crate::rules::Rules;
use crate::timers::Timer;

impl Rules {
    /// `dl_bw.bw`: the bandwidth that deadline tasks may have on each CPU, `rt_runtime / rt_period`; none where there is no limit.
    fn dl_bw(&self) -> Option<u64> {
        let runtime = self.tunables.rt_runtime?;
        Some(to_ratio(self.tunables.rt_period.as_nanos(), runtime.as_nanos()))
    }

    /// The bandwidth of each CPU's fair server, which counts among the deadline tasks' from 6.12 on.
    pub(crate) fn fair_server_bw(&self) -> u64 {
        to_ratio(self.tunables.fair_server_period.as_nanos(), self.tunables.fair_server_runtime.as_nanos())
    }
}

/// A bandwidth in thousandths of a CPU, for people.
fn thousandths(bandwidth: u64) -> u64 {
    (bandwidth * 1000) >> BW_SHIFT
}

impl<D: Decider> Sched<D> {
    /// Whether `sched_setattr(2)` would let a task have these attributes: `__checkparam_dl`, the affinity's test and
    /// `sched_dl_overflow`. `task` is the task that asks, none for one to be made. Ask before [`Sched::sched_setattr`] and
    /// [`Sched::new_task`], which trust their callers. Attributes of other policies pass.
    ///
    /// # Errors
    /// [`SchedError`]: what the kernel would say, and why.
    pub fn sched_dl_overflow(&self, task: Option<TaskId>, attributes: &Attributes) -> Result<(), SchedError> {
        let schedlab_model::Policy::Deadline { runtime, period, .. } = attributes.policy else { return Ok(()) };
        if !self.rules.deadline_class {
            return Err(SchedError::NoDeadlines);
        }
        if let Some(fault) = attributes.policy.fault() {
            return Err(SchedError::Parameters { fault });
        }
        let cpus = self.rqs.len();
        let everywhere = (0..cpus as u32).all(|cpu| attributes.affinity.contains(&cpu));
        if !attributes.affinity.is_empty() && !everywhere {
            return Err(SchedError::DeadlineAffinity);
        }
        let Some(each) = self.rules.dl_bw() else { return Ok(()) };
        if each == 0 {
            return Err(SchedError::NoBandwidth);
        }
        let old = task
            .and_then(|task| self.tasks[task.index()].dl.filter(|_| self.tasks[task.index()].policy.is_deadline()))
            .map_or(0, |id| self.dl_entities[id.index()].dl_bw);
        let asked = to_ratio(period.as_nanos(), runtime.as_nanos());
        // __dl_overflow
        let all = each * cpus as u64;
        if all < self.dl_total_bw - old + asked {
            let [asked, total, limit] = [asked, self.dl_total_bw - old, all].map(thousandths);
            return Err(SchedError::Bandwidth { asked, total, limit });
        }
        Ok(())
    }

    /// Whether `task` may fork: a deadline task may not, as its child's bandwidth would not be admitted (`sched_fork`).
    ///
    /// # Errors
    /// [`SchedError::DeadlineFork`].
    pub fn may_fork(&self, task: TaskId) -> Result<(), SchedError> {
        if self.tasks[task.index()].policy.is_deadline() { Err(SchedError::DeadlineFork) } else { Ok(()) }
    }

    /// Books a task's bandwidth in place of what it had.
    pub(crate) fn book_dl_bandwidth(&mut self, id: DlEntityId, old: u64) {
        let entity = &mut self.dl_entities[id.index()];
        let bandwidth = entity.dl_bw;
        self.dl_total_bw = self.dl_total_bw - old + bandwidth;
        if let Some((expires, left)) = entity.inactive.take() {
            // It is back before what it had was free.
            self.dl_total_bw -= left;
            self.timers.cancel(expires, Timer::Inactive(id));
        }
    }

    /// `task_non_contending` of a task that leaves for good: its bandwidth is free at its 0-lag time, when its runtime left would
    /// have been used at its own pace; at once if that is past.
    pub(crate) fn release_dl_bandwidth(&mut self, id: DlEntityId, now: u64) {
        let entity = &mut self.dl_entities[id.index()];
        let lag = i128::from(entity.runtime) * i128::from(entity.dl_period) / i128::from(entity.dl_runtime.max(1));
        let zero_lag = i128::from(entity.deadline) - lag;
        if zero_lag < i128::from(now) {
            self.dl_total_bw -= entity.dl_bw;
            self.dl_clear_params(id);
            return;
        }
        let expires = u64::try_from(zero_lag).unwrap_or(u64::MAX);
        entity.inactive = Some((expires, entity.dl_bw));
        self.timers.arm(expires, Timer::Inactive(id));
    }

    /// `inactive_task_timer` of a task that is gone.
    pub(crate) fn inactive_task_timer(&mut self, id: DlEntityId) {
        if let Some((_, bandwidth)) = self.dl_entities[id.index()].inactive.take() {
            self.dl_total_bw -= bandwidth;
            self.dl_clear_params(id);
        }
    }

    /// `__dl_clear_params`, except that the parameters of the old reservation stay.
    fn dl_clear_params(&mut self, id: DlEntityId) {
        let entity = &mut self.dl_entities[id.index()];
        (entity.throttled, entity.yielded) = (false, false);
    }

    /// The bandwidth that deadline tasks and fair servers have, all CPUs together, in units of 2⁻²⁰ CPUs (`dl_bw.total_bw`).
    pub const fn dl_total_bandwidth(&self) -> u64 {
        self.dl_total_bw
    }
}
