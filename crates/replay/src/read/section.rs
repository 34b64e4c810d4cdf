//! From records to critical sections, where every class is probed: which sequence of `core.c` a run of records stands for.
//!
//! A section begins with the probe of the function that the sequence calls first, and takes what that calls. Unlike `l1.rs` it
//! asks little of the order within, which groups vary: what is looked for in a section is found wherever it stands.

use schedlab_trace::{Context, Pid, Record, RecordKind};

use crate::read::flags::{MOVE, REPLENISH, SAVE, SLEEP, THROTTLE, may_yield};
use crate::read::recording::charged;

/// A scheduling class, by the names of its probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Fair,
    Rt,
    Deadline,
}

/// What a record is, as far as sections are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Waking,
    Wakeup,
    WakeupNew,
    Switch,
    Fork,
    TimerEntry,
    TimerExit,
    Snap,
    GroupSnap,
    Enqueue(Of),
    Dequeue(Of),
    Tick,
    PickTask,
    Check,
    Resched,
    Place,
    Set,
    SetTask,
    Pick,
    UpdateCurr,
    Reweight,
    DequeueEntities,
    Parameters,
    Move,
    Shares,
    Refill,
    Throttle,
    Unthrottle,
    Account,
    RtCharge,
    DlCharge,
    ServerCharge,
    ServerStart,
    DlTimer,
    Yield,
    MakeGroup,
    /// A part of some sequence that tells nothing by itself.
    Within,
    Other,
}

impl What {
    fn of(record: &Record) -> Self {
        match &record.kind {
            RecordKind::Waking { .. } => return Self::Waking,
            RecordKind::Wakeup { .. } => return Self::Wakeup,
            RecordKind::WakeupNew { .. } => return Self::WakeupNew,
            RecordKind::Switch { .. } => return Self::Switch,
            RecordKind::Fork { .. } => return Self::Fork,
            RecordKind::TimerEntry { .. } => return Self::TimerEntry,
            RecordKind::TimerExit => return Self::TimerExit,
            RecordKind::StatRuntime { .. } => return Self::Within,
            _ => {}
        }
        match &*record.event {
            "k_snap" | "k_snaprt" => Self::Snap,
            "k_snap1" | "k_snap2" | "k_snap3" => Self::GroupSnap,
            "k_enq" => Self::Enqueue(Of::Fair),
            "k_rtenq" => Self::Enqueue(Of::Rt),
            "k_dlenq" => Self::Enqueue(Of::Deadline),
            "k_deq" => Self::Dequeue(Of::Fair),
            "k_rtdeq" => Self::Dequeue(Of::Rt),
            "k_dldeq" => Self::Dequeue(Of::Deadline),
            "k_tick" | "k_rttick" => Self::Tick,
            "k_pnt" => Self::PickTask,
            "k_cpw" => Self::Check,
            "k_resched" => Self::Resched,
            "k_place" => Self::Place,
            "k_set" => Self::Set,
            "k_sett" => Self::SetTask,
            "k_pick" | "k_eevdf" => Self::Pick,
            "k_uc" => Self::UpdateCurr,
            "k_rew" => Self::Reweight,
            "k_deqs" => Self::DequeueEntities,
            "k_param" => Self::Parameters,
            "k_move" => Self::Move,
            "k_shares" => Self::Shares,
            "k_refill" => Self::Refill,
            "k_thr" => Self::Throttle,
            "k_unthr" => Self::Unthrottle,
            "k_acct" => Self::Account,
            "k_rtcur" => Self::RtCharge,
            "k_dlcur" => Self::DlCharge,
            "k_dlse" => Self::ServerCharge,
            "k_dlsrvon" => Self::ServerStart,
            "k_dltimer" | "k_dlinact" => Self::DlTimer,
            "k_rqd" | "k_dist" | "k_dlrep" | "k_dlsrvoff" | "k_rtper" => Self::Within,
            "sys_enter_sched_yield" => Self::Yield,
            "cgroup_mkdir" => Self::MakeGroup,
            _ => Self::Other,
        }
    }

