//! Every invariant holds for sound streams of events and fails for an unsound one.

use proptest::prelude::*;
use schedlab_metrics::{Broken, Invariants, Metrics};
use schedlab_model::{CpuId, Event, EventKind, EventSink, TaskId, TaskState, Time};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
const IDLE: TaskId = TaskId::IDLE;

fn at(time: u64, cpu: u32, kind: EventKind) -> Event {
    Event { time: Time::from_nanos(time), cpu: CpuId(cpu), kind }
}

fn switch(time: u64, cpu: u32, previous: TaskId, state: TaskState, next: TaskId) -> Event {
    at(time, cpu, EventKind::Switch { previous, state, next })
}

fn born(time: u64, task: TaskId) -> [Event; 2] {
    let fork = EventKind::Fork { parent: IDLE, child: task };
    [at(time, 0, fork), at(time, 0, EventKind::WakeupNew { task, target: CpuId(0) })]
}

fn judge(mut invariants: Invariants, events: &[Event], end: u64) -> Result<(), Broken> {
    events.iter().for_each(|event| invariants.event(*event));
    invariants.finish(Time::from_nanos(end))
}

/// What two CPUs with a bound of 5 ns refuse; nothing if they refuse nothing.
fn refusal(events: &[Event], end: u64) -> String {
    let verdict = judge(Invariants::new(2, Time::from_nanos(5)), events, end);
    verdict.err().map_or_else(String::new, |broken| broken.to_string())
}

#[test]
fn each_impossible_event_is_named() {
    use TaskState::{Interruptible, Running};
    let start = [&born(0, A)[..], &[switch(0, 0, IDLE, Running, A)]].concat();
    let with = |event: Event| [&start[..], &[event]].concat();
    let waking = |time| at(time, 0, EventKind::Waking { task: A, waker: IDLE, target: CpuId(0) });
    for (events, expected) in [
        (with(switch(1, 0, B, Running, IDLE)), "task 1 is switched out, but task 0 was running"),
        (with(switch(1, 1, IDLE, Running, A)), "task 0 is switched in, but it is running on CPU 0"),
        (with(switch(1, 0, A, Running, A)), "switched to itself"),
        (with(switch(1, 0, A, Interruptible, B)), "task 1 is switched in, but it is not born"),
        (with(switch(1, 7, IDLE, Running, A)), "only 2 CPUs"),
        (with(waking(1)), "task 0 is woken, but it is running on CPU 0"),
        (with(born(1, A)[0]), "is forked, but it is running"),
        (with(at(1, 1, EventKind::Exit { task: A })), "exits, but it is running on CPU 0"),
        (with(at(1, 0, EventKind::Migrate { task: A, from: CpuId(0), to: CpuId(1) })), "migrates, but it is running"),
        (vec![at(5, 0, born(0, A)[0].kind), at(4, 0, born(0, B)[0].kind)], "time went back from 5ns to 4ns"),
    ] {
        let found = refusal(&events, 1);
        assert!(found.contains(expected), "expected '{expected}', found '{found}'");
    }
}

#[test]
fn waiting_beside_an_idle_cpu_is_allowed_for_the_bound_and_no_longer() {
    // B waits from 10 on while CPU 1 idles; the bound is 5, so 15 is in time and 16 is late.
    let story = |taken: u64| {
        let mut events = born(0, A).to_vec();
        events.push(switch(0, 0, IDLE, TaskState::Running, A));
        events.extend(born(10, B));
        events.push(switch(taken, 1, IDLE, TaskState::Running, B));
        events
    };
    assert_eq!(refusal(&story(15), 20), "");
    assert!(refusal(&story(16), 20).contains("task 1 waited 6ns while the CPU idled; at most 5ns allowed"));
    // Nor does the end of the run excuse it.
    assert!(refusal(&story(15)[..5], 16).contains("task 1 waited"));
}

#[test]
fn a_task_may_wait_for_the_cpus_it_is_bound_to() {
    let events = [&born(0, A)[..], &[switch(0, 0, IDLE, TaskState::Running, A)], &born(10, B)].concat();
    let bound = || Invariants::new(2, Time::ZERO).with_affinity(|_, cpu| cpu == CpuId(0));
    assert_eq!(judge(bound(), &events, 1_000), Ok(()));
    let elsewhere = [&events[..], &[switch(20, 1, IDLE, TaskState::Running, B)]].concat();
    let broken = judge(bound(), &elsewhere, 1_000).unwrap_err();
    assert!(broken.to_string().contains("task 1 may not run here"), "{broken}");
}

