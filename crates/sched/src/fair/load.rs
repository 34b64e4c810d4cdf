//! Load tracking of entities and queues (`kernel/sched/fair.c`): who updates the averages of `pelt.rs`, and when.
//!
//! Kept only where something depends on it ([`Sched::track_load`]): the shares of groups on several CPUs.

use schedlab_model::{CpuId, Time};

use crate::class::Class;
use crate::decider::Decider;
use crate::entity::{CfsRqId, EntityId};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::group::{GroupId, TaskGroup};
use crate::fair::pelt::queue_load::{QueueLoad, attach_entity_load_avg, detach_entity_load_avg};
use crate::fair::pelt::rounding::{Removed, Sums};
use crate::fair::pelt::util_est::UtilEst;
use crate::fair::pelt::{CAPACITY_SHIFT, SchedAvg};
use crate::fair::weight::scale_load_down;
use crate::machine::Sched;
use crate::rules::Rules;
use crate::runqueue::Clocks;

/// What is to be done besides bringing averages up to date (`UPDATE_TG`, `DO_ATTACH`, `DO_DETACH`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Action {
    pub(crate) update_group: bool,
    pub(crate) attach: bool,
    pub(crate) detach: bool,
}

impl Action {
    pub(crate) const UPDATE: Self = Self { update_group: true, attach: false, detach: false };
}

/// An entity's averages: one cache line of it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct EntityLoad {
    pub(crate) avg: SchedAvg,
    /// `runnable_weight` of a group: runnable tasks below it when that was last looked at.
    pub(crate) runnable_weight: u32,
    /// `util_est` of a task.
    pub(crate) util_est: UtilEst,
}

impl<D: Decider> Sched<D> {
    /// Keeps load averages of all entities and queues from now on (PELT). Tasks that are there count as new ones.
    pub fn track_load(&mut self) {
        if !self.tracks_load {
            self.tracks_load = true;
            self.entities.iter_mut().for_each(|entity| entity.pelt = EntityLoad::default());
            self.cfs_rqs.iter_mut().for_each(|queue| queue.pelt = QueueLoad::default());
            (0..self.entities.len()).for_each(|index| self.init_entity_runnable_average(EntityId(index as u32)));
        }
    }

    /// The load averages of a task, if they are kept ([`Sched::track_load`]).
    pub fn load_of(&self, task: schedlab_model::TaskId) -> Option<SchedAvg> {
        self.tracks_load.then(|| self.entity_avg(self.tasks[task.index()].se))
    }

    /// The load averages of a CPU's root queue, if they are kept.
    pub fn load_of_cpu(&self, cpu: schedlab_model::CpuId) -> Option<SchedAvg> {
        self.tracks_load.then(|| self.queue_avg(self.rqs[cpu.index()].cfs))
    }

    /// The load averages of a group on a CPU, its entity's and its queue's, if they are kept and it had a task there.
    pub fn load_of_group(&self, group: GroupId, cpu: schedlab_model::CpuId) -> Option<(SchedAvg, SchedAvg)> {
        let (queue, se) = self.groups[group.index()].cpus.get(cpu.index()).copied().flatten()?;
        self.tracks_load.then(|| (self.entity_avg(se), self.queue_avg(queue)))
    }

    /// `init_entity_runnable_average`: a task starts with full load; a group with none, as nothing is attached to it.
    pub(crate) fn init_entity_runnable_average(&mut self, se: EntityId) {
        let entity = &mut self.entities[se.index()];
        if self.tracks_load && entity.my_q.is_none() {
            entity.pelt.avg.load_avg = scale_load_down(entity.weight);
        }
    }

    /// `post_init_entity_util_avg`: a new task is expected to use half of what its queue leaves, at most in proportion to its
    /// weight. One of another class is as if it had just left the fair one.
    pub(crate) fn post_init_entity_util_avg(&mut self, se: EntityId, class: Class) {
        if !self.tracks_load {
            return;
        }
        let entity = &mut self.entities[se.index()];
        let queue = &self.cfs_rqs[entity.cfs_rq.index()];
        if class != Class::Fair {
            entity.pelt.avg.last_update_time = queue.pelt.clock(self.rqs[queue.cpu.index()].clock_pelt);
            if self.rules.new_tasks_of_other_classes_age {
                return;
            }
        }
        let queue = &queue.pelt.avg;
        // With ten bits more until 6.10.
        let weight = if self.rules.init_util_by_nice_weight { scale_load_down(entity.weight) } else { entity.weight };
        let cap = (1024 - queue.util_avg as i64) / 2;
        let avg = &mut entity.pelt.avg;
        if cap > 0 {
            avg.util_avg = match queue.util_avg {
                0 => cap as u64,
                used => (used * weight / (queue.load_avg + 1)).min(cap as u64),
            };
        }
        avg.runnable_avg = avg.util_avg;
    }

