//! Written recordings have the same events, and are read back.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use proptest::prelude::*;
use prost::Message;
use schedlab_model::{CpuId, Event, EventKind, TaskId, TaskState, Time};
use schedlab_trace::proto::{FtraceEvent, ProcessTree, Trace, ftrace_event, trace_packet};
use schedlab_trace::{
    PerfettoOptions, Reader, Record, RecordKind, RecordState, TaskLabel, pid, write_ftrace, write_perfetto,
};

const CPUS: u32 = 3;

fn labels(tasks: u32) -> Vec<TaskLabel> {
    (0..tasks)
        .map(|task| TaskLabel { priority: 115 + task as i32, ..TaskLabel::new(format!("task {task}[0]")) })
        .collect()
}

/// Any sequence of events at times that do not decrease. They need not make sense together: writers translate, they do not judge.
fn events(tasks: u32) -> impl Strategy<Value = Vec<Event>> {
    let task = (0..tasks).prop_map(TaskId);
    let anyone = prop_oneof![task.clone(), Just(TaskId::IDLE)];
    let cpu = || (0..CPUS).prop_map(CpuId);
    let state = prop_oneof![
        Just(TaskState::Running),
        Just(TaskState::Interruptible),
        Just(TaskState::Uninterruptible),
        Just(TaskState::Stopped),
        Just(TaskState::Dead)
    ];
    let kind = prop_oneof![
        (anyone.clone(), task.clone()).prop_map(|(parent, child)| EventKind::Fork { parent, child }),
        (task.clone(), anyone.clone(), cpu()).prop_map(|(task, waker, target)| EventKind::Waking {
            task,
            waker,
            target
        }),
        (task.clone(), cpu()).prop_map(|(task, target)| EventKind::WakeupNew { task, target }),
        (anyone.clone(), state, anyone).prop_map(|(previous, state, next)| EventKind::Switch { previous, state, next }),
        (task.clone(), cpu(), cpu()).prop_map(|(task, from, to)| EventKind::Migrate { task, from, to }),
        task.clone().prop_map(|task| EventKind::Exit { task }),
        (task, 0..9u32).prop_map(|(task, mark)| EventKind::Mark { task, mark }),
    ];
    proptest::collection::vec((0..2_000_000_000u64, cpu(), kind), 0..80).prop_map(|raw| {
        let mut time = Time::ZERO;
        let advance = |(span, cpu, kind)| {
            time += Time::from_nanos(span);
            Event { time, cpu, kind }
        };
        raw.into_iter().map(advance).collect()
    })
}

fn task_of(number: u32) -> TaskId {
    if number == 0 { TaskId::IDLE } else { TaskId(number - pid(TaskId(0))) }
}

fn state_of(state: RecordState) -> TaskState {
    match state {
        RecordState::Running => TaskState::Running,
        RecordState::Sleeping('D') => TaskState::Uninterruptible,
        RecordState::Sleeping('T') => TaskState::Stopped,
        RecordState::Sleeping(_) => TaskState::Interruptible,
        RecordState::Dead(_) => TaskState::Dead,
    }
}

/// The event a line stands for; `None` for the second line of a waking. ftrace does not tell an interrupt's waking from one by
/// the running task, so the waker is the task of the line's first column.
fn event_of(record: &Record, waker: TaskId) -> Option<Event> {
    let kind = match &record.kind {
        RecordKind::Fork { parent, child, .. } => EventKind::Fork { parent: task_of(*parent), child: task_of(*child) },
        RecordKind::Waking { task, target } => {
            EventKind::Waking { task: task_of(task.pid), waker, target: CpuId(*target) }
        }
        RecordKind::Wakeup { .. } => return None,
        RecordKind::WakeupNew { task, target } => {
            EventKind::WakeupNew { task: task_of(task.pid), target: CpuId(*target) }
        }
        RecordKind::Switch { previous, state, next } => {
            EventKind::Switch { previous: task_of(previous.pid), state: state_of(*state), next: task_of(next.pid) }
        }
        RecordKind::Migrate { task, from, to } => {
            EventKind::Migrate { task: task_of(task.pid), from: CpuId(*from), to: CpuId(*to) }
        }
        RecordKind::Exit { task } => EventKind::Exit { task: task_of(task.pid) },
        RecordKind::Other { event, text } => {
            assert_eq!(&**event, "tracing_mark_write");
            let mark = text.strip_prefix("mark ").unwrap().parse().unwrap();
            EventKind::Mark { task: waker, mark }
        }
        other => unreachable!("{other:?} is never written"),
    };
    Some(Event { time: record.time, cpu: CpuId(record.cpu), kind })
}

