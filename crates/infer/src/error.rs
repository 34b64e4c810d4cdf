//! Errors of recordings from which a workload is to be inferred.

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
    /// The part that was asked for is empty or outside the recording.
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
    /// The head contradicts itself or is malformed.
    #[error("the recording's head: {0}")]
    Head(String),
    /// The inferred workload is not valid.
    #[error("the workload that was inferred cannot be run: {0}")]
    Workload(#[from] ModelError),
}
