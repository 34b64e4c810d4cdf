//! Using an exact amount of CPU time with few looks at the clock.

use std::hint::black_box;

use crate::system::{monotonic, thread_cpu};

/// Below this, in nanoseconds, no clock is read: two reads would take longer.
const TOO_SHORT_FOR_CLOCKS: u64 = 1_000;

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

    /// Uses so many nanoseconds of the calling thread's CPU time.
    ///
    /// Seven eighths of what is left are spun blindly each time, so that the clock is read about once for each factor of eight, and a
    /// CPU that has slowed down or sped up since the loop was measured changes nothing.
    pub(crate) fn run(self, nanoseconds: u64) {
        if nanoseconds < TOO_SHORT_FOR_CLOCKS {
            turn(nanoseconds * self.rounds_per_microsecond / 1_000);
            return;
        }
        let end = thread_cpu() + nanoseconds;
        loop {
            let left = end.saturating_sub(thread_cpu());
            if left == 0 {
                return;
            }
            // Half a microsecond is as near as the clock's own cost lets us come.
            let blind = if left < TOO_SHORT_FOR_CLOCKS { left / 2 } else { left / 8 * 7 };
            turn(blind.saturating_mul(self.rounds_per_microsecond) / 1_000);
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
    fn a_run_uses_the_time_it_was_given() {
        let spin = Spin::calibrate();
        for nanoseconds in [50_000, 1_000_000, 20_000_000] {
            let start = thread_cpu();
            spin.run(nanoseconds);
            let used = thread_cpu() - start;
            // Never less; 1 % and 20 us for the clock reads and an interrupt on top.
            assert!(used >= nanoseconds, "{used} of {nanoseconds}");
            assert!(used <= nanoseconds + nanoseconds / 100 + 20_000, "{used} of {nanoseconds}");
        }
    }
}
