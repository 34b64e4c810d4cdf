//! The waiting time of recordings: how much of it has a cause, and which.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::fixture;
use schedlab_metrics::Cause;
use schedlab_model::Candidate;
use schedlab_replay::{Attributed, Level, Options, attribute_file};

fn attributed(name: &str, level: Level) -> Attributed {
    attribute_file(&fixture(&format!("{name}.txt.gz")), &Options { level: Some(level), ..Options::default() }).unwrap()
}

/// Nanoseconds of waiting for causes that `wanted` selects.
fn waited(found: &Attributed, wanted: impl Fn(Cause) -> bool) -> u64 {
    let spans = found.waits.iter().flat_map(|wait| found.waits.spans(wait));
    spans.filter(|span| wanted(span.cause)).map(|span| span.length.as_nanos()).sum()
}

fn share(found: &Attributed) -> f64 {
    1.0 - waited(found, |cause| cause == Cause::Unknown) as f64 / waited(found, |_| true) as f64
}

/// Each was below 99 % while what ran before the first event, or a move to another group, was not told.
#[test]
fn waits_behind_what_ran_as_a_recording_began_have_a_cause() {
    for name in ["sleepers-4-apart-6.12", "pipes-4-near-6.12", "groups-6.1"] {
        let found = attributed(name, Level::L1);
        assert!(share(&found) >= 0.99, "{name}: {}", share(&found));
    }
}

/// `sched_switch` shows that schedlab-native ran on CPU 2 with priority 0, SCHED_FIFO 99, from before the recording's first event until
/// 9.026138 s, and `sched_wakeup` that kworker/2:2, of priority 120, waited there from 8.984619960 s on.
#[test]
fn a_task_below_the_one_that_ran_as_the_recording_began_waits_for_its_class() {
    let found = attributed("sleepers-4-apart-6.12", Level::L1);
    let wait = found.waits.iter().find(|wait| found.name_of(Candidate::Task(wait.task)) == "kworker/2:2[170]").unwrap();
    let spans = found.waits.spans(wait);
    assert_eq!(spans.iter().map(|span| span.cause).collect::<Vec<_>>(), [Cause::RealtimeAbove]);
    assert_eq!(spans[0].length.as_nanos(), 9_026_138_062 - 8_984_619_960);
}

/// Priorities tell of every switch whether a class decided it: with tracepoints alone these waits have causes too.
#[test]
fn without_probes_the_classes_above_the_fair_one_give_causes() {
    for (name, least) in [("realtime-6.1", 0.9), ("deadline-6.1", 0.9)] {
        let found = attributed(name, Level::L0);
        assert!(share(&found) >= least, "{name}: {}", share(&found));
    }
}
