//! Using an exact amount of CPU time without asking the kernel for it in the middle.
//!
//! `clock_gettime(CLOCK_THREAD_CPUTIME_ID)` has the scheduler charge the calling task (`update_curr`), and from 6.12 on that is where a
//! task loses the CPU whose slice is used up: a program that asks while it computes is preempted where one that only computes waits for
//! the tick. So the kernel is asked only where it has just charged the task itself: after a tick or a preemption. Both leave a gap in a
//! row of looks at the CPU's own counter; but so does a machine that holds a virtual CPU up, of which its kernel knows nothing. What
//! `getrusage` says of the task is what it was charged last, and asking charges nothing.

use std::cell::Cell;
use std::fs::read_to_string;
use std::hint::black_box;

use schedlab_model::Costs;

use crate::system::{counter, monotonic, thread_cpu, usage};

/// Below this, in nanoseconds, no clock is read: two reads would take longer.
const TOO_SHORT_FOR_CLOCKS: u64 = Costs::CLOCKED.as_nanos();

/// Reads of the clock in one step, at most.
pub(crate) const MOST_READS: u32 = 16;

/// Between two looks at the counter, in nanoseconds.
const PIECE: u64 = 1_000;

/// Two looks that are further apart than this, in nanoseconds, were interrupted. A CPU that slows down to half its speed is not, nor one that has
/// turns with others: that takes as much longer as a round of turns.
const GAP: u64 = 5 * PIECE;

/// Where CPUs have turns the kernel's command line has this, and the microseconds of a round.
const ROUND: &str = "schedlab.round=";

/// When so many nanoseconds are left at most, each interruption is worth a read, as long as [`SPARED`] are left.
const LAST_STRETCH: u64 = 10_000_000;

/// `getrusage` cuts off less than this, in nanoseconds: a microsecond of each of user and system time.
const CUT_OFF: u64 = 2_000;

/// How many reads are kept for halving what is left.
const SPARED: u32 = 5;

/// After so many nanoseconds a step before this one was followed by a sleep, or a preemption: the task has just got the CPU.
const AWAY: u64 = 100_000;

thread_local! {
    /// How the last step ended: where another follows at once, it begins there.
    static LAST: Cell<Option<Mark>> = const { Cell::new(None) };
}

/// A look at the counter, and the calling thread's CPU time then where that is known.
#[derive(Debug, Clone, Copy)]
struct Mark {
    counter: u64,
    cpu: Option<u64>,
    charge: Option<Charge>,
}

impl Mark {
    fn read() -> Self {
        let cpu = thread_cpu();
        Self { counter: counter(), cpu: Some(cpu), charge: Some(Charge { cpu, used: 0, switches: None }) }
    }
}

/// What the kernel has charged the calling thread.
#[derive(Debug, Clone, Copy)]
struct Charge {
    /// Its CPU time by that.
    cpu: u64,
    /// What it had used since its mark by then.
    used: u64,
    /// How often it had been switched from, where that was asked.
    switches: Option<u64>,
}

impl Charge {
    /// Whether the kernel has charged the thread since `last`, which becomes the new charge: by a tick or a switch that left a gap.
    ///
    /// Without one before it nothing is known, nor where the gap follows at once on a read of the clock: both count as charged.
    fn is_new(last: &mut Option<Self>, used: u64) -> bool {
        let Some(before) = *last else { return true };
        let now = usage();
        let cpu = now.user + now.system;
        let switches = now.voluntary + now.involuntary;
        let advanced = cpu > before.cpu + CUT_OFF;
        *last = Some(if advanced {
            Self { cpu, used, switches: Some(switches) }
        } else {
            Self { switches: Some(switches), ..before }
        });
        advanced || before.switches.map_or(used < before.used + 2 * CUT_OFF, |before| before != switches)
    }
}

/// A loop of known speed, and the speed of the CPU's counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spin {
    rounds_per_microsecond: u64,
    /// Nanoseconds that one step of the counter takes, times 2³².
    counter_step: u64,
    /// [`GAP`], and a round of turns.
    gap: u64,
}

