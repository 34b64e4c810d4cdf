//! Tasks that change their group.

use schedlab_model::{CpuId, TaskId};

use crate::class::{Class, DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::Life;
use crate::fair::group::GroupId;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `sched_move_task`: takes a task out and puts it back where it belongs, in `group`. Its CPU must have its clocks.
    ///
    /// It shows even where the group stays the same: every exit does this (`autogroup_exit_task`, whether autogroup is on or not),
    /// and it begins the running task's slice anew, brings its virtual time along with `min_vruntime`, and reschedules.
    pub fn sched_move_task(&mut self, task: TaskId, group: GroupId) {
        let cpu: CpuId = self.task_cpu(task);
        let queued = self.task_on_rq_queued(task);
        let running = self.curr(cpu) == task;
        let dequeue = DequeueFlags::SAVE.and(DequeueFlags::MOVE).and(DequeueFlags::NOCLOCK);
        if queued {
            self.dequeue_task(cpu, task, dequeue);
        }
        if running {
            self.put_prev_task(cpu, task);
        }
        // Where the group stays, as on every exit, load averages come off their queue and join it again all the same.
        if self.tasks[task.index()].group != group || queued {
            self.change_group(task, group, queued);
        }
        if queued {
            let enqueue = EnqueueFlags::RESTORE.and(EnqueueFlags::MOVE).and(EnqueueFlags::NOCLOCK);
            self.enqueue_task(cpu, task, enqueue);
        }
        if running {
            self.set_task_again(cpu, task);
            self.resched_curr(cpu);
        } else if self.curr(cpu) == TaskId::IDLE && self.nr_running(cpu) > 0 {
            // Out of a throttled group onto an idle CPU: the kernel leaves that to the CPU's next interrupt.
            self.resched_curr(cpu);
        }
    }

    /// `sched_change_group`, `task_change_group_fair`: a fair sleeper's virtual time goes over relative to `min_vruntime`, after it
    /// was placed as if it woke, so that the sleep until now earns it no more than any other.
    fn change_group(&mut self, task: TaskId, group: GroupId, queued: bool) {
        let record = &mut self.tasks[task.index()];
        let (se, cpu, fair, life) = (record.se, record.cpu, record.class == Class::Fair, record.life);
        record.group = group;
        if !fair || life == Life::New {
            self.set_task_rq(task, cpu);
            return;
        }
        let relative = self.rules.relative_vruntime;
        // Queued, dequeueing made it relative already; a task that never ran still is.
        let absolute = relative && !queued && self.entities[se.index()].sum_exec_runtime != 0;
        if absolute {
            let cfs = self.entities[se.index()].cfs_rq;
            self.place_entity(cfs, se, false);
            let base = self.cfs_rqs[cfs.index()].min_vruntime.0;
            let entity = &mut self.entities[se.index()];
            entity.vruntime = entity.vruntime.minus(base);
        }
        self.detach_entity_cfs_rq(se);
        self.forget_load_time(se);
        self.set_task_rq(task, cpu);
        self.attach_entity_cfs_rq(se);
        if absolute {
            let base = self.cfs_rqs[self.entities[se.index()].cfs_rq.index()].min_vruntime.0;
            let entity = &mut self.entities[se.index()];
            entity.vruntime = entity.vruntime.plus(base);
        }
    }
}
