//! Bandwidth of groups (`CONFIG_CFS_BANDWIDTH`, `cpu.max`): a quota of CPU time a period, handed out to CPUs in slices.
//!
//! A CPU whose slice is used up takes another from the group's pool; where the pool is empty its queue is throttled: taken out of
//! the queue above, until the period timer refills the pool. Timers are the driver's: [`Sched::bandwidth_timer`] says when the next
//! one fires, [`Sched::run_bandwidth_timer`] is what it does.

use schedlab_model::{CpuId, Reason, TaskId, Time};

use crate::class::{DequeueFlags, EnqueueFlags};
use crate::decider::Decider;
use crate::entity::CfsRqId;
use crate::fair::group::GroupId;
use crate::fair::load::Action;
use crate::machine::Sched;

/// What a queue keeps rather than give back (`min_cfs_rq_runtime`).
const MIN_CFS_RQ_RUNTIME: i64 = 1_000_000;
/// No slack is handed out so shortly before a refill (`min_bandwidth_expiration`).
const MIN_BANDWIDTH_EXPIRATION: u64 = 2_000_000;
/// Slack is gathered so long (`cfs_bandwidth_slack_period`).
const SLACK_PERIOD: u64 = 5_000_000;

/// `struct cfs_bandwidth`.
#[derive(Debug, Clone)]
pub(crate) struct Bandwidth {
    /// None: no limit (`RUNTIME_INF`).
    pub(crate) quota: Option<u64>,
    pub(super) period: u64,
    pub(super) burst: u64,
    /// What is left in the pool.
    runtime: u64,
    idle: bool,
    period_active: bool,
    /// When the period timer fires next, or last did.
    expires: u64,
    /// When the slack timer fires, if it is started.
    slack: Option<u64>,
    pub(super) throttled: Vec<CfsRqId>,
    pub(super) stats: BandwidthStats,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Self {
            quota: None,
            period: 100_000_000,
            burst: 0,
            runtime: 0,
            idle: false,
            period_active: false,
            expires: 0,
            slack: None,
            throttled: Vec::new(),
            stats: BandwidthStats::default(),
        }
    }
}

impl Bandwidth {
    /// `hrtimer_forward_now`: the next multiple of the period after `now`; says how many went by.
    fn forward(&mut self, now: u64) -> u64 {
        let overrun = if now < self.expires { 0 } else { (now - self.expires) / self.period + 1 };
        self.expires += overrun * self.period;
        overrun
    }

    /// `start_cfs_bandwidth`.
    pub(super) fn start(&mut self, now: u64) {
        if !self.period_active {
            self.period_active = true;
            self.forward(now);
        }
    }

    /// `__refill_cfs_bandwidth_runtime`: what was not used is kept, up to the burst.
    pub(super) fn refill(&mut self) {
        if let Some(quota) = self.quota {
            self.runtime = (self.runtime + quota).min(quota + self.burst);
        }
    }

    /// What is left in the pool.
    pub(crate) const fn runtime(&self) -> u64 {
        self.runtime
    }

    /// `runtime_refresh_within`.
    fn refresh_within(&self, now: u64, time: u64) -> bool {
        self.expires.saturating_sub(now) < time
    }
}

/// What `cpu.stat` tells of a group's bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BandwidthStats {
    /// `nr_periods`: periods that ended.
    pub nr_periods: u64,
    /// `nr_throttled`: of those, the ones that ended with a queue throttled.
    pub nr_throttled: u64,
    /// `throttled_usec`, in nanoseconds: over all CPUs, how long queues were throttled.
    pub throttled_time: u64,
}

/// A timer of a group's bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BandwidthTimer {
    /// When it fires.
    pub at: Time,
    group: u32,
    slack: bool,
}

impl<D: Decider> Sched<D> {
    /// The group's `cpu.stat`.
    pub fn bandwidth_stats(&self, group: GroupId) -> BandwidthStats {
        self.groups[group.index()].bandwidth.stats
    }

