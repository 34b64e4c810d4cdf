//! Whole runs derived by hand: which task runs when, and which task is charged.

use crate::common;

use common::{fifo, micros, microseconds, milliseconds, run, run_with, scheduler, shares, switches, task, workload};
use schedlab_model::{
    Attributes, Channel, ChannelKind, Costs, Event, EventKind, Machine, Policy, Scheduler, Step, TaskId, TaskKind,
    Time, Workload,
};
use schedlab_sim::Options;

const IDLE: u32 = u32::MAX;

fn write(channel: &str, bytes: u32) -> Step {
    Step::Write { channel: channel.into(), bytes }
}

fn read(channel: &str, bytes: u32) -> Step {
    Step::Read { channel: channel.into(), bytes }
}

fn with_channels(mut workload: Workload, kind: ChannelKind, names: &[&str]) -> Workload {
    workload.channels = names.iter().map(|name| ((*name).to_owned(), Channel { kind })).collect();
    workload
}

fn wakings(events: &[Event]) -> Vec<u32> {
    let waking = |event: &Event| match event.kind {
        EventKind::Waking { task, .. } => Some(task.0),
        _ => None,
    };
    events.iter().filter_map(waking).collect()
}

/// When a task comes, in microseconds.
fn comes(events: &[Event], task: u32) -> Vec<u64> {
    switches(events).into_iter().filter(|(_, _, next)| *next == task).map(|(time, _, _)| time).collect()
}

#[test]
fn two_hogs_take_turns_of_a_tick() {
    // 6.1 on one CPU: latency 6 ms for two tasks makes slices of 3 ms, so at 250 Hz the first tick that finds more than that is the one at
    // 4 ms. EEVDF: a request of 0.7 ms is long served at 4 ms. Then the task that ran less is next; equal ones in the order in which they
    // were queued.
    let hogs = workload(vec![task("hog", 2, Attributes::default(), vec![Step::Run(milliseconds(12))])]);
    for release in ["6.1", "5.10", "6.12", "6.18"] {
        let (outcome, events) = run(&hogs, release, &Machine::ideal(1));
        let turns =
            [(0, 0, 0), (4000, 0, 1), (8000, 0, 0), (12_000, 0, 1), (16_000, 0, 0), (20_000, 0, 1), (24_000, 0, IDLE)];
        assert_eq!(switches(&events), turns, "{release}");
        // The first hog waits for two turns of the other's, the second for three.
        assert_eq!(shares(&outcome, 0), [20_000, 12_000, 8000, 0]);
        assert_eq!(shares(&outcome, 1), [24_000, 12_000, 12_000, 0]);
        assert_eq!((outcome.tasks[0].involuntary, outcome.tasks[1].involuntary), (2, 2));
        // Seven times another task comes; four of these a task that could go on was taken off.
        assert_eq!((outcome.tasks[0].voluntary, outcome.switches), (0, 4));
    }
    // At 1000 Hz the tick at 3 ms finds more than the slice already: __calc_delta multiplies with an inverse weight of 32 bits,
    // ⌊(2³² − 1) / 2048·1024⌋ = 2047, and 6 ms · 1024·1024 · 2047 / 2³² = 2.9985 ms.
    let scheduler = Scheduler { hz: 1000, ..scheduler("6.1") };
    let (_, events) = run_with(&hogs, &scheduler, &Machine::ideal(1), &Options::default()).unwrap();
    let turns: Vec<(u64, u32, u32)> = (0..8).map(|turn| (3000 * turn, 0, turn as u32 % 2)).collect();
    assert_eq!(switches(&events)[..8], turns);
}

#[test]
fn nice_levels_share_by_weight() {
    // Nice 0 weighs 1024, nice 5 335: of the first 100 ms, in which both run, the first gets 1024/1359 = 75.3 %. What is off is at
    // most a tick (4 ms) of either.
    let nice = Attributes { nice: 5, ..Attributes::default() };
    let hog = || vec![Step::Run(milliseconds(1000))];
    let hogs = workload(vec![task("plain", 1, Attributes::default(), hog()), task("nice", 1, nice, hog())]);
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2"] {
        let (outcome, _) = run(&hogs, release, &Machine::ideal(1));
        // The plain one ends its second when 1000 · 1359/1024 = 1327.1 ms have passed.
        let ended = outcome.tasks[0].life_ns as f64 / 1e6;
        assert!((ended - 1327.1).abs() <= 8.0, "{release}: {ended} ms");
    }
}

#[test]
fn round_robin_takes_turns_of_its_slice() {
    // 100 ms, the default of rr_timeslice, are 25 ticks.
    let rr = Attributes { policy: Policy::Rr(5), ..Attributes::default() };
    let hogs = workload(vec![task("hog", 2, rr, vec![Step::Run(milliseconds(150))])]);
    let (_, events) = run(&hogs, "6.1", &Machine::ideal(1));
    let turns = [(0, 0, 0), (100_000, 0, 1), (200_000, 0, 0), (250_000, 0, 1), (300_000, 0, IDLE)];
    assert_eq!(switches(&events), turns);
}

#[test]
fn fifo_preempts_other_in_the_middle_of_its_work() {
    // The sleeper wakes at 3 ms and takes the CPU at once, for 5 ms; the hog has 7 of its 10 ms left.
    let sleeper = vec![Step::Sleep(milliseconds(3)), Step::Run(milliseconds(5))];
    let hog = vec![Step::Run(milliseconds(10))];
    let both = workload(vec![task("hog", 1, Attributes::default(), hog), task("sleeper", 1, fifo(1), sleeper)]);
    for release in common::RELEASES {
        let (outcome, events) = run(&both, release, &Machine::ideal(1));
        let expected = [(0, 0, 1), (0, 0, 0), (3000, 0, 1), (8000, 0, 0), (15_000, 0, IDLE)];
        assert_eq!(switches(&events), expected, "{release}");
        assert_eq!(shares(&outcome, 0), [15_000, 10_000, 5000, 0]);
        assert_eq!(shares(&outcome, 1), [8000, 5000, 0, 3000]);
    }
    // The interrupt that wakes it costs 100 µs before the switch. The clock of the queue stands still from the wake-up on, so that the woken
    // task is charged for them, and has not waited.
    let costs = Costs { wakeup: micros(100), ..Costs::ideal() };
    let (outcome, _) = run(&both, "6.1", &Machine::new(1, costs));
    assert_eq!([shares(&outcome, 0), shares(&outcome, 1)], [[15_100, 10_000, 5100, 0], [8100, 5100, 0, 3000]]);
    assert_eq!((outcome.tasks[1].user_ns, outcome.tasks[1].system_ns), (5_000_000, 100_000));
}

