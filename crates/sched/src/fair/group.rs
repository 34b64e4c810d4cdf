//! Task groups (`CONFIG_FAIR_GROUP_SCHED`): cgroups with a weight, and the sessions of autogroup.
//!
//! A group has a queue on each CPU where it has tasks, and an entity that stands for that queue among its siblings. Both are made
//! when the first task comes.

use schedlab_model::{CpuId, ModelError, TaskId};

use crate::decider::Decider;
use crate::entity::{CfsRqId, Entity, EntityId};
use crate::fair::bandwidth::Bandwidth;
use crate::fair::cfs_rq::CfsRq;
use crate::fair::load::Action;
use crate::fair::pelt::CAPACITY_SHIFT;
use crate::fair::weight::Weight;
use crate::machine::Sched;

/// A task group's place in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// `root_task_group`.
    pub const ROOT: Self = Self(0);

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The least and the greatest shares (`MIN_SHARES`, `MAX_SHARES`), before scaling.
const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 1 << 18;
/// `WEIGHT_IDLEPRIO`.
const IDLE_SHARES: u64 = 3;

/// `struct task_group`.
#[derive(Debug, Clone)]
pub(crate) struct TaskGroup {
    pub(crate) parent: GroupId,
    pub(crate) children: Vec<GroupId>,
    /// `shares`, with the ten extra bits.
    pub(crate) shares: u64,
    /// `cpu.idle`.
    pub(crate) idle: bool,
    /// By CPU: the queue and the entity that stands for it.
    pub(crate) cpus: Vec<Option<(CfsRqId, EntityId)>>,
    /// `load_avg`: the sum of its queues' load averages, as each queue last contributed it.
    pub(crate) load_avg: i64,
    /// `runnable_avg`: the sum of its queues' runnable averages (7.3).
    pub(crate) runnable_avg: i64,
    pub(crate) bandwidth: Bandwidth,
}

impl TaskGroup {
    pub(crate) fn new(parent: GroupId, cpus: usize) -> Self {
        Self {
            parent,
            children: Vec::new(),
            shares: 1024 << 10,
            idle: false,
            cpus: vec![None; cpus],
            load_avg: 0,
            runnable_avg: 0,
            bandwidth: Bandwidth::default(),
        }
    }
}

impl TaskGroup {
    /// `calc_group_shares` of a queue of the group's whose averages are kept: shares × load here / load everywhere, where this queue's load is what it is
    /// now rather than its average if that is more; `times` all shares (7.3).
    #[doc(alias = "calc_group_shares")]
    #[inline(always)]
    pub(crate) fn shares_of(&self, queue: &CfsRq, times: i64) -> u64 {
        // A queue that was just emptied has them too: its average says so.
        let load = (queue.load.down() as i64).max(queue.pelt.avg.load_avg as i64);
        let everywhere = self.load_avg - queue.pelt.contribution + load;
        let all = self.shares as i64 * times;
        let shares = all.wrapping_mul(load);
        let shares = if everywhere != 0 { shares / everywhere } else { shares };
        shares.clamp(MIN_SHARES as i64, all) as u64
    }
}

/// `sched_weight_from_cgroup`: shares of a `cpu.weight`, of which 100 is the default and stands for 1024.
///
/// ```
/// use schedlab_sched::shares_of_cgroup_weight;
/// assert_eq!(shares_of_cgroup_weight(100), 1024);
/// assert_eq!(shares_of_cgroup_weight(1), 10);
/// assert_eq!(shares_of_cgroup_weight(10_000), 102_400);
/// ```
pub const fn shares_of_cgroup_weight(weight: u64) -> u64 {
    (weight * 1024 + 50) / 100
}

