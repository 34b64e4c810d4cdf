//! Files: through the page cache at the price of copying, past it at the disk's.
//!
//! Synchronous writes to one file take turns, as those of one inode do (`inode_lock`): whoever has written hands on to the one that came first
//! (`rwsem_wake`), and the others sleep on.
//!
//! The disk is one: accesses take turns for the time that their bytes need, and overlap in its latency. Everything that was not
//! opened to bypass it is in the page cache, as it is after the file was made.

use schedlab_model::{EventSink, Opening, TaskState};
use schedlab_program::{FileVerb, Op};

use crate::engine::Engine;
use crate::task::{Stage, State};
use crate::wait::NONE;

/// Where a task is in its access: waiting for its turn, having it, or waiting for the disk.
const QUEUED: u32 = 1;
const NEXT: u32 = 2;
const ASKED: u32 = 3;

impl<S: EventSink> Engine<'_, S> {
    /// The CPU time that an access of a file takes before it has its effect.
    pub(crate) fn plan_file(&mut self, task: u32, access: u32) -> u64 {
        let moved = self.arena.tasks[task as usize].moved;
        if moved == ASKED {
            return 0;
        }
        let op = self.program.file_accesses()[access as usize];
        let opening = self.program.files()[op.file as usize].1.open;
        let (asks, copies) = match (op.verb, opening) {
            (FileVerb::Write, Opening::Sync) => (true, true),
            (FileVerb::Write | FileVerb::Read, Opening::Cached | Opening::Sync) => (false, true),
            _ => (true, false),
        };
        let copied = if copies { self.prices.copy(op.bytes) } else { 0 };
        let entry = if moved == 0 { self.prices.system_call.saturating_add(copied) } else { 0 };
        let waits = is_synchronous(op.verb, opening) && !self.has_its_turn(task, op.file);
        let further = match (waits, asks) {
            (true, _) => self.prices.block,
            (_, true) => self.prices.disk_access,
            _ => 0,
        };
        entry.saturating_add(further)
    }

    /// The access takes place, and the task sleeps where it has to wait for the disk.
    pub(crate) fn access_file(&mut self, task: u32, cpu: u32, access: u32) {
        let op = self.program.file_accesses()[access as usize];
        let opening = self.program.files()[op.file as usize].1.open;
        let disk = self.prices.disk(op.bytes);
        let now = self.now;
        let record = &mut self.arena.tasks[task as usize];
        match record.moved {
            ASKED => {
                record.done();
                if is_synchronous(op.verb, opening) {
                    self.written(task, cpu, op.file);
                }
                return;
            }
            QUEUED => {
                record.stage = Stage::Retry;
                if self.arena.objects.files[op.file as usize].writer != task {
                    self.switch(cpu, TaskState::Uninterruptible);
                }
                return;
            }
            _ => {}
        }
        match (op.verb, opening) {
            (FileVerb::Write, Opening::Sync | Opening::Direct) | (FileVerb::Read, Opening::Direct) => {
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

    /// Whether it is the task's turn to write to the file; else it is among those who wait.
    fn has_its_turn(&mut self, task: u32, file: u32) -> bool {
        let place = &mut self.arena.objects.files[file as usize];
        if place.writer == NONE {
            place.writer = task;
        }
        if place.writer != task && !place.waiters.contains(task, &self.arena.links) {
            place.waiters.push_back(task, &mut self.arena.links);
        }
        let turn = place.writer == task;
        self.arena.tasks[task as usize].moved = if turn { NEXT } else { QUEUED };
        turn
    }

    /// The task has written: it is the next one's turn, who may not have come to sleep yet.
    fn written(&mut self, task: u32, cpu: u32, file: u32) {
        let place = &mut self.arena.objects.files[file as usize];
        let next = place.waiters.pop(&self.arena.links).unwrap_or(NONE);
        place.writer = next;
        if next != NONE && self.arena.tasks[next as usize].state == State::Asleep {
            self.wake_for(task, cpu, next, false);
        }
    }

    /// Waits for all that the task began.
    pub(crate) fn await_files(&mut self, task: u32, cpu: u32) {
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

/// Whether it is a write that takes its turn with others of the same file.
const fn is_synchronous(verb: FileVerb, opening: Opening) -> bool {
    matches!((verb, opening), (FileVerb::Write, Opening::Sync))
}
