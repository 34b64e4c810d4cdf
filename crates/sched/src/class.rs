//! The seam between core and classes: `struct sched_class`, as an enum with static dispatch.

use schedlab_model::{CpuId, Policy, TaskId, WakeupRule};

use crate::decider::Decider;
use crate::machine::Sched;

/// Scheduling classes in their order: an earlier one's tasks run before any later one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// `dl_sched_class`: DEADLINE.
    Deadline,
    /// `rt_sched_class`: FIFO and RR.
    Rt,
    /// `fair_sched_class`: OTHER, BATCH and IDLE.
    Fair,
    /// A policy of the user's own, in the fair class's place.
    Custom,
    /// `idle_sched_class`: a CPU's idle task.
    Idle,
}

impl Class {
    /// The class that serves `policy`.
    pub const fn of(policy: Policy) -> Self {
        match policy {
            Policy::Deadline { .. } => Self::Deadline,
            Policy::Fifo(_) | Policy::Rr(_) => Self::Rt,
            Policy::Other | Policy::Batch | Policy::Idle => Self::Fair,
        }
    }

    /// Whether core counts the class's tasks in `nr_running` one by one; deadline and real-time queues count their own, as
    /// throttling takes many off at once.
    pub(crate) const fn is_counted_by_core(self) -> bool {
        matches!(self, Self::Fair | Self::Custom)
    }
}

/// `ENQUEUE_*`: why a task is put on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EnqueueFlags(pub u32);

/// `DEQUEUE_*`: why a task is taken off a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DequeueFlags(pub u32);

