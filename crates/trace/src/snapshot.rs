//! `/sys/kernel/debug/sched/debug`: tunables, queues and tasks at one moment.

use std::str::FromStr;

use schedlab_model::Time;

use crate::TraceError;
use crate::fields::Pid;

/// What the scheduler's debug file said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The kernel's release, as `uname -r` has it.
    pub release: String,
    /// `sysctl_sched` settings: name without `sysctl_sched_`, text as printed (times in milliseconds).
    pub tunables: Vec<(String, String)>,
    /// The root fair queue of each CPU.
    pub queues: Vec<FairQueue>,
    /// Every task, asleep or not.
    pub tasks: Vec<SnapshotTask>,
}

/// One CPU's root fair queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FairQueue {
    /// The CPU.
    pub cpu: u32,
    /// The CPU's clock.
    pub clock: Time,
    /// `min_vruntime` (CFS) in nanoseconds; `None` on EEVDF kernels.
    pub min_vruntime: Option<u64>,
    /// `zero_vruntime` (EEVDF) in nanoseconds; `None` on others.
    pub zero_vruntime: Option<u64>,
    /// Queued entities, the running one included.
    pub running: u32,
}

/// One line of the task table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotTask {
    /// The CPU in whose table it stands.
    pub cpu: u32,
    /// Its state's letter.
    pub state: char,
    /// Whether it is the one that runs on its CPU: on one CPU, the reader of the file.
    pub running: bool,
    /// Its name.
    pub name: String,
    /// Its pid.
    pub pid: Pid,
    /// Its vruntime in nanoseconds. A sleeping task's is absolute; it was printed with the precision of nanoseconds.
    pub vruntime: i64,
    /// The kernel's priority: 120 + nice.
    pub priority: i32,
    /// Its control group's path.
    pub group: String,
}

impl Snapshot {
    /// A tunable as a time: `latency`, `min_granularity`, `wakeup_granularity`, `base_slice`.
    pub fn time(&self, name: &str) -> Option<Time> {
        Some(Time::from_nanos(u64::try_from(parse_milliseconds(self.tunable(name)?)?).ok()?))
    }

    /// A tunable as a number: `child_runs_first`, `features`.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.tunable(name)?.split_whitespace().next()?.parse().ok()
    }

    fn tunable(&self, name: &str) -> Option<&str> {
        self.tunables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The task called `pid`.
    pub fn task(&self, pid: Pid) -> Option<&SnapshotTask> {
        self.tasks.iter().find(|task| task.pid == pid)
    }
}

/// The kernel's `SPLIT_NS`: milliseconds with six decimals, signed.
fn parse_milliseconds(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.')?;
    if fraction.len() != 6 || !fraction.bytes().chain(whole.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?)?;
    Some(if negative { -nanoseconds } else { nanoseconds })
}

/// Where in the file a line stands.
enum Section {
    Head,
    Tunables,
    Cpu(u32, Time),
    RootQueue,
    Tasks(TaskColumns),
}

/// The columns of the task table, whose order differs between releases.
struct TaskColumns {
    cpu: u32,
    /// Where the virtual time stands, in words after the pid: from 7.3 on the weight comes before it.
    vruntime: usize,
    /// Where the priority stands, in words after the pid.
    priority: usize,
}

impl FromStr for Snapshot {
    type Err = TraceError;