impl<D: Decider> Sched<D> {
    /// Makes a group below `parent` with the default weight. On several CPUs the shares of groups follow their load, so that load
    /// is tracked from then on ([`Sched::track_load`]).
    ///
    /// # Errors
    /// [`ModelError::Group`] on 2.6.24, whose groups are not modelled.
    pub fn create_group(&mut self, parent: GroupId) -> Result<GroupId, ModelError> {
        if !self.rules.models_groups {
            return Err(ModelError::Group("2.6.24's groups are not modelled; use 5.10 or later".to_owned()));
        }
        if self.rqs.len() > 1 {
            self.track_load();
        }
        if !self.has_groups() && !self.rules.eevdf {
            self.count_idle_entities();
        }
        let group = GroupId(self.groups.len() as u32);
        self.groups.push(TaskGroup::new(parent, self.rqs.len()));
        self.groups[parent.index()].children.push(group);
        Ok(group)
    }

    /// Counts the SCHED_IDLE tasks of each root queue (`idle_nr_running`), which is kept from the first group on.
    fn count_idle_entities(&mut self) {
        for cfs in 0..self.cfs_rqs.len() {
            let queue = &self.cfs_rqs[cfs];
            let running = queue.curr.filter(|curr| self.entities[curr.index()].on_rq);
            let idle = queue.timeline.iter().chain(running).filter(|se| self.se_is_idle(*se)).count();
            self.cfs_rqs[cfs].idle_nr_running = idle as u32;
        }
    }

    /// `cpu.weight`: 1 to 10000, 100 by default. Every CPU must have its clocks.
    ///
    /// # Errors
    /// [`ModelError::Group`] for a weight out of range, the root group and an idle group.
    pub fn set_group_weight(&mut self, group: GroupId, weight: u64) -> Result<(), ModelError> {
        if !(1..=10_000).contains(&weight) {
            return Err(ModelError::Group(format!("weight = {weight} is out of range; allowed: 1 to 10000")));
        }
        self.set_group_shares(group, shares_of_cgroup_weight(weight))
    }

    /// `sched_group_set_shares` (`cpu.shares` of cgroup v1): clamped to 2 and 2¹⁸. Every CPU must have its clocks.
    ///
    /// # Errors
    /// [`ModelError::Group`] for the root group and an idle group.
    pub fn set_group_shares(&mut self, group: GroupId, shares: u64) -> Result<(), ModelError> {
        if self.set_shares_alone(group, shares)? {
            self.set_shares_of_queues(group);
        }
        Ok(())
    }

    /// The first half of [`Sched::set_group_shares`]: the weight, not yet what follows from it. The kernel may be preempted before the
    /// second. Whether it is another one than before.
    ///
    /// # Errors
    /// As there.
    pub fn set_shares_alone(&mut self, group: GroupId, shares: u64) -> Result<bool, ModelError> {
        if group == GroupId::ROOT {
            return Err(ModelError::Group("the root group has no weight".to_owned()));
        }
        if self.groups[group.index()].idle {
            return Err(ModelError::Group("an idle group's weight cannot be set".to_owned()));
        }
        Ok(self.replace_shares(group, shares.clamp(MIN_SHARES, MAX_SHARES) << 10))
    }

    /// Whether these are other shares than before.
    fn replace_shares(&mut self, group: GroupId, shares: u64) -> bool {
        std::mem::replace(&mut self.groups[group.index()].shares, shares) != shares
    }

    /// The second half: the group's entities, and those above them, get the weight that follows.
    pub fn set_shares_of_queues(&mut self, group: GroupId) {
        for cpu in 0..self.rqs.len() {
            self.set_shares_of_queue(group, CpuId(cpu as u32));
        }
    }

    /// The same on one CPU alone, with its queue locked.
    pub fn set_shares_of_queue(&mut self, group: GroupId, cpu: CpuId) {
        let mut level = self.groups[group.index()].cpus[cpu.index()].map(|(_, se)| se);
        while let Some(se) = level {
            let (cfs, parent) = (self.entities[se.index()].cfs_rq, self.entities[se.index()].parent);
            self.update_load_avg(cfs, se, Action::UPDATE);
            self.update_cfs_group(se);
            level = parent;
        }
    }

