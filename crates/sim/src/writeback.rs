//! Synchronous first writes of blocks whose writeback a kernel thread ends.
//!
//! Where ext4 keeps a block unwritten until the disk has its data (`dioread_nolock`), the disk's interrupt queues the page for a worker
//! (`ext4_end_bio`, `ext4_add_complete_io`). That makes the block a written one (`ext4_convert_unwritten_io_end_vec`), so that the inode changes, and
//! only then the page's writeback is over and the tasks that wait for it are woken (`ext4_finish_bio`). There is one such worker, as the workqueue
//! runs one work at a time (`ext4-rsv-conversion`); it is bound to no CPU and does not sleep for the disk.

use std::collections::VecDeque;

use schedlab_model::{EventSink, TaskState};
use schedlab_program::FileOp;

use crate::dispatch::Access;
use crate::engine::Engine;
use crate::task::Stage;
use crate::wait::NONE;

/// A page under writeback: its file and number.
type Page = (u32, u64);

/// First writes whose writeback has not ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writebacks {
    /// The thread that ends them, and for which the disk's timers are set; without it the disk's interrupt does.
    worker: Option<u32>,
    /// The worker idles, and was not woken.
    idles: bool,
    /// Pages that the disk writes, with when it has done each, in that order.
    on_disk: VecDeque<(u64, Page)>,
    /// Pages that it has written (`i_rsv_conversion_list`).
    done: VecDeque<Page>,
    /// The page whose writeback the worker ends.
    taken: Option<Page>,
}

impl Writebacks {
    /// The worker is there from the start, and idles.
    pub(crate) fn begin(&mut self, worker: u32) {
        (self.worker, self.idles) = (Some(worker), true);
    }

    /// Whether a kernel thread ends them.
    pub(crate) const fn have_worker(&self) -> bool {
        self.worker.is_some()
    }

    /// Whether the tasks that sleep may wait for one.
    pub(crate) fn are_under_way(&self) -> bool {
        self.taken.is_some() || !self.on_disk.is_empty() || !self.done.is_empty()
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// A task has asked the disk for a page whose writeback the worker ends, and sleeps until then.
    pub(crate) fn begin_writeback(&mut self, task: u32, cpu: u32, op: FileOp, page: u64) {
        self.ask_for(task, cpu, Access::Page(op.file, page), op.bytes);
        self.await_page(task, cpu, op.file, page);
    }

    /// The disk writes such a page, until `done`.
    pub(crate) fn page_is_on_disk(&mut self, file: u32, page: u64, done: u64) {
        let now = self.now;
        let writebacks = &mut self.arena.objects.writebacks;
        writebacks.on_disk.push_back((done, (file, page)));
        self.arena.timers.push(now, done.saturating_sub(now), writebacks.worker.unwrap_or(NONE));
    }

    /// A timer expires: if it is the disk's, which has written a page by now, that is queued for the worker. Returns what the interrupt costs
    /// the current task.
    pub(crate) fn page_is_written(&mut self, timer: u32, cpu: u32) -> Option<u64> {
        let now = self.now;
        let writebacks = &mut self.arena.objects.writebacks;
        let worker = writebacks.worker.filter(|worker| *worker == timer)?;
        writebacks.on_disk.front().filter(|(done, _)| *done <= now)?;
        let (_, page) = writebacks.on_disk.pop_front()?;
        writebacks.done.push_back(page);
        let cost = if std::mem::take(&mut writebacks.idles) { self.wake(worker, cpu, NONE, false) } else { 0 };
        Some(cost + self.disk_interrupt_alone(cpu))
    }

    /// The CPU time that the worker takes for the next page.
    pub(crate) fn plan_writeback(&mut self, worker: u32) -> u64 {
        self.arena.tasks[worker as usize].slept = false;
        let writebacks = &mut self.arena.objects.writebacks;
        writebacks.taken = writebacks.done.pop_front();
        if writebacks.taken.is_some() { self.prices.first_writeback } else { 0 }
    }

    /// The worker ends a page's writeback, and wakes all tasks that wait for that; without a page it idles.
    pub(crate) fn end_writeback(&mut self, worker: u32, cpu: u32) {
        let writebacks = &mut self.arena.objects.writebacks;
        let record = &mut self.arena.tasks[worker as usize];
        record.stage = Stage::Retry;
        let Some((file, page)) = writebacks.taken.take() else {
            if writebacks.done.is_empty() {
                (writebacks.idles, record.slept) = (true, true);
                self.switch(cpu, TaskState::Interruptible);
            }
            return;
        };
        self.arena.objects.inodes[file as usize].change_extents();
        let mut waiters = self.unsend(file, page);
        while let Some(waiter) = waiters.pop(&self.arena.links) {
            self.wake_for(worker, cpu, waiter, false);
        }
    }
}
