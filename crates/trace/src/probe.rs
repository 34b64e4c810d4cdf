//! The `k_*` kprobes: what the fair class was told and what it saw.

use crate::record::Pid;

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
    Resched,
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
}
