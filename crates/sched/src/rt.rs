//! The real-time class: FIFO and RR (`kernel/sched/rt.c`).

use std::collections::VecDeque;

use schedlab_model::{Candidate, CpuId, Policy, Reason, TaskId, TurnRule, WakeupRule};

use crate::class::{Class, EnqueueFlags};
use crate::decider::Decider;
use crate::machine::Sched;
use crate::rt_bandwidth::RtBudget;

/// Priorities of real-time tasks, 1 to 99.
const MAX_RT_PRIO: usize = 100;

/// `struct rt_rq` with its `rt_prio_array`: one list a priority; the running task stays in its list.
#[derive(Debug, Clone, Default)]
pub(crate) struct RtRq {
    /// Made when the first real-time task comes: most queues never see one.
    lists: Option<Box<[VecDeque<TaskId>]>>,
    /// Bit p: priority p has tasks.
    occupied: u128,
    pub(crate) nr_running: u32,
    /// `rt_queued`: its tasks count among `rq->nr_running`.
    pub(crate) queued: bool,
    pub(crate) budget: RtBudget,
}

impl RtRq {
    fn list(&mut self, priority: u8) -> &mut VecDeque<TaskId> {
        let lists = self.lists.get_or_insert_with(|| vec![VecDeque::new(); MAX_RT_PRIO].into_boxed_slice());
        &mut lists[usize::from(priority)]
    }

    fn add(&mut self, priority: u8, task: TaskId, head: bool) {
        if head {
            self.list(priority).push_front(task);
        } else {
            self.list(priority).push_back(task);
        }
        self.occupied |= 1 << priority;
    }

    fn remove(&mut self, priority: u8, task: TaskId) {
        let list = self.list(priority);
        list.retain(|queued| *queued != task);
        if list.is_empty() {
            self.occupied &= !(1 << priority);
        }
    }

    /// `pick_next_task_rt`: who would run, unless all are throttled.
    #[inline]
    pub(crate) fn pick(&self) -> Option<TaskId> {
        if self.queued { self.first() } else { None }
    }

    /// `pick_next_rt_entity`: the head of the highest occupied list (`sched_find_first_bit`).
    pub(crate) fn first(&self) -> Option<TaskId> {
        let highest = 127u32.checked_sub(self.occupied.leading_zeros())?;
        self.lists.as_ref()?[highest as usize].front().copied()
    }

    /// Queued tasks from the highest priority down, each list from its head.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TaskId> {
        self.lists.iter().flat_map(|lists| lists.iter().rev()).flatten().copied()
    }

    fn alone(&self, priority: u8) -> bool {
        self.lists.as_ref().is_none_or(|lists| lists[usize::from(priority)].len() <= 1)
    }
}

