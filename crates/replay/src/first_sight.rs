//! What a recording tells of the tasks that were there before it began.
//!
//! A task that sleeps or waits keeps its `vruntime`, so the first value a recording shows of it is the one it had all along; and a
//! task that ran meanwhile had that value less what it was charged.

use std::collections::BTreeMap;

use schedlab_trace::{Pid, Probe, Record, RecordKind, Snapshot, TaskRef};

/// What a queued task has: its virtual time and, under EEVDF, its deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queued {
    pub(crate) pid: Pid,
    pub(crate) vruntime: u64,
    pub(crate) deadline: u64,
}

/// The first sight of the task that runs as the recording begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    /// As [`Queued`]'s, where it was seen.
    pub(crate) vruntime: u64,
    pub(crate) deadline: u64,
    /// What it was charged until then, in nanoseconds.
    pub(crate) charged: u64,
}

/// The state before the first record.
#[derive(Debug, Default)]
pub(crate) struct FirstSight {
    /// Who runs; 0 for nobody.
    pub(crate) running: Pid,
    /// Whether it was about to be rescheduled.
    pub(crate) need_resched: bool,
    /// What is seen of it (EEVDF; CFS shows it with its first charge).
    pub(crate) running_seen: Option<Running>,
    /// Fair tasks that wait in the queue, in the order in which they are seen.
    pub(crate) waiting: Vec<Queued>,
    /// The priority each task is first seen with.
    pub(crate) priorities: BTreeMap<Pid, i32>,
    /// The queue's first recorded `min_vruntime` (CFS) or `zero_vruntime` (EEVDF). The former never goes back, so it bounds all
    /// before it; the latter only sets from where the queue counts.
    pub(crate) base: Option<u64>,
    /// The next and last buddies at the first recorded pick.
    pub(crate) buddies: Option<(Pid, Pid)>,
    /// What `running` was charged so far.
    charged: u64,
    seen: Vec<Pid>,
}

impl FirstSight {
    /// Reads all records once.
    pub(crate) fn of(records: &[Record]) -> Self {
        let running = records.first().map_or(0, |record| record.pid);
        let need_resched = records.first().is_some_and(|record| record.flags.need_resched);
        let mut sight = Self { running, need_resched, seen: vec![0, running], ..Self::default() };
        for record in records {
            match &record.kind {
                RecordKind::Switch { previous, next, .. } => {
                    sight.note(previous);
                    sight.note(next);
                }
                RecordKind::Waking { task, .. }
                | RecordKind::Wakeup { task, .. }
                | RecordKind::WakeupNew { task, .. }
                | RecordKind::Exit { task } => sight.note(task),
                RecordKind::StatRuntime { pid, runtime, .. } if *pid == running => sight.charged += *runtime,
                RecordKind::Probe(probe) => sight.note_probe(*probe),
                _ => {}
            }
        }
        sight
    }

    fn note(&mut self, task: &TaskRef) {
        self.priorities.entry(task.pid).or_insert(task.priority);
    }

    fn note_probe(&mut self, probe: Probe) {
        let base = match probe {
            Probe::Place { min_vruntime: base, .. }
            | Probe::Pick { min_vruntime: base, .. }
            | Probe::SetNext { min_vruntime: base, .. }
            | Probe::PlaceEevdf { zero_vruntime: base, .. }
            | Probe::PickEevdf { zero_vruntime: base, .. } => Some(base),
            _ => None,
        };
        self.base = self.base.or(base);
        match probe {
            Probe::SetNextEevdf { pid, vruntime, deadline, .. }
            | Probe::PlaceEevdf { pid, vruntime, deadline, relative_deadline: false, .. }
                if pid == self.running && self.running_seen.is_none() =>
            {
                self.running_seen = Some(Running { vruntime, deadline, charged: self.charged });
            }
            Probe::SetNext { pid, vruntime, .. } => self.waits(pid, vruntime, 0),
            Probe::SetNextEevdf { pid, vruntime, deadline, .. } => self.waits(pid, vruntime, deadline),
            Probe::Enqueue { pid, .. } | Probe::Dequeue { pid, .. } | Probe::Place { pid, .. } => self.see(pid),
            Probe::Pick { next, last, .. } if self.buddies.is_none() => self.buddies = Some((next, last)),
            _ => {}
        }
    }

    fn see(&mut self, pid: Pid) {
        if !self.seen.contains(&pid) {
            self.seen.push(pid);
        }
    }

    fn waits(&mut self, pid: Pid, vruntime: u64, deadline: u64) {
        if !self.seen.contains(&pid) {
            self.seen.push(pid);
            self.waiting.push(Queued { pid, vruntime, deadline });
        }
    }
}

/// A sleeping task's `vruntime` from the snapshot, where the snapshot is older than the task's first appearance.
///
/// The file is not written in one moment: its reader is the task it shows as running, and once that one is gone
/// (`reader_gone`), all of the file is older than what comes.
pub(crate) fn from_snapshot(snapshot: Option<&Snapshot>, reader_gone: bool, pid: Pid) -> Option<u64> {
    let task = snapshot.filter(|_| reader_gone)?.task(pid).filter(|task| !task.running && task.state != 'R')?;
    Some(task.vruntime as u64)
}

/// The pid that read the snapshot.
pub(crate) fn reader_of(snapshot: Option<&Snapshot>) -> Option<Pid> {
    snapshot?.tasks.iter().find(|task| task.running).map(|task| task.pid)
}
