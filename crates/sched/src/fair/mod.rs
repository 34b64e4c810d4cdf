//! The fair class (`kernel/sched/fair.c`, before that `kernel/sched_fair.c`): what CFS and EEVDF share.
//!
//! `rules/` has each formula once; `cfs.rs` has the sequences that are CFS's own (placement, buddies, preemption), `eevdf.rs` EEVDF's
//! (placement, delayed dequeue).

mod attach;
pub(crate) mod bandwidth;
mod cfs;
pub(crate) mod cfs_rq;
mod eevdf;
mod eevdf_wakeup;
pub(crate) mod group;
mod hierarchy;
mod limit;
pub(crate) mod load;
pub mod pelt;
mod pick;
mod reweight;
pub(crate) mod rules;
pub mod thread_fairness;
mod throttle;
pub(crate) mod timeline;
pub(crate) mod weight;

use schedlab_model::{CpuId, Reason, TaskId, TurnRule};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::decider::{Decider, Preemption};
use crate::entity::{CfsRqId, EntityId, Vruntime};
use crate::fair::load::Action;
use crate::fair::weight::{Weight, calc_delta, calc_delta_mine};
use crate::machine::Sched;
use crate::rules::Rules;

impl Rules {
    /// [`Sched::calc_delta_fair`] of an entity that weighs `load`.
    #[inline(always)]
    pub(crate) fn calc_delta_fair(&self, delta: u64, load: &mut Weight) -> u64 {
        if load.scaled == self.nice_0_load { delta } else { self.calc_delta_of(delta, load) }
    }

    /// [`Rules::calc_delta_fair`] for a weight other than nice 0's.
    fn calc_delta_of(&self, delta: u64, load: &mut Weight) -> u64 {
        let nice_0 = self.nice_0_load;
        if !self.calc_delta_cuts_off {
            calc_delta_mine(delta, nice_0, *load)
        } else if self.full_weights {
            delta.wrapping_mul(nice_0) / load.scaled.max(1)
        } else {
            calc_delta(delta, nice_0, load)
        }
    }
}

impl<D: Decider> Sched<D> {
    /// Whether there are groups at all; flat queues skip what only groups need.
    #[inline]
    pub(crate) fn has_groups(&self) -> bool {
        self.groups.len() > 1
    }

    /// `calc_delta_fair`: real time to the virtual time of `se`. Nice 0 runs at the speed of the wall clock.
    #[inline]
    pub(crate) fn calc_delta_fair(&mut self, delta: u64, se: EntityId) -> u64 {
        self.rules.calc_delta_fair(delta, &mut self.entities[se.index()].load)
    }

    /// `update_curr`: charges the running entity of one queue. EEVDF reschedules it once its request is served.
    #[inline]
    pub(crate) fn update_curr_cfs(&mut self, cfs: CfsRqId) {
        if let Some(by) = self.charge(cfs) {
            self.end_turn(cfs, by);
        }
    }

    /// Apart, as most charges end no turn.
    #[inline(never)]
    fn end_turn(&mut self, cfs: CfsRqId, by: TurnRule) {
        let cpu = self.cfs_rqs[cfs.index()].cpu;
        self.explain(cpu, move |sched| sched.turn_over(cfs, by));
        self.resched_curr_lazy(cpu);
    }

    /// `update_curr` but for the rescheduling that it may ask for: why, if it does.
    fn charge(&mut self, cfs: CfsRqId) -> Option<TurnRule> {
        let queue = &self.cfs_rqs[cfs.index()];
        let curr = queue.level_curr()?;
        let rq = &self.rqs[queue.cpu.index()];
        // 2.6.24 has no task clock.
        let now = if self.rules.task_clock { rq.clock_task } else { rq.clock };
        let entity = &mut self.entities[curr.index()];
        // With a single timeline (7.3) a group has no place in it: only its time is kept.
        let timeless = self.rules.single_timeline && entity.my_q.is_some();
        let charged = if timeless { entity.update_time(now) } else { entity.update_se(now, &self.rules) };
        let Some(delta) = charged else {
            // 2.6.24 has no such short cut: min_vruntime may have an entity to follow though no time passed.
            if !self.rules.charges_time_only {
                self.update_min_vruntime(cfs);
            }
            return None;
        };
        if self.entities[curr.index()].my_q.is_none() {
            self.dl_server_update(self.cfs_rqs[cfs.index()].cpu, delta);
        }
        if self.cfs_rqs[cfs.index()].runtime_enabled {
            self.account_cfs_rq_runtime(cfs, delta);
        }
        if timeless {
            return None;
        }
        if self.rules.single_timeline {
            return self.served(self.timeline_queue(curr), curr);
        }
        if self.rules.eevdf {
            return self.served(cfs, curr);
        }
        self.update_min_vruntime(cfs);
        None
    }

