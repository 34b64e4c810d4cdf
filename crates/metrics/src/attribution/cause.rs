//! The causes of waiting, and which rule of a decision each stands for.

use std::fmt;

use schedlab_model::{BalanceRule, NewidleRule, PassedOver, SelectRule, TurnRule, WakeupRule};
use serde::{Serialize, Serializer};

/// Why a task that could run did not, for some time: the rule that kept it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// EEVDF: the slice of the running task is protected (RUN_TO_PARITY). Margin: what was left of it.
    ProtectedSlice,
    /// The slice of the running task, under EEVDF its request, is not over. Margin: what was left of it.
    SliceLeft,
    /// The slice or its protection is over, and the tick that finds so has not come yet.
    AwaitingTick,
    /// CFS: the waking task's lead is within the wakeup granularity. Margin: what it lacked, in virtual time.
    WakeupGranularity,
    /// CFS: the running task has the lesser vruntime. Margin: by how much, in virtual time.
    LaterVruntime,
    /// EEVDF: the running task has the earlier virtual deadline. Margin: by how much, in virtual time.
    LaterDeadline,
    /// EEVDF: the task had more than its share, its lag is negative. Margin: the lag without its sign, in virtual time.
    NotEligible,
    /// The running task is the next or last buddy, or the waiting one yielded.
    Buddy,
    /// EEVDF: a new or delayed task does not preempt.
    NewOrDelayed,
    /// EEVDF: the waker of the next buddy goes on until it sleeps.
    WaitsForWaker,
    /// WAKEUP_PREEMPTION is off.
    FeatureOff,
    /// SCHED_BATCH and SCHED_IDLE tasks do not preempt.
    Batch,
    /// A real-time task of higher priority runs, or any above a fair task. Margin: the difference of priorities, 0 above a fair task.
    RealtimeAbove,
    /// A real-time task of the same priority runs, and its round-robin slice is not over.
    RealtimePeer,
    /// A deadline task runs above a task of another class.
    DeadlineAbove,
    /// The deadline task that runs has the earlier deadline. Margin: by how much.
    EarlierDeadline,
    /// A task of a higher class runs; of which is not known, as it was picked before the events began.
    HigherClass,
    /// A stopper runs.
    Stopper,
    /// A policy in the fair class's place decided.
    Custom,
    /// The quota of the task's group, by its number, is used up.
    Quota(u32),
    /// Its group's quota was refilled, which does not preempt.
    Refilled,
    /// The real-time class has used up `rt_runtime`.
    RealtimeThrottled,
    /// The deadline task has used up its budget.
    DeadlineThrottled,
    /// The fair server runs fair tasks in place of real-time ones.
    FairServer,
    /// Another CPU idled, and CPU selection had not chosen it, by this rule.
    Selection(SelectRule),
    /// Another CPU idled, and as it began to idle it took no task, by this rule. Margin: by how much it expected to idle too short.
    Newidle(NewidleRule),
    /// Another CPU idled and balanced, and took no task, by this rule.
    Balance(BalanceRule),
    /// Another CPU idled and has not balanced since.
    AwaitingBalance,
    /// The CPU is marked for rescheduling and has not switched yet: interrupts off, leaving the kernel, the pass of the scheduler.
    Rescheduling,
    /// The CPU is marked for lazy rescheduling (PREEMPT_LAZY): the running task goes on until it returns to user space, or the next tick.
    LazyRescheduling,
    /// The CPU was idle and is on its way to the switch.
    IdleExit,
    /// No decision with a reason accounts for it.
    Unknown,
}

