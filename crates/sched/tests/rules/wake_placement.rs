//! Where a woken task comes in: a bounded credit for its sleep, never earlier than it left (`place_entity`).

use schedlab_model::{Policy, TaskId};

use crate::lab::{CPU0, Lab, MS, attributes};

/// A task that ran `ran` and then slept while another ran to 100 ms of virtual time.
fn slept(release: &str, knobs: &[(&str, &str)], policy: Policy, ran: u64) -> (Lab, TaskId) {
    let mut lab = Lab::new(release, knobs);
    let sleeper = lab.task();
    lab.schedule(CPU0);
    let runner = lab.task();
    lab.sched.sched_setattr(sleeper, &attributes(policy, 0));
    lab.run(CPU0, ran);
    assert_eq!(lab.sleep(CPU0), runner);
    lab.run(CPU0, 100 * MS - lab.vruntime(runner) as u64);
    assert_eq!(lab.min_vruntime(CPU0), 100 * MS as i64);
    (lab, sleeper)
}

fn placed(release: &str, knobs: &[(&str, &str)], policy: Policy) -> i64 {
    let (mut lab, sleeper) = slept(release, knobs, policy, 0);
    lab.wake(sleeper);
    lab.vruntime(sleeper) - lab.min_vruntime(CPU0)
}

/// GENTLE_FAIR_SLEEPERS: half a latency (6 ms) before `min_vruntime`.
#[test]
fn a_long_sleeper_is_credited_half_a_latency() {
    for release in ["5.10", "6.1"] {
        assert_eq!(placed(release, &[], Policy::Other), -3 * MS as i64, "{release}");
        assert_eq!(placed(release, &[("latency", "20ms")], Policy::Other), -10 * MS as i64, "{release}");
        // The shift truncates: 5000001 >> 1 = 2500000.
        assert_eq!(placed(release, &[("latency", "5000001ns")], Policy::Other), -2_500_000, "{release}");
        assert_eq!(placed(release, &[], Policy::Batch), -3 * MS as i64, "{release}");
    }
}

#[test]
fn without_gentle_sleepers_it_is_a_whole_latency() {
    for release in ["5.10", "6.1"] {
        assert_eq!(
            placed(release, &[("feature.GENTLE_FAIR_SLEEPERS", "0")], Policy::Other),
            -6 * MS as i64,
            "{release}"
        );
    }
}

/// From 5.15 on a SCHED_IDLE sleeper is credited a granularity (0.75 ms, halved) instead of a latency.
#[test]
fn an_idle_sleeper_is_credited_a_granularity() {
    assert_eq!(placed("6.1", &[], Policy::Idle), -375_000);
    assert_eq!(placed("6.1", &[("feature.GENTLE_FAIR_SLEEPERS", "0")], Policy::Idle), -750_000);
    assert_eq!(placed("5.10", &[], Policy::Idle), -3 * MS as i64);
}

/// 2.6.24: a whole latency (20 ms) under NEW_FAIR_SLEEPERS, else nothing.
#[test]
fn the_first_kernel_credits_a_whole_latency() {
    for policy in [Policy::Other, Policy::Batch, Policy::Idle] {
        assert_eq!(placed("2.6.24", &[], policy), -20 * MS as i64, "{policy:?}");
    }
    assert_eq!(placed("2.6.24", &[("feature.NEW_FAIR_SLEEPERS", "0")], Policy::Other), 0);
}

/// `max_vruntime(se->vruntime, vruntime)`: a short sleep gains nothing.
#[test]
fn a_short_sleep_gains_nothing() {
    for (release, credit) in [("2.6.24", 20 * MS), ("5.10", 3 * MS), ("6.1", 3 * MS)] {
        // It left 1 ns after where the credit would put it: it comes back there.
        let (mut lab, sleeper) = slept(release, &[], Policy::Other, 100 * MS - credit + 1);
        lab.wake(sleeper);
        assert_eq!(lab.vruntime(sleeper), (100 * MS - credit + 1) as i64, "{release}");
        // It left 1 ns before: it is lifted.
        let (mut lab, sleeper) = slept(release, &[], Policy::Other, 100 * MS - credit - 1);
        lab.wake(sleeper);
        assert_eq!(lab.vruntime(sleeper), (100 * MS - credit) as i64, "{release}");
    }
}

