//! What is EEVDF's own on flat queues (6.12): wake-ups on busy CPUs, picks, and those who linger.

use schedlab_model::{CpuId, TaskId};

use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::sums::Sums;
use crate::rules::Rules;

impl Entity {
    /// Its weight as averages of virtual time count it.
    #[inline(always)]
    fn weight(&self) -> i64 {
        (self.load.scaled >> 10) as i64
    }
}

impl CfsRq {
    /// `avg_vruntime_add`: an entity that comes to wait joins the sums; and it is put in its place.
    #[inline(always)]
    fn put_in(&mut self, entity: &mut Entity, se: EntityId) {
        let (key, weight) = (entity.vruntime.since(self.zero_vruntime), entity.weight());
        self.avg_vruntime = self.avg_vruntime.wrapping_add(key.wrapping_mul(weight));
        self.avg_load += weight;
        entity.sequence = self.timeline.insert(entity.deadline, entity.vruntime, entity.slice, se);
    }

    /// `avg_vruntime_sub`: the reverse.
    #[inline(always)]
    fn take_off(&mut self, entity: &Entity) {
        let found = self.timeline.remove(entity.deadline, entity.sequence);
        debug_assert!(found, "an entity on the queue is in its timeline");
        let (key, weight) = (entity.vruntime.since(self.zero_vruntime), entity.weight());
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(key.wrapping_mul(weight));
        self.avg_load -= weight;
    }

    /// `entity_eligible` of the running entity.
    #[inline(always)]
    pub(super) fn is_eligible(&self, running: &Entity) -> bool {
        let (sum, load) = self.sums_with(Some(running));
        sum >= running.vruntime.since(self.zero_vruntime).wrapping_mul(load)
    }

    /// `pick_eevdf`: the eligible entity with the earliest virtual deadline; whoever runs keeps the CPU while its slice is protected.
    #[inline(always)]
    fn pick(&self, entities: &[Entity], run_to_parity: bool) -> Option<EntityId> {
        let running = self.curr.map(|curr| (curr, known!(entities[curr.index()]))).filter(|(_, running)| running.on_rq);
        if self.nr_running == 1 {
            return running.map(|(curr, _)| curr).or_else(|| self.timeline.first());
        }
        let ((sum, load), zero) = (self.sums_with(running.map(|(_, running)| running)), self.zero_vruntime);
        let eligible = |vruntime: Vruntime| sum >= vruntime.since(zero).wrapping_mul(load);
        let curr = running.filter(|(_, running)| eligible(running.vruntime));
        if let Some((curr, running)) = curr
            && run_to_parity
            && running.vprot == running.deadline
        {
            return Some(curr);
        }
        match (self.timeline.first_eligible_with_key(eligible), curr) {
            (Some((_, best)), Some((curr, running))) if running.deadline.before(best) => Some(curr),
            (Some((best, _)), _) => Some(best),
            (None, curr) => curr.map(|(curr, _)| curr),
        }
    }

    /// Σ (vruntime − zero) · weight and Σ weight of all on it, with whoever runs, if anybody does.
    #[inline(always)]
    fn sums_with(&self, running: Option<&Entity>) -> (i64, i64) {
        let Some(running) = running else { return (self.avg_vruntime, self.avg_load) };
        let (key, weight) = (running.vruntime.since(self.zero_vruntime), running.weight());
        (self.avg_vruntime.wrapping_add(key.wrapping_mul(weight)), self.avg_load + weight)
    }

    /// `avg_vruntime`: the origin moves to V.
    #[inline(always)]
    pub(super) fn move_to_average(&mut self, running: Option<&Entity>) {
        let delta = match (self.avg_load, running) {
            // Alone it is V itself.
            (0, running) => running.map_or(0, |running| running.vruntime.since(self.zero_vruntime)),
            (_, running) => {
                let (sum, load) = self.sums_with(running);
                sum.div_euclid(load)
            }
        };
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(self.avg_load.wrapping_mul(delta));
        self.zero_vruntime = self.zero_vruntime.plus(delta as u64);
    }
}

impl Rules {
    /// [`Rules::place_alone`] of a task that kept how far its deadline is away (PLACE_REL_DEADLINE).
    #[inline(always)]
    pub(super) fn place_moved(&self, entity: &mut Entity, average: Vruntime) {
        let deadline = average.plus(entity.deadline.0);
        self.place_alone(entity, average);
        if entity.rel_deadline && self.tunables.features.place_rel_deadline {
            (entity.deadline, entity.rel_deadline) = (deadline, false);
        }
    }

    /// [`Sched::entity_lag`] of a queued entity, with V at the queue's origin.
    #[inline(always)]
    pub(super) fn flat_lag(&self, queue: &CfsRq, entity: &mut Entity) -> i64 {
        let lag = queue.zero_vruntime.since(entity.vruntime);
        let limit = self.calc_delta_fair((2 * entity.slice).max(self.tick), &mut entity.load) as i64;
        lag.clamp(-limit, limit)
    }
}

