//! From a request to what is simulated.

use schedlab_model::{Attributes, Placement, Task, Workload};
use schedlab_program::Program;
use schedlab_workloads::rtapp;
use serde_json::json;

use crate::WebError;
use crate::message::Message;
use crate::request::{Setup, Source, Treatment};

/// The workload that a request means, and what of its text does not act.
pub(crate) fn build(setup: &Setup) -> Result<(Workload, Vec<String>), WebError> {
    let (mut workload, notes) = match &setup.workload {
        Source::Builtin(text) => (schedlab_workloads::parse(text)?, Vec::new()),
        Source::Text(text) => {
            let imported = rtapp::read(text, "workload")?;
            (imported.workload, imported.notes)
        }
    };
    for task in &mut workload.tasks {
        if let Some(treatment) = setup.tasks.get(&task.name) {
            treat(task, treatment)?;
        }
    }
    let groups = setup.groups.iter().map(|text| Placement::group(text));
    let placements = groups.chain(setup.sessions.iter().map(|text| Placement::session(text)));
    let placements = placements.collect::<Result<Vec<_>, _>>()?;
    workload = workload.with_placements(&placements)?;
    if let Some(limit) = setup.duration {
        workload.duration = Some(workload.duration.map_or(limit, |own| own.min(limit)));
    }
    Ok((workload, notes))
}

fn treat(task: &mut Task, treatment: &Treatment) -> Result<(), WebError> {
    let Treatment { policy, nice, slice, affinity, group } = treatment;
    if policy.is_some() || nice.is_some() || slice.is_some() || affinity.is_some() {
        let attributes = task.attributes.get_or_insert_with(Attributes::default);
        if let Some(policy) = policy {
            attributes.policy = policy.parse()?;
        }
        attributes.nice = nice.unwrap_or(attributes.nice);
        attributes.slice = slice.or(attributes.slice);
        if let Some(affinity) = affinity {
            attributes.affinity.clone_from(affinity);
        }
    }
    if let Some(group) = group {
        task.taskgroup = Some(group.clone());
    }
    Ok(())
}

/// A workload, checked, as JSON, with its tasks as a page lists them.
pub(crate) fn workload(setup: &Setup) -> Result<Message, WebError> {
    let (workload, notes) = build(setup)?;
    Program::compile(&workload)?;
    let tasks: Vec<_> = workload
        .tasks
        .iter()
        .map(|task| {
            let attributes = task.attributes.clone().unwrap_or_default();
            json!({
                "name": task.name, "instances": task.instances, "policy": attributes.policy.to_string(), "nice": attributes.nice,
                "slice": attributes.slice, "affinity": attributes.affinity, "group": task.taskgroup,
            })
        })
        .collect();
    Ok(Message::new(json!({
        "name": workload.name, "notes": notes, "tasks": tasks, "groups": workload.groups.keys().collect::<Vec<_>>(),
        "json": serde_json::to_string_pretty(&workload)?,
    })))
}
