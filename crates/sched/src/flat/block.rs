//! Running tasks that go to sleep on flat queues.

use schedlab_model::{CpuId, TaskId};

use crate::class::DequeueFlags;
use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId, Life};
use crate::fair::load::{Action, Loads};
use crate::fair::pelt::SchedAvg;
use crate::fair::sums::Sums;
use crate::flat::newidle::Work;

impl Sched<Ours> {
    /// [`Sched::schedule`] of a CPU whose task goes to sleep: who runs then. None, and nothing done, where the long way is to be taken: a
    /// fair server serves, or the task would be pushed away. The CPU must have its clocks.
    pub fn flat_block(&mut self, cpu: CpuId) -> Option<TaskId> {
        let rq = &self.rqs[cpu.index()];
        if rq.dl.first().is_some() || self.balance.cpus[cpu.index()].push_cpu.is_some() {
            return None;
        }
        let (previous, cfs, se) = (rq.curr, CfsRqId(cpu.0), EntityId(rq.curr.0));
        if !self.flat_leave_once(cpu, previous) {
            self.flat_leave(cpu, previous);
        }
        let empty = self.rqs[cpu.index()].nr_running == 0;
        match if empty { self.flat_newidle(cpu) } else { Work::Queued } {
            Work::Nothing => {
                self.flat_idle(cpu, cfs);
                return Some(TaskId::IDLE);
            }
            Work::Taken(next) => {
                self.flat_take_over(cpu, next);
                return Some(next);
            }
            Work::Queued => {}
        }
        if !self.rules.eevdf()
            && let Some(next) = self.pick_next_entity(cfs, None)
        {
            return Some(self.flat_set_next(cpu, cfs, next));
        }
        let mut next = self.flat_pick_eevdf(cpu, cfs);
        if next.is_none() && !empty && self.flat_newidle(cpu) != Work::Nothing {
            // Who lingered has left.
            next = self.flat_pick_eevdf(cpu, cfs);
        }
        // put_prev_entity: one that lingers is queued still, unless it was picked and left.
        if self.entities[se.index()].on_rq {
            self.timeline_insert(cfs, se);
        }
        let Some(next) = next else {
            self.flat_idle(cpu, cfs);
            return Some(TaskId::IDLE);
        };
        Some(self.flat_set_next_eevdf(cpu, cfs, next))
    }

    /// `deactivate_task` of the running task, which goes to sleep.
    fn flat_leave(&mut self, cpu: CpuId, previous: TaskId) {
        let (cfs, se, eevdf) = (CfsRqId(cpu.0), EntityId(previous.0), self.rules.eevdf());
        self.tasks[previous.index()].life = Life::Asleep;
        self.util_est_dequeue(cpu, se);
        if eevdf {
            self.util_est_update(se);
        }
        // dequeue_entity
        let charged = self.flat_charge(cpu, cfs, se);
        if self.cfs_rqs[cfs.index()].has_buddies() {
            self.clear_buddies(cfs, se);
        }
        // Alone it is V itself: eligible, and without lag.
        let alone = self.cfs_rqs[cfs.index()].nr_running == 1;
        let lingers = eevdf && !alone && self.lingers(cfs, se, DequeueFlags::SLEEP);
        self.flat_update_load(cpu, cfs, se);
        if lingers {
            return self.set_delayed(se);
        }
        if eevdf && !alone {
            self.update_entity_lag(cfs, se);
        } else if !eevdf {
            self.util_est_update(se);
        }
        self.balance.cfs_tasks.remove(cpu, previous);
        let (entity, queue) = (&mut self.entities[se.index()], &mut self.cfs_rqs[cfs.index()]);
        entity.on_rq = false;
        queue.load.subtract(entity.load.scaled);
        queue.nr_running -= 1;
        queue.h_nr_running -= 1;
        if eevdf && alone {
            (queue.zero_vruntime, entity.vlag) = (entity.vruntime, 0);
        } else if !eevdf {
            // As in `flat_leave_once`.
            let own = Some(entity.vruntime).filter(|_| charged);
            if let Some(least) = queue.timeline.first_key().or(own) {
                queue.min_vruntime = queue.min_vruntime.max(least);
            }
        }
        self.rqs[cpu.index()].nr_running -= 1;
    }

