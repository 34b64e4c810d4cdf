//! Parts of `kernel/sched/core.c`'s sequences: tasks that leave, for a while, for good, or for another CPU.

use schedlab_model::{CpuId, TaskId, TaskState};

use crate::class::{Class, DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::Life;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `block_task`: dequeues the current task unless it is still runnable.
    pub(crate) fn block_task(&mut self, cpu: CpuId, previous: TaskId, state: TaskState) {
        if previous == TaskId::IDLE || state == TaskState::Running {
            return;
        }
        let mut flags = DequeueFlags::SLEEP.and(DequeueFlags::NOCLOCK);
        if matches!(state, TaskState::Dead | TaskState::Stopped) {
            // is_special_task_state: it must not be woken for nothing, so its dequeue is not delayed.
            flags = flags.and(DequeueFlags::SPECIAL);
        }
        self.deactivate_task(cpu, previous, flags);
        self.tasks[previous.index()].life = if state == TaskState::Dead { Life::Dead } else { Life::Asleep };
        if state == TaskState::Dead {
            if self.tasks[previous.index()].class == Class::Deadline {
                self.dead_task_dl(cpu, previous);
            }
            self.processes.remove(previous);
        }
    }

    /// `finish_task_switch` of a task that ended (`task_dead_fair`): its load leaves its queue when that next looks.
    /// [`Sched::schedule`] comes to it by itself, unless what is balanced is recorded ([`Sched::follow_balancing`]): interrupts
    /// may come before.
    pub fn task_dead(&mut self, task: TaskId) {
        if task != TaskId::IDLE && self.tasks[task.index()].class == Class::Fair {
            let se = self.tasks[task.index()].se;
            self.remove_entity_load_avg(se);
        }
    }

    /// `set_task_cpu` with `migrate_task_rq_fair`: a sleeping task's virtual time becomes relative to the queue it leaves;
    /// queueing makes it absolute again. 2.6.24 converts at once.
    pub(crate) fn set_task_cpu(&mut self, task: TaskId, cpu: CpuId) {
        self.tasks[task.index()].cpu = cpu;
        let record = &self.tasks[task.index()];
        if record.class == Class::Fair {
            self.remove_entity_load_avg(record.se);
        }
        let from = self.set_task_rq(task, cpu);
        let record = &self.tasks[task.index()];
        let entity = &mut self.entities[record.se.index()];
        let to = entity.cfs_rq;
        // EEVDF keeps the lag instead and needs no queue's virtual time.
        if self.rules.eevdf {
            return;
        }
        // An absolute virtual time is a real-time task's, too.
        if !self.rules.relative_vruntime {
            let (from, to) = (self.cfs_rqs[from.index()].min_vruntime.0, self.cfs_rqs[to.index()].min_vruntime.0);
            entity.vruntime = entity.vruntime.minus(from).plus(to);
        } else if record.class == Class::Fair {
            entity.vruntime = entity.vruntime.minus(self.cfs_rqs[from.index()].min_vruntime.0);
        }
    }

    /// `move_queued_task`: takes a queued task that does not run to another CPU. Both queues must have their clocks.
    pub fn move_queued_task(&mut self, task: TaskId, to: CpuId) {
        self.detach_task(task, to);
        self.attach_task(to, task);
    }

    /// `detach_task`: takes a queued task off, on its way to another CPU. [`Sched::attach_task`] must follow.
    pub fn detach_task(&mut self, task: TaskId, to: CpuId) {
        let from = self.tasks[task.index()].cpu;
        self.deactivate_task(from, task, DequeueFlags::NOCLOCK.and(DequeueFlags::MIGRATING));
        self.tasks[task.index()].cpu = to;
        let (se, class) = (self.tasks[task.index()].se, self.tasks[task.index()].class);
        if class == Class::Fair {
            self.forget_load_time(se);
        }
        let left = self.set_task_rq(task, to);
        let entity = &mut self.entities[se.index()];
        let queue = entity.cfs_rq;
        if !self.rules.relative_vruntime && !self.rules.eevdf {
            let (from, to) = (self.cfs_rqs[left.index()].min_vruntime.0, self.cfs_rqs[queue.index()].min_vruntime.0);
            entity.vruntime = entity.vruntime.minus(from).plus(to);
        }
    }

    /// `attach_task`.
    pub fn attach_task(&mut self, to: CpuId, task: TaskId) {
        self.activate_task(to, task, EnqueueFlags::NOCLOCK.and(EnqueueFlags::MIGRATED));
        self.wakeup_preempt(to, task, false);
    }
}

