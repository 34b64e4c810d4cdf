//! `kernel/sched/core.c`: its sequences under their names, so that neither the engine nor replay re-invents them.

use schedlab_model::{Attributes, CpuId, Policy, TaskId, TaskState};

use crate::balance::state::TaskMemory;
use crate::class::{Class, DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::{Entity, EntityId, Life, TaskStruct, Vruntime};
use crate::fair::group::GroupId;
use crate::fair::weight::weight_of_nice;
use crate::machine::Sched;

/// What [`Sched::schedule`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// The task that ran.
    pub previous: TaskId,
    /// The task that runs now; [`TaskId::IDLE`] if none can. A driver may then balance ([`Sched::newly_idle_balance`]) and schedule again.
    pub next: TaskId,
}

impl<D: Decider> Sched<D> {
    /// A first task, without a parent, in a process of its own. Start it with [`Sched::wake_up_new_task`]; it comes in at its queue's `min_vruntime`.
    pub fn new_task(&mut self, attributes: &Attributes) -> TaskId {
        let task = self.add_task(CpuId(0), None);
        self.apply_attributes(task, attributes);
        self.init_entity_runnable_average(self.tasks[task.index()].se);
        task
    }

    pub(crate) fn add_task(&mut self, cpu: CpuId, process: Option<TaskId>) -> TaskId {
        let task = TaskId(self.tasks.len() as u32);
        let se = EntityId(self.entities.len() as u32);
        let load = weight_of_nice(&self.rules, Policy::Other, 0);
        let slice = self.rules.tunables.base_slice.as_nanos();
        self.entities.push(Entity::new(load, slice, self.rqs[cpu.index()].cfs, task));
        self.tasks.push(TaskStruct {
            se,
            class: self.class_of(Policy::Other),
            policy: Policy::Other,
            nice: 0,
            cpu,
            group: GroupId::ROOT,
            life: Life::New,
            dl: None,
            forked: false,
            throttle_work: false,
            throttled: false,
            time_slice: self.rules.rr_ticks,
            beside: [TaskId::IDLE; 2],
            balance: TaskMemory::NEW,
            affinity: None,
        });
        self.processes.add(process);
        task
    }

    /// `sched_fork`: a child of `parent` that inherits its attributes, on its CPU for now. The parent's queue must have its clocks.
    ///
    /// With `same_process` it is a further thread of its parent's process; where weights follow their number, the other threads'
    /// are the driver's to bring up to date ([`Sched::reweight_task`]).
    /// Ask whether it may fork first ([`Sched::may_fork`]).
    pub fn sched_fork(&mut self, parent: TaskId, same_process: bool) -> TaskId {
        let child = self.inherit(parent, same_process);
        self.task_fork(child);
        child
    }

    /// What a child takes over from its parent.
    pub(crate) fn inherit(&mut self, parent: TaskId, same_process: bool) -> TaskId {
        let (policy, nice, class, cpu, affinity, parent_se) = {
            let parent = &self.tasks[parent.index()];
            (parent.policy, parent.nice, parent.class, parent.cpu, parent.affinity.clone(), parent.se)
        };
        let child = self.add_task(cpu, same_process.then_some(parent));
        // Where a deadline task may fork at all (sched_reset_on_fork), its child is not one.
        let (policy, class) = if class == Class::Deadline { (Policy::Other, Class::Fair) } else { (policy, class) };
        let record = &mut self.tasks[child.index()];
        (record.policy, record.nice, record.class, record.affinity) = (policy, nice, class, affinity);
        record.forked = true;
        let se = record.se;
        let (load, slice, custom_slice) = {
            let entity = &self.entities[parent_se.index()];
            ((entity.load, entity.weight), entity.slice, entity.custom_slice)
        };
        let deadline = self.inherited_deadline(parent_se);
        let entity = &mut self.entities[se.index()];
        ((entity.load, entity.weight), entity.slice, entity.custom_slice) = (load, slice, custom_slice);
        if let Some(deadline) = deadline {
            (entity.deadline, entity.rel_deadline) = (deadline, true);
        }
        if !self.rules.weights.is_none() {
            let load = self.weight_of(child, policy, nice);
            self.entities[se.index()].set_load(load);
        }
        self.tasks[child.index()].group = self.tasks[parent.index()].group;
        self.remember_fork(parent, child, cpu);
        self.set_task_rq(child, cpu);
        self.init_entity_runnable_average(se);
        child
    }

