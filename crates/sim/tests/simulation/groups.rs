//! Groups of tasks in simulated runs: each one's share, limits to the tick, sessions under autogroup.

use crate::common;

use std::collections::BTreeMap;

use common::{milliseconds, run, run_with, scheduler, switches, task, workload};
use schedlab_model::{
    Attributes, Costs, Event, EventKind, Group, GroupMax, GroupOutcome, Machine, Outcome, Policy, Scheduler, Step,
    Task, Time, Workload,
};
use schedlab_sim::Options;

/// Releases that have groups, idle ones included.
const RELEASES: [&str; 5] = ["6.1", "6.12", "6.18", "7.2", "7.3"];
/// Those without `cpu.idle` and burst too.
const ALL: [&str; 5] = ["5.10", "6.1", "6.12", "6.18", "7.2"];

/// The idle task.
const IDLE: u32 = u32::MAX;

fn weight(weight: u64) -> Group {
    Group { weight: Some(weight), ..Group::default() }
}

fn limit(quota: u64, period: u64, burst: u64) -> Group {
    let [quota, period, burst] = [quota, period, burst].map(Time::from_millis);
    Group { max: Some(GroupMax { quota, period, burst }), ..Group::default() }
}

fn hogs(name: &str, count: u32, time: u64, group: Option<&str>) -> Task {
    let steps = vec![Step::Run(milliseconds(time))];
    Task { taskgroup: group.map(str::to_owned), ..task(name, count, Attributes::default(), steps) }
}

fn grouped<const N: usize>(tasks: Vec<Task>, groups: [(&str, Group); N]) -> Workload {
    let groups: BTreeMap<_, _> = groups.into_iter().map(|(path, group)| (path.to_owned(), group)).collect();
    Workload { groups, ..workload(tasks) }
}

fn group<'a>(outcome: &'a Outcome, name: &str) -> &'a GroupOutcome {
    outcome.groups.iter().find(|group| group.name == name).expect("a group of the run")
}

#[track_caller]
fn assert_share(outcome: &Outcome, name: &str, expected: f64) {
    let found = group(outcome, name).share;
    // 1 % of the time there was.
    assert!((found - expected).abs() < 0.01, "{}, {name}: {found} instead of {expected}", outcome.release);
}

/// Two users with two and eight processes that compute all the time (the thread-fairness paper's § 2.2).
fn two_users(session: bool) -> Workload {
    let user = |name: &str, count| {
        let (path, hogs) = (format!("/{name}"), hogs(name, count, 5_000, None));
        match session {
            true => Task { session: Some(name.to_owned()), ..hogs },
            false => Task { taskgroup: Some(path), ..hogs },
        }
    };
    let tasks = vec![user("alice", 2), user("bob", 8)];
    if session { workload(tasks) } else { grouped(tasks, [("/alice", Group::default()), ("/bob", Group::default())]) }
}

/// Ten tasks of one weight get a tenth each, so the users 20 and 80 %; groups of one weight get half each.
#[test]
fn two_users_get_half_each_by_groups() {
    for release in ALL {
        let (outcome, _) = run(&two_users(false), release, &Machine::ideal(1));
        assert_share(&outcome, "/alice", 0.5);
        assert_share(&outcome, "/bob", 0.5);
        // Alice's two are done after 2 · 5 s of CPU time, which is 20 s of the CPU at half of it; Bob's 40 s end with the last.
        assert_eq!(group(&outcome, "/alice").run_ns, 10_000_000_000);
        assert_eq!(outcome.elapsed_ns, 50_000_000_000);
        let contended = group(&outcome, "/alice").contended_ns + group(&outcome, "/bob").contended_ns;
        assert!(contended.abs_diff(20_000_000_000) < 200_000_000, "{release}: {contended}");
    }
}

#[test]
fn two_users_get_half_each_by_sessions_under_autogroup() {
    for release in ALL {
        let (outcome, _) = run(&two_users(true), release, &Machine::ideal(1));
        assert_share(&outcome, "session alice", 0.5);
        assert_share(&outcome, "session bob", 0.5);
    }
}

