//! Workloads: tasks and the steps they take.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Clamp, File, FileAccess, Group, ModelError, Opening, Step, Time};

/// The most tasks that one run may have, so that a typing error does not use up the machine's memory.
pub const MAX_TASKS: u64 = 1_000_000;

/// Tasks, and the channels and latches through which they meet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The workload's name.
    pub name: String,
    /// Pipes and sockets, by name.
    #[serde(default)]
    pub channels: BTreeMap<String, Channel>,
    /// Latches: closed at first, opened once, open for ever. Waiting at a closed one sleeps.
    #[serde(default)]
    pub latches: Vec<String>,
    /// Files, by name; made before the run and removed after it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, File>,
    /// When the run is over, whatever the tasks are doing then; it goes on until the last task has ended where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Time>,
    /// Whether mutexes have priority inheritance (`PTHREAD_PRIO_INHERIT`): the holder is served like its most urgent waiter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub priority_inheritance: bool,
    /// Whether tasks of the real-time and deadline policies keep their memory in RAM (`mlockall(2)`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lock_pages: bool,
    /// The file or device that [`Step::Device`] writes to; `/dev/null` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_device: Option<String>,
    /// Tasks. Those with `instances` above zero are there from the start; the others only once a `fork` makes them.
    pub tasks: Vec<Task>,
    /// The mark (`Step::Mark`) at which the workload's own clock starts; the start of the run where there is none.
    #[serde(default)]
    pub turnaround_from: Option<String>,
    /// Groups of tasks, by path: `/users/alice`. Those above it are there too, with nothing set, where they are not named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Group>,
}

/// Carries bytes from writers to readers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Its kind.
    pub kind: ChannelKind,
}

/// Kinds of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// `pipe(2)` with its default capacity of 16 pages.
    Pipe,
    /// `socketpair(AF_UNIX, SOCK_STREAM)` with the default send buffer.
    Socket,
}

/// One task, or a template of equal ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its name, unique in the workload.
    pub name: String,
    /// How many of them are there from the start.
    #[serde(default)]
    pub instances: u32,
    /// Process or thread.
    #[serde(default)]
    pub kind: TaskKind,
    /// Its scheduling attributes; a forked task without any takes its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// The path of the group it lives in, one of the workload's, or `/` for none; where nothing is said a forked task lives in its
    /// parent's, and one that is there from the start in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taskgroup: Option<String>,
    /// The session (a terminal, a user's login) to which it belongs, by any name; a forked task's is its parent's where nothing is
    /// said. Under the knob `autogroup` the tasks of a session that are in no group share one group's weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The bounds of its utilisation, for choosing frequencies and CPUs (`SCHED_FLAG_UTIL_CLAMP`).
    #[serde(default, skip_serializing_if = "Clamp::is_none")]
    pub clamp: Clamp,
    /// The NUMA nodes its memory comes from (`set_mempolicy(MPOL_BIND)`); any where the list is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u32>,
    /// It sleeps until so long after the run's start before its first step, and its timers count from then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay: Time,
    /// It was there before and is asleep when the run begins, in its first step, which has to be a sleep, a timer or a semaphore. On a real
    /// kernel it runs once to get there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asleep: bool,
    /// It is other work of the machine and no part of the workload: a run does not wait for its end, and outcomes count it apart. The CPU time
    /// of its steps is all that it takes, system calls and switches included, so that the simulator charges it no other costs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Of a background task: the timers of its sleeps are deferrable (`TIMER_DEFERRABLE`), which end no CPU's idling. They expire in the first
    /// tick of a busy CPU, or with the timer of another background task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferrable: bool,
    /// What it does, in order; then it exits.
    pub steps: Vec<Step>,
}

fn is_zero(time: &Time) -> bool {
    *time == Time::ZERO
}

/// Whether a task has an address space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Made by `fork(2)`.
    #[default]
    Process,
    /// Made by `pthread_create(3)`.
    Thread,
}

