//! Going to sleep until a timer expires.

use schedlab_model::{Duration, Outcome, Step, Task, TaskKind, Time, Workload};
use schedlab_program::Program;

use super::bench::Bench;
use super::births::measured;
use crate::NativeError;

/// What a sleeper sleeps each time.
const SPAN: Time = Time::from_micros(500);

/// Rounds of a long run and of a short one: what they differ by has neither beginnings nor ends in it.
const ROUNDS: [u64; 2] = [60, 20];

/// CPU time of a round in which a task does nothing but sleep until a timer expires, on a CPU that idles meanwhile, in nanoseconds.
#[derive(Default)]
pub(crate) struct Sleeps {
    /// Of one alone: its timer is always the next to expire.
    pub(crate) alone: Vec<f64>,
    /// Of each of two that go by turns: the other one's timer always expires earlier.
    pub(crate) by_turns: Vec<f64>,
}

pub(crate) fn sleeps(bench: &Bench) -> Result<Sleeps, NativeError> {
    let compiled = |sleepers| -> Result<Vec<Program>, NativeError> {
        ROUNDS.into_iter().map(|rounds| Ok(Program::compile(&workload(sleepers, rounds))?)).collect()
    };
    let (alone, by_turns) = (compiled(1)?, compiled(2)?);
    let mut found = Sleeps::default();
    for _ in 0..bench.batches / 15 + 1 {
        for (programs, times) in [(&alone, &mut found.alone), (&by_turns, &mut found.by_turns)] {
            let mut runs = [0; 2];
            for (program, run) in programs.iter().zip(&mut runs) {
                *run = measured(bench, program, &[bench.here], mean_run)?;
            }
            let ran = runs.iter().all(|run| *run > 0);
            times.extend(ran.then(|| (runs[0] as f64 - runs[1] as f64) / (ROUNDS[0] - ROUNDS[1]) as f64));
        }
    }
    Ok(found)
}

fn mean_run(outcome: &Outcome) -> u64 {
    outcome.tasks.iter().map(|task| task.run_ns).sum::<u64>() / outcome.tasks.len().max(1) as u64
}

/// Sleepers, of whom each begins its rounds so much later that all are apart by the same time.
fn workload(sleepers: u64, rounds: u64) -> Workload {
    let sleep = |time| Step::Sleep(Duration::Fixed(time));
    let sleeper = |index: u64| {
        let later = Time::from_nanos(SPAN.as_nanos() * (sleepers + index) / sleepers);
        let steps = vec![sleep(later), Step::Loop { count: rounds, steps: vec![sleep(SPAN)] }];
        Task { name: format!("sleeper.{index}"), instances: 1, kind: TaskKind::Process, steps, ..Task::default() }
    };
    Workload { name: "sleeps".into(), tasks: (0..sleepers).map(sleeper).collect(), ..Workload::default() }
}
