//! Placement and pulling where they are not the kernel's: on 2.6.24, and for a policy of the user's own.
//!
//! Good enough that no CPU idles while a task that may run there waits.

use schedlab_model::{CpuId, TaskId};

use crate::balance::WakeKind;
use crate::decider::Decider;
use crate::entity::{CfsRqId, EntityId};
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// Where the rules of balancing are not the kernel's: a woken task goes where it last ran if that CPU idles, else to the waker's CPU
    /// if that one idles, else to any idle one, else where it last ran. A new task goes to an idle CPU, else to the one with the
    /// fewest runnable tasks, its parent's first.
    pub(super) fn select_simply(&self, task: TaskId, waker_cpu: CpuId, why: WakeKind) -> CpuId {
        let record = &self.tasks[task.index()];
        let previous = record.cpu;
        let wakes = matches!(why, WakeKind::Wakeup { .. });
        let preferred = if wakes { [previous, waker_cpu] } else { [waker_cpu, previous] };
        self.idle_cpu_for(task, preferred).unwrap_or_else(|| {
            if wakes && record.may_run_on(previous) && self.is_online(previous) {
                previous
            } else {
                self.least_loaded_for(task, waker_cpu)
            }
        })
    }

    fn idle_cpu_for(&self, task: TaskId, preferred: [CpuId; 2]) -> Option<CpuId> {
        let record = &self.tasks[task.index()];
        let usable = |cpu: &CpuId| self.idle_cpus.contains(cpu.index()) && record.may_run_on(*cpu);
        preferred.into_iter().find(usable).or_else(|| {
            let first = match &record.affinity {
                Some(allowed) => self.idle_cpus.first_common(allowed),
                None => self.idle_cpus.first(),
            };
            first.map(|cpu| CpuId(cpu as u32))
        })
    }

    pub(crate) fn least_loaded_for(&self, task: TaskId, preferred: CpuId) -> CpuId {
        let record = &self.tasks[task.index()];
        let load = |cpu: &CpuId| (self.rqs[cpu.index()].nr_running, *cpu != preferred, cpu.0);
        (0..self.rqs.len() as u32)
            .map(CpuId)
            .filter(|cpu| record.may_run_on(*cpu) && self.is_online(*cpu))
            .min_by_key(load)
            .unwrap_or(preferred)
    }

    /// For a CPU that is about to idle: the CPU with the most runnable tasks from which it may pull one. Nothing moves yet.
    pub fn newly_idle_balance(&self, cpu: CpuId) -> Option<CpuId> {
        (0..self.rqs.len() as u32)
            .map(CpuId)
            .filter(|busy| *busy != cpu && self.rqs[busy.index()].nr_running > 1)
            .filter(|busy| self.first_pullable(*busy, cpu).is_some())
            .max_by_key(|busy| (self.rqs[busy.index()].nr_running, std::cmp::Reverse(busy.0)))
    }

    /// Moves to `to` the first waiting task of `from` that may run there. Both queues must have their clocks.
    pub fn pull_task(&mut self, from: CpuId, to: CpuId) -> Option<TaskId> {
        let task = self.first_pullable(from, to)?;
        self.move_queued_task(task, to);
        Some(task)
    }

    /// The waiting task that would run next on `from` among those that may run on `to`.
    fn first_pullable(&self, from: CpuId, to: CpuId) -> Option<TaskId> {
        let rq = &self.rqs[from.index()];
        let deadline = rq.dl.iter().map(|id| self.dl_entities[id.index()].task);
        // Real-time tasks whose runtime is used up wait where they are, and none come to where it is.
        let throttled = rq.rt.budget.throttled || self.rqs[to.index()].rt.budget.throttled;
        let realtime = rq.rt.iter().filter(|_| !throttled);
        let pullable =
            |task: &TaskId| *task != TaskId::IDLE && *task != rq.curr && self.tasks[task.index()].may_run_on(to);
        if self.has_groups() {
            let found = deadline.chain(realtime).find(pullable);
            return found.or_else(|| self.first_pullable_of_groups(from, to));
        }
        let awake = |se: &EntityId| !self.entities[se.index()].sched_delayed;
        let fair = self.cfs_rqs[rq.cfs.index()].timeline.iter().filter(awake).map(|se| self.entities[se.index()].task);
        let found = deadline.chain(realtime).chain(fair).find(pullable);
        found.or_else(|| self.runnable_custom(from).into_iter().find(pullable))
    }

    /// Of the fair tasks, where there are groups: these stand where their group does. Throttled ones stay (`throttled_lb_pair`).
    fn first_pullable_of_groups(&self, from: CpuId, to: CpuId) -> Option<TaskId> {
        let rq = &self.rqs[from.index()];
        let mut waiting = Vec::new();
        self.collect_waiting(rq.cfs, &mut waiting);
        waiting.into_iter().find(|task| {
            let record = &self.tasks[task.index()];
            let there = self.groups[record.group.index()].cpus.get(to.index()).copied().flatten();
            let throttled = there.is_some_and(|(queue, _)| self.throttled_hierarchy(queue));
            *task != rq.curr && record.may_run_on(to) && !throttled
        })
    }

    fn collect_waiting(&self, cfs: CfsRqId, waiting: &mut Vec<TaskId>) {
        let queue = &self.cfs_rqs[cfs.index()];
        for se in queue.timeline.iter().chain(queue.curr) {
            let entity = &self.entities[se.index()];
            match entity.my_q {
                Some(group) => self.collect_waiting(group, waiting),
                None if entity.sched_delayed => {}
                None => waiting.push(entity.task),
            }
        }
    }
}