impl Sched<Ours> {
    /// [`Sched::flat_wake`] of a CPU that has somebody: `enqueue_entity`, and `check_preempt_wakeup_fair` of whoever runs.
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
        queue.move_to_average(running);
        let load = queue.avg_load + running.map_or(0, Entity::weight);
        let entity = known!(mut entities[se.index()]);
        queue.attach_woken(entity, rq.clock_pelt, rules);
        // place_entity
        debug_assert!(!entity.rel_deadline, "that is for those who move while they are queued");
        let features = &rules.tunables.features;
        if !entity.custom_slice {
            entity.slice = rules.tunables.base_slice.as_nanos();
        }
        let lag = if features.place_lag && entity.vlag != 0 {
            entity.vlag.wrapping_mul(load + entity.weight()) / load.max(1)
        } else {
            0
        };
        entity.vruntime = queue.zero_vruntime.minus(lag as u64);
        entity.deadline = entity.vruntime.plus(rules.calc_delta_fair(entity.slice, &mut entity.load));
        entity.on_rq = true;
        if migrated {
            entity.exec_start = 0;
        }
        queue.put_in(entity, se);
        balance.overload |= rq.count_woken(queue, entity.load.scaled, balance.jiffy.0);
        let Some(curr) = curr else {
            // Somebody else woke just before, and the CPU is about to schedule.
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
            self.becomes_first(curr, se)
        } else {
            queue.pick(entities, features.run_to_parity) == Some(se)
        };
        if becomes_first {
            self.resched_curr_lazy(cpu);
        }
    }

    /// `pick_next_task` of a CPU whose running task was charged: one that lingers and is picked leaves, and the pick begins anew.
    pub(super) fn flat_pick_eevdf(&mut self, cpu: CpuId, cfs: CfsRqId) -> Option<EntityId> {
        loop {
            let queue = known!(self.cfs_rqs[cfs.index()]);
            if queue.nr_running == 0 {
                return None;
            }
            let se = if queue.next.is_some() {
                self.pick_next_eevdf(cfs)?
            } else {
                queue.pick(&self.entities, self.rules.tunables.features.run_to_parity)?
            };
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
        let (runs, curr) = (queue.curr == Some(se), queue.curr);
        let entity = known!(mut entities[se.index()]);
        let own = &mut entity.pelt;
        // update_load_avg: until now it had its weight, and could not run.
        let now = queue.pelt.flat_clock(rq.clock_pelt);
        if own.avg.last_update_time != 0 && own.avg.update_sum(now, 1, 0, runs) {
            own.avg.update_avg(entity.load.scaled >> 10);
            own.util_est.changed();
        }
        queue.update_load_avg(now, Sums::of(rules));
        // update_entity_lag
        queue.move_to_average(curr.map(|curr| known!(entities[curr.index()])).filter(|running| running.on_rq));
        let entity = known!(mut entities[se.index()]);
        let lag = rules.flat_lag(queue, entity);
        if !runs {
            queue.take_off(entity);
        }
        rq.cfs_tasks.remove(tasks, TaskId(se.0));
        // finish_delayed_dequeue_entity: lag earned while lingering does not count.
        entity.vlag = if rules.tunables.features.delay_zero { lag.min(0) } else { lag };
        entity.sched_delayed = false;
        queue.h_nr_delayed -= 1;
        rq.count_left(queue, entity);
    }

    /// [`Sched::detach_task`] of a task that waits, and does not linger.
    pub(super) fn flat_detach_eevdf(&mut self, task: TaskId, from: CpuId) {
        let (cfs, se) = (CfsRqId(from.0), EntityId(task.0));
        let curr = known!(self.cfs_rqs[cfs.index()]).curr;
        if let Some(curr) = curr {
            self.flat_charge(from, cfs, curr);
        }
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, se);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue, sums) = (known!(mut rqs[from.index()]), known!(mut cfs_rqs[cfs.index()]), Sums::of(rules));
        // The origin moves to V. Averages do not depend on that.
        queue.move_to_average(curr.map(|curr| known!(entities[curr.index()])).filter(|running| running.on_rq));
        let entity = known!(mut entities[se.index()]);
        entity.leave_account(queue, rq.clock_pelt, sums);
        entity.vlag = rules.flat_lag(queue, entity);
        queue.take_off(entity);
        rq.cfs_tasks.remove(tasks, task);
        rq.count_left(queue, entity);
        if rules.tunables.features.place_rel_deadline {
            entity.deadline = entity.deadline.minus(entity.vruntime.0);
            entity.rel_deadline = true;
        }
    }

    /// `put_prev_entity` of a task that is queued: it waits from now on.
    #[inline(always)]
    pub(super) fn flat_put_back(&mut self, cfs: CfsRqId, se: EntityId) {
        known!(mut self.cfs_rqs[cfs.index()]).put_in(known!(mut self.entities[se.index()]), se);
    }

    /// `set_next_entity` of a task that waits, on a queue whose averages are up to date, and the end of [`Sched::schedule`].
    pub(super) fn flat_set_next_eevdf(&mut self, cpu: CpuId, cfs: CfsRqId, next: EntityId) -> TaskId {
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, next);
        }
        let Self { rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue) = (known!(mut rqs[cpu.index()]), known!(mut cfs_rqs[cfs.index()]));
        let entity = known!(mut entities[next.index()]);
        queue.take_off(entity);
        entity.pelt.end_wait(queue.pelt.flat_clock(rq.clock_pelt), entity.load.scaled >> 10);
        queue.curr = Some(next);
        (entity.vprot, entity.exec_start) = (entity.deadline, rq.clock_task);
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        let next = TaskId(next.0);
        (rq.curr, rq.need_resched, rq.lazily) = (next, false, false);
        rq.cfs_tasks.move_to_front(tasks, next);
        next
    }
}
