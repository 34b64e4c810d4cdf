//! Opening recordings, gzipped or plain.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::{Reader, TraceError};

/// The two bytes every gzip member begins with (RFC 1952, 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Opens a recording for reading, undoing gzip if its first bytes say that it is gzipped, whatever its name.
///
/// # Errors
/// [`TraceError::Io`] if the file cannot be opened or read; the text itself is judged only as it is read.
pub fn open(path: &Path) -> Result<Reader<Box<dyn BufRead>>, TraceError> {
    let failed = |source| TraceError::Io { what: path.display().to_string(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let gzipped = file.fill_buf().map_err(failed)?.starts_with(&GZIP_MAGIC);
    let text: Box<dyn BufRead> =
        if gzipped { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    Ok(Reader::new(text))
}
