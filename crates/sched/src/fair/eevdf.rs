//! What is EEVDF's own: average virtual time, lag, eligibility, virtual deadlines, slice protection, delayed dequeue (6.12 on).
//!
//! A task is eligible while it has received no more than its share, that is while its lag is not negative. Among the eligible the
//! one with the earliest virtual deadline runs. Lag is kept over sleep, so that sleeping neither earns nor forgives anything.

use schedlab_model::{CpuId, PlaceRule, Reason, TaskId, TurnRule};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::{CfsRqId, Entity, EntityId, Vruntime};
use crate::fair::load::Action;
use crate::fair::rules::Picked;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// The entity that runs on the queue, as long as it is queued.
    fn running(&self, cfs: CfsRqId) -> Option<&Entity> {
        self.cfs_rqs[cfs.index()].running(&self.entities).map(|(_, running)| running)
    }

    /// A task's virtual time, and under EEVDF its lag: V less that while it is queued, what it kept of it while it is not. Nothing
    /// changes for being looked at.
    pub fn standing(&self, task: TaskId) -> (Vruntime, Option<i64>) {
        let se = self.tasks[task.index()].se;
        let entity = &self.entities[se.index()];
        let lag = |cfs: CfsRqId| {
            let queue = &self.cfs_rqs[cfs.index()];
            let queued = || queue.average_key(self.running(cfs), &self.rules) - queue.entity_key(entity);
            if entity.on_rq { queued() } else { entity.vlag }
        };
        (entity.vruntime, self.rules.eevdf.then(|| lag(self.timeline_queue(se))))
    }

    /// Under EEVDF a task's virtual deadline.
    pub fn virtual_deadline(&self, task: TaskId) -> Option<Vruntime> {
        self.rules.eevdf.then(|| self.entities[self.tasks[task.index()].se.index()].deadline)
    }

    /// `avg_vruntime`: V; the origin moves there.
    pub(crate) fn avg_vruntime(&mut self, cfs: CfsRqId) -> Vruntime {
        let Self { rules, entities, cfs_rqs, .. } = self;
        let queue = &mut cfs_rqs[cfs.index()];
        let running = queue.running(entities).map(|(_, running)| running);
        queue.avg_vruntime(running, rules)
    }

    /// `entity_eligible`: whether the entity's lag is not negative.
    pub(crate) fn entity_eligible(&self, cfs: CfsRqId, se: EntityId) -> bool {
        let average = self.cfs_rqs[cfs.index()].average(self.running(cfs), &self.rules);
        average.is_eligible(self.entities[se.index()].vruntime)
    }

    /// From now on tasks may have slices of their own. Kernels whose tree may then miss the shortest or longest slice have it kept for every queue.
    /// Call it while the queues are empty: the tree of any other queue gets the shape that it has if no entity left before.
    pub fn expect_slices(&mut self) {
        let augmentation = self.rules.augmentation();
        if self.rules.eevdf && !augmentation.is_exact() {
            self.cfs_rqs.iter_mut().for_each(|queue| queue.timeline.keep_tree(augmentation));
        }
    }

    /// `cfs_rq_min_slice`: the shortest slice on the queue.
    pub(crate) fn min_slice(&self, cfs: CfsRqId) -> u64 {
        self.cfs_rqs[cfs.index()].min_slice(self.running(cfs))
    }

    /// `entity_lag` of a queued entity, V being `average`.
    pub(super) fn entity_lag(&mut self, cfs: CfsRqId, average: Vruntime, se: EntityId) -> i64 {
        let own = self.entities[se.index()].slice;
        let limit = self.rules.lag_limit(own, || self.cfs_rqs[cfs.index()].max_slice(self.running(cfs)));
        self.rules.entity_lag(average, &mut self.entities[se.index()], limit)
    }

    /// `update_entity_lag`: whether the lag is not what the entity's place says.
    pub(crate) fn update_entity_lag(&mut self, cfs: CfsRqId, se: EntityId) -> bool {
        let average = self.avg_vruntime(cfs);
        let mut lag = self.entity_lag(cfs, average, se);
        let entity = &mut self.entities[se.index()];
        if self.rules.bounds_lag_while_delayed && entity.sched_delayed {
            lag = self.rules.lag_while_delayed(lag, entity.vlag);
        }
        entity.vlag = lag;
        average.minus(lag as u64) != entity.vruntime
    }

    /// What `update_curr` does after charging: a served request gets a new deadline (`update_deadline`), and an entity that is no longer
    /// protected must go if others are queued. Why its turn is over, if it is.
    pub(crate) fn served(&mut self, cfs: CfsRqId, curr: EntityId) -> Option<TurnRule> {
        let served = self.update_deadline(cfs, curr);
        if self.cfs_rqs[cfs.index()].nr_in_timeline(&self.rules) == 1 {
            return None;
        }
        let entity = &self.entities[curr.index()];
        let unprotected = self.rules.is_unprotected(entity, || self.entity_eligible(cfs, curr));
        let over = match (served, unprotected) {
            (true, _) => TurnRule::RequestServed,
            (false, true) => TurnRule::ProtectionOver,
            (false, false) => return None,
        };
        self.clear_buddies(cfs, curr);
        Some(over)
    }

    /// `update_deadline`: once virtual time reaches the deadline the request is served, and the next one starts.
    fn update_deadline(&mut self, cfs: CfsRqId, se: EntityId) -> bool {
        let served = self.rules.update_deadline(&mut self.entities[se.index()]);
        if served {
            self.avg_vruntime(cfs);
        }
        served
    }

    /// `set_protect_slice` ([`Rules::set_protect_slice`](crate::rules::Rules)).
    pub(crate) fn set_protect_slice(&mut self, cfs: CfsRqId, se: EntityId) {
        let shortest = if self.rules.protects_for_time { self.min_slice(cfs) } else { 0 };
        let entity = &mut self.entities[se.index()];
        if self.rules.protects_while_eligible && self.rules.tunables.features.preempt_short {
            let ineligible = self.cfs_rqs[cfs.index()].ineligible_vruntime();
            self.rules.set_protection_until(entity, shortest, ineligible);
        } else {
            self.rules.set_protect_slice(entity, || shortest);
        }
    }

    /// `update_protect_slice` (6.18): a shorter slice came; protection ends that much earlier. From 7.3 on the slice counts from V where that
    /// lies before its virtual time.
    pub(super) fn update_protect_slice(&mut self, cfs: CfsRqId, se: EntityId) {
        let shortest = self.min_slice(cfs);
        let mut from = self.entities[se.index()].vruntime;
        if self.rules.limits_protection_from_v {
            from = from.min(self.avg_vruntime(cfs));
        }
        self.rules.update_protect_slice(&mut self.entities[se.index()], from, shortest);
    }

    /// `protect_slice`.
    pub(crate) fn protect_slice(&self, se: EntityId) -> bool {
        self.rules.protect_slice(&self.entities[se.index()])
    }

    /// `cancel_protect_slice`.
    pub(super) fn cancel_protect_slice(&mut self, se: EntityId) {
        self.rules.cancel_protect_slice(&mut self.entities[se.index()]);
    }

    /// `pick_eevdf`, without charging the current task first.
    pub(super) fn pick_eevdf(&self, cfs: CfsRqId, protect: bool) -> Option<Picked> {
        self.cfs_rqs[cfs.index()].pick_eevdf(&self.entities, &self.rules, protect)
    }

    /// `place_entity`: V less the lag it left with, inflated by what its own coming does to V; then a deadline one request away.
    pub(crate) fn place_entity_eevdf(&mut self, cfs: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        let average = self.avg_vruntime(cfs);
        let (mut lag, mut moves_origin) = (0, false);
        let queue = &self.cfs_rqs[cfs.index()];
        let counted = u32::from(flags.has(EnqueueFlags::QUEUED));
        if queue.nr_in_timeline(&self.rules) > counted {
            let entity = &self.entities[se.index()];
            let weight = self.rules.weight_in_average(entity.load);
            let running = self.running(cfs).map_or(0, |running| self.rules.weight_in_average(running.load));
            let load = queue.avg_load + running;
            lag = self.rules.placed_lag(entity.vlag, weight, load);
            moves_origin = self.rules.full_weights && weight > load;
        }
        let task = self.entities[se.index()].task;
        self.explain(self.cfs_rqs[cfs.index()].cpu, move |sched| {
            let kept = sched.entities[se.index()].vlag;
            let by = if lag == 0 { PlaceRule::Average } else { PlaceRule::Lag { kept, placed: lag } };
            let (entity, initial) = (sched.candidate(se), flags.has(EnqueueFlags::INITIAL));
            Reason::Place { entity, within: sched.cfs_rqs[cfs.index()].group.0, initial, by }
        });
        let placed = average.minus(lag as u64);
        let placed = if task == TaskId::IDLE { placed } else { self.decider.place(task, placed) };
        if moves_origin {
            // A heavy entity pulls V to itself: the origin goes there at once, lest products overflow.
            self.cfs_rqs[cfs.index()].update_zero_vruntime(lag.wrapping_neg());
        }
        let entity = &mut self.entities[se.index()];
        entity.vruntime = placed;
        self.rules.place_deadline(entity, flags.has(EnqueueFlags::INITIAL));
    }

    /// `enqueue_entity`.
    pub(super) fn enqueue_entity_eevdf(&mut self, cfs: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        let running = self.cfs_rqs[cfs.index()].curr == Some(se);
        if running {
            self.place_entity_eevdf(cfs, se, flags);
        }
        self.update_curr_cfs(cfs);
        self.update_for_enqueue(cfs, se);
        if !running {
            self.place_entity_eevdf(cfs, se, flags);
        }
        self.account_entity_enqueue(cfs, se, flags.has(EnqueueFlags::MIGRATED));
        if self.rules.throttles_tasks && self.cfs_rqs[cfs.index()].nr_running == 1 {
            self.throttle_load(cfs, false);
        }
    }

    /// The part of `dequeue_entity` before it takes the entity off: true if it stays, asleep, until its negative lag is used up
    /// (DELAY_DEQUEUE).
    pub(crate) fn delays_dequeue(&self, cfs: CfsRqId, se: EntityId, flags: DequeueFlags) -> bool {
        let delay = flags.has(DequeueFlags::SLEEP)
            && !flags.any(DequeueFlags::DELAYED.and(DequeueFlags::SPECIAL).and(DequeueFlags::THROTTLE));
        let vruntime = self.entities[se.index()].vruntime;
        delay && self.cfs_rqs[cfs.index()].delays_dequeue(vruntime, self.running(cfs), &self.rules)
    }

    /// The part of `dequeue_entity` that keeps the deadline relative to `vruntime` unless the entity sleeps. It comes once the entity
    /// is off the timeline, which the deadline orders.
    pub(super) fn keep_relative_deadline(&mut self, se: EntityId, flags: DequeueFlags) {
        if self.rules.tunables.features.place_rel_deadline && !flags.has(DequeueFlags::SLEEP) {
            self.entities[se.index()].keep_relative_deadline();
        }
    }

    /// `finish_delayed_dequeue_entity`: lag earned while the dequeue was delayed does not count (DELAY_ZERO).
    pub(crate) fn finish_delayed_dequeue(&mut self, se: EntityId) {
        self.clear_delayed(se);
        let entity = &mut self.entities[se.index()];
        entity.vlag = self.rules.lag_after_delay(entity.vlag);
    }

    /// Takes off a delayed task that has become eligible (`dequeue_entities` with DEQUEUE_DELAYED, from a pick): not `dequeue_task_fair`, so
    /// that what is expected of it stays as it was left when it went to sleep.
    pub(crate) fn dequeue_delayed(&mut self, cpu: CpuId, task: TaskId) {
        let record = &self.tasks[task.index()];
        let idle_policy = u32::from(record.has_idle_policy());
        self.dequeue_entities(record.se, DequeueFlags::SLEEP.and(DequeueFlags::DELAYED), idle_policy);
        self.hrtick_update(cpu, false);
        self.rqs[cpu.index()].nr_running -= 1;
    }

    /// Takes off a delayed task for a call that cannot leave it queued (`dequeue_task` with DEQUEUE_DELAYED): it gets another class
    /// (`__sched_setscheduler`), or another task waits until it sleeps (`wait_task_inactive`).
    pub(crate) fn dequeue_delayed_by_call(&mut self, cpu: CpuId, task: TaskId) {
        self.dequeue_task_fair(task, DequeueFlags::SLEEP.and(DequeueFlags::DELAYED));
        self.account_dequeue(cpu);
    }

    /// A queued entity is placed as if it came with the lag that it has.
    fn place_again(&mut self, cfs: CfsRqId, se: EntityId) {
        let running = self.cfs_rqs[cfs.index()].curr == Some(se);
        if !running {
            self.timeline_remove(cfs, se);
        }
        self.place_entity_eevdf(cfs, se, EnqueueFlags::QUEUED);
        if !running {
            self.timeline_insert(cfs, se);
        }
    }

    /// `requeue_delayed_entity`: it wakes before it left; what lag it earned meanwhile is taken back (DELAY_ZERO).
    pub(crate) fn requeue_delayed_entity(&mut self, se: EntityId) {
        let cfs = self.timeline_queue(se);
        if self.rules.bounds_lag_while_delayed {
            if !self.rules.single_timeline {
                self.update_curr_cfs(cfs);
            }
            if self.update_entity_lag(cfs, se) {
                self.place_again(cfs, se);
            }
        } else if self.rules.tunables.features.delay_zero {
            self.update_entity_lag(cfs, se);
            if self.entities[se.index()].vlag > 0 {
                self.entities[se.index()].vlag = 0;
                self.place_again(cfs, se);
            }
        }
        // With a single timeline (7.3) this is the CPU's root queue, also for a task of a group: the averages of the group's queue are
        // brought up to date only later, when the task counts as runnable again.
        self.update_load_avg(cfs, se, Action::default());
        self.clear_delayed(se);
    }

    /// `set_delayed`: from now on its dequeue is delayed. An empty group counts for no task below it anyway.
    pub(crate) fn set_delayed(&mut self, se: EntityId) {
        self.entities[se.index()].sched_delayed = true;
        self.count_delayed(se, |count| count + 1);
    }

    /// `clear_delayed`: its dequeue is no longer delayed.
    pub(super) fn clear_delayed(&mut self, se: EntityId) {
        if std::mem::take(&mut self.entities[se.index()].sched_delayed) {
            self.count_delayed(se, |count| count - 1);
        }
    }

    /// `h_nr_delayed` of the queues of a task, up to one that is throttled.
    fn count_delayed(&mut self, se: EntityId, change: impl Fn(u32) -> u32) {
        let mut level = Some(se).filter(|se| self.entities[se.index()].my_q.is_none());
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            level = entity.parent;
            let queue = &mut self.cfs_rqs[entity.cfs_rq.index()];
            queue.h_nr_delayed = change(queue.h_nr_delayed);
            if queue.throttled && !self.rules.throttles_tasks {
                return;
            }
        }
    }

    /// `yield_task_fair`: an eligible task gives up the rest of its request.
    pub(super) fn forfeit(&mut self, cfs: CfsRqId, se: EntityId) {
        self.update_curr_cfs(self.entities[se.index()].cfs_rq);
        if !self.rules.yield_forfeits {
            let slice = self.entities[se.index()].slice;
            let virtual_slice = self.calc_delta_fair(slice, se);
            let entity = &mut self.entities[se.index()];
            entity.deadline = entity.deadline.plus(virtual_slice);
        } else if self.entity_eligible(cfs, se) {
            let entity = &mut self.entities[se.index()];
            entity.vruntime = entity.deadline;
            self.update_deadline(cfs, se);
        }
    }
}
