//! What trace files call a task.

use schedlab_model::{Attributes, Policy, TaskId};

use crate::fields::Pid;

/// The pid of task 0 in files that are written; pid 0 is the idle task and pid 1 is init, so simulated ones start well above.
pub const PID_BASE: Pid = 1000;

/// The pid of the process that has all background tasks in Perfetto traces.
pub(crate) const BACKGROUND_PID: Pid = PID_BASE - 1;

/// The pid that stands for `task` in files that are written.
///
/// ```
/// use schedlab_model::TaskId;
/// assert_eq!(schedlab_trace::pid(TaskId(3)), 1003);
/// assert_eq!(schedlab_trace::pid(TaskId::IDLE), 0);
/// ```
pub const fn pid(task: TaskId) -> Pid {
    if task.0 == TaskId::IDLE.0 { 0 } else { PID_BASE.saturating_add(task.0) }
}

/// A task's name and what else trace files say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLabel {
    /// Its name. Line breaks become `_`.
    pub name: String,
    /// The kernel's priority: 120 + nice for the fair policies, 99 − priority for the real-time ones, −1 for deadline tasks.
    pub priority: i32,
    /// For a thread, the first thread of its process.
    pub process: Option<TaskId>,
    /// Its own pid; the one that stands for its [`TaskId`] otherwise.
    pub pid: Option<Pid>,
    /// Whether it is other work of the machine, which stands apart from the workload's tasks.
    pub background: bool,
}

impl TaskLabel {
    /// A process of nice 0.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), priority: 120, process: None, pid: None, background: false }
    }

    /// The same task under `attributes`.
    ///
    /// ```
    /// use schedlab_model::Attributes;
    /// use schedlab_trace::TaskLabel;
    /// let nice = Attributes { nice: -5, ..Attributes::default() };
    /// assert_eq!(TaskLabel::new("A").with_attributes(&nice).priority, 115);
    /// ```
    #[must_use]
    pub fn with_attributes(mut self, attributes: &Attributes) -> Self {
        self.priority = match attributes.policy {
            Policy::Fifo(priority) | Policy::Rr(priority) => 99 - i32::from(priority),
            Policy::Deadline { .. } => -1,
            Policy::Other | Policy::Batch | Policy::Idle => 120 + i32::from(attributes.nice),
        };
        self
    }
}

/// The names of every task of a run, by [`TaskId`].
pub(crate) struct Labels<'a>(pub(crate) &'a [TaskLabel]);

impl Labels<'_> {
    /// Name, pid and priority; a task without a label is called by its number.
    pub(crate) fn of(&self, task: TaskId, cpu: u32) -> (String, i32, i32) {
        if task == TaskId::IDLE {
            return (format!("swapper/{cpu}"), 0, 120);
        }
        let label = self.0.get(task.index());
        let number = label.and_then(|label| label.pid).unwrap_or_else(|| pid(task));
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        match label {
            Some(label) => (clean(&label.name), number, label.priority),
            None => (format!("task{}", task.0), number, 120),
        }
    }
}

fn clean(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '_' } else { c }).collect()
}
