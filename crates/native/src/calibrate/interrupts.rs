//! Interruptions of a task: the timer's ticks, and moves to another CPU.

use std::collections::BTreeMap;

use schedlab_model::Policy;

use super::bench::Bench;
use super::stats::Spread;
use crate::NativeError;
use crate::system::{monotonic, set_affinity, thread_cpu};

/// Parts of the timer's period, within one of which every tick falls.
const PHASES: u64 = 64;

/// A tick, as a computing task sees it: the gaps in its time that recur at the timer's period.
pub(crate) fn tick(bench: &Bench, hz: u32) -> Vec<f64> {
    let span = 200_000_000;
    let usual = bench.clock.max(1.0);
    let mut gaps: Vec<(u64, u64)> = Vec::with_capacity(16_384);
    let start = monotonic();
    let mut last = start;
    while last - start < span && gaps.len() < gaps.capacity() {
        let now = monotonic();
        if (now - last) as f64 > 5.0 * usual {
            gaps.push((last - start, now - last));
        }
        last = now;
    }
    let ticks = recurring(&gaps, 1_000_000_000 / u64::from(hz.max(1)));
    ticks.into_iter().map(|length| length as f64 - usual).collect()
}

/// Of gaps, by start and length, those that recur: the phase of the period at which most periods have one, and of each period the
/// longest that starts there. What is longer than a quarter of a period is another task's time.
fn recurring(gaps: &[(u64, u64)], period: u64) -> Vec<u64> {
    let place = |start: u64| (start / period, (start % period) * PHASES / period);
    let mut longest: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for &(start, length) in gaps.iter().filter(|(_, length)| *length < period / 4) {
        let (period, phase) = place(start);
        let entry = longest.entry((phase, period)).or_default();
        *entry = length.max(*entry);
    }
    let at = |phase: u64| longest.range((phase, 0)..(phase + 1, 0));
    let Some(phase) = (0..PHASES).max_by_key(|&phase| at(phase).count()) else { return Vec::new() };
    at(phase).map(|(_, length)| *length).collect()
}

/// Moving a queued task: setting the affinity of one that waits behind others, beyond setting it to what it is.
///
/// The task is SCHED_IDLE and both CPUs compute, so that it is hardly ever found running; then a stopper thread would have to move
/// it.
pub(crate) fn migration(bench: &Bench, there: u32) -> Result<Vec<f64>, NativeError> {
    let compute = || {
        loop {
            std::hint::spin_loop();
        }
    };
    let _hog = bench.helper(there, Policy::Other, compute)?;
    let moved = bench.helper(bench.here, Policy::Idle, compute)?;
    crate::system::sleep(2_000_000);
    let time = |cpu: u32| {
        let start = thread_cpu();
        let _ = set_affinity(moved.pid, &[cpu]);
        bench.since(start)
    };
    let rounds = 20;
    let batch = || {
        let (mut moving, mut staying) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            for cpu in [there, bench.here] {
                moving.push(time(cpu));
                staying.push(time(cpu));
            }
        }
        Some(Spread::of(moving)?.median_ns - Spread::of(staying)?.median_ns)
    };
    Ok((0..bench.batches).filter_map(|_| batch()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_recurs_at_the_period_is_a_tick() {
        // Period 6400, phases of 100: ticks at 1000, 7410 and 13820, all in phase 10; a longer neighbour in the same period and
        // phase hides the first one, strays at 3000 and 9000 do not matter, and 2000 at 20230 is more than a quarter of the period.
        let gaps = [(1000, 10), (1050, 15), (3000, 500), (7410, 11), (9000, 90), (13_820, 12), (20_230, 2000)];
        assert_eq!(recurring(&gaps, 6400), [15, 11, 12]);
        assert!(recurring(&[], 6400).is_empty());
    }
}
