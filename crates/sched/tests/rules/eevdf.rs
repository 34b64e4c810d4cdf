//! EEVDF (6.12, 6.18, 7.2, 7.3): lag, eligibility, virtual deadlines, slice protection, delayed dequeue (`kernel/sched/fair.c`).

use schedlab_model::{Attributes, Policy, TaskId, TaskState, Time};

use crate::lab::{CPU0, CPU1, Lab, MS, US, attributes};

const EEVDF: [&str; 4] = ["6.12", "6.18", "7.2", "7.3"];

/// A task's virtual time from where the queue started, and its deadline from there.
fn place(lab: &Lab, task: TaskId) -> (i64, i64) {
    let entity = lab.entity(task);
    (lab.vruntime(task), entity.deadline.since(entity.vruntime))
}

fn with_slice(lab: &mut Lab, nice: i8, slice: u64) -> TaskId {
    let slice = Some(Time::from_nanos(slice));
    let task = lab.sched.new_task(&Attributes { slice, ..attributes(Policy::Other, nice) });
    lab.sync(CPU0);
    lab.sched.wake_up_new_task(task, CPU0);
    task
}

/// A running task and one waiting, both new, without delayed dequeue, so that sleeping takes a task off at once.
fn pair(release: &str, knobs: &[(&str, &str)]) -> (Lab, TaskId, TaskId) {
    let mut all = vec![("feature.DELAY_DEQUEUE", "0")];
    all.extend_from_slice(knobs);
    let mut lab = Lab::new(release, &all);
    let (running, waiting) = (lab.task(), lab.task());
    assert_eq!(lab.schedule(CPU0), running);
    (lab, running, waiting)
}

/// A new task starts at V, without lag, and due after half a slice (PLACE_DEADLINE_INITIAL); a request is base_slice, 0.7 ms.
#[test]
fn a_new_task_is_due_after_half_a_slice() {
    for release in EEVDF {
        let (lab, running, waiting) = pair(release, &[]);
        assert_eq!((place(&lab, running), place(&lab, waiting)), ((0, 350_000), (0, 350_000)), "{release}");
        let (lab, running, _) = pair(release, &[("feature.PLACE_DEADLINE_INITIAL", "0")]);
        assert_eq!(place(&lab, running), (0, 700_000), "{release}");
        let (lab, running, _) = pair(release, &[("base_slice", "3ms")]);
        assert_eq!(place(&lab, running), (0, 1_500_000), "{release}");
    }
}

/// A deadline is a request in the task's own virtual time: at nice 5 0.7 ms × 3282124288 / 2^30 = 2139701.5.
#[test]
fn a_light_task_s_deadline_is_far_in_virtual_time() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[("feature.PLACE_DEADLINE_INITIAL", "0")]);
        let light = lab.spawn(Policy::Other, 5);
        assert_eq!(place(&lab, light), (0, 2_139_701), "{release}");
    }
}

/// A slice that was asked for stands (kept within 0.1 and 100 ms, `__setparam_fair`).
#[test]
fn a_slice_may_be_asked_for() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[("feature.PLACE_DEADLINE_INITIAL", "0")]);
        for (asked, granted) in [(5 * MS, 5 * MS), (1, 100 * US), (1_000 * MS, 100 * MS)] {
            let task = with_slice(&mut lab, 0, asked);
            assert_eq!(place(&lab, task), (0, granted as i64), "{release}");
            assert_eq!(lab.sched.attributes(task).slice, Some(Time::from_nanos(granted)));
        }
    }
}

/// Among eligible tasks that with the earliest deadline runs, in whatever order they came.
#[test]
fn the_earliest_deadline_runs() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[]);
        let _long = with_slice(&mut lab, 0, 10 * MS);
        let short = with_slice(&mut lab, 0, MS);
        let _middle = lab.spawn(Policy::Other, 19);
        // Due at 5 ms, 0.5 ms and (0.7 ms × 68.27 / 2) 24 ms of virtual time.
        assert_eq!(lab.schedule(CPU0), short, "{release}");
    }
}

