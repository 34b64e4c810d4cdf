//! Drives the rules through changes of a task: group, affinity, policy, priority, slice.

use schedlab_model::{Attributes, Policy, TaskId};
use schedlab_sched::{GroupId, weight_of_nice};
use schedlab_trace::{Context, Pid, TaskRef};

use crate::replayer::{CPU, Replayer};
use crate::start::{nice_of, policy_of};
use crate::step::{Asked, Change, Check, FIRST_FAIR_PRIORITY};
use crate::view::{Runtime, SetView};

impl Replayer<'_> {
    /// A task was taken off its queue if it was on one, changed, and put back.
    pub(crate) fn change(&mut self, pid: Pid, what: Change, set: Option<SetView>, check: Option<Check>, resched: bool) {
        // A change of somebody who is not there yet (`sched_fork` with SCHED_RESET_ON_FORK) is the fork's.
        let Some(task) = self.task_of(pid) else { return };
        self.sched.decider.expect(check.map_or(Some(resched), |check| check.resched));
        let present = self.sched.attributes(task);
        match what {
            Change::Group => self.sched.sched_move_task(task, GroupId::ROOT),
            Change::Affinity => {
                // Of one CPU there are two ways to say it.
                let affinity = if present.affinity.is_empty() { vec![0] } else { Vec::new() };
                self.sched.sched_setattr(task, &Attributes { affinity, ..present });
            }
            Change::Weight(weight) => self.set_attributes(task, false, self.attributes_by_weight(&present, weight)),
            Change::Attributes { moves, attributes } => {
                self.set_attributes(task, moves, Attributes { affinity: present.affinity, ..attributes });
            }
        }
        self.changed(task, set);
        if let Some(check) = check {
            self.score_wakeup(check);
        }
    }

    /// A system call was entered. Where nobody is charged for what it does, it is done at once.
    pub(crate) fn ask(&mut self, asked: Asked) {
        let Some(task) = self.task_of(asked.pid) else { return };
        let present = self.sched.attributes(task);
        let wanted = attributes_asked(&present, asked);
        if wanted.as_ref() == Some(&present) && !self.eevdf() {
            // It may have become SCHED_BATCH all the same.
            self.policy_untold.insert(task);
            return;
        }
        // The fair class charges nobody where a task of a higher one asks.
        let charges = self.is_fair(self.sched.curr(CPU));
        if charges && self.sched.entity(task).on_rq && self.is_fair(task) {
            self.asked.insert(asked.by, asked);
        } else if let Some(wanted) = wanted {
            self.set_attributes(task, asked.moves, wanted);
        }
        if asked.policy.is_none() && asked.priority.is_some() {
            self.policy_untold.insert(task);
        }
    }

    /// Charges the running task before anything else is done, as far as it was charged.
    pub(crate) fn charge(&mut self, runtime: Option<Runtime>) {
        if runtime.is_some() {
            self.sched.update_curr(CPU);
            self.compare_charge(runtime);
        }
    }

    /// What the charged task asked for, if it did.
    pub(crate) fn do_asked(&mut self, by: Pid, context: Context) {
        if context != Context::Task {
            return;
        }
        let Some(asked) = self.asked.remove(&by) else { return };
        let Some(task) = self.task_of(asked.pid) else { return };
        self.sched.decider.expect_nothing();
        match attributes_asked(&self.sched.attributes(task), asked) {
            Some(attributes) => self.set_attributes(task, asked.moves, attributes),
            None => self.change(asked.pid, Change::Affinity, None, None, false),
        }
        self.changed(task, None);
        if self.sched.curr(CPU) == task {
            self.slice_unknown = None;
        }
    }

    /// Who leaves with the priority that he asked for, and had another one, has got it: what he was charged for last was that, and the
    /// schedule came as it ended.
    pub(crate) fn do_asked_by(&mut self, leaving: &TaskRef) {
        let Some(asked) = self.asked.get(&leaving.pid).copied() else { return };
        let Some(task) = self.task_of(leaving.pid) else { return };
        let told = asked.pid == leaving.pid && asked.priority == Some(leaving.priority);
        if told && priority(&self.sched.attributes(task)) != leaving.priority {
            self.do_asked(leaving.pid, Context::Task);
        }
    }

    fn set_attributes(&mut self, task: TaskId, moves: bool, attributes: Attributes) {
        let policy = self.sched.task(task).policy;
        if !moves && attributes.policy == policy && attributes.nice != self.sched.task(task).nice {
            self.sched.set_user_nice(task, attributes.nice);
        } else {
            self.sched.sched_setattr(task, &attributes);
        }
    }

    /// The fair policy and nice level of a weight.
    fn attributes_by_weight(&self, present: &Attributes, weight: u64) -> Attributes {
        let series = self.settings.release.series();
        let nice = (-20i8..=19).find(|nice| weight_of_nice(series, Policy::Other, *nice).scaled == weight);
        let (policy, nice) = nice.map_or((Policy::Idle, present.nice), |nice| (Policy::Other, nice));
        Attributes { policy, nice, ..present.clone() }
    }

    /// Setting the running task anew begins its slice anew.
    pub(crate) fn changed(&mut self, task: TaskId, set: Option<SetView>) {
        self.placed.remove(&task);
        if set.is_some() {
            self.slice_unknown = None;
        }
        self.compare_set(set);
    }
}

/// The priority that a task with these attributes shows (`effective_prio`).
fn priority(attributes: &Attributes) -> i32 {
    match attributes.policy {
        Policy::Fifo(priority) | Policy::Rr(priority) => 99 - i32::from(priority),
        _ => 120 + i32::from(attributes.nice),
    }
}

/// What a task is to be; none where the call is about affinity. A priority above the fair ones does not tell FIFO from RR.
fn attributes_asked(present: &Attributes, asked: Asked) -> Option<Attributes> {
    let priority = asked.priority?;
    let nice = if priority < FIRST_FAIR_PRIORITY { present.nice } else { nice_of(priority) };
    let policy = match asked.policy {
        Some(number) => policy_of(number, 99 - priority),
        None if priority < FIRST_FAIR_PRIORITY => policy_of(1, 99 - priority),
        None if present.policy.is_realtime() => Policy::Other,
        None => present.policy,
    };
    Some(Attributes { policy, nice, ..present.clone() })
}
