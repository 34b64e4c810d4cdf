//! What holds in every trace.

use std::path::PathBuf;

use pyo3::prelude::*;
use schedlab_model::Time;

use crate::{background, errors};

/// Checks a trace for what no scheduler may do, and returns what came out as JSON; a task may wait beside an idle CPU for `bound`,
/// such as `10ms`.
#[pyfunction]
pub fn check_invariants(py: Python<'_>, trace: PathBuf, bound: &str) -> PyResult<String> {
    let bound: Time = bound.parse().map_err(errors::input)?;
    let file = trace.display().to_string();
    let checked = background::run(py, move |_| schedlab_replay::check_invariants_of_file(&trace, bound))?;
    let checked = checked.map_err(|error| match error.to_string() {
        // What cannot be opened is named already.
        text if text.starts_with(&file) => errors::input(text),
        text => errors::input(format!("{file}: {text}")),
    })?;
    serde_json::to_string(&checked).map_err(errors::json("check"))
}