    pub(crate) fn sums(&self) -> Sums {
        Sums::of(&self.rules)
    }

    /// `se_weight`.
    pub(crate) fn se_weight(&self, se: EntityId) -> u64 {
        scale_load_down(self.entities[se.index()].weight)
    }

    /// `update_load_avg`: brings an entity and its queue up to now, passes on what changed below, and attaches or detaches.
    #[inline]
    pub(crate) fn update_load_avg(&mut self, cfs: CfsRqId, se: EntityId, action: Action) {
        if !self.tracks_load {
            return;
        }
        let (entity, queue) = (&self.entities[se.index()], &self.cfs_rqs[cfs.index()]);
        let (own, load) = (&entity.pelt.avg, &queue.pelt);
        let now = load.clock(self.rqs[queue.cpu.index()].clock_pelt);
        // Both were brought up to this microsecond before, and nothing comes, leaves or goes on to another level.
        let up_to_date = |avg: &SchedAvg| now.wrapping_sub(avg.last_update_time) < 1024;
        let moves = action.detach || load.removed.count > 0 || entity.my_q.is_some();
        if !moves && own.last_update_time != 0 && up_to_date(own) && up_to_date(&load.avg) {
            return;
        }
        self.update_load_avg_slow(cfs, se, action);
    }

    pub(crate) fn update_load_avg_slow(&mut self, cfs: CfsRqId, se: EntityId, action: Action) {
        if self.entities[se.index()].my_q.is_some() {
            self.propagate_entity_load_avg(cfs, se, action);
            return;
        }
        if !self.tracks_load {
            return;
        }
        let sums = self.sums();
        let (entity, queue) = (&mut self.entities[se.index()], &mut self.cfs_rqs[cfs.index()]);
        let now = queue.pelt.clock(self.rqs[queue.cpu.index()].clock_pelt);
        let (weight, runnable) = (scale_load_down(entity.weight), u64::from(entity.on_rq && !entity.sched_delayed));
        let own = &mut entity.pelt;
        let attached = own.avg.last_update_time != 0;
        let running = queue.level_curr() == Some(se);
        if attached && own.avg.update(now, (u64::from(entity.on_rq), runnable, running), || weight) {
            own.util_est.changed();
        }
        let avg = &mut own.avg;
        let decayed = queue.update_load_avg(now, sums);
        if !attached && action.attach {
            attach_entity_load_avg(&mut queue.pelt, avg, weight, sums);
        } else if action.detach {
            detach_entity_load_avg(&mut queue.pelt, avg, weight, sums);
        } else if !(decayed && action.update_group) {
            return;
        }
        if queue.group != GroupId::ROOT {
            self.update_tg_load_avg(cfs);
        }
    }

    /// [`Sched::update_load_avg`] of a group's entity: what came to or left the group's queue goes on to the one above.
    fn propagate_entity_load_avg(&mut self, cfs: CfsRqId, se: EntityId, action: Action) {
        if !self.tracks_load {
            return;
        }
        let sums = self.sums();
        let (entity, queue) = (&mut self.entities[se.index()], &mut self.cfs_rqs[cfs.index()]);
        let now = queue.pelt.clock(self.rqs[queue.cpu.index()].clock_pelt);
        let (load, weight) = (&mut entity.pelt, scale_load_down(entity.weight));
        let runnable = if entity.sched_delayed { 0 } else { u64::from(load.runnable_weight) };
        let running = queue.level_curr() == Some(se);
        let attached = load.avg.last_update_time != 0;
        if attached {
            load.avg.update(now, (u64::from(entity.on_rq), runnable, running), || weight);
        }
        let mut decayed = queue.update_load_avg(now, sums);
        decayed |= self.propagate_load_below(se);
        let (above, own) = (&mut self.cfs_rqs[cfs.index()].pelt, &mut self.entities[se.index()].pelt.avg);
        let mut changed = decayed && action.update_group;
        if !attached && action.attach {
            attach_entity_load_avg(above, own, weight, sums);
            changed = true;
        } else if action.detach {
            detach_entity_load_avg(above, own, weight, sums);
            changed = true;
        }
        if changed {
            self.update_tg_load_avg(cfs);
        }
    }

