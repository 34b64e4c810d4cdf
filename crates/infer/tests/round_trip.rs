//! A simulated run, written down as a kernel would, is inferred and simulated again: both runs are the same.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use proptest::prelude::*;
use schedlab_infer::{Ending, Inferred, Options, infer};
use schedlab_metrics::{Behaved, Behaviour};
use schedlab_model::{Attributes, Costs, Duration, Event, EventKind, Machine, Scheduler, Step, Task, Time, Workload};
use schedlab_program::Program;
use schedlab_sim::simulate;
use schedlab_trace::{Reader, TaskLabel, write_ftrace};

const RELEASES: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];

/// Simulates, and returns the events as text and what they amount to, tasks by number.
fn run(workload: &Workload, release: &str, machine: &Machine) -> (String, Behaved) {
    let program = Program::compile(workload).unwrap();
    let scheduler = Scheduler::new(release.parse().unwrap());
    let mut sinks = (Vec::<Event>::new(), Behaviour::default());
    let options = schedlab_sim::Options::default();
    let outcome = simulate(&program, &scheduler, machine, &options, &mut sinks).unwrap();
    let labels: Vec<TaskLabel> = outcome
        .tasks
        .iter()
        .map(|task| {
            let name = task.name.split('[').next().unwrap();
            let template = workload.tasks.iter().find(|template| template.name == name).unwrap();
            TaskLabel::new("t").with_attributes(&template.attributes.clone().unwrap_or_default())
        })
        .collect();
    let mut text = Vec::new();
    write_ftrace(&mut text, &sinks.0, &labels, &scheduler.label(), machine.cpus).unwrap();
    let end = Time::from_nanos(outcome.elapsed_ns);
    (String::from_utf8(text).unwrap(), sinks.1.summary(end, |task| task.0.to_string()))
}

fn inferred(text: &str, costs: &Costs) -> Inferred {
    let options =
        Options { name: "again".into(), costs: costs.clone(), ending: Some(Ending::Work), ..Options::default() };
    infer(Reader::new(text.as_bytes()), &options).unwrap()
}

/// The same tasks in the same order under other names.
fn renamed(mut behaved: Behaved) -> Behaved {
    for (number, task) in behaved.tasks.iter_mut().enumerate() {
        task.name = number.to_string();
    }
    behaved
}

fn fixed(micros: u64) -> Duration {
    Duration::Fixed(Time::from_micros(micros))
}

fn task(name: &str, nice: i8, steps: Vec<Step>) -> Task {
    let attributes = Some(Attributes { nice, ..Attributes::default() });
    Task { name: name.into(), instances: 1, attributes, steps, ..Task::default() }
}

