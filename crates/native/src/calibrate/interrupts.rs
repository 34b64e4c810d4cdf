//! Interruptions of a task: the timer's ticks, and moves to another CPU. And which CPU takes a device's interrupts.

use std::collections::BTreeMap;
use std::fs;

use schedlab_model::Policy;

use super::bench::Bench;
use super::stats::Spread;
use crate::NativeError;
use crate::system::{monotonic, set_affinity, thread_cpu};

/// Parts of the timer's period, within one of which every tick falls.
const PHASES: u64 = 64;

/// How often hypervisors have ticks, by what Linux is configured with, in nanoseconds.
const HYPERVISORS: [u64; 4] = [1_000_000, 3_333_333, 4_000_000, 10_000_000];

/// What interrupts a computing task again and again, in nanoseconds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Interruptions {
    /// The kernel's own ticks.
    pub(crate) ticks: Vec<f64>,
    /// A hypervisor's, if it has such: how long each took.
    pub(crate) steals: Vec<f64>,
    /// From one of these to the next.
    pub(crate) period: Vec<f64>,
}

/// What a computing task sees of ticks: the gaps in its time that recur at a timer's period.
pub(crate) fn interruptions(bench: &Bench, hz: u32) -> Interruptions {
    let span = 200_000_000;
    let usual = bench.clock.max(1.0);
    let mut gaps: Vec<(u64, u64)> = Vec::with_capacity(16_384);
    let start = monotonic();
    let mut last = start;
    while last - start < span && gaps.len() < gaps.capacity() {
        let now = monotonic();
        if (now - last) as f64 > 5.0 * usual {
            gaps.push((last - start, now - last));
        }
        last = now;
    }
    by_origin(&gaps, 1_000_000_000 / u64::from(hz.max(1)), span, usual)
}

/// Which gaps of a time of that span, by start and length, are ticks of this period, and which a hypervisor's; each of them contains a look at the
/// clock that is as `usual`.
fn by_origin(gaps: &[(u64, u64)], tick: u64, span: u64, usual: f64) -> Interruptions {
    let own = |lengths: Vec<u64>| lengths.into_iter().map(|length| length as f64 - usual).collect();
    let (ticks, others) = recurring(gaps, tick);
    let steals = HYPERVISORS.into_iter().find_map(|period| {
        let (found, _) = recurring(&others, period);
        // Most of its periods have one; fewer would be anything.
        (4 * found.len() as u64 >= 3 * span / period).then_some((found, period))
    });
    let (steals, period) = steals.map_or((Vec::new(), Vec::new()), |(found, period)| (own(found), vec![period as f64]));
    Interruptions { ticks: own(ticks), steals, period }
}

/// Of gaps, by start and length, those that recur: the phase of the period at which most periods have one, and of each period the
/// longest that starts there; and the gaps at no such phase. Of several phases that are as frequent, give or take a tenth, it is that of the longest gaps:
/// a kernel's tick takes a hypervisor's time, too. What is longer than a quarter of a period is another task's time.
fn recurring(gaps: &[(u64, u64)], period: u64) -> (Vec<u64>, Vec<(u64, u64)>) {
    let phase = |start: u64| (start % period) * PHASES / period;
    let mut longest: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for &(start, length) in gaps.iter().filter(|(_, length)| *length < period / 4) {
        // Gaps begin some time sooner or later.
        for phase in [phase(start), (phase(start) + 1) % PHASES] {
            let entry = longest.entry((phase, start / period)).or_default();
            *entry = length.max(*entry);
        }
    }
    let at = |phase: u64| longest.range((phase, 0)..(phase + 1, 0)).map(|(_, length)| *length);
    let most = (0..PHASES).map(|phase| at(phase).count()).max().unwrap_or(0);
    let frequent = (0..PHASES).filter(|phase| 10 * at(*phase).count() >= 9 * most.max(1));
    let Some(found) = frequent.max_by_key(|phase| at(*phase).sum::<u64>()) else { return (Vec::new(), gaps.to_vec()) };
    let near = |start: u64| (phase(start) + PHASES + 1 - found) % PHASES <= 2;
    (at(found).collect(), gaps.iter().copied().filter(|(start, _)| !near(*start)).collect())
}

/// The CPU that takes all interrupts of a device which `access` uses `accesses` times from a CPU; none where that is the CPU that asks, where there is
/// but one, or where it cannot be known.
pub(crate) fn served_by(cpus: &[u32], accesses: u64, mut access: impl FnMut(u32) -> Option<()>) -> Option<u32> {
    let (first, last) = (*cpus.first()?, *cpus.last()?);
    if first == last {
        return None;
    }
    let mut serves = |cpu: u32| {
        let before = fs::read_to_string("/proc/interrupts").ok()?;
        access(cpu)?;
        let (taken, by) = busiest(&before, &fs::read_to_string("/proc/interrupts").ok()?)?;
        (taken >= accesses).then_some(by)
    };
    let (of_first, of_last) = (serves(first)?, serves(last)?);
    (of_first == of_last && cpus.contains(&of_first)).then_some(of_first)
}

