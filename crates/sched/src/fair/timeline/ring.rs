//! Where a run of a timeline stands: a ring of a fixed length, whose places are found without a bound that would have to be checked.

use crate::fair::timeline::Entry;

/// A ring holds at most so many entries.
pub(super) const RING: usize = 64;

/// Entries in order, of which those at either end come and go most: taking out and putting in move whatever lies towards the nearer end.
#[derive(Debug, Clone)]
pub(super) struct Ring {
    places: Box<[Entry; RING]>,
    /// The place of the first one.
    first: usize,
    length: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self { places: Box::new([Entry::NO_TASK; RING]), first: 0, length: 0 }
    }
}

impl Ring {
    #[inline(always)]
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline(always)]
    const fn at(&self, position: usize) -> &Entry {
        &self.places[self.first.wrapping_add(position) % RING]
    }

    #[inline(always)]
    const fn at_mut(&mut self, position: usize) -> &mut Entry {
        &mut self.places[self.first.wrapping_add(position) % RING]
    }

    #[inline(always)]
    pub(super) const fn get(&self, position: usize) -> Option<&Entry> {
        if position < self.length { Some(self.at(position)) } else { None }
    }

    #[inline(always)]
    pub(super) const fn get_mut(&mut self, position: usize) -> Option<&mut Entry> {
        if position < self.length { Some(self.at_mut(position)) } else { None }
    }

    #[inline(always)]
    pub(super) const fn front(&self) -> Option<&Entry> {
        self.get(0)
    }

    #[inline(always)]
    pub(super) const fn back(&self) -> Option<&Entry> {
        self.get(self.length.wrapping_sub(1))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        (0..self.length).map(|position| self.at(position))
    }

    /// The first of those that are not `before`, which come last.
    pub(super) fn partition_point(&self, before: impl Fn(&Entry) -> bool) -> usize {
        let (mut low, mut high) = (0, self.length);
        while low < high {
            let middle = usize::midpoint(low, high);
            if before(self.at(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Puts one in behind all others, where there is room.
    #[inline(always)]
    pub(super) const fn push_back(&mut self, entry: Entry) {
        debug_assert!(self.length < RING);
        *self.at_mut(self.length) = entry;
        self.length += 1;
    }

    /// Takes the first one out and puts one in behind all others.
    #[inline(always)]
    pub(super) const fn rotate_in(&mut self, entry: Entry) {
        *self.at_mut(self.length) = entry;
        self.first = (self.first + 1) % RING;
    }

    /// Puts one in at a position, where there is room.
    pub(super) fn insert(&mut self, position: usize, entry: Entry) {
        debug_assert!(position <= self.length && self.length < RING);
        if position < self.length - position {
            self.first = self.first.wrapping_sub(1) % RING;
            for place in 0..position {
                *self.at_mut(place) = *self.at(place + 1);
            }
        } else {
            for place in (position..self.length).rev() {
                *self.at_mut(place + 1) = *self.at(place);
            }
        }
        *self.at_mut(position) = entry;
        self.length += 1;
    }

    /// Takes out the one at a position.
    pub(super) fn remove(&mut self, position: usize) -> Option<Entry> {
        let entry = *self.get(position)?;
        if position < self.length - 1 - position {
            for place in (0..position).rev() {
                *self.at_mut(place + 1) = *self.at(place);
            }
            self.first = (self.first + 1) % RING;
        } else {
            for place in position..self.length - 1 {
                *self.at_mut(place) = *self.at(place + 1);
            }
        }
        self.length -= 1;
        Some(entry)
    }

    /// Takes out all from a position on.
    pub(super) fn split_off(&mut self, position: usize) -> Self {
        let mut upper = Self::default();
        (position..self.length).for_each(|place| upper.push_back(*self.at(place)));
        self.length = position.min(self.length);
        upper
    }
}
