//! Real-time bandwidth: of each `rt_period` real-time tasks may use `rt_runtime` on a CPU (`kernel/sched/rt.c` before 6.12, without
//! RT_GROUP_SCHED). From 6.12 on no real-time task is throttled; the fair server takes its place.

use schedlab_model::CpuId;

use crate::decider::Decider;
use crate::machine::Sched;
use crate::rules::Rules;
use crate::timers::Timer;

/// `struct rt_bandwidth` (`def_rt_bandwidth`): the one period timer of all CPUs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RtBandwidth {
    /// `rt_period_active`: the timer is armed.
    pub(crate) active: bool,
    /// When the timer expires, or expired last and was forwarded to.
    expires: u64,
}

/// What a CPU's queue knows of its bandwidth.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RtBudget {
    /// `rt_time`: used in this period and not paid back, in nanoseconds.
    pub(crate) time: u64,
    /// `rt_runtime`: what may be used.
    pub(crate) runtime: u64,
    /// `rt_throttled`: used up. None of its tasks runs.
    pub(crate) throttled: bool,
}

impl Rules {
    /// `rt_runtime` in nanoseconds where real-time tasks are limited (`rt_bandwidth_enabled`).
    #[inline]
    pub(crate) fn rt_runtime(&self) -> Option<u64> {
        self.tunables.rt_runtime.filter(|_| self.rt_throttling).map(schedlab_model::Time::as_nanos)
    }

    fn rt_period(&self) -> u64 {
        self.tunables.rt_period.as_nanos()
    }

    /// Whether CPUs lend one another real-time runtime (`RT_RUNTIME_SHARE`): then what one CPU's tick does bears on the others.
    pub(crate) fn shares_rt_runtime(&self) -> bool {
        self.tunables.features.rt_runtime_share && self.rt_runtime().is_some()
    }
}

impl<D: Decider> Sched<D> {
    /// Whether the CPU's real-time tasks used up their runtime and wait for the next period (`rt_rq_throttled`).
    pub fn rt_throttled(&self, cpu: CpuId) -> bool {
        self.rqs[cpu.index()].rt.budget.throttled
    }

    /// `start_rt_bandwidth`, whenever a real-time task is queued: the period timer runs while there is any.
    pub(crate) fn start_rt_bandwidth(&mut self, cpu: CpuId) {
        if self.rules.rt_runtime().is_none() || self.rt_bandwidth.active {
            return;
        }
        let now = self.rqs[cpu.index()].clock;
        let bandwidth = &mut self.rt_bandwidth;
        bandwidth.active = true;
        // A period that is not over yet goes on; else a new one begins with the next nanosecond.
        if bandwidth.expires <= now {
            bandwidth.expires = now + 1;
        }
        self.timers.arm(bandwidth.expires, Timer::RtPeriod);
    }

    /// The second half of `update_curr_rt`: a real-time task ran for `delta`.
    pub(crate) fn charge_rt_bandwidth(&mut self, cpu: CpuId, delta: u64) {
        self.rqs[cpu.index()].rt.budget.time += delta;
        if self.sched_rt_runtime_exceeded(cpu) {
            self.resched_curr(cpu);
            self.start_rt_bandwidth(cpu);
        }
    }

    /// `sched_rt_runtime_exceeded`: throttles the queue once more than its runtime is used.
    fn sched_rt_runtime_exceeded(&mut self, cpu: CpuId) -> bool {
        let budget = self.rqs[cpu.index()].rt.budget;
        if budget.throttled {
            return true;
        }
        if budget.runtime >= self.rules.rt_period() {
            return false;
        }
        self.balance_runtime(cpu);
        let rq = &mut self.rqs[cpu.index()];
        if rq.rt.budget.time <= rq.rt.budget.runtime {
            return false;
        }
        if self.rules.rt_runtime() == Some(0) {
            // A throttled queue would never be given anything: it is let run, and nothing is counted.
            rq.rt.budget.time = 0;
            return false;
        }
        rq.rt.budget.throttled = true;
        // sched_rt_rq_dequeue
        if std::mem::take(&mut rq.rt.queued) {
            rq.nr_running -= rq.rt.nr_running;
        }
        true
    }

    /// The end of `update_curr_dl`: as long as deadline tasks run, the runtime of real-time ones is used too, up to what they have.
    pub(crate) fn charge_rt_for_dl(&mut self, cpu: CpuId, delta: u64) {
        let Some(runtime) = self.rules.rt_runtime() else { return };
        let budget = &mut self.rqs[cpu.index()].rt.budget;
        // sched_rt_bandwidth_account
        if self.rt_bandwidth.active || budget.time < runtime {
            budget.time += delta;
        }
    }

    /// Coming ticks of a real-time task, the first `first` after it was last charged, that leave its CPU some runtime.
    pub(crate) fn inactive_ticks_rt_bandwidth(&self, cpu: CpuId, first: u64) -> u64 {
        let Some(full) = self.rules.rt_runtime() else { return u64::MAX };
        let budget = self.rqs[cpu.index()].rt.budget;
        if budget.throttled || self.rules.shares_rt_runtime() {
            return 0;
        }
        if full == 0 || budget.runtime >= self.rules.rt_period() {
            return u64::MAX;
        }
        // The k-th tick, from 0, finds time + first + k · tick used, and acts once that is more than the runtime.
        budget.runtime.checked_sub(budget.time + first).map_or(0, |left| left / self.rules.tick + 1)
    }

