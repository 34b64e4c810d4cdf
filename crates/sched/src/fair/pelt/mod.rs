//! Per-entity load tracking (`kernel/sched/pelt.c`): how much an entity ran, could run and weighed, as geometric sums.
//!
//! Time is cut into periods of 1024 µs (of 1024 ns each). What happened n periods ago counts y^n, with y^32 = 1/2.

pub(crate) mod decay;
pub(crate) mod queue_load;
pub(crate) mod rounding;
mod simd_pair;
mod ticks;
pub(crate) mod turns;
pub(crate) mod util_est;

pub(crate) use crate::fair::pelt::decay::PELT_MIN_DIVIDER;
pub use crate::fair::pelt::decay::{LOAD_AVG_MAX, LOAD_AVG_PERIOD, decay_load};
use crate::fair::pelt::decay::{WHOLE_OF_ONE, YN_INVERSE, accumulate_segments, decay_once, divide, divide_small};

/// `SCHED_CAPACITY_SHIFT`.
pub(crate) const CAPACITY_SHIFT: u32 = 10;

/// `struct sched_avg`. No average is beside another one: two that were written just now would be read at once in a longer word, which takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct SchedAvg {
    /// The PELT clock up to which the sums reach, in nanoseconds; 0 while attached to no queue.
    pub last_update_time: u64,
    /// Σ of time runnable, times weight for a queue.
    pub load_sum: u64,
    /// That over the greatest possible sum, as the other averages are: load in units of weight.
    pub load_avg: u64,
    /// Σ of time runnable, times 1024 and the number of runnable tasks.
    pub runnable_sum: u64,
    /// Runnable tasks, 1024 each.
    pub runnable_avg: u64,
    /// Σ of time running, times 1024.
    pub util_sum: u32,
    /// Microseconds of the current period that are in the sums.
    pub period_contrib: u32,
    /// Time running, 1024 for always.
    pub util_avg: u64,
}

impl SchedAvg {
    /// `get_pelt_divider`: the greatest sum possible at this place in the period.
    #[inline]
    pub const fn divider(&self) -> u32 {
        PELT_MIN_DIVIDER + self.period_contrib
    }

    /// A sum over [`SchedAvg::divider`].
    #[inline(always)]
    pub(crate) fn divide(&self, sum: u64) -> u64 {
        divide(sum, self.period_contrib)
    }

    /// When the current period began, in microseconds of the PELT clock.
    #[inline]
    pub(crate) const fn period_start(&self) -> u64 {
        (self.last_update_time >> 10).wrapping_sub(self.period_contrib as u64)
    }

    /// `___update_load_sum`: brings the sums up to `now` (nanoseconds of the PELT clock), through which the entity weighed `load`,
    /// had `runnable` tasks and was `running` or not. True if a period ended, so that the averages are to follow.
    #[inline]
    pub fn update_sum(&mut self, now: u64, load: u64, runnable: u64, running: bool) -> bool {
        let delta = now.wrapping_sub(self.last_update_time);
        if (delta as i64) < 0 {
            self.last_update_time = now;
            return false;
        }
        let delta = delta >> 10;
        if delta == 0 {
            return false;
        }
        self.last_update_time += delta << 10;
        // Without weight nothing counts, running least of all.
        let (runnable, running) = if load == 0 { (0, false) } else { (runnable, running) };
        self.accumulate(delta, load, runnable, running)
    }

    /// [`SchedAvg::update_sum`] of what neither ran nor could have run, and had no weight: its sums decay, and nothing is added.
    #[inline(always)]
    pub fn age(&mut self, now: u64) -> bool {
        let delta = now.wrapping_sub(self.last_update_time);
        if (delta as i64) < 0 {
            self.last_update_time = now;
            return false;
        }
        let delta = delta >> 10;
        self.last_update_time += delta << 10;
        let reached = delta + u64::from(self.period_contrib);
        self.period_contrib = (reached % 1024) as u32;
        let periods = reached / 1024;
        if periods == 0 {
            return false;
        }
        if periods > LOAD_AVG_PERIOD * 63 {
            self.forget();
            return true;
        }
        let (halvings, factor) = (periods / LOAD_AVG_PERIOD, YN_INVERSE[(periods % LOAD_AVG_PERIOD) as usize]);
        let decay = |sum: u64| ((u128::from(sum >> halvings) * u128::from(factor)) >> 32) as u64;
        self.load_sum = decay(self.load_sum);
        self.runnable_sum = decay(self.runnable_sum);
        self.util_sum = decay(u64::from(self.util_sum)) as u32;
        true
    }

