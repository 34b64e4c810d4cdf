//! `sched_balance_newidle` (`newidle_balance` before 6.10, `kernel/sched/fair.c`): a CPU that is about to idle looks for work.

use schedlab_model::{CpuId, NewidleRule, Reason, TaskId, Time};

use crate::balance::domains::{Domain, DomainFlags};
use crate::balance::env::Idle;
use crate::balance::state::{Balance, CpuState, Newidle, update_avg};
use crate::decider::Decider;
use crate::machine::Sched;
use crate::rules::Rules;

impl<D: Decider> Sched<D> {
    /// `sched_balance_newidle` (`kernel/sched/fair.c`; `newidle_balance` before 6.10): pulls tasks for a CPU that would idle, the nearest
    /// domain first; whether the CPU has something to run afterwards. Larger domains are looked at only while what that cost so far, and cost at
    /// most before, is less than the CPU is expected to idle.
    #[doc(alias = "newidle_balance")]
    pub(crate) fn sched_balance_newidle(&mut self, cpu: CpuId) -> bool {
        let now = self.jiffies(cpu);
        let was_idle = self.rqs[cpu.index()].curr == TaskId::IDLE;
        let clock = self.rqs[cpu.index()].clock;
        if self.balance.recorded {
            // The search may have begun before.
            self.rqs[cpu.index()].balance.idle_stamp.get_or_insert(clock);
            let mut next = (now + self.balance.second).min(self.rqs[cpu.index()].balance.next_balance);
            if !self.balance.domains.cpus[cpu.index()].levels.is_empty() {
                self.update_next_balance(cpu, 0, &mut next);
            }
            self.rqs[cpu.index()].balance.next_balance = next;
            return false;
        }
        self.rqs[cpu.index()].balance.idle_stamp = Some(clock);
        if !self.is_online(cpu) {
            self.explain(cpu, move |_| Reason::Newidle { runs: false, by: NewidleRule::NoDomain });
            return false;
        }
        let mut next_balance = now + self.balance.second;
        let levels = self.balance.domains.cpus[cpu.index()].levels.len();
        let avg_idle = self.rqs[cpu.index()].balance.avg_idle;
        let least = self.least_newidle_time(cpu);
        let worth_it = least.is_some_and(|least| self.balance.is_worth_looking(avg_idle, least));
        let (mut pulled, mut cost) = (false, 0);
        if !worth_it {
            if levels > 0 {
                self.update_next_balance(cpu, 0, &mut next_balance);
            }
        } else {
            self.sched_balance_update_blocked_averages(cpu);
            for level in 0..levels {
                self.update_next_balance(cpu, level, &mut next_balance);
                let domain = &self.balance.domains.cpus[cpu.index()].levels[level];
                if avg_idle < cost + domain.max_newidle_lb_cost {
                    break;
                }
                let mut goes_on = true;
                if domain.shape.flags.has(DomainFlags::BALANCE_NEWIDLE) {
                    let Some(weight) = self.newidle_weight(cpu, level) else { continue };
                    let before = self.balance.looked_at;
                    let (moved, on) = self.sched_balance_rq(cpu, level, Idle::NewlyIdle, was_idle);
                    (pulled, goes_on) = (moved > 0, on);
                    let domain_cost = (self.balance.looked_at - before) * self.balance.search_cost;
                    cost += domain_cost;
                    self.update_newidle_cost(cpu, level, domain_cost, weight * u32::from(moved > 0));
                }
                if pulled || !goes_on || self.rqs[cpu.index()].nr_running > 0 {
                    break;
                }
            }
            self.note_newidle(cpu);
        }
        let runs = pulled || self.rqs[cpu.index()].nr_running > 0;
        self.explain(cpu, move |sched| {
            let cost = sched.least_newidle_time(cpu);
            let by = match (runs, cost) {
                (true, _) => NewidleRule::Found,
                (false, None) => NewidleRule::NoDomain,
                (false, Some(_)) if worth_it => NewidleRule::NothingToPull,
                (false, Some(cost)) if avg_idle < cost => NewidleRule::TooShort { avg_idle, cost },
                (false, Some(_)) => NewidleRule::NotOverloaded,
            };
            Reason::Newidle { runs, by }
        });
        let state = &mut self.rqs[cpu.index()].balance;
        state.max_idle_balance_cost = state.max_idle_balance_cost.max(cost);
        state.next_balance = state.next_balance.min(next_balance);
        if runs {
            state.idle_stamp = None;
        } else {
            self.nohz_newidle_balance(cpu);
        }
        runs
    }

