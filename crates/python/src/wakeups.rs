//! How long tasks wait from being woken until they run.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::{background, errors};

/// The times from wake-ups to running in a trace, as the JSON of their percentiles, or `null` without wake-ups. `end_ns` is when
/// the recorded run's runner ended it, by its kernel's `CLOCK_MONOTONIC`.
#[pyfunction]
#[pyo3(signature = (trace, end_ns = None))]
pub fn wakeup_latency(py: Python<'_>, trace: PathBuf, end_ns: Option<u64>) -> PyResult<String> {
    let file = trace.display().to_string();
    let latency = background::run(py, move |_| schedlab_replay::wakeup_latency_of_file(&trace, end_ns))?;
    let latency = latency.map_err(|error| match error.to_string() {
        // What cannot be opened is named already.
        text if text.starts_with(&file) => errors::input(text),
        text => errors::input(format!("{file}: {text}")),
    })?;
    serde_json::to_string(&latency).map_err(errors::json("latency"))
}
