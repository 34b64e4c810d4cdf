//! The few that mostly wait on a fair queue, in their order, without a search.

use crate::fair::timeline::Entry;

/// So many at most.
pub(super) const FEW: usize = 4;

/// Entries in the order of their keys, those that came first before their equals.
#[derive(Debug, Clone)]
pub(super) struct Few {
    entries: [Entry; FEW],
    length: usize,
}

impl Default for Few {
    fn default() -> Self {
        Self { entries: [Entry::NO_TASK; FEW], length: 0 }
    }
}

impl Few {
    #[inline(always)]
    pub(super) fn all(&self) -> &[Entry] {
        &self.entries[..self.length.min(FEW)]
    }

    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> &mut [Entry] {
        &mut self.entries[..self.length.min(FEW)]
    }

    #[inline(always)]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.all().first()
    }

    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Puts in one that came after all others, where there is room: how many were moved for it.
    #[inline(always)]
    pub(super) fn insert(&mut self, entry: Entry) -> u64 {
        let last = self.length.min(FEW - 1);
        let mut place = last;
        while place > 0 && entry.key.before(self.entries[place - 1].key) {
            self.entries[place] = self.entries[place - 1];
            place -= 1;
        }
        self.entries[place] = entry;
        self.length = last + 1;
        (last - place) as u64
    }

    /// Takes out the one at a place: how many were moved for it.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: usize) -> u64 {
        let last = (self.length - 1).min(FEW - 1);
        for next in place..last {
            self.entries[next] = self.entries[next + 1];
        }
        self.length = last;
        last.saturating_sub(place) as u64
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