/// A task's scheduling attributes, as `sched_setattr(2)`, `nice(1)` and `taskset(1)` set them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Attributes {
    /// The policy.
    pub policy: Policy,
    /// Nice level, −20 to 19; acts under the fair policies.
    pub nice: i8,
    /// The slice asked for (EEVDF kernels, 100 µs to 100 ms); the kernel's own where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Time>,
    /// The CPUs it may run on; all where the list is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affinity: Vec<u32>,
}

/// Scheduling policies, under `chrt`'s names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// `SCHED_OTHER`.
    #[default]
    Other,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO` at a priority of 1 to 99.
    Fifo(u8),
    /// `SCHED_RR` at a priority of 1 to 99.
    Rr(u8),
    /// `SCHED_DEADLINE`: `runtime` in each `period`, within `deadline` of its beginning.
    Deadline {
        /// CPU time an instance may take (`sched_runtime`), more than 1.024 µs.
        runtime: Time,
        /// How soon after its beginning an instance must have had that time (`sched_deadline`), `runtime` or more.
        deadline: Time,
        /// From instance to instance (`sched_period`), `deadline` or more, 100 µs to 4.194304 s.
        period: Time,
    },
}

/// `sched_deadline_period_min_us` and `sched_deadline_period_max_us`: 100 µs and 2²² µs.
const DEADLINE_PERIODS: (Time, Time) = (Time::from_micros(100), Time::from_micros(1 << 22));

/// `1 << DL_SCALE` ns: runtimes are compared in units of this.
const DEADLINE_RUNTIME: Time = Time::from_nanos(1024);

impl Policy {
    /// Whether the real-time class serves it.
    pub const fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo(_) | Self::Rr(_))
    }

    /// Whether it is one of the fair class's.
    pub const fn is_fair(self) -> bool {
        matches!(self, Self::Other | Self::Batch | Self::Idle)
    }

    /// Whether the deadline class serves it.
    pub const fn is_deadline(self) -> bool {
        matches!(self, Self::Deadline { .. })
    }

    /// What is wrong with the policy's parameters, if anything, and what is allowed.
    ///
    /// Source: `rt_policy` and `__checkparam_dl` as `__sched_setscheduler` asks them.
    ///
    /// ```
    /// use schedlab_model::Policy;
    /// let policy: Policy = "deadline:runtime=2ms,deadline=10ms".parse()?;
    /// assert_eq!(policy.fault(), None);
    /// assert!(Policy::Fifo(0).fault().is_some());
    /// # Ok::<(), schedlab_model::ModelError>(())
    /// ```
    pub fn fault(self) -> Option<String> {
        match self {
            Self::Fifo(priority) | Self::Rr(priority) if !(1..=99).contains(&priority) => {
                Some(format!("real-time priority {priority} is out of range; allowed: 1 to 99"))
            }
            Self::Deadline { runtime, .. } if runtime < DEADLINE_RUNTIME => Some(format!(
                "a deadline task's runtime of {runtime} is too short; allowed: {DEADLINE_RUNTIME} or more"
            )),
            Self::Deadline { runtime, deadline, period } if runtime > deadline || deadline > period => Some(format!(
                "a deadline task needs runtime ≤ deadline ≤ period; found runtime {runtime}, deadline {deadline}, \
                 period {period}"
            )),
            Self::Deadline { period, .. } if period < DEADLINE_PERIODS.0 || period > DEADLINE_PERIODS.1 => {
                Some(format!(
                    "a deadline task's period of {period} is out of range; allowed: {} to {}",
                    DEADLINE_PERIODS.0, DEADLINE_PERIODS.1
                ))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => formatter.write_str("other"),
            Self::Batch => formatter.write_str("batch"),
            Self::Idle => formatter.write_str("idle"),
            Self::Fifo(priority) => write!(formatter, "fifo:{priority}"),
            Self::Rr(priority) => write!(formatter, "rr:{priority}"),
            Self::Deadline { runtime, deadline, period } => {
                write!(formatter, "deadline:runtime={runtime},deadline={deadline},period={period}")
            }
        }
    }
}

