//! Timers that expire later, or at the same instant as many others.

use crate::event_queue::{Key, Kind};

/// Bits of a digit: a level has a slot for each value of one. Three digits are 134 ms: most sleeps end within that.
const BITS: u32 = 9;

/// Words of 64 slots each on a level.
const WORDS: usize = (1 << BITS) / 64;

/// Levels: one for each digit of a time.
const LEVELS: usize = 64usize.div_ceil(BITS as usize);

/// So many timers at most are put in order at once, but for those of one instant; more go to lower levels first.
const FEW: u32 = 48;

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
    /// When the first to expire does.
    least: u64,
    /// Its first timer.
    head: u32,
    /// How many timers it has.
    count: u32,
}

impl Slot {
    const EMPTY: Self = Self { least: u64::MAX, head: NONE, count: 0 };
}

/// Timers in the order in which they expire, equal ones in the order of their tasks.
///
/// A wheel of wheels (Varghese and Lauck 1987) whose time is that of a timer that expired, as a radix heap's (Ahuja et al. 1990): a timer is
/// on the level of the highest digit in which it differs from that, in the slot of its value there. So the first one is in the first slot of
/// the lowest level that has any. When it expires, all of its slot leave: few are put in order at once, as whatever comes before the
/// slot's end will be; many go to lower levels. So each timer moves down at most as often as the time it is ahead has digits, mostly once.
#[derive(Debug)]
pub(super) struct Wheels {
    /// Timers before `horizon`, the first to expire at the end: nanoseconds from `origin` on over the task.
    due: Vec<u64>,
    /// Where the slot began that left the wheels last, and where it ends: none in the wheels is before that.
    origin: u64,
    horizon: u64,
    /// When a timer expired after which that slot left. None is set to before that.
    base: u64,
    slots: Box<[[Slot; 1 << BITS]; LEVELS]>,
    /// Which slots of a level have any, which words of these are not 0, and which levels.
    occupied: [[u64; WORDS]; LEVELS],
    words: [u32; LEVELS],
    levels: u32,
    /// Those in the wheels.
    timers: Vec<Timer>,
    /// Of these, the first one that is free; `next` is another one.
    free: u32,
    first: Key,
    /// Timers that were looked at or moved so far.
    pub(super) operations: u64,
}

impl Default for Wheels {
    fn default() -> Self {
        Self {
            due: Vec::new(),
            origin: 0,
            horizon: 0,
            base: 0,
            slots: Box::new([[Slot::EMPTY; 1 << BITS]; LEVELS]),
            occupied: [[0; WORDS]; LEVELS],
            words: [0; LEVELS],
            levels: 0,
            timers: Vec::new(),
            free: NONE,
            first: Key::NEVER,
            operations: 0,
        }
    }
}

impl Wheels {
    pub(super) fn clear(&mut self) {
        let (mut timers, mut due) = (std::mem::take(&mut self.timers), std::mem::take(&mut self.due));
        timers.clear();
        due.clear();
        *self = Self { timers, due, ..Self::default() };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels == 0 && self.due.is_empty()
    }

    /// Whether the task of any timer is as asked.
    pub(super) fn any(&self, is: impl Fn(u32) -> bool) -> bool {
        let of_slot = |slot: &Slot| {
            let mut number = slot.head;
            while let Some(timer) = self.timers.get(number as usize) {
                if is(timer.task) {
                    return true;
                }
                number = timer.next;
            }
            false
        };
        self.due.iter().any(|due| is(*due as u32)) || self.slots.iter().flatten().any(of_slot)
    }

    /// When the first expires; [`Key::NEVER`] if there is none. O(1).
    #[inline(always)]
    pub(super) const fn first(&self) -> Key {
        self.first
    }

    /// Whose the first one is, of those that there are.
    pub(super) fn first_task(&mut self) -> u32 {
        if self.due.is_empty() {
            self.advance();
        }
        self.due.last().map_or(NONE, |due| *due as u32)
    }

    /// Sets a task's timer, to no earlier than the last one expired. O(1), but for one of the next few to expire.
    #[inline(never)]
    pub(super) fn push(&mut self, key: Key, task: u32) {
        let time = key.time();
        self.first = self.first.min(key);
        if time < self.horizon {
            return self.push_due(time, task);
        }
        let number = if self.free == NONE { self.timers.len() as u32 } else { self.free };
        let next = self.enter(number, time);
        let timer = Timer { time, task, next };
        if let Some(place) = self.timers.get_mut(number as usize) {
            self.free = std::mem::replace(place, timer).next;
        } else {
            self.timers.push(timer);
        }
    }

