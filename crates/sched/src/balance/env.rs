//! `struct lb_env`: what one run of the balancer is about.

use std::sync::Arc;

use schedlab_model::CpuId;

use crate::balance::domains::{Domains, Shape};
use crate::bitmap::Bitmap;
use crate::decider::Decider;
use crate::machine::Sched;

/// `enum cpu_idle_type`: how the CPU for which load is balanced stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// `CPU_NOT_IDLE`.
    Busy,
    /// `CPU_IDLE`.
    Idle,
    /// `CPU_NEWLY_IDLE`: it is about to idle.
    NewlyIdle,
}

/// `enum migration_type`: what is to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MigrationType {
    /// So much load.
    Load,
    /// So much utilisation.
    Util,
    /// So many tasks.
    Task,
}

/// `SCHED_NR_MIGRATE_BREAK`: after so many tasks a balancer takes breath.
pub(super) const NR_MIGRATE_BREAK: u32 = 32;

/// `struct lb_env`.
#[derive(Debug)]
pub(super) struct Env {
    /// For whose domain this is; `dst` may be another one of its group later.
    pub(super) cpu: CpuId,
    /// Which of its domains.
    pub(super) level: usize,
    pub(super) shape: Arc<Shape>,
    /// At which of the shape's groups the domain's begin.
    pub(super) first: u32,
    pub(super) src: CpuId,
    pub(super) dst: CpuId,
    pub(super) idle: Idle,
    /// A newly idle CPU does not count as idle yet, unless it idled before.
    pub(super) was_idle: bool,
    pub(super) imbalance: i64,
    pub(super) migration_type: MigrationType,
    /// `cpus`: the CPUs that are considered.
    pub(super) cpus: Bitmap,
    /// `dst_grpmask`.
    pub(super) dst_group: Arc<Bitmap>,
    /// `new_dst_cpu`, with `LBF_DST_PINNED`.
    pub(super) new_dst: Option<CpuId>,
    /// `LBF_ALL_PINNED`, `LBF_SOME_PINNED`, `LBF_NEED_BREAK`, `LBF_ACTIVE_LB`.
    pub(super) all_pinned: bool,
    pub(super) some_pinned: bool,
    pub(super) need_break: bool,
    pub(super) active: bool,
    /// `loop`, `loop_break`, `loop_max`.
    pub(super) looked: u32,
    pub(super) looked_break: u32,
    pub(super) looked_max: u32,
}

impl Env {
    /// For a level of a CPU's domains. The CPU to pull from is not chosen yet.
    pub(super) fn new(domains: &Domains, cpu: CpuId, level: usize, idle: Idle, was_idle: bool) -> Self {
        let domain = &domains.cpus[cpu.index()].levels[level];
        let local = domain.groups().next().map(|group| Arc::clone(&domains.groups[group].balance_mask));
        let mut cpus = (*domain.shape.span).clone();
        cpus.retain(&domains.active);
        Self {
            cpu,
            level,
            shape: Arc::clone(&domain.shape),
            first: domain.first,
            src: cpu,
            dst: cpu,
            idle,
            was_idle,
            imbalance: 0,
            migration_type: MigrationType::Load,
            cpus,
            dst_group: local.unwrap_or_default(),
            new_dst: None,
            all_pinned: false,
            some_pinned: false,
            need_break: false,
            active: false,
            looked: 0,
            looked_break: NR_MIGRATE_BREAK,
            looked_max: 0,
        }
    }

    /// The domain's groups, the CPU's own first.
    pub(super) fn groups(&self) -> impl Iterator<Item = usize> {
        self.shape.groups_from(self.first)
    }

    /// `idle_cpu`, as it is while this balances.
    pub(super) fn idles<D: Decider>(&self, sched: &Sched<D>, cpu: CpuId) -> bool {
        let newly = self.idle == Idle::NewlyIdle && cpu == self.cpu && !self.was_idle;
        !newly && sched.idle_cpu(cpu)
    }
}
