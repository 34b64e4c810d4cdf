//! The fair class (`kernel/sched/fair.c`, before that `kernel/sched_fair.c`): what CFS and EEVDF share.
//!
//! `cfs.rs` has what is CFS's own (periods, placement, buddies, wake-up granularity), `eevdf.rs` what is EEVDF's (lag,
//! eligibility, deadlines, delayed dequeue).

mod cfs;
pub(crate) mod cfs_rq;
mod eevdf;
mod reweight;
pub mod thread_fairness;
pub(crate) mod timeline;
pub(crate) mod weight;

use schedlab_model::{CpuId, Series, TaskId};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::core::Sched;
use crate::decider::{Decider, Pick, Preemption};
use crate::entity::{CfsRqId, EntityId, Vruntime};
use crate::fair::weight::{calc_delta, calc_delta_mine};

impl<D: Decider> Sched<D> {
    /// `calc_delta_fair`: real time to the virtual time of `se`. Nice 0 runs at the speed of the wall clock.
    #[inline]
    pub(crate) fn calc_delta_fair(&mut self, delta: u64, se: EntityId) -> u64 {
        let nice_0 = self.rules.nice_0_load();
        let old = self.rules.series == Series::V2_6_24;
        let load = &mut self.entities[se.index()].load;
        if load.scaled == nice_0 {
            delta
        } else if old {
            calc_delta_mine(delta, nice_0, *load)
        } else {
            calc_delta(delta, nice_0, load)
        }
    }

    /// `update_curr`: charges the running entity of one queue. EEVDF reschedules it once its request is served.
    pub(crate) fn update_curr_cfs(&mut self, cfs: CfsRqId) {
        if self.charge(cfs) {
            let cpu = self.cfs_rqs[cfs.index()].cpu;
            self.resched_curr(cpu);
        }
    }

    /// `update_curr` but for the rescheduling that it may ask for.
    fn charge(&mut self, cfs: CfsRqId) -> bool {
        let queue = &self.cfs_rqs[cfs.index()];
        let Some(curr) = queue.curr else { return false };
        let rq = &self.rqs[queue.cpu.index()];
        // 2.6.24 has no task clock.
        let now = if self.rules.series == Series::V2_6_24 { rq.clock } else { rq.clock_task };
        let entity = &mut self.entities[curr.index()];
        let delta = now.wrapping_sub(entity.exec_start);
        if delta as i64 <= 0 {
            // 2.6.24 has no such short cut: min_vruntime may have somebody to follow though no time passed.
            if self.rules.series == Series::V2_6_24 {
                self.update_min_vruntime(cfs);
            }
            return false;
        }
        entity.exec_start = now;
        entity.sum_exec_runtime += delta;
        let virtual_delta = self.calc_delta_fair(delta, curr);
        let entity = &mut self.entities[curr.index()];
        entity.vruntime = entity.vruntime.plus(virtual_delta);
        if self.rules.eevdf() {
            return self.served(cfs, curr);
        }
        self.update_min_vruntime(cfs);
        false
    }

    /// `update_curr_fair`.
    pub(crate) fn update_curr_fair(&mut self, cpu: CpuId) {
        let mut level = Some(self.tasks[self.rqs[cpu.index()].curr.index()].se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            level = entity.parent;
            self.update_curr_cfs(entity.cfs_rq);
        }
    }

    /// `update_min_vruntime`: the least `vruntime` of the queue, never going back.
    pub(crate) fn update_min_vruntime(&mut self, cfs: CfsRqId) {
        let queue = &self.cfs_rqs[cfs.index()];
        let running = queue.curr.map(|curr| &self.entities[curr.index()]);
        // 2.6.24 looks at the running entity whether it is still queued or not, and never with none running.
        let keeps_leaving = self.rules.series == Series::V2_6_24;
        let running = running.filter(|entity| entity.on_rq || keeps_leaving).map(|entity| entity.vruntime);
        let least = match (running, queue.timeline.first_key()) {
            (Some(running), Some(first)) => running.min(first),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => return,
        };
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.min_vruntime = queue.min_vruntime.max(least);
    }

    /// `__enqueue_entity`.
    fn timeline_insert(&mut self, cfs: CfsRqId, se: EntityId) {
        if self.rules.eevdf() {
            self.avg_vruntime_add(cfs, se);
        }
        let key = self.key(se);
        let entity = &mut self.entities[se.index()];
        entity.sequence = self.cfs_rqs[cfs.index()].timeline.insert(key, entity.vruntime, entity.slice, se);
    }

    /// What orders the timeline: `vruntime` under CFS, the deadline under EEVDF.
    #[inline]
    fn key(&self, se: EntityId) -> Vruntime {
        let entity = &self.entities[se.index()];
        if self.rules.eevdf() { entity.deadline } else { entity.vruntime }
    }

