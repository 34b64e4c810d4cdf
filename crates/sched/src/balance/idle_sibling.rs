//! `select_idle_sibling` (`kernel/sched/fair.c`): an idle CPU among those that share a cache with the one that was chosen.

use schedlab_model::{CpuId, SelectRule, TaskId};

use crate::balance::state::update_avg;
use crate::bitmap::Bitmap;
use crate::decider::Decider;
use crate::machine::Sched;

/// The CPU that was found by a rule, or why none was.
type Found = Result<(CpuId, SelectRule), SelectRule>;

impl<D: Decider> Sched<D> {
    /// `select_idle_sibling` (`kernel/sched/fair.c`), with the rule that decided; `this` is where the waker runs. In this order: the target
    /// if it is idle, the previous CPU, the recently used one, then an idle core, an idle CPU or an idle sibling of the target's cache. The search is one scan since 9fe1f127b913 (5.12).
    pub(crate) fn select_idle_sibling(
        &mut self,
        task: TaskId,
        previous: CpuId,
        target: CpuId,
        this: CpuId,
    ) -> (CpuId, SelectRule) {
        if self.choose_idle_cpu(target, task) {
            return (target, SelectRule::TargetIdle);
        }
        let near = self.balance.domains.share_cache(previous, target);
        if previous != target && near && self.choose_idle_cpu(previous, task) {
            return (previous, SelectRule::PreviousIdle);
        }
        let state = &mut self.tasks[task.index()].balance;
        let recent = state.recent_used_cpu;
        // 5.10 sets it for the waker, and here only where it is used.
        let forgets = self.rules.recent_cpu_is_previous;
        if forgets {
            state.recent_used_cpu = previous;
        }
        if recent != previous
            && recent != target
            && self.balance.domains.share_cache(recent, target)
            && self.choose_idle_cpu(recent, task)
            && self.tasks[task.index()].may_run_on(recent)
        {
            self.tasks[task.index()].balance.recent_used_cpu = previous;
            return (recent, SelectRule::RecentIdle);
        }
        let Some(llc) = self.balance.domains.cpus[target.index()].llc else {
            return (target, SelectRule::NoSharedCache);
        };
        let found = if !self.rules.scans_idle_cpus_once {
            self.search_in_turn(task, llc, target, this)
        } else {
            self.search(task, llc, previous, target, this)
        };
        found.unwrap_or_else(|why| (target, why))
    }

    /// The CPUs of the target's cache on which the task may run.
    fn candidates(&self, task: TaskId, llc: usize, target: CpuId) -> Bitmap {
        let mut cpus = (*self.balance.domains.cpus[target.index()].levels[llc].shape.span).clone();
        if let Some(allowed) = &self.tasks[task.index()].affinity {
            cpus.retain(allowed);
        }
        cpus
    }

    /// 5.10: `select_idle_core`, then `select_idle_cpu`, then `select_idle_smt`.
    fn search_in_turn(&mut self, task: TaskId, llc: usize, target: CpuId, this: CpuId) -> Found {
        if self.test_idle_cores(target) {
            let mut cpus = self.candidates(task, llc, target);
            let mut from = target.index();
            loop {
                let next = cpus.iter_wrap(from).next();
                let Some(core) = next else { break };
                self.balance.looked_at += 1;
                let siblings = &self.balance.domains.smt[core];
                if siblings.is_subset(&self.idle_cpus) {
                    return Ok((CpuId(core as u32), SelectRule::IdleCore));
                }
                cpus.subtract(siblings);
                from = core + 1;
            }
            self.set_idle_cores(target, false);
        }
        let limit = self.scan_limit_by_cost(llc, target, this, self.rqs[this.index()].balance.avg_idle / 512);
        let found = match limit {
            Some(limit) => {
                let (found, looked) = self.scan(task, llc, target, target.index(), limit);
                if !matches!(found, Err(SelectRule::ScanLimit(_))) {
                    self.account_scan(this, looked);
                }
                found
            }
            None => Err(SelectRule::NotScanned),
        };
        found.or_else(|why| self.select_idle_smt(task, llc, target, target).ok_or(why))
    }

