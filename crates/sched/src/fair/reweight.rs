//! `reweight_entity` (`kernel/sched/fair.c`): a weight changes where the entity stands.
//!
//! Under CFS only later time counts by the new weight. EEVDF keeps the lag, weight × (V − v), and the rest of the request in real
//! time: distances from V scale by old / new weight.

use schedlab_model::{CpuId, TaskId};

use crate::class::EnqueueFlags;
use crate::decider::Decider;
use crate::entity::{CfsRqId, Entity, EntityId, Vruntime};
use crate::fair::weight::Weight;
use crate::machine::Sched;

impl Entity {
    /// `rescale_entity` of one that is queued: v' = V − lag, and the rest is as far from V as it was in real time, its protection, too, if it
    /// has any.
    fn rescale(&mut self, average: Vruntime, lag: i64, scale: impl Fn(i64) -> i64, protected: bool) {
        let about_average = |place: Vruntime| average.plus(scale(place.since(average)) as u64);
        (self.vlag, self.vruntime) = (lag, average.minus(lag as u64));
        self.deadline = about_average(self.deadline);
        if protected {
            self.vprot = about_average(self.vprot);
        }
    }
}

impl<D: Decider> Sched<D> {
    /// `set_load_weight` of a task that is on no queue: with a single timeline (7.3) only its level knows of it until it is queued.
    pub(crate) fn set_load_weight(&mut self, se: EntityId, load: Weight) {
        let entity = &mut self.entities[se.index()];
        if self.rules.single_timeline {
            entity.weight = load.scaled;
        } else {
            entity.set_load(load);
        }
    }

    /// `reweight_task_fair`: a task of the fair class gets another weight, on its queue or off it.
    pub(crate) fn reweight_task_fair(&mut self, task: TaskId, weight: Weight) {
        let se = self.tasks[task.index()].se;
        let entity = &self.entities[se.index()];
        let (cfs, queued) = (entity.cfs_rq, entity.on_rq);
        if !self.rules.single_timeline {
            return self.reweight_entity(cfs, se, weight);
        }
        let cpu = self.cfs_rqs[cfs.index()].cpu;
        if queued && self.rqs[cpu.index()].curr != TaskId::IDLE {
            self.update_curr_fair(cpu);
        }
        self.reweight_entity(cfs, se, weight);
        if queued {
            let part = self.prop_weight(se);
            self.reweight_eevdf(cpu, se, part, true);
        }
    }

    /// Gives `se`, on or off its queue `cfs`, another weight. The queue must have its clocks.
    pub(crate) fn reweight_entity(&mut self, cfs: CfsRqId, se: EntityId, weight: Weight) {
        let queued = self.entities[se.index()].on_rq;
        if self.rules.single_timeline {
            return self.reweight_level(cfs, se, weight.scaled, queued);
        }
        if self.rules.eevdf {
            self.reweight_entity_eevdf(cfs, se, weight, queued);
            return;
        }
        let old = self.entities[se.index()].load.scaled;
        if queued {
            if self.cfs_rqs[cfs.index()].curr == Some(se) {
                self.update_curr_cfs(cfs);
            }
            let load = &mut self.cfs_rqs[cfs.index()].load;
            load.subtract(old);
            load.add(weight.scaled);
        }
        self.reweight_load(cfs, se, weight.scaled);
        self.entities[se.index()].set_load(weight);
    }

    /// `reweight_entity` with a single timeline (7.3): the load of the queue and its averages alone.
    fn reweight_level(&mut self, cfs: CfsRqId, se: EntityId, weight: u64, queued: bool) {
        let old = self.entities[se.index()].weight;
        if old == weight {
            return;
        }
        self.reweight_load(cfs, se, weight);
        self.entities[se.index()].weight = weight;
        if queued {
            let load = &mut self.cfs_rqs[cfs.index()].load;
            load.subtract(old);
            load.add(weight);
        }
    }

