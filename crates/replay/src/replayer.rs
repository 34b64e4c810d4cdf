//! Drives the rules through the steps of a recording.

use std::collections::BTreeMap;

use schedlab_model::{Attributes, CpuId, Policy, TaskId, TaskState, Time};
use schedlab_sched::{Clocks, EntityId, GroupId, Sched, Vruntime, weight_of_nice};
use schedlab_trace::{Pid, Record, RecordState, TaskRef};

use crate::first_sight::{self, FirstSight};
use crate::forced::Forced;
use crate::report::{Difference, Report};
use crate::settings::Settings;
use crate::step::{Check, FIRST_FAIR_PRIORITY, PickProbe, Placement, Runtime, SetProbe, Step};

/// The one CPU.
pub(crate) const CPU: CpuId = CpuId(0);
/// Differences kept in full.
const KEPT: usize = 10;
/// `WF_FORK`.
const FORKED: u32 = 0x4;

/// Our side of a replay.
pub(crate) struct Replayer<'a> {
    pub(crate) sched: Sched<Forced>,
    settings: &'a Settings,
    sight: &'a FirstSight,
    tasks: BTreeMap<Pid, TaskId>,
    pids: Vec<Pid>,
    by_entity: BTreeMap<u32, TaskId>,
    /// Whether the running task's `vruntime` is still to be seen for the first time.
    running_unseen: bool,
    /// The task whose slice began before the recording.
    slice_unknown: Option<TaskId>,
    /// Tasks that were placed and not picked since, with the naive rule's place.
    placed: BTreeMap<TaskId, u64>,
    reader: Option<Pid>,
    reader_gone: bool,
    yielded: bool,
    clock: u64,
    line: u64,
    time: Time,
    pub(crate) report: Report,
}

impl<'a> Replayer<'a> {
    /// Builds the state in which the recording begins.
    pub(crate) fn new(settings: &'a Settings, sight: &'a FirstSight, report: Report) -> Self {
        let sched = Sched::new(settings.rules(), 1, Forced::default());
        let reader = first_sight::reader_of(settings.snapshot.as_ref());
        let mut replayer = Self {
            sched,
            settings,
            sight,
            tasks: BTreeMap::new(),
            pids: Vec::new(),
            by_entity: BTreeMap::new(),
            running_unseen: false,
            slice_unknown: None,
            placed: BTreeMap::new(),
            reader,
            reader_gone: false,
            yielded: false,
            clock: 1,
            line: 0,
            time: Time::ZERO,
            report,
        };
        replayer.begin();
        replayer
    }

    fn begin(&mut self) {
        self.set_clocks();
        let least = Vruntime(self.sight.min_vruntime.unwrap_or(0));
        self.sched.cfs_rq_mut(CPU).min_vruntime = least;
        let running = self.sight.running;
        if running != 0 {
            let task = self.begin_runnable(running, least.0);
            self.sched.decider.expect(Some(task), false);
            self.sched.schedule(CPU, TaskState::Running);
            if self.is_fair(task) {
                self.running_unseen = true;
                self.slice_unknown = Some(task);
            }
        }
        for &(pid, vruntime) in &self.sight.waiting {
            self.begin_runnable(pid, vruntime);
        }
        if let Some((next, last)) = self.sight.buddies {
            // Buddies of the first pick that were queued before the recording; later ones arise by rule.
            let known = |pid| self.tasks.get(&pid).map(|task| self.sched.task(*task).se);
            let (next, last) = (known(next), known(last));
            let queue = self.sched.cfs_rq_mut(CPU);
            (queue.next, queue.last) = (next, last);
        }
    }

    /// A task that is queued when the recording begins.
    fn begin_runnable(&mut self, pid: Pid, vruntime: u64) -> TaskId {
        let task = self.add(pid);
        self.report.first_sights.recording += 1;
        // Queueing a new task makes its virtual time absolute.
        let base = self.sched.cfs_rq(CPU).min_vruntime.0;
        self.sched.entity_mut(task).vruntime = Vruntime(vruntime.wrapping_sub(base));
        self.sched.decider.expect(None, false);
        self.sched.wake_up_new_task(task, CPU);
        task
    }

