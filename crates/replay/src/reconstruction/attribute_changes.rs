//! Drives the rules through changes of a task: group, affinity, policy, priority, slice.

use schedlab_model::{Attributes, Policy, TaskId};
use schedlab_sched::{GroupId, weight_of_nice};
use schedlab_trace::{Context, Pid, TaskRef};

use crate::read::cursor::{Runtime, SetView};
use crate::read::cursor::{nice_of, policy_of};
use crate::read::step::{Asked, Change, Check, FIRST_FAIR_PRIORITY};
use crate::reconstruction::{CPU, Replayer};

impl Replayer<'_> {
    /// A task was taken off its queue if it was on one, changed, and put back.
    pub(crate) fn change(&mut self, pid: Pid, what: Change, set: Option<SetView>, check: Option<Check>, resched: bool) {
        // A change of a task that does not exist yet (`sched_fork` with SCHED_RESET_ON_FORK) is the fork's.
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

    /// A system call was entered. Where it charges no task, it is done at once.
    pub(crate) fn ask(&mut self, asked: Asked) {
        let Some(task) = self.task_of(asked.pid) else { return };
        let present = self.sched.attributes(task);
        let wanted = attributes_asked(&present, asked);
        if wanted.as_ref() == Some(&present) && !self.eevdf() {
            // It may have become SCHED_BATCH all the same.
            self.policy_untold.insert(task);
            return;
        }
        // The fair class charges no task where a task of a higher class makes the call.
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

    /// What a schedule charges of a task that is switched out with the priority that it asked for. The change came first and was charged.
    /// The schedule charges nothing more where it does not read the clock again (`rq_clock_skip_update`, on a CPU that a wakeup had asked
    /// to reschedule).
    pub(crate) fn charge_change_before(
        &mut self,
        runtime: Option<Runtime>,
        leaves: Option<&TaskRef>,
    ) -> Option<Runtime> {
        let asked = leaves.and_then(|previous| {
            let asked = self.asked.get(&previous.pid)?;
            (asked.pid == previous.pid && asked.priority == Some(previous.priority)).then_some(previous.pid)
        });
        let (Some(pid), Some(_)) = (asked, runtime) else { return runtime };
        self.advance(runtime);
        self.charge(runtime);
        self.do_asked(pid, Context::Task);
        None
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
        let rules = self.sched.rules();
        let nice = (-20i8..=19).find(|nice| weight_of_nice(rules, Policy::Other, *nice).scaled == weight);
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
