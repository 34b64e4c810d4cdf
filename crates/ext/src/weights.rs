//! The tables by which the scheduler in the kernel weighs threads, computed with the code of `crates/sched`.

use schedlab_model::{Policy, RuleSet, Series, ThreadWeights};
use schedlab_sched::thread_fairness::{MIN_WEIGHT, factor_table};
use schedlab_sched::weight_of_nice;

use crate::shared::{IDLE_LEVEL, LEVELS, MOST_THREADS};

/// Whose nice levels are taken: every series that has sched_ext has the same.
const SERIES: Series = Series::NEWEST;

/// The least weight of a thread, whatever its factor, with the kernel's ten extra bits.
pub const LEAST_WEIGHT: u64 = MIN_WEIGHT << 10;

/// Weights by nice level, −20 first, then that of SCHED_IDLE, with the kernel's ten extra bits.
///
/// ```
/// // nice 0 is 1024, nice 5 is 335, SCHED_IDLE 3 (kernel/sched/core.c and sched.h).
/// let weights = schedlab_ext::weights::base_weights();
/// assert_eq!([weights[20], weights[25], weights[40]], [1024 << 10, 335 << 10, 3 << 10]);
/// ```
pub fn base_weights() -> [u64; LEVELS] {
    let rules = RuleSet::of(SERIES.newest_known());
    let mut weights = [0; LEVELS];
    for (nice, weight) in (-20..20).zip(&mut weights) {
        *weight = weight_of_nice(&rules, Policy::Other, nice).scaled;
    }
    weights[IDLE_LEVEL] = weight_of_nice(&rules, Policy::Idle, 0).scaled;
    weights
}

/// Factors by number of threads, for 1 CPU on line, for 2 and so on, so that none has to be computed as CPUs come and go. A
/// process with more threads than a table has the table's last.
pub fn factors(rule: ThreadWeights, cpus: u32) -> Vec<u32> {
    (1..=cpus).flat_map(|online| factor_table(rule, online, MOST_THREADS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schedlab_sched::thread_fairness::{FACTOR_SHIFT, weigh};

    /// `weight_of` of bpf/thread_fair.bpf.c, statement by statement.
    fn in_the_kernel(base: u64, factor: u32) -> u64 {
        let weight = (base * u64::from(factor) + (1 << (FACTOR_SHIFT - 1))) >> FACTOR_SHIFT;
        if weight < LEAST_WEIGHT { LEAST_WEIGHT } else { weight }
    }

    proptest! {
        /// The two lines of arithmetic in BPF give what the simulator's rules give, at every level, count and number of CPUs.
        #[test]
        fn a_thread_weighs_in_the_kernel_what_it_weighs_in_the_simulator(
            nice in -20..20i8, threads in 0..=MOST_THREADS, online in 1..=16u32, rule in 0..5usize,
        ) {
            let rule: ThreadWeights = ["none", "pfs", "dw-cfs:beta=1.1", "dw-cfs:beta=16", "dw-cfs:beta=1.1:cpus=4"][rule].parse().unwrap();
            let factor = factors(rule, online)[((online - 1) * (MOST_THREADS + 1) + threads) as usize];
            let base = base_weights()[(nice + 20) as usize];
            let rules = RuleSet::of(SERIES.newest_known());
            let simulated = weigh(&rules, weight_of_nice(&rules, Policy::Other, nice), factor);
            prop_assert_eq!(in_the_kernel(base, factor), simulated.scaled);
        }
    }
}
