//! Accesses of the disk that a kernel thread hands over.
//!
//! Where a driver may sleep as it takes a request (`BLK_MQ_F_BLOCKING`) 5.10 has a worker of the CPU's hand it over (`kblockd`, `blk_mq_run_work_fn`),
//! one of the least nice value there is, which preempts the task that asked as that comes to a point where it can. Such a driver moves the bytes in
//! that thread (`copy_to_nullb` in `null_queue_rq`). Without such a thread the task hands its access over itself.

use std::collections::VecDeque;

use schedlab_model::{EventSink, TaskState};

use crate::completions::{OnDisk, Write};
use crate::engine::Engine;
use crate::task::Stage;

/// What asks for an access of the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    /// A task that sleeps until it is done.
    Task(u32),
    /// A write that a task began.
    Write(Write),
    /// Leaves of a file's extent tree, in so many blocks from one on.
    Leaves { file: u32, block: u32, count: u32 },
    /// A page of a file, whose writeback a kernel thread ends.
    Page(u32, u64),
}

/// The thread of a CPU, and the accesses of so many bytes that it has not handed over (`hctx->dispatch`).
#[derive(Debug, Clone, Default)]
pub(crate) struct Dispatcher {
    thread: Option<u32>,
    /// It idles, and was not woken.
    idles: bool,
    queued: VecDeque<(Access, u32)>,
}

impl<S: EventSink> Engine<'_, S> {
    /// The thread is there from the start, and idles.
    pub(crate) fn begin_dispatcher(&mut self, thread: u32, cpu: u32) {
        let record = &mut self.arena.tasks[thread as usize];
        (record.stage, record.slept) = (Stage::Retry, true);
        let all = &mut self.arena.objects.dispatchers;
        if all.len() <= cpu as usize {
            all.resize(cpu as usize + 1, Dispatcher::default());
        }
        (all[cpu as usize].thread, all[cpu as usize].idles) = (Some(thread), true);
    }

    /// Whether the tasks that sleep may wait for an access that was not handed over.
    pub(crate) fn accesses_are_queued(&self) -> bool {
        self.arena.objects.dispatchers.iter().any(|dispatcher| !dispatcher.queued.is_empty())
    }

    /// The current task asks for an access of the disk: it wakes the thread that hands it over, or does so itself.
    pub(crate) fn ask_for(&mut self, task: u32, cpu: u32, access: Access, bytes: u32) {
        let dispatcher = self.arena.objects.dispatchers.get_mut(cpu as usize);
        let Some((dispatcher, thread)) = dispatcher.and_then(|of| of.thread.map(|thread| (of, thread))) else {
            return self.hand_over(cpu, access, self.prices.disk(bytes));
        };
        dispatcher.queued.push_back((access, bytes));
        if std::mem::take(&mut dispatcher.idles) {
            self.wake_for(task, cpu, thread, false);
        }
    }

    /// The disk takes an access, and interrupts once it has done it.
    fn hand_over(&mut self, cpu: u32, access: Access, disk: (u64, u64)) {
        let now = self.now;
        let done = self.arena.objects.access_disk(now, disk);
        match access {
            Access::Task(task) => self.set_timer(task, done - now),
            Access::Write(write) => self.is_on_disk(cpu, OnDisk::Write(write), done),
            Access::Leaves { file, block, count } => {
                self.is_on_disk(cpu, OnDisk::Leaves(file, block..block + count), done);
            }
            Access::Page(file, page) => self.page_is_on_disk(file, page, done),
        }
    }

    /// The CPU time that the thread takes for the next access.
    pub(crate) fn plan_dispatch(&mut self, thread: u32) -> u64 {
        let record = &mut self.arena.tasks[thread as usize];
        let first = std::mem::take(&mut record.slept);
        let dispatcher = &self.arena.objects.dispatchers[record.cpu as usize];
        dispatcher.queued.front().map_or(0, |(_, bytes)| self.prices.dispatch(*bytes, first))
    }

    /// The thread hands an access over; without one it idles.
    pub(crate) fn dispatch(&mut self, thread: u32, cpu: u32) {
        let record = &mut self.arena.tasks[thread as usize];
        record.stage = Stage::Retry;
        let dispatcher = &mut self.arena.objects.dispatchers[cpu as usize];
        match dispatcher.queued.pop_front() {
            Some((access, _)) => self.hand_over(cpu, access, self.prices.disk_behind_dispatch()),
            None => {
                (dispatcher.idles, record.slept) = (true, true);
                self.switch(cpu, TaskState::Interruptible);
            }
        }
    }
}
