//! Why the scheduler decided as it did: what each decision point can tell.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{CpuId, TaskId, Time};

/// One decision of the scheduler, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// When, since the start of the run.
    pub time: Time,
    /// The CPU whose run queue the decision is about; for the choice of a CPU, the waker's.
    pub cpu: CpuId,
    /// What was decided and why.
    #[serde(flatten)]
    pub reason: Reason,
}

impl Serialize for CpuId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

impl Serialize for TaskId {
    /// Its number; the idle task as null.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Some(self.0).filter(|_| *self != Self::IDLE).serialize(serializer)
    }
}

/// What competes on a run queue: a task, or a group for all of its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Candidate {
    /// A task.
    Task(TaskId),
    /// A task group, by its number; 0 is the root group.
    Group(u32),
}

/// What was decided, between what, by which rule and by how much.
///
/// Margins are in nanoseconds of real time, but for those that are called virtual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Reason {
    /// Which task runs next (`pick_next_task`).
    Pick {
        /// The task; the idle task if no task can run.
        task: TaskId,
        /// How many tasks of its class could have run.
        candidates: u32,
        /// The scheduling class that decided.
        class: PickClass,
        /// In the fair class the decision on each level, from the root queue down.
        levels: Vec<PickLevel>,
    },
    /// Whether a task that became runnable preempts the current one (`wakeup_preempt`, `check_preempt_curr` before 6.7).
    WakeupPreempt {
        /// The task that became runnable.
        woken: TaskId,
        /// The current task.
        current: TaskId,
        /// The answer.
        preempts: bool,
        /// The rule that decided.
        by: WakeupRule,
    },
    /// Whether the current task goes on (`task_tick`), or was charged so much that its turn is over (`update_curr`).
    Turn {
        /// What runs: on each level of a hierarchy of groups the group, at the end the task.
        current: Candidate,
        /// Whether a tick asked; else the charge did.
        tick: bool,
        /// Whether it is marked for rescheduling.
        preempts: bool,
        /// The rule that decided.
        by: TurnRule,
    },
    /// Where in virtual time an entity comes in (`place_entity`).
    Place {
        /// What comes in.
        entity: Candidate,
        /// The group on whose queue it comes in, by its number; 0 is the root group.
        within: u32,
        /// Whether it is new.
        initial: bool,
        /// The rule that decided.
        by: PlaceRule,
    },
    /// On which CPU a waking or new task is queued (`select_task_rq`).
    Select {
        /// The task.
        task: TaskId,
        /// Where it ran last; for a new task its parent's CPU.
        previous: CpuId,
        /// The CPU that was chosen.
        chosen: CpuId,
        /// From where the search started (`wake_affine`), where there was one.
        target: Option<Target>,
        /// The rule that decided.
        by: SelectRule,
    },
    /// What a CPU that is about to idle does (`newidle_balance`, `sched_balance_newidle` from 6.10 on).
    Newidle {
        /// Whether it has something to run afterwards.
        runs: bool,
        /// The rule that decided.
        by: NewidleRule,
    },
    /// What a balancing CPU does about one of its domains (`load_balance`, `sched_balance_rq` from 6.10 on).
    Balance {
        /// The domain's level, from 0 for the smallest.
        level: u32,
        /// Whether it is newly idle balancing.
        newly_idle: bool,
        /// How many tasks were moved.
        moved: u32,
        /// From where they came, or would have.
        from: Option<CpuId>,
        /// The rule that decided.
        by: BalanceRule,
    },
    /// A group's quota is used up on this CPU (`throttle_cfs_rq`).
    Throttle {
        /// The group.
        group: u32,
        /// Until its period ends and the quota is refilled, in nanoseconds.
        until_refill: u64,
    },
    /// A throttled group may run again on this CPU (`unthrottle_cfs_rq`).
    Unthrottle {
        /// The group.
        group: u32,
        /// How long it was throttled, in nanoseconds.
        after: u64,
    },
}

