//! `sched_balance_domains` (`rebalance_domains` before 6.10) and its idle stand-in, `nohz_idle_balance` (`kernel/sched/fair.c`): balancing on ticks.

use schedlab_model::{CpuId, TaskId};

use crate::balance::domains::Domain;
use crate::balance::env::Idle;
use crate::balance::state::Balance;
use crate::decider::Decider;
use crate::machine::Sched;
use crate::rules::Rules;

/// `LOAD_AVG_PERIOD` in milliseconds: how often the load of idle CPUs is brought up to date.
const LOAD_AVG_PERIOD: u64 = 32;

/// `NOHZ_*_KICK`: what an idle CPU is woken for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kick {
    stats: bool,
    balance: bool,
    next: bool,
}

impl Balance {
    /// [`Sched::get_sd_balance_interval`].
    #[inline(always)]
    pub(crate) fn sd_interval(&self, rules: &Rules, domain: &Domain, busy: bool) -> u64 {
        let milliseconds = domain.balance_interval * if busy { domain.shape.busy_factor } else { 1 };
        // Not in step with smaller domains.
        let interval = rules.jiffies_of(milliseconds) - u64::from(busy);
        // Not `clamp`, which would ask whether the bounds are in order.
        interval.max(1).min(self.max_interval)
    }
}

impl<D: Decider> Sched<D> {
    /// `sched_balance_trigger` (`trigger_load_balance` before 6.10) at the end of a tick, with the interrupt that follows it: the CPU balances its own
    /// domains if it is time, and wakes an idle one to balance for all that idle.
    #[doc(alias = "trigger_load_balance")]
    pub(crate) fn sched_balance_trigger(&mut self, cpu: CpuId) {
        if !self.balance.on() || !self.is_online(cpu) || self.balance.recorded {
            return;
        }
        let kick = self.nohz_balancer_kick(cpu);
        if self.jiffies(cpu) >= self.rqs[cpu.index()].balance.next_balance {
            self.balance_domains(cpu);
        }
        if let Some(kick) = kick {
            self.kick_ilb_at_its_cost(cpu, kick);
        }
    }

    /// `run_rebalance_domains` where it is time to.
    #[inline(never)]
    pub(crate) fn balance_domains(&mut self, cpu: CpuId) {
        self.sched_balance_update_blocked_averages(cpu);
        let idle = if self.rqs[cpu.index()].curr == TaskId::IDLE { Idle::Idle } else { Idle::Busy };
        self.sched_balance_domains(cpu, idle);
    }

    /// `kick_ilb`: the other CPU pays.
    #[inline(never)]
    pub(crate) fn kick_ilb_at_its_cost(&mut self, cpu: CpuId, kick: Kick) {
        let looked_at = self.balance.looked_at;
        self.kick_ilb(cpu, kick);
        self.balance.looked_at = looked_at;
    }

    /// `get_sd_balance_interval`, in ticks.
    #[inline]
    pub(crate) fn get_sd_balance_interval(&self, domain: &Domain, busy: bool) -> u64 {
        self.balance.sd_interval(&self.rules, domain, busy)
    }

    /// `sched_balance_domains` (`rebalance_domains` before 6.10): every domain whose interval is over.
    #[doc(alias = "rebalance_domains")]
    pub(crate) fn sched_balance_domains(&mut self, cpu: CpuId, idle: Idle) {
        let now = self.jiffies(cpu);
        let mut idle = idle;
        let mut busy = idle != Idle::Idle && !self.sched_idle_cpu(cpu);
        let mut next_balance = now + 60 * self.balance.second;
        let (mut goes_on, mut decays, mut updates, mut max_cost) = (true, false, false, 0);
        for level in 0..self.balance.domains.cpus[cpu.index()].levels.len() {
            decays = self.update_newidle_cost(cpu, level, 0, 0);
            let domain = &self.balance.domains.cpus[cpu.index()].levels[level];
            max_cost += domain.max_newidle_lb_cost;
            if !goes_on {
                if decays {
                    continue;
                }
                break;
            }
            let mut interval = self.get_sd_balance_interval(domain, busy);
            if now >= domain.last_balance + interval {
                let (moved, on) = self.sched_balance_rq(cpu, level, idle, false);
                goes_on = on;
                if moved > 0 {
                    // Where that is recorded it comes a moment later.
                    let idles = self.idle_cpu(cpu) && !self.balance.recorded;
                    idle = if idles { Idle::Idle } else { Idle::Busy };
                    busy = idle != Idle::Idle && !self.sched_idle_cpu(cpu);
                }
                self.balance.domains.cpus[cpu.index()].levels[level].last_balance = now;
                let domain = &self.balance.domains.cpus[cpu.index()].levels[level];
                interval = self.get_sd_balance_interval(domain, busy);
            }
            let last = self.balance.domains.cpus[cpu.index()].levels[level].last_balance;
            if next_balance > last + interval {
                next_balance = last + interval;
                updates = true;
            }
        }
        let least = self.rules.tunables.migration_cost.as_nanos();
        let state = &mut self.rqs[cpu.index()].balance;
        if decays {
            state.max_idle_balance_cost = least.max(max_cost);
        }
        if updates {
            state.next_balance = next_balance;
        }
        self.note_newidle(cpu);
    }

