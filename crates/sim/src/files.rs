//! Files: through the page cache at the price of copying, past it at the disk's.
//!
//! The disk is one: accesses take turns for the time that their bytes need, and overlap in its latency. Everything that was not
//! opened to bypass it is in the page cache, as it is after the file was made. Synchronous writes wait for one another, `inode.rs`.

use schedlab_model::{EventSink, Opening, TaskState};
use schedlab_program::{FileOp, FileVerb, Op, Places};

use crate::dispatch::Access;
use crate::engine::Engine;
use crate::inode::{FLUSH, FLUSHED};
use crate::task::Stage;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Where a task is in its access: waiting for the disk. Synchronous writes have places of their own, `inode.rs`.
pub(crate) const ASKED: u32 = 1;

impl<S: EventSink> Engine<'_, S> {
    /// The CPU time that an access of a file takes before it has its effect.
    pub(crate) fn plan_file(&mut self, task: u32, access: u32) -> u64 {
        let op = self.program.file_accesses()[access as usize];
        let opening = self.program.files()[op.file as usize].1.open;
        if self.arena.tasks[task as usize].moved == 0 {
            self.arena.objects.luggage(task).page = self.place(task, op) / PAGE;
        }
        if is_synchronous(op.verb, opening) {
            return self.plan_synchronous(task, op);
        }
        if self.submits(task, op).is_some() {
            return self.plan_submission(task, op);
        }
        match self.arena.tasks[task as usize].moved {
            ASKED | FLUSHED => return 0,
            FLUSH => return self.prices.flush,
            _ => {}
        }
        let further = match (op.verb, opening) {
            (FileVerb::Write | FileVerb::Read, Opening::Cached | Opening::Sync) => self.prices.copy(op.bytes),
            (FileVerb::SubmitWrite(_), _) if self.is_first_write(task, op) => {
                self.prices.begun_write.saturating_add(self.prices.first_write)
            }
            (FileVerb::SubmitWrite(_), _) => self.prices.begun_write,
            _ => self.prices.disk_access,
        };
        self.prices.system_call.saturating_add(further)
    }

    /// The access takes place, and the task sleeps where it has to wait for the disk.
    pub(crate) fn access_file(&mut self, task: u32, cpu: u32, access: u32) {
        let op = self.program.file_accesses()[access as usize];
        let opening = self.program.files()[op.file as usize].1.open;
        if is_synchronous(op.verb, opening) {
            return self.write_synchronously(task, cpu, op);
        }
        if let Some(depth) = self.submits(task, op) {
            return self.submit_write(task, cpu, op, depth);
        }
        let disk = self.prices.disk(op.bytes);
        let now = self.now;
        let record = &mut self.arena.tasks[task as usize];
        match record.moved {
            ASKED if op.verb == FileVerb::Write && self.prices.flushes() => {
                (record.moved, record.stage) = (FLUSH, Stage::Retry);
                return;
            }
            FLUSH => {
                (record.moved, record.stage) = (FLUSHED, Stage::Retry);
                return self.ask_flush(task, cpu);
            }
            ASKED | FLUSHED => {
                record.done();
                return;
            }
            _ => {}
        }
        let record = &mut self.arena.tasks[task as usize];
        match (op.verb, opening) {
            (FileVerb::Write | FileVerb::Read, Opening::Direct) if !self.arena.objects.dispatchers.is_empty() => {
                let record = &mut self.arena.tasks[task as usize];
                (record.moved, record.stage) = (ASKED, Stage::Retry);
                self.ask_for(task, cpu, Access::Task(task), op.bytes);
                self.switch(cpu, TaskState::Uninterruptible);
            }
            (FileVerb::Write | FileVerb::Read, Opening::Direct) => {
                let done = self.arena.objects.access_disk(now, disk);
                self.sleep_until(task, cpu, done);
            }
            (FileVerb::Write | FileVerb::Read, _) => record.done(),
            (FileVerb::SubmitWrite(depth) | FileVerb::SubmitRead(depth), _) => {
                let done = self.arena.objects.access_disk(now, disk);
                let under_way = &mut self.arena.objects.luggage(task).under_way;
                while under_way.front().is_some_and(|done| *done <= now) {
                    under_way.pop_front();
                }
                // The disk takes them in turn, so the last one asked for is done last.
                under_way.push_back(done);
                let wait = if under_way.len() >= depth as usize { under_way.pop_front() } else { None };
                match wait {
                    Some(done) => self.sleep_until(task, cpu, done),
                    None => record.done(),
                }
            }
        }
    }

    /// Where in the file the task's access begins.
    fn place(&mut self, task: u32, op: FileOp) -> u64 {
        let size = self.program.files()[op.file as usize].1.size;
        let key = self.arena.tasks[task as usize].cursor.key();
        self.arena.objects.luggage(task).places.get_or_insert_with(|| Places::new(key)).next(op, size)
    }

    /// The pages that an access touches, which begins with the task's present one.
    pub(crate) fn pages(&mut self, task: u32, op: FileOp) -> std::ops::Range<u64> {
        let first = self.arena.objects.luggage(task).page;
        first..first + u64::from(op.bytes).div_ceil(PAGE)
    }

    /// Whether the write is the first one of a block, past the page cache or synchronously, where that makes a difference: of a file that is
    /// read none is, as it was filled before.
    pub(crate) fn is_first_write(&mut self, task: u32, op: FileOp) -> bool {
        let reads =
            |other: &FileOp| other.file == op.file && matches!(other.verb, FileVerb::Read | FileVerb::SubmitRead(_));
        let differs = match op.verb {
            FileVerb::Write => self.prices.first_sync_write | self.prices.first_writeback,
            _ => self.prices.first_write | self.prices.first_completion,
        };
        if differs == 0 || self.program.file_accesses().iter().any(reads) {
            return false;
        }
        let mut pages = self.pages(task, op);
        let inode = &self.arena.objects.inodes[op.file as usize];
        pages.any(|page| !inode.is_initialised(page))
    }

    /// Waits for all that the task began.
    pub(crate) fn await_files(&mut self, task: u32, cpu: u32) {
        if self.arena.objects.luggage(task).writes > 0 {
            return self.await_writes(task, cpu, 0);
        }
        let under_way = &mut self.arena.objects.luggage(task).under_way;
        let last = under_way.back().copied();
        under_way.clear();
        match last {
            Some(done) if self.arena.tasks[task as usize].moved == 0 => self.sleep_until(task, cpu, done),
            _ => self.arena.tasks[task as usize].done(),
        }
    }

    /// Sleeps for the disk; when it is woken nothing is left of the operation.
    fn sleep_until(&mut self, task: u32, cpu: u32, done: u64) {
        let record = &mut self.arena.tasks[task as usize];
        if done <= self.now {
            record.done();
            return;
        }
        debug_assert!(matches!(record.op, Op::File(_) | Op::AwaitFiles), "only files are waited for so");
        (record.moved, record.stage) = (ASKED, Stage::Retry);
        self.set_timer(task, done - self.now);
        self.switch(cpu, TaskState::Uninterruptible);
    }
}

/// Whether it is a write that waits for other tasks' writes of the same file.
pub(crate) const fn is_synchronous(verb: FileVerb, opening: Opening) -> bool {
    matches!((verb, opening), (FileVerb::Write, Opening::Sync))
}
