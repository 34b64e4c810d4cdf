//! Recordings of several CPUs, on Debian's kernels: what each CPU decided given where the kernel put the tasks, where it put them, and
//! load averages.
#![expect(clippy::expect_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::fixture;
use schedlab_replay::{Closeness, Level, Options, ReplayError, Report, Score, Settings, replay, replay_file};
use schedlab_trace::{Reader, Record, open};

/// Two CPUs with a last-level cache each, and four that share one.
const RECORDINGS: [&str; 3] = ["sleepers-2-apart-6.1", "pipes-4-near-6.1", "pipes-4-near-6.12"];

fn report(name: &str) -> Report {
    replay_file(&fixture(&format!("{name}.txt.gz")), &Options::default()).expect(name)
}

fn exact(score: Score, name: &str) {
    assert!(score.compared > 0 && score.equal == score.compared, "{name}: {score:?}");
}

/// Every input of these decisions is recorded: on each CPU all of them come out as the kernel's, and virtual times to the nanosecond.
#[test]
fn each_cpu_decides_as_recorded() {
    for name in RECORDINGS {
        let report = report(name);
        assert_eq!((report.level, report.resynchronisations, report.unexplained), (Level::L1, 0, 0), "{name}");
        let (decisions, state) = (&report.decisions, &report.state);
        for score in [decisions.pick, decisions.tick, decisions.wakeup, decisions.placement] {
            exact(score, name);
        }
        let times = [state.vruntime, state.min_vruntime, state.deadline, state.lag, state.slice, state.exec_start];
        assert!(state.vruntime.compared > 100 && state.exec_start.compared > 100, "{name}");
        assert!(times.iter().all(|time| time.max_error_ns == 0), "{name}: {state:?}");
        assert!(
            state.nr_running.equal == state.nr_running.compared && state.load.equal == state.load.compared,
            "{name}"
        );
    }
}

/// The beginnings of three longer ones. A delayed task is pulled to an idle CPU, whose schedule dequeues it and stays idle. A task wakes on
/// another CPU while the queue that it was on is updated: it is aged to the time before the update, and its load is removed later
/// (`cfs_rq->removed`), or at once where it had left before and only the rest of its leaving came after. On 7.3 the end of a slice has a
/// separate tick on each CPU, a wakeup dequeues delayed tasks before it checks preemption, and no probe shows that a CPU looks for work.
#[test]
fn what_two_cpus_do_at_once_comes_out_as_recorded() {
    for name in [
        "sleepers-4-apart-6.12",
        "pipes-4-apart-6.12",
        "pipes-4-near-leaving-6.12",
        "sleepers-4-apart-6.18",
        "sleepers-2-near-7.3",
    ] {
        let report = report(name);
        assert_eq!((report.resynchronisations, report.unexplained), (0, 0), "{name}");
        let (decisions, state) = (&report.decisions, &report.state);
        for score in [decisions.pick, decisions.tick, decisions.wakeup, decisions.placement] {
            exact(score, name);
        }
        let times = [state.vruntime, state.deadline, state.lag, state.slice, state.exec_start];
        assert!(times.iter().all(|time| time.compared > 0 && time.max_error_ns == 0), "{name}: {state:?}");
        // Of 7.0 on the sums' shift is not followed.
        let sums = if name.ends_with("7.3") { vec![] } else { vec![state.load, state.avg_vruntime] };
        for counts in sums.into_iter().chain([state.nr_running]) {
            assert!(counts.compared > 0 && counts.equal == counts.compared, "{name}: {state:?}");
        }
        assert!(state.pelt.compared > 150 && state.pelt.equal == state.pelt.compared, "{name}: {state:?}");
    }
}

/// Nested cgroups with weights that change, one of them with a limit, made by the recorded command on two CPUs: given the weights that the
/// kernel gives the groups' entities, which follow from loads that both CPUs change at once, each decision is the kernel's, and virtual
/// times of tasks and groups are to the nanosecond. What is left of the limit on each CPU is exact too, and which queue is throttled when.
#[test]
fn groups_on_several_cpus_are_followed() {
    for name in GROUPS {
        let report = report(name);
        assert_eq!((report.level, report.resynchronisations, report.unexplained), (Level::L1, 0, 0), "{name}");
        let (decisions, state) = (&report.decisions, &report.state);
        for score in [decisions.pick, decisions.tick, decisions.wakeup, decisions.placement] {
            exact(score, name);
        }
        let times = [state.vruntime, state.group_vruntime, state.exec_start];
        assert!(times.iter().all(|time| time.compared > 10 && time.max_error_ns == 0), "{name}: {state:?}");
        // On 7.3 a queue's runtime shows as it is throttled and let go alone.
        assert!(state.budgets.compared > if name.ends_with("7.3") { 5 } else { 10 }, "{name}: {state:?}");
        let times = [state.min_vruntime, state.deadline, state.lag, state.budgets];
        assert!(times.iter().all(|time| time.max_error_ns == 0), "{name}: {state:?}");
        for counts in [state.nr_running, state.load, state.throttling] {
            assert!(counts.compared > 0 && counts.equal == counts.compared, "{name}: {state:?}");
        }
        assert!(state.group_vruntime.compared > 100 && state.pelt.compared > 1000, "{name}: {state:?}");
    }
}

