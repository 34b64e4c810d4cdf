//! `struct rq`: one CPU's run queue.

use schedlab_model::{TaskId, Time};

use crate::balance::state::{CpuState, TaskList};
use crate::class::Class;
use crate::deadline::DlRq;
use crate::entity::CfsRqId;
use crate::hrtick::Hrtick;
use crate::rt::RtRq;

/// A run queue's clocks, given by the driver once a critical section; `sched` never derives them from event times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// `rq->clock`: time that passed.
    pub clock: Time,
    /// `rq->clock_task`: of that, what tasks got (interrupts and stolen time left out where the kernel measures them).
    pub clock_task: Time,
    /// `rq->clock_pelt`: the task clock scaled by capacity and frequency.
    pub clock_pelt: Time,
}

impl Clocks {
    /// All three at `now`: no interrupt time, no scaling.
    pub const fn all(now: Time) -> Self {
        Self { clock: now, clock_task: now, clock_pelt: now }
    }
}

/// One CPU's run queue: what each sequence touches is in its first cache line.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Rq {
    pub(crate) clock: u64,
    pub(crate) clock_task: u64,
    pub(crate) clock_pelt: u64,
    /// `idle->se.exec_start`: the task clock when idle time was last charged.
    pub(crate) idle_exec_start: u64,
    /// The current task; [`TaskId::IDLE`] if the CPU idles.
    pub(crate) curr: TaskId,
    /// Runnable tasks, the running one included.
    pub(crate) nr_running: u32,
    /// The root fair queue.
    pub(crate) cfs: CfsRqId,
    /// `TIF_NEED_RESCHED` of the current task.
    pub(crate) need_resched: bool,
    /// Of that, only `TIF_NEED_RESCHED_LAZY` is set.
    pub(crate) lazily: bool,
    /// `next_class` (7.0 on): the class of the task that was picked, or the highest one that a task woke in or changed to since.
    pub(crate) next_class: Class,
    /// `cfs_tasks`: its queued fair tasks, where load is balanced.
    pub(crate) cfs_tasks: TaskList,
    /// What balancing remembers of the CPU.
    pub(crate) balance: CpuState,
    /// `stop`: the task that runs before all others, where a recording tells of it.
    pub(crate) stop: Option<TaskId>,
    /// `hrtick_timer`: the high-resolution tick.
    pub(crate) hrtick: Hrtick,
    /// The deadline queue.
    pub(crate) dl: DlRq,
    /// The real-time queue.
    pub(crate) rt: RtRq,
}

impl Rq {
    /// [`Sched::set_clocks`] with all clocks at `now`, and the PELT clock ahead of it.
    ///
    /// [`Sched::set_clocks`]: crate::machine::Sched::set_clocks
    #[inline(always)]
    pub(crate) fn set_clocks_at(&mut self, now: u64, pelt_origin: u64) {
        (self.clock, self.clock_task, self.clock_pelt) = (now, now, now + pelt_origin);
    }

    pub(crate) fn new(cfs: CfsRqId) -> Self {
        Self {
            clock: 0,
            clock_task: 0,
            clock_pelt: 0,
            curr: TaskId::IDLE,
            nr_running: 0,
            need_resched: false,
            lazily: false,
            next_class: Class::Idle,
            idle_exec_start: 0,
            cfs_tasks: TaskList::EMPTY,
            balance: CpuState::new(0),
            stop: None,
            hrtick: Hrtick::default(),
            cfs,
            dl: DlRq::default(),
            rt: RtRq::default(),
        }
    }
}
