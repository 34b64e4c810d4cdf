//! The command that is recorded: a child that waits until the recording runs.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::{fs, ptr};

use schedlab_model::Time;

use crate::NativeError;
use crate::error::during;
use crate::guard::execute;
use crate::system::{self, abnormal, die_with, exit_now};

use super::tracefs::refused;

/// A child in its own process group; all of it is killed and collected when it is dropped.
pub(super) struct Child {
    /// Its id, and that of its group.
    pub(super) pid: libc::pid_t,
    /// Writing a byte lets it begin.
    gate: OwnedFd,
    /// What it says if it cannot begin: an error's number.
    failure: fs::File,
    signals: Signals,
    name: String,
    ended: bool,
}

impl Child {
    /// Makes a child that will execute `command`.
    ///
    /// # Errors
    /// Where no process can be made, or the command cannot be one.
    pub(super) fn new(command: &[OsString], signals: Signals) -> Result<Self, NativeError> {
        let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let words: Result<Vec<CString>, _> = command.iter().map(|word| CString::new(word.clone().into_vec())).collect();
        let words = words.map_err(|_| refused(format!("the command '{name}' has a zero byte in it")))?;
        let (wait, gate) = system::pipe().map_err(during("making a pipe"))?;
        let (told, tell) = system::pipe().map_err(during("making a pipe"))?;
        let parent = system::pid();
        // SAFETY: the recorder has one thread.
        let pid = unsafe { system::fork() }.map_err(during("making a process"))?;
        if pid == 0 {
            begin(&words, parent, [wait, tell], [gate, told]);
        }
        // SAFETY: descriptors of the pipes just made, each owned once; those of the child's ends are closed.
        let (gate, failure) = unsafe {
            libc::setpgid(pid, pid);
            libc::close(wait);
            libc::close(tell);
            (OwnedFd::from_raw_fd(gate), OwnedFd::from_raw_fd(told))
        };
        Ok(Self { pid, gate, failure: failure.into(), signals, name, ended: false })
    }

    /// Lets it begin.
    ///
    /// # Errors
    /// If it has gone.
    pub(super) fn begin(&self) -> Result<(), NativeError> {
        use std::os::fd::AsRawFd;
        system::write(self.gate.as_raw_fd(), b"!").map(drop).map_err(during("starting the command"))
    }

    /// Sleeps until it has ended.
    ///
    /// # Errors
    /// A command that could not begin, that failed, or that took too long; a signal to the recorder.
    pub(super) fn wait(&mut self, timeout: Time) -> Result<(), NativeError> {
        if self.ends_within(timeout)? { Ok(()) } else { Err(NativeError::Timeout(timeout)) }
    }

    /// Sleeps until it has ended, or so much time has passed; whether it has ended.
    ///
    /// # Errors
    /// As [`Child::wait`], but for the time.
    pub(super) fn ends_within(&mut self, time: Time) -> Result<bool, NativeError> {
        let end = system::monotonic().saturating_add(time.as_nanos());
        loop {
            if self.ended {
                return Ok(true);
            }
            let mut status = 0;
            // SAFETY: `status` is an int to write to.
            if unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) } == self.pid {
                self.ended = true;
                return self.judge(status).map(|()| true);
            }
            let left = end.saturating_sub(system::monotonic());
            if left == 0 {
                return Ok(false);
            }
            let left = libc::timespec {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: both point to values of their types; no information about the signal is asked for.
            let signal = unsafe { libc::sigtimedwait(&raw const self.signals.0, ptr::null_mut(), &raw const left) };
            if signal > 0 && signal != libc::SIGCHLD {
                return Err(NativeError::Interrupted(signal));
            }
        }
    }

    fn judge(&mut self, status: libc::c_int) -> Result<(), NativeError> {
        use std::io::Read;
        let mut number = [0; 4];
        if self.failure.read_exact(&mut number).is_ok() {
            let error = io::Error::from_raw_os_error(i32::from_le_bytes(number));
            return Err(refused(format!("the command '{}' cannot be executed: {error}", self.name)));
        }
        match abnormal(status) {
            Some(how) => Err(NativeError::Command { command: self.name.clone(), how }),
            None => Ok(()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the group of a child that was made here; it is collected only if that has not happened.
        unsafe {
            libc::kill(-self.pid, libc::SIGKILL);
            if !self.ended {
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, ptr::null_mut(), 0);
            }
        }
    }
}

/// In the child: waits for the gate, then becomes the command.
fn begin(command: &[CString], parent: libc::pid_t, [wait, tell]: [libc::c_int; 2], others: [libc::c_int; 2]) -> ! {
    // SAFETY: plain calls on the calling process.
    unsafe {
        libc::setpgid(0, 0);
        libc::close(others[0]);
        libc::close(others[1]);
        libc::fcntl(tell, libc::F_SETFD, libc::FD_CLOEXEC);
        let opened = die_with(parent) && system::read(wait, &mut [0]).is_ok_and(|read| read == 1);
        if !opened {
            exit_now(127);
        }
        libc::close(wait);
    }
    let number = execute(command).raw_os_error().unwrap_or(libc::EIO);
    let _ = system::write(tell, &number.to_le_bytes());
    exit_now(127)
}

/// The signals that end the recorder or tell of its child. They are blocked, and waited or asked for where all that was made goes with
/// the answer.
#[derive(Clone, Copy)]
pub(crate) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks them.
    pub(crate) fn block() -> Self {
        // SAFETY: all zero bytes are a valid set, which is then made by the calls for it.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            for signal in Self::ENDING.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&raw mut signals, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, ptr::null_mut());
            Self(signals)
        }
    }

    /// Sleeps so long, unless one comes that ends the recorder.
    ///
    /// # Errors
    /// One has.
    pub(crate) fn sleep(self, time: Time) -> Result<(), NativeError> {
        let end = system::monotonic().saturating_add(time.as_nanos());
        loop {
            let left = end.saturating_sub(system::monotonic());
            if left == 0 {
                return Ok(());
            }
            let left = libc::timespec {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: both point to values of their types; no information about the signal is asked for.
            let signal = unsafe { libc::sigtimedwait(&raw const self.0, ptr::null_mut(), &raw const left) };
            if signal > 0 && signal != libc::SIGCHLD {
                return Err(NativeError::Interrupted(signal));
            }
        }
    }

    const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

    /// Goes on if none has come that ends the recorder.
    ///
    /// # Errors
    /// One has.
    pub(crate) fn check(self) -> Result<(), NativeError> {
        // SAFETY: all zero bytes are a valid set, which the call overwrites.
        let came = unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            Self::ENDING.into_iter().find(|signal| libc::sigismember(&raw const pending, *signal) == 1)
        };
        came.map_or(Ok(()), |signal| Err(NativeError::Interrupted(signal)))
    }
}
