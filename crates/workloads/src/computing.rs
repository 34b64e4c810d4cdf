//! Work on numbers, on files, and on both: `pi`, `copy` and `mixed`.

use std::collections::BTreeMap;

use schedlab_model::{Duration, File, FileAccess, Offset, Opening, Step, Task, TaskKind, Time, Workload};

use crate::keys::Values;
use crate::{Key, KeyKind, WorkloadError};

const TASKS: KeyKind = KeyKind::Count { low: 1, high: 100_000 };
const SAMPLES: KeyKind = KeyKind::Count { low: 1, high: 1_000_000_000_000 };
const SAMPLE: KeyKind = KeyKind::Time { low: Time::from_nanos(1), high: Time::from_millis(1_000) };
const BYTES: KeyKind = KeyKind::Bytes { low: 1, high: 1 << 40 };
const BLOCK: KeyKind = KeyKind::Bytes { low: 1, high: 1 << 24 };
const LOOPS: KeyKind = KeyKind::Count { low: 1, high: 1_000_000_000 };

fn processes(name: String, task: &str, instances: u32, files: BTreeMap<String, File>, steps: Vec<Step>) -> Workload {
    let task = Task { name: task.to_owned(), instances, kind: TaskKind::Process, steps, ..Task::default() };
    Workload { name, files, tasks: vec![task], ..Workload::default() }
}

fn access(file: &str, bytes: u64) -> FileAccess {
    // Blocks are at most 16 MiB.
    FileAccess { file: file.to_owned(), bytes: bytes as u32, offset: Offset::Next }
}

/// Monte-Carlo π: each task draws `samples` points and counts those within the circle, `sample` of CPU time each.
///
/// ```
/// use schedlab_workloads::Pi;
/// assert_eq!(Pi::default().build()?.name, "pi:tasks=1,samples=10000000,sample=10ns");
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pi {
    /// How many, at least 1.
    pub tasks: u32,
    /// Points of each, at least 1.
    pub samples: u64,
    /// CPU time of a point.
    pub sample: Time,
}

impl Default for Pi {
    fn default() -> Self {
        Self { tasks: 1, samples: 10_000_000, sample: Time::from_nanos(10) }
    }
}

impl Pi {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "tasks", kind: TASKS, default: "1", summary: "how many" },
        Key { name: "samples", kind: SAMPLES, default: "10000000", summary: "points that each draws" },
        Key { name: "sample", kind: SAMPLE, default: "10ns", summary: "CPU time of a point" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        Self {
            tasks: values.get("tasks", default.tasks.into()) as u32,
            samples: values.get("samples", default.samples),
            sample: Time::from_nanos(values.get("sample", default.sample.as_nanos())),
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range, [`WorkloadError::Together`] for points that take centuries.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        let Self { tasks, samples, sample } = *self;
        for (key, value) in [("tasks", u64::from(tasks)), ("samples", samples), ("sample", sample.as_nanos())] {
            Key::check("pi", Self::KEYS, key, value)?;
        }
        let Some(time) = samples.checked_mul(sample.as_nanos()) else {
            let why = format!("{samples} samples of {sample} take longer than 584 years");
            return Err(WorkloadError::Together { workload: "pi", why });
        };
        let name = format!("pi:tasks={tasks},samples={samples},sample={sample}");
        let steps = vec![Step::Run(Duration::Fixed(Time::from_nanos(time)))];
        Ok(processes(name, "pi", tasks, BTreeMap::new(), steps))
    }
}

/// Copying `bytes` from one file to another in blocks, both opened for synchronous I/O so that every write waits for the disk.
///
/// ```
/// use schedlab_workloads::Copy;
/// let workload = Copy { bytes: 10_000, block: 4096, ..Copy::default() }.build()?;
/// // Two whole blocks, and 1808 bytes.
/// assert_eq!(workload.tasks[0].steps.len(), 3);
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// How many tasks copy, all from one file to another.
    pub tasks: u32,
    /// Bytes, at least 1.
    pub bytes: u64,
    /// Bytes of a block, 1 to 16 MiB.
    pub block: u64,
    /// Past the page cache (`O_DIRECT`), so that reads wait for the disk too; blocks are then multiples of 4096 bytes.
    pub direct: bool,
}

