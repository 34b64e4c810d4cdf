//! Nice levels, policies and classes that change while a task runs, waits or sleeps (`set_user_nice`, `__sched_setscheduler`).

use schedlab_model::{Attributes, Policy, TaskId};

use crate::lab::{CPU0, CPU1, Lab, MS, attributes};

const CFS: [&str; 3] = ["2.6.24", "5.10", "6.1"];
const ALL: [&str; 7] = ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

/// Two tasks: one running at 2 ms of virtual time, one waiting at 0.
fn pair(release: &str) -> (Lab, TaskId, TaskId) {
    let mut lab = Lab::new(release, &[]);
    let (running, waiting) = (lab.task(), lab.task());
    lab.schedule(CPU0);
    lab.run(CPU0, 2 * MS);
    (lab, running, waiting)
}

fn load(lab: &Lab) -> u64 {
    lab.queue(CPU0).load.scaled
}

/// The queue's load follows, the virtual time of the task and of the queue stay (DEQUEUE_SAVE without DEQUEUE_MOVE).
#[test]
fn a_new_nice_level_changes_weights_alone() {
    for (release, scale) in [("2.6.24", 1), ("5.10", 1024), ("6.1", 1024)] {
        let (mut lab, running, waiting) = pair(release);
        lab.sync(CPU0);
        lab.sched.set_user_nice(running, 5);
        lab.sched.set_user_nice(waiting, -5);
        assert_eq!(load(&lab), (335 + 3121) * scale, "{release}");
        assert_eq!((lab.vruntime(running), lab.vruntime(waiting)), (2 * MS as i64, 0), "{release}");
        // Nor does min_vruntime move while the last one is off the queue for a moment; but 2.6.24's does, which charges once more then.
        assert_eq!(lab.min_vruntime(CPU0), if scale == 1 { 2 * MS as i64 } else { 0 }, "{release}");
        // From now on it is charged at its new weight: 4 ms at nice 5 (weights.rs; 2.6.24 rounds 12226865.9 up).
        lab.run(CPU0, 4 * MS);
        let gained = lab.vruntime(running) - 2 * MS as i64;
        assert_eq!(gained, if scale == 1 { 12_226_866 } else { 12_226_865 }, "{release}");
    }
}

/// What ran before the change is charged at the old weight.
#[test]
fn the_time_before_a_change_is_charged_at_the_old_weight() {
    for release in ALL {
        let mut lab = Lab::new(release, &[]);
        let task = lab.task();
        lab.schedule(CPU0);
        lab.advance(MS);
        lab.sync(CPU0);
        lab.sched.set_user_nice(task, 19);
        assert_eq!(lab.sched.sum_exec_runtime(task), MS, "{release}");
        assert_eq!(lab.vruntime(task), MS as i64, "{release}");
    }
}

/// A sleeping task's weight counts when it wakes.
#[test]
fn a_sleeping_task_s_weight_counts_when_it_wakes() {
    for (release, scale) in
        [("2.6.24", 1), ("5.10", 1024), ("6.1", 1024), ("6.12", 1024), ("6.18", 1024), ("7.2", 1024), ("7.3", 1024)]
    {
        let mut lab = Lab::new(release, &[]);
        let (sleeper, _) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        assert_eq!(load(&lab), 1024 * scale, "{release}");
        lab.sched.set_user_nice(sleeper, 5);
        assert_eq!(load(&lab), 1024 * scale, "{release}");
        lab.wake(sleeper);
        assert_eq!(load(&lab), 1359 * scale, "{release}");
    }
}

/// A running task must go if it became less important and another task waits (`prio_changed_fair`).
#[test]
fn a_running_task_that_fell_is_rescheduled() {
    for release in ALL {
        for (nice, goes) in [(1, true), (-1, false)] {
            let mut lab = Lab::new(release, &[]);
            let (running, _) = (lab.task(), lab.task());
            lab.schedule(CPU0);
            lab.sched.set_user_nice(running, nice);
            // 2.6.24 reschedules the current task whenever any task rises.
            assert_eq!(lab.sched.need_resched(CPU0), goes || release == "2.6.24", "{release} {nice}");
        }
        // A lone task need not go (from 5.6 on; 2.6.24 does not check).
        let mut lab = Lab::new(release, &[]);
        let alone = lab.task();
        lab.schedule(CPU0);
        lab.sched.set_user_nice(alone, 1);
        assert_eq!(lab.sched.need_resched(CPU0), release == "2.6.24", "{release}");
    }
}

