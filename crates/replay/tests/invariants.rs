//! Invariants of every trace: they hold in recordings of real kernels, and fail in impossible traces.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use common::fixture;
use schedlab_model::Time;
use schedlab_replay::{check_invariants, check_invariants_of_file};
use schedlab_trace::{Reader, Record};

const BOUND: Time = Time::from_millis(10);

fn broken(text: &str) -> Option<String> {
    let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap();
    check_invariants(&records, None, BOUND).broken
}

#[test]
fn recordings_of_kernels_keep_all() {
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "gz") {
            // One of several translated CPUs stands still for as long as the machine under it does something else.
            let several = path.to_string_lossy().contains("-near-") || path.to_string_lossy().contains("-apart-");
            let bound = if several { Time::from_millis(60_000) } else { BOUND };
            let checked = check_invariants_of_file(&path, bound).unwrap();
            assert!(checked.broken.is_none() && checked.tasks > 5, "{}: {checked:?}", path.display());
        }
    }
}

/// Line by line: a task is woken before it runs, runs on one CPU at a time, and does not wait beside an idle CPU for more than 10 ms.
#[test]
fn each_impossible_thing_is_found_where_it_shows() {
    let sleep = "a-7 0d..2. 1.000000000: sched_switch: a:7 [120] S ==> swapper/0:0 [120]\n";
    let cases = [
        // b was never put to sleep or woken in between: fine. But a runs on after it went to sleep.
        (format!("{sleep}<idle>-0 0d..2. 1.001000000: sched_switch: swapper/0:0 [120] R ==> b:8 [120]\n"), None),
        (
            format!(
                "{sleep}<idle>-0 0d..2. 1.002000000: sched_process_exit: comm=a pid=7 prio=120\n\
                 <idle>-0 0d..2. 1.003000000: sched_wakeup: a:7 [120] CPU:000\n"
            ),
            Some("line 2"),
        ),
        // 11 ms from the wake-up to the switch, the CPU idle.
        (
            format!(
                "{sleep}<idle>-0 0d..2. 1.002000000: sched_wakeup: a:7 [120] CPU:000\n\
                 <idle>-0 0d..2. 1.013000001: sched_switch: swapper/0:0 [120] R ==> a:7 [120]\n"
            ),
            Some("line 3: at 1.013000001s on CPU 0: task 0 waited 11.000001ms while the CPU idled"),
        ),
        // 10 ms are allowed.
        (
            format!(
                "{sleep}<idle>-0 0d..2. 1.002000000: sched_wakeup: a:7 [120] CPU:000\n\
                 <idle>-0 0d..2. 1.012000000: sched_switch: swapper/0:0 [120] R ==> a:7 [120]\n"
            ),
            None,
        ),
        // A real-time task may be throttled.
        (
            format!(
                "{sleep}<idle>-0 0d..2. 1.002000000: sched_wakeup: a:7 [89] CPU:000\n\
                 <idle>-0 0d..2. 1.913000001: sched_switch: swapper/0:0 [120] R ==> a:7 [89]\n"
            ),
            None,
        ),
        // Two CPUs, one task.
        (
            "a-7 0d..2. 1.000000000: sched_switch: a:7 [120] R ==> b:8 [120]\n\
             c-9 1d..2. 1.001000000: sched_switch: c:9 [120] R ==> b:8 [120]\n"
                .to_owned(),
            Some("line 2: at 1.001s on CPU 1: task 1 is switched in, but it is running on CPU 0"),
        ),
        (
            "a-7 0d..2. 1.000000000: sched_switch: a:7 [120] R ==> b:8 [120]\n\
             c-9 1d..2. 0.999000000: sched_switch: c:9 [120] R ==> d:10 [120]\n"
                .to_owned(),
            Some("line 2: at 1s on CPU 1: time went back"),
        ),
    ];
    for (text, expected) in cases {
        let found = broken(&text);
        match expected {
            None => assert_eq!(found, None, "{text}"),
            Some(expected) => {
                assert!(found.as_deref().is_some_and(|found| found.starts_with(expected)), "{text}{found:?}")
            }
        }
    }
}
