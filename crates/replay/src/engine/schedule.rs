//! `__schedule` and ticks: the task that leaves, the tasks that were looked at, the task that runs next.

use schedlab_model::{CpuId, TaskId, TaskState, Time};
use schedlab_sched::Clocks;
use schedlab_trace::{Pid, Record, RecordKind, RecordState};

use super::Engine;
use super::start::has;
use crate::queue_order::{first_is_before_running, queue_lines};
use crate::read::flags::{SAVE, SLEEP, may_yield, sleeping_state};
use crate::read::section::{Entry, What, cut};
use crate::schedules::Picked;

impl<'a> Engine<'a> {
    /// The running task is dequeued and no task waits: while the CPU looks for work its lock is free.
    pub(super) fn leave(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let Some(task) = step.first().and_then(Entry::pid).and_then(|pid| self.task_of(pid)) else { return };
        self.advance(cpu, step);
        if self.sched.curr(cpu) != task || task == TaskId::IDLE || !self.sched.entity(task).on_rq {
            return self.lose_track(cpu, "another task runs");
        }
        let switch = self.ahead.iter().find_map(|entry| match &entry.record.kind {
            RecordKind::Switch { state, .. } => Some(*state),
            _ => None,
        });
        self.search(cpu, step, sleeping_state(switch));
    }

