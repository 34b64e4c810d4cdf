//! `tasks_timeline`: the ordered queue of a fair run queue.
//!
//! The kernel keeps a red-black tree. What decides is only the order (key, then arrival: an equal key goes to the right of its
//! equals) and, for EEVDF, the least `vruntime` below a node. A list of short sorted runs gives the same order; it touches one or
//! two cache lines where a tree walks seven, and stays logarithmic by splitting runs. A picked entity is among the first, and a new one
//! is placed near either end; so a run is a ring, where insertion and removal move the entries towards the nearer end. Mostly there are
//! only a few entries, which have an array of their own.
//!
//! What the root of the kernel's tree says of slices is the shortest and the longest one, which are known without it. Where the kernel's fields
//! are not exact and slices differ, its tree is kept beside the runs ([`Timeline::keep_tree`]).

mod augmented;
mod few;
mod ring;
mod run;
mod slices;

use std::cell::Cell;
use std::collections::VecDeque;

pub(crate) use crate::fair::timeline::augmented::{Augmentation, Longest};

use crate::entity::{EntityId, Vruntime};
use crate::fair::timeline::augmented::AugmentedTree;
use crate::fair::timeline::few::{FEW, Few};
use crate::fair::timeline::ring::{RING, Ring};
use crate::fair::timeline::run::Run;
use crate::fair::timeline::slices::Slices;

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// `vruntime` (CFS) or `deadline` (EEVDF).
    pub(super) key: Vruntime,
    /// Arrival among equal keys.
    pub(super) sequence: u64,
    /// `vruntime`, for eligibility.
    pub(super) vruntime: Vruntime,
    /// The slice, for the shortest one.
    pub(super) slice: u64,
    pub(super) entity: EntityId,
}

impl Entry {
    /// Sentinel for an empty slot.
    pub(super) const NO_TASK: Self =
        Self { key: Vruntime(0), sequence: 0, vruntime: Vruntime(0), slice: 0, entity: EntityId(u32::MAX) };

    #[inline]
    pub(super) fn before(&self, key: Vruntime, sequence: u64) -> bool {
        let distance = self.key.since(key);
        distance < 0 || (distance == 0 && self.sequence < sequence)
    }
}

/// Steps of a search by halves among so many.
#[inline]
const fn steps(count: usize) -> u64 {
    (usize::BITS - count.leading_zeros()) as u64
}

/// Entities in the order of their keys; equal keys leave in the order in which they came.
///
/// ```
/// use schedlab_sched::{EntityId, Timeline, Vruntime};
/// let mut timeline = Timeline::default();
/// let first = timeline.insert(Vruntime(5), Vruntime(5), 1, EntityId(0));
/// timeline.insert(Vruntime(5), Vruntime(5), 1, EntityId(1));
/// timeline.insert(Vruntime(3), Vruntime(3), 1, EntityId(2));
/// assert_eq!(timeline.first(), Some(EntityId(2)));
/// assert_eq!(timeline.iter().collect::<Vec<_>>(), [EntityId(2), EntityId(0), EntityId(1)]);
/// timeline.remove(Vruntime(5), first);
/// assert_eq!(timeline.len(), 2);
/// ```
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Timeline {
    /// All entries while they are few, and have been since the queue was empty; else none.
    few: Few,
    /// Those at either end come and go most, so this is a ring too.
    runs: VecDeque<Run>,
    arrivals: u64,
    length: u32,
    /// How many may be few: none where the kernel's tree is kept.
    few_at_most: u32,
    /// Entries and runs that were compared or moved so far.
    operations: Cell<u64>,
    slices: Slices,
    /// The kernel's tree, where its root's slices may not be exact.
    tree: Option<Box<AugmentedTree>>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            few: Few::default(),
            runs: VecDeque::new(),
            arrivals: 0,
            length: 0,
            few_at_most: FEW as u32,
            operations: Cell::new(0),
            slices: Slices::default(),
            tree: None,
        }
    }
}

impl Timeline {
    /// From now on the slices that are told are those of the root of the kernel's tree. The tree is built of what is queued in the order in which
    /// it came: what left before may have given the kernel's another shape.
    pub(crate) fn keep_tree(&mut self, augmentation: Augmentation) {
        if self.tree.is_some() {
            return;
        }
        self.few.take().all().iter().for_each(|entry| self.insert_in_run(*entry));
        self.few_at_most = 0;
        let mut tree = AugmentedTree::new(augmentation);
        let mut queued: Vec<_> = self.runs.iter().flat_map(|run| run.entries.iter()).copied().collect();
        queued.sort_unstable_by_key(|entry| entry.sequence);
        queued.into_iter().for_each(|entry| tree.insert(entry));
        self.tree = Some(Box::new(tree));
    }

