//! The replay of recordings of several CPUs: fair tasks without groups.
//!
//! Where the kernel put tasks stands: each wake-up, and each task that balancing took elsewhere, is done on the CPU that the recording tells.
//! So every CPU's picks, ticks and preemptions are compared given that, and at each choice of a CPU ours is asked on our state and
//! compared with the kernel's.

mod balance;
mod begin;
mod change;
mod check;
mod cut;
mod leave;
mod order;
mod schedule;
mod wake;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{CpuId, TaskId, Time};
use schedlab_sched::{Class, Clocks, EntityId, Sched};
use schedlab_trace::{Pid, Record};

use crate::ReplayError;
use crate::read::flags::FlagBits;
use crate::read::section::Entry;
use crate::recorded_decider::RecordedDecider;
use crate::report::{Difference, Level, Report};
use crate::rule;
use crate::settings::{Averages, Settings};
use crate::task_map::TaskMap;
use crate::watch::{Watch, Watched};

use cut::{Act, Step, cut, queue_of};

/// Differences kept in full.
const KEPT: usize = 10;

/// What a CPU is in the midst of.
#[derive(Debug, Clone, Default)]
struct Cpu {
    /// Tasks on their way to it (`ttwu_pending`).
    pending: BTreeSet<TaskId>,
    /// Whoever ran has left, and it looks for work.
    searches: bool,
    /// The last line of the step that was done on its queue last, and who did it.
    until: (u64, usize),
    /// It looks at others for somebody to take, and will take or push somebody.
    asks: Vec<balance::Ask>,
    /// The least virtual time of its queue before whoever ran was charged last, and after that (CFS).
    least: leave::Least,
    /// The child that was placed as it was forked, before the event that tells of it (CFS).
    unborn: Option<TaskId>,
}

/// Load, runnable time and utilisation as they came nearest to what was looked at, once they were known.
type Nearest = Option<[u64; 3]>;

/// Our side of the replay.
struct Several<'a> {
    sched: Sched<RecordedDecider>,
    settings: &'a Settings,
    flags: FlagBits,
    tasks: TaskMap,
    /// Who recorded, above everybody else.
    recorder: Option<TaskId>,
    cpus: Vec<Cpu>,
    clocks: Vec<Clocks>,
    /// Tasks that were placed and not picked since, with the naive rule's place.
    placed: BTreeMap<TaskId, u64>,
    /// Tasks that wake on another CPU than they slept on, and are not queued there yet.
    migrating: BTreeSet<TaskId>,
    /// By how much less the virtual time of a task that wakes elsewhere may be counted.
    either: BTreeMap<TaskId, u64>,
    /// Loads that leave a queue's account.
    leaving: Vec<leave::Leaving>,
    /// Tasks that were taken off one CPU's queue and not put on another's yet.
    detached: BTreeSet<TaskId>,
    /// Tasks that were forked and not woken yet.
    newborn: BTreeSet<TaskId>,
    /// What was told of a task, until all of it was.
    told: BTreeMap<Pid, [Option<&'a Record>; 3]>,
    /// Tasks of the stop class, which is not probed.
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
    /// CPUs whose stopper was woken to push somebody, and has not run yet.
    pushing: BTreeSet<CpuId>,
    /// By CPU, when its queue is locked: from which line to which.
    locked: Vec<Vec<(u64, u64)>>,
    /// The CPU that is about to be balanced, by the recording.
    due: Option<balance::Due>,
    /// Every task was told of.
    begun: bool,
    line: u64,
    by: usize,
    time: Time,
    recorded: Vec<&'a Record>,
    report: Report,
}

/// Whether a recording is of several CPUs.
pub(crate) fn concerns(records: &[Record]) -> bool {
    records.iter().any(|record| record.cpu != 0)
}

