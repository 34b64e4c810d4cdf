//! When the timers of each CPU expire: whoever sets one that expires first of all has to set the CPU's clock device, too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schedlab_model::EventSink;

use crate::engine::Engine;

/// When sleepers' timers expire, by CPU. Kept only where it costs anything to be the first.
#[derive(Debug, Default)]
pub(crate) struct Expiries(Vec<BinaryHeap<Reverse<u64>>>);

impl Expiries {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Sets a timer on a CPU: whether none of those that are pending `now` expires as early. O(log timers).
    fn set(&mut self, cpu: u32, due: u64, now: u64) -> bool {
        let cpu = cpu as usize;
        self.0.resize_with(self.0.len().max(cpu + 1), BinaryHeap::new);
        let pending = &mut self.0[cpu];
        while pending.peek().is_some_and(|first| first.0 <= now) {
            pending.pop();
        }
        let first = pending.peek().is_none_or(|first| due < first.0);
        pending.push(Reverse(due));
        first
    }
}

impl<S: EventSink> Engine<'_, S> {
    /// What a task of a CPU pays beyond setting a timer that is `due` then: something where that is before its CPU's other timers, and
    /// before its next tick, which is one too.
    pub(crate) fn expires_first(&mut self, cpu: u32, due: u64) -> u64 {
        if self.prices.next_timer == 0 {
            return 0;
        }
        let first = self.arena.expiries.set(cpu, due, self.now);
        if first && due < self.tick_after_now() { self.prices.next_timer } else { 0 }
    }

    /// What it takes a task to ask to sleep until a time, which may have passed.
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
    use super::*;

    #[test]
    fn the_first_of_its_cpu_is_told_from_later_ones() {
        let mut expiries = Expiries::default();
        // CPU 0: 500 is alone; 700 comes after it, 400 before it. At 450 that has expired, and 600 comes after 500. CPU 1 has none.
        let asked = [(0, 500, 0), (0, 700, 0), (0, 400, 0), (0, 600, 450), (1, 900, 450)];
        assert_eq!(asked.map(|(cpu, due, now)| expiries.set(cpu, due, now)), [true, false, true, false, true]);
        expiries.clear();
        assert!(expiries.set(0, u64::MAX, 0));
    }
}
