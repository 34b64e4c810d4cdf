//! Wake-ups by timers on flat queues.

use schedlab_model::{CpuId, Series, TaskId};

use crate::balance::WakeKind;
use crate::class::EnqueueFlags;
use crate::core::Sched;
use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId, Life};
use crate::fair::queue_load::{attach_entity_load_avg, update_cfs_rq_load_avg};

impl Sched<Ours> {
    /// [`Sched::select_task_rq`] of a sleeper that an interrupt on its last CPU wakes: it stays there if that CPU idles.
    ///
    /// With the waker's CPU and the last one the same there is nothing to choose between (`wake_affine`), and so whether both wake many
    /// others (`wake_wide`), or from how far around (the loop over domains), does not matter. 5.10 asks on the way whether it would.
    pub fn flat_select(&mut self, task: TaskId) -> CpuId {
        let record = &self.tasks[task.index()];
        let previous = record.cpu;
        if self.rules.series == Series::V5_10 {
            return self.select_task_rq(task, previous, WakeKind::Wakeup { sync: false });
        }
        self.balance.sync_wakeup = None;
        if self.entities[record.se.index()].sched_delayed {
            return previous;
        }
        self.balance.add_task(task, previous);
        self.record_wakee(task, previous);
        if self.idle_cpus.contains(previous.index()) {
            return previous;
        }
        self.select_idle_sibling(task, previous, previous, previous)
    }

    /// [`Sched::try_to_wake_up`] of a sleeper; and, where the CPU idles and has the word to go `at_once`, [`Sched::schedule`], by which the
    /// task takes it: true then.
    ///
    /// Alone on its queue it need not be put into the timeline to be taken out again, and is the one that is picked.
    pub fn flat_wake(&mut self, task: TaskId, cpu: CpuId, at_once: bool) -> bool {
        let record = &mut self.tasks[task.index()];
        let se = record.se;
        if self.entities[se.index()].sched_delayed {
            let woken = self.try_to_wake_up(task, cpu);
            debug_assert!(woken, "a task that sleeps");
            return false;
        }
        record.life = Life::Runnable;
        let migrated = record.cpu != cpu;
        if migrated {
            self.set_task_cpu(task, cpu);
        }
        let rq = &self.rqs[cpu.index()];
        let (cfs, idles) = (rq.cfs, rq.curr == TaskId::IDLE && rq.nr_running == 0);
        self.flat_enqueue(cpu, cfs, task, se, migrated);
        if !idles {
            self.timeline_insert(cfs, se);
            self.wakeup_preempt(cpu, task, false);
            self.update_avg_idle(cpu);
            return false;
        }
        self.update_avg_idle(cpu);
        let rq = &mut self.rqs[cpu.index()];
        let server = rq.dl.first().is_some() || self.timers.first().is_some_and(|(expires, _)| expires <= rq.clock);
        if !at_once || server {
            rq.need_resched = true;
            rq.lazily = false;
            self.timeline_insert(cfs, se);
            return false;
        }
        // The idle time was taken off the fair server's runtime when it started.
        (rq.curr, rq.need_resched, rq.lazily) = (task, false, false);
        let now = rq.clock_task;
        self.flat_set_next(cfs, se, now);
        true
    }

    /// `set_next_entity` of an entity that is not in the timeline, and whose averages are up to date.
    fn flat_set_next(&mut self, cfs: CfsRqId, se: EntityId, now: u64) {
        if self.rules.eevdf() {
            self.set_protect_slice(cfs, se);
        }
        let queue = &mut self.cfs_rqs[cfs.index()];
        debug_assert!(![queue.next, queue.last, queue.skip].contains(&Some(se)), "a sleeper is nobody's buddy");
        queue.curr = Some(se);
        let entity = &mut self.entities[se.index()];
        entity.exec_start = now;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
    }

    /// `activate_task` of a task that wakes, but for the timeline.
    #[inline]
    fn flat_enqueue(&mut self, cpu: CpuId, cfs: CfsRqId, task: TaskId, se: EntityId, migrated: bool) {
        let eevdf = self.rules.eevdf();
        self.balance.cfs_tasks.add(cpu, task);
        if self.cfs_rqs[cfs.index()].curr.is_some() {
            self.update_curr_cfs(cfs);
        }
        if migrated && !eevdf {
            let base = self.cfs_rqs[cfs.index()].min_vruntime.0;
            let entity = &mut self.entities[se.index()];
            entity.vruntime = entity.vruntime.plus(base);
        }
        self.flat_attach_load(cpu, cfs, se);
        if eevdf {
            self.place_entity_eevdf(cfs, se, EnqueueFlags::WAKEUP);
        } else {
            self.place_entity(cfs, se, false);
        }
        let entity = &mut self.entities[se.index()];
        entity.on_rq = true;
        if migrated {
            entity.exec_start = 0;
        }
        let weight = entity.load.scaled;
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.load.add(weight);
        queue.nr_running += 1;
        queue.h_nr_running += 1;
        if queue.h_nr_running == 1 {
            self.first_fair_task(cpu);
        }
        self.rqs[cpu.index()].nr_running += 1;
        self.idle_cpus.remove(cpu.index());
    }

    /// `update_load_avg` with DO_ATTACH of a task that slept until now, and so neither ran nor could have; nor did the queue if nothing was
    /// on it.
    #[inline]
    fn flat_attach_load(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) {
        let sums = self.sums();
        let (queue, weight) = (&self.cfs_rqs[cfs.index()], self.se_weight(se));
        let Some(loads) = self.loads.as_deref_mut() else { return };
        let (own, load) = (&mut loads.entities[se.index()], &mut loads.queues[cfs.index()]);
        let now = load.clock(self.rqs[cpu.index()].clock_pelt);
        let attached = own.avg.last_update_time != 0;
        // util_est_enqueue; the estimate follows once a period has ended.
        load.util_est += own.util_est.value() as u32;
        if attached && own.avg.age(now) {
            own.avg.update_avg(weight);
            own.util_est.changed();
        }
        let avg = &mut own.avg;
        if queue.load.scaled == 0 && load.removed.count == 0 {
            if load.avg.age(now) {
                load.avg.update_avg(1);
            }
        } else {
            update_cfs_rq_load_avg(queue, load, now, sums);
        }
        if !attached {
            attach_entity_load_avg(load, avg, weight, sums);
        }
    }
}
