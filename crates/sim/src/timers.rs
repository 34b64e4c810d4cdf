//! Sleepers' timers.

use crate::agenda::Key;

/// Timers in the order in which they expire, equal ones in the order of their tasks.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// A binary heap of which no node is less than its parent. The key over the task's number, as one number, which compares faster than the
    /// pair.
    heap: Vec<u128>,
    /// Nodes that were compared so far.
    pub(crate) operations: u64,
}

impl Timers {
    pub(crate) fn clear(&mut self) {
        self.heap.clear();
        self.operations = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// When the first expires; [`Key::NEVER`] if there is none. O(1).
    #[inline]
    pub(crate) fn first(&self) -> Key {
        self.heap.first().map_or(Key::NEVER, |timer| Key::from_bits((timer >> 32) as u64))
    }

    /// Sets a task's timer. O(log n), and O(1) on average.
    pub(crate) fn push(&mut self, key: Key, task: u32) {
        let timer = u128::from(key.to_bits()) << 32 | u128::from(task);
        self.heap.push(timer);
        self.rise(self.heap.len() - 1, timer);
    }

    /// Takes the first timer away: whose it was. O(log n).
    ///
    /// The hole it leaves goes down to the bottom along the least children, and the last timer from there up to its place: that is
    /// seldom far (Wegener 1993).
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let last = self.heap.pop()?;
        let Some(&first) = self.heap.first() else { return Some(last as u32) };
        let (mut node, mut right) = (0, 2);
        while let Some(&other) = self.heap.get(right) {
            // Which child is less is as good as random: no branch depends on it.
            let child = right - usize::from(self.heap[right - 1] <= other);
            self.heap[node] = self.heap[child];
            self.operations += 1;
            (node, right) = (child, 2 * child + 2);
        }
        if right == self.heap.len() {
            // A last child without a sibling.
            self.heap[node] = self.heap[right - 1];
            node = right - 1;
        }
        self.rise(node, last);
        Some(first as u32)
    }

    /// Puts a timer where its parent is not greater, from this node upwards.
    #[inline]
    fn rise(&mut self, mut node: usize, timer: u128) {
        while node > 0 {
            self.operations += 1;
            let parent = (node - 1) / 2;
            if self.heap[parent] <= timer {
                break;
            }
            self.heap[node] = self.heap[parent];
            node = parent;
        }
        self.heap[node] = timer;
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