/// Which scheduling class picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PickClass {
    /// A stopper, before all classes.
    Stop,
    /// DEADLINE: the earliest deadline, or the fair server on behalf of fair tasks.
    Deadline,
    /// FIFO and RR: the highest priority.
    Realtime(u8),
    /// OTHER, BATCH and IDLE.
    Fair,
    /// A policy in the fair class's place.
    Custom,
    /// No class has a task that can run.
    Idle,
}

/// One level of a pick of the fair class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PickLevel {
    /// What was picked.
    pub picked: Candidate,
    /// The rule that decided.
    pub by: PickRule,
    /// Each other candidate with what kept it from being picked, in the order of the queue.
    pub others: Vec<(Candidate, PassedOver)>,
}

/// The rule by which an entity of a fair queue was picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PickRule {
    /// There was no other.
    Only,
    /// CFS: the least vruntime.
    LeastVruntime,
    /// CFS: the second in vruntime, as the first yielded and is not too far before it.
    AfterYield,
    /// The next buddy: NEXT_BUDDY's, the task of a preempting wakeup, or the group that ran last.
    NextBuddy,
    /// CFS: the last buddy, which was preempted (LAST_BUDDY).
    LastBuddy,
    /// EEVDF: the current entity, as its slice is protected (RUN_TO_PARITY).
    ProtectedSlice,
    /// EEVDF: the earliest virtual deadline among the eligible entities.
    EarliestDeadline,
    /// EEVDF: the current entity, as no other is eligible.
    NoneEligible,
}

/// What kept a candidate from being picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PassedOver {
    /// CFS: its vruntime is so much later than that of the picked entity, in virtual nanoseconds.
    LaterVruntime(i64),
    /// CFS: it has the least vruntime, by so many virtual nanoseconds, but the picked entity is a buddy or this one yielded.
    Buddy(i64),
    /// EEVDF: it had more than its share; its lag in virtual nanoseconds is negative.
    NotEligible(i64),
    /// EEVDF: eligible, but its virtual deadline is so much later, in virtual nanoseconds.
    LaterDeadline(i64),
    /// EEVDF: eligible, but the picked entity's slice is protected for so long (RUN_TO_PARITY).
    ProtectedSlice(u64),
    /// EEVDF: eligible, but the picked entity is the next buddy.
    NextBuddy,
    /// EEVDF: asleep, and queued until its lag is made up for (DELAY_DEQUEUE).
    Delayed,
}

/// The rule by which a waking task preempts or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeupRule {
    /// Its class comes before the current task's.
    HigherClass,
    /// Its class comes after the current task's.
    LowerClass,
    /// The current task is marked for rescheduling already.
    AlreadyMarked,
    /// Its group is throttled.
    Throttled,
    /// WAKEUP_PREEMPTION is off.
    FeatureOff,
    /// The current task, or its group, is SCHED_IDLE and the waking one is not.
    CurrentIsIdle,
    /// The waking task is SCHED_BATCH or SCHED_IDLE, or its group is idle.
    WokenIsBatch,
    /// CFS: how far the waking entity lies before the current one in virtual time, against the wakeup granularity; it preempts
    /// where the first is greater.
    Granularity {
        /// In virtual nanoseconds.
        ahead: i64,
        /// In virtual nanoseconds of the waking entity.
        granularity: u64,
    },
    /// EEVDF: it is what would be picked now.
    Picked,
    /// EEVDF: it is what would be picked now, as its slice is shorter, which ends the current one's protection (PREEMPT_SHORT).
    ShorterSlice,
    /// EEVDF: it would not be picked now.
    NotPicked(PassedOver),
    /// EEVDF: it is the next buddy, and the waker is about to sleep.
    SyncBuddy,
    /// EEVDF: it is the next buddy, and the waker, about to sleep, goes on until then.
    WaitsForWaker,
    /// EEVDF: a new or delayed task does not preempt.
    NewOrDelayed,
    /// Real-time: by how much its priority is higher.
    Priority(i16),
    /// Deadline: by how much its deadline is earlier, in nanoseconds.
    Deadline(i64),
    /// A policy in the fair class's place decided.
    Custom,
}

