//! Files: which task waits for the disk, for how long, and behind which others.

use crate::common;

use common::*;
use schedlab_model::{
    Attributes, Costs, Devices, Event, EventKind, File, FileAccess, Machine, Offset, Opening, Policy, Preempt, Step,
    TaskId, Time,
};

fn micros(count: u64) -> Time {
    Time::from_micros(count)
}

/// The switches: when (in microseconds), and to which task; idle is -1.
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

fn access() -> FileAccess {
    FileAccess { file: "f".into(), bytes: 4096, offset: Offset::Next }
}

/// Tasks of one real-time priority that each do some steps with a file once.
fn with_a_file(tasks: Vec<(u32, Vec<Step>)>, open: Opening) -> schedlab_model::Workload {
    let attributes = Attributes { policy: Policy::Fifo(1), ..Attributes::default() };
    let named = |(number, (instances, steps)): (usize, (u32, Vec<Step>))| {
        task(&format!("writer.{number}"), instances, attributes.clone(), steps)
    };
    let mut all = workload(tasks.into_iter().enumerate().map(named).collect());
    all.files = [("f".to_owned(), File { size: 1 << 16, open })].into();
    all
}

/// Tasks that each write the first block.
fn writers(tasks: u32, open: Opening) -> schedlab_model::Workload {
    with_a_file(vec![(tasks, vec![Step::WriteFile(access())])], open)
}

#[test]
fn synchronous_writes_of_one_page_wait_for_its_way_to_the_disk() {
    // In microseconds. Task 0 copies and asks for the page (1 + 40) until 141. The others copy, find it on its way and sleep (1 + 5 each).
    // At 141 all three are woken. Task 0 sees to the inode, whose times changed: it asks for the table block (40) until 281. Task 1 asks for
    // the page again (40) until 321; that has what task 2 wrote, too, which sleeps for it (5). At 281 task 0 has done. At 321 task 1 sees to
    // the inode, which takes nothing as this is the same tick, and task 2 finds it seen to.
    let expected = [
        (0, 0),
        (41, 1),
        (47, 2),
        (53, -1),
        (141, 0),
        (181, 1),
        (221, 2),
        (226, -1),
        (281, 0),
        (281, -1),
        (321, 1),
        (321, 2),
        (321, -1),
    ];
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let (outcome, events) = run(&writers(3, Opening::Sync), release, &machine());
        assert_eq!(switches(&events), expected, "{release}");
        assert_eq!([0, 1, 2].map(|task| outcome.tasks[task].voluntary), [2, 2, 2]);
        assert_eq!([0, 1, 2].map(|task| outcome.tasks[task].run_ns / 1000), [81, 46, 11]);
    }
}

#[test]
fn who_sees_to_the_inode_waits_for_all_pages_and_the_others_for_that() {
    // Task 0 asks for the first page (1 + 40) until 141. Task 1 reads it (1) and asks for the second one (1 + 40) until 183. At 141 task 0
    // sees to the inode: it sleeps (5) for the other one's page. At 183 both are woken, who asked for the page first. Task 1 finds task 0
    // at it, and sleeps (5) till 188; task 0 asks for the table block (40) until 328, and wakes task 1, which finds nothing left to do.
    let tasks =
        vec![(1, vec![Step::WriteFile(access())]), (1, vec![Step::ReadFile(access()), Step::WriteFile(access())])];
    let expected =
        [(0, 0), (41, 1), (83, -1), (141, 0), (146, -1), (183, 1), (188, 0), (228, -1), (328, 0), (328, 1), (328, -1)];
    for release in ["5.10", "6.12"] {
        let (outcome, events) = run(&with_a_file(tasks.clone(), Opening::Sync), release, &machine());
        assert_eq!(switches(&events), expected, "{release}");
        assert_eq!([0, 1].map(|task| outcome.tasks[task].voluntary), [3, 2]);
    }
}

