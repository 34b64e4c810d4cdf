//! Starts a run, watches over it, and collects its outcome.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;

use schedlab_model::{Begun, Outcome, Policy, TaskKind, Time};
use schedlab_program::{Cursor, Op, Program, Template, TemplateId};

use crate::NativeError;
use crate::attributes::has_own_slice;
use crate::cgroups::Groups;
use crate::error::during;
use crate::network::Listening;
use crate::objects::Objects;
use crate::outcome;
use crate::plumbing::Plumbing;
use crate::preflight::{check, explain};
use crate::sessions::lead;
use crate::shared::{Failure, Shared, Wanted};
use crate::spin::Spin;
use crate::stop::stop_tasks;
use crate::storage;
use crate::system::{self, SchedAttr, abnormal, exit_now, monotonic, set_limit};
use crate::task::{Newborn, World, give_up, host};
use crate::watch::Watch;

/// The options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// Seed of every random stream.
    pub seed: u64,
    /// How long the run may take before all its tasks are killed.
    pub timeout: Time,
    /// Whether every task reads, as it ends, how long it waited for a CPU: a few microseconds a task.
    pub delays: bool,
    /// Whether the CPU time that a task takes from its birth to its first operation is a part of its own.
    pub from_birth: bool,
    /// Where the workload's files are made; they have no names.
    pub directory: PathBuf,
}

impl Default for RunOptions {
    /// Seed 1, a minute, no delays, CPU time from the first operation on, the directory for temporary files.
    fn default() -> Self {
        Self {
            seed: 1,
            timeout: Time::from_millis(60_000),
            delays: false,
            from_birth: false,
            directory: std::env::temp_dir(),
        }
    }
}

/// Runs `program` on the running kernel, with real processes, threads, pipes and sockets, until every task has ended.
///
/// Call it once a process, before any thread was made: the calling process becomes the supervisor of the run. It blocks the signals
/// that end or concern it, adopts orphans, raises its limit of open files, and lets its sleeps end at the nanosecond. Whatever
/// happens, all tasks have ended and are collected when it returns; should the supervisor itself be killed, they die with it.
///
/// # Errors
/// [`NativeError`]: what is not permitted, too many files or processes, the time limit, a signal.
pub fn run(program: Program, options: &RunOptions) -> Result<Outcome, NativeError> {
    let deadline = monotonic().saturating_add(options.timeout.as_nanos());
    check(&program)?;
    let cpus = system::allowed_cpus();
    // First of all, before there is anything that it should not have.
    let groups = Groups::make(&program)?;
    let parts = match equip(&program, options) {
        Ok(parts) => parts,
        Err(error) => {
            if let Some(groups) = &groups {
                groups.remove();
            }
            return Err(error);
        }
    };
    let longest = (0..program.templates().len() as u32).map(|id| longest_message(&program, TemplateId(id))).collect();
    let slices = has_slices(&program) || has_own_slice();
    // The tasks, threads among them, refer to these until the process ends.
    let program: &'static Program = Box::leak(Box::new(program));
    let Parts { shared, objects, plumbing, files, ports, device } = parts;
    let world: &'static World = Box::leak(Box::new(World {
        program,
        plumbing,
        shared,
        objects,
        files,
        ports,
        groups,
        device,
        cpus,
        spin: Spin::calibrate(),
        supervisor: system::pid(),
        delays: options.delays,
        slices,
        from_birth: options.from_birth,
        longest,
    }));
    let ran = supervise(world, options, deadline);
    if let Some(groups) = &world.groups {
        groups.remove();
    }
    ran
}

/// Whether any of its tasks has a slice at any time.
fn has_slices(program: &Program) -> bool {
    let from_start =
        program.templates().iter().any(|template| template.attributes.as_ref().is_some_and(|own| own.slice.is_some()));
    from_start || !program.changes().is_empty()
}

/// What tasks share.
struct Parts {
    shared: Shared,
    objects: Objects,
    plumbing: Plumbing,
    files: Vec<storage::Stored>,
    ports: Vec<Listening>,
    device: libc::c_int,
}

