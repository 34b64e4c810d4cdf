//! A workload that is written in the language is read back the same, and a file that is rewritten says the same.

use std::collections::BTreeMap;

use proptest::prelude::*;
use schedlab_model::{
    Access, Attributes, Buffer, Change, Channel, ChannelKind, Clamp, Duration, File, FileAccess, Group, GroupMax,
    Offset, Opening, Policy, Step, Task, TaskKind, Time, Workload,
};
use schedlab_workloads::{BUILDERS, parse, rtapp};

/// Times of whole microseconds and others; a zero among them.
fn time() -> impl Strategy<Value = Time> {
    prop_oneof![(0..5_000u64).prop_map(Time::from_micros), (0..9_999_999u64).prop_map(Time::from_nanos)]
}

fn some_time() -> impl Strategy<Value = Time> {
    (1..9_999_999u64).prop_map(Time::from_nanos)
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        time().prop_map(Duration::Fixed),
        (time(), time()).prop_map(|(low, high)| Duration::Uniform { low, high }),
        time().prop_map(|mean| Duration::Exponential { mean }),
        (time(), time()).prop_map(|(mean, deviation)| Duration::Normal { mean, deviation }),
    ]
}

/// Names of every kind; `unique` begins those of timers that are each task's own.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]", Just("unique1".to_owned()), Just("with \"quotes\" \\ and ä".to_owned()), Just(String::new())]
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Other),
        Just(Policy::Batch),
        Just(Policy::Idle),
        (1..=99u8).prop_map(Policy::Fifo),
        (1..=99u8).prop_map(Policy::Rr),
        (some_time(), some_time(), some_time()).prop_map(|(runtime, deadline, period)| Policy::Deadline {
            runtime,
            deadline,
            period
        }),
    ]
}

fn clamp() -> impl Strategy<Value = Clamp> {
    (prop::option::of(0..=1024u16), prop::option::of(0..=1024u16)).prop_map(|(min, max)| Clamp { min, max })
}

fn change() -> impl Strategy<Value = Change> {
    let slice = (100..100_000u64).prop_map(Time::from_micros);
    let of_policy = (prop::option::of(policy()), prop::option::of(-20..=19i8), prop::option::of(slice));
    let numbers = || prop::option::of(prop::collection::vec(0..9u32, 0..3));
    let group = prop::option::of(prop_oneof![Just("/".to_owned()), Just("/g/h".to_owned())]);
    (of_policy, numbers(), group, clamp(), numbers()).prop_map(
        |((policy, nice, slice), affinity, taskgroup, clamp, nodes)| Change {
            policy,
            nice,
            slice,
            affinity,
            taskgroup,
            clamp,
            nodes,
        },
    )
}

fn access() -> impl Strategy<Value = FileAccess> {
    (name(), 1..9999u32, any::<bool>()).prop_map(|(file, bytes, random)| FileAccess {
        file,
        bytes,
        offset: if random { Offset::Random } else { Offset::Next },
    })
}

fn memory() -> impl Strategy<Value = Step> {
    let access =
        prop_oneof![Just(Access::Write), Just(Access::Read), Just(Access::ChaseRandom), Just(Access::ChaseSequential)];
    let bytes = prop_oneof![Just(4u64 << 20), 1..1_000_000u64];
    (access, 0..1000u64, bytes, prop_oneof![Just(64u32), 8..200u32], prop::option::of(name())).prop_map(
        |(access, count, bytes, stride, shared)| Step::Memory {
            access,
            count,
            buffer: Buffer { bytes, stride, shared },
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let message = (name(), 1..99u32).boxed();
    let one = prop_oneof![
        duration().prop_map(Step::Run),
        duration().prop_map(Step::Busy),
        duration().prop_map(Step::Sleep),
        // One mode for all, as rt-app has it.
        (name(), time(), any::<bool>()).prop_map(|(timer, period, own)| Step::Timer {
            timer,
            period,
            own,
            absolute: false
        }),
        Just(Step::Yield),
        message.clone().prop_map(|(channel, bytes)| Step::Write { channel, bytes }),
        message.clone().prop_map(|(channel, bytes)| Step::Read { channel, bytes }),
        message.prop_map(|(port, bytes)| Step::Accept { port, bytes }),
        (1..99u32).prop_map(|bytes| Step::Reply { bytes }),
    ];
    let named = (0..11usize, name()).prop_map(|(which, name)| match which {
        0 => Step::OpenLatch(name),
        1 => Step::AwaitLatch(name),
        2 => Step::Lock(name),
        3 => Step::Unlock(name),
        4 => Step::Signal(name),
        5 => Step::Broadcast(name),
        6 => Step::Barrier(name),
        7 => Step::Post(name),
        8 => Step::Acquire(name),
        9 => Step::Mark(name),
        _ => Step::Start(name),
    });
    let more = prop_oneof![
        (name(), name()).prop_map(|(condition, mutex)| Step::Wait { condition, mutex }),
        memory(),
        (0..9999u64, prop_oneof![Just(4u32 << 20), 1..9999u32])
            .prop_map(|(bytes, chunk)| Step::Device { bytes, chunk }),
        access().prop_map(Step::WriteFile),
        access().prop_map(Step::ReadFile),
        (access(), 1..9u32).prop_map(|(access, depth)| Step::SubmitWrite { access, depth }),
        (access(), 1..9u32).prop_map(|(access, depth)| Step::SubmitRead { access, depth }),
        Just(Step::AwaitFiles),
        (name(), 1..99u32, 1..99u32).prop_map(|(port, bytes, reply)| Step::Request { port, bytes, reply }),
        (name(), 0..3u32).prop_map(|(task, count)| Step::Fork { task, count }),
        Just(Step::Join),
        change().prop_map(Step::Set),
        name().prop_map(Step::Stop),
        proptest::collection::vec(name(), 1..4).prop_map(Step::PostAll),
    ];
    // What rt-app has one word for.
    let leaf = prop_oneof![3 => one, 2 => named, 2 => more];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (0..9u64, prop::collection::vec(inner.clone(), 0..4))
                .prop_map(|(count, steps)| Step::Loop { count, steps }),
            prop::collection::vec(inner, 0..4).prop_map(Step::Forever),
        ]
    })
}

