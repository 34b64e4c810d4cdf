//! Values of the forms that keys take, and how they are refused.

use schedlab_model::{Duration, Time};

use super::json::{Kind, Value};

/// Where in a file something is wrong, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: (u32, u32),
    pub(crate) place: String,
    pub(crate) why: String,
}

/// A value with the keys that lead to it.
#[derive(Debug, Clone)]
pub(crate) struct Found<'a> {
    pub(crate) value: &'a Value,
    pub(crate) place: String,
}

impl<'a> Found<'a> {
    pub(crate) fn below(&self, key: &str, value: &'a Value) -> Self {
        let place = if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) };
        Self { value, place }
    }

    pub(crate) fn fault(&self, why: impl Into<String>) -> Fault {
        Fault { at: self.value.at, place: self.place.clone(), why: why.into() }
    }

    pub(crate) fn expected(&self, what: &str) -> Fault {
        self.fault(format!("expected {what}, found {}", self.value.name()))
    }

    pub(crate) fn object(&self) -> Result<Vec<(&'a str, Self)>, Fault> {
        match &self.value.kind {
            Kind::Object(entries) => {
                Ok(entries.iter().map(|(key, value)| (key.as_str(), self.below(key, value))).collect())
            }
            _ => Err(self.expected("an object")),
        }
    }

    pub(crate) fn text(&self) -> Result<&'a str, Fault> {
        match &self.value.kind {
            Kind::Text(text) => self.printable(text),
            _ => Err(self.expected("a text")),
        }
    }

    /// Names stand in messages of one line.
    pub(crate) fn printable(&self, text: &'a str) -> Result<&'a str, Fault> {
        if text.chars().any(char::is_control) {
            return Err(self.fault("a name has a control character in it"));
        }
        Ok(text)
    }

    pub(crate) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Fault> {
        let text = self.text()?;
        let chosen = choices.iter().find(|(name, _)| *name == text);
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.expected(&format!("one of {}", names.join(", ")))
        })
    }

    pub(crate) fn switch(&self) -> Result<bool, Fault> {
        match self.value.kind {
            Kind::Bool(value) => Ok(value),
            _ => Err(self.expected("true or false")),
        }
    }

    /// A whole number within bounds.
    pub(crate) fn count(&self, low: i64, high: i64) -> Result<i64, Fault> {
        let Kind::Number(number) = &self.value.kind else { return Err(self.expected("a whole number")) };
        let range = || {
            let high = if high == i64::MAX { "2^63 − 1".to_owned() } else { high.to_string() };
            self.fault(format!("{number} is out of range; allowed: {low} to {high}"))
        };
        match number.parse::<i64>() {
            Ok(value) if (low..=high).contains(&value) => Ok(value),
            Ok(_) => Err(range()),
            Err(error) => match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => Err(range()),
                _ => Err(self.expected("a whole number")),
            },
        }
    }

    pub(crate) fn numbers(&self) -> Result<Vec<u32>, Fault> {
        let Kind::Array(values) = &self.value.kind else { return Err(self.expected("a list of numbers")) };
        let number = |(index, value): (usize, &'a Value)| {
            self.below(&index.to_string(), value).count(0, i64::from(u32::MAX)).map(|number| number as u32)
        };
        values.iter().enumerate().map(number).collect()
    }

    /// A list of texts, at least one.
    pub(crate) fn texts(&self) -> Result<Vec<String>, Fault> {
        let Kind::Array(values) = &self.value.kind else { return Err(self.expected("a list of texts")) };
        if values.is_empty() {
            return Err(self.expected("a list of at least one text"));
        }
        let text = |(index, value): (usize, &'a Value)| self.below(&index.to_string(), value).text().map(str::to_owned);
        values.iter().enumerate().map(text).collect()
    }

    /// A time in units of so many nanoseconds, or a text with its unit.
    fn time_in(&self, unit: u64, name: &str) -> Result<Time, Fault> {
        if let Kind::Text(text) = &self.value.kind {
            return text.parse().map_err(|error: schedlab_model::ModelError| self.fault(error.to_string()));
        }
        let Kind::Number(number) = &self.value.kind else {
            return Err(self.expected(&format!("whole {name} or a text as \"1500ns\"")));
        };
        if number.starts_with('-') {
            return Err(self.fault(format!("{number} {name} is negative; allowed: 0 or more")));
        }
        let value = number.parse::<u64>().map_err(|error| match error.kind() {
            std::num::IntErrorKind::PosOverflow => {
                self.fault(format!("{number} {name} is too long (584 years at most)"))
            }
            _ => self.expected(&format!("whole {name} or a text as \"1500ns\"")),
        })?;
        value
            .checked_mul(unit)
            .map(Time::from_nanos)
            .ok_or_else(|| self.fault(format!("{number} {name} is too long (584 years at most)")))
    }

    pub(crate) fn time(&self) -> Result<Time, Fault> {
        self.time_in(1_000, "microseconds")
    }

    /// Seconds; none for −1, and for 0, as rt-app reads it.
    pub(crate) fn seconds(&self) -> Result<Option<Time>, Fault> {
        match &self.value.kind {
            Kind::Number(number) if number == "-1" => Ok(None),
            _ => Ok(Some(self.time_in(1_000_000_000, "seconds")?).filter(|time| *time > Time::ZERO)),
        }
    }

    pub(crate) fn duration(&self) -> Result<Duration, Fault> {
        let Kind::Object(entries) = &self.value.kind else { return Ok(Duration::Fixed(self.time()?)) };
        let form = r#"{"uniform": [LOW, HIGH]}, {"exponential": MEAN} or {"normal": [MEAN, DEVIATION]}"#;
        let [(name, value)] = &entries[..] else { return Err(self.expected(form)) };
        let inner = self.below(name, value);
        let pair = || match &value.kind {
            Kind::Array(values) if values.len() == 2 => {
                Ok((inner.below("0", &values[0]).time()?, inner.below("1", &values[1]).time()?))
            }
            _ => Err(inner.expected("two times")),
        };
        match name.as_str() {
            "uniform" => pair().map(|(low, high)| Duration::Uniform { low, high }),
            "exponential" => Ok(Duration::Exponential { mean: inner.time()? }),
            "normal" => pair().map(|(mean, deviation)| Duration::Normal { mean, deviation }),
            _ => Err(self.expected(form)),
        }
    }

    /// The values of an object's keys, each of which must be among `known`, and those that begin with `!` there.
    pub(crate) fn fields(&self, known: &[&str]) -> Result<Fields<'a>, Fault> {
        let entries = self.object()?;
        for (index, (key, found)) in entries.iter().enumerate() {
            if !known.iter().any(|name| name.trim_start_matches('!') == *key) {
                let names: Vec<&str> = known.iter().map(|name| name.trim_start_matches('!')).collect();
                return Err(found.fault(format!("there is no such key here; known: {}", names.join(", "))));
            }
            if entries[..index].iter().any(|(other, _)| other == key) {
                return Err(found.fault("the key is given twice"));
            }
        }
        for name in known.iter().filter_map(|name| name.strip_prefix('!')) {
            if !entries.iter().any(|(key, _)| *key == name) {
                return Err(self.fault(format!("'{name}' is missing")));
            }
        }
        Ok(Fields { entries })
    }
}

/// Values by key.
pub(crate) struct Fields<'a> {
    entries: Vec<(&'a str, Found<'a>)>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(entries: Vec<(&'a str, Found<'a>)>) -> Self {
        Self { entries }
    }

    /// The value of a key, the last where it is there more than once (as json-c keeps it).
    pub(crate) fn get(&self, key: &str) -> Option<&Found<'a>> {
        self.entries.iter().rev().find(|(known, _)| *known == key).map(|(_, found)| found)
    }

    pub(crate) fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Found<'a>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        self.get(key).map(read).transpose()
    }

    /// A text that must be there.
    pub(crate) fn name(&self, key: &str) -> Result<String, Fault> {
        Ok(self.read(key, |found| found.text())?.unwrap_or_default().to_owned())
    }

    /// Bytes of a message.
    pub(crate) fn bytes(&self, key: &str) -> Result<u32, Fault> {
        Ok(self.read(key, |found| found.count(1, 1 << 24))?.unwrap_or(1) as u32)
    }
}
