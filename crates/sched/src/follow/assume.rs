//! The state that a recording begins with: tasks that are there already, as they are, without any rule having brought them there.

use schedlab_model::{CpuId, Policy, TaskId};

use crate::decider::Decider;
use crate::entity::Life;
use crate::fair::weight::Weight;
use crate::machine::Sched;

const NSEC_PER_SEC: u64 = 1_000_000_000;

impl<D: Decider> Sched<D> {
    /// Marks a new task as asleep.
    pub fn assume_asleep(&mut self, task: TaskId, cpu: CpuId) {
        let record = &mut self.tasks[task.index()];
        (record.life, record.cpu) = (Life::Asleep, cpu);
        self.set_task_rq(task, cpu);
    }

    /// [`Sched::assume_asleep`] of a task that has slept for long: its virtual time is so far behind its queue's that CFS places it with all of a
    /// sleeper's credit (`place_entity`). EEVDF places it by its lag, which is none unless it has waited before
    /// ([`Sched::assume_waited`]).
    pub fn assume_long_asleep(&mut self, task: TaskId, cpu: CpuId) {
        self.assume_asleep(task, cpu);
        let entity = &mut self.entities[self.tasks[task.index()].se.index()];
        entity.vruntime = entity.vruntime.minus(NSEC_PER_SEC);
    }

    /// The task was woken again and again before, ran for little each time, and waited for longer than that: it keeps the lag that this comes to
    /// (`update_entity_lag`). None before EEVDF.
    ///
    /// Where it waits for a tick to end the current task's turn, that is all that it may keep; where HRTICK ends that, a slice. RCU's thread
    /// had 3.96 and 3.97 of 4 ms in recordings of 6.12 as a run began, and 0.69 ms of 7.2 with slices of 0.7 ms.
    pub fn assume_waited(&mut self, task: TaskId) {
        let (rules, se) = (&self.rules, self.tasks[task.index()].se);
        if rules.eevdf {
            let entity = &mut self.entities[se.index()];
            let limit = rules.lag_limit(entity.slice, || entity.slice);
            let waited = if rules.tunables.features.hrtick { entity.slice } else { limit };
            entity.vlag = rules.calc_delta_fair(waited, &mut entity.load) as i64;
        }
    }

    /// Queues a new fair task with the virtual time, deadline and weight that its entity has: nothing is placed and no task is
    /// charged. Tasks with equal keys stay in the order in which they are queued. A delayed task (`sched_delayed`) still counts as asleep.
    ///
    /// Groups above it are queued with what their entities have, unless they are already.
    pub fn assume_queued(&mut self, task: TaskId, cpu: CpuId) {
        self.assume_asleep(task, cpu);
        let record = &mut self.tasks[task.index()];
        if !self.entities[record.se.index()].sched_delayed {
            record.life = Life::Runnable;
        }
        let (idle_policy, se) = (u32::from(record.has_idle_policy()), record.se);
        self.cfs_tasks_add(cpu, task);
        let delayed = u32::from(self.entities[se.index()].sched_delayed);
        let mut level = Some(se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, weight, queued) = (entity.cfs_rq, entity.weight, entity.on_rq);
            level = entity.parent;
            if self.rules.single_timeline && !queued {
                self.entities[se.index()].on_rq = true;
                let queue = &mut self.cfs_rqs[cfs.index()];
                queue.load.add(weight);
                queue.nr_running += 1;
            } else if !queued {
                let idle = self.has_groups() && !self.rules.eevdf && self.se_is_idle(se);
                self.timeline_insert(cfs, se);
                self.entities[se.index()].on_rq = true;
                let queue = &mut self.cfs_rqs[cfs.index()];
                queue.load.add(weight);
                queue.nr_running += 1;
                queue.idle_nr_running += u32::from(idle);
            }
            let queue = &mut self.cfs_rqs[cfs.index()];
            queue.h_nr_running += 1;
            queue.h_nr_delayed += delayed;
            queue.idle_h_nr_running += idle_policy;
        }
        if self.rules.single_timeline {
            self.timeline_insert(self.timeline_queue(se), se);
        }
        self.account_enqueue(cpu);
    }

    /// What a task weighs in its timeline, where that is another number than on its level (7.3); it follows at the next occasion that
    /// the kernel takes.
    pub fn assume_timeline_weight(&mut self, task: TaskId, weight: u64) {
        if self.rules.single_timeline {
            let se = self.tasks[task.index()].se;
            self.entities[se.index()].load = Weight { scaled: weight, inverse: 0 };
        }
    }

    /// Gives a task of SCHED_OTHER or SCHED_BATCH the other of both policies, which differ in nothing that is kept.
    pub fn assume_batch(&mut self, task: TaskId, batch: bool) {
        let record = &mut self.tasks[task.index()];
        if matches!(record.policy, Policy::Other | Policy::Batch) {
            record.policy = if batch { Policy::Batch } else { Policy::Other };
        }
    }

    /// Sets or clears `TIF_NEED_RESCHED`, where a recording tells it and what it follows from is not recorded.
    pub fn assume_need_resched(&mut self, cpu: CpuId, need_resched: bool) {
        let rq = &mut self.rqs[cpu.index()];
        (rq.need_resched, rq.lazily) = (need_resched, false);
    }

    /// Sets `TIF_NEED_RESCHED_LAZY` alone, where a recording tells it.
    pub fn assume_need_resched_lazy(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        (rq.need_resched, rq.lazily) = (true, true);
    }
}
