//! What one line of a recording says.

use schedlab_model::{TaskState, Time};

use crate::fields::{Fields, Pid};
use crate::probe::Probe;
use crate::snap::TaskSnap;

/// One recorded event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The line it stands on, from 1.
    pub line: u64,
    /// The name of the task that ran when it was recorded, as that column has it (trace-cmd cuts it to 8 characters).
    pub name: Box<str>,
    /// That task's pid.
    pub pid: Pid,
    /// The CPU it was recorded on.
    pub cpu: u32,
    /// The context it was recorded in.
    pub flags: Flags,
    /// The trace clock's time.
    pub time: Time,
    /// The run queue's clocks, where a probe shows them.
    pub clocks: Option<QueueClocks>,
    /// Which entity and queue a probe concerns, where it says so.
    pub entity: Option<EntityRef>,
    /// What happened.
    pub kind: RecordKind,
    /// The event's name, as recorded.
    pub event: Box<str>,
    /// Its fields, as recorded: for those that `kind` leaves out.
    pub text: Box<str>,
}

impl Record {
    /// A field of the text by its key; `None` if it is not there or of another form. Addresses and flags may be hexadecimal.
    ///
    /// ```
    /// use schedlab_trace::Reader;
    /// let text = " a-7 0d..2. 1.000000001: k_thr: cfs=0x1f tg=0x20 rr=-5 ct=9\n";
    /// let record = Reader::new(text.as_bytes()).next().unwrap()?;
    /// assert_eq!((record.number("cfs"), record.signed("rr"), record.number("none")), (Some(31), Some(-5), None));
    /// # Ok::<(), schedlab_trace::TraceError>(())
    /// ```
    pub fn number(&self, key: &str) -> Option<u64> {
        let word = Fields::new(&self.text).find(key)?;
        match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        }
    }

    /// A number that may be negative, as above.
    pub fn signed(&self, key: &str) -> Option<i64> {
        Fields::new(&self.text).find(key)?.parse().ok()
    }

    /// A word, as above.
    pub fn word(&self, key: &str) -> Option<&str> {
        Fields::new(&self.text).find(key)
    }
}

/// A run queue's clocks, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueClocks {
    /// `rq->clock`, where it is shown.
    pub clock: Option<u64>,
    /// `rq->clock_task`.
    pub task: u64,
}

/// Addresses that tell entities and fair queues apart; nothing else follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntityRef {
    /// The entity.
    pub entity: u64,
    /// The queue it owns; 0 if it is a task.
    pub owned: u64,
    /// The queue it is on.
    pub queue: u64,
}

/// ftrace's `common_flags`, as the latency columns print them.
///
/// Source: `kernel/trace/trace_output.c`, `trace_print_lat_fmt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Interrupts were off.
    pub interrupts_off: bool,
    /// `TIF_NEED_RESCHED` was set: the running task is about to be rescheduled.
    pub need_resched: bool,
    /// `TIF_NEED_RESCHED_LAZY` was set: it is to be rescheduled when it next returns to user space, or by the next tick (6.13 on).
    pub need_resched_lazy: bool,
    /// What the CPU was doing.
    pub context: Context,
    /// Depth of disabled preemption, at most 15.
    pub preempt_depth: u8,
    /// Whether the recording shows these flags at all; perf, Perfetto and `trace-cmd report` without `-l` do not.
    pub shown: bool,
}

impl Flags {
    /// Whether the running task is about to be rescheduled, soon or at once.
    pub const fn wants_resched(self) -> bool {
        self.need_resched || self.need_resched_lazy
    }
}

/// What a CPU was doing when an event was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Context {
    /// Running a task.
    #[default]
    Task,
    /// In a soft interrupt.
    SoftInterrupt,
    /// In a hardware interrupt.
    HardInterrupt,
    /// In a hardware interrupt that came during a soft one.
    HardInSoftInterrupt,
    /// In a non-maskable interrupt.
    NonMaskable,
}

