//! Comparing our state and decisions with the recorded ones.

use schedlab_model::TaskId;
use schedlab_sched::{Pick, Vruntime};
use schedlab_trace::{Flags, Pid, Record, RecordKind};

use crate::level::Level;
use crate::queue_order::{first_is_before_running, is_before_running, queue_lines};
use crate::read::cursor::{Placement, PlacementClass, QueueClass, QueueView, Runtime, SetClass, SetView};
use crate::read::step::{Check, Coming, Look};
use crate::reconstruction::{CPU, Replayer};

impl Replayer<'_> {
    /// Our next, last and skip buddies. `previous` is about to be dequeued if it leaves, which ends its being one.
    pub(crate) fn buddies(&self, previous: TaskId, leaves: bool) -> [Pid; 3] {
        let gone = (leaves && previous != TaskId::IDLE).then(|| self.sched.task(previous).se);
        let queue = self.sched.cfs_rq(CPU);
        [queue.next, queue.last, queue.skip].map(|buddy| {
            let buddy = buddy.filter(|buddy| Some(*buddy) != gone);
            buddy.and_then(|buddy| self.task_of_entity(buddy)).map_or(0, |task| self.pid(task))
        })
    }

    /// Our queue in order.
    pub(crate) fn queue(&self) -> Vec<String> {
        queue_lines(&self.sched, &self.tasks, CPU)
    }

    fn expect_equal(&mut self, what: &'static str, equal: bool, ours: impl ToString, kernels: impl ToString) {
        if !equal {
            let queue = self.queue();
            self.differ(what, ours, kernels, &queue);
        }
    }

    /// Where the probes do not show why the kernel rescheduled, its word stands.
    pub(crate) fn compare_need_resched(&mut self, flags: Flags) {
        let (ours, kernels) = (self.sched.need_resched(CPU), flags.wants_resched());
        let equal = self.report.state.need_resched.add(ours == kernels);
        self.expect_equal("need_resched", equal, ours, kernels);
        if self.report.level != Level::L1 {
            self.sched.assume_need_resched(CPU, kernels);
            if kernels && !flags.need_resched {
                self.sched.assume_need_resched_lazy(CPU);
            }
        }
    }

    pub(crate) fn compare_vruntime(&mut self, ours: u64, kernels: u64) {
        let equal = self.report.state.vruntime.add(ours, kernels);
        self.expect_equal("vruntime", equal, ours, kernels);
    }

    fn compare_deadline(&mut self, ours: u64, kernels: u64) {
        let equal = self.report.state.deadline.add(ours, kernels);
        self.expect_equal("deadline", equal, ours, kernels);
    }

    fn compare_min_vruntime(&mut self, kernels: u64) {
        let ours = self.sched.cfs_rq(CPU).min_vruntime.0;
        let equal = self.report.state.min_vruntime.add(ours, kernels);
        self.expect_equal("min_vruntime", equal, ours, kernels);
    }

    /// Before a step: what the first `update_curr` in it saw of the task that it was to charge.
    pub(crate) fn compare_charged(&mut self, recorded: &[Record]) {
        let (Some(first), Some(last)) = (recorded.first(), recorded.last()) else { return };
        // Those of earlier steps charged nothing.
        let passed = self.charges.partition_point(|charge| charge.line <= self.compared_to);
        self.charges = &self.charges[passed..];
        self.compared_to = last.line;
        let until =
            recorded.iter().find(|record| matches!(record.kind, RecordKind::StatRuntime { .. })).unwrap_or(first);
        let Some(charge) = self.charges.first().copied().filter(|charge| charge.line <= until.line) else { return };
        let running = self.sched.curr(CPU);
        if self.task_of(charge.pid) != Some(running) || self.running_unseen {
            return;
        }
        let entity = self.sched.entity(running);
        let (vruntime, deadline) = (entity.vruntime.0, entity.deadline.0);
        self.compare_vruntime(vruntime, charge.vruntime);
        if let Some(kernels) = charge.deadline {
            self.compare_deadline(deadline, kernels);
        }
    }

    /// After `update_curr`: the charged task's virtual time, where this kernel records it.
    pub(crate) fn compare_charge(&mut self, runtime: Option<Runtime>) {
        if let Some(Runtime { pid, vruntime: Some(kernels), .. }) = runtime
            && !self.running_unseen
            // What a task of a higher class shows for a virtual time is none.
            && let Some(task) = self.task_of(pid).filter(|task| self.is_fair(*task))
        {
            let ours = self.sched.entity(task).vruntime.0;
            self.compare_vruntime(ours, kernels);
            if self.report.level == Level::L1 {
                return;
            }
            self.score_placement_since(task, ours, kernels);
        }
    }

    /// Without probes what is next seen of a task tells where it came in, the time since then being known.
    fn score_placement_since(&mut self, task: TaskId, ours: u64, kernels: u64) {
        if let Some(naive) = self.placed.remove(&task) {
            let moved = ours.wrapping_sub(self.placed_at.remove(&task).unwrap_or(ours));
            let placed = kernels.wrapping_sub(moved);
            self.report.decisions.placement.add(ours == kernels, naive == placed);
        }
    }

    /// Before it is queued: what a task kept over its sleep. A new one has no past of its own.
    pub(crate) fn compare_sleeper(&mut self, task: TaskId, coming: Coming, placement: Placement) {
        if coming == Coming::New {
            return;
        }
        let entity = self.sched.entity(task);
        let (vruntime, our_deadline, our_lag) = (entity.vruntime.0, entity.deadline.0, entity.vlag);
        self.compare_vruntime(vruntime, placement.vruntime);
        if self.report.level != Level::L1 {
            self.score_placement_since(task, vruntime, placement.vruntime);
        }
        let PlacementClass::Eevdf { deadline, lag, .. } = placement.class else { return };
        if self.see_running(task, deadline) {
            return;
        }
        self.compare_deadline(our_deadline, deadline);
        // Lag is measured anew as a delayed task is queued again.
        if coming == Coming::Woken {
            let equal = self.report.state.lag.add(our_lag as u64, lag as u64);
            self.expect_equal("lag", equal, our_lag, lag);
        }
    }

    /// First sight of the deadline of the task that ran as the recording began: taken, not compared. While the task waits in the
    /// timeline, which deadlines order, it stays unseen.
    fn see_running(&mut self, task: TaskId, deadline: u64) -> bool {
        let first = self.running_unseen && self.eevdf() && self.pid(task) == self.sight.running;
        let waits = self.sched.entity(task).on_rq && self.sched.curr(CPU) != task;
        if first && !waits {
            self.running_unseen = false;
            self.sched.entity_mut(task).deadline = Vruntime(deadline);
        }
        first
    }

    /// After a placement: the queue it was made in.
    pub(crate) fn compare_placement_queue(&mut self, placement: Placement) {
        if let PlacementClass::Cfs { min_vruntime } = placement.class {
            self.compare_min_vruntime(min_vruntime);
        }
    }

    /// After `set_next_entity`: the task's virtual time and deadline, which also tell where it was placed.
    pub(crate) fn compare_set(&mut self, set: Option<SetView>) {
        let Some(SetView { pid, vruntime, class }) = set else { return };
        let Some(task) = self.task_of(pid) else { return };
        let entity = self.sched.entity(task);
        let (ours, our_deadline, our_slice) = (entity.vruntime.0, entity.deadline.0, entity.slice);
        self.compare_vruntime(ours, vruntime);
        if let Some(naive) = self.placed.remove(&task) {
            self.report.decisions.placement.add(ours == vruntime, naive == vruntime);
        }
        match class {
            SetClass::Cfs { min_vruntime } => self.compare_min_vruntime(min_vruntime),
            SetClass::Eevdf { deadline, slice } => {
                if !self.see_running(task, deadline) {
                    self.compare_deadline(our_deadline, deadline);
                }
                let equal = self.report.state.slice.add(our_slice, slice);
                self.expect_equal("slice", equal, our_slice, slice);
            }
        }
    }

    /// After a schedule: what the last look at the queue saw. Since then the picked task came off the timeline and the previous one
    /// went onto it.
    pub(crate) fn compare_look(&mut self, look: &Look, buddies: [Pid; 3], previous: TaskId, next: TaskId) {
        let QueueView { running, next: kernels_next, class } = look.queue;
        let queue = self.sched.cfs_rq(CPU);
        // The task that the look itself dequeued was still there.
        let ours = queue.nr_running + u32::from(look.delayed.is_some());
        let equal = self.report.state.nr_running.add(ours == running);
        self.expect_equal("nr_running", equal, ours, running);
        match class {
            QueueClass::Cfs { min_vruntime, weight, last, skip } => {
                self.compare_min_vruntime(min_vruntime);
                let ours = self.sched.cfs_rq(CPU).load.scaled;
                let equal = self.report.state.load.add(ours == weight);
                self.expect_equal("load", equal, ours, weight);
                let kernels = [kernels_next, last, skip];
                let equal = self.report.state.buddies.add(buddies == kernels);
                self.expect_equal("buddies", equal, format!("{buddies:?}"), format!("{kernels:?}"));
            }
            QueueClass::Eevdf { .. } => {
                if look.delayed.is_some() {
                    return;
                }
                let changed = |task: &TaskId| previous != next && self.is_fair(*task) && self.sched.entity(*task).on_rq;
                let came = Some(next).filter(changed).map(|next| (next, 1));
                let left = Some(previous).filter(changed).map(|previous| (previous, -1));
                let swapped: Vec<(TaskId, i64)> = came.into_iter().chain(left).collect();
                self.compare_sum(look.queue, &swapped);
            }
        }
    }

    /// The queue's weighted sum of virtual times, with `others` added to (1) or taken out of (−1) what is in our timeline.
    ///
    /// Ours is counted from where the kernel's is.
    fn compare_sum(&mut self, view: QueueView, others: &[(TaskId, i64)]) {
        let QueueClass::Eevdf { zero, average, load } = view.class else { return };
        let others = others.iter().map(|(task, sign)| (self.sched.entity(*task), *sign));
        let (ours, ours_load) = self.sched.cfs_rq(CPU).sums_about(Vruntime(zero), others, self.sched.rules());
        let equal = self.report.state.avg_vruntime.add(ours == average);
        self.expect_equal("avg_vruntime", equal, ours, average);
        let equal = self.report.state.load.add(u64::try_from(ours_load) == Ok(load));
        self.expect_equal("load", equal, ours_load, load);
    }

    /// After a schedule: each look's pick; `queue` is ours before it.
    pub(crate) fn score_picks(&mut self, kernels: &[TaskId], queue: &[String]) {
        let ours = std::mem::take(&mut self.sched.decider.picks);
        if ours.len() != kernels.len() {
            return self.differ("pick", format!("{} looks", ours.len()), format!("{} looks", kernels.len()), queue);
        }
        for ((pick, ours), kernels) in ours.into_iter().zip(kernels.iter().copied()) {
            self.score_pick(pick, ours, kernels, queue);
        }
    }

    /// After a schedule of which only the outcome is recorded; `queue` is ours before it.
    pub(crate) fn score_outcome(&mut self, kernels: TaskId, queue: &[String]) {
        let ours = std::mem::take(&mut self.sched.decider.picks);
        let Some((pick, ours)) = ours.last().copied().filter(|_| self.is_fair(kernels)) else { return };
        self.score_pick(pick, ours, kernels, queue);
    }

    fn score_pick(&mut self, pick: Pick, ours: TaskId, kernels: TaskId, queue: &[String]) {
        if ours != kernels {
            self.differ("pick", self.pid(ours), self.pid(kernels), queue);
        }
        if pick.candidates < 2 {
            return;
        }
        if self.running_unseen {
            self.report.decisions.pick.unverifiable += 1;
        } else {
            self.report.decisions.pick.add(ours == kernels, pick.naive == kernels);
        }
    }

    /// After a tick.
    pub(crate) fn score_tick(&mut self, resched: bool) {
        match self.sched.decider.preempt {
            Some(_) if self.slice_unknown_matters() || self.running_unseen => {
                self.report.decisions.tick.unverifiable += 1;
            }
            Some(ours) => {
                let naive = first_is_before_running(&self.sched, self.sched.curr(CPU));
                self.report.decisions.tick.add(ours == resched, naive == resched);
                self.expect_equal("tick", ours == resched, ours, resched);
            }
            None => self.expect_equal("tick", !resched, "not looked at", "preempts"),
        }
    }

    /// CFS compares what the running task ran since it was picked, which a recording does not tell of the first one.
    fn slice_unknown_matters(&self) -> bool {
        !self.eevdf() && self.slice_unknown == Some(self.sched.curr(CPU))
    }

    /// After `check_preempt_wakeup`. With need_resched set before it there was nothing to decide.
    pub(crate) fn score_wakeup(&mut self, check: Check) {
        if let Some(view) = check.queue {
            self.compare_sum(view, &[]);
        }
        // Nor where another class is concerned, or the CPU idles.
        let woken = self.task_of(check.woken);
        if check.need_resched || !self.is_fair(self.sched.curr(CPU)) || !woken.is_some_and(|woken| self.is_fair(woken))
        {
            return;
        }
        if self.running_unseen {
            self.report.decisions.wakeup.unverifiable += 1;
            return;
        }
        let Some(kernels) = check.resched else { return };
        // Not asked means that the rules see nothing to decide: they do not preempt.
        let ours = self.sched.decider.preempt.unwrap_or(false);
        if self.report.level != Level::L1 && self.eevdf() && !ours && self.sched.need_resched(CPU) {
            // The task that was charged before that has used up its slice: what else was decided is hidden.
            return;
        }
        let naive = woken.is_some_and(|woken| is_before_running(&self.sched, woken, self.sched.curr(CPU)));
        self.report.decisions.wakeup.add(ours == kernels, naive == kernels);
        self.expect_equal("wakeup", ours == kernels, ours, kernels);
    }
}
