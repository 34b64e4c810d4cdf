//! Reading a recording line by line.

use std::collections::BTreeMap;
use std::io::BufRead;

use schedlab_model::Time;

use crate::TraceError;
use crate::head::{FORM, Head, MAGIC};
use crate::line::{self, Columns};
use crate::payload;
use crate::record::{Record, RecordKind};

/// The longest line that is read, so that a file that is no text does not fill the memory.
const LONGEST_LINE: u64 = 64 * 1024;

/// Events that a recording may have: what reads it keeps all, some 400 bytes each.
pub(crate) const MOST_EVENTS: u64 = 8_000_000;

/// An iterator over the events of `trace-cmd report`, `perf script` or ftrace text, in the order of the file.
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
    head: Option<Head>,
    /// What perf and Perfetto say of the kernel.
    release: Option<String>,
    shows: Shows,
    /// What is wrong from the beginning on.
    failure: Option<TraceError>,
    /// Events so far, and how many there must be once the last line told.
    events: u64,
    /// Of each CPU the last event's time.
    times: BTreeMap<u32, Time>,
    end: Option<u64>,
    ended: bool,
    buffer: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub const fn new(input: R) -> Self {
        Self {
            input,
            line: 0,
            cpus: None,
            head: None,
            release: None,
            shows: Shows { flags: true, wakeups: false, run_times: false, nanoseconds: false },
            failure: None,
            events: 0,
            times: BTreeMap::new(),
            end: None,
            ended: false,
            buffer: Vec::new(),
        }
    }

    /// A reader that only says what is wrong.
    pub(crate) fn failed(input: R, failure: TraceError) -> Self {
        let mut reader = Self::new(input);
        reader.failure = Some(failure);
        reader
    }

    /// The recorded kernel's release as perf and Perfetto say it, once the first event was read.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// What a recording of another program cannot show, once it was read; nothing of own recordings.
    pub fn limits(&self) -> Vec<&'static str> {
        if self.head.is_some() || self.events == 0 {
            return Vec::new();
        }
        let Shows { flags, wakeups, run_times, nanoseconds } = self.shows;
        let limits = [
            (
                true,
                "the recording does not show the kernel's settings, groups and affinities: its release's defaults stand in",
            ),
            (
                !flags,
                "it does not show interrupts nor need_resched: wake-ups while a task runs are taken for that task's, and the \
                      kernel's ticks and wakeup preemptions are not seen",
            ),
            (!wakeups, "it has no sched_wakeup: tasks are taken to be queued at sched_waking"),
            (!run_times, "it has no sched_stat_runtime: run times are those between switches, interrupts included"),
            (
                !nanoseconds,
                "its times are in microseconds ('perf script --ns' and 'trace-cmd report -t' print nanoseconds)",
            ),
        ];
        limits.into_iter().filter_map(|(lacks, limit)| lacks.then_some(limit)).collect()
    }

    /// How many CPUs the recording says it has, once its head was read.
    pub const fn cpus(&self) -> Option<u32> {
        self.cpus
    }

    /// What an own recording says before its events, once its first event was read; none of other recordings.
    pub const fn head(&self) -> Option<&Head> {
        self.head.as_ref()
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
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        loop {
            let number = self.line + 1;
            let Some(text) = self.read_line()? else { return self.at_end() };
            let trimmed = text.trim();
            if trimmed.is_empty() {
                continue;
            }
            if let Some(comment) = trimmed.strip_prefix('#') {
                let comment = comment.to_owned();
                self.read_comment(number, &comment)?;
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
            let record = parse(number, text)?;
            if let Some(before) = self.times.insert(record.cpu, record.time)
                && before > record.time
            {
                let expected = format!("no earlier time than that of the CPU's event before, {before}");
                return Err(TraceError::malformed(number, &record.time.to_string(), expected));
            }
            self.events += 1;
            if self.events > MOST_EVENTS {
                let found = format!("event {}", self.events);
                return Err(TraceError::malformed(
                    number,
                    &found,
                    format!("a recording of at most {MOST_EVENTS} events"),
                ));
            }
            self.shows.note(&record);
            return Ok(Some(record));
        }
    }

    fn read_comment(&mut self, number: u64, comment: &str) -> Result<(), TraceError> {
        let text = comment.trim();
        if self.head.is_none() && text == MAGIC {
            self.head = Some(Head::default());
            return Ok(());
        }
        if self.head.is_none()
            && let Some(("os release", release)) = text.split_once(':').map(|(key, value)| (key.trim(), value.trim()))
        {
            self.release = Some(release.to_owned());
            return Ok(());
        }
        let Some(head) = &mut self.head else {
            return match text.strip_prefix(FORM) {
                Some(_) => Err(TraceError::malformed(number, text, format!("'# {MAGIC}', the form that is known"))),
                None => Ok(()),
            };
        };
        if let Some(end) = text.strip_prefix("end:") {
            let count = end.trim().strip_prefix("events=").and_then(|count| count.parse().ok());
            let expected = "'# end: events=NUMBER'";
            self.end = Some(count.ok_or_else(|| TraceError::malformed(number, text, expected))?);
            return Ok(());
        }
        head.add(comment).map_err(|expected| TraceError::malformed(number, text, expected))
    }

    /// An own recording says how many events it has, so that one cut short is noticed.
    fn at_end(&self) -> Result<Option<Record>, TraceError> {
        match (&self.head, self.end) {
            (None, _) => Ok(None),
            (Some(_), None) => {
                Err(TraceError::Missing { what: "the recording's last line, '# end: events=…',".to_owned() })
            }
            (Some(_), Some(end)) if end == self.events => Ok(None),
            (Some(_), Some(end)) => {
                let expected = format!("as many events as the last line says, {end}");
                Err(TraceError::malformed(self.line, &format!("{} events", self.events), expected))
            }
        }
    }
}

/// What a recording's events show.
#[derive(Debug, Clone, Copy)]
struct Shows {
    /// `common_flags`.
    flags: bool,
    /// `sched_wakeup`.
    wakeups: bool,
    /// `sched_stat_runtime`.
    run_times: bool,
    /// Times beyond microseconds.
    nanoseconds: bool,
}

impl Shows {
    fn note(&mut self, record: &Record) {
        self.flags &= record.flags.shown;
        self.wakeups |= matches!(record.kind, RecordKind::Wakeup { .. });
        self.run_times |= matches!(record.kind, RecordKind::StatRuntime { .. });
        self.nanoseconds |= !record.time.as_nanos().is_multiple_of(1_000);
    }
}

/// `PERF_RECORD_LOST` (`perf script --show-lost-events`), `CPU:0 [LOST 12 EVENTS]` (ftrace) and `CPU:0 [12 EVENTS DROPPED]`, `CPU:0 [EVENTS DROPPED]` (trace-cmd).
fn is_loss(text: &str) -> bool {
    text.contains("PERF_RECORD_LOST ")
        || text.starts_with("CPU:") && (text.contains("[LOST") || text.contains("EVENTS DROPPED]"))
}

fn parse(number: u64, text: &str) -> Result<Record, TraceError> {
    let wrong = |expected: String| TraceError::malformed(number, text, expected);
    let Columns { name, pid, cpu, flags, time, event, text: rest } = line::split(text).map_err(wrong)?;
    let kind = payload::parse(event, rest).map_err(wrong)?;
    let (clocks, entity) = payload::parse_common(event, rest);
    let (event, text) = (event.into(), rest.into());
    Ok(Record { line: number, name: name.into(), pid, cpu, flags, time, clocks, entity, kind, event, text })
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
