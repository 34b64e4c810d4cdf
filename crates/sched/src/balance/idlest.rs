//! The slow path of `select_task_rq_fair`, for fork and exec: the idlest CPU of the idlest group, from the largest domain down.

use schedlab_model::{CpuId, TaskId};

use crate::balance::domains::{Domain, DomainFlags};
use crate::balance::stats::{GroupStats, GroupType, adjust_numa_imbalance};
use crate::decider::Decider;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `sched_balance_find_dst_cpu` (`find_idlest_cpu` before 6.10), from a level of `cpu`'s domains down.
    #[doc(alias = "find_idlest_cpu")]
    pub(super) fn sched_balance_find_dst_cpu(
        &mut self,
        level: usize,
        task: TaskId,
        cpu: CpuId,
        previous: CpuId,
        flag: DomainFlags,
    ) -> CpuId {
        let allowed = self.tasks[task.index()].affinity.as_ref();
        let levels = |cpu: CpuId| &self.balance.domains.cpus[cpu.index()].levels;
        if allowed.is_some_and(|allowed| !levels(cpu)[level].shape.span.intersects(allowed)) {
            return previous;
        }
        if !flag.has(DomainFlags::BALANCE_FORK) {
            self.sync_entity_load_avg(self.tasks[task.index()].se);
        }
        let levels = |cpu: CpuId| &self.balance.domains.cpus[cpu.index()].levels;
        let (mut cpu, mut chosen, mut next) = (cpu, cpu, Some(level));
        while let Some(level) = next {
            next = level.checked_sub(1);
            let domain = &levels(cpu)[level];
            if !domain.shape.flags.has(flag) {
                continue;
            }
            let Some(group) = self.sched_balance_find_dst_group(domain, task, cpu) else { continue };
            chosen = self.sched_balance_find_dst_group_cpu(group, task, cpu);
            if chosen == cpu {
                continue;
            }
            // On at a lower level of the CPU that was found.
            let weight = domain.shape.weight;
            cpu = chosen;
            let below = levels(cpu).iter().take_while(|domain| domain.shape.weight < weight);
            next = below.enumerate().filter(|(_, domain)| domain.shape.flags.has(flag)).last().map(|(level, _)| level);
        }
        chosen
    }

    /// `sched_balance_find_dst_group` (`find_idlest_group` before 6.10): another group that is idler than this CPU's; none if this is best.
    #[doc(alias = "find_idlest_group")]
    fn sched_balance_find_dst_group(&self, domain: &Domain, task: TaskId, this: CpuId) -> Option<usize> {
        let (shape, groups) = (&domain.shape, &self.balance.domains.groups);
        let allowed = self.tasks[task.index()].affinity.as_ref();
        let mut local = None;
        let mut idlest: Option<(usize, GroupStats)> = None;
        for group in domain.groups() {
            if allowed.is_some_and(|allowed| !groups[group].span.intersects(allowed)) {
                continue;
            }
            let stats = self.sg_wakeup_stats(group, shape.imbalance_pct, task);
            if groups[group].span.contains(this.index()) {
                local = Some((group, stats));
            } else if idlest.as_ref().is_none_or(|(_, best)| is_idler(&stats, best)) {
                idlest = Some((group, stats));
            }
        }
        let (group, best) = idlest?;
        // The local one has no CPU for the task.
        let Some((local_group, local)) = local else { return Some(group) };
        if local.group_type != best.group_type {
            return (local.group_type > best.group_type).then_some(group);
        }
        let numa = shape.flags.has(DomainFlags::NUMA);
        let goes = match local.group_type {
            GroupType::Overloaded | GroupType::FullyBusy => {
                let imbalance = 1024 * (shape.imbalance_pct - 100) / 100;
                !(numa && best.avg_load + imbalance >= local.avg_load)
                    && best.avg_load < local.avg_load + imbalance
                    && 100 * local.avg_load > shape.imbalance_pct * best.avg_load
            }
            GroupType::Imbalanced | GroupType::SmtBalance | GroupType::Misfit => false,
            GroupType::HasSpare => {
                !(numa && self.stays_on_node(domain, local_group, task, &local, &best))
                    && local.idle_cpus < best.idle_cpus
            }
        };
        goes.then_some(group)
    }

    /// Whether a new task stays on the node of its parent, as few tasks run there.
    fn stays_on_node(
        &self,
        domain: &Domain,
        group: usize,
        task: TaskId,
        local: &GroupStats,
        best: &GroupStats,
    ) -> bool {
        if !self.rules.numa_imbalance_by_domain {
            return local.idle_cpus > 0;
        }
        let mut threshold = domain.shape.imb_numa_nr;
        if let Some(allowed) = &self.tasks[task.index()].affinity {
            let mut usable = (*self.balance.domains.groups[group].span).clone();
            usable.retain(allowed);
            threshold = threshold.min(usable.count());
        }
        let imbalance = i64::from(local.idle_cpus.abs_diff(best.idle_cpus));
        adjust_numa_imbalance(&self.rules, imbalance, local.sum_nr_running + 1, threshold) == 0
    }

    /// `sched_balance_find_dst_group_cpu` (`find_idlest_group_cpu` before 6.10): the CPU that went idle last, or the one of least load.
    #[doc(alias = "find_idlest_group_cpu")]
    fn sched_balance_find_dst_group_cpu(&self, group: usize, task: TaskId, this: CpuId) -> CpuId {
        let group = &self.balance.domains.groups[group];
        if group.weight == 1 {
            return CpuId(group.span.first().unwrap_or(this.index()) as u32);
        }
        let (mut idle, mut latest) = (None, 0);
        let (mut least_loaded, mut least) = (this, u64::MAX);
        for cpu in group.span.iter().map(|cpu| CpuId(cpu as u32)) {
            if !self.tasks[task.index()].may_run_on(cpu) {
                continue;
            }
            if !self.available_idle_cpu(cpu) && self.choose_idle_cpu(cpu, task) {
                return cpu;
            }
            if self.available_idle_cpu(cpu) {
                // Idle states are not modelled: the CPU that idles for the shortest time has the warmest cache.
                let stamp = self.rqs[cpu.index()].balance.idle_stamp.unwrap_or(0).max(1);
                if stamp > latest {
                    (idle, latest) = (Some(cpu), stamp);
                }
            } else if idle.is_none() && self.cpu_load(cpu) < least {
                (least_loaded, least) = (cpu, self.cpu_load(cpu));
            }
        }
        idle.unwrap_or(least_loaded)
    }
}

/// `update_pick_idlest`.
fn is_idler(stats: &GroupStats, best: &GroupStats) -> bool {
    if stats.group_type != best.group_type {
        return stats.group_type < best.group_type;
    }
    match stats.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => stats.avg_load < best.avg_load,
        GroupType::Imbalanced | GroupType::SmtBalance | GroupType::Misfit => false,
        GroupType::HasSpare => {
            stats.idle_cpus > best.idle_cpus
                || (stats.idle_cpus == best.idle_cpus && stats.group_util < best.group_util)
        }
    }
}
