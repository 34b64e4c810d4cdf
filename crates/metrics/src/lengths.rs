//! How long tasks waited, each wait: for exact percentiles of runs that give no reasons.

use schedlab_model::{Event, EventKind, EventSink, TaskId, TaskState, Time};

/// The length of every wait that ended, from runnable to running, in the order in which they ended.
///
/// ```
/// use schedlab_metrics::WaitLengths;
/// use schedlab_model::{CpuId, Event, EventKind, EventSink, TaskId, TaskState, Time};
/// let mut lengths = WaitLengths::default();
/// let (task, idle, cpu) = (TaskId(0), TaskId::IDLE, CpuId(0));
/// let mut happen = |micros, kind| lengths.event(Event { time: Time::from_micros(micros), cpu, kind });
/// happen(6, EventKind::Waking { task, waker: idle, target: cpu });
/// happen(9, EventKind::Switch { previous: idle, state: TaskState::Running, next: task });
/// assert_eq!(lengths.ended(), [(task, true, 3_000)]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct WaitLengths {
    /// By task: since when it waits, and whether a wake-up began that.
    since: Vec<Option<(Time, bool)>>,
    ended: Vec<(TaskId, bool, u64)>,
}

impl WaitLengths {
    /// Each wait that ended: the task, whether a wake-up from sleep began it, and its length in nanoseconds.
    pub fn ended(&self) -> &[(TaskId, bool, u64)] {
        &self.ended
    }

    fn begin(&mut self, task: TaskId, now: Time, woken: bool) {
        if task == TaskId::IDLE {
            return;
        }
        if self.since.len() <= task.index() {
            self.since.resize(task.index() + 1, None);
        }
        self.since[task.index()].get_or_insert((now, woken));
    }
}

impl EventSink for WaitLengths {
    fn event(&mut self, event: Event) {
        let now = event.time;
        match event.kind {
            EventKind::Waking { task, .. } => self.begin(task, now, true),
            EventKind::WakeupNew { task, .. } => self.begin(task, now, false),
            EventKind::Switch { previous, state, next } => {
                if let Some((since, woken)) = self.since.get_mut(next.index()).and_then(Option::take) {
                    self.ended.push((next, woken, now.saturating_sub(since).as_nanos()));
                }
                if state == TaskState::Running {
                    self.begin(previous, now, false);
                }
            }
            _ => {}
        }
    }
}

/// The percentile of sorted numbers by nearest rank; 0 of none.
///
/// ```
/// use schedlab_metrics::nearest_rank;
/// assert_eq!(nearest_rank(&[1, 2, 3, 4], 50.0), 2);
/// assert_eq!(nearest_rank(&[1, 2, 3, 4], 99.0), 4);
/// ```
pub fn nearest_rank(sorted: &[u64], percent: f64) -> u64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}