fn ftrace(events: &[Event], labels: &[TaskLabel]) -> String {
    let mut text = Vec::new();
    write_ftrace(&mut text, events, labels, "6.1.176", CPUS).unwrap();
    String::from_utf8(text).unwrap()
}

fn perfetto(events: &[Event], labels: &[TaskLabel]) -> Trace {
    let mut bytes = Vec::new();
    let options = PerfettoOptions { release: "6.1.176".to_owned(), cpus: CPUS };
    write_perfetto(&mut bytes, events, labels, &options).unwrap();
    Trace::decode(&bytes[..]).unwrap()
}

/// The events of each bundle, with its CPU.
fn bundles(trace: &Trace) -> Vec<(u32, &[FtraceEvent])> {
    let of = |packet: &'_ schedlab_trace::proto::TracePacket| {
        matches!(packet.data, Some(trace_packet::Data::FtraceEvents(_)))
    };
    let packets = trace.packet.iter().filter(|packet| of(packet));
    packets
        .map(|packet| match packet.data.as_ref().unwrap() {
            trace_packet::Data::FtraceEvents(bundle) => (bundle.cpu.unwrap(), &bundle.event[..]),
            _ => unreachable!(),
        })
        .collect()
}

fn tree(trace: &Trace) -> &ProcessTree {
    let found = trace.packet.iter().find_map(|packet| match &packet.data {
        Some(trace_packet::Data::ProcessTree(tree)) => Some(tree),
        _ => None,
    });
    found.unwrap()
}

proptest! {
    #[test]
    fn ftrace_text_is_read_back(events in events(5)) {
        let text = ftrace(&events, &labels(5));
        let mut written = events.iter();
        for record in Reader::new(text.as_bytes()) {
            let record = record.unwrap();
            let Some(mut read) = event_of(&record, TaskId::IDLE) else { continue };
            let expected = written.next().unwrap();
            // What ftrace's text does not hold is taken from the event itself.
            match (&mut read.kind, expected.kind) {
                (EventKind::Waking { waker, .. }, EventKind::Waking { waker: known, .. }) => *waker = known,
                (EventKind::Mark { task, .. }, EventKind::Mark { task: known, .. }) => *task = known,
                _ => {}
            }
            prop_assert_eq!(read, *expected);
        }
        prop_assert!(written.next().is_none());
    }

    #[test]
    fn a_perfetto_bundle_is_sorted_and_of_one_cpu(events in events(5)) {
        let trace = perfetto(&events, &labels(5));
        let mut last = [0u64; CPUS as usize];
        let mut switches = 0;
        for (cpu, bundle) in bundles(&trace) {
            for event in bundle {
                let time = event.timestamp.unwrap();
                prop_assert!(time >= last[cpu as usize]);
                last[cpu as usize] = time;
                switches += usize::from(matches!(event.event, Some(ftrace_event::Event::SchedSwitch(_))));
            }
        }
        prop_assert_eq!(switches, events.iter().filter(|event| matches!(event.kind, EventKind::Switch { .. })).count());
        prop_assert!(trace.packet.iter().all(|packet| packet.trusted_packet_sequence_id == Some(1)));
    }
}

fn at(nanoseconds: u64, kind: EventKind) -> Event {
    Event { time: Time::from_nanos(nanoseconds), cpu: CpuId(1), kind }
}