#[test]
fn since_6_5_who_finds_the_inode_seen_to_waits_for_its_table_block_too() {
    // Tasks 0 and 1 as above. Task 2 sets its timer at 84 for 65, sleeps from 89 on, and writes the first page (1 + 40) from 149 to 190, when
    // task 0 is past that: it is on its way until 290. From 190 on tasks 1 (5) and 0 (40) do what they did from 183 on, so that the table block
    // is on its way from 235 to 335. At 290 task 2 finds the inode clean, and has done; from 6.5 on it sleeps (5) for the table block.
    let sleep = Step::Sleep(schedlab_model::Duration::Fixed(micros(65)));
    let tasks = vec![
        (1, vec![Step::WriteFile(access())]),
        (1, vec![Step::ReadFile(access()), Step::WriteFile(access())]),
        (1, vec![sleep, Step::WriteFile(access())]),
    ];
    for (release, sleeps) in [("5.10", 2), ("6.1", 2), ("6.12", 3), ("7.2", 3)] {
        let (outcome, _) = run(&with_a_file(tasks.clone(), Opening::Sync), release, &machine());
        assert_eq!(outcome.tasks[2].voluntary, sleeps, "{release}");
        assert_eq!(outcome.elapsed_ns, 335_000, "{release}");
    }
}

#[test]
fn accesses_past_the_page_cache_do_not_wait_for_one_another() {
    // Each asks (1 + 40) once the one before it sleeps, and is back 100 later.
    let (_, events) = run(&writers(3, Opening::Direct), "6.1", &machine());
    let asked = [(0, 0), (41, 1), (82, 2), (123, -1)];
    let back = [(141, 0), (141, -1), (182, 1), (182, -1), (223, 2), (223, -1)];
    assert_eq!(switches(&events), [&asked[..], &back[..]].concat());
}

/// A machine on which kernel threads complete writes: 20 us each, 7 more for the first one of a block, which takes its task 10 more, and 13 for
/// each access of the disk.
fn machine_with_workers() -> Machine {
    let machine = machine();
    let devices = Devices {
        first_write: micros(10),
        completion: micros(20),
        first_completion: micros(7),
        completion_access: micros(13),
        ..machine.devices
    };
    Machine { devices, ..machine }
}

/// Tasks that each begin some writes of the file's only block, one after the other, as that machine runs them.
fn begun_writes(tasks: u32, writes: u64) -> schedlab_model::Workload {
    let submit = Step::Loop { count: writes, steps: vec![Step::SubmitWrite { access: access(), depth: 1 }] };
    let mut all = with_a_file(vec![(tasks, vec![submit])], Opening::Direct);
    all.files = [("f".to_owned(), File { size: 4096, open: Opening::Direct })].into();
    machine_with_workers().with_background(all).expect("no task of that name")
}

#[test]
fn a_kernel_thread_completes_a_write_that_a_task_began() {
    // In microseconds. Task 0 begins the block's first write (1 + 40 + 10) until 51, which the disk has done at 151. Task 1, the worker,
    // makes the block an initialised one (20 + 7), of the only extent, which is in the inode; then it asks for the inode's table block (13), as the
    // file's times changed, from 191 to 291, and wakes task 0. Its second write is none of those things: it is begun (1 + 40) until 332, when the
    // worker finds no write left, done at 432, and completed (20) at 452.
    let expected =
        [(0, 0), (51, -1), (151, 1), (191, -1), (291, 1), (291, 0), (332, 1), (332, -1), (432, 1), (452, 0), (452, 1)];
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let (outcome, events) = run(&begun_writes(1, 2), release, &machine_with_workers());
        assert_eq!(switches(&events)[..expected.len() - 1], expected[..expected.len() - 1], "{release}");
        let [writer, worker] = &outcome.tasks[..] else { panic!("{:?}", outcome.tasks) };
        assert_eq!((outcome.turnaround_ns, writer.run_ns, writer.voluntary), (452_000, 92_000, 2), "{release}");
        assert_eq!((worker.name.as_str(), worker.background), ("kworker/0:dio", true), "{release}");
        assert_eq!(worker.run_ns, 60_000, "{release}");
    }
}

#[test]
fn workers_wait_for_one_another_s_table_block_since_6_5() {
    // Task 0 begins the block's first write until 51 (done at 151), task 1 overwrites it (1 + 40) until 92 (done at 192). One worker takes the
    // first write (27) until 178, sees to the inode (13) and sleeps for its table block from 191 to 291; then it wakes task 0. The other one takes the
    // second (20) until 212, finds the inode seen to, and wakes task 1; since 6.5 it waits (5) for the table block too.
    for (release, ends) in [("5.10", 212), ("6.1", 212), ("6.12", 291), ("7.2", 291)] {
        let (outcome, events) = run(&begun_writes(2, 1), release, &machine_with_workers());
        let ran = |task| switches(&events).iter().rev().find(|(_, to)| *to == task).map(|(at, _)| *at);
        assert_eq!([ran(0), ran(1)], [Some(291), Some(ends)], "{release}");
        assert_eq!(outcome.turnaround_ns, 291_000, "{release}");
    }
}

