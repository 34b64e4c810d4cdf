//! What is true of every stream of events.

use schedlab_model::{CpuId, Event, EventKind, EventSink, TaskId, TaskState, Time};
use thiserror::Error;

/// The first event that is impossible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("at {time} on CPU {}: {what}", cpu.0)]
pub struct Broken {
    /// When.
    pub time: Time,
    /// Where.
    pub cpu: CpuId,
    /// What was impossible.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unborn,
    New,
    Waiting,
    Running(CpuId),
    Asleep,
    Dead,
}

#[derive(Debug, Clone, Copy)]
struct TaskRecord {
    state: State,
    since: Time,
}

#[derive(Debug, Clone, Copy)]
struct CpuRecord {
    current: TaskId,
    /// Since when it idles, if it does.
    since: Time,
}

type MayRun = Box<dyn Fn(TaskId, CpuId) -> bool>;
type MayWait = Box<dyn Fn(TaskId) -> bool>;

/// Checks events as they come: time does not go back; one task a CPU and one CPU a task; a task that is switched out ran there; tasks
/// are born before they wake, asleep when they are woken, runnable when they are picked; and no task waits longer than a
/// bound while a CPU on which it may run idles.
///
/// O(CPUs + waiting tasks) an event: meant for tests.
///
/// ```
/// use schedlab_metrics::Invariants;
/// use schedlab_model::{CpuId, Event, EventKind, EventSink, TaskId, TaskState, Time};
/// let mut invariants = Invariants::new(1, Time::ZERO);
/// let kind = EventKind::Switch { previous: TaskId(3), state: TaskState::Running, next: TaskId::IDLE };
/// invariants.event(Event { time: Time::ZERO, cpu: CpuId(0), kind });
/// let broken = invariants.finish(Time::ZERO).unwrap_err();
/// assert!(broken.to_string().contains("task 3 is switched out, but the idle task was running"), "{broken}");
/// ```
pub struct Invariants {
    bound: Time,
    may_run: MayRun,
    may_wait: MayWait,
    tasks: Vec<TaskRecord>,
    cpus: Vec<CpuRecord>,
    waiting: Vec<TaskId>,
    now: Time,
    broken: Option<Broken>,
}

/// `PID_MAX_LIMIT`, 2²²: tasks of recordings are numbered by their pids.
const MAX_TASKS: u32 = 1 << 22;

impl Invariants {
    /// For a machine of `cpus` CPUs that idle at first, on which a task may wait beside an idle CPU for `bound` at most.
    pub fn new(cpus: u32, bound: Time) -> Self {
        Self {
            bound,
            may_run: Box::new(|_, _| true),
            may_wait: Box::new(|_| false),
            tasks: Vec::new(),
            cpus: vec![CpuRecord { current: TaskId::IDLE, since: Time::ZERO }; cpus as usize],
            waiting: Vec::new(),
            now: Time::ZERO,
            broken: None,
        }
    }

    /// Only where `may_run` says so may a task run: it is an error if it runs elsewhere, and none if it waits while others idle.
    #[must_use]
    pub fn with_affinity(mut self, may_run: impl Fn(TaskId, CpuId) -> bool + 'static) -> Self {
        self.may_run = Box::new(may_run);
        self
    }

    /// Tasks that may wait beside an idle CPU for as long as `may_wait` says so: throttled ones.
    #[must_use]
    pub fn with_throttling(mut self, may_wait: impl Fn(TaskId) -> bool + 'static) -> Self {
        self.may_wait = Box::new(may_wait);
        self
    }

    /// The first thing that was impossible so far.
    pub const fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// The events begin with `task` waiting for a CPU since `now`.
    pub fn assume_waiting(&mut self, task: TaskId, now: Time) {
        self.now = now;
        self.change(task, State::Waiting);
    }

    /// The events begin with `task` asleep.
    pub fn assume_asleep(&mut self, task: TaskId) {
        self.change(task, State::Asleep);
    }

    /// The events begin with `task` running on `cpu`.
    pub fn assume_running(&mut self, task: TaskId, cpu: CpuId) {
        if task != TaskId::IDLE {
            self.change(task, State::Running(cpu));
        }
        if let Some(record) = self.cpus.get_mut(cpu.index()) {
            record.current = task;
        }
    }

    /// The verdict on all events until `end`.
    ///
    /// # Errors
    /// The first thing that was impossible.
    pub fn finish(mut self, end: Time) -> Result<(), Broken> {
        self.now = end;
        for cpu in 0..self.cpus.len() {
            self.check_idle_ends(CpuId(cpu as u32));
        }
        self.broken.map_or(Ok(()), Err)
    }

    fn refuse(&mut self, cpu: CpuId, what: String) {
        if self.broken.is_none() {
            self.broken = Some(Broken { time: self.now, cpu, what });
        }
    }

