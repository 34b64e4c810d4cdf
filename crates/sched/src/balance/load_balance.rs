//! `load_balance` (`sched_balance_rq` from 6.10 on): one level of one CPU's domains is brought into balance.

use schedlab_model::{CpuId, Series, TaskId};

use crate::balance::env::{Env, Idle, MigrationType, NR_MIGRATE_BREAK};
use crate::core::Sched;
use crate::decider::{Decider, Pull};

/// `MAX_PINNED_INTERVAL`, in milliseconds.
const MAX_PINNED_INTERVAL: u64 = 512;

/// How a run of the balancer ended.
enum End {
    Moved(u32),
    Balanced,
    AllPinned,
    OnePinned,
}

impl<D: Decider> Sched<D> {
    /// How many tasks were moved, and whether the CPU is to go on with larger domains: false if it is another one's part.
    pub(super) fn load_balance(&mut self, cpu: CpuId, level: usize, idle: Idle, was_idle: bool) -> (u32, bool) {
        let mut env = Env::new(&self.balance.domains, cpu, level, idle, was_idle);
        let mut goes_on = true;
        let mut active = false;
        let end = loop {
            if !self.should_we_balance(&env) {
                goes_on = false;
                break End::Balanced;
            }
            let found = self.find_busiest_group(&mut env).and_then(|group| self.find_busiest_queue(&env, group));
            if self.balance.recorded {
                break self.recorded_pull(&mut env, found);
            }
            let Some(busiest) = self.decider.balance(cpu, idle, found) else { break End::Balanced };
            env.src = busiest;
            let mut moved = 0;
            let waits = self.rqs[busiest.index()].nr_running > 1;
            // From 5.11 on an attempt counts as pinned until a task shows otherwise.
            env.all_pinned = waits || self.rules.series != Series::V5_10;
            if waits {
                moved = self.move_tasks(&mut env);
                if let Some(parent) = self.balance.domains.cpus[cpu.index()].levels.get(level + 1)
                    && env.some_pinned
                    && env.imbalance > 0
                    && let Some(group) = parent.groups().next()
                {
                    self.balance.domains.groups[group].imbalance = true;
                }
                if env.all_pinned {
                    env.cpus.remove(busiest.index());
                    if !env.cpus.is_subset(&env.dst_group) {
                        (env.looked, env.looked_break) = (0, NR_MIGRATE_BREAK);
                        continue;
                    }
                    break End::AllPinned;
                }
            }
            if moved > 0 {
                self.domain(cpu, level).nr_balance_failed = 0;
                break End::Moved(moved);
            }
            if idle != Idle::NewlyIdle {
                self.domain(cpu, level).nr_balance_failed += 1;
            }
            if self.need_active_balance(&env) {
                let curr = self.rqs[busiest.index()].curr;
                if curr == TaskId::IDLE || !self.tasks[curr.index()].may_run_on(cpu) {
                    break End::OnePinned;
                }
                env.all_pinned = false;
                if self.balance.cpus[busiest.index()].push_cpu.is_none() {
                    self.balance.cpus[busiest.index()].push_cpu = Some(cpu);
                    active = true;
                    self.resched_curr(busiest);
                    self.balance.touched.push(busiest);
                    if self.rules.series == Series::V5_10 {
                        let tries = env.shape.cache_nice_tries;
                        self.domain(cpu, level).nr_balance_failed = tries + 1;
                    }
                }
            }
            break End::Moved(0);
        };
        (self.set_balance_interval(&env, end, active), goes_on)
    }

    /// Where who is moved is told: whom the rules would take is asked, and what happened has its effect on when and how the domain is
    /// balanced next.
    fn recorded_pull(&mut self, env: &mut Env, found: Option<CpuId>) -> End {
        if let Some(busiest) = found {
            env.src = busiest;
            env.looked_max = self.rules.tunables.nr_migrate.min(self.rqs[busiest.index()].nr_running);
        }
        let waits = found.is_some_and(|busiest| self.rqs[busiest.index()].nr_running > 1);
        let ours = found.filter(|_| waits).and_then(|busiest| Some((self.next_to_take(env)?, busiest)));
        let others = env.shape.span.iter().filter(|cpu| *cpu != env.cpu.index());
        let waits = others.map(|cpu| CpuId(cpu as u32)).any(|cpu| self.nr_awake(cpu) > 1);
        let shape = std::sync::Arc::clone(&env.shape);
        let within = |cpu: CpuId| shape.span.contains(cpu.index());
        let taken = self.decider.pull(Pull { cpu: env.cpu, idle: env.idle, waits, ours }, within);
        if taken.is_some() {
            self.domain(env.cpu, env.level).nr_balance_failed = 0;
            return End::Moved(1);
        }
        if found.is_none() {
            return End::Balanced;
        }
        if env.idle != Idle::NewlyIdle {
            self.domain(env.cpu, env.level).nr_balance_failed += 1;
        }
        End::Moved(0)
    }

