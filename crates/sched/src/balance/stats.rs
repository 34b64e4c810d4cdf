//! What balancing and placement want to know of a group of CPUs: `struct sg_lb_stats` and `group_classify` (`kernel/sched/fair.c`).

use schedlab_model::{CpuId, RuleSet, TaskId};

use crate::balance::domains::Group;
use crate::decider::Decider;
use crate::fair::pelt::SchedAvg;
use crate::machine::Sched;

/// `enum group_type`, in the order in which groups are pulled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum GroupType {
    /// There is capacity for more.
    #[default]
    HasSpare,
    /// Each task has its CPU, and there is none to spare.
    FullyBusy,
    /// A task's CPU is taken up by other classes.
    Misfit,
    /// Threads of one core are busy (6.5 on).
    SmtBalance,
    /// Affinity kept a balancer below from its work.
    Imbalanced,
    /// There is more to do than capacity.
    Overloaded,
}

/// `struct sg_lb_stats`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupStats {
    pub(super) avg_load: u64,
    pub(super) group_load: u64,
    pub(super) group_capacity: u64,
    pub(super) group_util: u64,
    pub(super) group_runnable: u64,
    pub(super) sum_nr_running: u32,
    pub(super) sum_h_nr_running: u32,
    pub(super) idle_cpus: u32,
    pub(super) group_weight: u32,
    pub(super) group_type: GroupType,
    pub(super) smt_balance: bool,
    pub(super) misfit_task_load: u64,
}

/// Whether tasks wait for so much time that a group's capacity is exceeded by its imbalance in per cent (`group_has_capacity`,
/// `group_is_overloaded`).
#[doc(alias = "group_has_capacity")]
#[inline(always)]
pub(crate) const fn is_crowded(capacity: u64, runnable: u64, imbalance_pct: u64) -> bool {
    capacity * imbalance_pct < runnable * 100
}

/// Whether a group's utilisation leaves no capacity but its imbalance (`group_has_capacity`).
#[inline(always)]
pub(crate) const fn is_used_up(capacity: u64, util: u64, imbalance_pct: u64) -> bool {
    capacity * 100 <= util * imbalance_pct
}

/// Whether it takes part of that, too (`group_is_overloaded`).
#[doc(alias = "group_is_overloaded")]
#[inline(always)]
pub(crate) const fn is_overused(capacity: u64, util: u64, imbalance_pct: u64) -> bool {
    capacity * 100 < util * imbalance_pct
}

impl GroupStats {
    /// `group_has_capacity`.
    fn has_capacity(&self, imbalance_pct: u64) -> bool {
        if self.sum_nr_running < self.group_weight {
            return true;
        }
        !is_crowded(self.group_capacity, self.group_runnable, imbalance_pct)
            && !is_used_up(self.group_capacity, self.group_util, imbalance_pct)
    }

    /// `group_is_overloaded`.
    fn is_overloaded(&self, imbalance_pct: u64) -> bool {
        self.sum_nr_running > self.group_weight
            && (is_overused(self.group_capacity, self.group_util, imbalance_pct)
                || is_crowded(self.group_capacity, self.group_runnable, imbalance_pct))
    }

    /// `group_classify`.
    pub(super) fn classify(&mut self, imbalance_pct: u64, group: &Group) {
        self.group_type = if self.is_overloaded(imbalance_pct) {
            GroupType::Overloaded
        } else if group.imbalance {
            GroupType::Imbalanced
        } else if self.smt_balance {
            GroupType::SmtBalance
        } else if self.misfit_task_load > 0 {
            GroupType::Misfit
        } else if !self.has_capacity(imbalance_pct) {
            GroupType::FullyBusy
        } else {
            GroupType::HasSpare
        };
    }

    /// The load of what capacity there is.
    pub(super) fn load_per_capacity(&self) -> u64 {
        (self.group_load << 10) / self.group_capacity.max(1)
    }
}

/// `adjust_numa_imbalance`: so little imbalance between nodes is let be.
pub(super) fn adjust_numa_imbalance(rules: &RuleSet, imbalance: i64, running: u32, imb_numa_nr: u32) -> i64 {
    // NUMA_IMBALANCE_MIN: two tasks that talk to one another.
    const MIN: i64 = 2;
    if !rules.numa_imbalance_by_domain {
        return if i64::from(running) <= MIN { 0 } else { imbalance };
    }
    if running <= imb_numa_nr && imbalance <= MIN { 0 } else { imbalance }
}

impl<D: Decider> Sched<D> {
    /// The averages of a CPU's root queue as they were last brought up to date.
    #[inline]
    pub(super) fn root_avg(&self, cpu: CpuId) -> SchedAvg {
        self.queue_avg(self.rqs[cpu.index()].cfs)
    }

    /// `cpu_load`.
    #[inline]
    pub(super) fn cpu_load(&self, cpu: CpuId) -> u64 {
        self.root_avg(cpu).load_avg
    }

    /// `cpu_util_cfs`: the utilisation, or the estimated one of the queued tasks if that is higher; at most a whole CPU.
    #[inline]
    pub(super) fn cpu_util(&self, cpu: CpuId, avg: &SchedAvg) -> u64 {
        avg.util_avg.max(self.cpu_util_est(cpu)).min(1024)
    }

