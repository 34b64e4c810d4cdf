//! Memory that all tasks of a run share with their supervisor: what each task measured, and the first failure.

use std::io;
use std::mem::size_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use schedlab_program::TemplateId;

use crate::system::map_shared;

/// What a task could not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Wanted {
    /// `sched_setattr(2)` for its policy, nice level and slice.
    Attributes = 1,
    /// `sched_setaffinity(2)`.
    Affinity,
    /// `fork(2)`.
    Fork,
    /// `pthread_create(3)`.
    Thread,
    /// A write to a channel.
    Write,
    /// A read from a channel.
    Read,
    /// Waiting at a latch.
    Poll,
    /// Collecting a child.
    Wait,
    /// An ordinary end of a child: the number is its wait status.
    Child,
    /// Moving to a cgroup.
    Group,
    /// Utilisation clamps.
    Clamp,
    /// NUMA nodes for its memory.
    Nodes,
    /// `mlockall(2)`.
    LockPages,
    /// An access of a file.
    File,
    /// Writing to the workload's device.
    Device,
    /// A connection, a request or a reply.
    Network,
    /// One more task of a fork without end.
    TooMany,
    /// `setsid(2)`.
    Session,
}

impl Wanted {
    const ALL: [Self; 18] = [
        Self::Attributes,
        Self::Affinity,
        Self::Fork,
        Self::Thread,
        Self::Write,
        Self::Read,
        Self::Poll,
        Self::Wait,
        Self::Child,
        Self::Group,
        Self::Clamp,
        Self::Nodes,
        Self::LockPages,
        Self::File,
        Self::Device,
        Self::Network,
        Self::TooMany,
        Self::Session,
    ];
}

/// The first failure of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    /// What could not be done.
    pub(crate) wanted: Wanted,
    /// `errno`, or a wait status.
    pub(crate) number: i32,
    /// The task whose it was, or was to be.
    pub(crate) template: TemplateId,
}

/// The result of one task. Times in nanoseconds of `CLOCK_MONOTONIC` or of CPU.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) template: AtomicU32,
    pub(crate) instance: AtomicU32,
    pub(crate) start: AtomicU64,
    pub(crate) end: AtomicU64,
    pub(crate) run: AtomicU64,
    pub(crate) user: AtomicU64,
    pub(crate) system: AtomicU64,
    pub(crate) wait: AtomicU64,
    pub(crate) delays: AtomicU64,
    pub(crate) voluntary: AtomicU64,
    pub(crate) involuntary: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Its process and thread, once it lives.
    pub(crate) process: AtomicU32,
    pub(crate) thread: AtomicU32,
    /// [`LIVING`] between its start and its report.
    pub(crate) state: AtomicU32,
    /// Where its counters stood at its start: CPU time, that of user and system, switches of both kinds, delays and their number.
    pub(crate) before: [AtomicU64; 7],
    /// The group it is in: 1 more than its number, 0 for none.
    pub(crate) group: AtomicU32,
    /// The process that began its session, where the workload has any.
    pub(crate) leader: AtomicU32,
}

/// A task that has begun and not reported.
pub(crate) const LIVING: u32 = 1;
/// A task that has reported.
pub(crate) const REPORTED: u32 = 2;

/// The first page or so of the memory.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Header {
    /// How many slots are taken.
    slots: AtomicU32,
    /// How many first tasks stand at the gate.
    pub(crate) arrived: AtomicU32,
    /// A futex word: 0 closed, 1 open.
    gate: AtomicU32,
    failed: AtomicU32,
    number: AtomicU32,
    template: AtomicU32,
    /// When the gate was opened, 0 before.
    pub(crate) opened: AtomicU64,
    /// When the workload's clock started, 0 before.
    pub(crate) clock_start: AtomicU64,
    /// When the task that started it ended.
    pub(crate) clock_end: AtomicU64,
}

/// The memory, mapped before the first fork.
#[derive(Debug)]
pub(crate) struct Shared {
    header: &'static Header,
    slots: &'static [Slot],
}

