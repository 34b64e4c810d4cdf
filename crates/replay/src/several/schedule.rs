//! `__schedule` and ticks.

use schedlab_model::{CpuId, TaskId, TaskState};
use schedlab_trace::{Pid, RecordKind, RecordState};

use super::Several;
use crate::classes::start::has;
use crate::read::flags::SLEEP;
use crate::read::section::{Entry, What};
use crate::schedules::Picked;

impl<'a> Several<'a> {
    /// The running task leaves and nobody waits: while the CPU looks for work its lock is free.
    pub(super) fn leave(&mut self, step: &[Entry<'a>], by: usize, ahead: &[Entry<'a>]) {
        let cpu = CpuId(by as u32);
        let Some(task) = step.first().and_then(Entry::pid).and_then(|pid| self.task_of(pid)) else { return };
        self.advance(cpu, step);
        if self.sched.curr(cpu) != task || task == TaskId::IDLE || !self.sched.entity(task).on_rq {
            return self.lose_track(cpu, "somebody else runs");
        }
        let dead = ahead.iter().find_map(|entry| match &entry.record.kind {
            RecordKind::Switch { state, .. } => Some(matches!(state, RecordState::Dead(_))),
            _ => None,
        });
        self.compare_before(cpu, step);
        let lingerers = self.lingerers(step);
        self.sched.decider.expect_picks(lingerers);
        let state = if dead == Some(true) { TaskState::Dead } else { TaskState::Interruptible };
        self.cpus[by].searches = true;
        let next = self.sched.schedule_until_search(cpu, state);
        if self.is_fair(next) {
            self.lose_track(cpu, "nobody is left to run");
        }
    }