    /// An empty one, which keeps the kernel's tree if this one does.
    pub(crate) fn another(&self) -> Self {
        let mut another = Self::default();
        if let Some(tree) = &self.tree {
            another.keep_tree(tree.augmentation());
        }
        another
    }

    /// Entries and runs that were compared or moved so far, to put in, take out or pick: what it costs, counted instead of timed.
    pub const fn operations(&self) -> u64 {
        self.operations.get()
    }

    #[inline]
    fn count(&self, operations: u64) {
        self.operations.set(self.operations.get() + operations);
    }

    /// How many entities are queued. O(1).
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether nothing is queued. O(1).
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Queues an entity behind its equals and gives the sequence by which [`Timeline::remove`] finds it. O(log n).
    #[inline]
    pub fn insert(&mut self, key: Vruntime, vruntime: Vruntime, slice: u64, entity: EntityId) -> u64 {
        let sequence = self.arrivals;
        self.arrivals += 1;
        if self.length < self.few_at_most && self.len() == self.few.all().len() {
            let moved = self.few.insert(Entry { key, sequence, vruntime, slice, entity });
            self.count(1 + moved);
        } else {
            self.insert_among_many(key, sequence, vruntime, slice, entity);
        }
        self.length += 1;
        sequence
    }

    /// The same where there are, or were, too many to stand in a row. An entry that is given as a whole would be put together in memory,
    /// whence it is read in longer words than it was written in, which takes long.
    #[inline(never)]
    fn insert_among_many(&mut self, key: Vruntime, sequence: u64, vruntime: Vruntime, slice: u64, entity: EntityId) {
        if !self.few.is_empty() {
            self.few.take().all().iter().for_each(|entry| self.insert_in_run(*entry));
        }
        let entry = Entry { key, sequence, vruntime, slice, entity };
        if let Some(tree) = &mut self.tree {
            tree.insert(entry);
        }
        self.insert_in_run(entry);
    }

    fn insert_in_run(&mut self, Entry { key, sequence, vruntime, slice, entity }: Entry) {
        self.slices.add(slice);
        if self.runs.is_empty() {
            self.runs.push_back(Run::of(Ring::default()));
        }
        if let Some(run) = self.runs.back_mut()
            && run.entries.len() < RING - 1
            && run.entries.back().is_some_and(|last| last.before(key, sequence))
        {
            // Behind all others.
            run.least = run.least.min(vruntime);
            run.entries.push_back(Entry { key, sequence, vruntime, slice, entity });
            self.count(1);
            return;
        }
        let place = self.run_of(key, sequence);
        let run = &mut self.runs[place];
        let before = run.entries.len();
        let position = run.insert(Entry { key, sequence, vruntime, slice, entity });
        self.count(steps(before) + position.min(before - position) as u64 + steps(self.runs.len()));
        let run = &mut self.runs[place];
        if run.entries.len() == RING {
            self.operations.set(self.operations.get() + RING as u64);
            let upper = run.entries.split_off(RING / 2);
            run.refresh_least();
            self.runs.insert(place + 1, Run::of(upper));
            self.count(place.min(self.runs.len() - place) as u64);
        }
    }

    /// Takes out the entity that was queued under `key` with `sequence`; false if there is none. O(log n).
    #[inline]
    pub fn remove(&mut self, key: Vruntime, sequence: u64) -> bool {
        if self.few.is_empty() {
            return self.remove_among_many(key, sequence);
        }
        let Some(place) = self.few.all().iter().position(|entry| entry.sequence == sequence) else { return false };
        let moved = self.few.remove(place);
        self.length -= 1;
        self.count(1 + moved);
        true
    }

    fn remove_among_many(&mut self, key: Vruntime, sequence: u64) -> bool {
        if let Some(tree) = &mut self.tree {
            tree.remove(key, sequence);
        }
        let Some(first) = self.runs.front_mut() else { return false };
        if first.entries.len() > 1 && first.entries.front().is_some_and(|entry| entry.sequence == sequence) {
            // The first of all.
            let slice = first.take_first();
            self.slices.remove(slice);
            self.length -= 1;
            self.count(1);
            return true;
        }
        let place = self.run_of(key, sequence);
        let run = &mut self.runs[place];
        let before = run.entries.len();
        let Some((position, slice)) = run.remove(key, sequence) else { return false };
        self.slices.remove(slice);
        self.length -= 1;
        let empty = run.entries.is_empty();
        self.count(steps(before) + position.min(before - position) as u64 + steps(self.runs.len()));
        if empty && self.runs.len() > 1 {
            self.count(place.min(self.runs.len() - place) as u64);
            self.runs.remove(place);
        }
        true
    }

