//! The engine: a workload on a machine under a scheduler, in virtual time.
//!
//! Virtual time is driven by discrete events: a task's operation is complete, a sleeper's timer expires, a CPU has to schedule, a tick.
//! What a task does comes from [`schedlab_program`], every scheduling decision from [`schedlab_sched`]; this crate decides only how long
//! things take and in which order they happen.
//!
//! - **Order.** Events are ordered by time; at one instant completions come first, then timers, then CPUs that have to schedule, then
//!   ticks; within a kind by CPU, or by task for timers. The same input gives the same events to the byte.
//! - **Preemption** is full (`preempt=full`): a task marked for rescheduling is switched out at once. Operations take effect at the end of
//!   their time.
//! - **Ticks** come at multiples of 1/HZ (less [`Options::phase`]) on every CPU that runs a task, lowest CPU first. Those that would change
//!   nothing but accounting are skipped and made up for before the queue is looked at again, which changes no event and no outcome.
//! - **Costs.** A switch is billed to the next task, together with `cache_refill` for each switch that its CPU made to another task since
//!   it ran there last (at most for each other living task; a task from another core pays the limit, and one from another last-level cache
//!   `cache_refill_llc` besides). A task that is switched in again on a CPU that no other task had pays nothing. A wake-up is billed to the
//!   waker, or to the task that a timer interrupts, and so is the interrupt (`ipi`) that notifies another CPU, if that idles or has to
//!   switch; the task that such an interrupt interrupts pays `ipi_taken`. A migration is billed to the task that is pulled, a tick to the
//!   current task. A task that a wake-up marks for rescheduling first does the wake-up and one pass of the scheduler (`schedule`), and so
//!   does the interrupt that wakes a task on an idle CPU. An idle CPU takes its timers' interrupts, and looks at other CPUs' notifications,
//!   `idle_exit` later.
//! - **Speed.** All times of work and costs are at a CPU's nominal speed. Where the machine says that CPUs share cores or have turbo, work in
//!   progress goes on at another rate from the instant at which the number of busy threads or cores changes; nothing is rounded away.
//! - **Placement and balancing** are the kernel's, at the times at which it would do them: wake-ups, ticks, CPUs about to idle. Softirqs
//!   and stoppers act at once. On 2.6.24, and under a custom policy, no CPU idles while a task that may run there waits, but for
//!   `idle_exit`: a CPU that runs out of work pulls a task, and an idle CPU is notified when a task has to wait on another one.
//!
//! ```
//! use schedlab_model::{Machine, NoEvents, Scheduler, Workload};
//! use schedlab_program::Program;
//! use schedlab_sim::{Options, simulate};
//!
//! let workload: Workload = serde_json::from_str(r#"{
//!     "name": "two", "tasks": [{"name": "hog", "instances": 2, "steps": [{"run": {"fixed": "10ms"}}]}]
//! }"#)?;
//! let program = Program::compile(&workload)?;
//! let scheduler = Scheduler::new("6.1".parse()?);
//! let outcome = simulate(&program, &scheduler, &Machine::ideal(1), &Options::default(), &mut NoEvents)?;
//! assert_eq!(outcome.elapsed_ns, 20_000_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arena;
mod births;
mod channel;
mod completions;
mod cpu;
mod depart;
mod dispatch;
mod engine;
mod error;
mod event_queue;
mod exit;
mod fast_path;
#[cfg(test)]
mod fast_path_tests;
mod files;
mod flush;
mod grace_period;
mod groups;
mod hotplug;
mod huge_pages;
mod inode;
mod irq_off;
mod leaf;
#[cfg(test)]
mod load_tests;
mod many;
mod objects;
mod operation;
mod outcome;
mod pace;
mod ports;
mod price;
#[cfg(test)]
mod reason_tests;
mod rescheduling;
mod rwsem;
mod setting;
mod slabs;
pub mod speed;
mod submission;
mod switch;
mod sync;
mod task;
mod ticks;
mod timers;
mod transfer;
mod unknown;
mod wait;
mod writeback;

use std::sync::atomic::AtomicBool;

use schedlab_model::{EventSink, Machine, ModelError, Outcome, Scheduler, Time};
use schedlab_program::Program;
use schedlab_sched::CustomClass;

pub use error::SimError;
pub use many::{Summary, simulate_in_turn, simulate_many};

use arena::Arena;
use engine::Engine;

/// How a run is made.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Seed of every random stream.
    pub seed: u64,
    /// How long after a tick the run begins, less than from tick to tick (the rest of a division by that counts). Where in the kernel's
    /// rhythm a real run falls is chance.
    pub phase: Time,
    /// When the tasks' timers begin to count: 0 without anything before the workload's tasks, otherwise when these are let go (the runner's
    /// gate).
    pub origin: Time,
    /// Do every tick when it is due, and take no short way (`flat.rs`). Changes nothing but the time that the simulation takes.
    pub no_tick_skip: bool,
    /// Simulated time after which a run that is not over is given up.
    pub time_limit: Time,
    /// Once this is true, the run ends with [`SimError::Cancelled`].
    pub cancel: Option<&'a AtomicBool>,
}

impl Default for Options<'_> {
    /// Seed 1, begun at a tick, ticks skipped, a day of simulated time at most.
    fn default() -> Self {
        Self {
            seed: 1,
            phase: Time::ZERO,
            origin: Time::ZERO,
            no_tick_skip: false,
            time_limit: Time::from_millis(86_400_000),
            cancel: None,
        }
    }
}

/// Runs `program` on `machine` under `scheduler` until every task has ended, and passes its events to `sink`.
///
/// # Errors
/// [`SimError`]: what is wrong with the machine or the scheduler, a knob that has no effect here, a deadlock, the time limit.
pub fn simulate<S: EventSink>(
    program: &Program,
    scheduler: &Scheduler,
    machine: &Machine,
    options: &Options<'_>,
    sink: &mut S,
) -> Result<Outcome, SimError> {
    let mut arena = Arena::default();
    let mut engine = Engine::new(program, scheduler, machine, options, &mut arena, sink)?;
    engine.run()?;
    Ok(engine.outcome(scheduler))
}

/// The same with a policy of the user's own in the place of the release's fair class. `docs/guides/write-a-policy.md` writes one.
///
/// # Errors
/// As [`simulate`]'s.
///
/// # Panics
/// If the policy picks a task that cannot run, or none where there is one.
pub fn simulate_policy<S: EventSink>(
    program: &Program,
    scheduler: &Scheduler,
    machine: &Machine,
    options: &Options<'_>,
    policy: Box<dyn CustomClass>,
    sink: &mut S,
) -> Result<Outcome, SimError> {
    let mut arena = Arena::default();
    let mut engine = Engine::new(program, scheduler, machine, options, &mut arena, sink)?;
    if engine.pools.is_some() {
        let why = "a policy of the user's own knows no groups; leave groups and sessions out of the workload";
        return Err(ModelError::Group(why.to_owned()).into());
    }
    if !machine.changes.is_empty() {
        let why = "changes: CPUs that go off line are not simulated with a policy of the user's own";
        return Err(ModelError::Machine(why.to_owned()).into());
    }
    engine.sched.set_custom_class(policy);
    engine.run()?;
    Ok(engine.outcome(scheduler))
}
