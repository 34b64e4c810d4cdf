//! What of a recording is replayed: the events that sequences are found by, and beside them what only shows state.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::Series;
use schedlab_trace::{Context, Pid, Probe, QueueClocks, Record, RecordKind, TaskSnap, TraceError};

use crate::ReplayError;
use crate::flags::may_yield;
use crate::report::Level;

/// What `update_curr` was about to charge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    pub(crate) line: u64,
    pub(crate) pid: Pid,
    pub(crate) vruntime: u64,
    pub(crate) deadline: Option<u64>,
}

/// A task as the recorder found it, on the line where it says so.
#[derive(Debug, Clone)]
pub(crate) struct Snapped {
    pub(crate) line: u64,
    pub(crate) clocks: Option<QueueClocks>,
    pub(crate) task: TaskSnap,
}

/// A recording, sorted.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// What sequences are found by.
    pub(crate) records: Vec<Record>,
    /// What was charged, in order.
    pub(crate) charges: Vec<Charge>,
    /// The state of each task before the workload began, where the recorder showed it.
    pub(crate) snapped: Vec<Snapped>,
}

impl Recording {
    /// Sorts the records of one CPU, those up to `level` if one is given.
    pub(crate) fn sort(
        records: impl IntoIterator<Item = Result<Record, TraceError>>,
        level: Option<Level>,
        series: Series,
    ) -> Result<Self, ReplayError> {
        let mut sorted = Self::default();
        let mut clocks = None;
        // Who entered sched_yield(2) and has not done so yet: it may be preempted in between.
        let mut yielding = BTreeSet::new();
        for record in records {
            let mut record = record?;
            if level.is_some_and(|level| !level.has(&record.kind)) {
                continue;
            }
            if record.cpu != 0 {
                let what = format!("line {}, an event of CPU {}", record.line, record.cpu);
                return Err(ReplayError::Unsupported { what, why: "so far recordings of one CPU can be" });
            }
            if let RecordKind::Snap(task) = record.kind {
                if sorted.snapped.is_empty() {
                    // Before the first sight of a task there is nothing to replay.
                    sorted.records.clear();
                    sorted.charges.clear();
                }
                sorted.snapped.push(Snapped { line: record.line, clocks: record.clocks, task: *task });
                continue;
            }
            if let RecordKind::Probe(Probe::UpdateCurr { pid, vruntime, deadline, .. }) = record.kind {
                sorted.charges.push(Charge { line: record.line, pid, vruntime, deadline });
            }
            match &record.kind {
                RecordKind::Other { event, .. } if &**event == YIELD => {
                    yielding.insert(record.pid);
                }
                // SCHED_BATCH yields without being charged (CFS).
                RecordKind::Probe(Probe::PickTask) if !record.flags.need_resched && yielding.remove(&record.pid) => {
                    let uncharged = Probe::UpdateCurr { pid: 0, vruntime: 0, deadline: None, exec_start: 0 };
                    sorted.records.push(Record { kind: RecordKind::Probe(uncharged), ..record.clone() });
                }
                _ => {}
            }
            // A yield's own charge is where it happens, whether there is something to charge or not.
            let charges = matches!(record.kind, RecordKind::Probe(Probe::UpdateCurr { .. }));
            let yields = charges && may_yield(record.flags) && yielding.remove(&record.pid);
            if !yields && accompanies(&record.kind, series) {
                clocks = record.clocks.or(clocks);
                continue;
            }
            // What accompanies an event tells the clocks of it too.
            record.clocks = record.clocks.or(clocks);
            clocks = None;
            sorted.records.push(record);
        }
        if !sorted.charges.is_empty() {
            sorted
                .records
                .retain(|record| !matches!(&record.kind, RecordKind::Other { event, .. } if &**event == YIELD));
        }
        Ok(sorted)
    }
}

/// The entry of `sched_yield(2)`.
const YIELD: &str = "sys_enter_sched_yield";

/// Whether a record only accompanies others, so that the sequences are found without it.
const fn accompanies(kind: &RecordKind, series: Series) -> bool {
    let RecordKind::Probe(probe) = kind else { return false };
    match probe {
        Probe::SetTask { .. } => !matches!(series, Series::V7_2),
        Probe::UpdateCurr { .. } => true,
        Probe::Move { .. } | Probe::Account { .. } | Probe::Refill { .. } => true,
        Probe::RtEnqueue { .. } | Probe::RtDequeue { .. } | Probe::RtCharge { .. } | Probe::RtTick { .. } => true,
        Probe::DlEnqueue { .. } | Probe::DlDequeue { .. } | Probe::DlCharge { .. } => true,
        Probe::DlEntityCharge { .. } | Probe::DlReplenish { .. } | Probe::DlTimer { .. } => true,
        Probe::DlInactive { .. } | Probe::ServerStart { .. } | Probe::ServerStop { .. } => true,
        _ => false,
    }
}

/// Puts the entries of `sched_yield(2)` where the yields are done: a task may be preempted in between, and interrupts may come.
///
/// A preemption's records have the flag need_resched up to the switch; the first of the task's own without it is the yield's.
pub(crate) fn hold_yields(records: Vec<Record>) -> Vec<Record> {
    let mut held: BTreeMap<Pid, Record> = BTreeMap::new();
    let mut preempted = BTreeSet::new();
    let mut ordered = Vec::with_capacity(records.len());
    let uncounted: Vec<bool> = (0..records.len()).map(|at| yields_uncounted(&records[at..])).collect();
    for (record, uncounted) in records.into_iter().zip(uncounted) {
        if matches!(&record.kind, RecordKind::Other { event, .. } if &**event == YIELD) {
            preempted.remove(&record.pid);
            held.insert(record.pid, record);
            continue;
        }
        if record.flags.context == Context::Task && record.flags.interrupts_off && held.contains_key(&record.pid) {
            let switches = matches!(record.kind, RecordKind::Switch { .. });
            if switches && preempted.remove(&record.pid) {
                // It goes on from here when it runs again.
            } else if switches || uncounted || may_yield(record.flags) || !record.flags.need_resched {
                ordered.extend(held.remove(&record.pid));
            } else {
                preempted.insert(record.pid);
            }
        }
        ordered.push(record);
    }
    ordered.extend(held.into_values());
    ordered
}

/// Whether these records begin with the charge of a yield where preemption is not counted and the task was to be rescheduled already:
/// the schedule after it charges the task once more, before it looks for a fair one or as it puts the task back.
fn yields_uncounted(records: &[Record]) -> bool {
    let [first, rest @ ..] = records else { return false };
    let mut rest = rest.iter().skip_while(|record| matches!(record.kind, RecordKind::StatRuntime { .. })).peekable();
    let own = first.flags.preempt_depth == 0 && charged(first).is_some_and(|pid| pid == first.pid);
    if own && rest.peek().is_some_and(|record| matches!(record.kind, RecordKind::Probe(Probe::PickTask))) {
        rest.next();
    }
    own && rest.next().and_then(charged) == Some(first.pid)
}

/// Whom a record charges.
pub(crate) const fn charged(record: &Record) -> Option<Pid> {
    match record.kind {
        RecordKind::Probe(Probe::UpdateCurr { pid, .. }) => Some(pid),
        _ => None,
    }
}
