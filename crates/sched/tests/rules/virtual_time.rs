//! How virtual time advances on a queue: which task is charged, and `min_vruntime` behind them all (`update_curr`, `update_min_vruntime`).

use schedlab_model::{Policy, TaskState};

use crate::lab::{CPU0, Lab, MS};

const CFS: [&str; 3] = ["2.6.24", "5.10", "6.1"];

/// Virtual time starts 2^20 ns before it wraps (`init_cfs_rq`), and wrapping disturbs nothing.
#[test]
fn virtual_time_wraps_a_millisecond_after_the_start() {
    for release in CFS {
        let mut lab = Lab::new(release, &[]);
        let (first, second) = (lab.task(), lab.task());
        assert_eq!(lab.queue(CPU0).min_vruntime.0, u64::MAX - (1 << 20) + 1, "{release}");
        assert_eq!(lab.schedule(CPU0), first);
        // The first runs 1.2 ms, past the wrap at 1.048576 ms; the second, still before it in virtual time, is next.
        lab.run(CPU0, 1_200_000);
        assert_eq!(lab.entity(first).vruntime.0, 1_200_000 - (1 << 20), "{release}");
        assert_eq!(lab.schedule(CPU0), second, "{release}");
        // The second runs 1.3 ms: now the first is behind again.
        lab.run(CPU0, 1_300_000);
        assert_eq!(lab.schedule(CPU0), first, "{release}");
    }
}

/// Only the running task is charged, from when it was picked, to the nanosecond.
#[test]
fn only_the_running_task_is_charged() {
    for release in CFS {
        let mut lab = Lab::new(release, &[]);
        let (first, second) = (lab.task(), lab.task());
        lab.advance(5 * MS);
        lab.schedule(CPU0);
        lab.run(CPU0, 777);
        assert_eq!((lab.vruntime(first), lab.vruntime(second)), (777, 0), "{release}");
        // Charging again at the same clock adds nothing.
        lab.run(CPU0, 0);
        assert_eq!(lab.vruntime(first), 777, "{release}");
        assert_eq!((lab.sched.sum_exec_runtime(first), lab.sched.sum_exec_runtime(second)), (777, 0), "{release}");
    }
}

/// `min_vruntime` = max(itself, min(running, first waiting)).
#[test]
fn min_vruntime_follows_the_task_furthest_behind() {
    for release in CFS {
        let mut lab = Lab::new(release, &[]);
        let (first, second) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        // The second waits at 0: it stays there.
        lab.run(CPU0, 3 * MS);
        assert_eq!(lab.min_vruntime(CPU0), 0, "{release}");
        // The second runs 2 ms, the first waits at 3 ms: min(2, 3).
        assert_eq!(lab.schedule(CPU0), second);
        lab.run(CPU0, 2 * MS);
        assert_eq!(lab.min_vruntime(CPU0), 2 * MS as i64, "{release}");
        // It runs past the first: min(4, 3).
        lab.run(CPU0, 2 * MS);
        assert_eq!(lab.min_vruntime(CPU0), 3 * MS as i64, "{release}");
        assert_eq!(lab.schedule(CPU0), first);
        lab.run(CPU0, 5 * MS);
        assert_eq!(lab.min_vruntime(CPU0), 4 * MS as i64, "{release}");
    }
}

/// When the task that held it back sleeps, `min_vruntime` moves up at once; 2.6.24 updates it only when it charges.
#[test]
fn min_vruntime_moves_when_the_last_one_leaves() {
    for release in CFS {
        let mut lab = Lab::new(release, &[]);
        let (first, second) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.run(CPU0, 3 * MS);
        assert_eq!(lab.schedule(CPU0), second);
        // The second has run 1 ms of its 0 + 1 and sleeps: the first at 3 ms remains.
        lab.advance(MS);
        assert_eq!(lab.sleep(CPU0), first);
        let expected = if release == "2.6.24" { MS } else { 3 * MS };
        assert_eq!(lab.min_vruntime(CPU0), expected as i64, "{release}");
        // 2.6.24's update_curr does so even when no time passed (__update_curr with a delta of 0); later ones return early.
        lab.run(CPU0, 0);
        assert_eq!(lab.min_vruntime(CPU0), 3 * MS as i64, "{release}");
    }
}

/// `min_vruntime` never goes back, not for a sleeper placed behind it either.
#[test]
fn min_vruntime_never_goes_back() {
    for release in CFS {
        let mut lab = Lab::new(release, &[]);
        let (runner, sleeper) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.run(CPU0, MS);
        assert_eq!(lab.schedule(CPU0), sleeper);
        assert_eq!(lab.sleep(CPU0), runner);
        lab.run(CPU0, 99 * MS);
        assert_eq!(lab.min_vruntime(CPU0), 100 * MS as i64, "{release}");
        lab.wake(sleeper);
        // Placed a latency (or half of one) before min_vruntime, which stays.
        assert!(lab.vruntime(sleeper) < 100 * MS as i64, "{release}");
        assert_eq!(lab.min_vruntime(CPU0), 100 * MS as i64, "{release}");
        lab.schedule(CPU0);
        assert_eq!(lab.min_vruntime(CPU0), 100 * MS as i64, "{release}");
    }
}

/// A queue that empties keeps its `min_vruntime`.
#[test]
fn an_empty_queue_keeps_its_virtual_time() {
    for release in CFS {
        let mut lab = Lab::new(release, &[]);
        lab.task();
        lab.schedule(CPU0);
        lab.run(CPU0, 7 * MS);
        lab.leave(CPU0, TaskState::Dead);
        assert_eq!(lab.min_vruntime(CPU0), 7 * MS as i64, "{release}");
        lab.advance(50 * MS);
        let next = lab.task();
        assert_eq!(lab.vruntime(next), 7 * MS as i64, "{release}");
    }
}

/// Equal virtual times: first come, first served (an equal key goes right of its equals).
#[test]
fn equals_run_in_the_order_they_came() {
    for release in CFS {
        let mut lab = Lab::new(release, &[]);
        let tasks = [lab.task(), lab.task(), lab.task()];
        lab.schedule(CPU0);
        let mut order = vec![lab.curr(CPU0)];
        for _ in 0..2 {
            lab.run(CPU0, MS);
            order.push(lab.schedule(CPU0));
        }
        assert_eq!(order, tasks, "{release}");
        // All three at 1 ms after the third's turn; the one put back first is first.
        lab.run(CPU0, MS);
        assert_eq!(lab.schedule(CPU0), tasks[0], "{release}");
    }
}

/// The queue's load is the sum of its tasks' weights, running ones included.
#[test]
fn load_is_the_sum_of_weights() {
    let mut lab = Lab::new("6.1", &[]);
    lab.task();
    lab.spawn(Policy::Other, 5);
    lab.schedule(CPU0);
    lab.spawn(Policy::Idle, 0);
    // (1024 + 335 + 3) × 1024.
    assert_eq!(lab.queue(CPU0).load.scaled, 1362 * 1024);
    assert_eq!((lab.queue(CPU0).h_nr_running, lab.queue(CPU0).idle_h_nr_running), (3, 1));
    lab.sleep(CPU0);
    assert_eq!(lab.queue(CPU0).load.scaled, 338 * 1024);
    assert_eq!(lab.sched.nr_running(CPU0), 2);
}
