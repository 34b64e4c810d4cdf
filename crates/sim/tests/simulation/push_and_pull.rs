//! Real-time and deadline tasks on several CPUs: those of the highest priorities, or earliest deadlines, run.

use crate::common;

use std::collections::BTreeSet;

use common::{microseconds, milliseconds, run, task, workload};
use proptest::prelude::*;
use schedlab_model::{Attributes, Event, EventKind, Machine, Policy, Step, TaskId, TaskState, Time};

const CURRENT: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];

fn fifo(priority: u8) -> Attributes {
    Attributes { policy: Policy::Fifo(priority), ..Attributes::default() }
}

fn machine(cpus: u32, topology: &str) -> Machine {
    Machine { topology: topology.parse().expect("a topology"), ..Machine::ideal(cpus) }
}

/// Two CPUs. Two of priority 50 run for 10 ms while one of 60 wakes after 2 ms, for 5 ms: it preempts one of them, which waits until 7 ms
/// and is done at 15 ms. One of priority 40, there from the start, gets what is left: 10 ms on, the CPU that the other 50 leaves.
#[test]
fn the_highest_priorities_run() {
    for release in CURRENT {
        for topology in ["smt=1", "smt=2", "llc=1"] {
            let tasks = vec![
                task("middle", 2, fifo(50), vec![Step::Run(milliseconds(10))]),
                task("high", 1, fifo(60), vec![Step::Sleep(milliseconds(2)), Step::Run(milliseconds(5))]),
                task("low", 1, fifo(40), vec![Step::Run(milliseconds(3))]),
            ];
            let (outcome, _) = run(&workload(tasks), release, &machine(2, topology));
            let lives: Vec<u64> = outcome.tasks.iter().map(|task| task.life_ns / 1_000_000).collect();
            let mut middle = [lives[0], lives[1]];
            middle.sort_unstable();
            assert_eq!((middle, lives[2], lives[3]), ([10, 15], 7, 13), "{release} {topology}");
        }
    }
}

/// A real-time task that is queued on a CPU where its equal runs is pushed to one that runs a fair task, and that fair task goes on
/// elsewhere or after it.
#[test]
fn equals_do_not_queue() {
    for release in CURRENT {
        let tasks = vec![
            task("fair", 4, Attributes::default(), vec![Step::Run(milliseconds(20))]),
            task("urgent", 3, fifo(10), vec![Step::Sleep(milliseconds(1)), Step::Run(milliseconds(4))]),
        ];
        let (outcome, _) = run(&workload(tasks), release, &machine(4, "smt=1"));
        let waits: Vec<u64> = outcome.tasks[4..].iter().map(|task| task.wait_ns).collect();
        assert_eq!(waits, [0, 0, 0], "{release}");
    }
}

/// Two deadline tasks of 6 ms each 10 ms, forked by one task on one CPU: on two CPUs each meets its deadlines, as neither fits beside
/// the other. That is 5 · 6 ms of work, done 46 ms after the start.
#[test]
fn deadlines_are_kept_on_two_cpus() {
    for release in CURRENT {
        let [runtime, period] = [6, 10].map(Time::from_millis);
        let policy = Policy::Deadline { runtime, deadline: period, period };
        let attributes = Attributes { policy, ..Attributes::default() };
        let steps = vec![Step::Run(milliseconds(30))];
        let (outcome, _) = run(&workload(vec![task("job", 2, attributes, steps)]), release, &machine(2, "smt=1"));
        for job in &outcome.tasks {
            assert_eq!(job.life_ns, 46_000_000, "{release}: {}", job.name);
        }
    }
}

/// At each instant's end, from the events alone: which tasks wait, and which ones run where.
fn no_lower_runs_beside_a_higher(events: &[Event], prio: &[u8], cpus: usize, apart: &[bool]) -> Result<(), String> {
    let mut running: Vec<Option<usize>> = vec![None; cpus];
    let mut waiting = BTreeSet::new();
    for (number, event) in events.iter().enumerate() {
        match event.kind {
            EventKind::WakeupNew { task, .. } | EventKind::Waking { task, .. } => {
                waiting.insert(task.index());
            }
            EventKind::Switch { previous, state, next } => {
                if previous != TaskId::IDLE && state == TaskState::Running {
                    waiting.insert(previous.index());
                }
                running[event.cpu.index()] = (next != TaskId::IDLE).then_some(next.index());
                waiting.remove(&next.index());
            }
            _ => {}
        }
        if events.get(number + 1).is_none_or(|next| next.time > event.time) {
            for task in waiting.iter().filter(|task| !apart[**task]) {
                let lower = running.iter().position(|other| other.is_none_or(|other| prio[other] < prio[*task]));
                if let Some(cpu) = lower {
                    return Err(format!("at {} task {task} waits while CPU {cpu} runs {:?}", event.time, running[cpu]));
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Push and pull keep the n highest priorities on the n CPUs, at every instant, among tasks that may run anywhere.
    #[test]
    fn no_priority_is_inverted(
        tasks in prop::collection::vec((1u8..6, 1u64..4000, 1u64..6000), 1..12),
        cpus in 2u32..5,
        release in prop::sample::select(&CURRENT[..]),
    ) {
        let prio: Vec<u8> = tasks.iter().map(|(prio, ..)| *prio).collect();
        let steps = |sleep, run| {
            vec![Step::Loop {
                count: 3,
                steps: vec![Step::Sleep(microseconds(sleep)), Step::Run(microseconds(run))],
            }]
        };
        let tasks = tasks
            .into_iter()
            .enumerate()
            .map(|(number, (prio, sleep, run))| task(&format!("t{number}"), 1, fifo(prio), steps(sleep, run)))
            .collect();
        let mut scheduler = common::scheduler(release);
        if matches!(release, "5.10" | "6.1") {
            scheduler.set("rt_runtime", "unlimited").expect("a knob of the release");
        }
        let machine = machine(cpus, "smt=1");
        let options = schedlab_sim::Options { seed: 1, ..schedlab_sim::Options::default() };
        let (_, events) = common::run_with(&workload(tasks), &scheduler, &machine, &options)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let apart = vec![false; prio.len()];
        no_lower_runs_beside_a_higher(&events, &prio, cpus as usize, &apart).map_err(TestCaseError::fail)?;
    }
}
