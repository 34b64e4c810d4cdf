//! From policies, attributes and changes of them to keys.

use schedlab_model::{Attributes, Change, Policy};

use super::json::{Kind, Value, count, number, text, time};
use super::scheduling::Name;

/// Keys and their values, in order.
pub(super) type Entries = Vec<(String, Value)>;

pub(super) fn numbers(values: &[u32]) -> Value {
    Value::new(Kind::Array(values.iter().map(|value| count(u64::from(*value))).collect()))
}

pub(super) fn bounds(clamp: schedlab_model::Clamp, entries: &mut Entries) {
    for (key, bound) in [("util_min", clamp.min), ("util_max", clamp.max)] {
        if let Some(bound) = bound {
            entries.push((key.into(), count(u64::from(bound))));
        }
    }
}

fn policy(policy: Policy, entries: &mut Entries) {
    entries.push(("policy".into(), text(Name::of(policy).text())));
    match policy {
        Policy::Fifo(priority) | Policy::Rr(priority) => {
            entries.push(("priority".into(), count(u64::from(priority))));
        }
        Policy::Deadline { runtime, deadline, period } => {
            for (key, value) in [("dl-runtime", runtime), ("dl-period", period), ("dl-deadline", deadline)] {
                entries.push((key.into(), time(value)));
            }
        }
        Policy::Other | Policy::Batch | Policy::Idle => {}
    }
}

pub(super) fn attributes(attributes: &Attributes, entries: &mut Entries) {
    policy(attributes.policy, entries);
    let fair = matches!(attributes.policy, Policy::Other | Policy::Batch | Policy::Idle);
    if attributes.nice != 0 {
        entries.push((if fair { "priority" } else { "nice" }.into(), number(&attributes.nice.to_string())));
    }
    if let Some(slice) = attributes.slice {
        entries.push((if fair { "dl-runtime" } else { "slice" }.into(), time(slice)));
    }
    if !attributes.affinity.is_empty() {
        entries.push(("cpus".into(), numbers(&attributes.affinity)));
    }
}

/// The keys that make a change.
pub(crate) fn change(change: &Change, entries: &mut Entries) {
    if let Some(policy) = change.policy {
        self::policy(policy, entries);
    }
    match change.nice {
        Some(nice) => entries.push(("nice".into(), number(&nice.to_string()))),
        None if matches!(change.policy, Some(Policy::Other | Policy::Batch | Policy::Idle)) => {
            entries.push(("nice".into(), Value::new(Kind::Null)));
        }
        None => {}
    }
    if let Some(slice) = change.slice {
        entries.push(("slice".into(), time(slice)));
    }
    if let Some(cpus) = &change.affinity {
        entries.push(("cpus".into(), numbers(cpus)));
    }
    if let Some(path) = &change.taskgroup {
        entries.push(("taskgroup".into(), text(path)));
    }
    bounds(change.clamp, entries);
    if let Some(nodes) = &change.nodes {
        entries.push(("nodes_membind".into(), numbers(nodes)));
    }
}
