//! Reasons of a replay: a recorded kernel's decisions, each with the rule that decided.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use std::collections::BTreeMap;

use common::fixture;
use schedlab_model::{Candidate, Reason, TaskId, WakeupRule};
use schedlab_replay::{Options, Report, replay_file};
use schedlab_trace::{RecordKind, open};

fn explained(file: &str) -> Report {
    replay_file(&fixture(file), &Options { reasons: true, ..Options::default() }).unwrap()
}

/// What each CPU switched to, by the recording.
fn switched_to(file: &str) -> BTreeMap<u32, Vec<u32>> {
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for record in open(&fixture(file)).unwrap() {
        let record = record.unwrap();
        if let RecordKind::Switch { next, .. } = record.kind {
            found.entry(record.cpu).or_default().push(next.pid);
        }
    }
    found
}

#[test]
fn reasons_change_nothing_of_what_is_compared() {
    for file in
        ["k61-hackbench.txt.gz", "hogs-7.2.txt.gz", "groups-6.12.txt.gz", "quota-7.2.txt.gz", "pipes-4-near-6.1.txt.gz"]
    {
        let plain = replay_file(&fixture(file), &Options::default()).unwrap();
        let mut told = explained(file);
        assert!(!told.reasons.is_empty(), "{file}");
        assert!(plain.reasons.is_empty(), "{file}");
        told.reasons.clear();
        assert_eq!(serde_json::to_value(&plain).unwrap(), serde_json::to_value(&told).unwrap(), "{file}");
    }
}

/// A recorded switch is a pick that has its reason: the tasks of our picks, but for those that pick the current task again, are those that the
/// kernel switched to.
#[test]
fn each_recorded_switch_has_a_pick_with_its_reason() {
    for file in [
        "hogs-5.10.txt.gz",
        "hogs-6.1.txt.gz",
        "hogs-6.12.txt.gz",
        "hogs-7.2.txt.gz",
        "groups-6.1.txt.gz",
        "groups-7.2.txt.gz",
        "realtime-6.12.txt.gz",
        "deadline-7.2.txt.gz",
        "starved-6.12.txt.gz",
    ] {
        let report = explained(file);
        let mut picked = Vec::new();
        for decision in &report.reasons {
            if let Reason::Pick { task, .. } = decision.reason {
                let pid = if task == TaskId::IDLE { 0 } else { task.0 };
                if picked.last() != Some(&pid) {
                    picked.push(pid);
                }
            }
        }
        let kernels = &switched_to(file)[&0];
        assert!(report.is_exact(), "{file}");
        // The first switch may come before the state is known.
        assert!(kernels.ends_with(&picked) && kernels.len() - picked.len() <= 1, "{file}: {picked:?}\n{kernels:?}");
    }
}

/// `hogs-6.1`: 28 (kcompactd0) wakes long asleep beside a CPU-bound task, and is placed half a latency, 3 ms, before `min_vruntime`. With a
/// granularity of 1 ms it preempts, as the kernel had it do.
#[test]
fn a_recorded_wakeup_tells_its_lead() {
    let report = explained("hogs-6.1.txt.gz");
    let wakeup = report.reasons.iter().find_map(|decision| match decision.reason {
        Reason::WakeupPreempt { woken: TaskId(28), preempts, by, .. } => Some((preempts, by)),
        _ => None,
    });
    assert_eq!(wakeup, Some((true, WakeupRule::Granularity { ahead: 3_000_000, granularity: 1_000_000 })));
    assert_eq!(report.name_of(Candidate::Task(TaskId(28))), "kcompactd0[28]");
}
