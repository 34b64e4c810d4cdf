//! Recorded CPUs that were held up: their ticks are missing while a task is current. An idle CPU stops its tick.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use schedlab_infer::{Options, infer};
use schedlab_trace::Reader;

/// How long CPUs were held up, in milliseconds, at 250 ticks a second.
fn held_up(events: &str) -> u64 {
    infer(Reader::new(events.as_bytes()), &Options::default()).unwrap().counts.held_up_ns / 1_000_000
}

fn tick(task: &str, milliseconds: u64) -> String {
    format!(
        " {task} [000] d.h1. 1.{:09}: hrtimer_expire_entry: hrtimer=0xff now=1 function=tick_sched_timer\n",
        milliseconds * 1_000_000
    )
}

#[test]
fn ticks_that_a_busy_cpu_lacks_are_time_that_it_was_held_up() {
    // The task is current from 1 ms on. Ticks at 4 and 8 ms, then at 20: those at 12 and 16 ms are missing.
    let busy = " <idle>-0 [000] d..2. 1.001000000: sched_switch: swapper/0:0 [120] R ==> work:7 [120]\n";
    let ticks = [4, 8, 20].map(|at| tick("work-7", at)).concat();
    let end = " work-7 [000] d..2. 1.021000000: sched_switch: work:7 [120] S ==> swapper/0:0 [120]\n";
    assert_eq!(held_up(&format!("{busy}{ticks}{end}")), 8);
}

#[test]
fn an_idle_cpu_lacks_no_ticks() {
    // The task is current from 1 to 2 ms. The tick at 4 ms still comes, and is stopped then: the next at 404 ms, before the task runs again.
    let busy = " <idle>-0 [000] d..2. 1.001000000: sched_switch: swapper/0:0 [120] R ==> work:7 [120]\n";
    let idle = " work-7 [000] d..2. 1.002000000: sched_switch: work:7 [120] S ==> swapper/0:0 [120]\n";
    let again = " <idle>-0 [000] d..2. 1.405000000: sched_switch: swapper/0:0 [120] R ==> work:7 [120]\n";
    let end = " work-7 [000] d..2. 1.409000000: sched_switch: work:7 [120] S ==> swapper/0:0 [120]\n";
    let ticks = [tick("<idle>-0", 4), tick("<idle>-0", 404), tick("work-7", 408)];
    let events = format!("{busy}{idle}{}{}{again}{}{end}", ticks[0], ticks[1], ticks[2]);
    assert_eq!(held_up(&events), 0);
}
