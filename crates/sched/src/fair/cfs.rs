//! What is CFS's own: periods and slices, placement, preemption, buddies (2.6.24, 5.10, 6.1).

use schedlab_model::{CpuId, PickRule, Policy, Reason, TaskId, TurnRule, WakeupRule};

use crate::decider::{Decider, Preemption};
use crate::entity::{CfsRqId, EntityId, Vruntime};
use crate::fair::rules::Picked;
use crate::fair::weight::calc_delta;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `sched_slice`: the part of the period that the weight of `se` gives it, in real time.
    pub(crate) fn sched_slice(&mut self, cfs: CfsRqId, se: EntityId) -> u64 {
        let queue = &self.cfs_rqs[cfs.index()];
        if !self.rules.slice_of_hierarchy {
            let slice = self.rules.sched_period(u64::from(queue.nr_running));
            return slice.wrapping_mul(self.entities[se.index()].load.scaled) / queue.load.scaled.max(1);
        }
        // ALT_PERIOD counts the tasks of the whole CPU instead of this queue's entities.
        let alt_period = self.rules.alt_period;
        let nr_running = if alt_period {
            self.cfs_rqs[self.rqs[queue.cpu.index()].cfs.index()].h_nr_running
        } else {
            queue.nr_running
        };
        let absent = !self.entities[se.index()].on_rq;
        let mut slice = self.rules.sched_period(u64::from(nr_running) + u64::from(absent));
        let mut level = Some(se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let weight = entity.load.scaled;
            let queue = entity.cfs_rq.index();
            level = entity.parent;
            if entity.on_rq {
                slice = calc_delta(slice, weight, &mut self.cfs_rqs[queue].load);
            } else {
                let mut load = self.cfs_rqs[queue].load;
                load.add(weight);
                slice = calc_delta(slice, weight, &mut load);
            }
        }
        self.rules.slice_at_least(slice, || self.granularity_of(cfs, se))
    }

    fn granularity_of(&self, cfs: CfsRqId, se: EntityId) -> u64 {
        let root = &self.cfs_rqs[self.rqs[self.cfs_rqs[cfs.index()].cpu.index()].cfs.index()];
        // sched_idle_cfs_rq, of the root queue, where sched_slice's walk ends.
        let idle = if self.has_groups() {
            root.idle_nr_running == root.nr_running
        } else {
            root.idle_h_nr_running == root.h_nr_running
        };
        let all_idle = root.nr_running > 0 && idle;
        let tunables = &self.rules.tunables;
        let own = self.rules.idle_min_granularity;
        if own && self.se_is_idle(se) && !all_idle { tunables.idle_min_granularity } else { tunables.min_granularity }
            .as_nanos()
    }

    /// `se_is_idle`.
    pub(crate) fn se_is_idle(&self, se: EntityId) -> bool {
        let entity = &self.entities[se.index()];
        match entity.my_q {
            Some(group) => self.cfs_rqs[group.index()].idle,
            None => self.tasks[entity.task.index()].has_idle_policy(),
        }
    }

    /// The virtual slice that a new entity is placed behind (`sched_vslice`; 2.6.24's `sched_vslice_add`).
    fn sched_vslice(&mut self, cfs: CfsRqId, se: EntityId) -> u64 {
        if !self.rules.slice_of_hierarchy {
            let queue = &self.cfs_rqs[cfs.index()];
            let weight = queue.load.scaled + self.entities[se.index()].load.scaled;
            let period = self.rules.sched_period(u64::from(queue.nr_running) + 1);
            return period.wrapping_mul(self.rules.nice_0_load) / weight.max(1);
        }
        let slice = self.sched_slice(cfs, se);
        self.calc_delta_fair(slice, se)
    }

    /// `place_entity` (`kernel/sched/fair.c`, CFS): where in virtual time a new or woken entity comes in, until EEVDF, 147f3efaa241 (6.6).
    ///
    /// A new one starts a virtual slice late (START_DEBIT), a woken one up to a latency early (half of it under
    /// GENTLE_FAIR_SLEEPERS), but never earlier than it left.
    pub(crate) fn place_entity(&mut self, cfs: CfsRqId, se: EntityId, initial: bool) {
        let features = self.rules.tunables.features;
        let mut vruntime = self.placement_average(cfs, self.cfs_rqs[cfs.index()].min_vruntime);
        if initial && features.start_debit {
            vruntime = vruntime.plus(self.sched_vslice(cfs, se));
        }
        if !initial {
            let idle = self.rules.idle_min_granularity && self.se_is_idle(se);
            vruntime = vruntime.minus(self.rules.sleeper_credit(idle));
        }
        let task = self.entities[se.index()].task;
        let now = self.rqs[self.cfs_rqs[cfs.index()].cpu.index()].clock_task;
        let placed = self.rules.place_no_earlier(&self.entities[se.index()], vruntime, initial, now);
        self.explain(self.cfs_rqs[cfs.index()].cpu, move |sched| {
            let by = sched.place_rule_cfs(cfs, vruntime, placed, initial);
            Reason::Place { entity: sched.candidate(se), within: sched.cfs_rqs[cfs.index()].group.0, initial, by }
        });
        self.entities[se.index()].vruntime =
            if task == TaskId::IDLE { placed } else { self.decider.place(task, placed) };
    }

    /// 2.6.24's TREE_AVG and APPROX_AVG: placement further into the queue than its start.
    fn placement_average(&self, cfs: CfsRqId, vruntime: Vruntime) -> Vruntime {
        let features = self.rules.tunables.features;
        let queue = &self.cfs_rqs[cfs.index()];
        if features.tree_avg {
            return match queue.timeline.last() {
                Some(last) => Vruntime(vruntime.0.wrapping_add(self.entities[last.index()].vruntime.0) >> 1),
                None => vruntime,
            };
        }
        if features.approx_avg && queue.nr_running > 0 {
            let period = self.rules.sched_period(u64::from(queue.nr_running));
            let slice = period.wrapping_mul(self.rules.nice_0_load) / queue.load.scaled.max(1);
            return vruntime.plus(slice / 2);
        }
        vruntime
    }

    /// `check_preempt_tick`: whether the running entity has had its slice, or is too far ahead of the first in the queue.
    pub(crate) fn check_preempt_tick(&mut self, cfs: CfsRqId, curr: EntityId) -> TurnRule {
        let ideal_runtime = self.sched_slice(cfs, curr);
        self.slice_is_over(cfs, curr, ideal_runtime)
    }

    /// The same with the slice known.
    pub(crate) fn slice_is_over(&mut self, cfs: CfsRqId, curr: EntityId, ideal_runtime: u64) -> TurnRule {
        let entity = &self.entities[curr.index()];
        let ahead = self.cfs_rqs[cfs.index()].timeline.first_key().map(|first| entity.vruntime.since(first));
        let found = self.rules.check_preempt_tick(entity.turn(), ideal_runtime, ahead);
        if let TurnRule::SliceOver(_) = found {
            self.clear_buddies(cfs, curr);
        }
        found
    }

    /// `pick_next_entity`: the first entity in virtual time, but for buddies. The skip buddy (which yielded) is passed over, and the
    /// next buddy (nominated) or the last buddy (preempted) goes first, as long as that is not too unfair.
    pub(crate) fn pick_next_entity(&mut self, cfs: CfsRqId, curr: Option<EntityId>) -> Option<Picked> {
        let queue = &self.cfs_rqs[cfs.index()];
        let first = queue.timeline.first();
        let (skip, next, last) = (queue.skip, queue.next, queue.last);
        let before = |one: EntityId, other: EntityId| {
            self.entities[one.index()].vruntime.before(self.entities[other.index()].vruntime)
        };
        let left = match (first, curr) {
            (Some(first), Some(curr)) if before(curr, first) => curr,
            (Some(first), _) => first,
            (None, curr) => curr?,
        };
        let mut chosen = Picked { se: left, by: PickRule::LeastVruntime };
        if skip == Some(left) {
            let second = if curr == Some(left) {
                first
            } else {
                match (queue.timeline.second(), curr) {
                    (Some(second), Some(curr)) if before(curr, second) => Some(curr),
                    (None, curr) => curr,
                    (second, _) => second,
                }
            };
            if let Some(second) = second
                && !self.wakeup_preempt_entity(second, left)
            {
                chosen = Picked { se: second, by: PickRule::AfterYield };
            }
        }
        if let Some(next) = next
            && !self.wakeup_preempt_entity(next, left)
        {
            return Some(Picked { se: next, by: PickRule::NextBuddy });
        }
        if let Some(last) = last
            && !self.wakeup_preempt_entity(last, left)
        {
            return Some(Picked { se: last, by: PickRule::LastBuddy });
        }
        Some(chosen)
    }

    /// `wakeup_preempt_entity`: whether `se` lies so far before `curr` that it should preempt it.
    fn wakeup_preempt_entity(&mut self, curr: EntityId, se: EntityId) -> bool {
        let running = self.entities[curr.index()].vruntime;
        self.rules.wakeup_preempt_entity(running, &mut self.entities[se.index()]).is_some_and(|margin| margin > 0)
    }

    /// `check_preempt_wakeup` (`kernel/sched/fair.c`, CFS): a woken task preempts the running one where it, or the group of either below the
    /// queue that both share, is further before it in virtual time than the wake-up granularity; and it becomes the next buddy. Since
    /// e52fb7c09723 (2.6.30; before, the granularity was not scaled by weight) until EEVDF, 147f3efaa241 (6.6).
    pub(crate) fn check_preempt_wakeup(&mut self, cpu: CpuId, woken: TaskId, fork: bool) {
        let curr = self.rqs[cpu.index()].curr;
        if curr == woken {
            return;
        }
        if !self.rules.wakeup_preempt_entity {
            if self.rqs[cpu.index()].need_resched {
                return self.explain_wakeup(cpu, woken, false, WakeupRule::AlreadyMarked);
            }
            let ours = self.check_preempt_wakeup_first(cpu, curr, woken);
            if self.decider.preempt(Preemption::Wakeup { cpu, woken }, ours) {
                self.resched_curr(cpu);
            }
            return;
        }
        let (se, pse) = (self.tasks[curr.index()].se, self.tasks[woken.index()].se);
        if self.throttled_hierarchy(self.entities[pse.index()].cfs_rq) {
            return self.explain_wakeup(cpu, woken, false, WakeupRule::Throttled);
        }
        let root = self.entities[se.index()].cfs_rq;
        let scale = self.rules.nominates_buddies(self.cfs_rqs[root.index()].nr_running);
        let features = self.rules.tunables.features;
        let nominated = features.next_buddy && scale && !fork;
        if nominated {
            self.set_next_buddy(pse);
        }
        if self.rqs[cpu.index()].need_resched {
            return self.explain_wakeup(cpu, woken, false, WakeupRule::AlreadyMarked);
        }
        let idle_curr = self.tasks[curr.index()].has_idle_policy();
        let policy = self.tasks[woken.index()].policy;
        let (level, ours) = if idle_curr && policy != Policy::Idle {
            self.explain_wakeup(cpu, woken, true, WakeupRule::CurrentIsIdle);
            (se, true)
        } else if policy != Policy::Other {
            return self.explain_wakeup(cpu, woken, false, WakeupRule::WokenIsBatch);
        } else if !features.wakeup_preemption {
            return self.explain_wakeup(cpu, woken, false, WakeupRule::FeatureOff);
        } else {
            let (se, pse) = self.find_matching_se(se, pse);
            // Idle groups (5.15 on): an entity that is not idle goes before them.
            match (self.has_groups() && self.se_is_idle(se), self.has_groups() && self.se_is_idle(pse)) {
                (true, false) => {
                    self.explain_wakeup(cpu, woken, true, WakeupRule::CurrentIsIdle);
                    (se, true)
                }
                (false, true) => return self.explain_wakeup(cpu, woken, false, WakeupRule::WokenIsBatch),
                _ => {
                    let queue = self.entities[se.index()].cfs_rq;
                    self.update_curr_cfs(queue);
                    let ours = self.wakeup_preempt_entity(se, pse);
                    self.explain(cpu, move |sched| {
                        let by = sched.granularity_rule(se, pse);
                        Reason::WakeupPreempt { woken, current: curr, preempts: ours, by }
                    });
                    if ours && !nominated {
                        self.set_next_buddy(pse);
                    }
                    (se, ours)
                }
            }
        };
        if !self.decider.preempt(Preemption::Wakeup { cpu, woken }, ours) {
            return;
        }
        self.resched_curr(cpu);
        let entity = &self.entities[level.index()];
        if entity.on_rq && features.last_buddy && scale && entity.task != TaskId::IDLE {
            self.set_last_buddy(level);
        }
    }

    /// 2.6.24's `check_preempt_wakeup`: a woken task that lies a granularity (in the running one's virtual time) behind preempts.
    fn check_preempt_wakeup_first(&mut self, cpu: CpuId, curr: TaskId, woken: TaskId) -> bool {
        let batch = self.tasks[woken.index()].policy == Policy::Batch;
        if batch || !self.rules.tunables.features.wakeup_preemption {
            let by = if batch { WakeupRule::WokenIsBatch } else { WakeupRule::FeatureOff };
            self.explain_wakeup(cpu, woken, false, by);
            return false;
        }
        let (se, pse) = self.find_matching_se(self.tasks[curr.index()].se, self.tasks[woken.index()].se);
        let granularity = self.rules.tunables.wakeup_granularity.as_nanos();
        let granularity = self.calc_delta_fair(granularity, se);
        // By signed difference; that kernel compares plain numbers, which differs only while virtual time wraps, 1 ms after boot.
        let (running, waking) = (self.entities[se.index()].vruntime, self.entities[pse.index()].vruntime);
        let preempts = waking.plus(granularity).before(running);
        let by = WakeupRule::Granularity { ahead: running.since(waking), granularity };
        self.explain_wakeup(cpu, woken, preempts, by);
        preempts
    }

    /// `find_matching_se`: the ancestors of both that share a queue.
    pub(super) fn find_matching_se(&self, mut se: EntityId, mut pse: EntityId) -> (EntityId, EntityId) {
        if self.rules.single_timeline {
            return (se, pse);
        }
        loop {
            let (one, other) = (&self.entities[se.index()], &self.entities[pse.index()]);
            if one.cfs_rq == other.cfs_rq {
                return (se, pse);
            }
            match (one.parent, other.parent) {
                (Some(parent), _) if one.depth > other.depth => se = parent,
                (_, Some(parent)) if other.depth > one.depth => pse = parent,
                (Some(left), Some(right)) => (se, pse) = (left, right),
                _ => return (se, pse),
            }
        }
    }

    /// `set_next_buddy`: the task that just woke should run next. SCHED_IDLE tasks are never buddies.
    pub(crate) fn set_next_buddy(&mut self, se: EntityId) {
        self.set_buddy(se, |queue, buddy| queue.next = Some(buddy));
    }

    /// `set_last_buddy`: the preempted task should get the CPU back.
    fn set_last_buddy(&mut self, se: EntityId) {
        self.set_buddy(se, |queue, buddy| queue.last = Some(buddy));
    }

    fn set_buddy(&mut self, se: EntityId, set: fn(&mut crate::fair::cfs_rq::CfsRq, EntityId)) {
        let mut level = Some(se);
        while let Some(se) = level {
            if !self.entities[se.index()].on_rq || self.se_is_idle(se) {
                return;
            }
            let cfs = self.timeline_queue(se);
            set(&mut self.cfs_rqs[cfs.index()], se);
            level = self.level_above(se);
        }
    }

    /// `clear_buddies`: `se` is no buddy any more, on any level where it (or its group) was.
    pub(crate) fn clear_buddies(&mut self, cfs: CfsRqId, se: EntityId) {
        let queue = &self.cfs_rqs[cfs.index()];
        if queue.last == Some(se) {
            self.clear_buddy(se, |queue| &mut queue.last);
        }
        if self.cfs_rqs[cfs.index()].next == Some(se) {
            self.clear_buddy(se, |queue| &mut queue.next);
        }
        if self.cfs_rqs[cfs.index()].skip == Some(se) {
            self.clear_buddy(se, |queue| &mut queue.skip);
        }
    }

    fn clear_buddy(&mut self, se: EntityId, of: fn(&mut crate::fair::cfs_rq::CfsRq) -> &mut Option<EntityId>) {
        let mut level = Some(se);
        while let Some(se) = level {
            let cfs = self.timeline_queue(se);
            let buddy = of(&mut self.cfs_rqs[cfs.index()]);
            if *buddy != Some(se) {
                return;
            }
            *buddy = None;
            level = self.level_above(se);
        }
    }

    /// The entity above in whose timeline that of its group stands; none at the top, and with a single timeline (7.3).
    fn level_above(&self, se: EntityId) -> Option<EntityId> {
        self.entities[se.index()].parent.filter(|_| !self.rules.single_timeline)
    }

    /// `yield_task_fair`: the yielding task is skipped once. 2.6.24 only charges it: it goes on if it is still first.
    pub(crate) fn yield_task_fair(&mut self, cpu: CpuId) {
        let rq = &self.rqs[cpu.index()];
        let (alone, curr) = (rq.nr_running == 1, rq.curr);
        let se = self.tasks[curr.index()].se;
        let cfs = self.entities[se.index()].cfs_rq;
        if !self.rules.yield_by_skip_buddy && !self.rules.eevdf {
            // It counts the fair tasks alone.
            if self.cfs_rqs[cfs.index()].nr_running > 1 {
                self.yield_task_first(cfs, se, curr);
            }
            return;
        }
        if alone {
            return;
        }
        if self.rules.eevdf {
            let timeline = self.timeline_queue(se);
            self.clear_buddies(timeline, se);
            return self.forfeit(timeline, se);
        }
        self.clear_buddies(cfs, se);
        if self.tasks[curr.index()].policy != Policy::Batch {
            self.update_curr_cfs(cfs);
        }
        let mut level = Some(se);
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            self.cfs_rqs[entity.cfs_rq.index()].skip = Some(se);
            level = entity.parent;
        }
    }

    /// 2.6.24's `yield_task_fair` with `compat_yield` off: only SCHED_BATCH goes to the end of the queue.
    fn yield_task_first(&mut self, cfs: CfsRqId, se: EntityId, curr: TaskId) {
        if self.tasks[curr.index()].policy != Policy::Batch {
            self.update_curr_cfs(cfs);
            return;
        }
        let Some(last) = self.cfs_rqs[cfs.index()].timeline.last() else { return };
        let rightmost = self.entities[last.index()].vruntime;
        let entity = &mut self.entities[se.index()];
        if !rightmost.before(entity.vruntime) {
            entity.vruntime = rightmost.plus(1);
        }
    }

    /// `task_fork_fair`: a child starts at its parent's virtual time, a slice late. The result is relative to the queue's
    /// `min_vruntime`, for the child may wake on another CPU.
    pub(crate) fn task_fork_fair(&mut self, cpu: CpuId, child: TaskId) {
        let se = self.tasks[child.index()].se;
        let cfs = self.entities[se.index()].cfs_rq;
        let curr = self.cfs_rqs[cfs.index()].curr;
        if let Some(curr) = curr {
            self.update_curr_cfs(cfs);
            self.entities[se.index()].vruntime = self.entities[curr.index()].vruntime;
        }
        self.place_entity(cfs, se, true);
        if let Some(curr) = curr {
            self.swap_if_child_first(cpu, curr, se);
        }
        let base = self.cfs_rqs[cfs.index()].min_vruntime.0;
        let entity = &mut self.entities[se.index()];
        entity.vruntime = entity.vruntime.minus(base);
    }

    fn swap_if_child_first(&mut self, cpu: CpuId, parent: EntityId, child: EntityId) {
        let (before, after) = (self.entities[parent.index()].vruntime, self.entities[child.index()].vruntime);
        if self.rules.tunables.child_runs_first && before.before(after) {
            self.entities[parent.index()].vruntime = after;
            self.entities[child.index()].vruntime = before;
            self.resched_curr(cpu);
        }
    }

    /// 2.6.24's `task_new_fair`: places and queues a new task at its first wake-up and always reschedules.
    pub(crate) fn task_new_fair(&mut self, cpu: CpuId, child: TaskId, parent_cpu: CpuId) {
        let se = self.tasks[child.index()].se;
        let cfs = self.entities[se.index()].cfs_rq;
        self.update_curr_cfs(cfs);
        self.place_entity(cfs, se, true);
        if let Some(curr) = self.cfs_rqs[cfs.index()].curr
            && cpu == parent_cpu
        {
            self.swap_if_child_first(cpu, curr, se);
        }
        if self.rules.relative_vruntime {
            let base = self.cfs_rqs[cfs.index()].min_vruntime.0;
            let entity = &mut self.entities[se.index()];
            entity.vruntime = Vruntime(entity.vruntime.0.wrapping_sub(base));
        }
        self.enqueue_task_fair(child, crate::class::EnqueueFlags::default());
        self.resched_curr(cpu);
    }
}
