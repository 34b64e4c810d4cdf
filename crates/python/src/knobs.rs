//! The knob table and the known releases.

use pyo3::prelude::*;
use schedlab_model::{Features, KNOBS, Knob, KnobKind, KnobSetting, Release, RuleSet, Scaling, Series};
use serde::Serialize;

use crate::errors;

#[derive(Serialize)]
struct KnobRow {
    name: String,
    summary: String,
    /// `time`, `count` or `switch`.
    kind: &'static str,
    low: u64,
    high: u64,
    unlimited: bool,
    /// The release has it.
    exists: bool,
    /// What took its place, or since when it exists.
    instead: &'static str,
    /// In nanoseconds, a count or 0/1.
    default: Option<u64>,
    default_text: Option<String>,
    scales_with_cpus: bool,
    path: Option<String>,
    /// Nanoseconds a unit of the file's number.
    unit: u64,
    simulated: bool,
}

impl KnobRow {
    fn new(knob: &'static Knob, release: Release, cpus: u32) -> Self {
        let (kind, low, high, unlimited) = match knob.kind {
            KnobKind::Time { low, high, unlimited } => ("time", low.as_nanos(), high.as_nanos(), unlimited),
            KnobKind::Count { low, high } => ("count", low, high, false),
            KnobKind::Switch => ("switch", 0, 1, false),
        };
        let setting: Option<KnobSetting> = knob.setting(release.series());
        let default = knob.default(release, cpus).ok();
        Self {
            name: knob.name.to_owned(),
            summary: knob.summary.to_owned(),
            kind,
            low,
            high,
            unlimited,
            exists: setting.is_some(),
            instead: knob.instead,
            default: default.map(number),
            default_text: default.map(|value| value.to_string()),
            scales_with_cpus: setting.is_some_and(|setting| setting.scaling != Scaling::None),
            path: setting.map(|setting| setting.place.path()),
            unit: setting.map_or(1, |setting| setting.place.unit()),
            simulated: knob.simulated_on(release.series()),
        }
    }

    fn feature(name: &str, series: Series) -> Self {
        let exists = Features::exists(series, name);
        let default = exists.then(|| Features::defaults(series).get(name)).flatten().map(u64::from);
        Self {
            name: format!("feature.{name}"),
            summary: "a flag of kernel/sched/features.h".to_owned(),
            kind: "switch",
            low: 0,
            high: 1,
            unlimited: false,
            exists,
            instead: "other series have it",
            default,
            default_text: default.map(|value| value.to_string()),
            scales_with_cpus: false,
            path: exists.then(|| Features::file(series).to_owned()),
            unit: 1,
            simulated: true,
        }
    }
}

fn number(value: schedlab_model::KnobValue) -> u64 {
    use schedlab_model::KnobValue;
    match value {
        KnobValue::Switch(on) => u64::from(on),
        KnobValue::Count(count) => count,
        KnobValue::Time(time) => time.as_nanos(),
        KnobValue::Unlimited => u64::MAX,
    }
}

/// Every knob as `release` has it on a machine of `cpus` CPUs, as a JSON array.
#[pyfunction]
pub fn knobs(release: &str, cpus: u32) -> PyResult<String> {
    let release: Release = release.parse().map_err(errors::input)?;
    let mut rows: Vec<KnobRow> = KNOBS.iter().map(|knob| KnobRow::new(knob, release, cpus)).collect();
    rows.extend(Features::NAMES.iter().map(|name| KnobRow::feature(name, release.series())));
    serde_json::to_string(&rows).map_err(errors::json("knobs"))
}

#[derive(Serialize)]
struct ReleaseRow {
    release: String,
    series: String,
    /// Whether its series' rules are known.
    known: bool,
    /// What to know before relying on the rules.
    note: Option<String>,
    eevdf: bool,
}

impl From<Release> for ReleaseRow {
    fn from(release: Release) -> Self {
        Self {
            release: release.to_string(),
            series: release.series().to_string(),
            known: release.known_series().is_some(),
            note: release.note(),
            eevdf: RuleSet::of(release).eevdf,
        }
    }
}

/// What `text`, such as `6.1` or what `uname -r` prints, stands for, as a JSON object.
///
/// A release of an unknown series is refused unless it begins with `~` or `nearest` is true: then the nearest series stands in.
#[pyfunction]
#[pyo3(signature = (text, *, nearest=false))]
pub fn release(text: &str, nearest: bool) -> PyResult<String> {
    let release = if nearest { Release::or_nearest(text) } else { text.parse() }.map_err(errors::input)?;
    serde_json::to_string(&ReleaseRow::from(release)).map_err(errors::json("release"))
}

/// The newest known release of every known series, oldest first, as a JSON array.
#[pyfunction]
pub fn releases() -> PyResult<String> {
    let rows: Vec<ReleaseRow> = Series::ALL.iter().map(|series| series.newest_known().into()).collect();
    serde_json::to_string(&rows).map_err(errors::json("releases"))
}
