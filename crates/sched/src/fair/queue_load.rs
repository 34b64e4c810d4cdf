//! The averages of one fair queue (`kernel/sched/fair.c`): what its entities add to them, and what they take away.

use crate::fair::cfs_rq::CfsRq;
use crate::fair::pelt::{CAPACITY_SHIFT, SchedAvg, at_least};

/// The part of `struct cfs_rq` that load tracking needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QueueLoad {
    pub(super) avg: SchedAvg,
    /// `removed`: what sleepers that went to another CPU took with them: how many, load, utilisation, runnable.
    pub(super) removed: (u32, u64, u64, u64),
    pub(super) propagate: bool,
    pub(super) prop_runnable_sum: i64,
    /// `tg_load_avg_contrib`: what the group's sum has of it.
    pub(super) contribution: i64,
    /// `last_update_tg_load_avg`.
    pub(super) contributed_at: u64,
    /// `throttled_clock_pelt` and `throttled_clock_pelt_time`.
    pub(super) throttled_at: u64,
    pub(super) throttled_time: u64,
}

impl QueueLoad {
    /// `cfs_rq_clock_pelt`: stands still while the queue is throttled.
    #[inline]
    pub(super) fn clock(&self, throttle_count: u32, clock_pelt: u64) -> u64 {
        let now = if throttle_count > 0 { self.throttled_at } else { clock_pelt };
        now.wrapping_sub(self.throttled_time)
    }
}

/// `update_cfs_rq_load_avg`: takes out what left, then brings the queue's sums up to `now`.
#[inline]
pub(super) fn update_cfs_rq_load_avg(queue: &CfsRq, load: &mut QueueLoad, now: u64) -> bool {
    let mut decayed = false;
    if load.removed.0 > 0 {
        let (_, removed_load, removed_util, removed_runnable) = std::mem::take(&mut load.removed);
        let divider = u64::from(load.avg.divider());
        subtract_load(&mut load.avg, removed_load, removed_load * divider);
        subtract_util(&mut load.avg, removed_util, removed_util * divider);
        subtract_runnable(&mut load.avg, removed_runnable, removed_runnable * divider);
        load.propagate = true;
        load.prop_runnable_sum += -((removed_runnable * divider) as i64) >> CAPACITY_SHIFT;
        decayed = true;
    }
    let (weight, runnable) = (queue.load.scaled >> 10, u64::from(queue.h_nr_running));
    if load.avg.update_sum(now, weight, runnable, queue.curr.is_some()) {
        load.avg.update_avg(1);
        decayed = true;
    }
    decayed
}

/// `attach_entity_load_avg`: the entity's averages join the queue's, at the queue's place in the period.
pub(super) fn attach_entity_load_avg(queue: &mut QueueLoad, avg: &mut SchedAvg, weight: u64) {
    let divider = u64::from(queue.avg.divider());
    (avg.last_update_time, avg.period_contrib) = (queue.avg.last_update_time, queue.avg.period_contrib);
    avg.util_sum = (avg.util_avg * divider) as u32;
    avg.runnable_sum = avg.runnable_avg * divider;
    let load_sum = avg.load_avg * divider;
    avg.load_sum = if weight < load_sum { load_sum / weight.max(1) } else { 1 };
    queue.avg.load_avg += avg.load_avg;
    queue.avg.load_sum += weight * avg.load_sum;
    queue.avg.util_avg += avg.util_avg;
    queue.avg.util_sum = queue.avg.util_sum.wrapping_add(avg.util_sum);
    queue.avg.runnable_avg += avg.runnable_avg;
    queue.avg.runnable_sum += avg.runnable_sum;
    queue.propagate = true;
    queue.prop_runnable_sum += avg.load_sum as i64;
}

/// `detach_entity_load_avg`.
pub(super) fn detach_entity_load_avg(queue: &mut QueueLoad, avg: &SchedAvg, weight: u64) {
    subtract_load(&mut queue.avg, avg.load_avg, weight * avg.load_sum);
    subtract_util(&mut queue.avg, avg.util_avg, u64::from(avg.util_sum));
    subtract_runnable(&mut queue.avg, avg.runnable_avg, avg.runnable_sum);
    queue.propagate = true;
    queue.prop_runnable_sum -= avg.load_sum as i64;
}

pub(super) fn subtract_load(avg: &mut SchedAvg, average: u64, sum: u64) {
    avg.load_avg = avg.load_avg.saturating_sub(average);
    avg.load_sum = u64::from(at_least(avg.load_sum.saturating_sub(sum), avg.load_avg));
}

pub(super) fn subtract_util(avg: &mut SchedAvg, average: u64, sum: u64) {
    avg.util_avg = avg.util_avg.saturating_sub(average);
    avg.util_sum = at_least(u64::from(avg.util_sum).saturating_sub(sum), avg.util_avg);
}

pub(super) fn subtract_runnable(avg: &mut SchedAvg, average: u64, sum: u64) {
    avg.runnable_avg = avg.runnable_avg.saturating_sub(average);
    avg.runnable_sum = u64::from(at_least(avg.runnable_sum.saturating_sub(sum), avg.runnable_avg));
}
