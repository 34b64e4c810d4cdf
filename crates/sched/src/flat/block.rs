//! Running tasks that go to sleep on flat queues.

use schedlab_model::{CpuId, Series, TaskId};

use crate::class::DequeueFlags;
use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{EntityId, Life};
use crate::fair::load::Action;

impl Sched<Ours> {
    /// [`Sched::schedule`] of a CPU whose task goes to sleep: who runs then. None, and nothing done, where the long way is to be taken: a
    /// fair server serves, or the task would be pushed away.
    pub fn flat_block(&mut self, cpu: CpuId) -> Option<TaskId> {
        let rq = &self.rqs[cpu.index()];
        let (previous, cfs) = (rq.curr, rq.cfs);
        if rq.dl.first().is_some() || self.balance.cpus[cpu.index()].push_cpu.is_some() {
            return None;
        }
        let se = self.tasks[previous.index()].se;
        self.tasks[previous.index()].life = Life::Asleep;
        let eevdf = self.rules.eevdf();
        self.util_est_dequeue(cpu, se);
        if eevdf {
            self.util_est_update(se);
        }
        // dequeue_entity
        let charged = if eevdf {
            self.update_curr_cfs(cfs);
            true
        } else {
            self.flat_charge(cpu, se)
        };
        self.clear_buddies(cfs, se);
        let lingers = eevdf && self.lingers(cfs, se, DequeueFlags::SLEEP);
        if lingers {
            self.update_load_avg_slow(cfs, se, Action::default());
            self.set_delayed(se);
        } else {
            self.update_load_avg_slow(cfs, se, Action::UPDATE);
            if eevdf {
                self.update_entity_lag(cfs, se);
            } else {
                self.util_est_update(se);
            }
            self.balance.cfs_tasks.remove(cpu, previous);
            let entity = &mut self.entities[se.index()];
            entity.on_rq = false;
            let queue = &mut self.cfs_rqs[cfs.index()];
            queue.load.subtract(entity.load.scaled);
            queue.nr_running -= 1;
            queue.h_nr_running -= 1;
            if !eevdf {
                // update_min_vruntime twice, with it as it is charged and without it as it has left: where somebody waits, that is the later
                // of what it was and that one's; else the first of both alone counts.
                let own = Some(entity.vruntime).filter(|_| charged);
                if let Some(least) = queue.timeline.first_key().or(own) {
                    queue.min_vruntime = queue.min_vruntime.max(least);
                }
            }
            self.rqs[cpu.index()].nr_running -= 1;
        }
        let mut next = self.flat_pick(cpu);
        if next == TaskId::IDLE && self.newidle_balance(cpu) {
            next = self.pick_next_task(cpu);
        }
        // put_prev_entity: one that lingers is queued still, unless it was picked and left.
        if self.entities[se.index()].on_rq {
            self.timeline_insert(cfs, se);
        }
        self.cfs_rqs[cfs.index()].curr = None;
        self.set_next_task(cpu, next);
        let rq = &mut self.rqs[cpu.index()];
        (rq.curr, rq.need_resched, rq.lazily) = (next, false, false);
        if next == TaskId::IDLE {
            self.idle_cpus.insert(cpu.index());
            self.nohz_balance_enter_idle(cpu);
        } else {
            if self.rules.series == Series::V5_10 {
                self.clear_buddies(cfs, self.tasks[next.index()].se);
            }
            self.balance.cfs_tasks.move_to_front(cpu, next);
        }
        Some(next)
    }

    /// `update_curr` of CFS but for `min_vruntime`: whether any time passed.
    #[inline]
    fn flat_charge(&mut self, cpu: CpuId, se: EntityId) -> bool {
        let now = self.rqs[cpu.index()].clock_task;
        let entity = &mut self.entities[se.index()];
        let delta = now.wrapping_sub(entity.exec_start);
        if delta as i64 <= 0 {
            return false;
        }
        entity.exec_start = now;
        entity.sum_exec_runtime += delta;
        let virtual_delta = self.calc_delta_fair(delta, se);
        let entity = &mut self.entities[se.index()];
        entity.vruntime = entity.vruntime.plus(virtual_delta);
        true
    }

    /// [`Sched::pick_next_task`] once the running task is off.
    #[inline]
    fn flat_pick(&mut self, cpu: CpuId) -> TaskId {
        let rq = &self.rqs[cpu.index()];
        if rq.nr_running == 0 { TaskId::IDLE } else { self.pick_next_task(cpu) }
    }
}