    /// The bandwidth timer that fires next, of all groups; the first group's among equals.
    pub fn bandwidth_timer(&self) -> Option<BandwidthTimer> {
        let timers = self.groups.iter().enumerate().flat_map(|(group, record)| {
            let bandwidth = &record.bandwidth;
            let timer = |at, slack| BandwidthTimer { at: Time::from_nanos(at), group: group as u32, slack };
            let period = bandwidth.period_active.then(|| timer(bandwidth.expires, false));
            period.into_iter().chain(bandwidth.slack.map(|at| timer(at, true)))
        });
        timers.min()
    }

    /// The CPUs on which [`Sched::run_bandwidth_timer`] may put tasks back: these need their clocks first.
    pub fn bandwidth_timer_cpus(&self, timer: BandwidthTimer) -> Vec<CpuId> {
        let throttled = &self.groups[timer.group as usize].bandwidth.throttled;
        throttled.iter().map(|queue| self.cfs_rqs[queue.index()].cpu).collect()
    }

    /// What a bandwidth timer does when it fires. Idle CPUs that get tasks back need to reschedule afterwards.
    pub fn run_bandwidth_timer(&mut self, timer: BandwidthTimer) {
        let (group, now) = (GroupId(timer.group), timer.at.as_nanos());
        let refilled = if timer.slack { self.slack_timer(group, now) } else { self.period_timer(group, now) };
        self.unthrottle(refilled);
    }

    /// A timer of the group expires at `now`, whenever it was to. Which queues are to be let go after that.
    pub(crate) fn expire_bandwidth_timer(&mut self, group: GroupId, slack: bool, now: u64) -> Vec<CfsRqId> {
        if slack {
            self.slack_timer(group, now)
        } else {
            self.groups[group.index()].bandwidth.expires = now;
            self.period_timer(group, now)
        }
    }

    /// `__cfsb_csd_unthrottle`: lets go queues that got runtime.
    pub(crate) fn unthrottle(&mut self, refilled: Vec<CfsRqId>) {
        for queue in refilled {
            self.unthrottle_cfs_rq(queue);
        }
    }

    /// `do_sched_cfs_period_timer`: refills the pool and hands it out; a period in which nothing happened is the last.
    fn period_timer(&mut self, group: GroupId, now: u64) -> Vec<CfsRqId> {
        let bandwidth = &mut self.groups[group.index()].bandwidth;
        let overrun = bandwidth.forward(now);
        if bandwidth.quota.is_none() {
            bandwidth.period_active = false;
            return Vec::new();
        }
        let throttled = !bandwidth.throttled.is_empty();
        bandwidth.stats.nr_periods += overrun;
        bandwidth.refill();
        if !throttled {
            bandwidth.period_active = !bandwidth.idle;
            bandwidth.idle = true;
            return Vec::new();
        }
        bandwidth.stats.nr_throttled += overrun;
        bandwidth.idle = false;
        self.distribute_cfs_runtime(group)
    }

    /// `do_sched_cfs_slack_timer`.
    fn slack_timer(&mut self, group: GroupId, now: u64) -> Vec<CfsRqId> {
        let slice = self.rules.cfs_bandwidth_slice;
        let bandwidth = &mut self.groups[group.index()].bandwidth;
        bandwidth.slack = None;
        if bandwidth.refresh_within(now, MIN_BANDWIDTH_EXPIRATION) {
            return Vec::new();
        }
        if bandwidth.quota.is_some() && bandwidth.runtime > slice {
            return self.distribute_cfs_runtime(group);
        }
        Vec::new()
    }