/// Without autogroup a session means nothing: all run alike, as they do where no session is named.
#[test]
fn sessions_mean_nothing_without_autogroup() {
    let mut off = scheduler("6.1");
    off.set("autogroup", "0").expect("a knob of the release");
    let (with, options) = (two_users(true), Options::default());
    let mut without = with.clone();
    without.tasks.iter_mut().for_each(|task| task.session = None);
    let with = run_with(&with, &off, &Machine::ideal(2), &options).expect("a run that ends");
    let without = run_with(&without, &scheduler("6.1"), &Machine::ideal(2), &options).expect("a run that ends");
    assert!(with.0.groups.is_empty());
    assert_eq!(with, without);
    // 2.6.24 had no such knob.
    assert!(run(&two_users(true), "2.6.24", &Machine::ideal(1)).0.groups.is_empty());
}

/// A task in a cgroup stays there, whatever its session (`task_wants_autogroup`): /alice and the session of the other one have one
/// weight each, 1024; so has bob's hog, which is in neither.
#[test]
fn a_cgroup_goes_before_a_session() {
    let mut tasks = vec![hogs("a", 2, 4_000, Some("/alice")), hogs("b", 1, 4_000, None), hogs("c", 3, 4_000, None)];
    (tasks[0].session, tasks[2].session) = (Some("tty1".into()), Some("tty1".into()));
    let (outcome, _) = run(&grouped(tasks, [("/alice", Group::default())]), "6.1", &Machine::ideal(1));
    assert_share(&outcome, "/alice", 1.0 / 3.0);
    assert_share(&outcome, "session tty1", 1.0 / 3.0);
    assert_eq!(group(&outcome, "session tty1").tasks, 3);
}

/// /a and /b weigh 100 each. Below /a, x and y weigh 100 and 300 (as shares, 3072): 1/8 and 3/8.
#[test]
fn weights_divide_what_the_group_above_gets() {
    for release in ALL {
        let shares = Group { shares: Some(3072), ..Group::default() };
        let tasks = vec![
            hogs("x", 3, 6_000, Some("/a/x")),
            hogs("y", 1, 12_000, Some("/a/y")),
            hogs("z", 2, 8_000, Some("/b")),
        ];
        let (outcome, _) = run(
            &grouped(tasks, [("/a/x", weight(100)), ("/a/y", shares), ("/b", weight(100))]),
            release,
            &Machine::ideal(1),
        );
        for (name, expected) in [("/a", 0.5), ("/a/x", 0.125), ("/a/y", 0.375), ("/b", 0.5)] {
            assert_share(&outcome, name, expected);
        }
        assert_eq!(group(&outcome, "/a").tasks, 4);
    }
}

/// `cpu.idle`: 3 shares against a task's 1024, 0.29 %.
#[test]
fn an_idle_group_gets_next_to_nothing() {
    for release in RELEASES {
        let idle = Group { idle: true, ..Group::default() };
        let tasks = vec![hogs("background", 2, 3_000, Some("/idle")), hogs("work", 1, 6_000, Some("/work"))];
        let (outcome, _) =
            run(&grouped(tasks, [("/idle", idle), ("/work", Group::default())]), release, &Machine::ideal(1));
        assert_share(&outcome, "/idle", 3.0 / 1027.0);
    }
}

/// One hog under 20 ms of each 100 ms, alone. Its time is charged at ticks, every 4 ms, of which 20 ms are five: it is throttled at
/// the tick at which the quota is used up, and put back by the timer at each multiple of 100 ms. So 1 s takes 50 quotas:
/// 49 periods and 20 ms. Each of the 49 ends with it throttled, for 80 ms.
///
/// From 6.18 on its queue begins with a nanosecond of its own, so that at 20 ms one is left: it goes on for a tick, which the next period
/// pays; with that nanosecond again in each. So the first 24 ms leave 976, 48 quotas leave 16: 49 periods and 16 ms, the first of
/// which it was throttled for 76.
#[test]
fn a_limit_holds_to_the_tick() {
    for release in ALL {
        for no_tick_skip in [false, true] {
            let workload = grouped(vec![hogs("hog", 1, 1_000, Some("/capped"))], [("/capped", limit(20, 100, 0))]);
            let options = Options { no_tick_skip, ..Options::default() };
            let (outcome, _) =
                run_with(&workload, &scheduler(release), &Machine::ideal(1), &options).expect("a run that ends");
            let early = if ["6.18", "7.2"].contains(&release) { 4 } else { 0 };
            assert_eq!(Time::from_nanos(outcome.elapsed_ns), Time::from_millis(49 * 100 + 20 - early), "{release}");
            let group = group(&outcome, "/capped");
            assert_eq!((group.periods, group.throttled_periods), (49, 49), "{release}");
            assert_eq!(Time::from_nanos(group.throttled_ns), Time::from_millis(49 * 80 - early), "{release}");
        }
    }
}

