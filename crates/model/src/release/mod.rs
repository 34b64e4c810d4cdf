//! Kernel releases and the series whose rules are known.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ModelError;

mod rows;
mod switch;
mod table;

pub use rows::RuleSet;
pub use table::{Commit, Row, RowKind};

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
    /// EEVDF with one timeline for the tasks of all groups (7.3).
    V7_3,
}

impl Series {
    /// The last known series whose fair class is CFS.
    pub const LAST_CFS: Self = Self::V6_1;
    /// The first known series whose fair class is EEVDF.
    pub const FIRST_EEVDF: Self = Self::V6_12;
    /// The newest known series.
    pub const NEWEST: Self = Self::V7_3;

    /// Every known series, oldest first.
    pub const ALL: [Self; 7] =
        [Self::V2_6_24, Self::V5_10, Self::V6_1, Self::V6_12, Self::V6_18, Self::V7_2, Self::V7_3];

    /// The newest release of the series that was read when its rules were written: what `6.1` alone means.
    pub const fn newest_known(self) -> Release {
        match self {
            Self::V2_6_24 => Release::new(2, 6, 24),
            Self::V5_10 => Release::new(5, 10, 251),
            Self::V6_1 => Release::new(6, 1, 192),
            Self::V6_12 => Release::new(6, 12, 95),
            Self::V6_18 => Release::new(6, 18, 44),
            Self::V7_2 => Release::new(7, 2, 13),
            Self::V7_3 => Release::new(7, 3, 4),
        }
    }

    /// Whether recordings of its kernels can be replayed.
    pub const fn is_replayed(self) -> bool {
        !matches!(self, Self::V2_6_24)
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
            Self::V7_3 => "7.3",
        })
    }
}

