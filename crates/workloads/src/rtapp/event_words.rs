//! The words of events: what a phase does.

use super::words::{Form, POLICIES, Word, beyond};

const fn event(
    name: &'static str,
    form: Form,
    meaning: &'static str,
    simulated: &'static str,
    native: &'static str,
) -> Word {
    Word { name, form, meaning, simulated, native, extension: false }
}

const COUNT: Form = Form::Count(0, i64::MAX);
const BYTES: Form = Form::Count(1, 1 << 24);
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
    event("unlock", Form::Text, "Give the mutex back.", "a system call where a task waits", "`pthread_mutex_unlock`"),
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
        "exactly so much; with `compute` among the costs, ticks and interrupts are a part of it",
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
        "Sleep until a task resumes this name; the task's own where there is none.",
        "as `lock`, `wait`, `unlock`",
        "as `lock`, `wait`, `unlock`",
    ),
    event(
        "resume",
        Form::Text,
        "Wake all tasks suspended under this name.",
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
        "the last task to arrive wakes the others",
        "a mutex and a condition",
    ),
    event(
        "fork",
        Form::Either(&Form::Text, &Form::Object(&[("!task", Form::Text), ("!count", Form::Count(0, u32::MAX as i64))])),
        "Make a task of this name; in an endless loop at most 1024.",
        "the costs of a thread's or process's birth",
        "`pthread_create`, or `fork` for `\"kind\": \"process\"`",
    ),
    event(
        "sem_post",
        Form::Either(&Form::Text, &Form::Texts),
        "Count a semaphore up; of a list (schedlab's own) all, before any woken task preempts the waker.",
        "a system call where a task waits; one for the whole list",
        "`sem_post`, one call after another for a list",
    ),
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
        "Open a latch: tasks that wait there go on, for ever.",
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
        "Send so many bytes to the connection taken last, and close.",
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
        "Change the task's scheduling from now on, by the keys of a phase.",
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
