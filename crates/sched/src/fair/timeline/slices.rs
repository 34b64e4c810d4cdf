//! The slices of all who wait on a fair queue.

/// Slices, each with how many entries have it, in ascending order: mostly there is one.
#[derive(Debug, Clone, Default)]
pub(super) struct Slices(Vec<(u64, u32)>);

impl Slices {
    #[inline]
    pub(super) fn add(&mut self, slice: u64) {
        // Nearly always the one that is there.
        if let [(only, count)] = &mut self.0[..]
            && *only == slice
        {
            *count += 1;
            return;
        }
        match self.0.binary_search_by_key(&slice, |(slice, _)| *slice) {
            Ok(place) => self.0[place].1 += 1,
            Err(place) => self.0.insert(place, (slice, 1)),
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, slice: u64) {
        if let [(only, count @ 2..)] = &mut self.0[..]
            && *only == slice
        {
            *count -= 1;
            return;
        }
        if let Ok(place) = self.0.binary_search_by_key(&slice, |(slice, _)| *slice) {
            self.0[place].1 -= 1;
            if self.0[place].1 == 0 {
                self.0.remove(place);
            }
        }
    }

    #[inline]
    pub(super) fn shortest(&self) -> Option<u64> {
        self.0.first().map(|(slice, _)| *slice)
    }

    #[inline]
    pub(super) fn longest(&self) -> Option<u64> {
        self.0.last().map(|(slice, _)| *slice)
    }
}
