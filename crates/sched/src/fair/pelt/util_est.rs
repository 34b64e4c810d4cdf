//! Estimated utilisation (`util_est_enqueue`, `util_est_dequeue` and `util_est_update`, `kernel/sched/fair.c`; feature UTIL_EST, on by
//! default): `util_avg` fades while a task sleeps; what it had as it last went to sleep tells better what it will take when it wakes.
//!
//! A CPU's utilisation, as balancing and searches for idle CPUs see it, is at least the sum of its queued tasks' estimates.

use schedlab_model::{CpuId, RuleSet, TaskId};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::{CfsRqId, EntityId};
use crate::fair::pelt::SchedAvg;
use crate::machine::Sched;

/// `UTIL_EST_MARGIN`: a hundredth of a CPU.
const MARGIN: u64 = 1024 / 100;

/// `UTIL_EST_WEIGHT_SHIFT`: a new sample counts a quarter.
const WEIGHT_SHIFT: u32 = 2;

/// `UTIL_AVG_UNCHANGED`: no period ended since the estimate was last looked at. In 16 bits, as is all here: utilisation is 1024 at most.
const UNCHANGED: u16 = 1 << 15;

/// `struct util_est` of a task: up to 6.7 both, later `ewma` alone. The flag is in `enqueued`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UtilEst {
    /// Moving average of the utilisation with which activations ended; follows at once where that grows.
    ewma: u16,
    /// The utilisation with which the last activation ended (CFS).
    enqueued: u16,
}

impl UtilEst {
    /// An estimate that a recording tells of, with the kernel's flag in bit 31 of whichever field holds it.
    pub(crate) fn told(ewma: u64, enqueued: u64) -> Self {
        let flag = if (ewma | enqueued) & (1 << 31) != 0 { UNCHANGED } else { 0 };
        let low = |value: u64| (value & 0x7fff) as u16;
        Self { ewma: low(ewma), enqueued: low(enqueued) | flag }
    }

    /// `_task_util_est`.
    #[inline]
    pub(crate) fn value(self) -> u64 {
        u64::from(self.ewma.max(self.enqueued & !UNCHANGED))
    }

    /// `cfs_se_util_change`: a period ended.
    #[inline]
    pub(crate) fn changed(&mut self) {
        self.enqueued &= !UNCHANGED;
    }

    /// `util_est_update`: an activation ended with these averages.
    #[inline(always)]
    pub(crate) fn update(&mut self, avg: &SchedAvg, rules: &RuleSet) {
        if rules.util_est_ewma_only { self.update_as::<true>(avg, rules) } else { self.update_as::<false>(avg, rules) }
    }

    /// [`UtilEst::update`] with `util_est_ewma_only` known when compiled.
    #[inline(always)]
    pub(crate) fn update_as<const EWMA_ONLY: bool>(&mut self, avg: &SchedAvg, rules: &RuleSet) {
        if self.enqueued & UNCHANGED != 0 {
            return;
        }
        if EWMA_ONLY { self.update_one(avg, rules) } else { self.update_both(avg.util_avg) }
    }

    /// From 6.8 on. A task that waited for its CPU (its runnable time is above its running time) did not show what it would take.
    #[inline(always)]
    fn update_one(&mut self, avg: &SchedAvg, rules: &RuleSet) {
        let (ewma, ended) = (u64::from(self.ewma), avg.util_avg);
        let above = ewma.saturating_sub(ended);
        if above == 0 {
            self.ewma = ended as u16;
        } else if above >= MARGIN {
            if ended > 1024 && !rules.util_est_beyond_capacity {
                return;
            }
            if ended + MARGIN >= avg.runnable_avg {
                self.ewma = (((ewma << WEIGHT_SHIFT) - above) >> WEIGHT_SHIFT) as u16;
            }
        }
        self.enqueued |= UNCHANGED;
    }

