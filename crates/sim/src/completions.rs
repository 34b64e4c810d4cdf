//! Writes past the page cache that tasks begin: kernel threads complete them, once the disk has them.
//!
//! The disk's interrupt queues the write for a worker of its CPU (`iomap_dio_bio_end_io`, `queue_work`). That sees to the file's metadata
//! as ext4 does without a journal (`iomap_dio_complete_work`): a block that was written for the first time becomes an initialised one, so
//! that a leaf of the extent tree is written and the inode changes; then it sees to the inode, as after a synchronous write (`inode.rs`).
//! Only then the write is done, and the worker wakes the task that waits for it.
//!
//! Of a CPU's workers one is awake where that can be (`kernel/workqueue.c`): a write wakes an idle worker if none is running, and a worker
//! that sleeps for the disk wakes one if writes are left. A worker that finds another one running, or no write, idles.

use std::collections::VecDeque;

use schedlab_model::{EventSink, TaskState};
use schedlab_program::FileOp;

use crate::dispatch::Access;
use crate::engine::Engine;
use crate::leaf::{LEAF, LEAF_AWAITED, LEAF_TAKEN, LEAVES};
use crate::rwsem::Hold;
use crate::submission::InodeLock;
use crate::task::Stage;
use crate::wait::NONE;

/// Where a worker is beside the steps of `inode.rs`: it has taken a write; is to take the extent tree; and makes the block an initialised one
/// there. Then it sees to the leaves, `leaf.rs`.
const TAKEN: u32 = 20;
const TREE: u32 = 21;
const CONVERTS: u32 = 22;

/// A write that the disk does, or has done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    /// The task that began it.
    owner: u32,
    pub(crate) file: u32,
    /// It is the first one of a block.
    first: bool,
    /// Its first page, and that of the leaf that its worker writes or waits for.
    page: u64,
    pub(crate) leaf: u64,
}

/// What the disk does for a CPU's workers: a write of a task's, and blocks with leaves of a file's extent tree.
#[derive(Debug, Clone)]
pub(crate) enum OnDisk {
    Write(Write),
    Leaves(u32, std::ops::Range<u32>),
}

/// The workers of a CPU (`worker_pool`).
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    /// The first of them, for which the disk's timers are set.
    first: Option<u32>,
    /// What the disk does, with when it has done each, in that order.
    on_disk: VecDeque<(u64, OnDisk)>,
    /// Writes that no worker has taken (`worklist`).
    done: VecDeque<Write>,
    /// Idle workers, of which the last one is woken first (`idle_list`).
    idle: Vec<u32>,
    /// The idle worker that was woken and has not run yet.
    woken: Option<u32>,
    /// Workers that do not sleep (`nr_running`).
    running: u32,
    /// Writes that are not completed.
    under_way: u32,
}

