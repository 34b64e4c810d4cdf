//! From what tasks were seen to do to a workload.

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

/// What is known beside the events.
pub(crate) struct Background {
    pub(crate) name: String,
    pub(crate) people: BTreeMap<Pid, KnownTask>,
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
pub(crate) fn names(lives: &[TaskTrace]) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    lives
        .iter()
        .map(|life| {
            let letter = |c: char| if c.is_ascii_alphanumeric() || "_.:+/".contains(c) { c } else { '_' };
            let clean: String = life.name.chars().map(letter).collect();
            let mut name = format!("{clean}-{}", life.pid);
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
    watch: &mut Observer,
    names: &[String],
    background: &Background,
) -> Result<Workload, InferError> {
    let Observer { lives, changes, counts, wake_groups, .. } = watch;
    let there: Vec<bool> = lives.iter().map(|life| life.ran).collect();
    let settled = wake_groups.settle(&there);
    if !there.contains(&true) {
        return Err(InferError::Empty(String::new()));
    }
    let open = background.ending == Ending::Time;
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let mut tasks = Vec::with_capacity(lives.len());
    for (number, life) in lives.iter_mut().enumerate().filter(|(number, _)| there[*number]) {
        counts.costs_ns += life.story.costs;
        counts.uncovered_ns += life.story.uncovered();
        counts.periodic += u64::from(find_periods(&mut life.story));
        close(life, open, background.length);
        life.story.doings.retain_mut(|doing| match doing {
            Activity::Wake(other) | Activity::Fork(other) => there[*other as usize],
            Activity::WakeAll(group) => match settled[*group as usize] {
                Some(instead) => {
                    *doing = instead;
                    true
                }
                None => false,
            },
            _ => true,
        });
        let told = Synthesizer { names, changes, wake_groups, own: &names[number] };
        counts.steps += life.story.doings.len() as u64;
        // What was made once is not made again.
        let once =
            life.story.doings.iter().rposition(|doing| matches!(doing, Activity::Fork(_))).map_or(0, |at| at + 1);
        let (before, over) = life.story.doings.split_at(once);
        let goes_on = open && life.state != State::Dead && takes_time(over);
        let mut steps = if goes_on { told.steps(before) } else { told.steps(&life.story.doings) };
        if goes_on {
            steps.push(Step::Forever(told.steps(over)));
        }
        let asleep = !life.born
            && matches!(life.story.doings.first(), Some(Activity::Sleep(_) | Activity::Timer(_) | Activity::Await));
        life.story.doings = Vec::new();
        if !open && background.command == Some(number as u32) {
            // Who is asleep at the start begins behind that.
            steps.insert(usize::from(asleep), Step::Mark(COMMAND.to_owned()));
        }
        let person = background.people.get(&life.pid).filter(|_| life.parent.is_none());
        counts.kernel_threads += u64::from(person.is_some_and(|person| person.of_kernel));
        let taskgroup = person.and_then(|person| person.group.clone());
        groups.extend(taskgroup.iter().map(|path| (path.clone(), Group::default())));
        tasks.push(Task {
            name: names[number].clone(),
            instances: u32::from(life.parent.is_none()),
            kind: TaskKind::Process,
            attributes: life.parent.is_none().then(|| attributes(life, person)),
            taskgroup,
            asleep: life.parent.is_none() && asleep && !steps.is_empty(),
            session: person.and_then(|person| person.session.clone()).filter(|_| background.autogroup),
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
    settle_groups(&mut groups, watch, background);
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
fn close(life: &mut TaskTrace, open: bool, length: u64) {
    if !open || life.state != State::Asleep {
        return;
    }
    let waits = |doing: &&Activity| matches!(doing, Activity::Await | Activity::Sleep(_));
    let first = life.story.doings.first();
    match life.story.doings.iter().rev().find(waits) {
        // Who it waits for at the end is who it waited for at the beginning.
        Some(Activity::Await) if first == Some(&Activity::Await) => {}
        Some(Activity::Await) => life.story.doings.push(Activity::Await),
        _ => life.story.doings.push(Activity::Sleep(length.saturating_sub(life.since))),
    }
}

/// Whether doing it over and over takes time.
fn takes_time(doings: &[Activity]) -> bool {
    doings.iter().any(|doing| matches!(doing, Activity::Run(1..) | Activity::Sleep(1..) | Activity::Timer(1..)))
}

fn attributes(life: &TaskTrace, person: Option<&KnownTask>) -> Attributes {
    let mut attributes = person.map(|person| person.attributes.clone()).unwrap_or_default();
    let told = person.map(|person| person.priority);
    // It may have changed between the table and the first sight of it.
    if let Some(seen) = life.first_priority.filter(|seen| Some(*seen) != told) {
        let deadline = seen < 0 && attributes.policy.is_deadline();
        if !deadline {
            (attributes.policy, attributes.nice) = policy_of(seen);
        }
    }
    attributes
}

/// The settings of the groups that tasks are in, and of those above them.
fn settle_groups(groups: &mut BTreeMap<String, Group>, watch: &Observer, background: &Background) {
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
        let shares = watch.group_shares.iter().find(|(given, _)| group_path(given) == *path);
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
    fn steps(&self, doings: &[Activity]) -> Vec<Step> {
        let mut steps = Vec::new();
        for Stretch { at, length, rounds } in stretches(doings) {
            let part = doings[at..at + length].iter().map(|doing| self.step(*doing));
            if rounds == 1 {
                steps.extend(part);
            } else {
                steps.push(Step::Loop { count: rounds, steps: part.collect() });
            }
        }
        steps
    }

    fn step(&self, doing: Activity) -> Step {
        let fixed = |time| Duration::Fixed(Time::from_nanos(time));
        match doing {
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
