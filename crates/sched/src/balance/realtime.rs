//! Push and pull of real-time tasks (`kernel/sched/rt.c`, `cpupri.c`): of n CPUs, those of the n highest priorities run.

use schedlab_model::{CpuId, TaskId};

use crate::balance::WakeKind;
use crate::balance::domains::DomainFlags;
use crate::balance::state::Migration;
use crate::bitmap::Bitmap;
use crate::class::Class;
use crate::decider::Decider;
use crate::machine::Sched;

/// `MAX_RT_PRIO`: lower numbers are higher priorities, and this is none.
const MAX_RT_PRIO: i16 = 100;

impl<D: Decider> Sched<D> {
    /// `nr_cpus_allowed` > 1.
    pub(super) fn may_move(&self, task: TaskId) -> bool {
        let affinity = self.tasks[task.index()].affinity.as_ref();
        affinity.map_or(self.rqs.len() > 1, |allowed| allowed.count() > 1)
    }

    /// `rt.highest_prio.curr`.
    fn highest_rt_prio(&self, cpu: CpuId) -> i16 {
        let first = self.rqs[cpu.index()].rt.first();
        first.map_or(MAX_RT_PRIO, |task| self.tasks[task.index()].prio())
    }

    /// What `cpupri` has of a CPU: the priority that runs there, a deadline task's before all.
    fn cpupri(&self, cpu: CpuId) -> i16 {
        if self.rqs[cpu.index()].dl.first().is_some() { -1 } else { self.highest_rt_prio(cpu) }
    }

    /// `select_task_rq_rt`: its previous CPU, unless it does not preempt the current task there or that one cannot move.
    pub(super) fn select_task_rq_rt(&mut self, task: TaskId, this: CpuId, why: WakeKind) -> CpuId {
        let (cpu, prio) = (self.tasks[task.index()].cpu, self.tasks[task.index()].prio());
        let curr = self.rqs[cpu.index()].curr;
        if why == WakeKind::Exec || curr == TaskId::IDLE {
            return cpu;
        }
        let running = self.tasks[curr.index()].prio();
        if running >= MAX_RT_PRIO || (self.may_move(curr) && running > prio) {
            return cpu;
        }
        let target = self.find_lowest_rq(task, this);
        target.filter(|target| prio < self.highest_rt_prio(*target)).unwrap_or(cpu)
    }

    /// `find_lowest_rq`: of the CPUs that run what matters least, and less than the task: its last one, this one, or one near.
    fn find_lowest_rq(&mut self, task: TaskId, this: CpuId) -> Option<CpuId> {
        if !self.may_move(task) {
            return None;
        }
        // cpupri_find
        let record = &self.tasks[task.index()];
        let (mut lowest, mut mask) = (record.prio(), Bitmap::new(self.rqs.len()));
        for number in self.balance.domains.active.iter() {
            let cpu = CpuId(number as u32);
            if !record.may_run_on(cpu) {
                continue;
            }
            let prio = self.cpupri(cpu);
            if prio > lowest {
                (lowest, mask) = (prio, Bitmap::new(self.rqs.len()));
            }
            if prio == lowest && lowest > record.prio() {
                mask.insert(number);
            }
        }
        mask.first()?;
        let last = record.cpu;
        self.near(last, this, &mask)
    }

    /// Of `mask`: a task's last CPU, else within the smallest domain that has one this CPU or any, else this CPU or any.
    pub(super) fn near(&mut self, last: CpuId, this: CpuId, mask: &Bitmap) -> Option<CpuId> {
        if mask.contains(last.index()) {
            return Some(last);
        }
        let this_fits = mask.contains(this.index());
        for level in 0..self.balance.domains.cpus[last.index()].levels.len() {
            let shape = &self.balance.domains.cpus[last.index()].levels[level].shape;
            if !shape.flags.has(DomainFlags::WAKE_AFFINE) {
                continue;
            }
            if this_fits && shape.span.contains(this.index()) {
                return Some(this);
            }
            let mut within = (*shape.span).clone();
            within.retain(mask);
            if let Some(found) = self.distribute(this, &within) {
                return Some(found);
            }
        }
        if this_fits { Some(this) } else { self.distribute(this, mask) }
    }

    /// `cpumask_any_and_distribute`: the one after the one that this CPU was given last.
    fn distribute(&mut self, this: CpuId, mask: &Bitmap) -> Option<CpuId> {
        let found = mask.iter_wrap(self.rqs[this.index()].balance.distributed as usize + 1).next()?;
        self.rqs[this.index()].balance.distributed = found as u32;
        Some(CpuId(found as u32))
    }

    /// `pick_next_pushable_task`: the first that waits and may go elsewhere.
    fn next_pushable_rt(&self, cpu: CpuId) -> Option<TaskId> {
        let rq = &self.rqs[cpu.index()];
        // rt.overloaded
        if rq.rt.nr_running <= 1 || rq.rt.budget.throttled {
            return None;
        }
        rq.rt.iter().find(|task| *task != rq.curr && self.may_move(*task))
    }

