//! From a workload to a file that [`import`](super::import) reads back as the same workload.

use schedlab_model::{ChannelKind, Group, Opening, Step, Task, TaskKind, Time, Workload};

use super::attributes::{Entries, attributes, bounds, change, numbers};
use super::json::{Kind, Value, count, number, object, text, time};
use super::read::{BUFFER, task_alone};
use super::steps::run_of;

/// The whole file.
pub(crate) fn document(workload: &Workload) -> Value {
    let mut root: Entries = vec![("name".into(), text(&workload.name))];
    root.push(("global".into(), global(workload)));
    let resources = resources(workload);
    if !resources.is_empty() {
        root.push(("resources".into(), object(resources)));
    }
    if !workload.groups.is_empty() {
        let groups = workload.groups.iter().map(|(path, settings)| (path.clone(), group(settings))).collect();
        root.push(("groups".into(), object(groups)));
    }
    let tasks = workload.tasks.iter().map(|task| (task.name.clone(), self::task(task))).collect();
    root.push(("tasks".into(), object(tasks)));
    if let Some(mark) = &workload.turnaround_from {
        root.push(("turnaround_from".into(), text(mark)));
    }
    object(root)
}

fn switch(value: bool) -> Value {
    Value::new(Kind::Bool(value))
}

fn global(workload: &Workload) -> Value {
    let mut global: Entries = Vec::new();
    if let Some(duration) = workload.duration {
        let second = 1_000_000_000;
        let whole = duration.as_nanos().is_multiple_of(second);
        let value = if whole { count(duration.as_nanos() / second) } else { text(&duration.to_string()) };
        global.push(("duration".into(), value));
    }
    if workload.priority_inheritance {
        global.push(("pi_enabled".into(), switch(true)));
    }
    global.push(("lock_pages".into(), switch(workload.lock_pages)));
    if let Some(device) = &workload.io_device {
        global.push(("io_device".into(), text(device)));
    }
    debug_assert_eq!(BUFFER, 4 << 20, "mem_buffer_size is left at rt-app's own");
    object(global)
}

fn resources(workload: &Workload) -> Entries {
    let mut all: Entries = Vec::new();
    let mut add = |name: &str, mut entries: Entries| {
        // One name may be a channel's and a latch's.
        let taken = all.iter().any(|(key, _)| key == name);
        if taken {
            entries.push(("name".into(), text(name)));
        }
        let mut key = name.to_owned();
        while all.iter().any(|(other, _)| *other == key) {
            key.push('\'');
        }
        all.push((key, object(entries)));
    };
    for (name, channel) in &workload.channels {
        let kind = match channel.kind {
            ChannelKind::Pipe => "pipe",
            ChannelKind::Socket => "socket",
        };
        add(name, vec![("type".into(), text(kind))]);
    }
    for name in &workload.latches {
        add(name, vec![("type".into(), text("latch"))]);
    }
    for (name, file) in &workload.files {
        let open = match file.open {
            Opening::Cached => "cached",
            Opening::Sync => "sync",
            Opening::Direct => "direct",
        };
        let entries =
            vec![("type".into(), text("file")), ("size".into(), count(file.size)), ("open".into(), text(open))];
        add(name, entries);
    }
    all
}

fn group(settings: &Group) -> Value {
    let mut entries: Entries = Vec::new();
    if let Some(weight) = settings.weight {
        entries.push(("weight".into(), count(weight)));
    }
    if let Some(shares) = settings.shares {
        entries.push(("shares".into(), count(shares)));
    }
    if settings.idle {
        entries.push(("idle".into(), switch(true)));
    }
    if let Some(max) = settings.max {
        let max = [("quota", max.quota), ("period", max.period), ("burst", max.burst)];
        entries.push(("max".into(), object(max.map(|(key, value)| (key.to_owned(), time(value))).into())));
    }
    object(entries)
}

/// A task with its phases, where that says the same; else with its steps as they are.
fn task(task: &Task) -> Value {
    let [head, phases] = [head(task), phases(task).unwrap_or_default()];
    if !phases.is_empty() {
        let value = object([head.clone(), phases].concat());
        if task_alone(&task.name, &value).as_ref() == Ok(task) {
            return value;
        }
    }
    let steps = ("steps".to_owned(), object(run_of(&task.steps)));
    object([head, vec![steps]].concat())
}

fn head(task: &Task) -> Entries {
    let mut entries: Entries = Vec::new();
    if task.instances != 1 {
        entries.push(("instance".into(), count(u64::from(task.instances))));
    }
    if task.kind == TaskKind::Process {
        entries.push(("kind".into(), text("process")));
    }
    match &task.attributes {
        None => entries.push(("inherit".into(), switch(true))),
        Some(attributes) => self::attributes(attributes, &mut entries),
    }
    if let Some(path) = &task.taskgroup {
        entries.push(("taskgroup".into(), text(path)));
    }
    if let Some(session) = &task.session {
        entries.push(("session".into(), text(session)));
    }
    bounds(task.clamp, &mut entries);
    if !task.nodes.is_empty() {
        entries.push(("nodes_membind".into(), numbers(&task.nodes)));
    }
    if task.delay > Time::ZERO {
        entries.push(("delay".into(), time(task.delay)));
    }
    if task.asleep {
        entries.push(("asleep".into(), switch(true)));
    }
    if task.background {
        entries.push(("background".into(), switch(true)));
    }
    if task.deferrable {
        entries.push(("deferrable".into(), switch(true)));
    }
    entries
}

/// The phases of a task that is one loop, and its number of rounds.
fn phases(task: &Task) -> Option<Entries> {
    let [only] = &task.steps[..] else { return None };
    let (rounds, body) = loop_of(only)?;
    let parts: Option<Vec<_>> = body.iter().map(loop_of).collect();
    match parts.filter(|parts| !parts.is_empty()) {
        Some(parts) => {
            let phases = parts.into_iter().enumerate().map(|(index, (rounds, steps))| {
                let mut entries: Entries = vec![("loop".into(), rounds)];
                let events = match steps.split_first() {
                    Some((Step::Set(change), rest)) => {
                        self::change(change, &mut entries);
                        rest
                    }
                    _ => steps,
                };
                entries.extend(run_of(events));
                (format!("phase{index}"), object(entries))
            });
            Some(vec![("loop".into(), rounds), ("phases".into(), object(phases.collect()))])
        }
        None => {
            let mut entries: Entries = vec![("loop".into(), rounds)];
            entries.extend(run_of(body));
            Some(entries)
        }
    }
}

/// A loop's rounds, −1 for ever, and its steps.
fn loop_of(step: &Step) -> Option<(Value, &[Step])> {
    match step {
        Step::Loop { count: rounds, steps } if *rounds <= i64::MAX as u64 => Some((count(*rounds), steps)),
        Step::Forever(steps) => Some((number("-1"), steps)),
        _ => None,
    }
}
