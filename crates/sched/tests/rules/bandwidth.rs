//! Bandwidth of groups: quotas, slices, throttling.

use proptest::prelude::*;
use schedlab_model::{Policy, TaskId, TaskState, Time};
use schedlab_sched::GroupId;

use crate::groups::{group, member};
use crate::lab::{CPU0, CPU1, Lab, MS, US, attributes};

/// Limits a group: quota, period and burst in milliseconds.
pub fn limit(lab: &mut Lab, group: GroupId, quota: u64, period: u64, burst: u64) {
    let [quota, period, burst] = [quota, period, burst].map(Time::from_millis);
    lab.sched.set_group_bandwidth(group, Some(quota), period, burst).expect("a limit in range");
}

/// Lets time pass in steps of a millisecond with a tick every 4 ms and timers on time; CPUs that must reschedule do.
pub fn run(lab: &mut Lab, milliseconds: u64) {
    for _ in 0..milliseconds {
        lab.advance(MS);
        while let Some(timer) = lab.sched.bandwidth_timer().filter(|timer| timer.at.as_nanos() <= lab.now) {
            for cpu in lab.sched.bandwidth_timer_cpus(timer) {
                lab.sync(cpu);
            }
            lab.sched.run_bandwidth_timer(timer);
        }
        for cpu in lab.cpus() {
            lab.sync(cpu);
            if lab.now.is_multiple_of(4 * MS) {
                lab.sched.sched_tick(cpu);
            } else {
                lab.sched.update_curr(cpu);
            }
            if lab.must_switch(cpu) {
                lab.schedule(cpu);
            }
        }
    }
}

/// A task alone in a group of 5 ms in 100, which it has used up.
pub fn throttled(release: &str) -> (Lab, GroupId, TaskId) {
    let mut lab = Lab::new(release, &[]);
    let limited = group(&mut lab, GroupId::ROOT, 100);
    limit(&mut lab, limited, 5, 100, 0);
    let task = member(&mut lab, limited);
    lab.schedule(CPU0);
    run(&mut lab, 20);
    assert!(lab.sched.is_throttled(task) && lab.curr(CPU0) == TaskId::IDLE, "{release}");
    (lab, limited, task)
}

pub fn time(lab: &Lab, task: TaskId) -> u64 {
    lab.sched.sum_exec_runtime(task)
}

const RELEASES: [&str; 6] = ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

/// A group within another uses up its quota beside a task of that other one. Before 6.12 the pick then begins anew without the previous task
/// (`simple` in `pick_next_task_fair`): also the level that both tasks have in common is set anew, and its turn begins. Since then that
/// level's turn goes on, which began with the first pick, 11 ms ago.
#[test]
fn a_pick_that_throttles_begins_the_turn_of_every_level_before_6_12() {
    for (release, anew) in [("5.10", true), ("6.1", true), ("6.12", false)] {
        let mut lab = Lab::new(release, &[]);
        let outer = group(&mut lab, GroupId::ROOT, 100);
        let limited = group(&mut lab, outer, 1000);
        limit(&mut lab, limited, 5, 100, 0);
        let second = member(&mut lab, outer);
        assert_eq!(lab.schedule(CPU0), second, "{release}");
        lab.run(CPU0, 5 * MS);
        // Its group comes in before the 5 ms, and is so heavy that it is the first of its queue still after 6 ms, a tenth in virtual time.
        let first = member(&mut lab, limited);
        assert_eq!(lab.schedule(CPU0), first, "{release}");
        lab.run(CPU0, 6 * MS);
        assert_eq!(lab.schedule(CPU0), second, "{release}");
        assert!(lab.sched.is_throttled(first), "{release}");
        let (_, se) = lab.sched.ids_of_group(outer, CPU0);
        let level = lab.sched.entity_at(se.expect("a group's"));
        let turn = level.sum_exec_runtime - level.prev_sum_exec_runtime;
        assert_eq!(turn, if anew { 0 } else { 11 * MS }, "{release}");
    }
}

/// sched-bwc, example 3: a group limited to 20 % of one CPU, 10 ms of quota in a period of 50 ms. A queue takes slices of 5 ms, two
/// are the quota; with time charged each millisecond it runs 10 ms and at most one more, which it owes to the next period.
#[test]
fn twenty_percent_of_one_cpu() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        limit(&mut lab, limited, 10, 50, 0);
        let task = member(&mut lab, limited);
        lab.schedule(CPU0);
        run(&mut lab, 50 * 100);
        let used = time(&lab, task);
        assert!(used.abs_diff(1_000 * MS) <= 11 * MS, "{release}: {used}");
        // 100 periods ended, each with the queue throttled.
        let stats = lab.sched.bandwidth_stats(limited);
        assert!(stats.nr_periods.abs_diff(100) <= 1 && stats.nr_throttled == stats.nr_periods, "{release}: {stats:?}");
        // Of each 50 ms it was throttled 40, but for the first and the last.
        assert!(stats.throttled_time.abs_diff(4_000 * MS) <= 50 * MS, "{release}: {stats:?}");
    }
}