    /// What newly idle balancing has cost at most so far in each CPU's lowest domain.
    pub fn set_newidle_cost(&mut self, cost: Time) {
        for cpu in (0..self.balance.domains.cpus.len() as u32).map(CpuId) {
            if let Some(lowest) = self.balance.domains.cpus[cpu.index()].levels.first_mut() {
                lowest.max_newidle_lb_cost = cost.as_nanos();
                self.note_newidle(cpu);
            }
        }
    }

    /// How long the CPU must be expected to idle for newidle balancing to be worth it, in nanoseconds; none where it is in no domain.
    fn least_newidle_time(&self, cpu: CpuId) -> Option<u64> {
        // 5.10 asks for the cost of a migration.
        let lowest = self.balance.domains.cpus[cpu.index()].levels.first()?;
        Some(self.rules.least_idle_time(lowest.max_newidle_lb_cost))
    }

    /// The CPU balanced: keeps what its lowest domain says now as it runs out of work.
    pub(crate) fn note_newidle(&mut self, cpu: CpuId) {
        self.rqs[cpu.index()].balance.newidle = self.balance.newidle(&self.rules, cpu);
    }

    /// NI_RANDOM: balancing a domain is tried as often as it succeeded; none if not this time, else what a success counts.
    pub(crate) fn newidle_weight(&mut self, cpu: CpuId, level: usize) -> Option<u32> {
        if !self.rules.tunables.features.ni_random {
            return Some(1);
        }
        let draw = self.balance.draw();
        let domain = &mut self.balance.domains.cpus[cpu.index()].levels[level];
        domain.tries_newidle(draw).then(|| domain.newidle_weight())
    }

    /// `update_newidle_cost`: keeps the greatest cost, which fades by about 1 % a second. Whether it faded.
    pub(crate) fn update_newidle_cost(&mut self, cpu: CpuId, level: usize, cost: u64, success: u32) -> bool {
        let (now, second) = (self.jiffies(cpu), self.balance.second);
        let counts = self.rules.tunables.features.ni_random;
        let domain = &mut self.balance.domains.cpus[cpu.index()].levels[level];
        // A kernel's clock shows a cost each time.
        if counts && (cost > 0 || success > 0) {
            domain.update_newidle_stats(success);
        }
        domain.update_newidle_cost(cost, now, second)
    }

    /// `update_next_balance`.
    pub(crate) fn update_next_balance(&self, cpu: CpuId, level: usize, next_balance: &mut u64) {
        let domain = &self.balance.domains.cpus[cpu.index()].levels[level];
        *next_balance = (*next_balance).min(domain.last_balance + self.get_sd_balance_interval(domain, false));
    }

    /// The end of an idle time (`ttwu_do_activate`; `update_rq_avg_idle` in 7.2): its length joins the average.
    pub(crate) fn update_avg_idle(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        if self.balance.on() && rq.balance.idle_stamp.is_some() {
            rq.balance.end_idle(rq.clock, rq.clock / self.rules.tick);
        }
    }
}

impl Rules {
    /// How long a CPU must be expected to idle for newidle balancing to be worth it, in nanoseconds; `cost` is what balancing its
    /// lowest domain cost at most.
    #[inline(always)]
    pub(crate) fn least_idle_time(&self, cost: u64) -> u64 {
        if self.newidle_by_balance_cost { cost } else { self.tunables.migration_cost.as_nanos() }
    }
}

