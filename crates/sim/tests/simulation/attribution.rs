//! Waiting time attributed to causes: nothing is lost, nothing counted twice.

use crate::common;

use std::collections::BTreeMap;

use common::random::{case, grouped_case};
use common::{milliseconds, scheduler, task, workload};
use proptest::prelude::*;
use schedlab_metrics::{Attribution, Cause, Metrics, Waits};
use schedlab_model::{
    Attributes, Group, GroupMax, Machine, Policy, RuleSet, Scheduler, Step, Task, TaskId, Time, Workload,
};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate};

/// The waits of a run on a machine without costs.
fn waits(workload: &Workload, scheduler: &Scheduler, cpus: u32) -> Waits {
    waits_on(workload, scheduler, &Machine::ideal(cpus))
}

fn waits_on(workload: &Workload, scheduler: &Scheduler, machine: &Machine) -> Waits {
    let program = Program::compile(workload).expect("a workload that compiles");
    let mut attribution = Attribution::new(machine.cpus, &RuleSet::of(scheduler.release));
    let options = Options::default();
    let outcome = simulate(&program, scheduler, machine, &options, &mut attribution).expect("it runs");
    attribution.finish(Time::from_nanos(outcome.elapsed_ns))
}

/// By cause the waiting time of a task, in microseconds.
fn by_cause(waits: &Waits, task: TaskId) -> Vec<(Cause, u64)> {
    let mut causes: Vec<(Cause, u64)> = Vec::new();
    for span in waits.iter().filter(|wait| wait.task == task).flat_map(|wait| waits.spans(wait)) {
        let length = span.length.as_nanos() / 1_000;
        match causes.iter_mut().find(|(cause, _)| *cause == span.cause) {
            Some((_, sum)) => *sum += length,
            None => causes.push((span.cause, length)),
        }
    }
    causes
}

/// A quota of 2 ms in 10 ms: a task of 5 ms runs for 2 ms, waits for 8, runs for 2, waits for 8 and runs for 1.
#[test]
fn a_limited_task_waits_for_its_quota_alone() {
    for release in ["6.1", "6.12"] {
        let mut limited = workload(vec![Task {
            taskgroup: Some("/svc".into()),
            ..task("work", 1, Attributes::default(), vec![Step::Run(milliseconds(5))])
        }]);
        let max = GroupMax { quota: Time::from_millis(2), period: Time::from_millis(10), burst: Time::ZERO };
        limited.groups.insert("/svc".into(), Group { max: Some(max), ..Group::default() });
        let found = by_cause(&waits(&limited, &scheduler(release), 1), TaskId(0));
        let quota: u64 = found.iter().filter(|(cause, _)| *cause == Cause::Quota(1)).map(|(_, time)| time).sum();
        let all: u64 = found.iter().map(|(_, time)| time).sum();
        // It is throttled at ticks and as it is charged, so that it overruns, and is refilled later for that.
        assert_eq!(quota, all, "{release}: {found:?}");
        assert!(all >= 8_000, "{release}: {found:?}");
    }
}

/// A FIFO task runs for 30 ms before a fair one of 1 ms may: that waits for it, and for nothing else.
#[test]
fn a_fair_task_waits_for_a_real_time_one() {
    let fifo = Attributes { policy: Policy::Fifo(10), ..Attributes::default() };
    let tasks = vec![
        task("above", 1, fifo, vec![Step::Run(milliseconds(30))]),
        task("below", 1, Attributes::default(), vec![Step::Run(milliseconds(1))]),
    ];
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let found = by_cause(&waits(&workload(tasks.clone()), &scheduler(release), 1), TaskId(1));
        assert_eq!(found, [(Cause::RealtimeAbove, 30_000)], "{release}");
    }
}

/// 6.12, one CPU, a base slice of 0.75 ms, ticks of 4 ms: of two CPU-bound tasks one runs until the tick after its request is served. The
/// other waits 4 ms: behind a request of 0.75 ms, of which the rest waits for the tick.
#[test]
fn under_eevdf_most_of_a_turn_waits_for_the_tick() {
    let tasks = vec![task("hog", 2, Attributes::default(), vec![Step::Run(milliseconds(40))])];
    let found = by_cause(&waits(&workload(tasks), &scheduler("6.12"), 1), TaskId(0));
    assert!(found.iter().all(|(cause, _)| *cause != Cause::Unknown), "{found:?}");
    let all: u64 = found.iter().map(|(_, time)| time).sum();
    assert_eq!(all % 4_000, 0, "whole ticks: {found:?}");
}

/// Four tasks that may run on the first CPU of either cache alone: 5.10 moves one there and back within a tick's balancing, and what it waits for
/// after that is what was decided as it came back.
#[test]
fn a_task_that_is_moved_away_and_back_waits_for_a_cause() {
    let attributes = Attributes { affinity: vec![0, 2], ..Attributes::default() };
    let idle = Attributes { policy: Policy::Idle, ..Attributes::default() };
    let tasks = vec![
        task("child", 4, attributes, vec![Step::Run(milliseconds(41))]),
        task("idle", 1, idle, vec![Step::Run(milliseconds(50))]),
    ];
    let machine = Machine { topology: "smt=2,llc=2".parse().unwrap(), ..Machine::ideal(4) };
    let scheduler = Scheduler { hz: 1000, ..scheduler("5.10") };
    let found = waits_on(&workload(tasks), &scheduler, &machine);
    for child in (0..4).map(TaskId) {
        let causes = by_cause(&found, child);
        assert!(causes.iter().all(|(cause, _)| *cause != Cause::Unknown), "{child:?}: {causes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// On every release, with groups, quotas and every policy: the causes of each wait add up to it, and the waits of each task to the
    /// time that it could have run and did not, as another fold over the same events has it.
    #[test]
    fn causes_add_up_to_the_waiting_time(
        case in prop_oneof![1 => case().boxed(), 1 => grouped_case().boxed()],
        seed in any::<u64>(),
    ) {
        let program = Program::compile(&case.workload).expect("a workload that compiles");
        let options = Options { seed, ..Options::default() };
        let rules = RuleSet::of(case.scheduler.release);
        let mut sinks = (Attribution::new(case.machine.cpus, &rules), Metrics::default());
        let outcome = simulate(&program, &case.scheduler, &case.machine, &options, &mut sinks)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let (attribution, metrics) = sinks;
        let end = Time::from_nanos(outcome.elapsed_ns).max(metrics.last());
        let waits = attribution.finish(end);
        let mut waited: BTreeMap<TaskId, u64> = BTreeMap::new();
        let mut unknown = 0;
        for wait in waits.iter() {
            let spans = waits.spans(wait);
            let sum: u64 = spans.iter().map(|span| span.length.as_nanos()).sum();
            prop_assert_eq!(sum, wait.length().as_nanos(), "{:?} {:?}", wait, spans);
            *waited.entry(wait.task).or_default() += sum;
            let without = spans.iter().filter(|span| span.cause == Cause::Unknown);
            unknown += without.map(|span| span.length.as_nanos()).sum::<u64>();
        }
        // Every decision of the simulator has its reason.
        let total: u64 = waited.values().sum();
        prop_assert!(unknown * 100 <= total, "{} of {} ns have no cause", unknown, total);
        for task in (0..metrics.tasks() as u32).map(TaskId) {
            let expected = metrics.task(task, end).map_or(0, |metrics| metrics.wait.as_nanos());
            prop_assert_eq!(waited.get(&task).copied().unwrap_or(0), expected, "task {}", task.0);
        }
    }
}
