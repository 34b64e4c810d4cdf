//! From records to steps where there are tracepoints alone (L0), or `place_entity` beside them (L0k).
//!
//! What was decided is told by who runs next and by the flag need_resched (`N`) of the record that follows; what a lone
//! `sched_stat_runtime` belongs to, by what surrounds it. `kernel/sched/core.c` and `fair.c` say in which order a sequence's
//! tracepoints come.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_trace::{Context, Pid, Probe, Record, RecordKind, RecordState};

use crate::flags::FlagBits;
use crate::step::{Change, Check, Coming, Picks, Step};
use crate::view::{Cursor, Runtime};

/// What a task asked for, to be done when it is next charged for no other reason.
#[derive(Debug, Clone, Copy)]
enum Request {
    /// It ends: `autogroup_exit_task` takes it out and puts it back.
    Exit,
    /// A nice level for a task.
    Nice(Pid, i8),
}

/// Cuts the records of a recording without probes.
pub(crate) struct Traced<'a> {
    records: &'a [Record],
    /// Switches whose previous task stayed runnable though its state says asleep: a signal was pending.
    stayed: BTreeSet<usize>,
    /// Charges of a parent that were made as its child was placed (CFS).
    forks: BTreeMap<usize, Pid>,
    /// Whether a tick has begun and nobody was charged yet.
    tick: bool,
    requests: BTreeMap<Pid, Request>,
    flags: FlagBits,
}

impl<'a> Traced<'a> {
    /// Reads all records once for what only later ones tell.
    pub(crate) fn new(records: &'a [Record], flags: FlagBits) -> Self {
        let new = |stayed, forks| Self { records, stayed, forks, tick: false, requests: BTreeMap::new(), flags };
        // The charge that is made as a child is placed looks like one for no reason, and the fork is told of soon after.
        let mut first = new(BTreeSet::new(), BTreeMap::new());
        let mut last_charge: BTreeMap<Pid, usize> = BTreeMap::new();
        let mut forks = BTreeMap::new();
        let mut at = 0;
        while let Some(record) = records.get(at) {
            if let RecordKind::Fork { parent, child, .. } = record.kind
                && let Some(charge) = last_charge.remove(&parent)
            {
                forks.insert(charge, child);
            }
            let (step, length) = first.next(at);
            if matches!(step, Step::UpdateCurr { .. }) && record.flags.context == Context::Task {
                last_charge.insert(record.pid, at);
            }
            at += length;
        }
        new(stayed(records), forks)
    }

    /// Cuts the step that begins at record `at`; returns it with the number of its records, at least 1.
    pub(crate) fn next(&mut self, at: usize) -> (Step<'a>, usize) {
        let mut cursor = Cursor { records: &self.records[at..], at: 0, flags: self.flags };
        let step = self.begin(&mut cursor, at);
        (step, cursor.at.max(1))
    }

    fn begin(&mut self, cursor: &mut Cursor<'a>, at: usize) -> Step<'a> {
        let Some(record) = cursor.records.first() else { return Step::Nothing };
        if !matches!(record.flags.context, Context::HardInterrupt | Context::HardInSoftInterrupt) {
            self.tick = false;
        }
        match &record.kind {
            RecordKind::StatRuntime { .. } => self.after_runtime(cursor, record, at),
            RecordKind::Switch { .. } => self.switch(cursor, None, at),
            RecordKind::Waking { task, .. } => wake(cursor, record, task.pid),
            RecordKind::WakeupNew { task, .. } => self.wake_new(cursor, task.pid, None),
            RecordKind::Probe(Probe::Place { initial: true, .. }) => place_child(cursor, None),
            RecordKind::Fork { parent, child, .. } => {
                Step::Fork { parent: Some(*parent), child: *child, runtime: None, placement: None }
            }
            RecordKind::TimerEntry { function } => {
                self.tick = matches!(&**function, "tick_sched_timer" | "tick_nohz_handler");
                Step::Nothing
            }
            RecordKind::TimerExit => {
                self.tick = false;
                Step::Nothing
            }
            RecordKind::Exit { task } => self.request(task.pid, Request::Exit),
            RecordKind::SetPriority { which: 0, who, nice } => {
                let of = if *who == 0 { record.pid } else { *who };
                self.request(record.pid, Request::Nice(of, (*nice).clamp(-20, 19) as i8))
            }
            RecordKind::Other { event, .. } if &**event == "sys_enter_sched_yield" => Step::Yield,
            _ => Step::Nothing,
        }
    }

    fn request(&mut self, by: Pid, request: Request) -> Step<'a> {
        self.requests.insert(by, request);
        Step::Nothing
    }

