//! `sched_balance_rq` (`load_balance` before 6.10): one level of one CPU's domains is brought into balance.

use schedlab_model::{BalanceRule, CpuId, Reason, TaskId};

use crate::balance::domains::Domain;
use crate::balance::env::{Env, Idle, MigrationType, NR_MIGRATE_BREAK};
use crate::decider::{Decider, Pull};
use crate::machine::Sched;

/// `MAX_PINNED_INTERVAL`, in milliseconds.
const MAX_PINNED_INTERVAL: u64 = 512;

/// How a run of the balancer ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Moved(u32),
    Balanced,
    AllPinned,
    OnePinned,
}

impl Domain {
    /// Nothing was moved: it is balanced more rarely.
    fn look_later(&mut self, all_pinned: bool) {
        let pinned = all_pinned && self.balance_interval < MAX_PINNED_INTERVAL;
        if pinned || self.balance_interval < self.shape.max_interval() {
            self.balance_interval *= 2;
        }
    }
}

/// What became of one domain, with the CPU that was to give tasks and how many it gave.
fn balanced(level: usize, idle: Idle, given: Option<(CpuId, u32)>, by: BalanceRule) -> Reason {
    let (from, moved) = (given.map(|(from, _)| from), given.map_or(0, |(_, moved)| moved));
    Reason::Balance { level: level as u32, newly_idle: idle == Idle::NewlyIdle, moved, from, by }
}

impl<D: Decider> Sched<D> {
    /// `sched_balance_rq` (`load_balance` before 6.10): how many tasks were moved, and whether the CPU is to go on with larger domains: false if it is another one's part.
    #[doc(alias = "load_balance")]
    pub(crate) fn sched_balance_rq(&mut self, cpu: CpuId, level: usize, idle: Idle, was_idle: bool) -> (u32, bool) {
        // Mostly so, and then there is no need of an `env`.
        if self.no_task_waits(cpu, idle) && self.decider.balance(cpu, idle, None).is_none() {
            let domain = self.domain(cpu, level);
            domain.nr_balance_failed = 0;
            if idle != Idle::NewlyIdle {
                domain.look_later(false);
            }
            self.explain(cpu, move |_| balanced(level, idle, None, BalanceRule::Balanced));
            return (0, true);
        }
        let mut env = Env::new(&self.balance.domains, cpu, level, idle, was_idle);
        let mut goes_on = true;
        let mut active = false;
        let end = loop {
            if !self.should_we_balance(&env) {
                goes_on = false;
                break End::Balanced;
            }
            let found = self
                .sched_balance_find_src_group(&mut env)
                .and_then(|group| self.sched_balance_find_src_rq(&env, group));
            if self.balance.recorded {
                match self.recorded_pull(&mut env, found, &mut active) {
                    Some(end) => break end,
                    None => continue,
                }
            }
            let Some(busiest) = self.decider.balance(cpu, idle, found) else { break End::Balanced };
            env.src = busiest;
            let mut moved = 0;
            let waits = self.rqs[busiest.index()].nr_running > 1;
            // From 5.11 on an attempt counts as pinned until a task shows otherwise.
            env.all_pinned = waits || self.rules.pinned_until_shown;
            if waits {
                moved = self.move_tasks(&mut env);
                self.note_pinned(&env);
                if env.all_pinned {
                    if self.looks_on(&mut env) {
                        continue;
                    }
                    break End::AllPinned;
                }
            }
            if moved > 0 {
                self.domain(cpu, level).nr_balance_failed = 0;
                break End::Moved(moved);
            }
            let end = self.end_in_vain(&mut env, &mut active);
            if active {
                self.resched_curr(busiest);
                self.balance.touched.push(busiest);
            }
            break end;
        };
        let src = env.src;
        self.explain(cpu, move |_| {
            let (moved, by) = match end {
                End::Moved(0) if active => (0, BalanceRule::Push),
                End::Moved(0) => (0, BalanceRule::NoneFits),
                End::Moved(moved) => (moved, BalanceRule::Moved),
                End::Balanced if goes_on => (0, BalanceRule::Balanced),
                End::Balanced => (0, BalanceRule::NotItsTurn),
                End::AllPinned | End::OnePinned => (0, BalanceRule::Pinned),
            };
            let from = Some(src).filter(|_| !matches!(end, End::Balanced));
            balanced(level, idle, from.map(|from| (from, moved)), by)
        });
        (self.set_balance_interval(&env, end, active), goes_on)
    }