    /// What `count` ticks do to the averages of the running task and its queue, the first at `first`, one tick apart, none of which
    /// acts: the first takes out the averages of tasks that left the queue since its last update, the others find nothing changed.
    pub(crate) fn skip_ticks_of_load(&mut self, cpu: CpuId, first: Time, count: u64) {
        let se = self.tasks[self.rqs[cpu.index()].curr.index()].se;
        let cfs = self.entities[se.index()].cfs_rq;
        let left = self.tracks_load && self.cfs_rqs[cfs.index()].pelt.removed.count > 0;
        if left {
            self.set_clocks(cpu, Clocks::all(first));
            self.update_load_avg_slow(cfs, se, Action::UPDATE);
        }
        if !self.tracks_load {
            return;
        }
        let (queue, entity, tick) = (&mut self.cfs_rqs[cfs.index()], &mut self.entities[se.index()], self.rules.tick);
        let (weight, tasks) = (queue.load.down(), u64::from(queue.h_nr_runnable()));
        let (own, runnable) = (u64::from(entity.on_rq), u64::from(entity.on_rq && !entity.sched_delayed));
        let queue = &mut queue.pelt;
        let (before, count) =
            if left { (first.as_nanos(), count - 1) } else { (first.as_nanos().wrapping_sub(tick), count) };
        let now = before.wrapping_add(self.pelt_origin).wrapping_sub(queue.throttled_time);
        let load = &mut entity.pelt;
        if (own, runnable) == (1, 1) {
            let both = [&mut queue.avg, &mut load.avg];
            if SchedAvg::add_ticks_to_both(both, now, tick, count, (weight, tasks), scale_load_down(entity.weight)) {
                load.util_est.changed();
            }
            return;
        }
        queue.avg.add_ticks(now, tick, count, (weight, tasks), 1);
        if load.avg.last_update_time != 0 {
            let began = load.avg.period_start();
            load.avg.add_ticks(now, tick, count, (own, runnable), scale_load_down(entity.weight));
            if load.avg.period_start() != began {
                load.util_est.changed();
            }
        }
    }

    /// The queue's PELT clock stops, or goes on (`tg_throttle_down`, `tg_unthrottle_up`).
    pub(crate) fn throttle_load(&mut self, cfs: CfsRqId, throttled: bool) {
        if !self.tracks_load {
            return;
        }
        let queue = &mut self.cfs_rqs[cfs.index()];
        let (now, load) = (self.rqs[queue.cpu.index()].clock_pelt, &mut queue.pelt);
        if throttled {
            load.throttled_at = now;
        } else if load.stopped {
            load.throttled_time += now - load.throttled_at;
        }
        load.stopped = throttled;
    }

    /// `se_update_runnable`: how many tasks a group stands for.
    pub(crate) fn se_update_runnable(&mut self, se: EntityId) {
        let Some(group) = self.entities[se.index()].my_q else { return };
        if self.tracks_load {
            self.entities[se.index()].pelt.runnable_weight = self.cfs_rqs[group.index()].h_nr_runnable();
        }
    }

    /// `update_tg_load_avg`: the group's sum over CPUs follows this queue's load once that moved by a 64th; from 6.12 on at most
    /// once a millisecond.
    pub(super) fn update_tg_load_avg(&mut self, cfs: CfsRqId) {
        if !self.tracks_load {
            return;
        }
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.update_tg_load_avg(&mut self.groups, self.rqs[queue.cpu.index()].clock, &self.rules);
    }

    /// `propagate_entity_load_avg`: what came to or left a group's queue reaches the group's entity and the queue above.
    pub(crate) fn propagate_load_below(&mut self, se: EntityId) -> bool {
        let sums = self.sums();
        let entity = &mut self.entities[se.index()];
        let Some(group) = entity.my_q else { return false };
        let own = &mut self.cfs_rqs[group.index()];
        if !std::mem::take(&mut own.pelt.propagate) {
            return false;
        }
        let (below, below_weight) = (own.pelt, own.load.down());
        own.pelt.prop_runnable_sum = 0;
        let above = &mut self.cfs_rqs[entity.cfs_rq.index()].pelt;
        above.propagate = true;
        above.prop_runnable_sum += below.prop_runnable_sum;
        let divider = u64::from(above.avg.divider());
        let (avg, queue, weight) = (&mut entity.pelt.avg, &mut above.avg, scale_load_down(entity.weight));
        // update_tg_cfs_util
        let delta = below.avg.util_avg as i64 - avg.util_avg as i64;
        if delta != 0 {
            let sum = (below.avg.util_avg * divider) as u32;
            let delta_sum = i64::from(sum) - i64::from(avg.util_sum);
            (avg.util_avg, avg.util_sum) = (below.avg.util_avg, sum);
            let sum = u64::from(queue.util_sum);
            queue.util_sum = sums.follow(&mut queue.util_avg, sum, delta, delta_sum, divider) as u32;
        }
        // update_tg_cfs_runnable
        let delta = below.avg.runnable_avg as i64 - avg.runnable_avg as i64;
        if delta != 0 {
            let sum = below.avg.runnable_avg * divider;
            let delta_sum = sum as i64 - avg.runnable_sum as i64;
            (avg.runnable_avg, avg.runnable_sum) = (below.avg.runnable_avg, sum);
            let sum = queue.runnable_sum;
            queue.runnable_sum = sums.follow(&mut queue.runnable_avg, sum, delta, delta_sum, divider);
        }
        sums.update_tg_cfs_load([weight, below_weight], &below, avg, queue, divider);
        true
    }

