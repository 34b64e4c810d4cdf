//! Load tracking of a queue over many slices, each of which is some task's.

use crate::fair::load::EntityLoad;
use crate::fair::pelt::decay::{LOAD_AVG_MAX, LOAD_AVG_PERIOD, WHOLE_OF_ONE, YN_INVERSE, YN_ONCE, divide_small};
use crate::fair::pelt::simd_pair::Two;
use crate::fair::pelt::ticks::PERIOD;
use crate::fair::pelt::{CAPACITY_SHIFT, SchedAvg};

/// In so long, in nanoseconds, a period ends wherever it began: it and what is less than a microsecond.
const SURELY_A_PERIOD: u64 = PERIOD + 1023;

/// After more periods than this nothing is left.
const REMEMBERED: u64 = LOAD_AVG_PERIOD * 63;

/// No place in a period.
const NOWHERE: u64 = u64::MAX;

/// A queue's sums while its tasks take turns. As those of `BothSums`, none gets to 2³², nor do the tasks'.
#[derive(Debug)]
pub(crate) struct QueueSlices {
    /// Its load's and runnable time's.
    sums: Two,
    /// Its running time's.
    util: u64,
    /// All of them as they were when a period ended last, and where in the period that was, [`NOWHERE`] before one did.
    ended: (Two, u64, u64),
    /// The clock up to which they reach.
    until: u64,
    /// Microseconds of the period that are in them.
    place: u64,
    /// What a microsecond adds to load and runnable time.
    what: Two,
    tick: u64,
}

impl QueueSlices {
    /// Of a queue of which some task runs all the while, with this load and so many runnable tasks. None where that may be too much, or ticks are not so
    /// far apart that one may, and two do, end a period, one at most each.
    #[inline(always)]
    pub(crate) fn of(queue: &SchedAvg, tick: u64, (load, runnable): (u64, u64)) -> Option<Self> {
        let in_rhythm = tick + 1024 < PERIOD && 2 * tick >= SURELY_A_PERIOD;
        let narrow = 0 < load && load < 1 << 15 && runnable < 1 << 5;
        if !in_rhythm || !narrow || !is_small(queue) || queue.last_update_time == 0 {
            return None;
        }
        let (sums, util, place) = sums_of(queue);
        let what = Two::of(load, runnable << CAPACITY_SHIFT);
        Some(Self { sums, util, ended: (sums, util, NOWHERE), until: queue.last_update_time, place, what, tick })
    }

    /// Writes down what the queue came to.
    #[inline(always)]
    pub(crate) fn store(&self, queue: &mut SchedAvg) {
        (queue.load_sum, queue.runnable_sum, queue.util_sum) = (self.sums.low(), self.sums.high(), self.util as u32);
        (queue.last_update_time, queue.period_contrib) = (self.until, self.place as u32);
        if self.ended.2 != NOWHERE {
            average(queue, self.ended, 1);
        }
    }

    /// What [`SchedAvg::add_ticks_to_both`] does of `count` ticks, the first at `first`, while the task that has the averages `own` ran and weighed
    /// `weight`, which is a part of the load; before that, where it `waited` until a tick before the first, what ends its wait, but for the averages then: at least two ticks are to come
    /// after a wait. False, and nothing done, where the task's averages do not go with the queue's.
    #[inline(never)]
    pub(crate) fn take_ticks(
        &mut self,
        task: &mut EntityLoad,
        (first, count): (u64, u64),
        waited: bool,
        weight: u64,
    ) -> bool {
        if !is_small(&task.avg) {
            return false;
        }
        let sums =
            if waited { self.after_wait(&task.avg, first - self.tick) } else { self.as_before(&task.avg, first) };
        let Some(sums) = sums else { return false };
        self.take_short_ticks(task, sums, (first, count), weight);
        true
    }

