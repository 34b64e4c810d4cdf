//! Making, ending and collecting processes and threads.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use schedlab_model::Policy;

use super::bench::Bench;
use super::stats::Spread;
use crate::NativeError;
use crate::system::{self, exit_now, monotonic, wait_own};

/// Tasks made in one batch.
const LITTER: usize = 32;

/// What tasks' births and ends take, in nanoseconds.
#[derive(Default)]
pub(crate) struct Births {
    /// Making one, for its parent.
    pub(crate) forks: Vec<f64>,
    /// From one task's last own instruction to the next one's first: an end, a switch, a start.
    pub(crate) gaps: Vec<f64>,
    /// Collecting one that has ended.
    pub(crate) reaps: Vec<f64>,
}

/// Where a batch leaves its figures: of each task when it started and ended, and what making and collecting it took.
struct Record<'a> {
    starts: &'a [AtomicU64],
    ends: &'a [AtomicU64],
    forks: &'a [AtomicU64],
    reaps: &'a [AtomicU64],
}

impl<'a> Record<'a> {
    fn new(words: &'a [AtomicU64]) -> Self {
        words.iter().take(4 * LITTER).for_each(|word| word.store(0, SeqCst));
        let part = |index: usize| &words[index * LITTER..(index + 1) * LITTER];
        Self { starts: part(0), ends: part(1), forks: part(2), reaps: part(3) }
    }

    /// From each end to the start that came next.
    fn gaps(&self) -> Vec<f64> {
        let mut lives: Vec<(u64, u64)> =
            self.starts.iter().zip(self.ends).map(|(start, end)| (start.load(SeqCst), end.load(SeqCst))).collect();
        lives.retain(|(start, end)| *start > 0 && *end > 0);
        lives.sort_unstable();
        lives.windows(2).filter_map(|pair| Some(pair[1].0.checked_sub(pair[0].1)? as f64)).collect()
    }
}

fn values(words: &[AtomicU64]) -> impl Iterator<Item = f64> {
    words.iter().map(|word| word.load(SeqCst)).filter(|value| *value > 0).map(|value| value as f64)
}

/// The births of processes or threads, batch by batch, each batch in a fresh process on one CPU.
///
/// All are SCHED_BATCH, so that no child preempts its parent; they run once the parent sleeps.
pub(crate) fn births(bench: &Bench, threads: bool) -> Result<Births, NativeError> {
    let mut births = Births::default();
    for _ in 0..bench.batches / 3 + 1 {
        let record = Record::new(bench.words);
        let parent = bench.helper(bench.here, Policy::Batch, || {
            if threads {
                litter_of_threads(&record);
            } else {
                litter_of_processes(&record);
            }
        })?;
        // The handle would kill it; it is to end by itself.
        let _ = wait_own(parent.pid);
        std::mem::forget(parent);
        // The first ones find cold caches and the parent's pages still shared: the middle of each batch counts.
        let median = |times: Vec<f64>| Spread::of(times).map(|spread| spread.median_ns - bench.clock);
        births.forks.extend(median(values(record.forks).collect()));
        births.gaps.extend(median(record.gaps()));
        births.reaps.extend(median(values(record.reaps).collect()));
    }
    Ok(births)
}

/// Sleeps until all have ended, or a second is over, and a little longer for the kernel to be done with them.
fn await_ends(ends: &[AtomicU64]) {
    for _ in 0..1_000 {
        if ends.iter().all(|end| end.load(SeqCst) > 0) {
            break;
        }
        system::sleep(1_000_000);
    }
    system::sleep(1_000_000);
}

fn litter_of_processes(record: &Record<'_>) {
    let mut children = Vec::with_capacity(LITTER);
    for index in 0..LITTER {
        let start = monotonic();
        // SAFETY: a helper has no other threads.
        match unsafe { system::fork() } {
            Ok(0) => {
                record.starts[index].store(monotonic(), SeqCst);
                record.ends[index].store(monotonic(), SeqCst);
                exit_now(0)
            }
            Ok(child) => {
                record.forks[index].store(monotonic() - start, SeqCst);
                children.push(child);
            }
            Err(_) => return,
        }
    }
    await_ends(record.ends);
    for (child, reap) in children.into_iter().zip(record.reaps) {
        let start = monotonic();
        let _ = wait_own(child);
        reap.store(monotonic() - start, SeqCst);
    }
}

fn litter_of_threads(record: &Record<'_>) {
    std::thread::scope(|scope| {
        for (index, fork) in record.forks.iter().enumerate() {
            let start = monotonic();
            let made = std::thread::Builder::new().stack_size(crate::task::STACK).spawn_scoped(scope, move || {
                record.starts[index].store(monotonic(), SeqCst);
                record.ends[index].store(monotonic(), SeqCst);
            });
            fork.store(monotonic() - start, SeqCst);
            if made.is_err() {
                return;
            }
        }
        await_ends(record.ends);
    });
}