/// Tasks that compute, sleep, wake one another and fork others; the last, which never waits itself, wakes all that wait.
fn workloads() -> impl Strategy<Value = Workload> {
    let step = prop_oneof![
        (1u64..9_000).prop_map(|time| Step::Run(fixed(time))),
        (1u64..9_000).prop_map(|time| Step::Sleep(fixed(time))),
        Just(Step::Yield),
        (0usize..4).prop_map(|to| Step::Post(format!("s{to}"))),
    ];
    let steps = prop::collection::vec(step, 1..12);
    (prop::collection::vec((steps, -5i8..6, 0usize..4), 1..5), 0usize..3).prop_map(|(parts, children)| {
        let mut workload = Workload { name: "random".into(), ..Workload::default() };
        let mut waits = [0; 4];
        for (number, (mut steps, nice, wait)) in parts.into_iter().enumerate() {
            for round in 0..wait {
                steps.insert((round * 2).min(steps.len()), Step::Acquire(format!("s{number}")));
            }
            waits[number] = wait;
            workload.tasks.push(task(&format!("t{number}"), nice, steps));
        }
        let mut last = Vec::new();
        for round in 0..4 {
            for (number, wait) in waits.iter().enumerate().filter(|(_, wait)| **wait > round) {
                let _ = wait;
                last.extend([Step::Run(fixed(300)), Step::Post(format!("s{number}"))]);
            }
        }
        if children > 0 {
            last.push(Step::Fork { task: "child".into(), count: children as u32 });
            let child = vec![Step::Run(fixed(2_000)), Step::Sleep(fixed(500)), Step::Run(fixed(1_000))];
            workload.tasks.push(Task { instances: 0, attributes: None, ..task("child", 0, child) });
        }
        last.push(Step::Run(fixed(100)));
        workload.tasks.push(task("last", 0, last));
        workload
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Where nothing but the work takes time, the inferred workload is scheduled as the one that was recorded: every task gets its CPU time,
    /// switches, wake-ups and latencies to the nanosecond.
    #[test]
    fn a_run_is_repeated_exactly(workload in workloads(), release in prop::sample::select(&RELEASES)) {
        let machine = Machine::ideal(1);
        let (text, before) = run(&workload, release, &machine);
        let inferred = inferred(&text, &machine.costs);
        prop_assert_eq!(renamed(inferred.behaved.clone()), before.clone());
        let (_, after) = run(&inferred.workload, release, &machine);
        // Who yields leaves nothing behind that a workload could repeat.
        let yields = workload.tasks.iter().any(|task| task.steps.contains(&Step::Yield));
        if !yields {
            prop_assert_eq!(after, before);
        }
    }

    /// Costs that the simulator charges by itself are taken off, so that each task's CPU time comes out as it was.
    #[test]
    fn costs_are_not_counted_twice(workload in workloads(), release in prop::sample::select(&RELEASES)) {
        let time = Time::from_micros;
        let costs = Costs {
            switch: time(3),
            schedule: time(1),
            wakeup: time(2),
            interrupt: time(1),
            tick: time(4),
            system_call: time(1),
            block: time(2),
            operation: time(1),
            fork_process: time(50),
            start_process: time(30),
            exit_process: time(20),
            ..Costs::ideal()
        };
        let machine = Machine::new(1, costs);
        let (text, before) = run(&workload, release, &machine);
        let inferred = inferred(&text, &machine.costs);
        let (_, after) = run(&inferred.workload, release, &machine);
        // Each operation's costs are known to the nanosecond; what is not is in which of two neighbouring stretches a tick or an interrupt
        // fell, and costs of operations that leave no trace (waiting for a semaphore that was posted before).
        let slack = 10_000 * (before.voluntary + before.involuntary + 10);
        for (one, other) in before.tasks.iter().zip(&after.tasks) {
            let off = one.run_ns.abs_diff(other.run_ns);
            prop_assert!(off <= slack.min(one.run_ns / 20 + 60_000), "{} ns of {} ns", off, one.run_ns);
        }
    }
}

#[test]
fn several_cpus_keep_their_tasks_work() {
    // Three tasks of 30 ms on two CPUs, one of which the others wake: wherever they run, each does its work.
    let worker =
        |name: &str| task(name, 0, vec![Step::Run(fixed(10_000)), Step::Post("s".into()), Step::Run(fixed(20_000))]);
    let waiter = vec![Step::Acquire("s".into()), Step::Acquire("s".into()), Step::Run(fixed(30_000))];
    let workload = Workload {
        name: "two".into(),
        tasks: vec![worker("a"), worker("b"), task("c", 0, waiter)],
        ..Workload::default()
    };
    let machine = Machine::ideal(2);
    let (text, before) = run(&workload, "6.1", &machine);
    let (_, after) = run(&inferred(&text, &machine.costs).workload, "6.1", &machine);
    let works = |behaved: &Behaved| behaved.tasks.iter().map(|task| task.run_ns).collect::<Vec<_>>();
    assert_eq!(works(&before), [30_000_000; 3]);
    assert_eq!(works(&after), works(&before));
}

#[test]
fn wakeups_by_interrupts_and_by_tasks_are_counted_apart() {
    let events = [
        EventKind::Switch {
            previous: schedlab_model::TaskId::IDLE,
            state: schedlab_model::TaskState::Running,
            next: schedlab_model::TaskId(0),
        },
        EventKind::Waking {
            task: schedlab_model::TaskId(1),
            waker: schedlab_model::TaskId(0),
            target: schedlab_model::CpuId(0),
        },
        EventKind::Waking {
            task: schedlab_model::TaskId(2),
            waker: schedlab_model::TaskId::IDLE,
            target: schedlab_model::CpuId(0),
        },
    ];
    let events: Vec<Event> = (1..)
        .zip(events)
        .map(|(time, kind)| Event { time: Time::from_millis(time), cpu: schedlab_model::CpuId(0), kind })
        .collect();
    let mut text = Vec::new();
    write_ftrace(&mut text, &events, &[TaskLabel::new("a"), TaskLabel::new("b"), TaskLabel::new("c")], "6.1", 1)
        .unwrap();
    let counts = inferred(&String::from_utf8(text).unwrap(), &Costs::ideal()).counts;
    assert_eq!((counts.woken_by_tasks, counts.woken_by_interrupts, counts.woken_by_unknown), (1, 1, 0));
}

#[test]
fn system_calls_tell_locks_from_pipes() {
    let text = "\
 a-7 [000] ..... 1.000000000: sys_enter_futex: uaddr: 0x7f, op: 0x80
 a-7 [000] d..2. 1.000100000: sched_switch: a:7 [120] S ==> b:8 [120]
 b-8 [000] d..2. 1.001000000: sched_waking: comm=a pid=7 prio=120 target_cpu=000
 b-8 [000] ..... 1.001100000: sys_enter_read: fd: 0x3
 b-8 [000] d..2. 1.001200000: sched_switch: b:8 [120] S ==> a:7 [120]
 a-7 [000] ..... 1.001300000: sys_exit_futex: 0x0
 a-7 [000] d..2. 1.002000000: sched_waking: comm=b pid=8 prio=120 target_cpu=000
 a-7 [000] d..2. 1.002100000: sched_switch: a:7 [120] S ==> b:8 [120]
 b-8 [000] d..2. 1.003000000: sched_waking: comm=a pid=7 prio=120 target_cpu=000
 b-8 [000] d..2. 1.003100000: sched_switch: b:8 [120] S ==> a:7 [120]
";
    let counts = inferred(text, &Costs::ideal()).counts;
    // a sleeps in futex, b in read, and a then in nothing that was recorded.
    assert_eq!((counts.woken_by_tasks, counts.at_locks, counts.at_channels, counts.at_children), (3, 1, 1, 0));
}
