//! The deadline class: earliest deadline first, each entity within a constant bandwidth server (`kernel/sched/deadline.c`).
//!
//! An entity has `runtime` left until its `deadline`. When it has used that up it is throttled until its next period, when a timer
//! gives it its runtime anew and moves its deadline by a period; what it overran by, up to a tick, is taken off then.

use std::collections::BTreeSet;

use schedlab_model::{CpuId, Policy, TaskId, Time, WakeupRule};

use crate::class::{Class, EnqueueFlags};
use crate::decider::Decider;
use crate::fair_server::Server;
use crate::machine::Sched;
use crate::timers::Timer;

/// A deadline entity's place in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DlEntityId(pub u32);

impl DlEntityId {
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// `DL_SCALE`: runtimes are compared in units of 2¹⁰ ns, so that products fit in 64 bits.
const DL_SCALE: u32 = 10;

/// `BW_SHIFT`: a bandwidth of 1 is 2²⁰.
pub(crate) const BW_SHIFT: u32 = 20;

/// `to_ratio`: `runtime / period` as a bandwidth.
pub(crate) const fn to_ratio(period: u64, runtime: u64) -> u64 {
    match (runtime << BW_SHIFT).checked_div(period) {
        Some(ratio) => ratio,
        None => 0,
    }
}

/// `struct sched_dl_entity`. Times are nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct DlEntity {
    /// Whose it is; [`TaskId::IDLE`] if it is a CPU's server.
    pub(crate) task: TaskId,
    /// `dl_server`: what it is beyond that if it is a server.
    pub(crate) server: Option<Server>,
    /// `dl_runtime`, `dl_deadline`, `dl_period`: what it was promised.
    pub(crate) dl_runtime: u64,
    pub(crate) dl_deadline: u64,
    pub(crate) dl_period: u64,
    /// `dl_bw`: runtime / period.
    pub(crate) dl_bw: u64,
    /// `dl_density`: runtime / deadline.
    pub(crate) dl_density: u64,
    /// What is left of its runtime; negative after an overrun.
    pub(crate) runtime: i64,
    /// Its scheduling deadline; 0 before the first.
    pub(crate) deadline: u64,
    pub(crate) throttled: bool,
    pub(crate) yielded: bool,
    /// `on_dl_rq`, and its place among equal deadlines.
    pub(crate) queued: Option<u64>,
    /// When its timer expires, if it is armed.
    pub(crate) timer: Option<u64>,
    /// When its `inactive_timer` expires, if it is armed, and the bandwidth that this frees.
    pub(crate) inactive: Option<(u64, u64)>,
    /// Times that it used up its runtime.
    pub(crate) overruns: u64,
}

impl DlEntity {
    /// `__setparam_dl`, `dl_server_apply_params`: a reservation of which nothing was used yet.
    pub(crate) fn new(task: TaskId, server: Option<Server>, [runtime, deadline, period]: [u64; 3]) -> Self {
        Self {
            task,
            server,
            dl_runtime: runtime,
            dl_deadline: deadline,
            dl_period: period,
            dl_bw: to_ratio(period, runtime),
            dl_density: to_ratio(deadline, runtime),
            runtime: 0,
            deadline: 0,
            throttled: false,
            yielded: false,
            queued: None,
            timer: None,
            inactive: None,
            overruns: 0,
        }
    }

    /// `dl_defer_armed`: it waits until it has to run if it is to run at all.
    pub(crate) fn defer_armed(&self) -> bool {
        self.server.is_some_and(|server| server.defer_armed)
    }

    /// Whether it is a server that waits, when it gets a runtime, until it has to run.
    fn defers(&self) -> bool {
        self.server.is_some_and(|server| !server.defer_running)
    }

    pub(crate) fn state(&self) -> DlState {
        let Self { runtime, throttled, overruns, .. } = *self;
        DlState { runtime, deadline: Time::from_nanos(self.deadline), throttled, overruns }
    }

    pub(crate) fn set_defer_armed(&mut self, armed: bool) {
        if let Some(server) = &mut self.server {
            server.defer_armed = armed;
        }
    }
}

/// `struct dl_rq`: entities that may run, by deadline, equal ones in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct DlRq {
    root: BTreeSet<(u64, u64, DlEntityId)>,
    sequence: u64,
}

