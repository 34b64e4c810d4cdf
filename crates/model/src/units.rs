//! Time, the one unit: whole nanoseconds behind a newtype.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ModelError;

/// An instant since the start of a run, or a span of time, in whole nanoseconds.
///
/// Written with its unit, in files and on the command line alike.
///
/// ```
/// use schedlab_model::Time;
/// let latency: Time = "19900us".parse()?;
/// assert_eq!(latency.as_nanos(), 19_900_000);
/// assert_eq!(latency.to_string(), "19.9ms");
/// assert!("20".parse::<Time>().is_err());
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

const UNITS: [(&str, u32); 4] = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];

impl Time {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The end of time: later than anything that happens.
    pub const MAX: Self = Self(u64::MAX);

    /// From nanoseconds.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// From microseconds; saturates at [`Time::MAX`].
    pub const fn from_micros(microseconds: u64) -> Self {
        Self(microseconds.saturating_mul(1_000))
    }

    /// From milliseconds; saturates at [`Time::MAX`].
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// As nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// As seconds, for people and figures; never for a rule.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span since `earlier`, zero if `earlier` is later.
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The sum, or [`Time::MAX`] where it overflows.
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The sum, or `None` where it overflows.
    pub fn checked_add(self, span: Self) -> Option<Self> {
        self.0.checked_add(span.0).map(Self)
    }
}

impl Add for Time {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        Self(self.0 + span.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, span: Self) {
        self.0 += span.0;
    }
}

impl Sub for Time {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self(self.0 - earlier.0)
    }
}

impl SubAssign for Time {
    fn sub_assign(&mut self, span: Self) {
        self.0 -= span.0;
    }
}

impl Mul<u64> for Time {
    type Output = Self;
    fn mul(self, count: u64) -> Self {
        Self(self.0 * count)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Time {
    /// The value in the largest unit in which it is at least one, exactly.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, digits) =
            UNITS.iter().rev().find(|(_, digits)| self.0 >= 10u64.pow(*digits)).copied().unwrap_or(UNITS[0]);
        let scale = 10u64.pow(digits);
        let (whole, rest) = (self.0 / scale, self.0 % scale);
        if rest == 0 {
            write!(formatter, "{whole}{unit}")
        } else {
            let fraction = format!("{rest:0width$}", width = digits as usize);
            write!(formatter, "{whole}.{}{unit}", fraction.trim_end_matches('0'))
        }
    }
}

impl FromStr for Time {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let wrong = |why| ModelError::Time { found: text.to_owned(), why };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        if trimmed.starts_with('-') {
            return Err(wrong("it is negative"));
        }
        if number.is_empty() {
            return Err(wrong("it has no number"));
        }
        let unit = unit.trim();
        if unit.is_empty() {
            return Err(wrong("it has no unit"));
        }
        let digits = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| wrong("its unit is unknown"))?.1;
        let number = number.replace('_', "");
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(wrong("its number is malformed"));
        }
        if fraction.trim_end_matches('0').len() > digits as usize {
            return Err(wrong("it is finer than a nanosecond"));
        }
        let too_large = || wrong("it is larger than 64 bits of nanoseconds hold (about 584 years)");
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_large())? };
        let mut part = 0u64;
        for position in 0..digits as usize {
            let digit = fraction.as_bytes().get(position).map_or(0, |byte| u64::from(byte - b'0'));
            part = part * 10 + digit;
        }
        whole
            .checked_mul(10u64.pow(digits))
            .and_then(|nanoseconds| nanoseconds.checked_add(part))
            .map(Self)
            .ok_or_else(too_large)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_powers_of_a_thousand() {
        // 1.5 s = 1,500 ms = 1,500,000 us = 1,500,000,000 ns by the SI prefixes.
        for text in ["1.5s", "1500ms", "1_500_000us", "1500000000ns"] {
            assert_eq!(text.parse::<Time>().unwrap(), Time::from_nanos(1_500_000_000), "{text}");
        }
    }

    #[test]
    fn wrong_texts_say_what_is_wrong() {
        for (text, why) in [
            ("20", "no unit"),
            ("ms", "no number"),
            ("-1ms", "negative"),
            ("20m", "unknown"),
            ("1.2.3ms", "malformed"),
            ("0.5ns", "finer"),
            ("99999999999999s", "larger"),
        ] {
            let message = text.parse::<Time>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(nanoseconds: u64) {
            let time = Time::from_nanos(nanoseconds);
            prop_assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
        }
    }
}
