//! Quotas that a task sets while other CPUs go on: it locks each CPU's queue by itself, at a time that is not recorded.

use schedlab_model::{CpuId, Time};
use schedlab_sched::{CfsRqId, GroupId};
use schedlab_trace::{Context, Pid};

use super::Engine;
use crate::read::section::{Entry, What};

/// A queue whose group has another quota, which the queue does not have yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Awaiting {
    group: GroupId,
    cpu: CpuId,
    /// There is a quota from now on.
    limited: bool,
}

impl<'a> Engine<'a> {
    /// `tg_set_cfs_bandwidth` from where it refills the pool on. Queues that were throttled are let go one by one; what the others show next
    /// tells whether the task had come to them ([`Engine::settle_limits`]).
    pub(super) fn set_quota_beside_others(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        let Some(record) = step.first().map(|entry| entry.record) else { return };
        let number = |key: &str| record.number(key).unwrap_or(0);
        let Some(group) = self.groups.by_cgroup.get(&number("cg")).copied() else { return };
        let quota = Some(number("quota")).filter(|quota| *quota < u64::MAX >> 1).map(Time::from_nanos);
        let (period, burst) = (Time::from_nanos(number("period")), Time::from_nanos(number("burst")));
        self.limit_all();
        if self.sched.set_bandwidth_pool(group, quota, period, burst).is_err() {
            self.lose_track(cpu, "a group's bandwidth cannot be set");
        }
        self.groups.limiting = Some((record.pid, group));
        // Another CPU may just throttle one.
        let shown = limiting(record.pid, self.ahead).iter().filter(|entry| entry.what == What::Unthrottle);
        let addresses = shown.filter_map(|entry| entry.record.number("cfs"));
        let let_go: Vec<CfsRqId> = addresses.filter_map(|address| self.groups.queue(address)).collect();
        for cpu in (0..self.cpus.len() as u32).map(CpuId) {
            let (queue, _) = self.sched.ids_of_group(group, cpu);
            if !self.sched.queue(queue).throttled && !let_go.contains(&queue) {
                self.groups.awaiting.push(Awaiting { group, cpu, limited: quota.is_some() });
            }
        }
        if !self.groups.shows_charges && !self.sched.rules().throttles_when_charged {
            self.limit_all();
        }
    }

