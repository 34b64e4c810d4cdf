//! A simulated run: its timeline, its outcome, and its tasks' virtual time.

use schedlab_model::{Event, EventKind, Outcome, Policy, Standing, TaskId, TaskOutcome, TaskState};
use schedlab_program::{Membership, Program, Template};
use serde_json::json;

use crate::WebError;
use crate::collect::{Collected, Wish, collect};
use crate::density::Density;
use crate::latency;
use crate::message::Message;
use crate::request::Run;
use crate::setup;
use crate::timeline::Timeline;

/// The most kinds of tasks that are told apart; the last takes all others.
const MOST_KINDS: usize = 8;

/// The kind of all other work of the machine.
const BACKGROUND: &str = "background";

pub(crate) fn run(request: &Run) -> Result<Message, WebError> {
    let (workload, notes) = setup::build(&request.setup)?;
    let workload = request.machine.with_background(workload)?;
    let program = Program::compile(&workload)?;
    let rules = request.scheduler.rule_set()?;
    // Only decisions tell when a group is throttled, and only a group with a limit can be; only picks tell when real-time tasks are.
    let limited = workload.groups.values().any(|group| group.max.is_some());
    let throttling = rules.rt_throttling && program.templates().iter().any(is_realtime);
    let wish = Wish { window: None, picks: throttling, bandwidth: limited };
    let Collected { outcome, events, standings, decisions, picks, .. } = collect(&program, request, wish)?;
    let mut timeline = Timeline::of(&events, outcome.tasks.len(), outcome.cpus as usize, outcome.elapsed_ns);
    if limited {
        timeline.throttle(&decisions, &groups_of(&program, &events, &outcome));
    }
    if throttling {
        timeline.throttle_realtime(&picks, &realtime_tasks(&program, &events, &outcome));
    }
    let name = |task: &'_ TaskOutcome| if task.background { BACKGROUND.to_owned() } else { task.name.clone() };
    let names: Vec<String> = outcome.tasks.iter().map(name).collect();
    let (kinds, kind_of) = kinds(names.iter().map(String::as_str));
    let tasks = timeline.tasks.iter().map(Vec::as_slice).zip(&kind_of).zip(&outcome.tasks);
    let own = tasks.filter_map(|((segments, kind), task)| (!task.background).then_some((segments, *kind)));
    let delays = latency::delays(own, kinds.len());
    let mut message = Message::new(json!({
        "label": request.scheduler.label(), "text_notes": notes, "kinds": kinds, "delays": delays, "outcome": outcome,
        "eevdf": rules.eevdf, "event_count": events.len(),
    }));
    if !request.drawn {
        return Ok(message);
    }
    draw(&mut message, &timeline, kinds.len(), &kind_of);
    write_standings(&mut message, &standings);
    if request.events {
        write_events(&mut message, &events);
    }
    Ok(message)
}

/// Adds what is drawn: the kind of each task, spans and densities.
pub(crate) fn draw(message: &mut Message, timeline: &Timeline, kinds: usize, kind_of: &[usize]) {
    message.u8s("task_kind", &kind_of.iter().map(|kind| *kind as u8).collect::<Vec<_>>());
    timeline.write(message);
    let mut density = Density::new(kinds);
    for slices in &timeline.cpus {
        density.add(slices.iter().map(|one| (one.start, one.end, kind_of[one.task as usize])), timeline.end);
    }
    density.write(message, "cpu_density");
    let mut density = Density::new(3);
    for segments in &timeline.tasks {
        density.add(segments.iter().map(|one| (one.start, one.end, one.state as usize)), timeline.end);
    }
    density.write(message, "task_density");
}

/// Adds the tasks' virtual time.
pub(crate) fn write_standings(message: &mut Message, standings: &[Standing]) {
    message.f64s("standing_time", &standings.iter().map(|one| one.time.as_nanos() as f64).collect::<Vec<_>>());
    message.u32s("standing_task", &standings.iter().map(|one| one.task.0).collect::<Vec<_>>());
    message.f64s("standing_vruntime", &standings.iter().map(|one| one.vruntime as f64).collect::<Vec<_>>());
    let known = |value: Option<i64>| value.map_or(f64::NAN, |value| value as f64);
    message.f64s("standing_lag", &standings.iter().map(|one| known(one.lag)).collect::<Vec<_>>());
    message.f64s("standing_deadline", &standings.iter().map(|one| known(one.deadline)).collect::<Vec<_>>());
}

