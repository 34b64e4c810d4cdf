//! The leaves of a file's extent tree: blocks of the disk that writers and workers change, and that a synchronous write has written.
//!
//! An inode lists its leaves that changed (`mark_buffer_dirty_inode`). A worker that completes a write takes all that are listed, writes those that
//! are dirty, and then waits for each (`fsync_buffers_list` in `sync_mapping_buffers`). One task at a time writes a leaf (`BH_Lock`): another one that
//! finds it dirty sleeps for that lock (`write_dirty_buffer`). A leaf that is on a worker's own list is not put on the inode's when it changes
//! (`b_assoc_map`), so that workers which come while one sleeps for the lock find nothing to write.
//!
//! A file that was made room for is one unwritten extent at first. Up to four extents are in the inode itself; a leaf that is full is divided where the
//! next extent goes (`ext4_ext_split`).

use schedlab_model::EventSink;

use crate::completions::Write;
use crate::dispatch::Access;
use crate::engine::Engine;
use crate::inode::{INODE, Inode, TABLE_BLOCK};
use crate::wait::{NONE, WaitQueue};

/// Where a worker is with the leaves: it is to take the first one that is listed; to write the one it took; to look at those it took; and to wait for
/// one.
pub(crate) const LEAF: u32 = 23;
pub(crate) const LEAF_TAKEN: u32 = 24;
pub(crate) const LEAVES: u32 = 25;
pub(crate) const LEAF_AWAITED: u32 = 26;

/// Extents in the inode, and in a leaf: of twelve bytes each, as is the leaf's head.
const IN_INODE: u32 = 4;
const IN_LEAF: u32 = (TABLE_BLOCK - 12) / 12;

/// A leaf, from its first page on.
#[derive(Debug, Clone)]
struct Leaf {
    first: u64,
    extents: u32,
    /// Its block on the disk: they are made one after the other.
    block: u32,
    /// It changed since it was last written; is on the inode's list; and its turn on that, or on a worker's.
    dirty: bool,
    listed: bool,
    turn: u32,
    /// The worker on whose list it is, which has not handed it to the disk yet.
    taker: u32,
    plugged: bool,
    /// The disk writes it (`BH_Lock`), and the tasks that are to write it and that only wait for it.
    locked: bool,
    waiters: WaitQueue,
    watchers: WaitQueue,
}

impl Leaf {
    const fn new(first: u64, extents: u32, block: u32) -> Self {
        let (waiters, watchers) = (WaitQueue::EMPTY, WaitQueue::EMPTY);
        Self {
            first,
            extents,
            block,
            dirty: false,
            listed: false,
            turn: 0,
            taker: NONE,
            plugged: false,
            locked: false,
            waiters,
            watchers,
        }
    }

    /// It changes (`mark_buffer_dirty_inode`).
    fn change(&mut self, turn: u32) {
        self.dirty = true;
        if !self.listed && self.taker == NONE {
            (self.listed, self.turn) = (true, turn);
        }
    }
}

/// All leaves of a file, in the order of their pages, and the next one's turn that is put on a list.
#[derive(Debug, Clone)]
pub(crate) struct Leaves(Vec<Leaf>, u32);

impl Default for Leaves {
    fn default() -> Self {
        Self(vec![Leaf::new(0, 1, 0)], 0)
    }
}

impl Leaves {
    /// The place of the leaf that a page is in.
    fn place(&self, page: u64) -> usize {
        self.0.partition_point(|leaf| leaf.first <= page).saturating_sub(1)
    }

