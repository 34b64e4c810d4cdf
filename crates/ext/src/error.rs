//! What can go wrong between a user and the kernel's scheduler.

use std::io;

use schedlab_model::ModelError;
use thiserror::Error;

/// Why the scheduler was not loaded, or did not stay. Each is one line.
#[derive(Debug, Error)]
pub enum ExtError {
    /// A rule of weights that is none.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An option out of its range.
    #[error("--{option} is {found}; allowed: {allowed}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was given.
        found: String,
        /// What may be given.
        allowed: String,
    },
    /// What this kernel has not, and what would help.
    #[error("{0}")]
    Kernel(String),
    /// What this user may not do.
    #[error("{0}")]
    Permission(String),
    /// Another scheduler is there.
    #[error("the sched_ext scheduler '{0}' runs on this kernel, which takes one at a time: end it first")]
    Busy(String),
    /// The command cannot be started.
    #[error("cannot run '{command}': {source}")]
    Command {
        /// Its name.
        command: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel did not take the scheduler.
    #[error("kernel {release} does not take the scheduler: {why}; nothing was changed")]
    Rejected {
        /// The kernel.
        release: String,
        /// Its verifier's words, or libbpf's.
        why: String,
    },
    /// The kernel took scheduling back.
    #[error("the kernel took scheduling back: {0}; its own class schedules again")]
    Ejected(String),
    /// An unforeseen failure.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The answer.
        source: io::Error,
    },
}

impl ExtError {
    /// The exit code: 2 for bad input, a kernel or user that cannot, or a rejection; 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Ejected(_) | Self::System { .. } => 1,
            _ => 2,
        }
    }
}

/// For `map_err`: says what was being done.
pub(crate) fn during(what: &'static str) -> impl Fn(io::Error) -> ExtError {
    move |source| ExtError::System { what, source }
}

/// The same for libbpf's errors.
pub(crate) fn asking(what: &'static str) -> impl Fn(libbpf_rs::Error) -> ExtError {
    move |error| ExtError::System { what, source: io::Error::other(error.to_string()) }
}
