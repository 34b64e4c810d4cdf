//! What the kernel counts of a task: its `schedstat` (`proc_pid_schedstat`, `fs/proc/base.c`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A task's `schedstat`, kept open.
pub(super) struct Schedstat(File);

/// What it says so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// CPU time, in nanoseconds.
    pub(super) run: u64,
    /// Time on a queue without a CPU, in nanoseconds.
    pub(super) wait: u64,
    /// How often it was switched in.
    pub(super) runs: u64,
}

impl std::iter::Sum for Counted {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        let nothing = Self { run: 0, wait: 0, runs: 0 };
        each.fold(nothing, |all, one| Self {
            run: all.run + one.run,
            wait: all.wait + one.wait,
            runs: all.runs + one.runs,
        })
    }
}

impl Schedstat {
    /// That of the task whose directory in `/proc` this is.
    pub(super) fn open(task: &Path) -> io::Result<Self> {
        File::open(task.join("schedstat")).map(Self)
    }

    pub(super) fn read(&self) -> io::Result<Counted> {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0)?;
        counted(&text[..length]).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }
}

fn counted(text: &[u8]) -> Option<Counted> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_whitespace().map(str::parse);
    Some(Counted { run: numbers.next()?.ok()?, wait: numbers.next()?.ok()?, runs: numbers.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_numbers_are_cpu_time_waiting_time_and_runs() {
        assert_eq!(counted(b"123 45 6\n"), Some(Counted { run: 123, wait: 45, runs: 6 }));
        assert_eq!(counted(b"123 45\n"), None);
        // A test's thread is not the process's first one; both have run.
        let own = Schedstat::open(Path::new("/proc/self")).and_then(|own| own.read()).unwrap();
        assert!(own.run > 0 && own.runs > 0, "{own:?}");
    }
}
