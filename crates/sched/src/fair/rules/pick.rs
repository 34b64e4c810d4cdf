//! Who should run of a queue's entities under EEVDF.

use schedlab_model::PickRule;

use crate::entity::{Entity, EntityId};
use crate::fair::cfs_rq::CfsRq;
use crate::rules::Rules;

/// The entity that was picked, with the rule that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Picked {
    pub(crate) se: EntityId,
    pub(crate) by: PickRule,
}

impl CfsRq {
    /// `pick_next_entity` of EEVDF: up to 6.18.32 the buddy comes first here, and only here: NEXT_BUDDY's, or the group of a task that just left
    /// (since 147f3efaa241, 6.6; e837456fdca8, 6.19, has it in `pick_eevdf`).
    #[doc(alias = "pick_next_entity")]
    #[inline(always)]
    pub(crate) fn pick_next_eevdf(&self, entities: &[Entity], rules: &Rules) -> Option<Picked> {
        if rules.tunables.features.pick_buddy
            && !rules.buddy_in_pick_eevdf
            && let Some(next) = self.next
        {
            let running = self.running(entities).map(|(_, running)| running);
            if self.average(running, rules).is_eligible(entities[next.index()].vruntime) {
                return Some(Picked { se: next, by: PickRule::NextBuddy });
            }
        }
        self.pick_eevdf(entities, rules, true)
    }

    /// `pick_eevdf`: the eligible entity with the earliest virtual deadline; the current one keeps the CPU while its slice is protected
    /// (`protect` false: not, for a shorter slice). Since 147f3efaa241 (6.6); for a shorter slice without the buddy since 78cde54ea5f0 (7.1).
    #[doc(alias = "__pick_eevdf")]
    #[inline(always)]
    pub(crate) fn pick_eevdf(&self, entities: &[Entity], rules: &Rules, protect: bool) -> Option<Picked> {
        let running = self.running(entities);
        if self.nr_in_timeline(rules) == 1 {
            let only = running.map(|(curr, _)| curr).or_else(|| self.timeline.first());
            return only.map(|se| Picked { se, by: PickRule::Only });
        }
        let average = self.average(running.map(|(_, running)| running), rules);
        let features = &rules.tunables.features;
        if features.pick_buddy
            && rules.buddy_in_pick_eevdf
            && (protect || !rules.buddy_only_if_protecting)
            && let Some(next) = self.next
            && average.is_eligible(entities[next.index()].vruntime)
        {
            return Some(Picked { se: next, by: PickRule::NextBuddy });
        }
        let curr = running.filter(|(_, running)| average.is_eligible(running.vruntime));
        // 6.18 protects without RUN_TO_PARITY too, for a shorter time.
        let protects = protect && (features.run_to_parity || rules.protects_for_time);
        if let Some((curr, running)) = curr
            && protects
            && rules.protect_slice(running)
        {
            return Some(Picked { se: curr, by: PickRule::ProtectedSlice });
        }
        let earliest = |se: EntityId| Picked { se, by: PickRule::EarliestDeadline };
        match (self.timeline.first_eligible_with_key(|vruntime| average.is_eligible(vruntime)), curr) {
            (Some((_, best)), Some((curr, running))) if running.deadline.before(best) => Some(earliest(curr)),
            (Some((best, _)), _) => Some(earliest(best)),
            (None, curr) => curr.map(|(se, _)| Picked { se, by: PickRule::NoneEligible }),
        }
    }
}