/// The rule by which the current task goes on or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnRule {
    /// CFS: it ran for longer than its slice, by so much.
    SliceOver(u64),
    /// CFS: it is further ahead of the first waiting entity than a slice, by so many virtual nanoseconds.
    TooFarAhead(u64),
    /// CFS: so much of its slice is left.
    SliceLeft(u64),
    /// EEVDF: its request is served, the virtual deadline reached.
    RequestServed,
    /// EEVDF: its protection is over, and another task waits.
    ProtectionOver,
    /// EEVDF: its slice is protected for so long (RUN_TO_PARITY).
    ProtectedSlice(u64),
    /// EEVDF: not protected, and so much of its request is left.
    RequestLeft(u64),
    /// EEVDF: no other task waits.
    Alone,
    /// Real-time: its round-robin slice is over, and a task of its priority waits.
    RoundRobin,
}

impl TurnRule {
    /// Whether the current task is marked for rescheduling.
    #[inline(always)]
    pub const fn preempts(self) -> bool {
        matches!(
            self,
            Self::SliceOver(_) | Self::TooFarAhead(_) | Self::RequestServed | Self::ProtectionOver | Self::RoundRobin
        )
    }
}

/// The rule by which an entity is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceRule {
    /// CFS: so far before the queue's `min_vruntime` (GENTLE_FAIR_SLEEPERS), in virtual nanoseconds.
    SleeperCredit(u64),
    /// CFS: where it left, so far after where the credit would place it, in virtual nanoseconds.
    WhereItLeft(u64),
    /// CFS: a new entity, a slice after the queue's `min_vruntime` (START_DEBIT), in virtual nanoseconds.
    StartDebit(u64),
    /// CFS: at the queue's `min_vruntime`.
    MinVruntime,
    /// EEVDF: at the average less the lag that it left with (PLACE_LAG), in virtual nanoseconds.
    Lag {
        /// What it left with; negative where it had more than its share.
        kept: i64,
        /// The same inflated, as its coming moves the average.
        placed: i64,
    },
    /// EEVDF: at the average, without lag.
    Average,
}

/// From where the search for an idle CPU starts, and why (`wake_affine`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Target {
    /// The waker's CPU or the previous one.
    pub cpu: CpuId,
    /// The rule that decided.
    pub by: AffineRule,
}

/// The rule by which the waker's CPU or the previous one is the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AffineRule {
    /// The previous CPU is the waker's.
    Same,
    /// Waker and wakee wake many others and are spread (`wake_wide`), or the task may not run on the waker's CPU.
    NotAffine,
    /// The two CPUs are too far apart to choose between them.
    NoCommonDomain,
    /// Both idle and share a cache: the previous one.
    BothIdle,
    /// The waker's CPU idles and shares its cache with the previous one.
    WakerIdle,
    /// The waker is about to sleep and runs alone (`WF_SYNC`).
    Sync,
    /// The previous CPU idles.
    PreviousIdle,
    /// The waker's CPU has less load (WA_WEIGHT).
    LessLoad,
    /// The previous CPU has no more load (WA_WEIGHT), or no rule prefers the waker's.
    NoLessLoad,
}

/// The rule by which a CPU was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectRule {
    /// The machine has one CPU, or the task may run on one only.
    OnlyOne,
    /// It is queued there still (DELAY_DEQUEUE).
    StillQueued,
    /// The target idles.
    TargetIdle,
    /// The previous CPU idles and shares the target's last-level cache.
    PreviousIdle,
    /// The CPU before the previous one idles and shares the target's last-level cache (`recent_used_cpu`).
    RecentIdle,
    /// An idle core of the target's last-level cache.
    IdleCore,
    /// An idle SMT sibling.
    IdleSibling,
    /// An idle CPU of the target's last-level cache, found after looking at so many.
    IdleCpu(u32),
    /// No idle CPU was found after looking at so many: the target.
    NoIdleCpu(u32),
    /// The scan ended at its limit, so many CPUs, before it found an idle one: the target.
    ScanLimit(u32),
    /// The scan was not worth its cost: the target.
    NotScanned,
    /// The target shares its last-level cache with no other CPU.
    NoSharedCache,
    /// Fork or exec: the idlest CPU of the idlest group (`find_idlest_cpu`).
    Idlest,
    /// Fork or exec: no group is idler than that of this CPU.
    NoIdlerGroup,
    /// The waker's CPU in place of an idle one (VCPU_PACK).
    Packed,
    /// The CPU that the rules chose is off line or not allowed (`select_fallback_rq`).
    Fallback,
    /// Placement is not modelled for this release or policy: any idle CPU, else the previous one.
    NotModelled,
    /// Real-time or deadline: by priority or deadline.
    OtherClass,
}

