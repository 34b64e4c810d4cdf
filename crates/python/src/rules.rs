//! The table of changes between kernels, and what a scheduler with switched rules is.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use schedlab_model::{Release, Row, RowKind, RuleSet, Scheduler};
use serde::Serialize;

use crate::errors;

#[derive(Serialize)]
struct CommitRow {
    hash: &'static str,
    subject: &'static str,
}

#[derive(Serialize)]
struct RuleRow {
    name: &'static str,
    does: &'static str,
    /// `flag`, `structure` or `fact`.
    kind: &'static str,
    /// Whether the release has it.
    on: bool,
    since: String,
    until: Option<String>,
    backports: Vec<String>,
    commit: Option<CommitRow>,
    /// Why no commit is named.
    no_commit: Option<&'static str>,
    requires: &'static [&'static str],
    excludes: &'static [&'static str],
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

/// Every row of the table, with whether `release` has the rule, as a JSON array.
#[pyfunction]
pub fn rules(release: &str) -> PyResult<String> {
    let release: Release = release.parse().map_err(errors::input)?;
    let rules = RuleSet::of(release);
    let rows: Vec<RuleRow> = RuleSet::ROWS.iter().map(|row| RuleRow::new(row, &rules)).collect();
    serde_json::to_string(&rows).map_err(errors::json("rules"))
}

#[derive(Serialize)]
struct Resolved {
    label: String,
    notes: Vec<String>,
    /// The switches that change something; empty where a kernel has these rules.
    hybrid: Option<String>,
    knobs_release: String,
    eevdf: bool,
    rules: BTreeMap<&'static str, bool>,
}

/// What a scheduler's JSON stands for: its label, notes and rules in force, as a JSON object.
#[pyfunction]
pub fn resolved_rules(scheduler: &str) -> PyResult<String> {
    let scheduler: Scheduler = serde_json::from_str(scheduler).map_err(errors::input)?;
    let set = scheduler.rule_set().map_err(errors::input)?;
    let resolved = Resolved {
        label: scheduler.label(),
        notes: scheduler.notes(),
        hybrid: RuleSet::hybrid(scheduler.release, &scheduler.rules).map_err(errors::input)?,
        knobs_release: scheduler.knobs_release().to_string(),
        eevdf: set.eevdf,
        rules: RuleSet::ROWS.iter().map(|row| (row.name, set.get(row.name) == Some(true))).collect(),
    };
    serde_json::to_string(&resolved).map_err(errors::json("rules"))
}
