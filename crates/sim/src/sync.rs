//! Mutexes, conditions, barriers, semaphores and timers in virtual time, as glibc makes them of futexes.
//!
//! An operation that no task waits for costs no system call. A futex wakes the most urgent real-time waiter first and the others in the
//! order in which they came (`futex_q.list` is a priority list); a woken task has to find the mutex free, which another task may have taken
//! meanwhile. Mutexes with priority inheritance are handed over.

use schedlab_model::{Attributes, EventSink, Policy, TaskState};
use schedlab_program::Op;

use crate::engine::{Engine, task_id};
use crate::task::{Stage, State};
use crate::wait::{NONE, WaitQueue};

/// Fair tasks' place among waiters: behind every real-time one (`min(normal_prio, MAX_RT_PRIO)`).
const FAIR: u32 = 100;

/// The step of a task that waits for a condition: among the waiters, its mutex given back; or at its mutex again.
const WAITING: u32 = 1;
const WOKEN: u32 = 2;

/// Where a task is at a barrier besides, each time with the barrier's mutex: about to wait, the last one, or about to go on.
const EARLY: u32 = 3;
const LAST: u32 = 4;
const LEAVING: u32 = 5;

/// Where a task has woken some of those that it wakes, one after the other.
pub(crate) const WAKING: u32 = 6;

