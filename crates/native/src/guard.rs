//! A command with a guard: a parent that outlives the command's caller for as long as it needs to end the command and all its processes.
//!
//! The guard adopts what the command leaves behind (`PR_SET_CHILD_SUBREAPER`), sessions of their own included, so that nothing below it
//! gets lost. The kernel tells it when the caller is gone (`PR_SET_PDEATHSIG`), however that ended. Control groups would do the same, but
//! need rights that a user has not everywhere, and a group of the CPU controller changes how the command is scheduled.

use std::ffi::{CString, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;

use schedlab_model::Time;
use serde::Serialize;

use crate::NativeError;
use crate::error::during;
use crate::janitor;
use crate::system::{self, SchedAttr, exit_now, monotonic};

/// How a command is guarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardOptions {
    /// The process that wants the command; when it ends, so does the command.
    pub parent: libc::pid_t,
    /// An open descriptor to which a JSON line goes at the start and one at the end.
    pub report: RawFd,
    /// How long the command may take to end once it was asked to.
    pub patience: Time,
    /// Whether the command stays in the caller's process group, as the terminal's foreground command.
    pub foreground: bool,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// The first line of a report.
#[derive(Debug, Serialize)]
enum Start {
    /// The command runs, with this process id.
    #[serde(rename = "started")]
    Started(libc::pid_t),
    /// It could not be executed: the error's number.
    #[serde(rename = "refused")]
    Refused(i32),
}

/// The last line of a report.
#[derive(Debug, Serialize)]
struct End {
    /// The exit code; negative for the signal that killed the command.
    code: i32,
    /// From the execution of the command to its end.
    elapsed_ns: u64,
    /// CPU time of the command and of all children that it waited for.
    user_ns: u64,
    system_ns: u64,
    /// Switches of the command and of all children that it waited for.
    voluntary: u64,
    involuntary: u64,
}

/// How long a janitor may take to remove what a run leaves.
const TIDYING: u64 = 6_000_000_000;
/// When killed processes that still have not ended are left alone.
const GIVING_UP: u64 = 30_000_000_000;
/// How often the tree is looked at while it is killed.
const PAUSE: u64 = 10_000_000;

/// Runs a command to its end, or to the caller's, and ends whatever it has started.
///
/// SIGTERM asks the command to end and kills it when its patience is over, together with all processes below it.
///
/// # Errors
/// Where no report can be made, or no process.
pub fn guard(options: &GuardOptions) -> Result<(), NativeError> {
    // SAFETY: switches of the calling process; the signal's only reader is the wait below.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
    }
    let signals = block();
    // SAFETY: no preconditions.
    if unsafe { libc::getppid() } != options.parent {
        return Ok(());
    }
    // SAFETY: asking for a descriptor's flags, then setting one, has no preconditions.
    let flags = unsafe { libc::fcntl(options.report, libc::F_GETFD) };
    system::check(flags).map_err(during("the descriptor of the report"))?;
    // SAFETY: as above; the descriptor is open, and this process's own from now on.
    let mut report = unsafe {
        libc::fcntl(options.report, libc::F_SETFD, flags | libc::FD_CLOEXEC);
        fs::File::from_raw_fd(options.report)
    };
    let words: Result<Vec<CString>, _> =
        options.command.iter().map(|word| CString::new(word.clone().into_vec())).collect();
    let started = words.map_err(io::Error::from).and_then(|words| start(&words, options.foreground));
    let (main, begun) = match started {
        Ok(child) => child,
        Err(error) => return tell(&mut report, &Start::Refused(error.raw_os_error().unwrap_or(libc::EINVAL))),
    };
    stand_aside();
    tell(&mut report, &Start::Started(main))?;
    let mut tree = Tree { main, ended: None, signals };
    tree.await_main(options.patience);
    let elapsed_ns = monotonic() - begun;
    tree.end_all();
    let (status, usage) = tree.ended.unwrap_or((libc::SIGKILL, system::Usage::default()));
    let code = if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
    tell(
        &mut report,
        &End {
            code,
            elapsed_ns,
            user_ns: usage.user,
            system_ns: usage.system,
            voluntary: usage.voluntary,
            involuntary: usage.involuntary,
        },
    )
}

fn tell(report: &mut fs::File, line: &impl Serialize) -> Result<(), NativeError> {
    let text = serde_json::to_string(line).unwrap_or_default();
    match writeln!(report, "{text}") {
        // The caller is gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told.map_err(during("writing the report")),
    }
}

/// Starts the command, and waits until it executes: its id and when that was.
fn start(words: &[CString], foreground: bool) -> io::Result<(libc::pid_t, u64)> {
    let (told, tell) = system::pipe()?;
    let parent = system::pid();
    // SAFETY: this process has one thread.
    let child = unsafe { system::fork() }?;
    if child == 0 {
        if !foreground {
            // SAFETY: moving the calling process to a group of its own.
            unsafe { libc::setpgid(0, 0) };
        }
        // SAFETY: marking an own descriptor; the execution closes it.
        unsafe { libc::fcntl(tell, libc::F_SETFD, libc::FD_CLOEXEC) };
        if system::die_with(parent) {
            let number = execute(words).raw_os_error().unwrap_or(libc::EIO);
            let _ = system::write(tell, &number.to_le_bytes());
        }
        exit_now(127);
    }
    // SAFETY: the child's end of the pipe.
    unsafe { libc::close(tell) };
    let mut number = [0; 4];
    let said = loop {
        match system::read(told, &mut number) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            said => break said?,
        }
    };
    // SAFETY: our end of it.
    unsafe { libc::close(told) };
    if said == number.len() {
        let _ = system::wait_own(child);
        return Err(io::Error::from_raw_os_error(i32::from_le_bytes(number)));
    }
    Ok((child, monotonic()))
}