    /// A page becomes a written one, as `written` says of those that were before: that divides an unwritten extent, moves the border of one, or leaves
    /// none between two written ones.
    pub(crate) fn insert(&mut self, page: u64, written: impl Fn(u64) -> bool) {
        let place = self.place(page);
        let end = self.0.get(place + 1).map_or(page + (1 << 16), |next| next.first);
        let (before, after) = (page > 0 && written(page - 1), written(page + 1));
        let leaf = &mut self.0[place];
        leaf.extents = match (before, after) {
            (false, false) => leaf.extents + 2,
            (true, true) => leaf.extents.saturating_sub(2).max(1),
            _ => leaf.extents,
        };
        if leaf.extents <= IN_LEAF {
            return;
        }
        // The extents beyond the page, one more at each border, make a leaf of their own.
        let all = leaf.extents;
        let borders = (page + 1..end - 1).filter(|page| written(*page) != written(page + 1)).count();
        let beyond = u32::try_from(borders).unwrap_or(all).saturating_add(1).min(all - 1);
        leaf.extents = all - beyond;
        let mut new = Leaf::new(page + 1, beyond, u32::try_from(self.0.len()).unwrap_or(NONE));
        let turn = self.turn();
        new.change(turn);
        self.0.insert(place + 1, new);
    }

    /// The extent of a page changes: its leaf is to be written, where there is one.
    pub(crate) fn change(&mut self, page: u64) {
        if self.0.len() > 1 || self.0[0].extents > IN_INODE {
            let place = self.place(page);
            let turn = self.turn();
            self.0[place].change(turn);
        }
    }

    /// The turn of a leaf that is put at the end of a list.
    fn turn(&mut self) -> u32 {
        self.1 += 1;
        self.1
    }

    /// A worker takes the first leaf that is listed.
    fn take(&mut self, worker: u32) -> Option<&Leaf> {
        let turn = self.turn();
        let leaf = self.0.iter_mut().filter(|leaf| leaf.listed).min_by_key(|leaf| leaf.turn)?;
        (leaf.listed, leaf.turn) = (false, turn);
        if leaf.dirty || leaf.locked {
            leaf.taker = worker;
        }
        Some(leaf)
    }

    /// The first leaf that a worker took is no longer its own; one that has changed since is listed again.
    fn give_back(&mut self, worker: u32) -> Option<u64> {
        let turn = self.turn();
        let leaf = self.0.iter_mut().filter(|leaf| leaf.taker == worker).min_by_key(|leaf| leaf.turn)?;
        (leaf.taker, leaf.listed, leaf.turn) = (NONE, leaf.dirty, turn);
        Some(leaf.first)
    }

    /// The next leaves that a worker has locked and not handed to the disk yet, in blocks that follow one another: the first one's, and how many.
    fn unplug(&mut self, worker: u32) -> Option<(u32, u32)> {
        let plugged = self.0.iter().filter(|leaf| leaf.taker == worker && leaf.plugged);
        let block = plugged.map(|leaf| leaf.block).min()?;
        let mut end = block;
        while let Some(leaf) = self.0.iter_mut().find(|leaf| leaf.block == end && leaf.taker == worker && leaf.plugged)
        {
            leaf.plugged = false;
            end += 1;
        }
        Some((block, end - block))
    }

    fn get(&self, page: u64) -> &Leaf {
        &self.0[self.place(page)]
    }

    fn get_mut(&mut self, page: u64) -> &mut Leaf {
        let place = self.place(page);
        &mut self.0[place]
    }
}

impl Inode {
    /// The extent of a page is about to be divided for its first write.
    pub(crate) fn insert_extent(&mut self, page: u64) {
        let mut leaves = std::mem::take(&mut self.leaves);
        leaves.insert(page, |other| self.is_initialised(other));
        self.leaves = leaves;
    }

