//! Tasks and groups that come on to a queue's account of load, and that leave it (`kernel/sched/fair.c`).

use schedlab_model::TaskId;

use crate::decider::Decider;
use crate::entity::{CfsRqId, Entity, EntityId};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::load::Action;
use crate::fair::pelt::queue_load::{QueueLoad, attach_entity_load_avg};
use crate::fair::weight::scale_load_down;
use crate::machine::Sched;

impl Entity {
    /// The first part of [`Sched::remove_entity_load_avg`]: its averages as its queue's are, and noted there, if it is on the queue's account.
    #[inline(always)]
    pub(crate) fn leave_account_asleep(&mut self, queue: &mut QueueLoad) -> bool {
        let avg = &mut self.pelt.avg;
        if avg.last_update_time == 0 {
            return false;
        }
        if avg.age(queue.avg.last_update_time) {
            avg.update_avg(scale_load_down(self.weight));
        }
        let removed = &mut queue.removed;
        removed.count += 1;
        removed.load += avg.load_avg;
        removed.util += avg.util_avg;
        removed.runnable += avg.runnable_avg;
        true
    }
}

impl<D: Decider> Sched<D> {
    /// `set_task_rq_fair`: a task on no queue's account (of another class) that belongs to another queue from now on has aged as the
    /// one before did, and goes on from the time of the next.
    pub(crate) fn set_task_rq_load(&mut self, se: EntityId, next: CfsRqId) {
        if !self.tracks_load {
            return;
        }
        let entity = &mut self.entities[se.index()];
        let until = self.cfs_rqs[entity.cfs_rq.index()].pelt.avg.last_update_time;
        let from = self.cfs_rqs[next.index()].pelt.avg.last_update_time;
        let avg = &mut entity.pelt.avg;
        if avg.last_update_time != 0 {
            if avg.age(until) {
                avg.update_avg(scale_load_down(entity.weight));
            }
            avg.last_update_time = from;
        }
    }

    /// `remove_entity_load_avg` and `migrate_task_rq_fair`: a sleeper goes to another CPU; its queue takes its load out when it next
    /// looks.
    #[inline]
    pub(crate) fn remove_entity_load_avg(&mut self, se: EntityId) {
        if !self.tracks_load {
            return;
        }
        let entity = &mut self.entities[se.index()];
        let cfs = &mut self.cfs_rqs[entity.cfs_rq.index()];
        if !entity.leave_account_asleep(&mut cfs.pelt) {
            return;
        }
        let idle = self.rqs[cfs.cpu.index()].curr == TaskId::IDLE;
        if idle {
            self.migrate_se_pelt_lag(se);
        }
        self.entities[se.index()].pelt.avg.last_update_time = 0;
    }

    /// `migrate_se_pelt_lag` (5.19 on): an idle CPU's clock stood still meanwhile.
    #[inline(never)]
    pub(crate) fn migrate_se_pelt_lag(&mut self, se: EntityId) {
        let entity = &mut self.entities[se.index()];
        let cfs = &self.cfs_rqs[entity.cfs_rq.index()];
        let (rq, queue) = (&self.rqs[cfs.cpu.index()], &cfs.pelt);
        if self.rules.migration_adds_pelt_lag && !queue.stopped {
            let now = rq.clock_pelt + self.balance.now.saturating_sub(rq.clock);
            if entity.pelt.avg.age(now.wrapping_sub(queue.throttled_time)) {
                entity.pelt.avg.update_avg(scale_load_down(entity.weight));
            }
        }
    }

    /// [`Sched::remove_entity_load_avg`] where a recording tells the times that it read: what its queue's averages are of, and what it
    /// made of an idle CPU's clock.
    pub(crate) fn remove_load_at(&mut self, se: EntityId, updated: u64, lag: Option<u64>) {
        if !self.tracks_load {
            return;
        }
        let entity = &mut self.entities[se.index()];
        let queue = &mut self.cfs_rqs[entity.cfs_rq.index()].pelt;
        let own = std::mem::replace(&mut queue.avg.last_update_time, updated);
        let left = entity.leave_account_asleep(queue);
        queue.avg.last_update_time = own;
        if let Some(now) = lag.filter(|_| left)
            && entity.pelt.avg.age(now)
        {
            entity.pelt.avg.update_avg(scale_load_down(entity.weight));
        }
        entity.pelt.avg.last_update_time = 0;
    }

    /// `detach_entity_cfs_rq`: an entity leaves its queue's account at once, and the queues above learn of it. Its own averages go on:
    /// a task that left the fair class ages.
    pub(crate) fn detach_entity_cfs_rq(&mut self, se: EntityId) {
        if !self.tracks_load || self.entities[se.index()].pelt.avg.last_update_time == 0 {
            return;
        }
        let cfs = self.entities[se.index()].cfs_rq;
        self.update_load_avg_slow(cfs, se, Action { detach: true, ..Action::default() });
        self.propagate_entity_cfs_rq(se);
    }

    /// `attach_entity_cfs_rq`.
    pub(crate) fn attach_entity_cfs_rq(&mut self, se: EntityId) {
        if self.tracks_load {
            let cfs = self.entities[se.index()].cfs_rq;
            self.update_load_avg_slow(cfs, se, Action::default());
            let (weight, sums) = (self.se_weight(se), self.sums());
            let (own, queue) = (&mut self.entities[se.index()].pelt.avg, &mut self.cfs_rqs[cfs.index()].pelt);
            attach_entity_load_avg(queue, own, weight, sums);
            self.update_tg_load_avg(cfs);
            self.propagate_entity_cfs_rq(se);
        }
    }

    /// `propagate_entity_cfs_rq`: as far up as a queue that is throttled, before 6.18.
    fn propagate_entity_cfs_rq(&mut self, se: EntityId) {
        let (ends_throttled, reaches) = (!self.rules.throttles_tasks, self.rules.propagates_to_throttled);
        let ends = |queue: &CfsRq| queue.throttled && ends_throttled;
        let entity = &self.entities[se.index()];
        if ends(&self.cfs_rqs[entity.cfs_rq.index()]) && reaches {
            return;
        }
        let mut level = entity.parent;
        while let Some(se) = level {
            let (cfs, parent) = (self.entities[se.index()].cfs_rq, self.entities[se.index()].parent);
            let last = ends(&self.cfs_rqs[cfs.index()]);
            if !last || reaches {
                self.update_load_avg_slow(cfs, se, Action::UPDATE);
            }
            level = parent.filter(|_| !last);
        }
    }
}