    fn reweight_entity_eevdf(&mut self, cfs: CfsRqId, se: EntityId, weight: Weight, queued: bool) {
        let old = self.entities[se.index()].load.scaled;
        let scale = |distance: i64| distance.wrapping_mul(old as i64) / weight.scaled as i64;
        if !queued {
            self.rescale_unqueued(se, weight);
            self.reweight_load(cfs, se, weight.scaled);
            self.entities[se.index()].set_load(weight);
            return;
        }
        self.update_curr_cfs(cfs);
        let average = self.avg_vruntime(cfs);
        let running = self.cfs_rqs[cfs.index()].curr == Some(se);
        let lag = self.entity_lag(cfs, average, se);
        let overwritten = self.rules.protects_for_time && !self.rules.protection_apart_from_lag;
        if overwritten {
            self.entities[se.index()].vprot = Vruntime(lag as u64);
        }
        let lag = scale(lag);
        let protected = running && self.rules.reweighting_moves_protection && self.protect_slice(se);
        if !running {
            self.timeline_remove(cfs, se);
        }
        self.cfs_rqs[cfs.index()].load.subtract(old);
        self.reweight_load(cfs, se, weight.scaled);
        let entity = &mut self.entities[se.index()];
        entity.set_load(weight);
        if !self.rules.reweights_by_placing {
            // reweight_eevdf
            if entity.vruntime != average {
                entity.vruntime = average.minus(lag as u64);
            }
            // Once the deadline moves it is no longer that of the pick: protection ends.
            entity.deadline = average.plus(scale(entity.deadline.since(average)) as u64);
        } else if self.rules.rescales {
            entity.rescale(average, lag, scale, protected);
        } else {
            self.place_reweighted(cfs, se, lag, scale, protected);
        }
        if overwritten && !protected {
            self.entities[se.index()].vprot = Vruntime(lag as u64);
        }
        self.cfs_rqs[cfs.index()].load.add(weight.scaled);
        if !running {
            self.timeline_insert(cfs, se);
        }
    }

    /// `reweight_eevdf` (7.3): the task's part of the CPU through all levels is another one from now on; its place in the timeline follows,
    /// if it has one. The queue must have its clocks.
    pub(crate) fn reweight_eevdf(&mut self, cpu: CpuId, se: EntityId, weight: u64, queued: bool) {
        let old = self.entities[se.index()].load.scaled;
        if old == weight {
            return;
        }
        let load = Weight { scaled: weight, inverse: 0 };
        if !queued {
            self.rescale_unqueued(se, load);
            self.entities[se.index()].load = load;
            return;
        }
        let root = self.rqs[cpu.index()].cfs;
        let scale = |distance: i64| distance.wrapping_mul(old as i64) / weight as i64;
        let average = self.avg_vruntime(root);
        let lag = scale(self.entity_lag(root, average, se));
        let running = self.cfs_rqs[root.index()].curr == Some(se);
        let protected = running && self.rules.reweighting_moves_protection && self.protect_slice(se);
        if !running {
            self.timeline_remove(root, se);
        }
        let entity = &mut self.entities[se.index()];
        entity.load = load;
        entity.rescale(average, lag, scale, protected);
        if !running {
            self.timeline_insert(root, se);
        }
    }

    /// The same off a queue: what is kept is the lag, weight · vlag, and from 6.13 on the distance of a deadline that is relative.
    pub(crate) fn rescale_unqueued(&mut self, se: EntityId, weight: Weight) {
        let rescales_deadline = self.rules.rescales_relative_deadline;
        let entity = &mut self.entities[se.index()];
        let scale = |distance: i64| distance.wrapping_mul(entity.load.scaled as i64) / weight.scaled as i64;
        let (lag, deadline) = (scale(entity.vlag), scale(entity.deadline.0 as i64));
        entity.vlag = lag;
        if rescales_deadline && entity.rel_deadline {
            entity.deadline = Vruntime(deadline as u64);
        }
    }

    /// 6.13 to 6.19: placed anew as if it came with its lag, but with its deadline as far ahead as it was in real time.
    fn place_reweighted(&mut self, cfs: CfsRqId, se: EntityId, lag: i64, scale: impl Fn(i64) -> i64, protected: bool) {
        let entity = &mut self.entities[se.index()];
        let protection = scale(entity.vprot.since(entity.vruntime));
        entity.vlag = lag;
        entity.deadline = Vruntime(scale(entity.deadline.since(entity.vruntime)) as u64);
        entity.rel_deadline = true;
        // place_entity must not count it among those already there.
        self.cfs_rqs[cfs.index()].nr_running -= 1;
        self.place_entity_eevdf(cfs, se, EnqueueFlags::default());
        self.cfs_rqs[cfs.index()].nr_running += 1;
        if protected {
            let entity = &mut self.entities[se.index()];
            entity.vprot = entity.vruntime.plus(protection as u64);
        }
    }
}
