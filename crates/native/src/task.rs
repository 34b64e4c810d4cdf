//! One task of a run: it takes its operations from its cursor and does them.

use std::ffi::CString;
use std::io;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use schedlab_model::TaskKind;
use schedlab_program::{Cursor, Membership, Op, Program, TemplateId};

use crate::cgroups::Groups;
use crate::network::Listening;
use crate::objects::Objects;
use crate::ops::{Tools, prepare};
use crate::plumbing::Plumbing;
use crate::shared::{Failure, LIVING, REPORTED, Shared, Wanted};
use crate::spin::Spin;
use crate::storage::Stored;
use crate::system::{self, Usage, abnormal, exit_now, monotonic, thread_cpu, usage, wait_own};

/// Stack of a thread; hackbench's have the least that there may be, and only what is touched costs anything.
pub(crate) const STACK: usize = 128 * 1024;

/// What all tasks of a run refer to. It lives until the process ends.
pub(crate) struct World {
    pub(crate) program: &'static Program,
    pub(crate) plumbing: Plumbing,
    pub(crate) shared: Shared,
    pub(crate) objects: Objects,
    pub(crate) files: Vec<Stored>,
    pub(crate) ports: Vec<Listening>,
    pub(crate) groups: Option<Groups>,
    /// Where the workload's device is written to.
    pub(crate) device: libc::c_int,
    /// The CPUs that the run may use.
    pub(crate) cpus: Vec<u32>,
    pub(crate) spin: Spin,
    pub(crate) supervisor: libc::pid_t,
    /// Whether every task reads its delays from `/proc` in the end.
    pub(crate) delays: bool,
    /// Whether tasks may inherit a slice, a parent's or this process's own.
    pub(crate) slices: bool,
    /// Whether a task's CPU time counts from its birth.
    pub(crate) from_birth: bool,
    /// Of each template: the bytes of its longest message.
    pub(crate) longest: Vec<u32>,
}

/// A task before its first operation.
pub(crate) struct Newborn {
    pub(crate) world: &'static World,
    pub(crate) cursor: Cursor,
    pub(crate) template: TemplateId,
    pub(crate) slot: u32,
    /// Whether it is there from the start, and waits at the gate until all such are.
    pub(crate) first: bool,
}

/// What a task has to collect: a process or a thread that it forked.
enum Child {
    Process,
    Thread(libc::pthread_t),
}

pub(crate) struct Task {
    pub(crate) world: &'static World,
    pub(crate) template: TemplateId,
    slot: u32,
    pub(crate) buffer: Vec<u8>,
    pub(crate) tools: Tools,
    /// The group it is in now, where it was ever in one.
    pub(crate) group: Option<Membership>,
    /// For what it draws besides times.
    pub(crate) seed: u64,
    children: Vec<Child>,
    /// Whether this task started the workload's own clock.
    starter: bool,
    messages: u64,
    bytes: u64,
    cpu_before: u64,
    usage_before: Usage,
    delays_before: (u64, u64),
}

/// Notes what failed, tells the supervisor, and ends the process.
pub(crate) fn give_up(world: &World, wanted: Wanted, number: i32, template: TemplateId) -> ! {
    world.shared.fail(Failure { wanted, number, template });
    // SAFETY: signalling the process that started us, which waits for this signal.
    unsafe { libc::kill(world.supervisor, libc::SIGUSR1) };
    exit_now(1)
}

pub(crate) fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

impl Newborn {
    /// The task's whole life, in the process or thread that it is.
    pub(crate) fn live(self) {
        let Self { world, mut cursor, template, slot, first } = self;
        prepare(world, template);
        // A recording of the run then tells one kind of task from another.
        system::set_name(&task_name(&world.program.template(template).name));
        let mut task = Task {
            world,
            template,
            slot,
            buffer: vec![b'-'; world.longest[template.index()] as usize],
            tools: Tools::default(),
            group: world.program.template(template).group,
            seed: cursor.key(),
            children: Vec::new(),
            starter: false,
            messages: 0,
            bytes: 0,
            cpu_before: 0,
            usage_before: Usage::default(),
            delays_before: (0, 0),
        };
        if first {
            world.shared.header().arrived.fetch_add(1, SeqCst);
            // SAFETY: signalling the process that started us, which waits for this signal.
            unsafe { libc::kill(world.supervisor, libc::SIGUSR2) };
            world.shared.await_gate();
            world.shared.slot(slot).start.store(monotonic(), Relaxed);
        } else {
            // Maps the page now, not while the clock runs.
            world.shared.slot(slot).end.store(0, Relaxed);
        }
        // What making and setting up the task took is not the task's doing. One that others make in the run waits for its CPU from then on.
        if world.delays && first {
            task.delays_before = delays().unwrap_or_default();
        }
        task.usage_before = usage();
        task.begin();
        task.cpu_before = if world.from_birth { 0 } else { thread_cpu() };
        world.shared.slot(slot).before[0].store(task.cpu_before, Relaxed);
        loop {
            match cursor.next(world.program) {
                Op::Run(time) => drop(world.spin.run(time.as_nanos())),
                Op::Sleep(time) => system::sleep(time.as_nanos()),
                Op::Yield => system::sched_yield(),
                Op::Write { channel, bytes } => task.write(channel, bytes),
                Op::Read { channel, bytes } => task.read(channel, bytes),
                Op::OpenLatch(latch) => task.open_latch(latch),
                Op::AwaitLatch(latch) => task.await_latch(latch),
                Op::Fork { template, instance } => task.fork(&cursor, template, instance),
                Op::Join => task.join(),
                Op::Mark(mark) => task.mark(mark),
                Op::Exit => break,
                other => task.act(other),
            }
        }
        task.report();
        // Its children die with it, so it stays until they have ended; nothing of that is counted.
        task.join();
    }
}

