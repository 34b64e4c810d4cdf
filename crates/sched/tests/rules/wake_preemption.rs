//! When a woken task takes the CPU at once (`check_preempt_wakeup`, `wakeup_preempt_entity`).

use schedlab_model::Policy;

use crate::lab::{CPU0, Lab, MS, attributes};

/// Whether a woken task that is `behind` the running one (in virtual time) preempts it. The latency is long, so that the woken
/// task's own virtual time stands.
fn preempts(release: &str, knobs: &[(&str, &str)], running: (Policy, i8), woken: (Policy, i8), behind: u64) -> bool {
    woken_behind(release, knobs, running, woken, behind).sched.need_resched(CPU0)
}

fn woken_behind(release: &str, knobs: &[(&str, &str)], running: (Policy, i8), woken: (Policy, i8), behind: u64) -> Lab {
    let mut all = vec![("latency", "1s")];
    all.extend_from_slice(knobs);
    let mut lab = Lab::new(release, &all);
    let (sleeper, runner) = (lab.task(), lab.task());
    lab.schedule(CPU0);
    assert_eq!(lab.sleep(CPU0), runner);
    lab.run(CPU0, behind);
    lab.sched.sched_setattr(runner, &attributes(running.0, running.1));
    lab.sched.sched_setattr(sleeper, &attributes(woken.0, woken.1));
    lab.schedule(CPU0);
    lab.wake(sleeper);
    if woken.0 != Policy::Idle {
        assert_eq!(lab.vruntime(runner) - lab.vruntime(sleeper), behind as i64);
    }
    lab
}

const NORMAL: (Policy, i8) = (Policy::Other, 0);

/// Strictly further behind than wakeup_granularity: 1 ms (10 ms on 2.6.24) at nice 0.
#[test]
fn a_woken_task_preempts_when_it_is_a_granularity_behind() {
    for (release, granularity) in [("2.6.24", 10_000_000), ("5.10", 1_000_000), ("6.1", 1_000_000)] {
        assert!(!preempts(release, &[], NORMAL, NORMAL, granularity), "{release}");
        assert!(preempts(release, &[], NORMAL, NORMAL, granularity + 1), "{release}");
    }
}

#[test]
fn the_granularity_may_be_zero_or_a_second() {
    for release in ["2.6.24", "5.10", "6.1"] {
        let none = [("wakeup_granularity", "0ns")];
        assert!(!preempts(release, &none, NORMAL, NORMAL, 0), "{release}: equal is not behind");
        assert!(preempts(release, &none, NORMAL, NORMAL, 1), "{release}");
        let second = [("wakeup_granularity", "1s")];
        assert!(!preempts(release, &second, NORMAL, NORMAL, 400 * MS), "{release}");
    }
}

/// `wakeup_gran(se)`: the granularity is converted to the woken task's virtual time, so light tasks find it harder to preempt.
#[test]
fn the_granularity_is_in_the_woken_task_s_virtual_time() {
    for release in ["5.10", "6.1"] {
        // nice 5: 1 ms × 3282124288 / 2^30 = 3056716.4 → 3056716. nice −5: 1 ms × 1409178624 / 2^32 = 328099.97 → 328099.
        for (nice, granularity) in [(5, 3_056_716), (-5, 328_099)] {
            assert!(!preempts(release, &[], NORMAL, (Policy::Other, nice), granularity), "{release} {nice}");
            assert!(preempts(release, &[], NORMAL, (Policy::Other, nice), granularity + 1), "{release} {nice}");
        }
        // The running task's weight does not count.
        assert!(preempts(release, &[], (Policy::Other, 5), NORMAL, 1_000_001), "{release}");
        assert!(!preempts(release, &[], (Policy::Other, -5), NORMAL, 1_000_000), "{release}");
    }
}

/// 2.6.24 converts it to the running task's virtual time instead.
#[test]
fn the_first_kernel_s_granularity_is_in_the_running_task_s_virtual_time() {
    // nice 5, calc_delta_mine of 10 ms: 30567164 (weights.rs); nice −5: 3281000.
    for (nice, granularity) in [(5, 30_567_164), (-5, 3_281_000)] {
        assert!(!preempts("2.6.24", &[], (Policy::Other, nice), NORMAL, granularity), "{nice}");
        assert!(preempts("2.6.24", &[], (Policy::Other, nice), NORMAL, granularity + 1), "{nice}");
    }
    assert!(preempts("2.6.24", &[], NORMAL, (Policy::Other, 5), 10_000_001));
}

