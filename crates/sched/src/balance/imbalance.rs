//! `calculate_imbalance` (`kernel/sched/fair.c`): how much is to be moved, and of what; and what balancing learns on the way.

use schedlab_model::CpuId;

use crate::balance::busiest::DomainStats;
use crate::balance::domains::{DomainFlags, Domains};
use crate::balance::env::{Env, Idle, MigrationType};
use crate::balance::stats::{GroupType, adjust_numa_imbalance};
use crate::decider::Decider;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// `calculate_imbalance`.
    pub(super) fn calculate_imbalance(&self, env: &mut Env, stats: &mut DomainStats) {
        let busiest = stats.busiest_stat;
        match busiest.group_type {
            GroupType::Misfit => {
                env.migration_type = MigrationType::Load;
                env.imbalance = busiest.misfit_task_load as i64;
                return;
            }
            GroupType::SmtBalance | GroupType::Imbalanced => {
                (env.migration_type, env.imbalance) = (MigrationType::Task, 1);
                return;
            }
            _ => {}
        }
        if stats.local_stat.group_type == GroupType::HasSpare {
            self.fill_spare_capacity(env, stats);
            return;
        }
        let local = &mut stats.local_stat;
        if local.group_type < GroupType::Overloaded {
            local.avg_load = local.load_per_capacity();
            let local_load = local.avg_load;
            if local_load >= busiest.avg_load || local_load >= stats.avg_load() {
                env.imbalance = 0;
                return;
            }
        }
        // Neither above, nor below, the average of the domain.
        let (average, local) = (stats.avg_load(), &stats.local_stat);
        let excess = busiest.avg_load.wrapping_sub(average).wrapping_mul(busiest.group_capacity);
        let room = average.wrapping_sub(local.avg_load).wrapping_mul(local.group_capacity);
        env.migration_type = MigrationType::Load;
        env.imbalance = (excess.min(room) >> 10) as i64;
    }

    /// Where the local group has capacity to spare: fill it from an overloaded group, or spread tasks.
    fn fill_spare_capacity(&self, env: &mut Env, stats: &DomainStats) {
        let (local, busiest) = (&stats.local_stat, &stats.busiest_stat);
        if busiest.group_type > GroupType::FullyBusy && !env.shape.flags.has(DomainFlags::SHARE_LLC) {
            env.migration_type = MigrationType::Util;
            env.imbalance = local.group_capacity.saturating_sub(local.group_util) as i64;
            if env.idle != Idle::Busy && env.imbalance == 0 {
                (env.migration_type, env.imbalance) = (MigrationType::Task, 1);
            }
            return;
        }
        env.migration_type = MigrationType::Task;
        let by_tasks = busiest.group_weight == 1 || stats.prefer_sibling;
        let imbalance = if by_tasks {
            self.sibling_imbalance(env, stats)
        } else {
            (i64::from(local.idle_cpus) - i64::from(busiest.idle_cpus)).max(0)
        };
        let numa = env.shape.flags.has(DomainFlags::NUMA);
        // 5.10 halves first.
        let halves_first = !self.rules.imbalance_halved_last;
        let imbalance = if halves_first { imbalance >> 1 } else { imbalance };
        let running = if halves_first { busiest.sum_nr_running } else { local.sum_nr_running + 1 };
        let imbalance = if numa {
            adjust_numa_imbalance(&self.rules, imbalance, running, env.shape.imb_numa_nr)
        } else {
            imbalance
        };
        env.imbalance = if halves_first { imbalance } else { imbalance >> 1 };
    }

    /// `update_idle_cpu_scan` (SIS_UTIL): the busier the CPUs of a cache, the fewer are looked at for an idle one.
    pub(super) fn update_idle_cpu_scan(&mut self, (cpu, level): (CpuId, usize), idle: Idle, sum_util: u64) {
        if !self.rules.tunables.features.sis_util || idle == Idle::NewlyIdle {
            return;
        }
        let Domains { cpus, shared, .. } = &mut self.balance.domains;
        let place = &cpus[cpu.index()];
        let shape = &place.levels[level].shape;
        if shape.weight != place.llc_size {
            return;
        }
        if let Some(of) = place.shared {
            shared[of as usize].nr_idle_scan = nr_idle_scan(sum_util, place.llc_size, shape.imbalance_pct);
        }
    }

    /// `update_group_capacity`: what other classes leave, of the local group of a CPU's domain.
    pub(crate) fn update_group_capacity(&mut self, cpu: CpuId, level: usize) {
        let now = self.jiffies(cpu);
        let longest = self.balance.max_interval;
        let milliseconds = self.balance.domains.cpus[cpu.index()].levels[level].balance_interval;
        let interval = self.rules.jiffies_of(milliseconds).clamp(1, longest);
        let domains = &mut self.balance.domains;
        let Some(group) = domains.cpus[cpu.index()].levels[level].groups().next() else { return };
        domains.groups[group].next_update = now + interval;
        let Some(below) = level.checked_sub(1) else {
            // update_cpu_capacity
            let capacity = self.scale_rt_capacity(cpu);
            self.rqs[cpu.index()].balance.capacity = capacity;
            self.balance.domains.groups[group].capacity = capacity;
            return;
        };
        let below = &domains.cpus[cpu.index()].levels[below];
        let capacity = if below.shape.flags.has(DomainFlags::OVERLAP) {
            domains.groups[group].span.iter().map(|cpu| self.rqs[cpu].balance.capacity).sum()
        } else {
            below.groups().map(|group| domains.groups[group].capacity).sum()
        };
        domains.groups[group].capacity = capacity;
    }
}

/// How many CPUs of a cache are searched: all while they idle, none once they are busy at 100 / `imbalance_pct`, by a parabola
/// between.
fn nr_idle_scan(sum_util: u64, llc_weight: u32, imbalance_pct: u64) -> u32 {
    let weight = u64::from(llc_weight);
    let x = sum_util / weight;
    let taken = (x * x * imbalance_pct * imbalance_pct / (10_000 * 1024)).min(1024);
    ((1024 - taken) * weight / 1024) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The comment above `update_idle_cpu_scan`: y = 1024 − x² · pct² / (10000 · 1024), and y · weight / 1024 CPUs. At x = 512 of 1024
    /// and 117 %: 512² · 13689 / 10240000 = 350.4…, so (1024 − 350) · 16 / 1024 = 10.5…. At 85 % and more none is left but what
    /// rounding leaves: x = 876 gives 1025.8.
    #[test]
    fn the_busier_the_cache_the_fewer_are_searched() {
        assert_eq!(nr_idle_scan(0, 16, 117), 16);
        assert_eq!(nr_idle_scan(512 * 16, 16, 117), 10);
        assert_eq!(nr_idle_scan(876 * 16, 16, 117), 0);
        assert_eq!(nr_idle_scan(1024 * 16, 16, 117), 0);
    }
}
