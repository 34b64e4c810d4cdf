//! Where in the rhythm of timer ticks a recording begins.

/// The most ticks that are looked at.
const ENOUGH: usize = 101;

/// Whether a timer's function is that of the tick: `tick_sched_timer` or, from 6.8 on, `tick_nohz_handler`.
pub(crate) fn is_tick(function: &str) -> bool {
    matches!(function, "tick_sched_timer" | "tick_nohz_handler")
}

/// How long a CPU was held up before a tick at `now` that ought to come a `period` after the `last`; that it comes late by half a period, as
/// where interrupts were off, does not count.
pub(crate) fn held_up(last: u64, now: u64, period: u64) -> u64 {
    let gap = now.saturating_sub(last);
    if gap > period + period / 2 { gap - period } else { 0 }
}

/// The ticks that were seen, as times in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticks {
    seen: Vec<u64>,
}

impl Ticks {
    /// A timer expires.
    pub(crate) fn note(&mut self, function: &str, time: u64) {
        if self.seen.len() < ENOUGH && is_tick(function) {
            self.seen.push(time);
        }
    }

    /// How long after a tick `begin` is; none if no tick was seen.
    ///
    /// An interrupt may come late; the median of where it came, relative to the first one, is taken.
    pub(crate) fn phase(&self, begin: u64, period: u64) -> Option<u64> {
        let first = *self.seen.first()?;
        let half = (period / 2) as i64;
        // The distance from the first one's rhythm, from minus to plus half a period.
        let off = |time: u64| (time.wrapping_sub(first) as i64 + half).rem_euclid(period as i64) - half;
        let mut all: Vec<i64> = self.seen.iter().map(|time| off(*time)).collect();
        let middle = all.len() / 2;
        let late = *all.select_nth_unstable(middle).1;
        let tick = first.wrapping_add_signed(late);
        Some((begin.wrapping_sub(tick) as i64).rem_euclid(period as i64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_held_up_where_ticks_are_missing() {
        // Ticks every 4 ms: one that is 2 ms late is; two that are missing are 8 ms.
        assert_eq!([held_up(10, 14, 4), held_up(10, 16, 4), held_up(10, 22, 4)], [0, 0, 8]);
    }

    #[test]
    fn ticks_tell_the_phase() {
        let mut ticks = Ticks::default();
        assert_eq!(ticks.phase(5, 4_000), None);
        // Every 4 µs from 10.1 µs on, the first 60 ns late, and one that came 900 ns late.
        for time in [10_160, 14_100, 18_100, 22_100, 27_000] {
            ticks.note("tick_sched_timer", time);
        }
        ticks.note("hrtimer_wakeup", 1);
        // From the tick at 6.1 µs it is 1.4 µs to 7.5 µs; 30 µs are 3.9 µs after the one at 26.1 µs.
        assert_eq!((ticks.phase(7_500, 4_000), ticks.phase(30_000, 4_000)), (Some(1_400), Some(3_900)));
    }
}
