//! The steps of tasks.

use serde::{Deserialize, Serialize};

use crate::{Change, Time};

/// How long something takes: fixed, or drawn anew each time from the task's own random stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duration {
    /// Always the same.
    Fixed(Time),
    /// Any time from `low` to `high`, all equally likely.
    Uniform {
        /// Least.
        low: Time,
        /// Greatest.
        high: Time,
    },
    /// Exponentially distributed.
    Exponential {
        /// Its mean.
        mean: Time,
    },
    /// Normally distributed, cut at zero.
    Normal {
        /// Its mean.
        mean: Time,
        /// Its standard deviation.
        deviation: Time,
    },
}

/// How memory is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Bytes are written, one after the other.
    Write,
    /// Bytes are read, one after the other.
    Read,
    /// Pointers are followed in order of their addresses, each of which stands where the last one points to.
    ChaseSequential,
    /// Pointers are followed in an order that no prefetcher guesses.
    ChaseRandom,
}

impl Access {
    /// Whether pointers are followed.
    pub const fn chases(self) -> bool {
        matches!(self, Self::ChaseSequential | Self::ChaseRandom)
    }
}

/// Where in a file an access begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offset {
    /// Where the task's last access of this file ended; at its beginning again after its end.
    #[default]
    Next,
    /// At any multiple of the access's length, all equally likely.
    Random,
}

/// What an access of a file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileAccess {
    /// The file's name in the workload.
    pub file: String,
    /// Bytes, at least 1.
    pub bytes: u32,
    /// Where it begins.
    #[serde(default, skip_serializing_if = "is_next")]
    pub offset: Offset,
}

fn is_next(offset: &Offset) -> bool {
    *offset == Offset::Next
}

/// A stretch of memory that a task touches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Its bytes, at least 1; when following pointers, at least two strides.
    pub bytes: u64,
    /// Bytes from pointer to pointer when following them; 64 where nothing is said.
    #[serde(default = "stride", skip_serializing_if = "is_stride")]
    pub stride: u32,
    /// The name under which all tasks share it; each task has its own where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
}

/// Bytes of a cache line on most machines.
const fn stride() -> u32 {
    64
}

fn is_stride(bytes: &u32) -> bool {
    *bytes == stride()
}