    fn switch(&self, cursor: &mut Cursor<'a>, runtime: Option<Runtime>, at: usize) -> Step<'a> {
        let Some(RecordKind::Switch { previous, state, next }) = cursor.peek() else { return Step::Unexplained };
        let leaves = *state != RecordState::Running && !self.stayed.contains(&(at + cursor.at));
        cursor.at += 1;
        let dequeued = leaves.then_some(previous.pid);
        Step::Schedule { dequeued, runtime, picks: Picks::Outcome, switch: Some((previous, *state, next)) }
    }

    /// `wake_up_new_task`, which tells of itself before it looks at preemption.
    fn wake_new(&self, cursor: &mut Cursor<'a>, pid: Pid, runtime: Option<Runtime>) -> Step<'a> {
        let placement = cursor.placement(pid);
        let Some(told) = cursor.records.get(cursor.at) else { return Step::Nothing };
        cursor.at += 1;
        let need_resched = told.flags.need_resched;
        let after = cursor.records.get(cursor.at).is_some_and(|record| record.flags.need_resched);
        let check = Check { woken: pid, flags: self.flags.fork, need_resched, queue: None, resched: after };
        Step::Wake { pid, coming: Coming::New, runtime, placement, check: Some(check) }
    }

    /// What a `sched_stat_runtime` belongs to.
    fn after_runtime(&mut self, cursor: &mut Cursor<'a>, record: &Record, at: usize) -> Step<'a> {
        let Some(runtime) = cursor.runtime() else { return Step::Unexplained };
        let following = cursor.records.get(cursor.at);
        let due_before = record.flags.need_resched;
        let due_after = following.map(|record| record.flags.need_resched);
        if std::mem::take(&mut self.tick) {
            return Step::Tick { runtime: Some(runtime), resched: due_after.filter(|_| !due_before), ends: false };
        }
        match following.map(|record| &record.kind) {
            Some(RecordKind::Switch { .. }) => return self.switch(cursor, Some(runtime), at),
            Some(RecordKind::WakeupNew { task, .. }) => return self.wake_new(cursor, task.pid, Some(runtime)),
            Some(RecordKind::Probe(Probe::Place { initial: true, .. })) => return place_child(cursor, Some(runtime)),
            Some(RecordKind::Probe(Probe::PlaceEevdf { pid, .. })) => {
                let after = cursor.records.get(cursor.at + 1).map(|record| &record.kind);
                if matches!(after, Some(RecordKind::WakeupNew { task, .. }) if task.pid == *pid) {
                    return self.wake_new(cursor, *pid, Some(runtime));
                }
            }
            _ => {}
        }
        if let Some(child) = self.forks.get(&at) {
            return Step::Fork { parent: Some(runtime.pid), child: *child, runtime: Some(runtime), placement: None };
        }
        if record.flags.context != Context::Task {
            return Step::UpdateCurr { runtime };
        }
        match self.requests.get(&runtime.pid).copied() {
            // It always ends in a rescheduling.
            Some(Request::Exit) if due_after == Some(true) => {
                self.requests.remove(&runtime.pid);
                let (pid, what) = (runtime.pid, Change::Group);
                return Step::Change { pid, what, runtime: Some(runtime), set: None, check: None, resched: true };
            }
            Some(Request::Nice(pid, nice)) => {
                self.requests.remove(&runtime.pid);
                let resched = due_after.filter(|_| !due_before);
                return Step::Nice { pid, nice, runtime, resched };
            }
            _ => {}
        }
        if due_before && due_after == Some(false) {
            // Picked again: no switch, but the flag is gone.
            return Step::Schedule { dequeued: None, runtime: Some(runtime), picks: Picks::Outcome, switch: None };
        }
        Step::UpdateCurr { runtime }
    }
}

/// `try_to_wake_up`, whose tracepoints no other one comes between.
fn wake<'a>(cursor: &mut Cursor<'a>, record: &Record, pid: Pid) -> Step<'a> {
    cursor.at = 1;
    let runtime = cursor.runtime();
    let placement = cursor.placement(pid);
    let Some(woken) = cursor.records.get(cursor.at) else { return Step::Nothing };
    // A running task that is about to sleep is told to go on, without any queueing.
    if !matches!(&woken.kind, RecordKind::Wakeup { task, .. } if task.pid == pid) || pid == record.pid {
        cursor.at = 1;
        return Step::Nothing;
    }
    cursor.at += 1;
    let need_resched = record.flags.need_resched;
    let check = Check { woken: pid, flags: 0, need_resched, queue: None, resched: woken.flags.need_resched };
    Step::Wake { pid, coming: Coming::Awake, runtime, placement, check: Some(check) }
}

fn place_child<'a>(cursor: &mut Cursor<'a>, runtime: Option<Runtime>) -> Step<'a> {
    match cursor.initial_placement() {
        Some((child, placement)) => Step::Fork { parent: None, child, runtime, placement: Some(placement) },
        None => Step::Unexplained,
    }
}

/// The switches after which a task in a sleeping state comes back without having been woken.
fn stayed(records: &[Record]) -> BTreeSet<usize> {
    let mut comes_back: BTreeMap<Pid, bool> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (at, record) in records.iter().enumerate().rev() {
        match &record.kind {
            RecordKind::Switch { previous, state, next } => {
                if *state != RecordState::Running && comes_back.get(&previous.pid) == Some(&true) {
                    found.insert(at);
                }
                comes_back.insert(next.pid, true);
            }
            RecordKind::Waking { task, .. } | RecordKind::WakeupNew { task, .. } => {
                comes_back.insert(task.pid, false);
            }
            _ => {}
        }
    }
    found
}