/// A waiting task whose level changed is looked at as if it woke (`check_preempt_curr`); 2.6.24 reschedules for any that rose.
#[test]
fn a_waiting_task_that_rose_may_preempt() {
    // 2 ms behind: more than 1 ms at nice −1 (1 ms × 1024 / 1277 = 0.80 ms) …
    for release in ["5.10", "6.1"] {
        let (mut lab, _, waiting) = pair(release);
        lab.sched.set_user_nice(waiting, -1);
        assert!(lab.sched.need_resched(CPU0), "{release}");
        // … and less than it at nice 5 (3.06 ms).
        let (mut lab, _, waiting) = pair(release);
        lab.sched.set_user_nice(waiting, 5);
        assert!(!lab.sched.need_resched(CPU0), "{release}");
    }
    // 2.6.24: 2 ms behind would not preempt (10 ms), but a rise always reschedules, a fall never.
    let (mut lab, _, waiting) = pair("2.6.24");
    lab.sched.set_user_nice(waiting, -1);
    assert!(lab.sched.need_resched(CPU0));
    let (mut lab, _, waiting) = pair("2.6.24");
    lab.sched.set_user_nice(waiting, 5);
    assert!(!lab.sched.need_resched(CPU0));
}

/// From 2.6.25-era on the running task is put and set again, so its slice starts anew; 2.6.24 leaves it in place.
#[test]
fn a_running_task_s_slice_starts_anew_with_its_nice_level() {
    for release in ["5.10", "6.1"] {
        let (mut lab, running, _) = pair(release);
        lab.sched.set_user_nice(running, -1);
        assert_eq!(lab.entity(running).prev_sum_exec_runtime, 2 * MS, "{release}");
    }
    let (mut lab, running, _) = pair("2.6.24");
    lab.sched.set_user_nice(running, -1);
    assert_eq!(lab.entity(running).prev_sum_exec_runtime, 0);
}

/// EEVDF's kernels compare the slice that is asked for, 0 for none, with the one the task has: so asking for what it is requeues it,
/// which charges it on the way. CFS's have nothing to compare (`__sched_setscheduler`).
#[test]
fn asking_for_no_slice_requeues_under_eevdf() {
    for release in ALL {
        let (mut lab, running, _) = pair(release);
        lab.advance(MS);
        lab.sync(CPU0);
        lab.sched.sched_setattr(running, &attributes(Policy::Other, 0));
        let eevdf = !CFS.contains(&release);
        assert_eq!(lab.sched.sum_exec_runtime(running), if eevdf { 3 * MS } else { 2 * MS }, "{release}");
    }
}

/// What a task has already changes nothing: not its place, its slice or a pending reschedule. But see
/// [`asking_for_no_slice_requeues_under_eevdf`].
#[test]
fn unchanged_attributes_change_nothing() {
    for release in ALL {
        for policy in [Policy::Other, Policy::Batch, Policy::Fifo(3), Policy::Rr(3)] {
            let mut lab = Lab::new(release, &[]);
            let tasks = [lab.spawn(policy, 0), lab.spawn(policy, 0), lab.spawn(policy, 0)];
            lab.schedule(CPU0);
            lab.run(CPU0, MS);
            let before = format!("{:?}", lab.sched);
            let requeues = !CFS.contains(&release) && !policy.is_realtime();
            for task in tasks {
                if !requeues {
                    lab.sched.sched_setattr(task, &attributes(policy, 0));
                }
                lab.sched.set_user_nice(task, 0);
            }
            assert_eq!(format!("{:?}", lab.sched), before, "{release} {policy:?}");
        }
    }
}

/// A policy that changes within the class, with the same nice level, is no reason to preempt (`check_class_changed`).
#[test]
fn a_policy_alone_is_no_reason_to_preempt() {
    for release in ["5.10", "6.1"] {
        let mut lab = Lab::new(release, &[]);
        // A third task waits too and holds min_vruntime at 0: so the one that changes keeps its place, 2 ms behind.
        let (running, waiting, _) = (lab.task(), lab.spawn(Policy::Batch, 0), lab.task());
        lab.schedule(CPU0);
        lab.run(CPU0, 2 * MS);
        lab.sched.sched_setattr(waiting, &attributes(Policy::Other, 0));
        lab.sched.sched_setattr(running, &attributes(Policy::Batch, 0));
        assert!(!lab.sched.need_resched(CPU0), "{release}");
    }
    // 2.6.24's sched_setscheduler looks at every waiting task; 11 ms behind is more than 10.
    let mut lab = Lab::new("2.6.24", &[]);
    let (_, waiting) = (lab.task(), lab.spawn(Policy::Batch, 0));
    lab.schedule(CPU0);
    lab.run(CPU0, 11 * MS);
    lab.sched.sched_setattr(waiting, &attributes(Policy::Other, 0));
    assert!(lab.sched.need_resched(CPU0));
}

