//! The text `name:key=value,…`: one table of what each builder takes, for parsing, refusals and `--help`.

use std::num::IntErrorKind;

use schedlab_model::{Time, Workload};

use crate::{Aio, Copy, Hackbench, Hogs, Http, Mixed, Periodic, Pi, PingPong, Schbench, Sleepers, WorkloadError};

/// A built-in workload as people name it.
#[derive(Debug, Clone, Copy)]
pub struct Builder {
    /// The name before the colon.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// The keys it takes; all have a default.
    pub keys: &'static [Key],
    build: fn(&Values) -> Result<Workload, WorkloadError>,
}

/// One key of a builder.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: KeyKind,
    /// What it is where it is not given, as text.
    pub default: &'static str,
    /// What it says, in a sentence.
    pub summary: &'static str,
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A whole number.
    Count {
        /// Least.
        low: u64,
        /// Greatest.
        high: u64,
    },
    /// A number of bytes, in whole bytes or with `k`, `m` or `g` for KiB, MiB and GiB.
    Bytes {
        /// Least.
        low: u64,
        /// Greatest.
        high: u64,
    },
    /// A time with its unit.
    Time {
        /// Least.
        low: Time,
        /// Greatest.
        high: Time,
    },
    /// 0 or 1; the key alone means 1.
    Switch,
}

impl std::fmt::Display for KeyKind {
    /// What is allowed, for refusals and `--help`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count { low, high } => write!(formatter, "{low} to {high}"),
            Self::Bytes { low, high } => write!(formatter, "{} to {} bytes", BytesText(*low), BytesText(*high)),
            Self::Time { low, high } => write!(formatter, "{low} to {high}"),
            Self::Switch => formatter.write_str("0 or 1"),
        }
    }
}

/// The units of bytes, as fio writes them: powers of 1024, in either case.
const UNITS: [(char, u32); 4] = [('k', 10), ('m', 20), ('g', 30), ('t', 40)];

/// The number of bytes that `text` says: `65536`, `64k`. What is too large to be counted is `u64::MAX`, which no key allows.
fn bytes(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find(|(letter, _)| text.ends_with([*letter, letter.to_ascii_uppercase()]));
    let (digits, shift) = unit.map_or((text, 0), |(_, shift)| (&text[..text.len() - 1], *shift));
    match digits.parse::<u64>() {
        Ok(number) => Some(number.saturating_mul(1 << shift)),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(u64::MAX),
        Err(_) => None,
    }
}

/// A number of bytes in the largest unit that divides it.
struct BytesText(u64);

impl std::fmt::Display for BytesText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let divides = |(_, shift): &&(char, u32)| self.0 > 0 && self.0.trailing_zeros() >= *shift;
        match UNITS.iter().rev().find(divides) {
            Some((letter, shift)) => write!(formatter, "{}{letter}", self.0 >> shift),
            None => write!(formatter, "{}", self.0),
        }
    }
}

/// Every built-in workload.
pub const BUILDERS: &[Builder] = &[
    Builder {
        name: "hackbench",
        summary: "groups of senders that spray messages at receivers, as rt-tests' hackbench",
        keys: Hackbench::KEYS,
        build: |values| Hackbench::from_values(values).build(),
    },
    Builder {
        name: "pipe",
        summary: "two tasks that send one byte to and fro over two channels",
        keys: PingPong::KEYS,
        build: |values| PingPong::from_values(values).build(),
    },
    Builder {
        name: "hogs",
        summary: "tasks that compute and never sleep",
        keys: Hogs::KEYS,
        build: |values| Hogs::from_values(values).build(),
    },
    Builder {
        name: "sleepers",
        summary: "tasks that compute a little in each period and sleep for the rest of it",
        keys: Sleepers::KEYS,
        build: |values| Sleepers::from_values(values).build(),
    },
    Builder {
        name: "pi",
        summary: "Monte-Carlo π: tasks that only compute",
        keys: Pi::KEYS,
        build: |values| Pi::from_values(values).build(),
    },
    Builder {
        name: "copy",
        summary: "files copied in blocks, opened for synchronous I/O",
        keys: Copy::KEYS,
        build: |values| Copy::from_values(values).build(),
    },
    Builder {
        name: "mixed",
        summary: "computing and synchronous I/O by turns",
        keys: Mixed::KEYS,
        build: |values| Mixed::from_values(values).build(),
    },
    Builder {
        name: "http",
        summary: "a server under a closed-loop client's requests",
        keys: Http::KEYS,
        build: |values| Http::from_values(values).build(),
    },
    Builder {
        name: "aio",
        summary: "random asynchronous writes to a large file, as aio-stress",
        keys: Aio::KEYS,
        build: |values| Aio::from_values(values).build(),
    },
    Builder {
        name: "schbench",
        summary: "message threads that wake workers, as schbench: latencies",
        keys: Schbench::KEYS,
        build: |values| Schbench::from_values(values).build(),
    },
    Builder {
        name: "periodic",
        summary: "periodic real-time tasks, drawn by UUniFast",
        keys: Periodic::KEYS,
        build: |values| Periodic::from_values(values).build(),
    },
];

