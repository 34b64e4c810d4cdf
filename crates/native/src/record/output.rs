//! The file of a recording, which is there when it is complete and not before.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::NativeError;
use crate::error::during;
use crate::system;

use super::arrivals::Arrival;
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
        let name =
            path.file_name().ok_or_else(|| refused(format!("{} does not end in a file name", path.display())))?;
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

/// What the events came to.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// How many there are.
    pub(super) events: u64,
    /// How many switches no event tells of, not even an arrival.
    pub(super) untold: usize,
    /// How much later than a switch an arrival is recorded.
    pub(super) lag: u64,
}

/// Writes every CPU's events, by time and each CPU's in their order, with those arrivals that no switch tells of.
///
/// # Errors
/// Where events were lost; without `partly` also where some were never told.
pub(super) fn events(
    output: &mut Output,
    instance: &Instance,
    root: &Path,
    arrivals: Vec<(u32, Vec<Arrival>)>,
    renderer: &mut Renderer,
    signals: Signals,
    partly: bool,
) -> Result<Written, NativeError> {
    let size = page_size(root)?;
    let mut sources = Vec::with_capacity(arrivals.len());
    for (cpu, arrivals) in arrivals {
        let file = instance.pages(cpu).map_err(during("opening the trace"))?;
        let pages = Pages::new(file, size).map_err(|error| wrong(cpu, error))?;
        sources.push(Source { cpu, pages, arrivals: arrivals.into() });
    }
    let mut line = String::new();
    let mut count = 0;
    let mut continuity = Continuity::default();
    while let Some(source) = sources
        .iter_mut()
        .filter(|source| source.pages.time().is_some())
        .min_by_key(|source| (source.time(), source.cpu))
    {
        let cpu = source.cpu;
        if count % SIGNALS_EVERY == 0 {
            signals.check()?;
        }
        if let Some(arrival) = source.arrival() {
            if continuity.arrives(cpu, arrival.time, arrival.pid) {
                renderer.arrival(&mut line, cpu, arrival);
                output.write(&line)?;
                count += 1;
            }
            continue;
        }
        let pages = &mut source.pages;
        let known = pages.event().filter(|event| renderer.line(&mut line, cpu, event.time, event.bytes));
        let Some(event) = known else { return Err(refused("the trace holds an event that was not asked for")) };
        if let Some(sight) = renderer.runs(event.bytes) {
            continuity.see(cpu, event.time, sight);
        }
        output.write(&line)?;
        count += u64::from(!line.is_empty());
        pages.advance().map_err(|error| wrong(cpu, error))?;
    }
    match continuity.complaint(partly) {
        Some(complaint) => Err(refused(complaint)),
        None => Ok(Written { events: count, untold: continuity.untold(), lag: continuity.lag() }),
    }
}

/// The events and arrivals of a CPU.
struct Source {
    cpu: u32,
    pages: Pages,
    arrivals: VecDeque<Arrival>,
}

impl Source {
    /// The time of what comes next; there is an event left.
    fn time(&self) -> Option<u64> {
        let arrival = self.arrivals.front().map(|arrival| arrival.time);
        self.pages.time().map(|event| arrival.map_or(event, |arrival| arrival.min(event)))
    }

    /// The next arrival, if it comes before the next event.
    fn arrival(&mut self) -> Option<Arrival> {
        let event = self.pages.time()?;
        let comes = self.arrivals.front().is_some_and(|arrival| arrival.time < event);
        if comes { self.arrivals.pop_front() } else { None }
    }
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