/// Replays a recording of several CPUs from where it first tells of a task's state.
pub(crate) fn replay(records: &[Record], settings: &Settings, watch: Watch<'_>) -> Result<Report, ReplayError> {
    let unsupported = |what: String, why| Err(ReplayError::Unsupported { what, why });
    let Some(from) = records.iter().position(|record| &*record.event == "k_snapq") else {
        let first = records.iter().find(|record| record.cpu != 0).map_or(0, |record| record.line);
        let why = "those of several CPUs can be if they are of level L1 and tell of each CPU's queue before (k_snapq)";
        return unsupported(format!("line {first}, an event of another CPU"), why);
    };
    if let Some(level) = settings.level.filter(|level| *level != Level::L1) {
        return unsupported(format!("level {level} of several CPUs"), "those of several CPUs can be at level L1");
    }
    let grouped = |record: &&Record| &*record.event == "k_snap1" && record.number("se").is_some_and(|se| se != 0);
    if let Some(record) = records.iter().find(grouped) {
        let what = format!("line {}, a task in a group", record.line);
        return unsupported(what, "on several CPUs tasks without groups can be");
    }
    let records = &records[from..];
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return Err(ReplayError::Empty) };
    let seen = records.iter().map(|record| record.cpu).max().unwrap_or(0) + 1;
    let cpus = settings.cpus.max(seen);
    let mut streams: Vec<Vec<Entry<'_>>> = vec![Vec::new(); cpus as usize];
    for record in records.iter().filter(|record| !elsewhere(record)) {
        streams[record.cpu as usize].push(Entry::of(record));
    }
    let report = Report::of(first, last, Level::L1, records.len(), settings);
    let mut several = Several::new(settings, cpus, report);
    several.begin(first);
    if settings.reasons {
        several.sched.decider.ask_for_reasons();
    }
    let steps = cut(&streams);
    several.locked = locked(&streams, &steps);
    for step in steps {
        several.step(step, &streams[step.by][step.from..step.to], &streams[step.by][step.to..]);
        several.keep_reasons(step.act);
        watch(&Watched::of(&several.sched));
    }
    Ok(several.end())
}

/// When each CPU's queue is locked: the first and the last line of each step, in order.
fn locked(streams: &[Vec<Entry<'_>>], steps: &[Step]) -> Vec<Vec<(u64, u64)>> {
    let mut locked = vec![Vec::new(); streams.len()];
    for step in steps.iter().filter(|step| step.act.locks()) {
        let entries = &streams[step.by][step.from..step.to];
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            locked[queue_of(entries, step.by, streams.len())].push((first.record.line, last.record.line));
        }
    }
    locked.iter_mut().for_each(|steps| steps.sort_unstable());
    locked
}

/// Whether averages of real-time tasks are brought up to date as such a task comes or goes: no balancing.
fn elsewhere(record: &Record) -> bool {
    &*record.event == "k_balance" && !balance::is_soft(record.flags.context)
}

impl<'a> Several<'a> {
    fn new(settings: &'a Settings, cpus: u32, report: Report) -> Self {
        let mut sched = Sched::new(settings.rules(), cpus, RecordedDecider::default());
        sched.set_topology(&settings.topology, 0, 0);
        sched.follow_balancing();
        Self {
            sched,
            settings,
            flags: settings.flags(),
            tasks: TaskMap::default(),
            recorder: None,
            cpus: vec![Cpu::default(); cpus as usize],
            clocks: vec![Clocks::all(Time::from_nanos(1)); cpus as usize],
            placed: BTreeMap::new(),
            migrating: BTreeSet::new(),
            either: BTreeMap::new(),
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
            report,
        }
    }

