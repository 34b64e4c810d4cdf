//! HRTICK and HRTICK_DL: a timer that ends slices and runtimes exactly, where ticks would a tick late.
//! Source: `hrtick_*` in `kernel/sched/core.c`, `hrtick_start_fair` and `hrtick_update` in `fair.c`, `start_hrtick_dl` in
//! `deadline.c`, of 5.10, 6.1, 6.12, 6.18 and 7.2.

use schedlab_model::{Policy, Scheduler, TaskId, Time};

use crate::lab::{CPU0, Lab, MS, US};

const ON: (&str, &str) = ("feature.HRTICK", "1");

/// When the timer comes, from now.
fn due(lab: &Lab) -> Option<u64> {
    lab.sched.hrtick_expires(CPU0).map(|at| at.as_nanos() - lab.now)
}

/// Lets time pass until the timer comes: whether the CPU has to schedule then.
fn fire(lab: &mut Lab) -> bool {
    lab.advance(due(lab).expect("armed"));
    lab.sync(CPU0);
    lab.sched.hrtick(CPU0);
    lab.sched.need_resched(CPU0)
}

fn deadline_task(lab: &mut Lab, runtime: u64, period: u64) -> TaskId {
    let [runtime, period] = [runtime, period].map(Time::from_micros);
    lab.spawn(Policy::Deadline { runtime, deadline: period, period }, 0)
}

#[test]
fn it_is_off_before_7_2() {
    for (release, on) in
        [("5.10", false), ("6.1", false), ("6.12", false), ("6.18", false), ("7.2", true), ("7.3", true)]
    {
        let features = Scheduler::new(release.parse().unwrap()).tunables(1).unwrap().features;
        assert_eq!((features.hrtick, features.hrtick_dl, features.double_tick), (on, on, false), "{release}");
        let mut lab = Lab::new(release, &[]);
        lab.task();
        lab.task();
        lab.schedule(CPU0);
        assert_eq!(due(&lab).is_some(), on, "{release}");
    }
    // 2.6.24 has none of them, 5.10 one for fair and deadline tasks together, only CFS has DOUBLE_TICK.
    for (release, name) in [("2.6.24", "HRTICK"), ("5.10", "HRTICK_DL"), ("6.12", "DOUBLE_TICK")] {
        let mut scheduler = Scheduler::new(release.parse().unwrap());
        assert!(scheduler.set(&format!("feature.{name}"), "1").is_err(), "{name} on {release}");
    }
}

/// Of two tasks each has half of the latency of 6 ms. 2048 has the inverse ⌊(2³² − 1) / 2048⌋ = 2097151, so half is 1024 · 2097151 / 2³²
/// and the slice ⌊6 ms · 2147482624 / 2³²⌋ = 2999998 ns. Ticks leave it to the timer.
#[test]
fn cfs_slices_end_exactly() {
    for release in ["5.10", "6.1"] {
        let mut lab = Lab::new(release, &[ON]);
        let (first, second) = (lab.task(), lab.task());
        assert_eq!(lab.schedule(CPU0), first, "{release}");
        assert_eq!(due(&lab), Some(2_999_998), "{release}");
        assert!(fire(&mut lab), "{release}");
        assert_eq!(lab.schedule(CPU0), second, "{release}");
        assert_eq!(due(&lab), Some(2_999_998), "{release}");
        // It sleeps; the other one is alone: no slice ends.
        lab.sleep(CPU0);
        assert_eq!(due(&lab), None, "{release}");
        // After 1 ms the second task wakes, and of the slice of two 1999998 ns are left.
        lab.advance(MS);
        lab.wake(second);
        assert_eq!(due(&lab), Some(1_999_998), "{release}");
    }
}

/// The running task is picked again at once: CFS asks anew, less what it ran since it was first picked.
#[test]
fn a_task_that_goes_on_has_the_rest_of_its_slice() {
    for (release, left) in [("5.10", Some(1_999_998)), ("6.1", Some(1_999_998)), ("6.12", None), ("6.18", None)] {
        let mut lab = Lab::new(release, &[ON]);
        let first = lab.task();
        lab.schedule(CPU0);
        lab.fork(first, CPU0);
        // The child starts a slice late, so its parent goes on (START_DEBIT). An EEVDF task goes on as long as nothing was charged to it;
        // the rest is left to ticks, as `put_prev_set_next_task` has nothing to do.
        lab.run(CPU0, if left.is_some() { MS } else { 0 });
        assert_eq!(lab.schedule(CPU0), first, "{release}");
        assert_eq!(due(&lab), left, "{release}");
    }
}

