//! Skipped ticks leave what executed ticks would have left, and none that would have acted is skipped (`inactive_ticks`, `skip_ticks`).

use proptest::prelude::*;
use schedlab_model::{Policy, TaskId, Time};
use schedlab_sched::{Class, Clocks, GroupId};

use crate::lab::{CPU0, Lab, MS, attributes, rules};

/// What a queue has been through before its ticks are skipped.
#[derive(Debug, Clone)]
enum Before {
    Spawn(Policy, i8),
    Run(u64),
    Schedule,
    Sleep,
    Wake(usize),
    Yield,
    /// A task moves into a group, which may be limited.
    Group(usize, Option<u64>),
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        6 => Just(Policy::Other),
        1 => Just(Policy::Batch),
        1 => Just(Policy::Idle),
        1 => (1u8..4).prop_map(Policy::Fifo),
        2 => (1u8..4).prop_map(Policy::Rr),
        2 => (50u64..30_000, 1u64..20).prop_map(|(runtime, times)| {
            let [runtime, period] = [runtime, 200 + runtime * times].map(Time::from_micros);
            Policy::Deadline { runtime, deadline: period, period }
        }),
    ]
}

fn befores() -> impl Strategy<Value = Vec<Before>> {
    let before = prop_oneof![
        4 => (policies(), -20i8..=19).prop_map(|(policy, nice)| Before::Spawn(policy, nice)),
        4 => (1u64..30 * MS).prop_map(Before::Run),
        2 => Just(Before::Schedule),
        2 => Just(Before::Sleep),
        2 => (0usize..8).prop_map(Before::Wake),
        1 => Just(Before::Yield),
        1 => (0usize..8, proptest::option::of(5u64..90)).prop_map(|(task, quota)| Before::Group(task, quota)),
    ];
    proptest::collection::vec(before, 1..40)
}

fn settings() -> impl Strategy<Value = (&'static str, u32, Vec<(&'static str, &'static str)>)> {
    let cfs_knobs = prop_oneof![
        Just(vec![]),
        Just(vec![("latency", "20ms"), ("min_granularity", "4ms")]),
        Just(vec![("latency", "1s")]),
        Just(vec![("feature.WAKEUP_PREEMPTION", "0")]),
    ];
    let timer = prop_oneof![
        Just(vec![("feature.HRTICK", "1")]),
        Just(vec![("feature.HRTICK", "1"), ("latency", "100ms")]),
        Just(vec![("feature.HRTICK", "1"), ("feature.DOUBLE_TICK", "1")]),
    ];
    let eevdf_knobs = prop_oneof![
        Just(vec![]),
        Just(vec![("base_slice", "20ms")]),
        Just(vec![("feature.RUN_TO_PARITY", "0")]),
        Just(vec![("feature.HRTICK", "0"), ("feature.HRTICK_DL", "0"), ("base_slice", "9ms")]),
        Just(vec![("feature.HRTICK", "1"), ("feature.HRTICK_DL", "1"), ("base_slice", "9ms")]),
        Just(vec![("feature.DELAY_DEQUEUE", "0")]),
        Just(vec![("fair_server_runtime", "0s"), ("base_slice", "20ms")]),
        Just(vec![("fair_server_runtime", "0s"), ("base_slice", "20ms"), ("feature.RUN_TO_PARITY", "0")]),
    ];
    let realtime = prop_oneof![
        Just(vec![("rt_runtime", "950ms")]),
        Just(vec![("rt_period", "100ms"), ("rt_runtime", "30ms")]),
        Just(vec![("rt_runtime", "0s")]),
        Just(vec![("feature.RT_RUNTIME_SHARE", "1"), ("rt_runtime", "950ms")]),
    ];
    let hz = prop_oneof![Just(100u32), Just(250), Just(300), Just(1000)];
    let throttling = (prop_oneof![Just("5.10"), Just("6.1")], hz.clone(), realtime);
    let cfs = (prop_oneof![Just("2.6.24"), Just("5.10"), Just("6.1")], hz.clone(), cfs_knobs);
    let eevdf = (prop_oneof![Just("6.12"), Just("6.18"), Just("7.2"), Just("7.3")], hz.clone(), eevdf_knobs);
    let timer = (prop_oneof![Just("5.10"), Just("6.1")], hz, timer);
    prop_oneof![3 => cfs, 3 => eevdf, 2 => throttling, 1 => timer]
}

/// What else happens at a time of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Rules,
    Group,
    Hrtick,
}

