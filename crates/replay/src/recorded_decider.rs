//! The decider of a replay: notes what ours would be, gives back what the kernel did.

use std::collections::{BTreeMap, VecDeque};

use schedlab_model::{CpuId, Reason, TaskId};
use schedlab_sched::{Decider, EntityId, Pick, Preemption, Pull, Vruntime};

/// What the kernel did in the coming step, and what the rules said to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedDecider {
    /// The tasks the kernel picked, one a look; ours once these are used up.
    pub(crate) kernels_picks: VecDeque<TaskId>,
    /// The task that ran in the end, where the looks are not recorded: our looks count as long as they only dequeue delayed tasks.
    pub(crate) outcome: Option<TaskId>,
    /// Whether the kernel rescheduled; ours stands where that is hidden.
    pub(crate) kernels_preempt: Option<bool>,
    /// Where a task is to be placed, whatever the rules say: only to build the state in which a recording begins.
    pub(crate) initial_place: Option<Vruntime>,
    /// Our picks.
    pub(crate) picks: Vec<(Pick, TaskId)>,
    /// Our answer to a tick or a wake-up.
    pub(crate) preempt: Option<bool>,
    /// From where the kernel took a task, where it looked for some.
    pub(crate) kernels_pull: Option<CpuId>,
    /// The task that we would have taken, of each domain that was looked at.
    pub(crate) pulls: Vec<Pull>,
    /// The weights that the kernel gives groups' entities in the step, each entity's in order, where they are followed; each with how many
    /// tasks the kernel had begun to queue in the step.
    kernels_weights: Option<BTreeMap<u32, VecDeque<(u32, u64)>>>,
    /// How many tasks ours has begun to queue in the step.
    enqueued: u32,
    /// What ours came to and the kernel's.
    weights: Vec<(u64, u64)>,
    /// The entity that was set to run last, with its vruntime and deadline as a probe of that sees them: before its weight changes.
    pub(crate) next: Option<(EntityId, Vruntime, Vruntime)>,
    /// Each decision of ours with its reason, since these were last taken; none if no reasons are asked for.
    reasons: Option<Vec<(CpuId, Reason)>>,
}

impl RecordedDecider {
    /// From now on reasons are kept.
    pub(crate) fn ask_for_reasons(&mut self) {
        self.reasons = Some(Vec::new());
    }

    /// The decisions since this was last called, in order, each with its CPU.
    pub(crate) fn take_reasons(&mut self) -> Vec<(CpuId, Reason)> {
        self.reasons.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Prepares for a step of which this is known.
    fn prepare(&mut self, known: Self) {
        let (reasons, kernels_weights) = (self.reasons.take(), self.kernels_weights.take());
        let (weights, enqueued) = (std::mem::take(&mut self.weights), self.enqueued);
        *self = Self { reasons, kernels_weights, weights, enqueued, ..known };
    }

    /// Prepares for a step in which the kernel gives groups' entities these weights, in this order, and no others. Each comes with how many
    /// tasks the kernel had begun to queue in the step: a task that is taken off and put back may change a weight at either.
    pub(crate) fn expect_weights(&mut self, weights: impl IntoIterator<Item = (EntityId, u32, u64)>) {
        let mut expected: BTreeMap<u32, VecDeque<(u32, u64)>> = BTreeMap::new();
        for (entity, enqueued, weight) in weights {
            expected.entry(entity.0).or_default().push_back((enqueued, weight));
        }
        (self.kernels_weights, self.enqueued) = (Some(expected), 0);
    }

    /// Each weight of a group's entity since these were last taken: what ours came to, and the kernel's.
    pub(crate) fn take_weights(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.weights)
    }

    /// Prepares for a step in which the kernel made these picks.
    pub(crate) fn expect_picks(&mut self, picks: impl IntoIterator<Item = TaskId>) {
        self.prepare(Self { kernels_picks: picks.into_iter().collect(), ..Self::default() });
    }

    /// Prepares for a step in which the kernel ran this task in the end.
    pub(crate) fn expect_outcome(&mut self, outcome: TaskId) {
        self.prepare(Self { outcome: Some(outcome), ..Self::default() });
    }

    /// Prepares for a step in which the kernel rescheduled or not.
    pub(crate) fn expect_preempt(&mut self, preempt: bool) {
        self.prepare(Self { kernels_preempt: Some(preempt), ..Self::default() });
    }

    /// The same, if the recording tells.
    pub(crate) fn expect(&mut self, preempt: Option<bool>) {
        self.prepare(Self { kernels_preempt: preempt, ..Self::default() });
    }

    /// Prepares for a step in which the kernel took a task from that CPU, or looked for one and took none.
    pub(crate) fn expect_pull(&mut self, from: Option<CpuId>) {
        self.prepare(Self { kernels_pull: from, ..Self::default() });
    }

    /// Prepares for a step whose decision is hidden.
    pub(crate) fn expect_nothing(&mut self) {
        self.prepare(Self::default());
    }
}

impl Decider for RecordedDecider {
    fn explains(&self) -> bool {
        self.reasons.is_some()
    }

    fn explain(&mut self, cpu: CpuId, reason: Reason) {
        if let Some(reasons) = &mut self.reasons {
            reasons.push((cpu, reason));
        }
    }

    fn pick(&mut self, pick: Pick, ours: TaskId) -> TaskId {
        self.picks.push((pick, ours));
        match self.outcome {
            Some(outcome) if !pick.delayed => outcome,
            _ => self.kernels_picks.pop_front().unwrap_or(ours),
        }
    }

    fn preempt(&mut self, _: Preemption, ours: bool) -> bool {
        // With groups a tick looks at each level.
        self.preempt = Some(self.preempt.unwrap_or(false) | ours);
        self.kernels_preempt.unwrap_or(ours)
    }

    /// Where the kernel placed it is seen only later; ours stands, and is compared then.
    fn place(&mut self, _: TaskId, ours: Vruntime) -> Vruntime {
        self.initial_place.take().unwrap_or(ours)
    }

    fn select_cpu(&mut self, _: TaskId, ours: CpuId) -> CpuId {
        ours
    }

    fn enqueues(&mut self) {
        self.enqueued += 1;
    }

    /// A group's sum of load changes on other CPUs at the same time, so that the kernel's weight stands.
    fn group_weight(&mut self, entity: EntityId, before: u64, ours: u64) -> u64 {
        let Some(expected) = &mut self.kernels_weights else { return ours };
        let next =
            expected.get_mut(&entity.0).filter(|weights| weights.front().is_some_and(|(at, _)| *at <= self.enqueued));
        let kernels = next.and_then(VecDeque::pop_front).map_or(before, |(_, weight)| weight);
        self.weights.push((ours, kernels));
        kernels
    }

    fn set_next(&mut self, entity: EntityId, vruntime: Vruntime, deadline: Vruntime) {
        self.next = Some((entity, vruntime, deadline));
    }

    /// Only the CPU is answered; the task that the kernel takes from it follows.
    fn pull(&mut self, pull: Pull, within: impl Fn(CpuId) -> bool) -> Option<CpuId> {
        self.pulls.push(pull);
        self.kernels_pull.filter(|from| within(*from))
    }
}
