//! Entities and tasks, in arenas indexed by their ids.

use schedlab_model::{CpuId, Policy, TaskId};

use crate::balance::state::TaskMemory;
use crate::bitmap::Bitmap;
use crate::class::Class;
use crate::deadline::DlEntityId;
use crate::fair::group::GroupId;
use crate::fair::load::EntityLoad;
use crate::fair::weight::Weight;

/// Virtual time: wraps, and is compared by signed difference, as the kernel does. Not the time type on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Vruntime(pub u64);

impl Vruntime {
    /// How far this lies after `other` (negative: before).
    #[inline]
    pub const fn since(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// Whether this lies before `other` (`entity_before`).
    #[inline]
    pub const fn before(self, other: Self) -> bool {
        self.since(other) < 0
    }

    /// Moved forward by `delta`, wrapping.
    #[inline]
    #[must_use]
    pub const fn plus(self, delta: u64) -> Self {
        Self(self.0.wrapping_add(delta))
    }

    /// Moved backward by `delta`, wrapping.
    #[inline]
    #[must_use]
    pub const fn minus(self, delta: u64) -> Self {
        Self(self.0.wrapping_sub(delta))
    }

    /// The later of two (`max_vruntime`).
    #[inline]
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if other.since(self) > 0 { other } else { self }
    }

    /// The earlier of two (`min_vruntime`).
    #[inline]
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if other.since(self) < 0 { other } else { self }
    }
}

/// An entity's place in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntityId(pub u32);

/// A fair queue's place in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CfsRqId(pub u32);

impl EntityId {
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl CfsRqId {
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// `struct sched_entity`: what a fair queue orders, a task or a group. It has three cache lines: what each charge, wake-up and switch
/// touches on a CPU with a single task; other fields; averages.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Entity {
    /// `load`: what it weighs in its timeline. With a single timeline (7.3) `h_load`: a task's part of the CPU through all levels.
    pub load: Weight,
    /// `vruntime`.
    pub vruntime: Vruntime,
    /// `exec_start`: the task clock when run time was last charged.
    pub exec_start: u64,
    /// `sum_exec_runtime`: all CPU time, in nanoseconds.
    pub sum_exec_runtime: u64,
    /// `prev_sum_exec_runtime`: the same when it was last picked.
    pub prev_sum_exec_runtime: u64,
    /// `deadline`: the virtual deadline (EEVDF).
    pub deadline: Vruntime,
    /// `on_rq`: queued, or running and runnable.
    pub on_rq: bool,
    /// `sched_delayed`: asleep but kept queued until its lag is used up (EEVDF).
    pub sched_delayed: bool,
    /// `custom_slice`: the slice was asked for.
    pub custom_slice: bool,
    /// `rel_deadline`: the deadline is kept relative to `vruntime` while it moves.
    pub rel_deadline: bool,
    /// `depth`: groups above it.
    pub depth: u16,
    /// `slice`: the slice in nanoseconds (EEVDF).
    pub slice: u64,
    /// Order of arrival among equal keys of the timeline.
    pub(crate) sequence: u64,
    /// `vlag`: the lag kept while not queued, in virtual time (EEVDF).
    pub vlag: i64,
    /// Up to where its slice is protected while it runs (EEVDF). 6.12 keeps the deadline of its pick here (in `vlag`) and
    /// protects while that is its deadline still; 6.18 (`vprot`) protects until its virtual time gets there.
    pub vprot: Vruntime,
    /// The task it is, if it is one.
    pub task: TaskId,
    /// `cfs_rq`: the queue it is, or will be, on.
    pub cfs_rq: CfsRqId,
    /// `parent`: the group's entity, none at the top.
    pub parent: Option<EntityId>,
    /// `my_q`: the queue it owns, if it is a group.
    pub my_q: Option<CfsRqId>,
    /// `load.weight`: what it adds to the load of the queue of its level, the same as what it weighs in its timeline but for tasks with a
    /// single timeline (7.3).
    pub weight: u64,
    /// `avg`: its averages of load, where they are kept.
    pub(crate) pelt: EntityLoad,
}

impl Entity {
    /// An entity that was never queued, at the top, of weight `load` and with so many nanoseconds of `slice`.
    pub(crate) fn new(load: Weight, slice: u64, cfs_rq: CfsRqId, task: TaskId) -> Self {
        Self {
            load,
            vruntime: Vruntime::default(),
            exec_start: 0,
            sum_exec_runtime: 0,
            prev_sum_exec_runtime: 0,
            deadline: Vruntime::default(),
            vlag: 0,
            vprot: Vruntime::default(),
            slice,
            sequence: 0,
            parent: None,
            cfs_rq,
            my_q: None,
            task,
            depth: 0,
            on_rq: false,
            sched_delayed: false,
            custom_slice: false,
            rel_deadline: false,
            weight: load.scaled,
            pelt: EntityLoad::default(),
        }
    }

