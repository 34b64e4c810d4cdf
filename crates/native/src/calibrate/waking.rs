//! Wake-ups, as the waker sees them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use schedlab_model::Policy;

use super::bench::{Bench, Helper, Link};
use super::schedstat::Counted;
use super::switching::UNTIL_STEADY;
use crate::NativeError;
use crate::spin;
use crate::system::{self, monotonic, sched_yield, thread_cpu};

/// How many sleepers are woken one after the other.
const SLEEPERS: usize = 8;

/// Looks at the clock that are further apart than so many usual ones had an interrupt between them.
const UNUSUAL: f64 = 5.0;

/// A helper that was not woken after so many nanoseconds must have died.
const HUNG: u64 = 1_000_000_000;

/// How busy the CPU of the sleepers is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    /// It is the waker's own.
    Here,
    /// Another one, on which a task computes that the sleepers do not preempt.
    Busy(u32),
    /// The waker's own, while a task computes on another one: the sleepers are bound to theirs or `free` to go there.
    Beside { there: u32, free: bool },
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
    let cpu = if let Where::Busy(there) = place { there } else { bench.here };
    let (woken, calm) = (&bench.words[0], &bench.words[1]);
    woken.store(0, SeqCst);
    calm.store(0, SeqCst);
    let pipes = (0..SLEEPERS).map(|_| open(bench)).collect::<Result<Vec<L>, _>>()?;
    let sleepers = pipes.iter().map(|pipe| {
        bench.helper(cpu, Policy::Batch, || {
            if let Where::Beside { there, free: true } = place {
                let _ = system::set_affinity(0, &[cpu, there]);
            }
            loop {
                pipe.receive();
                woken.fetch_add(1, SeqCst);
            }
        })
    });
    let _sleepers = sleepers.collect::<Result<Vec<Helper>, _>>()?;
    let _hog = match place {
        // Computes while a batch is timed; between batches it lets the sleepers run.
        Where::Busy(there) | Where::Beside { there, .. } => Some(bench.helper(there, Policy::Other, || {
            loop {
                if calm.load(Relaxed) == 1 {
                    std::hint::spin_loop();
                } else {
                    sched_yield();
                }
            }
        })?),
        Where::Here => None,
    };
    // Until all were woken and sleep again.
    let settle = |expected: u64| {
        if matches!(place, Where::Busy(_)) {
            return await_count(woken, expected);
        }
        let start = monotonic();
        while woken.load(SeqCst) < expected && monotonic() - start < HUNG {
            sched_yield();
        }
        (0..4).for_each(|_| sched_yield());
    };
    let mut expected = 0;
    let mut batch = || {
        calm.store(1, SeqCst);
        let start = thread_cpu();
        pipes.iter().for_each(Link::send);
        let time = bench.since(start);
        calm.store(0, SeqCst);
        expected += SLEEPERS as u64;
        settle(expected);
        time / SLEEPERS as f64
    };
    system::sleep(2_000_000);
    (0..5).for_each(|_| {
        let _ = batch();
    });
    Ok((0..2 * bench.batches).map(|_| batch()).collect())
}

/// Wake-ups on another CPU, which idles, in nanoseconds.
pub(crate) struct Rousings {
    /// What the write took its waker.
    pub(crate) writes: Vec<f64>,
    /// How long after its beginning the reader ran.
    pub(crate) delays: Vec<f64>,
    /// What the kernel charged the reader with until it slept again.
    pub(crate) runs: Vec<f64>,
}

impl Rousings {
    /// What writes took on average over some: of a few that take ten times as long as the others a median would show nothing.
    pub(crate) fn mean_writes(&self) -> Vec<f64> {
        self.writes.chunks_exact(SLEEPERS).map(|some| some.iter().sum::<f64>() / SLEEPERS as f64).collect()
    }
}

/// How long a CPU idles that a hypervisor has not given away, in nanoseconds.
pub(crate) const BRIEFLY: u64 = 50_000;

/// How long one idles that has been given away: for longer than a hypervisor polls (`Costs::POLLED`), and no longer than a tick's period.
pub(crate) const LONG: u64 = 500_000;