fn costs_of_messages() -> Costs {
    Costs {
        system_call: micros(1),
        pipe_write: micros(2),
        pipe_read: micros(3),
        wakeup: micros(4),
        block: micros(5),
        switch: micros(10),
        ..Costs::ideal()
    }
}

#[test]
fn a_ping_pong_pays_for_each_of_its_steps() {
    // In microseconds: a call 1, a write 2 and a read 3 beyond it, going to sleep and coming back 5, a wake-up 4, a switch 10. A call that
    // sleeps has half of its own time (2 of 4) before that, and as long as a call (1) of going to sleep. The rest of that (4) is the dequeue, for
    // which the next task is charged; the rest of the call (2) comes once the task is back.
    //  0  ping comes (10), writes (3): 13. No task reads yet. It begins to read (2), finds nothing, goes to sleep (1), and is dequeued (4): 20.
    // 20  pong comes (10), reads (4): 34; writes (3): 37, which wakes ping. Both are FIFO 1, so pong goes on; what the wake-up cost (4)
    //     delays its end to 41.
    // 41  ping comes (10) and ends its read (2): 53.
    let ping = task("ping", 1, fifo(1), vec![write("to", 1), read("fro", 1)]);
    let pong = task("pong", 1, fifo(1), vec![read("to", 1), write("fro", 1)]);
    let both = with_channels(workload(vec![ping, pong]), ChannelKind::Pipe, &["to", "fro"]);
    let (outcome, events) = run(&both, "6.1", &Machine::new(1, costs_of_messages()));
    assert_eq!(switches(&events), [(0, 0, 0), (20, 0, 1), (41, 0, 0), (53, 0, IDLE)]);
    assert_eq!(wakings(&events), [0]);
    assert_eq!(shares(&outcome, 0), [53, 20 - 4 + 12, 41 - 37, 37 - 20]);
    assert_eq!(shares(&outcome, 1), [41, 21 + 4, 20 - 4, 0]);
    assert_eq!((outcome.messages, outcome.bytes), (2, 2));
}

#[test]
fn a_reader_that_slept_ends_its_call_once_it_is_back() {
    // As before, with a pass of the scheduler of 2. Of the 5 of going to sleep and coming back 1 joins the waiters, 2 are the pass, and 2 the dequeue.
    // Half of the read (2) comes after the wake-up.
    //   0  both are there: the CPU picks a task (2).
    //   2  the reader comes (10), begins to read (2), joins the waiters (1), and the scheduler takes it off (2 + 2): 19.
    //  19  the writer comes (10), computes (100), writes (3): 132, which wakes the reader (4), which the scheduler finds (2): 138.
    // 138  the reader comes (10), ends its read (2) and ends: 150. The writer comes (10) and computes (50): 210.
    // The writer is charged for the pass in which the reader goes to sleep (4), and the reader for all since its wake-up. Neither counts as waiting, nor
    // does what the CPU needs to leave idle for the reader.
    let costs = Costs { schedule: micros(2), ..costs_of_messages() };
    let steps = vec![Step::Run(microseconds(100)), write("c", 1), Step::Run(microseconds(50))];
    let both = workload(vec![task("reader", 1, fifo(2), vec![read("c", 1)]), task("writer", 1, fifo(1), steps)]);
    let both = with_channels(both, ChannelKind::Pipe, &["c"]);
    let (outcome, events) = run(&both, "6.1", &Machine::new(1, costs.clone()));
    assert_eq!(switches(&events), [(2, 0, 0), (19, 0, 1), (138, 0, 0), (150, 0, 1), (210, 0, IDLE)]);
    assert_eq!(shares(&outcome, 0), [150, 17 - 4 + (150 - 132), 0, 132 - 19]);
    assert_eq!(shares(&outcome, 1), [210, 4 + (132 - 19) + 60, 19 - 4 + (150 - 132), 0]);
    // On one of two CPUs, which both are bound to, it is the same: another task waits there.
    let mut bound = both.clone();
    bound.tasks.iter_mut().for_each(|task| task.attributes.iter_mut().for_each(|own| own.affinity = vec![0]));
    let (outcome, events) = run(&bound, "6.1", &Machine::new(2, costs.clone()));
    assert_eq!(switches(&events), [(2, 0, 0), (19, 0, 1), (138, 0, 0), (150, 0, 1), (210, 0, IDLE)]);
    assert_eq!([0, 1].map(|task| shares(&outcome, task)[1]), [17 - 4 + (150 - 132), 4 + (132 - 19) + 60]);
    // Where going to sleep takes no longer than joining the waiters and the pass, half of the read is left (2).
    let costs = Costs { block: micros(3), ..costs };
    let (_, events) = run(&both, "6.1", &Machine::new(1, costs));
    assert_eq!(switches(&events), [(2, 0, 0), (17, 0, 1), (136, 0, 0), (148, 0, 1), (208, 0, IDLE)]);
}

#[test]
fn a_socket_s_reader_has_done_no_more_than_a_pipe_s_before_it_sleeps() {
    // A socket's read takes 20 beyond the call, a pipe's 3 and its write 2. Before it sleeps the reader has done half of what a pipe's does (2); what is
    // left of the 21 comes once it is back, with the message.
    //   0  the reader comes (10), begins to read (2), joins the waiters (1), and is dequeued (4): 17.
    //  17  the writer comes (10), computes (100), writes (3), which wakes the reader (4): 134.
    // 134  the reader comes (10), ends its read (19) and ends: 163.
    let costs = Costs { socket_read: micros(20), socket_write: micros(2), ..costs_of_messages() };
    let reader = task("reader", 1, fifo(2), vec![read("c", 1)]);
    let writer = task("writer", 1, fifo(1), vec![Step::Run(microseconds(100)), write("c", 1)]);
    let both = with_channels(workload(vec![reader, writer]), ChannelKind::Socket, &["c"]);
    let (_, events) = run(&both, "6.1", &Machine::new(1, costs.clone()));
    assert_eq!(switches(&events)[..4], [(0, 0, 0), (17, 0, 1), (134, 0, 0), (163, 0, 1)]);
    // The reader, at home on the first of two CPUs, sleeps after 10 + 2 + 5, and the writer's message is there at 10 + 100 + 3. The wake-up (4) is
    // the writer's; the reader comes (10) and does the other 19.
    let (_, events) = run(&both, "6.1", &Machine::new(2, costs));
    let readers: Vec<_> = switches(&events).into_iter().filter(|(_, cpu, _)| *cpu == 0).collect();
    assert_eq!(readers, [(0, 0, 0), (17, 0, IDLE), (117, 0, 0), (146, 0, IDLE)]);
}

