//! Wait queues: lists of sleeping tasks, threaded through one array of links, so that waiting allocates nothing.

/// No task, no CPU; ends a list.
pub(crate) const NONE: u32 = u32::MAX;

/// `wait_queue_head`: who sleeps here, in the order in which they are woken.
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
}
