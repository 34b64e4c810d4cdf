//! `can_migrate_task` and `detach_tasks` (`kernel/sched/fair.c`): which waiting tasks a balancer takes.

use schedlab_model::{CpuId, TaskId};

use crate::balance::domains::DomainFlags;
use crate::balance::env::{Env, Idle, MigrationType, NR_MIGRATE_BREAK};
use crate::balance::state::Migration;
use crate::class::Class;
use crate::decider::Decider;
use crate::machine::Sched;
use crate::rules::Rules;

impl Rules {
    /// `task_hot` without domains and buddies: whether a task that was charged last at `exec_start` ran less than `migration_cost` ago.
    #[doc(alias = "task_hot")]
    #[inline(always)]
    pub(crate) fn ran_just_now(&self, now: u64, exec_start: u64) -> bool {
        (now.wrapping_sub(exec_start) as i64) < self.tunables.migration_cost.as_nanos() as i64
    }
}

impl<D: Decider> Sched<D> {
    /// `can_migrate_task`: it may run there, does not run, and is not cache-hot, or balancing has failed too often to mind.
    fn can_migrate_task(&self, env: &mut Env, task: TaskId) -> bool {
        let record = &self.tasks[task.index()];
        let domain = &self.balance.domains.cpus[env.cpu.index()].levels[env.level];
        if self.rules.balance_leaves_delayed {
            let delayed = self.entities[record.se.index()].sched_delayed;
            if delayed && env.migration_type != MigrationType::Load {
                return false;
            }
        }
        if self.throttled_lb_pair(task, env.src, env.dst) {
            return false;
        }
        let spares = self.rules.balance_leaves_ineligible && domain.nr_balance_failed == 0;
        if spares && self.is_ineligible_on(task, env.dst) {
            return false;
        }
        if !record.may_run_on(env.dst) {
            env.some_pinned = true;
            if env.idle == Idle::NewlyIdle || env.new_dst.is_some() || env.active {
                return false;
            }
            // Another CPU of the group may have it instead.
            let mut others = (*env.dst_group).clone();
            others.retain(&env.cpus);
            env.new_dst = others.iter().map(|cpu| CpuId(cpu as u32)).find(|cpu| record.may_run_on(*cpu));
            return false;
        }
        env.all_pinned = false;
        if self.rqs[env.src.index()].curr == task {
            return false;
        }
        env.active || domain.nr_balance_failed > env.shape.cache_nice_tries || !self.task_hot(env, task)
    }

    /// `throttled_lb_pair`.
    fn throttled_lb_pair(&self, task: TaskId, src: CpuId, dst: CpuId) -> bool {
        if !self.has_groups() {
            return false;
        }
        let group = &self.groups[self.tasks[task.index()].group.index()];
        let throttled = |cpu: CpuId| {
            let queue = group.cpus.get(cpu.index()).copied().flatten();
            queue.is_some_and(|(queue, _)| self.throttled_hierarchy(queue))
        };
        throttled(src) || throttled(dst)
    }

    /// `task_is_ineligible_on_dst_cpu` (since 873199d27bb2, 6.14): it ran ahead of its queue, and would have to wait there too.
    fn is_ineligible_on(&self, task: TaskId, dst: CpuId) -> bool {
        let record = &self.tasks[task.index()];
        let place = self.groups[record.group.index()].cpus.get(dst.index()).copied().flatten();
        let place = place.filter(|_| !self.rules.single_timeline);
        let queue = place.map_or(self.rqs[dst.index()].cfs, |(queue, _)| queue);
        let cfs = self.timeline_queue(record.se);
        self.rules.tunables.features.place_lag
            && self.cfs_rqs[queue.index()].nr_in_timeline(&self.rules) > 0
            && !self.entity_eligible(cfs, record.se)
    }

    /// `task_hot`: it ran a moment ago, or is about to.
    fn task_hot(&self, env: &Env, task: TaskId) -> bool {
        let record = &self.tasks[task.index()];
        if record.class != Class::Fair || record.has_idle_policy() {
            return false;
        }
        if env.shape.flags.has(DomainFlags::SHARE_CPUCAPACITY) {
            return false;
        }
        let entity = &self.entities[record.se.index()];
        let queue = &self.cfs_rqs[entity.cfs_rq.index()];
        let buddy = queue.next == Some(record.se) || queue.last == Some(record.se);
        if self.rules.tunables.features.cache_hot_buddy && self.rqs[env.dst.index()].nr_running > 0 && buddy {
            return true;
        }
        // A balancer brings the clock up to date as it locks the queue; where it is recorded the queue shows that only if a task leaves.
        let now = self.rqs[env.src.index()].clock_task;
        let now = if self.balance.recorded { now.max(self.balance.now) } else { now };
        self.rules.ran_just_now(now, entity.exec_start)
    }

