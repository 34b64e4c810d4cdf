//! Messages on flat queues that are written or read while no task waits at either end of their channel.

use schedlab_model::{CpuId, EventSink};

use crate::SimError;
use crate::engine::Engine;
use crate::event_queue::NEVER;

impl<S: EventSink> Engine<'_, S> {
    /// The end of a transfer, which has this `effect`, and the beginning of the task's next operation: [`Engine::operate`] of a task
    /// without `need_resched`. As no task is woken, no CPU has to reschedule either, and only what this CPU does next is to be recorded.
    #[inline(always)]
    pub(super) fn flat_transfer(
        &mut self,
        cpu: u32,
        channel: u32,
        effect: impl FnOnce(&mut Self),
    ) -> Result<(), SimError> {
        let (record, place) = (known!(self.arena.cpus[cpu as usize]), &self.arena.channels[channel as usize]);
        let (task, waits) = (record.current, !place.readers.is_empty() || !place.writers.is_empty());
        if waits || record.leaving || record.resched_at != NEVER {
            return self.completed(cpu);
        }
        self.count_operation()?;
        effect(self);
        debug_assert!(!self.sched.need_resched(CpuId(cpu)), "nobody was woken");
        self.begin(cpu, task);
        let (now, prices, arena) = (self.now, &self.prices, &mut self.arena);
        let (record, goes_on) = (known!(mut arena.cpus[cpu as usize]), known!(mut arena.tasks[task as usize]));
        record.end = now.saturating_add(record.takes_up(now, goes_on, prices));
        if record.end == now {
            return self.operate(cpu, true);
        }
        let key = record.undisturbed_key(prices.tick, self.period);
        self.arena.agenda.set(cpu, self.key_or_hrtick(cpu, key));
        Ok(())
    }
}
