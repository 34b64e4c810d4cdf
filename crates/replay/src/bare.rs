//! Recordings of other programs than ours: completed where an event is missing that another one stands for, and decisions that priorities
//! tell where nothing can be replayed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use schedlab_model::{CpuId, Decision, PickClass, Reason, TaskId, WakeupRule};
use schedlab_trace::{Pid, Record, RecordKind, TaskRef};

use crate::read::step::FIRST_FAIR_PRIORITY;

/// Adds a `sched_wakeup` after each `sched_waking` of a recording that has none, as of `perf sched record` and of Perfetto's usual
/// configuration: after what the running task is charged before the woken task is queued (`ttwu_do_activate`). A task that runs is not queued.
///
/// `sched_waking` names the CPU that the task slept on. Where no `sched_migrate_task` tells of another one, the CPU on which the task runs
/// next is taken.
pub(crate) fn complete_wakeups(mut records: Vec<Record>) -> Vec<Record> {
    let has = |wanted: fn(&RecordKind) -> bool| records.iter().any(|record| wanted(&record.kind));
    if has(|kind| matches!(kind, RecordKind::Wakeup { .. }))
        || !has(|kind| matches!(kind, RecordKind::Waking { .. }))
        || has(|kind| matches!(kind, RecordKind::Probe(_)))
    {
        return records;
    }
    if !has(|kind| matches!(kind, RecordKind::Migrate { .. })) {
        let mut runs_next: BTreeMap<Pid, u32> = BTreeMap::new();
        for record in records.iter_mut().rev() {
            match &mut record.kind {
                RecordKind::Switch { next, .. } => drop(runs_next.insert(next.pid, record.cpu)),
                RecordKind::Waking { task, target } => *target = runs_next.get(&task.pid).copied().unwrap_or(*target),
                _ => {}
            }
        }
    }
    let mut current: BTreeMap<u32, Pid> = BTreeMap::new();
    let mut completed = Vec::with_capacity(records.len());
    let mut pending: BTreeMap<u32, Record> = BTreeMap::new();
    for record in records {
        let cpu = record.cpu;
        let charges = matches!(&record.kind, RecordKind::StatRuntime { pid, .. } if *pid == record.pid);
        if !charges {
            completed.extend(pending.remove(&cpu));
        }
        match &record.kind {
            RecordKind::Switch { next, .. } => {
                current.insert(cpu, next.pid);
            }
            RecordKind::Waking { task, target } if !current.values().any(|running| *running == task.pid) => {
                let kind = RecordKind::Wakeup { task: task.clone(), target: *target };
                pending.insert(cpu, Record { kind, event: "sched_wakeup".into(), ..record.clone() });
            }
            _ => {}
        }
        completed.push(record);
        if charges {
            completed.extend(pending.remove(&cpu));
        }
    }
    completed.extend(pending.into_values());
    completed
}

/// The pick of a task as far as its priority tells.
pub(crate) fn pick_by_class(task: &TaskRef) -> Reason {
    let number = if task.pid == 0 { TaskId::IDLE } else { TaskId(task.pid) };
    Reason::Pick { task: number, candidates: 0, class: class_of(task), levels: Vec::new() }
}

/// What priorities alone decide, on every CPU: a task of a higher class preempts and is picked. Within a class they say nothing.
pub(crate) fn decisions_by_class(records: &[Record]) -> Vec<Decision> {
    let number = |pid: Pid| if pid == 0 { TaskId::IDLE } else { TaskId(pid) };
    let mut current: BTreeMap<u32, (Pid, PickClass)> = BTreeMap::new();
    let mut decisions = Vec::new();
    for record in records {
        let (cpu, reason) = match &record.kind {
            RecordKind::Switch { next, .. } => {
                current.insert(record.cpu, (next.pid, class_of(next)));
                (record.cpu, pick_by_class(next))
            }
            RecordKind::Waking { task, target } | RecordKind::WakeupNew { task, target } => {
                let Some((running, class)) = current.get(target).filter(|(running, _)| *running != task.pid) else {
                    continue;
                };
                let (preempts, by) = match rank(class_of(task)).cmp(&rank(*class)) {
                    Ordering::Greater => (true, WakeupRule::HigherClass),
                    Ordering::Less => (false, WakeupRule::LowerClass),
                    Ordering::Equal => continue,
                };
                let (woken, current) = (number(task.pid), number(*running));
                (*target, Reason::WakeupPreempt { woken, current, preempts, by })
            }
            _ => continue,
        };
        decisions.push(Decision { time: record.time, cpu: CpuId(cpu), reason });
    }
    decisions
}

/// The classes in the order in which `__pick_next_task` asks them, the last one first.
const fn rank(class: PickClass) -> u8 {
    match class {
        PickClass::Idle => 0,
        PickClass::Fair | PickClass::Custom => 1,
        PickClass::Realtime(_) => 2,
        PickClass::Deadline => 3,
        PickClass::Stop => 4,
    }
}

/// The class of a priority (`include/linux/sched/prio.h`): deadline −1, real-time 0 to 98 for 99 to 1, fair from 100 on. Stoppers show
/// the priority 0 of a real-time task.
fn class_of(task: &TaskRef) -> PickClass {
    match task.priority {
        _ if task.pid == 0 => PickClass::Idle,
        ..0 => PickClass::Deadline,
        0 if task.name.starts_with("migration/") => PickClass::Stop,
        priority if priority < FIRST_FAIR_PRIORITY => PickClass::Realtime((99 - priority.min(98)) as u8),
        _ => PickClass::Fair,
    }
}