/// The next timer of the rules, of a group's bandwidth or of the CPU's high-resolution tick.
fn next_timer(lab: &Lab) -> Option<(u64, Due)> {
    let rules = lab.sched.next_timer().map(|(at, _)| (at.as_nanos(), Due::Rules));
    let group = lab.sched.bandwidth_timer().map(|timer| (timer.at.as_nanos(), Due::Group));
    let hrtick = lab.sched.hrtick_expires(CPU0).map(|at| (at.as_nanos(), Due::Hrtick));
    rules.into_iter().chain(group).chain(hrtick).min()
}

/// Lets time pass, with every timer on time, and charges the current task.
fn pass(lab: &mut Lab, nanoseconds: u64) {
    let end = lab.now + nanoseconds;
    while let Some((at, due)) = next_timer(lab).filter(|(at, _)| *at <= end) {
        lab.now = lab.now.max(at);
        lab.sync(CPU0);
        match due {
            Due::Rules => lab.sched.run_timer(),
            Due::Group => {
                lab.sched.bandwidth_timer().into_iter().for_each(|timer| lab.sched.run_bandwidth_timer(timer))
            }
            Due::Hrtick => lab.sched.hrtick(CPU0),
        }
        if lab.sched.need_resched(CPU0) {
            lab.schedule(CPU0);
        }
    }
    lab.now = end;
    lab.sync(CPU0);
    lab.sched.update_curr(CPU0);
}

/// A queue after `befores`, its running task just picked or going on for a while.
fn queue(release: &str, hz: u32, knobs: &[(&str, &str)], loads: bool, befores: &[Before]) -> Lab {
    let mut lab = Lab::with_rules(rules(release, hz, knobs), 1);
    if loads && release != "2.6.24" {
        lab.sched.track_load();
    }
    let mut tasks: Vec<TaskId> = Vec::new();
    let mut group = None;
    for before in befores {
        match *before {
            Before::Spawn(policy, nice) => {
                let asked = attributes(policy, nice);
                if lab.sched.sched_dl_overflow(None, &asked).is_ok() {
                    tasks.push(lab.spawn(policy, nice));
                }
            }
            Before::Run(nanoseconds) => pass(&mut lab, nanoseconds),
            Before::Group(index, quota) => {
                lab.sync(CPU0);
                let Some(task) = tasks.get(index) else { continue };
                if let Ok(home) = group.map_or_else(|| lab.sched.create_group(GroupId::ROOT), Ok) {
                    group = Some(home);
                    let (quota, period) = (quota.map(Time::from_millis), Time::from_millis(100));
                    lab.sched.set_group_bandwidth(home, quota, period, Time::ZERO).expect("in range");
                    lab.sched.sched_move_task(*task, home);
                }
            }
            Before::Schedule => {
                lab.schedule(CPU0);
            }
            Before::Sleep => {
                lab.sleep(CPU0);
            }
            Before::Wake(index) => {
                lab.sync(CPU0);
                if let Some(task) = tasks.get(index) {
                    lab.sched.try_to_wake_up(*task, CPU0);
                }
            }
            Before::Yield => {
                lab.yields(CPU0);
            }
        }
    }
    if lab.sched.need_resched(CPU0) {
        lab.schedule(CPU0);
    }
    lab
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn skipped_ticks_are_executed_ticks(
        (release, hz, knobs) in settings(),
        (befores, loads) in (befores(), any::<bool>()),
        offset in 0.0f64..1.0,
        asked in 1u64..400,
    ) {
        let mut executed = queue(release, hz, &knobs, loads, &befores);
        let tick = executed.sched.rules().tick;
        let first = Time::from_nanos(executed.now + 1 + (offset * (tick - 1) as f64) as u64);
        let inactive = executed.sched.inactive_ticks(CPU0, first);
        // A timer is an event of its own: a driver skips up to it.
        let until = next_timer(&executed).map_or(u64::MAX, |(at, _)| at.saturating_sub(first.as_nanos()).div_ceil(tick));
        let count = inactive.min(asked).min(until);

        let mut skipped = executed.clone();
        skipped.sched.skip_ticks(CPU0, first, count);
        for number in 0..count {
            executed.sched.set_clocks(CPU0, Clocks::all(first + Time::from_nanos(tick * number)));
            executed.sched.sched_tick(CPU0);
            prop_assert!(!executed.sched.need_resched(CPU0), "tick {} of {} acts", number, inactive);
        }
        prop_assert_eq!(format!("{:#?}", skipped.sched), format!("{:#?}", executed.sched));

        // The fair class's bound is exact, the next tick does act. (Under HRTICK CFS's timer comes before it; a fair server's runtime, or
        // a group's load, may be what it does act on.)
        let grouped = loads && befores.iter().any(|before| matches!(before, Before::Group(..)));
        let fair = !grouped && executed.sched.curr_class(CPU0) == Class::Fair;
        let exact = fair
            && match executed.sched.rules().eevdf {
                false => executed.sched.hrtick_expires(CPU0).is_none(),
                true => executed.sched.rules().tunables.fair_server_runtime == Time::ZERO,
            };
        if inactive == count && exact && executed.entity(executed.curr(CPU0)).parent.is_none() {
            executed.sched.set_clocks(CPU0, Clocks::all(first + Time::from_nanos(tick * count)));
            executed.sched.sched_tick(CPU0);
            prop_assert!(executed.sched.need_resched(CPU0), "tick {} does not act", count);
        }
    }
}

