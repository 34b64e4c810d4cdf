//! From the records of several CPUs to steps: what was done under one run queue's lock, in the order in which the locks were held.
//!
//! Each CPU's own records are cut by themselves, for what one does under a lock stands together there; then the steps of all are put in the
//! order of the record that tells when the queue was locked. A wake-up comes apart into what is done without the queue's lock (the CPU is
//! chosen, the task leaves its old CPU's account) and what is done with it, maybe on another CPU later. A CPU that looks for work before it
//! idles lets its lock go meanwhile, so that its schedule comes apart too.

use schedlab_trace::{Pid, RecordKind};

use crate::classes::section::{Entry, What};
use crate::flags::{SAVE, SLEEP};

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// A task's state before the workload.
    Snap,
    /// A task is about to be woken. `remote`: the CPU where it was will queue it, without any being chosen.
    Waking {
        remote: bool,
    },
    /// `select_task_rq_fair`, with what it returned; if `remote`, that one will queue it.
    Select {
        chosen: Option<u32>,
        remote: bool,
    },
    /// `migrate_task_rq_fair` of a task that sleeps.
    Migrate,
    /// A task is queued: woken, new, or brought from another CPU.
    Activate,
    /// A task is woken that had not left its queue.
    WakeRunning,
    /// Of a task that no probe of its class shows, the wake-up.
    Wakeup,
    /// `detach_task`, or a lingering task leaves for good.
    Detach,
    /// Taken off, changed, put back.
    Change,
    /// The running task leaves, and the CPU looks for work.
    Leave,
    /// `__schedule`, what is left of it.
    Schedule,
    Tick,
    /// `update_blocked_averages` of one queue.
    Averages,
    /// `task_fork_fair` (CFS).
    ForkPlaced,
    Fork {
        parent: Pid,
        child: Pid,
    },
    Exit,
    /// `task_dead_fair`, of whoever ended.
    Dead,
    Yield,
    Charge,
    /// Somebody is told to schedule, outside all of these.
    Resched,
    /// The recorder says something.
    Mark,
    Nothing,
}

/// A step: so many records of one CPU, from `from` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) act: Act,
    /// Who did it.
    pub(super) by: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    /// Where among all steps: twice the line of the record that tells when, so that there is room between two.
    place: u64,
}

/// Cuts every CPU's records; steps of all CPUs in order.
pub(super) fn cut(streams: &[Vec<Entry<'_>>]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (by, entries) in streams.iter().enumerate() {
        let mut at = 0;
        while at < entries.len() {
            let (act, length, key) = next(&entries[at..]);
            let to = (at + length.max(1)).min(entries.len());
            if act != Act::Nothing {
                let line = entries[(at + key).min(to - 1)].record.line;
                steps.push(Step { act, by, from: at, to, place: 2 * line });
            }
            at = to;
        }
    }
    order_migrations(streams, &mut steps);
    // Stable: of two at the same place the one that is to come first stands first.
    steps.sort_by_key(|step| step.place);
    steps
}

