//! How much faster many simulations are on several threads than on one.

use std::time::Instant;

use schedlab_model::{Attributes, Duration, Machine, Scheduler, Step, Task, Time, Workload};
use schedlab_program::Program;
use serde::Serialize;

use crate::speed::measure::median;
use crate::{Options, simulate_many};

/// A batch's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Batch {
    /// Simulations in the batch.
    pub simulations: usize,
    /// Threads of the parallel run.
    pub threads: usize,
    /// The median of what the batch took on one thread, in milliseconds of real time.
    pub one_ms: f64,
    /// The same on `threads`.
    pub many_ms: f64,
    /// The median of the ratios of runs that followed one another.
    pub speedup: f64,
    /// The speedup that there must be at least on two threads.
    pub goal: f64,
    /// How many times both were measured.
    pub repeats: usize,
}

/// Runs `simulations` on one thread and on `threads`, in turn, `repeats` times: 40 tasks that run and sleep on 4 CPUs for a second of
/// simulated time, each with knobs of its own.
///
/// # Errors
/// What makes a pool of threads impossible.
pub fn measure_batch(
    simulations: usize,
    threads: usize,
    repeats: usize,
) -> Result<Batch, Box<dyn std::error::Error + Send + Sync>> {
    let run = Step::Run(Duration::Fixed(Time::from_micros(500)));
    let sleep = Step::Sleep(Duration::Uniform { low: Time::from_millis(1), high: Time::from_millis(15) });
    let task = Task {
        name: "task".into(),
        instances: 40,
        attributes: Some(Attributes::default()),
        steps: vec![Step::Forever(vec![run, sleep])],
        ..Task::default()
    };
    let workload = Workload {
        name: "batch".into(),
        duration: Some(Time::from_millis(1000)),
        tasks: vec![task],
        ..Workload::default()
    };
    let (program, machine) = (Program::compile(&workload)?, Machine::ideal(4));
    let mut schedulers = vec![Scheduler { hz: 1000, ..Scheduler::new("6.1".parse()?) }; simulations];
    for (number, scheduler) in schedulers.iter_mut().enumerate() {
        scheduler.set("latency", &format!("{}us", 2_000 + 20 * number))?;
    }
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pools = [pool(1)?, pool(threads)?];
    let (mut times, mut ratios) = ([vec![], vec![]], vec![]);
    for _ in 0..repeats.max(1) {
        for (pool, times) in pools.iter().zip(&mut times) {
            let start = Instant::now();
            let results = pool.install(|| simulate_many(&program, &schedulers, &machine, &Options::default()));
            times.push(start.elapsed().as_secs_f64() * 1e3);
            results.into_iter().collect::<Result<Vec<_>, _>>()?;
        }
        ratios.extend(times[0].last().zip(times[1].last()).map(|(one, many)| one / many));
    }
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        median(&values)
    };
    let (repeats, speedup) = (ratios.len(), middle(ratios));
    let [one_ms, many_ms] = times.map(middle);
    Ok(Batch { simulations, threads, one_ms, many_ms, speedup, goal: 1.8, repeats })
}
