//! Memory for messages on their way through sockets, as far as it takes time: slabs are fetched as queues grow beyond what is kept,
//! and given back as they shrink.

use schedlab_model::RuleSet;

use crate::channel::SK_BUFF;

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

/// `slub_max_order`: a slab is eight pages at most.
const LARGEST_SLAB: u32 = PAGE << 3;

/// Bytes of a slab of blocks of a size, a power of two: as few pages as hold so many blocks (`calculate_order`).
fn slab(block: u32, cpus: u32) -> u32 {
    let least = 4 * (cpus.ilog2() + 2);
    (least * block).next_power_of_two().clamp(PAGE, LARGEST_SLAB)
}

/// Empty slabs that a CPU and the node keep of blocks of a size.
fn kept(block: u32, cpus: u32) -> u32 {
    // `slub_set_cpu_partial`: half of the blocks of the slabs on a CPU's list are taken to be free.
    let free = match block {
        4096.. => 6,
        1024.. => 24,
        256.. => 52,
        _ => 120,
    };
    let on_the_cpu = (2 * free * block).div_ceil(slab(block, cpus));
    // `MIN_PARTIAL`, `MAX_PARTIAL`
    on_the_cpu + (block.ilog2() / 2).clamp(5, 10)
}

/// Memory that a write takes, or a read gives back, beyond what its channel and its CPU have at hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// From, or to, a slab other than the CPU's own.
    pub(crate) elsewhere: bool,
    /// Slabs, or a pipe's pages, that the kernel gives or takes back, and how many pages these are of.
    pub(crate) fresh: u64,
    pub(crate) pages: u64,
}

/// How messages of one weight lie in slabs.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    weight: u32,
    /// Bytes of a slab of their data.
    slab: u64,
    /// Bytes of empty slabs that are kept.
    kept: u64,
    /// What messages of a slab of skbs weigh.
    full: u64,
}

impl Layout {
    fn of(weight: u32, cpus: u32) -> Self {
        // One block is the skb, the other one its data; what lies in pages of its own has none.
        let data = (weight - SK_BUFF).clamp(1, PAGE).next_power_of_two();
        let [skbs, data_slab] = [SK_BUFF, data].map(|block| slab(block, cpus));
        Self {
            weight,
            slab: data_slab.into(),
            kept: u64::from(kept(SK_BUFF, cpus) * skbs + kept(data, cpus) * data_slab),
            full: u64::from(skbs / SK_BUFF) * u64::from(weight),
        }
    }
}

/// `struct kmem_cache` of what messages are made of, of all sockets together. Bytes.
///
/// A slab is given back when all messages that lie in it were read, unless so many empty ones are kept already. Those that are read one after the
/// other were mostly written one after the other, so all beyond what is kept is taken to be given back at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slabs {
    cpus: u32,
    /// Of messages on their way.
    used: u64,
    /// Of slabs.
    held: u64,
    /// Of the last message.
    layout: Layout,
    /// Whether all that there was before the run is kept.
    all: bool,
}

impl Slabs {
    pub(crate) fn new(keeps: Keeps, cpus: u32) -> Self {
        Self { cpus, all: keeps.slabs, ..Self::default() }
    }

    /// What another message that weighs so many bytes takes.
    #[inline]
    pub(crate) fn fetch(&mut self, weight: u32) -> Fetched {
        if weight != self.layout.weight {
            // How much is kept goes by the size of messages; as much more or less is there now.
            let layout = Layout::of(weight, self.cpus);
            self.held = (self.held + layout.kept - self.layout.kept).max(self.used);
            self.layout = layout;
        }
        let missing = if self.all { 0 } else { (self.used + u64::from(weight)).saturating_sub(self.held) };
        let fresh = missing.div_ceil(self.layout.slab);
        let pages = fresh * self.layout.slab / u64::from(PAGE);
        Fetched { elsewhere: self.used >= self.layout.full, fresh, pages }
    }

    /// What a message gives back that weighs so many bytes: to a slab other than the CPU's own, and slabs beyond those that are kept.
    #[inline]
    pub(crate) fn free(&self, weight: u32) -> Fetched {
        let left = self.used.saturating_sub(u64::from(weight));
        let held = self.held.min(left + self.layout.kept);
        let slab = self.layout.slab.max(1);
        let fresh = if self.all { 0 } else { self.held / slab - held / slab };
        Fetched { elsewhere: weight > 0 && left >= self.layout.full, fresh, pages: fresh * slab / u64::from(PAGE) }
    }

