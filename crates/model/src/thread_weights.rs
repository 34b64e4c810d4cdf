//! Weight rules that depend on the number of a process's threads.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ModelError;

/// How the number of a process's threads changes the weight of each of them in the fair class.
///
/// ```
/// use schedlab_model::ThreadWeights;
/// let rule: ThreadWeights = "dw-cfs:beta=1.1".parse()?;
/// assert_eq!(rule.to_string(), "dw-cfs:beta=1.1");
/// assert!("dw-cfs:beta=1".parse::<ThreadWeights>().is_err());
/// // As it would weigh threads on a machine of four CPUs, whatever this one has.
/// assert_eq!("dw-cfs:beta=1.1:cpus=4".parse::<ThreadWeights>()?.counted(1), 4);
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ThreadWeights {
    /// Nothing: the kernel's own rule.
    #[default]
    None,
    /// Process fair scheduling: each thread's weight is divided by the number of threads, so that processes share alike.
    Pfs,
    /// Dynamic weights: up to as many threads as CPUs are on line raise the weight, to `beta`; more lower it, towards zero.
    DwCfs {
        /// The most that a weight is multiplied by.
        beta: Beta,
        /// CPUs that are taken to be on line, in place of those that are: what the rule would do on another machine.
        cpus: Option<NonZeroU16>,
    },
}

/// DW-CFS's β in thousandths, above 1 and at most [`Beta::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Beta(u32);

impl Beta {
    /// The largest: with it the fixed-point form stays within 64 bits on any number of CPUs.
    pub const MAX: Self = Self(16_000);

    /// From thousandths: 1100 is 1.1.
    ///
    /// ```
    /// use schedlab_model::Beta;
    /// assert_eq!(Beta::from_thousandths(1100), "1.1".parse().ok());
    /// assert_eq!(Beta::from_thousandths(1000), None);
    /// ```
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths > 1000 && thousandths <= Self::MAX.0 { Some(Self(thousandths)) } else { None }
    }

    /// In thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    /// As a number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

/// The most CPUs that a rule may name: up to these its fixed-point form stays within 64 bits.
const MOST_CPUS: NonZeroU16 = NonZeroU16::new(8192).unwrap();

impl ThreadWeights {
    /// Whether the number of threads changes nothing.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The number of CPUs on line that the rule uses: the one that it names, else `online`.
    pub const fn counted(self, online: u32) -> u32 {
        match self {
            Self::DwCfs { cpus: Some(cpus), .. } => cpus.get() as u32,
            _ => online,
        }
    }

    /// A note for the user where, on a machine with `online` CPUs, the rule is not what its formula says.
    pub const fn remark(self, online: u32) -> Option<&'static str> {
        match self {
            Self::DwCfs { .. } if self.counted(online) <= 1 => Some(
                "dw-cfs has no value on one CPU (0/0); weights are divided by the number of threads there, as pfs does",
            ),
            _ => None,
        }
    }
}

impl fmt::Display for Beta {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return write!(formatter, "{whole}");
        }
        write!(formatter, "{whole}.{}", format!("{rest:03}").trim_end_matches('0'))
    }
}

impl FromStr for Beta {
    type Err = ModelError;

    /// Reads a decimal number with at most three decimals.
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let read = || {
            if !digits(whole) || !digits(rest) || rest.len() > 3 {
                return None;
            }
            let thousandths = whole.parse::<u32>().ok()?.checked_mul(1000)?;
            Self::from_thousandths(thousandths.checked_add(format!("{rest:0<3}").parse().ok()?)?)
        };
        read().ok_or_else(|| ModelError::ThreadWeights {
            found: format!("beta={text}"),
            why: format!("beta must be above 1 and at most {}, with no more than three decimals", Self::MAX),
        })
    }
}

impl fmt::Display for ThreadWeights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Pfs => formatter.write_str("pfs"),
            Self::DwCfs { beta, cpus: None } => write!(formatter, "dw-cfs:beta={beta}"),
            Self::DwCfs { beta, cpus: Some(cpus) } => write!(formatter, "dw-cfs:beta={beta}:cpus={cpus}"),
        }
    }
}

impl FromStr for ThreadWeights {
    type Err = ModelError;

    /// Reads `none`, `pfs`, `dw-cfs:beta=1.1`, or `dw-cfs:beta=1.1:cpus=4`.
    fn from_str(text: &str) -> Result<Self, ModelError> {
        match text {
            "none" => return Ok(Self::None),
            "pfs" => return Ok(Self::Pfs),
            _ => {}
        }
        let Some(rest) = text.strip_prefix("dw-cfs:beta=") else {
            return Err(ModelError::ThreadWeights {
                found: text.to_owned(),
                why: "allowed: none, pfs, dw-cfs:beta=1.1 (any beta above 1), dw-cfs:beta=1.1:cpus=4".to_owned(),
            });
        };
        let (beta, cpus) = match rest.split_once(":cpus=") {
            None => (rest, None),
            Some((beta, cpus)) => (beta, Some(read_cpus(cpus)?)),
        };
        Ok(Self::DwCfs { beta: beta.parse()?, cpus })
    }
}

/// A number of CPUs, without sign or leading zeros, as it is written.
fn read_cpus(text: &str) -> Result<NonZeroU16, ModelError> {
    text.parse().ok().filter(|cpus: &NonZeroU16| *cpus <= MOST_CPUS && cpus.to_string() == text).ok_or_else(|| {
        ModelError::ThreadWeights {
            found: format!("cpus={text}"),
            why: format!("cpus must be a whole number from 1 to {MOST_CPUS}"),
        }
    })
}

impl TryFrom<String> for ThreadWeights {
    type Error = ModelError;

    fn try_from(text: String) -> Result<Self, ModelError> {
        text.parse()
    }
}

impl From<ThreadWeights> for String {
    fn from(rule: ThreadWeights) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in [
            "none",
            "pfs",
            "dw-cfs:beta=1.1",
            "dw-cfs:beta=2",
            "dw-cfs:beta=1.001",
            "dw-cfs:beta=16",
            "dw-cfs:beta=1.1:cpus=4",
        ] {
            assert_eq!(text.parse::<ThreadWeights>().unwrap().to_string(), text);
        }
        // 1.10 and 1.1 are one number.
        assert_eq!("1.10".parse::<Beta>().unwrap(), Beta::from_thousandths(1100).unwrap());
    }

    #[test]
    fn beta_is_above_one_or_refused_in_one_line() {
        for beta in
            ["1", "1.0", "0.9", "0", "-1.1", "16.001", "1.0005", "nan", "inf", "1e1", "", ".5", "1.", "99999999999"]
        {
            let error = format!("dw-cfs:beta={beta}").parse::<ThreadWeights>().unwrap_err().to_string();
            assert!(error.contains("above 1 and at most 16") && !error.contains('\n'), "{beta}: {error}");
        }
        for cpus in ["0", "-1", "+4", "04", "8193", "70000", "", "4:cpus=4"] {
            let error = format!("dw-cfs:beta=1.1:cpus={cpus}").parse::<ThreadWeights>().unwrap_err().to_string();
            assert!(error.contains("from 1 to 8192") && !error.contains('\n'), "{cpus}: {error}");
        }
        for text in ["", "cfs", "dw-cfs", "dw-cfs:1.1", "pfs:beta=2"] {
            let error = text.parse::<ThreadWeights>().unwrap_err().to_string();
            assert!(error.contains("none, pfs, dw-cfs"), "{text}: {error}");
        }
    }
}
