//! Going to sleep until a timer expires, as a CPU-bound task on the same CPU sees it.
//!
//! The sleeper's own CPU time would not tell: where its wake-up preempts the current task, the run queue's clock is not updated from then
//! on until the switch (`wakeup_preempt`, `rq_clock_skip_update`), so that the cost of waking it would be in it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use schedlab_model::Policy;

use super::bench::{Bench, Helper};
use super::idling::slack;
use crate::NativeError;
use crate::system::{monotonic, sched_yield, sleep_until};

/// What a sleeper sleeps each time, in nanoseconds.
const SPAN: u64 = 500_000;

/// Rounds of sleepers in one measurement.
const ROUNDS: usize = 100;

/// Looks at the clock that are further apart than so many usual ones had an interrupt between them.
const UNUSUAL: f64 = 5.0;

/// What one round of a sleeper takes from the CPU-bound task on its CPU, in nanoseconds: from the interrupt that wakes the sleeper until it
/// sleeps again and the CPU-bound task is switched in again.
pub(crate) struct Sleeps {
    /// Of a single one: its timer is mostly the next to expire.
    pub(crate) alone: Vec<f64>,
    /// Of two that go by turns: the other one's timer always expires earlier.
    pub(crate) by_turns: Vec<f64>,
}

pub(crate) fn sleeps(bench: &Bench) -> Result<Sleeps, NativeError> {
    Ok(Sleeps { alone: beside(bench, 1)?, by_turns: beside(bench, 2)? })
}

/// The time that a timer's interrupt takes from this task, where it wakes another one on its CPU and this one goes on, in nanoseconds.
///
/// The sleeper is SCHED_BATCH, whose wake-ups preempt no task (`check_preempt_wakeup`). It is switched in as this task yields, and only
/// after an interrupt that has woken it.
pub(crate) fn interrupts(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let rounds = &bench.words[0];
    rounds.store(0, SeqCst);
    let usual = bench.clock.max(1.0);
    let start = monotonic() + 10 * SPAN;
    let _sleeper = bench.helper(bench.here, Policy::Batch, || sleeps_on(start, rounds))?;
    let mut found = Vec::with_capacity(ROUNDS);
    let mut last = monotonic();
    while found.len() < ROUNDS && last < start + 4 * ROUNDS as u64 * SPAN {
        let now = monotonic();
        let gap = (now - last) as f64;
        last = now;
        if gap > UNUSUAL * usual {
            let before = rounds.load(Relaxed);
            sched_yield();
            if rounds.load(Relaxed) == before + 1 {
                found.push(gap - usual);
            }
            last = monotonic();
        }
    }
    Ok(found)
}

/// Sleeps again and again until times that are [`SPAN`] apart, and counts them. Times that passed before it came are left out: it would
/// not sleep until those, and its timer would expire as it goes to sleep.
fn sleeps_on(mut due: u64, rounds: &AtomicU64) {
    slack(1);
    loop {
        sleep_until(due);
        rounds.fetch_add(1, Relaxed);
        due = next_time(due, monotonic());
    }
}

/// The first of the times that are [`SPAN`] apart and of which `due` is one that comes after both `due` and `now`.
fn next_time(due: u64, now: u64) -> u64 {
    due + SPAN * (now.saturating_sub(due) / SPAN + 1)
}

/// The task that computes is SCHED_IDLE, which any other one preempts by waking up (`check_preempt_wakeup`). Only gaps in its time count
/// in which just one sleeper went round.
fn beside(bench: &Bench, sleepers: u64) -> Result<Vec<f64>, NativeError> {
    let (rounds, lengths) = (&bench.words[0], &bench.words[1..=ROUNDS]);
    rounds.store(0, SeqCst);
    lengths.iter().for_each(|length| length.store(0, SeqCst));
    let usual = bench.clock.max(1.0);
    let start = monotonic() + 10 * SPAN;
    let sleep = |index: u64| move || sleeps_on(start + SPAN * index / sleepers, rounds);
    let _sleepers: Vec<Helper> =
        (0..sleepers).map(|index| bench.helper(bench.here, Policy::Other, sleep(index))).collect::<Result<_, _>>()?;
    let watcher = bench.helper(bench.here, Policy::Idle, || {
        let mut left = lengths.iter();
        let (mut last, mut seen) = (monotonic(), rounds.load(Relaxed));
        // Should others never let it run in one piece, the time is over at some point.
        while last < start + 4 * ROUNDS as u64 * SPAN {
            let now = monotonic();
            let (gap, gone) = (now - last, rounds.load(Relaxed));
            if gap as f64 > UNUSUAL * usual && gone == seen + 1 {
                let Some(length) = left.next() else { break };
                length.store(gap, Relaxed);
            }
            (last, seen) = (now, gone);
        }
    })?;
    watcher.finish();
    let found = lengths.iter().map(|length| length.load(SeqCst)).filter(|length| *length > 0);
    Ok(found.map(|length| length as f64 - usual).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was found, and how long the measurement took that found something: other work may keep a sleeper away for all of one.
    fn found(measure: impl Fn(&Bench) -> Result<Vec<f64>, NativeError>) -> (Vec<f64>, f64) {
        let bench = Bench::new(2).expect("a bench");
        for _ in 0..20 {
            let before = monotonic();
            let found = measure(&bench).expect("helpers");
            if !found.is_empty() {
                return (found, (monotonic() - before) as f64);
            }
        }
        (Vec::new(), 0.0)
    }

    #[test]
    fn a_late_sleeper_sleeps_until_the_next_time() {
        // Due at 100 spans: on time the next is 101; at 103.5 or 103 exactly, 104 is the first that is still to come.
        assert_eq!(next_time(100 * SPAN, 100 * SPAN + 1), 101 * SPAN);
        assert_eq!(next_time(100 * SPAN, 103 * SPAN + SPAN / 2), 104 * SPAN);
        assert_eq!(next_time(100 * SPAN, 103 * SPAN), 104 * SPAN);
    }

    #[test]
    fn an_interrupted_task_sees_the_interrupt() {
        let (found, passed) = found(interrupts);
        assert!(!found.is_empty() && found.len() <= ROUNDS);
        // As below: gaps in one task's time are together no longer than that.
        assert!(found.iter().all(|length| *length > 0.0) && found.iter().sum::<f64>() < passed, "{found:?}");
    }

    #[test]
    fn a_round_of_a_sleeper_is_seen_beside_it() {
        let (found, passed) = found(|bench| beside(bench, 2));
        assert!(!found.is_empty() && found.len() <= ROUNDS);
        // Gaps in one task's time do not overlap, so they are no longer together than all of it.
        assert!(found.iter().all(|length| *length > 0.0) && found.iter().sum::<f64>() < passed, "{found:?}");
    }
}
