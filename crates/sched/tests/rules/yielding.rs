//! `sched_yield(2)` in the fair class.

use schedlab_model::{Policy, TaskId};

use crate::lab::{CPU0, Lab, MS, US};

/// Two tasks: the running one at `runs_at`, the other waiting at `waits_at` of virtual time.
fn pair(release: &str, runs_at: u64, waits_at: u64) -> (Lab, TaskId, TaskId) {
    let mut lab = Lab::new(release, &[]);
    let (running, waiting) = (lab.task(), lab.task());
    lab.schedule(CPU0);
    lab.run(CPU0, 10 * MS);
    lab.schedule(CPU0);
    lab.run(CPU0, 10 * MS + waits_at);
    assert_eq!(lab.schedule(CPU0), running);
    lab.run(CPU0, runs_at);
    assert_eq!(lab.vruntime(waiting) - lab.vruntime(running), waits_at as i64 - runs_at as i64);
    (lab, running, waiting)
}

/// The yielding task is skipped though it is first, if the second is no more than a granularity (1 ms) after it.
#[test]
fn a_yielding_task_is_skipped_if_that_is_fair() {
    for release in ["5.10", "6.1"] {
        let (mut lab, _, waiting) = pair(release, 0, MS);
        assert_eq!(lab.yields(CPU0), waiting, "{release}");
        let (mut lab, running, _) = pair(release, 0, MS + 1);
        assert_eq!(lab.yields(CPU0), running, "{release}");
        // Where it is not first anyway, the first runs.
        let (mut lab, _, waiting) = pair(release, MS, 0);
        assert_eq!(lab.yields(CPU0), waiting, "{release}");
    }
}

/// It is charged up to the yield before the comparison.
#[test]
fn a_yield_charges_the_running_task() {
    for release in ["5.10", "6.1"] {
        let (mut lab, running, waiting) = pair(release, 0, MS + 5);
        lab.advance(5);
        assert_eq!(lab.yields(CPU0), waiting, "{release}");
        assert_eq!(lab.vruntime(waiting) - lab.vruntime(running), MS as i64);
    }
}

/// The one that follows the skipped task is the second of the queue when it waits itself, the first when it runs.
#[test]
fn a_skipped_task_is_skipped_until_it_runs() {
    for release in ["5.10", "6.1"] {
        let (mut lab, yielding, waiting) = pair(release, 0, 900 * US);
        assert_eq!(lab.yields(CPU0), waiting);
        // It is skipped still: first in the queue, 0.9 ms + 0.1 ms behind the running one.
        lab.run(CPU0, 100 * US);
        assert_eq!(lab.schedule(CPU0), waiting, "{release}");
        // Then skipping it is unfair; it runs and the skip is over.
        lab.run(CPU0, 1);
        assert_eq!(lab.schedule(CPU0), yielding, "{release}");
        assert_eq!(lab.queue(CPU0).skip, None, "{release}");
    }
}

/// 5.10 clears the buddies of the picked task, 6.1 only of a task that is newly set to run: there a task that yielded in vain keeps its
/// skip and is passed over at the next pick.
#[test]
fn a_yield_in_vain_counts_later_on_6_1() {
    for (release, remembered) in [("5.10", false), ("6.1", true)] {
        let (mut lab, yielding, waiting) = pair(release, 0, 1_500 * US);
        assert_eq!(lab.yields(CPU0), yielding);
        assert_eq!(lab.queue(CPU0).skip.is_some(), remembered, "{release}");
        // 0.6 ms later the other is 0.9 ms after it: within the granularity.
        lab.run(CPU0, 600 * US);
        assert_eq!(lab.schedule(CPU0), if remembered { waiting } else { yielding }, "{release}");
    }
}

/// Alone on its CPU it goes on, and no skip is kept.
#[test]
fn a_lone_task_s_yield_does_nothing() {
    for release in ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let mut lab = Lab::new(release, &[]);
        let task = lab.task();
        lab.schedule(CPU0);
        lab.run(CPU0, MS);
        assert_eq!(lab.yields(CPU0), task, "{release}");
        assert_eq!(lab.queue(CPU0).skip, None, "{release}");
    }
}

/// A task that yields is no longer the next buddy.
#[test]
fn a_yield_clears_the_yielder_s_buddies() {
    for release in ["5.10", "6.1"] {
        let (mut lab, yielding, _) = pair(release, 0, 500 * US);
        let se = lab.sched.task(yielding).se;
        lab.sched.cfs_rq_mut(CPU0).next = Some(se);
        lab.sync(CPU0);
        lab.sched.sched_yield(CPU0);
        assert_eq!((lab.queue(CPU0).next, lab.queue(CPU0).skip), (None, Some(se)), "{release}");
    }
}

/// 2.6.24 (`sched_compat_yield` off) only charges: the first task in virtual time goes on.
#[test]
fn the_first_kernel_s_yield_only_charges() {
    let (mut lab, running, waiting) = pair("2.6.24", 0, 5);
    lab.advance(4);
    assert_eq!(lab.yields(CPU0), running);
    lab.advance(1);
    // Level with the other, and put back behind it: equals run in the order they came.
    assert_eq!(lab.yields(CPU0), waiting);
}

/// 2.6.24: SCHED_BATCH goes to the end of the queue, a nanosecond after its last; it stays where it is if it is there already.
#[test]
fn the_first_kernel_sends_yielding_batch_tasks_to_the_end() {
    let mut lab = Lab::new("2.6.24", &[]);
    let (batch, near, far) = (lab.spawn(Policy::Batch, 0), lab.task(), lab.task());
    lab.schedule(CPU0);
    lab.run(CPU0, 10 * MS);
    lab.schedule(CPU0);
    lab.run(CPU0, 12 * MS);
    lab.schedule(CPU0);
    lab.run(CPU0, 30 * MS);
    assert_eq!(lab.schedule(CPU0), batch);
    assert_eq!(lab.yields(CPU0), near);
    assert_eq!(lab.vruntime(batch) - lab.vruntime(far), 1);
    lab.run(CPU0, 18 * MS + 2);
    // near is at 30 ms + 2, after both; far at 30 ms runs.
    assert_eq!(lab.schedule(CPU0), far);
    lab.run(CPU0, 2);
    assert_eq!(lab.schedule(CPU0), batch);
    lab.run(CPU0, 5 * MS);
    let before = lab.vruntime(batch);
    lab.sync(CPU0);
    lab.sched.sched_yield(CPU0);
    assert_eq!(lab.vruntime(batch), before);
}

/// 2.6.24 asks whether the yielding task is the only *fair* one (`cfs_rq->nr_running`); a real-time task that came a moment ago does not
/// count. With it alone there the yield is no more than a question: nothing is charged. Later kernels count the CPU's tasks.
#[test]
fn the_first_kernel_s_yield_counts_fair_tasks() {
    for (release, charged) in [("2.6.24", 0), ("5.10", 2 * MS), ("6.1", 2 * MS)] {
        let mut lab = Lab::new(release, &[]);
        let fair = lab.task();
        lab.schedule(CPU0);
        lab.spawn(Policy::Fifo(1), 0);
        assert_eq!(lab.curr(CPU0), fair);
        lab.advance(2 * MS);
        lab.sync(CPU0);
        lab.sched.sched_yield(CPU0);
        assert_eq!(lab.sched.sum_exec_runtime(fair), charged, "{release}");
    }
}