/// A task is eligible while its virtual time is no later than V = Σ w·v / Σ w; the running one counts.
#[test]
fn only_a_task_with_no_more_than_its_share_is_eligible() {
    for release in EEVDF {
        // 0.3 ms ahead of the other: V is half of that, so the running one is not eligible and the other is, though both are due at 0.35 ms.
        let (mut lab, _, waiting) = pair(release, &[]);
        lab.run(CPU0, 300 * US);
        assert!(!lab.sched.need_resched(CPU0), "{release}: its request is not served yet");
        assert_eq!(lab.schedule(CPU0), waiting, "{release}");
        // Not by deadline alone: due at 0.1 ms, but ahead of V, a short task waits for one due at 5 ms.
        let mut lab = Lab::new(release, &[("feature.PLACE_DEADLINE_INITIAL", "0")]);
        let long = with_slice(&mut lab, 0, 5 * MS);
        let short = with_slice(&mut lab, 0, 100 * US);
        assert_eq!(lab.schedule(CPU0), short);
        lab.run(CPU0, 40 * US);
        assert_eq!(lab.schedule(CPU0), long, "{release}");
    }
}

/// V weighs: with nice −5 (3121) at 0 and nice 0 at 1 ms it is 1 ms × 1024 / 4145 = 247044.6, rounded down.
#[test]
fn the_average_is_weighted() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[("feature.DELAY_DEQUEUE", "0")]);
        let light = with_slice(&mut lab, 0, 100 * US);
        lab.spawn(Policy::Other, -5);
        assert_eq!(lab.schedule(CPU0), light, "due at 0.05 ms");
        lab.advance(MS);
        lab.sleep(CPU0);
        assert_eq!(lab.entity(light).vlag, 247_044 - 1_000_000, "{release}");
    }
}

/// A served request gets the next deadline, a slice on, and the task goes if another waits.
#[test]
fn a_served_request_ends_the_turn() {
    for release in EEVDF {
        let (mut lab, running, waiting) = pair(release, &[]);
        assert!(!lab.tick_after(CPU0, 349_999), "{release}");
        assert!(lab.tick_after(CPU0, 1), "{release}");
        assert_eq!(place(&lab, running), (350_000, 700_000), "{release}");
        assert_eq!(lab.schedule(CPU0), waiting, "{release}");
        // Alone it goes on; the deadline moves on all the same.
        let mut lab = Lab::new(release, &[]);
        let alone = lab.task();
        lab.schedule(CPU0);
        assert!(!lab.tick_after(CPU0, 5 * MS), "{release}");
        assert_eq!(place(&lab, alone), (5_000_000, 700_000), "{release}");
    }
}

/// A served request asks for a new pick even of a task that is owed more; which it may win again.
#[test]
fn a_served_request_is_picked_anew() {
    for release in EEVDF {
        let (mut lab, running, waiting) = pair(release, &[]);
        lab.run(CPU0, 5 * MS);
        assert_eq!(lab.schedule(CPU0), waiting);
        assert_ne!(lab.curr(CPU0), running);
        // At 0.35 ms it is far before V = 2.7 ms, and due again at 1.05 ms.
        assert!(!lab.tick_after(CPU0, 349_999), "{release}");
        assert!(lab.tick_after(CPU0, 1), "{release}");
        assert_eq!(lab.schedule(CPU0), waiting, "{release}");
    }
}

/// Lag is kept over sleep: V − v when it leaves is V − v when it is back, whatever happened meanwhile.
#[test]
fn sleep_keeps_lag() {
    for release in EEVDF {
        let (mut lab, sleeper, other) = pair(release, &[]);
        // It leaves at 0.3 ms, V is 0.15 ms.
        lab.advance(300 * US);
        assert_eq!(lab.sleep(CPU0), other);
        assert_eq!(lab.entity(sleeper).vlag, -150_000, "{release}");
        lab.run(CPU0, 50 * MS);
        // Now V is the other's 50 ms. Placed at V + 0.15 × (1024 + 1024) / 1024 = 50.3 ms, so that the new V is 50.15 ms.
        lab.wake(sleeper);
        assert_eq!(place(&lab, sleeper), (50_300_000, 700_000), "{release}");
        // Without PLACE_LAG it comes in at V.
        let (mut lab, sleeper, _) = pair(release, &[("feature.PLACE_LAG", "0")]);
        lab.advance(300 * US);
        lab.sleep(CPU0);
        lab.run(CPU0, 50 * MS);
        lab.wake(sleeper);
        assert_eq!(place(&lab, sleeper), (50_000_000, 700_000), "{release}");
    }
}

