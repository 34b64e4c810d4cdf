//! What holds in every trace, of a real kernel or of a simulation, whatever its rules (`schedlab replay --invariants`).
//!
//! The rules are [`Invariants`]'; here a recording becomes the events that these are checked on. A recording begins with tasks that
//! are there already: what a task is then, its first record tells.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use schedlab_metrics::Invariants;
use schedlab_model::{CpuId, Event, EventKind, EventSink, TaskId, TaskState, Time};
use schedlab_trace::{Head, Pid, Record, RecordKind, RecordState, TraceError, open};
use serde::Serialize;

use crate::ReplayError;
use crate::read::l0::stayed;
use crate::read::step::FIRST_FAIR_PRIORITY;
use crate::settings::affinities;

/// What the check of one trace came to.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// Events of the trace.
    pub records: u64,
    /// Tasks that took part.
    pub tasks: u64,
    /// CPUs.
    pub cpus: u32,
    /// How long a task may wait beside an idle CPU, in nanoseconds.
    pub bound_ns: u64,
    /// The first thing that was impossible, with the line it showed on.
    pub broken: Option<String>,
}

/// What a task is when it is first met.
#[derive(Debug, Clone, Copy)]
enum First {
    Running(CpuId),
    Waiting,
    Asleep,
    Unborn,
}

/// Checks records: time does not go back; one task a CPU and one CPU a task; tasks are born before they wake, asleep when they are
/// woken, runnable when they run, and where their affinity lets them; and no task waits beside an idle CPU that it may use for more
/// than `bound`, unless it is throttled (real-time and deadline tasks, and those of a group with `cpu.max`, may be).
///
/// ```
/// use schedlab_model::Time;
/// use schedlab_replay::check_invariants;
/// use schedlab_trace::Reader;
/// let text = "\
///  a-7 0d..2. 1.000000000: sched_switch: a:7 [120] R ==> b:8 [120]
///  a-7 0d..2. 1.001000000: sched_switch: a:7 [120] R ==> b:8 [120]
/// ";
/// let records: Vec<_> = Reader::new(text.as_bytes()).collect::<Result<_, _>>()?;
/// let checked = check_invariants(&records, None, Time::from_millis(10));
/// assert!(checked.broken.unwrap().contains("is switched out, but"));
/// # Ok::<(), schedlab_trace::TraceError>(())
/// ```
pub fn check_invariants(records: &[Record], head: Option<&Head>, bound: Time) -> Checked {
    let cpus = records.iter().map(|record| record.cpu + 1).max().unwrap_or(1);
    let mut check = Check::new(records, head, cpus, bound);
    let stayed = stayed(records);
    let mut broken = None;
    for (at, record) in records.iter().enumerate() {
        check.record(record, stayed.contains(&at));
        if let Some(found) = check.invariants.broken() {
            broken = Some(format!("line {}: {found}", record.line));
            break;
        }
    }
    let tasks = check.tasks.len() as u64;
    if let (None, Some(last)) = (&broken, records.last()) {
        broken = check.invariants.finish(last.time).err().map(|found| format!("line {}: {found}", last.line));
    }
    Checked { records: records.len() as u64, tasks, cpus, bound_ns: bound.as_nanos(), broken }
}

/// Checks a file, gzipped or plain; affinities come from the head of an own recording.
///
/// # Errors
/// [`ReplayError::Trace`] if the file cannot be read, [`ReplayError::Empty`] if it holds no event.
pub fn check_invariants_of_file(trace: &Path, bound: Time) -> Result<Checked, ReplayError> {
    let mut reader = open(trace)?;
    let records: Vec<Record> = reader.by_ref().collect::<Result<_, TraceError>>()?;
    if records.is_empty() {
        return Err(ReplayError::Empty);
    }
    Ok(check_invariants(&records, reader.head(), bound))
}

struct Check {
    invariants: Invariants,
    tasks: BTreeMap<Pid, TaskId>,
    named: u32,
    asleep: BTreeSet<Pid>,
    /// Tasks that may wait beside an idle CPU.
    held: Rc<RefCell<BTreeSet<TaskId>>>,
    /// Groups that are throttled, and the group each task was last queued in.
    throttled: BTreeSet<u64>,
    groups: BTreeMap<Pid, u64>,
}

