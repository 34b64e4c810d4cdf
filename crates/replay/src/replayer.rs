//! Drives the rules through the steps of a recording.

use std::collections::BTreeMap;

use schedlab_model::{CpuId, Policy, TaskId, TaskState, Time};
use schedlab_sched::{Clocks, EntityId, GroupId, Sched, Vruntime, weight_of_nice};
use schedlab_trace::{Pid, Record, RecordKind, RecordState, TaskRef};

use crate::first_sight::{self, FirstSight};
use crate::forced::Forced;
use crate::report::{Difference, Report};
use crate::settings::Settings;
use crate::step::{Check, Coming, Look, Step};
use crate::view::{Placement, Runtime, SetView};

/// The one CPU.
pub(crate) const CPU: CpuId = CpuId(0);
/// Differences kept in full.
const KEPT: usize = 10;
/// `WF_FORK`.
const FORKED: u32 = 0x4;

/// Our side of a replay.
pub(crate) struct Replayer<'a> {
    pub(crate) sched: Sched<Forced>,
    pub(crate) settings: &'a Settings,
    pub(crate) sight: &'a FirstSight,
    pub(crate) tasks: BTreeMap<Pid, TaskId>,
    pub(crate) pids: Vec<Pid>,
    pub(crate) by_entity: BTreeMap<u32, TaskId>,
    /// Whether something of the task that runs as the recording begins is still to be seen for the first time.
    pub(crate) running_unseen: bool,
    /// The task whose slice began before the recording (CFS).
    pub(crate) slice_unknown: Option<TaskId>,
    /// Tasks that were placed and not picked since, with the naive rule's place.
    pub(crate) placed: BTreeMap<TaskId, u64>,
    reader: Option<Pid>,
    pub(crate) reader_gone: bool,
    yielded: bool,
    /// Whether the running task was about to be rescheduled when the recording began.
    resched_before: bool,
    clock: u64,
    line: u64,
    time: Time,
    pub(crate) report: Report,
}

impl<'a> Replayer<'a> {
    /// Builds the state in which the recording begins.
    pub(crate) fn new(settings: &'a Settings, sight: &'a FirstSight, report: Report) -> Self {
        let mut replayer = Self {
            sched: Sched::new(settings.rules(), 1, Forced::default()),
            settings,
            sight,
            tasks: BTreeMap::new(),
            pids: Vec::new(),
            by_entity: BTreeMap::new(),
            running_unseen: false,
            slice_unknown: None,
            placed: BTreeMap::new(),
            reader: first_sight::reader_of(settings.snapshot.as_ref()),
            reader_gone: false,
            yielded: false,
            resched_before: sight.need_resched,
            clock: 1,
            line: 0,
            time: Time::ZERO,
            report,
        };
        replayer.begin();
        replayer
    }

    pub(crate) fn eevdf(&self) -> bool {
        self.settings.release.series().is_eevdf()
    }

    pub(crate) fn pid(&self, task: TaskId) -> Pid {
        self.pids.get(task.index()).copied().unwrap_or(0)
    }

    pub(crate) fn task_of(&self, pid: Pid) -> Option<TaskId> {
        self.tasks.get(&pid).copied()
    }

    pub(crate) fn task_of_entity(&self, entity: EntityId) -> Option<TaskId> {
        self.by_entity.get(&entity.0).copied()
    }

    pub(crate) fn is_fair(&self, task: TaskId) -> bool {
        task != TaskId::IDLE && !self.sched.task(task).policy.is_realtime()
    }

    pub(crate) fn set_clocks(&mut self) {
        self.sched.set_clocks(CPU, Clocks::all(Time::from_nanos(self.clock)));
    }

    /// Brings the clock to where the kernel's stood: the running task's start of charge plus what was charged.
    fn advance(&mut self, runtime: Option<Runtime>) {
        let running = self.sched.curr(CPU);
        if let Some(runtime) = runtime
            && running != TaskId::IDLE
            && self.pid(running) == runtime.pid
        {
            match runtime.vruntime {
                // First sight of the task that runs as the recording begins: its time up to now is in the value.
                Some(vruntime) if self.running_unseen => {
                    self.running_unseen = false;
                    self.sched.entity_mut(running).vruntime = Vruntime(vruntime);
                }
                _ => self.clock = self.sched.entity(running).exec_start.wrapping_add(runtime.runtime),
            }
        }
        self.set_clocks();
    }

