//! Comparing our state and decisions with the recorded ones.

use schedlab_model::TaskId;
use schedlab_trace::Pid;

use crate::replayer::{CPU, Replayer};
use crate::step::{Check, PickProbe, Runtime, SetProbe};

impl Replayer<'_> {
    /// Our next, last and skip buddies; the entity of `gone` is about to be dequeued, which ends its being one.
    pub(crate) fn buddies(&self, gone: Option<TaskId>) -> [Pid; 3] {
        let gone = gone.map(|task| self.sched.task(task).se);
        let queue = self.sched.cfs_rq(CPU);
        [queue.next, queue.last, queue.skip].map(|buddy| {
            let buddy = buddy.filter(|buddy| Some(*buddy) != gone);
            buddy.and_then(|buddy| self.task_of_entity(buddy)).map_or(0, |task| self.pid(task))
        })
    }

    /// Our queue: the running task, then the others in order.
    pub(crate) fn queue(&self) -> Vec<String> {
        let queue = self.sched.cfs_rq(CPU);
        let entities = queue.curr.into_iter().chain(queue.timeline.iter());
        let line = |task: TaskId| {
            let entity = self.sched.entity(task);
            format!("{} {} {}", self.pid(task), entity.vruntime.0, entity.load.scaled)
        };
        entities.filter_map(|entity| self.task_of_entity(entity)).map(line).collect()
    }

    pub(crate) fn expect_equal(
        &mut self,
        what: &'static str,
        equal: bool,
        ours: impl ToString,
        kernels: impl ToString,
    ) {
        if !equal {
            let queue = self.queue();
            self.differ(what, ours, kernels, queue);
        }
    }

    pub(crate) fn compare_vruntime(&mut self, what: &'static str, ours: u64, kernels: u64) {
        if self.running_unseen() {
            return;
        }
        let equal = self.report.state.vruntime.add(ours, kernels);
        self.expect_equal(what, equal, ours, kernels);
    }

    pub(crate) fn compare_min_vruntime(&mut self, kernels: u64) {
        let ours = self.sched.cfs_rq(CPU).min_vruntime.0;
        let equal = self.report.state.min_vruntime.add(ours, kernels);
        self.expect_equal("min_vruntime", equal, ours, kernels);
    }

    /// After `update_curr`: the charged task's virtual time, where this kernel records it.
    pub(crate) fn compare_charge(&mut self, runtime: Option<Runtime>) {
        if let Some(Runtime { pid, vruntime: Some(kernels), .. }) = runtime
            && let Some(task) = self.task_of(pid)
        {
            let ours = self.sched.entity(task).vruntime.0;
            self.compare_vruntime("vruntime", ours, kernels);
        }
    }

    /// After `set_next_entity`: the task's virtual time, which also tells where it was placed.
    pub(crate) fn compare_set(&mut self, set: Option<SetProbe>) {
        let Some(SetProbe { pid, vruntime, min_vruntime }) = set else { return };
        self.compare_min_vruntime(min_vruntime);
        let Some(task) = self.task_of(pid) else { return };
        let ours = self.sched.entity(task).vruntime.0;
        self.compare_vruntime("vruntime", ours, vruntime);
        if let Some(naive) = self.take_placed(task) {
            self.report.decisions.placement.add(ours == vruntime, naive == vruntime);
        }
    }

    /// What `pick_next_entity` saw.
    pub(crate) fn compare_queue(&mut self, pick: PickProbe, buddies: [Pid; 3]) {
        self.compare_min_vruntime(pick.min_vruntime);
        let (running, weight) = {
            let queue = self.sched.cfs_rq(CPU);
            (queue.nr_running, queue.load.scaled)
        };
        let equal = self.report.state.nr_running.add(running == pick.running);
        self.expect_equal("nr_running", equal, running, pick.running);
        let equal = self.report.state.load.add(weight == pick.weight);
        self.expect_equal("load", equal, weight, pick.weight);
        let kernels = [pick.next, pick.last, pick.skip];
        let equal = self.report.state.buddies.add(buddies == kernels);
        self.expect_equal("buddies", equal, format!("{buddies:?}"), format!("{kernels:?}"));
    }

    pub(crate) fn compare_need_resched(&mut self, check: Check) {
        let ours = self.sched.need_resched(CPU);
        let equal = self.report.state.need_resched.add(ours == check.need_resched);
        self.expect_equal("need_resched", equal, ours, check.need_resched);
    }

    /// After a pick among several; `queue` is ours before it.
    pub(crate) fn score_pick(&mut self, kernels: Option<TaskId>, queue: Vec<String>) {
        let (Some((pick, ours)), Some(kernels)) = (self.sched.decider.pick, kernels) else {
            return self.differ("pick", "nobody to pick", "picks", queue);
        };
        if pick.candidates < 2 {
            if ours != kernels {
                self.differ("pick", self.pid(ours), self.pid(kernels), queue);
            }
            return;
        }
        if self.running_unseen() {
            self.report.decisions.pick.unverifiable += 1;
            return;
        }
        self.report.decisions.pick.add(ours == kernels, pick.naive == kernels);
        if ours != kernels {
            self.differ("pick", self.pid(ours), self.pid(kernels), queue);
        }
    }

    /// After `check_preempt_wakeup`. With need_resched set before it there was nothing to decide.
    pub(crate) fn score_wakeup(&mut self, check: Check, resched: bool) {
        if check.need_resched {
            return;
        }
        if self.running_unseen() {
            self.report.decisions.wakeup.unverifiable += 1;
            return;
        }
        // Not asked means that the rules see nothing to decide: they do not preempt.
        let ours = self.sched.decider.preempt.is_some_and(|(_, ours)| ours);
        let naive = self.task_of(check.woken).is_some_and(|woken| self.is_before_running(woken));
        self.report.decisions.wakeup.add(ours == resched, naive == resched);
        self.expect_equal("wakeup", ours == resched, ours, resched);
    }

    fn is_before_running(&self, task: TaskId) -> bool {
        let running = self.sched.curr(CPU);
        running != TaskId::IDLE && self.sched.entity(task).vruntime.before(self.sched.entity(running).vruntime)
    }

    /// The naive rule for ticks: whoever is leftmost should run.
    pub(crate) fn leftmost_is_before_running(&self) -> bool {
        let first = self.sched.cfs_rq(CPU).timeline.first().and_then(|entity| self.task_of_entity(entity));
        first.is_some_and(|first| self.is_before_running(first))
    }
}
