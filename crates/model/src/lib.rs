//! The data types of schedlab: plain data, (de)serialised with serde and validated, without any scheduler's behaviour.
//!
//! A [`Workload`] runs on a [`Machine`] under a [`Scheduler`]; the run is a stream of [`Event`]s, and its result an [`Outcome`].

mod catalogue;
mod change;
mod disturbance;
mod error;
mod event;
mod file;
mod group;
mod knobs;
mod latency;
mod machine;
mod outcome;
mod placement;
mod reason;
mod release;
mod scheduler;
mod speed;
mod step;
mod thread_weights;
mod topology;
mod units;
mod workload;

pub use catalogue::{CommitRow, KnobRow, ReleaseRow, RuleRow, knob_rows, release_rows, rule_rows};
pub use change::{Change, Clamp};
pub use disturbance::{Disturbance, Watched};
pub use error::ModelError;
pub use event::{CpuId, Event, EventKind, EventSink, NoEvents, Standing, TaskId, TaskState};
pub use file::{Devices, File, MAX_FILE, Opening};
pub use group::{Group, GroupMax, GroupNode, group_tree};
pub use knobs::{Features, KNOBS, Knob, KnobKind, KnobSetting, KnobValue, Place, Scaling, find_knob};
pub use latency::{Histogram, LATENCY_BUCKETS, Latency, latencies, latency_bucket};
pub use machine::{Costs, CpuChange, MAX_CPUS, Machine, Preempt};
pub use outcome::{Begun, GroupOutcome, MetricSource, Outcome, TaskOutcome};
pub use placement::{Members, Placement};
pub use reason::{
    AffineRule, BalanceRule, Candidate, Decision, NewidleRule, PassedOver, PickClass, PickLevel, PickRule, PlaceRule,
    Reason, SelectRule, Target, TurnRule, WakeupRule,
};
pub use release::{Commit, Release, Row, RowKind, RuleSet, Series};
pub use scheduler::{Scheduler, Tunables};
pub use speed::{Percentage, Speed};
pub use step::{Access, Buffer, Duration, FileAccess, Offset, Step};
pub use thread_weights::{Beta, ThreadWeights};
pub use topology::Topology;
pub use units::Time;
pub use workload::{Attributes, Channel, ChannelKind, MAX_TASKS, Policy, Task, TaskKind, Workload};
