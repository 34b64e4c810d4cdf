//! The fast path against the general one, from states that recordings reach.
//!
//! Simulations start with empty queues; here each CPU starts with a queue in the state of a real kernel's at a point of a recording: its
//! tasks' virtual times, deadlines, lags, slices, buddies and load averages. The same random wake-ups, sleeps and ticks are then done once
//! by the sequences of `core.rs` and once by those of `fast_path/`, and the resulting states are compared.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod machine;
mod queue;

use std::sync::OnceLock;

use proptest::prelude::*;
use schedlab_model::Time;

use machine::{Op, Path, Run};
use queue::{Queue, recorded_queues};

/// Recordings of CFS and of EEVDF whose rules the fast path has: one CPU or several, many tasks or few.
const RECORDINGS: [&str; 11] = [
    "hogs-5.10",
    "hogs-6.1",
    "hogs-6.12",
    "hogs-7.2",
    "k61-hackbench",
    "k612-hackbench",
    "pipes-4-near-6.1",
    "pipes-4-near-6.12",
    "sleepers-2-apart-6.1",
    "sleepers-4-apart-6.12",
    "sleepers-7.2",
];

/// The queues that a recording reaches; replayed once for all cases.
fn queues(recording: usize) -> &'static [Queue] {
    static FOUND: [OnceLock<Vec<Queue>>; RECORDINGS.len()] = [const { OnceLock::new() }; RECORDINGS.len()];
    FOUND[recording].get_or_init(|| recorded_queues(RECORDINGS[recording]))
}

#[test]
fn recordings_reach_queues_to_start_from() {
    for (number, name) in RECORDINGS.iter().enumerate() {
        let found = queues(number);
        let most = found.iter().map(Queue::waiting).max().unwrap_or(0);
        assert!(found.len() >= 20 && most >= 1, "{name}: {} queues, {most} tasks wait at most", found.len());
    }
}

fn op() -> impl Strategy<Value = (u64, Op)> {
    // Several at nearly one time, then for longer than a tick nothing.
    let pause = prop_oneof![2 => 1u64..20_000, 3 => 1u64..3_000_000, 1 => 1u64..60_000_000];
    let kind = prop_oneof![
        3 => any::<prop::sample::Index>().prop_map(Op::Wake),
        2 => any::<prop::sample::Index>().prop_map(Op::Sleep),
        1 => any::<prop::sample::Index>().prop_map(|which| Op::WakeAndSleep(which, 0)),
        1 => Just(Op::Nothing),
    ];
    (pause, kind)
}

/// Does the operations by one path, and says what is left behind, after each so many of them in full.
fn carry_out(queues: &[&Queue], topology: &str, ops: &[(u64, Op)], every: usize, path: Path) -> Vec<String> {
    let mut run = Run::start(queues, topology, path);
    let mut left = vec![];
    for (number, (pause, op)) in ops.iter().enumerate() {
        run.advance(Time::from_nanos(*pause));
        run.carry_out(op);
        left.push(run.placements());
        if (number + 1).is_multiple_of(every) || number + 1 == ops.len() {
            left.extend(run.state());
        }
    }
    left
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_fast_path_leaves_what_the_general_one_does(
        recording in 0..RECORDINGS.len(),
        starts in prop::collection::vec(any::<prop::sample::Index>(), 8),
        place in prop::sample::select(vec![(2, "smt=1"), (2, "llc=1"), (4, "smt=1"), (4, "llc=2"), (8, "llc=4")]),
        ops in prop::collection::vec(op(), 1..80),
        // To look at averages makes up for ticks that were put off: rarely, so that some are put off for long.
        every in prop::sample::select(vec![1usize, 9, 80]),
    ) {
        let (cpus, topology) = place;
        let found = queues(recording);
        let chosen: Vec<&Queue> = starts.iter().take(cpus).map(|start| &found[start.index(found.len())]).collect();
        let general = carry_out(&chosen, topology, &ops, every, Path::General);
        let fast = carry_out(&chosen, topology, &ops, every, Path::Fast);
        for (fast, general) in fast.iter().zip(&general) {
            prop_assert_eq!(fast, general);
        }
        prop_assert_eq!(fast.len(), general.len());
    }

    /// With eight tasks on its queue a CPU nominates buddies (`sched_nr_latency`): a task that is preempted is the last one (LAST_BUDDY), and
    /// must be none any more where it sleeps before the CPU schedules. With no cache shared each task wakes where the others are.
    #[test]
    fn a_task_that_sleeps_as_it_is_preempted_is_no_buddy(
        starts in prop::array::uniform2(any::<prop::sample::Index>()),
        ops in prop::collection::vec(
            (1u64..5_000_000, any::<prop::sample::Index>(), 1u64..1_000),
            1..30,
        ),
    ) {
        let crowded: Vec<&Queue> =
            (0..RECORDINGS.len()).flat_map(queues).filter(|queue| !queue.rules.eevdf && queue.waiting() >= 8).collect();
        prop_assert!(!crowded.is_empty());
        let chosen = starts.map(|start| *start.get(&crowded));
        let ops: Vec<_> =
            ops.into_iter().map(|(pause, which, later)| (pause, Op::WakeAndSleep(which, later))).collect();
        let general = carry_out(&chosen, "llc=1", &ops, 1, Path::General);
        let fast = carry_out(&chosen, "llc=1", &ops, 1, Path::Fast);
        prop_assert_eq!(fast, general);
    }
}

/// As [`op`], but tasks also go to sleep in turn, so that those of a CPU may all be delayed as the last one goes.
fn op_of_slices() -> impl Strategy<Value = (u64, Op)> {
    let in_turn = (any::<prop::sample::Index>(), prop::collection::vec(1u64..4_000_000, 2..6));
    let in_turn = (1u64..60_000_000, in_turn.prop_map(|(which, pauses)| Op::SleepInTurn(which, pauses)));
    prop_oneof![2 => op(), 1 => in_turn]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Recorded tasks have the default slice. Where tasks of an EEVDF queue have slices of their own, one is protected for the shortest of them
    /// (from 6.17 on), so that protection ends within its request. The general path marks a task that sleeps then for rescheduling, the fast
    /// path does not: the switch clears the mark, whatever balancing does before it, where the other tasks of the queue are delayed.
    #[test]
    fn tasks_with_slices_of_their_own_leave_what_they_do_on_the_general_path(
        recording in prop::sample::select(vec!["hogs-6.12", "hogs-7.2", "hogs-7.2", "sleepers-7.2"]),
        starts in prop::array::uniform4(any::<prop::sample::Index>()),
        slices in prop::array::uniform4(prop::collection::vec(prop::option::of(100_000u64..10_000_000), 4)),
        ops in prop::collection::vec(op_of_slices(), 1..60),
    ) {
        let number = RECORDINGS.iter().position(|name| *name == recording).unwrap();
        let found = queues(number);
        let chosen: Vec<Queue> =
            starts.iter().zip(&slices).map(|(start, slices)| start.get(found).with_slices(slices)).collect();
        let chosen: Vec<&Queue> = chosen.iter().collect();
        let general = carry_out(&chosen, "smt=1", &ops, 9, Path::General);
        let fast = carry_out(&chosen, "smt=1", &ops, 9, Path::Fast);
        for (fast, general) in fast.iter().zip(&general) {
            prop_assert_eq!(fast, general);
        }
        prop_assert_eq!(fast.len(), general.len());
    }
}