    /// The relative deadline that a child takes over with its parent's entity (`__sched_fork`), if it does: that of a parent which left its
    /// fair queue for another class.
    fn inherited_deadline(&self, parent: EntityId) -> Option<Vruntime> {
        let entity = &self.entities[parent.index()];
        let inherits = self.rules.eevdf && !self.rules.fork_clears_relative_deadline && entity.rel_deadline;
        inherits.then_some(entity.deadline)
    }

    /// `task_fork` of the child's class: a fair one is placed. 2.6.24 does so when it is first woken (`task_new_fair`), EEVDF when it is first
    /// queued, from no lag.
    pub(crate) fn task_fork(&mut self, child: TaskId) {
        let record = &self.tasks[child.index()];
        if record.class == Class::Fair && self.rules.places_on_fork {
            self.task_fork_fair(record.cpu, child);
        }
    }

    /// `wake_up_new_task`: queues a new task on `cpu` (from [`Sched::select_task_rq`]) for the first time.
    pub fn wake_up_new_task(&mut self, task: TaskId, cpu: CpuId) {
        let record = &mut self.tasks[task.index()];
        record.life = Life::Runnable;
        let parent_cpu = record.cpu;
        record.cpu = cpu;
        let (class, se, forked) = (record.class, record.se, record.forked);
        self.set_task_rq(task, cpu);
        self.post_init_entity_util_avg(se, class);
        if class == Class::Fair && !self.rules.places_on_fork && !self.rules.eevdf {
            if forked {
                self.task_new_fair(cpu, task, parent_cpu);
            } else {
                // Without a parent it comes in where the queue stands.
                let cfs = self.entities[se.index()].cfs_rq;
                let standing = self.cfs_rqs[cfs.index()].min_vruntime;
                self.entities[se.index()].vruntime =
                    if self.rules.relative_vruntime { Vruntime::default() } else { standing };
                self.enqueue_task(cpu, task, EnqueueFlags::default());
            }
            self.account_enqueue(cpu);
        } else {
            self.activate_task(cpu, task, EnqueueFlags::NOCLOCK.and(EnqueueFlags::INITIAL));
        }
        self.wakeup_preempt(cpu, task, true);
        self.task_woken(cpu, task);
    }

    /// `try_to_wake_up`: wakes a sleeping task on `cpu` (from [`Sched::select_task_rq`]); false, and nothing done, if it was
    /// not asleep.
    pub fn try_to_wake_up(&mut self, task: TaskId, cpu: CpuId) -> bool {
        let record = &mut self.tasks[task.index()];
        if record.life != Life::Asleep {
            return false;
        }
        record.life = Life::Runnable;
        if self.entities[record.se.index()].sched_delayed {
            // ttwu_runnable: it never left its queue.
            let cpu = record.cpu;
            self.enqueue_task(cpu, task, EnqueueFlags::NOCLOCK.and(EnqueueFlags::DELAYED));
            if self.rqs[cpu.index()].curr != task {
                self.wakeup_preempt(cpu, task, false);
            }
            return true;
        }
        let migrated = record.cpu != cpu;
        if migrated {
            self.set_task_cpu(task, cpu);
        }
        self.ttwu_do_activate(task, cpu, migrated);
        true
    }

