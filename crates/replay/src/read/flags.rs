//! The bits of `ENQUEUE_*`, `DEQUEUE_*` and `WF_*`, which moved between releases (`kernel/sched/sched.h`).

use schedlab_model::{RuleSet, TaskState};
use schedlab_trace::{Context, Flags, RecordState};

/// The flag bits that change what a record means. Those of enqueueing and dequeueing have the same values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlagBits {
    /// `ENQUEUE_DELAYED`, `DEQUEUE_DELAYED`.
    pub(crate) delayed: u32,
    /// `WF_FORK`.
    pub(crate) fork: u32,
    /// `TIF_NEED_RESCHED`, the number of its bit (x86).
    pub(crate) need_resched: u32,
    /// Whether the fair class asks lazily: by another bit, which ticks and returns to user space heed (PREEMPT_LAZY).
    pub(crate) lazy: bool,
    /// Whether a wake-up is looked at though the CPU is marked for rescheduling (7.3, under PREEMPT_SHORT).
    pub(crate) wakes_though_marked: bool,
    /// Whether a wake-up charges the current task before it is compared with the woken one (7.3).
    pub(crate) wakeups_charge: bool,
    /// Whether a child is placed as it is forked, with its parent charged (CFS).
    pub(crate) places_forks: bool,
}

/// `DEQUEUE_SLEEP` and `ENQUEUE_WAKEUP`.
pub(crate) const SLEEP: u32 = 0x1;
/// `DEQUEUE_SAVE` and `ENQUEUE_RESTORE`.
pub(crate) const SAVE: u32 = 0x2;
/// `DEQUEUE_MOVE` and `ENQUEUE_MOVE`.
pub(crate) const MOVE: u32 = 0x4;
/// `ENQUEUE_REPLENISH`, before 6.19 and since; of a deadline task neither bit means anything else.
pub(crate) const REPLENISH: u32 = 0x20 | 0x2_0000;

/// `DEQUEUE_THROTTLE`, of 6.18 and of 6.19 on: neither bit means anything else in dequeueing.
pub(crate) const THROTTLE: u32 = 0x800 | 0x2_0000;

/// Whether a record is of a soft interrupt, or of an interrupt that came within one.
pub(crate) const fn is_soft(context: Context) -> bool {
    matches!(context, Context::SoftInterrupt | Context::HardInSoftInterrupt)
}

/// Whether what a task recorded in its own context may be done by `do_sched_yield`, not by a schedule that it was preempted into: the
/// former holds the queue's lock alone (where preemption is counted), the latter disables preemption too.
pub(crate) const fn may_yield(flags: Flags) -> bool {
    matches!(flags.context, Context::Task)
        && match flags.preempt_depth {
            0 => !flags.need_resched,
            depth => depth == 1,
        }
}

/// In which state a task sleeps that was dequeued for it, by its switch if that is known. Where that says `R`, a signal or wake-up came
/// meanwhile.
pub(crate) fn sleeping_state(switch: Option<RecordState>) -> TaskState {
    match switch.map(RecordState::task_state) {
        None | Some(TaskState::Running) => TaskState::Interruptible,
        Some(state) => state,
    }
}

impl FlagBits {
    pub(crate) fn of(set: &RuleSet) -> Self {
        Self {
            delayed: if set.delayed_flag_0x20 { 0x20 } else { 0x200 },
            fork: if set.wake_flags_select { 0x4 } else { 0x2 },
            need_resched: if set.need_resched_bit_4 { 4 } else { 3 },
            lazy: set.lazy,
            wakes_though_marked: set.wakes_though_marked,
            wakeups_charge: set.wakeups_limit_protection,
            places_forks: !set.eevdf,
        }
    }
}
