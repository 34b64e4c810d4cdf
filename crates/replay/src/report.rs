//! What a replay came to.

use schedlab_model::{Candidate, CpuId, Decision, Reason, TaskId, Time};
use schedlab_trace::{Pid, Record};
use serde::Serialize;

use crate::level::Level;
use crate::rule;
use crate::{Schedules, Settings};

/// The comparison of one recording with our rules.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The kernel whose rules were compared.
    pub release: String,
    /// What to know before relying on the comparison, a sentence each: rules that stand in for the kernel's.
    pub notes: Vec<String>,
    /// What the recording tells.
    pub level: Level,
    /// Events in the recording.
    pub records: u64,
    /// From the first event to the last, in nanoseconds.
    pub span_ns: u64,
    /// Tasks that took part.
    pub tasks: u64,
    /// Each kind of decision apart.
    pub decisions: Decisions,
    /// What the kernel's queue and ours held.
    pub state: State,
    /// How often our state had to be overwritten with the kernel's to go on. Everything after such a point is in doubt.
    pub resynchronisations: u64,
    /// Probe events that no sequence of core.c explains.
    pub unexplained: u64,
    /// Where the states of tasks that were there before the recording came from.
    pub first_sights: FirstSights,
    /// The first few decisions and states that differ.
    pub differences: Vec<Difference>,
    /// The task that was picked each time.
    #[serde(skip)]
    pub schedules: Schedules,
    /// Our decisions with their reasons, where [`Settings::reasons`] asks for them. Tasks have the recording's numbers (pid).
    #[serde(skip)]
    pub reasons: Vec<Decision>,
    /// Moves of tasks between groups, where reasons are asked for.
    #[serde(skip)]
    pub moves: Vec<Move>,
}

/// A task's groups from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// When.
    pub time: Time,
    /// The task.
    pub pid: Pid,
    /// Its groups from its own upwards, the root group left out, numbered as in [`Report::reasons`].
    pub groups: Vec<u32>,
}

/// Scores by kind of decision.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Decisions {
    /// Which task runs next; only with more than one candidate.
    pub pick: Score,
    /// Whether a tick ends the running task's turn; only with more than one candidate.
    pub tick: Score,
    /// Whether a wake-up preempts; not where the running task was about to be rescheduled anyway.
    pub wakeup: Score,
    /// At what virtual time a woken or new task comes in, seen when it is next picked.
    pub placement: Score,
    /// On which CPU a woken task comes in; naive: where it was. Only on several CPUs.
    pub select: Score,
    /// On which CPU a new task comes in, and one that begins another program (`exec`). Only on several CPUs.
    pub select_new: Score,
    /// Newidle balance: which task the CPU pulls, if any; only where a task waits. Naive: none.
    pub newidle: Score,
    /// Which task a CPU pulls that balances on a tick, its own domains or an idle one's; only where it was due by our rules or took a task.
    /// Naive: none.
    pub balance: Score,
    /// Whether a CPU that balances on a tick has another CPU's stopper push the task that runs there, from which CPU, and which task the
    /// stopper pushes. Naive: none.
    pub push: Score,
}

/// How often our decision was the kernel's, and how often a naive rule's was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Decisions compared.
    pub compared: u64,
    /// Of these, ours was the kernel's.
    pub equal: u64,
    /// Of these, the naive rule's was the kernel's: the first task in virtual time (EEVDF: by deadline, eligible or not) runs,
    /// a task before the running one preempts it (tick, wake-up), a task comes in at the queue's `min_vruntime` (EEVDF:
    /// at the average).
    pub naive_equal: u64,
    /// Decisions not compared since something they depend on is not in the recording.
    pub unverifiable: u64,
}

impl Score {
    pub(crate) fn add(&mut self, equal: bool, naive_equal: bool) {
        self.compared += 1;
        self.equal += u64::from(equal);
        self.naive_equal += u64::from(naive_equal);
    }

    /// Whether something was compared and all of it was equal.
    pub const fn is_exact(&self) -> bool {
        self.compared > 0 && self.equal == self.compared
    }
}