fn equip(program: &Program, options: &RunOptions) -> Result<Parts, NativeError> {
    let ports = || program.ports().iter().map(|_| Listening::open()).collect::<io::Result<Vec<_>>>();
    Ok(Parts {
        shared: Shared::map(program.total_tasks() as usize).map_err(during("mapping shared memory"))?,
        objects: Objects::make(program).map_err(during("mapping shared memory"))?,
        plumbing: Plumbing::lay(program)?,
        files: storage::make(program, &options.directory)?,
        ports: ports().map_err(during("listening on a port"))?,
        device: open_device(program)?,
    })
}

/// Opens the workload's device where a task writes to it.
fn open_device(program: &Program) -> Result<libc::c_int, NativeError> {
    let writes = |id: u32| program.operations(TemplateId(id)).any(|op| matches!(op, Op::Device { .. }));
    if !(0..program.templates().len() as u32).any(writes) {
        return Ok(-1);
    }
    let path = program.io_device();
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path);
    file.map(std::os::fd::IntoRawFd::into_raw_fd)
        .map_err(|error| NativeError::File { file: path.to_owned(), why: format!("the workload's io_device: {error}") })
}

fn supervise(world: &'static World, options: &RunOptions, deadline: u64) -> Result<Outcome, NativeError> {
    let mut supervisor = Supervisor::new(world, options, deadline)?;
    let ran = supervisor.watch(options);
    supervisor.end_all();
    let disturbance = supervisor.watch.as_ref().and_then(|watch| watch.end(world));
    match (world.shared.failure(), ran) {
        (Some(failure), Ok(_) | Err(NativeError::Task { .. })) => Err(explain(world.program, failure)),
        (_, Err(error)) => Err(error),
        (None, Ok(opened)) => {
            Ok(outcome::gather(world, &supervisor.sessions, begun(opened), options.seed, disturbance))
        }
    }
}

/// Ticks that are waited for until no other task had the CPU as one came, and nanoseconds that a tick takes at most then.
const TICKS: usize = 8;
const ALONE: u64 = 100_000;

/// When the gate was opened. How long after a tick that was follows from a later one: all ticks are a period apart.
fn begun(opened: u64) -> Begun {
    let mut tick = 0;
    for _ in 0..TICKS {
        let [before, after] = system::await_tick();
        // What the tick's own work takes, and tasks that it wakes, comes after it.
        tick = before;
        if after - before < ALONE {
            break;
        }
    }
    let period = 1_000_000_000 / u64::from(system::hz());
    let phase_ns = (period - tick.saturating_sub(opened) % period) % period;
    Begun { monotonic_ns: opened, phase_ns }
}

fn longest_message(program: &Program, template: TemplateId) -> u32 {
    let bytes = |op| match op {
        Op::Write { bytes, .. } | Op::Read { bytes, .. } | Op::Accept { bytes, .. } | Op::Reply(bytes) => bytes,
        Op::Request(request) => {
            let request = program.requests()[request as usize];
            request.bytes.max(request.reply)
        }
        Op::Device { chunk, bytes } => u64::from(chunk).min(bytes) as u32,
        _ => 0,
    };
    program.operations(template).map(bytes).max().unwrap_or(0)
}

/// The highest real-time priority that the program asks for.
fn highest_priority(program: &Program) -> Option<u8> {
    let asked = program.templates().iter().filter_map(|template| match template.attributes.as_ref()?.policy {
        Policy::Fifo(priority) | Policy::Rr(priority) => Some(priority),
        _ => None,
    });
    asked.max()
}

/// The signals that end a run.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The parent of a run's first tasks.
struct Supervisor {
    world: &'static World,
    /// The process group of all tasks that are in no session of the workload's, once there is one.
    group: Option<libc::pid_t>,
    /// Leaders of sessions, and so of process groups, that have not been collected.
    leaders: Vec<libc::pid_t>,
    /// The leader of each session of the workload's.
    sessions: Vec<(libc::pid_t, u32)>,
    signals: libc::sigset_t,
    /// First tasks to arrive at the gate.
    first: u32,
    /// When the run has to be over, its set-up included.
    deadline: u64,
    /// CPU time that other tasks take, once the gate is open.
    watch: Option<Watch>,
}

