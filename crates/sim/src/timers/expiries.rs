//! When the timers of each CPU expire: a task that sets one that expires first of all has to program the CPU's clock device, too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schedlab_model::EventSink;

use crate::engine::Engine;

/// When sleepers' timers expire, by CPU. Kept only where it costs anything to be the first.
#[derive(Debug, Default)]
pub(crate) struct Expiries(Vec<Pending>);

/// The timers of a CPU. Until one is set that expires with the next tick or sooner, no caller needs to know which is first, and they are
/// kept in no order.
#[derive(Debug, Default)]
struct Pending {
    ordered: BinaryHeap<Reverse<u64>>,
    /// Those that were set since.
    later: Vec<u64>,
    /// Once there are so many of these, those that have expired are dropped.
    most: usize,
}

impl Pending {
    /// Sets one that is due then, without finding out whether it is the first. O(1) on average.
    #[inline(always)]
    fn push(&mut self, due: u64, now: u64) {
        if self.later.len() >= self.most {
            self.later.retain(|other| *other > now);
            self.most = (4 * self.later.len()).max(64);
        }
        self.later.push(due);
    }

    /// Sets one: whether none of those that are pending `now` expires as early. O(log timers).
    fn push_first(&mut self, due: u64, now: u64) -> bool {
        let first = self.first(now).is_none_or(|first| due < first);
        self.ordered.push(Reverse(due));
        first
    }

    /// When the first of those expires that are pending `now`.
    fn first(&mut self, now: u64) -> Option<u64> {
        self.ordered.extend(self.later.drain(..).filter(|other| *other > now).map(Reverse));
        while self.ordered.peek().is_some_and(|first| first.0 <= now) {
            self.ordered.pop();
        }
        self.ordered.peek().map(|first| first.0)
    }
}

impl Expiries {
    /// When the first of a CPU's timers expires that are pending `now`. O(timers set since the last question).
    pub(crate) fn first(&mut self, cpu: u32, now: u64) -> Option<u64> {
        self.of(cpu).first(now)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The timers of a CPU.
    #[inline(always)]
    fn of(&mut self, cpu: u32) -> &mut Pending {
        let cpu = cpu as usize;
        if self.0.len() <= cpu {
            self.0.resize_with(cpu + 1, Pending::default);
        }
        &mut self.0[cpu]
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// What a task of a CPU pays beyond setting a timer that is `due` then: something where that is before its CPU's other timers, and
    /// before its next tick, which is one too.
    #[inline(always)]
    pub(crate) fn expires_first(&mut self, cpu: u32, due: u64) -> u64 {
        if self.prices.next_timer == 0 {
            return 0;
        }
        let tick = self.tick_after_now();
        let pending = self.arena.expiries.of(cpu);
        if due >= tick {
            pending.push(due, self.now);
            return 0;
        }
        if pending.push_first(due, self.now) { self.prices.next_timer } else { 0 }
    }

    /// The time that it costs a task to ask to sleep until a time, which may have passed.
    pub(crate) fn priced_until(&mut self, task: u32, due: u64) -> u64 {
        if due <= self.now {
            return self.prices.system_call;
        }
        let cpu = self.arena.tasks[task as usize].cpu;
        self.prices.sleep.saturating_add(self.expires_first(cpu, due))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_of_its_cpu_is_told_from_later_ones() {
        let mut expiries = Expiries::default();
        // CPU 0: 500 is alone; 700 comes after it, 400 before it. At 450 that has expired, and 600 comes after 500. CPU 1 has none.
        let asked = [(0, 500, 0), (0, 700, 0), (0, 400, 0), (0, 600, 450), (1, 900, 450)];
        let first = asked.map(|(cpu, due, now)| expiries.of(cpu).push_first(due, now));
        assert_eq!(first, [true, false, true, false, true]);
        expiries.clear();
        assert!(expiries.of(0).push_first(u64::MAX, 0));
    }

    proptest! {
        /// The answers are those of a sorted set of all timers that were ever set, however many are set without a question whether they are
        /// first.
        #[test]
        fn timers_set_without_a_question_count_too(
            steps in prop::collection::vec((0u64..300, 1u64..2_000, prop::bool::weighted(0.2)), 1..400),
        ) {
            let (mut pending, mut all, mut now) = (Pending::default(), BTreeSet::new(), 0);
            for (passed, ahead, asks) in steps {
                now += passed;
                let due = now + ahead;
                if asks {
                    let first = all.range(now + 1..).next().is_none_or(|first| due < *first);
                    prop_assert_eq!(pending.push_first(due, now), first);
                } else {
                    pending.push(due, now);
                }
                all.insert(due);
            }
        }
    }
}
