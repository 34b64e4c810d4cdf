//! Tasks that come: woken, forked; and tasks that change: attributes, group, affinity.

use schedlab_model::{Policy, TaskId};
use schedlab_sched::{Class, DequeueFlags};
use schedlab_trace::{Pid, RecordKind};

use super::start::{attributes_of, has};
use super::{CPU, Classes};
use crate::read::flags::{MOVE, SAVE};
use crate::read::section::{Entry, Of, What};

/// How the kernel answered whether a task that comes preempts.
struct Answer {
    /// Whether there was anything to decide.
    asked: bool,
    resched: bool,
}

impl<'a> Classes<'a> {
    pub(super) fn wake(&mut self, pid: Pid, section: &[Entry<'a>]) {
        let enqueue = section.iter().find(|entry| matches!(entry.what, What::Enqueue(_)) && entry.pid() == Some(pid));
        if enqueue.is_none() && self.is_stopper(pid, section) {
            return self.wake_stopper(pid, section);
        }
        if enqueue.is_none() && !has(section, What::Check) {
            // A task that is about to sleep is told to go on, without any queueing.
            return;
        }
        let Some(task) = self.known(pid, enqueue).filter(|task| *task != TaskId::IDLE) else { return };
        self.compare_before(section);
        let answer = self.answer(section, task);
        let runnable = self.sched.entity(task).on_rq && !self.sched.entity(task).sched_delayed;
        self.sched.decider.expect_preempt(answer.resched);
        let before = self.sched.must_resched(CPU);
        if enqueue.is_none() {
            // ttwu_runnable: it never left.
            if !runnable {
                return self.lose_track("woken as if it had not left the queue");
            }
            self.sched.wakeup_preempt(CPU, task, false);
        } else {
            if runnable || !self.sched.try_to_wake_up(task, CPU) {
                return self.lose_track("woken, but it is awake");
            }
            self.waits(task);
            self.came(task);
        }
        self.score_wakeup(&answer, task, before);
        self.compare_after(section);
    }

    /// `stop_sched_class`: above all priorities, and its probes are none.
    fn is_stopper(&self, pid: Pid, section: &[Entry<'a>]) -> bool {
        let known = self.task_of(pid);
        let highest =
            |entry: &Entry<'a>| matches!(&entry.record.kind, RecordKind::Waking { task, .. } if task.priority == 0);
        let asleep = known.is_none_or(|task| self.stoppers.contains(&task) && !self.sched.entity(task).on_rq);
        asleep && section.first().is_some_and(highest)
    }

    fn wake_stopper(&mut self, pid: Pid, section: &[Entry<'a>]) {
        let task = match self.task_of(pid) {
            Some(task) => task,
            None => self.add_stopper(pid),
        };
        if task == TaskId::IDLE {
            return;
        }
        self.sched.decider.expect_nothing();
        self.sched.try_to_wake_up(task, CPU);
        self.sched.assume_need_resched(CPU, true);
        self.waits(task);
        self.compare_after(section);
    }

    pub(super) fn wake_new(&mut self, pid: Pid, section: &[Entry<'a>]) {
        let Some(task) = self.known(pid, section.first()).filter(|task| *task != TaskId::IDLE) else { return };
        self.compare_before(section);
        let answer = self.answer(section, task);
        self.sched.decider.expect_preempt(answer.resched);
        let before = self.sched.must_resched(CPU);
        self.sched.wake_up_new_task(task, CPU);
        self.waits(task);
        self.came(task);
        self.score_wakeup(&answer, task, before);
        self.compare_after(section);
    }

    /// It was placed; where, shows when it is next picked.
    fn came(&mut self, task: TaskId) {
        if !self.is_fair(task) {
            return;
        }
        if self.guessed.contains(&task) {
            self.report.decisions.placement.unverifiable += 1;
            return;
        }
        let queue = self.sched.queue(self.sched.entity(task).cfs_rq);
        let naive = if self.eevdf() { queue.zero_vruntime } else { queue.min_vruntime };
        self.placed.insert(task, naive.0);
    }

    fn answer(&self, section: &[Entry<'a>], task: TaskId) -> Answer {
        let curr = self.sched.curr(CPU);
        if curr == TaskId::IDLE || curr == task {
            return Answer { asked: false, resched: has(section, What::Resched) };
        }
        match section.iter().position(|entry| entry.what == What::Check) {
            Some(at) => {
                let set = section[at].record.number("tif").unwrap_or(0) >> self.flags.need_resched & 1 != 0;
                // What comes before the look at the queue (EEVDF) is for a request that the charge found served.
                let from =
                    section[at..].iter().rposition(|entry| entry.what == What::Pick).map_or(at, |pick| at + pick);
                Answer { asked: !set, resched: has(&section[from..], What::Resched) }
            }
            // Other classes are not probed there: a higher one's task preempts, a real-time or deadline one may.
            None => {
                let fair = self.is_fair(task) && self.is_fair(curr);
                Answer { asked: !fair && !self.sched.must_resched(CPU), resched: has(section, What::Resched) }
            }
        }
    }

    fn score_wakeup(&mut self, answer: &Answer, task: TaskId, before: bool) {
        let curr = self.sched.curr(CPU);
        if !answer.asked {
            return;
        }
        let fair = self.is_fair(task) && self.is_fair(curr);
        let ours = match fair {
            true => self.sched.decider.preempt.unwrap_or(false),
            false => !before && self.sched.must_resched(CPU),
        };
        if !self.verifiable(task) || !self.verifiable(curr) {
            self.report.decisions.wakeup.unverifiable += 1;
            return;
        }
        // Naive: among fair tasks whoever is behind preempts; beyond them, whoever comes waits.
        let naive = fair && self.is_before_running(task, curr);
        self.report.decisions.wakeup.add(ours == answer.resched, naive == answer.resched);
        self.expect_equal("wakeup", ours == answer.resched, ours, answer.resched);
        if !fair && !before && ours != answer.resched {
            self.sched.assume_need_resched(CPU, answer.resched);
        }
    }

    /// CFS places a child as it is made, before the event that tells of it; EEVDF only as it is first queued.
    pub(super) fn fork_placed(&mut self, section: &[Entry<'a>]) {
        self.compare_before(section);
        let parent = self.sched.curr(CPU);
        if parent == TaskId::IDLE {
            return self.lose_track("a child without a parent");
        }
        self.sched.decider.expect_nothing();
        let child = self.make_child(parent);
        self.unborn = Some(child);
    }

    /// A child of `parent`, with what its making set it back to (SCHED_FLAG_RESET_ON_FORK).
    fn make_child(&mut self, parent: TaskId) -> TaskId {
        let child = self.sched.sched_fork(parent, false);
        if let Some(mut attributes) = self.reset_on_fork.take() {
            attributes.affinity = self.sched.attributes(child).affinity;
            self.sched.reset_on_fork(child, &attributes);
        }
        child
    }

    pub(super) fn fork(&mut self, parent: Pid, child: Pid) {
        let unborn = self.unborn.take();
        if self.tasks.of_pid(child).is_some() {
            return;
        }
        let Some(parent) = self.known(parent, None).filter(|parent| *parent != TaskId::IDLE) else { return };
        self.sched.decider.expect_nothing();
        let task = unborn.unwrap_or_else(|| self.make_child(parent));
        if self.guessed.contains(&parent) {
            self.guessed.insert(task);
        }
        self.bind(child, task);
    }

    /// A task's attributes or group change; queued, it is taken off and put back around that.
    pub(super) fn change(&mut self, pid: Pid, section: &[Entry<'a>]) {
        let parameters = section.iter().find(|entry| entry.what == What::Parameters && entry.pid() == Some(pid));
        let moved = section.iter().find(|entry| entry.what == What::Move && entry.pid() == Some(pid));
        let dequeue = section.iter().find(|entry| matches!(entry.what, What::Dequeue(_)) && entry.pid() == Some(pid));
        // As a child is made its group is set, before it has its number.
        let Some(task) = self.task_of(pid).filter(|task| *task != TaskId::IDLE) else { return };
        if moved.is_some() && dequeue.is_none() && self.sched.entity(task).on_rq {
            return;
        }
        // What runs is taken off its queue for a change. A child has its parent's number when it is set back.
        if let Some(entry) = parameters
            && dequeue.is_none()
            && self.sched.curr(CPU) == task
        {
            self.reset_on_fork = Some(attributes_of(entry.record));
            return;
        }
        self.compare_before(section);
        let flags = DequeueFlags(dequeue.map_or(SAVE | MOVE, |entry| entry.flags() & (SAVE | MOVE)));
        let after = section.iter().rposition(|entry| matches!(entry.what, What::Enqueue(_))).unwrap_or(0);
        let kernels = has(&section[after..], What::Resched);
        let checked = has(&section[after..], What::Check);
        self.sched.decider.expect_preempt(kernels);
        let before = self.sched.must_resched(CPU);
        if let Some(entry) = moved {
            let group = self.group_at(entry.record);
            self.sched.sched_move_task(task, group);
        } else if let Some(entry) = parameters {
            let mut attributes = attributes_of(entry.record);
            if Class::of(attributes.policy) != Class::Fair {
                attributes.nice = self.sched.task(task).nice;
            }
            attributes.affinity = self.sched.attributes(task).affinity;
            self.sched.change_attributes(task, &attributes, flags);
            if let Policy::Rr(_) = attributes.policy
                && let Some(slice) = self.queued_slice(section)
            {
                // A change of policy leaves the slice that the task had.
                let equal = self.report.state.time_slice.add(self.sched.time_slice(task) == slice);
                self.expect_equal("time_slice", equal, self.sched.time_slice(task), slice);
            }
        } else if flags.0 & MOVE != 0 {
            // sched_move_task into the group that it is in, as every exit does; only the fair class tells of its group.
            let group = self.sched.group_of(task);
            self.sched.sched_move_task(task, group);
        } else {
            self.sched.requeue(task, flags);
        }
        self.placed.remove(&task);
        if checked && !before {
            let curr = self.sched.curr(CPU);
            if self.is_fair(task) && self.is_fair(curr) && curr != task {
                let ours = self.sched.decider.preempt.unwrap_or(false);
                let naive = self.is_before_running(task, curr);
                self.report.decisions.wakeup.add(ours == kernels, naive == kernels);
                self.expect_equal("wakeup", ours == kernels, ours, kernels);
            }
        }
        self.compare_after(section);
    }

    /// A task that lingers is taken off, for somebody waits until it sleeps.
    pub(super) fn wait_inactive(&mut self, pid: Pid, section: &[Entry<'a>]) {
        self.compare_before(section);
        let Some(task) = self.task_of(pid).filter(|task| *task != TaskId::IDLE) else { return };
        self.sched.decider.expect_nothing();
        if !self.sched.wait_task_inactive(task) {
            return self.lose_track("taken off as it sleeps, but it does not linger");
        }
        self.compare_after(section);
    }

    fn queued_slice(&self, section: &[Entry<'a>]) -> Option<u32> {
        let queued = section.iter().find(|entry| entry.what == What::Enqueue(Of::Rt))?;
        queued.record.number("ts").map(|ticks| ticks as u32)
    }
}
