//! Ticks of a flat queue.

use schedlab_model::{CpuId, Series, TaskId, Time};

use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId, Vruntime};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::pelt::SchedAvg;
use crate::fair::weight::calc_delta;
use crate::rules::Rules;

/// What a tick came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatTick {
    /// Who ran.
    pub previous: TaskId,
    /// Who runs now, and whether the CPU scheduled to find out.
    pub next: TaskId,
    /// The tick had the CPU schedule.
    pub scheduled: bool,
    /// So many of the ticks to come would change nothing but accounting ([`Sched::inactive_ticks`]).
    pub inactive: u64,
}

impl Sched<Ours> {
    /// `count` ticks, the first at `first`, one tick apart, of which the last is due now and may act: [`Sched::skip_ticks`] of the
    /// others, [`Sched::sched_tick`], and, if that asks for it, [`Sched::schedule`]. None, and nothing done, where the long way is to be
    /// taken: under EEVDF, and where load is to be balanced.
    ///
    /// All averages take all ticks at once, as in [`Sched::skip_ticks`]: a tick that acts does so after it brought them up to date.
    /// So does the charge, whose rounding is that of each tick.
    #[inline]
    pub fn flat_tick(&mut self, cpu: CpuId, first: Time, count: u64) -> Option<FlatTick> {
        let (rq, state) = (&self.rqs[cpu.index()], &self.balance.cpus[cpu.index()]);
        let (previous, cfs, next_balance, jiffies) = (rq.curr, rq.cfs, state.next_balance, self.balance.jiffy.0);
        debug_assert_eq!(jiffies, self.jiffies(cpu));
        if self.rules.eevdf() || previous == TaskId::IDLE || rq.need_resched || jiffies >= next_balance {
            return None;
        }
        if state.tick_stopped || state.push_cpu.is_some() || self.balance.nohz.idle_cpus.first().is_some() {
            return None;
        }
        let se = self.tasks[previous.index()].se;
        if first.as_nanos() <= self.entities[se.index()].exec_start {
            return None;
        }
        self.flat_charge_ticks(cpu, cfs, se, first.as_nanos(), count);
        let until_balance = next_balance - (jiffies + 1);
        let (entity, queue) = (&self.entities[se.index()], &mut self.cfs_rqs[cfs.index()]);
        let Some((leftmost, first_key)) = queue.timeline.first_with_key() else {
            queue.min_vruntime = queue.min_vruntime.max(entity.vruntime);
            return Some(FlatTick { previous, next: previous, scheduled: false, inactive: until_balance });
        };
        queue.min_vruntime = queue.min_vruntime.max(entity.vruntime.min(first_key));
        let weight = entity.load.scaled;
        let ideal = self.rules.flat_slice(queue, weight);
        let (ran, ahead) = (entity.sum_exec_runtime - entity.prev_sum_exec_runtime, entity.vruntime.since(first_key));
        let granularity = self.rules.tunables.min_granularity.as_nanos();
        let scheduled = ran > ideal || (ran >= granularity && ahead >= 0 && ahead as u64 > ideal);
        let (mut running, mut next_key, mut next) = (se, Some(first_key), previous);
        if scheduled {
            if ran > ideal && queue.has_buddies() {
                self.clear_buddies(cfs, se);
            }
            running = self.flat_pick_beside(cfs, se, (ahead >= 0).then_some(leftmost));
            next = self.entities[running.index()].task;
            next_key = self.flat_switch(cpu, cfs, se, running, running == leftmost && ahead >= 0);
            let rq = &mut self.rqs[cpu.index()];
            (rq.curr, rq.need_resched) = (next, false);
            self.balance.cfs_tasks.move_to_front(cpu, next);
        }
        let same = running == se || self.entities[running.index()].load.scaled == weight;
        let inactive = self.flat_inactive_ticks(cfs, running, next_key, same.then_some(ideal)).min(until_balance);
        Some(FlatTick { previous, next, scheduled, inactive })
    }

    /// `count` times the clocks, the averages and `update_curr` but for `min_vruntime`, the first at `first`.
    #[inline(always)]
    fn flat_charge_ticks(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId, first: u64, count: u64) {
        let tick = self.rules.tick;
        let last = first + tick * (count - 1);
        let left = self.loads.as_ref().is_some_and(|loads| loads.queues[cfs.index()].removed.count > 0);
        if left {
            self.skip_ticks_of_load(cpu, Time::from_nanos(first), count);
        }
        let (queue, entity) = (&self.cfs_rqs[cfs.index()], &mut self.entities[se.index()]);
        if let Some(loads) = self.loads.as_deref_mut().filter(|_| !left) {
            // skip_ticks_of_load of a task that is awake, with nobody to be taken out first.
            let (load, own) = (&mut loads.queues[cfs.index()], &mut loads.entities[se.index()]);
            let began = own.avg.period_start();
            let before = (first + self.pelt_origin).wrapping_sub(tick).wrapping_sub(load.throttled_time);
            let what = (queue.load.scaled >> 10, u64::from(queue.h_nr_runnable()));
            let weight = entity.load.scaled >> 10;
            SchedAvg::add_ticks_to_both([&mut load.avg, &mut own.avg], before, tick, count, what, weight);
            if own.avg.period_start() != began {
                own.util_est.changed();
            }
        }
        let rq = &mut self.rqs[cpu.index()];
        (rq.clock, rq.clock_task, rq.clock_pelt, rq.lazily) = (last, last, last + self.pelt_origin, false);
        let partial = first - entity.exec_start;
        entity.exec_start = last;
        entity.sum_exec_runtime += partial + tick * (count - 1);
        let mut virtual_time = partial + tick * (count - 1);
        if entity.load.scaled != self.rules.nice_0_load() {
            // Each tick rounds for itself.
            virtual_time = self.rules.calc_delta_fair(partial, &mut entity.load);
            let step = self.rules.calc_delta_fair(tick, &mut entity.load);
            virtual_time = virtual_time.wrapping_add(step.wrapping_mul(count - 1));
        }
        entity.vruntime = entity.vruntime.plus(virtual_time);
    }

