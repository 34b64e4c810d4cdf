//! Load tracking over many ticks at once.

use crate::fair::pelt::{CAPACITY_SHIFT, SchedAvg, WHOLE_OF_ONE, decay_once};

impl SchedAvg {
    /// `count` times [`SchedAvg::update_sum`] and what follows it, of what ran all the while: first at `now` + `tick`, then every `tick`
    /// nanoseconds, with the same `(load, runnable)` and `weight`.
    ///
    /// Exact because each sum takes the same steps, truncations included. Only averages that the next step would have overwritten are
    /// not computed: the last one is, from the sums as they are when a period ended last.
    pub fn add_ticks(&mut self, now: u64, tick: u64, count: u64, (load, runnable): (u64, u64), weight: u64) {
        let elapsed = now.wrapping_add(tick).wrapping_sub(self.last_update_time);
        if load > 0 && tick < 1 << 20 && elapsed < 1 << 20 {
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

    /// The same of ticks that are less than a period apart, so that each ends one period at most: what [`SchedAvg::accumulate`] does then,
    /// kept in registers.
    #[inline]
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
                next.load_sum = decay_once(next.load_sum);
                next.runnable_sum = decay_once(next.runnable_sum);
                next.util_sum = decay_once(u64::from(next.util_sum)) as u32;
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
            next.load_sum = next.load_sum.wrapping_add(load.wrapping_mul(u64::from(contribution)));
            next.runnable_sum =
                next.runnable_sum.wrapping_add(runnable.wrapping_mul(u64::from(contribution)) << CAPACITY_SHIFT);
            next.util_sum = next.util_sum.wrapping_add(contribution << CAPACITY_SHIFT);
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
    }
}