/// Comparisons of state, each time the recording shows some.
#[derive(Debug, Clone, Default, Serialize)]
pub struct State {
    /// The running, picked or placed task's `vruntime`.
    pub vruntime: Deviation,
    /// The queue's `min_vruntime` (CFS).
    pub min_vruntime: Deviation,
    /// The picked or placed task's virtual deadline (EEVDF).
    pub deadline: Deviation,
    /// The woken task's lag (EEVDF).
    pub lag: Deviation,
    /// The picked task's slice (EEVDF).
    pub slice: Deviation,
    /// The queue's `avg_vruntime`, the weighted sum of its virtual times (EEVDF).
    pub avg_vruntime: Agreement,
    /// The queue's load weight (EEVDF: without the running task).
    pub load: Agreement,
    /// The queue's number of tasks.
    pub nr_running: Agreement,
    /// The queue's next, last and skip buddies (CFS).
    pub buddies: Agreement,
    /// Whether the running task was about to be rescheduled, at the start of each step.
    pub need_resched: Agreement,
    /// Of the virtual times, those of groups' entities.
    pub group_vruntime: Deviation,
    /// Since when the running entity was not charged.
    pub exec_start: Deviation,
    /// Runtimes and deadlines of deadline tasks and of the fair server, the time real-time tasks used, and what a group's queue has
    /// left of its quota.
    pub budgets: Deviation,
    /// Whether a deadline task, a group's queue or the real-time class is throttled.
    pub throttling: Agreement,
    /// Ticks left of a round-robin slice.
    pub time_slice: Agreement,
    /// Whether ours is due when a deadline timer expires.
    pub timers: Agreement,
    /// Load, runnable and utilisation averages of tasks and queues (PELT), before each update. Only on several CPUs.
    pub pelt: Closeness,
    /// The weight that a group's entity gets of its group's shares. Only on several CPUs, where it follows from loads on all of them.
    pub group_weight: Closeness,
    /// When a CPU may balance next, and when its domains were balanced, how long that is until the next time, and how often it failed.
    pub balancing: Agreement,
    /// The averages as `/proc/PID/sched` and `sched/debug` show it, midway and at the end.
    pub pelt_shown: Closeness,
}

/// A state that is a number without a unit of its own, by how far ours is off in parts of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Closeness {
    /// Times it was compared.
    pub compared: u64,
    /// Of these, it was equal.
    pub equal: u64,
    /// The mean error, in parts of the kernel's value, or of 1024 where that is more.
    pub mean_error: f64,
    /// The largest.
    pub max_error: f64,
}

impl Closeness {
    pub(crate) fn add(&mut self, ours: u64, kernels: u64) -> bool {
        // A CPU's capacity, and the weight of nice 0.
        const FULL: u64 = 1024;
        let error = ours.abs_diff(kernels) as f64 / kernels.max(FULL) as f64;
        self.compared += 1;
        self.equal += u64::from(ours == kernels);
        self.mean_error += (error - self.mean_error) / self.compared as f64;
        self.max_error = self.max_error.max(error);
        ours == kernels
    }
}

/// A state that is a number of nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Deviation {
    /// Times it was compared.
    pub compared: u64,
    /// The largest difference, in nanoseconds.
    pub max_error_ns: u64,
}

impl Deviation {
    /// Whether they agree; `ours` and `kernels` may wrap.
    pub(crate) fn add(&mut self, ours: u64, kernels: u64) -> bool {
        let error = (ours.wrapping_sub(kernels) as i64).unsigned_abs();
        self.compared += 1;
        self.max_error_ns = self.max_error_ns.max(error);
        error == 0
    }
}

/// A state that agrees or does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Times it was compared.
    pub compared: u64,
    /// Of these, they agreed.
    pub equal: u64,
}

impl Agreement {
    pub(crate) fn add(&mut self, equal: bool) -> bool {
        self.compared += 1;
        self.equal += u64::from(equal);
        equal
    }
}

/// Where initial states came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FirstSights {
    /// From the snapshot; the recording's own value is then compared with it.
    pub snapshot: u64,
    /// From the recording, the first time it shows the task.
    pub recording: u64,
}

/// One difference, with the state on both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// The recording's line.
    pub line: u64,
    /// The recording's time.
    pub time: Time,
    /// What differs: `pick`, `tick`, `wakeup`, `placement`, `vruntime`, …
    pub what: &'static str,
    /// The kernel's functions that decide it.
    pub rule: &'static str,
    /// Our side.
    pub ours: String,
    /// The kernel's side.
    pub kernels: String,
    /// Our queue at that moment, the running task first: `pid vruntime weight`.
    pub queue: Vec<String>,
    /// What the kernel did then: the records of the whole step.
    pub recorded: Vec<String>,
}