impl Supervisor {
    fn new(world: &'static World, options: &RunOptions, deadline: u64) -> Result<Self, NativeError> {
        let signals = block_signals();
        // SAFETY: plain switches of the calling process: adopt orphans so that all can be collected, and let timers end
        // when they are due and not up to 50 us later.
        unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        }
        // A supervisor that ends a run at its time must not wait for the tasks that it ends.
        let ends = world.program.duration().is_some().then_some(0);
        if let Some(highest) = highest_priority(world.program).or(ends) {
            stay_above(highest, options.timeout);
        }
        let mut supervisor = Self {
            world,
            group: None,
            leaders: Vec::new(),
            sessions: Vec::new(),
            signals,
            first: 0,
            deadline,
            watch: None,
        };
        let started = supervisor.start(options);
        if let Err(error) = started {
            supervisor.end_all();
            return Err(error);
        }
        Ok(supervisor)
    }

    /// Makes the first tasks: each process by itself, all threads in one further process, which is no task; those of a session below
    /// a process that begins it.
    fn start(&mut self, options: &RunOptions) -> Result<(), NativeError> {
        let world = self.world;
        let mut threads = Vec::new();
        let mut sessions: BTreeMap<u32, Vec<Newborn>> = BTreeMap::new();
        for (template, instance) in world.program.roots() {
            let slot = world.shared.take(template, instance, monotonic());
            let cursor = Cursor::root(world.program, template, instance, options.seed);
            let newborn = Newborn { world, cursor, template, slot, first: true };
            self.first += 1;
            let Template { kind, session, .. } = world.program.template(template);
            if let Some(session) = session {
                sessions.entry(*session).or_default().push(newborn);
            } else if *kind == TaskKind::Thread {
                threads.push(newborn);
            } else {
                self.fork(template, false, || {
                    world.plumbing.close_unused(template);
                    newborn.live();
                })?;
                self.check_start(options)?;
            }
        }
        if let Some(newborn) = threads.first() {
            let template = newborn.template;
            self.fork(template, false, || host(threads))?;
        }
        for (session, tasks) in sessions {
            self.fork(tasks[0].template, true, || lead(tasks))?;
            self.sessions.extend(self.leaders.last().map(|leader| (*leader, session)));
        }
        Ok(())
    }

    /// Ends a start that takes too long, that was interrupted, or whose first tasks failed.
    fn check_start(&self, options: &RunOptions) -> Result<(), NativeError> {
        if let Some(failure) = self.world.shared.failure() {
            return Err(explain(self.world.program, failure));
        }
        if monotonic() >= self.deadline {
            return Err(NativeError::Timeout(options.timeout));
        }
        // SAFETY: all zero bytes are a valid set, which the call overwrites.
        let came = unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            ENDING.into_iter().find(|signal| libc::sigismember(&raw const pending, *signal) == 1)
        };
        came.map_or(Ok(()), |signal| Err(NativeError::Interrupted(signal)))
    }

    /// Forks a process of the tasks' group, or one that will begin a session and so leads no group, that does `body` and ends.
    fn fork(&mut self, template: TemplateId, leads: bool, body: impl FnOnce()) -> Result<(), NativeError> {
        let group = self.group.unwrap_or(0);
        // SAFETY: `run` asks for a process without other threads.
        match unsafe { system::fork() } {
            Ok(0) => {
                if !leads {
                    // SAFETY: moving the calling process to the tasks' group.
                    unsafe { libc::setpgid(0, group) };
                }
                if system::die_with(self.world.supervisor) {
                    if let Some(groups) = &self.world.groups
                        && let Err(error) = groups.enter()
                    {
                        give_up(self.world, Wanted::Group, error.raw_os_error().unwrap_or(libc::EIO), template);
                    }
                    body();
                }
                exit_now(0)
            }
            Ok(pid) if leads => {
                self.leaders.push(pid);
                Ok(())
            }
            Ok(pid) => {
                // Parent and child both do it, so that it is done whichever runs first.
                // SAFETY: a child that has not been collected.
                unsafe { libc::setpgid(pid, if group == 0 { pid } else { group }) };
                self.group.get_or_insert(pid);
                Ok(())
            }
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(libc::EIO);
                Err(explain(self.world.program, Failure { wanted: Wanted::Fork, number, template }))
            }
        }
    }

    /// Opens the gate once all first tasks wait there, and waits until all have ended. Returns when the gate was opened.
    fn watch(&mut self, options: &RunOptions) -> Result<u64, NativeError> {
        let shared = &self.world.shared;
        let deadline = self.deadline;
        let mut opened = None;
        loop {
            if shared.failure().is_some() {
                return Ok(opened.unwrap_or(0));
            }
            if opened.is_none() && shared.header().arrived.load(SeqCst) == self.first {
                self.watch = Watch::begin();
                let now = monotonic();
                opened = Some(now);
                shared.open_gate(now);
            }
            match self.collect() {
                // The kernel ended a task that computed too long before we could.
                Err(_) if monotonic() >= deadline => return Err(NativeError::Timeout(options.timeout)),
                Err(error) => return Err(error),
                Ok(true) => return Ok(opened.unwrap_or(0)),
                Ok(false) => {}
            }
            let over = opened.zip(self.world.program.duration()).map(|(opened, duration)| opened + duration.as_nanos());
            match self.next_signal(deadline.min(over.unwrap_or(u64::MAX)))? {
                None if over.is_some_and(|over| over <= deadline) => {
                    stop_tasks(self.world, self.group.iter().chain(&self.leaders));
                    return Ok(opened.unwrap_or(0));
                }
                None => return Err(NativeError::Timeout(options.timeout)),
                Some(signal) if ENDING.contains(&signal) => return Err(NativeError::Interrupted(signal)),
                Some(_) => {}
            }
        }
    }

    /// Collects ended children. True once there are none left.
    fn collect(&mut self) -> Result<bool, NativeError> {
        loop {
            let mut status = 0;
            // SAFETY: `status` is an int to write to.
            match system::check(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }) {
                Ok(0) => return Ok(false),
                Ok(pid) => {
                    self.leaders.retain(|leader| *leader != pid);
                    if let Some(what) = abnormal(status) {
                        return Err(NativeError::Task { task: self.world.program.name().to_owned(), what });
                    }
                }
                Err(_) => return Ok(true),
            }
        }
    }

    /// The next signal that concerns the run, or nothing at the deadline.
    fn next_signal(&self, deadline: u64) -> Result<Option<i32>, NativeError> {
        loop {
            let left = deadline.saturating_sub(monotonic());
            let left = libc::timespec {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: the set and the time are read; no information about the signal is asked for.
            let signal = unsafe { libc::sigtimedwait(&raw const self.signals, std::ptr::null_mut(), &raw const left) };
            match system::check(signal) {
                Ok(signal) => return Ok(Some(signal)),
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(during("waiting for a signal")(error)),
            }
        }
    }

    /// Kills and collects whatever is left.
    fn end_all(&mut self) {
        loop {
            if let Some(group) = self.group {
                // SAFETY: the group is the tasks' own; its first process was ours, and while any child is left its number is not reused.
                unsafe { libc::kill(-group, libc::SIGKILL) };
            }
            for leader in &self.leaders {
                // SAFETY: a child that has not been collected, and the group that it leads unless it had no time to.
                unsafe {
                    libc::kill(-leader, libc::SIGKILL);
                    libc::kill(*leader, libc::SIGKILL);
                }
            }
            let mut status = 0;
            // SAFETY: `status` is an int to write to.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
            if pid < 0 {
                return;
            }
            self.leaders.retain(|leader| *leader != pid);
        }
    }
}

/// Blocks the signals that the supervisor waits for. Tasks inherit that: they are killed by SIGKILL alone.
fn block_signals() -> libc::sigset_t {
    // SAFETY: `set` is initialised before its use; blocking signals in the calling thread.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in ENDING.into_iter().chain([libc::SIGCHLD, libc::SIGUSR1, libc::SIGUSR2]) {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    }
}

/// Keeps a run with real-time tasks from locking up the machine: the supervisor stands above them (its children start without the
/// priority), and the kernel ends a task that computes longer than the whole run may take. Where this is not permitted, the tasks
/// will not get their policies either.
fn stay_above(highest: u8, timeout: Time) {
    let priority = u32::from(highest).saturating_add(1).min(99);
    let flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    let _ =
        system::sched_setattr(SchedAttr { policy: libc::SCHED_FIFO as u32, flags, priority, ..SchedAttr::default() });
    // Later than the supervisor would do it, which cannot preempt tasks of the highest priority.
    let microseconds = timeout.saturating_add(Time::from_millis(1_000)).as_nanos() / 1_000;
    let _ = set_limit(libc::RLIMIT_RTTIME, microseconds, microseconds);
}