    /// Takes one step, which begins with `record`.
    pub(crate) fn step(&mut self, record: &Record, step: Step<'_>) {
        (self.line, self.time) = (record.line, record.time);
        if matches!(step, Step::Nothing) {
            return;
        }
        self.note_need_resched(record);
        match step {
            Step::Nothing => {}
            Step::Unexplained => self.report.unexplained += 1,
            Step::Yield => self.yielded = true,
            Step::UpdateCurr { runtime } => {
                self.advance(Some(runtime));
                self.sched.update_curr(CPU);
                self.compare_charge(Some(runtime));
            }
            Step::Tick { runtime, resched } => {
                self.advance(runtime);
                self.sched.decider.expect_preempt(resched);
                self.sched.sched_tick(CPU);
                self.compare_charge(runtime);
                self.score_tick(resched);
            }
            Step::Wake { pid, coming, runtime, placement, check } => self.wake(pid, coming, runtime, placement, check),
            Step::WakeHigher { task } => {
                self.advance(None);
                let task = self.sleeper(task.pid, None);
                self.sched.decider.expect_preempt(false);
                self.sched.try_to_wake_up(task, CPU);
            }
            Step::Check { check, runtime } => {
                self.advance(runtime);
                let Some(woken) = self.task_of(check.woken) else { return self.lose_track() };
                self.sched.decider.expect_preempt(check.resched);
                self.sched.wakeup_preempt(CPU, woken, check.flags & FORKED != 0);
                self.compare_charge(runtime);
                self.score_wakeup(check);
            }
            Step::Fork { parent, child, runtime, placement } => self.fork(parent, child, runtime, placement),
            Step::Schedule { dequeued, runtime, looks, set, switch } => {
                self.schedule(dequeued, runtime, &looks, set, switch);
            }
            Step::Move { pid, runtime, set } => {
                self.advance(runtime);
                let Some(task) = self.task_of(pid) else { return self.lose_track() };
                self.sched.sched_move_task(task, GroupId::ROOT);
                self.changed(task, set);
            }
            Step::Reweight { pid, weight, runtime, set, check } => self.reweight(pid, weight, runtime, set, check),
        }
    }

    /// The flag that the record carries, which tells what was decided before it.
    fn note_need_resched(&mut self, record: &Record) {
        match record.kind {
            // The switch comes after the flag is cleared.
            RecordKind::Switch { .. } => {}
            // An interrupt may come between reading the flag and writing the event.
            _ if !record.flags.interrupts_off => {}
            // Why it was set before the recording is not told; the first schedule clears it.
            _ if self.resched_before => self.resched_before = record.flags.need_resched,
            _ => self.compare_need_resched(record.flags.need_resched),
        }
    }

    fn wake(
        &mut self,
        pid: Pid,
        coming: Coming,
        runtime: Option<Runtime>,
        placement: Option<Placement>,
        check: Option<Check>,
    ) {
        self.advance(runtime);
        let task = self.sleeper(pid, placement);
        let entity = self.sched.entity(task);
        if (entity.on_rq, entity.sched_delayed) != (coming == Coming::Delayed, coming == Coming::Delayed) {
            return self.lose_track();
        }
        if let Some(placement) = placement {
            self.compare_sleeper(task, coming, placement);
        }
        self.sched.decider.expect_preempt(check.is_some_and(|check| check.resched));
        if coming == Coming::New {
            self.sched.wake_up_new_task(task, CPU);
        } else {
            self.sched.try_to_wake_up(task, CPU);
        }
        if placement.is_some() || coming == Coming::New {
            let queue = self.sched.cfs_rq(CPU);
            let naive = if self.eevdf() { queue.zero_vruntime } else { queue.min_vruntime };
            self.placed.insert(task, naive.0);
        }
        self.compare_charge(runtime);
        if let Some(placement) = placement {
            self.compare_placement_queue(placement);
        }
        if let Some(check) = check {
            self.score_wakeup(check);
        }
    }

    /// CFS places a child as it is made, before the event that tells of it; EEVDF only as it is first queued.
    fn fork(&mut self, parent: Option<Pid>, child: Pid, runtime: Option<Runtime>, placement: Option<Placement>) {
        if placement.is_none() && !self.eevdf() {
            return;
        }
        self.advance(runtime);
        let parent = parent.map_or(Some(self.sched.curr(CPU)), |parent| self.task_of(parent));
        let Some(parent) = parent.filter(|parent| *parent != TaskId::IDLE) else { return self.lose_track() };
        let task = self.sched.sched_fork(parent, false);
        self.bind(child, task);
        self.compare_charge(runtime);
        if let Some(placement) = placement {
            self.compare_placement_queue(placement);
            if !self.settings.tunables.child_runs_first {
                // The child's is its parent's until it is placed.
                let ours = self.sched.entity(parent).vruntime.0;
                self.compare_vruntime(ours, placement.vruntime);
            }
        }
    }