impl Default for Copy {
    fn default() -> Self {
        Self { tasks: 1, bytes: 1 << 22, block: 4096, direct: false }
    }
}

impl Copy {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "tasks", kind: TASKS, default: "1", summary: "how many copy, all from one file to another" },
        Key { name: "bytes", kind: BYTES, default: "4m", summary: "bytes that each copies" },
        Key { name: "block", kind: BLOCK, default: "4k", summary: "bytes of a block" },
        Key { name: "direct", kind: KeyKind::Switch, default: "0", summary: "past the page cache, reads too" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        Self {
            tasks: values.get("tasks", default.tasks.into()) as u32,
            bytes: values.get("bytes", default.bytes),
            block: values.get("block", default.block),
            direct: values.get("direct", default.direct.into()) == 1,
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range, [`WorkloadError::Together`] for sizes that `O_DIRECT` does not take.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        let Self { tasks, bytes, block, direct } = *self;
        for (key, value) in [("tasks", u64::from(tasks)), ("bytes", bytes), ("block", block)] {
            Key::check("copy", Self::KEYS, key, value)?;
        }
        if direct && (bytes % 4096 != 0 || block % 4096 != 0) {
            let why = "past the page cache, bytes and block are multiples of 4096".to_owned();
            return Err(WorkloadError::Together { workload: "copy", why });
        }
        let block = block.min(bytes);
        let copied = |bytes| [Step::ReadFile(access("from", bytes)), Step::WriteFile(access("to", bytes))];
        let mut steps = vec![Step::Loop { count: bytes / block, steps: copied(block).into() }];
        if bytes % block > 0 {
            steps.extend(copied(bytes % block));
        }
        let file = File { size: bytes, open: if direct { Opening::Direct } else { Opening::Sync } };
        let files = BTreeMap::from([("from".to_owned(), file.clone()), ("to".to_owned(), file)]);
        let Self { block, .. } = *self;
        let name = format!("copy:tasks={tasks},bytes={bytes},block={block},direct={}", u8::from(direct));
        Ok(processes(name, "copy", tasks, files, steps))
    }
}

/// Computing and copying by turns: in each of `loops` rounds `run` of CPU time, then a block read and written synchronously.
///
/// ```
/// use schedlab_workloads::Mixed;
/// assert_eq!(Mixed::default().build()?.name, "mixed:tasks=1,loops=1000,run=1ms,block=4096");
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixed {
    /// How many, at least 1.
    pub tasks: u32,
    /// Rounds, at least 1.
    pub loops: u64,
    /// CPU time of a round.
    pub run: Time,
    /// Bytes of a block, 1 to 16 MiB.
    pub block: u64,
}

impl Default for Mixed {
    fn default() -> Self {
        Self { tasks: 1, loops: 1000, run: Time::from_millis(1), block: 4096 }
    }
}

impl Mixed {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "tasks", kind: TASKS, default: "1", summary: "how many" },
        Key { name: "loops", kind: LOOPS, default: "1000", summary: "rounds" },
        Key { name: "run", kind: SAMPLE, default: "1ms", summary: "CPU time of a round" },
        Key { name: "block", kind: BLOCK, default: "4k", summary: "bytes read and written in a round" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        Self {
            tasks: values.get("tasks", default.tasks.into()) as u32,
            loops: values.get("loops", default.loops),
            run: Time::from_nanos(values.get("run", default.run.as_nanos())),
            block: values.get("block", default.block),
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        let Self { tasks, loops, run, block } = *self;
        for (key, value) in [("tasks", u64::from(tasks)), ("loops", loops), ("run", run.as_nanos()), ("block", block)] {
            Key::check("mixed", Self::KEYS, key, value)?;
        }
        let round = vec![
            Step::Run(Duration::Fixed(run)),
            Step::ReadFile(access("file", block)),
            Step::WriteFile(access("file", block)),
        ];
        let file = File { size: (2 * block).max(1 << 20), open: Opening::Sync };
        let name = format!("mixed:tasks={tasks},loops={loops},run={run},block={block}");
        let files = BTreeMap::from([("file".to_owned(), file)]);
        Ok(processes(name, "mixed", tasks, files, vec![Step::Loop { count: loops, steps: round }]))
    }
}
