//! What the fast path does on one level of a task of groups: a queue of a CPU, and an entity of it, a task's or a group's.
//!
//! These are the sequences of `fair/` for one level, with the same rules. Left out is what asks for quotas, throttling and SCHED_IDLE, which no group has
//! here ([`Sched::is_flat`]).

use schedlab_model::CpuId;

use crate::class::EnqueueFlags;
use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId};
use crate::fair::pelt::SchedAvg;
use crate::fair::pelt::queue_load::{attach_entity_load_avg, detach_entity_load_avg};
use crate::fair::pelt::rounding::Sums;
use crate::fair::weight::{Weight, scale_load_down};
use crate::machine::Sched;

/// What [`Sched::level_load`] does besides bringing averages up to date (`UPDATE_TG`, `DO_ATTACH`, `DO_DETACH`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// Nothing.
    Alone,
    /// The group's sum follows.
    Update,
    /// That, and what is on no queue's account comes to be.
    Attach,
    /// That, and a task leaves the queue's account.
    Detach,
}

/// Why an entity leaves its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// A task that sleeps, or a group that has no tasks any more.
    Sleep,
    /// A task that goes to another CPU.
    Move,
    /// A delayed task or group that was picked (EEVDF).
    Delayed,
}

impl Sched<Ours> {
    /// `enqueue_entity` of one that `wakes`, as a task or as a group of which one does, or was only moved, and that came to the CPU just now or not
    /// (`moved`).
    #[inline(always)]
    pub(super) fn level_enqueue<const EEVDF: bool>(
        &mut self,
        cpu: CpuId,
        cfs: CfsRqId,
        se: EntityId,
        wakes: bool,
        moved: bool,
    ) {
        // A group that was left empty just now is still the running one.
        let runs = known!(self.cfs_rqs[cfs.index()]).curr == Some(se);
        if EEVDF && runs {
            self.place_entity_eevdf(cfs, se, EnqueueFlags::WAKEUP);
        }
        self.level_charge::<EEVDF>(cpu, cfs);
        if !EEVDF && (!wakes || moved) {
            let base = known!(self.cfs_rqs[cfs.index()]).min_vruntime.0;
            let entity = known!(mut self.entities[se.index()]);
            entity.vruntime = entity.vruntime.plus(base);
        }
        self.level_load(cpu, cfs, se, Load::Attach);
        self.level_weight::<EEVDF>(cpu, cfs, se);
        if EEVDF && !runs {
            self.place_entity_eevdf(cfs, se, EnqueueFlags::WAKEUP);
        }
        let Self { rules, rqs, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        if !EEVDF && wakes {
            rules.place_woken(entity, queue.min_vruntime, known!(rqs[cpu.index()]).clock_task);
        }
        queue.load.add(entity.weight);
        queue.nr_running += 1;
        if moved {
            entity.exec_start = 0;
        }
        entity.on_rq = true;
        if !runs {
            self.level_insert::<EEVDF>(cfs, se);
        }
    }

    /// `dequeue_entity`: false if the dequeue is delayed.
    #[inline(always)]
    pub(super) fn level_dequeue<const EEVDF: bool>(
        &mut self,
        cpu: CpuId,
        cfs: CfsRqId,
        se: EntityId,
        leave: Leave,
    ) -> bool {
        self.level_charge::<EEVDF>(cpu, cfs);
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, se);
        }
        let Self { rules, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(cfs_rqs[cfs.index()]), known!(entities[se.index()]));
        let runs = queue.curr == Some(se);
        // Alone it is V itself: eligible, and without lag.
        let alone = queue.nr_running == 1;
        if EEVDF && leave == Leave::Sleep && !alone {
            let running = queue.running(entities).map(|(_, running)| running);
            if queue.delays_dequeue(entity.vruntime, running, rules) {
                self.level_load(cpu, cfs, se, Load::Alone);
                if self.rules.bounds_lag_while_delayed {
                    self.update_entity_lag(cfs, se);
                }
                self.set_delayed(se);
                return false;
            }
        }
        self.level_load(cpu, cfs, se, if leave == Leave::Move { Load::Detach } else { Load::Update });
        let is_v = alone && runs && leave == Leave::Sleep;
        if EEVDF && !is_v {
            self.update_entity_lag(cfs, se);
        }
        if !runs {
            self.level_remove::<EEVDF>(cfs, se);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        if EEVDF && is_v {
            (queue.zero_vruntime, entity.vlag) = (entity.vruntime, 0);
        }
        entity.on_rq = false;
        queue.load.subtract(entity.weight);
        queue.nr_running -= 1;
        if leave == Leave::Move {
            if !EEVDF {
                entity.vruntime = entity.vruntime.minus(queue.min_vruntime.0);
            } else if rules.tunables.features.place_rel_deadline {
                entity.keep_relative_deadline();
            }
        }
        if entity.my_q.is_none() {
            known!(mut rqs[cpu.index()]).cfs_tasks.remove(tasks, entity.task);
        } else {
            self.level_weight::<EEVDF>(cpu, cfs, se);
        }
        if EEVDF && leave == Leave::Delayed {
            self.finish_delayed_dequeue(se);
        }
        if !EEVDF {
            self.update_min_vruntime(cfs);
        }
        true
    }

