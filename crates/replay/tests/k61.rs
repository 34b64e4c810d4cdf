//! Recordings of Debian's 6.1.176 on one CPU replay exactly, and would not if a rule were wrong.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::{assert_exact, fixture, replay_with, scores, show};
use proptest::prelude::*;
use schedlab_model::{Time, Tunables};
use schedlab_replay::{Options, Report, Settings, replay, replay_file};
use schedlab_trace::{Probe, Record, RecordKind, Snapshot, open};

/// Four hogs of nice −5, 0, 0 and 5 besides what a booting machine does, with `sched/debug` read 40 ms after the start.
fn hogs() -> Report {
    let snapshot = fixture("k61-hogs.snap1");
    replay_file(&fixture("k61-hogs.txt.gz"), &Options { snapshot: Some(&snapshot), ..Options::default() }).unwrap()
}

/// hackbench with a group of 40 tasks, without a snapshot.
fn hackbench() -> Report {
    replay_file(&fixture("k61-hackbench.txt.gz"), &Options::default()).unwrap()
}

/// hackbench under rules whose tunables were tampered with.
fn hackbench_with(change: impl FnOnce(&mut Tunables)) -> Report {
    replay_with("k61-hackbench.txt.gz", "6.1", change)
}

#[test]
fn every_decision_is_equal_and_no_vruntime_is_a_nanosecond_off() {
    for report in [hogs(), hackbench()] {
        assert_exact(&report, [0; 4]);
    }
}

/// The recordings hold enough to tell: each count below is the number of recorded probes, counted in the text with grep.
#[test]
fn everything_recorded_is_compared() {
    let report = hogs();
    // 9,283 lines, one of which is the head; k_pick 1,059 times.
    assert_eq!(report.records, 9_282);
    assert_eq!(report.state.load.compared, 1_059);
    // k_cpw with bit 3 of tif (need_resched) clear: tif 0x0, 0x2, 0x4000 and 0x4002, 68 + 4 + 12 + 10 times for woken tasks and
    // 2 + 3 + 2 + 0 for forked ones.
    assert_eq!(report.decisions.wakeup.compared, 101);
    // k_place, forks included: each is seen at the task's next k_set.
    assert_eq!(report.decisions.placement.compared, 302);
    let report = hackbench();
    assert_eq!(report.records, 21_524);
    assert_eq!(report.state.load.compared, 2_578);
    // (48 + 3 + 26 + 19) woken, (1,049 + 0 + 0 + 6) woken in WF_SYNC, (31 + 7 + 5 + 0) forked.
    assert_eq!(report.decisions.wakeup.compared, 1_194);
    assert_eq!(report.decisions.placement.compared, 1_499);
}

/// Scores mean something only beside what a rule that knows nothing of buddies and granularities gets.
#[test]
fn the_naive_rule_is_not_exact() {
    for report in [hogs(), hackbench()] {
        for score in scores(&report) {
            assert!(score.naive_equal < score.equal, "{}", show(&report));
        }
    }
}

/// The snapshot is older than most tasks' first appearance, so their virtual times come from there and are then compared.
#[test]
fn virtual_times_of_sleepers_are_those_of_the_snapshot() {
    let report = hogs();
    assert!(report.first_sights.snapshot > report.first_sights.recording, "{}", show(&report));
}

#[test]
fn a_snapshot_that_lies_is_noticed() {
    let text = std::fs::read_to_string(fixture("k61-hogs.snap1")).unwrap();
    // A udev worker that sleeps from before the recording until 17.0 s: a millisecond more.
    let wrong = text.replace("4282.165686", "4283.165686");
    assert_ne!(text, wrong);
    let settings = Settings::from_snapshot(wrong.parse::<Snapshot>().unwrap()).unwrap();
    let report = replay(open(&fixture("k61-hogs.txt.gz")).unwrap(), &settings).unwrap();
    assert_eq!(report.state.vruntime.max_error_ns, 1_000_000);
    assert!(!report.is_exact());
    let difference = &report.differences[0];
    assert_eq!((difference.what, difference.ours.as_str()), ("vruntime", "4283165686"));
}