impl DlRq {
    /// `pick_next_dl_entity`.
    #[inline]
    pub(crate) fn first(&self) -> Option<DlEntityId> {
        self.root.first().map(|(_, _, entity)| *entity)
    }

    /// Entities from the earliest deadline on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = DlEntityId> {
        self.root.iter().map(|(_, _, entity)| *entity)
    }
}

/// Where a deadline task stands, as `/proc/PID/sched` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlState {
    /// `dl.runtime`: nanoseconds left of its runtime; negative after an overrun.
    pub runtime: i64,
    /// `dl.deadline`: its scheduling deadline.
    pub deadline: Time,
    /// `dl_throttled`: it waits for its next period.
    pub throttled: bool,
    /// How often it used up its runtime (each time a task with `SCHED_FLAG_DL_OVERRUN` would be told so).
    pub overruns: u64,
}

impl<D: Decider> Sched<D> {
    /// Where a task of the deadline class stands; none for other tasks.
    pub fn dl_state(&self, task: TaskId) -> Option<DlState> {
        let record = &self.tasks[task.index()];
        record.dl.filter(|_| record.policy.is_deadline()).map(|id| self.dl_entities[id.index()].state())
    }

    /// The task's deadline entity; only tasks of the class are asked for it.
    pub(crate) fn dl_of(&self, task: TaskId) -> DlEntityId {
        self.tasks[task.index()].dl.unwrap_or(DlEntityId(u32::MAX))
    }

    pub(crate) fn dl_cpu(&self, id: DlEntityId) -> CpuId {
        let entity = &self.dl_entities[id.index()];
        entity.server.map_or_else(|| self.tasks[entity.task.index()].cpu, |server| server.cpu)
    }

    /// `__setparam_dl`: a task's reservation, with nothing of it used yet.
    pub(crate) fn setparam_dl(&mut self, task: TaskId, policy: Policy) {
        let Policy::Deadline { runtime, deadline, period } = policy else { return };
        let fresh = DlEntity::new(task, None, [runtime, deadline, period].map(Time::as_nanos));
        if let Some(id) = self.tasks[task.index()].dl {
            let entity = &mut self.dl_entities[id.index()];
            (entity.dl_runtime, entity.dl_deadline) = (fresh.dl_runtime, fresh.dl_deadline);
            (entity.dl_period, entity.dl_bw, entity.dl_density) = (fresh.dl_period, fresh.dl_bw, fresh.dl_density);
            return;
        }
        self.tasks[task.index()].dl = Some(DlEntityId(self.dl_entities.len() as u32));
        self.dl_entities.push(fresh);
    }

    /// `replenish_dl_new_period`: a full runtime and a deadline from now on.
    pub(crate) fn replenish_dl_new_period(&mut self, id: DlEntityId, now: u64) {
        let entity = &mut self.dl_entities[id.index()];
        entity.deadline = now + entity.dl_deadline;
        entity.runtime = entity.dl_runtime as i64;
        if entity.defers() {
            entity.throttled = true;
            entity.set_defer_armed(true);
        }
    }

    /// `replenish_dl_entity`: the deadline moves by periods until there is runtime left.
    pub(crate) fn replenish_dl_entity(&mut self, id: DlEntityId, now: u64) {
        if self.dl_entities[id.index()].defer_armed() && self.dl_entity_overflow(id, now) {
            // It was deferred for so long that it cannot have its runtime by its deadline: both count from now.
            let entity = &mut self.dl_entities[id.index()];
            (entity.deadline, entity.runtime) = (now + entity.dl_deadline, entity.dl_runtime as i64);
        }
        let entity = &mut self.dl_entities[id.index()];
        if entity.yielded && entity.runtime > 0 {
            entity.runtime = 0;
        }
        while entity.runtime <= 0 {
            entity.deadline += entity.dl_period;
            entity.runtime += entity.dl_runtime as i64;
        }
        if entity.deadline < now {
            self.replenish_dl_new_period(id, now);
        }
        let entity = &mut self.dl_entities[id.index()];
        (entity.yielded, entity.throttled) = (false, false);
        if entity.defer_armed() {
            entity.set_defer_armed(false);
        } else if entity.defers() && (now as i64) < entity.deadline as i64 - entity.runtime {
            entity.throttled = true;
            entity.set_defer_armed(true);
            if !self.start_dl_timer(id, now) {
                self.run_undeferred(id);
            }
        }
    }

