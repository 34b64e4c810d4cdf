//! EEVDF's bounds on lag under random operations, for tasks that compete and for tasks that sleep.

use proptest::prelude::*;
use schedlab_model::{Attributes, Policy, TaskId, Time};

use crate::lab::{CPU0, Lab, MS, US, attributes, rules};

const EEVDF: [&str; 4] = ["6.12", "6.18", "7.2", "7.3"];

fn with(lab: &mut Lab, nice: i8, slice: Option<u64>) -> TaskId {
    let slice = slice.map(|slice| Time::from_nanos(slice * US));
    let task = lab.sched.new_task(&Attributes { slice, ..attributes(Policy::Other, nice) });
    lab.sync(CPU0);
    lab.sched.wake_up_new_task(task, CPU0);
    task
}

/// Σ w·v / Σ w of what is on the queue, and each one's weight and place.
fn average(lab: &Lab, tasks: &[TaskId]) -> Option<i128> {
    let queued = tasks.iter().filter(|task| lab.entity(**task).on_rq);
    let (weight, sum) = queued.fold((0i128, 0i128), |(total, sum), task| {
        let weight = i128::from(lab.entity(*task).load.scaled >> 10);
        (total + weight, sum + weight * i128::from(lab.vruntime(*task)))
    });
    (weight > 0).then(|| sum.div_euclid(weight))
}

#[derive(Debug, Clone)]
enum Act {
    Run(u64),
    Tick,
    Sleep,
    Wake(usize),
    Yield,
    Nice(usize, i8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1u64..9_000).prop_map(Act::Run),
        4 => Just(Act::Tick),
        3 => Just(Act::Sleep),
        4 => (0usize..6).prop_map(Act::Wake),
        1 => Just(Act::Yield),
        1 => (0usize..6, -10i8..10).prop_map(|(task, nice)| Act::Nice(task, nice)),
    ];
    proptest::collection::vec(act, 1..200)
}

type Task = (i8, Option<u64>);

fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let slice = proptest::option::of(prop_oneof![100u64..3_000, 3_000u64..100_000]);
    proptest::collection::vec((-10i8..=10, slice), 2..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Hogs of any weights with requests of any length. A task that begins a turn owes nothing (it is eligible), and goes at the first tick
    /// after its request is served, so that no task is served more than a request and a tick beyond its share: lag ≥ −(slice + tick), in
    /// real time. Weighted lags sum to zero, so that no task is owed more than all the others may owe.
    #[test]
    fn lag_is_within_requests_of_any_length(
        release in proptest::sample::select(EEVDF.to_vec()),
        hz in prop_oneof![Just(100u32), Just(250), Just(1000)],
        hogs in tasks(),
    ) {
        let mut lab = Lab::with_rules(rules(release, hz, &[]), 1);
        let tick = lab.sched.rules().tick;
        let made: Vec<TaskId> = hogs.iter().map(|(nice, slice)| with(&mut lab, *nice, *slice)).collect();
        lab.schedule(CPU0);
        let turns: Vec<i128> = made.iter().map(|task| i128::from(lab.entity(*task).slice + tick)).collect();
        let all: i128 = turns.iter().sum();
        while lab.now < 3_000 * MS {
            if lab.tick_after(CPU0, tick) {
                lab.schedule(CPU0);
            }
            let average = average(&lab, &made).expect("hogs");
            for (task, turn) in made.iter().zip(&turns) {
                let weight = i128::from(lab.entity(*task).load.scaled >> 10);
                // In real time; a microsecond for rounding.
                let lag = weight * (average - i128::from(lab.vruntime(*task))) / 1024;
                prop_assert!(lag >= -turn - 1_000, "{lag} < -{turn}");
                prop_assert!(lag <= all - turn + 1_000, "{lag} > {all} - {turn}");
            }
        }
    }

    /// Whatever they do, the lag that a task keeps while it is away is within two of its slices or a tick (`entity_lag`), in its own virtual
    /// time; from 6.18.17 on within the longest slice there was and a tick. A task that sleeps by itself is owed nothing more than that and,
    /// with delayed dequeue, owes nothing: it stayed until that was so.
    #[test]
    fn a_kept_lag_is_within_its_limit(
        release in proptest::sample::select(EEVDF.to_vec()),
        delay in any::<bool>(),
        sleepers in tasks(),
        acts in acts(),
    ) {
        let knobs: &[(&str, &str)] = if delay { &[] } else { &[("feature.DELAY_DEQUEUE", "0")] };
        let mut lab = Lab::with_rules(rules(release, 250, knobs), 1);
        let tick = lab.sched.rules().tick;
        let made: Vec<TaskId> = sleepers.iter().map(|(nice, slice)| with(&mut lab, *nice, *slice)).collect();
        let longest = made.iter().map(|task| lab.entity(*task).slice).max().unwrap_or(0);
        lab.schedule(CPU0);
        for act in acts {
            match act {
                Act::Run(microseconds) => lab.advance(microseconds * US),
                Act::Tick => {
                    lab.tick_after(CPU0, 0);
                }
                Act::Sleep => {
                    lab.sleep(CPU0);
                }
                Act::Wake(which) => {
                    lab.sync(CPU0);
                    if let Some(task) = made.get(which) {
                        lab.sched.try_to_wake_up(*task, CPU0);
                    }
                }
                Act::Yield if lab.curr(CPU0) != TaskId::IDLE => {
                    lab.yields(CPU0);
                }
                Act::Nice(which, nice) => {
                    lab.sync(CPU0);
                    if let Some(task) = made.get(which) {
                        lab.sched.set_user_nice(*task, nice);
                    }
                }
                Act::Yield => {}
            }
            if lab.sched.need_resched(CPU0) {
                lab.schedule(CPU0);
            }
            for task in made.iter().filter(|task| !lab.entity(**task).on_rq) {
                let entity = lab.entity(*task);
                let limit = if release != "6.12" { longest + tick } else { (2 * entity.slice).max(tick) };
                // In real time, where a change of weight does not matter; a part in 2¹⁰ and a microsecond for what is truncated.
                let lag = i128::from(entity.vlag) * i128::from(entity.load.scaled >> 10) / 1024;
                prop_assert!(lag.abs() <= i128::from(limit + limit / 1024 + US), "{lag} is not within {limit}");
                // The average is rounded down, by less than 1, which a new nice level may multiply by what the weights differ: 9548 / 110.
                prop_assert!(!delay || entity.vlag >= -87, "a sleeper left owing {}", entity.vlag);
            }
        }
    }
}