/// A kernel release, `major.minor.patch`.
///
/// A release of a series whose rules are not known is only read with a leading `~`, which asks for the nearest known series' rules; it
/// keeps the `~` wherever it is shown.
///
/// ```
/// use schedlab_model::{Release, Series};
/// let release: Release = "6.1".parse()?;
/// assert_eq!(release, Series::V6_1.newest_known());
/// let host: Release = "6.18.44-custom".parse()?;
/// assert_eq!(host.series(), Series::V6_18);
/// assert!("6.8".parse::<Release>().is_err());
/// assert_eq!("~6.8".parse::<Release>()?.series(), Series::V6_12);
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

    /// Reads what `uname -r` prints, of an unknown series too: the nearest known series then stands in, as with a leading `~`.
    ///
    /// # Errors
    /// [`ModelError::Release`] for text that is not a kernel release, and for one older than every known series.
    pub fn or_nearest(text: &str) -> Result<Self, ModelError> {
        read(text, text.strip_prefix('~').unwrap_or(text))
    }

    /// The mainline release that it is of, or of whose series' its point is: `6.12` of `6.12.63`, `2.6.24` itself.
    pub const fn mainline(self) -> Self {
        if self.major < 3 { self } else { Self { patch: 0, ..self } }
    }

    /// Whether it is `point` or a later one of that point's series.
    pub fn has_backport(self, point: Self) -> bool {
        self.mainline() == point.mainline() && self >= point
    }

    /// The series that the release belongs to, if its rules are known.
    pub fn known_series(self) -> Option<Series> {
        Series::ALL.into_iter().find(|series| {
            let newest = series.newest_known();
            // Before 3.0 a series had three numbers.
            (self.major, self.minor) == (newest.major, newest.minor) && (self.major > 2 || self.patch == newest.patch)
        })
    }

    /// The series whose rules the release takes: its own, or the nearest known one.
    ///
    /// Nearest is the known series with the same fair class (EEVDF from 6.6 on, CFS before) from which the fewest mainline releases
    /// lie in between; of two equally near, the older, whose rules the release has inherited.
    pub fn series(self) -> Series {
        let apart = |series: &Series| series.newest_known().position().abs_diff(self.position());
        let same_class = |series: &Series| series.is_eevdf() == (self >= Self::new(6, 6, 0));
        let known = || Series::ALL.into_iter().filter(same_class);
        self.known_series().or_else(|| known().min_by_key(apart)).unwrap_or(Series::NEWEST)
    }

    /// Its place among the mainline releases, counted from 2.6.0.
    fn position(self) -> u32 {
        // 2.6.0 to 2.6.39, 3.0 to 3.19, 4.0 to 4.20, then twenty of each number.
        match self.major {
            ..=2 => u32::from(self.patch),
            3 => 40 + u32::from(self.minor),
            4 => 60 + u32::from(self.minor),
            major => 81 + 20 * (u32::from(major) - 5) + u32::from(self.minor),
        }
    }

    /// What to know before relying on the rules: a sentence where they were not read from this very release.
    pub fn note(self) -> Option<String> {
        let newest = self.series().newest_known();
        let why = match self.known_series() {
            None => {
                let class = if newest.series().is_eevdf() { "EEVDF" } else { "CFS" };
                format!(
                    "is of no series whose rules are known; the rules of {newest} stand in, of the nearest series with {class}"
                )
            }
            Some(_) if self > newest => {
                format!("is newer than {newest}, the newest of its series whose rules are known; it takes those")
            }
            Some(_) if self < newest => format!(
                "is older than {newest}, whose rules were read; it takes those, without the stable changes in between that are known"
            ),
            Some(_) => return None,
        };
        Some(format!("kernel {}.{}.{} {why}", self.major, self.minor, self.patch))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = if self.known_series().is_some() { "" } else { "~" };
        write!(formatter, "{nearest}{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Release {
    type Err = ModelError;

    /// Reads `6.1`, `6.1.176`, `~6.8` or what `uname -r` prints, such as `6.1.0-50-amd64`.
    ///
    /// Two to four numbers with dots between, then nothing, or `-` or `+` and letters, digits and `.`, `_`, `+`, `-`, `~`; at most 64
    /// characters, as many as the kernel's own name has room for. `6.1` alone is the newest release of the series that is known.
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let release = Self::or_nearest(text)?;
        if text.starts_with('~') || release.known_series().is_some() {
            return Ok(release);
        }
        let plain = release.to_string();
        let series = release.series();
        let why = format!(
            "its series' rules are not known; known series: {}; '{plain}' takes the rules of the nearest, {series}",
            known()
        );
        Err(ModelError::Release { found: text.to_owned(), why })
    }
}

/// The longest name a kernel has for its release (`__NEW_UTS_LEN`).
const LONGEST: usize = 64;

/// The known series, for messages.
fn known() -> String {
    Series::ALL.map(|series| series.to_string()).join(", ")
}

