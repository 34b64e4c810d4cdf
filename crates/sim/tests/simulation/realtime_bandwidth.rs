//! Real-time bandwidth on whole runs, derived to the tick: `rt_runtime`, `rt_period` and `RT_RUNTIME_SHARE`.
//!
//! The period timer starts with the first real-time task, one nanosecond after it is queued: periods end at 1 ns past multiples of
//! `rt_period`. A queue is throttled by the first tick that finds more than `rt_runtime` used; each period pays back that much.

use crate::common;

use common::{milliseconds, run_in_both_ways, run_with, scheduler, task, workload};
use schedlab_model::{Attributes, Event, EventKind, Machine, Policy, Scheduler, Step, Time, Workload};
use schedlab_sim::Options;

const IDLE: u32 = u32::MAX;
const MS: u64 = 1_000_000;
/// Releases that throttle real-time tasks.
const THROTTLING: [&str; 2] = ["5.10", "6.1"];

fn with(release: &str, hz: u32, knobs: &[(&str, &str)]) -> Scheduler {
    let mut scheduler = Scheduler { hz, ..scheduler(release) };
    for (name, value) in knobs {
        scheduler.set(name, value).expect("a knob of the release");
    }
    scheduler
}

fn pinned(policy: Policy, cpu: u32) -> Attributes {
    Attributes { policy, affinity: vec![cpu], ..Attributes::default() }
}

/// A FIFO hog (task 0) beside a fair one (task 1).
fn hogs(fifo: u64, fair: u64) -> Workload {
    workload(vec![
        task("fifo", 1, pinned(Policy::Fifo(1), 0), vec![Step::Run(milliseconds(fifo))]),
        task("fair", 1, pinned(Policy::Other, 0), vec![Step::Run(milliseconds(fair))]),
    ])
}

/// The first switches: when, and to which task.
fn turns(workload: &Workload, scheduler: &Scheduler, count: usize) -> Vec<(u64, u32)> {
    let (_, events) = run_in_both_ways(workload, scheduler, &Machine::ideal(1));
    switches(&events).into_iter().take(count).collect()
}

fn switches(events: &[Event]) -> Vec<(u64, u32)> {
    let switch = |event: &Event| match event.kind {
        EventKind::Switch { next, .. } => Some((event.time.as_nanos(), next.0)),
        _ => None,
    };
    events.iter().filter_map(switch).collect()
}

#[test]
fn ninety_five_per_cent_for_real_time_leaves_five_to_fair_tasks() {
    // 250 Hz, 950 ms of 1 s. Ticks find 948 ms used, then 952 ms: throttled there. At 1 s + 1 ns 950 ms are paid back, 2 ms stay.
    // Tick 1948 finds 2 ms + 948 ms − 1 ns = 950 ms − 1 ns; tick 1952 finds 954 ms − 1 ns: throttled, 4 ms − 1 ns stay.
    // Tick 2944 finds 4 ms − 1 ns + 944 ms − 1 ns; tick 2948 952 ms − 2 ns: throttled.
    // The fair task gets 48, 48 and 52 ms of the first three seconds: 5 % but for a tick.
    let expected = [
        (0, 0),
        (952 * MS, 1),
        (1000 * MS + 1, 0),
        (1952 * MS, 1),
        (2000 * MS + 1, 0),
        (2948 * MS, 1),
        (3000 * MS + 1, 0),
    ];
    for release in THROTTLING {
        assert_eq!(turns(&hogs(3500, 1000), &with(release, 250, &[]), 7), expected, "{release}");
    }
}

#[test]
fn a_throttled_cpu_without_fair_tasks_idles() {
    // The same without a fair task: the CPU idles though the FIFO task could go on.
    let alone = workload(vec![task("fifo", 1, pinned(Policy::Fifo(1), 0), vec![Step::Run(milliseconds(1900))])]);
    let expected = [(0, 0), (952 * MS, IDLE), (1000 * MS + 1, 0), (1948 * MS + 1, IDLE)];
    for release in THROTTLING {
        // 1900 ms are done 952 ms + 948 ms after its second start, before the tick at 1952 ms.
        assert_eq!(turns(&alone, &with(release, 250, &[]), 9), expected, "{release}");
    }
}

#[test]
fn no_limit_is_no_limit() {
    // −1 switches bandwidth off; runtime = period leaves nothing over; a runtime of 0 throttles no task, as no period would ever give
    // anything back; from 6.12 on, and before 2.6.25, there is no throttling. FIFO runs its 2.5 s through.
    for release in THROTTLING {
        for runtime in ["-1", "0s", "1s"] {
            let scheduler = with(release, 250, &[("rt_runtime", runtime)]);
            assert_eq!(turns(&hogs(2500, 10), &scheduler, 2), [(0, 0), (2500 * MS, 1)], "{release} {runtime}");
        }
    }
    assert_eq!(turns(&hogs(2500, 10), &with("2.6.24", 250, &[]), 2), [(0, 0), (2500 * MS, 1)]);
}