impl Spin {
    /// Measures the loop: the fastest of many short batches, so that an interrupt does no harm. And the counter, over all of them.
    pub(crate) fn calibrate() -> Self {
        let rounds = 20_000;
        let (counted, began) = (counter(), monotonic());
        let fastest = (0..50)
            .map(|_| {
                let start = monotonic();
                turn(rounds);
                monotonic() - start
            })
            .min();
        let (counted, passed) = (counter().wrapping_sub(counted), monotonic() - began);
        Self {
            rounds_per_microsecond: (rounds * 1_000 / fastest.unwrap_or(1).max(1)).max(1),
            counter_step: u64::try_from((u128::from(passed) << 32) / u128::from(counted.max(1))).unwrap_or(u64::MAX),
            gap: GAP + own_round(),
        }
    }

    /// Uses so many nanoseconds of the calling thread's CPU time: how often it read the clock, [`MOST_READS`] times at most.
    ///
    /// What the counter says has passed, but for gaps in which the kernel charged the task, has been used; of those the clock alone
    /// knows. It is read after the first one, then where half of what was left then has been used, and near the end after each. Without
    /// any there is nothing to ask.
    pub(crate) fn run(self, nanoseconds: u64) -> u32 {
        if nanoseconds < TOO_SHORT_FOR_CLOCKS {
            self.blind(nanoseconds);
            return 0;
        }
        let start = counter();
        let (mut mark, mut reads) = self.begin(start);
        let mut seen = counter();
        // Since the mark: what has been used, what is to be.
        let mut used = self.passed(mark.counter, seen);
        // Reading the clocks is a part of the step. What is longer than a gap was another's.
        let before = if reads > 0 { self.passed(start, mark.counter).min(self.gap) } else { 0 };
        let mut wanted = used + nanoseconds.saturating_sub(before);
        let mut charge = mark.charge;
        let mut gaps = false;
        loop {
            let left = wanted.saturating_sub(used);
            let read = if left == 0 {
                if !gaps {
                    let charge = charge.map(|charge| Charge { used: 0, ..charge });
                    LAST.set(Some(Mark { counter: seen, cpu: mark.cpu.map(|cpu| cpu + used), charge }));
                    return reads;
                }
                if reads == MOST_READS {
                    return reads;
                }
                true
            } else {
                self.blind(left.min(PIECE));
                let now = counter();
                let piece = self.passed(seen, now);
                seen = now;
                if piece <= self.gap || !Charge::is_new(&mut charge, used) {
                    used += piece;
                    continue;
                }
                gaps = true;
                let near = left <= LAST_STRETCH && reads + SPARED < MOST_READS;
                mark.cpu.is_none() || near || (left <= wanted / 2 && reads + 1 < MOST_READS)
            };
            if read {
                let before = mark.cpu;
                let now = thread_cpu();
                charge = Some(Charge { cpu: now, used: 0, switches: charge.and_then(|charge| charge.switches) });
                mark = Mark { counter: counter(), cpu: Some(now), charge };
                reads += 1;
                wanted = wanted.saturating_sub(taken(before, now, used));
                (seen, used, gaps) = (mark.counter, 0, false);
            }
        }
    }

    /// Where a step begins, and how often the clock was read for it: not at all where that would be in the middle of the task's turn.
    fn begin(self, now: u64) -> (Mark, u32) {
        match LAST.take() {
            Some(last) if self.passed(last.counter, now) <= self.gap => (last, 0),
            Some(last) if self.passed(last.counter, now) <= AWAY => {
                (Mark { counter: now, cpu: None, charge: last.charge }, 0)
            }
            _ => (Mark::read(), 1),
        }
    }

    /// Nanoseconds between two looks at the counter. On CPUs whose counters do not agree it may run backwards: that is a gap, too.
    fn passed(self, from: u64, to: u64) -> u64 {
        let steps = u128::from(to.wrapping_sub(from));
        u64::try_from((steps * u128::from(self.counter_step)) >> 32).unwrap_or(u64::MAX)
    }

    fn rounds(self, nanoseconds: u64) -> u64 {
        (u128::from(nanoseconds) * u128::from(self.rounds_per_microsecond)).div_ceil(1_000) as u64
    }

