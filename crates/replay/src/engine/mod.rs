//! The replay of recordings that tell each task's state before them (`k_snap`): all classes and groups on one CPU, the fair class and its
//! groups on several.
//!
//! Each step drives the sequence of `core.c` that it stands for, at the recorded clock. What a probe shows of the state before the step is
//! compared before ours runs, what it shows of the state after is compared after. On several CPUs the kernel's placement stands: each
//! wake-up, and each task that balancing took elsewhere, is done on the CPU that the recording tells. So every CPU's picks, ticks and
//! preemptions are compared given that, and at each choice of a CPU ours is asked on our state and compared with the kernel's.

mod addresses;
mod attribute_changes;
mod balance;
mod bandwidth;
mod compare;
mod departures;
mod groups;
mod limits;
mod one_cpu;
mod schedule;
mod several_cpus;
mod start;
mod start_several;
mod wake;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{Attributes, CpuId, TaskId, Time};
use schedlab_sched::{CfsRqId, Clocks, EntityId, GroupId, Rules, Sched};
use schedlab_trace::{Pid, Record, RecordKind};

use crate::queue_order::{self, queue_lines};
use crate::read::flags::FlagBits;
use crate::read::section::Entry;
use crate::recorded_decider::RecordedDecider;
use crate::report::{Move, Report};
use crate::settings::{Averages, Settings};
use crate::task_map::TaskMap;

pub(crate) use one_cpu::{concerns as tells_of_states, replay as replay_one_cpu};
pub(crate) use several_cpus::{concerns as of_several_cpus, replay as replay_several_cpus};

/// What a CPU is doing.
#[derive(Debug, Clone)]
struct Cpu {
    clocks: Clocks,
    /// Tasks on their way to it (`ttwu_pending`).
    pending: BTreeSet<TaskId>,
    /// The running task was dequeued, and the CPU looks for work.
    searches: bool,
    /// The last line of the step that was done on its queue last, and who did it.
    until: (u64, usize),
    /// It looks at other CPUs for a task to take, and will take or push one.
    asks: Vec<balance::Ask>,
    /// The child that was placed as it was forked, before the event that tells of it (CFS).
    unborn: Option<TaskId>,
    /// What the next child is set back to.
    reset_on_fork: Option<Attributes>,
    /// The high-resolution tick has expired (`hrtick`).
    slice_ends: bool,
    /// Whether the fair server's and the real-time bandwidth's state was told.
    server_known: bool,
    rt_known: bool,
    /// When the fair server's timer expires by our rules, where that depends on when it was armed before the recording.
    server_timer: Option<u64>,
}

impl Cpu {
    fn new() -> Self {
        Self {
            clocks: Clocks::all(Time::from_nanos(1)),
            pending: BTreeSet::new(),
            searches: false,
            until: (0, 0),
            asks: Vec::new(),
            unborn: None,
            reset_on_fork: None,
            slice_ends: false,
            server_known: false,
            rt_known: false,
            server_timer: None,
        }
    }
}

/// Load, runnable time and utilisation as they came nearest to what was looked at, once they were known.
type Nearest = Option<[u64; 3]>;

/// Our side of the replay.
struct Engine<'a> {
    sched: Sched<RecordedDecider>,
    settings: &'a Settings,
    flags: FlagBits,
    tasks: TaskMap,
    groups: groups::Groups,
    /// The task that records, above all others.
    recorder: Option<TaskId>,
    cpus: Vec<Cpu>,
    /// Tasks that were placed and not picked since, with the naive rule's place.
    placed: BTreeMap<TaskId, u64>,
    /// When each runnable task began to wait: the naive rule of the higher classes is first come, first served.
    waiting_since: BTreeMap<TaskId, u64>,
    sequence: u64,
    /// Tasks that wake on another CPU than they slept on, and are not queued there yet.
    migrating: BTreeSet<TaskId>,
    /// By how much less the virtual time of a task that wakes elsewhere may be counted.
    either: BTreeMap<TaskId, u64>,
    /// By queue, its least virtual time before what ran was charged last, and after that (CFS).
    least: BTreeMap<CfsRqId, departures::Least>,
    /// Loads that leave a queue's account.
    leaving: Vec<departures::Leaving>,
    /// Tasks that were taken off one CPU's queue and not put on another's yet.
    detached: BTreeSet<TaskId>,
    /// Tasks that were forked and not woken yet.
    newborn: BTreeSet<TaskId>,
    /// What was told of a task, until all of it was.
    told: BTreeMap<Pid, [Option<&'a Record>; 3]>,
    /// Tasks of the stop class, which is not probed: they run before all others.
    stoppers: BTreeSet<TaskId>,
    /// Tasks whose state the recording never told before it concerned them.
    guessed: BTreeSet<TaskId>,
    /// Tasks that were queued when they were told of: in which order equal ones came is not.
    unordered: BTreeSet<TaskId>,
    /// Tasks that end.
    exiting: BTreeSet<Pid>,
    /// Tasks that ran for the last time and whose load is still their queue's.
    dead: BTreeMap<Pid, TaskId>,
    /// Who entered `sched_yield(2)` and has not done so yet.
    yielding: BTreeSet<Pid>,
    /// The load averages that the recorder is looking at, and ours that came nearest since it began.
    looked: Option<(&'a [Averages], Vec<Nearest>)>,
    /// A number of ticks that was told (`jiffies`), and the tick of the recording's clock in which that was.
    jiffies: Option<(u64, u64)>,
    /// CPUs whose stopper was woken to push a task, and has not run yet.
    pushing: BTreeSet<CpuId>,
    /// By CPU, when its queue is locked: from which line to which.
    locked: Vec<Vec<(u64, u64)>>,
    /// The CPU that is about to be balanced, by the recording.
    due: Option<balance::Due>,
    /// Every task was told of, and the workload has begun.
    begun: bool,
    line: u64,
    by: usize,
    time: Time,
    recorded: Vec<&'a Record>,
    /// What comes after the step, on the CPU that did it.
    ahead: &'a [Entry<'a>],
    report: Report,
}