mod each_rule_shows {
    use super::*;

    #[test]
    fn wakeup_granularity() {
        let report = hackbench_with(|tunables| tunables.wakeup_granularity = Time::from_millis(2));
        let wakeup = report.decisions.wakeup;
        assert!(wakeup.equal < wakeup.compared, "{}", show(&report));
        assert!(!report.is_exact());
        assert!(!report.differences.is_empty());
    }

    #[test]
    fn start_debit() {
        let report = hackbench_with(|tunables| tunables.features.start_debit = false);
        let placement = report.decisions.placement;
        assert!(placement.equal < placement.compared, "{}", show(&report));
        assert!(report.state.vruntime.max_error_ns > 0);
    }

    #[test]
    fn gentle_sleepers() {
        let report = hackbench_with(|tunables| tunables.features.gentle_fair_sleepers = false);
        let placement = report.decisions.placement;
        assert!(placement.equal < placement.compared, "{}", show(&report));
        // Without it a sleeper comes in a whole latency early instead of half of one: 3 ms.
        assert!(report.state.vruntime.max_error_ns >= 3_000_000);
    }

    #[test]
    fn last_buddy() {
        let report = hackbench_with(|tunables| tunables.features.last_buddy = false);
        let pick = report.decisions.pick;
        assert!(pick.equal < pick.compared, "{}", show(&report));
        assert!(report.state.buddies.equal < report.state.buddies.compared);
        // Picks alone: the virtual times are those of the kernel's choices, which stand.
        assert_eq!(report.state.vruntime.max_error_ns, 0);
    }

    #[test]
    fn min_granularity() {
        let report = hackbench_with(|tunables| tunables.min_granularity = Time::from_millis(3));
        let tick = report.decisions.tick;
        assert!(tick.equal < tick.compared, "{}", show(&report));
    }

    #[test]
    fn latency() {
        let report = hackbench_with(|tunables| tunables.latency = Time::from_millis(12));
        assert!(report.state.vruntime.max_error_ns > 0, "{}", show(&report));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Time that was charged but is left out of the recording is missing from a virtual time ever after.
    #[test]
    fn one_missing_charge_is_noticed(which: prop::sample::Index) {
        let mut records: Vec<Record> = open(&fixture("k61-hackbench.txt.gz")).unwrap().map(Result::unwrap).collect();
        // Not the very first, which is where the running task is first seen. Only of tasks that are charged again before they
        // are placed anew: a sleeper comes back a credit before min_vruntime however little it ran, and the last charge of an
        // ending task affects no placement. And not where an exit takes the task out and puts it back: the first of the queue comes
        // back at the queue's new min_vruntime, however long it ran.
        let charged = |record: &Record| match record.kind {
            RecordKind::StatRuntime { pid, .. } => Some(pid),
            _ => None,
        };
        let again = |index: &usize| {
            let pid = charged(&records[*index]);
            let changes = matches!(records[*index - 1].kind, RecordKind::Probe(Probe::Dequeue { flags: 0xe, .. }));
            let placed = |record: &Record| match record.kind {
                RecordKind::Probe(Probe::Place { pid, .. }) => Some(pid),
                _ => None,
            };
            let concerns = |later: &&Record| charged(later) == pid || placed(later) == pid;
            let next = records[*index + 1..].iter().find(concerns);
            pid.is_some() && !changes && next.is_some_and(|next| charged(next) == pid)
        };
        let charges: Vec<usize> = (1..records.len()).filter(again).collect();
        records.remove(charges[which.index(charges.len())]);
        let settings = Settings::defaults("6.1".parse().unwrap()).unwrap();
        let report = replay(records.into_iter().map(Ok), &settings).unwrap();
        prop_assert!(report.state.vruntime.max_error_ns > 0);
        prop_assert!(!report.is_exact());
    }
}
