//! Buddies of 5.10 and 6.1: the task that a pick prefers to the first in virtual time (`set_next_buddy`, `set_last_buddy`, `pick_next_entity`).

use schedlab_model::{Policy, TaskId};

use crate::lab::{CPU0, Lab, MS, attributes, rules};

const RELEASES: [&str; 2] = ["5.10", "6.1"];

/// nr_latency = 6 / 3 = 2: two tasks are enough for a last buddy.
const TWO: (&str, &str) = ("min_granularity", "3ms");

/// One CPU whose `nr_latency` follows the knobs: on 6.1 it does so once `tunable_scaling` is written (`sched_update_scaling`).
fn rescaled(release: &str, knobs: &[(&str, &str)]) -> Lab {
    let mut rules = rules(release, 250, knobs);
    if release == "6.1" {
        rules.nr_latency = rules.tunables.latency.as_nanos().div_ceil(rules.tunables.min_granularity.as_nanos());
    }
    Lab::with_rules(rules, 1)
}

fn buddies(lab: &Lab) -> (Option<TaskId>, Option<TaskId>, Option<TaskId>) {
    let queue = lab.queue(CPU0);
    let task_of = |se| (0..9).map(TaskId).find(|task| lab.sched.task(*task).se == se);
    (queue.next.and_then(task_of), queue.last.and_then(task_of), queue.skip.and_then(task_of))
}

/// Three tasks: one running at 3 ms of virtual time, one waiting at `waits_at`, and one that slept at 0 and has just woken and,
/// 3 ms behind, preempted the first.
fn preempted(release: &str, knobs: &[(&str, &str)], waits_at: u64) -> (Lab, TaskId, TaskId, TaskId) {
    let mut all = vec![TWO];
    all.extend_from_slice(knobs);
    preempted_in(rescaled(release, &all), waits_at)
}

fn preempted_in(mut lab: Lab, waits_at: u64) -> (Lab, TaskId, TaskId, TaskId) {
    let (woken, waiting, running) = (lab.task(), lab.task(), lab.task());
    lab.schedule(CPU0);
    assert_eq!(lab.sleep(CPU0), waiting);
    lab.run(CPU0, waits_at);
    assert_eq!(lab.schedule(CPU0), running);
    lab.run(CPU0, 3 * MS);
    lab.wake(woken);
    // min_vruntime − 3 ms is before 0, so it came back at 0.
    assert_eq!((lab.vruntime(running), lab.vruntime(waiting), lab.vruntime(woken)), (3_000_000, waits_at as i64, 0));
    (lab, running, waiting, woken)
}

/// The preempting task is the next buddy, the preempted task the last buddy.
#[test]
fn a_wake_up_preemption_names_both_buddies() {
    for release in RELEASES {
        let (lab, running, _, woken) = preempted(release, &[], 2 * MS);
        assert!(lab.sched.need_resched(CPU0));
        assert_eq!(buddies(&lab), (Some(woken), Some(running), None), "{release}");
    }
}

/// A last buddy only with nr_latency tasks or more on the queue (`scale`), the woken one counted.
#[test]
fn the_last_buddy_needs_nr_latency_tasks() {
    for release in RELEASES {
        // 3 tasks: nr_latency = 6 / 2 = 3 will do, ⌈6 / 1.9⌉ = 4 will not.
        let (lab, running, _, woken) = preempted(release, &[("min_granularity", "2ms")], 2 * MS);
        assert_eq!(buddies(&lab), (Some(woken), Some(running), None), "{release}");
        let (lab, _, _, woken) = preempted(release, &[("min_granularity", "1900us")], 2 * MS);
        assert_eq!(buddies(&lab), (Some(woken), None, None), "{release}");
    }
}

