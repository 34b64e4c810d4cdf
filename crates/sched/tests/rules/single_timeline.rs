//! 7.3: one timeline for the tasks of all groups, and what short slices may do there (`kernel/sched/fair.c`).

use schedlab_model::{Attributes, CpuId, Policy, TaskId, Time};
use schedlab_sched::{GroupId, Timer, Vruntime};

use crate::bandwidth::limit;
use crate::groups::{group, member};
use crate::lab::{CPU0, CPU1, Lab, MS, US, attributes};

const TICK: u64 = 4 * MS;

/// Virtual time starts 1 ms (2²⁰ ns) before it wraps.
const ORIGIN: Vruntime = Vruntime(0u64.wrapping_sub(1 << 20));

fn with_slice(lab: &mut Lab, policy: Policy, slice: u64) -> TaskId {
    let slice = Some(Time::from_nanos(slice));
    let task = lab.sched.new_task(&Attributes { slice, ..attributes(policy, 0) });
    lab.sync(CPU0);
    lab.sched.wake_up_new_task(task, CPU0);
    task
}

/// What a task weighs in its timeline, with all bits.
fn in_timeline(lab: &Lab, task: TaskId) -> u64 {
    lab.entity(task).load.scaled
}

/// `__calc_prop_weight`: a task weighs 2²⁰ times its part of each level, at the top times its group's weight. In a group of 1024 beside others, one
/// of nice 0 alone is all of the group, 2²⁰; one of nice 5 (335) that comes is ⌊2²⁰ · 335 / 1359⌋. The first weighs what it did until it is queued,
/// set to run or ticked: then ⌊2²⁰ · 1024 / 1359⌋.
#[test]
fn a_task_weighs_its_part_of_each_level() {
    let mut lab = Lab::new("7.3", &[]);
    let outside = lab.task();
    let home = group(&mut lab, GroupId::ROOT, 100);
    let first = member(&mut lab, home);
    assert_eq!((in_timeline(&lab, outside), in_timeline(&lab, first)), (1 << 20, 1 << 20));
    let light = lab.spawn(Policy::Other, 5);
    lab.sched.sched_move_task(light, home);
    assert_eq!((in_timeline(&lab, first), in_timeline(&lab, light)), (1 << 20, (1 << 20) * 335 / 1359));
    lab.sync(CPU0);
    while lab.schedule(CPU0) != first {
        lab.tick_after(CPU0, TICK);
    }
    assert_eq!(in_timeline(&lab, first), (1 << 20) * 1024 / 1359);
    // A tick brings it up to date, too: nice 10 (110) instead of nice 5 leaves 1134.
    lab.sched.set_user_nice(light, 10);
    assert_eq!(in_timeline(&lab, light), (1 << 20) * 110 / 1134);
    assert_eq!(in_timeline(&lab, first), (1 << 20) * 1024 / 1359);
    lab.tick_after(CPU0, TICK);
    assert_eq!(in_timeline(&lab, first), (1 << 20) * 1024 / 1134);
    // All three stand in the root's timeline, of which two are waiting; the root's level has the task outside and the group.
    assert_eq!((lab.queue(CPU0).timeline.iter().count(), lab.queue(CPU0).nr_running), (2, 2));
    assert_eq!(
        lab.sched.group_queue(home, CPU0).map(|queue| (queue.nr_running, queue.timeline.iter().count())),
        Some((2, 0))
    );
}

