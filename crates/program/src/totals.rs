//! What a whole run amounts to: its tasks and its traffic.

use std::collections::HashMap;

use schedlab_model::{MAX_TASKS, ModelError, Workload};

use crate::check::refuse;
use crate::{Program, TemplateId, Traffic};

/// What one task of a template does in its life.
#[derive(Default)]
pub(crate) struct Doings {
    /// Children, by template.
    pub(crate) forks: HashMap<TemplateId, u128>,
    /// Traffic, by channel.
    pub(crate) traffic: HashMap<u32, Traffic>,
}

/// Finds how many tasks of each template there will be, and what passes through each channel. An error where forks lead back to themselves, no or too
/// many tasks come of them, or a reader would wait for ever.
pub(crate) fn sum_up(workload: &Workload, all_doings: &[Doings], program: &mut Program) -> Result<(), ModelError> {
    let order = parents_first(workload, all_doings)?;
    let mut totals: Vec<u128> = workload.tasks.iter().map(|task| u128::from(task.instances)).collect();
    for parent in order {
        for (child, count) in &all_doings[parent].forks {
            totals[child.index()] = totals[child.index()].saturating_add(totals[parent].saturating_mul(*count));
        }
    }
    let all = totals.iter().fold(0u128, |sum, &count| sum.saturating_add(count));
    let own = workload.tasks.iter().any(|task| task.instances > 0 && !task.background);
    if !own {
        return Err(refuse(workload, "tasks", "none is there from the start; give one at least one instance"));
    }
    if all > u128::from(MAX_TASKS) {
        let many = if all > u128::from(u64::MAX) { "more than 2^64".to_owned() } else { all.to_string() };
        return Err(refuse(workload, "tasks", format!("{many} tasks are too many; allowed: 1 to {MAX_TASKS}")));
    }
    program.total_tasks = saturate(all);
    for ((template, doings), &total) in program.templates.iter_mut().zip(all_doings).zip(&totals) {
        template.total = saturate(total);
        for (channel, traffic) in &doings.traffic {
            program.traffic[*channel as usize].add(*traffic, template.total);
        }
    }
    for (name, traffic) in workload.channels.keys().zip(&program.traffic) {
        // A run that ends by itself may leave a reader waiting.
        if workload.duration.is_none() && traffic.bytes_read > traffic.bytes_written {
            let why = format!(
                "tasks read {} bytes from it, but only {} are ever written, so a reader would wait for ever",
                traffic.bytes_read, traffic.bytes_written
            );
            return Err(refuse(workload, format!("channel '{name}'"), why));
        }
    }
    Ok(())
}

/// Templates in an order in which each comes after all that fork it (Kahn 1962).
fn parents_first(workload: &Workload, all_doings: &[Doings]) -> Result<Vec<usize>, ModelError> {
    let mut forked_by = vec![0usize; all_doings.len()];
    for child in all_doings.iter().flat_map(|doings| doings.forks.keys()) {
        forked_by[child.index()] += 1;
    }
    let mut order: Vec<usize> = (0..forked_by.len()).filter(|&id| forked_by[id] == 0).collect();
    let mut done = 0;
    while let Some(&parent) = order.get(done) {
        done += 1;
        for child in all_doings[parent].forks.keys() {
            forked_by[child.index()] -= 1;
            if forked_by[child.index()] == 0 {
                order.push(child.index());
            }
        }
    }
    // What is left is on a cycle or below one; one that is on it is named.
    match (0..forked_by.len()).find(|&id| forked_by[id] > 0 && reaches(all_doings, id, id)) {
        Some(id) => {
            let name = &workload.tasks[id].name;
            Err(refuse(workload, format!("task '{name}'"), "its forks lead back to itself, without end"))
        }
        None => Ok(order),
    }
}

/// Whether forks lead from one template to another.
fn reaches(all_doings: &[Doings], from: usize, to: usize) -> bool {
    let mut seen = vec![false; all_doings.len()];
    let mut ahead = vec![from];
    while let Some(id) = ahead.pop() {
        for child in all_doings[id].forks.keys() {
            if child.index() == to {
                return true;
            }
            if !std::mem::replace(&mut seen[child.index()], true) {
                ahead.push(child.index());
            }
        }
    }
    false
}

impl Traffic {
    /// Adds `part`, `times` over.
    pub(crate) fn add(&mut self, part: Self, times: u64) {
        let more = |sum: &mut u64, part: u64| *sum = sum.saturating_add(part.saturating_mul(times));
        more(&mut self.messages_written, part.messages_written);
        more(&mut self.bytes_written, part.bytes_written);
        more(&mut self.messages_read, part.messages_read);
        more(&mut self.bytes_read, part.bytes_read);
    }
}

/// A count in 64 bits, the most of them where it needs more.
pub(crate) fn saturate(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