#[test]
fn a_delayed_dequeue_shortens_the_pass_of_a_read_that_sleeps_and_its_wake_up() {
    // As above without a pass, and a delayed dequeue saves 8: a quarter of the wake-up (2), the rest of the switch to the next task (6).
    //   0  the reader comes (10), begins to read (2) and goes to sleep (5): 17. It has run more than the writer, so that its dequeue is delayed.
    //  17  the writer comes (10 - 6), computes (100) and writes (3): 124, which wakes the reader (4 - 2), still queued: 126. It has run
    //     more than the reader by now, and is preempted.
    // 126  the reader comes (10) and ends its read (2): 138. The writer comes (10) and ends.
    let costs = Costs { lingering: micros(8), ..costs_of_messages() };
    let timeline = |steps: Vec<Step>, costs: &Costs| {
        let both = workload(vec![
            task("reader", 1, Attributes::default(), vec![read("c", 1)]),
            task("writer", 1, Attributes::default(), steps),
        ]);
        let both = with_channels(both, ChannelKind::Pipe, &["c"]);
        run(&both, "6.12", &Machine::new(1, costs.clone())).1
    };
    let events = timeline(vec![Step::Run(microseconds(100)), write("c", 1)], &costs);
    assert_eq!(switches(&events), [(0, 0, 0), (17, 0, 1), (126, 0, 0), (138, 0, 1), (148, 0, IDLE)]);
    // A writer that sleeps before it writes leaves the reader alone on the queue, which is dequeued then. What the switch to the writer has saved (6)
    // that to the reader takes; the writer ends as much earlier, and the reader when it would without a delayed dequeue.
    let steps = || vec![Step::Run(microseconds(100)), Step::Sleep(microseconds(50)), write("c", 1)];
    let [delayed, at_once] = [costs, costs_of_messages()].map(|costs| switches(&timeline(steps(), &costs)));
    assert_eq!(delayed.len(), at_once.len());
    assert_eq!(delayed[..2], at_once[..2]);
    let end = delayed.len() - 1;
    assert!((2..end).all(|at| delayed[at].0 == at_once[at].0 - 6), "{delayed:?}, {at_once:?}");
    assert_eq!(delayed[end], at_once[end]);
}

#[test]
fn a_task_that_preempts_its_waker_runs_once_that_is_out_of_the_kernel() {
    // In microseconds: a call 1, a write 2 and a read 3 beyond it, going to sleep 5, a wake-up 4, a pass of the scheduler 6, a switch 10.
    //   0  both are there: the CPU picks a task (6).
    //   6  the reader comes (10), begins to read (2) and goes to sleep (5): 23.
    //  23  the writer comes (10), computes (100), writes (3): 136, which wakes the reader. It does what waking takes (4), and the
    //      scheduler finds the reader (6): 146.
    // 146  the reader comes (10), ends its read (2) and ends: 158. The writer comes (10) and computes (50): 218.
    // The writer is charged for 5 of the pass in which the reader goes to sleep, and the reader for all since its wake-up: neither counts as waiting.
    let costs = Costs { schedule: micros(6), ..costs_of_messages() };
    let steps = vec![Step::Run(microseconds(100)), write("c", 1), Step::Run(microseconds(50))];
    let both = workload(vec![task("reader", 1, fifo(2), vec![read("c", 1)]), task("writer", 1, fifo(1), steps)]);
    let both = with_channels(both, ChannelKind::Pipe, &["c"]);
    let (outcome, events) = run(&both, "6.1", &Machine::new(1, costs));
    assert_eq!(switches(&events), [(6, 0, 0), (23, 0, 1), (146, 0, 0), (158, 0, 1), (218, 0, IDLE)]);
    assert_eq!(shares(&outcome, 0), [158, 17 - 5 + (158 - 136), 0, 136 - 23]);
    assert_eq!(shares(&outcome, 1), [218, 5 + (136 - 23) + 60, 23 - 5 + (158 - 136), 0]);
}

#[test]
fn a_timer_wakes_once_the_cpu_is_out_of_idle_and_its_interrupt_over() {
    // In microseconds: leaving idle takes 50, a wake-up 4, a pass of the scheduler 6. The task is there at 0 and comes at 56. It sleeps
    // for 100 until 156; its CPU takes the timer's interrupt at 206, and the task runs at 216. On an idle CPU the queue's clock stands from the wake-up
    // to the switch, so that none of that counts as waiting.
    let costs = Costs { idle_exit: micros(50), wakeup: micros(4), schedule: micros(6), ..Costs::ideal() };
    let steps = vec![Step::Sleep(microseconds(100)), Step::Run(microseconds(10))];
    let alone = workload(vec![task("sleeper", 1, Attributes::default(), steps.clone())]);
    for release in common::RELEASES {
        let (outcome, events) = run(&alone, release, &Machine::new(1, costs.clone()));
        assert_eq!(switches(&events), [(56, 0, 0), (56, 0, IDLE), (216, 0, 0), (226, 0, IDLE)], "{release}");
        assert_eq!(shares(&outcome, 0), [226, 10, 0, 206 - 56], "{release}");
    }
    // Where another one computes, that is interrupted at once: by the wake-up and the scheduler's pass, for which the woken one is charged, so that the
    // other one waits from the wake-up on.
    let hog = task("hog", 1, fifo(1), vec![Step::Run(microseconds(200))]);
    let both = workload(vec![hog, task("sleeper", 1, fifo(2), steps)]);
    let (outcome, events) = run(&both, "6.1", &Machine::new(1, costs));
    assert_eq!(switches(&events), [(56, 0, 1), (56, 0, 0), (166, 0, 1), (176, 0, 0), (276, 0, IDLE)]);
    assert_eq!(shares(&outcome, 0), [276, 200, 56 + 10 + 10, 0]);
}

