//! Task groups: cgroups by their path, autogroups by their first task, and the kernel's addresses of both.

use std::collections::BTreeMap;

use schedlab_model::{CpuId, Time};
use schedlab_sched::{CfsRqId, EntityId, GroupId};
use schedlab_trace::{Pid, Record};

use super::start::has;
use super::{Engine, limits};
use crate::read::section::{Entry, What};

/// Which of our groups, queues and entities are which of the recording's.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Groups by the inode of their cgroup, by the path of it, and by the kernel's address.
    pub(super) by_cgroup: BTreeMap<u64, GroupId>,
    by_path: BTreeMap<String, GroupId>,
    pub(super) by_address: BTreeMap<u64, GroupId>,
    /// Queues and entities by the kernel's addresses, as far as the recording paired them with tasks.
    pub(super) queues: BTreeMap<u64, CfsRqId>,
    pub(super) entities: BTreeMap<u64, EntityId>,
    /// The task that set a group's limit and has not come to its queue yet.
    pub(super) limiting: Option<(Pid, GroupId)>,
    /// The queues to which it has not come, on several CPUs.
    pub(super) awaiting: Vec<limits::Awaiting>,
    /// Whether each charge to a quota is recorded.
    pub(super) shows_charges: bool,
    /// The task that set a group's weight and has not come to its queues yet.
    weighing: Option<(Pid, GroupId)>,
}

impl Groups {
    pub(super) fn queue(&self, address: u64) -> Option<CfsRqId> {
        self.queues.get(&address).copied()
    }
}

impl<'a> Engine<'a> {
    /// The group whose address `tg=` is, made if it is met for the first time: a cgroup's below the one its path says, an
    /// autogroup's below the root.
    pub(super) fn group_at(&mut self, record: &Record) -> GroupId {
        let number = |key: &str| record.number(key).unwrap_or(0);
        let (address, parent, cgroup) = (number("tg"), number("ptg"), number("cg"));
        if parent == 0 || address == 0 {
            return GroupId::ROOT;
        }
        if let Some(group) = self.groups.by_address.get(&address) {
            return *group;
        }
        let known = self.groups.by_cgroup.get(&cgroup).copied().filter(|_| cgroup != 0);
        let above = self.groups.by_address.get(&parent).copied().unwrap_or(GroupId::ROOT);
        let group = known.unwrap_or_else(|| self.create(above));
        self.groups.by_address.insert(address, group);
        group
    }

    fn create(&mut self, parent: GroupId) -> GroupId {
        // No kernel with probes lacks groups.
        self.sched.create_group(parent).unwrap_or(GroupId::ROOT)
    }

    /// `cgroup_mkdir: … id=28 path=/a/b`: the group, made unless it is known.
    pub(super) fn make_group(&mut self, record: &Record) -> Option<GroupId> {
        let (id, path) = (record.number("id")?, record.word("path")?);
        if let Some(known) = self.groups.by_cgroup.get(&id) {
            return Some(*known);
        }
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent = self.groups.by_path.get(parent).copied().unwrap_or(GroupId::ROOT);
        let group = self.create(parent);
        self.groups.by_cgroup.insert(id, group);
        self.groups.by_path.insert(path.to_owned(), group);
        Some(group)
    }

    /// `online_fair_sched_group` of one CPU: the group's entity joins the account of the queue above, whose averages are brought up to
    /// date. The event that tells of the group comes after it was done on all CPUs.
    pub(super) fn online(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        self.advance(cpu, step);
        let made = self.ahead.iter().find(|entry| entry.what == What::MakeGroup);
        let Some(group) = made.and_then(|entry| self.make_group(entry.record)) else { return };
        self.learn_path(group, cpu, step);
    }

    /// `sched_group_set_shares`.
    pub(super) fn set_shares(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        self.compare_before(cpu, section);
        let Some(record) = section.first().map(|entry| entry.record) else { return };
        let number = |key: &str| record.number(key).unwrap_or(0);
        let Some(group) = self.groups.by_cgroup.get(&number("cg")).copied() else { return };
        self.groups.by_address.insert(number("tg"), group);
        // The probe shows them scaled up, as cgroup v2 sets them.
        match self.sched.set_shares_alone(group, number("shares") >> 10) {
            Err(_) => self.lose_track(cpu, "a group's shares cannot be set"),
            Ok(true) if !has(section, What::Reweight) => self.groups.weighing = Some((record.pid, group)),
            Ok(true) => self.sched.set_shares_of_queues(group),
            Ok(false) => {}
        }
        self.compare_after(cpu, section);
    }