    /// Whether a page was written to the disk before.
    pub(crate) fn is_initialised(&self, page: u64) -> bool {
        self.initialised.get((page / 64) as usize).is_some_and(|word| word & 1 << (page % 64) != 0)
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// The CPU time that a worker takes for the leaves up to where it sleeps, or has to look again.
    pub(crate) fn plan_leaf(&mut self, worker: u32, write: Write) -> u64 {
        let record = &mut self.arena.tasks[worker as usize];
        record.planned = 0;
        let leaf = self.arena.objects.inodes[write.file as usize].leaves.get(write.leaf);
        match record.moved {
            LEAF_TAKEN | LEAF_AWAITED if leaf.locked => self.prices.block,
            LEAF_TAKEN if leaf.dirty => {
                record.planned = 1;
                // That contains a sleep.
                self.prices.completion_access.saturating_sub(self.prices.block)
            }
            _ => 0,
        }
    }

    /// A worker writes the leaves that are listed, as far as it can without sleeping.
    pub(crate) fn sync_leaves(&mut self, worker: u32, cpu: u32, mut write: Write) {
        let record = &mut self.arena.tasks[worker as usize];
        let leaves = &mut self.arena.objects.inodes[write.file as usize].leaves;
        match record.moved {
            LEAF => match leaves.take(worker) {
                Some(leaf) => {
                    record.moved = if leaf.dirty { LEAF_TAKEN } else { LEAF };
                    write.leaf = leaf.first;
                }
                None => {
                    record.moved = LEAVES;
                    self.unplug(worker, cpu, write.file);
                }
            },
            LEAF_TAKEN => {
                let leaf = leaves.get_mut(write.leaf);
                if leaf.locked {
                    leaf.waiters.push_back(worker, &mut self.arena.links);
                    self.unplug(worker, cpu, write.file);
                    return self.wait_for_disk(worker, cpu);
                }
                if leaf.dirty && record.planned == 1 {
                    (leaf.dirty, leaf.locked, leaf.plugged) = (false, true, true);
                    record.moved = LEAF;
                } else if !leaf.dirty {
                    record.moved = LEAF;
                    if let Some(next) = leaf.waiters.pop(&self.arena.links) {
                        self.wake_for(worker, cpu, next, false);
                    }
                }
            }
            LEAVES => match leaves.give_back(worker) {
                Some(first) => (record.moved, write.leaf) = (LEAF_AWAITED, first),
                None => record.moved = INODE,
            },
            _ => {
                let leaf = leaves.get_mut(write.leaf);
                if leaf.locked {
                    leaf.watchers.push_front(worker, &mut self.arena.links);
                    return self.wait_for_disk(worker, cpu);
                }
                record.moved = LEAVES;
            }
        }
        self.arena.objects.luggage(worker).write = Some(write);
    }

    /// `blk_finish_plug`, and as a task sleeps: the leaves that a worker has locked are handed to the disk together, those in blocks that follow one
    /// another in one access (`blk_attempt_plug_merge`).
    fn unplug(&mut self, worker: u32, cpu: u32, file: u32) {
        while let Some((block, count)) = self.arena.objects.inodes[file as usize].leaves.unplug(worker) {
            self.ask_for(worker, cpu, Access::Leaves { file, block, count }, TABLE_BLOCK * count);
        }
    }

    /// `end_buffer_write_sync`: the disk has written leaves. Of each all that only wait for it are woken, and the next task that is to write it. Returns
    /// what that costs.
    pub(crate) fn unlock_leaves(&mut self, cpu: u32, file: u32, blocks: std::ops::Range<u32>) -> u64 {
        let leaves = &mut self.arena.objects.inodes[file as usize].leaves;
        let mut woken = Vec::new();
        for block in blocks {
            let Some(leaf) = leaves.0.iter_mut().find(|leaf| leaf.block == block) else { continue };
            leaf.locked = false;
            let mut watchers = std::mem::replace(&mut leaf.watchers, WaitQueue::EMPTY);
            woken.extend(std::iter::from_fn(|| watchers.pop(&self.arena.links)));
            woken.extend(leaf.waiters.pop(&self.arena.links));
        }
        let mut woken = woken.into_iter();
        let cost = woken.next().map_or(0, |first| self.wake(first, cpu, NONE, false));
        woken.fold(cost, |cost, other| cost + self.wake_too(other, cpu))
    }
}
