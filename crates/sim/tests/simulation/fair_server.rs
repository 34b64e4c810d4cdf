//! The fair server on whole runs, derived to the tick: fair tasks beside real-time ones that never sleep (6.12 on).
//!
//! It defers until its 0-laxity time, deadline − runtime left: 950 ms at the defaults. Then its period begins anew, and each later one
//! right after; a tick ends its turn once its runtime is used up, and what was too much is missing in the next period.

use crate::common;

use common::{milliseconds, run_in_both_ways, run_with, scheduler, task, workload};
use schedlab_model::{Attributes, EventKind, Machine, Policy, Scheduler, Step, Workload};
use schedlab_sim::Options;

const IDLE: u32 = u32::MAX;
const MS: u64 = 1_000_000;
/// Releases that have the server.
const SERVING: [&str; 3] = ["6.12", "6.18", "7.2"];

fn with(release: &str, knobs: &[(&str, &str)]) -> Scheduler {
    let mut scheduler = scheduler(release);
    for (name, value) in knobs {
        scheduler.set(name, value).expect("a knob of the release");
    }
    scheduler
}

/// A FIFO task (0) and a fair one (1) on CPU 0.
fn pair(fifo: Vec<Step>, fair: Vec<Step>) -> Workload {
    let pinned = |policy| Attributes { policy, affinity: vec![0], ..Attributes::default() };
    workload(vec![task("fifo", 1, pinned(Policy::Fifo(1)), fifo), task("fair", 1, pinned(Policy::Other), fair)])
}

fn hogs(fifo: u64, fair: u64) -> Workload {
    pair(vec![Step::Run(milliseconds(fifo))], vec![Step::Run(milliseconds(fair))])
}

/// The first switches: when (in milliseconds), and to which task.
fn turns(workload: &Workload, scheduler: &Scheduler, count: usize) -> Vec<(u64, u32)> {
    let (_, events) = run_in_both_ways(workload, scheduler, &Machine::ideal(1));
    let switch = |event: &schedlab_model::Event| match event.kind {
        EventKind::Switch { next, .. } => {
            assert_eq!(event.time.as_nanos() % MS, 0, "{event:?}");
            Some((event.time.as_nanos() / MS, next.0))
        }
        _ => None,
    };
    events.iter().filter_map(switch).take(count).collect()
}

#[test]
fn a_starving_fair_task_gets_fifty_milliseconds_a_second() {
    // Both come at 0: deadline 1 s, 0-laxity time 950 ms. From there on 50 ms of each second: the tick at 1000 finds 50 ms used.
    let expected = [(0, 0), (950, 1), (1000, 0), (1950, 1), (2000, 0), (2950, 1), (3000, 0), (3950, 1), (4000, 0)];
    for release in SERVING {
        assert_eq!(turns(&hogs(4500, 1000), &with(release, &[]), 9), expected, "{release}");
    }
}

#[test]
fn an_overrun_is_missing_in_the_next_period() {
    // 9 of each 90 ms at 250 Hz. 0-laxity at 81, deadline from there 171. Ticks at 84, 88, 92 find 3, 7, 11 ms: −2 are left. At 171
    // −2 + 9 = 7, used by the tick at 180 (9 ms): −2 again. At 261 7, by the tick at 268 just so: 0. At 351 9, by 360.
    let expected = [(0, 0), (81, 1), (92, 0), (171, 1), (180, 0), (261, 1), (268, 0), (351, 1), (360, 0)];
    for release in SERVING {
        let scheduler = with(release, &[("fair_server_period", "90ms"), ("fair_server_runtime", "9ms")]);
        assert_eq!(turns(&hogs(400, 200), &scheduler, 9), expected, "{release}");
    }
}

#[test]
fn a_server_without_runtime_serves_no_task() {
    for release in SERVING {
        let scheduler = with(release, &[("fair_server_runtime", "0s")]);
        assert_eq!(turns(&hogs(2500, 10), &scheduler, 2), [(0, 0), (2500, 1)], "{release}");
    }
}

