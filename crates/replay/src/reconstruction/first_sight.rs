//! What a recording tells of the tasks that were there before it began.
//!
//! A task that sleeps or waits keeps its `vruntime`, so the first value a recording shows of it is the one it had all along; and a
//! task that ran meanwhile had that value less what it was charged.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{Policy, RuleSet};
use schedlab_sched::{calc_delta, weight_of_nice};
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
#[derive(Debug)]
pub(crate) struct FirstSight {
    /// The current task; 0 if the CPU idles.
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
    /// About what it was, where no probe shows it.
    pub(crate) guess: Option<u64>,
    /// The next and last buddies at the first recorded pick.
    pub(crate) buddies: Option<(Pid, Pid)>,
    /// Virtual times with which tasks came in when they first did, as far as their first charge tells (CFS without probes).
    pub(crate) placed: BTreeMap<Pid, u64>,
    /// What `running` was charged so far.
    charged: u64,
    seen: BTreeSet<Pid>,
    /// Tasks seen and not charged since, with their place in `waiting`.
    uncharged: BTreeMap<Pid, Option<usize>>,
    rules: RuleSet,
}

impl FirstSight {
    /// Reads all records once.
    pub(crate) fn of(records: &[Record], rules: RuleSet) -> Self {
        let running = records.first().map_or(0, |record| record.pid);
        let mut sight = Self {
            running,
            need_resched: records.first().is_some_and(|record| record.flags.need_resched),
            running_seen: None,
            waiting: Vec::new(),
            priorities: BTreeMap::new(),
            base: None,
            guess: None,
            buddies: None,
            placed: BTreeMap::new(),
            charged: 0,
            seen: BTreeSet::from([0, running]),
            uncharged: BTreeMap::new(),
            rules,
        };
        for record in records {
            match &record.kind {
                RecordKind::Switch { previous, next, .. } => {
                    sight.note(previous);
                    sight.note(next);
                    sight.waits(next.pid, 0, 0, true);
                }
                RecordKind::Waking { task, .. } | RecordKind::WakeupNew { task, .. } => {
                    sight.note(task);
                    if sight.seen.insert(task.pid) {
                        sight.uncharged.insert(task.pid, None);
                    }
                }
                RecordKind::Wakeup { task, .. } | RecordKind::Exit { task } => sight.note(task),
                RecordKind::StatRuntime { pid, runtime, vruntime, .. } => {
                    if *pid == running {
                        sight.charged = sight.charged.wrapping_add(*runtime);
                    }
                    sight.note_charge(*pid, *runtime, *vruntime);
                }
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
            Probe::SetNext { pid, vruntime, .. } => self.waits(pid, vruntime, 0, false),
            Probe::SetNextEevdf { pid, vruntime, deadline, .. } => self.waits(pid, vruntime, deadline, false),
            Probe::Enqueue { pid, .. } | Probe::Dequeue { pid, .. } | Probe::Place { pid, .. } => self.see(pid),
            Probe::Pick { next, last, .. } if self.buddies.is_none() => self.buddies = Some((next, last)),
            _ => {}
        }
    }

    fn see(&mut self, pid: Pid) {
        self.seen.insert(pid);
    }

    /// A task that runs next and was not seen before; `unknown` if its virtual time is still to be told.
    fn waits(&mut self, pid: Pid, vruntime: u64, deadline: u64, unknown: bool) {
        if self.seen.insert(pid) {
            if unknown {
                self.uncharged.insert(pid, Some(self.waiting.len()));
            }
            self.waiting.push(Queued { pid, vruntime, deadline });
        }
    }

    /// The first charge since a task was seen: what it had before is less by that. What the very first one had is close to where
    /// the queue stood.
    fn note_charge(&mut self, pid: Pid, runtime: u64, vruntime: Option<u64>) {
        let Some(vruntime) = vruntime else { return };
        self.guess = self.guess.or(Some(vruntime.wrapping_sub(runtime)));
        let Some(waiting) = self.uncharged.remove(&pid) else { return };
        let priority = self.priorities.get(&pid).copied().unwrap_or(120);
        let nice = i8::try_from(priority.saturating_sub(120)).unwrap_or(0);
        let mut weight = weight_of_nice(&self.rules, Policy::Other, nice);
        let nice_0 = weight_of_nice(&self.rules, Policy::Other, 0);
        let delta = if nice == 0 { runtime } else { calc_delta(runtime, nice_0.scaled, &mut weight) };
        let before = vruntime.wrapping_sub(delta);
        match waiting.and_then(|at| self.waiting.get_mut(at)) {
            Some(queued) => queued.vruntime = before,
            None => {
                self.placed.insert(pid, before);
            }
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
