//! How long tasks wait from being woken until they run, in a recording or a simulation's trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schedlab_model::Latency;
use schedlab_trace::{Context, Pid, Record, RecordKind, TraceError, open};
use serde::Serialize;

use crate::ReplayError;

/// Waits from being woken to running, see [`wakeup_latency`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Those that were told from beginning to end.
    #[serde(flatten)]
    pub latency: Latency,
    /// How many more waits ended in a gap: the task ran without a recorded switch to it. They are left out.
    pub untold: u64,
}

/// What is known of a recorded run besides its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordedRun {
    /// The command that was recorded.
    pub command: Option<Pid>,
    /// When its runner ended it, by the kernel's `CLOCK_MONOTONIC`.
    pub end: Option<u64>,
    /// What that clock said as the recording began, where that is known.
    pub begun: Option<u64>,
    /// How long after the switch the arriving task reported its arrival.
    pub arrival_lag: u64,
}

/// The event of an arrival that no switch tells of.
const ARRIVAL: &str = "schedlab_arrival";
/// What the recorder writes as the recording begins.
const BEGIN: &str = "schedlab: begin";

/// The times from each `sched_waking` of a task to the `sched_switch` that brings it, exact percentiles by nearest rank; `None` where
/// no such wait is told.
///
/// In a recording of a command, `command` is its pid: only its descendants count, and of their wake-ups those that it did not do
/// itself, since a runner's are the start signal and no part of the workload. Without one every task counts.
///
/// A task that is woken while it has not left its CPU yet waits for nothing, and what is still waiting at the end is left out. A run whose
/// `end` is given is over then: its runner stands above all tasks, and stops them one by one.
///
/// A kernel may tell nothing of some tasks, so that the switch from one of them to a woken task is missing. If that one's arrival is there,
/// the switch was so much earlier as arrivals of this recording lag behind switches. Otherwise when its wait ended is not known; that does
/// not matter for any other wait, which begins and ends with events of other tasks.
///
/// ```
/// use schedlab_replay::{RecordedRun, wakeup_latency};
/// use schedlab_trace::Reader;
/// let text = "\
///  a-7 0d..2. 1.000000000: sched_waking: comm=b pid=8 prio=120 target_cpu=000
///  a-7 0d..2. 1.000004000: sched_switch: a:7 [120] S ==> b:8 [120]
/// ";
/// let records: Vec<_> = Reader::new(text.as_bytes()).collect::<Result<_, _>>()?;
/// let waits = wakeup_latency(&records, RecordedRun::default()).unwrap();
/// assert_eq!((waits.latency.count, waits.latency.p50_ns, waits.untold), (1, 4_000, 0));
/// # Ok::<(), schedlab_trace::TraceError>(())
/// ```
pub fn wakeup_latency(records: &[Record], run: RecordedRun) -> Option<Waits> {
    let RecordedRun { command, end, begun, arrival_lag } = run;
    let length = end.zip(begun).map(|(end, begun)| end.saturating_sub(begun));
    let mut over = u64::MAX;
    let mut descendants: BTreeSet<Pid> = command.into_iter().collect();
    let mut seen = Seen::default();
    for record in records {
        if record.time.as_nanos() >= over {
            break;
        }
        if let (Some(length), u64::MAX, true) = (length, over, record.text.contains(BEGIN)) {
            over = record.time.as_nanos().saturating_add(length);
        }
        seen.bridge(record, arrival_lag);
        match &record.kind {
            RecordKind::Fork { parent, child, .. } if descendants.contains(parent) => {
                descendants.insert(*child);
            }
            RecordKind::Waking { task, .. } => {
                let counts = match command {
                    None => true,
                    Some(command) => {
                        let by_command = record.pid == command && record.flags.context == Context::Task;
                        let ours = descendants.contains(&task.pid) && task.pid != command;
                        ours && !by_command
                    }
                };
                if counts && !seen.runs(task.pid) {
                    seen.woken.entry(task.pid).or_insert(record.time.as_nanos());
                }
            }
            RecordKind::Switch { next, .. } => {
                seen.running.insert(record.cpu, next.pid);
                seen.ends(next.pid, record.time.as_nanos());
            }
            _ => {}
        }
    }
    seen.waits()
}

/// Which tasks run, which wait and since when, and how long the others waited.
#[derive(Debug, Default)]
struct Seen {
    running: BTreeMap<u32, Pid>,
    woken: BTreeMap<Pid, u64>,
    delays: Vec<u64>,
    untold: u64,
}

impl Seen {
    fn runs(&self, pid: Pid) -> bool {
        self.running.values().any(|&running| running == pid)
    }

