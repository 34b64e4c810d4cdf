//! Waits and the spans that they are cut into.

use schedlab_model::{CpuId, TaskId, Time};
use serde::Serialize;

use super::Cause;

/// What a wait began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A wake-up from sleep.
    Woken,
    /// A fork.
    New,
    /// A preemption, or a yield.
    Preempted,
}

/// A part of a wait with one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Why the task waited.
    pub cause: Cause,
    /// The task that ran meanwhile on its CPU; the idle task where none did.
    pub behind: TaskId,
    /// For how long.
    pub length: Time,
    /// By how much the rule decided, in nanoseconds unless its cause says otherwise: of the first decision.
    pub margin: u64,
}

/// One wait: from the moment a task could run until it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The task.
    pub task: TaskId,
    /// The CPU on which the wait ended.
    pub cpu: CpuId,
    /// What it began with.
    pub kind: WaitKind,
    /// When it began.
    pub began: Time,
    /// When it ended.
    pub ended: Time,
    /// Whether the task ran then; else the run was over.
    pub ran: bool,
    /// Where its spans are among all.
    first: usize,
    spans: usize,
}

impl Wait {
    /// From beginning to end: the sum of its spans.
    pub const fn length(&self) -> Time {
        self.ended.saturating_sub(self.began)
    }
}

/// Every wait of a run, each cut into spans: those that ended first come first.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    waits: Vec<Wait>,
    spans: Vec<Span>,
}

/// A wait that goes on.
#[derive(Debug, Clone)]
pub(super) struct OpenWait {
    pub(super) kind: WaitKind,
    pub(super) began: Time,
    /// Since when its last decision stands.
    pub(super) since: Time,
    pub(super) spans: Vec<Span>,
}

impl OpenWait {
    pub(super) const fn new(kind: WaitKind, now: Time) -> Self {
        Self { kind, began: now, since: now, spans: Vec::new() }
    }

    /// A span up to `end`; one of the same cause is made longer.
    pub(super) fn add(&mut self, end: Time, cause: Cause, behind: TaskId, margin: u64) {
        let length = end.saturating_sub(self.since);
        if length == Time::ZERO {
            return;
        }
        self.since = end;
        match self.spans.last_mut() {
            Some(last) if last.cause == cause && last.behind == behind => last.length += length,
            _ => self.spans.push(Span { cause, behind, length, margin }),
        }
    }
}

impl Waits {
    pub(super) fn end(&mut self, task: TaskId, cpu: CpuId, open: OpenWait, now: Time, ran: bool) {
        let OpenWait { kind, began, spans, .. } = open;
        let first = self.spans.len();
        self.spans.extend_from_slice(&spans);
        self.waits.push(Wait { task, cpu, kind, began, ended: now, ran, first, spans: spans.len() });
    }

    /// Keeps the waits of these tasks; others may still be what they wait behind.
    pub fn retain(&mut self, keep: impl Fn(TaskId) -> bool) {
        self.waits.retain(|wait| keep(wait.task));
    }

    /// All waits.
    pub fn iter(&self) -> impl Iterator<Item = &Wait> {
        self.waits.iter()
    }

    /// The spans of one of these waits, in order.
    pub fn spans(&self, wait: &Wait) -> &[Span] {
        self.spans.get(wait.first..wait.first + wait.spans).unwrap_or_default()
    }
}
