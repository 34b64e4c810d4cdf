//! What only a driver that follows a recording needs: state to start from, operations whose occasion is recorded rather than found by
//! the rules, and state to compare.

use schedlab_model::{Attributes, CpuId, TaskId};

use crate::class::{Class, DequeueFlags};
use crate::deadline::{DlEntityId, DlState};
use crate::decider::Decider;
use crate::entity::{CfsRqId, Entity, EntityId};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::group::GroupId;
use crate::machine::Sched;
use crate::timers::Timer;

/// Where a CPU's real-time bandwidth stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtState {
    /// `rt_time`: nanoseconds used in this period and not paid back.
    pub time: u64,
    /// `rt_throttled`: its tasks wait for the next period.
    pub throttled: bool,
}

impl<D: Decider> Sched<D> {
    /// A round-robin task's slice when the recording begins, in ticks.
    pub fn assume_time_slice(&mut self, task: TaskId, ticks: u32) {
        self.tasks[task.index()].time_slice = ticks;
    }

    /// Where the CPU's fair server stands when the recording first tells of it. One that is started waits for its 0-laxity time,
    /// unless its tasks starved lately: then it is `running`, `throttled` or not.
    pub fn assume_fair_server(&mut self, cpu: CpuId, state: DlState, started: bool, running: bool) {
        if !self.rules.has_fair_server() {
            return;
        }
        self.dl_server_stop(cpu);
        let (runtime, deadline) = (state.runtime, state.deadline.as_nanos());
        let entity = &mut self.dl_entities[cpu.index()];
        (entity.runtime, entity.deadline) = (runtime, deadline);
        if started && running {
            self.assume_running_server(cpu, state.throttled);
        } else if started {
            let timer = deadline.wrapping_sub(runtime as u64);
            (entity.throttled, entity.timer) = (true, Some(timer));
            if let Some(server) = &mut entity.server {
                server.start_deferred();
            }
            self.timers.arm(timer, Timer::Deadline(DlEntityId(cpu.0)));
        }
    }

    /// What real-time tasks used of their bandwidth when the recording first tells.
    pub fn assume_rt_time(&mut self, cpu: CpuId, time: u64) {
        self.rqs[cpu.index()].rt.budget.time = time;
    }

    /// The real-time tasks of `cpu`, without the one that `leaves`, are throttled if `next` runs there and is of a lower class, and are not
    /// if it is one of them. Kernels without real-time throttling have none.
    pub fn assume_rt_throttled(&mut self, cpu: CpuId, next: TaskId, leaves: Option<TaskId>) {
        let is_rt = |task: TaskId| self.tasks[task.index()].class == Class::Rt && !self.is_stopper(cpu, task);
        let lower = next == TaskId::IDLE || self.tasks[next.index()].class > Class::Rt;
        let leaving = u32::from(leaves.is_some_and(is_rt));
        let known = self.rules.rt_throttling && (lower || is_rt(next));
        let rq = &mut self.rqs[cpu.index()];
        if !known || rq.rt.nr_running <= leaving || rq.rt.queued != lower {
            return;
        }
        (rq.rt.queued, rq.rt.budget.throttled) = (!lower, lower);
        let tasks = rq.rt.nr_running;
        rq.nr_running = if lower { rq.nr_running - tasks } else { rq.nr_running + tasks };
    }

    /// `__sched_setscheduler` or `set_user_nice` from where they take the task off its queue on, with the flags they do it with:
    /// these follow from what was asked for, be it what the task had already.
    pub fn change_attributes(&mut self, task: TaskId, attributes: &Attributes, flags: DequeueFlags) {
        self.change(task, attributes, flags);
    }

    /// Runs a timer of the rules now, due or not: the recording tells that it expired.
    pub fn fire_timer(&mut self, timer: Timer, now: u64) {
        if let Some(expires) = self.armed(timer) {
            self.timers.cancel(expires, timer);
        }
        match timer {
            Timer::RtPeriod => {
                self.expire_rt_period(now);
                self.sched_rt_period_timer(now);
            }
            Timer::Deadline(entity) => self.dl_timer(entity),
            Timer::Inactive(entity) => self.inactive_task_timer(entity),
        }
    }

    /// When a timer expires, if it is armed.
    pub fn armed(&self, timer: Timer) -> Option<u64> {
        self.timers.find(timer)
    }

    /// The timer that gives a deadline task its runtime anew; none for other tasks.
    pub fn dl_timer_of(&self, task: TaskId) -> Option<Timer> {
        self.tasks[task.index()].dl.map(Timer::Deadline)
    }

