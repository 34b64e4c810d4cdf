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

    /// Sending an interrupt to another CPU that runs a task.
    #[inline]
    pub(crate) fn ipi(&self) -> u64 {
        self.unknown.charge(Between::Ipi);
        self.ipi
    }

    /// Sending one to a CPU that idles, which may be given away.
    #[inline]
    pub(crate) fn ipi_idle(&self, halted: bool) -> u64 {
        self.unknown.charge(Between::IpiIdle);
        self.ipi_idle + if halted { self.ipi_halted } else { 0 }
    }

    /// Taking one while a task runs.
    #[inline]
    pub(crate) fn ipi_taken(&self) -> u64 {
        self.unknown.charge(Between::IpiTaken);
        self.ipi_taken
    }

    /// From an interrupt until an idle CPU looks at it, which was given away for so long if it was.
    #[inline]
    pub(crate) fn idle_exit(&self, halted: Option<u64>) -> u64 {
        self.unknown.charge(Between::IdleExit);
        self.out_of_idle(halted)
    }

    /// What a busy CPU's run queue costs a waker on another one that has `used_by` it last.
    #[inline]
    pub(crate) const fn wakeup_far(&self, used_by: u32, cpu: u32) -> u64 {
        if used_by == cpu { 0 } else { self.wakeup_far }
    }

    /// What a kernel charges to a task that another CPU woke on an idle one, of that CPU's way out of idle, which takes `exit` in all: nothing of
    /// what a hypervisor takes before.
    #[inline]
    pub(crate) const fn idle_charged(&self, exit: u64, halted: Option<u64>) -> u64 {
        if self.idle_charged == 0 {
            return 0;
        }
        self.idle_charged + exit.saturating_sub(self.out_of_idle(halted))
    }

    #[inline]
    const fn out_of_idle(&self, halted: Option<u64>) -> u64 {
        let Some(halted) = halted else { return self.idle_exit };
        let deepest = Costs::DEEPEST.saturating_sub(Costs::POLLED).as_nanos();
        let deep = if halted < deepest { halted } else { deepest };
        self.idle_exit + self.halt_exit + self.halt_deeper.saturating_mul(deep) / 1_000_000
    }

    /// What an idle CPU takes besides, from its interrupt to the switch, that has idled since then.
    #[inline]
    pub(crate) fn idle_switch(&self, now: u64, since: u64) -> u64 {
        if now - since < Costs::POLLED.as_nanos() { 0 } else { self.idle_switch }
    }

    /// How much longer a hypervisor's ticks make a way that takes so long from `now` on; one comes in the middle of each period. What operations take was
    /// measured with such ticks.
    #[inline]
    pub(crate) const fn steal(&self, now: u64, span: u64) -> u64 {
        let Some(period) = self.steal_period else { return 0 };
        let (from, end) = (now + self.steal_offset, now.saturating_add(span).saturating_add(self.steal_offset));
        (period.quotient(end) - period.quotient(from)).saturating_mul(self.steal)
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
