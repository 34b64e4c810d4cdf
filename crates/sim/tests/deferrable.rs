//! Deferrable timers of background tasks, and children of real-time parents that reset on fork.

mod common;

use common::*;
use schedlab_model::{Attributes, Duration, Machine, Scheduler, Step, Task, Time};
use schedlab_sim::Options;

/// A background task that sleeps for so many milliseconds, then computes for one.
fn sleeps(name: &str, time: u64, deferrable: bool) -> Task {
    let steps = vec![Step::Sleep(milliseconds(time)), Step::Run(milliseconds(1)), Step::Sleep(milliseconds(10_000))];
    Task { asleep: true, background: true, deferrable, ..task(name, 1, Attributes::default(), steps) }
}

/// How often a task is preempted that idles until 101 ms and computes for 20 ms, with a tick every 4 ms.
fn preemptions(others: Vec<Task>) -> u64 {
    let steps = vec![Step::Sleep(milliseconds(101)), Step::Run(milliseconds(20))];
    let all = workload([vec![task("worker", 1, Attributes::default(), steps)], others].concat());
    let scheduler = Scheduler { hz: 250, ..scheduler("5.10") };
    let (outcome, _) = run_with(&all, &scheduler, &Machine::ideal(1), &Options::default()).expect("a run that ends");
    outcome.tasks[0].involuntary
}

#[test]
fn a_deferrable_timer_waits_for_a_busy_cpu_s_tick() {
    // Both are due at 50 ms, when the CPU idles: one runs then, the other preempts the worker at 104 ms.
    assert_eq!(preemptions(vec![sleeps("plain", 50, false)]), 0);
    assert_eq!(preemptions(vec![sleeps("deferrable", 50, true)]), 1);
}

#[test]
fn another_timer_on_an_idle_cpu_ends_a_deferrable_one_s_wait() {
    // The other one's interrupt at 78 ms ends the CPU's idling, so that the tick at 80 ms finds a timer that is due.
    assert_eq!(preemptions(vec![sleeps("deferrable", 50, true), sleeps("plain", 78, false)]), 0);
}

#[test]
fn an_ordinary_child_of_a_real_time_parent_is_placed_in_debt() {
    // On CFS the first child, alone on the queue, is placed a latency (6 ms) after it, the second half of that, as two are there then:
    // the one made last comes first. A child that is not placed would stand at the queue's time, and the first one come first.
    let ordinary = |name: &str| {
        let steps = vec![Step::Run(Duration::Fixed(Time::from_millis(1)))];
        task(name, 0, Attributes::default(), steps)
    };
    let fork = |name: &str| Step::Fork { task: name.into(), count: 1 };
    let parent = task("parent", 1, fifo(50), vec![fork("first"), fork("second"), Step::Join]);
    let all = workload(vec![parent, ordinary("first"), ordinary("second")]);
    let (_, events) = run(&all, "5.10", &Machine::ideal(1));
    let order: Vec<u32> =
        switches(&events).into_iter().map(|(_, _, next)| next).filter(|next| [1, 2].contains(next)).collect();
    assert_eq!(order[0], 2, "{order:?}");
}

#[test]
fn an_ordinary_child_of_a_real_time_parent_runs_where_it_may() {
    // Of two CPUs the parent has the first, and its child may run there alone.
    let attributes = Attributes { affinity: vec![0], ..Attributes::default() };
    let child = task("child", 0, attributes, vec![Step::Run(milliseconds(1))]);
    let fork = Step::Fork { task: "child".into(), count: 1 };
    let parent = task("parent", 1, fifo(50), vec![fork, Step::Run(milliseconds(5)), Step::Join]);
    let (_, events) = run(&workload(vec![parent, child]), "6.1", &Machine::ideal(2));
    let mut places: Vec<u32> =
        switches(&events).into_iter().filter(|(_, _, next)| *next == 1).map(|(_, cpu, _)| cpu).collect();
    places.dedup();
    assert_eq!(places, [0]);
}