    /// `push_rt_task`: sends the first that waits to a CPU that runs what matters less. Whether it went.
    fn push_rt_task(&mut self, cpu: CpuId) -> bool {
        let Some(task) = self.next_pushable_rt(cpu) else { return false };
        let prio = self.tasks[task.index()].prio();
        let curr = self.rqs[cpu.index()].curr;
        if curr == TaskId::IDLE || prio < self.tasks[curr.index()].prio() {
            self.resched_curr(cpu);
            self.balance.touched.push(cpu);
            return false;
        }
        let target = self.find_lowest_rq(task, cpu).filter(|target| *target != cpu);
        let Some(target) = target.filter(|target| self.highest_rt_prio(*target) > prio) else { return false };
        self.push(task, cpu, target);
        true
    }

    /// Takes a waiting task to another CPU, which is to schedule.
    pub(super) fn push(&mut self, task: TaskId, from: CpuId, to: CpuId) {
        self.update_rq_clock(from);
        self.update_rq_clock(to);
        self.detach_task(task, to);
        self.attach_task(to, task);
        self.resched_curr(to);
        self.balance.migrations.push(Migration { task, from, to });
    }

    /// `push_rt_tasks`.
    pub(crate) fn push_rt_tasks(&mut self, cpu: CpuId) {
        while self.push_rt_task(cpu) {}
    }

    /// `pull_rt_task`: a CPU that runs less than it did has those with too many push (`tell_cpu_to_push`).
    pub(crate) fn pull_rt_task(&mut self, this: CpuId) {
        for number in 0..self.rqs.len() as u32 {
            let cpu = CpuId(number);
            if cpu != this && self.next_pushable_rt(cpu).is_some() {
                self.update_rq_clock(cpu);
                self.push_rt_tasks(cpu);
            }
        }
    }

    /// `task_woken_rt`: it came where it has to wait.
    pub(crate) fn task_woken_rt(&mut self, cpu: CpuId, task: TaskId) {
        let rq = &self.rqs[cpu.index()];
        if rq.curr == task || rq.curr == TaskId::IDLE || rq.need_resched || !self.may_move(task) {
            return;
        }
        let (running, prio) = (self.tasks[rq.curr.index()].prio(), self.tasks[task.index()].prio());
        if running < MAX_RT_PRIO && (!self.may_move(rq.curr) || running <= prio) {
            self.push_rt_tasks(cpu);
        }
    }

    /// `task_woken` of its class.
    pub(crate) fn task_woken(&mut self, cpu: CpuId, task: TaskId) {
        if !self.balance.moves_tasks() {
            return;
        }
        match self.tasks[task.index()].class {
            Class::Rt => self.task_woken_rt(cpu, task),
            Class::Deadline => self.task_woken_dl(cpu, task),
            _ => {}
        }
    }

    /// `put_prev_task_balance`: the previous task stops running; its class and lower ones look for tasks to run in its place.
    pub(crate) fn balance_classes(&mut self, cpu: CpuId, previous: TaskId) {
        if !self.balance.moves_tasks() || previous == TaskId::IDLE {
            return;
        }
        let record = &self.tasks[previous.index()];
        let (class, prio, queued) = (record.class, record.prio(), self.entities[record.se.index()].on_rq);
        if class == Class::Deadline {
            if !self.queued_dl(previous) {
                self.pull_dl_task(cpu);
            }
            if self.rqs[cpu.index()].dl.first().is_some() {
                return;
            }
        }
        let off = class == Class::Deadline || !queued;
        if class <= Class::Rt && off && self.highest_rt_prio(cpu) > prio {
            self.pull_rt_task(cpu);
        }
    }

    /// `balance_callback`: after a pick, waiting tasks of the current task's class are pushed to other CPUs.
    pub(crate) fn push_tasks(&mut self, cpu: CpuId) {
        if !self.balance.moves_tasks() {
            return;
        }
        match self.curr_class(cpu) {
            Class::Rt => self.push_rt_tasks(cpu),
            Class::Deadline => self.push_dl_tasks(cpu),
            _ => {}
        }
    }

    /// The end of `switched_from` and `prio_changed` of both classes: a task that fell, or left, makes room.
    pub(crate) fn pull_for_fallen(&mut self, cpu: CpuId, old_class: Class, fell: bool) {
        if !self.balance.moves_tasks() || !fell {
            return;
        }
        match old_class {
            Class::Deadline => self.pull_dl_task(cpu),
            Class::Rt => self.pull_rt_task(cpu),
            _ => {}
        }
    }

    /// `check_preempt_equal_prio`: of two equals the one that runs goes if it can run elsewhere and the other cannot.
    pub(crate) fn check_preempt_equal_prio(&mut self, cpu: CpuId, task: TaskId) {
        if !self.balance.moves_tasks() {
            return;
        }
        let curr = self.rqs[cpu.index()].curr;
        let movable =
            |sched: &mut Self, task: TaskId| sched.may_move(task) && sched.find_lowest_rq(task, cpu).is_some();
        if movable(self, curr) && !movable(self, task) {
            self.requeue_task_rt(cpu, task);
            self.resched_curr(cpu);
        }
    }
}