    /// The queue in whose timeline an entity stands: that of its level, since 7.3 its CPU's.
    #[inline]
    pub(crate) fn timeline_queue(&self, se: EntityId) -> CfsRqId {
        let level = self.entities[se.index()].cfs_rq;
        if self.rules.single_timeline { self.rqs[self.cfs_rqs[level.index()].cpu.index()].cfs } else { level }
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
        let keeps_leaving = !self.rules.min_vruntime_of_queued;
        let running = running.filter(|entity| entity.on_rq || keeps_leaving).map(|entity| entity.vruntime);
        self.cfs_rqs[cfs.index()].update_min_vruntime(running);
    }

    /// `__enqueue_entity`.
    pub(crate) fn timeline_insert(&mut self, cfs: CfsRqId, se: EntityId) {
        let key = self.key(se);
        let (queue, entity) = (&mut self.cfs_rqs[cfs.index()], &mut self.entities[se.index()]);
        if self.rules.eevdf {
            queue.sum_w_vruntime_add(entity, &self.rules);
        }
        entity.sequence = queue.timeline.insert(key, entity.vruntime, entity.slice, se);
        self.move_origin(cfs);
    }

    /// `update_zero_vruntime` of 6.18 up to 6.18.16, as an entity joined the timeline or left it: one that is put back counts twice, for it is still
    /// the running one.
    #[inline]
    fn move_origin(&mut self, cfs: CfsRqId) {
        if self.rules.eevdf && !self.rules.origin_follows_v {
            let queue = &self.cfs_rqs[cfs.index()];
            let key = queue.average_key(queue.running(&self.entities).map(|(_, running)| running), &self.rules);
            self.cfs_rqs[cfs.index()].update_zero_vruntime(key);
        }
    }

    /// What orders the timeline: `vruntime` under CFS, the deadline under EEVDF.
    #[inline]
    fn key(&self, se: EntityId) -> Vruntime {
        let entity = &self.entities[se.index()];
        if self.rules.eevdf { entity.deadline } else { entity.vruntime }
    }

    /// `__dequeue_entity`.
    pub(crate) fn timeline_remove(&mut self, cfs: CfsRqId, se: EntityId) {
        let (key, sequence) = (self.key(se), self.entities[se.index()].sequence);
        let queue = &mut self.cfs_rqs[cfs.index()];
        let found = queue.timeline.remove(key, sequence);
        debug_assert!(found, "an entity on the queue is in its timeline");
        if self.rules.eevdf {
            queue.sum_w_vruntime_sub(&self.entities[se.index()], &self.rules);
        }
        self.move_origin(cfs);
    }

    /// `enqueue_entity`.
    fn enqueue_entity(&mut self, cfs: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        if self.rules.eevdf {
            self.enqueue_entity_eevdf(cfs, se, flags);
            return;
        }
        // 2.6.24 keeps vruntime absolute while a task is off the queue; set_task_cpu moves it between CPUs.
        let relative = self.rules.relative_vruntime;
        let renormalise = relative && (!flags.has(EnqueueFlags::WAKEUP) || flags.has(EnqueueFlags::MIGRATED));
        let running = self.cfs_rqs[cfs.index()].curr == Some(se);
        if renormalise && running {
            self.renormalise(cfs, se);
        }
        self.update_curr_cfs(cfs);
        if renormalise && !running {
            self.renormalise(cfs, se);
        }
        self.update_for_enqueue(cfs, se);
        // From 2.6.26 on the queue counts the entity before it is placed; the order matters to sched_slice alone, which placement
        // of a woken entity does not ask.
        if flags.has(EnqueueFlags::WAKEUP) {
            self.place_entity(cfs, se, false);
        }
        let idle = self.has_groups() && self.se_is_idle(se);
        self.cfs_rqs[cfs.index()].idle_nr_running += u32::from(idle);
        self.account_entity_enqueue(cfs, se, relative && flags.has(EnqueueFlags::MIGRATED));
    }

