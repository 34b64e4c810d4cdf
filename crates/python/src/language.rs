//! The language of workloads: rt-app's JSON with extensions.

use pyo3::prelude::*;
use schedlab_model::Workload;
use schedlab_program::Program;
use schedlab_workloads::rtapp;

use crate::errors;

/// Reads a file's text, rt-app's JSON or the model's own: the workload as JSON, checked and complete, and what of the file does not
/// act. `name` is the workload's where the file does not say it.
#[pyfunction]
pub fn read_workload(text: &str, name: &str) -> PyResult<(String, Vec<String>)> {
    let imported = rtapp::read(text, name).map_err(errors::input)?;
    Program::compile(&imported.workload).map_err(errors::input)?;
    let json = serde_json::to_string(&imported.workload).map_err(errors::json("workload"))?;
    Ok((json, imported.notes))
}

/// Writes a workload, given as the model's JSON, as rt-app's.
#[pyfunction]
pub fn export_workload(workload: &str) -> PyResult<String> {
    let workload: Workload = serde_json::from_str(workload).map_err(errors::json("workload"))?;
    Ok(rtapp::export(&workload))
}

/// The JSON Schema of the language.
#[pyfunction]
pub fn workload_schema() -> String {
    rtapp::schema()
}