impl<'a> Engine<'a> {
    fn new(settings: &'a Settings, rules: Rules, cpus: u32, report: Report) -> Self {
        let mut sched = Sched::new(rules, cpus, RecordedDecider::default());
        sched.expect_slices();
        if cpus > 1 {
            sched.set_topology(&settings.topology, 0, 0);
            sched.follow_balancing();
        }
        Self {
            sched,
            settings,
            flags: settings.flags(),
            tasks: TaskMap::default(),
            groups: groups::Groups::default(),
            recorder: None,
            cpus: vec![Cpu::new(); cpus as usize],
            placed: BTreeMap::new(),
            waiting_since: BTreeMap::new(),
            sequence: 0,
            migrating: BTreeSet::new(),
            either: BTreeMap::new(),
            least: BTreeMap::new(),
            leaving: Vec::new(),
            detached: BTreeSet::new(),
            newborn: BTreeSet::new(),
            told: BTreeMap::new(),
            stoppers: BTreeSet::new(),
            guessed: BTreeSet::new(),
            unordered: BTreeSet::new(),
            exiting: BTreeSet::new(),
            dead: BTreeMap::new(),
            yielding: BTreeSet::new(),
            looked: None,
            jiffies: None,
            due: None,
            pushing: BTreeSet::new(),
            locked: Vec::new(),
            begun: false,
            line: 0,
            by: 0,
            time: Time::ZERO,
            recorded: Vec::new(),
            ahead: &[],
            report,
        }
    }

    /// Whether there is one CPU: then every class is followed, and only the recorder runs while it takes the snapshot of the tasks.
    fn alone(&self) -> bool {
        self.cpus.len() == 1
    }

    /// Whether what is shown can be compared by now.
    fn compares(&self) -> bool {
        self.begun || self.alone()
    }

    /// The report gets the reasons of the step's decisions, unless it only tells of a state.
    fn keep_reasons(&mut self, tells_a_state: bool) {
        let reasons = self.sched.decider.take_reasons();
        if !tells_a_state {
            self.report.keep_reasons(self.time, reasons, |task| self.tasks.pid(task));
        }
    }

    fn eevdf(&self) -> bool {
        self.sched.rules().eevdf
    }

    fn pid(&self, task: TaskId) -> Pid {
        self.tasks.pid(task)
    }

    fn task_of(&self, pid: Pid) -> Option<TaskId> {
        self.tasks.of_pid_or_idle(pid)
    }

    fn task_of_entity(&self, entity: EntityId) -> Option<TaskId> {
        self.tasks.of_entity(entity)
    }

    fn is_fair(&self, task: TaskId) -> bool {
        queue_order::is_fair(&self.sched, task)
    }

    fn verifiable(&self, task: TaskId) -> bool {
        !self.guessed.contains(&task)
    }

    fn add(&mut self, pid: Pid, attributes: &Attributes, group: GroupId) -> TaskId {
        let task = self.sched.new_task(attributes);
        self.bind(pid, task);
        if group != GroupId::ROOT {
            self.move_task(task, group);
        }
        task
    }