/// A hog uses up its group's 20 ms of each 100 ms by the tick at 24 ms at the latest, and another task of the group wakes at 50 ms, when the
/// CPU idles. Up to 6.12 it stays queued until the timer at 100 ms. From 6.18 on it comes as it is woken, for it may hold what others
/// wait for in the kernel, and goes as it returns to user space: a switch later, of 3 us (`throttle_cfs_rq_work`).
#[test]
fn a_task_woken_in_a_throttled_group_comes_until_it_returns_to_user_space() {
    let costs = Costs { switch: Time::from_micros(3), ..Costs::ideal() };
    for release in ALL {
        let sleeps = vec![Step::Sleep(milliseconds(50)), Step::Run(milliseconds(1))];
        let sleeper =
            Task { taskgroup: Some("/capped".to_owned()), ..task("sleeper", 1, Attributes::default(), sleeps) };
        let tasks = vec![sleeper, hogs("hog", 1, 30, Some("/capped"))];
        let capped = grouped(tasks, [("/capped", limit(20, 100, 0))]);
        let (_, events) = run(&capped, release, &Machine::new(1, costs.clone()));
        let meanwhile = |(time, _, _): &(u64, u32, u32)| (40_000..100_000).contains(time);
        let found: Vec<u32> = switches(&events).into_iter().filter(meanwhile).map(|(_, _, next)| next).collect();
        let times: Vec<u64> = switches(&events).into_iter().filter(meanwhile).map(|(time, _, _)| time).collect();
        if ["6.18", "7.2"].contains(&release) {
            assert_eq!(found, [0, IDLE], "{release}");
            assert_eq!((times[0] / 10, times[1] - times[0]), (5_000, 3), "{release}");
        } else {
            assert_eq!(found, [] as [u32; 0], "{release}");
        }
    }
}

/// A task that sleeps 1 s and then wants 40 ms, under 20 ms of each 100 ms. When it went to sleep its queue gave back all but 1 ms of
/// the slice that it had taken, so there are 21 ms beside the quota without burst. The tick at 1.020 s finds 1 ms left, the one at
/// 1.024 s throttles it; the other 16 ms follow from 1.1 s on. With a burst of 20 ms a period's quota that was not used waits beside
/// the next one's: it runs 40 ms at once.
#[test]
fn burst_lets_through_what_was_saved() {
    for release in RELEASES {
        for (burst, expected) in [(0, 1_116), (20, 1_040)] {
            let steps = vec![Step::Sleep(milliseconds(1_000)), Step::Run(milliseconds(40))];
            let sleeper = Task { taskgroup: Some("/g".into()), ..task("t", 1, Attributes::default(), steps) };
            let (outcome, _) =
                run(&grouped(vec![sleeper], [("/g", limit(20, 100, burst))]), release, &Machine::ideal(1));
            assert_eq!(
                Time::from_nanos(outcome.elapsed_ns),
                Time::from_millis(expected),
                "{release}, burst {burst} ms"
            );
        }
    }
}

/// What a CPU takes of the quota at once. By default 5 ms: hogs on both CPUs begin at once. With 20 ms the first CPU takes all of
/// it, and the second waits for the next period.
#[test]
fn the_bandwidth_slice_is_what_a_cpu_takes() {
    let on = |name: &str, cpu| {
        let attributes = Attributes { affinity: vec![cpu], ..Attributes::default() };
        Task { taskgroup: Some("/g".into()), ..task(name, 1, attributes, vec![Step::Run(milliseconds(50))]) }
    };
    let workload = grouped(vec![on("first", 0), on("second", 1)], [("/g", limit(20, 100, 0))]);
    for (slice, expected) in [(None, 0), (Some("20ms"), 100)] {
        let mut scheduler = scheduler("6.1");
        if let Some(slice) = slice {
            scheduler.set("cfs_bandwidth_slice", slice).expect("a knob of the release");
        }
        let (_, events) =
            run_with(&workload, &scheduler, &Machine::ideal(2), &Options::default()).expect("a run that ends");
        let starts = |event: &&Event| matches!(event.kind, EventKind::Switch { next, .. } if next.0 == 1);
        let second = events.iter().find(starts).expect("it runs");
        assert_eq!(second.time, Time::from_millis(expected), "{slice:?}");
    }
}

