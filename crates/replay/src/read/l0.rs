//! From records to steps where there are tracepoints alone (L0), or `place_entity` beside them (L0k).
//!
//! A decision shows in the task that runs next and in the flag need_resched (`N`) of the record that follows; which sequence a lone
//! `sched_stat_runtime` belongs to shows in the records around it. `kernel/sched/core.c` and `fair.c` say in which order a sequence's
//! tracepoints come.

mod yields;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_trace::{Context, Pid, Probe, Record, RecordKind, RecordState, TaskRef};

use crate::read::cursor::{Cursor, Runtime};
use crate::read::flags::{FlagBits, MOVE, may_yield};
use crate::read::l1;
use crate::read::step::{Asked, Change, Check, Coming, FIRST_FAIR_PRIORITY, Picks, Step};

/// What kind of tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tick {
    /// The periodic one.
    Periodic,
    /// The one at a slice's end (`hrtick`).
    SliceEnd,
}

/// What a task asked for, to be done when it is next charged for no other reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// It ends: `autogroup_exit_task` takes it out and puts it back.
    Exit,
    /// Other CPUs for a task.
    Affinity,
    /// The rest of its turn is given up.
    Yield,
}

/// Cuts the records of a recording without probes.
pub(crate) struct Traced<'a> {
    records: &'a [Record],
    /// Switches whose previous task stayed runnable though its state says asleep: a signal was pending.
    stayed: BTreeSet<usize>,
    /// Charges of a parent that were made as its child was placed (CFS).
    forks: BTreeMap<usize, Pid>,
    /// The tick that has begun, if no task was charged in it yet.
    tick: Option<Tick>,
    requests: BTreeMap<Pid, Request>,
    /// Where the flag need_resched was last seen set, with the place of the record.
    due_at: Option<usize>,
    /// Whether the system calls are all that tells of changes.
    asks: bool,
    /// Whose last call that changes a task was `setpriority(2)`.
    renices: BTreeSet<Pid>,
    /// Whether the kernel counts how often preemption is disabled.
    counts: bool,
    /// Who yielded and has not scheduled since.
    yielded: Option<Pid>,
    flags: FlagBits,
}