    /// Whether it only occurs within sequences that another record begins.
    pub(crate) fn is_within(self) -> bool {
        matches!(
            self,
            Self::Check
                | Self::Resched
                | Self::Place
                | Self::Set
                | Self::SetTask
                | Self::Pick
                | Self::UpdateCurr
                | Self::Reweight
                | Self::DequeueEntities
                | Self::Throttle
                | Self::Unthrottle
                | Self::Account
                | Self::RtCharge
                | Self::DlCharge
                | Self::ServerCharge
                | Self::ServerStart
                | Self::Within
        )
    }
}

/// A record and what it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) record: &'a Record,
    pub(crate) what: What,
    /// The CPU whose queue it is about, where its probe does not name that CPU.
    queue: Option<u32>,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(record: &'a Record) -> Self {
        Self { record, what: What::of(record), queue: None }
    }

    /// A record that is about the queue of `cpu`, unless its probe names another one.
    pub(crate) fn on(record: &'a Record, cpu: u32) -> Self {
        Self { queue: Some(cpu), ..Self::of(record) }
    }

    /// The CPU whose queue it is about, where that is known.
    pub(crate) fn queue(&self) -> Option<u64> {
        self.record.number("cpu").or(self.queue.map(u64::from))
    }

    /// The task it concerns, by its `pid=`.
    pub(crate) fn pid(&self) -> Option<Pid> {
        match &self.record.kind {
            RecordKind::Waking { task, .. } | RecordKind::Wakeup { task, .. } | RecordKind::WakeupNew { task, .. } => {
                Some(task.pid)
            }
            _ => self.record.number("pid").map(|pid| pid as Pid),
        }
    }

    /// Its `ENQUEUE_*` or `DEQUEUE_*` flags.
    pub(crate) fn flags(&self) -> u32 {
        self.record.number("fl").unwrap_or(0) as u32
    }

    pub(crate) fn clock(&self) -> Option<u64> {
        self.record.clocks.map(|clocks| clocks.task)
    }

    /// A deadline task that gets its runtime anew is queued wherever that is found out.
    fn is_replenished(&self) -> bool {
        self.what == What::Enqueue(Of::Deadline) && self.flags() & REPLENISH != 0 && self.flags() & SLEEP == 0
    }

    fn is_within(&self) -> bool {
        self.what.is_within() || self.is_replenished()
    }

    /// Whether averages of an entity or of a queue are brought up to date.
    pub(crate) fn is_load(&self) -> bool {
        matches!(&*self.record.event, "k_lase" | "k_lacfs")
    }

    /// Whether it may be a part of a step of several CPUs that another record begins.
    pub(crate) fn is_part(&self) -> bool {
        self.what.is_within() || self.is_load()
    }

    /// Whether it is a throttled task that comes back at this clock, within the step that `first` begins (6.18 on).
    pub(crate) fn is_let_go(&self, first: &Self, clock: Option<u64>) -> bool {
        self.what == What::Enqueue(Of::Fair)
            && self.flags() & SLEEP != 0
            && self.is_alongside(first)
            && self.clock() == clock
    }

    /// Whether the same task was in the same context: an interrupt comes before or after what it interrupts, not within.
    fn is_alongside(&self, other: &Self) -> bool {
        self.record.pid == other.record.pid && self.record.flags.context == other.record.flags.context
    }
}

