//! What moving messages and memory for them take.

use super::Prices;
use crate::slabs::{Fetched, PAGE};

impl Prices {
    /// Copying `bytes` into a pipe, or into a socket's fresh memory, rounded down.
    #[inline]
    pub(crate) const fn fill(&self, pipe: bool, bytes: u32) -> u64 {
        let memory = if pipe { 0 } else { self.skb_per_kib.saturating_mul(bytes as u64) / 1024 };
        self.copy(bytes).saturating_add(memory)
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