/// The rule by which a CPU that is about to idle looks for work or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewidleRule {
    /// It pulled a task, or one came meanwhile.
    Found,
    /// It looked, and no task could be pulled.
    NothingToPull,
    /// No CPU has more than one task (`rd->overload`).
    NotOverloaded,
    /// It is expected to idle for a shorter time than balancing costs.
    TooShort {
        /// The average idle time, in nanoseconds.
        avg_idle: u64,
        /// What it is compared with, in nanoseconds.
        cost: u64,
    },
    /// It is off line, or in no domain.
    NoDomain,
}

/// The rule by which balancing a domain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BalanceRule {
    /// No task waits on another CPU, or the groups are balanced.
    Balanced,
    /// Another CPU of the group balances for it (`should_we_balance`).
    NotItsTurn,
    /// Tasks were moved.
    Moved,
    /// None could be moved: they run, ran a moment ago (cache-hot), or are more than the imbalance.
    NoneFits,
    /// All waiting tasks are bound to other CPUs.
    Pinned,
    /// The busiest CPU's stopper pushes its current task.
    Push,
}

impl Reason {
    /// Gives each task that is named another number.
    pub fn rename(&mut self, number: &dyn Fn(TaskId) -> TaskId) {
        let set = |task: &mut TaskId| *task = number(*task);
        let set_candidate = |candidate: &mut Candidate| {
            if let Candidate::Task(task) = candidate {
                *task = number(*task);
            }
        };
        match self {
            Self::Pick { task, levels, .. } => {
                set(task);
                for level in levels {
                    set_candidate(&mut level.picked);
                    level.others.iter_mut().for_each(|(other, _)| set_candidate(other));
                }
            }
            Self::WakeupPreempt { woken, current, .. } => {
                set(woken);
                set(current);
            }
            Self::Turn { current, .. } => set_candidate(current),
            Self::Place { entity, .. } => set_candidate(entity),
            Self::Select { task, .. } => set(task),
            Self::Newidle { .. } | Self::Balance { .. } | Self::Throttle { .. } | Self::Unthrottle { .. } => {}
        }
    }

