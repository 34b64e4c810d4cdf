//! hackbench, as rt-tests' program works.

use std::collections::BTreeMap;

use schedlab_model::{Channel, ChannelKind, Step, Task, TaskKind, Workload};

use crate::keys::Values;
use crate::{Key, KeyKind, WorkloadError};

/// The most tasks: each group's channels and steps are described one by one, in some three kilobytes a task.
const MOST_TASKS: u64 = 1 << 18;

/// The workload of rt-tests' `hackbench`: in each group `fds` senders write `loops` messages to each of `fds` receivers.
///
/// The main task makes, group by group, one channel a receiver, the receivers, then the senders. Each worker writes one byte to the
/// `ready` channel and waits at the `start` latch (a channel in the real program, polled by all and never read). Main reads a byte for
/// each worker, starts the clock, opens the latch and collects all workers. Channels are made before the run, where the real program
/// makes them between forks; the clock runs in neither.
///
/// ```
/// use schedlab_workloads::Hackbench;
/// let workload = Hackbench { groups: 2, fds: 3, ..Hackbench::default() }.build()?;
/// // One channel for each of 2·3 receivers, and `ready`.
/// assert_eq!(workload.channels.len(), 7);
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hackbench {
    /// `-g`: groups, at least 1.
    pub groups: u32,
    /// `-f`: receivers, and as many senders, in each group; at least 1.
    pub fds: u32,
    /// `-l`: messages from each sender to each receiver of its group, at least 1.
    pub loops: u64,
    /// `-s`: bytes of a message, at least 1.
    pub datasize: u32,
    /// `-p`: pipes instead of stream sockets.
    pub pipe: bool,
    /// `-T`: threads instead of processes.
    pub threads: bool,
}

impl Default for Hackbench {
    /// What the real program does without options.
    fn default() -> Self {
        Self { groups: 10, fds: 20, loops: 100, datasize: 100, pipe: false, threads: false }
    }
}

const NAME: &str = "hackbench";
const GROUPS: KeyKind = KeyKind::Count { low: 1, high: 100_000 };
const FDS: KeyKind = KeyKind::Count { low: 1, high: 10_000 };
const LOOPS: KeyKind = KeyKind::Count { low: 1, high: 1_000_000_000 };
const DATASIZE: KeyKind = KeyKind::Bytes { low: 1, high: 1 << 20 };

impl Hackbench {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "groups", kind: GROUPS, default: "10", summary: "groups of tasks" },
        Key { name: "fds", kind: FDS, default: "20", summary: "receivers, and as many senders, in each group" },
        Key { name: "loops", kind: LOOPS, default: "100", summary: "messages from each sender to each receiver" },
        Key { name: "datasize", kind: DATASIZE, default: "100", summary: "bytes of a message" },
        Key { name: "pipe", kind: KeyKind::Switch, default: "0", summary: "pipes instead of stream sockets" },
        Key { name: "threads", kind: KeyKind::Switch, default: "0", summary: "threads instead of processes" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        // The table's ranges lie within the fields' types.
        let count = |key, default: u32| values.get(key, u64::from(default)) as u32;
        Self {
            groups: count("groups", default.groups),
            fds: count("fds", default.fds),
            loops: values.get("loops", default.loops),
            datasize: count("datasize", default.datasize),
            pipe: values.get("pipe", default.pipe.into()) == 1,
            threads: values.get("threads", default.threads.into()) == 1,
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range, [`WorkloadError::Together`] where groups · fds · 2 workers and the main
    /// task are more than 2^18.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        self.check()?;
        let kind = if self.threads { TaskKind::Thread } else { TaskKind::Process };
        let channel = Channel { kind: if self.pipe { ChannelKind::Pipe } else { ChannelKind::Socket } };
        let ready = [Step::Write { channel: "ready".into(), bytes: 1 }, Step::AwaitLatch("start".into())];
        let worker = |name: String, work: Step| Task {
            name,
            instances: 0,
            kind,
            attributes: None,
            steps: ready.iter().cloned().chain([work]).collect(),
            ..Task::default()
        };
        let bytes = self.datasize;
        let mut channels = BTreeMap::from([("ready".to_owned(), channel.clone())]);
        let mut workers = Vec::new();
        let mut main = Vec::new();
        for group in 0..self.groups {
            let mut sprayed = Vec::new();
            for receiver in 0..self.fds {
                let name = format!("g{group}.{receiver}");
                channels.insert(name.clone(), channel.clone());
                sprayed.push(Step::Write { channel: name.clone(), bytes });
                let task = format!("receiver.{name}");
                let read = Step::Read { channel: name, bytes };
                let count = u64::from(self.fds) * self.loops;
                workers.push(worker(task.clone(), Step::Loop { count, steps: vec![read] }));
                main.push(Step::Fork { task, count: 1 });
            }
            let task = format!("sender.g{group}");
            workers.push(worker(task.clone(), Step::Loop { count: self.loops, steps: sprayed }));
            main.push(Step::Fork { task, count: self.fds });
        }
        let count = u64::from(self.groups) * u64::from(self.fds) * 2;
        main.push(Step::Loop { count, steps: vec![Step::Read { channel: "ready".into(), bytes: 1 }] });
        main.extend([Step::Mark("start".into()), Step::OpenLatch("start".into()), Step::Join]);
        let main = Task {
            name: "main".into(),
            instances: 1,
            kind: TaskKind::Process,
            attributes: None,
            steps: main,
            ..Task::default()
        };
        Ok(Workload {
            name: self.text(),
            channels,
            latches: vec!["start".into()],
            tasks: [main].into_iter().chain(workers).collect(),
            turnaround_from: Some("start".into()),
            ..Workload::default()
        })
    }

    /// The text that [`parse`](crate::parse) reads back.
    fn text(&self) -> String {
        let Self { groups, fds, loops, datasize, pipe, threads } = self;
        let (pipe, threads) = (u8::from(*pipe), u8::from(*threads));
        format!("{NAME}:groups={groups},fds={fds},loops={loops},datasize={datasize},pipe={pipe},threads={threads}")
    }

    fn check(&self) -> Result<(), WorkloadError> {
        for (key, value) in [
            ("groups", u64::from(self.groups)),
            ("fds", self.fds.into()),
            ("loops", self.loops),
            ("datasize", self.datasize.into()),
        ] {
            Key::check(NAME, Self::KEYS, key, value)?;
        }
        let tasks = u64::from(self.groups) * u64::from(self.fds) * 2 + 1;
        if tasks > MOST_TASKS {
            let why = format!("groups * fds * 2 + 1 = {tasks} tasks are too many; allowed: at most {MOST_TASKS}");
            return Err(WorkloadError::Together { workload: NAME, why });
        }
        Ok(())
    }
}
