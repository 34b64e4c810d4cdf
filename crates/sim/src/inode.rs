//! Synchronous writes to one file, which wait for one another: as ext4 does them without a journal.
//!
//! A write copies to the page cache and asks the disk for that page; where the page is still under writeback for another task, it waits for
//! that first. Then it waits for the page (`file_write_and_wait_range`), and sees to it that the inode is on the disk too, if anything was
//! written since that was last done (`sync_inode_metadata`). One task at a time does so (`I_SYNC`): it waits for all pages of the file
//! under writeback, those of other tasks too (`filemap_fdatawait`), and then writes the inode's table block if its times changed, which
//! they do once a tick. Tasks that come meanwhile sleep until that is over; all of them are woken then, and one is next. Kernels since 6.5
//! check after that whether the table block is to be written (`ext4_fsync_nojournal`), and wait for it, one after the other
//! (`lock_buffer`). At last it flushes the disk's write cache, where that has one, `flush.rs`.
//!
//! A block's first write costs its task more, as it makes room for the block in the extent tree, and the writeback of its page may end later than
//! the disk's access, `writeback.rs`.
//!
//! The waits are the kernel's, in the order of its queues: tasks leave a page's queue in the order in which they came, and that of `I_SYNC`
//! in the reverse order.

use schedlab_model::{CpuId, EventSink, TaskState};
use schedlab_program::{FileOp, Op};

use crate::dispatch::Access;
use crate::engine::Engine;
use crate::event_queue::NEVER;
use crate::files::is_synchronous;
use crate::leaf::Leaves;
use crate::rwsem::RwSem;
use crate::task::Stage;
use crate::wait::{NONE, WaitQueue};

/// Bytes of a block of the inode table.
pub(crate) const TABLE_BLOCK: u32 = 1024;

/// Where a task is in its write: it has copied; its page is on its way; it is to see to the inode; it does, and waits for pages, is to
/// write the table block, and wrote it; and, the inode being done, it is to look at that block, and wrote it.
const COPIED: u32 = 1;
const SENT: u32 = 2;
pub(crate) const INODE: u32 = 3;
const SYNCING: u32 = 4;
const STAMPING: u32 = 5;
const STAMPED: u32 = 6;
const TABLE: u32 = 7;
const STORED: u32 = 8;
/// A worker found that the block was written already.
const CLEAN: u32 = 9;
/// The task is to flush the disk's write cache, and has.
pub(crate) const FLUSH: u32 = 10;
pub(crate) const FLUSHED: u32 = 11;

/// A page of a file that is not as on the disk.
#[derive(Debug, Clone, Copy)]
struct Page {
    number: u64,
    /// It was written since it was last sent to the disk.
    dirty: bool,
    /// The task that sent it to the disk, while it is under writeback (`PG_writeback`).
    sender: u32,
    waiters: WaitQueue,
}

/// A file that tasks write to synchronously.
#[derive(Debug, Clone)]
pub(crate) struct Inode {
    /// Those that are dirty, or on their way to the disk, in their order.
    pages: Vec<Page>,
    /// Something was written since it was last seen to (`I_DIRTY_PAGES`), and its times changed (`I_DIRTY_SYNC`).
    dirty: bool,
    restamped: bool,
    /// The tick of its last change.
    stamp: u64,
    /// The task that writes the inode out (`I_SYNC`), and the tasks that wait for that.
    keeper: u32,
    waiters: WaitQueue,
    /// Its block of the inode table: whether that is to be written, the task that writes it now, and the tasks that wait for that
    /// (`BH_Lock`).
    table_dirty: bool,
    table_writer: u32,
    table_waiters: WaitQueue,
    /// Workers that wrote it and found it being written again when they came to look (`__wait_on_buffer`).
    table_watchers: WaitQueue,
    /// `i_rwsem`, as far as writes past the page cache take it, and the lock of the extent tree (`i_data_sem`).
    pub(crate) lock: RwSem,
    pub(crate) extents: RwSem,
    /// The leaves of that tree.
    pub(crate) leaves: Leaves,
    /// Pages that were written to the disk, as bits of words.
    pub(crate) initialised: Vec<u64>,
}

