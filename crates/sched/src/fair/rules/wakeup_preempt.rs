//! Whether a woken entity is far enough before the running one in virtual time to preempt it under CFS.

use crate::entity::{Entity, Vruntime};
use crate::rules::Rules;

impl Rules {
    /// `wakeup_preempt_entity`: by how much `se` lies further before `curr` than the wake-up granularity, in nanoseconds of virtual time;
    /// none where it does not lie before it. It should preempt where that is positive (since e52fb7c09723, 2.6.30, until EEVDF, 147f3efaa241, 6.6).
    #[doc(alias = "check_preempt_wakeup")]
    #[inline(always)]
    pub(crate) fn wakeup_preempt_entity(&self, curr: Vruntime, se: &mut Entity) -> Option<i64> {
        let ahead = curr.since(se.vruntime);
        if ahead <= 0 {
            return None;
        }
        Some(ahead.saturating_sub(self.wakeup_gran(se) as i64))
    }

    /// Whether so many are on a queue that a woken task is nominated to run next (NEXT_BUDDY), and the one that it preempts to run after it
    /// (LAST_BUDDY): `scale` in `check_preempt_wakeup`.
    #[inline(always)]
    pub(crate) fn nominates_buddies(&self, nr_running: u32) -> bool {
        u64::from(nr_running) >= self.nr_latency
    }

    /// `wakeup_gran`: the wake-up granularity in virtual time of the waking entity `se`, in nanoseconds (by the waking entity's weight since
    /// e52fb7c09723, 2.6.30).
    #[inline(always)]
    pub(crate) fn wakeup_gran(&self, se: &mut Entity) -> u64 {
        self.calc_delta_fair(self.tunables.wakeup_granularity.as_nanos(), &mut se.load)
    }
}
