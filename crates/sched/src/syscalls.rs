//! `kernel/sched/syscalls.c` (part of `core.c` before 6.10): what tasks ask for, of the scheduler and for one another.

use schedlab_model::{Attributes, CpuId, TaskId};

use crate::bitmap::Bitmap;
use crate::class::{Class, DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::{Life, TaskStruct};
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `do_sched_yield`, but for the `schedule` that follows it.
    pub fn sched_yield(&mut self, cpu: CpuId) {
        match self.curr_class(cpu) {
            Class::Deadline => self.yield_task_dl(cpu),
            Class::Rt => self.yield_task_rt(cpu),
            Class::Fair => self.yield_task_fair(cpu),
            Class::Custom => self.yield_task_custom(cpu),
            Class::Idle => {}
        }
    }

    /// `set_user_nice`: dequeued and queued again around the change of weight, then a look at who should run.
    pub fn set_user_nice(&mut self, task: TaskId, nice: i8) {
        let record = &mut self.tasks[task.index()];
        if record.nice == nice {
            return;
        }
        if record.class <= Class::Rt {
            // It counts once the task is fair again.
            record.nice = nice;
            return;
        }
        let attributes = Attributes { nice, ..self.attributes(task) };
        self.change(task, &attributes, DequeueFlags::SAVE);
    }

    /// `__sched_setscheduler`: policy, priority, nice level, slice and affinity.
    ///
    /// A task that may no longer run where it is queued stays there until the driver moves it ([`Sched::move_queued_task`]).
    /// Attributes that it has already change nothing, except that from 6.12 on a fair task that asks for no slice of its own is
    /// requeued: the slice asked for, 0, is not the one it has.
    pub fn sched_setattr(&mut self, task: TaskId, attributes: &Attributes) {
        let present = self.attributes(task);
        let requeues = self.rules.requeues_without_slice
            && self.tasks[task.index()].class == Class::Fair
            && present.slice.is_none();
        if *attributes == present && !requeues {
            return;
        }
        let affinity_only = attributes.affinity != present.affinity
            && *attributes == Attributes { affinity: attributes.affinity.clone(), ..present };
        if affinity_only && !self.rules.affinity_requeues {
            // set_cpus_allowed leaves a task that may stay where it is.
            self.apply_attributes(task, attributes);
        } else if affinity_only || self.keeps_priority(task, attributes) {
            // __do_set_cpus_allowed
            self.change(task, attributes, DequeueFlags::SAVE);
        } else {
            self.change(task, attributes, DequeueFlags::SAVE.and(DequeueFlags::MOVE));
        }
    }

    /// Whether the change leaves the task's priority as it is, so that its place may stay (from 4.2 on, without DEQUEUE_MOVE).
    fn keeps_priority(&self, task: TaskId, attributes: &Attributes) -> bool {
        let record = &self.tasks[task.index()];
        let changed = TaskStruct { policy: attributes.policy, nice: attributes.nice, ..record.clone() };
        self.rules.unchanged_priority_keeps_place && changed.prio() == record.prio()
    }

    /// What `sched_getattr(2)` and `sched_getaffinity(2)` would say.
    pub fn attributes(&self, task: TaskId) -> Attributes {
        let record = &self.tasks[task.index()];
        let entity = &self.entities[record.se.index()];
        let allowed = |cpu: &u32| record.affinity.as_ref().is_some_and(|allowed| allowed.contains(*cpu as usize));
        Attributes {
            policy: record.policy,
            nice: record.nice,
            slice: entity.custom_slice.then(|| schedlab_model::Time::from_nanos(entity.slice)),
            affinity: (0..self.rqs.len() as u32).filter(allowed).collect(),
        }
    }

    pub(crate) fn change(&mut self, task: TaskId, attributes: &Attributes, flags: DequeueFlags) {
        let record = &self.tasks[task.index()];
        let (cpu, se, old_class) = (record.cpu, record.se, record.class);
        let before = record.prio();
        let class = self.class_of(attributes.policy);
        if class != old_class && self.entities[se.index()].sched_delayed {
            self.dequeue_delayed_by_call(cpu, task);
        }
        let queued = self.task_on_rq_queued(task);
        let running = self.rqs[cpu.index()].curr == task;
        // 2.6.24's set_user_nice leaves the running task set. Without MOVE a real-time task keeps its place in its list.
        let sets_anew = running && (self.rules.renicing_sets_anew || flags.has(DequeueFlags::MOVE));
        let requeues = queued && (old_class == Class::Fair || flags.has(DequeueFlags::MOVE));
        if requeues {
            self.dequeue_task(cpu, task, flags.and(DequeueFlags::NOCLOCK));
            if old_class.is_counted_by_core() {
                self.account_dequeue(cpu);
            }
        }
        if sets_anew {
            self.put_prev_task(cpu, task);
        }
        let normalised = queued || self.tasks[task.index()].life != Life::Asleep || !self.rules.relative_vruntime;
        self.apply_attributes(task, attributes);
        if old_class == Class::Fair && class != Class::Fair {
            self.detach_entity_cfs_rq(se);
        }
        if old_class == Class::Fair && class != Class::Fair && !normalised {
            // detach_task_cfs_rq: a sleeper leaves the fair class with a relative virtual time.
            let cfs = self.entities[se.index()].cfs_rq;
            self.place_entity(cfs, se, false);
            let base = self.cfs_rqs[cfs.index()].min_vruntime.0;
            let entity = &mut self.entities[se.index()];
            entity.vruntime = entity.vruntime.minus(base);
        }
        if class == Class::Fair && old_class != Class::Fair && !normalised {
            // attach_task_cfs_rq
            let base = self.cfs_rqs[self.entities[se.index()].cfs_rq.index()].min_vruntime.0;
            let entity = &mut self.entities[se.index()];
            entity.vruntime = entity.vruntime.plus(base);
        }
        let after = self.tasks[task.index()].prio();
        if requeues {
            let mut enqueue = EnqueueFlags::RESTORE.and(EnqueueFlags::NOCLOCK);
            if flags.has(DequeueFlags::MOVE) {
                enqueue = enqueue.and(EnqueueFlags::MOVE);
            }
            // A task whose priority falls goes before its new equals.
            if after > before && self.rules.lowered_goes_first {
                enqueue = enqueue.and(EnqueueFlags::HEAD);
            }
            self.enqueue_task(cpu, task, enqueue);
            if class.is_counted_by_core() {
                self.account_enqueue(cpu);
            }
        }
        if class == Class::Fair && old_class != Class::Fair && self.tasks[task.index()].life != Life::New {
            self.attach_entity_cfs_rq(se);
        }
        if sets_anew {
            self.set_task_again(cpu, task);
        }
        if !queued {
            return;
        }
        if running && class < old_class {
            self.raise_next_class(cpu, class);
        }
        // switched_from_dl, switched_from_rt, prio_changed_rt: a task that leaves its class, or whose priority falls, makes room.
        let fell = match old_class {
            Class::Deadline => class != old_class && self.rqs[cpu.index()].dl.first().is_none(),
            Class::Rt if class == old_class => running && after > before,
            Class::Rt => self.rqs[cpu.index()].rt.nr_running == 0,
            _ => false,
        };
        self.pull_for_fallen(cpu, old_class, fell);
        if class == Class::Deadline && old_class == Class::Deadline {
            self.prio_changed_dl(cpu, task, running);
            return;
        }
        if !self.rules.prio_changed_methods && !flags.has(DequeueFlags::MOVE) {
            // set_user_nice: reschedules the current task if the task's priority rose, or if it is the current task and its own fell.
            if after < before || (running && after > before) {
                self.resched_curr(cpu);
            }
        } else if self.must_go(cpu, task, old_class, running, before) {
            self.resched_curr(cpu);
        } else if !running
            && (class != old_class || !self.rules.prio_changed_methods || (after != before && !self.alone(cpu, task)))
        {
            if class < Class::Fair {
                self.preempts(cpu, task, false);
            } else {
                self.wakeup_preempt(cpu, task, false);
            }
        }
    }

    /// Whether a running task whose class or priority changed must go: `switched_to` and `prio_changed` of its class.
    fn must_go(&self, cpu: CpuId, task: TaskId, old_class: Class, running: bool, before: i16) -> bool {
        let record = &self.tasks[task.index()];
        let switched = record.class != old_class;
        let falls = record.prio() > before;
        match record.class {
            _ if !running => false,
            _ if !self.rules.prio_changed_methods => falls,
            Class::Fair => switched || (falls && !self.alone(cpu, task)),
            // sched_change_end lets the class that it rose from know as if it had woken (7.0 on).
            class if switched && class < old_class && self.rules.change_tells_lower_class => true,
            // A higher priority waits.
            _ if switched || record.prio() == before => false,
            _ => self.rqs[cpu.index()].rt.first().is_some_and(|first| self.tasks[first.index()].prio() < record.prio()),
        }
    }

    /// Whether a task is the only one of the fair class on `cpu`: then no change of its priority matters (`prio_changed_fair`).
    fn alone(&self, cpu: CpuId, task: TaskId) -> bool {
        self.tasks[task.index()].class == Class::Fair && self.cfs_rq(cpu).nr_in_timeline(&self.rules) == 1
    }

    /// `__setscheduler_params`, `set_load_weight` and `set_cpus_allowed_common`: what a task is to be, off its queue.
    pub(crate) fn apply_attributes(&mut self, task: TaskId, attributes: &Attributes) {
        let cpus = self.rqs.len();
        let record = &self.tasks[task.index()];
        let (was_deadline, was_fair) = (record.policy.is_deadline(), record.class == Class::Fair);
        if attributes.policy.is_deadline() {
            let old = record.dl.filter(|_| was_deadline).map_or(0, |id| self.dl_entities[id.index()].dl_bw);
            self.setparam_dl(task, attributes.policy);
            self.book_dl_bandwidth(self.dl_of(task), old);
        } else if was_deadline {
            let now = self.rqs[record.cpu.index()].clock;
            self.switched_from_dl(task, now);
        }
        let class = self.class_of(attributes.policy);
        let load = self.weight_of(task, attributes.policy, attributes.nice);
        let record = &mut self.tasks[task.index()];
        record.policy = attributes.policy;
        record.class = class;
        self.balance.other_classes |= class < Class::Fair;
        record.nice = attributes.nice;
        record.affinity = (!attributes.affinity.is_empty()).then(|| {
            let mut allowed = Bitmap::new(cpus);
            attributes
                .affinity
                .iter()
                .filter(|cpu| (**cpu as usize) < cpus)
                .for_each(|cpu| allowed.insert(*cpu as usize));
            Box::new(allowed)
        });
        let (record_se, new) = (record.se, record.life == Life::New);
        // set_load_weight: only a task that was fair, for its class is set later, has its lag and its load follow its weight.
        if was_fair && self.rules.single_timeline {
            self.reweight_entity(self.entities[record_se.index()].cfs_rq, record_se, load);
        } else if was_fair {
            if self.rules.eevdf && !new {
                self.rescale_unqueued(record_se, load);
            }
            let cfs = self.entities[record_se.index()].cfs_rq;
            self.reweight_load(cfs, record_se, load.scaled);
        }
        self.set_load_weight(record_se, load);
        if attributes.slice.is_some() {
            self.expect_slices();
        }
        let entity = &mut self.entities[record_se.index()];
        entity.custom_slice = attributes.slice.is_some();
        // __setparam_fair: a slice asked for is kept within 0.1 to 100 ms.
        entity.slice = match attributes.slice {
            Some(slice) => slice.as_nanos().clamp(100_000, 100_000_000),
            None => self.rules.tunables.base_slice.as_nanos(),
        };
    }
}
