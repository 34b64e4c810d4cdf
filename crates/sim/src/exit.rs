//! The end of a task.

use schedlab_model::{CpuId, EventKind, EventSink, TaskKind};
use schedlab_program::Op;
use schedlab_sched::Class;

use crate::engine::{Engine, task_id};
use crate::task::{Stage, State};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// The stage that comes first, and the time that takes. What a task came to is read before it ends, by its clock of CPU time.
    pub(crate) fn plan_exit(&mut self, task: u32) -> (Stage, u64) {
        let looks = self.prices.sleeps_within_calls && self.sched.rules().eevdf;
        if looks && !self.arena.tasks[task as usize].slept {
            return (Stage::Report, 0);
        }
        if self.starter == task && self.stopped.is_none() {
            self.stopped = Some(self.now);
        }
        (Stage::Act, self.prices.exit(self.arena.identities[task as usize].kind))
    }

    /// `task_sched_runtime`: the kernel charges a task that asks for its own CPU time. With EEVDF (`update_curr`) that is where one loses
    /// the CPU whose request is served, long before a tick may find that.
    pub(crate) fn report(&mut self, task: u32, cpu: u32) {
        if self.starter == task {
            self.stopped = Some(self.now);
        }
        let record = &mut self.arena.tasks[task as usize];
        (record.stage, record.slept) = (Stage::Retry, true);
        self.touch(cpu);
        self.sched.update_curr(CpuId(cpu));
    }

    /// `do_exit`: a task that waits for a thread is woken first, by the futex that the thread clears as it leaves its memory; a process
    /// notifies its parent last. In between it leaves its autogroup.
    pub(crate) fn exit(&mut self, task: u32, cpu: u32) {
        self.emit(cpu, EventKind::Exit { task: task_id(task) });
        let process = self.arena.identities[task as usize].kind == TaskKind::Process;
        if !process {
            self.release_task(TaskKind::Thread, cpu);
        }
        // Autogroups are of the fair class.
        let goes = self.sched.rules().lazy && self.sched.curr_class(CpuId(cpu)) == Class::Fair;
        let record = &mut self.arena.tasks[task as usize];
        (record.stage, record.remaining) = (if process { Stage::Notify } else { Stage::Die }, 0);
        if !process || !goes {
            self.notify(task, cpu);
        }
        if goes {
            self.leave_autogroup(task, cpu);
        }
    }

    /// `sched_autogroup_exit_task`: whether autogroup is on or not, and though the group stays the same, the task is taken out and put
    /// back, and its CPU is marked for rescheduling: where kernels preempt within system calls, at once.
    fn leave_autogroup(&mut self, task: u32, cpu: u32) {
        self.touch(cpu);
        let group = self.sched.group_of(task_id(task));
        self.sched.sched_move_task(task_id(task), group);
        self.settle_moves(cpu);
    }

    /// `exit_notify`, or a thread's `mm_release`: a parent that waits for this child is woken.
    pub(crate) fn notify(&mut self, task: u32, cpu: u32) {
        let record = &mut self.arena.tasks[task as usize];
        (record.stage, record.remaining, record.zombie) = (Stage::Die, 0, true);
        self.leave_session(task, cpu);
        let identity = &self.arena.identities[task as usize];
        let (parent, kind) = (identity.parent, identity.kind);
        if parent == NONE {
            return;
        }
        let waiting = &self.arena.tasks[parent as usize];
        let next = self.arena.identities[parent as usize].first_child;
        if waiting.state == State::Asleep && waiting.op == Op::Join && next == task {
            // A process wakes its parent through a wait queue, in sync; a thread through a futex, which is not. The wake-up by an exiting
            // task does not count as in sync for placement, though (PF_EXITING).
            let sync = kind == TaskKind::Process && !self.sched.balances();
            self.wake_for(task, cpu, parent, sync);
        }
    }
}
