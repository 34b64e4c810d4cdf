//! From the recorded steps of tasks to a workload.

use std::collections::{BTreeMap, HashSet};

use schedlab_model::{Attributes, Duration, Group, Step, Task, TaskKind, Time, Workload};
use schedlab_trace::Pid;

use crate::activity::Activity;
use crate::observer::Observer;
use crate::periodic::find_periods;
use crate::repeat::{Stretch, stretches};
use crate::task_table::{KnownTask, group_path};
use crate::task_trace::{State, TaskTrace, policy_of};
use crate::wake_group::WakeGroups;
use crate::{Ending, InferError};

/// The timer's name; one that begins so is each task's own.
const TIMER: &str = "unique";
/// The mark at which the recorded command begins.
const COMMAND: &str = "command";

/// Facts besides the events.
pub(crate) struct Background {
    pub(crate) name: String,
    pub(crate) known_tasks: BTreeMap<Pid, KnownTask>,
    pub(crate) groups: Vec<(u64, String, Group)>,
    /// Whether sessions share their tasks' weight.
    pub(crate) autogroup: bool,
    /// The task that became the recorded command.
    pub(crate) command: Option<u32>,
    pub(crate) ending: Ending,
    /// How long the recording is, in nanoseconds.
    pub(crate) length: u64,
}

/// A task that others are told of under a name of its own.
pub(crate) fn names(traces: &[TaskTrace]) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    traces
        .iter()
        .map(|trace| {
            let letter = |c: char| if c.is_ascii_alphanumeric() || "_.:+/".contains(c) { c } else { '_' };
            let clean: String = trace.name.chars().map(letter).collect();
            let mut name = format!("{clean}-{}", trace.pid);
            // A number may be given again.
            while !taken.insert(name.clone()) {
                name.push('\'');
            }
            name
        })
        .collect()
}

/// Makes the workload.
pub(crate) fn synthesize(
    observer: &mut Observer,
    names: &[String],
    background: &Background,
) -> Result<Workload, InferError> {
    let Observer { traces, changes, counts, wake_groups, .. } = observer;
    let there: Vec<bool> = traces.iter().map(|trace| trace.ran).collect();
    let settled = wake_groups.settle(&there);
    if !there.contains(&true) {
        return Err(InferError::Empty(String::new()));
    }
    let open = background.ending == Ending::Time;
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let mut tasks = Vec::with_capacity(traces.len());
    for (number, trace) in traces.iter_mut().enumerate().filter(|(number, _)| there[*number]) {
        counts.costs_ns += trace.log.costs;
        counts.uncovered_ns += trace.log.uncovered();
        counts.periodic += u64::from(find_periods(&mut trace.log));
        close(trace, open, background.length);
        trace.log.activities.retain_mut(|activity| match activity {
            Activity::Wake(other) | Activity::Fork(other) => there[*other as usize],
            Activity::WakeAll(group) => match settled[*group as usize] {
                Some(instead) => {
                    *activity = instead;
                    true
                }
                None => false,
            },
            _ => true,
        });
        let told = Synthesizer { names, changes, wake_groups, own: &names[number] };
        counts.steps += trace.log.activities.len() as u64;
        // What was made once is not made again.
        let once = trace
            .log
            .activities
            .iter()
            .rposition(|activity| matches!(activity, Activity::Fork(_)))
            .map_or(0, |at| at + 1);
        let (before, over) = trace.log.activities.split_at(once);
        let goes_on = open && trace.state != State::Dead && takes_time(over);
        let mut steps = if goes_on { told.steps(before) } else { told.steps(&trace.log.activities) };
        if goes_on {
            steps.push(Step::Forever(told.steps(over)));
        }
        let asleep = !trace.born
            && matches!(trace.log.activities.first(), Some(Activity::Sleep(_) | Activity::Timer(_) | Activity::Await));
        trace.log.activities = Vec::new();
        if !open && background.command == Some(number as u32) {
            // A task that is asleep at the start begins behind that sleep.
            steps.insert(usize::from(asleep), Step::Mark(COMMAND.to_owned()));
        }
        let known = background.known_tasks.get(&trace.pid).filter(|_| trace.parent.is_none());
        counts.kernel_threads += u64::from(known.is_some_and(|known| known.of_kernel));
        let taskgroup = trace.group.clone().filter(|_| trace.parent.is_none());
        groups.extend(taskgroup.iter().map(|path| (path.clone(), Group::default())));
        tasks.push(Task {
            name: names[number].clone(),
            instances: u32::from(trace.parent.is_none()),
            kind: TaskKind::Process,
            attributes: trace.parent.is_none().then(|| attributes(trace, known)),
            taskgroup,
            asleep: trace.parent.is_none() && asleep && !steps.is_empty(),
            session: known.and_then(|known| known.session.clone()).filter(|_| background.autogroup),
            steps,
            ..Task::default()
        });
    }
    counts.tasks = tasks.len() as u64;
    for change in changes.iter_mut() {
        if let Some(path) = &mut change.taskgroup {
            *path = group_path(path);
            if path != "/" {
                groups.insert(path.clone(), Group::default());
            }
        }
    }
    settle_groups(&mut groups, observer, background);
    Ok(Workload {
        name: background.name.clone(),
        duration: open.then(|| Time::from_nanos(background.length.max(1))),
        turnaround_from: background
            .command
            .filter(|command| !open && there[*command as usize])
            .map(|_| COMMAND.to_owned()),
        groups,
        tasks,
        ..Workload::default()
    })
}

