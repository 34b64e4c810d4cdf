//! Drives the rules through changes of a task: group, affinity, policy, priority, slice.

use schedlab_model::{Attributes, Policy, TaskId};
use schedlab_sched::{GroupId, weight_of_nice};
use schedlab_trace::Pid;

use crate::replayer::Replayer;
use crate::step::{Change, Check};
use crate::view::SetView;

impl Replayer<'_> {
    /// A task was taken off its queue if it was on one, changed, and put back.
    pub(crate) fn change(&mut self, pid: Pid, what: Change, set: Option<SetView>, check: Option<Check>, resched: bool) {
        // A change of somebody who is not there yet (`sched_fork` with SCHED_RESET_ON_FORK) is the fork's.
        let Some(task) = self.task_of(pid) else { return };
        self.sched.decider.expect_preempt(check.map_or(resched, |check| check.resched));
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