#[test]
fn a_cpu_that_idled_through_a_tick_sees_to_it_before_it_switches() {
    // In microseconds, ticks at 4000, 8000, …: to see to one that had stopped takes 7, a wake-up 4, a pass of the scheduler 6. The task is
    // there at 0, comes at 6, and sleeps for 3900: it comes 4 + 6 after that, at 3916. Then it sleeps for 100, in which there is the time of
    // a tick: it comes 4 + 7 + 6 after that, at 4033.
    let costs = Costs { tick_restart: micros(7), wakeup: micros(4), schedule: micros(6), ..Costs::ideal() };
    let steps = vec![Step::Sleep(microseconds(3900)), Step::Sleep(microseconds(100))];
    let alone = workload(vec![task("sleeper", 1, Attributes::default(), steps)]);
    for release in common::RELEASES {
        let (_, events) = run(&alone, release, &Machine::new(1, costs.clone()));
        let expected = [(6, 0, 0), (6, 0, IDLE), (3916, 0, 0), (3916, 0, IDLE), (4033, 0, 0), (4033, 0, IDLE)];
        assert_eq!(switches(&events), expected, "{release}");
    }
}

#[test]
fn a_task_that_waits_for_a_condition_unlocks_its_mutex_before_it_sleeps() {
    // In microseconds: a system call 1, going to sleep 5 beyond it. 'urgent' comes first, sets its timer at 1 for 56 and sleeps from 6 on; 'waits' has the mutex and
    // has computed 50 of 100 then. 'urgent' asks for the mutex, and sleeps at 56 + 1 + 5 = 62; 'waits' computes until 112 and gives the
    // mutex back, a call, until 113. 'urgent' takes it at once, signals (a call), and computes until 134. So 'waits', which comes
    // then, never slept: it has its mutex and computes 10 more.
    let costs = Costs { system_call: micros(1), block: micros(5), ..Costs::ideal() };
    let (lock, unlock) = (Step::Lock("m".into()), Step::Unlock("m".into()));
    let wait = Step::Wait { condition: "c".into(), mutex: "m".into() };
    let steps = vec![lock.clone(), Step::Run(microseconds(100)), wait, unlock.clone(), Step::Run(microseconds(10))];
    let waits = task("waits", 1, fifo(1), steps);
    let steps =
        vec![Step::Sleep(microseconds(55)), lock, Step::Signal("c".into()), unlock, Step::Run(microseconds(20))];
    let urgent = task("urgent", 1, fifo(2), steps);
    let (outcome, events) = run(&workload(vec![waits, urgent]), "6.1", &Machine::new(1, costs));
    let expected = [(0, 0, 1), (6, 0, 0), (56, 0, 1), (62, 0, 0), (113, 0, 1), (134, 0, 0), (144, 0, IDLE)];
    assert_eq!(switches(&events), expected);
    assert_eq!([0, 1].map(|task| outcome.tasks[task].voluntary), [0, 2]);
    assert_eq!([0, 1].map(|task| outcome.tasks[task].involuntary), [2, 0]);
}

#[test]
fn waking_a_remote_idle_cpu_costs_the_waker_and_takes_its_way_out_of_idle() {
    // Leaving idle takes 50 µs. Both come to CPU 0, where no task runs yet (select_task_rq_rt); at 50 the writer is set to run, and the
    // reader that waits beside it is pushed to CPU 1, which leaves idle until 100. The reader goes to sleep until 105 (block: 5). The
    // writer has run 1000 µs at 1050 and wakes the reader on CPU 1; that costs it 4 + 6, so it ends at 1060, and there the reader's CPU is
    // notified: it schedules at 1110. A wake-up on an idle CPU counts no waiting; being pushed to one does.
    let costs = Costs {
        wakeup: micros(4),
        wakeup_remote: micros(6),
        idle_exit: micros(50),
        block: micros(5),
        ..Costs::ideal()
    };
    let (outcome, events) = run(&writer_and_reader(), "6.1", &Machine::new(2, costs));
    let expected = [(50, 0, 0), (100, 1, 1), (105, 1, IDLE), (1060, 0, IDLE), (1110, 1, 1), (1110, 1, IDLE)];
    assert_eq!(switches(&events), expected);
    assert_eq!(shares(&outcome, 0), [1060, 1010, 0, 0]);
    assert_eq!(shares(&outcome, 1), [1110, 5, 100, 1050 - 105]);
    assert_eq!(outcome.cpu_busy_ns, [1_010_000, 5000]);
}

#[test]
fn a_task_that_another_cpu_woke_is_charged_with_the_end_of_the_way_out_of_idle() {
    // As before, but of the 50 µs out of idle the last 30 come after the wake-up there, and 8 more where the CPU idled for long. The reader's CPU
    // idles from 105 on and is notified at 1060: it schedules at 1118, and the reader is charged with 38 before that, and with 5 as it went to sleep.
    // The CPU's time is what it is by the events.
    let costs = Costs {
        wakeup: micros(4),
        wakeup_remote: micros(6),
        idle_exit: micros(50),
        idle_charged: micros(30),
        idle_switch: micros(8),
        block: micros(5),
        ..Costs::ideal()
    };
    let (outcome, events) = run(&writer_and_reader(), "6.1", &Machine::new(2, costs));
    let expected = [(50, 0, 0), (100, 1, 1), (105, 1, IDLE), (1060, 0, IDLE), (1118, 1, 1), (1118, 1, IDLE)];
    assert_eq!(switches(&events), expected);
    assert_eq!(shares(&outcome, 1), [1118, 5 + 38, 100, 1050 - 105]);
    assert_eq!(outcome.cpu_busy_ns, [1_010_000, 5000]);
}

#[test]
fn a_remote_cpu_takes_longer_out_of_a_long_idle_period() {
    // In microseconds: a wake-up takes 4, leaving idle 50, 8 more after 200 and 20 more where the CPU idled through a tick. The reader idles
    // from 100 on (its CPU had idled for less than 200), and is woken at 1050, at 3050 and at 8050 of the writer's time, that begins at 50: after
    // 950 the switch comes at 1050 + 4 + 58 = 1112, and after the tick at 4000, which comes as the reader idles since 3116, it is 20 later.
    let costs = Costs {
        wakeup: micros(4),
        idle_exit: micros(50),
        idle_switch: micros(8),
        tick_restart: micros(20),
        ..Costs::ideal()
    };
    let steps = [1000, 2000, 5000].into_iter().flat_map(|time| [Step::Run(microseconds(time)), write("c", 1)]);
    let writer = task("writer", 1, fifo(1), steps.collect());
    let reader = task("reader", 1, fifo(1), vec![Step::Loop { count: 3, steps: vec![read("c", 1)] }]);
    let both = with_channels(workload(vec![writer, reader]), ChannelKind::Pipe, &["c"]);
    let (_, events) = run(&both, "6.1", &Machine::new(2, costs));
    // The writer is at 1054 after the first message, at 3058 after the second one and at 8062 after the third.
    assert_eq!(comes(&events, 1), [100, 1054 + 58, 3058 + 58, 8062 + 58 + 20]);
}

