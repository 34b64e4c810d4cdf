//! A class of the user's own, in the place of the fair class.
//!
//! It has the kernel's interface, `struct sched_class`, and a view of the tasks. All that core.c does stays: when to schedule, wake-ups,
//! the CPU on which a task is queued, the classes above. As under sched_ext, every task that would be fair is the policy's.

use std::fmt::Debug;

use schedlab_model::{CpuId, Policy, TaskId, TaskState, Time, WakeupRule};

use crate::balance::state::Balance;
use crate::class::{Class, DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::{Entity, TaskStruct};
use crate::machine::Sched;

/// What a policy may look at when it is asked: one CPU's clock and running task, and what is known of every task.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    cpu: CpuId,
    now: u64,
    tick: u64,
    load_shift: u32,
    curr: TaskId,
    tasks: &'a [TaskStruct],
    entities: &'a [Entity],
}

/// A policy: what [`crate::Class::Custom`] does, for all CPUs. `docs/guides/write-a-policy.md` writes one.
///
/// A task is the policy's from [`CustomClass::enqueue_task`] to [`CustomClass::dequeue_task`], on the CPU of the view that comes with
/// them, and also while it runs. A policy keeps what it needs of that, as `struct rt_rq` keeps its lists.
pub trait CustomClass: Debug + Send {
    /// The task became runnable on the view's CPU.
    fn enqueue_task(&mut self, view: &View<'_>, task: TaskId, flags: EnqueueFlags);

    /// The task sleeps, has ended, or goes to another CPU or class.
    fn dequeue_task(&mut self, view: &View<'_>, task: TaskId, flags: DequeueFlags);

    /// The task to run next on the view's CPU: one of its tasks, the current one included. None only if it has no task.
    fn pick_task(&mut self, view: &View<'_>) -> Option<TaskId>;

    /// A timer interrupt while `task` runs, which was charged for the time until now: whether it must go.
    fn task_tick(&mut self, view: &View<'_>, task: TaskId) -> bool;

    /// The tasks of `cpu` in the order in which it would run them: an idle CPU takes the first that may run there and does not run.
    fn runnable(&self, cpu: CpuId) -> Vec<TaskId>;

    /// Whether CPUs take tasks that wait on others, by [`CustomClass::take`].
    fn takes_from_others(&self) -> bool {
        false
    }

    /// The view's CPU is about to pick, and no higher class has a runnable task: returns a task waiting on another CPU to move here first.
    /// The current task is charged; `goes_on` says whether it stays runnable.
    fn take(&mut self, _view: &View<'_>, _goes_on: bool) -> Option<TaskId> {
        None
    }

    /// A copy, for a copy of the whole scheduler.
    fn boxed_clone(&self) -> Box<dyn CustomClass>;

    /// The task takes the CPU.
    fn set_next_task(&mut self, _view: &View<'_>, _task: TaskId) {}

    /// The task is switched out. It may still be runnable.
    fn put_prev_task(&mut self, _view: &View<'_>, _task: TaskId) {}

    /// `woken` was queued beside the running task of the same class, which was charged until now: whether that one must go.
    fn wakeup_preempt(&mut self, _view: &View<'_>, _woken: TaskId) -> bool {
        false
    }

    /// The running task gives way; then the CPU picks.
    fn yield_task(&mut self, _view: &View<'_>, _task: TaskId) {}

    /// Whether it can go on no more. A simulation stops at the next tick then.
    fn failed(&self) -> bool {
        false
    }

    /// How many of the coming ticks, the first at `next_tick`, would neither answer true nor change anything of the policy's own,
    /// at least. A simulation need not stop for these.
    fn inactive_ticks(&self, _view: &View<'_>, _next_tick: Time) -> u64 {
        0
    }
}

impl View<'_> {
    /// The CPU.
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Its task clock.
    pub const fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// From one tick to the next.
    pub const fn tick(&self) -> Time {
        Time::from_nanos(self.tick)
    }

    /// The current task; none if the CPU idles.
    pub fn curr(&self) -> Option<TaskId> {
        (self.curr != TaskId::IDLE).then_some(self.curr)
    }

    fn entity(&self, task: TaskId) -> &Entity {
        &self.entities[self.tasks[task.index()].se.index()]
    }

    /// The task's policy: OTHER, BATCH or IDLE.
    pub fn policy(&self, task: TaskId) -> Policy {
        self.tasks[task.index()].policy
    }

    /// Its nice level, −20 to 19.
    pub fn nice(&self, task: TaskId) -> i8 {
        self.tasks[task.index()].nice
    }

    /// Its weight, 1024 at nice 0.
    pub fn weight(&self, task: TaskId) -> u64 {
        self.entity(task).weight >> self.load_shift
    }

    /// CPU time charged to it so far.
    pub fn runtime(&self, task: TaskId) -> Time {
        Time::from_nanos(self.entity(task).sum_exec_runtime)
    }

    /// Of that, since it last took the CPU.
    pub fn ran(&self, task: TaskId) -> Time {
        let entity = self.entity(task);
        Time::from_nanos(entity.sum_exec_runtime - entity.prev_sum_exec_runtime)
    }

    /// Whether it may run on `cpu`.
    pub fn may_run_on(&self, task: TaskId, cpu: CpuId) -> bool {
        self.tasks[task.index()].may_run_on(cpu)
    }
}

/// A policy, and how many runnable tasks it has on each CPU.
#[derive(Debug)]
pub(crate) struct Custom {
    class: Box<dyn CustomClass>,
    nr_running: Vec<u32>,
}

impl Clone for Custom {
    fn clone(&self) -> Self {
        Self { class: self.class.boxed_clone(), nr_running: self.nr_running.clone() }
    }
}

impl<D: Decider> Sched<D> {
    /// Puts a policy in the fair class's place, before there are tasks.
    ///
    /// # Panics
    /// If there are tasks already.
    pub fn set_custom_class(&mut self, class: Box<dyn CustomClass>) {
        // Its tasks have no load that the kernel's balancing could go by.
        self.balance = Balance::default();
        self.tracks_load = false;
        assert!(self.tasks.is_empty(), "a policy is chosen before there are tasks");
        self.custom = Some(Custom { class, nr_running: vec![0; self.rqs.len()] });
    }

    /// The class that serves `policy` here.
    pub(crate) const fn class_of(&self, policy: Policy) -> Class {
        match Class::of(policy) {
            Class::Fair if self.custom.is_some() => Class::Custom,
            class => class,
        }
    }

    /// Asks the policy, if there is one, with a view of `cpu`.
    fn ask<T>(&mut self, cpu: CpuId, question: impl FnOnce(&mut Custom, &View<'_>) -> T) -> Option<T> {
        let rq = &self.rqs[cpu.index()];
        let view = View {
            cpu,
            now: rq.clock_task,
            tick: self.rules.tick,
            load_shift: self.rules.load_shift(),
            curr: rq.curr,
            tasks: &self.tasks,
            entities: &self.entities,
        };
        self.custom.as_mut().map(|custom| question(custom, &view))
    }

    pub(crate) fn enqueue_task_custom(&mut self, cpu: CpuId, task: TaskId, flags: EnqueueFlags) {
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].on_rq = true;
        self.ask(cpu, |custom, view| {
            custom.nr_running[cpu.index()] += 1;
            custom.class.enqueue_task(view, task, flags);
        });
    }

    pub(crate) fn dequeue_task_custom(&mut self, cpu: CpuId, task: TaskId, flags: DequeueFlags) {
        if self.rqs[cpu.index()].curr == task {
            self.update_curr_custom(cpu);
        }
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].on_rq = false;
        self.ask(cpu, |custom, view| {
            custom.nr_running[cpu.index()] -= 1;
            custom.class.dequeue_task(view, task, flags);
        });
    }

    /// Charges the running task until now.
    pub(crate) fn update_curr_custom(&mut self, cpu: CpuId) {
        let rq = &self.rqs[cpu.index()];
        let se = self.tasks[rq.curr.index()].se;
        let entity = &mut self.entities[se.index()];
        entity.sum_exec_runtime += rq.clock_task.saturating_sub(entity.exec_start);
        entity.exec_start = rq.clock_task;
    }

    /// The task that the policy picks, if it has any on the CPU.
    ///
    /// # Panics
    /// If the policy picks no task for a CPU that has some, or a task of another CPU: both are errors of the policy.
    pub(crate) fn pick_task_custom(&mut self, cpu: CpuId) -> Option<TaskId> {
        if self.custom.as_ref()?.nr_running[cpu.index()] == 0 {
            return None;
        }
        if self.curr_class(cpu) == Class::Custom {
            self.update_curr_custom(cpu);
        }
        let picked = self.ask(cpu, |custom, view| custom.class.pick_task(view)).flatten();
        let own = |task: &TaskId| {
            let record = self.tasks.get(task.index());
            record.is_some_and(|record| {
                record.class == Class::Custom && record.cpu == cpu && self.entities[record.se.index()].on_rq
            })
        };
        assert!(
            picked.as_ref().is_some_and(own),
            "the policy picked {picked:?} on {cpu:?}, which is no runnable task there"
        );
        picked
    }

    pub(crate) fn put_prev_task_custom(&mut self, cpu: CpuId, task: TaskId) {
        if self.rqs[cpu.index()].curr == task {
            self.update_curr_custom(cpu);
        }
        self.ask(cpu, |custom, view| custom.class.put_prev_task(view, task));
    }

    pub(crate) fn set_next_task_custom(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.rqs[cpu.index()].clock_task;
        let se = self.tasks[task.index()].se;
        let entity = &mut self.entities[se.index()];
        entity.exec_start = now;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        self.ask(cpu, |custom, view| custom.class.set_next_task(view, task));
    }

    pub(crate) fn task_tick_custom(&mut self, cpu: CpuId) {
        self.update_curr_custom(cpu);
        let curr = self.rqs[cpu.index()].curr;
        if self.ask(cpu, |custom, view| custom.class.task_tick(view, curr)) == Some(true) {
            self.resched_curr(cpu);
        }
    }

    pub(crate) fn wakeup_preempt_custom(&mut self, cpu: CpuId, woken: TaskId) {
        self.update_curr_custom(cpu);
        let preempts = self.ask(cpu, |custom, view| custom.class.wakeup_preempt(view, woken)) == Some(true);
        self.explain_wakeup(cpu, woken, preempts, WakeupRule::Custom);
        if preempts {
            self.resched_curr(cpu);
        }
    }

    pub(crate) fn yield_task_custom(&mut self, cpu: CpuId) {
        self.update_curr_custom(cpu);
        let curr = self.rqs[cpu.index()].curr;
        self.ask(cpu, |custom, view| custom.class.yield_task(view, curr));
    }

    pub(crate) fn inactive_ticks_custom(&mut self, cpu: CpuId, next_tick: Time) -> u64 {
        self.update_curr_custom(cpu);
        self.ask(cpu, |custom, view| custom.class.inactive_ticks(view, next_tick)).unwrap_or(0)
    }

    /// Whether there is a policy whose CPUs take tasks from others as they pick.
    #[inline]
    pub fn takes_from_others(&self) -> bool {
        self.custom.as_ref().is_some_and(|custom| custom.class.takes_from_others())
    }

    /// Before [`Sched::schedule`]: the task that waits elsewhere and that the policy wants on `cpu`, to be brought there by
    /// [`Sched::move_queued_task`]. None while a higher class has a task for the CPU.
    pub fn wanted(&mut self, cpu: CpuId, state: TaskState) -> Option<TaskId> {
        let rq = &self.rqs[cpu.index()];
        if rq.dl.iter().next().is_some()
            || rq.rt.pick().is_some()
            || rq.stop.is_some_and(|stop| self.entity(stop).on_rq)
        {
            return None;
        }
        if self.curr_class(cpu) == Class::Custom {
            self.update_curr_custom(cpu);
        }
        self.ask(cpu, |custom, view| custom.class.take(view, state == TaskState::Running)).flatten()
    }

    /// Whether there is a policy that can go on no more ([`CustomClass::failed`]).
    pub fn custom_failed(&self) -> bool {
        self.custom.as_ref().is_some_and(|custom| custom.class.failed())
    }

    /// The policy's tasks of `cpu`, in its order.
    pub(crate) fn runnable_custom(&self, cpu: CpuId) -> Vec<TaskId> {
        self.custom.as_ref().map(|custom| custom.class.runnable(cpu)).unwrap_or_default()
    }
}
