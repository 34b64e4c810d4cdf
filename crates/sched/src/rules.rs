//! The rules of one kernel release, resolved to flags and values.

use std::ops::Deref;

use schedlab_model::{KnobValue, ModelError, RuleSet, Scheduler, ThreadWeights, Time, Tunables};

use crate::divisor::Divisor;

/// Everything the rules need to know of a kernel: which rules it has, its tick and tunables, with what follows from them.
///
/// Each of its [`RuleSet`]'s rules is read by its name, as `rules.relative_vruntime`.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Which rules are in force.
    pub set: RuleSet,
    /// Whether the fast path has these rules.
    pub has_fast_path: bool,
    /// One tick, 1/HZ, in nanoseconds (`TICK_NSEC`).
    pub tick: u64,
    /// To find how many ticks there are in a time.
    pub in_ticks: Divisor,
    /// Knob values for this machine.
    pub tunables: Tunables,
    /// `sched_nr_latency`: with more tasks the period stretches. See [`nr_latency`].
    pub nr_latency: u64,
    /// What a CPU takes of a group's quota at once (`sched_cfs_bandwidth_slice`), in nanoseconds.
    pub cfs_bandwidth_slice: u64,
    /// The round-robin slice in ticks, at least one (`sched_rr_timeslice`).
    pub rr_ticks: u32,
    /// What the number of a process's threads does to their weights; nothing in any kernel.
    pub weights: ThreadWeights,
    /// `NICE_0_LOAD`: the weight of nice 0.
    pub nice_0_load: u64,
}

impl Deref for Rules {
    type Target = RuleSet;

    #[inline(always)]
    fn deref(&self) -> &RuleSet {
        &self.set
    }
}

impl Rules {
    /// Resolves `scheduler` for a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// What [`Scheduler::tunables`] refuses.
    pub fn new(scheduler: &Scheduler, cpus: u32) -> Result<Self, ModelError> {
        let tunables = scheduler.tunables(cpus)?;
        let rules = Self::from_tunables(scheduler.rule_set()?, scheduler.hz, tunables);
        // The fast path leaves out what has no effect in kernels that there are.
        let has_fast_path = rules.has_fast_path && RuleSet::hybrid(scheduler.release, &scheduler.rules)?.is_none();
        let mut rules = Self { weights: scheduler.weights, has_fast_path, ..rules };
        if let Some(KnobValue::Time(slice)) = scheduler.knobs.get("cfs_bandwidth_slice") {
            rules.cfs_bandwidth_slice = slice.as_nanos();
        }
        Ok(rules)
    }

    /// From values read elsewhere, such as a recorded kernel's own.
    pub fn from_tunables(set: RuleSet, hz: u32, tunables: Tunables) -> Self {
        let tick = (1_000_000_000 + u64::from(hz) / 2) / u64::from(hz);
        Self {
            set,
            has_fast_path: has_fast_path(&set),
            tick,
            in_ticks: Divisor::new(tick),
            tunables,
            nr_latency: nr_latency(&set, &tunables),
            cfs_bandwidth_slice: 5_000_000,
            rr_ticks: rr_ticks(tunables.rr_timeslice.as_nanos(), u64::from(hz)),
            weights: ThreadWeights::None,
            nice_0_load: if set.wide_weights { 1024 << 10 } else { 1024 },
        }
    }

    /// One tick.
    pub const fn tick_time(&self) -> Time {
        Time::from_nanos(self.tick)
    }

    /// `msecs_to_jiffies`, which rounds up.
    #[inline]
    pub(crate) const fn jiffies_of(&self, milliseconds: u64) -> u64 {
        // At HZ = 1000 a tick is a millisecond: m · 10⁶ / 10⁶ is m, and nothing is left to round up. Each tick of each CPU asks, and a
        // division would be most of what that costs.
        if self.tick == 1_000_000 {
            return milliseconds;
        }
        (milliseconds * 1_000_000).div_ceil(self.tick)
    }

    /// How many bits weights carry beyond the nice table's (`SCHED_FIXEDPOINT_SHIFT` on 64-bit).
    pub(crate) fn load_shift(&self) -> u32 {
        if self.wide_weights { 10 } else { 0 }
    }
}

/// Whether the fast path has these rules: those of all kernels whose balancing is modelled, up to 7.2. It knows one weight of a task, where
/// with a single timeline there are two, and not what wake-ups do since. Nor does it know an origin that stands still.
fn has_fast_path(set: &RuleSet) -> bool {
    set.models_balancing && !set.single_timeline && (set.origin_follows_v || !set.eevdf)
}

/// What `sched_nr_latency` is on boot: the default latency, 6 ms, over the default granularity, 0.75 ms.
const NR_LATENCY: u64 = 8;

/// `sched_nr_latency` = ⌈latency / min_granularity⌉, computed as either is written to `/proc/sys/kernel` (`sched_proc_update_handler`).
///
/// From 5.13 on both are plain numbers in debugfs (`sched_init_debug`): it stays what it was on boot, whatever is written to them, until
/// `tunable_scaling` is written (`sched_update_scaling`), which is no knob here.
fn nr_latency(set: &RuleSet, tunables: &Tunables) -> u64 {
    if set.nr_latency_of_boot {
        return NR_LATENCY;
    }
    tunables.latency.as_nanos().div_ceil(tunables.min_granularity.as_nanos().max(1))
}

/// `sched_rr_timeslice`: the default, 100 ms, truncated to ticks (`RR_TIMESLICE`); a slice that was set rounded up
/// (`msecs_to_jiffies`).
fn rr_ticks(slice: u64, hz: u64) -> u32 {
    const SECOND: u64 = 1_000_000_000;
    let ticks = if slice == 100_000_000 { hz / 10 } else { slice.saturating_mul(hz).div_ceil(SECOND) };
    u32::try_from(ticks).unwrap_or(u32::MAX).max(1)
}
