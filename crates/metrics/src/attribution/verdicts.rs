//! Why a task waits, from what was last decided: about its class, its groups, itself, and the CPUs that idle.

use schedlab_model::{Candidate, CpuId, PassedOver, PickClass, SelectRule, TaskId, WakeupRule};

use super::cause::Verdict;
use super::records::Class;
use super::waits::WaitKind;
use super::{Attribution, Cause};

impl Attribution {
    pub(super) fn throttled(&self, task: TaskId, cpu: CpuId) -> Option<Verdict> {
        let throttled = &self.cpus[cpu.index()].throttled;
        if throttled.is_empty() {
            return None;
        }
        let group = self.groups.chain(task).find(|group| throttled.contains(group))?;
        Some(Verdict::of(Cause::Quota(group)))
    }

    /// What keeps a task that the pick on a CPU did not choose.
    pub(super) fn passed_over(&self, task: TaskId, cpu: CpuId) -> Option<Verdict> {
        let pick = self.cpus[cpu.index()].pick.as_ref()?;
        if let Some(quota) = self.throttled(task, cpu) {
            return Some(quota);
        }
        let class = self.tasks[task.index()].class;
        let cause = match (pick.class, class) {
            (PickClass::Stop, _) => Cause::Stopper,
            (PickClass::Custom, Class::Unknown | Class::Fair) => Cause::Custom,
            (PickClass::Deadline, Class::Deadline) => Cause::EarlierDeadline,
            (PickClass::Deadline, _) => Cause::DeadlineAbove,
            (_, Class::Deadline) => Cause::DeadlineThrottled,
            (PickClass::Realtime(running), Class::Realtime(waiting)) if running == waiting => Cause::RealtimePeer,
            (PickClass::Realtime(running), Class::Realtime(waiting)) => {
                let margin = u64::from(running.saturating_sub(waiting));
                return Some(Verdict { margin, ..Verdict::of(Cause::RealtimeAbove) });
            }
            (PickClass::Realtime(_), _) => Cause::RealtimeAbove,
            (PickClass::Fair | PickClass::Custom | PickClass::Idle, Class::Realtime(_)) => {
                if self.rt_throttling {
                    Cause::RealtimeThrottled
                } else {
                    Cause::FairServer
                }
            }
            (PickClass::Fair, _) if pick.bare => Cause::Unknown,
            (PickClass::Fair, _) => {
                return self.passed_in_fair(task, &pick.others).or_else(|| self.off_the_queue(cpu, &pick.others));
            }
            (PickClass::Idle, _) => return None,
        };
        Some(Verdict::of(cause))
    }

    /// What keeps a task that begins to wait on a CPU without a decision about it: that a task of a class above the fair one runs there.
    pub(super) fn below_current(&self, task: TaskId, cpu: CpuId) -> Option<Verdict> {
        let queue = &self.cpus[cpu.index()];
        let above = |class| matches!(class, PickClass::Stop | PickClass::Deadline | PickClass::Realtime(_));
        queue.pick.as_ref().filter(|pick| pick.task == queue.current && above(pick.class))?;
        let fair = matches!(self.tasks[task.index()].class, Class::Unknown | Class::Fair);
        fair.then(|| self.passed_over(task, cpu)).flatten()
    }

    /// What the last pick of the fair class said of a task, or of a group it is in.
    pub(super) fn passed_in_fair(&self, task: TaskId, others: &[(Candidate, PassedOver)]) -> Option<Verdict> {
        let [tasks, groups] = &self.passed;
        let place = |table: &[(u64, usize)], index: usize, wanted: Candidate| {
            let (pick, place) = table.get(index).copied()?;
            // The marks are the last pick's; one of before is looked up.
            let found = others.get(place).filter(|_| pick == self.picks).filter(|(candidate, _)| *candidate == wanted);
            found.or_else(|| others.iter().find(|(candidate, _)| *candidate == wanted))
        };
        let of_task = place(tasks, task.index(), Candidate::Task(task));
        let found = of_task.or_else(|| {
            self.groups.chain(task).find_map(|group| place(groups, group as usize, Candidate::Group(group)))
        });
        found.map(|(_, why)| Verdict::of_pick(*why))
    }

    /// What keeps a task that no level of a pick shows, where no group was passed over that it may be in: it is in a throttled one.
    pub(super) fn off_the_queue(&self, cpu: CpuId, others: &[(Candidate, PassedOver)]) -> Option<Verdict> {
        let group = self.cpus[cpu.index()].throttled.last()?;
        let passed = others.iter().any(|(other, _)| matches!(other, Candidate::Group(_)));
        (!passed).then_some(Verdict::of(Cause::Quota(*group)))
    }

    /// Why a woken task of another class, or of a throttled group, does not preempt.
    pub(super) fn by_class(&self, cpu: CpuId, woken: TaskId, by: WakeupRule) -> Verdict {
        if by == WakeupRule::Throttled {
            let group = self.groups.chain(woken).next().unwrap_or(0);
            return self.throttled(woken, cpu).unwrap_or(Verdict::of(Cause::Quota(group)));
        }
        let record = &self.cpus[cpu.index()];
        let class = record.pick.as_ref().filter(|pick| pick.task == record.current).map(|pick| pick.class);
        Verdict::of(match class {
            Some(PickClass::Stop) => Cause::Stopper,
            Some(PickClass::Deadline) => Cause::DeadlineAbove,
            Some(PickClass::Custom) => Cause::Custom,
            Some(PickClass::Realtime(_)) => Cause::RealtimeAbove,
            _ if by == WakeupRule::LowerClass => Cause::HigherClass,
            _ => Cause::Unknown,
        })
    }

    pub(super) fn elsewhere(&self, task: TaskId) -> Option<Verdict> {
        let record = &self.tasks[task.index()];
        let wait = record.wait.as_ref()?;
        let alone = self.free == 0 || self.cpus.len() < 2 || record.selected == Some(SelectRule::OnlyOne);
        if alone || self.cpus[record.cpu.index()].current == TaskId::IDLE {
            return None;
        }
        let may_run = |cpu: usize| record.allowed.is_empty() || record.allowed.contains(&(cpu as u32));
        let free = (0..self.cpus.len()).filter(|cpu| self.cpus[*cpu].is_free() && may_run(*cpu));
        let decided = free.map(|cpu| self.cpus[cpu].idled.filter(|(time, _)| *time >= wait.began));
        let last = decided.reduce(|one, other| match (one, other) {
            (Some(one), Some(other)) => Some(if other.0 > one.0 { other } else { one }),
            (one, other) => one.or(other),
        })?;
        Some(match (last, wait.kind, record.selected) {
            (Some((_, verdict)), ..) => verdict,
            (None, WaitKind::Woken | WaitKind::New, Some(by)) => Verdict::of_selection(by),
            (None, ..) => Verdict::of(Cause::AwaitingBalance),
        })
    }
}
