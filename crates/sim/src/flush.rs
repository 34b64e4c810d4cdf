//! Flushes of the disk's write cache, with which synchronous writes end (`blkdev_issue_flush` in `ext4_sync_file`).
//!
//! The block layer has one flush under way at a time and one pending (`block/blk-flush.c`): tasks that ask while one is under way share the next
//! one. A flush is not handed to the disk by the task that asks but by a worker of that CPU (`blk_mq_kick_requeue_list`,
//! `blk_mq_requeue_work`), and the pending one by a worker of the CPU that takes the disk's interrupt (`flush_end_io`).

use schedlab_model::{EventSink, TaskState};

use crate::engine::Engine;
use crate::task::Stage;
use crate::wait::{NONE, WaitQueue};

/// Flushes that tasks wait for (`struct blk_flush_queue`).
#[derive(Debug, Clone)]
pub(crate) struct Flushes {
    /// The worker of each CPU that hands flushes to the disk, [`NONE`] where the task does so itself.
    workers: Vec<u32>,
    /// Tasks that wait for the next flush, and for the one under way (`flush_queue`).
    pending: WaitQueue,
    running: WaitQueue,
    /// A flush is under way (`flush_pending_idx` differs from `flush_running_idx`).
    under_way: bool,
    /// The worker that is to hand it to the disk.
    kicked: u32,
    /// When the disk has done it, and the task whose timer that is.
    on_disk: Option<(u64, u32)>,
}

impl Default for Flushes {
    fn default() -> Self {
        let (pending, running) = (WaitQueue::EMPTY, WaitQueue::EMPTY);
        Self { workers: Vec::new(), pending, running, under_way: false, kicked: NONE, on_disk: None }
    }
}

impl Flushes {
    /// The worker of a CPU is there from the start, and idles.
    pub(crate) fn begin(&mut self, worker: u32, cpu: u32) {
        if self.workers.len() <= cpu as usize {
            self.workers.resize(cpu as usize + 1, NONE);
        }
        self.workers[cpu as usize] = worker;
    }

    /// Whether the tasks that sleep may wait for one.
    pub(crate) const fn are_under_way(&self) -> bool {
        self.under_way
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// The task asks for a flush, and sleeps until that is done (`submit_bio_wait`).
    pub(crate) fn ask_flush(&mut self, task: u32, cpu: u32) {
        self.arena.objects.flushes.pending.push_back(task, &mut self.arena.links);
        let cost = self.kick_flush(cpu, task);
        self.arena.tasks[task as usize].debt += cost;
        self.worker_sleeps(task, cpu);
        self.switch(cpu, TaskState::Uninterruptible);
    }

    /// `blk_kick_flush`: the pending flush becomes the one under way if there is none, and the CPU's worker is woken for it. Returns what that
    /// costs.
    fn kick_flush(&mut self, cpu: u32, waker: u32) -> u64 {
        let flushes = &mut self.arena.objects.flushes;
        if flushes.under_way || flushes.pending.is_empty() {
            return 0;
        }
        flushes.under_way = true;
        flushes.running = std::mem::replace(&mut flushes.pending, WaitQueue::EMPTY);
        flushes.kicked = flushes.workers.get(cpu as usize).copied().unwrap_or(NONE);
        let worker = flushes.kicked;
        if worker == NONE {
            self.hand_flush(if waker == NONE { self.arena.objects.flushes.running.first() } else { waker });
            return 0;
        }
        // It may be about to idle.
        if self.arena.tasks[worker as usize].slept { self.wake(worker, cpu, waker, false) } else { 0 }
    }

    /// The disk has the flush; the timer is `task`'s.
    fn hand_flush(&mut self, task: u32) {
        let now = self.now;
        let done = self.arena.objects.access_disk(now, self.prices.flush_on_disk());
        let flushes = &mut self.arena.objects.flushes;
        (flushes.kicked, flushes.on_disk) = (NONE, Some((done, task)));
        self.arena.timers.push(now, done.saturating_sub(now), task);
    }

    /// A timer expires: if it is the disk's, which has done the flush by now, all tasks that wait for that are woken, and the pending flush
    /// begins. Returns what the interrupt costs the current task.
    pub(crate) fn flush_is_done(&mut self, timer: u32, cpu: u32) -> Option<u64> {
        let now = self.now;
        let flushes = &mut self.arena.objects.flushes;
        flushes.on_disk.filter(|(done, task)| *task == timer && *done <= now)?;
        (flushes.on_disk, flushes.under_way) = (None, false);
        let mut waiters = std::mem::replace(&mut flushes.running, WaitQueue::EMPTY);
        let first = waiters.pop(&self.arena.links).unwrap_or(NONE);
        let mut cost = self.wake(first, cpu, NONE, false);
        cost += self.kick_flush(cpu, NONE);
        while let Some(waiter) = waiters.pop(&self.arena.links) {
            cost += self.wake_too(waiter, cpu);
        }
        Some(cost + self.disk_interrupt_alone(cpu))
    }

    /// The CPU time that the worker takes for what comes next.
    pub(crate) fn plan_flush(&mut self, worker: u32) -> u64 {
        self.arena.tasks[worker as usize].slept = false;
        let kicked = self.arena.objects.flushes.kicked == worker;
        self.arena.tasks[worker as usize].planned = u32::from(kicked);
        if kicked { self.prices.flush_dispatch } else { 0 }
    }

    /// The worker hands the flush to the disk; without one it idles.
    pub(crate) fn dispatch_flush(&mut self, worker: u32, cpu: u32) {
        let kicked = self.arena.objects.flushes.kicked == worker;
        let record = &mut self.arena.tasks[worker as usize];
        record.stage = Stage::Retry;
        if kicked && record.planned == 1 {
            record.planned = 0;
            self.hand_flush(worker);
        } else if !kicked {
            record.slept = true;
            self.switch(cpu, TaskState::Interruptible);
        }
    }
}