    /// `distribute_cfs_runtime`: each throttled queue gets what it owes and one nanosecond, in the order in which they were
    /// throttled, until the pool is empty. Which of them may run again.
    fn distribute_cfs_runtime(&mut self, group: GroupId) -> Vec<CfsRqId> {
        let mut refilled = Vec::new();
        for queue in self.groups[group.index()].bandwidth.throttled.clone() {
            if self.groups[group.index()].bandwidth.runtime == 0 {
                break;
            }
            if self.rules.throttles_when_charged {
                // Tasks that are still within the kernel run on.
                self.update_curr_cfs(queue);
            }
            let bandwidth = &mut self.groups[group.index()].bandwidth;
            let record = &mut self.cfs_rqs[queue.index()];
            let amount = ((1 - record.runtime_remaining) as u64).min(bandwidth.runtime);
            bandwidth.runtime -= amount;
            record.runtime_remaining += amount as i64;
            if record.runtime_remaining > 0 {
                refilled.push(queue);
            }
        }
        refilled
    }

    /// `__assign_cfs_rq_runtime`: takes up to `target` more than is owed from the pool; true if that leaves something.
    pub(super) fn assign_cfs_rq_runtime(&mut self, cfs: CfsRqId, target: u64) -> bool {
        let record = &mut self.cfs_rqs[cfs.index()];
        let now = self.rqs[record.cpu.index()].clock;
        let bandwidth = &mut self.groups[record.group.index()].bandwidth;
        let least = (target as i64 - record.runtime_remaining) as u64;
        let amount = if bandwidth.quota.is_none() {
            least
        } else {
            bandwidth.start(now);
            let amount = bandwidth.runtime.min(least);
            bandwidth.runtime -= amount;
            bandwidth.idle &= amount == 0;
            amount
        };
        record.runtime_remaining += amount as i64;
        record.runtime_remaining > 0
    }

    /// `account_cfs_rq_runtime`: charges the running queue's runtime, and reschedules if the group's pool has none left.
    /// From 7.0 on it throttles then; true if the queue is throttled.
    pub(super) fn account_cfs_rq_runtime(&mut self, cfs: CfsRqId, delta: u64) -> bool {
        let record = &mut self.cfs_rqs[cfs.index()];
        if !record.runtime_enabled {
            return false;
        }
        record.runtime_remaining -= delta as i64;
        if record.runtime_remaining > 0 {
            return false;
        }
        let throttles = self.rules.throttles_when_charged;
        if record.throttled {
            return throttles;
        }
        if throttles {
            return self.throttle_hierarchy(cfs);
        }
        let cpu = record.cpu;
        let assigned = self.assign_cfs_rq_runtime(cfs, self.rules.cfs_bandwidth_slice);
        if !assigned && self.cfs_rqs[cfs.index()].curr.is_some() {
            self.resched_curr(cpu);
        }
        false
    }

    /// `check_cfs_rq_runtime`: throttles a queue that has used up its runtime; true if it is throttled.
    pub(super) fn check_cfs_rq_runtime(&mut self, cfs: CfsRqId) -> bool {
        let record = &self.cfs_rqs[cfs.index()];
        if !record.runtime_enabled || record.runtime_remaining > 0 {
            return false;
        }
        record.throttled || self.throttle_cfs_rq(cfs)
    }

    /// `check_enqueue_throttle`: a group that wakes with no runtime left is throttled before it gets to run.
    pub(super) fn check_enqueue_throttle(&mut self, cfs: CfsRqId) {
        let record = &self.cfs_rqs[cfs.index()];
        if !record.runtime_enabled || record.curr.is_some() || record.throttled {
            return;
        }
        self.account_cfs_rq_runtime(cfs, 0);
        if self.cfs_rqs[cfs.index()].runtime_remaining <= 0 && !self.cfs_rqs[cfs.index()].throttled {
            self.throttle_cfs_rq(cfs);
        }
    }

