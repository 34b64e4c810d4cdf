//! What can go wrong in a simulation.

use schedlab_model::{ModelError, Time};
use schedlab_sched::SchedError;
use thiserror::Error;

/// Why a run was refused or came to no end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SimError {
    /// A scheduler or machine that is wrong in itself.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Knobs that are set but have no effect in the simulator yet.
    #[error("the simulator does not act on {knobs} yet; leave it at its default, or run on a real kernel")]
    Unsimulated {
        /// Their names.
        knobs: String,
    },
    /// A task that may run on no CPU of the machine.
    #[error("task '{task}' may run on CPUs {allowed} only; the machine has CPUs 0 to {last}")]
    Affinity {
        /// The task template's name.
        task: String,
        /// The CPUs it was given.
        allowed: String,
        /// The machine's last CPU.
        last: u32,
    },
    /// Timer interrupts that leave tasks no time.
    #[error("a tick costs {cost}, but ticks are only {period} apart: nothing else would ever run")]
    TickCost {
        /// What one costs.
        cost: Time,
        /// From one to the next.
        period: Time,
    },
    /// A policy that the kernel does not let a task have, or a fork that it does not allow.
    #[error("task '{task}' is refused at {time}: {why}")]
    Refused {
        /// The task template's name.
        task: String,
        /// When.
        time: Time,
        /// What the kernel would say.
        why: SchedError,
    },
    /// A task that forks without end.
    #[error(
        "task '{task}' forks without end: at {time} it has made {limit} tasks with one fork step (rt-app's limit too)"
    )]
    Forks {
        /// The task template's name.
        task: String,
        /// When.
        time: Time,
        /// So many it may make.
        limit: u32,
    },
    /// Every task that is left sleeps, and nothing will wake one.
    #[error("deadlock at {time}: {waiting}")]
    Deadlock {
        /// When the last task went to sleep.
        time: Time,
        /// The waiting tasks, and what each of them waits for.
        waiting: String,
    },
    /// The run is not over at the limit.
    #[error("not over after {limit} of simulated time (the limit); {left} of {made} tasks are left")]
    TimeLimit {
        /// The limit.
        limit: Time,
        /// Tasks that have not ended.
        left: u32,
        /// Tasks there were so far.
        made: u32,
    },
    /// A custom policy ended the run.
    #[error("the policy gave up at {time}")]
    Policy {
        /// When.
        time: Time,
    },
    /// The caller cancelled the run ([`crate::Options`]).
    #[error("cancelled at {time}")]
    Cancelled {
        /// When.
        time: Time,
    },
    /// Operations follow one another and no time passes, as can happen where all costs are zero.
    #[error("no time passes at {time}: {operations} operations at one instant (are all costs zero?)")]
    NoProgress {
        /// When.
        time: Time,
        /// How many operations.
        operations: u64,
    },
}
