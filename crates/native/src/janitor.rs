//! Removes a run's cgroups when its supervisor is gone, however that ended.
//!
//! A process by itself, in a session of its own, that waits for the end of a pipe whose other end only the run's processes have.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use crate::system::set_name;
use crate::system::{exit_now, fork, pipe, read, wait_own};

/// The process, as its employer sees it.
#[derive(Debug)]
pub(crate) struct Janitor {
    /// As long as this is open somewhere, it waits.
    wanted: RawFd,
    /// At its end it is done.
    done: RawFd,
}

/// Its name, by which a guard of the run (`guard.rs`) knows that it ends by itself.
pub(crate) const NAME: &CStr = c"schedlab-tidier";

/// How often it tries, 10 ms apart.
const TRIES: u32 = 500;

impl Janitor {
    /// Starts it. It removes `directories`, the last one first, and kills the processes that are still in them.
    pub(crate) fn hire(directories: Vec<PathBuf>) -> io::Result<Self> {
        let (waiting, wanted) = pipe()?;
        let (done, doing) = pipe()?;
        // SAFETY: `run` asks for a process without other threads.
        let child = unsafe { fork()? };
        if child == 0 {
            // The supervisor waits for its own children: a grandchild does the work.
            // SAFETY: as above.
            if !matches!(unsafe { fork() }, Ok(0)) {
                exit_now(0);
            }
            work(&directories, waiting, [wanted, done]);
            exit_now(0);
        }
        wait_own(child)?;
        for ours in [waiting, doing] {
            // SAFETY: the janitor's ends.
            unsafe { libc::close(ours) };
        }
        Ok(Self { wanted, done })
    }

    /// Lets it do its work now, and waits for that.
    pub(crate) fn dismiss(&self) {
        // SAFETY: our own end; closing it twice does no harm.
        unsafe { libc::close(self.wanted) };
        let _ = read(self.done, &mut [0]);
    }
}

fn work(directories: &[PathBuf], waiting: RawFd, others: [RawFd; 2]) {
    set_name(NAME);
    // SAFETY: plain system calls of a process of one thread; nothing of what is closed is used again.
    unsafe {
        libc::setsid();
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        // A reader of the run's output waits until all its writers have closed it.
        for descriptor in [0, 1, 2].into_iter().chain(others) {
            libc::close(descriptor);
        }
    }
    while read(waiting, &mut [0]).is_err() {}
    for _ in 0..TRIES {
        directories.iter().for_each(|directory| end_all(directory));
        directories.iter().rev().for_each(|directory| drop(fs::remove_dir(directory)));
        if directories.first().is_none_or(|base| !base.exists()) {
            return;
        }
        // SAFETY: no preconditions.
        unsafe { libc::usleep(10_000) };
    }
}

/// Kills the processes in a cgroup.
fn end_all(directory: &Path) {
    let text = ["cgroup.procs", "cgroup.threads", "tasks"]
        .into_iter()
        .find_map(|file| fs::read_to_string(directory.join(file)).ok().filter(|text| !text.is_empty()));
    for member in text.unwrap_or_default().lines().filter_map(|line| line.parse::<libc::pid_t>().ok()) {
        // SAFETY: a process that was put into this run's cgroup.
        unsafe { libc::kill(member, libc::SIGKILL) };
    }
}
