//! What is EEVDF's own: average virtual time, lag, eligibility, virtual deadlines, slice protection, delayed dequeue (6.12 on).
//!
//! A task is eligible while it has received no more than its share, that is while its lag is not negative. Among the eligible the
//! one with the earliest virtual deadline runs. Lag is kept over sleep, so that sleeping neither earns nor forgives anything.

use schedlab_model::{CpuId, TaskId};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::core::Sched;
use crate::decider::Decider;
use crate::entity::{CfsRqId, EntityId, Vruntime};
use crate::fair::load::Action;

impl<D: Decider> Sched<D> {
    fn weight(&self, se: EntityId) -> i64 {
        let load = self.entities[se.index()].load;
        (if self.rules.full_weights { load.scaled } else { load.down() }) as i64
    }

    /// `entity_key`: distance from the queue's origin.
    fn entity_key(&self, cfs: CfsRqId, se: EntityId) -> i64 {
        self.entities[se.index()].vruntime.since(self.cfs_rqs[cfs.index()].zero_vruntime)
    }

    /// `avg_vruntime_add`: the entity joins the sum.
    pub(super) fn avg_vruntime_add(&mut self, cfs: CfsRqId, se: EntityId) {
        let (key, weight) = (self.entity_key(cfs, se), self.weight(se));
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.avg_vruntime = queue.avg_vruntime.wrapping_add(key.wrapping_mul(weight));
        queue.avg_load += weight;
    }

    /// `avg_vruntime_sub`: the entity leaves the sum.
    pub(super) fn avg_vruntime_sub(&mut self, cfs: CfsRqId, se: EntityId) {
        let (key, weight) = (self.entity_key(cfs, se), self.weight(se));
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.avg_vruntime = queue.avg_vruntime.wrapping_sub(key.wrapping_mul(weight));
        queue.avg_load -= weight;
    }

    fn running(&self, cfs: CfsRqId) -> Option<EntityId> {
        self.cfs_rqs[cfs.index()].curr.filter(|curr| self.entities[curr.index()].on_rq)
    }

    /// How far V, the weighted average of the queue's virtual times, rounded down, lies after the origin.
    fn average_key(&self, cfs: CfsRqId) -> i64 {
        let curr = self.running(cfs).map(|curr| (self.entity_key(cfs, curr), self.weight(curr)));
        let queue = &self.cfs_rqs[cfs.index()];
        match (queue.avg_load, curr) {
            (0, Some((key, _))) => key,
            (0, None) => 0,
            (load, curr) => {
                let (key, weight) = curr.unwrap_or((0, 0));
                let sum = queue.avg_vruntime.wrapping_add(key.wrapping_mul(weight));
                sum.div_euclid(load + weight)
            }
        }
    }

    /// A task's virtual time, and under EEVDF its lag: V less that while it is queued, what it kept of it while it is not. Nothing
    /// changes for being looked at.
    pub fn standing(&self, task: TaskId) -> (Vruntime, Option<i64>) {
        let se = self.tasks[task.index()].se;
        let entity = &self.entities[se.index()];
        let lag = |cfs| if entity.on_rq { self.average_key(cfs) - self.entity_key(cfs, se) } else { entity.vlag };
        (entity.vruntime, self.rules.eevdf.then(|| lag(entity.cfs_rq)))
    }

    /// `avg_vruntime`: V; the origin moves there.
    pub(crate) fn avg_vruntime(&mut self, cfs: CfsRqId) -> Vruntime {
        let delta = self.average_key(cfs);
        self.update_zero_vruntime(cfs, delta);
        self.cfs_rqs[cfs.index()].zero_vruntime
    }

    /// `update_zero_vruntime`: the origin moves by `delta`.
    fn update_zero_vruntime(&mut self, cfs: CfsRqId, delta: i64) {
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.avg_vruntime = queue.avg_vruntime.wrapping_sub(queue.avg_load.wrapping_mul(delta));
        queue.zero_vruntime = queue.zero_vruntime.plus(delta as u64);
    }