/// Recordings of groups on two CPUs. That of 6.18 has a quota that is set while the other CPU throttles, and a group's weight that changes as
/// a task comes back within a change; that of 7.3 a delayed task of a group that wakes, and a timer that charges a task of the other CPU. Of
/// the beginnings of two longer ones that of 6.1 has a pick that throttles a group within another, after which a tick finds a turn of that other one
/// to have begun anew; that of 6.18 a tick that finds a group's protection ended by its last weight, and a task that wakes elsewhere while its
/// old CPU's tick has updated the averages of a group and not those of the root.
const GROUPS: [&str; 6] = [
    "groups-2-near-6.1",
    "groups-2-near-6.12",
    "groups-2-near-6.18",
    "groups-2-near-7.3",
    "groups-2-near-throttled-6.1",
    "groups-2-near-reweighted-6.18",
];

/// A group's entity weighs its queue's part of the group's load on all CPUs, of which the others' parts are as they told last: nine in
/// ten weights come out as the kernel's, where its update and another CPU's look at the sum stand in the order in which they are told.
#[test]
fn weights_of_groups_follow_from_all_cpus() {
    for name in GROUPS {
        let weights = report(name).state.group_weight;
        assert!(weights.compared > 100 && 10 * weights.equal >= 9 * weights.compared, "{name}: {weights:?}");
    }
}

/// An idle CPU of 6.12 pulls a task out of two levels of groups on a tick: each level that it leaves is recorded before the new CPU.
#[test]
fn a_task_is_pulled_out_of_groups_as_recorded() {
    let Score { compared, equal, naive_equal, .. } = report("groups-2-near-pulled-6.12").decisions.balance;
    assert!(compared >= 1 && equal == compared && naive_equal < compared, "{equal} of {compared}, {naive_equal}");
}

/// A task of 6.18.15 that left the fair class for the real-time one forks a child that is set back: it takes over the deadline relative to its virtual
/// time with which its parent left, and all virtual times are the kernel's.
#[test]
fn a_child_set_back_on_6_18_is_due_when_its_parent_was() {
    let state = report("reset-on-fork-2-near-6.18").state;
    let [vruntime, deadline] = [state.vruntime, state.deadline];
    assert!(vruntime.compared > 50 && deadline.compared > 50, "{state:?}");
    assert_eq!((vruntime.max_error_ns, deadline.max_error_ns), (0, 0));
}

/// Which CPU a woken task gets depends on which CPUs idle at that very moment, which other CPUs change: nine in ten are equal, more than by
/// the naive rule, which takes the task's previous CPU. Where that rule is always right, ours are too.
#[test]
fn woken_tasks_are_placed_as_recorded() {
    for name in RECORDINGS {
        let score = report(name).decisions.select;
        assert!(score.compared > 40 && 10 * score.equal >= 9 * score.compared, "{name}: {score:?}");
        assert!(score.equal > score.naive_equal || score.equal == score.compared, "{name}: {score:?}");
    }
}

/// Which task newidle balance pulls follows from which tasks wait where, for how long, and in which order they are looked at: nine in ten
/// are equal. On a tick it depends on when a domain was balanced before, too: three in four, more than by the naive rule, which pulls none.
#[test]
fn newidle_balance_pulls_the_tasks_that_the_kernel_pulled() {
    let names = RECORDINGS.into_iter().chain(["sleepers-4-apart-6.12", "pipes-4-apart-6.12"]);
    let reports: Vec<Report> = names.map(report).collect();
    let sum = |of: fn(&Report) -> Score| {
        reports.iter().map(of).fold([0; 3], |[compared, equal, naive], score| {
            [compared + score.compared, equal + score.equal, naive + score.naive_equal]
        })
    };
    let [compared, equal, naive] = sum(|report| report.decisions.newidle);
    assert!(compared >= 12 && 10 * equal >= 9 * compared && naive == 0, "{equal} of {compared}");
    let [compared, equal, naive] = sum(|report| report.decisions.balance);
    assert!(compared >= 50 && 4 * equal >= 3 * compared && equal > naive, "{equal} of {compared}, {naive}");
}

/// Where a recording tells at which tick a CPU is balanced and how it stood then, nine in ten of what is balanced on ticks come out as
/// recorded, too, more than by the naive rule, which pulls no task. A busy CPU's stopper pushes when the kernel's does, and the same task.
#[test]
fn what_is_balanced_on_ticks_is_as_recorded() {
    let report = report("pipes-4-apart-6.1");
    let Score { compared, equal, naive_equal, .. } = report.decisions.balance;
    assert!(compared >= 30 && 10 * equal >= 9 * compared && equal > naive_equal, "{:?}", report.decisions.balance);
    let pushes = report.decisions.push;
    assert!(pushes.compared >= 2 && pushes.equal == pushes.compared && pushes.naive_equal == 0, "{pushes:?}");
    // When domains were balanced before, how long it is until the next time, and how often it failed.
    let balancing = report.state.balancing;
    assert!(balancing.compared > 150 && 4 * balancing.equal > 3 * balancing.compared, "{balancing:?}");
}

