//! The state in which an own recording begins: every task as the recorder found it.
//!
//! While it looked at one task after another no other task ran, but tasks woke up. So each task is taken back to its state at the
//! first look: one that was woken between that and its own look was asleep, with the state that `place_entity` was given.
//!
//! [`Start`] is read from the recording, the replayer is set to it: so the replayer and this module know each other.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{Attributes, Policy, TaskId, TaskState, Time};
use schedlab_sched::Vruntime;
use schedlab_trace::{EevdfSnap, Pid, Probe, RecordKind, TaskSnap};

use crate::read::cursor::{nice_of, policy_of};
use crate::read::recording::{Recording, Snapped};
use crate::reconstruction::{CPU, Replayer};

/// The state at the first look.
#[derive(Debug)]
pub(crate) struct Start {
    /// Who looked, and so ran.
    pub(crate) recorder: Pid,
    /// All tasks, in an order in which those with equal keys were queued.
    pub(crate) tasks: Vec<TaskSnap>,
    /// The first look, which has the queue's clocks and where its virtual time stood.
    pub(crate) first: Snapped,
}

impl Start {
    /// None if the recorder did not look.
    pub(crate) fn of(recording: &Recording, eevdf: bool) -> Option<Self> {
        let first = recording.snapped.first()?.clone();
        let recorder = recording.records.first()?.pid;
        let mut woken: BTreeMap<Pid, u64> = BTreeMap::new();
        let mut placed: BTreeMap<Pid, Probe> = BTreeMap::new();
        let last = recording.snapped.last().map_or(0, |last| last.line);
        for record in recording.records.iter().take_while(|record| record.line < last) {
            match record.kind {
                RecordKind::Waking { ref task, .. } => {
                    woken.entry(task.pid).or_insert(record.line);
                }
                RecordKind::Probe(probe @ (Probe::Place { pid, .. } | Probe::PlaceEevdf { pid, .. })) => {
                    placed.entry(pid).or_insert(probe);
                }
                _ => {}
            }
        }
        let mut tasks = Vec::with_capacity(recording.snapped.len());
        // Each CPU has pid 0 as its idle task, and of two looks at one task the first counts.
        let mut seen = BTreeSet::from([0]);
        for snapped in recording.snapped.iter().filter(|snapped| seen.insert(snapped.task.pid)) {
            let mut task = snapped.task.clone();
            task.eevdf = task.eevdf.filter(|_| eevdf);
            if woken.get(&task.pid).is_some_and(|line| *line < snapped.line) {
                let placed = placed.get(&task.pid).copied();
                fall_asleep(&mut task, placed);
            }
            tasks.push(task);
        }
        // Load is brought up to date as a task is queued, whether it comes or is put back.
        tasks.sort_by_key(|task| task.load.map_or(0, |load| load.last_update));
        Some(Self { recorder, tasks, first })
    }
}

/// Undoes a wake-up.
fn fall_asleep(task: &mut TaskSnap, placed: Option<Probe>) {
    task.on_rq = task.eevdf.is_some_and(|eevdf| eevdf.delayed);
    match placed {
        Some(Probe::Place { vruntime, .. }) => task.vruntime = vruntime,
        Some(Probe::PlaceEevdf { vruntime, deadline, vlag, relative_deadline, .. }) => {
            task.vruntime = vruntime;
            if let Some(eevdf) = &mut task.eevdf {
                *eevdf = EevdfSnap { deadline, vlag, relative: relative_deadline, ..*eevdf };
            }
        }
        _ => {}
    }
}

impl Replayer<'_> {
    /// Makes the tasks, lets the recorder run, and queues what was queued.
    pub(crate) fn begin_from(&mut self, start: &Start) {
        let Snapped { clocks, task: first, .. } = &start.first;
        if let Some(clocks) = clocks {
            self.see_clocks(*clocks);
        }
        self.set_clocks();
        let zero = first.eevdf.map(|eevdf| eevdf.zero_vruntime);
        let base = first.min_vruntime.or(zero).unwrap_or(0);
        let queue = self.sched.cfs_rq_mut(CPU);
        (queue.min_vruntime, queue.zero_vruntime) = (Vruntime(base), Vruntime(base));
        // Some kernels do not show tasks of the recorder's class.
        let own = start.tasks.iter().find(|task| task.pid == start.recorder);
        if start.recorder != 0 {
            let recorder = match own {
                Some(task) if !policy_of(task.policy, 99).is_realtime() => self.begin_task(task),
                _ => {
                    self.report.first_sights.snapshot += 1;
                    self.begin_recorder(start.recorder)
                }
            };
            self.sched.wake_up_new_task(recorder, CPU);
            self.sched.decider.expect_picks([recorder]);
            self.sched.schedule(CPU, TaskState::Running);
            if let Some(own) = own {
                self.set_state(recorder, own);
                self.sched.entity_mut(recorder).sched_delayed = false;
            }
        }
        for task in start.tasks.iter().filter(|task| task.pid != start.recorder) {
            let made = self.begin_task(task);
            self.set_state(made, task);
            if task.on_rq && self.is_fair(made) {
                self.sched.assume_queued(made, CPU);
            } else {
                self.sched.assume_asleep(made, CPU);
            }
        }
        self.sched.assume_need_resched(CPU, self.resched_before);
    }

    /// The recorder, a FIFO task of the highest priority. Tasks of the stop class are taken for such ones too (`begin.rs`), and stand
    /// above it: so its priority is one lower here, which no other task has.
    pub(crate) fn begin_recorder(&mut self, pid: Pid) -> TaskId {
        let task = self.sched.new_task(&Attributes { policy: Policy::Fifo(98), ..Attributes::default() });
        self.bind(pid, task);
        task
    }

    fn begin_task(&mut self, snap: &TaskSnap) -> TaskId {
        let task = self.sched.new_task(&attributes_of(snap));
        self.bind(snap.pid, task);
        self.report.first_sights.snapshot += 1;
        task
    }

    fn set_state(&mut self, task: TaskId, snap: &TaskSnap) {
        self.sched.assume_timeline_weight(task, snap.timeline_weight.unwrap_or(snap.weight));
        let entity = self.sched.entity_mut(task);
        entity.vruntime = Vruntime(snap.vruntime);
        entity.exec_start = snap.exec_start;
        entity.sum_exec_runtime = snap.sum_exec_runtime;
        entity.prev_sum_exec_runtime = snap.prev_sum_exec_runtime.unwrap_or(snap.sum_exec_runtime);
        if let Some(eevdf) = snap.eevdf {
            entity.deadline = Vruntime(eevdf.deadline);
            entity.vlag = eevdf.vlag;
            entity.vprot = Vruntime(eevdf.protected.unwrap_or(eevdf.vlag as u64));
            entity.slice = eevdf.slice;
            entity.custom_slice = eevdf.custom_slice;
            entity.rel_deadline = eevdf.relative;
            // A delayed task is queued.
            entity.sched_delayed = eevdf.delayed && snap.on_rq;
        }
    }
}

/// What the snapshot says of policy, nice level and slice.
fn attributes_of(snap: &TaskSnap) -> Attributes {
    let slice = snap.eevdf.filter(|eevdf| eevdf.custom_slice).map(|eevdf| Time::from_nanos(eevdf.slice));
    let policy = policy_of(snap.policy, 99i32.saturating_sub(snap.normal_priority));
    Attributes { policy, nice: nice_of(snap.static_priority), slice, ..Attributes::default() }
}