    /// `nohz_balancer_kick`: whether this busy CPU has reason to have an idle one balance.
    #[inline]
    pub(crate) fn nohz_balancer_kick(&mut self, cpu: CpuId) -> Option<Kick> {
        if self.rqs[cpu.index()].curr == TaskId::IDLE {
            return None;
        }
        self.nohz_balance_exit_idle(cpu);
        let (now, nohz) = (self.jiffies(cpu), &self.balance.nohz);
        nohz.idle_cpus.first()?;
        let mut kick = Kick { stats: nohz.has_blocked && now > nohz.next_blocked, ..Kick::default() };
        if now >= nohz.next_balance && self.has_work_for_others(cpu) {
            (kick.stats, kick.balance) = (true, true);
        }
        // From 5.15 on.
        kick.next = nohz.needs_update && self.rules.nohz_updates_next_balance;
        (kick.stats || kick.balance || kick.next).then_some(kick)
    }

    /// A task waits, other classes take a good part of the CPU, or others of its cache are busy too.
    fn has_work_for_others(&self, cpu: CpuId) -> bool {
        if self.rqs[cpu.index()].nr_running >= 2 {
            return true;
        }
        let place = &self.balance.domains.cpus[cpu.index()];
        let reduced = place.levels.first().is_some_and(|lowest| {
            self.h_nr_running(cpu) >= 1 && self.check_cpu_capacity(cpu, lowest.shape.imbalance_pct)
        });
        reduced || place.shared.is_some_and(|shared| self.balance.domains.shared[shared as usize].nr_busy_cpus > 1)
    }

    /// `find_new_ilb`: which idle CPU balances for the others. Since 7.3 one whose whole core idles comes before all others.
    fn find_new_ilb(&self, cpu: CpuId) -> Option<CpuId> {
        let idle = || {
            let others = self.balance.nohz.idle_cpus.iter().map(|ilb| CpuId(ilb as u32)).filter(|ilb| *ilb != cpu);
            others.filter(|ilb| self.idle_cpu(*ilb))
        };
        let prefers_core = self.rules.idle_core_balances_for_others && self.balance.domains.smt_active();
        let whole = if prefers_core { idle().find(|ilb| self.is_core_idle(*ilb)) } else { None };
        whole.or_else(|| idle().next())
    }

    /// `kick_ilb`, `nohz_csd_func` and `nohz_idle_balance`: one CPU that idles balances, at once.
    fn kick_ilb(&mut self, cpu: CpuId, kick: Kick) {
        let now = self.jiffies(cpu);
        if kick.balance {
            self.balance.nohz.next_balance = now + 1;
        }
        if let Some(ilb) = self.find_new_ilb(cpu) {
            self.nohz_idle_balance(ilb, kick);
        }
    }

    /// `_nohz_idle_balance`.
    fn nohz_idle_balance(&mut self, this: CpuId, kick: Kick) {
        let now = self.jiffies(this);
        let nohz = &mut self.balance.nohz;
        nohz.has_blocked &= !kick.stats;
        nohz.needs_update &= !kick.next;
        let mut next_balance = now + 60 * self.balance.second;
        let (mut updates, mut has_blocked, mut gives_up) = (false, false, false);
        let mut idle_cpus = std::mem::take(&mut self.balance.scanned);
        idle_cpus.copy_from(&self.balance.nohz.idle_cpus);
        for cpu in idle_cpus.iter_wrap(this.index() + 1).map(|cpu| CpuId(cpu as u32)) {
            if !self.idle_for_nohz(this, cpu) {
                continue;
            }
            if !self.idle_for_nohz(this, this) && self.rqs[this.index()].need_resched {
                // It has work of its own.
                has_blocked |= kick.stats;
                self.balance.nohz.needs_update |= kick.next;
                gives_up = true;
                break;
            }
            if kick.stats {
                has_blocked |= self.update_nohz_stats(cpu);
            }
            if now >= self.rqs[cpu.index()].balance.next_balance {
                self.update_rq_clock(cpu);
                if kick.balance {
                    self.sched_balance_domains(cpu, Idle::Idle);
                }
            }
            let next = self.rqs[cpu.index()].balance.next_balance;
            if next_balance > next {
                (next_balance, updates) = (next, true);
            }
        }
        self.balance.scanned = idle_cpus;
        let period = self.rules.jiffies_of(LOAD_AVG_PERIOD);
        let nohz = &mut self.balance.nohz;
        if !gives_up {
            if updates {
                nohz.next_balance = next_balance;
            }
            if kick.stats {
                nohz.next_blocked = now + period;
            }
        }
        nohz.has_blocked |= has_blocked;
    }

