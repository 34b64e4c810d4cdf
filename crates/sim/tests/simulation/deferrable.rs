//! Deferrable timers of background tasks.

use crate::common;

use common::*;
use schedlab_model::{Attributes, Machine, Scheduler, Step, Task};
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