impl Check {
    fn new(records: &[Record], head: Option<&Head>, cpus: u32, bound: Time) -> Self {
        let held = Rc::new(RefCell::new(BTreeSet::new()));
        let first = first_states(records);
        let tasks: BTreeMap<Pid, TaskId> = first.keys().zip(0..).map(|(pid, id)| (*pid, TaskId(id))).collect();
        let affinity: BTreeMap<TaskId, BTreeSet<u32>> = head
            .into_iter()
            .flat_map(affinities)
            .filter_map(|(pid, allowed)| Some((*tasks.get(&pid)?, allowed)))
            .collect();
        let waits = Rc::clone(&held);
        let may_run =
            move |task: TaskId, cpu: CpuId| affinity.get(&task).is_none_or(|allowed| allowed.contains(&cpu.0));
        let may_wait = move |task: TaskId| waits.borrow().contains(&task);
        let mut invariants = Invariants::new(cpus, bound).with_affinity(may_run).with_throttling(may_wait);
        let start = records.first().map_or(Time::ZERO, |record| record.time);
        let mut asleep = BTreeSet::new();
        for (pid, first) in &first {
            match (tasks.get(pid), first) {
                (Some(task), First::Running(cpu)) => invariants.assume_running(*task, *cpu),
                (Some(task), First::Waiting) => invariants.assume_waiting(*task, start),
                (Some(task), First::Asleep) => {
                    invariants.assume_asleep(*task);
                    asleep.insert(*pid);
                }
                _ => {}
            }
        }
        let named = tasks.len() as u32;
        Self { invariants, tasks, named, asleep, held, throttled: BTreeSet::new(), groups: BTreeMap::new() }
    }

    fn task(&self, pid: Pid) -> TaskId {
        self.tasks.get(&pid).copied().unwrap_or(TaskId::IDLE)
    }

    fn record(&mut self, record: &Record, stays: bool) {
        let kind = match &record.kind {
            RecordKind::Switch { previous, state, next } => {
                let sleeps = *state != RecordState::Running && !stays;
                let state = match state {
                    RecordState::Dead(_) => TaskState::Dead,
                    RecordState::Sleeping(_) if sleeps => TaskState::Interruptible,
                    _ => TaskState::Running,
                };
                if state == TaskState::Interruptible {
                    self.asleep.insert(previous.pid);
                }
                self.hold(previous.pid, previous.priority);
                EventKind::Switch { previous: self.task(previous.pid), state, next: self.task(next.pid) }
            }
            RecordKind::Wakeup { task, target } if self.asleep.remove(&task.pid) => {
                self.hold(task.pid, task.priority);
                let waker = self.task(record.pid);
                EventKind::Waking { task: self.task(task.pid), waker, target: CpuId(*target) }
            }
            RecordKind::WakeupNew { task, target } => {
                EventKind::WakeupNew { task: self.task(task.pid), target: CpuId(*target) }
            }
            RecordKind::Fork { parent, child, .. } => {
                // A number that is given again is another task's.
                if self.asleep.contains(child) || self.groups.contains_key(child) {
                    self.groups.remove(child);
                    self.tasks.insert(*child, TaskId(self.named));
                    self.named += 1;
                }
                EventKind::Fork { parent: self.task(*parent), child: self.task(*child) }
            }
            RecordKind::Exit { task } => EventKind::Exit { task: self.task(task.pid) },
            _ => return self.note_groups(record),
        };
        self.invariants.event(Event { time: record.time, cpu: CpuId(record.cpu), kind });
    }

    /// A real-time or deadline task may be throttled, which nothing but a probe tells; so may one of a throttled group.
    fn hold(&self, pid: Pid, priority: i32) {
        let group = self.groups.get(&pid).copied().unwrap_or(0);
        let task = self.task(pid);
        let mut held = self.held.borrow_mut();
        if priority < FIRST_FAIR_PRIORITY || (group != 0 && !self.throttled.is_empty()) {
            held.insert(task);
        } else {
            held.remove(&task);
        }
    }

    fn note_groups(&mut self, record: &Record) {
        let group = record.number("tg").unwrap_or(0);
        match &*record.event {
            "k_enq" | "k_move" => {
                let nested = record.number("ptg").is_some_and(|parent| parent != 0);
                if let Some(pid) = record.number("pid") {
                    self.groups.insert(pid as Pid, if nested { group } else { 0 });
                }
            }
            "k_thr" => {
                self.throttled.insert(group);
                let nested = self.groups.iter().filter(|(_, group)| **group != 0).map(|(pid, _)| self.task(*pid));
                self.held.borrow_mut().extend(nested);
            }
            "k_unthr" => {
                self.throttled.remove(&group);
            }
            _ => {}
        }
    }
}

/// What each task is before the first record, by the first that tells.
fn first_states(records: &[Record]) -> BTreeMap<Pid, First> {
    let mut first = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for record in records {
        if seen.insert(record.cpu) {
            first.insert(record.pid, First::Running(CpuId(record.cpu)));
        }
        let mut note = |pid: Pid, state: First| {
            first.entry(pid).or_insert(state);
        };
        match &record.kind {
            RecordKind::Switch { previous, next, .. } => {
                note(previous.pid, First::Running(CpuId(record.cpu)));
                note(next.pid, First::Waiting);
            }
            RecordKind::Waking { task, .. } | RecordKind::Wakeup { task, .. } => note(task.pid, First::Asleep),
            RecordKind::Fork { child, .. } => note(*child, First::Unborn),
            RecordKind::Exit { task } => note(task.pid, First::Running(CpuId(record.cpu))),
            _ => {}
        }
    }
    first.remove(&0);
    first
}