/// A task as scheduler events name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRef {
    /// Its name.
    pub name: Box<str>,
    /// Its pid.
    pub pid: Pid,
    /// The kernel's priority: 120 + nice for the fair class, 99 − priority for real-time, 0 and −1 above; 120 where
    /// the event does not tell.
    pub priority: i32,
}

/// The state in which a task is switched out, as far as the scheduler cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordState {
    /// `R` or `R+`: still runnable.
    Running,
    /// Any sleep, by its first letter: `S`, `D`, `W`, `I`, `T`, `t`, `P`.
    Sleeping(char),
    /// `X` or `Z`: ended.
    Dead(char),
}

impl RecordState {
    /// The letter that ftrace prints.
    pub const fn letter(self) -> char {
        match self {
            Self::Running => 'R',
            Self::Sleeping(letter) | Self::Dead(letter) => letter,
        }
    }

    /// What it means to the rules. A stopped, traced or parked task is in a special state; a frozen one is, too, but is printed as `D`.
    ///
    /// Source: `include/linux/sched.h`, `is_special_task_state`.
    pub const fn task_state(self) -> TaskState {
        match self {
            Self::Running => TaskState::Running,
            Self::Sleeping('T' | 't' | 'P') => TaskState::Stopped,
            Self::Sleeping('D') => TaskState::Uninterruptible,
            Self::Sleeping(_) => TaskState::Interruptible,
            Self::Dead(_) => TaskState::Dead,
        }
    }
}

/// What was recorded: a tracepoint by its kernel name, or one of the `k_*` probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordKind {
    /// `sched_switch`.
    Switch {
        /// The task switched out.
        previous: TaskRef,
        /// The state of the task switched out.
        state: RecordState,
        /// The task switched in.
        next: TaskRef,
    },
    /// `sched_waking`: `task` is about to be woken.
    Waking {
        /// The task.
        task: TaskRef,
        /// The CPU it slept on, or will be queued on in writers' output.
        target: u32,
    },
    /// `sched_wakeup`: `task` is queued on `target`.
    Wakeup {
        /// The task.
        task: TaskRef,
        /// The CPU.
        target: u32,
    },
    /// `sched_wakeup_new`: the forked `task` is queued on `target` for the first time.
    WakeupNew {
        /// The task.
        task: TaskRef,
        /// The CPU.
        target: u32,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The task.
        task: TaskRef,
        /// From where.
        from: u32,
        /// To where.
        to: u32,
    },
    /// `sched_stat_runtime`: `update_curr` found that the task ran for `runtime` since it was last asked.
    StatRuntime {
        /// The task's name.
        name: Box<str>,
        /// Its pid.
        pid: Pid,
        /// Nanoseconds it ran.
        runtime: u64,
        /// Its vruntime afterwards; gone from newer kernels.
        vruntime: Option<u64>,
    },
    /// `sched_process_fork`.
    Fork {
        /// The parent's pid.
        parent: Pid,
        /// The child's name.
        child_name: Box<str>,
        /// The child's pid.
        child: Pid,
    },
    /// `sched_process_exit`.
    Exit {
        /// The ending task.
        task: TaskRef,
    },
    /// `hrtimer_expire_entry`.
    TimerEntry {
        /// The expiring timer's function.
        function: Box<str>,
    },
    /// `hrtimer_expire_exit`.
    TimerExit,
    /// `sys_enter_setpriority`: the running task asks for a nice level.
    SetPriority {
        /// 0: a process, 1: a group, 2: a user.
        which: u32,
        /// Of which one; 0 for the caller's own.
        who: u32,
        /// The nice level asked for.
        nice: i32,
    },
    /// A kprobe on a scheduler function.
    Probe(Probe),
    /// `k_snap`: a task's state before the workload began.
    Snap(Box<TaskSnap>),
    /// Any other event, with its text.
    Other {
        /// Its name.
        event: Box<str>,
        /// The rest of the line.
        text: Box<str>,
    },
}