    /// The sums of a task that runs until `first`, load's and runnable time's and then running time's, if they reach as far as the queue's.
    #[inline(always)]
    fn as_before(&self, own: &SchedAvg, first: u64) -> Option<(Two, u64)> {
        let (sums, util, place) = sums_of(own);
        let together = own.last_update_time == self.until && place == self.place;
        if together && first - self.until < PERIOD { Some((sums, util)) } else { None }
    }

    /// Those of a task that waited until now over the end of a period, if they reach as far as the queue's then: `accumulate_sum`.
    #[inline(always)]
    fn after_wait(&self, own: &SchedAvg, now: u64) -> Option<(Two, u64)> {
        let ((sums, util, place), began) = (sums_of(own), own.last_update_time);
        let waited = now.wrapping_sub(began);
        let reached = (waited >> 10) + place;
        let together = began.wrapping_add(waited & !1023) == self.until && reached % 1024 == self.place;
        // An average that is on no queue's account has time 0.
        let periods = reached / 1024;
        if !together || began == 0 || periods.wrapping_sub(1) >= REMEMBERED {
            return None;
        }
        let (halvings, factor) =
            (periods / LOAD_AVG_PERIOD, u64::from(YN_INVERSE[(periods % LOAD_AVG_PERIOD) as usize]));
        let decay =
            |[one, other]: [u64; 2]| Two::of(one, other).halved(halvings).times(Two::of(factor, factor)).upper();
        // `accumulate_segments`
        let ends = decay([1024 - place, u64::from(LOAD_AVG_MAX)]);
        let added = ends.low() + (u64::from(LOAD_AVG_MAX) - 1024 - ends.high()) + self.place;
        let sums = sums.halved(halvings).times(Two::of(factor, factor)).upper();
        let util = ((util >> halvings) * factor) >> 32;
        Some((sums.plus(Two::of(added, added << CAPACITY_SHIFT)), util))
    }

    /// Ticks of both, as `BothSums` takes them.
    #[inline(always)]
    fn take_short_ticks(
        &mut self,
        task: &mut EntityLoad,
        (mut sums, util): (Two, u64),
        (first, mut count): (u64, u64),
        weight: u64,
    ) {
        let (own, tick) = (&mut task.avg, self.tick);
        // What a microsecond adds to those of the task, and to both running times.
        let (of_own, of_utils) = (Two::of(1, 1 << CAPACITY_SHIFT), Two::of(1 << CAPACITY_SHIFT, 1 << CAPACITY_SHIFT));
        let once = Two::of(YN_ONCE, YN_ONCE);
        let mut utils = Two::of(self.util, util);
        let elapsed = first - self.until;
        self.until += (elapsed + tick * (count - 1)) & !1023;
        // How far the next tick is beyond the end of a period.
        let mut beyond = (self.place << 10).wrapping_add(elapsed).wrapping_sub(PERIOD) as i64;
        let beyond_next = tick.wrapping_sub(PERIOD) as i64;
        loop {
            let before = count;
            while beyond >= 0 {
                let oldest = ((1024 - self.place) * YN_ONCE) >> 32;
                self.place = beyond as u64 >> 10;
                beyond += beyond_next;
                let contribution = oldest + u64::from(WHOLE_OF_ONE) + self.place;
                let added = Two::of(contribution, contribution);
                self.sums = self.sums.times(once).upper().plus(added.times(self.what));
                utils = utils.times(once).upper().plus(added.times(of_utils));
                sums = sums.times(once).upper().plus(added.times(of_own));
                count -= 1;
                if count == 0 {
                    break;
                }
            }
            if count < before {
                task.util_est.changed();
                self.ended = (self.sums, utils.low(), self.place);
                average(own, (sums, utils.high(), self.place), weight);
            }
            if count > 0 {
                let reached = (beyond + PERIOD as i64) as u64 >> 10;
                let passed = reached - self.place;
                let added = Two::of(passed, passed);
                self.sums = self.sums.plus(added.times(self.what));
                utils = utils.plus(added.times(of_utils));
                sums = sums.plus(added.times(of_own));
                self.place = reached;
                beyond += tick as i64;
                count -= 1;
            }
            if count == 0 {
                self.util = utils.low();
                (own.load_sum, own.runnable_sum, own.util_sum) = (sums.low(), sums.high(), utils.high() as u32);
                (own.last_update_time, own.period_contrib) = (self.until, self.place as u32);
                return;
            }
        }
    }
}

