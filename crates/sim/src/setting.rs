//! Tasks that ask to be treated in another way while they run.

use schedlab_model::{Attributes, CpuId, EventKind, EventSink, TaskId, TaskState};
use schedlab_program::{Op, Program, Template, TemplateId};

use crate::SimError;
use crate::engine::{Engine, task_id};
use crate::event_queue::NEVER;
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// Whether a change would change anything of the task: only then it is asked for, as rt-app does.
    pub(crate) fn would_change(&self, task: u32, change: u32) -> bool {
        let change = &self.program.changes()[change as usize];
        let present = self.sched.attributes(task_id(task));
        change.step.apply(&present) != present
            || change.group.is_some_and(|group| self.pools.is_some() && !self.belongs_to(task, group))
    }

    /// `sched_setattr(2)`, `sched_setaffinity(2)` and a move to another group, of the running task by itself.
    pub(crate) fn set(&mut self, task: u32, cpu: u32, change: u32) {
        self.arena.tasks[task as usize].done();
        if !self.would_change(task, change) {
            return;
        }
        let program = self.program;
        let change = &program.changes()[change as usize];
        let present = self.sched.attributes(task_id(task));
        let wanted = change.step.apply(&present);
        if wanted != present {
            if let Err(why) = self.sched.sched_dl_overflow(Some(task_id(task)), &wanted) {
                let template = self.arena.identities[task as usize].template;
                let refused = self.refused(template, why);
                return self.give_up(refused);
            }
            self.apply_attributes(task, &wanted);
        }
        if let Some(group) = change.group {
            self.touch(cpu);
            self.change_group(task, group);
        }
        if !self.sched.task(task_id(task)).may_run_on(CpuId(cpu)) {
            self.migrate_away(task, cpu);
        }
    }

    /// `migration_cpu_stop`: the running task may stay on its CPU no longer and is queued on another, the least busy of those it may
    /// run on, the first of equal ones.
    fn migrate_away(&mut self, task: u32, cpu: u32) {
        let allowed =
            |to: &u32| self.arena.cpus[*to as usize].online && self.sched.task(task_id(task)).may_run_on(CpuId(*to));
        let to = (0..self.arena.cpus.len() as u32).filter(allowed).min_by_key(|to| self.sched.nr_running(CpuId(*to)));
        let Some(to) = to else { return };
        self.look_at_all();
        self.touch(cpu);
        self.touch(to);
        self.sched.stop_current(CpuId(cpu));
        self.leave(cpu, task, TaskState::Running);
        self.emit(cpu, EventKind::Switch { previous: TaskId(task), state: TaskState::Running, next: TaskId::IDLE });
        self.switches += 1;
        let record = &mut self.arena.cpus[cpu as usize];
        (record.current, record.next_tick, record.end) = (NONE, NEVER, NEVER);
        (record.acting_tick, record.resched_at, record.called) = (NEVER, self.now, false);
        record.idle_since = self.now;
        self.busy_changed(cpu, false);
        self.emit(cpu, EventKind::Migrate { task: TaskId(task), from: CpuId(cpu), to: CpuId(to) });
        self.sched.move_queued_task(task_id(task), CpuId(to));
        let record = &mut self.arena.tasks[task as usize];
        (record.cpu, record.remaining) = (to, 0);
        record.debt += self.prices.migration();
        record.account.migrations += 1;
        let exit = self.way_out_of_idle(to);
        self.queued(task, to, cpu, 0, exit);
        // The CPU switches to one of its other tasks.
        self.switch(cpu, TaskState::Running);
    }

    /// A task's attributes change; its CPU is looked at.
    pub(crate) fn apply_attributes(&mut self, task: u32, attributes: &Attributes) {
        let cpu = self.arena.tasks[task as usize].cpu;
        self.look_at_all();
        self.touch(cpu);
        self.sched.sched_setattr(task_id(task), attributes);
        self.tell_affinity(task_id(task));
        self.settle(cpu);
    }

    /// Tells the CPUs on which a task may run, where reasons are asked for.
    pub(crate) fn tell_affinity(&mut self, task: TaskId) {
        if S::EXPLAINS {
            self.sink.affinity(task, &self.sched.attributes(task).affinity);
        }
    }
}

/// Whether a task has a slice of its own, from the beginning or later.
pub(crate) fn asks_for_slices(program: &Program) -> bool {
    let at_first = program.templates().iter().filter_map(|template| template.attributes.as_ref()?.slice);
    let later = program.changes().iter().filter_map(|change| change.step.slice);
    at_first.chain(later).next().is_some()
}

/// Every task must have a CPU to run on.
pub(crate) fn check_affinities(program: &Program, cpus: u32) -> Result<(), SimError> {
    let lost = |allowed: &[u32]| !allowed.is_empty() && allowed.iter().all(|cpu| *cpu >= cpus);
    let at_first = |template: &Template| Some(template.attributes.as_ref()?.affinity.clone()).filter(|list| lost(list));
    let later = |id: u32| {
        program.operations(TemplateId(id)).find_map(|op| match op {
            Op::Set(change) => program.changes()[change as usize].step.affinity.clone().filter(|list| lost(list)),
            _ => None,
        })
    };
    let lost = (0..).zip(program.templates()).find_map(|(id, template)| {
        let allowed = at_first(template).or_else(|| if program.changes().is_empty() { None } else { later(id) })?;
        Some((template, allowed))
    });
    let Some((template, allowed)) = lost else { return Ok(()) };
    let allowed = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    Err(SimError::Affinity { task: template.name.clone(), allowed, last: cpus - 1 })
}