#[test]
fn the_documentation_s_graphics_take_four_fifths() {
    // Documentation/scheduler/sched-rt-group.rst: 0.032 s of each 0.04 s. Ticks (250 Hz) find 32, then 36 ms: throttled. At 40 ms +
    // 1 ns 4 ms stay, so 4 ms + 32 ms − 1 ns at tick 72 is too much, and the tick before found 32 ms − 1 ns. Then 4 ms − 1 ns stay:
    // tick 112, and so on: 32 ms less 1 ns each time.
    let expected = [(0, 0), (36 * MS, 1), (40 * MS + 1, 0), (72 * MS, 1), (80 * MS + 1, 0), (112 * MS, 1)];
    for release in THROTTLING {
        let scheduler = with(release, 250, &[("rt_period", "40ms"), ("rt_runtime", "32ms")]);
        assert_eq!(turns(&hogs(200, 200), &scheduler, 6), expected, "{release}");
    }
}

#[test]
fn the_documentation_s_audio_pays_for_its_ticks() {
    // The same document: 0.00015 s of each 0.005 s, 3 %. At 1000 Hz the first tick finds 1 ms used, and each period pays 0.15 ms
    // back: less than 0.15 ms are left after six, 0.1 ms at 30 ms + 1 ns. Tick 31 finds 1.1 ms − 1 ns, of which seven periods leave
    // 0.05 ms − 1 ns at 65 ms + 1 ns: 1 ms in 35 ms is 2.9 %.
    let expected = [(0, 0), (MS, 1), (30 * MS + 1, 0), (31 * MS, 1), (65 * MS + 1, 0), (66 * MS, 1)];
    for release in THROTTLING {
        let scheduler = with(release, 1000, &[("rt_period", "5ms"), ("rt_runtime", "150us")]);
        assert_eq!(turns(&hogs(10, 200), &scheduler, 6), expected, "{release}");
    }
}

#[test]
fn an_unused_period_ends_the_timer() {
    // FIFO runs 0 to 10 ms, and again from 3010 ms. The period that ends at 1 s + 1 ns still pays back; with nothing used and no task
    // queued then, the timer stops, due next at 2 s + 1 ns. That is long past at 3010 ms: a new period begins 1 ns later. So the first tick
    // to find more than 950 ms is 3960 + 4 = 3964 (3960 finds 950 ms), and the next period begins at 4010 ms + 1 ns.
    let steps = vec![Step::Run(milliseconds(10)), Step::Sleep(milliseconds(3000)), Step::Run(milliseconds(2000))];
    let alone = workload(vec![task("fifo", 1, pinned(Policy::Fifo(1), 0), steps)]);
    let expected = [(0, 0), (10 * MS, IDLE), (3010 * MS, 0), (3964 * MS, IDLE), (4010 * MS + 1, 0)];
    for release in THROTTLING {
        assert_eq!(turns(&alone, &with(release, 250, &[]), 5), expected, "{release}");
    }
}

#[test]
fn cpus_share_their_runtime_where_told_to() {
    // RT_RUNTIME_SHARE (off since 5.10): the tick that finds 952 ms used borrows half of what CPU 1 has left, 475 ms, but no more than
    // makes a whole period, 50 ms. With all of the period to itself the queue is never throttled. Without it, it is.
    for release in THROTTLING {
        let machine = Machine::ideal(2);
        let shared = with(release, 250, &[("feature.RT_RUNTIME_SHARE", "1")]);
        let (outcome, _) = run_with(&hogs(2500, 10), &shared, &machine, &Options::default()).unwrap();
        assert_eq!(outcome.tasks[0].life_ns, 2500 * MS, "{release}");
        let own = with(release, 250, &[]);
        let (outcome, _) = run_with(&hogs(2500, 10), &own, &machine, &Options::default()).unwrap();
        // 952 and 952 ms done by 1952 ms; 596 ms and 1 ns more from 2 s + 1 ns on.
        assert_eq!(outcome.tasks[0].life_ns, 2596 * MS + 2, "{release}");
    }
}

#[test]
fn rt_runtime_above_its_period_is_refused() {
    let scheduler = with("6.1", 250, &[("rt_period", "100ms")]);
    let refused = run_with(&hogs(1, 1), &scheduler, &Machine::ideal(1), &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("rt_runtime") && refused.contains("100ms"), "{refused}");
    assert_eq!(Time::from_millis(100).to_string(), "100ms");
}