/// The place of a task of this policy among waiters.
fn rank(policy: Policy) -> u32 {
    match policy {
        Policy::Deadline { .. } => 0,
        Policy::Fifo(priority) | Policy::Rr(priority) => FAIR - u32::from(priority),
        Policy::Other | Policy::Batch | Policy::Idle => FAIR,
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// The most urgent waiter of a queue, taken out of it.
    fn pop_urgent(
        &mut self,
        queue: impl Fn(&mut crate::objects::Objects) -> &mut crate::wait::WaitQueue,
    ) -> Option<u32> {
        let sched = &self.sched;
        let rank = |task: u32| rank(sched.task(task_id(task)).policy);
        queue(&mut self.arena.objects).pop_least(&mut self.arena.links, rank)
    }

    /// What an operation on these takes before its effect.
    pub(crate) fn plan_sync(&self, task: u32) -> (Stage, u64) {
        let record = &self.arena.tasks[task as usize];
        let objects = &self.arena.objects;
        let call = self.prices.system_call;
        let sleep = self.prices.futex_wait;
        let unless_empty = |empty: bool| if empty { 0 } else { self.prices.futex_wake };
        match record.op {
            Op::Lock(mutex) => self.plan_lock(task, mutex),
            Op::Wait { mutex, .. } => match record.moved {
                WOKEN => self.plan_lock(task, mutex),
                WAITING => (Stage::Act, sleep),
                _ => (Stage::Act, unless_empty(objects.mutexes[mutex as usize].waiters.is_empty())),
            },
            Op::Unlock(mutex) => (Stage::Act, unless_empty(objects.mutexes[mutex as usize].waiters.is_empty())),
            Op::Broadcast(_) | Op::PostAll(_) | Op::Barrier(_) if record.moved >= WAKING => (Stage::Act, 0),
            Op::Signal(condition) | Op::Broadcast(condition) => {
                (Stage::Act, unless_empty(objects.conditions[condition as usize].is_empty()))
            }
            Op::Barrier(barrier) => {
                let barrier = &objects.barriers[barrier as usize];
                match record.moved {
                    WAITING => (Stage::Act, sleep),
                    LAST => (Stage::Act, unless_empty(objects.conditions[barrier.condition as usize].is_empty())),
                    EARLY | LEAVING => {
                        (Stage::Act, unless_empty(objects.mutexes[barrier.mutex as usize].waiters.is_empty()))
                    }
                    _ => self.plan_lock(task, barrier.mutex),
                }
            }
            Op::Post(semaphore) => {
                let wakes = unless_empty(objects.semaphores[semaphore as usize].waiters.is_empty());
                (Stage::Act, self.prices.clock.saturating_add(wakes))
            }
            Op::PostAll(list) => {
                let list = &self.program.post_lists()[list as usize];
                let empty = list.iter().all(|semaphore| objects.semaphores[*semaphore as usize].waiters.is_empty());
                (Stage::Act, self.prices.clock.saturating_add(unless_empty(empty)))
            }
            // Who slept looks how long ago the post was.
            Op::Acquire(semaphore) if objects.semaphores[semaphore as usize].count > 0 => {
                (Stage::Act, if record.slept { self.prices.clock } else { 0 })
            }
            Op::Acquire(_) => (Stage::Block, sleep),
            _ => (Stage::Act, call),
        }
    }

    fn plan_lock(&self, task: u32, mutex: u32) -> (Stage, u64) {
        let owner = self.arena.objects.mutexes[mutex as usize].owner;
        if owner == NONE || owner == task { (Stage::Act, 0) } else { (Stage::Block, self.prices.futex_wait) }
    }

    /// The effect of an operation on these.
    pub(crate) fn sync(&mut self, task: u32, cpu: u32) {
        let record = &mut self.arena.tasks[task as usize];
        match record.op {
            Op::Lock(mutex) => self.lock(task, mutex),
            Op::Wait { mutex, .. } if record.moved == WOKEN => self.lock(task, mutex),
            Op::Wait { .. } | Op::Barrier(_) if record.moved == WAITING => {
                record.stage = Stage::Retry;
                self.go_to_sleep(task, cpu, TaskState::Interruptible);
            }
            // The task joins the waiters before it gives the mutex back, and the task that gets the mutex may run before this one sleeps.
            Op::Wait { condition, mutex } => {
                (record.moved, record.stage) = (WAITING, Stage::Retry);
                self.arena.objects.conditions[condition as usize].push_back(task, &mut self.arena.links);
                self.unlock(task, cpu, mutex);
            }
            Op::Unlock(mutex) => {
                record.done();
                self.unlock(task, cpu, mutex);
            }
            Op::Signal(condition) => {
                record.done();
                if let Some(woken) = self.pop_urgent(|objects| &mut objects.conditions[condition as usize]) {
                    self.signal(task, cpu, woken);
                }
            }
            Op::Broadcast(condition) => {
                if !self.broadcast(task, cpu, condition) {
                    self.arena.tasks[task as usize].done();
                }
            }
            Op::Barrier(barrier) => self.meet(task, cpu, barrier),
            Op::Post(semaphore) => {
                record.done();
                self.post(task, cpu, semaphore);
            }
            Op::PostAll(list) => {
                let list = &self.program.post_lists()[list as usize];
                let posted = record.moved.saturating_sub(WAKING);
                if posted + 1 < list.len() as u32 {
                    (record.moved, record.stage) = (WAKING + posted + 1, Stage::Retry);
                } else {
                    record.done();
                }
                if let Some(semaphore) = list.get(posted as usize) {
                    self.post(task, cpu, *semaphore);
                }
            }
            Op::Acquire(semaphore) => {
                let place = &mut self.arena.objects.semaphores[semaphore as usize];
                if place.count == 0 {
                    // Another task was faster.
                    record.stage = Stage::Retry;
                    return;
                }
                place.count -= 1;
                if record.slept {
                    place.wakeups.add(self.now - place.posted);
                }
                record.done();
            }
            _ => record.done(),
        }
    }

    /// Counts a semaphore up and wakes a task that waits for it.
    fn post(&mut self, task: u32, cpu: u32, semaphore: u32) {
        let place = &mut self.arena.objects.semaphores[semaphore as usize];
        (place.count, place.posted) = (place.count.saturating_add(1), self.now);
        if let Some(woken) = self.pop_urgent(|objects| &mut objects.semaphores[semaphore as usize].waiters) {
            self.wake_for(task, cpu, woken, false);
        }
    }

    /// Whether the task, about to sleep because it has not got a mutex or semaphore, still has to; if so it joins the waiters.
    pub(crate) fn wait_sync(&mut self, task: u32) -> bool {
        let mutex = match self.arena.tasks[task as usize].op {
            Op::Lock(mutex) | Op::Wait { mutex, .. } => Some(mutex),
            Op::Barrier(barrier) => Some(self.arena.objects.barriers[barrier as usize].mutex),
            _ => None,
        };
        match (mutex, self.arena.tasks[task as usize].op) {
            (Some(mutex), _) => {
                let place = &mut self.arena.objects.mutexes[mutex as usize];
                if place.owner == NONE || place.owner == task {
                    return false;
                }
                let owner = place.owner;
                place.waiters.push_back(task, &mut self.arena.links);
                self.lend(task, owner);
            }
            (None, Op::Acquire(semaphore)) => {
                let place = &mut self.arena.objects.semaphores[semaphore as usize];
                if place.count > 0 {
                    return false;
                }
                place.waiters.push_back(task, &mut self.arena.links);
            }
            _ => return false,
        }
        true
    }

    /// Wakes the first of those that waited for a condition as the broadcast began; whether others are left, for which the operation goes on.
    /// The wake-up of one takes its time before the next one is woken (`wake_up_q`), and a kernel that preempts within calls may switch between
    /// the two: a task that waits again by then is not woken.
    fn broadcast(&mut self, task: u32, cpu: u32, condition: u32) -> bool {
        let objects = &mut self.arena.objects;
        let mut waiters = match objects.luggage(task).waking.take() {
            Some(left) => left,
            None => std::mem::replace(&mut objects.conditions[condition as usize], WaitQueue::EMPTY),
        };
        let sched = &self.sched;
        let woken = waiters.pop_least(&mut self.arena.links, |task| rank(sched.task(task_id(task)).policy));
        let left = !waiters.is_empty();
        if left {
            self.arena.objects.luggage(task).waking = Some(waiters);
            let record = &mut self.arena.tasks[task as usize];
            (record.moved, record.stage) = (WAKING, Stage::Retry);
        }
        if let Some(woken) = woken {
            self.signal(task, cpu, woken);
        }
        left
    }

    /// The condition that a task waits for is there: the task is woken, unless it does not sleep yet.
    fn signal(&mut self, task: u32, cpu: u32, woken: u32) {
        let record = &mut self.arena.tasks[woken as usize];
        record.moved = WOKEN;
        if record.state == State::Asleep || record.stage == Stage::Depart {
            self.wake_for(task, cpu, woken, false);
        }
    }

    fn lock(&mut self, task: u32, mutex: u32) {
        let record = &mut self.arena.tasks[task as usize];
        let place = &mut self.arena.objects.mutexes[mutex as usize];
        if place.owner != NONE && place.owner != task {
            record.stage = Stage::Retry;
            return;
        }
        place.owner = task;
        record.done();
    }

    fn unlock(&mut self, task: u32, cpu: u32, mutex: u32) {
        self.arena.objects.mutexes[mutex as usize].owner = NONE;
        let woken = self.pop_urgent(|objects| &mut objects.mutexes[mutex as usize].waiters);
        if self.program.priority_inheritance() {
            self.take_back(task);
        }
        let Some(woken) = woken else { return };
        if self.program.priority_inheritance() {
            // rt_mutex_slowunlock: the next task owns it before it runs, and is lent the priority of the other waiters.
            let place = &mut self.arena.objects.mutexes[mutex as usize];
            place.owner = woken;
        }
        self.wake_for(task, cpu, woken, false);
        if self.program.priority_inheritance() {
            self.lend_most_urgent(mutex, woken);
        }
    }

    /// `rt_mutex_adjust_prio`: the holder is served like `waiter` where that is more urgent. Of the real-time policies only: among
    /// fair tasks inheritance changes no weight, and a deadline is not lent here.
    fn lend(&mut self, waiter: u32, holder: u32) {
        if !self.program.priority_inheritance() {
            return;
        }
        let (policy, now) = (self.policy_of(waiter), self.policy_of(holder));
        let (Policy::Fifo(priority) | Policy::Rr(priority), true) = (policy, rank(policy) < rank(now)) else { return };
        let present = self.sched.attributes(task_id(holder));
        let luggage = self.arena.objects.luggage(holder);
        luggage.lent.get_or_insert_with(|| present.clone());
        let policy = if matches!(now, Policy::Rr(_)) { Policy::Rr(priority) } else { Policy::Fifo(priority) };
        self.apply_attributes(holder, &Attributes { policy, ..present });
    }

    fn lend_most_urgent(&mut self, mutex: u32, holder: u32) {
        let sched = &self.sched;
        let rank_of = |task: u32| rank(sched.task(task_id(task)).policy);
        let waiters = self.arena.objects.mutexes[mutex as usize].waiters;
        if let Some(least @ 1..FAIR) = waiters.least(&self.arena.links, rank_of) {
            let present = self.sched.attributes(task_id(holder));
            if least < rank(present.policy) {
                self.arena.objects.luggage(holder).lent.get_or_insert_with(|| present.clone());
                let policy = Policy::Fifo((FAIR - least) as u8);
                self.apply_attributes(holder, &Attributes { policy, ..present });
            }
        }
    }

    /// What a holder was lent goes back, but for what the waiters of another mutex of its lend it.
    fn take_back(&mut self, holder: u32) {
        let Some(own) = self.arena.objects.luggage(holder).lent.take() else { return };
        self.apply_attributes(holder, &own);
        for mutex in 0..self.arena.objects.mutexes.len() as u32 {
            if self.arena.objects.mutexes[mutex as usize].owner == holder {
                self.lend_most_urgent(mutex, holder);
            }
        }
    }

    fn policy_of(&self, task: u32) -> Policy {
        self.sched.task(task_id(task)).policy
    }

    /// The next step at a barrier: its mutex is taken; the last task wakes all that wait on its condition, every other task waits there,
    /// and takes the mutex once more; then it is given back. So a woken task that runs at once sleeps again until the last one has given
    /// the mutex back.
    fn meet(&mut self, task: u32, cpu: u32, barrier: u32) {
        let place = &mut self.arena.objects.barriers[barrier as usize];
        let (mutex, condition) = (place.mutex, place.condition);
        let record = &mut self.arena.tasks[task as usize];
        record.stage = Stage::Retry;
        match record.moved {
            LAST | WAKING => {
                record.moved = LEAVING;
                self.broadcast(task, cpu, condition);
            }
            EARLY => {
                record.moved = WAITING;
                self.arena.objects.conditions[condition as usize].push_back(task, &mut self.arena.links);
                self.unlock(task, cpu, mutex);
            }
            LEAVING => {
                record.done();
                self.unlock(task, cpu, mutex);
            }
            before => {
                let owner = &mut self.arena.objects.mutexes[mutex as usize].owner;
                if *owner != NONE && *owner != task {
                    return;
                }
                *owner = task;
                if before == WOKEN {
                    record.moved = LEAVING;
                    return;
                }
                place.arrived += 1;
                record.moved = EARLY;
                if place.arrived >= place.parties {
                    place.arrived = 0;
                    record.moved = LAST;
                }
            }
        }
    }

    /// A timer is put off by a period, and the task sleeps until it expires unless that has passed.
    pub(crate) fn use_timer(&mut self, task: u32, cpu: u32, timer: u32, period: u64) {
        let due = self.put_off(task, timer, period);
        if self.now < due {
            self.set_timer(task, due - self.now);
            self.switch(cpu, TaskState::Interruptible);
        }
    }

    /// When a timer that is put off by a period expires.
    pub(crate) fn due(&mut self, task: u32, timer: u32, period: u64) -> u64 {
        let program = self.program;
        let begin = program.template(self.arena.identities[task as usize].template).delay.as_nanos();
        let next = self.arena.objects.timer(task, timer, program.timers()[timer as usize].own);
        let origin = if self.arena.tasks[task as usize].background { 0 } else { self.origin };
        next.unwrap_or(origin.saturating_add(begin)).saturating_add(period)
    }

    /// A timer is put off by a period; returns when it expires.
    pub(crate) fn put_off(&mut self, task: u32, timer: u32, period: u64) -> u64 {
        let (due, now) = (self.due(task, timer, period), self.now);
        let rule = &self.program.timers()[timer as usize];
        *self.arena.objects.timer(task, timer, rule.own) = Some(if due <= now && !rule.absolute { now } else { due });
        self.arena.tasks[task as usize].done();
        due
    }
}
