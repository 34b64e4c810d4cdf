//! How late a task whose timer expires is switched in on an idle CPU.

use crate::system::{self, monotonic};

/// Sleeps of a batch of each kind.
const SLEEPS: usize = 8;

/// Nanoseconds by which sleepers come after the time that they asked for: of sleeps of one and of three quarters of the tick's period, from a tick on,
/// through which a CPU keeps its tick, and of sleeps of two periods and a quarter, for which it stops it (`tick_nohz_next_event`).
pub(crate) fn lateness(hz: u32) -> [Vec<f64>; 3] {
    let quarter = 250_000_000 / u64::from(hz.max(1));
    // Timers of ordinary tasks may come later, so that several come at once: none here, and afterwards as usual (0).
    slack(1);
    let found = [1, 3, 9].map(|quarters| {
        let once = |_| {
            system::await_tick();
            late(quarters * quarter)
        };
        (0..SLEEPS).map(once).collect()
    });
    slack(0);
    found
}

/// How much later timers of the calling task may come, so that several come at once.
pub(super) fn slack(nanoseconds: libc::c_ulong) {
    // SAFETY: changes nothing but the calling thread's timers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) };
}

/// Sleeps until a time that lies so far ahead: how many nanoseconds later than that it goes on.
fn late(span: u64) -> f64 {
    let due = monotonic() + span;
    let until = libc::timespec { tv_sec: (due / 1_000_000_000) as i64, tv_nsec: (due % 1_000_000_000) as i64 };
    // SAFETY: one time to read; nothing is written for an absolute one.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
    };
    monotonic().saturating_sub(due) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_end_no_earlier_than_due() {
        // With 1000 ticks a second: 8 sleeps of 0.25 ms, 8 of 0.75 and 8 of 2.25.
        let before = monotonic();
        let found = lateness(1000);
        assert!(monotonic() - before >= 8 * (250_000 + 750_000 + 2_250_000));
        assert!(found.iter().all(|late| late.len() == SLEEPS && late.iter().all(|late| *late >= 0.0)));
    }
}
