//! Files: through the page cache, and synchronously to the disk below.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::begun::{begun_writes, flushes, interrupts, synchronous_writes};
use super::bench::{Bench, timed};
use super::interrupts::served_by;
use super::stats::Samples;
use crate::NativeError;
use crate::system::{check, monotonic, thread_cpu};

/// Bytes of a small access, a page on most machines, and of a large one.
pub(crate) const SMALL: usize = 4096;
pub(crate) const LARGE: usize = 1 << 20;

/// Large accesses that the file has room for.
const PARTS: usize = 16;

/// Accesses from each CPU by which the one that takes the disk's interrupts is found.
const FEW: u64 = 8;

/// Accesses of one kind, at most, and the nanoseconds after which no further one begins.
const MOST: usize = 64;
const LONG_ENOUGH: u64 = 400_000_000;

/// Types of file systems without a disk, as `statfs(2)` numbers them: tmpfs and ramfs.
const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Measures a file without a name in `directory`: accesses of 4 KiB that the page cache serves, in CPU time, and accesses of 4 KiB
/// and 1 MiB that go to the disk, in time on the clock and, as `…_cpu`, in CPU time. Writes are synchronous (`O_DSYNC`), small ones to a file that was
/// written page by page, as a page cache may keep what is written at once in one large folio; what is read has been dropped from the page cache, and
/// nothing is read ahead. What the page cache serves goes to `later`.
///
/// Where one CPU takes all of the disk's interrupts, it is that one that measures, so that no interrupt between CPUs is in what an access takes.
///
/// Returns which that is, and what could not be measured, and why.
pub(crate) fn disk(
    bench: &Bench,
    directory: &Path,
    samples: &mut Samples,
    later: &mut Samples,
) -> Result<(Option<u32>, Vec<String>), NativeError> {
    let failed = |error: io::Error| NativeError::File { file: directory.display().to_string(), why: error.to_string() };
    let file = filled(directory).map_err(failed)?;
    cached_accesses(bench, &file, later).map_err(failed)?;
    if in_memory(&file).map_err(failed)? {
        let note = format!("{}: its file system is in memory, so no disk was measured", directory.display());
        return Ok((None, vec![note]));
    }
    let cpu = served_by(&bench.allowed, FEW, |cpu| {
        bench.stand(cpu).ok()?;
        (0..FEW).try_for_each(|part| read_uncached(&file, part)).ok()
    });
    bench.stand(cpu.unwrap_or(bench.here))?;
    let mut notes = Vec::new();
    measure(bench, directory, &file, samples).map_err(failed)?;
    for (what, measured) in [
        ("writes that tasks begin", begun_writes(bench, directory, samples)),
        ("first synchronous writes", synchronous_writes(bench, directory, samples)),
        ("flushes", flushes(bench, &file, samples)),
    ] {
        notes.extend(measured.err().map(|error| format!("{what} were not measured: {error}")));
    }
    if cpu.is_some()
        && let Err(error) = interrupts(bench, directory, samples)
    {
        notes.push(format!("the disk's interrupts were not measured: {error}"));
    }
    bench.stand(bench.here)?;
    let place = cpu.and_then(|cpu| bench.allowed.iter().position(|other| *other == cpu));
    Ok((place.and_then(|place| u32::try_from(place).ok()), notes))
}

/// Reads a part of the file from the disk.
fn read_uncached(file: &File, part: u64) -> io::Result<()> {
    drop_cache(file)?;
    file.read_exact_at(&mut [0; SMALL], part * LARGE as u64)
}

/// The file, on the disk.
fn filled(directory: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(directory)?;
    let data = vec![b'-'; LARGE];
    (0..PARTS).try_for_each(|part| file.write_all_at(&data, (part * LARGE) as u64))?;
    file.sync_all()?;
    Ok(file)
}

fn cached_accesses(bench: &Bench, file: &File, later: &mut Samples) -> io::Result<()> {
    let mut buffer = [b'-'; SMALL];
    later.add("cached_file_read_of_4_kib", cached(bench, || file.read_exact_at(&mut buffer, 0))?);
    later.add("cached_file_write_of_4_kib", cached(bench, || file.write_all_at(&buffer, 0))?);
    file.sync_all()
}

