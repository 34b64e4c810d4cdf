//! Mutexes, conditions, barriers, semaphores, timers and histograms that all tasks of a run share, in memory mapped before the first
//! fork.

use std::cell::UnsafeCell;
use std::io;
use std::mem::{size_of, zeroed};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use schedlab_model::{Histogram, LATENCY_BUCKETS, latency_bucket};
use schedlab_program::Program;

use crate::system::map_shared;

// glibc has it, the libc crate has not.
unsafe extern "C" {
    fn pthread_mutexattr_setprotocol(attributes: *mut libc::pthread_mutexattr_t, protocol: libc::c_int) -> libc::c_int;
}

/// `PTHREAD_PRIO_INHERIT`.
const INHERIT: libc::c_int = 1;

/// `pthread_mutex_t`, shared between processes.
#[repr(C, align(64))]
pub(crate) struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

/// `pthread_cond_t`, shared between processes.
#[repr(C, align(64))]
pub(crate) struct Condition(UnsafeCell<libc::pthread_cond_t>);

/// A barrier as rt-app makes it of a mutex and a condition.
#[repr(C, align(64))]
pub(crate) struct Barrier {
    mutex: Mutex,
    condition: Condition,
    arrived: AtomicU64,
    /// How often it was passed.
    passed: AtomicU64,
}

/// `sem_t`, shared between processes, and when it was posted last.
#[repr(C, align(64))]
pub(crate) struct Semaphore {
    inner: UnsafeCell<libc::sem_t>,
    posted: AtomicU64,
    pub(crate) wakeups: Counters,
}

/// A histogram that several tasks count in.
#[repr(C)]
pub(crate) struct Counters {
    longest: AtomicU64,
    buckets: [AtomicU64; LATENCY_BUCKETS],
}

// SAFETY: what is inside is only touched by the functions of pthreads and semaphores, which are made for that.
unsafe impl Sync for Mutex {}
// SAFETY: as for the mutex.
unsafe impl Sync for Condition {}
// SAFETY: as for the mutex.
unsafe impl Sync for Semaphore {}

