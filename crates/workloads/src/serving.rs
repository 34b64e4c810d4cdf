//! Servers, disks and message threads under load: `http`, `aio` and `schbench`.

use std::collections::BTreeMap;

use schedlab_model::{Duration, File, FileAccess, Offset, Opening, Step, Task, TaskKind, Time, Workload};

use crate::keys::Values;
use crate::{Key, KeyKind, WorkloadError};

const TASKS: KeyKind = KeyKind::Count { low: 1, high: 100_000 };
const BYTES: KeyKind = KeyKind::Bytes { low: 1, high: 1 << 24 };
const DEPTH: KeyKind = KeyKind::Count { low: 1, high: 1024 };
const LOOPS: KeyKind = KeyKind::Count { low: 1, high: 1_000_000_000 };
const TIME: KeyKind = KeyKind::Time { low: Time::from_nanos(1), high: Time::from_millis(86_400_000) };

fn task(name: String, instances: u32, kind: TaskKind, steps: Vec<Step>) -> Task {
    Task { name, instances, kind, steps, ..Task::default() }
}

/// A server of `servers` processes or threads, and a client that keeps `concurrency` requests under way, as `wrk` and `ab` do: each
/// connection sends its next request when the last one is answered.
///
/// The outcome's `messages` are requests and replies; its latency `request` is what a client measures.
///
/// ```
/// use schedlab_workloads::Http;
/// let workload = Http { concurrency: 20, ..Http::default() }.build()?;
/// assert_eq!(workload.tasks[1].instances, 20);
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Server tasks.
    pub servers: u32,
    /// Requests under way, each a thread of the client's.
    pub concurrency: u32,
    /// Mean CPU time of an answer, exponentially distributed.
    pub service: Time,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a reply.
    pub reply: u32,
    /// Servers are threads, not processes.
    pub threads: bool,
    /// How long the load lasts.
    pub duration: Time,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            servers: 8,
            concurrency: 4,
            service: Time::from_micros(100),
            request: 100,
            reply: 11_000,
            threads: false,
            duration: Time::from_millis(5_000),
        }
    }
}

impl Http {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "servers", kind: TASKS, default: "8", summary: "server processes or threads" },
        Key { name: "concurrency", kind: TASKS, default: "4", summary: "requests under way" },
        Key { name: "service", kind: TIME, default: "100us", summary: "mean CPU time of an answer" },
        Key { name: "request", kind: BYTES, default: "100", summary: "bytes of a request" },
        Key { name: "reply", kind: BYTES, default: "11000", summary: "bytes of a reply" },
        Key { name: "threads", kind: KeyKind::Switch, default: "0", summary: "servers are threads" },
        Key { name: "duration", kind: TIME, default: "5s", summary: "how long the load lasts" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        let count = |key, default: u32| values.get(key, u64::from(default)) as u32;
        let time = |key, default: Time| Time::from_nanos(values.get(key, default.as_nanos()));
        Self {
            servers: count("servers", default.servers),
            concurrency: count("concurrency", default.concurrency),
            service: time("service", default.service),
            request: count("request", default.request),
            reply: count("reply", default.reply),
            threads: values.get("threads", default.threads.into()) == 1,
            duration: time("duration", default.duration),
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        let Self { servers, concurrency, service, request, reply, threads, duration } = *self;
        for (key, value) in [
            ("servers", u64::from(servers)),
            ("concurrency", concurrency.into()),
            ("service", service.as_nanos()),
            ("request", request.into()),
            ("reply", reply.into()),
            ("duration", duration.as_nanos()),
        ] {
            Key::check("http", Self::KEYS, key, value)?;
        }
        let port = || "http".to_owned();
        let serve = vec![
            Step::Accept { port: port(), bytes: request },
            Step::Run(Duration::Exponential { mean: service }),
            Step::Reply { bytes: reply },
        ];
        let ask = vec![
            Step::Start("request".to_owned()),
            Step::Request { port: port(), bytes: request, reply },
            Step::Stop("request".to_owned()),
        ];
        let kind = if threads { TaskKind::Thread } else { TaskKind::Process };
        let tasks = vec![
            task("server".to_owned(), servers, kind, vec![Step::Forever(serve)]),
            task("client".to_owned(), concurrency, TaskKind::Thread, vec![Step::Forever(ask)]),
        ];
        let switch = u8::from(threads);
        let name = format!(
            "http:servers={servers},concurrency={concurrency},service={service},request={request},reply={reply},\
             threads={switch},duration={duration}"
        );
        Ok(Workload { name, tasks, duration: Some(duration), ..Workload::default() })
    }
}

