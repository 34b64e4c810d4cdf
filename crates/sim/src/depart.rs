//! Going to sleep among several CPUs: who looks, waits, and is woken before it is off.
//!
//! The last look at whether there is anything to wait for comes before the scheduler's pass (`prepare_to_wait_event`, or a futex's value
//! under its bucket's lock; then `schedule`). What another CPU does up to then is found. From when `__schedule` has taken the task off its queue
//! until the switch is over, whoever wakes finds it off the queue but still on its CPU (`on_rq` 0, `on_cpu` 1), and has that CPU wake it
//! (`ttwu_queue_wakelist`): by an interrupt, which it takes as soon as it takes any, before it idles.

use schedlab_model::{EventSink, TaskState};
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

    /// The CPU's task has looked for the last time, and is among those who wait: it sleeps in `state`, after the scheduler's pass.
    pub(crate) fn go_to_sleep(&mut self, task: u32, cpu: u32, state: TaskState) {
        let record = &mut self.arena.tasks[task as usize];
        // Waiting for a child takes no time.
        if self.prices.depart == 0 || record.op == Op::Join {
            return self.switch(cpu, state);
        }
        (record.stage, record.remaining, record.recalled) = (Stage::Depart, self.prices.depart, false);
        // Whatever else tells the CPU to schedule meanwhile is heeded by this pass.
        let record = &mut self.arena.cpus[cpu as usize];
        (record.leaving, record.resched_at) = (true, NEVER);
    }

    /// The pass is over: the task is off. Where somebody has woken it since it looked, its CPU is told now, by an interrupt.
    pub(crate) fn depart(&mut self, task: u32, cpu: u32) {
        let record = &mut self.arena.tasks[task as usize];
        record.stage = Stage::Retry;
        let of_disk = matches!(record.op, Op::File(_));
        let recalled = record.recalled;
        self.switch(cpu, if of_disk { TaskState::Uninterruptible } else { TaskState::Interruptible });
        if recalled {
            self.set_timer(task, 0);
        }
    }

    /// A task that departs is woken, from another CPU: who does so tells its CPU, and that is all it pays.
    pub(crate) fn recall(&mut self, task: u32) -> u64 {
        self.arena.tasks[task as usize].recalled = true;
        self.prices.wakeup_remote() + self.prices.ipi(false)
    }
}
