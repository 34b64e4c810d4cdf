//! The words of the language: one table for reading, for the schema and for the reference.

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// A time: whole microseconds, a text with its unit, or an object that names a distribution.
    Duration,
    /// A time: whole microseconds, or a text with its unit.
    Time,
    /// A time: whole seconds, −1 for none, or a text with its unit.
    Seconds,
    /// A whole number between these.
    Count(i64, i64),
    /// A text.
    Text,
    /// A text, or nothing.
    Maybe,
    /// `true` or `false`.
    Switch,
    /// A list of whole numbers.
    Numbers,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// An object with these keys; those that begin with `!` must be there.
    Object(&'static [(&'static str, Form)]),
    /// One or the other.
    Either(&'static Form, &'static Form),
    /// An object of events in their order.
    Events,
    /// An object of phases in their order.
    Phases,
    /// An object of objects with these keys.
    Named(&'static [Word]),
    /// Anything: what rt-app's own reports need.
    Any,
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// Its name; an event's may have anything behind it, as `run1`.
    pub name: &'static str,
    /// What it takes.
    pub form: Form,
    /// What it means.
    pub meaning: &'static str,
    /// What the simulator does.
    pub simulated: &'static str,
    /// What is done on a real kernel.
    pub native: &'static str,
    /// Whether rt-app does not know it.
    pub extension: bool,
}

const fn word(name: &'static str, form: Form, meaning: &'static str) -> Word {
    Word { name, form, meaning, simulated: "the same", native: "the same", extension: false }
}

const fn event(
    name: &'static str,
    form: Form,
    meaning: &'static str,
    simulated: &'static str,
    native: &'static str,
) -> Word {
    Word { name, form, meaning, simulated, native, extension: false }
}

const fn beyond(word: Word) -> Word {
    Word { extension: true, ..word }
}

const COUNT: Form = Form::Count(0, i64::MAX);
const BYTES: Form = Form::Count(1, 1 << 24);
const POLICIES: &[&str] = &["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_RR", "SCHED_FIFO", "SCHED_DEADLINE"];
const MESSAGE: Form = Form::Object(&[("!channel", Form::Text), ("!bytes", BYTES)]);
const WAIT: Form = Form::Object(&[("!ref", Form::Text), ("!mutex", Form::Text)]);
const OFFSET: Form = Form::OneOf(&["next", "random"]);
const FILE: Form = Form::Object(&[("!file", Form::Text), ("!bytes", BYTES), ("offset", OFFSET)]);
const SUBMIT: Form =
    Form::Object(&[("!file", Form::Text), ("!bytes", BYTES), ("offset", OFFSET), ("!depth", Form::Count(1, 1024))]);
const MEMRUN: Form = Form::Object(&[
    ("!type", Form::OneOf(&["read", "write", "chase"])),
    ("!size", Form::Count(1, 1 << 34)),
    ("!count", COUNT),
    ("pattern", Form::OneOf(&["random", "sequential"])),
    ("stride", Form::Count(8, u32::MAX as i64)),
    ("ref", Form::Text),
]);
const TIMER: Form = Form::Object(&[
    ("!ref", Form::Text),
    ("!period", Form::Time),
    ("mode", Form::OneOf(&["relative", "absolute"])),
    ("own", Form::Switch),
]);

