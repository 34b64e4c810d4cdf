//! Which task is switched in on each CPU and when, as perf records it in the arriving task's context.
//!
//! The trace's event of a switch is recorded in the previous task's context. Where a kernel traces nothing of some tasks, idle tasks among
//! them, these records say which task came next. They are kept in memory as the trace is.
//!
//! Source: `include/uapi/linux/perf_event.h`, `kernel/events/core.c`, `perf_event_switch_output`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::system::{check, check_long};

const PAGE: usize = 4096;
/// A record of a switch on a CPU, with which it was taken: its head, the other task's pid and tid, the own ones, and the time.
const SWITCH: u32 = 15;
const RECORD: usize = 32;
/// The thread of a task that has no id any more: it was preempted as it ended (`perf_event_tid`). The switch to it tells which one it is.
const ENDED: u32 = u32::MAX;
/// In a record's head: that the task leaves.
const LEAVES: u16 = 1 << 13;
/// Where the first page says how much was written.
const HEAD: usize = 1024;

/// `perf_event_attr`, as long as it was when it got a clock (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config_1: u64,
    config_2: u64,
    branches: u64,
    user_registers: u64,
    user_stack: u32,
    clock: i32,
    registers: u64,
    aux: u32,
    depth: u16,
    reserved: u16,
}

/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_DUMMY`.
const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// `PERF_SAMPLE_TID`, `PERF_SAMPLE_TIME`.
const TASK_AND_TIME: u64 = 1 << 1 | 1 << 2;
/// `sample_id_all`, `use_clockid`, `context_switch`.
const FLAGS: u64 = 1 << 18 | 1 << 25 | 1 << 26;

/// A task that is switched in on a CPU, in the trace's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) time: u64,
    pub(super) pid: i64,
}

/// The arrivals at all CPUs; they are no longer recorded when it is dropped.
pub(super) struct Arrivals(Vec<(u32, Ring)>);

impl Arrivals {
    /// Begins to record, in buffers of at most so many KiB for each CPU, that are written anew once they are full unless they are kept.
    ///
    /// # Errors
    /// Where perf is not permitted or not there.
    pub(super) fn open(cpus: &[u32], buffer: u64, keep: bool) -> io::Result<Self> {
        // A power of two; a switch takes more room in the trace than here.
        let pages = 1 << (buffer / 4).clamp(1, 1 << 12).ilog2();
        cpus.iter().map(|&cpu| Ok((cpu, Ring::open(cpu, pages, keep)?))).collect::<io::Result<_>>().map(Self)
    }

    /// All there were at each CPU so far, in their order.
    pub(super) fn all(&self) -> Vec<(u32, Vec<Arrival>)> {
        self.0.iter().map(|(cpu, ring)| (*cpu, arrivals(ring.written()))).collect()
    }
}

/// An event of perf and the buffer it writes.
struct Ring {
    _event: OwnedFd,
    start: *mut libc::c_void,
    pages: usize,
}

impl Ring {
    fn open(cpu: u32, pages: usize, keep: bool) -> io::Result<Self> {
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: DUMMY,
            sample: TASK_AND_TIME,
            flags: FLAGS,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let (every_task, no_group, close_on_exec) = (-1, -1, 8);
        // SAFETY: `attributes` is as long as it says; the descriptor is new and owned once.
        let event = unsafe {
            let attributes = &raw const attributes;
            let number = libc::syscall(libc::SYS_perf_event_open, attributes, every_task, cpu, no_group, close_on_exec);
            OwnedFd::from_raw_fd(check_long(number)? as libc::c_int)
        };
        // What cannot be written to tell what was read is overwritten.
        let access = if keep { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping of the descriptor, of its first page and the buffer.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), (pages + 1) * PAGE, access, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { _event: event, start, pages })
    }

    /// What was written since the beginning; the kernel stops when the buffer is full.
    fn written(&self) -> &[u8] {
        // SAFETY: the first page has the number there, and lives as long as the mapping; the kernel writes nothing before what it says.
        unsafe {
            let head = &*self.start.cast::<u8>().add(HEAD).cast::<AtomicU64>();
            let length = head.load(Ordering::Acquire) as usize;
            std::slice::from_raw_parts(self.start.cast::<u8>().add(PAGE), length.min(self.pages * PAGE))
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, of that length. Should it fail, the kernel unmaps it when the program ends.
        let _ = check(unsafe { libc::munmap(self.start, (self.pages + 1) * PAGE) });
    }
}

/// The arrivals among records.
fn arrivals(mut records: &[u8]) -> Vec<Arrival> {
    let mut found = Vec::new();
    while let Some((kind, misc, size)) = head(records) {
        if size < 8 || size > records.len() {
            break;
        }
        let (record, rest) = records.split_at(size);
        if kind == SWITCH && misc & LEAVES == 0 && size == RECORD {
            let word = |at: usize| record[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
            let time = record[24..32].try_into().map_or(0, u64::from_le_bytes);
            if word(20) != ENDED {
                found.push(Arrival { time, pid: i64::from(word(20)) });
            }
        }
        records = rest;
    }
    found
}

fn head(records: &[u8]) -> Option<(u32, u16, usize)> {
    let head: &[u8; 8] = records.first_chunk()?;
    let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    Some((kind, u16::from_le_bytes([head[4], head[5]]), usize::from(u16::from_le_bytes([head[6], head[7]]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, words: &[u32], time: u64) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(misc.to_le_bytes());
        bytes.extend((16 + 4 * words.len() as u16).to_le_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(time.to_le_bytes());
        bytes
    }

    #[test]
    fn arrivals_are_found_among_records() {
        let bytes = [
            // 8, of process 7, comes after idle; it leaves for 9; something is lost; 9 comes; one that has ended comes, without an id; a
            // record is cut short.
            record(SWITCH, 0, &[0, 0, 7, 8], 5),
            record(SWITCH, LEAVES, &[9, 9, 7, 8], 6),
            record(2, 0, &[1, 1, 1, 1], 6),
            record(SWITCH, 0, &[7, 8, 9, 9], 7),
            record(SWITCH, 0, &[9, 9, u32::MAX, u32::MAX], 7),
            record(SWITCH, 0, &[9, 9, 7, 8], 8)[..20].to_vec(),
        ]
        .concat();
        assert_eq!(arrivals(&bytes), [Arrival { time: 5, pid: 8 }, Arrival { time: 7, pid: 9 }]);
    }

    #[test]
    fn the_attributes_have_the_kernels_length() {
        assert_eq!(size_of::<Attributes>(), 112);
    }
}
