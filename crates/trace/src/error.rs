//! Errors in traces.

use thiserror::Error;

/// Everything this crate refuses, with the place and what was expected there.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A line that does not have the form its format asks for.
    #[error("line {line}: found '{found}', expected {expected}")]
    Malformed {
        /// The line's number, from 1.
        line: u64,
        /// The text found, cut to a readable length.
        found: String,
        /// What was expected there.
        expected: String,
    },
    /// The recording lost events, so nothing can be concluded from it.
    #[error("line {line}: the recording lost events ('{found}'); record again with a larger buffer")]
    LostEvents {
        /// The line's number, from 1.
        line: u64,
        /// The kernel's words.
        found: String,
    },
    /// A packet of a Perfetto trace that cannot be read.
    #[error("packet {packet}: found '{found}', expected {expected}")]
    Packet {
        /// The packet's number, from 1.
        packet: u64,
        /// The text found, cut to a readable length.
        found: String,
        /// What was expected there.
        expected: String,
    },
    /// A required part is missing.
    #[error("{what} is missing")]
    Missing {
        /// The part.
        what: String,
    },
    /// The file cannot be read or the output cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// The file, or what was being done.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// The most of a bad line that an error repeats.
const SHOWN: usize = 120;

impl TraceError {
    /// A malformed line; `found` is cut to a length a person can read.
    pub(crate) fn malformed(line: u64, found: &str, expected: impl Into<String>) -> Self {
        Self::Malformed { line, found: shorten(found), expected: expected.into() }
    }

    /// A packet that cannot be read.
    pub(crate) fn packet(packet: u64, found: &str, expected: &str) -> Self {
        Self::Packet { packet, found: shorten(found), expected: expected.to_owned() }
    }

    /// Lost events.
    pub(crate) fn lost(line: u64, found: &str) -> Self {
        Self::LostEvents { line, found: shorten(found) }
    }
}

fn shorten(text: &str) -> String {
    let mut shown: String = text.trim().chars().take(SHOWN).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.trim().chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
