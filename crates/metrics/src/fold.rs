//! The fold: for how long each task ran, waited and slept.

use schedlab_model::{Event, EventKind, EventSink, TaskId, TaskState, Time};

/// What one task got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskMetrics {
    /// From its fork to its last switch away; to the end asked for while it lives.
    pub life: Time,
    /// On a CPU.
    pub run: Time,
    /// Runnable but not running. `run + wait + sleep = life`.
    pub wait: Time,
    /// Asleep.
    pub sleep: Time,
    /// Switches away because it went to sleep.
    pub voluntary: u64,
    /// Switches away while it was still runnable.
    pub involuntary: u64,
    /// Times its CPU changed (`sched_migrate_task`).
    pub migrations: u64,
    /// Wake-ups from sleep; the first one of a new task is none.
    pub wakeups: u64,
    /// Sum of the delays from becoming runnable (woken, new or preempted) to running, as `perf sched latency` counts them.
    pub delay: Time,
    /// Number of those delays.
    pub delays: u64,
    /// The longest of them.
    pub max_delay: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not seen yet.
    Unknown,
    Waiting,
    Running,
    Asleep,
    Dead,
}

#[derive(Debug, Clone)]
struct TaskRecord {
    state: State,
    /// When the state began.
    since: Time,
    born: Time,
    died: Time,
    metrics: TaskMetrics,
}

impl TaskRecord {
    const UNKNOWN: Self = Self {
        state: State::Unknown,
        since: Time::ZERO,
        born: Time::ZERO,
        died: Time::ZERO,
        metrics: TaskMetrics {
            life: Time::ZERO,
            run: Time::ZERO,
            wait: Time::ZERO,
            sleep: Time::ZERO,
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            wakeups: 0,
            delay: Time::ZERO,
            delays: 0,
            max_delay: Time::ZERO,
        },
    };

    /// Accounts the time since the state began to that state.
    fn settle(&mut self, now: Time) {
        let span = now.saturating_sub(self.since);
        match self.state {
            State::Unknown | State::Dead => {}
            State::Waiting => self.metrics.wait += span,
            State::Running => self.metrics.run += span,
            State::Asleep => self.metrics.sleep += span,
        }
        self.since = now;
    }

    fn become_state(&mut self, state: State, now: Time) {
        if self.state == State::Unknown {
            self.born = now;
        }
        self.settle(now);
        self.state = state;
        self.died = now;
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct CpuRecord {
    running: Option<TaskId>,
    since: Time,
    busy: Time,
}

/// A fold over events. O(1) time an event, memory for each task and CPU.
///
/// A task that was there before the events began is known from its first event on.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    tasks: Vec<TaskRecord>,
    cpus: Vec<CpuRecord>,
    switches: u64,
    last: Time,
}

impl Metrics {
    /// Context switches: times that a task went to sleep or was preempted, as each task's own counters (`getrusage`) have it. A CPU that
    /// leaves idling, and a task that ends, count nothing.
    pub const fn switches(&self) -> u64 {
        self.switches
    }

    /// The time of the last event.
    pub const fn last(&self) -> Time {
        self.last
    }

    /// How many tasks there are; some of lower numbers may never have been heard of.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// What `task` got until `end`, which is not before the last event; `None` if no event named it.
    pub fn task(&self, task: TaskId, end: Time) -> Option<TaskMetrics> {
        let mut record = self.tasks.get(task.index()).filter(|record| record.state != State::Unknown)?.clone();
        let alive = record.state != State::Dead;
        record.settle(end);
        let died = if alive { end } else { record.died };
        record.metrics.life = died.saturating_sub(record.born);
        Some(record.metrics)
    }

    /// How long each CPU ran tasks until `end`, which is not before the last event.
    pub fn cpu_busy(&self, end: Time) -> Vec<Time> {
        let busy = |cpu: &CpuRecord| match cpu.running {
            Some(_) => cpu.busy + end.saturating_sub(cpu.since),
            None => cpu.busy,
        };
        self.cpus.iter().map(busy).collect()
    }

    fn task_mut(&mut self, task: TaskId) -> Option<&mut TaskRecord> {
        if task == TaskId::IDLE {
            return None;
        }
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, TaskRecord::UNKNOWN);
        }
        self.tasks.get_mut(task.index())
    }

    fn switch(&mut self, event: Event, previous: TaskId, state: TaskState, next: TaskId) {
        let now = event.time;
        if self.cpus.len() <= event.cpu.index() {
            self.cpus.resize(event.cpu.index() + 1, CpuRecord::default());
        }
        let cpu = &mut self.cpus[event.cpu.index()];
        if cpu.running.is_some() {
            cpu.busy += now.saturating_sub(cpu.since);
        }
        (cpu.running, cpu.since) = ((next != TaskId::IDLE).then_some(next), now);
        if previous != TaskId::IDLE && state != TaskState::Dead {
            self.switches += 1;
        }
        if let Some(record) = self.task_mut(previous) {
            let after = match state {
                TaskState::Running => {
                    record.metrics.involuntary += 1;
                    State::Waiting
                }
                TaskState::Interruptible | TaskState::Uninterruptible | TaskState::Stopped => {
                    record.metrics.voluntary += 1;
                    State::Asleep
                }
                TaskState::Dead => State::Dead,
            };
            record.become_state(after, now);
        }
        if let Some(record) = self.task_mut(next) {
            if record.state == State::Waiting {
                let delay = now.saturating_sub(record.since);
                record.metrics.delay += delay;
                record.metrics.delays += 1;
                record.metrics.max_delay = record.metrics.max_delay.max(delay);
            }
            record.become_state(State::Running, now);
        }
    }
}

impl EventSink for Metrics {
    fn event(&mut self, event: Event) {
        let now = event.time;
        self.last = now;
        match event.kind {
            EventKind::Fork { child, .. } => {
                if let Some(record) = self.task_mut(child) {
                    record.become_state(State::Waiting, now);
                }
            }
            EventKind::WakeupNew { task, .. } => {
                // Its delay counts from its fork, as its life does.
                if let Some(record) = self.task_mut(task)
                    && record.state == State::Unknown
                {
                    record.become_state(State::Waiting, now);
                }
            }
            EventKind::Waking { task, .. } => {
                if let Some(record) = self.task_mut(task)
                    && matches!(record.state, State::Unknown | State::Asleep)
                {
                    record.metrics.wakeups += 1;
                    record.become_state(State::Waiting, now);
                }
            }
            EventKind::Switch { previous, state, next } => self.switch(event, previous, state, next),
            EventKind::Migrate { task, .. } => {
                if let Some(record) = self.task_mut(task) {
                    record.metrics.migrations += 1;
                }
            }
            EventKind::Exit { .. } | EventKind::Mark { .. } => {}
        }
    }
}