    /// The end of `enqueue_entity`: the entity is counted (`account_entity_enqueue`), and waits in its place unless it runs. One that `moved`
    /// here has not run here.
    #[inline]
    fn account_entity_enqueue(&mut self, cfs: CfsRqId, se: EntityId, moved: bool) {
        let (queue, entity) = (&mut self.cfs_rqs[cfs.index()], &mut self.entities[se.index()]);
        queue.load.add(entity.weight);
        queue.nr_running += 1;
        if moved {
            entity.exec_start = 0;
        }
        if queue.curr != Some(se) {
            self.timeline_insert(cfs, se);
        }
        self.entities[se.index()].on_rq = true;
        if self.cfs_rqs[cfs.index()].nr_running == 1 {
            self.check_enqueue_throttle(cfs);
        }
    }

    /// What `enqueue_entity` does for load tracking and for a group's weight before it counts the entity.
    #[inline]
    fn update_for_enqueue(&mut self, cfs: CfsRqId, se: EntityId) {
        if self.has_groups() || self.tracks_load {
            self.update_load_avg(cfs, se, Action { update_group: true, attach: true, detach: false });
            self.se_update_runnable(se);
            self.update_cfs_group(se);
        }
    }

    fn renormalise(&mut self, cfs: CfsRqId, se: EntityId) {
        let base = self.cfs_rqs[cfs.index()].min_vruntime.0;
        let entity = &mut self.entities[se.index()];
        entity.vruntime = entity.vruntime.plus(base);
    }

    /// `dequeue_entity`: false if the entity stays queued for a while (EEVDF's delayed dequeue).
    fn dequeue_entity(&mut self, cfs: CfsRqId, se: EntityId, flags: DequeueFlags) -> bool {
        self.update_curr_cfs(cfs);
        let eevdf = self.rules.eevdf;
        self.clear_buddies(cfs, se);
        if eevdf && self.delays_dequeue(cfs, se, flags) {
            // Until now it was runnable, from now on it is not.
            self.update_load_avg(cfs, se, Action::default());
            if self.rules.bounds_lag_while_delayed {
                self.update_entity_lag(cfs, se);
            }
            self.set_delayed(se);
            return false;
        }
        if self.has_groups() || self.tracks_load {
            let detach = flags.has(DequeueFlags::MIGRATING) && self.entities[se.index()].my_q.is_none();
            self.update_load_avg(cfs, se, Action { detach, ..Action::UPDATE });
            self.se_update_runnable(se);
        }
        if eevdf {
            self.update_entity_lag(cfs, se);
        }
        if self.cfs_rqs[cfs.index()].curr != Some(se) {
            self.timeline_remove(cfs, se);
        }
        if self.entities[se.index()].my_q.is_none() {
            let (cpu, task) = (self.cfs_rqs[cfs.index()].cpu, self.entities[se.index()].task);
            self.cfs_tasks_remove(cpu, task);
        }
        let idle = self.has_groups() && !eevdf && self.se_is_idle(se);
        let entity = &mut self.entities[se.index()];
        entity.on_rq = false;
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.load.subtract(entity.weight);
        queue.nr_running -= 1;
        queue.idle_nr_running -= u32::from(idle);
        if eevdf {
            self.keep_relative_deadline(se, flags);
            self.leave_group(cfs, se);
            if flags.has(DequeueFlags::DELAYED) {
                self.finish_delayed_dequeue(se);
            }
            let queue = &self.cfs_rqs[cfs.index()];
            if self.rules.throttles_tasks && queue.nr_running == 0 && queue.throttle_count > 0 {
                self.throttle_load(cfs, true);
            }
            return true;
        }
        if !self.rules.relative_vruntime {
            return true;
        }
        if !flags.has(DequeueFlags::SLEEP) {
            entity.vruntime = entity.vruntime.minus(queue.min_vruntime.0);
        }
        self.leave_group(cfs, se);
        // With SAVE and not MOVE it comes back at once: advancing now would place it further back than it was.
        if !flags.has(DequeueFlags::SAVE) || flags.has(DequeueFlags::MOVE) {
            self.update_min_vruntime(cfs);
        }
        true
    }

    /// What `dequeue_entity` does for bandwidth and for a group's weight once the entity is off.
    #[inline]
    fn leave_group(&mut self, cfs: CfsRqId, se: EntityId) {
        if self.has_groups() {
            self.return_cfs_rq_runtime(cfs);
            self.update_cfs_group(se);
        }
    }