impl<D: Decider> Sched<D> {
    pub(crate) fn enqueue_task_rt(&mut self, cpu: CpuId, task: TaskId, flags: EnqueueFlags) {
        if self.is_stopper(cpu, task) {
            return self.enqueue_task_stop(cpu, task);
        }
        let priority = self.tasks[task.index()].rt_priority();
        let rt = &mut self.rqs[cpu.index()].rt;
        rt.add(priority, task, flags.has(EnqueueFlags::HEAD));
        rt.nr_running += 1;
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].on_rq = true;
        self.start_rt_bandwidth(cpu);
        // enqueue_top_rt_rq
        let rt = &mut self.rqs[cpu.index()].rt;
        if rt.queued {
            self.add_nr_running(cpu, 1);
        } else if !rt.budget.throttled {
            rt.queued = true;
            let waiting = rt.nr_running;
            self.add_nr_running(cpu, waiting);
            self.idle_cpus.remove(cpu.index());
        }
    }

    pub(crate) fn dequeue_task_rt(&mut self, cpu: CpuId, task: TaskId) {
        // Whichever task is dequeued, the current one is charged if it is of the class.
        if self.curr_class(cpu) == Class::Rt {
            self.update_curr_rt(cpu);
        }
        if self.is_stopper(cpu, task) {
            return self.dequeue_task_stop(cpu, task);
        }
        let priority = self.tasks[task.index()].rt_priority();
        let rq = &mut self.rqs[cpu.index()];
        rq.rt.remove(priority, task);
        rq.rt.nr_running -= 1;
        if rq.rt.queued {
            rq.nr_running -= 1;
            rq.rt.queued = rq.rt.nr_running > 0;
        }
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].on_rq = false;
    }

    /// `update_curr_rt`.
    pub(crate) fn update_curr_rt(&mut self, cpu: CpuId) {
        let rq = &self.rqs[cpu.index()];
        let se = self.tasks[rq.curr.index()].se;
        let entity = &mut self.entities[se.index()];
        let delta = rq.clock_task.wrapping_sub(entity.exec_start) as i64;
        if delta > 0 {
            entity.sum_exec_runtime += delta as u64;
            entity.exec_start = rq.clock_task;
            if self.rules.rt_runtime().is_some() && rq.stop != Some(rq.curr) {
                self.charge_rt_bandwidth(cpu, delta as u64);
            }
        }
    }

    pub(crate) fn put_prev_task_rt(&mut self, cpu: CpuId, task: TaskId) {
        if self.rqs[cpu.index()].curr == task {
            self.update_curr_rt(cpu);
        }
        self.update_class_load_avg(cpu, Class::Rt, true);
    }

    pub(crate) fn set_next_task_rt(&mut self, cpu: CpuId, task: TaskId) {
        if self.curr_class(cpu) != Class::Rt {
            self.update_class_load_avg(cpu, Class::Rt, false);
        }
        let now = self.rqs[cpu.index()].clock_task;
        let se = self.tasks[task.index()].se;
        self.entities[se.index()].exec_start = now;
    }

    /// `task_tick_rt`: a round-robin task whose slice is used up goes to the end of its list, unless it is alone there.
    pub(crate) fn task_tick_rt(&mut self, cpu: CpuId) {
        self.update_curr_rt(cpu);
        self.update_class_load_avg(cpu, Class::Rt, true);
        let curr = self.rqs[cpu.index()].curr;
        let rr_ticks = self.rules.rr_ticks;
        let task = &mut self.tasks[curr.index()];
        let Policy::Rr(priority) = task.policy else { return };
        task.time_slice = task.time_slice.saturating_sub(1);
        if task.time_slice > 0 {
            return;
        }
        task.time_slice = rr_ticks;
        let rt = &mut self.rqs[cpu.index()].rt;
        if !rt.alone(priority) {
            rt.remove(priority, curr);
            rt.add(priority, curr, false);
            self.resched_curr(cpu);
            let current = Candidate::Task(curr);
            self.explain(cpu, move |_| Reason::Turn { current, tick: true, preempts: true, by: TurnRule::RoundRobin });
        }
    }

    /// `wakeup_preempt_rt` (`check_preempt_curr_rt`): a strictly higher priority preempts.
    pub(crate) fn wakeup_preempt_rt(&mut self, cpu: CpuId, woken: TaskId) {
        let curr = self.rqs[cpu.index()].curr;
        let (waking, running) = (self.tasks[woken.index()].rt_priority(), self.tasks[curr.index()].rt_priority());
        if waking > running {
            self.resched_curr(cpu);
        } else if waking == running && !self.rqs[cpu.index()].need_resched {
            self.check_preempt_equal_prio(cpu, woken);
        }
        let by = WakeupRule::Priority(i16::from(waking) - i16::from(running));
        self.explain_wakeup(cpu, woken, self.rqs[cpu.index()].need_resched, by);
    }

    /// `requeue_task_rt` to the head of its list.
    pub(crate) fn requeue_task_rt(&mut self, cpu: CpuId, task: TaskId) {
        let priority = self.tasks[task.index()].rt_priority();
        let rt = &mut self.rqs[cpu.index()].rt;
        rt.remove(priority, task);
        rt.add(priority, task, true);
    }

    /// `yield_task_rt`: to the end of its list.
    pub(crate) fn yield_task_rt(&mut self, cpu: CpuId) {
        let curr = self.rqs[cpu.index()].curr;
        let priority = self.tasks[curr.index()].rt_priority();
        let rt = &mut self.rqs[cpu.index()].rt;
        rt.remove(priority, curr);
        rt.add(priority, curr, false);
    }
}
