//! Every metric, as a streaming fold over events, and the invariants that every stream of events keeps.
//!
//! Both [`Metrics`] and [`Invariants`] are [`EventSink`](schedlab_model::EventSink)s, so no trace need be stored; a pair of
//! sinks is a sink.
//!
//! ```
//! use schedlab_metrics::{Invariants, Metrics};
//! use schedlab_model::{CpuId, Event, EventKind, EventSink, TaskId, TaskState, Time};
//!
//! let mut sinks = (Metrics::default(), Invariants::new(1, Time::ZERO));
//! let mut happen = |micros, kind| sinks.event(Event { time: Time::from_micros(micros), cpu: CpuId(0), kind });
//! let task = TaskId(0);
//! happen(0, EventKind::Fork { parent: TaskId::IDLE, child: task });
//! happen(0, EventKind::WakeupNew { task, target: CpuId(0) });
//! happen(0, EventKind::Switch { previous: TaskId::IDLE, state: TaskState::Running, next: task });
//! happen(7, EventKind::Switch { previous: task, state: TaskState::Dead, next: TaskId::IDLE });
//! let (metrics, invariants) = sinks;
//! assert_eq!(metrics.task(task, Time::from_micros(7)).unwrap().run, Time::from_micros(7));
//! assert!(invariants.finish(Time::from_micros(7)).is_ok());
//! ```

mod attribution;
mod behaviour;
mod fold;
mod invariants;
mod lengths;
mod outcome;
mod tail;

pub use attribution::{
    Around, Attribution, Cause, CauseShare, NamedSpan, Names, Span, Summary, TaskWaits, Wait, WaitKind, Waits,
    WorstWait,
};
pub use behaviour::{Behaved, BehavedTask, Behaviour};
pub use fold::{Metrics, TaskMetrics};
pub use invariants::{Broken, Invariants};
pub use lengths::{WaitLengths, nearest_rank};
pub use tail::Tail;