    fn add(&mut self, pid: Pid) -> TaskId {
        let priority = self.sight.priorities.get(&pid).copied().unwrap_or(120);
        let task = self.sched.new_task(&attributes_of(priority));
        self.bind(pid, task);
        task
    }

    fn bind(&mut self, pid: Pid, task: TaskId) {
        self.tasks.insert(pid, task);
        self.pids.resize(self.pids.len().max(task.index() + 1), 0);
        self.pids[task.index()] = pid;
        self.by_entity.insert(self.sched.task(task).se.0, task);
        self.report.tasks += 1;
    }

    /// A task that sleeps, known or first seen now.
    fn sleeper(&mut self, pid: Pid, seen: Option<u64>) -> TaskId {
        if let Some(task) = self.tasks.get(&pid) {
            return *task;
        }
        let task = self.add(pid);
        let snapshot = self.settings.snapshot.as_ref();
        let vruntime = match first_sight::from_snapshot(snapshot, self.reader_gone, pid) {
            Some(vruntime) => {
                self.report.first_sights.snapshot += 1;
                Some(vruntime)
            }
            None => {
                self.report.first_sights.recording += 1;
                seen
            }
        };
        self.sched.entity_mut(task).vruntime = Vruntime(vruntime.unwrap_or(0));
        self.sched.assume_asleep(task, CPU);
        task
    }

    pub(crate) fn pid(&self, task: TaskId) -> Pid {
        self.pids.get(task.index()).copied().unwrap_or(0)
    }

    fn is_fair(&self, task: TaskId) -> bool {
        task != TaskId::IDLE && !self.sched.task(task).policy.is_realtime()
    }

    fn set_clocks(&mut self) {
        self.sched.set_clocks(CPU, Clocks::all(Time::from_nanos(self.clock)));
    }

    /// Brings the clock to where the kernel's stood: the running task's start of charge plus what was charged.
    fn advance(&mut self, runtime: Option<Runtime>) {
        let running = self.sched.curr(CPU);
        if let Some(runtime) = runtime
            && running != TaskId::IDLE
            && self.pid(running) == runtime.pid
        {
            if self.running_unseen {
                // First sight of the task that runs as the recording begins: its time up to now is in the value.
                self.running_unseen = false;
                if let Some(vruntime) = runtime.vruntime {
                    self.sched.entity_mut(running).vruntime = Vruntime(vruntime);
                }
            } else {
                self.clock = self.sched.entity(running).exec_start.wrapping_add(runtime.runtime);
            }
        }
        self.set_clocks();
    }

    /// Takes one step, which begins with `record`.
    pub(crate) fn step(&mut self, record: &Record, step: Step<'_>) {
        (self.line, self.time) = (record.line, record.time);
        match step {
            Step::Nothing => {}
            Step::Unexplained => self.report.unexplained += 1,
            Step::Yield => self.yielded = true,
            Step::UpdateCurr { runtime } => {
                self.advance(Some(runtime));
                self.sched.update_curr(CPU);
                self.compare_charge(Some(runtime));
            }
            Step::Tick { runtime, resched } => self.tick(runtime, resched),
            Step::Wake { pid, new, runtime, placement, check, resched } => {
                self.wake(pid, new, runtime, placement, check, resched);
            }
            Step::WakeHigher { task } => self.wake_higher(task),
            Step::Check { check, runtime, resched } => {
                self.advance(runtime);
                let Some(woken) = self.tasks.get(&check.woken).copied() else { return self.lose_track() };
                self.compare_need_resched(check);
                self.sched.decider.expect(None, resched);
                self.sched.wakeup_preempt(CPU, woken, check.flags & FORKED != 0);
                self.compare_charge(runtime);
                self.score_wakeup(check, resched);
            }
            Step::Fork { child, runtime, placement } => self.fork(child, runtime, placement),
            Step::Schedule { dequeued, runtime, pick, set, switch } => {
                self.schedule(dequeued, runtime, pick, set, switch)
            }
            Step::Move { pid, runtime, set } => {
                self.advance(runtime);
                let Some(task) = self.tasks.get(&pid).copied() else { return self.lose_track() };
                self.sched.decider.expect(None, false);
                self.sched.sched_move_task(task, GroupId::ROOT);
                self.placed.remove(&task);
                self.forget_slice(set);
                self.compare_set(set);
            }
            Step::Reweight { pid, weight, runtime, set, check, resched } => {
                self.reweight(pid, weight, runtime, set, check, resched);
            }
        }
    }