    /// `detach_tasks`: takes tasks off the queue until there is no imbalance left. They are to be attached, the last one first.
    pub(super) fn detach_tasks(&mut self, env: &mut Env) -> Vec<TaskId> {
        let mut detached = std::mem::take(&mut self.balance.detached);
        if self.rqs[env.src.index()].nr_running <= 1 && self.rules.leaves_single_tasks {
            env.all_pinned = false;
            return detached;
        }
        if env.imbalance <= 0 {
            return detached;
        }
        while let Some(task) = self.next_to_take(env) {
            self.detach_task(task, env.dst);
            detached.push(task);
            // Preemptible kernels stop after the first: newidle balancing delays tasks that wake up.
            if (env.idle == Idle::NewlyIdle && self.rules.preemptible) || env.imbalance <= 0 {
                break;
            }
        }
        detached
    }

    /// The next task of the list that `detach_tasks` takes.
    pub(super) fn next_to_take(&mut self, env: &mut Env) -> Option<TaskId> {
        while let Some(task) = self.last_of_cfs_tasks(env.src) {
            if env.idle != Idle::Busy && self.rqs[env.src.index()].nr_running <= 1 {
                return None;
            }
            env.looked += 1;
            if env.looked > env.looked_max {
                return None;
            }
            if env.looked > env.looked_break {
                env.looked_break += NR_MIGRATE_BREAK;
                env.need_break = true;
                return None;
            }
            if self.can_migrate_task(env, task) && self.fits_imbalance(env, task) {
                return Some(task);
            }
            // To the other end of the list, so that it is not looked at again.
            self.cfs_tasks_move_to_front(env.src, task);
        }
        None
    }

    /// Whether moving the task is not more than is to be moved; then it is taken off that.
    fn fits_imbalance(&self, env: &mut Env, task: TaskId) -> bool {
        let failed = self.balance.domains.cpus[env.cpu.index()].levels[env.level].nr_balance_failed;
        let bound = |value: u64| (value >> failed.min(63)) as i64;
        match env.migration_type {
            MigrationType::Load => {
                let load = self.task_h_load(task).max(1);
                if self.rules.tunables.features.lb_min && load < 16 && failed == 0 {
                    return false;
                }
                if bound(load) > env.imbalance {
                    return false;
                }
                env.imbalance -= load as i64;
            }
            MigrationType::Util => {
                let util = self.task_util_est(task);
                if bound(util) > env.imbalance {
                    return false;
                }
                env.imbalance -= util as i64;
            }
            MigrationType::Task => env.imbalance -= 1,
        }
        true
    }

    /// `attach_tasks`: puts them on the queue they were taken for.
    pub(super) fn attach_tasks(&mut self, env: &Env, mut detached: Vec<TaskId>) {
        if !detached.is_empty() {
            self.update_rq_clock(env.dst);
        }
        while let Some(task) = detached.pop() {
            self.attach_task(env.dst, task);
            self.balance.migrations.push(Migration { task, from: env.src, to: env.dst });
        }
        self.balance.detached = detached;
    }

    /// `active_load_balance_cpu_stop`: the stopper of a CPU pushes one task, even the one that just ran, to the CPU that asked for it.
    /// The current task was put back on the queue before.
    pub(crate) fn active_load_balance(&mut self, cpu: CpuId) {
        if self.balance.recorded {
            return;
        }
        let Some(target) = self.rqs[cpu.index()].balance.push_cpu.take() else { return };
        if self.rqs[cpu.index()].nr_running == 0 || !self.is_online(target) || !self.is_online(cpu) {
            return;
        }
        if let Some((level, task)) = self.next_to_push(cpu, target) {
            self.detach_task(task, target);
            self.balance.domains.cpus[target.index()].levels[level].nr_balance_failed = 0;
            self.update_rq_clock(target);
            self.attach_task(target, task);
            self.balance.migrations.push(Migration { task, from: cpu, to: target });
        }
    }

    /// `detach_one_task`: which task the stopper of a CPU pushes, and at which level of the other CPU's domains.
    pub(crate) fn next_to_push(&mut self, cpu: CpuId, target: CpuId) -> Option<(usize, TaskId)> {
        let levels = &self.balance.domains.cpus[target.index()].levels;
        let level = levels.iter().position(|domain| domain.shape.span.contains(cpu.index()))?;
        let mut env = Env::new(&self.balance.domains, target, level, Idle::Idle, false);
        (env.src, env.active) = (cpu, true);
        let mut next = self.last_of_cfs_tasks(cpu);
        while let Some(task) = next {
            if self.can_migrate_task(&mut env, task) {
                return Some((level, task));
            }
            next = self.tasks[task.index()].before();
        }
        None
    }
}