    /// The task that causes an event runs. If no switch shows it, it was switched in at an unknown time since the CPU's last event, unless
    /// an arrival gives the time.
    fn bridge(&mut self, record: &Record, arrival_lag: u64) {
        let known = self.running.insert(record.cpu, record.pid);
        if known.is_none_or(|known| known == record.pid) {
            return;
        }
        if &*record.event == ARRIVAL {
            self.ends(record.pid, record.time.as_nanos().saturating_sub(arrival_lag));
        } else if self.woken.remove(&record.pid).is_some() {
            self.untold += 1;
        }
    }

    /// A task runs, whatever it waited.
    fn ends(&mut self, pid: Pid, time: u64) {
        if let Some(since) = self.woken.remove(&pid) {
            self.delays.push(time.saturating_sub(since));
        }
    }

    fn waits(self) -> Option<Waits> {
        let Self { mut delays, untold, .. } = self;
        delays.sort_unstable();
        let count = delays.len();
        let rank = |per_mille: usize| delays[(count * per_mille).div_ceil(1000).max(1) - 1];
        (count > 0).then(|| Waits {
            latency: Latency {
                count: count as u64,
                p50_ns: rank(500),
                p90_ns: rank(900),
                p99_ns: rank(990),
                p999_ns: rank(999),
                max_ns: rank(1000),
            },
            untold,
        })
    }
}

