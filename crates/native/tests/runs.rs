//! Real runs do what the program says, and account for it.

#[expect(dead_code, reason = "every test file uses a part of it")]
mod common;

use std::collections::BTreeMap;

use common::{near, outcome, outcome_of, undisturbed};
use schedlab_model::{
    Attributes, Channel, ChannelKind, Duration, MetricSource, Outcome, Policy, Step, Task, TaskKind, TaskOutcome, Time,
    Workload,
};
use schedlab_program::{Cursor, Op, Program, TemplateId};

fn task(name: &str, instances: u32, kind: TaskKind, steps: Vec<Step>) -> Task {
    Task { name: name.into(), instances, kind, attributes: None, steps, ..Task::default() }
}

fn workload(tasks: Vec<Task>) -> Workload {
    let channels = BTreeMap::from([("c".to_owned(), Channel { kind: ChannelKind::Pipe })]);
    Workload { name: "test".into(), channels, latches: vec!["go".into()], tasks, ..Workload::default() }
}

#[track_caller]
fn sound(outcome: Outcome) -> Outcome {
    assert!(outcome.turnaround_ns > 0 && outcome.turnaround_ns <= outcome.elapsed_ns);
    assert_eq!(outcome.target, "host");
    assert_eq!(outcome.switches, outcome.tasks.iter().map(|task| task.voluntary + task.involuntary).sum::<u64>());
    for task in &outcome.tasks {
        assert_eq!(task.source, MetricSource::Counters);
        assert_eq!(task.run_ns, task.user_ns + task.system_ns, "{}", task.name);
        // The CPU's clock is read a little after the end.
        assert!(task.run_ns <= task.life_ns + 1_000_000, "{task:?}");
    }
    outcome
}

#[test]
fn hackbench_passes_every_message() {
    for mode in ["", ",pipe", ",threads", ",pipe,threads"] {
        let outcome = sound(outcome(&format!("hackbench:groups=1,fds=2,loops=50,datasize=100{mode}"), &[]));
        // 2 senders × 2 receivers × 50 messages of 100 bytes, and 1 byte from each of 4 workers; those and main.
        assert_eq!(outcome.messages, 2 * 2 * 50 + 4, "{mode}");
        assert_eq!(outcome.bytes, 2 * 2 * 50 * 100 + 4, "{mode}");
        let names: Vec<&str> = outcome.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["main", "receiver.g0.0", "receiver.g0.1", "sender.g0[0]", "sender.g0[1]"], "{mode}");
        // Main at least sleeps until its workers have ended.
        assert!(outcome.switches > 0, "{mode}");
        assert!(outcome.tasks.iter().all(|task| task.run_ns > 0), "{mode}");
    }
}

/// Ticks are a period apart, so what runs say of when a tick was agrees but for whole periods. Half of 24 runs agree to an eighth of one; the others
/// may have been interrupted each time that they looked at the clock. Of numbers without meaning three would lie in an eighth.
#[test]
fn runs_say_how_long_after_a_tick_they_began() {
    // SAFETY: `step` is a timespec to write to.
    let period = unsafe {
        let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step);
        step.tv_nsec as u64
    };
    let ticks: Vec<u64> = (0..24)
        .map(|_| {
            let begun = outcome("pi:tasks=1,samples=1000", &[]).begun.expect("a real run begins");
            assert!(begun.phase_ns < period, "{begun:?}");
            (begun.monotonic_ns - begun.phase_ns) % period
        })
        .collect();
    let soon_after = |first: u64| ticks.iter().filter(|&&tick| (tick + period - first) % period < period / 8).count();
    assert!(ticks.iter().any(|&first| soon_after(first) >= 12), "{ticks:?} of {period}");
}

#[test]
fn messages_larger_than_the_channel_arrive_whole() {
    // 1 MiB through a pipe of 64 KiB, and through a socket, each message in many parts.
    for mode in [",pipe", ""] {
        let outcome = outcome(&format!("hackbench:groups=1,fds=1,loops=3,datasize=1048576{mode}"), &[]);
        assert_eq!(outcome.bytes, 3 * 1_048_576 + 2, "{mode}");
    }
}

