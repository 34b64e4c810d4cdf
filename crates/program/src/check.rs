//! The checks that a workload must pass, and the form of their errors.

use schedlab_model::{Attributes, Duration, GroupNode, MAX_CPUS, ModelError, Step, Task, Time, Workload};

/// The longest message, in bytes (16 MiB).
pub const MAX_MESSAGE: u32 = 1 << 24;

/// How deep loops may be nested.
pub const MAX_NESTING: u32 = 64;

/// Refuses: names the workload, the place in it, and what is wrong.
pub(crate) fn refuse(workload: &Workload, place: impl Into<String>, why: impl Into<String>) -> ModelError {
    ModelError::Workload { workload: workload.name.clone(), place: place.into(), why: why.into() }
}

/// What is wrong with a message's size, if anything.
pub(crate) fn message_fault(bytes: u32) -> Option<String> {
    (!(1..=MAX_MESSAGE).contains(&bytes))
        .then(|| format!("a message of {bytes} bytes is out of range; allowed: 1 to {MAX_MESSAGE}"))
}

/// What is wrong with a duration, if anything.
pub(crate) fn duration_fault(duration: Duration) -> Option<String> {
    match duration {
        Duration::Uniform { low, high } if low > high => {
            Some(format!("a uniform time from {low} to {high} has its least above its greatest"))
        }
        _ => None,
    }
}

/// What is wrong with attributes, if anything.
pub(crate) fn attributes_fault(attributes: &Attributes) -> Option<String> {
    let slices = Time::from_micros(100)..=Time::from_millis(100);
    if let Some(fault) = attributes.policy.fault() {
        return Some(fault);
    }
    if !(-20..=19).contains(&attributes.nice) {
        return Some(format!("nice level {} is out of range; allowed: -20 to 19", attributes.nice));
    }
    if let Some(slice) = attributes.slice.filter(|slice| !slices.contains(slice)) {
        return Some(format!("a slice of {slice} is out of range; allowed: {} to {}", slices.start(), slices.end()));
    }
    let cpu = attributes.affinity.iter().find(|&&cpu| cpu >= MAX_CPUS)?;
    Some(format!("CPU {cpu} in the affinity is out of range; allowed: 0 to {}", MAX_CPUS - 1))
}

/// What is wrong with a task that is asleep at the start, if anything.
pub(crate) fn asleep_fault(task: &Task) -> Option<String> {
    if !task.asleep {
        return None;
    }
    if task.delay > Time::ZERO {
        return Some("it is asleep at the start, and has a delay, too; give it a sleep first".to_owned());
    }
    let mut first = task.steps.first();
    while let Some(Step::Loop { steps, .. } | Step::Forever(steps)) = first {
        first = steps.first();
    }
    let waits = matches!(
        first,
        Some(
            Step::Sleep(_)
                | Step::Timer { .. }
                | Step::Acquire(_)
                | Step::CompleteWrite
                | Step::Dispatch
                | Step::DispatchFlush
                | Step::EndWriteback
                | Step::GracePeriod
        )
    );
    (!waits).then(|| "it is asleep at the start; its first step has to be a sleep, a timer or a semaphore".to_owned())
}

/// What is wrong with a task's group or session, if anything.
pub(crate) fn membership_fault(task: &Task, groups: &[GroupNode]) -> Option<String> {
    if let Some(path) = task.taskgroup.as_deref().filter(|path| *path != "/")
        && !groups.iter().any(|group| group.path == path)
    {
        let known = known(groups.iter().map(|group| group.path.as_str()));
        return Some(format!("no group is called '{path}'; {known}"));
    }
    let empty = task.session.as_ref().is_some_and(|session| session.trim().is_empty());
    empty.then(|| "its session has no name".to_owned())
}

/// How a step is named in a refusal: `step 2.1` is the second step's (a loop's) first.
pub(crate) fn step_place(task: &str, path: &[usize]) -> String {
    let path: Vec<String> = path.iter().map(|index| (index + 1).to_string()).collect();
    format!("task '{task}', step {}", path.join("."))
}

/// The name that a list of names has twice, if any.
pub(crate) fn doubled<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

/// The declared names, for the error about one that is not among them.
pub(crate) fn known<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(8);
    names.truncate(8);
    match (names.is_empty(), more) {
        (true, _) => "none is declared".to_owned(),
        (false, 0) => format!("declared: {}", names.join(", ")),
        (false, more) => format!("declared: {} and {more} more", names.join(", ")),
    }
}
