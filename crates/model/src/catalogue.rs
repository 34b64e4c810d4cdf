//! The knobs, releases and rules that can be set or switched, as rows of a listing.

use serde::Serialize;

use crate::{Features, KNOBS, Knob, KnobKind, KnobSetting, KnobValue, Release, Row, RowKind, RuleSet, Scaling, Series};

/// A knob as a release has it.
#[derive(Debug, Clone, Serialize)]
pub struct KnobRow {
    /// Its name.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// `time`, `count` or `switch`.
    pub kind: &'static str,
    /// The least value, in nanoseconds, a count or 0.
    pub low: u64,
    /// The greatest value.
    pub high: u64,
    /// Whether it may be unlimited.
    pub unlimited: bool,
    /// Whether the release has the knob.
    pub exists: bool,
    /// What replaces the knob in releases without it, or since when it exists.
    pub instead: &'static str,
    /// In nanoseconds, a count or 0/1.
    pub default: Option<u64>,
    /// The default as a person writes it.
    pub default_text: Option<String>,
    /// Whether the default grows with the number of CPUs.
    pub scales_with_cpus: bool,
    /// The file in which the kernel keeps it.
    pub path: Option<String>,
    /// Nanoseconds a unit of the file's number.
    pub unit: u64,
    /// Whether the simulator acts on it.
    pub simulated: bool,
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
            summary: as_summary(Features::meaning(name).unwrap_or_default()),
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

/// A sentence in the form of a knob's summary: without its full stop and its capital.
fn as_summary(sentence: &str) -> String {
    let mut letters = sentence.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn number(value: KnobValue) -> u64 {
    match value {
        KnobValue::Switch(on) => u64::from(on),
        KnobValue::Count(count) => count,
        KnobValue::Time(time) => time.as_nanos(),
        KnobValue::Unlimited => u64::MAX,
    }
}

/// A release as it is listed.
#[derive(Debug, Clone, Serialize)]
pub struct ReleaseRow {
    /// The release.
    pub release: String,
    /// Its series.
    pub series: String,
    /// Whether its series' rules are known.
    pub known: bool,
    /// What to know before relying on the rules.
    pub note: Option<String>,
    /// Whether its fair class is EEVDF.
    pub eevdf: bool,
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

/// A commit of the kernel as it is listed.
#[derive(Debug, Clone, Serialize)]
pub struct CommitRow {
    /// Its short hash.
    pub hash: &'static str,
    /// Its subject.
    pub subject: &'static str,
}

/// A row of the table of changes between kernels, with whether a release has it.
#[derive(Debug, Clone, Serialize)]
pub struct RuleRow {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub does: &'static str,
    /// `flag`, `structure` or `fact`.
    pub kind: &'static str,
    /// Whether the release has it.
    pub on: bool,
    /// The first release that has it.
    pub since: String,
    /// The first release without it again.
    pub until: Option<String>,
    /// The stable releases that took it over.
    pub backports: Vec<String>,
    /// The commit.
    pub commit: Option<CommitRow>,
    /// Why no commit is named.
    pub no_commit: Option<&'static str>,
    /// The rules without which it cannot be on.
    pub requires: &'static [&'static str],
    /// The rules with which it cannot be on.
    pub excludes: &'static [&'static str],
}

impl RuleRow {
    fn new(row: &Row, rules: &RuleSet) -> Self {
        Self {
            name: row.name,
            does: row.does.trim(),
            kind: match row.kind {
                RowKind::Flag => "flag",
                RowKind::Structure => "structure",
                RowKind::Fact => "fact",
            },
            on: rules.get(row.name) == Some(true),
            since: mainline(row.since),
            until: row.until.map(mainline),
            backports: row.backports.iter().map(|point| plain(*point)).collect(),
            commit: row.commit.map(|commit| CommitRow { hash: commit.hash, subject: commit.subject }),
            no_commit: Some(row.no_commit).filter(|why| !why.is_empty()),
            requires: row.requires,
            excludes: row.excludes,
        }
    }
}

/// A release without the mark of an unknown series, which means nothing in the table.
fn plain(release: Release) -> String {
    release.to_string().trim_start_matches('~').to_owned()
}

fn mainline(release: Release) -> String {
    let text = plain(release);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Every knob and feature as `release` has it on a machine of `cpus` CPUs.
pub fn knob_rows(release: Release, cpus: u32) -> Vec<KnobRow> {
    let knobs = KNOBS.iter().map(|knob| KnobRow::new(knob, release, cpus));
    knobs.chain(Features::NAMES.iter().map(|name| KnobRow::feature(name, release.series()))).collect()
}

/// The newest known release of every known series, oldest first.
pub fn release_rows() -> Vec<ReleaseRow> {
    Series::ALL.iter().map(|series| series.newest_known().into()).collect()
}

/// Every row of the table of changes, with whether `release` has the rule.
pub fn rule_rows(release: Release) -> Vec<RuleRow> {
    let rules = RuleSet::of(release);
    RuleSet::ROWS.iter().map(|row| RuleRow::new(row, &rules)).collect()
}
