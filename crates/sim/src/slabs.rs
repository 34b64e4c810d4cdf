//! Memory for messages on their way through sockets, as far as it takes time: pages are fetched as queues grow beyond what there was.

use schedlab_model::RuleSet;

/// `PAGE_SIZE`.
pub(crate) const PAGE: u32 = 4096;

/// What a kernel keeps of the memory of messages that were read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keeps {
    /// `tmp_page` (`struct pipe_inode_info`): one page, two from 6.15 on.
    pub(crate) pages_of_a_pipe: u8,
    /// All that sockets ever had. From 7.0 on a CPU and a node keep 336 blocks of each size in sheaves (`mm/slub.c`), whichever slabs these
    /// are of, and a slab of which one block is kept is not given back.
    pub(crate) slabs: bool,
}

impl Keeps {
    pub(crate) fn of(set: &RuleSet) -> Self {
        Self { pages_of_a_pipe: 1 + u8::from(set.pipe_keeps_two_pages), slabs: set.slabs_kept }
    }
}

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
    pub(crate) fn new(keeps: Keeps) -> Self {
        if keeps.slabs { Self { used: 0, held: u64::MAX } } else { Self::default() }
    }

    /// How many pages another `bytes` need beyond those that there are.
    #[inline]
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
    fn releases_keep_more_and_more() {
        // Two pages of a pipe since 6.15, and from 7.0 on whatever sockets had before the run.
        let kept = |release: &str| Keeps::of(&RuleSet::of(release.parse().unwrap()));
        assert_eq!(["6.12.107", "6.18", "7.2"].map(|release| kept(release).pages_of_a_pipe), [1, 2, 2]);
        let fresh = |release| Slabs::new(kept(release)).fresh_pages(1 << 20);
        assert_eq!([fresh("6.18"), fresh("7.2")], [256 - 30, 0]);
    }

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