/// A reader on CPU 1, and a writer on CPU 0 that computes for 1 ms before it wakes the reader.
fn writer_and_reader() -> Workload {
    let writer = task("writer", 1, fifo(1), vec![Step::Run(milliseconds(1)), write("c", 1)]);
    let reader = task("reader", 1, fifo(1), vec![read("c", 1)]);
    with_channels(workload(vec![writer, reader]), ChannelKind::Pipe, &["c"])
}

#[test]
fn the_waker_of_an_idle_cpu_pays_for_the_interrupt() {
    // As before, with an interrupt of 3 µs: the writer pays 4 + 6 + 3 and ends at 1063, and then the reader's CPU is notified.
    let costs = Costs {
        wakeup: micros(4),
        wakeup_remote: micros(6),
        ipi_idle: micros(3),
        ipi: micros(100),
        idle_exit: micros(50),
        block: micros(5),
        ..Costs::ideal()
    };
    let (outcome, events) = run(&writer_and_reader(), "6.1", &Machine::new(2, costs));
    let expected = [(50, 0, 0), (100, 1, 1), (105, 1, IDLE), (1063, 0, IDLE), (1113, 1, 1), (1113, 1, IDLE)];
    assert_eq!(switches(&events), expected);
    assert_eq!(shares(&outcome, 0), [1063, 1013, 0, 0]);
    assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
}

#[test]
fn a_cpu_that_has_idled_for_long_was_given_away() {
    // Idling for 200 µs or more costs the waker 7 µs beyond the 3 of its interrupt, and the way out of idle takes 30 beyond 10; and so it is after
    // the next idle period, however short, as the hypervisor has stopped polling. Both CPUs idled before the run: the writer comes at 40; the reader
    // comes at 80 at the latest, and sleeps at once. At 540 the reader has idled for 460 or more: the writer is at 550, the reader comes at 550 + 40.
    // At 600 it has idled for 10, but for long the time before: the writer is at 610, the reader comes at 650. At 660 it has idled for 10, and for
    // 10 before: the writer pays 3, and the reader comes at 663 + 10.
    let costs = Costs {
        ipi_idle: micros(3),
        ipi_halted: micros(7),
        idle_exit: micros(10),
        halt_exit: micros(30),
        ..Costs::ideal()
    };
    let steps = [500, 50, 50].into_iter().flat_map(|time| [Step::Run(microseconds(time)), write("c", 1)]);
    let writer = task("writer", 1, fifo(1), steps.collect());
    let reader = task("reader", 1, fifo(1), vec![Step::Loop { count: 3, steps: vec![read("c", 1)] }]);
    let both = with_channels(workload(vec![writer, reader]), ChannelKind::Pipe, &["c"]);
    for release in common::RELEASES {
        let (outcome, events) = run(&both, release, &Machine::new(2, costs.clone()));
        assert_eq!(comes(&events, 1)[1..], [590, 650, 673], "{release}");
        assert_eq!(outcome.tasks[0].life_ns, 663_000, "{release}");
    }
}

#[test]
fn a_timer_too_waits_for_a_cpu_that_was_given_away() {
    // The task comes at 40. It sleeps for 100 µs, within which the CPU is not given away, but the time before it was: it comes 10 + 30 after 140. Of the
    // next 100, it comes 10 late; of 200, 40.
    let costs = Costs { idle_exit: micros(10), halt_exit: micros(30), ..Costs::ideal() };
    let sleeps = [100, 100, 200].map(|time| Step::Sleep(microseconds(time)));
    let alone = workload(vec![task("sleeper", 1, fifo(1), sleeps.to_vec())]);
    for release in common::RELEASES {
        let (_, events) = run(&alone, release, &Machine::new(1, costs.clone()));
        assert_eq!(comes(&events, 0), [40, 180, 290, 530], "{release}");
    }
}

#[test]
fn a_cpu_that_was_given_away_for_longer_comes_back_later() {
    // As before, and 10 µs for each millisecond beyond the first 200 µs, of 10 ms at most. Asleep since 40 for 3.2 ms, the task comes at 3240 + 10 + 30 + 30;
    // for 15 ms, at 18,310 + 10 + 30 + 98.
    let costs = Costs { idle_exit: micros(10), halt_exit: micros(30), halt_deeper: micros(10), ..Costs::ideal() };
    let sleeps = [3_200, 15_000].map(|time| Step::Sleep(microseconds(time)));
    let alone = workload(vec![task("sleeper", 1, fifo(1), sleeps.to_vec())]);
    for release in common::RELEASES {
        let (_, events) = run(&alone, release, &Machine::new(1, costs.clone()));
        assert_eq!(comes(&events, 0), [40, 3_310, 18_448], "{release}");
    }
}

#[test]
fn a_hypervisor_s_tick_delays_the_wake_up_that_it_falls_into() {
    // It takes 20 µs in the middle of each millisecond. The writer comes at 50 and computes for 440: at 490 it wakes the reader, which takes 4 and the way out
    // of idle 50. The tick at 500 falls into that: the reader comes at 490 + 54 + 20. What operations take was measured with such ticks: the writer goes on for
    // 100 at 494.
    let costs = Costs {
        wakeup: micros(4),
        idle_exit: micros(50),
        steal: micros(20),
        steal_period: Time::from_millis(1),
        ..Costs::ideal()
    };
    let steps = vec![Step::Run(microseconds(440)), write("c", 1), Step::Run(microseconds(100))];
    let reader = task("reader", 1, fifo(1), vec![read("c", 1)]);
    let both = with_channels(workload(vec![task("writer", 1, fifo(1), steps), reader]), ChannelKind::Pipe, &["c"]);
    let (outcome, events) = run(&both, "6.1", &Machine::new(2, costs));
    assert_eq!(comes(&events, 1), [100, 564]);
    assert_eq!(outcome.tasks[0].life_ns, 594_000);
}

#[test]
fn a_tick_between_a_wake_up_and_the_switch_delays_it() {
    // The writer comes at 50 and wakes the reader at 3990: 4 for that and 50 out of idle, with the tick at 4000 in between, of 30.
    let costs = Costs { wakeup: micros(4), idle_exit: micros(50), tick: micros(30), ..Costs::ideal() };
    let writer = task("writer", 1, fifo(1), vec![Step::Run(microseconds(3_940)), write("c", 1)]);
    let reader = task("reader", 1, fifo(1), vec![read("c", 1)]);
    let both = with_channels(workload(vec![writer, reader]), ChannelKind::Pipe, &["c"]);
    let (_, events) = run(&both, "6.1", &Machine::new(2, costs));
    assert_eq!(comes(&events, 1), [100, 3_990 + 54 + 30]);
}