    /// `cpu.idle` (`sched_group_set_idle`): to its siblings the group is like a SCHED_IDLE task. Every CPU must have its clocks.
    ///
    /// # Errors
    /// [`ModelError::Group`] for the root group, and on 5.10, which has no idle groups (they came with 5.15).
    pub fn set_group_idle(&mut self, group: GroupId, idle: bool) -> Result<(), ModelError> {
        if group == GroupId::ROOT {
            return Err(ModelError::Group("the root group cannot be idle".to_owned()));
        }
        if !self.rules.idle_groups {
            return Err(ModelError::Group("idle groups came with 5.15; this is 5.10".to_owned()));
        }
        if std::mem::replace(&mut self.groups[group.index()].idle, idle) == idle {
            return Ok(());
        }
        for (queue, se) in self.groups[group.index()].cpus.clone().into_iter().flatten() {
            let below = &mut self.cfs_rqs[queue.index()];
            below.idle = idle;
            let busy = below.h_nr_running - below.idle_h_nr_running;
            let count = |number: u32, change: u32| if idle { number + change } else { number - change };
            if self.entities[se.index()].on_rq && !self.rules.eevdf {
                let above = &mut self.cfs_rqs[self.entities[se.index()].cfs_rq.index()];
                above.idle_nr_running = count(above.idle_nr_running, 1);
            }
            let mut level = Some(se);
            while let Some(se) = level.filter(|se| self.entities[se.index()].on_rq) {
                let above = &mut self.cfs_rqs[self.entities[se.index()].cfs_rq.index()];
                above.idle_h_nr_running = count(above.idle_h_nr_running, busy);
                // Above an idle group they count as idle already.
                level = self.entities[se.index()].parent.filter(|_| !above.idle);
            }
        }
        if self.replace_shares(group, if idle { IDLE_SHARES } else { 1024 } << 10) {
            self.set_shares_of_queues(group);
        }
        Ok(())
    }

    /// The group a task is in.
    pub fn group_of(&self, task: TaskId) -> GroupId {
        self.tasks[task.index()].group
    }

    /// A task's groups from its own upwards, the root group left out.
    pub fn groups_of(&self, task: TaskId) -> impl Iterator<Item = GroupId> {
        let above = |group: &GroupId| Some(self.groups[group.index()].parent);
        std::iter::successors(Some(self.group_of(task)), above).take_while(|group| *group != GroupId::ROOT)
    }

    /// The entity that stands for a group on a CPU, once it had a task there.
    pub fn group_entity(&self, group: GroupId, cpu: CpuId) -> Option<&Entity> {
        let (_, se) = self.groups[group.index()].cpus.get(cpu.index()).copied().flatten()?;
        Some(&self.entities[se.index()])
    }

    /// The queue of a group on a CPU, once it had a task there.
    pub fn group_queue(&self, group: GroupId, cpu: CpuId) -> Option<&CfsRq> {
        let (queue, _) = self.groups[group.index()].cpus.get(cpu.index()).copied().flatten()?;
        Some(&self.cfs_rqs[queue.index()])
    }

    /// `setsid(2)` under autogroup (`sched_autogroup_create_attach`): the task begins a session, whose tasks share one group's
    /// weight. A task that is in a cgroup already stays there.
    ///
    /// # Errors
    /// As [`Sched::create_group`].
    pub fn setsid(&mut self, task: TaskId) -> Result<GroupId, ModelError> {
        let group = self.create_group(GroupId::ROOT)?;
        self.sched_move_task(task, group);
        Ok(group)
    }

    /// `proc_sched_autogroup_set_nice`: a session's group weighs what a task of that nice level does.
    ///
    /// # Errors
    /// As [`Sched::set_group_shares`].
    pub fn set_autogroup_nice(&mut self, group: GroupId, nice: i8) -> Result<(), ModelError> {
        let weight = crate::fair::weight::weight_of_nice(&self.rules, schedlab_model::Policy::Other, nice);
        self.set_group_shares(group, weight.down())
    }

