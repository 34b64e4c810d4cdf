//! What others take of the CPU time while something real runs.

use pyo3::prelude::*;
use schedlab_model::{Disturbance, Watched};
use serde_json::json;

use crate::errors;

/// What others took between two texts of `/proc/stat`, as JSON with a note or `null` for it; `null` where these do not tell.
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