/// SCHED_BATCH and SCHED_IDLE do not preempt SCHED_OTHER by waking; 2.6.24 knows the exception for BATCH alone.
#[test]
fn batch_and_idle_tasks_do_not_preempt_by_waking() {
    for release in ["5.10", "6.1"] {
        for policy in [Policy::Batch, Policy::Idle] {
            let anything = [("wakeup_granularity", "0ns")];
            assert!(!preempts(release, &anything, NORMAL, (policy, 0), 400 * MS), "{release} {policy:?}");
        }
        assert!(preempts(release, &[], (Policy::Batch, 0), NORMAL, 2 * MS), "{release}");
    }
    assert!(!preempts("2.6.24", &[], NORMAL, (Policy::Batch, 0), 400 * MS));
    assert!(preempts("2.6.24", &[], NORMAL, (Policy::Idle, 0), 400 * MS));
}

/// A running SCHED_IDLE task gives way to any other, however far that one is behind or not, but not to its like.
#[test]
fn an_idle_task_gives_way_to_any_other() {
    for release in ["5.10", "6.1"] {
        for policy in [Policy::Other, Policy::Batch] {
            assert!(preempts(release, &[], (Policy::Idle, 0), (policy, 0), 0), "{release} {policy:?}");
        }
        let anything = [("wakeup_granularity", "0ns")];
        assert!(!preempts(release, &anything, (Policy::Idle, 0), (Policy::Idle, 0), 400 * MS), "{release}");
        // Not even WAKEUP_PREEMPTION off keeps it.
        assert!(preempts(release, &[("feature.WAKEUP_PREEMPTION", "0")], (Policy::Idle, 0), NORMAL, 0), "{release}");
    }
    // 2.6.24 has no such rule: at the same virtual time a woken task does not preempt.
    assert!(!preempts("2.6.24", &[], (Policy::Idle, 0), NORMAL, 0));
}

#[test]
fn without_wakeup_preemption_no_woken_task_preempts() {
    for release in ["2.6.24", "5.10", "6.1"] {
        assert!(!preempts(release, &[("feature.WAKEUP_PREEMPTION", "0")], NORMAL, NORMAL, 400 * MS), "{release}");
    }
}

/// The running task is charged up to the wake-up before the comparison.
#[test]
fn the_comparison_counts_what_the_running_task_has_just_run() {
    for (release, granularity) in [("2.6.24", 10_000_000), ("5.10", 1_000_000), ("6.1", 1_000_000)] {
        for (more, expected) in [(0, false), (1, true)] {
            let mut lab = Lab::new(release, &[("latency", "1s")]);
            let (sleeper, _runner) = (lab.task(), lab.task());
            lab.schedule(CPU0);
            lab.sleep(CPU0);
            lab.advance(granularity + more);
            assert_eq!(lab.wake(sleeper), expected, "{release}");
        }
    }
}

/// An idle CPU takes a woken task at once.
#[test]
fn an_idle_cpu_reschedules_for_any_task() {
    for release in ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        for policy in [Policy::Other, Policy::Batch, Policy::Idle, Policy::Fifo(1)] {
            let mut lab = Lab::new(release, &[]);
            let task = lab.spawn(policy, 0);
            assert!(lab.sched.need_resched(CPU0), "{release} {policy:?}");
            assert_eq!(lab.schedule(CPU0), task);
            assert!(!lab.sched.need_resched(CPU0), "schedule clears it");
            lab.sleep(CPU0);
            assert!(lab.wake(task), "{release} {policy:?}");
        }
    }
}

/// A task that is not asleep is not woken, and nothing changes.
#[test]
fn waking_twice_does_nothing() {
    for release in ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let mut lab = Lab::new(release, &[]);
        let (sleeper, runner) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        lab.wake(sleeper);
        let before = format!("{:?}", lab.sched);
        assert!(!lab.sched.try_to_wake_up(sleeper, CPU0));
        assert!(!lab.sched.try_to_wake_up(runner, CPU0));
        assert_eq!(format!("{:?}", lab.sched), before, "{release}");
    }
}
