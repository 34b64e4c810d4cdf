//! The fair class with a single timeline (85570f10a4c6, 7.3; `kernel/sched/fair.c`): the tasks of all groups stand side by side in the
//! timeline of their CPU's root queue. The levels of the hierarchy below it keep load, averages and bandwidth, and tell which part of the
//! CPU is a task's through all of them: its weight in the timeline (`h_load`, [`Entity::load`](crate::entity::Entity)).

use schedlab_model::{CpuId, Reason, TaskId, TurnRule};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::decider::{Decider, Preemption};
use crate::entity::{CfsRqId, EntityId};
use crate::fair::load::Action;
use crate::machine::Sched;

/// `MIN_SHARES`: what a task weighs in the timeline at least, however small its part.
const MIN_SHARES: u64 = 2;

impl<D: Decider> Sched<D> {
    /// `__calc_prop_weight`: `weight` times the part that an entity is of its queue, or at the top times its weight.
    fn calc_prop_weight(&self, se: EntityId, weight: u64) -> u64 {
        let entity = &self.entities[se.index()];
        let whole = match entity.parent {
            Some(_) => self.cfs_rqs[entity.cfs_rq.index()].load.scaled.max(1),
            None => self.rules.nice_0_load,
        };
        (weight.wrapping_mul(entity.weight) / whole).max(MIN_SHARES)
    }

    /// The part of a queued task through all levels.
    pub(super) fn prop_weight(&self, se: EntityId) -> u64 {
        let (mut level, mut weight) = (Some(se), self.rules.nice_0_load);
        while let Some(se) = level {
            weight = self.calc_prop_weight(se, weight);
            level = self.entities[se.index()].parent;
        }
        weight
    }

    /// `update_curr_eevdf`: charges the current task, on its own level only, also where a task of another group comes or goes
    /// (68e37487810a "sched/fair: Fix flat hierarchy", a fix of the single timeline that 7.3.4 has).
    fn update_curr_eevdf(&mut self, cpu: CpuId) {
        if let Some(curr) = self.cfs_rq(cpu).curr {
            self.update_curr_cfs(self.entities[curr.index()].cfs_rq);
        }
    }

    /// `enqueue_task_fair`, of a task that is not throttled.
    pub(super) fn enqueue_in_timeline(&mut self, task: TaskId, flags: EnqueueFlags) {
        let (cpu, se) = (self.tasks[task.index()].cpu, self.tasks[task.index()].se);
        let root = self.rqs[cpu.index()].cfs;
        self.update_curr_eevdf(cpu);
        if flags.has(EnqueueFlags::DELAYED) {
            return self.requeue_delayed_entity(se);
        }
        self.cfs_tasks_add(cpu, task);
        let first = self.cfs_rq(cpu).h_nr_running == 0;
        let running = self.cfs_rqs[root.index()].curr == Some(se);
        if running {
            self.place_entity_eevdf(root, se, flags);
        }
        let weight = self.enqueue_hierarchy(task, flags);
        if !running {
            self.reweight_eevdf(cpu, se, weight, false);
            self.place_entity_eevdf(root, se, flags.and(EnqueueFlags::QUEUED));
            self.timeline_insert(root, se);
        }
        if first {
            self.first_fair_task(cpu);
        }
        self.hrtick_update(cpu, true);
    }

    /// `enqueue_hierarchy`: a task comes on to each level above it, with what was not queued there yet. Its part through all of them.
    fn enqueue_hierarchy(&mut self, task: TaskId, mut flags: EnqueueFlags) -> u64 {
        let record = &self.tasks[task.index()];
        let (mut idle_policy, mut level) = (u32::from(record.has_idle_policy()), Some(record.se));
        // One that is delayed goes on with that where it comes.
        let delayed = u32::from(self.entity(task).sched_delayed && !flags.has(EnqueueFlags::WAKEUP));
        let mut weight = self.rules.nice_0_load;
        while let Some(se) = level {
            let (cfs, parent) = (self.entities[se.index()].cfs_rq, self.entities[se.index()].parent);
            self.update_curr_cfs(cfs);
            if self.entities[se.index()].on_rq {
                self.update_level(cfs, se);
            } else {
                self.enqueue_on_level(cfs, se, flags);
            }
            let queue = &mut self.cfs_rqs[cfs.index()];
            queue.h_nr_running += 1;
            queue.h_nr_delayed += delayed;
            queue.idle_h_nr_running += idle_policy;
            if queue.idle {
                idle_policy = 1;
            }
            weight = self.calc_prop_weight(se, weight);
            flags = EnqueueFlags::WAKEUP;
            level = parent;
        }
        weight
    }

