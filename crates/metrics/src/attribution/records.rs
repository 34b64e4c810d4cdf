//! What is known of each task and each CPU while events and decisions are followed.

use schedlab_model::{Candidate, CpuId, PassedOver, PickClass, SelectRule, TaskId, Time};

use super::Cause;
use super::cause::Verdict;
use super::waits::OpenWait;

/// A task's scheduling class, as far as decisions told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Unknown,
    Fair,
    Realtime(u8),
    Deadline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Unknown,
    Asleep,
    Waiting,
    Running,
}

/// What a task waits for that is to come next.
pub(super) fn switching(running: TaskId, lazily: bool) -> Verdict {
    Verdict::of(match (running, lazily) {
        (TaskId::IDLE, _) => Cause::IdleExit,
        (_, true) => Cause::LazyRescheduling,
        (_, false) => Cause::Rescheduling,
    })
}

/// What keeps a waiting task now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) verdict: Verdict,
    pub(super) behind: TaskId,
    /// When it was decided.
    pub(super) at: Time,
}

impl Held {
    pub(super) const UNKNOWN: Self =
        Self { verdict: Verdict::of(Cause::Unknown), behind: TaskId::IDLE, at: Time::ZERO };
}

#[derive(Debug, Clone)]
pub(super) struct TaskRecord {
    pub(super) phase: Phase,
    pub(super) cpu: CpuId,
    pub(super) class: Class,
    /// The CPUs it may run on; all if none is named.
    pub(super) allowed: Vec<u32>,
    /// How its CPU was chosen when it was last woken.
    pub(super) selected: Option<SelectRule>,
    /// What a wakeup decided before the task's wake-up event.
    pub(super) woken: Option<(CpuId, Held)>,
    /// What was decided last of the task while it waited on that CPU, where it may be moved away and back at the same instant.
    pub(super) back: Option<(CpuId, Held)>,
    pub(super) held: Held,
    /// What keeps it from a CPU that idles.
    pub(super) elsewhere: Option<Verdict>,
    pub(super) wait: Option<OpenWait>,
}

impl TaskRecord {
    pub(super) const NEW: Self = Self {
        phase: Phase::Unknown,
        cpu: CpuId(0),
        class: Class::Unknown,
        allowed: Vec::new(),
        selected: None,
        woken: None,
        back: None,
        held: Held::UNKNOWN,
        elsewhere: None,
        wait: None,
    };
}

/// A pick as the waiting tasks see it.
#[derive(Debug, Clone)]
pub(super) struct Picked {
    pub(super) task: TaskId,
    pub(super) class: PickClass,
    /// Each candidate that was passed over, on every level.
    pub(super) others: Vec<(Candidate, PassedOver)>,
    /// The class alone is known, not what the pick was between.
    pub(super) bare: bool,
}

#[derive(Debug, Clone)]
pub(super) struct CpuRecord {
    pub(super) current: TaskId,
    pub(super) waiting: Vec<TaskId>,
    /// Since when it is marked for rescheduling, and whether lazily.
    pub(super) marked: Option<(Time, bool)>,
    pub(super) pick: Option<Picked>,
    /// Groups whose quota is used up here.
    pub(super) throttled: Vec<u32>,
    /// What it last decided about taking a task from another CPU.
    pub(super) idled: Option<(Time, Verdict)>,
    /// Whether that is that it takes none at all: it is off line.
    pub(super) offline: bool,
}

impl CpuRecord {
    pub(super) const IDLE: Self = Self {
        current: TaskId::IDLE,
        waiting: Vec::new(),
        marked: None,
        pick: None,
        throttled: Vec::new(),
        idled: None,
        offline: false,
    };

    pub(super) fn is_free(&self) -> bool {
        self.current == TaskId::IDLE && self.waiting.is_empty() && !self.offline
    }
}