    /// The rest of it, by the task that set the shares and was preempted before it came to the queues. It is charged only if it runs on
    /// one of the queues above the group's.
    pub(super) fn set_shares_of_queues(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        let pid = section.first().map(|entry| entry.record.pid);
        let Some((_, group)) = self.groups.weighing.filter(|(writer, _)| Some(*writer) == pid) else {
            return self.charge_alone(cpu, section);
        };
        self.groups.weighing = None;
        self.compare_before(cpu, section);
        self.sched.set_shares_of_queues(group);
        self.compare_after(cpu, section);
    }

    /// `tg_set_cfs_bandwidth`, from where it refills the pool on. It may be preempted before it comes to the queue.
    pub(super) fn set_quota(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        self.compare_before(cpu, section);
        let Some(record) = section.first().map(|entry| entry.record) else { return };
        let number = |key: &str| record.number(key).unwrap_or(0);
        let Some(group) = self.groups.by_cgroup.get(&number("cg")).copied() else { return };
        let quota = number("quota");
        let quota = (quota < u64::MAX >> 1).then(|| Time::from_nanos(quota));
        let (period, burst) = (Time::from_nanos(number("period")), Time::from_nanos(number("burst")));
        if self.sched.set_bandwidth_pool(group, quota, period, burst).is_err() {
            self.lose_track(cpu, "a group's bandwidth cannot be set");
        }
        if self.is_throttled(cpu, group) && !has(section, What::Unthrottle) {
            self.groups.limiting = Some((record.pid, group));
        } else {
            self.sched.set_bandwidth_of_queues(group);
        }
        self.compare_after(cpu, section);
    }

    /// The rest of it, by who set the quota.
    pub(super) fn set_quota_of_queue(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        self.compare_before(cpu, section);
        let pid = section.first().map(|entry| entry.record.pid);
        match self.groups.limiting.take() {
            Some((writer, group)) if Some(writer) == pid => self.sched.set_bandwidth_of_queues(group),
            _ => self.lose_track(cpu, "a group is unthrottled without a limit"),
        }
        self.compare_after(cpu, section);
    }

    /// Whether that task is setting the group's limit.
    pub(super) fn limits(&self, pid: Pid, group: GroupId) -> bool {
        self.groups.limiting == Some((pid, group))
    }

    fn is_throttled(&mut self, cpu: CpuId, group: GroupId) -> bool {
        let (queue, _) = self.sched.ids_of_group(group, cpu);
        self.sched.queue(queue).throttled
    }

    /// `sched_group_set_shares` up to where it comes to the queues, each of which it locks by itself.
    pub(super) fn set_shares_alone(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let Some(record) = step.first().map(|entry| entry.record) else { return };
        let number = |key: &str| record.number(key).unwrap_or(0);
        let Some(group) = self.groups.by_cgroup.get(&number("cg")).copied() else { return };
        self.groups.by_address.insert(number("tg"), group);
        match self.sched.set_shares_alone(group, number("shares") >> 10) {
            Err(_) => self.lose_track(cpu, "a group's shares cannot be set"),
            Ok(true) => self.groups.weighing = Some((record.pid, group)),
            Ok(false) => {}
        }
    }

    /// The part of it that concerns one CPU's queue.
    pub(super) fn set_shares_of_queue(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let pid = step.first().map(|entry| entry.record.pid);
        let Some((_, group)) = self.groups.weighing.filter(|(writer, _)| Some(*writer) == pid) else { return };
        self.advance(cpu, step);
        self.learn_path(group, cpu, step);
        self.expect_weights(cpu, step);
        self.compare_before(cpu, step);
        self.sched.set_shares_of_queue(group, cpu);
        self.compare_after(cpu, step);
    }
}