/// Load averages of every task and queue, each time the kernel brought them up to date, and as `/proc/PID/sched` and `sched/debug`
/// showed them midway and at the end: to the last unit.
#[test]
fn load_averages_are_the_kernels() {
    for name in RECORDINGS {
        let state = report(name).state;
        for closeness in [state.pelt, state.pelt_shown] {
            let Closeness { compared, equal, mean_error, max_error } = closeness;
            assert!(compared > 150, "{name}: {closeness:?}");
            assert_eq!((equal, mean_error, max_error), (compared, 0.0, 0.0), "{name}");
        }
    }
}

/// What is not in a recording is told; nothing is guessed instead.
#[test]
fn recordings_of_several_cpus_that_tell_too_little_are_refused() {
    let text = "cpus=2\n cat-7 1d.h2. 15.1: k_tick: (f) pid=7 ct=5\n";
    let settings = Settings::defaults("6.1".parse().expect("a release")).expect("known");
    let refused = replay(Reader::new(text.as_bytes()), &settings).expect_err("no queue is told of");
    assert!(matches!(refused, ReplayError::Unsupported { .. }), "{refused}");
    assert!(refused.to_string().contains("k_snapq"), "{refused}");
    let path = fixture("sleepers-2-apart-6.1.txt.gz");
    let refused =
        replay_file(&path, &Options { level: Some(Level::L0), ..Options::default() }).expect_err("too low a level");
    assert!(refused.to_string().contains("level L0 of several CPUs"), "{refused}");
}

/// A recording that lacks any of its events leads to differences, never to a failure of the replayer.
#[test]
fn a_recording_without_some_of_its_events_is_replayed() {
    let whole: Vec<Record> = open(&fixture("pipes-4-near-6.12.txt.gz"))
        .expect("a recording")
        .map(|record| record.expect("a record"))
        .collect();
    let mut settings = Settings::defaults("6.12".parse().expect("a release")).expect("known");
    settings.cpus = 4;
    let snapshot = |record: &Record| record.event.starts_with("k_snap");
    for left_out in ["sched_switch", "k_enq", "k_deq", "k_mig", "sched_migrate_task", "k_newidle", "sched_wakeup"] {
        let records = whole
            .iter()
            .enumerate()
            .filter(|(at, record)| snapshot(record) || &*record.event != left_out || at % 3 != 0);
        let report = replay(records.map(|(_, record)| Ok(record.clone())), &settings).expect(left_out);
        assert!(!report.is_exact(), "{left_out}");
    }
}

/// The decisions of real-time and deadline tasks are compared on one CPU alone; a recording of several says so. The recorder is a FIFO task.
#[test]
fn real_time_tasks_on_several_cpus_are_noted() {
    let path = fixture("groups-2-near-6.1.txt.gz");
    let mut records: Vec<Record> = open(&path).expect("a fixture").collect::<Result<_, _>>().expect("a fixture");
    let settings = Settings::defaults("6.1".parse().expect("a release")).expect("known");
    let notes = |records: &[Record]| replay(records.iter().cloned().map(Ok), &settings).expect("a fixture").notes;
    let told = |notes: &[String]| notes.iter().any(|note| note.starts_with("real-time or deadline tasks ran (pid 77)"));
    assert!(!told(&notes(&records)));
    let of_recorder = records.iter().position(|record| &*record.event == "k_rtenq").expect("the recorder's");
    let mut other = records[of_recorder].clone();
    other.text = other.text.replacen("pid=184", "pid=77", 1).into();
    records.insert(of_recorder, other);
    assert!(told(&notes(&records)));
}

/// The beginning of a random workload with a round-robin and a FIFO task beside fair ones: CPU 1 pushes 203 to CPU 0, and CPU 0 pushes it
/// back. Where these tasks run is the recording's, so every decision of the fair class around them comes out as the kernel's.
#[test]
fn fair_tasks_beside_real_time_tasks_are_decided_as_recorded() {
    let name = "realtime-2-near-6.12";
    let report = report(name);
    assert_eq!(report.resynchronisations, 0, "{name}");
    let (decisions, state) = (&report.decisions, &report.state);
    for score in [decisions.pick, decisions.tick, decisions.wakeup, decisions.placement, decisions.newidle] {
        exact(score, name);
    }
    let times = [state.vruntime, state.deadline, state.lag, state.slice, state.exec_start];
    assert!(times.iter().all(|time| time.max_error_ns == 0), "{name}: {state:?}");
    assert_eq!((state.pelt.equal, state.pelt.max_error), (state.pelt.compared, 0.0), "{name}");
}