    /// Up to 6.7.
    #[inline(always)]
    fn update_both(&mut self, ended: u64) {
        let within_margin = |difference: i64| difference.unsigned_abs() < MARGIN;
        let (ewma, before) = (i64::from(self.ewma), i64::from(self.enqueued));
        let above = ended as i64 - ewma;
        if above > 0 {
            self.ewma = ended as u16;
        } else if within_margin(above) {
            if within_margin(before - ended as i64) {
                return;
            }
        } else if ended > 1024 {
            return;
        } else {
            self.ewma = (((ewma << WEIGHT_SHIFT) + above) >> WEIGHT_SHIFT) as u16;
        }
        self.enqueued = ended as u16 | UNCHANGED;
    }
}

impl<D: Decider> Sched<D> {
    /// What is expected of a task when it runs next, 1024 for all of a CPU (`_task_util_est`); none where averages are not kept.
    pub fn util_est_of(&self, task: TaskId) -> Option<u64> {
        let entity = &self.entities[self.tasks[task.index()].se.index()];
        self.tracks_load.then(|| entity.pelt.util_est.value())
    }

    /// What is expected of all tasks that are queued on a CPU; none where averages are not kept.
    pub fn util_est_of_cpu(&self, cpu: CpuId) -> Option<u64> {
        let queue = &self.cfs_rqs[self.rqs[cpu.index()].cfs.index()];
        self.tracks_load.then(|| u64::from(queue.pelt.util_est))
    }

    /// A task's estimate, from elsewhere.
    pub(crate) fn set_util_est(&mut self, se: EntityId, estimate: UtilEst) {
        if self.tracks_load {
            self.entities[se.index()].pelt.util_est = estimate;
        }
    }

    /// What is expected of a root queue's tasks, from elsewhere.
    pub(crate) fn set_queue_util_est(&mut self, cfs: CfsRqId, expected: u32) {
        if self.tracks_load {
            self.cfs_rqs[cfs.index()].pelt.util_est = expected;
        }
    }

    /// The part of `enqueue_task_fair` that adds the task's estimate. A delayed task's estimate is removed when it goes to sleep and added
    /// when it wakes, not when it moves.
    #[inline]
    pub(crate) fn expect_util_of(&mut self, task: TaskId, flags: EnqueueFlags) {
        let record = &self.tasks[task.index()];
        if self.tracks_load && (!self.entities[record.se.index()].sched_delayed || flags.has(EnqueueFlags::DELAYED)) {
            self.util_est_enqueue(record.cpu, record.se);
        }
    }

    /// As a task is taken off, at the head of `dequeue_task_fair`.
    #[inline]
    pub(crate) fn expect_no_util_of(&mut self, task: TaskId, flags: DequeueFlags) {
        let record = &self.tasks[task.index()];
        let (cpu, se) = (record.cpu, record.se);
        if !self.tracks_load {
            return;
        }
        // 6.12 removes a delayed task's estimate a second time where a system call dequeues the task.
        let again =
            self.rules.util_est_dequeued_twice && !flags.has(DequeueFlags::SAVE) && !flags.has(DequeueFlags::MIGRATING);
        if !self.entities[se.index()].sched_delayed || again {
            self.util_est_dequeue(cpu, se);
        }
        if flags.has(DequeueFlags::SLEEP) && self.rules.util_est_before_dequeue {
            self.util_est_update(se);
        }
    }

    /// As a task was taken off, at the end of `dequeue_task_fair`: after its averages were brought up to date.
    #[inline]
    pub(crate) fn learn_util_of(&mut self, task: TaskId, flags: DequeueFlags) {
        let leaves = flags.has(DequeueFlags::SLEEP) && !flags.has(DequeueFlags::DELAYED);
        if self.tracks_load && leaves && !self.rules.util_est_before_dequeue {
            self.util_est_update(self.tasks[task.index()].se);
        }
    }

