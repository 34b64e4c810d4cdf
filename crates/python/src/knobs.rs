//! The knob table and the known releases.

use pyo3::prelude::*;
use schedlab_model::{Release, ReleaseRow, knob_rows, release_rows};

use crate::errors;

/// Every knob as `release` has it on a machine of `cpus` CPUs, as a JSON array.
#[pyfunction]
pub fn knobs(release: &str, cpus: u32) -> PyResult<String> {
    let release: Release = release.parse().map_err(errors::input)?;
    serde_json::to_string(&knob_rows(release, cpus)).map_err(errors::json("knobs"))
}

/// What `text`, such as `6.1` or what `uname -r` prints, stands for, as a JSON object.
///
/// A release of an unknown series is refused unless it begins with `~` or `nearest` is true: then the nearest series stands in.
#[pyfunction]
#[pyo3(signature = (text, *, nearest=false))]
pub fn release(text: &str, nearest: bool) -> PyResult<String> {
    let release = if nearest { Release::or_nearest(text) } else { text.parse() }.map_err(errors::input)?;
    serde_json::to_string(&ReleaseRow::from(release)).map_err(errors::json("release"))
}

/// The newest known release of every known series, oldest first, as a JSON array.
#[pyfunction]
pub fn releases() -> PyResult<String> {
    serde_json::to_string(&release_rows()).map_err(errors::json("releases"))
}
