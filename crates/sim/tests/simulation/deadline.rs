//! The deadline class on whole runs: EDF schedules and bandwidth isolation derived by hand, and as a property.

use crate::common;

use common::{milliseconds, run_in_both_ways, run_with, scheduler, task, workload};
use proptest::prelude::*;
use schedlab_model::{Attributes, Event, EventKind, Machine, Policy, Scheduler, Step, Task, Time, Workload};
use schedlab_sim::{Options, SimError};

const IDLE: u32 = u32::MAX;
const MS: u64 = 1_000_000;
/// Releases with the policy.
const RELEASES: [&str; 5] = ["5.10", "6.1", "6.12", "6.18", "7.2"];

fn reserved(text: &str) -> Attributes {
    Attributes { policy: format!("deadline:{text}").parse().expect("a policy"), ..Attributes::default() }
}

fn run(milliseconds_each: u64) -> Step {
    Step::Run(milliseconds(milliseconds_each))
}

fn at_1000_hz(release: &str) -> Scheduler {
    Scheduler { hz: 1000, ..scheduler(release) }
}

/// The switches: when (in milliseconds), and to which task. They are the same with and without skipping ticks.
fn turns(workload: &Workload, scheduler: &Scheduler) -> Vec<(u64, u32)> {
    let (_, events) = run_in_both_ways(workload, scheduler, &Machine::ideal(1));
    let switch = |event: &Event| match event.kind {
        EventKind::Switch { next, .. } => {
            assert_eq!(event.time.as_nanos() % MS, 0);
            Some((event.time.as_nanos() / MS, next.0))
        }
        _ => None,
    };
    events.iter().filter_map(switch).collect()
}

#[test]
fn the_earliest_deadline_runs_first() {
    // All come at 0 with deadlines 10, 4 and 6 ms, each with a job as long as its runtime: in the order of their deadlines, whatever
    // the order of their coming, before FIFO and that before fair tasks.
    let fifo = Attributes { policy: Policy::Fifo(99), ..Attributes::default() };
    let jobs = workload(vec![
        task("fair", 1, Attributes::default(), vec![run(1)]),
        task("fifo", 1, fifo, vec![run(1)]),
        task("late", 1, reserved("runtime=3ms,deadline=10ms"), vec![Step::Run(milliseconds(2))]),
        task("soon", 1, reserved("runtime=1100us,deadline=4ms"), vec![run(1)]),
        task("next", 1, reserved("runtime=2100us,deadline=6ms,period=20ms"), vec![run(2)]),
    ]);
    for release in RELEASES {
        let expected = [(0, 3), (1, 4), (3, 2), (5, 1), (6, 0), (7, IDLE)];
        assert_eq!(turns(&jobs, &at_1000_hz(release)), expected, "{release}");
    }
}

#[test]
fn a_woken_task_with_an_earlier_deadline_preempts() {
    // The long one has 8 of 20 ms. The short one wakes at 5 ms with a deadline of 9 ms, before 20: it preempts. The short one's
    // deadline of a second wake-up, at 7 + 10 = 17 ms, would be 21 ms, after 20, but the long one is done by 10.
    let jobs = workload(vec![
        task("long", 1, reserved("runtime=9ms,deadline=20ms"), vec![run(8)]),
        task(
            "short",
            1,
            reserved("runtime=1500us,deadline=4ms"),
            vec![Step::Sleep(milliseconds(5)), run(1), Step::Sleep(milliseconds(10)), run(1)],
        ),
    ]);
    for release in RELEASES {
        // At 0 the short one, whose deadline is earlier, comes first and goes to sleep at once.
        let expected = [(0, 1), (0, 0), (5, 1), (6, 0), (9, IDLE), (16, 1), (17, IDLE)];
        assert_eq!(turns(&jobs, &at_1000_hz(release)), expected, "{release}");
    }
}

#[test]
fn a_hog_gets_its_runtime_of_each_period() {
    // 2 of 10 ms for a job of 7 ms, beside a fair hog. Ticks (1000 Hz) find 2 ms used at 2 ms: throttled until its period ends at
    // 10 ms, when 2 ms and a deadline of 20 ms are new. Its fourth instance runs 1 ms.
    let hogs = workload(vec![
        task("reserved", 1, reserved("runtime=2ms,deadline=10ms"), vec![run(7)]),
        task("fair", 1, Attributes::default(), vec![run(40)]),
    ]);
    let expected = [(0, 0), (2, 1), (10, 0), (12, 1), (20, 0), (22, 1), (30, 0), (31, 1), (47, IDLE)];
    for release in RELEASES {
        assert_eq!(turns(&hogs, &at_1000_hz(release)), expected, "{release}");
    }
}