    fn blind(self, nanoseconds: u64) {
        turn(self.rounds(nanoseconds));
    }

    /// Uses the CPU until `CLOCK_MONOTONIC` has gone on by so much, in pieces of 32 µs at most, as rt-app's `runtime` does.
    pub(crate) fn until_passed(self, nanoseconds: u64) {
        let end = monotonic().saturating_add(nanoseconds);
        loop {
            let left = end.saturating_sub(monotonic());
            if left == 0 {
                return;
            }
            self.blind((left / 2).clamp(50, 32_000));
        }
    }
}

/// Whether the CPUs of this machine have turns, so that a task's CPU time contains other CPUs' work.
pub(crate) fn have_turns() -> bool {
    own_round() > 0
}

/// [`round`] of this machine.
fn own_round() -> u64 {
    round(&read_to_string("/proc/cmdline").unwrap_or_default())
}

/// Nanoseconds of a round of turns by a kernel's command line, none where CPUs have no turns.
fn round(command_line: &str) -> u64 {
    let given = command_line.split_whitespace().find_map(|word| word.strip_prefix(ROUND)?.parse::<u64>().ok());
    given.map_or(0, |microseconds| microseconds.saturating_mul(1_000))
}

/// The CPU time that was used since a mark.
///
/// What the first gap took is not known where the step began without a read: it is left out, as another's. A mark that follows from the
/// counter may be ahead of the clock, by interrupts that were no gaps.
fn taken(before: Option<u64>, now: u64, counted: u64) -> u64 {
    before.map_or(counted, |before| now.saturating_sub(before))
}

/// A chain of multiplications, none of which can start before the last one ends.
fn turn(rounds: u64) {
    let mut value = 1u64;
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    }
    black_box(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_uses_the_time_it_was_given_and_reads_the_clock_sixteen_times_at_most() {
        let spin = Spin::calibrate();
        for nanoseconds in [50_000, 1_000_000, 20_000_000, 300_000_000] {
            // 1 %, and 20 us for the clock reads and an interrupt on top. There may be more of those: then again.
            let right = (0..10).any(|_| {
                let start = thread_cpu();
                let reads = spin.run(nanoseconds);
                let used = thread_cpu() - start;
                assert!(reads <= MOST_READS, "{reads} reads");
                used + nanoseconds / 100 >= nanoseconds && used <= nanoseconds + nanoseconds / 100 + 20_000
            });
            assert!(right, "{nanoseconds}");
        }
    }

    #[test]
    fn a_step_after_another_begins_where_that_ended() {
        // Most of them end before the next interrupt: not one may ask where it begins.
        let spin = Spin::calibrate();
        spin.run(20_000);
        assert!((0..1_000).any(|_| spin.run(20_000) == 0));
    }

    #[test]
    fn only_what_the_kernel_has_charged_is_asked_for() {
        let spin = Spin::calibrate();
        let charged = |between: fn()| {
            let mut last = Mark::read().charge;
            spin.blind(20_000);
            between();
            Charge::is_new(&mut last, 20_000)
        };
        // A task that sleeps is charged. One that computes is by ticks alone, and most of these rows have none.
        assert!(charged(|| std::thread::sleep(std::time::Duration::from_millis(1))));
        assert!((0..1_000).any(|_| !charged(|| ())));
    }

    #[test]
    fn a_mark_ahead_of_the_clock_takes_nothing() {
        // Without a mark what the counter says has been used; a mark that follows from it may be later than the clock.
        assert_eq!([(Some(7), 10), (Some(10), 7), (None, 7)].map(|(before, now)| taken(before, now, 5)), [3, 0, 5]);
    }

    #[test]
    fn a_round_of_turns_is_no_interruption() {
        assert_eq!(["quiet schedlab.round=10 panic=-1", "quiet", "schedlab.round=x"].map(round), [10_000, 0, 0]);
    }

    #[test]
    fn what_is_too_short_to_measure_is_spun_blindly() {
        assert_eq!(Spin::calibrate().run(TOO_SHORT_FOR_CLOCKS - 1), 0);
    }
}
