//! rt-app's events in virtual time, on machines where nothing but the work takes time.

use schedlab_model::{Machine, NoEvents, Outcome, Scheduler, Time};
use schedlab_program::Program;
use schedlab_sim::{Options, SimError, simulate};
use schedlab_workloads::rtapp;

fn run(tasks: &str, global: &str, cpus: u32) -> Result<Outcome, SimError> {
    let text = format!(r#"{{"tasks": {{{tasks}}}, "global": {{{global}}}}}"#);
    let workload = rtapp::import(&text, "test").expect("it is rt-app's").workload;
    let program = Program::compile(&workload).expect("it compiles");
    let scheduler = Scheduler::new("6.1".parse().expect("a release"));
    simulate(&program, &scheduler, &Machine::ideal(cpus), &Options::default(), &mut NoEvents)
}

fn elapsed(tasks: &str, cpus: u32) -> Time {
    Time::from_nanos(run(tasks, "", cpus).expect("it ends").elapsed_ns)
}

const fn ms(milliseconds: u64) -> Time {
    Time::from_millis(milliseconds)
}

#[test]
fn a_mutex_is_held_by_one() {
    // The second comes 1 ms after the first took it for 10 ms, and then has it for 5.
    let tasks = r#""a": {"loop": 1, "lock": "m", "run": 10000, "unlock": "m"},
        "b": {"loop": 1, "sleep": 1000, "lock": "m", "run": 5000, "unlock": "m"}"#;
    assert_eq!(elapsed(tasks, 2), ms(15));
}

#[test]
fn a_missed_expiry_moves_a_relative_timer_and_not_an_absolute_one() {
    // tutorial.txt: periods of 20 ms; the third run takes 30 and misses the expiry at 60. The relative timer counts from 70 on, where it
    // ended: 10 ms more, then until 90. The absolute one is due at 80, which the fourth run just reaches, and at 100.
    let runs = |mode: &str, last: &str| {
        let timer = format!(r#""timer": {{"ref": "unique", "period": 20000, "mode": "{mode}"}}"#);
        let phase = |name: &str, micros: u32| format!(r#""{name}": {{"run": {micros}, {timer}}}"#);
        let (short, long, again) = (phase("a", 10_000), phase("c", 30_000), phase("d", 10_000));
        let second = phase("b", 10_000);
        format!(r#""t": {{"loop": 1, "phases": {{{short}, {second}, {long}, {again}{last}}}}}"#)
    };
    assert_eq!(elapsed(&runs("relative", ""), 1), ms(90));
    let fifth = r#", "e": {"run": 10000, "timer": {"ref": "unique", "period": 20000, "mode": "absolute"}}"#;
    assert_eq!(elapsed(&runs("absolute", fifth), 1), ms(100));
}

#[test]
fn posts_are_remembered_and_signals_are_not() {
    let posted = r#""a": {"loop": 1, "sem_post": "s", "run": 1000}, "b": {"loop": 1, "sleep": 5000, "sem_wait": "s", "run": 1000}"#;
    assert_eq!(elapsed(posted, 2), ms(6));
    let signalled =
        r#""a": {"loop": 1, "resume": "b", "run": 1000}, "b": {"loop": 1, "sleep": 5000, "suspend": "", "run": 1000}"#;
    let error = run(signalled, "", 2).expect_err("nobody resumes it").to_string();
    assert!(error.contains("task 'b' waits for a signal of condition 'b'"), "{error}");
}

#[test]
fn a_deadlock_names_the_holders_of_mutexes() {
    let task = |one: &str, two: &str| {
        format!(
            r#""{one}": {{"loop": 1, "lock": "{one}", "run": 1000, "lock1": "{two}", "unlock": "{two}", "unlock1": "{one}"}}"#
        )
    };
    let error = run(&format!("{}, {}", task("a", "b"), task("b", "a")), "", 2).expect_err("it hangs").to_string();
    assert!(error.contains("task 'a' waits for mutex 'b', which 'b' holds"), "{error}");
    assert!(error.contains("task 'b' waits for mutex 'a', which 'a' holds"), "{error}");
}

#[test]
fn a_barrier_lets_all_go_on_together() {
    // The slower one's 3 ms, then 1 ms each side by side.
    let tasks = r#""a": {"loop": 1, "run": 1000, "barrier": "x", "run1": 1000}, "b": {"loop": 1, "run": 3000, "barrier": "x", "run1": 1000}"#;
    assert_eq!(elapsed(tasks, 2), ms(4));
}

#[test]
fn a_task_woken_at_a_barrier_waits_for_its_mutex_too() {
    // The urgent task comes first and sleeps. The other one comes at 1 ms and wakes it; the urgent one preempts at once and finds the
    // barrier's mutex taken: it sleeps again, until that is given back, and preempts once more. Then each has 1 ms to do.
    let task = |name: &str, priority: u32, events: &str| {
        format!(r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "loop": 1, {events}}}"#)
    };
    let first = task("first", 9, r#""barrier": "x", "run": 1000"#);
    let last = task("last", 1, r#""run": 1000, "barrier": "x", "run1": 1000"#);
    let outcome = run(&format!("{first}, {last}"), "", 1).expect("it ends");
    assert_eq!((outcome.tasks[0].voluntary, outcome.tasks[1].involuntary), (2, 2));
    assert_eq!(outcome.elapsed_ns, ms(3).as_nanos());
}

#[test]
fn a_run_is_over_at_its_time() {
    let tasks = r#""hog": {"run": 3000}, "waits": {"loop": 1, "sem_wait": "never", "run": 1000}"#;
    let outcome = run(tasks, r#""duration": "10ms""#, 2).expect("it ends");
    assert_eq!(
        (outcome.elapsed_ns, outcome.tasks[0].run_ns, outcome.tasks[0].user_ns),
        (10_000_000, 10_000_000, 10_000_000)
    );
    assert_eq!((outcome.tasks[1].run_ns, outcome.tasks[1].sleep_ns), (0, 10_000_000));
}

#[test]
fn a_runtime_counts_the_time_off_the_cpu_too() {
    // Two of equal weight on one CPU for 20 ms on the clock: both are over by then or a little later, not at 40.
    let tasks = r#""a": {"loop": 1, "runtime": 20000}, "b": {"loop": 1, "runtime": 20000}"#;
    assert!(elapsed(tasks, 1) < ms(30));
}

#[test]
fn priority_inheritance_lends_the_holder_the_waiters_priority() {
    // The low one holds the mutex for 10 ms from 0 on; at 1 the middle one comes for 20 ms, at 2 the high one, which wants the mutex for
    // 1 ms. Lent the high one's priority, the low one is done at 11 and the high one at 12. Else the middle one has the CPU until 21, and
    // the high one is done at 21 + 9 + 1.
    let task = |name: &str, priority: u32, delay: u32, events: &str| {
        format!(
            r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "delay": {delay}, "loop": 1, {events}}}"#
        )
    };
    let low = task("low", 1, 0, r#""lock": "m", "run": 10000, "unlock": "m""#);
    let middle = task("middle", 5, 1000, r#""run": 20000"#);
    let high = task("high", 9, 2000, r#""lock": "m", "run": 1000, "unlock": "m""#);
    let tasks = format!("{low}, {middle}, {high}");
    let life = |inherit: bool| {
        let outcome = run(&tasks, &format!(r#""pi_enabled": {inherit}"#), 1).expect("it ends");
        Time::from_nanos(outcome.tasks[2].life_ns)
    };
    assert_eq!((life(true), life(false)), (ms(12), ms(31)));
}