    /// `enqueue_task_fair`.
    pub(crate) fn enqueue_task_fair(&mut self, task: TaskId, mut flags: EnqueueFlags) {
        self.decider.enqueues();
        if self.tasks[task.index()].throttled && self.enqueue_throttled_task(task) {
            return;
        }
        self.expect_util_of(task, flags);
        if self.rules.single_timeline {
            return self.enqueue_in_timeline(task, flags);
        }
        if flags.has(EnqueueFlags::DELAYED) {
            self.requeue_delayed_entity(self.tasks[task.index()].se);
            return;
        }
        let cpu = self.tasks[task.index()].cpu;
        self.cfs_tasks_add(cpu, task);
        // A delayed task stays delayed on the queue that it is moved to.
        let delayed = u32::from(self.entity(task).sched_delayed);
        let first = self.cfs_rq(cpu).h_nr_running == 0;
        let mut idle_policy = u32::from(self.tasks[task.index()].has_idle_policy());
        let mut level = Some(self.tasks[task.index()].se);
        let mut joins = true;
        let mut slice = None;
        while let Some(se) = level {
            let entity = &mut self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if joins && entity.on_rq {
                joins = false;
                if entity.sched_delayed {
                    self.requeue_delayed_entity(se);
                }
            }
            if joins {
                if let Some(slice) = slice {
                    let entity = &mut self.entities[se.index()];
                    (entity.slice, entity.custom_slice) = (slice, true);
                }
                self.enqueue_entity(cfs, se, flags);
            } else {
                self.update_group_entity(cfs, se, slice);
            }
            if parent.is_some() && self.rules.eevdf {
                slice = Some(self.min_slice(cfs));
            }
            let queue = &mut self.cfs_rqs[cfs.index()];
            queue.h_nr_running += 1;
            queue.h_nr_delayed += delayed;
            queue.idle_h_nr_running += idle_policy;
            if queue.idle {
                idle_policy = 1;
            }
            if queue.throttled && !self.rules.throttles_tasks {
                // It is not the CPU's to run until then: what core counts is taken back.
                let rq = &mut self.rqs[queue.cpu.index()];
                rq.nr_running = rq.nr_running.wrapping_sub(1);
                self.hrtick_update(cpu, true);
                return;
            }
            flags = EnqueueFlags::WAKEUP;
            level = parent;
        }
        if first {
            self.first_fair_task(cpu);
        }
        self.hrtick_update(cpu, true);
    }

    /// `dequeue_task_fair`: false if the task stays queued for a while.
    pub(crate) fn dequeue_task_fair(&mut self, task: TaskId, flags: DequeueFlags) -> bool {
        if self.tasks[task.index()].throttled {
            self.dequeue_throttled_task(task, flags);
            return true;
        }
        self.expect_no_util_of(task, flags);
        let idle_policy = u32::from(self.tasks[task.index()].has_idle_policy());
        let leaves = self.dequeue_entities(self.tasks[task.index()].se, flags, idle_policy);
        self.learn_util_of(task, flags);
        if leaves {
            self.hrtick_update(self.tasks[task.index()].cpu, false);
        }
        leaves
    }