    /// [`Sched::inactive_ticks_rt_bandwidth`] for a deadline task: whether its time counts depends on the period timer, which other CPUs'
    /// tasks may start or stop.
    pub(crate) fn inactive_ticks_rt_account(&self, cpu: CpuId, first: u64) -> u64 {
        let Some(full) = self.rules.rt_runtime() else { return u64::MAX };
        let budget = self.rqs[cpu.index()].rt.budget;
        if self.rules.shares_rt_runtime() {
            0
        } else if self.rt_bandwidth.active {
            u64::MAX
        } else {
            full.saturating_sub(budget.time + first) / self.rules.tick
        }
    }

    /// `balance_runtime` and `do_balance_runtime` (`RT_RUNTIME_SHARE`): a CPU that used more than its runtime takes its share,
    /// one part in as many as there are CPUs, of what each other one has left.
    fn balance_runtime(&mut self, cpu: CpuId) {
        let budget = self.rqs[cpu.index()].rt.budget;
        if !self.rules.shares_rt_runtime() || budget.time <= budget.runtime {
            return;
        }
        let (cpus, period) = (self.rqs.len() as u64, self.rules.rt_period());
        let mut runtime = budget.runtime;
        for other in (0..self.rqs.len()).filter(|other| *other != cpu.index()) {
            let lender = &mut self.rqs[other].rt.budget;
            let spare = lender.runtime.saturating_sub(lender.time) / cpus;
            let borrowed = spare.min(period - runtime);
            lender.runtime -= borrowed;
            runtime += borrowed;
            if runtime == period {
                break;
            }
        }
        self.rqs[cpu.index()].rt.budget.runtime = runtime;
    }

    /// The period timer expires now, whenever it was to.
    pub(crate) fn expire_rt_period(&mut self, now: u64) {
        (self.rt_bandwidth.active, self.rt_bandwidth.expires) = (true, now);
    }

    /// `sched_rt_period_timer` at `now`: begins a new period and goes on to the next, unless no CPU needs it.
    pub(crate) fn sched_rt_period_timer(&mut self, now: u64) {
        // hrtimer_forward_now: periods up to now, at least the one that ends here.
        let period = self.rules.rt_period();
        let overrun = now.saturating_sub(self.rt_bandwidth.expires) / period + 1;
        self.rt_bandwidth.expires += overrun * period;
        if self.do_sched_rt_period_timer(overrun) {
            self.timers.arm(self.rt_bandwidth.expires, Timer::RtPeriod);
        } else {
            self.rt_bandwidth.active = false;
        }
    }

    /// `do_sched_rt_period_timer`: pays `overrun` periods' runtime back on every CPU. Whether there is any use for another period.
    fn do_sched_rt_period_timer(&mut self, overrun: u64) -> bool {
        let Some(full) = self.rules.rt_runtime() else { return false };
        let mut busy = false;
        for number in 0..self.rqs.len() {
            let cpu = CpuId(number as u32);
            let rt = &mut self.rqs[number].rt;
            if !self.rules.tunables.features.rt_runtime_share {
                rt.budget.runtime = full;
            }
            let waiting = rt.nr_running > 0;
            let mut enqueue = false;
            if rt.budget.time > 0 {
                if rt.budget.throttled {
                    self.balance_runtime(cpu);
                }
                let budget = &mut self.rqs[number].rt.budget;
                budget.time -= budget.time.min(overrun * budget.runtime);
                if budget.throttled && budget.time < budget.runtime {
                    budget.throttled = false;
                    enqueue = true;
                }
                busy |= budget.time > 0 || waiting;
            } else if waiting {
                busy = true;
                enqueue = !rt.budget.throttled;
            }
            if enqueue && waiting {
                self.sched_rt_rq_enqueue(cpu);
            }
        }
        busy
    }

    /// `__disable_runtime`, where a CPU goes off line: its queue is not throttled any more. What it lent is not given back.
    pub(crate) fn disable_rt_runtime(&mut self, cpu: CpuId) {
        let period = self.rules.rt_period();
        let rt = &mut self.rqs[cpu.index()].rt;
        rt.budget = RtBudget { runtime: period, ..RtBudget::default() };
        if rt.nr_running > 0 {
            self.sched_rt_rq_enqueue(cpu);
        }
    }

    /// `__enable_runtime`, where it comes back.
    pub(crate) fn enable_rt_runtime(&mut self, cpu: CpuId) {
        let runtime = self.rules.rt_runtime().unwrap_or(0);
        self.rqs[cpu.index()].rt.budget = RtBudget { runtime, ..RtBudget::default() };
    }

    /// `sched_rt_rq_enqueue`: the queue's tasks may run again, those of a queue that was not throttled go on.
    fn sched_rt_rq_enqueue(&mut self, cpu: CpuId) {
        self.resched_curr(cpu);
        let waiting = self.rqs[cpu.index()].rt.nr_running;
        let rq = &mut self.rqs[cpu.index()];
        if !std::mem::replace(&mut rq.rt.queued, true) {
            self.add_nr_running(cpu, waiting);
            self.idle_cpus.remove(cpu.index());
        }
    }
}
