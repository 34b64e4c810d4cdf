//! Interrupts that have to wait: a CPU takes none from the beginning of the scheduler's pass (`local_irq_disable` in `__schedule`) until
//! the next task has its registers (`finish_task_switch`). A timer that expires within that is served right after it, and interrupts the
//! next task.
//!
//! This concerns sleepers' timers, which decide the order of wake-ups. Ticks are made up for in closed form, and come when they are due.

use schedlab_model::EventSink;
use schedlab_program::Op;

use crate::cpu::Cpu;
use crate::engine::Engine;
use crate::event_queue::NEVER;
use crate::task::Stage;
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// Whether the CPU takes no interrupts now, so that a sleeper's timer has to wait; it is put off until the CPU does.
    #[inline]
    pub(crate) fn comes_masked(&mut self, task: u32, cpu: u32) -> bool {
        if self.prices.schedule == 0 {
            return false;
        }
        let until = self.masked_until(cpu);
        if until <= self.now {
            return false;
        }
        // Who expired first is served first.
        let record = &mut self.arena.cpus[cpu as usize];
        record.put_off_until = until.max(record.put_off_until + 1);
        self.arena.timers.push(self.now, record.put_off_until - self.now, task);
        true
    }

    /// When the CPU takes interrupts again; some time before now where it takes them.
    #[inline]
    fn masked_until(&mut self, cpu: u32) -> u64 {
        let record = &self.arena.cpus[cpu as usize];
        if record.masked_until > self.now {
            return record.masked_until;
        }
        let (switch, pass) = if record.resched_at != NEVER {
            // On its way, or out of idle: the pass comes last.
            let pass = if record.current == NONE { self.prices.idle_schedule } else { self.prices.schedule };
            (record.resched_at, pass)
        } else if record.current == NONE {
            return 0;
        } else {
            // What its task still has to do is known once its ticks are made up for.
            self.catch_up(cpu);
            let Cpu { end, leaving, .. } = self.arena.cpus[cpu as usize];
            // One that departs is leaving; of others at most a pass to sleep is before that.
            if !leaving && end.saturating_sub(self.now) >= self.prices.pass_to_sleep {
                return 0;
            }
            (end, self.pass_before(cpu, end))
        };
        if pass > switch.saturating_sub(self.now) { switch + self.prices.masked().max(1) } else { 0 }
    }

    /// What the scheduler takes for a pass that is over when what the CPU's task is at ends, then.
    fn pass_before(&mut self, cpu: u32, end: u64) -> u64 {
        let Cpu { current, leaving, .. } = self.arena.cpus[cpu as usize];
        if self.departs(current) {
            // All that is left of it.
            return u64::MAX;
        }
        if leaving {
            return self.prices.schedule;
        }
        let task = &self.arena.tasks[current as usize];
        let sleeps = match (task.stage, task.op) {
            // Where it departs after that, it has yet to look.
            (Stage::Block, _) => self.prices.depart == 0,
            (Stage::Act, Op::Sleep(_)) => true,
            (Stage::Act, Op::Delay(until)) => until.as_nanos() > end,
            (Stage::Act, Op::Timer { timer, period }) => self.due(current, timer, period.as_nanos()) > end,
            _ => false,
        };
        if sleeps { self.prices.pass_to_sleep } else { 0 }
    }
}
