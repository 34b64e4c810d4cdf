//! What the tests of recordings share.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]
#![allow(dead_code, reason = "each test uses its own part")]

use std::path::PathBuf;

use schedlab_model::Tunables;
use schedlab_replay::{Report, Score, Settings, replay};
use schedlab_trace::open;

/// The path of a recording or snapshot.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A report for people who look for what went wrong.
pub fn show(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap()
}

/// A recording under the rules of `release` with tunables that were tampered with.
pub fn replay_with(recording: &str, release: &str, change: impl FnOnce(&mut Tunables)) -> Report {
    let mut settings = Settings::defaults(release.parse().unwrap()).unwrap();
    change(&mut settings.tunables);
    replay(open(&fixture(recording)).unwrap(), &settings).unwrap()
}

/// The four kinds of decision.
pub fn scores(report: &Report) -> [Score; 4] {
    let decisions = &report.decisions;
    [decisions.pick, decisions.tick, decisions.wakeup, decisions.placement]
}

/// Every decision equal, every state equal, nothing left open but `unverifiable` decisions of each kind.
pub fn assert_exact(report: &Report, unverifiable: [u64; 4]) {
    for (score, open) in scores(report).into_iter().zip(unverifiable) {
        assert_eq!((score.equal, score.unverifiable), (score.compared, open), "{}", show(report));
    }
    assert_eq!(report.state.vruntime.max_error_ns, 0);
    assert_eq!(report.resynchronisations, 0);
    assert_eq!(report.unexplained, 0);
    assert!(report.differences.is_empty(), "{}", show(report));
    assert!(report.is_exact(), "{}", show(report));
}
