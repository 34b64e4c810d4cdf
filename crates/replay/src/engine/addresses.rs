//! Which of our queues and groups' entities are which of the recording's, by the kernel's addresses, and the weights that it gives entities.

use schedlab_model::{CpuId, TaskId};
use schedlab_sched::{EntityId, GroupId};
use schedlab_trace::{Pid, Record};

use super::Engine;
use crate::read::section::{Entry, Of, What};

impl<'a> Engine<'a> {
    /// Our entity for the one a record concerns, where that can be told.
    pub(super) fn entity_of(&mut self, record: &Record) -> Option<EntityId> {
        let [own, group] = ["se", "cse"].map(|key| record.number(key));
        let address = own.or(group).filter(|address| *address != 0)?;
        let owned = record.number("my").or_else(|| record.number("cmy")).unwrap_or(0);
        if owned == 0 {
            let task = record.number("pid").and_then(|pid| self.task_of(pid as Pid))?;
            return (task != TaskId::IDLE).then(|| self.sched.task(task).se);
        }
        if let Some(known) = self.groups.entities.get(&address) {
            return Some(*known);
        }
        let queue = self.groups.queue(owned)?;
        let own = self.sched.queue(queue);
        let (group, cpu) = (own.group, own.cpu);
        let (_, se) = self.sched.ids_of_group(group, cpu);
        let se = se?;
        self.groups.entities.insert(address, se);
        Some(se)
    }

    /// Pairs the kernel's queues of a CPU with ours: a task's queue is its group's there, and that of a group's entity its parent's.
    pub(super) fn learn_queues(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        // Before it moves it is on another one.
        let from = section.iter().rposition(|entry| entry.what == What::Move);
        let moved = from.map(|from| &section[from]);
        // The queue of the task that is enqueued or dequeued is charged first.
        let mut comes = None;
        // With a single timeline (7.3) the first averages that are brought up to date as a task is placed are those of its queue.
        let mut placed = None;
        let single = self.sched.rules().single_timeline;
        for entry in &section[from.unwrap_or(0)..] {
            let record = entry.record;
            let charges = entry.what == What::UpdateCurr;
            match entry.what {
                // From 7.3 on the running task is charged first, on its own level.
                What::Enqueue(Of::Fair) | What::Dequeue(Of::Fair) if !single => comes = entry.pid(),
                What::Enqueue(Of::Fair) if entry.flags() & self.flags.delayed == 0 => {
                    let places = |other: &Entry<'_>| other.what == What::Place && other.pid() == entry.pid();
                    placed = entry.pid().filter(|_| section.iter().any(places));
                    continue;
                }
                _ if &*record.event == "k_lacfs" && placed.is_some() => {
                    if let (Some(task), Some(address)) =
                        (placed.take().and_then(|pid| self.task_of(pid)), record.number("cfs"))
                    {
                        let (queue, _) = self.sched.ids_of_group(self.sched.group_of(task), cpu);
                        self.groups.queues.insert(address, queue);
                    }
                    continue;
                }
                // A delayed task that wakes charges no task on its queue (`requeue_delayed_entity`): the charge that follows is of the current task.
                What::Check => comes = None,
                What::Place | What::Set | What::UpdateCurr | What::Reweight => {}
                _ => continue,
            }
            let owned = record.number("my").or_else(|| record.number("cmy"));
            let (Some(owned), Some(address)) = (owned, record.number("cfs")) else { continue };
            let pid = match comes.take_if(|_| charges) {
                Some(pid) => Some(pid),
                None if owned == 0 => entry.pid(),
                None => {
                    let above = self.entity_of(record).map(|se| self.sched.entity_at(se).cfs_rq);
                    above.and_then(|above| self.groups.queues.insert(address, above));
                    None
                }
            };
            let Some(task) = pid.and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE) else {
                continue;
            };
            let group = match moved.filter(|moved| moved.pid() == pid) {
                Some(moved) => self.group_at(moved.record),
                None => self.sched.group_of(task),
            };
            // With a single timeline (7.3) a task is placed in its CPU's root queue, and charged on its own level.
            let places = single && matches!(entry.what, What::Place | What::Set);
            let (queue, _) = self.sched.ids_of_group(if places { GroupId::ROOT } else { group }, cpu);
            self.groups.queues.insert(address, queue);
        }
    }

    /// Pairs the kernel's entities and queues from a group's upwards with ours, where a step brings their averages up to date one after the
    /// other.
    pub(super) fn learn_path(&mut self, group: GroupId, cpu: CpuId, step: &[Entry<'a>]) {
        let (_, mut level) = self.sched.ids_of_group(group, cpu);
        let mut looked = false;
        for entry in step {
            let record = entry.record;
            if &*record.event == "k_lase" && std::mem::take(&mut looked) {
                level = level.and_then(|se| self.sched.entity_at(se).parent);
            }
            let Some(se) = level else { return };
            let own = record.number("se").filter(|_| &*record.event == "k_lase" || entry.what == What::Reweight);
            if let Some(address) = own {
                self.groups.entities.insert(address, se);
                if let (Some(owned), Some(queue)) = (record.number("my"), self.sched.entity_at(se).my_q) {
                    self.groups.queues.insert(owned, queue);
                }
            }
            if &*record.event == "k_lacfs"
                && let Some(address) = record.number("cfs")
            {
                looked = true;
                self.groups.queues.insert(address, self.sched.entity_at(se).cfs_rq);
            }
        }
    }

    /// The weights that the kernel gives groups' entities in a step stand: they follow from the group's load on all CPUs.
    pub(super) fn expect_weights(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        if self.alone() {
            return;
        }
        self.learn_queues(cpu, step);
        let (mut weights, mut enqueued) = (Vec::new(), 0);
        for entry in step {
            enqueued += u32::from(entry.what == What::Enqueue(Of::Fair));
            if entry.what != What::Reweight {
                continue;
            }
            let group = entry.record.number("my").is_some_and(|owned| owned != 0);
            if let Some(se) = self.entity_of(entry.record).filter(|_| group)
                && let Some(weight) = entry.record.number("w")
            {
                weights.push((se, enqueued, weight));
            }
        }
        self.sched.decider.expect_weights(weights);
    }

    /// What the weights came to by our rules.
    pub(super) fn compare_weights(&mut self, cpu: CpuId) {
        for (ours, kernels) in self.sched.decider.take_weights() {
            if self.begun && !self.report.state.group_weight.add(ours, kernels) {
                self.differ(cpu, "group weight", ours, kernels);
            }
        }
    }
}