    /// `vruntime_eligible`: V ≥ v, without the division's loss.
    fn eligibility(&self, cfs: CfsRqId) -> impl Fn(Vruntime) -> bool + use<D> {
        let queue = &self.cfs_rqs[cfs.index()];
        let (mut sum, mut load) = (queue.avg_vruntime, queue.avg_load);
        if let Some(curr) = self.running(cfs) {
            let weight = self.weight(curr);
            sum = sum.wrapping_add(self.entity_key(cfs, curr).wrapping_mul(weight));
            load += weight;
        }
        let zero = queue.zero_vruntime;
        // With all bits of the weights the product needs more than 64.
        let wide = self.rules.full_weights;
        move |vruntime| {
            let key = vruntime.since(zero);
            if wide { i128::from(sum) >= i128::from(key) * i128::from(load) } else { sum >= key.wrapping_mul(load) }
        }
    }

    /// `entity_eligible`: whether the entity's lag is not negative.
    pub(crate) fn entity_eligible(&self, cfs: CfsRqId, se: EntityId) -> bool {
        self.eligibility(cfs)(self.entities[se.index()].vruntime)
    }

    /// `entity_lag`: V − v, within limits ([`RuleSet::lag_limited_by_longest_slice`]).
    ///
    /// [`RuleSet::lag_limited_by_longest_slice`]: schedlab_model::RuleSet
    pub(super) fn entity_lag(&mut self, cfs: CfsRqId, average: Vruntime, se: EntityId) -> i64 {
        let entity = &self.entities[se.index()];
        let lag = average.since(entity.vruntime);
        let longest = if self.rules.lag_limited_by_longest_slice {
            self.max_slice(cfs) + self.rules.tick
        } else {
            (2 * entity.slice).max(self.rules.tick)
        };
        let limit = self.calc_delta_fair(longest, se) as i64;
        lag.clamp(-limit, limit)
    }

    /// `update_entity_lag`: whether the lag is not what the entity's place says.
    pub(crate) fn update_entity_lag(&mut self, cfs: CfsRqId, se: EntityId) -> bool {
        let average = self.avg_vruntime(cfs);
        let mut lag = self.entity_lag(cfs, average, se);
        let entity = &mut self.entities[se.index()];
        if self.rules.bounds_lag_while_delayed && entity.sched_delayed {
            lag = lag.max(entity.vlag);
            if self.rules.tunables.features.delay_zero {
                lag = lag.min(0);
            }
        }
        entity.vlag = lag;
        average.minus(lag as u64) != entity.vruntime
    }

    /// What `update_curr` does after charging: a served request gets a new deadline (`update_deadline`), and whoever is not protected
    /// any more must go if there is anybody else.
    pub(crate) fn served(&mut self, cfs: CfsRqId, curr: EntityId) -> bool {
        let served = self.update_deadline(cfs, curr);
        if self.cfs_rqs[cfs.index()].nr_running == 1 {
            return false;
        }
        let unprotected =
            if self.rules.protects_for_time { !self.protect_slice(curr) } else { self.did_preempt_short(cfs, curr) };
        let goes = served || unprotected;
        if goes {
            self.clear_buddies(cfs, curr);
        }
        goes
    }

    /// `update_deadline`: once virtual time reaches the deadline the request is served, and the next one starts.
    fn update_deadline(&mut self, cfs: CfsRqId, se: EntityId) -> bool {
        let entity = &mut self.entities[se.index()];
        if entity.vruntime.before(entity.deadline) {
            return false;
        }
        if !entity.custom_slice {
            entity.slice = self.rules.tunables.base_slice.as_nanos();
        }
        let slice = entity.slice;
        let virtual_slice = self.calc_delta_fair(slice, se);
        let entity = &mut self.entities[se.index()];
        entity.deadline = entity.vruntime.plus(virtual_slice);
        self.avg_vruntime(cfs);
        true
    }

