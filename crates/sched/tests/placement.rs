//! `select_task_rq_fair` in constructed situations; the expected CPU follows from `kernel/sched/fair.c` of each release.

mod common;

use common::{CURRENT, Machine};
use schedlab_model::{CpuId, Policy, TaskId};

/// Its last CPU idles: `wake_affine_idle` gives that (the waker's is busy), and `select_idle_sibling` takes it at once.
#[test]
fn back_to_an_idle_cpu() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 4, "smt=1");
        let task = machine.sleeper(3);
        machine.hog(0);
        assert_eq!(machine.wakes(0, task, false), 3, "{release}");
    }
}

/// Waker and last CPU are busy and share a cache: whichever `wake_affine` prefers, the search for an idle CPU begins after it and
/// finds the first that idles, from 5.12 on at the CPU after the target; 5.10 begins at the target itself.
#[test]
fn an_idle_sibling_is_found() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 4, "smt=1");
        let task = machine.sleeper(1);
        for cpu in [0, 1, 2] {
            machine.hog(cpu);
        }
        assert_eq!(machine.wakes(0, task, true), 3, "{release}");
    }
}

/// Two caches. The waker runs alone and is about to sleep: with the sync hint its CPU is the target, so that the task comes to the
/// waker's cache, where CPU 1 idles; without it the last CPU's cache is searched as long as that has no more load.
#[test]
fn a_sync_waker_draws_to_its_cache() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 4, "llc=2");
        let task = machine.sleeper(2);
        machine.hog(0);
        machine.hog(2);
        assert_eq!(machine.wakes(0, task, true), 1, "{release}");
        assert_eq!(machine.wakes(0, task, false), 3, "{release}");
    }
}

/// From an interrupt on an idle CPU of the same cache: the last CPU if it idles too, else the one of the interrupt. One of another
/// cache draws the task only by weight (WA_WEIGHT): without any load there, 1024 · 100 against (2048 − 1024) · 108. Without that
/// feature the task stays, and the search there finds its neighbour.
#[test]
fn interrupts_draw_within_a_cache_only() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 4, "llc=2");
        let task = machine.sleeper(2);
        assert_eq!(machine.wakes(3, task, false), 2, "{release}: it idles");
        machine.hog(2);
        assert_eq!(machine.wakes(3, task, false), 3, "{release}: the same cache");
        assert_eq!(machine.wakes(0, task, false), 0, "{release}: another cache, without load");
        let mut machine = Machine::with(release, 4, "llc=2", &[("feature.WA_WEIGHT", "0")]);
        let task = machine.sleeper(2);
        machine.hog(2);
        assert_eq!(machine.wakes(0, task, false), 3, "{release}: another cache");
    }
}

/// `wake_wide`: waker and wakee that both wake at least as many others as the cache has CPUs, and one of them that many times more,
/// are not drawn together. Two CPUs a cache: a wakee of two flips and a waker of four.
#[test]
fn wakees_of_a_task_that_wakes_many_are_spread() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 4, "llc=2");
        let task = machine.sleeper(2);
        let others = [machine.sleeper(3), machine.sleeper(3)];
        // The wakee wakes two others in turn, from CPU 2.
        machine.runs(2, task);
        for other in others {
            machine.wakes(2, other, false);
        }
        machine.sleeps(2);
        machine.hog(0);
        machine.hog(2);
        // Each of these is another one than the last, and flips: 1, 3 and 5 when the task is woken. While that is less than four
        // the sync wake-up draws the task to the waker's cache, where CPU 1 idles.
        for expected in [1, 1, 3] {
            assert_eq!(machine.wakes(0, task, true), expected, "{release}");
            machine.wakes(0, others[0], true);
        }
    }
}

/// Three cores of two threads. The first threads of two cores are busy: the idle core is preferred over an idle thread beside a busy one.
#[test]
fn an_idle_core_before_an_idle_thread() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 6, "smt=2");
        let task = machine.sleeper(0);
        machine.hog(0);
        machine.hog(2);
        // Threads 1 and 3 idle beside busy ones; core 2 is CPUs 4 and 5.
        assert_eq!(machine.wakes(0, task, false), 4, "{release}");
    }
}

