//! Tables of records that only grow, so that a number that once was a record's is one for ever.

use std::ops::{Deref, DerefMut, Range};

/// Records by number, from 0 on: a `Vec` without the methods that take records out.
///
/// The argument of `known!` (see [`flat`](crate::fast_path)) rests on that.
#[derive(Debug, Clone)]
pub(crate) struct Table<T>(Vec<T>);

impl<T> Table<T> {
    /// Without records, and with room for `capacity`.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    /// One more record; its number is how many there were before.
    pub(crate) fn push(&mut self, record: T) {
        self.0.push(record);
    }

    /// [`Vec::reserve_exact`]; the memory that no record has yet.
    pub(crate) fn reserve(&mut self, additional: usize) -> Range<*const u8> {
        self.0.reserve_exact(additional);
        let unused = self.0.spare_capacity_mut().as_ptr_range();
        unused.start.cast()..unused.end.cast()
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