    /// An entity that stays where it is while something came or went below it (`update_group_entity`).
    #[inline(always)]
    pub(super) fn level_follow<const EEVDF: bool>(
        &mut self,
        cpu: CpuId,
        cfs: CfsRqId,
        se: EntityId,
        slice: Option<u64>,
    ) {
        self.level_load(cpu, cfs, se, Load::Update);
        self.level_weight::<EEVDF>(cpu, cfs, se);
        if let Some(slice) = slice {
            self.set_group_slice(cfs, se, slice);
        }
    }

    /// `set_next_entity`.
    #[inline(always)]
    pub(super) fn level_set_next<const EEVDF: bool>(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, se);
        }
        self.level_remove::<EEVDF>(cfs, se);
        if !self.level_is_up_to_date(cpu, cfs, se) {
            self.level_load(cpu, cfs, se, Load::Update);
        }
        let Self { rules, rqs, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        if EEVDF {
            rules.set_protect_slice(entity, || queue.min_slice(None));
        }
        queue.curr = Some(se);
        entity.begin_turn(known!(rqs[cpu.index()]).clock_task);
    }

    /// `put_prev_entity`.
    #[inline(always)]
    pub(super) fn level_put_prev<const EEVDF: bool>(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        if known!(self.entities[se.index()]).on_rq {
            self.level_charge::<EEVDF>(cpu, cfs);
            self.level_insert::<EEVDF>(cfs, se);
            if !self.level_is_up_to_date(cpu, cfs, se) {
                self.level_load(cpu, cfs, se, Load::Alone);
            }
        }
        known!(mut self.cfs_rqs[cfs.index()]).curr = None;
    }

    /// `__enqueue_entity`.
    #[inline(always)]
    fn level_insert<const EEVDF: bool>(&mut self, cfs: CfsRqId, se: EntityId) {
        let Self { rules, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        if EEVDF {
            queue.put_in(entity, se, rules);
        } else {
            let (key, slice) = (entity.vruntime, entity.slice);
            entity.sequence = queue.timeline.insert(key, key, slice, se);
        }
    }

    /// `__dequeue_entity`.
    #[inline(always)]
    fn level_remove<const EEVDF: bool>(&mut self, cfs: CfsRqId, se: EntityId) {
        let Self { rules, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(entities[se.index()]));
        if EEVDF {
            queue.take_off(entity, rules);
        } else {
            let found = queue.timeline.remove(entity.vruntime, entity.sequence);
            debug_assert!(found, "an entity on the queue is in its timeline");
        }
    }

    /// `update_curr` of one level.
    #[inline(always)]
    pub(super) fn level_charge<const EEVDF: bool>(&mut self, cpu: CpuId, cfs: CfsRqId) {
        let Self { rules, rqs, entities, cfs_rqs, .. } = self;
        let (queue, now) = (known!(mut cfs_rqs[cfs.index()]), known!(rqs[cpu.index()]).clock_task);
        let Some(curr) = queue.curr else { return };
        let entity = known!(mut entities[curr.index()]);
        if !EEVDF {
            return queue.charge(entity, now, rules);
        }
        let Some(delta) = entity.update_se(now, rules) else { return };
        // No request is served, and the entity need not go, while its deadline is to come and it is protected.
        let goes_on = entity.vruntime.before(entity.deadline) && rules.protect_slice(entity);
        if entity.my_q.is_none() {
            self.dl_server_update(cpu, delta);
        }
        if !goes_on && self.served(cfs, curr).is_some() {
            self.resched_curr_lazy(cpu);
        }
    }

    /// `update_load_avg` of an entity and the queue of its level.
    #[inline(always)]
    pub(super) fn level_load(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId, load: Load) {
        let Self { rules, rqs, entities, cfs_rqs, .. } = self;
        let (rq, sums) = (known!(rqs[cpu.index()]), Sums::of(rules));
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        let now = queue.pelt.flat_clock(rq.clock_pelt);
        let (queued, runs) = (u64::from(entity.on_rq), queue.curr == Some(se));
        let (own, group) = (&mut entity.pelt, entity.my_q);
        let runnable = match group {
            Some(_) if entity.sched_delayed => 0,
            Some(_) => u64::from(own.runnable_weight),
            None => u64::from(entity.on_rq && !entity.sched_delayed),
        };
        let attached = own.avg.last_update_time != 0;
        if attached && own.avg.update(now, (queued, runnable, runs), || scale_load_down(entity.weight)) {
            own.util_est.changed();
        }
        let mut changed = queue.update_load_avg(now, sums);
        if let Some(below) = group
            && known!(cfs_rqs[below.index()]).pelt.propagate
        {
            changed |= self.propagate_load_below(se);
        }
        let Self { rules, rqs, entities, cfs_rqs, groups, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        changed &= load != Load::Alone;
        if !attached && load == Load::Attach {
            attach_entity_load_avg(&mut queue.pelt, &mut entity.pelt.avg, scale_load_down(entity.weight), sums);
            changed = true;
        } else if load == Load::Detach {
            detach_entity_load_avg(&mut queue.pelt, &entity.pelt.avg, scale_load_down(entity.weight), sums);
            changed = true;
        }
        if changed {
            queue.update_tg_load_avg(groups, known!(rqs[cpu.index()]).clock, rules);
        }
    }

    /// Whether [`Sched::level_load`] would change nothing: no microsecond passed since, no task left and nothing goes on to another level.
    #[inline(always)]
    fn level_is_up_to_date(&self, cpu: CpuId, cfs: CfsRqId, se: EntityId) -> bool {
        let (queue, entity) = (known!(self.cfs_rqs[cfs.index()]), known!(self.entities[se.index()]));
        let now = queue.pelt.flat_clock(known!(self.rqs[cpu.index()]).clock_pelt);
        let is_now = |avg: &SchedAvg| now.wrapping_sub(avg.last_update_time) < 1024;
        let propagates = entity.my_q.is_some_and(|below| known!(self.cfs_rqs[below.index()]).pelt.propagate);
        let own = &entity.pelt.avg;
        own.last_update_time != 0
            && is_now(own)
            && is_now(&queue.pelt.avg)
            && queue.pelt.removed.count == 0
            && !propagates
    }

    /// `se_update_runnable` and `update_cfs_group`, which a task has no part in.
    #[inline(always)]
    fn level_weight<const EEVDF: bool>(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        let Self { rules, rqs, entities, cfs_rqs, groups, .. } = self;
        let entity = known!(mut entities[se.index()]);
        let Some(below) = entity.my_q else { return };
        let below = known!(cfs_rqs[below.index()]);
        entity.pelt.runnable_weight = below.h_nr_runnable();
        // EEVDF keeps the weight of an emptied group, whose dequeue may be delayed.
        if EEVDF && below.load.scaled == 0 {
            return;
        }
        let (before, shares) = (entity.weight, known!(groups[below.group.index()]).shares_of(below, 1));
        let weight = Weight { scaled: shares, inverse: 0 };
        if EEVDF {
            if before != shares {
                self.reweight_entity(cfs, se, weight);
            }
            return;
        }
        let queue = known!(mut cfs_rqs[cfs.index()]);
        if entity.on_rq {
            if queue.curr == Some(se) {
                queue.charge(entity, known!(rqs[cpu.index()]).clock_task, rules);
            }
            queue.load.subtract(before);
            queue.load.add(shares);
        }
        let (old, new) = (scale_load_down(before), weight.down());
        Sums::of(rules).reweight(&mut queue.pelt.avg, &mut entity.pelt.avg, old, new);
        entity.set_load(weight);
    }

    /// [`Sched::sched_balance_update_blocked_averages`] of a CPU that has its clocks. The averages of the other classes are always zero.
    pub(super) fn group_update_blocked(&mut self, cpu: CpuId) {
        let mut blocked = false;
        for group in (1..self.groups.len()).rev() {
            let Some((cfs, se)) = self.groups[group].cpus[cpu.index()] else { continue };
            blocked |= self.level_age(cpu, cfs);
            let entity = known!(self.entities[se.index()]);
            let (avg, above) = (&entity.pelt.avg, entity.cfs_rq);
            if avg.load_avg > 0 || avg.util_avg > 0 || known!(self.cfs_rqs[cfs.index()]).pelt.propagate {
                self.level_load(cpu, above, se, Load::Update);
            }
        }
        blocked |= self.level_age(cpu, CfsRqId(cpu.0));
        let state = &mut known!(mut self.rqs[cpu.index()]).balance;
        state.last_blocked_update = self.balance.jiffy.0;
        state.has_blocked_load &= blocked;
    }

    /// A queue's averages as no task comes or goes, and what its group has of them: whether any are left.
    #[inline(always)]
    fn level_age(&mut self, cpu: CpuId, cfs: CfsRqId) -> bool {
        let Self { rules, rqs, cfs_rqs, groups, .. } = self;
        let (rq, queue) = (known!(rqs[cpu.index()]), known!(mut cfs_rqs[cfs.index()]));
        if queue.update_load_avg(queue.pelt.flat_clock(rq.clock_pelt), Sums::of(rules)) {
            queue.update_tg_load_avg(groups, rq.clock, rules);
        }
        queue.pelt.avg.load_avg > 0 || queue.pelt.avg.util_avg > 0
    }
}
