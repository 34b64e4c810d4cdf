//! CPUs that go off line and come back at given times.

use schedlab_model::{CpuChange, CpuId, EventKind, EventSink, Machine, ModelError, TaskId, TaskState, Time};
use schedlab_program::Program;

use crate::engine::Engine;
use crate::event_queue::{Key, Kind, NEVER};
use crate::wait::NONE;

/// What is not simulated together with CPUs that go off line.
pub(crate) fn check(program: &Program, machine: &Machine) -> Result<(), ModelError> {
    let deadline = program
        .templates()
        .iter()
        .any(|template| template.attributes.as_ref().is_some_and(|attributes| attributes.policy.is_deadline()));
    if machine.changes.is_empty() || !deadline {
        return Ok(());
    }
    Err(ModelError::Machine("changes: CPUs that go off line are not simulated with deadline tasks".to_owned()))
}

impl<S: EventSink> Engine<'_, S> {
    /// When the next CPU changes; before anything else of that instant.
    #[inline]
    pub(crate) fn next_change(&self) -> Key {
        let next = self.changes.first();
        next.map_or(Key::NEVER, |change| Key::new(change.at.as_nanos(), Kind::Completion))
    }

    /// A CPU goes off line or comes back.
    pub(crate) fn change_cpu(&mut self) {
        let Some((change, rest)) = self.changes.split_first() else { return };
        self.changes = rest;
        let cpus = self.arena.cpus.len() as u32;
        (0..cpus).for_each(|cpu| self.touch(cpu));
        let CpuChange { cpu, online, at } = *change;
        debug_assert_eq!(at, Time::from_nanos(self.now));
        if online {
            self.arena.cpus[cpu as usize].online = true;
            self.sched.sched_cpu_activate(CpuId(cpu));
            self.idle += 1;
        } else {
            self.take_off_line(cpu);
        }
        let online = self.arena.cpus.iter().filter(|cpu| cpu.online).count();
        self.sched.set_online_cpus(online as u32);
        (0..cpus).for_each(|cpu| self.settle(cpu));
        self.rouse_others(cpus);
    }

    fn take_off_line(&mut self, cpu: u32) {
        let record = &mut self.arena.cpus[cpu as usize];
        record.online = false;
        if record.current == NONE && record.resched_at == NEVER {
            self.idle -= 1;
        }
        let previous = record.current;
        (record.resched_at, record.called, record.leaving) = (NEVER, false, false);
        (record.clock_held, record.idle_charge, record.roused_at) = (NEVER, 0, NEVER);
        self.sched.sched_cpu_deactivate(CpuId(cpu));
        if previous != NONE {
            self.leave(cpu, previous, TaskState::Running);
            let kind = EventKind::Switch { previous: TaskId(previous), state: TaskState::Running, next: TaskId::IDLE };
            self.emit(cpu, kind);
            self.switches += 1;
            let record = &mut self.arena.cpus[cpu as usize];
            (record.current, record.next_tick, record.end) = (NONE, NEVER, NEVER);
        }
        self.busy_changed(cpu, false);
        let record = &mut self.arena.cpus[cpu as usize];
        record.acting_tick = record.next_tick;
        while let Some((task, to)) = self.sched.balance_push(CpuId(cpu)) {
            self.emit(cpu, EventKind::Migrate { task, from: CpuId(cpu), to });
            self.sched.move_queued_task(task, to);
            let record = &mut self.arena.tasks[task.index()];
            record.cpu = to.0;
            record.debt += self.prices.migration();
            record.account.migrations += 1;
            let exit = self.way_out_of_idle(to.0);
            self.queued(task.0, to.0, cpu, 0, exit);
        }
        self.refresh(cpu);
    }

    /// The CPU itself, or the first that is on line where it is not (`hrtimers_dead_cpu` moves a dead CPU's timers).
    pub(crate) fn online_cpu(&self, cpu: u32) -> u32 {
        if self.arena.cpus[cpu as usize].online {
            return cpu;
        }
        self.arena.cpus.iter().position(|record| record.online).unwrap_or_default() as u32
    }
}