    /// [`SchedAvg::update_sum`] and what follows it of an entity of this `weight` (1 for a queue). Mostly no period ends, and there is some load. True if one
    /// did.
    #[inline(always)]
    pub(crate) fn update(
        &mut self,
        now: u64,
        (load, runnable, running): (u64, u64, bool),
        weight: impl FnOnce() -> u64,
    ) -> bool {
        // A time before the last one is far beyond any period.
        let delta = now.wrapping_sub(self.last_update_time) >> 10;
        let reached = delta + u64::from(self.period_contrib);
        if reached >= 1024 || load == 0 {
            return self.update_far(now, (load, runnable, running), weight());
        }
        (self.last_update_time, self.period_contrib) = (self.last_update_time + (delta << 10), reached as u32);
        self.load_sum = self.load_sum.wrapping_add(load.wrapping_mul(delta));
        self.runnable_sum = self.runnable_sum.wrapping_add(runnable.wrapping_mul(delta) << CAPACITY_SHIFT);
        self.util_sum = self.util_sum.wrapping_add((delta as u32 * u32::from(running)) << CAPACITY_SHIFT);
        false
    }

    /// The same over the end of a period, or without load.
    #[inline(never)]
    fn update_far(&mut self, now: u64, (load, runnable, running): (u64, u64, bool), weight: u64) -> bool {
        let ended = if load == 0 { self.age(now) } else { self.update_sum(now, load, runnable, running) };
        if ended {
            self.update_avg(weight);
        }
        ended
    }

    /// All of it is so long ago that nothing is left.
    #[cold]
    fn forget(&mut self) {
        (self.load_sum, self.runnable_sum, self.util_sum) = (0, 0, 0);
    }

    /// Nothing is summed up.
    pub(crate) fn is_zero(&self) -> bool {
        self.load_sum | self.runnable_sum | u64::from(self.util_sum) == 0
    }

    /// `accumulate_sum`, of `delta` µs.
    #[inline(always)]
    fn accumulate(&mut self, delta: u64, load: u64, runnable: u64, running: bool) -> bool {
        let mut contribution = delta as u32;
        let reached = delta + u64::from(self.period_contrib);
        let periods = reached / 1024;
        let rest = (reached % 1024) as u32;
        if periods == 1 {
            // The most frequent of all: the same with the one factor known, and with no whole period in between ([`WHOLE_OF_ONE`]).
            self.load_sum = decay_once(self.load_sum);
            self.runnable_sum = decay_once(self.runnable_sum);
            self.util_sum = decay_once(u64::from(self.util_sum)) as u32;
            if load > 0 {
                contribution = decay_once(u64::from(1024 - self.period_contrib)) as u32 + WHOLE_OF_ONE + rest;
            }
        } else if periods > 1 {
            self.load_sum = decay_load(self.load_sum, periods);
            self.runnable_sum = decay_load(self.runnable_sum, periods);
            self.util_sum = decay_load(u64::from(self.util_sum), periods) as u32;
            if load > 0 {
                contribution = accumulate_segments(periods, 1024 - self.period_contrib, rest);
            }
        }
        self.period_contrib = rest;
        let contribution = u64::from(contribution);
        if load > 0 {
            self.load_sum = self.load_sum.wrapping_add(load.wrapping_mul(contribution));
        }
        if runnable > 0 {
            self.runnable_sum = self.runnable_sum.wrapping_add(runnable.wrapping_mul(contribution) << CAPACITY_SHIFT);
        }
        if running {
            self.util_sum = self.util_sum.wrapping_add((contribution as u32) << CAPACITY_SHIFT);
        }
        periods > 0
    }

    /// `___update_load_avg`: the averages that follow from the sums, for an entity of weight `load` (1 for a queue).
    #[inline(always)]
    pub fn update_avg(&mut self, load: u64) {
        let (place, weighted) = (self.period_contrib, load.wrapping_mul(self.load_sum));
        if (weighted | self.runnable_sum) >= 1 << 48 {
            return self.update_large_avg(load);
        }
        // Mostly so: it is asked once for all.
        self.load_avg = divide_small(weighted, place);
        self.runnable_avg = divide_small(self.runnable_sum, place);
        self.util_avg = divide_small(u64::from(self.util_sum), place);
    }

    /// [`SchedAvg::update_avg`] for sums too large for [`divide_small`].
    #[cold]
    fn update_large_avg(&mut self, load: u64) {
        let place = self.period_contrib;
        self.load_avg = divide(load.wrapping_mul(self.load_sum), place);
        self.runnable_avg = divide(self.runnable_sum, place);
        self.util_avg = divide_small(u64::from(self.util_sum), place);
    }
}

