//! When each CPU has something to do next.

use std::hint::select_unpredictable;

/// The kinds of events at an instant, in the order in which those that fall on the same instant are done.
///
/// Ticks come last, so that whatever else happens at an instant sees no tick of that instant done or every one up to the CPU
/// whose tick caused it. That is what lets the engine skip ticks without a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A task's operation is complete.
    Completion = 0,
    /// A sleeper's timer expires, or a CPU's high-resolution tick.
    Timer = 1,
    /// A CPU schedules because another one, or an interrupt, notified it.
    Schedule = 2,
    /// The timer interrupt.
    Tick = 3,
}

/// A time and a kind, ordered by time, then kind: 62 bits of nanoseconds (146 years) over 2 bits of kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u64);

/// Later than anything that happens.
pub(crate) const NEVER: u64 = u64::MAX >> 2;

impl Key {
    /// Nothing to do.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    #[inline]
    pub(crate) const fn new(time: u64, kind: Kind) -> Self {
        if time >= NEVER { Self::NEVER } else { Self(time << 2 | kind as u64) }
    }

    /// Of a time at which something may happen.
    #[inline]
    pub(crate) const fn at(time: u64, kind: Kind) -> Self {
        debug_assert!(time < NEVER);
        Self(time << 2 | kind as u64)
    }

    /// The end of an operation, or the tick before that. Where neither ever comes, it is as late as [`Key::NEVER`], if not that.
    #[inline(always)]
    pub(crate) const fn of_busy(end: u64, tick: u64) -> Self {
        debug_assert!(tick <= NEVER);
        if tick < end { Self(tick << 2 | Kind::Tick as u64) } else { Self(end << 2 | Kind::Completion as u64) }
    }

    #[inline]
    pub(crate) const fn time(self) -> u64 {
        self.0 >> 2
    }

    #[inline]
    pub(crate) const fn kind(self) -> Kind {
        match self.0 & 3 {
            0 => Kind::Completion,
            1 => Kind::Timer,
            2 => Kind::Schedule,
            _ => Kind::Tick,
        }
    }
}

/// So many CPUs are looked through faster than a tournament among them is kept.
const FEW: usize = 8;

/// Each CPU's next key in an array; where there are many, under a tournament of minima: changing one CPU's key costs at most one comparison a
/// level. Equal keys go to the lower CPU.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventQueue {
    /// The keys where there are few.
    few: [Key; FEW],
    /// Where there are many, a complete binary tree with its root at 1; the leaves, from `leaves` on, are the CPUs.
    tree: Vec<Key>,
    leaves: usize,
    /// Of many, the first key and its CPU.
    first: (Key, u32),
    /// There are few.
    simple: bool,
    /// There are half as many at most.
    very_few: bool,
    /// There are many, and it is between [`EventQueue::hold`] and [`EventQueue::settle`].
    held: bool,
    /// The least key that was set since.
    least: Key,
}

/// Of two CPUs' keys the lesser one, of equal ones that of the CPU that is named first.
#[inline(always)]
fn lesser(one: (Key, u32), other: (Key, u32)) -> (Key, u32) {
    let later = other.0 < one.0;
    (select_unpredictable(later, other.0, one.0), select_unpredictable(later, other.1, one.1))
}

impl Default for Key {
    fn default() -> Self {
        Self::NEVER
    }
}

impl EventQueue {
    /// Nothing to do on `cpus` CPUs.
    pub(crate) fn reset(&mut self, cpus: u32) {
        let leaves = (cpus as usize).next_power_of_two();
        let mut tree = std::mem::take(&mut self.tree);
        tree.clear();
        let simple = leaves <= FEW;
        if !simple {
            tree.resize(2 * leaves, Key::NEVER);
        }
        *self = Self { tree, leaves, simple, very_few: leaves <= FEW / 2, ..Self::default() };
    }

    /// Changes one CPU's key. O(log CPUs), less where the change does not reach the top.
    #[inline(always)]
    pub(crate) fn set(&mut self, cpu: u32, key: Key) {
        if !self.simple {
            return self.set_beside_many(cpu, key);
        }
        self.few[cpu as usize % FEW] = key;
    }

    #[inline(never)]
    fn set_beside_many(&mut self, cpu: u32, key: Key) {
        let mut node = self.leaves + cpu as usize;
        self.tree[node] = key;
        if self.held {
            self.least = self.least.min(key);
            return;
        }
        while node > 1 {
            node /= 2;
            let first = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == first {
                break;
            }
            self.tree[node] = first;
        }
        // The first one may be another CPU with the same key.
        if key <= self.first.0 || cpu == self.first.1 {
            self.first = self.first_of_many();
        }
    }

    /// Keys of many CPUs are about to be set, each once it was the first, and the first one is asked for by [`EventQueue::next_at`] alone until
    /// [`EventQueue::settle`].
    #[inline]
    pub(crate) fn hold(&mut self) {
        (self.held, self.least) = (!self.simple, Key::NEVER);
    }