/// With nr_latency = 8 tasks slices do not get shorter: the timer is left as it was set. 1 ms of 6 · 1/2 is over when the third comes, which
/// makes the slice 6/3 = 2 ms less some ns; the eighth changes nothing.
#[test]
fn cfs_asks_anew_up_to_nr_latency_tasks() {
    for release in ["5.10", "6.1"] {
        let mut lab = Lab::new(release, &[ON]);
        lab.task();
        lab.task();
        lab.schedule(CPU0);
        lab.run(CPU0, MS);
        lab.task();
        let left = due(&lab).unwrap();
        // 1024/3072 has a factor of 32 bits: no more than 6 ns of 6 ms are lost.
        assert!((999_990..1_000_000).contains(&left), "{release}: {left}");
        for _ in 0..4 {
            lab.task();
        }
        let before = due(&lab).unwrap();
        lab.task();
        assert_eq!(due(&lab), Some(before), "{release}");
    }
}

/// A slice that is over when another task comes ends at once.
#[test]
fn a_slice_that_is_over_ends_at_once() {
    for release in ["5.10", "6.1", "6.12", "6.18"] {
        let mut lab = Lab::new(release, &[ON, ("feature.WAKEUP_PREEMPTION", "0")]);
        let (first, second) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        if lab.curr(CPU0) != first {
            continue;
        }
        // `first` sleeps, `second` is alone for 10 ms, more than any slice here.
        lab.sleep(CPU0);
        assert_eq!(lab.curr(CPU0), second);
        lab.run(CPU0, 10 * MS);
        assert!(!lab.sched.need_resched(CPU0), "{release}");
        assert!(lab.wake(first), "{release}");
    }
}

/// A woken task lies 6 ms behind (a whole latency, without GENTLE_FAIR_SLEEPERS), beyond the slice of 3 ms: a tick would end it once the
/// granularity of 0.75 ms is over. With the timer armed only DOUBLE_TICK looks.
#[test]
fn ticks_leave_slices_to_the_timer() {
    for release in ["5.10", "6.1"] {
        for (double, acts) in [("0", false), ("1", true)] {
            let knobs = [
                ON,
                ("feature.GENTLE_FAIR_SLEEPERS", "0"),
                ("feature.WAKEUP_PREEMPTION", "0"),
                ("feature.DOUBLE_TICK", double),
            ];
            let mut lab = Lab::new(release, &knobs);
            let (first, second) = (lab.task(), lab.task());
            assert_eq!(lab.schedule(CPU0), first);
            assert_eq!(lab.sleep(CPU0), second);
            lab.run(CPU0, 20 * MS);
            assert!(lab.wake(first), "{release}: more than its slice is over");
            assert_eq!(lab.schedule(CPU0), first);
            assert_eq!(lab.sleep(CPU0), second);
            lab.run(CPU0, MS);
            assert!(!lab.wake(first), "{release}");
            assert_eq!(due(&lab), Some(1_999_998), "{release}");
            assert_eq!(lab.tick_after(CPU0, 100 * US), acts, "{release} DOUBLE_TICK={double}");
        }
    }
}

/// 6.12 and 6.18: the request, 700 µs (or what was asked for), less what ran since the pick.
#[test]
fn requests_end_exactly() {
    for release in ["6.12", "6.18"] {
        let mut lab = Lab::new(release, &[ON]);
        let first = lab.task();
        lab.schedule(CPU0);
        assert_eq!(due(&lab), None, "{release}: alone");
        lab.run(CPU0, 200 * US);
        lab.task();
        assert_eq!(due(&lab), Some(500 * US), "{release}");
        assert!(fire(&mut lab), "{release}");
        assert_ne!(lab.schedule(CPU0), first, "{release}");
        assert_eq!(due(&lab), Some(700 * US), "{release}");
    }
}

/// 7.2: the virtual deadline. The first request is half of 700 µs (PLACE_DEADLINE_INITIAL); 200 µs of it are over when another task comes.
#[test]
fn virtual_deadlines_are_met_exactly() {
    let mut lab = Lab::new("7.2", &[]);
    let first = lab.task();
    lab.schedule(CPU0);
    lab.run(CPU0, 200 * US);
    let second = lab.task();
    assert_eq!(due(&lab), Some(150 * US));
    // A third one finds it armed.
    lab.run(CPU0, 10 * US);
    lab.task();
    assert_eq!(due(&lab), Some(140 * US));
    let before = lab.entity(first).deadline;
    assert!(fire(&mut lab));
    assert_eq!(lab.entity(first).deadline.since(before), 700_000, "served");
    assert_eq!(lab.schedule(CPU0), second);
    assert_eq!(due(&lab), Some(350 * US));
    // Both others sleep. With one task left nothing sets the timer, but nothing stops it; with none it goes.
    let third = lab.sleep(CPU0);
    assert_ne!(third, TaskId::IDLE);
    lab.sleep(CPU0);
    assert_ne!(lab.curr(CPU0), TaskId::IDLE);
    assert!(due(&lab).is_some());
    lab.sleep(CPU0);
    assert_eq!((lab.curr(CPU0), due(&lab)), (TaskId::IDLE, None));
}