/// [`wakeup_latency`] of a file, gzipped or plain; a recording names its command in its head. `end` is when the runner of the recorded run
/// ended it, by the kernel's `CLOCK_MONOTONIC`.
///
/// # Errors
/// [`ReplayError::Trace`] if the file cannot be read, [`ReplayError::Empty`] if it holds no event.
pub fn wakeup_latency_of_file(trace: &Path, end: Option<u64>) -> Result<Option<Waits>, ReplayError> {
    let mut reader = open(trace)?;
    let records: Vec<Record> = reader.by_ref().collect::<Result<_, TraceError>>()?;
    if records.is_empty() {
        return Err(ReplayError::Empty);
    }
    // The recorder itself, and what becomes the command.
    let command = reader.head().and_then(|head| head.recorder().get(1).copied());
    let number = |name| reader.head().and_then(|head| head.fact(name)?.parse().ok());
    let (begun, arrival_lag) = (number("begun"), number("arrival_lag").unwrap_or(0));
    Ok(wakeup_latency(&records, RecordedRun { command, end, begun, arrival_lag }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::Reader;

    fn records(lines: &[&str]) -> Vec<Record> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Reader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn only_the_workloads_tasks_count_and_not_their_start_signal() {
        let lines = [
            " c-5 0d..2. 1.000000000: sched_process_fork: comm=c pid=5 child_comm=c child_pid=6",
            // The start signal; then a timer's interrupt while the command runs; then a kernel thread.
            " c-5 0d..2. 1.000001000: sched_waking: comm=w pid=6 prio=120 target_cpu=000",
            " c-5 0d..2. 1.000002000: sched_switch: c:5 [120] S ==> w:6 [120]",
            " w-6 0d..2. 1.000003000: sched_switch: w:6 [120] S ==> c:5 [120]",
            " c-5 0d.h2. 1.000004000: sched_waking: comm=w pid=6 prio=120 target_cpu=000",
            " c-5 0d..2. 1.000005000: sched_waking: comm=k pid=9 prio=120 target_cpu=000",
            " c-5 0d..2. 1.000011000: sched_switch: c:5 [120] S ==> k:9 [120]",
            " k-9 0d..2. 1.000013000: sched_switch: k:9 [120] S ==> w:6 [120]",
        ];
        let waits =
            wakeup_latency(&records(&lines), RecordedRun { command: Some(5), ..RecordedRun::default() }).unwrap();
        // From 4 to 13 us.
        assert_eq!((waits.latency.count, waits.latency.max_ns), (1, 9_000));
        // All of them: 1, 9 and 6 us.
        let waits = wakeup_latency(&records(&lines), RecordedRun::default()).unwrap();
        assert_eq!((waits.latency.count, waits.latency.p50_ns, waits.latency.max_ns), (3, 6_000, 9_000));
    }

    #[test]
    fn a_task_woken_before_it_left_waits_for_nothing() {
        let lines = [
            " a-7 0d..2. 1.000000000: sched_switch: b:8 [120] S ==> a:7 [120]",
            " a-7 0d.h2. 1.000001000: sched_waking: comm=a pid=7 prio=120 target_cpu=000",
            " a-7 0d..2. 1.000002000: sched_switch: a:7 [120] R ==> b:8 [120]",
            " b-8 0d..2. 1.000009000: sched_switch: b:8 [120] S ==> a:7 [120]",
        ];
        assert_eq!(wakeup_latency(&records(&lines), RecordedRun::default()), None);
    }

    #[test]
    fn what_the_runner_keeps_from_the_cpu_when_time_is_over_did_not_wait() {
        let lines = [
            " r-4 0d..2. 0.999999000: tracing_mark_write: schedlab: begin",
            " c-5 0d..2. 1.000000000: sched_process_fork: comm=c pid=5 child_comm=c child_pid=6",
            " c-5 0d..2. 1.000001000: sched_waking: comm=w pid=6 prio=120 target_cpu=000",
            " c-5 0d..2. 1.000002000: sched_switch: c:5 [98] S ==> w:6 [120]",
            " w-6 0d..2. 1.000003000: sched_switch: w:6 [120] S ==> swapper/0:0 [120]",
            " <idle>-0 0d.h2. 1.000005000: sched_waking: comm=w pid=6 prio=120 target_cpu=000",
            " <idle>-0 0d..2. 1.000007000: sched_switch: swapper/0:0 [120] R ==> w:6 [120]",
            " w-6 0d..2. 1.000009000: sched_switch: w:6 [120] S ==> c:5 [98]",
            " c-5 0d.h2. 1.000012000: sched_waking: comm=w pid=6 prio=120 target_cpu=000",
            " c-5 0d..2. 1.000100000: sched_switch: c:5 [98] S ==> w:6 [120]",
        ];
        // The recording begins 1 us before the second, at 500 us of the other clock; 10 us later it is at 9 us, and what is woken at 12 us
        // waits for the runner.
        let run = RecordedRun { command: Some(5), end: Some(510_000), begun: Some(500_000), ..RecordedRun::default() };
        let waits = wakeup_latency(&records(&lines), run).unwrap();
        assert_eq!((waits.latency.count, waits.latency.max_ns), (1, 2_000));
        let waits =
            wakeup_latency(&records(&lines), RecordedRun { command: Some(5), ..RecordedRun::default() }).unwrap();
        assert_eq!((waits.latency.count, waits.latency.max_ns), (2, 88_000));
    }

    #[test]
    fn a_wait_that_ended_untold_is_left_out_and_no_other() {
        let lines = [
            " a-7 0d..2. 1.000000000: sched_waking: comm=b pid=8 prio=120 target_cpu=000",
            " a-7 0d..2. 1.000001000: sched_waking: comm=c pid=9 prio=120 target_cpu=000",
            // No switch shows when 70 was switched out: at some time before 5 us, for 8, which was woken at 0.
            " a-7 0d..2. 1.000002000: sched_switch: a:7 [120] S ==> t:70 [120]",
            " b-8 0d..2. 1.000005000: sched_waking: comm=a pid=7 prio=120 target_cpu=000",
            " b-8 0d..2. 1.000006000: sched_switch: b:8 [120] S ==> c:9 [120]",
            " c-9 0d..2. 1.000007000: sched_switch: c:9 [120] S ==> a:7 [120]",
            // 9 had been preempted and was not woken: there is no wait to lose. It runs as it is woken, and waits for nothing.
            " a-7 0d..2. 1.000008000: sched_switch: a:7 [120] S ==> t:70 [120]",
            " c-9 0d.h2. 1.000009000: sched_waking: comm=c pid=9 prio=120 target_cpu=000",
            " c-9 0d..2. 1.000010000: sched_switch: c:9 [120] S ==> b:8 [120]",
        ];
        // 9 waited from 1 to 6 us, 7 from 5 to 7.
        let waits = wakeup_latency(&records(&lines), RecordedRun::default()).unwrap();
        assert_eq!(
            (waits.latency.count, waits.latency.p50_ns, waits.latency.max_ns, waits.untold),
            (2, 2_000, 5_000, 1)
        );
    }

    #[test]
    fn an_arrival_ends_a_wait_where_no_switch_does() {
        let lines = [
            " a-7 1d..2. 1.000000000: sched_switch: a:7 [120] S ==> swapper/1:0 [120]",
            " a-7 0d..2. 1.000001000: sched_waking: comm=b pid=8 prio=120 target_cpu=001",
            " b-8 1d..2. 1.000005000: schedlab_arrival: pid=8",
            " b-8 1d..2. 1.000009000: sched_switch: b:8 [120] S ==> swapper/1:0 [120]",
        ];
        // From 1 to 5 us, less the microsecond by which arrivals lag.
        let run = RecordedRun { arrival_lag: 1_000, ..RecordedRun::default() };
        let waits = wakeup_latency(&records(&lines), run).unwrap();
        assert_eq!((waits.latency.count, waits.latency.max_ns, waits.untold), (1, 3_000, 0));
    }
}