    /// `cpu_util_cfs_boost` (6.5 on): tasks that wait for the CPU count as well.
    #[inline]
    pub(super) fn cpu_util_cfs_boost(&self, cpu: CpuId) -> u64 {
        let avg = self.root_avg(cpu);
        let util = self.cpu_util(cpu, &avg);
        if self.rules.util_boosted_by_runnable { util.max(avg.runnable_avg).min(1024) } else { util }
    }

    fn cpu_util_est(&self, cpu: CpuId) -> u64 {
        self.util_est_of_cpu(cpu).unwrap_or(0)
    }

    /// `task_util_est`.
    pub(super) fn task_util_est(&self, task: TaskId) -> u64 {
        let util = self.entity_avg(self.tasks[task.index()].se).util_avg;
        util.max(self.util_est_of(task).unwrap_or(0))
    }

    /// `task_h_load`: a task's load as its groups' weights make it at the top.
    pub(super) fn task_h_load(&self, task: TaskId) -> u64 {
        let se = self.tasks[task.index()].se;
        let cfs = self.entities[se.index()].cfs_rq;
        self.entity_avg(se).load_avg * self.cfs_rq_h_load(cfs) / (self.queue_avg(cfs).load_avg + 1)
    }

    /// `update_cfs_rq_h_load`: the load of a queue as it is at the top. The kernel keeps it for a tick.
    fn cfs_rq_h_load(&self, cfs: crate::entity::CfsRqId) -> u64 {
        let queue = &self.cfs_rqs[cfs.index()];
        let place = self.groups[queue.group.index()].cpus.get(queue.cpu.index()).copied().flatten();
        let Some((_, se)) = place else { return self.queue_avg(cfs).load_avg };
        let above = self.entities[se.index()].cfs_rq;
        self.cfs_rq_h_load(above) * self.entity_avg(se).load_avg / (self.queue_avg(above).load_avg + 1)
    }

    /// Fair tasks of a CPU as the release counts them: with delayed tasks before 6.14 (`h_nr_queued`), without them from then on
    /// (`h_nr_runnable`).
    pub(super) fn h_nr_running(&self, cpu: CpuId) -> u32 {
        let queue = self.cfs_rq(cpu);
        if self.rules.balance_counts_runnable { queue.h_nr_runnable() } else { queue.h_nr_running }
    }

    /// `update_sg_wakeup_stats`: the group as it would be without the task.
    pub(super) fn sg_wakeup_stats(&self, group: usize, imbalance_pct: u64, task: TaskId) -> GroupStats {
        let group = &self.balance.domains.groups[group];
        let record = &self.tasks[task.index()];
        let own = self.entity_avg(record.se);
        let mut stats =
            GroupStats { group_weight: group.weight, group_capacity: group.capacity, ..GroupStats::default() };
        // 6.12 and its contemporaries count CPUs on which the task may not run.
        let counts_all = self.rules.idlest_counts_forbidden_cpus;
        for cpu in group.span.iter().map(|cpu| CpuId(cpu as u32)) {
            if !counts_all && !record.may_run_on(cpu) {
                continue;
            }
            let avg = self.root_avg(cpu);
            let counted = cpu == record.cpu && own.last_update_time != 0;
            let (mut load, mut util, mut runnable) = (avg.load_avg, avg.util_avg, avg.runnable_avg);
            let mut expected = self.cpu_util_est(cpu);
            let here = u32::from(counted && self.entities[record.se.index()].on_rq);
            if counted {
                load = load.saturating_sub(self.task_h_load(task));
                util = util.saturating_sub(own.util_avg);
                runnable = runnable.saturating_sub(own.runnable_avg);
                // cpu_util_without: one that begins another program is queued.
                expected = expected.saturating_sub(self.util_est_of(task).unwrap_or(0) * u64::from(here));
            }
            stats.group_load += load;
            stats.group_util += util.max(expected).min(1024);
            stats.group_runnable += runnable;
            stats.sum_h_nr_running += self.h_nr_running(cpu) - here;
            let running = self.rqs[cpu.index()].nr_running - here;
            stats.sum_nr_running += running;
            let curr = self.rqs[cpu.index()].curr;
            let idle = if curr == TaskId::IDLE { self.available_idle_cpu(cpu) } else { curr == task };
            stats.idle_cpus += u32::from(running == 0 && idle);
        }
        stats.classify(imbalance_pct, group);
        if matches!(stats.group_type, GroupType::FullyBusy | GroupType::Overloaded) {
            stats.avg_load = stats.load_per_capacity();
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `adjust_numa_imbalance`: up to 5.10 two tasks may run on one node; later two more than elsewhere, while no more than the
    /// threshold run there.
    #[test]
    fn a_small_imbalance_of_nodes_is_let_be() {
        for (release, imbalance, running, threshold, left) in
            [("5.10", 5, 2, 0, 0), ("5.10", 1, 3, 0, 1), ("6.1", 2, 4, 4, 0), ("6.1", 3, 4, 4, 3), ("6.1", 2, 5, 4, 2)]
        {
            let rules = RuleSet::of(release.parse().unwrap());
            assert_eq!(adjust_numa_imbalance(&rules, imbalance, running, threshold), left);
        }
    }
}
