//! Where in virtual time an entity comes in (`place_entity`).

use crate::entity::{Entity, Vruntime};
use crate::rules::Rules;

/// Asleep for longer than this, 104 days, the signed difference of virtual times may have turned over.
const LONG_SLEEP: u64 = (1 << 63) / 1024;

/// CFS.
impl Rules {
    /// How much earlier than its queue's `min_vruntime` a woken entity may come in, in nanoseconds of virtual time; `idle`: it is a SCHED_IDLE task, or an idle
    /// group, whose credit is a granularity since 51ce83ed523b (5.16; NEW_FAIR_SLEEPERS, GENTLE_FAIR_SLEEPERS).
    #[inline(always)]
    pub(crate) fn sleeper_credit(&self, idle: bool) -> u64 {
        let features = &self.tunables.features;
        if !features.new_fair_sleepers {
            return 0;
        }
        let idle = idle && self.idle_min_granularity;
        let credit = if idle { self.tunables.min_granularity } else { self.tunables.latency }.as_nanos();
        credit >> u32::from(features.gentle_fair_sleepers)
    }

    /// `entity_is_long_sleeper`: asleep since `slept_at`, its last `exec_start`, for so long that virtual times cannot be compared (since
    /// 829c1651e9c4, 6.3, 6.1.22, 5.10.177).
    #[inline(always)]
    pub(crate) fn entity_is_long_sleeper(&self, slept_at: u64, now: u64) -> bool {
        // Until the clock reaches LONG_SLEEP no task can have slept that long.
        now > LONG_SLEEP && slept_at != 0 && slept_at < now - LONG_SLEEP && self.places_long_sleepers_anew
    }

    /// The end of `place_entity` under CFS: an entity that would come in at `start` comes no earlier than it left; a new one (`initial`) does
    /// where it is placed for the first time (until b5d9d734a53e, 2.6.32: [`RuleSet::initial_placement_goes_on`]), and so does one that slept for
    /// ages.
    ///
    /// [`RuleSet::initial_placement_goes_on`]: schedlab_model::RuleSet
    #[inline(always)]
    pub(crate) fn place_no_earlier(&self, entity: &Entity, start: Vruntime, initial: bool, now: u64) -> Vruntime {
        let sets = initial && !self.initial_placement_goes_on;
        if sets || self.entity_is_long_sleeper(entity.exec_start, now) { start } else { entity.vruntime.max(start) }
    }
}

/// EEVDF.
impl Rules {
    /// The entity's request in virtual time: its own slice, or the base slice, which it then has (`place_entity` and `update_deadline`; a slice
    /// of its own since 857b158dc5e8, 6.12).
    #[inline(always)]
    pub(crate) fn virtual_slice(&self, entity: &mut Entity) -> u64 {
        if !entity.custom_slice {
            entity.slice = self.tunables.base_slice.as_nanos();
        }
        self.calc_delta_fair(entity.slice, &mut entity.load)
    }

    /// How far before V an entity of this weight comes in that left with the lag `vlag`, where the others weigh `load`: its coming moves V
    /// towards it, so that the lag is inflated to be what it was once it is there (`place_entity` under PLACE_LAG; since 147f3efaa241, 6.6).
    #[inline(always)]
    pub(crate) fn placed_lag(&self, vlag: i64, weight: i64, load: i64) -> i64 {
        if vlag == 0 || !self.tunables.features.place_lag {
            return 0;
        }
        if self.inflates_lag_by_part {
            // The same but for overflow: vl · (W + w) / W = vl + vl · w / W, which has the sign of vl.
            return vlag.wrapping_add(vlag.wrapping_mul(weight) / load.max(1));
        }
        vlag.wrapping_mul(load + weight) / load.max(1)
    }

    /// The deadline of an entity that was placed: the one that it kept relative to its virtual time as it was moved (PLACE_REL_DEADLINE), else
    /// a request away; a new one (`initial`) begins with half a request, as the others are halfway through theirs on average
    /// (`place_entity` under PLACE_DEADLINE_INITIAL; since 147f3efaa241, 6.6).
    #[doc(alias = "place_entity")]
    #[inline(always)]
    pub(crate) fn place_deadline(&self, entity: &mut Entity, initial: bool) {
        let features = &self.tunables.features;
        let virtual_slice = self.virtual_slice(entity);
        if entity.rel_deadline && (features.place_rel_deadline || self.places_any_relative_deadline) {
            entity.deadline = entity.deadline.plus(entity.vruntime.0);
            entity.rel_deadline = false;
            return;
        }
        let halved = initial && features.place_deadline_initial;
        entity.deadline = entity.vruntime.plus(virtual_slice >> u32::from(halved));
    }

    /// `update_deadline`: once virtual time reaches the deadline the request is served, and the next one begins (since 147f3efaa241, 6.6). Whether
    /// it was; V moves then ([`CfsRq::avg_vruntime`](crate::fair::cfs_rq::CfsRq)).
    #[inline(always)]
    pub(crate) fn update_deadline(&self, entity: &mut Entity) -> bool {
        if entity.vruntime.before(entity.deadline) {
            return false;
        }
        let virtual_slice = self.virtual_slice(entity);
        entity.deadline = entity.vruntime.plus(virtual_slice);
        true
    }
}

impl Entity {
    /// The deadline becomes relative to its virtual time, as it goes elsewhere (`dequeue_entity` under PLACE_REL_DEADLINE).
    #[inline(always)]
    pub(crate) fn keep_relative_deadline(&mut self) {
        self.deadline = self.deadline.minus(self.vruntime.0);
        self.rel_deadline = true;
    }
}

#[cfg(test)]
mod tests {
    use schedlab_model::Scheduler;

    use super::*;

    fn rules(release: &str) -> Rules {
        Rules::new(&Scheduler::new(release.parse().unwrap()), 1).unwrap()
    }

    /// A lag of 1 s beside a load of 2·10¹⁰ (19,000 tasks of nice 0): the product, 2·10¹⁹, is beyond 2⁶³. With 2²⁰ for its own weight it is inflated by
    /// 10⁹ · 2²⁰ / (2·10¹⁰) = 52428.8. Where nothing overflows both forms are the same, for a negative lag too.
    #[test]
    fn an_inflated_lag_does_not_overflow_since_7_3() {
        let (before, since) = (rules("7.2"), rules("7.3"));
        assert_eq!(since.placed_lag(1_000_000_000, 1 << 20, 20_000_000_000), 1_000_052_428);
        assert_ne!(before.placed_lag(1_000_000_000, 1 << 20, 20_000_000_000), 1_000_052_428);
        for lag in [-700_001, -3, 3, 700_001] {
            assert_eq!(since.placed_lag(lag, 335 << 10, 1359 << 10), before.placed_lag(lag, 335 << 10, 1359 << 10));
        }
    }
}
