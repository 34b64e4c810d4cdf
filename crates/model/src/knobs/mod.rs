//! The knob table: every scheduler setting by its one name, with unit, range, defaults by release, scaling and file.
//!
//! Sources: `kernel/sysctl.c` and `kernel/sched_fair.c` (2.6.24), `kernel/sysctl.c` (5.10), `kernel/sched/{debug,fair,rt,core}.c` (6.1 on).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ModelError, Release, Series, Time};

mod features;

pub use features::Features;

/// What a knob's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnobKind {
    /// A time, written with its unit.
    Time {
        /// Least value.
        low: Time,
        /// Greatest value.
        high: Time,
        /// Whether −1 / `unlimited` is a value too.
        unlimited: bool,
    },
    /// A plain number.
    Count {
        /// Least value.
        low: u64,
        /// Greatest value.
        high: u64,
    },
    /// 0 or 1.
    Switch,
}

/// How a default grows with the number of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// It does not.
    None,
    /// × (1 + ⌊log₂ CPUs⌋); from 2.6.33 on the CPUs count at most as 8 (`get_update_sysctl_factor`), before that the
    /// product is capped at 200 ms (`sched_init_granularity`).
    Logarithmic,
}

/// Where a kernel keeps a knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A file under `/proc/sys/kernel`, in units of so many nanoseconds.
    Sysctl {
        /// The file's name.
        file: &'static str,
        /// Nanoseconds a unit (1 for counts and switches).
        unit: u64,
    },
    /// A file under `/sys/kernel/debug/sched`, in nanoseconds, a count or a switch.
    Debugfs {
        /// The file's name.
        file: &'static str,
    },
}

impl Place {
    /// The absolute path of the file.
    pub fn path(self) -> String {
        match self {
            Self::Sysctl { file, .. } => format!("/proc/sys/kernel/{file}"),
            Self::Debugfs { file } => format!("/sys/kernel/debug/sched/{file}"),
        }
    }

    /// Nanoseconds a unit of the file's number.
    pub const fn unit(self) -> u64 {
        match self {
            Self::Sysctl { unit, .. } => unit,
            Self::Debugfs { .. } => 1,
        }
    }
}

/// A knob in one series of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnobSetting {
    /// The default before scaling, in nanoseconds, a count, or 0/1.
    pub default: u64,
    /// How the default scales with CPUs.
    pub scaling: Scaling,
    /// Where the kernel keeps it.
    pub place: Place,
}

/// One knob over all kernels.
#[derive(Debug, Clone, Copy)]
pub struct Knob {
    /// The one name, the kernel's without its prefix and unit.
    pub name: &'static str,
    /// Kind of value and range.
    pub kind: KnobKind,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// What replaces the knob in kernels without it, or since when it exists.
    pub instead: &'static str,
    /// Whether the simulator acts on it.
    pub simulated: bool,
    setting: fn(Series) -> Option<KnobSetting>,
}

impl Knob {
    /// The knob in kernels of `series`, if they have it.
    pub fn setting(&self, series: Series) -> Option<KnobSetting> {
        (self.setting)(series)
    }

    /// The default value on `release` with `cpus` CPUs.
    ///
    /// # Errors
    /// [`ModelError::KnobNotInRelease`] where the kernel lacks the knob.
    pub fn default(&self, release: Release, cpus: u32) -> Result<KnobValue, ModelError> {
        let setting = self.setting(release.series()).ok_or_else(|| self.missing(release))?;
        let default = self.early_default(release).unwrap_or(setting.default);
        let scaled = match setting.scaling {
            Scaling::None => default,
            Scaling::Logarithmic if release.series() == Series::V2_6_24 => {
                (default * u64::from(1 + cpus.max(1).ilog2())).min(200_000_000)
            }
            Scaling::Logarithmic => default * u64::from(1 + cpus.clamp(1, 8).ilog2()),
        };
        Ok(match self.kind {
            KnobKind::Time { .. } => KnobValue::Time(Time::from_nanos(scaled)),
            KnobKind::Count { .. } => KnobValue::Count(scaled),
            KnobKind::Switch => KnobValue::Switch(scaled != 0),
        })
    }

