//! Tasks of groups on the fast path: wake-ups, running tasks that go to sleep or have to go, and what moves from CPU to CPU, from the task's level upwards.
//!
//! Groups have nothing but a weight here ([`Sched::has_plain_groups`]), so that no level is throttled, has runtime to ask for or is idle
//! (SCHED_IDLE). A task's entity need not have the task's number.

use schedlab_model::{CpuId, TaskId};

use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId, Life};
use crate::fast_path::levels::Leave;
use crate::fast_path::newidle::Work;
use crate::fast_path::wake::Wakeup;
use crate::machine::Sched;

impl Sched<Ours> {
    /// Whether groups have nothing but a weight: no quota, which throttles, and no `cpu.idle`.
    pub(super) fn has_plain_groups(&self) -> bool {
        self.groups.iter().all(|group| !group.idle && group.bandwidth.quota.is_none())
    }

    /// [`Sched::group_wake`], for callers that are laid out for the root queue alone.
    #[cold]
    pub(super) fn group_wake_apart<const EEVDF: bool>(&mut self, wakeup: Wakeup) {
        self.group_wake::<EEVDF>(wakeup);
    }

    /// [`Sched::group_block`], also out of line.
    #[cold]
    pub(super) fn group_block_apart<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.group_block::<EEVDF>(cpu)
    }

    /// [`Sched::flat_wake`] where there are groups, of any CPU, which does not go at once.
    #[inline(never)]
    pub(super) fn group_wake<const EEVDF: bool>(&mut self, wakeup: Wakeup) {
        let (task, cpu) = (wakeup.task(), wakeup.cpu());
        let Self { rqs, tasks, entities, balance, pelt_origin, .. } = self;
        let (rq, record) = (known!(mut rqs[cpu.index()]), known!(mut tasks[task.index()]));
        rq.set_clocks_at(balance.now, *pelt_origin);
        if EEVDF && known!(entities[record.se.index()]).sched_delayed {
            let woken = self.try_to_wake_up(task, cpu);
            debug_assert!(woken, "a task that sleeps");
            return;
        }
        record.life = Life::Runnable;
        let (migrated, idles) = (record.cpu != cpu, rq.curr == TaskId::IDLE);
        if migrated {
            self.set_task_cpu(task, cpu);
        }
        self.group_enqueue::<EEVDF>(cpu, task, true, migrated);
        if idles {
            // A higher class than the idle one.
            self.resched_curr(cpu);
        } else {
            self.wakeup_preempt(cpu, task, false);
        }
        if !EEVDF || !self.rules.avg_idle_at_end_of_idle {
            self.update_avg_idle(cpu);
        }
    }

    /// [`Sched::move_queued_task`] of a waiting task that is not delayed.
    pub(super) fn group_move<const EEVDF: bool>(&mut self, task: TaskId, from: CpuId, to: CpuId) {
        self.group_dequeue::<EEVDF>(from, task, Leave::Move);
        let record = known!(mut self.tasks[task.index()]);
        record.cpu = to;
        known!(mut self.entities[record.se.index()]).pelt.avg.last_update_time = 0;
        self.set_task_rq(task, to);
        self.group_enqueue::<EEVDF>(to, task, false, true);
        self.wakeup_preempt(to, task, false);
    }

    /// `activate_task` of a task that `wakes`, or was only moved, on its CPU, which it came to just now or not (`migrated`).
    #[inline(always)]
    fn group_enqueue<const EEVDF: bool>(&mut self, cpu: CpuId, task: TaskId, wakes: bool, migrated: bool) {
        let Self { rqs, tasks, entities, cfs_rqs, .. } = self;
        let rq = known!(mut rqs[cpu.index()]);
        rq.cfs_tasks.add(tasks, task);
        let se = known!(tasks[task.index()]).se;
        let root = known!(mut cfs_rqs[cpu.index()]);
        root.pelt.util_est += known!(entities[se.index()]).pelt.util_est.value() as u32;
        let first = root.h_nr_running == 0;
        let (mut level, mut joins, mut slice) = (Some(se), true, None);
        let (mut wakes, mut migrated) = (wakes, migrated);
        while let Some(se) = level {
            let entity = known!(mut self.entities[se.index()]);
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if joins && entity.on_rq {
                joins = false;
                if EEVDF && entity.sched_delayed {
                    self.requeue_delayed_entity(se);
                }
            }
            if joins {
                if let Some(slice) = slice {
                    let entity = known!(mut self.entities[se.index()]);
                    (entity.slice, entity.custom_slice) = (slice, true);
                }
                self.level_enqueue::<EEVDF>(cpu, cfs, se, wakes, migrated);
            } else {
                self.level_follow::<EEVDF>(cpu, cfs, se, slice);
            }
            if EEVDF && parent.is_some() {
                slice = Some(self.min_slice(cfs));
            }
            known!(mut self.cfs_rqs[cfs.index()]).h_nr_running += 1;
            // A group comes with its first task, and from nowhere.
            (wakes, migrated) = (true, false);
            level = parent;
        }
        if EEVDF {
            if first {
                self.first_fair_task(cpu);
            }
            self.hrtick_update(cpu, true);
        }
        self.account_enqueue(cpu);
    }

    /// [`Sched::flat_block`] where there are groups.
    #[inline(never)]
    pub(super) fn group_block<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<TaskId> {
        let rq = &mut self.rqs[cpu.index()];
        rq.set_clocks_at(self.balance.now, self.pelt_origin);
        if rq.dl.first().is_some() || rq.balance.push_cpu.is_some() {
            return None;
        }
        let previous = rq.curr;
        if EEVDF {
            self.hrtick_schedule_enter(cpu);
        }
        self.group_dequeue::<EEVDF>(cpu, previous, Leave::Sleep);
        known!(mut self.tasks[previous.index()]).life = Life::Asleep;
        let mut next = self.group_pick::<EEVDF>(cpu);
        if next.is_none() && self.flat_newidle(cpu) != Work::Nothing {
            next = self.group_pick::<EEVDF>(cpu);
        }
        let Some(next) = next else {
            let mut level = Some(known!(self.tasks[previous.index()]).se);
            while let Some(se) = level {
                let entity = known!(self.entities[se.index()]);
                known!(mut self.cfs_rqs[entity.cfs_rq.index()]).curr = None;
                level = entity.parent;
            }
            self.flat_idle(cpu);
            if EEVDF {
                self.flat_hrtick(cpu, previous, TaskId::IDLE);
            }
            return Some(TaskId::IDLE);
        };
        self.group_switch::<EEVDF>(cpu, previous, next);
        Some(next)
    }

    /// [`Sched::flat_preempt`] where there are groups.
    pub(super) fn group_preempt<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<(TaskId, TaskId)> {
        let rq = &self.rqs[cpu.index()];
        let previous = rq.curr;
        if previous == TaskId::IDLE || rq.dl.first().is_some() || rq.balance.push_cpu.is_some() {
            return None;
        }
        if EEVDF {
            self.hrtick_schedule_enter(cpu);
        }
        let next = self.group_pick::<EEVDF>(cpu).unwrap_or(previous);
        if next == previous {
            self.group_take::<EEVDF>(cpu, previous, next);
        } else {
            self.group_switch::<EEVDF>(cpu, previous, next);
        }
        Some((previous, next))
    }

    /// `deactivate_task` of a task that runs and sleeps, or waits and is moved.
    #[inline(always)]
    fn group_dequeue<const EEVDF: bool>(&mut self, cpu: CpuId, task: TaskId, leave: Leave) {
        let sleeps = leave == Leave::Sleep;
        let Self { rules, tasks, entities, cfs_rqs, .. } = self;
        let own_se = known!(tasks[task.index()]).se;
        let (root, own) = (known!(mut cfs_rqs[cpu.index()]), &mut known!(mut entities[own_se.index()]).pelt);
        root.pelt.util_est = root.pelt.util_est.saturating_sub(own.util_est.value() as u32);
        if sleeps && rules.util_est_before_dequeue {
            own.util_est.update(&own.avg, rules);
        }
        let left = self.leave_levels::<EEVDF>(cpu, own_se, leave);
        let Self { rules, rqs, entities, .. } = self;
        if sleeps && !rules.util_est_before_dequeue {
            let own = &mut known!(mut entities[own_se.index()]).pelt;
            own.util_est.update(&own.avg, rules);
        }
        known!(mut rqs[cpu.index()]).nr_running -= u32::from(left);
    }

    /// `dequeue_entities`: an entity leaves its level, and what is left empty above it the next ones. False if its own dequeue is delayed.
    #[inline(always)]
    fn leave_levels<const EEVDF: bool>(&mut self, cpu: CpuId, own: EntityId, leave: Leave) -> bool {
        let tasks = u32::from(known!(self.entities[own.index()]).my_q.is_none());
        let (mut level, mut leaves, mut slice, mut how) = (Some(own), true, None, leave);
        while let Some(se) = level {
            let entity = known!(self.entities[se.index()]);
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if leaves && !self.level_dequeue::<EEVDF>(cpu, cfs, se, how) {
                if se == own {
                    return false;
                }
                leaves = false;
            }
            if !leaves {
                self.level_follow::<EEVDF>(cpu, cfs, se, slice);
            }
            let queue = known!(mut self.cfs_rqs[cfs.index()]);
            queue.h_nr_running -= tasks;
            // A group stays while anything is on its queue.
            let stays = queue.load.scaled != 0;
            if let Some(parent) = parent
                && (stays || !leaves)
            {
                if leaves && leave != Leave::Move {
                    self.set_next_buddy(parent);
                }
                if EEVDF {
                    slice = Some(self.min_slice(cfs));
                }
            }
            leaves &= !stays;
            how = Leave::Sleep;
            level = parent;
        }
        true
    }

    /// [`Sched::dequeue_delayed`] of a task or a group.
    #[inline(never)]
    fn group_dequeue_delayed(&mut self, cpu: CpuId, se: EntityId) {
        self.leave_levels::<true>(cpu, se, Leave::Delayed);
        let task = known!(self.entities[se.index()]).my_q.is_none();
        known!(mut self.rqs[cpu.index()]).nr_running -= u32::from(task);
    }

    /// `pick_next_task`: the task that should run. On the way down each level charges its current entity. A delayed entity that is picked
    /// is dequeued, and the pick begins anew.
    fn group_pick<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<TaskId> {
        let mut cfs = CfsRqId(cpu.0);
        loop {
            let queue = known!(self.cfs_rqs[cfs.index()]);
            if queue.nr_running == 0 {
                return None;
            }
            let curr = queue.curr.filter(|curr| known!(self.entities[curr.index()]).on_rq);
            if curr.is_some() {
                self.level_charge::<EEVDF>(cpu, cfs);
            }
            let se = self.level_pick::<EEVDF>(cfs, curr)?;
            let entity = known!(self.entities[se.index()]);
            let task = entity.task;
            if EEVDF && entity.sched_delayed {
                self.group_dequeue_delayed(cpu, se);
                cfs = CfsRqId(cpu.0);
                continue;
            }
            match entity.my_q {
                Some(below) => cfs = below,
                None => return Some(task),
            }
        }
    }

    /// The pick of one level, whose running entity is `curr`, if that is queued.
    #[inline(always)]
    fn level_pick<const EEVDF: bool>(&mut self, cfs: CfsRqId, curr: Option<EntityId>) -> Option<EntityId> {
        let queue = known!(self.cfs_rqs[cfs.index()]);
        if EEVDF {
            return queue.pick_next_eevdf(&self.entities, &self.rules).map(|picked| picked.se);
        }
        if queue.has_buddies() {
            return self.pick_next_entity(cfs, curr).map(|picked| picked.se);
        }
        // No buddy is set, so the first in virtual time runs.
        match queue.timeline.first_with_key() {
            Some((first, key)) => {
                Some(curr.filter(|curr| known!(self.entities[curr.index()]).vruntime.before(key)).unwrap_or(first))
            }
            None => curr,
        }
    }

    /// [`Sched::flat_begin`] where there are groups.
    pub(super) fn group_begin<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<TaskId> {
        let rq = &self.rqs[cpu.index()];
        if rq.curr != TaskId::IDLE || rq.nr_running == 0 || rq.dl.first().is_some() || rq.balance.push_cpu.is_some() {
            return None;
        }
        if EEVDF {
            self.hrtick_schedule_enter(cpu);
        }
        let next = self.group_pick::<EEVDF>(cpu)?;
        if EEVDF {
            self.end_idle_by_switch(cpu);
        }
        let mut level = Some(known!(self.tasks[next.index()]).se);
        while let Some(se) = level {
            let entity = known!(self.entities[se.index()]);
            level = entity.parent;
            self.level_set_next::<EEVDF>(cpu, entity.cfs_rq, se);
        }
        self.group_take::<EEVDF>(cpu, TaskId::IDLE, next);
        Some(next)
    }

    /// [`Sched::put_prev_set_next_fair`] and the end of [`Sched::schedule`].
    #[inline(always)]
    fn group_switch<const EEVDF: bool>(&mut self, cpu: CpuId, previous: TaskId, next: TaskId) {
        let (mut pse, mut se) = (known!(self.tasks[previous.index()]).se, known!(self.tasks[next.index()]).se);
        loop {
            let (before, after) = (known!(self.entities[pse.index()]), known!(self.entities[se.index()]));
            let (old, new) = (before.cfs_rq, after.cfs_rq);
            let (puts, sets) = (after.depth <= before.depth, after.depth >= before.depth);
            let (above_old, above_new) = (before.parent, after.parent);
            if puts {
                self.level_put_prev::<EEVDF>(cpu, old, pse);
                pse = above_old.unwrap_or(pse);
            }
            if sets {
                self.level_set_next::<EEVDF>(cpu, new, se);
                se = above_new.unwrap_or(se);
            }
            if old == new {
                break;
            }
        }
        self.group_take::<EEVDF>(cpu, previous, next);
    }

    /// The end of [`Sched::schedule`] of a CPU that `next` has from now on.
    #[inline(always)]
    fn group_take<const EEVDF: bool>(&mut self, cpu: CpuId, previous: TaskId, next: TaskId) {
        if !EEVDF && !self.rules.buddies_cleared_when_set {
            let mut level = Some(known!(self.tasks[next.index()]).se);
            while let Some(se) = level {
                let entity = known!(self.entities[se.index()]);
                level = entity.parent;
                self.clear_buddies(entity.cfs_rq, se);
            }
        }
        let Self { rqs, tasks, .. } = self;
        let rq = known!(mut rqs[cpu.index()]);
        (rq.curr, rq.need_resched, rq.lazily) = (next, false, false);
        rq.cfs_tasks.move_to_front(tasks, next);
        if EEVDF {
            self.flat_hrtick(cpu, previous, next);
        }
    }
}
