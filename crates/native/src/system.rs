//! System calls, each behind a safe function that says what it returns.

use std::ffi::CStr;
use std::io;
use std::mem::{size_of, zeroed};

use libc::{c_int, c_long};

/// The result of a system call, from what it returned and `errno`.
pub(crate) fn check(returned: c_int) -> io::Result<c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

pub(crate) fn check_long(returned: c_long) -> io::Result<c_long> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec to write to; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(id, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
#[inline]
pub(crate) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// The CPU's own counter of time, which is read without the kernel; `CLOCK_MONOTONIC` where we know of none.
#[inline]
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the instruction.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    monotonic()
}

/// CPU time used by the calling thread, in nanoseconds.
#[inline]
pub(crate) fn thread_cpu() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Timer interrupts a second: `CLOCK_MONOTONIC_COARSE` advances once a tick.
pub(crate) fn hz() -> u32 {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `step` is a timespec to write to.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
    let nanoseconds = (step.tv_nsec as u64).max(1);
    u32::try_from((1_000_000_000 + nanoseconds / 2) / nanoseconds).unwrap_or(u32::MAX)
}

/// Burns CPU time until a tick has just passed: the coarse clock advances with it. Returns two looks at the clock between which it came.
pub(crate) fn await_tick() -> [u64; 2] {
    let coarse = || clock(libc::CLOCK_MONOTONIC_COARSE);
    let last = coarse();
    let mut before = monotonic();
    while coarse() == last {
        before = monotonic();
    }
    [before, monotonic()]
}

/// The kernel's release and machine, as `uname -r` and `uname -m` print them.
pub(crate) fn kernel() -> (String, String) {
    // SAFETY: all zero bytes are a valid `utsname`, and `uname` fills it with texts that end in a zero byte.
    unsafe {
        let mut names: libc::utsname = zeroed();
        libc::uname(&raw mut names);
        let text = |name: *const libc::c_char| CStr::from_ptr(name).to_string_lossy().into_owned();
        (text(names.release.as_ptr()), text(names.machine.as_ptr()))
    }
}

/// A `cpu_set_t` wide enough for every CPU that Linux can have.
type CpuMask = [u64; 128];

/// The CPUs that the calling thread may run on, in ascending order.
pub(crate) fn allowed_cpus() -> Vec<u32> {
    let mut mask: CpuMask = [0; 128];
    // SAFETY: the kernel writes at most the given number of bytes to `mask`.
    unsafe { libc::sched_getaffinity(0, size_of::<CpuMask>(), mask.as_mut_ptr().cast()) };
    (0..mask.len() as u32 * 64).filter(|cpu| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect()
}

/// Binds a thread (0: the caller) to these CPUs.
pub(crate) fn set_affinity(pid: libc::pid_t, cpus: &[u32]) -> io::Result<()> {
    let mut mask: CpuMask = [0; 128];
    for &cpu in cpus {
        *mask.get_mut(cpu as usize / 64).ok_or(io::ErrorKind::InvalidInput)? |= 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads the given number of bytes from `mask`.
    check(unsafe { libc::sched_setaffinity(pid, size_of::<CpuMask>(), mask.as_ptr().cast()) }).map(drop)
}

/// `struct sched_attr` without the utilisation clamps, as every kernel since 3.14 takes it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct SchedAttr {
    pub(crate) size: u32,
    pub(crate) policy: u32,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    /// In nanoseconds; of a fair task on EEVDF kernels, its slice.
    pub(crate) runtime: u64,
    pub(crate) deadline: u64,
    pub(crate) period: u64,
}

/// `sched_setattr(2)` of the calling thread.
pub(crate) fn sched_setattr(attr: SchedAttr) -> io::Result<()> {
    let attr = SchedAttr { size: size_of::<SchedAttr>() as u32, ..attr };
    // SAFETY: `attr` has the size that it says.
    check_long(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) }).map(drop)
}

/// `struct sched_attr` with the utilisation clamps (since 5.3).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct ClampAttr {
    attr: SchedAttr,
    pub(crate) util_min: u32,
    pub(crate) util_max: u32,
}

/// Sets the utilisation clamps of the calling thread that `flags` name, and nothing else.
pub(crate) fn sched_set_clamps(flags: u64, util_min: u32, util_max: u32) -> io::Result<()> {
    let size = size_of::<ClampAttr>() as u32;
    let attr = ClampAttr { attr: SchedAttr { size, flags, ..SchedAttr::default() }, util_min, util_max };
    // SAFETY: `attr` has the size that it says.
    check_long(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) }).map(drop)
}

/// `sched_getattr(2)` of the calling thread.
pub(crate) fn sched_getattr() -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes to `attr`.
    check_long(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) })?;
    Ok(attr)
}