    /// `did_preempt_short` (6.12): protection was lost to a shorter slice, and the running entity is not eligible any more.
    fn did_preempt_short(&self, cfs: CfsRqId, curr: EntityId) -> bool {
        self.rules.tunables.features.preempt_short && !self.protect_slice(curr) && !self.entity_eligible(cfs, curr)
    }

    /// `cfs_rq_min_slice`: the shortest slice on the queue.
    pub(super) fn min_slice(&self, cfs: CfsRqId) -> u64 {
        let running = self.running(cfs).map(|curr| self.entities[curr.index()].slice);
        let waiting = self.cfs_rqs[cfs.index()].timeline.shortest_slice();
        running.into_iter().chain(waiting).min().unwrap_or(u64::MAX)
    }

    /// `cfs_rq_max_slice`: the longest slice on the queue.
    fn max_slice(&self, cfs: CfsRqId) -> u64 {
        let running = self.running(cfs).map(|curr| self.entities[curr.index()].slice);
        let waiting = self.cfs_rqs[cfs.index()].timeline.longest_slice();
        running.into_iter().chain(waiting).max().unwrap_or(0)
    }

    /// `set_protect_slice`: from now on the picked entity is protected: on 6.12 while its deadline stands, on 6.18 for the
    /// shortest slice of the queue (without RUN_TO_PARITY the unscaled base slice), at most its own.
    pub(crate) fn set_protect_slice(&mut self, cfs: CfsRqId, se: EntityId) {
        let (deadline, own) = (self.entities[se.index()].deadline, self.entities[se.index()].slice);
        let mut protected = deadline;
        if self.rules.protects_for_time {
            let run_to_parity = self.rules.tunables.features.run_to_parity;
            let slice = if run_to_parity { self.min_slice(cfs) } else { NORMALIZED_BASE_SLICE }.min(own);
            if slice != own {
                let virtual_slice = self.calc_delta_fair(slice, se);
                protected = protected.min(self.entities[se.index()].vruntime.plus(virtual_slice));
            }
        }
        self.entities[se.index()].vprot = protected;
    }

    /// `update_protect_slice` (6.18): a shorter slice came; protection ends that much earlier.
    pub(super) fn update_protect_slice(&mut self, cfs: CfsRqId, se: EntityId) {
        let slice = self.min_slice(cfs);
        let virtual_slice = self.calc_delta_fair(slice, se);
        let entity = &mut self.entities[se.index()];
        entity.vprot = entity.vprot.min(entity.vruntime.plus(virtual_slice));
    }

    /// `protect_slice`.
    pub(crate) fn protect_slice(&self, se: EntityId) -> bool {
        let entity = &self.entities[se.index()];
        if self.rules.protects_for_time {
            entity.vprot.since(entity.vruntime) > 0
        } else {
            entity.vprot == entity.deadline
        }
    }

    /// `cancel_protect_slice`.
    pub(super) fn cancel_protect_slice(&mut self, se: EntityId) {
        if self.protect_slice(se) {
            let entity = &mut self.entities[se.index()];
            entity.vprot = if self.rules.protects_for_time { entity.vruntime } else { entity.deadline.plus(1) };
        }
    }

    /// `pick_next_entity`: on 6.12 the buddy comes first here, and only here: NEXT_BUDDY's, or the group of a task that just left.
    pub(crate) fn pick_next_eevdf(&self, cfs: CfsRqId) -> Option<EntityId> {
        let picks_buddy = self.rules.tunables.features.pick_buddy && !self.rules.buddy_in_pick_eevdf;
        let buddy = self.cfs_rqs[cfs.index()].next.filter(|_| picks_buddy);
        buddy.filter(|next| self.entity_eligible(cfs, *next)).or_else(|| self.pick_eevdf(cfs, true))
    }