/// On 6.1 three tasks are too few whatever the granularity is: nr_latency is 8 from boot on.
#[test]
fn the_last_buddy_needs_eight_tasks_where_nr_latency_is_not_computed() {
    for (release, last) in [("5.10", true), ("6.1", false)] {
        let (lab, running, _, woken) = preempted_in(Lab::new(release, &[TWO]), 2 * MS);
        assert_eq!(buddies(&lab), (Some(woken), last.then_some(running), None), "{release}");
    }
}

#[test]
fn without_last_buddy_no_task_is_last() {
    for release in RELEASES {
        let (lab, _, _, woken) = preempted(release, &[("feature.LAST_BUDDY", "0")], 2 * MS);
        assert_eq!(buddies(&lab), (Some(woken), None, None), "{release}");
    }
}

/// 2.6.24 has no buddies.
#[test]
fn the_first_kernel_has_no_buddies() {
    let mut lab = Lab::new("2.6.24", &[]);
    let (sleeper, _) = (lab.task(), lab.task());
    lab.schedule(CPU0);
    lab.sleep(CPU0);
    lab.run(CPU0, 15 * MS);
    assert!(lab.wake(sleeper));
    assert_eq!(buddies(&lab), (None, None, None));
}

/// A buddy is one until it runs (`clear_buddies` in `set_next_entity`) or leaves the queue (in `dequeue_entity`).
#[test]
fn buddies_are_cleared_when_they_run_or_leave() {
    for release in RELEASES {
        let (mut lab, running, waiting, woken) = preempted(release, &[], 2 * MS);
        assert_eq!(lab.schedule(CPU0), woken);
        assert_eq!(buddies(&lab), (None, Some(running), None), "{release}: next ran");
        // Taken off the queue while it waits.
        lab.sched.sched_setattr(running, &attributes(Policy::Fifo(1), 0));
        assert_eq!(buddies(&lab), (None, None, None), "{release}: last left");
        let _ = waiting;
    }
}

/// The last buddy gets the CPU back before the first task in virtual time, as long as it is no more than a granularity ahead of that one.
#[test]
fn the_last_buddy_gets_the_cpu_back() {
    for release in RELEASES {
        // 3 ms − 2 ms = 1 ms: not more than the granularity.
        let (mut lab, running, _, woken) = preempted(release, &[], 2 * MS);
        assert_eq!(lab.schedule(CPU0), woken);
        assert_eq!(lab.sleep(CPU0), running, "{release}");
        assert_eq!(buddies(&lab), (None, None, None), "{release}: it runs");
        // 1 ns more is too unfair.
        let (mut lab, running, waiting, woken) = preempted(release, &[], 2 * MS - 1);
        assert_eq!(lab.schedule(CPU0), woken);
        assert_eq!(lab.sleep(CPU0), waiting, "{release}");
        assert_eq!(buddies(&lab), (None, Some(running), None), "{release}: it is last still");
        // And without the buddy the first is first.
        let (mut lab, _, waiting, _) = preempted(release, &[("feature.LAST_BUDDY", "0")], 2 * MS);
        lab.schedule(CPU0);
        assert_eq!(lab.sleep(CPU0), waiting, "{release}");
    }
}

/// The unfairness is measured in the virtual time of the first task.
#[test]
fn a_buddy_s_room_is_in_the_first_task_s_virtual_time() {
    for release in RELEASES {
        // nice 5: 1 ms becomes 3056716 ns (wake_preemption.rs); 3 ms is within that, so the last buddy goes before the first at 0.
        // nice −5: 328099 ns; 1 ms is beyond.
        for (nice, waits_at, last_runs) in [(5, 0, true), (-5, 2 * MS, false)] {
            let (mut lab, running, waiting, woken) = preempted(release, &[], waits_at);
            assert_eq!(lab.schedule(CPU0), woken);
            lab.sched.set_user_nice(waiting, nice);
            assert_eq!(lab.sleep(CPU0), if last_runs { running } else { waiting }, "{release} {nice}");
        }
    }
}

