//! The nouns of schedlab: plain data, (de)serialised with serde and validated, with no behaviour of the scheduler in it.
//!
//! A [`Workload`] runs on a [`Machine`] under a [`Scheduler`]; what happens is a stream of [`Event`]s, and what it came to is an [`Outcome`].

mod error;
mod event;
mod features;
mod group;
mod knobs;
mod machine;
mod outcome;
mod placement;
mod release;
mod scheduler;
mod thread_weights;
mod topology;
mod units;
mod workload;

pub use error::ModelError;
pub use event::{CpuId, Event, EventKind, EventSink, NoEvents, TaskId, TaskState};
pub use features::Features;
pub use group::{Group, GroupMax, GroupNode, group_tree};
pub use knobs::{KNOBS, Knob, KnobKind, KnobSetting, KnobValue, Place, Scaling, find_knob};
pub use machine::{Costs, CpuChange, MAX_CPUS, Machine};
pub use outcome::{GroupOutcome, MetricSource, Outcome, TaskOutcome};
pub use placement::{Members, Placement};
pub use release::{Release, Series};
pub use scheduler::{Scheduler, Tunables};
pub use thread_weights::{Beta, ThreadWeights};
pub use topology::Topology;
pub use units::Time;
pub use workload::{Attributes, Channel, ChannelKind, Duration, MAX_TASKS, Policy, Step, Task, TaskKind, Workload};
