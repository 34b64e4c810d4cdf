//! What an entity is charged for the time it ran (`update_curr`), and how the least virtual time of its queue follows.

use crate::entity::{Entity, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::rules::Rules;

/// What an entity is to be charged: the time until `now`, in nanoseconds, and the virtual time that it comes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    now: u64,
    pub(crate) delta: u64,
    pub(crate) vruntime: Vruntime,
}

impl Entity {
    /// What it is to be charged until `now` (`update_se`, the time that passed, and `calc_delta_fair`); none where no time has passed.
    #[inline(always)]
    pub(crate) fn charge_until(&mut self, now: u64, rules: &Rules) -> Option<Charge> {
        let delta = now.wrapping_sub(self.exec_start);
        if delta as i64 <= 0 {
            return None;
        }
        let vruntime = self.vruntime.plus(rules.calc_delta_fair(delta, &mut self.load));
        Some(Charge { now, delta, vruntime })
    }

    /// It is charged.
    #[inline(always)]
    pub(crate) fn charge(&mut self, charge: Charge) {
        self.exec_start = charge.now;
        self.sum_exec_runtime = self.sum_exec_runtime.wrapping_add(charge.delta);
        self.vruntime = charge.vruntime;
    }

    /// `update_se` (7.2; `update_curr_se` in 6.12, a part of `update_curr` before): how long the entity ran since it was charged last, if any
    /// time; it is charged that, and its virtual time moves by what that is at its weight.
    #[doc(alias = "update_curr_se")]
    #[doc(alias = "update_curr")]
    #[inline(always)]
    pub(crate) fn update_se(&mut self, now: u64, rules: &Rules) -> Option<u64> {
        let charge = self.charge_until(now, rules)?;
        self.charge(charge);
        Some(charge.delta)
    }

    /// [`Entity::update_se`] of a group that has no virtual time (since 85570f10a4c6, 7.3).
    pub(crate) const fn update_time(&mut self, now: u64) -> Option<u64> {
        let delta = now.wrapping_sub(self.exec_start);
        if delta as i64 <= 0 {
            return None;
        }
        self.exec_start = now;
        self.sum_exec_runtime = self.sum_exec_runtime.wrapping_add(delta);
        Some(delta)
    }

    /// [`Entity::update_se`] at each of `count` ticks, at least one, of which the first comes at `first`, after it was charged last.
    #[inline(always)]
    pub(crate) fn update_se_at_ticks(&mut self, first: u64, count: u64, rules: &Rules) {
        let charge = self.charge_at_ticks(first, count, rules);
        self.charge(charge);
    }

    /// What it is to be charged at all of these ticks together. Each rounds for itself, and whole ticks round alike.
    #[inline(always)]
    pub(crate) fn charge_at_ticks(&mut self, first: u64, count: u64, rules: &Rules) -> Charge {
        let partial = first.wrapping_sub(self.exec_start);
        debug_assert!(partial as i64 > 0, "the first tick is after the last charge");
        let whole = rules.tick * (count - 1);
        let mut virtual_time = partial + whole;
        if self.load.scaled != rules.nice_0_load {
            let step = rules.calc_delta_fair(rules.tick, &mut self.load);
            virtual_time = rules.calc_delta_fair(partial, &mut self.load).wrapping_add(step.wrapping_mul(count - 1));
        }
        Charge { now: first.wrapping_add(whole), delta: partial + whole, vruntime: self.vruntime.plus(virtual_time) }
    }

    /// Its turn begins, at `now` (`set_next_entity`, all releases).
    #[doc(alias = "set_next_entity")]
    #[inline(always)]
    pub(crate) fn begin_turn(&mut self, now: u64) {
        self.exec_start = now;
        self.prev_sum_exec_runtime = self.sum_exec_runtime;
    }

    /// How long its turn has lasted, as far as it was charged, in nanoseconds.
    #[inline(always)]
    pub(crate) const fn turn(&self) -> u64 {
        self.sum_exec_runtime.wrapping_sub(self.prev_sum_exec_runtime)
    }
}

impl CfsRq {
    /// `update_min_vruntime` (up to 6.5): the least virtual time of the `running` entity and those that wait, which never goes back; a running
    /// entity that is no longer queued does not count from 5.10 on ([`RuleSet::min_vruntime_of_queued`](schedlab_model::RuleSet)).
    #[inline(always)]
    pub(crate) fn update_min_vruntime(&mut self, running: Option<Vruntime>) {
        let least = match (running, self.timeline.first_key()) {
            (Some(running), Some(first)) => running.min(first),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => return,
        };
        self.min_vruntime = self.min_vruntime.max(least);
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
        /// The batch is the leaf, as often as there are ticks.
        #[test]
        fn ticks_charge_together_what_they_charge_one_by_one(
            release in prop::sample::select(vec!["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"]),
            nice in -20i8..20,
            (start, partial, vruntime) in (any::<u64>(), 1u64..=4_000_000, any::<u64>()),
            count in 1u64..40,
        ) {
            let rules = Rules::new(&Scheduler::new(release.parse().unwrap()), 2).unwrap();
            let load = weight_of_nice(&rules, Policy::Other, nice);
            let mut one = Entity::new(load, 3_000_000, CfsRqId(0), TaskId(0));
            (one.exec_start, one.vruntime) = (start, Vruntime(vruntime));
            let mut all = one.clone();
            let first = start.wrapping_add(partial);
            for number in 0..count {
                prop_assert!(one.update_se(first.wrapping_add(rules.tick * number), &rules).is_some());
            }
            all.update_se_at_ticks(first, count, &rules);
            let state = |entity: &Entity| (entity.exec_start, entity.sum_exec_runtime, entity.vruntime);
            prop_assert_eq!(state(&one), state(&all));
        }
    }
}