    /// A new weight as load tracking sees it (`reweight_entity`): the queue's load loses the old and gains the new.
    pub(crate) fn reweight_load(&mut self, cfs: CfsRqId, se: EntityId, weight: u64) {
        if !self.tracks_load {
            return;
        }
        let (old, sums) = (self.se_weight(se), self.sums());
        let (avg, queue) = (&mut self.entities[se.index()].pelt.avg, &mut self.cfs_rqs[cfs.index()].pelt.avg);
        sums.reweight(queue, avg, old, scale_load_down(weight));
    }

    /// `sync_entity_load_avg`: brings an entity up to where its queue is, as if it had been asleep.
    pub(crate) fn sync_entity_load_avg(&mut self, se: EntityId) {
        if !self.tracks_load {
            return;
        }
        let entity = &mut self.entities[se.index()];
        let (now, avg) = (self.cfs_rqs[entity.cfs_rq.index()].pelt.avg.last_update_time, &mut entity.pelt.avg);
        if avg.update_sum(now, 0, 0, false) {
            avg.update_avg(scale_load_down(entity.weight));
        }
    }

    /// The entity is on no queue's account (`last_update_time` 0): it attaches when it is next queued.
    pub(crate) fn forget_load_time(&mut self, se: EntityId) {
        if self.tracks_load {
            self.entities[se.index()].pelt.avg.last_update_time = 0;
        }
    }

    /// One queue of `__update_blocked_fair`: its averages decay, and what that changes goes up to the group's entity. Whether any is
    /// left.
    pub(crate) fn update_blocked_queue(&mut self, cfs: CfsRqId, se: Option<EntityId>) -> bool {
        let sums = self.sums();
        if !self.tracks_load {
            return false;
        }
        let queue = &mut self.cfs_rqs[cfs.index()];
        let now = queue.pelt.clock(self.rqs[queue.cpu.index()].clock_pelt);
        if queue.update_load_avg(now, sums) {
            self.update_tg_load_avg(cfs);
        }
        let queue = self.cfs_rqs[cfs.index()].pelt;
        if let Some(se) = se {
            // skip_blocked_update: nothing is left, and nothing is to go up.
            let avg = self.entity_avg(se);
            if avg.load_avg > 0 || avg.util_avg > 0 || queue.propagate {
                self.update_load_avg_slow(self.entities[se.index()].cfs_rq, se, Action::UPDATE);
            }
        }
        queue.avg.load_avg > 0 || queue.avg.util_avg > 0
    }

    /// The load averages of a queue without what is about to be taken out of them, if they are kept.
    pub fn load_left_on(&self, queue: CfsRqId) -> Option<SchedAvg> {
        let queue = &self.cfs_rqs[queue.index()].pelt;
        if !self.tracks_load {
            return None;
        }
        let mut avg = queue.avg;
        if queue.removed.count > 0 {
            self.sums().remove(&mut avg, queue.removed);
        }
        Some(avg)
    }

    /// [`Sched::load_left_on`] for a CPU's root queue.
    pub fn load_left_on_cpu(&self, cpu: schedlab_model::CpuId) -> Option<SchedAvg> {
        self.load_left_on(self.rqs[cpu.index()].cfs)
    }

    /// The averages of an entity, from elsewhere.
    pub(crate) fn set_entity_load(&mut self, se: EntityId, avg: SchedAvg) {
        if self.tracks_load {
            self.entities[se.index()].pelt.avg = avg;
        }
    }

