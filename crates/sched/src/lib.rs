//! The rules of the Linux scheduler, pure: no event loop, no I/O, no clock and no randomness of their own.
//!
//! The rules have two masters: the simulator's engine, and a real kernel's recorded events. Both drive [`Sched`] through the
//! sequences of `kernel/sched/core.c` under their names, give it the clocks, and read back what was decided. Where a rule
//! decides something, the decision passes through a [`Decider`]: the engine's takes ours, replay's compares and takes the kernel's.
//!
//! ```
//! use schedlab_model::{Attributes, CpuId, Scheduler, TaskId, TaskState, Time};
//! use schedlab_sched::{Clocks, Ours, Rules, Sched, WakeKind};
//!
//! let rules = Rules::new(&Scheduler::new("6.1".parse()?), 1)?;
//! let mut sched = Sched::new(rules, 1, Ours::default());
//! let cpu = CpuId(0);
//! sched.set_clocks(cpu, Clocks::all(Time::from_millis(1)));
//! let task = sched.new_task(&Attributes::default());
//! let placed = sched.select_task_rq(task, cpu, WakeKind::Fork);
//! sched.wake_up_new_task(task, placed);
//! assert!(sched.need_resched(cpu));
//! assert_eq!(sched.schedule(cpu, TaskState::Running).next, task);
//! # Ok::<(), schedlab_model::ModelError>(())
//! ```

mod balance;
mod bitmap;
mod class;
mod core;
mod custom;
mod deadline;
mod deadline_admission;
mod decider;
mod divisor;
mod entity;
mod error;
mod fair;
mod fair_server;
mod fast_path;
mod follow;
mod group;
mod hotplug;
mod hrtick;
mod idle;
mod machine;
mod migration;
mod process;
mod reason;
mod rt;
mod rt_bandwidth;
mod rules;
mod runqueue;
mod stop;
mod syscalls;
mod table;
mod thread_fair;
mod tick_skip;
mod timers;

pub use balance::WakeKind;
pub use balance::domains::{Domain, DomainFlags, Group, Shape};
pub use balance::env::Idle;
pub use balance::state::Migration;
pub use class::{Class, DequeueFlags, EnqueueFlags};
pub use core::Scheduled;
pub use custom::{CustomClass, View};
pub use deadline::{DlEntityId, DlState};
pub use decider::{Decider, Ours, Pick, Preemption, Pull};
pub use divisor::Divisor;
pub use entity::{CfsRqId, Entity, EntityId, TaskStruct, Vruntime};
pub use error::SchedError;
pub use fair::bandwidth::{BandwidthStats, BandwidthTimer};
pub use fair::cfs_rq::CfsRq;
pub use fair::group::{GroupId, shares_of_cgroup_weight};
pub use fair::pelt;
pub use fair::thread_fairness;
pub use fair::timeline::Timeline;
pub use fair::weight::{Weight, calc_delta, calc_delta_mine, scale_load_down, weight_of_nice};
pub use fast_path::{Books, FlatSlices, FlatTick, Wakeup};
pub use follow::{DomainPast, Past, RtState};
pub use machine::Sched;
pub use rules::Rules;
pub use runqueue::Clocks;
pub use thread_fair::{ThreadFair, ThreadFairKnobs};
pub use timers::Timer;