    fn move_task(&mut self, task: TaskId, group: GroupId) {
        self.sched.sched_move_task(task, group);
        if self.settings.reasons {
            let groups = self.sched.groups_of(task).map(|group| group.0).collect();
            self.report.moves.push(Move { time: self.time, pid: self.tasks.pid(task), groups });
        }
    }

    fn bind(&mut self, pid: Pid, task: TaskId) {
        self.tasks.bind(pid, task, self.sched.task(task).se);
        self.report.tasks += 1;
    }

    /// Gives a queue the step's clocks: the last ones that its probes show, for some come before the clock is read.
    fn advance(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let clocks = &mut self.cpus[cpu.index()].clocks;
        for entry in step {
            let own = entry.record.number("cpu").is_none_or(|named| named == u64::from(cpu.0));
            let Some(shown) = entry.record.clocks.filter(|_| own) else { continue };
            let passed = shown.task.saturating_sub(clocks.clock_task.as_nanos());
            let clock = shown.clock.unwrap_or(clocks.clock.as_nanos() + passed).max(clocks.clock.as_nanos());
            let task = shown.task.max(clocks.clock_task.as_nanos());
            clocks.clock = Time::from_nanos(clock);
            (clocks.clock_task, clocks.clock_pelt) = (Time::from_nanos(task), Time::from_nanos(task));
        }
        let clocks = *clocks;
        self.sched.set_clocks(cpu, clocks);
        if !self.alone() {
            self.set_machine_clock(clocks.clock);
        }
    }

    /// The same where only the task clock is known.
    fn advance_to(&mut self, cpu: CpuId, task: u64) {
        let clocks = &mut self.cpus[cpu.index()].clocks;
        let passed = task.saturating_sub(clocks.clock_task.as_nanos());
        clocks.clock = Time::from_nanos(clocks.clock.as_nanos() + passed);
        clocks.clock_task = Time::from_nanos(clocks.clock_task.as_nanos() + passed);
        clocks.clock_pelt = clocks.clock_task;
        let clocks = *clocks;
        self.sched.set_clocks(cpu, clocks);
    }

    /// The time on all CPUs. Ticks are counted by the time of day, in which the recording's clock is, and begin with its multiples: 6.4 on,
    /// and point releases of others (`tick_setup_device`).
    fn set_machine_clock(&mut self, clock: Time) {
        self.sched.set_machine_clock(clock);
        if let Some((told, then)) = self.jiffies {
            self.sched.assume_jiffies(told + (self.time.as_nanos() / self.tick_time()).saturating_sub(then));
        }
    }

    /// A tick, in nanoseconds.
    fn tick_time(&self) -> u64 {
        1_000_000_000 / u64::from(self.settings.hz.max(1))
    }

    /// The step that begins now, done by a CPU.
    fn begin_step(&mut self, by: usize, step: &[Entry<'a>], ahead: &'a [Entry<'a>]) {
        let Some(first) = step.first() else { return };
        (self.line, self.time, self.by) = (first.record.line, first.record.time, by);
        self.recorded.clear();
        self.recorded.extend(step.iter().map(|entry| entry.record));
        self.ahead = ahead;
    }

    /// Whether a tick of `cpu` from now on is the high-resolution one, at the end of a slice.
    fn enter_timer(&mut self, cpu: CpuId, record: &Record) {
        match &record.kind {
            RecordKind::TimerEntry { function } => self.cpus[cpu.index()].slice_ends = &**function == "hrtick",
            RecordKind::TimerExit => self.cpus[cpu.index()].slice_ends = false,
            _ => {}
        }
    }

    /// The recording tells something that our state excludes: the rest is in doubt.
    fn lose_track(&mut self, cpu: CpuId, why: &'static str) {
        if self.compares() {
            self.report.resynchronisations += 1;
            self.differ(cpu, "state", why, "as recorded");
        }
    }

    fn expect_equal(
        &mut self,
        cpu: CpuId,
        what: &'static str,
        equal: bool,
        ours: impl ToString,
        kernels: impl ToString,
    ) {
        if !equal {
            self.differ(cpu, what, ours, kernels);
        }
    }

    fn differ(&mut self, cpu: CpuId, what: &'static str, ours: impl ToString, kernels: impl ToString) {
        let (at, eevdf) = ((self.line, self.time), self.eevdf());
        let queue = || queue_lines(&self.sched, &self.tasks, cpu);
        let line = |record: &&Record| format!("line {}: {} {}", record.line, record.event, record.text);
        self.report.add_difference(at, what, eevdf, (ours, kernels), queue, self.recorded.iter().map(line));
    }

    fn end(mut self) -> Report {
        self.report.decisions.placement.unverifiable += self.placed.len() as u64;
        self.report
    }
}
