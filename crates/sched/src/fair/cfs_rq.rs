//! `struct cfs_rq`: one fair queue, a CPU's root or a group's on one CPU.

use schedlab_model::CpuId;

use crate::entity::{EntityId, Vruntime};
use crate::fair::timeline::Timeline;
use crate::fair::weight::Weight;

/// A fair queue.
#[derive(Debug, Clone)]
pub struct CfsRq {
    /// The CPU it belongs to.
    pub cpu: CpuId,
    /// `load`: the weight of everything on it, the running entity included.
    pub load: Weight,
    /// `nr_running`: entities on it, the running one included.
    pub nr_running: u32,
    /// `h_nr_running`: tasks below it, through all groups.
    pub h_nr_running: u32,
    /// `idle_h_nr_running`: of those, SCHED_IDLE ones.
    pub idle_h_nr_running: u32,
    /// `min_vruntime`: never goes back.
    pub min_vruntime: Vruntime,
    /// `curr`: the running entity; it is not in the timeline.
    pub curr: Option<EntityId>,
    /// `next`: whoever should run next if that is not too unfair.
    pub next: Option<EntityId>,
    /// `last`: whoever was preempted last.
    pub last: Option<EntityId>,
    /// `skip`: whoever yielded.
    pub skip: Option<EntityId>,
    /// `tasks_timeline`.
    pub timeline: Timeline,
    /// `zero_vruntime`: the origin of `avg_vruntime`, close to the average (EEVDF).
    pub zero_vruntime: Vruntime,
    /// `avg_vruntime`: Σ (vruntime − zero) · weight of what is in the timeline (EEVDF).
    pub avg_vruntime: i64,
    /// `avg_load`: Σ weight of what is in the timeline (EEVDF).
    pub avg_load: i64,
}

impl CfsRq {
    /// An empty queue. Virtual time starts 1 ms before it wraps (2²⁰ ns, `init_cfs_rq`), so that wrapping is met early.
    pub fn new(cpu: CpuId) -> Self {
        Self {
            cpu,
            load: Weight::default(),
            nr_running: 0,
            h_nr_running: 0,
            idle_h_nr_running: 0,
            min_vruntime: Vruntime(0u64.wrapping_sub(1 << 20)),
            curr: None,
            next: None,
            last: None,
            skip: None,
            timeline: Timeline::default(),
            zero_vruntime: Vruntime(0u64.wrapping_sub(1 << 20)),
            avg_vruntime: 0,
            avg_load: 0,
        }
    }
}
