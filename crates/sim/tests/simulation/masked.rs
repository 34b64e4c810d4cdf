//! Timers that expire while a CPU takes no interrupts: from the beginning of the scheduler's pass (`__schedule`) to the end of the switch
//! (`finish_task_switch`).

use crate::common;

use common::{microseconds, run, task, workload};
use schedlab_model::{Attributes, Costs, Event, EventKind, Machine, Policy, Step, Time};

const IDLE: u32 = u32::MAX;

/// In microseconds: a wake-up 4, a pass of the scheduler 6, a switch 10, going to sleep 1 + 8, of which the pass is 6. So a timer is set 8
/// before its task sleeps, and interrupts are off from 6 before a switch to 6 after it.
fn costs() -> Costs {
    let micros = Time::from_micros;
    Costs {
        wakeup: micros(4),
        schedule: micros(6),
        switch: micros(10),
        system_call: micros(1),
        block: micros(8),
        ..Costs::ideal()
    }
}

fn fifo(name: &str, priority: u8, steps: Vec<Step>) -> schedlab_model::Task {
    task(name, 1, Attributes { policy: Policy::Fifo(priority), ..Attributes::default() }, steps)
}

/// The switches: when (in nanoseconds), and to which task.
fn switches(events: &[Event]) -> Vec<(u64, u32)> {
    let switch = |event: &Event| match event.kind {
        EventKind::Switch { next, .. } => Some((event.time.as_nanos(), next.0)),
        _ => None,
    };
    events.iter().filter_map(switch).collect()
}

/// The switches at which 'urgent' (0) returns: 'goes' (1) computes for so long and goes to sleep, 'stays' (2) computes on.
fn urgent_comes(computes: u64, costs: Costs) -> Vec<(u64, u32)> {
    let sleep = |micros| Step::Sleep(microseconds(micros));
    let urgent = fifo("urgent", 3, vec![sleep(108), Step::Run(microseconds(1))]);
    let goes = fifo("goes", 2, vec![Step::Run(microseconds(computes)), sleep(1000)]);
    let stays = fifo("stays", 1, vec![Step::Run(microseconds(500))]);
    let (_, events) = run(&workload(vec![urgent, goes, stays]), "6.1", &Machine::new(1, costs));
    switches(&events).into_iter().skip(1).take(3).map(|(time, task)| (time / 1000, task)).collect()
}

#[test]
fn a_timer_within_the_pass_is_served_after_the_switch() {
    // The CPU looks for work until 6. 'urgent' comes, with the switch until 16, sets its timer at 17, for 125, and is asleep at 25. 'goes' comes,
    // until 35, computes 84 and takes 9 to sleep: its pass is from 122 to 128. So the timer comes at 134 upon 'stays', which pays for the
    // wake-up and the pass: 'urgent' comes at 134 + 4 + 6.
    assert_eq!(urgent_comes(84, costs()), [(25, 1), (128, 2), (144, 0)]);
    // 7 us more, and the timer is served 4 us before the pass begins: 'goes' is preempted.
    assert_eq!(urgent_comes(91, costs())[..2], [(25, 1), (135, 0)]);
}

#[test]
fn a_timer_within_the_switch_is_served_after_it() {
    // As above, but 'goes' computes 76 and is asleep at 120: interrupts are off until 126.
    assert_eq!(urgent_comes(76, costs()), [(25, 1), (120, 2), (136, 0)]);
    // With 75 they are on at 125, as the timer expires.
    assert_eq!(urgent_comes(75, costs()), [(25, 1), (119, 2), (135, 0)]);
    // On an idle CPU it is no different: 'waits' alone has set its timer at 17 for 29, and the switch to the idle task has interrupts off
    // from 25 to 31.
    let steps = vec![Step::Sleep(microseconds(12)), Step::Run(microseconds(1))];
    let (_, events) = run(&workload(vec![fifo("waits", 1, steps)]), "6.1", &Machine::new(1, costs()));
    assert_eq!(switches(&events)[..3], [(6_000, 0), (25_000, IDLE), (41_000, 0)]);
}

#[test]
fn a_timer_is_served_at_once_where_a_pass_takes_no_time() {
    // Without a pass 'urgent' comes at 0 and is asleep at 19, until 119; 'goes' comes then, until 29, computes 81 and takes 9: a timer at
    // the end of that comes after the switch, within which nothing is put off: 119 + 4. (It was set for 11 + 108.)
    let costs = Costs { schedule: Time::ZERO, ..costs() };
    assert_eq!(urgent_comes(81, costs), [(19, 1), (119, 2), (123, 0)]);
}

#[test]
fn who_expires_first_is_served_first() {
    // 'late' (0) and 'early' (1) sleep in turn: 'late', more urgent, is asleep at 6 + 10 + 9 = 25, 'early' 19 later, at 44. 'goes' (2)
    // comes, until 54, computes 84 and is asleep at 147, after a pass from 141 on. 'early' expires at 36 + 106 = 142 and 'late' at
    // 17 + 127 = 144; both are served from 153 on.
    let sleep = |micros| Step::Sleep(microseconds(micros));
    let both = [("late", 4, 127), ("early", 3, 106)];
    let mut tasks = both.map(|(name, priority, time)| fifo(name, priority, vec![sleep(time)])).to_vec();
    tasks.push(fifo("goes", 2, vec![Step::Run(microseconds(84)), sleep(1000)]));
    tasks.push(fifo("stays", 1, vec![Step::Run(microseconds(500))]));
    let (_, events) = run(&workload(tasks), "6.1", &Machine::new(1, costs()));
    let woken = |event: &Event| match event.kind {
        EventKind::Waking { task, .. } => Some((event.time.as_nanos(), task.0)),
        _ => None,
    };
    let woken: Vec<_> = events.iter().filter_map(woken).take(2).collect();
    assert_eq!(woken, [(153_000, 1), (153_001, 0)]);
}

#[test]
fn a_timer_is_set_before_its_task_goes_to_sleep() {
    // 'sleeps' comes at 6, until 16, sets its timer at 17 and is asleep at 25. It sleeps for 100: the timer is due at 117, which wakes it
    // until 121, and the pass takes until 127.
    let steps = vec![Step::Sleep(microseconds(100)), Step::Run(microseconds(1))];
    let (_, events) = run(&workload(vec![fifo("sleeps", 1, steps)]), "6.1", &Machine::new(1, costs()));
    assert_eq!(switches(&events)[..3], [(6_000, 0), (25_000, IDLE), (127_000, 0)]);
}
