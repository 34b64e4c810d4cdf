//! The pages of the kernel's trace buffers: whose events they hold, and when these happened.
//!
//! Source: `include/linux/ring_buffer.h`, `kernel/trace/ring_buffer.c`.

use std::fs::File;
use std::io::{self, Read};

/// A page: its first event's time, how much of it is used, and the events.
const HEADER: usize = 16;
/// In the second field of a page, that events before it were lost (`RB_MISSED_EVENTS`).
const MISSED: u64 = 1 << 31;
/// The part of it that is a length.
const LENGTH: u64 = 0xf_ffff;
/// Kinds of entries that are no events (`RINGBUF_TYPE_*`).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a time that a delta holds.
const DELTA_BITS: u32 = 27;
/// Absolute times leave out these highest bits.
const ABSOLUTE_MASK: u64 = 0x1f << 59;

/// An event: when it happened, in nanoseconds of the trace clock, and its bytes.
pub(super) struct Event<'a> {
    pub(super) time: u64,
    pub(super) bytes: &'a [u8],
}

/// The events of one CPU in their order.
pub(super) struct Pages {
    file: File,
    page: Vec<u8>,
    /// Where the next entry stands, and where the page's last one ends.
    at: usize,
    end: usize,
    time: u64,
    /// The event that comes next: its time and where its bytes stand.
    next: Option<(u64, usize, usize)>,
}

/// What is wrong with the pages.
#[derive(Debug)]
pub(super) enum PageError {
    /// The kernel lost events.
    Lost,
    /// The page does not have the form of one.
    Malformed,
    /// It cannot be read.
    Io(io::Error),
}

impl Pages {
    /// Reads from `trace_pipe_raw`, whose pages have so many bytes.
    pub(super) fn new(file: File, size: usize) -> Result<Self, PageError> {
        let mut pages = Self { file, page: vec![0; size], at: 0, end: 0, time: 0, next: None };
        pages.advance()?;
        Ok(pages)
    }

    /// The next event's time.
    pub(super) fn time(&self) -> Option<u64> {
        self.next.map(|(time, _, _)| time)
    }

    /// The next event, that stays the next until `advance`.
    pub(super) fn event(&self) -> Option<Event<'_>> {
        let (time, start, end) = self.next?;
        Some(Event { time, bytes: self.page.get(start..end)? })
    }

    /// Goes on to the event after the next.
    pub(super) fn advance(&mut self) -> Result<(), PageError> {
        self.next = None;
        loop {
            while self.at + 4 <= self.end {
                if self.entry()? {
                    return Ok(());
                }
            }
            if !self.turn()? {
                return Ok(());
            }
        }
    }

    fn word(&self, at: usize) -> Result<u32, PageError> {
        let bytes = self.page.get(at..at + 4).filter(|_| at + 4 <= self.end).ok_or(PageError::Malformed)?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| PageError::Malformed)?))
    }

    /// Reads one entry; whether it was an event.
    fn entry(&mut self) -> Result<bool, PageError> {
        let head = self.word(self.at)?;
        let (kind, delta) = (head & 0x1f, u64::from(head >> 5));
        let mut body = self.at + 4;
        let length = match kind {
            PADDING if delta == 0 => {
                self.at = self.end;
                return Ok(false);
            }
            // A discarded event: its first word is its length after the head.
            PADDING => {
                self.time += delta;
                self.at = body + self.word(body)? as usize;
                return Ok(false);
            }
            TIME_EXTEND | TIME_STAMP => {
                let time = (u64::from(self.word(body)?) << DELTA_BITS) | delta;
                self.time = if kind == TIME_EXTEND {
                    self.time.wrapping_add(time)
                } else {
                    // The highest bits are those of the time before, or one more where the rest has wrapped.
                    let whole = time | (self.time & ABSOLUTE_MASK);
                    if whole < self.time { whole + (1 << 59) } else { whole }
                };
                self.at = body + 4;
                return Ok(false);
            }
            // The length, that counts its own word, stands before the event.
            0 => {
                let length = self.word(body)? as usize;
                body += 4;
                length.checked_sub(4).ok_or(PageError::Malformed)?
            }
            words => words as usize * 4,
        };
        self.time += delta;
        let end = body + length;
        if end > self.end {
            return Err(PageError::Malformed);
        }
        self.at = end.next_multiple_of(4);
        self.next = Some((self.time, body, end));
        Ok(true)
    }

    /// Reads the next page; whether there was one.
    fn turn(&mut self) -> Result<bool, PageError> {
        let read = match self.file.read(&mut self.page) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(PageError::Io(error)),
        };
        let number = |at: usize| {
            let bytes = self.page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or(PageError::Malformed)
        };
        let (time, commit) = (number(0)?, number(8)?);
        if commit & MISSED != 0 {
            return Err(PageError::Lost);
        }
        self.time = time;
        self.at = HEADER;
        self.end = HEADER + (commit & LENGTH) as usize;
        if self.end > read { Err(PageError::Malformed) } else { Ok(true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{Seek, Write};

    fn pages(pages: &[Vec<u8>]) -> Result<Pages, PageError> {
        let path = std::env::temp_dir().join(format!("schedlab-pages-{}-{:p}", std::process::id(), pages));
        let mut file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        pages.iter().for_each(|page| file.write_all(page).unwrap());
        file.rewind().unwrap();
        Pages::new(file, 128)
    }

    fn page(time: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time.to_le_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | flags).to_le_bytes());
        words.iter().for_each(|word| page.extend(word.to_le_bytes()));
        page.resize(128, 0xee);
        page
    }

    fn all(mut pages: Pages) -> Vec<(u64, Vec<u8>)> {
        let mut events = Vec::new();
        while let Some(event) = pages.event() {
            events.push((event.time, event.bytes.to_vec()));
            pages.advance().unwrap();
        }
        events
    }

    #[test]
    fn events_of_every_form_are_found_with_their_times() {
        // From ring_buffer.h: five bits of kind, 27 of time since the entry before.
        let entry = |kind: u32, delta: u32| kind | delta << 5;
        let first = page(
            1000,
            0,
            &[
                entry(1, 5), // one word of data, at 1005
                0x0403_0201,
                entry(PADDING, 7), // discarded, at 1012: one word of length 8 and what it says
                8,
                0,
                entry(TIME_EXTEND, 1), // (2 << 27 | 1) ns later
                2,
                entry(0, 3), // length in its own word: 4 + 6 bytes
                10,
                0x0807_0605,
                0x0000_0a09,
                entry(PADDING, 0), // the rest of the page is empty
            ],
        );
        // An absolute time: its five highest bits come from the page's.
        let base = (1 << 59) | 44;
        let second = page(base, 0, &[entry(TIME_STAMP, 9), 1, entry(1, 0), 0xffff_ffff]);
        let long = 1012 + (2 << 27) + 1 + 3;
        assert_eq!(
            all(pages(&[first, second]).unwrap()),
            [(1005, vec![1, 2, 3, 4]), (long, vec![5, 6, 7, 8, 9, 10]), ((1 << 59) | (1 << 27) | 9, vec![0xff; 4]),]
        );
    }

    #[test]
    fn pages_that_are_wrong_are_refused() {
        assert!(matches!(pages(&[page(0, MISSED, &[])]), Err(PageError::Lost)));
        // An event of two words where one is left.
        assert!(matches!(pages(&[page(0, 0, &[2, 0])]), Err(PageError::Malformed)));
        // More in use than a page has.
        assert!(matches!(pages(&[page(0, 4096, &[])]), Err(PageError::Malformed)));
        assert!(pages(&[]).unwrap().time().is_none());
    }
}