    /// The part of `__schedule` up to where the CPU looks for work, with no task left.
    fn search(&mut self, cpu: CpuId, step: &[Entry<'a>], state: TaskState) {
        self.compare_before(cpu, step);
        let delayed_picks = self.delayed_picks(step);
        self.sched.decider.expect_picks(delayed_picks);
        self.cpus[cpu.index()].searches = true;
        let next = self.sched.schedule_until_search(cpu, state);
        if self.is_fair(next) {
            self.lose_track(cpu, "no task is left to run");
        }
    }

    /// A schedule on several CPUs, or what is left of one where the CPU looked for work on the way.
    pub(super) fn schedule(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let switch = step.iter().find_map(|entry| match &entry.record.kind {
            RecordKind::Switch { previous, state, next } => Some((previous.pid, *state, next.pid)),
            _ => None,
        });
        self.advance(cpu, step);
        let previous = self.sched.curr(cpu);
        if switch.is_some_and(|(left, _, next)| self.is_chosen(previous, left, next)) {
            return;
        }
        let searched = std::mem::take(&mut self.cpus[cpu.index()].searches);
        let Some((left_pid, state, next_pid)) = switch else {
            let delayed_picks = self.delayed_picks(step);
            if searched {
                // What it found was a delayed task (DELAY_DEQUEUE), and the search goes on.
                self.cpus[cpu.index()].searches = true;
                self.compare_before(cpu, step);
                self.sched.decider.expect_picks(delayed_picks.iter().copied());
                if !delayed_picks.is_empty() && self.sched.search_on(cpu) != TaskId::IDLE {
                    self.lose_track(cpu, "somebody is left to run");
                }
            } else if previous != TaskId::IDLE && !self.sched.entity(previous).on_rq {
                // It was throttled as it returned to user space.
                self.search(cpu, step, TaskState::Running);
            } else if previous != TaskId::IDLE || !delayed_picks.is_empty() {
                let next = self.chosen_before_switch(step, previous).unwrap_or(previous);
                self.pick(cpu, step, TaskState::Running, previous, next);
            }
            return;
        };
        let Some(next) = self.known(next_pid, cpu, None) else {
            // The snapshot is not complete yet: no known task runs.
            return self.run_idle(cpu);
        };
        let sleeps =
            step.first().is_some_and(|entry| matches!(entry.what, What::Dequeue(_)) && entry.flags() & SLEEP != 0);
        let stops = self.stoppers.contains(&previous) && state != RecordState::Running;
        if stops {
            self.stopped(cpu);
        }
        if previous != TaskId::IDLE && self.pid(previous) != left_pid {
            self.lose_track(cpu, "another task runs");
        }
        let dead = matches!(state, RecordState::Dead(_));
        // Throttled, or put off by the fair server, the recorder waits as if it slept.
        let here = |own: &TaskId| self.sched.entity(*own).on_rq && self.sched.task_cpu(*own) == cpu;
        let waits = self.recorder.filter(here).filter(|own| *own != next && !self.stoppers.contains(&next));
        let served = waits == Some(previous);
        if let Some(own) = waits.filter(|_| !served) {
            self.sched.put_aside(own);
        }
        // A task that was dequeued already is not dequeued again.
        let queued = previous != TaskId::IDLE && self.sched.entity(previous).on_rq;
        let leaves = queued && (sleeps || stops || served);
        let state = if leaves { sleeping_state(Some(state)) } else { TaskState::Running };
        if self.recorder == Some(next) && !self.sched.entity(next).on_rq && self.sched.task_cpu(next) == cpu {
            self.sched.decider.expect_nothing();
            self.sched.activate_waking(next, false);
        }
        if !self.bring(cpu, next, previous, state) {
            return;
        }
        if searched && next != TaskId::IDLE {
            self.sched.assume_work_found(cpu);
        }
        self.pick(cpu, step, state, previous, next);
        if dead && let Some(task) = self.tasks.forget(left_pid) {
            self.dead.insert(left_pid, task);
        }
    }

    /// A schedule on one CPU.
    pub(super) fn schedule_alone(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        let previous = self.sched.curr(cpu);
        let switch = section.iter().find_map(|entry| match &entry.record.kind {
            RecordKind::Switch { previous, state, next } => Some((previous, *state, next)),
            _ => None,
        });
        if switch.is_some_and(|(left, _, next)| self.is_chosen(previous, left.pid, next.pid)) {
            return;
        }
        let left = section
            .first()
            .filter(|entry| matches!(entry.what, What::Dequeue(_)) && entry.flags() & SLEEP != 0)
            .and_then(Entry::pid);
        if left.is_some_and(|pid| self.task_of(pid) != Some(previous)) {
            return self.lose_track(cpu, "another task runs");
        }
        let dead = switch.is_some_and(|(_, state, _)| matches!(state, RecordState::Dead(_)));
        let stops = self.stoppers.contains(&previous);
        let sleeps = stops && switch.is_some_and(|(_, state, _)| state != RecordState::Running);
        let left = left.or_else(|| sleeps.then(|| self.pid(previous)));
        let slept = left.map(|_| sleeping_state(switch.map(|(_, state, _)| state)));
        let state = slept.unwrap_or(TaskState::Running);
        let next = match switch {
            Some((_, _, next)) => self.known(next.pid, cpu, None),
            None => self.chosen_before_switch(section, previous).or(Some(previous)),
        };
        let Some(next) = next else { return self.lose_track(cpu, "the next task is not known") };
        if !section.iter().any(|entry| entry.record.clocks.is_some())
            && let Some(began) = self.began(self.pid(next))
        {
            self.advance_to(cpu, began);
        }
        let possible = next == TaskId::IDLE || self.sched.entity(next).on_rq;
        if !possible || (left.is_some() && next == previous) {
            return self.lose_track(cpu, "who runs next is asleep");
        }
        if !self.pick(cpu, section, state, previous, next) {
            return;
        }
        if previous != TaskId::IDLE && next != previous && left.is_none() {
            self.waits(previous);
        }
        if dead && left.is_some() {
            let pid = self.pid(previous);
            self.tasks.forget(pid);
        }
    }

    /// The task that a schedule chose before it took the previous one off its queue for a moment and put it back: that one was preempted where it
    /// must not migrate, so that its CPUs become this one alone (`migrate_disable_switch`, `do_set_cpus_allowed`). The switch comes after that.
    fn chosen_before_switch(&self, step: &[Entry<'a>], previous: TaskId) -> Option<TaskId> {
        let taken_off =
            self.ahead.first().filter(|next| matches!(next.what, What::Dequeue(_)) && next.flags() & SAVE != 0);
        taken_off.and_then(Entry::pid).filter(|pid| self.task_of(*pid) == Some(previous))?;
        let set = step.iter().rev().find(|entry| entry.what == What::Set && entry.pid() != Some(0));
        set.and_then(Entry::pid).and_then(|pid| self.task_of(pid)).filter(|next| *next != previous)
    }

    /// Whether a switch is to the task that was chosen so, and runs by our state.
    fn is_chosen(&self, runs: TaskId, left: Pid, next: Pid) -> bool {
        runs != TaskId::IDLE && left != next && self.task_of(next) == Some(runs)
    }

    /// Whether the kernel's next task can run by our state, which is mended where it excludes that.
    fn bring(&mut self, cpu: CpuId, next: TaskId, previous: TaskId, state: TaskState) -> bool {
        if next == TaskId::IDLE {
            return true;
        }
        let queued = self.sched.entity(next).on_rq;
        if next == previous && state != TaskState::Running {
            self.lose_track(cpu, "who leaves runs next");
            return false;
        }
        if queued && self.sched.task_cpu(next) == cpu && !self.detached.contains(&next) {
            return true;
        }
        self.lose_track(cpu, "who runs next is not on this queue");
        self.sched.decider.expect_nothing();
        let elsewhere = self.sched.task_cpu(next);
        if self.detached.remove(&next) {
            self.sched.attach_task(cpu, next);
        } else if !queued {
            if elsewhere != cpu {
                self.sched.migrate_waking(next, cpu);
            }
            if self.newborn.remove(&next) {
                self.sched.wake_up_new_task(next, cpu);
            } else {
                self.sched.activate_waking(next, elsewhere != cpu);
            }
        } else if self.sched.curr(elsewhere) == next {
            return false;
        } else {
            self.sched.move_queued_task(next, cpu);
        }
        true
    }

    fn run_idle(&mut self, cpu: CpuId) {
        let running = self.sched.curr(cpu);
        if running != TaskId::IDLE {
            self.sched.decider.expect_nothing();
            self.sched.schedule(cpu, TaskState::Interruptible);
        }
    }

    /// `__schedule` from where the previous task was dequeued, if it sleeps: compares the looks and the picked task. Returns whether our
    /// rules run the kernel's next task too.
    fn pick(&mut self, cpu: CpuId, step: &[Entry<'a>], state: TaskState, previous: TaskId, next: TaskId) -> bool {
        if previous != TaskId::IDLE && self.yielding.remove(&self.pid(previous)) && state == TaskState::Running {
            self.sched.sched_yield(cpu);
        }
        self.compare_before(cpu, step);
        let left = state != TaskState::Running;
        if left {
            self.charge_previous(cpu, previous, step);
        }
        let delayed_picks = self.delayed_picks(step);
        let picks: Vec<TaskId> = delayed_picks.iter().copied().chain(self.is_fair(next).then_some(next)).collect();
        let leaver = (left && previous != TaskId::IDLE).then(|| self.sched.task(previous).se);
        let queues = self.queues_before(step, leaver);
        let oldest = self.oldest(previous, left);
        let lines = queue_lines(&self.sched, &self.tasks, cpu);
        self.sched.decider.expect_picks(picks);
        if !self.alone() {
            self.sched.assume_rt_throttled(cpu, next, Some(previous).filter(|task| left && *task != TaskId::IDLE));
        }
        let scheduled = self.sched.schedule(cpu, state);
        if !self.cpus[cpu.index()].pending.is_empty() {
            self.sched.assume_not_idle(cpu);
        }
        let ours = self.sched.decider.picks.last().map_or(scheduled.next, |(_, ours)| *ours);
        // Among equals whose order is not told, ours means nothing.
        let ours = if self.alone() && self.is_among_unordered(next) { next } else { ours };
        self.note_pick(cpu, step, next, ours, state);
        if scheduled.next != next {
            self.report.decisions.pick.add(false, false);
            self.differ(cpu, "pick", format!("{} of {lines:?}", self.pid(scheduled.next)), self.pid(next));
            self.lose_track(cpu, "another task runs");
            return false;
        }
        self.score_pick(cpu, &delayed_picks, next, oldest, &lines);
        self.compare_looks(cpu, &queues);
        self.compare_after(cpu, step);
        true
    }

    /// The previous task is charged up to the clock at which it was dequeued; the clock may be read again before the pick.
    fn charge_previous(&mut self, cpu: CpuId, previous: TaskId, section: &[Entry<'a>]) {
        let clocks = self.cpus[cpu.index()].clocks;
        let Some(taken) = section.first().and_then(|entry| entry.record.clocks) else { return };
        if previous == TaskId::IDLE || taken.task >= clocks.clock_task.as_nanos() {
            return;
        }
        let at = Time::from_nanos(taken.task);
        let clock = taken.clock.map_or(clocks.clock, Time::from_nanos);
        self.sched.set_clocks(cpu, Clocks { clock, clock_task: at, clock_pelt: at });
        self.sched.update_curr(cpu);
        self.sched.entity_mut(previous).exec_start = clocks.clock_task.as_nanos();
        self.sched.set_clocks(cpu, clocks);
    }

    /// Notes the task that runs now, and the one that would run by our rules.
    fn note_pick(&mut self, cpu: CpuId, section: &[Entry<'a>], kernels: TaskId, ours: TaskId, state: TaskState) {
        let (time, line) = section.last().map_or((self.time, self.line), |last| (last.record.time, last.record.line));
        let (ours, kernels) = (self.pid(ours), self.pid(kernels));
        self.report.schedules.pick(Picked { time, cpu, line, ours, kernels, state });
    }

    /// `__schedule` of which nothing is recorded but that the flag is gone by `record`.
    pub(super) fn schedule_again(&mut self, cpu: CpuId, running: TaskId, record: &Record) {
        // It comes after a yield of which nothing is recorded either, and before one that this record is of.
        if !may_yield(record.flags) && self.yielding.remove(&self.pid(running)) {
            self.sched.sched_yield(cpu);
        }
        let oldest = self.oldest(running, false);
        self.sched.decider.expect_nothing();
        let scheduled = self.sched.schedule(cpu, TaskState::Running);
        if scheduled.next != running {
            self.differ(cpu, "pick", self.pid(scheduled.next), self.pid(running));
            self.report.decisions.pick.add(false, oldest == Some(running));
            return self.lose_track(cpu, "another task runs");
        }
        self.score_pick(cpu, &[], running, oldest, &[]);
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

    /// Whether a delayed task or group is taken off its queue (DEQUEUE_DELAYED).
    pub(super) fn takes_off_delayed(&self, entry: &Entry<'a>) -> bool {
        entry.what == What::DequeueEntities && entry.flags() & self.flags.delayed != 0
    }

    /// The tasks that were picked for their delayed dequeue only (EEVDF).
    fn delayed_picks(&self, section: &[Entry<'a>]) -> Vec<TaskId> {
        let delayed = |entry: &&Entry<'a>| self.takes_off_delayed(entry) && entry.record.number("my").unwrap_or(0) == 0;
        section.iter().filter(delayed).filter_map(|entry| self.task_of(entry.pid()?)).collect()
    }

    /// The runnable task that has waited longest.
    fn oldest(&self, previous: TaskId, left: bool) -> Option<TaskId> {
        let runnable = |task: &TaskId| {
            let entity = self.sched.entity(*task);
            entity.on_rq && !entity.sched_delayed && !(left && *task == previous)
        };
        let waiting = self.waiting_since.iter().filter(|(task, _)| runnable(task));
        waiting.min_by_key(|(_, since)| **since).map(|(task, _)| *task)
    }

    /// The looks of a schedule in which the delayed tasks `delayed_picks` were picked and dequeued, one after the other, and `kernels` last.
    fn score_pick(
        &mut self,
        cpu: CpuId,
        delayed_picks: &[TaskId],
        kernels: TaskId,
        oldest: Option<TaskId>,
        lines: &[String],
    ) {
        let picks = std::mem::take(&mut self.sched.decider.picks);
        if !self.is_fair(kernels) {
            self.unordered.remove(&kernels);
            // The decider is not asked for a task of a higher class: the one that runs is our rules' pick.
            if self.alone() && kernels != TaskId::IDLE && self.sched.nr_running(cpu) > 1 {
                self.report.decisions.pick.add(true, oldest == Some(kernels));
            }
            return;
        }
        let unordered = self.is_among_unordered(kernels);
        self.unordered.remove(&kernels);
        if !self.compares() {
            return;
        }
        // Each look before the last one took off a delayed task, and another look followed.
        let looks = picks.iter().rev().zip(std::iter::once(kernels).chain(delayed_picks.iter().rev().copied()));
        for ((pick, ours), kernels) in looks {
            let open = unordered || !self.verifiable(*ours) || !self.verifiable(kernels);
            if *ours != kernels && !open {
                self.differ(cpu, "pick", format!("{} of {lines:?}", self.pid(*ours)), self.pid(kernels));
            }
            if pick.candidates < 2 {
                continue;
            }
            if open {
                self.report.decisions.pick.unverifiable += 1;
            } else {
                self.report.decisions.pick.add(*ours == kernels, pick.naive == kernels);
            }
        }
    }

    /// Whether a task and another one were queued before the recording, at the same place; where others went on meanwhile, at whatever place.
    fn is_among_unordered(&self, task: TaskId) -> bool {
        if !self.alone() {
            return self.unordered.contains(&task);
        }
        let key = |task: TaskId| {
            let entity = self.sched.entity(task);
            (entity.vruntime, entity.deadline)
        };
        let same = |other: &&TaskId| **other != task && key(**other) == key(task);
        self.unordered.contains(&task) && self.unordered.iter().any(|other| same(&other))
    }

    /// A tick of the running task, or the high-resolution one at the end of its slice.
    pub(super) fn tick(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        self.compare_before(cpu, step);
        let running = self.sched.curr(cpu);
        if running == TaskId::IDLE && !self.alone() {
            return;
        }
        let told = self.sched.need_resched(cpu);
        let from = step.iter().position(|entry| entry.what == What::Tick).unwrap_or(0);
        let kernels = has(&step[from..], What::Resched);
        let naive = first_is_before_running(&self.sched, running);
        let followed = self.is_fair(running) || self.alone() && running != TaskId::IDLE;
        let scored = !told && self.sched.nr_running(cpu) > 1 && followed && self.compares();
        self.sched.decider.expect_nothing();
        if self.cpus[cpu.index()].slice_ends {
            self.sched.hrtick(cpu);
        } else {
            self.sched.sched_tick(cpu);
        }
        let ours = self.sched.need_resched(cpu);
        if scored && self.verifiable(running) {
            self.report.decisions.tick.add(ours == kernels, naive == kernels);
        } else if scored {
            self.report.decisions.tick.unverifiable += 1;
        }
        if !told && ours != kernels {
            if followed {
                self.differ(cpu, "tick", ours, kernels);
            }
            self.sched.assume_need_resched(cpu, kernels);
        }
        self.compare_after(cpu, step);
    }
}

#[cfg(test)]
mod tests;