/// CPU time and switches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// CPU time in user mode, in nanoseconds, as the kernel divides it (by sampling at ticks, on most kernels).
    pub(crate) user: u64,
    /// CPU time in the kernel, in nanoseconds, as the kernel divides it.
    pub(crate) system: u64,
    /// Switches because it slept.
    pub(crate) voluntary: u64,
    /// Switches because it was preempted.
    pub(crate) involuntary: u64,
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Self {
        let nanoseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        Self {
            user: nanoseconds(usage.ru_utime),
            system: nanoseconds(usage.ru_stime),
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
        }
    }
}

/// `getrusage(2)` of the calling thread.
pub(crate) fn usage() -> Usage {
    usage_of(libc::RUSAGE_THREAD)
}

/// `getrusage(2)`.
pub(crate) fn usage_of(whose: c_int) -> Usage {
    // SAFETY: all zero bytes are a valid `rusage`, and `getrusage` fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = zeroed();
        libc::getrusage(whose, &raw mut usage);
        usage
    };
    usage.into()
}

/// A limit's soft and hard value.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is an rlimit to write to.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

/// Sets a limit's soft and hard value.
pub(crate) fn set_limit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `limit` is an rlimit to read from.
    check(unsafe { libc::setrlimit(resource, &raw const limit) }).map(drop)
}

/// `fork(2)`: 0 in the child.
///
/// # Safety
/// Where the process has other threads, the child may use only what is safe in a signal handler, and glibc's allocator.
pub(crate) unsafe fn fork() -> io::Result<libc::pid_t> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::fork() })
}

/// What a question comes to when a child process asks it, that is thrown away afterwards. False where none could be made.
pub(crate) fn in_child(question: impl FnOnce() -> bool) -> bool {
    // SAFETY: `run` and `probe` ask for a process without other threads.
    match unsafe { fork() } {
        Ok(0) => exit_now(i32::from(!question())),
        Ok(child) => wait_own(child).is_ok_and(|(_, status)| abnormal(status).is_none()),
        Err(_) => false,
    }
}

/// Ends the calling process at once.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Whether the process is to die when its parent does. False if that has happened already.
pub(crate) fn die_with(parent: libc::pid_t) -> bool {
    // SAFETY: neither call has preconditions.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid() == parent
    }
}

/// Stops a process by one of its threads; one that is gone cannot be.
pub(crate) fn stop_thread(process: u32, thread: u32) {
    // SAFETY: a signal to a thread touches no memory.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGSTOP) };
}

/// The calling process's id.
pub(crate) fn pid() -> libc::pid_t {
    // SAFETY: no preconditions.
    unsafe { libc::getpid() }
}

/// The calling process's mark, by which what it leaves behind is known: its id, when it started (clock ticks since the boot) and the
/// number of its PID namespace.
pub(crate) fn mark() -> String {
    format!("{}-{}-{}", pid(), started(pid()).unwrap_or(0), pid_namespace())
}

/// Whether the process of a [`mark`] is gone, its parts separated as given. False where that cannot be told: in another PID namespace, as a
/// container's, its id means another process.
pub(crate) fn is_gone(mark: &str, separator: char) -> bool {
    let parts: Option<Vec<u64>> = mark.split(separator).map(|part| part.parse().ok()).collect();
    let Some(&[id, since, namespace]) = parts.as_deref() else { return false };
    namespace == pid_namespace() && libc::pid_t::try_from(id).is_ok_and(|id| started(id) != Some(since))
}

/// When a process started, in clock ticks since the boot; none where there is no such process.
fn started(pid: libc::pid_t) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything; the start is the 20th field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether the calling process is in the system's first PID namespace, whose process ids are those of the kernel's events. In a
/// container's they are others.
pub(crate) fn has_event_pids() -> bool {
    // PROC_PID_INIT_INO (include/linux/proc_ns.h)
    pid_namespace() == 0xEFFF_FFFC
}

fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |place| place.ino())
}

/// The process that began the calling process's session.
pub(crate) fn session() -> libc::pid_t {
    // SAFETY: no preconditions.
    unsafe { libc::getsid(0) }
}

/// A pipe: where to read, where to write.
pub(crate) fn pipe() -> io::Result<(c_int, c_int)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` takes two descriptors.
    check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    Ok((ends[0], ends[1]))
}

/// A stream socket pair: where we read, where we write.
pub(crate) fn socket_pair() -> io::Result<(c_int, c_int)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` takes two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) })?;
    Ok((ends[0], ends[1]))
}

/// Closes every descriptor from `first` to `last`; kernels before 5.9 cannot, and keep them open.
pub(crate) fn close_range(first: c_int, last: c_int) {
    // SAFETY: closing descriptors that this program opened and no longer uses.
    unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last as libc::c_uint, 0) };
}