    /// The queues that a step shows to have their group's quota get it before that step, and all of them once the task that set it goes on
    /// to something else.
    pub(super) fn settle_limits(&mut self, step: &[Entry<'_>]) {
        let (Some(first), Some((writer, _))) = (step.first(), self.groups.limiting) else { return };
        if self.groups.awaiting.is_empty() {
            return;
        }
        if ends_limiting(first, writer) && first.what != What::Switch {
            return self.limit_all();
        }
        for awaiting in self.groups.awaiting.clone() {
            if self.shows_limit(awaiting, step) {
                self.limit(awaiting);
            }
        }
    }

    fn limit_all(&mut self) {
        for awaiting in self.groups.awaiting.clone() {
            self.limit(awaiting);
        }
    }

    fn limit(&mut self, awaiting: Awaiting) {
        self.groups.awaiting.retain(|other| *other != awaiting);
        let (queue, _) = self.sched.ids_of_group(awaiting.group, awaiting.cpu);
        // One that was throttled meanwhile is let go by itself.
        if !self.sched.queue(queue).throttled {
            self.sched.set_bandwidth_of_queue(awaiting.group, awaiting.cpu);
        }
    }

    /// A queue got its group's quota as it was let go.
    pub(super) fn limited(&mut self, group: GroupId, cpu: CpuId) {
        self.groups.awaiting.retain(|awaiting| (awaiting.group, awaiting.cpu) != (group, cpu));
    }

    /// Whether a step shows that a queue has its group's new quota: it is charged to that, or no longer, or has other runtime left than by the
    /// old one.
    fn shows_limit(&mut self, awaiting: Awaiting, step: &[Entry<'_>]) -> bool {
        let (queue, _) = self.sched.ids_of_group(awaiting.group, awaiting.cpu);
        let (enabled, left) = (self.sched.queue(queue).runtime_enabled, self.sched.queue(queue).runtime_remaining);
        let (account, charge) = (self.left_before(queue, step), self.charge_to(queue, step));
        match (awaiting.limited, account) {
            (true, Some(shown)) => !enabled || shown != left,
            (true, None) | (false, Some(_)) => false,
            (false, None) => enabled && charge.map_or(left <= 0, |ran| self.groups.shows_charges || left <= ran),
        }
    }

    /// How long what runs on a queue ran, where a step first charges it.
    fn charge_to(&self, queue: CfsRqId, step: &[Entry<'_>]) -> Option<i64> {
        let number = |entry: &Entry<'_>, key: &str| entry.record.number(key).unwrap_or(0);
        let runs = |entry: &&Entry<'_>| entry.what == What::UpdateCurr && number(entry, "cse") != 0;
        let charged = step.iter().filter(runs).find(|entry| self.is_of_queue(entry, queue))?;
        Some(number(charged, "ct").wrapping_sub(number(charged, "xs")) as i64).filter(|ran| *ran > 0)
    }

    /// What a queue has left of its quota before a step that tells of it.
    pub(super) fn left_before(&self, queue: CfsRqId, step: &[Entry<'_>]) -> Option<i64> {
        let tells = |entry: &&Entry<'_>| matches!(entry.what, What::Account | What::Throttle);
        let told = step.iter().filter(tells).find(|entry| self.is_of_queue(entry, queue))?;
        let left = told.record.signed("rr")?;
        // From 7.0 on a queue is throttled as it is charged.
        let charged = told.what == What::Throttle && self.sched.rules().throttles_when_charged;
        Some(left + if charged { self.charge_to(queue, step).unwrap_or(0) } else { 0 })
    }

    fn is_of_queue(&self, entry: &Entry<'_>, queue: CfsRqId) -> bool {
        entry.record.number("cfs").and_then(|address| self.groups.queue(address)) == Some(queue)
    }
}

/// Whether a record shows that a task has set a group's bandwidth, and does something else.
fn ends_limiting(entry: &Entry<'_>, writer: Pid) -> bool {
    let own = entry.record.pid == writer && entry.record.flags.context == Context::Task;
    let within = entry.is_part() || matches!(entry.what, What::Enqueue(_) | What::PickTask);
    own && !within
}

/// What shows how `tg_set_cfs_bandwidth` goes on after it refilled the pool: up to what the task does next, or to its preemption.
fn limiting<'a, 'b>(writer: Pid, ahead: &'b [Entry<'a>]) -> &'b [Entry<'a>] {
    let end = ahead.iter().position(|entry| ends_limiting(entry, writer)).unwrap_or(ahead.len());
    &ahead[..end]
}

#[cfg(test)]
mod tests {
    use schedlab_trace::{Reader, Record};

    use super::*;
    use crate::level::Level;
    use crate::report::Report;
    use crate::settings::Settings;

    const CPU0: CpuId = CpuId(0);
    /// What 6.12 charges to a queue's quota before it shows the next record.
    const CHARGE: &str = "k_uc: cfs=0xde00 cse=0x2180 cmy=0x0 pid=219 vr=1 dl=2 xs=11052140331 ct=11052912096 cpu=0";
    const ACCOUNT: &str = "k_acct: cfs=0xde00 rr=0 delta=771765";

    fn records(lines: &[&str]) -> Vec<Record> {
        let lines = lines.iter().map(|line| format!(" n-219     0d..2. 11.043625134: {line}\n"));
        let text = format!("cpus=2\n{}", lines.collect::<String>());
        Reader::new(text.as_bytes()).collect::<Result<_, _>>().expect("lines")
    }

    /// A group's queue on CPU 0, and a task, 222, that is about to give it a quota of 3 ms, or none.
    fn awaiting(settings: &Settings, limited: bool) -> (Engine<'_>, CfsRqId) {
        let first = &records(&[CHARGE])[0];
        let report = Report::of(first, first, Level::L1, 1, settings);
        let mut engine = Engine::new(settings, settings.rules(), 2, report);
        let group = engine.sched.create_group(GroupId::ROOT).expect("a release with groups");
        let (queue, _) = engine.sched.ids_of_group(group, CPU0);
        engine.groups.queues.insert(0xde00, queue);
        let quota = |limited: bool| limited.then(|| Time::from_millis(3));
        let period = Time::from_millis(50);
        engine.sched.set_group_bandwidth(group, quota(!limited), period, Time::ZERO).expect("in range");
        engine.sched.set_bandwidth_pool(group, quota(limited), period, Time::ZERO).expect("in range");
        engine.groups.shows_charges = true;
        engine.groups.limiting = Some((222, group));
        engine.groups.awaiting.push(Awaiting { group, cpu: CPU0, limited });
        (engine, queue)
    }

    /// Of 6.12.117: 222 refilled a group's pool on CPU 1 at 11.043618003, and CPU 0 took 219 of that group off its queue at 11.043625134. That
    /// step charges the group's queue without its quota, so that 222 had not come to the queue; its next pick throttles it, so that 222 had.
    #[test]
    fn a_queue_has_a_quota_once_a_step_shows_it() {
        let settings = Settings::defaults("6.12".parse().expect("a release")).expect("known");
        let (mut engine, queue) = awaiting(&settings, true);
        for (lines, limited) in [
            (&["k_deq: pid=219 fl=0x9 ct=11052912096 c=11052912096 cpu=0", CHARGE][..], false),
            (&["k_pnt: c=11059287842 ct=11059287842"], false),
            (&["k_pnt: c=11059287842 ct=11059287842", "k_thr: cfs=0xde00 tg=0x1 rr=0 ct=11059287842"], true),
        ] {
            let records = records(lines);
            engine.settle_limits(&records.iter().map(Entry::of).collect::<Vec<_>>());
            assert_eq!(engine.sched.queue(queue).runtime_enabled, limited, "{lines:?}");
        }
        assert_eq!(engine.groups.awaiting, []);
    }

    /// A quota that is lifted is charged to until the task has come to the queue.
    #[test]
    fn a_quota_is_gone_once_a_step_is_not_charged_to_it() {
        let settings = Settings::defaults("6.12".parse().expect("a release")).expect("known");
        let (mut engine, queue) = awaiting(&settings, false);
        engine.sched.queue_mut(queue).runtime_remaining = 1_000_000;
        for (lines, limited) in [(&[CHARGE, ACCOUNT][..], true), (&["k_pnt: c=1 ct=1"], true), (&[CHARGE], false)] {
            let records = records(lines);
            engine.settle_limits(&records.iter().map(Entry::of).collect::<Vec<_>>());
            assert_eq!(engine.sched.queue(queue).runtime_enabled, limited, "{lines:?}");
        }
    }

    /// The task that set the quota has come to all queues once it does something else; what is done while it is interrupted shows nothing.
    #[test]
    fn all_queues_have_a_quota_once_its_writer_goes_on() {
        let settings = Settings::defaults("6.12".parse().expect("a release")).expect("known");
        let (mut engine, queue) = awaiting(&settings, true);
        for (flags, limited) in [("1d.h1.", false), ("1d..2.", true)] {
            let text = format!("cpus=2\n n-222     {flags} 11.043865074: k_deq: pid=222 fl=0x9 ct=2 c=2 cpu=1\n");
            let record = Reader::new(text.as_bytes()).next().expect("a line").expect("a record");
            engine.settle_limits(&[Entry::of(&record)]);
            assert_eq!(engine.sched.queue(queue).runtime_enabled, limited, "{flags}");
        }
    }
}
