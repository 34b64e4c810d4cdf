//! Ticks of a flat queue.

use schedlab_model::{CpuId, Series, TaskId, Time};

use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId};
use crate::fair::weight::calc_delta;
use crate::runqueue::Clocks;

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
    pub fn flat_tick(&mut self, cpu: CpuId, first: Time, count: u64) -> Option<FlatTick> {
        let tick = self.rules.tick;
        let now = first + Time::from_nanos(tick * (count - 1));
        let (rq, state) = (&self.rqs[cpu.index()], &self.balance.cpus[cpu.index()]);
        let (previous, cfs, next_balance) = (rq.curr, rq.cfs, state.next_balance);
        let jiffies = self.jiffies(cpu);
        let balances = self.balance.nohz.idle_cpus.first().is_some() || jiffies >= next_balance;
        if self.rules.eevdf() || previous == TaskId::IDLE || rq.need_resched || balances {
            return None;
        }
        if state.tick_stopped || state.push_cpu.is_some() {
            return None;
        }
        let se = self.tasks[previous.index()].se;
        let partial = first.as_nanos().wrapping_sub(self.entities[se.index()].exec_start);
        if partial as i64 <= 0 {
            return None;
        }
        self.skip_ticks_of_load(cpu, first, count);
        self.set_clocks(cpu, Clocks::all(now));
        self.rqs[cpu.index()].lazily = false;
        let mut virtual_time = self.calc_delta_fair(partial, se);
        if count > 1 {
            virtual_time = virtual_time.wrapping_add(self.calc_delta_fair(tick, se).wrapping_mul(count - 1));
        }
        let entity = &mut self.entities[se.index()];
        entity.exec_start = now.as_nanos();
        entity.sum_exec_runtime += partial + tick * (count - 1);
        entity.vruntime = entity.vruntime.plus(virtual_time);
        self.update_min_vruntime(cfs);
        let until_balance = next_balance - (jiffies + 1);
        if self.cfs_rqs[cfs.index()].nr_running <= 1 {
            return Some(FlatTick { previous, next: previous, scheduled: false, inactive: until_balance });
        }
        let ideal = self.flat_slice(cfs, se);
        let scheduled = self.slice_is_over(cfs, se, ideal);
        let mut running = se;
        if scheduled {
            running = self.flat_pick_beside(cfs, se);
            self.flat_switch(cpu, cfs, se, running, now);
        }
        let same = self.entities[running.index()].load.scaled == self.entities[se.index()].load.scaled;
        let ideal = if same { ideal } else { self.flat_slice(cfs, running) };
        let inactive = self.inactive_ticks_cfs(cfs, running, ideal, now.as_nanos() + tick).min(until_balance);
        Some(FlatTick { previous, next: self.entities[running.index()].task, scheduled, inactive })
    }

    /// `sched_slice` of an entity that is queued at the top, on a queue without SCHED_IDLE tasks.
    #[inline]
    fn flat_slice(&mut self, cfs: CfsRqId, se: EntityId) -> u64 {
        let (weight, queue) = (self.entities[se.index()].load.scaled, &self.cfs_rqs[cfs.index()]);
        let period = self.sched_period(u64::from(queue.nr_running));
        let slice = calc_delta(period, weight, &mut self.cfs_rqs[cfs.index()].load);
        let least = if self.rules.alt_period { self.rules.tunables.min_granularity.as_nanos() } else { 0 };
        slice.max(least)
    }

    /// The end of [`Sched::schedule`] of a task that is still runnable, once the next one is picked.
    fn flat_switch(&mut self, cpu: CpuId, cfs: CfsRqId, previous: EntityId, next: EntityId, now: Time) {
        let task = self.entities[next.index()].task;
        if next != previous {
            // put_prev_entity; the averages are up to date.
            self.timeline_insert(cfs, previous);
            self.cfs_rqs[cfs.index()].curr = None;
            self.flat_set_waiting(cpu, cfs, next);
        } else if self.rules.series == Series::V5_10 {
            self.clear_buddies(cfs, next);
        }
        let rq = &mut self.rqs[cpu.index()];
        debug_assert_eq!(rq.clock, now.as_nanos());
        (rq.curr, rq.need_resched, rq.lazily) = (task, false, false);
        self.balance.cfs_tasks.move_to_front(cpu, task);
    }

    /// `pick_next_entity` beside an entity that is still runnable: mostly nobody is nominated or skipped, and the first in virtual time is
    /// who runs.
    #[inline]
    fn flat_pick_beside(&mut self, cfs: CfsRqId, curr: EntityId) -> EntityId {
        let queue = &self.cfs_rqs[cfs.index()];
        if queue.skip.is_some() || queue.next.is_some() || queue.last.is_some() {
            return self.pick_next_entity(cfs, Some(curr)).unwrap_or(curr);
        }
        match (queue.timeline.first(), queue.timeline.first_key()) {
            (Some(first), Some(key)) if !self.entities[curr.index()].vruntime.before(key) => first,
            _ => curr,
        }
    }

    /// `set_next_entity` of an entity that waited, on a queue whose averages are up to date.
    #[inline]
    fn flat_set_waiting(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        self.clear_buddies(cfs, se);
        let entity = &mut self.entities[se.index()];
        let found = self.cfs_rqs[cfs.index()].timeline.remove(entity.vruntime, entity.sequence);
        debug_assert!(found, "an entity on the queue is in its timeline");
        let rq = &self.rqs[cpu.index()];
        entity.exec_start = rq.clock_task;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        self.cfs_rqs[cfs.index()].curr = Some(se);
        let weight = entity.load.scaled >> 10;
        let Some(loads) = self.loads.as_deref_mut() else { return };
        let now = loads.queues[cfs.index()].clock(rq.clock_pelt);
        let own = &mut loads.entities[se.index()];
        if own.avg.last_update_time != 0 && own.avg.update_sum(now, 1, 1, false) {
            own.avg.update_avg(weight);
            own.util_est.changed();
        }
    }
}