/// From 6.18 on a queue out of runtime stays where it is, and its tasks run on in the kernel; each goes as it returns to user space
/// (`throttle_cfs_rq_work`), one that is picked meanwhile too, and all come back with the refill. 5 ms of 100 ms are used up at the tick
/// after 6 ms. A task that returns after the refill stays.
#[test]
fn tasks_are_taken_off_one_by_one() {
    for release in ["6.18", "7.2", "7.3"] {
        let mut lab = Lab::new(release, &[]);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        limit(&mut lab, limited, 5, 100, 0);
        let tasks = [member(&mut lab, limited), member(&mut lab, limited)];
        lab.schedule(CPU0);
        lab.tick_after(CPU0, 6 * MS);
        // A system call goes on: the kernel picks as it would, from the same queue.
        lab.sched.schedule(CPU0, TaskState::Running);
        let queue = lab.sched.group_queue(limited, CPU0).expect("made");
        assert!(queue.throttled && queue.nr_running == 2 && lab.queue(CPU0).h_nr_running == 2, "{release}");
        let runs = lab.curr(CPU0);
        assert!(lab.sched.exit_to_user(CPU0) && lab.sched.is_throttled(runs), "{release}");
        assert_eq!(lab.queue(CPU0).h_nr_running, 1, "{release}");
        let next = lab.sched.schedule(CPU0, TaskState::Running).next;
        assert!(next != runs && tasks.contains(&next) && !lab.sched.is_throttled(next), "{release}");
        assert!(lab.sched.exit_to_user(CPU0) && lab.sched.is_throttled(next), "{release}");
        assert_eq!(lab.sched.schedule(CPU0, TaskState::Running).next, TaskId::IDLE, "{release}");
        // The refill at 100 ms: one is owed, 4 are left.
        lab.advance(95 * MS);
        lab.sync(CPU0);
        let timer = lab.sched.bandwidth_timer().expect("a period");
        lab.sched.run_bandwidth_timer(timer);
        let back = |task: &TaskId| lab.entity(*task).on_rq && !lab.sched.is_throttled(*task);
        assert!(tasks.iter().all(back) && lab.sched.need_resched(CPU0), "{release}");
    }
}

/// A task whose group is given its runtime before it returns to user space is not taken off: the work that is pending then finds
/// nothing throttled.
#[test]
fn a_task_that_returns_after_the_refill_stays() {
    for release in ["6.18", "7.2", "7.3"] {
        let mut lab = Lab::new(release, &[]);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        limit(&mut lab, limited, 5, 100, 0);
        let task = member(&mut lab, limited);
        lab.schedule(CPU0);
        lab.tick_after(CPU0, 6 * MS);
        lab.sched.schedule(CPU0, TaskState::Running);
        assert!(lab.sched.group_queue(limited, CPU0).expect("made").throttled, "{release}");
        lab.sched.set_group_bandwidth(limited, None, Time::from_millis(100), Time::ZERO).expect("in range");
        assert!(!lab.sched.exit_to_user(CPU0) && lab.curr(CPU0) == task, "{release}");
    }
}

/// A timer gives a queue what it owes and a nanosecond, and then lets it go, for which the clock is read again. 5 ms, and the nanosecond
/// with which a limit begins, are used up after 6;
/// the task runs on in the kernel. 7.2 charges it 1 ms more as it gives, and what it ran until the queue is let go, 0.5 ms: the queue owes
/// that and stays throttled, until a timer gives it as much again. 6.18 charges neither then.
#[test]
fn what_a_queue_gets_may_be_used_up_before_it_is_let_go() {
    for (release, owed, left) in [("6.18", MS, 1), ("7.2", 2 * MS, 1 - 500_000), ("7.3", 2 * MS, 1 - 500_000)] {
        let mut lab = Lab::new(release, &[]);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        limit(&mut lab, limited, 5, 100, 0);
        member(&mut lab, limited);
        lab.schedule(CPU0);
        lab.tick_after(CPU0, 6 * MS);
        lab.sched.schedule(CPU0, TaskState::Running);
        let queue = |lab: &Lab| lab.sched.group_queue(limited, CPU0).expect("made").clone();
        assert_eq!((queue(&lab).throttled, queue(&lab).runtime_remaining), (true, 1 - MS as i64), "{release}");
        lab.advance(MS);
        lab.sync(CPU0);
        let refilled = lab.sched.fire_bandwidth_timer(limited, false, lab.now);
        assert_eq!((refilled.len(), queue(&lab).throttled, queue(&lab).runtime_remaining), (1, true, 1), "{release}");
        assert_eq!(lab.sched.bandwidth_pool(limited), 5 * MS - owed, "{release}");
        lab.advance(500 * US);
        lab.sync(CPU0);
        lab.sched.let_go(refilled);
        assert_eq!((queue(&lab).throttled, queue(&lab).runtime_remaining), (left < 0, left), "{release}");
        let refilled = lab.sched.fire_bandwidth_timer(limited, false, lab.now);
        lab.sched.let_go(refilled);
        assert!(!queue(&lab).throttled, "{release}");
    }
}

