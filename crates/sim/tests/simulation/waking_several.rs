//! Tasks that one operation wakes: each wake-up takes its time before the next one.

use crate::common;

use common::{fifo, micros, microseconds, run_with, scheduler, switches, task, workload};
use schedlab_model::{Attributes, Costs, Event, EventKind, Machine, Preempt, Step, Workload};
use schedlab_sim::Options;

/// A wake-up takes 4 microseconds, 3 more on another CPU; nothing else takes time.
fn costs() -> Costs {
    Costs { wakeup: micros(4), wakeup_remote: micros(3), ..Costs::ideal() }
}

/// Three tasks that wait by `waits` from the start, more urgent than the last one, which does `wakes` after 10 microseconds and computes 5;
/// each waiter computes 20 when it is woken.
fn three(waits: [Step; 3], wakes: Step) -> Workload {
    let waiter = |(number, step): (usize, Step)| {
        task(&format!("w{number}"), 1, fifo(2), vec![step, Step::Run(microseconds(20))])
    };
    let waker = vec![Step::Run(microseconds(10)), wakes, Step::Run(microseconds(5))];
    let waiters = waits.into_iter().enumerate().map(waiter);
    workload(waiters.chain([task("waker", 1, fifo(1), waker)]).collect())
}

/// Each wake-up: when, in microseconds, and of which task.
fn woken(events: &[Event]) -> Vec<(u64, u32)> {
    let waking = |event: &Event| match event.kind {
        EventKind::Waking { task, .. } => Some((event.time.as_nanos() / 1000, task.0)),
        _ => None,
    };
    events.iter().filter_map(waking).collect()
}

fn events(workload: &Workload, machine: &Machine) -> Vec<Event> {
    run_with(workload, &scheduler("6.12"), machine, &Options::default()).expect("a run that ends").1
}

#[test]
fn a_latch_wakes_one_after_the_other_and_none_runs_before_the_last() {
    // The write holds the wait queue's lock: who came last is woken first, at 10, and the others 4 later each; at 22 the last wake-up is
    // over, and the first of the woken tasks runs, for 20, and so on. What the waker has left takes until 22 + 60 + 5.
    let wait = || Step::AwaitLatch("go".into());
    let found = events(&three([wait(), wait(), wait()], Step::OpenLatch("go".into())), &Machine::new(1, costs()));
    assert_eq!(woken(&found), [(10, 2), (14, 1), (18, 0)]);
    let switches = switches(&found);
    assert_eq!(switches[switches.len() - 5..], [(22, 0, 2), (42, 0, 1), (62, 0, 0), (82, 0, 3), (87, 0, u32::MAX)]);
}

#[test]
fn posts_of_one_call_wake_one_after_the_other_and_none_runs_before_the_last() {
    let waits = ["a", "b", "c"].map(|name| Step::Acquire(name.into()));
    let posts = Step::PostAll(["a", "b", "c"].map(Into::into).into());
    let found = events(&three(waits, posts), &Machine::new(1, costs()));
    assert_eq!(woken(&found), [(10, 0), (14, 1), (18, 2)]);
    let switches = switches(&found);
    assert_eq!(switches[switches.len() - 5..], [(22, 0, 0), (42, 0, 1), (62, 0, 2), (82, 0, 3), (87, 0, u32::MAX)]);
}

/// Three tasks that wait for a condition, and one that broadcasts it.
fn broadcast() -> Workload {
    let mut all =
        three([0; 3].map(|_| Step::Wait { condition: "s".into(), mutex: "m".into() }), Step::Broadcast("s".into()));
    for waiter in &mut all.tasks[..3] {
        waiter.steps.insert(0, Step::Lock("m".into()));
        waiter.steps.insert(2, Step::Unlock("m".into()));
    }
    all
}

#[test]
fn a_broadcast_is_preempted_between_two_wake_ups_where_calls_are() {
    // A kernel that preempts within calls runs the first as soon as it is woken, 10 + 4, for 20; the second is woken then, at 34.
    let found = events(&broadcast(), &Machine::new(1, costs()));
    assert_eq!(woken(&found), [(10, 0), (34, 1), (58, 2)]);
    // With `preempt=none` all are woken first, and run from 22 on. That calls are told from other work takes calls that cost something:
    // one nanosecond.
    let call = schedlab_model::Time::from_nanos(1);
    let none = Machine { preempt: Preempt::None, ..Machine::new(1, Costs { system_call: call, ..costs() }) };
    assert_eq!(woken(&events(&broadcast(), &none)), [(10, 0), (14, 1), (18, 2)]);
}

#[test]
fn a_broadcast_wakes_none_that_waits_again_meanwhile() {
    // As above, but the first waits again at 34, while the second is woken: only the second broadcast, 5 after the third has run from 62 to 82,
    // wakes it again.
    let mut all = broadcast();
    let again = all.tasks[0].steps.clone();
    all.tasks[0].steps.extend(again);
    all.tasks[3].steps.push(Step::Broadcast("s".into()));
    let found = events(&all, &Machine::new(1, costs()));
    assert_eq!(woken(&found), [(10, 0), (34, 1), (58, 2), (87, 0)]);
}

#[test]
fn what_is_woken_first_runs_on_another_cpu_while_the_next_one_is_woken() {
    // Task 2 may run on CPU 1 alone, the others on CPU 0 alone: it is woken at 10, and 4 + 3 later the next one; by then it has run since 10 + 7,
    // when the interrupt was sent.
    let wait = || Step::AwaitLatch("go".into());
    let mut two = three([wait(), wait(), wait()], Step::OpenLatch("go".into()));
    for (task, cpu) in two.tasks.iter_mut().zip([0, 0, 1, 0]) {
        let pinned = task.attributes.take().unwrap_or_default();
        task.attributes = Some(Attributes { affinity: vec![cpu], ..pinned });
    }
    let found = events(&two, &Machine::new(2, costs()));
    assert_eq!(woken(&found), [(10, 2), (17, 1), (21, 0)]);
    assert!(switches(&found).contains(&(17, 1, 2)), "{:?}", switches(&found));
}
