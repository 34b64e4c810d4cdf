//! Why a decision fell as it did, put together where the decider asks ([`Decider::explains`]), from the state in which it was made.

use schedlab_model::{
    Candidate, CpuId, PassedOver, PickClass, PickLevel, PickRule, PlaceRule, Reason, TaskId, TurnRule, WakeupRule,
};

use crate::class::Class;
use crate::decider::Decider;
use crate::entity::{CfsRqId, EntityId, Vruntime};
use crate::fair::group::GroupId;
use crate::fair::rules::Picked;
use crate::machine::Sched;

impl<D: Decider> Sched<D> {
    /// Gives the decider a reason, if it asks for reasons; else `reason` is not called.
    #[inline(always)]
    pub(crate) fn explain(&mut self, cpu: CpuId, reason: impl FnOnce(&Self) -> Reason) {
        if self.decider.explains() {
            self.explain_now(cpu, reason);
        }
    }

    /// Apart, so that it costs a decision no registers and no stack where reasons are not asked for.
    #[cold]
    #[inline(never)]
    fn explain_now(&mut self, cpu: CpuId, reason: impl FnOnce(&Self) -> Reason) {
        let reason = reason(self);
        self.decider.explain(cpu, reason);
    }

    /// Keeps the decision on one level of a pick, where reasons are asked for.
    #[inline(always)]
    pub(crate) fn explain_level(&mut self, cfs: CfsRqId, picked: Picked) {
        if self.decider.explains() {
            self.keep_level(cfs, picked);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_level(&mut self, cfs: CfsRqId, picked: Picked) {
        if self.cfs_rqs[cfs.index()].group == GroupId::ROOT {
            // A pick begins, or begins anew.
            self.pick_levels.clear();
        }
        let level = self.pick_level(cfs, picked);
        self.pick_levels.push(level);
    }

    /// Tells a pick of the fair class with the levels that were kept; one of a delayed task is none.
    #[inline(always)]
    pub(crate) fn explain_pick(&mut self, cpu: CpuId, task: TaskId, candidates: u32, delayed: bool) {
        if self.decider.explains() {
            self.explain_pick_now(cpu, task, candidates, delayed);
        }
    }

    #[cold]
    #[inline(never)]
    fn explain_pick_now(&mut self, cpu: CpuId, task: TaskId, candidates: u32, delayed: bool) {
        let levels = std::mem::take(&mut self.pick_levels);
        if !delayed {
            self.decider.explain(cpu, Reason::Pick { task, candidates, class: PickClass::Fair, levels });
        }
    }

    /// Why a task that became runnable preempts the current one or not.
    #[inline(always)]
    pub(crate) fn explain_wakeup(&mut self, cpu: CpuId, woken: TaskId, preempts: bool, by: WakeupRule) {
        self.explain(cpu, move |sched| {
            let current = sched.rqs[cpu.index()].curr;
            Reason::WakeupPreempt { woken, current, preempts, by }
        });
    }

    /// What an entity stands for.
    pub(crate) fn candidate(&self, se: EntityId) -> Candidate {
        let entity = &self.entities[se.index()];
        match entity.my_q {
            Some(queue) => Candidate::Group(self.cfs_rqs[queue.index()].group.0),
            None => Candidate::Task(entity.task),
        }
    }

    /// A span of an entity's virtual time in real time, in nanoseconds.
    fn real_time(&self, se: EntityId, virtual_time: i64) -> u64 {
        let weight = self.entities[se.index()].load.scaled;
        let product = u128::from(virtual_time.max(0) as u64) * u128::from(weight);
        u64::try_from(product / u128::from(self.rules.nice_0_load)).unwrap_or(u64::MAX)
    }

    /// The entity that runs on the queue was charged, and its turn is over.
    pub(crate) fn turn_over(&self, cfs: CfsRqId, by: TurnRule) -> Reason {
        let current = self.cfs_rqs[cfs.index()].curr.map_or(Candidate::Task(TaskId::IDLE), |se| self.candidate(se));
        Reason::Turn { current, tick: false, preempts: by.preempts(), by }
    }

    /// Why the entity that runs goes on under EEVDF.
    pub(crate) fn turn_left(&self, cfs: CfsRqId, se: EntityId) -> TurnRule {
        let entity = &self.entities[se.index()];
        if self.cfs_rqs[cfs.index()].nr_in_timeline(&self.rules) == 1 {
            return TurnRule::Alone;
        }
        match self.rules.protection(entity) {
            Some(left) => TurnRule::ProtectedSlice(self.real_time(se, left)),
            None => TurnRule::RequestLeft(self.real_time(se, entity.deadline.since(entity.vruntime))),
        }
    }

    /// How far `pse` lies before `se` in virtual time, against the wake-up granularity.
    pub(crate) fn granularity_rule(&self, se: EntityId, pse: EntityId) -> WakeupRule {
        let mut woken = self.entities[pse.index()].clone();
        let ahead = self.entities[se.index()].vruntime.since(woken.vruntime);
        WakeupRule::Granularity { ahead, granularity: self.rules.wakeup_gran(&mut woken) }
    }

    /// Why an entity that would come in at `start` is placed at `placed` under CFS.
    pub(crate) fn place_rule_cfs(&self, cfs: CfsRqId, start: Vruntime, placed: Vruntime, initial: bool) -> PlaceRule {
        let from_min = start.since(self.cfs_rqs[cfs.index()].min_vruntime);
        match placed.since(start) {
            after if after > 0 => PlaceRule::WhereItLeft(after as u64),
            _ if from_min == 0 => PlaceRule::MinVruntime,
            _ if initial => PlaceRule::StartDebit(from_min.unsigned_abs()),
            _ => PlaceRule::SleeperCredit(from_min.unsigned_abs()),
        }
    }

    /// One level of a pick: what was picked, and what kept each other entity of the queue from it.
    fn pick_level(&self, cfs: CfsRqId, picked: Picked) -> PickLevel {
        let queue = &self.cfs_rqs[cfs.index()];
        let running = queue.running(&self.entities).map(|(se, _)| se);
        let others = running.into_iter().chain(queue.timeline.iter()).filter(|se| *se != picked.se);
        let others: Vec<_> = others.map(|se| (self.candidate(se), self.passed_over(cfs, picked, se))).collect();
        let by = if others.is_empty() { PickRule::Only } else { picked.by };
        PickLevel { picked: self.candidate(picked.se), by, others }
    }

    /// What kept `other` from being picked.
    pub(crate) fn passed_over(&self, cfs: CfsRqId, picked: Picked, other: EntityId) -> PassedOver {
        let (chosen, passed) = (&self.entities[picked.se.index()], &self.entities[other.index()]);
        if !self.rules.eevdf {
            return match passed.vruntime.since(chosen.vruntime) {
                later if later >= 0 => PassedOver::LaterVruntime(later),
                earlier => PassedOver::Buddy(earlier.saturating_neg()),
            };
        }
        if passed.sched_delayed {
            return PassedOver::Delayed;
        }
        let queue = &self.cfs_rqs[cfs.index()];
        let running = queue.running(&self.entities).map(|(_, running)| running);
        if !queue.average(running, &self.rules).is_eligible(passed.vruntime) {
            return PassedOver::NotEligible(
                queue.average_key(running, &self.rules).wrapping_sub(queue.entity_key(passed)),
            );
        }
        match (picked.by, self.rules.protection(chosen)) {
            (PickRule::ProtectedSlice, Some(left)) => PassedOver::ProtectedSlice(self.real_time(picked.se, left)),
            (PickRule::NextBuddy, _) => PassedOver::NextBuddy,
            _ => PassedOver::LaterDeadline(passed.deadline.since(chosen.deadline)),
        }
    }

    /// A pick that the fair class had no part in.
    pub(crate) fn explain_pick_of_class(&mut self, cpu: CpuId, task: TaskId) {
        self.explain(cpu, move |sched| {
            let rq = &sched.rqs[cpu.index()];
            let (class, candidates) = match sched.tasks.get(task.index()).map(|record| record.class) {
                _ if rq.stop == Some(task) => (PickClass::Stop, 1),
                Some(Class::Deadline) => (PickClass::Deadline, rq.dl.iter().count() as u32),
                Some(Class::Rt) => {
                    let priority = sched.tasks[task.index()].rt_priority();
                    (PickClass::Realtime(priority), rq.rt.nr_running)
                }
                Some(Class::Custom) => (PickClass::Custom, rq.nr_running),
                Some(Class::Fair | Class::Idle) | None => (PickClass::Idle, 0),
            };
            Reason::Pick { task, candidates, class, levels: Vec::new() }
        });
    }
}