impl Task {
    pub(crate) fn fail(&self, wanted: Wanted, error: &io::Error) -> ! {
        give_up(self.world, wanted, number(error), self.template)
    }

    #[inline]
    fn write(&mut self, channel: u32, bytes: u32) {
        let descriptor = self.world.plumbing.channels[channel as usize].write;
        let mut left = &self.buffer[..bytes as usize];
        while !left.is_empty() {
            match system::write(descriptor, left) {
                Ok(written) => left = &left[written..],
                Err(error) => self.fail(Wanted::Write, &error),
            }
        }
    }

    #[inline]
    fn read(&mut self, channel: u32, bytes: u32) {
        let descriptor = self.world.plumbing.channels[channel as usize].read;
        let mut done = 0;
        while done < bytes as usize {
            match system::read(descriptor, &mut self.buffer[done..bytes as usize]) {
                Ok(0) => self.fail(Wanted::Read, &io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) => self.fail(Wanted::Read, &error),
            }
        }
        self.count_message(bytes);
    }

    /// Counts a message that was read in full, where the supervisor sees it.
    #[inline]
    pub(crate) fn count_message(&mut self, bytes: u32) {
        self.messages += 1;
        self.bytes += u64::from(bytes);
        let slot = self.world.shared.slot(self.slot);
        slot.messages.store(self.messages, Relaxed);
        slot.bytes.store(self.bytes, Relaxed);
    }

    /// Stores its pid, its thread id and its counters, for a supervisor that may have to end it.
    fn begin(&self) {
        let slot = self.world.shared.slot(self.slot);
        slot.process.store(system::pid() as u32, Relaxed);
        slot.thread.store(system::thread_id() as u32, Relaxed);
        let Usage { user, system, voluntary, involuntary } = self.usage_before;
        let (wait, delays) = self.delays_before;
        for (place, value) in slot.before[1..].iter().zip([user, system, voluntary, involuntary, wait, delays]) {
            place.store(value, Relaxed);
        }
        if !self.world.program.sessions().is_empty() {
            slot.leader.store(system::session() as u32, Relaxed);
        }
        self.note_group();
        slot.state.store(LIVING, SeqCst);
    }

    /// Leaves in its slot which group it is in.
    pub(crate) fn note_group(&self) {
        let number = match self.group {
            Some(Membership::Group(group)) => group + 1,
            _ => 0,
        };
        self.world.shared.slot(self.slot).group.store(number, Relaxed);
    }

    fn open_latch(&mut self, latch: u32) {
        if let Err(error) = system::write(self.world.plumbing.latches[latch as usize].write, b"*") {
            self.fail(Wanted::Write, &error);
        }
    }

    fn await_latch(&mut self, latch: u32) {
        if let Err(error) = system::poll_readable(self.world.plumbing.latches[latch as usize].read) {
            self.fail(Wanted::Poll, &error);
        }
    }

    fn fork(&mut self, cursor: &Cursor, template: TemplateId, instance: u32) {
        let world = self.world;
        if world.program.is_fork_too_many(self.template, template, instance) {
            give_up(world, Wanted::TooMany, 0, self.template);
        }
        let slot = world.shared.take(template, instance, monotonic());
        let cursor = cursor.child(world.program, template, instance);
        let newborn = Newborn { world, cursor, template, slot, first: false };
        let child = match world.program.template(template).kind {
            TaskKind::Process => start_process(newborn).map(|()| Child::Process),
            TaskKind::Thread => start_thread(newborn).map(Child::Thread),
        };
        match child {
            Ok(child) => self.children.push(child),
            Err((wanted, error)) => give_up(world, wanted, number(&error), template),
        }
    }