    /// `return_cfs_rq_runtime`: a queue that empties gives back all but a millisecond; if others wait for it, the slack timer
    /// hands it out.
    pub(super) fn return_cfs_rq_runtime(&mut self, cfs: CfsRqId) {
        let record = &mut self.cfs_rqs[cfs.index()];
        let slack = record.runtime_remaining - MIN_CFS_RQ_RUNTIME;
        if !record.runtime_enabled || record.nr_running > 0 || slack <= 0 {
            return;
        }
        record.runtime_remaining -= slack;
        let now = self.rqs[record.cpu.index()].clock;
        let slice = self.rules.cfs_bandwidth_slice;
        let bandwidth = &mut self.groups[record.group.index()].bandwidth;
        if bandwidth.quota.is_none() {
            return;
        }
        bandwidth.runtime += slack as u64;
        let soon = bandwidth.refresh_within(now, SLACK_PERIOD + MIN_BANDWIDTH_EXPIRATION);
        if bandwidth.runtime > slice && !bandwidth.throttled.is_empty() && !soon && bandwidth.slack.is_none() {
            bandwidth.slack = Some(now + SLACK_PERIOD);
        }
    }

    /// Whether a task's group, or one above it, is throttled on its CPU: a fair task waits then, queued or not; from 6.18 on once it was
    /// taken off.
    pub fn is_throttled(&self, task: TaskId) -> bool {
        let record = &self.tasks[task.index()];
        if self.rules.throttles_tasks {
            return record.class == crate::class::Class::Fair && record.throttled;
        }
        record.class == crate::class::Class::Fair && self.throttled_hierarchy(self.entities[record.se.index()].cfs_rq)
    }

    /// `throttled_hierarchy`: this queue or one above it is throttled.
    #[inline]
    pub(crate) fn throttled_hierarchy(&self, cfs: CfsRqId) -> bool {
        self.cfs_rqs[cfs.index()].throttle_count > 0
    }

    /// `tg_throttle_down` and `tg_unthrottle_up` over a group and all below it on one CPU.
    fn count_throttle(&mut self, group: GroupId, cpu: CpuId, throttled: bool) {
        if let Some((queue, _)) = self.groups[group.index()].cpus[cpu.index()] {
            let record = &mut self.cfs_rqs[queue.index()];
            let before = record.throttle_count;
            record.throttle_count = if throttled { before + 1 } else { before - 1 };
            if before == 0 || record.throttle_count == 0 {
                self.throttle_load(queue, throttled);
            }
        }
        for child in self.groups[group.index()].children.clone() {
            self.count_throttle(child, cpu, throttled);
        }
    }

    /// Tells that a queue's group has used up its quota.
    pub(super) fn explain_throttle(&mut self, group: GroupId, cpu: CpuId) {
        self.explain(cpu, move |sched| {
            let (now, bandwidth) = (sched.rqs[cpu.index()].clock, &sched.groups[group.index()].bandwidth);
            Reason::Throttle { group: group.0, until_refill: bandwidth.expires.saturating_sub(now) }
        });
    }