    /// `pick_eevdf`: the eligible entity with the earliest virtual deadline; the running one keeps the CPU while its slice is
    /// protected (`protect` false: looks past that, for a shorter slice).
    pub(super) fn pick_eevdf(&self, cfs: CfsRqId, protect: bool) -> Option<EntityId> {
        let queue = &self.cfs_rqs[cfs.index()];
        let running = self.running(cfs);
        if queue.nr_running == 1 {
            return running.or(queue.timeline.first());
        }
        let features = self.rules.tunables.features;
        if features.pick_buddy
            && self.rules.buddy_in_pick_eevdf
            && (protect || !self.rules.buddy_only_if_protecting)
            && let Some(next) = queue.next
            && self.entity_eligible(cfs, next)
        {
            return Some(next);
        }
        let eligible = self.eligibility(cfs);
        let curr = running.filter(|curr| eligible(self.entities[curr.index()].vruntime));
        // 6.18 protects without RUN_TO_PARITY too, for a shorter time.
        let protects = features.run_to_parity || self.rules.protects_for_time;
        if let Some(curr) = curr
            && protect
            && protects
            && self.protect_slice(curr)
        {
            return Some(curr);
        }
        let best = queue.timeline.first_eligible(eligible);
        match (best, curr) {
            (Some(best), Some(curr))
                if self.entities[curr.index()].deadline.before(self.entities[best.index()].deadline) =>
            {
                Some(curr)
            }
            (Some(best), _) => Some(best),
            (None, curr) => curr,
        }
    }

    /// `place_entity`: V less the lag it left with, inflated by what its own coming does to V; then a deadline one request away.
    pub(crate) fn place_entity_eevdf(&mut self, cfs: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        let average = self.avg_vruntime(cfs);
        if !self.entities[se.index()].custom_slice {
            self.entities[se.index()].slice = self.rules.tunables.base_slice.as_nanos();
        }
        let slice = self.entities[se.index()].slice;
        let mut virtual_slice = self.calc_delta_fair(slice, se);
        let features = self.rules.tunables.features;
        let (mut lag, mut moves_origin) = (0i64, false);
        if features.place_lag && self.cfs_rqs[cfs.index()].nr_running > 0 {
            let running = self.running(cfs).map_or(0, |curr| self.weight(curr));
            let load = self.cfs_rqs[cfs.index()].avg_load + running;
            let weight = self.weight(se);
            lag = self.entities[se.index()].vlag.wrapping_mul(load + weight) / load.max(1);
            moves_origin = self.rules.full_weights && weight > load;
        }
        let task = self.entities[se.index()].task;
        let placed = average.minus(lag as u64);
        let placed = if task == TaskId::IDLE { placed } else { self.decider.place(task, placed) };
        let entity = &mut self.entities[se.index()];
        entity.vruntime = placed;
        let relative = entity.rel_deadline && (features.place_rel_deadline || self.rules.places_any_relative_deadline);
        if moves_origin {
            // A heavy entity pulls V to itself: the origin goes there at once, lest products overflow.
            self.update_zero_vruntime(cfs, lag.wrapping_neg());
        }
        let entity = &mut self.entities[se.index()];
        if relative {
            entity.deadline = entity.deadline.plus(placed.0);
            entity.rel_deadline = false;
            return;
        }
        // The others are halfway through their slices on average; so a new one starts with half of one.
        if features.place_deadline_initial && flags.has(EnqueueFlags::INITIAL) {
            virtual_slice /= 2;
        }
        entity.deadline = placed.plus(virtual_slice);
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
        let weight = self.entities[se.index()].load.scaled;
        let queue = &mut self.cfs_rqs[cfs.index()];
        queue.load.add(weight);
        queue.nr_running += 1;
        if flags.has(EnqueueFlags::MIGRATED) {
            self.entities[se.index()].exec_start = 0;
        }
        if !running {
            self.timeline_insert(cfs, se);
        }
        self.entities[se.index()].on_rq = true;
        if self.cfs_rqs[cfs.index()].nr_running == 1 {
            self.check_enqueue_throttle(cfs);
            if self.rules.throttles_tasks {
                self.throttle_load(cfs, false);
            }
        }
    }

