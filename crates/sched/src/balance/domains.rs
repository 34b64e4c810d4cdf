//! Scheduling domains and groups: the structures of `include/linux/sched/topology.h`, and who they are for a CPU.
//!
//! CPUs of one span share what they have in common ([`Shape`]); what a CPU keeps of its own is a [`Domain`].

use std::sync::Arc;

use schedlab_model::{CpuId, Topology};

use crate::balance::state::CpuState;
use crate::bitmap::Bitmap;
use crate::decider::Decider;
use crate::fair::pelt::SchedAvg;
use crate::machine::Sched;

/// `SD_*`: what is true of the CPUs of a domain, and what is done there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct DomainFlags(pub u32);

impl DomainFlags {
    /// `SD_BALANCE_NEWIDLE`.
    pub const BALANCE_NEWIDLE: Self = Self(0x0001);
    /// `SD_BALANCE_EXEC`.
    pub const BALANCE_EXEC: Self = Self(0x0002);
    /// `SD_BALANCE_FORK`.
    pub const BALANCE_FORK: Self = Self(0x0004);
    /// `SD_WAKE_AFFINE`.
    pub const WAKE_AFFINE: Self = Self(0x0010);
    /// `SD_SHARE_CPUCAPACITY`: threads of a core.
    pub const SHARE_CPUCAPACITY: Self = Self(0x0020);
    /// `SD_SHARE_PKG_RESOURCES`, `SD_SHARE_LLC` from 6.9 on: they share a cache.
    pub const SHARE_LLC: Self = Self(0x0040);
    /// `SD_SERIALIZE`: only one CPU of the machine balances at a time.
    pub const SERIALIZE: Self = Self(0x0080);
    /// `SD_PREFER_SIBLING`: tasks are spread over domains like this one.
    pub const PREFER_SIBLING: Self = Self(0x0100);
    /// `SD_OVERLAP`.
    pub const OVERLAP: Self = Self(0x0200);
    /// `SD_NUMA`.
    pub const NUMA: Self = Self(0x0400);

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Both.
    #[must_use]
    pub const fn and(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// These without `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

/// `struct sched_group`: CPUs that a domain balances against one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `sched_group_span`.
    pub(crate) span: Arc<Bitmap>,
    /// `group_weight`.
    pub weight: u32,
    /// `group_balance_mask`: who may balance for it.
    pub(crate) balance_mask: Arc<Bitmap>,
    /// Flags of the domain below that it is.
    pub flags: DomainFlags,
    /// `sgc->capacity`: what is left for fair tasks, 1024 a CPU.
    pub(crate) capacity: u64,
    /// `sgc->next_update`, in ticks.
    pub(crate) next_update: u64,
    /// `sgc->imbalance`: a balancer below failed because of affinity.
    pub(crate) imbalance: bool,
}

/// What domains of one span have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// `name`: SMT, MC, PKG or NUMA.
    pub name: &'static str,
    /// `flags`.
    pub flags: DomainFlags,
    /// `sched_domain_span`.
    pub(crate) span: Arc<Bitmap>,
    /// `span_weight`.
    pub weight: u32,
    /// `min_interval` in milliseconds; `max_interval` is twice that.
    pub min_interval: u64,
    /// `busy_factor`.
    pub busy_factor: u64,
    /// `imbalance_pct`.
    pub imbalance_pct: u64,
    /// `cache_nice_tries`.
    pub cache_nice_tries: u32,
    /// `imb_numa_nr`: so many tasks may run on one node before others are preferred.
    pub imb_numa_nr: u32,
    /// `groups`: indices into the machine's groups, in the order of the circular list.
    pub(crate) groups: Vec<u32>,
}

impl Shape {
    /// `max_interval`, in milliseconds.
    pub const fn max_interval(&self) -> u64 {
        2 * self.min_interval
    }
}

/// `struct sched_domain`: one level of one CPU.
#[derive(Debug, Clone)]
pub struct Domain {
    /// What it shares with other CPUs' domains.
    pub shape: Arc<Shape>,
    /// Where in the shape's groups the CPU's own is: its list begins there.
    pub(crate) first: u32,
    /// `last_balance`, in ticks.
    pub(crate) last_balance: u64,
    /// `balance_interval`, in milliseconds.
    pub(crate) balance_interval: u64,
    /// `nr_balance_failed`.
    pub(crate) nr_balance_failed: u32,
    /// `max_newidle_lb_cost`, in nanoseconds.
    pub(crate) max_newidle_lb_cost: u64,
    /// `last_decay_max_lb_cost`, in ticks.
    pub(crate) last_decay: u64,
    /// `newidle_call`, `newidle_success`, `newidle_ratio`.
    pub(crate) newidle: [u32; 3],
    /// `avg_scan_cost` (SIS_PROP), in nanoseconds.
    pub(crate) avg_scan_cost: u64,
}

impl Domain {
    pub(crate) fn new(shape: Arc<Shape>, first: u32) -> Self {
        let balance_interval = shape.min_interval;
        Self {
            shape,
            first,
            last_balance: 0,
            balance_interval,
            nr_balance_failed: 0,
            max_newidle_lb_cost: 0,
            last_decay: 0,
            newidle: [512, 256, 512],
            avg_scan_cost: 0,
        }
    }