impl Mutex {
    fn initialise(&self, inherit: bool) {
        // SAFETY: the attributes are initialised before and destroyed after their use; the mutex is not in use yet.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
            if inherit {
                pthread_mutexattr_setprotocol(&raw mut attributes, INHERIT);
            }
            libc::pthread_mutex_init(self.0.get(), &raw const attributes);
            libc::pthread_mutexattr_destroy(&raw mut attributes);
        }
    }

    pub(crate) fn lock(&self) {
        // SAFETY: an initialised mutex.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    pub(crate) fn unlock(&self) {
        // SAFETY: an initialised mutex; that the caller holds it was checked when the program was compiled.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

impl Condition {
    fn initialise(&self) {
        // SAFETY: as for the mutex.
        unsafe {
            let mut attributes: libc::pthread_condattr_t = zeroed();
            libc::pthread_condattr_init(&raw mut attributes);
            libc::pthread_condattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_cond_init(self.0.get(), &raw const attributes);
            libc::pthread_condattr_destroy(&raw mut attributes);
        }
    }

    pub(crate) fn wait(&self, mutex: &Mutex) {
        // SAFETY: both are initialised, and the caller holds the mutex.
        unsafe { libc::pthread_cond_wait(self.0.get(), mutex.0.get()) };
    }

    pub(crate) fn signal(&self) {
        // SAFETY: an initialised condition.
        unsafe { libc::pthread_cond_signal(self.0.get()) };
    }

    pub(crate) fn broadcast(&self) {
        // SAFETY: an initialised condition.
        unsafe { libc::pthread_cond_broadcast(self.0.get()) };
    }
}

impl Barrier {
    /// Waits until `parties` are there.
    pub(crate) fn meet(&self, parties: u64) {
        self.mutex.lock();
        let passed = self.passed.load(Relaxed);
        let arrived = self.arrived.load(Relaxed) + 1;
        if arrived >= parties {
            self.arrived.store(0, Relaxed);
            self.passed.store(passed + 1, Relaxed);
            self.condition.broadcast();
        } else {
            self.arrived.store(arrived, Relaxed);
            while self.passed.load(Relaxed) == passed {
                self.condition.wait(&self.mutex);
            }
        }
        self.mutex.unlock();
    }
}

impl Semaphore {
    pub(crate) fn post(&self, now: u64) {
        self.posted.store(now, Relaxed);
        // SAFETY: an initialised semaphore.
        unsafe { libc::sem_post(self.inner.get()) };
    }

    /// Takes one; where it had to sleep, how long before that the last post was is measured.
    pub(crate) fn wait(&self, now: impl Fn() -> u64) {
        // SAFETY: an initialised semaphore.
        unsafe {
            if libc::sem_trywait(self.inner.get()) == 0 {
                return;
            }
            while libc::sem_wait(self.inner.get()) != 0 {}
        }
        self.wakeups.add(now().saturating_sub(self.posted.load(Relaxed)));
    }
}

impl Counters {
    pub(crate) fn add(&self, nanoseconds: u64) {
        self.buckets[latency_bucket(nanoseconds)].fetch_add(1, Relaxed);
        self.longest.fetch_max(nanoseconds, Relaxed);
    }

    pub(crate) fn histogram(&self) -> Histogram {
        Histogram::of(self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect(), self.longest.load(Relaxed))
    }
}

/// All of a run.
pub(crate) struct Objects {
    pub(crate) mutexes: &'static [Mutex],
    pub(crate) conditions: &'static [Condition],
    pub(crate) barriers: &'static [Barrier],
    pub(crate) semaphores: &'static [Semaphore],
    /// When the timers that tasks share expire next, 0 before their first use.
    pub(crate) timers: &'static [AtomicU64],
    pub(crate) watches: &'static [Counters],
    /// Memory that tasks share, by its place among the program's memories; none where each has its own.
    pub(crate) memories: Vec<Option<&'static [AtomicU64]>>,
}

/// Zeroed memory for `count` of something, mapped until the process ends.
fn map<T>(count: usize) -> io::Result<&'static [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    let memory = map_shared(count * size_of::<T>())?;
    // SAFETY: the mapping is page-aligned, zeroed, long enough and never unmapped; every type here is valid when zeroed.
    Ok(unsafe { std::slice::from_raw_parts(memory.cast::<T>(), count) })
}

impl Objects {
    /// Makes what the program names.
    pub(crate) fn make(program: &Program) -> io::Result<Self> {
        let mut shared: Vec<(&str, &'static [AtomicU64])> = Vec::new();
        let mut memories = Vec::new();
        for memory in program.memories() {
            let Some(name) = memory.shared.as_deref() else {
                memories.push(None);
                continue;
            };
            let known = shared.iter().find(|(known, _)| *known == name).map(|(_, words)| *words);
            let words = match known {
                Some(words) => words,
                None => {
                    let words = map(memory.bytes.div_ceil(8) as usize)?;
                    shared.push((name, words));
                    words
                }
            };
            memories.push(Some(words));
        }
        let objects = Self {
            mutexes: map(program.mutexes().len())?,
            conditions: map(program.conditions().len())?,
            barriers: map(program.barriers().len())?,
            semaphores: map(program.semaphores().len())?,
            timers: map(program.timers().len())?,
            watches: map(program.watches().len())?,
            memories,
        };
        let inherit = program.priority_inheritance();
        objects.mutexes.iter().for_each(|mutex| mutex.initialise(inherit));
        objects.conditions.iter().for_each(Condition::initialise);
        for barrier in objects.barriers {
            barrier.mutex.initialise(inherit);
            barrier.condition.initialise();
        }
        for semaphore in objects.semaphores {
            // SAFETY: the semaphore is not in use yet.
            unsafe { libc::sem_init(semaphore.inner.get(), 1, 0) };
        }
        Ok(objects)
    }
}
