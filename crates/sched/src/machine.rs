//! The machine: its run queues and tasks.
//!
//! The machine holds the records of each class, of groups, load tracking and balancing, whose sequences are methods of [`Sched`] beside the records
//! that they change: these files use each other through [`Sched`], and no record is parted from what changes it.

use std::ops::Range;

use schedlab_model::{CpuId, PickLevel, TaskId, Time};

use crate::balance::state::Balance;
use crate::bitmap::Bitmap;
use crate::custom::Custom;
use crate::deadline::DlEntity;
use crate::decider::Decider;
use crate::entity::{CfsRqId, Entity, TaskStruct};
use crate::fair::cfs_rq::CfsRq;
use crate::fair::group::{GroupId, TaskGroup};
use crate::process::Processes;
use crate::rt_bandwidth::RtBandwidth;
use crate::rules::Rules;
use crate::runqueue::{Clocks, Rq};
use crate::table::Table;
use crate::timers::Timers;

/// A period of load tracking, 1024 times 1024 ns.
const PELT_ORIGIN: u64 = 1 << 20;

/// Every run queue and every task of one machine.
///
/// Drive it in critical sections, as the kernel holds a queue's lock: [`Sched::set_clocks`] of the queue first, then one sequence.
#[derive(Debug, Clone)]
pub struct Sched<D: Decider> {
    pub(crate) rules: Rules,
    pub(crate) rqs: Table<Rq>,
    pub(crate) tasks: Table<TaskStruct>,
    /// Which tasks are threads of one process.
    pub(crate) processes: Processes,
    /// The policy in the fair class's place, if there is one.
    pub(crate) custom: Option<Custom>,
    /// CPUs on line, for weights that follow their number.
    pub(crate) online_cpus: u32,
    /// Which CPUs are off line, once one was.
    pub(crate) offline: Option<Box<Bitmap>>,
    pub(crate) entities: Table<Entity>,
    pub(crate) cfs_rqs: Table<CfsRq>,
    pub(crate) dl_entities: Vec<DlEntity>,
    /// `dl_bw.total_bw`: the bandwidth promised, of all CPUs together.
    pub(crate) dl_total_bw: u64,
    pub(crate) rt_bandwidth: RtBandwidth,
    pub(crate) timers: Timers,
    /// Task groups, the root's first.
    pub(crate) groups: Vec<TaskGroup>,
    /// What the PELT clocks show beyond what they are set to.
    pub(crate) pelt_origin: u64,
    /// Load averages are kept, as something depends on them.
    pub(crate) tracks_load: bool,
    /// Placement and balancing.
    pub(crate) balance: Balance,
    /// CPUs on which nothing runs and nothing waits.
    pub(crate) idle_cpus: Bitmap,
    /// The levels of the pick that is being made, where its reason is asked for.
    pub(crate) pick_levels: Vec<PickLevel>,
    /// The decision point.
    pub decider: D,
}

impl<D: Decider> Sched<D> {
    /// A machine of `cpus` idle CPUs without tasks.
    pub fn new(rules: Rules, cpus: u32, decider: D) -> Self {
        let runtime = rules.rt_runtime().unwrap_or(0);
        let mut sched = Self {
            rqs: Table::with_capacity(cpus as usize),
            tasks: Table::with_capacity(0),
            processes: Processes::default(),
            custom: None,
            online_cpus: cpus,
            offline: None,
            entities: Table::with_capacity(0),
            cfs_rqs: Table::with_capacity(cpus as usize),
            dl_entities: Vec::new(),
            dl_total_bw: rules.fair_server_bw() * u64::from(cpus),
            rt_bandwidth: RtBandwidth::default(),
            timers: Timers::default(),
            groups: vec![TaskGroup::new(GroupId::ROOT, 0)],
            pelt_origin: 0,
            tracks_load: false,
            balance: Balance::default(),
            idle_cpus: Bitmap::full(cpus as usize),
            pick_levels: Vec::new(),
            decider,
            rules,
        };
        for cpu in 0..cpus {
            sched.cfs_rqs.push(CfsRq::new(CpuId(cpu)));
            sched.rqs.push(Rq::new(CfsRqId(cpu)));
            sched.rqs[cpu as usize].rt.budget.runtime = runtime;
        }
        sched.init_fair_servers(cpus);
        sched
    }

    /// A copy of the machine whose decisions pass through another decider.
    pub fn with_decider<E: Decider>(&self, decider: E) -> Sched<E> {
        Sched {
            rules: self.rules,
            rqs: self.rqs.clone(),
            tasks: self.tasks.clone(),
            processes: self.processes.clone(),
            custom: self.custom.clone(),
            online_cpus: self.online_cpus,
            offline: self.offline.clone(),
            entities: self.entities.clone(),
            cfs_rqs: self.cfs_rqs.clone(),
            dl_entities: self.dl_entities.clone(),
            dl_total_bw: self.dl_total_bw,
            rt_bandwidth: self.rt_bandwidth,
            timers: self.timers.clone(),
            groups: self.groups.clone(),
            pelt_origin: self.pelt_origin,
            tracks_load: self.tracks_load,
            balance: self.balance.clone(),
            idle_cpus: self.idle_cpus.clone(),
            pick_levels: self.pick_levels.clone(),
            decider,
        }
    }

