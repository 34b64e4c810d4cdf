//! From a file to a workload.

use schedlab_model::{
    Attributes, Channel, ChannelKind, File, Group, GroupMax, MAX_TASKS, Opening, Step, Task, TaskKind, Time, Workload,
};

use super::event_words::event_of;
use super::events::{Setting, repeated, steps};
use super::json::{Kind, Value};
use super::scheduling::{NAMES, Name, attributes, change, clamp, taskgroup};
use super::value::{Fault, Fields, Found};
use super::words::{GLOBAL, PHASE, REPORT, ROOT, SCHEDULING, TASK, Word};

/// How long a run lasts whose tasks repeat for ever and whose file says nothing of it.
pub(crate) const UNSAID: Time = Time::from_millis(5_000);

/// rt-app's `DEFAULT_MEM_BUF_SIZE`.
pub(crate) const BUFFER: u64 = 4 << 20;

/// What `global` says.
struct Global {
    default: Name,
    buffer: u64,
}

fn known(found: &Found<'_>, key: &str, words: &[&[Word]], what: &str) -> Result<(), Fault> {
    if words.iter().any(|words| words.iter().any(|word| word.name == key)) {
        return Ok(());
    }
    let names: Vec<&str> = words.iter().flat_map(|words| words.iter().map(|word| word.name)).collect();
    Err(found.fault(format!("there is no such {what}; known: {}", names.join(", "))))
}

/// Reads a file; `name` is the workload's where the file does not say it. What was read but does not act is told in `notes`.
pub(crate) fn workload(root: &Value, name: &str, notes: &mut Vec<String>) -> Result<Workload, Fault> {
    let root = Found { value: root, place: String::new() };
    let entries = root.object()?;
    for (key, found) in &entries {
        known(found, key, &[ROOT], "key at the top")?;
    }
    let fields = Fields::new(entries);
    let Some(tasks) = fields.get("tasks") else { return Err(root.fault("'tasks' is missing")) };
    let mut workload = Workload {
        name: fields.read("name", |found| found.text())?.unwrap_or(name).to_owned(),
        lock_pages: true,
        turnaround_from: fields.read("turnaround_from", |found| found.text())?.map(str::to_owned),
        ..Workload::default()
    };
    let global = match fields.get("global") {
        Some(found) => global(found, &mut workload, notes)?,
        None => Global { default: Name::Other, buffer: BUFFER },
    };
    if let Some(found) = fields.get("resources") {
        resources(found, &mut workload)?;
    }
    if let Some(found) = fields.get("groups") {
        for (path, found) in found.object()? {
            workload.groups.insert(path.to_owned(), group(&found)?);
        }
    }
    for (name, found) in tasks.object()? {
        found.printable(name)?;
        let task = task(name, &found, &global)?;
        workload.tasks.push(task);
    }
    let all: u64 = workload.tasks.iter().map(|task| u64::from(task.instances)).sum();
    if all > MAX_TASKS {
        return Err(tasks.fault(format!("{all} tasks are too many; allowed: 1 to {MAX_TASKS}")));
    }
    name_groups(&mut workload);
    one_mode(&mut workload);
    if workload.duration.is_none() && workload.tasks.iter().any(|task| endless(&task.steps)) {
        workload.duration = Some(UNSAID);
        let why = "tasks repeat for ever and \"global\" has no \"duration\"";
        notes.push(format!("{why}: the run is over after {UNSAID}"));
    }
    if workload.tasks.iter().any(|task| !task.clamp.is_none()) {
        notes.push(
            "util_min and util_max choose frequencies and CPUs of different speed; simulated CPUs have one".into(),
        );
    }
    Ok(workload)
}

fn endless(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Forever(_) => true,
        Step::Loop { steps, .. } => endless(steps),
        _ => false,
    })
}

fn global(found: &Found<'_>, workload: &mut Workload, notes: &mut Vec<String>) -> Result<Global, Fault> {
    let entries = found.object()?;
    let mut reports = Vec::new();
    for (key, found) in &entries {
        known(found, key, &[GLOBAL], "key of \"global\"")?;
        if REPORT.iter().any(|word| word.name == *key) && found.value.kind != Kind::Bool(false) {
            reports.push(*key);
        }
    }
    if !reports.is_empty() {
        let why = "rt-app's own logs, plots and trace marks are not written; --trace and the outcome say more";
        notes.push(format!("{}: {why}", reports.join(", ")));
    }
    let fields = Fields::new(entries);
    workload.duration = fields.read("duration", Found::seconds)?.flatten();
    workload.priority_inheritance = fields.read("pi_enabled", Found::switch)?.unwrap_or(false);
    workload.lock_pages = fields.read("lock_pages", Found::switch)?.unwrap_or(true);
    workload.io_device = fields.read("io_device", |found| found.text())?.map(str::to_owned);
    Ok(Global {
        default: fields.read("default_policy", |found| found.one_of(&NAMES))?.unwrap_or(Name::Other),
        buffer: fields.read("mem_buffer_size", |found| found.count(1, 1 << 34))?.map_or(BUFFER, |bytes| bytes as u64),
    })
}