/// Becomes a command, with no signal blocked and none ignored that this program ignores; returns why it could not.
pub(crate) fn execute(words: &[CString]) -> io::Error {
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: all zero bytes are a valid set; `pointers` is an array of texts that a null pointer ends.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        // Rust's start-up has it ignored, and an execution keeps that.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execvp(pointers[0], pointers.as_ptr());
    }
    io::Error::last_os_error()
}

/// Leaves the command's descriptors and scheduling attributes to it: readers of its output wait for its end and not for the guard's,
/// and a guard of a lower priority than other tasks would come too late.
fn stand_aside() {
    // SAFETY: plain system calls on this process; a file that cannot be opened changes nothing.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if nothing >= 0 {
            for descriptor in 0..=2 {
                libc::dup2(nothing, descriptor);
            }
        }
    }
    let _ = system::sched_setattr(SchedAttr::default());
}

/// Blocks the signals that the guard waits for. SIGINT and SIGQUIT come from a terminal to the command itself.
fn block() -> libc::sigset_t {
    // SAFETY: `set` is initialised before its use; blocking signals in the calling thread.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    }
}

/// A command and everything below it.
struct Tree {
    main: libc::pid_t,
    /// How the command ended, once it has.
    ended: Option<(libc::c_int, system::Usage)>,
    signals: libc::sigset_t,
}

impl Tree {
    /// Waits for the command's end; for at most so long once it was asked to end.
    fn await_main(&mut self, patience: Time) {
        let mut deadline = None;
        while self.collect() && self.ended.is_none() {
            let left = deadline.map(|deadline: u64| deadline.saturating_sub(monotonic()));
            if left == Some(0) {
                return;
            }
            if matches!(self.signal(left), Some(libc::SIGTERM | libc::SIGHUP)) && deadline.is_none() {
                // SAFETY: a child that has not been collected.
                unsafe { libc::kill(self.main, libc::SIGTERM) };
                deadline = Some(monotonic().saturating_add(patience.as_nanos()));
            }
        }
    }

    /// Collects ended processes. False once none is left.
    fn collect(&mut self) -> bool {
        loop {
            // SAFETY: all zero bytes are a valid `rusage`; status and usage are written.
            let (pid, status, usage) = unsafe {
                let (mut status, mut usage): (libc::c_int, libc::rusage) = (0, std::mem::zeroed());
                (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage), status, usage)
            };
            match pid {
                0 => return true,
                pid if pid == self.main => self.ended = Some((status, usage.into())),
                pid if pid > 0 => {}
                _ => return false,
            }
        }
    }

    /// The next signal; nothing after so many nanoseconds.
    fn signal(&self, left: Option<u64>) -> Option<libc::c_int> {
        let left = left.unwrap_or(u64::MAX / 2);
        let left = libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the set and the time are read; no information about the signal is asked for.
        let signal = unsafe { libc::sigtimedwait(&raw const self.signals, std::ptr::null_mut(), &raw const left) };
        (signal > 0).then_some(signal)
    }

    /// Kills and collects everything below this process.
    fn end_all(&mut self) {
        let begun = monotonic();
        while self.collect() {
            let late = monotonic() - begun;
            if late > GIVING_UP {
                return;
            }
            let all: Vec<libc::pid_t> = below(system::pid())
                .into_iter()
                .filter(|(_, name)| late > TIDYING || name != NAME)
                .map(|(pid, _)| pid)
                .collect();
            // A stopped process forks no more.
            for signal in [libc::SIGSTOP, libc::SIGKILL] {
                for pid in &all {
                    // SAFETY: a process below this one, which no other process collects.
                    unsafe { libc::kill(*pid, signal) };
                }
            }
            self.signal(Some(PAUSE));
        }
    }
}

/// The name of a janitor, which ends by itself when its work is done.
const NAME: &str = match janitor::NAME.to_str() {
    Ok(name) => name,
    Err(_) => "",
};

/// The processes below one, and their names.
fn below(top: libc::pid_t) -> Vec<(libc::pid_t, String)> {
    let all: Vec<(libc::pid_t, libc::pid_t, String)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
            let stat = String::from_utf8_lossy(&stat);
            // The name, in brackets, may hold anything.
            let (before, after) = stat.rsplit_once(')')?;
            let mut words = after.split_whitespace();
            let dead = matches!(words.next()?, "Z" | "X");
            let parent = words.next()?.parse().ok()?;
            (!dead).then(|| (pid, parent, before.split_once('(').map(|(_, name)| name.to_owned()).unwrap_or_default()))
        })
        .collect();
    let mut found = Vec::new();
    let mut parents = vec![top];
    while let Some(of) = parents.pop() {
        for (pid, parent, name) in &all {
            if *parent == of {
                parents.push(*pid);
                found.push((*pid, name.clone()));
            }
        }
    }
    found
}