/// The smallest part: 3 of a group of weight 1 (10 shares) beside one of nice −20 in it, which weighs 88761: 10 · 2¹⁰ · 3 / 88764 is less than
/// MIN_SHARES, and a task weighs 2 at least.
#[test]
fn a_task_weighs_no_less_than_two() {
    let mut lab = Lab::new("7.3", &[]);
    let outer = group(&mut lab, GroupId::ROOT, 1);
    let heavy = lab.spawn(Policy::Other, -20);
    lab.sched.sched_move_task(heavy, outer);
    let inner = group(&mut lab, outer, 1);
    let (other, least) = (lab.spawn(Policy::Other, -20), lab.spawn(Policy::Idle, 0));
    lab.sched.sched_move_task(other, inner);
    lab.sched.sched_move_task(least, inner);
    // ⌊2²⁰ · 3 / 88764⌋ = 35; of the outer group 10 of 88771: ⌊35 · 10 / 88771⌋ = 0, so 2; at the top 2 · 10 / 1024 = 0, so 2.
    assert_eq!(in_timeline(&lab, least), 2);
}

/// `task_tick_fair` asks whether the task is queued: one that was throttled as it returned to user space, and runs on until the CPU reschedules, has no tick
/// of either kind. Of a group of 5 ms in 100 with two tasks one has run 6 ms; its group's entity, which still runs, counts from then on.
#[test]
fn a_throttled_task_has_no_tick() {
    for high_resolution in [false, true] {
        let mut lab = Lab::new("7.3", &[]);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        limit(&mut lab, limited, 5, 100, 0);
        let tasks = [member(&mut lab, limited), member(&mut lab, limited)];
        lab.schedule(CPU0);
        lab.tick_after(CPU0, 6 * MS);
        let throttled_at = lab.now;
        assert!(lab.sched.exit_to_user(CPU0) && tasks.contains(&lab.curr(CPU0)));
        lab.advance(MS);
        lab.sync(CPU0);
        if high_resolution {
            lab.sched.hrtick(CPU0);
        } else {
            lab.sched.sched_tick(CPU0);
        }
        let entity = lab.sched.group_entity(limited, CPU0).expect("with a task");
        assert_eq!(entity.exec_start, throttled_at, "{high_resolution}");
    }
}

/// `set_protect_slice`: one with a slice of 5 ms that is picked while one with 0.7 ms waits at 0.35 ms is protected for 0.7 ms on 7.2, on 7.3 until it
/// is not eligible any more, a nanosecond beyond the V of those who wait.
#[test]
fn beside_a_shorter_slice_protection_ends_with_eligibility() {
    for (release, ends) in [("7.2", 700_000), ("7.3", 350_001)] {
        let mut lab = Lab::new(release, &[]);
        let long = with_slice(&mut lab, Policy::Other, 5 * MS);
        let short = lab.task();
        assert_eq!(lab.schedule(CPU0), short, "due at 0.35 ms");
        lab.run(CPU0, 350 * US);
        assert_eq!(lab.schedule(CPU0), long, "V is 0.175 ms");
        assert_eq!(lab.entity(long).vprot.since(ORIGIN), ends, "{release}");
    }
}

/// `update_protect_slice`: one with 5 ms has run 1 ms beside another that waits at 0, so that V is 0.5 ms, and is protected until 2.5 ms, when it is
/// due. A BATCH task with 0.1 ms comes: on 7.3 protection ends that much after V, at 0.6 ms; on 7.2 BATCH tasks change nothing.
#[test]
fn a_wake_up_limits_protection_from_v() {
    for (release, ends) in [("7.2", 2_500_000), ("7.3", 600_000)] {
        let mut lab = Lab::new(release, &[]);
        let running = with_slice(&mut lab, Policy::Other, 5 * MS);
        with_slice(&mut lab, Policy::Other, 5 * MS);
        assert_eq!(lab.schedule(CPU0), running);
        lab.run(CPU0, MS);
        with_slice(&mut lab, Policy::Batch, 100 * US);
        assert_eq!(lab.entity(running).vprot.since(ORIGIN), ends, "{release}");
    }
}

