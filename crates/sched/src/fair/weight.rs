//! Weights and the fixed-point arithmetic of shares.

use schedlab_model::{Policy, RuleSet};

/// `sched_prio_to_weight` (`kernel/sched/core.c`): each nice level is worth 25 % more than the next, nice 0 is 1024.
const PRIO_TO_WEIGHT: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// `sched_prio_to_wmult`: 2³² over the weight, as the kernel has it.
const PRIO_TO_WMULT: [u32; 40] = [
    48388, 59856, 76040, 92818, 118348, 147320, 184698, 229616, 287308, 360437, 449829, 563644, 704093, 875809,
    1099582, 1376151, 1717300, 2157191, 2708050, 3363326, 4194304, 5237765, 6557202, 8165337, 10153587, 12820798,
    15790321, 19976592, 24970740, 31350126, 39045157, 49367440, 61356676, 76695844, 95443717, 119304647, 148102320,
    186737708, 238609294, 286331153,
];

/// `struct load_weight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// The weight, with the kernel's ten extra bits where it has them.
    pub scaled: u64,
    /// 2³² over the unscaled weight; 0 while not computed.
    pub inverse: u32,
}

impl Weight {
    /// [`scale_load_down`] of it.
    #[inline]
    pub const fn down(self) -> u64 {
        scale_load_down(self.scaled)
    }

    /// [`scale_load_down`] of a task's weight or of a sum of such, with ten extra bits: none is less than SCHED_IDLE's 3, so none is rounded up.
    #[inline(always)]
    pub(crate) const fn down_of_tasks(self) -> u64 {
        debug_assert!(self.scaled == 0 || self.scaled >= 3 << 10);
        self.scaled >> 10
    }

    /// `update_load_add`.
    #[inline]
    pub fn add(&mut self, weight: u64) {
        self.scaled = self.scaled.wrapping_add(weight);
        self.inverse = 0;
    }

    /// `update_load_sub`.
    #[inline]
    pub fn subtract(&mut self, weight: u64) {
        self.scaled = self.scaled.wrapping_sub(weight);
        self.inverse = 0;
    }
}

/// `scale_load_down` (`kernel/sched/sched.h`): a weight without its ten extra bits, and at least 2 if it is any (5.7 on). No task weighs less,
/// but a group's part of its shares on one of many CPUs may.
///
/// ```
/// use schedlab_sched::scale_load_down;
/// assert_eq!([0, 1, 2 << 10, 15 << 10].map(scale_load_down), [0, 2, 2, 15]);
/// ```
#[inline]
pub const fn scale_load_down(weight: u64) -> u64 {
    let (down, least) = (weight >> 10, if weight == 0 { 0 } else { 2 });
    if down > least { down } else { least }
}

/// `set_load_weight`: the weight of a task with `policy` and `nice`.
///
/// ```
/// use schedlab_model::{Policy, RuleSet};
/// use schedlab_sched::weight_of_nice;
/// let rules = |release: &str| release.parse().map(RuleSet::of);
/// assert_eq!(weight_of_nice(&rules("6.1")?, Policy::Other, 0).scaled, 1024 << 10);
/// assert_eq!(weight_of_nice(&rules("2.6.24")?, Policy::Other, 5).scaled, 335);
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
pub const fn weight_of_nice(rules: &RuleSet, policy: Policy, nice: i8) -> Weight {
    let shift = if rules.wide_weights { 10 } else { 0 };
    if matches!(policy, Policy::Idle) {
        // WEIGHT_IDLEPRIO and WMULT_IDLEPRIO; 2.6.24 has 2 and 1 << 31.
        return if rules.idle_weighs_3 {
            Weight { scaled: 3 << shift, inverse: 1_431_655_765 }
        } else {
            Weight { scaled: 2 << shift, inverse: 1 << 31 }
        };
    }
    let clamped = if nice < -20 {
        -20
    } else if nice > 19 {
        19
    } else {
        nice
    };
    let level = (clamped + 20) as usize;
    Weight { scaled: PRIO_TO_WEIGHT[level] << shift, inverse: PRIO_TO_WMULT[level] }
}

/// `fls`: the place of the highest set bit, from 1; 0 if there is none.
const fn fls(value: u32) -> u32 {
    32 - value.leading_zeros()
}

/// `__calc_delta` (`kernel/sched/fair.c`): delta × weight / load by multiplication with the load's inverse, with the
/// kernel's shifts and so its rounding.
#[inline]
pub fn calc_delta(delta: u64, weight: u64, load: &mut Weight) -> u64 {
    if load.inverse == 0 {
        // __update_inv_weight
        load.inverse = match load.down() {
            0 => u32::MAX,
            w if w >= u64::from(u32::MAX) => 1,
            w => (u64::from(u32::MAX) / w) as u32,
        };
    }
    let mut factor = scale_load_down(weight);
    let mut shift = 32u32;
    let high = (factor >> 32) as u32;
    if high != 0 {
        let bits = fls(high);
        shift -= bits;
        factor >>= bits;
    }
    factor = u64::from(factor as u32) * u64::from(load.inverse);
    let high = (factor >> 32) as u32;
    if high != 0 {
        let bits = fls(high);
        shift -= bits;
        factor >>= bits;
    }
    ((u128::from(delta) * u128::from(factor as u32)) >> shift) as u64
}

/// `calc_delta_mine` of 2.6.24 (`kernel/sched.c`), whose inverse is rounded and whose shifts round to nearest.
///
/// `inverse` 0 stands for "compute it".
pub fn calc_delta_mine(delta: u64, weight: u64, load: Weight) -> u64 {
    const WMULT_CONST: u64 = 1 << 32;
    const WMULT_SHIFT: u32 = 32;
    const fn shift_right_and_round(value: u64, shift: u32) -> u64 {
        value.wrapping_add(1 << (shift - 1)) >> shift
    }
    let inverse = if load.inverse == 0 {
        (WMULT_CONST - load.scaled / 2) / load.scaled.max(1) + 1
    } else {
        u64::from(load.inverse)
    };
    let product = delta.wrapping_mul(weight);
    let scaled = if product > WMULT_CONST {
        // The full product would leave 64 bits: shift in two halves.
        let half = shift_right_and_round(product, WMULT_SHIFT / 2);
        shift_right_and_round(half.wrapping_mul(inverse), WMULT_SHIFT / 2)
    } else {
        shift_right_and_round(product.wrapping_mul(inverse), WMULT_SHIFT)
    };
    scaled.min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use schedlab_model::Series;

    use super::*;

    /// Beside the leaf: no task's weight is rounded up, of any nice level and policy of the kernels with ten extra bits, nor is a sum of such.
    #[test]
    fn weights_of_tasks_are_never_rounded_up() {
        for series in Series::ALL.into_iter().filter(|series| RuleSet::of(series.newest_known()).wide_weights) {
            let rules = RuleSet::of(series.newest_known());
            let nice = (-20..=19).map(|nice| weight_of_nice(&rules, Policy::Other, nice));
            let weights: Vec<Weight> =
                nice.chain([weight_of_nice(&rules, Policy::Idle, 0), Weight::default()]).collect();
            for weight in &weights {
                assert_eq!(weight.down_of_tasks(), weight.down(), "{series}: {weight:?}");
                let mut sum = *weight;
                weights.iter().for_each(|other| sum.add(other.scaled));
                assert_eq!(sum.down_of_tasks(), sum.down(), "{series}: {sum:?}");
            }
        }
    }
}
