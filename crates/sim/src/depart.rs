//! Going to sleep on a machine with several CPUs: the last check of the condition, and wake-ups before the task is off its CPU.
//!
//! A task checks for the last time whether there is anything to wait for before it calls the scheduler (`prepare_to_wait_event`, or a
//! futex's value under its bucket's lock; then `schedule`). It finds what another CPU did before that. From when `__schedule` has dequeued
//! the task until the switch is over, a waker finds it off the queue but still on its CPU (`on_rq` 0, `on_cpu` 1), and has that CPU wake it
//! (`ttwu_queue_wakelist`): by an interrupt, which the CPU takes as soon as it takes any, before it idles.

use schedlab_model::{EventSink, TaskId, TaskState};
use schedlab_program::Op;

use crate::engine::Engine;
use crate::event_queue::NEVER;
use crate::task::Stage;
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// Whether the task has looked for the last time before it sleeps, and is not off its CPU yet.
    #[inline]
    pub(crate) fn departs(&self, task: u32) -> bool {
        task != NONE && self.arena.tasks[task as usize].stage == Stage::Depart
    }

    /// Whether the pass by which the CPU's task goes to sleep has a dequeue that takes time: not that for a child, which takes none, nor that for
    /// the disk, which was measured with the access.
    pub(crate) fn dequeues(&self, cpu: u32) -> bool {
        let current = self.arena.cpus[cpu as usize].current;
        if self.prices.dequeue == 0 || current == NONE {
            return false;
        }
        let record = &self.arena.tasks[current as usize];
        !record.background && !matches!(record.op, Op::Join | Op::File(_))
    }

    /// Whether the CPU's task goes to sleep for a message, in a call.
    pub(crate) fn sleeps_in_call(&self, cpu: u32, state: TaskState) -> bool {
        let current = self.arena.cpus[cpu as usize].current;
        if self.prices.dequeue == 0 || current == NONE || state != TaskState::Interruptible {
            return false;
        }
        let record = &self.arena.tasks[current as usize];
        record.slept && !record.background && matches!(record.op, Op::Write { .. } | Op::Read { .. })
    }

    /// The previous task has gone to sleep in a call: if its dequeue is delayed (`DEQUEUE_DELAYED`), the pass, for which the next task pays, was shorter.
    pub(crate) fn shorten_pass(&mut self, previous: TaskId, next: TaskId) {
        if self.prices.delayed_dequeue_pass == 0 || next == TaskId::IDLE || !self.sched.entity(previous).sched_delayed {
            return;
        }
        self.arena.tasks[previous.index()].pass_shortened = true;
        let debt = &mut self.arena.tasks[next.index()].debt;
        *debt = debt.saturating_sub(self.prices.delayed_dequeue_pass);
    }

    /// The CPU's task has checked for the last time, and is among the waiters: it sleeps in `state`, after the scheduler's pass.
    pub(crate) fn go_to_sleep(&mut self, task: u32, cpu: u32, state: TaskState) {
        let record = &mut self.arena.tasks[task as usize];
        // Waiting for a child takes no time.
        if self.prices.depart == 0 || record.op == Op::Join {
            return self.switch(cpu, state);
        }
        (record.stage, record.remaining, record.recalled) = (Stage::Depart, self.prices.depart, false);
        // This pass serves any other reason to schedule that arises meanwhile.
        let record = &mut self.arena.cpus[cpu as usize];
        (record.leaving, record.resched_at) = (true, NEVER);
    }

    /// The pass is over and the task is off its CPU. If it was woken since its last check, its CPU is notified now, by an interrupt.
    pub(crate) fn depart(&mut self, task: u32, cpu: u32) {
        let record = &mut self.arena.tasks[task as usize];
        record.stage = Stage::Retry;
        let of_disk = matches!(record.op, Op::File(_) | Op::CompleteWrite);
        let recalled = record.recalled;
        self.switch(cpu, if of_disk { TaskState::Uninterruptible } else { TaskState::Interruptible });
        if recalled {
            self.set_timer(task, 0);
        }
    }

    /// A task on its way to sleep is woken from another CPU: the waker notifies the task's CPU, and pays for that alone.
    pub(crate) fn recall(&mut self, task: u32) -> u64 {
        self.arena.tasks[task as usize].recalled = true;
        self.prices.wakeup_remote() + self.prices.ipi()
    }
}
