//! Load tracking of a queue and its running task together, and over many ticks at once.

use crate::fair::pelt::decay::{WHOLE_OF_ONE, YN_ONCE, decay_once, divide_small};
use crate::fair::pelt::{CAPACITY_SHIFT, SchedAvg};

/// Nanoseconds of a period.
pub(super) const PERIOD: u64 = 1 << 20;

/// The sums of a queue and of its running task, its load's, runnable and running time's and then the task's.
///
/// None gets to 2³² if all begin below 2³¹ and no more than 2¹⁵ is added for a microsecond: a period adds at most 1024 times that, and once a
/// sum is 47,742 times that, below 2³¹, its decay takes off as much. So a product with y · 2³² fits a word.
struct BothSums([u64; 6]);

impl BothSums {
    #[inline(always)]
    fn of(queue: &SchedAvg, own: &SchedAvg) -> Self {
        let [one, other] = [queue, own].map(|avg| (avg.load_sum, avg.runnable_sum, u64::from(avg.util_sum)));
        Self([one.0, one.1, one.2, other.0, other.1, other.2])
    }

    #[inline(always)]
    fn store(&self, [queue, own]: [&mut SchedAvg; 2], until: u64, place: u64) {
        for (avg, sums) in [(queue, &self.0[..3]), (own, &self.0[3..])] {
            (avg.load_sum, avg.runnable_sum, avg.util_sum) = (sums[0], sums[1], sums[2] as u32);
            (avg.last_update_time, avg.period_contrib) = (until, place as u32);
        }
    }

    /// `SchedAvg::update_small_avg` of both, of which the task weighs `weight`.
    #[inline(always)]
    fn average(&self, [queue, own]: [&mut SchedAvg; 2], place: u64, weight: u64) {
        for (avg, sums, weight) in [(queue, &self.0[..3], 1), (own, &self.0[3..], weight)] {
            avg.load_avg = divide_small(weight * sums[0], place as u32);
            avg.runnable_avg = divide_small(sums[1], place as u32);
            avg.util_avg = divide_small(sums[2], place as u32);
        }
    }

    #[inline(always)]
    fn are_below_half_a_word(&self) -> bool {
        self.0.iter().fold(0, |all, sum| all | sum) < 1 << 31
    }

    /// [`decay_once`] of each.
    #[inline(always)]
    fn decay_by_one(&mut self) {
        for sum in &mut self.0 {
            *sum = (*sum * YN_ONCE) >> 32;
        }
    }

    /// The end of `accumulate_sum` of both, which ran.
    #[inline(always)]
    fn add(&mut self, contribution: u64, (load, runnable): (u64, u64)) {
        let scaled = contribution << CAPACITY_SHIFT;
        let steps = [load * contribution, runnable * scaled, scaled, contribution, scaled, scaled];
        for (sum, step) in self.0.iter_mut().zip(steps) {
            *sum += step;
        }
    }

    /// What [`SchedAvg::add_ticks`] does to both, which were last brought up to date `elapsed` before the first tick: as in
    /// `add_short_ticks`, of which mostly each ends a period. True if one did.
    #[inline(always)]
    fn take_ticks(
        mut self,
        [queue, own]: [&mut SchedAvg; 2],
        elapsed: u64,
        tick: u64,
        mut count: u64,
        what: (u64, u64),
        weight: u64,
    ) -> bool {
        let until = queue.last_update_time.wrapping_add(elapsed.wrapping_add(tick.wrapping_mul(count - 1)) & !1023);
        // Where in the period it is: in microseconds; and in nanoseconds from where they began, a tick later.
        let mut place = u64::from(queue.period_contrib);
        let mut next = (place << 10) + elapsed;
        let mut ended = false;
        loop {
            let before = count;
            while next >= PERIOD {
                next -= PERIOD;
                let oldest = ((1024 - place) * YN_ONCE) >> 32;
                place = next >> 10;
                next += tick;
                self.decay_by_one();
                self.add(oldest + u64::from(WHOLE_OF_ONE) + place, what);
                count -= 1;
                if count == 0 {
                    break;
                }
            }
            if count < before {
                ended = true;
                self.average([&mut *queue, &mut *own], place, weight);
            }
            if count > 0 {
                self.add((next >> 10) - place, what);
                place = next >> 10;
                next += tick;
                count -= 1;
            }
            if count == 0 {
                self.store([queue, own], until, place);
                return ended;
            }
        }
    }
}

