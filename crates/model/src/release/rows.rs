//! The table of changes between kernels: a row a change, under the name of the rule that it brought.
//!
//! A rule's code asks for its row (`if rules.relative_vruntime`), never for a release. A new kernel's changes are new rows.

use super::table::{Row, RowKind};
use crate::Release;

macro_rules! rows {
    ($($(#[doc = $does:literal])+ $name:ident: $kind:ident, since $since:tt
        $(, until $until:tt)? $(, backports [$($backport:tt),+])? $(, requires [$($required:ident),+])?
        $(, excludes [$($excluded:ident),+])?
        $(, commit $hash:literal $subject:literal)? $(, no_commit $why:literal)? ;)*) => {
        /// The rules of one kernel: a field a row of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct RuleSet {
            $($(#[doc = $does])+ pub $name: bool,)*
        }

        impl RuleSet {
            /// The table.
            pub const ROWS: &'static [Row] = &[$(Row {
                name: stringify!($name),
                does: concat!($($does),+),
                kind: RowKind::$kind,
                since: release!($since),
                until: rows!(@option $(release!($until))?),
                backports: &[$($(release!($backport)),+)?],
                commit: rows!(@option $(super::table::Commit { hash: $hash, subject: $subject })?),
                no_commit: concat!($($why)?),
                requires: &[$($(stringify!($required)),+)?],
                excludes: &[$($(stringify!($excluded)),+)?],
            },)*];

            /// The rules of `release`; of one of no known series those of the newest known point of the series that stands in.
            pub fn of(release: Release) -> Self {
                let release = if release.known_series().is_none() { release.series().newest_known() } else { release };
                let mut rows = Self::ROWS.iter();
                Self { $($name: rows.next().is_some_and(|row| row.is_in(release)),)* }
            }

            /// Whether the rule called `name` is in force; none where there is no such rule.
            pub fn get(&self, name: &str) -> Option<bool> {
                match name { $(stringify!($name) => Some(self.$name),)* _ => None }
            }

            /// Sets the rule called `name`; false where there is none.
            pub fn set(&mut self, name: &str, value: bool) -> bool {
                match name { $(stringify!($name) => self.$name = value,)* _ => return false }
                true
            }
        }
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
}

macro_rules! release {
    (($major:literal, $minor:literal)) => {
        Release::new($major, $minor, 0)
    };
    (($major:literal, $minor:literal, $patch:literal)) => {
        Release::new($major, $minor, $patch)
    };
}