    /// `dl_entity_overflow`: whether what is left of its runtime until its deadline is more than its bandwidth.
    pub(crate) fn dl_entity_overflow(&self, id: DlEntityId, now: u64) -> bool {
        let entity = &self.dl_entities[id.index()];
        let left = (entity.dl_deadline >> DL_SCALE).wrapping_mul((entity.runtime >> DL_SCALE) as u64);
        let right = (entity.deadline.wrapping_sub(now) >> DL_SCALE).wrapping_mul(entity.dl_runtime >> DL_SCALE);
        (right.wrapping_sub(left) as i64) < 0
    }

    /// `update_dl_entity`: the wake-up rule. A task that cannot go on with what it had left begins a new period; one whose deadline
    /// is shorter than its period, and not over yet, only has its runtime cut (`update_dl_revised_wakeup`).
    fn update_dl_entity(&mut self, id: DlEntityId, now: u64) {
        let entity = &self.dl_entities[id.index()];
        let over = entity.deadline < now;
        if !over && !self.dl_entity_overflow(id, now) {
            return;
        }
        if !over && entity.dl_deadline != entity.dl_period {
            self.revise_runtime(id, now);
        } else {
            self.replenish_dl_new_period(id, now);
        }
    }

    /// `update_dl_revised_wakeup`: the runtime becomes what its density gives until its deadline, which stays.
    pub(crate) fn revise_runtime(&mut self, id: DlEntityId, now: u64) {
        let entity = &mut self.dl_entities[id.index()];
        let laxity = entity.deadline - now;
        entity.runtime = (entity.dl_density.wrapping_mul(laxity) >> BW_SHIFT) as i64;
    }

    /// `start_dl_timer`: arms the replenishment timer, for a deferred server that of its 0-laxity time; false if it is past.
    pub(crate) fn start_dl_timer(&mut self, id: DlEntityId, now: u64) -> bool {
        let entity = &mut self.dl_entities[id.index()];
        let expires = if entity.defer_armed() {
            entity.deadline.wrapping_sub(entity.runtime as u64)
        } else {
            entity.deadline - entity.dl_deadline + entity.dl_period
        };
        // The kernel compares whole microseconds.
        if expires + 1000 <= now {
            return false;
        }
        if entity.timer.is_none() {
            let expires = expires.max(now);
            entity.timer = Some(expires);
            self.timers.arm(expires, Timer::Deadline(id));
        }
        true
    }

    /// `dl_check_constrained_dl`: a task whose deadline is shorter than its period, and over, does not run before the next period.
    fn dl_check_constrained_dl(&mut self, id: DlEntityId, now: u64) {
        let entity = &self.dl_entities[id.index()];
        let next_period = entity.deadline.wrapping_sub(entity.dl_deadline).wrapping_add(entity.dl_period);
        if entity.deadline < now && now < next_period && self.start_dl_timer(id, now) {
            let entity = &mut self.dl_entities[id.index()];
            entity.throttled = true;
            entity.runtime = entity.runtime.min(0);
        }
    }

