//! How long a picked task keeps the CPU under EEVDF (RUN_TO_PARITY).

use crate::entity::{Entity, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::rules::Rules;

/// `normalized_sysctl_sched_base_slice`, before scaling with CPUs (6.18), in nanoseconds.
const NORMALIZED_BASE_SLICE: u64 = 700_000;

impl Rules {
    /// `protect_slice`: whether the current entity keeps the CPU ([`Rules::protection`]; in 6.12 a part of `pick_eevdf`).
    #[inline(always)]
    pub(crate) fn protect_slice(&self, entity: &Entity) -> bool {
        self.protection(entity).is_some()
    }

    /// How long the current entity is still protected, in nanoseconds of virtual time; none where it is not: on 6.12 (`curr->vlag ==
    /// curr->deadline`) while its deadline stands, since 052c3d87c82e (6.17) until a virtual time.
    #[inline(always)]
    pub(crate) fn protection(&self, entity: &Entity) -> Option<i64> {
        let left = entity.vprot.since(entity.vruntime);
        let protected = if self.protects_for_time { left > 0 } else { entity.vprot == entity.deadline };
        protected.then_some(left)
    }

    /// Whether the running entity has to go though its request goes on: once it is not protected any more, on 6.12 only where a shorter slice took
    /// that from it and it is not eligible (`did_preempt_short` in 6.12, a part of `update_curr` later).
    #[doc(alias = "did_preempt_short")]
    #[inline(always)]
    pub(crate) fn is_unprotected(&self, entity: &Entity, is_eligible: impl FnOnce() -> bool) -> bool {
        let goes = self.protects_for_time || self.tunables.features.preempt_short;
        goes && !self.protect_slice(entity) && (self.protects_for_time || !is_eligible())
    }

    /// `set_protect_slice`: from now on the picked entity is protected: on 6.12 while its deadline stands, on 6.18 for the shortest slice of
    /// the queue (without RUN_TO_PARITY the unscaled base slice), at most its own; since 0d1e7a2bab35 (7.3), where that is shorter than its own,
    /// as long as it is eligible (PREEMPT_SHORT).
    #[doc(alias = "set_next_entity")]
    #[inline(always)]
    pub(crate) fn set_protect_slice(&self, entity: &mut Entity, min_slice: impl FnOnce() -> u64) {
        entity.vprot = entity.deadline;
        if let Some(slice) = self.shorter_slice(entity, min_slice) {
            self.update_protect_slice(entity, entity.vruntime, slice);
        }
    }

    /// The same where a slice shorter than its own protects it as long as it is eligible, until the virtual time `ineligible`.
    pub(crate) fn set_protection_until(&self, entity: &mut Entity, min_slice: u64, ineligible: Vruntime) {
        entity.vprot = entity.deadline;
        if self.shorter_slice(entity, || min_slice).is_some() {
            entity.vprot = entity.vprot.min(ineligible);
        }
    }

    /// The shortest slice of the queue, which protection lasts for since 052c3d87c82e (6.17), if that is shorter than the entity's own.
    #[inline(always)]
    fn shorter_slice(&self, entity: &Entity, min_slice: impl FnOnce() -> u64) -> Option<u64> {
        if !self.protects_for_time {
            return None;
        }
        let shortest = if self.tunables.features.run_to_parity { min_slice() } else { NORMALIZED_BASE_SLICE };
        Some(shortest).filter(|shortest| *shortest < entity.slice)
    }

    /// `update_protect_slice` (6.18): a shorter slice came, and protection ends that much after the virtual time `from`, if it did not before.
    #[inline(always)]
    pub(crate) fn update_protect_slice(&self, entity: &mut Entity, from: Vruntime, slice: u64) {
        let virtual_slice = self.calc_delta_fair(slice, &mut entity.load);
        entity.vprot = entity.vprot.min(from.plus(virtual_slice));
    }

    /// `cancel_protect_slice`: the entity is protected no longer (in 6.12 a part of `check_preempt_wakeup_fair`, under PREEMPT_SHORT).
    #[doc(alias = "PREEMPT_SHORT")]
    #[inline(always)]
    pub(crate) fn cancel_protect_slice(&self, entity: &mut Entity) {
        if self.protect_slice(entity) {
            entity.vprot = if self.protects_for_time { entity.vruntime } else { entity.deadline.plus(1) };
        }
    }

    /// Coming ticks that leave an entity running, as a closed form of what [`Rules::update_deadline`] and [`Rules::is_unprotected`] say at each:
    /// the first comes `partial` after it was charged last, and no task is enqueued or dequeued meanwhile. A lower bound.
    ///
    /// A protected one goes on until its virtual time reaches the end of its protection, a slice or less. An unprotected one has to go at any
    /// tick; on 6.12 once its request is served or, under PREEMPT_SHORT, it is not eligible any more.
    pub(crate) fn ticks_until_unprotected(&self, queue: &CfsRq, entity: &mut Entity, partial: u64) -> u64 {
        let protected = self.protect_slice(entity);
        if !protected && self.protects_for_time {
            return 0;
        }
        let first = entity.vruntime.plus(self.calc_delta_fair(partial, &mut entity.load));
        let step = self.calc_delta_fair(self.tick, &mut entity.load).max(1);
        let end = if protected { entity.vprot.min(entity.deadline) } else { entity.deadline };
        let left = end.since(first);
        // At nice 0 a step is a tick, which takes no division.
        let ticks = |time: u64| if step == self.tick { self.in_ticks.quotient_up(time) } else { time.div_ceil(step) };
        let until_served = if left <= 0 { 0 } else { ticks(left as u64) };
        if protected || !self.tunables.features.preempt_short {
            return until_served;
        }
        // What others are queued have an average; beyond that it is not eligible.
        let room = queue.avg_vruntime.div_euclid(queue.avg_load.max(1)) - first.since(queue.zero_vruntime);
        let until_ineligible = if room < 0 { 0 } else { room as u64 / step + 1 };
        until_served.min(until_ineligible)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schedlab_model::{CpuId, Policy, Scheduler, TaskId};

    use super::*;
    use crate::entity::{CfsRqId, EntityId};
    use crate::fair::weight::weight_of_nice;

    proptest! {
        /// The closed form against the leaves asked at each tick: none of the ticks that it counts acts.
        #[test]
        fn no_tick_that_is_counted_acts(
            release in prop::sample::select(vec!["6.12", "6.18", "7.2", "7.3"]),
            (parity, short) in any::<(bool, bool)>(),
            nice in -20i8..20,
            partial in 1u64..=1_000_000,
            (left, protection) in (-1_000_000i64..9_000_000, 0u64..6_000_000),
            whole in any::<bool>(),
            others in (-8_000_000i64..8_000_000, 15i64..90_000),
        ) {
            let mut rules = Rules::new(&Scheduler::new(release.parse().unwrap()), 2).unwrap();
            let features = &mut rules.tunables.features;
            (features.run_to_parity, features.preempt_short) = (parity, short);
            let mut entity = Entity::new(weight_of_nice(&rules, Policy::Other, nice), 3_000_000, CfsRqId(0), TaskId(0));
            entity.vruntime = Vruntime(1 << 40);
            entity.deadline = entity.vruntime.plus(left as u64);
            entity.vprot = if whole { entity.deadline } else { entity.vruntime.plus(protection) };
            entity.on_rq = true;
            let mut queue = CfsRq::new(CpuId(0));
            queue.zero_vruntime = entity.vruntime;
            (queue.avg_vruntime, queue.avg_load) = (others.0.wrapping_mul(others.1), others.1);
            (queue.curr, queue.nr_running) = (Some(EntityId(0)), 2);
            let inactive = rules.ticks_until_unprotected(&queue, &mut entity, partial);
            for number in 0..inactive.min(500) {
                prop_assert!(entity.update_se(partial + rules.tick * number, &rules).is_some());
                let served = !entity.vruntime.before(entity.deadline);
                let average = queue.average(Some(&entity), &rules);
                let goes = rules.is_unprotected(&entity, || average.is_eligible(entity.vruntime));
                prop_assert!(!served && !goes, "tick {number} of {inactive} acts: served {served}, unprotected {goes}");
            }
        }
    }
}