/// `wakeup_preempt_fair`: a task with a slice of 5 ms runs; a BATCH task with 0.1 ms waits, due at 0.05 ms. One with 0.7 ms wakes at V, due
/// at 0.35 ms: the BATCH task is due earlier, so that on 7.2 nothing happens. On 7.3 the woken task preempts, as it is eligible and has a
/// shorter slice than the running one, and is the next buddy, which the pick takes; also where the CPU is marked for rescheduling already.
#[test]
fn an_eligible_shorter_slice_preempts_and_is_next() {
    for marked in [false, true] {
        for release in ["7.2", "7.3"] {
            let mut lab = Lab::new(release, &[]);
            let running = with_slice(&mut lab, Policy::Other, 5 * MS);
            assert_eq!(lab.schedule(CPU0), running);
            with_slice(&mut lab, Policy::Batch, 100 * US);
            lab.sched.assume_need_resched(CPU0, marked);
            let woken = lab.task();
            assert_eq!(lab.sched.need_resched(CPU0), marked || release == "7.3", "{release}");
            assert_eq!(lab.queue(CPU0).next, (release == "7.3").then(|| lab.sched.task(woken).se), "{release}");
            if release == "7.3" {
                assert_eq!(lab.schedule(CPU0), woken);
            }
        }
    }
}

/// `set_short_buddy`: a buddy with a still shorter slice stays.
#[test]
fn the_shortest_slice_is_the_buddy() {
    let mut lab = Lab::new("7.3", &[]);
    let running = with_slice(&mut lab, Policy::Other, 5 * MS);
    assert_eq!(lab.schedule(CPU0), running);
    let shortest = with_slice(&mut lab, Policy::Other, 200 * US);
    let buddy = Some(lab.sched.task(shortest).se);
    assert_eq!(lab.queue(CPU0).next, buddy);
    with_slice(&mut lab, Policy::Other, MS);
    assert_eq!(lab.queue(CPU0).next, buddy);
    let shorter = with_slice(&mut lab, Policy::Other, 100 * US);
    assert_eq!(lab.queue(CPU0).next, Some(lab.sched.task(shorter).se));
}

/// `calc_concur_shares`: a group of nice 0 with two hogs on one of two CPUs and one on the other has two thirds of its shares here and a third there on
/// 7.2. On 7.3 it is worth its shares as often as its tasks run at once, which is twice: three, rounded down from averages that stay below 1024 each, and
/// no more than there are CPUs.
#[test]
fn a_group_on_two_cpus_weighs_as_two_tasks() {
    for (release, times) in [("7.2", 1.0), ("7.3", 2.0)] {
        let mut lab = Lab::with_cpus(release, 2, &[]);
        let home = group(&mut lab, GroupId::ROOT, 100);
        for cpu in [CPU0, CPU0, CPU1] {
            let task = lab.spawn_on(cpu, Policy::Other, 0);
            lab.sync(cpu);
            lab.sched.sched_move_task(task, home);
            lab.schedule(cpu);
        }
        // Averages are within 0.1 % of what they tend to after ten halvings, 320 ms.
        for _ in 0..1000 {
            lab.advance(TICK);
            for cpu in [CPU0, CPU1] {
                lab.sync(cpu);
                lab.sched.sched_tick(cpu);
                if lab.must_switch(cpu) {
                    lab.schedule(cpu);
                }
            }
        }
        for (cpu, part) in [(CPU0, 2.0 / 3.0), (CPU1, 1.0 / 3.0)] {
            let (found, weight) = (weight_of(&lab, home, cpu), times * part * 1024.0);
            assert!((found - weight).abs() < weight / 50.0, "{release}: {found} on {cpu:?}");
        }
    }
}

fn weight_of(lab: &Lab, group: GroupId, cpu: CpuId) -> f64 {
    lab.sched.group_entity(group, cpu).expect("with a task").weight as f64 / 1024.0
}