impl Cause {
    /// Its name in machine-readable output.
    ///
    /// ```
    /// use schedlab_metrics::Cause;
    /// assert_eq!(Cause::ProtectedSlice.key(), "protected_slice");
    /// ```
    pub const fn key(self) -> &'static str {
        match self {
            Self::ProtectedSlice => "protected_slice",
            Self::SliceLeft => "slice_left",
            Self::AwaitingTick => "awaiting_tick",
            Self::WakeupGranularity => "wakeup_granularity",
            Self::LaterVruntime => "later_vruntime",
            Self::LaterDeadline => "later_deadline",
            Self::NotEligible => "not_eligible",
            Self::Buddy => "buddy",
            Self::NewOrDelayed => "new_or_delayed",
            Self::WaitsForWaker => "waits_for_waker",
            Self::FeatureOff => "wakeup_preemption_off",
            Self::Batch => "batch",
            Self::RealtimeAbove => "realtime_above",
            Self::RealtimePeer => "realtime_peer",
            Self::DeadlineAbove => "deadline_above",
            Self::EarlierDeadline => "earlier_deadline",
            Self::HigherClass => "higher_class",
            Self::Stopper => "stopper",
            Self::Custom => "custom",
            Self::Quota(_) => "quota",
            Self::Refilled => "refilled",
            Self::RealtimeThrottled => "realtime_throttled",
            Self::DeadlineThrottled => "deadline_throttled",
            Self::FairServer => "fair_server",
            Self::Selection(_) => "cpu_selection",
            Self::Newidle(_) => "newidle",
            Self::Balance(_) => "balance",
            Self::AwaitingBalance => "awaiting_balance",
            Self::Rescheduling => "rescheduling",
            Self::LazyRescheduling => "lazy_rescheduling",
            Self::IdleExit => "idle_exit",
            Self::Unknown => "unknown",
        }
    }

    /// Whether its margin is in virtual time.
    pub const fn is_virtual(self) -> bool {
        matches!(self, Self::WakeupGranularity | Self::LaterVruntime | Self::LaterDeadline | Self::NotEligible)
    }

    /// Whether the cause is about the task that runs meanwhile.
    pub const fn is_behind(self) -> bool {
        !matches!(
            self,
            Self::Quota(_)
                | Self::RealtimeThrottled
                | Self::DeadlineThrottled
                | Self::IdleExit
                | Self::Rescheduling
                | Self::Unknown
        )
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::ProtectedSlice => "protected slice (RUN_TO_PARITY)",
            Self::SliceLeft => "its slice not over",
            Self::AwaitingTick => "its turn over, no tick yet",
            Self::WakeupGranularity => "lead within the wakeup granularity",
            Self::LaterVruntime => "later vruntime",
            Self::LaterDeadline => "later virtual deadline",
            Self::NotEligible => "not eligible, negative lag",
            Self::Buddy => "buddy before it, or yielded",
            Self::NewOrDelayed => "new and delayed tasks do not preempt",
            Self::WaitsForWaker => "the waker goes on until it sleeps (WF_SYNC)",
            Self::FeatureOff => "WAKEUP_PREEMPTION is off",
            Self::Batch => "SCHED_BATCH and SCHED_IDLE do not preempt",
            Self::RealtimeAbove => "higher real-time priority",
            Self::RealtimePeer => "same real-time priority",
            Self::DeadlineAbove => "deadline class",
            Self::EarlierDeadline => "earlier deadline (SCHED_DEADLINE)",
            Self::HigherClass => "higher class",
            Self::Stopper => "stopper",
            Self::Custom => "custom policy",
            Self::Quota(_) => "quota used up",
            Self::Refilled => "quota refilled, which does not preempt",
            Self::RealtimeThrottled => "rt_runtime used up",
            Self::DeadlineThrottled => "deadline budget used up",
            Self::FairServer => "fair server",
            Self::Selection(rule) => {
                return write!(formatter, "CPU selection left a CPU idle: {}", plain_select(*rule));
            }
            Self::Newidle(rule) => return write!(formatter, "idle CPU took no task: {}", plain_newidle(*rule)),
            Self::Balance(rule) => return write!(formatter, "idle CPU took no task: {rule}"),
            Self::AwaitingBalance => "a CPU idles and has not balanced yet",
            Self::Rescheduling => "rescheduling latency",
            Self::LazyRescheduling => "lazy preemption (PREEMPT_LAZY), until a return to user space or the tick",
            Self::IdleExit => "way out of idle",
            Self::Unknown => "unknown",
        };
        formatter.write_str(text)
    }
}

/// The rule of a selection without how many CPUs were scanned.
fn plain_select(rule: SelectRule) -> String {
    match rule {
        SelectRule::IdleCpu(_) => "idle CPU of the target's LLC".to_owned(),
        SelectRule::NoIdleCpu(_) => "no idle CPU in the target's LLC".to_owned(),
        SelectRule::ScanLimit(_) => "no idle CPU before the scan's limit".to_owned(),
        other => other.to_string(),
    }
}

/// The rule of newidle balancing without its figures.
fn plain_newidle(rule: NewidleRule) -> String {
    match rule {
        NewidleRule::TooShort { .. } => "expected to idle for a shorter time than balancing costs".to_owned(),
        other => other.to_string(),
    }
}