#[test]
fn a_run_step_uses_its_cpu_time() {
    let outcome = undisturbed(|| sound(outcome("hogs:tasks=3,time=30ms", &[])));
    for task in &outcome.tasks {
        near(task.run_ns, 30_000_000, 1);
    }
    // Without a mark the workload's own clock is the run's.
    assert_eq!(outcome.turnaround_ns, outcome.elapsed_ns);
}

#[test]
fn random_times_are_the_programs() {
    let mean = Time::from_millis(2);
    let steps = vec![Step::Loop { count: 10, steps: vec![Step::Run(Duration::Exponential { mean })] }];
    let workload = workload(vec![task("t", 2, TaskKind::Process, steps)]);
    let outcome = undisturbed(|| outcome_of(&workload, &["--seed", "7"]));
    let program = Program::compile(&workload).unwrap();
    for (instance, task) in outcome.tasks.iter().enumerate() {
        let mut cursor = Cursor::root(&program, TemplateId(0), instance as u32, 7);
        let mut asked = 0;
        while let Op::Run(time) = cursor.next(&program) {
            asked += time.as_nanos();
        }
        near(task.run_ns, asked, 10);
    }
    assert_eq!(outcome.seed, 7);
}

#[test]
fn sleepers_sleep() {
    let outcome = undisturbed(|| sound(outcome("sleepers:tasks=2,period=5ms,run=1ms,loops=4", &["--delays"])));
    for task in &outcome.tasks {
        near(task.run_ns, 4_000_000, 4);
        // 4 × (5 − 1) ms; each sleep is a voluntary switch.
        assert!(task.sleep_ns >= 16_000_000, "{task:?}");
        assert!(task.voluntary >= 4, "{task:?}");
        assert!(task.life_ns >= task.run_ns + task.sleep_ns, "{task:?}");
        assert!(task.delays > 0, "{task:?}");
    }
}

/// A task waits where it does not run. The wait that goes on as the run ends is counted when the task comes to its CPU to be stopped, for which the
/// runner, of a real-time class, has to leave that CPU; until then a few ticks may pass.
#[test]
fn tasks_that_wait_as_a_run_ends_are_stopped_soon() {
    let cpus = std::thread::available_parallelism().expect("it has CPUs").get() as u32;
    // No other CPU may take one that waits on the runner's.
    let hog = |cpu| Task {
        attributes: Some(Attributes { affinity: vec![cpu], ..Attributes::default() }),
        ..task(&format!("hog{cpu}"), 2, TaskKind::Process, vec![Step::Run(Duration::Fixed(Time::from_millis(900)))])
    };
    let hogs = (0..cpus).map(hog).collect();
    let workload = Workload { duration: Some(Time::from_millis(200)), ..workload(hogs) };
    let fits = |task: &TaskOutcome| {
        let counted = task.run_ns + task.wait_ns;
        (task.life_ns - 1_000_000..task.life_ns + 50_000_000).contains(&counted)
    };
    // What a hypervisor takes is counted nowhere: more than that in all of five runs would be no hypervisor's.
    let mut outcomes = (0..5).map(|_| undisturbed(|| outcome_of(&workload, &["--delays"])));
    let outcome = outcomes.find(|outcome| outcome.tasks.iter().all(fits));
    let outcome = outcome.expect("a run whose tasks run or wait from their beginning to their end");
    // They never sleep; that they were stopped is no switch of their own.
    assert!(outcome.tasks.iter().all(|task| task.voluntary == 0), "{:?}", outcome.tasks);
}

#[test]
fn two_tasks_take_turns() {
    for kinds in ["", ",threads", ",socket", ",socket,threads"] {
        let outcome = sound(outcome(&format!("pipe:loops=20{kinds}"), &[]));
        // There and back, 20 times, a byte each.
        assert_eq!((outcome.messages, outcome.bytes), (40, 40), "{kinds}");
        assert_eq!(outcome.tasks.len(), 2);
    }
}