    /// Collects processes in the order in which they end and threads in the order in which they were made, as hackbench does.
    fn join(&mut self) {
        for child in self.children.drain(..) {
            match child {
                Child::Process => match wait_own(-1) {
                    Ok((_, status)) if abnormal(status).is_some() => {
                        give_up(self.world, Wanted::Child, status, self.template)
                    }
                    Ok(_) => {}
                    Err(error) => give_up(self.world, Wanted::Wait, number(&error), self.template),
                },
                Child::Thread(thread) => {
                    // SAFETY: the thread was made joinable and is joined once.
                    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
                }
            }
        }
    }

    fn mark(&mut self, mark: u32) {
        if self.world.program.turnaround_mark() == Some(mark) {
            let start = &self.world.shared.header().clock_start;
            self.starter |= start.compare_exchange(0, monotonic(), SeqCst, SeqCst).is_ok();
        }
    }

    /// Leaves what the task came to in its slot.
    fn report(&mut self) {
        let end = monotonic();
        let run = thread_cpu().saturating_sub(self.cpu_before);
        let usage = usage();
        let slot = self.world.shared.slot(self.slot);
        if self.starter {
            self.world.shared.header().clock_end.store(end, SeqCst);
        }
        slot.end.store(end, Relaxed);
        slot.run.store(run, Relaxed);
        slot.user.store(usage.user.saturating_sub(self.usage_before.user), Relaxed);
        slot.system.store(usage.system.saturating_sub(self.usage_before.system), Relaxed);
        slot.voluntary.store(usage.voluntary.saturating_sub(self.usage_before.voluntary), Relaxed);
        slot.involuntary.store(usage.involuntary.saturating_sub(self.usage_before.involuntary), Relaxed);
        slot.messages.store(self.messages, Relaxed);
        slot.bytes.store(self.bytes, Relaxed);
        slot.state.store(REPORTED, SeqCst);
        if self.world.delays {
            let (wait, delays) = delays().unwrap_or_default();
            slot.wait.store(wait.saturating_sub(self.delays_before.0), Relaxed);
            slot.delays.store(delays.saturating_sub(self.delays_before.1), Relaxed);
        }
    }
}

/// The name that the kernel shows of a task of a template; it keeps 15 bytes.
fn task_name(template: &str) -> CString {
    let bytes: Vec<u8> = template.bytes().filter(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// Time spent runnable but not running, and how often the calling thread got a CPU: the last two of the three numbers in its
/// `schedstat` (`Documentation/scheduler/sched-stats.rst`).
pub(crate) fn delays() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_ascii_whitespace().skip(1).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Starts a task that is a process.
pub(crate) fn start_process(newborn: Newborn) -> Result<(), (Wanted, io::Error)> {
    let parent = system::pid();
    // SAFETY: the child uses system calls and glibc's allocator, which glibc's `fork` leaves usable.
    match unsafe { system::fork() } {
        Ok(0) => {
            let (world, template) = (newborn.world, newborn.template);
            if system::die_with(parent) {
                world.plumbing.close_unused(template);
                newborn.live();
            }
            exit_now(0)
        }
        Ok(_) => Ok(()),
        Err(error) => Err((Wanted::Fork, error)),
    }
}

/// Starts a task that is a thread of the calling process.
pub(crate) fn start_thread(newborn: Newborn) -> Result<libc::pthread_t, (Wanted, io::Error)> {
    extern "C" fn body(newborn: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the box that `start_thread` gave away, taken back once.
        let newborn = unsafe { Box::from_raw(newborn.cast::<Newborn>()) };
        newborn.live();
        std::ptr::null_mut()
    }
    let newborn = Box::into_raw(Box::new(newborn));
    // SAFETY: the attributes are initialised before and destroyed after their use, and `newborn` is taken over by `body`, or, where no
    // thread was made, by us again.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
        let mut thread: libc::pthread_t = 0;
        let failed = libc::pthread_create(&raw mut thread, &raw const attributes, body, newborn.cast());
        libc::pthread_attr_destroy(&raw mut attributes);
        if failed == 0 {
            return Ok(thread);
        }
        drop(Box::from_raw(newborn));
        Err((Wanted::Thread, io::Error::from_raw_os_error(failed)))
    }
}

/// The process of all first tasks that are threads.
pub(crate) fn host(threads: Vec<Newborn>) {
    let mut started = Vec::with_capacity(threads.len());
    for newborn in threads {
        let (world, template) = (newborn.world, newborn.template);
        match start_thread(newborn) {
            Ok(thread) => started.push(thread),
            Err((wanted, error)) => give_up(world, wanted, error.raw_os_error().unwrap_or(libc::EIO), template),
        }
    }
    for thread in started {
        // SAFETY: made joinable above, joined once.
        unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    }
}
