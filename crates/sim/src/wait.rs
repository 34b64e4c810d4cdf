//! Wait queues: lists of sleeping tasks, threaded through one array of links, so that waiting allocates nothing.

/// No task, no CPU; ends a list.
pub(crate) const NONE: u32 = u32::MAX;

/// `wait_queue_head`: the tasks that sleep here, in the order in which they are woken.
///
/// A task waits in one queue at most, so one link a task (`next`, by task) serves all queues of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitQueue {
    first: u32,
    last: u32,
}

impl WaitQueue {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    /// Queues an exclusive waiter: behind all others (`prepare_to_wait_exclusive`).
    pub(crate) fn push_back(&mut self, task: u32, next: &mut [u32]) {
        next[task as usize] = NONE;
        match self.last {
            NONE => self.first = task,
            last => next[last as usize] = task,
        }
        self.last = task;
    }

    /// Queues a waiter that is not exclusive: before all others (`prepare_to_wait`, `add_wait_queue`).
    pub(crate) fn push_front(&mut self, task: u32, next: &mut [u32]) {
        next[task as usize] = self.first;
        if self.first == NONE {
            self.last = task;
        }
        self.first = task;
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.first == NONE
    }

    /// The task that is woken first, [`NONE`] without any.
    pub(crate) const fn first(self) -> u32 {
        self.first
    }

    /// Takes out the one with the least rank, the first of equal ones. O(n).
    pub(crate) fn pop_least(&mut self, next: &mut [u32], rank: impl Fn(u32) -> u32) -> Option<u32> {
        let (mut least, mut before) = (None, NONE);
        let (mut task, mut previous) = (self.first, NONE);
        while task != NONE {
            let rank = rank(task);
            if least.is_none_or(|(known, _)| rank < known) {
                (least, before) = (Some((rank, task)), previous);
            }
            (previous, task) = (task, next[task as usize]);
        }
        let (_, task) = least?;
        let after = next[task as usize];
        match before {
            NONE => self.first = after,
            before => next[before as usize] = after,
        }
        if self.last == task {
            self.last = before;
        }
        Some(task)
    }

    /// Whether a task waits here. O(n).
    pub(crate) fn contains(&self, task: u32, next: &[u32]) -> bool {
        let mut place = self.first;
        while place != NONE && place != task {
            place = next[place as usize];
        }
        place == task
    }

    /// The least rank of the waiting tasks, if there is any. O(n).
    pub(crate) fn least(&self, next: &[u32], rank: impl Fn(u32) -> u32) -> Option<u32> {
        let first = Some(self.first).filter(|first| *first != NONE);
        let after = |task: &u32| Some(next[*task as usize]).filter(|next| *next != NONE);
        std::iter::successors(first, after).map(rank).min()
    }

    /// Takes out the first.
    #[inline]
    pub(crate) fn pop(&mut self, next: &[u32]) -> Option<u32> {
        let first = self.first;
        if first == NONE {
            return None;
        }
        self.first = next[first as usize];
        if self.first == NONE {
            self.last = NONE;
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_waiters_leave_first_come_first_served_and_others_the_other_way_round() {
        let mut next = vec![NONE; 4];
        let mut queue = WaitQueue::EMPTY;
        queue.push_back(0, &mut next);
        queue.push_back(1, &mut next);
        queue.push_front(2, &mut next);
        queue.push_front(3, &mut next);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(&next)).collect();
        assert_eq!(order, [3, 2, 0, 1]);
        assert_eq!(queue, WaitQueue::EMPTY);
        queue.push_front(1, &mut next);
        queue.push_back(0, &mut next);
        assert_eq!([queue.pop(&next), queue.pop(&next), queue.pop(&next)], [Some(1), Some(0), None]);
    }

    #[test]
    fn the_most_urgent_leaves_first_and_equals_in_their_order() {
        let mut next = vec![NONE; 5];
        let mut queue = WaitQueue::EMPTY;
        (0..5).for_each(|task| queue.push_back(task, &mut next));
        // Ranks of tasks 0 to 4.
        let rank = |task: u32| [2, 1, 2, 1, 0][task as usize];
        assert_eq!(queue.least(&next, rank), Some(0));
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop_least(&mut next, rank)).collect();
        assert_eq!(order, [4, 1, 3, 0, 2]);
        assert_eq!((queue, queue.least(&next, rank)), (WaitQueue::EMPTY, None));
    }
}
