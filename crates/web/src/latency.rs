//! How long tasks waited to run, by kind.

use serde_json::{Value, json};

use crate::timeline::{Segment, State};

/// Bins of a distribution: eight a decade, from 1 µs to 10 s.
const BINS: usize = 56;

/// The distribution of the delays of each kind of task, and of all of them: quantiles in nanoseconds and counts by the logarithm
/// of the delay. A delay lasts from becoming runnable to running; a task that finds its CPU idle has one of zero, which counts
/// nothing here.
pub(crate) fn delays<'a>(tasks: impl Iterator<Item = (&'a [Segment], usize)>, count: usize) -> Value {
    let mut all: Vec<Vec<u64>> = vec![Vec::new(); count + 1];
    for (segments, kind) in tasks {
        let mut since = None;
        for (place, segment) in segments.iter().enumerate() {
            if segment.state == State::Running {
                since = None;
                continue;
            }
            let start = *since.get_or_insert(segment.start);
            // A wait that throttling cut into parts is one.
            if segments.get(place + 1).is_some_and(|next| next.state == State::Running) {
                all[kind].push(segment.end - start);
                all[count].push(segment.end - start);
            }
        }
    }
    all.iter_mut().map(|delays| distribution(delays)).collect()
}

fn distribution(delays: &mut [u64]) -> Value {
    delays.sort_unstable();
    // The smallest delay that at least this part of the delays does not exceed.
    let quantile = |part: f64| {
        let place = (part * delays.len() as f64).ceil() as usize;
        delays.get(place.saturating_sub(1)).copied()
    };
    let mut bins = vec![0_u32; BINS];
    for delay in delays.iter() {
        bins[bin(*delay)] += 1;
    }
    json!({
        "count": delays.len(), "p50": quantile(0.5), "p95": quantile(0.95), "p99": quantile(0.99), "max": delays.last(),
        "bins": bins,
    })
}

/// The bin of a delay: the first takes all below its upper end, the last all above its lower one.
fn bin(delay: u64) -> usize {
    let mut place = 0;
    let mut edge = 1000.0 * STEP;
    while place + 1 < BINS && delay as f64 >= edge {
        edge *= STEP;
        place += 1;
    }
    place
}

/// 10^(1/8): from one bin's edge to the next.
const STEP: f64 = 1.333_521_432_163_324;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_delays_that_were_there() {
        let mut delays: Vec<u64> = (1..=100).map(|number| number * 1_000_000).collect();
        let value = distribution(&mut delays);
        assert_eq!((&value["p50"], &value["p99"]), (&json!(50_000_000), &json!(99_000_000)));
        assert_eq!(value["max"], 100_000_000);
    }

    #[test]
    fn a_decade_has_eight_bins() {
        assert_eq!((bin(0), bin(1_000), bin(1_400)), (0, 0, 1));
        assert_eq!(bin(10_500), 8);
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn a_throttled_wait_is_one_delay() {
        let part = |start, end, state| Segment { start, end, state, cpu: 0 };
        let segments = vec![
            part(0, 5, State::Waiting),
            part(5, 9, State::Throttled),
            part(9, 12, State::Running),
            part(12, 20, State::Waiting),
        ];
        let value = delays([(segments.as_slice(), 0)].into_iter(), 1);
        // From 0 to 9; the wait at the end came to no run.
        assert_eq!((&value[0]["count"], &value[0]["max"]), (&json!(1), &json!(9)));
    }
}
