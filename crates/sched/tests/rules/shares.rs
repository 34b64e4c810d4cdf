//! Properties that the rules provide: shares by weight, bounded lag, no starvation.

use proptest::prelude::*;
use schedlab_model::{Policy, TaskId};
use schedlab_sched::weight_of_nice;

use crate::lab::{CPU0, Lab, MS, rules};

const SECOND: u64 = 1_000 * MS;

/// Lets the CPU's tasks run until `until`, with a tick every 1/HZ and a reschedule whenever one is asked for.
fn run_until(lab: &mut Lab, until: u64, mut watch: impl FnMut(&Lab)) {
    let tick = lab.sched.rules().tick;
    while lab.now < until {
        if lab.tick_after(CPU0, tick) {
            lab.schedule(CPU0);
        }
        watch(lab);
    }
}

fn hogs(release: &str, hz: u32, knobs: &[(&str, &str)], nices: &[i8]) -> (Lab, Vec<TaskId>) {
    let mut lab = Lab::with_rules(rules(release, hz, knobs), 1);
    let tasks = nices.iter().map(|nice| lab.spawn(Policy::Other, *nice)).collect();
    lab.schedule(CPU0);
    (lab, tasks)
}

/// The most virtual time that CFS lets one of these tasks gain in one go. The picked task is behind all others, and goes at the first
/// tick after its slice; so this bounds how far apart any two are. One nanosecond a charge for rounding.
fn longest_turn(lab: &Lab, nices: &[i8]) -> i64 {
    let rules = lab.sched.rules();
    let weight = |nice: i8| weight_of_nice(rules, Policy::Other, nice).scaled;
    let total: u64 = nices.iter().map(|nice| weight(*nice)).sum();
    let count = nices.len() as u64;
    // Either kernel's period is at most a latency and a granularity each.
    let period = rules.tunables.latency.as_nanos() + count * rules.tunables.min_granularity.as_nanos();
    let nice_0 = u128::from(weight(0));
    let virtual_time = |nice: i8| {
        let slice = (period * weight(nice) / total).max(rules.tunables.min_granularity.as_nanos());
        (u128::from(slice + rules.tick) * nice_0 / u128::from(weight(nice))) as i64
    };
    nices.iter().map(|nice| virtual_time(*nice)).max().unwrap_or(0) + 1_000
}

fn nices() -> impl Strategy<Value = Vec<i8>> {
    proptest::collection::vec(-10i8..=10, 2..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// CFS: at no time are two hogs further apart in virtual time than one turn.
    #[test]
    fn no_two_hogs_are_further_apart_than_a_turn(
        release in prop_oneof![Just("2.6.24"), Just("5.10"), Just("6.1")],
        hz in prop_oneof![Just(100u32), Just(250), Just(1000)],
        nices in nices(),
    ) {
        let (mut lab, tasks) = hogs(release, hz, &[], &nices);
        let bound = longest_turn(&lab, &nices);
        run_until(&mut lab, 4 * SECOND, |lab| {
            let times = tasks.iter().map(|task| lab.vruntime(*task));
            let spread = times.clone().max().unwrap_or(0) - times.min().unwrap_or(0);
            assert!(spread <= bound, "{spread} > {bound}");
        });
    }

    /// EEVDF: no task is served more than a request and a tick beyond its share, so that none falls short by more than the others' excess.
    ///
    /// A task starts a turn only without debt (eligible) and goes at the first tick after its request is served; and lags, weighted,
    /// sum to zero.
    #[test]
    fn lag_is_within_a_request_and_a_tick(
        release in prop_oneof![Just("6.12"), Just("6.18"), Just("7.2"), Just("7.3")],
        hz in prop_oneof![Just(100u32), Just(250), Just(1000)],
        nices in nices(),
    ) {
        let (mut lab, tasks) = hogs(release, hz, &[], &nices);
        let rules = *lab.sched.rules();
        let turn = i128::from(rules.tunables.base_slice.as_nanos() + rules.tick);
        run_until(&mut lab, 4 * SECOND, |lab| {
            let weighted = |task: &TaskId| {
                (i128::from(lab.entity(*task).load.scaled >> 10), i128::from(lab.vruntime(*task)))
            };
            let sums = tasks.iter().map(weighted).fold((0, 0), |sums, (weight, at)| (sums.0 + weight, sums.1 + weight * at));
            let average = sums.1.div_euclid(sums.0);
            for task in &tasks {
                let (weight, at) = weighted(task);
                // In real time; a microsecond for rounding.
                let lag = weight * (average - at) / 1024;
                assert!(lag >= -turn - 1_000, "{lag} < -{turn}");
                assert!(lag <= (tasks.len() as i128 - 1) * turn + 1_000, "{lag}");
            }
        });
    }

    /// Over a window long against a turn, CPU time is divided by weight to within 1 %.
    ///
    /// A task's CPU time is its weight times its gain of virtual time. Gains differ by a turn at most (CFS) or by the limits of two lags,
    /// two slices and a tick each (EEVDF; its slices are shorter than the turn). The window is 400 turns of virtual time: 0.25 %, or 1 %.
    #[test]
    fn cpu_time_is_divided_by_weight(
        release in prop_oneof![Just("2.6.24"), Just("5.10"), Just("6.1"), Just("6.12"), Just("6.18"), Just("7.2"), Just("7.3")],
        nices in nices(),
    ) {
        let (mut lab, tasks) = hogs(release, 1000, &[], &nices);
        let start = lab.now;
        // Virtual time passes at 1024 / total of the clock's speed.
        let total: u64 = nices.iter().map(|nice| weight_of_nice(lab.sched.rules(), Policy::Other, *nice).scaled).sum();
        let nice_0 = weight_of_nice(lab.sched.rules(), Policy::Other, 0).scaled;
        let turn = longest_turn(&lab, &nices) as u64;
        let window = (400 * turn).saturating_mul(total) / nice_0;
        run_until(&mut lab, start + window, |_| {});
        let elapsed = lab.now - start;
        for (task, nice) in tasks.iter().zip(&nices) {
            let weight = weight_of_nice(lab.sched.rules(), Policy::Other, *nice).scaled;
            let fair = (u128::from(elapsed) * u128::from(weight) / u128::from(total)) as f64;
            let ran = lab.sched.sum_exec_runtime(*task) as f64;
            prop_assert!((ran / fair - 1.0).abs() < 0.01, "nice {}: {} of {}", nice, ran, fair);
        }
    }
}

/// Two hogs, nice 0 and nice 5: 1024 / 1359 = 75.35 % and 24.65 % of the CPU.
#[test]
fn nice_5_beside_nice_0_gets_a_quarter() {
    for release in ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let (mut lab, tasks) = hogs(release, 1000, &[], &[0, 5]);
        let start = lab.now;
        run_until(&mut lab, start + 100 * SECOND, |_| {});
        let share = lab.sched.sum_exec_runtime(tasks[1]) as f64 / (100 * SECOND) as f64;
        assert!((share / 0.2465 - 1.0).abs() < 0.01, "{release}: {share}");
    }
}

