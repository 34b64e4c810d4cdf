//! Where tasks go: placement of waking and new tasks, and balancing of load among CPUs.

mod blocked;
mod busiest;
mod deadline;
mod detach;
pub(crate) mod domains;
pub(crate) mod env;
mod groups;
mod idle_sibling;
mod idlest;
mod imbalance;
mod load_balance;
mod newidle;
mod realtime;
mod rebalance;
mod select;
mod simple;
pub(crate) mod state;
pub(crate) mod stats;
mod topology;

/// Why a CPU is chosen for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeKind {
    /// It is new (`WF_FORK`).
    Fork,
    /// It begins another program (`WF_EXEC`).
    Exec,
    /// It wakes (`WF_TTWU`).
    Wakeup {
        /// The waker is about to sleep (`WF_SYNC`).
        sync: bool,
    },
}
