//! Which task is in which group, as placements and picks tell.

use schedlab_model::{Candidate, PickLevel, TaskId};

/// The hierarchy of groups, 0 the root group, and each task's.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskGroups {
    /// By group.
    parents: Vec<u32>,
    /// By task.
    groups: Vec<u32>,
}

impl TaskGroups {
    /// An entity comes in on the queue of a group.
    pub(super) fn place(&mut self, entity: Candidate, within: u32) {
        let (table, index) = match entity {
            Candidate::Task(TaskId::IDLE) => return,
            Candidate::Task(task) => (&mut self.groups, task.index()),
            Candidate::Group(group) => (&mut self.parents, group as usize),
        };
        if table.len() <= index {
            table.resize(index + 1, 0);
        }
        table[index] = within;
    }

    /// A pick went down through the queues of its levels.
    pub(super) fn pick(&mut self, levels: &[PickLevel]) {
        let mut within = 0;
        for level in levels {
            self.place(level.picked, within);
            level.others.iter().for_each(|(other, _)| self.place(*other, within));
            if let Candidate::Group(group) = level.picked {
                within = group;
            }
        }
    }

    /// A task is in these groups from now on, its own first, the root group left out.
    pub(super) fn enter(&mut self, task: TaskId, groups: &[u32]) {
        let above = groups.iter().skip(1).copied().chain([0]);
        self.place(Candidate::Task(task), groups.first().copied().unwrap_or(0));
        groups.iter().zip(above).for_each(|(group, within)| self.place(Candidate::Group(*group), within));
    }

    /// A forked task begins in its parent's group.
    pub(super) fn fork(&mut self, parent: TaskId, child: TaskId) {
        if let Some(group) = self.groups.get(parent.index()).copied().filter(|group| *group != 0) {
            self.place(Candidate::Task(child), group);
        }
    }

    /// The group that a task is in.
    fn of(&self, task: TaskId) -> u32 {
        self.groups.get(task.index()).copied().unwrap_or(0)
    }

    fn parent(&self, group: u32) -> u32 {
        self.parents.get(group as usize).copied().unwrap_or(0)
    }

    /// The task's groups from its own upwards, the root group left out.
    pub(super) fn chain(&self, task: TaskId) -> impl Iterator<Item = u32> {
        let step = |group: &u32| Some(self.parent(*group)).filter(|above| *above != 0);
        // No more levels than groups: a damaged recording's circle ends.
        std::iter::successors(Some(self.of(task)).filter(|group| *group != 0), step).take(self.parents.len() + 1)
    }

    /// Whether the task is in the group or one below it.
    pub(super) fn is_in(&self, task: TaskId, group: u32) -> bool {
        group == 0 || self.chain(task).any(|above| above == group)
    }

    /// Whether `current`, which runs, competes with the task on a level of the hierarchy.
    pub(super) fn competes(&self, current: Candidate, task: TaskId) -> bool {
        match current {
            Candidate::Task(running) => self.is_in(task, self.of(running)),
            Candidate::Group(group) => self.is_in(task, self.parent(group)) && !self.is_in(task, group),
        }
    }
}
