//! Which task of ours is which of the recording's.

use std::collections::BTreeMap;

use schedlab_model::TaskId;
use schedlab_sched::EntityId;
use schedlab_trace::Pid;

/// The recording's tasks as far as they were seen, by the kernel's number, by ours, and by their fair entity.
#[derive(Debug, Default)]
pub(crate) struct TaskMap {
    by_pid: BTreeMap<Pid, TaskId>,
    /// At the task's place; 0 for none.
    pids: Vec<Pid>,
    by_entity: BTreeMap<u32, TaskId>,
}

impl TaskMap {
    /// Pairs a task of ours with one of the recording's, whose number may have been another's before.
    pub(crate) fn bind(&mut self, pid: Pid, task: TaskId, entity: EntityId) {
        self.by_pid.insert(pid, task);
        self.pids.resize(self.pids.len().max(task.index() + 1), 0);
        self.pids[task.index()] = pid;
        self.by_entity.insert(entity.0, task);
    }

    /// Takes the number from a task that is dead, so that another may have it; who that was.
    pub(crate) fn forget(&mut self, pid: Pid) -> Option<TaskId> {
        self.by_pid.remove(&pid)
    }

    /// The task of a number; none of 0, which every CPU's idle task has.
    pub(crate) fn of_pid(&self, pid: Pid) -> Option<TaskId> {
        self.by_pid.get(&pid).copied()
    }

    pub(crate) fn of_pid_or_idle(&self, pid: Pid) -> Option<TaskId> {
        if pid == 0 { Some(TaskId::IDLE) } else { self.of_pid(pid) }
    }

    pub(crate) fn of_entity(&self, entity: EntityId) -> Option<TaskId> {
        self.by_entity.get(&entity.0).copied()
    }

    /// The number of a task, 0 for the idle one.
    pub(crate) fn pid(&self, task: TaskId) -> Pid {
        self.pids.get(task.index()).copied().unwrap_or(0)
    }
}
