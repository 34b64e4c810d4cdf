//! What is left of the engine without rules: its queue of timers.

use std::hint::black_box;

use schedlab_model::Time;

use crate::timers::Timers;

/// Sets and expires `count` timers, one a task at a time, `mean` apart on average. How many expired, and how many nodes were
/// compared.
pub(super) fn ceiling(tasks: u32, count: u64, mean: Time) -> (u64, u64) {
    let mut timers = Timers::default();
    let mut draw = draw_around(mean);
    for task in 0..tasks {
        timers.push(0, draw(), task);
    }
    let mut expired = 0;
    while expired < count {
        let now = timers.first().time();
        let task = timers.pop();
        expired += 1;
        timers.push(now, draw(), black_box(task));
    }
    (expired, timers.operations())
}

/// Draws uniformly from half the mean to one and a half, in nanoseconds.
pub(super) fn draw_around(mean: Time) -> impl FnMut() -> u64 {
    let mean = mean.as_nanos();
    // xorshift64* (Vigna 2016), as cheap as a draw can be.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let word = state.wrapping_mul(0x2545_f491_4f6c_dd1d);
        mean / 2 + ((u128::from(word) * u128::from(mean)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timer_that_was_asked_for_expires() {
        let (expired, operations) = ceiling(7, 1000, Time::from_millis(10));
        // Each is put in and taken out, among seven: a comparison at least, and two levels of at most four at most.
        assert_eq!(expired, 1000);
        assert!((1000..=1000 * (2 + 8)).contains(&operations), "{operations}");
    }
}