/// sched-bwc, example 1: quota and period of 250 ms are one CPU: a task alone in such a group is never throttled.
#[test]
fn one_cpu_worth_of_runtime_does_not_hold_one_task_back() {
    let mut lab = Lab::new("6.1", &[]);
    let limited = group(&mut lab, GroupId::ROOT, 100);
    limit(&mut lab, limited, 250, 250, 0);
    let task = member(&mut lab, limited);
    lab.schedule(CPU0);
    run(&mut lab, 5_000);
    assert_eq!(time(&lab, task), 5_000 * MS);
    assert_eq!(lab.sched.bandwidth_stats(limited).nr_throttled, 0);
}

/// sched-bwc, example 2: 1000 ms of quota in 500 ms are two CPUs: two tasks on two CPUs run all the time.
#[test]
fn two_cpus_worth_of_runtime_on_two_cpus() {
    let mut lab = Lab::with_cpus("6.1", 2, &[]);
    let limited = group(&mut lab, GroupId::ROOT, 100);
    limit(&mut lab, limited, 1000, 500, 0);
    let tasks = [CPU0, CPU1].map(|cpu| {
        let task = lab.spawn_on(cpu, Policy::Other, 0);
        lab.sched.sched_move_task(task, limited);
        lab.schedule(cpu);
        task
    });
    run(&mut lab, 3_000);
    for task in tasks {
        assert_eq!(time(&lab, task), 3_000 * MS);
    }
}

/// sched-bwc, example 4: quota 20 ms in 50 ms with 10 ms of burst. A period in which the group sleeps leaves 10 ms for the next: 30 ms
/// at once (and at most 1 ms before the charge is seen), where without burst 20 ms are the end.
#[test]
fn burst_keeps_what_was_not_used() {
    for (burst, most) in [(0, 20), (10, 30)] {
        let mut lab = Lab::new("6.1", &[]);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        limit(&mut lab, limited, 20, 50, burst);
        let task = member(&mut lab, limited);
        lab.schedule(CPU0);
        run(&mut lab, 5);
        lab.sleep(CPU0);
        // Awake again just after a refill: periods are multiples of 50 ms.
        run(&mut lab, 146);
        let before = time(&lab, task);
        lab.wake(task);
        lab.schedule(CPU0);
        run(&mut lab, 45);
        let used = time(&lab, task) - before;
        // What the queue itself kept of its last slice, 1 ms at most, adds to it.
        assert!((most * MS..=(most + 2) * MS).contains(&used), "burst {burst}: {used}");
    }
}

/// A parent of 30 % with a child of 50 %: the parent holds, and a task of the parent's own beside the child shares in it.
#[test]
fn a_parents_limit_holds_for_all_below_it() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let parent = group(&mut lab, GroupId::ROOT, 100);
        let child = group(&mut lab, parent, 100);
        limit(&mut lab, parent, 30, 100, 0);
        limit(&mut lab, child, 50, 100, 0);
        let tasks = [member(&mut lab, parent), member(&mut lab, child)];
        let free = lab.task();
        lab.schedule(CPU0);
        run(&mut lab, 10_000);
        let [own, below] = tasks.map(|task| time(&lab, task));
        assert!((own + below).abs_diff(3_000 * MS) <= 32 * MS, "{release}: {own} {below}");
        assert!(own.abs_diff(below) <= 3_000 * MS / 50, "{release}: {own} {below}");
        // Work conservation: the rest is the free task's, to the nanosecond.
        assert_eq!(own + below + time(&lab, free), 10_000 * MS, "{release}");
    }
}

/// A task that wakes in a throttled group waits with it; the CPU stays idle until the refill, and then runs it.
#[test]
fn a_throttled_groups_task_wakes_to_wait() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        limit(&mut lab, limited, 5, 100, 0);
        let sleeper = member(&mut lab, limited);
        assert_eq!(lab.schedule(CPU0), sleeper);
        lab.leave(CPU0, schedlab_model::TaskState::Dead);
        let hog = member(&mut lab, limited);
        let late = member(&mut lab, limited);
        lab.schedule(CPU0);
        run(&mut lab, 20);
        assert_eq!((lab.curr(CPU0), lab.sched.nr_running(CPU0)), (TaskId::IDLE, 0), "{release}");
        let third = member(&mut lab, limited);
        assert_eq!((lab.schedule(CPU0), lab.sched.nr_running(CPU0)), (TaskId::IDLE, 0), "{release}");
        run(&mut lab, 90);
        assert!([hog, late, third].iter().any(|task| time(&lab, *task) > 0), "{release}");
        lab.sched.sched_move_task(third, GroupId::ROOT);
        lab.schedule(CPU0);
        run(&mut lab, 1);
        assert!(time(&lab, third) > 0, "{release}");
    }
}

