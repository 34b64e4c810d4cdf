//! Throttling task by task (6.18 on; `kernel/sched/fair.c`): a queue out of runtime stays where it is, and each of its tasks is taken
//! off as it returns to user space, so that none is held while it has a lock of the kernel's. Those taken off are in limbo until the
//! queue is not throttled any more.

use schedlab_model::{CpuId, Reason, TaskId};

use crate::class::{Class, DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::{CfsRqId, Life};
use crate::fair::group::GroupId;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `throttle_cfs_rq`: false if there was runtime after all.
    pub(super) fn throttle_hierarchy(&mut self, cfs: CfsRqId) -> bool {
        let record = &self.cfs_rqs[cfs.index()];
        let (group, cpu) = (record.group, record.cpu);
        let runs = record.curr.is_some_and(|curr| self.entities[curr.index()].on_rq);
        // From 7.0 on charging throttles at once, and asks for a whole slice first.
        let at_once = self.rules.throttles_when_charged && runs;
        if self.assign_cfs_rq_runtime(cfs, if at_once { self.rules.cfs_bandwidth_slice } else { 1 }) {
            return false;
        }
        self.explain_throttle(group, cpu);
        self.groups[group.index()].bandwidth.throttled.push(cfs);
        self.throttle_down(group, cpu);
        self.cfs_rqs[cfs.index()].throttled = true;
        if at_once {
            self.setup_throttle_work(self.rqs[cpu.index()].curr);
        }
        true
    }

    /// `tg_throttle_down` over a group and all below it on one CPU. Where anything is queued the PELT clock goes on until it has left.
    fn throttle_down(&mut self, group: GroupId, cpu: CpuId) {
        if let Some((queue, _)) = self.groups[group.index()].cpus[cpu.index()] {
            let record = &mut self.cfs_rqs[queue.index()];
            record.throttle_count += 1;
            if record.throttle_count == 1 && record.nr_running == 0 {
                self.throttle_load(queue, true);
            }
        }
        for child in self.groups[group.index()].children.clone() {
            self.throttle_down(child, cpu);
        }
    }

    /// `unthrottle_cfs_rq`.
    pub(super) fn unthrottle_hierarchy(&mut self, cfs: CfsRqId) {
        if self.rules.throttles_when_charged {
            self.update_curr_cfs(cfs);
        }
        let record = &mut self.cfs_rqs[cfs.index()];
        if record.runtime_enabled && record.runtime_remaining <= 0 {
            return;
        }
        record.throttled = false;
        let (group, cpu, since) = (record.group, record.cpu, std::mem::take(&mut record.throttled_clock));
        let now = self.rqs[cpu.index()].clock;
        let after = if since == 0 { 0 } else { now - since };
        self.explain(cpu, move |_| Reason::Unthrottle { group: group.0, after });
        let bandwidth = &mut self.groups[group.index()].bandwidth;
        if since != 0 {
            bandwidth.stats.throttled_time += now - since;
        }
        bandwidth.throttled.retain(|queue| *queue != cfs);
        self.unthrottle_up(group, cpu);
        if self.rqs[cpu.index()].curr == TaskId::IDLE && self.cfs_rq(cpu).nr_running > 0 {
            self.resched_curr(cpu);
        }
    }

    /// `tg_unthrottle_up` over a group and all below it, these first, the youngest first: tasks in limbo are enqueued again.
    fn unthrottle_up(&mut self, group: GroupId, cpu: CpuId) {
        for child in self.groups[group.index()].children.clone().into_iter().rev() {
            self.unthrottle_up(child, cpu);
        }
        let Some((queue, _)) = self.groups[group.index()].cpus[cpu.index()] else { return };
        let sees_throttling = self.rules.throttles_when_charged;
        if sees_throttling {
            self.update_curr_cfs(queue);
        }
        self.cfs_rqs[queue.index()].throttle_count -= 1;
        if self.cfs_rqs[queue.index()].throttle_count > 0 {
            return;
        }
        self.throttle_load(queue, false);
        let mut limbo = std::mem::take(&mut self.cfs_rqs[queue.index()].limbo).into_iter();
        while !(sees_throttling && self.throttled_hierarchy(queue)) {
            let Some(task) = limbo.next() else { break };
            self.tasks[task.index()].throttled = false;
            self.enqueue_task_fair(task, EnqueueFlags::WAKEUP);
            self.account_enqueue(cpu);
        }
        // Throttled anew meanwhile: the others stay.
        let rest: Vec<TaskId> = limbo.collect();
        self.cfs_rqs[queue.index()].limbo.splice(0..0, rest);
    }

    /// `task_throttle_setup_work`: the task goes as it returns to user space.
    pub(super) fn setup_throttle_work(&mut self, task: TaskId) {
        self.tasks[task.index()].throttle_work = true;
    }

    /// `throttle_cfs_rq_work`: the current task of `cpu` is about to return to user space. If its group, or one above it, is throttled, the
    /// task is dequeued and the CPU reschedules: true then. Nothing before 6.18.
    pub fn exit_to_user(&mut self, cpu: CpuId) -> bool {
        let task = self.rqs[cpu.index()].curr;
        if task == TaskId::IDLE || !std::mem::take(&mut self.tasks[task.index()].throttle_work) {
            return false;
        }
        let record = &self.tasks[task.index()];
        let cfs = self.entities[record.se.index()].cfs_rq;
        if record.class != Class::Fair || record.life != Life::Runnable || !self.throttled_hierarchy(cfs) {
            return false;
        }
        self.dequeue_task_fair(task, DequeueFlags::SLEEP.and(DequeueFlags::THROTTLE));
        self.account_dequeue(cpu);
        self.cfs_rqs[cfs.index()].limbo.insert(0, task);
        self.tasks[task.index()].throttled = true;
        self.resched_curr(cpu);
        true
    }

    /// Whether [`Sched::exit_to_user`] would dequeue the current task of `cpu`.
    pub fn is_throttle_pending(&self, cpu: CpuId) -> bool {
        let task = self.rqs[cpu.index()].curr;
        task != TaskId::IDLE && {
            let record = &self.tasks[task.index()];
            record.throttle_work && self.throttled_hierarchy(self.entities[record.se.index()].cfs_rq)
        }
    }

    /// `dequeue_throttled_task`: a task in limbo is changed, or moved, or sleeps.
    pub(super) fn dequeue_throttled_task(&mut self, task: TaskId, flags: DequeueFlags) {
        let record = &mut self.tasks[task.index()];
        let (cpu, se) = (record.cpu, record.se);
        record.throttled &= !flags.has(DequeueFlags::SLEEP);
        let cfs = self.entities[se.index()].cfs_rq;
        self.cfs_rqs[cfs.index()].limbo.retain(|other| *other != task);
        if flags.has(DequeueFlags::MIGRATING) {
            self.detach_entity_cfs_rq(se);
        }
        // The core's count did not include the task, and core subtracts it next.
        self.account_enqueue(cpu);
    }

    /// `enqueue_throttled_task`: whether the task goes back to limbo, its queue being throttled. Not while it runs.
    pub(super) fn enqueue_throttled_task(&mut self, task: TaskId) -> bool {
        let record = &self.tasks[task.index()];
        let (cpu, cfs) = (record.cpu, self.entities[record.se.index()].cfs_rq);
        if self.throttled_hierarchy(cfs) && self.rqs[cpu.index()].curr != task {
            self.cfs_rqs[cfs.index()].limbo.insert(0, task);
            self.account_dequeue(cpu);
            return true;
        }
        self.tasks[task.index()].throttled = false;
        false
    }

    /// `record_throttle_clock`: since when throttling keeps a task from running.
    pub(super) fn record_throttle_clock(&mut self, cfs: CfsRqId) {
        let record = &mut self.cfs_rqs[cfs.index()];
        if record.throttled && record.throttled_clock == 0 {
            record.throttled_clock = self.rqs[record.cpu.index()].clock;
        }
    }

    /// `task_on_rq_queued`: a task in limbo counts, though its entity is on no queue. A task that leaves limbo for another class is still
    /// `throttled` when it sleeps there and comes back.
    pub(crate) fn task_on_rq_queued(&self, task: TaskId) -> bool {
        let record = &self.tasks[task.index()];
        let in_limbo = record.class == Class::Fair && record.throttled && record.life == Life::Runnable;
        self.entities[record.se.index()].on_rq || in_limbo
    }
}