/// No sum is too large to stay below 2³².
#[inline(always)]
const fn is_small(avg: &SchedAvg) -> bool {
    avg.load_sum | avg.runnable_sum | (avg.util_sum as u64) < 1 << 31
}

/// Load's and runnable time's sum, running time's, and where in the period that is.
#[inline(always)]
fn sums_of(avg: &SchedAvg) -> (Two, u64, u64) {
    (Two::of(avg.load_sum, avg.runnable_sum), u64::from(avg.util_sum), u64::from(avg.period_contrib))
}

/// `SchedAvg::update_small_avg`, of an entity that weighs `weight`.
#[inline(always)]
fn average(avg: &mut SchedAvg, (sums, util, place): (Two, u64, u64), weight: u64) {
    avg.load_avg = divide_small(weight * sums.low(), place as u32);
    avg.runnable_avg = divide_small(sums.high(), place as u32);
    avg.util_avg = divide_small(util, place as u32);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fair::pelt::tests::stretches;

    proptest! {
        /// Tasks that take turns on a queue, one of which perhaps was not brought up to date with it, or has large sums: together, and each alone.
        #[test]
        fn slices_at_once_are_ticks_of_each(
            life in stretches(3_000),
            tick in prop_oneof![Just(1_000_000u64), 524_000u64..1_048_576],
            slices in prop::collection::vec((0usize..3, 1u64..8), 1..40),
            (load, runnable, share) in (1u64..33_000, 0u64..33, 1u64..33_000),
            (apart, large) in (prop::option::weighted(0.2, 0usize..3), prop::option::weighted(0.2, 0usize..3)),
        ) {
            let (mut queue, mut own) = (SchedAvg::default(), [SchedAvg::default(); 3]);
            // A task weighs no more than all.
            let weight = share.min(load);
            let mut now = REMEMBERED * PERIOD;
            for (length, load, runnable, running) in life {
                now += length << 10;
                let live = |avg: &mut SchedAvg, load, runnable, weight| {
                    if avg.update_sum(now, load, runnable, running) {
                        avg.update_avg(weight);
                    }
                };
                live(&mut queue, load % 20_000, runnable % 8, 1);
                own.iter_mut().for_each(|own| live(own, 1, 1, weight));
            }
            if let Some(which) = apart {
                own[which].period_contrib = (own[which].period_contrib + 7) % 1024;
            }
            if let Some(which) = large {
                own[which].load_sum += 1 << 31;
            }
            let (mut queue_alone, mut own_alone) = (queue, own);
            let Some(mut together) = QueueSlices::of(&queue, tick, (load, runnable)) else { return Ok(()) };
            for (which, count) in slices {
                let wait = |own: &mut SchedAvg| if own.update_sum(now, 1, 1, false) {
                    own.update_avg(weight);
                };
                wait(&mut own_alone[which]);
                // One tick may not end a period, so that the averages at the end of the wait are needed.
                let waited = count > 1;
                if !waited {
                    wait(&mut own[which]);
                }
                let ticks = (now + tick, count);
                let mut task = EntityLoad::default();
                task.avg.clone_from(&own[which]);
                if !together.take_ticks(&mut task, ticks, waited, weight) {
                    wait(&mut own[which]);
                    break;
                }
                own[which] = task.avg;
                queue_alone.add_ticks(now, tick, count, (load, runnable), 1);
                own_alone[which].add_ticks(now, tick, count, (1, 1), weight);
                now += tick * count;
            }
            together.store(&mut queue);
            prop_assert_eq!((queue, own), (queue_alone, own_alone));
        }
    }
}
