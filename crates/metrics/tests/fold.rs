//! The fold's numbers, each worked out by hand.

use schedlab_metrics::{Metrics, TaskMetrics};
use schedlab_model::{CpuId, Event, EventKind, EventSink, MetricSource, TaskId, TaskState, Time};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
const IDLE: TaskId = TaskId::IDLE;

fn at(time: u64, cpu: u32, kind: EventKind) -> Event {
    Event { time: Time::from_nanos(time), cpu: CpuId(cpu), kind }
}

fn switch(time: u64, cpu: u32, previous: TaskId, state: TaskState, next: TaskId) -> Event {
    at(time, cpu, EventKind::Switch { previous, state, next })
}

fn fold(events: &[Event]) -> Metrics {
    let mut metrics = Metrics::default();
    events.iter().for_each(|event| metrics.event(*event));
    metrics
}

const fn ns(nanoseconds: u64) -> Time {
    Time::from_nanos(nanoseconds)
}

/// Two tasks on two CPUs. A runs on CPU 0 at 0–15 and 30–50, sleeps, is woken at 60 on CPU 1 and runs there at 70–100. B is
/// forked at 10, woken at 12, and runs on CPU 0 at 15–30.
fn story() -> Vec<Event> {
    use TaskState::{Dead, Interruptible, Running};
    vec![
        at(0, 0, EventKind::Fork { parent: IDLE, child: A }),
        at(0, 0, EventKind::WakeupNew { task: A, target: CpuId(0) }),
        switch(0, 0, IDLE, Running, A),
        at(10, 0, EventKind::Fork { parent: A, child: B }),
        at(12, 0, EventKind::WakeupNew { task: B, target: CpuId(0) }),
        switch(15, 0, A, Running, B),
        switch(30, 0, B, Dead, A),
        switch(50, 0, A, Interruptible, IDLE),
        at(60, 1, EventKind::Migrate { task: A, from: CpuId(0), to: CpuId(1) }),
        at(60, 1, EventKind::Waking { task: A, waker: IDLE, target: CpuId(1) }),
        switch(70, 1, IDLE, Running, A),
        at(99, 1, EventKind::Exit { task: A }),
        switch(100, 1, A, Dead, IDLE),
    ]
}

#[test]
fn times_delays_and_counts_follow_the_story() {
    let metrics = fold(&story());
    // A runs 0–15, 30–50 and 70–100 = 15 + 20 + 30 = 65; waits 15–30 and 60–70 = 25; sleeps 50–60 = 10; lives 100.
    // Its delays: 0 at the start, 15 after the preemption, 10 after the wake-up.
    let expected = TaskMetrics {
        life: ns(100),
        run: ns(65),
        wait: ns(25),
        sleep: ns(10),
        voluntary: 1,
        involuntary: 1,
        migrations: 1,
        wakeups: 1,
        delay: ns(25),
        delays: 3,
        max_delay: ns(15),
    };
    assert_eq!(metrics.task(A, ns(100)), Some(expected));
    // B is forked at 10, comes at 15 and ends at 30.
    let expected = TaskMetrics {
        life: ns(20),
        run: ns(15),
        wait: ns(5),
        delay: ns(5),
        delays: 1,
        max_delay: ns(5),
        ..TaskMetrics::default()
    };
    assert_eq!(metrics.task(B, ns(100)), Some(expected));
    // CPU 0 is busy 0–50, CPU 1 70–100.
    assert_eq!(metrics.cpu_busy(ns(100)), [ns(50), ns(30)]);
    // A is preempted once and sleeps once; coming to an idle CPU and ending count nothing.
    assert_eq!(metrics.switches(), 2);
}

#[test]
fn the_living_are_accounted_until_the_end_asked_for() {
    let metrics = fold(&story()[..6]);
    // At 40 A has run 15 and waited 25; B has run 25.
    let a = metrics.task(A, ns(40)).unwrap();
    assert_eq!((a.life, a.run, a.wait), (ns(40), ns(15), ns(25)));
    // A delay that has not ended is no delay yet.
    assert_eq!((a.delays, a.delay), (1, ns(0)));
    assert_eq!(metrics.task(B, ns(40)).unwrap().run, ns(25));
    assert_eq!(metrics.cpu_busy(ns(40)), [ns(40)]);
}

#[test]
fn a_second_waking_of_a_waiting_task_is_none() {
    let mut events = story();
    events.insert(10, at(60, 1, EventKind::Waking { task: A, waker: IDLE, target: CpuId(1) }));
    assert_eq!(fold(&events).task(A, ns(100)), fold(&story()).task(A, ns(100)));
}

#[test]
fn tasks_that_no_event_names_are_not_there() {
    let metrics = fold(&[at(5, 0, EventKind::Fork { parent: IDLE, child: TaskId(4) })]);
    assert_eq!(metrics.task(TaskId(2), ns(9)), None);
    assert_eq!(metrics.task(TaskId(9), ns(9)), None);
    let outcomes = metrics.task_outcomes(ns(9), |task| format!("t{}", task.0));
    assert_eq!(outcomes.len(), 1);
    // Forked at 5 and waiting until 9.
    assert_eq!((&*outcomes[0].name, outcomes[0].wait_ns, outcomes[0].source), ("t4", 4, MetricSource::Events));
}