    /// The decision in one line; `name` names tasks and groups.
    ///
    /// ```
    /// use schedlab_model::{Candidate, Reason, TaskId, TurnRule};
    /// let current = Candidate::Task(TaskId(3));
    /// let by = TurnRule::ProtectedSlice(1_200_000);
    /// let reason = Reason::Turn { current, tick: true, preempts: false, by };
    /// let text = reason.text(&|_| "batch".to_owned());
    /// assert_eq!(text, "tick: batch goes on, its protected slice (RUN_TO_PARITY) has 1.2 ms left");
    /// ```
    pub fn text(&self, name: &dyn Fn(Candidate) -> String) -> String {
        let name = |candidate: Candidate| match candidate {
            Candidate::Task(TaskId::IDLE) => "the idle task".to_owned(),
            candidate => name(candidate),
        };
        let task = |task: TaskId| name(Candidate::Task(task));
        match self {
            Self::Pick { task: TaskId::IDLE, .. } => "pick: idle, no task can run".to_owned(),
            Self::Pick { task: picked, candidates, class, levels } => {
                let mut text = format!("pick: {} of {candidates}", task(*picked));
                match class {
                    PickClass::Stop => text += ", the stopper comes before all classes",
                    PickClass::Deadline => text += ", deadline class",
                    PickClass::Realtime(priority) => text += &format!(", real-time priority {priority}"),
                    PickClass::Custom => text += ", by the custom policy",
                    PickClass::Fair | PickClass::Idle => {}
                }
                let mut within = None;
                for level in levels {
                    text += &match within {
                        None => ": ".to_owned(),
                        Some(group) => format!("; in {}: ", name(group)),
                    };
                    if let Candidate::Group(_) = level.picked {
                        text += &format!("{} by ", name(level.picked));
                    }
                    text += &level.by.to_string();
                    for (other, by) in &level.others {
                        text += &format!(", not {} ({by})", name(*other));
                    }
                    within = Some(level.picked);
                }
                text
            }
            Self::WakeupPreempt { woken, current, preempts, by } => {
                let verb = if *preempts { "preempts" } else { "does not preempt" };
                format!("wakeup: {} {verb} {}, {by}", task(*woken), task(*current))
            }
            Self::Turn { current, tick, preempts, by } => {
                let point = if *tick { "tick" } else { "charge" };
                let verb = if *preempts { "is preempted" } else { "goes on" };
                format!("{point}: {} {verb}, {by}", name(*current))
            }
            Self::Place { entity, within, initial, by } => {
                let new = if *initial { "new " } else { "" };
                let within =
                    if *within == 0 { String::new() } else { format!(" in {}", name(Candidate::Group(*within))) };
                format!("place: {new}{}{within} {by}", name(*entity))
            }
            Self::Select { task: who, previous, chosen, target, by } => {
                let mut text = format!("select: {} goes to CPU {}, {by}", task(*who), chosen.0);
                if let Some(target) = target.filter(|target| target.by != AffineRule::Same) {
                    text += &format!("; the target was CPU {}, {}", target.cpu.0, target.by);
                }
                if chosen != previous {
                    text += &format!("; it ran on CPU {} last", previous.0);
                }
                text
            }
            Self::Newidle { runs, by } => {
                format!("newidle: {}, {by}", if *runs { "has work" } else { "idles" })
            }
            Self::Balance { level, newly_idle, moved, from, by } => {
                let point = if *newly_idle { "newidle balance" } else { "balance" };
                let from = from.map_or_else(String::new, |from| format!(" from CPU {}", from.0));
                match moved {
                    0 => format!("{point}: domain {level}, nothing moved{from}, {by}"),
                    1 => format!("{point}: domain {level}, 1 task moved{from}"),
                    moved => format!("{point}: domain {level}, {moved} tasks moved{from}"),
                }
            }
            Self::Throttle { group, until_refill } => {
                let group = name(Candidate::Group(*group));
                format!("throttle: {group} has used up its quota, refilled in {}", Span(*until_refill))
            }
            Self::Unthrottle { group, after } => {
                let group = name(Candidate::Group(*group));
                format!("unthrottle: {group} was throttled by its quota for {}", Span(*after))
            }
        }
    }
}

/// Nanoseconds for a reader: three significant digits and a unit.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = match self.0 {
            0..1_000 => return write!(formatter, "{} ns", self.0),
            1_000..1_000_000 => ("µs", 1e3),
            1_000_000..1_000_000_000 => ("ms", 1e6),
            _ => ("s", 1e9),
        };
        let value = self.0 as f64 / scale;
        // 9.995 and more are shown as 10.0, which has a digit less behind the point.
        let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        let text = format!("{value:.digits$}");
        let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        write!(formatter, "{text} {unit}")
    }
}

/// A signed span of virtual time, without its sign.
fn span(nanoseconds: i64) -> Span {
    Span(nanoseconds.unsigned_abs())
}

