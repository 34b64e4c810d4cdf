//! Where a forked task starts: START_DEBIT, child_runs_first, and 2.6.24's `task_new_fair`.

use schedlab_model::{Policy, TaskId};

use crate::lab::{CPU0, CPU1, Lab, MS};

/// A parent that ran 10 ms alone on CPU 0: its virtual time and `min_vruntime` are 10 ms.
fn parent(release: &str, knobs: &[(&str, &str)]) -> (Lab, TaskId) {
    let mut lab = Lab::with_cpus(release, 2, knobs);
    let parent = lab.task();
    lab.schedule(CPU0);
    lab.run(CPU0, 10 * MS);
    (lab, parent)
}

/// START_DEBIT: at `min_vruntime` plus the virtual slice it would have on the queue (`sched_vslice`, itself counted).
#[test]
fn a_child_starts_a_virtual_slice_late() {
    for release in ["5.10", "6.1"] {
        let (mut lab, task) = parent(release, &[]);
        let child = lab.fork(task, CPU0);
        // Two tasks: 6 ms × ½ as in periods.rs = 2999998; at nice 0 as much virtual time.
        assert_eq!(lab.vruntime(child), 10 * MS as i64 + 2_999_998, "{release}");
        // Three: load 3072, inverse 1398101, × 1024 = 1431655424; 6 ms × that / 2^32 = 1999999.5 → 1999999.
        let third = lab.fork(task, CPU0);
        assert_eq!(lab.vruntime(third), 10 * MS as i64 + 1_999_999, "{release}");
    }
}

/// The newcomer counts in the number of tasks too: a ninth stretches the period from 6 to 6.75 ms.
#[test]
fn a_child_counts_in_the_period_that_it_is_placed_by() {
    let mut lab = Lab::new("5.10", &[]);
    let parent = lab.spawn(Policy::Other, -5);
    (0..7).for_each(|_| {
        lab.task();
    });
    lab.schedule(CPU0);
    let child = lab.fork(parent, CPU0);
    // Load 2 × 3121 + 7 × 1024 = 13410: inverse 320280; × 3121 = 999593880; 6.75 ms × that / 2^32 → 1570968. At nice −5 (inverse 1376151)
    // × 1024 × 1376151 / 2^32 → 515434.
    assert_eq!(lab.vruntime(child), 515434);
}

/// The debit is in the child's virtual time: at nice 5 half a latency is 1024 / 335 times as far.
#[test]
fn the_debit_of_a_light_child_is_in_its_own_virtual_time() {
    let mut lab = Lab::new("6.1", &[]);
    let parent = lab.spawn(Policy::Other, 5);
    lab.schedule(CPU0);
    let child = lab.fork(parent, CPU0);
    // Load 670: inverse ⌊4294967295 / 670⌋ = 6410398; × 335 = 2147483330; 6 ms × that / 2^32 = 2999999.6 → 2999999.
    // Nice 5 (weights.rs): 2999999 × 3282124288 / 2^30 = 9170146.3 → 9170146.
    assert_eq!(lab.vruntime(child), 9_170_146);
}

#[test]
fn without_start_debit_a_child_starts_where_its_parent_is() {
    for release in ["5.10", "6.1"] {
        let (mut lab, task) = parent(release, &[("feature.START_DEBIT", "0")]);
        let child = lab.fork(task, CPU0);
        assert_eq!(lab.vruntime(child), 10 * MS as i64, "{release}");
    }
}

/// `place_entity` takes the later of the parent's virtual time and the placement: forking pays no one.
#[test]
fn a_child_starts_no_earlier_than_its_parent() {
    for release in ["5.10", "6.1"] {
        let mut lab = Lab::new(release, &[]);
        let (parent, _waiting) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        // The other task waits at 0 and keeps min_vruntime there; the parent is at 8 ms, beyond 0 + 6 ms / 3.
        lab.run(CPU0, 8 * MS);
        let child = lab.fork(parent, CPU0);
        assert_eq!(lab.min_vruntime(CPU0), 0, "{release}");
        assert_eq!(lab.vruntime(child), 8 * MS as i64, "{release}");
    }
}