    /// Gives it a weight, in its timeline and on its level.
    pub(crate) fn set_load(&mut self, load: Weight) {
        (self.load, self.weight) = (load, load.scaled);
    }
}

/// Where a task stands in its life, beyond its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Forked, not yet woken (`TASK_NEW`).
    New,
    /// Runnable (`TASK_RUNNING`, `on_rq`).
    Runnable,
    /// Asleep.
    Asleep,
    /// Ended.
    Dead,
}

/// `struct task_struct`, as far as scheduling goes: what each wake-up touches is in its first cache line.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct TaskStruct {
    /// `se.group_node`: the tasks before and after it among its CPU's queued fair tasks.
    pub(crate) beside: [TaskId; 2],
    /// The CPU whose queue it is, or was last, on.
    pub cpu: CpuId,
    pub(crate) life: Life,
    /// Its class.
    pub class: Class,
    /// Made by another task (`sched_fork`), not there from the start.
    pub(crate) forked: bool,
    /// `static_prio` as a nice level.
    pub nice: i8,
    /// What balancing remembers of it, where that is modelled.
    pub(crate) balance: TaskMemory,
    /// Its entity.
    pub se: EntityId,
    /// The group it is in.
    pub(crate) group: GroupId,
    /// `policy`.
    pub policy: Policy,
    /// `dl`: its deadline entity, once it had one.
    pub(crate) dl: Option<DlEntityId>,
    /// `sched_throttle_work` is pending: it goes as it returns to user space (6.18 on).
    pub(crate) throttle_work: bool,
    /// `throttled`: it is in its queue's limbo (6.18 on).
    pub(crate) throttled: bool,
    /// `rt.time_slice`: ticks left of a round-robin slice.
    pub(crate) time_slice: u32,
    /// `cpus_ptr`: where it may run; everywhere if absent.
    pub(crate) affinity: Option<Box<Bitmap>>,
}

impl TaskStruct {
    /// Whether the task may run on `cpu`.
    #[inline]
    pub fn may_run_on(&self, cpu: CpuId) -> bool {
        self.affinity.as_ref().is_none_or(|allowed| allowed.contains(cpu.index()))
    }

    /// Whether it may run on one CPU alone (`nr_cpus_allowed`), of a machine of several.
    pub fn is_bound(&self) -> bool {
        self.affinity.as_ref().is_some_and(|allowed| allowed.count() == 1)
    }

    /// `task_has_idle_policy`.
    #[inline]
    pub(crate) const fn has_idle_policy(&self) -> bool {
        matches!(self.policy, Policy::Idle)
    }

    /// `prio`: −1 deadline, 0 (highest) to 98 real-time, 100 to 139 by nice level.
    #[inline]
    pub(crate) fn prio(&self) -> i16 {
        match self.policy {
            Policy::Deadline { .. } => -1,
            Policy::Fifo(priority) | Policy::Rr(priority) => 99 - i16::from(priority),
            _ => 120 + i16::from(self.nice),
        }
    }

    /// Priority within the real-time class, 1 (lowest) to 99; 0 for other classes.
    #[inline]
    pub(crate) const fn rt_priority(&self) -> u8 {
        match self.policy {
            Policy::Fifo(priority) | Policy::Rr(priority) => priority,
            _ => 0,
        }
    }
}
