//! Other work of the machine: tasks that share nothing with the workload's own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schedlab_model::{Step, Workload};

/// The step with names that no task of the workload's own can have, where it names what comes to be by being named: mutexes, conditions,
/// barriers, semaphores, timers, memory and ports.
pub(crate) fn named_apart(step: &Step) -> Cow<'_, Step> {
    let mut apart = step.clone();
    let names: Vec<&mut String> = match &mut apart {
        Step::Timer { timer: name, .. }
        | Step::Lock(name)
        | Step::Unlock(name)
        | Step::Signal(name)
        | Step::Broadcast(name)
        | Step::Barrier(name)
        | Step::Post(name)
        | Step::Acquire(name)
        | Step::Request { port: name, .. }
        | Step::Accept { port: name, .. } => vec![name],
        Step::Wait { condition, mutex } => vec![condition, mutex],
        Step::PostAll(names) => names.iter_mut().collect(),
        Step::Memory { buffer, .. } => buffer.shared.iter_mut().collect(),
        _ => return Cow::Borrowed(step),
    };
    for name in names {
        *name = format!("background {name}");
    }
    Cow::Owned(apart)
}

/// What a background task and one of the workload's own both use, and so what is wrong with the workload.
pub(crate) fn shared_fault(workload: &Workload) -> Option<(String, String)> {
    let mut users: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for task in &workload.tasks {
        users.insert(("task", &task.name), task.background);
    }
    for task in &workload.tasks {
        let mut ahead: Vec<&Step> = task.steps.iter().collect();
        while let Some(step) = ahead.pop() {
            let used = match step {
                Step::Write { channel, .. } | Step::Read { channel, .. } => ("channel", channel),
                Step::OpenLatch(latch) | Step::AwaitLatch(latch) => ("latch", latch),
                Step::WriteFile(access)
                | Step::ReadFile(access)
                | Step::SubmitWrite { access, .. }
                | Step::SubmitRead { access, .. } => ("file", &access.file),
                Step::Fork { task, .. } => ("task", task),
                Step::Loop { steps, .. } | Step::Forever(steps) => {
                    ahead.extend(steps);
                    continue;
                }
                _ => continue,
            };
            let (what, name) = used;
            if *users.entry((what, name)).or_insert(task.background) != task.background {
                let why = match what {
                    "task" => "a background task makes one that is none, or the reverse; make both background",
                    _ => "a background task and another both use it; background tasks share nothing with the others",
                };
                return Some((format!("{what} '{name}'"), why.to_owned()));
            }
        }
    }
    None
}
