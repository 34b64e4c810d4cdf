//! Built-in workloads amount to what their definitions say, and bad text gets one clear line.

use proptest::prelude::*;
use schedlab_model::{ChannelKind, Step, TaskKind, Workload};
use schedlab_program::{Cursor, Op, Program, TemplateId};
use schedlab_workloads::{BUILDERS, Hackbench, parse};

fn compiled(workload: &Workload) -> Program {
    Program::compile(workload).expect("a built-in workload compiles")
}

fn template(program: &Program, name: &str) -> TemplateId {
    let index = program.templates().iter().position(|template| template.name == name).expect("the template is there");
    TemplateId(index as u32)
}

/// All operations of one task of the template called `name`.
fn walk(program: &Program, name: &str) -> Vec<Op> {
    let mut cursor = Cursor::root(program, template(program, name), 0, 1);
    std::iter::from_fn(|| Some(cursor.next(program)).filter(|op| *op != Op::Exit)).collect()
}

#[test]
fn hackbench_without_options_is_the_real_ones() {
    // `hackbench` prints: "Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)
    // Each sender will pass 100 messages of 100 bytes".
    let workload = parse("hackbench").unwrap();
    let program = compiled(&workload);
    assert_eq!(program.total_tasks(), 400 + 1);
    assert!(workload.tasks.iter().all(|task| task.kind == TaskKind::Process));
    assert!(program.channels().iter().all(|kind| *kind == ChannelKind::Socket));
    assert_eq!(program.turnaround_mark(), Some(0));
    assert_eq!(program.marks(), ["start"]);
}

proptest! {
    #[test]
    fn hackbench_does_what_its_options_say(
        groups in 1..5u32, fds in 1..6u32, loops in 1..7u64, datasize in 1..5000u32, pipe: bool, threads: bool,
    ) {
        let hackbench = Hackbench { groups, fds, loops, datasize, pipe, threads };
        let workload = hackbench.build().unwrap();
        let program = compiled(&workload);
        let (g, f, size) = (u64::from(groups), u64::from(fds), u64::from(datasize));
        prop_assert_eq!(program.total_tasks(), 2 * g * f + 1);
        prop_assert_eq!(program.channels().len() as u64, g * f + 1);

        // Each of a receiver's channel's fds senders writes loops messages; 1 byte a worker passes through `ready`.
        let total: u64 = program.traffic().iter().map(|traffic| traffic.messages_read).sum();
        prop_assert_eq!(total, g * f * f * loops + 2 * g * f);
        let bytes: u64 = program.traffic().iter().map(|traffic| traffic.bytes_read).sum();
        prop_assert_eq!(bytes, g * f * f * loops * size + 2 * g * f);
        for traffic in program.traffic() {
            prop_assert_eq!(traffic.messages_written, traffic.messages_read);
        }

        // A sender: ready, wait, then in each loop one message to each receiver in turn.
        let last = groups - 1;
        let sender = walk(&program, &format!("sender.g{last}"));
        prop_assert_eq!(sender.len() as u64, 2 + loops * f);
        let ready = matches!(sender[..2], [Op::Write { bytes: 1, .. }, Op::AwaitLatch(0)]);
        prop_assert!(ready);
        let sprayed: Vec<Op> = sender[2..].to_vec();
        for round in sprayed.chunks(fds as usize) {
            prop_assert_eq!(round, &sprayed[..fds as usize]);
        }
        // The receivers of the group read what it wrote, each its own channel.
        for (index, op) in sprayed[..fds as usize].iter().enumerate() {
            let Op::Write { channel, bytes } = *op else { return Err(TestCaseError::fail("a sender only writes")) };
            prop_assert_eq!(bytes, datasize);
            let receiver = walk(&program, &format!("receiver.g{last}.{index}"));
            prop_assert_eq!(&receiver[..2], &sender[..2]);
            prop_assert_eq!(&receiver[2..], vec![Op::Read { channel, bytes }; (f * loops) as usize]);
        }

        // Main forks a group's receivers before its senders, reads a byte for each, marks, opens, joins.
        let main = walk(&program, "main");
        let forked: Vec<&str> = main.iter().filter_map(|op| match op {
            Op::Fork { template, .. } => Some(program.template(*template).name.as_str()),
            _ => None,
        }).collect();
        let expected: Vec<String> = (0..groups).flat_map(|group| {
            let receivers = (0..fds).map(move |fd| format!("receiver.g{group}.{fd}"));
            receivers.chain((0..fds).map(move |_| format!("sender.g{group}")))
        }).collect();
        prop_assert_eq!(forked, expected);
        let rest = &main[2 * (groups * fds) as usize..];
        let reads = rest[..rest.len() - 3].iter().all(|op| matches!(op, Op::Read { bytes: 1, .. }));
        prop_assert!(reads);
        prop_assert_eq!(rest.len() as u64, 2 * g * f + 3);
        prop_assert_eq!(&rest[rest.len() - 3..], [Op::Mark(0), Op::OpenLatch(0), Op::Join]);

        // The name is the text that builds it again.
        prop_assert_eq!(parse(&workload.name).unwrap(), workload);
    }

    #[test]
    fn no_text_panics(text in "(hackbench|pipe|hogs|sleepers|x)?(:[a-z]{0,6}=?[0-9a-z.-]{0,8},?){0,3}") {
        let _ = parse(&text);
    }
}

#[test]
fn ping_pong_takes_turns() {
    let program = compiled(&parse("pipe:loops=3").unwrap());
    // Channels in the order of their names: fro, to.
    let (fro, to) = (0, 1);
    let write = |channel| Op::Write { channel, bytes: 1 };
    let read = |channel| Op::Read { channel, bytes: 1 };
    assert_eq!(walk(&program, "ping"), [write(to), read(fro)].repeat(3));
    assert_eq!(walk(&program, "pong"), [read(to), write(fro)].repeat(3));
}

