//! Lag: by how much an entity has received less than its share, in virtual time, and its limits (EEVDF).

use crate::entity::{Entity, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::timeline::{Augmentation, Longest};
use crate::rules::Rules;

impl CfsRq {
    /// `cfs_rq_min_slice`: the shortest slice on the queue, in nanoseconds (6.12 on).
    #[doc(alias = "cfs_rq_min_slice")]
    #[inline]
    pub(crate) fn min_slice(&self, running: Option<&Entity>) -> u64 {
        let running = running.map(|running| running.slice);
        running.into_iter().chain(self.timeline.shortest_slice()).min().unwrap_or(u64::MAX)
    }

    /// `cfs_rq_max_slice`: the longest slice on the queue, in nanoseconds (since 6e3c0a4e1ad1, 7.0, 6.18.17).
    #[doc(alias = "cfs_rq_max_slice")]
    #[inline]
    pub(crate) fn max_slice(&self, running: Option<&Entity>) -> u64 {
        let running = running.map(|running| running.slice);
        running.into_iter().chain(self.timeline.longest_slice()).max().unwrap_or(0)
    }
}

impl Rules {
    /// How the kernel's tree of a timeline knows the shortest and the longest slice ([`RuleSet::places_move_slices`],
    /// [`RuleSet::arrival_sets_longest_slice`]).
    ///
    /// [`RuleSet::places_move_slices`]: schedlab_model::RuleSet
    /// [`RuleSet::arrival_sets_longest_slice`]: schedlab_model::RuleSet
    pub(crate) fn augmentation(&self) -> Augmentation {
        let longest = match (self.lag_limited_by_longest_slice, self.arrival_sets_longest_slice) {
            (false, _) => Longest::Absent,
            (true, false) => Longest::Kept,
            (true, true) => Longest::Own,
        };
        Augmentation { moves_slices: self.places_move_slices, longest }
    }

    /// What limits lag, in nanoseconds of real time: two slices of its `own`, since 6e3c0a4e1ad1 (7.0, 6.18.17) the queue's longest slice and a
    /// tick ([`RuleSet::lag_limited_by_longest_slice`]).
    ///
    /// [`RuleSet::lag_limited_by_longest_slice`]: schedlab_model::RuleSet
    #[inline(always)]
    pub(crate) fn lag_limit(&self, own: u64, max_slice: impl FnOnce() -> u64) -> u64 {
        if self.lag_limited_by_longest_slice { max_slice() + self.tick } else { (2 * own).max(self.tick) }
    }

    /// `entity_lag`: V, which is `average`, less the entity's virtual time, but no more either way than `limit` comes to
    /// ([`Rules::lag_limit`]; since 147f3efaa241, 6.6).
    #[doc(alias = "update_entity_lag")]
    #[inline(always)]
    pub(crate) fn entity_lag(&self, average: Vruntime, entity: &mut Entity, limit: u64) -> i64 {
        let limit = self.calc_delta_fair(limit, &mut entity.load) as i64;
        average.since(entity.vruntime).clamp(-limit, limit)
    }

    /// The lag of a delayed entity, which had `before`: it gets no worse and, with DELAY_ZERO, not above zero, in releases that bound it
    /// during the delay (since 059258b0d424, 7.1: [`RuleSet::bounds_lag_while_delayed`]).
    ///
    /// [`RuleSet::bounds_lag_while_delayed`]: schedlab_model::RuleSet
    #[inline]
    pub(crate) fn lag_while_delayed(&self, lag: i64, before: i64) -> i64 {
        let lag = lag.max(before);
        if self.tunables.features.delay_zero { lag.min(0) } else { lag }
    }

    /// `finish_delayed_dequeue_entity`: lag earned in delayed dequeue does not count (DELAY_ZERO; since 152e11f6df29, 6.12). From 059258b0d424
    /// (7.1) on [`Rules::lag_while_delayed`] sees to it before.
    #[doc(alias = "finish_delayed_dequeue_entity")]
    #[inline(always)]
    pub(crate) fn lag_after_delay(&self, lag: i64) -> i64 {
        let forfeits = self.tunables.features.delay_zero && !self.bounds_lag_while_delayed;
        if forfeits { lag.min(0) } else { lag }
    }
}

#[cfg(test)]
mod tests {
    use schedlab_model::Scheduler;

    use super::*;

    /// Before 7.0 and 6.18.17 there is no longest slice; both fixes came with 7.3, 7.2.7 and 6.18.53.
    #[test]
    fn what_a_tree_knows_of_slices_follows_the_release() {
        let known = [
            ("6.12", false, Longest::Absent),
            ("6.18.16", false, Longest::Absent),
            ("6.18.17", false, Longest::Kept),
            ("6.18.53", true, Longest::Own),
            ("7.2.6", false, Longest::Kept),
            ("7.2.7", true, Longest::Own),
            ("7.3", true, Longest::Own),
        ];
        for (release, moves_slices, longest) in known {
            let rules = Rules::new(&Scheduler::new(release.parse().unwrap()), 1).unwrap();
            assert_eq!(rules.augmentation(), Augmentation { moves_slices, longest }, "{release}");
        }
    }

    /// `update_entity_lag` of 7.2 while the entity is delayed: `max(vlag, se->vlag)`, and with DELAY_ZERO no more than 0.
    #[test]
    fn a_delayed_task_s_lag_gets_no_worse_and_earns_nothing() {
        let mut rules = Rules::new(&Scheduler::new("7.2".parse().unwrap()), 1).unwrap();
        for (delay_zero, [worse, better, earned]) in [(true, [-3, -2, 0]), (false, [-3, -2, 4])] {
            rules.tunables.features.delay_zero = delay_zero;
            assert_eq!(rules.lag_while_delayed(-5, -3), worse);
            assert_eq!(rules.lag_while_delayed(-2, -3), better);
            assert_eq!(rules.lag_while_delayed(4, -3), earned);
        }
    }
}