    /// [`Sched::flat_leave`] under CFS, or of a task that is alone on its CPU: all that is touched is looked up once. False, and nothing done,
    /// elsewhere.
    #[inline(always)]
    fn flat_leave_once(&mut self, cpu: CpuId, previous: TaskId) -> bool {
        let (cfs, se, eevdf) = (CfsRqId(cpu.0), EntityId(previous.0), self.rules.eevdf());
        let queue = &self.cfs_rqs[cfs.index()];
        let attached = |loads: &Loads| loads.entities[se.index()].avg.last_update_time != 0;
        if (eevdf && queue.nr_running != 1) || queue.has_buddies() || !self.loads.as_deref().is_some_and(attached) {
            return false;
        }
        if eevdf {
            self.flat_charge(cpu, cfs, se);
        }
        let Self { rules, rqs, tasks, entities, cfs_rqs, loads, balance, .. } = self;
        let (rq, queue, entity) = (&mut rqs[cpu.index()], &mut cfs_rqs[cfs.index()], &mut entities[se.index()]);
        tasks[previous.index()].life = Life::Asleep;
        let delta = rq.clock_task.wrapping_sub(entity.exec_start);
        let charged = !eevdf && delta as i64 > 0;
        if charged {
            entity.exec_start = rq.clock_task;
            entity.sum_exec_runtime += delta;
            entity.vruntime = entity.vruntime.plus(rules.calc_delta_fair(delta, &mut entity.load));
        }
        if let Some(loads) = loads.as_deref_mut() {
            let (own, load) = (&mut loads.entities[se.index()], &mut loads.queues[cfs.index()]);
            load.util_est = load.util_est.saturating_sub(own.util_est.value() as u32);
            if eevdf {
                own.util_est.update(&own.avg, rules.series);
            }
            load.take_out(Sums::of(rules.series));
            let now = load.clock(rq.clock_pelt);
            let weight = entity.load.scaled >> 10;
            let what = (queue.load.scaled >> 10, u64::from(queue.h_nr_running));
            if SchedAvg::update_both([&mut load.avg, &mut own.avg], now, what, weight) {
                own.util_est.changed();
            }
            if !eevdf {
                own.util_est.update(&own.avg, rules.series);
            }
        }
        balance.cfs_tasks.remove(cpu, previous);
        entity.on_rq = false;
        queue.load.subtract(entity.load.scaled);
        queue.nr_running -= 1;
        queue.h_nr_running -= 1;
        rq.nr_running -= 1;
        if eevdf {
            (queue.zero_vruntime, entity.vlag) = (entity.vruntime, 0);
            return true;
        }
        // update_min_vruntime twice, with it as it is charged and without it as it has left: where somebody waits, that is the later of what
        // it was and that one's; else the first of both alone counts.
        let own = Some(entity.vruntime).filter(|_| charged);
        if let Some(least) = queue.timeline.first_key().or(own) {
            queue.min_vruntime = queue.min_vruntime.max(least);
        }
        true
    }

    /// `update_curr` but for `min_vruntime`: whether any time passed.
    #[inline(always)]
    pub(super) fn flat_charge(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) -> bool {
        let (now, entity) = (self.rqs[cpu.index()].clock_task, &mut self.entities[se.index()]);
        let delta = now.wrapping_sub(entity.exec_start);
        if delta as i64 <= 0 {
            return false;
        }
        entity.exec_start = now;
        entity.sum_exec_runtime += delta;
        entity.vruntime = entity.vruntime.plus(self.rules.calc_delta_fair(delta, &mut entity.load));
        if self.rules.eevdf() {
            // Nothing is served, and nobody has to go, while its deadline is to come and it is protected up to there (6.12).
            let goes_on = entity.vruntime.before(entity.deadline) && entity.vprot == entity.deadline;
            self.dl_server_update(cpu, delta);
            if !goes_on && self.served(cfs, se) {
                // Whoever looks for work on the way asks whether the CPU is to schedule.
                self.resched_curr_lazy(cpu);
            }
        }
        true
    }

    /// `update_load_avg` of the running task.
    #[inline(always)]
    pub(super) fn flat_update_load(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        let (queue, weight) = (&self.cfs_rqs[cfs.index()], self.entities[se.index()].load.scaled >> 10);
        let Some(loads) = self.loads.as_deref_mut() else { return };
        let (own, load) = (&mut loads.entities[se.index()], &mut loads.queues[cfs.index()]);
        if own.avg.last_update_time == 0 {
            return self.update_load_avg_slow(cfs, se, Action::UPDATE);
        }
        load.take_out(Sums::of(self.rules.series));
        let now = load.clock(self.rqs[cpu.index()].clock_pelt);
        let what = (queue.load.scaled >> 10, u64::from(queue.h_nr_runnable()));
        if SchedAvg::update_both([&mut load.avg, &mut own.avg], now, what, weight) {
            own.util_est.changed();
        }
    }

    /// The end of [`Sched::schedule`] of a CPU that has nothing to run.
    #[inline(always)]
    fn flat_idle(&mut self, cpu: CpuId, cfs: CfsRqId) {
        self.cfs_rqs[cfs.index()].curr = None;
        let rq = &mut self.rqs[cpu.index()];
        rq.idle_exec_start = rq.clock_task;
        (rq.curr, rq.need_resched, rq.lazily) = (TaskId::IDLE, false, false);
        if self.balance.domains.smt_active() {
            self.update_idle_core(cpu);
        }
        self.idle_cpus.insert(cpu.index());
        self.nohz_balance_enter_idle(cpu);
    }
}
