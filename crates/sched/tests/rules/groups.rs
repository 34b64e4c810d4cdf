//! Task groups: each one's share, the order in which they run, and what moves with a task.

use proptest::prelude::*;
use schedlab_model::{Policy, TaskId, Time};
use schedlab_sched::GroupId;

use crate::lab::{CPU0, CPU1, Lab, MS};

const RELEASES: [&str; 6] = ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];
/// One tick at 250 Hz.
const TICK: u64 = 4 * MS;

pub fn group(lab: &mut Lab, parent: GroupId, weight: u64) -> GroupId {
    let group = lab.sched.create_group(parent).expect("a release with groups");
    lab.sched.set_group_weight(group, weight).expect("a weight in range");
    group
}

pub fn member(lab: &mut Lab, group: GroupId) -> TaskId {
    let task = lab.task();
    lab.sched.sched_move_task(task, group);
    task
}

/// Runs the CPU for `ticks` ticks, all tasks always runnable; gives the CPU time of each task over it.
fn compete(lab: &mut Lab, tasks: &[TaskId], ticks: u64) -> Vec<u64> {
    let before: Vec<u64> = tasks.iter().map(|task| lab.sched.sum_exec_runtime(*task)).collect();
    for _ in 0..ticks {
        if lab.tick_after(CPU0, TICK) {
            lab.schedule(CPU0);
        }
    }
    tasks.iter().zip(before).map(|(task, before)| lab.sched.sum_exec_runtime(*task) - before).collect()
}

/// `__sched_group_set_shares` sets the group's weight, and then, CPU by CPU, what follows from it: on one CPU its entity weighs the same.
#[test]
fn a_groups_weight_comes_before_what_follows_from_it() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let heavy = group(&mut lab, GroupId::ROOT, 100);
        member(&mut lab, heavy);
        let (_, se) = lab.sched.ids_of_group(heavy, CPU0);
        let weight = |lab: &Lab| lab.sched.entity_at(se.expect("a group's")).weight >> 10;
        assert_eq!(lab.sched.set_shares_alone(heavy, 2048), Ok(true), "{release}");
        assert_eq!(weight(&lab), 1024, "{release}");
        lab.sched.set_shares_of_queues(heavy);
        assert_eq!(weight(&lab), 2048, "{release}");
        assert_eq!(lab.sched.set_shares_alone(heavy, 2048), Ok(false), "{release}");
        assert!(lab.sched.set_shares_alone(GroupId::ROOT, 2048).is_err(), "{release}");
    }
}

/// The thread-fairness paper, section 2.2: users with 2 and 8 processes. Without groups the CPU falls into ten equal parts, 20 % and
/// 80 %. With a group each, both groups weigh 1024 and get half, whatever is in them.
#[test]
fn two_users_with_two_and_eight_processes_get_half_each() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let users = [group(&mut lab, GroupId::ROOT, 100), group(&mut lab, GroupId::ROOT, 100)];
        let tasks: Vec<TaskId> = (0..10).map(|number| member(&mut lab, users[usize::from(number >= 2)])).collect();
        lab.schedule(CPU0);
        let times = compete(&mut lab, &tasks, 20_000);
        let total: u64 = times.iter().sum();
        let first: u64 = times[..2].iter().sum();
        assert!(first.abs_diff(total / 2) < total / 200, "{release}: {first} of {total}");
    }
}

/// `cpu.weight` 100 and 300 at the top; below the second 100 and 200 (and a task of its own beside them, nice 0 = 1024 = weight 100).
/// Parts: 1/4; 3/4 · 1/4, 3/4 · 2/4 and 3/4 · 1/4.
#[test]
fn nested_groups_divide_by_weight() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let a = group(&mut lab, GroupId::ROOT, 100);
        let b = group(&mut lab, GroupId::ROOT, 300);
        let c = group(&mut lab, b, 100);
        let d = group(&mut lab, b, 200);
        let tasks = [a, c, d, b].map(|group| member(&mut lab, group));
        lab.schedule(CPU0);
        let times = compete(&mut lab, &tasks, 40_000);
        let total: u64 = times.iter().sum();
        for (time, sixteenths) in times.iter().zip([4, 3, 6, 3]) {
            let expected = total * sixteenths / 16;
            assert!(time.abs_diff(expected) < total / 100, "{release}: {times:?}");
        }
    }
}

/// An idle group's shares are 3 (WEIGHT_IDLEPRIO) against a task's 1024, and a task that wakes outside it preempts at once. With a single
/// timeline (7.3) tasks are compared and not their groups: the group's task is no SCHED_IDLE task, and a new task does not preempt it. The
/// group's task has had its request by far: 0.7 ms of 1024 / 3 that it weighs are 239 ms of virtual time, and it ran 341; so the next tick
/// ends its turn.
#[test]
fn an_idle_group_gives_way() {
    for release in &RELEASES[1..] {
        let mut lab = Lab::new(release, &[]);
        let idle = group(&mut lab, GroupId::ROOT, 100);
        lab.sched.set_group_idle(idle, true).expect("a release with idle groups");
        let background = member(&mut lab, idle);
        lab.schedule(CPU0);
        lab.run(CPU0, MS);
        let other = lab.task();
        assert_eq!(lab.sched.need_resched(CPU0), *release != "7.3", "{release}");
        if *release == "7.3" {
            assert!(lab.tick_after(CPU0, 4 * MS));
        }
        assert_eq!(lab.schedule(CPU0), other, "{release}");
        let times = compete(&mut lab, &[background, other], 40_000);
        // 3 / 1027 is 0.3 %; one turn of 4 ms more or less is a fortieth of a thousandth.
        let expected = (times[0] + times[1]) * 3 / 1027;
        assert!(times[0].abs_diff(expected) < expected / 5, "{release}: {times:?}");
    }
}