    /// From 5.12 on: one search for an idle core, or, if there is none, for an idle sibling or CPU.
    fn search(&mut self, task: TaskId, llc: usize, previous: CpuId, target: CpuId, this: CpuId) -> Found {
        let mut has_idle_core = false;
        if self.balance.domains.smt_active() {
            has_idle_core = self.test_idle_cores(target);
            if !has_idle_core
                && self.balance.domains.share_cache(previous, target)
                && let Some(found) = self.select_idle_smt(task, llc, previous, target)
            {
                return Ok(found);
            }
        }
        self.select_idle_cpu(task, llc, has_idle_core, target, this)
    }

    /// `select_idle_cpu`.
    fn select_idle_cpu(&mut self, task: TaskId, llc: usize, has_idle_core: bool, target: CpuId, this: CpuId) -> Found {
        let features = self.rules.tunables.features;
        let by_cost = features.sis_prop && !has_idle_core;
        let mut limit = u64::MAX;
        if by_cost {
            self.age_idle_time(this);
            let avg_idle = self.rqs[this.index()].balance.wake_avg_idle;
            limit = self.scan_limit_by_cost(llc, target, this, avg_idle).ok_or(SelectRule::NotScanned)?;
        }
        if features.sis_util
            && let Some(shared) = self.balance.domains.cpus[target.index()].shared
        {
            limit = u64::from(self.balance.domains.shared[shared as usize].nr_idle_scan) + 1;
            if limit == 1 {
                return Err(SelectRule::NotScanned);
            }
        }
        if has_idle_core {
            let cpus = self.candidates(task, llc, target);
            let looked_before = self.balance.looked_at;
            return match self.select_idle_core(task, cpus, target) {
                Ok(core) => Ok((core, SelectRule::IdleCore)),
                Err(found) => {
                    self.set_idle_cores(target, false);
                    let looked = (self.balance.looked_at - looked_before) as u32;
                    found.map(|cpu| (cpu, SelectRule::IdleCpu(looked))).ok_or(SelectRule::NoIdleCpu(looked))
                }
            };
        }
        let (found, looked) = self.scan(task, llc, target, target.index() + 1, limit);
        if by_cost && !matches!(found, Err(SelectRule::ScanLimit(_))) {
            let time = looked * self.balance.search_cost;
            let state = &mut self.rqs[this.index()].balance;
            state.wake_avg_idle -= state.wake_avg_idle.min(time);
            self.account_scan(this, looked);
        }
        found
    }

    /// The loop over the CPUs of the target's cache on which the task may run: the first idle one; gives up when `limit` is reached. Also
    /// how many were looked at.
    fn scan(&mut self, task: TaskId, llc: usize, target: CpuId, start: usize, limit: u64) -> (Found, u64) {
        let span = &self.balance.domains.cpus[target.index()].levels[llc].shape.span;
        let record = &self.tasks[task.index()];
        let (mut looked, mut found) = (0, None);
        for cpu in span.iter_wrap(start).map(|cpu| CpuId(cpu as u32)) {
            if !record.may_run_on(cpu) {
                continue;
            }
            looked += 1;
            if looked >= limit {
                self.balance.looked_at += looked;
                return (Err(SelectRule::ScanLimit(looked as u32)), looked);
            }
            if self.choose_idle_cpu(cpu, task) {
                found = Some(cpu);
                break;
            }
        }
        self.balance.looked_at += looked;
        let count = looked as u32;
        let found = found.map(|cpu| (cpu, SelectRule::IdleCpu(count))).ok_or(SelectRule::NoIdleCpu(count));
        (found, looked)
    }

    /// `select_idle_core` over all of `cpus`: a CPU of an idle core, or else the first that would do.
    fn select_idle_core(&mut self, task: TaskId, mut cpus: Bitmap, target: CpuId) -> Result<CpuId, Option<CpuId>> {
        let mut idle_cpu = None;
        let (mut from, mut wrapped) = (target.index() + 1, false);
        loop {
            // for_each_cpu_wrap over a mask that loses cores on the way.
            let next = cpus.next(from).filter(|cpu| !wrapped || *cpu <= target.index());
            let Some(core) = next else {
                if wrapped {
                    return Err(idle_cpu);
                }
                (from, wrapped) = (0, true);
                continue;
            };
            self.balance.looked_at += 1;
            let siblings = &self.balance.domains.smt[core];
            let mut idle = true;
            for sibling in siblings.iter().map(|sibling| CpuId(sibling as u32)) {
                let allowed = cpus.contains(sibling.index());
                if !self.available_idle_cpu(sibling) {
                    idle = false;
                    if idle_cpu.is_some() {
                        break;
                    }
                    if allowed && self.choose_idle_cpu(sibling, task) {
                        idle_cpu = Some(sibling);
                        break;
                    }
                } else if idle_cpu.is_none() && allowed {
                    idle_cpu = Some(sibling);
                }
            }
            if idle {
                return Ok(CpuId(core as u32));
            }
            cpus.subtract(siblings);
            from = core + 1;
        }
    }

