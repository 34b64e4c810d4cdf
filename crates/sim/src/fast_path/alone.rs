//! CPUs that go on alone: until something may happen that more than one CPU has a part in, each does its ticks and switches by itself.

use schedlab_model::{CpuId, EventSink, TaskId};
use schedlab_sched::Books;

use crate::arena::Arena;
use crate::cpu::Cpu;
use crate::engine::Engine;
use crate::event_queue::NEVER;
use crate::task::{State, Task};
use crate::wait::NONE;

/// For fewer ticks it is not worth while to find out whether CPUs may go on alone.
const WORTH_WHILE: u64 = 3;

/// Instead of an instant.
const BALANCES: u64 = 0;

impl<S: EventSink> Engine<'_, S> {
    /// When a tick is due: each CPU whose tasks all compute does its ticks alone, up to an instant before which none of its tasks has
    /// another event. True if any CPU did; the caller then has to look up anew which event is first.
    ///
    /// The outcome is the same: no CPU reads what another one's ticks leave before load is balanced. It is not done where the sink listens,
    /// or where a tick or a switch costs time.
    #[inline(never)]
    pub(super) fn flat_alone(&mut self) -> bool {
        if S::LISTENS || !self.prices.are_free() || self.sched.rules().eevdf {
            self.alone_from = u64::MAX;
            return false;
        }
        let soon = self.now + WORTH_WHILE * self.period;
        let horizon = self.horizon(soon);
        // Once the tick that balances load is done, it is to be asked again.
        self.alone_from = if horizon == BALANCES { self.now + 1 } else { horizon.max(soon) };
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

    /// Before this instant nothing happens but ticks, and what they have their own CPUs do. Where that is not `soon` at least, it may be any that is sooner;
    /// [`BALANCES`] where a tick of now balances load.
    fn horizon(&self, soon: u64) -> u64 {
        let (timer, rule) = (self.arena.timers.first().time(), self.sched.next_timer_expires().as_nanos());
        let mut horizon = self.until.min(timer).min(rule);
        if horizon < soon {
            return horizon;
        }
        match self.sched.flat_horizon() {
            Some(balances) if balances <= self.now => return BALANCES,
            Some(balances) => horizon = horizon.min(balances),
            None => return self.now,
        }
        for (cpu, record) in (0..).zip(&self.arena.cpus) {
            if horizon < soon {
                break;
            }
            horizon = horizon.min(self.end_of_any(CpuId(cpu), record, horizon));
        }
        horizon
    }

    /// A tick that balanced load is done, if that was what kept CPUs from going on alone.
    #[inline(always)]
    pub(super) fn balanced(&mut self) {
        if self.alone_from == self.now + 1 {
            self.alone_from = self.now;
        }
    }

    /// No operation of the CPU's tasks ends before this, or before `horizon`; none where they do not all compute.
    fn end_of_any(&self, cpu: CpuId, record: &Cpu, horizon: u64) -> u64 {
        let tasks = &self.arena.tasks;
        if record.current == NONE || record.resched_at != NEVER || record.leaving {
            return self.now;
        }
        if !tasks[record.current as usize].computes() {
            return self.now;
        }
        // Each switch comes with another tick, and the next task is the first of those that wait.
        let comers = (horizon - self.now) / self.period + 1;
        let waiting = self.sched.cfs_rq(cpu).timeline.iter().take(comers as usize);
        let left = waiting.map(|entity| {
            let task = known!(tasks[entity.0 as usize]);
            if task.computes() { task.due_free() } else { 0 }
        });
        self.now.saturating_add(left.fold(u64::MAX, u64::min)).min(record.end)
    }

    /// The ticks of one CPU before `horizon`, as [`Engine::flat_tick`] and [`Engine::flat_switched`] have them. True if there were any.
    fn flat_slices(&mut self, cpu: u32, horizon: u64) -> bool {
        let Arena { tasks, cpus, agenda, .. } = &mut self.arena;
        let record = &mut cpus[cpu as usize];
        let ticks = [record.next_tick, record.acting_tick];
        let mut books = Alone { tasks, record, switches: 0 };
        let Some(done) = self.sched.flat_slices(CpuId(cpu), ticks, horizon, &mut books) else { return false };
        self.switches += books.switches;
        tasks[record.current as usize].state = State::Runnable;
        tasks[done.current.index()].takes(done.current.0, record);
        let [next, acting] = done.ticks;
        (record.next_tick, record.acting_tick) = (next, acting.min(NEVER));
        self.events += done.looked;
        self.skips_beside_others |= done.skipped;
        agenda.set(cpu, record.undisturbed_key(0, self.period));
        true
    }
}

/// The books of a CPU that goes on alone. Its current task is recorded at the end.
struct Alone<'a> {
    tasks: &'a mut [Task],
    record: &'a mut Cpu,
    switches: u64,
}

impl Books for Alone<'_> {
    #[inline(always)]
    fn switched(&mut self, now: u64, previous: TaskId, next: TaskId) {
        self.switches += 1;
        let left = known!(mut self.tasks[previous.index()]);
        self.record.busy += left.account.end_run(now);
        left.account.involuntary += 1;
        left.remaining = self.record.end - now;
        let comer = known!(mut self.tasks[next.index()]);
        comer.account.end_wait(now);
        self.record.end = now.saturating_add(comer.due_free());
    }
}