    /// `dequeue_entities`: a task, or a group whose dequeue was delayed (EEVDF), and what is left empty above it.
    fn dequeue_entities(&mut self, se: EntityId, mut flags: DequeueFlags, mut idle_policy: u32) -> bool {
        if self.rules.single_timeline {
            return self.dequeue_from_timeline(se, flags);
        }
        let first = se;
        let tasks = u32::from(self.entities[se.index()].my_q.is_none());
        let sleeps = flags.has(DequeueFlags::SLEEP);
        let throttles_tasks = self.rules.throttles_tasks;
        let throttles = flags.has(DequeueFlags::THROTTLE);
        let moves = !sleeps && !flags.has(DequeueFlags::DELAYED);
        let delayed = if moves && self.entities[se.index()].sched_delayed { tasks } else { 0 };
        let mut level = Some(se);
        let mut leaves = true;
        let mut slice = None;
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if leaves && !self.dequeue_entity(cfs, se, flags) {
                if se == first {
                    return false;
                }
                leaves = false;
            }
            if !leaves {
                self.update_group_entity(cfs, se, slice);
            }
            let queue = &mut self.cfs_rqs[cfs.index()];
            queue.h_nr_running -= tasks;
            queue.h_nr_delayed -= delayed;
            queue.idle_h_nr_running -= idle_policy;
            if queue.idle {
                idle_policy = tasks;
            }
            if queue.throttled && !throttles_tasks {
                // It was not counted.
                let rq = &mut self.rqs[queue.cpu.index()];
                rq.nr_running = rq.nr_running.wrapping_add(tasks);
                return true;
            }
            // A group stays while anything is on its queue.
            let stays = queue.load.scaled != 0;
            if throttles && queue.throttle_count > 0 {
                self.record_throttle_clock(cfs);
            }
            if let Some(parent) = parent
                && (stays || !leaves)
            {
                if leaves && sleeps && (throttles_tasks || !self.throttled_hierarchy(cfs)) {
                    self.set_next_buddy(parent);
                }
                if self.rules.eevdf {
                    slice = Some(self.min_slice(cfs));
                }
            }
            leaves &= !stays;
            flags = flags.and(DequeueFlags::SLEEP).without(DequeueFlags::DELAYED.and(DequeueFlags::SPECIAL));
            level = parent;
        }
        true
    }

    /// An entity that stays where it is while something came or went below it: its load, its weight, and (EEVDF) its slice, the
    /// shortest of its queue.
    fn update_group_entity(&mut self, cfs: CfsRqId, se: EntityId, slice: Option<u64>) {
        self.update_load_avg(cfs, se, Action::UPDATE);
        self.se_update_runnable(se);
        self.update_cfs_group(se);
        let Some(slice) = slice else { return };
        self.set_group_slice(cfs, se, slice);
    }

    /// A queued group's slice becomes this one.
    pub(crate) fn set_group_slice(&mut self, cfs: CfsRqId, se: EntityId, slice: u64) {
        let (key, waits) = (self.key(se), self.cfs_rqs[cfs.index()].curr != Some(se));
        let entity = &mut self.entities[se.index()];
        entity.slice = slice;
        if waits && entity.on_rq {
            self.cfs_rqs[cfs.index()].timeline.set_slice(key, entity.sequence, slice);
        }
    }

    /// `task_tick_fair`.
    pub(crate) fn task_tick_fair(&mut self, cpu: CpuId) {
        if self.rules.single_timeline {
            return self.task_tick_levels(cpu);
        }
        let mut level = Some(self.tasks[self.rqs[cpu.index()].curr.index()].se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            let over = self.charge_level(cfs, se);
            if self.looks_at_slice(cfs) && (self.rules.eevdf || !self.hrtick_ends_slices(cpu)) {
                let found = if self.rules.eevdf { over } else { Some(self.check_preempt_tick(cfs, se)) };
                let ours = found.is_some_and(TurnRule::preempts);
                self.explain(cpu, move |sched| {
                    let by = found.unwrap_or_else(|| sched.turn_left(cfs, se));
                    Reason::Turn { current: sched.candidate(se), tick: true, preempts: ours, by }
                });
                if self.decider.preempt(Preemption::Tick { cpu }, ours) {
                    self.resched_curr_lazy(cpu);
                }
            }
            level = parent;
        }
    }

    /// `task_tick_fair` from the high-resolution tick, which came for the end of the slice: no need to ask whether that is so.
    pub(crate) fn queued_tick_fair(&mut self, cpu: CpuId) {
        let own = self.tasks[self.rqs[cpu.index()].curr.index()].se;
        // With a single timeline (7.3) a task that was throttled, and runs on until the CPU reschedules, has no tick.
        if self.rules.single_timeline && !self.entities[own.index()].on_rq {
            return;
        }
        let mut level = Some(own);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            self.charge_level(cfs, se);
            level = parent;
        }
        self.resched_curr(cpu);
        if self.rules.single_timeline {
            self.reweight_running(cpu);
        }
    }

    /// What a tick does on each level before it looks at slices: why the turn is over, if it is (EEVDF).
    fn charge_level(&mut self, cfs: CfsRqId, se: EntityId) -> Option<TurnRule> {
        let over = self.charge(cfs);
        if self.has_groups() || self.tracks_load {
            self.update_load_avg(cfs, se, Action::UPDATE);
            self.update_cfs_group(se);
        }
        over
    }

    /// Whether a tick checks the running entity's slice: other entities are queued, or (2.6.24) wake-ups do not preempt.
    pub(crate) fn looks_at_slice(&self, cfs: CfsRqId) -> bool {
        self.cfs_rqs[cfs.index()].nr_in_timeline(&self.rules) > 1
            || (!self.rules.tick_checks_contended_only && !self.rules.tunables.features.wakeup_preemption)
    }
}