/// Two groups of one task each wait for each other as two tasks would: on 6.1 with its defaults for one CPU (latency 6 ms, minimum
/// granularity 0.75 ms, two tasks on the CPU) a slice is half of 6 ms on the groups' level and all of that inside. Half by
/// multiplication with the inverse of 2048, ⌊(2³² − 1) / 2048⌋ = 2097151: ⌊6·10⁶ · 1024 · 2097151 / 2³²⌋ = 2999998.
#[test]
fn a_slice_is_divided_on_the_way_down() {
    let mut lab = Lab::new("6.1", &[]);
    let groups = [group(&mut lab, GroupId::ROOT, 100), group(&mut lab, GroupId::ROOT, 100)];
    for one in groups {
        member(&mut lab, one);
    }
    lab.schedule(CPU0);
    lab.assert_slice(CPU0, 2_999_998);
}

/// Within a group the task's part is taken of the group's part: two tasks in one of two groups have half of half of 6 ms (three tasks are
/// no more than nr_latency). By the same inverse: ⌊2999998 · 1024 · 2097151 / 2³²⌋ = 1499998, where the group itself may go on to 2999998.
#[test]
fn a_task_s_slice_is_a_part_of_its_group_s() {
    let mut lab = Lab::new("6.1", &[]);
    let groups = [group(&mut lab, GroupId::ROOT, 100), group(&mut lab, GroupId::ROOT, 100)];
    for one in [groups[0], groups[0], groups[1]] {
        member(&mut lab, one);
    }
    lab.schedule(CPU0);
    // Whichever group is first: the one with two tasks runs.
    if lab.sched.group_of(lab.curr(CPU0)) == groups[1] {
        lab.run(CPU0, MS);
        lab.schedule(CPU0);
    }
    assert_eq!(lab.sched.group_of(lab.curr(CPU0)), groups[0]);
    lab.assert_slice(CPU0, 1_499_998);
}

/// Tasks of one group take turns without their group starting anew: the group's slice goes on (`pick_next_task_fair` puts and sets
/// only what changes). A group whose tasks alternate every millisecond has run 2 ms when the second one has run one.
#[test]
fn a_groups_slice_goes_on_as_its_tasks_take_turns() {
    let mut lab = Lab::new("6.1", &[]);
    let shared = group(&mut lab, GroupId::ROOT, 100);
    let first = member(&mut lab, shared);
    let second = member(&mut lab, shared);
    let running = lab.schedule(CPU0);
    let parent = lab.entity(first).parent.expect("a member's parent");
    assert_eq!(lab.entity(second).parent, Some(parent));
    lab.run(CPU0, MS);
    let next = lab.sleep(CPU0);
    assert_ne!(next, running);
    lab.run(CPU0, MS);
    let ran = |task: TaskId| lab.entity(task).sum_exec_runtime - lab.entity(task).prev_sum_exec_runtime;
    assert_eq!(ran(next), MS);
    assert_eq!(
        lab.sched.group_entity(shared, CPU0).map(|se| se.sum_exec_runtime - se.prev_sum_exec_runtime),
        Some(2 * MS)
    );
}

/// A child is in its parent's group, on whichever CPU it starts.
#[test]
fn a_child_inherits_its_group() {
    let mut lab = Lab::with_cpus("6.1", 2, &[]);
    let shared = group(&mut lab, GroupId::ROOT, 100);
    let parent = member(&mut lab, shared);
    lab.schedule(CPU0);
    let child = lab.fork(parent, CPU1);
    assert_eq!(lab.sched.group_of(child), shared);
    assert!(lab.entity(child).parent.is_some());
    assert_eq!(lab.schedule(CPU1), child);
}

