//! `rw_semaphore`: a lock that one writer or several readers hold, as tasks sleep for it that go on with what they do.
//!
//! A task takes it where it can, also past tasks that wait (optimistic spinning and lock stealing, `kernel/locking/rwsem.c`; on a task that does not
//! run none spins). One that releases it for others to take wakes the first task that waits: a writer has to take it itself once it runs, and may
//! find it taken again; readers are given it, all of those that wait. The handoff to tasks that have waited for 4 ms is not simulated.

use std::collections::VecDeque;

/// How a task takes the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Read,
    Write,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RwSem {
    readers: u32,
    writer: bool,
    waiters: VecDeque<(u32, Hold)>,
    /// Tasks that were given it and have not noticed that.
    granted: Vec<u32>,
}

impl RwSem {
    /// Whether a task that asks for it now gets it.
    pub(crate) fn is_free_for(&self, task: u32, hold: Hold) -> bool {
        match hold {
            Hold::Read => !self.writer || self.granted.contains(&task),
            Hold::Write => !self.writer && self.readers == 0,
        }
    }

    /// `down_read`, `down_write`: the task holds it, or (false) waits for it.
    pub(crate) fn take(&mut self, task: u32, hold: Hold) -> bool {
        if let Some(place) = self.granted.iter().position(|given| *given == task) {
            self.granted.swap_remove(place);
            return true;
        }
        let waits = self.waiters.iter().position(|(waiter, _)| *waiter == task);
        if !self.is_free_for(task, hold) {
            if waits.is_none() {
                self.waiters.push_back((task, hold));
            }
            return false;
        }
        if let Some(place) = waits {
            self.waiters.remove(place);
        }
        match hold {
            Hold::Read => self.readers += 1,
            Hold::Write => self.writer = true,
        }
        true
    }

    /// `up_read`, `up_write`: the tasks that are to be woken for it, in their order.
    pub(crate) fn release(&mut self, hold: Hold) -> Vec<u32> {
        match hold {
            Hold::Read => self.readers -= 1,
            Hold::Write => self.writer = false,
        }
        if self.readers > 0 {
            return Vec::new();
        }
        match self.waiters.front() {
            None => Vec::new(),
            Some((writer, Hold::Write)) => vec![*writer],
            Some(_) => {
                let given: Vec<u32> =
                    self.waiters.iter().filter(|(_, hold)| *hold == Hold::Read).map(|(task, _)| *task).collect();
                self.waiters.retain(|(_, hold)| *hold == Hold::Write);
                self.readers = given.len() as u32;
                self.granted.extend(&given);
                given
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_is_woken_may_find_the_lock_taken_again() {
        let mut lock = RwSem::default();
        assert!(lock.take(1, Hold::Write));
        assert!(!lock.take(2, Hold::Write));
        assert_eq!(lock.release(Hold::Write), [2]);
        // Task 1 still runs, and takes it again.
        assert!(lock.take(1, Hold::Write));
        assert!(!lock.take(2, Hold::Write));
        // It waits once: the next release wakes it again.
        assert_eq!(lock.release(Hold::Write), [2]);
        assert!(lock.take(2, Hold::Write));
        assert!(lock.release(Hold::Write).is_empty());
    }

    #[test]
    fn readers_that_wait_are_given_the_lock_all_at_once() {
        let mut lock = RwSem::default();
        assert!(lock.take(1, Hold::Write));
        for (task, hold) in [(2, Hold::Read), (3, Hold::Write), (4, Hold::Read)] {
            assert!(!lock.take(task, hold));
        }
        assert_eq!(lock.release(Hold::Write), [2, 4]);
        // They hold it before they run: the task that gave it does not get it back for writing, and queues behind task 3.
        assert!(!lock.take(1, Hold::Write));
        assert!(lock.take(2, Hold::Read) && lock.take(4, Hold::Read));
        assert!(lock.release(Hold::Read).is_empty());
        assert_eq!(lock.release(Hold::Read), [3]);
    }

    #[test]
    fn a_reader_takes_the_lock_past_a_writer_that_waits_for_readers() {
        let mut lock = RwSem::default();
        assert!(lock.take(1, Hold::Read));
        assert!(!lock.take(2, Hold::Write));
        assert!(lock.take(3, Hold::Read));
        assert!(lock.release(Hold::Read).is_empty());
        assert_eq!(lock.release(Hold::Read), [2]);
    }
}
