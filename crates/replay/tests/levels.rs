//! The same recordings without their probes: what was decided still shows, in who runs next and in the flag need_resched.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::{fixture, scores, show};
use schedlab_replay::{Level, Report, Settings, replay};
use schedlab_trace::open;

fn at(level: Level, file: &str, release: &str) -> Report {
    let mut settings = Settings::defaults(release.parse().unwrap()).unwrap();
    settings.level = Some(level);
    replay(open(&fixture(file)).unwrap(), &settings).unwrap()
}

/// `sched_stat_runtime` of 6.1 carries the virtual time, so that tracepoints alone show all that CFS does.
#[test]
fn cfs_is_exact_without_any_probe() {
    for file in ["k61-hogs.txt.gz", "k61-hackbench.txt.gz"] {
        for level in [Level::L0, Level::L0Place] {
            let report = at(level, file, "6.1");
            assert_eq!(report.level, level);
            for score in scores(&report) {
                assert!(score.is_exact(), "{}", show(&report));
            }
            assert_eq!((report.state.vruntime.max_error_ns, report.resynchronisations), (0, 0), "{}", show(&report));
        }
    }
}

/// What probes score, tracepoints score too: each pick among several is a switch, or the flag vanishes without one; ticks that come
/// while the flag is set already, and the tick's own decision then, are hidden.
#[test]
fn nothing_but_hidden_ticks_is_left_out() {
    for file in ["k61-hogs.txt.gz", "k61-hackbench.txt.gz"] {
        let (low, high) = (at(Level::L0, file, "6.1").decisions, at(Level::L1, file, "6.1").decisions);
        assert_eq!((low.pick.compared, low.wakeup.compared), (high.pick.compared, high.wakeup.compared));
        assert!(low.tick.compared <= high.tick.compared);
    }
}

#[test]
fn levels_are_read_by_their_names() {
    for level in [Level::L0, Level::L0Place, Level::L1] {
        assert_eq!(level.to_string().parse::<Level>().unwrap(), level);
    }
    let error = "L2".parse::<Level>().unwrap_err().to_string();
    assert!(error.contains("L0, L0k, L1"), "{error}");
}