/// SCHED_IDLE tasks do not keep a CPU (`sched_idle_cpu`), but from 7.0 on they do for their like (`choose_sched_idle_rq`).
#[test]
fn a_cpu_of_idle_policy_is_as_good_as_idle() {
    for (release, expected) in [("6.1", [3, 3]), ("6.12", [3, 3]), ("7.2", [3, 1]), ("7.3", [3, 1])] {
        let mut machine = Machine::new(release, 4, "smt=1");
        let tasks = [Policy::Other, Policy::Idle].map(|policy| machine.slept(1, &[], policy));
        for cpu in [0, 1, 2] {
            machine.hog(cpu);
        }
        machine.start(3, &[3], Policy::Idle);
        let chosen = tasks.map(|task| machine.wakes(1, task, false));
        assert_eq!(chosen, expected, "{release}");
    }
}

/// `sched_balance_find_dst_group`: from a busy CPU a child goes to the group with the most idle CPUs, the first of equals; where cores have two
/// threads that is an idle core, and among caches the emptier one.
#[test]
fn children_are_spread() {
    for release in CURRENT {
        for (topology, expected) in [("smt=1", 1), ("smt=2", 2), ("llc=2", 2)] {
            let mut machine = Machine::new(release, 4, topology);
            machine.hog(0);
            assert_eq!(machine.forks(0), expected, "{release} {topology}");
        }
    }
}

/// A child stays on its parent's node while few run there: one more than none is within what 6.1 allows between nodes of four
/// CPUs; 5.10 keeps it as long as the node has an idle CPU.
#[test]
fn children_stay_on_the_node_at_first() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 8, "node=4");
        machine.hog(0);
        let expected = if release == "5.10" { 0..4 } else { 0..8 };
        assert!(expected.contains(&machine.forks(0)), "{release}");
    }
}

/// A task that may run on one CPU only is asked nothing, and one whose cache is forbidden to it goes where it may.
#[test]
fn affinity_is_kept() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 4, "llc=2");
        let pinned = machine.slept(2, &[2], Policy::Other);
        machine.hog(2);
        assert_eq!(machine.wakes(0, pinned, true), 2, "{release}");
        let few = machine.slept(3, &[1, 3], Policy::Other);
        for cpu in [0, 3] {
            machine.hog(cpu);
        }
        let chosen = machine.wakes(0, few, false);
        assert!([1, 3].contains(&chosen), "{release}: {chosen}");
    }
}

/// `recent_used_cpu`: between waker and last CPU, which are both busy, and any idle CPU of the cache comes the one before the last. The
/// task was on 3, which was busy as it woke, and then on 1: of 2 and 3, which both idle, a search from 0 or 1 on would find 2.
#[test]
fn the_cpu_before_the_last_is_looked_at_before_others() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 4, "smt=1");
        let task = machine.sleeper(3);
        machine.hog(0);
        machine.hog(3);
        assert_eq!(machine.wakes(0, task, false), 1, "{release}: the first that idles");
        machine.runs(1, task);
        machine.sleeps(1);
        machine.hog(1);
        machine.sleeps(3);
        assert_eq!(machine.wakes(0, task, false), 3, "{release}");
    }
}

/// `dup_task_struct`: a child is a copy of its parent, including the record of which tasks the parent woke (kthreadd's children in
/// recordings of 6.1 have its `wakee_flips`). As in `wakees_of_a_task_that_wakes_many_are_spread`, but that the waker is a child of the
/// one that woke many.
#[test]
fn a_child_wakes_as_many_as_its_parent_did() {
    for release in CURRENT {
        let mut machine = Machine::new(release, 4, "llc=2");
        let wakees: Vec<TaskId> = (0..3).map(|_| machine.sleeper(2)).collect();
        let parent = machine.start(0, &[], Policy::Other);
        for wakee in [wakees[0], wakees[1], wakees[0], wakees[1]] {
            machine.wakes(0, wakee, true);
        }
        let child = machine.sched.sched_fork(parent, false);
        machine.sched.wake_up_new_task(child, CpuId(0));
        machine.sleeps(0);
        assert_eq!(machine.sched.curr(CpuId(0)), child, "{release}");
        assert_eq!(machine.sched.wakee_flips(child), Some(4), "{release}");
        // It wakes another than its parent did last.
        machine.wakes(0, wakees[2], true);
        assert_eq!(machine.sched.wakee_flips(child), Some(5), "{release}");
        assert_eq!(machine.sched.wakee_flips(parent), Some(4), "{release}");
    }
}
