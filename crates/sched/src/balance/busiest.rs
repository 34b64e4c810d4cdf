//! `sched_balance_find_src_group` and `sched_balance_find_src_rq` (`find_busiest_group`, `find_busiest_queue` before 6.10): from where
//! a CPU takes work.

use schedlab_model::CpuId;

use crate::balance::domains::{DomainFlags, Group};
use crate::balance::env::{Env, Idle, MigrationType};
use crate::balance::stats::{GroupStats, GroupType};
use crate::decider::Decider;
use crate::machine::Sched;

/// `struct sd_lb_stats`.
#[derive(Debug)]
pub(super) struct DomainStats {
    pub(super) busiest: Option<usize>,
    pub(super) local: usize,
    pub(super) total_load: u64,
    pub(super) total_capacity: u64,
    pub(super) prefer_sibling: bool,
    pub(super) busiest_stat: GroupStats,
    pub(super) local_stat: GroupStats,
}

impl DomainStats {
    /// `init_sd_lb_stats`: every group is busier than none, however many of its CPUs idle.
    fn new() -> Self {
        Self {
            busiest: None,
            local: 0,
            total_load: 0,
            total_capacity: 0,
            prefer_sibling: false,
            busiest_stat: GroupStats { idle_cpus: u32::MAX, ..GroupStats::default() },
            local_stat: GroupStats::default(),
        }
    }

    /// The load of what capacity the domain has.
    pub(super) fn avg_load(&self) -> u64 {
        (self.total_load << 10) / self.total_capacity.max(1)
    }
}

impl<D: Decider> Sched<D> {
    /// `sched_balance_find_src_group` (`find_busiest_group` before 6.10): the group to take from, with how much and of what in `env`.
    #[doc(alias = "find_busiest_group")]
    pub(super) fn sched_balance_find_src_group(&mut self, env: &mut Env) -> Option<usize> {
        let mut stats = self.update_sd_lb_stats(env);
        env.imbalance = 0;
        let group = stats.busiest?;
        if !self.wants_work(env, &mut stats) {
            return None;
        }
        self.calculate_imbalance(env, &mut stats);
        (env.imbalance != 0).then_some(group)
    }

    /// A short cut of [`Sched::sched_balance_find_src_group`] for a CPU that is idle or about to idle, among CPUs that share a cache and no core, so
    /// that each is a group. True if no CPU has a waiting task, so that no task can be pulled; the state is then as after a whole search.
    pub(super) fn no_task_waits(&mut self, cpu: CpuId, idle: Idle) -> bool {
        let Self { rules, rqs, cfs_rqs, balance, .. } = self;
        let place = &balance.domains.cpus[cpu.index()];
        let (Some(only), true) = (place.levels.first(), place.only_cache) else { return false };
        let span = &only.shape.span;
        // A CPU about to idle may have got a task meanwhile. The whole search then decides.
        let idles = idle == Idle::Idle || (idle == Idle::NewlyIdle && rqs[cpu.index()].nr_running == 0);
        let looks = idles && span.is_subset(&balance.domains.active);
        let busy = |cpu: usize| rqs[cpu].nr_running > 1 || rqs[cpu].balance.capacity < 1024;
        if !looks || balance.recorded || !rules.pinned_until_shown || span.any(busy) {
            return false;
        }
        let util = |cpu: usize| {
            let load = &cfs_rqs[rqs[cpu].cfs.index()].pelt;
            load.avg.util_avg.max(u64::from(load.util_est)).min(1024)
        };
        let util = span.iter().map(util).sum();
        balance.looked_at += u64::from(only.shape.weight);
        balance.overload = false;
        let own = only.groups().next();
        let now = self.jiffies(cpu);
        if idle != Idle::NewlyIdle || own.is_some_and(|own| now >= self.balance.domains.groups[own].next_update) {
            self.update_group_capacity(cpu, 0);
        }
        self.update_idle_cpu_scan((cpu, 0), idle, util);
        true
    }

    /// The decision matrix of `sched_balance_find_src_group`.
    fn wants_work(&self, env: &Env, stats: &mut DomainStats) -> bool {
        let (local, busiest) = (&stats.local_stat, &stats.busiest_stat);
        if matches!(busiest.group_type, GroupType::Misfit | GroupType::Imbalanced) {
            return true;
        }
        if local.group_type > busiest.group_type {
            return false;
        }
        if local.group_type == GroupType::Overloaded
            && (local.avg_load >= busiest.avg_load
                || local.avg_load >= stats.avg_load()
                || 100 * busiest.avg_load <= env.shape.imbalance_pct * local.avg_load)
        {
            return false;
        }
        if stats.prefer_sibling && local.group_type == GroupType::HasSpare && self.sibling_imbalance(env, stats) > 1 {
            return true;
        }
        if busiest.group_type == GroupType::Overloaded {
            return true;
        }
        if env.idle == Idle::Busy {
            return false;
        }
        if busiest.group_type == GroupType::SmtBalance && self.smt_vs_nonsmt(Some(stats.local), stats.busiest) {
            return true;
        }
        !(busiest.group_weight > 1 && local.idle_cpus <= busiest.idle_cpus + 1) && busiest.sum_h_nr_running != 1
    }

