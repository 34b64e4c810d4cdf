//! The file of a recording, which is there when it is complete and not before.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::NativeError;
use crate::error::during;
use crate::system;

use super::child::Signals;
use super::continuity::Continuity;
use super::render::Renderer;
use super::ring::{PageError, Pages};
use super::tracefs::{Instance, refused};

/// After so many events it is asked whether a signal has come.
const SIGNALS_EVERY: u64 = 1 << 14;

/// A file under a name of its own until it is finished.
pub(super) struct Output {
    path: PathBuf,
    temporary: PathBuf,
    writer: Option<Writer>,
}

enum Writer {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
}

impl Output {
    /// Makes the file.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(super) fn create(path: &Path) -> Result<Self, NativeError> {
        let name = path.file_name().ok_or_else(|| refused(format!("{} is no file's name", path.display())))?;
        let temporary = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), system::pid()));
        let file = File::create(&temporary).map_err(|error| refused(format!("{}: {error}", path.display())))?;
        let file = BufWriter::new(file);
        let gzip = path.extension().is_some_and(|extension| extension == "gz");
        let writer = if gzip { Writer::Gzip(GzEncoder::new(file, Compression::fast())) } else { Writer::Plain(file) };
        Ok(Self { path: path.to_owned(), temporary, writer: Some(writer) })
    }

    fn failed(&self, error: &std::io::Error) -> NativeError {
        refused(format!("{}: {error}", self.path.display()))
    }

    /// Appends text.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(super) fn write(&mut self, text: &str) -> Result<(), NativeError> {
        let written = match &mut self.writer {
            Some(Writer::Plain(file)) => file.write_all(text.as_bytes()),
            Some(Writer::Gzip(file)) => file.write_all(text.as_bytes()),
            None => Ok(()),
        };
        written.map_err(|error| self.failed(&error))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(super) fn finish(mut self) -> Result<(), NativeError> {
        let finished = match self.writer.take() {
            Some(Writer::Plain(file)) => Ok(file),
            Some(Writer::Gzip(file)) => file.finish(),
            None => return Ok(()),
        };
        let written = finished.and_then(|file| file.into_inner().map_err(std::io::IntoInnerError::into_error));
        let named = written.and_then(|file| file.sync_all()).and_then(|()| fs::rename(&self.temporary, &self.path));
        named.map_err(|error| self.failed(&error))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Nothing is there any more once it has its name.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Writes every CPU's events, by time and each CPU's in their order; returns how many.
pub(super) fn events(
    output: &mut Output,
    instance: &Instance,
    root: &Path,
    cpus: &[u32],
    renderer: &mut Renderer,
    signals: Signals,
) -> Result<u64, NativeError> {
    let size = page_size(root)?;
    let mut sources = Vec::with_capacity(cpus.len());
    for &cpu in cpus {
        let file = instance.pages(cpu).map_err(during("opening the trace"))?;
        sources.push((cpu, Pages::new(file, size).map_err(|error| wrong(cpu, error))?));
    }
    let mut line = String::new();
    let mut count = 0;
    let mut continuity = Continuity::default();
    while let Some((cpu, pages)) =
        sources.iter_mut().filter(|(_, pages)| pages.time().is_some()).min_by_key(|(cpu, pages)| (pages.time(), *cpu))
    {
        let known = pages.event().filter(|event| renderer.line(&mut line, *cpu, event.time, event.bytes));
        let Some(event) = known else { return Err(refused("the trace holds an event that was not asked for")) };
        if let Some((pid, next)) = renderer.runs(event.bytes) {
            continuity.see(*cpu, event.time, pid, next);
        }
        if count % SIGNALS_EVERY == 0 {
            signals.check()?;
        }
        output.write(&line)?;
        count += u64::from(!line.is_empty());
        pages.advance().map_err(|error| wrong(*cpu, error))?;
    }
    continuity.complaint().map_or(Ok(count), |complaint| Err(refused(complaint)))
}

fn wrong(cpu: u32, error: PageError) -> NativeError {
    match error {
        PageError::Lost => refused(format!("CPU {cpu} lost events, so the recording was not kept (--buffer)")),
        PageError::Malformed => refused(format!("CPU {cpu}'s pages do not have the form that is known")),
        PageError::Io(error) => NativeError::System { what: "reading the trace", source: error },
    }
}

/// From `events/header_page`: the size of a page's data, and its head.
fn page_size(root: &Path) -> Result<usize, NativeError> {
    // The kernel gives the whole of it to the first read, and cuts it to what that asked for.
    let mut text = vec![0; 4096];
    let read = File::open(root.join("events/header_page")).and_then(|mut file| file.read(&mut text));
    text.truncate(read.map_err(during("reading the form of pages"))?);
    let text = String::from_utf8_lossy(&text);
    let data = text.lines().find(|line| line.contains(" data;"));
    let number = |key: &str| data?.split(key).nth(1)?.split(';').next()?.parse::<usize>().ok();
    match (number("offset:"), number("size:")) {
        (Some(offset), Some(size)) => Ok(offset + size),
        _ => Err(refused("this kernel does not tell the form of its trace's pages")),
    }
}
