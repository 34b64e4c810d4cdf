//! Tasks that change CPUs keep their place relative to the queue's `min_vruntime` (`set_task_cpu`, `migrate_task_rq_fair`,
//! `move_queued_task`).

use schedlab_model::{Policy, TaskId};

use crate::lab::{CPU0, CPU1, Lab, MS, attributes};

const CFS: [&str; 3] = ["2.6.24", "5.10", "6.1"];

/// CPU 0 with a task running at 33 ms, its `min_vruntime`, and one waiting 7 ms ahead of that; CPU 1 with one running, alone.
fn two_cpus(release: &str) -> (Lab, TaskId, TaskId, TaskId) {
    let mut lab = Lab::with_cpus(release, 2, &[("latency", "100ms")]);
    let (waiting, running) = (lab.task(), lab.task());
    let other = lab.spawn_on(CPU1, Policy::Other, 0);
    lab.schedule(CPU1);
    lab.schedule(CPU0);
    lab.run(CPU0, 40 * MS);
    assert_eq!(lab.schedule(CPU0), running);
    lab.run(CPU0, 33 * MS);
    lab.run(CPU1, 0);
    assert_eq!((lab.min_vruntime(CPU0), lab.vruntime(waiting)), (33 * MS as i64, 40 * MS as i64));
    assert_eq!(lab.min_vruntime(CPU1), 73 * MS as i64);
    (lab, running, waiting, other)
}

/// A queued task that is moved keeps its distance from `min_vruntime`.
#[test]
fn a_moved_task_keeps_its_distance() {
    for release in CFS {
        let (mut lab, _, waiting, _) = two_cpus(release);
        lab.sched.move_queued_task(waiting, CPU1);
        assert_eq!(lab.vruntime(waiting), 80 * MS as i64, "{release}");
        assert_eq!(lab.sched.task_cpu(waiting), CPU1);
        assert_eq!((lab.sched.nr_running(CPU0), lab.sched.nr_running(CPU1)), (1, 2), "{release}");
        let one = lab.entity(waiting).load.scaled;
        assert_eq!((lab.queue(CPU0).load.scaled, lab.queue(CPU1).load.scaled), (one, 2 * one), "{release}");
    }
}

/// A task that sleeps and wakes elsewhere likewise, before the placement of sleepers.
#[test]
fn a_task_woken_elsewhere_keeps_its_distance() {
    for release in CFS {
        let (mut lab, running, waiting, _) = two_cpus(release);
        // The running one goes on to 47 ms: the waiting one at 40 ms is min_vruntime then.
        lab.run(CPU0, 14 * MS);
        assert_eq!(lab.sleep(CPU0), waiting);
        lab.run(CPU1, 0);
        lab.wake_on(running, CPU1);
        assert_eq!(lab.min_vruntime(CPU1), 87 * MS as i64);
        assert_eq!(lab.vruntime(running), 94 * MS as i64, "{release}");
    }
}

/// It is still lifted to the credit's bound there: half a latency of 100 ms, a whole one on 2.6.24.
#[test]
fn a_long_sleeper_woken_elsewhere_is_credited_there() {
    for (release, credit) in [("2.6.24", 100 * MS), ("5.10", 50 * MS), ("6.1", 50 * MS)] {
        let (mut lab, running, waiting, _) = two_cpus(release);
        assert_eq!(lab.sleep(CPU0), waiting);
        lab.run(CPU0, 500 * MS);
        lab.wake_on(running, CPU1);
        assert_eq!(lab.vruntime(running) - lab.min_vruntime(CPU1), -(credit as i64), "{release}");
    }
}

/// A moved task may preempt where it comes (`check_preempt_curr` in `move_queued_task` and `attach_task`).
#[test]
fn a_moved_task_may_preempt() {
    for release in CFS {
        let (mut lab, _, waiting, _) = two_cpus(release);
        lab.sched.move_queued_task(waiting, CPU1);
        assert!(!lab.sched.need_resched(CPU1), "{release}: 7 ms ahead of the task that runs there");
        // A sleeper credited 50 (100) ms waits on CPU 0 when it is moved: that much behind the current task of CPU 1.
        let (mut lab, running, waiting, _) = two_cpus(release);
        assert_eq!(lab.sleep(CPU0), waiting);
        lab.run(CPU0, 500 * MS);
        lab.wake(running);
        lab.run(CPU1, 0);
        lab.sched.move_queued_task(running, CPU1);
        assert!(lab.sched.need_resched(CPU1), "{release}");
    }
}

/// When the task furthest behind is moved away, `min_vruntime` goes on without it.
#[test]
fn min_vruntime_does_not_wait_for_a_task_that_left() {
    for release in ["5.10", "6.1"] {
        let (mut lab, _, waiting, _) = two_cpus(release);
        lab.run(CPU0, 14 * MS);
        assert_eq!(lab.min_vruntime(CPU0), 40 * MS as i64);
        lab.sched.move_queued_task(waiting, CPU1);
        assert_eq!(lab.min_vruntime(CPU0), 47 * MS as i64, "{release}");
    }
}

/// Real-time tasks carry their virtual time along, so that it fits when they turn fair again.
#[test]
fn a_real_time_task_keeps_its_distance_for_later() {
    for release in CFS {
        let (mut lab, running, waiting, _) = two_cpus(release);
        lab.sched.sched_setattr(waiting, &attributes(Policy::Fifo(1), 0));
        assert_eq!(lab.schedule(CPU0), waiting);
        assert_eq!(lab.sleep(CPU0), running);
        lab.wake_on(waiting, CPU1);
        lab.sched.sched_setattr(waiting, &attributes(Policy::Other, 0));
        assert_eq!(lab.vruntime(waiting), 80 * MS as i64, "{release}");
        // And moved while it waits as a real-time task.
        let (mut lab, _, waiting, _) = two_cpus(release);
        lab.sched.sched_setattr(waiting, &attributes(Policy::Fifo(1), 0));
        lab.sched.move_queued_task(waiting, CPU1);
        lab.sched.sched_setattr(waiting, &attributes(Policy::Other, 0));
        assert_eq!(lab.vruntime(waiting), 80 * MS as i64, "{release}");
    }
}
