//! Tasks of flat queues that have computed, and go to sleep.

use schedlab_model::{CpuId, EventSink, TaskId, TaskState};
use schedlab_program::Op;

use crate::SimError;
use crate::engine::{Engine, task_id};
use crate::event_queue::{Key, NEVER};
use crate::task::{Stage, State, Task};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// The end of a computation, the sleep that follows it if one does, and the switch to the next task: [`Engine::operate`].
    #[inline(always)]
    pub(super) fn flat_completion<const FREE: bool, const EEVDF: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        let record = known!(self.arena.cpus[cpu as usize]);
        if record.next_tick <= self.now || (self.skips_beside_others && self.may_sleep::<FREE>(cpu)) {
            return self.flat_completion_after_ticks::<FREE, EEVDF>(cpu);
        }
        self.flat_completed::<FREE, EEVDF>(cpu)
    }

    /// [`Self::flat_completion`] where skipped ticks are to be made up for.
    #[inline(never)]
    fn flat_completion_after_ticks<const FREE: bool, const EEVDF: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        self.catch_up(cpu);
        // Sleep may follow, upon which the CPU may look for other work; where that costs anything, only once it is paid for.
        let looks = self.skips_beside_others && self.may_sleep::<FREE>(cpu) && !self.sched.need_resched(CpuId(cpu));
        if looks && self.sched.looks_at_others(CpuId(cpu), TaskState::Interruptible) {
            self.look_at_all();
        }
        self.flat_completed::<FREE, EEVDF>(cpu)
    }

    /// [`Self::flat_completion`] where no tick is to be made up for.
    #[inline(always)]
    fn flat_completed<const FREE: bool, const EEVDF: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        let arena = &mut self.arena;
        let record = known!(mut arena.cpus[cpu as usize]);
        // Where nothing costs anything, a CPU with `need_resched` schedules at that instant, so that `resched_at` is set.
        debug_assert!(!FREE || record.resched_at != NEVER || !self.sched.need_resched(CpuId(cpu)));
        if (!FREE || record.resched_at != NEVER) && self.sched.need_resched(CpuId(cpu)) {
            return self.completed(cpu);
        }
        let task = record.current;
        let left = &mut arena.tasks[task as usize];
        if !FREE && let (Op::Sleep(time), Stage::Act) = (left.op, left.stage) {
            left.done();
            self.count_operation()?;
            return self.flat_sleep::<FREE, EEVDF>(cpu, task, time.as_nanos().saturating_sub(self.prices.armed()));
        }
        let (Op::Run(time), Stage::Act) = (left.op, left.stage) else { return self.flat_other_completed(cpu) };
        left.account.user += time.as_nanos();
        // It was begun as one that neither slept nor moved anything.
        debug_assert!(!left.slept && left.moved == 0);
        left.stage = Stage::Fetch;
        if !FREE {
            left.debt += self.prices.operation;
        }
        let time = match left.cursor.next_sleep(self.program) {
            Ok(time) => time,
            Err(other) => {
                // It was fetched, but is not planned yet.
                (left.op, left.stage) = (other, Stage::Retry);
                self.count_operation()?;
                return self.operate(cpu, false);
            }
        };
        left.op = Op::Sleep(time);
        if !FREE {
            self.count_operation()?;
            return self.flat_go_to_sleep(cpu, task, time.as_nanos());
        }
        // To go to sleep takes no time, so that both operations end now.
        self.count_operations(2)?;
        self.flat_sleep::<FREE, EEVDF>(cpu, task, time.as_nanos())
    }

    /// The end of a stage that neither computes nor sleeps.
    #[inline(never)]
    fn flat_other_completed(&mut self, cpu: u32) -> Result<(), SimError> {
        let task = known!(self.arena.cpus[cpu as usize]).current;
        match known!(self.arena.tasks[task as usize]) {
            Task { op: Op::Write { channel, bytes }, stage: Stage::Act, .. } => {
                let (channel, bytes) = (*channel, *bytes);
                self.flat_transfer(cpu, channel, |engine| engine.write(task, cpu, channel, bytes))
            }
            Task { op: Op::Read { channel, bytes }, stage: Stage::Act, .. } => {
                let (channel, bytes) = (*channel, *bytes);
                self.flat_transfer(cpu, channel, |engine| engine.read(task, cpu, channel, bytes))
            }
            _ => self.completed(cpu),
        }
    }

    /// [`Engine::operate`] of a task that begins to go to sleep for so long.
    #[inline(always)]
    fn flat_go_to_sleep(&mut self, cpu: u32, task: u32, time: u64) -> Result<(), SimError> {
        let price = self.plan_sleep(cpu, time);
        let (now, prices, arena) = (self.now, &self.prices, &mut self.arena);
        let (record, left) = (known!(mut arena.cpus[cpu as usize]), known!(mut arena.tasks[task as usize]));
        (left.stage, left.remaining) = (Stage::Act, price);
        record.end = now.saturating_add(record.takes_up(now, left, prices));
        if record.end == now {
            return self.operate(cpu, true);
        }
        let key = record.key(prices.tick, self.period);
        let key = self.key_or_hrtick(cpu, key);
        self.arena.agenda.set(cpu, key);
        Ok(())
    }

    /// A task goes to sleep for so long: [`Engine::set_timer`], [`Engine::switch`], and what the CPU does then.
    #[inline(always)]
    fn flat_sleep<const FREE: bool, const EEVDF: bool>(
        &mut self,
        cpu: u32,
        task: u32,
        time: u64,
    ) -> Result<(), SimError> {
        let now = self.now;
        self.arena.timers.push(now, time, task);
        let state = TaskState::Interruptible;
        // The short way reads the clock at the end of the pass.
        if !FREE && self.prices.depart > 0 && self.charges_the_next(cpu) {
            self.switch(cpu, state);
            return self.operate(cpu, false);
        }
        let arena = &mut self.arena;
        let record = known!(mut arena.cpus[cpu as usize]);
        let left = known!(mut arena.tasks[task as usize]);
        let Some(next) = self.sched.flat_block::<EEVDF>(CpuId(cpu)) else {
            record.acting_tick = record.next_tick;
            self.switch(cpu, state);
            return self.operate(cpu, false);
        };
        record.busy += left.account.end_run(now);
        left.account.voluntary += 1;
        left.state = State::Asleep;
        (record.resched_at, record.called, record.leaving, record.clock_held) = (NEVER, false, false, NEVER);
        if next == TaskId::IDLE {
            (record.current, record.next_tick, record.end) = (NONE, NEVER, NEVER);
            record.acting_tick = NEVER;
            if !FREE {
                record.begins_to_idle(now, &self.prices);
                record.tick_stopped = true;
            }
            self.idle += 1;
            arena.agenda.set(cpu, Key::NEVER);
            self.settle_moves(cpu);
            if !FREE {
                // No task pays for the CPUs that were looked at.
                self.sched.take_looked_at();
            }
            self.tell_switch(cpu, task_id(task), state, next);
            return Ok(());
        }
        record.end = now;
        record.acting_tick = record.next_tick;
        self.settle_moves(cpu);
        let looked_at = if FREE { 0 } else { self.sched.take_looked_at().saturating_mul(self.prices.balance) };
        self.tell_switch(cpu, task_id(task), state, next);
        self.flat_come(cpu, next.0);
        if !FREE {
            known!(mut self.arena.tasks[next.index()]).debt += looked_at;
        }
        self.resume::<FREE, EEVDF>(cpu, next.0)
    }

    /// Whether the CPU's task is at an operation upon which it may sleep at once: one that has it sleep or, where sleep takes nothing, that computes.
    #[inline(always)]
    fn may_sleep<const FREE: bool>(&self, cpu: u32) -> bool {
        let task = known!(self.arena.tasks[known!(self.arena.cpus[cpu as usize]).current as usize]);
        if FREE { task.computes() } else { matches!((task.op, task.stage), (Op::Sleep(_), Stage::Act)) }
    }
}