impl FromStr for Policy {
    type Err = ModelError;

    /// Reads `other`, `batch`, `idle`, `fifo`, `rr` (priority 1), `fifo:50`, `rr:50` or
    /// `deadline:runtime=2ms,deadline=10ms,period=10ms` (the period is the deadline where there is none).
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let wrong = |why: &str| ModelError::Policy { found: text.to_owned(), why: why.to_owned() };
        if let Some(parameters) = text.strip_prefix("deadline") {
            let parameters = parameters.strip_prefix(':').unwrap_or(parameters);
            return deadline_policy(parameters).map_err(|why| wrong(&why));
        }
        let (name, priority) = match text.split_once(':') {
            Some((name, priority)) => (name, Some(priority)),
            None => (text, None),
        };
        let priority = match priority.map(str::parse::<u8>) {
            None => None,
            Some(Ok(priority @ 1..=99)) => Some(priority),
            Some(_) => return Err(wrong("a real-time priority is a whole number from 1 to 99")),
        };
        match (name, priority) {
            ("other", None) => Ok(Self::Other),
            ("batch", None) => Ok(Self::Batch),
            ("idle", None) => Ok(Self::Idle),
            ("fifo", priority) => Ok(Self::Fifo(priority.unwrap_or(1))),
            ("rr", priority) => Ok(Self::Rr(priority.unwrap_or(1))),
            ("other" | "batch" | "idle", Some(_)) => Err(wrong("only fifo and rr take a priority")),
            _ => Err(wrong(
                "allowed: other, batch, idle, fifo[:1-99], rr[:1-99], deadline:runtime=TIME,deadline=TIME[,period=TIME]",
            )),
        }
    }
}

/// The parameters of a deadline policy, or what is wrong with them.
fn deadline_policy(parameters: &str) -> Result<Policy, String> {
    let form = "write deadline:runtime=TIME,deadline=TIME[,period=TIME]";
    let (mut runtime, mut deadline, mut period) = (None, None, None);
    for parameter in parameters.split(',') {
        let (name, value) = parameter.split_once('=').ok_or(form)?;
        let place = match name {
            "runtime" => &mut runtime,
            "deadline" => &mut deadline,
            "period" => &mut period,
            _ => return Err(format!("a deadline task has no '{name}'; {form}")),
        };
        if place.replace(value.parse::<Time>().map_err(|error| error.to_string())?).is_some() {
            return Err(format!("'{name}' is given twice; {form}"));
        }
    }
    let (Some(runtime), Some(deadline)) = (runtime, deadline) else { return Err(form.to_owned()) };
    let policy = Policy::Deadline { runtime, deadline, period: period.unwrap_or(deadline) };
    policy.fault().map_or(Ok(policy), Err)
}

impl Workload {
    /// Gives every task the same scheduling attributes.
    ///
    /// Tasks that are forked take them from their parents.
    #[must_use]
    pub fn with_attributes(mut self, attributes: &Attributes) -> Self {
        for task in &mut self.tasks {
            task.attributes = (task.instances > 0).then(|| attributes.clone());
        }
        self
    }

    /// Whether other work of the machine is a part of it.
    pub fn has_background(&self) -> bool {
        self.tasks.iter().any(|task| task.background)
    }

    /// How many writes its tasks may have under way together, [`MOST_WORKERS`] at most: each task that begins writes as many as the depth
    /// of its deepest one.
    pub(crate) fn most_writes_under_way(&self) -> u32 {
        let forked = |name: &str| {
            self.tasks
                .iter()
                .map(|task| forks(&task.steps, name).saturating_mul(task.instances.max(1)))
                .fold(0, u32::saturating_add)
        };
        let of = |task: &Task| match deepest_write(&task.steps) {
            0 => 0,
            depth => depth.saturating_mul(task.instances.saturating_add(forked(&task.name))),
        };
        self.tasks.iter().map(of).fold(0, u32::saturating_add).min(MOST_WORKERS)
    }

