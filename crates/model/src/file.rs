//! Files of a workload, and what a machine's disk and memory can do.

use serde::{Deserialize, Serialize};

use crate::Time;

/// The largest file of a workload (1 TiB).
pub const MAX_FILE: u64 = 1 << 40;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its bytes, 1 to [`MAX_FILE`].
    pub size: u64,
    /// How it is opened.
    #[serde(default)]
    pub open: Opening,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// Through the page cache: a write is done when the page cache has it, and what was read or written once is there.
    #[default]
    Cached,
    /// `O_SYNC`: a write is done when the disk has it.
    Sync,
    /// `O_DIRECT` and `O_SYNC`: reads and writes both go past the page cache.
    Direct,
}

/// What a machine's memory and disk take, for the work that tasks ask of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Devices {
    /// CPU time to write or read 1024 bytes of memory, one after the other.
    pub memory_per_kib: Time,
    /// CPU time to follow one pointer that no prefetcher guesses.
    pub memory_chase: Time,
    /// CPU time of the task that asks for a disk access, beyond the system call and copying.
    pub disk_access: Time,
    /// From a disk access's turn to its end on an idle CPU, beyond its bytes; accesses overlap in this.
    pub disk_latency: Time,
    /// Disk time for 1024 bytes; accesses take turns in this.
    pub disk_per_kib: Time,
    /// CPU time of the task that begins a write past the page cache and waits for it, beyond the system call; zero for that of any access of the disk.
    pub begun_write: Time,
    /// Further CPU time of that task where a block is written for the first time.
    pub first_write: Time,
    /// CPU time of the kernel thread that completes a write that a task began; without it the disk completes such writes by itself.
    pub completion: Time,
    /// Further CPU time of that thread where a block was written for the first time.
    pub first_completion: Time,
    /// CPU time for each access of the disk that the thread asks for, the switch back to it included, and of a task that writes synchronously for
    /// the inode's table block; zero for that of any access there.
    pub completion_access: Time,
    /// CPU time of the kernel thread that hands an access to the disk (`blk_mq_run_work_fn`); without it the asking task does.
    pub dispatch: Time,
    /// Further CPU time of a task that writes a block synchronously for the first time (`ext4_ext_handle_unwritten_extents`).
    pub first_sync_write: Time,
    /// CPU time of the kernel thread that ends the writeback of such a write (`ext4_end_io_rsv_work`); without it the disk's interrupt does.
    pub first_writeback: Time,
    /// CPU time of the task that asks for a flush of the disk's write cache, beyond the system call (`blkdev_issue_flush`).
    pub flush: Time,
    /// CPU time of the kernel thread that hands a flush to the disk (`blk_mq_requeue_work`); without it the task does.
    pub flush_dispatch: Time,
    /// From when a flush is handed to the disk to its end; zero where the disk has no write cache (`queue/write_cache`), so that synchronous
    /// writes end without a flush.
    pub flush_latency: Time,
    /// What an interrupt of the disk takes from the task that it interrupts and that goes on after it, beyond the wake-ups; zero for what a timer's
    /// takes (`interrupt`). Measured where `disk_cpu` is.
    pub disk_interrupt: Time,
    /// The CPU that takes all of the disk's interrupts (`/proc/interrupts`); absent where the CPU that asked takes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_cpu: Option<u32>,
}

impl Devices {
    /// Memory of 20 GB/s and 90 ns, a disk of 500 MB/s and 100 µs: a small server's with a SATA solid-state disk.
    pub const SMALL_SERVER: Self = Self {
        memory_per_kib: Time::from_nanos(50),
        memory_chase: Time::from_nanos(90),
        disk_access: Time::ZERO,
        disk_latency: Time::from_micros(100),
        disk_per_kib: Time::from_micros(2),
        begun_write: Time::ZERO,
        first_write: Time::ZERO,
        completion: Time::ZERO,
        first_completion: Time::ZERO,
        completion_access: Time::ZERO,
        dispatch: Time::ZERO,
        first_sync_write: Time::ZERO,
        first_writeback: Time::ZERO,
        flush: Time::ZERO,
        flush_dispatch: Time::ZERO,
        flush_latency: Time::ZERO,
        disk_interrupt: Time::ZERO,
        disk_cpu: None,
    };
}

impl Default for Devices {
    fn default() -> Self {
        Self::SMALL_SERVER
    }
}
