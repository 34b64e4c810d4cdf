//! Reading a recording line by line.

use std::io::BufRead;

use crate::TraceError;
use crate::line::{self, Columns};
use crate::payload;
use crate::record::Record;

/// The longest line that is read, so that a file that is no text does not fill the memory.
const LONGEST_LINE: u64 = 64 * 1024;

/// An iterator over the events of `trace-cmd report -t -l` text or ftrace text, in the order of the file.
///
/// Comment lines (`#`), blank lines and trace-cmd's `cpus=` line are passed over; the last one's number is kept. After the
/// first error nothing more comes.
///
/// ```
/// use schedlab_trace::{Reader, RecordKind};
/// let text = "cpus=1\n bash-236 0d..2. 15.100209785: sched_switch: bash:236 [120] S ==> cat:240 [120]\n";
/// let mut reader = Reader::new(text.as_bytes());
/// let record = reader.next().unwrap()?;
/// assert!(matches!(record.kind, RecordKind::Switch { next, .. } if next.pid == 240));
/// assert_eq!(reader.cpus(), Some(1));
/// assert!(reader.next().is_none());
/// # Ok::<(), schedlab_trace::TraceError>(())
/// ```
pub struct Reader<R> {
    input: R,
    line: u64,
    cpus: Option<u32>,
    ended: bool,
    buffer: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub const fn new(input: R) -> Self {
        Self { input, line: 0, cpus: None, ended: false, buffer: Vec::new() }
    }

    /// How many CPUs the recording says it has, once its head was read.
    pub const fn cpus(&self) -> Option<u32> {
        self.cpus
    }

    fn read_line(&mut self) -> Result<Option<&str>, TraceError> {
        self.buffer.clear();
        let failed = |source| TraceError::Io { what: "reading the trace".to_owned(), source };
        let limit = LONGEST_LINE + 1;
        let read = std::io::Read::take(&mut self.input, limit).read_until(b'\n', &mut self.buffer).map_err(failed)?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        if read as u64 >= limit {
            let expected = format!("a line of at most {LONGEST_LINE} bytes");
            return Err(TraceError::malformed(self.line, "a longer line", expected));
        }
        match str::from_utf8(&self.buffer) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\r']))),
            Err(error) => {
                let valid = String::from_utf8_lossy(&self.buffer[..error.valid_up_to()]).into_owned();
                Err(TraceError::malformed(self.line, &valid, "text in UTF-8"))
            }
        }
    }

    fn read_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            let number = self.line + 1;
            let Some(text) = self.read_line()? else { return Ok(None) };
            let trimmed = text.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            if let Some(cpus) = trimmed.strip_prefix("cpus=") {
                let expected = "a number of CPUs after 'cpus='";
                let cpus = cpus.parse().map_err(|_| TraceError::malformed(number, trimmed, expected))?;
                self.cpus = Some(cpus);
                continue;
            }
            if is_loss(trimmed) {
                return Err(TraceError::lost(number, trimmed));
            }
            return parse(number, text).map(Some);
        }
    }
}

/// `CPU:0 [LOST 12 EVENTS]` (ftrace) and `CPU:0 [12 EVENTS DROPPED]`, `CPU:0 [EVENTS DROPPED]` (trace-cmd).
fn is_loss(text: &str) -> bool {
    text.starts_with("CPU:") && (text.contains("[LOST") || text.contains("EVENTS DROPPED]"))
}

fn parse(number: u64, text: &str) -> Result<Record, TraceError> {
    let wrong = |expected: String| TraceError::malformed(number, text, expected);
    let Columns { name, pid, cpu, flags, time, event, text: rest } = line::split(text).map_err(wrong)?;
    let kind = payload::parse(event, rest).map_err(wrong)?;
    Ok(Record { line: number, name: name.into(), pid, cpu, flags, time, kind })
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.read_record().transpose();
        self.ended = !matches!(record, Some(Ok(_)));
        record
    }
}