impl<S: EventSink> Engine<'_, S> {
    /// Whether kernel threads complete the writes of a CPU.
    pub(crate) fn has_workers(&self, cpu: u32) -> bool {
        self.arena.objects.pools.get(cpu as usize).is_some_and(|pool| pool.first.is_some())
    }

    /// Whether the tasks that sleep may wait for writes.
    pub(crate) fn writes_are_under_way(&self) -> bool {
        self.arena.objects.pools.iter().any(|pool| pool.under_way > 0)
    }

    fn pool(&mut self, cpu: u32) -> &mut Pool {
        let pools = &mut self.arena.objects.pools;
        if pools.len() <= cpu as usize {
            pools.resize(cpu as usize + 1, Pool::default());
        }
        &mut pools[cpu as usize]
    }

    /// A worker is there from the start, and idles.
    pub(crate) fn begin_idle(&mut self, worker: u32, cpu: u32) {
        let record = &mut self.arena.tasks[worker as usize];
        (record.stage, record.slept) = (Stage::Retry, true);
        let pool = self.pool(cpu);
        pool.first.get_or_insert(worker);
        pool.idle.push(worker);
    }

    /// A task begins a write.
    pub(crate) fn begin_write(&mut self, task: u32, cpu: u32, op: FileOp) {
        let first = self.is_first_write(task, op);
        let tick = (self.now + self.ticks.phase) / self.period;
        let pages = self.pages(task, op);
        let page = pages.start;
        let inode = &mut self.arena.objects.inodes[op.file as usize];
        if first {
            inode.insert_extent(page);
        }
        inode.initialise(pages);
        inode.touch(tick);
        self.arena.objects.luggage(task).writes += 1;
        self.pool(self.prices.interrupted_by_disk(cpu)).under_way += 1;
        self.ask_for(task, cpu, Access::Write(Write { owner: task, file: op.file, first, page, leaf: page }), op.bytes);
    }

    /// The disk does something for the workers, until `done`.
    pub(crate) fn is_on_disk(&mut self, cpu: u32, what: OnDisk, done: u64) {
        let now = self.now;
        let pool = self.pool(self.prices.interrupted_by_disk(cpu));
        pool.on_disk.push_back((done, what));
        let timer = pool.first.unwrap_or(NONE);
        self.arena.timers.push(now, done.saturating_sub(now), timer);
    }

    /// The task sleeps while more than `enough` of its writes are not completed (`io_getevents`); else its operation is done.
    pub(crate) fn await_writes(&mut self, task: u32, cpu: u32, enough: u32) {
        let luggage = self.arena.objects.luggage(task);
        luggage.enough = enough;
        let waits = luggage.writes > enough;
        let record = &mut self.arena.tasks[task as usize];
        if !waits {
            record.done();
            return;
        }
        (record.moved, record.stage) = (crate::files::ASKED, Stage::Retry);
        self.switch(cpu, TaskState::Interruptible);
    }

    /// A timer expires: if the disk has done something for the workers of the CPU by now, it is that one's. A write is queued for the workers, and
    /// those that wait for a leaf are woken. Returns what the interrupt costs the current task.
    pub(crate) fn write_is_done(&mut self, timer: u32, cpu: u32) -> Option<u64> {
        let now = self.now;
        let pool = self.arena.objects.pools.get_mut(cpu as usize).filter(|pool| pool.first == Some(timer))?;
        pool.on_disk.front().filter(|(done, _)| *done <= now)?;
        let (_, what) = pool.on_disk.pop_front()?;
        let cost = match what {
            OnDisk::Write(write) => {
                pool.done.push_back(write);
                self.kick_pool(cpu, NONE)
            }
            OnDisk::Leaves(file, blocks) => self.unlock_leaves(cpu, file, blocks),
        };
        Some(cost + self.disk_interrupt_alone(cpu))
    }

    /// `kick_pool`: wakes an idle worker if writes are left and no worker is running. Returns what that costs.
    fn kick_pool(&mut self, cpu: u32, waker: u32) -> u64 {
        let pool = self.pool(cpu);
        if pool.done.is_empty() || pool.running > 0 || pool.woken.is_some() {
            return 0;
        }
        let Some(worker) = pool.idle.pop() else { return 0 };
        pool.woken = Some(worker);
        self.wake(worker, cpu, waker, false)
    }

    /// `wq_worker_sleeping`: a worker is about to sleep for the disk, and wakes another one if writes are left. Nothing for other tasks.
    pub(crate) fn worker_sleeps(&mut self, task: u32, cpu: u32) {
        let record = &mut self.arena.tasks[task as usize];
        if record.op != schedlab_program::Op::CompleteWrite {
            return;
        }
        record.slept = true;
        self.pool(cpu).running -= 1;
        let cost = self.kick_pool(cpu, task);
        self.arena.tasks[task as usize].debt += cost;
    }

    /// The CPU time that a worker takes for what comes next.
    pub(crate) fn plan_completion(&mut self, worker: u32) -> u64 {
        let record = &mut self.arena.tasks[worker as usize];
        let (cpu, moved) = (record.cpu, record.moved);
        let slept = std::mem::take(&mut record.slept);
        let pool = self.pool(cpu);
        if slept {
            pool.running += 1;
            pool.woken = pool.woken.filter(|woken| *woken != worker);
        }
        match moved {
            0 => {
                if pool.running > 1 {
                    return 0;
                }
                let Some(write) = pool.done.pop_front() else { return 0 };
                self.arena.tasks[worker as usize].moved = TAKEN;
                self.arena.objects.luggage(worker).write = Some(write);
                self.prices.completion
            }
            TAKEN => 0,
            TREE => {
                let write = self.arena.objects.luggage(worker).write;
                let inode = write.map(|write| &self.arena.objects.inodes[write.file as usize]);
                let free = inode.is_none_or(|inode| inode.extents.is_free_for(worker, Hold::Write));
                if free { 0 } else { self.prices.block }
            }
            CONVERTS => self.prices.first_completion,
            LEAF | LEAF_TAKEN | LEAVES | LEAF_AWAITED => {
                self.arena.objects.luggage(worker).write.map_or(0, |write| self.plan_leaf(worker, write))
            }
            _ => {
                let Some(write) = self.arena.objects.luggage(worker).write else { return 0 };
                self.plan_inode(worker, write.file, self.prices.completion_access)
            }
        }
    }

    /// A worker completes a write as far as it can without sleeping; without one it idles.
    pub(crate) fn complete_write(&mut self, worker: u32, cpu: u32) {
        let write = self.arena.objects.luggage(worker).write;
        let record = &mut self.arena.tasks[worker as usize];
        record.stage = Stage::Retry;
        let Some(write) = write else {
            let pool = self.pool(cpu);
            if !pool.done.is_empty() && pool.running <= 1 {
                // It came meanwhile.
                return;
            }
            pool.running -= 1;
            pool.idle.push(worker);
            self.arena.tasks[worker as usize].slept = true;
            return self.switch(cpu, TaskState::Interruptible);
        };
        match record.moved {
            TAKEN if write.first => record.moved = TREE,
            TREE => {
                if self.take_lock(worker, cpu, write.file, InodeLock::Extents, Hold::Write) {
                    self.arena.tasks[worker as usize].moved = CONVERTS;
                }
            }
            CONVERTS => {
                record.moved = LEAF;
                let inode = &mut self.arena.objects.inodes[write.file as usize];
                inode.change_extents();
                inode.leaves.change(write.page);
                self.release_lock(worker, cpu, write.file, InodeLock::Extents, Hold::Write);
            }
            TAKEN => record.moved = LEAF,
            LEAF | LEAF_TAKEN | LEAVES | LEAF_AWAITED => self.sync_leaves(worker, cpu, write),
            _ => {
                if self.write_inode(worker, cpu, write.file) {
                    self.end_write(worker, cpu, write);
                }
            }
        }
    }

    /// `aio_complete`: the write is done, and the task that waits for it is woken.
    fn end_write(&mut self, worker: u32, cpu: u32, write: Write) {
        self.arena.tasks[worker as usize].done();
        self.pool(cpu).under_way -= 1;
        let luggage = self.arena.objects.luggage(worker);
        luggage.write = None;
        let luggage = self.arena.objects.luggage(write.owner);
        luggage.writes -= 1;
        let enough = luggage.writes <= luggage.enough;
        let owner = &self.arena.tasks[write.owner as usize];
        if enough && owner.state == crate::task::State::Asleep && owner.moved == crate::files::ASKED {
            self.wake_for(worker, cpu, write.owner, false);
        }
    }
}