    /// Some socket's messages weighed `before` and now `after`.
    #[inline]
    pub(crate) fn change(&mut self, before: u32, after: u32) {
        self.used = self.used + u64::from(after) - u64::from(before);
        if self.used > self.held {
            self.held += (self.used - self.held).next_multiple_of(self.layout.slab.max(1));
        }
        self.held = self.held.min(self.used + self.layout.kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEPS: Keeps = Keeps { pages_of_a_pipe: 1, slabs: false };

    /// Writes a message that weighs so much, and returns how many pages that took.
    fn write(slabs: &mut Slabs, weight: u32) -> u64 {
        let fetched = slabs.fetch(weight);
        slabs.change(0, weight);
        fetched.pages
    }

    #[test]
    fn releases_keep_more_and_more() {
        // Two pages of a pipe since 6.15, and from 7.0 on whatever sockets had before the run.
        let kept = |release: &str| Keeps::of(&RuleSet::of(release.parse().unwrap()));
        assert_eq!(["6.12.107", "6.18", "7.2"].map(|release| kept(release).pages_of_a_pipe), [1, 2, 2]);
        // A megabyte of messages of 512 bytes and their skbs: 30 pages are there.
        let fresh = |release| {
            let mut slabs = Slabs::new(kept(release), 1);
            (0..1365).map(|_| write(&mut slabs, 768)).sum::<u64>()
        };
        assert_eq!([fresh("6.18"), fresh("7.2")], [256 - 30, 0]);
    }

    #[test]
    fn a_cpu_and_a_node_keep_empty_slabs() {
        // One CPU: a slab is to hold 4 · (fls(1) + 1) = 8 blocks. 256 bytes: 16 in a page; 2 · 52 of them are 7 pages, and 5 on the node.
        assert_eq!((slab(256, 1), kept(256, 1)), (4096, 7 + 5));
        // 512 bytes: 8 in a page; 13 and 5.
        assert_eq!((slab(512, 1), kept(512, 1)), (4096, 13 + 5));
        // 2048 bytes: 8 in four pages; 2 · 24 are 6 such slabs. 4096 bytes: 8 in eight pages; 2 · 6 are 2, and ilog2(4096) / 2 = 6.
        assert_eq!((slab(2048, 1), kept(2048, 1)), (16_384, 6 + 5));
        assert_eq!((slab(4096, 1), kept(4096, 1)), (32_768, 2 + 6));
        // Two CPUs: 4 · (fls(2) + 1) = 12. 512 bytes: 6144 are two pages, which hold 16; 104 are 7 slabs.
        assert_eq!((slab(512, 2), kept(512, 2)), (8192, 7 + 5));
        // Eight CPUs: 20 blocks of 4096 bytes are more than eight pages, the most that a slab has.
        assert_eq!((slab(4096, 8), kept(4096, 8)), (32_768, 2 + 6));
    }

    #[test]
    fn slabs_are_fetched_as_queues_grow_and_given_back_as_they_shrink() {
        // 30 pages are there: 122,880 bytes, 160 messages of 768. The next one needs a page, and the four after it fit in: 5 · 768 = 3840.
        let mut slabs = Slabs::new(KEEPS, 1);
        assert_eq!((0..160).map(|_| write(&mut slabs, 768)).sum::<u64>(), 0);
        assert_eq!([(); 6].map(|()| write(&mut slabs, 768)), [1, 0, 0, 0, 0, 1]);
        // 166 messages are 127,488 bytes in 32 pages. Of 46 that were read, 120 are left, 92,160 bytes: no page is given back for that.
        slabs.change(166 * 768, 120 * 768);
        assert_eq!((0..50).map(|_| write(&mut slabs, 768)).sum::<u64>(), 0);
        // Once all are read 30 pages are left.
        slabs.change(170 * 768, 0);
        assert_eq!((0..160).map(|_| write(&mut slabs, 768)).sum::<u64>(), 0);
        assert_eq!(write(&mut slabs, 768), 1);
    }

    #[test]
    fn large_blocks_are_fetched_by_the_slab_and_more_of_them_are_kept() {
        // 160 messages of 768 bytes take all that is kept for such ones, 122,880 bytes. For messages of 4096 + 256 bytes 12 + 8 · 8 pages are
        // kept, 311,296 bytes: there is place for 43 of them (187,136 of 188,416 bytes). The next one needs a slab of eight pages, and the six
        // after it fit in: 1280 and 32,768 bytes are seven messages and 3584.
        let mut slabs = Slabs::new(KEEPS, 1);
        assert_eq!((0..160).map(|_| write(&mut slabs, 768)).sum::<u64>(), 0);
        assert_eq!((0..43).map(|_| write(&mut slabs, 4352)).sum::<u64>(), 0);
        assert_eq!(slabs.fetch(4352), Fetched { elsewhere: true, fresh: 1, pages: 8 });
        assert_eq!([(); 8].map(|()| write(&mut slabs, 4352)), [8, 0, 0, 0, 0, 0, 0, 8]);
    }

    #[test]
    fn beyond_a_slab_of_skbs_memory_comes_from_another_one() {
        // 16 skbs are a page.
        let mut slabs = Slabs::new(KEEPS, 1);
        let elsewhere = [(); 17].map(|()| {
            let fetched = slabs.fetch(768);
            slabs.change(0, 768);
            fetched.elsewhere
        });
        assert_eq!((elsewhere[..16].contains(&true), elsewhere[16]), (false, true));
    }
}
