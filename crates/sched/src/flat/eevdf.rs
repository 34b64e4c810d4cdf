//! What is EEVDF's own on flat queues (6.12): wake-ups on busy CPUs, picks, and those who linger.

use schedlab_model::{CpuId, TaskId};

use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::load::Action;
use crate::fair::sums::Sums;
use crate::flat::wake::attach_woken;

impl Entity {
    /// Its weight as averages of virtual time count it.
    #[inline(always)]
    fn weight(&self) -> i64 {
        (self.load.scaled >> 10) as i64
    }
}

impl CfsRq {
    /// Σ (vruntime − zero) · weight and Σ weight of all on it, with whoever runs, if anybody does.
    #[inline(always)]
    fn sums_with(&self, running: Option<&Entity>) -> (i64, i64) {
        let Some(running) = running else { return (self.avg_vruntime, self.avg_load) };
        let (key, weight) = (running.vruntime.since(self.zero_vruntime), running.weight());
        (self.avg_vruntime.wrapping_add(key.wrapping_mul(weight)), self.avg_load + weight)
    }

    /// `avg_vruntime`: the origin moves to V.
    #[inline(always)]
    fn move_to_average(&mut self, running: Option<&Entity>) {
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

impl Sched<Ours> {
    /// [`Sched::flat_wake`] of a CPU that has somebody: `enqueue_entity`, and `check_preempt_wakeup_fair` of whoever runs.
    #[inline(always)]
    pub(super) fn flat_wake_busy_eevdf(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
        let (cfs, se) = (CfsRqId(cpu.0), EntityId(task.0));
        self.balance.cfs_tasks.add(cpu, task);
        let curr = self.cfs_rqs[cfs.index()].curr;
        if let Some(curr) = curr {
            self.flat_charge(cpu, cfs, curr);
        }
        let Self { rules, rqs, entities, cfs_rqs, loads, balance, .. } = self;
        let (rq, queue, state) = (&mut rqs[cpu.index()], &mut cfs_rqs[cfs.index()], &mut balance.cpus[cpu.index()]);
        queue.move_to_average(curr.map(|curr| &entities[curr.index()]));
        let (_, load) = queue.sums_with(curr.map(|curr| &entities[curr.index()]));
        let entity = &mut entities[se.index()];
        if let Some(loads) = loads.as_deref_mut() {
            let (own, load) = (&mut loads.entities[se.index()], &mut loads.queues[cfs.index()]);
            attach_woken(queue, load, own, rq.clock_pelt, entity.load.scaled >> 10, Sums::of(rules.series));
        }
        // place_entity
        debug_assert!(!entity.rel_deadline, "that is for those who move while they are queued");
        let features = &rules.tunables.features;
        if !entity.custom_slice {
            entity.slice = rules.tunables.base_slice.as_nanos();
        }
        let weight = entity.weight();
        let lag = if features.place_lag { entity.vlag.wrapping_mul(load + weight) / load.max(1) } else { 0 };
        entity.vruntime = queue.zero_vruntime.minus(lag as u64);
        entity.deadline = entity.vruntime.plus(rules.calc_delta_fair(entity.slice, &mut entity.load));
        entity.on_rq = true;
        if migrated {
            entity.exec_start = 0;
        }
        // __enqueue_entity, with avg_vruntime_add
        let key = entity.vruntime.since(queue.zero_vruntime);
        queue.avg_vruntime = queue.avg_vruntime.wrapping_add(key.wrapping_mul(weight));
        queue.avg_load += weight;
        entity.sequence = queue.timeline.insert(entity.deadline, entity.vruntime, entity.slice, se);
        balance.overload |= state.count_woken(rq, queue, entity.load.scaled, balance.jiffy.0);
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
        let (woken, running) = (&entities[se.index()], &entities[curr.index()]);
        let shorter = features.preempt_short && woken.slice < running.slice;
        // Whoever runs keeps the CPU while it is eligible and protected.
        let (sum, load) = queue.sums_with(Some(running));
        let eligible = sum >= running.vruntime.since(queue.zero_vruntime).wrapping_mul(load);
        if !shorter && features.run_to_parity && eligible && running.vprot == running.deadline {
            return;
        }
        if self.becomes_first(curr, se) {
            self.resched_curr_lazy(cpu);
        }
    }

    /// `pick_next_task` of a CPU whose running task was charged: one that lingers and is picked leaves, and the pick begins anew.
    pub(super) fn flat_pick_eevdf(&mut self, cpu: CpuId, cfs: CfsRqId) -> Option<EntityId> {
        while self.cfs_rqs[cfs.index()].nr_running > 0 {
            let se = self.pick_next_eevdf(cfs)?;
            if !self.entities[se.index()].sched_delayed {
                return Some(se);
            }
            self.flat_dequeue_delayed(cpu, cfs, se);
        }
        None
    }

    /// [`Sched::dequeue_delayed`] on a queue whose running task was charged.
    fn flat_dequeue_delayed(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        self.util_est_dequeue(cpu, se);
        self.util_est_update(se);
        if self.cfs_rqs[cfs.index()].has_buddies() {
            self.clear_buddies(cfs, se);
        }
        self.update_load_avg(cfs, se, Action::UPDATE);
        self.update_entity_lag(cfs, se);
        if self.cfs_rqs[cfs.index()].curr != Some(se) {
            self.timeline_remove(cfs, se);
        }
        self.balance.cfs_tasks.remove(cpu, TaskId(se.0));
        let (entity, queue) = (&mut self.entities[se.index()], &mut self.cfs_rqs[cfs.index()]);
        entity.on_rq = false;
        queue.load.subtract(entity.load.scaled);
        queue.nr_running -= 1;
        self.finish_delayed_dequeue(se);
        self.cfs_rqs[cfs.index()].h_nr_running -= 1;
        self.rqs[cpu.index()].nr_running -= 1;
    }

    /// `set_next_entity` of a task that waits, and the end of [`Sched::schedule`].
    pub(super) fn flat_set_next_eevdf(&mut self, cpu: CpuId, cfs: CfsRqId, next: EntityId) -> TaskId {
        if self.cfs_rqs[cfs.index()].has_buddies() {
            self.clear_buddies(cfs, next);
        }
        self.timeline_remove(cfs, next);
        self.update_load_avg(cfs, next, Action::UPDATE);
        let (rq, entity) = (&mut self.rqs[cpu.index()], &mut self.entities[next.index()]);
        self.cfs_rqs[cfs.index()].curr = Some(next);
        (entity.vprot, entity.exec_start) = (entity.deadline, rq.clock_task);
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        let next = TaskId(next.0);
        (rq.curr, rq.need_resched, rq.lazily) = (next, false, false);
        self.balance.cfs_tasks.move_to_front(cpu, next);
        next
    }
}