/// One write that wakes a sleeping reader on CPU `there`, which has idled for some `span`.
pub(crate) fn rousings(bench: &Bench, there: u32, span: u64) -> Result<Rousings, NativeError> {
    let (woken, ran) = (&bench.words[0], &bench.words[1]);
    woken.store(0, SeqCst);
    let pipe = bench.pipe()?;
    let sleeper = bench.helper(there, Policy::Batch, || {
        loop {
            pipe.receive();
            ran.store(monotonic(), SeqCst);
            woken.fetch_add(1, SeqCst);
        }
    })?;
    let counts = sleeper.counts().ok();
    let mut found = Rousings { writes: Vec::new(), delays: Vec::new(), runs: Vec::new() };
    let begun = monotonic();
    for number in 1.. {
        let before = counts.as_ref().and_then(|counts| counts.read().ok());
        let began = monotonic();
        let start = thread_cpu();
        pipe.send();
        let write = bench.since(start);
        await_idle(woken, number, span);
        // As with `ping_pong`, only what lasts is measured.
        if monotonic() - begun < UNTIL_STEADY {
            continue;
        }
        if found.writes.len() == 2 * bench.batches {
            break;
        }
        found.writes.push(write);
        found.delays.push(ran.load(SeqCst).saturating_sub(began) as f64);
        let after = counts.as_ref().and_then(|counts| counts.read().ok());
        if let (Some(before), Some(after)) = (before, after)
            && after.runs == before.runs + 1
        {
            found.runs.push((after.run - before.run) as f64);
        }
    }
    Ok(found)
}

/// Waits until so many were woken, and until they sleep again.
fn await_count(woken: &AtomicU64, count: u64) {
    await_idle(woken, count, BRIEFLY);
}

/// Waits until so many were woken, and have slept for `span`. The CPU never idles, so that its caches stay as they are at work.
fn await_idle(woken: &AtomicU64, count: u64, span: u64) {
    let sent = monotonic();
    while woken.load(SeqCst) < count && monotonic() - sent < HUNG {
        std::hint::spin_loop();
    }
    let back = monotonic();
    while monotonic() - back < span {
        std::hint::spin_loop();
    }
}

/// Wake-ups on another CPU that never idles and that switches between any two of them, in nanoseconds.
pub(crate) struct Crossings {
    /// What each write took its waker.
    pub(crate) writes: Vec<f64>,
    /// What the kernel charged a woken task with until it slept again, on average.
    pub(crate) runs: Vec<f64>,
}

/// Nanoseconds between two of these wake-ups: the first that are enough for every message to wake its reader are taken.
const PAUSES: [u64; 5] = [0, 250, 500, 1_000, 2_000];

/// One write that wakes a sleeping reader on CPU `there` while others of as many pipes go on there. That CPU has a SCHED_IDLE task, which runs where
/// readers are faster than their writer: such times do not count, nor do those in which readers find more than a message. None where CPUs have turns,
/// as a task's CPU time contains the others' there.
pub(crate) fn crossings(bench: &Bench, there: u32) -> Result<Crossings, NativeError> {
    let mut found = Crossings { writes: Vec::new(), runs: Vec::new() };
    if spin::have_turns() {
        return Ok(found);
    }
    let pipes = (0..SLEEPERS).map(|_| bench.pipe()).collect::<Result<Vec<_>, _>>()?;
    let reads = |pipe| {
        bench.helper(there, Policy::Batch, move || {
            loop {
                Link::receive(pipe);
            }
        })
    };
    let readers = pipes.iter().map(reads).collect::<Result<Vec<Helper>, _>>()?;
    let idler = bench.helper(there, Policy::Idle, || {
        loop {
            std::hint::spin_loop();
        }
    })?;
    let counted =
        |helpers: &[Helper]| helpers.iter().map(|helper| helper.counts().ok()?.read().ok()).sum::<Option<Counted>>();
    let both = || Some((counted(&readers)?, counted(std::slice::from_ref(&idler))?));
    system::sleep(2_000_000);
    for pause in PAUSES {
        let Some((woken, idle)) = both() else { break };
        let mut writes = Vec::new();
        for pipe in (0..10 * bench.batches).flat_map(|_| &pipes) {
            let start = thread_cpu();
            pipe.send();
            writes.push(bench.since(start));
            let sent = monotonic();
            while monotonic() - sent < pause {
                std::hint::spin_loop();
            }
        }
        let Some((woken_since, idle_since)) = both() else { break };
        let (runs, idled) = (woken_since.runs - woken.runs, idle_since.runs - idle.runs);
        let messages = writes.len() as u64;
        if 10 * runs >= 9 * messages && 20 * idled <= messages {
            let run = (woken_since.run - woken.run) as f64 / runs as f64;
            found = Crossings { writes, runs: vec![run] };
            break;
        }
    }
    Ok(found)
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
        await_count(woken, number);
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