#[test]
fn an_overrun_is_paid_back() {
    // 250 Hz: 5 of 20 ms are found used at the tick at 8 ms, 3 ms too late. At 20 ms 5 − 3 = 2 ms are left: used up at 24 ms, 2 ms
    // over; at 40 ms 3 ms: used up at 44, 1 ms over; at 60 ms 4 ms: used up at 64 ms exactly; at 80 ms 5 ms again: 88.
    let hogs = workload(vec![
        task("reserved", 1, reserved("runtime=5ms,deadline=20ms"), vec![run(30)]),
        task("fair", 1, Attributes::default(), vec![run(200)]),
    ]);
    let expected = [(0, 0), (8, 1), (20, 0), (24, 1), (40, 0), (44, 1), (60, 0), (64, 1), (80, 0), (88, 1)];
    for release in RELEASES {
        let mut scheduler = scheduler(release);
        if release == "7.2" {
            // There a timer ends runtimes exactly.
            scheduler.set("feature.HRTICK_DL", "0").expect("a feature of the release");
        }
        assert_eq!(turns(&hogs, &scheduler)[..10], expected, "{release}");
    }
}

#[test]
fn a_constrained_task_waits_for_its_period() {
    // 2 ms within 4 of each 10 ms. The first job, 1 ms at 0, leaves 1 ms until 4 ms. It wakes at 6 ms, after its deadline and before its
    // period ends: throttled until 10 ms, when it has 2 ms until 14 (dl_check_constrained_dl).
    let jobs = workload(vec![task(
        "constrained",
        1,
        reserved("runtime=2ms,deadline=4ms,period=10ms"),
        vec![run(1), Step::Sleep(milliseconds(5)), run(1)],
    )]);
    for release in RELEASES {
        assert_eq!(turns(&jobs, &at_1000_hz(release)), [(0, 0), (1, IDLE), (10, 0), (11, IDLE)], "{release}");
    }
}

#[test]
fn yielding_gives_up_the_period() {
    // Documentation/scheduler/sched-deadline.rst, 4.4: the task is throttled at once, and wakes at the beginning of its next period.
    let jobs = workload(vec![
        task(
            "periodic",
            1,
            reserved("runtime=4ms,deadline=10ms"),
            vec![Step::Loop { count: 3, steps: vec![run(1), Step::Yield] }],
        ),
        task("fair", 1, Attributes::default(), vec![run(100)]),
    ]);
    // After the third yield it has only to end, at 30 ms.
    let expected = [(0, 0), (1, 1), (10, 0), (11, 1), (20, 0), (21, 1), (30, 0), (30, 1)];
    for release in RELEASES {
        assert_eq!(turns(&jobs, &at_1000_hz(release))[..8], expected, "{release}");
    }
}

#[test]
fn the_documentation_s_constrained_pair_meets_its_deadlines() {
    // sched-deadline.rst, 3.2: (50, 50, 100) and (10, 100, 100) ms have density 1.1 and still are schedulable: the first at once,
    // the second right after, done at 60 ms; so again in each period. Bandwidths 0.5 + 0.1 are admitted.
    let periods =
        |job: u64, sleep: u64| Step::Loop { count: 2, steps: vec![run(job), Step::Sleep(milliseconds(sleep))] };
    let jobs = workload(vec![
        task("second", 1, reserved("runtime=11ms,deadline=100ms"), vec![periods(10, 40)]),
        task("first", 1, reserved("runtime=50ms,deadline=50ms,period=100ms"), vec![periods(50, 50)]),
    ]);
    for release in RELEASES {
        // The second one sleeps from 60 to 100 ms, the first one's timer is set at 50. At 100 ms it begins a new period.
        let expected = [(0, 1), (50, 0), (60, IDLE), (100, 1), (150, 0), (160, IDLE), (200, 1), (200, 0), (200, IDLE)];
        let found = turns(&jobs, &at_1000_hz(release));
        assert_eq!(found[..6], expected[..6], "{release}");
    }
}

