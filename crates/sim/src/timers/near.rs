//! The next while's timers: where most sleeps of a busy machine end.

use crate::agenda::{Key, Kind};

/// Nanoseconds of a slot, as a power of 2: 33 µs, in which few timers expire, so that each is put in its place as it is set.
const BITS: u32 = 15;

/// From one slot's beginning to the next one's.
const WIDTH: u64 = 1 << BITS;

/// Slots, for 34 ms in all: each is used again as soon as time has passed it.
const SLOTS: usize = 1 << 10;

/// Words of 64 slots each.
const WORDS: usize = SLOTS / 64;

/// Words of a slot, a cache line: how many timers it has, and so many, the first to expire as the last one. Each is in nanoseconds from the
/// slot's beginning on over its task.
const WIDE: usize = 8;

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Slot([u64; WIDE]);

impl Slot {
    /// Its first timer to expire, if it has any.
    #[inline(always)]
    const fn first(&self) -> u64 {
        self.0[self.0[0] as usize % WIDE]
    }
}

/// A calendar (Brown 1988) of which a slot holds a few timers at most; whatever does not fit has to be elsewhere.
#[derive(Debug)]
pub(super) struct Near {
    slots: Box<[Slot; SLOTS]>,
    /// Which slots have any.
    occupied: [u64; WORDS],
    /// The first to expire.
    first: Key,
    /// Timers that were looked at or moved so far.
    pub(super) operations: u64,
}

impl Default for Near {
    fn default() -> Self {
        Self { slots: Box::new([Slot([0; WIDE]); SLOTS]), occupied: [0; WORDS], first: Key::NEVER, operations: 0 }
    }
}

impl Near {
    pub(super) fn clear(&mut self) {
        while self.first != Key::NEVER {
            self.pop();
        }
        self.operations = 0;
    }

    /// When the first expires; [`Key::NEVER`] if there is none.
    #[inline(always)]
    pub(super) const fn first(&self) -> Key {
        self.first
    }

    /// Whose the first one is, of those that there are.
    pub(super) fn first_task(&self) -> u32 {
        self.slots[slot_of(self.first.time())].first() as u32
    }

    /// Sets a timer that expires so long after now; false, and nothing done, if there is no room for it.
    #[inline(always)]
    pub(super) fn push(&mut self, now: u64, duration: u64, task: u32) -> bool {
        // Further ahead a slot is still that of an earlier time.
        if duration > WIDTH * (SLOTS as u64 - 1) {
            return false;
        }
        let time = now + duration;
        let number = slot_of(time);
        let slot = &mut self.slots[number].0;
        let (count, timer) = (slot[0] as usize, (time % WIDTH) << 32 | u64::from(task));
        if count >= WIDE - 1 {
            return false;
        }
        self.operations += 1;
        let mut place = count + 1;
        while place > 1 && slot[place - 1] < timer {
            slot[place] = slot[place - 1];
            place -= 1;
            self.operations += 1;
        }
        slot[place] = timer;
        slot[0] = count as u64 + 1;
        self.occupied[number / 64] |= 1 << (number % 64);
        self.first = self.first.min(Key::at(time, Kind::Timer));
        true
    }

    /// Takes the first timer away, of those that there are: whose it was.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> u32 {
        let now = self.first.time();
        let (mut began, number) = (now & !(WIDTH - 1), slot_of(now));
        let slot = &mut self.slots[number];
        let task = slot.first() as u32;
        slot.0[0] = slot.0[0].wrapping_sub(1);
        let mut first = slot.first();
        if slot.0[0] == 0 {
            self.occupied[number / 64] &= !(1 << (number % 64));
            let word = number / 64;
            let slots = self.occupied[word] & u64::MAX << (number % 64);
            if slots == 0 {
                self.find_beyond(began, number);
                return task;
            }
            let next = word * 64 + slots.trailing_zeros() as usize % 64;
            began += (next - number) as u64 * WIDTH;
            first = self.slots[next].first();
        }
        self.first = Key::at(began + (first >> 32), Kind::Timer);
        task
    }

    /// Finds the first one in the words after that of the slot of this number, which began then, around to that word itself.
    #[inline(never)]
    fn find_beyond(&mut self, began: u64, number: usize) {
        let mut words = (1..=WORDS).map(|ahead| (number / 64 + ahead) % WORDS);
        let Some(word) = words.find(|word| self.occupied[*word] != 0) else {
            self.first = Key::NEVER;
            return;
        };
        let next = word * 64 + self.occupied[word].trailing_zeros() as usize;
        let ahead = (next.wrapping_sub(number) % SLOTS) as u64;
        self.first = Key::at(began + ahead * WIDTH + (self.slots[next].first() >> 32), Kind::Timer);
    }
}

/// The slot of an instant.
#[inline(always)]
const fn slot_of(time: u64) -> usize {
    (time >> BITS) as usize % SLOTS
}