    fn record(&mut self, task: TaskId) -> &mut TaskRecord {
        // All beyond what a kernel numbers share one place: a damaged recording does not fill the memory.
        let task = TaskId(task.0.min(MAX_TASKS));
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, TaskRecord { state: State::Unborn, since: Time::ZERO });
        }
        &mut self.tasks[task.index()]
    }

    fn change(&mut self, task: TaskId, state: State) {
        let now = self.now;
        let record = self.record(task);
        let old = std::mem::replace(record, TaskRecord { state, since: now });
        if old.state == State::Waiting {
            self.waiting.retain(|waiting| *waiting != task);
        }
        if state == State::Waiting {
            self.waiting.push(task);
        }
    }

    /// A task stops waiting: no CPU idled beside it for too long.
    fn check_wait_ends(&mut self, task: TaskId) {
        for cpu in (0..self.cpus.len() as u32).map(CpuId) {
            if self.cpus[cpu.index()].current == TaskId::IDLE {
                self.check_pair(task, cpu);
            }
        }
    }

    /// A CPU stops idling: no task waited beside it for too long.
    fn check_idle_ends(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].current == TaskId::IDLE {
            for position in 0..self.waiting.len() {
                self.check_pair(self.waiting[position], cpu);
            }
        }
    }

    fn check_pair(&mut self, task: TaskId, cpu: CpuId) {
        let both_since = self.record(task).since.max(self.cpus[cpu.index()].since);
        let beside = self.now.saturating_sub(both_since);
        if beside > self.bound && (self.may_run)(task, cpu) && !(self.may_wait)(task) {
            let bound = self.bound;
            self.refuse(cpu, format!("task {} waited {beside} while the CPU idled; at most {bound} allowed", task.0));
        }
    }

    fn switch(&mut self, cpu: CpuId, previous: TaskId, state: TaskState, next: TaskId) {
        let Some(record) = self.cpus.get(cpu.index()).copied() else {
            return self.refuse(cpu, format!("there are only {} CPUs", self.cpus.len()));
        };
        if record.current != previous {
            self.refuse(cpu, format!("{} is switched out, but {} was running", name(previous), name(record.current)));
        }
        if previous == next {
            self.refuse(cpu, format!("{} is switched to itself", name(next)));
        }
        if next != TaskId::IDLE {
            match self.record(next).state {
                State::Waiting => {}
                other => self.refuse(cpu, format!("{} is switched in, but it is {}", name(next), describe(other))),
            }
            if !(self.may_run)(next, cpu) {
                self.refuse(cpu, format!("{} may not run here", name(next)));
            }
            self.check_wait_ends(next);
        }
        self.check_idle_ends(cpu);
        if previous != TaskId::IDLE {
            let after = match state {
                TaskState::Running => State::Waiting,
                TaskState::Interruptible | TaskState::Uninterruptible | TaskState::Stopped => State::Asleep,
                TaskState::Dead => State::Dead,
            };
            self.change(previous, after);
        }
        if next != TaskId::IDLE {
            self.change(next, State::Running(cpu));
        }
        self.cpus[cpu.index()] = CpuRecord { current: next, since: self.now };
    }
}

fn name(task: TaskId) -> String {
    if task == TaskId::IDLE { "the idle task".to_owned() } else { format!("task {}", task.0) }
}

fn describe(state: State) -> String {
    match state {
        State::Unborn => "not born".to_owned(),
        State::New => "new and not woken".to_owned(),
        State::Waiting => "waiting".to_owned(),
        State::Running(cpu) => format!("running on CPU {}", cpu.0),
        State::Asleep => "asleep".to_owned(),
        State::Dead => "dead".to_owned(),
    }
}

impl EventSink for Invariants {
    fn event(&mut self, event: Event) {
        let cpu = event.cpu;
        if event.time < self.now {
            self.refuse(cpu, format!("time went back from {} to {}", self.now, event.time));
        }
        self.now = self.now.max(event.time);
        let expect = |sink: &mut Self, task: TaskId, expected: State, verb: &str| {
            let found = sink.record(task).state;
            if found != expected {
                sink.refuse(cpu, format!("{} {verb}, but it is {}", name(task), describe(found)));
            }
        };
        match event.kind {
            EventKind::Fork { child, .. } => {
                expect(self, child, State::Unborn, "is forked");
                self.change(child, State::New);
            }
            EventKind::WakeupNew { task, .. } => {
                expect(self, task, State::New, "is woken for the first time");
                self.change(task, State::Waiting);
            }
            EventKind::Waking { task, .. } => {
                expect(self, task, State::Asleep, "is woken");
                self.change(task, State::Waiting);
            }
            EventKind::Switch { previous, state, next } => self.switch(cpu, previous, state, next),
            EventKind::Migrate { task, from, to } => {
                if from == to {
                    self.refuse(cpu, format!("{} migrates from CPU {} to the same CPU", name(task), from.0));
                }
                if matches!(self.record(task).state, State::Running(_) | State::Dead | State::Unborn) {
                    let state = describe(self.record(task).state);
                    self.refuse(cpu, format!("{} migrates, but it is {state}", name(task)));
                }
            }
            EventKind::Exit { task } => expect(self, task, State::Running(cpu), "exits"),
            EventKind::Mark { task, .. } => expect(self, task, State::Running(cpu), "marks"),
        }
    }
}