impl Inode {
    pub(crate) fn new() -> Self {
        Self {
            pages: Vec::new(),
            dirty: false,
            restamped: false,
            stamp: u64::MAX,
            keeper: NONE,
            waiters: WaitQueue::EMPTY,
            table_dirty: false,
            table_writer: NONE,
            table_waiters: WaitQueue::EMPTY,
            table_watchers: WaitQueue::EMPTY,
            lock: RwSem::default(),
            extents: RwSem::default(),
            leaves: Leaves::default(),
            initialised: Vec::new(),
        }
    }

    /// Pages are written to the disk.
    pub(crate) fn initialise(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
            if self.initialised.len() <= word {
                self.initialised.resize(word + 1, 0);
            }
            self.initialised[word] |= bit;
        }
    }

    /// The file's times change, once a tick, and are to be written.
    pub(crate) fn touch(&mut self, tick: u64) {
        if std::mem::replace(&mut self.stamp, tick) != tick {
            (self.dirty, self.restamped, self.table_dirty) = (true, true, true);
        }
    }

    /// A leaf of the file's extent tree changed, and with it the inode, which is copied to its block of the table at once.
    pub(crate) fn change_extents(&mut self) {
        self.table_dirty = true;
    }

    /// The place of a page among those that are not as on the disk.
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.pages.binary_search_by_key(&number, |page| page.number)
    }

    /// Whether the page is on its way to the disk.
    fn is_sent(&self, number: u64) -> bool {
        self.find(number).is_ok_and(|place| self.pages[place].sender != NONE)
    }

    /// The first page from `number` on that is on its way.
    fn next_sent(&self, number: u64) -> Option<u64> {
        let from = self.find(number).unwrap_or_else(|place| place);
        self.pages[from..].iter().find(|page| page.sender != NONE).map(|page| page.number)
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// The CPU time that a synchronous write takes up to where it sleeps, or has to look again.
    pub(crate) fn plan_synchronous(&mut self, task: u32, op: FileOp) -> u64 {
        let page = self.arena.objects.luggage(task).page;
        let sends = self.arena.tasks[task as usize].moved < SENT;
        let first = if sends && self.is_first_write(task, op) { self.prices.first_sync_write } else { 0 };
        let prices = &self.prices;
        let inode = &self.arena.objects.inodes[op.file as usize];
        let record = &mut self.arena.tasks[task as usize];
        let send = |sent: bool| if sent { prices.block } else { prices.disk_access.saturating_add(first) };
        record.planned = 0;
        match record.moved {
            0 => {
                record.planned = u32::from(!inode.is_sent(page));
                (prices.system_call + prices.copy(op.bytes)).saturating_add(send(inode.is_sent(page)))
            }
            COPIED if inode.find(page).is_ok_and(|place| inode.pages[place].dirty) => {
                record.planned = u32::from(!inode.is_sent(page));
                send(inode.is_sent(page))
            }
            SENT if inode.is_sent(page) => prices.block,
            COPIED | SENT => 0,
            _ => self.plan_inode(task, op.file, prices.table_access),
        }
    }

    /// The CPU time that seeing to the inode of a file takes up to where the task sleeps, or has to look again; an access of the disk is
    /// asked for in `access`.
    pub(crate) fn plan_inode(&mut self, task: u32, file: u32, access: u64) -> u64 {
        if self.awaits_block(task) {
            return 0;
        }
        let page = self.arena.objects.luggage(task).page;
        let prices = &self.prices;
        let inode = &self.arena.objects.inodes[file as usize];
        let record = &mut self.arena.tasks[task as usize];
        record.planned = 0;
        match record.moved {
            INODE if inode.dirty && inode.keeper != NONE => prices.block,
            SYNCING if inode.next_sent(page).is_some() => prices.block,
            TABLE if !prices.table_after_inode => 0,
            STAMPING | TABLE if inode.table_writer != NONE => prices.block,
            STAMPING | TABLE if inode.table_dirty => {
                record.planned = 1;
                access
            }
            STAMPED | STORED if inode.table_writer != NONE && record.op == Op::CompleteWrite => prices.block,
            FLUSH => prices.flush,
            _ => 0,
        }
    }

    /// A synchronous write comes as far as it can without sleeping, or looking again at what that takes.
    pub(crate) fn write_synchronously(&mut self, task: u32, cpu: u32, op: FileOp) {
        let file = op.file as usize;
        let page = self.arena.objects.luggage(task).page;
        let record = &mut self.arena.tasks[task as usize];
        record.stage = Stage::Retry;
        let inode = &mut self.arena.objects.inodes[file];
        match record.moved {
            0 => {
                record.moved = COPIED;
                self.written(file, page, (self.now + self.ticks.phase) / self.period);
                self.send_page(task, cpu, op, page);
            }
            COPIED => self.send_page(task, cpu, op, page),
            SENT => {
                if let Some(place) = inode.find(page).ok().filter(|place| inode.pages[*place].sender != NONE) {
                    inode.pages[place].waiters.push_back(task, &mut self.arena.links);
                    return self.go_to_sleep(task, cpu, TaskState::Uninterruptible);
                }
                record.moved = INODE;
            }
            _ => {
                if self.write_inode(task, cpu, op.file) {
                    self.arena.tasks[task as usize].done();
                }
            }
        }
    }

    /// Sees to the inode of a file, as far as that goes without sleeping, or planning the next step; true once it is seen to.
    pub(crate) fn write_inode(&mut self, task: u32, cpu: u32, file: u32) -> bool {
        let file = file as usize;
        let page = self.arena.objects.luggage(task).page;
        self.arena.tasks[task as usize].stage = Stage::Retry;
        if self.awaits_block(task) {
            self.block_is_awaited(task, cpu);
            return false;
        }
        let record = &mut self.arena.tasks[task as usize];
        let inode = &mut self.arena.objects.inodes[file];
        match record.moved {
            INODE if !inode.dirty => record.moved = TABLE,
            INODE if inode.keeper != NONE => {
                inode.waiters.push_front(task, &mut self.arena.links);
                self.wait_for_disk(task, cpu);
            }
            INODE => {
                inode.keeper = task;
                record.moved = SYNCING;
                self.arena.objects.luggage(task).page = 0;
            }
            SYNCING => match inode.next_sent(page) {
                Some(number) => {
                    let place = inode.find(number).unwrap_or_default();
                    inode.pages[place].waiters.push_back(task, &mut self.arena.links);
                    self.arena.objects.luggage(task).page = number;
                    self.wait_for_disk(task, cpu);
                }
                None => {
                    inode.dirty = inode.pages.iter().any(|page| page.dirty);
                    if std::mem::take(&mut inode.restamped) {
                        record.moved = STAMPING;
                    } else {
                        self.kept(task, cpu, file);
                    }
                }
            },
            STAMPING => self.write_table(task, cpu, file, STAMPED),
            TABLE if self.prices.table_after_inode => self.write_table(task, cpu, file, STORED),
            STAMPED | STORED if inode.table_writer != NONE && record.op == Op::CompleteWrite => {
                inode.table_watchers.push_front(task, &mut self.arena.links);
                self.wait_for_disk(task, cpu);
            }
            STAMPED => self.kept(task, cpu, file),
            FLUSH => {
                record.moved = FLUSHED;
                self.ask_flush(task, cpu);
            }
            FLUSHED => return true,
            _ if self.prices.flushes() => record.moved = FLUSH,
            _ => return true,
        }
        false
    }

    /// The page was written, in a tick.
    fn written(&mut self, file: usize, number: u64, tick: u64) {
        let inode = &mut self.arena.objects.inodes[file];
        match inode.find(number) {
            Ok(place) => inode.pages[place].dirty = true,
            Err(place) => {
                inode.pages.insert(place, Page { number, dirty: true, sender: NONE, waiters: WaitQueue::EMPTY });
            }
        }
        inode.dirty = true;
        inode.touch(tick);
    }

    /// Sends the page to the disk, once it is not under writeback for another task.
    fn send_page(&mut self, task: u32, cpu: u32, op: FileOp, number: u64) {
        let record = &mut self.arena.tasks[task as usize];
        let inode = &mut self.arena.objects.inodes[op.file as usize];
        let Some(page) = inode.find(number).ok().map(|place| &mut inode.pages[place]) else {
            record.moved = SENT;
            return;
        };
        if !page.dirty {
            // Another task's access wrote it too.
            record.moved = SENT;
        } else if page.sender != NONE {
            page.waiters.push_back(task, &mut self.arena.links);
            self.go_to_sleep(task, cpu, TaskState::Uninterruptible);
        } else if record.planned == 1 {
            (page.dirty, page.sender) = (false, task);
            record.moved = SENT;
            if self.is_first_write(task, op) {
                let pages = self.pages(task, op);
                let inode = &mut self.arena.objects.inodes[op.file as usize];
                inode.initialise(pages);
                inode.change_extents();
                if self.arena.objects.writebacks.have_worker() {
                    return self.begin_writeback(task, cpu, op, number);
                }
            }
            self.ask_disk(task, cpu, op.bytes);
        }
    }

    /// The task sleeps until the writeback of a page ends.
    pub(crate) fn await_page(&mut self, task: u32, cpu: u32, file: u32, number: u64) {
        let inode = &mut self.arena.objects.inodes[file as usize];
        if let Ok(place) = inode.find(number) {
            inode.pages[place].waiters.push_back(task, &mut self.arena.links);
            self.switch(cpu, TaskState::Uninterruptible);
        }
    }

    /// The writeback of a page ends: the tasks that wait for that, in their order.
    pub(crate) fn unsend(&mut self, file: u32, number: u64) -> WaitQueue {
        let inode = &mut self.arena.objects.inodes[file as usize];
        let Ok(place) = inode.find(number) else { return WaitQueue::EMPTY };
        let page = &mut inode.pages[place];
        page.sender = NONE;
        let waiters = std::mem::replace(&mut page.waiters, WaitQueue::EMPTY);
        if !page.dirty {
            inode.pages.remove(place);
        }
        waiters
    }

    /// Writes the block of the inode table where that is still to be done, once no other task does.
    fn write_table(&mut self, task: u32, cpu: u32, file: usize, written: u32) {
        let record = &mut self.arena.tasks[task as usize];
        let inode = &mut self.arena.objects.inodes[file];
        if inode.table_writer != NONE {
            inode.table_waiters.push_back(task, &mut self.arena.links);
            self.wait_for_disk(task, cpu);
        } else if !inode.table_dirty {
            let clean = written == STORED && record.op == Op::CompleteWrite;
            record.moved = if clean { CLEAN } else { written };
            // A task that has nothing left to write wakes the next one that waits for the block.
            if let Some(next) = inode.table_waiters.pop(&self.arena.links) {
                self.wake_for(task, cpu, next, false);
            }
        } else if record.planned == 1 {
            (inode.table_dirty, inode.table_writer) = (false, task);
            record.moved = written;
            self.write_block(task, cpu);
        }
    }

    /// The task has seen to the inode: all who waited for that look whether they have to, too.
    fn kept(&mut self, task: u32, cpu: u32, file: usize) {
        self.arena.tasks[task as usize].moved = TABLE;
        self.arena.objects.inodes[file].keeper = NONE;
        while let Some(waiter) = self.arena.objects.inodes[file].waiters.pop(&self.arena.links) {
            self.wake_for(task, cpu, waiter, false);
        }
    }

    /// Writes a block of metadata, and sleeps until the disk has it (`write_dirty_buffer` and `wait_on_buffer`, as in `sync_dirty_buffer`). The task
    /// offers to be preempted before it sleeps (`might_sleep`), unless the kernel preempts lazily: the thread that hands the access over comes then,
    /// if it was woken for that.
    pub(crate) fn write_block(&mut self, task: u32, cpu: u32) {
        self.ask_for(task, cpu, Access::Task(task), TABLE_BLOCK);
        if self.sched.must_resched(CpuId(cpu)) && !self.arena.objects.dispatchers.is_empty() {
            self.arena.objects.luggage(task).asked = true;
        } else {
            self.block_is_awaited(task, cpu);
        }
    }

    /// Whether the task was preempted between asking for a block to be written and sleeping for that.
    fn awaits_block(&mut self, task: u32) -> bool {
        !self.arena.objects.dispatchers.is_empty() && self.arena.objects.luggage(task).asked
    }

    /// `__wait_on_buffer`: the task sleeps until its block is on the disk.
    fn block_is_awaited(&mut self, task: u32, cpu: u32) {
        self.arena.objects.luggage(task).asked = false;
        self.worker_sleeps(task, cpu);
        self.switch(cpu, TaskState::Uninterruptible);
    }

    /// Asks the disk, and sleeps until it has done.
    pub(crate) fn ask_disk(&mut self, task: u32, cpu: u32, bytes: u32) {
        self.ask_for(task, cpu, Access::Task(task), bytes);
        self.worker_sleeps(task, cpu);
        self.switch(cpu, TaskState::Uninterruptible);
    }

    /// Sleeps for what another task has asked of the disk.
    pub(crate) fn wait_for_disk(&mut self, task: u32, cpu: u32) {
        self.worker_sleeps(task, cpu);
        self.go_to_sleep(task, cpu, TaskState::Uninterruptible);
    }

    /// A sleeper's timer has expired, which wakes the task; if the timer is the disk's, which has done the task's access, the same
    /// interrupt wakes all tasks that wait for that. Returns the cost of it all.
    pub(crate) fn wake_by_timer(&mut self, task: u32, cpu: u32) -> u64 {
        let done = self.write_is_done(task, cpu).or_else(|| self.page_is_written(task, cpu));
        if let Some(cost) = done.or_else(|| self.flush_is_done(task, cpu)) {
            return cost;
        }
        if let Some(cost) = self.rcu_softirq(task) {
            return cost;
        }
        let recalled = std::mem::take(&mut self.arena.tasks[task as usize].recalled);
        let mut cost = if self.awaits_block(task) {
            // It was preempted before it could sleep, and finds the block on the disk.
            self.arena.objects.luggage(task).asked = false;
            0
        } else {
            self.wake(task, cpu, NONE, false)
        };
        // Kernel threads are mostly woken in interrupts that there are anyway.
        let record = &self.arena.tasks[task as usize];
        cost += match (record.background, record.op.is_of_disk() && !recalled) {
            (true, _) => 0,
            (false, true) => self.disk_interrupt_alone(cpu),
            (false, false) => self.rest_of_interrupt(task, cpu),
        };
        self.bill_timer(task, cpu);
        if recalled {
            return cost;
        }
        let access = match self.arena.tasks[task as usize].op {
            Op::File(access) => access,
            Op::CompleteWrite => return cost + self.table_is_written(task, cpu),
            _ => return cost,
        };
        let op = self.program.file_accesses()[access as usize];
        if !is_synchronous(op.verb, self.program.files()[op.file as usize].1.open) {
            return cost;
        }
        let file = op.file as usize;
        if self.arena.tasks[task as usize].moved != SENT {
            return cost + self.unlock_table(file, cpu);
        }
        let number = self.arena.objects.luggage(task).page;
        let mut waiters = self.unsend(op.file, number);
        while let Some(waiter) = waiters.pop(&self.arena.links) {
            cost += self.wake_too(waiter, cpu);
        }
        cost
    }

    /// The block of the inode table is written: all that only wait for that are woken, and the next task that is to lock it. Returns what that costs.
    fn unlock_table(&mut self, file: usize, cpu: u32) -> u64 {
        let inode = &mut self.arena.objects.inodes[file];
        inode.table_writer = NONE;
        let mut watchers = std::mem::replace(&mut inode.table_watchers, WaitQueue::EMPTY);
        let waiter = inode.table_waiters.pop(&self.arena.links);
        let mut cost = 0;
        while let Some(watcher) = watchers.pop(&self.arena.links) {
            cost += self.wake_too(watcher, cpu);
        }
        cost + waiter.map_or(0, |waiter| self.wake_too(waiter, cpu))
    }

    /// The disk has done the access of a worker, which it was woken for: if that was the block of the inode table, the next task is woken.
    fn table_is_written(&mut self, worker: u32, cpu: u32) -> u64 {
        if !matches!(self.arena.tasks[worker as usize].moved, STAMPED | STORED) {
            return 0;
        }
        self.arena.objects.luggage(worker).write.map_or(0, |write| self.unlock_table(write.file as usize, cpu))
    }

    /// Wakes one more task by an interrupt that woke another one, and returns what that costs. A CPU that idled is later for that.
    pub(crate) fn wake_too(&mut self, task: u32, cpu: u32) -> u64 {
        let cost = self.wake(task, cpu, NONE, false);
        let record = &mut self.arena.cpus[cpu as usize];
        if record.current == NONE && record.resched_at != NEVER {
            record.resched_at += cost;
            self.refresh(cpu);
        }
        cost
    }
}
