//! Many configurations of one program at once.

use rayon::prelude::*;
use schedlab_model::{Machine, NoEvents, Scheduler, Time};
use schedlab_program::Program;

use crate::arena::Arena;
use crate::engine::Engine;
use crate::{Options, SimError};

/// What a run came to, without its tasks' shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// What the workload itself calls its time, as [`schedlab_model::Outcome::turnaround_ns`].
    pub turnaround: Time,
    /// From the first task's start to the last one's end.
    pub elapsed: Time,
    /// Context switches, as [`schedlab_model::Outcome::switches`].
    pub switches: u64,
    /// Messages read in full.
    pub messages: u64,
    /// Bytes read in full.
    pub bytes: u64,
}

/// Runs `program` once under each of `schedulers`, on as many threads as rayon's pool has.
///
/// Results come in the order of `schedulers` and depend on nothing but the arguments.
///
/// # Errors
/// Each run's own, in its place, as [`crate::simulate`]'s.
pub fn simulate_many(
    program: &Program,
    schedulers: &[Scheduler],
    machine: &Machine,
    options: &Options<'_>,
) -> Vec<Result<Summary, SimError>> {
    // Each thread takes the next one when it is done with one: threads are seldom as fast as each other.
    let numbered = schedulers.iter().enumerate().par_bridge();
    let mut results: Vec<_> = numbered
        .map_init(Arena::default, |arena, (number, scheduler)| {
            (number, run(program, scheduler, machine, options, arena))
        })
        .collect();
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs `program` once under each of `schedulers`, on this thread: for a process that shares the CPUs with others like it.
///
/// Results are [`simulate_many`]'s.
///
/// # Errors
/// Each run's own, in its place, as [`crate::simulate`]'s.
pub fn simulate_in_turn(
    program: &Program,
    schedulers: &[Scheduler],
    machine: &Machine,
    options: &Options<'_>,
) -> Vec<Result<Summary, SimError>> {
    let mut arena = Arena::default();
    schedulers.iter().map(|scheduler| run(program, scheduler, machine, options, &mut arena)).collect()
}

fn run(
    program: &Program,
    scheduler: &Scheduler,
    machine: &Machine,
    options: &Options<'_>,
    arena: &mut Arena,
) -> Result<Summary, SimError> {
    let mut nobody = NoEvents;
    let mut engine = Engine::new(program, scheduler, machine, options, arena, &mut nobody)?;
    let summary = engine.run().map(|()| engine.summary());
    *arena = engine.arena;
    summary
}