/// How it was when the recording ended: a task that goes on has to begin anew where it began.
fn close(trace: &mut TaskTrace, open: bool, length: u64) {
    if !open || trace.state != State::Asleep {
        return;
    }
    let waits = |activity: &&Activity| matches!(activity, Activity::Await | Activity::Sleep(_));
    let first = trace.log.activities.first();
    match trace.log.activities.iter().rev().find(waits) {
        // It waits at the end for the task that it waited for at the beginning.
        Some(Activity::Await) if first == Some(&Activity::Await) => {}
        Some(Activity::Await) => trace.log.activities.push(Activity::Await),
        _ => trace.log.activities.push(Activity::Sleep(length.saturating_sub(trace.since))),
    }
}

/// Whether doing it over and over takes time.
fn takes_time(activities: &[Activity]) -> bool {
    activities
        .iter()
        .any(|activity| matches!(activity, Activity::Run(1..) | Activity::Sleep(1..) | Activity::Timer(1..)))
}

fn attributes(trace: &TaskTrace, known: Option<&KnownTask>) -> Attributes {
    let mut attributes = known.map(|known| known.attributes.clone()).unwrap_or_default();
    let told = known.map(|known| known.priority);
    // It may have changed between the table and the first sight of it.
    if let Some(seen) = trace.first_priority.filter(|seen| Some(*seen) != told) {
        let deadline = seen < 0 && attributes.policy.is_deadline();
        if !deadline {
            (attributes.policy, attributes.nice) = policy_of(seen);
        }
    }
    attributes
}

/// The settings of the groups that tasks are in, and of those above them.
fn settle_groups(groups: &mut BTreeMap<String, Group>, observer: &Observer, background: &Background) {
    let mut above = Vec::new();
    for path in groups.keys() {
        let mut path = path.as_str();
        while let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            above.push(parent.to_owned());
            path = parent;
        }
    }
    groups.extend(above.into_iter().map(|path| (path, Group::default())));
    for (path, settings) in groups.iter_mut() {
        if let Some((.., known)) = background.groups.iter().find(|(_, known, _)| known == path) {
            *settings = known.clone();
        }
        let shares = observer.group_shares.iter().find(|(given, _)| group_path(given) == *path);
        if let Some((_, shares)) = shares.filter(|(_, shares)| (2..=1 << 18).contains(*shares)) {
            (settings.weight, settings.shares) = (None, (*shares != 1024).then_some(*shares));
        }
    }
}

struct Synthesizer<'a> {
    names: &'a [String],
    changes: &'a [schedlab_model::Change],
    wake_groups: &'a WakeGroups,
    own: &'a str,
}

impl Synthesizer<'_> {
    fn steps(&self, activities: &[Activity]) -> Vec<Step> {
        let mut steps = Vec::new();
        for Stretch { at, length, rounds } in stretches(activities) {
            let part = activities[at..at + length].iter().map(|activity| self.step(*activity));
            if rounds == 1 {
                steps.extend(part);
            } else {
                steps.push(Step::Loop { count: rounds, steps: part.collect() });
            }
        }
        steps
    }

    fn step(&self, activity: Activity) -> Step {
        let fixed = |time| Duration::Fixed(Time::from_nanos(time));
        match activity {
            Activity::Run(time) => Step::Run(fixed(time)),
            Activity::Sleep(time) => Step::Sleep(fixed(time)),
            Activity::Timer(time) => {
                Step::Timer { timer: TIMER.to_owned(), period: Time::from_nanos(time), own: true, absolute: true }
            }
            Activity::Await => Step::Acquire(self.own.to_owned()),
            Activity::Wake(other) => Step::Post(self.names[other as usize].clone()),
            Activity::WakeAll(group) => {
                let names = self.wake_groups.of(group).iter().map(|other| self.names[*other as usize].clone());
                Step::PostAll(names.collect())
            }
            Activity::Fork(other) => Step::Fork { task: self.names[other as usize].clone(), count: 1 },
            Activity::Set(change) => {
                let mut change = self.changes[change as usize].clone();
                if let Some(path) = &mut change.taskgroup {
                    *path = group_path(path);
                }
                Step::Set(change)
            }
        }
    }
}
