//! Context switches: two tasks that yield to each other, two that wake each other, and rings of many.

use std::io;

use schedlab_model::Policy;

use super::bench::{Bench, Helper, Link, become_one, timed};
use super::schedstat::Schedstat;
use super::stats::Spread;
use crate::NativeError;
use crate::error::during;
use crate::system::{monotonic, sched_getattr, sched_setattr, sched_yield, thread_cpu, usage};

/// Lengths of the rings.
pub(crate) const RINGS: [usize; 6] = [4, 8, 16, 32, 64, 128];

/// Nanoseconds for which one CPU wakes another, or both each other, before it is measured.
pub(crate) const UNTIL_STEADY: u64 = 100_000_000;

/// For each batch of a ring without preemptions, at most so many are run.
const TRIES: usize = 4;

/// Nanoseconds that the first of a ring computes for after it has preempted others: less than what a woken task may be behind without preempting
/// (`sched_wakeup_granularity`, 1 ms and more).
const CATCH_UP: u64 = 500_000;

/// A yield of the only runnable task: a system call and one pass of the scheduler that picks the same task again.
pub(crate) fn yields_alone(bench: &Bench) -> Vec<f64> {
    (0..bench.batches).map(|_| timed(500, sched_yield)).collect()
}

/// One switch between two processes of one CPU: both yield, and what the yields themselves take (measured alone) is taken off.
///
/// Not every yield switches; the kernel's count of those that did is what the time is divided by. Each time away is two switches,
/// there and back, of which each of the two processes is billed for one.
pub(crate) fn switch(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let alone = Spread::of(yields_alone(bench));
    let Some(alone) = alone else { return Ok(Vec::new()) };
    let _other = bench.helper(bench.here, Policy::Other, || {
        loop {
            sched_yield();
        }
    })?;
    let yields = 1_000;
    let away = || {
        let usage = usage();
        usage.voluntary + usage.involuntary
    };
    let batch = || {
        let before = away();
        let each = timed(yields, sched_yield);
        (each - alone.median_ns) * f64::from(yields) / (away() - before) as f64
    };
    // The first batches still see the helper start.
    (0..3).for_each(|_| {
        let _ = batch();
    });
    Ok((0..bench.batches).map(|_| batch()).collect())
}

/// Half a round trip of one byte between this process and one on another CPU, both of which idle when it is not their turn: a write
/// that wakes, the other CPU's way out of idling, a switch, and a read that slept. The only time here that is not CPU time.
///
/// A hypervisor that polls for a while before it lets a halted CPU go polls less the longer this lasts: on an EPYC guest of two CPUs a
/// hop takes 16 µs in the first 20 ms and 23 µs from then on. Only what lasts is measured.
pub(crate) fn ping_pong(bench: &Bench, cpu: u32) -> Result<Vec<f64>, NativeError> {
    let (to, fro) = (bench.pipe()?, bench.pipe()?);
    let _other = bench.helper(cpu, Policy::Other, || {
        loop {
            to.receive();
            fro.send();
        }
    })?;
    let round = || {
        to.send();
        fro.receive();
    };
    let rounds = 100;
    let batch = || {
        let start = monotonic();
        (0..rounds).for_each(|_| round());
        (monotonic() - start) as f64 / f64::from(2 * rounds)
    };
    let begun = monotonic();
    while monotonic() - begun < UNTIL_STEADY {
        let _ = batch();
    }
    Ok((0..bench.batches).map(|_| batch()).collect())
}

/// A ring of processes on one CPU, each of which sends a byte on to the next. Time of one hop: a write that wakes, one switch, and a
/// read that slept. In every round each member is billed for one.
///
/// All are SCHED_BATCH: others would preempt their wakers now and then, and how many switches a hop has would depend on the kernel's
/// taste. At least four, because a member of a shorter ring is woken before it has quite left the run queue.
pub(crate) fn ring(bench: &Bench, length: usize) -> Result<Vec<f64>, NativeError> {
    ring_of(bench, length, Policy::Batch, Bench::pipe)
}

/// The ring of the shortest length of ordinary tasks: whether a woken one preempts its waker is found out at each wake-up. Batches in which one hop of
/// fifty ended with a preemption, or more, are left out: the run queue's clock is not read between such a wake-up and the switch, so that the task
/// that preempts is charged with the way to it.
///
/// Before 6.6 a new task begins a slice behind its maker (`START_DEBIT`), which goes on preempting it. So the maker computes until that is made up for.
pub(crate) fn normal_ring(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    ring_of(bench, RINGS[0], Policy::Other, Bench::pipe)
}

/// The same through sockets, of so few members that each is woken while it is still queued, and of more.
pub(crate) fn socket_rings(bench: &Bench) -> Result<[Vec<f64>; 2], NativeError> {
    Ok([ring_of(bench, 2, Policy::Batch, Bench::socket)?, ring_of(bench, RINGS[0], Policy::Batch, Bench::socket)?])
}

/// The same through semaphores, of the shortest length.
pub(crate) fn semaphore_ring(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    ring_of(bench, RINGS[0], Policy::Batch, Bench::semaphore)
}