#[test]
fn a_fair_task_that_gets_its_time_is_not_served() {
    // FIFO leaves 100 ms of each 200 to the fair task, which uses the server's runtime up in 50 of them: it defers by a period from
    // then on, again and again. FIFO is never kept waiting.
    let rounds =
        vec![Step::Loop { count: 12, steps: vec![Step::Run(milliseconds(100)), Step::Sleep(milliseconds(100))] }];
    let expected: Vec<_> = (0..24).map(|turn| (turn * 100, (turn % 2) as u32)).collect();
    for release in SERVING {
        let turns = turns(&pair(rounds.clone(), vec![Step::Run(milliseconds(1300))]), &with(release, &[]), 24);
        assert_eq!(turns, expected, "{release}");
    }
}

#[test]
fn a_server_that_finds_no_task_stops_and_keeps_its_runtime() {
    // Served from 950 on the fair task sleeps at 970: FIFO goes on at once. It wakes at 980 with 30 ms of runtime 970 ms before the
    // deadline, less than 50 in 1000: it runs at once. 30 ms are used by the tick at 1012 (32 ms); at 1950 −2 + 50 = 48 are, by 2000.
    let fair = vec![Step::Run(milliseconds(20)), Step::Sleep(milliseconds(10)), Step::Run(milliseconds(200))];
    let expected = [(0, 0), (950, 1), (970, 0), (980, 1), (1012, 0), (1950, 1), (2000, 0)];
    for release in SERVING {
        let workload = pair(vec![Step::Run(milliseconds(2500))], fair.clone());
        assert_eq!(turns(&workload, &with(release, &[]), 7), expected, "{release}");
    }
}

#[test]
fn idle_time_counts_as_served() {
    // The fair task runs 10 ms and sleeps, and the CPU idles, until 500: more than the 40 ms left. FIFO comes at 501.
    // 6.12 and 6.18 leave nothing, and 1 ms more at 501 begins a new period there: 0-laxity at 501 + 950 = 1451.
    // 7.2 begins it as the CPU stops idling, at 500. The timer, at 1450, finds the 0-laxity time 1 ms later, as the fair task ran for
    // that long since: too little to wait for.
    let fifo = vec![Step::Sleep(milliseconds(501)), Step::Run(milliseconds(1500))];
    let fair = vec![Step::Run(milliseconds(10)), Step::Sleep(milliseconds(490)), Step::Run(milliseconds(500))];
    for (release, served) in [("6.12", 1451), ("6.18", 1451), ("7.2", 1450)] {
        let expected = [(0, 0), (0, 1), (10, IDLE), (500, 1), (501, 0), (served, 1)];
        assert_eq!(turns(&pair(fifo.clone(), fair.clone()), &with(release, &[]), 6), expected, "{release}");
    }
}

#[test]
fn a_server_that_is_not_admitted_is_refused() {
    // sched_fair_server_write: runtime ≤ period ≤ 2²² µs; its bandwidth among the 950 ms of each second that deadline tasks may have.
    for (knobs, said) in [
        (vec![("fair_server_runtime", "960ms")], "no more than rt_runtime, 950ms, of 1s"),
        (vec![("rt_runtime", "40ms")], "no more than rt_runtime, 40ms, of 1s"),
        (vec![("fair_server_period", "40ms")], "at most fair_server_period, which is 40ms"),
    ] {
        let error = run_with(&hogs(1, 1), &with("6.12", &knobs), &Machine::ideal(2), &Options::default());
        let error = error.expect_err("it is not admitted").to_string();
        assert!(error.contains("fair_server_runtime") && error.contains(said), "{knobs:?}: {error}");
    }
    let error = with("6.12", &[]).set("fair_server_period", "4195ms").expect_err("it is too long").to_string();
    assert!(error.contains("100us to"), "{error}");
    for knobs in [
        [("fair_server_runtime", "950ms"), ("rt_runtime", "950ms")],
        [("fair_server_runtime", "1s"), ("rt_runtime", "-1")],
    ] {
        assert!(run_with(&hogs(1, 1), &with("6.12", &knobs), &Machine::ideal(2), &Options::default()).is_ok());
    }
}
