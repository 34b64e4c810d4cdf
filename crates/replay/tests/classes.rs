//! Recordings of Debian's kernels with groups, real-time and deadline tasks beside the fair class.
#![expect(clippy::expect_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::{assert_exact, fixture};
use schedlab_replay::{Level, Options, Report, replay_file};

fn report(scenario: &str, series: &str) -> Report {
    let file = format!("{scenario}-{series}.txt.gz");
    let report = replay_file(&fixture(&file), &Options::default()).expect(&file);
    assert_eq!((report.level, report.first_sights.recording), (Level::L1, 0), "{file}");
    report
}

/// What cannot be judged: placements whose task does not run again before the recording ends, and which task is first of those that were
/// queued before it at the same virtual time.
fn exact(report: &Report) {
    let [pick, place] = [report.decisions.pick, report.decisions.placement].map(|score| score.unverifiable);
    assert!(pick <= 1 && place <= 3, "{pick} {place}");
    assert_exact(report, [pick, 0, 0, place]);
}

/// Nested cgroups with weights, one of them with 15 ms of each 50 ms (`cpu.max`): throttled, and given its runtime again, as the
/// kernel did; virtual times of groups' entities to the nanosecond.
#[test]
fn groups_share_and_are_throttled_as_recorded() {
    for series in ["5.10", "6.1", "6.12", "7.2"] {
        let report = report("groups", series);
        exact(&report);
        assert!(report.state.group_vruntime.compared > 40, "{series}");
        // What each look at a queue shows: its buddies (CFS), or the sums of V, with all bits of the weights on 7.2.
        let shown = if ["5.10", "6.1"].contains(&series) { report.state.buddies } else { report.state.avg_vruntime };
        assert!(shown.compared > 200 && shown.equal == shown.compared, "{series}: {shown:?}");
        // 7.2 has no function to probe there, and is not throttled in this recording.
        let budgets = series == "7.2" || report.state.throttling.compared > 0;
        assert!(budgets && report.state.budgets.compared > 20, "{series}");
    }
}

/// 5 ms of each 50 ms on a kernel that throttles task by task: each is dequeued as it returns to user space, which is recorded. That its
/// group is throttled then, and which tasks run before and after, follows from our own state.
#[test]
fn tasks_are_throttled_as_they_return_to_user_space() {
    let report = report("quota", "7.2");
    exact(&report);
    // Each period in which the group ran ends with its tasks taken off and the queue unthrottled.
    assert!(report.state.throttling.compared > 10 && report.state.budgets.compared > 500, "{:?}", report.state);
}

/// Nested cgroups, one with 3 ms of each 50 ms, where tasks are taken off one by one: on 6.18.15 its limit is set anew, which lets two tasks in
/// limbo go; on 7.3.4 all tasks stand in one timeline with their part of each level, and the current task is throttled as it is charged.
#[test]
fn groups_whose_tasks_are_taken_off_run_as_recorded() {
    for series in ["6.18", "7.3"] {
        let report = report("groups", series);
        exact(&report);
        assert!(report.decisions.pick.compared > 200 && report.decisions.wakeup.compared > 40, "{series}");
        assert!(report.state.throttling.compared > 300 && report.state.budgets.compared > 1000, "{series}");
    }
}

/// Five tasks with slices of their own on 6.18.15, whose trees miss the shortest slice now and then, as rotations leave it behind: a running task
/// is protected for longer at five ticks. Later one is preempted by a shorter slice that comes, loses its protection by that, and is not
/// picked though that would have lasted.
#[test]
fn tasks_with_slices_of_their_own_run_as_recorded() {
    let report = report("slices", "6.18");
    exact(&report);
    assert!(report.decisions.tick.compared > 250 && report.state.slice.compared > 500, "{:?}", report.state.slice);
}

/// Sessions of autogroup, on by default in 6.12 and 7.2.
#[test]
fn sessions_share_as_recorded() {
    for series in ["6.12", "7.2"] {
        let report = report("autogroup", series);
        exact(&report);
        assert!(report.state.group_vruntime.compared > 50, "{series}");
    }
}

/// FIFO and RR beside fair tasks: preemptions, round-robin slices tick by tick, the time used of `rt_runtime` (5.10, 6.1) and the
/// fair server's runtime (6.12) to the nanosecond.
#[test]
fn real_time_tasks_run_as_recorded() {
    for series in ["5.10", "6.1", "6.12", "7.2"] {
        let report = report("realtime", series);
        exact(&report);
        assert!(report.state.time_slice.compared > 10 && report.state.budgets.compared > 40, "{series}");
    }
}

