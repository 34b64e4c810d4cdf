//! What of a recording is replayed: the events that sequences are found by, and beside them what only shows state.

use schedlab_model::Series;
use schedlab_trace::{Pid, Probe, QueueClocks, Record, RecordKind, TaskSnap, TraceError};

use crate::ReplayError;
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
            if accompanies(&record.kind, series) {
                clocks = record.clocks.or(clocks);
                continue;
            }
            // What accompanies an event tells the clocks of it too.
            record.clocks = record.clocks.or(clocks);
            clocks = None;
            sorted.records.push(record);
        }
        Ok(sorted)
    }
}

/// Whether a record only accompanies others, so that the sequences are found without it.
const fn accompanies(kind: &RecordKind, series: Series) -> bool {
    let RecordKind::Probe(probe) = kind else { return false };
    match probe {
        Probe::SetTask { .. } => !matches!(series, Series::V7_2),
        Probe::UpdateCurr { .. } | Probe::PickTask => true,
        Probe::Move { .. } | Probe::Account { .. } | Probe::Refill { .. } => true,
        Probe::RtEnqueue { .. } | Probe::RtDequeue { .. } | Probe::RtCharge { .. } | Probe::RtTick { .. } => true,
        Probe::RtPeriod | Probe::DlEnqueue { .. } | Probe::DlDequeue { .. } | Probe::DlCharge { .. } => true,
        Probe::DlEntityCharge { .. } | Probe::DlReplenish { .. } | Probe::DlTimer { .. } => true,
        Probe::DlInactive { .. } | Probe::ServerStart { .. } | Probe::ServerStop { .. } => true,
        _ => false,
    }
}