    /// [`Timeline::insert`], and then [`Timeline::remove`] of the first as it was before, which comes no later than the new one. Also
    /// the entity that is first then, with its key. O(log n).
    #[inline(always)]
    pub fn insert_and_take_first(
        &mut self,
        key: Vruntime,
        vruntime: Vruntime,
        slice: u64,
        entity: EntityId,
    ) -> (u64, Option<(EntityId, Vruntime)>) {
        let sequence = self.arrivals;
        if !self.few.is_empty() {
            self.arrivals += 1;
            let moved = self.few.remove(0) + self.few.insert(Entry { key, sequence, vruntime, slice, entity });
            self.count(1 + moved);
            return (sequence, self.few.first().map(|first| (first.entity, first.key)));
        }
        if self.runs.len() == 1
            && self.tree.is_none()
            && let Some(run) = self.runs.front_mut()
            && let Some(next) = run.rotate(key, sequence, vruntime, slice, entity)
        {
            self.arrivals += 1;
            self.count(2);
            return (sequence, Some(next));
        }
        self.insert_and_take_first_of_many(key, vruntime, slice, entity)
    }

    #[inline(never)]
    fn insert_and_take_first_of_many(
        &mut self,
        key: Vruntime,
        vruntime: Vruntime,
        slice: u64,
        entity: EntityId,
    ) -> (u64, Option<(EntityId, Vruntime)>) {
        let first = self.runs.front().and_then(|run| run.entries.front()).copied();
        let sequence = self.insert(key, vruntime, slice, entity);
        if let Some(first) = first {
            self.remove(first.key, first.sequence);
        }
        (sequence, self.first_with_key())
    }

    /// Gives a queued entity another slice; its place stays. O(log n).
    pub fn set_slice(&mut self, key: Vruntime, sequence: u64, slice: u64) {
        if let Some(entry) = self.few.all_mut().iter_mut().find(|entry| entry.sequence == sequence) {
            entry.slice = slice;
            return;
        }
        if self.runs.is_empty() {
            return;
        }
        let place = self.run_of(key, sequence);
        let run = &mut self.runs[place];
        let position = run.entries.partition_point(|queued| queued.before(key, sequence));
        if let Some(entry) = run.entries.get_mut(position).filter(|entry| entry.sequence == sequence) {
            let before = std::mem::replace(&mut entry.slice, slice);
            self.slices.remove(before);
            self.slices.add(slice);
            if let Some(tree) = &mut self.tree {
                tree.set_slice(key, sequence, slice);
            }
        }
    }

    /// The last run that does not start after the given place.
    #[inline]
    fn run_of(&self, key: Vruntime, sequence: u64) -> usize {
        if self.runs.len() == 1 {
            return 0;
        }
        let starts = |run: &Run| {
            run.entries.front().is_none_or(|first| first.before(key, sequence) || first.sequence == sequence)
        };
        self.runs.partition_point(starts).saturating_sub(1)
    }

    #[inline(always)]
    fn first_entry(&self) -> Option<&Entry> {
        if self.length == 0 {
            return None;
        }
        // Not `or_else`, which is not inlined.
        match self.few.first() {
            Some(first) => Some(first),
            None => self.runs.front()?.entries.front(),
        }
    }

    /// The first entity. O(1).
    #[inline]
    pub fn first(&self) -> Option<EntityId> {
        self.first_entry().map(|entry| entry.entity)
    }

    /// The key of the first entity. O(1).
    #[inline]
    pub fn first_key(&self) -> Option<Vruntime> {
        self.first_entry().map(|entry| entry.key)
    }

    /// The first entity and its key. O(1).
    #[inline]
    pub fn first_with_key(&self) -> Option<(EntityId, Vruntime)> {
        self.first_entry().map(|entry| (entry.entity, entry.key))
    }

    /// The second entity. O(1).
    pub fn second(&self) -> Option<EntityId> {
        self.iter().nth(1)
    }

    /// The last entity. O(1).
    pub fn last(&self) -> Option<EntityId> {
        self.few.all().last().or_else(|| self.runs.back()?.entries.back()).map(|entry| entry.entity)
    }

    /// The first entity whose `vruntime` is eligible, where eligibility only ends with growing `vruntime`. O(runs + run), unless
    /// those that were eligible have just left.
    pub fn first_eligible(&self, eligible: impl Fn(Vruntime) -> bool) -> Option<EntityId> {
        self.first_eligible_with_key(eligible).map(|(entity, _)| entity)
    }

    /// The same and its key.
    #[inline(always)]
    pub fn first_eligible_with_key(&self, eligible: impl Fn(Vruntime) -> bool) -> Option<(EntityId, Vruntime)> {
        let few = self.few.all();
        if few.is_empty() {
            return self.first_eligible_among_many(eligible);
        }
        let mut looked = 0;
        let found = few.iter().find(|entry| {
            looked += 1;
            eligible(entry.vruntime)
        });
        self.count(looked);
        found.map(|entry| (entry.entity, entry.key))
    }

