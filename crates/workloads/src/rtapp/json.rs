//! JSON as rt-app's users write it.
//!
//! What json-c reads and what `workgen` makes of a file before: comments, commas before a closing bracket, repeated keys
//! (both count, in their order), a key without a value (`"suspend",`), texts in single quotes. Errors name line and column.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use schedlab_model::Time;

/// How deep objects and arrays may be nested (json-c's own limit is 32).
const MAX_DEPTH: u32 = 160;

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// What it is.
    pub kind: Kind,
    /// Its line and column, from 1.
    pub(crate) at: (u32, u32),
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `null`, or nothing at all after a key.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it was written.
    Number(String),
    /// A text.
    Text(String),
    /// Values in order.
    Array(Vec<Value>),
    /// Keys with their values in order; a key may be there more than once.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// A value that comes from no file.
    pub fn new(kind: Kind) -> Self {
        Self { kind, at: (0, 0) }
    }

    /// What it is, for refusals.
    pub(crate) fn name(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Bool(value) => value.to_string(),
            Kind::Number(number) => number.clone(),
            Kind::Text(text) => format!("\"{text}\""),
            Kind::Array(_) => "an array".to_owned(),
            Kind::Object(_) => "an object".to_owned(),
        }
    }
}

/// Reads one value with nothing behind it.
///
/// # Errors
/// One line: where, what was found, what was expected.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text.chars().peekable(), line: 1, column: 1 };
    reader.skip()?;
    let value = reader.value(0)?;
    reader.skip()?;
    match reader.rest.peek() {
        None => Ok(value),
        Some(_) => Err(reader.expected("the end of the file")),
    }
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: u32,
    column: u32,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        if letter == '\n' {
            (self.line, self.column) = (self.line.saturating_add(1), 1);
        } else {
            self.column = self.column.saturating_add(1);
        }
        Some(letter)
    }

    fn take(&mut self, letter: char) -> bool {
        let found = self.rest.peek() == Some(&letter);
        if found {
            self.next();
        }
        found
    }

    fn expected(&mut self, what: &str) -> String {
        let found = match self.rest.peek() {
            None => "the end of the file".to_owned(),
            Some(letter) => format!("{letter:?}"),
        };
        format!("line {}, column {}: expected {what}, found {found}", self.line, self.column)
    }

    /// Over white space and comments.
    fn skip(&mut self) -> Result<(), String> {
        loop {
            match self.rest.peek() {
                Some(letter) if letter.is_whitespace() || *letter == '\u{feff}' => {
                    self.next();
                }
                Some('/') => {
                    let (line, column) = (self.line, self.column);
                    self.next();
                    if self.take('/') {
                        while self.next().is_some_and(|letter| letter != '\n') {}
                    } else if self.take('*') {
                        let mut star = false;
                        loop {
                            match self.next() {
                                Some('/') if star => break,
                                Some(letter) => star = letter == '*',
                                None => return Err(format!("line {line}, column {column}: the comment has no end")),
                            }
                        }
                    } else {
                        return Err(self.expected("a comment after '/'"));
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value, String> {
        let at = (self.line, self.column);
        if depth > MAX_DEPTH {
            return Err(format!("line {}, column {}: nested deeper than {MAX_DEPTH}", at.0, at.1));
        }
        let kind = match self.rest.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"' | '\'') => Kind::Text(self.text()?),
            Some(letter) if letter.is_ascii_digit() || *letter == '-' => Kind::Number(self.number()),
            Some(letter) if letter.is_ascii_alphabetic() => self.word()?,
            _ => return Err(self.expected("a value")),
        };
        Ok(Value { kind, at })
    }

    fn object(&mut self, depth: u32) -> Result<Kind, String> {
        self.next();
        let mut entries = Vec::new();
        loop {
            self.skip()?;
            if self.take('}') {
                return Ok(Kind::Object(entries));
            }
            if !matches!(self.rest.peek(), Some('"' | '\'')) {
                return Err(self.expected("a key in quotes or '}'"));
            }
            let at = (self.line, self.column);
            let key = self.text()?;
            self.skip()?;
            let value = if self.take(':') {
                self.skip()?;
                self.value(depth + 1)?
            } else if matches!(self.rest.peek(), Some(',' | '}')) {
                Value { kind: Kind::Null, at }
            } else {
                return Err(self.expected("':'"));
            };
            entries.push((key, value));
            self.skip()?;
            if !self.take(',') && self.rest.peek() != Some(&'}') {
                return Err(self.expected("',' or '}'"));
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<Kind, String> {
        self.next();
        let mut values = Vec::new();
        loop {
            self.skip()?;
            if self.take(']') {
                return Ok(Kind::Array(values));
            }
            values.push(self.value(depth + 1)?);
            self.skip()?;
            if !self.take(',') && self.rest.peek() != Some(&']') {
                return Err(self.expected("',' or ']'"));
            }
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let (line, column) = (self.line, self.column);
        let quote = self.next();
        let mut text = String::new();
        loop {
            let letter = self.next();
            match letter {
                None => return Err(format!("line {line}, column {column}: the text has no end")),
                _ if letter == quote => return Ok(text),
                Some('\\') => text.push(self.escaped()?),
                Some(letter) => text.push(letter),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let (line, column) = (self.line, self.column);
        let wrong = |what: &str| format!("line {line}, column {column}: {what}");
        Ok(match self.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(letter @ ('"' | '\'' | '\\' | '/')) => letter,
            Some('u') => {
                let high = self.hexadecimal().ok_or_else(|| wrong("\\u needs four hexadecimal digits"))?;
                if !(0xd800..0xdc00).contains(&high) {
                    return char::from_u32(high).ok_or_else(|| wrong("half a surrogate pair"));
                }
                let low = if self.take('\\') && self.take('u') { self.hexadecimal() } else { None };
                let low =
                    low.filter(|low| (0xdc00..0xe000).contains(low)).ok_or_else(|| wrong("half a surrogate pair"))?;
                char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                    .ok_or_else(|| wrong("half a surrogate pair"))?
            }
            _ => return Err(wrong("there is no such escape")),
        })
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let mut value = 0;
        for _ in 0..4 {
            value = value * 16 + self.next()?.to_digit(16)?;
        }
        Some(value)
    }

    fn number(&mut self) -> String {
        let mut number = String::new();
        while let Some(letter) = self.rest.peek().copied() {
            if !(letter.is_ascii_digit() || "+-.eE".contains(letter)) {
                break;
            }
            number.push(letter);
            self.next();
        }
        number
    }

    fn word(&mut self) -> Result<Kind, String> {
        let (line, column) = (self.line, self.column);
        let mut word = String::new();
        while let Some(letter) = self.rest.peek().copied().filter(char::is_ascii_alphanumeric) {
            word.push(letter.to_ascii_lowercase());
            self.next();
        }
        match word.as_str() {
            "true" => Ok(Kind::Bool(true)),
            "false" => Ok(Kind::Bool(false)),
            "null" => Ok(Kind::Null),
            _ => Err(format!("line {line}, column {column}: expected a value, found '{word}'")),
        }
    }
}

/// Writes a value as strict JSON: two spaces a level, a repeated key with a number behind it, as `workgen` does.
///
/// Read back it is the same but for those numbers.
pub fn write(value: &Value) -> String {
    let mut text = String::new();
    put(value, 0, &mut text);
    text.push('\n');
    text
}

fn put(value: &Value, level: usize, out: &mut String) {
    // Writing to a text never fails.
    let indent = |level: usize| "  ".repeat(level);
    match &value.kind {
        Kind::Null => out.push_str("null"),
        Kind::Bool(value) => {
            let _ = write!(out, "{value}");
        }
        Kind::Number(number) => out.push_str(number),
        Kind::Text(text) => put_text(text, out),
        Kind::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                put(value, level + 1, out);
            }
            out.push(']');
        }
        Kind::Object(entries) if entries.is_empty() => out.push_str("{}"),
        Kind::Object(entries) => {
            out.push_str("{\n");
            let mut names = Names::new(entries);
            for (index, (key, value)) in entries.iter().enumerate() {
                let name = names.unlike_others(key);
                out.push_str(&indent(level + 1));
                put_text(&name, out);
                out.push_str(": ");
                put(value, level + 1, out);
                out.push_str(if index + 1 < entries.len() { ",\n" } else { "\n" });
            }
            out.push_str(&indent(level));
            out.push('}');
        }
    }
}

/// Names for keys that may be repeated.
struct Names<'a> {
    given: HashSet<&'a str>,
    used: HashSet<String>,
    last: HashMap<&'a str, u32>,
}

impl<'a> Names<'a> {
    fn new(entries: &'a [(String, Value)]) -> Self {
        let given = entries.iter().map(|(key, _)| key.as_str()).collect();
        Self { given, used: HashSet::new(), last: HashMap::new() }
    }

    /// The key itself the first time, with a number behind it after that, like no other key.
    fn unlike_others(&mut self, key: &'a str) -> String {
        let mut name = key.to_owned();
        while !self.used.insert(name.clone()) || (name != key && self.given.contains(name.as_str())) {
            let last = self.last.entry(key).or_insert(0);
            *last += 1;
            name = format!("{key}{last}");
        }
        name
    }
}

fn put_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            letter if letter < ' ' => {
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// A text.
pub(crate) fn text(value: &str) -> Value {
    Value::new(Kind::Text(value.to_owned()))
}

/// A number, as it is written.
pub(crate) fn number(value: &str) -> Value {
    Value::new(Kind::Number(value.to_owned()))
}

/// A whole number.
pub(crate) fn count(value: u64) -> Value {
    number(&value.to_string())
}

/// An object of these entries, in order.
pub(crate) fn object(entries: Vec<(String, Value)>) -> Value {
    Value::new(Kind::Object(entries))
}

/// Whole microseconds, or a text with the unit.
pub(crate) fn time(value: Time) -> Value {
    if value.as_nanos().is_multiple_of(1000) { count(value.as_nanos() / 1000) } else { text(&value.to_string()) }
}