impl State {
    /// Whether virtual times were compared, and nothing differed.
    const fn is_exact(&self) -> bool {
        let Self { vruntime, min_vruntime, deadline, lag, slice, .. } = self;
        let Self { avg_vruntime, load, nr_running, buddies, need_resched, .. } = self;
        let Self { exec_start, budgets, throttling, time_slice, timers, pelt, pelt_shown, group_weight, .. } = self;
        vruntime.compared > 0
            && vruntime.max_error_ns == 0
            && min_vruntime.max_error_ns == 0
            && deadline.max_error_ns == 0
            && lag.max_error_ns == 0
            && slice.max_error_ns == 0
            && avg_vruntime.equal == avg_vruntime.compared
            && load.equal == load.compared
            && nr_running.equal == nr_running.compared
            && buddies.equal == buddies.compared
            && need_resched.equal == need_resched.compared
            && exec_start.max_error_ns == 0
            && budgets.max_error_ns == 0
            && throttling.equal == throttling.compared
            && time_slice.equal == time_slice.compared
            && timers.equal == timers.compared
            && pelt.equal == pelt.compared
            && group_weight.equal == group_weight.compared
            && pelt_shown.equal == pelt_shown.compared
    }
}

/// Differences kept in full.
const KEPT: usize = 10;

impl Report {
    /// Keeps a difference in full, unless enough of them are: `at` is the line and time of the step, `sides` are ours and the kernel's.
    pub(crate) fn add_difference(
        &mut self,
        at: (u64, Time),
        what: &'static str,
        eevdf: bool,
        sides: (impl ToString, impl ToString),
        queue: impl FnOnce() -> Vec<String>,
        recorded: impl Iterator<Item = String>,
    ) {
        if self.differences.len() >= KEPT {
            return;
        }
        self.differences.push(Difference {
            line: at.0,
            time: at.1,
            what,
            rule: rule::of(what, eevdf),
            ours: sides.0.to_string(),
            kernels: sides.1.to_string(),
            queue: queue(),
            recorded: recorded.collect(),
        });
    }

    /// Of a recording from `first` to `last`, with nothing compared yet.
    pub(crate) fn of(first: &Record, last: &Record, level: Level, records: usize, settings: &Settings) -> Self {
        Self {
            release: settings.release.to_string(),
            notes: settings.release.note().into_iter().collect(),
            level,
            records: records as u64,
            span_ns: last.time.saturating_sub(first.time).as_nanos(),
            tasks: 0,
            decisions: Decisions::default(),
            state: State::default(),
            resynchronisations: 0,
            unexplained: 0,
            first_sights: FirstSights::default(),
            differences: Vec::new(),
            schedules: Schedules::default(),
            reasons: Vec::new(),
            moves: Vec::new(),
        }
    }

    /// Keeps the decisions of a step, whose tasks get the recording's numbers.
    pub(crate) fn keep_reasons(&mut self, time: Time, reasons: Vec<(CpuId, Reason)>, pid: impl Fn(TaskId) -> Pid) {
        for (cpu, mut reason) in reasons {
            reason.rename(&|task| if task == TaskId::IDLE { task } else { TaskId(pid(task)) });
            self.reasons.push(Decision { time, cpu, reason });
        }
    }

    /// The name of a task or group in [`Report::reasons`].
    pub fn name_of(&self, candidate: Candidate) -> String {
        match candidate {
            Candidate::Task(TaskId(pid)) => match self.schedules.name_of(pid) {
                Some(name) => format!("{name}[{pid}]"),
                None => format!("[{pid}]"),
            },
            Candidate::Group(group) => format!("group {group}"),
        }
    }

    /// Whether every decision and every state that could be compared was equal, and there were picks, ticks, wake-ups and
    /// virtual times among them.
    pub const fn is_exact(&self) -> bool {
        let Decisions { pick, tick, wakeup, placement, select, select_new, newidle, balance, push } = &self.decisions;
        pick.is_exact()
            && tick.is_exact()
            && wakeup.is_exact()
            && placement.equal == placement.compared
            && select.equal == select.compared
            && select_new.equal == select_new.compared
            && newidle.equal == newidle.compared
            && balance.equal == balance.compared
            && push.equal == push.compared
            && self.state.is_exact()
            && self.resynchronisations == 0
            && self.unexplained == 0
    }
}
