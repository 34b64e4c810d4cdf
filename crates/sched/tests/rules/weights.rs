//! Weights, and the fixed-point division by them that turns real time into virtual time.

use proptest::prelude::*;
use schedlab_model::{Policy, RuleSet};
use schedlab_sched::{Weight, calc_delta_mine, weight_of_nice};

use crate::lab::{CPU0, Lab, MS};

fn rules(release: &str) -> RuleSet {
    RuleSet::of(release.parse().expect("a known release"))
}

fn nice_weight(nice: i8) -> Weight {
    weight_of_nice(&rules("2.6.24"), Policy::Other, nice)
}

/// Virtual time that a task, alone on a CPU of `release`, gains in `delta` of real time.
fn virtual_gain(release: &str, policy: Policy, nice: i8, delta: u64) -> i64 {
    let mut lab = Lab::new(release, &[]);
    let task = lab.spawn(policy, nice);
    lab.schedule(CPU0);
    let before = lab.vruntime(task);
    lab.run(CPU0, delta);
    assert_eq!(lab.entity(task).sum_exec_runtime, delta);
    lab.vruntime(task) - before
}

/// `sched_prio_to_weight`: nice 0 is 1024, each level 25 % more than the next, −20 to 19 from 88761 to 15.
#[test]
fn each_nice_level_weighs_a_quarter_more_than_the_next() {
    assert_eq!(nice_weight(0).scaled, 1024);
    assert_eq!((nice_weight(-20).scaled, nice_weight(19).scaled), (88761, 15));
    for nice in -20..19 {
        let ratio = nice_weight(nice).scaled as f64 / nice_weight(nice + 1).scaled as f64;
        // 25 % but for the whole numbers of the table: the coarsest is 18 / 15 = 1.2.
        assert!((1.2..1.3).contains(&ratio), "nice {nice}: {ratio}");
    }
}

/// `sched_prio_to_wmult` holds 2^32 / weight as a whole number, so inverse × weight misses 2^32 by less than a weight.
#[test]
fn inverses_are_2_to_the_32_over_the_weight() {
    for nice in -20..=19 {
        let weight = nice_weight(nice);
        let product = u64::from(weight.inverse) * weight.scaled;
        assert!(product.abs_diff(1 << 32) < weight.scaled, "nice {nice}: {weight:?}");
    }
}

/// From 2.6.39 on 64-bit kernels carry ten more bits (`SCHED_FIXEDPOINT_SHIFT`); the inverses stay.
#[test]
fn newer_kernels_scale_weights_by_1024() {
    for release in ["5.10", "6.1", "6.12", "6.18"] {
        for nice in -20..=19 {
            let weight = weight_of_nice(&rules(release), Policy::Batch, nice);
            assert_eq!(weight.scaled, nice_weight(nice).scaled * 1024);
            assert_eq!(weight.inverse, nice_weight(nice).inverse);
        }
    }
}

/// WEIGHT_IDLEPRIO is 3 with 2^32 / 3 = 1431655765 as its inverse; 2.6.24 had 2 with 2^31. The nice level does not count.
#[test]
fn idle_tasks_weigh_next_to_nothing() {
    for nice in [-20, 0, 19] {
        assert_eq!(
            weight_of_nice(&rules("6.1"), Policy::Idle, nice),
            Weight { scaled: 3 << 10, inverse: 1_431_655_765 }
        );
        assert_eq!(weight_of_nice(&rules("2.6.24"), Policy::Idle, nice), Weight { scaled: 2, inverse: 1 << 31 });
    }
}

#[test]
fn at_nice_0_virtual_time_is_real_time() {
    for release in ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        assert_eq!(virtual_gain(release, Policy::Other, 0, 123_456_789), 123_456_789, "{release}");
    }
}

/// `__calc_delta`, worked by hand for 4 ms: 1024 × inverse, shifted down to 32 bits, times 4,000,000, shifted by what is left of 32.
#[test]
fn a_weight_s_inverse_is_multiplied_and_truncated() {
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let gain = |nice| virtual_gain(release, Policy::Other, nice, 4 * MS);
        // nice 5: 1024 × 12820798 = 13128497152 has 34 bits: >> 2 is 3282124288, and 30 bits of shift are left.
        // 4,000,000 × 3282124288 = 13128497152000000; / 2^30 = 12226865.77, truncated. (Exactly: 4 ms × 1024 / 335 = 12226865.67.)
        assert_eq!(gain(5), 12_226_865, "{release}");
        // nice −5: 1024 × 1376151 = 1409178624 fits 32 bits: 4,000,000 × 1409178624 / 2^32 = 1312399.88, truncated.
        assert_eq!(gain(-5), 1_312_399, "{release}");
        // nice 19: 1024 × 286331153 = 293203100672 has 39 bits: >> 7 is 2290649224; × 4,000,000 / 2^25 = 273066666.6, truncated.
        assert_eq!(gain(19), 273_066_666, "{release}");
    }
    // SCHED_IDLE: 1024 × 1431655765 = 1466015503360 has 41 bits: >> 9 is 2863311530; × 4,000,000 / 2^23 = 1365333333.0.
    assert_eq!(virtual_gain("6.1", Policy::Idle, 0, 4 * MS), 1_365_333_333);
}

