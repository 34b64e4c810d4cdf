//! Other work of the machine: it takes its CPU time from the workload's tasks, and nothing else of the outcome counts it.

use schedlab_model::{
    Attributes, Costs, Duration, Machine, ModelError, NoEvents, Outcome, Policy, Scheduler, Step, Task, Time, Workload,
};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate};

const MS: u64 = 1_000_000;

fn run(millis: u64) -> Step {
    Step::Run(Duration::Fixed(Time::from_millis(millis)))
}

/// Tasks that compute for so long each, and end.
fn hogs(count: u32, millis: u64) -> Workload {
    let hog = Task { name: "hog".into(), instances: count, steps: vec![run(millis)], ..Task::default() };
    Workload { name: "hogs".into(), tasks: vec![hog], ..Workload::default() }
}

/// A task that sleeps for 9 ms and computes for 1 ms, over and over.
fn tenth(policy: Policy, affinity: &[u32]) -> Workload {
    let sleep = Step::Sleep(Duration::Fixed(Time::from_millis(9)));
    let attributes = Attributes { policy, affinity: affinity.to_vec(), ..Attributes::default() };
    let task = Task {
        name: "kworker/0".into(),
        instances: 1,
        attributes: Some(attributes),
        asleep: true,
        steps: vec![Step::Forever(vec![sleep, run(1)])],
        ..Task::default()
    };
    Workload { name: "tenth".into(), duration: Some(Time::from_millis(1)), tasks: vec![task], ..Workload::default() }
}

fn outcome(workload: &Workload, machine: &Machine) -> Outcome {
    let program = Program::compile(workload).expect("a workload");
    let scheduler = Scheduler::new("6.12".parse().expect("a release"));
    simulate(&program, &scheduler, machine, &Options::default(), &mut NoEvents).expect("a run")
}

#[test]
fn a_real_time_background_task_takes_exactly_its_tenth() {
    // Of each 10 ms the task has the last one. 900 ms of work are a hundred times 9 ms; between those are 99 times 1 ms.
    let found = outcome(&hogs(1, 900).beside(&tenth(Policy::Fifo(50), &[]), 1).unwrap(), &Machine::ideal(1));
    assert_eq!(found.turnaround_ns, 999 * MS);
    let [hog, other] = &found.tasks[..] else { panic!("{:?}", found.tasks) };
    assert_eq!((hog.background, other.background), (false, true));
    assert_eq!((hog.run_ns, other.run_ns), (900 * MS, 99 * MS));
    // Each of its wake-ups preempts: the hog loses the CPU by nothing else, as it is alone in its class.
    assert_eq!((hog.involuntary, found.switches), (99, 99));
    assert_eq!(found.cpu_busy_ns, [999 * MS]);
    let note = found.notes.last().unwrap();
    assert!(note.starts_with("1 background task took 99ms of CPU time, 9.91 % of the machine's"), "{note}");
}

#[test]
fn a_fair_background_task_takes_about_a_tenth_of_two_hogs() {
    // It asks for less than its third, so it gets all that it asks for. It waits for a slice of each hog and a tick at most (3 ms of base slice on
    // one CPU, up to the next tick of 4 ms: 8 ms each), so that its share is from 1/(10 + 16) to 1/10.
    let found = outcome(&hogs(2, 450).beside(&tenth(Policy::Other, &[]), 1).unwrap(), &Machine::ideal(1));
    let share = found.tasks[2].run_ns as f64 / found.elapsed_ns as f64;
    assert!((1.0 / 26.0..=0.1).contains(&share), "{share}");
    // The run takes longer by exactly its CPU time.
    assert_eq!(found.elapsed_ns, 900 * MS + found.tasks[2].run_ns);
    assert_eq!(found.switches, found.tasks[..2].iter().map(|task| task.involuntary + task.voluntary).sum::<u64>());
    let alone = outcome(&hogs(2, 450), &Machine::ideal(1));
    // Each of its wake-ups ends in at most one switch of a hog that there would not be without it.
    assert!(found.switches <= alone.switches + found.tasks[2].wakeups + 1, "{} {}", found.switches, alone.switches);
    assert!(found.switches > alone.switches);
}