/// `requeue_delayed_entity` is handed the CPU's root queue, whose averages it brings up to date; those of the queue of the task's group stay as they
/// were when the task went to sleep. On 7.2 it is the task's own queue.
#[test]
fn a_delayed_task_of_a_group_that_wakes_updates_the_root() {
    for (release, root) in [("7.2", false), ("7.3", true)] {
        let mut lab = Lab::new(release, &[]);
        lab.sched.track_load();
        let home = group(&mut lab, GroupId::ROOT, 100);
        let sleeper = member(&mut lab, home);
        member(&mut lab, home);
        assert_eq!(lab.schedule(CPU0), sleeper, "{release}");
        lab.advance(300 * US);
        lab.sleep(CPU0);
        assert!(lab.entity(sleeper).sched_delayed, "{release}");
        let updated = |lab: &Lab| {
            let of_group = lab.sched.load_of_group(home, CPU0).expect("a group with tasks").1;
            [lab.sched.load_of_cpu(CPU0).expect("kept"), of_group].map(|average| average.last_update_time)
        };
        let before = updated(&lab);
        lab.advance(2 * MS);
        lab.wake(sleeper);
        assert!(!lab.entity(sleeper).sched_delayed, "{release}");
        let after = updated(&lab);
        assert_eq!([before[0] != after[0], before[1] != after[1]], [root, !root], "{release}");
    }
}

/// What came to a CPU on which a fair task runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Arrival {
    None,
    /// A FIFO task woke.
    Wakes,
    /// A waiting fair task became FIFO (`switched_to_rt`).
    Changes,
    /// The running task became FIFO and a fair one again (`sched_change_end`).
    Rises,
    /// The timer of a throttled deadline task went off (`dl_task_timer`).
    Replenished,
}

/// `wakeup_preempt` compares a woken task with the class that runs next (`next_class`): beside a task with 5 ms, one with 0.7 ms that wakes at V would be
/// the next buddy. Where a FIFO task woke before, or the running one was FIFO in between, nothing is decided between the fair ones until the CPU has
/// scheduled. The timer of a deadline task and a waiting task that becomes FIFO ask for rescheduling (`resched_curr`) and leave `next_class`.
#[test]
fn a_fair_task_that_wakes_after_a_higher_class_is_not_considered() {
    for arrival in [Arrival::None, Arrival::Wakes, Arrival::Changes, Arrival::Rises, Arrival::Replenished] {
        let mut lab = Lab::new("7.3", &[]);
        let running = with_slice(&mut lab, Policy::Other, 5 * MS);
        let waiting = (arrival == Arrival::Changes).then(|| with_slice(&mut lab, Policy::Other, 50 * MS));
        if arrival == Arrival::Replenished {
            let [runtime, deadline, period] = [2, 10, 10].map(Time::from_millis);
            let reserved = lab.spawn(Policy::Deadline { runtime, deadline, period }, 0);
            assert_eq!(lab.schedule(CPU0), reserved);
            lab.tick_after(CPU0, 3 * MS);
        }
        assert_eq!(lab.schedule(CPU0), running, "{arrival:?}");
        match arrival {
            Arrival::None => {}
            Arrival::Wakes => drop(lab.spawn(Policy::Fifo(1), 0)),
            Arrival::Changes => {
                lab.sched.sched_setattr(waiting.expect("spawned"), &attributes(Policy::Fifo(1), 0));
            }
            Arrival::Rises => {
                let fair = lab.sched.attributes(running);
                lab.sched.sched_setattr(running, &attributes(Policy::Fifo(1), 0));
                lab.sched.sched_setattr(running, &fair);
            }
            Arrival::Replenished => loop {
                let (time, timer) = lab.sched.next_timer().expect("the replenishment");
                lab.now = time.as_nanos();
                lab.sync(CPU0);
                lab.sched.run_timer();
                if matches!(timer, Timer::Deadline(_)) {
                    break;
                }
            },
        }
        let considered = !matches!(arrival, Arrival::Wakes | Arrival::Rises);
        assert_eq!(lab.sched.need_resched(CPU0), arrival != Arrival::None, "{arrival:?}");
        let woken = lab.task();
        let buddy = Some(lab.sched.task(woken).se);
        assert_eq!(lab.queue(CPU0).next, buddy.filter(|_| considered), "{arrival:?}");
    }
}
