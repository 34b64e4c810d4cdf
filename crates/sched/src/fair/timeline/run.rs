//! A stretch of a timeline: entries in order, and the least of their virtual times.

use crate::entity::{EntityId, Vruntime};
use crate::fair::timeline::Entry;
use crate::fair::timeline::ring::Ring;

/// The least `vruntime` of a run is found anew after so many times that it left; until then it is a bound.
const STALE: u32 = 16;

#[derive(Debug, Clone)]
pub(super) struct Run {
    /// A full one is split in halves.
    pub(super) entries: Ring,
    /// No `vruntime` of the run is less: as the kernel's augmented `min_vruntime`, but for entries that left since.
    pub(super) least: Vruntime,
    /// How often an entry with the least `vruntime` left since.
    stale: u32,
}

impl Run {
    pub(super) fn of(entries: Ring) -> Self {
        let mut run = Self { entries, least: Vruntime::default(), stale: 0 };
        run.refresh_least();
        run
    }

    /// The place of an entry, or where one would be put in.
    #[inline]
    fn position(&self, key: Vruntime, sequence: u64) -> usize {
        if self.entries.front().is_none_or(|first| !first.before(key, sequence)) {
            return 0;
        }
        // An entry that goes to the end, or is there, is found as fast.
        match self.entries.back() {
            Some(last) if last.before(key, sequence) => return self.entries.len(),
            Some(last) if last.sequence == sequence => return self.entries.len() - 1,
            _ => {}
        }
        self.entries.partition_point(|queued| queued.before(key, sequence))
    }

    pub(super) fn refresh_least(&mut self) {
        self.stale = 0;
        self.least = self.entries.iter().map(|entry| entry.vruntime).reduce(Vruntime::min).unwrap_or_default();
    }

    /// Puts an entry in its place: which one.
    pub(super) fn insert(&mut self, entry: Entry) -> usize {
        self.least = if self.entries.is_empty() { entry.vruntime } else { self.least.min(entry.vruntime) };
        let position = self.position(entry.key, entry.sequence);
        self.entries.insert(position, entry);
        position
    }

    /// Takes an entry out: from which place, and its slice.
    pub(super) fn remove(&mut self, key: Vruntime, sequence: u64) -> Option<(usize, u64)> {
        let position = self.position(key, sequence);
        self.entries.get(position).filter(|entry| entry.sequence == sequence)?;
        let entry = self.entries.remove(position)?;
        self.left(entry.vruntime);
        Some((position, entry.slice))
    }

    /// Takes the first entry out: its slice.
    #[inline]
    pub(super) fn take_first(&mut self) -> u64 {
        let Some(entry) = self.entries.remove(0) else { return 0 };
        self.left(entry.vruntime);
        entry.slice
    }

    /// Takes the first entry out of the only run, and puts in one that goes behind all others. Returns the entity that is first then, with
    /// its key; none, with nothing changed, where the new entry does not go last or the slices differ.
    #[inline(always)]
    pub(super) fn rotate(
        &mut self,
        key: Vruntime,
        sequence: u64,
        vruntime: Vruntime,
        slice: u64,
        entity: EntityId,
    ) -> Option<(EntityId, Vruntime)> {
        let (first, last) = (self.entries.front()?, self.entries.back()?);
        if first.slice != slice || !last.before(key, sequence) {
            return None;
        }
        self.entries.rotate_in(Entry { key, sequence, vruntime, slice, entity });
        // It stays a bound. Callers of this function go by keys, and do not use it.
        self.least = self.least.min(vruntime);
        self.entries.front().map(|entry| (entry.entity, entry.key))
    }

    #[inline]
    fn left(&mut self, vruntime: Vruntime) {
        self.stale += u32::from(vruntime == self.least);
        if self.stale == STALE {
            self.refresh_least();
        }
    }
}
