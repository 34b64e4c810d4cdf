//! The parts of the fast path that only EEVDF has (6.12): wake-ups on busy CPUs, picks, and delayed dequeues.

use schedlab_model::{CpuId, TaskId};

use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::pelt::rounding::Sums;
use crate::machine::Sched;
use crate::rules::Rules;

impl CfsRq {
    /// An entity that comes to wait joins the sums, and is put in its place (`__enqueue_entity`).
    #[inline(always)]
    pub(super) fn put_in(&mut self, entity: &mut Entity, se: EntityId, rules: &Rules) {
        self.sum_w_vruntime_add(entity, rules);
        entity.sequence = self.timeline.insert(entity.deadline, entity.vruntime, entity.slice, se);
    }

    /// The reverse (`__dequeue_entity`).
    #[inline(always)]
    pub(super) fn take_off(&mut self, entity: &Entity, rules: &Rules) {
        let found = self.timeline.remove(entity.deadline, entity.sequence);
        debug_assert!(found, "an entity on the queue is in its timeline");
        self.sum_w_vruntime_sub(entity, rules);
    }

    /// `update_entity_lag` of the entity that runs on it, and leaves.
    #[inline(always)]
    pub(super) fn keep_lag(&mut self, running: &mut Entity, rules: &Rules) {
        let average = self.avg_vruntime(Some(running), rules);
        let limit = rules.lag_limit(running.slice, || self.max_slice(Some(running)));
        running.vlag = rules.entity_lag(average, running, limit);
    }

    /// The lag of an entity that waits, or whose dequeue is delayed.
    #[inline(always)]
    fn lag_of(&mut self, se: EntityId, entities: &mut [Entity], rules: &Rules) -> i64 {
        let running = self.running(entities).map(|(_, running)| running);
        let average = self.avg_vruntime(running, rules);
        let limit = rules.lag_limit(known!(entities[se.index()]).slice, || self.max_slice(running));
        rules.entity_lag(average, known!(mut entities[se.index()]), limit)
    }
}

impl Sched<Ours> {
    /// [`Sched::flat_wake`] of a busy CPU: `enqueue_entity`, and `check_preempt_wakeup_fair` against the current task.
    #[inline(always)]
    pub(super) fn flat_wake_busy_eevdf(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
        let (cfs, se) = (CfsRqId(cpu.0), EntityId(task.0));
        let curr = known!(self.cfs_rqs[cfs.index()]).curr;
        if let Some(curr) = curr {
            self.flat_charge(cpu, cfs, curr);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, balance, .. } = self;
        let (rq, queue) = (known!(mut rqs[cpu.index()]), known!(mut cfs_rqs[cfs.index()]));
        rq.cfs_tasks.add(tasks, task);
        let running = curr.map(|curr| known!(entities[curr.index()]));
        let average = queue.avg_vruntime(running, rules);
        let load = queue.avg_load + running.map_or(0, |running| rules.weight_in_average(running.load));
        let entity = known!(mut entities[se.index()]);
        queue.attach_woken::<true>(entity, rq.clock_pelt, rules);
        // place_entity
        debug_assert!(!entity.rel_deadline, "that is for those who move while they are queued");
        let features = &rules.tunables.features;
        let lag = rules.placed_lag(entity.vlag, rules.weight_in_average(entity.load), load);
        entity.vruntime = average.minus(lag as u64);
        if rules.full_weights && rules.weight_in_average(entity.load) > load {
            // A heavy entity pulls V to itself: the origin goes there at once.
            queue.update_zero_vruntime(lag.wrapping_neg());
        }
        rules.place_deadline(entity, false);
        entity.on_rq = true;
        if migrated {
            entity.exec_start = 0;
        }
        queue.put_in(entity, se, rules);
        balance.overload |= rq.count_woken::<true>(queue, entity.load.scaled, balance.jiffy.0, rules);
        if rules.protects_for_time && curr.is_some() {
            // From 6.18 on, where kernels go many ways.
            self.hrtick_update(cpu, true);
            return self.wakeup_preempt_fair(cpu, task, false);
        }
        let Some(curr) = curr else {
            // Another task woke just before, and the CPU is about to schedule.
            (rq.need_resched, rq.lazily) = (true, false);
            return;
        };
        if features.next_buddy {
            queue.next = Some(se);
        }
        if (rq.need_resched && !rq.lazily) || !features.wakeup_preemption {
            return;
        }
        let (slice, running) = (entity.slice, known!(entities[curr.index()]));
        let becomes_first = if features.preempt_short && slice < running.slice {
            self.becomes_first(curr, se).is_won_by(se)
        } else {
            queue.pick_eevdf(entities, rules, true).is_some_and(|picked| picked.se == se)
        };
        if becomes_first {
            self.resched_curr_lazy(cpu);
        }
    }

