//! Kernels that omit events of some tasks: the switch to such a task is recorded, the switch away from it is not.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use schedlab_infer::{Counts, Inferred, Options, infer};
use schedlab_model::{Duration, Step, Time};
use schedlab_trace::Reader;

fn inferred(events: &str) -> Inferred {
    infer(Reader::new(events.as_bytes()), &Options::default()).unwrap()
}

/// CPU time of a task, in microseconds, as the recording shows it.
fn ran(inferred: &Inferred, name: &str) -> u64 {
    inferred.behaved.tasks.iter().find(|task| task.name.starts_with(name)).unwrap().run_ns / 1_000
}

/// The steps of a task's first round.
fn steps<'a>(inferred: &'a Inferred, name: &str) -> &'a [Step] {
    let task = inferred.workload.tasks.iter().find(|task| task.name.starts_with(name)).unwrap();
    match &task.steps[..] {
        [Step::Forever(round)] => round,
        steps => steps,
    }
}

fn run(micros: u64) -> Step {
    Step::Run(Duration::Fixed(Time::from_micros(micros)))
}

fn sleep(micros: u64) -> Step {
    Step::Sleep(Duration::Fixed(Time::from_micros(micros)))
}

#[test]
fn an_arrival_ends_the_time_of_a_task_of_which_nothing_is_traced() {
    // The agent is woken at 2.0 ms and runs until the arrival at 2.5 ms; then again from 3.0 ms until a wake-up shows at 3.2 ms that
    // the work is back.
    let inferred = inferred(
        "\
 <idle>-0 [000] d..2. 1.000000000: sched_switch: swapper/0:0 [120] R ==> work:7 [120]
 work-7 [000] d.h2. 1.002000000: sched_waking: comm=agent pid=9 prio=120 target_cpu=000
 work-7 [000] d..2. 1.002000000: sched_switch: work:7 [120] R ==> agent:9 [120]
 work-7 [000] d..2. 1.002500000: schedlab_arrival: pid=7
 work-7 [000] d.h2. 1.003000000: sched_waking: comm=agent pid=9 prio=120 target_cpu=000
 work-7 [000] d..2. 1.003000000: sched_switch: work:7 [120] R ==> agent:9 [120]
 work-7 [000] d..2. 1.003200000: sched_waking: comm=other pid=8 prio=120 target_cpu=000
 work-7 [000] d..2. 1.004000000: sched_switch: work:7 [120] S ==> other:8 [120]
 other-8 [000] d..2. 1.005000000: sched_switch: other:8 [120] S ==> swapper/0:0 [120]
",
    );
    assert_eq!([ran(&inferred, "agent"), ran(&inferred, "work"), ran(&inferred, "other")], [700, 3_300, 1_000]);
    let Counts { switches_missing, woken_by_interrupts, .. } = inferred.counts;
    assert_eq!((switches_missing, woken_by_interrupts), (2, 2));
    // It slept until 2 ms, from 2.5 to 3 ms, and from 3.2 to the end at 5 ms.
    let agent = [sleep(2_000), run(500), sleep(500), run(200), sleep(1_800)];
    assert_eq!(steps(&inferred, "agent"), agent);
    // 2 + 0.5 + 0 ms before the wake-up, 0.8 ms behind it.
    assert_eq!(steps(&inferred, "work")[0], run(2_500));
}

#[test]
fn a_task_that_comes_to_another_cpu_has_left_the_one_before() {
    // The agent leaves CPU 0 unseen and comes to CPU 1 at 3 ms. CPU 0's next event is its own task's at 4 ms.
    let inferred = inferred(
        "\
 work-7 [000] d..2. 1.000000000: sched_switch: work:7 [120] R ==> agent:9 [120]
 <idle>-0 [001] d..2. 1.001000000: sched_switch: swapper/1:0 [120] R ==> other:8 [120]
 other-8 [001] d..2. 1.003000000: sched_switch: other:8 [120] R ==> agent:9 [120]
 work-7 [000] d..2. 1.004000000: sched_switch: work:7 [120] S ==> swapper/0:0 [120]
 other-8 [001] d..2. 1.006000000: sched_switch: other:8 [120] S ==> swapper/1:0 [120]
",
    );
    // On CPU 0 until 3 ms, then on CPU 1 until 6 ms: never on both.
    assert_eq!((ran(&inferred, "agent"), ran(&inferred, "other")), (6_000, 2_000));
    assert_eq!(inferred.counts.switches_missing, 3);
    // It was not seen to sleep in between.
    assert_eq!(steps(&inferred, "agent")[0], run(6_000));
}

#[test]
fn events_between_a_switch_and_the_cpu_s_leaving_are_no_missing_switch() {
    // context_switch() changes the address space after sched_switch: tlb_flush has the previous task's pid.
    let inferred = inferred(
        "\
 a-7 [000] d..2. 1.000000000: sched_switch: a:7 [120] R ==> b:8 [120]
 a-7 [000] d..2. 1.000001000: tlb_flush: pages:0 reason:flush on task switch (0)
 b-8 [000] d..2. 1.003000000: sched_switch: b:8 [120] S ==> a:7 [120]
 a-7 [000] d..2. 1.004000000: sched_switch: a:7 [120] S ==> swapper/0:0 [120]
",
    );
    assert_eq!((ran(&inferred, "a"), ran(&inferred, "b"), inferred.counts.switches_missing), (1_000, 3_000, 0));
}
