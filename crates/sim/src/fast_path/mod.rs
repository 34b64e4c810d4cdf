//! The short way of flat queues (`schedlab_sched`'s `flat`): the engine's part of it.
//!
//! Each function does what the long way would, or says that it does not apply. [`Options::no_tick_skip`] never takes it.
//!
//! [`Options::no_tick_skip`]: crate::Options::no_tick_skip

/// A record, or a `mut` one, of a task or CPU that is known to be there: one that the rules name, that has a timer or something to do, or that a record
/// names.
///
/// Builds with debug assertions, and so all tests, check each number (`tests` below); release builds do not.
///
/// # Why every number is in its table
///
/// 1. `Arena::reset` makes a record for each CPU before the run begins, and `Engine` one for each task when it makes the task; nothing else
///    changes how many there are before the next `reset`, and an engine has its arena for itself for one run.
/// 2. CPUs and tasks of the rules (`schedlab_sched`) are made at the same two places, in the same order, so that their numbers are the same.
/// 3. Numbers come from the rules, from events that this run put into its queue, and from records of this run: all after the record was made.
macro_rules! known {
    (mut $($table:ident).+[$number:expr]) => {{
        let number: usize = $number;
        debug_assert!(number < $($table).+.len(), "no record of {} has number {number}", stringify!($($table).+));
        // SAFETY: the number is in the table, by the three points above.
        unsafe { $($table).+.get_unchecked_mut(number) }
    }};
    ($($table:ident).+[$number:expr]) => {{
        let number: usize = $number;
        debug_assert!(number < $($table).+.len(), "no record of {} has number {number}", stringify!($($table).+));
        // SAFETY: the number is in the table, by the three points above.
        unsafe { $($table).+.get_unchecked(number) }
    }};
}

mod alone;
mod block;
mod message;
mod wake;

use std::sync::atomic::Ordering::Relaxed;

use schedlab_model::{CpuId, EventKind, EventSink, Policy, TaskId, TaskState, Time};
use schedlab_program::{Op, Program};
use schedlab_sched::Clocks;

