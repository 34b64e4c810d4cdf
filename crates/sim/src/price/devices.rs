//! What memory and the disk take.

use schedlab_model::{Access, Devices, Time};

use super::Prices;

impl Prices {
    /// Touching memory: bytes rounded down to the nanosecond, or pointers.
    pub(crate) const fn memory(&self, access: Access, count: u64) -> u64 {
        let (price, unit) = if access.chases() { (self.memory_chase, 1) } else { (self.memory_per_kib, 1024) };
        let time = price as u128 * count as u128 / unit;
        if time > u64::MAX as u128 { u64::MAX } else { time as u64 }
    }

    /// How long an access keeps the disk from others, and how long it takes beyond that.
    pub(crate) const fn disk(&self, bytes: u32) -> (u64, u64) {
        (self.disk_per_kib.saturating_mul(bytes as u64) / 1024, self.disk_latency)
    }

    /// The CPU time of the thread that hands over an access of so many bytes, which it moves: measured for [`DISPATCHED`], the first of a run.
    pub(crate) const fn dispatch(&self, bytes: u32, first: bool) -> u64 {
        let run = if first { self.dispatch.saturating_sub(self.disk(DISPATCHED).0) } else { 0 };
        run.saturating_add(self.disk(bytes).0)
    }

    /// An access that such a thread has handed over, as [`Prices::disk`]: what the disk does for bytes is measured with latency.
    pub(crate) const fn disk_behind_dispatch(&self) -> (u64, u64) {
        (0, self.disk_latency.saturating_add(self.disk(DISPATCHED).0))
    }

    /// Whether synchronous writes end with a flush of the disk's write cache.
    pub(crate) const fn flushes(&self) -> bool {
        self.flush_latency > 0
    }

    /// The CPU that takes the disk's interrupt for an access that `cpu` asked for.
    pub(crate) fn interrupted_by_disk(&self, cpu: u32) -> u32 {
        self.disk_cpu.unwrap_or(cpu)
    }

    /// [`Prices::disk`] of a flush.
    pub(crate) const fn flush_on_disk(&self) -> (u64, u64) {
        (0, self.flush_latency)
    }
}

/// Bytes of the accesses for which the thread that hands them over was measured.
const DISPATCHED: u32 = 4096;

/// The CPU time of asking for an access, less what of it is charged apart; that of any access where it was not measured.
pub(super) fn access_in(measured: Time, apart: Time, devices: &Devices) -> u64 {
    if measured == Time::ZERO { devices.disk_access } else { measured.saturating_sub(apart) }.as_nanos()
}
