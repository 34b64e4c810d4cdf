//! From the records of several CPUs to steps: what was done under one run queue's lock, in the order in which the locks were held.
//!
//! Each CPU's own records are cut by themselves, for what one does under a lock stands together there; then the steps of all are put in the
//! order of the record that tells when the queue was locked. A wake-up comes apart into what is done without the queue's lock (the CPU is
//! chosen, the task leaves its old CPU's account) and what is done with it, maybe on another CPU later. A CPU that looks for work before it
//! idles lets its lock go meanwhile, so that its schedule comes apart too.

use std::collections::BTreeSet;

use schedlab_trace::{Context, Pid, RecordKind};

use crate::read::flags::{SAVE, SLEEP, THROTTLE};
use crate::read::section::{Entry, Of, What};

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
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
    /// `migrate_task_rq_fair` of a task that sleeps, where its averages are not told.
    Migrate,
    /// The first part of that where they are: it counts its virtual time from the queue that it leaves (CFS).
    LeaveTime {
        from: Option<usize>,
        read: Read,
    },
    /// The second: its load leaves that queue's account, as does the load of a task that ended (`task_dead_fair`).
    LeaveLoad,
    /// A task is queued: woken, new, or brought from another CPU.
    Activate,
    /// A task is woken that had not left its queue.
    WakeRunning,
    /// Of a task that no probe of its class shows, the wake-up.
    Wakeup,
    /// `detach_task`, or a delayed dequeue that completes.
    Detach,
    /// Taken off, changed, put back.
    Change,
    /// The running task leaves, and the CPU looks for work.
    Leave,
    /// `__schedule`, what is left of it.
    Schedule,
    Tick,
    /// A CPU is about to be balanced on a tick.
    Due,
    /// `sched_balance_update_blocked_averages` of one queue.
    Averages,
    /// `task_fork_fair` (CFS).
    ForkPlaced,
    Fork {
        parent: Pid,
        child: Pid,
    },
    Exit,
    Yield,
    Charge,
    /// A task is marked for rescheduling, outside all of these.
    Resched,
    /// A group comes to be on one CPU (`online_fair_sched_group`).
    Online,
    MakeGroup,
    /// `sched_group_set_shares`, up to where it comes to the CPUs' queues.
    Shares,
    /// The part of it that concerns one CPU.
    SharesOfQueue,
    /// `tg_set_cfs_bandwidth`.
    Quota,
    /// A timer refills a group's pool.
    Refill,
    /// A group's queue is let go.
    Unthrottle,
    /// The running task returns to user space in a throttled group (`throttle_cfs_rq_work`, 6.18 on).
    Throttle,
    /// A timer expires, or is done.
    Timer,
    /// The recorder says something.
    Mark,
    Nothing,
}

/// When a queue's virtual time was read, among what a step on that queue does to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Before that, or after all of it.
    Whole,
    /// After the running task was charged, and before a task was dequeued.
    Charged,
    /// While the running task was charged: before or after it.
    Charging,
    /// After the running task was charged up to `clock` (`charging`: while it was), in a step that comes later here.
    Ahead { clock: u64, charging: bool },
}

impl Act {
    /// Whether it is done under a queue's lock, which others do not take to look at the queue.
    pub(crate) const fn locks(self) -> bool {
        matches!(
            self,
            Self::Activate
                | Self::WakeRunning
                | Self::Detach
                | Self::Change
                | Self::Leave
                | Self::Schedule
                | Self::Tick
                | Self::Throttle
        )
    }
}

/// A step: so many records of one CPU, from `from` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) act: Act,
    /// Who did it.
    pub(crate) by: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Where among all steps: [`ROOM`] times the line of the record that tells when, so that there is room between two.
    pub(crate) place: u64,
}

/// Places from one line to the next.
pub(crate) const ROOM: u64 = 8;

