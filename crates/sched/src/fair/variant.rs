//! What differs between the kernels that have EEVDF, stable backports included.

use schedlab_model::{Release, Series};

/// EEVDF's rules of one release, as far as a series' own points differ or a rule is asked for often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eevdf {
    /// Lag is limited to the longest slice of the queue and a tick (6.18.17, 7.0; `cfs_rq_max_slice`); before, to two slices of
    /// one's own, or a tick if that is longer.
    pub lag_by_longest_slice: bool,
    /// Protection begins with a pick (6.18.17, 7.0; `set_next_entity` with `first`), not with any `set_next_task`.
    pub protects_picks: bool,
    /// The wake-up preemption of 6.19 (6.18.33, 7.0): forks and tasks that lingered preempt by a shorter slice alone, a buddy is
    /// the one with the earlier deadline, and who lingers and would be picked leaves.
    pub wakeups_by_deadline: bool,
    /// A yield forfeits the rest of the request (6.12.63, 6.18.2); before, it only put the deadline a slice off.
    pub yield_forfeits: bool,
    /// V is computed with all bits of the weights (7.2), not with those of the nice table; and real time becomes virtual time by
    /// dividing by them (`__calc_delta` of 64-bit machines), not by multiplying with an inverse.
    pub full_weights: bool,
    /// Weights change about V, nothing else moving (7.0; `rescale_entity`).
    pub rescales: bool,
    /// Lag does not grow worse, nor (DELAY_ZERO) positive, while its owner lingers asleep (7.2; `update_entity_lag`).
    pub bounds_lingering_lag: bool,
    /// Bandwidth throttles task by task, as each returns to user space (6.18; `throttle_cfs_rq_work`).
    pub throttles_tasks: bool,
    /// The fair class asks for a schedule lazily (PREEMPT_LAZY, the one model but full preemption from 7.0 on).
    pub lazy: bool,
}

impl Eevdf {
    /// The rules of `release`. One of no known series takes those of the newest known point of the series that stands in.
    pub fn of(release: Release) -> Self {
        let series = release.series();
        let point = if release.stand_in().is_some() { series.newest_known() } else { release };
        let new = series >= Series::V7_2;
        let from = |patch| new || (series == Series::V6_18 && point >= Release::new(6, 18, patch));
        Self {
            lag_by_longest_slice: from(17),
            protects_picks: from(17),
            wakeups_by_deadline: from(33),
            yield_forfeits: from(2) || point >= Release::new(6, 12, 63) && series == Series::V6_12,
            full_weights: new,
            rescales: new,
            bounds_lingering_lag: new,
            throttles_tasks: series >= Series::V6_18,
            lazy: new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(release: &str) -> Eevdf {
        Eevdf::of(release.parse().unwrap())
    }

    #[test]
    fn backports_begin_with_their_point_release() {
        assert!(!of("6.12.62").yield_forfeits && of("6.12.63").yield_forfeits && of("6.12").yield_forfeits);
        assert!(!of("6.18.16").lag_by_longest_slice && of("6.18.17").lag_by_longest_slice);
        assert!(!of("6.18.32").wakeups_by_deadline && of("6.18.33").wakeups_by_deadline);
        // 6.19 is of no known series: the newest known 6.18 stands in, not 6.18.3.
        assert_eq!(of("6.19.3"), of("6.18"));
        assert!(of("7.2.0").rescales && of("7.9").full_weights && !of("6.18").rescales);
    }
}
