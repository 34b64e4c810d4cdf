//! The one place where the crates' errors become Python's exceptions.

use std::fmt::Display;

use pyo3::PyErr;
use schedlab_sim::SimError;

pyo3::import_exception!(schedlab.boundary.errors, InputError);
pyo3::import_exception!(schedlab.boundary.errors, RunError);

/// The user's input is wrong: `schedlab.boundary.errors.InputError` with the error's own words.
pub fn input(error: impl Display) -> PyErr {
    InputError::new_err(error.to_string())
}

/// A text that must be JSON of a known shape is not.
pub fn json(what: &'static str) -> impl Fn(serde_json::Error) -> PyErr {
    move |error| InputError::new_err(format!("{what}: {error}"))
}

/// A simulation was refused (`InputError`), or did not finish (`schedlab.boundary.errors.RunError`).
pub fn simulation(error: SimError) -> PyErr {
    match error {
        SimError::Deadlock { .. } | SimError::TimeLimit { .. } | SimError::NoProgress { .. } => {
            RunError::new_err(error.to_string())
        }
        _ => InputError::new_err(error.to_string()),
    }
}