    /// The report gets the reasons of the step's decisions, unless it only tells of a state.
    fn keep_reasons(&mut self, act: Act) {
        let reasons = self.sched.decider.take_reasons();
        if !matches!(act, Act::Snap) {
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
        task != TaskId::IDLE && self.sched.task(task).class == Class::Fair
    }

    /// The CPU whose queue a step is about: the one a probe names, or else the one that recorded it.
    fn cpu_of(&self, step: &[Entry<'a>], by: usize) -> CpuId {
        CpuId(queue_of(step, by, self.cpus.len()) as u32)
    }

    /// Gives a queue the step's clocks: the last ones that its probes show.
    fn advance(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let clocks = &mut self.clocks[cpu.index()];
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
        self.set_machine_clock(clocks.clock);
    }

    /// The time on all CPUs. Ticks are counted by the time of day, in which the recording's clock is, and begin with its multiples: 6.4 on,
    /// and point releases of others (`tick_setup_device`).
    pub(super) fn set_machine_clock(&mut self, clock: Time) {
        self.sched.set_machine_clock(clock);
        if let Some((told, then)) = self.jiffies {
            self.sched.assume_jiffies(told + (self.time.as_nanos() / self.tick_time()).saturating_sub(then));
        }
    }

    /// A tick, in nanoseconds.
    fn tick_time(&self) -> u64 {
        1_000_000_000 / u64::from(self.settings.hz.max(1))
    }

    fn step(&mut self, Step { act, by, .. }: Step, step: &[Entry<'a>], ahead: &[Entry<'a>]) {
        let Some(first) = step.first() else { return };
        (self.line, self.time, self.by) = (first.record.line, first.record.time, by);
        self.recorded.clear();
        self.recorded.extend(step.iter().map(|entry| entry.record));
        self.look();
        if let Some(last) = step.last().filter(|_| act.locks()) {
            let queue = queue_of(step, by, self.cpus.len());
            self.cpus[queue].until = (last.record.line, by);
        }
        let late = self.put_off(step, by);
        let before = self.before_charge(step, by);
        match act {
            Act::Nothing => {}
            Act::Mark => {
                self.begun |= first.record.text.contains("schedlab: begin");
                self.moment(&first.record.text);
            }
            Act::Snap => self.snap(first.record),
            Act::Waking { remote } => self.waking(first, remote),
            Act::Select { chosen, remote } => self.select(first.record, by, chosen, remote),
            Act::Migrate => self.migrate(step),
            Act::LeaveTime { from, read } => self.leave_time(step, from, read),
            Act::LeaveLoad => self.leave_load(step, ahead),
            Act::Activate => self.activate(step, by),
            Act::WakeRunning => self.wake_running(step, by),
            Act::Wakeup => self.wakeup_alone(step, by),
            Act::Detach => self.detach(step, by),
            Act::Change => self.change(step, by),
            Act::Leave => self.leave(step, by, ahead),
            Act::Schedule => self.schedule(step, by, ahead),
            Act::Tick => self.tick(step, by),
            Act::Due => self.due(first.record),
            Act::Averages => self.averages(step, by, ahead),
            Act::ForkPlaced => self.fork_placed(step, by),
            Act::Fork { parent, child } => self.fork(parent, child, by),
            Act::Exit => {
                self.exiting.insert(first.record.pid);
            }
            Act::Yield => {
                self.yielding.insert(first.record.pid);
            }
            Act::Charge => self.charge(step, by),
            Act::Resched => {
                let cpu = first.record.number("cpu").unwrap_or(by as u64);
                if cpu < self.cpus.len() as u64 {
                    let cpu = CpuId(cpu as u32);
                    self.sched.assume_need_resched(cpu, true);
                }
            }
        }
        self.note_charge(before);
        self.catch_up(late);
    }

    fn verifiable(&self, task: TaskId) -> bool {
        !self.guessed.contains(&task)
    }

    /// The recording tells something that our state excludes: the rest is in doubt.
    fn lose_track(&mut self, cpu: CpuId, why: &'static str) {
        if self.begun {
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
        if self.report.differences.len() < KEPT {
            let (ours, kernels, queue) = (ours.to_string(), kernels.to_string(), self.queue_lines(cpu));
            let rule = rule::of(what, self.eevdf());
            let line = |record: &&Record| format!("line {}: {} {}", record.line, record.event, record.text);
            let recorded = self.recorded.iter().map(line).collect();
            let (line, time) = (self.line, self.time);
            self.report.differences.push(Difference { line, time, what, rule, ours, kernels, queue, recorded });
        }
    }

    fn end(mut self) -> Report {
        self.report.decisions.placement.unverifiable += self.placed.len() as u64;
        self.report
    }
}