    /// Reads the whole file.
    ///
    /// # Errors
    /// [`TraceError::Malformed`] for a task, queue or tunable line of another form; [`TraceError::Missing`] if there is no
    /// `Sched Debug Version` head or no task table.
    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut snapshot = Self::default();
        let mut section = Section::Head;
        let mut tables = 0;
        for (number, line) in (1u64..).zip(text.lines()) {
            let trimmed = line.trim();
            let wrong = |expected: &str| TraceError::malformed(number, line, expected);
            if let Some(head) = trimmed.strip_prefix("Sched Debug Version:") {
                let release = head.split_once(',').map(|(_, rest)| rest.split_whitespace().next().unwrap_or(""));
                let release = release.filter(|release| !release.is_empty());
                snapshot.release = release.ok_or_else(|| wrong("a kernel release after the comma"))?.to_owned();
            } else if trimmed == "sysctl_sched" {
                section = Section::Tunables;
            } else if let Some(rest) = trimmed.strip_prefix("cpu#") {
                let cpu = rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok());
                section = Section::Cpu(cpu.ok_or_else(|| wrong("a CPU's number after 'cpu#'"))?, Time::ZERO);
            } else if let Some(rest) = trimmed.strip_prefix("cfs_rq[") {
                let (cpu, group) = rest.split_once("]:").ok_or_else(|| wrong("'cfs_rq[CPU]:/GROUP'"))?;
                let cpu = cpu.parse().map_err(|_| wrong("'cfs_rq[CPU]:/GROUP'"))?;
                let clock = if let Section::Cpu(_, clock) = section { clock } else { Time::ZERO };
                if group == "/" {
                    snapshot.queues.push(FairQueue { cpu, clock, ..FairQueue::default() });
                    section = Section::RootQueue;
                } else {
                    section = Section::Cpu(cpu, clock);
                }
            } else if trimmed.starts_with("rt_rq[") || trimmed.starts_with("dl_rq[") {
                section = match section {
                    Section::RootQueue => {
                        let cpu = snapshot.queues.last().map_or(0, |queue| queue.cpu);
                        Section::Cpu(cpu, Time::ZERO)
                    }
                    other => other,
                };
            } else if trimmed.starts_with("S ") && trimmed.contains("PID") && trimmed.contains("prio") {
                let cpu = match &section {
                    Section::Cpu(cpu, _) => *cpu,
                    _ => snapshot.queues.last().map_or(0, |queue| queue.cpu),
                };
                section = Section::Tasks(task_columns(trimmed, cpu).ok_or_else(|| wrong("columns PID and prio"))?);
                tables += 1;
            } else if trimmed.is_empty() || trimmed.starts_with("---") || trimmed.starts_with("runnable tasks") {
                continue;
            } else {
                match &mut section {
                    Section::Head => {}
                    Section::Tunables => {
                        let (name, value) = setting(trimmed).ok_or_else(|| wrong("'.sysctl_sched_NAME : VALUE'"))?;
                        let name = name.trim_start_matches("sysctl_sched_").to_owned();
                        snapshot.tunables.push((name, value.to_owned()));
                    }
                    Section::Cpu(_, clock) => {
                        if let Some(("clock", value)) = setting(trimmed) {
                            let time = parse_milliseconds(value).and_then(|time| u64::try_from(time).ok());
                            *clock = Time::from_nanos(time.ok_or_else(|| wrong("a time in milliseconds"))?);
                        }
                    }
                    Section::RootQueue => {
                        let queue = snapshot.queues.last_mut().ok_or_else(|| wrong("a queue's head before it"))?;
                        let (name, value) = setting(trimmed).ok_or_else(|| wrong("'.NAME : VALUE'"))?;
                        read_queue(queue, name, value).map_err(wrong)?;
                    }
                    Section::Tasks(columns) => {
                        let expected = "'STATE NAME PID VRUNTIME … PRIO …'";
                        snapshot.tasks.push(task(line, columns).ok_or_else(|| wrong(expected))?);
                    }
                }
            }
        }
        if snapshot.release.is_empty() {
            return Err(TraceError::Missing {
                what: "the snapshot's head, 'Sched Debug Version: …, RELEASE'".to_owned(),
            });
        }
        if tables == 0 {
            return Err(TraceError::Missing { what: "the snapshot's task table, 'runnable tasks:'".to_owned() });
        }
        Ok(snapshot)
    }
}

/// `.name   : value`.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix('.')?.split_once(':')?;
    Some((name.trim(), value.trim()))
}

fn read_queue(queue: &mut FairQueue, name: &str, value: &str) -> Result<(), &'static str> {
    // A vruntime is printed as a signed number of milliseconds; the bits are those of the u64.
    let vruntime = |text| parse_milliseconds(text).map(|value| value as u64).ok_or("a time in milliseconds");
    match name {
        "min_vruntime" => queue.min_vruntime = Some(vruntime(value)?),
        "zero_vruntime" => queue.zero_vruntime = Some(vruntime(value)?),
        "nr_running" | "nr_queued" => queue.running = value.parse().map_err(|_| "a number of tasks")?,
        _ => {}
    }
    Ok(())
}

/// From the table's head.
fn task_columns(head: &str, cpu: u32) -> Option<TaskColumns> {
    let names: Vec<&str> = head.split_whitespace().collect();
    let pid = names.iter().position(|name| *name == "PID")?;
    let priority = names.iter().position(|name| *name == "prio")?.checked_sub(pid)?;
    let vruntime = if names.get(pid + 1) == Some(&"weight") { 2 } else { 1 };
    Some(TaskColumns { cpu, vruntime, priority })
}

/// `>R  cat   240   7799.819194  51   120 …`: a name may hold blanks, so the columns are counted from the first word that
/// is a pid and is followed by a time, with a weight in between where the head has one.
fn task(line: &str, columns: &TaskColumns) -> Option<SnapshotTask> {
    let line = line.trim_start();
    let (running, line) = line.strip_prefix('>').map_or((false, line), |rest| (true, rest));
    let words: Vec<&str> = line.split_whitespace().collect();
    let state = words.first()?.chars().next()?;
    let is_pid = |index: usize| {
        words[index].parse::<Pid>().is_ok()
            && words[index + 1..].iter().take(columns.vruntime - 1).all(|weight| weight.parse::<u64>().is_ok())
            && words.get(index + columns.vruntime).copied().and_then(parse_milliseconds).is_some()
    };
    let pid = (2..words.len()).find(|index| is_pid(*index))?;
    Some(SnapshotTask {
        cpu: columns.cpu,
        state,
        running,
        name: words[1..pid].join(" "),
        pid: words[pid].parse().ok()?,
        vruntime: parse_milliseconds(words[pid + columns.vruntime])?,
        priority: words.get(pid + columns.priority)?.parse().ok()?,
        group: (*words.last()?).to_owned(),
    })
}
