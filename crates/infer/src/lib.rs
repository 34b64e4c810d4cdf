//! From a real kernel's recording to a [`Workload`] with the same behaviour: what each task computes, when it sleeps, which task wakes
//! which.
//!
//! A recording of the scheduler's tracepoints shows which task ran when, and which task or interrupt woke a sleeper. From that follows what
//! each task *asked for*, apart from what the scheduler made of it:
//!
//! - **CPU time** from one event of its own to the next, however often it was preempted in between; net of what the simulator charges by itself
//!   (switches, wake-ups, ticks, system calls), so that nothing is counted twice.
//! - **Waiting for another task**: a sleep that another task ended, by a pipe, a lock, a signal or a child's end, becomes a semaphore of the
//!   sleeper's name, which the waker posts at the same point of its own work. As only the sleeper waits there, and each wait had its post,
//!   the workload can be run to its end under any schedule.
//!   Tasks that one system call wakes are posted together, since no preemption falls between their wake-ups.
//! - **Sleeping**: a sleep that an interrupt ended lasts as long as it did. One that a high-resolution timer ended keeps its period instead,
//!   where the task's sleeps vary more than the time from expiry to expiry.
//! - **Births, ends and changes** of policy, nice level and group, and each task's identity: from the events and the head's tables.
//!
//! ```
//! use schedlab_infer::{Options, infer};
//! use schedlab_trace::Reader;
//! let text = "\
//!  a-7 0d..2. 1.000000000: sched_switch: a:7 [120] S ==> b:8 [120]
//!  b-8 0d..2. 1.001000000: sched_waking: comm=a pid=7 prio=120 target_cpu=000
//!  b-8 0d..2. 1.003000000: sched_switch: b:8 [120] S ==> a:7 [120]
//! ";
//! let inferred = infer(Reader::new(text.as_bytes()), &Options::default())?;
//! assert_eq!(inferred.workload.tasks.len(), 2);
//! assert_eq!(inferred.counts.woken_by_tasks, 1);
//! # Ok::<(), schedlab_infer::InferError>(())
//! ```

mod activity;
mod attribute_changes;
mod call;
mod cost_model;
mod error;
mod observer;
mod periodic;
mod repeat;
mod settings;
mod synthesize;
mod task_table;
mod task_trace;
mod ticks;
mod wake_group;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;

use schedlab_metrics::Behaved;
use schedlab_model::{Costs, RuleSet, Time, Workload};
use schedlab_trace::{Head, Reader, Record, RecordKind, open};
use serde::Serialize;

pub use error::InferError;
pub use observer::{MAX_DOINGS, MAX_RECORDED_TASKS};
pub use settings::Recorded;

use cost_model::CostModel;
use observer::Observer;
use synthesize::Background;
use task_table::KnownTask;
use task_trace::State;

/// When an inferred run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// When every task has done what it did in the recording.
    Work,
    /// When as much time has passed as in the recording; tasks that were there at its end begin anew if they are done before.
    Time,
}

/// The options of [`infer`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The workload's name.
    pub name: String,
    /// The costs that the simulator charges itself.
    pub costs: Costs,
    /// From when on, since the recording's beginning.
    pub from: Option<Time>,
    /// Until when.
    pub to: Option<Time>,
    /// When the run is over; by work if the recorded command ended in what is looked at, by time otherwise.
    pub ending: Option<Ending>,
}

