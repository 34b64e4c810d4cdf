//! Pipes, sockets and latches: which task waits, and the order in which waiting tasks are woken.

use crate::common;

use common::{run, run_with, task, workload};
use schedlab_model::{Attributes, Channel, ChannelKind, Event, EventKind, Machine, Policy, Step, Workload};
use schedlab_sim::Options;

fn fifo(priority: u8) -> Attributes {
    Attributes { policy: Policy::Fifo(priority), ..Attributes::default() }
}

fn with_channel(mut workload: Workload, kind: ChannelKind) -> Workload {
    workload.channels = [("c".to_owned(), Channel { kind })].into();
    workload
}

fn times(count: u64, step: Step) -> Vec<Step> {
    vec![Step::Loop { count, steps: vec![step] }]
}

fn write(bytes: u32) -> Step {
    Step::Write { channel: "c".into(), bytes }
}

fn read(bytes: u32) -> Step {
    Step::Read { channel: "c".into(), bytes }
}

fn wakings(events: &[Event]) -> Vec<u32> {
    let waking = |event: &Event| match event.kind {
        EventKind::Waking { task, .. } => Some(task.0),
        _ => None,
    };
    events.iter().filter_map(waking).collect()
}

/// A writer above a reader on one CPU: how often each of them slept.
fn slept(kind: ChannelKind, bytes: u32, count: u64) -> [u64; 2] {
    let writer = task("writer", 1, fifo(2), times(count, write(bytes)));
    let reader = task("reader", 1, fifo(1), times(count, read(bytes)));
    let both = with_channel(workload(vec![writer, reader]), kind);
    let (outcome, _) = run(&both, "6.1", &Machine::ideal(1));
    assert_eq!((outcome.messages, outcome.bytes), (count, count * u64::from(bytes)));
    [outcome.tasks[0].voluntary, outcome.tasks[1].voluntary]
}

#[test]
fn a_writer_sleeps_once_for_each_page_that_does_not_fit_a_pipe() {
    // 16 pages fit. Each page that the reader takes from the full pipe wakes the writer, which comes at once, writes one and sleeps.
    assert_eq!(slept(ChannelKind::Pipe, 4096, 16), [0, 0]);
    assert_eq!(slept(ChannelKind::Pipe, 4096, 20), [4, 0]);
    // A page holds 40 messages of 100 bytes. The full pipe's reader wakes the writer at each message, in vain but for the fortieth:
    // to write 41 more than 640 fit it sleeps first and then after each of the first 39 reads; the fortieth makes room for 40.
    // The next message waits for 40 reads again, each of which wakes the writer.
    assert_eq!(slept(ChannelKind::Pipe, 100, 640), [0, 0]);
    assert_eq!(slept(ChannelKind::Pipe, 100, 640 + 40), [1 + 39, 0]);
    assert_eq!(slept(ChannelKind::Pipe, 100, 640 + 41), [2 * (1 + 39), 0]);
}

#[test]
fn a_writer_to_a_full_socket_sleeps_until_a_quarter_is_left() {
    // 278 messages of 100 bytes fit; the writer is woken when 69 are left, so 209 more fit before it sleeps again.
    assert_eq!(slept(ChannelKind::Socket, 100, 278), [0, 0]);
    assert_eq!(slept(ChannelKind::Socket, 100, 278 + 1), [1, 0]);
    assert_eq!(slept(ChannelKind::Socket, 100, 278 + 209), [1, 0]);
    assert_eq!(slept(ChannelKind::Socket, 100, 278 + 210), [2, 0]);
}

#[test]
fn a_message_larger_than_the_channel_goes_through_in_parts() {
    // A pipe takes 16 of the 25 pages, then one more each time the reader has taken what there was: it reads all 16 in one call,
    // which wakes the writer once; the remaining 9 then fit. The reader sleeps never: it has a call of its own for each part.
    assert_eq!(slept(ChannelKind::Pipe, 25 * 4096, 1), [1, 0]);
    // A socket's skbs of 36,544 bytes weigh 37,120 each: six of them fit (the sixth is begun at 185,600 < 212,992), 219,264 bytes.
    assert_eq!(slept(ChannelKind::Socket, 219_264, 1), [0, 0]);
    assert_eq!(slept(ChannelKind::Socket, 219_265, 1), [1, 0]);
}

fn three_readers(kind: ChannelKind) -> (Vec<u64>, Vec<u32>) {
    // Readers first, as they are above the writer; each ends after one message.
    let readers = task("reader", 3, fifo(3), vec![read(1)]);
    let writer = task("writer", 1, fifo(1), times(3, write(1)));
    let all = with_channel(workload(vec![readers, writer]), kind);
    let (outcome, events) = run(&all, "6.1", &Machine::ideal(1));
    (outcome.tasks[..3].iter().map(|task| task.wakeups).collect(), wakings(&events))
}

#[test]
fn a_pipe_wakes_one_reader_a_message_first_come_first_served() {
    assert_eq!(three_readers(ChannelKind::Pipe), (vec![1, 1, 1], vec![0, 1, 2]));
}

#[test]
fn a_socket_wakes_all_readers_last_come_first() {
    // The first message wakes 2, 1, 0; 2 takes it; 1 and then 0 go to sleep again. The second wakes 0 and 1; 0 takes it. The third 1.
    assert_eq!(three_readers(ChannelKind::Socket), (vec![2, 3, 1], vec![2, 1, 0, 0, 1, 1]));
}

#[test]
fn a_latch_wakes_all_who_wait_last_come_first_and_stays_open() {
    let waiters = task("waiter", 3, fifo(3), vec![Step::AwaitLatch("go".into()), Step::AwaitLatch("go".into())]);
    let opener = task("opener", 1, fifo(1), vec![Step::OpenLatch("go".into()), Step::AwaitLatch("go".into())]);
    let (outcome, events) = run(&workload(vec![waiters, opener]), "6.1", &Machine::ideal(1));
    assert_eq!(wakings(&events), [2, 1, 0]);
    assert_eq!(outcome.tasks.iter().map(|task| task.voluntary).collect::<Vec<_>>(), [1, 1, 1, 0]);
}

#[test]
fn a_woken_reader_that_finds_more_wakes_the_next() {
    // Both readers sleep. The writer, above them, writes two messages: the first, into the empty pipe, wakes reader 0; the second wakes no
    // task. Reader 0 slept, finds one left when it is done, and wakes reader 1.
    let readers = task("reader", 2, fifo(1), vec![read(1)]);
    let sleep = Step::Sleep(common::milliseconds(1));
    let writer = task("writer", 1, fifo(2), vec![sleep, write(1), write(1)]);
    let all = with_channel(workload(vec![readers, writer]), ChannelKind::Pipe);
    let (_, events) = run_with(&all, &common::scheduler("6.1"), &Machine::ideal(1), &Options::default()).unwrap();
    let wakers: Vec<(u32, u32)> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Waking { task, waker, .. } => Some((task.0, waker.0)),
            _ => None,
        })
        .collect();
    // First the writer's own timer.
    assert_eq!(wakers, [(2, u32::MAX), (0, 2), (1, 0)]);
}