/// Deadline tasks: earliest first, budgets and deadlines to the nanosecond, throttled when these are used up and back when the
/// timer says.
#[test]
fn deadline_tasks_run_as_recorded() {
    for series in ["5.10", "6.1", "6.12", "7.2"] {
        let report = report("deadline", series);
        exact(&report);
        let state = &report.state;
        assert!(
            state.budgets.compared > 100 && state.throttling.compared > 10 && state.timers.compared > 0,
            "{series}"
        );
    }
}

/// SCHED_FIFO tasks that do not sleep, and fair ones beside them: on 5.10 and 6.1 the real-time class is throttled after 950 ms of a
/// second, on 6.12 and 7.2 the fair server's timer lets the others run; the first such time of each recording. The period's timer
/// unthrottles the former.
#[test]
fn who_starves_runs_as_recorded() {
    for (series, sign) in [
        ("5.10", "function=sched_rt_period_timer"),
        ("6.1", "function=sched_rt_period_timer"),
        ("6.12", "srv=1"),
        ("7.2", "srv=1"),
    ] {
        let report = report("starved", series);
        // Up to 6.1 RCU reschedules a task that runs for very long, which is no rule of the scheduler.
        assert!(report.unexplained <= 2 && (report.unexplained == 0 || series == "6.1"), "{series}");
        let differing = common::scores(&report).iter().map(|score| score.compared - score.equal).sum::<u64>();
        assert_eq!(
            (differing, report.differences.len(), report.resynchronisations),
            (0, 0, 0),
            "{}",
            common::show(&report)
        );
        let state = &report.state;
        assert!(state.throttling.compared > if sign == "srv=1" { 2 } else { 200 }, "{series}");
        assert!(state.budgets.compared > 70 && state.budgets.max_error_ns == 0, "{series}");
        let text = schedlab_trace::open(&fixture(&format!("starved-{series}.txt.gz"))).expect("a fixture");
        let shown = |record: &schedlab_trace::Record| match &record.kind {
            schedlab_trace::RecordKind::TimerEntry { function } => sign.ends_with(&**function),
            _ => &*record.event == "k_dltimer" && record.word("srv") == Some("1"),
        };
        assert!(text.filter_map(Result::ok).any(|record| shown(&record)), "{series}");
    }
}

/// On 6.12, a busy guest: a worker wakes before the snapshot of a queued SCHED_IDLE task, and is placed beside that task all the same; a
/// tick finds a deadline task's runtime used up after its period began, which was compared with what the charge had made of it already.
#[test]
fn a_task_with_a_late_snapshot_was_there_from_the_beginning() {
    let report = report("deadline-late", "6.12");
    exact(&report);
    assert!(report.state.avg_vruntime.compared > 20 && report.state.budgets.compared > 150);
}

/// On 6.12, a busy guest, in which the snapshot of all tasks takes half a second: a kernel thread wakes before its own snapshot, and
/// another one while the first is queued. The first slept until it was woken; so the second does not come to an empty queue, and
/// need_resched is not set.
#[test]
fn a_task_that_wakes_before_its_snapshot_slept_until_then() {
    let report = report("starved-late", "6.12");
    exact(&report);
    assert!(report.decisions.wakeup.compared > 5 && report.state.avg_vruntime.compared > 20, "{:?}", report.state);
}

/// On 6.12: the timer of a task that was throttled expires when it is a fair task again. `dl_task_timer` sees that before it reads the
/// clock: a task that is put back after it, by a schedule that does not update the clock, is charged up to the wakeup before.
#[test]
fn the_timer_of_a_task_that_left_the_class_does_not_update_the_clock() {
    let report = report("reservations", "6.12");
    exact(&report);
    assert!(report.state.timers.compared > 20 && report.state.vruntime.compared > 500, "{:?}", report.state);
}

/// A real-time task that makes others with SCHED_RESET_ON_FORK: each child is set back while it still has its maker's number, and its maker
/// stays what it is.
#[test]
fn a_child_is_set_back_and_its_maker_is_not() {
    exact(&report("realtime-maker", "6.12"));
}

/// The same where a child is placed as it is made (5.10: of a maker that is not in the fair queue, a slice after `min_vruntime`), and where no record
/// shows that it was set back (7.2): random workloads, of which 1,418 placements differed and a replay failed.
#[test]
fn a_child_of_a_real_time_task_is_placed_as_the_fair_one_that_it_is() {
    for series in ["5.10", "7.2"] {
        let report = report("reset-on-fork", series);
        exact(&report);
        assert!(report.decisions.placement.compared > 10, "{series}: {:?}", report.decisions);
    }
}

/// The same on two CPUs of 6.1, where the child's change is read with its placement.
#[test]
fn a_child_is_set_back_on_several_cpus_too() {
    let report = report("reset-on-fork-2-near", "6.1");
    for score in common::scores(&report) {
        assert_eq!(score.equal, score.compared, "{:?}", report.decisions);
    }
    assert!(report.decisions.placement.compared > 30, "{:?}", report.decisions);
}
