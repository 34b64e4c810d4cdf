//! What lies between CPUs: notifying another one, its way out of idle, and moving tasks to it.

use schedlab_model::Costs;

use super::Prices;
use crate::unknown::Between;

impl Prices {
    /// Waking a task of another CPU, beyond the wake-up.
    #[inline]
    pub(crate) fn wakeup_remote(&self) -> u64 {
        self.unknown.charge(Between::WakeupRemote);
        self.wakeup_remote
    }

    /// Sending another CPU an interrupt, which idles or runs a task.
    #[inline]
    pub(crate) fn ipi(&self, idles: bool) -> u64 {
        self.unknown.charge(if idles { Between::IpiIdle } else { Between::Ipi });
        if idles { self.ipi_idle } else { self.ipi }
    }

    /// Taking one while a task runs.
    #[inline]
    pub(crate) fn ipi_taken(&self) -> u64 {
        self.unknown.charge(Between::IpiTaken);
        self.ipi_taken
    }

    /// From an interrupt until an idle CPU looks at it.
    #[inline]
    pub(crate) fn idle_exit(&self) -> u64 {
        self.unknown.charge(Between::IdleExit);
        self.idle_exit
    }

    /// What a busy CPU's run queue costs a waker on another one that has `used_by` it last.
    #[inline]
    pub(crate) const fn wakeup_far(&self, used_by: u32, cpu: u32) -> u64 {
        if used_by == cpu { 0 } else { self.wakeup_far }
    }

    /// What a kernel charges to a task that another CPU woke on an idle one, of that CPU's way out of idle, which takes `exit` in all.
    #[inline]
    pub(crate) const fn idle_charged(&self, exit: u64) -> u64 {
        if self.idle_charged == 0 { 0 } else { self.idle_charged + exit.saturating_sub(self.idle_exit) }
    }

    /// What an idle CPU takes besides, from its interrupt to the switch, that has idled since then.
    #[inline]
    pub(crate) fn idle_switch(&self, now: u64, since: u64) -> u64 {
        if now - since < Costs::POLLED.as_nanos() { 0 } else { self.idle_switch }
    }

    /// What a stopped tick takes besides.
    #[inline]
    pub(crate) fn tick_restart(&self) -> u64 {
        self.unknown.charge(Between::TickRestart);
        self.tick_restart
    }

    /// Moving a queued task to another CPU.
    #[inline]
    pub(crate) fn migration(&self) -> u64 {
        self.unknown.charge(Between::Migration);
        self.migration
    }
}
