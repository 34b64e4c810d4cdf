//! Errors in data that a user wrote.

use thiserror::Error;

/// Everything that this crate refuses, each with what was found and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    /// A time without a unit, with an unknown one, negative, or too large for 64 bits of nanoseconds.
    #[error("'{found}' is not a time: {why} (write a number and a unit: ns, us, ms or s, as in 20ms)")]
    Time {
        /// The text as it was given.
        found: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A kernel release that is not of the form `major.minor[.patch]`, or one before every known series.
    #[error("'{found}' is not a kernel release schedlab knows: {why}")]
    Release {
        /// The text as it was given.
        found: String,
        /// What is wrong with it.
        why: String,
    },
    /// A knob name that no kernel has.
    #[error("no scheduler knob is called '{found}'{suggestion}; known: {known}")]
    UnknownKnob {
        /// The name as it was given.
        found: String,
        /// A near name, as a half-sentence, or nothing.
        suggestion: String,
        /// All names.
        known: String,
    },
    /// A knob that exists, but not in this release.
    #[error("kernel {release} has no knob '{name}': {instead}")]
    KnobNotInRelease {
        /// The knob's name.
        name: String,
        /// The release asked for.
        release: String,
        /// What replaces the knob, or since when it exists.
        instead: String,
    },
    /// A knob's value of the wrong form or outside its range.
    #[error("knob '{name}' = '{found}': {why}")]
    KnobValue {
        /// The knob's name.
        name: String,
        /// The value as it was given.
        found: String,
        /// What is allowed.
        why: String,
    },
    /// A rule that cannot be switched on or off as asked.
    #[error("rule '{name}': {why}")]
    Rule {
        /// The rule's name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A workload that cannot run as written.
    #[error("workload '{workload}', {place}: {why}")]
    Workload {
        /// The workload's name.
        workload: String,
        /// Where in it (a task, a step).
        place: String,
        /// What was found and what is allowed.
        why: String,
    },
    /// A policy name or priority that Linux does not have.
    #[error("'{found}' is not a scheduling policy: {why}")]
    Policy {
        /// The text as it was given.
        found: String,
        /// What is allowed.
        why: String,
    },
    /// An unknown rule of thread weights, or one with an impossible factor.
    #[error("'{found}' is not a rule of thread weights: {why}")]
    ThreadWeights {
        /// The text as it was given.
        found: String,
        /// What is allowed.
        why: String,
    },
    /// An invalid group of tasks, or an invalid setting of one.
    #[error("group: {0}")]
    Group(String),
    /// A machine that cannot be simulated.
    #[error("machine: {0}")]
    Machine(String),
}