/// NEXT_BUDDY: a woken task that did not preempt is next too, and goes before an earlier one within the granularity.
#[test]
fn next_buddy_prefers_the_woken_task() {
    for release in RELEASES {
        let woken_beside = |features: &[(&str, &str)], min_granularity| {
            let mut knobs = vec![("wakeup_granularity", "1ms"), ("min_granularity", min_granularity)];
            knobs.extend_from_slice(features);
            let mut lab = rescaled(release, &knobs);
            let (woken, waiting, running) = (lab.task(), lab.task(), lab.task());
            lab.schedule(CPU0);
            lab.run(CPU0, 400_000);
            assert_eq!(lab.sleep(CPU0), waiting);
            lab.run(CPU0, 1);
            assert_eq!(lab.schedule(CPU0), running);
            lab.run(CPU0, 500_000);
            // 0.1 ms behind the running one: no preemption.
            assert!(!lab.wake(woken));
            (lab, waiting, woken)
        };
        let (mut lab, _, woken) = woken_beside(&[("feature.NEXT_BUDDY", "1")], "3ms");
        assert_eq!(buddies(&lab), (Some(woken), None, None), "{release}");
        assert_eq!(lab.schedule(CPU0), woken, "{release}: 0.4 ms after the first");
        // Off, or with fewer than nr_latency = ⌈6 / 1.9⌉ = 4 tasks: the first is first.
        let (mut lab, waiting, _) = woken_beside(&[], "3ms");
        assert_eq!(lab.schedule(CPU0), waiting, "{release}");
        let (mut lab, waiting, _) = woken_beside(&[("feature.NEXT_BUDDY", "1")], "1900us");
        assert_eq!(lab.schedule(CPU0), waiting, "{release}");
    }
}

/// NEXT_BUDDY names the woken task even where a reschedule is pending already, but never a forked one (WF_FORK) or SCHED_IDLE.
#[test]
fn next_buddy_is_for_wake_ups_of_ordinary_tasks() {
    for release in RELEASES {
        let knobs = [TWO, ("feature.NEXT_BUDDY", "1")];
        let (mut lab, running, waiting, woken) = preempted(release, &[("feature.NEXT_BUDDY", "1")], 2 * MS);
        // A second wake-up while the reschedule is pending.
        assert_eq!(lab.schedule(CPU0), woken);
        assert_eq!(lab.sleep(CPU0), running);
        assert_eq!(lab.sleep(CPU0), waiting);
        assert!(lab.wake(woken), "the waiting one runs at 2 ms");
        assert_eq!(buddies(&lab).0, Some(woken), "{release}");
        lab.wake(running);
        assert_eq!(buddies(&lab).0, Some(running), "{release}");

        let mut lab = rescaled(release, &knobs);
        let (task, idle) = (lab.task(), lab.spawn(Policy::Idle, 0));
        lab.schedule(CPU0);
        lab.fork(task, CPU0);
        assert_eq!(buddies(&lab).0, None, "{release}: a fork");
        lab.advance(MS);
        lab.sleep(CPU0);
        while lab.curr(CPU0) != idle {
            lab.sleep(CPU0);
        }
        lab.sleep(CPU0);
        lab.wake(task);
        lab.schedule(CPU0);
        lab.wake(idle);
        assert_eq!(buddies(&lab).0, None, "{release}: SCHED_IDLE");
    }
}

/// A SCHED_IDLE task that gives way is no last buddy (`set_last_buddy`).
#[test]
fn an_idle_task_is_never_the_last_buddy() {
    for release in RELEASES {
        let mut lab = rescaled(release, &[TWO]);
        let sleeper = lab.task();
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        let idle = lab.spawn(Policy::Idle, 0);
        assert_eq!(lab.schedule(CPU0), idle);
        assert!(lab.wake(sleeper));
        assert_eq!(buddies(&lab), (None, None, None), "{release}");
    }
}
