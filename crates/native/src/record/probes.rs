//! The probes of the scheduler's functions: which function, which fields, and from which level of recordings on.

use super::level::Level;

/// Which of the fair class's rules a kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// Up to 6.5.
    Cfs,
    /// From 6.6 on: entities have a lag.
    Eevdf,
}

/// A probe on the entry of a function, or on its return.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// The event's name.
    pub(super) name: &'static str,
    /// The function; the first that the kernel has.
    pub(super) functions: &'static [&'static str],
    /// The lowest level that has it.
    pub(super) level: Level,
    /// Whether recordings of its level cannot do without it.
    pub(super) essential: bool,
    /// The rules it belongs to, if only to one's.
    pub(super) rules: Option<Rules>,
    /// Whether it tells something only where there are several CPUs.
    pub(super) several: bool,
    /// `NAME=PATH`; several paths, parted by `|`, are tried in turn, and a field that no path leads to is left out. After `!` stands a
    /// path that makes the field 0 when it is not 0, for each of the paths. `@NAME` is a variable of the kernel's, of 64 bits, where kprobes find it.
    pub(super) fields: &'static str,
}

const fn probe(name: &'static str, functions: &'static [&'static str], fields: &'static str) -> Probe {
    Probe { name, functions, level: Level::L1, essential: false, rules: None, several: false, fields }
}

impl Probe {
    const fn at(self, level: Level) -> Self {
        Self { level, ..self }
    }

    const fn essential(self) -> Self {
        Self { essential: true, ..self }
    }

    const fn of(self, rules: Rules) -> Self {
        Self { rules: Some(rules), ..self }
    }

    const fn several(self) -> Self {
        Self { several: true, ..self }
    }
}

/// The event by which every task shows its state before the recording: the recorder asks for each one's time slice.
pub(super) const STATE: &str = "k_snap";

/// What the entity of a group above a task is like; `se` is 0 where there is none.
macro_rules! group {
    ($se:literal) => {
        concat!(
            "pid=task.pid se=",
            $se,
            " on=",
            $se,
            ".on_rq vr=",
            $se,
            ".vruntime w=",
            $se,
            ".load.weight xs=",
            $se,
            ".exec_start",
            " sum=",
            $se,
            ".sum_exec_runtime psum=",
            $se,
            ".prev_sum_exec_runtime dl=",
            $se,
            ".deadline vlag=",
            $se,
            ".vlag",
            " sl=",
            $se,
            ".slice rel=",
            $se,
            ".rel_deadline del=",
            $se,
            ".sched_delayed cfs=",
            $se,
            ".cfs_rq",
            " minv=",
            $se,
            ".cfs_rq.min_vruntime zv=",
            $se,
            ".cfs_rq.zero_vruntime my=",
            $se,
            ".my_q mw=",
            $se,
            ".my_q.load.weight",
            " mla=",
            $se,
            ".my_q.avg.load_avg con=",
            $se,
            ".my_q.tg_load_avg_contrib rr=",
            $se,
            ".my_q.runtime_remaining",
            " thr=",
            $se,
            ".my_q.throttled tg=",
            $se,
            ".my_q.tg sh=",
            $se,
            ".my_q.tg.shares tla=",
            $se,
            ".my_q.tg.load_avg.counter",
            " quota=",
            $se,
            ".my_q.tg.cfs_bandwidth.quota period=",
            $se,
            ".my_q.tg.cfs_bandwidth.period",
            " pool=",
            $se,
            ".my_q.tg.cfs_bandwidth.runtime lu=",
            $se,
            ".avg.last_update_time la=",
            $se,
            ".avg.load_avg"
        )
    };
}

/// Every probe. `docs/concepts/recording.md` says what each is for.
pub(super) const PROBES: &[Probe] = &[
    // They are called with the queue locked, so that nothing comes between.
    probe(STATE, &["get_rr_interval_fair"], SNAPSHOT_CFS).at(Level::L0k).of(Rules::Cfs),
    probe(STATE, &["get_rr_interval_fair"], SNAPSHOT_EEVDF).at(Level::L0k).of(Rules::Eevdf),
    probe("k_snaprt", &["get_rr_interval_rt"], SNAPSHOT_CFS).at(Level::L0k).of(Rules::Cfs),
    probe("k_snaprt", &["get_rr_interval_rt"], SNAPSHOT_EEVDF).at(Level::L0k).of(Rules::Eevdf),
    probe("k_snap1", &["get_rr_interval_fair"], group!("task.se.parent?")).at(Level::L0k),
    probe("k_snap2", &["get_rr_interval_fair"], group!("task.se.parent?.parent?")).at(Level::L0k),
    probe("k_snap3", &["get_rr_interval_fair"], group!("task.se.parent?.parent?.parent?")).at(Level::L0k),
    // The fair class.
    probe(
        "k_place",
        &["place_entity"],
        "pid=se@task_struct:se.pid!se.my_q vr=se.vruntime minv=cfs_rq.min_vruntime init=initial se=se my=se.my_q cfs=cfs_rq",
    )
    .at(Level::L0k)
    .essential()
    .of(Rules::Cfs),
    probe(
        "k_place",
        &["place_entity"],
        "pid=se@task_struct:se.pid!se.my_q vr=se.vruntime dl=se.deadline vlag=se.vlag zv=cfs_rq.zero_vruntime|cfs_rq.min_vruntime \
         av=cfs_rq.sum_w_vruntime|cfs_rq.avg_vruntime al=cfs_rq.sum_weight|cfs_rq.avg_load ss=cfs_rq.sum_shift fl=flags# \
         rel=se.rel_deadline sl=se.slice se=se my=se.my_q cfs=cfs_rq",
    )
    .at(Level::L0k)
    .essential()
    .of(Rules::Eevdf),
    probe("k_tick", &["task_tick_fair"], "pid=curr.pid ct=rq.clock_task c=rq.clock cpu=rq.cpu").essential(),
    probe("k_enq", &["enqueue_task_fair"], QUEUEING).essential(),
    probe("k_deq", &["dequeue_task_fair"], QUEUEING).essential(),
    // With a single timeline (7.3) tasks alone are delayed.
    probe(
        "k_deqs",
        &["dequeue_entities", "__dequeue_task"],
        "pid=se@task_struct:se.pid!se.my_q|p.pid fl=flags# se=se my=se.my_q",
    )
    .of(Rules::Eevdf),
    probe(
        "k_set",
        &["set_next_entity"],
        "pid=se@task_struct:se.pid!se.my_q vr=se.vruntime minv=cfs_rq.min_vruntime se=se my=se.my_q cfs=cfs_rq",
    )
    .essential()
    .of(Rules::Cfs),
    probe(
        "k_set",
        &["set_next_entity"],
        "pid=se@task_struct:se.pid!se.my_q vr=se.vruntime dl=se.deadline vlag=se.vlag sl=se.slice se=se my=se.my_q cfs=cfs_rq",
    )
    .of(Rules::Eevdf),
    // Where set_next_entity has no place of its own, the task's level alone shows.
    probe(
        "k_sett",
        &["set_next_task_fair"],
        "pid=p.pid first=first vr=p.se.vruntime dl=p.se.deadline vlag=p.se.vlag sl=p.se.slice vp=p.se.vprot ct=rq.clock_task \
         c=rq.clock",
    ),
    probe(
        "k_pick",
        &["pick_next_entity"],
        "cpid=curr?@task_struct:se.pid!curr.my_q minv=cfs_rq.min_vruntime nr=cfs_rq.nr_running lw=cfs_rq.load.weight \
         next=cfs_rq.next?@task_struct:se.pid!cfs_rq.next.my_q last=cfs_rq.last?@task_struct:se.pid!cfs_rq.last.my_q \
         skip=cfs_rq.skip?@task_struct:se.pid!cfs_rq.skip.my_q cse=curr cfs=cfs_rq ct=cfs_rq.rq.clock_task",
    )
    .essential()
    .of(Rules::Cfs),
    probe(
        "k_eevdf",
        &["pick_eevdf", "__pick_eevdf"],
        "zv=cfs_rq.zero_vruntime|cfs_rq.min_vruntime av=cfs_rq.sum_w_vruntime|cfs_rq.avg_vruntime \
         al=cfs_rq.sum_weight|cfs_rq.avg_load ss=cfs_rq.sum_shift nr=cfs_rq.nr_queued|cfs_rq.nr_running \
         cpid=cfs_rq.curr?@task_struct:se.pid!cfs_rq.curr.my_q next=cfs_rq.next?@task_struct:se.pid!cfs_rq.next.my_q \
         prot=protect cse=cfs_rq.curr cfs=cfs_rq ct=cfs_rq.rq.clock_task",
    )
    .essential()
    .of(Rules::Eevdf),
    probe("k_pnt", &["pick_next_task_fair", "pick_task_fair"], "c=rq.clock ct=rq.clock_task"),
    probe(
        "k_cpw",
        &["wakeup_preempt_fair", "check_preempt_wakeup_fair", "check_preempt_wakeup"],
        "pid=p.pid wf=wake_flags# tif=rq.curr.thread_info.flags# cpid=rq.curr.pid ct=rq.clock_task c=rq.clock cpu=rq.cpu",
    )
    .essential(),
    probe("k_resched", &["__resched_curr", "resched_curr"], "cpu=rq.cpu tif=tif cpid=rq.curr.pid").essential(),
    probe(
        "k_rew",
        &["reweight_entity"],
        "pid=se@task_struct:se.pid!se.my_q w=weight se=se my=se.my_q cfs=cfs_rq",
    )
    .essential(),
    probe("k_rqd", &["requeue_delayed_entity"], "pid=se@task_struct:se.pid!se.my_q se=se my=se.my_q").of(Rules::Eevdf),
    probe(
        "k_uc",
        &["update_curr"],
        "cfs=cfs_rq cse=cfs_rq.h_curr|cfs_rq.curr cmy=cfs_rq.h_curr?.my_q|cfs_rq.curr?.my_q \
         pid=cfs_rq.h_curr?@task_struct:se.pid!cfs_rq.h_curr.my_q|cfs_rq.curr?@task_struct:se.pid!cfs_rq.curr.my_q \
         vr=cfs_rq.h_curr?.vruntime|cfs_rq.curr?.vruntime dl=cfs_rq.h_curr?.deadline|cfs_rq.curr?.deadline \
         xs=cfs_rq.h_curr?.exec_start|cfs_rq.curr?.exec_start ct=cfs_rq.rq.clock_task cpu=cfs_rq.rq.cpu",
    ),
    // Groups.
    probe(
        "k_move",
        &["task_change_group_fair"],
        "pid=p.pid tg=p.sched_task_group ptg=p.sched_task_group.parent cg=p.sched_task_group.css.cgroup?.kn.id \
         ag=p.sched_task_group.autogroup?.id",
    ),
    probe("k_shares", &["sched_group_set_shares"], "tg=tg cg=tg.css.cgroup?.kn.id shares=shares"),
    probe(
        "k_quota",
        // Its caller, where it has no place of its own, is given microseconds.
        &["tg_set_cfs_bandwidth", "tg_set_bandwidth"],
        "tg=tg cg=tg.css.cgroup?.kn.id period=period quota=quota burst=burst pus=period_us qus=quota_us bus=burst_us",
    ),
    probe("k_thr", &["throttle_cfs_rq"], THROTTLING),
    probe("k_unthr", &["unthrottle_cfs_rq"], THROTTLING),
    probe("k_acct", &["__account_cfs_rq_runtime"], "cfs=cfs_rq rr=cfs_rq.runtime_remaining delta=delta_exec"),
    probe("k_refill", &["__refill_cfs_bandwidth_runtime"], POOL),
    probe("k_dist", &["distribute_cfs_runtime"], POOL),
    // Real time.
    probe("k_rtenq", &["enqueue_task_rt"], "pid=p.pid fl=flags# prio=p.prio ts=p.rt.time_slice ct=rq.clock_task c=rq.clock"),
    probe("k_rtdeq", &["dequeue_task_rt"], "pid=p.pid fl=flags# prio=p.prio ts=p.rt.time_slice ct=rq.clock_task c=rq.clock"),
    probe(
        "k_rtcur",
        &["update_curr_rt"],
        "pid=rq.curr.pid xs=rq.curr.se.exec_start ct=rq.clock_task c=rq.clock thr=rq.rt.rt_throttled rtt=rq.rt.rt_time \
         rtr=rq.rt.rt_runtime",
    ),
    probe("k_rttick", &["task_tick_rt"], "pid=p.pid ts=p.rt.time_slice ct=rq.clock_task c=rq.clock"),
    probe("k_rtper", &["sched_rt_period_timer"], "timer=timer"),
    // Deadlines.
    probe("k_dlenq", &["enqueue_task_dl"], DEADLINE_QUEUEING),
    probe("k_dldeq", &["dequeue_task_dl"], DEADLINE_QUEUEING),
    probe(
        "k_dlcur",
        &["update_curr_dl"],
        "pid=rq.curr.pid rt=rq.curr.dl.runtime dl=rq.curr.dl.deadline xs=rq.curr.se.exec_start ct=rq.clock_task c=rq.clock",
    ),
    probe(
        "k_dlse",
        &["update_curr_dl_se"],
        "se=dl_se pid=dl_se@task_struct:dl.pid!dl_se.dl_server srv=dl_se.dl_server rt=dl_se.runtime dl=dl_se.deadline \
         delta=delta_exec ct=rq.clock_task c=rq.clock thr=dl_se.dl_throttled run=dl_se.dl_defer_running",
    ),
    probe(
        "k_dlrep",
        &["replenish_dl_entity"],
        // A timer reads the clock before it comes here, which nothing else shows if the task sleeps.
        "se=dl_se pid=dl_se@task_struct:dl.pid!dl_se.dl_server srv=dl_se.dl_server rt=dl_se.runtime dl=dl_se.deadline \
         ct=dl_se@task_struct:dl.se.cfs_rq.rq.clock_task!dl_se.dl_server c=dl_se@task_struct:dl.se.cfs_rq.rq.clock!dl_se.dl_server \
         sct=dl_se.rq?.clock_task sc=dl_se.rq?.clock",
    ),
    probe("k_dltimer", &["dl_task_timer"], DEADLINE_TIMER),
    probe("k_dlinact", &["inactive_task_timer"], INACTIVE_TIMER),
    probe("k_dlsrvon", &["dl_server_start"], "se=dl_se rt=dl_se.runtime dl=dl_se.deadline"),
    probe("k_dlsrvoff", &["dl_server_stop"], "se=dl_se rt=dl_se.runtime dl=dl_se.deadline"),
    // What a task has become, when it was asked to be it: the weight is set last.
    probe(
        "k_param",
        &["set_load_weight"],
        "pid=p.pid pol=p.policy sp=p.static_prio rtp=p.rt_priority dlr=p.dl.dl_runtime dld=p.dl.dl_deadline dlp=p.dl.dl_period \
         dlf=p.dl.flags# sl=p.se.slice cs=p.se.custom_slice rof=p.sched_reset_on_fork",
    )
    .at(Level::L0k),
    // Several CPUs.
    probe("k_sel", &["select_task_rq_fair"], "pid=p.pid prev=prev_cpu wf=wake_flags# sd=sd_flag#"),
    probe("k_selr", &["select_task_rq_fair"], "cpu=$retval"),
    probe("k_mig", &["migrate_task_rq_fair"], "pid=p.pid to=new_cpu"),
    // Each task's past as placement looks at it, and its queue's and CPU's state.
    probe(
        "k_snapw",
        &["get_rr_interval_fair"],
        "pid=task.pid cpu=task.se.cfs_rq.rq.cpu rcu=task.recent_used_cpu wfl=task.wakee_flips wfd=task.wakee_flip_decay_ts \
         lw=task.last_wakee?.pid lu=task.se.avg.last_update_time ls=task.se.avg.load_sum rs=task.se.avg.runnable_sum \
         us=task.se.avg.util_sum pc=task.se.avg.period_contrib la=task.se.avg.load_avg ra=task.se.avg.runnable_avg \
         ua=task.se.avg.util_avg ue=task.se.avg.util_est.ewma|task.se.avg.util_est uq=task.se.avg.util_est.enqueued",
    )
    .several(),
    probe("k_snapq", &["get_rr_interval_fair"], SNAPSHOT_QUEUE).several(),
    // Load averages before each update.
    probe(
        "k_lase",
        &["__update_load_avg_se"],
        "pid=se@task_struct:se.pid!se.my_q now=now cpu=cfs_rq.rq.cpu la=se.avg.load_avg ra=se.avg.runnable_avg ua=se.avg.util_avg \
         se=se my=se.my_q",
    )
    .several(),
    probe(
        "k_lacfs",
        &["__update_load_avg_cfs_rq"],
        "cfs=cfs_rq now=now cpu=cfs_rq.rq.cpu la=cfs_rq.avg.load_avg ra=cfs_rq.avg.runnable_avg ua=cfs_rq.avg.util_avg \
         c=cfs_rq.rq.clock ct=cfs_rq.rq.clock_task",
    )
    .several(),
    probe("k_lablk", &["__update_load_avg_blocked_se"], "pid=se@task_struct:se.pid!se.my_q now=now").several(),
    // It brings a CPU's averages up to date before its load is balanced on a tick, with its queue locked: the time, how the CPU stood at
    // the tick, and when its two smallest domains were balanced.
    probe(
        "k_balance",
        &["update_rt_rq_load_avg"],
        "cpu=rq.cpu j=@jiffies_64 ib=rq.idle_balance nb=rq.next_balance lb=rq.sd?.last_balance bi=rq.sd?.balance_interval \
         bf=rq.sd?.nr_balance_failed lb1=rq.sd?.parent?.last_balance bi1=rq.sd?.parent?.balance_interval \
         bf1=rq.sd?.parent?.nr_balance_failed",
    )
    .several(),
    // A CPU that is about to idle. What is done with interrupts enabled is not probed: theirs would be missed.
    probe(
        "k_newidle",
        &["sched_balance_newidle", "newidle_balance"],
        "c=this_rq.clock ct=this_rq.clock_task cpu=this_rq.cpu ai=this_rq.avg_idle ov=this_rq.rd.overloaded|this_rq.rd.overload \
         cost=this_rq.sd?.max_newidle_lb_cost",
    )
    .several(),
];

/// A CPU's queue, of the task that is asked for.
const SNAPSHOT_QUEUE: &str = "pid=task.pid cpu=task.se.cfs_rq.rq.cpu cur=task.se.cfs_rq.rq.curr.pid nr=task.se.cfs_rq.rq.nr_running cfs=task.se.cfs_rq \
     c=task.se.cfs_rq.rq.clock ct=task.se.cfs_rq.rq.clock_task cp=task.se.cfs_rq.rq.clock_pelt \
     is=task.se.cfs_rq.rq.idle_stamp ai=task.se.cfs_rq.rq.avg_idle mc=task.se.cfs_rq.rq.max_idle_balance_cost \
     ws=task.se.cfs_rq.rq.wake_stamp wai=task.se.cfs_rq.rq.wake_avg_idle nb=task.se.cfs_rq.rq.next_balance \
     cap=task.se.cfs_rq.rq.cpu_capacity rtu=task.se.cfs_rq.rq.avg_rt.util_avg dlu=task.se.cfs_rq.rq.avg_dl.util_avg \
     ov=task.se.cfs_rq.rq.rd.overloaded|task.se.cfs_rq.rq.rd.overload cost=task.se.cfs_rq.rq.sd?.max_newidle_lb_cost \
     nis=task.se.cfs_rq.rq.sd?.shared?.nr_idle_scan nbc=task.se.cfs_rq.rq.sd?.shared?.nr_busy_cpus.counter \
     lu=task.se.cfs_rq.avg.last_update_time ls=task.se.cfs_rq.avg.load_sum rs=task.se.cfs_rq.avg.runnable_sum \
     us=task.se.cfs_rq.avg.util_sum pc=task.se.cfs_rq.avg.period_contrib la=task.se.cfs_rq.avg.load_avg \
     ra=task.se.cfs_rq.avg.runnable_avg ua=task.se.cfs_rq.avg.util_avg rnr=task.se.cfs_rq.removed.nr \
     rla=task.se.cfs_rq.removed.load_avg rua=task.se.cfs_rq.removed.util_avg rra=task.se.cfs_rq.removed.runnable_avg \
     ue=task.se.cfs_rq.avg.util_est.enqueued|task.se.cfs_rq.avg.util_est \
     lb=task.se.cfs_rq.rq.sd?.last_balance bi=task.se.cfs_rq.rq.sd?.balance_interval bf=task.se.cfs_rq.rq.sd?.nr_balance_failed \
     lb1=task.se.cfs_rq.rq.sd?.parent?.last_balance bi1=task.se.cfs_rq.rq.sd?.parent?.balance_interval \
     bf1=task.se.cfs_rq.rq.sd?.parent?.nr_balance_failed cost1=task.se.cfs_rq.rq.sd?.parent?.max_newidle_lb_cost \
     wfl=task.se.cfs_rq.rq.idle.wakee_flips wfd=task.se.cfs_rq.rq.idle.wakee_flip_decay_ts \
     lw=task.se.cfs_rq.rq.idle.last_wakee?.pid j=@jiffies_64";

const QUEUEING: &str = "pid=p.pid fl=flags# ct=rq.clock_task c=rq.clock cpu=rq.cpu pol=p.policy sp=p.static_prio w=p.se.load.weight \
     tg=p.sched_task_group ptg=p.sched_task_group.parent cg=p.sched_task_group.css.cgroup?.kn.id ag=p.sched_task_group.autogroup?.id";

const THROTTLING: &str =
    "cfs=cfs_rq tg=cfs_rq.tg rr=cfs_rq.runtime_remaining ct=cfs_rq.rq.clock_task c=cfs_rq.rq.clock";

const POOL: &str = "cg=cfs_b@task_group:cfs_bandwidth.css.cgroup?.kn.id rt=cfs_b.runtime quota=cfs_b.quota period=cfs_b.period \
     burst=cfs_b.burst";

const DEADLINE_QUEUEING: &str =
    "pid=p.pid fl=flags# rt=p.dl.runtime dl=p.dl.deadline thr=p.dl.dl_throttled ct=rq.clock_task c=rq.clock";

const DEADLINE_TIMER: &str = "timer=timer pid=timer@sched_dl_entity:dl_timer@task_struct:dl.pid!timer@sched_dl_entity:dl_timer.dl_server \
     srv=timer@sched_dl_entity:dl_timer.dl_server rt=timer@sched_dl_entity:dl_timer.runtime \
     dl=timer@sched_dl_entity:dl_timer.deadline thr=timer@sched_dl_entity:dl_timer.dl_throttled";

const INACTIVE_TIMER: &str = "timer=timer \
     pid=timer@sched_dl_entity:inactive_timer@task_struct:dl.pid!timer@sched_dl_entity:inactive_timer.dl_server \
     srv=timer@sched_dl_entity:inactive_timer.dl_server rt=timer@sched_dl_entity:inactive_timer.runtime \
     dl=timer@sched_dl_entity:inactive_timer.deadline";

const SNAPSHOT_CFS: &str = "pid=task.pid pol=task.policy sp=task.static_prio nprio=task.normal_prio onrq=task.on_rq \
     vr=task.se.vruntime w=task.se.load.weight xs=task.se.exec_start sum=task.se.sum_exec_runtime psum=task.se.prev_sum_exec_runtime \
     c=task.se.cfs_rq.rq.clock ct=task.se.cfs_rq.rq.clock_task cfs=task.se.cfs_rq minv=task.se.cfs_rq.min_vruntime tg=task.sched_task_group ptg=task.sched_task_group.parent \
     cg=task.sched_task_group.css.cgroup?.kn.id ag=task.sched_task_group.autogroup?.id rts=task.rt.time_slice dlrt=task.dl.runtime \
     dldl=task.dl.deadline dlthr=task.dl.dl_throttled lu=task.se.avg.last_update_time ls=task.se.avg.load_sum la=task.se.avg.load_avg \
     ra=task.se.avg.runnable_avg ua=task.se.avg.util_avg";

const SNAPSHOT_EEVDF: &str = "pid=task.pid pol=task.policy sp=task.static_prio nprio=task.normal_prio onrq=task.on_rq \
     vr=task.se.vruntime w=task.se.load.weight hw=task.se.h_load.weight xs=task.se.exec_start sum=task.se.sum_exec_runtime psum=task.se.prev_sum_exec_runtime \
     dl=task.se.deadline vlag=task.se.vlag sl=task.se.slice cs=task.se.custom_slice rel=task.se.rel_deadline del=task.se.sched_delayed vp=task.se.vprot \
     c=task.se.cfs_rq.rq.clock ct=task.se.cfs_rq.rq.clock_task cfs=task.se.cfs_rq zv=task.se.cfs_rq.zero_vruntime|task.se.cfs_rq.min_vruntime \
     av=task.se.cfs_rq.sum_w_vruntime|task.se.cfs_rq.avg_vruntime al=task.se.cfs_rq.sum_weight|task.se.cfs_rq.avg_load \
     ss=task.se.cfs_rq.sum_shift tg=task.sched_task_group ptg=task.sched_task_group.parent cg=task.sched_task_group.css.cgroup?.kn.id \
     ag=task.sched_task_group.autogroup?.id rts=task.rt.time_slice dlrt=task.dl.runtime dldl=task.dl.deadline dlthr=task.dl.dl_throttled \
     lu=task.se.avg.last_update_time ls=task.se.avg.load_sum la=task.se.avg.load_avg ra=task.se.avg.runnable_avg ua=task.se.avg.util_avg";