/// A forked task lives in its parent's group unless it says otherwise; `/` is no group. Three children and the parent: two in /g, one
/// in /h, one in none.
#[test]
fn forked_tasks_inherit_their_group() {
    let child = |name: &str, group: Option<&str>| Task {
        name: name.into(),
        taskgroup: group.map(str::to_owned),
        steps: vec![Step::Run(milliseconds(10))],
        ..Task::default()
    };
    let fork = |task: &str| Step::Fork { task: task.into(), count: 1 };
    let parent = task("parent", 1, Attributes::default(), vec![fork("same"), fork("other"), fork("root"), Step::Join]);
    let parent = Task { taskgroup: Some("/g".into()), ..parent };
    let tasks = vec![parent, child("same", None), child("other", Some("/h")), child("root", Some("/"))];
    for release in ALL {
        let groups = [("/g", Group::default()), ("/h", Group::default())];
        let (outcome, _) = run(&grouped(tasks.clone(), groups), release, &Machine::ideal(2));
        let told: Vec<_> = outcome.groups.iter().map(|group| (group.tasks, group.run_ns)).collect();
        assert_eq!(told, [(2, 10_000_000), (1, 10_000_000)], "{release}");
    }
}

/// Real-time tasks are not bound by their group's weight or limit.
#[test]
fn realtime_tasks_ignore_their_group() {
    let fifo = Attributes { policy: Policy::Fifo(10), ..Attributes::default() };
    let fifo = Task { taskgroup: Some("/g".into()), ..task("fifo", 1, fifo, vec![Step::Run(milliseconds(300))]) };
    let (outcome, _) = run(&grouped(vec![fifo], [("/g", limit(10, 100, 0))]), "6.1", &Machine::ideal(1));
    assert_eq!(Time::from_nanos(outcome.elapsed_ns), Time::from_millis(300));
}

#[test]
fn what_a_release_has_not_is_refused_by_the_groups_name() {
    let refused = |release: &str, group: Group| {
        let workload = grouped(vec![hogs("hog", 1, 1, Some("/a/b"))], [("/a/b", group)]);
        let result = run_with(&workload, &scheduler(release), &Machine::ideal(1), &Options::default());
        result.map(|_| ()).expect_err("it is refused").to_string()
    };
    assert_eq!(refused("2.6.24", weight(100)), "group: '/a': 2.6.24's groups are not modelled; use 5.10 or later");
    let idle = Group { idle: true, ..Group::default() };
    assert_eq!(refused("5.10", idle), "group: '/a/b': idle groups came with 5.15; this is 5.10");
    assert_eq!(refused("5.10", limit(20, 100, 10)), "group: '/a/b': burst came with 5.14; this is 5.10");
}

/// On two CPUs the groups' weights follow their loads, so that two hogs of a group of weight 300 and two of one of weight 100, one of
/// each on each CPU, get 3/4 and 1/4.
#[test]
fn weights_hold_on_several_cpus() {
    let on = |name: &str, cpu: u32, group: &str, time| {
        let attributes = Attributes { affinity: vec![cpu], ..Attributes::default() };
        let name = format!("{name}{cpu}");
        Task { taskgroup: Some(group.into()), ..task(&name, 1, attributes, vec![Step::Run(milliseconds(time))]) }
    };
    let tasks =
        (0..2).flat_map(|cpu| [on("heavy", cpu, "/heavy", 15_000), on("light", cpu, "/light", 10_000)]).collect();
    let workload = grouped(tasks, [("/heavy", weight(300)), ("/light", weight(100))]);
    for release in ALL {
        let (outcome, _) = run(&workload, release, &Machine::ideal(2));
        assert_share(&outcome, "/heavy", 0.75);
        assert_share(&outcome, "/light", 0.25);
    }
}

/// A scheduler that was stored before there were groups reads as before, and so does a workload.
#[test]
fn knobs_of_groups_are_simulated() {
    let mut all = Scheduler::new("6.1".parse().expect("a release"));
    all.set("autogroup", "1").expect("a knob");
    all.set("cfs_bandwidth_slice", "10ms").expect("a knob");
    assert!(all.unsimulated().is_empty());
}
