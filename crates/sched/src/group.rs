//! Tasks that change their group.

use schedlab_model::{CpuId, TaskId};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::core::Sched;
use crate::decider::Decider;

impl<D: Decider> Sched<D> {
    /// `sched_move_task`: takes a task out and puts it back where it belongs, which is where it was until there are groups.
    ///
    /// It shows all the same: every exit does this (`autogroup_exit_task`, whether autogroup is on or not), and it begins the
    /// running task's slice anew, brings its virtual time along with `min_vruntime`, and reschedules.
    pub fn sched_move_task(&mut self, task: TaskId) {
        let cpu: CpuId = self.task_cpu(task);
        let queued = self.entity(task).on_rq;
        let running = self.curr(cpu) == task;
        let dequeue = DequeueFlags::SAVE.and(DequeueFlags::MOVE).and(DequeueFlags::NOCLOCK);
        if queued {
            self.dequeue_task(cpu, task, dequeue);
        }
        if running {
            self.put_prev_task(cpu, task);
        }
        if queued {
            let enqueue = EnqueueFlags::RESTORE.and(EnqueueFlags::MOVE).and(EnqueueFlags::NOCLOCK);
            self.enqueue_task(cpu, task, enqueue);
        }
        if running {
            self.set_next_task(cpu, task);
            self.resched_curr(cpu);
        }
    }
}