    /// A pull of which the recording says what was moved: the decider gets the task that the rules would take, and the recorded outcome
    /// decides when and how the domain is balanced next. None if affinity binds all tasks that wait there, so that the search goes on.
    fn recorded_pull(&mut self, env: &mut Env, found: Option<CpuId>, active: &mut bool) -> Option<End> {
        let mut ours = None;
        if let Some(busiest) = found {
            env.src = busiest;
            let running = self.rqs[busiest.index()].nr_running;
            env.looked_max = self.rules.tunables.nr_migrate.min(running);
            env.all_pinned = running > 1 || self.rules.pinned_until_shown;
            if running > 1 {
                ours = self.next_to_take(env).map(|task| (task, busiest));
                self.note_pinned(env);
                if env.all_pinned && self.looks_on(env) {
                    return None;
                }
            }
        }
        let others = env.shape.span.iter().filter(|cpu| *cpu != env.cpu.index());
        let waits = others.map(|cpu| CpuId(cpu as u32)).any(|cpu| self.nr_awake(cpu) > 1);
        let shape = std::sync::Arc::clone(&env.shape);
        let within = |cpu: CpuId| shape.span.contains(cpu.index());
        let taken = self.decider.pull(Pull { cpu: env.cpu, idle: env.idle, waits, ours }, within);
        if taken.is_some() {
            self.domain(env.cpu, env.level).nr_balance_failed = 0;
            return Some(End::Moved(1));
        }
        let Some(busiest) = found else { return Some(End::Balanced) };
        if env.all_pinned && ours.is_none() && self.rqs[busiest.index()].nr_running > 1 {
            return Some(End::AllPinned);
        }
        Some(self.end_in_vain(env, active))
    }

    /// Affinity kept a balancer from its work: one level up others are to know.
    fn note_pinned(&mut self, env: &Env) {
        if let Some(parent) = self.balance.domains.cpus[env.cpu.index()].levels.get(env.level + 1)
            && env.some_pinned
            && env.imbalance > 0
            && let Some(group) = parent.groups().next()
        {
            self.balance.domains.groups[group].imbalance = true;
        }
    }

    /// All who wait on the busiest queue are bound: whether there are other CPUs to take from.
    fn looks_on(&self, env: &mut Env) -> bool {
        env.cpus.remove(env.src.index());
        let others = !env.cpus.is_subset(&env.dst_group);
        if others {
            (env.looked, env.looked_break) = (0, NR_MIGRATE_BREAK);
        }
        others
    }

    /// No task was moved in spite of an imbalance: after some attempts the busy CPU pushes its current task.
    fn end_in_vain(&mut self, env: &mut Env, active: &mut bool) -> End {
        let (cpu, busiest) = (env.cpu, env.src);
        if env.idle != Idle::NewlyIdle {
            self.domain(cpu, env.level).nr_balance_failed += 1;
        }
        if self.need_active_balance(env) {
            let curr = self.rqs[busiest.index()].curr;
            if curr == TaskId::IDLE || !self.tasks[curr.index()].may_run_on(cpu) {
                return End::OnePinned;
            }
            env.all_pinned = false;
            let queued = self.entity(curr).on_rq || !self.rules.active_balance_of_queued;
            if self.rqs[busiest.index()].balance.push_cpu.is_none() && queued {
                self.rqs[busiest.index()].balance.push_cpu = Some(cpu);
                *active = true;
                if !self.rules.active_balance_keeps_failures {
                    let tries = env.shape.cache_nice_tries;
                    self.domain(cpu, env.level).nr_balance_failed = tries + 1;
                }
            }
        }
        End::Moved(0)
    }

    /// The end of `sched_balance_rq`: when to look again. How many were moved.
    fn set_balance_interval(&mut self, env: &Env, end: End, active: bool) -> u32 {
        if let End::Moved(moved) = end {
            if self.rules.imbalance_resets_interval || !active || self.need_active_balance(env) {
                self.domain(env.cpu, env.level).balance_interval = env.shape.min_interval;
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
        if env.idle != Idle::NewlyIdle {
            domain.look_later(env.all_pinned);
        }
        0
    }

    fn domain(&mut self, cpu: CpuId, level: usize) -> &mut Domain {
        &mut self.balance.domains.cpus[cpu.index()].levels[level]
    }

    /// `more_balance`: takes tasks from the busiest queue, for the CPU itself or, where affinity forbids, for others of its group.
    fn move_tasks(&mut self, env: &mut Env) -> u32 {
        let mut moved = 0;
        env.looked_max = self.rules.tunables.nr_migrate.min(self.rqs[env.src.index()].nr_running);
        loop {
            self.update_rq_clock(env.src);
            let detached = self.detach_tasks(env);
            moved += detached.len() as u32;
            self.attach_tasks(env, detached);
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
            return !self.rules.newidle_ends_for_new_tasks || self.rqs[env.dst.index()].nr_running == 0;
        }
        if env.dst_group.is_only(env.dst.index()) {
            return true;
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
            if self.rules.idle_core_balances_first && !smt && !self.is_core_idle(cpu) {
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
        let by_task = !self.rules.active_balance_by_type || env.migration_type == MigrationType::Task;
        if by_task && domain.nr_balance_failed > env.shape.cache_nice_tries + 2 {
            return true;
        }
        let capacity = |cpu: CpuId| self.rqs[cpu.index()].balance.capacity;
        env.idle != Idle::Busy
            && self.h_nr_running(env.src) == 1
            && self.check_cpu_capacity(env.src, env.shape.imbalance_pct)
            && capacity(env.src) * env.shape.imbalance_pct < capacity(env.dst) * 100
    }
}