fn words(name: &str) -> [Vec<Step>; 3] {
    let own = |name: &str| name.to_owned();
    let wait = Step::Wait { condition: own(name), mutex: own(name) };
    [
        vec![Step::Lock(own(name)), wait.clone(), Step::Unlock(own(name))],
        vec![Step::Lock(own(name)), Step::Broadcast(own(name)), Step::Unlock(own(name))],
        vec![Step::Signal(own(name)), wait],
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let runs = prop_oneof![
        3 => step().prop_map(|step| vec![step]),
        1 => ((0..3usize), "[a-b]").prop_map(|(which, name)| words(&name)[which].clone()),
    ];
    let flat = prop::collection::vec(runs, 0..5).prop_map(|runs| runs.concat());
    let phases = prop::collection::vec((1..4u64, flat.clone()), 1..4);
    prop_oneof![
        flat.clone(),
        (1..5u64, flat).prop_map(|(count, steps)| vec![Step::Loop { count, steps }]),
        (any::<bool>(), phases).prop_map(|(endless, phases)| {
            let phases = phases.into_iter().map(|(count, steps)| Step::Loop { count, steps }).collect();
            vec![if endless { Step::Forever(phases) } else { Step::Loop { count: 2, steps: phases } }]
        }),
    ]
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let slice = prop::option::of((100..100_000u64).prop_map(Time::from_micros));
    (policy(), -20..=19i8, slice, prop::collection::vec(0..9u32, 0..3))
        .prop_map(|(policy, nice, slice, affinity)| Attributes { policy, nice, slice, affinity })
}

fn task() -> impl Strategy<Value = Task> {
    let head = (0..4u32, any::<[bool; 3]>(), prop::option::of(attributes()), prop::option::of(Just("/g".to_owned())));
    let rest = (prop::option::of(name()), clamp(), prop::collection::vec(0..3u32, 0..2), time(), steps());
    (head, rest).prop_map(
        |(
            (instances, [process, background, deferrable], attributes, taskgroup),
            (session, clamp, nodes, delay, steps),
        )| Task {
            name: String::new(),
            instances,
            kind: if process { TaskKind::Process } else { TaskKind::Thread },
            attributes,
            taskgroup,
            session,
            clamp,
            nodes,
            delay,
            asleep: delay == Time::ZERO && waits_first(&steps),
            background,
            deferrable: background && deferrable,
            steps,
        },
    )
}

fn waits_first(steps: &[Step]) -> bool {
    match steps.first() {
        Some(Step::Loop { steps, .. } | Step::Forever(steps)) => waits_first(steps),
        first => matches!(first, Some(Step::Sleep(_) | Step::Timer { .. } | Step::Acquire(_))),
    }
}

fn workload() -> impl Strategy<Value = Workload> {
    let channels = prop::collection::btree_map(name(), any::<bool>(), 0..3);
    let files = prop::collection::btree_map(name(), 1..9999u64, 0..2);
    let head = (name(), channels, prop::collection::btree_set(name(), 0..3), files, any::<[bool; 2]>());
    (head, prop::collection::vec(task(), 1..4), some_time(), prop::option::of(name())).prop_map(
        |((name, channels, latches, files, [inherit, lock]), mut tasks, duration, turnaround_from)| {
            tasks.iter_mut().enumerate().for_each(|(index, task)| task.name = format!("task {index}"));
            let kind = |pipe| Channel { kind: if pipe { ChannelKind::Pipe } else { ChannelKind::Socket } };
            let max = GroupMax { quota: Time::from_millis(20), period: Time::from_millis(50), burst: Time::ZERO };
            let group = Group { weight: Some(300), max: Some(max), ..Group::default() };
            Workload {
                name,
                channels: channels.into_iter().map(|(name, pipe)| (name, kind(pipe))).collect(),
                latches: latches.into_iter().collect(),
                files: files.into_iter().map(|(name, size)| (name, File { size, open: Opening::Sync })).collect(),
                duration: Some(duration),
                priority_inheritance: inherit,
                lock_pages: lock,
                io_device: None,
                tasks,
                turnaround_from,
                groups: BTreeMap::from([("/g/h".to_owned(), group)]),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(workload in workload()) {
        let text = rtapp::export(&workload);
        let imported = rtapp::import(&text, "").map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&imported.workload, &workload, "{}", text);
        // It is strict JSON, and what is rewritten is no different.
        let _: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(rtapp::rewrite(&text).unwrap(), text);
    }
}

#[test]
fn every_built_in_workload_is_written_and_read_back() {
    for builder in BUILDERS {
        let workload = parse(builder.name).unwrap();
        let text = rtapp::export(&workload);
        assert_eq!(rtapp::import(&text, "").unwrap().workload, workload, "{text}");
    }
}