/// How many interrupts of one device a CPU took at most between two texts of `/proc/interrupts`, and which CPU did: those of lines that begin with a
/// number.
fn busiest(before: &str, after: &str) -> Option<(u64, u32)> {
    let cpus: Vec<u32> =
        after.lines().next()?.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
    let counts = |text: &str| {
        let of = |line: &str| {
            let (number, counts) = line.split_once(':')?;
            let number: u32 = number.trim().parse().ok()?;
            Some((number, counts.split_whitespace().take(cpus.len()).map_while(|count| count.parse().ok()).collect()))
        };
        text.lines().skip(1).filter_map(of).collect::<BTreeMap<u32, Vec<u64>>>()
    };
    let earlier = counts(before);
    let taken = counts(after).into_iter().flat_map(|(number, counts)| {
        let earlier = earlier.get(&number).cloned().unwrap_or_default();
        let past = move |place: usize| earlier.get(place).copied().unwrap_or_default();
        counts.into_iter().enumerate().map(move |(place, count)| (count.saturating_sub(past(place)), place))
    });
    let (most, place) = taken.max()?;
    Some((most, *cpus.get(place)?))
}

/// Moving a queued task: setting the affinity of one that waits behind others, beyond setting it to what it is.
///
/// The task is SCHED_IDLE and both CPUs compute, so that it is hardly ever found running; then a stopper thread would have to move
/// it.
pub(crate) fn migration(bench: &Bench, there: u32) -> Result<Vec<f64>, NativeError> {
    let compute = || {
        loop {
            std::hint::spin_loop();
        }
    };
    let _hog = bench.helper(there, Policy::Other, compute)?;
    let moved = bench.helper(bench.here, Policy::Idle, compute)?;
    crate::system::sleep(2_000_000);
    let time = |cpu: u32| {
        let start = thread_cpu();
        let _ = set_affinity(moved.pid, &[cpu]);
        bench.since(start)
    };
    let rounds = 20;
    let batch = || {
        let (mut moving, mut staying) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            for cpu in [there, bench.here] {
                moving.push(time(cpu));
                staying.push(time(cpu));
            }
        }
        Some(Spread::of(moving)?.median_ns - Spread::of(staying)?.median_ns)
    };
    Ok((0..bench.batches).filter_map(|_| batch()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_that_takes_most_of_a_device_s_interrupts_serves_it() {
        // The disk's rise by 8 on CPU 5, the network's by 3 on CPU 2; the timer's line has no number.
        let before =
            "       CPU2  CPU5\n 7:  1  20  PCI-MSIX  disk\n 8:  4  0  PCI-MSIX  net\nLOC:  10  10  Local timer\n";
        let after =
            "       CPU2  CPU5\n 7:  1  28  PCI-MSIX  disk\n 8:  7  0  PCI-MSIX  net\nLOC:  90  90  Local timer\n";
        assert_eq!(busiest(before, after), Some((8, 5)));
        assert_eq!(busiest(after, after).map(|(most, _)| most), Some(0));
        // One CPU has no other one to take them, and a device that was not accessed has none.
        assert_eq!(served_by(&[0], 1, |_| Some(())), None);
        assert_eq!(served_by(&[0, 1], 1, |_| None), None);
    }

    #[test]
    fn only_what_recurs_at_the_period_is_a_tick() {
        // Period 6400, phases of 100: ticks at 1000, 7410 and 13820, all in phase 10; a longer neighbour in the same period and
        // phase hides the first one, strays at 3000 and 9000 do not matter, and 2000 at 20230 is more than a quarter of the period.
        let gaps = [(1000, 10), (1050, 15), (3000, 500), (7410, 11), (9000, 90), (13_820, 12), (20_230, 2000)];
        let others = vec![(3000, 500), (9000, 90)];
        assert_eq!(recurring(&gaps, 6400), (vec![15, 11, 12], others));
        assert_eq!(recurring(&[], 6400), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_hypervisor_s_ticks_are_told_from_the_kernel_s() {
        // In 40 ms ten ticks of the kernel's, of 41 us, and forty of the hypervisor's, each 700 us after a millisecond, of 28; of 30 that is no tick.
        let ticks = (0..10).map(|number| (number * 4_000_000 + 50_000, 41_000));
        let steals = (0..40).map(|number| (number * 1_000_000 + 700_000, 28_000));
        let mut gaps: Vec<(u64, u64)> = ticks.chain(steals).chain([(1_300_000, 30_000)]).collect();
        gaps.sort_unstable();
        let found = by_origin(&gaps, 4_000_000, 40_000_000, 1_000.0);
        let expected =
            Interruptions { ticks: vec![40_000.0; 10], steals: vec![27_000.0; 40], period: vec![1_000_000.0] };
        assert_eq!(found, expected);
        // Without a hypervisor's there is no other tick.
        gaps.retain(|(_, length)| *length != 28_000);
        let found = by_origin(&gaps, 4_000_000, 40_000_000, 1_000.0);
        assert_eq!(found, Interruptions { ticks: vec![40_000.0; 10], ..Interruptions::default() });
    }
}