fn refusal(workload: &Workload, scheduler: &Scheduler, cpus: u32) -> String {
    let run = run_with(workload, scheduler, &Machine::ideal(cpus), &Options::default());
    let error = run.expect_err("it is refused");
    assert!(matches!(error, SimError::Refused { .. }), "{error}");
    error.to_string()
}

#[test]
fn the_admission_test_keeps_five_per_cent() {
    // sched-deadline.rst, 4.3: 95 % of each CPU. to_ratio(1 s, 950 ms) = ⌊0.95 · 2²⁰⌋ = 996147; ten tasks of a tenth are
    // 10 · ⌊2²⁰ / 10⌋ = 1048570: the tenth is refused, nine (943713) are not. On two CPUs nineteen fit (19 · 104857 = 1992283 of
    // 1992294). From 6.12 on the fair servers have 5 % of each CPU of it, ⌊2²⁰ / 20⌋ = 52428: nine still fit, 996141 of 996147.
    let tenths =
        |count: u32| workload(vec![task("tenth", count, reserved("runtime=10ms,deadline=100ms"), vec![run(1)])]);
    for release in RELEASES {
        let scheduler = scheduler(release);
        assert!(run_with(&tenths(9), &scheduler, &Machine::ideal(1), &Options::default()).is_ok(), "{release}");
        let why = refusal(&tenths(10), &scheduler, 1);
        assert!(why.contains("'tenth'") && why.contains("EBUSY"), "{why}");
    }
    for release in ["5.10", "6.1"] {
        assert!(run_with(&tenths(19), &scheduler(release), &Machine::ideal(2), &Options::default()).is_ok());
        refusal(&tenths(20), &scheduler(release), 2);
    }
    // rt_runtime moves the limit; −1 lifts it, so that deadlines can be missed.
    let mut limited = scheduler("6.1");
    limited.set("rt_runtime", "450ms").unwrap();
    assert!(run_with(&tenths(4), &limited, &Machine::ideal(1), &Options::default()).is_ok());
    refusal(&tenths(5), &limited, 1);
    limited.set("rt_runtime", "-1").unwrap();
    assert!(run_with(&tenths(20), &limited, &Machine::ideal(1), &Options::default()).is_ok());
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let one = |attributes: Attributes, steps: Vec<Step>| workload(vec![task("d", 1, attributes, steps)]);
    let reservation = || reserved("runtime=1ms,deadline=10ms");
    assert!(refusal(&one(reservation(), vec![run(1)]), &scheduler("2.6.24"), 1).contains("3.14"));
    let pinned = Attributes { affinity: vec![0], ..reservation() };
    assert!(refusal(&one(pinned.clone(), vec![run(1)]), &scheduler("6.1"), 2).contains("EPERM"));
    assert!(run_with(&one(pinned, vec![run(1)]), &scheduler("6.1"), &Machine::ideal(1), &Options::default()).is_ok());
    let mut forks = one(reservation(), vec![Step::Fork { task: "child".into(), count: 1 }, Step::Join]);
    forks.tasks.push(Task { attributes: None, ..task("child", 0, Attributes::default(), vec![run(1)]) });
    assert!(refusal(&forks, &scheduler("6.1"), 1).contains("EAGAIN"));
    let mut none = scheduler("6.1");
    none.set("rt_runtime", "0s").unwrap();
    assert!(refusal(&one(reservation(), vec![run(1)]), &none, 1).contains("rt_runtime is 0"));
}

#[test]
fn the_bandwidth_of_a_task_that_ended_is_free_after_its_0_lag_time() {
    // 90 of 100 ms. It ends having used 10 ms: its 0-lag time is 100 − 80 · 100/90 = 11.1 ms. A second one that is forked at 11 ms
    // is refused, at 12 ms it is not.
    let forked_at = |time: u64| {
        let mut both = workload(vec![
            task("first", 1, reserved("runtime=90ms,deadline=100ms"), vec![run(10)]),
            task(
                "parent",
                1,
                Attributes::default(),
                vec![Step::Sleep(milliseconds(time)), Step::Fork { task: "second".into(), count: 1 }, Step::Join],
            ),
        ]);
        both.tasks.push(task("second", 0, reserved("runtime=90ms,deadline=100ms"), vec![run(1)]));
        both
    };
    // The parent goes to sleep once the first task has left the CPU, at 10 ms.
    assert!(refusal(&forked_at(1), &scheduler("6.1"), 1).contains("'second' is refused at 11ms"));
    assert!(run_with(&forked_at(2), &scheduler("6.1"), &Machine::ideal(1), &Options::default()).is_ok());
}