    /// What an early release of a series began with, if a stable backport changed it since: `base_slice` before 6.12.31.
    fn early_default(&self, release: Release) -> Option<u64> {
        let early = release.known_series() == Some(Series::V6_12) && release < Release::new(6, 12, 31);
        (self.name == "base_slice" && early).then_some(750_000)
    }

    /// Whether the simulator acts on the knob for a release of `series`: it does not model the first kernel's balancing.
    pub fn simulated_on(&self, series: Series) -> bool {
        let balances = matches!(self.name, "migration_cost" | "nr_migrate");
        self.simulated && !(balances && series == Series::V2_6_24)
    }

    fn missing(&self, release: Release) -> ModelError {
        ModelError::KnobNotInRelease {
            name: self.name.to_owned(),
            release: release.to_string(),
            instead: self.instead.to_owned(),
        }
    }

    /// Reads a value as a person writes it, and checks its kind and range.
    ///
    /// # Errors
    /// [`ModelError::KnobValue`] with what is allowed.
    pub fn parse(&self, text: &str) -> Result<KnobValue, ModelError> {
        let wrong = |why: String| ModelError::KnobValue { name: self.name.to_owned(), found: text.to_owned(), why };
        match self.kind {
            KnobKind::Time { low, high, unlimited } => {
                if unlimited && matches!(text, "-1" | "unlimited") {
                    return Ok(KnobValue::Unlimited);
                }
                let allowed = format!("allowed: {low} to {high}{}", if unlimited { ", or -1 / unlimited" } else { "" });
                let time: Time = text.parse().map_err(|error: ModelError| wrong(format!("{error}; {allowed}")))?;
                if time < low || time > high {
                    return Err(wrong(format!("out of range; {allowed}")));
                }
                Ok(KnobValue::Time(time))
            }
            KnobKind::Count { low, high } => {
                let allowed = format!("allowed: a whole number from {low} to {high}, without a unit");
                let count: u64 = text.parse().map_err(|_| wrong(allowed.clone()))?;
                if count < low || count > high {
                    return Err(wrong(allowed));
                }
                Ok(KnobValue::Count(count))
            }
            KnobKind::Switch => match text {
                "0" | "off" | "false" => Ok(KnobValue::Switch(false)),
                "1" | "on" | "true" => Ok(KnobValue::Switch(true)),
                _ => Err(wrong("allowed: 0 or 1".to_owned())),
            },
        }
    }
}

/// A knob's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KnobValue {
    /// Off or on.
    Switch(bool),
    /// A plain number.
    Count(u64),
    /// A time.
    Time(Time),
    /// No limit (−1 to the kernel).
    #[serde(with = "unlimited")]
    Unlimited,
}

mod unlimited {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    pub fn serialize<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("unlimited")
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "unlimited" | "-1" => Ok(()),
            other => Err(D::Error::custom(format!("'{other}' is not a knob value"))),
        }
    }
}

impl fmt::Display for KnobValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => write!(formatter, "{}", u8::from(*on)),
            Self::Count(count) => write!(formatter, "{count}"),
            Self::Time(time) => write!(formatter, "{time}"),
            Self::Unlimited => formatter.write_str("unlimited"),
        }
    }
}

const fn time(low: u64, high: u64) -> KnobKind {
    KnobKind::Time { low: Time::from_nanos(low), high: Time::from_nanos(high), unlimited: false }
}

const fn sysctl(default: u64, scaling: Scaling, file: &'static str, unit: u64) -> Option<KnobSetting> {
    Some(KnobSetting { default, scaling, place: Place::Sysctl { file, unit } })
}

const fn debugfs(default: u64, scaling: Scaling, file: &'static str) -> Option<KnobSetting> {
    Some(KnobSetting { default, scaling, place: Place::Debugfs { file } })
}

const GRANULARITY: u64 = 100_000;
const SECOND: u64 = 1_000_000_000;
/// `fair_server_period_max`: 2²² µs.
const SERVER_PERIOD_MAX: u64 = (1 << 22) * 1_000;

