//! How a run behaved: what each task got, and how long it waited when it was woken.

use schedlab_model::{Event, EventKind, EventSink, LATENCY_BUCKETS, Latency, TaskId, Time, latency_bucket};
use serde::Serialize;

use crate::tail::{Longest, Tail};
use crate::{Metrics, TaskMetrics};

/// How long tasks waited from their wake-ups to their CPUs.
#[derive(Debug, Clone, Default)]
struct Delays {
    /// When it was woken, until it runs.
    woken: Option<Time>,
    buckets: Vec<u64>,
    longest: u64,
}

impl Delays {
    fn add(&mut self, delay: u64) {
        self.buckets.resize(LATENCY_BUCKETS, 0);
        self.buckets[latency_bucket(delay)] += 1;
        self.longest = self.longest.max(delay);
    }

    fn latency(&self) -> Latency {
        Latency::new(&self.buckets, self.longest)
    }
}

/// [`Metrics`], and the distribution of wake-up latencies: from a sleeper's wake-up (`sched_waking`) until it is switched in.
///
/// Events of a simulation and those of a recording are folded by the same code, so that their figures mean the same.
///
/// ```
/// use schedlab_metrics::Behaviour;
/// use schedlab_model::{CpuId, Event, EventKind, EventSink, TaskId, TaskState, Time};
///
/// let mut behaviour = Behaviour::default();
/// let mut happen = |micros, kind| behaviour.event(Event { time: Time::from_micros(micros), cpu: CpuId(0), kind });
/// let (task, idle) = (TaskId(0), TaskId::IDLE);
/// happen(0, EventKind::Switch { previous: idle, state: TaskState::Running, next: task });
/// happen(2, EventKind::Switch { previous: task, state: TaskState::Interruptible, next: idle });
/// happen(6, EventKind::Waking { task, waker: idle, target: CpuId(0) });
/// happen(9, EventKind::Switch { previous: idle, state: TaskState::Running, next: task });
/// let whole = behaviour.summary(Time::from_micros(10), |_| "t".to_owned());
/// assert_eq!((whole.tasks[0].run_ns, whole.tasks[0].latency.max_ns), (3_000, 3_000));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    metrics: Metrics,
    delays: Vec<Delays>,
    all: Delays,
    longest: Longest,
    /// Which tasks are background: those that are told of, and those that they make.
    background: Vec<bool>,
}

/// The result of [`Behaviour`]. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Behaved {
    /// The length of the run.
    pub elapsed_ns: u64,
    /// Switches of tasks that went to sleep or ended.
    pub voluntary: u64,
    /// Switches of tasks that were preempted.
    pub involuntary: u64,
    /// Wake-up latencies of all tasks.
    pub latency: Latency,
    /// The waits of at least the 99th percentile of those; none without any, or of more than 409,500.
    pub tail: Option<Tail>,
    /// Each task's part.
    pub tasks: Vec<BehavedTask>,
}

/// A task's part of [`Behaved`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BehavedTask {
    /// What it is called.
    pub name: String,
    /// On a CPU.
    pub run_ns: u64,
    /// Runnable but not running.
    pub wait_ns: u64,
    /// When it was seen last, since the beginning.
    pub life_ns: u64,
    /// Switches because it went to sleep.
    pub voluntary: u64,
    /// Switches because it was preempted.
    pub involuntary: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// From wake-ups to the CPU.
    pub latency: Latency,
}

impl Behaviour {
    /// Of a run some of whose first tasks are background, of which it tells nothing, nor of those that they make.
    pub fn beside(background: Vec<bool>) -> Self {
        Self { background, ..Self::default() }
    }

    fn is_background(&self, task: TaskId) -> bool {
        self.background.get(task.index()).copied().unwrap_or(false)
    }

    /// What was seen until `end`, each task under the name that `name` gives it.
    pub fn summary(&self, end: Time, name: impl Fn(TaskId) -> String) -> Behaved {
        let end = end.max(self.metrics.last());
        let ids = (0..self.metrics.tasks()).map(|index| TaskId(index as u32));
        let tasks: Vec<(TaskId, TaskMetrics)> = ids
            .filter(|task| !self.is_background(*task))
            .filter_map(|task| Some((task, self.metrics.task(task, end)?)))
            .collect();
        Behaved {
            elapsed_ns: end.as_nanos(),
            voluntary: tasks.iter().map(|(_, task)| task.voluntary).sum(),
            involuntary: tasks.iter().map(|(_, task)| task.involuntary).sum(),
            latency: self.all.latency(),
            tail: self.longest.tail(self.all.latency().count),
            tasks: tasks
                .iter()
                .map(|(id, task)| BehavedTask {
                    name: name(*id),
                    run_ns: task.run.as_nanos(),
                    wait_ns: task.wait.as_nanos(),
                    life_ns: task.life.as_nanos(),
                    voluntary: task.voluntary,
                    involuntary: task.involuntary,
                    wakeups: task.wakeups,
                    latency: self.delays.get(id.index()).map(Delays::latency).unwrap_or_default(),
                })
                .collect(),
        }
    }
}

impl EventSink for Behaviour {
    fn event(&mut self, event: Event) {
        match event.kind {
            EventKind::Fork { parent, child } if self.is_background(parent) => {
                if self.background.len() <= child.index() {
                    self.background.resize(child.index() + 1, false);
                }
                self.background[child.index()] = true;
            }
            EventKind::Waking { task, .. } if task != TaskId::IDLE && !self.is_background(task) => {
                if self.delays.len() <= task.index() {
                    self.delays.resize_with(task.index() + 1, Delays::default);
                }
                self.delays[task.index()].woken.get_or_insert(event.time);
            }
            EventKind::Switch { next, .. } => {
                if let Some(delays) = self.delays.get_mut(next.index())
                    && let Some(woken) = delays.woken.take()
                {
                    let delay = event.time.saturating_sub(woken).as_nanos();
                    delays.add(delay);
                    self.all.add(delay);
                    self.longest.add(delay, woken.as_nanos());
                }
            }
            _ => {}
        }
        self.metrics.event(event);
    }
}