#[test]
fn an_interrupt_that_preempts_takes_time_on_both_cpus() {
    // The hog and the reader are on CPU 1, the writer on CPU 0. All come at 6 µs, after a pass of the scheduler; the reader sleeps at once. At
    // 106 the writer wakes it: 4 for that and 3 for the interrupt, so that it ends at 113. The interrupt takes 7 of the hog's time and the pass 6: the
    // reader comes at 113 + 7 + 6 = 126, and the hog has its 200 at 6 + 200 + 13 = 219.
    let costs = Costs {
        wakeup: micros(4),
        ipi: micros(3),
        ipi_idle: micros(100),
        ipi_taken: micros(7),
        schedule: micros(6),
        ..Costs::ideal()
    };
    let on = |cpu, priority| Attributes { affinity: vec![cpu], ..fifo(priority) };
    let hog = task("hog", 1, on(1, 1), vec![Step::Run(microseconds(200))]);
    let reader = task("reader", 1, on(1, 2), vec![read("c", 1)]);
    let writer = task("writer", 1, on(0, 1), vec![Step::Run(microseconds(100)), write("c", 1)]);
    let three = with_channels(workload(vec![hog, reader, writer]), ChannelKind::Pipe, &["c"]);
    for release in common::RELEASES {
        let (outcome, _) = run(&three, release, &Machine::new(2, costs.clone()));
        assert_eq!([0, 1, 2].map(|task| outcome.tasks[task].life_ns / 1000), [219, 126, 113], "{release}");
    }
}

#[test]
fn an_unmeasured_cost_is_named_where_a_run_needs_it() {
    // The writer wakes the reader once, on an idle CPU: of the two unknown costs it needs one, once.
    let unknown = vec!["ipi_idle".to_owned(), "ipi_taken".to_owned()];
    let costs = Costs { wakeup: micros(4), unknown, ..Costs::ideal() };
    let (outcome, _) = run(&writer_and_reader(), "6.1", &Machine::new(2, costs.clone()));
    let said = "the cost ipi_idle is unknown: this run needed it once and counted it as nothing";
    assert_eq!(outcome.notes, [said]);
    // On one CPU it needs none; a cost of which every run may need some is always said.
    let (outcome, _) = run(&writer_and_reader(), "6.1", &Machine::new(1, costs));
    assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
    let costs = Costs { unknown: vec!["reap".to_owned()], ..Costs::ideal() };
    let (outcome, _) = run(&writer_and_reader(), "6.1", &Machine::new(1, costs));
    assert_eq!(outcome.notes, ["the cost reap is unknown and counts as nothing"]);
}

#[test]
fn a_switch_costs_more_the_more_others_ran_in_between() {
    // A switch is 10 µs, each other task's turn in between adds 1, at most 2.5; who never ran there finds nothing and pays 2.5.
    // Three tasks in turns of 100: 112.5 each in the first round, then two others came in between: 112 each. In the third round each
    // has only to end: the first pays 12 (two others), the second 11 (one other is left alive), the third 10.
    let costs = Costs {
        switch: micros(10),
        cache_refill: micros(1),
        cache_refill_limit: Time::from_nanos(2500),
        ..Costs::ideal()
    };
    let steps = vec![Step::Loop { count: 2, steps: vec![Step::Run(microseconds(100)), Step::Yield] }];
    let three = workload(vec![task("turn", 3, fifo(1), steps)]);
    let (outcome, _) = run(&three, "6.1", &Machine::new(1, costs.clone()));
    assert_eq!(outcome.elapsed_ns, 3 * 112_500 + 3 * 112_000 + 12_000 + 11_000 + 10_000);
    // Alone it comes back to what it left: its first coming costs 12.5, and the second one, from idle, the switch alone.
    let steps = vec![Step::Run(microseconds(100)), Step::Sleep(microseconds(70)), Step::Run(microseconds(100))];
    let (outcome, _) = run(&workload(vec![task("alone", 1, fifo(1), steps)]), "6.1", &Machine::new(1, costs));
    assert_eq!(outcome.elapsed_ns, 12_500 + 100_000 + 70_000 + 10_000 + 100_000);
}

#[test]
fn ticks_take_time_from_the_current_task() {
    // At 1000 Hz ticks of 10 µs fall on 1 and 2 ms; a third would on 3 ms, but the work is done at 2.52. Work that ends on a tick is
    // done before it. What remains idle has no ticks: after the sleep until 10.5 the first is at 11 ms, on the very end.
    let costs = Costs { tick: micros(10), ..Costs::ideal() };
    let scheduler = Scheduler { hz: 1000, ..scheduler("6.1") };
    for (steps, end, ticks) in [
        (vec![Step::Run(microseconds(2500))], 2520, 2),
        (vec![Step::Run(milliseconds(1))], 1000, 0),
        (vec![Step::Run(microseconds(1001))], 1011, 1),
        (vec![Step::Sleep(microseconds(10_500)), Step::Run(microseconds(500))], 11_000, 0),
    ] {
        for no_tick_skip in [false, true] {
            let options = Options { no_tick_skip, ..Options::default() };
            let machine = Machine::new(1, costs.clone());
            let one = workload(vec![task("hog", 1, Attributes::default(), steps.clone())]);
            let (outcome, _) = run_with(&one, &scheduler, &machine, &options).unwrap();
            assert_eq!(outcome.elapsed_ns, end * 1000, "{steps:?}");
            assert_eq!(outcome.tasks[0].system_ns, ticks * 10_000, "{steps:?}");
        }
    }
}

