//! Repeats in turn, medians, spreads.

use std::time::Instant;

use schedlab_model::Costs;
use serde::Serialize;

use crate::SimError;
use crate::speed::scenario::{Prepared, Scenario};

/// A scenario's figures over its repeats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The scenario's name.
    pub name: String,
    /// The median of what a run took, in milliseconds of real time, one thread.
    pub wall_ms: f64,
    /// What the fastest run took.
    pub least_ms: f64,
    /// What the slowest run took.
    pub most_ms: f64,
    /// The least CPU time that a run got, in milliseconds, where the kernel tells: on a machine with other work it is closer to what
    /// an idle one would take.
    pub cpu_ms: Option<f64>,
    /// How many runs.
    pub repeats: usize,
    /// Pairs of a block and a wake-up in a second of real time, by the median; none where no task blocks.
    pub pairs_per_s: Option<f64>,
    /// Pairs in one run.
    pub pairs: u64,
    /// Context switches in one run, to and from idle included.
    pub switches: u64,
    /// Events, entries of queues that were compared or moved, and CPUs that were looked at, a pair.
    pub operations_per_pair: Option<f64>,
    /// Nanoseconds a pair, by the median.
    pub ns_per_pair: Option<f64>,
    /// Nanoseconds a switch, by the median.
    pub ns_per_switch: Option<f64>,
    /// Milliseconds that it must take at most, if anything was set.
    pub goal_ms: Option<f64>,
    /// The release simulated.
    pub release: String,
    /// Tasks.
    pub tasks: u32,
    /// CPUs.
    pub cpus: u32,
    /// Milliseconds simulated.
    pub simulated_ms: u64,
    /// The most memory that the process had in RAM so far, in MiB, where the kernel reports it.
    pub peak_mib: Option<f64>,
}

/// Runs each scenario `repeats` times, in turn, so that a slow spell of the machine falls on all of them alike. `progress` is called with
/// the name of each run before it begins, and ends the measurement by returning false. `costs` are those of the typical scenarios.
///
/// # Errors
/// [`SimError`], as a run's; [`SimError::Cancelled`] where `progress` said so.
pub fn measure(
    scenarios: &[&'static Scenario],
    repeats: usize,
    costs: &Costs,
    mut progress: impl FnMut(&str) -> bool,
) -> Result<Vec<Measured>, Box<dyn std::error::Error + Send + Sync>> {
    let prepared = scenarios.iter().map(|scenario| scenario.prepare(costs)).collect::<Result<Vec<Prepared>, _>>()?;
    let mut times = vec![Vec::new(); scenarios.len()];
    let mut cpu_times: Vec<Option<u64>> = vec![None; scenarios.len()];
    let mut counts = vec![None; scenarios.len()];
    let mut peaks = vec![None; scenarios.len()];
    for _ in 0..repeats.max(1) {
        for (number, prepared) in prepared.iter().enumerate() {
            if !progress(scenarios[number].name) {
                return Err(SimError::Cancelled { time: schedlab_model::Time::ZERO }.into());
            }
            let (start, before) = (Instant::now(), cpu_time());
            counts[number] = Some(prepared.run()?);
            let used = cpu_time().zip(before).map(|(after, before)| after - before);
            cpu_times[number] = cpu_times[number].into_iter().chain(used).min();
            times[number].push(start.elapsed().as_secs_f64() * 1e3);
            peaks[number] = peaks[number].or_else(peak_memory);
        }
    }
    let measured = scenarios.iter().zip(times).zip(counts.into_iter().flatten()).zip(cpu_times.into_iter().zip(peaks));
    Ok(measured
        .map(|(((scenario, mut times), counts), (cpu_time, peak))| {
            times.sort_by(f64::total_cmp);
            let wall_ms = median(&times);
            let per_pair = |value: f64| (counts.pairs > 0).then_some(value);
            Measured {
                name: scenario.name.to_owned(),
                wall_ms,
                least_ms: times[0],
                most_ms: times[times.len() - 1],
                cpu_ms: cpu_time.map(|nanoseconds| nanoseconds as f64 / 1e6),
                repeats: times.len(),
                pairs_per_s: per_pair(counts.pairs as f64 / wall_ms * 1e3),
                pairs: counts.pairs,
                switches: counts.switches,
                operations_per_pair: per_pair(counts.operations as f64 / counts.pairs as f64),
                ns_per_pair: per_pair(wall_ms * 1e6 / counts.pairs as f64),
                ns_per_switch: (counts.switches > 0).then(|| wall_ms * 1e6 / counts.switches as f64),
                goal_ms: scenario.goal_ms,
                release: scenario.release.to_owned(),
                tasks: scenario.tasks,
                cpus: scenario.cpus,
                simulated_ms: scenario.simulated_ms,
                peak_mib: peak.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            }
        })
        .collect())
}

/// The middle of sorted values, of two in the middle their mean.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// The most memory that this process had in RAM so far, in bytes (`VmHWM` of `/proc/self/status`); none where it is not reported.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// The CPU time that this thread got so far, in nanoseconds. Its own clock counts to the present, `schedstat` to the last tick.
#[cfg(unix)]
fn cpu_time() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock writes one timespec, which outlives the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    let nanoseconds = || Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?);
    if failed { None } else { nanoseconds() }
}

/// There is no such clock in a browser, where nothing is measured.
#[cfg(not(unix))]
const fn cpu_time() -> Option<u64> {
    None
}

/// The machine on which this runs: its processor and how many of them.
pub fn facts() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cpus} CPUs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_two() {
        assert_eq!((median(&[1.0, 2.0, 9.0]), median(&[1.0, 2.0, 4.0, 9.0])), (2.0, 3.0));
    }

    /// Ten milliseconds of computing are nine at least by the thread's own clock; `schedstat` has whole ticks, of 1 to 10 ms.
    #[test]
    fn cpu_time_counts_what_is_shorter_than_a_tick() {
        let before = cpu_time().unwrap();
        let mut steps = 0u64;
        while cpu_time().unwrap() - before < 50_000 {
            steps += 1;
        }
        assert!(steps > 0 && cpu_time().unwrap() - before < 50_000_000);
    }

    #[test]
    fn a_figure_tells_its_goal_and_what_was_done() {
        let scenario = Scenario::find("ceiling").unwrap();
        let mut asked = 0;
        let measured = measure(&[scenario], 2, &Costs::ideal(), |_| {
            asked += 1;
            true
        });
        let measured = &measured.unwrap()[0];
        // 400 tasks, 10 a CPU a ms on 4 CPUs: each every 10 ms, 6000 times in 60 s.
        assert_eq!((asked, measured.repeats, measured.pairs), (2, 2, 2_400_000));
        assert!(measured.least_ms <= measured.wall_ms && measured.wall_ms <= measured.most_ms);
        assert!(measure(&[scenario], 1, &Costs::ideal(), |_| false).is_err());
    }
}
