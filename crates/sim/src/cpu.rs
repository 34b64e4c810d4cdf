//! What the engine knows of a CPU, and the arithmetic of operations that ticks interrupt.

use schedlab_model::Costs;

use crate::event_queue::{Key, Kind, NEVER};
use crate::pace::NOMINAL;
use crate::price::Prices;
use crate::task::Task;
use crate::wait::NONE;

/// One CPU. Times are nanoseconds, [`NEVER`] where there is none.
///
/// All that each event touches is in one cache line.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Cpu {
    /// The current task; [`NONE`] where the CPU idles.
    pub(crate) current: u32,
    /// The CPU's speed, in millionths of its nominal speed.
    pub(crate) rate: u32,
    /// When the current task's operation is complete if no tick after those done comes in between.
    pub(crate) end: u64,
    /// The first tick that was not done yet; an idle CPU has none.
    pub(crate) next_tick: u64,
    /// The first tick that may have to be done when it is due; those before it can be made up for.
    pub(crate) acting_tick: u64,
    /// When it schedules because it was notified or marked for rescheduling.
    pub(crate) resched_at: u64,
    /// Busy time.
    pub(crate) busy: u64,
    /// Times that a task came to this CPU.
    pub(crate) switches: u64,
    /// It is on its way to schedule: until `resched_at` it works off an interrupt or, where that is [`NEVER`], until `end` what is
    /// left of a system call.
    pub(crate) leaving: bool,
    /// It was notified, while idle, because a task waits elsewhere.
    pub(crate) called: bool,
    /// It is on line.
    pub(crate) online: bool,
    /// Its task looks at the clock of its CPU time to compute for just so long: whatever interrupts it from `clock_from` on is a part of that.
    pub(crate) clocked: bool,
    /// What it does before `clock_from` takes so many times as long as at its nominal speed.
    stretch: u32,
    /// What it will have worked for its task beyond the operation by `end`, in millionths of a nanosecond at the nominal speed.
    pub(crate) spare: u64,
    /// When its task has looked at that clock first, if it is not interrupted before.
    clock_from: u64,
    /// When it last left idle for a timer's interrupt, or will have.
    pub(crate) awake_at: u64,
    /// Since when its queue's clock is not read until it switches; [`NEVER`] if it is.
    pub(crate) clock_held: u64,
    /// What the task that it leaves idle for is charged with before the switch.
    pub(crate) idle_charge: u64,
    /// Which CPU used its run queue last: itself as it switched, or another one that woke a task there.
    pub(crate) queue_used_by: u32,
    /// When a task came to its queue while it idled; [`NEVER`] if none did.
    pub(crate) roused_at: u64,
    /// Since when it idles, if it does, or when it began to idle last.
    pub(crate) idle_since: u64,
    /// When it was roused last from idling.
    pub(crate) idle_until: u64,
    /// Its idle period before the last lasted for [`Costs::POLLED`] or longer.
    pub(crate) idled_long: bool,
    /// It stopped its tick as it began to idle (`tick_nohz_stop_tick`).
    pub(crate) tick_stopped: bool,
    /// When the timer of a background task expired last while it idled.
    pub(crate) timer_in_idle: u64,
    /// Until when it takes no interrupts, as its last switch is not over.
    pub(crate) masked_until: u64,
    /// Until when the last timer was put off that came while it took none.
    pub(crate) put_off_until: u64,
}

impl Cpu {
    /// It switches to a task: what its run queue takes besides, if another CPU has used that since its last switch. On the way out of idle that is a
    /// part of the way.
    #[inline]
    pub(crate) const fn uses_queue(&mut self, cpu: u32, prices: &Prices) -> u64 {
        let used_by = std::mem::replace(&mut self.queue_used_by, cpu);
        if used_by == cpu || used_by == NONE || self.current == NONE { 0 } else { prices.schedule_far }
    }

    /// It begins to idle.
    #[inline]
    pub(crate) fn begins_to_idle(&mut self, now: u64, prices: &Prices) {
        self.idled_long = self.has_idled_long(self.idle_until);
        (self.idle_since, self.masked_until) = (now, now + prices.masked());
    }

    /// For how long its hypervisor has given it away while it idles, beyond the time for which it polls; none where it polls. It does not after it has
    /// polled in vain (`kvm_vcpu_halt`).
    #[inline]
    pub(crate) const fn halted(&self, now: u64) -> Option<u64> {
        if self.has_idled_long(now) || self.idled_long {
            Some((now - self.idle_since).saturating_sub(Costs::POLLED.as_nanos()))
        } else {
            None
        }
    }

    /// Whether its idle period had lasted for long by then: one since the run's beginning began before.
    #[inline]
    const fn has_idled_long(&self, then: u64) -> bool {
        self.idle_since == 0 || then.saturating_sub(self.idle_since) >= Costs::POLLED.as_nanos()
    }

