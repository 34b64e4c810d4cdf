//! Sleepers' timers.

mod expiries;
mod near;
mod wheels;

use crate::event_queue::{Key, Kind};
pub(crate) use expiries::Expiries;
use near::Near;
use wheels::Wheels;

/// Timers in the order in which they expire, equal ones in the order of their tasks.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    near: Near,
    wheels: Wheels,
}

impl Timers {
    pub(crate) fn clear(&mut self) {
        self.near.clear();
        self.wheels.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.near.first() == Key::NEVER && self.wheels.is_empty()
    }

    /// Whether the task of any timer is as asked. O(slots + timers).
    pub(crate) fn any(&self, is: impl Fn(u32) -> bool) -> bool {
        self.near.any(&is) || self.wheels.any(&is)
    }

    /// When the first expires; [`Key::NEVER`] if there is none. O(1).
    #[inline(always)]
    pub(crate) fn first(&self) -> Key {
        self.near.first().min(self.wheels.first())
    }

    /// Sets a task's timer, `duration` from now, which is no earlier than the last one expired and no later than the first one will. O(1).
    #[inline(always)]
    pub(crate) fn push(&mut self, now: u64, duration: u64, task: u32) {
        if !self.near.push(now, duration, task) {
            self.wheels.push(Key::new(now.saturating_add(duration), Kind::Timer), task);
        }
    }

    /// Removes the first timer, which must exist, and returns its task. O(1), or O(levels of the wheels) on average.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> u32 {
        if self.near.first() < self.wheels.first() { self.near.pop() } else { self.pop_of_wheels() }
    }

    /// Whose timer expires next, as far as that is known: it is a guess, and need not have one.
    #[inline(always)]
    pub(crate) fn likely_next(&self) -> u32 {
        self.near.first_task()
    }

    /// [`Timers::pop`] where the first of the wheels is no later than the first of the near ones.
    #[inline(never)]
    fn pop_of_wheels(&mut self) -> u32 {
        let both = self.near.first() == self.wheels.first() && self.near.first() != Key::NEVER;
        if both && self.near.first_task() < self.wheels.first_task() { self.near.pop() } else { self.wheels.pop() }
    }

    /// Timers that were looked at or moved so far.
    pub(crate) fn operations(&self) -> u64 {
        self.near.operations + self.wheels.operations
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event_queue::NEVER;

    /// Runs `steps` (how far ahead a timer is set, or that the first one expires) on the wheels and on a sorted set.
    fn compare(steps: Vec<Option<u64>>) -> Result<(), TestCaseError> {
        let mut timers = Timers::default();
        let mut model = std::collections::BTreeSet::new();
        // Time does not go back.
        let mut now = 0;
        for (task, step) in (0u32..).zip(steps) {
            if let Some(ahead) = step {
                let time = (now + ahead).min(NEVER - 1);
                // Tasks in no order.
                let task = task.wrapping_mul(0x9e37_79b9);
                timers.push(now, time - now, task);
                model.insert((time, task));
            } else {
                let first = model.pop_first();
                now = first.map_or(now, |(time, _)| time);
                if let Some((_, task)) = first {
                    prop_assert_eq!(timers.pop(), task);
                }
            }
            let first = model.first().map_or(Key::NEVER, |(time, _)| Key::new(*time, Kind::Timer));
            prop_assert_eq!((timers.first(), timers.is_empty()), (first, model.is_empty()));
        }
        let asked = std::cell::RefCell::new(Vec::new());
        let none = |task| {
            asked.borrow_mut().push(task);
            false
        };
        prop_assert!(!timers.any(none));
        let (mut asked, mut all) = (asked.into_inner(), model.iter().map(|(_, task)| *task).collect::<Vec<_>>());
        asked.sort_unstable();
        all.sort_unstable();
        prop_assert_eq!(&asked, &all);
        prop_assert!(all.iter().all(|one| timers.any(|task| task == *one)));
        Ok(())
    }

    proptest! {
        #[test]
        fn they_expire_in_order(
            steps in prop::collection::vec(prop::option::of(prop_oneof![0u64..40, 0..20_000_000u64, 0..1u64 << 61]), 1..300),
        ) {
            compare(steps)?;
        }

        /// So many that slots go to lower levels, and come before what was put in order already.
        #[test]
        fn many_expire_in_order(
            far in prop_oneof![Just(1u64), Just(100), Just(100_000), Just(20_000_000)],
            steps in prop::collection::vec(prop::option::weighted(0.6, 0u64..1_000_000), 300..1500),
        ) {
            compare(steps.into_iter().map(|step| step.map(|ahead| ahead % far)).collect())?;
        }
    }
}
