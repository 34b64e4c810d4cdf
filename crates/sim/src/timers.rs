//! Sleepers' timers.

use crate::agenda::{Key, Kind};

/// Bits of a digit: a level has a slot for each value of one.
const BITS: u32 = 6;

/// Levels: one for each digit of a time.
const LEVELS: usize = 64usize.div_ceil(BITS as usize);

/// No timer.
const NONE: u32 = u32::MAX;

/// One timer, in the list of its slot.
#[derive(Debug, Clone, Copy)]
struct Timer {
    time: u64,
    task: u32,
    next: u32,
}

/// Timers whose times have all digits above one in common, that one among them.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Its first timer.
    head: u32,
    /// When the first to expire does.
    least: u64,
}

impl Slot {
    const EMPTY: Self = Self { head: NONE, least: u64::MAX };
}

/// Timers in the order in which they expire, equal ones in the order of their tasks.
///
/// A wheel of wheels (Varghese and Lauck 1987) whose time is that of the timer that expired last, as a radix heap's (Ahuja et al. 1990): a timer
/// is on the level of the highest digit in which it differs from that, in the slot of its value there. So the first one is in the
/// first slot of the lowest level that has any; and when it expires, the others of its slot, and only they, go to lower levels. Each timer
/// moves down at most as often as the time it is ahead has digits, and where few are about it is soon alone in its slot.
#[derive(Debug)]
pub(crate) struct Timers {
    /// When the last timer expired. None is set to before that.
    base: u64,
    slots: Box<[[Slot; 1 << BITS]; LEVELS]>,
    /// Which slots of a level have any, and which levels.
    occupied: [u64; LEVELS],
    levels: u32,
    /// Slots of the lowest level, each of one time, whose tasks are not in their order.
    unsorted: u64,
    timers: Vec<Timer>,
    /// Of those, the first one that is free; `next` is another one.
    free: u32,
    first: Key,
    /// Timers that were looked at or moved so far.
    pub(crate) operations: u64,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            base: 0,
            slots: Box::new([[Slot::EMPTY; 1 << BITS]; LEVELS]),
            occupied: [0; LEVELS],
            levels: 0,
            unsorted: 0,
            timers: Vec::new(),
            free: NONE,
            first: Key::NEVER,
            operations: 0,
        }
    }
}

impl Timers {
    pub(crate) fn clear(&mut self) {
        let timers = std::mem::take(&mut self.timers);
        *self = Self::default();
        self.timers = timers;
        self.timers.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.levels == 0
    }

    /// When the first expires; [`Key::NEVER`] if there is none. O(1).
    #[inline]
    pub(crate) fn first(&self) -> Key {
        self.first
    }

    /// Sets a task's timer, to no earlier than the last one expired. O(1).
    pub(crate) fn push(&mut self, key: Key, task: u32) {
        let time = key.time();
        debug_assert!(time >= self.base, "time went back");
        let timer = Timer { time, task, next: NONE };
        let number = self.free;
        let number = if let Some(place) = self.timers.get_mut(number as usize) {
            self.free = std::mem::replace(place, timer).next;
            number
        } else {
            self.timers.push(timer);
            self.timers.len() as u32 - 1
        };
        self.place(number);
        self.first = self.first.min(key);
    }

    /// Puts a timer where its digits say.
    #[inline]
    fn place(&mut self, number: u32) {
        self.operations += 1;
        let Timer { time, task, .. } = self.timers[number as usize];
        let level = (((time ^ self.base) | 1).ilog2() / BITS) as usize % LEVELS;
        let slot = (time >> (BITS as usize * level)) as usize % (1 << BITS);
        let place = &mut self.slots[level][slot];
        place.least = place.least.min(time);
        let next = std::mem::replace(&mut place.head, number);
        self.timers[number as usize].next = next;
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
        if level == 0 && next != NONE && self.timers[next as usize].task < task {
            self.unsorted |= 1 << slot;
        }
    }

    /// The slot that the first timer is in, of those that there are.
    #[inline]
    fn first_slot(&self) -> (usize, usize) {
        let level = self.levels.trailing_zeros() as usize % LEVELS;
        (level, self.occupied[level].trailing_zeros() as usize % (1 << BITS))
    }

    /// Takes the first timer away: whose it was. O(levels) on average.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.levels == 0 {
            return None;
        }
        let (level, slot) = self.first_slot();
        if level == 0 && self.unsorted >> slot & 1 == 1 {
            self.sort(slot);
        }
        let place = self.slots[level][slot];
        let head = self.timers[place.head as usize];
        self.base = place.least;
        let mut expired = place.head;
        if level == 0 && head.next != NONE {
            self.slots[level][slot].head = head.next;
        } else {
            self.slots[level][slot] = Slot::EMPTY;
            self.occupied[level] &= !(1 << slot);
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
            if level > 0 && head.next != NONE {
                expired = self.spread(expired);
            }
        }
        let task = self.timers[expired as usize].task;
        self.timers[expired as usize].next = std::mem::replace(&mut self.free, expired);
        self.first = if self.levels == 0 {
            Key::NEVER
        } else {
            let (level, slot) = self.first_slot();
            Key::new(self.slots[level][slot].least, Kind::Timer)
        };
        Some(task)
    }

    /// Puts all timers of a list on lower levels but the first to expire, which is due: which one that is.
    fn spread(&mut self, head: u32) -> u32 {
        let (mut expired, mut number) = (NONE, head);
        while let Some(&Timer { time, task, next }) = self.timers.get(number as usize) {
            let other = number;
            number = next;
            if time == self.base {
                let first = self.timers.get(expired as usize).is_none_or(|first| task < first.task);
                let later = if first { std::mem::replace(&mut expired, other) } else { other };
                if later != NONE {
                    self.place(later);
                }
            } else {
                self.place(other);
            }
        }
        expired
    }

    /// Puts the timers of a slot of the lowest level in the order of their tasks.
    fn sort(&mut self, slot: usize) {
        let (mut list, mut number) = (Vec::new(), self.slots[0][slot].head);
        while let Some(timer) = self.timers.get(number as usize) {
            list.push((timer.task, number));
            number = timer.next;
        }
        list.sort_unstable();
        self.operations += list.len() as u64;
        let mut next = NONE;
        for (_, number) in list.into_iter().rev() {
            self.timers[number as usize].next = next;
            next = number;
        }
        self.slots[0][slot].head = next;
        self.unsorted &= !(1 << slot);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agenda::NEVER;

    proptest! {
        #[test]
        fn they_expire_in_order(steps in prop::collection::vec(prop::option::of(prop_oneof![0u64..40, 0..20_000_000u64, 0..1u64 << 61]), 1..300)) {
            let mut timers = Timers::default();
            let mut model = std::collections::BTreeSet::new();
            // Time does not go back.
            let mut now = 0;
            for (task, step) in (0u32..).zip(steps) {
                if let Some(ahead) = step {
                    let time = (now + ahead).min(NEVER - 1);
                    timers.push(Key::new(time, Kind::Timer), task);
                    model.insert((time, task));
                } else {
                    let first = model.pop_first();
                    now = first.map_or(now, |(time, _)| time);
                    prop_assert_eq!(timers.pop(), first.map(|(_, task)| task));
                }
                let first = model.first().map_or(Key::NEVER, |(time, _)| Key::new(*time, Kind::Timer));
                prop_assert_eq!((timers.first(), timers.is_empty()), (first, model.is_empty()));
            }
        }
    }
}