/// Builds the workload that `text` names: `name` or `name:key=value,…`.
///
/// # Errors
/// [`WorkloadError`], naming the builder, the key, what was found and what is allowed.
pub fn parse(text: &str) -> Result<Workload, WorkloadError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let builder = BUILDERS.iter().find(|builder| builder.name == name.trim()).ok_or_else(|| {
        let known = BUILDERS.iter().map(|builder| builder.name).collect::<Vec<_>>().join(", ");
        WorkloadError::UnknownWorkload { found: name.to_owned(), known }
    })?;
    let mut values = Values { builder, given: vec![None; builder.keys.len()] };
    for pair in rest.split(',').filter(|pair| !pair.trim().is_empty()) {
        values.take(pair)?;
    }
    (builder.build)(&values)
}

impl Key {
    /// Reads a value; a switch is 0 or 1, a time its nanoseconds.
    fn read(&self, workload: &'static str, text: &str) -> Result<u64, WorkloadError> {
        let wrong = |why: String| WorkloadError::Value { workload, key: self.name, found: text.to_owned(), why };
        let value = match self.kind {
            KeyKind::Count { .. } => match text.parse::<u64>() {
                Ok(value) => value,
                Err(error) if *error.kind() == IntErrorKind::PosOverflow => u64::MAX,
                Err(_) => return Err(wrong(format!("is not a whole number; allowed: {}", self.kind))),
            },
            KeyKind::Bytes { .. } => {
                bytes(text).ok_or_else(|| wrong(format!("is not a number of bytes; allowed: {}", self.kind)))?
            }
            KeyKind::Time { .. } => {
                text.parse::<Time>().map_err(|error| wrong(format!("is refused: {error}")))?.as_nanos()
            }
            KeyKind::Switch => match text {
                "0" | "off" | "false" => 0,
                "1" | "on" | "true" => 1,
                _ => return Err(wrong("is not a switch; allowed: 0 or 1".to_owned())),
            },
        };
        if self.allows(value) { Ok(value) } else { Err(wrong(format!("is out of range; allowed: {}", self.kind))) }
    }

    fn allows(&self, value: u64) -> bool {
        match self.kind {
            KeyKind::Count { low, high } | KeyKind::Bytes { low, high } => (low..=high).contains(&value),
            KeyKind::Time { low, high } => (low..=high).contains(&Time::from_nanos(value)),
            KeyKind::Switch => value <= 1,
        }
    }

    /// Refuses a builder's field that is out of the range its key has in the table `keys`.
    pub(crate) fn check(
        workload: &'static str,
        keys: &'static [Self],
        name: &str,
        value: u64,
    ) -> Result<(), WorkloadError> {
        match keys.iter().find(|key| key.name == name && !key.allows(value)) {
            None => Ok(()),
            Some(key) => {
                let found = match key.kind {
                    KeyKind::Time { .. } => Time::from_nanos(value).to_string(),
                    KeyKind::Bytes { .. } => BytesText(value).to_string(),
                    _ => value.to_string(),
                };
                let why = format!("is out of range; allowed: {}", key.kind);
                Err(WorkloadError::Value { workload, key: key.name, found, why })
            }
        }
    }
}

/// The values of a builder's keys, checked one by one.
pub(crate) struct Values {
    builder: &'static Builder,
    given: Vec<Option<u64>>,
}

impl Values {
    fn take(&mut self, pair: &str) -> Result<(), WorkloadError> {
        let workload = self.builder.name;
        let (name, value) = match pair.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (pair.trim(), None),
        };
        let Some(index) = self.builder.keys.iter().position(|key| key.name == name) else {
            let known = self.builder.keys.iter().map(|key| format!("{} ({})", key.name, key.kind));
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(WorkloadError::UnknownKey { workload, found: name.to_owned(), known });
        };
        let key = &self.builder.keys[index];
        let value = match (key.kind, value) {
            (KeyKind::Switch, None) => "1",
            (_, value) => value.unwrap_or_default(),
        };
        if self.given[index].replace(key.read(workload, value)?).is_some() {
            return Err(WorkloadError::KeyTwice { workload, key: key.name });
        }
        Ok(())
    }

    /// The value of the key called `name`, or what `default` says.
    pub(crate) fn get(&self, name: &str, default: u64) -> u64 {
        let index = self.builder.keys.iter().position(|key| key.name == name);
        index.and_then(|index| self.given[index]).unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_may_have_units_of_1024() {
        for (text, expected) in [
            ("0", Some(0)),
            ("65536", Some(65_536)),
            ("64k", Some(65_536)),
            ("64K", Some(65_536)),
            ("3m", Some(3_145_728)),
            ("2g", Some(2_147_483_648)),
            ("1t", Some(1_099_511_627_776)),
            // Too large for 64 bits, either before or after the unit.
            ("99999999999999999999", Some(u64::MAX)),
            ("99999999999t", Some(u64::MAX)),
            ("", None),
            ("k", None),
            ("-1k", None),
            ("1.5m", None),
            ("64kk", None),
            ("64é", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn bytes_are_refused_in_their_units() {
        let refused = parse("aio:size=2k").unwrap_err().to_string();
        assert_eq!(refused, "workload 'aio', size = '2k' is out of range; allowed: 4k to 1t bytes");
        let refused = parse("aio:size=much").unwrap_err().to_string();
        assert_eq!(refused, "workload 'aio', size = 'much' is not a number of bytes; allowed: 4k to 1t bytes");
    }

    #[test]
    fn the_documented_defaults_are_the_real_ones() {
        for builder in BUILDERS {
            let spelled: Vec<String> = builder.keys.iter().map(|key| format!("{}={}", key.name, key.default)).collect();
            let spelled = format!("{}:{}", builder.name, spelled.join(","));
            assert_eq!(parse(&spelled).unwrap(), parse(builder.name).unwrap(), "{spelled}");
        }
    }
}
