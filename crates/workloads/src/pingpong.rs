//! One byte to and fro: what a wake-up and a switch cost, seen from outside.

use std::collections::BTreeMap;

use schedlab_model::{Channel, ChannelKind, Step, Task, TaskKind, Workload};

use crate::keys::Values;
use crate::{Key, KeyKind, WorkloadError};

/// Two tasks; the first writes a byte and waits for the answer, `loops` times.
///
/// ```
/// use schedlab_workloads::PingPong;
/// let workload = PingPong { loops: 10, ..PingPong::default() }.build()?;
/// assert_eq!(workload.tasks.len(), 2);
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingPong {
    /// Round trips, at least 1.
    pub loops: u64,
    /// Stream sockets instead of pipes.
    pub socket: bool,
    /// Threads instead of processes.
    pub threads: bool,
}

impl Default for PingPong {
    fn default() -> Self {
        Self { loops: 1000, socket: false, threads: false }
    }
}

const NAME: &str = "pipe";
const LOOPS: KeyKind = KeyKind::Count { low: 1, high: 1_000_000_000 };

impl PingPong {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "loops", kind: LOOPS, default: "1000", summary: "round trips" },
        Key { name: "socket", kind: KeyKind::Switch, default: "0", summary: "stream sockets instead of pipes" },
        Key { name: "threads", kind: KeyKind::Switch, default: "0", summary: "threads instead of processes" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        Self {
            loops: values.get("loops", default.loops),
            socket: values.get("socket", default.socket.into()) == 1,
            threads: values.get("threads", default.threads.into()) == 1,
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        Key::check(NAME, Self::KEYS, "loops", self.loops)?;
        let channel = Channel { kind: if self.socket { ChannelKind::Socket } else { ChannelKind::Pipe } };
        let write = |channel: &str| Step::Write { channel: channel.into(), bytes: 1 };
        let read = |channel: &str| Step::Read { channel: channel.into(), bytes: 1 };
        let kind = if self.threads { TaskKind::Thread } else { TaskKind::Process };
        let task = |name: &str, steps| Task {
            name: name.into(),
            instances: 1,
            kind,
            attributes: None,
            steps: vec![Step::Loop { count: self.loops, steps }],
            ..Task::default()
        };
        let (socket, threads) = (u8::from(self.socket), u8::from(self.threads));
        Ok(Workload {
            name: format!("{NAME}:loops={},socket={socket},threads={threads}", self.loops),
            channels: BTreeMap::from([("to".to_owned(), channel.clone()), ("fro".to_owned(), channel)]),
            latches: vec![],
            tasks: vec![task("ping", vec![write("to"), read("fro")]), task("pong", vec![read("to"), write("fro")])],
            ..Workload::default()
        })
    }
}
