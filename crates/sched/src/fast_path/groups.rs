//! Tasks of groups on the fast path: wake-ups, and running tasks that go to sleep, level by level.
//!
//! Groups have nothing but a weight here ([`Sched::has_plain_groups`]), so that no level is throttled, has runtime to ask for or is idle
//! (SCHED_IDLE). What `fair/mod.rs` asks of that on each level has one answer and is left out; the sequences are its own otherwise, with the
//! same rules. A task's entity need not have the task's number.

use schedlab_model::{CpuId, TaskId};

use crate::class::EnqueueFlags;
use crate::decider::Ours;
use crate::entity::{CfsRqId, EntityId, Life};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::pelt::queue_load::attach_entity_load_avg;
use crate::fair::pelt::rounding::Sums;
use crate::fair::weight::scale_load_down;
use crate::fast_path::newidle::Work;
use crate::fast_path::wake::Wakeup;
use crate::machine::Sched;

/// What [`Sched::level_load`] does besides bringing averages up to date (`UPDATE_TG`, `DO_ATTACH`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Nothing.
    Alone,
    /// The group's sum follows.
    Update,
    /// That, and what is on no queue's account comes to be.
    Attach,
}

impl Sched<Ours> {
    /// Whether groups have nothing but a weight: no quota, which throttles, and no `cpu.idle`.
    pub(super) fn has_plain_groups(&self) -> bool {
        self.groups.iter().all(|group| !group.idle && group.bandwidth.quota.is_none())
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

    /// [`Sched::attach_task`] of a task that does not linger.
    pub(super) fn group_attach(&mut self, task: TaskId, to: CpuId) {
        if self.rules.eevdf {
            self.group_enqueue::<true>(to, task, false, true);
        } else {
            self.group_enqueue::<false>(to, task, false, true);
        }
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
                self.level_follow(cpu, cfs, se, slice);
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

    /// `enqueue_entity`.
    #[inline(always)]
    fn level_enqueue<const EEVDF: bool>(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId, wakes: bool, moved: bool) {
        // A group that was left empty just now is still the running one.
        let runs = known!(self.cfs_rqs[cfs.index()]).curr == Some(se);
        if EEVDF && runs {
            self.place_entity_eevdf(cfs, se, EnqueueFlags::WAKEUP);
        }
        self.level_charge::<EEVDF>(cpu, cfs);
        if !EEVDF && (!wakes || moved) {
            let base = known!(self.cfs_rqs[cfs.index()]).min_vruntime.0;
            let entity = known!(mut self.entities[se.index()]);
            entity.vruntime = entity.vruntime.plus(base);
        }
        self.level_load(cpu, cfs, se, Load::Attach);
        self.level_weight(se);
        if EEVDF && !runs {
            self.place_entity_eevdf(cfs, se, EnqueueFlags::WAKEUP);
        }
        let Self { rules, rqs, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        if !EEVDF && wakes {
            rules.place_woken(entity, queue.min_vruntime, known!(rqs[cpu.index()]).clock_task);
        }
        queue.load.add(entity.weight);
        queue.nr_running += 1;
        if moved {
            entity.exec_start = 0;
        }
        entity.on_rq = true;
        if runs {
            return;
        }
        if EEVDF {
            queue.put_in(entity, se, rules);
        } else {
            let (placed, slice) = (entity.vruntime, entity.slice);
            entity.sequence = queue.timeline.insert(placed, placed, slice, se);
        }
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
        self.hrtick_schedule_enter(cpu);
        self.group_dequeue::<EEVDF>(cpu, previous);
        let mut next = self.pick_next_task(cpu);
        if next == TaskId::IDLE && self.flat_newidle(cpu) != Work::Nothing {
            next = self.pick_next_task(cpu);
        }
        self.group_switch(cpu, previous, next);
        Some(next)
    }

    /// `block_task` of the running task.
    #[inline(always)]
    fn group_dequeue<const EEVDF: bool>(&mut self, cpu: CpuId, task: TaskId) {
        let Self { rules, tasks, entities, cfs_rqs, .. } = self;
        let record = known!(mut tasks[task.index()]);
        record.life = Life::Asleep;
        let own_se = record.se;
        let (root, own) = (known!(mut cfs_rqs[cpu.index()]), &mut known!(mut entities[own_se.index()]).pelt);
        root.pelt.util_est = root.pelt.util_est.saturating_sub(own.util_est.value() as u32);
        if rules.util_est_before_dequeue {
            own.util_est.update(&own.avg, rules);
        }
        let (mut level, mut leaves, mut slice) = (Some(own_se), true, None);
        let mut left = true;
        while let Some(se) = level {
            let entity = known!(self.entities[se.index()]);
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if leaves && !self.level_dequeue::<EEVDF>(cpu, cfs, se) {
                if se == own_se {
                    left = false;
                    break;
                }
                leaves = false;
            }
            if !leaves {
                self.level_follow(cpu, cfs, se, slice);
            }
            let queue = known!(mut self.cfs_rqs[cfs.index()]);
            queue.h_nr_running -= 1;
            // A group stays while anything is on its queue.
            let stays = queue.load.scaled != 0;
            if let Some(parent) = parent
                && (stays || !leaves)
            {
                if leaves {
                    self.set_next_buddy(parent);
                }
                if EEVDF {
                    slice = Some(self.min_slice(cfs));
                }
            }
            leaves &= !stays;
            level = parent;
        }
        let Self { rules, rqs, entities, .. } = self;
        if !rules.util_est_before_dequeue {
            let own = &mut known!(mut entities[own_se.index()]).pelt;
            own.util_est.update(&own.avg, rules);
        }
        known!(mut rqs[cpu.index()]).nr_running -= u32::from(left);
    }

    /// `dequeue_entity` of an entity that runs, on its level: false if it lingers.
    #[inline(always)]
    fn level_dequeue<const EEVDF: bool>(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId) -> bool {
        self.level_charge::<EEVDF>(cpu, cfs);
        if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
            self.clear_buddies(cfs, se);
        }
        let (queue, entity) = (known!(self.cfs_rqs[cfs.index()]), known!(self.entities[se.index()]));
        // Alone it is V itself: eligible, and without lag.
        let alone = queue.nr_running == 1;
        if EEVDF && !alone && queue.has_to_linger(entity.vruntime, Some(entity), &self.rules) {
            self.level_load(cpu, cfs, se, Load::Alone);
            if self.rules.bounds_lag_while_delayed {
                self.update_entity_lag(cfs, se);
            }
            self.set_delayed(se);
            return false;
        }
        self.level_load(cpu, cfs, se, Load::Update);
        if EEVDF && !alone {
            self.update_entity_lag(cfs, se);
        }
        let Self { rqs, tasks, entities, cfs_rqs, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        if EEVDF && alone {
            (queue.zero_vruntime, entity.vlag) = (entity.vruntime, 0);
        }
        entity.on_rq = false;
        queue.load.subtract(entity.weight);
        queue.nr_running -= 1;
        if entity.my_q.is_none() {
            known!(mut rqs[cpu.index()]).cfs_tasks.remove(tasks, entity.task);
        } else {
            self.level_weight(se);
        }
        if !EEVDF {
            known!(mut self.cfs_rqs[cfs.index()]).update_min_vruntime(None);
        }
        true
    }

    /// The end of [`Sched::schedule`] of a CPU whose task went to sleep.
    fn group_switch(&mut self, cpu: CpuId, previous: TaskId, next: TaskId) {
        if next == TaskId::IDLE {
            let mut level = Some(known!(self.tasks[previous.index()]).se);
            while let Some(se) = level {
                let entity = known!(self.entities[se.index()]);
                known!(mut self.cfs_rqs[entity.cfs_rq.index()]).curr = None;
                level = entity.parent;
            }
            self.flat_idle(cpu);
            return self.flat_hrtick(cpu, previous, next);
        }
        self.put_prev_set_next_fair(previous, next);
        self.group_take(cpu, next);
        self.flat_hrtick(cpu, previous, next);
    }

    /// [`Sched::flat_begin`] where there are groups.
    pub(super) fn group_begin<const EEVDF: bool>(&mut self, cpu: CpuId) -> Option<TaskId> {
        let rq = &self.rqs[cpu.index()];
        if rq.curr != TaskId::IDLE || rq.nr_running == 0 || rq.dl.first().is_some() || rq.balance.push_cpu.is_some() {
            return None;
        }
        let mut cfs = CfsRqId(cpu.0);
        let own = loop {
            let queue = known!(self.cfs_rqs[cfs.index()]);
            let first = queue.timeline.first().filter(|_| queue.nr_running == 1);
            let se = match first {
                Some(first) => first,
                None if EEVDF => queue.pick_next_eevdf(&self.entities, &self.rules)?.se,
                None => self.pick_next_entity(cfs, None)?.se,
            };
            let entity = known!(self.entities[se.index()]);
            if EEVDF && entity.sched_delayed {
                return None;
            }
            match entity.my_q {
                Some(below) => cfs = below,
                None => break se,
            }
        };
        if EEVDF {
            self.hrtick_schedule_enter(cpu);
            self.end_idle_by_switch(cpu);
        }
        let mut level = Some(own);
        while let Some(se) = level {
            let entity = known!(self.entities[se.index()]);
            let (cfs, parent) = (entity.cfs_rq, entity.parent);
            if known!(self.cfs_rqs[cfs.index()]).has_buddies() {
                self.clear_buddies(cfs, se);
            }
            let Self { rules, entities, cfs_rqs, .. } = self;
            let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
            if EEVDF {
                queue.take_off(entity, rules);
            } else {
                let found = queue.timeline.remove(entity.vruntime, entity.sequence);
                debug_assert!(found, "an entity on the queue is in its timeline");
            }
            self.level_load(cpu, cfs, se, Load::Update);
            let Self { rules, rqs, entities, cfs_rqs, .. } = self;
            let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
            if EEVDF {
                rules.set_protect_slice(entity, || queue.min_slice(None));
            }
            queue.curr = Some(se);
            entity.begin_turn(known!(rqs[cpu.index()]).clock_task);
            level = parent;
        }
        let next = known!(self.entities[own.index()]).task;
        self.group_take(cpu, next);
        if EEVDF {
            self.flat_hrtick(cpu, TaskId::IDLE, next);
        }
        Some(next)
    }

    /// The end of [`Sched::schedule`] of a CPU that `next` has from now on.
    #[inline(always)]
    fn group_take(&mut self, cpu: CpuId, next: TaskId) {
        if !self.rules.buddies_cleared_when_set {
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
    }

    /// `update_curr` of one level.
    #[inline(always)]
    fn level_charge<const EEVDF: bool>(&mut self, cpu: CpuId, cfs: CfsRqId) {
        let Self { rules, rqs, entities, cfs_rqs, .. } = self;
        let (queue, now) = (known!(mut cfs_rqs[cfs.index()]), known!(rqs[cpu.index()]).clock_task);
        let Some(curr) = queue.curr else { return };
        let entity = known!(mut entities[curr.index()]);
        if !EEVDF {
            return queue.charge(entity, now, rules);
        }
        let Some(delta) = entity.update_se(now, rules) else { return };
        // Nothing is served, and nobody has to go, while its deadline is to come and it is protected.
        let goes_on = entity.vruntime.before(entity.deadline) && rules.protect_slice(entity);
        if entity.my_q.is_none() {
            self.dl_server_update(cpu, delta);
        }
        if !goes_on && self.served(cfs, curr).is_some() {
            self.resched_curr_lazy(cpu);
        }
    }

    /// An entity that stays where it is while something came or went below it (`update_group_entity`).
    #[inline(always)]
    fn level_follow(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId, slice: Option<u64>) {
        self.level_load(cpu, cfs, se, Load::Update);
        self.level_weight(se);
        if let Some(slice) = slice {
            self.set_group_slice(cfs, se, slice);
        }
    }

    /// `update_load_avg` of an entity and the queue of its level.
    #[inline(always)]
    fn level_load(&mut self, cpu: CpuId, cfs: CfsRqId, se: EntityId, load: Load) {
        let Self { rules, rqs, entities, cfs_rqs, .. } = self;
        let (rq, sums) = (known!(rqs[cpu.index()]), Sums::of(rules));
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        let now = queue.pelt.flat_clock(rq.clock_pelt);
        let (weight, queued, runs) = (scale_load_down(entity.weight), u64::from(entity.on_rq), queue.curr == Some(se));
        let (own, group) = (&mut entity.pelt, entity.my_q);
        let runnable = match group {
            Some(_) if entity.sched_delayed => 0,
            Some(_) => u64::from(own.runnable_weight),
            None => u64::from(entity.on_rq && !entity.sched_delayed),
        };
        let attached = own.avg.last_update_time != 0;
        if attached && own.avg.update(now, queued, runnable, runs, weight) {
            own.util_est.changed();
        }
        let mut changed = queue.age_or_update(now, sums);
        if let Some(below) = group
            && known!(cfs_rqs[below.index()]).pelt.propagate
        {
            changed |= self.propagate_load_below(se);
        }
        let Self { rules, rqs, entities, cfs_rqs, groups, .. } = self;
        let (queue, entity) = (known!(mut cfs_rqs[cfs.index()]), known!(mut entities[se.index()]));
        changed &= load != Load::Alone;
        if !attached && load == Load::Attach {
            attach_entity_load_avg(&mut queue.pelt, &mut entity.pelt.avg, weight, sums);
            changed = true;
        }
        if changed {
            queue.update_tg_load_avg(groups, known!(rqs[cpu.index()]).clock, rules);
        }
    }

    /// `se_update_runnable` and `update_cfs_group`, which a task has no part in.
    #[inline(always)]
    fn level_weight(&mut self, se: EntityId) {
        let Self { entities, cfs_rqs, .. } = self;
        let entity = known!(mut entities[se.index()]);
        let Some(below) = entity.my_q else { return };
        entity.pelt.runnable_weight = known!(cfs_rqs[below.index()]).h_nr_runnable();
        self.update_cfs_group(se);
    }
}

impl CfsRq {
    /// [`CfsRq::update_load_avg`], of which mostly no period ends.
    #[inline(always)]
    fn age_or_update(&mut self, now: u64, sums: Sums) -> bool {
        let left = self.pelt.take_out(sums);
        let (weight, runnable) = (self.load.down(), u64::from(self.h_nr_runnable()));
        self.pelt.avg.update(now, weight, runnable, self.curr.is_some(), 1) | left
    }
}
