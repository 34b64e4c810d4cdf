//! The common parts of all micro-benchmarks: CPUs, helpers, shared words, pipes.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use schedlab_model::{Attributes, Policy};

use super::schedstat::Schedstat;
use crate::NativeError;
use crate::attributes::set_policy;
use crate::error::during;
use crate::plumbing::Ends;
use crate::system::{self, die_with, exit_now, monotonic, sched_getattr, set_affinity, thread_cpu};

/// Shared 64-bit words of a bench.
const WORDS: usize = 4096;

/// Semaphores that there may be at a time.
const SEMAPHORES: usize = 64;

/// Where measurements are made, and how thoroughly.
pub(crate) struct Bench {
    /// The CPU that measures.
    pub(crate) here: u32,
    /// Another one, where there is one.
    pub(crate) there: Option<u32>,
    /// CPUs that this process may use.
    pub(crate) allowed: Vec<u32>,
    /// How many these are.
    pub(crate) cpus: u32,
    /// How many batches a measurement has in one pass, about.
    pub(crate) batches: usize,
    /// Words that helpers share with the measuring process.
    pub(crate) words: &'static [AtomicU64],
    /// How many semaphores were made.
    semaphores: Cell<usize>,
    /// What reading `CLOCK_MONOTONIC` takes, in nanoseconds.
    pub(crate) clock: f64,
    /// What reading the thread's CPU time takes, in nanoseconds.
    pub(crate) cpu_clock: f64,
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
        let mut bench = Self {
            here,
            there: cpus.get(1).copied(),
            allowed: cpus,
            cpus: count,
            batches,
            words,
            semaphores: Cell::new(0),
            clock: 0.0,
            cpu_clock: 0.0,
        };
        bench.stand(here)?;
        let fastest = |call: fn() -> u64| {
            let read = || {
                let _ = call();
            };
            (0..50).map(|_| timed(200, read)).fold(f64::INFINITY, f64::min)
        };
        (bench.clock, bench.cpu_clock) = (fastest(monotonic), fastest(thread_cpu));
        Ok(bench)
    }

    /// The CPU time, in nanoseconds, of what was done since `start`, a look at the thread's CPU time.
    pub(crate) fn since(&self, start: u64) -> f64 {
        (thread_cpu() - start) as f64 - self.cpu_clock
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
                if die_with(parent) && set_affinity(0, &[cpu]).is_ok() && become_one(policy).is_ok() {
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

    /// Makes a semaphore. With a mapping for each every later fork would cost more.
    pub(crate) fn semaphore(&self) -> Result<Semaphore, NativeError> {
        let size = size_of::<libc::sem_t>().div_ceil(size_of::<u64>());
        let number = self.semaphores.replace(self.semaphores.get() + 1) % SEMAPHORES;
        let place = self.words[WORDS / 2 + number * size].as_ptr().cast::<libc::sem_t>();
        // SAFETY: within the second half of the words, which nothing else uses, aligned to eight bytes, and never unmapped. Those made
        // so many before are not used any more.
        unsafe {
            libc::sem_init(place, 1, 0);
            Ok(Semaphore(&*place))
        }
    }

    /// Opens a stream socket pair.
    pub(crate) fn socket(&self) -> Result<Pipe, NativeError> {
        let (read, write) = system::socket_pair().map_err(during("opening a socket pair"))?;
        Ok(Pipe(Ends { read, write }))
    }
}

/// Gives the calling process a fair policy and leaves its nice level.
pub(crate) fn become_one(policy: Policy) -> io::Result<()> {
    let nice = i8::try_from(sched_getattr()?.nice).unwrap_or_default();
    set_policy(&Attributes { policy, nice, ..Attributes::default() })
}

/// The average CPU time of `count` calls, in nanoseconds. Other tasks that run on the CPU meanwhile disturb only the caches.
pub(crate) fn timed(count: u32, mut call: impl FnMut()) -> f64 {
    let start = thread_cpu();
    for _ in 0..count {
        call();
    }
    (thread_cpu() - start) as f64 / f64::from(count)
}

/// A process that takes part in a measurement; killed and collected when the handle goes.
pub(crate) struct Helper {
    pub(crate) pid: libc::pid_t,
}

impl Helper {
    /// What is counted of it.
    pub(super) fn counts(&self) -> io::Result<Schedstat> {
        Schedstat::open(Path::new(&format!("/proc/{}", self.pid)))
    }

    /// Waits until it has done its work.
    pub(crate) fn finish(self) {
        system::await_end(self.pid);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet collected.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let _ = system::wait_own(self.pid);
    }
}

/// What one task passes on to another one, which may sleep until it is there.
pub(crate) trait Link {
    /// Passes it on.
    fn send(&self);
    /// Takes it, sleeping until it is there.
    fn receive(&self);
}

/// A pipe or socket pair that is closed when the handle goes.
pub(crate) struct Pipe(Ends);

/// By one byte.
impl Link for Pipe {
    fn send(&self) {
        let _ = system::write(self.0.write, b"*");
    }

    fn receive(&self) {
        let _ = system::read(self.0.read, &mut [0]);
    }
}

impl Pipe {
    /// Writes a message.
    pub(crate) fn write(&self, message: &[u8]) {
        let _ = system::write(self.0.write, message);
    }

    /// How many such messages fit in before a writer would have to wait, at most `most`, less one for safety. Makes the pipe or
    /// socket non-blocking, and leaves it empty.
    pub(crate) fn depth(&self, message: &[u8], most: usize) -> usize {
        for end in [self.0.read, self.0.write] {
            // SAFETY: changing a flag of an open descriptor.
            unsafe { libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK) };
        }
        let whole = |_: &usize| system::write(self.0.write, message).is_ok_and(|written| written == message.len());
        let fit = (0..most).take_while(whole).count();
        let mut buffer = vec![0; 1 << 16];
        while system::read(self.0.read, &mut buffer).is_ok_and(|read| read > 0) {}
        if fit < most { fit.saturating_sub(1).max(1) } else { most }
    }

    /// Reads a message.
    pub(crate) fn read(&self, message: &mut [u8]) {
        let _ = system::read(self.0.read, message);
    }
}

/// A semaphore, as workloads have them: a futex that helpers share.
pub(crate) struct Semaphore(&'static libc::sem_t);

impl Link for Semaphore {
    fn send(&self) {
        // SAFETY: an initialised semaphore.
        unsafe { libc::sem_post((&raw const *self.0).cast_mut()) };
    }

    fn receive(&self) {
        // SAFETY: as before.
        while unsafe { libc::sem_wait((&raw const *self.0).cast_mut()) } != 0 {}
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