/// A task that is ahead of all others when it sleeps is ahead of them when it wakes.
#[test]
fn sleeping_does_not_launder_what_was_overdrawn() {
    for release in ["2.6.24", "5.10", "6.1"] {
        let mut lab = Lab::new(release, &[]);
        let (greedy, other) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.run(CPU0, 50 * MS);
        assert_eq!(lab.sleep(CPU0), other);
        assert!(!lab.wake(greedy), "{release}");
        assert_eq!(lab.vruntime(greedy), 50 * MS as i64, "{release}");
        assert_eq!(lab.schedule(CPU0), other, "{release}");
    }
}

/// The runner is charged up to the wake-up before the sleeper is placed (`update_curr` in `enqueue_entity`).
#[test]
fn the_placement_counts_what_the_running_task_has_just_run() {
    let (mut lab, sleeper) = slept("6.1", &[], Policy::Other, 0);
    lab.advance(10 * MS);
    lab.wake(sleeper);
    // The runner is at 110 ms.
    assert_eq!(lab.vruntime(sleeper), 107 * MS as i64);
}

/// `entity_is_long_sleeper` (5.10, 6.1): after 2^63 / 1024 ns (104 days) the old virtual time is not believed any more. 2.6.24 believes it.
#[test]
fn a_sleep_of_104_days_forgets_the_old_virtual_time() {
    let limit = (1u64 << 63) / 1024;
    let sleeps =
        [("6.1", limit, false), ("6.1", limit + 1, true), ("5.10", limit + 1, true), ("2.6.24", limit + 1, false)];
    for (release, asleep, forgets) in sleeps {
        let (mut lab, sleeper) = slept(release, &[], Policy::Other, 0);
        // A virtual time ahead of the queue's, as it looks once the difference has turned over.
        lab.sched.entity_mut(sleeper).vruntime = lab.queue(CPU0).min_vruntime.plus(7 * MS);
        lab.advance(asleep - (lab.now - lab.entity(sleeper).exec_start));
        // No task runs meanwhile: virtual time does not advance.
        lab.sched.cfs_rq_mut(CPU0).curr = None;
        lab.wake(sleeper);
        let expected = if forgets { 97 * MS } else { 107 * MS };
        assert_eq!(lab.vruntime(sleeper), expected as i64, "{release} {asleep}");
    }
}

/// 2.6.24's APPROX_AVG places half a virtual slice into the queue, TREE_AVG halfway to its last; both are off by default.
#[test]
fn the_first_kernel_can_place_further_into_the_queue() {
    let knobs = [("feature.NEW_FAIR_SLEEPERS", "0"), ("feature.APPROX_AVG", "1")];
    // One task of load 1024: vslice = 20 ms × 1024 / 1024; half of it.
    assert_eq!(placed("2.6.24", &knobs, Policy::Other), 10 * MS as i64);

    let knobs = [("feature.NEW_FAIR_SLEEPERS", "0"), ("feature.TREE_AVG", "1"), ("child_runs_first", "0")];
    let mut lab = Lab::new("2.6.24", &knobs);
    let (sleeper, runner) = (lab.task(), lab.task());
    lab.schedule(CPU0);
    assert_eq!(lab.sleep(CPU0), runner);
    lab.run(CPU0, 40 * MS);
    // The child is placed at 40 + 20 / 2 = 50 ms, the last of the tree.
    lab.fork(runner, CPU0);
    lab.wake(sleeper);
    // Halfway between min_vruntime 40 ms and 50 ms. (Of plain numbers: fine once virtual time has wrapped.)
    assert_eq!(lab.vruntime(sleeper), 45 * MS as i64);
}
