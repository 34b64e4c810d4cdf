//! The sched_ext scheduler as a policy: it shares CPUs as it does in a kernel.

use crate::common;

use common::random::case;
use common::{milliseconds, policies, scheduler, task, workload};
use proptest::prelude::*;
use schedlab_model::{Attributes, Machine, Scheduler, Step, Task, TaskKind, Time, Workload};
use schedlab_sched::{ThreadFair, ThreadFairKnobs};
use schedlab_sim::Options;

fn policy(machine: &Machine) -> Box<ThreadFair> {
    Box::new(ThreadFair::new(&vec![0; machine.cpus as usize], ThreadFairKnobs::default()))
}

/// A process whose threads compute for ever: the first makes the others.
fn process(name: &str, threads: u32, attributes: Attributes) -> [Task; 2] {
    let run = Step::Run(milliseconds(60_000));
    let child = format!("{name}t");
    let fork = Step::Fork { task: child.clone(), count: threads - 1 };
    let steps = if threads > 1 { vec![fork, run.clone()] } else { vec![run.clone()] };
    let mut thread = task(&child, 1, Attributes::default(), vec![run]);
    (thread.kind, thread.attributes, thread.instances) = (TaskKind::Thread, None, 0);
    [task(name, 1, attributes, steps), thread]
}

/// What part of all CPU time the threads of each process got in eight seconds.
fn shares(weights: &str, cpus: u32, processes: &[(u32, Attributes)]) -> Vec<f64> {
    let letters = ["a", "b", "c"];
    let tasks = processes.iter().zip(letters).flat_map(|((threads, how), name)| process(name, *threads, how.clone()));
    let workload = Workload { duration: Some(Time::from_millis(8000)), ..workload(tasks.collect()) };
    let scheduler = Scheduler { weights: weights.parse().expect("a rule"), ..scheduler("7.2") };
    let machine = Machine::ideal(cpus);
    let run = policies::run(&workload, &scheduler, &machine, &Options::default(), policy(&machine));
    let (outcome, _) = run.expect("a run that ends");
    let total = |letter: &&str| -> f64 {
        outcome.tasks.iter().filter(|task| task.name.starts_with(*letter)).map(|task| task.run_ns as f64).sum()
    };
    let got: Vec<f64> = letters[..processes.len()].iter().map(total).collect();
    let all: f64 = got.iter().sum();
    got.into_iter().map(|one| one / all).collect()
}

fn nice(nice: i8) -> Attributes {
    Attributes { nice, ..Attributes::default() }
}

fn on_cpu(cpu: u32) -> Attributes {
    Attributes { affinity: vec![cpu], ..Attributes::default() }
}

fn assert_near(found: &[f64], expected: &[f64], what: &str) {
    for (one, other) in found.iter().zip(expected) {
        assert!((one - other).abs() < 0.01, "{what}: {found:?} instead of {expected:?}");
    }
}

/// By weight, but no thread can use two CPUs. Without weights by threads every thread has the same; under PFS a process of one thread has a
/// CPU and the others the second one; of nice 0, 5 and −5 (1024, 335, 3121 of 4480) the last would have 1.39 CPUs: it has one, and
/// 1024 and 335 of 1359 share the other. DW-CFS's factors on two CPUs are 1.1 at 2 threads and 1.2·11/14 at 4 (equation 5).
#[test]
fn shares_on_two_cpus_are_the_feasible_ones() {
    for (weights, many, expected) in [
        ("none", 2, 1.0 / 3.0),
        ("none", 4, 0.2),
        ("none", 32, 1.0 / 33.0),
        ("pfs", 2, 0.5),
        ("pfs", 8, 0.5),
        ("pfs", 32, 0.5),
        ("dw-cfs:beta=1.1", 2, 1.0 / 3.2),
        ("dw-cfs:beta=1.1", 4, 1.0 / (1.0 + 4.0 * 1.2 * 11.0 / 14.0)),
    ] {
        let found = shares(weights, 2, &[(1, nice(0)), (many, nice(0))]);
        assert_near(&found, &[expected, 1.0 - expected], &format!("1 and {many} under {weights}"));
    }
    let found = shares("none", 2, &[(1, nice(0)), (1, nice(5)), (1, nice(-5))]);
    assert_near(&found, &[1024.0 / 1359.0 / 2.0, 335.0 / 1359.0 / 2.0, 0.5], "mixed nice levels");
}

/// On one CPU: figures 2 and 3 of the thread-fairness paper.
#[test]
fn shares_of_a_cpu_are_those_of_the_weights() {
    let three = [(1, nice(0)), (1, nice(0)), (8, nice(0))];
    assert_near(&shares("none", 1, &three), &[0.1, 0.1, 0.8], "figure 2");
    assert_near(&shares("pfs", 1, &three), &[1.0 / 3.0; 3], "figure 3");
}

/// A thread of nice 19 on CPU 0 beside two that are free gets its 15 of 2063, or half of it at the least, though its queue has no other
/// task; and beside a process of one thread that is bound to CPU 1, eight on CPU 0 leave a free one half of CPU 1.
#[test]
fn a_bound_task_has_its_share() {
    let little = Attributes { nice: 19, ..on_cpu(0) };
    let found = shares("none", 2, &[(1, nice(0)), (1, nice(0)), (1, little)]);
    assert!((0.5 * 15.0 / 2063.0..2.0 * 15.0 / 2063.0).contains(&found[2]), "{found:?}");
    let found = shares("none", 2, &[(8, on_cpu(0)), (1, nice(0)), (1, on_cpu(1))]);
    assert_near(&found, &[0.5, 0.25, 0.25], "crowded beside free");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever runs, the books are kept, no CPU idles beside a task that may run there, and skipping ticks changes nothing.
    #[test]
    fn every_run_keeps_the_books(case in case()) {
        policies::keeps_the_books(case, policy)?;
    }
}
