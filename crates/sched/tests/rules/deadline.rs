//! The wake-up rule, replenishment and overruns of deadline tasks, as `/proc/PID/sched` would show them.
//! Source: 6.1's `kernel/sched/deadline.c`.

use schedlab_model::{Attributes, Policy, TaskId, Time};
use schedlab_sched::Timer;

use crate::lab::{CPU0, Lab, MS, US, attributes};

const RELEASES: [&str; 6] = ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

/// A task with such a reservation, in microseconds, running alone on CPU 0.
fn reserved(lab: &mut Lab, runtime: u64, deadline: u64, period: u64) -> TaskId {
    let [runtime, deadline, period] = [runtime, deadline, period].map(Time::from_micros);
    let task = lab.spawn(Policy::Deadline { runtime, deadline, period }, 0);
    assert_eq!(lab.schedule(CPU0), task);
    task
}

/// Runtime left and deadline, in nanoseconds.
fn state(lab: &Lab, task: TaskId) -> (i64, u64) {
    let state = lab.sched.dl_state(task).expect("a deadline task");
    (state.runtime, state.deadline.as_nanos())
}

/// Runs the next timer of the rules when it is due.
fn run_timer(lab: &mut Lab) -> Timer {
    let (time, timer) = lab.sched.next_timer().expect("a timer");
    lab.now = time.as_nanos();
    lab.sync(CPU0);
    lab.sched.run_timer();
    timer
}

#[test]
fn a_task_that_wakes_in_time_keeps_what_it_had() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let start = lab.now;
        let task = reserved(&mut lab, 4_000, 10_000, 10_000);
        assert_eq!(state(&lab, task), (4 * MS as i64, start + 10 * MS), "{release}");
        // It runs 3 ms and sleeps 4: 1 ms is left of 3 ms to its deadline, 1/3 < 4/10.
        lab.advance(3 * MS);
        lab.sleep(CPU0);
        lab.advance(4 * MS);
        lab.wake(task);
        assert_eq!(state(&lab, task), (MS as i64, start + 10 * MS), "{release}");
    }
}

#[test]
fn a_task_with_too_much_left_begins_anew() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let start = lab.now;
        let task = reserved(&mut lab, 4_000, 10_000, 10_000);
        // After 1 ms and 6 ms of sleep 3 ms are left of 3 ms to its deadline: 3/3 > 4/10. A full runtime, a deadline 10 ms from now.
        lab.advance(MS);
        lab.sleep(CPU0);
        lab.advance(6 * MS);
        lab.wake(task);
        assert_eq!(state(&lab, task), (4 * MS as i64, start + 17 * MS), "{release}");
    }
}

#[test]
fn a_constrained_task_with_too_much_left_is_cut_to_its_density() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let start = lab.now;
        // 2 ms within 4 of each 10: density ⌊2 · 2²⁰ / 4⌋ = 2¹⁹. After 0.5 ms and 1.5 ms of sleep 1.5 ms are left of 2 ms to its
        // deadline: 0.75 > 0.5. The deadline stays; the runtime becomes 2 ms · 2¹⁹ / 2²⁰ = 1 ms.
        let task = reserved(&mut lab, 2_000, 4_000, 10_000);
        lab.advance(500 * US);
        lab.sleep(CPU0);
        lab.advance(1_500 * US);
        lab.wake(task);
        assert_eq!(state(&lab, task), (MS as i64, start + 4 * MS), "{release}");
    }
}

#[test]
fn a_throttled_task_is_replenished_less_its_overrun() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let start = lab.now;
        let task = reserved(&mut lab, 2_000, 10_000, 10_000);
        // The tick at 3 ms finds 1 ms too much. There is no other task: the CPU idles.
        assert!(lab.tick_after(CPU0, 3 * MS), "{release}");
        assert_eq!(state(&lab, task), (-(MS as i64), start + 10 * MS));
        assert!(lab.sched.dl_state(task).is_some_and(|state| state.throttled && state.overruns == 1));
        assert_eq!(lab.schedule(CPU0), TaskId::IDLE);
        assert_eq!(lab.sched.nr_running(CPU0), 0);
        // At its deadline, when its next period begins, it has −1 + 2 = 1 ms until 20 ms.
        assert!(matches!(run_timer(&mut lab), Timer::Deadline(_)));
        assert_eq!(lab.now, start + 10 * MS);
        assert_eq!(state(&lab, task), (MS as i64, start + 20 * MS));
        assert!(lab.sched.need_resched(CPU0));
        assert_eq!(lab.schedule(CPU0), task, "{release}");
    }
}

