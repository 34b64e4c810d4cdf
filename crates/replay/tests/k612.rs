//! Recordings of Debian's 6.12.95 on one CPU replay exactly, and would not if a rule were wrong.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::{assert_exact, fixture, replay_with, scores, show};
use schedlab_model::Time;
use schedlab_replay::{Options, Report, replay_file};

/// Hogs of nice −5, 0, 0 and 5 besides what a booting machine does, with `sched/debug` read 50 ms after the start.
fn hogs() -> Report {
    let snapshot = fixture("k612-hogs.snap1");
    replay_file(&fixture("k612-hogs.txt.gz"), &Options { snapshot: Some(&snapshot), ..Options::default() }).unwrap()
}

/// hackbench, without a snapshot; twelve tasks are queued as the recording begins.
fn hackbench() -> Report {
    let release = Some("6.12".parse().unwrap());
    replay_file(&fixture("k612-hackbench.txt.gz"), &Options { release, ..Options::default() }).unwrap()
}

/// hackbench without one of the features that 6.12 has by default.
fn hackbench_without(feature: &str) -> Report {
    replay_with("k612-hackbench.txt.gz", "6.12", |tunables| {
        assert_eq!(tunables.features.get(feature), Some(true), "{feature} is on by default");
        tunables.features.set(feature, false);
    })
}

#[test]
fn every_decision_is_equal_and_no_vruntime_is_a_nanosecond_off() {
    // The task that runs as the hogs' recording begins starts a new request before its deadline is first seen: the one wake-up
    // and the one pick until then depend on a deadline that was not recorded.
    assert_exact(&hogs(), [1, 0, 1, 0]);
    assert_exact(&hackbench(), [0, 0, 0, 0]);
}

/// The recordings hold enough to tell: each count below is the number of recorded probes, counted in the text with grep.
#[test]
fn everything_recorded_is_compared() {
    let report = hogs();
    // 11,720 lines, one of which is the head. k_cpw with bit 3 of tif (need_resched) clear: tif 0x0, 0x2, 0x4000 and 0x4002, for
    // woken tasks 52 + 3 + 7 + 22 times, for forked ones 2 + 1 + 0 + 0; one of them is unverifiable.
    assert_eq!(report.records, 11_719);
    assert_eq!(report.decisions.wakeup.compared, 87 - 1);
    // k_place 426 times, of which exits queue 22 tasks anew and setpriority two: no placements from sleep or birth.
    assert_eq!(report.decisions.placement.compared, 402);
    // sl= of each k_set.
    assert_eq!(report.state.slice.compared, 978);
    let report = hackbench();
    // (885 + 0 + 0 + 7) woken in WF_SYNC, (14 + 1 + 3 + 1) forked, (42 + 3 + 10 + 25) woken.
    assert_eq!(report.records, 25_897);
    assert_eq!(report.decisions.wakeup.compared, 991);
    // k_place 1,684 times, 51 of them for exits.
    assert_eq!(report.decisions.placement.compared, 1_633);
    assert_eq!(report.state.slice.compared, 2_279);
}

#[test]
fn the_naive_rule_is_not_exact() {
    for report in [hogs(), hackbench()] {
        for score in scores(&report) {
            assert!(score.naive_equal < score.equal, "{}", show(&report));
        }
    }
}

#[test]
fn virtual_times_of_sleepers_are_those_of_the_snapshot() {
    let report = hogs();
    assert!(report.first_sights.snapshot > report.first_sights.recording, "{}", show(&report));
}

mod each_rule_shows {
    use super::*;

    #[test]
    fn base_slice() {
        let report = replay_with("k612-hackbench.txt.gz", "6.12", |tunables| {
            tunables.base_slice = Time::from_micros(750);
        });
        // The kernel's is 0.7 ms: each request is due 50 µs early.
        assert!(report.state.deadline.max_error_ns >= 50_000, "{}", show(&report));
        assert!(!report.is_exact());
    }

    #[test]
    fn each_feature() {
        for feature in [
            "PLACE_LAG",
            "PLACE_DEADLINE_INITIAL",
            "PLACE_REL_DEADLINE",
            "RUN_TO_PARITY",
            "DELAY_DEQUEUE",
            "DELAY_ZERO",
        ] {
            let report = hackbench_without(feature);
            assert!(!report.is_exact(), "{feature} does not show");
            assert!(!report.differences.is_empty(), "{feature} does not show");
        }
    }
}
