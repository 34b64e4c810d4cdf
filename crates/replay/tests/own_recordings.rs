//! Recordings in schedlab's format name their kernel and its settings.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::fixture;
use schedlab_replay::{Level, Options, ReplayError, Settings, replay, replay_file};
use schedlab_trace::{Head, Reader, open};

/// The head that `schedlab record` writes, around this `sched/debug`.
fn head(kernel: &str, debug: &str) -> String {
    let quoted: String = debug.lines().map(|line| format!("#| {line}\n")).collect();
    let facts = format!("# schedlab recording 1\n# release: 6.1.0-50-amd64\n# kernel: {kernel}\n");
    format!("{facts}# file: /sys/kernel/debug/sched/debug\n{quoted}# events\n")
}

fn read(text: &str) -> Head {
    let mut reader = Reader::new(text.as_bytes());
    reader.by_ref().for_each(|record| drop(record.unwrap()));
    reader.head().unwrap().clone()
}

#[test]
fn the_head_stands_for_the_snapshot_and_the_release() {
    let debug = std::fs::read_to_string(fixture("k61-hogs.snap1")).unwrap();
    let head = read(&(head("6.1.176", &debug) + "# end: events=0\n"));
    let settings = Settings::from_head(&head).unwrap();
    assert_eq!(settings.release.to_string(), "6.1.176");
    let report = replay(open(&fixture("k61-hogs.txt.gz")).unwrap(), &settings).unwrap();
    common::assert_exact(&report, [0; 4]);
}

#[test]
fn a_head_without_a_release_or_without_settings_is_refused() {
    let event = "a-1 0d..2. 1.0: k_pnt: c=6 ct=5\n# end: events=1\n";
    for (text, missing) in [
        (format!("# schedlab recording 1\n# events\n{event}"), "kernel"),
        (format!("# schedlab recording 1\n# kernel: 6.1.176\n# events\n{event}"), "sched/debug"),
    ] {
        let error = Settings::from_head(&read(&text)).unwrap_err();
        assert!(matches!(error, ReplayError::Settings(_)), "{error}");
        assert!(error.to_string().contains(missing), "{error}");
    }
}

/// Each begins with the state of every task before the workload, and every decision and state after that comes out equal: hogs whose
/// nice levels are set as they run, sleepers, batch and idle tasks, and all sorts of changes, on Debian's kernels, recorded by
/// `schedlab record` at L1.
#[test]
fn a_recording_begins_from_its_snapshot() {
    let hogs = ["hogs-5.10.txt.gz", "hogs-6.1.txt.gz", "hogs-6.12.txt.gz", "hogs-7.2.txt.gz", "hogs-7.3.txt.gz"];
    for file in hogs.into_iter().chain([
        "sleepers-6.18.txt.gz",
        "sleepers-7.2.txt.gz",
        "sleepers-7.3.txt.gz",
        "batch-idle-6.1.txt.gz",
        "changes-6.12.txt.gz",
    ]) {
        let report = replay_file(&fixture(file), &Options::default()).unwrap();
        assert_eq!((report.level, report.unexplained), (Level::L1, 0), "{file}");
        // The clock at which each charge began is shown, and compared.
        assert!(report.state.exec_start.compared > 100 && report.state.exec_start.max_error_ns == 0, "{file}");
        // No task that was there before was first seen later than in the snapshot.
        assert_eq!(report.first_sights.recording, 0, "{file}");
        // The recording does not show in which order equal tasks were queued before it, nor where tasks that were not picked again were
        // placed.
        let open = [report.decisions.pick, report.decisions.placement].map(|score| score.unverifiable);
        assert!(open[0] <= 1 && open[1] <= 2, "{file}: {open:?}");
        common::assert_exact(&report, [open[0], 0, 0, open[1]]);
    }
}

/// A recording of 6.18.15 with placements and tracepoints (L0k). This kernel reschedules lazily, which not each one of its series does; the
/// head's `sched/preempt` says so.
#[test]
fn a_recording_of_6_18_comes_out_as_recorded() {
    let report = replay_file(&fixture("hogs-6.18.txt.gz"), &Options::default()).unwrap();
    assert_eq!((report.level, report.unexplained, report.first_sights.recording), (Level::L0Place, 0, 0));
    // Tasks that are not seen to run after they were placed are of no use.
    let open = report.decisions.placement.unverifiable;
    assert!(open <= 6, "{open}");
    common::assert_exact(&report, [0, 0, 0, open]);
    assert!(report.decisions.pick.compared > 250 && report.decisions.tick.compared > 250);
}

/// A difference tells the rule and what was recorded.
#[test]
fn a_difference_names_the_rule_and_shows_the_records() {
    let report = common::replay_with("k61-hackbench.txt.gz", "6.1", |tunables| {
        tunables.wakeup_granularity = schedlab_model::Time::from_millis(2);
    });
    let difference = &report.differences[0];
    assert_eq!((difference.what, difference.rule), ("wakeup", "check_preempt_wakeup, wakeup_preempt_entity"));
    assert!(difference.recorded.iter().any(|record| record.contains("WakeupPreempt")), "{difference:?}");
    assert!(difference.recorded[0].starts_with(&format!("line {}: ", difference.line)));
}
