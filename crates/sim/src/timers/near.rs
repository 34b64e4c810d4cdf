//! The next while's timers: where most sleeps of a busy machine end.

use crate::event_queue::{Key, Kind};

/// Nanoseconds of a slot, as a power of 2: 8 µs, in which mostly one timer expires, if any.
const BITS: u32 = 13;

/// From one slot's beginning to the next one's.
const WIDTH: u64 = 1 << BITS;

/// Slots, for 34 ms in all: each is used again as soon as time has passed it.
const SLOTS: usize = WORDS * 64;

/// Words of 64 slots each, as many as a word has bits.
const WORDS: usize = 64;

/// A timer of a slot: how far into the slot it expires, in nanoseconds, over its task. The lesser expires first, of equal times that of the task
/// of the lower number. Above that, from [`LINK`] on, the place of the slot's next one among the others, 0 if there is none.
type Timer = u64;

/// The first bit of a timer's link.
const LINK: u32 = 32 + BITS;

/// Places for others, of which the first is none.
const OTHERS: usize = 4096;

/// Of a slot so many are looked at before it is said to have no room.
const MOST: u64 = 4;

/// A calendar (Brown 1988) of which a slot holds a few timers at most; whatever does not fit has to be elsewhere.
#[derive(Debug)]
pub(super) struct Near {
    /// The first timer of each slot that has any. Those that expire one after the other are beside one another, and mostly there is only this one.
    firsts: Box<[Timer; SLOTS]>,
    /// All others. Those that are free are linked too; whichever became so last is taken first, as it is in the cache.
    others: Box<[Timer; OTHERS]>,
    /// The first that is free, 0 if none is.
    free: usize,
    /// Which slots have any.
    occupied: [u64; WORDS],
    /// Which words of these may have any.
    words: u64,
    /// When the first one expires, and what its slot says of it, which need not be looked up then.
    first: Key,
    first_timer: Timer,
    /// Timers that were looked at or moved so far.
    pub(super) operations: u64,
}

impl Default for Near {
    fn default() -> Self {
        let mut others = Box::new([0; OTHERS]);
        (1..OTHERS - 1).for_each(|place| others[place] = linked(0, place + 1));
        Self {
            firsts: Box::new([0; SLOTS]),
            others,
            free: 1,
            occupied: [0; WORDS],
            words: 0,
            first: Key::NEVER,
            first_timer: 0,
            operations: 0,
        }
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

    /// The task of the first timer; any task where there is no timer.
    #[inline(always)]
    pub(super) const fn first_task(&self) -> u32 {
        task_of(self.first_timer)
    }

    /// Whether the task of any timer is as asked.
    pub(super) fn any(&self, is: impl Fn(u32) -> bool) -> bool {
        let of_slot = |number: usize| {
            let mut timer = self.firsts[number];
            while !is(task_of(timer)) {
                match link_of(timer) {
                    0 => return false,
                    next => timer = self.others[next],
                }
            }
            true
        };
        (0..SLOTS).any(|number| self.occupied[number / 64] & 1 << (number % 64) != 0 && of_slot(number))
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
        let timer = (time % WIDTH) << 32 | u64::from(task);
        let (word, bit) = (&mut self.occupied[number / 64], 1 << (number % 64));
        // Not the slot itself is looked at, for which one would have to wait: others pushed it out of the cache since it was used.
        if *word & bit == 0 {
            *word |= bit;
            self.words |= 1 << (number / 64);
            self.firsts[number] = timer;
            self.operations += 1;
        } else {
            return self.push_beside(time, timer);
        }
        let key = Key::at(time, Kind::Timer);
        if key < self.first {
            (self.first, self.first_timer) = (key, timer);
        }
        true
    }

    /// The same in a slot that has some.
    #[inline(never)]
    fn push_beside(&mut self, time: u64, timer: Timer) -> bool {
        let number = slot_of(time);
        let (place, first) = (self.free, self.firsts[number]);
        if place == 0 {
            return false;
        }
        let (free, mut looked) = (link_of(self.others[place]), 1);
        if timer < unlinked(first) {
            (self.firsts[number], self.others[place]) = (linked(timer, place), first);
        } else {
            // None before it is the slot's first one.
            let (mut before, mut next) = (0, link_of(first));
            while next != 0 && unlinked(self.others[next]) < timer {
                if looked == MOST {
                    return false;
                }
                looked += 1;
                (before, next) = (next, link_of(self.others[next]));
            }
            let earlier = if before == 0 { &mut self.firsts[number] } else { &mut self.others[before] };
            *earlier = linked(unlinked(*earlier), place);
            self.others[place] = linked(timer, next);
        }
        self.free = free;
        self.operations += 1 + looked;
        self.first = self.first.min(Key::at(time, Kind::Timer));
        // It may have come before the first one, or be linked to it.
        self.first_timer = self.firsts[slot_of(self.first.time())];
        true
    }

    /// Removes the first timer, which must exist, and returns its task.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> u32 {
        let now = self.first.time();
        let number = slot_of(now);
        let first = self.first_timer;
        let second = link_of(first);
        if second != 0 {
            self.promote(now, number, second);
            return task_of(first);
        }
        let word = &mut self.occupied[number / 64];
        *word &= !(1 << (number % 64));
        let later = *word & u64::MAX << (number % 64);
        if later == 0 {
            self.find_beyond(now, number);
            return task_of(first);
        }
        let place = later.trailing_zeros() as usize % 64;
        let begin = (now & !(64 * WIDTH - 1)) + place as u64 * WIDTH;
        self.set_first(begin, number / 64 * 64 + place);
        task_of(first)
    }

    /// The second timer of the slot of this number, which is that of now, is the first from now on.
    #[inline(always)]
    fn promote(&mut self, now: u64, number: usize, place: usize) {
        let second = std::mem::replace(&mut self.others[place], linked(0, self.free));
        self.free = place;
        self.firsts[number] = second;
        (self.first, self.first_timer) = (key_of(now & !(WIDTH - 1), second), second);
    }

    /// The first one is that of the slot of this number, which begins then.
    #[inline(always)]
    fn set_first(&mut self, begin: u64, number: usize) {
        self.first_timer = self.firsts[number];
        self.first = key_of(begin, self.first_timer);
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
        self.set_first(begin * WIDTH, next);
    }
}

/// The slot of an instant.
#[inline(always)]
const fn slot_of(time: u64) -> usize {
    (time >> BITS) as usize % SLOTS
}

/// Whose a timer is.
#[inline(always)]
const fn task_of(timer: Timer) -> u32 {
    timer as u32
}

/// When a timer expires of a slot that begins then.
#[inline(always)]
const fn key_of(begin: u64, timer: Timer) -> Key {
    Key::at(begin + (timer >> 32) % WIDTH, Kind::Timer)
}

/// Where the next one is among the others.
#[inline(always)]
const fn link_of(timer: Timer) -> usize {
    (timer >> LINK) as usize % OTHERS
}

/// A timer without its link, and one that had none with it.
#[inline(always)]
const fn unlinked(timer: Timer) -> Timer {
    timer & ((1 << LINK) - 1)
}

#[inline(always)]
const fn linked(timer: Timer, place: usize) -> Timer {
    timer | (place as u64) << LINK
}