    /// `enqueue_entity`.
    fn enqueue_on_level(&mut self, cfs: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        self.update_for_enqueue(cfs, se);
        let entity = &mut self.entities[se.index()];
        entity.on_rq = true;
        if flags.has(EnqueueFlags::MIGRATED) {
            entity.exec_start = 0;
        }
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.load.add(entity.weight);
        queue.nr_running += 1;
        if queue.nr_running == 1 {
            self.check_enqueue_throttle(cfs);
            self.throttle_load(cfs, false);
        }
    }

    /// An entity that stays where it is while something came or went below it: its averages and its weight.
    fn update_level(&mut self, cfs: CfsRqId, se: EntityId) {
        self.update_load_avg(cfs, se, Action::UPDATE);
        self.se_update_runnable(se);
        self.update_cfs_group(se);
    }

    /// `__dequeue_task`: false if the task stays queued for a while.
    pub(super) fn dequeue_from_timeline(&mut self, se: EntityId, flags: DequeueFlags) -> bool {
        let level = self.entities[se.index()].cfs_rq;
        let root = self.timeline_queue(se);
        let cpu = self.cfs_rqs[root.index()].cpu;
        self.clear_buddies(root, se);
        self.update_curr_eevdf(cpu);
        self.update_entity_lag(root, se);
        if self.delays_dequeue(root, se, flags) {
            // Until now it was runnable, from now on it is not.
            self.update_load_avg(level, se, Action::default());
            self.set_delayed(se);
            return false;
        }
        self.dequeue_hierarchy(se, flags);
        if self.cfs_rqs[root.index()].curr != Some(se) {
            self.timeline_remove(root, se);
        }
        self.keep_relative_deadline(se, flags);
        self.cfs_tasks_remove(cpu, self.entities[se.index()].task);
        if flags.has(DequeueFlags::DELAYED) {
            self.finish_delayed_dequeue(se);
        }
        true
    }

    /// `dequeue_hierarchy`: a task leaves each level above it, with what is left empty there.
    ///
    /// One that was delayed counts as runnable on the levels until all of them are done (`clear_delayed` comes last), so that a group has one
    /// runnable task less meanwhile than it has.
    fn dequeue_hierarchy(&mut self, se: EntityId, mut flags: DequeueFlags) {
        let throttles = flags.has(DequeueFlags::THROTTLE);
        let leaves_for_good = flags.any(DequeueFlags::SLEEP.and(DequeueFlags::DELAYED));
        let delayed = u32::from(!leaves_for_good && self.entities[se.index()].sched_delayed);
        let mut idle_policy = u32::from(self.se_is_idle(se));
        let mut level = Some(se);
        let mut leaves = true;
        while let Some(se) = level {
            let (cfs, parent) = (self.entities[se.index()].cfs_rq, self.entities[se.index()].parent);
            self.update_curr_cfs(cfs);
            if leaves {
                self.dequeue_from_level(cfs, se, flags);
                leaves = self.cfs_rqs[cfs.index()].load.scaled == 0;
            } else {
                self.update_level(cfs, se);
            }
            let queue = &mut self.cfs_rqs[cfs.index()];
            queue.h_nr_running -= 1;
            queue.h_nr_delayed -= delayed;
            queue.idle_h_nr_running -= idle_policy;
            if queue.idle {
                idle_policy = 1;
            }
            if throttles && queue.throttle_count > 0 {
                self.record_throttle_clock(cfs);
            }
            flags = flags.and(DequeueFlags::SLEEP).without(DequeueFlags::DELAYED.and(DequeueFlags::SPECIAL));
            level = parent;
        }
    }

    /// `dequeue_entity`.
    fn dequeue_from_level(&mut self, cfs: CfsRqId, se: EntityId, flags: DequeueFlags) {
        if self.has_groups() || self.tracks_load {
            let detach = flags.has(DequeueFlags::MIGRATING) && self.entities[se.index()].my_q.is_none();
            self.update_load_avg(cfs, se, Action { detach, ..Action::UPDATE });
            self.se_update_runnable(se);
        }
        let entity = &mut self.entities[se.index()];
        entity.on_rq = false;
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.load.subtract(entity.weight);
        queue.nr_running -= 1;
        self.leave_group(cfs, se);
        let queue = &self.cfs_rqs[cfs.index()];
        if queue.nr_running == 0 && queue.throttle_count > 0 {
            self.throttle_load(cfs, true);
        }
    }

    /// `put_prev_task_fair`: only the levels below those that `next` shares with it change hands, where that is of the fair class.
    pub(super) fn put_prev_in_timeline(&mut self, task: TaskId, next: Option<TaskId>) {
        let own = self.tasks[task.index()].se;
        let (mut level, mut other) = (Some(own), next.map(|next| self.tasks[next.index()].se));
        while let Some(se) = level {
            let (cfs, depth) = (self.entities[se.index()].cfs_rq, self.entities[se.index()].depth);
            level = self.entities[se.index()].parent;
            if other.is_none() || !self.level_is_free(cfs) {
                self.put_prev_level(cfs, se);
            }
            let Some(there) = other else { continue };
            let there = &self.entities[there.index()];
            if there.cfs_rq == cfs {
                break;
            }
            if there.depth >= depth {
                other = there.parent;
                if there.depth > depth {
                    level = Some(se);
                }
            }
        }
        let root = self.timeline_queue(own);
        self.cfs_rqs[root.index()].curr = None;
        if self.entities[own.index()].on_rq {
            self.timeline_insert(root, own);
        }
    }