/// `add_positive`: a signed difference added, zero at least.
pub(crate) const fn add_positive(value: u64, delta: i64) -> u64 {
    let sum = value.wrapping_add(delta as u64);
    if delta < 0 && sum > value { 0 } else { sum }
}

/// `max_t(u32, sum, average × PELT_MIN_DIVIDER)`: a sum is never less than its average allows, in 32 bits as the kernel compares.
pub(crate) const fn at_least(sum: u64, average: u64) -> u32 {
    let least = average.wrapping_mul(PELT_MIN_DIVIDER as u64) as u32;
    if sum as u32 > least { sum as u32 } else { least }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One stretch of an entity's life: µs, weight, runnable tasks, running.
    pub(in crate::fair) fn stretches(longest: u64) -> impl Strategy<Value = Vec<(u64, u64, u64, bool)>> {
        let stretch = (1..longest, prop_oneof![Just(0u64), 2..90_000u64], 1..40u64, any::<bool>());
        proptest::collection::vec(stretch, 1..150)
    }

    proptest! {
        /// Updated at least once a period, the closed form is one step: at a boundary the old sum and the end of the old period
        /// are decayed once each. LOAD_AVG_MAX less its own decay (46718) less 1024 leaves nothing between them.
        #[test]
        fn it_equals_a_reference_that_steps_from_period_to_period(life in stretches(1024)) {
            let mut average = SchedAvg::default();
            let (mut now, mut place) = (0u64, 0u64);
            let (mut load_sum, mut runnable_sum, mut util_sum) = (0u128, 0u128, 0u128);
            let y = u128::from(YN_INVERSE[1]);
            for (length, load, runnable, running) in life {
                now += length << 10;
                average.update_sum(now, load, runnable, running);
                let end = place + length;
                let counted = if end < 1024 {
                    u128::from(length)
                } else {
                    load_sum = (load_sum * y) >> 32;
                    runnable_sum = (runnable_sum * y) >> 32;
                    util_sum = (util_sum * y) >> 32;
                    ((u128::from(1024 - place) * y) >> 32) + u128::from(end - 1024)
                };
                place = end % 1024;
                if load > 0 {
                    load_sum += u128::from(load) * counted;
                    runnable_sum += u128::from(runnable) * counted * 1024;
                    util_sum += if running { counted * 1024 } else { 0 };
                }
                prop_assert_eq!(u128::from(average.load_sum), load_sum);
                prop_assert_eq!(u128::from(average.runnable_sum), runnable_sum);
                prop_assert_eq!(u128::from(average.util_sum), util_sum);
                prop_assert_eq!(u64::from(average.period_contrib), place);
            }
        }

        /// Against the real-valued sum of the whole history: within 0.1 % of the greatest sum, of which the constant LOAD_AVG_MAX
        /// alone takes 1024/(1 − y) = 47788 − 47742 = 46, that is 0.096 %; the rest is truncation below one unit an update.
        #[test]
        fn it_is_close_to_the_real_geometric_sum(life in stretches(300_000)) {
            let mut average = SchedAvg::default();
            let y = 0.5f64.powf(1.0 / 32.0);
            let (mut now, mut place, mut real) = (0u64, 0u64, 0f64);
            for (length, _, _, running) in life {
                now += length << 10;
                average.update_sum(now, 1024, 1, running);
                let end = place + length;
                if end < 1024 {
                    real += if running { length as f64 } else { 0.0 };
                } else {
                    let periods = end / 1024;
                    let decay = y.powi(periods as i32);
                    real *= decay;
                    if running {
                        // Σ y^n, n from 1 to periods − 1
                        let whole = (y - decay) / (1.0 - y);
                        real += (1024 - place) as f64 * decay + 1024.0 * whole + (end % 1024) as f64;
                    }
                }
                place = end % 1024;
                let ours = f64::from(average.util_sum) / 1024.0;
                prop_assert!((ours - real).abs() <= 0.001 * 47_788.0 + 1.0, "{} against {}", ours, real);
            }
        }

        /// However often it was looked at in between, an idle entity's sum never grows and a busy one's average stays within 1024.
        #[test]
        fn averages_stay_in_bounds(life in stretches(100_000)) {
            let mut average = SchedAvg::default();
            let mut now = 0;
            for (length, load, _, running) in life {
                now += length << 10;
                let before = average.util_sum;
                if average.update_sum(now, load, 1, running) {
                    average.update_avg(1024);
                }
                prop_assert!(average.util_avg <= 1024);
                prop_assert!(running && load > 0 || average.util_sum <= before);
            }
        }
    }

    proptest! {
        /// A queue and its running task, at the same place or not: together, and each alone. Backwards, too.
        #[test]
        fn both_together_are_each_alone(
            life in stretches(1_500), (weight, apart, back) in (1u64..90_000, 0u64..3, any::<bool>()),
            last in (1u64..3_000, prop_oneof![Just(0u64), 2..90_000u64], 1..40u64),
        ) {
            let (mut queue, mut own) = (SchedAvg::default(), SchedAvg::default());
            let mut now = apart * 300;
            own.update_sum(now, 0, 0, false);
            for (length, load, runnable, running) in life {
                now += length << 10;
                queue.update_sum(now, load, runnable, running);
                own.update_sum(now, u64::from(running), u64::from(running), running);
            }
            let (length, load, runnable) = last;
            let now = if back { now.saturating_sub(length) } else { now + (length << 10) };
            let (mut queue_alone, mut own_alone) = (queue, own);
            let ended = SchedAvg::update_both([&mut queue, &mut own], now, (load, runnable), weight);
            prop_assert_eq!(own_alone.update_sum(now, 1, 1, true), ended);
            if ended {
                own_alone.update_avg(weight);
            }
            if queue_alone.update_sum(now, load, runnable, true) {
                queue_alone.update_avg(1);
            }
            prop_assert_eq!((queue, own), (queue_alone, own_alone));
        }

        /// Any stretch at once, from the last update on or backwards: the sums, and the averages where a period ended.
        #[test]
        fn an_update_is_that_of_the_sums_and_of_the_averages(
            life in stretches(1_500), weight in 1u64..90_000, back in any::<bool>(),
            length in prop_oneof![Just(None), (0u64..1_100).prop_map(Some), (0..90_000u64).prop_map(Some)],
            (load, runnable, running) in (prop_oneof![Just(0u64), 1..90_000u64], 0..40u64, any::<bool>()),
        ) {
            let mut average = SchedAvg::default();
            let mut now = 0u64;
            for (length, load, runnable, running) in life {
                now += length << 10;
                average.update_sum(now, load, runnable, running);
            }
            // To the very end of the period, too.
            let length = length.unwrap_or(1024 - u64::from(average.period_contrib));
            let now = if back { now.saturating_sub(length) } else { now + (length << 10) + length % 1024 };
            let mut reference = average;
            let ended = reference.update_sum(now, load, runnable, running);
            if ended {
                reference.update_avg(weight);
            }
            prop_assert_eq!(average.update(now, (load, runnable, running), || weight), ended);
            prop_assert_eq!(average, reference);
        }

        /// What sleeps, for any time from none to far beyond what is remembered, and backwards.
        #[test]
        fn ageing_is_an_update_without_weight(
            life in stretches(3_000), asleep in prop_oneof![0u64..5_000_000, 0..1u64 << 40, Just(u64::MAX - 5_000)],
        ) {
            let mut average = SchedAvg::default();
            let mut now = 0u64;
            for (length, load, runnable, running) in life {
                now += length << 10;
                average.update_sum(now, load, runnable, running);
            }
            let mut aged = average;
            let now = now.wrapping_add(asleep);
            prop_assert_eq!(aged.age(now), average.update_sum(now, 0, 0, false));
            prop_assert_eq!(aged, average);
        }
    }

    /// An entity that always ran with weight 1024 and one task: each sum is the divider's share of its greatest, so every average
    /// comes to 1024 but for truncation, and to no more.
    #[test]
    fn what_always_runs_weighs_its_weight() {
        let mut average = SchedAvg::default();
        for period in 1..2000u64 {
            average.update_sum(period * 1024 * 1024, 1, 1, true);
        }
        average.update_avg(1024);
        assert!((1023..=1024).contains(&average.load_avg), "{average:?}");
        assert!((1023..=1024).contains(&average.util_avg), "{average:?}");
    }

    /// y^32 = 1/2: an entity that stops has half its load after 32 periods, a quarter after 64; the factor for zero further periods,
    /// (2³² − 1)/2³², takes less than one unit off.
    #[test]
    fn load_halves_every_32_periods() {
        for (periods, part) in [(32u64, 2u64), (64, 4), (320, 1024)] {
            let mut average = SchedAvg { load_sum: 47_742 << 10, ..SchedAvg::default() };
            average.update_sum(periods << 20, 0, 0, false);
            assert_eq!(average.load_sum, (47_742 << 10) / part - 1, "after {periods} periods");
        }
    }
}
