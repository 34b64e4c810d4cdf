//! Using an exact amount of CPU time with few looks at the clock.

use std::hint::black_box;

use crate::system::{monotonic, thread_cpu};

/// Below this, in nanoseconds, no clock is read: two reads would take longer.
const TOO_SHORT_FOR_CLOCKS: u64 = 1_000;

/// Reads of the clock in one step, at most.
pub(crate) const MOST_READS: u32 = 16;

/// A loop of known speed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spin {
    rounds_per_microsecond: u64,
}

impl Spin {
    /// Measures the loop: the fastest of many short batches, so that an interrupt does no harm.
    pub(crate) fn calibrate() -> Self {
        let rounds = 20_000;
        let fastest = (0..50)
            .map(|_| {
                let start = monotonic();
                turn(rounds);
                monotonic() - start
            })
            .min();
        Self { rounds_per_microsecond: (rounds * 1_000 / fastest.unwrap_or(1).max(1)).max(1) }
    }

    /// Uses so many nanoseconds of the calling thread's CPU time: how often it read the clock, [`MOST_READS`] times at most.
    ///
    /// Half of what is left is spun blindly each time, at the speed that the loop had the last time: where the CPU slows down to half of it
    /// (a neighbour on the same core), that is still not too much. The last 256th is spun in one go, and what a read finds missing
    /// after that is made up for.
    pub(crate) fn run(self, nanoseconds: u64) -> u32 {
        if nanoseconds < TOO_SHORT_FOR_CLOCKS {
            self.blind(nanoseconds);
            return 0;
        }
        let short = (nanoseconds / 256).max(TOO_SHORT_FOR_CLOCKS / 2);
        let mut speed = self;
        let mut before = thread_cpu();
        let end = before + nanoseconds;
        for reads in 2..=MOST_READS {
            let left = end - before;
            let part = if left <= short { left } else { left / 2 };
            let rounds = speed.rounds(part);
            turn(rounds);
            let now = thread_cpu();
            if now >= end {
                return reads;
            }
            if left > short {
                let measured = rounds.saturating_mul(1_000) / (now - before).max(1);
                speed = Self { rounds_per_microsecond: measured.max(1) };
            }
            before = now;
        }
        speed.blind(end - before);
        MOST_READS
    }

    fn rounds(self, nanoseconds: u64) -> u64 {
        (u128::from(nanoseconds) * u128::from(self.rounds_per_microsecond)).div_ceil(1_000) as u64
    }

    fn blind(self, nanoseconds: u64) {
        turn(self.rounds(nanoseconds));
    }

    /// Uses the CPU until `CLOCK_MONOTONIC` has gone on by so much, in pieces of 32 µs at most, as rt-app's `runtime` does.
    pub(crate) fn until_passed(self, nanoseconds: u64) {
        let end = monotonic().saturating_add(nanoseconds);
        loop {
            let left = end.saturating_sub(monotonic());
            if left == 0 {
                return;
            }
            self.blind((left / 2).clamp(50, 32_000));
        }
    }
}

/// A chain of multiplications, none of which can start before the last one ends.
fn turn(rounds: u64) {
    let mut value = 1u64;
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    }
    black_box(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_uses_the_time_it_was_given_and_reads_the_clock_sixteen_times_at_most() {
        let spin = Spin::calibrate();
        for nanoseconds in [50_000, 1_000_000, 20_000_000, 300_000_000] {
            let start = thread_cpu();
            let reads = spin.run(nanoseconds);
            let used = thread_cpu() - start;
            assert!((2..=MOST_READS).contains(&reads), "{reads} reads");
            // 1 %, and 20 us for the clock reads and an interrupt on top.
            assert!(used + nanoseconds / 100 >= nanoseconds, "{used} of {nanoseconds}");
            assert!(used <= nanoseconds + nanoseconds / 100 + 20_000, "{used} of {nanoseconds}");
        }
    }

    #[test]
    fn what_is_too_short_to_measure_is_spun_blindly() {
        assert_eq!(Spin::calibrate().run(TOO_SHORT_FOR_CLOCKS - 1), 0);
    }
}
