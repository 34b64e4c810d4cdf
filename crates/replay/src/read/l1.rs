//! From records to steps where the fair class is probed (L1): which sequence of core.c a run of records stands for.
//!
//! On one CPU everything between `rq_lock` and `rq_unlock` is recorded without a break, so a step is a few adjacent records, and
//! a small grammar finds it. What each step looks like follows from where the probed functions are called in
//! `kernel/sched/{core,fair}.c` of 6.1 and 6.12.

use schedlab_trace::{Pid, Probe, Record, RecordKind};

use crate::read::cursor::{Cursor, Runtime};
use crate::read::flags::{FlagBits, MOVE, SAVE, SLEEP};
use crate::read::step::{Change, Check, Coming, FIRST_FAIR_PRIORITY, Look, Picks, Step};

/// Cuts the step that begins at `records[0]`; returns it with the number of its records, at least 1.
pub(crate) fn next_step(records: &[Record], flags: FlagBits) -> (Step<'_>, usize) {
    let mut cursor = Cursor { records, at: 0, flags };
    let step = begin(&mut cursor);
    (step, cursor.at.max(1))
}

fn begin<'a>(cursor: &mut Cursor<'a>) -> Step<'a> {
    let Some(record) = cursor.records.first() else { return Step::Nothing };
    match &record.kind {
        RecordKind::Probe(probe) => after_probe(cursor, *probe),
        RecordKind::StatRuntime { .. } => after_runtime(cursor),
        RecordKind::Switch { .. } => schedule(cursor, None, None),
        RecordKind::Waking { task, .. } if task.priority < FIRST_FAIR_PRIORITY => {
            cursor.at = 1;
            // From 7.0 on the class below hears of it, and the idle one asks, too.
            cursor.wakeup_preempt();
            cursor.resched();
            cursor.resched();
            Step::WakeHigher { task }
        }
        RecordKind::Fork { parent, child, .. } => {
            Step::Fork { parent: Some(*parent), child: *child, runtime: None, placement: None }
        }
        RecordKind::Other { event, .. } if &**event == "sys_enter_sched_yield" => Step::Yield,
        _ => Step::Nothing,
    }
}

fn after_probe<'a>(cursor: &mut Cursor<'a>, probe: Probe) -> Step<'a> {
    match probe {
        Probe::Tick { .. } => {
            cursor.at = 1;
            let runtime = cursor.runtime();
            let resched = Some(cursor.resched_fair());
            // The high-resolution tick at a slice's end asks whatever the class said.
            Step::Tick { runtime, resched, ends: cursor.flags.lazy && cursor.resched() }
        }
        Probe::Enqueue { pid, flags, .. } if flags & (SAVE | MOVE) == 0 => wake(cursor, pid, flags),
        // A delayed task is dequeued by a task that waits for it to sleep, or as it leaves the class.
        Probe::Dequeue { pid, flags } if flags & SLEEP != 0 && flags & cursor.flags.delayed != 0 => {
            cursor.at = 1;
            cursor.dequeue_entities(pid);
            let runtime = cursor.runtime();
            cursor.resched();
            Step::WaitInactive { pid, runtime }
        }
        Probe::Dequeue { pid, flags } if flags & SLEEP != 0 => {
            cursor.at = 1;
            cursor.dequeue_entities(pid);
            let runtime = cursor.runtime();
            cursor.resched();
            schedule(cursor, Some(pid), runtime)
        }
        Probe::Dequeue { pid, flags } if flags & SAVE != 0 => change(cursor, pid, flags),
        Probe::Parameters { pid, .. } => change(cursor, pid, 0),
        Probe::Pick { .. } | Probe::PickEevdf { .. } | Probe::PickTask => schedule(cursor, None, None),
        Probe::UpdateCurr { .. } => {
            cursor.at = 1;
            let runtime = cursor.runtime();
            cursor.resched_fair();
            Step::YieldNow { runtime }
        }
        Probe::Place { initial: true, .. } => fork(cursor, None),
        Probe::WakeupPreempt { .. } => {
            let (check, runtime) = check(cursor, true);
            check.map_or(Step::Unexplained, |check| Step::Check { check, runtime })
        }
        Probe::Reweight { pid, weight } => {
            cursor.at = 1;
            Step::Change { pid, what: Change::Weight(weight), runtime: None, set: None, check: None, resched: false }
        }
        // The real-time class's period timer reschedules for tasks that may run again; only the request concerns the fair class.
        Probe::RtPeriod => {
            cursor.at = 1;
            if cursor.resched() { Step::Asked } else { Step::Nothing }
        }
        // A tick makes a lazy request an urgent one before the class hears of it.
        Probe::Resched { flag: Some(flag) } if flag == cursor.flags.need_resched => {
            cursor.at = 1;
            match cursor.peek() {
                Some(RecordKind::Probe(probe @ Probe::Tick { .. })) => {
                    let (step, length) = next_step(&cursor.records[1..], cursor.flags);
                    debug_assert!(matches!(probe, Probe::Tick { .. }));
                    cursor.at += length;
                    step
                }
                _ => Step::Unexplained,
            }
        }
        // A request to reschedule without a recorded reason: the records that follow show what it leads to.
        _ => Step::Unexplained,
    }
}