    /// The index of its CPU's own group.
    #[inline]
    pub(crate) fn own_group(&self) -> Option<usize> {
        self.shape.groups.get(self.first as usize).map(|group| *group as usize)
    }

    /// Indices of its groups, its CPU's own first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = usize> {
        self.shape.groups_from(self.first)
    }
}

impl Shape {
    /// Indices of the groups of a domain of this shape, from the one at `first` on.
    pub(crate) fn groups_from(&self, first: u32) -> impl Iterator<Item = usize> {
        let (before, from) = self.groups.split_at(first as usize);
        from.iter().chain(before).map(|group| *group as usize)
    }
}

/// `struct sched_domain_shared`: what CPUs of one cache know of each other.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// `nr_busy_cpus`.
    pub(crate) nr_busy_cpus: u32,
    /// `has_idle_cores`.
    pub(crate) has_idle_cores: bool,
    /// `nr_idle_scan` (SIS_UTIL).
    pub(crate) nr_idle_scan: u32,
}

/// A CPU's place: its domains, from the smallest up, and the cache it shares.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuDomains {
    pub(crate) levels: Vec<Domain>,
    /// `sd_llc`: the level that is its last-level cache.
    pub(crate) llc: Option<usize>,
    /// `sd_llc_id`: the cache, none of two CPUs that share none is the same.
    pub(crate) llc_id: u32,
    /// `sd_llc_size`.
    pub(crate) llc_size: u32,
    /// `sd_llc_shared`.
    pub(crate) shared: Option<u32>,
    /// The CPUs of its last-level cache as bits, where all CPUs of the machine are below 64, no core has threads, and their numbers are without
    /// gaps; else 0.
    pub(crate) plain_llc: u64,
    /// It has but one domain, in which CPUs share a cache and no core, and so each group is one CPU.
    pub(crate) only_cache: bool,
}

/// The domains of all CPUs, while balancing follows the kernel's rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Domains {
    pub(crate) topology: Topology,
    pub(crate) cpus: Vec<CpuDomains>,
    pub(crate) groups: Vec<Group>,
    pub(crate) shared: Vec<Shared>,
    /// `cpu_smt_mask`, of CPUs that have siblings.
    pub(crate) smt: Vec<Arc<Bitmap>>,
    /// `cpu_active_mask`.
    pub(crate) active: Bitmap,
}

impl<D: Decider> Sched<D> {
    /// The domains of a CPU, from the smallest up; none where balancing is not the kernel's ([`Sched::set_topology`]).
    pub fn domains(&self, cpu: CpuId) -> &[Domain] {
        self.balance.domains.cpus.get(cpu.index()).map_or(&[], |place| &place.levels)
    }

    /// What balancing remembers of a CPU beyond its domains, to be compared with that of another run. When averages of nothing were last
    /// looked at is left out: they are before anything is added.
    pub fn balance_state(&self, cpu: CpuId) -> impl std::fmt::Debug {
        let known = |avg: SchedAvg| if avg.is_zero() { SchedAvg::default() } else { avg };
        let state = self.balance_of(cpu).map(|state| {
            let (avg_rt, avg_dl) = (known(state.avg_rt), known(state.avg_dl));
            CpuState { avg_rt, avg_dl, ..state.clone() }
        });
        (state, &self.balance.nohz)
    }

    /// The groups of one of a CPU's domains with their CPUs, its own first.
    pub fn domain_groups(&self, cpu: CpuId, level: usize) -> Vec<(&Group, Vec<u32>)> {
        let domain = self.domains(cpu).get(level);
        let groups = domain.into_iter().flat_map(Domain::groups).map(|group| &self.balance.domains.groups[group]);
        groups.map(|group| (group, group.span.iter().map(|cpu| cpu as u32).collect())).collect()
    }
}

impl CpuDomains {
    /// Finds what follows from its levels, on a machine whose cores have threads or not.
    pub(crate) fn settle(&mut self, threads: bool) {
        let llc = self.llc.filter(|_| !threads).and_then(|llc| self.levels[llc].shape.span.only_word());
        let gapless = |span: &u64| (span >> span.trailing_zeros()).trailing_ones() == span.count_ones();
        self.plain_llc = llc.filter(gapless).unwrap_or(0);
        self.only_cache = matches!(&self.levels[..], [only] if only.shape.is_plain_cache());
    }
}

impl Shape {
    /// CPUs look for work here as they begin to idle, share a cache and no core, and each group is one of them.
    fn is_plain_cache(&self) -> bool {
        let near = self.flags.has(DomainFlags::SHARE_LLC.and(DomainFlags::BALANCE_NEWIDLE));
        let plain = near && !self.flags.has(DomainFlags::SHARE_CPUCAPACITY) && !self.flags.has(DomainFlags::NUMA);
        plain && self.groups.len() == self.weight as usize
    }

    /// The CPUs of the domain.
    pub fn cpus(&self) -> Vec<u32> {
        self.span.iter().map(|cpu| cpu as u32).collect()
    }
}

impl Domains {
    /// `cpus_share_cache`.
    #[inline]
    pub(crate) fn share_cache(&self, one: CpuId, other: CpuId) -> bool {
        one == other || self.cpus[one.index()].llc_id == self.cpus[other.index()].llc_id
    }

    /// `sched_smt_active`.
    #[inline]
    pub(crate) fn smt_active(&self) -> bool {
        !self.smt.is_empty()
    }
}
