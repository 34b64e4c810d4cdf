//! Running tasks of flat queues that have to go though they are runnable.

use schedlab_model::{CpuId, TaskId};

use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId};
use crate::fair::pelt::rounding::Sums;
use crate::machine::Sched;

impl Sched<Ours> {
    /// [`Sched::schedule`] of a CPU whose task a woken task marked for rescheduling: the previous and next task. None, and nothing done,
    /// where the general path is to be taken: no task runs, a fair server serves, or a task is to be pushed away. The CPU must have its
    /// clocks.
    pub fn flat_preempt(&mut self, cpu: CpuId) -> Option<(TaskId, TaskId)> {
        if self.has_groups() {
            return if self.rules.eevdf { self.group_preempt::<true>(cpu) } else { self.group_preempt::<false>(cpu) };
        }
        let rq = &self.rqs[cpu.index()];
        let previous = rq.curr;
        if previous == TaskId::IDLE || rq.dl.first().is_some() || rq.balance.push_cpu.is_some() {
            return None;
        }
        if !self.rules.eevdf {
            let (cfs, se, now) = (CfsRqId(cpu.0), EntityId(previous.0), rq.clock_task);
            known!(mut self.cfs_rqs[cfs.index()]).charge(known!(mut self.entities[se.index()]), now, &self.rules);
            return Some((previous, self.flat_switch(cpu, cfs, se)));
        }
        let (cfs, se) = (CfsRqId(cpu.0), EntityId(previous.0));
        self.flat_charge(cpu, cfs, se);
        Some((previous, self.flat_switch_eevdf(cpu, cfs, se)))
    }

    /// The rest of [`Sched::flat_preempt`] under EEVDF once the previous task was charged: the next task.
    pub(super) fn flat_switch_eevdf(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) -> TaskId {
        let previous = TaskId(se.0);
        self.hrtick_schedule_enter(cpu);
        let next = self.flat_pick_eevdf(cpu, cfs).unwrap_or(se);
        if next == se {
            let rq = known!(mut self.rqs[cpu.index()]);
            (rq.need_resched, rq.lazily) = (false, false);
            rq.cfs_tasks.move_to_front(&mut self.tasks, previous);
            self.flat_hrtick(cpu, previous, previous);
            return previous;
        }
        self.flat_put_back(cfs, se);
        self.flat_update_load(cpu, cfs, se);
        let next = self.flat_set_next_eevdf(cpu, cfs, next);
        self.flat_hrtick(cpu, previous, next);
        next
    }

    /// What [`Sched::schedule`] does of high-resolution ticks, once the next one has its turn.
    #[inline(always)]
    pub(super) fn flat_hrtick(&mut self, cpu: CpuId, previous: TaskId, next: TaskId) {
        if !self.rules.hrtick_set_late {
            return;
        }
        self.hrtick_pick(cpu, previous, next);
        // What a pick asks for is what is being done.
        let rq = known!(mut self.rqs[cpu.index()]);
        (rq.need_resched, rq.lazily) = (false, false);
        self.hrtick_schedule_exit(cpu);
    }

    /// [`Sched::schedule`] of an idle CPU that a woken task marked for rescheduling: the next task. None where the general path is to go
    /// on, which repeats the steps already done, without effect: no task waits any more, a fair server serves, or a task is to be pushed
    /// away. The CPU must have its clocks.
    pub fn flat_begin<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<TaskId> {
        debug_assert_eq!(EEVDF, self.rules.eevdf);
        if self.has_groups() {
            return self.group_begin::<EEVDF>(cpu);
        }
        let rq = &self.rqs[cpu.index()];
        if rq.curr != TaskId::IDLE || rq.nr_running == 0 || rq.dl.first().is_some() || rq.balance.push_cpu.is_some() {
            return None;
        }
        let cfs = CfsRqId(cpu.0);
        let next = if EEVDF {
            self.hrtick_schedule_enter(cpu);
            self.flat_pick_eevdf(cpu, cfs)?
        } else {
            let queue = known!(self.cfs_rqs[cfs.index()]);
            let first = queue.timeline.first().filter(|_| !queue.has_buddies());
            first.or_else(|| self.pick_next_entity(cfs, None).map(|picked| picked.se))?
        };
        // put_prev_task_idle
        if EEVDF {
            self.end_idle_by_switch(cpu);
        }
        let (rq, queue) = (known!(self.rqs[cpu.index()]), known!(mut self.cfs_rqs[cfs.index()]));
        let now = queue.pelt.flat_clock(rq.clock_pelt);
        queue.update_load_avg(now, Sums::of(&self.rules));
        if !EEVDF {
            return Some(self.flat_set_next(cpu, cfs, next));
        }
        let next = self.flat_set_next_eevdf(cpu, cfs, next);
        self.flat_hrtick(cpu, TaskId::IDLE, next);
        Some(next)
    }

    /// The rest of [`Sched::flat_preempt`] under CFS once the previous task was charged: the next task. Averages are brought up to date if
    /// they are not, as `put_prev_entity` does for a preempted entity.
    pub(super) fn flat_switch(&mut self, cpu: CpuId, cfs: CfsRqId, previous: EntityId) -> TaskId {
        let next = self.pick_next_entity(cfs, Some(previous)).map_or(previous, |picked| picked.se);
        if next == previous {
            if !self.rules.buddies_cleared_when_set {
                self.clear_buddies(cfs, next);
            }
            let rq = known!(mut self.rqs[cpu.index()]);
            (rq.need_resched, rq.lazily) = (false, false);
            rq.cfs_tasks.move_to_front(&mut self.tasks, TaskId(next.0));
            return TaskId(next.0);
        }
        self.timeline_insert(cfs, previous);
        self.flat_update_load(cpu, cfs, previous);
        self.flat_set_next(cpu, cfs, next)
    }

    /// `set_next_entity` of a task that waits under CFS, on a queue whose averages are up to date, and the end of [`Sched::schedule`].
    pub(super) fn flat_set_next(&mut self, cpu: CpuId, cfs: CfsRqId, next: EntityId) -> TaskId {
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, next);
        }
        let Self { rqs, tasks, entities, cfs_rqs, .. } = self;
        let (rq, queue) = (known!(mut rqs[cpu.index()]), known!(mut cfs_rqs[cfs.index()]));
        let entity = known!(mut entities[next.index()]);
        let found = queue.timeline.remove(entity.vruntime, entity.sequence);
        debug_assert!(found, "an entity on the queue is in its timeline");
        queue.curr = Some(next);
        entity.begin_turn(rq.clock_task);
        entity.pelt.end_wait(queue.pelt.flat_clock(rq.clock_pelt), entity.load.down_of_tasks());
        let next = TaskId(next.0);
        (rq.curr, rq.need_resched, rq.lazily) = (next, false, false);
        rq.cfs_tasks.move_to_front(tasks, next);
        next
    }
}