impl fmt::Display for PickRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Only => "the only one",
            Self::LeastVruntime => "least vruntime",
            Self::AfterYield => "second in vruntime, as the first yielded",
            Self::NextBuddy => "next buddy",
            Self::LastBuddy => "last buddy (LAST_BUDDY)",
            Self::ProtectedSlice => "protected slice (RUN_TO_PARITY)",
            Self::EarliestDeadline => "earliest deadline of those eligible",
            Self::NoneEligible => "no other is eligible",
        })
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LaterVruntime(0) => formatter.write_str("same vruntime, queued later"),
            Self::LaterDeadline(0) => formatter.write_str("same deadline, queued later"),
            Self::LaterVruntime(by) => write!(formatter, "vruntime {} later", span(*by)),
            Self::Buddy(by) => write!(formatter, "vruntime {} earlier, but no buddy", span(*by)),
            Self::NotEligible(lag) => write!(formatter, "not eligible, lag -{}", span(*lag)),
            Self::LaterDeadline(by) => write!(formatter, "deadline {} later", span(*by)),
            Self::ProtectedSlice(left) => {
                write!(formatter, "the protected slice (RUN_TO_PARITY) has {} left", Span(*left))
            }
            Self::NextBuddy => formatter.write_str("no buddy"),
            Self::Delayed => formatter.write_str("asleep (DELAY_DEQUEUE)"),
        }
    }
}

impl fmt::Display for WakeupRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HigherClass => formatter.write_str("higher class"),
            Self::LowerClass => formatter.write_str("lower class"),
            Self::AlreadyMarked => formatter.write_str("which is marked for rescheduling already"),
            Self::Throttled => formatter.write_str("its group is throttled"),
            Self::FeatureOff => formatter.write_str("WAKEUP_PREEMPTION is off"),
            Self::CurrentIsIdle => formatter.write_str("which is SCHED_IDLE"),
            Self::WokenIsBatch => formatter.write_str("it is SCHED_BATCH or SCHED_IDLE"),
            Self::Granularity { ahead, .. } if *ahead <= 0 => write!(formatter, "vruntime {} behind", span(*ahead)),
            Self::Granularity { ahead, granularity } => {
                let relation = if *ahead as u64 > *granularity { '>' } else { '≤' };
                let granularity = Span(*granularity);
                write!(formatter, "vruntime {} ahead {relation} wakeup granularity {granularity}", span(*ahead))
            }
            Self::Picked => formatter.write_str("it would be picked now"),
            Self::ShorterSlice => formatter.write_str("its slice is shorter (PREEMPT_SHORT)"),
            Self::NotPicked(why) => write!(formatter, "{why}"),
            Self::SyncBuddy => formatter.write_str("next buddy of a waker that is about to sleep"),
            Self::WaitsForWaker => formatter.write_str("which is about to sleep (WF_SYNC)"),
            Self::NewOrDelayed => formatter.write_str("new and delayed tasks do not"),
            Self::Priority(by) if *by > 0 => write!(formatter, "priority {by} higher"),
            Self::Priority(0) => formatter.write_str("same priority"),
            Self::Priority(by) => write!(formatter, "priority {} lower", by.unsigned_abs()),
            Self::Deadline(by) if *by > 0 => write!(formatter, "deadline {} earlier", span(*by)),
            Self::Deadline(by) => write!(formatter, "deadline {} later", span(*by)),
            Self::Custom => formatter.write_str("by the custom policy"),
        }
    }
}

impl fmt::Display for TurnRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SliceOver(by) => write!(formatter, "its slice is over by {}", Span(*by)),
            Self::TooFarAhead(by) => write!(formatter, "vruntime further ahead than a slice by {}", Span(*by)),
            Self::SliceLeft(left) => write!(formatter, "its slice has {} left", Span(*left)),
            Self::RequestServed => formatter.write_str("its deadline is reached"),
            Self::ProtectionOver => formatter.write_str("its slice is not protected any more"),
            Self::ProtectedSlice(left) => {
                write!(formatter, "its protected slice (RUN_TO_PARITY) has {} left", Span(*left))
            }
            Self::RequestLeft(left) => write!(formatter, "its deadline is {} away", Span(*left)),
            Self::Alone => formatter.write_str("no other task waits"),
            Self::RoundRobin => formatter.write_str("its round-robin slice is over"),
        }
    }
}