/// Adds each event as its time, CPU, kind and up to three numbers.
fn write_events(message: &mut Message, events: &[Event]) {
    message.f64s("event_time", &events.iter().map(|event| event.time.as_nanos() as f64).collect::<Vec<_>>());
    message.u16s("event_cpu", &events.iter().map(|event| event.cpu.0 as u16).collect::<Vec<_>>());
    let rows: Vec<(u8, [u32; 3])> = events.iter().map(|event| numbers(event.kind)).collect();
    message.u8s("event_kind", &rows.iter().map(|(kind, _)| *kind).collect::<Vec<_>>());
    for (place, name) in ["event_first", "event_second", "event_third"].into_iter().enumerate() {
        message.u32s(name, &rows.iter().map(|(_, numbers)| numbers[place]).collect::<Vec<_>>());
    }
}

fn numbers(kind: EventKind) -> (u8, [u32; 3]) {
    match kind {
        EventKind::Fork { parent, child } => (0, [parent.0, child.0, 0]),
        EventKind::Waking { task, waker, target } => (1, [task.0, waker.0, target.0]),
        EventKind::WakeupNew { task, target } => (2, [task.0, target.0, 0]),
        EventKind::Switch { previous, state, next } => {
            let state = match state {
                TaskState::Running => 0,
                TaskState::Interruptible => 1,
                TaskState::Uninterruptible => 2,
                TaskState::Dead => 3,
                TaskState::Stopped => 4,
            };
            (3, [previous.0, next.0, state])
        }
        EventKind::Migrate { task, from, to } => (4, [task.0, from.0, to.0]),
        EventKind::Exit { task } => (5, [task.0, 0, 0]),
        EventKind::Mark { task, mark } => (6, [task.0, mark, 0]),
    }
}

/// A task's kind: its name up to the first '.' or '[', so that `sender.g0[3]` is a `sender`.
fn kind_name(task: &str) -> &str {
    task.split(['.', '[']).next().unwrap_or(task)
}

/// The kinds of a run's tasks in the order in which they come, and each task's.
pub(crate) fn kinds<'a>(names: impl Iterator<Item = &'a str>) -> (Vec<String>, Vec<usize>) {
    let mut kinds: Vec<String> = Vec::new();
    let kind_of = names.map(|task| {
        let name = kind_name(task);
        kinds.iter().position(|kind| kind == name).unwrap_or_else(|| {
            if kinds.len() == MOST_KINDS {
                kinds[MOST_KINDS - 1] = "others".to_owned();
                return MOST_KINDS - 1;
            }
            kinds.push(name.to_owned());
            kinds.len() - 1
        })
    });
    let kind_of = kind_of.collect();
    (kinds, kind_of)
}

/// The task that made each task.
fn parents(events: &[Event], tasks: usize) -> Vec<TaskId> {
    let mut parents = vec![TaskId::IDLE; tasks];
    for event in events {
        if let EventKind::Fork { parent, child } = event.kind
            && let Some(slot) = parents.get_mut(child.index())
        {
            *slot = parent;
        }
    }
    parents
}

fn is_realtime(template: &Template) -> bool {
    let policy = template.attributes.as_ref().map(|attributes| attributes.policy);
    matches!(policy, Some(Policy::Fifo(_) | Policy::Rr(_)))
}

/// Which tasks begin in the real-time class; those without a policy of their own have their parent's.
fn realtime_tasks(program: &Program, events: &[Event], outcome: &Outcome) -> Vec<bool> {
    let parents = parents(events, outcome.tasks.len());
    let mut found: Vec<bool> = Vec::with_capacity(parents.len());
    // Parents are made before their children.
    for (task, parent) in outcome.tasks.iter().zip(parents) {
        found.push(match program.template_of(&task.name) {
            Some(template) if template.attributes.is_some() => is_realtime(template),
            _ => found.get(parent.index()).copied().unwrap_or(false),
        });
    }
    found
}

/// Each task's group and those above it, by the numbers that decisions give them: 1 for the outcome's first.
fn groups_of(program: &Program, events: &[Event], outcome: &Outcome) -> Vec<Vec<u32>> {
    let parents = parents(events, outcome.tasks.len());
    let mut found: Vec<Vec<u32>> = Vec::with_capacity(parents.len());
    // Parents are made before their children.
    for (task, parent) in outcome.tasks.iter().zip(parents) {
        let groups = match program.template_of(&task.name).and_then(|template| template.group) {
            Some(Membership::Root) => Vec::new(),
            Some(Membership::Group(group)) => chain(program, outcome, group as usize),
            None => found.get(parent.index()).cloned().unwrap_or_default(),
        };
        found.push(groups);
    }
    found
}

fn chain(program: &Program, outcome: &Outcome, group: usize) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut next = Some(group);
    while let Some(node) = next.and_then(|place| program.groups().get(place)) {
        let number = outcome.groups.iter().position(|group| group.name == node.path);
        numbers.extend(number.map(|place| place as u32 + 1));
        next = node.parent;
    }
    numbers
}