/// Whatever its weight, a request is served when the timer comes, and was not a few microseconds before: of virtual time 1024/weight as much
/// passes as of real time, so 350 µs of it are 350 µs · weight/1024 of real time, and with the rounding no more than 1 µs beyond.
#[test]
fn every_weight_s_request_ends_with_the_timer() {
    for (nice, weight) in [(-20, 88_761), (-10, 9_548), (-1, 1_277), (1, 820), (5, 335), (10, 110), (19, 15)] {
        let mut lab = Lab::new("7.2", &[]);
        let task = lab.spawn(Policy::Other, nice);
        lab.schedule(CPU0);
        lab.spawn(Policy::Other, nice);
        let before = lab.entity(task).deadline;
        let real = lab.entity(task).deadline.since(lab.entity(task).vruntime) as u64 * weight / 1024;
        let wait = due(&lab).unwrap();
        assert!(wait == (real.max(10_000)) || (wait > real && wait <= real + 1_000), "nice {nice}: {wait}, {real}");
        let mut early = lab.clone();
        early.run(CPU0, wait.saturating_sub(2_000));
        assert!(real <= 10_000 || early.entity(task).deadline == before, "nice {nice}");
        assert!(fire(&mut lab), "nice {nice}");
        assert_ne!(lab.entity(task).deadline, before, "nice {nice}: not served");
    }
}

/// 7.2 leaves a timer that is off by 5 µs or less as it is. Two tasks of half a request each, 350 µs; the first sleeps after `ran`, and the
/// other's deadline is 350 µs from then on: `ran` later than the timer that is armed.
#[test]
fn a_timer_that_is_near_enough_stays() {
    for (ran, armed) in [(5_000, 345_000), (5_001, 350_000)] {
        let mut lab = Lab::new("7.2", &[("feature.DELAY_DEQUEUE", "0")]);
        lab.task();
        lab.task();
        lab.task();
        lab.schedule(CPU0);
        assert_eq!(due(&lab), Some(350_000));
        lab.advance(ran);
        lab.sleep(CPU0);
        assert_eq!(due(&lab), Some(armed), "after {ran} ns");
    }
}

/// A runtime of 3 ms ends after 3 ms; it was not overrun. Without the timer the tick at 4 ms ends it, 1 ms late.
#[test]
fn runtimes_end_exactly() {
    for (release, knob) in [
        ("5.10", Some("feature.HRTICK")),
        ("6.1", Some("feature.HRTICK_DL")),
        ("6.12", Some("feature.HRTICK_DL")),
        ("6.18", Some("feature.HRTICK_DL")),
        ("7.2", None),
    ] {
        let knobs: Vec<_> = knob.iter().map(|name| (*name, "1")).collect();
        let mut lab = Lab::new(release, &knobs);
        let task = deadline_task(&mut lab, 3_000, 10_000);
        assert_eq!(lab.schedule(CPU0), task);
        assert_eq!(due(&lab), Some(3 * MS), "{release}");
        assert!(fire(&mut lab), "{release}");
        let state = lab.sched.dl_state(task).unwrap();
        assert_eq!((state.runtime, state.throttled, state.overruns), (0, true, 1), "{release}");

        let mut lab = Lab::new(release, if knob.is_some() { &[] } else { &[("feature.HRTICK_DL", "0")] });
        let task = deadline_task(&mut lab, 3_000, 10_000);
        lab.schedule(CPU0);
        assert_eq!(due(&lab), None, "{release}");
        assert!(lab.tick_after(CPU0, 4 * MS), "{release}");
        assert_eq!(lab.sched.dl_state(task).unwrap().runtime, -(MS as i64), "{release}");
    }
}

/// A timer set for an earlier task fires too early for the current one, here after 3 of 5 ms: it is set again for the 2 ms that are left
/// (`task_tick_dl`).
#[test]
fn a_timer_that_comes_early_is_set_again() {
    let mut lab = Lab::new("7.2", &[]);
    let task = deadline_task(&mut lab, 5_000, 10_000);
    lab.schedule(CPU0);
    lab.run(CPU0, 3 * MS);
    lab.sched.hrtick(CPU0);
    assert!(!lab.sched.need_resched(CPU0));
    assert_eq!((lab.curr(CPU0), due(&lab)), (task, Some(2 * MS)));
}

/// No timer is set for less than 10 µs: a runtime of 4 µs is overrun by 6.
#[test]
fn the_timer_is_not_set_for_less_than_ten_microseconds() {
    let mut lab = Lab::new("7.2", &[]);
    let task = deadline_task(&mut lab, 4, 1_000);
    lab.schedule(CPU0);
    assert_eq!(due(&lab), Some(10 * US));
    fire(&mut lab);
    assert_eq!(lab.sched.dl_state(task).unwrap().runtime, -6_000);
}

/// The CPU goes off line: the timer goes with it (`hrtick_clear`).
#[test]
fn it_goes_with_its_cpu() {
    let mut lab = Lab::with_cpus("7.2", 2, &[]);
    lab.task();
    lab.task();
    lab.schedule(CPU0);
    assert!(due(&lab).is_some());
    lab.sched.sched_cpu_deactivate(CPU0);
    assert_eq!(due(&lab), None);
}