    /// Whether a task reads or writes a file past the page cache, or synchronously.
    pub(crate) fn accesses_the_disk(&self) -> bool {
        let past = |access: &FileAccess| self.files.get(&access.file).is_some_and(|file| file.open != Opening::Cached);
        let asks = |step: &Step| match step {
            Step::ReadFile(access) | Step::WriteFile(access) => past(access),
            Step::SubmitRead { .. } | Step::SubmitWrite { .. } => true,
            _ => false,
        };
        self.tasks.iter().any(|task| any_step(&task.steps, &asks))
    }

    /// Whether a task writes a file synchronously that was not filled before, as those are that tasks read.
    pub(crate) fn writes_synchronously(&self) -> bool {
        let any = |is: &dyn Fn(&Step) -> bool| self.tasks.iter().any(|task| any_step(&task.steps, is));
        self.files.iter().filter(|(_, file)| file.open == Opening::Sync).any(|(name, _)| {
            let written = |step: &Step| matches!(step, Step::WriteFile(access) if access.file == *name);
            let read = |step: &Step| match step {
                Step::ReadFile(access) | Step::SubmitRead { access, .. } => access.file == *name,
                _ => false,
            };
            any(&written) && !any(&read)
        })
    }

    /// Whether a task writes a file so that it waits until the disk has it for good.
    pub(crate) fn flushes(&self) -> bool {
        let waits = |name: &str| self.files.get(name).is_some_and(|file| file.open != Opening::Cached);
        let flushes = |step: &Step| match step {
            Step::WriteFile(access) => waits(&access.file),
            Step::SubmitWrite { .. } => true,
            _ => false,
        };
        self.tasks.iter().any(|task| any_step(&task.steps, &flushes))
    }

    /// Adds other work of the machine, on whose `cpus` CPUs it runs: each task of `background` as a background task behind the workload's own,
    /// on those of its CPUs that the machine has; left out where it has none of them. Its duration and its mark count for nothing.
    ///
    /// # Errors
    /// [`ModelError::Workload`] where both have a task, a channel, a latch, a file or a group of one name.
    pub fn beside(mut self, background: &Self, cpus: u32) -> Result<Self, ModelError> {
        let doubled = |what: &str, name: &str| ModelError::Workload {
            workload: background.name.clone(),
            place: format!("{what} '{name}'"),
            why: "the workload that it is the background of has one of this name; rename one of them".to_owned(),
        };
        let mut tasks = background.tasks.clone();
        for task in &mut tasks {
            if self.tasks.iter().any(|own| own.name == task.name) {
                return Err(doubled("task", &task.name));
            }
            task.background = true;
            if let Some(attributes) = &mut task.attributes
                && !attributes.affinity.is_empty()
            {
                attributes.affinity.retain(|cpu| *cpu < cpus);
                if attributes.affinity.is_empty() {
                    task.instances = 0;
                }
            }
        }
        self.tasks.append(&mut tasks);
        add(&mut self.channels, &background.channels).map_err(|name| doubled("channel", &name))?;
        add(&mut self.files, &background.files).map_err(|name| doubled("file", &name))?;
        add(&mut self.groups, &background.groups).map_err(|name| doubled("group", &name))?;
        if let Some(name) = background.latches.iter().find(|name| self.latches.contains(name)) {
            return Err(doubled("latch", name));
        }
        self.latches.extend(background.latches.iter().cloned());
        Ok(self)
    }
}

/// Workers of a CPU that complete writes, at most.
const MOST_WORKERS: u32 = 256;

