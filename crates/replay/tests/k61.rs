//! Recordings of Debian's 6.1.176 replay exactly.

use std::path::PathBuf;

use schedlab_replay::{Report, replay_file};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn show(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap_or_default()
}

#[test]
fn hogs_of_mixed_nice_are_equal() {
    let report = replay_file(&fixture("k61-hogs.txt.gz"), Some(&fixture("k61-hogs.snap1")), None).unwrap();
    eprintln!("{}", show(&report));
    assert!(report.is_exact(), "{}", show(&report));
}

#[test]
fn hackbench_is_equal() {
    let report = replay_file(&fixture("k61-hackbench.txt.gz"), None, None).unwrap();
    eprintln!("{}", show(&report));
    assert!(report.is_exact(), "{}", show(&report));
}
