//! Scheduler feature flags, under the names of `kernel/sched/features.h`.

use crate::Series;

macro_rules! features {
    ($($(#[doc = $doc:literal])* $field:ident $name:literal),* $(,)?) => {
        /// The `sched_features` of one kernel, each under the kernel's name in lower case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Features {
            $($(#[doc = $doc])* pub $field: bool,)*
        }

        impl Features {
            /// Every feature name, as the kernel spells it.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// What the feature called `name` does, in one sentence.
            pub fn meaning(name: &str) -> Option<&'static str> {
                match name { $($name => Some(concat!($($doc),*).trim()),)* _ => None }
            }

            /// The value of the feature called `name`, if there is one.
            pub fn get(&self, name: &str) -> Option<bool> {
                match name { $($name => Some(self.$field),)* _ => None }
            }

            /// Sets the feature called `name`; false if there is none.
            pub fn set(&mut self, name: &str, value: bool) -> bool {
                match name { $($name => self.$field = value,)* _ => return false }
                true
            }
        }
    };
}

features! {
    /// Sleepers are credited half a latency only.
    gentle_fair_sleepers "GENTLE_FAIR_SLEEPERS",
    /// Sleepers are credited at all: a feature of 2.6.24, always so in later CFS.
    new_fair_sleepers "NEW_FAIR_SLEEPERS",
    /// A forked task starts one virtual slice late.
    start_debit "START_DEBIT",
    /// A woken task that failed to preempt is preferred at the next pick.
    next_buddy "NEXT_BUDDY",
    /// The preferred task is picked before any other task if it is eligible (EEVDF).
    pick_buddy "PICK_BUDDY",
    /// The task that a wake-up preempted is preferred at the next pick.
    last_buddy "LAST_BUDDY",
    /// Wake-ups may preempt.
    wakeup_preemption "WAKEUP_PREEMPTION",
    /// Placement at the average of the tree's ends (2.6.24).
    tree_avg "TREE_AVG",
    /// Placement half a slice into the period (2.6.24).
    approx_avg "APPROX_AVG",
    /// A task is placed with the lag that it was dequeued with (EEVDF).
    place_lag "PLACE_LAG",
    /// A new task's first deadline is half a slice away (EEVDF).
    place_deadline_initial "PLACE_DEADLINE_INITIAL",
    /// A migrated task keeps the distance of its deadline (EEVDF).
    place_rel_deadline "PLACE_REL_DEADLINE",
    /// The running task keeps its CPU until its slice or lag is used up (EEVDF).
    run_to_parity "RUN_TO_PARITY",
    /// A shorter slice may preempt in spite of RUN_TO_PARITY (EEVDF).
    preempt_short "PREEMPT_SHORT",
    /// A sleeping task with negative lag stays queued until it is picked (EEVDF).
    delay_dequeue "DELAY_DEQUEUE",
    /// A delayed task's positive lag is clipped to zero (EEVDF).
    delay_zero "DELAY_ZERO",
    /// A CPU whose real-time tasks used up their runtime borrows what other CPUs' left (before 6.12).
    rt_runtime_share "RT_RUNTIME_SHARE",
    /// Wake-ups consider the waker's CPU if it, or the last one, idles.
    wa_idle "WA_IDLE",
    /// Wake-ups consider the waker's CPU if that has less load.
    wa_weight "WA_WEIGHT",
    /// Of two equal loads the last CPU's counts more.
    wa_bias "WA_BIAS",
    /// The search for an idle CPU is bounded by its cost and by how long CPUs idle (up to 6.1).
    sis_prop "SIS_PROP",
    /// The search for an idle CPU is bounded by how busy the cache's CPUs are (6.1 on).
    sis_util "SIS_UTIL",
    /// Buddies count as cache-hot.
    cache_hot_buddy "CACHE_HOT_BUDDY",
    /// Balancing leaves tasks of very little load where they are.
    lb_min "LB_MIN",
    /// Newly idle balancing is tried as often as it succeeds.
    ni_random "NI_RANDOM",
    /// A timer ends slices to the nanosecond, instead of a tick (5.10: deadline tasks' runtimes too).
    hrtick "HRTICK",
    /// A timer ends deadline tasks' runtimes to the nanosecond, instead of a tick.
    hrtick_dl "HRTICK_DL",
    /// Ticks check slices although the timer of HRTICK does too (CFS).
    double_tick "DOUBLE_TICK",
    /// A woken task stays with its waker instead of rousing an idle CPU: `sched_vcpu_pack` on the command line of a vendor's 6.18 for
    /// virtual machines, which mainline Linux does not have.
    vcpu_pack "VCPU_PACK",
}

impl Features {
    /// The file in which a kernel of `series` has the flags, which takes `NAME` and `NO_NAME`.
    pub const fn file(series: Series) -> &'static str {
        match series {
            Series::V2_6_24 => "/proc/sys/kernel/sched_features",
            Series::V5_10 => "/sys/kernel/debug/sched_features",
            Series::V6_1 | Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => {
                "/sys/kernel/debug/sched/features"
            }
        }
    }

    /// What a kernel of `series` starts with.
    ///
    /// Source: 2.6.24 `kernel/sched.c`, `sysctl_sched_features`; `kernel/sched/features.h` from then on. The older kernel calls
    /// `WAKEUP_PREEMPTION` `WAKEUP_PREEMPT`; the newer name serves both.
    pub const fn defaults(series: Series) -> Self {
        let none = Self {
            gentle_fair_sleepers: false,
            new_fair_sleepers: false,
            start_debit: false,
            next_buddy: false,
            last_buddy: false,
            pick_buddy: false,
            wakeup_preemption: true,
            tree_avg: false,
            approx_avg: false,
            place_lag: false,
            place_deadline_initial: false,
            place_rel_deadline: false,
            run_to_parity: false,
            preempt_short: false,
            delay_dequeue: false,
            delay_zero: false,
            rt_runtime_share: false,
            wa_idle: true,
            wa_weight: true,
            wa_bias: true,
            sis_prop: matches!(series, Series::V5_10),
            sis_util: !matches!(series, Series::V2_6_24 | Series::V5_10),
            cache_hot_buddy: true,
            lb_min: false,
            ni_random: !matches!(series, Series::V2_6_24 | Series::V5_10),
            hrtick: false,
            hrtick_dl: false,
            double_tick: false,
            vcpu_pack: false,
        };
        match series {
            Series::V2_6_24 => Self { new_fair_sleepers: true, start_debit: true, ..none },
            Series::V5_10 | Series::V6_1 => Self {
                gentle_fair_sleepers: true,
                new_fair_sleepers: true,
                start_debit: true,
                last_buddy: true,
                ..none
            },
            Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => Self {
                pick_buddy: true,
                place_lag: true,
                place_deadline_initial: true,
                place_rel_deadline: true,
                run_to_parity: true,
                preempt_short: true,
                delay_dequeue: true,
                delay_zero: true,
                // CONFIG_HRTIMER_REARM_DEFERRED, which x86 has.
                hrtick: matches!(series, Series::V7_2 | Series::V7_3),
                hrtick_dl: matches!(series, Series::V7_2 | Series::V7_3),
                ..none
            },
        }
    }

    /// Whether a kernel of `series` knows the feature called `name`.
    pub fn exists(series: Series, name: &str) -> bool {
        match name {
            "WAKEUP_PREEMPTION" => true,
            "START_DEBIT" => !series.is_eevdf(),
            "NEW_FAIR_SLEEPERS" | "TREE_AVG" | "APPROX_AVG" => series == Series::V2_6_24,
            "NEXT_BUDDY" | "HRTICK" | "WA_IDLE" | "WA_WEIGHT" | "WA_BIAS" | "CACHE_HOT_BUDDY" | "LB_MIN" => {
                series != Series::V2_6_24
            }
            "VCPU_PACK" => series == Series::V6_18,
            "HRTICK_DL" => !matches!(series, Series::V2_6_24 | Series::V5_10),
            "SIS_PROP" => matches!(series, Series::V5_10 | Series::V6_1),
            "SIS_UTIL" | "NI_RANDOM" => !matches!(series, Series::V2_6_24 | Series::V5_10),
            "GENTLE_FAIR_SLEEPERS" | "LAST_BUDDY" | "RT_RUNTIME_SHARE" | "DOUBLE_TICK" => {
                matches!(series, Series::V5_10 | Series::V6_1)
            }
            "PICK_BUDDY"
            | "PLACE_LAG"
            | "PLACE_DEADLINE_INITIAL"
            | "PLACE_REL_DEADLINE"
            | "RUN_TO_PARITY"
            | "PREEMPT_SHORT"
            | "DELAY_DEQUEUE"
            | "DELAY_ZERO" => series.is_eevdf(),
            _ => false,
        }
    }
}