fn measure(bench: &Bench, directory: &Path, file: &File, samples: &mut Samples) -> io::Result<()> {
    let (data, mut buffer) = (vec![b'-'; LARGE], vec![0; LARGE]);
    let pages = paged(directory, &data[..SMALL])?;
    for (name, size) in [("4_kib", SMALL), ("1_mib", LARGE)] {
        let write = |at| match size {
            SMALL => pages.write_all_at(&data[..size], at / LARGE as u64 * SMALL as u64),
            _ => file.write_all_at(&data[..size], at).and_then(|()| file.sync_data()),
        };
        let mut add = |verb: &str, (times, cpu): (Vec<f64>, Vec<f64>)| {
            samples.add(&format!("disk_{verb}_of_{name}"), times);
            samples.add(&format!("disk_{verb}_of_{name}_cpu"), cpu);
        };
        add("write", uncached(bench, || Ok(()), write)?);
        let read = |at| file.read_exact_at(&mut buffer[..size], at);
        add("read", uncached(bench, || drop_cache(file), read)?);
    }
    Ok(())
}

/// A file without a name for synchronous writes, made as a run's are, and each of its pages written once.
fn paged(directory: &Path, page: &[u8]) -> io::Result<File> {
    let flags = libc::O_TMPFILE | libc::O_DSYNC;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o600).open(directory)?;
    // SAFETY: plain integers; the descriptor is the file's.
    let failed = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, (PARTS * page.len()) as libc::off_t) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }
    (0..PARTS).try_for_each(|part| file.write_all_at(page, (part * page.len()) as u64))?;
    Ok(file)
}

/// Times of an access that the page cache serves.
fn cached(bench: &Bench, mut access: impl FnMut() -> io::Result<()>) -> io::Result<Vec<f64>> {
    let mut result = Ok(());
    let mut once = || {
        if let Err(error) = access() {
            result = Err(error);
        }
    };
    let times = (0..bench.batches).map(|_| timed(100, &mut once)).collect();
    result.map(|()| times)
}

/// Times of accesses all over the file, each after a preparation that does not count: on the clock, and of the CPU.
fn uncached(
    bench: &Bench,
    prepare: impl Fn() -> io::Result<()>,
    mut access: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let began = monotonic();
    let (mut times, mut cpu) = (Vec::new(), Vec::new());
    while times.len() < MOST && (times.len() < 3 || monotonic() - began < LONG_ENOUGH) {
        // Seven has no common factor with the number of parts: all of them in turn, and no neighbours.
        let part = times.len() * 7 % PARTS;
        prepare()?;
        let (start, worked) = (monotonic(), thread_cpu());
        access((part * LARGE) as u64)?;
        cpu.push(bench.since(worked));
        times.push((monotonic() - start) as f64);
    }
    Ok((times, cpu))
}

/// Drops the file from the page cache, and asks for no reading ahead.
fn drop_cache(file: &File) -> io::Result<()> {
    for advice in [libc::POSIX_FADV_RANDOM, libc::POSIX_FADV_DONTNEED] {
        // SAFETY: no memory is passed.
        let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}

fn in_memory(file: &File) -> io::Result<bool> {
    // SAFETY: all zero bytes are a valid `statfs`, to which the kernel writes.
    let kind = unsafe {
        let mut status: libc::statfs = zeroed();
        check(libc::fstatfs(file.as_raw_fd(), &raw mut status))?;
        status.f_type
    };
    Ok(MEMORY.contains(&(kind as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_go_all_over_the_file_and_preparation_is_not_timed() {
        let mut places = Vec::new();
        let prepare = || {
            crate::system::sleep(1_000_000);
            Ok(())
        };
        let bench = Bench::new(1).unwrap();
        let (times, cpu) = uncached(&bench, prepare, |at| {
            places.push(at);
            Ok(())
        })
        .unwrap();
        assert!((3..=MOST).contains(&times.len()));
        assert_eq!(times.len(), cpu.len());
        places.truncate(PARTS);
        places.sort_unstable();
        let all: Vec<u64> = (0..PARTS as u64).map(|part| part * LARGE as u64).collect();
        assert_eq!(places, all);
    }

    #[test]
    fn an_access_that_fails_is_an_error() {
        let bench = Bench::new(1).unwrap();
        assert!(uncached(&bench, || Ok(()), |_| Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
