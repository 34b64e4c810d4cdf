//! What the kernel refuses.

use thiserror::Error;

/// Why `sched_setattr(2)` or `fork(2)` would fail, with the kernel's errno.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchedError {
    /// The kernel is too old.
    #[error("kernel 2.6.24 has no deadline policy (it came with 3.14)")]
    NoDeadlines,
    /// Parameters that make no sense.
    #[error("{fault} (EINVAL)")]
    Parameters {
        /// What is wrong, and what is allowed.
        fault: String,
    },
    /// An affinity.
    #[error("a deadline task must be allowed on every CPU: leave its affinity out (EPERM)")]
    DeadlineAffinity,
    /// `rt_runtime` is 0.
    #[error("deadline tasks have no bandwidth, as rt_runtime is 0 (EPERM)")]
    NoBandwidth,
    /// More than the machine may promise.
    #[error(
        "it asks for {asked}‰ of a CPU; deadline tasks have {total}‰ and may have {limit}‰ of all CPUs together, \
         rt_runtime / rt_period of each (EBUSY)"
    )]
    Bandwidth {
        /// What the task asks for, in thousandths of a CPU.
        asked: u64,
        /// What the others, and the fair servers from 6.12 on, have.
        total: u64,
        /// What all may have.
        limit: u64,
    },
    /// A deadline task forks.
    #[error("a deadline task may not fork (EAGAIN)")]
    DeadlineFork,
}
