//! How long tasks wait from being woken until they run, in a recording or a simulation's trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schedlab_model::Latency;
use schedlab_trace::{Context, Pid, Record, RecordKind, TraceError, open};

use crate::ReplayError;

/// The times from each `sched_waking` of a task to the `sched_switch` that brings it, exact percentiles by nearest rank; `None` where
/// nobody was woken.
///
/// In a recording of a command, `command` is its pid: only its descendants count, and of their wake-ups those that it did not do
/// itself, since a runner's are the start signal and no part of the workload. Without one every task counts.
///
/// A task that is woken while it has not left its CPU yet waits for nothing, and what is still waiting at the end is left out. A run whose
/// `duration` is given ends so many nanoseconds after its start signal: its runner then stands above all tasks, and stops them one by one.
///
/// ```
/// use schedlab_replay::wakeup_latency;
/// use schedlab_trace::Reader;
/// let text = "\
///  a-7 0d..2. 1.000000000: sched_waking: comm=b pid=8 prio=120 target_cpu=000
///  a-7 0d..2. 1.000004000: sched_switch: a:7 [120] S ==> b:8 [120]
/// ";
/// let records: Vec<_> = Reader::new(text.as_bytes()).collect::<Result<_, _>>()?;
/// let latency = wakeup_latency(&records, None, None).unwrap();
/// assert_eq!((latency.count, latency.p50_ns, latency.max_ns), (1, 4_000, 4_000));
/// # Ok::<(), schedlab_trace::TraceError>(())
/// ```
pub fn wakeup_latency(records: &[Record], command: Option<Pid>, duration: Option<u64>) -> Option<Latency> {
    let mut over = u64::MAX;
    let mut descendants: BTreeSet<Pid> = command.into_iter().collect();
    let mut running: BTreeSet<Pid> = BTreeSet::new();
    let mut woken: BTreeMap<Pid, u64> = BTreeMap::new();
    let mut delays: Vec<u64> = Vec::new();
    for record in records {
        if record.time.as_nanos() >= over {
            break;
        }
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
                        if let (true, true, u64::MAX, Some(duration)) = (ours, by_command, over, duration) {
                            over = record.time.as_nanos().saturating_add(duration);
                        }
                        ours && !by_command
                    }
                };
                if counts && !running.contains(&task.pid) {
                    woken.entry(task.pid).or_insert(record.time.as_nanos());
                }
            }
            RecordKind::Switch { previous, next, .. } => {
                running.remove(&previous.pid);
                running.insert(next.pid);
                if let Some(since) = woken.remove(&next.pid) {
                    delays.push(record.time.as_nanos().saturating_sub(since));
                }
            }
            _ => {}
        }
    }
    delays.sort_unstable();
    let count = delays.len();
    let rank = |per_mille: usize| delays[(count * per_mille).div_ceil(1000).max(1) - 1];
    (count > 0).then(|| Latency {
        count: count as u64,
        p50_ns: rank(500),
        p90_ns: rank(900),
        p99_ns: rank(990),
        p999_ns: rank(999),
        max_ns: rank(1000),
    })
}

/// The same of a file, gzipped or plain; a recording names its command in its head. `duration` is of the recorded run, where that was
/// ended by its runner.
///
/// # Errors
/// [`ReplayError::Trace`] if the file cannot be read, [`ReplayError::Empty`] if it holds no event.
pub fn wakeup_latency_of_file(trace: &Path, duration: Option<u64>) -> Result<Option<Latency>, ReplayError> {
    let mut reader = open(trace)?;
    let records: Vec<Record> = reader.by_ref().collect::<Result<_, TraceError>>()?;
    if records.is_empty() {
        return Err(ReplayError::Empty);
    }
    // The recorder itself, and what becomes the command.
    let command = reader.head().and_then(|head| head.recorder().get(1).copied());
    Ok(wakeup_latency(&records, command, duration))
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
        let latency = wakeup_latency(&records(&lines), Some(5), None).unwrap();
        // From 4 to 13 us.
        assert_eq!((latency.count, latency.max_ns), (1, 9_000));
        // All of them: 1, 9 and 6 us.
        let latency = wakeup_latency(&records(&lines), None, None).unwrap();
        assert_eq!((latency.count, latency.p50_ns, latency.max_ns), (3, 6_000, 9_000));
    }

    #[test]
    fn a_task_woken_before_it_left_waits_for_nothing() {
        let lines = [
            " a-7 0d..2. 1.000000000: sched_switch: b:8 [120] S ==> a:7 [120]",
            " a-7 0d.h2. 1.000001000: sched_waking: comm=a pid=7 prio=120 target_cpu=000",
            " a-7 0d..2. 1.000002000: sched_switch: a:7 [120] R ==> b:8 [120]",
            " b-8 0d..2. 1.000009000: sched_switch: b:8 [120] S ==> a:7 [120]",
        ];
        assert_eq!(wakeup_latency(&records(&lines), None, None), None);
    }

    #[test]
    fn what_the_runner_keeps_from_the_cpu_when_time_is_over_did_not_wait() {
        let lines = [
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
        // The signal comes 1 us after the second; 8 us of a run later it is at 9 us, and what is woken at 12 us waits for the runner.
        let latency = wakeup_latency(&records(&lines), Some(5), Some(8_000)).unwrap();
        assert_eq!((latency.count, latency.max_ns), (1, 2_000));
        let latency = wakeup_latency(&records(&lines), Some(5), None).unwrap();
        assert_eq!((latency.count, latency.max_ns), (2, 88_000));
    }
}
