//! `k_snap`: what a task had when the recording began.

use crate::fields::Fields;
use crate::fields::Pid;

/// A task's scheduling state, read while only the recorder could run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskSnap {
    /// Its pid.
    pub pid: Pid,
    /// `policy`: 0 OTHER, 1 FIFO, 2 RR, 3 BATCH, 5 IDLE, 6 DEADLINE.
    pub policy: u32,
    /// `static_prio`: 120 + nice.
    pub static_priority: i32,
    /// `normal_prio`: by policy.
    pub normal_priority: i32,
    /// `on_rq`: on a run queue.
    pub on_rq: bool,
    /// `se.vruntime`.
    pub vruntime: u64,
    /// `se.load.weight`, scaled.
    pub weight: u64,
    /// `se.h_load.weight`, scaled: what it weighs in the timeline, where that is another number (from 7.3 on).
    pub timeline_weight: Option<u64>,
    /// `se.exec_start`.
    pub exec_start: u64,
    /// `se.sum_exec_runtime`.
    pub sum_exec_runtime: u64,
    /// `se.prev_sum_exec_runtime`, where it is shown.
    pub prev_sum_exec_runtime: Option<u64>,
    /// The group's address.
    pub group: u64,
    /// The group's parent's address; 0 for the root's.
    pub parent_group: u64,
    /// The cgroup's inode; 0 for an autogroup.
    pub cgroup: u64,
    /// The autogroup's number; −1 or 0 for none.
    pub autogroup: i64,
    /// Its queue's address.
    pub queue: u64,
    /// Its queue's `min_vruntime` (CFS).
    pub min_vruntime: Option<u64>,
    /// What is EEVDF's own.
    pub eevdf: Option<EevdfSnap>,
    /// The entity's load averages, where they are shown.
    pub load: Option<LoadSnap>,
    /// `rt.time_slice`, in ticks.
    pub time_slice: u32,
    /// `dl.runtime` left, in nanoseconds.
    pub dl_runtime: i64,
    /// `dl.deadline`.
    pub dl_deadline: u64,
    /// `dl.dl_throttled`.
    pub dl_throttled: bool,
}

/// What only EEVDF has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EevdfSnap {
    /// `se.deadline`.
    pub deadline: u64,
    /// `se.vlag`.
    pub vlag: i64,
    /// `se.slice`.
    pub slice: u64,
    /// `se.custom_slice`: the slice was asked for.
    pub custom_slice: bool,
    /// `se.vprot`: up to where its slice is protected; absent where `vlag` holds that while it runs.
    pub protected: Option<u64>,
    /// `se.rel_deadline`.
    pub relative: bool,
    /// `se.sched_delayed`.
    pub delayed: bool,
    /// Its queue's `zero_vruntime` (`min_vruntime` where that is the origin).
    pub zero_vruntime: u64,
    /// Its queue's `avg_vruntime`.
    pub avg_vruntime: i64,
    /// Its queue's `avg_load`.
    pub avg_load: u64,
}

/// `se.avg`: how much of late the entity was runnable and ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadSnap {
    /// `last_update_time`, of the task clock scaled to capacity.
    pub last_update: u64,
    /// `load_sum`.
    pub sum: u64,
    /// `load_avg`.
    pub load: u64,
    /// `runnable_avg`.
    pub runnable: u64,
    /// `util_avg`.
    pub utilisation: u64,
}

impl TaskSnap {
    /// Reads the fields; `Err` says what was expected.
    pub(crate) fn parse(fields: Fields<'_>) -> Result<Self, String> {
        // Fields of classes and options that a kernel lacks are absent.
        let absent = |key: &str| fields.find(key).is_none();
        let eevdf = if absent("vlag") {
            None
        } else {
            Some(EevdfSnap {
                deadline: fields.get("dl")?,
                vlag: fields.get("vlag")?,
                slice: fields.get("sl")?,
                custom_slice: fields.flag("cs")?,
                protected: fields.optional("vp")?,
                relative: fields.flag("rel")?,
                delayed: fields.flag("del")?,
                zero_vruntime: fields.optional("zv")?.unwrap_or(0),
                avg_vruntime: fields.optional("av")?.unwrap_or(0),
                avg_load: fields.optional("al")?.unwrap_or(0),
            })
        };
        let load = if absent("lu") {
            None
        } else {
            Some(LoadSnap {
                last_update: fields.get("lu")?,
                sum: fields.get("ls")?,
                load: fields.get("la")?,
                runnable: fields.get("ra")?,
                utilisation: fields.get("ua")?,
            })
        };
        Ok(Self {
            pid: fields.get("pid")?,
            policy: fields.get("pol")?,
            static_priority: fields.get("sp")?,
            normal_priority: fields.get("nprio")?,
            on_rq: fields.flag("onrq")?,
            vruntime: fields.get("vr")?,
            weight: fields.get("w")?,
            timeline_weight: fields.optional("hw")?,
            exec_start: fields.get("xs")?,
            sum_exec_runtime: fields.get("sum")?,
            prev_sum_exec_runtime: fields.optional("psum")?,
            group: fields.address("tg")?,
            parent_group: fields.address("ptg")?,
            cgroup: fields.optional("cg")?.unwrap_or(0),
            autogroup: fields.optional("ag")?.unwrap_or(0),
            queue: fields.address("cfs")?,
            min_vruntime: fields.optional("minv")?,
            eevdf,
            load,
            time_slice: fields.optional("rts")?.unwrap_or(0),
            dl_runtime: fields.optional("dlrt")?.unwrap_or(0),
            dl_deadline: fields.optional("dldl")?.unwrap_or(0),
            dl_throttled: !absent("dlthr") && fields.flag("dlthr")?,
        })
    }
}