#[test]
fn sleepers_fill_their_periods() {
    let workload = parse("sleepers:tasks=2,period=10ms,run=1ms,loops=3").unwrap();
    assert_eq!(workload.tasks[0].instances, 2);
    // 10 ms − 1 ms.
    let ms = schedlab_model::Time::from_millis;
    assert_eq!(walk(&compiled(&workload), "sleeper"), [Op::Run(ms(1)), Op::Sleep(ms(9))].repeat(3));
}

#[test]
fn hogs_only_compute() {
    let workload = parse("hogs:tasks=3,time=250ms").unwrap();
    assert_eq!(workload.tasks[0].instances, 3);
    assert!(matches!(workload.tasks[0].steps[..], [Step::Run(_)]));
}

#[test]
fn bad_text_gets_one_clear_line() {
    for (text, parts) in [
        ("", &["no workload", "hackbench, pipe, hogs, sleepers, pi, copy, mixed, http, aio, schbench, periodic"][..]),
        ("hackbensh:groups=1", &["'hackbensh'", "hackbench"]),
        ("hackbench:group=1", &["hackbench", "'group'", "groups (1 to 100000)", "pipe (0 or 1)"]),
        ("hackbench:groups=0", &["groups = '0'", "1 to 100000"]),
        ("hackbench:groups=-1", &["groups = '-1'", "whole number", "1 to 100000"]),
        ("hackbench:groups=", &["groups = ''", "whole number"]),
        ("hackbench:loops", &["loops = ''", "whole number"]),
        ("hackbench:groups=99999999999999999999", &["out of range", "1 to 100000"]),
        // 100,000 · 10,000 · 2 + 1 tasks.
        ("hackbench:groups=100000,fds=10000", &["2000000001 tasks", "at most 262144"]),
        ("hackbench:groups=1,groups=2", &["'groups'", "twice"]),
        ("hackbench:pipe=2", &["pipe = '2'", "0 or 1"]),
        ("hackbench:datasize=0", &["datasize = '0'", "1 to 1m bytes"]),
        ("hogs:time=5", &["time = '5'", "no unit"]),
        ("hogs:time=0s", &["time = '0s'", "1us to 86400s"]),
        ("sleepers:run=20ms", &["run = 20ms", "period = 10ms"]),
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message}");
        for part in parts {
            assert!(message.contains(part), "{text}: '{part}' is not in: {message}");
        }
    }
    let error = Hackbench { fds: 0, ..Hackbench::default() }.build().unwrap_err().to_string();
    assert!(error.contains("fds = '0'"), "{error}");
}

#[test]
fn every_builder_is_described() {
    for builder in BUILDERS {
        assert!(!builder.summary.is_empty() && builder.keys.iter().all(|key| !key.summary.is_empty()));
        compiled(&parse(builder.name).unwrap());
    }
}

#[test]
fn every_builder_reads_its_own_name() {
    for builder in BUILDERS {
        let workload = parse(builder.name).unwrap();
        assert_eq!(parse(&workload.name).unwrap(), workload);
    }
}

#[test]
fn a_copy_reads_and_writes_every_byte_once() {
    let workload = parse("copy:bytes=10000,block=4096").unwrap();
    let program = compiled(&workload);
    let mut moved = [0u64; 2];
    for op in walk(&program, "copy") {
        let Op::File(access) = op else { unreachable!("a copy only reads and writes") };
        let access = program.file_accesses()[access as usize];
        moved[access.file as usize] += u64::from(access.bytes);
    }
    assert_eq!(moved, [10_000, 10_000]);
    assert!(workload.files.values().all(|file| file.open == schedlab_model::Opening::Sync));
}

#[test]
fn aio_without_keys_is_aio_stress() {
    // 2 GB in records of 64 KiB is 32,768 writes, by 4 threads.
    let program = compiled(&parse("aio").unwrap());
    assert_eq!((program.total_tasks(), walk(&program, "writer").len()), (4, 32_768 / 4 + 1));
}

proptest! {
    #[test]
    fn utilisations_add_up_and_shorter_periods_are_more_urgent(tasks in 1..40u32, percent in 1..90u64, seed: u64) {
        let text = format!("periodic:tasks={tasks},utilisation={percent},seed={seed}");
        let workload = parse(&text).unwrap();
        let mut set = Vec::new();
        for task in &workload.tasks {
            let [Step::Forever(steps)] = &task.steps[..] else { return Err(TestCaseError::fail("for ever")) };
            let [Step::Run(schedlab_model::Duration::Fixed(run)), Step::Timer { period, absolute: true, own: true, .. }] = &steps[..] else {
                return Err(TestCaseError::fail("it runs and waits"));
            };
            let Some(schedlab_model::Policy::Fifo(priority)) = task.attributes.as_ref().map(|attributes| attributes.policy) else {
                return Err(TestCaseError::fail("it is real-time"));
            };
            let millis = schedlab_model::Time::from_millis;
            prop_assert!((millis(10)..=millis(1000)).contains(period));
            set.push((*period, priority, run.as_nanos() as f64 / period.as_nanos() as f64));
        }
        // Each runtime is rounded to the nanosecond and is a microsecond at least: of 10 ms, 0.01 %.
        let sum: f64 = set.iter().map(|(_, _, part)| part).sum();
        prop_assert!((sum - percent as f64 / 100.0).abs() <= 1.1e-4 * f64::from(tasks), "{sum}");
        set.sort_by_key(|(period, priority, _)| (*period, std::cmp::Reverse(*priority)));
        prop_assert!(set.windows(2).all(|pair| pair[0].0 == pair[1].0 || pair[0].1 > pair[1].1));
    }
}
