//! Errors of a request, with their place in its text.

use schedlab_model::ModelError;
use schedlab_sim::SimError;
use schedlab_workloads::WorkloadError;
use thiserror::Error;

use crate::message::Message;

/// Why a request was refused or a run did not finish.
#[derive(Debug, Error)]
pub enum WebError {
    /// The request or a part of it is no JSON of the expected form.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// An error of the workload.
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    /// An invalid part of the request.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// The run was refused or did not finish.
    #[error("{0}")]
    Run(#[from] SimError),
    /// The recording cannot be read or followed.
    #[error("{0}")]
    Replay(#[from] schedlab_replay::ReplayError),
    /// More happens in the run than a page has memory for.
    #[error("more than {limit} events before {time} of simulated time; allowed: a shorter or smaller workload")]
    Events {
        /// The limit.
        limit: usize,
        /// When it was reached.
        time: schedlab_model::Time,
    },
}

impl WebError {
    /// Which part of the request is wrong: `workload`, `run` or `request`.
    fn part(&self) -> &'static str {
        match self {
            Self::Json(_) => "request",
            Self::Workload(_) | Self::Model(ModelError::Workload { .. }) => "workload",
            Self::Model(_) | Self::Run(_) | Self::Replay(_) | Self::Events { .. } => "run",
        }
    }

    /// The line and column of the text at which it is wrong, both from 1.
    fn place(&self) -> Option<(usize, usize)> {
        match self {
            Self::Json(error) => Some((error.line(), error.column())),
            Self::Workload(WorkloadError::RtApp { line, column, .. }) => Some((*line as usize, *column as usize)),
            // The reader of JSON ends its sentence with the place.
            Self::Workload(WorkloadError::Text { why }) => read_place(why),
            _ => None,
        }
    }

    /// The error as a message.
    pub(crate) fn message(&self) -> Message {
        let place = self.place();
        Message::new(serde_json::json!({
            "error": self.to_string(), "part": self.part(),
            "line": place.map(|(line, _)| line), "column": place.map(|(_, column)| column),
        }))
    }
}

/// The place that a sentence names as `line 3 column 7` or `line 3, column 7`.
fn read_place(text: &str) -> Option<(usize, usize)> {
    let number = |word: &str| {
        let rest = &text[text.rfind(word)? + word.len()..];
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    };
    Some((number("line ")?, number("column ")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_from_either_form() {
        assert_eq!(read_place("expected value at line 3 column 7"), Some((3, 7)));
        assert_eq!(read_place("line 12, column 1: found a number"), Some((12, 1)));
        assert_eq!(read_place("the object has no \"tasks\""), None);
    }
}