/// The parent is charged up to the fork (`update_curr` in `task_fork_fair`).
#[test]
fn a_fork_charges_the_parent_first() {
    let (mut lab, task) = parent("6.1", &[("feature.START_DEBIT", "0")]);
    lab.advance(3 * MS);
    let child = lab.fork(task, CPU0);
    assert_eq!((lab.vruntime(task), lab.vruntime(child)), (13 * MS as i64, 13 * MS as i64));
}

/// The child keeps its distance from `min_vruntime` on the CPU that it is woken on.
#[test]
fn a_child_woken_elsewhere_keeps_its_distance() {
    for release in ["5.10", "6.1"] {
        let (mut lab, task) = parent(release, &[]);
        let child = lab.fork(task, CPU1);
        // CPU 1's queue still stands at 0.
        assert_eq!(lab.vruntime(child), 2_999_998, "{release}");
        assert_eq!(lab.sched.task_cpu(child), CPU1);
        assert!(lab.sched.need_resched(CPU1), "an idle CPU takes the new task at once");
    }
}

/// A forked task does not preempt its parent: it is behind by the debit.
#[test]
fn a_child_waits_for_its_parent() {
    for release in ["5.10", "6.1"] {
        let (mut lab, task) = parent(release, &[]);
        lab.fork(task, CPU0);
        assert!(!lab.sched.need_resched(CPU0), "{release}");
    }
}

/// `sysctl_sched_child_runs_first`: a child that was placed behind its parent swaps places with it, and the parent must go.
#[test]
fn child_runs_first_swaps_parent_and_child() {
    for release in ["5.10", "6.1"] {
        let (mut lab, task) = parent(release, &[("child_runs_first", "1")]);
        let child = lab.fork(task, CPU0);
        assert_eq!(lab.vruntime(child), 10 * MS as i64, "{release}");
        assert_eq!(lab.vruntime(task), 10 * MS as i64 + 2_999_998, "{release}");
        assert!(lab.sched.need_resched(CPU0), "{release}");
        assert_eq!(lab.schedule(CPU0), child, "{release}");
        // Not behind: nothing to swap.
        let (mut lab, task) = parent(release, &[("child_runs_first", "1"), ("feature.START_DEBIT", "0")]);
        lab.fork(task, CPU0);
        assert!(!lab.sched.need_resched(CPU0), "{release}");
    }
}

/// A child inherits policy, nice level and affinity.
#[test]
fn a_child_inherits_its_parent_s_attributes() {
    for release in ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let mut lab = Lab::new(release, &[]);
        let parent = lab.spawn(Policy::Batch, 7);
        lab.schedule(CPU0);
        let child = lab.fork(parent, CPU0);
        assert_eq!(lab.sched.attributes(child), lab.sched.attributes(parent), "{release}");
        assert_eq!(lab.entity(child).load, lab.entity(parent).load, "{release}");
        assert_eq!(lab.sched.sum_exec_runtime(child), 0, "{release}");
    }
}

/// 2.6.24, `sched_vslice_add`: period(nr + 1) × 1024 / (load + weight) behind `min_vruntime`, wherever the parent is.
#[test]
fn the_first_kernel_places_a_child_at_its_first_wake_up() {
    let (mut lab, task) = parent("2.6.24", &[("child_runs_first", "0")]);
    let child = lab.fork(task, CPU0);
    // 20 ms × 1024 / 2048 behind min_vruntime = 10 ms.
    assert_eq!(lab.vruntime(child), 20 * MS as i64);
    let mut lab = Lab::new("2.6.24", &[("child_runs_first", "0")]);
    let (parent, _waiting) = (lab.task(), lab.task());
    lab.schedule(CPU0);
    lab.run(CPU0, 15 * MS);
    let child = lab.fork(parent, CPU0);
    // min_vruntime is 0, for the other waits there. 20 ms × 1024 / 3072 = 6666666.7 → 6666666: before its parent at 15 ms.
    assert_eq!(lab.vruntime(child), 6_666_666);
}

