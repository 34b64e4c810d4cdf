//! The language of workloads: rt-app's JSON, and what rt-app has no word for as further keys.
//!
//! [`import`] reads a file as rt-app (with `workgen` before it) does; [`export`] writes a workload so that [`import`] reads the same
//! workload back; [`rewrite`] writes a file as strict JSON that says the same. Words and their meanings stand in one table
//! ([`EVENTS`] and its like), from which the JSON Schema and the reference are made.

mod attributes;
mod event_words;
mod events;
mod json;
mod read;
mod reference;
mod scheduling;
mod schema;
mod steps;
mod value;
mod words;
mod write;

use schedlab_model::Workload;

use crate::WorkloadError;
pub use event_words::EVENTS;
pub use reference::reference;
pub use schema::schema;
pub use words::{Form, GLOBAL, PHASE, ROOT, SCHEDULING, TASK, Word};

/// A workload that was read, and what of its file does not act.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The workload.
    pub workload: Workload,
    /// What was read but does not act, and why, a line each; to be shown to the user.
    pub notes: Vec<String>,
}

/// Whether a text is meant as rt-app's JSON: an object whose `tasks` are an object, as an object of names to tasks is.
pub(crate) fn is_meant(root: &json::Value) -> bool {
    let json::Kind::Object(entries) = &root.kind else { return false };
    let tasks = entries.iter().find(|(key, _)| key == "tasks");
    tasks.is_none_or(|(_, tasks)| !matches!(tasks.kind, json::Kind::Array(_)))
}

/// Reads a workload from rt-app's JSON. `name` is what it is called where the file does not say it.
///
/// # Errors
/// [`WorkloadError::Text`] where it is no JSON, [`WorkloadError::RtApp`] for what the language does not have, with its place.
///
/// ```
/// use schedlab_workloads::rtapp::import;
/// let imported = import(r#"{"tasks": {"t": {"loop": 2, "run": 1000, "sleep": 4000,}}} // two rounds"#, "example")?;
/// assert_eq!(imported.workload.tasks[0].name, "t");
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
pub fn import(text: &str, name: &str) -> Result<Imported, WorkloadError> {
    let root = json::parse(text).map_err(|why| WorkloadError::Text { why })?;
    import_value(&root, name)
}

pub(crate) fn import_value(root: &json::Value, name: &str) -> Result<Imported, WorkloadError> {
    let mut notes = Vec::new();
    let workload = read::workload(root, name, &mut notes).map_err(|fault| {
        let (line, column) = fault.at;
        let place = if fault.place.is_empty() { "the file".to_owned() } else { fault.place };
        WorkloadError::RtApp { place: one_line(&place), line, column, why: one_line(&fault.why) }
    })?;
    Ok(Imported { workload, notes })
}

/// A text without control characters, which a file may hold anywhere.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Writes a workload as rt-app's JSON.
///
/// Every workload that compiles is read back as the same one. Where it needs no extension, rt-app runs it too.
///
/// ```
/// use schedlab_workloads::{parse, rtapp};
/// let workload = parse("pipe:loops=3")?;
/// assert_eq!(rtapp::import(&rtapp::export(&workload), "")?.workload, workload);
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
pub fn export(workload: &Workload) -> String {
    json::write(&write::document(workload))
}

/// Writes a file's text as strict JSON with nothing lost but comments and the order of spaces: repeated keys have a
/// number, as `workgen` gives them.
///
/// # Errors
/// [`WorkloadError::Text`] where it is no JSON.
pub fn rewrite(text: &str) -> Result<String, WorkloadError> {
    json::parse(text).map(|root| json::write(&root)).map_err(|why| WorkloadError::Text { why })
}

/// Reads a workload from a file's text: rt-app's JSON, or the model's own.
///
/// # Errors
/// As [`import`]'s.
pub fn read(text: &str, name: &str) -> Result<Imported, WorkloadError> {
    let root = json::parse(text).map_err(|why| WorkloadError::Text { why })?;
    if is_meant(&root) {
        return import_value(&root, name);
    }
    let json::Kind::Object(entries) = &root.kind else {
        let why = format!("found {}, expected an object with \"tasks\"", root.name());
        return Err(WorkloadError::Text { why });
    };
    if !entries.iter().any(|(key, _)| key == "tasks") {
        return Err(WorkloadError::Text { why: "the object has no \"tasks\"".to_owned() });
    }
    let workload = serde_json::from_str(text).map_err(|error| WorkloadError::Text { why: error.to_string() })?;
    Ok(Imported { workload, notes: Vec::new() })
}