use crate::SimError;
use crate::arena::Arena;
use crate::cpu::Cpu;
use crate::engine::{Engine, task_id, tell};
use crate::event_queue::{Key, Kind, NEVER};
use crate::price::Prices;
use crate::switch::tell_standings;
use crate::task::{Stage, State, Task};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// Whether the run is flat from beginning to end: no task, CPU or group is ever changed.
    pub(crate) fn is_flat(&self) -> bool {
        let plain = |template: &schedlab_program::Template| {
            let attributes = template.attributes.as_ref();
            attributes.is_none_or(|attributes| attributes.policy == Policy::Other && attributes.affinity.is_empty())
        };
        self.skip_ticks
            && self.pools.as_ref().is_none_or(|pools| !pools.limited)
            && self.pace.is_none()
            && self.changes.is_empty()
            && self.program.changes().is_empty()
            && !self.program.has_background()
            // An access of the disk that is done wakes more than who asked for it.
            && self.program.files().is_empty()
            && self.program.templates().iter().all(plain)
            && self.sched.is_flat()
    }

    /// Events of a flat run, one after the other, in what little the engine's loop comes to then: no group has a timer, no CPU goes off line.
    /// Until the run or the workload may be over, or a timer of the rules is due.
    pub(crate) fn flat_run(&mut self) -> Result<(), SimError> {
        match (self.prices.are_free(), self.sched.rules().eevdf) {
            (true, true) => self.flat_events::<true, true>(),
            (true, false) => self.flat_events::<true, false>(),
            (false, true) => self.flat_events::<false, true>(),
            (false, false) => self.flat_events::<false, false>(),
        }
    }

    /// `FREE`: nothing costs anything ([`Prices::are_free`](crate::price::Prices::are_free)). `EEVDF`: which rules are followed. Both are
    /// known for the whole run, so that they need not be checked for each event.
    #[inline(never)]
    fn flat_events<const FREE: bool, const EEVDF: bool>(&mut self) -> Result<(), SimError> {
        loop {
            let ((key, cpu), timer) = (self.arena.agenda.first(), self.arena.timers.first());
            if timer < key {
                if !self.flat_advance::<EEVDF>(timer.time()) {
                    return Ok(());
                }
                let task = self.arena.timers.pop();
                self.sched.prefetch(TaskId(self.arena.timers.likely_next()));
                self.flat_timer::<FREE, EEVDF>(task, key)?;
            } else if !self.flat_advance::<EEVDF>(key.time()) {
                return Ok(());
            } else if key.kind() == Kind::Completion {
                self.flat_completion::<FREE, EEVDF>(cpu)?;
            } else {
                self.flat_rarer_event::<FREE>(key, cpu)?;
            }
        }
    }

    /// Time goes on to that of the next event; false where something else is to be done first, or the run may be over or is cancelled.
    #[inline(always)]
    fn flat_advance<const EEVDF: bool>(&mut self, time: u64) -> bool {
        // Only fair servers have timers, which came with EEVDF.
        debug_assert!(EEVDF || self.sched.next_timer().is_none());
        let rule = EEVDF && time >= self.sched.next_timer_expires().as_nanos();
        if rule || time >= self.quiet && !self.flat_moment(time) {
            return false;
        }
        self.events += 1;
        self.now = time;
        self.sched.set_machine_clock_within_jiffy(Time::from_nanos(time));
        true
    }

    /// What is checked once in a jiffy, at an instant of it: false where the run may be over or is cancelled.
    #[inline(never)]
    fn flat_moment(&mut self, time: u64) -> bool {
        let cancelled = self.cancel.is_some_and(|cancel| cancel.load(Relaxed));
        if time >= self.until || cancelled {
            return false;
        }
        self.sched.set_machine_clock(Time::from_nanos(time));
        self.quiet = self.until.min(self.sched.next_jiffy().as_nanos());
        true
    }

    /// What CPUs have to do more rarely than to end an operation.
    #[inline(never)]
    fn flat_rarer_event<const FREE: bool>(&mut self, key: Key, cpu: u32) -> Result<(), SimError> {
        if self.cancel.is_some() {
            // However many there are at one instant.
            self.quiet = 0;
        }
        match key.kind() {
            Kind::Completion => self.completed(cpu),
            Kind::Timer => self.hrtick(cpu),
            Kind::Schedule => self.flat_rescheduled::<FREE>(cpu),
            Kind::Tick if FREE && self.now >= self.alone_from && self.flat_alone() => Ok(()),
            Kind::Tick => self.flat_ticks::<FREE>(key, cpu),
        }
    }

    /// The ticks of one instant, of one CPU after the other from the first on that has one now. Nothing comes in between: whatever is before ticks
    /// at an instant is done, and a tick mostly changes only what its own CPU does later. Where it does more, the rest is left
    /// to the loop.
    fn flat_ticks<const FREE: bool>(&mut self, key: Key, first: u32) -> Result<(), SimError> {
        self.arena.agenda.hold();
        let mut cpu = first;
        let end = loop {
            let end = self.flat_tick::<FREE>(cpu);
            let due = self.arena.timers.first() < key || self.sched.next_timer_expires().as_nanos() <= self.now;
            let alone = FREE && self.alone_from <= self.now;
            if end.is_err() || due || alone || self.limit < self.now || self.awaited == 0 {
                break end;
            }
            let Some(other) = self.arena.agenda.next_at(key, cpu) else { break end };
            cpu = other;
            self.events += 1;
        };
        self.arena.agenda.settle();
        end
    }

    /// A switch to another task or to idle is emitted and counted.
    #[inline(always)]
    fn tell_switch(&mut self, cpu: u32, previous: TaskId, state: TaskState, next: TaskId) {
        self.emit(cpu, EventKind::Switch { previous, state, next });
        self.tell_standings([previous, next]);
        self.switches += 1;
    }

    /// [`Engine::come`] on a CPU of the fast path.
    #[inline(always)]
    fn flat_come(&mut self, cpu: u32, task: u32) {
        if matches!(known!(self.arena.tasks[task as usize]).op, Op::Busy(_)) {
            return self.come(cpu, task);
        }
        let arena = &mut self.arena;
        let comer = known!(mut arena.tasks[task as usize]);
        comer.account.end_wait(self.now);
        comer.state = State::Running { computed: false };
        if !self.prices.free_switches {
            comer.debt += arena.cpus[cpu as usize].uses_queue(cpu, &self.prices);
            let switches = arena.cpus[cpu as usize].switches;
            let price = self.prices.switch_on(&arena.cpus, comer, cpu, self.alive - 1);
            let price = comer.came(price, &self.prices);
            comer.debt += price;
            let record = &mut arena.cpus[cpu as usize];
            record.masked_until = self.now + price.min(self.prices.masked());
            if comer.ran_on != cpu || comer.ran_at != switches {
                (comer.ran_on, comer.ran_at) = (cpu, switches + 1);
                record.switches = switches + 1;
            }
        }
        known!(mut arena.cpus[cpu as usize]).current = task;
    }

    /// An idle CPU switches to the woken task: [`Engine::rescheduled`].
    fn flat_begin<const FREE: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        let now = self.now;
        let read = if FREE { None } else { self.clock_in_idle(cpu) };
        let clock = read.unwrap_or(Time::from_nanos(now));
        self.sched.set_clocks(CpuId(cpu), Clocks::all(clock));
        let next = match self.sched.rules().eevdf {
            true => self.sched.flat_begin::<true>(CpuId(cpu)),
            false => self.sched.flat_begin::<false>(CpuId(cpu)),
        };
        let Some(next) = next else { return self.rescheduled(cpu) };
        let looked_at = self.sched.take_looked_at().saturating_mul(self.prices.balance);
        let next_tick = self.ticks.after(now);
        let record = known!(mut self.arena.cpus[cpu as usize]);
        (record.resched_at, record.called, record.leaving, record.clock_held) = (NEVER, false, false, NEVER);
        (record.next_tick, record.acting_tick) = (next_tick, next_tick);
        let comer = known!(mut self.arena.tasks[next.index()]);
        comer.debt += looked_at;
        let taken = if FREE || record.idle_charge == 0 { 0 } else { now - clock.as_nanos() };
        record.idle_charge = 0;
        comer.account.leaves_idle(now, std::mem::replace(&mut record.roused_at, NEVER), taken);
        if taken > 0 {
            comer.takes_on(taken, &self.prices);
        }
        self.tell_switch(cpu, TaskId::IDLE, TaskState::Running, next);
        self.flat_come(cpu, next.0);
        self.resume::<FREE, true>(cpu, next.0)
    }

    /// A wake-up has set `need_resched` on a CPU: [`Engine::rescheduled`].
    fn flat_rescheduled<const FREE: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        if self.arena.cpus[cpu as usize].current == NONE {
            return self.flat_begin::<FREE>(cpu);
        }
        self.begin_pass(cpu, TaskState::Running);
        let Some((previous, next)) = self.sched.flat_preempt(CpuId(cpu)) else { return self.rescheduled(cpu) };
        let looked_at = self.sched.take_looked_at().saturating_mul(self.prices.balance);
        self.flat_switched::<FREE>(cpu, previous, next, looked_at)
    }

    /// What follows when a CPU has scheduled and its previous task is still runnable; the next task pays for CPUs that were `looked_at`.
    #[inline(always)]
    fn flat_switched<const FREE: bool>(
        &mut self,
        cpu: u32,
        previous: TaskId,
        next: TaskId,
        looked_at: u64,
    ) -> Result<(), SimError> {
        let (now, prices) = (self.now, &self.prices);
        let passed = if FREE { 0 } else { now - self.sched.clock(CpuId(cpu)).as_nanos() };
        let Arena { tasks, cpus, .. } = &mut self.arena;
        let record = &mut cpus[cpu as usize];
        (record.resched_at, record.called, record.leaving, record.clock_held) = (NEVER, false, false, NEVER);
        let left = &mut tasks[previous.index()];
        if previous == next {
            left.interrupted(record.suspend(now));
            return self.resume::<FREE, true>(cpu, next.0);
        }
        tell(self.sink, now, cpu, EventKind::Switch { previous, state: TaskState::Running, next });
        tell_standings(self.sink, &self.sched, now, [previous, next]);
        // As [`Engine::leave`] has it of a task that goes on to be runnable, on a CPU that always is as fast.
        self.switches += 1;
        record.busy += left.account.end_run(now);
        left.account.involuntary += u32::from(!left.has_reported());
        left.interrupted(record.end - now);
        left.state = State::Runnable;
        if !FREE {
            left.passes_on(passed, prices);
        }
        record.end = now;
        let comer = &mut tasks[next.index()];
        if !FREE {
            comer.takes_on(passed, prices);
        }
        if looked_at > 0 {
            comer.debt += looked_at;
        }
        let known = comer.stage == Stage::Act && !matches!(comer.op, Op::Busy(_));
        if !known || !(FREE || prices.free_switches) {
            self.flat_come(cpu, next.0);
            return self.resume::<FREE, true>(cpu, next.0);
        }
        // As `flat_come` and `resume` do it where a switch costs nothing, during an operation.
        comer.account.end_wait(now);
        comer.takes(next.0, record);
        record.end = now.saturating_add(if FREE { comer.due_free() } else { record.takes_up(now, comer, prices) });
        if record.end == now {
            return self.operate(cpu, true);
        }
        let key = record.undisturbed_key(if FREE { 0 } else { prices.tick }, self.period);
        self.arena.agenda.set(cpu, self.key_or_hrtick(cpu, key));
        Ok(())
    }

    /// A tick, with those that were put off before it, and the switch to another task if it comes to that.
    ///
    /// Ticks to come that will not act are put off at once, and not only once the first of them is due: if the queue changes in between,
    /// [`Engine::touch`] looks at them anew.
    #[inline(always)]
    fn flat_tick<const FREE: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        let marked = !FREE && self.sched.need_resched(CpuId(cpu));
        let record = &mut self.arena.cpus[cpu as usize];
        // A task that is marked lazily goes no further.
        if record.leaving || marked {
            return self.tick(cpu);
        }
        let (first, due, previous) = (record.next_tick, record.acting_tick, task_id(record.current));
        let count = if first == due { 1 } else { self.ticks.in_ticks.quotient(due - first) + 1 };
        let Some(tick) = self.sched.flat_tick(CpuId(cpu), Time::from_nanos(first), count) else {
            return self.flat_tick_beside_idle::<FREE>(cpu);
        };
        self.last_tick = (self.now, cpu);
        if !FREE {
            record.ticked(first, due, count, self.prices.tick);
        }
        record.next_tick = due + self.period;
        // Before the next balancing, which is near.
        record.acting_tick = (record.next_tick + tick.inactive * self.period).min(NEVER);
        self.skips_beside_others |= tick.inactive > 0;
        if !tick.scheduled {
            self.refresh(cpu);
            return Ok(());
        }
        self.flat_switched::<FREE>(cpu, previous, tick.next, 0)
    }

    /// A tick that looks at other CPUs, of a task that is alone: [`Engine::tick`].
    #[inline(never)]
    fn flat_tick_beside_idle<const FREE: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        let record = &self.arena.cpus[cpu as usize];
        if self.skips_beside_others || record.next_tick != record.acting_tick {
            let end = self.tick(cpu);
            self.balanced();
            return end;
        }
        let Some(scheduled) = self.sched.flat_tick_alone(CpuId(cpu)) else { return self.tick(cpu) };
        let now = self.now;
        self.last_tick = (now, cpu);
        let record = &mut self.arena.cpus[cpu as usize];
        (record.next_tick, record.acting_tick) = (now + self.period, now + self.period);
        if !FREE {
            record.ticked(now, now, 1, self.prices.tick);
        }
        self.settle_moves(cpu);
        if !FREE {
            let looked_at = self.sched.take_looked_at().saturating_mul(self.prices.balance);
            self.arena.cpus[cpu as usize].interrupted(now, now + self.prices.tick + looked_at, looked_at);
        }
        if scheduled {
            return self.rescheduled(cpu);
        }
        if FREE {
            self.flat_refresh(cpu);
        } else {
            self.refresh(cpu);
        }
        Ok(())
    }

    /// [`Engine::operate`] of a task that is switched in again, mostly during an operation.
    #[inline(always)]
    fn resume<const FREE: bool, const EEVDF: bool>(&mut self, cpu: u32, task: u32) -> Result<(), SimError> {
        let (now, arena) = (self.now, &mut self.arena);
        let comer = known!(mut arena.tasks[task as usize]);
        let known = match comer.stage {
            Stage::Fetch => comer.fetch::<FREE>(self.program, &self.prices),
            Stage::Retry => false,
            Stage::Act | Stage::Block | Stage::Depart | Stage::Report | Stage::Notify | Stage::Die => true,
        };
        if !known {
            return self.operate(cpu, false);
        }
        let record = known!(mut arena.cpus[cpu as usize]);
        let prices = &self.prices;
        record.end = now.saturating_add(if FREE { comer.due_free() } else { record.takes_up(now, comer, prices) });
        if record.end == now {
            return self.operate(cpu, true);
        }
        let key = record.undisturbed_key(if FREE { 0 } else { self.prices.tick }, self.period);
        // Only from 7.2 on, and asked there.
        self.arena.agenda.set(cpu, if EEVDF { self.key_or_hrtick(cpu, key) } else { key });
        Ok(())
    }
}

