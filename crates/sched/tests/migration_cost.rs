//! `task_hot` (`kernel/sched/fair.c`): a task that ran a moment ago stays near its cache, unless that kept a CPU from balancing too often.

mod common;

use common::{CURRENT, Machine};
use schedlab_model::{CpuId, Policy, TaskId, Time};

/// NI_RANDOM draws whether a CPU that is about to idle looks for work at all.
fn knobs<'a>(release: &str, migration_cost: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut knobs: Vec<(&str, &str)> = migration_cost.map(|cost| ("migration_cost", cost)).into_iter().collect();
    if release.starts_with("7.") {
        knobs.push(("feature.NI_RANDOM", "0"));
    }
    knobs
}

fn machine(release: &str, topology: &str, migration_cost: Option<&str>) -> Machine {
    Machine::with(release, 2, topology, &knobs(release, migration_cost))
}

/// `add_nr_running`: as soon as one CPU has two tasks (`rd->overload`), another that runs out of work looks for some, before any balancing
/// on a tick found that out. With a single one there is nothing to take.
#[test]
fn a_cpu_that_runs_out_of_work_balances_at_once() {
    for release in CURRENT {
        let mut machine = machine(release, "smt=1", Some("0ns"));
        machine.hog(1);
        let first = machine.start(0, &[], Policy::Other);
        assert_eq!(machine.sleeps(1), TaskId::IDLE, "{release}: no task waits");
        machine.hog(1);
        let second = machine.start(0, &[], Policy::Other);
        machine.advance(1);
        let taken = machine.sleeps(1);
        assert!([first, second].contains(&taken), "{release}: {taken:?}");
    }
}

/// `init_sd_lb_stats`: any group with a task is busier than none, with however many idle CPUs (`UINT_MAX` of them to begin with). Of two
/// caches with two CPUs each the first has an idle CPU and one with two tasks, so that it has room (2 tasks are no more than 2 CPUs, and
/// fill 2048 of 2048, which is less than 117 %). The other has no task once CPU 3 runs out of work: 2 tasks there are more than 0 + 1 here
/// (`prefer_sibling`), half of the difference is 1, and the waiting task is pulled.
#[test]
fn a_cache_with_an_idle_cpu_has_work_for_another() {
    for release in CURRENT {
        let mut machine = Machine::with(release, 4, "llc=2", &knobs(release, Some("0ns")));
        let tasks = [machine.start(1, &[], Policy::Other), machine.start(1, &[], Policy::Other)];
        machine.hog(3);
        let runs = machine.sched.curr(CpuId(1));
        let waits = tasks.into_iter().find(|task| *task != runs).expect("one of two runs");
        machine.advance(1);
        assert_eq!(machine.sleeps(3), waits, "{release}");
    }
}

/// Whether a CPU that runs out of work takes the task that waits on the other one, so long after that had to stop running.
fn is_taken(mut machine: Machine, policy: Policy, after: u64) -> bool {
    machine.hog(1);
    let waits = machine.start(0, &[], policy);
    let runs = machine.hog(0);
    while machine.sched.curr(CpuId(0)) != runs {
        machine.advance_to_tick();
    }
    assert_eq!(machine.sched.task_cpu(waits), CpuId(0), "not pulled yet");
    machine.advance(after);
    assert_eq!(machine.sched.curr(CpuId(0)), runs, "it waits still");
    match machine.sleeps(1) {
        TaskId::IDLE => false,
        taken => taken == waits,
    }
}

/// `rq_clock_task(src) - p->se.exec_start < sysctl_sched_migration_cost`, by default 500 us: 1 ns less is too early.
#[test]
fn a_task_that_ran_less_than_the_cost_ago_stays() {
    for release in CURRENT {
        for (cost, nanos) in [(None, 500_000), (Some("2ms"), 2_000_000), (Some("1us"), 1_000)] {
            for topology in ["smt=1", "llc=1"] {
                let machine = || machine(release, topology, cost);
                assert!(!is_taken(machine(), Policy::Other, nanos - 1), "{release} {topology} {cost:?}");
                assert!(is_taken(machine(), Policy::Other, nanos), "{release} {topology} {cost:?}");
            }
        }
    }
}

/// `this_rq->avg_idle < sd->max_newidle_lb_cost`: a CPU that never ran out of work before is taken to idle for twice the cost of a migration, 1 ms,
/// and does not look for work where that has taken longer.
#[test]
fn a_cpu_looks_for_work_where_it_idles_for_longer_than_that_has_taken() {
    for release in CURRENT {
        for (cost, looks) in [(0, true), (1_000_000, true), (1_000_001, false)] {
            let mut machine = machine(release, "smt=1", None);
            machine.sched.set_newidle_cost(Time::from_nanos(cost));
            assert_eq!(is_taken(machine, Policy::Other, 500_000), looks, "{release}: {cost} ns");
        }
    }
}

/// Threads of a core share its caches, SCHED_IDLE tasks have none to lose, and where migrating costs nothing no task is hot.
#[test]
fn no_task_is_hot_where_there_is_nothing_to_lose() {
    for release in CURRENT {
        assert!(is_taken(machine(release, "smt=2", None), Policy::Other, 1), "{release}: a thread beside it");
        assert!(is_taken(machine(release, "smt=1", None), Policy::Idle, 1), "{release}: SCHED_IDLE");
        assert!(is_taken(machine(release, "smt=1", Some("0ns")), Policy::Other, 1), "{release}: no cost");
    }
}

/// Ticks until one of two tasks that share a CPU is taken to the one that idles beside it.
fn ticks_until_one_is_taken(release: &str, topology: &str, migration_cost: &str) -> usize {
    let mut machine = machine(release, topology, Some(migration_cost));
    machine.start(0, &[], Policy::Other);
    machine.start(0, &[], Policy::Other);
    let ticks = (0..100).find(|_| {
        machine.advance_to_tick();
        machine.sched.nr_running(CpuId(1)) > 0
    });
    ticks.expect("a task is pulled within 400 ms")
}

/// A hot task is pulled all the same once `nr_balance_failed` is greater than `cache_nice_tries`, 1 between cores: after two attempts
/// in vain. The idle CPU's domain is due at each tick, as its interval is a millisecond a CPU, less than a tick.
#[test]
fn a_hot_task_is_taken_after_two_attempts() {
    for release in CURRENT {
        for topology in ["smt=1", "llc=1"] {
            let cold = ticks_until_one_is_taken(release, topology, "0ns");
            assert_eq!(ticks_until_one_is_taken(release, topology, "4s"), cold + 2, "{release} {topology}");
            // Threads of a core are never hot.
            let cold = ticks_until_one_is_taken(release, "smt=2", "0ns");
            assert_eq!(ticks_until_one_is_taken(release, "smt=2", "4s"), cold, "{release}");
        }
    }
}