/// Which sequence a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Snap,
    GroupSnap,
    Wake(Pid),
    New(Pid),
    /// `task_fork_fair` (CFS).
    ForkPlaced,
    Fork {
        parent: Pid,
        child: Pid,
    },
    Tick,
    Schedule,
    /// Attributes or group, of a task that is queued or not.
    Change(Pid),
    /// `wait_task_inactive`: a delayed task is dequeued by the task that waits for it to sleep.
    WaitInactive(Pid),
    Timer,
    Shares,
    /// The part of it that concerns queues, where it was preempted before that.
    SharesOfQueues,
    /// `tg_set_cfs_bandwidth`.
    Quota,
    /// The part of it that concerns the queue, where it was preempted before that.
    QuotaOfQueue,
    /// `throttle_cfs_rq_work`: the current task returns to user space in a throttled group (6.18 on).
    Throttle,
    Charge,
    Yield,
    MakeGroup,
    Nothing,
}

/// Cuts the section that begins at `entries[0]`; returns it with the number of its records, at least 1.
pub(crate) fn cut(entries: &[Entry<'_>]) -> (Kind, usize) {
    let Some(first) = entries.first() else { return (Kind::Nothing, 1) };
    let pid = first.pid().unwrap_or(0);
    match first.what {
        What::Snap => (Kind::Snap, 1),
        What::GroupSnap => (Kind::GroupSnap, 1),
        What::Yield => (Kind::Yield, 1),
        What::MakeGroup => (Kind::MakeGroup, 1),
        What::Waking => wake(entries, pid),
        What::Fork => match first.record.kind {
            RecordKind::Fork { parent, child, .. } => (Kind::Fork { parent, child }, 1),
            _ => (Kind::Nothing, 1),
        },
        What::Enqueue(_) => new(entries, pid),
        What::Tick => (Kind::Tick, run(entries, 1)),
        What::Dequeue(Of::Fair) if first.flags() & THROTTLE != 0 => (Kind::Throttle, run(entries, 1)),
        What::Dequeue(_) if first.flags() & (SAVE | MOVE) == 0 && pid == first.record.pid => leave(entries),
        What::Dequeue(_) => change(entries, pid),
        What::Parameters | What::Move => (Kind::Change(pid), before_schedule(entries, run(entries, 1))),
        What::Shares => (Kind::Shares, run(entries, 1)),
        What::Reweight if first.record.flags.context == Context::Task && first.record.number("my") != Some(0) => {
            (Kind::SharesOfQueues, run(entries, 1))
        }
        What::Refill => (Kind::Quota, quota(entries)),
        What::Unthrottle if first.record.flags.context == Context::Task => (Kind::QuotaOfQueue, quota(entries)),
        What::TimerEntry => timer(entries),
        What::Switch => (Kind::Schedule, 1),
        What::PickTask => {
            let length = run(entries, 1);
            (Kind::Schedule, length + usize::from(entries.get(length).is_some_and(|next| next.what == What::Switch)))
        }
        // A tick asks at once for what was asked for lazily, before the class looks at it (PREEMPT_LAZY).
        What::Resched if entries.get(1).is_some_and(|next| next.what == What::Tick) => (Kind::Tick, run(entries, 2)),
        _ if first.is_within() => loose(entries),
        _ => (Kind::Nothing, 1),
    }
}

/// The records from `from` on that belong to the section before: parts of sequences, at the same clock.
fn run(entries: &[Entry<'_>], from: usize) -> usize {
    let clock = entries.iter().filter(is_of_clock).take(from).find_map(Entry::clock);
    // A task that was to be rescheduled anyway schedules at the very clock of its yield; only the latter holds nothing but the lock.
    let first = entries[0].record;
    let yields = first.flags.preempt_depth == 1 && may_yield(first.flags);
    // Where preemption is not counted, it shows in that the task is charged again.
    let own = charged(first).filter(|pid| *pid == first.pid && first.flags.preempt_depth == 0);
    let same = |entry: &&Entry<'_>| {
        entry.is_within()
            && entry.is_alongside(&entries[0])
            && entry.clock().is_none_or(|now| clock.is_none_or(|at| at == now))
            && (!yields || may_yield(entry.record.flags))
            && (own.is_none() || charged(entry.record) != own)
    };
    let end = from + entries[from..].iter().take_while(same).count();
    // A deadline task's charge tells what it charges before it tells the clock: a second one, at the next tick, stands alone.
    let charges = |entry: &Entry<'_>| entry.what == What::ServerCharge && entry.record.number("srv") == Some(0);
    let Some(first) = entries[..end].iter().position(charges) else { return end };
    let again = |at: &usize| {
        charges(&entries[*at])
            && entries[*at].clock() != entries[first].clock()
            && matches!(entries[at - 1].record.kind, RecordKind::StatRuntime { .. })
    };
    (first + 1..end).find(again).map_or(end, |at| (at - 1).max(from))
}

/// Whether a record shows the clock of its section: `unthrottle_cfs_rq` tells of itself before it reads the clock.
fn is_of_clock(entry: &&Entry<'_>) -> bool {
    entry.what != What::Unthrottle
}

/// A section of `length` records that ends in a switch goes over into a schedule, at the same clock where that was read only just:
/// what follows the last request or look at preemption is the schedule's.
fn before_schedule(entries: &[Entry<'_>], length: usize) -> usize {
    let switches = entries.get(length).is_some_and(|next| next.what == What::Switch);
    let asks = |entry: &Entry<'_>| matches!(entry.what, What::Resched | What::Check | What::WakeupNew);
    let last = entries[..length].iter().rposition(asks).filter(|_| switches);
    last.filter(|last| entries[last + 1..length].iter().any(|entry| entry.what == What::Pick))
        .map_or(length, |last| last + 1)
}

fn position(entries: &[Entry<'_>], what: What, pid: Pid) -> Option<usize> {
    let passes = |entry: &Entry<'_>| entry.is_within() || matches!(entry.what, What::Enqueue(_) | What::Other);
    let at = entries.iter().skip(1).position(|entry| !passes(entry))? + 1;
    (entries[at].what == what && entries[at].pid() == Some(pid)).then_some(at)
}

fn wake(entries: &[Entry<'_>], pid: Pid) -> (Kind, usize) {
    match position(entries, What::Wakeup, pid) {
        Some(at) => (Kind::Wake(pid), at + 1),
        None => (Kind::Nothing, 1),
    }
}

/// `wake_up_new_task` tells of itself before it looks at preemption.
fn new(entries: &[Entry<'_>], pid: Pid) -> (Kind, usize) {
    match position(entries, What::WakeupNew, pid) {
        Some(at) => {
            let length = before_schedule(entries, run(entries, at + 1));
            // Nothing is checked where need_resched is set already: the schedule that follows picks, maybe the same task again.
            let looks = |entry: &Entry<'_>| entry.what == What::Check && entry.record.flags.need_resched;
            (Kind::New(pid), entries[..length].iter().position(looks).map_or(length, |look| look + 1))
        }
        None => (Kind::Nothing, 1),
    }
}

/// A task goes to sleep: all records up to the switch to another task are one section.
fn leave(entries: &[Entry<'_>]) -> (Kind, usize) {
    match entries.iter().position(|entry| entry.what == What::Switch) {
        Some(at) if entries[..at].iter().all(|entry| entry.record.flags.interrupts_off) => (Kind::Schedule, at + 1),
        _ => (Kind::Nothing, 1),
    }
}

/// Dequeued, changed and queued again.
fn change(entries: &[Entry<'_>], pid: Pid) -> (Kind, usize) {
    // As it is taken off, its runtime may be used up after its next period began: it gets it at once, and is not back yet.
    let back = entries.iter().position(|entry| {
        let replenished = entry.is_replenished() && entry.flags() & SAVE == 0;
        matches!(entry.what, What::Enqueue(_)) && entry.pid() == Some(pid) && !replenished
    });
    let ends = entries.iter().skip(1).position(|entry| {
        matches!(entry.what, What::Switch | What::Dequeue(_) | What::Waking | What::TimerEntry | What::PickTask)
    });
    match (back, ends) {
        (Some(at), ends) if ends.is_none_or(|end| at <= end) => {
            (Kind::Change(pid), before_schedule(entries, run(entries, at + 1)))
        }
        // A delayed task is dequeued before it changes its class.
        _ => match entries.iter().take(8).position(|entry| entry.what == What::Parameters) {
            Some(at) => (Kind::Change(pid), before_schedule(entries, run(entries, at + 1))),
            // Others go to sleep by themselves.
            None if entries[0].flags() & SLEEP != 0 && pid != entries[0].record.pid => {
                (Kind::WaitInactive(pid), run(entries, 1))
            }
            None => (Kind::Nothing, 1),
        },
    }
}

/// A new quota unthrottles a group: where tasks are throttled one by one (6.18 on), each of them is enqueued within.
fn quota(entries: &[Entry<'_>]) -> usize {
    let mut end = run(entries, 1);
    let clock = entries[..end].iter().chain(entries.get(end)).filter(is_of_clock).find_map(Entry::clock);
    while entries.get(end).is_some_and(|entry| entry.is_let_go(&entries[0], clock)) {
        end = run(entries, end + 1);
    }
    end
}

fn timer(entries: &[Entry<'_>]) -> (Kind, usize) {
    let ours = matches!(&entries[0].record.kind, RecordKind::TimerEntry { function }
        if function.starts_with("sched_cfs_") || function.starts_with("sched_rt_")
            || matches!(&**function, "dl_task_timer" | "inactive_task_timer"));
    if !ours {
        return (Kind::Nothing, 1);
    }
    let end = entries.iter().position(|entry| entry.what == What::TimerExit).unwrap_or(0);
    (Kind::Timer, end + 1)
}

/// Parts of a sequence whose first function is not probed.
fn loose(entries: &[Entry<'_>]) -> (Kind, usize) {
    // A yield holds the queue's lock alone; the schedule after it disables preemption too.
    let locks = |entry: &Entry<'_>| entry.record.flags.preempt_depth;
    let same = |entry: &Entry<'_>| entry.is_alongside(&entries[0]) && locks(entry) == locks(&entries[0]);
    let length = entries[..run(entries, 1)].iter().take_while(|entry| same(entry)).count();
    let switches = entries.get(length).is_some_and(|next| next.what == What::Switch && same(next));
    // Where depths are not counted a yield's request tells: it is there for the schedule.
    let wants = |entry: &Entry<'_>| entry.record.flags.wants_resched();
    let asked = entries[..length].iter().position(wants).filter(|asked| *asked > 0 && locks(&entries[0]) == 0);
    let (length, switches) = match asked.filter(|_| switches) {
        Some(asked) => (asked, false),
        None => (length, switches),
    };
    let section = &entries[..length];
    if switches {
        return (Kind::Schedule, length + 1);
    }
    let has = |what: What| section.iter().any(|entry| entry.what == what);
    let placed = |entry: &Entry<'_>| entry.what == What::Place && entry.record.word("init") == Some("1");
    if has(What::Pick) {
        (Kind::Schedule, length)
    } else if section.iter().any(placed) {
        (Kind::ForkPlaced, length)
    } else {
        (Kind::Charge, length)
    }
}

/// For how many records of a section the clocks at its beginning hold. A timer that gives queues runtime charges the tasks that run there,
/// and reads the clock again to unthrottle the queues (7.2).
pub(crate) fn read_at_first(kind: Kind, section: &[Entry<'_>]) -> usize {
    let lets_go = section.iter().position(|entry| entry.what == What::Unthrottle).filter(|_| kind == Kind::Timer);
    let charges = |at: &usize| section[..*at].iter().any(|entry| entry.record.clocks.is_some());
    lets_go.filter(charges).unwrap_or(section.len())
}

#[cfg(test)]
mod tests;
