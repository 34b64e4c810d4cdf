//! Two numbers at once, each in a word of 64 bits of its own: one register of SSE2, which every x86-64 has.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use std::arch::x86_64 as sse2;

/// Two numbers.
#[derive(Debug, Clone, Copy)]
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(super) struct Two(sse2::__m128i);

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
impl Two {
    #[inline(always)]
    pub(super) fn of(low: u64, high: u64) -> Self {
        // SAFETY: computes in registers alone, and needs SSE2, without which this is not compiled.
        Self(unsafe { sse2::_mm_set_epi64x(high as i64, low as i64) })
    }

    #[inline(always)]
    pub(super) fn low(self) -> u64 {
        // SAFETY: computes in registers alone, and needs SSE2, without which this is not compiled.
        unsafe { sse2::_mm_cvtsi128_si64(self.0) as u64 }
    }

    #[inline(always)]
    pub(super) fn high(self) -> u64 {
        // SAFETY: computes in registers alone, and needs SSE2, without which this is not compiled.
        Self(unsafe { sse2::_mm_unpackhi_epi64(self.0, self.0) }).low()
    }

    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        // SAFETY: computes in registers alone, and needs SSE2, without which this is not compiled.
        Self(unsafe { sse2::_mm_add_epi64(self.0, other.0) })
    }

    /// The products, of numbers below 2³².
    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        // SAFETY: computes in registers alone, and needs SSE2, without which this is not compiled.
        Self(unsafe { sse2::_mm_mul_epu32(self.0, other.0) })
    }

    /// By 2³², rounded down.
    #[inline(always)]
    pub(super) fn upper(self) -> Self {
        // SAFETY: computes in registers alone, and needs SSE2, without which this is not compiled.
        Self(unsafe { sse2::_mm_srli_epi64::<32>(self.0) })
    }

    /// By 2 to the power of `bits`, rounded down.
    #[inline(always)]
    pub(super) fn halved(self, bits: u64) -> Self {
        // SAFETY: computes in registers alone, and needs SSE2, without which this is not compiled.
        Self(unsafe { sse2::_mm_srl_epi64(self.0, sse2::_mm_cvtsi64_si128(bits as i64)) })
    }
}

/// Two numbers.
#[derive(Debug, Clone, Copy)]
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
pub(super) struct Two(u64, u64);

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
impl Two {
    #[inline(always)]
    pub(super) fn of(low: u64, high: u64) -> Self {
        Self(low, high)
    }

    #[inline(always)]
    pub(super) fn low(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) fn high(self) -> u64 {
        self.1
    }

    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0), self.1.wrapping_add(other.1))
    }

    /// The products, of numbers below 2³².
    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        Self(self.0 * other.0, self.1 * other.1)
    }

    /// By 2³², rounded down.
    #[inline(always)]
    pub(super) fn upper(self) -> Self {
        self.halved(32)
    }

    /// By 2 to the power of `bits`, rounded down.
    #[inline(always)]
    pub(super) fn halved(self, bits: u64) -> Self {
        Self(self.0 >> bits, self.1 >> bits)
    }
}
