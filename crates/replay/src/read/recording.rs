//! What of a recording is replayed: the events that sequences are found by, and beside them what only shows state.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::RuleSet;
use schedlab_trace::{Context, Pid, Probe, QueueClocks, Record, RecordKind, TaskSnap};

use crate::level::Level;
use crate::read::flags::may_yield;

/// What `update_curr` was about to charge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    pub(crate) line: u64,
    pub(crate) pid: Pid,
    pub(crate) vruntime: u64,
    pub(crate) deadline: Option<u64>,
}

/// A task as the recorder found it, on the line where it says so.
#[derive(Debug, Clone)]
pub(crate) struct Snapped {
    pub(crate) line: u64,
    pub(crate) clocks: Option<QueueClocks>,
    pub(crate) task: TaskSnap,
}

/// A recording, sorted.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// What sequences are found by.
    pub(crate) records: Vec<Record>,
    /// What was charged, in order.
    pub(crate) charges: Vec<Charge>,
    /// The state of each task before the workload began, where the recorder showed it.
    pub(crate) snapped: Vec<Snapped>,
}

impl Recording {
    /// Sorts the records of one CPU, those up to `level` if one is given.
    pub(crate) fn sort(records: impl IntoIterator<Item = Record>, level: Option<Level>, set: &RuleSet) -> Self {
        let mut sorted = Self::default();
        let mut clocks = None;
        // Who entered sched_yield(2) and has not done so yet: it may be preempted in between.
        let mut yielding = BTreeSet::new();
        for mut record in records {
            if level.is_some_and(|level| !level.has(&record.kind)) {
                continue;
            }
            if let RecordKind::Snap(task) = record.kind {
                if sorted.snapped.is_empty() {
                    // Before the first sight of a task there is nothing to replay.
                    sorted.records.clear();
                    sorted.charges.clear();
                }
                sorted.snapped.push(Snapped { line: record.line, clocks: record.clocks, task: *task });
                continue;
            }
            if let RecordKind::Probe(Probe::UpdateCurr { pid, vruntime, deadline, .. }) = record.kind {
                sorted.charges.push(Charge { line: record.line, pid, vruntime, deadline });
            }
            match &record.kind {
                RecordKind::Other { event, .. } if &**event == YIELD => {
                    yielding.insert(record.pid);
                }
                // SCHED_BATCH yields without being charged (CFS).
                RecordKind::Probe(Probe::PickTask) if !record.flags.need_resched && yielding.remove(&record.pid) => {
                    let uncharged = Probe::UpdateCurr { pid: 0, vruntime: 0, deadline: None, exec_start: 0 };
                    sorted.records.push(Record { kind: RecordKind::Probe(uncharged), ..record.clone() });
                }
                _ => {}
            }
            // A yield's own charge is where it happens, whether there is something to charge or not.
            let charges = matches!(record.kind, RecordKind::Probe(Probe::UpdateCurr { .. }));
            let yields = charges && may_yield(record.flags) && yielding.remove(&record.pid);
            if !yields && accompanies(&record.kind, set) {
                clocks = record.clocks.or(clocks);
                continue;
            }
            // What accompanies an event tells the clocks of it too.
            record.clocks = record.clocks.or(clocks);
            clocks = None;
            sorted.records.push(record);
        }
        if !sorted.charges.is_empty() {
            sorted
                .records
                .retain(|record| !matches!(&record.kind, RecordKind::Other { event, .. } if &**event == YIELD));
        }
        sorted
    }
}

/// The entry of `sched_yield(2)`.
const YIELD: &str = "sys_enter_sched_yield";

/// Whether a record only accompanies others, so that the sequences are found without it.
const fn accompanies(kind: &RecordKind, set: &RuleSet) -> bool {
    let RecordKind::Probe(probe) = kind else { return false };
    match probe {
        Probe::SetTask { .. } => !set.set_next_task_is_a_step,
        Probe::UpdateCurr { .. } => true,
        Probe::Move { .. } | Probe::Account { .. } | Probe::Refill { .. } => true,
        Probe::RtEnqueue { .. } | Probe::RtDequeue { .. } | Probe::RtCharge { .. } | Probe::RtTick { .. } => true,
        Probe::DlEnqueue { .. } | Probe::DlDequeue { .. } | Probe::DlCharge { .. } => true,
        Probe::DlEntityCharge { .. } | Probe::DlReplenish { .. } | Probe::DlTimer { .. } => true,
        Probe::DlInactive { .. } | Probe::ServerStart { .. } | Probe::ServerStop { .. } => true,
        _ => false,
    }
}

/// Puts the entries of `sched_yield(2)` where the yields are done: a task may be preempted in between, and interrupts may come.
///
/// A preemption's records have the flag need_resched up to the switch; the first of the task's own without it is the yield's.
pub(crate) fn hold_yields(records: Vec<Record>) -> Vec<Record> {
    let mut held: BTreeMap<Pid, Record> = BTreeMap::new();
    let mut preempted = BTreeSet::new();
    let mut ordered = Vec::with_capacity(records.len());
    let uncounted: Vec<bool> = (0..records.len()).map(|at| yields_uncounted(&records[at..])).collect();
    for (record, uncounted) in records.into_iter().zip(uncounted) {
        if matches!(&record.kind, RecordKind::Other { event, .. } if &**event == YIELD) {
            preempted.remove(&record.pid);
            held.insert(record.pid, record);
            continue;
        }
        if record.flags.context == Context::Task && record.flags.interrupts_off && held.contains_key(&record.pid) {
            let switches = matches!(record.kind, RecordKind::Switch { .. });
            if switches && preempted.remove(&record.pid) {
                // It goes on from here when it runs again.
            } else if switches || uncounted || may_yield(record.flags) || !record.flags.need_resched {
                ordered.extend(held.remove(&record.pid));
            } else {
                preempted.insert(record.pid);
            }
        }
        ordered.push(record);
    }
    ordered.extend(held.into_values());
    ordered
}