/// Random asynchronous writes to one large file by several threads, as Phoronix's aio-stress.
///
/// ```
/// use schedlab_workloads::Aio;
/// let workload = Aio::default().build()?;
/// assert_eq!(workload.files["file"].size, 2 << 30);
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aio {
    /// Threads that write.
    pub threads: u32,
    /// The file's bytes, a multiple of 4096.
    pub size: u64,
    /// Bytes of a write, a multiple of 4096.
    pub block: u32,
    /// Writes under way in each thread, at most.
    pub depth: u32,
    /// Writes of each thread.
    pub loops: u64,
}

impl Default for Aio {
    /// A file of 2 GB in records of 64 KiB, each written once.
    fn default() -> Self {
        Self { threads: 4, size: 2 << 30, block: 64 << 10, depth: 64, loops: (2 << 30) / (64 << 10) / 4 }
    }
}

impl Aio {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "threads", kind: TASKS, default: "4", summary: "threads that write" },
        Key {
            name: "size",
            kind: KeyKind::Bytes { low: 4096, high: 1 << 40 },
            default: "2g",
            summary: "bytes of the file",
        },
        Key {
            name: "block",
            kind: KeyKind::Bytes { low: 4096, high: 1 << 24 },
            default: "64k",
            summary: "bytes of a write",
        },
        Key { name: "depth", kind: DEPTH, default: "64", summary: "writes under way in each thread" },
        Key { name: "loops", kind: LOOPS, default: "8192", summary: "writes of each thread" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        Self {
            threads: values.get("threads", default.threads.into()) as u32,
            size: values.get("size", default.size),
            block: values.get("block", default.block.into()) as u32,
            depth: values.get("depth", default.depth.into()) as u32,
            loops: values.get("loops", default.loops),
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range, [`WorkloadError::Together`] for sizes that `O_DIRECT` does not take.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        let Self { threads, size, block, depth, loops } = *self;
        for (key, value) in [
            ("threads", u64::from(threads)),
            ("size", size),
            ("block", block.into()),
            ("depth", depth.into()),
            ("loops", loops),
        ] {
            Key::check("aio", Self::KEYS, key, value)?;
        }
        if size % 4096 != 0 || block % 4096 != 0 || u64::from(block) > size {
            let why = "size and block are multiples of 4096, and the block at most the size".to_owned();
            return Err(WorkloadError::Together { workload: "aio", why });
        }
        let access = FileAccess { file: "file".to_owned(), bytes: block, offset: Offset::Random };
        let writes = Step::Loop { count: loops, steps: vec![Step::SubmitWrite { access, depth }] };
        let writer = task("writer".to_owned(), threads, TaskKind::Thread, vec![writes, Step::AwaitFiles]);
        let name = format!("aio:threads={threads},size={size},block={block},depth={depth},loops={loops}");
        let files = BTreeMap::from([("file".to_owned(), File { size, open: Opening::Direct })]);
        Ok(Workload { name, files, tasks: vec![writer], ..Workload::default() })
    }
}

