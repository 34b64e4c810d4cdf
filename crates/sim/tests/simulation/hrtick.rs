//! HRTICK and HRTICK_DL on whole runs: slices and runtimes that end between ticks.

use crate::common;

use common::{milliseconds, run_in_both_ways, run_with, scheduler, task, workload};
use schedlab_model::{Attributes, Costs, Event, EventKind, Machine, Scheduler, Step, Time, Workload};
use schedlab_sim::Options;

/// The switches up to 24 ms: when (in nanoseconds), and to which task. They are the same with and without skipping ticks.
fn turns(workload: &Workload, scheduler: &Scheduler) -> Vec<(u64, u32)> {
    let (_, events) = run_in_both_ways(workload, scheduler, &Machine::ideal(1));
    let switch = |event: &Event| match event.kind {
        EventKind::Switch { next, .. } => Some((event.time.as_nanos(), next.0)),
        _ => None,
    };
    events.iter().filter_map(switch).filter(|(at, _)| *at < 24_000_000).collect()
}

fn hogs() -> Workload {
    workload(vec![task("hog", 2, Attributes::default(), vec![Step::Run(milliseconds(30))])])
}

fn with(release: &str, knobs: &[(&str, &str)]) -> Scheduler {
    let mut scheduler = scheduler(release);
    for (name, value) in knobs {
        scheduler.set(name, value).expect("a feature of the release");
    }
    scheduler
}

/// 7.2, one CPU: requests of 700 µs, the first of half that. Each hog goes as its request is served: at 350 µs the first, then the second,
/// then each after 700 µs, for the other one's deadline is earlier, or the same and it waits. Without the timer the first tick that finds
/// a request served ends it: each of them, every 4 ms.
#[test]
fn requests_end_between_ticks_on_7_2() {
    let exact = turns(&hogs(), &with("7.2", &[]));
    let whole = (1u64..).map(|turn| (700_000 * turn, (turn as u32 + 1) % 2)).take_while(|(at, _)| *at < 24_000_000);
    let expected: Vec<_> = [(0, 0), (350_000, 1)].into_iter().chain(whole).collect();
    assert_eq!(exact, expected);

    let ticks = turns(&hogs(), &with("7.2", &[("feature.HRTICK", "0")]));
    let expected: Vec<_> = (0u64..6).map(|turn| (4_000_000 * turn, turn as u32 % 2)).collect();
    assert_eq!(ticks, expected);
}

/// 6.1, one CPU: half of the latency of 6 ms each, less 2 ns of rounding. At the end of a turn the other one has run as long, or less, so
/// it comes. Ticks would end the turns at 4, 8, … ms.
#[test]
fn slices_end_between_ticks_on_6_1() {
    let exact = turns(&hogs(), &with("6.1", &[("feature.HRTICK", "1")]));
    let expected: Vec<_> =
        (0u64..).map(|turn| (2_999_998 * turn, turn as u32 % 2)).take_while(|(at, _)| *at < 24_000_000).collect();
    assert_eq!(exact, expected);
}

/// A deadline task that never sleeps has 3 ms of each 10, to the nanosecond; a fair hog has the rest. By ticks it has 4 ms, then, 1 ms in
/// debt, 2 ms of the next 10, which a tick ends just then.
#[test]
fn runtimes_end_between_ticks() {
    let policy = "deadline:runtime=3ms,deadline=10ms".parse().expect("a policy");
    let greedy = Attributes { policy, ..Attributes::default() };
    let workload = workload(vec![
        task("greedy", 1, greedy, vec![Step::Run(milliseconds(12))]),
        task("hog", 1, Attributes::default(), vec![Step::Run(milliseconds(40))]),
    ]);
    let ms = |turns: &[(u64, u32)]| turns.iter().map(|(at, who)| (at * 1_000_000, *who)).collect::<Vec<_>>();
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2"] {
        let name = if release == "5.10" { "feature.HRTICK" } else { "feature.HRTICK_DL" };
        let exact = turns(&workload, &with(release, &[(name, "1")]));
        assert_eq!(exact, ms(&[(0, 0), (3, 1), (10, 0), (13, 1), (20, 0), (23, 1)]), "{release}");
        let ticks = turns(&workload, &with(release, &[(name, "0")]));
        assert_eq!(ticks, ms(&[(0, 0), (4, 1), (10, 0), (12, 1), (20, 0)]), "{release}");
    }
}

/// Ticks take nine tenths of each millisecond, and requests of 700 µs end by timers: would each of those take as much, nothing were left. Two hogs of
/// 30 ms still get done, in more than the 600 ms that ticks alone make of it.
#[test]
fn tasks_get_on_however_dear_ticks_are() {
    let mut rules = with("7.2", &[]);
    rules.hz = 1000;
    let machine = Machine::new(1, Costs { tick: Time::from_micros(900), ..Costs::ideal() });
    let (_, events) = run_with(&hogs(), &rules, &machine, &Options::default()).expect("a run that ends");
    assert!(events.last().is_some_and(|event| event.time > Time::from_millis(600)));
}
