//! Writing ftrace's text.

use std::io::Write;

use schedlab_model::{Event, EventKind, TaskId};

use crate::TraceError;
use crate::label::{Labels, TaskLabel};

/// Writes `events` as `/sys/kernel/tracing/trace` shows them, with nanoseconds in place of its microseconds.
///
/// `labels` names the tasks in the order of their [`TaskId`]s; `rules` is the kernel release whose rules ran, with what of them was
/// switched, for a comment at the head; `cpus` is the machine's number of CPUs. Each waking writes `sched_waking` and `sched_wakeup`;
/// marks appear as `tracing_mark_write`. [`crate::Reader`] reads the text back.
///
/// # Errors
/// [`TraceError::Io`] if `output` cannot be written.
///
/// ```
/// use schedlab_model::{CpuId, Event, EventKind, TaskId, TaskState, Time};
/// use schedlab_trace::{TaskLabel, write_ftrace};
/// let kind = EventKind::Switch { previous: TaskId::IDLE, state: TaskState::Running, next: TaskId(0) };
/// let event = Event { time: Time::from_micros(5), cpu: CpuId(0), kind };
/// let mut text = Vec::new();
/// write_ftrace(&mut text, &[event], &[TaskLabel::new("worker")], "6.12.95", 1)?;
/// let text = String::from_utf8(text).unwrap();
/// assert!(text.contains("prev_state=R ==> next_comm=worker next_pid=1000 next_prio=120"), "{text}");
/// # Ok::<(), schedlab_trace::TraceError>(())
/// ```
pub fn write_ftrace<W: Write>(
    output: W,
    events: &[Event],
    labels: &[TaskLabel],
    rules: &str,
    cpus: u32,
) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { what: "writing ftrace text".to_owned(), source };
    let mut writer = Writer { output, labels: Labels(labels), running: vec![TaskId::IDLE; cpus as usize] };
    let lines = events.iter().map(|event| if matches!(event.kind, EventKind::Waking { .. }) { 2 } else { 1 }).sum();
    writer.head(lines, rules, cpus).map_err(failed)?;
    for event in events {
        writer.event(event).map_err(failed)?;
    }
    writer.output.flush().map_err(failed)
}

struct Writer<'a, W> {
    output: W,
    labels: Labels<'a>,
    /// The task on each CPU: ftrace's first column.
    running: Vec<TaskId>,
}

impl<W: Write> Writer<'_, W> {
    fn head(&mut self, lines: usize, rules: &str, cpus: u32) -> std::io::Result<()> {
        writeln!(self.output, "# tracer: nop\n#")?;
        writeln!(self.output, "# entries-in-buffer/entries-written: {lines}/{lines}   #P:{cpus}\n#")?;
        writeln!(self.output, "# rules: {rules}\n#")?;
        self.output.write_all(HEAD.as_bytes())
    }

    fn event(&mut self, event: &Event) -> std::io::Result<()> {
        let cpu = event.cpu.0;
        match event.kind {
            EventKind::Fork { parent, child } => {
                let (name, pid, _) = self.labels.of(parent, cpu);
                let (child_name, child_pid, _) = self.labels.of(child, cpu);
                let text = format!("comm={name} pid={pid} child_comm={child_name} child_pid={child_pid}");
                self.line(event, "sched_process_fork", &text)
            }
            EventKind::Waking { task, waker, target } => {
                let text = self.woken(task, target.0);
                // A wake-up without a waker is an interrupt's, whichever task runs meanwhile.
                let context = if waker == TaskId::IDLE { INTERRUPT } else { TASK };
                self.line_in(context, event, "sched_waking", &text)?;
                self.line_in(context, event, "sched_wakeup", &text)
            }
            EventKind::WakeupNew { task, target } => {
                let text = self.woken(task, target.0);
                self.line(event, "sched_wakeup_new", &text)
            }
            EventKind::Switch { previous, state, next } => {
                let (name, pid, priority) = self.labels.of(previous, cpu);
                let (next_name, next_pid, next_priority) = self.labels.of(next, cpu);
                let text = format!(
                    "prev_comm={name} prev_pid={pid} prev_prio={priority} prev_state={} ==> next_comm={next_name} \
                     next_pid={next_pid} next_prio={next_priority}",
                    state.letter()
                );
                self.line(event, "sched_switch", &text)?;
                if let Some(running) = self.running.get_mut(event.cpu.index()) {
                    *running = next;
                }
                Ok(())
            }
            EventKind::Migrate { task, from, to } => {
                let text = format!("{} orig_cpu={} dest_cpu={}", self.task(task, cpu), from.0, to.0);
                self.line(event, "sched_migrate_task", &text)
            }
            EventKind::Exit { task } => {
                let text = self.task(task, cpu);
                self.line(event, "sched_process_exit", &text)
            }
            EventKind::Mark { mark, .. } => self.line(event, "tracing_mark_write", &format!("mark {mark}")),
        }
    }

    fn task(&self, task: TaskId, cpu: u32) -> String {
        let (name, pid, priority) = self.labels.of(task, cpu);
        format!("comm={name} pid={pid} prio={priority}")
    }

    fn woken(&self, task: TaskId, target: u32) -> String {
        format!("{} target_cpu={target:03}", self.task(task, target))
    }

    fn line(&mut self, event: &Event, name: &str, text: &str) -> std::io::Result<()> {
        self.line_in(TASK, event, name, text)
    }

    fn line_in(&mut self, context: &str, event: &Event, name: &str, text: &str) -> std::io::Result<()> {
        let running = self.running.get(event.cpu.index()).copied().unwrap_or(TaskId::IDLE);
        let (task, pid, _) =
            if running == TaskId::IDLE { ("<idle>".to_owned(), 0, 0) } else { self.labels.of(running, event.cpu.0) };
        let time = event.time.as_nanos();
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        let cpu = event.cpu.0;
        writeln!(self.output, "{task:>16}-{pid:<7} [{cpu:03}] {context} {seconds:>5}.{rest:09}: {name}: {text}")
    }
}

/// The latency columns of what a task does with interrupts off, and of what an interrupt does.
const TASK: &str = "d..2.";
const INTERRUPT: &str = "d.h2.";

/// The legend over the columns (`kernel/trace/trace.c`, `print_func_help_header_irq`), so that viewers know the layout.
const HEAD: &str = "\
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";