#[test]
fn a_switch_carries_names_pids_priorities_and_the_kernels_state_bits() {
    let (a, b) = (TaskId(0), TaskId(1));
    let events = [
        at(1, EventKind::Switch { previous: TaskId::IDLE, state: TaskState::Running, next: a }),
        at(1_500, EventKind::Switch { previous: a, state: TaskState::Uninterruptible, next: b }),
    ];
    let trace = perfetto(&events, &labels(2));
    let bundles = bundles(&trace);
    let [(cpu, bundle)] = &bundles[..] else { panic!("one CPU, one bundle") };
    let Some(ftrace_event::Event::SchedSwitch(switch)) = &bundle[1].event else { panic!("a switch") };
    assert_eq!((*cpu, bundle[1].timestamp, bundle[1].pid), (1, Some(1_500), Some(1_000)));
    assert_eq!(
        (switch.prev_comm.as_deref(), switch.prev_pid, switch.prev_prio),
        (Some("task 0[0]"), Some(1_000), Some(115))
    );
    // TASK_UNINTERRUPTIBLE is 2 (include/linux/sched.h).
    assert_eq!(switch.prev_state, Some(2));
    assert_eq!(
        (switch.next_comm.as_deref(), switch.next_pid, switch.next_prio),
        (Some("task 1[0]"), Some(1_001), Some(116))
    );
    let Some(ftrace_event::Event::SchedSwitch(first)) = &bundle[0].event else { panic!("a switch") };
    assert_eq!((first.prev_comm.as_deref(), first.prev_pid), (Some("swapper/1"), Some(0)));
}

#[test]
fn a_task_ends_after_its_last_switch() {
    let task = TaskId(0);
    let events = [
        at(1, EventKind::Exit { task }),
        at(2, EventKind::Switch { previous: task, state: TaskState::Dead, next: TaskId::IDLE }),
    ];
    let trace = perfetto(&events, &labels(1));
    let kinds: Vec<_> = bundles(&trace)[0].1.iter().map(|event| event.event.as_ref().unwrap()).collect();
    use ftrace_event::Event::{SchedProcessExit, SchedProcessFree, SchedSwitch};
    assert!(matches!(kinds[..], [SchedProcessExit(_), SchedSwitch(_), SchedProcessFree(_)]), "{kinds:?}");
}

#[test]
fn forked_tasks_are_announced_and_the_others_stand_in_the_process_tree() {
    let mut labels = labels(3);
    labels[1].process = Some(TaskId(0));
    labels[2].process = Some(TaskId(0));
    let events = [
        at(0, EventKind::Fork { parent: TaskId::IDLE, child: TaskId(0) }),
        at(5, EventKind::Fork { parent: TaskId(0), child: TaskId(2) }),
    ];
    let trace = perfetto(&events, &labels);
    let tree = tree(&trace);
    let processes: Vec<_> = tree.processes.iter().map(|process| process.pid.unwrap()).collect();
    let threads: Vec<_> = tree.threads.iter().map(|thread| (thread.tid.unwrap(), thread.tgid.unwrap())).collect();
    assert_eq!((processes, threads), (vec![1_000], vec![(1_000, 1_000), (1_001, 1_000)]));
    let Some(ftrace_event::Event::TaskNewtask(new)) = &bundles(&trace)[0].1[0].event else { panic!("a new task") };
    // CLONE_THREAD is 0x10000 (include/uapi/linux/sched.h).
    assert_eq!((new.pid, new.clone_flags), (Some(1_002), Some(0x1_0000)));
}

#[test]
fn no_events_make_an_empty_trace() {
    assert!(bundles(&perfetto(&[], &[])).is_empty());
    assert!(Reader::new(ftrace(&[], &[]).as_bytes()).next().is_none());
}

#[test]
fn background_tasks_are_threads_of_a_process_of_their_own() {
    let mut labels = labels(3);
    labels[2].background = true;
    let mut bytes = Vec::new();
    write_perfetto(&mut bytes, &[], &labels, &PerfettoOptions { release: "6.12".into(), cpus: 1 }).unwrap();
    let trace = Trace::decode(bytes.as_slice()).unwrap();
    let tree = trace.packet.into_iter().find_map(|packet| match packet.data {
        Some(trace_packet::Data::ProcessTree(tree)) => Some(tree),
        _ => None,
    });
    let ProcessTree { processes, threads, .. } = tree.unwrap();
    let leaders: Vec<_> = threads.iter().map(|thread| (thread.tid.unwrap(), thread.tgid.unwrap())).collect();
    // A workload's task is a process; 999 is the process of what else runs.
    assert_eq!(leaders, [(1000, 1000), (1001, 1001), (1002, 999)]);
    let names: Vec<_> = processes.iter().map(|process| (process.pid.unwrap(), process.cmdline[0].as_str())).collect();
    assert_eq!(names, [(999, "background"), (1000, "task 0[0]"), (1001, "task 1[0]")]);
}