    /// `enqueue_task_dl`, with [`EnqueueFlags::REPLENISH`] from the timer.
    pub(crate) fn enqueue_task_dl(&mut self, cpu: CpuId, task: TaskId, flags: EnqueueFlags) {
        let (id, now) = (self.dl_of(task), self.rqs[cpu.index()].clock);
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].on_rq = true;
        let entity = &self.dl_entities[id.index()];
        let fresh = entity.deadline == 0;
        if !entity.throttled && entity.dl_deadline != entity.dl_period && !fresh {
            self.dl_check_constrained_dl(id, now);
        }
        let replenish = flags.has(EnqueueFlags::REPLENISH);
        let entity = &self.dl_entities[id.index()];
        if entity.throttled && !replenish {
            return;
        }
        if replenish {
            self.replenish_dl_entity(id, now);
        } else if fresh || (flags.has(EnqueueFlags::RESTORE) && entity.deadline < now) {
            // setup_new_dl_entity
            self.replenish_dl_new_period(id, now);
        } else if flags.has(EnqueueFlags::WAKEUP) {
            self.update_dl_entity(id, now);
        }
        self.enqueue_dl_entity(cpu, id);
    }

    /// `__enqueue_dl_entity` with `inc_dl_tasks`, which does not count a server.
    pub(crate) fn enqueue_dl_entity(&mut self, cpu: CpuId, id: DlEntityId) {
        let rq = &mut self.rqs[cpu.index()];
        let entity = &mut self.dl_entities[id.index()];
        debug_assert!(entity.queued.is_none(), "a deadline entity is queued once");
        rq.dl.sequence += 1;
        entity.queued = Some(rq.dl.sequence);
        rq.dl.root.insert((entity.deadline, rq.dl.sequence, id));
        if entity.server.is_none() {
            self.add_nr_running(cpu, 1);
            self.idle_cpus.remove(cpu.index());
        }
    }

    /// `__dequeue_dl_entity` with `dec_dl_tasks`.
    pub(crate) fn dequeue_dl_entity(&mut self, cpu: CpuId, id: DlEntityId) {
        let entity = &mut self.dl_entities[id.index()];
        if let Some(sequence) = entity.queued.take() {
            let rq = &mut self.rqs[cpu.index()];
            rq.dl.root.remove(&(entity.deadline, sequence, id));
            rq.nr_running -= u32::from(entity.server.is_none());
        }
    }

    pub(crate) fn dequeue_task_dl(&mut self, cpu: CpuId, task: TaskId) {
        if self.rqs[cpu.index()].curr == task {
            self.update_curr_dl(cpu);
        }
        let id = self.dl_of(task);
        self.dequeue_dl_entity(cpu, id);
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].on_rq = false;
    }

    /// `task_non_contending` of a task that ends: its bandwidth will be free.
    pub(crate) fn dead_task_dl(&mut self, cpu: CpuId, task: TaskId) {
        self.release_dl_bandwidth(self.dl_of(task), self.rqs[cpu.index()].clock);
    }

    /// `update_curr_dl`: charges the running task's runtime, and throttles it once that is used up or given up (`sched_yield`).
    pub(crate) fn update_curr_dl(&mut self, cpu: CpuId) {
        let rq = &self.rqs[cpu.index()];
        let (curr, now) = (rq.curr, rq.clock_task);
        let (se, id) = (self.tasks[curr.index()].se, self.dl_of(curr));
        if self.dl_entities[id.index()].queued.is_none() {
            return;
        }
        let se = &mut self.entities[se.index()];
        let delta = (now.wrapping_sub(se.exec_start) as i64).max(0);
        if delta > 0 {
            se.sum_exec_runtime += delta as u64;
            se.exec_start = now;
        } else if !self.dl_entities[id.index()].yielded {
            return;
        }
        self.update_curr_dl_se(cpu, id, delta);
        self.charge_rt_for_dl(cpu, delta as u64);
    }

    /// What an entity's running for `delta` does to it.
    fn update_curr_dl_se(&mut self, cpu: CpuId, id: DlEntityId, delta: i64) {
        let entity = &mut self.dl_entities[id.index()];
        entity.runtime -= delta;
        let exceeded = entity.runtime <= 0;
        if !exceeded && !entity.yielded {
            return;
        }
        entity.throttled = true;
        entity.overruns += u64::from(exceeded);
        let task = entity.task;
        self.dequeue_dl_entity(cpu, id);
        if !self.start_dl_timer(id, self.rqs[cpu.index()].clock) {
            self.enqueue_task_dl(cpu, task, EnqueueFlags::REPLENISH);
        }
        if self.rqs[cpu.index()].dl.first() != Some(id) {
            self.resched_curr(cpu);
        }
    }

    /// `dl_task_timer`: the task's next period begins.
    pub(crate) fn dl_timer(&mut self, id: DlEntityId) {
        let entity = &mut self.dl_entities[id.index()];
        let expired = entity.timer.take();
        if entity.server.is_some() {
            self.dl_server_timer(id, expired);
            return;
        }
        let task = entity.task;
        if !entity.throttled || !self.tasks[task.index()].policy.is_deadline() {
            return;
        }
        let record = &self.tasks[task.index()];
        let (cpu, se) = (record.cpu, record.se);
        if !self.entities[se.index()].on_rq {
            // It went to sleep as it was throttled: waking queues it.
            self.replenish_dl_entity(id, self.rqs[cpu.index()].clock);
            return;
        }
        self.enqueue_task_dl(cpu, task, EnqueueFlags::REPLENISH);
        self.preempt_for_dl(cpu, task);
        self.push_dl_tasks(cpu);
    }

    /// `switched_from_dl`: a task leaves the class. What is left of its runtime and its deadline stay for it to come back to.
    pub(crate) fn switched_from_dl(&mut self, task: TaskId, now: u64) {
        let id = self.dl_of(task);
        self.release_dl_bandwidth(id, now);
    }

    /// `hrtimer_try_to_cancel` of the replenishment timer.
    pub(crate) fn cancel_dl_timer(&mut self, id: DlEntityId) {
        if let Some(expires) = self.dl_entities[id.index()].timer.take() {
            self.timers.cancel(expires, Timer::Deadline(id));
        }
    }

    /// `pick_task_dl`: the head of the deadline queue, or for a server the task that it serves. A server without tasks stops.
    #[inline]
    pub(crate) fn pick_task_dl(&mut self, cpu: CpuId) -> Option<TaskId> {
        loop {
            let id = self.rqs[cpu.index()].dl.first()?;
            let entity = &self.dl_entities[id.index()];
            if entity.server.is_none() {
                return Some(entity.task);
            }
            if let Some(task) = self.pick_task_fair(cpu) {
                return Some(task);
            }
            self.dl_server_stop(cpu);
        }
    }

    pub(crate) fn put_prev_task_dl(&mut self, cpu: CpuId, task: TaskId) {
        if self.rqs[cpu.index()].curr == task {
            self.update_curr_dl(cpu);
        }
        self.update_class_load_avg(cpu, Class::Deadline, true);
    }

    pub(crate) fn set_next_task_dl(&mut self, cpu: CpuId, task: TaskId) {
        if self.curr_class(cpu) != Class::Deadline {
            self.update_class_load_avg(cpu, Class::Deadline, false);
        }
        let now = self.rqs[cpu.index()].clock_task;
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].exec_start = now;
    }

    /// `wakeup_preempt_dl`: an earlier deadline preempts.
    pub(crate) fn wakeup_preempt_dl(&mut self, cpu: CpuId, woken: TaskId) {
        let curr = self.rqs[cpu.index()].curr;
        let deadline = |task: TaskId| self.dl_entities[self.dl_of(task).index()].deadline;
        let earlier = deadline(curr).wrapping_sub(deadline(woken)) as i64;
        if deadline(woken) < deadline(curr) {
            self.resched_curr(cpu);
        }
        self.explain_wakeup(cpu, woken, self.rqs[cpu.index()].need_resched, WakeupRule::Deadline(earlier));
    }

    /// `prio_changed_dl`: the reservation of a queued task changed.
    pub(crate) fn prio_changed_dl(&mut self, cpu: CpuId, task: TaskId, running: bool) {
        let (id, first) = (self.dl_of(task), self.rqs[cpu.index()].dl.first());
        if running && first != Some(id) {
            self.resched_curr(cpu);
        } else if !running {
            self.preempt_for_dl(cpu, task);
        }
    }

    /// What `dl_task_timer` and `prio_changed_dl` do for a queued task: preempt a task of another class, or one with a later deadline. Unlike a
    /// wake-up this leaves `next_class`.
    fn preempt_for_dl(&mut self, cpu: CpuId, task: TaskId) {
        if self.curr_class(cpu) == Class::Deadline {
            return self.wakeup_preempt_dl(cpu, task);
        }
        self.explain_wakeup(cpu, task, true, WakeupRule::HigherClass);
        self.resched_curr(cpu);
    }

    /// `yield_task_dl`: gives up what is left of its runtime, until the next period.
    pub(crate) fn yield_task_dl(&mut self, cpu: CpuId) {
        let id = self.dl_of(self.rqs[cpu.index()].curr);
        self.dl_entities[id.index()].yielded = true;
        self.update_curr_dl(cpu);
    }

    /// Coming ticks that do not use up the running task's runtime.
    pub(crate) fn inactive_ticks_dl(&self, cpu: CpuId, next_tick: u64) -> u64 {
        let curr = self.rqs[cpu.index()].curr;
        let entity = &self.dl_entities[self.dl_of(curr).index()];
        if entity.queued.is_none() || entity.yielded {
            return 0;
        }
        // The k-th tick, from 0, leaves runtime − first − k · tick, and acts unless that is positive.
        let first = next_tick.saturating_sub(self.entity(curr).exec_start);
        let left = entity.runtime - first as i64;
        let ticks = if left <= 0 { 0 } else { (left as u64).div_ceil(self.rules.tick) };
        ticks.min(self.inactive_ticks_rt_account(cpu, first))
    }
}
