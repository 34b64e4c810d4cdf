//! The replay of recordings in which every class is probed and the state before them is told (`k_snap`): real-time, deadline and
//! groups beside the flat fair class.
//!
//! Each critical section drives the sequence of `core.c` that it stands for, at the recorded clock. What a probe shows of the state
//! before the sequence is compared before ours runs, what it shows of the state after is compared after.

mod bandwidth;
mod changes;
mod check;
mod groups;
mod schedule;
pub(crate) mod start;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{Attributes, CpuId, TaskId, Time};
use schedlab_sched::{CfsRqId, Class, Clocks, EntityId, GroupId, Sched};
use schedlab_trace::{Context, Pid, Record, RecordKind};

use crate::ReplayError;
use crate::read::flags::FlagBits;
use crate::recorded_decider::RecordedDecider;
use crate::report::{Difference, Level, Report};
use crate::rule;
use crate::settings::Settings;
use crate::task_map::TaskMap;
use crate::watch::{Watch, Watched};

use crate::read::section::{Entry, Kind, What, cut, read_at_first};

/// The one CPU.
const CPU: CpuId = CpuId(0);
/// Differences kept in full.
const KEPT: usize = 10;
/// Bits by which the rules drop a weight to its nice-table value (`scale_load_down`).
const LOAD_SHIFT: u32 = 10;

/// Our side of the replay.
struct Classes<'a> {
    sched: Sched<RecordedDecider>,
    flags: FlagBits,
    tasks: TaskMap,
    /// Groups by the inode of their cgroup, by the path of it, and by the kernel's address.
    by_cgroup: BTreeMap<u64, GroupId>,
    by_path: BTreeMap<String, GroupId>,
    by_address: BTreeMap<u64, GroupId>,
    /// Queues and entities by the kernel's addresses, as far as the recording paired them with tasks.
    queues: BTreeMap<u64, CfsRqId>,
    entities: BTreeMap<u64, EntityId>,
    /// The child that was placed as it was forked, before the event that tells of it (CFS).
    unborn: Option<TaskId>,
    /// What the next child is set back to.
    reset_on_fork: Option<Attributes>,
    /// Tasks that were placed and not picked since, with the naive rule's place.
    placed: BTreeMap<TaskId, u64>,
    /// When each runnable task began to wait: the naive rule of the higher classes is first come, first served.
    waiting_since: BTreeMap<TaskId, u64>,
    /// Who entered `sched_yield(2)` and has not done so yet.
    yielding: Option<Pid>,
    /// Who set which group's limit and has not come to its queue yet.
    limiting: Option<(Pid, GroupId)>,
    /// The same of a group's weight.
    weighing: Option<(Pid, GroupId)>,
    /// The high-resolution tick has expired (`hrtick`).
    slice_ends: bool,
    /// Whether the fair server's and the real-time bandwidth's state was told.
    server_known: bool,
    rt_known: bool,
    /// When the fair server's timer expires by ours, where that hangs on when it was armed before the recording.
    server_timer: Option<u64>,
    /// The recording's warm-up is over: every task was told of.
    begun: bool,
    /// Tasks that were queued when they were told of: in which order equal ones came is not.
    unordered: BTreeSet<TaskId>,
    /// Tasks of the stop class, which is not probed: they run before all others.
    stoppers: BTreeSet<TaskId>,
    /// Tasks whose state the recording never told before it concerned them.
    guessed: BTreeSet<TaskId>,
    clocks: Clocks,
    sequence: u64,
    line: u64,
    time: Time,
    recorded: Vec<&'a Record>,
    /// What comes after the section.
    ahead: &'a [Entry<'a>],
    report: Report,
}

/// Whether a recording tells of more than the flat fair class, and of the state before it, so that it is replayed here.
pub(crate) fn concerns(records: &[Record]) -> bool {
    let Some(first) = records.iter().find(|record| is_snapshot(record)) else { return false };
    records.iter().any(|record| match &*record.event {
        "k_snap1" | "k_shares" | "k_dlenq" => true,
        "k_move" => record.number("ptg").is_some_and(|parent| parent != 0),
        // The recorder itself is a real-time task.
        "k_rtenq" => record.number("pid") != Some(u64::from(first.pid)),
        _ => false,
    })
}

fn is_snapshot(record: &Record) -> bool {
    matches!(&*record.event, "k_snap" | "k_snaprt")
}

