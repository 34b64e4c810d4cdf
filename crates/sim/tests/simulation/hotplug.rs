//! CPUs that go off line and come back.

use crate::common;

use common::random::grouped_case;
use common::{milliseconds, run_with, scheduler, task, watcher, workload};
use proptest::prelude::*;
use schedlab_model::{
    Attributes, CpuChange, Event, EventKind, Machine, Policy, Step, Task, TaskId, TaskKind, Time, Workload,
};
use schedlab_sim::Options;

const RELEASES: [&str; 7] = ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

fn change(at: u64, cpu: u32, online: bool) -> CpuChange {
    CpuChange { at: Time::from_millis(at), cpu, online }
}

fn machine(cpus: u32, changes: Vec<CpuChange>) -> Machine {
    Machine { changes, ..Machine::ideal(cpus) }
}

fn hogs(count: u32, time: u64, affinity: Vec<u32>) -> Workload {
    let attributes = Attributes { affinity, ..Attributes::default() };
    workload(vec![task("hog", count, attributes, vec![Step::Run(milliseconds(time))])])
}

/// Two hogs of 100 ms on two CPUs, one of which is gone from 20 to 60 ms: 200 ms of work; 40 done by 20 ms, 40 more by 60 ms, and the
/// other 120 on two CPUs again: 120 ms. The CPU off line is busy for 20 + 60 ms.
#[test]
fn tasks_move_off_and_come_back() {
    for release in RELEASES {
        let machine = machine(2, vec![change(20, 1, false), change(60, 1, true)]);
        let (outcome, events) = run_with(&hogs(2, 100, vec![]), &scheduler(release), &machine, &Options::default())
            .expect("a run that ends");
        // The two tasks share one CPU in between, slice by slice: one ends a few slices before the other.
        let all = Time::from_nanos(outcome.elapsed_ns);
        assert!(all >= Time::from_millis(120) && all <= Time::from_millis(140), "{release}: {all}");
        let here = |event: &&Event| event.cpu.0 == 1 && matches!(event.kind, EventKind::Switch { .. });
        let idle = |event: &Event| event.time >= Time::from_millis(20) && event.time < Time::from_millis(60);
        let during: Vec<_> = events.iter().filter(here).filter(|event| idle(event)).collect();
        assert_eq!(during.len(), 1, "{release}: it only leaves, {during:?}");
        assert_eq!(during[0].time, Time::from_millis(20));
    }
}

/// A task bound to the CPU that goes runs elsewhere from then on, as do one that slept there and one under a real-time policy.
#[test]
fn a_task_bound_to_the_cpu_runs_elsewhere() {
    let bound = |policy| Attributes { policy, affinity: vec![1], ..Attributes::default() };
    let sleeper = vec![Step::Run(milliseconds(1)), Step::Sleep(milliseconds(50)), Step::Run(milliseconds(10))];
    let tasks = vec![
        task("hog", 1, bound(Policy::Other), vec![Step::Run(milliseconds(100))]),
        task("sleeper", 1, bound(Policy::Fifo(2)), sleeper),
    ];
    for release in RELEASES {
        let machine = machine(2, vec![change(20, 1, false)]);
        let (outcome, events) = run_with(&workload(tasks.clone()), &scheduler(release), &machine, &Options::default())
            .expect("a run that ends");
        // All of it one after the other: 1 + 100 + 10 ms, 20 ms of it here.
        assert_eq!(Time::from_nanos(outcome.elapsed_ns), Time::from_millis(111), "{release}");
        assert_eq!(Time::from_nanos(outcome.cpu_busy_ns[1]), Time::from_millis(20), "{release}");
        let late = |event: &Event| event.cpu.0 == 1 && event.time > Time::from_millis(20);
        assert!(!events.iter().any(late), "{release}: nothing happens on a CPU that is off line");
    }
}

