//! `bpf/shared.h`, as the loader sees it.

/// Threads that a table of factors tells apart.
pub const MOST_THREADS: u32 = 4095;
/// CPUs at the most.
pub const MOST_CPUS: u32 = 1024;
/// Room for nice levels: 40, SCHED_IDLE, and up to a power of two so that the program can mask.
pub const LEVELS: usize = 64;
/// Where SCHED_IDLE's weight stands.
pub const IDLE_LEVEL: usize = 40;

/// `struct parameters`, in `.rodata`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Parameters {
    pub slice: u64,
    pub lag_cap: u64,
    pub patience: u64,
    pub base_weights: [u64; LEVELS],
    pub least_weight: u64,
    pub factor_shift: u32,
    pub shared_queues: u32,
    pub cpus: u32,
    pub unused: u32,
}

/// `struct report`, in `.bss`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Report {
    pub hotplugs: u64,
    pub steals: u64,
    pub keeps: u64,
    pub reliefs: u64,
    pub exit_code: i64,
    pub online: u32,
    pub exit_kind: i32,
    pub exit_reason: [u8; 128],
    pub exit_message: [u8; 512],
}

/// `struct process`, a value of the map `processes`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Process {
    pub runtime: u64,
    pub switches: u64,
    pub threads: u32,
    pub name: [u8; 16],
}

/// The beginning of `struct sched_ext_ops` as bpf/kernel.h declares it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Settings {
    pub flags: u64,
    pub timeout_ms: u32,
    pub exit_dump_len: u32,
}

/// Structures that are plain bytes: integers and arrays of them, without padding that would have to be defined.
///
/// # Safety
///
/// Every bit pattern is a value.
pub unsafe trait Plain: Copy {}

// SAFETY: each is made of integers and arrays of integers.
unsafe impl Plain for Parameters {}
// SAFETY: as above.
unsafe impl Plain for Report {}
// SAFETY: as above.
unsafe impl Plain for Process {}
// SAFETY: as above.
unsafe impl Plain for Settings {}

/// Read a structure from the beginning of some bytes; None if they are too few.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, of any alignment, and every pattern is a value.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Write a structure over the beginning of some bytes; false if they are too few.
pub fn write<T: Plain>(bytes: &mut [u8], value: T) -> bool {
    if bytes.len() < size_of::<T>() {
        return false;
    }
    // SAFETY: there are enough bytes, of any alignment.
    unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
    true
}

/// The text before the first zero byte.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
