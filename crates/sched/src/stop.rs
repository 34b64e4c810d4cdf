//! The stop class: one task a CPU, above all others (`kernel/sched/stop_task.c`).
//!
//! The simulator's stoppers act at once. A recording tells of the kernel's: they run as real-time tasks do, but for what makes these
//! share the CPU, a queue by priority, round robin and bandwidth.

use schedlab_model::{CpuId, TaskId};

use crate::decider::Decider;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// The task is of the stop class: whenever it is awake it runs before all others.
    pub fn assume_stopper(&mut self, task: TaskId, cpu: CpuId) {
        self.rqs[cpu.index()].stop = Some(task);
    }

    #[inline]
    pub(crate) fn is_stopper(&self, cpu: CpuId, task: TaskId) -> bool {
        self.rqs[cpu.index()].stop == Some(task)
    }

    /// `enqueue_task_stop`.
    pub(crate) fn enqueue_task_stop(&mut self, cpu: CpuId, task: TaskId) {
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].on_rq = true;
        self.add_nr_running(cpu, 1);
        self.idle_cpus.remove(cpu.index());
    }

    /// `dequeue_task_stop`.
    pub(crate) fn dequeue_task_stop(&mut self, cpu: CpuId, task: TaskId) {
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].on_rq = false;
        self.rqs[cpu.index()].nr_running -= 1;
    }
}
