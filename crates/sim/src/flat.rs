//! The short way of flat queues (`schedlab_sched`'s `flat`): the engine's part of it.
//!
//! Each function does what the long way would, or says that it does not apply. [`Options::no_tick_skip`] never takes it.
//!
//! [`Options::no_tick_skip`]: crate::Options::no_tick_skip

use std::sync::atomic::Ordering::Relaxed;

use schedlab_model::{CpuId, EventKind, EventSink, Policy, TaskId, TaskState, Time};
use schedlab_program::Op;
use schedlab_sched::Clocks;

use crate::SimError;
use crate::agenda::{Key, Kind, NEVER};
use crate::arena::Arena;
use crate::engine::{Engine, task_id};
use crate::task::{Stage, State};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// Whether the run is flat from beginning to end: no task, CPU or group is ever changed.
    pub(crate) fn is_flat(&self) -> bool {
        let plain = |template: &schedlab_program::Template| {
            let attributes = template.attributes.as_ref();
            attributes.is_none_or(|attributes| attributes.policy == Policy::Other && attributes.affinity.is_empty())
        };
        self.skip_ticks
            && self.pools.is_none()
            && self.pace.is_none()
            && self.changes.is_empty()
            && self.program.changes().is_empty()
            // An access of the disk that is done wakes more than who asked for it.
            && self.program.files().is_empty()
            && self.program.templates().iter().all(plain)
            && self.sched.is_flat()
    }

    /// The next event of a flat run, if it is none of the rare ones, in what little the engine's loop comes to then: no group has a timer,
    /// no CPU goes off line. False, and nothing done, where the run or the workload may be over, or a timer of the rules is due.
    #[inline(always)]
    pub(crate) fn flat_step(&mut self) -> Result<bool, SimError> {
        let (key, cpu) = self.arena.agenda.first();
        let timer = self.arena.timers.first();
        let time = key.min(timer).time();
        let rule = self.sched.next_timer().map_or(NEVER, |(rule, _)| rule.as_nanos());
        let cancelled = self.cancel.is_some_and(|cancel| cancel.load(Relaxed));
        if time >= self.end.min(rule).min(self.limit + 1) || cancelled {
            return Ok(false);
        }
        self.events += 1;
        if time != self.now {
            self.now = time;
            self.sched.set_machine_clock(Time::from_nanos(time));
            self.operations = 0;
        }
        if key.kind() == Kind::Tick && key < timer {
            self.flat_ticks(key, cpu)?;
        } else {
            self.event(key, cpu, timer)?;
        }
        Ok(true)
    }

    /// The ticks of one instant, of one CPU after the other from the first on that has one now. Nothing comes in between: whatever is before ticks
    /// at an instant is done, and a tick mostly changes only what its own CPU does later. Where it does more, the rest is left
    /// to the loop.
    fn flat_ticks(&mut self, key: Key, first: u32) -> Result<(), SimError> {
        self.arena.agenda.hold();
        let (mut cpu, mut end) = (first, Ok(()));
        loop {
            end = end.and_then(|()| self.tick(cpu));
            let rule = self.sched.next_timer().map_or(NEVER, |(rule, _)| rule.as_nanos());
            let next = self.arena.agenda.least().min(self.arena.timers.first()).time().min(rule);
            if end.is_err() || next <= self.now || self.limit < self.now || self.alive == 0 {
                break;
            }
            let Some(other) = self.arena.agenda.next_with(key, cpu) else { break };
            cpu = other;
            self.events += 1;
        }
        self.arena.agenda.settle();
        end
    }

    /// A sleeper's timer expires: it is woken, and where its CPU idles, the CPU takes it. [`Engine::timer`] and, where nothing else comes
    /// before that, the [`Engine::rescheduled`] that would follow. `first` is what CPUs have to do first.
    pub(crate) fn flat_timer(&mut self, task: u32, first: Key) -> Result<(), SimError> {
        let home = self.arena.tasks[task as usize].cpu;
        if self.comes_late(task, home) {
            return Ok(());
        }
        if self.skips_beside_others {
            self.catch_up(home);
        }
        let target = self.sched.flat_select(task_id(task)).0;
        let record = &mut self.arena.tasks[task as usize];
        (record.cpu, record.state) = (target, State::Runnable);
        let account = &mut self.arena.accounts[task as usize];
        account.sleep += self.now - account.since;
        account.since = self.now;
        if home != target {
            self.arena.identities[task as usize].migrations += 1;
            // Its virtual time is relative to the queue it leaves, as that stands now.
            self.catch_up(home);
            let (from, to) = (CpuId(home), CpuId(target));
            self.emit(home, EventKind::Migrate { task: task_id(task), from, to });
        }
        let record = &self.arena.cpus[target as usize];
        let idles = record.current == NONE && record.resched_at == NEVER;
        if idles {
            // It has no ticks.
            self.sched.set_clocks(CpuId(target), Clocks::all(Time::from_nanos(self.now)));
        } else {
            self.touch(target);
        }
        // Nothing else at this instant comes before a CPU schedules.
        let alone = self.arena.timers.first().time() > self.now && first > Key::new(self.now, Kind::Schedule);
        let at_once = idles && self.prices.at_once() && alone;
        self.notice_lingering(task);
        let runs = self.sched.flat_wake(task_id(task), CpuId(target), at_once);
        self.emit(home, EventKind::Waking { task: task_id(task), waker: TaskId::IDLE, target: CpuId(target) });
        let (remote, exit) = if target == home {
            (0, self.tick_restart(target))
        } else {
            (self.prices.wakeup_remote, self.way_out_of_idle(target))
        };
        let cost = self.prices.wakeup + remote;
        if !runs {
            self.queued(task, target, home, cost + exit);
            self.settle_moves(home);
        }
        let cost = cost + self.sched.take_looked_at().saturating_mul(self.prices.balance);
        // Where nothing is billed and nobody came, the interrupted CPU goes on as it did.
        let interrupted = (cost > 0 || target == home) && self.arena.cpus[home as usize].current != NONE;
        if interrupted {
            self.interrupted(home, cost);
        }
        if !runs {
            return Ok(());
        }
        self.take_woken(target, task)
    }

    /// An idle CPU takes a task that was woken just now.
    #[inline(always)]
    fn take_woken(&mut self, cpu: u32, task: u32) -> Result<(), SimError> {
        self.idle -= 1;
        let next_tick = self.tick_after_now();
        let record = &mut self.arena.cpus[cpu as usize];
        (record.next_tick, record.acting_tick) = (next_tick, next_tick);
        let comer = &self.arena.tasks[task as usize];
        if comer.stage != Stage::Fetch || !self.prices.free_switches {
            self.taken(cpu, TaskId::IDLE, TaskState::Running, task_id(task));
            return self.resume(cpu, task);
        }
        self.emit(cpu, EventKind::Switch { previous: TaskId::IDLE, state: TaskState::Running, next: task_id(task) });
        self.tell_standings([TaskId::IDLE, task_id(task)]);
        self.switches += 1;
        // As `flat_come` and `operate` do it where the task did not wait, a switch costs nothing, and an operation comes.
        let arena = &mut self.arena;
        let (record, comer) = (&mut arena.cpus[cpu as usize], &mut arena.tasks[task as usize]);
        record.current = task;
        if comer.ran_on != cpu || comer.ran_at != record.switches {
            record.switches += 1;
            (comer.ran_on, comer.ran_at) = (cpu, record.switches);
        }
        comer.state = State::Running;
        comer.op = comer.cursor.next(self.program);
        comer.debt += self.prices.operation;
        let Op::Run(time) = comer.op else {
            // It was fetched, but nobody looked at it yet.
            comer.stage = Stage::Retry;
            return self.operate(cpu, false);
        };
        (comer.stage, comer.remaining) = (Stage::Act, self.prices.run(time.as_nanos()));
        record.clocked = comer.is_clocked(&self.prices);
        let cost = comer.due(false);
        record.end = self.now.saturating_add(cost);
        if record.end == self.now {
            return self.operate(cpu, true);
        }
        let key = record.key(self.prices.tick, self.period, NEVER);
        arena.agenda.set(cpu, key);
        Ok(())
    }

    /// Somebody else has the CPU: the books of a switch.
    #[inline(always)]
    fn taken(&mut self, cpu: u32, previous: TaskId, state: TaskState, next: TaskId) {
        self.emit(cpu, EventKind::Switch { previous, state, next });
        self.tell_standings([previous, next]);
        self.switches += 1;
        if next != TaskId::IDLE {
            self.flat_come(cpu, next.0);
        }
    }

    /// [`Engine::leave`] of a task that goes to sleep, of a CPU that always is as fast.
    #[inline(always)]
    fn flat_leave(&mut self, cpu: u32, task: u32) {
        let arena = &mut self.arena;
        let (record, left) = (&mut arena.cpus[cpu as usize], &mut arena.tasks[task as usize]);
        let account = &mut arena.accounts[task as usize];
        let ran = self.now - account.since;
        record.busy += ran;
        account.run += ran;
        account.since = self.now;
        account.voluntary += 1;
        left.state = State::Asleep;
        record.end = self.now;
    }

    /// [`Engine::come`] to such a CPU.
    #[inline(always)]
    fn flat_come(&mut self, cpu: u32, task: u32) {
        if matches!(self.arena.tasks[task as usize].op, Op::Busy(_)) {
            return self.come(cpu, task);
        }
        let arena = &mut self.arena;
        let (account, comer) = (&mut arena.accounts[task as usize], &mut arena.tasks[task as usize]);
        let delay = self.now - account.since;
        account.wait += delay;
        account.max_delay = account.max_delay.max(delay);
        account.since = self.now;
        comer.state = State::Running;
        let switches = arena.cpus[cpu as usize].switches;
        if comer.ran_on != cpu || comer.ran_at != switches {
            if !self.prices.free_switches {
                let price = self.prices.switch_on(self.topology, &arena.cpus, comer, cpu, self.alive - 1);
                comer.debt += comer.came(price, self.prices.lingering);
            }
            (comer.ran_on, comer.ran_at) = (cpu, switches + 1);
            arena.cpus[cpu as usize].switches = switches + 1;
        }
        arena.cpus[cpu as usize].current = task;
    }

    /// The end of a computation, the sleep that follows it if one does, and the switch to whoever comes then: [`Engine::operate`]. False,
    /// and nothing done, where something else is complete.
    pub(crate) fn flat_completion(&mut self, cpu: u32) -> Result<bool, SimError> {
        let task = self.arena.cpus[cpu as usize].current;
        let record = &self.arena.tasks[task as usize];
        let (Op::Run(time), Stage::Act) = (record.op, record.stage) else { return Ok(false) };
        if self.sched.need_resched(CpuId(cpu)) {
            return Ok(false);
        }
        self.catch_up(cpu);
        self.count_operation()?;
        let record = &mut self.arena.tasks[task as usize];
        self.arena.accounts[task as usize].user += time.as_nanos();
        record.done();
        record.op = record.cursor.next(self.program);
        record.debt += self.prices.operation;
        match record.op {
            Op::Sleep(time) if record.debt == 0 && self.prices.sleep == 0 => {
                self.count_operation()?;
                self.set_timer(task, time.as_nanos());
                self.flat_sleep(cpu, task)?;
            }
            _ => {
                // It was fetched, but nobody looked at it yet.
                record.stage = Stage::Retry;
                self.operate(cpu, false)?;
            }
        }
        Ok(true)
    }

    /// The running task, whose CPU's ticks were made up for, goes to sleep: [`Engine::switch`] and what follows.
    #[inline(always)]
    fn flat_sleep(&mut self, cpu: u32, task: u32) -> Result<(), SimError> {
        let state = TaskState::Interruptible;
        let record = &mut self.arena.cpus[cpu as usize];
        record.acting_tick = record.next_tick;
        self.sched.set_clocks(CpuId(cpu), Clocks::all(Time::from_nanos(self.now)));
        if self.skips_beside_others && self.sched.looks_at_others(CpuId(cpu), state) {
            self.look_at_all();
        }
        let Some(next) = self.sched.flat_block(CpuId(cpu)) else {
            self.switch(cpu, state);
            return self.operate(cpu, false);
        };
        self.settle_moves(cpu);
        let looked_at = self.sched.take_looked_at().saturating_mul(self.prices.balance);
        self.flat_leave(cpu, task);
        let record = &mut self.arena.cpus[cpu as usize];
        (record.resched_at, record.called, record.leaving) = (NEVER, false, false);
        if next == TaskId::IDLE {
            (record.current, record.next_tick, record.end) = (NONE, NEVER, NEVER);
            (record.acting_tick, record.idle_since) = (NEVER, self.now);
            self.idle += 1;
            self.taken(cpu, task_id(task), state, next);
            self.arena.agenda.set(cpu, Key::NEVER);
            return Ok(());
        }
        self.arena.tasks[next.index()].debt += looked_at;
        self.taken(cpu, task_id(task), state, next);
        self.resume(cpu, next.0)
    }

    /// A CPU's task was told to go by somebody who woke: [`Engine::rescheduled`]. False, and nothing done, where it is to be done the long way.
    pub(crate) fn flat_rescheduled(&mut self, cpu: u32) -> Result<bool, SimError> {
        if self.arena.cpus[cpu as usize].current == NONE {
            return Ok(false);
        }
        self.touch(cpu);
        let Some((previous, next)) = self.sched.flat_preempt(CpuId(cpu)) else { return Ok(false) };
        let looked_at = self.sched.take_looked_at().saturating_mul(self.prices.balance);
        self.flat_switched(cpu, previous, next, looked_at)?;
        Ok(true)
    }

    /// What follows as a CPU scheduled whose task is still runnable; who comes pays for CPUs that were `looked_at`.
    #[inline(always)]
    fn flat_switched(&mut self, cpu: u32, previous: TaskId, next: TaskId, looked_at: u64) -> Result<(), SimError> {
        let record = &mut self.arena.cpus[cpu as usize];
        (record.resched_at, record.called, record.leaving) = (NEVER, false, false);
        if previous == next {
            let left_over = record.suspend(self.now);
            self.arena.tasks[next.index()].interrupted(left_over);
            return self.resume(cpu, next.0);
        }
        self.arena.tasks[next.index()].debt += looked_at;
        self.emit(cpu, EventKind::Switch { previous, state: TaskState::Running, next });
        self.tell_standings([previous, next]);
        self.flat_swap(cpu, previous.0, next.0)
    }

    /// A tick, with those that were put off before it, and the switch to another task if it comes to that; false where it is to be done
    /// the long way.
    ///
    /// Ticks to come that will not act are put off at once, and not only once the first of them is due: nobody asks about a queue that
    /// changes in between ([`Engine::touch`] looks at them anew).
    pub(crate) fn flat_tick(&mut self, cpu: u32) -> Result<bool, SimError> {
        let record = &self.arena.cpus[cpu as usize];
        if record.leaving {
            return Ok(false);
        }
        let (first, due) = (record.next_tick, record.acting_tick);
        let count = if first == due { 1 } else { (due - first) / self.period + 1 };
        let Some(tick) = self.sched.flat_tick(CpuId(cpu), Time::from_nanos(first), count) else { return Ok(false) };
        self.last_tick = (self.now, cpu);
        let record = &mut self.arena.cpus[cpu as usize];
        record.ticked(due, count, self.prices.tick);
        record.next_tick = due + self.period;
        record.acting_tick = record.next_tick.saturating_add(tick.inactive.saturating_mul(self.period)).min(NEVER);
        self.skips_beside_others |= tick.inactive > 0;
        if !tick.scheduled {
            self.refresh(cpu);
            return Ok(true);
        }
        self.flat_switched(cpu, tick.previous, tick.next, 0)?;
        Ok(true)
    }

    /// [`Engine::leave`] of a task that goes on to be runnable, [`Engine::come`] of one that waited, and what it does then, on a CPU that always
    /// is as fast.
    #[inline(always)]
    fn flat_swap(&mut self, cpu: u32, previous: u32, next: u32) -> Result<(), SimError> {
        self.switches += 1;
        let (now, prices) = (self.now, &self.prices);
        let Arena { tasks, accounts, cpus, .. } = &mut self.arena;
        let (record, left, paid) =
            (&mut cpus[cpu as usize], &mut tasks[previous as usize], &mut accounts[previous as usize]);
        let ran = now - paid.since;
        record.busy += ran;
        (paid.run, paid.since, paid.involuntary) = (paid.run + ran, now, paid.involuntary + 1);
        left.interrupted(record.end - now);
        left.state = State::Runnable;
        record.end = now;
        let comer = &mut tasks[next as usize];
        let known = comer.stage == Stage::Act && !matches!(comer.op, Op::Busy(_));
        if !(known && prices.free_switches) {
            self.flat_come(cpu, next);
            return self.resume(cpu, next);
        }
        // As `flat_come` and `resume` do it where a switch costs nothing, in the midst of an operation.
        let account = &mut accounts[next as usize];
        let delay = now - account.since;
        (account.wait, account.max_delay, account.since) = (account.wait + delay, account.max_delay.max(delay), now);
        comer.state = State::Running;
        if comer.ran_on != cpu || comer.ran_at != record.switches {
            record.switches += 1;
            (comer.ran_on, comer.ran_at) = (cpu, record.switches);
        }
        record.current = next;
        record.clocked = comer.is_clocked(prices);
        let cost = comer.due(record.clocked);
        record.end = now.saturating_add(cost);
        if record.end == now {
            return self.operate(cpu, true);
        }
        let key = record.key(prices.tick, self.period, NEVER);
        self.arena.agenda.set(cpu, key);
        Ok(())
    }

    /// [`Engine::operate`] of a task that is back on its CPU, mostly in the midst of an operation.
    #[inline(always)]
    fn resume(&mut self, cpu: u32, task: u32) -> Result<(), SimError> {
        let record = &mut self.arena.tasks[task as usize];
        if matches!(record.stage, Stage::Fetch | Stage::Retry) {
            return self.operate(cpu, false);
        }
        let clocked = record.is_clocked(&self.prices);
        let cost = record.due(clocked);
        let record = &mut self.arena.cpus[cpu as usize];
        record.clocked = clocked;
        record.end = self.now.saturating_add(cost);
        if record.end == self.now {
            return self.operate(cpu, true);
        }
        let key = record.key(self.prices.tick, self.period, NEVER);
        self.arena.agenda.set(cpu, key);
        Ok(())
    }
}