    /// The rules in force.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Gives a run queue its clocks (`update_rq_clock`), at the start of a critical section. They never go back.
    #[inline]
    pub fn set_clocks(&mut self, cpu: CpuId, clocks: Clocks) {
        let rq = &mut self.rqs[cpu.index()];
        rq.clock = clocks.clock.as_nanos();
        rq.clock_task = clocks.clock_task.as_nanos();
        rq.clock_pelt = clocks.clock_pelt.as_nanos() + self.pelt_origin;
    }

    /// What a run queue's clock was set to last.
    pub fn clock(&self, cpu: CpuId) -> Time {
        Time::from_nanos(self.rqs[cpu.index()].clock)
    }

    /// What a run queue's clocks were set to last.
    pub fn clocks(&self, cpu: CpuId) -> Clocks {
        let rq = &self.rqs[cpu.index()];
        let pelt = rq.clock_pelt.wrapping_sub(self.pelt_origin);
        let [clock, clock_task, clock_pelt] = [rq.clock, rq.clock_task, pelt].map(Time::from_nanos);
        Clocks { clock, clock_task, clock_pelt }
    }

    /// Its CPUs.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<D> {
        (0..self.rqs.len() as u32).map(CpuId)
    }

    /// All tasks that were ever made, in that order.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + use<D> {
        (0..self.tasks.len() as u32).map(TaskId)
    }

    /// Has the PELT clocks show a period at time 0, where a machine starts with its tasks: a task whose averages reach up to 0 counts as
    /// one on no queue's account, and no clock of a kernel that has tasks shows that.
    pub fn start_pelt_clocks(&mut self) {
        self.pelt_origin = PELT_ORIGIN;
    }

    /// Makes room for the records of so many more tasks. Returns the addresses of the room for their entities and for the tasks themselves: the
    /// rules make no system calls, so the driver may prepare the memory.
    ///
    /// ```
    /// use schedlab_model::Scheduler;
    /// use schedlab_sched::{Ours, Rules, Sched};
    /// let mut sched = Sched::new(Rules::new(&Scheduler::new("6.1".parse()?), 1)?, 1, Ours::default());
    /// assert!(sched.reserve_tasks(1_000).iter().all(|room| room.start < room.end));
    /// # Ok::<(), schedlab_model::ModelError>(())
    /// ```
    pub fn reserve_tasks(&mut self, additional: usize) -> [Range<*const u8>; 2] {
        [self.entities.reserve(additional), self.tasks.reserve(additional)]
    }

    /// Entries of queues that were compared or moved so far, and CPUs that were looked at for placement and balancing.
    pub fn operations(&self) -> u64 {
        self.cfs_rqs.iter().map(|queue| queue.timeline.operations()).sum::<u64>()
            + self.balance.looked_at_in_all
            + self.balance.looked_at
    }

    /// The current task of `cpu`; [`TaskId::IDLE`] if it idles.
    #[inline]
    pub fn curr(&self, cpu: CpuId) -> TaskId {
        self.rqs[cpu.index()].curr
    }

    /// Runnable tasks of `cpu`, the running one included (`rq->nr_running`).
    #[inline]
    pub fn nr_running(&self, cpu: CpuId) -> u32 {
        self.rqs[cpu.index()].nr_running
    }

    /// The CPU on whose queue the task is, or was last.
    #[inline]
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        self.tasks[task.index()].cpu
    }

    /// The task's record.
    pub fn task(&self, task: TaskId) -> &TaskStruct {
        &self.tasks[task.index()]
    }

    /// The task's entity.
    pub fn entity(&self, task: TaskId) -> &Entity {
        &self.entities[self.tasks[task.index()].se.index()]
    }

    /// The task's entity, to set the state that a recording starts from.
    pub fn entity_mut(&mut self, task: TaskId) -> &mut Entity {
        &mut self.entities[self.tasks[task.index()].se.index()]
    }

    /// The root fair queue of `cpu`.
    pub fn cfs_rq(&self, cpu: CpuId) -> &CfsRq {
        &self.cfs_rqs[self.rqs[cpu.index()].cfs.index()]
    }

    /// The root fair queue of `cpu`, to set the state that a recording starts from.
    pub fn cfs_rq_mut(&mut self, cpu: CpuId) -> &mut CfsRq {
        &mut self.cfs_rqs[self.rqs[cpu.index()].cfs.index()]
    }

    /// CPU time charged to the task so far, in nanoseconds (`se.sum_exec_runtime`).
    #[inline]
    pub fn sum_exec_runtime(&self, task: TaskId) -> u64 {
        self.entity(task).sum_exec_runtime
    }
}