    /// `pick_next_task` of a CPU whose running task was charged: a delayed task that is picked is dequeued, and the pick begins anew.
    pub(super) fn flat_pick_eevdf(&mut self, cpu: CpuId, cfs: CfsRqId) -> Option<EntityId> {
        loop {
            let queue = known!(self.cfs_rqs[cfs.index()]);
            if queue.nr_running == 0 {
                return None;
            }
            let se = queue.pick_next_eevdf(&self.entities, &self.rules)?.se;
            if !known!(self.entities[se.index()]).sched_delayed {
                return Some(se);
            }
            self.flat_dequeue_delayed(cpu, cfs, se);
        }
    }

    /// [`Sched::dequeue_delayed`] on a queue whose running task was charged.
    #[inline(never)]
    fn flat_dequeue_delayed(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, se);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue) = (known!(mut rqs[cpu.index()]), known!(mut cfs_rqs[cfs.index()]));
        let runs = queue.curr == Some(se);
        let entity = known!(mut entities[se.index()]);
        let own = &mut entity.pelt;
        // update_load_avg: until now it had its weight, and could not run.
        let now = queue.pelt.flat_clock(rq.clock_pelt);
        if own.avg.last_update_time != 0 && own.avg.update(now, (1, 0, runs), || entity.load.down_of_tasks()) {
            own.util_est.changed();
        }
        queue.update_load_avg(now, Sums::of(rules));
        // update_entity_lag
        let lag = queue.lag_of(se, entities, rules);
        let entity = known!(mut entities[se.index()]);
        if !runs {
            queue.take_off(entity, rules);
        }
        rq.cfs_tasks.remove(tasks, TaskId(se.0));
        let lag = if rules.bounds_lag_while_delayed { rules.lag_while_delayed(lag, entity.vlag) } else { lag };
        entity.vlag = rules.lag_after_delay(lag);
        entity.sched_delayed = false;
        queue.h_nr_delayed -= 1;
        rq.count_left(queue, entity);
    }

    /// [`Sched::detach_task`] of a waiting task that is not delayed.
    pub(super) fn flat_detach_eevdf(&mut self, task: TaskId, from: CpuId) {
        let (cfs, se) = (CfsRqId(from.0), EntityId(task.0));
        if let Some(curr) = known!(self.cfs_rqs[cfs.index()]).curr {
            self.flat_charge(from, cfs, curr);
        }
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, se);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue, sums) = (known!(mut rqs[from.index()]), known!(mut cfs_rqs[cfs.index()]), Sums::of(rules));
        // The origin moves to V. Averages do not depend on that.
        let lag = queue.lag_of(se, entities, rules);
        let entity = known!(mut entities[se.index()]);
        entity.leave_account(queue, rq.clock_pelt, sums);
        entity.vlag = lag;
        queue.take_off(entity, rules);
        rq.cfs_tasks.remove(tasks, task);
        rq.count_left(queue, entity);
        if rules.tunables.features.place_rel_deadline {
            entity.keep_relative_deadline();
        }
    }

    /// `put_prev_entity` of a task that is queued: it waits from now on.
    #[inline(always)]
    pub(super) fn flat_put_back(&mut self, cfs: CfsRqId, se: EntityId) {
        known!(mut self.cfs_rqs[cfs.index()]).put_in(known!(mut self.entities[se.index()]), se, &self.rules);
    }

    /// `set_next_entity` of a task that waits, on a queue whose averages are up to date, and the end of [`Sched::schedule`].
    pub(super) fn flat_set_next_eevdf(&mut self, cpu: CpuId, cfs: CfsRqId, next: EntityId) -> TaskId {
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, next);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue) = (known!(mut rqs[cpu.index()]), known!(mut cfs_rqs[cfs.index()]));
        let entity = known!(mut entities[next.index()]);
        queue.take_off(entity, rules);
        entity.pelt.end_wait(queue.pelt.flat_clock(rq.clock_pelt), entity.load.down_of_tasks());
        queue.curr = Some(next);
        entity.begin_turn(rq.clock_task);
        rules.set_protect_slice(entity, || queue.min_slice(None));
        let next = TaskId(next.0);
        (rq.curr, rq.need_resched, rq.lazily) = (next, false, false);
        rq.cfs_tasks.move_to_front(tasks, next);
        next
    }
}
