//! Tasks that change: attributes, group, affinity.

use schedlab_model::{Attributes, CpuId, Policy, TaskId};
use schedlab_sched::{Class, DequeueFlags};
use schedlab_trace::{Context, Pid, Record};

use super::Engine;
use super::start::{attributes_of, has};
use crate::queue_order::is_before_running;
use crate::read::flags::{MOVE, SAVE};
use crate::read::section::{Entry, Of, What};

impl<'a> Engine<'a> {
    /// What a task becomes by its parameters; its affinity stays, and as a real-time or deadline one its nice level.
    fn changed(&self, task: TaskId, record: &Record) -> Attributes {
        let mut attributes = attributes_of(record);
        if Class::of(attributes.policy) != Class::Fair {
            attributes.nice = self.sched.task(task).nice;
        }
        attributes.affinity = self.sched.attributes(task).affinity;
        attributes
    }

    /// A task's attributes or group change; queued, it is taken off and put back around that.
    pub(super) fn change(&mut self, cpu: CpuId, pid: Pid, section: &[Entry<'a>]) {
        let parameters = section.iter().find(|entry| entry.what == What::Parameters && entry.pid() == Some(pid));
        let moved = section.iter().find(|entry| entry.what == What::Move && entry.pid() == Some(pid));
        let dequeue = section.iter().find(|entry| matches!(entry.what, What::Dequeue(_)) && entry.pid() == Some(pid));
        // As a child is made its group is set, before it has its number.
        let Some(task) = self.task_of(pid).filter(|task| *task != TaskId::IDLE) else { return };
        let queued = self.sched.entity(task).on_rq;
        if moved.is_some() && dequeue.is_none() && queued {
            return;
        }
        if let Some(entry) = parameters
            && dequeue.is_none()
            && self.is_set_back(cpu, task, entry)
        {
            return;
        }
        self.compare_before(cpu, section);
        if !self.alone() && dequeue.is_some() && (!queued || self.sched.task_cpu(task) != cpu) {
            return self.lose_track(cpu, "changed on a queue that it is not on");
        }
        let flags = DequeueFlags(dequeue.map_or(SAVE | MOVE, |entry| entry.flags() & (SAVE | MOVE)));
        let after = section.iter().rposition(|entry| matches!(entry.what, What::Enqueue(_))).unwrap_or(0);
        let kernels = has(&section[after..], What::Resched);
        let checked = has(&section[after..], What::Check);
        self.sched.decider.expect_preempt(kernels);
        let before = self.sched.must_resched(cpu);
        if let Some(entry) = moved {
            let group = self.group_at(entry.record);
            self.move_task(task, group);
        } else if let Some(entry) = parameters {
            let attributes = self.changed(task, entry.record);
            self.sched.change_attributes(task, &attributes, flags);
            if let Policy::Rr(_) = attributes.policy
                && let Some(slice) = queued_slice(section)
            {
                // A change of policy leaves the slice that the task had.
                let equal = self.report.state.time_slice.add(self.sched.time_slice(task) == slice);
                self.expect_equal(cpu, "time_slice", equal, self.sched.time_slice(task), slice);
            }
        } else if flags.0 & MOVE != 0 {
            // sched_move_task into the group that it is in, as every exit does; only the fair class tells of its group.
            let group = self.sched.group_of(task);
            self.sched.sched_move_task(task, group);
        } else {
            self.sched.requeue(task, flags);
        }
        self.placed.remove(&task);
        if checked && !before && self.alone() {
            let curr = self.sched.curr(cpu);
            if self.is_fair(task) && self.is_fair(curr) && curr != task {
                let ours = self.sched.decider.preempt.unwrap_or(false);
                let naive = is_before_running(&self.sched, task, curr);
                self.report.decisions.wakeup.add(ours == kernels, naive == kernels);
                self.expect_equal(cpu, "wakeup", ours == kernels, ours, kernels);
            }
        }
        self.compare_after(cpu, section);
    }

    /// Whether parameters are of a child that is set back as it is made: it has its parent's number still. What runs is taken off its queue for a
    /// change of its own.
    pub(super) fn is_set_back(&mut self, cpu: CpuId, task: TaskId, entry: &Entry<'a>) -> bool {
        let of_child = self.sched.curr(cpu) == task;
        if of_child {
            self.cpus[cpu.index()].reset_on_fork = Some(attributes_of(entry.record));
        }
        of_child
    }

    /// What a task became that is not queued.
    pub(super) fn set_parameters(&mut self, cpu: CpuId, entry: &Entry<'a>) {
        let Some(task) = entry.pid().and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE) else {
            return;
        };
        if !self.is_set_back(cpu, task, entry) && !self.sched.entity(task).on_rq {
            let attributes = self.changed(task, entry.record);
            self.sched.decider.expect_nothing();
            self.sched.change_attributes(task, &attributes, DequeueFlags(SAVE));
        }
    }

    /// A delayed task is dequeued, since another task waits until it sleeps.
    pub(super) fn wait_inactive(&mut self, cpu: CpuId, pid: Pid, section: &[Entry<'a>]) {
        self.compare_before(cpu, section);
        let Some(task) = self.task_of(pid).filter(|task| *task != TaskId::IDLE) else { return };
        self.sched.decider.expect_nothing();
        if !self.sched.wait_task_inactive(task) {
            return self.lose_track(cpu, "a delayed dequeue of a task that is not delayed");
        }
        self.compare_after(cpu, section);
    }

    /// Whether a charge is the first part of `do_sched_yield`, by who entered it.
    pub(super) fn yields_now(&mut self, section: &[Entry<'a>]) -> bool {
        let Some(first) = section.first().map(|entry| entry.record) else { return false };
        first.flags.context == Context::Task && self.yielding.remove(&first.pid)
    }
}

fn queued_slice(section: &[Entry<'_>]) -> Option<u32> {
    let queued = section.iter().find(|entry| entry.what == What::Enqueue(Of::Rt))?;
    queued.record.number("ts").map(|ticks| ticks as u32)
}
