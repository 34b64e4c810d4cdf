//! A recorded kernel's decisions against the rules.

use std::path::PathBuf;

use pyo3::prelude::*;
use schedlab_model::Release;
use schedlab_replay::{Level, Options};

use crate::{background, errors, reasons};

/// Replays a recording of one CPU and returns the comparison as JSON, with `exact` beside it: whether everything was equal.
#[pyfunction]
///
/// Both schedules, the kernel's and ours, are written to `perfetto` if it is given, and our decisions with their reasons to `decisions`, as
/// JSON lines where `json_lines` is true.
#[pyo3(signature = (trace, snapshot=None, release=None, level=None, *, perfetto=None, decisions=None, json_lines=false))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub fn replay(
    py: Python<'_>,
    trace: PathBuf,
    snapshot: Option<PathBuf>,
    release: Option<&str>,
    level: Option<&str>,
    perfetto: Option<PathBuf>,
    decisions: Option<PathBuf>,
    json_lines: bool,
) -> PyResult<String> {
    let release: Option<Release> = release.map(str::parse).transpose().map_err(errors::input)?;
    let level: Option<Level> = level.map(str::parse).transpose().map_err(errors::input)?;
    let file = trace.display().to_string();
    let explains = decisions.is_some();
    let report = background::run(py, move |_| {
        let options = Options { snapshot: snapshot.as_deref(), release, level, reasons: explains };
        schedlab_replay::replay_file(&trace, &options)
    })?;
    let mut report = report.map_err(|error| match error.to_string() {
        // What cannot be opened is named already.
        text if text.starts_with(&file) => errors::input(text),
        text => errors::input(format!("{file}: {text}")),
    })?;
    if let Some(path) = perfetto {
        let (schedules, release) = (std::mem::take(&mut report.schedules), report.release.clone());
        background::run(py, move |_| schedules.save(&path, &release))?.map_err(errors::input)?;
    }
    if let Some(path) = decisions {
        // A recorded kernel's rules are its own.
        reasons::write(&path, json_lines, None, &report.reasons, &|candidate| report.name_of(candidate))
            .map_err(|error| errors::input(format!("{}: {error}", path.display())))?;
    }
    let mut value = serde_json::to_value(&report).map_err(errors::json("report"))?;
    if let Some(object) = value.as_object_mut() {
        object.insert("exact".to_owned(), report.is_exact().into());
    }
    Ok(value.to_string())
}