/// One step of a task.
///
/// Mutexes, conditions, barriers, semaphores, timers and clocks are there as soon as a step names them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Compute: use so much CPU time.
    Run(Duration),
    /// Compute until so much time has passed, on a CPU or not.
    Busy(Duration),
    /// Sleep so long.
    Sleep(Duration),
    /// Sleep until a timer expires: each use of it puts its expiry off by a period, from when the task's run began. Where that has passed,
    /// the task goes on at once, and a timer that is not absolute counts from now.
    Timer {
        /// Its name.
        timer: String,
        /// From one expiry to the next.
        period: Time,
        /// Whether every task has one of its own.
        #[serde(default)]
        own: bool,
        /// Whether an expiry that was missed leaves the later ones where they are.
        #[serde(default)]
        absolute: bool,
    },
    /// `sched_yield(2)`.
    Yield,
    /// Write one message of so many bytes, blocking while the channel is full.
    Write {
        /// The channel's name.
        channel: String,
        /// Bytes, at least 1.
        bytes: u32,
    },
    /// Read one message of so many bytes, in as many `read(2)` calls as that takes, blocking while the channel is empty.
    Read {
        /// The channel's name.
        channel: String,
        /// Bytes, at least 1.
        bytes: u32,
    },
    /// Open a latch and wake every task that waits on it.
    OpenLatch(String),
    /// Go on once the latch is open.
    AwaitLatch(String),
    /// `pthread_mutex_lock(3)`.
    Lock(String),
    /// `pthread_mutex_unlock(3)`.
    Unlock(String),
    /// `pthread_cond_wait(3)`: let go of the mutex, sleep until it is signalled, and take it again.
    Wait {
        /// The condition's name.
        condition: String,
        /// The mutex's, which the task holds.
        mutex: String,
    },
    /// `pthread_cond_signal(3)`: wake one waiting task.
    Signal(String),
    /// `pthread_cond_broadcast(3)`: wake all who wait.
    Broadcast(String),
    /// Wait until as many tasks are here as the workload's start has instances of tasks that come here, once for each place in
    /// their steps.
    Barrier(String),
    /// `sem_post(3)`; semaphores are 0 at first.
    Post(String),
    /// Post several semaphores in one system call, so that no woken task preempts the waker before all are posted: as a write that
    /// ends the poll of many readers.
    PostAll(Vec<String>),
    /// `sem_wait(3)`.
    Acquire(String),
    /// Touch memory: so many bytes, or follow so many pointers.
    Memory {
        /// How.
        access: Access,
        /// Bytes or pointers.
        count: u64,
        /// Which memory, over and over.
        buffer: Buffer,
    },
    /// Write so many bytes to the workload's device, in calls of at most `chunk`.
    Device {
        /// Bytes.
        bytes: u64,
        /// Bytes of one `write(2)`, at least 1.
        chunk: u32,
    },
    /// Write to a file and wait until that is done: for one opened synchronously until it is on the disk.
    WriteFile(FileAccess),
    /// Read from a file.
    ReadFile(FileAccess),
    /// Begin to write to a file past the page cache and go on; where `depth` accesses are under way, wait for the first of them.
    SubmitWrite {
        /// What is written.
        access: FileAccess,
        /// Accesses under way at most, 1 to 1024.
        depth: u32,
    },
    /// Begin to read from a file past the page cache and go on; where `depth` accesses are under way, wait for the first of them.
    SubmitRead {
        /// What is read.
        access: FileAccess,
        /// Accesses under way at most, 1 to 1024.
        depth: u32,
    },
    /// Wait until every access that this task began is done.
    AwaitFiles,
    /// Complete a write that a task began and that the disk has done, as a kernel thread does, waiting for one. Of the tasks that
    /// [`Machine::with_background`](crate::Machine::with_background) adds; no description of a workload has it.
    #[serde(skip)]
    CompleteWrite,
    /// Hand an access to the disk, as a kernel thread does, waiting for one; of those tasks as well.
    #[serde(skip)]
    Dispatch,
    /// End the writeback of a block that was written synchronously for the first time, as a kernel thread does, waiting for one; of those tasks
    /// as well.
    #[serde(skip)]
    EndWriteback,
    /// Begin or end a grace period, as RCU's kernel thread does, waiting until there is one to begin or to end; of those tasks as well.
    #[serde(skip)]
    GracePeriod,
    /// Hand a flush of the disk's write cache to the disk, as a kernel thread does, waiting for one; of those tasks as well.
    #[serde(skip)]
    DispatchFlush,
    /// Connect to a port, send so many bytes, and wait for the reply.
    Request {
        /// The port's name.
        port: String,
        /// Bytes sent, at least 1.
        bytes: u32,
        /// Bytes of the reply, at least 1.
        reply: u32,
    },
    /// Take the next connection to a port, waiting for one, and read the request.
    Accept {
        /// The port's name.
        port: String,
        /// Bytes of the request, at least 1.
        bytes: u32,
    },
    /// Send so many bytes to the client this task accepted last, and close the connection.
    Reply {
        /// Bytes, at least 1.
        bytes: u32,
    },
    /// Make `count` tasks of the template called `task`.
    Fork {
        /// The template's name.
        task: String,
        /// How many, one after the other.
        count: u32,
    },
    /// Wait until every task this one made has ended, and collect them: simulated, and natively threads, in the order in which
    /// they were made; natively processes as they end, as `wait(2)` gives them.
    Join,
    /// Change the task's scheduling from now on; nothing happens where it is so already.
    Set(Change),
    /// Note the time under a name.
    Mark(String),
    /// Start a stopwatch.
    Start(String),
    /// Stop it: the time since this task started it is one measurement of that name ([`Outcome::latencies`](crate::Outcome)).
    Stop(String),
    /// Do the steps over and over.
    Loop {
        /// How many times.
        count: u64,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Do the steps over and over, until the run is over.
    Forever(Vec<Step>),
}
