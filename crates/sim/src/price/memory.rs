//! What moving messages and memory for them take.

use super::Prices;
use crate::slabs::Fetched;

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

    /// Fetching memory. A slab is one allocation, and pages after its first are cleared at most, which takes no longer than copying.
    #[inline]
    pub(crate) fn fetch(&self, fetched: Fetched) -> u64 {
        let elsewhere = if fetched.elsewhere { self.slab } else { 0 };
        let clear = self.page.min(self.copy_per_kib.saturating_mul(4));
        let fresh = self.page.saturating_mul(fetched.fresh);
        elsewhere.saturating_add(fresh).saturating_add(clear.saturating_mul(fetched.pages - fetched.fresh))
    }
}