    /// The queue of a group on a CPU and the entity that stands for it (none for the root), made if need be
    /// (`alloc_fair_sched_group`, `init_tg_cfs_entry`).
    pub(crate) fn group_on(&mut self, group: GroupId, cpu: CpuId) -> (CfsRqId, Option<EntityId>) {
        if group == GroupId::ROOT {
            return (self.rqs[cpu.index()].cfs, None);
        }
        if let Some((queue, se)) = self.groups[group.index()].cpus[cpu.index()] {
            return (queue, Some(se));
        }
        let (above, parent) = self.group_on(self.groups[group.index()].parent, cpu);
        let (queue, se) = (CfsRqId(self.cfs_rqs.len() as u32), EntityId(self.entities.len() as u32));
        let record = &self.groups[group.index()];
        self.cfs_rqs.push(CfsRq {
            group,
            idle: record.idle,
            runtime_enabled: record.bandwidth.quota.is_some(),
            // tg_set_cfs_bandwidth of 6.18 on.
            runtime_remaining: i64::from(self.rules.throttles_tasks),
            throttle_count: self.cfs_rqs[above.index()].throttle_count,
            timeline: self.cfs_rqs[above.index()].timeline.another(),
            ..CfsRq::new(cpu)
        });
        let slice = self.rules.tunables.base_slice.as_nanos();
        let depth = parent.map_or(0, |parent| self.entities[parent.index()].depth + 1);
        let load = Weight { scaled: 1024 << 10, inverse: 0 };
        self.entities.push(Entity {
            parent,
            my_q: Some(queue),
            depth,
            ..Entity::new(load, slice, above, TaskId::IDLE)
        });
        self.groups[group.index()].cpus[cpu.index()] = Some((queue, se));
        if self.cfs_rqs[queue.index()].throttle_count > 0 {
            self.throttle_load(queue, true);
        }
        // online_fair_sched_group
        self.attach_entity_cfs_rq(se);
        (queue, Some(se))
    }

    /// `set_task_rq`: from now on the task belongs on its group's queue on `cpu`. Gives the queue it belonged on.
    pub(crate) fn set_task_rq(&mut self, task: TaskId, cpu: CpuId) -> CfsRqId {
        let (se, group) = (self.tasks[task.index()].se, self.tasks[task.index()].group);
        let (queue, parent) = self.group_on(group, cpu);
        let depth = parent.map_or(0, |parent| self.entities[parent.index()].depth + 1);
        self.set_task_rq_load(se, queue);
        let entity = &mut self.entities[se.index()];
        (entity.parent, entity.depth) = (parent, depth);
        std::mem::replace(&mut entity.cfs_rq, queue)
    }

    /// `update_cfs_group`: the entity of a group gets the part of the group's shares that its queue's load makes of the group's.
    pub(crate) fn update_cfs_group(&mut self, se: EntityId) {
        let Some(queue) = self.entities[se.index()].my_q else { return };
        let below = &self.cfs_rqs[queue.index()];
        // 6.12 on keep the weight of an emptied group, whose dequeue may be delayed.
        let throttled = below.throttle_count > 0 && !self.rules.throttles_tasks;
        if throttled || (self.rules.eevdf && below.load.scaled == 0) {
            return;
        }
        let before = self.entities[se.index()].weight;
        let shares = self.decider.group_weight(se, before, self.calc_group_shares(queue));
        if !self.rules.eevdf || before != shares {
            self.reweight_entity(self.entities[se.index()].cfs_rq, se, Weight { scaled: shares, inverse: 0 });
        }
    }

    /// `calc_group_shares`. On one CPU, where averages are not kept, that is all of the shares.
    fn calc_group_shares(&self, queue: CfsRqId) -> u64 {
        let below = &self.cfs_rqs[queue.index()];
        let group = &self.groups[below.group.index()];
        if !self.tracks_load {
            return group.shares;
        }
        group.shares_of(below, if self.rules.shares_by_concurrency { self.concurrency(group) } else { 1 })
    }

    /// `min(tg_tasks, tg_cpus)` (7.3): how many of a group's tasks run at once, by its averages, at least one, at most as many as there are CPUs.
    fn concurrency(&self, group: &TaskGroup) -> i64 {
        (group.runnable_avg >> CAPACITY_SHIFT).clamp(1, i64::from(self.online_cpus.max(1)))
    }
}