    /// How many tasks more the busiest group has; from 6.5 on for each core (`sibling_imbalance`).
    pub(super) fn sibling_imbalance(&self, env: &Env, stats: &DomainStats) -> i64 {
        let (local, busiest) = (&stats.local_stat, &stats.busiest_stat);
        let (here, there) = (i64::from(local.sum_nr_running), i64::from(busiest.sum_nr_running));
        if !self.rules.sibling_imbalance_by_cores {
            return (there - here).max(0);
        }
        if env.idle == Idle::Busy || there == 0 {
            return 0;
        }
        let cores = |group: usize| i64::from(self.cores(&self.balance.domains.groups[group]));
        let (local_cores, busiest_cores) = (cores(stats.local), stats.busiest.map_or(1, cores));
        if local_cores == busiest_cores {
            return (there - here).max(0);
        }
        let imbalance = (local_cores * there - busiest_cores * here).max(0);
        let imbalance = (2 * imbalance + local_cores + busiest_cores) / (local_cores + busiest_cores);
        if imbalance <= 1 && here == 0 && there > 1 { 2 } else { imbalance }
    }

    /// `sg->cores`.
    fn cores(&self, group: &Group) -> u32 {
        let smt = &self.balance.domains.smt;
        let first = |cpu: &usize| smt.get(*cpu).is_none_or(|siblings| siblings.first() == Some(*cpu));
        group.span.iter().filter(first).count().max(1) as u32
    }

    /// `smt_vs_nonsmt_groups`.
    fn smt_vs_nonsmt(&self, one: Option<usize>, other: Option<usize>) -> bool {
        let smt = |group: usize| self.balance.domains.groups[group].flags.has(DomainFlags::SHARE_CPUCAPACITY);
        matches!((one, other), (Some(one), Some(other)) if smt(one) != smt(other))
    }

    /// `update_sd_lb_stats`: every group of the domain.
    fn update_sd_lb_stats(&mut self, env: &Env) -> DomainStats {
        let mut stats = DomainStats::new();
        let mut util = 0;
        let mut overload = false;
        for group in env.groups() {
            let is_local = self.balance.domains.groups[group].span.contains(env.dst.index());
            if is_local {
                stats.local = group;
                let now = self.jiffies(env.dst);
                if env.idle != Idle::NewlyIdle || now >= self.balance.domains.groups[group].next_update {
                    self.update_group_capacity(env.cpu, env.level);
                }
            }
            let found = self.update_sg_lb_stats(env, group, is_local, &mut overload);
            if is_local {
                stats.local_stat = found;
            } else if self.is_busier(&found, group, &stats) {
                (stats.busiest, stats.busiest_stat) = (Some(group), found);
            }
            stats.total_load += found.group_load;
            stats.total_capacity += found.group_capacity;
            util += found.group_util;
        }
        let below = env.level.checked_sub(1).map(|level| &self.balance.domains.cpus[env.cpu.index()].levels[level]);
        stats.prefer_sibling = if self.rules.prefer_sibling_of_busiest {
            stats.busiest.is_some_and(|group| self.balance.domains.groups[group].flags.has(DomainFlags::PREFER_SIBLING))
        } else {
            below.is_some_and(|below| below.shape.flags.has(DomainFlags::PREFER_SIBLING))
        };
        if env.level + 1 == self.balance.domains.cpus[env.cpu.index()].levels.len() {
            self.balance.overload = overload;
        }
        self.update_idle_cpu_scan((env.cpu, env.level), env.idle, util);
        stats
    }

    /// `update_sg_lb_stats`.
    #[inline(always)]
    fn update_sg_lb_stats(&mut self, env: &Env, number: usize, is_local: bool, overload: &mut bool) -> GroupStats {
        let group = &self.balance.domains.groups[number];
        let mut stats =
            GroupStats { group_weight: group.weight, group_capacity: group.capacity, ..GroupStats::default() };
        let mut looked_at = 0;
        for cpu in group.span.iter() {
            if !env.cpus.contains(cpu) {
                continue;
            }
            looked_at += 1;
            let cpu = CpuId(cpu as u32);
            let avg = self.root_avg(cpu);
            stats.group_load += avg.load_avg;
            stats.group_util += self.cpu_util(cpu, &avg);
            stats.group_runnable += avg.runnable_avg;
            stats.sum_h_nr_running += self.h_nr_running(cpu);
            let running = self.rqs[cpu.index()].nr_running;
            stats.sum_nr_running += running;
            *overload |= running > 1;
            if running == 0 && env.idles(self, cpu) {
                stats.idle_cpus += 1;
                continue;
            }
            // From 5.17 on: sched_reduced_capacity
            if !is_local
                && env.idle != Idle::Busy
                && self.rules.reduced_capacity_is_misfit
                && self.h_nr_running(cpu) == 1
                && self.check_cpu_capacity(cpu, env.shape.imbalance_pct)
            {
                stats.misfit_task_load = stats.misfit_task_load.max(avg.load_avg);
            }
        }
        let smt = group.flags.has(DomainFlags::SHARE_CPUCAPACITY);
        stats.smt_balance =
            self.rules.smt_balance && !is_local && env.idle != Idle::Busy && smt && stats.sum_h_nr_running > 1;
        stats.classify(env.shape.imbalance_pct, group);
        if stats.group_type == GroupType::Overloaded {
            stats.avg_load = stats.load_per_capacity();
        }
        self.balance.looked_at += looked_at;
        stats
    }