/// On an idle CPU, or with a lone task, no tick ever acts, but on the fair server. The 13th of a fair task, after 52 ms, uses up its 50 ms.
#[test]
fn ticks_of_idle_cpus_and_lone_tasks_never_act() {
    for (release, fair) in [
        ("2.6.24", u64::MAX),
        ("5.10", u64::MAX),
        ("6.1", u64::MAX),
        ("6.12", 12),
        ("6.18", 12),
        ("7.2", 12),
        ("7.3", 12),
    ] {
        let mut lab = Lab::new(release, &[]);
        let next = Time::from_nanos(lab.now + 4 * MS);
        assert_eq!(lab.sched.inactive_ticks(CPU0, next), u64::MAX, "{release}");
        lab.task();
        lab.schedule(CPU0);
        assert_eq!(lab.sched.inactive_ticks(CPU0, next), fair, "{release}");
        let mut lab = Lab::new(release, &[]);
        lab.spawn(Policy::Rr(1), 0);
        lab.schedule(CPU0);
        assert_eq!(lab.sched.inactive_ticks(CPU0, next), u64::MAX, "{release}");
    }
}

/// Two tasks of 20 ms latency at 250 Hz: the slice is 10 ms, so ticks at 4 and 8 ms do not act and the one at 12 ms does.
#[test]
fn the_bound_counts_the_ticks_of_a_slice() {
    for release in ["2.6.24", "5.10", "6.1"] {
        let mut lab = Lab::new(release, &[("latency", "20ms")]);
        lab.task();
        lab.task();
        lab.schedule(CPU0);
        let next = Time::from_nanos(lab.now + 4 * MS);
        assert_eq!(lab.sched.inactive_ticks(CPU0, next), 2, "{release}");
        // The first tick 2 ms from now: 2, 6 and 10 ms (10 is not more than the 10 ms, on 5.10 and 6.1 than 9.999997 it is).
        let next = Time::from_nanos(lab.now + 2 * MS);
        assert_eq!(lab.sched.inactive_ticks(CPU0, next), if release == "2.6.24" { 3 } else { 2 }, "{release}");
    }
}

/// A round-robin task with a competitor: its slice of 25 ticks ends with the 25th.
#[test]
fn the_bound_counts_the_ticks_of_a_round_robin_slice() {
    let mut lab = Lab::new("6.1", &[]);
    lab.spawn(Policy::Rr(1), 0);
    lab.spawn(Policy::Rr(1), 0);
    lab.schedule(CPU0);
    assert_eq!(lab.sched.inactive_ticks(CPU0, Time::from_nanos(lab.now + 4 * MS)), 24);
}

/// 6.12, an unprotected task at 0 beside one at 30 ms, which alone is V's other part: beyond 30 ms it is not eligible. So ticks at 4, 8, … 28 ms do
/// not act, and the one at 32 ms does; without PREEMPT_SHORT only that at 52 ms, beyond the request of 50 ms.
#[test]
fn the_bound_counts_the_ticks_of_an_unprotected_task() {
    for (preempt_short, ticks) in [("1", 7), ("0", 12)] {
        let knobs = [
            ("base_slice", "50ms"),
            ("fair_server_runtime", "0s"),
            ("feature.PLACE_DEADLINE_INITIAL", "0"),
            ("feature.RUN_TO_PARITY", "0"),
            ("feature.PREEMPT_SHORT", preempt_short),
        ];
        let mut lab = Lab::new("6.12", &knobs);
        let (ahead, task) = (lab.task(), lab.task());
        assert_eq!(lab.schedule(CPU0), ahead);
        lab.run(CPU0, 30 * MS);
        assert_eq!(lab.schedule(CPU0), task);
        let entity = lab.sched.entity_mut(task);
        entity.vprot = entity.deadline.plus(1);
        let next = Time::from_nanos(lab.now + 4 * MS);
        assert_eq!(lab.sched.inactive_ticks(CPU0, next), ticks, "PREEMPT_SHORT={preempt_short}");
    }
}
