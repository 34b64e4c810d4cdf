//! Wake-ups on busy CPUs of flat queues under EEVDF (6.12).

use schedlab_model::{CpuId, TaskId};

use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, Entity, EntityId};
use crate::fair::cfs_rq::CfsRq;
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
        queue.load.add(entity.load.scaled);
        queue.nr_running += 1;
        queue.h_nr_running += 1;
        rq.nr_running += 1;
        // add_nr_running
        balance.overload |= rq.nr_running == 2;
        if state.idle_stamp.is_some() {
            state.end_idle(rq.clock, balance.jiffy.0);
        }
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
}
