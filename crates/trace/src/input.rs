//! Opening recordings, gzipped or plain, of bounded size.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read};
#[cfg(unix)]
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::perfetto_input::{is_perfetto, text_of_perfetto};
use crate::{Reader, TraceError};

/// The two bytes every gzip member begins with (RFC 1952, 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Most bytes of a recording's text.
const MOST_TEXT: u64 = 1 << 30;

/// Recordings compress to a tenth; text beyond [`UNSUSPECTED`] may be so many times its file.
const MOST_RATIO: u64 = 200;

/// Bytes of text that any gzipped file may hold.
const UNSUSPECTED: u64 = 64 << 20;

/// Most bytes of any other file, such as a copy of `sched/debug`.
const MOST_OTHER: u64 = 64 << 20;

/// Opens a recording for reading, whatever its name: text, or a Perfetto trace, each also gzipped, as their first bytes say.
///
/// Its text may have 1 GiB; that of a gzipped one also no more than 64 MiB and 200 times the file's size.
///
/// # Errors
/// [`TraceError::Io`] if the file cannot be opened or read, or is no regular file and no pipe; the text itself, and its size, are judged
/// only as it is read.
pub fn open(path: &Path) -> Result<Reader<Box<dyn BufRead>>, TraceError> {
    let failed = |source| TraceError::Io { what: path.display().to_string(), source };
    let (file, size) = open_file(path)?;
    unpacked(BufReader::new(file), size).map_err(failed)
}

/// Reads a recording from memory, as [`open`] reads a file.
pub fn open_bytes(bytes: Vec<u8>) -> Reader<Box<dyn BufRead>> {
    let size = bytes.len() as u64;
    // Memory is read without errors.
    unpacked(Cursor::new(bytes), size).unwrap_or_else(|_| Reader::new(Box::new(io::empty())))
}

fn unpacked(mut packed: impl BufRead + 'static, size: u64) -> io::Result<Reader<Box<dyn BufRead>>> {
    let gzipped = packed.fill_buf()?.starts_with(&GZIP_MAGIC);
    let mut text: Box<dyn BufRead> = if gzipped {
        let most = size.saturating_mul(MOST_RATIO).saturating_add(UNSUSPECTED).min(MOST_TEXT);
        Box::new(BufReader::new(Bounded::new(MultiGzDecoder::new(packed), most)))
    } else {
        Box::new(BufReader::new(Bounded::new(packed, MOST_TEXT)))
    };
    // What cannot be unpacked is reported as it is read.
    let beginning = text.fill_buf().unwrap_or_default();
    if let Some((_, form)) = BINARY.iter().find(|(magic, _)| beginning.starts_with(magic)) {
        let error = TraceError::malformed(1, form.0, format!("its text: {}", form.1));
        return Ok(Reader::failed(Box::new(io::empty()), error));
    }
    if !is_perfetto(beginning) {
        return Ok(Reader::new(text));
    }
    let mut bytes = Vec::new();
    text.read_to_end(&mut bytes)?;
    Ok(match text_of_perfetto(&bytes) {
        Ok(lines) => Reader::new(Box::new(Cursor::new(lines.into_bytes()))),
        Err(error) => Reader::failed(Box::new(io::empty()), error),
    })
}

/// Files of other programs by their first bytes: what they are, and the command that prints them.
const BINARY: [(&[u8], (&str, &str)); 2] = [
    (b"PERFILE2", ("a file of perf record", "'perf script --ns --header -i FILE'")),
    (b"\x17\x08\x44tracing", ("a file of trace-cmd record", "'trace-cmd report -t -l -i FILE'")),
];

/// Reads a text file of at most 64 MiB whole.
///
/// # Errors
/// [`TraceError::Io`] if it cannot be read, is larger, no regular file and no pipe, or no UTF-8.
pub fn read_text(path: &Path) -> Result<String, TraceError> {
    let (file, _) = open_file(path)?;
    let mut text = String::new();
    let failed = |source| TraceError::Io { what: path.display().to_string(), source };
    Bounded::new(file, MOST_OTHER).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// A device may have no end, and be changed by being read; the kind is looked at before the file is opened.
fn open_file(path: &Path) -> Result<(File, u64), TraceError> {
    let failed = |source| TraceError::Io { what: path.display().to_string(), source };
    let about = fs::metadata(path).map_err(failed)?;
    let kind = about.file_type();
    #[cfg(unix)]
    let (device, socket) = (kind.is_char_device() || kind.is_block_device(), kind.is_socket());
    #[cfg(not(unix))]
    let (device, socket) = (false, false);
    let refused = match () {
        () if kind.is_dir() => "it is a directory",
        () if device => "it is a device",
        () if socket => "it is a socket",
        () => return Ok((File::open(path).map_err(failed)?, about.len())),
    };
    Err(failed(io::Error::other(format!("{refused}; allowed: a regular file or a pipe"))))
}

/// Gives so many bytes, and fails if there are more.
struct Bounded<R> {
    inner: R,
    most: u64,
    left: u64,
}

impl<R> Bounded<R> {
    const fn new(inner: R, most: u64) -> Self {
        Self { inner, most, left: most }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!("more text than allowed: {} MiB for this file", self.most >> 20))
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_text_fails_after_its_last_allowed_byte() {
        let mut text = String::new();
        assert!(Bounded::new(&b"four"[..], 4).read_to_string(&mut text).is_ok());
        assert_eq!(text, "four");
        assert!(Bounded::new(&b"fives"[..], 4).read_to_string(&mut text).is_err());
    }
}
