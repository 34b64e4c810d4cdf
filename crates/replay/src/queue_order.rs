//! Our queues in order, and the naive rules' answer: the first task in virtual time (EEVDF: by deadline) runs.

use schedlab_model::{CpuId, TaskId};
use schedlab_sched::{CfsRq, Class, EntityId, Sched, Vruntime};

use crate::recorded_decider::RecordedDecider;
use crate::task_map::TaskMap;

/// Whether a task is of the fair class.
pub(crate) fn is_fair(sched: &Sched<RecordedDecider>, task: TaskId) -> bool {
    task != TaskId::IDLE && sched.task(task).class == Class::Fair
}

/// A CPU's fair queues, the top one first: the running entity, then the others in order.
pub(crate) fn queue_lines(sched: &Sched<RecordedDecider>, tasks: &TaskMap, cpu: CpuId) -> Vec<String> {
    let mut lines = Vec::new();
    add_lines(sched, tasks, sched.cfs_rq(cpu), 0, &mut lines);
    lines
}

fn add_lines(sched: &Sched<RecordedDecider>, tasks: &TaskMap, queue: &CfsRq, depth: usize, lines: &mut Vec<String>) {
    for se in queue.curr.into_iter().chain(queue.timeline.iter()) {
        let entity = sched.entity_at(se);
        let deadline = if sched.rules().eevdf { format!(" {}", entity.deadline.0) } else { String::new() };
        let delayed = if entity.sched_delayed { " delayed" } else { "" };
        let name = tasks.of_entity(se).map_or_else(|| "group".to_owned(), |task| tasks.pid(task).to_string());
        let indent = "  ".repeat(depth);
        lines.push(format!("{indent}{name} {}{deadline} {}{delayed}", entity.vruntime.0, entity.load.down()));
        if let Some(below) = entity.my_q {
            add_lines(sched, tasks, sched.queue(below), depth + 1, lines);
        }
    }
}

/// What the timeline is ordered by.
fn key(sched: &Sched<RecordedDecider>, se: EntityId) -> Vruntime {
    let entity = sched.entity_at(se);
    if sched.rules().eevdf { entity.deadline } else { entity.vruntime }
}

/// The naive rule for wake-ups: whether a fair task, or the group above it, is before the running one where both share a queue.
pub(crate) fn is_before_running(sched: &Sched<RecordedDecider>, task: TaskId, running: TaskId) -> bool {
    if task == TaskId::IDLE || running == TaskId::IDLE {
        return false;
    }
    let path = |task: TaskId| {
        let next = |se: &EntityId| sched.entity_at(*se).parent;
        std::iter::successors(Some(sched.task(task).se), next).collect::<Vec<_>>()
    };
    let (one, other) = (path(task), path(running));
    let shared = one.iter().find_map(|one| {
        let queue = sched.entity_at(*one).cfs_rq;
        let other = other.iter().find(|other| sched.entity_at(**other).cfs_rq == queue)?;
        Some((*one, *other))
    });
    shared.is_some_and(|(one, other)| key(sched, one).before(key(sched, other)))
}

/// The naive rule for ticks: whether another entity is first at any level of the running task.
pub(crate) fn first_is_before_running(sched: &Sched<RecordedDecider>, running: TaskId) -> bool {
    if !is_fair(sched, running) {
        return false;
    }
    let mut level = Some(sched.task(running).se);
    while let Some(se) = level {
        let entity = sched.entity_at(se);
        let first = sched.queue(entity.cfs_rq).timeline.first();
        if first.is_some_and(|first| key(sched, first).before(key(sched, se))) {
            return true;
        }
        level = entity.parent;
    }
    false
}