    /// The end of `load_balance`: when to look again. How many were moved.
    fn set_balance_interval(&mut self, env: &Env, end: End, active: bool) -> u32 {
        let (min, max) = (env.shape.min_interval, env.shape.max_interval());
        if let End::Moved(moved) = end {
            if !active || self.need_active_balance(env) {
                self.domain(env.cpu, env.level).balance_interval = min;
            }
            return moved;
        }
        if matches!(end, End::Balanced)
            && !env.all_pinned
            && let Some(parent) = self.balance.domains.cpus[env.cpu.index()].levels.get(env.level + 1)
            && let Some(group) = parent.groups().next()
        {
            self.balance.domains.groups[group].imbalance = false;
        }
        let domain = self.domain(env.cpu, env.level);
        if !matches!(end, End::OnePinned) {
            domain.nr_balance_failed = 0;
        }
        let pinned = env.all_pinned && domain.balance_interval < MAX_PINNED_INTERVAL;
        if env.idle != Idle::NewlyIdle && (pinned || domain.balance_interval < max) {
            domain.balance_interval *= 2;
        }
        0
    }

    fn domain(&mut self, cpu: CpuId, level: usize) -> &mut crate::balance::domains::Domain {
        &mut self.balance.domains.cpus[cpu.index()].levels[level]
    }

    /// `more_balance`: takes tasks from the busiest queue, for the CPU itself or, where affinity forbids, for others of its group.
    fn move_tasks(&mut self, env: &mut Env) -> u32 {
        let mut moved = 0;
        env.looked_max = self.rules.tunables.nr_migrate.min(self.rqs[env.src.index()].nr_running);
        loop {
            self.update_rq_clock(env.src);
            let detached = self.detach_tasks(env);
            if !detached.is_empty() {
                moved += detached.len() as u32;
                self.attach_tasks(env, detached);
            }
            if std::mem::take(&mut env.need_break) {
                continue;
            }
            match env.new_dst.take() {
                Some(other) if env.imbalance > 0 => {
                    env.cpus.remove(env.dst.index());
                    env.dst = other;
                    (env.looked, env.looked_break) = (0, NR_MIGRATE_BREAK);
                }
                _ => return moved,
            }
        }
    }

    /// `should_we_balance`: of a group only its first idle CPU balances, or its first one; a newly idle one always does.
    fn should_we_balance(&self, env: &Env) -> bool {
        if !env.cpus.contains(env.dst.index()) {
            return false;
        }
        if env.idle == Idle::NewlyIdle {
            return self.rules.series == Series::V5_10 || self.rqs[env.dst.index()].nr_running == 0;
        }
        let mut candidates = (*env.dst_group).clone();
        candidates.retain(&env.cpus);
        let smt = env.shape.flags.has(crate::balance::domains::DomainFlags::SHARE_CPUCAPACITY);
        let mut sibling = None;
        let mut from = 0;
        while let Some(number) = candidates.next(from) {
            from = number + 1;
            let cpu = CpuId(number as u32);
            if !self.idle_cpu(cpu) {
                continue;
            }
            // From 6.6 on a CPU of an idle core comes first.
            if self.rules.eevdf() && !smt && !self.is_core_idle(cpu) {
                sibling = sibling.or(Some(cpu));
                candidates.subtract(&self.balance.domains.smt[number]);
                continue;
            }
            return cpu == env.dst;
        }
        if let Some(sibling) = sibling {
            return sibling == env.dst;
        }
        env.dst_group.first() == Some(env.dst.index())
    }

    /// `need_active_balance`: the running task itself is to be moved.
    fn need_active_balance(&self, env: &Env) -> bool {
        let domain = &self.balance.domains.cpus[env.cpu.index()].levels[env.level];
        // imbalanced_active_balance, which 5.10 does whatever is to be moved
        let by_task = self.rules.series == Series::V5_10 || env.migration_type == MigrationType::Task;
        if by_task && domain.nr_balance_failed > env.shape.cache_nice_tries + 2 {
            return true;
        }
        let capacity = |cpu: CpuId| self.balance.cpus[cpu.index()].capacity;
        env.idle != Idle::Busy
            && self.h_nr_running(env.src) == 1
            && self.check_cpu_capacity(env.src, env.shape.imbalance_pct)
            && capacity(env.src) * env.shape.imbalance_pct < capacity(env.dst) * 100
    }
}