#[test]
fn a_background_task_that_slept_before_the_run_began_comes_with_a_sleeper_s_credit() {
    // CFS places a task that slept for long by half its latency (6 ms on one CPU) before its queue's virtual time, which is the hog's. 3 ms are more
    // than wakeup_granularity (1 ms), so that it preempts the hog, though that has had the CPU for 100 us only.
    let mut once = tenth(Policy::Other, &[]);
    once.tasks[0].steps = vec![Step::Sleep(Duration::Fixed(Time::from_micros(100))), run(1)];
    let program = Program::compile(&hogs(1, 2).beside(&once, 1).unwrap()).expect("a workload");
    let scheduler = Scheduler::new("6.1".parse().expect("a release"));
    let found = simulate(&program, &scheduler, &Machine::ideal(1), &Options::default(), &mut NoEvents).expect("a run");
    let [hog, other] = &found.tasks[..] else { panic!("{:?}", found.tasks) };
    assert_eq!((hog.involuntary, other.delay_ns), (1, 0));
    assert_eq!(found.turnaround_ns, 3 * MS);
}

#[test]
fn its_time_is_all_that_it_takes() {
    // Switches, system calls and timers cost, but not the background task: it has its 1 ms of each period all the same.
    let costs = Costs {
        switch: Time::from_micros(100),
        system_call: Time::from_micros(50),
        block: Time::from_micros(50),
        sleep_timer: Time::from_micros(200),
        interrupt: Time::from_micros(300),
        operation: Time::from_micros(10),
        begin_process: Time::from_micros(500),
        ..Costs::ideal()
    };
    let work = hogs(1, 900).beside(&tenth(Policy::Fifo(50), &[]), 1).unwrap();
    let found = outcome(&work, &Machine::new(1, costs));
    let other = &found.tasks[1];
    assert_eq!(other.run_ns, other.wakeups * MS);
    let sleeps = 9 * MS * other.wakeups..=9 * MS * (other.wakeups + 1);
    assert!(sleeps.contains(&other.sleep_ns), "{}", other.sleep_ns);
    // The hog pays for its own switches back, of 100 us each, and for its beginning.
    assert!(found.tasks[0].run_ns >= 900 * MS + 90 * 100_000, "{}", found.tasks[0].run_ns);
}

#[test]
fn a_machine_has_the_tasks_of_the_cpus_that_it_has() {
    let pinned = tenth(Policy::Other, &[1, 3]);
    assert_eq!(hogs(1, 1).beside(&pinned, 1).unwrap().tasks[1].instances, 0);
    let both = hogs(1, 1).beside(&pinned, 2).unwrap();
    assert_eq!(both.tasks[1].attributes.as_ref().unwrap().affinity, [1]);
    assert!(both.has_background() && !hogs(1, 1).has_background());
    // What ends by itself goes on without the duration of the background.
    assert_eq!(both.duration, None);
}

#[test]
fn names_that_both_have_are_refused() {
    let error = hogs(1, 1).beside(&hogs(1, 1), 1).unwrap_err();
    assert!(matches!(error, ModelError::Workload { .. }));
    assert!(error.to_string().contains("task 'hog'"), "{error}");
}

#[test]
fn background_alone_is_no_workload() {
    let mut alone = tenth(Policy::Other, &[]);
    alone.tasks[0].background = true;
    assert!(Program::compile(&alone).unwrap_err().to_string().contains("none is there from the start"));
}

#[test]
fn groups_compete_until_their_own_tasks_end() {
    let mut work = hogs(1, 100);
    work.groups.insert("/a".into(), schedlab_model::Group::default());
    let mut second = work.tasks[0].clone();
    (second.name, second.taskgroup) = ("grouped".into(), Some("/a".into()));
    work.tasks.push(second);
    let alone = outcome(&work, &Machine::ideal(1));
    let beside = outcome(&work.beside(&tenth(Policy::Fifo(50), &[]), 1).unwrap(), &Machine::ideal(1));
    // Two groups of one weight share what there is by halves, whatever else runs.
    for found in [&alone, &beside] {
        assert!((found.groups[0].share - 0.5).abs() < 0.05, "{:?}", found.groups);
        assert!(found.groups[0].contended_ns <= 100 * MS);
    }
}

/// Two tasks that each read what only the other writes, 5 ms after the start.
fn deadlocked() -> Workload {
    let channel = schedlab_model::Channel { kind: schedlab_model::ChannelKind::Pipe };
    let read = |channel: &str| Step::Read { channel: channel.into(), bytes: 1 };
    let write = |channel: &str| Step::Write { channel: channel.into(), bytes: 1 };
    let task = |name: &str, from: &str, to: &str| Task {
        name: name.into(),
        instances: 1,
        steps: vec![run(5), read(from), write(to)],
        ..Task::default()
    };
    Workload {
        name: "deadlocked".into(),
        channels: [("a".to_owned(), channel.clone()), ("b".to_owned(), channel)].into(),
        tasks: vec![task("one", "a", "b"), task("two", "b", "a")],
        ..Workload::default()
    }
}

