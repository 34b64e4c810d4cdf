//! How much a recording holds.

use std::fmt;

use clap::ValueEnum;

/// What is recorded, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Level {
    /// Switches, wakeups and forks: the least that shows how long tasks wait. Nothing else is recorded, so that recording disturbs as
    /// little as it can; such a recording cannot be replayed.
    #[value(name = "switches")]
    Switches,
    /// Tracepoints alone.
    #[value(name = "L0")]
    L0,
    /// Tracepoints, where tasks are placed, and their state at the beginning.
    #[value(name = "L0k")]
    L0k,
    /// Tracepoints and probes of all that the scheduler's rules depend on.
    #[value(name = "L1")]
    L1,
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Switches => "switches",
            Self::L0 => "L0",
            Self::L0k => "L0k",
            Self::L1 => "L1",
        })
    }
}