impl EnqueueFlags {
    /// `ENQUEUE_WAKEUP`.
    pub const WAKEUP: Self = Self(0x01);
    /// `ENQUEUE_RESTORE`: undoes a `DEQUEUE_SAVE`.
    pub const RESTORE: Self = Self(0x02);
    /// `ENQUEUE_MOVE`: its place may change, as with `DEQUEUE_MOVE`.
    pub const MOVE: Self = Self(0x04);
    /// `ENQUEUE_NOCLOCK`: the driver has set the clocks, as always here.
    pub const NOCLOCK: Self = Self(0x08);
    /// `ENQUEUE_HEAD`: in front of its equals (real-time).
    pub const HEAD: Self = Self(0x10);
    /// `ENQUEUE_REPLENISH`: with its runtime given anew (deadline).
    pub const REPLENISH: Self = Self(0x20);
    /// `ENQUEUE_MIGRATED`: from another CPU, by a wake-up.
    pub const MIGRATED: Self = Self(0x40);
    /// `ENQUEUE_INITIAL`: for the first time (EEVDF).
    pub const INITIAL: Self = Self(0x80);
    /// `ENQUEUE_DELAYED`: it was still queued though asleep (EEVDF).
    pub const DELAYED: Self = Self(0x200);
    /// `ENQUEUE_QUEUED`: its queue counts it already as it is placed (7.3).
    pub const QUEUED: Self = Self(0x20_0000);

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Both.
    #[must_use]
    pub const fn and(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

impl DequeueFlags {
    /// `DEQUEUE_SLEEP`.
    pub const SLEEP: Self = Self(0x01);
    /// `DEQUEUE_SAVE`: it comes back at once with its state changed.
    pub const SAVE: Self = Self(0x02);
    /// `DEQUEUE_MOVE`: its place may change.
    pub const MOVE: Self = Self(0x04);
    /// `DEQUEUE_NOCLOCK`.
    pub const NOCLOCK: Self = Self(0x08);
    /// `DEQUEUE_SPECIAL`: it sleeps in a state that may not be delayed (EEVDF).
    pub const SPECIAL: Self = Self(0x10);
    /// `DEQUEUE_MIGRATING`: it goes to another CPU (`TASK_ON_RQ_MIGRATING` before 6.16).
    pub const MIGRATING: Self = Self(0x100);
    /// `DEQUEUE_THROTTLE`: it returns to user space in a throttled group (6.18 on).
    pub const THROTTLE: Self = Self(0x800);
    /// `DEQUEUE_DELAYED`: a delayed entity leaves for good (EEVDF).
    pub const DELAYED: Self = Self(0x200);

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub const fn any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// These without `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// Both.
    #[must_use]
    pub const fn and(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

impl<D: Decider> Sched<D> {
    /// `enqueue_task`.
    pub fn enqueue_task(&mut self, cpu: CpuId, task: TaskId, flags: EnqueueFlags) {
        match self.tasks[task.index()].class {
            Class::Deadline => self.enqueue_task_dl(cpu, task, flags),
            Class::Rt => self.enqueue_task_rt(cpu, task, flags),
            Class::Fair => self.enqueue_task_fair(task, flags),
            Class::Custom => self.enqueue_task_custom(cpu, task, flags),
            Class::Idle => {}
        }
    }

    /// `dequeue_task`: false if the task stays queued for a while (EEVDF's delayed dequeue).
    pub fn dequeue_task(&mut self, cpu: CpuId, task: TaskId, flags: DequeueFlags) -> bool {
        match self.tasks[task.index()].class {
            Class::Deadline => {
                self.dequeue_task_dl(cpu, task);
                true
            }
            Class::Rt => {
                self.dequeue_task_rt(cpu, task);
                true
            }
            Class::Fair => self.dequeue_task_fair(task, flags),
            Class::Custom => {
                self.dequeue_task_custom(cpu, task, flags);
                true
            }
            Class::Idle => true,
        }
    }

    /// `put_prev_task`: the task is switched out.
    pub fn put_prev_task(&mut self, cpu: CpuId, task: TaskId) {
        if task == TaskId::IDLE {
            self.update_curr_idle(cpu);
            if self.rules.avg_idle_at_end_of_idle {
                self.update_avg_idle(cpu);
            }
            return;
        }
        match self.tasks[task.index()].class {
            Class::Deadline => self.put_prev_task_dl(cpu, task),
            Class::Rt => self.put_prev_task_rt(cpu, task),
            Class::Fair => self.put_prev_task_fair(task),
            Class::Custom => self.put_prev_task_custom(cpu, task),
            Class::Idle => {}
        }
    }

    /// `set_next_task`: the task takes the CPU.
    pub fn set_next_task(&mut self, cpu: CpuId, task: TaskId) {
        if task == TaskId::IDLE {
            self.set_next_task_idle(cpu);
            self.update_idle_core(cpu);
            return;
        }
        match self.tasks[task.index()].class {
            Class::Deadline => self.set_next_task_dl(cpu, task),
            Class::Rt => self.set_next_task_rt(cpu, task),
            Class::Fair => self.set_next_task_fair(task, true),
            Class::Custom => self.set_next_task_custom(cpu, task),
            Class::Idle => {}
        }
    }

    /// `set_next_task` of a task that runs and was put off its queue for a change: it was not picked (`first` is false).
    pub(crate) fn set_task_again(&mut self, cpu: CpuId, task: TaskId) {
        match self.tasks[task.index()].class {
            Class::Fair => self.set_next_task_fair(task, false),
            _ => self.set_next_task(cpu, task),
        }
    }

    /// `task_tick` of the running task's class.
    pub fn task_tick(&mut self, cpu: CpuId) {
        match self.curr_class(cpu) {
            Class::Deadline => {
                self.update_curr_dl(cpu);
                self.update_class_load_avg(cpu, Class::Deadline, true);
            }
            Class::Rt => self.task_tick_rt(cpu),
            Class::Fair => self.task_tick_fair(cpu),
            Class::Custom => self.task_tick_custom(cpu),
            Class::Idle => {}
        }
    }

    /// `update_curr` of the running task's class: charges the time since it was last charged.
    pub fn update_curr(&mut self, cpu: CpuId) {
        match self.curr_class(cpu) {
            Class::Deadline => self.update_curr_dl(cpu),
            Class::Rt => self.update_curr_rt(cpu),
            Class::Fair => self.update_curr_fair(cpu),
            Class::Custom => self.update_curr_custom(cpu),
            Class::Idle if self.rules.server_charged_for_idle => self.update_curr_idle(cpu),
            Class::Idle => {}
        }
    }

    /// `wakeup_preempt` (`check_preempt_curr` before 6.7): a task became runnable beside the running one.
    pub fn wakeup_preempt(&mut self, cpu: CpuId, woken: TaskId, fork: bool) {
        if self.preempts(cpu, woken, fork) {
            self.raise_next_class(cpu, self.tasks[woken.index()].class);
        }
    }

    /// The same without what follows for `next_class`: whether the task is of a higher class than the running one and preempts it.
    pub(crate) fn preempts(&mut self, cpu: CpuId, woken: TaskId, fork: bool) -> bool {
        let (running, waking) = (self.curr_class(cpu), self.tasks[woken.index()].class);
        if self.rules.wakes_though_marked && waking == running && self.rqs[cpu.index()].next_class < running {
            // A task is compared with the class that runs next (`next_class`, 7.0 on). Until 7.2 the mark that the higher class left has the
            // same effect.
            self.explain_wakeup(cpu, woken, false, WakeupRule::LowerClass);
            return false;
        }
        if waking == running {
            match running {
                Class::Deadline => self.wakeup_preempt_dl(cpu, woken),
                Class::Rt => self.wakeup_preempt_rt(cpu, woken),
                Class::Fair if self.rules.eevdf => self.wakeup_preempt_fair(cpu, woken, fork),
                Class::Fair => self.check_preempt_wakeup(cpu, woken, fork),
                Class::Custom => self.wakeup_preempt_custom(cpu, woken),
                Class::Idle => {}
            }
            return false;
        }
        let preempts = waking < running && !self.is_stopper(cpu, self.rqs[cpu.index()].curr);
        let by = if preempts { WakeupRule::HigherClass } else { WakeupRule::LowerClass };
        self.explain_wakeup(cpu, woken, preempts, by);
        if preempts {
            // 2.6.24 charges the fair task on the way; later kernels do so when they schedule. Either way at this clock.
            self.resched_curr(cpu);
        }
        preempts
    }

    /// A task of `class` woke on `cpu` (`wakeup_preempt`), or the running one rose to it (`sched_change_end`). A waiting task that changes its class
    /// (`switched_to_rt`, `switched_to_dl`) and a timer that makes a throttled task runnable ask for rescheduling alone.
    pub(crate) fn raise_next_class(&mut self, cpu: CpuId, class: Class) {
        let next = &mut self.rqs[cpu.index()].next_class;
        *next = class.min(*next);
    }
}