#[test]
fn a_family_pays_for_births_and_deaths() {
    // In microseconds: a process is made in 50, starts in 20 and ends in 30, a thread in 15, 4 and 6; collecting a child takes 9. The
    // parent, FIFO as the child, is there from the start, makes it (50), waits; the child starts (20), computes 100 and ends (30), which
    // wakes the parent: it collects (9) and ends (30).
    let costs = Costs {
        fork_process: micros(50),
        exit_process: micros(30),
        fork_thread: micros(15),
        start_process: micros(20),
        start_thread: micros(4),
        exit_thread: micros(6),
        reap: micros(9),
        ..Costs::ideal()
    };
    for (kind, make, start, end) in [(TaskKind::Process, 50, 20, 30), (TaskKind::Thread, 15, 4, 6)] {
        let parent = task("parent", 1, fifo(1), vec![Step::Fork { task: "child".into(), count: 1 }, Step::Join]);
        let mut child = task("child", 0, fifo(1), vec![Step::Run(microseconds(100))]);
        (child.kind, child.attributes) = (kind, None);
        let family = workload(vec![parent, child]);
        let (outcome, events) = run(&family, "6.1", &Machine::new(1, costs.clone()));
        assert_eq!(
            shares(&outcome, 0),
            [make + start + 100 + end + 9 + 30, make + 9 + 30, 0, start + 100 + end],
            "{kind:?}"
        );
        assert_eq!(shares(&outcome, 1), [start + 100 + end, start + 100 + end, 0, 0]);
        let fork = EventKind::Fork { parent: TaskId(0), child: TaskId(1) };
        assert!(events.iter().any(|event| event.kind == fork && event.time == micros(make)));
    }
}

#[test]
fn the_turnaround_counts_from_the_mark_until_that_task_has_done_its_steps() {
    // The mark is at 2 ms; the task's steps are done at 5 ms. Its own end (1 ms) and the other task's come later.
    let steps = vec![Step::Run(milliseconds(2)), Step::Mark("go".into()), Step::Run(milliseconds(3))];
    let other = task("other", 1, Attributes::default(), vec![Step::Run(milliseconds(20))]);
    let mut marked = workload(vec![task("marks", 1, Attributes::default(), steps), other]);
    marked.turnaround_from = Some("go".into());
    let costs = Costs { exit_process: Time::from_millis(1), ..Costs::ideal() };
    let (outcome, _) = run(&marked, "6.1", &Machine::new(2, costs));
    // In jiffies of 4 ms, rounded up: 1.
    assert_eq!((outcome.turnaround_ns, outcome.turnaround_jiffies, outcome.elapsed_ns), (3_000_000, 1, 21_000_000));
}

#[test]
fn a_run_that_begins_between_ticks_meets_the_first_one_earlier() {
    // Two that compute share 6 ms (sysctl_sched_latency on one CPU), and a tick takes the CPU from a task that had more than 3 of them: the
    // tick at 4 ms, or, half a millisecond after a tick, the one at 3.5 ms.
    let hogs = workload(vec![task("hog", 2, Attributes::default(), vec![Step::Run(milliseconds(20))])]);
    for (phase, first) in [(0, 4_000), (500, 3_500)] {
        let options = Options { phase: micros(phase), ..Options::default() };
        let (_, events) = run_with(&hogs, &scheduler("6.1"), &Machine::ideal(1), &options).unwrap();
        assert_eq!(switches(&events)[..2], [(0, 0, 0), (first, 0, 1)]);
    }
}

#[test]
fn finding_out_what_comes_next_takes_time() {
    // In microseconds: three times 1000, and four times 10, the end included.
    let costs = Costs { operation: micros(10), ..Costs::ideal() };
    let one = workload(vec![task("one", 1, Attributes::default(), vec![Step::Run(milliseconds(1)); 3])]);
    assert_eq!(run(&one, "6.1", &Machine::new(1, costs)).0.elapsed_ns, 3_040_000);
}

#[test]
fn a_server_that_takes_a_connection_early_sleeps_until_its_request_comes() {
    // In microseconds: connecting takes 40, taking a connection 9, writing 12, reading 2, going to sleep 1. The server finds no client (1)
    // and sleeps; the client connects (to 41).
    //  - Of equal priority, it goes on, writes and sleeps in its read (13, to 54); the server takes the connection (9), reads (2) and
    //    replies (12, to 77); the client reads (2).
    //  - A server above it comes at once, takes the connection (9, to 50), finds no request and sleeps (1); the client writes (12, to
    //    63), and the server reads (2) and replies (12, to 77) before the client reads (2), for which that does not sleep.
    let costs = Costs {
        tcp_connect: micros(40),
        tcp_accept: micros(9),
        tcp_write: micros(12),
        tcp_read: micros(2),
        block: micros(1),
        ..Costs::ideal()
    };
    let port = || "web".to_owned();
    for (priority, end, sleeps, client_sleeps) in [(1, 79, 1, 1), (2, 79, 2, 0)] {
        let serve = vec![Step::Accept { port: port(), bytes: 1 }, Step::Reply { bytes: 1 }];
        let ask = vec![Step::Request { port: port(), bytes: 1, reply: 1 }];
        let both = workload(vec![task("server", 1, fifo(priority), serve), task("client", 1, fifo(1), ask)]);
        let (outcome, _) = run(&both, "6.1", &Machine::new(1, costs.clone()));
        assert_eq!((outcome.elapsed_ns, outcome.tasks[0].voluntary, outcome.messages), (end * 1000, sleeps, 2));
        assert_eq!(outcome.tasks[1].voluntary, client_sleeps);
    }
    // Where connections were not measured they cost what a stream socket does, and making them nothing: 1; 3, 1; 5, 3; 5.
    let costs = Costs { socket_write: micros(3), socket_read: micros(5), block: micros(1), ..Costs::ideal() };
    let serve = vec![Step::Accept { port: port(), bytes: 1 }, Step::Reply { bytes: 1 }];
    let ask = vec![Step::Request { port: port(), bytes: 1, reply: 1 }];
    let both = workload(vec![task("server", 1, fifo(1), serve), task("client", 1, fifo(1), ask)]);
    assert_eq!(run(&both, "6.1", &Machine::new(1, costs)).0.elapsed_ns, 18_000);
}

