//! Files: who waits for the disk, for how long, and for whose turn.

mod common;

use common::*;
use schedlab_model::{
    Attributes, Costs, Devices, Event, EventKind, File, FileAccess, Machine, Offset, Opening, Policy, Step, TaskId,
    Time,
};

fn micros(count: u64) -> Time {
    Time::from_micros(count)
}

/// Times in microseconds of switches, and to whom; no task is -1.
fn switches(events: &[Event]) -> Vec<(u64, i64)> {
    let to = |task: TaskId| if task == TaskId::IDLE { -1 } else { task.index() as i64 };
    let switched = |event: &Event| match event.kind {
        EventKind::Switch { next, .. } => Some((event.time.as_nanos() / 1000, to(next))),
        _ => None,
    };
    events.iter().filter_map(switched).collect()
}

/// A system call takes 1 us, going to sleep 5, asking for an access of the disk 40, and the access 100.
fn machine() -> Machine {
    let costs = Costs { system_call: micros(1), block: micros(5), ..Costs::ideal() };
    let devices =
        Devices { disk_access: micros(40), disk_latency: micros(100), disk_per_kib: Time::ZERO, ..Devices::default() };
    Machine { devices, ..Machine::new(1, costs) }
}

/// Tasks of one real-time priority that each write a block to a file once.
fn writers(tasks: u32, open: Opening) -> schedlab_model::Workload {
    let policy = Policy::Fifo(1);
    let access = FileAccess { file: "f".into(), bytes: 4096, offset: Offset::Next };
    let mut all = workload(vec![task(
        "writer",
        tasks,
        Attributes { policy, ..Attributes::default() },
        vec![Step::WriteFile(access)],
    )]);
    all.files = [("f".to_owned(), File { size: 1 << 16, open })].into();
    all
}

#[test]
fn synchronous_writes_to_one_file_take_turns() {
    // In microseconds. The first has its turn: it asks for the access (1 + 40) and waits until 141. The others find that at 41 and 47, and
    // sleep (1 + 5 each). At 141 the first has written and wakes the second, which asks (40) until 181 and has written at 281. The third, which
    // slept all the time, asks until 321 and has written at 421.
    let (outcome, events) = run(&writers(3, Opening::Sync), "6.1", &machine());
    let expected = [
        (0, 0),
        (41, 1),
        (47, 2),
        (53, -1),
        (141, 0),
        (141, 1),
        (181, -1),
        (281, 1),
        (281, 2),
        (321, -1),
        (421, 2),
        (421, -1),
    ];
    assert_eq!(switches(&events), expected);
    assert_eq!([0, 1, 2].map(|task| outcome.tasks[task].voluntary), [1, 2, 2]);
    assert_eq!([0, 1, 2].map(|task| outcome.tasks[task].run_ns / 1000), [41, 46, 46]);
}

#[test]
fn accesses_past_the_page_cache_do_not_wait_for_one_another() {
    // Each asks (1 + 40) once the one before it sleeps, and is back 100 later.
    let (_, events) = run(&writers(3, Opening::Direct), "6.1", &machine());
    let asked = [(0, 0), (41, 1), (82, 2), (123, -1)];
    let back = [(141, 0), (141, -1), (182, 1), (182, -1), (223, 2), (223, -1)];
    assert_eq!(switches(&events), [&asked[..], &back[..]].concat());
}