/// What a lone `sched_stat_runtime` belongs to depends on what follows it.
fn after_runtime<'a>(cursor: &mut Cursor<'a>) -> Step<'a> {
    let Some(runtime) = cursor.runtime() else { return Step::Unexplained };
    cursor.resched();
    match cursor.peek() {
        Some(RecordKind::Probe(Probe::Pick { .. } | Probe::PickEevdf { .. }) | RecordKind::Switch { .. }) => {
            schedule(cursor, None, Some(runtime))
        }
        Some(RecordKind::Probe(Probe::Place { initial: true, .. })) => fork(cursor, Some(runtime)),
        _ => Step::UpdateCurr { runtime },
    }
}

fn wake<'a>(cursor: &mut Cursor<'a>, pid: Pid, flags: u32) -> Step<'a> {
    cursor.at = 1;
    let coming = match (flags & cursor.flags.delayed != 0, flags & SLEEP != 0) {
        (true, _) => Coming::Delayed,
        (false, true) => Coming::Woken,
        (false, false) => Coming::New,
    };
    cursor.requeue_delayed(pid);
    let runtime = cursor.runtime();
    if runtime.is_some() {
        cursor.resched();
    }
    // From 7.3 on the running task is charged first.
    cursor.requeue_delayed(pid);
    let placement = cursor.placement(pid);
    // A new task is announced before preemption is looked at, a woken one after.
    if matches!(cursor.peek(), Some(RecordKind::WakeupNew { .. })) {
        cursor.at += 1;
    }
    // Queueing has charged the running task, unless the woken one never left.
    let (check, late_runtime) = check(cursor, coming == Coming::Delayed);
    if check.is_none() {
        // No task of its class runs; a server that starts may ask too.
        while cursor.resched() {}
    }
    Step::Wake { pid, coming, runtime: runtime.or(late_runtime), placement, check }
}

/// `check_preempt_wakeup`, with the charge of the running task that it makes if there is something to decide and the enqueue did not
/// charge it (`charges`).
fn check(cursor: &mut Cursor<'_>, charges: bool) -> (Option<Check>, Option<Runtime>) {
    let Some((woken, flags, need_resched)) = cursor.wakeup_preempt() else { return (None, None) };
    if need_resched && !cursor.flags.wakes_though_marked {
        return (Some(Check { woken, flags, need_resched, queue: None, resched: Some(false) }), None);
    }
    let runtime = if charges { cursor.runtime() } else { None };
    let mut resched = cursor.resched();
    let mut queue = None;
    while let Some(look) = cursor.eevdf() {
        queue = Some(look);
        if cursor.dequeue_delayed().is_none() {
            break;
        }
    }
    if queue.is_some() {
        // The one before was for a request that the charge found served.
        resched = cursor.resched();
    }
    // need_resched was set before and no pick followed: there was nothing to decide.
    let need_resched = need_resched && queue.is_none() && !resched;
    (Some(Check { woken, flags, need_resched, queue, resched: Some(resched) }), runtime)
}

fn fork<'a>(cursor: &mut Cursor<'a>, runtime: Option<Runtime>) -> Step<'a> {
    match cursor.initial_placement() {
        Some((child, placement)) => Step::Fork { parent: None, child, runtime, placement: Some(placement) },
        None => Step::Unexplained,
    }
}

