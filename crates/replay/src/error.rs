//! What cannot be replayed.

use schedlab_trace::TraceError;
use thiserror::Error;

/// Everything that a replay refuses.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The recording holds no event.
    #[error("the recording holds no event; a replay of nothing proves nothing")]
    Empty,
    /// The recording or its kernel is of a kind whose replay does not exist yet.
    #[error("{what} cannot be replayed: {why}")]
    Unsupported {
        /// What was found.
        what: String,
        /// What can be replayed.
        why: &'static str,
    },
    /// The snapshot or the release does not say what the rules need.
    #[error("the kernel's settings: {0}")]
    Settings(String),
}
