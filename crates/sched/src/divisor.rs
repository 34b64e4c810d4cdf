//! Division by what stays the same: by multiplication, as a processor divides for as long as it does tens of other things.

/// A number to divide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisor {
    divisor: u64,
    /// 2⁶⁴ by it, rounded up.
    reciprocal: u64,
    /// Less than this is divided by multiplication.
    limit: u64,
}

impl Divisor {
    /// Of a divisor that is not 0.
    ///
    /// ```
    /// let tick = schedlab_sched::Divisor::new(1_000_000);
    /// assert_eq!(tick.quotient(2_999_999), 2);
    /// ```
    pub const fn new(divisor: u64) -> Self {
        // By 1 the reciprocal does not fit.
        let (reciprocal, limit) = if divisor == 1 { (0, 0) } else { (u64::MAX / divisor + 1, u64::MAX / divisor) };
        Self { divisor, reciprocal, limit }
    }

    /// `number` divided by it, rounded down.
    ///
    /// The reciprocal is (2⁶⁴ + e) / d with 0 ≤ e < d. So n times that, by 2⁶⁴, is n / d + e n / (2⁶⁴ d); and as n / d is 1 / d or more below the next
    /// whole number, both have the same whole part where e n < 2⁶⁴, which holds where n d < 2⁶⁴.
    #[inline(always)]
    pub const fn quotient(&self, number: u64) -> u64 {
        if number < self.limit {
            ((number as u128 * self.reciprocal as u128) >> 64) as u64
        } else {
            number / self.divisor
        }
    }

    /// `number` divided by it, rounded up.
    ///
    /// ```
    /// let tick = schedlab_sched::Divisor::new(1_000_000);
    /// assert_eq!([0, 1, 1_000_000, 1_000_001].map(|time| tick.quotient_up(time)), [0, 1, 1, 2]);
    /// ```
    #[inline(always)]
    pub const fn quotient_up(&self, number: u64) -> u64 {
        let whole = self.quotient(number);
        whole + (whole * self.divisor < number) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_divides(divisor in 1u64.., shift in 0u32..64, number in any::<u64>(), other in 0u32..64) {
            let (divisor, number) = ((divisor >> shift).max(1), number >> other);
            let by = Divisor::new(divisor);
            // Wherever the quotient changes, too, and around the limit.
            let multiple = number / divisor * divisor;
            for number in [number, multiple, multiple.saturating_sub(1), by.limit, by.limit.saturating_sub(1), u64::MAX] {
                prop_assert_eq!(by.quotient(number), number / divisor);
                prop_assert_eq!(by.quotient_up(number), number.div_ceil(divisor));
            }
        }
    }
}
