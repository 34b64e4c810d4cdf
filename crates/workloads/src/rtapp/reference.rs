//! The reference of the language as tables of Markdown, from its table of words.

use std::fmt::Write;

use super::event_words::EVENTS;
use super::words::{Form, GLOBAL, PHASE, ROOT, SCHEDULING, TASK, Word};

/// The tables of `docs/reference/workloads.md`.
///
/// ```
/// assert!(schedlab_workloads::rtapp::reference().contains("| `sem_wait` |"));
/// ```
pub fn reference() -> String {
    let mut out = String::new();
    events(&mut out, "Events that rt-app knows", false);
    events(&mut out, "Events beyond rt-app", true);
    for (title, words) in [
        ("The file", ROOT),
        ("`global`", GLOBAL),
        ("A task", TASK),
        ("A phase", PHASE),
        ("A task or a phase", SCHEDULING),
    ] {
        // Writing to a text never fails.
        let _ = writeln!(
            out,
            "### {title}\n\n| Key | Takes | Means | Simulated | On a real kernel |\n|---|---|---|---|---|"
        );
        words.iter().for_each(|word| row(&mut out, word));
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn events(out: &mut String, title: &str, extension: bool) {
    let _ =
        writeln!(out, "### {title}\n\n| Event | Takes | Means | Simulated | On a real kernel |\n|---|---|---|---|---|");
    EVENTS.iter().filter(|word| word.extension == extension).for_each(|word| row(out, word));
    out.push('\n');
}

fn row(out: &mut String, word: &Word) {
    let Word { name, form, meaning, simulated, native, extension } = word;
    let from = if *extension && EVENTS.iter().all(|event| event.name != *name) { " (extension)" } else { "" };
    let _ = writeln!(out, "| `{name}` | {} | {meaning}{from} | {simulated} | {native} |", takes(*form));
}

fn takes(form: Form) -> String {
    match form {
        Form::Duration => "µs, a text with a unit, or a distribution".to_owned(),
        Form::Time => "µs, or a text with a unit".to_owned(),
        Form::Seconds => "seconds, or a text with a unit".to_owned(),
        Form::Count(low, i64::MAX) => format!("a number, {low} or more"),
        Form::Count(low, high) => format!("a number, {low} to {high}"),
        Form::Text => "a text".to_owned(),
        Form::Maybe => "a text or nothing".to_owned(),
        Form::Switch => "`true` or `false`".to_owned(),
        Form::Numbers => "a list of numbers".to_owned(),
        Form::Texts => "a list of texts".to_owned(),
        Form::OneOf(choices) => choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", "),
        Form::Object(fields) => {
            let name = |(key, _): &(&str, Form)| match key.strip_prefix('!') {
                Some(key) => format!("`{key}`"),
                None => format!("[`{key}`]"),
            };
            format!("an object: {}", fields.iter().map(name).collect::<Vec<_>>().join(", "))
        }
        Form::Either(one, other) => format!("{}; or {}", takes(*one), takes(*other)),
        Form::Events => "an object of events and `loop`".to_owned(),
        Form::Phases => "an object of phases".to_owned(),
        Form::Named(_) => "an object of objects".to_owned(),
        Form::Any => "anything".to_owned(),
    }
}
