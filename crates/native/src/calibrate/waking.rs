//! Wake-ups, as the waker sees them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use schedlab_model::Policy;

use super::bench::{Bench, Helper, Link};
use crate::NativeError;
use crate::system::{self, monotonic, sched_yield, thread_cpu};

/// How many sleepers are woken one after the other.
const SLEEPERS: usize = 8;

/// Looks at the clock that are further apart than so many usual ones had an interrupt between them.
const UNUSUAL: f64 = 5.0;

/// How busy the CPU of the sleepers is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    /// It is the waker's own.
    Here,
    /// Another one, on which a task computes that the sleepers do not preempt.
    Busy(u32),
    /// Another one, which idles.
    Idle(u32),
}

/// One write that wakes a sleeping reader that does not preempt the writer.
pub(crate) fn wakeup(bench: &Bench, place: Where) -> Result<Vec<f64>, NativeError> {
    wakeup_through(bench, place, Bench::pipe)
}

/// One post of a semaphore that does the same on this CPU.
pub(crate) fn post(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    wakeup_through(bench, Where::Here, Bench::semaphore)
}

/// The sleepers are SCHED_BATCH, whose wake-ups preempt no task (`wakeup_preempt_fair`).
fn wakeup_through<L: Link>(
    bench: &Bench,
    place: Where,
    open: fn(&Bench) -> Result<L, NativeError>,
) -> Result<Vec<f64>, NativeError> {
    let (cpu, count) = match place {
        Where::Here => (bench.here, SLEEPERS),
        Where::Busy(there) => (there, SLEEPERS),
        Where::Idle(there) => (there, 1),
    };
    let (woken, calm) = (&bench.words[0], &bench.words[1]);
    woken.store(0, SeqCst);
    calm.store(0, SeqCst);
    let pipes = (0..count).map(|_| open(bench)).collect::<Result<Vec<L>, _>>()?;
    let sleepers = pipes.iter().map(|pipe| {
        bench.helper(cpu, Policy::Batch, || {
            loop {
                pipe.receive();
                woken.fetch_add(1, SeqCst);
            }
        })
    });
    let _sleepers = sleepers.collect::<Result<Vec<Helper>, _>>()?;
    let _hog = match place {
        // Computes while a batch is timed; between batches it lets the sleepers run.
        Where::Busy(_) => Some(bench.helper(cpu, Policy::Other, || {
            loop {
                if calm.load(Relaxed) == 1 {
                    std::hint::spin_loop();
                } else {
                    sched_yield();
                }
            }
        })?),
        _ => None,
    };
    // Until all were woken and sleep again. The waker's CPU never idles, so that its caches stay as they are at work.
    let settle = |expected: u64| {
        let start = monotonic();
        let passed = |since: u64, nanoseconds: u64| monotonic() - since > nanoseconds;
        // A second at most, should a helper have died.
        while woken.load(SeqCst) < expected && !passed(start, 1_000_000_000) {
            if place == Where::Here { sched_yield() } else { std::hint::spin_loop() }
        }
        if place == Where::Here {
            (0..4).for_each(|_| sched_yield());
        } else {
            let woken = monotonic();
            while !passed(woken, 50_000) {
                std::hint::spin_loop();
            }
        }
    };
    let mut expected = 0;
    let mut batch = || {
        calm.store(1, SeqCst);
        let start = thread_cpu();
        pipes.iter().for_each(Link::send);
        let time = bench.since(start);
        calm.store(0, SeqCst);
        expected += count as u64;
        settle(expected);
        time / count as f64
    };
    system::sleep(2_000_000);
    (0..5).for_each(|_| {
        let _ = batch();
    });
    Ok((0..2 * bench.batches).map(|_| batch()).collect())
}

/// Wake-ups on another CPU that preempt the task that computes there, in nanoseconds.
pub(crate) struct Preemptions {
    /// What the write took its waker.
    pub(crate) writes: Vec<f64>,
    /// What was missing of the other task's time: the interrupt, and all that the woken one did.
    pub(crate) gaps: Vec<f64>,
}

/// One write that wakes a sleeping reader on CPU `there`, which preempts the task of that CPU at once: that one is SCHED_IDLE.
pub(crate) fn preemptions(bench: &Bench, there: u32) -> Result<Preemptions, NativeError> {
    let (woken, gap, gaps) = (&bench.words[0], &bench.words[1], &bench.words[2]);
    [woken, gap, gaps].iter().for_each(|word| word.store(0, SeqCst));
    let pipe = bench.pipe()?;
    let _sleeper = bench.helper(there, Policy::Other, || {
        loop {
            pipe.receive();
            woken.fetch_add(1, SeqCst);
        }
    })?;
    let usual = bench.clock.max(1.0);
    let _computing = bench.helper(there, Policy::Idle, || watch(usual, gap, gaps))?;
    system::sleep(2_000_000);
    let mut found = Preemptions { writes: Vec::new(), gaps: Vec::new() };
    for number in 1..=2 * bench.batches as u64 {
        let before = gaps.load(SeqCst);
        let start = thread_cpu();
        pipe.send();
        let write = bench.since(start);
        let sent = monotonic();
        while woken.load(SeqCst) < number && monotonic() - sent < 1_000_000_000 {
            std::hint::spin_loop();
        }
        let back = monotonic();
        while monotonic() - back < 50_000 {
            std::hint::spin_loop();
        }
        // The first ones find cold caches; of several interrupts it is not known which was ours.
        if number > 5 {
            found.writes.push(write);
            if gaps.load(SeqCst) == before + 1 {
                found.gaps.push(gap.load(SeqCst) as f64 - usual);
            }
        }
    }
    Ok(found)
}

/// Looks at the clock again and again, and writes down the latest gap in its time, and how many there were.
fn watch(usual: f64, gap: &AtomicU64, gaps: &AtomicU64) {
    let mut last = monotonic();
    loop {
        let now = monotonic();
        if (now - last) as f64 > UNUSUAL * usual {
            gap.store(now - last, SeqCst);
            gaps.fetch_add(1, SeqCst);
        }
        last = now;
    }
}