/// Every knob schedlab knows, but for `feature.NAME` (see [`Features`]).
pub const KNOBS: &[Knob] = &[
    Knob {
        name: "latency",
        kind: time(GRANULARITY, SECOND),
        summary: "the period in which every runnable task of a CPU should run once",
        instead: "EEVDF kernels (6.6 on) have base_slice and per-task slices in its place",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => sysctl(20_000_000, Scaling::Logarithmic, "sched_latency_ns", 1),
            Series::V5_10 => sysctl(6_000_000, Scaling::Logarithmic, "sched_latency_ns", 1),
            Series::V6_1 => debugfs(6_000_000, Scaling::Logarithmic, "latency_ns"),
            Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => None,
        },
    },
    Knob {
        name: "min_granularity",
        kind: time(GRANULARITY, SECOND),
        summary: "the least time a task keeps its CPU, and with latency the number of tasks that stretches the period",
        instead: "EEVDF kernels (6.6 on) have base_slice in its place",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => sysctl(4_000_000, Scaling::Logarithmic, "sched_min_granularity_ns", 1),
            Series::V5_10 => sysctl(750_000, Scaling::Logarithmic, "sched_min_granularity_ns", 1),
            Series::V6_1 => debugfs(750_000, Scaling::Logarithmic, "min_granularity_ns"),
            Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => None,
        },
    },
    Knob {
        name: "wakeup_granularity",
        kind: time(0, SECOND),
        summary: "how far behind in virtual time a woken task must be to preempt the running one",
        instead: "EEVDF kernels (6.6 on) preempt by eligibility and deadline: set slices instead",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => sysctl(10_000_000, Scaling::Logarithmic, "sched_wakeup_granularity_ns", 1),
            Series::V5_10 => sysctl(1_000_000, Scaling::Logarithmic, "sched_wakeup_granularity_ns", 1),
            Series::V6_1 => debugfs(1_000_000, Scaling::Logarithmic, "wakeup_granularity_ns"),
            Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => None,
        },
    },
    Knob {
        name: "base_slice",
        kind: time(GRANULARITY, SECOND),
        summary: "the slice of a task that did not ask for one (EEVDF)",
        instead: "CFS kernels (before 6.6) have latency and min_granularity in its place",
        simulated: true,
        setting: |series| match series {
            Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => {
                debugfs(700_000, Scaling::Logarithmic, "base_slice_ns")
            }
            _ => None,
        },
    },
    Knob {
        name: "child_runs_first",
        kind: KnobKind::Switch,
        summary: "a forked child runs before its parent goes on",
        instead: "EEVDF kernels (6.6 on) place a child by lag and deadline",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => sysctl(1, Scaling::None, "sched_child_runs_first", 1),
            Series::V5_10 | Series::V6_1 => sysctl(0, Scaling::None, "sched_child_runs_first", 1),
            Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => None,
        },
    },
    Knob {
        name: "rr_timeslice",
        kind: time(1_000_000, 10 * SECOND),
        summary: "the slice of SCHED_RR tasks",
        instead: "it is a constant of 100 ms before 3.9",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => None,
            _ => sysctl(100_000_000, Scaling::None, "sched_rr_timeslice_ms", 1_000_000),
        },
    },
    Knob {
        name: "rt_runtime",
        kind: KnobKind::Time { low: Time::ZERO, high: Time::from_nanos(4_294 * SECOND), unlimited: true },
        summary: "how much of each rt_period real-time tasks may use (before 6.12), and the bandwidth deadline tasks may be \
                  given (every kernel that has them); without RT_GROUP_SCHED it throttles nothing from 6.12 on",
        instead: "it came with 2.6.25",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => None,
            _ => sysctl(950_000_000, Scaling::None, "sched_rt_runtime_us", 1_000),
        },
    },
    Knob {
        name: "rt_period",
        kind: time(1_000, 4_294 * SECOND),
        summary: "the period of rt_runtime",
        instead: "it came with 2.6.25",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => None,
            _ => sysctl(SECOND, Scaling::None, "sched_rt_period_us", 1_000),
        },
    },
    Knob {
        name: "migration_cost",
        kind: time(0, 4 * SECOND),
        summary: "how long after running a task counts as cache-hot, and the least idle time that newly-idle balancing wants",
        instead: "every known kernel has it",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => sysctl(500_000, Scaling::None, "sched_migration_cost", 1),
            Series::V5_10 => sysctl(500_000, Scaling::None, "sched_migration_cost_ns", 1),
            _ => debugfs(500_000, Scaling::None, "migration_cost_ns"),
        },
    },
    Knob {
        name: "nr_migrate",
        kind: KnobKind::Count { low: 0, high: 4_294_967_295 },
        summary: "how many tasks one balancing run looks at",
        instead: "every known kernel has it",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 | Series::V5_10 => sysctl(32, Scaling::None, "sched_nr_migrate", 1),
            _ => debugfs(32, Scaling::None, "nr_migrate"),
        },
    },
    Knob {
        name: "autogroup",
        kind: KnobKind::Switch,
        summary: "each session's tasks share one group's weight",
        instead: "it came with 2.6.38",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => None,
            _ => sysctl(1, Scaling::None, "sched_autogroup_enabled", 1),
        },
    },
    Knob {
        name: "cfs_bandwidth_slice",
        kind: time(1_000, SECOND),
        summary: "how much of a group's quota a CPU takes at once",
        instead: "it came with 3.2",
        simulated: true,
        setting: |series| match series {
            Series::V2_6_24 => None,
            _ => sysctl(5_000_000, Scaling::None, "sched_cfs_bandwidth_slice_us", 1_000),
        },
    },
    Knob {
        name: "fair_server_runtime",
        kind: time(0, SERVER_PERIOD_MAX),
        summary: "what each fair_server_period keeps for fair tasks beside real-time ones, on each CPU; 0 for nothing",
        instead: "it came with 6.12; rt_runtime throttles before",
        simulated: true,
        setting: |series| match series {
            Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => {
                debugfs(50_000_000, Scaling::None, "fair_server/cpu0/runtime")
            }
            _ => None,
        },
    },
    Knob {
        name: "fair_server_period",
        kind: time(100_000, SERVER_PERIOD_MAX),
        summary: "the period of fair_server_runtime (per CPU)",
        instead: "it came with 6.12; rt_period before",
        simulated: true,
        setting: |series| match series {
            Series::V6_12 | Series::V6_18 | Series::V7_2 | Series::V7_3 => {
                debugfs(SECOND, Scaling::None, "fair_server/cpu0/period")
            }
            _ => None,
        },
    },
];