fn resources(found: &Found<'_>, workload: &mut Workload) -> Result<(), Fault> {
    let openings = [("cached", Opening::Cached), ("sync", Opening::Sync), ("direct", Opening::Direct)];
    for (key, found) in found.object()? {
        found.printable(key)?;
        let fields = found.fields(&["type", "target", "name", "size", "open"])?;
        let name = fields.read("name", |found| found.text())?.unwrap_or(key).to_owned();
        match fields.read("type", |found| found.text())?.unwrap_or("mutex") {
            "pipe" => drop(workload.channels.insert(name, Channel { kind: ChannelKind::Pipe })),
            "socket" => drop(workload.channels.insert(name, Channel { kind: ChannelKind::Socket })),
            "latch" => workload.latches.push(name),
            "file" => {
                let Some(size) = fields.read("size", |found| found.count(1, 1 << 40))? else {
                    return Err(found.fault("a file needs a 'size'"));
                };
                let open = fields.read("open", |found| found.one_of(&openings))?.unwrap_or_default();
                workload.files.insert(name, File { size: size as u64, open });
            }
            "mutex" | "wait" | "signal" | "broadcast" | "sync" | "sleep" | "run" | "timer" => {}
            _ => {
                let what = "one of mutex, wait, signal, broadcast, sync, sleep, run, timer, pipe, socket, latch, file";
                return Err(fields.get("type").unwrap_or(&found).expected(what));
            }
        }
    }
    Ok(())
}

fn group(found: &Found<'_>) -> Result<Group, Fault> {
    let fields = found.fields(&["weight", "shares", "idle", "max"])?;
    let max = |found: &Found<'_>| {
        let fields = found.fields(&["!quota", "period", "burst"])?;
        Ok(GroupMax {
            quota: fields.read("quota", Found::time)?.unwrap_or_default(),
            period: fields.read("period", Found::time)?.unwrap_or(Time::from_millis(100)),
            burst: fields.read("burst", Found::time)?.unwrap_or_default(),
        })
    };
    Ok(Group {
        weight: fields.read("weight", |found| found.count(1, 10_000))?.map(|weight| weight as u64),
        shares: fields.read("shares", |found| found.count(2, 1 << 18))?.map(|shares| shares as u64),
        idle: fields.read("idle", Found::switch)?.unwrap_or(false),
        max: fields.read("max", max)?,
    })
}

/// A timer that is absolute anywhere is so everywhere, as rt-app has it: within a task where it is the task's own.
fn one_mode(workload: &mut Workload) {
    fn visit(steps: &mut [Step], see: &mut dyn FnMut(&str, bool, &mut bool)) {
        for step in steps {
            match step {
                Step::Timer { timer, own, absolute, .. } => see(timer, *own, absolute),
                Step::Loop { steps, .. } | Step::Forever(steps) => visit(steps, see),
                _ => {}
            }
        }
    }
    let mut everybodys = std::collections::BTreeSet::new();
    for task in &mut workload.tasks {
        let mut its = std::collections::BTreeSet::new();
        visit(&mut task.steps, &mut |timer, own, absolute| {
            if *absolute {
                if own { &mut its } else { &mut everybodys }.insert(timer.to_owned());
            }
        });
        visit(&mut task.steps, &mut |timer, own, absolute| *absolute |= own && its.contains(timer));
    }
    for task in &mut workload.tasks {
        visit(&mut task.steps, &mut |timer, own, absolute| *absolute |= !own && everybodys.contains(timer));
    }
}

/// Groups that tasks name are there, with nothing set.
fn name_groups(workload: &mut Workload) {
    fn named<'a>(steps: &'a [Step], out: &mut Vec<&'a str>) {
        for step in steps {
            match step {
                Step::Set(change) => out.extend(change.taskgroup.as_deref()),
                Step::Loop { steps, .. } | Step::Forever(steps) => named(steps, out),
                _ => {}
            }
        }
    }
    let mut paths = Vec::new();
    for task in &workload.tasks {
        paths.extend(task.taskgroup.as_deref());
        named(&task.steps, &mut paths);
    }
    let paths: Vec<String> = paths.into_iter().filter(|path| *path != "/").map(str::to_owned).collect();
    for path in paths {
        let below = format!("{path}/");
        if !workload.groups.keys().any(|known| *known == path || known.starts_with(&below)) {
            workload.groups.insert(path, Group::default());
        }
    }
}

/// Reads a task as the file `tasks.NAME` of a workload without anything else has it.
pub(crate) fn task_alone(name: &str, value: &Value) -> Result<Task, Fault> {
    let global = Global { default: Name::Other, buffer: BUFFER };
    task(name, &Found { value, place: String::new() }, &global)
}

