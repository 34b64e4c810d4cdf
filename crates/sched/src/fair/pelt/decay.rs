//! How sums decay, and averages follow from them, in the kernel's integers: the tables of `kernel/sched/sched-pelt.h`, and divisions by every divisor
//! there is as multiplications.

/// Periods after which a contribution counts half (`LOAD_AVG_PERIOD`).
pub const LOAD_AVG_PERIOD: u64 = 32;

/// The sum of an entity that always ran (`LOAD_AVG_MAX`): 1024 · Σ y^n in the kernel's integers.
pub const LOAD_AVG_MAX: u32 = 47742;

/// `PELT_MIN_DIVIDER`: the greatest possible sum at the start of a period.
pub(crate) const PELT_MIN_DIVIDER: u32 = LOAD_AVG_MAX - 1024;

/// `runnable_avg_yN_inv`: (2³² − 1) · y^n, rounded down.
pub(super) const YN_INVERSE: [u32; 32] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];

/// `decay_load`: `value` · y^`periods`.
///
/// ```
/// use schedlab_sched::pelt::decay_load;
/// // 32 periods halve; the factor for none is 2³² − 1 over 2³², which takes one off a whole number.
/// assert_eq!(decay_load(1 << 20, 32), (1 << 19) - 1);
/// ```
#[inline]
pub const fn decay_load(value: u64, periods: u64) -> u64 {
    if periods > LOAD_AVG_PERIOD * 63 {
        return 0;
    }
    let value = value >> (periods / LOAD_AVG_PERIOD);
    let factor = YN_INVERSE[(periods % LOAD_AVG_PERIOD) as usize];
    ((value as u128 * factor as u128) >> 32) as u64
}

/// 2³² · y.
pub(super) const YN_ONCE: u64 = YN_INVERSE[1] as u64;

/// [`decay_load`] of one period.
#[inline]
pub(super) const fn decay_once(value: u64) -> u64 {
    ((value as u128 * YN_INVERSE[1] as u128) >> 32) as u64
}

/// What [`accumulate_segments`] adds for the whole periods of a stretch over one boundary.
pub(super) const WHOLE_OF_ONE: u32 = LOAD_AVG_MAX - decay_once(LOAD_AVG_MAX as u64) as u32 - 1024;

/// ⌈2⁶⁴ / divider⌉ of every divider there is (`SchedAvg::divider`), by the place in the period.
static RECIPROCALS: [u64; 1024] = {
    let mut table = [0; 1024];
    let mut place = 0;
    while place < 1024 {
        table[place] = u64::MAX / (PELT_MIN_DIVIDER as u64 + place as u64) + 1;
        place += 1;
    }
    table
};

/// `sum` / divider, without a division where the sum is below 2⁴⁸, as all but absurdly large ones are.
///
/// Exact: with the reciprocal r = (2⁶⁴ + e) / d, 0 ≤ e < d, sum · r / 2⁶⁴ exceeds sum / d by sum · e / (d · 2⁶⁴) < sum / 2⁶⁴ < 2⁻¹⁶, which
/// is less than 1/d (d < 2¹⁶), the least distance of a fraction of d below the next whole number.
#[inline]
pub(super) fn divide(sum: u64, place: u32) -> u64 {
    if sum < 1 << 48 {
        ((u128::from(sum) * u128::from(RECIPROCALS[place as usize & 1023])) >> 64) as u64
    } else {
        sum / (u64::from(PELT_MIN_DIVIDER) + u64::from(place))
    }
}

/// [`divide`] where the sum is known to be below 2⁴⁸.
#[inline(always)]
pub(super) fn divide_small(sum: u64, place: u32) -> u64 {
    debug_assert!(sum < 1 << 48, "a sum that may be rounded otherwise");
    ((u128::from(sum) * u128::from(RECIPROCALS[place as usize & 1023])) >> 64) as u64
}

/// `__accumulate_pelt_segments`: what a stretch over `periods` ≥ 1 boundaries adds: `first` µs that end the period it began in,
/// whole periods, and `last` µs of the current one.
#[inline]
pub(super) const fn accumulate_segments(periods: u64, first: u32, last: u32) -> u32 {
    let oldest = decay_load(first as u64, periods) as u32;
    let whole = LOAD_AVG_MAX - decay_load(LOAD_AVG_MAX as u64, periods) as u32 - 1024;
    oldest + whole + last
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The generator `Documentation/scheduler/sched-pelt.c`: x = (2³² − 1) · y^n, and the sum iterated until it stands still, each
    /// step old · y rounded down plus 1024.
    #[test]
    fn the_tables_are_those_of_the_generator() {
        let y = libm_pow(0.5, 1.0 / 32.0);
        for (n, inverse) in YN_INVERSE.iter().enumerate() {
            let exact = 4_294_967_295.0 * libm_pow(y, n as f64);
            assert_eq!(*inverse, exact as u32, "y^{n}");
        }
        let (mut sum, mut last) = (1024u64, 0);
        while sum != last {
            last = sum;
            sum = ((sum * u64::from(YN_INVERSE[1])) >> 32) + 1024;
        }
        assert_eq!(sum, u64::from(LOAD_AVG_MAX));
    }

    fn libm_pow(base: f64, exponent: f64) -> f64 {
        base.powf(exponent)
    }

    proptest! {
        #[test]
        fn dividing_by_multiplication_is_dividing(
            bits in 0u32..64, fraction: u64, place in 0u32..1024, multiple in any::<bool>(),
        ) {
            let divider = u64::from(PELT_MIN_DIVIDER + place);
            let sum = fraction >> bits;
            // Whole multiples and what lies just below them are where it would go wrong first.
            let sum = if multiple { (sum / divider * divider).wrapping_sub(1) } else { sum };
            prop_assert_eq!(divide(sum, place), sum / divider);
            prop_assert_eq!(divide(sum.wrapping_add(1), place), sum.wrapping_add(1) / divider);
        }
    }
}