    /// `throttle_cfs_rq`: takes the queue's entity out of the queue above, and so on up where nothing else is left; false if there
    /// was runtime after all.
    fn throttle_cfs_rq(&mut self, cfs: CfsRqId) -> bool {
        if self.rules.throttles_tasks {
            return self.throttle_hierarchy(cfs);
        }
        if self.assign_cfs_rq_runtime(cfs, 1) {
            return false;
        }
        let record = &self.cfs_rqs[cfs.index()];
        let (group, cpu) = (record.group, record.cpu);
        let (tasks, mut idle_tasks) = (record.h_nr_running, record.idle_h_nr_running);
        let delayed = record.h_nr_delayed;
        self.explain_throttle(group, cpu);
        self.groups[group.index()].bandwidth.throttled.push(cfs);
        self.count_throttle(group, cpu, true);
        let mut level = self.groups[group.index()].cpus[cpu.index()].map(|(_, se)| se);
        let mut leaves = true;
        let mut reaches = true;
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (above, parent, my_q) = (entity.cfs_rq, entity.parent, entity.my_q);
            if !entity.on_rq {
                reaches = false;
                break;
            }
            if leaves {
                let mut flags = DequeueFlags::SLEEP.and(DequeueFlags::SPECIAL);
                if entity.sched_delayed {
                    flags = flags.and(DequeueFlags::DELAYED);
                }
                self.dequeue_entity(above, se, flags);
            } else {
                self.update_load_avg(above, se, Action::default());
                self.se_update_runnable(se);
            }
            if my_q.is_some_and(|below| self.cfs_rqs[below.index()].idle) {
                idle_tasks = tasks;
            }
            let queue = &mut self.cfs_rqs[above.index()];
            queue.h_nr_running -= tasks;
            queue.h_nr_delayed -= delayed;
            queue.idle_h_nr_running -= idle_tasks;
            leaves &= queue.load.scaled == 0;
            level = parent;
        }
        if reaches {
            let rq = &mut self.rqs[cpu.index()];
            rq.nr_running = rq.nr_running.wrapping_sub(tasks);
        }
        let now = self.rqs[cpu.index()].clock;
        let record = &mut self.cfs_rqs[cfs.index()];
        (record.throttled, record.throttled_clock) = (true, now);
        true
    }

    /// `unthrottle_cfs_rq`: puts the queue's entity back into the queue above, and so on up.
    pub(crate) fn unthrottle_cfs_rq(&mut self, cfs: CfsRqId) {
        if self.rules.throttles_tasks {
            return self.unthrottle_hierarchy(cfs);
        }
        let record = &mut self.cfs_rqs[cfs.index()];
        record.throttled = false;
        let (group, cpu, since) = (record.group, record.cpu, record.throttled_clock);
        let now = self.rqs[cpu.index()].clock;
        self.explain(cpu, move |_| Reason::Unthrottle { group: group.0, after: now - since });
        let bandwidth = &mut self.groups[group.index()].bandwidth;
        bandwidth.stats.throttled_time += now - since;
        bandwidth.throttled.retain(|queue| *queue != cfs);
        self.count_throttle(group, cpu, false);
        let record = &self.cfs_rqs[cfs.index()];
        if record.load.scaled > 0 {
            let (tasks, idle_tasks) = (record.h_nr_running, record.idle_h_nr_running);
            let delayed = record.h_nr_delayed;
            self.rejoin_hierarchy(group, cpu, tasks, delayed, idle_tasks);
        }
        if self.rqs[cpu.index()].curr == TaskId::IDLE && self.cfs_rq(cpu).nr_running > 0 {
            self.resched_curr(cpu);
        }
    }

    fn rejoin_hierarchy(&mut self, group: GroupId, cpu: CpuId, tasks: u32, delayed: u32, mut idle_tasks: u32) {
        let first = self.cfs_rq(cpu).h_nr_running == 0;
        let mut level = self.groups[group.index()].cpus[cpu.index()].map(|(_, se)| se);
        let mut joins = true;
        while let Some(se) = level {
            let entity = &self.entities[se.index()];
            let (above, parent, my_q) = (entity.cfs_rq, entity.parent, entity.my_q);
            if joins && entity.sched_delayed {
                self.dequeue_entity(above, se, DequeueFlags::SLEEP.and(DequeueFlags::DELAYED));
            } else if entity.on_rq {
                joins = false;
            }
            if joins {
                self.enqueue_entity(above, se, EnqueueFlags::WAKEUP);
            } else {
                self.update_load_avg(above, se, Action::UPDATE);
                self.se_update_runnable(se);
            }
            if my_q.is_some_and(|below| self.cfs_rqs[below.index()].idle) {
                idle_tasks = tasks;
            }
            let queue = &mut self.cfs_rqs[above.index()];
            queue.h_nr_running += tasks;
            queue.h_nr_delayed += delayed;
            queue.idle_h_nr_running += idle_tasks;
            if queue.throttled {
                return;
            }
            level = parent;
        }
        self.add_nr_running(cpu, tasks);
        if tasks > 0 {
            self.idle_cpus.remove(cpu.index());
            if first {
                self.first_fair_task(cpu);
            }
        }
    }
}
