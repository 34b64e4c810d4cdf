//! The requests of the live page.

use std::collections::BTreeMap;

use schedlab_model::{Machine, Scheduler, Time};
use serde::Deserialize;

/// A request; `op` says which.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Releases, workloads, and the knobs and rules of a release.
    Catalogue {
        /// The release whose knobs and rules are asked for.
        release: String,
        /// The number of CPUs, with which some defaults grow.
        cpus: u32,
        /// Switched rules: another fair class has other knobs.
        #[serde(default)]
        rules: BTreeMap<String, bool>,
    },
    /// A workload, checked and complete.
    Workload {
        /// The workload.
        #[serde(flatten)]
        setup: Setup,
    },
    /// A simulated run.
    Run(Box<Run>),
    /// A recording, replayed: the kernel's schedule or ours.
    Replay(Recording),
    /// Our decisions in a replay within a window of time, with their reasons.
    ExplainReplay {
        /// The recording.
        recording: Recording,
        /// Which of the decisions.
        window: Window,
    },
    /// The decisions of a run within a window of time, with their reasons.
    Explain {
        /// The run.
        run: Box<Run>,
        /// Which of its decisions.
        window: Window,
    },
}

/// A simulated run: what is to run, where, and under which rules.
#[derive(Debug, Clone, Deserialize)]
pub struct Run {
    /// The workload.
    #[serde(flatten)]
    pub setup: Setup,
    /// The machine.
    pub machine: Machine,
    /// The release, its knobs and switched rules.
    pub scheduler: Scheduler,
    /// Seed of every random stream.
    #[serde(default = "one")]
    pub seed: u64,
    /// The tasks, by number, whose virtual time is asked for; all if the list is absent, none if it is empty.
    #[serde(default = "none")]
    pub standings: Option<Vec<u32>>,
    /// Whether the single events are wanted besides the timeline that is made of them.
    #[serde(default)]
    pub events: bool,
    /// Whether the timeline is wanted; without it the answer is the run's outcome.
    #[serde(default = "yes")]
    pub drawn: bool,
    /// The most events that a run may have.
    #[serde(default = "most_events")]
    pub event_limit: usize,
}

const fn one() -> u64 {
    1
}

const fn yes() -> bool {
    true
}

const fn none() -> Option<Vec<u32>> {
    Some(Vec::new())
}

/// Four million events take some 300 MB until they are drawn.
const fn most_events() -> usize {
    4_000_000
}

/// A recording of a real kernel.
#[derive(Debug, Clone, Deserialize)]
pub struct Recording {
    /// Its text.
    pub text: String,
    /// The recorded kernel, where the recording does not say it.
    #[serde(default)]
    pub release: Option<String>,
    /// Whether our schedule is wanted instead of the kernel's.
    #[serde(default)]
    pub ours: bool,
}

/// A workload and the page's changes of it.
#[derive(Debug, Clone, Deserialize)]
pub struct Setup {
    /// Where the workload comes from.
    pub workload: Source,
    /// When the run is over at the latest.
    #[serde(default)]
    pub duration: Option<Time>,
    /// Changed attributes, by the task's name.
    #[serde(default)]
    pub tasks: BTreeMap<String, Treatment>,
    /// Groups, as `--group` takes them.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Sessions, as `--session` takes them.
    #[serde(default)]
    pub sessions: Vec<String>,
}

/// Where a workload comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// One word, such as `hackbench:groups=5`.
    Builtin(String),
    /// A text in rt-app's language or the model's own.
    Text(String),
}

/// Changed attributes of a task.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Treatment {
    /// Its policy, as `--policy` takes it.
    pub policy: Option<String>,
    /// Its nice level.
    pub nice: Option<i8>,
    /// The slice it asks for.
    pub slice: Option<Time>,
    /// The CPUs it may run on.
    pub affinity: Option<Vec<u32>>,
    /// The path of the group it lives in.
    pub group: Option<String>,
}

/// A window of simulated time.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Window {
    /// The first decision wanted, in nanoseconds.
    pub from: u64,
    /// The last decision wanted, in nanoseconds.
    pub to: u64,
    /// The most decisions wanted.
    #[serde(default = "most_decisions")]
    pub limit: usize,
}

const fn most_decisions() -> usize {
    20_000
}
