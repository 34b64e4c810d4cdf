//! The JSON Schema of the language, from its table of words.

use super::event_words::EVENTS;
use super::json::{Kind, Value, write};
use super::json::{number, object, text};
use super::words::{Form, GLOBAL, PHASE, ROOT, SCHEDULING, TASK, Word};

/// The JSON Schema (draft 2020-12) of files in strict JSON, as [`rewrite`](super::rewrite) makes them of any file.
///
/// ```
/// assert!(schedlab_workloads::rtapp::schema().contains("sem_post"));
/// ```
pub fn schema() -> String {
    let events = named(EVENTS.iter().map(|word| (pattern(word), described(word))).collect());
    let mut definitions = vec![("time".to_owned(), time("microseconds")), ("duration".to_owned(), duration())];
    definitions.push((
        "events".to_owned(),
        closed(vec![("loop".to_owned(), described(&PHASE[0]))], Some(events.clone()), "Events in their order."),
    ));
    definitions.push(("phase".to_owned(), closed(properties(&[PHASE, SCHEDULING]), Some(events.clone()), "A phase.")));
    definitions.push(("task".to_owned(), closed(properties(&[TASK, SCHEDULING]), Some(events), "A task.")));
    let mut root = vec![
        ("$schema".to_owned(), text("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), text("schedlab workload: rt-app's JSON with extensions")),
    ];
    let members: Vec<(String, Value)> = ROOT.iter().map(|word| (word.name.to_owned(), member(word))).collect();
    if let Kind::Object(entries) = closed(members, None, "").kind {
        root.extend(entries.into_iter().filter(|(key, _)| key != "description"));
    }
    root.push(("required".to_owned(), list(vec![text("tasks")])));
    root.push(("$defs".to_owned(), object(definitions)));
    write(&object(root))
}

fn list(values: Vec<Value>) -> Value {
    Value::new(Kind::Array(values))
}

fn named(entries: Vec<(String, Value)>) -> Value {
    object(entries)
}

fn one(key: &str, value: Value) -> Value {
    object(vec![(key.to_owned(), value)])
}

fn reference(name: &str) -> Value {
    one("$ref", text(&format!("#/$defs/{name}")))
}

fn a(kind: &str) -> Value {
    one("type", text(kind))
}

/// What a key at the top takes; those that hold named objects are written out here.
fn member(word: &Word) -> Value {
    let of = |value: Value| object(vec![("type".into(), text("object")), ("additionalProperties".into(), value)]);
    match word.name {
        "global" => closed(properties(&[GLOBAL]), None, word.meaning),
        "tasks" => of(reference("task")),
        _ => described(word),
    }
}

fn properties(words: &[&[Word]]) -> Vec<(String, Value)> {
    words.iter().flat_map(|words| words.iter().map(|word| (word.name.to_owned(), described(word)))).collect()
}

/// An object with these keys, and those that match these patterns, and no others.
fn closed(properties: Vec<(String, Value)>, patterns: Option<Value>, meaning: &str) -> Value {
    let mut entries = vec![
        ("type".to_owned(), text("object")),
        ("description".to_owned(), text(meaning)),
        ("properties".to_owned(), object(properties)),
    ];
    if let Some(patterns) = patterns {
        entries.push(("patternProperties".to_owned(), patterns));
    }
    entries.push(("additionalProperties".to_owned(), Value::new(Kind::Bool(false))));
    object(entries)
}

/// The keys that mean an event: its name with anything behind it that does not make it another's; with digits for an extension.
fn pattern(word: &Word) -> String {
    if word.extension {
        return format!("^{}[0-9_]*$", word.name);
    }
    let longer: Vec<&str> = EVENTS
        .iter()
        .filter(|other| other.name != word.name)
        .filter_map(|other| other.name.strip_prefix(word.name))
        .collect();
    match longer.is_empty() {
        true => format!("^{}", word.name),
        false => format!("^{}(?!{})", word.name, longer.join("|")),
    }
}

fn described(word: &Word) -> Value {
    let Kind::Object(mut entries) = form(word.form).kind else { return form(word.form) };
    let from = if word.extension { " (extension)" } else { "" };
    entries.insert(0, ("description".to_owned(), text(&format!("{}{from}", word.meaning))));
    object(entries)
}

fn time(unit: &str) -> Value {
    let whole = object(vec![("type".into(), text("integer")), ("minimum".into(), number("0"))]);
    let with_unit = object(vec![
        ("type".into(), text("string")),
        ("pattern".into(), text("^[0-9._]+ *(ns|us|ms|s)$")),
        ("description".into(), text(&format!("instead of whole {unit}"))),
    ]);
    one("anyOf", list(vec![whole, with_unit]))
}

fn duration() -> Value {
    let pair = object(vec![
        ("type".into(), text("array")),
        ("items".into(), reference("time")),
        ("minItems".into(), number("2")),
        ("maxItems".into(), number("2")),
    ]);
    let drawn = [("uniform", pair.clone()), ("exponential", reference("time")), ("normal", pair)];
    let drawn = drawn.into_iter().map(|(name, value)| {
        let mut entries = vec![("type".to_owned(), text("object"))];
        entries.push(("properties".into(), one(name, value)));
        entries.push(("required".into(), list(vec![text(name)])));
        entries.push(("additionalProperties".into(), Value::new(Kind::Bool(false))));
        object(entries)
    });
    one("anyOf", list(std::iter::once(reference("time")).chain(drawn).collect()))
}

fn form(form: Form) -> Value {
    match form {
        Form::Duration => reference("duration"),
        Form::Time => reference("time"),
        Form::Seconds => one("anyOf", list(vec![one("const", number("-1")), time("seconds")])),
        Form::Count(low, high) => {
            let mut entries =
                vec![("type".to_owned(), text("integer")), ("minimum".to_owned(), number(&low.to_string()))];
            if high < i64::MAX {
                entries.push(("maximum".to_owned(), number(&high.to_string())));
            }
            object(entries)
        }
        Form::Text => a("string"),
        Form::Maybe => one("type", list(vec![text("string"), text("null")])),
        Form::Switch => a("boolean"),
        Form::Numbers => object(vec![
            ("type".into(), text("array")),
            ("items".into(), self::form(Form::Count(0, i64::from(u32::MAX)))),
        ]),
        Form::Texts => object(vec![
            ("type".into(), text("array")),
            ("items".into(), self::form(Form::Text)),
            ("minItems".into(), number("1")),
        ]),
        Form::OneOf(choices) => one("enum", list(choices.iter().map(|choice| text(choice)).collect())),
        Form::Object(fields) => {
            let name = |key: &str| key.trim_start_matches('!').to_owned();
            let properties = fields.iter().map(|(key, form)| (name(key), self::form(*form))).collect();
            let required = fields.iter().filter(|(key, _)| key.starts_with('!')).map(|(key, _)| text(&name(key)));
            object(vec![
                ("type".into(), text("object")),
                ("properties".into(), object(properties)),
                ("required".into(), list(required.collect())),
                ("additionalProperties".into(), Value::new(Kind::Bool(false))),
            ])
        }
        Form::Either(one_form, other) => one("anyOf", list(vec![self::form(*one_form), self::form(*other)])),
        Form::Events => reference("events"),
        Form::Phases => {
            let phase = ("additionalProperties".to_owned(), reference("phase"));
            object(vec![("type".into(), text("object")), phase, ("minProperties".into(), number("1"))])
        }
        Form::Named(words) => {
            let inner = closed(properties(&[words]), None, "");
            object(vec![("type".into(), text("object")), ("additionalProperties".into(), inner)])
        }
        Form::Any => object(Vec::new()),
    }
}
