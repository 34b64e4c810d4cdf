//! The form of an answer: a head in JSON and flat arrays behind it.
//!
//! ```text
//! u32  length of the head in bytes, little endian, as all numbers are
//! u32  zero
//! head JSON; its "arrays" lists each array as [name, type, count], type one of f64, u32, u16, u8
//! …    spaces up to a multiple of 8
//! each array in turn, padded to a multiple of 8 bytes
//! ```

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A message in the making.
#[derive(Debug)]
pub struct Message {
    head: Value,
    listed: Vec<Value>,
    body: Vec<u8>,
}

impl Message {
    /// A message with the head `head`, an object, and no arrays yet.
    pub fn new(head: Value) -> Self {
        Self { head, listed: Vec::new(), body: Vec::new() }
    }

    fn add(&mut self, name: &str, kind: &str, count: usize, bytes: impl Iterator<Item = u8>) {
        self.listed.push(json!([name, kind, count]));
        self.body.extend(bytes);
        self.body.resize(self.body.len().next_multiple_of(8), 0);
    }

    /// Adds an array of floating-point numbers.
    pub fn f64s(&mut self, name: &str, values: &[f64]) {
        self.add(name, "f64", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    /// Adds an array of 32-bit numbers.
    pub fn u32s(&mut self, name: &str, values: &[u32]) {
        self.add(name, "u32", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    /// Adds an array of 16-bit numbers.
    pub fn u16s(&mut self, name: &str, values: &[u16]) {
        self.add(name, "u16", values.len(), values.iter().flat_map(|value| value.to_le_bytes()));
    }

    /// Adds an array of bytes.
    pub fn u8s(&mut self, name: &str, values: &[u8]) {
        self.add(name, "u8", values.len(), values.iter().copied());
    }

    /// The message as it is handed over.
    pub fn into_bytes(mut self) -> Vec<u8> {
        if let Some(head) = self.head.as_object_mut() {
            head.insert("arrays".to_owned(), Value::Array(self.listed));
        }
        let mut head = self.head.to_string().into_bytes();
        head.resize(head.len().next_multiple_of(8), b' ');
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        [&length.to_le_bytes(), &[0; 4], head.as_slice(), self.body.as_slice()].concat()
    }
}

/// An array of a message that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Floating-point numbers.
    F64(Vec<f64>),
    /// Whole numbers of any width.
    Whole(Vec<u32>),
}

impl Array {
    /// The floating-point numbers; none for an array of whole ones.
    pub fn f64s(&self) -> &[f64] {
        if let Self::F64(values) = self { values } else { &[] }
    }

    /// The whole numbers; none for an array of floating-point ones.
    pub fn whole(&self) -> &[u32] {
        if let Self::Whole(values) = self { values } else { &[] }
    }
}

/// Reads a message: its head and its arrays by name; nothing if it is none.
pub fn read(message: &[u8]) -> Option<(Value, BTreeMap<String, Array>)> {
    let length = u32::from_le_bytes(message.get(..4)?.try_into().ok()?) as usize;
    let head: Value = serde_json::from_slice(message.get(8..8 + length)?).ok()?;
    let mut rest = message.get(8 + length..)?;
    let mut arrays = BTreeMap::new();
    for row in head["arrays"].as_array()? {
        let (name, kind, count) = (row[0].as_str()?, row[1].as_str()?, usize::try_from(row[2].as_u64()?).ok()?);
        let width = match kind {
            "f64" => 8,
            "u32" => 4,
            "u16" => 2,
            _ => 1,
        };
        let values = rest.get(..count * width)?.chunks_exact(width);
        let array = match width {
            8 => Array::F64(values.filter_map(|bytes| bytes.try_into().ok().map(f64::from_le_bytes)).collect()),
            _ => Array::Whole(
                values.map(|bytes| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))).collect(),
            ),
        };
        arrays.insert(name.to_owned(), array);
        rest = rest.get((count * width).next_multiple_of(8)..)?;
    }
    Some((head, arrays))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back_and_lie_on_multiples_of_eight() {
        let mut message = Message::new(json!({"one": 1}));
        message.u8s("bytes", &[1, 2, 255]);
        message.u16s("shorts", &[258]);
        message.f64s("times", &[0.5, -1.0]);
        message.u32s("words", &[7, u32::MAX]);
        let bytes = message.into_bytes();
        assert_eq!(bytes.len() % 8, 0);
        let (head, arrays) = read(&bytes).unwrap();
        assert_eq!(head["one"], 1);
        assert_eq!(arrays["bytes"], Array::Whole(vec![1, 2, 255]));
        assert_eq!(arrays["shorts"], Array::Whole(vec![258]));
        assert_eq!(arrays["times"], Array::F64(vec![0.5, -1.0]));
        assert_eq!(arrays["words"], Array::Whole(vec![7, u32::MAX]));
    }
}
