//! Tasks that one system call wakes: from the marks of a recording to one step, and what its simulation does.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use schedlab_infer::{Ending, Options, infer};
use schedlab_model::{Duration, Event, EventKind, EventSink, Machine, Scheduler, Step, TaskId, Time};
use schedlab_program::Program;
use schedlab_trace::Reader;

/// On one CPU `go` computes for 20 ms and wakes `a`, `b` and `c`, 10 µs apart. `a` marks it for rescheduling as soon as it is in its queue (`N` of
/// sched_wakeup), and `go` is still marked when it wakes the other two. Each of the three computes for 1 ms and ends; then `go` does so.
const ONE_CALL: &str = "\
 <idle>-0 0d..2. 1.000000000: sched_switch: swapper/0:0 [120] R ==> go:7 [120]
 go-7 0d..3. 1.020000000: sched_waking: comm=a pid=8 prio=120 target_cpu=000
 go-7 0dN.4. 1.020000000: sched_wakeup: comm=a pid=8 prio=120 target_cpu=000
 go-7 0dN.3. 1.020010000: sched_waking: comm=b pid=9 prio=120 target_cpu=000
 go-7 0dN.4. 1.020010000: sched_wakeup: comm=b pid=9 prio=120 target_cpu=000
 go-7 0dN.3. 1.020020000: sched_waking: comm=c pid=10 prio=120 target_cpu=000
 go-7 0dN.4. 1.020020000: sched_wakeup: comm=c pid=10 prio=120 target_cpu=000
 go-7 0d..2. 1.020030000: sched_switch: go:7 [120] R ==> a:8 [120]
 a-8 0d..2. 1.021030000: sched_switch: a:8 [120] X ==> b:9 [120]
 b-9 0d..2. 1.022030000: sched_switch: b:9 [120] X ==> c:10 [120]
 c-10 0d..2. 1.023030000: sched_switch: c:10 [120] X ==> go:7 [120]
 go-7 0d..2. 1.024000000: sched_switch: go:7 [120] X ==> swapper/0:0 [120]
";

fn steps_of_go(recording: &str) -> Vec<Step> {
    let options = Options { ending: Some(Ending::Work), ..Options::default() };
    let inferred = infer(Reader::new(recording.as_bytes()), &options).unwrap();
    assert_eq!(inferred.counts.woken_by_tasks, 3);
    inferred.workload.tasks[0].steps.clone()
}

fn run(micros: u64) -> Step {
    Step::Run(Duration::Fixed(Time::from_micros(micros)))
}

fn names() -> [String; 3] {
    ["a-8", "b-9", "c-10"].map(str::to_owned)
}

#[test]
fn a_waker_that_stays_marked_posts_together() {
    // The 20 µs between the wake-ups are the kernel's own, before the waker can be preempted; then 10 µs and 970 µs.
    assert_eq!(steps_of_go(ONE_CALL), [run(20_020), Step::PostAll(names().into()), run(980)]);
}

#[test]
fn wake_ups_of_calls_of_their_own_stay_apart() {
    let [a, b, c] = names().map(Step::Post);
    // The waker is marked at none of them: they may be of three calls.
    let apart = steps_of_go(&ONE_CALL.replace('N', "."));
    assert_eq!(apart, [run(20_000), a.clone(), run(10), b.clone(), run(10), c.clone(), run(980)]);
    // Without sched_wakeup nothing says that `a` marked it, but `b` found it marked, and so did `c`.
    let lines = ONE_CALL.lines().filter(|line| !line.contains("sched_wakeup"));
    let part: String = lines.flat_map(|line| [line, "\n"]).collect();
    let together = Step::PostAll(names()[1..].to_vec());
    assert_eq!(steps_of_go(&part), [run(20_000), a, run(20), together, run(980)]);
}

/// Wake-ups and switches in their order: the task, and the time in microseconds.
#[derive(Default)]
struct Seen(Vec<(u64, &'static str, u32)>);

impl EventSink for Seen {
    fn event(&mut self, event: Event) {
        let at = event.time.as_nanos() / 1_000;
        match event.kind {
            EventKind::Waking { task, .. } => self.0.push((at, "wakes", task.0)),
            EventKind::Switch { next, .. } if next != TaskId::IDLE => self.0.push((at, "runs", next.0)),
            _ => {}
        }
    }
}

/// `a`, `b` and `c` slept, so that each is placed before the waker and preempts it (`check_preempt_wakeup`); but no earlier than all are posted.
#[test]
fn no_woken_task_runs_before_all_are_woken() {
    let options = Options { ending: Some(Ending::Work), ..Options::default() };
    let mut workload = infer(Reader::new(ONE_CALL.as_bytes()), &options).unwrap().workload;
    let simulated = |workload: &schedlab_model::Workload| {
        let program = Program::compile(workload).unwrap();
        let mut seen = Seen::default();
        let rules = Scheduler::new("6.1".parse().unwrap());
        let options = schedlab_sim::Options::default();
        schedlab_sim::simulate(&program, &rules, &Machine::ideal(1), &options, &mut seen).unwrap();
        seen.0.into_iter().filter(|(at, ..)| *at > 0).collect::<Vec<_>>()
    };
    let together = simulated(&workload);
    assert_eq!(together[..3], [(20_020, "wakes", 1), (20_020, "wakes", 2), (20_020, "wakes", 3)]);
    assert_eq!(together[3], (20_020, "runs", 1));
    // Posted one after the other, the first one preempts the waker.
    workload.tasks[0].steps = [run(20_020)].into_iter().chain(names().map(Step::Post)).chain([run(980)]).collect();
    assert_eq!(simulated(&workload)[..2], [(20_020, "wakes", 1), (20_020, "runs", 1)]);
}
