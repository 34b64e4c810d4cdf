//! The `k_*` kprobes: arguments and state of the scheduler's functions as they are entered.

use crate::fields::Pid;

/// A kprobe on the entry of one function of `kernel/sched`; values are those before the function acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// `k_tick`, `task_tick_fair`.
    Tick {
        /// The running task.
        pid: Pid,
    },
    /// `k_enq`, `enqueue_task_fair`.
    Enqueue {
        /// The task.
        pid: Pid,
        /// `ENQUEUE_*` flags.
        flags: u32,
        /// Its policy and `static_prio`, where they are shown.
        attributes: Option<(u32, i32)>,
    },
    /// `k_deq`, `dequeue_task_fair`.
    Dequeue {
        /// The task.
        pid: Pid,
        /// `DEQUEUE_*` flags.
        flags: u32,
    },
    /// `k_deqs`, `dequeue_entities` (EEVDF).
    DequeueEntities {
        /// The task.
        pid: Pid,
        /// `DEQUEUE_*` flags.
        flags: u32,
    },
    /// `k_place`, CFS's `place_entity`.
    Place {
        /// The task.
        pid: Pid,
        /// Its vruntime before it is placed.
        vruntime: u64,
        /// The queue's `min_vruntime`.
        min_vruntime: u64,
        /// Whether it was just forked.
        initial: bool,
    },
    /// `k_place`, EEVDF's `place_entity`.
    PlaceEevdf {
        /// The task.
        pid: Pid,
        /// Its vruntime before it is placed.
        vruntime: u64,
        /// Its deadline (relative if `relative_deadline`).
        deadline: u64,
        /// Its lag.
        vlag: i64,
        /// What `avg_vruntime` counts from.
        zero_vruntime: u64,
        /// The queue's weighted sum of keys.
        avg_vruntime: i64,
        /// The queue's weight, the running task left out.
        avg_load: u64,
        /// `ENQUEUE_*` flags.
        flags: u32,
        /// Whether the deadline is relative to the vruntime.
        relative_deadline: bool,
    },
    /// `k_cpw`, `check_preempt_wakeup` or `wakeup_preempt_fair`.
    WakeupPreempt {
        /// The woken task.
        pid: Pid,
        /// `WF_*` flags.
        flags: u32,
        /// `thread_info.flags` of the running task; bit 3 is `TIF_NEED_RESCHED`.
        thread_flags: u32,
        /// The running task.
        current: Pid,
    },
    /// `k_resched`, `resched_curr`.
    Resched {
        /// The flag that is to be set, where it is shown: `TIF_NEED_RESCHED` or `TIF_NEED_RESCHED_LAZY`.
        flag: Option<u32>,
    },
    /// `k_pick`, CFS's `pick_next_entity`. Tasks of 0 are none.
    Pick {
        /// The running task, if it is still queued.
        current: Pid,
        /// The queue's `min_vruntime`.
        min_vruntime: u64,
        /// The queue's `nr_running`.
        running: u32,
        /// The queue's load weight.
        weight: u64,
        /// The next buddy.
        next: Pid,
        /// The last buddy.
        last: Pid,
        /// The skip buddy.
        skip: Pid,
    },
    /// `k_eevdf`, EEVDF's `pick_eevdf`. Tasks of 0 are none.
    PickEevdf {
        /// What `avg_vruntime` counts from.
        zero_vruntime: u64,
        /// The queue's weighted sum of keys.
        avg_vruntime: i64,
        /// The queue's weight, the running task left out.
        avg_load: u64,
        /// The queue's number of entities.
        running: u32,
        /// The running task, if it is still queued.
        current: Pid,
        /// The next buddy.
        next: Pid,
    },
    /// `k_set`, CFS's `set_next_entity`.
    SetNext {
        /// The task.
        pid: Pid,
        /// Its vruntime.
        vruntime: u64,
        /// The queue's `min_vruntime`.
        min_vruntime: u64,
    },
    /// `k_set`, EEVDF's `set_next_entity`.
    SetNextEevdf {
        /// The task.
        pid: Pid,
        /// Its vruntime.
        vruntime: u64,
        /// Its deadline.
        deadline: u64,
        /// Its lag (or deadline while it is queued: the kernel keeps both in one place).
        vlag: i64,
        /// Its slice.
        slice: u64,
    },
    /// `k_sett`, `set_next_task_fair`: what `set_next_entity` is given, where that is inlined.
    SetTask {
        /// The task.
        pid: Pid,
        /// Whether it was picked, not only put back.
        first: bool,
        /// Its vruntime.
        vruntime: u64,
        /// Its deadline (EEVDF).
        deadline: Option<u64>,
        /// Its slice (EEVDF).
        slice: Option<u64>,
    },
    /// `k_param`, `set_load_weight`: what a task is from now on.
    Parameters {
        /// The task.
        pid: Pid,
        /// `policy`.
        policy: u32,
        /// `static_prio`.
        static_priority: i32,
        /// `rt_priority`.
        rt_priority: u32,
        /// `se.slice` if it was asked for, in nanoseconds (EEVDF).
        slice: Option<u64>,
    },
    /// `k_rew`, `reweight_entity`.
    Reweight {
        /// The task.
        pid: Pid,
        /// Its new load weight, scaled.
        weight: u64,
    },
    /// `k_rqd`, `requeue_delayed_entity` (EEVDF).
    RequeueDelayed {
        /// The task.
        pid: Pid,
    },
    /// `k_move`, `sched_move_task`.
    Move {
        /// The task.
        pid: Pid,
    },
    /// `k_nice`, `set_user_nice`: what is asked for.
    Nice {
        /// The task.
        pid: Pid,
        /// The nice level.
        nice: i32,
    },
    /// `k_setsched`, `__sched_setscheduler`: what is asked for.
    SetScheduler {
        /// The task.
        pid: Pid,
        /// `SCHED_*`; −1 to keep the policy.
        policy: i32,
        /// The nice level.
        nice: i32,
        /// The real-time priority.
        priority: u32,
        /// The deadline class's runtime, or a fair task's slice, in nanoseconds.
        runtime: u64,
        /// The relative deadline, in nanoseconds.
        deadline: u64,
        /// The period, in nanoseconds.
        period: u64,
    },
    /// `k_pnt`, `pick_next_task_fair`: only its clocks matter.
    PickTask,
    /// `k_uc`, `update_curr` of one queue.
    UpdateCurr {
        /// The task that runs; 0 for a group's entity, and on an idle CPU.
        pid: Pid,
        /// The running entity's vruntime before it is charged.
        vruntime: u64,
        /// Its deadline (EEVDF).
        deadline: Option<u64>,
        /// Since when it was not charged.
        exec_start: u64,
    },
    /// `k_shares`, `sched_group_set_shares`.
    Shares {
        /// The group's address.
        group: u64,
        /// Its new shares, not scaled.
        shares: u64,
    },
    /// `k_quota`, `tg_set_cfs_bandwidth`.
    Quota {
        /// The group's address.
        group: u64,
        /// The period, in nanoseconds.
        period: u64,
        /// Its quota, in nanoseconds; `u64::MAX` for none.
        quota: u64,
        /// What may be saved up, in nanoseconds.
        burst: u64,
    },
    /// `k_thr`, `throttle_cfs_rq`.
    Throttle {
        /// The group's address.
        group: u64,
        /// `runtime_remaining`, in nanoseconds.
        remaining: i64,
    },
    /// `k_unthr`, `unthrottle_cfs_rq`.
    Unthrottle {
        /// The group's address.
        group: u64,
        /// `runtime_remaining`, in nanoseconds.
        remaining: i64,
    },
    /// `k_acct`, `__account_cfs_rq_runtime`.
    Account {
        /// `runtime_remaining` before, in nanoseconds.
        remaining: i64,
        /// What is charged, in nanoseconds.
        delta: u64,
    },
    /// `k_refill`, `__refill_cfs_bandwidth_runtime`.
    Refill {
        /// The group's address.
        group: u64,
        /// Its runtime before, in nanoseconds.
        runtime: u64,
    },
    /// `k_rtenq`, `enqueue_task_rt`.
    RtEnqueue {
        /// The task.
        pid: Pid,
        /// `ENQUEUE_*` flags.
        flags: u32,
        /// Its priority as the kernel counts, 99 − `sched_priority`.
        priority: i32,
        /// `rt.time_slice`, in ticks.
        time_slice: u32,
    },
    /// `k_rtdeq`, `dequeue_task_rt`.
    RtDequeue {
        /// The task.
        pid: Pid,
        /// `DEQUEUE_*` flags.
        flags: u32,
        /// `rt.time_slice`, in ticks.
        time_slice: u32,
    },
    /// `k_rtcur`, `update_curr_rt`.
    RtCharge {
        /// The running task.
        pid: Pid,
        /// `rt_throttled`, where there is throttling.
        throttled: Option<bool>,
        /// `rt_time`, in nanoseconds.
        time: Option<u64>,
        /// `rt_runtime`, in nanoseconds.
        runtime: Option<u64>,
    },
    /// `k_rttick`, `task_tick_rt`.
    RtTick {
        /// The running task.
        pid: Pid,
        /// `rt.time_slice` before, in ticks.
        time_slice: u32,
    },
    /// `k_rtper`, `sched_rt_period_timer`.
    RtPeriod,
    /// `k_dlenq`, `enqueue_task_dl`.
    DlEnqueue {
        /// The task.
        pid: Pid,
        /// `ENQUEUE_*` flags.
        flags: u32,
        /// Its runtime and deadline.
        server: Server,
    },
    /// `k_dldeq`, `dequeue_task_dl`.
    DlDequeue {
        /// The task.
        pid: Pid,
        /// `DEQUEUE_*` flags.
        flags: u32,
        /// Its runtime and deadline.
        server: Server,
    },
    /// `k_dlcur`, `update_curr_dl`.
    DlCharge {
        /// The running task.
        pid: Pid,
        /// Its runtime and deadline before it is charged.
        server: Server,
    },
    /// `k_dlse`, `update_curr_dl_se` (6.12 on): a task's entity or the fair server's.
    DlEntityCharge {
        /// Whether it is a server's.
        is_server: bool,
        /// Its runtime and deadline before it is charged.
        server: Server,
        /// What is charged, in nanoseconds.
        delta: i64,
    },
    /// `k_dlrep`, `replenish_dl_entity`.
    DlReplenish {
        /// The task; 0 for a server.
        pid: Pid,
        /// Whether it is a server's.
        is_server: bool,
        /// Its runtime and deadline before.
        server: Server,
    },
    /// `k_dltimer`, `dl_task_timer`.
    DlTimer {
        /// The task; 0 for a server.
        pid: Pid,
        /// Whether it is a server's.
        is_server: bool,
        /// Its runtime and deadline before.
        server: Server,
    },
    /// `k_dlinact`, `inactive_task_timer`.
    DlInactive {
        /// The task.
        pid: Pid,
    },
    /// `k_dlsrvon`, `dl_server_start`.
    ServerStart {
        /// Its runtime and deadline before.
        server: Server,
    },
    /// `k_dlsrvoff`, `dl_server_stop`.
    ServerStop {
        /// Its runtime and deadline before.
        server: Server,
    },
}

/// The runtime and deadline of a deadline entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Runtime left, in nanoseconds; negative after an overrun.
    pub runtime: i64,
    /// The absolute deadline, in nanoseconds of the queue's clock.
    pub deadline: u64,
}
