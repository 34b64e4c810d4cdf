//! Kernel releases and the series whose rules are known.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ModelError;

/// A series of kernel releases that share one set of scheduling rules, up to dated stable backports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Series {
    /// The second CFS: `vruntime`, before buddies and hierarchical fork placement (2.6.24).
    V2_6_24,
    /// Late CFS (5.10).
    V5_10,
    /// The last long-term CFS (6.1).
    V6_1,
    /// EEVDF with lag kept over sleep and delayed dequeue (6.12).
    V6_12,
    /// EEVDF as of 6.18.
    V6_18,
    /// EEVDF as of 7.2.
    V7_2,
}

impl Series {
    /// Every known series, oldest first.
    pub const ALL: [Self; 6] = [Self::V2_6_24, Self::V5_10, Self::V6_1, Self::V6_12, Self::V6_18, Self::V7_2];

    /// The newest release of the series that was read when its rules were written: what `6.1` alone stands for.
    pub const fn newest_known(self) -> Release {
        match self {
            Self::V2_6_24 => Release::new(2, 6, 24),
            Self::V5_10 => Release::new(5, 10, 251),
            Self::V6_1 => Release::new(6, 1, 192),
            Self::V6_12 => Release::new(6, 12, 95),
            Self::V6_18 => Release::new(6, 18, 44),
            Self::V7_2 => Release::new(7, 2, 13),
        }
    }

    /// Whether the fair class is EEVDF (from 6.6 on) rather than CFS.
    pub const fn is_eevdf(self) -> bool {
        self as u8 >= Self::V6_12 as u8
    }
}

impl fmt::Display for Series {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::V2_6_24 => "2.6.24",
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V6_18 => "6.18",
            Self::V7_2 => "7.2",
        })
    }
}

/// A kernel release, `major.minor.patch`.
///
/// ```
/// use schedlab_model::{Release, Series};
/// let release: Release = "6.1".parse()?;
/// assert_eq!(release, Series::V6_1.newest_known());
/// let host: Release = "6.18.44-custom".parse()?;
/// assert_eq!(host.series(), Series::V6_18);
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    major: u16,
    minor: u16,
    patch: u16,
}

impl Release {
    /// From its three numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// The series whose rules this release takes: its own, or the newest known one not after it.
    pub fn series(self) -> Series {
        let rank = |series: &Series| {
            let newest = series.newest_known();
            (newest.major, newest.minor) <= (self.major, self.minor)
        };
        Series::ALL.iter().copied().rev().find(rank).unwrap_or(Series::V2_6_24)
    }

    /// A sentence when the release is of no known series and another's rules stand in for its own.
    pub fn stand_in(self) -> Option<String> {
        let newest = self.series().newest_known();
        let own = (self.major, self.minor) == (newest.major, newest.minor);
        (!own).then(|| format!("kernel {self} is of no series schedlab knows; it takes the rules of {}", self.series()))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Release {
    type Err = ModelError;

    /// Reads `6.1`, `6.1.176` or `uname -r`'s `6.1.0-50-amd64`; anything after the numbers is passed over.
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let known = || Series::ALL.map(|series| series.to_string()).join(", ");
        let wrong = |why: String| ModelError::Release { found: text.to_owned(), why };
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let numbers: Vec<u16> = text[..end]
            .trim_end_matches('.')
            .split('.')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| wrong(format!("write major.minor or major.minor.patch; known series: {}", known())))?;
        let release = match numbers[..] {
            [major, minor] => Self::new(major, minor, 0),
            [major, minor, patch, ..] => Self::new(major, minor, patch),
            _ => return Err(wrong(format!("write major.minor or major.minor.patch; known series: {}", known()))),
        };
        if release < Series::V2_6_24.newest_known() {
            return Err(wrong(format!("it is older than the oldest known series; known: {}", known())));
        }
        let bare = numbers.len() == 2;
        Ok(if bare && release.stand_in().is_none() { release.series().newest_known() } else { release })
    }
}

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Release {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_newer_release_takes_the_newest_rules_and_says_so() {
        let release: Release = "7.9.1".parse().unwrap();
        assert_eq!(release.series(), Series::V7_2);
        assert!(release.stand_in().unwrap().contains("7.2"));
    }

    #[test]
    fn a_release_between_series_takes_the_older_ones_rules() {
        let release: Release = "5.15.3".parse().unwrap();
        assert_eq!(release.series(), Series::V5_10);
        assert!(release.stand_in().is_some());
    }

    #[test]
    fn too_old_and_malformed_releases_are_refused() {
        for text in ["2.6.18", "six", "6", "", "6..1", "70000.1"] {
            assert!(text.parse::<Release>().is_err(), "{text}");
        }
    }
}