/// Positive lag likewise: who left before its share comes back early, and goes before others.
#[test]
fn sleep_keeps_what_is_due() {
    for release in EEVDF {
        let (mut lab, runner, sleeper) = pair(release, &[]);
        lab.run(CPU0, 300 * US);
        // The other is picked at 0 of V = 0.15 ms and sleeps at once.
        assert_eq!(lab.schedule(CPU0), sleeper);
        assert_eq!(lab.sleep(CPU0), runner);
        assert_eq!(lab.entity(sleeper).vlag, 150_000, "{release}");
        lab.run(CPU0, 400 * US);
        // The runner is at 0.7 ms: placed 2 × 0.15 ms before that.
        lab.wake(sleeper);
        assert_eq!(place(&lab, sleeper), (400_000, 700_000), "{release}");
    }
}

/// A kept lag is within max(2 slices, a tick), from 6.18.17 on within the longest slice and a tick, in the task's virtual time.
#[test]
fn lag_is_limited() {
    for release in EEVDF {
        // 2 × 0.7 ms < 4 ms, a tick at 250 Hz; 2 × 10 ms are more than that. Later 0.7 + 4 and 10 + 4 ms.
        let limits = if release == "6.12" { [4 * MS, 20 * MS] } else { [4_700 * US, 14 * MS] };
        for (slice, limit) in ["700us", "10ms"].into_iter().zip(limits) {
            let (mut lab, sleeper, _) = pair(release, &[("base_slice", slice)]);
            // V = 50 ms behind 100 ms.
            lab.advance(100 * MS);
            lab.sleep(CPU0);
            assert_eq!(lab.entity(sleeper).vlag, -(limit as i64), "{release} {slice}");
        }
    }
}

/// A sleeper with negative lag stays queued, asleep, until it is eligible (DELAY_DEQUEUE): it takes part in V but does not run.
#[test]
fn a_sleeper_in_debt_stays_queued() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[]);
        let (sleeper, other) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.advance(300 * US);
        assert_eq!(lab.sleep(CPU0), other, "{release}");
        assert!(lab.entity(sleeper).sched_delayed && lab.entity(sleeper).on_rq, "{release}");
        assert_eq!(lab.queue(CPU0).nr_running, 2, "{release}");
        // At 0.3 ms the other is level with it; V is there too, it is eligible and, due earlier, would be picked: it leaves instead.
        lab.run(CPU0, 300 * US);
        assert_eq!(lab.schedule(CPU0), other, "{release}");
        lab.run(CPU0, 50 * US);
        assert_eq!(lab.schedule(CPU0), other, "{release}");
        assert!(!lab.entity(sleeper).on_rq, "{release}: gone");
        // What it earned while its dequeue was delayed does not count (DELAY_ZERO): without lag.
        assert_eq!(lab.entity(sleeper).vlag, 0, "{release}");
    }
}

/// A task without debt is dequeued at once, and so is a task that exits.
#[test]
fn only_sleepers_in_debt_stay_queued() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[]);
        let (first, second) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        assert!(!lab.entity(first).on_rq, "{release}: at V");
        lab.wake(first);
        assert_eq!(lab.curr(CPU0), second);
        lab.advance(300 * US);
        lab.leave(CPU0, TaskState::Dead);
        assert!(!lab.entity(second).on_rq, "{release}: ended in debt");
    }
}

/// A task that wakes before its delayed dequeue goes on where it is.
#[test]
fn a_delayed_task_that_wakes_keeps_its_place() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[]);
        let (sleeper, _) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.advance(300 * US);
        lab.sleep(CPU0);
        lab.run(CPU0, 100 * US);
        lab.wake(sleeper);
        assert!(!lab.entity(sleeper).sched_delayed, "{release}");
        assert_eq!(place(&lab, sleeper), (300_000, 50_000), "{release}: in debt still");
        // With lag to its credit it is placed anew at V (DELAY_ZERO): at 0.3 ms of V = 0.4 ms when the other is at 0.5 ms …
        let mut lab = Lab::new(release, &[]);
        let (sleeper, _) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.advance(300 * US);
        lab.sleep(CPU0);
        lab.run(CPU0, 500 * US);
        lab.wake(sleeper);
        // … V without its own weight in the load: v = V = (0.3 + 0.5) / 2 before it is taken out, 0.5 ms after.
        assert_eq!(place(&lab, sleeper), (500_000, 700_000), "{release}");
    }
}