    /// Whether `cpu` idles (`idle_cpu`) as `this` CPU does `_nohz_idle_balance`. Since c6f886546cb8 (5.13) only idle tasks do: where the CPU is about
    /// to idle its idle task runs already ([`RuleSet::nohz_run_idle_balance`](schedlab_model::RuleSet)).
    fn idle_for_nohz(&self, this: CpuId, cpu: CpuId) -> bool {
        let runs_idle_task = cpu == this && self.rules.nohz_run_idle_balance;
        if runs_idle_task { self.rqs[cpu.index()].nr_running == 0 } else { self.idle_cpu(cpu) }
    }

    /// `update_nohz_stats`: the load of an idle CPU decays. Whether there is any left.
    fn update_nohz_stats(&mut self, cpu: CpuId) -> bool {
        let state = &self.rqs[cpu.index()].balance;
        if !state.has_blocked_load || !self.balance.nohz.idle_cpus.contains(cpu.index()) {
            return false;
        }
        if self.jiffies(cpu) <= state.last_blocked_update {
            return true;
        }
        self.update_rq_clock(cpu);
        self.sched_balance_update_blocked_averages(cpu);
        self.rqs[cpu.index()].balance.has_blocked_load
    }

    /// `nohz_balance_enter_idle`: the CPU idles, and its tick stops at once.
    pub(crate) fn nohz_balance_enter_idle(&mut self, cpu: CpuId) {
        if !self.balance.on() || !self.is_online(cpu) {
            return;
        }
        let state = &mut self.rqs[cpu.index()].balance;
        state.has_blocked_load = true;
        self.balance.nohz.has_blocked = true;
        if std::mem::replace(&mut state.tick_stopped, true) {
            return;
        }
        self.balance.nohz.idle_cpus.insert(cpu.index());
        self.balance.nohz.needs_update = true;
        let domains = &mut self.balance.domains;
        if let Some(shared) = domains.cpus[cpu.index()].shared {
            domains.shared[shared as usize].nr_busy_cpus -= 1;
        }
    }

    /// `nohz_balance_exit_idle`, at the first tick after it idled.
    fn nohz_balance_exit_idle(&mut self, cpu: CpuId) {
        if !std::mem::take(&mut self.rqs[cpu.index()].balance.tick_stopped) {
            return;
        }
        self.balance.nohz.idle_cpus.remove(cpu.index());
        let domains = &mut self.balance.domains;
        if let Some(shared) = domains.cpus[cpu.index()].shared {
            domains.shared[shared as usize].nr_busy_cpus += 1;
        }
    }

    /// `nohz_newidle_balance` and `nohz_run_idle_balance`: a CPU that will idle for a while brings idle CPUs' loads up to date.
    #[inline]
    pub(crate) fn nohz_newidle_balance(&mut self, cpu: CpuId) {
        let avg_idle = self.rqs[cpu.index()].balance.avg_idle;
        if self.balance.is_update_due(&self.rules, avg_idle, self.jiffies(cpu)) {
            self.update_blocked_of_idle(cpu);
        }
    }

    /// The same where it is due.
    #[inline(never)]
    pub(crate) fn update_blocked_of_idle(&mut self, cpu: CpuId) {
        self.nohz_idle_balance(cpu, Kick { stats: true, ..Kick::default() });
    }
}

#[cfg(test)]
mod tests {
    use schedlab_model::{Attributes, Scheduler, TaskState, Time};

    use super::*;
    use crate::decider::Ours;
    use crate::runqueue::Clocks;

    const CPU0: CpuId = CpuId(0);
    const CPU1: CpuId = CpuId(1);

    /// Two CPUs with a task each that woke at 1 s. CPU 1's sleeps after 20 ms, CPU 0's goes on.
    fn machine(release: &str) -> Sched<Ours> {
        let rules = Rules::new(&Scheduler::new(release.parse().unwrap()), 2).unwrap();
        let mut sched = Sched::new(rules, 2, Ours::default());
        sched.set_topology(&"smt=1".parse().unwrap(), 0, 1);
        at(&mut sched, 1_000);
        for cpu in [CPU0, CPU1] {
            let task = sched.new_task(&Attributes::default());
            sched.wake_up_new_task(task, cpu);
            assert_eq!(sched.schedule(cpu, TaskState::Running).next, task);
        }
        at(&mut sched, 1_020);
        assert_eq!(sched.schedule(CPU1, TaskState::Interruptible).next, TaskId::IDLE);
        sched
    }