    fn schedule(
        &mut self,
        dequeued: Option<Pid>,
        runtime: Option<Runtime>,
        looks: &[Look],
        set: Option<SetView>,
        switch: Option<(&TaskRef, RecordState, &TaskRef)>,
    ) {
        self.advance(runtime);
        let previous = self.sched.curr(CPU);
        if std::mem::take(&mut self.yielded) && self.is_fair(previous) {
            self.sched.sched_yield(CPU);
        }
        // A task of a higher class shows only in the switch that it leaves; a fair one shows its dequeueing, and one that a
        // signal kept awake has none though its state says asleep.
        let leaves = if self.is_fair(previous) {
            dequeued.is_some()
        } else {
            previous != TaskId::IDLE && switch.is_some_and(|(_, state, _)| state != RecordState::Running)
        };
        let dead = switch.is_some_and(|(_, state, _)| matches!(state, RecordState::Dead(_)));
        let state = match (leaves, dead) {
            (false, _) => TaskState::Running,
            (true, true) => TaskState::Dead,
            (true, false) => TaskState::Interruptible,
        };
        if dequeued.is_some_and(|pid| self.task_of(pid) != Some(previous)) {
            return self.lose_track();
        }
        let Some(picks) = self.recorded_picks(looks, set, previous, leaves) else { return self.lose_track() };
        let buddies = self.buddies(previous, leaves);
        let queue = self.queue();
        self.sched.decider.expect_picks(picks.clone());
        let scheduled = self.sched.schedule(CPU, state);
        self.compare_charge(runtime);
        if let Some(look) = looks.last() {
            self.compare_look(look, buddies, scheduled.previous, scheduled.next);
        }
        self.score_picks(&picks, &queue);
        self.resched_before = false;
        if scheduled.next != previous {
            self.slice_unknown = None;
            self.running_unseen &= self.eevdf();
        }
        self.compare_set(set);
        if let Some((_, _, next)) = switch
            && self.task_of(next.pid).unwrap_or(TaskId::IDLE) != scheduled.next
        {
            self.lose_track();
        }
        if dead && leaves {
            let pid = self.pid(previous);
            self.reader_gone |= self.reader == Some(pid);
            self.tasks.remove(&pid);
        }
    }

    /// Who the kernel picked at each look; `None` if one of them cannot be picked in our state.
    fn recorded_picks(
        &self,
        looks: &[Look],
        set: Option<SetView>,
        previous: TaskId,
        leaves: bool,
    ) -> Option<Vec<TaskId>> {
        let mut gone: Vec<TaskId> = Vec::new();
        let mut picks = Vec::with_capacity(looks.len());
        for look in looks {
            let task = match (look.delayed, set) {
                (Some(pid), _) => self.task_of(pid)?,
                (None, Some(set)) => self.task_of(set.pid)?,
                (None, None) => previous,
            };
            // Whoever has just gone to sleep may only be picked to be taken off.
            let sleeps = leaves && task == previous && look.delayed.is_none();
            if task == TaskId::IDLE || sleeps || gone.contains(&task) || !self.sched.entity(task).on_rq {
                return None;
            }
            gone.extend(look.delayed.map(|_| task));
            picks.push(task);
        }
        Some(picks)
    }

    fn reweight(
        &mut self,
        pid: Pid,
        weight: u64,
        runtime: Option<Runtime>,
        set: Option<SetView>,
        check: Option<Check>,
    ) {
        self.advance(runtime);
        let Some(task) = self.task_of(pid) else { return };
        let mut attributes = self.sched.attributes(task);
        let series = self.settings.release.series();
        let nice = (-20i8..=19).find(|nice| weight_of_nice(series, Policy::Other, *nice).scaled == weight);
        (attributes.policy, attributes.nice) = match nice {
            Some(nice) => (Policy::Other, nice),
            None => (Policy::Idle, attributes.nice),
        };
        self.sched.decider.expect_preempt(check.is_some_and(|check| check.resched));
        if attributes.policy == self.sched.task(task).policy {
            self.sched.set_user_nice(task, attributes.nice);
        } else {
            self.sched.sched_setattr(task, &attributes);
        }
        self.changed(task, set);
        if let Some(check) = check {
            self.score_wakeup(check);
        }
    }

    /// A task was dequeued, changed and queued again. Setting the running task anew begins its slice anew.
    fn changed(&mut self, task: TaskId, set: Option<SetView>) {
        self.placed.remove(&task);
        if set.is_some() {
            self.slice_unknown = None;
        }
        self.compare_set(set);
    }

    /// The recording tells something that our state excludes: the rest is in doubt.
    pub(crate) fn lose_track(&mut self) {
        self.report.resynchronisations += 1;
        let queue = self.queue();
        self.differ("state", "not so", "as recorded", &queue);
    }

    pub(crate) fn differ(&mut self, what: &'static str, ours: impl ToString, kernels: impl ToString, queue: &[String]) {
        if self.report.differences.len() < KEPT {
            let (ours, kernels, queue) = (ours.to_string(), kernels.to_string(), queue.to_vec());
            self.report.differences.push(Difference { line: self.line, time: self.time, what, ours, kernels, queue });
        }
    }

    /// Placements whose task was not picked again before the recording ended stay open.
    pub(crate) fn end(mut self) -> Report {
        self.report.decisions.placement.unverifiable += self.placed.len() as u64;
        self.report
    }
}
