//! The thread-fairness paper's figures as shares of a simulated CPU, and weights that follow threads as they come and go.

use crate::common;

use common::{RELEASES, milliseconds, run_with, scheduler, task, workload};
use schedlab_model::{Attributes, Event, EventKind, Machine, Step, Task, TaskKind, Time, Workload};
use schedlab_sim::Options;

/// A process of so many threads, each of which computes for so long: its first thread makes the others.
fn process(name: &str, threads: u32, run: u64, affinity: &[u32]) -> [Task; 2] {
    let attributes = Attributes { affinity: affinity.to_vec(), ..Attributes::default() };
    let thread = format!("{name}-thread");
    let mut steps = Vec::new();
    if threads > 1 {
        steps.push(Step::Fork { task: thread.clone(), count: threads - 1 });
    }
    steps.extend([Step::Run(milliseconds(run)), Step::Join]);
    [
        task(name, 1, attributes, steps),
        Task {
            name: thread,
            instances: 0,
            kind: TaskKind::Thread,
            attributes: None,
            steps: vec![Step::Run(milliseconds(run))],
            ..Task::default()
        },
    ]
}

fn processes(threads: &[u32], affinity: &[u32]) -> Workload {
    let names = ["A", "B", "C"];
    workload(threads.iter().zip(names).flat_map(|(count, name)| process(name, *count, 20_000, affinity)).collect())
}

/// Each process's share of the one CPU that is used, in percent, from `from` to `to` milliseconds. Processes are told apart by their
/// names' first letter.
fn shares(workload: &Workload, release: &str, weights: &str, cpus: u32, (from, to): (u64, u64)) -> Vec<f64> {
    let mut scheduler = scheduler(release);
    scheduler.weights = weights.parse().expect("a rule");
    let (outcome, events) =
        run_with(workload, &scheduler, &Machine::ideal(cpus), &Options::default()).expect("a run that ends");
    let (from, to) = (from * 1_000_000, to * 1_000_000);
    let mut got = [0u64; 26];
    let mut since = vec![0u64; cpus as usize];
    for Event { time, cpu, kind } in &events {
        let EventKind::Switch { previous, .. } = kind else { continue };
        let now = time.as_nanos();
        let began = std::mem::replace(&mut since[cpu.index()], now);
        if let Some(task) = outcome.tasks.get(previous.index()) {
            got[usize::from(task.name.as_bytes()[0] - b'A')] += now.clamp(from, to) - began.clamp(from, to);
        }
    }
    let all: u64 = got.iter().sum();
    assert_eq!(all, to - from, "the CPU is busy all the time");
    got.iter().filter(|time| **time > 0).map(|time| *time as f64 * 100.0 / all as f64).collect()
}

fn assert_shares(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: {found:?}");
    for (found, expected) in found.iter().zip(expected) {
        // Of ten seconds: within 1 % of the time there was.
        assert!((found - expected).abs() < 1.0, "{what}: {found:.2} % instead of {expected:.2} %");
    }
}

const WINDOW: (u64, u64) = (1_000, 11_000);

/// Figure 1: A, B and C have 1, 2 and 2 threads. CFS shares among the five: 1/5, 2/5, 2/5.
#[test]
fn figure_1() {
    for release in RELEASES {
        let found = shares(&processes(&[1, 2, 2], &[]), release, "none", 1, WINDOW);
        assert_shares(&found, &[20.0, 40.0, 40.0], release);
    }
}

/// Figure 2: 1, 1 and 8 threads. The greedy process has eight of ten shares.
#[test]
fn figure_2() {
    for release in RELEASES {
        let found = shares(&processes(&[1, 1, 8], &[]), release, "none", 1, WINDOW);
        assert_shares(&found, &[10.0, 10.0, 80.0], release);
    }
}

/// Figure 3: the same under PFS. Each of the eight weighs an eighth, so each process has a third.
#[test]
fn figure_3() {
    for release in RELEASES {
        let found = shares(&processes(&[1, 1, 8], &[]), release, "pfs", 1, WINDOW);
        assert_shares(&found, &[33.333, 33.333, 33.333], release);
    }
}

/// DW-CFS between the two: 1, 1 and 8 threads on CPU 0 of two. f(8, 2) with β = 1.1: k = 22 − 12 = 10, 1.2 · 11 / 18 = 0.7333. So C
/// weighs 8 · 0.7333 = 5.8667 of 7.8667 in all, 74.58 %, and A and B 12.71 % each.
#[test]
fn dynamic_weights_take_from_the_greedy_what_exceeds_the_cpus() {
    for release in RELEASES {
        let found = shares(&processes(&[1, 1, 8], &[0]), release, "dw-cfs:beta=1.1", 2, WINDOW);
        assert_shares(&found, &[12.712, 12.712, 74.576], release);
    }
}

/// And with two threads, as many as there are CPUs: f(2, 2) = 1.1, so 2.2 of 4.2: 52.38 % instead of CFS's half.
#[test]
fn dynamic_weights_favour_as_many_threads_as_cpus() {
    for release in RELEASES {
        let found = shares(&processes(&[1, 1, 2], &[0]), release, "dw-cfs:beta=1.1", 2, WINDOW);
        assert_shares(&found, &[23.81, 23.81, 52.381], release);
    }
}

/// On one CPU DW-CFS divides by the number of threads.
#[test]
fn dynamic_weights_on_one_cpu_are_process_fair() {
    for release in RELEASES {
        let found = shares(&processes(&[1, 1, 8], &[]), release, "dw-cfs:beta=1.1", 1, WINDOW);
        assert_shares(&found, &[33.333, 33.333, 33.333], release);
    }
}

/// Threads come and end: B has four threads, of which three end after 1 s of CPU time each. Under PFS both processes have half all
/// the while, before (B's threads an eighth each) and after (its one thread a half); so the three end after 8 s.
#[test]
fn weights_follow_threads_that_end() {
    for release in RELEASES {
        let [first, mut thread] = process("B", 4, 20_000, &[]);
        thread.steps = vec![Step::Run(milliseconds(1_000))];
        let [other, _] = process("A", 1, 20_000, &[]);
        let workload = workload(vec![other, first, thread]);
        for window in [(1_000, 7_000), (9_000, 15_000)] {
            let found = shares(&workload, release, "pfs", 1, window);
            assert_shares(&found, &[50.0, 50.0], &format!("{release} {window:?}"));
        }
    }
}

/// Threads that are there from the start are those of one process.
#[test]
fn first_threads_share_one_process() {
    let [alone, _] = process("A", 1, 20_000, &[]);
    let [_, mut threads] = process("B", 1, 20_000, &[]);
    (threads.instances, threads.attributes) = (4, Some(Attributes::default()));
    let found = shares(&workload(vec![alone, threads]), "6.1", "pfs", 1, WINDOW);
    assert_shares(&found, &[50.0, 50.0], "four threads against one");
}

/// Work that competes with no other task takes as long as without weights.
#[test]
fn weights_do_not_matter_to_a_process_alone() {
    let [first, thread] = process("A", 4, 100, &[]);
    let workload = workload(vec![first, thread]);
    for release in RELEASES {
        for weights in ["none", "pfs", "dw-cfs:beta=1.1"] {
            let mut scheduler = scheduler(release);
            scheduler.weights = weights.parse().expect("a rule");
            let (outcome, _) =
                run_with(&workload, &scheduler, &Machine::ideal(1), &Options::default()).expect("a run that ends");
            assert_eq!(Time::from_nanos(outcome.elapsed_ns), Time::from_millis(400), "{release} {weights}");
        }
    }
}
