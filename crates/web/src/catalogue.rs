//! What there is to choose from: releases, workloads, knobs and rules.

use std::collections::BTreeMap;

use schedlab_model::{Release, Scheduler, knob_rows, release_rows, rule_rows};
use schedlab_workloads::{BUILDERS, Key, KeyKind};
use serde_json::{Value, json};

use crate::WebError;
use crate::message::Message;

/// The releases and workloads, and the knobs and rules of `release` on `cpus` CPUs.
pub(crate) fn catalogue(release: &str, cpus: u32, rules: BTreeMap<String, bool>) -> Result<Message, WebError> {
    let release: Release = release.parse()?;
    let mut scheduler = Scheduler::new(release);
    scheduler.rules = rules;
    let set = scheduler.rule_set()?;
    let workloads: Vec<Value> = BUILDERS
        .iter()
        .map(|builder| {
            let keys: Vec<Value> = builder.keys.iter().map(key_row).collect();
            json!({"name": builder.name, "summary": builder.summary, "keys": keys})
        })
        .collect();
    Ok(Message::new(json!({
        "releases": release_rows(), "workloads": workloads, "knobs": knob_rows(scheduler.knobs_release(), cpus),
        "rules": rule_rows(release), "label": scheduler.label(), "eevdf": set.eevdf,
    })))
}

fn key_row(key: &Key) -> Value {
    let (kind, low, high) = match key.kind {
        KeyKind::Count { low, high } => ("count", low, high),
        KeyKind::Bytes { low, high } => ("bytes", low, high),
        KeyKind::Time { low, high } => ("time", low.as_nanos(), high.as_nanos()),
        KeyKind::Switch => ("switch", 0, 1),
    };
    json!({
        "name": key.name, "summary": key.summary, "default": key.default, "allowed": key.kind.to_string(), "kind": kind,
        "low": low, "high": high,
    })
}