    /// Makes a timer the first of the list that it belongs in by the digits of its time: the one after it.
    #[inline(always)]
    fn enter(&mut self, number: u32, time: u64) -> u32 {
        debug_assert!(time >= self.base, "time went back");
        self.operations += 1;
        let level = (((time ^ self.base) | 1).ilog2() / BITS) as usize % LEVELS;
        let slot = (time >> (BITS as usize * level)) as usize % (1 << BITS);
        let place = &mut self.slots[level][slot];
        place.least = place.least.min(time);
        place.count += 1;
        let next = std::mem::replace(&mut place.head, number);
        if next == NONE {
            self.occupied[level][slot / 64] |= 1 << (slot % 64);
            self.words[level] |= 1 << (slot / 64);
            self.levels |= 1 << level;
        }
        next
    }

    /// Puts one among the next few to expire. Where they have become many, those that are not of this instant go back into the wheels.
    #[inline(never)]
    fn push_due(&mut self, time: u64, task: u32) {
        let timer = (time - self.origin) << 32 | u64::from(task);
        let place = self.due.partition_point(|due| *due > timer);
        self.due.insert(place, timer);
        self.operations += 1 + (self.due.len() - place) as u64;
        if self.due.len() <= 2 * FEW as usize {
            return;
        }
        let now = self.due.last().map_or(0, |due| due >> 32);
        let later = self.due.partition_point(|due| due >> 32 > now);
        self.horizon = self.origin + now + 1;
        for due in self.due.drain(..later).collect::<Vec<_>>() {
            self.push(Key::new(self.origin + (due >> 32), Kind::Timer), due as u32);
        }
    }

    /// The slot that the first timer is in, of those that there are.
    #[inline]
    fn first_slot(&self) -> (usize, usize) {
        let level = self.levels.trailing_zeros() as usize % LEVELS;
        let word = self.words[level].trailing_zeros() as usize % WORDS;
        (level, word * 64 + self.occupied[level][word].trailing_zeros() as usize % 64)
    }

    /// Removes the first timer, which must exist, and returns its task. O(levels) on average.
    #[inline]
    pub(super) fn pop(&mut self) -> u32 {
        let task = self.first_task();
        self.due.pop();
        self.first = if let Some(next) = self.due.last() {
            Key::new(self.origin + (next >> 32), Kind::Timer)
        } else if self.levels == 0 {
            Key::NEVER
        } else {
            let (level, slot) = self.first_slot();
            Key::new(self.slots[level][slot].least, Kind::Timer)
        };
        task
    }

    /// Takes the first slot out of the wheels, if there is one, and puts its timers in order.
    #[inline(never)]
    fn advance(&mut self) {
        while self.levels != 0 && self.due.is_empty() {
            let (level, slot) = self.first_slot();
            let Slot { least, head, count } = std::mem::replace(&mut self.slots[level][slot], Slot::EMPTY);
            let word = &mut self.occupied[level][slot / 64];
            *word &= !(1 << (slot % 64));
            self.words[level] &= !(u32::from(*word == 0) << (slot / 64));
            self.levels &= !(u32::from(self.words[level] == 0) << level);
            self.base = least;
            let width = 1u64 << (BITS as usize * level);
            // What is left of a time must fit half a word.
            let many = level > 0 && (count > FEW || width > 1 << 32);
            self.origin = least & !(width - 1);
            if many {
                self.move_down(head);
                continue;
            }
            let (mut number, mut last) = (head, head);
            while let Some(timer) = self.timers.get(number as usize) {
                self.due.push((timer.time - self.origin) << 32 | u64::from(timer.task));
                (last, number) = (number, timer.next);
            }
            // The whole list is free.
            if let Some(last) = self.timers.get_mut(last as usize) {
                last.next = std::mem::replace(&mut self.free, head);
            }
            self.horizon = self.origin.saturating_add(width);
            self.operations += put_in_order(&mut self.due);
        }
    }

    /// Puts the timers of a list where their digits say.
    #[inline(never)]
    fn move_down(&mut self, mut number: u32) {
        while let Some(Timer { time, next, .. }) = self.timers.get(number as usize).copied() {
            let below = self.enter(number, time);
            self.timers[number as usize].next = below;
            number = next;
        }
    }
}

/// The greatest first. How many were compared or moved.
#[inline]
fn put_in_order(due: &mut [u64]) -> u64 {
    let count = due.len();
    if count > FEW as usize {
        due.sort_unstable_by(|one, other| other.cmp(one));
        return count as u64 * u64::from(count.ilog2());
    }
    let mut moved = 0;
    for end in 1..count {
        let (timer, mut place) = (due[end], end);
        while let Some(before) = place.checked_sub(1)
            && due[before] < timer
        {
            due[place] = due[before];
            place = before;
        }
        due[place] = timer;
        moved += (end - place) as u64;
    }
    moved
}
