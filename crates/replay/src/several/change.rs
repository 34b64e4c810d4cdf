//! Tasks that change, and those that balancing or a call takes to another CPU.

use schedlab_model::{CpuId, TaskId};
use schedlab_sched::DequeueFlags;
use schedlab_trace::{Context, RecordKind};

use super::Several;
use crate::classes::start::{attributes_of, has};
use crate::read::flags::{MOVE, SAVE};
use crate::read::section::{Entry, What};

impl<'a> Several<'a> {
    /// `detach_task`, or `move_queued_task`'s first part.
    pub(super) fn detach(&mut self, step: &[Entry<'a>], by: usize) {
        let (Some(first), cpu) = (step.first(), self.cpu_of(step, by)) else { return };
        let Some(task) = first.pid().and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE) else {
            return;
        };
        self.advance(cpu, step);
        self.ask_now(by);
        self.compare_before(cpu, step);
        if !self.sched.entity(task).on_rq || self.sched.task_cpu(task) != cpu || self.sched.curr(cpu) == task {
            return self.lose_track(cpu, "taken off a queue that it is not on");
        }
        let to = step.iter().find_map(|entry| match entry.record.kind {
            RecordKind::Migrate { to, .. } => Some(to),
            _ => None,
        });
        if let Some(to) = to.filter(|to| (*to as usize) < self.cpus.len())
            && cpu.index() == by
            && self.stoppers.contains(&self.sched.curr(cpu))
        {
            self.pushed(cpu, task, CpuId(to));
        }
        self.sched.decider.expect_nothing();
        match to.filter(|to| (*to as usize) < self.cpus.len()) {
            Some(to) => {
                self.sched.detach_task(task, CpuId(to));
                self.detached.insert(task);
                self.placed.remove(&task);
            }
            // One that lingers leaves for good.
            None => {
                self.sched.dequeue_task(cpu, task, DequeueFlags(first.flags()));
            }
        }
    }

    /// A task's attributes or affinity change; queued, it is taken off and put back around that.
    pub(super) fn change(&mut self, step: &[Entry<'a>], by: usize) {
        let (Some(first), cpu) = (step.first(), self.cpu_of(step, by)) else { return };
        let Some(task) = first.pid().and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE) else {
            return;
        };
        self.advance(cpu, step);
        self.compare_before(cpu, step);
        if !self.sched.entity(task).on_rq || self.sched.task_cpu(task) != cpu {
            return self.lose_track(cpu, "changed on a queue that it is not on");
        }
        let flags = DequeueFlags(first.flags() & (SAVE | MOVE));
        let after = step.iter().rposition(|entry| matches!(entry.what, What::Enqueue(_))).unwrap_or(0);
        self.sched.decider.expect_preempt(has(&step[after..], What::Resched));
        if let Some(entry) = step.iter().find(|entry| entry.what == What::Parameters) {
            let mut attributes = attributes_of(entry.record);
            attributes.affinity = self.sched.attributes(task).affinity;
            self.sched.change_attributes(task, &attributes, flags);
        } else if flags.0 & MOVE != 0 {
            let group = self.sched.group_of(task);
            self.sched.sched_move_task(task, group);
        } else {
            self.sched.requeue(task, flags);
        }
        self.placed.remove(&task);
        self.compare_after(step);
    }

    /// `update_curr` from elsewhere, such as reading a CPU clock, or as the first part of `sched_yield`.
    pub(super) fn charge(&mut self, step: &[Entry<'a>], by: usize) {
        let (Some(first), cpu) = (step.first(), self.cpu_of(step, by)) else { return };
        if let Some(entry) = step.iter().find(|entry| entry.what == What::Parameters) {
            return self.set_parameters(entry);
        }
        self.advance(cpu, step);
        if self.sched.curr(cpu) == TaskId::IDLE || !has(step, What::UpdateCurr) {
            return;
        }
        self.compare_before(cpu, step);
        if first.record.flags.context == Context::Task && self.yielding.remove(&first.record.pid) {
            self.sched.sched_yield(cpu);
        } else {
            self.sched.update_curr(cpu);
        }
    }

    /// What a task became that is not queued.
    fn set_parameters(&mut self, entry: &Entry<'a>) {
        let Some(task) = entry.pid().and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE) else {
            return;
        };
        if !self.sched.entity(task).on_rq {
            let mut attributes = attributes_of(entry.record);
            attributes.affinity = self.sched.attributes(task).affinity;
            self.sched.decider.expect_nothing();
            self.sched.change_attributes(task, &attributes, DequeueFlags(SAVE));
        }
    }
}
