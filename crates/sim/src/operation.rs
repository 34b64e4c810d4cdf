//! Primitive operations in virtual time.
//!
//! An operation uses its CPU time first and takes effect at the end of it, all at once. Ticks, wake-ups and other tasks' time may come in
//! between (`PREEMPT_DYNAMIC` in its full mode: a task marked for rescheduling is switched out at once, in user and in kernel mode); what
//! was left of the operation's time is used when the task runs again. What its effect wakes is woken at that instant. The cost of the
//! wake-up is added to the time of the operation that follows or, where the woken task is to preempt the waker, comes before that, together
//! with the scheduler's own pass. An operation that wakes several wakes one, and the next one once that has cost its time.

use schedlab_model::{CpuId, EventKind, EventSink, TaskKind, TaskState};
use schedlab_program::Op;

use crate::SimError;
use crate::channel::Wake;
use crate::engine::{Engine, task_id};
use crate::event_queue::NEVER;
use crate::sync::WAKING;
use crate::task::Stage;
use crate::transfer::{plan_read, plan_write};
use crate::wait::NONE;

impl<S: EventSink> Engine<'_, S> {
    /// The CPU's current task goes on, and the tasks that follow it, until one needs time or none is left: `complete` says that the current
    /// task has used the time of its stage.
    pub(crate) fn operate(&mut self, cpu: u32, mut complete: bool) -> Result<(), SimError> {
        loop {
            if complete {
                self.count_operation()?;
                let record = &self.arena.cpus[cpu as usize];
                let left = record.leaving && record.resched_at == NEVER && !self.departs(record.current);
                if !left {
                    self.complete(cpu);
                }
                // What it woke may run in its place, as soon as it is out of the kernel.
                if self.must_switch(cpu) && (left || !self.arena.cpus[cpu as usize].leaving) {
                    if !left && self.leaves_the_kernel(cpu) {
                        break;
                    }
                    self.switch(cpu, TaskState::Running);
                }
                if left {
                    self.arena.cpus[cpu as usize].leaving = false;
                }
            }
            let task = self.arena.cpus[cpu as usize].current;
            if task == NONE {
                break;
            }
            self.begin(cpu, task);
            let record = &mut self.arena.tasks[task as usize];
            let cost = self.arena.cpus[cpu as usize].takes_up(self.now, record, &self.prices);
            if self.pace.is_some() {
                self.adopt_rate(cpu);
            }
            let record = &mut self.arena.cpus[cpu as usize];
            record.end = self.now;
            record.bill(cost);
            if record.end > self.now {
                self.adopt_stretch(cpu);
                break;
            }
            complete = true;
        }
        self.refresh(cpu);
        Ok(())
    }

    /// The current task begins its next operation, or goes on with one that is done in part, if it may: its cost is planned.
    #[inline(always)]
    pub(crate) fn begin(&mut self, cpu: u32, task: u32) {
        let late = self.late_look();
        let record = &mut self.arena.tasks[task as usize];
        if !matches!(record.stage, Stage::Fetch | Stage::Retry) {
            return;
        }
        if record.stage == Stage::Fetch {
            record.op = record.cursor.next(self.program);
            record.debt += if record.background { 0 } else { self.prices.operation };
        }
        record.stage = Stage::Act;
        if record.background {
            return self.plan_background(task);
        }
        let remaining = match record.op {
            Op::Run(time) => record.compute(time.as_nanos(), late, &self.prices),
            Op::Write { channel, bytes } => {
                let reference = self.file_reference(task);
                let (arena, prices) = (&mut self.arena, &self.prices);
                let (record, place) = (&mut arena.tasks[task as usize], &mut arena.channels[channel as usize]);
                let time = plan_write(record, place, &mut arena.slabs, bytes, reference, prices);
                time.saturating_add(place.enter(cpu, self.now, time, prices.system_call))
            }
            Op::Read { channel, bytes } => {
                let reference = self.file_reference(task);
                let (arena, prices) = (&mut self.arena, &self.prices);
                let (record, place) = (&mut arena.tasks[task as usize], &mut arena.channels[channel as usize]);
                let time = plan_read(record, place, &arena.slabs, bytes, reference, prices);
                time.saturating_add(place.enter(cpu, self.now, time, prices.system_call))
            }
            Op::Sleep(time) => self.plan_sleep(cpu, time.as_nanos()),
            Op::Yield => self.prices.system_call + self.prices.schedule,
            _ => return self.plan(task),
        };
        self.arena.tasks[task as usize].remaining = remaining;
    }

    /// A background task's next operation takes the time that it computes and no other.
    fn plan_background(&mut self, task: u32) {
        let (arena, prices) = (&mut self.arena, &self.prices);
        let record = &mut arena.tasks[task as usize];
        match record.op {
            Op::Run(time) => record.remaining = time.as_nanos(),
            Op::Write { channel, bytes } => {
                plan_write(record, &arena.channels[channel as usize], &mut arena.slabs, bytes, 0, prices);
                record.remaining = 0;
            }
            Op::Read { channel, bytes } => {
                plan_read(record, &arena.channels[channel as usize], &arena.slabs, bytes, 0, prices);
                record.remaining = 0;
            }
            Op::Busy(_)
            | Op::Memory { .. }
            | Op::CompleteWrite
            | Op::Dispatch
            | Op::DispatchFlush
            | Op::EndWriteback
            | Op::GracePeriod => self.plan(task),
            _ => {
                self.plan(task);
                self.arena.tasks[task as usize].remaining = 0;
            }
        }
    }

    /// What counting a reference to a file takes a task in each call on one: where it shares its files with other threads (`fdget`).
    #[inline(always)]
    fn file_reference(&self, task: u32) -> u64 {
        let price = self.prices.file_reference;
        let is_thread = || self.arena.identities[task as usize].kind == TaskKind::Thread;
        if price > 0 && (is_thread() || self.sched.nr_threads(task_id(task)) > 1) { price } else { 0 }
    }

    /// The CPU time that going to sleep for so long costs the CPU's task.
    #[inline(always)]
    pub(crate) fn plan_sleep(&mut self, cpu: u32, time: u64) -> u64 {
        let asked = self.now.saturating_add(self.prices.sleep).saturating_add(time);
        let due = asked.saturating_sub(self.prices.armed());
        self.prices.sleep + self.expires_first(cpu, due)
    }

    /// The CPU's current task has used the time of its stage.
    #[inline]
    fn complete(&mut self, cpu: u32) {
        let task = self.arena.cpus[cpu as usize].current;
        let record = &mut self.arena.tasks[task as usize];
        match record.stage {
            Stage::Act => self.effect(task, cpu),
            Stage::Block => {
                let record = &mut self.arena.tasks[task as usize];
                (record.stage, record.slept) = (Stage::Retry, true);
                if self.wait(task) {
                    self.go_to_sleep(task, cpu, TaskState::Interruptible);
                }
            }
            Stage::Depart => self.depart(task, cpu),
            Stage::Report => self.report(task, cpu),
            Stage::Notify => self.notify(task, cpu),
            Stage::Die => self.switch(cpu, TaskState::Dead),
            Stage::Fetch | Stage::Retry => {}
        }
    }

    /// Looks at what one of the rarer operations can do now: its stage, and the time that takes.
    fn plan(&mut self, task: u32) {
        let reference = self.file_reference(task);
        let prices = &self.prices;
        let record = &self.arena.tasks[task as usize];
        let (stage, time) = match record.op {
            // Latches are as hackbench's: a byte written to a pipe that no task reads and all poll.
            Op::OpenLatch(_) if record.moved == WAKING => (Stage::Act, 0),
            Op::OpenLatch(_) => (Stage::Act, prices.write(true) + reference),
            Op::AwaitLatch(latch) if self.arena.latches[latch as usize].open => {
                (Stage::Act, prices.system_call + reference)
            }
            Op::AwaitLatch(_) => (Stage::Block, prices.block),
            Op::Fork { template, .. } => (Stage::Act, prices.fork(self.program.template(template).kind)),
            Op::Busy(time) => {
                let until = self.now.saturating_add(time.as_nanos());
                self.arena.objects.luggage(task).until = until;
                (Stage::Act, time.as_nanos())
            }
            Op::Start(_) | Op::Stop(_) => (Stage::Act, prices.clock),
            Op::Delay(time) => (Stage::Act, self.priced_until(task, time.as_nanos())),
            Op::Timer { timer, period } => {
                let due = self.due(task, timer, period.as_nanos());
                (Stage::Act, self.priced_until(task, due).saturating_add(self.prices.clock))
            }
            Op::Memory { buffer, count } => {
                (Stage::Act, prices.memory(self.program.memories()[buffer as usize].access, count))
            }
            Op::Device { chunk, bytes } => {
                let calls = bytes.div_ceil(u64::from(chunk));
                let copied = if self.program.io_device() == "/dev/null" { 0 } else { prices.copy(1 << 20) };
                let copied = (u128::from(copied) * u128::from(bytes)) >> 20;
                let calls = (prices.system_call + reference).saturating_mul(calls);
                (Stage::Act, calls.saturating_add(u64::try_from(copied).unwrap_or(u64::MAX)))
            }
            Op::File(access) => (Stage::Act, self.plan_file(task, access).saturating_add(reference)),
            Op::CompleteWrite => (Stage::Act, self.plan_completion(task)),
            Op::Dispatch => (Stage::Act, self.plan_dispatch(task)),
            Op::EndWriteback => (Stage::Act, self.plan_writeback(task)),
            Op::GracePeriod => (Stage::Act, self.plan_grace_period(task)),
            Op::DispatchFlush => (Stage::Act, self.plan_flush(task)),
            Op::Request(_) | Op::Accept { .. } | Op::Reply(_) => self.plan_port(task),
            Op::Set(change) => (Stage::Act, if self.would_change(task, change) { prices.system_call } else { 0 }),
            Op::Lock(_)
            | Op::Unlock(_)
            | Op::Wait { .. }
            | Op::Signal(_)
            | Op::Broadcast(_)
            | Op::Barrier(_)
            | Op::Post(_)
            | Op::PostAll(_)
            | Op::Acquire(_) => self.plan_sync(task),
            Op::Join => match self.arena.identities[task as usize].first_child {
                NONE => (Stage::Act, 0),
                child if self.arena.tasks[child as usize].zombie => (Stage::Act, prices.reap),
                _ => (Stage::Block, 0),
            },
            Op::Exit => self.plan_exit(task),
            _ => (Stage::Act, 0),
        };
        let record = &mut self.arena.tasks[task as usize];
        (record.stage, record.remaining) = (stage, time);
    }

    /// What the operation does once its time is used.
    #[inline]
    fn effect(&mut self, task: u32, cpu: u32) {
        let record = &mut self.arena.tasks[task as usize];
        match record.op {
            Op::Run(time) => {
                record.done();
                self.arena.tasks[task as usize].account.user += time.as_nanos();
            }
            Op::Write { channel, bytes } => self.write(task, cpu, channel, bytes),
            Op::Read { channel, bytes } => self.read(task, cpu, channel, bytes),
            Op::Sleep(time) => {
                record.done();
                let armed = if record.background { 0 } else { self.takes(cpu, self.prices.armed()) };
                self.set_timer(task, time.as_nanos().saturating_sub(armed));
                self.switch(cpu, TaskState::Interruptible);
            }
            Op::Yield => {
                record.done();
                self.touch(cpu);
                self.sched.sched_yield(CpuId(cpu));
                self.switch(cpu, TaskState::Running);
            }
            Op::AwaitLatch(_) => record.done(),
            Op::Busy(time) => {
                record.done();
                // Some of it may have passed off the CPU.
                let most = self.worked(task as usize).saturating_sub(self.arena.tasks[task as usize].account.user);
                self.arena.tasks[task as usize].account.user += time.as_nanos().min(most);
            }
            Op::Delay(time) => {
                record.done();
                if let Some(left @ 1..) = time.as_nanos().checked_sub(self.now) {
                    self.set_timer(task, left);
                    self.switch(cpu, TaskState::Interruptible);
                }
            }
            Op::Timer { timer, period } => self.use_timer(task, cpu, timer, period.as_nanos()),
            Op::Memory { buffer, count } => {
                record.done();
                let access = self.program.memories()[buffer as usize].access;
                self.arena.tasks[task as usize].account.user += self.prices.memory(access, count);
            }
            Op::Device { .. } => record.done(),
            Op::File(access) => self.access_file(task, cpu, access),
            Op::AwaitFiles => self.await_files(task, cpu),
            Op::CompleteWrite => self.complete_write(task, cpu),
            Op::Dispatch => self.dispatch(task, cpu),
            Op::EndWriteback => self.end_writeback(task, cpu),
            Op::GracePeriod => self.run_grace_period(task, cpu),
            Op::DispatchFlush => self.dispatch_flush(task, cpu),
            Op::Request(_) | Op::Accept { .. } | Op::Reply(_) => self.port(task, cpu),
            Op::Set(change) => self.set(task, cpu, change),
            Op::Start(watch) => {
                record.done();
                *self.arena.objects.watch(task, watch) = self.now;
            }
            Op::Stop(watch) => {
                record.done();
                let started = *self.arena.objects.watch(task, watch);
                self.arena.objects.watches[watch as usize].add(self.now - started);
            }
            Op::Lock(_)
            | Op::Unlock(_)
            | Op::Wait { .. }
            | Op::Signal(_)
            | Op::Broadcast(_)
            | Op::Barrier(_)
            | Op::Post(_)
            | Op::PostAll(_)
            | Op::Acquire(_) => self.sync(task, cpu),
            Op::Mark(mark) => {
                record.done();
                self.mark(task, cpu, mark);
            }
            Op::OpenLatch(latch) => {
                let place = &mut self.arena.latches[latch as usize];
                place.open = true;
                let waiter = place.waiters.pop(&self.arena.links);
                if place.waiters.is_empty() {
                    record.done();
                } else {
                    (record.moved, record.stage) = (WAKING, Stage::Retry);
                }
                if let Some(waiter) = waiter {
                    self.wake_for(task, cpu, waiter, true);
                }
            }
            Op::Fork { template, instance } => {
                record.done();
                self.fork(task, cpu, template, instance);
            }
            Op::Join => self.collect(task, cpu),
            Op::Exit => self.exit(task, cpu),
        }
    }

    #[inline(always)]
    pub(crate) fn write(&mut self, task: u32, cpu: u32, channel: u32, bytes: u32) {
        let record = &mut self.arena.tasks[task as usize];
        let first = !record.slept && record.moved == 0;
        let place = &mut self.arena.channels[channel as usize];
        let before = place.weight();
        let transfer = place.write(record.planned, first, self.prices.mark(cpu));
        self.arena.slabs.change(before, place.weight());
        record.moved += transfer.bytes;
        record.stage = Stage::Retry;
        let mut chain = false;
        if record.moved == bytes {
            chain = record.slept && place.next_writer();
            record.done();
        }
        if transfer.wake != Wake::None {
            self.wake_readers(task, cpu, channel, transfer.wake);
        }
        if chain {
            self.wake_writers(task, cpu, channel, Wake::One);
        }
    }

    #[inline(always)]
    pub(crate) fn read(&mut self, task: u32, cpu: u32, channel: u32, bytes: u32) {
        let record = &mut self.arena.tasks[task as usize];
        let place = &mut self.arena.channels[channel as usize];
        let before = place.weight();
        let transfer = place.read(record.planned, self.prices.mark(cpu));
        self.arena.slabs.change(before, place.weight());
        record.stage = Stage::Retry;
        if transfer.bytes == 0 {
            // Another task was faster.
            return;
        }
        record.moved += transfer.bytes;
        let chain = std::mem::take(&mut record.slept) && place.next_reader();
        if record.moved == bytes {
            record.done();
            let counts = u64::from(!record.background);
            self.messages += counts;
            self.bytes += counts * u64::from(bytes);
        }
        if transfer.wake != Wake::None {
            self.wake_writers(task, cpu, channel, transfer.wake);
        }
        if chain {
            self.wake_readers(task, cpu, channel, Wake::One);
        }
    }

    #[inline]
    fn wake_readers(&mut self, task: u32, cpu: u32, channel: u32, wake: Wake) {
        while let Some(reader) = self.arena.channels[channel as usize].readers.pop(&self.arena.links) {
            self.wake_for(task, cpu, reader, true);
            if wake == Wake::One {
                return;
            }
        }
    }

    #[inline]
    fn wake_writers(&mut self, task: u32, cpu: u32, channel: u32, wake: Wake) {
        while let Some(writer) = self.arena.channels[channel as usize].writers.pop(&self.arena.links) {
            self.wake_for(task, cpu, writer, true);
            if wake == Wake::One {
                return;
            }
        }
    }

    /// Wakes on the task's account.
    pub(crate) fn wake_for(&mut self, task: u32, cpu: u32, woken: u32, sync: bool) {
        let cost = self.wake(woken, cpu, task, sync);
        self.arena.tasks[task as usize].debt += cost;
    }

    /// The task is about to sleep because its operation could not be done: unless it can by now, the task joins the waiters.
    fn wait(&mut self, task: u32) -> bool {
        let record = &self.arena.tasks[task as usize];
        let left = |bytes: u32| bytes - record.moved;
        match record.op {
            Op::Write { channel, bytes } => {
                let place = &mut self.arena.channels[channel as usize];
                if place.writable(left(bytes), false) > 0 {
                    return false;
                }
                if place.is_pipe() {
                    place.writers.push_back(task, &mut self.arena.links);
                } else {
                    place.writers.push_front(task, &mut self.arena.links);
                }
            }
            Op::Read { channel, .. } => {
                let place = &mut self.arena.channels[channel as usize];
                if place.readable() > 0 {
                    return false;
                }
                if place.is_pipe() {
                    place.readers.push_back(task, &mut self.arena.links);
                } else {
                    place.readers.push_front(task, &mut self.arena.links);
                }
            }
            Op::AwaitLatch(latch) => {
                let latch = &mut self.arena.latches[latch as usize];
                if latch.open {
                    return false;
                }
                // poll(2) does not wait exclusively: who came last is woken first.
                latch.waiters.push_front(task, &mut self.arena.links);
            }
            // The child looks for its parent.
            Op::Join => {
                let child = self.arena.identities[task as usize].first_child;
                return !self.arena.tasks[child as usize].zombie;
            }
            Op::Accept { port, .. } => return self.wait_port(task, port),
            Op::Request(_) => return self.wait_reply(task),
            _ => return self.wait_sync(task),
        }
        true
    }

    /// `wait(2)` or `pthread_join(3)` of the first child, which has ended.
    fn collect(&mut self, task: u32, cpu: u32) {
        let child = self.arena.identities[task as usize].first_child;
        if child == NONE {
            self.arena.tasks[task as usize].done();
            return;
        }
        if self.arena.identities[child as usize].kind == TaskKind::Process {
            self.release_task(TaskKind::Process, cpu);
        }
        let next = self.arena.identities[child as usize].next_sibling;
        let identity = &mut self.arena.identities[task as usize];
        identity.first_child = next;
        if next == NONE {
            identity.last_child = NONE;
        }
        self.arena.tasks[task as usize].stage = Stage::Retry;
    }

    fn mark(&mut self, task: u32, cpu: u32, mark: u32) {
        if self.program.turnaround_mark() == Some(mark) && self.started.is_none() {
            self.started = Some(self.now);
            self.starter = task;
        }
        self.emit(cpu, EventKind::Mark { task: task_id(task), mark });
    }
}