    /// `put_prev_entity`.
    fn put_prev_level(&mut self, cfs: CfsRqId, se: EntityId) {
        if self.entities[se.index()].on_rq {
            self.update_curr_cfs(cfs);
            self.update_load_avg(cfs, se, Action::default());
        }
        self.set_level_curr(cfs, None);
    }

    /// Sets `h_curr`. A group's queue has it where others have `curr`.
    fn set_level_curr(&mut self, cfs: CfsRqId, se: Option<EntityId>) {
        let is_root = self.rqs[self.cfs_rqs[cfs.index()].cpu.index()].cfs == cfs;
        let queue = &mut self.cfs_rqs[cfs.index()];
        if is_root {
            queue.h_curr = se;
        } else {
            queue.curr = se;
        }
    }

    /// `set_next_task_fair`.
    pub(super) fn set_next_in_timeline(&mut self, task: TaskId, first: bool) {
        let own = self.tasks[task.index()].se;
        let root = self.timeline_queue(own);
        let cpu = self.cfs_rqs[root.index()].cpu;
        let (vruntime, deadline) = (self.entities[own.index()].vruntime, self.entities[own.index()].deadline);
        self.decider.set_next(own, vruntime, deadline);
        self.clear_buddies(root, own);
        let queued = self.entities[own.index()].on_rq;
        if queued {
            self.timeline_remove(root, own);
        }
        let mut level = Some(own);
        let mut throttled = false;
        while let Some(se) = level {
            let (cfs, parent) = (self.entities[se.index()].cfs_rq, self.entities[se.index()].parent);
            if !first || self.level_is_free(cfs) {
                self.set_next_level(cfs, se);
            }
            throttled |= self.account_cfs_rq_runtime(cfs, 0);
            level = parent;
        }
        if throttled {
            self.setup_throttle_work(task);
        }
        self.cfs_rqs[root.index()].curr = Some(own);
        if queued {
            let weight = self.prop_weight(own);
            self.reweight_eevdf(cpu, own, weight, true);
            if first || !self.rules.protects_picks {
                self.set_protect_slice(root, own);
            }
        }
    }

    /// Whether nothing of the level runs.
    fn level_is_free(&self, cfs: CfsRqId) -> bool {
        let queue = &self.cfs_rqs[cfs.index()];
        let is_root = self.rqs[queue.cpu.index()].cfs == cfs;
        if is_root { queue.h_curr.is_none() } else { queue.curr.is_none() }
    }

    /// `set_next_entity`.
    fn set_next_level(&mut self, cfs: CfsRqId, se: EntityId) {
        let now = self.rqs[self.cfs_rqs[cfs.index()].cpu.index()].clock_task;
        if self.entities[se.index()].on_rq {
            self.update_load_avg(cfs, se, Action::UPDATE);
        }
        self.set_level_curr(cfs, Some(se));
        self.entities[se.index()].begin_turn(now);
    }

    /// `task_tick_fair`: each level is charged and brought up to date; the task's part follows.
    pub(super) fn task_tick_levels(&mut self, cpu: CpuId) {
        let own = self.tasks[self.rqs[cpu.index()].curr.index()].se;
        let root = self.rqs[cpu.index()].cfs;
        let mut found = None;
        let mut level = Some(own).filter(|se| self.entities[se.index()].on_rq);
        while let Some(se) = level {
            let (cfs, parent) = (self.entities[se.index()].cfs_rq, self.entities[se.index()].parent);
            found = self.charge_level(cfs, se).or(found);
            level = parent;
        }
        self.reweight_running(cpu);
        if !self.looks_at_slice(root) {
            return;
        }
        let ours = found.is_some_and(TurnRule::preempts);
        self.explain(cpu, move |sched| {
            let by = found.unwrap_or_else(|| sched.turn_left(root, own));
            Reason::Turn { current: sched.candidate(own), tick: true, preempts: ours, by }
        });
        if self.decider.preempt(Preemption::Tick { cpu }, ours) {
            self.resched_curr_lazy(cpu);
        }
    }

    /// The running task's part through all levels, anew.
    pub(super) fn reweight_running(&mut self, cpu: CpuId) {
        let own = self.tasks[self.rqs[cpu.index()].curr.index()].se;
        if self.entities[own.index()].on_rq {
            let weight = self.prop_weight(own);
            self.reweight_eevdf(cpu, own, weight, true);
        }
    }
}
