//! What a recording tells of the tasks that were there before it began.
//!
//! A task that sleeps or waits keeps its `vruntime`, so the first value a recording shows of it is the one it had all along.

use std::collections::BTreeMap;

use schedlab_trace::{Pid, Probe, Record, RecordKind, Snapshot, TaskRef};

/// The state before the first record.
#[derive(Debug, Default)]
pub(crate) struct FirstSight {
    /// Who runs; 0 for nobody.
    pub(crate) running: Pid,
    /// Fair tasks that wait in the queue, in the order in which they are picked, with their `vruntime`.
    pub(crate) waiting: Vec<(Pid, u64)>,
    /// The priority each task is first seen with.
    pub(crate) priorities: BTreeMap<Pid, i32>,
    /// The queue's first recorded `min_vruntime`. It never goes back, so it bounds all before it.
    pub(crate) min_vruntime: Option<u64>,
    /// The next and last buddies at the first recorded pick.
    pub(crate) buddies: Option<(Pid, Pid)>,
}

impl FirstSight {
    /// Reads all records once.
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut sight = Self { running: records.first().map_or(0, |record| record.pid), ..Self::default() };
        let mut seen: Vec<Pid> = vec![0, sight.running];
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
                RecordKind::Probe(probe) => sight.note_probe(*probe, &mut seen),
                _ => {}
            }
        }
        sight
    }

    fn note(&mut self, task: &TaskRef) {
        self.priorities.entry(task.pid).or_insert(task.priority);
    }

    fn note_probe(&mut self, probe: Probe, seen: &mut Vec<Pid>) {
        let least = match probe {
            Probe::Place { min_vruntime, .. }
            | Probe::Pick { min_vruntime, .. }
            | Probe::SetNext { min_vruntime, .. } => Some(min_vruntime),
            _ => None,
        };
        self.min_vruntime = self.min_vruntime.or(least);
        match probe {
            Probe::Enqueue { pid, .. } | Probe::Dequeue { pid, .. } | Probe::Place { pid, .. }
                if !seen.contains(&pid) =>
            {
                seen.push(pid);
            }
            Probe::SetNext { pid, vruntime, .. } if !seen.contains(&pid) => {
                seen.push(pid);
                self.waiting.push((pid, vruntime));
            }
            Probe::Pick { next, last, .. } if self.buddies.is_none() => self.buddies = Some((next, last)),
            _ => {}
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
