//! The averages of one fair queue (`kernel/sched/fair.c`): what its entities add to them, and what they take away.

use crate::fair::cfs_rq::CfsRq;
use crate::fair::pelt::rounding::{Removed, Sums};
use crate::fair::pelt::{CAPACITY_SHIFT, SchedAvg};

/// The part of `struct cfs_rq` that load tracking needs, in two cache lines but for what only groups need.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct QueueLoad {
    pub(crate) avg: SchedAvg,
    /// `util_est` of a root queue: what is expected of its queued tasks.
    pub(crate) util_est: u32,
    pub(crate) propagate: bool,
    /// `pelt_clock_throttled`: its clock stands still.
    pub(crate) stopped: bool,
    pub(crate) removed: Removed,
    /// `throttled_clock_pelt_time`: for how long it did.
    pub(crate) throttled_time: u64,
    pub(crate) prop_runnable_sum: i64,
    /// `tg_load_avg_contrib`: the part of this queue's load average that is in its group's sum.
    pub(crate) contribution: i64,
    /// `tg_runnable_avg_contrib`: the part of its runnable average that is in its group's sum (7.3).
    pub(crate) runnable_contribution: i64,
    /// `last_update_tg_load_avg`.
    pub(crate) contributed_at: u64,
    /// `throttled_clock_pelt`: since when it does.
    pub(crate) throttled_at: u64,
}

impl QueueLoad {
    /// `cfs_rq_clock_pelt`: stands still while the queue is throttled.
    #[inline]
    pub(crate) fn clock(&self, clock_pelt: u64) -> u64 {
        let now = if self.stopped { self.throttled_at } else { clock_pelt };
        now.wrapping_sub(self.throttled_time)
    }

    /// [`QueueLoad::clock`] of a queue that is never throttled.
    #[inline(always)]
    pub(crate) fn flat_clock(&self, clock_pelt: u64) -> u64 {
        debug_assert_eq!(self.clock(clock_pelt), clock_pelt);
        clock_pelt
    }

    /// Takes out what left since the queue was last looked at: whether anything did.
    #[inline(always)]
    pub(crate) fn take_out(&mut self, sums: Sums) -> bool {
        if self.removed.count == 0 {
            return false;
        }
        self.take_out_removed(sums);
        true
    }

    /// The same where something did. Apart, so that where nothing did there are few registers to save.
    #[inline(never)]
    fn take_out_removed(&mut self, sums: Sums) {
        let removed = std::mem::take(&mut self.removed);
        let divider = u64::from(self.avg.divider());
        sums.remove(&mut self.avg, removed);
        self.propagate = true;
        self.prop_runnable_sum += -((removed.runnable * divider) as i64) >> CAPACITY_SHIFT;
    }
}

impl CfsRq {
    /// `update_cfs_rq_load_avg`: takes out what left, then brings the queue's sums up to `now`. Whether the averages changed.
    #[inline]
    pub(crate) fn update_load_avg(&mut self, now: u64, sums: Sums) -> bool {
        let left = self.pelt.take_out(sums);
        let (weight, runnable) = (self.load.down(), u64::from(self.h_nr_runnable()));
        let running = self.level_curr().is_some();
        self.pelt.avg.update(now, (weight, runnable, running), || 1) | left
    }
}

/// `attach_entity_load_avg`: the entity's averages join the queue's, at the queue's place in the period.
pub(crate) fn attach_entity_load_avg(queue: &mut QueueLoad, avg: &mut SchedAvg, weight: u64, sums: Sums) {
    attach_at_once(queue, avg, weight, sums);
}

/// The same without a call.
#[inline(always)]
pub(crate) fn attach_at_once(queue: &mut QueueLoad, avg: &mut SchedAvg, weight: u64, sums: Sums) {
    let divider = u64::from(queue.avg.divider());
    (avg.last_update_time, avg.period_contrib) = (queue.avg.last_update_time, queue.avg.period_contrib);
    avg.util_sum = (avg.util_avg * divider) as u32;
    avg.runnable_sum = avg.runnable_avg * divider;
    let load_sum = avg.load_avg * divider;
    avg.load_sum = match weight {
        _ if weight >= load_sum => 1,
        // That of nice 0, where a shift does what a division would.
        1024 => load_sum >> 10,
        _ => load_sum / weight.max(1),
    };
    sums.add_load(&mut queue.avg, avg.load_avg, weight, avg.load_sum);
    queue.avg.util_avg += avg.util_avg;
    queue.avg.util_sum = queue.avg.util_sum.wrapping_add(avg.util_sum);
    queue.avg.runnable_avg += avg.runnable_avg;
    queue.avg.runnable_sum += avg.runnable_sum;
    queue.propagate = true;
    queue.prop_runnable_sum += avg.load_sum as i64;
}

/// `detach_entity_load_avg`.
pub(crate) fn detach_entity_load_avg(queue: &mut QueueLoad, avg: &SchedAvg, weight: u64, sums: Sums) {
    sums.detach(&mut queue.avg, avg, weight);
    queue.propagate = true;
    queue.prop_runnable_sum -= avg.load_sum as i64;
}
