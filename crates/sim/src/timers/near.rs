//! The next while's timers: where most sleeps of a busy machine end.

use crate::agenda::{Key, Kind};

/// Nanoseconds of a slot, as a power of 2: 8 µs, in which mostly one timer expires, if any.
const BITS: u32 = 13;

/// From one slot's beginning to the next one's.
const WIDTH: u64 = 1 << BITS;

/// Slots, for 34 ms in all: each is used again as soon as time has passed it.
const SLOTS: usize = WORDS * 64;

/// Words of 64 slots each, as many as a word has bits.
const WORDS: usize = 64;

/// Its timers in the order in which they expire, then zeros. Each is the complement of how far into the slot it expires, in nanoseconds, over its
/// task: the first one is the largest number, and none is zero.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Slot([u64; 4]);

/// A calendar (Brown 1988) of which a slot holds a few timers at most; whatever does not fit has to be elsewhere.
#[derive(Debug)]
pub(super) struct Near {
    slots: Box<[Slot; SLOTS]>,
    /// Which slots have any.
    occupied: [u64; WORDS],
    /// Which words of these may have any.
    words: u64,
    /// The first to expire.
    first: Key,
    /// Timers that were looked at or moved so far.
    pub(super) operations: u64,
}

impl Default for Near {
    fn default() -> Self {
        let slots = Box::new([Slot([0; 4]); SLOTS]);
        Self { slots, occupied: [0; WORDS], words: 0, first: Key::NEVER, operations: 0 }
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
        task_of(self.slots[slot_of(self.first.time())].0[0])
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
        let timer = !((time % WIDTH) << 32 | u64::from(task));
        if self.slots[number].0[0] == 0 {
            self.slots[number].0[0] = timer;
            self.occupied[number / 64] |= 1 << (number % 64);
            self.words |= 1 << (number / 64);
            self.operations += 1;
        } else if !self.push_beside(number, timer) {
            return false;
        }
        self.first = self.first.min(Key::at(time, Kind::Timer));
        true
    }

    /// The same in a slot that has some.
    fn push_beside(&mut self, number: usize, timer: u64) -> bool {
        let slot = &mut self.slots[number].0;
        if slot[3] != 0 {
            return false;
        }
        let mut later = timer;
        for place in slot {
            // Whoever expires later goes on to the next place.
            self.operations += u64::from(later != 0);
            (*place, later) = ((*place).max(later), (*place).min(later));
        }
        true
    }

    /// Takes the first timer away, of those that there are: whose it was.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> u32 {
        let now = self.first.time();
        let number = slot_of(now);
        let [first, second, third, fourth] = self.slots[number].0;
        if second != 0 {
            self.slots[number].0 = [second, third, fourth, 0];
            self.first = key_of(now & !(WIDTH - 1), second);
            return task_of(first);
        }
        self.slots[number].0[0] = 0;
        let word = &mut self.occupied[number / 64];
        *word &= !(1 << (number % 64));
        let later = *word & u64::MAX << (number % 64);
        if later == 0 {
            self.find_beyond(now, number);
            return task_of(first);
        }
        let place = later.trailing_zeros() as usize % 64;
        let begin = (now & !(64 * WIDTH - 1)) + place as u64 * WIDTH;
        self.first = key_of(begin, self.slots[number / 64 * 64 + place].0[0]);
        task_of(first)
    }

    /// Finds the first one in the words after that of the slot of this number, which is that of now, around to that word itself.
    #[inline(never)]
    fn find_beyond(&mut self, now: u64, number: usize) {
        let word = number / 64;
        self.words &= !(u64::from(self.occupied[word] == 0) << word);
        if self.words == 0 {
            self.first = Key::NEVER;
            return;
        }
        let after = (word + 1) % WORDS;
        let ahead = self.words.rotate_right(after as u32).trailing_zeros() as usize;
        let word = (after + ahead) % WORDS;
        let next = word * 64 + self.occupied[word].trailing_zeros() as usize % 64;
        let begin = now / WIDTH + (next.wrapping_sub(number) % SLOTS) as u64;
        self.first = key_of(begin * WIDTH, self.slots[next].0[0]);
    }
}

/// The slot of an instant.
#[inline(always)]
const fn slot_of(time: u64) -> usize {
    (time >> BITS) as usize % SLOTS
}

/// Whose a timer is.
#[inline(always)]
const fn task_of(timer: u64) -> u32 {
    !(timer as u32)
}

/// When a timer expires of a slot that begins then.
#[inline(always)]
const fn key_of(begin: u64, timer: u64) -> Key {
    Key::at(begin + (!timer >> 32), Kind::Timer)
}