    /// The CPU that is first now, if its key is this one, which it was when [`EventQueue::hold`] was called and which `cpu` had last. O(1), of
    /// many O(CPUs) for all of them together.
    #[inline]
    pub(crate) fn next_at(&self, key: Key, cpu: u32) -> Option<u32> {
        if !self.simple {
            return self.next_of_many(key, cpu);
        }
        let (first, other) = self.first();
        if first == key { Some(other) } else { None }
    }

    fn next_of_many(&self, key: Key, cpu: u32) -> Option<u32> {
        if self.least <= key {
            return None;
        }
        let after = cpu as usize + 1;
        let further = self.tree.get(self.leaves + after..)?.iter().position(|other| *other == key)?;
        Some((after + further) as u32)
    }

    /// Finds the minima anew. O(CPUs).
    pub(crate) fn settle(&mut self) {
        self.held = false;
        if self.simple {
            return;
        }
        for node in (1..self.leaves).rev() {
            self.tree[node] = self.tree[2 * node].min(self.tree[2 * node + 1]);
        }
        self.first = self.first_of_many();
    }

    /// The first key and its CPU; [`Key::NEVER`] if no CPU has anything to do. O(1).
    #[inline(always)]
    pub(crate) fn first(&self) -> (Key, u32) {
        if !self.very_few {
            return self.first_of_more();
        }
        // Which key is first cannot be predicted: the lesser of two is taken without a branch.
        let [a, b, c, d, ..] = self.few;
        lesser(lesser((a, 0), (b, 1)), lesser((c, 2), (d, 3)))
    }

    #[inline(never)]
    fn first_of_more(&self) -> (Key, u32) {
        if !self.simple {
            return self.first;
        }
        let [a, b, c, d, e, f, g, h] = self.few;
        let low = lesser(lesser((a, 0), (b, 1)), lesser((c, 2), (d, 3)));
        lesser(low, lesser(lesser((e, 4), (f, 5)), lesser((g, 6), (h, 7))))
    }

    /// Down from the root. O(log CPUs).
    fn first_of_many(&self) -> (Key, u32) {
        let key = self.tree[1];
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.tree[node] != key);
        }
        (key, (node - self.leaves) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_earlier_time_wins_then_an_earlier_kind_then_a_lower_cpu() {
        let mut agenda = EventQueue::default();
        agenda.reset(3);
        assert_eq!(agenda.first().0, Key::NEVER);
        for cpu in [2, 1, 0] {
            agenda.set(cpu, Key::new(10, Kind::Tick));
            assert_eq!(agenda.first().1, cpu);
        }
        agenda.set(2, Key::new(10, Kind::Completion));
        assert_eq!(agenda.first(), (Key::new(10, Kind::Completion), 2));
        agenda.set(1, Key::new(9, Kind::Tick));
        assert_eq!(agenda.first(), (Key::new(9, Kind::Tick), 1));
    }

    proptest! {
        #[test]
        fn the_first_is_the_least(
            cpus in prop_oneof![1u32..10, 10u32..70],
            changes in prop::collection::vec((0u32..70, 0u64..50), 0..200),
        ) {
            let mut agenda = EventQueue::default();
            agenda.reset(cpus);
            let mut keys = vec![Key::NEVER; cpus as usize];
            for (cpu, time) in changes {
                let cpu = cpu % cpus;
                let key = Key::new(time, Kind::Schedule);
                keys[cpu as usize] = key;
                agenda.set(cpu, key);
                prop_assert_eq!(agenda.first(), least(&keys));
            }
        }

        /// The ticks of an instant, held and as each is found first: what follows each is set later, or has some CPU schedule at once.
        #[test]
        fn those_of_one_key_come_in_turn(
            ahead in prop_oneof![prop::collection::vec(0u64..3, 1..10), prop::collection::vec(0u64..3, 10..70)],
            later in prop::collection::vec((1u64..5, prop::option::weighted(0.1, 0u32..70)), 70),
        ) {
            let (cpus, now) = (ahead.len() as u32, 10);
            let tick = Key::new(now, Kind::Tick);
            let mut keys: Vec<_> = ahead.iter().map(|ahead| Key::new(now + ahead, Kind::Tick)).collect();
            let mut agenda = EventQueue::default();
            agenda.reset(cpus);
            (0..cpus).for_each(|cpu| agenda.set(cpu, keys[cpu as usize]));
            let (first, mut cpu) = least(&keys);
            prop_assume!(first == tick);
            agenda.hold();
            for (ahead, roused) in later {
                let mut set = |cpu: u32, key| {
                    keys[cpu as usize] = key;
                    agenda.set(cpu, key);
                };
                set(cpu, Key::new(now + ahead, Kind::Tick));
                if let Some(roused) = roused {
                    set(roused % cpus, Key::new(now, Kind::Schedule));
                }
                let (key, other) = least(&keys);
                prop_assert_eq!(agenda.next_at(tick, cpu), (key == tick).then_some(other));
                if key != tick {
                    break;
                }
                cpu = other;
            }
            agenda.settle();
            prop_assert_eq!(agenda.first(), least(&keys));
        }
    }

    fn least(keys: &[Key]) -> (Key, u32) {
        keys.iter().copied().zip(0..).min().unwrap_or((Key::NEVER, 0))
    }
}