    fn at(sched: &mut Sched<Ours>, milliseconds: u64) {
        let now = Time::from_millis(milliseconds);
        sched.set_machine_clock(now);
        [CPU0, CPU1].into_iter().for_each(|cpu| sched.set_clocks(cpu, Clocks::all(now)));
    }

    /// CPU 0's only task is marked for rescheduling and goes to sleep 80 ms later, which is more than `LOAD_AVG_PERIOD`, so that the load CPU 1
    /// is left with is to fade. `_nohz_idle_balance` gives up where the current task is marked. Since c6f886546cb8 (5.13, 5.10.231) that is the
    /// idle task, which is not; before, it is the task that leaves.
    #[test]
    fn the_mark_of_the_task_that_leaves_stops_no_idle_task() {
        for (release, updates) in
            [("5.10.230", false), ("5.10.231", true), ("6.1", true), ("6.18", true), ("7.2", true)]
        {
            let mut sched = machine(release);
            at(&mut sched, 1_100);
            sched.resched_curr(CPU0);
            assert_eq!(sched.schedule(CPU0, TaskState::Interruptible).next, TaskId::IDLE, "{release}");
            let (now, state) = (sched.jiffies(CPU1), &sched.rqs[CPU1.index()].balance);
            assert_eq!(state.last_blocked_update == now, updates, "{release}: {state:?}");
            assert_eq!(sched.balance.nohz.next_blocked > now, updates, "{release}");
        }
    }

    /// CPU 0's task woke and sleeps between two ticks, so that the CPU is among those whose tick is stopped (`idle_cpus_mask`). Its idle task takes
    /// the earliest `next_balance` of them, its own included; before c6f886546cb8 the CPU did not idle yet, and left itself out.
    #[test]
    fn a_cpu_that_goes_idle_is_one_of_the_idle_ones() {
        for (release, counts) in [("5.10.230", false), ("5.10.231", true), ("6.1", true), ("7.2", true)] {
            let mut sched = machine(release);
            let task = sched.curr(CPU0);
            assert_eq!(sched.schedule(CPU0, TaskState::Interruptible).next, TaskId::IDLE, "{release}");
            at(&mut sched, 1_100);
            assert!(sched.try_to_wake_up(task, CPU0));
            assert_eq!(sched.schedule(CPU0, TaskState::Running).next, task, "{release}");
            let now = sched.jiffies(CPU0);
            // Not longer than 60 s away, from which on next_balance would count as unknown.
            let later = now + 1_000;
            sched.rqs[CPU1.index()].balance.next_balance = later;
            (sched.balance.nohz.has_blocked, sched.balance.nohz.next_blocked) = (true, now);
            assert_eq!(sched.schedule(CPU0, TaskState::Interruptible).next, TaskId::IDLE, "{release}");
            let own = sched.rqs[CPU0.index()].balance.next_balance;
            assert!(own < later, "{release}: a domain is due within a second");
            assert_eq!(sched.balance.nohz.next_balance, if counts { own } else { later }, "{release}");
        }
    }

    /// `max_load_balance_interval` at 250 Hz: 25 ticks for each CPU that is on line as one starts. Two: the second finds one, 25; four: the last finds
    /// three, 75. One goes: three are left, 75; it comes back to these, 75; after two have gone and one came back, two were there: 50. Of 6.12.117 on two
    /// CPUs: one that was busy, whose interval had come to 512 ms (128 ticks), balanced on ticks 4294899231, 4294899256 and 4294899281.
    #[test]
    fn the_longest_interval_counts_the_cpus_there_as_one_starts() {
        let machine = |cpus: u32| {
            let rules = Rules::new(&Scheduler::new("6.12".parse().unwrap()), cpus).unwrap();
            let mut sched = Sched::new(rules, cpus, Ours::default());
            sched.set_topology(&"smt=1".parse().unwrap(), 0, 1);
            sched
        };
        assert_eq!(machine(2).balance.max_interval, 25);
        let mut sched = machine(4);
        assert_eq!(sched.balance.max_interval, 75);
        let went = |sched: &mut Sched<Ours>, cpu| {
            sched.sched_cpu_deactivate(CpuId(cpu));
            sched.balance.max_interval
        };
        let came = |sched: &mut Sched<Ours>, cpu| {
            sched.sched_cpu_activate(CpuId(cpu));
            sched.balance.max_interval
        };
        assert_eq!([went(&mut sched, 3), came(&mut sched, 3)], [75, 75]);
        assert_eq!([went(&mut sched, 3), went(&mut sched, 2), came(&mut sched, 2)], [75, 50, 50]);
    }
}
