//! What sums become as averages are added to a queue's or taken away (`kernel/sched/fair.c`): there the releases round otherwise.

use schedlab_model::RuleSet;

use crate::fair::pelt::{PELT_MIN_DIVIDER, SchedAvg, add_positive, at_least};

/// The rounding of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    /// 5.10: mostly computed anew, as the average times the greatest sum possible now.
    Anew,
    /// 6.1 to 6.18: followed, and no less than the average allows, as 32 bits compare.
    Followed,
    /// 7.2 (`__update_sa`): the same in the sum's own bits, and for what is added too.
    FollowedWhole,
    /// The fault that `__update_sa` came with: the same, but load sums are added and taken away without their weight.
    FollowedUnweighed,
}

/// What a sleeper took with it (`removed`): how many, and what averages of theirs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Removed {
    pub(crate) count: u32,
    pub(crate) load: u64,
    pub(crate) util: u64,
    pub(crate) runnable: u64,
}

impl Sums {
    #[inline(always)]
    pub(crate) const fn of(rules: &RuleSet) -> Self {
        if rules.load_sums_lose_weight {
            return Self::FollowedUnweighed;
        }
        match (rules.pelt_sums_followed, rules.pelt_sums_in_64_bits) {
            (false, _) => Self::Anew,
            (true, false) => Self::Followed,
            (true, true) => Self::FollowedWhole,
        }
    }

    /// No less than `average` times the least divider.
    fn floor(self, sum: u64, average: u64) -> u64 {
        match self {
            Self::FollowedWhole | Self::FollowedUnweighed => sum.max(average.wrapping_mul(u64::from(PELT_MIN_DIVIDER))),
            _ => u64::from(at_least(sum, average)),
        }
    }

    /// What an entity's load sum is on its queue's account.
    #[inline(always)]
    fn weighed(self, weight: u64, sum: u64) -> u64 {
        if self == Self::FollowedUnweighed { sum } else { weight * sum }
    }

    /// `enqueue_load_avg`: of an entity of `weight`.
    pub(crate) fn add_load(self, queue: &mut SchedAvg, average: u64, weight: u64, sum: u64) {
        queue.load_avg += average;
        queue.load_sum = queue.load_sum.wrapping_add(self.weighed(weight, sum));
        if matches!(self, Self::FollowedWhole | Self::FollowedUnweighed) {
            queue.load_sum = self.floor(queue.load_sum, queue.load_avg);
        }
    }

    /// `dequeue_load_avg`: of an entity of `weight`.
    pub(crate) fn subtract_load(self, queue: &mut SchedAvg, average: u64, weight: u64, sum: u64) {
        self.take_load(queue, average, self.weighed(weight, sum));
    }

    fn take_load(self, queue: &mut SchedAvg, average: u64, sum: u64) {
        queue.load_avg = queue.load_avg.saturating_sub(average);
        queue.load_sum = queue.load_sum.saturating_sub(sum);
        if self != Self::Anew {
            queue.load_sum = self.floor(queue.load_sum, queue.load_avg);
        }
    }

    fn subtract_util(queue: &mut SchedAvg, average: u64, sum: u32) {
        queue.util_avg = queue.util_avg.saturating_sub(average);
        queue.util_sum = at_least(u64::from(queue.util_sum.saturating_sub(sum)), queue.util_avg);
    }

    fn subtract_runnable(self, queue: &mut SchedAvg, average: u64, sum: u64) {
        queue.runnable_avg = queue.runnable_avg.saturating_sub(average);
        queue.runnable_sum = self.floor(queue.runnable_sum.saturating_sub(sum), queue.runnable_avg);
    }

    /// `detach_entity_load_avg`: an entity of `weight` leaves.
    pub(crate) fn detach(self, queue: &mut SchedAvg, avg: &SchedAvg, weight: u64) {
        self.subtract_load(queue, avg.load_avg, weight, avg.load_sum);
        if self == Self::Anew {
            let divider = queue.divider();
            queue.util_avg = queue.util_avg.saturating_sub(avg.util_avg);
            queue.util_sum = (queue.util_avg as u32).wrapping_mul(divider);
            queue.runnable_avg = queue.runnable_avg.saturating_sub(avg.runnable_avg);
            queue.runnable_sum = queue.runnable_avg * u64::from(divider);
        } else {
            Self::subtract_util(queue, avg.util_avg, avg.util_sum);
            self.subtract_runnable(queue, avg.runnable_avg, avg.runnable_sum);
        }
    }

    /// The part of `update_cfs_rq_load_avg` that takes out what left.
    pub(crate) fn remove(self, queue: &mut SchedAvg, removed: Removed) {
        let divider = u64::from(queue.divider());
        Self::subtract_util(queue, removed.util, (removed.util * divider) as u32);
        if self == Self::Anew {
            queue.load_avg = queue.load_avg.saturating_sub(removed.load);
            queue.load_sum = queue.load_avg * divider;
            queue.runnable_avg = queue.runnable_avg.saturating_sub(removed.runnable);
            queue.runnable_sum = queue.runnable_avg * divider;
        } else {
            self.take_load(queue, removed.load, removed.load * divider);
            self.subtract_runnable(queue, removed.runnable, removed.runnable * divider);
        }
    }

    /// What a queue's average and sum become as those of a group's entity on it change (`update_tg_cfs_util` and the like).
    pub(crate) fn follow(self, average: &mut u64, sum: u64, delta: i64, delta_sum: i64, divider: u64) -> u64 {
        *average = add_positive(*average, delta);
        if self == Self::Anew {
            return *average * divider;
        }
        self.floor(add_positive(sum, delta_sum), *average)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task of weight 1024 that always ran leaves a queue with another like it. The sums of both are 47,742 times their weight at most.
    #[test]
    fn without_its_weight_a_load_sum_stays_with_the_queue() {
        let task = SchedAvg { load_avg: 1024, load_sum: 47_742, ..SchedAvg::default() };
        let both = SchedAvg { load_avg: 2048, load_sum: 2 * 1024 * 47_742, ..SchedAvg::default() };
        let left = |sums: Sums| {
            let mut queue = both;
            sums.subtract_load(&mut queue, task.load_avg, 1024, task.load_sum);
            (queue.load_avg, queue.load_sum)
        };
        assert_eq!(left(Sums::FollowedWhole), (1024, 1024 * 47_742));
        // Taken off is what it ran alone, so nearly all of its load comes back as the average is next made of the sum.
        assert_eq!(left(Sums::FollowedUnweighed), (1024, 2 * 1024 * 47_742 - 47_742));
        // Added is the average's least sum: the floor gives back the weight.
        let mut queue = SchedAvg::default();
        Sums::FollowedUnweighed.add_load(&mut queue, task.load_avg, 1024, task.load_sum);
        assert_eq!((queue.load_avg, queue.load_sum), (1024, 1024 * u64::from(PELT_MIN_DIVIDER)));
    }
}