    /// The timer that frees a deadline task's bandwidth after it left the class; none for tasks that never were in it.
    pub fn inactive_timer_of(&self, task: TaskId) -> Option<Timer> {
        self.tasks[task.index()].dl.map(Timer::Inactive)
    }

    /// The timer of a CPU's fair server; none where there is none.
    pub fn fair_server_timer(&self, cpu: CpuId) -> Option<Timer> {
        self.rules.has_fair_server().then_some(Timer::Deadline(DlEntityId(cpu.0)))
    }

    /// Where a CPU's fair server stands; none where there is none.
    pub fn fair_server_state(&self, cpu: CpuId) -> Option<DlState> {
        self.rules.has_fair_server().then(|| self.dl_entities[cpu.index()].state())
    }

    /// Where a CPU's real-time bandwidth stands; none where real-time tasks are not limited.
    pub fn rt_state(&self, cpu: CpuId) -> Option<RtState> {
        let budget = &self.rqs[cpu.index()].rt.budget;
        self.rules.rt_runtime().map(|_| RtState { time: budget.time, throttled: budget.throttled })
    }

    /// Ticks left of a round-robin task's slice.
    pub fn time_slice(&self, task: TaskId) -> u32 {
        self.tasks[task.index()].time_slice
    }

    /// The root queue of a CPU.
    pub fn root_queue(&self, cpu: CpuId) -> CfsRqId {
        self.rqs[cpu.index()].cfs
    }

    /// A fair queue by its id.
    pub fn queue(&self, queue: CfsRqId) -> &CfsRq {
        &self.cfs_rqs[queue.index()]
    }

    /// The same, to set the state that a recording starts from.
    pub fn queue_mut(&mut self, queue: CfsRqId) -> &mut CfsRq {
        &mut self.cfs_rqs[queue.index()]
    }

    /// An entity by its id.
    pub fn entity_at(&self, entity: EntityId) -> &Entity {
        &self.entities[entity.index()]
    }

    /// The same, to set the state that a recording starts from.
    pub fn entity_at_mut(&mut self, entity: EntityId) -> &mut Entity {
        &mut self.entities[entity.index()]
    }

    /// The queue of a group on a CPU and the entity that stands for it, none for the root's; made if need be.
    pub fn ids_of_group(&mut self, group: GroupId, cpu: CpuId) -> (CfsRqId, Option<EntityId>) {
        self.group_on(group, cpu)
    }

    /// The period timer of a group's bandwidth (`slack` false), or its slack timer, expires now. Which queues get runtime: they are let go
    /// after that ([`Sched::let_go`]), for which the kernel reads its clock again.
    pub fn fire_bandwidth_timer(&mut self, group: GroupId, slack: bool, now: u64) -> Vec<CfsRqId> {
        self.expire_bandwidth_timer(group, slack, now)
    }

    /// Lets go the queues that got runtime.
    pub fn let_go(&mut self, refilled: Vec<CfsRqId>) {
        self.unthrottle(refilled);
    }

    /// What is left in the pool of a group's bandwidth, in nanoseconds.
    pub fn bandwidth_pool(&self, group: GroupId) -> u64 {
        self.groups[group.index()].bandwidth.runtime()
    }

    /// [`Sched::sched_fork`] of a parent that set `SCHED_FLAG_RESET_ON_FORK`: the child has ordinary attributes before it is placed, and a fair
    /// one is placed whatever its parent's class.
    pub fn sched_fork_reset(&mut self, parent: TaskId, attributes: &Attributes) -> TaskId {
        let child = self.inherit(parent, false);
        self.reset_on_fork(child, attributes);
        self.task_fork(child);
        child
    }

    /// Sets a child back that was not placed yet; where it may run stays.
    pub fn reset_on_fork(&mut self, child: TaskId, attributes: &Attributes) {
        let affinity = self.attributes(child).affinity;
        self.apply_attributes(child, &Attributes { affinity, ..attributes.clone() });
    }

    /// `wait_task_inactive` of a delayed task (6.12 on): it is dequeued at once, as the caller that waits for its sleep would wait long.
    /// False if the task is not delayed.
    pub fn wait_task_inactive(&mut self, task: TaskId) -> bool {
        let delayed = self.entity(task).sched_delayed;
        if delayed {
            self.dequeue_delayed_by_call(self.task_cpu(task), task);
        }
        delayed
    }

    /// Takes a queued task off for a moment as its affinity changes, or its group stays what it was: nothing else changes.
    pub fn requeue(&mut self, task: TaskId, flags: DequeueFlags) {
        let attributes = self.attributes(task);
        self.change(task, &attributes, flags);
    }
}