rows! {
    // --- structures ---

    /// The fair class is EEVDF: it picks the eligible entity with the earliest virtual deadline, and keeps lag over sleep.
    eevdf: Structure, since (6, 6),
        commit "147f3efaa241" "sched/fair: Implement an EEVDF-like scheduling policy";
    /// Bandwidth throttles task by task, as each returns to user space (`throttle_cfs_rq_work`).
    throttles_tasks: Structure, since (6, 18), requires [eevdf],
        commit "e1fad12dcb66" "sched/fair: Switch to task based throttle model";
    /// The tasks of all groups are in one timeline of their CPU, each with its part of the CPU through all levels for a weight
    /// (`h_load`); the levels keep load, averages and bandwidth alone.
    single_timeline: Structure, since (7, 3), requires [eevdf, throttles_tasks],
        commit "85570f10a4c6" "sched/eevdf: Move to a single runqueue";

    // --- the form of recordings, and of the memory that costs time ---

    /// Wake-up flags say why a CPU is selected, and `WF_FORK` is 0x4; before, the flags of scheduling domains do.
    wake_flags_select: Fact, since (5, 11),
        commit "3aef1551e942" "sched: Remove select_task_rq()'s sd_flag parameter";
    /// `ENQUEUE_DELAYED` and `DEQUEUE_DELAYED` are 0x20; before, 0x200.
    delayed_flag_0x20: Fact, since (6, 19),
        commit "376f8963bbda" "sched: Re-arrange the {EN,DE}QUEUE flags";
    /// `TIF_NEED_RESCHED` is bit 4 of x86's thread flags; before, bit 3.
    need_resched_bit_4: Fact, since (6, 18),
        commit "da3f033a9fbf" "x86: Use generic TIF bits";
    /// A recording shows `set_next_task_fair` as a step of its own.
    set_next_task_is_a_step: Fact, since (7, 0),
        no_commit "not found: what the probes of recordings show";
    /// A pipe keeps two pages of what was read for what is written next (`tmp_page`); before, one.
    pipe_keeps_two_pages: Fact, since (6, 15),
        commit "46af8e2406c2" "pipe: cache 2 pages instead of 1";
    /// CPUs and nodes keep blocks of memory in sheaves (`mm/slub.c`), so that no slab of messages is given back.
    slabs_kept: Fact, since (7, 0),
        commit "e47c897a2949" "slab: add sheaves to most caches";
    /// A synchronous write accesses the inode's table block after the inode.
    table_after_inode: Fact, since (6, 5),
        no_commit "not found: read in fs/ext4/fsync.c (ext4_fsync_nojournal)";
    /// A write past the page cache to blocks that were never written holds the inode's lock as a reader, as an overwrite does.
    shares_first_writes: Fact, since (6, 3),
        no_commit "not found: seen in stacks recorded on 6.1 and 6.12 (ext4_dio_write_checks)";

    /// A task's stack is left to RCU as the task's other memory is freed (`thread_stack_free_rcu`).
    stack_left_to_rcu: Fact, since (5, 18),
        no_commit "not found: seen in recordings of call_rcu, on 6.12 and not on 5.10";
    /// Files that are closed leave no memory to RCU (`SLAB_TYPESAFE_BY_RCU`).
    files_typesafe: Fact, since (6, 7),
        commit "0ede61d8589c" "file: convert to SLAB_TYPESAFE_BY_RCU";
    /// A process's mappings are in a tree whose nodes are left to RCU (`mt_free_rcu`), as where a thread's stack is mapped.
    mappings_left_to_rcu: Fact, since (6, 1),
        commit "524e00b36e8c" "mm: remove rb tree.";

    // --- what is modelled ---

    /// Task groups are modelled.
    models_groups: Fact, since (5, 10),
        no_commit "none: how far the model goes, no change of the kernel";
    /// Scheduling domains and balancing are modelled.
    models_balancing: Fact, since (5, 10),
        no_commit "none: how far the model goes, no change of the kernel";
    /// There is a deadline class (SCHED_DEADLINE).
    deadline_class: Fact, since (3, 14),
        commit "aab03e05e8f7" "sched/deadline: Add SCHED_DEADLINE structures & implementation";
    /// A quota may have a burst (`cpu.max.burst`).
    cfs_burst: Fact, since (5, 14),
        commit "f4183717b370" "sched/fair: Introduce the burstable CFS controller";
    /// A group may be idle (`cpu.idle`).
    idle_groups: Fact, since (5, 15),
        commit "304000390f88" "sched: Cgroup SCHED_IDLE support";
    /// The domain of a package is called PKG, DIE before.
    pkg_domain: Fact, since (6, 7),
        commit "f577cd57bfaa" "sched/topology: Rename 'DIE' domain to 'PKG'";
    /// The kernel preempts itself, so that newidle balancing stops after the first task it pulled.
    preemptible: Fact, since (6, 1),
        no_commit "none: the configuration of Debian's kernels (CONFIG_PREEMPTION)";
    /// The fair class asks for rescheduling lazily (PREEMPT_LAZY, the one model but full preemption).
    lazy: Fact, since (7, 0),
        commit "7dadeaa6e851" "sched: Further restrict the preemption modes";

    // --- time, weights ---

    /// The fair class charges by `rq->clock_task`, which stops during interrupts, not by `rq->clock`.
    task_clock: Flag, since (2, 6, 37),
        commit "305e6835e055" "sched: Do not account irq time to current task";
    /// Weights carry ten bits beyond the nice table's (`SCHED_LOAD_SHIFT`).
    wide_weights: Fact, since (4, 7),
        commit "2159197d6677" "sched/core: Enable increased load resolution on 64-bit kernels";
    /// SCHED_IDLE weighs 3 (`WEIGHT_IDLEPRIO`), 2 before.
    idle_weighs_3: Flag, since (2, 6, 29),
        commit "cce7ade80369" "sched: SCHED_IDLE weight change";
    /// Time is scaled by `__calc_delta`, which cuts off; before, by `calc_delta_mine`, which rounds.
    calc_delta_cuts_off: Flag, since (3, 13),
        commit "9dbdb1553232" "sched/fair: Rework sched_fair time accounting";
    /// V is computed with all bits of the weights, not with those of the nice table, and real time becomes virtual time by dividing
    /// by them, not by multiplying with an inverse.
    full_weights: Flag, since (7, 1), requires [eevdf],
        commit "4823725d9d1d" "sched/fair: Increase weight bits for avg_vruntime";

    // --- charging and virtual time (CFS) ---

    /// Charging no time changes nothing; before, `min_vruntime` was updated.
    charges_time_only: Flag, since (2, 6, 29),
        commit "34f28ecd0f4b" "sched: optimize update_curr()";
    /// A running entity that is no longer queued does not hold `min_vruntime` back.
    min_vruntime_of_queued: Flag, since (5, 10), until (6, 6), excludes [eevdf],
        no_commit "not found: sched/fair: Fix min_vruntime tracking, before 5.10";
    /// Off its queue an entity's `vruntime` is relative to `min_vruntime`; before, `set_task_cpu` converted it.
    relative_vruntime: Flag, since (2, 6, 33), until (6, 6), excludes [eevdf],
        commit "88ec22d3edb7" "sched: Remove the cfs_rq dependency from set_task_cpu()";
    /// A new task is placed as it is forked (`task_fork_fair`); before, as it is first woken (`task_new_fair`).
    places_on_fork: Flag, since (2, 6, 33), until (6, 6), excludes [eevdf],
        commit "cd29fe6f2637" "sched: Sanitize fork() handling";
    /// With many tasks the period is a granularity for each; before, the latency stretched in proportion.
    period_of_granularities: Flag, since (2, 6, 25), until (6, 6), excludes [eevdf],
        commit "4bf0b77158d5" "sched: remove do_div() from __sched_slice()";
    /// A slice is the entity's part of its queue's period on each level of the hierarchy.
    slice_of_hierarchy: Flag, since (2, 6, 26), until (6, 6), excludes [eevdf],
        commit "ac884dec6d4a" "sched: fair-group scheduling vs latency";
    /// Periods follow the tasks of the whole CPU, and no slice is shorter than the granularity (ALT_PERIOD, BASE_SLICE).
    alt_period: Flag, since (5, 13), until (6, 6), backports [(5, 10, 37)], excludes [eevdf],
        commit "0c2de3f054a5" "sched,fair: Alternative sched_slice()";
    /// `sched_nr_latency` stays what it was on boot: latency and granularity are plain numbers in debugfs.
    nr_latency_of_boot: Flag, since (5, 13), until (6, 6), excludes [eevdf],
        commit "8a99b6833c88" "sched: Move SCHED_DEBUG sysctl to debugfs";
    /// SCHED_IDLE entities have a separate granularity, and less credit for sleep.
    idle_min_granularity: Flag, since (5, 16), until (6, 6), excludes [eevdf],
        commit "51ce83ed523b" "sched: reduce sched slice for SCHED_IDLE entities";
    /// A new entity is not placed before the `vruntime` it copied from its parent.
    initial_placement_goes_on: Flag, since (2, 6, 32), until (6, 6), excludes [eevdf],
        commit "b5d9d734a53e" "sched: Ensure that a child can't gain time over it's parent after fork()";
    /// An entity that slept so long that its `vruntime` may have wrapped is placed anew.
    places_long_sleepers_anew: Flag, since (6, 3), until (6, 6), backports [(5, 10, 177), (6, 1, 22)], excludes [eevdf],
        commit "829c1651e9c4" "sched/fair: sanitize vruntime of entity being placed";
    /// A tick compares the running entity with the leftmost once it ran its granularity.
    tick_compares_leftmost: Flag, since (2, 6, 32), until (6, 6), excludes [eevdf],
        commit "f685ceacab07" "sched: Strengthen buddies and mitigate buddy induced latencies";
    /// A tick checks slices only where another entity waits; before, also without wakeup preemption.
    tick_checks_contended_only: Flag, since (5, 10),
        no_commit "not found: between 2.6.24 and 5.10, in entity_tick";
    /// Wakeup preemption scales the granularity by the waking entity's weight (`wakeup_preempt_entity`), and nominates buddies.
    wakeup_preempt_entity: Flag, since (2, 6, 30), until (6, 6), excludes [eevdf],
        commit "e52fb7c09723" "sched: prefer wakers";
    /// A yielding task is skipped once (the skip buddy).
    yield_by_skip_buddy: Flag, since (2, 6, 39), until (6, 6), excludes [eevdf],
        commit "ac53db596cc0" "sched: Use a buddy to implement yield_task_fair()";
    /// A task that is picked again keeps the CPU as it is, its slice included.
    repick_keeps_slice: Flag, since (3, 15),
        commit "678d5718d8d0" "sched/fair: Optimize cgroup pick_next_task_fair()";
    /// Buddies are cleared as an entity is set to run, not as it is picked.
    buddies_cleared_when_set: Flag, since (5, 14),
        commit "21f56ffe4482" "sched: Introduce sched_class::pick_task()";

    // --- EEVDF ---

    /// Protection lasts for a time (`vprot`): the queue's shortest slice; before, until the deadline of the pick changes.
    protects_for_time: Flag, since (6, 17), requires [eevdf],
        commit "052c3d87c82e" "sched/fair: Limit run to parity to the min slice of enqueued entities";
    /// A waking task with a shorter slice lifts the running one's protection only if it is picked then; before, an eligible one lifted it if it
    /// had the earlier deadline or the running one was not eligible, whichever was picked.
    shorter_slice_must_be_picked: Flag, since (6, 17), requires [eevdf],
        commit "9de74a9850b9" "sched/fair: Remove spurious shorter slice preemption";
    /// Protection begins with a pick (`set_next_entity` with `first`), not with any `set_next_task`.
    protects_picks: Flag, since (7, 0), backports [(6, 18, 17)], requires [eevdf],
        commit "bcd74b2ffdd0" "sched/fair: Only set slice protection at pick time";
    /// `pick_eevdf` takes the next buddy; before, `pick_next_entity` alone.
    buddy_in_pick_eevdf: Flag, since (6, 19), backports [(6, 18, 33)], requires [eevdf],
        commit "e837456fdca8" "sched/fair: Reimplement NEXT_BUDDY to align with EEVDF goals";
    /// No buddy is taken where a shorter slice is searched for.
    buddy_only_if_protecting: Flag, since (7, 1), requires [eevdf],
        commit "78cde54ea5f0" "sched/eevdf: Clear buddies for preempt_short";
    /// V's origin moves to V whenever V is read; before, only as an entity joins the timeline or leaves it, so that virtual time stops
    /// while a task is alone. 6.12 had another origin until 6.12.78, which moved as well.
    origin_follows_v: Flag, since (7, 0), backports [(6, 12, 0), (6, 18, 17)], requires [eevdf],
        commit "b3d99f43c72b" "sched/fair: Fix zero_vruntime tracking";
    /// Lag is limited to the longest slice of the queue and a tick (`cfs_rq_max_slice`); before, to two slices of the entity.
    lag_limited_by_longest_slice: Flag, since (7, 0), backports [(6, 18, 17)], requires [eevdf],
        commit "6e3c0a4e1ad1" "sched/fair: Fix lag clamp";
    /// In the tree of a timeline a node that takes another one's place, by a rotation or as that leaves, takes over its shortest and longest
    /// slice; before, it kept the ones that it was computed with last, so that the tree's root may say another shortest slice than there is.
    places_move_slices: Flag, since (7, 3), backports [(6, 18, 53), (7, 2, 7)], requires [eevdf],
        commit "51b0e68cfa0a" "sched/eevdf: Fix rb augmented with multi fields";
    /// The longest slice of an arriving node of that tree is its own; before, the one that it left with, until another node comes below it.
    arrival_sets_longest_slice: Flag, since (7, 3), backports [(6, 18, 53), (7, 2, 7)], requires [eevdf],
        commit "9a8bc9bb4c3f" "sched/eevdf: Fix augmented max_slice";
    /// Lag does not get worse, nor (DELAY_ZERO) positive, in delayed dequeue (`update_entity_lag`).
    bounds_lag_while_delayed: Flag, since (7, 1), requires [eevdf],
        commit "059258b0d424" "sched/fair: Prevent negative lag increase during delayed dequeue";
    /// Wakeup preemption of 6.19: forked and delayed tasks preempt by a shorter slice alone, the buddy is the one with the earlier
    /// deadline, and a delayed entity that would be picked is dequeued.
    wakeup_preempts_by_deadline: Flag, since (6, 19), backports [(6, 18, 33)], requires [eevdf],
        commit "e837456fdca8" "sched/fair: Reimplement NEXT_BUDDY to align with EEVDF goals";
    /// A waking task that preempts as shorter or as not idle clears the buddies of the queue.
    preemption_clears_buddies: Flag, since (7, 1), requires [eevdf],
        commit "78cde54ea5f0" "sched/eevdf: Clear buddies for preempt_short";
    /// With a shorter slice on the queue, protection ends where the entity would no longer be eligible, under PREEMPT_SHORT.
    protects_while_eligible: Flag, since (7, 3), requires [eevdf],
        commit "0d1e7a2bab35" "sched/eevdf: Speedup short slice task scheduling";
    /// A wake-up that does not preempt always limits protection; before, only one that asked for a pick.
    wakeups_limit_protection: Flag, since (7, 3), requires [eevdf],
        commit "7cd2ef17de5e" "sched/eevdf: Always update slice protection";
    /// A wake-up limits protection from V on, where that lies before the entity's virtual time.
    limits_protection_from_v: Flag, since (7, 3), requires [eevdf],
        commit "49f87b4d0be8" "sched/eevdf: Take into account current's lag when updating slice protection";
    /// An eligible task with a shorter slice preempts as it wakes, though another one is picked then.
    eligible_short_slice_preempts: Flag, since (7, 3), requires [eevdf],
        commit "ba0d3bf5f97b" "sched/eevdf: Cancel slice protection if short slice task is eligible";
    /// Under PREEMPT_SHORT a wake-up is considered although the CPU is marked for rescheduling.
    wakes_though_marked: Flag, since (7, 3), requires [eevdf],
        commit "7ad0ec7890b3" "sched/eevdf: Update slice protection even when resched is already set";
    /// A task that preempts by a shorter slice is the next buddy, unless that has a shorter one still.
    short_slice_is_buddy: Flag, since (7, 3), requires [eevdf],
        commit "8f97b627ff1c" "sched/fair: Set next buddy for preempt short";
    /// The lag of an arriving entity is inflated by a part of it, so that no product of it and the queue's weight overflows.
    inflates_lag_by_part: Flag, since (7, 3), requires [eevdf],
        no_commit "not found: read in 7.3.4's kernel/sched/fair.c (place_entity)";
    /// A yield forfeits the rest of the request; before, it put the deadline a slice off.
    yield_forfeits: Flag, since (6, 19), backports [(6, 12, 63), (6, 18, 2)], requires [eevdf],
        commit "79104becf42b" "sched/fair: Forfeit vruntime on yield";
    /// A reweighted entity is placed anew with its lag; before, it moved about V (`reweight_eevdf`).
    reweights_by_placing: Flag, since (6, 13), requires [eevdf],
        commit "6d71a9c61604" "sched/fair: Fix EEVDF entity placement bug causing scheduling lag";
    /// Weights change about V and nothing else moves (`rescale_entity`).
    rescales: Flag, since (7, 1), requires [eevdf],
        commit "101f3498b4bd" "sched/fair: Revert 6d71a9c61604 (\"sched/fair: Fix EEVDF entity placement bug causing scheduling lag\")";
    /// Protection until a time has a field of its own (`vprot`); before, it shared one with the lag, which a reweighted entity's overwrote.
    protection_apart_from_lag: Flag, since (7, 0), requires [eevdf],
        commit "80390ead2080" "sched/fair: Separate se->vlag from se->vprot";
    /// The protection of a running entity moves with its virtual time as it is reweighted; before, it ended where it did.
    reweighting_moves_protection: Flag, since (7, 0), backports [(6, 18, 17)], requires [eevdf],
        commit "ff38424030f9" "sched/eevdf: Update se->vprot in reweight_entity()";
    /// A relative deadline is scaled as its entity's weight changes off the queue.
    rescales_relative_deadline: Flag, since (6, 13), requires [eevdf],
        commit "6d71a9c61604" "sched/fair: Fix EEVDF entity placement bug causing scheduling lag";
    /// A new task has no relative deadline; before, it took over that of a parent which left its fair queue for another class.
    fork_clears_relative_deadline: Flag, since (7, 1), backports [(6, 12, 91), (6, 18, 33)], requires [eevdf],
        commit "3da56dc063cd" "sched/fair: Clear rel_deadline when initializing forked entities";
    /// A relative deadline is made absolute without PLACE_REL_DEADLINE too.
    places_any_relative_deadline: Flag, since (6, 13), until (7, 1), requires [eevdf],
        commit "6d71a9c61604" "sched/fair: Fix EEVDF entity placement bug causing scheduling lag";

    // --- classes, changes of attributes ---

    /// Real-time tasks are throttled by `rt_runtime`; later the fair server takes its place.
    rt_throttling: Flag, since (2, 6, 25), until (6, 12),
        commit "fa85ae2418e6" "sched: rt time limit";
    /// The next task is picked before the previous one is charged and put.
    picks_before_put: Flag, since (6, 12),
        commit "fd03c5b85855" "sched: Rework pick_next_task()";
    /// Where all tasks are fair the pick looks at no other class, nor at the fair server.
    fair_pick_shortcut: Flag, since (6, 12),
        no_commit "none: what the short cut of __pick_next_task leaves out since there are fair servers";
    /// A change of affinity requeues the task.
    affinity_requeues: Flag, since (5, 10),
        no_commit "not found: between 2.6.24 and 5.10, in do_set_cpus_allowed";
    /// A change that leaves the priority as it is leaves the task's place, too.
    unchanged_priority_keeps_place: Flag, since (4, 1),
        commit "0782e63bc6fe" "sched: Handle priority boosted tasks proper in setscheduler()";
    /// A running task whose nice level changes is put and set anew.
    renicing_sets_anew: Flag, since (5, 10),
        no_commit "not found: between 2.6.24 and 5.10, in set_user_nice";
    /// A task whose priority falls goes before its new equals.
    lowered_goes_first: Flag, since (3, 15),
        commit "81a44c5441d7" "sched: Queue RT tasks to head when prio drops";
    /// The classes are notified of changes (`switched_to`, `prio_changed`).
    prio_changed_methods: Flag, since (2, 6, 25),
        commit "cb4698450404" "sched: RT-balance, add new methods to sched_class";
    /// A fair task that asks for no slice is requeued by `sched_setattr`.
    requeues_without_slice: Flag, since (6, 12),
        commit "857b158dc5e8" "sched/eevdf: Use sched_attr::sched_runtime to set request/slice suggestion";
    /// The class that a task rose from is notified as of a wake-up.
    change_tells_lower_class: Flag, since (7, 0),
        commit "704069649b5b" "sched/core: Rework sched_class::wakeup_preempt() and rq_modified_*()";

    // --- the fair server, high-resolution ticks ---

    /// The fair server is charged for idle time as for other time, and stops where the CPU idled for all of its runtime.
    server_charged_for_idle: Flag, since (6, 19),
        commit "e636ffb9e31b" "sched/deadline: Fix dl_server time accounting";
    /// A deferring fair server's runtime is cut, too, as it starts late.
    server_cuts_deferred_runtime: Flag, since (7, 0), until (7, 2), backports [(6, 18, 24)],
        commit "14a857056466" "sched/deadline: Use revised wakeup rule for dl_server";
    /// A fair server whose next period has begun begins a new one; before, it went on at once.
    server_begins_new_period: Flag, since (6, 17),
        commit "421fc59cf58c" "sched/deadline: Fix RT task potential starvation when expiry time passed";
    /// HRTICK_DL is a feature apart from HRTICK.
    hrtick_dl_apart: Flag, since (5, 13),
        commit "e0ee463c93c4" "sched/features: Distinguish between NORMAL and DEADLINE hrtick";
    /// The high-resolution tick is set at the end of `schedule`, for the rest of the request.
    hrtick_set_late: Flag, since (7, 1),
        commit "96d1610e0b20" "sched: Optimize hrtimer handling";

    // --- groups ---

    /// A group weighs as many times its shares as it has tasks that run at once, at most as often as there are CPUs (`cgroup_mode`
    /// concur); before, its shares are what all CPUs together get.
    shares_by_concurrency: Flag, since (7, 3), requires [eevdf],
        commit "fb1050ac8e40" "sched/fair: Change the default cgroup_mode to concur";

    // --- bandwidth ---

    /// A queue is throttled as it is charged; before, as it is put or picked.
    throttles_when_charged: Flag, since (7, 2), requires [throttles_tasks],
        commit "f666241e6bd5" "sched/fair: Unify cfs_rq throttling via account_cfs_rq_runtime()";
    /// Load that changes below a throttled queue still reaches that queue's own.
    propagates_to_throttled: Flag, since (6, 0),
        commit "51bf903b64bd" "sched/fair: Optimize and simplify rq leaf_cfs_rq_list";

    // --- load tracking ---

    /// Sums follow what is added and taken away, as 32 bits; before, they were computed anew from the average.
    pelt_sums_followed: Flag, since (5, 17),
        commit "98b0d890220d" "sched/pelt: Relax the sync of util_sum with util_avg";
    /// Sums are followed in their own 64 bits, for what is added, too (`__update_sa`).
    pelt_sums_in_64_bits: Flag, since (7, 0),
        commit "089d84203ad4" "sched/fair: Fold the sched_avg update";
    /// An entity's load sum joins its queue's and leaves it without its weight: the fault of that fold, which no release had, for
    /// 6ab7973f2540 mended it.
    load_sums_lose_weight: Flag, since (7, 0), until (7, 0), requires [eevdf],
        commit "089d84203ad4" "sched/fair: Fold the sched_avg update";
    /// A new task of another class is treated as one that just left the fair class, without utilisation from its queue.
    new_tasks_of_other_classes_age: Flag, since (6, 1),
        commit "e4fe074d6c35" "sched/fair: Don't init util/runnable_avg for !fair task";
    /// The part of a queue's load in a new task's utilisation is by the nice table's weight.
    init_util_by_nice_weight: Flag, since (6, 10),
        commit "72bffbf57c52" "sched/fair: Fix initial util_avg calculation";
    /// A task that leaves an idle CPU ages by the time its clock was stopped (`migrate_se_pelt_lag`).
    migration_adds_pelt_lag: Flag, since (6, 0),
        commit "e2f3e35f1f5a" "sched/fair: Decay task PELT values during wakeup migration";
    /// A group's load average is updated at most once a millisecond.
    tg_load_avg_limited: Flag, since (6, 7),
        commit "1528c661c24b" "sched/fair: Ratelimit update to tg->load_avg";
    /// Estimated utilisation is one moving average (`ewma`).
    util_est_ewma_only: Flag, since (6, 8),
        commit "11137d384996" "sched/fair: Simplify util_est";
    /// Estimated utilisation follows a task that used more than a CPU's capacity.
    util_est_beyond_capacity: Flag, since (6, 16),
        commit "f2d650618bc7" "sched/fair: Allow decaying util_est when util_avg > CPU capa";
    /// Estimated utilisation is updated before the averages of a task that goes to sleep.
    util_est_before_dequeue: Flag, since (6, 12), until (7, 2),
        commit "b55945c500c5" "sched: Fix pick_next_task_fair() vs try_to_wake_up() race";
    /// A delayed task is taken off the queue's estimated utilisation once more as a call has it leave.
    util_est_dequeued_twice: Flag, since (6, 12), until (6, 16),
        commit "152e11f6df29" "sched/fair: Implement delayed dequeue";

    // --- CPU selection ---

    /// The recently used CPU of a task is its previous one; before, its waker's.
    recent_cpu_is_previous: Flag, since (5, 15),
        commit "89aafd67f28c" "sched/fair: Use prev instead of new target as recent_used_cpu";
    /// One scan of the cache finds idle cores and idle CPUs; before, one each.
    scans_idle_cpus_once: Flag, since (5, 12),
        commit "9fe1f127b913" "sched/fair: Merge select_idle_core/cpu()";
    /// The search of a core's siblings leaves out the CPU itself.
    select_idle_smt_skips_target: Flag, since (6, 1),
        commit "b9bae70440d2" "sched/fair: Avoid double search on same cpu";
    /// The idlest group counts CPUs on which the task may not run.
    idlest_counts_forbidden_cpus: Flag, since (6, 12), until (6, 19),
        no_commit "ended by 82d6e01a0699 (sched/fair: Only update stats for allowed CPUs when looking for dst group, 6.19), which 6.1.192 has as a backport";
    /// A SCHED_IDLE task prefers an idle CPU to one of SCHED_IDLE tasks (`choose_idle_cpu`).
    idle_tasks_avoid_their_like: Flag, since (7, 1),
        commit "fd54d81c2c0e" "sched/fair: Skip SCHED_IDLE rq for SCHED_IDLE task";
    /// Utilisation is at least what is runnable (`cpu_util_cfs_boost`).
    util_boosted_by_runnable: Flag, since (6, 5),
        commit "7d0583cf9ec7" "sched/fair, cpufreq: Introduce 'runnable boosting'";

    // --- balancing ---

    /// An imbalance between nodes is let be up to a number of tasks of the domain; before, of two.
    numa_imbalance_by_domain: Flag, since (5, 18),
        commit "e496132ebedd" "sched/fair: Adjust the allowed NUMA imbalance when SD_NUMA spans multiple LLCs";
    /// An imbalance of idle CPUs is halved after what nodes are let be is taken off.
    imbalance_halved_last: Flag, since (6, 0),
        commit "cb29a5c19d2d" "sched/numa: Apply imbalance limitations consistently";
    /// A CPU of reduced capacity with one fair task counts as misfit.
    reduced_capacity_is_misfit: Flag, since (6, 0),
        commit "c82a69629c53" "sched/fair: fix case with reduced capacity CPU";
    /// Balancing takes nothing from a queue of one task.
    leaves_single_tasks: Flag, since (5, 13),
        commit "acb4decc1e90" "sched/fair: Reduce long-tail newly idle balance cost";
    /// An attempt counts as pinned until a task shows otherwise.
    pinned_until_shown: Flag, since (5, 12),
        commit "8a41dfcda7a3" "sched/fair: Don't set LBF_ALL_PINNED unnecessarily";
    /// Active balancing leaves the count of failures.
    active_balance_keeps_failures: Flag, since (5, 13),
        commit "23fb06d9602b" "sched/fair: Clean up active balance nr_balance_failed trickery";
    /// Failures lead to active balancing only where a task is to be moved.
    active_balance_by_type: Flag, since (5, 12),
        commit "e9b9734b7465" "sched/fair: Reduce cases for active balance";
    /// Newidle balancing ends where a task arrived meanwhile.
    newidle_ends_for_new_tasks: Flag, since (6, 0),
        commit "792b9f65a568" "sched: Allow newidle balancing to bail out of load_balance";
    /// Newidle balancing compares the expected idle time with what balancing costs, not with the cost of a migration.
    newidle_by_balance_cost: Flag, since (5, 16),
        commit "c5b0a7eefc70" "sched/fair: Remove sysctl_sched_migration_cost condition";
    /// A CPU that goes idle brings the idle CPUs' load up to date from its idle task (`nohz_run_idle_balance`), and counts as one of them; before,
    /// it did so ahead of the switch, and not where the task that leaves was marked for rescheduling.
    nohz_run_idle_balance: Flag, since (5, 13), backports [(5, 10, 231)],
        commit "c6f886546cb8" "sched/fair: Trigger the update of blocked load on newly idle cpu";
    /// A CPU that goes idle has the idle CPUs' next balancing brought forward.
    nohz_updates_next_balance: Flag, since (5, 16),
        commit "7fd7a9e0caba" "sched/fair: Trigger nohz.next_balance updates when a CPU goes NOHZ-idle";
    /// The more tasks of the busiest group count for each of its cores.
    sibling_imbalance_by_cores: Flag, since (6, 6),
        commit "7ff1693236f5" "sched/fair: Implement prefer sibling imbalance calculation between asymmetric groups";
    /// Whether siblings are preferred is asked of the busiest group; before, of the domain below.
    prefer_sibling_of_busiest: Flag, since (6, 5),
        commit "43726bdedd29" "sched/fair: Use the busiest group to set prefer_sibling";
    /// Cores with several busy siblings are relieved first (`smt_balance`).
    smt_balance: Flag, since (6, 6),
        commit "fee1759e4f04" "sched/fair: Determine active load balance for SMT sched groups";
    /// Of two misfit groups the first is the busiest unless the other has more load.
    busiest_misfit_has_more: Flag, since (6, 9),
        commit "7f1a7229718d" "sched/fair: Do strict inequality check for busiest misfit task group";
    /// Of fully busy groups the last that is no core's is the busiest.
    fully_busy_prefers_no_smt: Flag, since (6, 5),
        commit "5fd6d7f43958" "sched/fair: Keep a fully_busy SMT sched group as busiest";
    /// Of a group's idle CPUs one of an idle core balances.
    idle_core_balances_first: Flag, since (6, 6),
        commit "b1bfeab9b002" "sched/fair: Consider the idle state of the whole core for load balance";
    /// Fair tasks are counted without those in delayed dequeue (`h_nr_runnable`).
    balance_counts_runnable: Flag, since (6, 14), requires [eevdf],
        commit "1a49104496d3" "sched/fair: Use the new cfs_rq.h_nr_runnable";
    /// A delayed task is not moved unless load is.
    balance_leaves_delayed: Flag, since (6, 14), requires [eevdf],
        commit "61b82dfb6b7e" "sched/fair: Do not try to migrate delayed dequeue task";
    /// A task that is not eligible is not moved to a CPU where it would have to wait, unless balancing has failed.
    balance_leaves_ineligible: Flag, since (6, 14), requires [eevdf],
        commit "873199d27bb2" "sched/core: Prioritize migrating eligible tasks in sched_balance_rq()";
    /// A CPU whose current task is about to sleep is not asked to push it (active balancing).
    active_balance_of_queued: Flag, since (7, 3),
        commit "cdd9e37ed46a" "sched/fair: Don't trigger active lb if src_rq->curr is not on_rq";
    /// An imbalance always resets the interval of balancing; before, not where active balancing was begun and is needed no more.
    imbalance_resets_interval: Flag, since (7, 3),
        commit "f2267ad5777f" "sched/fair: Simplify balance_interval reset logic in sched_balance_rq()";
    /// Of idle CPUs one whose whole core idles balances for the others (`find_new_ilb`).
    idle_core_balances_for_others: Flag, since (7, 3),
        no_commit "not found: read in 7.3.4's kernel/sched/fair.c (find_new_ilb)";
    /// The expected idle time is updated as idling ends, not as a task wakes.
    avg_idle_at_end_of_idle: Flag, since (7, 0),
        commit "4b603f1551a7" "sched: Update rq->avg_idle when a task is moved to an idle CPU";
}

#[cfg(test)]
mod tests;