    /// `ttwu_do_activate`: queues a task that wakes on its CPU, which it came to just now or not.
    pub(crate) fn ttwu_do_activate(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
        let mut flags = EnqueueFlags::WAKEUP.and(EnqueueFlags::NOCLOCK);
        if migrated {
            flags = flags.and(EnqueueFlags::MIGRATED);
        }
        self.activate_task(cpu, task, flags);
        self.wakeup_preempt(cpu, task, false);
        self.task_woken(cpu, task);
        if !self.rules.avg_idle_at_end_of_idle {
            self.update_avg_idle(cpu);
        }
    }

    /// `activate_task`.
    pub(crate) fn activate_task(&mut self, cpu: CpuId, task: TaskId, flags: EnqueueFlags) {
        self.enqueue_task(cpu, task, flags);
        if self.tasks[task.index()].class.is_counted_by_core() {
            self.account_enqueue(cpu);
        }
    }

    /// A task more, see [`Class::is_counted_by_core`].
    pub(crate) fn account_enqueue(&mut self, cpu: CpuId) {
        self.add_nr_running(cpu, 1);
        // A throttled group's task leaves an idle CPU idle.
        if self.rqs[cpu.index()].nr_running > 0 {
            self.idle_cpus.remove(cpu.index());
        }
    }

    /// `add_nr_running`: as soon as a CPU has more than one task, CPUs that run out of work look for some (`rd->overload`).
    #[inline]
    pub(crate) fn add_nr_running(&mut self, cpu: CpuId, count: u32) {
        let rq = &mut self.rqs[cpu.index()];
        let before = rq.nr_running;
        rq.nr_running = before.wrapping_add(count);
        if before < 2 && rq.nr_running >= 2 {
            self.balance.overload = true;
        }
    }

    /// `sub_nr_running`. A throttled group's task was not counted: below zero until the queue's own account follows.
    pub(crate) fn account_dequeue(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        rq.nr_running = rq.nr_running.wrapping_sub(1);
    }

    /// `deactivate_task`.
    pub(crate) fn deactivate_task(&mut self, cpu: CpuId, task: TaskId, flags: DequeueFlags) {
        if self.dequeue_task(cpu, task, flags) && self.tasks[task.index()].class.is_counted_by_core() {
            self.account_dequeue(cpu);
        }
    }

    /// `TIF_NEED_RESCHED` of the current task of `cpu`.
    #[inline]
    pub fn need_resched(&self, cpu: CpuId) -> bool {
        self.rqs[cpu.index()].need_resched
    }

    /// `resched_curr`.
    #[inline]
    pub(crate) fn resched_curr(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        (rq.need_resched, rq.lazily) = (true, false);
    }

    /// `resched_curr_lazy` under PREEMPT_LAZY: the current task is rescheduled when it returns to user space, or at the next tick. Until
    /// then wake-ups check for preemption as if it were not marked.
    #[inline]
    pub(crate) fn resched_curr_lazy(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        rq.lazily = self.rules.lazy && (rq.lazily || !rq.need_resched) && rq.curr != TaskId::IDLE;
        rq.need_resched = true;
    }

