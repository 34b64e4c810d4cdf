//! Push and pull of deadline tasks (`kernel/sched/deadline.c`, `cpudeadline.c`): of n CPUs, those with the n earliest deadlines run.

use schedlab_model::{CpuId, TaskId};

use crate::balance::WakeKind;
use crate::bitmap::Bitmap;
use crate::class::Class;
use crate::decider::Decider;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    fn deadline_of(&self, task: TaskId) -> u64 {
        self.dl_entities[self.dl_of(task).index()].deadline
    }

    /// `on_dl_rq`.
    pub(super) fn queued_dl(&self, task: TaskId) -> bool {
        self.dl_entities[self.dl_of(task).index()].queued.is_some()
    }

    /// `dl.earliest_dl.curr`, of tasks and servers.
    fn earliest_deadline(&self, cpu: CpuId) -> Option<u64> {
        let first = self.rqs[cpu.index()].dl.first();
        first.map(|entity| self.dl_entities[entity.index()].deadline)
    }

    /// `dl_task_is_earliest_deadline`.
    fn would_be_first(&self, task: TaskId, cpu: CpuId) -> bool {
        let deadline = self.deadline_of(task);
        self.earliest_deadline(cpu).is_none_or(|earliest| (deadline.wrapping_sub(earliest) as i64) < 0)
    }

    /// `select_task_rq_dl`: where it was, unless a deadline task runs there that it does not preempt or that cannot leave.
    pub(super) fn select_task_rq_dl(&mut self, task: TaskId, this: CpuId, why: WakeKind) -> CpuId {
        let cpu = self.tasks[task.index()].cpu;
        let curr = self.rqs[cpu.index()].curr;
        if !matches!(why, WakeKind::Wakeup { .. }) || self.curr_class(cpu) != Class::Deadline {
            return cpu;
        }
        let preempts = self.deadline_of(task) < self.deadline_of(curr);
        if (self.may_move(curr) && preempts) || !self.may_move(task) {
            return cpu;
        }
        let target = self.find_later_rq(task, this);
        target.filter(|target| self.would_be_first(task, *target)).unwrap_or(cpu)
    }

    /// `find_later_rq`: a CPU without deadlines, or else the one with the latest, if that is later.
    fn find_later_rq(&mut self, task: TaskId, this: CpuId) -> Option<CpuId> {
        if !self.may_move(task) {
            return None;
        }
        // cpudl_find
        let record = &self.tasks[task.index()];
        let mut mask = Bitmap::new(self.rqs.len());
        let mut latest: Option<(u64, CpuId)> = None;
        for number in self.balance.domains.active.iter() {
            let cpu = CpuId(number as u32);
            match self.earliest_deadline(cpu) {
                None if record.may_run_on(cpu) => mask.insert(number),
                None => {}
                Some(deadline) if latest.is_none_or(|(other, _)| deadline > other) => latest = Some((deadline, cpu)),
                Some(_) => {}
            }
        }
        if mask.first().is_none() {
            let (deadline, cpu) = latest?;
            if !record.may_run_on(cpu) || self.deadline_of(task) >= deadline {
                return None;
            }
            mask.insert(cpu.index());
        }
        self.near(self.tasks[task.index()].cpu, this, &mask)
    }

    /// `pick_next_pushable_dl_task`, of those that may run on `to` if that is given; none unless there are two or more
    /// (`dl.overloaded`).
    fn next_pushable_dl(&self, cpu: CpuId, to: Option<CpuId>) -> Option<TaskId> {
        let rq = &self.rqs[cpu.index()];
        let tasks =
            || rq.dl.iter().map(|entity| self.dl_entities[entity.index()].task).filter(|task| *task != TaskId::IDLE);
        tasks().nth(1)?;
        let pushable = |task: &TaskId| {
            *task != rq.curr && self.may_move(*task) && to.is_none_or(|to| self.tasks[task.index()].may_run_on(to))
        };
        tasks().find(pushable)
    }

    /// `push_dl_task`: whether the first that waits went to another CPU.
    fn push_dl_task(&mut self, cpu: CpuId) -> bool {
        let Some(task) = self.next_pushable_dl(cpu, None) else { return false };
        let curr = self.rqs[cpu.index()].curr;
        let runs = self.curr_class(cpu) == Class::Deadline;
        if runs && self.deadline_of(task) < self.deadline_of(curr) && self.may_move(curr) {
            self.resched_curr(cpu);
            self.balance.touched.push(cpu);
            return false;
        }
        let target = self.find_later_rq(task, cpu).filter(|target| *target != cpu);
        let Some(target) = target.filter(|target| self.would_be_first(task, *target)) else { return false };
        self.push(task, cpu, target);
        true
    }

    /// `push_dl_tasks`.
    pub(crate) fn push_dl_tasks(&mut self, cpu: CpuId) {
        if self.balance.on() {
            while self.push_dl_task(cpu) {}
        }
    }

    /// `pull_dl_task`: takes from each CPU the earliest that waits there, if it would be the first here.
    pub(crate) fn pull_dl_task(&mut self, this: CpuId) {
        let mut earliest = u64::MAX;
        for cpu in (0..self.rqs.len() as u32).map(CpuId).filter(|cpu| *cpu != this) {
            let Some(task) = self.next_pushable_dl(cpu, Some(this)) else { continue };
            let deadline = self.deadline_of(task);
            if deadline >= earliest || !self.would_be_first(task, this) || !self.is_online(this) {
                continue;
            }
            // About to run there: it has not been scheduled yet.
            let preempts =
                self.curr_class(cpu) != Class::Deadline || deadline < self.deadline_of(self.rqs[cpu.index()].curr);
            if !preempts {
                self.push(task, cpu, this);
                earliest = deadline;
            }
        }
    }

    /// `task_woken_dl`.
    pub(crate) fn task_woken_dl(&mut self, cpu: CpuId, task: TaskId) {
        let rq = &self.rqs[cpu.index()];
        let curr = rq.curr;
        if curr == task || rq.need_resched || !self.may_move(task) || self.curr_class(cpu) != Class::Deadline {
            return;
        }
        if !self.may_move(curr) || self.deadline_of(task) >= self.deadline_of(curr) {
            self.push_dl_tasks(cpu);
        }
    }
}
