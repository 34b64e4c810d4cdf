//! The timers of the rules: high-resolution timers that the driver runs when they are due.

use std::collections::BTreeSet;

use schedlab_model::{CpuId, Time};

use crate::deadline::DlEntityId;
use crate::decider::Decider;
use crate::machine::Sched;

/// A timer of the rules. Those due at the same instant run in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// `sched_rt_period_timer`: gives every CPU's real-time tasks their runtime anew.
    RtPeriod,
    /// `dl_task_timer`, `dl_server_timer`: gives a deadline entity its runtime anew, or lets a fair server run.
    Deadline(DlEntityId),
    /// `inactive_task_timer`: the bandwidth of a deadline task that is no more is free.
    Inactive(DlEntityId),
}

/// Timers that are armed, in the order in which they expire.
#[derive(Debug, Clone)]
pub(crate) struct Timers {
    armed: BTreeSet<(u64, Timer)>,
    /// The first of them: drivers ask for it before each event.
    first: Option<(u64, Timer)>,
    /// When that expires, [`u64::MAX`] if there is none.
    expires: u64,
}

impl Default for Timers {
    fn default() -> Self {
        Self { armed: BTreeSet::new(), first: None, expires: u64::MAX }
    }
}

impl Timers {
    pub(crate) fn arm(&mut self, expires: u64, timer: Timer) {
        self.armed.insert((expires, timer));
        self.find_first();
    }

    pub(crate) fn cancel(&mut self, expires: u64, timer: Timer) {
        self.armed.remove(&(expires, timer));
        self.find_first();
    }

    fn find_first(&mut self) {
        self.first = self.armed.first().copied();
        self.expires = self.first.map_or(u64::MAX, |(expires, _)| expires);
    }

    pub(crate) fn find(&self, timer: Timer) -> Option<u64> {
        self.armed.iter().find(|(_, armed)| *armed == timer).map(|(expires, _)| *expires)
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, Timer)> {
        self.first
    }
}

impl<D: Decider> Sched<D> {
    /// When the next timer of the rules is due, and which it is. The driver catches up and gives their clocks to the queues that it
    /// touches ([`Sched::timer_cpu`]), asks again, as catching up may have put it off, and runs it ([`Sched::run_timer`]).
    #[inline]
    pub fn next_timer(&self) -> Option<(Time, Timer)> {
        self.timers.first().map(|(expires, timer)| (Time::from_nanos(expires), timer))
    }

    /// When that is, the end of time if there is none.
    #[inline(always)]
    pub fn next_timer_expires(&self) -> Time {
        Time::from_nanos(self.timers.expires)
    }

    /// The CPU whose queue the timer touches; none if it touches all of them.
    pub fn timer_cpu(&self, timer: Timer) -> Option<CpuId> {
        match timer {
            Timer::RtPeriod => None,
            Timer::Deadline(entity) | Timer::Inactive(entity) => Some(self.dl_cpu(entity)),
        }
    }

    /// Runs the next timer, which is due. CPUs may have to schedule then ([`Sched::need_resched`]).
    pub fn run_timer(&mut self) {
        let Some((expires, timer)) = self.timers.first() else { return };
        self.timers.cancel(expires, timer);
        match timer {
            Timer::RtPeriod => self.sched_rt_period_timer(expires),
            Timer::Deadline(entity) => self.dl_timer(entity),
            Timer::Inactive(entity) => self.inactive_task_timer(entity),
        }
    }
}