/// A task that wakes elsewhere leaves its load behind without the lock of the queue that it was on. Whoever holds that, and may have
/// taken it before, takes the load out where the averages are next brought up to date: a migration within such a step comes before or
/// after all of it.
fn order_migrations(streams: &[Vec<Entry<'_>>], steps: &mut [Step]) {
    let mut updates: Vec<Vec<Update>> = vec![Vec::new(); streams.len()];
    for step in steps.iter() {
        let entries = &streams[step.by][step.from..step.to];
        let line = |entry: &Entry<'_>| entry.record.line;
        let (Some(first), Some(end)) = (entries.first().map(line), entries.last().map(line)) else { continue };
        let last = entries.iter().rfind(|entry| &*entry.record.event == "k_lacfs").map_or(0, line);
        let queue = queue_of(entries, step.by, streams.len());
        updates[queue].push(Update { first, end, last, place: step.place });
    }
    for updates in &mut updates {
        updates.sort_by_key(|update| update.first);
    }
    for step in steps.iter_mut().filter(|step| step.act == Act::Migrate) {
        let entries = &streams[step.by];
        let from = entries[..step.from].iter().rev().take(2).find_map(|entry| match entry.record.kind {
            RecordKind::Migrate { from, .. } => Some(from as usize),
            _ => None,
        });
        let Some(updates) = from.and_then(|from| updates.get(from)) else { continue };
        let left = entries[step.to - 1].record.line;
        let begun = updates.partition_point(|update| update.first < left);
        let Some(update) = begun.checked_sub(1).map(|at| updates[at]).filter(|update| left < update.end) else {
            continue;
        };
        step.place =
            if left < update.last { step.place.min(update.place - 1) } else { step.place.max(update.place + 1) };
    }
}

/// A step on a queue: its first and last line, where it last brings the averages up to date, and its place.
#[derive(Debug, Clone, Copy)]
struct Update {
    first: u64,
    end: u64,
    last: u64,
    place: u64,
}

/// The CPU whose queue a step is about: the one a probe names, or else the one that recorded it.
pub(super) fn queue_of(step: &[Entry<'_>], by: usize, cpus: usize) -> usize {
    let named = step.iter().find_map(|entry| match entry.what {
        What::Enqueue(_) | What::Dequeue(_) | What::Check | What::UpdateCurr | What::Tick => entry.record.number("cpu"),
        What::Wakeup | What::WakeupNew => match entry.record.kind {
            RecordKind::Wakeup { target, .. } | RecordKind::WakeupNew { target, .. } => Some(u64::from(target)),
            _ => None,
        },
        _ => None,
    });
    named.map(|cpu| cpu as usize).filter(|cpu| *cpu < cpus).unwrap_or(by)
}

/// The step that begins at `entries[0]`, how many records it has, and which of them tells when.
fn next(entries: &[Entry<'_>]) -> (Act, usize, usize) {
    let first = &entries[0];
    match first.what {
        What::Snap => (Act::Snap, 1, 0),
        What::Waking => {
            let chooses = entries[1..].iter().take(3).any(|entry| &*entry.record.event == "k_sel");
            (Act::Waking { remote: !chooses && is_remote(entries) }, 1, 0)
        }
        What::Enqueue(_) => (Act::Activate, activation(entries), 0),
        What::Dequeue(_) if first.flags() & SAVE != 0 => change(entries),
        What::Dequeue(_) if first.flags() & SLEEP != 0 && first.pid() == Some(first.record.pid) => leave(entries),
        What::Dequeue(_) => (Act::Detach, detachment(entries), 0),
        What::Tick => (Act::Tick, run(entries, 1), 0),
        What::Check => (Act::WakeRunning, run(entries, 1), 0),
        What::Wakeup => (Act::Wakeup, 1, 0),
        What::Switch => (Act::Schedule, 1, 0),
        What::Yield => (Act::Yield, 1, 0),
        What::Fork => match first.record.kind {
            RecordKind::Fork { parent, child, .. } => (Act::Fork { parent, child }, 1, 0),
            _ => (Act::Nothing, 1, 0),
        },
        What::Resched if entries.get(1).is_some_and(|next| next.what == What::Tick) => (Act::Tick, run(entries, 2), 1),
        What::Resched => (Act::Resched, 1, 0),
        What::PickTask | What::Parameters => loose(entries),
        _ if is_within(first) => loose(entries),
        _ => named(entries),
    }
}

fn named(entries: &[Entry<'_>]) -> (Act, usize, usize) {
    let record = entries[0].record;
    match &*record.event {
        "k_snapw" | "k_snapq" => (Act::Snap, 1, 0),
        "k_sel" => (Act::Select { chosen: chosen(entries), remote: is_remote(entries) }, 1, 0),
        "k_mig" => (Act::Migrate, 1 + entries[1..].iter().take_while(|entry| is_blocked(entry)).count(), 0),
        "k_lacfs" => (Act::Averages, 1, 0),
        "k_lablk" => (Act::Dead, 1, 0),
        "sched_process_exit" => (Act::Exit, 1, 0),
        "tracing_mark_write" => (Act::Mark, 1, 0),
        _ => (Act::Nothing, 1, 0),
    }
}

fn is_blocked(entry: &Entry<'_>) -> bool {
    &*entry.record.event == "k_lablk"
}

fn is_load(entry: &Entry<'_>) -> bool {
    matches!(&*entry.record.event, "k_lase" | "k_lacfs")
}

/// Whether a record only occurs within steps that another one begins.
fn is_within(entry: &Entry<'_>) -> bool {
    entry.what.is_within() || is_load(entry) && &*entry.record.event != "k_lacfs"
}

/// The records from `from` on that belong to the step before: parts of steps, at the same clock.
fn run(entries: &[Entry<'_>], from: usize) -> usize {
    let clock = |entry: &Entry<'_>| entry.record.clocks.map(|clocks| clocks.task);
    let began = entries[..from].iter().find_map(clock);
    let belongs = |entry: &&Entry<'_>| {
        let same = clock(entry).is_none_or(|now| began.is_none_or(|at| at == now));
        same && (entry.what.is_within() || is_load(entry))
    };
    from + entries[from..].iter().take_while(belongs).count()
}

fn chosen(entries: &[Entry<'_>]) -> Option<u32> {
    let returned = entries[1..].iter().take(8).find(|entry| &*entry.record.event == "k_selr")?;
    returned.record.number("cpu").map(|cpu| cpu as u32)
}

/// Whether a wake-up is handed to another CPU: this one chooses, or knows, and queues nothing.
fn is_remote(entries: &[Entry<'_>]) -> bool {
    let pid = entries[0].pid();
    let rest = entries[1..].iter().take_while(|entry| entry.record.flags.interrupts_off);
    for entry in rest {
        match entry.what {
            What::Enqueue(_) | What::Wakeup | What::WakeupNew if entry.pid() == pid => return false,
            What::Waking | What::Switch | What::Tick | What::Dequeue(_) | What::TimerExit => return true,
            _ => {}
        }
    }
    true
}

/// A queueing up to where the wake-up is told of; of a new task that comes before preemption is looked at.
fn activation(entries: &[Entry<'_>]) -> usize {
    let length = run(entries, 1);
    let told = entries.get(length).filter(|entry| entry.pid() == entries[0].pid());
    match told.map(|entry| entry.what) {
        Some(What::Wakeup) => length + 1,
        Some(What::WakeupNew) => run(entries, length + 1),
        _ => length,
    }
}

fn change(entries: &[Entry<'_>]) -> (Act, usize, usize) {
    let pid = entries[0].pid();
    let back = entries.iter().position(|entry| matches!(entry.what, What::Enqueue(_)) && entry.pid() == pid);
    let ends = entries.iter().skip(1).position(|entry| matches!(entry.what, What::Switch | What::Waking | What::Tick));
    match back {
        Some(at) if ends.is_none_or(|end| at <= end) => (Act::Change, run(entries, at + 1), 0),
        _ => (Act::Detach, detachment(entries), 0),
    }
}

/// With the account of where to.
fn detachment(entries: &[Entry<'_>]) -> usize {
    let length = run(entries, 1);
    let goes =
        |entry: &&Entry<'_>| matches!(entry.record.kind, RecordKind::Migrate { .. }) || &*entry.record.event == "k_mig";
    length + entries[length..].iter().take_while(goes).count()
}

/// The running task goes to sleep: one step until somebody else runs, unless the CPU looks for work on the way.
fn leave(entries: &[Entry<'_>]) -> (Act, usize, usize) {
    let ends = |entry: &Entry<'_>| entry.what == What::Switch || &*entry.record.event == "k_newidle";
    match entries.iter().position(ends) {
        Some(at) if entries[at].what == What::Switch => (Act::Schedule, at + 1, at),
        Some(at) => (Act::Leave, at, 0),
        None => (Act::Nothing, 1, 0),
    }
}

/// Parts of a step whose first function is not probed, or that is told by its first look at the queue.
fn loose(entries: &[Entry<'_>]) -> (Act, usize, usize) {
    let length = run(entries, 1);
    if entries.get(length).is_some_and(|next| next.what == What::Switch) {
        return (Act::Schedule, length + 1, length);
    }
    let step = &entries[..length];
    if step.iter().any(|entry| matches!(entry.what, What::Pick | What::PickTask)) {
        return (Act::Schedule, length, 0);
    }
    if step.iter().any(|entry| entry.what == What::Place && entry.record.word("init") == Some("1")) {
        return (Act::ForkPlaced, length, 0);
    }
    (Act::Charge, length, 0)
}
