//! The period in which all run once under CFS, and the slice of it that is an entity's own.

use crate::rules::Rules;

impl Rules {
    /// `__sched_period`: the period in which `nr_running` tasks run once each, in nanoseconds.
    ///
    /// 2.6.24 stretches it to latency · nr / nr_latency; since 4bf0b77158d5 (2.6.25) it is nr · min_granularity.
    #[doc(alias = "__sched_period")]
    #[inline(always)]
    pub(crate) fn sched_period(&self, nr_running: u64) -> u64 {
        let latency = self.tunables.latency.as_nanos();
        if nr_running <= self.nr_latency {
            latency
        } else if self.period_of_granularities {
            nr_running * self.tunables.min_granularity.as_nanos()
        } else {
            latency * nr_running / self.nr_latency
        }
    }

    /// `sched_slice` under BASE_SLICE: no slice is shorter than the granularity, which `granularity` tells where that is so (since 0c2de3f054a5, 5.13, 5.10.37).
    #[doc(alias = "sched_slice")]
    #[inline(always)]
    pub(crate) fn slice_at_least(&self, slice: u64, granularity: impl FnOnce() -> u64) -> u64 {
        if self.alt_period { slice.max(granularity()) } else { slice }
    }
}
