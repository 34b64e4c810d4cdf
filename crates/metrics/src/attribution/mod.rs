//! Where waiting time goes: every nanosecond between runnable and running to one [`Cause`], a rule of the scheduler with its margin.
//!
//! [`Attribution`] is a sink of events and decisions, the same for simulated runs and replayed recordings. A wait is cut where a decision
//! about it is made: from then on the new decision's rule accounts for it. The order in which causes are asked:
//!
//! 1. The task's group is throttled: its quota.
//! 2. The CPU was marked for rescheduling, and the task is the next one there: rescheduling latency.
//! 3. Another CPU on which the task may run idles: CPU selection, or what the idle CPU's balancing last decided.
//! 4. The last decision about the task on its CPU: the pick that passed it over, the wakeup that did not preempt, the tick after which the
//!    running task went on.
//!
//! The cost of a switch is time of the task that is switched in: `sched_switch` comes before it, and the wait ends there.

mod cause;
mod fold;
mod records;
mod summary;
mod task_groups;
mod verdicts;
mod waits;

pub use cause::Cause;
pub use fold::Attribution;
pub use summary::{Around, CauseShare, NamedSpan, Names, Summary, TaskWaits, WorstWait};
pub use waits::{Span, Wait, WaitKind, Waits};
