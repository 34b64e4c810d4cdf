//! Tasks that exist before the run and are asleep when it starts.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use schedlab_model::{Costs, Event, EventKind, Machine, Outcome, Scheduler, TaskId, Time, Workload};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate};

fn run(tasks: &str, release: &str, costs: Costs) -> (Outcome, Vec<Event>) {
    run_with(tasks, release, costs, &Options::default())
}

fn run_with(tasks: &str, release: &str, costs: Costs, options: &Options) -> (Outcome, Vec<Event>) {
    let workload: Workload = serde_json::from_str(&format!(r#"{{"name": "test", "tasks": [{tasks}]}}"#)).unwrap();
    let program = Program::compile(&workload).unwrap();
    let scheduler = Scheduler::new(release.parse().unwrap());
    let mut events = Vec::new();
    let outcome = simulate(&program, &scheduler, &Machine::new(1, costs), options, &mut events).unwrap();
    (outcome, events)
}

/// A task that computes 5 ms and wakes `w` half-way, and one that waits for that.
const TWO: &str = r#"
    {"name": "w", "instances": 1, "asleep": true, "steps": [{"acquire": "s"}, {"run": {"fixed": "1ms"}}]},
    {"name": "a", "instances": 1, "steps": [{"run": {"fixed": "2ms"}}, {"post": "s"}, {"run": {"fixed": "3ms"}}]}"#;

#[test]
fn a_task_asleep_at_the_start_does_not_run_to_get_there() {
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let (outcome, events) = run(TWO, release, Costs::ideal());
        let first = |task| {
            let comes = |event: &&Event| matches!(event.kind, EventKind::Switch { next, .. } if next == TaskId(task));
            events.iter().find(comes).unwrap().time
        };
        // Only the second task runs until it wakes the first, at 2 ms; in all that is 6 ms of work.
        assert_eq!(first(1), Time::ZERO, "{release}");
        assert!(first(0) >= Time::from_millis(2), "{release}");
        assert_eq!((outcome.elapsed_ns, outcome.tasks[0].sleep_ns), (6_000_000, 2_000_000), "{release}");
        // It went to sleep before the run, which is no switch of it, and ended in it.
        assert_eq!(outcome.tasks[0].voluntary, 0, "{release}");
    }
}

#[test]
fn getting_there_costs_nothing() {
    // A system call and going to sleep are charged to a task that begins to wait within the run: 10 µs.
    let costs = Costs { system_call: Time::from_micros(4), block: Time::from_micros(6), ..Costs::ideal() };
    let waits = r#"{"name": "w", "instances": 1, "asleep": true, "steps": [{"sleep": {"fixed": "3ms"}}, {"run": {"fixed": "1ms"}}]}"#;
    let (outcome, _) = run(waits, "6.1", costs);
    // Asleep from the beginning on: 3 ms, and then 1 ms of work.
    assert_eq!((outcome.elapsed_ns, outcome.tasks[0].run_ns), (4_000_000, 1_000_000));
}

/// When timers wake a task that computes 1 ms after each of two expiries, 4 ms apart.
fn expiries(options: &Options) -> Vec<Time> {
    let timer = r#"{"timer": {"timer": "unique", "period": "4ms", "own": true, "absolute": true}}"#;
    let steps = format!(r#"[{timer}, {{"run": {{"fixed": "1ms"}}}}, {timer}, {{"run": {{"fixed": "1ms"}}}}]"#);
    let task = format!(r#"{{"name": "t", "instances": 1, "asleep": true, "steps": {steps}}}"#);
    let (outcome, events) = run_with(&task, "6.12", Costs::ideal(), options);
    let wakes: Vec<Time> =
        events.iter().filter(|event| matches!(event.kind, EventKind::Waking { .. })).map(|event| event.time).collect();
    assert_eq!(outcome.elapsed_ns, wakes[1].as_nanos() + 1_000_000);
    wakes
}

#[test]
fn a_timer_counts_from_the_start() {
    assert_eq!(expiries(&Options::default()), [4, 8].map(Time::from_millis));
}

/// As rt-app's count from when it lets its threads go, which takes some time to make them.
#[test]
fn a_timer_counts_from_the_origin_of_the_workload() {
    let options = Options { origin: Time::from_micros(2_500), ..Options::default() };
    assert_eq!(expiries(&options), [6_500, 10_500].map(Time::from_micros));
}

#[test]
fn a_task_asleep_at_the_start_is_placed_as_a_sleeper() {
    // CFS places a woken task half a latency (3 ms) before the others, so that it preempts a task that ran for 20 ms; a new task would have
    // been placed a slice behind. 6.1 on one CPU: 20 ms is far beyond both.
    let tasks = r#"
        {"name": "hog", "instances": 1, "steps": [{"run": {"fixed": "50ms"}}]},
        {"name": "w", "instances": 1, "asleep": true, "steps": [{"sleep": {"fixed": "20ms"}}, {"run": {"fixed": "1ms"}}]}"#;
    let (outcome, _) = run(tasks, "6.1", Costs::ideal());
    assert_eq!((outcome.tasks[1].wait_ns, outcome.tasks[1].life_ns), (0, 21_000_000));
}

#[test]
fn a_task_that_does_not_begin_with_a_wait_cannot_be_asleep() {
    for (steps, delay) in [(r#"{"run": {"fixed": "1ms"}}"#, "0ns"), (r#"{"sleep": {"fixed": "1ms"}}"#, "1ms")] {
        let text = format!(
            r#"{{"name": "w", "tasks": [{{"name": "t", "instances": 1, "asleep": true, "delay": "{delay}", "steps": [{steps}]}}]}}"#
        );
        let workload: Workload = serde_json::from_str(&text).unwrap();
        let error = Program::compile(&workload).unwrap_err().to_string();
        assert!(error.contains("asleep at the start"), "{error}");
    }
}
