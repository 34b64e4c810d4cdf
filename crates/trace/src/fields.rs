//! `key=value` texts.

use std::str::FromStr;

/// A process id as the kernel's root namespace counts; 0 is every CPU's idle task.
pub type Pid = u32;

/// `PID_MAX_LIMIT`: what follows keeps something of each task.
const MAX_PID: u64 = 4 << 20;

/// Reads a pid, which the kernel bounds.
pub(crate) fn parse_pid(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|pid| u64::from(*pid) <= MAX_PID)
}

/// The text of an event after its name, with typed access to its `key=value` fields. Errors say what was expected.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    text: &'a str,
}

impl<'a> Fields<'a> {
    /// The fields `pid` and `fl`, the flags in hexadecimal.
    pub(crate) fn pid_and_flags(self) -> Result<(Pid, u32), String> {
        Ok((self.get("pid")?, self.hex("fl")?))
    }

    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text }
    }

    /// The value of `key`: what follows the last `key=` that begins a word, up to the next blank. The last one, because
    /// a task's name, which comes first, may hold anything.
    pub(crate) fn find(&self, key: &str) -> Option<&'a str> {
        let (_, value) = self.split_at_key(key)?;
        value.split_whitespace().next().filter(|_| !value.starts_with(char::is_whitespace))
    }

    /// A value of its type.
    pub(crate) fn get<T: FromStr>(&self, key: &str) -> Result<T, String> {
        let value = self.find(key);
        if key.ends_with("pid") && value.and_then(|value| value.parse().ok()).is_some_and(|pid: u64| pid > MAX_PID) {
            return Err(format!("a pid up to {MAX_PID} in '{key}='"));
        }
        value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("a number in '{key}='"))
    }

    /// A value written in hexadecimal with `0x` before it.
    pub(crate) fn hex(&self, key: &str) -> Result<u32, String> {
        self.find(key).and_then(parse_hex).ok_or_else(|| format!("a hexadecimal number in '{key}=0x'"))
    }

    /// A value of its type, if it is there.
    pub(crate) fn optional<T: FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        self.find(key).map(|_| self.get(key)).transpose()
    }

    /// An address written in hexadecimal with `0x` before it; 0 if it is not there.
    pub(crate) fn address(&self, key: &str) -> Result<u64, String> {
        let Some(text) = self.find(key) else { return Ok(0) };
        let digits = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        digits.or_else(|| text.parse().ok()).ok_or_else(|| format!("a hexadecimal number in '{key}=0x'"))
    }

    /// A flag: a number, false if it is 0.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, String> {
        self.address(key).map(|value| value != 0)
    }

    /// A value of 0 or 1.
    pub(crate) fn switch(&self, key: &str) -> Result<bool, String> {
        match self.find(key) {
            Some("0") => Ok(false),
            Some("1") => Ok(true),
            _ => Err(format!("0 or 1 in '{key}='")),
        }
    }

    /// A task's name, which may hold blanks: everything between `key=` and the last ` following=`.
    pub(crate) fn name(&self, key: &str, following: &str) -> Result<&'a str, String> {
        let expected = || format!("'{key}=' and then '{following}='");
        let (before, _) = self.split_at_key(following).ok_or_else(expected)?;
        let start = key.len() + 1;
        let found = before.find(&format!("{key}=")).filter(|at| *at == 0 || before[..*at].ends_with(' '));
        let at = found.ok_or_else(expected)?;
        Ok(before[at + start..].trim_end_matches(' '))
    }

    fn split_at_key(&self, key: &str) -> Option<(&'a str, &'a str)> {
        let mut end = self.text.len();
        while let Some(at) = self.text[..end].rfind(key) {
            let before = &self.text[..at];
            let after = &self.text[at + key.len()..];
            if (before.is_empty() || before.ends_with(char::is_whitespace)) && after.starts_with('=') {
                return Some((before, &after[1..]));
            }
            end = at;
        }
        None
    }
}

/// Reads `0x1f`.
pub(crate) fn parse_hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_what_looks_like_fields() {
        let fields = Fields::new("comm=my pid=7 task pid=12 prio=120");
        assert_eq!(fields.name("comm", "pid"), Ok("my pid=7 task"));
        assert_eq!(fields.get::<u32>("pid"), Ok(12));
    }

    #[test]
    fn a_key_begins_a_word() {
        let fields = Fields::new("pid=240 old_pid=239");
        assert_eq!(fields.get::<u32>("pid"), Ok(240));
        assert_eq!(fields.find("id"), None);
    }

    #[test]
    fn an_empty_value_is_none() {
        let fields = Fields::new("pid= prio=3");
        assert_eq!(fields.find("pid"), None);
        assert!(fields.get::<u32>("pid").is_err());
    }
}