impl Balance {
    /// Whether a CPU that idles for `avg_idle` on average looks at others for work, where that takes `least`, in nanoseconds
    /// (`sched_balance_newidle`): somewhere more than one task is runnable.
    #[doc(alias = "sched_balance_newidle")]
    #[doc(alias = "newidle_balance")]
    #[inline(always)]
    pub(crate) const fn is_worth_looking(&self, avg_idle: u64, least: u64) -> bool {
        self.overload && avg_idle >= least
    }

    /// Whether a CPU that is expected to idle for `avg_idle` nanoseconds brings idle CPUs' loads up to date in the tick `now`
    /// (`nohz_newidle_balance`).
    #[doc(alias = "nohz_newidle_balance")]
    #[inline(always)]
    pub(crate) fn is_update_due(&self, rules: &Rules, avg_idle: u64, now: u64) -> bool {
        let long = avg_idle >= rules.tunables.migration_cost.as_nanos();
        long && self.nohz.has_blocked && now >= self.nohz.next_blocked
    }

    /// What a CPU's lowest domain says as the CPU runs out of work.
    pub(crate) fn newidle(&self, rules: &Rules, cpu: CpuId) -> Newidle {
        self.domains.cpus[cpu.index()].levels.first().map_or(Newidle::NEVER, |lowest| Newidle {
            // 5.10 asks for the cost of a migration.
            least: rules.least_idle_time(lowest.max_newidle_lb_cost),
            due: lowest.last_balance + self.sd_interval(rules, lowest, false),
        })
    }
}

impl CpuState {
    /// [`Sched::update_avg_idle`] at this `clock`, in the tick `now`.
    #[inline]
    pub(crate) fn end_idle(&mut self, clock: u64, now: u64) {
        let Some(stamp) = self.idle_stamp.take() else { return };
        update_avg(&mut self.avg_idle, clock - stamp);
        self.avg_idle = self.avg_idle.min(2 * self.max_idle_balance_cost);
        (self.wake_stamp, self.wake_avg_idle) = (now, self.avg_idle / 2);
    }
}

impl Domain {
    /// The first part of [`Sched::newidle_weight`] of this domain: whether it is tried, with what was drawn.
    #[inline]
    pub(crate) fn tries_newidle(&mut self, draw: u32) -> bool {
        let tries = draw % 1024 <= 1 + self.newidle[2];
        if !tries {
            self.update_newidle_stats(0);
        }
        tries
    }

    /// The second part: what a success counts.
    #[inline]
    pub(crate) fn newidle_weight(&self) -> u32 {
        let weight = 1 + self.newidle[2];
        (1024 + weight / 2) / weight
    }

    /// The part of [`Sched::update_newidle_cost`] that keeps the greatest cost, in the tick `now`.
    #[inline]
    pub(crate) fn update_newidle_cost(&mut self, cost: u64, now: u64, second: u64) -> bool {
        if cost > self.max_newidle_lb_cost {
            (self.max_newidle_lb_cost, self.last_decay) = (cost, now);
        } else if now > self.last_decay + second {
            self.max_newidle_lb_cost = self.max_newidle_lb_cost * 253 / 256;
            self.last_decay = now;
            return true;
        }
        false
    }

    /// Whether a cost of nothing would leave that as it is.
    #[inline]
    pub(crate) fn keeps_newidle_cost(&self, now: u64, second: u64) -> bool {
        now <= self.last_decay + second
    }

    /// `update_newidle_stats`: successes among the last 512 to 1024 calls.
    #[inline]
    pub(crate) fn update_newidle_stats(&mut self, success: u32) {
        let [call, successes, ratio] = &mut self.newidle;
        *call += 1;
        *successes += success;
        if *call >= 1024 {
            *ratio = *successes;
            *call /= 2;
            *successes /= 2;
        }
    }
}