/// Whether these records begin with the charge of a yield where preemption is not counted and the task was to be rescheduled already:
/// the schedule after it charges the task once more, before it looks for a fair one or as it puts the task back. Interrupts may come
/// between the two, which they cannot within a schedule.
fn yields_uncounted(records: &[Record]) -> bool {
    let [first, rest @ ..] = records else { return false };
    let within = |record: &&Record| {
        let parts = matches!(record.kind, RecordKind::StatRuntime { .. } | RecordKind::Probe(Probe::Resched { .. }));
        parts || record.flags.context != Context::Task
    };
    let mut rest = rest.iter().skip_while(within).peekable();
    let own = first.flags.preempt_depth == 0 && charged(first).is_some_and(|pid| pid == first.pid);
    if own && rest.peek().is_some_and(|record| matches!(record.kind, RecordKind::Probe(Probe::PickTask))) {
        rest.next();
    }
    own && rest.next().and_then(charged) == Some(first.pid)
}

/// The task that a record charges.
pub(crate) const fn charged(record: &Record) -> Option<Pid> {
    match record.kind {
        RecordKind::Probe(Probe::UpdateCurr { pid, .. } | Probe::DlCharge { pid, .. }) => Some(pid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::Reader;

    /// At which of these lines the entry of `sched_yield(2)`, the first of them, is put: before that one the yield is done.
    fn held_until(lines: &[&str]) -> String {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let records = Reader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap();
        let ordered = hold_yields(records);
        let yields = |record: &Record| matches!(&record.kind, RecordKind::Other { event, .. } if &**event == YIELD);
        let at = ordered.iter().position(yields).unwrap();
        let line = usize::try_from(ordered[at + 1].line).unwrap();
        lines[line - 1].split_whitespace().nth(2).unwrap().trim_end_matches(':').to_owned()
    }

    /// 5.10 as Debian builds it does not count preemption, so its yields look like its preemptions but for what they charge: the yield
    /// once, the schedule after it once more. Here the tick and a wake-up set need_resched before the yield, and the timer's interrupt
    /// comes between its charge and the schedule's.
    #[test]
    fn an_interrupt_may_come_between_a_yield_and_its_schedule() {
        let held = held_until(&[
            " w-592 0..... 7272.196873805: sys_enter_sched_yield:",
            " w-592 0d.h.. 7272.196953613: k_tick: pid=592 ct=7272192788802 c=7272192788802 cpu=0",
            " w-592 0d.h.. 7272.197001229: k_uc: cfs=0xffff88807da33cc0 cse=0xffff8880056b5f00 cmy=0x0 pid=592 vr=691038715810 \
             xs=7272191599842 ct=7272192788802 cpu=0",
            " w-592 0d.h.. 7272.197091693: sched_stat_runtime: comm=w pid=592 runtime=1188960 vruntime=691039904770",
            " w-592 0d.h.. 7272.197128429: k_resched: cpu=0 cpid=592",
            " w-592 0dN... 7272.197747309: k_uc: cfs=0xffff88807da33cc0 cse=0xffff8880056b5f00 cmy=0x0 pid=592 vr=691040212418 \
             xs=7272193096450 ct=7272193581506 cpu=0",
            " w-592 0dN... 7272.197838669: sched_stat_runtime: comm=w pid=592 runtime=485056 vruntime=691040697474",
            " w-592 0dNh.. 7272.197889421: sched_waking: comm=w pid=593 prio=49 success=1 target_cpu=0",
            " w-592 0dNh.. 7272.197993101: k_resched: cpu=0 cpid=592",
            " w-592 0dN... 7272.198094061: k_uc: cfs=0xffff88807da33cc0 cse=0xffff8880056b5f00 cmy=0x0 pid=592 vr=691040697474 \
             xs=7272193581506 ct=7272193753282 cpu=0",
            " w-592 0dN... 7272.198185421: sched_stat_runtime: comm=w pid=592 runtime=171776 vruntime=691040869250",
            " w-592 0d.... 7272.198242861: sched_switch: prev_comm=w prev_pid=592 prev_prio=120 prev_state=R ==> next_comm=w \
             next_pid=593 next_prio=49",
        ]);
        assert_eq!(held, "7272.197747309");
    }

    /// The same in the deadline class: the yield charges 1,411,840 ns and takes what is left of the budget, the schedule charges 0.
    #[test]
    fn a_deadline_task_yields_with_need_resched_set() {
        let held = held_until(&[
            " w-654 0..... 11682.526286333: sys_enter_sched_yield:",
            " w-654 0d.h.. 11682.526330717: sched_waking: comm=w pid=653 prio=-1 success=1 target_cpu=0",
            " w-654 0d.h.. 11682.526438845: k_resched: cpu=0 cpid=654",
            " w-654 0dN... 11682.526537949: k_dlcur: pid=654 rt=5000000 dl=11682542472946 xs=11682520961458 ct=11682522373298 \
             c=11682522373298",
            " w-654 0dN... 11682.526623645: k_resched: cpu=0 cpid=654",
            " w-654 0dN... 11682.526669725: k_dlcur: pid=654 rt=3588160 dl=11682542472946 xs=11682522373298 ct=11682522373298 \
             c=11682522373298",
            " w-654 0d.... 11682.526756093: sched_switch: prev_comm=w prev_pid=654 prev_prio=-1 prev_state=R ==> next_comm=w \
             next_pid=653 next_prio=-1",
        ]);
        assert_eq!(held, "11682.526537949");
    }
}