fn schedule<'a>(cursor: &mut Cursor<'a>, dequeued: Option<Pid>, mut runtime: Option<Runtime>) -> Step<'a> {
    let mut looks = Vec::new();
    while cursor.pick_task() {}
    if runtime.is_none() {
        runtime = cursor.runtime_before_pick();
    }
    while let Some(queue) = cursor.pick() {
        let delayed = cursor.dequeue_delayed();
        looks.push(Look { queue, delayed });
        if delayed.is_none() {
            break;
        }
    }
    // A task of a higher class is charged as it is put back, after the look.
    cursor.runtime_before_set();
    let set = cursor.set();
    let switch = match cursor.peek() {
        Some(RecordKind::Switch { previous, state, next }) => {
            cursor.at += 1;
            Some((previous, *state, next))
        }
        _ => None,
    };
    Step::Schedule { dequeued, runtime, picks: Picks::Looks(looks, set), switch }
}

/// Dequeued, changed and queued again, as far as it is queued; an enqueue in another class than the fair one is not recorded.
pub(crate) fn change<'a>(cursor: &mut Cursor<'a>, pid: Pid, flags: u32) -> Step<'a> {
    let queued = cursor.dequeue(pid);
    cursor.dequeue_entities(pid);
    let mut runtime = cursor.runtime();
    cursor.resched();
    let parameters = cursor.parameters(pid);
    let weight = cursor.reweight();
    let queued_again = cursor.enqueue_again(pid);
    if queued_again {
        runtime = runtime.or_else(|| cursor.runtime());
    }
    cursor.placement(pid);
    let set = cursor.set();
    let what = match (parameters, weight) {
        (Some(attributes), _) => Change::Attributes { moves: flags & MOVE != 0, attributes },
        _ if queued && !queued_again => return Step::Unexplained,
        (None, Some(weight)) => Change::Weight(weight),
        (None, None) if flags & MOVE != 0 => Change::Group,
        (None, None) => Change::Affinity,
    };
    let switched = cursor.resched();
    let (check, late_runtime) = check(cursor, runtime.is_none());
    let resched = cursor.resched() || switched;
    Step::Change { pid, what, runtime: runtime.or(late_runtime), set, check, resched }
}

#[cfg(test)]
mod tests {
    use schedlab_model::{RuleSet, Series};
    use schedlab_trace::Reader;

    use super::*;

    /// Of 7.2.13: a task of the stop class wakes on an idle CPU. The idle class asks for a schedule (`wakeup_preempt_idle`), and core does.
    #[test]
    fn an_idle_cpu_is_asked_twice_to_run_a_stop_class_task() {
        let text = "\
 <idle>-0 0d.h4. 893.880115725: sched_waking: comm=migration/0 pid=19 prio=0 target_cpu=0
 <idle>-0 0d.h5. 893.880161006: k_resched: cpu=0 tif=4 cpid=0
 <idle>-0 0dNh5. 893.880204750: k_resched: cpu=0 tif=4 cpid=0
 <idle>-0 0dNh5. 893.880250862: sched_wakeup: comm=migration/0 pid=19 prio=0 target_cpu=0
";
        let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap();
        let (step, length) = next_step(&records, FlagBits::of(&RuleSet::of(Series::V7_2.newest_known())));
        assert!(matches!(step, Step::WakeHigher { .. }) && length == 3, "{step:?} {length}");
    }

    /// Of 6.12.107: a task that waits until another one sleeps (`wait_task_inactive`) completes that one's delayed dequeue; the schedule
    /// that follows is another step.
    #[test]
    fn wait_task_inactive_dequeues_a_delayed_task() {
        let text = "\
 a-660 0d..2. 420.201830311: k_deq: pid=779 fl=0x201 ct=420195556186 c=420195556186
 a-660 0d..2. 420.201949639: k_deqs: pid=779 fl=0x201 se=0x80 my=0x0
 a-660 0d..2. 420.202104071: sched_stat_runtime: comm=a pid=660 runtime=757472
 a-660 0d..2. 420.202214951: k_resched: cpu=0 cpid=660
 a-660 0dN.2. 420.202293543: k_pnt: c=420196022522 ct=420196022522
";
        let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap();
        let (step, length) = next_step(&records, FlagBits::of(&RuleSet::of(Series::V6_12.newest_known())));
        let charged = |runtime: Option<Runtime>| runtime.is_some_and(|runtime| runtime.runtime == 757_472);
        assert!(matches!(step, Step::WaitInactive { pid: 779, runtime } if charged(runtime)), "{step:?}");
        assert_eq!(length, 4);
    }
}