/// 7.2 divides by the whole weight where there are 64 bits: a recorded task of nice 5 gained 1599325 ns in 523217 ns, where the
/// inverse gives one more. 523217 × 1048576 / 343040 = 1599325.9; 523217 × 3282124288 / 2^30 = 1599326.07.
#[test]
fn a_weight_is_divided_by_from_7_2_on() {
    let gain = |release| virtual_gain(release, Policy::Other, 5, 523_217);
    assert_eq!((gain("7.3"), gain("7.2"), gain("6.18"), gain("6.12")), (1_599_325, 1_599_325, 1_599_326, 1_599_326));
}

/// `calc_delta_mine` (2.6.24) rounds to nearest, in one step up to 2^32 and in two halves beyond.
#[test]
fn the_first_kernel_rounds_to_nearest() {
    let virtual_time = |delta, nice| calc_delta_mine(delta, 1024, nice_weight(nice));
    // One step: 1,000,000 × 1024 = 1024000000 ≤ 2^32; × 12820798 / 2^32 = 3056716.44.
    assert_eq!(virtual_time(1_000_000, 5), 3_056_716);
    // It rounds up where truncation would give 0: 3 × 1024 × 1376151 / 2^32 = 0.984.
    assert_eq!(virtual_time(3, -5), 1);
    // Two halves: 10,000,000 × 1024 = 10240000000 > 2^32; / 2^16 = 156250; × 12820798 / 2^16 = 30567164.42.
    assert_eq!(virtual_time(10_000_000, 5), 30_567_164);
    // 156250 × 1376151 / 2^16 = 3280999.66, rounded up.
    assert_eq!(virtual_time(10_000_000, -5), 3_281_000);
    // And so does a running task's virtual time.
    assert_eq!(virtual_gain("2.6.24", Policy::Other, 5, 10_000_000), 30_567_164);
    assert_eq!(virtual_gain("2.6.24", Policy::Other, -5, 10_000_000), 3_281_000);
}

/// `calc_delta_mine` computes a missing inverse rounded to nearest: (2^32 − w/2) / w + 1.
#[test]
fn the_first_kernel_computes_a_missing_inverse() {
    // w = 3072: (4294967296 − 1536) / 3072 = 1398100.8 → 1398100, + 1 = 1398101.
    // 1024 × 3,000,000 = 3072000000 ≤ 2^32; × 1398101 / 2^32 = 999999.96, to nearest 1,000,000: a third of 3 ms.
    assert_eq!(calc_delta_mine(3_000_000, 1024, Weight { scaled: 3072, inverse: 0 }), 1_000_000);
}

proptest! {
    /// `__calc_delta` in arithmetic too wide to overflow: what is kept are the top 32 bits of 1024 × inverse.
    #[test]
    fn virtual_time_follows_the_wide_reference(nice in -20i8..=19, delta in 1u64..1 << 40) {
        prop_assume!(nice != 0);
        let weight = nice_weight(nice);
        let factor = 1024 * u128::from(weight.inverse);
        let dropped = (128 - factor.leading_zeros()).saturating_sub(32);
        let expected = (u128::from(delta) * (factor >> dropped)) >> (32 - dropped);
        let gain = virtual_gain("6.1", Policy::Other, nice, delta);
        prop_assert_eq!(gain as u128, expected);
        // It is the exact quotient but for the inverse (within 1 of 2^32 / weight), the bits dropped and the truncation.
        let exact = u128::from(delta) * 1024 / u128::from(weight.scaled);
        let slack = (u128::from(delta) << 10 >> 32) + (u128::from(delta) >> (32 - dropped)) + 2;
        prop_assert!(exact.abs_diff(expected) <= slack, "{} {} {}", exact, expected, slack);
    }

    /// `calc_delta_mine` likewise: off by the inverse's rounding and by half a unit of 2^16 before the multiplication.
    #[test]
    fn the_first_kernel_s_virtual_time_is_close_to_exact(nice in -20i8..=19, delta in 1u64..1 << 32) {
        let weight = nice_weight(nice);
        let exact = u128::from(delta) * 1024 / u128::from(weight.scaled);
        let slack = (u128::from(delta) << 10 >> 32) + (u128::from(weight.inverse) >> 17) + 2;
        let found = u128::from(calc_delta_mine(delta, 1024, weight));
        prop_assert!(exact.abs_diff(found) <= slack, "{} {} {}", exact, found, slack);
    }
}
