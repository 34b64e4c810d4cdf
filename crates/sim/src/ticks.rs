//! Ticks, those that are put off and made up for among them.

use schedlab_model::{CpuId, EventSink, Time};
use schedlab_sched::{Clocks, Divisor};

use crate::SimError;
use crate::engine::Engine;
use crate::event_queue::NEVER;

/// The rhythm of ticks. Times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    /// From the last tick to the beginning.
    pub(crate) phase: u64,
    /// From tick to tick.
    pub(crate) period: u64,
    /// To find how many there are in a time.
    pub(crate) in_ticks: Divisor,
    /// The tick after the instant that was asked about last.
    pub(crate) ahead: u64,
}

impl Ticks {
    /// The first tick after `now`.
    #[inline(always)]
    pub(crate) const fn after(&mut self, now: u64) -> u64 {
        // Mostly it is the one that was found last, as time does not go back: no need to divide.
        if now >= self.ahead {
            self.ahead = (self.in_ticks.quotient(now + self.phase) + 1) * self.period - self.phase;
        }
        self.ahead
    }

    /// The last tick up to `now`, or the one before the beginning.
    #[inline(always)]
    pub(crate) const fn last(&mut self, now: u64) -> u64 {
        self.after(now).saturating_sub(self.period)
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// The timer interrupt: the class looks at its task.
    ///
    /// A tick that can be made up for later is only marked as such; which one cannot is asked when the first is due, so that a
    /// queue that changes all the time is asked once a tick at most.
    pub(crate) fn tick(&mut self, cpu: u32) -> Result<(), SimError> {
        let next_tick = self.arena.cpus[cpu as usize].acting_tick;
        // One that was put off until now is known not to be skipped.
        let put_off = self.arena.cpus[cpu as usize].next_tick < next_tick;
        if put_off {
            self.catch_up_before(cpu, next_tick);
        } else if self.skip_ticks && !self.sched.need_resched(CpuId(cpu)) {
            let inactive = self.sched.inactive_ticks(CpuId(cpu), Time::from_nanos(next_tick));
            if inactive > 0 {
                self.skips_beside_others = self.sched.balances();
                self.arena.cpus[cpu as usize].acting_tick =
                    next_tick.saturating_add(inactive.saturating_mul(self.period)).min(NEVER);
                self.refresh(cpu);
                return Ok(());
            }
        }
        self.last_tick = (self.now, cpu);
        let record = &mut self.arena.cpus[cpu as usize];
        record.ticked(next_tick, next_tick, 1, self.prices.tick);
        record.next_tick = next_tick + self.period;
        record.acting_tick = record.next_tick;
        if self.skips_beside_others && self.sched.tick_balances(CpuId(cpu)) {
            self.look_at_all();
        }
        self.sched.set_clocks(CpuId(cpu), Clocks::all(Time::from_nanos(self.now)));
        self.sched.sched_tick(CpuId(cpu));
        self.settle_moves(cpu);
        let looked_at = self.sched.take_looked_at().saturating_mul(self.prices.balance);
        let until = self.now + self.prices.tick + looked_at;
        self.arena.cpus[cpu as usize].interrupted(self.now, until, looked_at);
        if self.sched.custom_failed() {
            return Err(SimError::Policy { time: Time::from_nanos(self.now) });
        }
        // One that is on its way to schedule gets there as it would without the tick.
        if self.must_switch(cpu) && !self.arena.cpus[cpu as usize].leaving {
            return self.rescheduled(cpu);
        }
        self.refresh(cpu);
        Ok(())
    }

    /// The high-resolution tick: a slice, or a deadline task's runtime, ends. It takes what a tick does.
    pub(crate) fn hrtick(&mut self, cpu: u32) -> Result<(), SimError> {
        self.touch(cpu);
        if self.flat {
            self.sched.flat_queued_tick(CpuId(cpu));
        } else {
            self.sched.hrtick(CpuId(cpu));
        }
        // Slices that end so last for 100 us and more: a twentieth of what ticks leave lets tasks get on, however dear ticks are.
        let cost = self.prices.tick.min(self.ticks.period.saturating_sub(self.prices.tick) / 20);
        if cost > 0 {
            self.interrupted(cpu, cost);
            return Ok(());
        }
        if self.must_switch(cpu) {
            return self.rescheduled(cpu);
        }
        self.refresh(cpu);
        Ok(())
    }

    /// Does what the CPU's skipped ticks would have done by now.
    #[inline]
    pub(crate) fn catch_up(&mut self, cpu: u32) {
        let next_tick = self.arena.cpus[cpu as usize].next_tick;
        if next_tick > self.now {
            return;
        }
        // Ticks of this instant are done up to the CPU whose tick is the cause of what happens now.
        let (time, last) = self.last_tick;
        self.catch_up_before(cpu, self.now + u64::from(time == self.now && cpu <= last));
    }

    /// Makes up for the CPU's ticks before `time`.
    pub(crate) fn catch_up_before(&mut self, cpu: u32, time: u64) {
        let record = &mut self.arena.cpus[cpu as usize];
        let first = record.next_tick;
        if first >= time {
            return;
        }
        let count = self.ticks.in_ticks.quotient_up(time - first);
        record.next_tick += count * self.period;
        record.ticked(first, record.next_tick - self.period, count, self.prices.tick);
        debug_assert!(record.next_tick <= record.acting_tick, "a tick that may act was skipped");
        self.sched.skip_ticks(CpuId(cpu), Time::from_nanos(first), count);
    }

    /// Before any CPU may be looked at or touched by what comes: the ticks of all are made up for, and their next ones looked at anew.
    pub(crate) fn look_at_all(&mut self) {
        if !std::mem::take(&mut self.skips_beside_others) {
            return;
        }
        for cpu in 0..self.arena.cpus.len() as u32 {
            self.catch_up(cpu);
            let record = &mut self.arena.cpus[cpu as usize];
            if record.acting_tick != record.next_tick {
                record.acting_tick = record.next_tick;
                self.refresh(cpu);
            }
        }
    }

    /// The first tick after now.
    #[inline]
    pub(crate) fn tick_after_now(&mut self) -> u64 {
        self.ticks.after(self.now)
    }
}
