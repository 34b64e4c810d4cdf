//! The same recordings without their probes: which task runs next and the flag need_resched still show the decisions.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::{fixture, scores, show};
use schedlab_replay::{Level, Options, Report, Settings, replay, replay_file};
use schedlab_trace::{Reader, open};

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

/// An own recording's head tells the settings, and at L0k its snapshot the state.
fn own_at(level: Level, file: &str) -> Report {
    replay_file(&fixture(file), &Options { level: Some(level), ..Options::default() }).unwrap()
}

fn assert_exact_but_warm_up(report: &Report, file: &str) {
    for score in scores(report) {
        assert!(score.is_exact(), "{file}: {}", show(report));
    }
    let state = &report.state;
    let errors = [state.vruntime.max_error_ns, state.deadline.max_error_ns, state.lag.max_error_ns];
    assert_eq!((errors, report.resynchronisations), ([0; 3], 0), "{file}: {}", show(report));
    assert_eq!(state.need_resched.equal, state.need_resched.compared, "{file}: {}", show(report));
}

/// The lag of sleepers is in the snapshot, and from there on it follows: hogs whose nice levels change as they run; sleepers, where
/// wake-ups find a lazy request pending and dequeue delayed tasks (7.2); yields that an interrupt parts from their schedule (6.12).
#[test]
fn eevdf_is_exact_with_place_entity_alone() {
    for file in ["hogs-6.12.txt.gz", "hogs-7.2.txt.gz", "sleepers-7.2.txt.gz", "changes-6.12.txt.gz"] {
        assert_exact_but_warm_up(&own_at(Level::L0Place, file), file);
    }
}

/// Nice levels show in the priority that a task is next seen with, SCHED_IDLE in how fast its virtual time runs.
#[test]
fn cfs_is_exact_with_tracepoints_alone_as_tasks_change() {
    for file in ["hogs-5.10.txt.gz", "hogs-6.1.txt.gz", "batch-idle-6.1.txt.gz"] {
        for level in [Level::L0, Level::L0Place] {
            assert_exact_but_warm_up(&own_at(level, file), file);
        }
    }
}

/// Of 5.10.223: a real-time task changes others, and no task is charged for its calls; a fair caller is charged.
#[test]
fn changes_by_a_real_time_task_come_at_once() {
    assert_exact_but_warm_up(&own_at(Level::L0, "changes-l0-5.10.txt.gz"), "changes-l0-5.10");
}

/// Of 6.1.176: a tick has a task rescheduled, rcu_preempt wakes beside it, and `setpriority(2)` gives it nice 3 before it goes. The wake-up asked
/// that the clock be left alone (`rq_clock_skip_update` in `check_preempt_curr`), so that the change's charge is the last one, and the schedule has
/// none. The task that is forked next is placed by what the queue weighs then.
#[test]
fn a_change_is_charged_and_the_schedule_after_it_is_not() {
    assert_exact_but_warm_up(&own_at(Level::L0, "forks-l0-6.1.txt.gz"), "forks-l0-6.1");
}

/// SCHED_BATCH shows nowhere in the tracepoints of `sched_setattr(2)`: the first wake-up that should have preempted and did not tells,
/// and proves nothing itself.
#[test]
fn a_batch_task_is_learnt_from_one_unverifiable_wake_up() {
    let wakeups = |level| own_at(level, "batch-idle-6.1.txt.gz").decisions.wakeup;
    let (low, high) = (wakeups(Level::L0), wakeups(Level::L0Place));
    assert_eq!((low.equal, high.unverifiable), (low.compared, 0));
    assert!((1..=2).contains(&low.unverifiable), "{low:?}");
    assert_eq!(low.compared + low.unverifiable, high.compared);
}

#[test]
fn levels_are_read_by_their_names() {
    for level in [Level::L0, Level::L0Place, Level::L1] {
        assert_eq!(level.to_string().parse::<Level>().unwrap(), level);
    }
    let error = "L2".parse::<Level>().unwrap_err().to_string();
    assert!(error.contains("L0, L0k, L1"), "{error}");
}

/// Of 5.10.223: the watchdog wakes the stop class's task, which the trace shows with the recorder's own priority and which runs at
/// once all the same, while the recorder looks at the tasks. The task that is woken next preempts a fair task as recorded.
#[test]
fn the_stop_class_runs_before_the_recorder() {
    let text = "\
cpus=1
 schedlab-native-123     0d.h..  1224.659830237: sched_waking: comm=migration/0 pid=13 prio=0 success=1 target_cpu=0
 schedlab-native-123     0dNh..  1224.659911357: sched_wakeup: comm=migration/0 pid=13 prio=0 success=1 target_cpu=0
 schedlab-native-123     0d....  1224.660265597: sched_switch: prev_comm=schedlab-native prev_pid=123 prev_prio=0 prev_state=R ==> next_comm=migration/0 next_pid=13 next_prio=0
     migration/0-13      0d....  1224.660363069: sched_switch: prev_comm=migration/0 prev_pid=13 prev_prio=0 prev_state=S ==> next_comm=schedlab-native next_pid=123 next_prio=0
 schedlab-native-123     0d....  1224.715609821: sched_waking: comm=schedlab-native pid=124 prio=120 success=1 target_cpu=0
 schedlab-native-123     0d....  1224.716196029: sched_wakeup: comm=schedlab-native pid=124 prio=120 success=1 target_cpu=0
 schedlab-native-123     0d....  1224.717354781: sched_switch: prev_comm=schedlab-native prev_pid=123 prev_prio=0 prev_state=S ==> next_comm=schedlab-native next_pid=124 next_prio=120
 schedlab-native-124     0d.h..  1224.721094461: sched_stat_runtime: comm=schedlab-native pid=124 runtime=3243776 vruntime=192733579300
";
    let report = replay(Reader::new(text.as_bytes()), &Settings::defaults("5.10".parse().unwrap()).unwrap()).unwrap();
    assert_eq!((report.level, report.resynchronisations, report.unexplained), (Level::L0, 0, 0), "{}", show(&report));
    assert_eq!(report.differences.len(), 0, "{}", show(&report));
}