    /// `test_tsk_need_resched`: whether the current task must be rescheduled at once.
    #[inline]
    pub fn must_resched(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu.index()];
        rq.need_resched && !rq.lazily
    }

    /// `__schedule`: the current task is switched out in `state`, and the next one is picked and switched in.
    ///
    /// The previous task is taken off its queue unless it is still runnable. The next one's charge starts at the queue's clock.
    pub fn schedule(&mut self, cpu: CpuId, state: TaskState) -> Scheduled {
        self.hrtick_schedule_enter(cpu);
        let mut previous = self.rqs[cpu.index()].curr;
        let left = previous;
        self.block_task(cpu, previous, state);
        // Where pushes are recorded the stopper is a task that is picked.
        if !self.balance.recorded && self.balance_of(cpu).is_some_and(|state| state.push_cpu.is_some()) {
            // The stopper runs first: the previous task is put back for it.
            self.put_prev_task(cpu, previous);
            self.rqs[cpu.index()].curr = TaskId::IDLE;
            self.active_load_balance(cpu);
            previous = TaskId::IDLE;
        }
        if self.curr_class(cpu) <= Class::Rt && !self.rules.picks_before_put {
            // put_prev_task_balance comes before the pick, and may throttle. From 6.12 on the pick comes first.
            self.update_curr(cpu);
        }
        self.balance_classes(cpu, previous);
        let mut next = self.pick_next_task(cpu);
        if next == TaskId::IDLE && self.balance.on() && self.sched_balance_newidle(cpu) {
            next = self.pick_next_task(cpu);
        }
        // The fair class leaves a task that goes on as it is, slice included. 2.6.24 puts it back and picks it anew.
        if next != previous || !self.rules.repick_keeps_slice {
            if self.has_groups() && self.fair(previous) && self.fair(next) && !self.hands_over_all_levels(previous) {
                self.put_prev_set_next_fair(previous, next);
            } else {
                self.put_prev_task(cpu, previous);
                self.set_next_task(cpu, next);
            }
        }
        if !self.rules.buddies_cleared_when_set && self.fair(next) {
            // pick_next_entity clears the buddies of the task it picks, on every level; from 5.14 on only set_next_entity does.
            let mut level = Some(self.tasks[next.index()].se);
            while let Some(se) = level {
                self.clear_buddies(self.entities[se.index()].cfs_rq, se);
                level = self.entities[se.index()].parent;
            }
        }
        self.hrtick_pick(cpu, previous, next);
        let class = if next == TaskId::IDLE { Class::Idle } else { self.tasks[next.index()].class };
        let rq = &mut self.rqs[cpu.index()];
        (rq.curr, rq.next_class) = (next, class);
        // Charging the previous task within the pick may have asked for what is being done.
        (rq.need_resched, rq.lazily) = (false, false);
        if next == TaskId::IDLE {
            self.idle_cpus.insert(cpu.index());
            self.nohz_balance_enter_idle(cpu);
        } else if class == Class::Fair {
            self.cfs_tasks_move_to_front(cpu, next);
        }
        if state == TaskState::Dead && !self.balance.recorded {
            self.task_dead(left);
        }
        if next != previous {
            self.push_tasks(cpu);
        }
        self.hrtick_schedule_exit(cpu);
        Scheduled { previous: left, next }
    }

    fn fair(&self, task: TaskId) -> bool {
        task != TaskId::IDLE && self.tasks[task.index()].class == Class::Fair
    }

    /// `pick_next_task`: the highest class that has a task to run decides.
    pub(crate) fn pick_next_task(&mut self, cpu: CpuId) -> TaskId {
        let task = self.pick_of_classes(cpu);
        // A fair pick has told its reason.
        if self.decider.explains() && !self.fair(task) {
            self.explain_pick_of_class(cpu, task);
        }
        task
    }

    fn pick_of_classes(&mut self, cpu: CpuId) -> TaskId {
        let rq = &self.rqs[cpu.index()];
        if let Some(stop) = rq.stop.filter(|stop| self.entity(*stop).on_rq) {
            return stop;
        }
        let all_fair = rq.nr_running == self.cfs_rqs[rq.cfs.index()].h_nr_running;
        if all_fair && self.rules.fair_pick_shortcut && self.curr_class(cpu) >= Class::Fair && self.custom.is_none() {
            // The short cut checks no other class and no server: a server that would stop without tasks to serve goes on.
            return self.pick_task_fair(cpu).unwrap_or(TaskId::IDLE);
        }
        if let Some(task) = self.pick_task_dl(cpu).or_else(|| self.rqs[cpu.index()].rt.pick()) {
            return task;
        }
        self.pick_task_fair(cpu).or_else(|| self.pick_task_custom(cpu)).unwrap_or(TaskId::IDLE)
    }

    /// `scheduler_tick` (`sched_tick` from 6.10 on).
    pub fn sched_tick(&mut self, cpu: CpuId) {
        self.rqs[cpu.index()].lazily = false;
        self.task_tick(cpu);
        self.sched_balance_trigger(cpu);
    }
}
