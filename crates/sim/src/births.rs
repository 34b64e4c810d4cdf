//! Tasks are made: those that are there from the start, and those that others make.

use schedlab_model::{CpuId, EventKind, EventSink, TaskId, TaskKind, Time};
use schedlab_program::{Cursor, FORKS_WITHOUT_END, Op, TemplateId};
use schedlab_sched::{Class, SchedError, WakeKind};

use crate::SimError;
use crate::engine::{Engine, task_id};
use crate::groups::Belongs;
use crate::huge_pages;
use crate::task::{Identity, Stage, State, Task};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// Makes and wakes the tasks that are there from the start, on CPU 0's word. Threads among them are those of one process.
    pub(crate) fn start(&mut self) -> Result<(), SimError> {
        let program = self.program;
        let tasks = program.roots().count();
        huge_pages::reserve(&mut self.arena.tasks, tasks);
        self.sched.reserve_tasks(tasks).iter().for_each(huge_pages::prefer);
        let mut host = None;
        for (template, instance) in program.roots() {
            let attributes = program.template(template).attributes.clone().unwrap_or_default();
            self.sched.sched_dl_overflow(None, &attributes).map_err(|why| self.refused(template, why))?;
            let thread = program.template(template).kind == TaskKind::Thread;
            let task = match host {
                Some(other) if thread => self.sched.new_thread(other, &attributes),
                _ => self.sched.new_task(&attributes),
            };
            if thread {
                host = Some(task);
            }
            let cursor = Cursor::root(program, template, instance, self.seed);
            self.add_task(task, cursor, template, instance, NONE);
            self.join_group(task.0);
            if program.template(template).asleep {
                self.begin_asleep(task);
                continue;
            }
            self.emit(0, EventKind::Fork { parent: TaskId::IDLE, child: task });
            self.reweight_threads(task, 0);
            self.wake_new(task, 0);
        }
        Ok(())
    }

    /// A task that was there before sleeps in its first operation; of those that other than sleep it is woken at once.
    fn begin_asleep(&mut self, task: TaskId) {
        let home = CpuId(
            (0..self.arena.cpus.len() as u32).find(|cpu| self.sched.task(task).may_run_on(CpuId(*cpu))).unwrap_or(0),
        );
        self.sched.assume_long_asleep(task, home);
        self.tell_affinity(task);
        self.reweight_threads(task, home.0);
        let record = &mut self.arena.tasks[task.index()];
        (record.cpu, record.state, record.debt) = (home.0, State::Asleep, 0);
        record.op = record.cursor.next(self.program);
        match record.op {
            Op::Sleep(time) => {
                record.done();
                self.set_timer(task.0, time.as_nanos());
            }
            Op::CompleteWrite => self.begin_idle(task.0, home.0),
            Op::Dispatch => self.begin_dispatcher(task.0, home.0),
            Op::EndWriteback => {
                (record.stage, record.slept) = (Stage::Retry, true);
                self.arena.objects.writebacks.begin(task.0);
            }
            Op::GracePeriod => {
                (record.stage, record.slept) = (Stage::Retry, true);
                self.arena.objects.grace_periods.begin(task.0, self.arena.cpus.len());
                self.sched.assume_waited(task);
                self.leave_start(home.0);
            }
            Op::DispatchFlush => {
                (record.stage, record.slept) = (Stage::Retry, true);
                self.arena.objects.flushes.begin(task.0, home.0);
            }
            Op::Timer { timer, period } => {
                let due = self.put_off(task.0, timer, period.as_nanos());
                self.set_timer(task.0, due.saturating_sub(self.now));
            }
            _ => {
                (record.stage, record.slept) = (Stage::Retry, true);
                if !self.wait_sync(task.0) {
                    self.set_timer(task.0, 0);
                }
            }
        }
    }

    pub(crate) fn refused(&self, template: TemplateId, why: SchedError) -> SimError {
        SimError::Refused { task: self.program.template(template).name.clone(), time: Time::from_nanos(self.now), why }
    }

    /// `fork(2)` and the like. What the kernel would refuse ends the run.
    pub(crate) fn fork(&mut self, parent: u32, cpu: u32, template: TemplateId, instance: u32) {
        self.touch(cpu);
        let program = self.program;
        let own = self.arena.identities[parent as usize].template;
        if program.is_fork_too_many(own, template, instance) {
            let task = program.template(own).name.clone();
            return self.give_up(SimError::Forks { task, time: Time::from_nanos(self.now), limit: FORKS_WITHOUT_END });
        }
        if let Err(why) = self.sched.may_fork(task_id(parent)) {
            let refused = self.refused(self.arena.identities[parent as usize].template, why);
            return self.give_up(refused);
        }
        let attributes = program.template(template).attributes.as_ref();
        if let Err(why) = attributes.map_or(Ok(()), |attributes| self.sched.sched_dl_overflow(None, attributes)) {
            let refused = self.refused(template, why);
            return self.give_up(refused);
        }
        let same_process = program.template(template).kind == TaskKind::Thread;
        let real_time = self.sched.task(task_id(parent)).class < Class::Fair;
        let child = match attributes {
            // A real-time parent whose children are ordinary has set SCHED_FLAG_RESET_ON_FORK.
            Some(attributes) if real_time && !same_process && attributes.policy.is_fair() => {
                let child = self.sched.sched_fork_reset(task_id(parent), attributes);
                // The reset leaves it where its parent may run.
                if self.sched.attributes(child).affinity != attributes.affinity {
                    self.sched.sched_setattr(child, attributes);
                }
                child
            }
            _ => {
                let child = self.sched.sched_fork(task_id(parent), same_process);
                if let Some(attributes) = attributes {
                    self.sched.sched_setattr(child, attributes);
                }
                child
            }
        };
        let cursor = self.arena.tasks[parent as usize].cursor.child(program, template, instance);
        self.add_task(child, cursor, template, instance, parent);
        self.join_group(child.0);
        self.emit(cpu, EventKind::Fork { parent: task_id(parent), child });
        self.leave_mappings(program.template(template).kind, cpu);
        self.reweight_threads(child, cpu);
        self.wake_new(child, cpu);
    }

    fn add_task(&mut self, task: TaskId, cursor: Cursor, template: TemplateId, instance: u32, parent: u32) {
        debug_assert_eq!(
            task.index(),
            self.arena.tasks.len(),
            "tasks are numbered in the order in which they are made"
        );
        let above = match parent {
            NONE => Belongs::NOWHERE,
            parent => self.arena.identities[parent as usize].belongs,
        };
        let kind = self.program.template(template).kind;
        // Those that are there from the start have their making behind them.
        let start = if parent == NONE { self.prices.begin(kind) } else { self.prices.start(kind) };
        let background = self.program.template(template).background;
        let debt = if background { 0 } else { start };
        self.arena.tasks.push(Task { debt, background, ..Task::new(cursor, self.now) });
        self.arena.identities.push(Identity {
            template,
            instance,
            kind,
            belongs: Belongs::of(self.program, template, above),
            born: self.now,
            died: self.now,
            parent,
            first_child: NONE,
            last_child: NONE,
            next_sibling: NONE,
        });
        self.arena.links.push(NONE);
        self.open_book();
        self.alive += 1;
        self.awaited += u32::from(!background);
        if parent != NONE {
            let last = std::mem::replace(&mut self.arena.identities[parent as usize].last_child, task.0);
            match last {
                NONE => self.arena.identities[parent as usize].first_child = task.0,
                last => self.arena.identities[last as usize].next_sibling = task.0,
            }
        }
    }

    fn wake_new(&mut self, task: TaskId, cpu: u32) {
        self.tell_affinity(task);
        self.look_at_all();
        let target = self.sched.select_task_rq(task, CpuId(cpu), WakeKind::Fork);
        self.touch(target.0);
        self.arena.tasks[task.index()].cpu = target.0;
        self.sched.wake_up_new_task(task, target);
        self.emit(cpu, EventKind::WakeupNew { task, target });
        let exit = self.way_out_of_idle(target.0);
        self.queued(task.0, target.0, cpu, 0, exit);
        self.settle_moves(cpu);
    }
}
