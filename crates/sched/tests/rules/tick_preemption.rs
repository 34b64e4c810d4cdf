//! When a tick takes the CPU away (`check_preempt_tick`).

use schedlab_model::TaskId;

use crate::lab::{CPU0, Lab, MS};

/// Two tasks, the running one just picked and `ahead` of the other in virtual time. The other woke without preempting, for
/// wake-ups may not.
fn just_picked(release: &str, knobs: &[(&str, &str)], ahead: u64) -> (Lab, TaskId, TaskId) {
    let mut all = vec![("feature.WAKEUP_PREEMPTION", "0")];
    all.extend_from_slice(knobs);
    let mut lab = Lab::new(release, &all);
    let (behind, running) = (lab.task(), lab.task());
    lab.schedule(CPU0);
    assert_eq!(lab.sleep(CPU0), running);
    lab.run(CPU0, ahead);
    // It sleeps and wakes at once: placed where it was, and picked anew.
    lab.sleep(CPU0);
    lab.wake(running);
    assert_eq!(lab.schedule(CPU0), running);
    lab.wake(behind);
    assert_eq!(lab.vruntime(running) - lab.vruntime(behind), ahead as i64);
    assert!(!lab.sched.need_resched(CPU0));
    (lab, running, behind)
}

/// Rule 1: strictly more than the ideal runtime since it was picked.
#[test]
fn a_task_that_had_its_slice_must_go() {
    // Two tasks: 2999998 ns (periods.rs); 2.6.24: 10 ms.
    for (release, slice) in [("2.6.24", 10_000_000), ("5.10", 2_999_998), ("6.1", 2_999_998)] {
        let mut lab = Lab::new(release, &[]);
        let (first, second) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        assert!(!lab.tick_after(CPU0, slice), "{release}");
        assert!(lab.tick_after(CPU0, 1), "{release}");
        assert_eq!(lab.schedule(CPU0), second, "{release}");
        // The count starts anew with each pick.
        assert!(!lab.tick_after(CPU0, slice), "{release}");
        assert!(lab.tick_after(CPU0, 1), "{release}");
        assert_eq!(lab.schedule(CPU0), first, "{release}");
    }
}

/// Alone it keeps the CPU, however long.
#[test]
fn a_task_alone_keeps_its_cpu() {
    for release in ["2.6.24", "5.10", "6.1"] {
        let mut lab = Lab::new(release, &[]);
        lab.task();
        lab.schedule(CPU0);
        assert!(!lab.tick_after(CPU0, 3_600_000 * MS), "{release}");
    }
}

/// 2.6.24 looks at the slice of a lone task too where wake-ups do not preempt (`entity_tick`).
#[test]
fn the_first_kernel_without_wakeup_preemption_ticks_even_a_lone_task() {
    let mut lab = Lab::new("2.6.24", &[("feature.WAKEUP_PREEMPTION", "0")]);
    let task = lab.task();
    lab.schedule(CPU0);
    // Alone its slice is the whole latency, 20 ms.
    lab.assert_slice(CPU0, 20 * MS);
    lab.tick_after(CPU0, 20 * MS + 1);
    assert_eq!(lab.schedule(CPU0), task);
    assert!(!lab.tick_after(CPU0, 20 * MS), "the slice started anew");
}

/// Rule 2: not before a granularity (0.75 ms), however far ahead it is.
#[test]
fn a_task_keeps_its_cpu_for_a_granularity() {
    for release in ["5.10", "6.1"] {
        // 3 ms ahead is more than the ideal runtime of 2999998 ns already.
        let (lab, _, _) = just_picked(release, &[], 3 * MS);
        assert!(!lab.would_preempt_after(CPU0, 749_999), "{release}");
        assert!(lab.would_preempt_after(CPU0, 750_000), "{release}");
        let (lab, _, _) = just_picked(release, &[("min_granularity", "2ms")], 3 * MS);
        assert!(!lab.would_preempt_after(CPU0, 1_999_999), "{release}");
        assert!(lab.would_preempt_after(CPU0, 2_000_000), "{release}");
    }
}

/// Rule 2: then as soon as it is further ahead of the first in the queue than its ideal runtime.
#[test]
fn a_task_too_far_ahead_must_go_before_its_slice_is_used_up() {
    for release in ["5.10", "6.1"] {
        // 1 ms ahead: after t it is 1 ms + t ahead, more than 2999998 from t = 1999999 on.
        let (mut lab, _, behind) = just_picked(release, &[], MS);
        assert!(!lab.would_preempt_after(CPU0, 1_999_998), "{release}");
        assert!(lab.tick_after(CPU0, 1_999_999), "{release}");
        assert_eq!(lab.schedule(CPU0), behind, "{release}");
    }
}

/// 2.6.24 has no rule 2: only the slice counts.
#[test]
fn the_first_kernel_looks_at_the_slice_alone() {
    let (lab, _, _) = just_picked("2.6.24", &[], 19 * MS);
    lab.assert_slice(CPU0, 10 * MS);
}

/// Rule 1 also takes the buddy favours away that would give the CPU back (`clear_buddies`).
#[test]
fn a_used_up_slice_costs_the_buddy_favours() {
    for release in ["5.10", "6.1"] {
        let (mut lab, running, _) = just_picked(release, &[], 0);
        let se = lab.sched.task(running).se;
        lab.sched.cfs_rq_mut(CPU0).last = Some(se);
        lab.tick_after(CPU0, 2_999_998);
        assert_eq!(lab.queue(CPU0).last, Some(se), "{release}");
        lab.tick_after(CPU0, 1);
        assert_eq!(lab.queue(CPU0).last, None, "{release}");
    }
}