/// Events, in the order in which a key is compared with their names; the first that it begins with is meant.
pub const EVENTS: &[Word] = &[
    event(
        "lock",
        Form::Text,
        "Take a mutex, waiting while another task holds it.",
        "free: nothing is charged; taken: a system call and a sleep; the most urgent waiter is woken first",
        "`pthread_mutex_lock`, shared between processes",
    ),
    event("unlock", Form::Text, "Give the mutex back.", "a system call where somebody waits", "`pthread_mutex_unlock`"),
    event(
        "wait",
        WAIT,
        "Give the mutex back, sleep until the condition is signalled, take the mutex again.",
        "both sleeps as futexes make them",
        "`pthread_cond_wait`",
    ),
    event(
        "signal",
        Form::Text,
        "Wake one task that waits for the condition.",
        "the most urgent one",
        "`pthread_cond_signal`",
    ),
    event(
        "broad",
        Form::Text,
        "Wake all tasks that wait for the condition.",
        "in order of urgency",
        "`pthread_cond_broadcast`",
    ),
    event("sync", WAIT, "Signal the condition, then wait for it.", "as `signal` and `wait`", "as `signal` and `wait`"),
    event("sleep", Form::Duration, "Sleep so long.", "a timer, at the nanosecond", "`clock_nanosleep`"),
    event(
        "runtime",
        Form::Duration,
        "Compute until so much time has passed, on a CPU or not.",
        "the time off the CPU counts too",
        "a loop that looks at `CLOCK_MONOTONIC`",
    ),
    event(
        "run",
        Form::Duration,
        "Compute for so much CPU time.",
        "exactly so much",
        "the thread's own CPU clock, within 1 %, with 16 looks at it at most",
    ),
    event(
        "timer",
        TIMER,
        "Put the timer off by a period and sleep until it expires. Where that has passed go on at once; a relative timer then counts \
         from now. A name that begins with `unique` is a timer of each task's own.",
        "the same",
        "`clock_nanosleep(TIMER_ABSTIME)`",
    ),
    event(
        "suspend",
        Form::Maybe,
        "Sleep until somebody resumes this name; the task's own where there is none.",
        "as `lock`, `wait`, `unlock`",
        "as `lock`, `wait`, `unlock`",
    ),
    event(
        "resume",
        Form::Text,
        "Wake everybody who is suspended under this name.",
        "as `lock`, `broad`, `unlock`",
        "as `lock`, `broad`, `unlock`",
    ),
    event(
        "memrun",
        MEMRUN,
        "Read or write so many bytes of a buffer, or follow so many pointers in it; with `ref` all tasks share it.",
        "the machine's `devices.memory_per_kib` and `devices.memory_chase`",
        "the same accesses",
    ),
    event(
        "mem",
        COUNT,
        "Write so many bytes to the task's buffer of `mem_buffer_size`.",
        "the machine's `devices.memory_per_kib`",
        "`memset`",
    ),
    event(
        "iorun",
        Form::Either(&COUNT, &Form::Object(&[("!bytes", COUNT), ("!chunk", BYTES)])),
        "Write so many bytes to `io_device`, `mem_buffer_size` (or `chunk`) a call.",
        "a system call each, and copying unless it is `/dev/null`",
        "`write`",
    ),
    event("yield", Form::Any, "Let others run.", "`yield_task` of the task's class", "`sched_yield`"),
    event(
        "barrier",
        Form::Text,
        "Wait until as many tasks are here as there are instances of tasks with this event, once for each time they have it.",
        "who comes last wakes the others",
        "a mutex and a condition",
    ),
    event(
        "fork",
        Form::Either(&Form::Text, &Form::Object(&[("!task", Form::Text), ("!count", Form::Count(0, u32::MAX as i64))])),
        "Make a task of this name; in an endless loop at most 1024.",
        "the costs of a thread's or process's birth",
        "`pthread_create`, or `fork` for `\"kind\": \"process\"`",
    ),
    event("sem_post", Form::Text, "Count a semaphore up.", "a system call where somebody waits", "`sem_post`"),
    event("sem_wait", Form::Text, "Count a semaphore down, waiting while it is 0.", "the same", "`sem_wait`"),
    beyond(event(
        "send",
        MESSAGE,
        "Write a message to a channel.",
        "`pipe_write` and `unix_stream_sendmsg`",
        "`write`",
    )),
    beyond(event(
        "receive",
        MESSAGE,
        "Read a message of so many bytes.",
        "`pipe_read` and `unix_stream_read_generic`",
        "`read`",
    )),
    beyond(event(
        "open",
        Form::Text,
        "Open a latch: whoever waits there goes on, for ever.",
        "as hackbench's start",
        "a byte in a pipe",
    )),
    beyond(event(
        "await_files",
        Form::Any,
        "Wait until every access that this task submitted is done.",
        "the same",
        "joins its helpers",
    )),
    beyond(event("await", Form::Text, "Wait until a latch is open.", "`poll`", "`poll`")),
    beyond(event(
        "write_file",
        FILE,
        "Write to a file and wait until that is done.",
        "the page cache at the price of copying, or the disk",
        "`pwrite`",
    )),
    beyond(event(
        "read_file",
        FILE,
        "Read from a file.",
        "the page cache at the price of copying, or the disk",
        "`pread`",
    )),
    beyond(event(
        "submit_write",
        SUBMIT,
        "Begin to write past the page cache; with `depth` accesses under way wait for the first.",
        "the disk's turn and latency",
        "`io_submit`",
    )),
    beyond(event("submit_read", SUBMIT, "The same with reading.", "the disk's turn and latency", "`io_submit`")),
    beyond(event(
        "request",
        Form::Object(&[("!port", Form::Text), ("!bytes", BYTES), ("!reply", BYTES)]),
        "Connect to a port, send, and wait for the reply.",
        "the costs of stream sockets",
        "TCP on the loopback interface, a connection a request",
    )),
    beyond(event(
        "accept",
        Form::Object(&[("!port", Form::Text), ("!bytes", BYTES)]),
        "Take the next connection, waiting for one, and read the request.",
        "first come, first served",
        "`accept` and `read`",
    )),
    beyond(event(
        "reply",
        BYTES,
        "Send so many bytes to whom was taken last, and close.",
        "the costs of stream sockets",
        "`write` and `close`",
    )),
    beyond(event(
        "join",
        Form::Any,
        "Wait until every task this one made has ended.",
        "the same",
        "`wait` and `pthread_join`",
    )),
    beyond(event(
        "set",
        Form::Object(SET),
        "Be treated by the scheduler in another way from now on, as a phase's keys say it.",
        "`sched_setattr` and the like",
        "`sched_setattr` and the like",
    )),
    beyond(event("mark", Form::Text, "Note the time under a name.", "an event of the trace", "the workload's clock")),
    beyond(event("start", Form::Text, "Start a stopwatch.", "costs nothing", "one look at the clock")),
    beyond(event(
        "stop",
        Form::Text,
        "Stop it: one measurement of the outcome's `latencies`.",
        "costs nothing",
        "one look at the clock",
    )),
    beyond(event("repeat", Form::Events, "Do the events inside `loop` times (−1: for ever).", "the same", "the same")),
];