fn task(name: &str, found: &Found<'_>, global: &Global) -> Result<Task, Fault> {
    let entries = found.object()?;
    let fields = Fields::new(entries.clone());
    let (phases, once) = (fields.get("phases"), fields.get("steps"));
    let alone = phases.is_none() && once.is_none();
    for (key, found) in &entries {
        if !(alone && event_of(key).is_some()) {
            known(found, key, &[TASK, SCHEDULING], if alone { "event or key of a task" } else { "key of a task" })?;
        }
    }
    let inherit = fields.read("inherit", Found::switch)?.unwrap_or(false);
    if inherit {
        has_none_of_its_own(&fields)?;
    }
    let attributes = if inherit { None } else { Some(attributes(found, &fields, global.default)?) };
    let setting = Setting { task: name, buffer: global.buffer };
    let count = fields.read("loop", |found| found.count(-1, i64::MAX))?;
    let steps = match (phases, once) {
        (Some(_), Some(once)) => return Err(once.fault("a task has phases or steps, not both")),
        (Some(phases), None) => {
            let phases = self::phases(phases, attributes.as_ref(), setting)?;
            vec![repeated(count.unwrap_or(-1), phases)]
        }
        (None, Some(once)) => events(&once.object()?, &[], setting)?,
        (None, None) => {
            let steps = events(&entries, &[TASK, SCHEDULING], setting)?;
            vec![repeated(rounds(&fields)?.unwrap_or(-1), some(found, steps)?)]
        }
    };
    let kinds = [("thread", TaskKind::Thread), ("process", TaskKind::Process)];
    Ok(Task {
        name: name.to_owned(),
        instances: fields.read("instance", |found| found.count(0, MAX_TASKS as i64))?.unwrap_or(1) as u32,
        kind: fields.read("kind", |found| found.one_of(&kinds))?.unwrap_or(TaskKind::Thread),
        attributes,
        taskgroup: fields.read("taskgroup", taskgroup)?.flatten(),
        session: fields.read("session", |found| found.text())?.map(str::to_owned),
        clamp: clamp(&fields)?,
        nodes: fields.read("nodes_membind", Found::numbers)?.unwrap_or_default(),
        delay: fields.read("delay", Found::time)?.unwrap_or_default(),
        asleep: fields.read("asleep", |found| found.switch())?.unwrap_or(false),
        background: fields.read("background", |found| found.switch())?.unwrap_or(false),
        deferrable: fields.read("deferrable", |found| found.switch())?.unwrap_or(false),
        steps,
    })
}

/// Refuses what a task that inherits would have of its own, and would not get.
fn has_none_of_its_own(fields: &Fields<'_>) -> Result<(), Fault> {
    for key in ["policy", "priority", "dl-runtime", "dl-period", "dl-deadline", "cpus"] {
        if let Some(found) = fields.get(key) {
            return Err(
                found.fault("a task that inherits takes this from its parent: leave out this key or \"inherit\"")
            );
        }
    }
    Ok(())
}

/// The events of an object, whose other keys are these.
fn events(entries: &[(&str, Found<'_>)], others: &[&[Word]], setting: Setting<'_>) -> Result<Vec<Step>, Fault> {
    for (key, entry) in entries {
        if event_of(key).is_none() && !others.iter().any(|words| words.iter().any(|word| word.name == *key)) {
            return Err(entry.fault("there is no such event"));
        }
    }
    steps(entries, setting, 0)
}

/// rt-app refuses what has no events.
fn some(found: &Found<'_>, steps: Vec<Step>) -> Result<Vec<Step>, Fault> {
    if steps.is_empty() { Err(found.fault("it has no events")) } else { Ok(steps) }
}

/// How often a phase is gone through. rt-app takes 0 for never ending.
fn rounds(fields: &Fields<'_>) -> Result<Option<i64>, Fault> {
    fields.read("loop", |found| match found.count(-1, i64::MAX)? {
        0 => Err(found.fault("0 is out of range; allowed: −1 for ever, or 1 or more")),
        count => Ok(count),
    })
}

fn phases(found: &Found<'_>, attributes: Option<&Attributes>, setting: Setting<'_>) -> Result<Vec<Step>, Fault> {
    let entries = found.object()?;
    if entries.is_empty() {
        return Err(found.fault("it has no phases"));
    }
    let objects = entries.iter().map(|(_, phase)| phase.object()).collect::<Result<Vec<_>, _>>()?;
    let binds = objects.iter().any(|phase| phase.iter().any(|(key, _)| *key == "cpus"));
    let mut policy = attributes.map_or(Name::Other, |attributes| Name::of(attributes.policy));
    let mut all = Vec::new();
    for ((_, found), entries) in entries.iter().zip(objects) {
        for (key, found) in &entries {
            if event_of(key).is_none() {
                known(found, key, &[PHASE, SCHEDULING], "event or key of a phase")?;
            }
        }
        let mut inner = some(found, steps(&entries, setting, 0)?)?;
        let fields = Fields::new(entries);
        let mut change = change(found, &fields, policy)?;
        if binds && change.affinity.is_none() {
            change.affinity = Some(attributes.map(|attributes| attributes.affinity.clone()).unwrap_or_default());
        }
        policy = change.policy.map_or(policy, Name::of);
        if change != schedlab_model::Change::default() {
            inner.insert(0, Step::Set(change));
        }
        all.push(repeated(rounds(&fields)?.unwrap_or(1), inner));
    }
    Ok(all)
}