/// A cause with its margin, and for how long the decision that gave it says it lasts, both in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) cause: Cause,
    pub(super) margin: u64,
    /// The rule's own end, from the decision on, where the running task goes on.
    pub(super) lasts: Option<u64>,
}

impl Verdict {
    pub(super) const fn of(cause: Cause) -> Self {
        Self { cause, margin: 0, lasts: None }
    }

    const fn by(cause: Cause, margin: u64) -> Self {
        Self { cause, margin, lasts: None }
    }

    const fn lasting(cause: Cause, left: u64) -> Self {
        Self { cause, margin: left, lasts: Some(left) }
    }

    /// What keeps a candidate that a pick passed over.
    pub(super) const fn of_pick(why: PassedOver) -> Self {
        match why {
            PassedOver::LaterVruntime(by) => Self::by(Cause::LaterVruntime, by.unsigned_abs()),
            PassedOver::Buddy(by) => Self::by(Cause::Buddy, by.unsigned_abs()),
            PassedOver::NotEligible(lag) => Self::by(Cause::NotEligible, lag.unsigned_abs()),
            PassedOver::LaterDeadline(by) => Self::by(Cause::LaterDeadline, by.unsigned_abs()),
            PassedOver::ProtectedSlice(left) => Self::lasting(Cause::ProtectedSlice, left),
            PassedOver::NextBuddy => Self::of(Cause::Buddy),
            // One that sleeps does not wait.
            PassedOver::Delayed => Self::of(Cause::Unknown),
        }
    }

    /// What keeps a task from running where the current one's turn goes on; none where no other task waits.
    pub(super) const fn of_turn(by: TurnRule) -> Option<Self> {
        match by {
            TurnRule::SliceLeft(left) | TurnRule::RequestLeft(left) => Some(Self::lasting(Cause::SliceLeft, left)),
            TurnRule::ProtectedSlice(left) => Some(Self::lasting(Cause::ProtectedSlice, left)),
            _ => None,
        }
    }

    /// What keeps a woken task that does not preempt; none where the classes decide.
    pub(super) const fn of_wakeup(by: WakeupRule) -> Option<Self> {
        Some(match by {
            WakeupRule::Granularity { ahead, granularity } if ahead > 0 => {
                Self::by(Cause::WakeupGranularity, granularity.saturating_sub(ahead as u64))
            }
            WakeupRule::Granularity { ahead, .. } => Self::by(Cause::LaterVruntime, ahead.unsigned_abs()),
            WakeupRule::NotPicked(why) => Self::of_pick(why),
            WakeupRule::FeatureOff => Self::of(Cause::FeatureOff),
            WakeupRule::WokenIsBatch => Self::of(Cause::Batch),
            WakeupRule::WaitsForWaker => Self::of(Cause::WaitsForWaker),
            WakeupRule::NewOrDelayed => Self::of(Cause::NewOrDelayed),
            WakeupRule::Priority(0) => Self::of(Cause::RealtimePeer),
            WakeupRule::Priority(by) => Self::by(Cause::RealtimeAbove, by.unsigned_abs() as u64),
            WakeupRule::Deadline(by) => Self::by(Cause::EarlierDeadline, by.unsigned_abs()),
            WakeupRule::Custom => Self::of(Cause::Custom),
            WakeupRule::AlreadyMarked => Self::of(Cause::Rescheduling),
            _ => return None,
        })
    }

    /// What kept a CPU that began to idle from taking the task.
    pub(super) fn of_newidle(by: NewidleRule) -> Self {
        match by {
            NewidleRule::TooShort { avg_idle, cost } => {
                let plain = NewidleRule::TooShort { avg_idle: 0, cost: 0 };
                Self::by(Cause::Newidle(plain), cost.saturating_sub(avg_idle))
            }
            other => Self::of(Cause::Newidle(other)),
        }
    }

    /// Why a waking task was queued elsewhere.
    pub(super) fn of_selection(by: SelectRule) -> Self {
        match by {
            SelectRule::IdleCpu(looked) => Self::by(Cause::Selection(SelectRule::IdleCpu(0)), looked.into()),
            SelectRule::NoIdleCpu(looked) => Self::by(Cause::Selection(SelectRule::NoIdleCpu(0)), looked.into()),
            SelectRule::ScanLimit(looked) => Self::by(Cause::Selection(SelectRule::ScanLimit(0)), looked.into()),
            other => Self::of(Cause::Selection(other)),
        }
    }
}