impl fmt::Display for PlaceRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SleeperCredit(credit) => write!(formatter, "{} before min_vruntime (sleeper credit)", Span(*credit)),
            Self::WhereItLeft(after) => {
                write!(formatter, "where it left, {} later than with full sleeper credit", Span(*after))
            }
            Self::StartDebit(debit) => write!(formatter, "{} after min_vruntime (START_DEBIT)", Span(*debit)),
            Self::MinVruntime => formatter.write_str("at min_vruntime"),
            Self::Lag { kept, placed } => {
                let side = if *placed < 0 { "after" } else { "before" };
                let sign = if *kept < 0 { "-" } else { "" };
                write!(formatter, "{} {side} the average (PLACE_LAG, lag {sign}{})", span(*placed), span(*kept))
            }
            Self::Average => formatter.write_str("at the average, without lag"),
        }
    }
}

impl fmt::Display for AffineRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Same => "the waker's and the previous one",
            Self::NotAffine => "as waker and wakee are spread (wake_wide) or affinity forbids the waker's",
            Self::NoCommonDomain => "as the waker's is too far away",
            Self::BothIdle => "idle as the waker's",
            Self::WakerIdle => "the waker's, idle and sharing the cache",
            Self::Sync => "the waker's, which is about to sleep (WF_SYNC)",
            Self::PreviousIdle => "the previous one, idle",
            Self::LessLoad => "the waker's, with less load (WA_WEIGHT)",
            Self::NoLessLoad => "the previous one, as the waker's has no less load (WA_WEIGHT)",
        })
    }
}

impl fmt::Display for SelectRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyOne => formatter.write_str("the only one"),
            Self::StillQueued => formatter.write_str("queued there still (DELAY_DEQUEUE)"),
            Self::TargetIdle => formatter.write_str("target idle"),
            Self::PreviousIdle => formatter.write_str("previous CPU idle and sharing the target's LLC"),
            Self::RecentIdle => formatter.write_str("recently used CPU idle and sharing the target's LLC"),
            Self::IdleCore => formatter.write_str("idle core of the target's LLC"),
            Self::IdleSibling => formatter.write_str("idle SMT sibling"),
            Self::IdleCpu(looked) => write!(formatter, "idle CPU of the target's LLC ({looked} scanned)"),
            Self::NoIdleCpu(looked) => write!(formatter, "no idle CPU in the target's LLC ({looked} scanned)"),
            Self::ScanLimit(looked) => write!(formatter, "no idle CPU before the scan's limit ({looked} scanned)"),
            Self::NotScanned => formatter.write_str("a scan for an idle CPU is not worth its cost"),
            Self::NoSharedCache => formatter.write_str("no other CPU shares the target's LLC"),
            Self::Idlest => formatter.write_str("idlest CPU of the idlest group"),
            Self::NoIdlerGroup => formatter.write_str("no group is idler than the local one"),
            Self::Packed => formatter.write_str("the waker's in place of an idle one (VCPU_PACK)"),
            Self::Fallback => formatter.write_str("as the chosen one is off line or not allowed"),
            Self::NotModelled => formatter.write_str("any idle one, else the previous (placement not modelled)"),
            Self::OtherClass => formatter.write_str("by its priority or deadline"),
        }
    }
}

impl fmt::Display for NewidleRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found => formatter.write_str("a task was pulled or came"),
            Self::NothingToPull => formatter.write_str("no task could be pulled"),
            Self::NotOverloaded => formatter.write_str("no CPU has more than one task"),
            Self::TooShort { avg_idle, cost } => {
                write!(formatter, "idle for {} on average < cost of balancing {}", Span(*avg_idle), Span(*cost))
            }
            Self::NoDomain => formatter.write_str("off line or in no domain"),
        }
    }
}