/// A sound stream: a tiny machine of two CPUs that always fills idle CPUs at once, driven by random choices.
fn sound(choices: &[(u8, u64)]) -> (Vec<Event>, Time) {
    let mut events = Vec::new();
    let (mut now, mut born_tasks) = (0u64, 0u32);
    let mut running = [IDLE; 2];
    let (mut waiting, mut asleep): (Vec<TaskId>, Vec<TaskId>) = (Vec::new(), Vec::new());
    for &(choice, span) in choices {
        now += span;
        let cpu = usize::from(choice & 1);
        match choice >> 1 & 3 {
            0 if born_tasks < 6 => {
                let task = TaskId(born_tasks);
                born_tasks += 1;
                events.extend(born(now, task));
                waiting.push(task);
            }
            1 if running[cpu] != IDLE => {
                let previous = running[cpu];
                let next = if waiting.is_empty() { IDLE } else { waiting.remove(0) };
                let dead = choice >> 3 & 7 == 0;
                let state = if dead { TaskState::Dead } else { TaskState::Interruptible };
                events.push(switch(now, cpu as u32, previous, state, next));
                running[cpu] = next;
                if !dead {
                    asleep.push(previous);
                }
            }
            2 if running[cpu] != IDLE && !waiting.is_empty() => {
                let next = waiting.remove(0);
                events.push(switch(now, cpu as u32, running[cpu], TaskState::Running, next));
                waiting.push(running[cpu]);
                running[cpu] = next;
            }
            3 if !asleep.is_empty() => {
                let task = asleep.remove(0);
                events.push(at(now, 0, EventKind::Waking { task, waker: IDLE, target: CpuId(0) }));
                waiting.push(task);
            }
            _ => {}
        }
        for (cpu, current) in running.iter_mut().enumerate() {
            if *current == IDLE && !waiting.is_empty() {
                *current = waiting.remove(0);
                events.push(switch(now, cpu as u32, IDLE, TaskState::Running, *current));
            }
        }
    }
    (events, Time::from_nanos(now))
}

proptest! {
    #[test]
    fn sound_streams_keep_every_invariant_and_conserve_time(
        choices in proptest::collection::vec((any::<u8>(), 0u64..1_000), 1..200),
    ) {
        let (events, end) = sound(&choices);
        prop_assert_eq!(judge(Invariants::new(2, Time::ZERO), &events, end.as_nanos()), Ok(()));
        let mut metrics = Metrics::default();
        events.iter().for_each(|event| metrics.event(*event));
        let mut run = Time::ZERO;
        for task in (0..metrics.tasks() as u32).map(TaskId) {
            let got = metrics.task(task, end).unwrap();
            prop_assert_eq!(got.run + got.wait + got.sleep, got.life);
            prop_assert!(got.max_delay <= got.delay && got.delay <= got.wait);
            run += got.run;
        }
        prop_assert_eq!(run, metrics.cpu_busy(end).into_iter().sum());
    }

    /// Leaving out any one switch is noticed, unless it was the last thing that happened on its CPU.
    #[test]
    fn a_lost_switch_is_noticed(
        choices in proptest::collection::vec((any::<u8>(), 1u64..1_000), 20..100),
        which: prop::sample::Index,
    ) {
        let (mut events, end) = sound(&choices);
        let is_switch = |event: &Event| matches!(event.kind, EventKind::Switch { .. });
        let switches: Vec<usize> = (0..events.len()).filter(|index| is_switch(&events[*index])).collect();
        prop_assume!(!switches.is_empty());
        let lost = switches[which.index(switches.len())];
        let cpu = events[lost].cpu;
        prop_assume!(events[lost + 1..].iter().any(|event| is_switch(event) && event.cpu == cpu));
        events.remove(lost);
        prop_assert!(judge(Invariants::new(2, Time::MAX), &events, end.as_nanos()).is_err());
    }
}