#[test]
fn first_writes_of_a_file_hold_its_lock_one_after_the_other_before_6_3() {
    // In microseconds, each task on a CPU of its own. Both look at 1 whether their block was written. Before 6.3 task 0 takes the inode's lock for
    // itself, makes room (10) and hands the write to the disk (40) until 51; task 1 gives up and sleeps (5) from 6 to 51, when the block was written.
    // Since then both hold the lock, and task 1 sleeps only while task 0 makes room, from 6 to 11, and makes room itself.
    for (release, sleep, first) in [("5.10", 45, 0), ("6.1", 45, 0), ("6.12", 5, 10), ("7.2", 5, 10)] {
        let machine = Machine { cpus: 2, ..machine_with_workers() };
        let submit = Step::SubmitWrite { access: access(), depth: 8 };
        let pinned = |cpu| Attributes { affinity: vec![cpu], ..Attributes::default() };
        let tasks = [0, 1].map(|cpu| task(&format!("writer.{cpu}"), 1, pinned(cpu), vec![submit.clone()]));
        let mut all = workload(tasks.to_vec());
        all.files = [("f".to_owned(), File { size: 64 * 4096, open: Opening::Direct })].into();
        let (outcome, _) = run(&machine.with_background(all).unwrap(), release, &machine);
        let found = [0, 1].map(|task| (outcome.tasks[task].sleep_ns / 1000, outcome.tasks[task].run_ns / 1000));
        assert_eq!(found, [(0, 51), (sleep, 46 + first)], "{release}");
    }
}

#[test]
fn a_worker_sleeps_for_the_extent_tree_that_a_writer_holds() {
    // In microseconds. Task 0, on CPU 0, begins the first write of the file's first block until 51, which the disk has done at 151; CPU 0's worker
    // has completed it (20) at 171, but for the tree. Task 1, on CPU 1, begins an overwrite of that block at 125 (1 + 40), looks (1), and makes room for
    // the next block from 167 to 177. The worker gives up (5) and sleeps from 176 to 177. Had task 1 begun at 225, the worker would not have.
    let pinned = |cpu| Attributes { affinity: vec![cpu], ..Attributes::default() };
    for (begins, sleeps) in [(125, true), (225, false)] {
        let machine = Machine { cpus: 2, ..machine_with_workers() };
        let submit = Step::SubmitWrite { access: FileAccess { bytes: 4096, ..access() }, depth: 8 };
        let work = Step::Run(schedlab_model::Duration::Fixed(micros(begins)));
        let tasks = vec![
            task("first", 1, pinned(0), vec![submit.clone(), Step::AwaitFiles]),
            task("second", 1, pinned(1), vec![work, submit.clone(), submit]),
        ];
        let mut all = workload(tasks);
        all.files = [("f".to_owned(), File { size: 64 * 4096, open: Opening::Direct })].into();
        let (_, events) = run(&machine.with_background(all).unwrap(), "6.12", &machine);
        let switches = switches(&events);
        let slept = switches.contains(&(176, -1)) && switches.iter().any(|(at, to)| *at == 177 && *to > 1);
        assert_eq!(slept, sleeps, "{begins} {switches:?}");
    }
}

#[test]
fn without_their_cost_no_kernel_thread_is_there_and_the_disk_completes_writes_by_itself() {
    let submit = Step::SubmitWrite { access: access(), depth: 1 };
    let alone = with_a_file(vec![(1, vec![submit])], Opening::Direct);
    assert_eq!(machine().with_background(alone.clone()).unwrap(), alone);
    // A machine that has such threads has none beside a workload that begins no writes, nor where none were added.
    let waits = writers(1, Opening::Direct);
    assert_eq!(machine_with_workers().with_background(waits.clone()).unwrap(), waits);
    let devices = Devices { first_write: Time::ZERO, ..machine_with_workers().devices };
    let by_itself = run(&alone, "6.12", &Machine { devices, ..machine() }).0;
    assert_eq!(by_itself.turnaround_ns, 141_000);
    assert_eq!(by_itself, run(&alone, "6.12", &machine()).0);
}