    /// `pick_next_entity` beside an entity that is still runnable: mostly nobody is nominated or skipped, and the first in virtual time is
    /// who runs, if it is not `curr` itself.
    #[inline]
    fn flat_pick_beside(&mut self, cfs: CfsRqId, curr: EntityId, first: Option<EntityId>) -> EntityId {
        let queue = &self.cfs_rqs[cfs.index()];
        if queue.has_buddies() {
            return self.pick_next_entity(cfs, Some(curr)).unwrap_or(curr);
        }
        first.unwrap_or(curr)
    }

    /// The end of [`Sched::schedule`] of a task that is still runnable, once the next one is picked, which may be the `first` of the
    /// timeline: the key of who is first then.
    #[inline(always)]
    fn flat_switch(
        &mut self,
        cpu: CpuId,
        cfs: CfsRqId,
        previous: EntityId,
        next: EntityId,
        first: bool,
    ) -> Option<Vruntime> {
        if next == previous {
            if self.rules.series == Series::V5_10 {
                self.clear_buddies(cfs, next);
            }
            return self.cfs_rqs[cfs.index()].timeline.first_key();
        }
        // put_prev_entity; the averages are up to date.
        let (queue, entity) = (&mut self.cfs_rqs[cfs.index()], &mut self.entities[previous.index()]);
        let (vruntime, slice) = (entity.vruntime, entity.slice);
        let next_key = if first {
            let (sequence, key) = queue.timeline.insert_and_take_first(vruntime, vruntime, slice, previous);
            entity.sequence = sequence;
            key
        } else {
            entity.sequence = queue.timeline.insert(vruntime, vruntime, slice, previous);
            let entity = &self.entities[next.index()];
            let found = queue.timeline.remove(entity.vruntime, entity.sequence);
            debug_assert!(found, "an entity on the queue is in its timeline");
            queue.timeline.first_key()
        };
        self.flat_set_waiting(cpu, cfs, next);
        next_key
    }

    /// `set_next_entity` of an entity that waited and has left the timeline, on a queue whose averages are up to date.
    #[inline(always)]
    fn flat_set_waiting(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        if self.cfs_rqs[cfs.index()].has_buddies() {
            self.clear_buddies(cfs, se);
        }
        self.cfs_rqs[cfs.index()].curr = Some(se);
        let (rq, entity) = (&self.rqs[cpu.index()], &mut self.entities[se.index()]);
        entity.exec_start = rq.clock_task;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        let Some(loads) = self.loads.as_deref_mut() else { return };
        let (load, own) = (&loads.queues[cfs.index()], &mut loads.entities[se.index()]);
        if own.avg.last_update_time != 0 && own.avg.update_sum(load.clock(rq.clock_pelt), 1, 1, false) {
            own.avg.update_avg(entity.load.scaled >> 10);
            own.util_est.changed();
        }
    }

    /// [`Sched::inactive_ticks_fair`] of a task that was charged just now and is not alone; `first_key` is that of who waits,
    /// `ideal` its slice if that is known.
    #[inline(always)]
    fn flat_inactive_ticks(
        &mut self,
        cfs: CfsRqId,
        se: EntityId,
        first_key: Option<Vruntime>,
        ideal: Option<u64>,
    ) -> u64 {
        let (entity, queue) = (&mut self.entities[se.index()], &mut self.cfs_rqs[cfs.index()]);
        let Some(first_key) = first_key else { return 0 };
        let ideal = ideal.unwrap_or_else(|| self.rules.flat_slice(queue, entity.load.scaled));
        let Entity { sum_exec_runtime, prev_sum_exec_runtime, vruntime, .. } = *entity;
        let step = self.rules.calc_delta_fair(self.rules.tick, &mut entity.load);
        let first = sum_exec_runtime - prev_sum_exec_runtime + self.rules.tick;
        self.rules.inactive_ticks_cfs(first, ideal, vruntime.plus(step).since(first_key), step)
    }
}

impl Rules {
    /// `sched_slice` of an entity of this weight that is queued at the top, on a queue without SCHED_IDLE tasks.
    #[inline]
    fn flat_slice(&self, queue: &mut CfsRq, weight: u64) -> u64 {
        let (nr_running, granularity) = (u64::from(queue.nr_running), self.tunables.min_granularity.as_nanos());
        let period =
            if nr_running <= self.nr_latency { self.tunables.latency.as_nanos() } else { nr_running * granularity };
        let slice = calc_delta(period, weight, &mut queue.load);
        if self.alt_period { slice.max(granularity) } else { slice }
    }
}

impl CfsRq {
    /// Somebody is nominated, or is to be passed over.
    #[inline]
    pub(crate) fn has_buddies(&self) -> bool {
        self.next.is_some() || self.last.is_some() || self.skip.is_some()
    }
}