    fn tick(&mut self, runtime: Option<Runtime>, resched: bool) {
        self.advance(runtime);
        self.sched.decider.expect(None, resched);
        self.sched.sched_tick(CPU);
        self.compare_charge(runtime);
        match self.sched.decider.preempt {
            Some(_) if self.slice_unknown == Some(self.sched.curr(CPU)) || self.running_unseen => {
                self.report.decisions.tick.unverifiable += 1;
            }
            Some((_, ours)) => {
                let naive = self.leftmost_is_before_running();
                self.report.decisions.tick.add(ours == resched, naive == resched);
                self.expect_equal("tick", ours == resched, ours, resched);
            }
            None => {
                self.expect_equal("tick", !resched, "not looked at", "preempts");
            }
        }
    }

    fn wake(
        &mut self,
        pid: Pid,
        new: bool,
        runtime: Option<Runtime>,
        placement: Option<Placement>,
        check: Option<Check>,
        resched: bool,
    ) {
        self.advance(runtime);
        let task = self.sleeper(pid, placement.map(|placement| placement.vruntime));
        if self.sched.entity(task).on_rq {
            return self.lose_track();
        }
        if let Some(placement) = placement.filter(|_| !new) {
            let ours = self.sched.entity(task).vruntime.0;
            self.compare_vruntime("vruntime", ours, placement.vruntime);
        }
        if let Some(check) = check {
            self.compare_need_resched(check);
        }
        self.sched.decider.expect(None, resched);
        if new {
            self.sched.wake_up_new_task(task, CPU);
        } else {
            self.sched.try_to_wake_up(task, CPU);
        }
        let least = self.sched.cfs_rq(CPU).min_vruntime.0;
        self.placed.insert(task, least);
        self.compare_charge(runtime);
        if let Some(placement) = placement {
            self.compare_min_vruntime(placement.min_vruntime);
        }
        if let Some(check) = check {
            self.score_wakeup(check, resched);
        }
    }

    fn wake_higher(&mut self, task: &TaskRef) {
        self.advance(None);
        let task = self.sleeper(task.pid, None);
        self.sched.decider.expect(None, false);
        self.sched.try_to_wake_up(task, CPU);
    }

    fn fork(&mut self, child: Pid, runtime: Option<Runtime>, placement: Placement) {
        self.advance(runtime);
        let parent = self.sched.curr(CPU);
        if parent == TaskId::IDLE {
            return self.lose_track();
        }
        self.sched.decider.expect(None, false);
        let task = self.sched.sched_fork(parent);
        self.bind(child, task);
        self.compare_charge(runtime);
        self.compare_min_vruntime(placement.min_vruntime);
        if !self.settings.tunables.child_runs_first {
            // The child's is its parent's until it is placed.
            let ours = self.sched.entity(parent).vruntime.0;
            self.compare_vruntime("vruntime", ours, placement.vruntime);
        }
    }

