//! Errors in a workload's text.

use thiserror::Error;

/// What is wrong with the text that names a workload.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// No builder has this name.
    #[error("no workload is called '{found}'; known: {known} (or a file of a workload)")]
    UnknownWorkload {
        /// The name as it was given.
        found: String,
        /// All names.
        known: String,
    },
    /// The builder has no key of this name.
    #[error("workload '{workload}' has no key '{found}'; known: {known}")]
    UnknownKey {
        /// The builder.
        workload: &'static str,
        /// The key as it was given.
        found: String,
        /// All keys with what they take.
        known: String,
    },
    /// A key was given twice.
    #[error("workload '{workload}': key '{key}' is given twice")]
    KeyTwice {
        /// The builder.
        workload: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A value of the wrong form or out of its range.
    #[error("workload '{workload}', {key} = '{found}' {why}")]
    Value {
        /// The builder.
        workload: &'static str,
        /// The key.
        key: &'static str,
        /// The value as it was given.
        found: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// A text that is not JSON, or not a workload.
    #[error("not a workload: {why}")]
    Text {
        /// Where, what was found, and what was expected.
        why: String,
    },
    /// An error in a file of rt-app's language, with its place.
    #[error("{place} (line {line}, column {column}): {why}")]
    RtApp {
        /// The keys that lead there.
        place: String,
        /// The line, from 1.
        line: u32,
        /// The column, from 1.
        column: u32,
        /// What was found and what is allowed.
        why: String,
    },
    /// Values that are each in range, but not together.
    #[error("workload '{workload}': {why}")]
    Together {
        /// The builder.
        workload: &'static str,
        /// What is wrong, and what is allowed.
        why: String,
    },
}