    /// The part of `dequeue_entity` before it takes the entity off: true if it stays, asleep, until its negative lag is used up
    /// (DELAY_DEQUEUE).
    pub(crate) fn lingers(&self, cfs: CfsRqId, se: EntityId, flags: DequeueFlags) -> bool {
        let delay = flags.has(DequeueFlags::SLEEP)
            && !flags.any(DequeueFlags::DELAYED.and(DequeueFlags::SPECIAL).and(DequeueFlags::THROTTLE));
        delay && self.rules.tunables.features.delay_dequeue && !self.entity_eligible(cfs, se)
    }

    /// The part of `dequeue_entity` that keeps the deadline relative to `vruntime` unless the entity sleeps. It comes once the entity
    /// is off the timeline, which the deadline orders.
    pub(super) fn keep_relative_deadline(&mut self, se: EntityId, flags: DequeueFlags) {
        if self.rules.tunables.features.place_rel_deadline && !flags.has(DequeueFlags::SLEEP) {
            let entity = &mut self.entities[se.index()];
            entity.deadline = entity.deadline.minus(entity.vruntime.0);
            entity.rel_deadline = true;
        }
    }

    /// `finish_delayed_dequeue_entity`: lag earned while lingering does not count (DELAY_ZERO).
    pub(crate) fn finish_delayed_dequeue(&mut self, se: EntityId) {
        // From 7.2 on update_entity_lag saw to it.
        let delay_zero = self.rules.tunables.features.delay_zero && !self.rules.bounds_lag_while_delayed;
        self.clear_delayed(se);
        let entity = &mut self.entities[se.index()];
        if delay_zero && entity.vlag > 0 {
            entity.vlag = 0;
        }
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

    /// Takes off a task that lingers for a call that cannot leave it there (`dequeue_task` with DEQUEUE_DELAYED): it gets another class
    /// (`__sched_setscheduler`), or somebody waits until it sleeps (`wait_task_inactive`).
    pub(crate) fn dequeue_delayed_by_call(&mut self, cpu: CpuId, task: TaskId) {
        self.dequeue_task_fair(task, DequeueFlags::SLEEP.and(DequeueFlags::DELAYED));
        self.account_dequeue(cpu);
    }

    /// A queued entity is placed as if it came with the lag that it has.
    fn place_again(&mut self, cfs: CfsRqId, se: EntityId) {
        let running = self.cfs_rqs[cfs.index()].curr == Some(se);
        self.cfs_rqs[cfs.index()].nr_running -= 1;
        if !running {
            self.timeline_remove(cfs, se);
        }
        self.place_entity_eevdf(cfs, se, EnqueueFlags::default());
        if !running {
            self.timeline_insert(cfs, se);
        }
        self.cfs_rqs[cfs.index()].nr_running += 1;
    }

    /// `requeue_delayed_entity`: it wakes before it left; what lag it earned meanwhile is taken back (DELAY_ZERO).
    pub(super) fn requeue_delayed_entity(&mut self, se: EntityId) {
        let cfs = self.entities[se.index()].cfs_rq;
        if self.rules.bounds_lag_while_delayed {
            self.update_curr_cfs(cfs);
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
        self.update_load_avg(cfs, se, Action::default());
        self.clear_delayed(se);
    }

    /// `set_delayed`: from now on it lingers. An empty group counts for none below it anyway.
    pub(crate) fn set_delayed(&mut self, se: EntityId) {
        self.entities[se.index()].sched_delayed = true;
        self.count_delayed(se, |count| count + 1);
    }

    /// `clear_delayed`: it lingers no longer.
    fn clear_delayed(&mut self, se: EntityId) {
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
        self.update_curr_cfs(cfs);
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

/// `normalized_sysctl_sched_base_slice`, before scaling with CPUs (6.18).
const NORMALIZED_BASE_SLICE: u64 = 700_000;