impl fmt::Display for BalanceRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Balanced => "balanced",
            Self::NotItsTurn => "another CPU of the group balances",
            Self::Moved => "moved",
            Self::NoneFits => "the waiting tasks run, are cache-hot or exceed the imbalance",
            Self::Pinned => "all waiting tasks are bound elsewhere",
            Self::Push => "the busiest CPU pushes its current task",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(candidate: Candidate) -> String {
        match candidate {
            Candidate::Task(task) => ["worker", "batch"][task.index()].to_owned(),
            Candidate::Group(_) => "/svc".to_owned(),
        }
    }

    #[test]
    fn spans_have_three_digits_and_a_unit() {
        let shown = |nanoseconds: u64| Span(nanoseconds).to_string();
        assert_eq!(shown(999), "999 ns");
        assert_eq!(shown(1_000), "1 µs");
        assert_eq!(shown(1_234_567), "1.23 ms");
        assert_eq!(shown(9_996_000), "10 ms");
        assert_eq!(shown(12_000_000), "12 ms");
        assert_eq!(shown(250_400_000), "250 ms");
        assert_eq!(shown(100_000_000), "100 ms");
        assert_eq!(shown(61_000_000_000), "61 s");
    }

    #[test]
    fn a_wakeup_shows_both_sides_of_its_comparison() {
        let by = WakeupRule::Granularity { ahead: 400_000, granularity: 1_000_000 };
        let reason = Reason::WakeupPreempt { woken: TaskId(0), current: TaskId(1), preempts: false, by };
        let text = "wakeup: worker does not preempt batch, vruntime 400 µs ahead ≤ wakeup granularity 1 ms";
        assert_eq!(reason.text(&name), text);
    }

    #[test]
    fn a_throttled_group_says_for_how_long() {
        let reason = Reason::Unthrottle { group: 1, after: 12_000_000 };
        assert_eq!(reason.text(&name), "unthrottle: /svc was throttled by its quota for 12 ms");
    }

    #[test]
    fn a_pick_names_those_that_were_passed_over() {
        let others = vec![(Candidate::Task(TaskId(1)), PassedOver::NotEligible(-300_000))];
        let level = PickLevel { picked: Candidate::Task(TaskId(0)), by: PickRule::EarliestDeadline, others };
        let reason = Reason::Pick { task: TaskId(0), candidates: 2, class: PickClass::Fair, levels: vec![level] };
        let text = "pick: worker of 2: earliest deadline of those eligible, not batch (not eligible, lag -300 µs)";
        assert_eq!(reason.text(&name), text);
    }

    #[test]
    fn a_pick_within_a_group_says_why_on_each_level() {
        let [worker, batch] = [0, 1].map(|task| Candidate::Task(TaskId(task)));
        let above = PickLevel {
            picked: Candidate::Group(1),
            by: PickRule::LeastVruntime,
            others: vec![(batch, PassedOver::LaterVruntime(2_000_000))],
        };
        let below = PickLevel { picked: worker, by: PickRule::Only, others: Vec::new() };
        let levels = vec![above, below];
        let reason = Reason::Pick { task: TaskId(0), candidates: 2, class: PickClass::Fair, levels };
        let text = "pick: worker of 2: /svc by least vruntime, not batch (vruntime 2 ms later); in /svc: the only one";
        assert_eq!(reason.text(&name), text);
    }

    #[test]
    fn json_says_what_was_decided_first() {
        let reason = Reason::Turn {
            current: Candidate::Task(TaskId(1)),
            tick: true,
            preempts: true,
            by: TurnRule::SliceOver(5),
        };
        let decision = Decision { time: Time::from_millis(1), cpu: CpuId(0), reason };
        let expected = serde_json::json!({
            "time": "1ms", "cpu": 0, "decision": "turn", "current": {"task": 1}, "tick": true, "preempts": true,
            "by": {"slice_over": 5}
        });
        assert_eq!(serde_json::to_value(&decision).unwrap(), expected);
        let idle = Reason::Pick { task: TaskId::IDLE, candidates: 0, class: PickClass::Idle, levels: Vec::new() };
        assert_eq!(serde_json::to_value(&idle).unwrap()["task"], serde_json::Value::Null);
    }
}