/// A waiting fair task that turns real-time preempts; a running one goes on, from 7.0 on after a schedule that its own rise asks for
/// (`sched_change_end` calls `wakeup_preempt` for the task that rose).
#[test]
fn turning_real_time_preempts_fair_tasks() {
    for release in ALL {
        let mut lab = Lab::new(release, &[]);
        let (_, waiting) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.sched.sched_setattr(waiting, &attributes(Policy::Fifo(1), 0));
        assert!(lab.sched.need_resched(CPU0), "{release}");
        assert_eq!(lab.schedule(CPU0), waiting, "{release}");

        let mut lab = Lab::new(release, &[]);
        let (running, _) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.sched.sched_setattr(running, &attributes(Policy::Rr(1), 0));
        assert_eq!(lab.sched.need_resched(CPU0), release.starts_with("7."), "{release}");
        assert_eq!(lab.schedule(CPU0), running, "{release}");
    }
}

/// A running real-time task that turns fair must go, even alone (`switched_to_fair`; on 2.6.24 its priority fell).
#[test]
fn turning_fair_reschedules() {
    for release in ALL {
        let mut lab = Lab::new(release, &[]);
        let task = lab.spawn(Policy::Fifo(1), 0);
        lab.schedule(CPU0);
        lab.sched.sched_setattr(task, &attributes(Policy::Other, 0));
        assert!(lab.sched.need_resched(CPU0), "{release}");
        assert_eq!(lab.schedule(CPU0), task, "{release}");
    }
}

/// A task that was real-time for a while comes back as far from `min_vruntime` as it left; what it ran meanwhile does not count.
#[test]
fn a_task_returns_to_the_fair_class_at_its_distance() {
    for release in ["5.10", "6.1"] {
        let (mut lab, running, waiting) = pair(release);
        // The waiting one is at 0 = min_vruntime when it leaves; min_vruntime is 2 ms then, and stays while it runs real-time.
        lab.sched.sched_setattr(waiting, &attributes(Policy::Fifo(1), 0));
        assert_eq!(lab.min_vruntime(CPU0), 2 * MS as i64, "{release}");
        assert_eq!(lab.schedule(CPU0), waiting);
        lab.run(CPU0, 50 * MS);
        lab.sched.sched_setattr(waiting, &attributes(Policy::Other, 0));
        assert_eq!(lab.vruntime(waiting), 2 * MS as i64, "{release}");
        assert_eq!(lab.sched.sum_exec_runtime(waiting), 50 * MS);
        let _ = running;
    }
    // 2.6.24 keeps virtual time absolute: it comes back at 0, where it left.
    let (mut lab, _, waiting) = pair("2.6.24");
    lab.sched.sched_setattr(waiting, &attributes(Policy::Fifo(1), 0));
    lab.schedule(CPU0);
    lab.run(CPU0, 50 * MS);
    lab.sched.sched_setattr(waiting, &attributes(Policy::Other, 0));
    assert_eq!(lab.vruntime(waiting), 0);
}

/// A sleeper that leaves the fair class is placed first, so that its sleep gives it no unlimited credit (`detach_task_cfs_rq`); SCHED_IDLE
/// too gets half a latency then, for its policy is real-time already.
#[test]
fn a_sleeper_s_credit_is_bounded_across_classes() {
    for release in ["5.10", "6.1"] {
        for policy in [Policy::Other, Policy::Idle] {
            let mut lab = Lab::new(release, &[]);
            let (sleeper, _) = (lab.spawn(policy, 0), lab.task());
            lab.schedule(CPU0);
            lab.sleep(CPU0);
            lab.run(CPU0, 100 * MS);
            lab.sched.sched_setattr(sleeper, &attributes(Policy::Fifo(1), 0));
            lab.run(CPU0, 100 * MS);
            lab.sched.sched_setattr(sleeper, &attributes(Policy::Other, 0));
            assert_eq!(lab.vruntime(sleeper) - lab.min_vruntime(CPU0), -3 * MS as i64, "{release} {policy:?}");
        }
    }
}