/// A deadline task that runs, sleeps and yields as it likes, with a bandwidth of at most 15 %.
fn reservation() -> impl Strategy<Value = (Time, Time, Vec<Step>)> {
    let step = prop_oneof![
        3 => (0u64..30_000).prop_map(|time| Step::Run(common::microseconds(time))),
        2 => (0u64..40_000).prop_map(|time| Step::Sleep(common::microseconds(time))),
        1 => Just(Step::Yield),
    ];
    (1100u64..6000, 1u64..4, prop::collection::vec(step, 1..12)).prop_map(|(runtime, spread, steps)| {
        (Time::from_micros(runtime), Time::from_micros(runtime * (6 + spread)), steps)
    })
}

fn mixture() -> impl Strategy<Value = (Workload, Vec<(Time, Time)>, u32, Scheduler)> {
    let releases = prop::sample::select(&RELEASES[..]);
    let sets = prop::collection::vec(reservation(), 1..5);
    let limit = prop::sample::select(&[None, Some("20ms"), Some("unlimited")][..]);
    let hz = prop_oneof![Just(100), Just(250), Just(1000)];
    (sets, 1u32..4, releases, 0u32..3, limit, hz).prop_map(|(sets, cpus, release, others, limit, hz)| {
        let mut tasks = Vec::new();
        for (number, (runtime, period, steps)) in sets.iter().enumerate() {
            let (runtime, period) = (*runtime, *period);
            let policy = Policy::Deadline { runtime, deadline: period, period };
            tasks.push(task(&format!("d{number}"), 1, Attributes { policy, ..Attributes::default() }, steps.clone()));
        }
        tasks.push(task("fair", others, Attributes::default(), vec![run(60)]));
        let fifo = Attributes { policy: Policy::Fifo(1), ..Attributes::default() };
        let steps = vec![run(20), Step::Sleep(milliseconds(3)), run(30)];
        tasks.push(task("fifo", others, fifo, steps));
        let promised = sets.iter().map(|(runtime, period, _)| (*runtime, *period)).collect();
        let scheduler = common::random::limited(Scheduler { hz, ..scheduler(release) }, limit);
        (workload(tasks), promised, cpus, scheduler)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// CBS: within t of its start a task has at most its runtime at once and its bandwidth of t. It begins anew early only where what it
    /// had left, which is forfeited, is more than its bandwidth until its deadline; that is compared in units of 1.024 µs, within
    /// 0.2 % of these runtimes. What it uses too much until a tick finds out is less than a tick, and paid back.
    #[test]
    fn no_task_takes_more_than_its_runtime_a_period((workload, promised, cpus, scheduler) in mixture()) {
        let machine = Machine::ideal(cpus);
        let options = Options { time_limit: Time::from_millis(100_000), ..Options::default() };
        let (_, events) = run_with(&workload, &scheduler, &machine, &options)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let every = run_with(&workload, &scheduler, &machine, &Options { no_tick_skip: true, ..options });
        prop_assert_eq!(Ok(&events), every.as_ref().map(|(_, events)| events));
        let tick = 1_000_000_000 / u64::from(scheduler.hz);
        let mut ran = vec![0; promised.len()];
        let mut since = vec![0; cpus as usize];
        for event in &events {
            let EventKind::Switch { previous, .. } = event.kind else { continue };
            let now = event.time.as_nanos();
            let passed = now - std::mem::replace(&mut since[event.cpu.index()], now);
            let Some((runtime, period)) = promised.get(previous.index()) else { continue };
            if runtime.as_nanos() <= tick {
                // It may overrun by several periods, which are over when a tick finds out: it runs on, with a later deadline.
                continue;
            }
            ran[previous.index()] += passed;
            let given = runtime.as_nanos() + now * runtime.as_nanos() / period.as_nanos();
            prop_assert!(
                ran[previous.index()] < given + given / 100 + tick,
                "at {now} task {} has had {} of {given}", previous.index(), ran[previous.index()]
            );
        }
    }
}
