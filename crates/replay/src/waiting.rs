//! Where the waiting time of a recording went: its events, with the reasons of the decisions that the rules made of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use schedlab_metrics::{Attribution, Waits};
use schedlab_model::{
    Candidate, CpuId, Decision, Event, EventKind, EventSink, Reason, Release, RuleSet, TaskId, TaskState, Time,
};
use schedlab_trace::{Pid, Reader, Record, RecordKind, RecordState, TaskRef, TraceError, open};

use crate::bare::{complete_wakeups, decisions_by_class, pick_by_class};
use crate::engine::of_several_cpus;
use crate::read::step::FIRST_FAIR_PRIORITY;
use crate::report::Move;
use crate::settings::affinities;
use crate::{Level, Options, ReplayError, Report, read_snapshot, replay_file, settings_of};

/// A recording's waits with their causes.
#[derive(Debug, Clone)]
pub struct Attributed {
    /// The waits; tasks have numbers of their own.
    pub waits: Waits,
    /// The events that they come from, of tasks with the same numbers.
    pub events: Vec<Event>,
    /// By those numbers the pids.
    pub pids: Vec<Pid>,
    /// CPUs that the recording tells of.
    pub cpus: u32,
    /// The replay, whose decisions give the causes.
    pub report: Report,
}

impl Attributed {
    /// What a task or group is called: `name[pid]` where the recording tells the name.
    pub fn name_of(&self, candidate: Candidate) -> String {
        let pid = |task: TaskId| self.pids.get(task.index()).copied().unwrap_or(task.0);
        match candidate {
            Candidate::Task(task) => self.report.name_of(Candidate::Task(TaskId(pid(task)))),
            group @ Candidate::Group(_) => self.report.name_of(group),
        }
    }
}

/// Replays a file, gzipped or plain, and attributes the waiting time of its tasks from the first decision on.
///
/// Recordings of several CPUs without probes are not replayed: of them only what priorities decide has a cause, and what CPUs cost that
/// idle or switch.
///
/// Of a switch that our rules would have made to another task, the priorities tell what they decided: tasks below its class wait for that,
/// and those of the fair class have no cause where it goes to one of them.
///
/// # Errors
/// As [`replay_file`].
pub fn attribute_file(trace: &Path, options: &Options<'_>) -> Result<Attributed, ReplayError> {
    let mut reader = open(trace)?;
    let records: Vec<Record> = reader.by_ref().collect::<Result<_, TraceError>>()?;
    let records = complete_wakeups(records);
    let mut report = if of_several_cpus(&records) && Level::of(&records) != Level::L1 {
        report_by_class(&reader, &records, options)?
    } else {
        replay_file(trace, &Options { reasons: true, ..*options })?
    };
    let release: Release = report.release.parse().map_err(|why| ReplayError::Settings(format!("{why}")))?;
    let mut decisions = std::mem::take(&mut report.reasons);
    decisions.sort_by_key(|decision| decision.time);
    let cpus = records.iter().map(|record| record.cpu).max().unwrap_or(0) + 1;
    let mut numbers = Numbers::default();
    let mut attribution = Attribution::new(cpus, &RuleSet::of(release));
    if let Some(head) = reader.head() {
        for (pid, allowed) in affinities(head) {
            // All of the machine's are no restriction.
            if (0..cpus).any(|cpu| !allowed.contains(&cpu)) {
                attribution.affinity(numbers.of(pid), &allowed.into_iter().collect::<Vec<_>>());
            }
        }
    }
    let begins = decisions.first().map(|decision| decision.time);
    let mut events = Vec::new();
    let mut running = running_at(&records, begins);
    let mut picked: BTreeMap<u32, TaskId> = BTreeMap::new();
    let mut moves = std::mem::take(&mut report.moves).into_iter().peekable();
    let mut decisions = decisions.into_iter().peekable();
    let mut end = schedlab_model::Time::ZERO;
    for record in &records {
        end = end.max(record.time);
        if begins.is_none_or(|begins| record.time < begins) {
            continue;
        }
        for (cpu, task) in std::mem::take(&mut running) {
            let (time, cpu) = (record.time, CpuId(cpu));
            attribution.decision(numbers.rename(Decision { time, cpu, reason: pick_by_class(&task) }));
            let next = numbers.of(task.pid);
            let kind = EventKind::Switch { previous: TaskId::IDLE, state: TaskState::Running, next };
            attribution.event(Event { time, cpu, kind });
        }
        while let Some(Move { pid, groups, .. }) = moves.next_if(|change| change.time <= record.time) {
            attribution.moved(numbers.of(pid), &groups);
        }
        while let Some(decision) = decisions.next_if(|decision| decision.time <= record.time) {
            if let Reason::Pick { task, .. } = decision.reason {
                picked.insert(decision.cpu.0, task);
            }
            attribution.decision(numbers.rename(decision));
        }
        if let RecordKind::Switch { next, .. } = &record.kind
            && next.pid != 0
            && picked.insert(record.cpu, TaskId(next.pid)) != Some(TaskId(next.pid))
        {
            let (time, cpu, reason) = (record.time, CpuId(record.cpu), pick_by_class(next));
            attribution.decision(numbers.rename(Decision { time, cpu, reason }));
        }
        if let Some(kind) = event_of(record, &mut numbers) {
            let event = Event { time: record.time, cpu: CpuId(record.cpu), kind };
            attribution.event(event);
            events.push(event);
        }
    }
    Ok(Attributed { waits: attribution.finish(end), events, pids: numbers.pids, cpus, report })
}