#[test]
fn tasks_make_tasks_of_either_kind() {
    // A process makes 2 threads, each makes 2 processes, each of those 1 thread that sends a byte: 1 + 2 + 4 + 4.
    let fork = |task: &str, count| Step::Fork { task: task.into(), count };
    let made = |name: &str, kind, child: &str, count| task(name, 0, kind, vec![fork(child, count), Step::Join]);
    let read = Step::Loop { count: 4, steps: vec![Step::Read { channel: "c".into(), bytes: 1 }] };
    let workload = workload(vec![
        task("a", 1, TaskKind::Process, vec![fork("b", 2), read, Step::Join]),
        made("b", TaskKind::Thread, "c", 2),
        made("c", TaskKind::Process, "d", 1),
        task("d", 0, TaskKind::Thread, vec![Step::Write { channel: "c".into(), bytes: 1 }]),
    ]);
    let outcome = sound(outcome_of(&workload, &[]));
    assert_eq!(outcome.tasks.len(), 11);
    assert_eq!(outcome.messages, 4);
    assert!(outcome.tasks.iter().all(|task| task.run_ns > 0), "all tasks have reported");
}

#[test]
fn a_task_outlives_a_parent_that_does_not_wait() {
    let child =
        vec![Step::Sleep(Duration::Fixed(Time::from_millis(20))), Step::Run(Duration::Fixed(Time::from_millis(1)))];
    let fork = vec![Step::Fork { task: "child".into(), count: 1 }];
    let workload =
        workload(vec![task("parent", 1, TaskKind::Process, fork), task("child", 0, TaskKind::Process, child)]);
    let outcome = undisturbed(|| outcome_of(&workload, &[]));
    near(outcome.tasks[1].run_ns, 1_000_000, 2);
    assert!(outcome.tasks[0].life_ns < 20_000_000 && outcome.elapsed_ns > 20_000_000, "{outcome:?}");
}

#[test]
fn attributes_that_anyone_may_set_are_set() {
    for attributes in [
        Attributes { policy: Policy::Batch, ..Attributes::default() },
        Attributes { policy: Policy::Idle, ..Attributes::default() },
        Attributes { nice: 5, ..Attributes::default() },
    ] {
        let run = vec![Step::Run(Duration::Fixed(Time::from_millis(1))), Step::Yield];
        let outcome =
            outcome_of(&workload(vec![task("t", 2, TaskKind::Process, run)]).with_attributes(&attributes), &[]);
        assert_eq!(outcome.tasks.len(), 2);
    }
}

#[test]
fn sessions_are_those_of_processes_and_threads_and_of_the_tasks_they_fork() {
    let run = || Step::Run(Duration::Fixed(Time::from_millis(20)));
    let (process, thread) = (TaskKind::Process, TaskKind::Thread);
    let of = |session: &str, task: Task| Task { session: Some(session.into()), ..task };
    let fork = Step::Fork { task: "child".into(), count: 1 };
    let tasks = vec![
        of("a", task("forks", 1, process, vec![fork, run()])),
        of("a", task("child", 0, process, vec![run()])),
        of("b", task("process", 1, process, vec![run()])),
        of("b", task("thread", 1, thread, vec![run()])),
        task("none", 1, process, vec![run()]),
    ];
    let outcome = outcome_of(&workload(tasks), &[]);
    assert_eq!(outcome.tasks.len(), 5);
    // What a fork takes comes on top.
    assert!(outcome.tasks.iter().all(|task| task.run_ns >= 20_000_000));
    let sum = |names: [&str; 2]| {
        let members = outcome.tasks.iter().filter(|task| names.contains(&task.name.split(['.', '[']).next().unwrap()));
        members.map(|task| task.run_ns).sum::<u64>()
    };
    // Where the kernel makes groups of them, they are told of.
    let enabled = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    if enabled.is_ok_and(|text| text.trim() == "1") {
        let groups: Vec<_> =
            outcome.groups.iter().map(|group| (group.name.as_str(), group.tasks, group.run_ns)).collect();
        let expected = [("session a", 2, sum(["forks", "child"])), ("session b", 2, sum(["process", "thread"]))];
        assert_eq!(groups, expected);
    } else {
        assert!(outcome.groups.is_empty());
    }
}