/// The depth of the deepest write that some steps begin, 0 if they begin none.
fn deepest_write(steps: &[Step]) -> u32 {
    let of = |step: &Step| match step {
        Step::SubmitWrite { depth, .. } => *depth,
        Step::Loop { steps, .. } | Step::Forever(steps) => deepest_write(steps),
        _ => 0,
    };
    steps.iter().map(of).max().unwrap_or(0)
}

/// Whether any of some steps, or of those in their loops, is such a one.
fn any_step(steps: &[Step], is: &dyn Fn(&Step) -> bool) -> bool {
    steps.iter().any(|step| match step {
        Step::Loop { steps, .. } | Step::Forever(steps) => any_step(steps, is),
        step => is(step),
    })
}

/// How many tasks of a name some steps make, as far as a number of 32 bits tells.
fn forks(steps: &[Step], name: &str) -> u32 {
    let of = |step: &Step| match step {
        Step::Fork { task, count } if task == name => *count,
        Step::Loop { count, steps } => forks(steps, name).saturating_mul(u32::try_from(*count).unwrap_or(u32::MAX)),
        Step::Forever(steps) => forks(steps, name).saturating_mul(u32::MAX),
        _ => 0,
    };
    steps.iter().map(of).fold(0, u32::saturating_add)
}

/// Adds the entries of `other`, or returns the first name that both have.
fn add<T: Clone>(own: &mut BTreeMap<String, T>, other: &BTreeMap<String, T>) -> Result<(), String> {
    for (name, value) in other {
        if own.insert(name.clone(), value.clone()).is_some() {
            return Err(name.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Duration;

    #[test]
    fn policies_are_read_as_chrt_names_them() {
        assert_eq!("fifo".parse::<Policy>().unwrap(), Policy::Fifo(1));
        assert_eq!("rr:99".parse::<Policy>().unwrap(), Policy::Rr(99));
        for text in ["rr:0", "rr:100", "other:1", "cfs", ""] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }

    #[test]
    fn deadline_policies_say_their_parameters() {
        let text = "deadline:runtime=2ms,deadline=5ms,period=10ms";
        let policy: Policy = text.parse().unwrap();
        assert_eq!(policy.to_string(), text);
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(json, r#"{"deadline":{"runtime":"2ms","deadline":"5ms","period":"10ms"}}"#);
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
        for (text, said) in [
            ("deadline", "write deadline:runtime"),
            ("deadline:runtime=2ms", "write deadline:runtime"),
            ("deadline:runtime=2,deadline=5ms", "unit"),
            ("deadline:runtime=6ms,deadline=5ms", "runtime ≤ deadline"),
            ("deadline:runtime=1us,deadline=5ms", "1.024us"),
            ("deadline:runtime=10us,deadline=20us", "100us to 4.194304s"),
            ("deadline:runtime=10us,deadline=5s", "100us to 4.194304s"),
            ("deadline:budget=1ms,deadline=5ms", "budget"),
            ("deadline:runtime=1ms,runtime=1ms,deadline=5ms", "twice"),
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_workload_survives_json() {
        let workload = Workload {
            name: "one".into(),
            channels: BTreeMap::from([("c".into(), Channel { kind: ChannelKind::Pipe })]),
            latches: vec!["go".into()],
            tasks: vec![Task {
                name: "t".into(),
                instances: 1,
                kind: TaskKind::Thread,
                attributes: Some(Attributes { policy: Policy::Rr(3), nice: -5, ..Attributes::default() }),
                taskgroup: Some("/tg1/tg11".into()),
                session: Some("tty1".into()),
                steps: vec![
                    Step::Run(Duration::Exponential { mean: Time::from_micros(3) }),
                    Step::Loop { count: 3, steps: vec![Step::Write { channel: "c".into(), bytes: 100 }] },
                ],
                ..Task::default()
            }],
            groups: BTreeMap::from([("/tg1/tg11".into(), Group { weight: Some(300), ..Group::default() })]),
            ..Workload::default()
        };
        let json = serde_json::to_string(&workload).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), workload, "{json}");
    }
}