/// What was inferred from. Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Events looked at.
    pub events: u64,
    /// How long the part was that was looked at.
    pub span_ns: u64,
    /// Tasks of the workload.
    pub tasks: u64,
    /// Of those, threads of the kernel's own.
    pub kernel_threads: u64,
    /// Steps that were seen, before equal ones became loops.
    pub steps: u64,
    /// Tasks whose timers keep a period.
    pub periodic: u64,
    /// Tasks that were made meanwhile.
    pub forks: u64,
    /// Tasks that ended.
    pub exits: u64,
    /// Changes of policies, nice levels and groups.
    pub changes: u64,
    /// Sleeps that another task of the workload ended.
    pub woken_by_tasks: u64,
    /// Of those, sleeps in `futex(2)`, where the recording has the entries of system calls (as the next two).
    pub at_locks: u64,
    /// Sleeps in reading, writing, and waiting until that is possible.
    pub at_channels: u64,
    /// Sleeps in waiting for a child.
    pub at_children: u64,
    /// Sleeps that a high-resolution timer ended.
    pub woken_by_timers: u64,
    /// Sleeps that another interrupt ended: devices, the network, the timer wheel.
    pub woken_by_interrupts: u64,
    /// Sleeps of which the recording does not show what ended them; they are taken to last as long as they did.
    pub woken_by_unknown: u64,
    /// Switches that are not in the recording: from tasks of which the kernel traces nothing. Such a task is taken to sleep from then on.
    pub switches_missing: u64,
    /// CPU time that was taken off because the simulator charges for it by itself.
    pub costs_ns: u64,
    /// Costs that were longer than the recorded time in which they fall.
    pub uncovered_ns: u64,
    /// CPU time in which timer ticks are missing: a guest whose CPUs were not run, or a CPU without ticks (`nohz_full`).
    pub held_up_ns: u64,
}

/// The inferred workload, and what the recording says about its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Inferred {
    /// The workload.
    pub workload: Workload,
    /// How its run ends.
    pub ending: Ending,
    /// How the kernel was set, where the recording says so.
    pub recorded: Option<Recorded>,
    /// How long after a timer tick the recording begins, where it shows ticks: as simulated runs take it.
    pub phase: Option<Time>,
    /// What it was inferred from.
    pub counts: Counts,
    /// How the tasks behaved in the recording, under the workload's names.
    pub behaved: Behaved,
    /// What the recording cannot show, where another program made it.
    pub limits: Vec<String>,
}

/// Infers a workload from a file, gzipped or plain.
///
/// # Errors
/// As [`infer`]'s; [`InferError::Trace`] also if the file cannot be read.
pub fn infer_file(path: &Path, options: &Options) -> Result<Inferred, InferError> {
    infer(open(path)?, options)
}

/// Infers a workload from a recording. O(events) time; of each event at most 16 bytes are kept.
///
/// # Errors
/// [`InferError::Trace`] for a line that cannot be read and for lost events, [`InferError::Head`] for a head that says what cannot be,
/// [`InferError::Empty`] and [`InferError::Window`] where there is nothing, [`InferError::TooMuch`] beyond [`MAX_DOINGS`] steps or
/// [`MAX_RECORDED_TASKS`] tasks.
pub fn infer<R: BufRead>(mut reader: Reader<R>, options: &Options) -> Result<Inferred, InferError> {
    // The head is there once the first event was read.
    let first = reader.next().transpose()?;
    let head = reader.head().cloned();
    let known = Known::of(head.as_ref(), reader.release())?;
    let period =
        1_000_000_000 / u64::from(known.recorded.as_ref().map_or(250, |recorded| recorded.scheduler.hz).max(1));
    let group_paths = known.groups.iter().map(|(number, path, _)| (*number, path.clone())).collect();
    let groups = known.known_tasks.iter().filter_map(|(pid, task)| Some((*pid, task.group.clone()?))).collect();
    let mut observer = Observer::new(known.left_out(), CostModel::new(&options.costs), period, group_paths, groups);
    let mut window =
        Window { from: options.from.unwrap_or_default(), to: options.to, marked: head.is_some(), ..Window::default() };
    for record in first.map(Ok).into_iter().chain(&mut reader) {
        if !window.takes(&record?, &mut observer)? {
            break;
        }
    }
    // Without a beginning nothing was taken in; what is behind the end is read all the same, as it may be cut off.
    reader.try_for_each(|record| record.map(|_| ()))?;
    let length = window.close(&mut observer)?;
    observer.counts.span_ns = length;
    let command = known.command.and_then(|pid| observer.number_of(pid).or_else(|| dead(&observer, pid)));
    let ended = command.is_some_and(|command| observer.traces[command as usize].state == State::Dead);
    let ending = options.ending.unwrap_or(if ended { Ending::Work } else { Ending::Time });
    let background = Background {
        name: options.name.clone(),
        autogroup: known.recorded.as_ref().is_some_and(|recorded| recorded.scheduler.autogroup()),
        known_tasks: known.known_tasks,
        groups: known.groups,
        command,
        ending,
        length,
    };
    let names = synthesize::names(&observer.traces);
    let workload = synthesize::synthesize(&mut observer, &names, &background)?;
    let behaved = observer.behaviour.summary(Time::from_nanos(length), |task| names[task.index()].clone());
    let recorded =
        known.recorded.map(|recorded| Recorded { cpus: recorded.cpus.max(observer.cpus() as u32), ..recorded });
    let phase = observer.phase();
    let limits = reader.limits().into_iter().map(str::to_owned).collect();
    Ok(Inferred { workload, ending, recorded, phase, counts: observer.counts, behaved, limits })
}

