//! The rules of `crates/sched`, one file a behaviour. Every expected number is worked out in the comment above it from the
//! kernel's rule: 2.6.24's `kernel/sched_fair.c` and `kernel/sched.c`, 5.10's and 6.1's `kernel/sched/{fair,rt,core}.c`.

mod autogroup;
mod bandwidth;
mod buddies;
mod changing_attributes;
mod choosing_cpus;
mod deadline;
mod documentation;
mod eevdf;
mod eevdf_flags;
mod eevdf_properties;
mod eevdf_releases;
mod fork_placement;
mod group_properties;
mod groups;
mod hrtick;
mod lab;
mod migration;
mod pelt;
mod pelt_leaving;
mod pelt_moves;
mod pelt_reference;
mod periods;
mod properties;
mod realtime;
mod reasons;
mod shares;
mod shares_of_trees;
mod single_timeline;
mod tick_preemption;
mod tick_skipping;
mod virtual_time;
mod wake_placement;
mod wake_preemption;
mod weights;
mod yielding;