/// The knob called `name`.
///
/// # Errors
/// [`ModelError::UnknownKnob`], with the nearest name and all of them.
///
/// ```
/// use schedlab_model::{find_knob, Release};
/// // 6 ms × (1 + log2 4) = 18 ms on four CPUs.
/// let latency = find_knob("latency")?.default("6.1".parse()?, 4)?;
/// assert_eq!(latency.to_string(), "18ms");
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
pub fn find_knob(name: &str) -> Result<&'static Knob, ModelError> {
    KNOBS.iter().find(|knob| knob.name == name).ok_or_else(|| {
        let stripped = name.trim_start_matches("sched_").trim_end_matches("_ns").trim_end_matches("_us");
        let near = KNOBS
            .iter()
            .map(|knob| knob.name)
            .find(|known| *known == stripped || known.contains(stripped) || stripped.contains(known));
        ModelError::UnknownKnob {
            found: name.to_owned(),
            suggestion: near.map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default(),
            known: KNOBS.iter().map(|knob| knob.name).chain(["feature.NAME"]).collect::<Vec<_>>().join(", "),
        }
    })
}

/// Sets the feature behind a knob name `feature.NAME`.
pub(crate) fn set_feature(
    features: &mut Features,
    release: Release,
    name: &str,
    value: KnobValue,
) -> Result<(), ModelError> {
    let full = || format!("feature.{name}");
    if !Features::exists(release.series(), name) {
        let known: Vec<_> =
            Features::NAMES.iter().copied().filter(|name| Features::exists(release.series(), name)).collect();
        return Err(ModelError::KnobNotInRelease {
            name: full(),
            release: release.to_string(),
            instead: format!("its features are {}", known.join(", ")),
        });
    }
    let KnobValue::Switch(on) = value else {
        let why = "allowed: 0 or 1".to_owned();
        return Err(ModelError::KnobValue { name: full(), found: value.to_string(), why });
    };
    features.set(name, on);
    Ok(())
}