impl SchedAvg {
    /// [`SchedAvg::update_sum`] and what follows it of a queue and of its running task, which weighs `weight`. True if a period of the
    /// task's ended. Mostly no period of either ends. A check for equal times of both averages would be unpredictable, so there is none.
    #[inline(always)]
    pub fn update_both([queue, own]: [&mut Self; 2], now: u64, (load, runnable): (u64, u64), weight: u64) -> bool {
        // A time before the last one is far beyond any period.
        let passed = |avg: &Self| {
            let delta = now.wrapping_sub(avg.last_update_time) >> 10;
            (delta, delta + u64::from(avg.period_contrib))
        };
        let [of_queue, of_own] = [passed(queue), passed(own)];
        if (of_queue.1 | of_own.1) >= 1024 || load == 0 {
            return Self::update_both_far([queue, own], now, (load, runnable), weight);
        }
        for (avg, (delta, reached), load, runnable) in [(queue, of_queue, load, runnable), (own, of_own, 1, 1)] {
            (avg.last_update_time, avg.period_contrib) = (avg.last_update_time + (delta << 10), reached as u32);
            avg.load_sum = avg.load_sum.wrapping_add(load.wrapping_mul(delta));
            avg.runnable_sum = avg.runnable_sum.wrapping_add(runnable.wrapping_mul(delta) << CAPACITY_SHIFT);
            avg.util_sum = avg.util_sum.wrapping_add((delta as u32) << CAPACITY_SHIFT);
        }
        false
    }

    /// The same over the end of a period.
    #[inline(never)]
    fn update_both_far([queue, own]: [&mut Self; 2], now: u64, (load, runnable): (u64, u64), weight: u64) -> bool {
        let ended = own.update_sum(now, 1, 1, true);
        if ended {
            own.update_avg(weight);
        }
        if queue.update_sum(now, load, runnable, true) {
            queue.update_avg(1);
        }
        ended
    }

    /// `count` times [`SchedAvg::update_sum`] and what follows it, of what ran all the while: first at `now` + `tick`, then every `tick`
    /// nanoseconds, with the same `(load, runnable)` and `weight`.
    ///
    /// Exact because each sum takes the same steps, truncations included. Only averages that the next step would have overwritten are
    /// not computed: the last one is, from the sums as they are when a period ended last.
    pub fn add_ticks(&mut self, now: u64, tick: u64, count: u64, (load, runnable): (u64, u64), weight: u64) {
        let elapsed = now.wrapping_add(tick).wrapping_sub(self.last_update_time);
        if load > 0 && (tick | elapsed) < PERIOD {
            return self.add_short_ticks(now, tick, count, (load, runnable), weight);
        }
        let (mut now, mut behind) = (now, false);
        for _ in 0..count {
            now = now.wrapping_add(tick);
            let delta = now.wrapping_sub(self.last_update_time) >> 10;
            if behind && delta + u64::from(self.period_contrib) < 1024 {
                self.update_avg(weight);
                behind = false;
            }
            behind |= self.update_sum(now, load, runnable, true);
        }
        if behind {
            self.update_avg(weight);
        }
    }

    /// [`SchedAvg::add_ticks`] of a queue and of its running task, which weighs `weight`. Mostly they stand at the same place of the same
    /// period, as both were brought up to date whenever one was: then each tick finds what passed once for both. True if a period of
    /// the task's ended.
    #[inline(always)]
    pub fn add_ticks_to_both(
        [queue, own]: [&mut Self; 2],
        now: u64,
        tick: u64,
        count: u64,
        (load, runnable): (u64, u64),
        weight: u64,
    ) -> bool {
        let elapsed = now.wrapping_add(tick).wrapping_sub(queue.last_update_time);
        let together = own.last_update_time != 0
            && own.last_update_time == queue.last_update_time
            && own.period_contrib == queue.period_contrib
            && (load > 0 && count > 0 && (tick | elapsed) < PERIOD);
        let narrow = weight < 1 << 16 && load < 1 << 15 && runnable < 1 << 5;
        if together && narrow {
            let sums = BothSums::of(queue, own);
            if sums.are_below_half_a_word() {
                return sums.take_ticks([queue, own], elapsed, tick, count, (load, runnable), weight);
            }
        }
        Self::add_ticks_to_each([queue, own], now, tick, count, (load, runnable), weight)
    }

    /// [`SchedAvg::add_ticks_to_both`], first the queue's average, then the task's.
    #[inline(never)]
    fn add_ticks_to_each(
        [queue, own]: [&mut Self; 2],
        now: u64,
        tick: u64,
        count: u64,
        what: (u64, u64),
        weight: u64,
    ) -> bool {
        queue.add_ticks(now, tick, count, what, 1);
        let began = own.period_start();
        if own.last_update_time != 0 {
            own.add_ticks(now, tick, count, (1, 1), weight);
        }
        own.period_start() != began
    }

    /// All sums, one period later.
    #[inline(always)]
    fn decay_by_one(&mut self) {
        self.load_sum = decay_once(self.load_sum);
        self.runnable_sum = decay_once(self.runnable_sum);
        self.util_sum = decay_once(u64::from(self.util_sum)) as u32;
    }