impl Shared {
    /// Maps zeroed memory for `tasks` tasks. It stays mapped until the process ends.
    pub(crate) fn map(tasks: usize) -> io::Result<Self> {
        let bytes = size_of::<Header>() + tasks * size_of::<Slot>();
        let memory = map_shared(bytes)?;
        // SAFETY: the mapping is page-aligned, zeroed (valid for atomics) and as long as a header and `tasks` slots; it is never
        // unmapped, and all access is atomic.
        unsafe {
            let header = &*memory.cast::<Header>();
            let first = memory.byte_add(size_of::<Header>()).cast::<Slot>();
            Ok(Self { header, slots: std::slice::from_raw_parts(first, tasks) })
        }
    }

    pub(crate) fn header(&self) -> &Header {
        self.header
    }

    /// Takes the next slot. A program knows how many tasks it has, so there is always one.
    pub(crate) fn take(&self, template: TemplateId, instance: u32, start: u64) -> u32 {
        let index = self.header.slots.fetch_add(1, Relaxed);
        let slot = &self.slots[index as usize];
        slot.template.store(template.0, Relaxed);
        slot.instance.store(instance, Relaxed);
        slot.start.store(start, Relaxed);
        index
    }

    pub(crate) fn slot(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }

    /// The slots taken so far, in the order in which their tasks were made.
    pub(crate) fn taken(&self) -> &[Slot] {
        let count = (self.header.slots.load(SeqCst) as usize).min(self.slots.len());
        &self.slots[..count]
    }

    /// Notes the run's first failure; later ones follow from it.
    pub(crate) fn fail(&self, failure: Failure) {
        let header = self.header;
        if header.failed.compare_exchange(0, u32::MAX, SeqCst, SeqCst).is_ok() {
            header.number.store(failure.number as u32, SeqCst);
            header.template.store(failure.template.0, SeqCst);
            header.failed.store(failure.wanted as u32, SeqCst);
        }
    }

    /// The first failure, if there was one.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let wanted = self.header.failed.load(SeqCst);
        let wanted = Wanted::ALL.into_iter().find(|each| *each as u32 == wanted)?;
        let number = self.header.number.load(SeqCst) as i32;
        Some(Failure { wanted, number, template: TemplateId(self.header.template.load(SeqCst)) })
    }

    /// Sleeps until the gate is open.
    pub(crate) fn await_gate(&self) {
        while self.header.gate.load(SeqCst) == 0 {
            futex(&self.header.gate, libc::FUTEX_WAIT, 0);
        }
    }

    /// Opens the gate and wakes all tasks that wait there.
    pub(crate) fn open_gate(&self, now: u64) {
        self.header.opened.store(now, SeqCst);
        self.header.gate.store(1, SeqCst);
        futex(&self.header.gate, libc::FUTEX_WAKE, i32::MAX as u32);
    }
}

fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let no_timeout: *const libc::timespec = std::ptr::null();
    // SAFETY: `word` is a live, aligned 32-bit word; no other pointer is used by these two operations.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, no_timeout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_kept() {
        let shared = Shared::map(1).unwrap();
        assert!(shared.failure().is_none());
        for (wanted, number) in [(Wanted::Fork, libc::EAGAIN), (Wanted::Read, libc::EIO)] {
            shared.fail(Failure { wanted, number, template: TemplateId(3) });
        }
        let failure = shared.failure().unwrap();
        assert_eq!((failure.wanted, failure.number, failure.template.0), (Wanted::Fork, libc::EAGAIN, 3));
    }

    #[test]
    fn slots_are_taken_in_order() {
        let shared = Shared::map(2).unwrap();
        assert_eq!((shared.take(TemplateId(7), 1, 5), shared.take(TemplateId(8), 0, 6)), (0, 1));
        let templates: Vec<u32> = shared.taken().iter().map(|slot| slot.template.load(Relaxed)).collect();
        assert_eq!(templates, [7, 8]);
    }
}