    /// The averages of a queue, and what is about to be taken out of them (how many, load, utilisation, runnable), from elsewhere.
    pub(crate) fn set_queue_load(&mut self, cfs: CfsRqId, avg: SchedAvg, removed: (u32, u64, u64, u64)) {
        if self.tracks_load {
            let (count, load, util, runnable) = removed;
            let queue = &mut self.cfs_rqs[cfs.index()].pelt;
            (queue.avg, queue.removed) = (avg, Removed { count, load, util, runnable });
        }
    }

    /// What is about to be taken out of a queue's averages (how many, load, utilisation, runnable).
    pub(crate) fn queue_removed(&self, cfs: CfsRqId) -> (u32, u64, u64, u64) {
        let Removed { count, load, util, runnable } = self.cfs_rqs[cfs.index()].pelt.removed;
        (count, load, util, runnable)
    }

    /// The averages of a queue; none before it had a task, nor where they are not kept.
    #[inline]
    pub(crate) fn queue_avg(&self, cfs: CfsRqId) -> SchedAvg {
        self.cfs_rqs[cfs.index()].pelt.avg
    }

    /// The averages of an entity.
    #[inline]
    pub(crate) fn entity_avg(&self, se: EntityId) -> SchedAvg {
        self.entities[se.index()].pelt.avg
    }
}

impl CfsRq {
    /// [`Sched::update_tg_load_avg`] of this queue, where averages are kept.
    #[inline]
    pub(crate) fn update_tg_load_avg(&mut self, groups: &mut [TaskGroup], now: u64, rules: &Rules) {
        let load = &mut self.pelt;
        if self.group == GroupId::ROOT {
            return;
        }
        if rules.tg_load_avg_limited && now.wrapping_sub(load.contributed_at) < 1_000_000 {
            return;
        }
        let delta = load.avg.load_avg as i64 - load.contribution;
        let mut changed = delta.abs() > load.contribution / 64;
        let runnable = load.avg.runnable_avg as i64 - load.runnable_contribution;
        changed |= rules.shares_by_concurrency && runnable.abs() > load.runnable_contribution / 64;
        if changed {
            let group = &mut groups[self.group.index()];
            group.load_avg += delta;
            group.runnable_avg += runnable;
            load.contribution = load.avg.load_avg as i64;
            load.runnable_contribution = load.avg.runnable_avg as i64;
            load.contributed_at = now;
        }
    }
}

impl Sums {
    /// The part of `reweight_entity` that load tracking has: the queue's load loses the old weight and gains the new one, of what is on its account.
    #[doc(alias = "reweight_entity")]
    #[inline(always)]
    pub(crate) fn reweight(self, queue: &mut SchedAvg, avg: &mut SchedAvg, old: u64, new: u64) {
        // A task that is on no queue's account, being new or on its way, has nothing to move there.
        if avg.last_update_time == 0 {
            avg.load_avg = new;
            return;
        }
        self.subtract_load(queue, avg.load_avg, old, avg.load_sum);
        avg.load_avg = avg.divide(new * avg.load_sum);
        self.add_load(queue, avg.load_avg, new, avg.load_sum);
    }

    /// `update_tg_cfs_load`: a group's runnable time cannot be copied, for its tasks' overlap; more is added up to the whole, less
    /// is estimated as if all its tasks were equally runnable. The weights are those of the group's entity and of all that is below it.
    fn update_tg_cfs_load(
        self,
        [weight, weight_below]: [u64; 2],
        below: &QueueLoad,
        avg: &mut SchedAvg,
        queue: &mut SchedAvg,
        divider: u64,
    ) {
        let change = below.prop_runnable_sum;
        if change == 0 {
            return;
        }
        let runnable_sum = if change >= 0 {
            (change as u64 + avg.load_sum).min(divider)
        } else {
            below.avg.load_sum.checked_div(weight_below).unwrap_or(0).min(avg.load_sum)
        };
        let runnable_sum = runnable_sum.max(u64::from(avg.util_sum >> CAPACITY_SHIFT));
        let load_sum = weight * runnable_sum;
        let load_avg = load_sum / divider;
        let delta = load_avg as i64 - avg.load_avg as i64;
        // 5.10 sets the sums though the average stays.
        if delta == 0 && self != Self::Anew {
            return;
        }
        let delta_sum = load_sum as i64 - (weight * avg.load_sum) as i64;
        (avg.load_sum, avg.load_avg) = (runnable_sum, load_avg);
        let sum = queue.load_sum;
        queue.load_sum = self.follow(&mut queue.load_avg, sum, delta, delta_sum, divider);
    }
}