    /// `update_sd_pick_busiest`.
    fn is_busier(&self, stats: &GroupStats, group: usize, sofar: &DomainStats) -> bool {
        if stats.sum_h_nr_running == 0 {
            return false;
        }
        let busiest = &sofar.busiest_stat;
        if stats.group_type != busiest.group_type {
            return stats.group_type > busiest.group_type;
        }
        match stats.group_type {
            GroupType::Overloaded => stats.avg_load > busiest.avg_load,
            GroupType::Imbalanced => false,
            GroupType::Misfit if self.rules.busiest_misfit_has_more => {
                stats.misfit_task_load > busiest.misfit_task_load
            }
            GroupType::Misfit => stats.misfit_task_load >= busiest.misfit_task_load,
            GroupType::SmtBalance if stats.idle_cpus != 0 || busiest.idle_cpus != 0 => more_tasks(stats, busiest),
            // Its load is never computed: the first one of all, or, from 6.5 on, the last that is no core's.
            GroupType::SmtBalance | GroupType::FullyBusy => {
                let smt = |group: usize| self.balance.domains.groups[group].flags.has(DomainFlags::SHARE_CPUCAPACITY);
                self.rules.fully_busy_prefers_no_smt && !sofar.busiest.is_some_and(smt)
            }
            GroupType::HasSpare if self.rules.smt_balance && self.smt_vs_nonsmt(sofar.busiest, Some(group)) => {
                let smt = self.balance.domains.groups[group].flags.has(DomainFlags::SHARE_CPUCAPACITY);
                !(smt && stats.sum_h_nr_running <= 1)
            }
            GroupType::HasSpare => more_tasks(stats, busiest),
        }
    }

    /// `sched_balance_find_src_rq` (`find_busiest_queue` before 6.10): of the group, by what is to be moved.
    #[doc(alias = "find_busiest_queue")]
    pub(super) fn sched_balance_find_src_rq(&self, env: &Env, group: usize) -> Option<CpuId> {
        let group = &self.balance.domains.groups[group];
        let mut busiest = None;
        let (mut most, mut most_capacity) = (0u64, 1u64);
        for cpu in group.span.iter().filter(|cpu| env.cpus.contains(*cpu)) {
            let cpu = CpuId(cpu as u32);
            let running = self.h_nr_running(cpu);
            if running == 0 {
                continue;
            }
            let capacity = self.rqs[cpu.index()].balance.capacity;
            match env.migration_type {
                MigrationType::Load => {
                    let load = self.cpu_load(cpu);
                    let whole = running == 1 && load > env.imbalance.max(0) as u64;
                    if whole && !self.check_cpu_capacity(cpu, env.shape.imbalance_pct) {
                        continue;
                    }
                    // The greatest load of what capacity there is.
                    if load * most_capacity > most * capacity {
                        (busiest, most, most_capacity) = (Some(cpu), load, capacity);
                    }
                }
                MigrationType::Util => {
                    let util = self.cpu_util_cfs_boost(cpu);
                    if running > 1 && most < util {
                        (busiest, most) = (Some(cpu), util);
                    }
                }
                MigrationType::Task => {
                    if most < u64::from(running) {
                        (busiest, most) = (Some(cpu), u64::from(running));
                    }
                }
            }
        }
        busiest
    }

    /// `check_cpu_capacity`: other classes take a good part of the CPU.
    pub(super) fn check_cpu_capacity(&self, cpu: CpuId, imbalance_pct: u64) -> bool {
        self.rqs[cpu.index()].balance.capacity * imbalance_pct < 1024 * 100
    }
}

/// Fewer idle CPUs, or as many and more tasks.
fn more_tasks(stats: &GroupStats, busiest: &GroupStats) -> bool {
    stats.idle_cpus < busiest.idle_cpus
        || (stats.idle_cpus == busiest.idle_cpus && stats.sum_nr_running > busiest.sum_nr_running)
}