/// A machine on which a kernel thread hands each access to the disk, which takes it 8 us.
fn machine_with_dispatchers() -> Machine {
    let machine = machine_with_workers();
    Machine { devices: Devices { dispatch: micros(8), ..machine.devices }, ..machine }
}

#[test]
fn a_kernel_thread_hands_accesses_to_the_disk() {
    // In microseconds. Task 0 asks (1 + 40) until 41 and sleeps; task 1, the thread, hands the access over (8) until 49, which is done at 149.
    let machine = machine_with_dispatchers();
    let fair = |steps| {
        let mut all = workload(vec![task("writer", 1, Attributes::default(), steps)]);
        all.files = [("f".to_owned(), File { size: 4096, open: Opening::Direct })].into();
        machine.with_background(all).unwrap()
    };
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let (outcome, events) = run(&fair(vec![Step::ReadFile(access())]), release, &machine);
        assert_eq!(switches(&events)[..4], [(0, 0), (41, 1), (49, -1), (149, 0)], "{release}");
        let thread = &outcome.tasks[1];
        assert_eq!((thread.name.as_str(), thread.background, thread.run_ns), ("kworker/0H:kblockd", true, 8_000));
    }
    // A write that the task begins until 51 (1 + 10 + 40) and waits for: the thread, task 2, hands it over until 59, so that task 1, the worker, has it
    // at 159. The thread hands over the worker's access as well.
    let (outcome, events) = run(&fair(vec![Step::SubmitWrite { access: access(), depth: 1 }]), "5.10", &machine);
    assert_eq!(switches(&events)[..4], [(0, 0), (51, 2), (59, -1), (159, 1)]);
    assert_eq!(outcome.tasks[2].run_ns, 16_000);
}

#[test]
fn a_task_that_writes_the_table_block_offers_to_be_preempted_before_it_sleeps() {
    // In microseconds. The page's access (1 + 40) is handed over as task 0 sleeps for it: from 41 to 49, done at 149. Asking for the table block (13)
    // until 162 wakes the thread (8), which preempts the task there, as any task does that is not SCHED_IDLE: it sleeps from 170 on, until the block is
    // on the disk at 270. From 7.0 on the task is marked lazily and sleeps at 162.
    let machine = machine_with_dispatchers();
    let idle = Attributes { policy: Policy::Idle, ..Attributes::default() };
    let mut all = workload(vec![task("writer", 1, idle, vec![Step::WriteFile(access())])]);
    all.files = [("f".to_owned(), File { size: 4096, open: Opening::Sync })].into();
    let all = machine.with_background(all).unwrap();
    let before = [(0, 0), (41, 1), (49, -1), (149, 0), (162, 1)];
    let after = [(170, -1), (270, 0), (270, -1)];
    for (release, back, preempted) in
        [("5.10", &[(170, 0)][..], 1), ("6.1", &[(170, 0)], 1), ("6.12", &[(170, 0)], 1), ("7.2", &[], 0)]
    {
        let (outcome, events) = run(&all, release, &machine);
        assert_eq!(switches(&events), [&before[..], back, &after].concat(), "{release}");
        let writer = &outcome.tasks[0];
        assert_eq!((writer.voluntary, writer.involuntary, writer.run_ns), (2, preempted, 54_000), "{release}");
    }
}

#[test]
fn an_access_for_metadata_and_the_switch_after_it_take_together_what_was_measured() {
    // The table block takes 40, as any access, and a switch of 4; or, as measured, 13 with the switch: 31 less.
    let costs = Costs { switch: micros(4), ..machine().costs };
    let turnaround = |completion_access| {
        let devices = Devices { completion_access, ..machine().devices };
        let machine = Machine { costs: costs.clone(), devices, ..machine() };
        run(&writers(1, Opening::Sync), "6.12", &machine).0.turnaround_ns
    };
    assert_eq!(turnaround(Time::ZERO) - turnaround(micros(13)), 31_000);
}