#[cfg(test)]
mod tests {
    use schedlab_model::{Attributes, Policy, Scheduler, Time};

    use super::*;
    use crate::decider::Ours;
    use crate::rules::Rules;
    use crate::runqueue::Clocks;

    const CPU0: CpuId = CpuId(0);

    /// One CPU of `release` at 1 s, without tasks.
    fn machine(release: &str) -> Sched<Ours> {
        let rules = Rules::new(&Scheduler::new(release.parse().unwrap()), 1).unwrap();
        let mut sched = Sched::new(rules, 1, Ours::default());
        sched.set_clocks(CPU0, Clocks::all(Time::from_millis(1_000)));
        sched
    }

    /// `is_special_task_state`: of two tasks one runs for 0.3 ms and leaves at a lag of −0.15 ms. Asleep it stays queued (DELAY_DEQUEUE), stopped
    /// it leaves at once: until SIGCONT nothing may wake it.
    #[test]
    fn a_stopped_task_in_debt_leaves_at_once() {
        for release in ["6.12", "6.18", "7.2", "7.3"] {
            for (state, stays) in
                [(TaskState::Interruptible, true), (TaskState::Uninterruptible, true), (TaskState::Stopped, false)]
            {
                let mut sched = machine(release);
                let [first, second] = [(); 2].map(|()| sched.new_task(&Attributes::default()));
                for task in [first, second] {
                    sched.wake_up_new_task(task, CPU0);
                }
                assert_eq!(sched.schedule(CPU0, TaskState::Running).next, first);
                sched.set_clocks(CPU0, Clocks::all(Time::from_micros(1_000_300)));
                assert_eq!(sched.schedule(CPU0, state).next, second, "{release} {state:?}");
                let entity = sched.entity(first);
                assert_eq!((entity.on_rq, entity.sched_delayed), (stays, stays), "{release} {state:?}");
                assert_eq!(sched.cfs_rq(CPU0).nr_running, if stays { 2 } else { 1 }, "{release} {state:?}");
                if !stays {
                    assert_eq!(entity.vlag, -150_000, "{release}");
                }
            }
        }
    }

    /// `task_non_contending` frees the bandwidth of a deadline task that ends, not of one that is stopped: 5 ms of 10 ms. At its 0-lag time, when
    /// its runtime left would have been used at that pace, 10 ms after it came.
    #[test]
    fn a_stopped_deadline_task_keeps_its_bandwidth() {
        let [runtime, period] = [5, 10].map(Time::from_millis);
        for (state, kept) in [(TaskState::Stopped, true), (TaskState::Dead, false)] {
            let mut sched = machine("7.3");
            let policy = Policy::Deadline { runtime, deadline: period, period };
            let task = sched.new_task(&Attributes { policy, ..Attributes::default() });
            sched.wake_up_new_task(task, CPU0);
            assert_eq!(sched.schedule(CPU0, TaskState::Running).next, task);
            let admitted = sched.dl_total_bw;
            assert!(admitted > 0);
            sched.set_clocks(CPU0, Clocks::all(Time::from_millis(1_005)));
            sched.schedule(CPU0, state);
            let inactive = sched.dl_entities[sched.dl_of(task).index()].inactive.is_some();
            assert_eq!((sched.dl_total_bw == admitted && !inactive), kept, "{state:?}");
        }
    }
}
