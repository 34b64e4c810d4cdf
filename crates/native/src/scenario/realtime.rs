//! Worlds with tasks of the real-time and deadline classes.

use super::{DEADLINE, MICROSECOND, MILLISECOND, World, alternate, await_tick, burn, nice, policy};
use crate::NativeError;
use crate::system::{self, SchedAttr, exit_now, monotonic};

/// `SCHED_FLAG_RESET_ON_FORK`.
const RESET_ON_FORK: u64 = 1;

/// A deadline task's, in milliseconds.
fn reservation(runtime: u64, deadline: u64, period: u64) -> SchedAttr {
    SchedAttr {
        policy: DEADLINE,
        flags: RESET_ON_FORK,
        runtime: runtime * MILLISECOND,
        deadline: deadline * MILLISECOND,
        period: period * MILLISECOND,
        ..SchedAttr::default()
    }
}

impl World {
    pub(super) fn realtime(&mut self) -> Result<(), NativeError> {
        self.hogs(&[0, 0])?;
        self.sleepers(&[(500, 2000)])?;
        // Round robin's slice is 100 ms: bursts longer than that have two tasks take turns.
        let tasks = [
            (libc::SCHED_FIFO, 10, 500, 4000),
            (libc::SCHED_FIFO, 20, 200, 9000),
            (libc::SCHED_RR, 5, 250_000, 400_000),
        ];
        let twice = (libc::SCHED_RR, 5, 220_000, 500_000);
        tasks.into_iter().chain([twice]).try_for_each(|(kind, priority, run, sleep)| {
            let body = move |end| alternate(run * MICROSECOND, sleep * MICROSECOND, end);
            self.task(policy(kind, priority, 0), body).map(drop)
        })
    }

    pub(super) fn deadline(&mut self) -> Result<(), NativeError> {
        self.hogs(&[0, 0])?;
        self.sleepers(&[(500, 2000)])?;
        // The last one wants more than its budget and is throttled in every period.
        for (runtime, period, run, sleep) in [(3, 12, 1000, 9000), (5, 40, 3000, 30_000), (4, 20, 9000, 1000)] {
            let body = move |end| alternate(run * MICROSECOND, sleep * MICROSECOND, end);
            self.task(reservation(runtime, period, period), body)?;
        }
        Ok(())
    }

    pub(super) fn reservations(&mut self) -> Result<(), NativeError> {
        self.hogs(&[0, 0])?;
        self.sleepers(&[(500, 2000)])?;
        // It wakes within its deadline, after it but before its next period, and after that.
        self.task(reservation(2, 8, 25), |end| {
            for turn in 0.. {
                if monotonic() >= end {
                    break;
                }
                burn(MILLISECOND, end);
                system::sleep([4, 12, 31][turn % 3] * MILLISECOND);
            }
        })?;
        self.task(reservation(5, 30, 30), |end| {
            while monotonic() < end {
                burn(MILLISECOND, end);
                system::sched_yield();
            }
        })?;
        self.task(reservation(4, 20, 20), |end| alternate(9 * MILLISECOND, MILLISECOND, end))?;
        self.task(nice(0), |end| {
            let turns = [reservation(3, 30, 30), reservation(2, 15, 15), nice(0), reservation(2, 10, 40), nice(3)];
            for turn in 0.. {
                if monotonic() >= end {
                    break;
                }
                await_tick();
                if system::sched_setattr(turns[turn % turns.len()]).is_err() {
                    exit_now(1);
                }
                (0..5).for_each(|_| {
                    burn(1500 * MICROSECOND, end);
                    system::sleep(7 * MILLISECOND);
                });
            }
        })
        .map(drop)
    }

    pub(super) fn starved(&mut self) -> Result<(), NativeError> {
        self.hogs(&[0, 5])?;
        self.sleepers(&[(500, 2000)])?;
        let tasks = [
            (policy(libc::SCHED_FIFO, 10, 0), 2_300_000, 700_000),
            (policy(libc::SCHED_FIFO, 20, 0), 300, 8000),
            (policy(libc::SCHED_RR, 10, 0), 450_000, 1_900_000),
            (reservation(2, 20, 20), 1000, 15_000),
        ];
        tasks.into_iter().try_for_each(|(attributes, run, sleep)| {
            let body = move |end| alternate(run * MICROSECOND, sleep * MICROSECOND, end);
            self.task(attributes, body).map(drop)
        })
    }
}