    /// `__dequeue_entity`.
    fn timeline_remove(&mut self, cfs: CfsRqId, se: EntityId) {
        let (key, sequence) = (self.key(se), self.entities[se.index()].sequence);
        let found = self.cfs_rqs[cfs.index()].timeline.remove(key, sequence);
        debug_assert!(found, "an entity on the queue is in its timeline");
        if self.rules.eevdf() {
            self.avg_vruntime_sub(cfs, se);
        }
    }

    /// `enqueue_entity`.
    fn enqueue_entity(&mut self, cfs: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        if self.rules.eevdf() {
            self.enqueue_entity_eevdf(cfs, se, flags);
            return;
        }
        // 2.6.24 keeps vruntime absolute while a task is off the queue; set_task_cpu moves it between CPUs.
        let relative = self.rules.series != Series::V2_6_24;
        let renormalise = relative && (!flags.has(EnqueueFlags::WAKEUP) || flags.has(EnqueueFlags::MIGRATED));
        let running = self.cfs_rqs[cfs.index()].curr == Some(se);
        if renormalise && running {
            self.renormalise(cfs, se);
        }
        self.update_curr_cfs(cfs);
        if renormalise && !running {
            self.renormalise(cfs, se);
        }
        // From 2.6.26 on the queue counts the entity before it is placed; the order matters to sched_slice alone, which placement
        // of a woken entity does not ask.
        if flags.has(EnqueueFlags::WAKEUP) {
            self.place_entity(cfs, se, false);
        }
        let weight = self.entities[se.index()].load.scaled;
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.load.add(weight);
        queue.nr_running += 1;
        if relative && flags.has(EnqueueFlags::MIGRATED) {
            self.entities[se.index()].exec_start = 0;
        }
        if !running {
            self.timeline_insert(cfs, se);
        }
        self.entities[se.index()].on_rq = true;
    }

    fn renormalise(&mut self, cfs: CfsRqId, se: EntityId) {
        let base = self.cfs_rqs[cfs.index()].min_vruntime.0;
        let entity = &mut self.entities[se.index()];
        entity.vruntime = entity.vruntime.plus(base);
    }

    /// `dequeue_entity`: false if the entity stays queued for a while (EEVDF's delayed dequeue).
    fn dequeue_entity(&mut self, cfs: CfsRqId, se: EntityId, flags: DequeueFlags) -> bool {
        self.update_curr_cfs(cfs);
        self.clear_buddies(cfs, se);
        if self.rules.eevdf() && !self.leaves_with_lag(cfs, se, flags) {
            return false;
        }
        if self.cfs_rqs[cfs.index()].curr != Some(se) {
            self.timeline_remove(cfs, se);
        }
        let entity = &mut self.entities[se.index()];
        entity.on_rq = false;
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.load.subtract(entity.load.scaled);
        queue.nr_running -= 1;
        if self.rules.eevdf() {
            self.keep_relative_deadline(se, flags);
            if flags.has(DequeueFlags::DELAYED) {
                self.finish_delayed_dequeue(se);
            }
            return true;
        }
        if self.rules.series == Series::V2_6_24 {
            return true;
        }
        if !flags.has(DequeueFlags::SLEEP) {
            entity.vruntime = entity.vruntime.minus(queue.min_vruntime.0);
        }
        // With SAVE and not MOVE it comes back at once: advancing now would place it further back than it was.
        if !flags.has(DequeueFlags::SAVE) || flags.has(DequeueFlags::MOVE) {
            self.update_min_vruntime(cfs);
        }
        true
    }

    /// `enqueue_task_fair`.
    pub(crate) fn enqueue_task_fair(&mut self, task: TaskId, mut flags: EnqueueFlags) {
        if flags.has(EnqueueFlags::DELAYED) {
            self.requeue_delayed_entity(self.tasks[task.index()].se);
            return;
        }
        let idle_policy = u32::from(self.tasks[task.index()].has_idle_policy());
        let mut level = Some(self.tasks[task.index()].se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if !entity.on_rq {
                self.enqueue_entity(cfs, se, flags);
            }
            let queue = &mut self.cfs_rqs[cfs.index()];
            queue.h_nr_running += 1;
            queue.idle_h_nr_running += idle_policy;
            flags = EnqueueFlags::WAKEUP;
            level = parent;
        }
    }