/// Under a real-time policy a nice level is only kept for later: the queue's order does not change.
#[test]
fn a_real_time_task_s_nice_level_is_for_later() {
    for release in ALL {
        let mut lab = Lab::new(release, &[]);
        let (first, second) = (lab.spawn(Policy::Fifo(1), 0), lab.spawn(Policy::Fifo(1), 0));
        lab.sched.set_user_nice(first, 5);
        assert_eq!(lab.schedule(CPU0), first, "{release}");
        let kept = lab.sched.attributes(first);
        assert_eq!(kept.nice, 5);
        lab.sched.sched_setattr(first, &Attributes { policy: Policy::Other, ..kept });
        assert_eq!(lab.schedule(CPU0), second);
        let scale = if release == "2.6.24" { 1 } else { 1024 };
        assert_eq!(lab.entity(first).load.scaled, 335 * scale, "{release}");
    }
}

/// An affinity alone does not change a real-time task's place (DEQUEUE_SAVE without DEQUEUE_MOVE).
#[test]
fn an_affinity_keeps_a_real_time_task_s_place() {
    for release in ALL {
        let mut lab = Lab::with_cpus(release, 2, &[]);
        let (first, _) = (lab.spawn(Policy::Fifo(1), 0), lab.spawn(Policy::Fifo(1), 0));
        let attributes = Attributes { policy: Policy::Fifo(1), affinity: vec![0], ..Attributes::default() };
        lab.sched.sched_setattr(first, &attributes);
        assert_eq!(lab.sched.attributes(first), attributes);
        assert!(!lab.sched.task(first).may_run_on(CPU1));
        assert_eq!(lab.schedule(CPU0), first, "{release}");
    }
}

/// Counts and loads stay right through a tour of all policies, running and waiting.
#[test]
fn a_tour_of_policies_leaves_the_queue_as_it_was() {
    for release in CFS {
        let (mut lab, running, waiting) = pair(release);
        let before = (load(&lab), lab.queue(CPU0).nr_running, lab.queue(CPU0).idle_h_nr_running);
        for policy in [Policy::Batch, Policy::Idle, Policy::Rr(7), Policy::Idle, Policy::Fifo(9), Policy::Other] {
            for task in [running, waiting] {
                lab.sched.sched_setattr(task, &attributes(policy, 0));
            }
            let idle = if policy == Policy::Idle { 2 } else { 0 };
            assert_eq!(lab.queue(CPU0).idle_h_nr_running, idle, "{release} {policy:?}");
            assert_eq!(lab.queue(CPU0).h_nr_running, if policy.is_realtime() { 0 } else { 2 }, "{release} {policy:?}");
            assert_eq!(lab.sched.nr_running(CPU0), 2);
        }
        assert_eq!((load(&lab), lab.queue(CPU0).nr_running, lab.queue(CPU0).idle_h_nr_running), before, "{release}");
    }
}

/// A weight is set while the task is of the class that it leaves (`set_load_weight`): a fair one's lag follows it, weight · lag being
/// kept, but one that was real-time or deadline comes back with the lag it left with. Found by a recording. With a single timeline (7.3) what a
/// task weighs there follows as it is queued (`reweight_eevdf` in `enqueue_task_fair`), and its lag with it, whatever it was before.
#[test]
fn the_lag_follows_the_weight_of_a_fair_task() {
    for release in ["6.12", "6.18", "7.2", "7.3"] {
        for (policy, expected) in [(Policy::Other, 900_000 * 1024 / 526), (Policy::Fifo(5), 900_000)] {
            let mut lab = Lab::new(release, &[]);
            let task = lab.task();
            lab.schedule(CPU0);
            lab.run(CPU0, MS);
            lab.sleep(CPU0);
            lab.sched.entity_mut(task).vlag = 900_000;
            lab.sched.sched_setattr(task, &attributes(policy, 0));
            assert_eq!(lab.entity(task).vlag, 900_000, "{release}");
            // Nice 3 weighs 526.
            lab.sched.sched_setattr(task, &attributes(Policy::Other, 3));
            if release == "7.3" {
                assert_eq!(lab.entity(task).vlag, 900_000, "{release} {policy:?}");
                lab.wake(task);
                assert_eq!(lab.entity(task).vlag, 900_000 * 1024 / 526, "{release} {policy:?}");
            } else {
                assert_eq!(lab.entity(task).vlag, expected, "{release} {policy:?}");
            }
        }
    }
}