    pub(super) fn schedule(&mut self, step: &[Entry<'a>], by: usize, _ahead: &[Entry<'a>]) {
        let cpu = CpuId(by as u32);
        let switch = step.iter().find_map(|entry| match &entry.record.kind {
            RecordKind::Switch { previous, state, next } => Some((previous.pid, *state, next.pid)),
            _ => None,
        });
        self.advance(cpu, step);
        let previous = self.sched.curr(cpu);
        let searched = std::mem::take(&mut self.cpus[by].searches);
        let Some((left_pid, state, next_pid)) = switch else {
            let lingerers = self.lingerers(step);
            if searched {
                // What it found was somebody who lingers, and it goes on.
                self.cpus[by].searches = true;
                self.compare_before(cpu, step);
                self.sched.decider.expect_picks(lingerers.iter().copied());
                if !lingerers.is_empty() && self.sched.search_on(cpu) != TaskId::IDLE {
                    self.lose_track(cpu, "somebody is left to run");
                }
            } else if previous != TaskId::IDLE || !lingerers.is_empty() {
                self.pick(cpu, step, TaskState::Running, previous, previous);
            }
            return;
        };
        let Some(next) = self.known(next_pid, cpu, None) else {
            // Before all were told of: nobody that is known runs.
            return self.run_nobody(cpu);
        };
        let sleeps =
            step.first().is_some_and(|entry| matches!(entry.what, What::Dequeue(_)) && entry.flags() & SLEEP != 0);
        let stops = self.stoppers.contains(&previous) && state != RecordState::Running;
        if stops {
            self.stopped(cpu);
        }
        if previous != TaskId::IDLE && self.pid(previous) != left_pid {
            self.lose_track(cpu, "somebody else runs");
        }
        let dead = matches!(state, RecordState::Dead(_));
        // Throttled, or put off by the fair server, the recorder waits as if it slept.
        let here = |own: &TaskId| self.sched.entity(*own).on_rq && self.sched.task_cpu(*own) == cpu;
        let waits = self.recorder.filter(here).filter(|own| *own != next && !self.stoppers.contains(&next));
        let served = waits == Some(previous);
        if let Some(own) = waits.filter(|_| !served) {
            self.sched.put_aside(own);
        }
        // Who has left already does not leave again.
        let queued = previous != TaskId::IDLE && self.sched.entity(previous).on_rq;
        let state = match (queued && (sleeps || stops || served), state) {
            (false, _) => TaskState::Running,
            (true, RecordState::Dead(_)) => TaskState::Dead,
            (true, _) => TaskState::Interruptible,
        };
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

    fn run_nobody(&mut self, cpu: CpuId) {
        let running = self.sched.curr(cpu);
        if running != TaskId::IDLE {
            self.sched.decider.expect_nothing();
            self.sched.schedule(cpu, TaskState::Interruptible);
        }
    }

    fn pick(&mut self, cpu: CpuId, step: &[Entry<'a>], state: TaskState, previous: TaskId, next: TaskId) {
        if previous != TaskId::IDLE && self.yielding.remove(&self.pid(previous)) && state == TaskState::Running {
            self.sched.sched_yield(cpu);
        }
        self.compare_before(cpu, step);
        let mut picks = self.lingerers(step);
        if self.is_fair(next) {
            picks.push(next);
        }
        let before = (self.queue_lines(cpu), self.sched.cfs_rq(cpu).curr);
        self.sched.decider.expect_picks(picks);
        let scheduled = self.sched.schedule(cpu, state);
        if self.cpus[cpu.index()].pending.iter().next().is_some() {
            self.sched.assume_not_idle(cpu);
        }
        let ours = self.sched.decider.picks.last().map_or(scheduled.next, |(_, ours)| *ours);
        let (time, line) = step.last().map_or((self.time, self.line), |last| (last.record.time, last.record.line));
        let (ours_pid, kernels): (Pid, Pid) = (self.pid(ours), self.pid(next));
        self.report.schedules.pick(Picked { time, line, ours: ours_pid, kernels, state });
        if scheduled.next != next {
            self.report.decisions.pick.add(false, false);
            self.differ(cpu, "pick", format!("{} of {:?}", self.pid(scheduled.next), before.0), kernels);
            return self.lose_track(cpu, "another task runs");
        }
        self.score_pick(cpu, next, &before.0);
        self.compare_look(cpu, step, before.1);
        self.compare_after(step);
    }

    fn score_pick(&mut self, cpu: CpuId, kernels: TaskId, lines: &[String]) {
        let picks = std::mem::take(&mut self.sched.decider.picks);
        let unordered = self.unordered.remove(&kernels);
        let Some((pick, ours)) = picks.last().copied().filter(|_| self.is_fair(kernels)) else { return };
        if ours != kernels && !unordered && self.begun {
            self.differ(cpu, "pick", format!("{} of {lines:?}", self.pid(ours)), self.pid(kernels));
        }
        if pick.candidates < 2 {
            return;
        }
        if !self.begun {
            return;
        }
        if unordered || !self.verifiable(ours) || !self.verifiable(kernels) {
            self.report.decisions.pick.unverifiable += 1;
            return;
        }
        self.report.decisions.pick.add(ours == kernels, pick.naive == kernels);
    }

    /// Who was picked only to be taken off (EEVDF).
    fn lingerers(&self, step: &[Entry<'a>]) -> Vec<TaskId> {
        let delayed = |entry: &&Entry<'a>| entry.what == What::Lingers && entry.flags() & self.flags.delayed != 0;
        step.iter().filter(delayed).filter_map(|entry| self.task_of(entry.pid()?)).collect()
    }

    pub(super) fn tick(&mut self, step: &[Entry<'a>], by: usize) {
        let cpu = CpuId(by as u32);
        self.advance(cpu, step);
        self.compare_before(cpu, step);
        let running = self.sched.curr(cpu);
        if running == TaskId::IDLE {
            return;
        }
        let told = self.sched.need_resched(cpu);
        let from = step.iter().position(|entry| entry.what == What::Tick).unwrap_or(0);
        let kernels = has(&step[from..], What::Resched);
        let first = self.sched.cfs_rq(cpu).timeline.first().and_then(|first| self.task_of_entity(first));
        let naive = first.is_some_and(|first| self.key(first).before(self.key(running)));
        let scored = !told && self.sched.nr_running(cpu) > 1 && self.is_fair(running);
        self.sched.decider.expect_nothing();
        self.sched.sched_tick(cpu);
        let ours = self.sched.need_resched(cpu);
        let scored = scored && self.begun;
        if scored && self.verifiable(running) {
            self.report.decisions.tick.add(ours == kernels, naive == kernels);
        } else if scored {
            self.report.decisions.tick.unverifiable += 1;
        }
        if !told && ours != kernels {
            self.differ(cpu, "tick", ours, kernels);
            self.sched.assume_need_resched(cpu, kernels);
        }
    }
}