/// `wait_task_inactive`: a task that waits for another to sleep dequeues it if it is delayed, in debt as it is. At 0.3 ms it went to
/// sleep; the other is at 0.1 ms now, V at 0.2 ms. A task that is off its queue, or awake on it, stays as it is.
#[test]
fn waiting_for_a_task_to_sleep_dequeues_it() {
    for release in EEVDF {
        let mut lab = Lab::new(release, &[]);
        let (sleeper, other) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        lab.advance(300 * US);
        lab.sleep(CPU0);
        lab.run(CPU0, 100 * US);
        assert!(lab.sched.wait_task_inactive(sleeper), "{release}");
        assert!(!lab.entity(sleeper).on_rq && !lab.entity(sleeper).sched_delayed, "{release}");
        assert_eq!(lab.entity(sleeper).vlag, -100_000, "{release}");
        assert_eq!((lab.queue(CPU0).nr_running, lab.sched.nr_running(CPU0)), (1, 1), "{release}");
        assert!(!lab.sched.wait_task_inactive(sleeper) && !lab.sched.wait_task_inactive(other), "{release}");
        assert_eq!(lab.queue(CPU0).nr_running, 1, "{release}");
    }
}

/// RUN_TO_PARITY: a picked task keeps its CPU while it is eligible and its request lasts, against earlier deadlines.
#[test]
fn a_picked_task_is_protected() {
    // Both at 0. A task at nice −5 wakes at V with a request of the same 0.7 ms: due at 0.23 ms of virtual time, before 0.35.
    let wakes = |release, knobs: &[(&str, &str)]| {
        let mut lab = Lab::new(release, knobs);
        let heavy = lab.spawn(Policy::Other, -5);
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        let running = lab.task();
        assert_eq!(lab.schedule(CPU0), running);
        assert_eq!(lab.wake(heavy), lab.sched.need_resched(CPU0));
        assert_eq!(place(&lab, heavy), (0, 229_669));
        lab.sched.need_resched(CPU0)
    };
    for release in EEVDF {
        assert!(!wakes(release, &[]), "{release}");
    }
    assert!(wakes("6.12", &[("feature.RUN_TO_PARITY", "0")]));
    // 6.18 without it protects for the unscaled base slice: no less than the whole request here.
    assert!(!wakes("6.18", &[("feature.RUN_TO_PARITY", "0")]));
}

/// PREEMPT_SHORT: a shorter slice lifts that protection.
#[test]
fn a_shorter_slice_preempts() {
    let wakes = |release, knobs: &[(&str, &str)]| {
        let mut lab = Lab::new(release, knobs);
        let short = with_slice(&mut lab, 0, 100 * US);
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        lab.task();
        lab.schedule(CPU0);
        lab.wake(short)
    };
    for release in EEVDF {
        assert!(wakes(release, &[]), "{release}");
        assert!(!wakes(release, &[("feature.PREEMPT_SHORT", "0")]), "{release}");
        assert!(!wakes(release, &[("feature.WAKEUP_PREEMPTION", "0")]), "{release}");
    }
}

/// SCHED_BATCH and SCHED_IDLE do not preempt by waking; SCHED_IDLE gives way to all others, protected or not.
#[test]
fn policies_preempt_as_under_cfs() {
    let wakes = |release, running, woken| {
        let mut lab = Lab::new(release, &[]);
        let sleeper = lab.sched.new_task(&Attributes { slice: Some(Time::from_micros(100)), ..attributes(woken, 0) });
        lab.sched.wake_up_new_task(sleeper, CPU0);
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        lab.spawn(running, 0);
        lab.schedule(CPU0);
        lab.wake(sleeper)
    };
    for release in EEVDF {
        for policy in [Policy::Batch, Policy::Idle] {
            assert!(!wakes(release, Policy::Other, policy), "{release} {policy:?}");
        }
        assert!(wakes(release, Policy::Idle, Policy::Batch), "{release}");
        assert!(!wakes(release, Policy::Idle, Policy::Idle), "{release}");
    }
}

