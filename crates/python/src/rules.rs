//! The table of changes between kernels, and what a scheduler with switched rules is.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use schedlab_model::{Release, RuleSet, Scheduler, rule_rows};
use serde::Serialize;

use crate::errors;

/// Every row of the table, with whether `release` has the rule, as a JSON array.
#[pyfunction]
pub fn rules(release: &str) -> PyResult<String> {
    let release: Release = release.parse().map_err(errors::input)?;
    serde_json::to_string(&rule_rows(release)).map_err(errors::json("rules"))
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