fn ring_of<L: Link>(
    bench: &Bench,
    length: usize,
    policy: Policy,
    open: fn(&Bench) -> Result<L, NativeError>,
) -> Result<Vec<f64>, NativeError> {
    let pipes = (0..length).map(|_| open(bench)).collect::<Result<Vec<L>, _>>()?;
    let before = sched_getattr().map_err(during("asking for the own policy"))?;
    become_one(policy).map_err(during("setting the own policy"))?;
    let helpers = (1..length).map(|index| {
        let (from, to) = (&pipes[index - 1], &pipes[index]);
        bench.helper(bench.here, policy, || {
            loop {
                from.receive();
                to.send();
            }
        })
    });
    let helpers = helpers.collect::<Result<Vec<Helper>, _>>()?;
    let round = || {
        pipes[0].send();
        pipes[length - 1].receive();
    };
    timed(3, round);
    let rounds = (512 / length).max(4) as u32;
    let batches = bench.batches / 2 + 1;
    let hops = if policy == Policy::Batch {
        (0..batches).map(|_| timed(rounds, round)).collect()
    } else {
        unpreempted(&helpers, rounds, batches, round).map_err(during("reading how often a helper ran"))?
    };
    sched_setattr(before).map_err(during("taking the own policy back"))?;
    Ok(hops)
}

/// Batches of a ring in which hardly a task was preempted, of as many as it takes up to a limit.
fn unpreempted(helpers: &[Helper], rounds: u32, batches: usize, round: impl Fn()) -> io::Result<Vec<f64>> {
    let counts = helpers.iter().map(Helper::counts).collect::<io::Result<Vec<Schedstat>>>()?;
    let runs = || counts.iter().map(|count| Ok(count.read()?.runs)).sum::<io::Result<u64>>();
    let turns = u64::from(rounds) * helpers.len() as u64;
    let mut hops = Vec::new();
    for _ in 0..TRIES * batches {
        let (ran, involuntary) = (runs()?, usage().involuntary);
        let hop = timed(rounds, &round);
        // Each helper runs once a round, and once more for each time that it was preempted.
        let theirs = (runs()? - ran).saturating_sub(turns);
        let own = usage().involuntary - involuntary;
        if 50 * (theirs + own) < turns + u64::from(rounds) {
            hops.push(hop);
        } else if theirs > own {
            compute(CATCH_UP);
        }
        if hops.len() == batches {
            break;
        }
    }
    Ok(hops)
}

fn compute(nanoseconds: u64) {
    let end = thread_cpu() + nanoseconds;
    while thread_cpu() < end {}
}

/// How a hop grows with the ring: further nanoseconds for each further member, and in all, from hops of [`RINGS`].
///
/// The limit is what the two longest rings have beyond the shortest; the slope is the least-squares line through the shortest, over the
/// rings that have not come near the limit yet.
pub(crate) fn refill(hops: &[f64]) -> (f64, f64) {
    let Some((&base, rest)) = hops.split_first() else { return (0.0, 0.0) };
    let longest = &rest[rest.len().saturating_sub(2)..];
    let limit = (longest.iter().sum::<f64>() / longest.len().max(1) as f64 - base).max(0.0);
    let (mut products, mut squares) = (0.0, 0.0);
    for (length, hop) in RINGS[1..].iter().zip(rest) {
        let members = (length - RINGS[0]) as f64;
        if squares > 0.0 && hop - base > 0.7 * limit {
            break;
        }
        products += members * (hop - base);
        squares += members * members;
    }
    let slope = if squares > 0.0 { (products / squares).max(0.0) } else { 0.0 };
    (slope, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_in_which_helpers_run_more_often_are_left_out() {
        // One that is asked twice in a round runs twice, as one does that is preempted.
        let bench = Bench::new(2).expect("a bench");
        let (to, fro) = (bench.pipe().expect("a pipe"), bench.pipe().expect("a pipe"));
        let answers = || {
            loop {
                to.receive();
                fro.send();
            }
        };
        let helpers = [bench.helper(bench.here, Policy::Batch, answers).expect("a helper")];
        let batches = |asked: u32| {
            let ask = || {
                to.send();
                fro.receive();
            };
            unpreempted(&helpers, 20, 1, || (0..asked).for_each(|_| ask())).expect("its runs are counted")
        };
        assert!(batches(2).is_empty());
        assert!((0..100).any(|_| batches(1).len() == 1));
    }

    #[test]
    fn a_line_with_a_limit_is_found_again() {
        // 10 ns for each member beyond four, 300 ns at most: reached at 34 members.
        let hops: Vec<f64> = RINGS.iter().map(|&length| 1000.0 + (10.0 * (length - 4) as f64).min(300.0)).collect();
        let (slope, limit) = refill(&hops);
        assert!((slope - 10.0).abs() < 1e-9, "{slope}");
        assert!((limit - 300.0).abs() < 1e-9, "{limit}");
    }

    #[test]
    fn a_hop_that_does_not_grow_costs_nothing() {
        assert_eq!(refill(&[1000.0; RINGS.len()]), (0.0, 0.0));
        assert_eq!(refill(&[]), (0.0, 0.0));
    }
}
