//! The waits on which a 99th percentile stands, and how many moments they come from.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

/// The most waits that are kept: enough for percentiles of 409,500.
const MOST: usize = 4_096;
/// Waits that begin within so many nanoseconds are of one moment.
const MOMENT: u64 = 1_000_000;

/// The waits that are as long as the 99th percentile or longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tail {
    /// How many there are.
    pub waits: u64,
    /// At how many moments, each of one millisecond, they began.
    pub moments: u64,
    /// How many began at the moment that has the most of them.
    pub most: u64,
    /// When that moment began, in nanoseconds.
    pub at_ns: u64,
}

/// The longest waits so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Longest(BinaryHeap<Reverse<(u64, u64)>>);

impl Longest {
    /// A wait that began at `start` and took `delay`, both in nanoseconds.
    pub(crate) fn add(&mut self, delay: u64, start: u64) {
        if self.0.len() < MOST {
            self.0.push(Reverse((delay, start)));
        } else if let Some(mut least) = self.0.peek_mut()
            && least.0.0 < delay
        {
            *least = Reverse((delay, start));
        }
    }

    /// The tail of `count` waits; none where there are none or too many.
    pub(crate) fn tail(&self, count: u64) -> Option<Tail> {
        let waits = if count == 0 { 0 } else { count / 100 + 1 };
        let mut all: Vec<(u64, u64)> = self.0.iter().map(|wait| wait.0).collect();
        if waits == 0 || waits > all.len() as u64 {
            return None;
        }
        all.sort_unstable_by_key(|wait| Reverse(*wait));
        let mut starts: Vec<u64> = all.iter().take(waits as usize).map(|(_, start)| *start).collect();
        starts.sort_unstable();
        let mut tail = Tail { waits, moments: 0, most: 0, at_ns: 0 };
        let mut rest = &starts[..];
        while let Some(first) = rest.first() {
            let here = rest.partition_point(|start| start - first < MOMENT);
            tail.moments += 1;
            if here as u64 > tail.most {
                (tail.most, tail.at_ns) = (here as u64, *first);
            }
            rest = &rest[here..];
        }
        Some(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_burst_is_one_moment() {
        let mut longest = Longest::default();
        // 300 waits, of which the 4 longest are the percentile's: three of one burst at 5.2 ms, one of 9 ms; others are shorter.
        for number in 0..296 {
            longest.add(number, number * 10 * MS);
        }
        for (delay, start) in [(7_000, 5_200_000), (9_000, 5_300_000), (8_000, 6_100_000), (6_000, 9 * MS)] {
            longest.add(delay, start);
        }
        assert_eq!(longest.tail(300), Some(Tail { waits: 4, moments: 2, most: 3, at_ns: 5_200_000 }));
        assert_eq!(Longest::default().tail(0), None);
    }

    #[test]
    fn what_is_kept_are_the_longest() {
        let mut longest = Longest::default();
        for number in 0..10_000 {
            longest.add(number % 5_000, number * MS);
        }
        // The 101 longest: 4950 to 4999 twice, and one of 4949.
        assert_eq!(longest.tail(10_000).map(|tail| (tail.waits, tail.moments)), Some((101, 101)));
        // More than are kept.
        assert_eq!(longest.tail(500_000), None);
    }
}
