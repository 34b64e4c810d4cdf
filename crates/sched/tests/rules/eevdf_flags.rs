//! EEVDF's feature flags, each on and off, on every release that has them (`kernel/sched/features.h`, `fair.c`). Those whose effect does
//! not depend on the release stand in `eevdf.rs`: PLACE_LAG, PLACE_DEADLINE_INITIAL and PREEMPT_SHORT.

use schedlab_model::{Policy, Scheduler};

use crate::lab::{CPU0, CPU1, Lab, MS, US};

const EEVDF: [&str; 4] = ["6.12", "6.18", "7.2", "7.3"];

#[test]
fn all_are_on_by_default() {
    for release in EEVDF {
        let features = Scheduler::new(release.parse().unwrap()).tunables(1).unwrap().features;
        for name in [
            "PLACE_LAG",
            "PLACE_DEADLINE_INITIAL",
            "PLACE_REL_DEADLINE",
            "RUN_TO_PARITY",
            "PREEMPT_SHORT",
            "DELAY_DEQUEUE",
            "DELAY_ZERO",
            "PICK_BUDDY",
            "WAKEUP_PREEMPTION",
        ] {
            assert_eq!(features.get(name), Some(true), "{name} of {release}");
        }
        assert_eq!(features.get("NEXT_BUDDY"), Some(false), "{release}");
    }
}

/// PLACE_REL_DEADLINE: a task that is moved, here before its first request of 0.35 ms began, is due after as much of it as was left. Without, it
/// begins a new request of 0.7 ms; it is not its first, so not half of one.
#[test]
fn a_moved_task_is_due_when_it_was() {
    for release in EEVDF {
        for (value, due) in [("1", 350_000), ("0", 700_000)] {
            let mut lab = Lab::with_cpus(release, 2, &[("feature.PLACE_REL_DEADLINE", value)]);
            let (_, waiting) = (lab.task(), lab.task());
            lab.schedule(CPU0);
            lab.sync(CPU1);
            lab.sched.move_queued_task(waiting, CPU1);
            let entity = lab.entity(waiting);
            assert_eq!(entity.deadline.since(entity.vruntime), due, "{release} {value}");
        }
    }
}

/// DELAY_DEQUEUE: a task that sleeps after 0.3 ms, where V is 0.15 ms, stays queued; without, it leaves at once with that lag.
#[test]
fn a_sleeper_in_debt_stays_or_goes() {
    for release in EEVDF {
        for (value, queued) in [("1", 2), ("0", 1)] {
            let mut lab = Lab::new(release, &[("feature.DELAY_DEQUEUE", value)]);
            let sleeper = lab.task();
            lab.task();
            lab.schedule(CPU0);
            lab.advance(300 * US);
            lab.sleep(CPU0);
            let entity = lab.entity(sleeper);
            assert_eq!((entity.on_rq, entity.sched_delayed), (value == "1", value == "1"), "{release}");
            assert_eq!(lab.queue(CPU0).nr_running, queued, "{release}");
            // 7.2 notes the lag when the delay begins, too.
            let noted = value == "0" || release.starts_with("7.");
            assert_eq!(entity.vlag, if noted { -150_000 } else { 0 }, "{release}");
        }
    }
}

/// DELAY_ZERO, for a sleeper that leaves: at 0.3 ms it stays queued until the other task, at 0.35 ms, has served its first request and the
/// CPU picks anew. V is 0.325 ms then, and its lag 25 µs; that counts for nothing under DELAY_ZERO.
#[test]
fn lag_earned_during_a_delayed_dequeue_counts_or_not() {
    for release in EEVDF {
        for (value, lag) in [("1", 0), ("0", 25_000)] {
            let mut lab = Lab::new(release, &[("feature.DELAY_ZERO", value)]);
            let (sleeper, other) = (lab.task(), lab.task());
            lab.schedule(CPU0);
            lab.advance(300 * US);
            assert_eq!(lab.sleep(CPU0), other);
            lab.run(CPU0, 350 * US);
            assert_eq!(lab.schedule(CPU0), other, "{release}");
            assert!(!lab.entity(sleeper).on_rq, "{release}: gone");
            assert_eq!(lab.entity(sleeper).vlag, lag, "{release} {value}");
        }
    }
}

/// DELAY_ZERO, for a sleeper that wakes before its delayed dequeue: at 0.3 ms of V = 0.4 ms (the other is at 0.5 ms) it is placed anew at
/// V, which without it is the other's 0.5 ms, with a new request; without the flag it stays where it is, 50 µs before it is due.
#[test]
fn a_delayed_sleeper_that_wakes_is_placed_anew_or_not() {
    for release in EEVDF {
        for (value, expected) in [("1", (500_000, 700_000)), ("0", (300_000, 50_000))] {
            let mut lab = Lab::new(release, &[("feature.DELAY_ZERO", value)]);
            let (sleeper, _) = (lab.task(), lab.task());
            lab.schedule(CPU0);
            lab.advance(300 * US);
            lab.sleep(CPU0);
            lab.run(CPU0, 500 * US);
            lab.wake(sleeper);
            let entity = lab.entity(sleeper);
            let found = (lab.vruntime(sleeper), entity.deadline.since(entity.vruntime));
            assert_eq!(found, expected, "{release} {value}");
            assert!(!entity.sched_delayed);
        }
    }
}

/// RUN_TO_PARITY: with requests of 3 ms, a task of nice −5 wakes at V beside one that has run for a while and is due later (3 ms of virtual time
/// against 3 ms · 1024/3121 = 0.98 ms). That one is protected for its whole request; without the flag on 6.12 not at all, from 6.18 on
/// for the unscaled base slice of 0.7 ms, which on 7.3 is a shorter slice, so that it is protected as long as it is eligible.
#[test]
fn protection_lasts_for_the_request_or_less() {
    let wakes = |release: &str, run_to_parity: &str, after: u64| {
        let knobs =
            [("base_slice", "3ms"), ("feature.PLACE_DEADLINE_INITIAL", "0"), ("feature.RUN_TO_PARITY", run_to_parity)];
        let mut lab = Lab::new(release, &knobs);
        let heavy = lab.spawn(Policy::Other, -5);
        lab.schedule(CPU0);
        lab.sleep(CPU0);
        lab.task();
        lab.schedule(CPU0);
        lab.advance(after);
        lab.wake(heavy)
    };
    for release in EEVDF {
        for after in [0, 500 * US, 700 * US, 800 * US, 2 * MS] {
            assert!(!wakes(release, "1", after), "{release} after {after} ns");
        }
        let unprotected = match release {
            "6.12" => 0,
            // As long as it is eligible: alone it is V itself, and after a nanosecond beyond what V was.
            "7.3" => 1,
            _ => 700 * US,
        };
        for after in [0, 699_999, 700_000, 800 * US, 2 * MS] {
            assert_eq!(wakes(release, "0", after), after >= unprotected, "{release} after {after} ns");
        }
    }
}
