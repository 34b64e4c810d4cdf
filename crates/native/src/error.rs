//! Errors of runs on the running kernel.

use std::io;

use schedlab_model::ModelError;
use schedlab_workloads::WorkloadError;
use thiserror::Error;

/// Why a run, a calibration or a probe failed. Each is one line.
#[derive(Debug, Error)]
pub enum NativeError {
    /// A workload that cannot run as written.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A text that is not a workload's name.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A file that cannot be read or holds no workload.
    #[error("{file}: {why}")]
    File {
        /// The file's path, or `standard input`.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// What the user may not do, or this kernel cannot do.
    #[error("task '{task}': {what}")]
    Refused {
        /// The task that asked for it.
        task: String,
        /// What it was, and what it needs.
        what: String,
    },
    /// More of a resource than the machine has or the user may use.
    #[error("{0}")]
    Limit(String),
    /// The run did not end in time; all its tasks were killed.
    #[error("the run did not end within {0}; all its tasks were killed (--timeout sets the limit)")]
    Timeout(schedlab_model::Time),
    /// A signal ended the run; all its tasks were killed.
    #[error("interrupted by signal {0}; all tasks were killed")]
    Interrupted(i32),
    /// No recording can be made, or the one that was made is not worth keeping.
    #[error("{0}")]
    Recording(String),
    /// The recorded command failed.
    #[error("the command '{command}' {how}, so its recording was not kept")]
    Command {
        /// The command's first word.
        command: String,
        /// How it ended.
        how: String,
    },
    /// A task failed in an unforeseen way.
    #[error("task '{task}' failed: {what}")]
    Task {
        /// The task.
        task: String,
        /// What happened to it.
        what: String,
    },
    /// A system call failed in an unforeseen way.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl NativeError {
    /// The exit code that tells a caller what kind of failure it was: 2 for bad input and what is not permitted, 130 for an
    /// interrupt, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Model(_)
            | Self::Workload(_)
            | Self::File { .. }
            | Self::Refused { .. }
            | Self::Limit(_)
            | Self::Recording(_) => 2,
            Self::Interrupted(_) => 130,
            Self::Timeout(_) | Self::Task { .. } | Self::Command { .. } | Self::System { .. } => 1,
        }
    }
}

/// For `map_err`: says what was being done when a system call failed.
pub(crate) fn during(what: &'static str) -> impl Fn(io::Error) -> NativeError {
    move |source| NativeError::System { what, source }
}
