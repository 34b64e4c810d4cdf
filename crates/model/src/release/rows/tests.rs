//! The table of changes tells releases apart as the kernels do.

use super::*;
use crate::Series;

fn of(release: &str) -> RuleSet {
    RuleSet::of(release.parse().unwrap())
}

#[test]
fn backports_begin_with_their_point_release() {
    assert!(!of("6.12.62").yield_forfeits && of("6.12.63").yield_forfeits && of("6.12").yield_forfeits);
    assert!(!of("6.18.16").lag_limited_by_longest_slice && of("6.18.17").lag_limited_by_longest_slice);
    assert!(!of("6.18.32").wakeup_preempts_by_deadline && of("6.18.33").wakeup_preempts_by_deadline);
    assert!(!of("5.10.36").alt_period && of("5.10.37").alt_period && of("6.1").alt_period);
    assert!(of("7.2.0").rescales && of("7.2").full_weights && !of("6.18").rescales);
}

/// A rule that ends before a series is not in it: EEVDF has no relative virtual time, and no period.
#[test]
fn rules_end() {
    assert!(of("6.1").relative_vruntime && !of("6.12").relative_vruntime && !of("2.6.24").relative_vruntime);
    assert!(
        of("6.12").util_est_before_dequeue && of("6.18").util_est_before_dequeue && !of("7.2").util_est_before_dequeue
    );
}

#[test]
fn every_row_has_its_field_and_every_requirement_its_row() {
    let mut rules = of("6.1");
    for row in RuleSet::ROWS {
        let before = rules.get(row.name).unwrap();
        assert!(rules.set(row.name, !before));
        assert_eq!(rules.get(row.name), Some(!before), "{}", row.name);
        for required in row.requires {
            let kind = RuleSet::ROWS.iter().find(|other| other.name == *required).map(|other| other.kind);
            assert_eq!(kind, Some(RowKind::Structure), "{} requires {required}", row.name);
        }
    }
    assert!(!rules.set("no_such_rule", true) && rules.get("no_such_rule").is_none());
}

/// A row names its commit, or says why not.
#[test]
fn every_row_names_its_commit_or_says_why_not() {
    for row in RuleSet::ROWS {
        assert_eq!(row.commit.is_none(), !row.no_commit.is_empty(), "{}", row.name);
        assert!(row.commit.is_none_or(|commit| commit.hash.len() == 12), "{}", row.name);
    }
}

/// The balancer's rules of 6.14 are 6.18's too; only from 6.18.33 on has 6.18 the wake-up preemption of 6.19, with the buddy in `pick_eevdf`.
#[test]
fn what_came_with_6_14_is_in_6_18() {
    for rules in [of("6.18.0"), of("6.18")] {
        assert!(rules.balance_counts_runnable && rules.balance_leaves_delayed && rules.balance_leaves_ineligible);
    }
    assert!(!of("6.12").balance_counts_runnable && !of("6.12").balance_leaves_delayed);
    assert!(!of("6.18.32").buddy_in_pick_eevdf && of("6.18.33").buddy_in_pick_eevdf);
    assert!(!of("6.1.21").places_long_sleepers_anew && of("6.1.22").places_long_sleepers_anew);
}

/// Each row tells two known series, or two points of one, apart: else nothing would ever ask for it. A fault that no release has
/// (`load_sums_lose_weight`) is in none, and is switched by its name alone.
#[test]
fn every_row_makes_a_difference() {
    let (faults, rows): (Vec<&Row>, Vec<&Row>) =
        RuleSet::ROWS.iter().partition(|row| row.name == "load_sums_lose_weight");
    assert!(faults.iter().all(|row| !Series::ALL.iter().any(|series| row.is_in(series.newest_known()))));
    for row in rows {
        let known = Series::ALL.map(|series| row.is_in(series.newest_known()));
        assert!(known.contains(&true) && known.contains(&false), "{} is the same in every known series", row.name);
    }
}