/// One `write(2)`.
#[inline]
pub(crate) fn write(descriptor: c_int, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` is readable for its length.
    let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// One `read(2)`.
#[inline]
pub(crate) fn read(descriptor: c_int, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `bytes` is writable for its length.
    let read = unsafe { libc::read(descriptor, bytes.as_mut_ptr().cast(), bytes.len()) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Sleeps until there is something to read, and leaves it there.
pub(crate) fn poll_readable(descriptor: c_int) -> io::Result<()> {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is one pollfd.
    check(unsafe { libc::poll(&raw mut poll, 1, -1) }).map(drop)
}

/// Sleeps for so many nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn sleep(nanoseconds: u64) {
    let seconds = (nanoseconds / 1_000_000_000) as libc::time_t;
    let mut left = libc::timespec { tv_sec: seconds, tv_nsec: (nanoseconds % 1_000_000_000) as c_long };
    // SAFETY: the request is read and the remainder written before the next round reads it.
    unsafe { while libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const left, &raw mut left) == libc::EINTR {} }
}

/// Sleeps until `CLOCK_MONOTONIC` says so many nanoseconds.
pub(crate) fn sleep_until(nanoseconds: u64) {
    let until = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as c_long,
    };
    let (clock, how) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
    // SAFETY: the time is read; with an absolute time nothing is left to be written.
    unsafe { while libc::clock_nanosleep(clock, how, &raw const until, std::ptr::null_mut()) == libc::EINTR {} }
}

/// The calling thread's id.
pub(crate) fn thread_id() -> libc::pid_t {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// Zeroed memory that children share, mapped until the process ends.
pub(crate) fn map_shared(bytes: usize) -> io::Result<*mut libc::c_void> {
    // SAFETY: a fresh anonymous mapping; nothing else refers to it.
    let memory = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
    };
    if memory == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(memory) }
}

/// Keeps the memory of the calling process in RAM.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: no preconditions.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }).map(drop)
}

/// `set_mempolicy(MPOL_BIND)` of the calling thread; its default where there are no nodes.
pub(crate) fn bind_memory(nodes: &[u32]) -> io::Result<()> {
    let mut mask = [0u64; 16];
    for node in nodes {
        *mask.get_mut(*node as usize / 64).ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node % 64);
    }
    let policy = if nodes.is_empty() { libc::MPOL_DEFAULT } else { libc::MPOL_BIND };
    let bits = if nodes.is_empty() { 0 } else { 64 * mask.len() as c_long };
    // SAFETY: the kernel reads so many bits of the mask.
    check_long(unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, mask.as_ptr(), bits) }).map(drop)
}

/// `sched_yield(2)`.
#[inline]
pub(crate) fn sched_yield() {
    // SAFETY: no preconditions.
    unsafe { libc::sched_yield() };
}

/// Waits for a child of the calling thread itself (`pid` −1: any) to end and collects it: its id and wait status.
pub(crate) fn wait_own(pid: libc::pid_t) -> io::Result<(libc::pid_t, c_int)> {
    let mut status = 0;
    // SAFETY: `status` is an int to write to.
    let pid = check(unsafe { libc::waitpid(pid, &raw mut status, libc::__WNOTHREAD) })?;
    Ok((pid, status))
}

/// Waits for a child to end and leaves it to be collected.
pub(crate) fn await_end(child: libc::pid_t) {
    // SAFETY: all zero bytes are a valid `siginfo_t`, to which the kernel writes.
    unsafe {
        let mut information: libc::siginfo_t = zeroed();
        libc::waitid(libc::P_PID, child as libc::id_t, &raw mut information, libc::WEXITED | libc::WNOWAIT);
    }
}

/// What a wait status says, or nothing for an ordinary end.
pub(crate) fn abnormal(status: c_int) -> Option<String> {
    if libc::WIFSIGNALED(status) {
        Some(format!("killed by signal {}", libc::WTERMSIG(status)))
    } else {
        (libc::WEXITSTATUS(status) != 0).then(|| format!("ended with code {}", libc::WEXITSTATUS(status)))
    }
}

/// Gives the calling process or thread a name.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: the kernel reads a text that a zero byte ends.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_where_none_of_its_start_has_its_id() {
        let namespace = pid_namespace();
        let ours = mark();
        assert!(!is_gone(&ours, '-'));
        assert!(!is_gone(&ours.replace('-', "_"), '_'));
        // Above the highest id there can be (2^22) nothing runs; of our id only one began when we did.
        assert!(is_gone(&format!("4194305-1-{namespace}"), '-'));
        assert!(is_gone(&format!("{}-0-{namespace}", pid()), '-'));
        // Another namespace's ids mean other processes.
        assert!(!is_gone(&format!("4194305-1-{}", namespace + 1), '-'));
        for none in ["", "1", "1-2", "1-2-3-4", "a-b-c", "-1-2-3"] {
            assert!(!is_gone(none, '-'), "{none}");
        }
    }
}