#[test]
fn the_other_side_of_a_connection_is_woken_within_a_call_and_the_first_to_end_it_pays_for_that() {
    // In microseconds: connecting takes 40, of which 25 follow the server's wake-up, writing 12 (7), taking a connection 9, reading 2, going to
    // sleep 1; ending a connection takes a client 20, or 6 after the server, and a server 10, or 3 after the client. The client sleeps
    // before it asks (1 to go to sleep), so that the server sleeps for a connection first (1).
    //  - Of equal priority: the client connects, writes and sleeps; the server takes the connection, reads, replies and ends the
    //    connection; the client reads and ends it, too.
    //  - A server above the client comes as the call that wakes it is over: it takes the connection and sleeps for the request, and once
    //    more it comes as the write is over, reads, replies and ends the connection; the client reads without sleeping.
    //  - A client above the server comes as the reply's write is over, and ends the connection first.
    // One that comes so is charged for what remains of the call.
    let costs = Costs {
        tcp_connect: micros(40),
        tcp_connect_tail: micros(25),
        tcp_accept: micros(9),
        tcp_write: micros(12),
        tcp_write_tail: micros(7),
        tcp_read: micros(2),
        tcp_client_closes: micros(20),
        tcp_client_closes_last: micros(6),
        tcp_server_closes: micros(10),
        tcp_server_closes_last: micros(3),
        block: micros(1),
        ..Costs::ideal()
    };
    let port = || "web".to_owned();
    let cases = [
        (1, 1, [1 + 9 + 2 + 12 + 10, 1 + 40 + 12 + 1 + 2 + 6]),
        (2, 1, [1 + 25 + 9 + 1 + 7 + 2 + 12 + 10, 1 + 15 + 5 + 2 + 6]),
        (1, 2, [1 + 9 + 2 + 5 + 3, 1 + 40 + 12 + 1 + 7 + 2 + 20]),
    ];
    for (server, client, run_us) in cases {
        let serve = vec![Step::Accept { port: port(), bytes: 1 }, Step::Reply { bytes: 1 }];
        let ask = vec![Step::Sleep(microseconds(1)), Step::Request { port: port(), bytes: 1, reply: 1 }];
        let both = workload(vec![task("server", 1, fifo(server), serve), task("client", 1, fifo(client), ask)]);
        let (outcome, _) = run(&both, "6.1", &Machine::new(1, costs.clone()));
        let ran = [0, 1].map(|task| outcome.tasks[task].run_ns / 1000);
        assert_eq!(ran, run_us, "{server} {client}");
    }
}

#[test]
fn interrupts_and_switches_are_a_part_of_computing_by_the_clock() {
    // In microseconds, ticks of 4000 that take 5, switches 3, a wake-up 4, a pass of the scheduler 6, looking at clocks 2. 'urgent' comes
    // at 6 and sleeps at 9, for 6000. 'hog' comes at 9, switches until 12, looks at clocks until 14, and computes for 9000: of 9005 it has had
    // 6000 when 'urgent' is woken at 6009, which comes at 6009 + 4 + 6 = 6019 and is charged for all since. The tick at 4000 is a part of what 'hog'
    // has had. 'urgent' ends at 6022, and coming back from there is a part of the 3005 that are left: 9027. The tick at 8000 is, too.
    let costs = Costs {
        switch: micros(3),
        tick: micros(5),
        wakeup: micros(4),
        schedule: micros(6),
        compute: micros(2),
        ..Costs::ideal()
    };
    let hog = task("hog", 1, fifo(1), vec![Step::Run(microseconds(9000))]);
    let urgent = task("urgent", 1, fifo(2), vec![Step::Sleep(microseconds(6000))]);
    let both = workload(vec![urgent, hog]);
    for release in common::RELEASES {
        let (_, events) = run(&both, release, &Machine::new(1, costs.clone()));
        let last = switches(&events).pop();
        assert_eq!(last, Some((9027, 0, IDLE)), "{release}");
    }
}

#[test]
fn computing_on_without_a_break_reads_no_clocks_again() {
    // In microseconds, looking at clocks 2. It computes twice for 10 (2 + 20), sleeps for 50, and computes twice for 10: 22 + 50 + 22.
    let costs = Costs { compute: micros(2), ..Costs::ideal() };
    let twice = || [Step::Run(microseconds(10)), Step::Run(microseconds(10))];
    let steps = twice().into_iter().chain([Step::Sleep(microseconds(50))]).chain(twice()).collect();
    let alone = workload(vec![task("alone", 1, fifo(1), steps)]);
    for release in common::RELEASES {
        let (_, events) = run(&alone, release, &Machine::new(1, costs.clone()));
        let off: Vec<_> =
            switches(&events).into_iter().filter(|(_, _, next)| *next == IDLE).map(|(at, ..)| at).collect();
        assert_eq!(off, [22, 94], "{release}");
    }
}

#[test]
fn what_a_wake_up_takes_is_no_part_of_the_computing_after_it() {
    // In microseconds, looking at clocks 2, a wake-up 4. 'reader' waits at 0. The timer of 'writer' expires at 5, and it comes at 9. It computes until
    // 9 + 2 + 10 = 21, wakes 'reader', which comes after it, until 25, and computes until 35.
    let costs = Costs { compute: micros(2), wakeup: micros(4), ..Costs::ideal() };
    let ten = || Step::Run(microseconds(10));
    let reader = task("reader", 1, fifo(1), vec![read("pipe", 1)]);
    let writer = task("writer", 1, fifo(2), vec![Step::Sleep(microseconds(5)), ten(), write("pipe", 1), ten()]);
    let both = with_channels(workload(vec![reader, writer]), ChannelKind::Pipe, &["pipe"]);
    for release in common::RELEASES {
        let (outcome, events) = run(&both, release, &Machine::new(1, costs.clone()));
        assert_eq!(outcome.tasks[1].run_ns / 1000, 35 - 9, "{release}");
        assert!(switches(&events).contains(&(35, 0, 0)), "{release}: {:?}", switches(&events));
    }
}

#[test]
fn a_task_that_preempts_its_waker_is_charged_from_its_wake_up_on() {
    // In microseconds: a system call takes nothing, writing 5, reading 7, going to sleep 1, a wake-up 4, a pass of the scheduler 6, a switch 3.
    // 'reader' switches in (3), finds nothing (1), and sleeps. 'writer' switches in (3), writes (5) and wakes it at once; with the wake-up
    // (4) and the pass (6) it is on its CPU for 18, but the clock of the queue was read last at the wake-up: it is charged for 8, and
    // 'reader' for 10 + 3 + 7. Then 'writer' switches in again (3) and computes for 100; 'reader' ends before that, which costs nothing.
    let costs = Costs {
        switch: micros(3),
        schedule: micros(6),
        wakeup: micros(4),
        pipe_write: micros(5),
        pipe_read: micros(7),
        block: micros(1),
        ..Costs::ideal()
    };
    let reader = task("reader", 1, fifo(2), vec![read("pipe", 1)]);
    let writer = task("writer", 1, fifo(1), vec![write("pipe", 1), Step::Run(microseconds(100))]);
    let both = with_channels(workload(vec![reader, writer]), ChannelKind::Pipe, &["pipe"]);
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2"] {
        let (outcome, _) = run(&both, release, &Machine::new(1, costs.clone()));
        assert_eq!([0, 1].map(|task| outcome.tasks[task].run_ns / 1000), [4 + 20, 8 + 103], "{release}");
    }
}