    /// The same where there are, or were, too many to stand in a row.
    #[inline(never)]
    fn first_eligible_among_many(&self, eligible: impl Fn(Vruntime) -> bool) -> Option<(EntityId, Vruntime)> {
        let mut looked = 0;
        for run in &self.runs {
            looked += 1;
            if eligible(run.least) {
                let found = run.entries.iter().position(|entry| eligible(entry.vruntime));
                looked += found.unwrap_or(run.entries.len());
                if let Some(place) = found {
                    self.count(looked as u64);
                    return run.entries.get(place).map(|entry| (entry.entity, entry.key));
                }
            }
        }
        self.count(looked as u64);
        None
    }

    /// The shortest slice of all, in nanoseconds, as the kernel's augmented `min_slice`. O(1).
    #[inline]
    pub fn shortest_slice(&self) -> Option<u64> {
        let few = self.few.all().iter().map(|entry| entry.slice).min();
        few.or_else(|| self.tree.as_ref().map_or_else(|| self.slices.shortest(), |tree| tree.shortest()))
    }

    /// The longest slice of all, in nanoseconds, as `max_slice` (7.0 on, 6.18.17). O(1).
    #[inline]
    pub fn longest_slice(&self) -> Option<u64> {
        let few = self.few.all().iter().map(|entry| entry.slice).max();
        few.or_else(|| self.tree.as_ref().and_then(|tree| tree.longest())).or_else(|| self.slices.longest())
    }

    /// All entities in order.
    pub fn iter(&self) -> impl Iterator<Item = EntityId> {
        self.few.all().iter().chain(self.runs.iter().flat_map(|run| run.entries.iter())).map(|entry| entry.entity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain sorted list: stable insertion by signed difference, removal by identity.
        #[test]
        fn it_orders_as_a_stable_sorted_list(
            base: u64,
            steps in proptest::collection::vec((proptest::bool::weighted(0.7), 0u64..50, 0usize..300), 1..900),
        ) {
            let mut timeline = Timeline::default();
            let mut model: Vec<(u64, u64, u32)> = Vec::new();
            for (number, (insert, offset, which)) in steps.into_iter().enumerate() {
                if which % 5 == 4 && model.first().is_some_and(|(first, _, _)| *first <= offset) {
                    let (key, slice) = (Vruntime(base.wrapping_add(offset)), offset ^ 5);
                    let id = number as u32;
                    let (sequence, next) =
                        timeline.insert_and_take_first(key, Vruntime(offset ^ 21), slice, EntityId(id));
                    let position = model.partition_point(|(queued, _, _)| *queued <= offset);
                    model.insert(position, (offset, sequence, id));
                    model.remove(0);
                    prop_assert_eq!(next, timeline.first_with_key());
                } else if insert || model.is_empty() {
                    let sequence = timeline.insert(
                        Vruntime(base.wrapping_add(offset)), Vruntime(offset ^ 21), offset ^ 5, EntityId(number as u32),
                    );
                    let position = model.partition_point(|(queued, _, _)| *queued <= offset);
                    model.insert(position, (offset, sequence, number as u32));
                } else {
                    let (offset, sequence, _) = model.remove(which % model.len());
                    prop_assert!(timeline.remove(Vruntime(base.wrapping_add(offset)), sequence));
                    prop_assert!(!timeline.remove(Vruntime(base.wrapping_add(offset)), sequence));
                }
                let expected: Vec<_> = model.iter().map(|(_, _, id)| EntityId(*id)).collect();
                prop_assert_eq!(timeline.iter().collect::<Vec<_>>(), expected.clone());
                prop_assert_eq!(timeline.first(), expected.first().copied());
                prop_assert_eq!(timeline.second(), expected.get(1).copied());
                prop_assert_eq!(timeline.last(), expected.last().copied());
                prop_assert_eq!(timeline.len(), expected.len());
                let shortest = model.iter().map(|(offset, _, _)| offset ^ 5).min();
                prop_assert_eq!(timeline.shortest_slice(), shortest);
                let longest = model.iter().map(|(offset, _, _)| offset ^ 5).max();
                prop_assert_eq!(timeline.longest_slice(), longest);
                let eligible = |vruntime: Vruntime| vruntime.0 <= 20;
                let first = model.iter().find(|(offset, _, _)| offset ^ 21 <= 20).map(|(_, _, id)| EntityId(*id));
                prop_assert_eq!(timeline.first_eligible(eligible), first);
            }
        }
    }
}