    /// `dequeue_task_fair` (`dequeue_entities`): false if the task stays queued for a while.
    pub(crate) fn dequeue_task_fair(&mut self, task: TaskId, mut flags: DequeueFlags) -> bool {
        let idle_policy = u32::from(self.tasks[task.index()].has_idle_policy());
        let mut level = Some(self.tasks[task.index()].se);
        let mut leaves = true;
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if leaves && !self.dequeue_entity(cfs, se, flags) {
                if self.entities[se.index()].task == task {
                    return false;
                }
                leaves = false;
            }
            let queue = &mut self.cfs_rqs[cfs.index()];
            queue.h_nr_running -= 1;
            queue.idle_h_nr_running -= idle_policy;
            // A group stays while anything is on its queue.
            if queue.load.scaled != 0 {
                leaves = false;
            }
            flags = flags.and(DequeueFlags::SLEEP);
            level = parent;
        }
        true
    }

    /// `put_prev_entity` at each level.
    pub(crate) fn put_prev_task_fair(&mut self, task: TaskId) {
        let mut level = Some(self.tasks[task.index()].se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if entity.on_rq {
                self.update_curr_cfs(cfs);
                self.timeline_insert(cfs, se);
            }
            self.cfs_rqs[cfs.index()].curr = None;
            level = parent;
        }
    }

    /// `set_next_entity` at each level.
    pub(crate) fn set_next_task_fair(&mut self, cpu: CpuId, task: TaskId) {
        let rq = &self.rqs[cpu.index()];
        let now = if self.rules.series == Series::V2_6_24 { rq.clock } else { rq.clock_task };
        let mut level = Some(self.tasks[task.index()].se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            self.clear_buddies(cfs, se);
            if self.entities[se.index()].on_rq {
                self.timeline_remove(cfs, se);
                if self.rules.eevdf() {
                    self.set_protect_slice(cfs, se);
                }
            }
            self.cfs_rqs[cfs.index()].curr = Some(se);
            let entity = &mut self.entities[se.index()];
            entity.exec_start = now;
            entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
            level = parent;
        }
    }

    /// `pick_task_fair`: who should run; nothing is changed but the charge of whoever runs.
    ///
    /// The running task takes part while it is runnable (`pick_next_task_fair` with `prev` of the fair class).
    pub(crate) fn pick_task_fair(&mut self, cpu: CpuId) -> Option<TaskId> {
        let root = self.rqs[cpu.index()].cfs;
        loop {
            let candidates = self.cfs_rqs[root.index()].h_nr_running;
            if candidates == 0 {
                return None;
            }
            let ours = self.descend(root)?;
            let naive = self.leftmost(root).map_or(ours, |se| self.entities[se.index()].task);
            let taken = self.decider.pick(Pick { cpu, candidates, naive }, ours);
            let se = self.tasks[taken.index()].se;
            if !self.entities[se.index()].sched_delayed {
                return Some(taken);
            }
            // A delayed entity has become eligible: now it leaves, and the pick starts anew.
            self.dequeue_delayed(cpu, taken);
        }
    }

    /// From the root queue down through groups to the task that should run.
    fn descend(&mut self, root: CfsRqId) -> Option<TaskId> {
        let mut cfs = root;
        loop {
            let curr = self.cfs_rqs[cfs.index()].curr.filter(|curr| self.entities[curr.index()].on_rq);
            if curr.is_some() {
                self.update_curr_cfs(cfs);
            }
            let se = if self.rules.eevdf() { self.pick_eevdf(cfs, true)? } else { self.pick_next_entity(cfs, curr)? };
            match self.entities[se.index()].my_q {
                Some(group) => cfs = group,
                None => return Some(self.entities[se.index()].task),
            }
        }
    }

    /// The first of the timeline and the running entity, the naive rule's choice.
    fn leftmost(&self, cfs: CfsRqId) -> Option<EntityId> {
        let queue = &self.cfs_rqs[cfs.index()];
        let curr = queue.curr.filter(|curr| self.entities[curr.index()].on_rq);
        match (queue.timeline.first(), curr) {
            (Some(first), Some(curr)) if self.key(curr).before(self.key(first)) => Some(curr),
            (Some(first), _) => Some(first),
            (None, curr) => curr,
        }
    }

    /// `task_tick_fair`.
    pub(crate) fn task_tick_fair(&mut self, cpu: CpuId) {
        let mut level = Some(self.tasks[self.rqs[cpu.index()].curr.index()].se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            let served = self.charge(cfs);
            if self.looks_at_slice(cfs) {
                let ours = if self.rules.eevdf() { served } else { self.check_preempt_tick(cfs, se) };
                if self.decider.preempt(Preemption::Tick { cpu }, ours) {
                    self.resched_curr(cpu);
                }
            }
            level = parent;
        }
    }

    /// Whether a tick looks at the running entity's slice: there is somebody else, or (2.6.24) wake-ups do not preempt.
    pub(crate) fn looks_at_slice(&self, cfs: CfsRqId) -> bool {
        self.cfs_rqs[cfs.index()].nr_running > 1
            || (self.rules.series == Series::V2_6_24 && !self.rules.tunables.features.wakeup_preemption)
    }
}