#[test]
fn a_thread_hands_over_accesses_where_there_are_any_and_it_has_a_cost() {
    let reads = |open| {
        let mut all = workload(vec![task("reader", 1, Attributes::default(), vec![Step::ReadFile(access())])]);
        all.files = [("f".to_owned(), File { size: 4096, open })].into();
        all
    };
    for (open, machine, threads) in [
        (Opening::Direct, machine_with_dispatchers(), 2),
        (Opening::Cached, machine_with_dispatchers(), 0),
        (Opening::Direct, machine_with_workers(), 0),
    ] {
        let beside = Machine { cpus: 2, ..machine }.with_background(reads(open)).unwrap();
        assert_eq!(beside.tasks.len() - 1, threads, "{open:?}");
    }
}

/// A machine on which a block's first synchronous write takes its task 10 us more, and a kernel thread 30 to end its writeback.
fn machine_with_first_writes() -> Machine {
    let machine = machine();
    let devices = Devices { first_sync_write: micros(10), first_writeback: micros(30), ..machine.devices };
    Machine { devices, ..machine }
}

#[test]
fn a_kernel_thread_ends_the_writeback_of_a_block_s_first_write() {
    // In microseconds. Task 0 copies and asks for the page (1 + 40 + 10) until 51; it is on the disk at 151. Task 1, the worker, makes the block a
    // written one (30) until 181 and wakes task 0, which asks for the table block (40) until 221; it is there at 321. The worker idles. The
    // second write is an overwrite (1 + 40): it is asked for until 362, and the disk's interrupt wakes task 0 at 462; the tick is the same.
    let write = Step::Loop { count: 2, steps: vec![Step::WriteFile(FileAccess { bytes: 4096, ..access() })] };
    let mut all = with_a_file(vec![(1, vec![write])], Opening::Sync);
    all.files = [("f".to_owned(), File { size: 4096, open: Opening::Sync })].into();
    let all = machine_with_first_writes().with_background(all).unwrap();
    let expected =
        [(0, 0), (51, -1), (151, 1), (181, 0), (221, 1), (221, -1), (321, 0), (362, -1), (462, 0), (462, -1)];
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let (outcome, events) = run(&all, release, &machine_with_first_writes());
        assert_eq!(switches(&events)[..expected.len() - 1], expected[..expected.len() - 1], "{release}");
        let [writer, worker] = &outcome.tasks[..] else { panic!("{:?}", outcome.tasks) };
        assert_eq!((writer.run_ns, writer.voluntary), (132_000, 3), "{release}");
        assert_eq!((worker.name.as_str(), worker.background, worker.run_ns), ("kworker/u:ext4", true, 30_000));
    }
}

#[test]
fn waiting_for_a_page_that_is_written_for_the_first_time_is_waiting_for_the_kernel_thread() {
    // Task 0 asks for the page until 51, and task 1 copies, finds it on its way, and sleeps (1 + 5) until 57. The disk has it at 151, and the
    // worker, task 2, ends the writeback (30) at 181: only then both are woken. Task 0 asks for the table block (40) until 221, which is there at
    // 321, task 1 for the page, which it overwrites (40), until 261, which is there at 361.
    let all = machine_with_first_writes().with_background(writers(2, Opening::Sync)).unwrap();
    let expected =
        [(0, 0), (51, 1), (57, -1), (151, 2), (181, 0), (221, 1), (261, 2), (261, -1), (321, 0), (321, -1), (361, 1)];
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let (outcome, events) = run(&all, release, &machine_with_first_writes());
        assert_eq!(switches(&events)[..expected.len()], expected, "{release}");
        assert_eq!([0, 1, 2].map(|task| outcome.tasks[task].run_ns / 1000), [91, 46, 30], "{release}");
    }
}