/// What runs on each CPU where the decisions begin: what the last switch before says, else what the CPU's first record from then on does.
/// The priority is what the next switch shows.
fn running_at(records: &[Record], begins: Option<Time>) -> BTreeMap<u32, TaskRef> {
    let mut running: BTreeMap<u32, TaskRef> = BTreeMap::new();
    let Some(begins) = begins else { return running };
    let mut leaves: BTreeMap<u32, &TaskRef> = BTreeMap::new();
    for record in records.iter().rev() {
        match &record.kind {
            RecordKind::Switch { next, .. } if record.time < begins => {
                running.entry(record.cpu).or_insert_with(|| next.clone());
            }
            RecordKind::Switch { previous, .. } => {
                leaves.insert(record.cpu, previous);
            }
            _ => {}
        }
    }
    for record in records {
        running.entry(record.cpu).or_insert_with(|| match leaves.get(&record.cpu) {
            Some(previous) if previous.pid == record.pid => (*previous).clone(),
            _ => TaskRef { name: "".into(), pid: record.pid, priority: FIRST_FAIR_PRIORITY },
        });
    }
    running
}

/// The report of a recording of several CPUs without probes, with the decisions that priorities tell.
fn report_by_class<R: BufRead>(
    reader: &Reader<R>,
    records: &[Record],
    options: &Options<'_>,
) -> Result<Report, ReplayError> {
    let settings = settings_of(reader, records, read_snapshot(options)?, options.release)?;
    if let Some(asked) = options.release
        && asked.series() != settings.release.series()
    {
        let why = format!("the recording is of kernel {}, not of {asked}", settings.release);
        return Err(ReplayError::Settings(why));
    }
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return Err(ReplayError::Empty) };
    let mut report = Report::of(first, last, Level::of(records), records.len(), &settings);
    report.schedules.name(records);
    report.reasons = decisions_by_class(records);
    report.notes.extend(reader.limits().into_iter().map(str::to_owned));
    report.notes.push(
        "the recording is of several CPUs and has no probes, so the fair class's decisions are not replayed: waits within a class stay \
         unknown ('schedlab record' records probes)"
            .to_owned(),
    );
    Ok(report)
}

/// Tasks numbered in the order in which they are met.
#[derive(Debug, Default)]
struct Numbers {
    numbers: BTreeMap<Pid, TaskId>,
    pids: Vec<Pid>,
}

impl Numbers {
    /// A decision about pids as one about these numbers.
    fn rename(&mut self, mut decision: Decision) -> Decision {
        let known = RefCell::new(self);
        let number = |task: TaskId| if task == TaskId::IDLE { task } else { known.borrow_mut().of(task.0) };
        decision.reason.rename(&number);
        decision
    }

    fn of(&mut self, pid: Pid) -> TaskId {
        if pid == 0 {
            return TaskId::IDLE;
        }
        let pids = &mut self.pids;
        *self.numbers.entry(pid).or_insert_with(|| {
            pids.push(pid);
            TaskId(pids.len() as u32 - 1)
        })
    }
}

fn event_of(record: &Record, numbers: &mut Numbers) -> Option<EventKind> {
    Some(match &record.kind {
        RecordKind::Switch { previous, state, next } => {
            let state = match state {
                RecordState::Running => TaskState::Running,
                RecordState::Sleeping(_) => TaskState::Interruptible,
                RecordState::Dead(_) => TaskState::Dead,
            };
            EventKind::Switch { previous: numbers.of(previous.pid), state, next: numbers.of(next.pid) }
        }
        RecordKind::Waking { task, target } | RecordKind::Wakeup { task, target } => {
            EventKind::Waking { task: numbers.of(task.pid), waker: numbers.of(record.pid), target: CpuId(*target) }
        }
        RecordKind::WakeupNew { task, target } => {
            EventKind::WakeupNew { task: numbers.of(task.pid), target: CpuId(*target) }
        }
        RecordKind::Migrate { task, from, to } => {
            EventKind::Migrate { task: numbers.of(task.pid), from: CpuId(*from), to: CpuId(*to) }
        }
        RecordKind::Fork { parent, child, .. } => {
            EventKind::Fork { parent: numbers.of(*parent), child: numbers.of(*child) }
        }
        _ => return None,
    })
}
