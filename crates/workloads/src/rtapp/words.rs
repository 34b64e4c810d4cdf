//! The words of the language but events': one table for reading, for the schema and for the reference.

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
    /// A list of texts.
    Texts,
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
    /// The kind of its value.
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

pub(super) const fn beyond(word: Word) -> Word {
    Word { extension: true, ..word }
}

pub(super) const POLICIES: &[&str] =
    &["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_RR", "SCHED_FIFO", "SCHED_DEADLINE"];

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
    beyond(word(
        "background",
        Form::Switch,
        "It is other work of the machine: the run does not wait for its end, outcomes count it apart, and its events take no CPU time beyond what they say.",
    )),
    beyond(word(
        "deferrable",
        Form::Switch,
        "The timers of its sleeps end no CPU's idling: they wait for a busy CPU's tick, or another background task's timer.",
    )),
    beyond(word("steps", Form::Events, "Its events, done once, in place of `phases`.")),
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
    word("target", Form::Text, "Has no effect (nor in rt-app)."),
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
    report("log_basename", "The names of its logs."),
    report("log_size", "How it keeps them."),
    report("ftrace", "What it writes to the kernel's trace."),
    report("gnuplot", "Whether it writes plots."),
    report("cumulative_slack", "How its logs count slack."),
    report("frag", "Read by older releases."),
];

/// The whole file.
pub const ROOT: &[Word] = &[
    beyond(word("name", Form::Text, "The workload's name; the file's name where none is given.")),
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