/// The number of a task that has ended.
fn dead(observer: &Observer, pid: schedlab_trace::Pid) -> Option<u32> {
    observer.traces.iter().position(|trace| trace.pid == pid && trace.ran).map(|number| number as u32)
}

/// What the head says.
#[derive(Default)]
struct Known {
    recorded: Option<Recorded>,
    known_tasks: BTreeMap<schedlab_trace::Pid, KnownTask>,
    groups: Vec<(u64, String, schedlab_model::Group)>,
    recorders: Vec<schedlab_trace::Pid>,
    command: Option<schedlab_trace::Pid>,
}

impl Known {
    fn of(head: Option<&Head>, release: Option<&str>) -> Result<Self, InferError> {
        let Some(head) = head else {
            let recorded = release.map(settings::of_release).transpose()?;
            return Ok(Self { recorded, ..Self::default() });
        };
        let recorded = settings::recorded(head)?;
        let tunables =
            recorded.scheduler.tunables(recorded.cpus).map_err(|error| InferError::Head(error.to_string()))?;
        let slice = RuleSet::of(recorded.scheduler.release).eevdf.then_some(tunables.base_slice);
        let recorders = head.recorder();
        Ok(Self {
            known_tasks: task_table::known_tasks(head, recorded.cpus, slice)?,
            groups: task_table::groups(head)?,
            command: recorders.get(1).copied(),
            recorders: recorders.into_iter().take(1).collect(),
            recorded: Some(recorded),
        })
    }

    /// The recorder itself is no part of what it records.
    fn left_out(&self) -> BTreeSet<schedlab_trace::Pid> {
        self.recorders.iter().copied().collect()
    }
}

/// The part of the recording that is looked at.
#[derive(Debug, Default)]
struct Window {
    from: Time,
    to: Option<Time>,
    /// Whether marks say where it begins and ends.
    marked: bool,
    /// When the recording begins.
    origin: Option<Time>,
    /// Whether the part has begun.
    begun: bool,
    last: Time,
}

impl Window {
    /// Takes in an event; false once the end is reached.
    fn takes(&mut self, record: &Record, observer: &mut Observer) -> Result<bool, InferError> {
        let mark = mark(record);
        if self.origin.is_none() && (!self.marked || mark == Some("begin")) {
            self.origin = Some(record.time);
        }
        if let Some(origin) = self.origin {
            let since = record.time.saturating_sub(origin);
            if !self.begun && since >= self.from {
                self.begun = true;
                observer.begin(origin.saturating_add(self.from).as_nanos());
            }
            if self.to.is_some_and(|to| since >= to) || (self.marked && mark == Some("end")) {
                self.last = self.to.map_or(record.time, |to| record.time.min(origin.saturating_add(to)));
                return Ok(false);
            }
            self.last = self.last.max(record.time);
        }
        observer.record(record)?;
        Ok(true)
    }

    /// The end; how long the part was, in nanoseconds.
    fn close(&self, observer: &mut Observer) -> Result<u64, InferError> {
        let Some(origin) = self.origin else { return Err(InferError::Empty(String::new())) };
        let length = self.last.saturating_sub(origin);
        let to = self.to.unwrap_or(length);
        if !self.begun || to <= self.from || length <= self.from {
            return Err(InferError::Window { from: self.from, to, length });
        }
        observer.end(self.last.as_nanos());
        Ok(length.saturating_sub(self.from).as_nanos())
    }
}

/// What the recorder wrote between the events.
fn mark(record: &Record) -> Option<&str> {
    match &record.kind {
        RecordKind::Other { event, text } if &**event == "tracing_mark_write" => text.trim().strip_prefix("schedlab: "),
        _ => None,
    }
}