/// Replays `records`, in which every class is probed, from where they first tell of a task's state.
pub(crate) fn replay(records: &[Record], settings: &Settings, watch: Watch<'_>) -> Result<Report, ReplayError> {
    if let Some(record) = records.iter().find(|record| record.cpu != 0) {
        let what = format!("line {}, an event of CPU {}", record.line, record.cpu);
        return Err(ReplayError::Unsupported { what, why: "so far recordings of one CPU can be" });
    }
    let from = records.iter().position(is_snapshot).unwrap_or(0);
    let (Some(first), Some(last)) = (records.get(from), records.last()) else { return Err(ReplayError::Empty) };
    let report = Report::of(first, last, Level::L1, records.len() - from, settings);
    let entries: Vec<Entry<'_>> = records[from..].iter().map(Entry::of).collect();
    let mut classes = Classes::new(settings, &entries, report);
    let mut at = 0;
    while at < entries.len() {
        let (kind, length) = cut(&entries[at..]);
        let end = (at + length).min(entries.len());
        classes.ahead = &entries[end..];
        classes.section(kind, &entries[at..end]);
        classes.keep_reasons(kind);
        watch(&Watched::of(&classes.sched));
        at = end;
    }
    Ok(classes.end())
}

impl<'a> Classes<'a> {
    fn new(settings: &Settings, entries: &[Entry<'a>], report: Report) -> Self {
        let mut classes = Self {
            sched: Sched::new(settings.rules_of_classes(), 1, RecordedDecider::default()),
            flags: settings.flags(),
            tasks: TaskMap::default(),
            by_cgroup: BTreeMap::new(),
            by_path: BTreeMap::new(),
            by_address: BTreeMap::new(),
            queues: BTreeMap::new(),
            entities: BTreeMap::new(),
            unborn: None,
            reset_on_fork: None,
            placed: BTreeMap::new(),
            waiting_since: BTreeMap::new(),
            yielding: None,
            limiting: None,
            weighing: None,
            slice_ends: false,
            server_known: false,
            rt_known: false,
            server_timer: None,
            begun: false,
            unordered: BTreeSet::new(),
            stoppers: BTreeSet::new(),
            guessed: BTreeSet::new(),
            clocks: Clocks::all(Time::from_nanos(1)),
            sequence: 0,
            line: 0,
            time: Time::ZERO,
            recorded: Vec::new(),
            ahead: &[],
            report,
        };
        classes.begin(entries);
        if settings.reasons {
            classes.sched.decider.ask_for_reasons();
        }
        classes
    }

    /// The report gets the reasons of the section's decisions, unless it only tells of a state.
    fn keep_reasons(&mut self, kind: Kind) {
        let reasons = self.sched.decider.take_reasons();
        if !matches!(kind, Kind::Snap | Kind::GroupSnap) {
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

    /// Gives the queue the section's clocks: the last ones that its probes show, for some come before the clock is read.
    fn advance(&mut self, section: &[Entry<'a>]) {
        let shown = section.iter().filter_map(|entry| entry.record.clocks);
        for clocks in shown {
            let (clock, task) = (clocks.clock.unwrap_or(clocks.task), clocks.task);
            if task >= self.clocks.clock_task.as_nanos() {
                let later = clocks.clock.is_some() || task > self.clocks.clock_task.as_nanos();
                self.clocks.clock_task = Time::from_nanos(task);
                self.clocks.clock_pelt = self.clocks.clock_task;
                if later && clock > self.clocks.clock.as_nanos() {
                    self.clocks.clock = Time::from_nanos(clock);
                }
            }
        }
        self.sched.set_clocks(CPU, self.clocks);
    }

    /// The same where only the task clock is known.
    fn advance_to(&mut self, task: u64) {
        let passed = task.saturating_sub(self.clocks.clock_task.as_nanos());
        self.clocks.clock = Time::from_nanos(self.clocks.clock.as_nanos() + passed);
        self.clocks.clock_task = Time::from_nanos(self.clocks.clock_task.as_nanos() + passed);
        self.clocks.clock_pelt = self.clocks.clock_task;
        self.sched.set_clocks(CPU, self.clocks);
    }

    fn section(&mut self, kind: Kind, section: &[Entry<'a>]) {
        let Some(first) = section.first() else { return };
        (self.line, self.time) = (first.record.line, first.record.time);
        self.recorded.clear();
        self.recorded.extend(section.iter().map(|entry| entry.record));
        self.begun |= start::is_begin(first.record);
        match &first.record.kind {
            RecordKind::TimerEntry { function } => self.slice_ends = &**function == "hrtick",
            RecordKind::TimerExit => self.slice_ends = false,
            _ => {}
        }
        if kind == Kind::Nothing {
            return;
        }
        if first.what != What::Switch
            && first.record.flags.interrupts_off
            && !matches!(kind, Kind::Snap | Kind::GroupSnap)
        {
            self.compare_need_resched(first.record);
        }
        self.advance(&section[..read_at_first(kind, section)]);
        match kind {
            Kind::Nothing => {}
            Kind::Snap => self.snap(first.record),
            Kind::GroupSnap => self.group_snap(first.record),
            Kind::Yield => self.yielding = Some(first.record.pid),
            Kind::MakeGroup => self.make_group(first.record),
            Kind::Wake(pid) => self.wake(pid, section),
            Kind::New(pid) => self.wake_new(pid, section),
            Kind::ForkPlaced => self.fork_placed(section),
            Kind::Fork { parent, child } => self.fork(parent, child),
            Kind::Tick => self.tick(section),
            Kind::Schedule => self.schedule(section),
            Kind::Change(pid) => self.change(pid, section),
            Kind::WaitInactive(pid) => self.wait_inactive(pid, section),
            Kind::Timer => self.timer(section),
            Kind::Shares => self.set_shares(section),
            Kind::SharesOfQueues => self.set_shares_of_queues(section),
            Kind::Quota => self.set_quota(section),
            Kind::QuotaOfQueue => self.set_quota_of_queue(section),
            Kind::Throttle => self.throttle(section),
            Kind::Charge => self.charge(section),
        }
    }

    /// `update_curr` from elsewhere, such as reading a CPU clock, or as the first part of `sched_yield`.
    fn charge(&mut self, section: &[Entry<'a>]) {
        self.compare_before(section);
        let Some(first) = section.first() else { return };
        if self.yielding == Some(first.record.pid) && first.record.flags.context == Context::Task {
            self.yield_now();
        } else if section.iter().all(|entry| entry.what == What::Resched) {
            // Whoever asks for it, it is not a rule of ours.
            self.sched.assume_need_resched(CPU, true);
            self.report.unexplained += 1;
        } else if self.slice_ends {
            self.sched.hrtick(CPU);
        } else if self.sched.curr(CPU) != TaskId::IDLE || start::has(section, What::ServerCharge) {
            self.sched.update_curr(CPU);
        }
    }

    /// `do_sched_yield`.
    fn yield_now(&mut self) {
        self.yielding = None;
        self.sched.sched_yield(CPU);
    }

    /// A tick of whoever runs, or the high-resolution one at the end of its slice.
    fn tick(&mut self, section: &[Entry<'a>]) {
        self.compare_before(section);
        let before = self.sched.need_resched(CPU);
        let running = self.sched.curr(CPU);
        let from = section.iter().position(|entry| entry.what == What::Tick).unwrap_or(0);
        let kernels = start::has(&section[from..], What::Resched);
        self.sched.decider.expect_nothing();
        let naive = self.first_is_before_running(running);
        let scored = !before && self.sched.nr_running(CPU) > 1 && running != TaskId::IDLE;
        if self.slice_ends {
            self.sched.hrtick(CPU);
        } else {
            self.sched.sched_tick(CPU);
        }
        let ours = self.sched.need_resched(CPU);
        if scored && self.verifiable(running) {
            self.report.decisions.tick.add(ours == kernels, naive == kernels);
        } else if scored {
            self.report.decisions.tick.unverifiable += 1;
        }
        if !before && ours != kernels {
            self.differ("tick", ours, kernels);
            self.sched.assume_need_resched(CPU, kernels);
        }
        self.compare_after(section);
    }

    fn verifiable(&self, task: TaskId) -> bool {
        !self.guessed.contains(&task)
    }

    /// The recording tells something that our state excludes: the rest is in doubt.
    fn lose_track(&mut self, why: &'static str) {
        self.report.resynchronisations += 1;
        self.differ("state", why, "as recorded");
    }

    fn expect_equal(&mut self, what: &'static str, equal: bool, ours: impl ToString, kernels: impl ToString) {
        if !equal {
            self.differ(what, ours, kernels);
        }
    }

    fn differ(&mut self, what: &'static str, ours: impl ToString, kernels: impl ToString) {
        if self.report.differences.len() < KEPT {
            let (ours, kernels, queue) = (ours.to_string(), kernels.to_string(), self.queue_lines());
            let rule = rule::of(what, self.eevdf());
            let line = |record: &&Record| match &record.kind {
                RecordKind::Other { .. } | RecordKind::Probe(_) => {
                    format!("line {}: {} {}", record.line, record.event, record.text)
                }
                kind => format!("line {}: {kind:?}", record.line),
            };
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