/// What a `set` event may say.
const SET: &[(&str, Form)] = &[
    ("policy", Form::OneOf(POLICIES)),
    ("priority", Form::Count(-20, 99)),
    ("nice", Form::Any),
    ("slice", Form::Time),
    ("dl-runtime", Form::Time),
    ("dl-period", Form::Time),
    ("dl-deadline", Form::Time),
    ("cpus", Form::Numbers),
    ("nodes_membind", Form::Numbers),
    ("taskgroup", Form::Text),
    ("util_min", Form::Count(-1, 1024)),
    ("util_max", Form::Count(-1, 1024)),
];

/// What tasks and phases both may say of their scheduling.
pub const SCHEDULING: &[Word] = &[
    word("policy", Form::OneOf(POLICIES), "The scheduling policy; `default_policy` where a task says nothing."),
    word(
        "priority",
        Form::Count(-20, 99),
        "A real-time priority, 1 to 99 (10 where nothing is said), or a nice level, −20 to 19.",
    ),
    word(
        "dl-runtime",
        Form::Time,
        "The budget of a `SCHED_DEADLINE` task; the slice asked for under the fair policies (Linux 6.12).",
    ),
    word("dl-period", Form::Time, "Its period; the runtime where nothing is said."),
    word("dl-deadline", Form::Time, "Its deadline; the period where nothing is said."),
    word("cpus", Form::Numbers, "The CPUs it may run on; a phase that says nothing has its task's."),
    Word {
        simulated: "memory is equally near everywhere",
        native: "`set_mempolicy(MPOL_BIND)`",
        ..word("nodes_membind", Form::Numbers, "The NUMA nodes its memory comes from.")
    },
    Word {
        native: "a cgroup, v1 or v2",
        ..word("taskgroup", Form::Text, "The path of its group, as `/tg1/tg11`; `/` for none.")
    },
    Word {
        simulated: "every CPU has one speed, so it changes nothing",
        ..word("util_min", Form::Count(-1, 1024), "Count its utilisation as no less.")
    },
    Word {
        simulated: "every CPU has one speed, so it changes nothing",
        ..word("util_max", Form::Count(-1, 1024), "Count its utilisation as no more.")
    },
    beyond(word("nice", Form::Count(-20, 19), "The nice level it has once its policy is a fair one.")),
    beyond(word("slice", Form::Time, "The slice asked for, whatever the policy.")),
];

/// What a task may say besides.
pub const TASK: &[Word] = &[
    word("instance", Form::Count(0, 1_000_000), "How many of them are there from the start; 1 where nothing is said."),
    word("delay", Form::Time, "It sleeps until so long after the start, and its timers count from then."),
    word("loop", Form::Count(-1, i64::MAX), "How often its phases are gone through; −1, or nothing, for ever."),
    word("phases", Form::Phases, "Its phases in their order; without them its events stand in the task itself."),
    word(
        "runtime",
        Form::Time,
        "As `dl-runtime`, for a `SCHED_DEADLINE` task without it (and an event all the same where there are no phases).",
    ),
    word("period", Form::Time, "As `dl-period`, for a `SCHED_DEADLINE` task without it."),
    word("deadline", Form::Time, "As `dl-deadline`, for a `SCHED_DEADLINE` task without it."),
    beyond(word(
        "kind",
        Form::OneOf(&["thread", "process"]),
        "Whether it is a thread of the one process, as rt-app's tasks are, or a process.",
    )),
    beyond(word("inherit", Form::Switch, "It takes policy and the like from the task that forks it.")),
    beyond(word("session", Form::Text, "The session it belongs to, for `autogroup`.")),
    beyond(word(
        "asleep",
        Form::Switch,
        "It was there before and is asleep at the start, in its first event: `sleep`, `timer` or `sem_wait`.",
    )),
    beyond(word("steps", Form::Events, "Its events, once, with nothing around them; in the place of `phases`.")),
];