/// A running task that is moved into a throttled group runs on until it is switched from (`set_next_task_fair` of levels that are off
/// their queues). A group above that has nothing else is empty, and weighs what it weighed: its load's average is that of a moment ago. So
/// 3 ms are charged to it by the weight of 300, a third of what nice 0 is charged.
#[test]
fn a_group_emptied_by_throttling_keeps_its_weight() {
    for release in ["5.10", "6.1", "6.12"] {
        let mut lab = Lab::new(release, &[]);
        let heavy = group(&mut lab, GroupId::ROOT, 300);
        let limited = group(&mut lab, heavy, 100);
        limit(&mut lab, limited, 5, 100, 0);
        member(&mut lab, limited);
        lab.schedule(CPU0);
        run(&mut lab, 20);
        let task = lab.task();
        lab.schedule(CPU0);
        assert_eq!(lab.curr(CPU0), task, "{release}");
        lab.sched.sched_move_task(task, limited);
        let vruntime = |lab: &Lab| lab.sched.group_entity(heavy, CPU0).expect("it had a task").vruntime;
        let before = vruntime(&lab);
        lab.run(CPU0, 3 * MS);
        assert!(vruntime(&lab).minus(before.0).0.abs_diff(MS) <= 1, "{release}");
    }
}

/// A throttled task that becomes a real-time task leaves limbo and runs. It sleeps then, and `p->on_rq` is 0 whatever class it gets
/// (`block_task`), so that a change of class does not queue it: `p->throttled`, which is read as a fair task is queued, does not count.
/// Found by `the_books_of_groups_balance`.
#[test]
fn a_throttled_task_that_changed_class_and_sleeps_stays_asleep() {
    for release in RELEASES {
        let (mut lab, _, task) = throttled(release);
        for sleeps in [true, false] {
            lab.sched.sched_setattr(task, &attributes(Policy::Fifo(10), 0));
            lab.schedule(CPU0);
            let runs = if sleeps { task } else { TaskId::IDLE };
            assert_eq!((lab.curr(CPU0), lab.sched.nr_running(CPU0)), (runs, u32::from(sleeps)), "{release}");
            if sleeps {
                lab.leave(CPU0, TaskState::Interruptible);
            }
            lab.sched.sched_setattr(task, &attributes(Policy::Other, 0));
            assert_eq!((lab.schedule(CPU0), lab.sched.nr_running(CPU0)), (TaskId::IDLE, 0), "{release}");
        }
        lab.sched.sched_setattr(task, &attributes(Policy::Fifo(10), 0));
        lab.wake(task);
        assert_eq!((lab.schedule(CPU0), lab.sched.nr_running(CPU0)), (task, 1), "{release}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// No group gets more than its quota a period, but for what a CPU runs before the charge is seen (1 ms here, owed to the next
    /// period), and on a CPU that it has to itself it gets no less.
    #[test]
    fn the_cap_holds(
        release in proptest::sample::select(RELEASES.to_vec()),
        quota in 2u64..60,
        period in 20u64..120,
        members in 1usize..4,
        cpus in 1u32..3,
    ) {
        let mut lab = Lab::with_cpus(release, cpus, &[]);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        limit(&mut lab, limited, quota, period, 0);
        let mut tasks = Vec::new();
        for cpu in lab.cpus() {
            for _ in 0..members {
                let task = lab.spawn_on(cpu, Policy::Other, 0);
                lab.sched.sched_move_task(task, limited);
                tasks.push(task);
            }
            lab.schedule(cpu);
        }
        let mut used = 0;
        let periods = 40;
        for number in 1..=periods {
            run(&mut lab, period);
            used = tasks.iter().map(|task| time(&lab, *task)).sum::<u64>();
            // The window need not start with a period: one more quota may be in it.
            let most = (number + 1) * quota * MS + u64::from(cpus) * MS;
            prop_assert!(used <= most, "{} after {} periods", used, number);
        }
        let fair = (quota * periods).min(u64::from(cpus) * period * periods) * MS;
        // Slices left on a CPU that had no use for them: 5 ms each at most.
        prop_assert!(used + quota * MS + u64::from(cpus) * 6 * MS >= fair, "{} of {}", used, fair);
    }
}