    /// The end of `accumulate_sum`, of what ran.
    #[inline(always)]
    fn add_running(&mut self, contribution: u32, load: u64, runnable: u64) {
        self.load_sum = self.load_sum.wrapping_add(load.wrapping_mul(u64::from(contribution)));
        self.runnable_sum =
            self.runnable_sum.wrapping_add(runnable.wrapping_mul(u64::from(contribution)) << CAPACITY_SHIFT);
        self.util_sum = self.util_sum.wrapping_add(contribution << CAPACITY_SHIFT);
    }

    /// [`SchedAvg::add_ticks`] for ticks that are less than a period apart, so that each ends at most one period: what
    /// [`SchedAvg::accumulate`] does then, kept in registers.
    #[inline(always)]
    fn add_short_ticks(&mut self, now: u64, tick: u64, count: u64, (load, runnable): (u64, u64), weight: u64) {
        let mut next = *self;
        let (mut now, mut behind) = (now, false);
        for _ in 0..count {
            now = now.wrapping_add(tick);
            let delta = now.wrapping_sub(next.last_update_time) >> 10;
            next.last_update_time = next.last_update_time.wrapping_add(delta << 10);
            let reached = next.period_contrib + delta as u32;
            let contribution = if reached >= 1024 {
                behind = true;
                next.decay_by_one();
                let oldest = decay_once(u64::from(1024 - next.period_contrib)) as u32;
                next.period_contrib = reached - 1024;
                oldest + WHOLE_OF_ONE + next.period_contrib
            } else {
                if std::mem::take(&mut behind) {
                    next.update_avg(weight);
                }
                next.period_contrib = reached;
                delta as u32
            };
            next.add_running(contribution, load, runnable);
        }
        if behind {
            next.update_avg(weight);
        }
        *self = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::fair::pelt::SchedAvg;
    use crate::fair::pelt::tests::stretches;

    proptest! {
        /// A queue of any weight, at any place in its period, that runs on: at once, and tick after tick. 976 µs and a bit at HZ = 1000
        /// end a period most of the time, but not always.
        #[test]
        fn ticks_at_once_are_ticks_one_by_one(
            life in stretches(3_000),
            tick in prop_oneof![Just(1_000_000u64), Just(4_000_000), Just(10_000_000), 1u64..20_000_000],
            count in 0u64..300,
            load in prop_oneof![Just(0u64), 1..1_000_000u64],
            (runnable, weight, offset) in (0u64..100, 1u64..90_000, 0u64..1024),
        ) {
            let mut average = SchedAvg::default();
            let mut now = offset;
            for (length, load, runnable, running) in life {
                now += length << 10;
                if average.update_sum(now, load, runnable, running) {
                    average.update_avg(weight);
                }
            }
            let mut at_once = average;
            at_once.add_ticks(now, tick, count, (load, runnable), weight);
            for _ in 0..count {
                now += tick;
                if average.update_sum(now, load, runnable, true) {
                    average.update_avg(weight);
                }
            }
            prop_assert_eq!(at_once, average);
        }

        /// A queue and its running task, at the same place or not, the task perhaps on no queue's account: together, and each alone.
        #[test]
        fn ticks_of_both_are_ticks_of_each(
            life in stretches(3_000),
            tick in prop_oneof![Just(1_000_000u64), Just(4_000_000), 1u64..20_000_000],
            count in 0u64..300,
            load in prop_oneof![Just(0u64), 1..1_000_000u64],
            (runnable, weight, own_place) in (0u64..100, 1u64..90_000, prop::option::weighted(0.3, 0u64..1_000_000)),
            (offset, later) in (0u64..1024, 0u64..3),
        ) {
            let (mut queue, mut own) = (SchedAvg::default(), SchedAvg::default());
            let mut now = offset;
            for (length, load, runnable, running) in life {
                now += length << 10;
                if queue.update_sum(now, load, runnable, running) {
                    queue.update_avg(1);
                }
                if own.update_sum(now, u64::from(running), u64::from(running), running) {
                    own.update_avg(weight);
                }
            }
            if let Some(place) = own_place {
                own.last_update_time = place % 3 * (own.last_update_time - place.min(own.last_update_time));
            }
            now += later * tick;
            let (mut queue_alone, mut own_alone) = (queue, own);
            SchedAvg::add_ticks_to_both([&mut queue, &mut own], now, tick, count, (load, runnable), weight);
            queue_alone.add_ticks(now, tick, count, (load, runnable), 1);
            if own_alone.last_update_time != 0 {
                own_alone.add_ticks(now, tick, count, (1, 1), weight);
            }
            prop_assert_eq!((queue, own), (queue_alone, own_alone));
        }
    }
}
