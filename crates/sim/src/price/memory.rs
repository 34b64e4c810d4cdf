//! What moving messages and memory for them take.

use super::Prices;
use crate::channel::{Buffer, Channel};
use crate::slabs::{Fetched, PAGE, Slabs};
use crate::wait::NONE;

/// Further time where another CPU has used a channel: once, and for each message that is written or read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Far {
    pub(super) first: u64,
    pub(super) write: u64,
    pub(super) read: u64,
}

impl Prices {
    /// The CPU that messages are marked with as it writes them: none where it makes no difference, so that they lie together.
    #[inline]
    pub(crate) fn mark(&self, cpu: u32) -> u32 {
        if self.follows_messages { cpu } else { NONE }
    }

    /// What a call on a channel takes besides on `cpu`, as another one used it last.
    #[inline]
    pub(crate) fn far_first(&self, channel: &Channel, cpu: u32) -> u64 {
        self.far(channel, channel.used_by, cpu).map_or(0, |far| far.first)
    }

    /// What copying `bytes` of a message takes besides where they were last at another CPU.
    #[inline]
    const fn copy_far(&self, bytes: u32) -> u64 {
        self.copy_far_per_kib.saturating_mul(bytes as u64) / 1024
    }

    #[inline]
    fn far(&self, channel: &Channel, from: u32, cpu: u32) -> Option<&Far> {
        (from != cpu && from != NONE).then(|| &self.far[usize::from(channel.is_pipe())])
    }

    /// Moving `bytes` into a pipe, or into a socket's fresh memory: copying them, rounded down, and what an empty pipe takes besides.
    #[inline]
    pub(crate) fn fill(&self, channel: &Channel, bytes: u32, cpu: u32) -> u64 {
        let further = match channel.buffer {
            Buffer::Socket(_) => self.skb_per_kib.saturating_mul(u64::from(bytes)) / 1024,
            Buffer::Pipe(_) if channel.readable() == 0 => self.pipe_empty / 2,
            Buffer::Pipe(_) => 0,
        };
        let far = self.far(channel, channel.read_by, cpu).map_or(0, |far| far.write + self.copy_far(bytes));
        self.copy(bytes).saturating_add(further).saturating_add(far)
    }

    /// Moving `bytes` out of a pipe or a socket: copying them, giving memory back, and what emptying a pipe takes besides.
    #[inline]
    pub(crate) fn drain(&self, channel: &Channel, bytes: u32, slabs: &Slabs, cpu: u32) -> u64 {
        let empties = channel.is_pipe() && channel.readable() == bytes;
        let emptied = if empties { self.pipe_empty - self.pipe_empty / 2 } else { 0 };
        let freed = if self.page_free | self.slab_free > 0 { channel.free(bytes, slabs) } else { Fetched::default() };
        let elsewhere = if freed.elsewhere { self.slab_free } else { 0 };
        let pages = self.page_free.saturating_mul(freed.fresh);
        let far = self.far(channel, channel.written_by(), cpu).map_or(0, |far| far.read + self.copy_far(bytes));
        self.copy(bytes).saturating_add(emptied).saturating_add(elsewhere).saturating_add(pages).saturating_add(far)
    }

    /// Copying `bytes` into or out of the kernel, rounded down.
    #[inline]
    pub(crate) const fn copy(&self, bytes: u32) -> u64 {
        self.copy_per_kib.saturating_mul(bytes as u64) / 1024
    }

    /// Whether memory that is not at hand costs anything.
    #[inline]
    pub(crate) const fn fetches(&self) -> bool {
        self.page > 0 || self.slab > 0
    }

    /// Fetching memory. A slab is one allocation, and pages after its first are cleared at most, which takes as long as copying. Where a page takes no
    /// longer than that, none are cleared (`init_on_alloc`).
    #[inline]
    pub(crate) fn fetch(&self, fetched: Fetched) -> u64 {
        let elsewhere = if fetched.elsewhere { self.slab } else { 0 };
        let copy = self.copy(PAGE);
        let clear = if self.page > copy { copy } else { 0 };
        let fresh = self.page.saturating_mul(fetched.fresh);
        elsewhere.saturating_add(fresh).saturating_add(clear.saturating_mul(fetched.pages - fetched.fresh))
    }
}

#[cfg(test)]
mod tests {
    use schedlab_model::{Costs, Machine, RuleSet, Time};

    use super::*;

    #[test]
    fn pages_of_a_slab_are_cleared_where_a_page_costs_more_than_copying_one() {
        // Copying a page takes 4 · 100 ns. Where a page takes 1000 a slab of eight takes 1000 + 7 · 400; where it takes 400 it takes no more than that. A
        // message behind a slab of others takes 30 besides.
        let price = |page| {
            let [copy_per_kib, slab, page] = [100, 30, page].map(Time::from_nanos);
            let machine = Machine::new(1, Costs { copy_per_kib, slab, page, ..Costs::ideal() });
            let prices = Prices::new(&machine, &RuleSet::of("6.12".parse().unwrap())).unwrap();
            prices.fetch(Fetched { elsewhere: true, fresh: 1, pages: 8 })
        };
        assert_eq!([1000, 400].map(price), [30 + 1000 + 7 * 400, 30 + 400]);
    }
}