impl Task {
    /// It, the task of that number, has a CPU from now on. Where it ran last counts for the price of a switch, and none has one.
    #[inline(always)]
    fn takes(&mut self, task: u32, record: &mut Cpu) {
        record.current = task;
        self.state = State::Running { computed: false };
    }

    /// The next operation, as [`Engine::operate`] begins it. False where that is to look at it, as it is none that computes.
    #[inline(always)]
    fn fetch<const FREE: bool>(&mut self, program: &Program, prices: &Prices) -> bool {
        if !FREE {
            self.debt += prices.operation;
        }
        let time = match self.cursor.next_run(program) {
            Ok(time) => time,
            Err(other) => {
                // It was fetched, but is not planned yet.
                (self.op, self.stage) = (other, Stage::Retry);
                return false;
            }
        };
        (self.op, self.stage) = (Op::Run(time), Stage::Act);
        self.remaining = if FREE { time.as_nanos() } else { self.compute(time.as_nanos(), 0, prices) };
        true
    }
}

#[cfg(test)]
mod tests {
    struct Arena {
        cpus: Vec<u32>,
    }

    /// Where tests are built without debug assertions nothing covers `known!`.
    #[test]
    fn tests_check_numbers() {
        let checked = cfg!(debug_assertions);
        assert!(checked, "this build does not check its look-ups");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no record of arena.cpus has number 2")]
    fn a_number_beyond_the_table_is_caught() {
        let arena = Arena { cpus: vec![7, 8] };
        assert_eq!(*known!(arena.cpus[1]), 8);
        let _ = known!(arena.cpus[2]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no record of arena.cpus has number 3")]
    fn a_number_beyond_the_table_is_caught_before_it_is_written() {
        let mut arena = Arena { cpus: vec![7, 8, 9] };
        *known!(mut arena.cpus[3]) = 1;
    }
}