    pub(crate) const IDLE: Self = Self {
        current: NONE,
        rate: NOMINAL,
        end: NEVER,
        spare: 0,
        next_tick: NEVER,
        acting_tick: NEVER,
        resched_at: NEVER,
        leaving: false,
        awake_at: 0,
        clock_held: NEVER,
        idle_charge: 0,
        queue_used_by: NONE,
        roused_at: NEVER,
        idle_since: 0,
        idle_until: 0,
        idled_long: false,
        tick_stopped: true,
        timer_in_idle: 0,
        masked_until: 0,
        put_off_until: 0,
        called: false,
        online: true,
        clocked: false,
        stretch: 1,
        clock_from: 0,
        busy: 0,
        switches: 0,
    };

    /// The current task has so much more to do, in nanoseconds at the nominal speed.
    #[inline]
    pub(crate) fn bill(&mut self, cost: u64) {
        if self.rate == NOMINAL && self.spare == 0 {
            self.end = self.end.saturating_add(cost);
        } else {
            (self.end, self.spare) = self.after(u128::from(cost) * u128::from(NOMINAL));
        }
    }

    /// The current task goes on `now`: what it has to do.
    #[inline(always)]
    pub(crate) fn takes_up(&mut self, now: u64, task: &mut Task, prices: &Prices) -> u64 {
        let until = task.until_clock(prices);
        self.clocked = until.is_some();
        self.clock_from = match until {
            Some(until @ 1..) => now.saturating_add(until).saturating_add(task.debt),
            _ => 0,
        };
        self.stretch = 1;
        task.due(until == Some(0) || task.background)
    }

    /// What the current task does before its first look at a clock takes `stretch` times as long from now on; returns whether that is another number.
    pub(crate) fn stretch_until_clock(&mut self, now: u64, stretch: u32) -> bool {
        let before = self.clock_from.saturating_sub(now);
        if !self.clocked || stretch == self.stretch || before == 0 {
            return false;
        }
        let longer = before.div_ceil(u64::from(self.stretch)) * u64::from(stretch);
        (self.end, self.clock_from, self.stretch) = (self.end - before + longer, now + longer, stretch);
        true
    }

    /// What is left of its way to schedule takes `after` times as long as at its nominal speed, and no longer `before` times; returns whether
    /// that is another number.
    pub(crate) fn put_off(&mut self, now: u64, before: u32, after: u32) -> bool {
        let on_its_way = self.current == NONE || self.leaving;
        if before == after || !on_its_way || self.resched_at == NEVER || self.resched_at <= now {
            return false;
        }
        self.resched_at = now + (self.resched_at - now).div_ceil(u64::from(before)) * u64::from(after);
        true
    }

    /// Ticks came, so many, the first one at `first` and the last one at `last`.
    #[inline]
    pub(crate) fn ticked(&mut self, first: u64, last: u64, count: u64, cost: u64) {
        if first < last && self.clocked {
            // No task takes a tick's time to look at a clock: what comes before that is the first one at most.
            self.interrupted(first, first.saturating_add(cost), cost);
        }
        self.interrupted(last, last.saturating_add(cost), count * cost);
    }

    /// An interrupt at `from` takes so much of the task's time, until `until`.
    #[inline]
    pub(crate) fn interrupted(&mut self, from: u64, until: u64, cost: u64) {
        if !self.clocked {
            self.bill(cost);
        } else if from < self.clock_from {
            self.clock_from = self.clock_from.saturating_add(cost);
            self.bill(cost);
        } else {
            self.end = self.end.max(until);
        }
    }

    /// `end` and `spare` with so much more to do, in millionths of a nanosecond.
    fn after(&self, work: u128) -> (u64, u64) {
        let (spare, rate) = (u128::from(self.spare), u128::from(self.rate));
        let time = work.saturating_sub(spare).div_ceil(rate);
        let end = u64::try_from(time).map_or(u64::MAX, |time| self.end.saturating_add(time));
        (end, (spare + time * rate - work) as u64)
    }

