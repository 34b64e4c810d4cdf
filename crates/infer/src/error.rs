//! What can be wrong with a recording that a workload is asked of.

use schedlab_model::{ModelError, Time};
use schedlab_trace::TraceError;
use thiserror::Error;

/// Everything this crate refuses.
#[derive(Debug, Error)]
pub enum InferError {
    /// A line of the recording, or the file itself.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Nothing ran in the part that was asked for.
    #[error("no task ran in the recording{0}: there is nothing to infer a workload from")]
    Empty(String),
    /// The part that was asked for is none.
    #[error("the part from {from} to {to} is empty, or not within the recording, which lasts {length}")]
    Window {
        /// Its beginning.
        from: Time,
        /// Its end.
        to: Time,
        /// How long the recording is.
        length: Time,
    },
    /// More than is kept in memory.
    #[error("more than {limit} {what} in the recording; take a part of it (--from, --to)")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// The head says something that cannot be.
    #[error("the recording's head: {0}")]
    Head(String),
    /// The workload that came out is not one.
    #[error("the workload that was inferred cannot be run: {0}")]
    Workload(#[from] ModelError),
}
