//! The two plainest kinds of task: one that never sleeps, and one that mostly does.

use std::collections::BTreeMap;

use schedlab_model::{Duration, Step, Task, TaskKind, Time, Workload};

use crate::keys::Values;
use crate::{Key, KeyKind, WorkloadError};

const TASKS: KeyKind = KeyKind::Count { low: 1, high: 1_000_000 };
const TIME: KeyKind = KeyKind::Time { low: Time::from_micros(1), high: Time::from_millis(86_400_000) };

/// Tasks that compute for `time` each and never sleep.
///
/// ```
/// use schedlab_model::Time;
/// use schedlab_workloads::Hogs;
/// let workload = Hogs { tasks: 4, time: Time::from_millis(1000) }.build()?;
/// assert_eq!(workload.name, "hogs:tasks=4,time=1s");
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hogs {
    /// How many, at least 1.
    pub tasks: u32,
    /// CPU time of each.
    pub time: Time,
}

impl Default for Hogs {
    fn default() -> Self {
        Self { tasks: 4, time: Time::from_millis(1000) }
    }
}

impl Hogs {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "tasks", kind: TASKS, default: "4", summary: "how many" },
        Key { name: "time", kind: TIME, default: "1s", summary: "CPU time of each" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        Self {
            tasks: values.get("tasks", default.tasks.into()) as u32,
            time: Time::from_nanos(values.get("time", default.time.as_nanos())),
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        Key::check("hogs", Self::KEYS, "tasks", self.tasks.into())?;
        Key::check("hogs", Self::KEYS, "time", self.time.as_nanos())?;
        let name = format!("hogs:tasks={},time={}", self.tasks, self.time);
        Ok(alike(name, "hog", self.tasks, vec![Step::Run(Duration::Fixed(self.time))]))
    }
}

/// Tasks that compute for `run` and sleep for `period` − `run`, `loops` times.
///
/// ```
/// use schedlab_workloads::Sleepers;
/// assert_eq!(Sleepers::default().build()?.name, "sleepers:tasks=4,period=10ms,run=1ms,loops=100");
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sleepers {
    /// How many, at least 1.
    pub tasks: u32,
    /// Computing and sleeping together, on an idle machine.
    pub period: Time,
    /// Computing, at most the period.
    pub run: Time,
    /// Periods, at least 1.
    pub loops: u64,
}

impl Default for Sleepers {
    fn default() -> Self {
        Self { tasks: 4, period: Time::from_millis(10), run: Time::from_millis(1), loops: 100 }
    }
}

impl Sleepers {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "tasks", kind: TASKS, default: "4", summary: "how many" },
        Key { name: "period", kind: TIME, default: "10ms", summary: "computing and sleeping together" },
        Key { name: "run", kind: TIME, default: "1ms", summary: "CPU time of each period" },
        Key { name: "loops", kind: KeyKind::Count { low: 1, high: 1_000_000_000 }, default: "100", summary: "periods" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        Self {
            tasks: values.get("tasks", default.tasks.into()) as u32,
            period: Time::from_nanos(values.get("period", default.period.as_nanos())),
            run: Time::from_nanos(values.get("run", default.run.as_nanos())),
            loops: values.get("loops", default.loops),
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range, [`WorkloadError::Together`] for a run longer than its period.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        let Self { tasks, period, run, loops } = *self;
        for (key, value) in
            [("tasks", u64::from(tasks)), ("period", period.as_nanos()), ("run", run.as_nanos()), ("loops", loops)]
        {
            Key::check("sleepers", Self::KEYS, key, value)?;
        }
        if run > period {
            let why = format!("run = {run} is longer than period = {period}; allowed: at most the period");
            return Err(WorkloadError::Together { workload: "sleepers", why });
        }
        let sleep = period.saturating_sub(run);
        let steps = vec![Step::Run(Duration::Fixed(run)), Step::Sleep(Duration::Fixed(sleep))];
        let name = format!("sleepers:tasks={tasks},period={period},run={run},loops={loops}");
        Ok(alike(name, "sleeper", tasks, vec![Step::Loop { count: loops, steps }]))
    }
}

/// A workload of equal tasks that do not meet.
fn alike(name: String, task: &str, instances: u32, steps: Vec<Step>) -> Workload {
    let kind = TaskKind::Process;
    Workload {
        name,
        channels: BTreeMap::new(),
        latches: vec![],
        tasks: vec![Task { name: task.to_owned(), instances, kind, attributes: None, steps, ..Task::default() }],
        ..Workload::default()
    }
}