    /// The operation is cut short: what of it is left to do, in whole nanoseconds at the nominal speed; `spare` is what that is too
    /// much by.
    #[inline]
    pub(crate) fn suspend(&mut self, now: u64) -> u64 {
        self.stretch_until_clock(now, 1);
        let left = self.end - now;
        self.end = now;
        if self.rate == NOMINAL && self.spare == 0 {
            return left;
        }
        let work = u128::from(left) * u128::from(self.rate);
        let beyond = u128::from(self.spare);
        let whole = work.saturating_sub(beyond).div_ceil(u128::from(NOMINAL));
        self.spare = (whole * u128::from(NOMINAL) + beyond - work) as u64;
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// The CPU goes on at another rate, with as much left to do.
    pub(crate) fn change_rate(&mut self, now: u64, rate: u32) {
        let left = self.suspend(now);
        self.rate = rate;
        self.bill(left);
    }

    /// What it does next but for its high-resolution tick.
    #[inline(always)]
    pub(crate) fn key(&self, tick_cost: u64, period: u64) -> Key {
        let schedule = Key::new(self.resched_at, Kind::Schedule);
        if self.current == NONE {
            return schedule;
        }
        self.busy_key(tick_cost, period).min(schedule)
    }

    /// [`Self::key`] of a busy CPU whose ticks cost `tick_cost`, that is not to reschedule and has no high-resolution tick.
    #[inline(always)]
    pub(crate) fn undisturbed_key(&self, tick_cost: u64, period: u64) -> Key {
        debug_assert!(self.current != NONE && self.resched_at == NEVER);
        self.busy_key(tick_cost, period)
    }

    /// The end of the operation, or the acting tick before that. Ticks only put the end off, so that an acting tick before the undisturbed end
    /// comes first, wherever the end comes to lie.
    #[inline(always)]
    fn busy_key(&self, tick_cost: u64, period: u64) -> Key {
        let acting = self.acting_tick.min(NEVER);
        let settled = tick_cost == 0 || acting < self.end;
        let end = if settled { self.end } else { self.interrupted_end(tick_cost, period) };
        Key::of_busy(end.min(NEVER), acting)
    }

    /// When the operation ends, with the ticks that come until then.
    #[inline(always)]
    fn interrupted_end(&self, tick_cost: u64, period: u64) -> u64 {
        // A task that reads the clock does so before its operation ends.
        debug_assert!(!self.clocked || self.clock_from <= self.end);
        if self.end <= self.next_tick { self.end } else { self.end_beyond_ticks(tick_cost, period) }
    }

    /// [`Self::interrupted_end`] where a tick comes before the end.
    #[inline(never)]
    fn end_beyond_ticks(&self, tick_cost: u64, period: u64) -> u64 {
        if self.clocked && self.next_tick < self.clock_from {
            return clocked_end(self.end.saturating_add(tick_cost), self.next_tick + period, tick_cost, period);
        }
        if self.clocked {
            return clocked_end(self.end, self.next_tick, tick_cost, period);
        }
        if self.rate == NOMINAL && self.spare == 0 || self.end <= self.next_tick {
            return interrupted_end(self.end, self.next_tick, tick_cost, period);
        }
        debug_assert!(ticks_leave_time(tick_cost, period, self.rate), "ticks leave the task no time");
        // As there, in millionths of a nanosecond of work.
        let (rate, cost) = (u128::from(self.rate), u128::from(tick_cost) * u128::from(NOMINAL));
        let work = (u128::from(self.end - self.next_tick) * rate).saturating_sub(u128::from(self.spare));
        let ticks = work.div_ceil(u128::from(period) * rate - cost);
        self.after(ticks.saturating_mul(cost)).0
    }
}

/// Whether ticks leave a CPU time for its task: one costs less than the CPU does from tick to tick.
///
/// [`Engine`](crate::engine::Engine) refuses machines whose slowest rate leaves none: an operation there never ends.
pub(crate) fn ticks_leave_time(cost: u64, period: u64, rate: u32) -> bool {
    u128::from(cost) * u128::from(NOMINAL) < u128::from(period) * u128::from(rate)
}

/// When work that would end at `end` ends if each tick from `next_tick` on takes `cost` of the CPU's time.
///
/// A tick that falls on the very end comes after it. With `w` of work left at the first tick, and `period − cost` of it done from each
/// tick to the next, the i-th tick (from 0) finds work left while w − i (period − cost) > 0; so ⌈w / (period − cost)⌉ ticks come.
#[inline]
pub(crate) fn interrupted_end(end: u64, next_tick: u64, cost: u64, period: u64) -> u64 {
    if end <= next_tick || cost == 0 {
        return end;
    }
    let ticks = (end - next_tick).div_ceil(period - cost);
    end.saturating_add(ticks.saturating_mul(cost))
}

/// When computing by the clock until `end` ends: no sooner than the last tick before that does.
#[inline]
fn clocked_end(end: u64, next_tick: u64, cost: u64, period: u64) -> u64 {
    if end <= next_tick {
        return end;
    }
    let last = end - 1 - (end - 1 - next_tick) % period;
    end.max(last.saturating_add(cost))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_push_the_end_back() {
        // Ticks at 10, 20, 30, … costing 2. Work until 10 ends there, before the tick. Work until 11: the tick at 10 makes it 13.
        assert_eq!(interrupted_end(10, 10, 2, 10), 10);
        assert_eq!(interrupted_end(11, 10, 2, 10), 13);
        // Work until 18 → 20, before the tick at 20; one more, and that tick comes too: 19 → 21 → 23.
        assert_eq!(interrupted_end(18, 10, 2, 10), 20);
        assert_eq!(interrupted_end(19, 10, 2, 10), 23);
        assert_eq!(interrupted_end(19, 10, 0, 10), 19);
    }

    #[test]
    fn ticks_are_a_part_of_computing_by_the_clock() {
        // Ticks at 10, 20, 30, … costing 2. Work until 18 ends there. Until 21: the tick at 20 is worked off at 22. One on the very end
        // comes after it.
        assert_eq!([9, 10, 18, 20, 21, 23].map(|end| clocked_end(end, 10, 2, 10)), [9, 10, 18, 20, 22, 23]);
        let mut cpu = Cpu { clocked: true, end: 21, next_tick: 10, ..Cpu::IDLE };
        cpu.ticked(10, 20, 2, 2);
        assert_eq!(cpu.end, 22);
    }

    #[test]
    fn what_comes_before_the_first_look_at_the_clock_is_no_part_of_the_computing() {
        // 3 until it looks, 18 by the clock: 21. The tick at 2 costs 2, before the look: 23, which the one at 12 is a part of, and the one at 22
        // is worked off at 24. Ticks at 3 and 13 are both parts of it.
        let at = |next_tick| Cpu { clocked: true, clock_from: 3, end: 21, next_tick, ..Cpu::IDLE };
        assert_eq!([at(2).interrupted_end(2, 10), at(3).interrupted_end(2, 10)], [24, 21]);
        let mut cpu = at(2);
        cpu.ticked(2, 12, 2, 2);
        assert_eq!((cpu.end, cpu.clock_from), (23, 5));
        // An interrupt at 4, of 1, comes before it still; one at 6 does not.
        cpu.interrupted(4, 5, 1);
        cpu.interrupted(6, 7, 1);
        assert_eq!((cpu.end, cpu.clock_from), (24, 6));
    }

    #[test]
    fn a_slowed_cpu_has_time_only_for_ticks_that_cost_less_than_it_does_in_a_period() {
        // At half speed 100 ns do 50 ns of work. Ticks at 1000, 1100, … that cost 50 leave nothing, 90 even less.
        let half = NOMINAL / 2;
        assert_eq!([49, 50, 90].map(|cost| ticks_leave_time(cost, 100, half)), [true, false, false]);
        assert_eq!([99, 100].map(|cost| ticks_leave_time(cost, 100, NOMINAL)), [true, false]);
        // At 49 a nanosecond of work is left from each tick to the next. Of work until 1020, 10 are left at 1000: 10 ticks, each 98 long.
        let cpu = Cpu { current: 0, rate: half, end: 1_020, next_tick: 1_000, ..Cpu::IDLE };
        assert_eq!(cpu.interrupted_end(49, 100), 1_020 + 10 * 98);
    }

    proptest! {
        /// What a CPU does next is the first of the end with its ticks and the acting tick, at any rate and by any clock.
        #[test]
        fn the_next_event_is_the_first_of_the_end_and_the_acting_tick(
            (end, next_tick) in (1_000u64..5_000, 0u64..3_000),
            inactive in prop_oneof![0u64..20, Just(NEVER)],
            (cost, period) in (0u64..90, 100u64..300),
            rate in prop_oneof![Just(NOMINAL), NOMINAL / 2..=2 * NOMINAL],
            clock_from in prop::option::of(0u64..1_000),
        ) {
            prop_assume!(ticks_leave_time(cost, period, rate));
            let acting_tick = next_tick + inactive.saturating_mul(period).min(NEVER);
            let cpu = Cpu {
                current: 0,
                rate,
                end,
                next_tick,
                acting_tick,
                clocked: clock_from.is_some(),
                clock_from: clock_from.unwrap_or(0),
                ..Cpu::IDLE
            };
            let ends = if cost == 0 { end } else { cpu.interrupted_end(cost, period) };
            let (first, kind) = if acting_tick < ends { (acting_tick, Kind::Tick) } else { (ends, Kind::Completion) };
            let key = Key::new(first, kind);
            prop_assert_eq!([cpu.key(cost, period), cpu.undisturbed_key(cost, period)], [key, key]);
        }

        #[test]
        fn the_closed_form_is_tick_after_tick(end in 0u64..5000, next in 0u64..1000, period in 2u64..300, cost in 0u64..300) {
            let cost = cost % period;
            let (mut stepped, mut tick) = (end, next);
            while tick < stepped {
                stepped += cost;
                tick += period;
            }
            prop_assert_eq!(interrupted_end(end, next, cost, period), stepped);
        }
    }
}
