//! The scheduler's decisions, each with its reason.

mod text;

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
        /// The current entity: on each level of a hierarchy of groups the group, at the end the task.
        current: Candidate,
        /// Whether a tick asked; else the charge did.
        tick: bool,
        /// Whether it is marked for rescheduling.
        preempts: bool,
        /// The rule that decided.
        by: TurnRule,
    },
    /// Where in virtual time an entity is placed (`place_entity`).
    Place {
        /// The entity.
        entity: Candidate,
        /// The group on whose queue it is placed, by its number; 0 is the root group.
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
    /// What a CPU does that is about to idle (`sched_balance_newidle`, `newidle_balance` before 6.10).
    Newidle {
        /// Whether it has something to run afterwards.
        runs: bool,
        /// The rule that decided.
        by: NewidleRule,
    },
    /// What a balancing CPU does about one of its domains (`sched_balance_rq`, `load_balance` before 6.10).
    Balance {
        /// The domain's level, from 0 for the smallest.
        level: u32,
        /// Whether it is newly idle balancing.
        newly_idle: bool,
        /// How many tasks were moved.
        moved: u32,
        /// The CPU from which they came, or would have come.
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
    /// CFS: at the vruntime that it was dequeued with, so far after where the credit would place it, in virtual nanoseconds.
    WhereItLeft(u64),
    /// CFS: a new entity, a slice after the queue's `min_vruntime` (START_DEBIT), in virtual nanoseconds.
    StartDebit(u64),
    /// CFS: at the queue's `min_vruntime`.
    MinVruntime,
    /// EEVDF: at the average less the lag that it was dequeued with (PLACE_LAG), in virtual nanoseconds.
    Lag {
        /// The lag that it was dequeued with; negative where it had more than its share.
        kept: i64,
        /// That lag inflated, as adding the entity moves the average.
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
    /// Fork or exec: the idlest CPU of the idlest group (`sched_balance_find_dst_cpu`).
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
    /// It pulled a task, or one was queued meanwhile.
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
    /// Renumbers the tasks that the decision names.
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
}
