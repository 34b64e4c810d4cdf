//! The layout of an event's bytes, from the `format` file that the kernel has for each.

use std::fmt::Write;

/// A field of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// Its name.
    pub(super) name: String,
    offset: usize,
    size: usize,
    signed: bool,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Pointer,
    /// Characters, up to the first zero.
    Text,
    /// A word that says where the characters stand: offset and length (`__data_loc`).
    Located,
    /// Likewise, counted from the end of the word (`__rel_loc`).
    Relative,
}

/// The layout of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// The number by which events of its kind are known.
    pub(super) id: u16,
    /// The event's own fields, without the common ones.
    pub(super) slots: Vec<Slot>,
    /// The letters of task states in `sched_switch`: bit and letter.
    pub(super) states: Vec<(u64, char)>,
}

/// The common fields of every event: they stand at the same places in all kernels since 2.6.32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Common {
    /// What kind of event it is.
    pub(super) id: u16,
    /// `common_flags`.
    pub(super) flags: u8,
    /// `common_preempt_count`.
    pub(super) preempt: u8,
    /// The current task.
    pub(super) pid: i32,
}

impl Common {
    /// Reads them.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; 8] = bytes.first_chunk()?;
        Some(Self {
            id: u16::from_le_bytes([head[0], head[1]]),
            flags: head[2],
            preempt: head[3],
            pid: i32::from_le_bytes([head[4], head[5], head[6], head[7]]),
        })
    }
}

impl Layout {
    /// Reads a `format` file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
        let slots = text.lines().filter_map(Slot::parse).filter(|slot| !slot.name.starts_with("common_")).collect();
        Some(Self { id, slots, states: states(text) })
    }

    /// The field called `name`.
    pub(super) fn slot(&self, name: &str) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.name == name)
    }
}

/// From the printing rule of `prev_state`: `{ 0x00000001, "S" }, …`.
fn states(text: &str) -> Vec<(u64, char)> {
    let Some(rule) = text.lines().find(|line| line.starts_with("print fmt") && line.contains("prev_state")) else {
        return Vec::new();
    };
    let pair = |text: &str| {
        let (number, rest) = text.split_once(',')?;
        let bit = u64::from_str_radix(number.trim().strip_prefix("0x")?, 16).ok()?;
        Some((bit, rest.split('"').nth(1)?.chars().next()?))
    };
    rule.split('{').skip(1).filter_map(pair).collect()
}

impl Slot {
    /// Reads `field:pid_t prev_pid; offset:24; size:4; signed:1;`, with tabs between.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declaration = parts.next()?;
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
        let (offset, size, signed) = (number("offset:")?, number("size:")?, number("signed:")? != 0);
        let (kind, name) = declaration.rsplit_once([' ', '*'])?;
        let name = name.split('[').next()?;
        let kind = if kind.contains("__data_loc") {
            Kind::Located
        } else if kind.contains("__rel_loc") {
            Kind::Relative
        } else if declaration.ends_with(']') {
            Kind::Text
        } else if declaration.contains('*') {
            Kind::Pointer
        } else {
            Kind::Number
        };
        Some(Self { name: name.to_owned(), offset, size, signed, kind })
    }

    /// Whether it is an address.
    pub(super) fn is_pointer(&self) -> bool {
        self.kind == Kind::Pointer
    }

    /// Its bits as a number, sign-extended if it is signed.
    pub(super) fn number(&self, bytes: &[u8]) -> Option<i64> {
        let own = bytes.get(self.offset..self.offset + self.size)?;
        let mut wide = [0; 8];
        wide.get_mut(..self.size)?.copy_from_slice(own);
        let unused = 64 - 8 * self.size as u32;
        let number = i64::from_le_bytes(wide) << unused;
        Some(if self.signed { number >> unused } else { (number as u64 >> unused) as i64 })
    }

    /// Its text, if it is one; what cannot be printed on a line is replaced.
    pub(super) fn text(&self, bytes: &[u8]) -> Option<String> {
        let own = match self.kind {
            Kind::Number | Kind::Pointer => return None,
            Kind::Text => bytes.get(self.offset..self.offset + self.size)?,
            Kind::Located | Kind::Relative => {
                let word = u32::from_le_bytes(*bytes.get(self.offset..)?.first_chunk()?);
                let base = if self.kind == Kind::Relative { self.offset + 4 } else { 0 };
                let start = base + (word & 0xffff) as usize;
                bytes.get(start..start + (word >> 16) as usize)?
            }
        };
        let end = own.iter().position(|byte| *byte == 0).unwrap_or(own.len());
        Some(printable(&String::from_utf8_lossy(&own[..end])))
    }

    /// Prints its number.
    pub(super) fn print(&self, line: &mut String, bytes: &[u8], hexadecimal: bool) -> Option<()> {
        let number = self.number(bytes)?;
        let _ = if hexadecimal {
            let unused = 64 - 8 * self.size as u32;
            write!(line, "{:#x}", (number as u64) << unused >> unused)
        } else if self.signed {
            write!(line, "{number}")
        } else {
            write!(line, "{}", number as u64)
        };
        Some(())
    }
}

/// Text without what would break a line.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch
ID: 319
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:1;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] path;\toffset:28;\tsize:4;\tsigned:0;
\tfield:void * function;\toffset:32;\tsize:8;\tsigned:0;
\tfield:u8 small;\toffset:40;\tsize:1;\tsigned:0;

print fmt: \"prev_comm=%s prev_state=%s\", REC->prev_comm, __print_flags(REC->prev_state & 0xff, \"|\", { 0x00000001, \"S\" }, { 0x00000080, \"I\" })
";

    #[test]
    fn a_layout_says_where_fields_stand() {
        let layout = Layout::parse(SWITCH).unwrap();
        assert_eq!((layout.id, layout.states.as_slice()), (319, [(1, 'S'), (0x80, 'I')].as_slice()));
        let mut bytes = vec![0; 41];
        bytes[8..12].copy_from_slice(b"a\nb\0");
        bytes[24..28].copy_from_slice(&(-7i32).to_le_bytes());
        bytes[28..32].copy_from_slice(&(3u32 << 16 | 41).to_le_bytes());
        bytes[32..40].copy_from_slice(&0xffff_8000_0000_0010u64.to_le_bytes());
        bytes[40] = 200;
        bytes.extend(b"/x\0");
        let slot = |name: &str| layout.slot(name).unwrap();
        let print = |name: &str, hexadecimal| {
            let mut line = String::new();
            slot(name).print(&mut line, &bytes, hexadecimal).unwrap();
            line
        };
        assert_eq!(slot("prev_comm").text(&bytes).unwrap(), "a?b");
        assert_eq!(print("prev_pid", false), "-7");
        assert_eq!(print("prev_pid", true), "0xfffffff9");
        assert_eq!(slot("path").text(&bytes).unwrap(), "/x");
        assert_eq!(print("function", true), "0xffff800000000010");
        assert_eq!(print("small", false), "200");
        assert!(slot("function").is_pointer());
        assert_eq!(slot("function").number(&bytes[..36]), None);
    }
}
