//! CPUs that go on alone: until something may happen that more than one CPU has a part in, each does its ticks and switches by itself.

use schedlab_model::{CpuId, EventSink, TaskId};

use crate::agenda::NEVER;
use crate::arena::Arena;
use crate::cpu::Cpu;
use crate::engine::Engine;
use crate::task::State;
use crate::wait::NONE;

/// For fewer ticks it is not worth while to find out whether CPUs may go on alone.
const WORTH_WHILE: u64 = 4;

impl<S: EventSink> Engine<'_, S> {
    /// As a tick comes: has each CPU whose tasks all compute do its ticks alone, up to an instant that none of them gets to in any other way. True if
    /// any did; who is first is to be asked anew then.
    ///
    /// Nobody can tell: no CPU reads what another one's ticks leave before load is balanced, and where somebody listens, or a tick or a switch
    /// takes time, it is not done.
    #[inline(never)]
    pub(super) fn flat_alone(&mut self) -> bool {
        if S::LISTENS || !self.prices.are_free() || self.sched.rules().eevdf() {
            self.alone_from = u64::MAX;
            return false;
        }
        let soon = self.now + WORTH_WHILE * self.period;
        let horizon = self.horizon(soon);
        self.alone_from = horizon.max(soon);
        if horizon < soon {
            return false;
        }
        self.arena.agenda.hold();
        let mut any = false;
        for cpu in 0..self.arena.cpus.len() as u32 {
            any |= self.flat_slices(cpu, horizon);
        }
        self.arena.agenda.settle();
        // The one that came is among those that were counted, or comes again.
        self.events -= u64::from(any);
        any
    }

    /// Before this instant nothing happens but ticks, and what they have their own CPUs do. Where that is not `soon` at least, it may be any that is sooner.
    fn horizon(&self, soon: u64) -> u64 {
        let (timer, rule) = (self.arena.timers.first().time(), self.sched.next_timer_expires().as_nanos());
        let mut horizon = self.until.min(timer).min(rule);
        if horizon < soon {
            return horizon;
        }
        horizon = horizon.min(self.sched.flat_horizon().unwrap_or(0));
        for (cpu, record) in (0..).zip(&self.arena.cpus) {
            if horizon < soon {
                break;
            }
            horizon = horizon.min(self.end_of_any(CpuId(cpu), record, horizon));
        }
        horizon
    }

    /// No operation of the CPU's tasks ends before this, or before `horizon`; 0 where they do not all compute.
    fn end_of_any(&self, cpu: CpuId, record: &Cpu, horizon: u64) -> u64 {
        let tasks = &self.arena.tasks;
        if record.current == NONE || record.resched_at != NEVER || record.leaving {
            return 0;
        }
        if !tasks[record.current as usize].computes() {
            return 0;
        }
        // Each switch comes with another tick, and whoever comes is the first of those that wait.
        let comers = (horizon - self.now) / self.period + 1;
        let waiting = self.sched.cfs_rq(cpu).timeline.iter().take(comers as usize);
        let ends = waiting.map(|entity| {
            let task = &tasks[entity.0 as usize];
            if task.computes() { self.now.saturating_add(task.remaining) } else { 0 }
        });
        ends.fold(record.end, u64::min)
    }

    /// The ticks of one CPU before `horizon`, as [`Engine::flat_tick`] and [`Engine::flat_switched`] have them. True if there were any.
    fn flat_slices(&mut self, cpu: u32, horizon: u64) -> bool {
        let Arena { tasks, cpus, agenda, .. } = &mut self.arena;
        let record = &mut cpus[cpu as usize];
        let (ticks, switches) = ([record.next_tick, record.acting_tick], &mut self.switches);
        let switched = |now: u64, previous: TaskId, next: TaskId| {
            *switches += 1;
            let left = &mut tasks[previous.index()];
            record.busy += left.account.end_run(now);
            left.account.involuntary += 1;
            left.remaining = record.end - now;
            left.state = State::Runnable;
            let comer = &mut tasks[next.index()];
            comer.account.end_wait(now);
            comer.takes(next.0, record);
            record.end = now.saturating_add(comer.due(false));
        };
        let Some(done) = self.sched.flat_slices(CpuId(cpu), ticks, horizon, switched) else { return false };
        let [next, acting] = done.ticks;
        (record.next_tick, record.acting_tick) = (next, acting.min(NEVER));
        self.events += done.looked;
        self.skips_beside_others |= done.skipped;
        agenda.set(cpu, record.undisturbed_key(0, self.period));
        true
    }
}
