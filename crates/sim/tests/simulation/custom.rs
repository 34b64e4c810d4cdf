//! User-defined policies, by the worked example.

use crate::common;
#[path = "../../../../examples/policy/src/main.rs"]
#[expect(dead_code, reason = "the example's main is not called here")]
mod round_robin;

use common::random::case;
use common::{milliseconds, policies, scheduler, task, workload};
use proptest::prelude::*;
use round_robin::RoundRobin;
use schedlab_model::{Attributes, Machine, Outcome, Policy, Scheduler, Step, Time, Workload};
use schedlab_sim::Options;

fn policy(machine: &Machine) -> Box<RoundRobin> {
    Box::new(RoundRobin::new(machine.cpus, Time::from_millis(10)))
}

/// Runs on one CPU to the end.
fn run(workload: &Workload, scheduler: &Scheduler) -> Outcome {
    let machine = Machine::ideal(1);
    policies::run(workload, scheduler, &machine, &Options::default(), policy(&machine)).expect("a run that ends").0
}

fn hog(name: &str, attributes: Attributes) -> schedlab_model::Task {
    task(name, 1, attributes, vec![Step::Run(milliseconds(30))])
}

/// Two tasks of 30 ms, ticks every millisecond: a 0–10, b 10–20, a 20–30, b 30–40, a 40–50 and out, b 50–60. Each is
/// preempted twice, which makes four switches. The nice level does not count.
#[test]
fn each_task_has_a_quantum_in_turn() {
    for release in common::RELEASES {
        let scheduler = Scheduler { hz: 1000, ..scheduler(release) };
        let nice = Attributes { nice: 10, ..Attributes::default() };
        let workload = workload(vec![hog("a", Attributes::default()), hog("b", nice)]);
        let outcome = run(&workload, &scheduler);
        let ends: Vec<u64> = outcome.tasks.iter().map(|task| task.life_ns / 1_000_000).collect();
        assert_eq!((ends, outcome.switches), (vec![50, 60], 4), "{release}");
    }
}

/// A quantum ends with a tick: at 250 Hz the first that finds 10 ms or more comes at 12 ms. a 0–12, b 12–24, a 24–36, b 36–48, then a has
/// 6 ms left and ends at 54, b at 60.
#[test]
fn a_quantum_ends_with_a_tick() {
    let workload = workload(vec![hog("a", Attributes::default()), hog("b", Attributes::default())]);
    let outcome = run(&workload, &scheduler("6.1"));
    let ends: Vec<u64> = outcome.tasks.iter().map(|task| task.life_ns / 1_000_000).collect();
    assert_eq!(ends, [54, 60]);
}

/// Real-time tasks stand above the policy: fifo ends at 30 ms, then the policy's tasks share what is left.
#[test]
fn the_classes_above_stay() {
    let scheduler = Scheduler { hz: 1000, ..scheduler("6.1") };
    let fifo = Attributes { policy: Policy::Fifo(1), ..Attributes::default() };
    let workload = workload(vec![hog("a", Attributes::default()), hog("b", Attributes::default()), hog("fifo", fifo)]);
    let outcome = run(&workload, &scheduler);
    let ends: Vec<u64> = outcome.tasks.iter().map(|task| task.life_ns / 1_000_000).collect();
    assert_eq!(ends, [80, 90, 30]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever runs, the books are kept, and skipping ticks changes nothing.
    #[test]
    fn every_run_keeps_the_books(case in case()) {
        policies::keeps_the_books(case, policy)?;
    }
}