#[test]
fn without_preemption_a_task_ends_its_access_before_a_thread_that_an_interrupt_woke() {
    // In microseconds. Task 0 asks for its page until 51, which is on the disk at 151: the interrupt wakes task 2, the thread. Task 1 computes for 90
    // until 141, and asks for an access (1 + 40) until 182; or it computes until after 151, which the thread does not wait for. 7.2 preempts lazily.
    // Task 1 is SCHED_IDLE, so that any other task preempts it.
    let computes = |time| Step::Run(schedlab_model::Duration::Fixed(micros(time)));
    let idle = Attributes { policy: Policy::Idle, ..Attributes::default() };
    let read = Step::ReadFile(FileAccess { file: "g".into(), ..access() });
    for (release, preempt, time, came) in [
        ("6.1", Preempt::Full, 90, 151),
        ("6.1", Preempt::None, 90, 182),
        ("6.1", Preempt::None, 200, 151),
        ("7.2", Preempt::Full, 90, 182),
    ] {
        let machine = Machine { preempt, ..machine_with_first_writes() };
        let mut all = workload(vec![
            task("writer", 1, Attributes::default(), vec![Step::WriteFile(access())]),
            task("reader", 1, idle.clone(), vec![computes(time), read.clone()]),
        ]);
        let file = |open| File { size: 1 << 16, open };
        all.files = [("f".to_owned(), file(Opening::Sync)), ("g".to_owned(), file(Opening::Direct))].into();
        let (_, events) = run(&machine.with_background(all).unwrap(), release, &machine);
        let first = switches(&events).into_iter().find(|(_, to)| *to == 2);
        assert_eq!(first, Some((came, 2)), "{release} {preempt:?} {time}");
    }
}

#[test]
fn without_a_thread_the_disk_s_interrupt_ends_a_first_write_too() {
    // The write takes 10 us more than the overwrite that it is without that cost: 1 + 40 + 10, 100, the table block's 40, and 100.
    let devices = Devices { first_writeback: Time::ZERO, ..machine_with_first_writes().devices };
    let (first, ordinary) = (Machine { devices, ..machine() }, machine());
    let alone = writers(1, Opening::Sync);
    assert_eq!(first.with_background(alone.clone()).unwrap(), alone);
    assert_eq!(run(&alone, "6.12", &first).0.turnaround_ns, 291_000);
    assert_eq!(run(&alone, "6.12", &ordinary).0.turnaround_ns, 281_000);
    // Where it was measured what an access for metadata costs, the table block costs that: 13 instead of 40.
    let devices = Devices { completion_access: micros(13), ..machine().devices };
    assert_eq!(run(&alone, "6.12", &Machine { devices, ..machine() }).0.turnaround_ns, 254_000);
}

#[test]
fn a_file_that_is_read_was_filled_so_that_its_writes_are_overwrites() {
    let steps = vec![Step::ReadFile(access()), Step::WriteFile(access())];
    let all = with_a_file(vec![(3, steps)], Opening::Sync);
    assert_eq!(machine_with_first_writes().with_background(all.clone()).unwrap(), all);
    for release in ["5.10", "7.2"] {
        let runs = [machine_with_first_writes(), machine()].map(|machine| run(&all, release, &machine));
        assert_eq!(runs[0], runs[1], "{release}");
    }
}

#[test]
fn every_first_write_ends_on_several_cpus() {
    // Each of four tasks writes all 64 blocks, of which each is first once.
    let costs = Costs { switch: micros(4), wakeup: micros(3), schedule: micros(1), ..machine().costs };
    for (cpus, release) in [(1, "5.10"), (2, "6.1"), (4, "6.12"), (3, "7.2")] {
        let machine = Machine { cpus, costs: costs.clone(), ..machine_with_first_writes() };
        let write = Step::Loop { count: 64, steps: vec![Step::WriteFile(access())] };
        let mut all = workload(vec![task("writer", 4, Attributes::default(), vec![write])]);
        all.files = [("f".to_owned(), File { size: 64 * 4096, open: Opening::Sync })].into();
        let (outcome, _) = run(&machine.with_background(all).unwrap(), release, &machine);
        let worker = outcome.tasks.last().unwrap();
        assert!(worker.background && worker.run_ns >= 64 * 30_000, "{cpus} {release} {worker:?}");
    }
}

#[test]
fn there_are_as_many_workers_as_writes_that_may_be_under_way() {
    // On each CPU: two tasks that begin one write at a time, and one that each of them makes, which has three under way: 2 x 1 + 2 x 3.
    let begun = |depth| Step::SubmitWrite { access: access(), depth };
    let fork = Step::Fork { task: "writer.1".into(), count: 1 };
    let mut all = with_a_file(vec![(2, vec![fork, begun(1)]), (0, vec![begun(2), begun(3)])], Opening::Direct);
    for (cpus, workers) in [(1, 8), (2, 16)] {
        let machine = Machine { cpus, ..machine_with_workers() };
        let beside = machine.with_background(all.clone()).unwrap();
        assert_eq!(beside.tasks[2..].iter().map(|task| task.instances).sum::<u32>(), workers);
    }
    all.tasks[0].steps[0] = Step::Loop { count: 10, steps: vec![all.tasks[0].steps[0].clone()] };
    // Twenty of depth 3 and two of depth 1.
    assert_eq!(machine_with_workers().with_background(all).unwrap().tasks[2].instances, 62);
}

