//! Tasks woken from another CPU while they go to sleep: before the last check they are found awake, after it they are woken once they are off the CPU.

use crate::common;

use common::{fifo, micros, microseconds, run, run_with, scheduler, switches, task, workload};
use schedlab_model::{
    Attributes, Channel, ChannelKind, Costs, Devices, Event, EventKind, File, FileAccess, Machine, Offset, Opening,
    Step, Time, Workload,
};
use schedlab_sim::Options;

const IDLE: u32 = u32::MAX;

/// In microseconds: a wake-up 4, of another CPU's task 3 more; an idle CPU sees a notification 5 later; a pass of the scheduler 6, a switch
/// 10; going to sleep 1 + 8, of which the pass is 6, and of the rest a call's 1 lies before the last look and 1 is the dequeue. So a task that goes to
/// sleep looks for the last time 2 after it began and is off 9 after it did. A read takes 2, of which 1 comes before it sleeps.
fn costs() -> Costs {
    Costs {
        wakeup: micros(4),
        wakeup_remote: micros(3),
        idle_exit: micros(5),
        schedule: micros(6),
        switch: micros(10),
        system_call: micros(1),
        pipe_read: micros(1),
        block: micros(8),
        ..Costs::ideal()
    }
}

/// Task 0 on CPU 0 and task 1 on CPU 1. Both idle CPUs come to their task at 5 + 6, and are there, with the switch, at 21.
fn both(first: Vec<Step>, second: Vec<Step>) -> Workload {
    let pinned = |cpu| Attributes { affinity: vec![cpu], ..fifo(1) };
    let mut both = workload(vec![task("first", 1, pinned(0), first), task("second", 1, pinned(1), second)]);
    both.channels = [("c".to_owned(), Channel { kind: ChannelKind::Pipe })].into();
    both
}

/// The switches after 11, with two CPUs at these costs: when, on which CPU, to which task.
fn later(workload: &Workload, release: &str, costs: Costs) -> Vec<(u64, u32, u32)> {
    let (_, events) = run(workload, release, &Machine::new(2, costs));
    switches(&events).into_iter().filter(|(time, ..)| *time > 11).collect()
}

/// The wake-ups after the beginning: when (in microseconds), of which task, by which one, [`IDLE`] for an interrupt.
fn woken(events: &[Event]) -> Vec<(u64, u32, u32)> {
    let waking = |event: &Event| match event.kind {
        EventKind::Waking { task, waker, .. } => Some((event.time.as_nanos() / 1000, task.0, waker.0)),
        _ => None,
    };
    events.iter().filter_map(waking).collect()
}

fn computes(time: u64) -> Step {
    Step::Run(microseconds(time))
}

/// Computes for so long, if at all, then does this, and computes 5.
fn does_after(time: u64, step: Step) -> Vec<Step> {
    let computing = if time > 0 { vec![computes(time)] } else { vec![] };
    [computing, vec![step, computes(5)]].concat()
}

/// Task 0 computes for so long and writes; task 1 reads, then computes 30.
fn write_after(time: u64) -> Workload {
    let write = Step::Write { channel: "c".into(), bytes: 1 };
    let read = Step::Read { channel: "c".into(), bytes: 1 };
    both(does_after(time, write), vec![read, computes(30)])
}

#[test]
fn what_is_written_before_the_last_look_is_found_awake() {
    // The reader looks at 23. The write takes 1: at 21 + 1 = 22, or at 23 just before (the lower CPU is first). It ends its read
    // by 24, and computes until 54. No task was woken: the writer goes on, 5, until 27 or 28.
    for (time, end) in [(0, 27), (1, 28)] {
        for release in common::RELEASES {
            let (outcome, events) = run(&write_after(time), release, &Machine::new(2, costs()));
            let after: Vec<_> = switches(&events).into_iter().filter(|(time, ..)| *time > 11).collect();
            assert_eq!(after, [(end, 0, IDLE), (54, 1, IDLE)], "{release}");
            assert_eq!((woken(&events), outcome.tasks[1].voluntary), (vec![], 0));
        }
    }
}

#[test]
fn what_is_written_after_the_last_look_wakes_the_reader_after_the_switch() {
    // At 25 the reader has looked, and it is off at 30. The switch to the idle task has interrupts off for as long as a pass, until 36:
    // then the CPU is notified. It wakes the reader, 4, and has not idled: a pass, 6, and at 46 the reader is switched in, until 56,
    // ends its read, 1, and computes 30. The writer notified another CPU, 3: 25 + 3 + 5.
    for release in common::RELEASES {
        let (outcome, events) = run(&write_after(3), release, &Machine::new(2, costs()));
        let after: Vec<_> = switches(&events).into_iter().filter(|(time, ..)| *time > 11).collect();
        assert_eq!(after, [(30, 1, IDLE), (33, 0, IDLE), (46, 1, 1), (87, 1, IDLE)], "{release}");
        assert_eq!((woken(&events), outcome.tasks[1].voluntary), (vec![(36, 1, IDLE)], 1));
    }
    // At 29 it is the same, but for the writer's end.
    let last = [(30, 1, IDLE), (37, 0, IDLE), (46, 1, 1), (87, 1, IDLE)];
    assert_eq!(later(&write_after(7), "6.1", costs()), last);
    // At 31 the writer wakes a sleeper: 4 + 3, then 5 out of idle, and a pass: 31 + 18.
    let asleep = [(30, 1, IDLE), (43, 0, IDLE), (49, 1, 1), (90, 1, IDLE)];
    assert_eq!(later(&write_after(9), "6.1", costs()), asleep);
}

