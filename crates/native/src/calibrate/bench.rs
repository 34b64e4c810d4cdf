//! What every micro-benchmark needs: CPUs to stand on, helpers, shared words, pipes.

use std::io;
use std::sync::atomic::AtomicU64;

use schedlab_model::{Attributes, Policy};

use crate::NativeError;
use crate::attributes::set_policy;
use crate::error::during;
use crate::plumbing::Ends;
use crate::system::{self, die_with, exit_now, monotonic, set_affinity};

/// Shared 64-bit words of a bench.
const WORDS: usize = 4096;

/// Where measurements are made, and how thoroughly.
pub(crate) struct Bench {
    /// The CPU that measures.
    pub(crate) here: u32,
    /// Another one, where there is one.
    pub(crate) there: Option<u32>,
    /// CPUs that this process may use.
    pub(crate) cpus: u32,
    /// How many batches a measurement has in one pass, about.
    pub(crate) batches: usize,
    /// Words that helpers share with the measuring process.
    pub(crate) words: &'static [AtomicU64],
    /// What reading `CLOCK_MONOTONIC` takes, in nanoseconds.
    pub(crate) clock: f64,
}

impl Bench {
    pub(crate) fn new(batches: usize) -> Result<Self, NativeError> {
        let cpus = system::allowed_cpus();
        let Some(&here) = cpus.first() else {
            return Err(NativeError::Limit("this process may run on no CPU".to_owned()));
        };
        let bytes = WORDS * size_of::<AtomicU64>();
        // SAFETY: a fresh anonymous mapping; nothing else refers to it.
        let memory = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
            libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(during("mapping shared memory")(io::Error::last_os_error()));
        }
        // SAFETY: the mapping is page-aligned, zeroed, as long as the slice, and never unmapped; all access is atomic.
        let words = unsafe { std::slice::from_raw_parts(memory.cast::<AtomicU64>(), WORDS) };
        let count = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        let mut bench = Self { here, there: cpus.get(1).copied(), cpus: count, batches, words, clock: 0.0 };
        bench.stand(here)?;
        bench.clock = (0..50)
            .map(|_| {
                timed(200, || {
                    let _ = monotonic();
                })
            })
            .fold(f64::INFINITY, f64::min);
        Ok(bench)
    }

    /// Binds the calling process to a CPU.
    pub(crate) fn stand(&self, cpu: u32) -> Result<(), NativeError> {
        set_affinity(0, &[cpu]).map_err(during("binding to a CPU"))
    }

    /// Starts a helper on a CPU. It does `work` and ends, or is killed when the handle goes.
    pub(crate) fn helper(&self, cpu: u32, policy: Policy, work: impl FnOnce()) -> Result<Helper, NativeError> {
        let parent = system::pid();
        // SAFETY: `calibrate` asks for a process without other threads.
        match unsafe { system::fork() }.map_err(during("making a helper"))? {
            0 => {
                let ready = die_with(parent) && set_affinity(0, &[cpu]).is_ok();
                if ready && set_policy(&Attributes { policy, ..Attributes::default() }).is_ok() {
                    work();
                }
                exit_now(0)
            }
            pid => Ok(Helper { pid }),
        }
    }

    /// Opens a pipe.
    pub(crate) fn pipe(&self) -> Result<Pipe, NativeError> {
        let (read, write) = system::pipe().map_err(during("opening a pipe"))?;
        Ok(Pipe(Ends { read, write }))
    }

    /// Opens a stream socket pair.
    pub(crate) fn socket(&self) -> Result<Pipe, NativeError> {
        let (read, write) = system::socket_pair().map_err(during("opening a socket pair"))?;
        Ok(Pipe(Ends { read, write }))
    }
}

/// The average time of `count` calls, in nanoseconds.
pub(crate) fn timed(count: u32, mut call: impl FnMut()) -> f64 {
    let start = monotonic();
    for _ in 0..count {
        call();
    }
    (monotonic() - start) as f64 / f64::from(count)
}

/// A process that takes part in a measurement; killed and collected when the handle goes.
pub(crate) struct Helper {
    pub(crate) pid: libc::pid_t,
}

impl Drop for Helper {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet collected.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let _ = system::wait_own(self.pid);
    }
}

/// A pipe or socket pair that is closed when the handle goes.
pub(crate) struct Pipe(Ends);

impl Pipe {
    /// Writes one byte.
    pub(crate) fn send(&self) {
        let _ = system::write(self.0.write, b"*");
    }

    /// Reads one byte, sleeping until there is one.
    pub(crate) fn receive(&self) {
        let _ = system::read(self.0.read, &mut [0]);
    }

    /// Writes a message.
    pub(crate) fn write(&self, message: &[u8]) {
        let _ = system::write(self.0.write, message);
    }

    /// Reads a message.
    pub(crate) fn read(&self, message: &mut [u8]) {
        let _ = system::read(self.0.read, message);
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // SAFETY: descriptors that this handle alone owns.
        unsafe {
            libc::close(self.0.read);
            libc::close(self.0.write);
        }
    }
}
