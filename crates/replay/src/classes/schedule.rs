//! `__schedule`: who leaves, who was looked at, who runs.

use schedlab_model::{TaskId, TaskState, Time};
use schedlab_sched::Clocks;
use schedlab_trace::{Pid, Record, RecordKind, RecordState};

use super::{CPU, Classes};
use crate::read::flags::{SLEEP, may_yield};
use crate::read::section::{Entry, What, cut};
use crate::schedules::Picked;

impl<'a> Classes<'a> {
    pub(super) fn schedule(&mut self, section: &[Entry<'a>]) {
        let previous = self.sched.curr(CPU);
        if previous != TaskId::IDLE && self.yielding == Some(self.pid(previous)) {
            self.yield_now();
        }
        let switch = section.iter().find_map(|entry| match &entry.record.kind {
            RecordKind::Switch { previous, state, next } => Some((previous, *state, next)),
            _ => None,
        });
        let left = section
            .first()
            .filter(|entry| matches!(entry.what, What::Dequeue(_)) && entry.flags() & SLEEP != 0)
            .and_then(Entry::pid);
        if left.is_some_and(|pid| self.task_of(pid) != Some(previous)) {
            return self.lose_track("somebody else runs");
        }
        let dead = switch.is_some_and(|(_, state, _)| matches!(state, RecordState::Dead(_)));
        let stops = self.stoppers.contains(&previous);
        let sleeps = stops && switch.is_some_and(|(_, state, _)| state != RecordState::Running);
        let left = left.or_else(|| sleeps.then(|| self.pid(previous)));
        let state = match (left.is_some(), dead) {
            (false, _) => TaskState::Running,
            (true, true) => TaskState::Dead,
            (true, false) => TaskState::Interruptible,
        };
        let next = match switch {
            Some((_, _, next)) => self.known(next.pid, None),
            None => Some(previous),
        };
        let Some(next) = next else { return self.lose_track("nobody knows who runs next") };
        if !section.iter().any(|entry| entry.record.clocks.is_some())
            && let Some(began) = self.began(self.pid(next))
        {
            self.advance_to(began);
        }
        self.compare_before(section);
        if left.is_some() {
            self.charge_who_leaves(previous, section);
        }
        let mut picks: Vec<TaskId> = self.lingerers(section);
        if self.is_fair(next) {
            picks.push(next);
        }
        let possible = next == TaskId::IDLE || self.sched.entity(next).on_rq;
        if !possible || (left.is_some() && next == previous) {
            return self.lose_track("who runs next is asleep");
        }
        let queues = self.queues_before(section);
        let oldest = self.oldest(previous, left.is_some());
        let lines = self.queue_lines();
        self.sched.decider.expect_picks(picks);
        let scheduled = self.sched.schedule(CPU, state);
        let ours = self.sched.decider.picks.last().map_or(scheduled.next, |(_, ours)| *ours);
        // Among equals whose order is not told, ours means nothing.
        let ours = if self.is_among_unordered(next) { next } else { ours };
        self.note_pick(section, next, ours, state);
        if scheduled.next != next {
            self.differ("pick", self.pid(scheduled.next), self.pid(next));
            self.report.decisions.pick.add(false, false);
            return self.lose_track("another class's task runs");
        }
        self.score_pick(next, oldest, &lines);
        if previous != TaskId::IDLE && next != previous && left.is_none() {
            self.waits(previous);
        }
        self.compare_looks(&queues, section);
        self.compare_after(section);
        if dead && left.is_some() {
            let pid = self.pid(previous);
            self.tasks.forget(pid);
        }
    }

    /// Who leaves is charged up to the clock it was taken off at; the clock may be read again before the pick.
    fn charge_who_leaves(&mut self, previous: TaskId, section: &[Entry<'a>]) {
        let clocks = self.clocks;
        let Some(taken) = section.first().and_then(|entry| entry.record.clocks) else { return };
        if previous == TaskId::IDLE || taken.task >= clocks.clock_task.as_nanos() {
            return;
        }
        let at = Time::from_nanos(taken.task);
        let clock = taken.clock.map_or(clocks.clock, Time::from_nanos);
        self.sched.set_clocks(CPU, Clocks { clock, clock_task: at, clock_pelt: at });
        self.sched.update_curr(CPU);
        self.sched.entity_mut(previous).exec_start = clocks.clock_task.as_nanos();
        self.sched.set_clocks(CPU, clocks);
    }

    /// Who runs now, and who would by our rules.
    fn note_pick(&mut self, section: &[Entry<'a>], kernels: TaskId, ours: TaskId, state: TaskState) {
        let (time, line) = section.last().map_or((self.time, self.line), |last| (last.record.time, last.record.line));
        let (ours, kernels) = (self.pid(ours), self.pid(kernels));
        self.report.schedules.pick(Picked { time, line, ours, kernels, state });
    }

    /// `__schedule` of which nothing is recorded but that the flag is gone by `record`.
    pub(super) fn schedule_again(&mut self, running: TaskId, record: &Record) {
        // It comes after a yield of which nothing is recorded either, and before one that this record is of.
        if self.yielding == Some(self.pid(running)) && !may_yield(record.flags) {
            self.yield_now();
        }
        let oldest = self.oldest(running, false);
        self.sched.decider.expect_nothing();
        let scheduled = self.sched.schedule(CPU, TaskState::Running);
        if scheduled.next != running {
            self.differ("pick", self.pid(scheduled.next), self.pid(running));
            self.report.decisions.pick.add(false, oldest == Some(running));
            return self.lose_track("another task runs");
        }
        self.score_pick(running, oldest, &[]);
    }

    /// When a task began to run, of whose switch no probe shows the clocks: so much before it is first charged as it ran.
    fn began(&self, pid: Pid) -> Option<u64> {
        let mut at = 0;
        while at < self.ahead.len() {
            let (_, length) = cut(&self.ahead[at..]);
            let section = &self.ahead[at..(at + length).min(self.ahead.len())];
            at += length;
            let charged =
                |entry: &&Entry<'a>| matches!(entry.what, What::RtCharge | What::DlCharge) && entry.pid() == Some(pid);
            if let Some(start) = section.iter().find(charged).and_then(|entry| entry.record.number("xs")) {
                return Some(start);
            }
            let ran = section.iter().find_map(|entry| match entry.record.kind {
                RecordKind::StatRuntime { pid: charged, runtime, .. } if charged == pid => Some(runtime),
                _ => None,
            });
            if let Some(ran) = ran {
                let clock = section.iter().filter_map(|entry| entry.record.clocks).map(|clocks| clocks.task).max()?;
                return clock.checked_sub(ran);
            }
            if section.iter().any(|entry| entry.what == What::Switch) {
                return None;
            }
        }
        None
    }

    /// Who was picked only to be taken off (EEVDF).
    fn lingerers(&self, section: &[Entry<'a>]) -> Vec<TaskId> {
        let delayed = |entry: &&Entry<'a>| {
            entry.what == What::Lingers
                && entry.flags() & self.flags.delayed != 0
                && entry.record.number("my") == Some(0)
        };
        section.iter().filter(delayed).filter_map(|entry| self.task_of(entry.pid()?)).collect()
    }

    /// Who has waited longest, among the runnable.
    fn oldest(&self, previous: TaskId, left: bool) -> Option<TaskId> {
        let runnable = |task: &TaskId| {
            let entity = self.sched.entity(*task);
            entity.on_rq && !entity.sched_delayed && !(left && *task == previous)
        };
        let waiting = self.waiting_since.iter().filter(|(task, _)| runnable(task));
        waiting.min_by_key(|(_, since)| **since).map(|(task, _)| *task)
    }

    fn score_pick(&mut self, kernels: TaskId, oldest: Option<TaskId>, lines: &[String]) {
        let picks = std::mem::take(&mut self.sched.decider.picks);
        if !self.is_fair(kernels) {
            // Who runs of a higher class is not asked for: ours ran.
            if kernels != TaskId::IDLE && self.sched.nr_running(CPU) > 1 {
                self.report.decisions.pick.add(true, oldest == Some(kernels));
            }
            return;
        }
        let Some((pick, ours)) = picks.last().copied() else { return };
        let unordered = self.is_among_unordered(kernels);
        self.unordered.remove(&kernels);
        if pick.candidates < 2 {
            return self.expect_equal("pick", ours == kernels, self.pid(ours), self.pid(kernels));
        }
        if unordered || !self.verifiable(ours) || !self.verifiable(kernels) {
            self.report.decisions.pick.unverifiable += 1;
            return;
        }
        if ours != kernels {
            self.differ("pick", format!("{} of {lines:?}", self.pid(ours)), self.pid(kernels));
        }
        self.report.decisions.pick.add(ours == kernels, pick.naive == kernels);
    }

    /// Whether a task and another one were queued before the recording, at the same place.
    fn is_among_unordered(&self, task: TaskId) -> bool {
        let key = |task: TaskId| {
            let entity = self.sched.entity(task);
            (entity.vruntime, entity.deadline)
        };
        let same = |other: &&TaskId| **other != task && key(**other) == key(task);
        self.unordered.contains(&task) && self.unordered.iter().any(|other| same(&other))
    }
}