/// A SCHED_IDLE task beside nice 0 gets 3 / 1027 of the CPU (2 / 1026 on 2.6.24): next to nothing, not nothing.
#[test]
fn an_idle_policy_task_does_not_starve() {
    for (release, fair) in [
        ("2.6.24", 2.0 / 1026.0),
        ("5.10", 3.0 / 1027.0),
        ("6.1", 3.0 / 1027.0),
        ("6.12", 3.0 / 1027.0),
        ("6.18", 3.0 / 1027.0),
        ("7.2", 3.0 / 1027.0),
        ("7.3", 3.0 / 1027.0),
    ] {
        let mut lab = Lab::with_rules(rules(release, 1000, &[]), 1);
        lab.task();
        let idle = lab.spawn(Policy::Idle, 0);
        lab.schedule(CPU0);
        let start = lab.now;
        run_until(&mut lab, start + 1_000 * SECOND, |_| {});
        let share = lab.sched.sum_exec_runtime(idle) as f64 / (1_000 * SECOND) as f64;
        assert!((share / fair - 1.0).abs() < 0.02, "{release}: {share} of {fair}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A hog among sleepers that wake again and again waits no longer than each of the others can run before it: a credit, a turn and
    /// the granularities that wake-ups and buddies allow, all at nice 0.
    #[test]
    fn a_hog_among_sleepers_does_not_starve(
        release in prop_oneof![Just("2.6.24"), Just("5.10"), Just("6.1")],
        sleepers in 1usize..6,
        bursts in proptest::collection::vec(1u64..6 * MS, 60..200),
    ) {
        let mut lab = Lab::with_rules(rules(release, 1000, &[]), 1);
        let hog = lab.task();
        let others: Vec<TaskId> = (0..sleepers).map(|_| lab.task()).collect();
        lab.schedule(CPU0);
        let tunables = lab.sched.rules().tunables;
        let (latency, granularity) = (tunables.latency.as_nanos(), tunables.wakeup_granularity.as_nanos());
        let turn = longest_turn(&lab, &vec![0; sleepers + 1]) as u64;
        // A sleeper goes to sleep at the end of a burst only, up to 6 ms later than the rules would have it.
        let bound = sleepers as u64 * (latency + 2 * turn + 2 * granularity + 6 * MS);
        let mut waits_since = lab.now;
        for (number, burst) in bursts.into_iter().enumerate() {
            let ends = lab.now + burst;
            run_until(&mut lab, ends, |lab| {
                if lab.curr(CPU0) == hog {
                    waits_since = lab.now;
                }
                assert!(lab.now - waits_since <= bound, "waits {} > {bound}", lab.now - waits_since);
            });
            if lab.curr(CPU0) != hog && lab.curr(CPU0) != TaskId::IDLE {
                lab.sleep(CPU0);
            }
            let woken = others[number % sleepers];
            lab.sync(CPU0);
            if lab.sched.try_to_wake_up(woken, CPU0) && lab.sched.need_resched(CPU0) {
                lab.schedule(CPU0);
            }
        }
    }
}
