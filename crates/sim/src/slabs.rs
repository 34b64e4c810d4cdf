//! Memory for messages on their way through sockets, as far as it takes time: pages are fetched as queues grow beyond what there was.

use crate::channel::PAGE;

/// Empty pages that there are before the first message. An skb has two blocks, of 256 and of 512 bytes (`mm/slub.c`): of each kind a node keeps
/// five empty slabs (`MIN_PARTIAL`), and a CPU as many as hold 104 blocks (`slub_set_cpu_partial` of 52), 7 and 13 pages.
const KEPT: u64 = (5 + 7 + 5 + 13) * PAGE as u64;

/// `struct kmem_cache` of what messages are made of, of all sockets together. Bytes.
///
/// A page holds messages of several sockets and is given back when all of them were read. That hardly happens while there are others to come, so
/// it is taken to be kept for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slabs {
    /// Of messages on their way.
    used: u64,
    /// Of pages.
    held: u64,
}

impl Default for Slabs {
    fn default() -> Self {
        Self { used: 0, held: KEPT }
    }
}

impl Slabs {
    /// How many pages another `bytes` need beyond those that there are.
    pub(crate) fn fresh_pages(&self, bytes: u32) -> u64 {
        (self.used + u64::from(bytes)).saturating_sub(self.held).div_ceil(PAGE.into())
    }

    /// Some socket's messages weighed `before` and now `after`. Pages are fetched for what is more than ever.
    #[inline]
    pub(crate) fn change(&mut self, before: u32, after: u32) {
        self.used = self.used + u64::from(after) - u64::from(before);
        if self.used > self.held {
            self.held += (self.used - self.held).next_multiple_of(PAGE.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_fetched_as_queues_grow_and_kept() {
        // 30 pages are there: 122,880 bytes, 160 messages of 768. The next one needs a page, and the four after it fit in: 5 · 768 = 3840.
        let mut slabs = Slabs::default();
        let write = |slabs: &mut Slabs| {
            let fresh = slabs.fresh_pages(768);
            slabs.change(0, 768);
            fresh
        };
        assert_eq!((0..160).map(|_| write(&mut slabs)).sum::<u64>(), 0);
        assert_eq!([(); 6].map(|()| write(&mut slabs)), [1, 0, 0, 0, 0, 1]);
        // 166 messages are 127,488 bytes in 32 pages (131,072 bytes). All are read, and 170 fit in (130,560) without a page again.
        slabs.change(166 * 768, 0);
        assert_eq!((0..170).map(|_| write(&mut slabs)).sum::<u64>(), 0);
        assert_eq!(write(&mut slabs), 1);
    }
}