#[test]
fn a_deadlock_is_found_although_background_goes_on() {
    let error = |workload: &Workload| {
        let program = Program::compile(workload).unwrap();
        let scheduler = Scheduler::new("6.12".parse().unwrap());
        simulate(&program, &scheduler, &Machine::ideal(2), &Options::default(), &mut NoEvents).unwrap_err().to_string()
    };
    let alone = error(&deadlocked());
    assert!(alone.starts_with("deadlock at 5ms: task 'one' waits to read"), "{alone}");
    // A CPU for each task: the background task, whose first work is done at 10 ms, takes nothing of those first 5 ms.
    assert_eq!(error(&deadlocked().beside(&tenth(Policy::Fifo(50), &[]), 2).unwrap()), alone);
}

#[test]
fn tasks_that_sleep_or_compute_are_no_deadlock_however_long() {
    // 200 s, in which the background has 40,000 events.
    let mut sleeper = hogs(1, 1);
    sleeper.tasks[0].steps.insert(0, Step::Sleep(Duration::Fixed(Time::from_millis(200_000))));
    let found = outcome(&sleeper.beside(&tenth(Policy::Other, &[]), 1).unwrap(), &Machine::ideal(1));
    assert!((200_001 * MS..200_003 * MS).contains(&found.turnaround_ns), "{}", found.turnaround_ns);
}

#[test]
fn a_time_limit_counts_the_workloads_tasks() {
    let program = Program::compile(&hogs(2, 900).beside(&tenth(Policy::Other, &[]), 1).unwrap()).unwrap();
    let options = Options { time_limit: Time::from_millis(100), ..Options::default() };
    let scheduler = Scheduler::new("6.12".parse().unwrap());
    let error = simulate(&program, &scheduler, &Machine::ideal(1), &options, &mut NoEvents).unwrap_err().to_string();
    assert!(error.contains("2 of 2"), "{error}");
}

#[test]
fn what_background_names_is_its_own() {
    // Both post and take a semaphore, and measure and mark under the same names. A shared semaphore would let the workload's task go on at
    // once; so it waits for its own, which its other task posts after 50 ms.
    let name = || "s".to_owned();
    let sleep = |millis| Step::Sleep(Duration::Fixed(Time::from_millis(millis)));
    let taker = vec![Step::Mark(name()), Step::Start(name()), Step::Acquire(name()), Step::Stop(name())];
    let task = |of: &str, steps| Task { name: of.into(), instances: 1, steps, ..Task::default() };
    let poster = vec![sleep(50), Step::Post(name())];
    let work = Workload {
        name: "own".into(),
        tasks: vec![task("taker", taker), task("poster", poster)],
        turnaround_from: Some(name()),
        ..Workload::default()
    };
    let rounds =
        vec![Step::Mark(name()), Step::Start(name()), Step::Post(name()), run(1), Step::Stop(name()), sleep(1)];
    let others = Workload {
        name: "others".into(),
        tasks: vec![task("other", vec![Step::Forever(rounds)])],
        ..Workload::default()
    };
    let found = outcome(&work.clone().beside(&others, 2).unwrap(), &Machine::ideal(2));
    let alone = outcome(&work, &Machine::ideal(2));
    assert_eq!((found.turnaround_ns, &found.latencies), (alone.turnaround_ns, &alone.latencies));
    assert_eq!(found.latencies["s"].count, 1);
}

#[test]
fn messages_of_background_are_not_counted() {
    let channel = schedlab_model::Channel { kind: schedlab_model::ChannelKind::Pipe };
    let (channel_name, bytes) = ("c".to_owned(), 100);
    let rounds = vec![
        Step::Write { channel: channel_name.clone(), bytes },
        Step::Read { channel: channel_name.clone(), bytes },
        run(1),
    ];
    let task = Task { name: "talker".into(), instances: 1, steps: vec![Step::Forever(rounds)], ..Task::default() };
    let others = Workload {
        name: "talk".into(),
        channels: [(channel_name, channel)].into(),
        tasks: vec![task],
        ..Workload::default()
    };
    let found = outcome(&hogs(1, 20).beside(&others, 2).unwrap(), &Machine::ideal(2));
    assert_eq!((found.messages, found.bytes), (0, 0));
    assert!(found.tasks[1].run_ns >= 10 * MS);
}
