//! Which task is switched in and out on a CPU, by the recorded switches and where one is missing.

use schedlab_model::TaskState;
use schedlab_trace::{Record, RecordKind, RecordState, TaskRef};

use super::{Cpu, Observer, switch};
use crate::InferError;
use crate::activity::Cause;
use crate::task_trace::State;
use crate::wake_group::Pending;

/// The recorder's event of an arrival that no switch shows.
const ARRIVAL: &str = "schedlab_arrival";

impl Observer {
    /// `sched_switch`.
    pub(super) fn switch(
        &mut self,
        now: u64,
        cpu: u32,
        previous: &TaskRef,
        state: RecordState,
        next: &TaskRef,
    ) -> Result<(), InferError> {
        let [leaves, comes] = [self.task(previous)?, self.task(next)?];
        self.cpus[cpu as usize].pid = Some(next.pid);
        if let Some(number) = leaves {
            self.leaves(now, cpu, number, state, comes);
            self.prioritise(number, previous.priority);
        }
        if let Some(number) = comes {
            self.comes(now, cpu, number);
            self.prioritise(number, next.priority);
            self.change_what_others_asked(number);
        }
        self.brings(now, cpu, leaves, state.task_state(), comes);
        Ok(())
    }

    /// The task that causes an event is on its CPU. If no switch brought it, the kernel traces nothing of the task before it: that one has
    /// gone to sleep since the CPU's last event, at the arrival if one was recorded.
    ///
    /// Other events than these may follow `sched_switch` before the CPU has left the previous task (`tlb_flush`).
    pub(super) fn bridge(&mut self, now: u64, record: &Record) -> Result<(), InferError> {
        let shown = match &record.kind {
            RecordKind::Switch { .. } | RecordKind::Waking { .. } | RecordKind::Fork { .. } => true,
            _ => &*record.event == ARRIVAL,
        };
        let known = self.cpus[record.cpu as usize].pid;
        if !shown || known == Some(record.pid) {
            return Ok(());
        }
        self.cpus[record.cpu as usize].pid = Some(record.pid);
        if known.is_none() {
            return Ok(());
        }
        let leaves = self.cpus[record.cpu as usize].current;
        let comes = self.pid(record.pid, &record.name)?;
        if let Some(number) = leaves {
            self.leaves(now, record.cpu, number, RecordState::Sleeping('S'), comes);
        }
        if let Some(number) = comes {
            self.comes(now, record.cpu, number);
        }
        self.brings(now, record.cpu, leaves, TaskState::Interruptible, comes);
        self.counts.switches_missing += u64::from(self.begin.is_some());
        Ok(())
    }

    /// A task is switched out for the task `comes`.
    fn leaves(&mut self, now: u64, cpu: u32, number: u32, state: RecordState, comes: Option<u32>) {
        let counting = self.begin.is_some();
        let (tick, period, exit, pass) = (self.costs.tick, self.period, self.costs.exit, self.costs.schedule);
        let preempted = self.cpus[cpu as usize].interrupted.is_some_and(|at| now - at <= self.costs.preemption());
        let trace = &mut self.traces[number as usize];
        if trace.state == State::Unseen {
            // It ran from the beginning on.
            trace.state = State::Running;
            trace.ran |= counting;
        }
        trace.charge(now, tick, period);
        (trace.state, trace.since) = (after(state), now);
        if trace.state == State::Runnable && comes != Some(number) {
            trace.log.switched(pass);
            if preempted {
                trace.log.spared(self.costs.interrupt);
            }
        }
        if trace.state == State::Dead {
            trace.log.owes(exit);
            trace.log.settle();
            self.by_pid.remove(&trace.pid);
            self.counts.exits += u64::from(counting);
        }
    }

    /// A task is switched in.
    fn comes(&mut self, now: u64, cpu: u32, number: u32) {
        let elsewhere = |(at, other): &(usize, &Cpu)| *at != cpu as usize && other.current == Some(number);
        if self.traces[number as usize].state == State::Running
            && let Some((other, _)) = self.cpus.iter().enumerate().find(elsewhere)
        {
            // It was not seen to leave there, nor to sleep.
            self.leaves(now, other as u32, number, RecordState::Running, None);
            self.brings(now, other as u32, Some(number), TaskState::Running, None);
            self.counts.switches_missing += u64::from(self.begin.is_some());
        }
        if self.traces[number as usize].state == State::Asleep {
            // Its wakeup was not recorded.
            self.wake(now, number, Cause::Unknown, false, [cpu; 2]);
        }
        let record = &mut self.cpus[cpu as usize];
        let trace = &mut self.traces[number as usize];
        let others = trace.ran_on.filter(|(place, _)| *place == cpu).map(|(_, at)| record.switches - at);
        trace.log.switched(self.costs.switch(others));
        if record.last != Some(number) || trace.ran_on.is_none_or(|(place, _)| place != cpu) {
            record.switches += 1;
            trace.ran_on = Some((cpu, record.switches));
            record.last = Some(number);
        }
        (trace.state, trace.since) = (State::Running, now);
        trace.ran |= self.begin.is_some();
    }

    /// A CPU has another task on it.
    fn brings(&mut self, now: u64, cpu: u32, leaves: Option<u32>, state: TaskState, comes: Option<u32>) {
        let record = &mut self.cpus[cpu as usize];
        (record.current, record.interrupted, record.pending) = (comes, None, Pending::default());
        if comes.is_none() {
            // An idle CPU stops its tick.
            record.ticked = None;
        }
        if leaves != comes {
            self.emit(now, cpu, switch(leaves, state, comes));
        }
    }
}

const fn after(state: RecordState) -> State {
    match state {
        RecordState::Running => State::Runnable,
        RecordState::Sleeping(_) => State::Asleep,
        RecordState::Dead(_) => State::Dead,
    }
}