/// 2.6.24 sets the child's virtual time outright (no `max_vruntime` for a new one), whatever it held before.
#[test]
fn the_first_kernel_forgets_what_the_child_copied() {
    let mut lab = Lab::new("2.6.24", &[("latency", "100us"), ("min_granularity", "100us"), ("child_runs_first", "0")]);
    let parent = lab.task();
    lab.schedule(CPU0);
    lab.run(CPU0, 100_000);
    let child = lab.fork(parent, CPU0);
    // nr_latency is 1: 100 µs × 2 / 1 × 1024 / 2048 = 100 µs behind 100 µs. (A plain 0 lies 2^20 ns after the queue's start.)
    assert_eq!(lab.vruntime(child), 200_000);
}

/// 2.6.24 reschedules after every fork, and by default the child goes first.
#[test]
fn the_first_kernel_runs_the_child_first() {
    let (mut lab, task) = parent("2.6.24", &[]);
    let child = lab.fork(task, CPU0);
    assert_eq!((lab.vruntime(child), lab.vruntime(task)), (10 * MS as i64, 20 * MS as i64));
    assert!(lab.sched.need_resched(CPU0));
    assert_eq!(lab.schedule(CPU0), child);
    // Even with child_runs_first off the parent is rescheduled (resched_task in task_new_fair); it is still first and goes on.
    let (mut lab, task) = parent("2.6.24", &[("child_runs_first", "0")]);
    lab.fork(task, CPU0);
    assert!(lab.sched.need_resched(CPU0));
    assert_eq!(lab.schedule(CPU0), task);
}

/// 2.6.24 charges once more when it queues the child (`enqueue_entity`): no task waits yet, so after the swap `min_vruntime` follows the
/// parent to its new place, though the child is behind that.
#[test]
fn the_first_kernel_s_swap_takes_min_vruntime_along() {
    let (mut lab, task) = parent("2.6.24", &[]);
    let child = lab.fork(task, CPU0);
    assert_eq!((lab.vruntime(child), lab.min_vruntime(CPU0)), (10 * MS as i64, 20 * MS as i64));
}

/// 2.6.24 swaps only on the parent's own CPU (`this_cpu == task_cpu(p)`).
#[test]
fn the_first_kernel_swaps_on_the_parent_s_cpu_only() {
    let (mut lab, task) = parent("2.6.24", &[]);
    lab.spawn_on(CPU1, Policy::Other, 0);
    lab.schedule(CPU1);
    let child = lab.fork(task, CPU1);
    // 10 ms behind CPU 1's min_vruntime, 0; the running task there keeps its place, and is rescheduled.
    assert_eq!(lab.vruntime(child), 10 * MS as i64);
    assert_eq!(lab.vruntime(task), 10 * MS as i64);
    assert!(lab.sched.need_resched(CPU1));
}

/// 2.6.24: `task_new_fair` serves every forked task (its parent runs somewhere), on an idle CPU too: the debit is due there as well.
#[test]
fn the_first_kernel_s_debit_is_due_on_an_idle_cpu_too() {
    let (mut lab, task) = parent("2.6.24", &[]);
    let first = lab.fork(task, CPU1);
    // CPU 1 is empty, at 0: 20 ms × 1024 / 1024.
    assert_eq!(lab.vruntime(first), 20 * MS as i64);
    let second = lab.fork(task, CPU1);
    // No task runs there yet, so min_vruntime is still 0: 20 ms × 1024 / 2048; the second child comes before the first.
    assert_eq!(lab.vruntime(second), 10 * MS as i64);
    assert_eq!(lab.schedule(CPU1), second);
}
