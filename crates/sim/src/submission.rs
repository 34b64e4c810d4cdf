//! Writes past the page cache that tasks begin: what a task holds on its way to the disk.
//!
//! A task takes the inode's lock (`i_rwsem`) as a reader and looks whether the blocks were written (`ext4_overwrite_io`). For a first write it takes
//! that lock again, as a writer, before Linux 6.3 (`ext4_dio_write_checks`). Then it makes room in the extent tree, for which it holds the tree
//! (`i_data_sem`), and hands the write to the disk. Tasks that are preempted meanwhile keep both locks: other writers of the file sleep for the first
//! one, and the workers that complete first writes for the second (`completions.rs`).

use schedlab_model::{EventSink, TaskState};
use schedlab_program::{FileOp, FileVerb};

use crate::engine::Engine;
use crate::files::ASKED;
use crate::rwsem::Hold;
use crate::task::{Stage, State};

/// Where a task is in its write: it takes the inode's lock as a reader, and as a writer; takes the extent tree, changes it, and hands the write to the
/// disk.
const READS: u32 = 2;
const WRITES: u32 = 3;
const LOCKED: u32 = 4;
const MAPPING: u32 = 5;
const MAPPED: u32 = 6;

/// Which of an inode's locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InodeLock {
    /// `i_rwsem`.
    Inode,
    /// `i_data_sem`.
    Extents,
}

impl<S: EventSink> Engine<'_, S> {
    /// The CPU time that beginning a write takes up to where the task sleeps, or has to look again.
    pub(crate) fn plan_submission(&mut self, task: u32, op: FileOp) -> u64 {
        let inode = &self.arena.objects.inodes[op.file as usize];
        let prices = &self.prices;
        let takes = |free: bool| if free { 0 } else { prices.block };
        match self.arena.tasks[task as usize].moved {
            0 => prices.system_call,
            READS => takes(inode.lock.is_free_for(task, Hold::Read)),
            WRITES => takes(inode.lock.is_free_for(task, Hold::Write)),
            LOCKED => takes(inode.extents.is_free_for(task, Hold::Write)),
            MAPPING => prices.first_write,
            MAPPED => prices.begun_write,
            _ => 0,
        }
    }

    /// A task comes as far with its write as it can without sleeping, or looking again at what that takes.
    pub(crate) fn submit_write(&mut self, task: u32, cpu: u32, op: FileOp, depth: u32) {
        let first = self.is_first_write(task, op);
        let record = &mut self.arena.tasks[task as usize];
        let moved = record.moved;
        record.stage = Stage::Retry;
        let next = match moved {
            0 => READS,
            READS | WRITES => {
                let hold = if moved == READS { Hold::Read } else { Hold::Write };
                if !self.take_lock(task, cpu, op.file, InodeLock::Inode, hold) {
                    return;
                }
                if moved == READS && first && !self.prices.shares_first_writes {
                    self.release_lock(task, cpu, op.file, InodeLock::Inode, Hold::Read);
                    WRITES
                } else {
                    self.arena.objects.luggage(task).hold = Some(hold);
                    if first { LOCKED } else { MAPPED }
                }
            }
            LOCKED => {
                if !self.take_lock(task, cpu, op.file, InodeLock::Extents, Hold::Write) {
                    return;
                }
                MAPPING
            }
            MAPPING => {
                if self.prices.first_write > 0 {
                    // Kernels divide the extent here before 7.0, and then as the write is completed.
                    let page = self.arena.objects.luggage(task).page;
                    self.arena.objects.inodes[op.file as usize].leaves.change(page);
                }
                self.release_lock(task, cpu, op.file, InodeLock::Extents, Hold::Write);
                MAPPED
            }
            ASKED => return self.arena.tasks[task as usize].done(),
            _ => {
                self.begin_write(task, cpu, op);
                if let Some(hold) = self.arena.objects.luggage(task).hold.take() {
                    self.release_lock(task, cpu, op.file, InodeLock::Inode, hold);
                }
                return self.await_writes(task, cpu, depth - 1);
            }
        };
        self.arena.tasks[task as usize].moved = next;
    }

    /// Whether the operation is a write whose task waits for locks on its way, as kernel threads complete it.
    pub(crate) fn submits(&self, task: u32, op: FileOp) -> Option<u32> {
        match op.verb {
            FileVerb::SubmitWrite(depth) if self.has_workers(self.arena.tasks[task as usize].cpu) => Some(depth),
            _ => None,
        }
    }

    /// `down_read`, `down_write`: the task holds one of an inode's locks, or (false) sleeps for it.
    pub(crate) fn take_lock(&mut self, task: u32, cpu: u32, file: u32, which: InodeLock, hold: Hold) -> bool {
        let inode = &mut self.arena.objects.inodes[file as usize];
        let lock = if which == InodeLock::Inode { &mut inode.lock } else { &mut inode.extents };
        let taken = lock.take(task, hold);
        if !taken {
            self.worker_sleeps(task, cpu);
            self.go_to_sleep(task, cpu, TaskState::Uninterruptible);
        }
        taken
    }

    /// `up_read`, `up_write`: the task releases one of an inode's locks, and wakes the tasks that are to have it next.
    pub(crate) fn release_lock(&mut self, task: u32, cpu: u32, file: u32, which: InodeLock, hold: Hold) {
        let inode = &mut self.arena.objects.inodes[file as usize];
        let lock = if which == InodeLock::Inode { &mut inode.lock } else { &mut inode.extents };
        for waiter in lock.release(hold) {
            // One that was woken before may not have run yet.
            if self.arena.tasks[waiter as usize].state == State::Asleep || self.departs(waiter) {
                self.wake_for(task, cpu, waiter, false);
            }
        }
    }
}