/// What a phase may say besides.
pub const PHASE: &[Word] =
    &[word("loop", Form::Count(-1, i64::MAX), "How often the phase is gone through; 1 where nothing is said.")];

/// Settings of a group.
const GROUP: &[Word] = &[
    beyond(word("weight", Form::Count(1, 10_000), "`cpu.weight`.")),
    beyond(word("shares", Form::Count(2, 1 << 18), "`cpu.shares`.")),
    beyond(word("idle", Form::Switch, "`cpu.idle`.")),
    beyond(word(
        "max",
        Form::Object(&[("!quota", Form::Time), ("period", Form::Time), ("burst", Form::Time)]),
        "`cpu.max` and `cpu.max.burst`.",
    )),
];

/// A resource.
const RESOURCE: &[Word] = &[
    word(
        "type",
        Form::OneOf(&[
            "mutex",
            "wait",
            "signal",
            "broadcast",
            "sync",
            "sleep",
            "run",
            "timer",
            "pipe",
            "socket",
            "latch",
            "file",
        ]),
        "What it is. rt-app's own types need not be declared; channels, latches and files (extensions) must be.",
    ),
    beyond(word("name", Form::Text, "Its name where that is not the key.")),
    word("target", Form::Text, "Has no effect (rt-app's neither)."),
    beyond(word("size", Form::Count(1, 1 << 40), "A file's bytes.")),
    beyond(word(
        "open",
        Form::OneOf(&["cached", "sync", "direct"]),
        "How a file is opened: through the page cache, with `O_SYNC`, or with `O_DIRECT` too.",
    )),
];

/// The `global` object.
pub const GLOBAL: &[Word] = &[
    word("duration", Form::Seconds, "When the run is over, in seconds; −1, or nothing, for when all tasks have ended."),
    word("default_policy", Form::OneOf(POLICIES), "The policy of tasks that name none."),
    word("pi_enabled", Form::Switch, "Mutexes with priority inheritance."),
    Word {
        simulated: "there is no paging",
        native: "`mlockall`, for tasks that are not fair",
        ..word("lock_pages", Form::Switch, "Keep memory in RAM; `true` where nothing is said.")
    },
    word("io_device", Form::Text, "What `iorun` writes to; `/dev/null` where nothing is said."),
    word(
        "mem_buffer_size",
        Form::Count(1, 1 << 34),
        "Bytes of the buffers of `mem` and `iorun`; 4194304 where nothing is said.",
    ),
    Word {
        simulated: "not needed",
        native: "not needed: CPU time is measured",
        ..word("calibration", Form::Any, "How rt-app finds the speed of its loop.")
    },
    REPORT[0],
    REPORT[1],
    REPORT[2],
    REPORT[3],
    REPORT[4],
    REPORT[5],
    REPORT[6],
];

const fn report(name: &'static str, meaning: &'static str) -> Word {
    Word {
        simulated: "not written: `--trace` and the outcome say more",
        native: "not written: the outcome says it",
        ..word(name, Form::Any, meaning)
    }
}

/// What only rt-app's own reports need.
pub(crate) const REPORT: [Word; 7] = [
    report("logdir", "Where rt-app writes its logs."),
    report("log_basename", "How its logs are called."),
    report("log_size", "How it keeps them."),
    report("ftrace", "What it writes to the kernel's trace."),
    report("gnuplot", "Whether it writes plots."),
    report("cumulative_slack", "How its logs count slack."),
    report("frag", "Read by older releases."),
];

/// The whole file.
pub const ROOT: &[Word] = &[
    beyond(word("name", Form::Text, "What people call it; the file's name where nothing is said.")),
    word("global", Form::Named(&[]), "What concerns all tasks."),
    word("resources", Form::Named(RESOURCE), "What tasks share."),
    word("tasks", Form::Named(&[]), "The tasks by name."),
    beyond(word(
        "groups",
        Form::Named(GROUP),
        "Settings of groups by path; groups that a task names are there without.",
    )),
    beyond(word("turnaround_from", Form::Text, "The mark at which the workload's own clock starts.")),
];

/// The event that a key means.
pub(crate) fn event_of(key: &str) -> Option<&'static Word> {
    let exact = EVENTS.iter().find(|word| word.name == key);
    exact.or_else(|| {
        EVENTS.iter().find(|word| {
            key.strip_prefix(word.name).is_some_and(|rest| {
                !word.extension || rest.chars().all(|letter| letter.is_ascii_digit() || letter == '_')
            })
        })
    })
}
