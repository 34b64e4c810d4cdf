//! CPU time that other tasks take while a real run goes on.

use pyo3::prelude::*;
use schedlab_model::{Disturbance, Watched};
use serde_json::json;

use crate::errors;

/// CPU time that other tasks took between two texts of `/proc/stat`, as JSON with a note or `null` for it; `null` where the texts do not
/// show it.
#[pyfunction]
pub fn disturbance(
    before: &str,
    after: &str,
    cpus: Vec<u32>,
    elapsed_ns: u64,
    own_ns: u64,
    hz: u32,
) -> PyResult<String> {
    let watched = Watched { cpus: &cpus, elapsed_ns, own_ns, hz };
    let found = Disturbance::between(before, after, watched);
    let told = found.map(|found| json!({ "disturbance": found, "note": found.note() }));
    serde_json::to_string(&told).map_err(errors::json("disturbance"))
}
