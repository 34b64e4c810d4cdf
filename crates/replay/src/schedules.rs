//! Both schedules of a replay, the kernel's and ours, for people to look at one above the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use schedlab_model::{CpuId, Event, EventKind, TaskId, TaskState, Time};
use schedlab_trace::{PerfettoOptions, Pid, Record, RecordKind, TaskLabel, TaskRef, TraceError, write_perfetto};

/// The task that the kernel picked each time, and the one that our rules picked.
#[derive(Debug, Clone, Default)]
pub struct Schedules {
    picks: Vec<Picked>,
    names: BTreeMap<Pid, Box<str>>,
}

/// One pick; pid 0 is the idle task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picked {
    pub(crate) time: Time,
    pub(crate) cpu: CpuId,
    pub(crate) line: u64,
    pub(crate) ours: Pid,
    pub(crate) kernels: Pid,
    /// The state in which the previous task was switched out.
    pub(crate) state: TaskState,
}

/// Beyond every pid (`PID_MAX_LIMIT`): the two schedules' own numbers, and how far our tasks' numbers are from the kernel's.
const KERNELS: u32 = (1 << 22) + 1;
const OURS: u32 = (1 << 22) + 2;
const OFFSET: u32 = 1 << 23;

impl Schedules {
    pub(crate) fn pick(&mut self, picked: Picked) {
        self.picks.push(picked);
    }

    /// Takes the tasks' names from a recording.
    pub(crate) fn name(&mut self, records: &[Record]) {
        let mut name = |task: &TaskRef| {
            self.names.insert(task.pid, task.name.clone());
        };
        for record in records {
            match &record.kind {
                RecordKind::Switch { previous, next, .. } => {
                    name(previous);
                    name(next);
                }
                RecordKind::Waking { task, .. } | RecordKind::WakeupNew { task, .. } => name(task),
                _ => {}
            }
        }
    }

    /// A task's name, if the recording tells it.
    pub(crate) fn name_of(&self, pid: Pid) -> Option<&str> {
        self.names.get(&pid).map(AsRef::as_ref)
    }

    /// Takes another's names.
    pub(crate) fn name_as(&mut self, other: Self) {
        self.names = other.names;
    }

    /// Each pick: when, on which CPU, in what state the task left that ran, what the kernel picked, and what our rules would have. Pid 0
    /// is the idle task.
    pub fn picks(&self) -> impl Iterator<Item = (Time, CpuId, TaskState, Pid, Pid)> {
        self.picks.iter().map(|one| (one.time, one.cpu, one.state, one.kernels, one.ours))
    }

    /// Writes a trace that ui.perfetto.dev opens: CPU 0 runs what the kernel ran, CPU 1 what ours would have run instead each time.
    ///
    /// The replay is forced, so after each pick both go on from the kernel's: ours differs exactly where a pick differs, and there a
    /// mark stands whose number is the recording's line. Our tasks' numbers are the kernel's pids plus 2²³.
    ///
    /// # Errors
    /// [`TraceError::Io`] if `output` cannot be written.
    pub fn write_perfetto<W: Write>(&self, output: W, release: &str) -> Result<(), TraceError> {
        let pids: BTreeSet<Pid> = self.picks.iter().flat_map(|picked| [picked.ours, picked.kernels]).collect();
        let pids: Vec<Pid> = pids.into_iter().filter(|pid| *pid != 0).collect();
        let (kernel, ours) = (TaskId(0), TaskId(1));
        let heading = |name: String, pid: u32| TaskLabel { pid: Some(pid), ..TaskLabel::new(name) };
        let mut labels =
            vec![heading(format!("kernel {release}"), KERNELS), heading(format!("our rules of {release}"), OURS)];
        for (leader, offset) in [(kernel, 0), (ours, OFFSET)] {
            labels.extend(pids.iter().map(|pid| {
                let name = self.names.get(pid).map_or("?", |name| name);
                let pid = pid.saturating_add(offset);
                TaskLabel {
                    pid: Some(pid),
                    process: Some(leader),
                    ..TaskLabel::new(format!("{name} {}", pid - offset))
                }
            }));
        }
        let number = |pid: Pid| pids.binary_search(&pid).ok().map(|place| 2 + place as u32);
        let of_kernel = |pid| number(pid).map_or(TaskId::IDLE, TaskId);
        let of_ours = |pid| number(pid).map_or(TaskId::IDLE, |place| TaskId(place + pids.len() as u32));
        let events = self.events(of_kernel, of_ours);
        write_perfetto(output, &events, &labels, &PerfettoOptions { release: release.to_owned(), cpus: 2 })
    }

    /// Writes the same to a file, of which nothing is left behind if that fails.
    ///
    /// # Errors
    /// [`TraceError::Io`] with the file's name.
    pub fn save(&self, path: &Path, release: &str) -> Result<(), TraceError> {
        let failed = |source| TraceError::Io { what: path.display().to_string(), source };
        let file = File::create(path).map_err(failed)?;
        self.write_perfetto(BufWriter::new(file), release).map_err(|error| {
            // What cannot be removed either is no worse than the failure that is told.
            let _ = std::fs::remove_file(path);
            match error {
                TraceError::Io { source, .. } => failed(source),
                other => other,
            }
        })
    }

    fn events(&self, of_kernel: impl Fn(Pid) -> TaskId, of_ours: impl Fn(Pid) -> TaskId) -> Vec<Event> {
        let mut events = Vec::new();
        let mut running: Option<(Pid, Pid)> = None;
        for picked in &self.picks {
            let (kernels, ours) = running.unwrap_or((0, 0));
            // A task that ran by our rules alone is shown as preempted.
            let state_of_ours = if ours == kernels { picked.state } else { TaskState::Running };
            let rows = [
                (CpuId(0), of_kernel(kernels), picked.state, of_kernel(picked.kernels)),
                (CpuId(1), of_ours(ours), state_of_ours, of_ours(picked.ours)),
            ];
            for (cpu, previous, state, next) in rows.into_iter().filter(|(_, previous, _, next)| previous != next) {
                let state = if previous == TaskId::IDLE { TaskState::Running } else { state };
                events.push(Event { time: picked.time, cpu, kind: EventKind::Switch { previous, state, next } });
            }
            if picked.ours != picked.kernels {
                let mark = u32::try_from(picked.line).unwrap_or(u32::MAX);
                let kind = EventKind::Mark { task: of_ours(picked.ours), mark };
                events.push(Event { time: picked.time, cpu: CpuId(1), kind });
            }
            running = Some((picked.kernels, picked.ours));
        }
        events
    }
}