/// Cuts every CPU's records: the steps of one CPU after the other's.
pub(crate) fn cut(streams: &[Vec<Entry<'_>>]) -> Vec<Step> {
    let roots = root_queues(streams);
    let mut steps: Vec<Step> = Vec::new();
    for (by, entries) in streams.iter().enumerate() {
        let mut at = 0;
        while at < entries.len() {
            let (act, length, key) = next(&entries[at..], &roots);
            let to = (at + length.max(1)).min(entries.len());
            let mut push = |act: Act, to: usize, key: usize| {
                let line = entries[key.min(to - 1)].record.line;
                steps.push(Step { act, by, from: at, to, place: ROOM * line });
            };
            if act == Act::Migrate && length > 1 {
                push(Act::LeaveTime { from: left_queue(&entries[..at]), read: Read::Whole }, at + 1, at);
                push(Act::LeaveLoad, to, at + 1);
            } else if act != Act::Nothing {
                push(act, to, at + key);
            }
            at = to;
        }
    }
    steps
}

/// The queue that a task leaves, which is told right before it does.
pub(crate) fn left_queue(before: &[Entry<'_>]) -> Option<usize> {
    before.iter().rev().take(2).find_map(|entry| match entry.record.kind {
        RecordKind::Migrate { from, .. } => Some(from as usize),
        _ => None,
    })
}

/// The CPU whose queue a step is about: the one a probe names, or else the one that recorded it.
pub(crate) fn queue_of(step: &[Entry<'_>], by: usize, cpus: usize) -> usize {
    // A look at nothing but the averages is at any queue's.
    let looks =
        step.first().filter(|entry| &*entry.record.event == "k_lacfs" || entry.is_load() && entry.pid() == Some(0));
    let named = looks.and_then(|entry| entry.record.number("cpu"));
    let named = named.or_else(|| {
        step.iter().find_map(|entry| match entry.what {
            What::Enqueue(_) | What::Dequeue(_) | What::Check | What::UpdateCurr | What::Tick => entry.queue(),
            What::Wakeup | What::WakeupNew => match entry.record.kind {
                RecordKind::Wakeup { target, .. } | RecordKind::WakeupNew { target, .. } => Some(u64::from(target)),
                _ => None,
            },
            _ => None,
        })
    });
    named.map(|cpu| cpu as usize).filter(|cpu| *cpu < cpus).unwrap_or(by)
}

/// The addresses of the CPUs' root queues: before the recording no task is in a group.
fn root_queues(streams: &[Vec<Entry<'_>>]) -> BTreeSet<u64> {
    let told = streams.iter().flatten().filter(|entry| &*entry.record.event == "k_snapq");
    told.filter_map(|entry| entry.record.number("cfs")).collect()
}

/// The step that begins at `entries[0]`, how many records it has, and which of them tells when.
fn next(entries: &[Entry<'_>], roots: &BTreeSet<u64>) -> (Act, usize, usize) {
    let first = &entries[0];
    match first.what {
        What::Snap => (Act::Snap, 1, 0),
        What::Waking => {
            let chooses = entries[1..].iter().take(3).any(|entry| &*entry.record.event == "k_sel");
            (Act::Waking { remote: !chooses && is_remote(entries) }, 1, 0)
        }
        What::Enqueue(_) => (Act::Activate, activation(entries), 0),
        What::Dequeue(_) if first.flags() & SAVE != 0 => change(entries),
        What::Dequeue(Of::Fair) if first.flags() & THROTTLE != 0 => (Act::Throttle, run(entries, 1), 0),
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
        What::Move => (Act::Change, run(entries, 1), 0),
        What::MakeGroup => (Act::MakeGroup, 1, 0),
        What::Shares => (Act::Shares, 1, 0),
        What::Refill if first.record.flags.context == Context::Task => (Act::Quota, 1, 0),
        What::TimerEntry if refills(first) => (Act::Refill, distribution(entries), 0),
        What::TimerEntry | What::TimerExit => (Act::Timer, 1, 0),
        What::Unthrottle => (Act::Unthrottle, unthrottling(entries), 0),
        What::PickTask | What::Parameters => loose(entries),
        // What a timer hands out comes before each queue that gets it is let go.
        What::Within if &*first.record.event == "k_dist" => (Act::Nothing, 1, 0),
        _ if &*first.record.event == "k_lacfs" => looks(entries, roots),
        _ if &*first.record.event == "k_lase" && first.pid() == Some(0) => (Act::SharesOfQueue, one_queue(entries), 0),
        _ if is_within(first) => loose(entries),
        _ => named(entries),
    }
}

fn named(entries: &[Entry<'_>]) -> (Act, usize, usize) {
    let record = entries[0].record;
    match &*record.event {
        "k_snapw" | "k_snapq" => (Act::Snap, 1, 0),
        "k_sel" => (Act::Select { chosen: chosen(entries), remote: is_remote(entries) }, 1, 0),
        "k_mig" => (Act::Migrate, migration(entries), 0),
        "k_lablk" => (Act::LeaveLoad, 1, 0),
        "k_balance" => (Act::Due, 1, 0),
        "sched_process_exit" => (Act::Exit, 1, 0),
        "tracing_mark_write" => (Act::Mark, 1, 0),
        _ => (Act::Nothing, 1, 0),
    }
}

fn refills(entry: &Entry<'_>) -> bool {
    matches!(&entry.record.kind, RecordKind::TimerEntry { function } if function.starts_with("sched_cfs_"))
}

/// `distribute_cfs_runtime`, with the running tasks that it charges on whichever CPUs before their queues get runtime (7.0 on).
fn distribution(entries: &[Entry<'_>]) -> usize {
    let charges = |entry: &&Entry<'_>| {
        matches!(entry.what, What::UpdateCurr | What::ServerCharge | What::Resched)
            || matches!(entry.record.kind, RecordKind::StatRuntime { .. })
    };
    let begins = entries.get(1).is_some_and(|next| &*next.record.event == "k_dist");
    if begins { 2 + entries[2..].iter().take_while(charges).count() } else { 1 }
}

/// `unthrottle_cfs_rq` tells of itself before it reads the clock. Where tasks are throttled one by one (6.18 on), each comes back within.
fn unthrottling(entries: &[Entry<'_>]) -> usize {
    let next = entries.get(1).filter(|next| is_within(next) && next.what != What::Unthrottle);
    let mut end = next.map_or(1, |_| 1 + run(&entries[1..], 1));
    let clock = entries[1..].iter().take(end).find_map(Entry::clock);
    while entries.get(end).is_some_and(|entry| entry.is_let_go(&entries[0], clock)) {
        end = 1 + run(&entries[1..], end);
    }
    end
}

/// Averages that are updated outside of any other step, from a group's queue up to the CPU's own: those of queues that were not updated
/// for a while, or, as a group is made, those of the queues above it.
fn looks(entries: &[Entry<'_>], roots: &BTreeSet<u64>) -> (Act, usize, usize) {
    let length = one_queue(entries);
    let is_root = |entry: &Entry<'_>| {
        &*entry.record.event == "k_lacfs" && entry.record.number("cfs").is_some_and(|queue| roots.contains(&queue))
    };
    let length = entries[..length].iter().position(is_root).map_or(1, |root| root + 1);
    let first = entries[0].record;
    let own = |entry: &&Entry<'_>| entry.record.pid == first.pid && entry.record.flags.context == Context::Task;
    let makes = entries[length..].iter().filter(own).find(|entry| !entry.is_load());
    match makes.map(|entry| entry.what) {
        Some(What::MakeGroup) if first.flags.context == Context::Task => (Act::Online, length, 0),
        _ => (Act::Averages, length, 0),
    }
}

/// The parts of steps, at one clock, that concern one CPU's queue.
fn one_queue(entries: &[Entry<'_>]) -> usize {
    let clock = |entry: &Entry<'_>| entry.record.clocks.map(|clocks| clocks.task);
    let cpu = entries[0].record.number("cpu");
    let mut began = clock(&entries[0]);
    let mut belongs = |entry: &&Entry<'_>| {
        began = began.or(clock(entry));
        let same = clock(entry).is_none_or(|now| began.is_none_or(|at| at == now));
        let here = entry.record.number("cpu").is_none_or(|named| cpu.is_none_or(|cpu| cpu == named));
        same && here && entry.is_part()
    };
    1 + entries[1..].iter().take_while(|entry| belongs(entry)).count()
}

/// `migrate_task_rq_fair`, with the load that it removes. The load of another task, one that ended, may follow at once.
fn migration(entries: &[Entry<'_>]) -> usize {
    let leaves = |entry: &&Entry<'_>| &*entry.record.event == "k_lablk" && entry.pid() == entries[0].pid();
    1 + entries[1..].iter().take_while(leaves).count()
}

/// Whether a record only occurs within steps that another one begins.
fn is_within(entry: &Entry<'_>) -> bool {
    entry.what.is_within() || &*entry.record.event == "k_lase"
}

/// The records from `from` on that belong to the step before: parts of steps, at the same clock.
fn run(entries: &[Entry<'_>], from: usize) -> usize {
    let clock = |entry: &Entry<'_>| entry.record.clocks.map(|clocks| clocks.task);
    let began = entries[..from].iter().find_map(clock);
    let belongs = |entry: &&Entry<'_>| {
        let same = clock(entry).is_none_or(|now| began.is_none_or(|at| at == now));
        same && entry.what != What::Unthrottle && entry.is_part()
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

/// An enqueue up to the event of the wakeup; a new task's event comes before the preemption check.
fn activation(entries: &[Entry<'_>]) -> usize {
    let whole = run(entries, 1);
    let wakes = |entry: &Entry<'_>| entry.what == What::Wakeup && entry.pid() == entries[0].pid();
    // A look at preemption dequeues the delayed task that it finds, and looks again (7.3).
    if entries.get(whole).is_some_and(wakes) {
        return whole + 1;
    }
    let context = entries[0].record.flags.context;
    // An interrupt picks nothing: a look at preemption that dequeues a delayed task goes on to its end there.
    let length = match context {
        Context::Task => before_pick(&entries[..whole]),
        _ => entries[..whole].iter().take_while(|entry| entry.record.flags.context == context).count(),
    };
    let told = entries.get(length).filter(|entry| entry.pid() == entries[0].pid());
    match told.map(|entry| entry.what) {
        Some(What::Wakeup) => length + 1,
        Some(What::WakeupNew) => run(entries, length + 1),
        _ => length,
    }
}

/// A CPU that looks for work picks at the very clock at which it brought some. A look at preemption charges, and looks at the queue once
/// (EEVDF).
fn before_pick(step: &[Entry<'_>]) -> usize {
    let position =
        |from: usize, what: What| step.iter().skip(from).position(|entry| entry.what == what).map(|at| from + at);
    let check = position(0, What::Check).unwrap_or(step.len());
    let first = position(0, What::Pick).unwrap_or(step.len());
    let looks = position(check, What::UpdateCurr).is_some_and(|charge| charge < first);
    let second = if looks { position(first + 1, What::Pick) } else { Some(first) };
    second.into_iter().chain(position(0, What::DequeueEntities)).min().unwrap_or(step.len())
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

/// The running task goes to sleep: one step up to the switch to another task, unless the CPU looks for work before that.
fn leave(entries: &[Entry<'_>]) -> (Act, usize, usize) {
    let told = |entry: &Entry<'_>| entry.what == What::Switch || &*entry.record.event == "k_newidle";
    let end = entries.iter().position(told);
    let found = search(&entries[..end.unwrap_or(entries.len())]);
    match found.or(end) {
        Some(at) if entries[at].what == What::Switch => (Act::Schedule, at + 1, at),
        Some(at) => (Act::Leave, at, 0),
        None => (Act::Nothing, 1, 0),
    }
}

/// Where a CPU looks for work after its pick. 7.3 has no function to probe there: a pick that finds no task is followed by an update of
/// the averages of all the CPU's queues, with none of an entity before it, or, where no queue has load left, by the first task that it pulls.
fn search(step: &[Entry<'_>]) -> Option<usize> {
    let is_load = |entry: &Entry<'_>| &*entry.record.event == "k_lacfs";
    let pulled = |entry: &Entry<'_>| {
        entry.what == What::Dequeue(Of::Fair)
            && entry.record.number("cpu").is_some_and(|cpu| cpu != u64::from(entry.record.cpu))
    };
    let searches = |pair: &[Entry<'_>]| match pair[0].what {
        What::PickTask => is_load(&pair[1]) || pulled(&pair[1]),
        _ => is_load(&pair[0]) && is_load(&pair[1]),
    };
    let picks = step.iter().position(|entry| entry.what == What::PickTask)?;
    step[picks..].windows(2).position(searches).map(|at| picks + at + 1)
}

/// Parts of a step whose first function is not probed, or that is told by its first look at the queue.
fn loose(entries: &[Entry<'_>]) -> (Act, usize, usize) {
    let length = run(entries, 1);
    if let Some(at) = search(&entries[..length]) {
        return (Act::Schedule, at, 0);
    }
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

#[cfg(test)]
pub(crate) mod tests;