/// Reads `bare`, a release without `~`; `text` is what was given.
fn read(text: &str, bare: &str) -> Result<Release, ModelError> {
    let wrong = |why: String| ModelError::Release { found: text.chars().take(2 * LONGEST).collect(), why };
    let form = || wrong(format!("write major.minor or major.minor.patch, as uname -r does; known series: {}", known()));
    let end = bare.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(bare.len());
    let (numbers, suffix) = bare.split_at(end);
    // WSL's kernels have four numbers, and packages end theirs with ".el9": the dot belongs to the suffix.
    let suffix_is_sound = suffix.is_empty()
        || suffix.starts_with(['-', '+'])
            && suffix[1..].chars().all(|c| c.is_ascii_alphanumeric() || "._+-~".contains(c));
    if bare.len() > LONGEST || !suffix_is_sound {
        return Err(form());
    }
    let numbers: Vec<u16> = numbers.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| form())?;
    let release = match numbers[..] {
        [major, minor] => Release::new(major, minor, 0),
        [major, minor, patch] | [major, minor, patch, _] => Release::new(major, minor, patch),
        _ => return Err(form()),
    };
    if release < Series::V2_6_24.newest_known() {
        return Err(wrong(format!("it is older than the oldest known series; known: {}", known())));
    }
    match release.known_series() {
        Some(series) if numbers.len() == 2 && suffix.is_empty() => Ok(series.newest_known()),
        _ => Ok(release),
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

    fn read(text: &str) -> Release {
        text.parse().unwrap()
    }

    #[test]
    fn an_unknown_series_is_refused_with_the_known_ones() {
        for text in ["6.6", "6.8", "6.8.12-generic", "5.15.3", "7.9.1", "2.6.30"] {
            let error = text.parse::<Release>().unwrap_err().to_string();
            assert!(
                error.contains("2.6.24, 5.10, 6.1, 6.12, 6.18, 7.2, 7.3") && error.contains("~"),
                "{text}: {error}"
            );
            assert!(serde_json::from_value::<Release>(text.into()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_tilde_takes_the_nearest_series_of_the_same_fair_class_and_says_so() {
        // Releases apart: 5.4 is 6 before 5.10; 5.15 is 5 after 5.10 and 6 before 6.1; 6.5 is 4 after 6.1, the last with CFS;
        // 6.6 begins EEVDF; 6.15 is 3 from 6.12 and from 6.18; 6.17 is 1 before 6.18.
        for (text, series) in [
            ("~2.6.30", Series::V2_6_24),
            ("~5.4", Series::V5_10),
            ("~5.15.3", Series::V5_10),
            ("~5.19", Series::V6_1),
            ("~6.5", Series::V6_1),
            ("~6.6", Series::V6_12),
            ("~6.8.0-45-generic", Series::V6_12),
            ("~6.15", Series::V6_12),
            ("~6.17", Series::V6_18),
            ("~7.0", Series::V6_18),
            ("~7.9.1", Series::V7_3),
        ] {
            let release = read(text);
            assert_eq!(release.series(), series, "{text}");
            assert!(release.note().unwrap().contains(&series.newest_known().to_string()), "{text}");
            assert!(release.to_string().starts_with('~') && read(&release.to_string()) == release, "{text}");
        }
        assert_eq!(read("~6.1"), read("6.1"));
    }

    #[test]
    fn another_point_release_of_a_known_series_says_which_rules_it_takes() {
        assert!(read("6.1.300").note().unwrap().contains("newer than 6.1.192"));
        assert!(read("6.12.30").note().unwrap().contains("older than 6.12.95"));
        for series in Series::ALL {
            assert_eq!(read(&series.to_string()).note(), None, "{series}");
        }
    }

    #[test]
    fn what_uname_prints_is_read() {
        for (text, release) in [
            ("6.1.0-50-amd64", Release::new(6, 1, 0)),
            ("6.12.43+deb13-amd64", Release::new(6, 12, 43)),
            ("5.10.16.3-microsoft-standard-WSL2", Release::new(5, 10, 16)),
            ("6.12.0-55.9.1.el10_0.x86_64", Release::new(6, 12, 0)),
            ("6.18.0-rc3+", Release::new(6, 18, 0)),
        ] {
            assert_eq!(read(text), release, "{text}");
        }
        assert_eq!(Release::or_nearest("6.8.0-45-generic").unwrap(), read("~6.8"));
    }

    #[test]
    fn too_old_and_malformed_releases_are_refused() {
        let long = format!("6.1.1-{}", "a".repeat(64));
        for text in [
            "2.6.18",
            "six",
            "6",
            "",
            "6..1",
            "70000.1",
            "6.1; rm",
            "6.1.1-a b",
            "6.1.",
            "6.1x",
            "~~6.8",
            "6.1.1.1.1",
            "6.1\n",
            &long,
        ] {
            assert!(text.parse::<Release>().is_err(), "{text}");
            assert!(Release::or_nearest(text).is_err(), "{text}");
        }
    }
}
