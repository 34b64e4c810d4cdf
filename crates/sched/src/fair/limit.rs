//! Setting a group's limit (`tg_set_cfs_bandwidth`), whose two halves hold different locks.

use schedlab_model::{CpuId, ModelError, Time};

use crate::decider::Decider;
use crate::fair::group::GroupId;
use crate::machine::Sched;

/// `min_cfs_quota_period` and `max_cfs_quota_period`.
const QUOTA_PERIODS: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000;

impl<D: Decider> Sched<D> {
    /// `cpu.max` and `cpu.max.burst` (`tg_set_cfs_bandwidth`): at most `quota` of CPU time each `period`, and up to `burst` more
    /// that earlier periods left; no limit without a quota. Every CPU must have its clocks.
    ///
    /// # Errors
    /// [`ModelError::Group`] for the root group, a quota below 1 ms, a period outside 1 ms to 1 s, a burst above the quota, and a
    /// burst on 5.10 (it came with 5.14).
    pub fn set_group_bandwidth(
        &mut self,
        group: GroupId,
        quota: Option<Time>,
        period: Time,
        burst: Time,
    ) -> Result<(), ModelError> {
        self.set_bandwidth_pool(group, quota, period, burst)?;
        self.set_bandwidth_of_queues(group);
        Ok(())
    }

    /// The first half of [`Sched::set_group_bandwidth`]: the limit and its pool. The kernel may be preempted before the second.
    ///
    /// # Errors
    /// As there.
    pub fn set_bandwidth_pool(
        &mut self,
        group: GroupId,
        quota: Option<Time>,
        period: Time,
        burst: Time,
    ) -> Result<(), ModelError> {
        let refuse = |why: String| Err(ModelError::Group(why));
        if group == GroupId::ROOT {
            return refuse("the root group's bandwidth cannot be limited".to_owned());
        }
        if !QUOTA_PERIODS.contains(&period.as_nanos()) {
            return refuse(format!("period = {period} is out of range; allowed: 1ms to 1s"));
        }
        if let Some(quota) = quota.filter(|quota| quota.as_nanos() < *QUOTA_PERIODS.start()) {
            return refuse(format!("quota = {quota} is out of range; allowed: 1ms or more"));
        }
        if burst > quota.unwrap_or(burst) {
            return refuse(format!("burst = {burst} is more than the quota"));
        }
        if burst > Time::ZERO && !self.rules.cfs_burst {
            return refuse("burst came with 5.14; this is 5.10".to_owned());
        }
        let now = self.rqs[0].clock;
        let bandwidth = &mut self.groups[group.index()].bandwidth;
        (bandwidth.quota, bandwidth.period) = (quota.map(Time::as_nanos), period.as_nanos());
        bandwidth.burst = burst.as_nanos();
        bandwidth.refill();
        if quota.is_some() {
            bandwidth.start(now);
        }
        Ok(())
    }

    /// The second half: each queue asks the pool anew, and the throttled ones are let go.
    pub fn set_bandwidth_of_queues(&mut self, group: GroupId) {
        for cpu in 0..self.rqs.len() {
            self.set_bandwidth_of_queue(group, CpuId(cpu as u32));
        }
    }

    /// [`Sched::set_bandwidth_of_queues`] for one CPU's queue, which the kernel locks separately.
    pub fn set_bandwidth_of_queue(&mut self, group: GroupId, cpu: CpuId) {
        let limited = self.groups[group.index()].bandwidth.quota.is_some();
        let runtime = i64::from(self.rules.throttles_tasks);
        let Some((queue, _)) = self.groups[group.index()].cpus[cpu.index()] else { return };
        let record = &mut self.cfs_rqs[queue.index()];
        (record.runtime_enabled, record.runtime_remaining) = (limited, runtime);
        if record.throttled {
            self.unthrottle_cfs_rq(queue);
        }
    }
}
