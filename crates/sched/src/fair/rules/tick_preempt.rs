//! When a tick takes the CPU away under CFS, and how many ticks there are until one does.

use schedlab_model::TurnRule;

use crate::divisor::Divisor;
use crate::entity::{Entity, Vruntime};
use crate::rules::Rules;

impl Rules {
    /// `check_preempt_tick`: whether an entity whose turn has lasted for `turn` has had its slice, `ideal`, or is further `ahead` of the first
    /// that waits, if any does, than that (since f685ceacab07, 2.6.32). All in nanoseconds, `ahead` of virtual time.
    #[inline(always)]
    pub(crate) fn check_preempt_tick(&self, turn: u64, ideal: u64, ahead: Option<i64>) -> TurnRule {
        if turn > ideal {
            return TurnRule::SliceOver(turn - ideal);
        }
        if let Some(ahead) = ahead
            && ahead > 0
            && ahead as u64 > ideal
            && self.tick_compares_leftmost
            && turn >= self.tunables.min_granularity.as_nanos()
        {
            return TurnRule::TooFarAhead(ahead as u64 - ideal);
        }
        TurnRule::SliceLeft(ideal - turn)
    }
}

/// Coming ticks under CFS that find no more than the `ideal` runtime used up, where the first one will find `first` used.
#[inline]
const fn ticks_until_ideal(first: u64, ideal: u64, in_ticks: &Divisor) -> u64 {
    if first > ideal { 0 } else { in_ticks.quotient(ideal - first) + 1 }
}

impl Rules {
    /// Coming ticks under CFS that leave a task running whose slice is `ideal`. The first one will find that it has run for `first`, and
    /// that it is so far `ahead` of the first in the queue in virtual time; each further one finds it a `step` further.
    #[inline(always)]
    pub(crate) fn inactive_ticks_cfs(&self, first: u64, ideal: u64, ahead: i64, step: u64) -> u64 {
        let until_ideal = ticks_until_ideal(first, ideal, &self.in_ticks);
        // What is no further ahead than it ran, and gets no further at a tick than that is long, is so until the ideal runtime ends.
        let never_ahead = step <= self.tick && (ahead <= 0 || ahead as u64 <= first);
        if never_ahead || !self.tick_compares_leftmost {
            return until_ideal;
        }
        self.inactive_ticks_until_ahead(first, ideal, ahead, step)
    }

    /// Coming ticks that leave an entity running, as a closed form of [`Rules::check_preempt_tick`] at each: the first comes `partial`
    /// after it was charged last, without enqueues or dequeues meanwhile; `first_key` is the first waiting entity's, if any. A lower bound.
    #[inline(always)]
    pub(crate) fn ticks_until_preempted(
        &self,
        entity: &mut Entity,
        partial: u64,
        ideal: u64,
        first_key: Option<Vruntime>,
    ) -> u64 {
        let first = entity.turn() + partial;
        let Some(first_key) = first_key else { return ticks_until_ideal(first, ideal, &self.in_ticks) };
        let ahead = entity.vruntime.plus(self.calc_delta_fair(partial, &mut entity.load)).since(first_key);
        let step = self.calc_delta_fair(self.tick, &mut entity.load);
        self.inactive_ticks_cfs(first, ideal, ahead, step)
    }

    /// [`Rules::inactive_ticks_cfs`] for a task that may get too far ahead of the first in the queue.
    #[inline(never)]
    fn inactive_ticks_until_ahead(&self, first: u64, ideal: u64, ahead: i64, step: u64) -> u64 {
        let until_ideal = ticks_until_ideal(first, ideal, &self.in_ticks);
        // Or once it has run a granularity and is further ahead of the first in the queue than the ideal runtime.
        // Beyond a signed number's range there is room for ages.
        let room = (ideal.min(i64::MAX as u64) as i64).saturating_sub(ahead);
        if room >= 0 && u128::from(step) * u128::from(until_ideal.saturating_sub(1)) <= room as u128 {
            // room / step + 1 is no less: no need to divide.
            return until_ideal;
        }
        let granularity = self.tunables.min_granularity.as_nanos();
        let until_granularity = granularity.saturating_sub(first).div_ceil(self.tick);
        let until_ahead = match (room < 0, step) {
            (true, _) => 0,
            (false, 0) => u64::MAX,
            (false, step) => room as u64 / step + 1,
        };
        until_ideal.min(until_granularity.max(until_ahead))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schedlab_model::{Policy, Scheduler, TaskId};

    use super::*;
    use crate::entity::CfsRqId;
    use crate::fair::weight::weight_of_nice;

    proptest! {
        /// The closed form against the leaf asked at each tick: none of the ticks that it counts acts. Where no other can get in between, the next
        /// one does.
        #[test]
        fn ticks_are_counted_up_to_the_first_that_acts(
            release in prop::sample::select(vec!["2.6.24", "5.10", "6.1"]),
            hz in prop::sample::select(vec![100u32, 250, 1000]),
            nice in -20i8..20,
            (ideal, turn, partial) in (100_000u64..30_000_000, 0u64..40_000_000, 1u64..=1_000_000),
            gap in prop::option::of(-60_000_000i64..60_000_000),
        ) {
            let rules = Rules::new(&Scheduler { hz, ..Scheduler::new(release.parse().unwrap()) }, 2).unwrap();
            let mut entity = Entity::new(weight_of_nice(&rules, Policy::Other, nice), 3_000_000, CfsRqId(0), TaskId(0));
            entity.sum_exec_runtime = turn;
            entity.vruntime = Vruntime(1 << 40);
            let first_key = gap.map(|gap| entity.vruntime.minus(gap as u64));
            let inactive = rules.ticks_until_preempted(&mut entity, partial, ideal, first_key);
            let mut acts_at = None;
            for number in 0..inactive.saturating_add(2).min(2_000) {
                let now = partial + rules.tick * number;
                prop_assert!(entity.update_se(now, &rules).is_some());
                let ahead = first_key.map(|first| entity.vruntime.since(first));
                if rules.check_preempt_tick(entity.turn(), ideal, ahead).preempts() {
                    acts_at = Some(number);
                    break;
                }
            }
            prop_assert!(acts_at.is_none_or(|number| number >= inactive), "acts at {acts_at:?}, {inactive} were counted");
            if inactive < 1_000 {
                prop_assert_eq!(acts_at, Some(inactive));
            }
        }
    }
}
