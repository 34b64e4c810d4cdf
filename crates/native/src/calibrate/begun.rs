//! Accesses in which threads of the kernel's workqueues may take part: writes past the page cache that a task begins and waits for, synchronous
//! ones, and flushes of the disk's write cache. Of each its own CPU time, and that of the threads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use schedlab_model::{File as WorkloadFile, FileAccess, Offset, Opening, Step, Task, Workload};
use schedlab_program::Program;

use super::bench::Bench;
use super::disk::SMALL;
use super::schedstat::Schedstat;
use super::stats::Samples;
use crate::NativeError;
use crate::error::during;
use crate::storage::{self, Storage};
use crate::system::{check, monotonic, thread_cpu};

/// Bytes of the file whose blocks are mostly written for the first time, anywhere in it.
const FRESH: u64 = 4 << 20;

/// Writes of each kind, and those before them that do not count.
const WRITES: usize = 128;
const WARM_UP: usize = 16;

/// Measures writes of 4 KiB past the page cache, one at a time: of blocks that were never written, and of a block that was.
pub(crate) fn begun_writes(bench: &Bench, directory: &Path, samples: &mut Samples) -> Result<(), NativeError> {
    for (name, size) in [("begun_write", FRESH), ("begun_overwrite", SMALL as u64)] {
        measure(bench, directory, samples, &writer(size), &[name])?;
    }
    Ok(())
}

/// Measures synchronous writes of 4 KiB to a file like those of a run: of all its blocks for the first time, one after the other, and once more.
pub(crate) fn synchronous_writes(bench: &Bench, directory: &Path, samples: &mut Samples) -> Result<(), NativeError> {
    measure(bench, directory, samples, &synchronous_writer(), &["sync_write", "sync_overwrite"])
}

/// Measures flushes of the disk's write cache: `fdatasync` of a file that is as on the disk asks for nothing else.
pub(crate) fn flushes(bench: &Bench, file: &File, samples: &mut Samples) -> Result<(), NativeError> {
    // SAFETY: no memory is passed; the descriptor is the file's.
    let flush = || check(unsafe { libc::fdatasync(file.as_raw_fd()) }).map(drop).map_err(during("flushing the disk"));
    observe(bench, samples, "disk_flush", flush)
}

/// Measures the disk's interrupts, as a computing task sees them that began to read past the page cache: the longest gap in its time within thrice what
/// such a read takes. It wakes no task.
pub(crate) fn interrupts(bench: &Bench, directory: &Path, samples: &mut Samples) -> Result<(), NativeError> {
    let access = FileAccess { file: "file".to_owned(), bytes: SMALL as u32, offset: Offset::Random };
    let depths = [1, 2].map(|depth| Step::SubmitRead { access: access.clone(), depth });
    let [waiting, computing] = depths.map(|step| writer_of(FRESH, Opening::Direct, step));
    let files = storage::make(&computing, directory)?;
    let mut storage = Storage::new(SMALL as u32, 1);
    let mut read =
        |program: &Program| storage.access(&files, program.file_accesses()[0]).map_err(during("reading from the disk"));
    let started = monotonic();
    (0..WARM_UP).try_for_each(|_| read(&waiting))?;
    let window = 3 * (monotonic() - started) / WARM_UP as u64;
    let mut gaps = Vec::new();
    for _ in 0..WRITES {
        read(&computing)?;
        let (start, mut longest) = (monotonic(), 0);
        let mut last = start;
        while last - start < window {
            let now = monotonic();
            longest = longest.max(now - last);
            last = now;
        }
        gaps.push(longest as f64 - bench.clock);
    }
    samples.add("disk_interrupt", gaps);
    Ok(())
}

/// Writes to a program's file as its task does, so often for each name.
fn measure(
    bench: &Bench,
    directory: &Path,
    samples: &mut Samples,
    program: &Program,
    names: &[&str],
) -> Result<(), NativeError> {
    let files = storage::make(program, directory)?;
    let mut storage = Storage::new(SMALL as u32, 1);
    let op = program.file_accesses()[0];
    let mut write = || storage.access(&files, op).map_err(during("writing to the disk"));
    names.iter().try_for_each(|name| observe(bench, samples, name, &mut write))
}