/// `scale_load_down` makes no less than 2 of any weight. A group of weight 1 has 10 shares; once the load averages of 16 tasks on as many CPUs have
/// met, each CPU has 10 / 16 of one. Its entity is charged as if it weighed 2: of 4 ms, 1024 × 2147483647 (2^32 over 2) has 41 bits,
/// >> 9 is 4294967294, and 4,000,000 × 4294967294 / 2^23 = 2047999999.05, truncated. By 10 / 16 it would be 6.5 s.
#[test]
fn no_part_of_a_group_s_shares_is_charged_by_less_than_2() {
    for release in ["5.10", "6.1", "6.12", "6.18"] {
        let mut lab = Lab::with_cpus(release, 16, &[]);
        let small = group(&mut lab, GroupId::ROOT, 1);
        let cpus: Vec<_> = lab.cpus().collect();
        for cpu in &cpus {
            let task = lab.spawn_on(*cpu, Policy::Other, 0);
            lab.sched.sched_move_task(task, small);
            lab.schedule(*cpu);
        }
        let entity = |lab: &Lab| {
            let entity = lab.sched.group_entity(small, CPU0).expect("it has a task");
            (entity.vruntime, entity.load.scaled)
        };
        for _ in 0..1_000 {
            lab.advance(4 * MS);
            let (before, weight) = entity(&lab);
            for cpu in &cpus {
                lab.tick_after(*cpu, 0);
            }
            if weight < 2 << 10 {
                assert_eq!(entity(&lab).0.minus(before.0).0, 2_047_999_999, "{release}");
            }
        }
        let (_, weight) = entity(&lab);
        assert!(weight.abs_diff((10 << 10) / 16) < 64, "{release}: {weight}");
    }
}

/// On two CPUs a group with one task on each is worth its 1024 once, half on each CPU, once the load averages have met: beside a
/// plain task on each CPU its tasks get 1/3 (512 to 1024) instead of half.
#[test]
fn a_group_on_two_cpus_splits_its_shares() {
    for release in RELEASES {
        let mut lab = Lab::with_cpus(release, 2, &[]);
        let shared = group(&mut lab, GroupId::ROOT, 100);
        let mut members = Vec::new();
        for cpu in [CPU0, CPU1] {
            lab.spawn_on(cpu, Policy::Other, 0);
            let task = lab.spawn_on(cpu, Policy::Other, 0);
            lab.sched.sched_move_task(task, shared);
            members.push(task);
            lab.schedule(cpu);
        }
        let mut tick = |ticks: u64| {
            let before: Vec<u64> = members.iter().map(|task| lab.sched.sum_exec_runtime(*task)).collect();
            for _ in 0..ticks {
                lab.advance(TICK);
                for cpu in [CPU0, CPU1] {
                    if lab.tick_after(cpu, 0) {
                        lab.schedule(cpu);
                    }
                }
            }
            let after = members.iter().map(|task| lab.sched.sum_exec_runtime(*task));
            after.zip(before).map(|(after, before)| after - before).collect::<Vec<_>>()
        };
        tick(1_000);
        for time in tick(20_000) {
            let part = time as f64 / (20_000 * TICK) as f64;
            assert!((part - 1.0 / 3.0).abs() < 0.02, "{release}: {part}");
        }
    }
}

/// Bad settings are refused by name and leave the group as it was.
#[test]
fn wrong_settings_are_refused() {
    let mut lab = Lab::new("6.1", &[]);
    let one = group(&mut lab, GroupId::ROOT, 100);
    let ms = Time::from_millis;
    let refusals = [
        (lab.sched.set_group_weight(one, 0), "1 to 10000"),
        (lab.sched.set_group_weight(GroupId::ROOT, 100), "root"),
        (lab.sched.set_group_idle(GroupId::ROOT, true), "root"),
        (lab.sched.set_group_bandwidth(one, Some(Time::from_micros(999)), ms(100), Time::ZERO), "1ms or more"),
        (lab.sched.set_group_bandwidth(one, Some(ms(5)), ms(1001), Time::ZERO), "1ms to 1s"),
        (lab.sched.set_group_bandwidth(one, Some(ms(5)), ms(10), ms(6)), "more than the quota"),
        (Lab::new("2.6.24", &[]).sched.create_group(GroupId::ROOT).map(|_| ()), "5.10 or later"),
    ];
    for (refusal, said) in refusals {
        let error = refusal.expect_err("a refusal").to_string();
        assert!(error.contains(said), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Weighted shares within 1 % over a long window, whatever the weights and however many tasks share a group.
    #[test]
    fn groups_share_by_weight(
        release in proptest::sample::select(RELEASES.to_vec()),
        settings in proptest::collection::vec((20u64..500, 1usize..4), 2..5),
    ) {
        let mut lab = Lab::new(release, &[]);
        let mut tasks = Vec::new();
        let mut owners = Vec::new();
        for (number, (weight, members)) in settings.iter().enumerate() {
            let owner = group(&mut lab, GroupId::ROOT, *weight);
            for _ in 0..*members {
                tasks.push(member(&mut lab, owner));
                owners.push(number);
            }
        }
        lab.schedule(CPU0);
        let times = compete(&mut lab, &tasks, 30_000);
        let total: u64 = times.iter().sum();
        prop_assert_eq!(total, 30_000 * TICK);
        let weights: u64 = settings.iter().map(|(weight, _)| weight).sum();
        for (number, (weight, _)) in settings.iter().enumerate() {
            let time: u64 = owners.iter().zip(&times).filter(|(owner, _)| **owner == number).map(|(_, time)| time).sum();
            let expected = total * weight / weights;
            prop_assert!(time.abs_diff(expected) < total / 100, "{} of {} for {}/{}", time, total, weight, weights);
        }
    }
}
