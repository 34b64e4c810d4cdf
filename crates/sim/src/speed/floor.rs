//! What the averages of load alone take: the floor under the scenarios, as nothing in them may be approximated.
//!
//! The averages (PELT) that the rules bring up to date in a scenario, at the instants at which they do, and the engine's timers, without
//! anything else: no task is picked, placed or charged. They are the functions that the rules call, so a faster one lowers the floor too.

use std::hint::black_box;

use schedlab_model::Time;
use schedlab_sched::pelt::SchedAvg;

use crate::speed::ceiling::draw_around;
use crate::timers::Timers;

/// A tick, in nanoseconds, at HZ = 1000.
const TICK: u64 = 1_000_000;

/// Nice 0.
const WEIGHT: u64 = 1024;

/// Clocks begin a period late, as 0 says that averages are on no queue's account.
const ORIGIN: u64 = 1 << 20;

/// An average that is on a queue's account.
fn attached() -> SchedAvg {
    SchedAvg { last_update_time: ORIGIN, ..SchedAvg::default() }
}

/// CPU-bound tasks that take turns: on each CPU, `ticks` ticks for the queue and the current task, and at the end of each `slice` of so
/// many a switch, for which the next task's averages record that it waited. Returns the number of switches.
pub(super) fn floor_of_hogs(tasks: u32, cpus: u32, ticks: u64, slice: u32) -> u64 {
    let slice = u64::from(slice);
    let each = (tasks / cpus) as usize;
    let mut queues = vec![(attached(), vec![attached(); each]); cpus as usize];
    let load = (WEIGHT * each as u64, each as u64);
    let mut switches = 0;
    for turn in 0..ticks / slice {
        let before = ORIGIN + slice * turn * TICK;
        for (queue, own) in &mut queues {
            let running = turn as usize % each;
            SchedAvg::add_ticks_to_both([queue, &mut own[running]], before, TICK, slice, load, WEIGHT);
            let next = &mut own[(running + 1) % each];
            if next.update_sum(before + slice * TICK, 1, 1, false) {
                next.update_avg(WEIGHT);
            }
            switches += 1;
        }
    }
    black_box(queues);
    switches
}

/// `count` times a sleeper's timer expires, its averages and its idle queue's age, both go on while it runs, and a timer is set anew, `mean`
/// apart on average. How many pairs, and how many timers were looked at.
pub(super) fn floor_of_pairs(tasks: u32, cpus: u32, count: u64, mean: Time, run: Time) -> (u64, u64) {
    let mut timers = Timers::default();
    let mut queues = vec![attached(); cpus as usize];
    let mut own = vec![attached(); tasks as usize];
    let mut draw = draw_around(mean);
    for task in 0..tasks {
        timers.push(0, draw(), task);
    }
    let mut pairs = 0;
    while pairs < count {
        let now = timers.first().time();
        let task = timers.pop();
        let (queue, own) = (&mut queues[(task % cpus) as usize], &mut own[task as usize]);
        // It begins once the last run on this CPU is over.
        let began = queue.last_update_time.max(ORIGIN + now);
        if own.age(began) {
            own.update_avg(WEIGHT);
        }
        if queue.age(began) {
            queue.update_avg(1);
        }
        SchedAvg::update_both([queue, own], began + run.as_nanos(), (WEIGHT, 1), WEIGHT);
        timers.push(now, draw(), task);
        pairs += 1;
    }
    black_box((queues, own));
    (pairs, timers.operations())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_it_does() {
        // 3 ticks a switch on each of 2 CPUs.
        assert_eq!(floor_of_hogs(8, 2, 30, 3), 20);
        let (pairs, operations) = floor_of_pairs(7, 2, 1000, Time::from_millis(10), Time::from_micros(50));
        assert_eq!(pairs, 1000);
        // Each timer is put in, and mostly moved when it is put in order among at most seven.
        assert!((1000..=1000 * (2 + 8)).contains(&operations), "{operations}");
    }
}
