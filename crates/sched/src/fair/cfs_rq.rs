//! `struct cfs_rq`: one fair queue, a CPU's root or a group's on one CPU.

use schedlab_model::{CpuId, TaskId};

use crate::entity::{EntityId, Vruntime};
use crate::fair::group::GroupId;
use crate::fair::pelt::queue_load::QueueLoad;
use crate::fair::timeline::Timeline;
use crate::fair::weight::Weight;
use crate::rules::Rules;

/// A fair queue: what each charge and pick touches is in its first cache lines.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct CfsRq {
    /// `load`: the weight of everything on it, the running entity included.
    pub load: Weight,
    /// `min_vruntime`: never goes back.
    pub min_vruntime: Vruntime,
    /// `curr`: the running entity; it is not in the timeline. With a single timeline (7.3) a group's queue has its `h_curr` here.
    pub curr: Option<EntityId>,
    /// `next`: the entity that should run next if that is not too unfair.
    pub next: Option<EntityId>,
    /// `nr_running`: entities on it, the running one included.
    pub nr_running: u32,
    /// `h_nr_running`: tasks below it, through all groups.
    pub h_nr_running: u32,
    /// `h_nr_delayed`: of those, the delayed ones (EEVDF).
    pub h_nr_delayed: u32,
    /// `idle_h_nr_running`: of those, SCHED_IDLE ones.
    pub idle_h_nr_running: u32,
    /// `last`: the entity that was preempted last.
    pub last: Option<EntityId>,
    /// `skip`: the entity that yielded.
    pub skip: Option<EntityId>,
    /// `zero_vruntime`: the origin of `avg_vruntime`, close to the average (EEVDF).
    pub zero_vruntime: Vruntime,
    /// `avg_vruntime`: Σ (vruntime − zero) · weight of what is in the timeline (EEVDF).
    pub avg_vruntime: i64,
    /// `avg_load`: Σ weight of what is in the timeline (EEVDF).
    pub avg_load: i64,
    /// Its weight, a task's and how many are on it, for which a slice was found last, and that slice (flat queues).
    pub(crate) last_slice: ((u64, u64, u32), u64),
    /// `tasks_timeline`.
    pub timeline: Timeline,
    /// The CPU it belongs to.
    pub cpu: CpuId,
    /// `idle_nr_running`: entities on it that are SCHED_IDLE tasks or idle groups; kept where there are groups (CFS).
    pub idle_nr_running: u32,
    /// The group whose queue it is.
    pub group: GroupId,
    /// `idle`: its group is idle (`cpu.idle`).
    pub idle: bool,
    /// `runtime_enabled`: its group's bandwidth is limited.
    pub runtime_enabled: bool,
    /// `throttled`: it has no runtime left, and is out of the queue above (before 6.18).
    pub throttled: bool,
    /// `throttle_count`: how many queues from it upwards are throttled.
    pub throttle_count: u32,
    /// `runtime_remaining`, in nanoseconds, where bandwidth is limited.
    pub runtime_remaining: i64,
    /// `throttled_limbo_list`: the tasks that were taken off, the last one first (6.18 on).
    pub limbo: Vec<TaskId>,
    /// `h_curr` of a CPU's root queue with a single timeline (7.3): the entity of the top level that the running task is below.
    pub h_curr: Option<EntityId>,
    /// `avg` and its kin: its averages of load, where they are kept.
    pub(crate) pelt: QueueLoad,
    /// `throttled_clock`: since when it is throttled; from 6.18 on since when that kept a task from running, 0 if it has not yet.
    pub throttled_clock: u64,
}

impl CfsRq {
    /// An empty queue. Virtual time starts 1 ms before it wraps (2²⁰ ns, `init_cfs_rq`), so that wrapping is met early.
    pub fn new(cpu: CpuId) -> Self {
        Self {
            cpu,
            load: Weight::default(),
            nr_running: 0,
            h_nr_running: 0,
            h_nr_delayed: 0,
            idle_h_nr_running: 0,
            idle_nr_running: 0,
            group: GroupId::ROOT,
            idle: false,
            runtime_enabled: false,
            throttled: false,
            throttle_count: 0,
            runtime_remaining: 0,
            limbo: Vec::new(),
            throttled_clock: 0,
            h_curr: None,
            pelt: QueueLoad::default(),
            min_vruntime: Vruntime(0u64.wrapping_sub(1 << 20)),
            curr: None,
            next: None,
            last: None,
            skip: None,
            last_slice: ((0, 0, 0), 0),
            timeline: Timeline::default(),
            zero_vruntime: Vruntime(0u64.wrapping_sub(1 << 20)),
            avg_vruntime: 0,
            avg_load: 0,
        }
    }

    /// `h_nr_runnable`: the tasks below it that are not delayed.
    #[inline]
    pub const fn h_nr_runnable(&self) -> u32 {
        self.h_nr_running.wrapping_sub(self.h_nr_delayed)
    }

    /// The entity of this queue's level that runs (`curr`; `h_curr` since 7.3).
    #[inline]
    pub fn level_curr(&self) -> Option<EntityId> {
        self.h_curr.or(self.curr)
    }

    /// How many are in its timeline or run from it: entities, with a single timeline (7.3) all tasks of the CPU.
    #[inline(always)]
    pub(crate) const fn nr_in_timeline(&self, rules: &Rules) -> u32 {
        if rules.set.single_timeline { self.h_nr_running } else { self.nr_running }
    }
}