    /// `util_est_enqueue`.
    #[inline]
    pub(crate) fn util_est_enqueue(&mut self, cpu: CpuId, se: EntityId) {
        let root = self.rqs[cpu.index()].cfs;
        if self.tracks_load {
            self.cfs_rqs[root.index()].pelt.util_est += self.entities[se.index()].pelt.util_est.value() as u32;
        }
    }

    /// `util_est_dequeue`.
    #[inline]
    pub(crate) fn util_est_dequeue(&mut self, cpu: CpuId, se: EntityId) {
        let root = self.rqs[cpu.index()].cfs;
        if self.tracks_load {
            let estimate = self.entities[se.index()].pelt.util_est.value() as u32;
            let queue = &mut self.cfs_rqs[root.index()].pelt.util_est;
            *queue = queue.saturating_sub(estimate);
        }
    }

    /// `util_est_update` of a task that goes to sleep.
    #[inline]
    pub(crate) fn util_est_update(&mut self, se: EntityId) {
        if self.tracks_load {
            let load = &mut self.entities[se.index()].pelt;
            load.util_est.update(&load.avg, &self.rules);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn avg(util_avg: u64, runnable_avg: u64) -> SchedAvg {
        SchedAvg { util_avg, runnable_avg, ..SchedAvg::default() }
    }

    fn rules(release: &str) -> RuleSet {
        RuleSet::of(release.parse().unwrap())
    }

    /// The estimates after activations that ended with these utilisations, each alone on a CPU, a period apart.
    fn estimates(release: &str, ended: &[u64]) -> Vec<u64> {
        let mut estimate = UtilEst::default();
        let after = |util: &u64| {
            estimate.changed();
            estimate.update(&avg(*util, *util), &rules(release));
            estimate.value()
        };
        ended.iter().map(after).collect()
    }

    /// Growth is followed at once. Down goes a quarter of the way: 400 after 800 gives 800 − 400/4 = 700, then 700 − 300/4 = 625.
    /// Up to 6.7 the last end counts too where it is above the average: here it never is.
    #[test]
    fn growth_counts_at_once_and_decrease_by_a_quarter() {
        for release in ["5.10", "6.1", "6.12", "7.2"] {
            assert_eq!(estimates(release, &[100, 800, 400, 400]), [100, 800, 700, 625], "{release}");
        }
    }

    /// A hundredth, 10 of 1024, is a margin: 791 after 800 leaves 800; 790 gives 800 − 10/4 = 797 and a half, cut off.
    #[test]
    fn what_is_near_leaves_the_average() {
        for release in ["5.10", "6.1", "6.12", "7.2"] {
            assert_eq!(estimates(release, &[800, 791]), [800, 800], "{release}");
            assert_eq!(estimates(release, &[800, 790]), [800, 797], "{release}");
        }
    }

    /// From 6.8 on: 400 running of 411 runnable is more than a hundredth of waiting, and says nothing; of 410 it does.
    #[test]
    fn utilisation_of_a_task_that_waited_is_not_sampled() {
        for (runnable, left) in [(410, 700), (411, 800)] {
            let mut estimate = UtilEst { ewma: 800, enqueued: 0 };
            estimate.update(&avg(400, runnable), &rules("6.12"));
            assert_eq!(estimate.value(), left);
        }
        let mut estimate = UtilEst { ewma: 800, enqueued: 800 };
        estimate.update(&avg(400, 1024), &rules("6.1"));
        assert_eq!(estimate.value(), 700);
    }

    /// Until a period has ended nothing is learnt anew.
    #[test]
    fn an_estimate_stands_until_a_period_ends() {
        for release in ["6.1", "6.12"] {
            let mut estimate = UtilEst::default();
            estimate.update(&avg(500, 500), &rules(release));
            estimate.update(&avg(900, 900), &rules(release));
            assert_eq!(estimate.value(), 500, "{release}");
            estimate.changed();
            estimate.update(&avg(900, 900), &rules(release));
            assert_eq!(estimate.value(), 900, "{release}");
        }
    }
}
