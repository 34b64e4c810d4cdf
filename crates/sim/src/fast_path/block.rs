//! Tasks of flat queues that have computed, and go to sleep.

use schedlab_model::{CpuId, EventSink, TaskId, TaskState};
use schedlab_program::Op;

use crate::SimError;
use crate::engine::{Engine, task_id};
use crate::event_queue::{Key, NEVER};
use crate::task::{Stage, State};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// The end of a computation, the sleep that follows it if one does, and the switch to whoever comes then: [`Engine::operate`].
    #[inline(always)]
    pub(super) fn flat_completion<const FREE: bool, const EEVDF: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        let record = known!(self.arena.cpus[cpu as usize]);
        if record.next_tick <= self.now || self.skips_beside_others {
            return self.flat_completion_after_ticks::<FREE, EEVDF>(cpu);
        }
        self.flat_completed::<FREE, EEVDF>(cpu)
    }

    /// The same where ticks are to be made up for.
    #[inline(never)]
    fn flat_completion_after_ticks<const FREE: bool, const EEVDF: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        self.catch_up(cpu);
        // Sleep may follow, upon which the CPU may look for other work.
        let looks = self.skips_beside_others && self.computes(cpu) && !self.sched.need_resched(CpuId(cpu));
        if looks && self.sched.looks_at_others(CpuId(cpu), TaskState::Interruptible) {
            self.look_at_all();
        }
        self.flat_completed::<FREE, EEVDF>(cpu)
    }

    /// The same where no tick is.
    #[inline(always)]
    fn flat_completed<const FREE: bool, const EEVDF: bool>(&mut self, cpu: u32) -> Result<(), SimError> {
        let (now, arena) = (self.now, &mut self.arena);
        let record = known!(mut arena.cpus[cpu as usize]);
        // Where nothing costs anything, a CPU that is told to go goes at that instant, and so knows of it.
        debug_assert!(!FREE || record.resched_at != NEVER || !self.sched.need_resched(CpuId(cpu)));
        if (!FREE || record.resched_at != NEVER) && self.sched.need_resched(CpuId(cpu)) {
            return self.completed(cpu);
        }
        let task = record.current;
        let left = &mut arena.tasks[task as usize];
        let (Op::Run(time), Stage::Act) = (left.op, left.stage) else { return self.completed(cpu) };
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
                // It was fetched, but nobody looked at it yet.
                (left.op, left.stage) = (other, Stage::Retry);
                self.count_operation()?;
                return self.operate(cpu, false);
            }
        };
        left.op = Op::Sleep(time);
        if !FREE && (left.debt > 0 || self.prices.sleep | self.prices.next_timer > 0) {
            left.stage = Stage::Retry;
            self.count_operation()?;
            return self.operate(cpu, false);
        }
        // Neither is counted: time passed for the first, and who sleeps for no time counts what it does then.
        // What follows is `set_timer`, `switch` and `leave`.
        arena.timers.push(now, time.as_nanos(), task);
        let state = TaskState::Interruptible;
        let Some(next) = self.sched.flat_block::<EEVDF>(CpuId(cpu)) else {
            record.acting_tick = record.next_tick;
            self.switch(cpu, state);
            return self.operate(cpu, false);
        };
        record.busy += left.account.end_run(now);
        left.account.voluntary += 1;
        left.state = State::Asleep;
        (record.resched_at, record.called, record.leaving) = (NEVER, false, false);
        if next == TaskId::IDLE {
            (record.current, record.next_tick, record.end) = (NONE, NEVER, NEVER);
            record.acting_tick = NEVER;
            if !FREE {
                (record.idle_since, record.masked_until) = (now, now + self.prices.masked());
            }
            self.idle += 1;
            arena.agenda.set(cpu, Key::NEVER);
            self.settle_moves(cpu);
            if !FREE {
                // Nobody pays for looking.
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
        self.resume::<FREE>(cpu, next.0)
    }

    /// Whether the CPU's task is at an operation that computes.
    fn computes(&self, cpu: u32) -> bool {
        self.arena.tasks[self.arena.cpus[cpu as usize].current as usize].computes()
    }
}