#[test]
fn every_write_is_completed_whatever_happens_between_a_worker_s_look_and_its_sleep() {
    // Switches, wake-ups and passes take time, so that writes are done while workers come and go. Each write takes its worker 20 us at least.
    let costs = Costs { switch: micros(4), wakeup: micros(3), schedule: micros(1), ..machine().costs };
    for (cpus, tasks, depth, release) in
        [(1, 2, 8, "6.12"), (2, 4, 3, "6.12"), (3, 6, 9, "5.10"), (4, 4, 1, "7.2"), (8, 6, 5, "6.1")]
    {
        let machine = Machine { cpus, costs: costs.clone(), ..machine_with_workers() };
        let submit = Step::Loop { count: 100, steps: vec![Step::SubmitWrite { access: access(), depth }] };
        let all = with_a_file(vec![(tasks, vec![submit, Step::AwaitFiles])], Opening::Direct);
        let (outcome, _) = run(&machine.with_background(all).unwrap(), release, &machine);
        let worked: u64 = outcome.tasks.iter().filter(|task| task.background).map(|task| task.run_ns).sum();
        assert!(worked >= u64::from(tasks) * 100 * 20_000, "{cpus} {release} {worked}");
    }
}

/// A machine whose disk has a write cache: a flush takes its task 3 us, the kernel thread that hands it to the disk 7, and the disk 100.
fn machine_with_a_write_cache() -> Machine {
    let machine = machine();
    let devices =
        Devices { flush: micros(3), flush_dispatch: micros(7), flush_latency: micros(100), ..machine.devices };
    Machine { devices, ..machine }
}

#[test]
fn a_synchronous_write_ends_with_a_flush_that_a_kernel_thread_hands_to_the_disk() {
    // In microseconds. Task 0 asks for the page (1 + 40) until 41 and the table block (40) until 181, which is there at 281; then for a flush (3)
    // until 284. Task 1, the thread, hands it to the disk (7) until 291, which has done it at 391.
    let all = machine_with_a_write_cache().with_background(writers(1, Opening::Sync)).unwrap();
    let expected = [(0, 0), (41, -1), (141, 0), (181, -1), (281, 0), (284, 1), (291, -1), (391, 0), (391, -1)];
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let (outcome, events) = run(&all, release, &machine_with_a_write_cache());
        assert_eq!(switches(&events), expected, "{release}");
        let [writer, thread] = &outcome.tasks[..] else { panic!("{:?}", outcome.tasks) };
        assert_eq!((writer.run_ns, writer.voluntary), (84_000, 3), "{release}");
        assert_eq!((thread.name.as_str(), thread.background, thread.run_ns), ("kworker/0H:kblockd", true, 7_000));
    }
}

#[test]
fn tasks_that_ask_while_a_flush_is_under_way_share_the_next_one() {
    // Past the page cache: the tasks ask for their accesses until 41, 82 and 123, and for a flush 100 and 3 later: at 144, 185 and 226. The
    // first flush goes to the disk at 151 and is done at 251; the one that the other two share is handed to it (7) at 258, and done at 358.
    let machine = machine_with_a_write_cache();
    let all = machine.with_background(writers(3, Opening::Direct)).unwrap();
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        let (outcome, events) = run(&all, release, &machine);
        let last = |task| switches(&events).iter().rev().find(|(_, to)| *to == task).map(|(at, _)| *at);
        assert_eq!([last(0), last(1), last(2)], [Some(251), Some(358), Some(358)], "{release}");
        assert_eq!(outcome.tasks[3].run_ns, 14_000, "{release}");
    }
    // Without the thread's cost the tasks hand them to the disk themselves: 144 to 244 and 344.
    let devices = Devices { flush_dispatch: Time::ZERO, ..machine.devices };
    let alone = Machine { devices, ..machine.clone() };
    assert_eq!(alone.with_background(writers(3, Opening::Direct)).unwrap(), writers(3, Opening::Direct));
    assert_eq!(run(&writers(3, Opening::Direct), "6.12", &alone).0.turnaround_ns, 344_000);
    // Nothing is flushed where no task waits for the disk.
    assert_eq!(machine.with_background(writers(1, Opening::Cached)).unwrap(), writers(1, Opening::Cached));
}