    fn schedule(
        &mut self,
        dequeued: Option<Pid>,
        runtime: Option<Runtime>,
        pick: Option<PickProbe>,
        set: Option<SetProbe>,
        switch: Option<(&TaskRef, RecordState, &TaskRef)>,
    ) {
        self.advance(runtime);
        let previous = self.sched.curr(CPU);
        if std::mem::take(&mut self.yielded) && self.is_fair(previous) {
            self.sched.decider.expect(None, false);
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
        let kernels = match (pick, set) {
            (Some(_), Some(set)) => self.tasks.get(&set.pid).copied(),
            (Some(_), None) => Some(previous),
            (None, _) => None,
        };
        let gone = dequeued.map(|pid| self.tasks.get(&pid).copied());
        let cannot_run = |task| task == TaskId::IDLE || !self.sched.entity(task).on_rq || gone == Some(Some(task));
        if gone.is_some_and(|gone| gone != Some(previous)) || kernels.is_some_and(cannot_run) {
            return self.lose_track();
        }
        let gone = gone.flatten();
        let buddies = pick.map(|pick| (pick, self.buddies(gone)));
        let queue = self.queue();
        self.sched.decider.expect(kernels, false);
        let scheduled = self.sched.schedule(CPU, state);
        self.compare_charge(runtime);
        if let Some((pick, buddies)) = buddies {
            self.compare_queue(pick, buddies);
            self.score_pick(kernels, queue);
        }
        if scheduled.next != previous {
            self.slice_unknown = None;
            self.running_unseen = false;
        }
        self.compare_set(set);
        if let Some((_, _, next)) = switch
            && self.tasks.get(&next.pid).copied().unwrap_or(TaskId::IDLE) != scheduled.next
        {
            self.lose_track();
        }
        if dead && leaves {
            let pid = self.pid(previous);
            self.reader_gone |= self.reader == Some(pid);
            self.tasks.remove(&pid);
        }
    }

    fn reweight(
        &mut self,
        pid: Pid,
        weight: u64,
        runtime: Option<Runtime>,
        set: Option<SetProbe>,
        check: Option<Check>,
        resched: bool,
    ) {
        self.advance(runtime);
        let Some(task) = self.tasks.get(&pid).copied() else { return };
        let mut attributes = self.sched.attributes(task);
        let series = self.settings.release.series();
        let nice = (-20i8..=19).find(|nice| weight_of_nice(series, Policy::Other, *nice).scaled == weight);
        (attributes.policy, attributes.nice) = match nice {
            Some(nice) => (Policy::Other, nice),
            None => (Policy::Idle, attributes.nice),
        };
        self.sched.decider.expect(None, resched);
        if attributes.policy == self.sched.task(task).policy {
            self.sched.set_user_nice(task, attributes.nice);
        } else {
            self.sched.sched_setattr(task, &attributes);
        }
        self.placed.remove(&task);
        self.forget_slice(set);
        self.compare_set(set);
        if let Some(check) = check {
            self.score_wakeup(check, resched);
        }
    }

    /// Setting the running task anew begins its slice anew.
    fn forget_slice(&mut self, set: Option<SetProbe>) {
        if set.is_some() {
            self.slice_unknown = None;
        }
    }

    /// The recording tells something that our state excludes: the rest is in doubt.
    fn lose_track(&mut self) {
        self.report.resynchronisations += 1;
        self.differ("state", "not so", "as recorded", self.queue());
    }

    pub(crate) fn differ(
        &mut self,
        what: &'static str,
        ours: impl ToString,
        kernels: impl ToString,
        queue: Vec<String>,
    ) {
        if self.report.differences.len() < KEPT {
            let (ours, kernels) = (ours.to_string(), kernels.to_string());
            self.report.differences.push(Difference { line: self.line, time: self.time, what, ours, kernels, queue });
        }
    }

    /// Placements whose task was not picked again before the recording ended.
    pub(crate) fn end(mut self) -> Report {
        self.report.decisions.placement.unverifiable += self.placed.len() as u64;
        self.report
    }

    pub(crate) fn take_placed(&mut self, task: TaskId) -> Option<u64> {
        self.placed.remove(&task)
    }

    pub(crate) fn task_of(&self, pid: Pid) -> Option<TaskId> {
        self.tasks.get(&pid).copied()
    }

    pub(crate) fn task_of_entity(&self, entity: EntityId) -> Option<TaskId> {
        self.by_entity.get(&entity.0).copied()
    }

    pub(crate) const fn running_unseen(&self) -> bool {
        self.running_unseen
    }
}

/// The policy and nice level of a kernel priority. The fair policies look alike in it; they are taken for SCHED_OTHER.
fn attributes_of(priority: i32) -> Attributes {
    if priority >= FIRST_FAIR_PRIORITY {
        let nice = i8::try_from(priority.saturating_sub(120)).unwrap_or(0).clamp(-20, 19);
        return Attributes { nice, ..Attributes::default() };
    }
    // Stop and deadline tasks stand above every real-time priority; the highest of these is the nearest.
    let priority = u8::try_from(99 - priority.clamp(0, 98)).unwrap_or(99);
    Attributes { policy: Policy::Fifo(priority), ..Attributes::default() }
}