impl<'a> Traced<'a> {
    /// Reads all records once for what only later ones tell.
    pub(crate) fn new(records: &'a [Record], flags: FlagBits) -> Self {
        let places = records.iter().any(|record| matches!(record.kind, RecordKind::Probe(Probe::Place { .. })));
        let guesses_forks = flags.places_forks && !places;
        let asks = !records.iter().any(|record| matches!(record.kind, RecordKind::Probe(Probe::Parameters { .. })));
        let counts = records.iter().any(|record| record.flags.preempt_depth > 0);
        let new = |stayed, forks| Self {
            records,
            stayed,
            forks,
            tick: None,
            requests: BTreeMap::new(),
            due_at: None,
            asks,
            renices: BTreeSet::new(),
            counts,
            yielded: None,
            flags,
        };
        // The charge that is made as a child is placed looks like one for no reason; the fork's event follows soon after.
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
            if guesses_forks && matches!(step, Step::UpdateCurr { .. }) && record.flags.context == Context::Task {
                last_charge.insert(record.pid, at);
            }
            at += length;
        }
        new(stayed(records), forks)
    }

    /// Cuts the step that begins at record `at`; returns it with the number of its records, at least 1.
    pub(crate) fn next(&mut self, at: usize) -> (Step<'a>, usize) {
        if let Some(step) = self.picked_again(at) {
            return (step, 0);
        }
        let mut cursor = Cursor { records: &self.records[at..], at: 0, flags: self.flags };
        let step = self.begin(&mut cursor, at);
        let length = cursor.at.max(1);
        self.note_due(at, length);
        (step, length)
    }

    /// Remembers whether the flag need_resched is set after these records.
    fn note_due(&mut self, at: usize, length: usize) {
        for (place, record) in self.records.iter().enumerate().skip(at).take(length) {
            if matches!(record.kind, RecordKind::Switch { .. }) {
                self.due_at = None;
            } else if record.flags.wants_resched() {
                self.due_at = Some(place);
            } else if record.flags.interrupts_off {
                self.due_at = None;
            }
        }
    }

    /// The flag was there and is gone, without a switch: a schedule found nothing to charge and picked the running task again.
    fn picked_again(&mut self, at: usize) -> Option<Step<'a>> {
        let record = self.records.get(at)?;
        if self.yielded_uncharged(at) {
            self.requests.remove(&record.pid);
            self.yielded = Some(record.pid);
            return Some(Step::YieldNow { runtime: None });
        }
        if let RecordKind::Switch { state: RecordState::Running, previous, .. } = &record.kind
            && self.requests.get(&previous.pid) == Some(&Request::Yield)
            && self.due_at.is_none()
        {
            // Nothing to charge, and nothing else asked for the switch.
            self.requests.remove(&previous.pid);
            return Some(Step::YieldNow { runtime: None });
        }
        // An interrupt that finds preemption enabled comes after the schedule, unless that is still asked for; one that finds it disabled
        // does if no schedule follows.
        let interrupted = matches!(record.kind, RecordKind::TimerEntry { .. });
        let outside = self.counts
            && interrupted
            && !record.flags.wants_resched()
            && (record.flags.preempt_depth == 0 || self.goes_on_from(at, record.pid));
        if !self.counts && interrupted && self.yielded == Some(record.pid) {
            (self.yielded, self.due_at) = (None, None);
            // Unless the schedule shows to be still to come.
            return (!self.schedules_from(at, record.pid)).then_some(Step::MayPickAgain);
        }
        if (record.flags.context == Context::Task || outside) && self.yielded == Some(record.pid) {
            match record.kind {
                // What the schedule charges tells of it.
                RecordKind::StatRuntime { .. } => {}
                RecordKind::Switch { .. } => self.yielded = None,
                _ => {
                    (self.yielded, self.due_at) = (None, None);
                    return Some(Step::PickAgain);
                }
            }
        }
        let due = record.flags.wants_resched() || !record.flags.interrupts_off;
        if due || matches!(record.kind, RecordKind::Switch { .. }) {
            return None;
        }
        let before = self.due_at.take();
        let charged = before.and_then(|at| self.records.get(at)).map(|record| &record.kind);
        // With something to charge, the charge was taken for the schedule already.
        let gone = charged.is_some_and(|kind| !matches!(kind, RecordKind::StatRuntime { .. }));
        gone.then_some(Step::PickAgain)
    }

    fn begin(&mut self, cursor: &mut Cursor<'a>, at: usize) -> Step<'a> {
        let Some(record) = cursor.records.first() else { return Step::Nothing };
        if !matches!(record.flags.context, Context::HardInterrupt | Context::HardInSoftInterrupt) {
            self.tick = None;
        }
        match &record.kind {
            RecordKind::StatRuntime { .. } => self.after_runtime(cursor, record, at),
            RecordKind::Switch { .. } => self.switch(cursor, None, at),
            RecordKind::Waking { task, .. } => wake(cursor, record, task.pid),
            RecordKind::WakeupNew { task, .. } => self.wake_new(cursor, task.pid, None),
            RecordKind::Probe(Probe::Place { initial: true, .. }) => place_child(cursor, None),
            RecordKind::Probe(Probe::Parameters { pid, .. }) => self.change(cursor, *pid, None),
            RecordKind::Probe(Probe::PlaceEevdf { pid, .. }) => self.placed_again(cursor, *pid, None),
            RecordKind::Fork { parent, child, .. } => {
                Step::Fork { parent: Some(*parent), child: *child, runtime: None, placement: None }
            }
            RecordKind::TimerEntry { function } => {
                self.tick = match &**function {
                    "tick_sched_timer" | "tick_nohz_handler" => Some(Tick::Periodic),
                    "hrtick" => Some(Tick::SliceEnd),
                    _ => None,
                };
                Step::Nothing
            }
            RecordKind::TimerExit => {
                self.tick = None;
                Step::Nothing
            }
            RecordKind::Exit { task } => self.request(task.pid, Request::Exit),
            RecordKind::SetPriority { .. } if !self.asks => {
                self.renices.insert(record.pid);
                Step::Nothing
            }
            RecordKind::SetPriority { which: 0, who, nice } => {
                let pid = if *who == 0 { record.pid } else { *who };
                let priority = Some((*nice).clamp(-20, 19) + 120);
                Step::Ask(Asked { by: record.pid, pid, policy: None, priority, moves: false })
            }
            RecordKind::Other { event, text } => match &**event {
                "sys_enter_sched_yield" => self.request(record.pid, Request::Yield),
                "sys_enter_sched_setaffinity" if !self.flags.places_forks => {
                    self.request(record.pid, Request::Affinity)
                }
                "sys_enter_sched_setaffinity" => ask(record.pid, text, |_| None),
                "sys_enter_sched_setattr" | "sys_enter_sched_setscheduler" | "sys_enter_sched_setparam" => {
                    self.renices.remove(&record.pid);
                    if !self.asks {
                        return Step::Nothing;
                    }
                    match ask(record.pid, text, |pid| priority_of(&self.records[at..], pid)) {
                        Step::Ask(Asked { by, pid, policy: None, priority, moves }) => {
                            // SCHED_IDLE shows in how fast its virtual time runs.
                            let policy = runs_idle(&self.records[at..], pid).then_some(5);
                            Step::Ask(Asked { by, pid, policy, priority, moves })
                        }
                        known => known,
                    }
                }
                _ => Step::Nothing,
            },
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
        // A switch comes after the flag is cleared; that of a task which could go on was asked for.
        let preempted = |kind: &RecordKind| matches!(kind, RecordKind::Switch { state: RecordState::Running, .. });
        let next = cursor.records.get(cursor.at);
        let after = next.is_some_and(|record| record.flags.wants_resched() || preempted(&record.kind));
        let resched = Some(after).filter(|_| told.flags.shown && !told.flags.need_resched_lazy);
        let check = Check { woken: pid, flags: self.flags.fork, need_resched, queue: None, resched };
        Step::Wake { pid, coming: Coming::New, runtime, placement, check: Some(check) }
    }

    /// What a `sched_stat_runtime` belongs to.
    fn after_runtime(&mut self, cursor: &mut Cursor<'a>, record: &Record, at: usize) -> Step<'a> {
        let Some(runtime) = cursor.runtime() else { return Step::Unexplained };
        let following = cursor.records.get(cursor.at);
        let due_before = record.flags.wants_resched();
        let due_after = following.map(|record| record.flags.wants_resched());
        match self.tick.take() {
            Some(Tick::Periodic) => {
                return Step::Tick { runtime: Some(runtime), resched: due_after.filter(|_| !due_before), ends: false };
            }
            Some(Tick::SliceEnd) => return Step::Tick { runtime: Some(runtime), resched: None, ends: true },
            None => {}
        }
        // A kernel that does not count may be asked to reschedule already as it yields.
        let yields = |traced: &Self| may_yield(record.flags) || !traced.counts && !traced.yields_from(at, runtime.pid);
        let own = record.flags.context == Context::Task;
        if own && self.requests.get(&runtime.pid) == Some(&Request::Yield) && yields(self) {
            self.requests.remove(&runtime.pid);
            self.yielded = Some(runtime.pid);
            return Step::YieldNow { runtime: Some(runtime) };
        }
        match following.map(|record| &record.kind) {
            Some(RecordKind::Switch { .. }) => {
                self.yielded = None;
                return self.switch(cursor, Some(runtime), at);
            }
            Some(RecordKind::WakeupNew { task, .. }) => return self.wake_new(cursor, task.pid, Some(runtime)),
            Some(RecordKind::Probe(Probe::Place { initial: true, .. })) => return place_child(cursor, Some(runtime)),
            Some(RecordKind::Probe(Probe::PlaceEevdf { pid, .. })) => {
                let after = cursor.records.get(cursor.at + 1).map(|record| &record.kind);
                if matches!(after, Some(RecordKind::WakeupNew { task, .. }) if task.pid == *pid) {
                    return self.wake_new(cursor, *pid, Some(runtime));
                }
                return self.placed_again(cursor, *pid, Some(runtime));
            }
            Some(RecordKind::Probe(Probe::Parameters { pid, .. })) => {
                return self.change(cursor, *pid, Some(runtime));
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
            _ if self.yielded == Some(runtime.pid) => {
                self.yielded = None;
                return Step::Schedule { dequeued: None, runtime: Some(runtime), picks: Picks::Outcome, switch: None };
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

impl<'a> Traced<'a> {
    /// `set_load_weight`, after the charge that dequeueing made.
    fn change(&self, cursor: &mut Cursor<'a>, pid: Pid, charged: Option<Runtime>) -> Step<'a> {
        // set_user_nice leaves the queue's virtual time alone (DEQUEUE_SAVE without DEQUEUE_MOVE).
        let nice = cursor.records.first().is_some_and(|record| self.renices.contains(&record.pid));
        match l1::change(cursor, pid, if nice { 0 } else { MOVE }) {
            Step::Change { what, runtime, set, check, resched, .. } => {
                Step::Change { pid, what, runtime: charged.or(runtime), set, check, resched }
            }
            other => other,
        }
    }

    /// `place_entity` of a task that neither wakes nor is new (EEVDF): it was taken off for a change and is put back.
    fn placed_again(&mut self, cursor: &mut Cursor<'a>, pid: Pid, runtime: Option<Runtime>) -> Step<'a> {
        if cursor
            .records
            .get(cursor.at + 1)
            .is_some_and(|next| matches!(&next.kind, RecordKind::WakeupNew { task, .. } if task.pid == pid))
        {
            return self.wake_new(cursor, pid, runtime);
        }
        cursor.placement(pid);
        let what = match self.requests.get(&cursor.records[0].pid).copied() {
            Some(Request::Affinity) => Change::Affinity,
            _ => Change::Group,
        };
        let resched = cursor.records.get(cursor.at).is_some_and(|next| next.flags.wants_resched());
        Step::Change { pid, what, runtime, set: None, check: None, resched }
    }
}

/// The entry of a system call on a task.
fn ask<'a>(by: Pid, text: &str, priority: impl FnOnce(Pid) -> Option<i32>) -> Step<'a> {
    let value = |key: &str| {
        let after = text.split(", ").find_map(|field| field.strip_prefix(key))?;
        u32::from_str_radix(after.trim_start_matches(':').trim().strip_prefix("0x")?, 16).ok()
    };
    let Some(pid) = value("pid").map(|pid| if pid == 0 { by } else { pid }) else { return Step::Nothing };
    Step::Ask(Asked { by, pid, policy: value("policy"), priority: priority(pid), moves: true })
}

/// Whether a task's virtual time runs, between its next two charges without a sleep in between, faster than any nice level's: the
/// lowest weighs 15, SCHED_IDLE 3, nice 0 1024.
fn runs_idle(records: &[Record], task: Pid) -> bool {
    let mut before: Option<u64> = None;
    for record in records {
        match record.kind {
            RecordKind::StatRuntime { pid, runtime, vruntime: Some(vruntime), .. } if pid == task => {
                if let Some(before) = before.replace(vruntime)
                    && runtime > 0
                {
                    return vruntime.wrapping_sub(before) / runtime > 1024 / 15;
                }
            }
            RecordKind::Waking { task: ref woken, .. } if woken.pid == task => before = None,
            _ => {}
        }
    }
    false
}

/// The priority that a task is next seen with in these records. One that is charged without a virtual time before that is of the
/// real-time class by then, whatever it becomes before it is seen.
fn priority_of(records: &[Record], pid: Pid) -> Option<i32> {
    let seen = |task: &TaskRef| (task.pid == pid).then_some(task.priority);
    let mut real = false;
    for record in records {
        let priority = match &record.kind {
            RecordKind::Switch { previous, next, .. } => seen(previous).or_else(|| seen(next)),
            RecordKind::Waking { task, .. } | RecordKind::Wakeup { task, .. } | RecordKind::Exit { task } => seen(task),
            RecordKind::StatRuntime { pid: charged, vruntime: Some(0), .. } => {
                real |= *charged == pid;
                None
            }
            _ => None,
        };
        if let Some(priority) = priority {
            return Some(if real && priority >= FIRST_FAIR_PRIORITY { LOWEST_REAL_TIME } else { priority });
        }
    }
    real.then_some(LOWEST_REAL_TIME)
}

/// The priority of `sched_priority` 1.
const LOWEST_REAL_TIME: i32 = FIRST_FAIR_PRIORITY - 2;

/// `try_to_wake_up`, whose tracepoints no other one comes between.
fn wake<'a>(cursor: &mut Cursor<'a>, record: &Record, pid: Pid) -> Step<'a> {
    cursor.at = 1;
    let mut runtime = cursor.runtime();
    // Charging may have asked for a schedule before the woken task is looked at (EEVDF).
    let placing = cursor.records.get(cursor.at).filter(|next| matches!(next.kind, RecordKind::Probe(_)));
    let record = placing.unwrap_or(record);
    let placement = cursor.placement(pid);
    // A delayed task is placed before the running task is charged.
    runtime = runtime.or_else(|| cursor.runtime());
    let Some(woken) = cursor.records.get(cursor.at) else { return Step::Nothing };
    // A running task that is about to sleep is woken and goes on, without an enqueue.
    if !matches!(&woken.kind, RecordKind::Wakeup { task, .. } if task.pid == pid) || pid == record.pid {
        cursor.at = 1;
        return Step::Nothing;
    }
    cursor.at += 1;
    let need_resched = record.flags.need_resched;
    // Once asked for lazily, whether this asks again does not show.
    let resched = Some(woken.flags.wants_resched()).filter(|_| record.flags.shown && !record.flags.need_resched_lazy);
    let check = Check { woken: pid, flags: 0, need_resched, queue: None, resched };
    Step::Wake { pid, coming: Coming::Awake, runtime, placement, check: Some(check) }
}

fn place_child<'a>(cursor: &mut Cursor<'a>, runtime: Option<Runtime>) -> Step<'a> {
    match cursor.initial_placement() {
        Some((child, placement)) => Step::Fork { parent: None, child, runtime, placement: Some(placement) },
        None => Step::Unexplained,
    }
}

/// The switches after which a task in a sleeping state comes back without having been woken.
pub(crate) fn stayed(records: &[Record]) -> BTreeSet<usize> {
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
            RecordKind::Waking { task, .. } | RecordKind::Wakeup { task, .. } | RecordKind::WakeupNew { task, .. } => {
                comes_back.insert(task.pid, false);
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use schedlab_trace::Reader;

    use super::*;

    /// Only fair tasks have a virtual time to be charged (`update_curr_rt` tells 0): what was asked for a task before such a charge made it
    /// real-time, though it is seen as an ordinary one later, after another change.
    #[test]
    fn a_charge_without_a_virtual_time_tells_of_the_real_time_class() {
        let text = "\
 a-7 0d.h1. 1.1: sched_stat_runtime: comm=a pid=7 runtime=5 [ns] vruntime=0 [ns]
 b-8 0d..2. 1.2: sched_waking: comm=a pid=7 prio=120 target_cpu=0
";
        let records: Vec<Record> = Reader::new(text.as_bytes()).map(|record| record.expect("a line")).collect();
        assert_eq!(priority_of(&records, 7), Some(LOWEST_REAL_TIME));
        assert_eq!(priority_of(&records[1..], 7), Some(120));
    }
}