#[test]
fn workers_flush_before_a_write_that_a_task_began_is_done() {
    // The overwrite of `a_kernel_thread_completes_a_write_that_a_task_began`: begun (1 + 40) until 445, on the disk at 545, completed (20) at 565;
    // then the flush (3 + 7 + 100) until 675.
    let devices = Devices {
        flush: micros(3),
        flush_dispatch: micros(7),
        flush_latency: micros(100),
        ..machine_with_workers().devices
    };
    let machine = Machine { devices, ..machine() };
    let submit = Step::Loop { count: 1, steps: vec![Step::SubmitWrite { access: access(), depth: 1 }] };
    let all = machine.with_background(with_a_file(vec![(1, vec![submit])], Opening::Direct)).unwrap();
    // The first write: 51, the disk's 100, 27, 13 and 100 for the table block, and the flush's 110.
    assert_eq!(run(&all, "6.12", &machine).0.turnaround_ns, (51 + 100 + 40 + 100 + 110) * 1_000);
}

#[test]
fn one_cpu_may_take_all_of_the_disk_s_interrupts() {
    // The task runs on CPU 0 alone, which leaves idle (10), and asks for its access until 51. At 151 the disk's interrupt wakes it: on its own CPU, or
    // from CPU 1 (2), whose notification CPU 0 looks at 10 later. That a CPU leaves idle for the disk's interrupt is a part of the disk's latency.
    let costs = Costs { wakeup_remote: micros(2), idle_exit: micros(10), ..machine().costs };
    let mut all = writers(1, Opening::Direct);
    all.tasks[0].attributes.as_mut().unwrap().affinity = vec![0];
    for (disk_cpu, ends) in [(None, 151_000), (Some(0), 151_000), (Some(1), 163_000), (Some(7), 151_000)] {
        let devices = Devices { disk_cpu, ..machine().devices };
        let machine = Machine { cpus: 2, costs: costs.clone(), devices, ..machine() };
        assert_eq!(run(&all, "6.12", &machine).0.turnaround_ns, ends, "{disk_cpu:?}");
    }
    // The workers of that CPU complete what tasks of the others begin.
    let devices = Devices { disk_cpu: Some(1), ..machine_with_workers().devices };
    let machine = Machine { cpus: 2, costs, devices, ..machine() };
    let submit = Step::SubmitWrite { access: access(), depth: 1 };
    let mut all = with_a_file(vec![(1, vec![submit])], Opening::Direct);
    all.tasks[0].attributes.as_mut().unwrap().affinity = vec![0];
    let (outcome, _) = run(&machine.with_background(all).unwrap(), "6.12", &machine);
    let ran = |name: &str| outcome.tasks.iter().find(|task| task.name == name).map(|task| task.run_ns);
    assert_eq!(ran("kworker/0:dio"), Some(0));
    assert!(ran("kworker/1:dio") > Some(0));
}

#[test]
fn the_disk_s_interrupt_takes_time_from_the_task_that_it_interrupts() {
    // Task 0 asks for its access until 41, and its interrupt comes at 141 while task 1 computes (200): a real-time task of one priority goes on until
    // 241, and later by the interrupt, which takes 4, or what a timer's does, 9.
    let costs = Costs { interrupt: micros(9), ..machine().costs };
    let tasks =
        vec![(1, vec![Step::WriteFile(access())]), (1, vec![Step::Run(schedlab_model::Duration::Fixed(micros(200)))])];
    let all = with_a_file(tasks, Opening::Direct);
    for (disk_interrupt, ends) in [(micros(4), 245_000), (Time::ZERO, 250_000)] {
        let devices = Devices { disk_interrupt, ..machine().devices };
        let machine = Machine { costs: costs.clone(), devices, ..machine() };
        assert_eq!(run(&all, "6.12", &machine).0.turnaround_ns, ends, "{disk_interrupt}");
    }
}