/// Weights follow the CPUs on line. Three threads of B against A, all on CPU 0. DW-CFS with β = 1.1: with No = 2, k = 10,
/// f(3) = 1.2 · 11 / 13 = 1.01538, B has 3.04615 of 4.04615, 75.286 %. With No = 1 weights are divided by 3: half each.
#[test]
fn thread_weights_follow_the_cpus_on_line() {
    let attributes = Attributes { affinity: vec![0], ..Attributes::default() };
    let steps = vec![Step::Run(milliseconds(30_000))];
    let alone = task("A", 1, attributes.clone(), steps.clone());
    let threads = Task { kind: TaskKind::Thread, ..task("B", 3, attributes, steps) };
    for release in RELEASES {
        let mut scheduler = scheduler(release);
        scheduler.weights = "dw-cfs:beta=1.1".parse().expect("a rule");
        let machine = machine(2, vec![change(10_000, 1, false), change(20_000, 1, true)]);
        let work = workload(vec![alone.clone(), threads.clone()]);
        let (_, events) = run_with(&work, &scheduler, &machine, &Options::default()).expect("a run that ends");
        for (from, expected) in [(0, 0.75286), (10_000, 0.5), (20_000, 0.75286)] {
            let (from, to) = (Time::from_millis(from), Time::from_millis(from + 10_000));
            let (mut since, mut got) = (Time::ZERO, 0);
            for event in events.iter().filter(|event| event.cpu.0 == 0) {
                let EventKind::Switch { previous, .. } = event.kind else { continue };
                let (began, ended) = (since.clamp(from, to), event.time.clamp(from, to));
                since = event.time;
                // Task 0 is A; the threads are the others.
                got += if (1..4).contains(&previous.0) { (ended - began).as_nanos() } else { 0 };
            }
            let found = got as f64 / 1e10;
            assert!((found - expected).abs() < 0.01, "{release}, from {from}: {found} instead of {expected}");
        }
    }
}

#[test]
fn what_is_not_simulated_is_refused() {
    let policy = "deadline:runtime=2ms,deadline=10ms".parse().expect("a policy");
    let deadline = Attributes { policy, ..Attributes::default() };
    let work = workload(vec![task("t", 1, deadline, vec![Step::Run(milliseconds(1))])]);
    let machine = machine(2, vec![change(1, 1, false)]);
    let error = run_with(&work, &scheduler("6.1"), &machine, &Options::default()).map(|_| ()).expect_err("refused");
    assert!(error.to_string().contains("not simulated with deadline tasks"), "{error}");
}

/// A cancelled run ends.
#[test]
fn a_run_is_cancelled() {
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let options = Options { cancel: Some(&cancel), ..Options::default() };
    let error = run_with(&hogs(2, 1_000_000, vec![]), &scheduler("6.1"), &Machine::ideal(1), &options)
        .map(|_| ())
        .expect_err("it is cancelled");
    assert!(error.to_string().starts_with("cancelled at"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever CPUs do, the books are kept, every tick or not.
    #[test]
    fn books_are_kept_while_cpus_come_and_go(
        case in grouped_case(),
        times in prop::collection::vec((0u64..60_000, 0u32..7), 1..10),
    ) {
        let mut machine = case.machine.clone();
        let mut times = times;
        times.sort_unstable();
        for (at, cpu) in times {
            let online = machine.changes.iter().rev().find(|change| change.cpu == cpu).is_some_and(|change| !change.online);
            machine.changes.push(CpuChange { at: Time::from_micros(at), cpu, online });
            if machine.validate().is_err() {
                machine.changes.pop();
            }
        }
        let options = Options { seed: 3, ..Options::default() };
        let one = run_with(&case.workload, &case.scheduler, &machine, &options)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let every = run_with(&case.workload, &case.scheduler, &machine, &Options { no_tick_skip: true, ..options });
        prop_assert_eq!(Ok(&one), every.as_ref());
        // Affinities end with the last of their CPUs, and throttled tasks wait beside idle CPUs: where tasks run and wait is not
        // looked at here, only that none does on a CPU that is off line.
        let costs = schedlab_model::Costs { idle_exit: Time::from_nanos(1), ..machine.costs.clone() };
        watcher::check(&one.1, &one.0, &Machine { costs, ..machine.clone() }, None, |_, _| true).map_err(TestCaseError::fail)?;
        for event in &one.1 {
            let EventKind::Switch { next, .. } = event.kind else { continue };
            let last = machine.changes.iter().rev().find(|change| change.cpu == event.cpu.0 && change.at <= event.time);
            if let Some(off) = last.filter(|change| !change.online) {
                // The current task is switched out at that instant.
                prop_assert!(off.at == event.time && next == TaskId::IDLE, "{event:?} off line");
            }
        }
    }
}
