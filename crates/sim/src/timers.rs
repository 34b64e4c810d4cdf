//! Sleepers' timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::agenda::Key;

/// Timers in the order in which they expire, equal ones in the order of their tasks.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// The key over the task's number, as one number, which compares faster than the pair.
    heap: BinaryHeap<Reverse<u128>>,
}

impl Timers {
    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// When the first expires; [`Key::NEVER`] if there is none. O(1).
    #[inline]
    pub(crate) fn first(&self) -> Key {
        self.heap.peek().map_or(Key::NEVER, |Reverse(timer)| Key::from_bits((timer >> 32) as u64))
    }

    /// Sets a task's timer. O(log n), and O(1) on average.
    pub(crate) fn push(&mut self, key: Key, task: u32) {
        self.heap.push(Reverse(u128::from(key.to_bits()) << 32 | u128::from(task)));
    }

    /// Takes the first timer away: whose it was. O(log n).
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.heap.pop().map(|Reverse(timer)| timer as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agenda::Kind;

    proptest! {
        #[test]
        fn they_expire_in_order(steps in prop::collection::vec(prop::option::of(0u64..40), 1..300)) {
            let mut timers = Timers::default();
            let mut model = std::collections::BTreeSet::new();
            for (task, step) in (0u32..).zip(steps) {
                if let Some(time) = step {
                    timers.push(Key::new(time, Kind::Timer), task);
                    model.insert((time, task));
                } else {
                    prop_assert_eq!(timers.pop(), model.pop_first().map(|(_, task)| task));
                }
                let first = model.first().map_or(Key::NEVER, |(time, _)| Key::new(*time, Kind::Timer));
                prop_assert_eq!((timers.first(), timers.is_empty()), (first, model.is_empty()));
            }
        }
    }
}