    /// `select_idle_smt`: an idle sibling of `of`, within the target's cache.
    fn select_idle_smt(&self, task: TaskId, llc: usize, of: CpuId, target: CpuId) -> Option<(CpuId, SelectRule)> {
        let siblings = self.balance.domains.smt.get(of.index())?;
        let span = &self.balance.domains.cpus[target.index()].levels[llc].shape.span;
        // From 5.12 on the CPU itself is known to be busy.
        let itself = !self.rules.select_idle_smt_skips_target;
        let found = siblings.iter().map(|cpu| CpuId(cpu as u32)).find(|cpu| {
            (itself || *cpu != of)
                && span.contains(cpu.index())
                && self.tasks[task.index()].may_run_on(*cpu)
                && self.choose_idle_cpu(*cpu, task)
        });
        found.map(|cpu| (cpu, SelectRule::IdleSibling))
    }

    /// SIS_PROP: as many CPUs as the time for which this one idles pays for; none where it shares no cache.
    fn scan_limit_by_cost(&self, llc: usize, target: CpuId, this: CpuId, avg_idle: u64) -> Option<u64> {
        let domains = &self.balance.domains;
        let own = domains.cpus[this.index()].llc?;
        if !self.rules.tunables.features.sis_prop {
            return Some(u64::MAX);
        }
        let avg_cost = domains.cpus[this.index()].levels[own].avg_scan_cost + 1;
        let span_avg = u64::from(domains.cpus[target.index()].levels[llc].shape.weight) * avg_idle;
        Some(if span_avg > 4 * avg_cost { span_avg / avg_cost } else { 4 })
    }

    /// What a search cost, to the average of the waker's cache domain.
    fn account_scan(&mut self, this: CpuId, looked: u64) {
        let time = looked * self.balance.search_cost;
        let place = &mut self.balance.domains.cpus[this.index()];
        if let Some(llc) = place.llc {
            update_avg(&mut place.levels[llc].avg_scan_cost, time);
        }
    }

    /// A busy CPU's last idle time says ever less of the next one: halved each tick.
    fn age_idle_time(&mut self, cpu: CpuId) {
        let now = self.jiffies(cpu);
        let state = &mut self.rqs[cpu.index()].balance;
        while state.wake_stamp < now && state.wake_avg_idle > 0 {
            state.wake_stamp += 1;
            state.wake_avg_idle >>= 1;
        }
    }

    /// `test_idle_cores`.
    fn test_idle_cores(&self, cpu: CpuId) -> bool {
        let domains = &self.balance.domains;
        domains.smt_active()
            && domains.cpus[cpu.index()].shared.is_some_and(|shared| domains.shared[shared as usize].has_idle_cores)
    }

    /// `set_idle_cores`.
    fn set_idle_cores(&mut self, cpu: CpuId, some: bool) {
        let domains = &mut self.balance.domains;
        if let Some(shared) = domains.cpus[cpu.index()].shared {
            domains.shared[shared as usize].has_idle_cores = some;
        }
    }

    /// `__update_idle_core`: a CPU goes idle; if its siblings idle too, there is an idle core.
    pub(crate) fn update_idle_core(&mut self, cpu: CpuId) {
        if !self.balance.domains.smt_active() || self.test_idle_cores(cpu) {
            return;
        }
        let siblings = &self.balance.domains.smt[cpu.index()];
        if siblings.iter().all(|sibling| sibling == cpu.index() || self.idle_cpus.contains(sibling)) {
            self.set_idle_cores(cpu, true);
        }
    }

    /// `is_core_idle`: whether the CPU's siblings idle.
    pub(super) fn is_core_idle(&self, cpu: CpuId) -> bool {
        let idle = |sibling: usize| sibling == cpu.index() || self.idle_cpu(CpuId(sibling as u32));
        self.balance.domains.smt.get(cpu.index()).is_none_or(|siblings| siblings.iter().all(idle))
    }
}