#[test]
fn posts_signals_locks_and_latches_wake_who_departs_too() {
    let (lock, unlock) = (Step::Lock("m".into()), Step::Unlock("m".into()));
    let wait = Step::Wait { condition: "s".into(), mutex: "m".into() };
    // What task 0 does before and after it computes, and task 1; how long task 0 computes, and when it wakes then: before the last look, and after
    // it. That is at 23, or for a latch, which takes its call only once it is open, at 22; and so what task 1 then does takes 30 or 31.
    let cases = [
        // A post that no task waits for takes no time, another one a call.
        (vec![], Step::Post("s".into()), vec![Step::Acquire("s".into())], [(1, 22), (4, 26)], (23, 30)),
        (vec![lock.clone()], unlock.clone(), vec![lock.clone(), unlock.clone()], [(1, 22), (4, 26)], (23, 30)),
        // The task that waits for the condition is queued on it from 21 on.
        (vec![], Step::Signal("s".into()), vec![lock, wait, unlock], [(1, 23), (3, 25)], (23, 30)),
        (vec![], Step::OpenLatch("go".into()), vec![Step::AwaitLatch("go".into())], [(0, 22), (3, 25)], (22, 31)),
    ];
    for (before, wakes, waits, times, (look, rest)) in cases {
        for (computing, time) in times {
            let first = [before.clone(), does_after(computing, wakes.clone())].concat();
            let second = [waits.clone(), vec![computes(30)]].concat();
            let after = later(&both(first, second), "6.1", costs());
            let expected = if time <= look {
                vec![(time + 5, 0, IDLE), (look + rest, 1, IDLE)]
            } else {
                // The dequeue and the rest of the pass, 7, of the switch, 6, the wake-up and another pass.
                let off = look + 7;
                let mut expected =
                    vec![(off, 1, IDLE), (time + 3 + 5, 0, IDLE), (off + 16, 1, 1), (off + 26 + rest, 1, IDLE)];
                expected.sort_unstable();
                expected
            };
            assert_eq!(after, expected, "{wakes:?} at {time}");
        }
    }
}

#[test]
fn the_disk_wakes_who_departs_too() {
    // Task 1 copies and asks for the page, 1 + 40, at 62; the disk is done at 162, when its idle CPU sees to that. Task 0 writes the same page
    // and looks at it 2 after it began, for it to be back.
    let write = || {
        let access = FileAccess { file: "f".into(), bytes: 4096, offset: Offset::Next };
        Step::WriteFile(access)
    };
    let devices =
        Devices { disk_access: micros(40), disk_latency: micros(100), disk_per_kib: Time::ZERO, ..Devices::default() };
    let machine = Machine { devices, ..Machine::new(2, costs()) };
    let first_of_task_0 = |computing| {
        let mut both = both(vec![computes(computing), write()], vec![write()]);
        both.files = [("f".to_owned(), File { size: 1 << 16, open: Opening::Sync })].into();
        let (_, events) = run(&both, "6.1", &machine);
        let after = switches(&events).into_iter().filter(|(time, cpu, _)| *time > 11 && *cpu == 0);
        after.take(2).collect::<Vec<_>>()
    };
    // A look at 21 + 140 + 2 = 163 finds it back. It asks for the page again, 40, as it has written to it since: until 203, for 100.
    assert_eq!(first_of_task_0(140)[0], (203, 0, IDLE));
    // One at 157 does not. It is off at 164, and woken at 170.
    assert_eq!(first_of_task_0(134), [(164, 0, IDLE), (180, 0, 0)]);
}

#[test]
fn one_cpu_looks_last() {
    // No other CPU writes meanwhile. Of its read (2) the reader has half to do before it sleeps, and is off at 11 + 10 + 1 + 8 = 30. Of these 8,
    // 1 joins the waiters, 6 are the pass, and 1 is the dequeue. The writer is there at 40, writes at 42 (for which it pays 4), and computes 5. The
    // wake-up does not preempt, as both tasks are equal.
    let mut one = write_after(1);
    one.tasks.swap(0, 1);
    one.tasks.iter_mut().for_each(|task| task.attributes = Some(fifo(1)));
    let (_, events) = run(&one, "6.1", &Machine::new(1, costs()));
    assert_eq!(switches(&events)[..3], [(11, 0, 0), (30, 0, 1), (51, 0, 0)]);
}

#[test]
fn skipping_ticks_changes_nothing_for_departing_tasks() {
    let word = common::word("pipe:loops=500");
    for release in common::RELEASES {
        let runs = [false, true].map(|no_tick_skip| {
            let options = Options { no_tick_skip, ..Options::default() };
            run_with(&word, &scheduler(release), &Machine::new(2, common::some_costs()), &options)
                .expect("a run that ends")
        });
        assert_eq!(runs[0].1, runs[1].1, "{release}");
    }
}