/// Accesses take a time on the clock, CPU time of their task (`…_cpu`), CPU time of the kernel's workers (`…_completion`), and these run so often
/// (`…_runs`).
fn observe(
    bench: &Bench,
    samples: &mut Samples,
    name: &str,
    mut access: impl FnMut() -> Result<(), NativeError>,
) -> Result<(), NativeError> {
    (0..WARM_UP).try_for_each(|_| access())?;
    let mut workers = Workers::find();
    let [mut times, mut cpu, mut completion, mut runs] = [const { Vec::new() }; 4];
    for _ in 0..WRITES {
        let (before, ran) = workers.cpu();
        let (start, worked) = (monotonic(), thread_cpu());
        access()?;
        cpu.push(bench.since(worked));
        times.push((monotonic() - start) as f64);
        let (after, runs_after) = workers.cpu();
        completion.push(after.saturating_sub(before) as f64);
        runs.push(runs_after.saturating_sub(ran) as f64);
    }
    for (end, values) in [("", times), ("_cpu", cpu), ("_completion", completion), ("_runs", runs)] {
        samples.add(&format!("{name}{end}"), values);
    }
    Ok(())
}

/// A task that writes all blocks of a file synchronously, one after the other.
fn synchronous_writer() -> Program {
    let access = FileAccess { file: "file".to_owned(), bytes: SMALL as u32, offset: Offset::Next };
    writer_of(((WARM_UP + WRITES) * SMALL) as u64, Opening::Sync, Step::WriteFile(access))
}

/// A task that begins writes anywhere in a file of that size, and waits for each.
fn writer(size: u64) -> Program {
    let access = FileAccess { file: "file".to_owned(), bytes: SMALL as u32, offset: Offset::Random };
    writer_of(size, Opening::Direct, Step::SubmitWrite { access, depth: 1 })
}

/// A task that does a step with a file of that size.
fn writer_of(size: u64, open: Opening, step: Step) -> Program {
    let task = Task { name: "writer".to_owned(), instances: 1, steps: vec![step], ..Task::default() };
    let files = [("file".to_owned(), WorkloadFile { size, open })].into();
    let workload = Workload { name: "writer".to_owned(), tasks: vec![task], files, ..Workload::default() };
    #[expect(clippy::expect_used, reason = "nothing of it comes from without")]
    Program::compile(&workload).expect("a task that writes a file that there is")
}

/// The threads of the kernel's workqueues, each with its `schedstat`.
#[derive(Default)]
struct Workers {
    files: BTreeMap<PathBuf, Schedstat>,
    /// The process id that was given last as they were looked for.
    newest: String,
}

impl Workers {
    /// Those that are there now.
    fn find() -> Self {
        let mut workers = Self::default();
        workers.look();
        workers
    }

    /// Looks for further ones, if any task was made since: the kernel makes a worker as another one sleeps.
    fn look(&mut self) {
        // Load averages, tasks, and the process id that was given last.
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let newest = load.split_whitespace().last().unwrap_or_default();
        if newest == self.newest && !newest.is_empty() {
            return;
        }
        self.newest = newest.to_owned();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let path = entry.path();
            let named = fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("kworker/"));
            if named
                && !self.files.contains_key(&path)
                && let Ok(file) = Schedstat::open(&path)
            {
                self.files.insert(path, file);
            }
        }
    }

    /// The CPU time that they took so far, in nanoseconds, and how often they ran. One that has ended since counts no more.
    fn cpu(&mut self) -> (u64, u64) {
        self.look();
        let counted = self.files.values().filter_map(|file| file.read().ok());
        counted.fold((0, 0), |(cpu, runs), more| (cpu + more.run, runs + more.runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_begins_writes_of_one_page_and_waits_for_each() {
        let program = writer(FRESH);
        let [op] = program.file_accesses() else { panic!("{:?}", program.file_accesses()) };
        assert_eq!((op.bytes, op.verb), (4096, schedlab_program::FileVerb::SubmitWrite(1)));
        assert_eq!(program.files()[0].1.size, 4 << 20);
    }

    #[test]
    fn a_synchronous_writer_writes_every_page_once_before_any_again() {
        let program = synchronous_writer();
        let [op] = program.file_accesses() else { panic!("{:?}", program.file_accesses()) };
        assert_eq!((op.bytes, op.verb), (4096, schedlab_program::FileVerb::Write));
        let (_, file) = &program.files()[0];
        assert_eq!((file.size, file.open), ((16 + 128) * 4096, Opening::Sync));
        let mut places = schedlab_program::Places::new(1);
        let written: std::collections::BTreeSet<u64> = (0..144).map(|_| places.next(*op, file.size)).collect();
        assert_eq!(written.len(), 144);
        assert_eq!(places.next(*op, file.size), 0);
    }

    #[test]
    fn workers_cpu_time_does_not_go_back() {
        let mut workers = Workers::find();
        let before = workers.cpu();
        assert!(workers.cpu() >= before);
    }
}
