//! RCU's thread: when it runs, and what makes it run.

use crate::common;

use common::*;
use schedlab_model::{
    Attributes, Costs, Event, EventKind, Machine, Policy, Scheduler, Step, Task, TaskKind, Time, Workload,
};
use schedlab_sim::Options;

/// From tick to tick, in microseconds, and what the thread takes each time that it runs.
const TICK: u64 = 4000;
const RUN: u64 = 10;

/// A machine on which nothing takes time but a run of the thread.
fn machine(cpus: u32) -> Machine {
    Machine::new(cpus, Costs { grace_period: Time::from_micros(RUN), ..Costs::ideal() })
}

/// One that computes, whatever wakes preempts it.
fn computes(name: &str, steps: Vec<Step>, affinity: Vec<u32>) -> Task {
    let attributes = Attributes { policy: Policy::Idle, affinity, ..Attributes::default() };
    let steps = [steps, vec![Step::Run(microseconds(10 * TICK))]].concat();
    task(name, 1, attributes, steps)
}

/// In which ticks the thread is switched in, each time in one; it is the last of the workload's first tasks.
fn runs(all: Workload, release: &str, machine: &Machine) -> Vec<u64> {
    let all = machine.with_background(all).expect("a workload beside which threads can be");
    let thread = all.tasks.iter().position(|task| task.name == "rcu_gp").expect("RCU's thread") as u32;
    let thread: u32 = all.tasks[..thread as usize].iter().map(|task| task.instances).sum();
    let scheduler = Scheduler { hz: 250, ..scheduler(release) };
    let (_, events) = run_with(&all, &scheduler, machine, &Options::default()).expect("a run that ends");
    let in_tick = |event: &Event| match event.kind {
        EventKind::Switch { next, .. } if next.0 == thread => {
            let time = event.time.as_nanos() / 1000;
            // Once the run is over there are no ticks to wait for.
            assert_eq!(time % TICK, 0, "{release}: switched in at {time} us");
            Some(time / TICK)
        }
        _ => None,
    };
    events.iter().filter_map(in_tick).collect()
}

#[test]
fn the_first_tick_begins_a_grace_period_and_the_second_ends_it() {
    // Before a run begins a file is closed, which leaves memory to RCU up to 6.6, and the stacks of threads are mapped, which does from 6.1 on. That is
    // freed in the third tick; nothing is left after that.
    for (release, of_processes, of_threads) in
        [("5.10", &[1, 2][..], &[1, 2][..]), ("6.1", &[1, 2], &[1, 2]), ("6.12", &[], &[1, 2]), ("7.2", &[], &[1, 2])]
    {
        for (kind, expected) in [(TaskKind::Process, of_processes), (TaskKind::Thread, of_threads)] {
            let all = workload(vec![Task { kind, ..computes("hog", vec![], vec![]) }]);
            assert_eq!(runs(all, release, &machine(1)), expected, "{release} {kind:?}");
        }
    }
}

#[test]
fn freeing_a_task_leaves_a_part_of_it_to_rcu_once_more() {
    // A child ends and is collected before the first tick. The third tick frees it and leaves more: the fourth one begins the next grace period, and
    // the fifth ends it. Of a thread only the stack is left so, from 5.18 on.
    let family = |kind| {
        let makes = vec![Step::Fork { task: "child".into(), count: 1 }, Step::Join];
        let child = Task { kind, ..task("child", 0, Attributes::default(), Vec::new()) };
        workload(vec![computes("parent", makes, vec![]), child])
    };
    for (release, kind, expected) in [
        ("5.10", TaskKind::Process, &[1, 2, 4, 5][..]),
        ("6.12", TaskKind::Process, &[1, 2, 4, 5]),
        ("5.10", TaskKind::Thread, &[1, 2]),
        ("6.12", TaskKind::Thread, &[1, 2, 4, 5]),
    ] {
        assert_eq!(runs(family(kind), release, &machine(1)), expected, "{release} {kind:?}");
    }
}

#[test]
fn a_thread_that_is_made_leaves_memory_where_mappings_are_in_a_tree() {
    // Made between the fourth tick and the fifth, that begins a grace period, and the sixth ends it.
    let makes = vec![Step::Run(microseconds(4 * TICK + TICK / 2)), Step::Fork { task: "child".into(), count: 1 }];
    let sleeps = vec![Step::Sleep(microseconds(20 * TICK))];
    for (release, kind, expected) in [
        ("5.10", TaskKind::Thread, &[1, 2][..]),
        ("6.1", TaskKind::Thread, &[1, 2, 5, 6]),
        ("6.1", TaskKind::Process, &[1, 2]),
        ("6.12", TaskKind::Thread, &[5, 6]),
        ("6.12", TaskKind::Process, &[]),
    ] {
        let child = Task { kind, ..task("child", 0, Attributes::default(), sleeps.clone()) };
        let mut all = workload(vec![computes("parent", makes.clone(), vec![]), child]);
        all.duration = Some(Time::from_micros(9 * TICK));
        assert_eq!(runs(all, release, &machine(1)), expected, "{release} {kind:?}");
    }
}

#[test]
fn while_connections_end_every_tick_ends_a_grace_period_and_begins_the_next() {
    // Nine ticks within 37 ms.
    let costs = Costs { grace_period: Time::from_micros(RUN), ..some_costs() };
    let machine = Machine::new(1, costs);
    let all = machine.with_background(word("http:servers=1,concurrency=2,duration=37ms")).unwrap();
    for release in ["5.10", "6.12", "7.2"] {
        let scheduler = Scheduler { hz: 250, ..scheduler(release) };
        let (outcome, _) = run_with(&all, &scheduler, &machine, &Options::default()).unwrap();
        let thread = outcome.tasks.iter().find(|task| task.name == "rcu_gp").unwrap();
        assert_eq!(thread.voluntary, 9, "{release}");
    }
}

#[test]
fn other_cpus_are_waited_for_one_tick_more() {
    // The thread runs on CPU 0, which says in the second tick that it was in no reader. CPU 1 notices the grace period in that tick, and says so in the
    // third; where it idles, the thread finds that then, as its timer expires two ticks after it was set.
    for (release, busy) in [("6.1", true), ("6.1", false), ("7.2", true), ("7.2", false)] {
        let of = |name, cpu| Task { kind: TaskKind::Thread, ..computes(name, vec![], vec![cpu]) };
        let mut tasks = vec![of("hog.0", 0)];
        if busy {
            tasks.push(of("hog.1", 1));
        }
        assert_eq!(runs(workload(tasks), release, &machine(2)), [1, 3], "{release} {busy}");
    }
}

#[test]
fn without_its_cost_there_is_no_thread() {
    let all = workload(vec![computes("hog", vec![], vec![])]);
    assert_eq!(Machine::ideal(1).with_background(all.clone()).unwrap(), all);
    // Nor beside a workload that was recorded with what else ran.
    let others = Workload { latches: Vec::new(), ..workload(vec![computes("other", vec![], vec![])]) };
    let recorded = all.beside(&others, 1).unwrap();
    assert_eq!(machine(1).with_background(recorded.clone()).unwrap(), recorded);
}