#[test]
fn an_overrun_of_periods_moves_the_deadline_by_as_many() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let start = lab.now;
        // 1 of 5 ms, found out after 12 ms: its next period, at 5 ms, is over, so it is replenished at once. 1 − 12 = −11; twelve
        // runtimes make that 1 ms, and its deadline is 5 + 12 · 5 = 65 ms.
        let task = reserved(&mut lab, 1_000, 5_000, 5_000);
        lab.run(CPU0, 12 * MS);
        assert_eq!(state(&lab, task), (MS as i64, start + 65 * MS), "{release}");
        assert_eq!(lab.schedule(CPU0), task);
    }
}

#[test]
fn a_task_throttled_on_its_way_to_sleep_is_queued_when_it_wakes() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let start = lab.now;
        let task = reserved(&mut lab, 2_000, 10_000, 10_000);
        lab.advance(2 * MS);
        lab.sleep(CPU0);
        // Woken at 4 ms it waits for its period; at 10 ms it is there.
        lab.advance(2 * MS);
        lab.wake(task);
        assert_eq!(lab.schedule(CPU0), TaskId::IDLE, "{release}");
        run_timer(&mut lab);
        assert_eq!((lab.schedule(CPU0), state(&lab, task)), (task, (2 * MS as i64, start + 20 * MS)));
    }
}

#[test]
fn a_task_that_changes_its_policy_leaves_its_reservation() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let before = lab.sched.dl_total_bandwidth();
        let task = reserved(&mut lab, 2_000, 10_000, 10_000);
        // ⌊2 · 2²⁰ / 10⌋ = 209715.
        assert_eq!(lab.sched.dl_total_bandwidth(), before + 209_715, "{release}");
        lab.run(CPU0, MS);
        lab.sync(CPU0);
        lab.sched.sched_setattr(task, &Attributes::default());
        assert_eq!(lab.sched.dl_state(task), None);
        assert_eq!(lab.schedule(CPU0), task);
        assert_eq!(lab.sched.nr_running(CPU0), 1);
        // 1 ms left at its own pace is 5 ms: free at 10 − 5 = 5 ms.
        let free = lab.now + 4 * MS;
        assert!(matches!(run_timer(&mut lab), Timer::Inactive(_)));
        assert_eq!((lab.now, lab.sched.dl_total_bandwidth()), (free, before));
    }
}

/// `switched_from_dl` leaves what a task had: back before its reservation is forgotten it goes on with it (`inactive_task_timer`),
/// and one whose deadline is over but whose next period is not waits for that (`dl_check_constrained_dl`). Found by a recording.
#[test]
fn a_task_that_comes_back_to_the_class_has_what_it_left_with() {
    for release in RELEASES {
        // 2 of 40 ms by 10 ms. It leaves after 1 ms with 1 ms left until 10 ms, and comes back at 5 ms: that is less than it may have.
        for (back, runtime, runs) in [(5, MS as i64, true), (25, 0, false)] {
            let mut lab = Lab::new(release, &[]);
            let start = lab.now;
            let task = reserved(&mut lab, 2_000, 10_000, 40_000);
            lab.run(CPU0, MS);
            let wanted = lab.sched.attributes(task);
            lab.sched.sched_setattr(task, &attributes(Policy::Other, 0));
            lab.schedule(CPU0);
            lab.run(CPU0, (back - 1) * MS);
            lab.sched.sched_setattr(task, &wanted);
            assert_eq!(state(&lab, task), (runtime, start + 10 * MS), "{release} {back}");
            assert_eq!(lab.sched.dl_state(task).map(|state| state.throttled), Some(!runs), "{release} {back}");
        }
    }
}