/// Message threads that wake workers, as schbench: each worker, once woken, serves a request of `operations` rounds, each a short
/// sleep and some computing, and tells its message thread, which wakes it again.
///
/// The outcome's latencies are `wakeup work.M.W` (from the post to the worker's run) and `request`.
///
/// ```
/// use schedlab_workloads::Schbench;
/// let workload = Schbench { messages: 2, threads: 3, ..Schbench::default() }.build()?;
/// assert_eq!(workload.tasks.len(), 2 * (1 + 3));
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schbench {
    /// `-m`: message threads.
    pub messages: u32,
    /// `-t`: workers of each message thread.
    pub threads: u32,
    /// `-n`: rounds of computing in a request.
    pub operations: u32,
    /// `-s`: sleep before each round.
    pub sleep: Time,
    /// CPU time of a round.
    pub work: Time,
    /// `-r`: how long it runs.
    pub duration: Time,
}

impl Default for Schbench {
    fn default() -> Self {
        Self {
            messages: 1,
            threads: 4,
            operations: 5,
            sleep: Time::from_micros(100),
            work: Time::from_micros(1_000),
            duration: Time::from_millis(30_000),
        }
    }
}

impl Schbench {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "messages", kind: TASKS, default: "1", summary: "message threads" },
        Key { name: "threads", kind: TASKS, default: "4", summary: "workers of each" },
        Key { name: "operations", kind: TASKS, default: "5", summary: "rounds of computing in a request" },
        Key { name: "sleep", kind: TIME, default: "100us", summary: "sleep before each round" },
        Key { name: "work", kind: TIME, default: "1ms", summary: "CPU time of a round" },
        Key { name: "duration", kind: TIME, default: "30s", summary: "how long it runs" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        let count = |key, default: u32| values.get(key, u64::from(default)) as u32;
        let time = |key, default: Time| Time::from_nanos(values.get(key, default.as_nanos()));
        Self {
            messages: count("messages", default.messages),
            threads: count("threads", default.threads),
            operations: count("operations", default.operations),
            sleep: time("sleep", default.sleep),
            work: time("work", default.work),
            duration: time("duration", default.duration),
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range, [`WorkloadError::Together`] for more than 100,000 workers.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        let Self { messages, threads, operations, sleep, work, duration } = *self;
        for (key, value) in [
            ("messages", u64::from(messages)),
            ("threads", threads.into()),
            ("operations", operations.into()),
            ("sleep", sleep.as_nanos()),
            ("work", work.as_nanos()),
            ("duration", duration.as_nanos()),
        ] {
            Key::check("schbench", Self::KEYS, key, value)?;
        }
        if u64::from(messages) * u64::from(threads) > 100_000 {
            let why = "messages * threads are too many; allowed: at most 100000".to_owned();
            return Err(WorkloadError::Together { workload: "schbench", why });
        }
        let round = vec![Step::Sleep(Duration::Fixed(sleep)), Step::Run(Duration::Fixed(work))];
        let mut tasks = Vec::new();
        for message in 0..messages {
            let (idle, work) = (format!("idle.{message}"), |worker: u32| format!("work.{message}.{worker}"));
            // The worker that has been idle longest is woken first, and that is each in turn.
            let wake = (0..threads).flat_map(|worker| [Step::Acquire(idle.clone()), Step::Post(work(worker))]);
            let steps = vec![Step::Forever(wake.collect())];
            tasks.push(task(format!("message.{message}"), 1, TaskKind::Thread, steps));
            for worker in 0..threads {
                let request = vec![
                    Step::Post(idle.clone()),
                    Step::Acquire(work(worker)),
                    Step::Start("request".to_owned()),
                    Step::Loop { count: u64::from(operations), steps: round.clone() },
                    Step::Stop("request".to_owned()),
                ];
                let name = format!("worker.{message}.{worker}");
                tasks.push(task(name, 1, TaskKind::Thread, vec![Step::Forever(request)]));
            }
        }
        let name = format!(
            "schbench:messages={messages},threads={threads},operations={operations},sleep={sleep},work={work},duration={duration}",
            work = self.work
        );
        Ok(Workload { name, tasks, duration: Some(duration), ..Workload::default() })
    }
}