/// A yield gives up the rest of the request: virtual time jumps to the deadline, and the next request starts there.
#[test]
fn a_yield_forfeits_the_request() {
    for release in EEVDF {
        let (mut lab, running, waiting) = pair(release, &[]);
        assert_eq!(lab.yields(CPU0), waiting, "{release}");
        assert_eq!(place(&lab, running), (350_000, 700_000), "{release}");
        // A task that is not eligible has nothing to forfeit.
        let (mut lab, running, waiting) = pair(release, &[]);
        lab.advance(300 * US);
        assert_eq!(lab.yields(CPU0), waiting, "{release}");
        assert_eq!(place(&lab, running), (300_000, 50_000), "{release}");
    }
}

/// A moved task keeps its lag and, relative to its virtual time, its deadline (PLACE_REL_DEADLINE).
#[test]
fn a_moved_task_keeps_lag_and_deadline() {
    for release in EEVDF {
        let mut lab = Lab::with_cpus(release, 2, &[]);
        let (_, waiting) = (lab.task(), lab.task());
        let other = lab.spawn_on(CPU1, Policy::Other, 0);
        lab.schedule(CPU1);
        lab.schedule(CPU0);
        lab.run(CPU0, 300 * US);
        lab.run(CPU1, 20 * MS);
        lab.sync(CPU0);
        let at = lab.vruntime(other);
        // CPU 0's running task has not been charged for the 20 ms since: dequeueing does, V = (20.3 + 0) / 2 and the lag of 10.15 ms is cut
        // to a tick, 4 ms, or with a slice 4.7 ms. Placed at V − 4 × 2 ms on CPU 1.
        let twice = if release == "6.12" { 8_000_000 } else { 9_400_000 };
        lab.sched.move_queued_task(waiting, CPU1);
        assert_eq!(place(&lab, waiting), (at - twice, 350_000), "{release}");
    }
}

/// A task whose nice level changes keeps its lag as weight × virtual lag (`reweight_entity`).
#[test]
fn a_new_weight_keeps_the_lag_in_real_time() {
    for release in EEVDF {
        let (mut lab, sleeper, other) = pair(release, &[]);
        lab.advance(300 * US);
        assert_eq!(lab.sleep(CPU0), other);
        // −150000 × 1024 / 335 = −458507.5.
        lab.sched.set_user_nice(sleeper, 5);
        if release == "7.3" {
            // It weighs the same in the timeline until it is queued.
            assert_eq!(lab.entity(sleeper).vlag, -150_000, "{release}");
            lab.wake(sleeper);
        }
        assert_eq!(lab.entity(sleeper).vlag, -458_507, "{release}");
    }
}

/// A thread that was there before has waited for ticks, and keeps all the lag that it may: a tick, 4 ms, more than two slices of 0.7 ms; from 6.18.17
/// on a slice and a tick. With HRTICK (7.2) it has waited for slices, and keeps one. Woken beside a task that was just picked it is behind V, which puts that task ahead of V: not eligible, so that its slice does
/// not protect it. Without lag both are at V, and the slice does.
#[test]
fn a_thread_that_has_waited_before_preempts_a_protected_task() {
    for (release, lag) in [("6.1", 0), ("6.12", 4_000_000), ("6.18", 4_700_000), ("7.2", 700_000)] {
        for waited in [false, true] {
            let mut lab = Lab::new(release, &[]);
            let thread = lab.sched.new_task(&attributes(Policy::Other, 0));
            lab.sched.assume_asleep(thread, CPU0);
            if waited {
                lab.sched.assume_waited(thread);
                assert_eq!(lab.entity(thread).vlag, lag, "{release}");
            }
            let hog = lab.task();
            assert_eq!(lab.schedule(CPU0), hog);
            lab.run(CPU0, 100 * US);
            lab.wake(thread);
            if lag > 0 {
                assert_eq!(lab.must_switch(CPU0), waited, "{release}");
            }
        }
    }
}
