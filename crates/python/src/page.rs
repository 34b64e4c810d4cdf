//! What the live page asks of its module, asked natively.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::background;

/// Answers a request of the live page: the same bytes as the page's WebAssembly module gives.
#[pyfunction]
pub fn answer_page<'py>(py: Python<'py>, request: Vec<u8>) -> PyResult<Bound<'py, PyBytes>> {
    let answer = background::run(py, move |_| schedlab_web::answer(&request))?;
    Ok(PyBytes::new(py, &answer))
}
