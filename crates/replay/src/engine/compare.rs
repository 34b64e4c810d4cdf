//! State: what probes show before a sequence acts, and what it came to.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{CpuId, TaskId, Time};
use schedlab_sched::pelt::SchedAvg;
use schedlab_sched::{CfsRqId, DlState, EntityId, Vruntime};
use schedlab_trace::{Pid, Record, RecordKind};

use super::Engine;
use crate::read::section::{Entry, Of, What};

/// A queue as the kernel last looked at it in a section, with our current task before the section and the next, last and skip buddies.
pub(super) struct Looked<'a> {
    queue: CfsRqId,
    running: Option<EntityId>,
    buddies: [Option<EntityId>; 3],
    /// A delayed task was taken off after it.
    dequeued_delayed: bool,
    record: &'a Record,
}

/// What a step has shown already: only what it shows first is of the state before it.
#[derive(Debug, Default)]
struct Seen {
    entities: BTreeSet<u32>,
    /// By queue, the runtime left of a quota.
    queues: BTreeSet<u32>,
    loads: BTreeSet<u32>,
    queue_loads: BTreeSet<u32>,
    deadlines: BTreeSet<u32>,
    real_time: bool,
    server: bool,
}

impl<'a> Engine<'a> {
    pub(super) fn compare_need_resched(&mut self, cpu: CpuId, record: &Record) {
        let kernels = record.flags.need_resched || record.flags.need_resched_lazy;
        let ours = self.sched.need_resched(cpu);
        let running = self.sched.curr(cpu);
        if ours && !kernels && !self.is_fair(running) {
            // No other record shows that a real-time or deadline task, or the idle task, is picked again.
            return self.schedule_again(cpu, running, record);
        }
        let equal = self.report.state.need_resched.add(ours == kernels);
        self.expect_equal(cpu, "need_resched", equal, ours, kernels);
    }

    /// What is shown of the state before the step, which is about the queues of `cpu`.
    pub(super) fn compare_before(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        if !step.iter().any(|entry| matches!(entry.what, What::Move | What::Parameters)) {
            self.learn_queues(cpu, step);
        }
        if !self.compares() {
            return;
        }
        let new = step.iter().any(|entry| entry.what == What::WakeupNew);
        let mut seen = Seen::default();
        for entry in step {
            let record = entry.record;
            match entry.what {
                What::UpdateCurr => {
                    let Some(se) = self.entity_of(record) else { continue };
                    let queue = self.sched.queue(self.sched.entity_at(se).cfs_rq);
                    let runs = queue.level_curr() == Some(se) || queue.curr == Some(se);
                    if seen.entities.insert(se.0) && runs {
                        self.compare_entity(cpu, se, record);
                    }
                }
                What::Place => {
                    let Some(se) = self.entity_of(record) else { continue };
                    if seen.entities.insert(se.0) && self.has_past(se, new) {
                        self.compare_sleeper(cpu, se, record);
                    }
                }
                What::Reweight | What::DequeueEntities => {
                    let Some(se) = self.entity_of(record) else { continue };
                    // A delayed task that was dequeued during the section has changed since.
                    if self.alone() || entry.what == What::Reweight || self.sched.entity_at(se).sched_delayed {
                        seen.entities.insert(se.0);
                    }
                }
                What::Account | What::Throttle => {
                    let queue = record.number("cfs").and_then(|address| self.groups.queue(address));
                    if let Some(queue) = queue
                        && seen.queues.insert(queue.0)
                        && let Some(kernels) = self.left_before(queue, step)
                    {
                        self.compare_budget(cpu, self.sched.queue(queue).runtime_remaining, kernels);
                    }
                }
                // It is let go because it got some runtime in this step.
                What::Unthrottle => {
                    let queue = record.number("cfs").and_then(|address| self.groups.queue(address));
                    seen.queues.extend(queue.map(|queue| queue.0));
                }
                _ if &*record.event == "k_lase" => self.compare_task_load(cpu, record, &mut seen),
                _ if &*record.event == "k_lacfs" => self.compare_queue_load(cpu, record, &mut seen),
                _ if self.alone() => self.compare_higher_classes(cpu, entry, step, &mut seen),
                _ => {}
            }
        }
    }

    /// What is shown of real-time and deadline tasks and of the fair server, before the step.
    fn compare_higher_classes(&mut self, cpu: CpuId, entry: &Entry<'a>, step: &[Entry<'a>], seen: &mut Seen) {
        let record = entry.record;
        match entry.what {
            What::RtCharge if !std::mem::replace(&mut seen.real_time, true) => self.compare_rt(cpu, record),
            What::Tick => self.compare_time_slice(cpu, record),
            What::ServerCharge | What::ServerStart
                if record.number("srv") != Some(0) && !std::mem::replace(&mut seen.server, true) =>
            {
                // Starting it asks for a schedule, unless it is started.
                let starts = entry.what == What::ServerStart && super::start::has(step, What::Resched);
                self.compare_server(cpu, record, !starts);
            }
            What::DlTimer
                if record.number("srv") == Some(1)
                    && self.cpus[cpu.index()].server_known
                    && !std::mem::replace(&mut seen.server, true) =>
            {
                self.compare_server(cpu, record, true);
            }
            // A server's comes above.
            What::DlCharge
            | What::DlTimer
            | What::ServerCharge
            | What::Enqueue(Of::Deadline)
            | What::Dequeue(Of::Deadline) => {
                let Some(task) = entry.pid().and_then(|pid| self.task_of(pid)) else { return };
                if task != TaskId::IDLE && seen.deadlines.insert(task.0) {
                    self.compare_deadline_task(cpu, task, record);
                }
            }
            _ => {}
        }
    }

    /// Whether an entity that is placed was on this queue before: a new task has no past of its own, and one on its way to another CPU's
    /// queue has left its old one's virtual time.
    fn has_past(&self, se: EntityId, new: bool) -> bool {
        let Some(task) = self.task_of_entity(se) else { return true };
        !new && ![&self.newborn, &self.migrating, &self.detached].into_iter().any(|tasks| tasks.contains(&task))
    }

    fn compare_task_load(&mut self, cpu: CpuId, record: &Record, seen: &mut Seen) {
        let task = record.number("pid").and_then(|pid| self.task_of(pid as Pid));
        let Some(task) = task.filter(|task| self.is_fair(*task) && self.verifiable(*task)) else { return };
        if seen.loads.insert(task.0)
            && let Some(ours) = self.sched.load_of(task)
        {
            self.compare_load(cpu, "load of task", ours, record);
        }
    }

    fn compare_queue_load(&mut self, cpu: CpuId, record: &Record, seen: &mut Seen) {
        if record.number("cpu") != Some(u64::from(cpu.0)) {
            return;
        }
        let queue = record.number("cfs").and_then(|address| self.groups.queue(address));
        if let Some(queue) = queue
            && seen.queue_loads.insert(queue.0)
            && let Some(ours) = self.sched.load_left_on(queue)
        {
            self.compare_load(cpu, "load of queue", ours, record);
        }
    }

    /// The three averages, each in parts of what a CPU's capacity, or the kernel's own value if that is more, is.
    fn compare_load(&mut self, cpu: CpuId, what: &'static str, ours: SchedAvg, record: &Record) {
        let pairs = [("la", ours.load_avg), ("ra", ours.runnable_avg), ("ua", ours.util_avg)];
        for (key, ours) in pairs {
            let Some(kernels) = record.number(key) else { continue };
            if !self.report.state.pelt.add(ours, kernels) {
                self.differ(cpu, what, format!("{key} {ours}"), kernels);
            }
        }
    }

    fn compare_vruntime(&mut self, cpu: CpuId, se: EntityId, ours: Vruntime, kernels: u64) {
        if self.is_doubtful(se) {
            return;
        }
        let equal = self.report.state.vruntime.add(ours.0, kernels);
        if self.sched.entity_at(se).my_q.is_some() {
            self.report.state.group_vruntime.add(ours.0, kernels);
        }
        self.expect_equal(cpu, "vruntime", equal, ours.0, kernels);
    }

    /// Whether the entity's state was never told.
    fn is_doubtful(&self, se: EntityId) -> bool {
        self.task_of_entity(se).is_some_and(|task| self.guessed.contains(&task))
    }

    fn compare_entity(&mut self, cpu: CpuId, se: EntityId, record: &Record) {
        let entity = self.sched.entity_at(se);
        let (vruntime, deadline, start) = (entity.vruntime, entity.deadline, entity.exec_start);
        if let Some(kernels) = record.number("vr") {
            self.compare_vruntime(cpu, se, vruntime, kernels);
        }
        if let Some(kernels) = record.number("dl").filter(|_| !self.is_doubtful(se)) {
            let equal = self.report.state.deadline.add(deadline.0, kernels);
            self.expect_equal(cpu, "deadline", equal, deadline.0, kernels);
        }
        if let Some(kernels) = record.number("xs") {
            let equal = self.report.state.exec_start.add(start, kernels);
            self.expect_equal(cpu, "exec_start", equal, start, kernels);
        }
    }

    /// What an entity kept while it was off its queue.
    fn compare_sleeper(&mut self, cpu: CpuId, se: EntityId, record: &Record) {
        let entity = self.sched.entity_at(se);
        let (vruntime, deadline, lag) = (entity.vruntime, entity.deadline, entity.vlag);
        let (on_rq, relative) = (entity.on_rq, entity.rel_deadline);
        // Taken off within the section, or being made.
        if on_rq && !entity.sched_delayed || record.word("init") == Some("1") {
            return;
        }
        let delayed = entity.sched_delayed;
        if let Some(kernels) = record.number("vr") {
            self.compare_vruntime(cpu, se, vruntime, kernels);
        }
        // With a single timeline a task's part of its groups may be another one by now, and lag and deadline with it (`reweight_eevdf`).
        let rescaled = self.sched.rules().single_timeline && self.sched.entity_at(se).parent.is_some();
        if !self.eevdf() || self.is_doubtful(se) || rescaled {
            return;
        }
        if let Some(kernels) = record.number("dl") {
            let equal = self.report.state.deadline.add(deadline.0, kernels);
            self.expect_equal(cpu, "deadline", equal, deadline.0, format!("{kernels} (relative: {relative})"));
        }
        if let Some(kernels) = record.signed("vlag").filter(|_| !delayed) {
            let equal = self.report.state.lag.add(lag as u64, kernels as u64);
            self.expect_equal(cpu, "lag", equal, lag, kernels);
        }
    }

    pub(super) fn compare_budget(&mut self, cpu: CpuId, ours: i64, kernels: i64) {
        let equal = self.report.state.budgets.add(ours as u64, kernels as u64);
        self.expect_equal(cpu, "budget", equal, ours, kernels);
    }

    pub(super) fn compare_throttled(&mut self, cpu: CpuId, ours: bool, kernels: bool) {
        let equal = self.report.state.throttling.add(ours == kernels);
        self.expect_equal(cpu, "throttled", equal, ours, kernels);
    }

    fn compare_rt(&mut self, cpu: CpuId, record: &Record) {
        let (Some(ours), Some(kernels)) = (self.sched.rt_state(cpu), record.number("rtt")) else { return };
        if !std::mem::replace(&mut self.cpus[cpu.index()].rt_known, true) {
            self.sched.assume_rt_time(cpu, kernels);
            let running = self.sched.curr(cpu);
            if let Some(start) = record.number("xs").filter(|_| running != TaskId::IDLE) {
                self.sched.entity_mut(running).exec_start = start;
            }
            return;
        }
        self.compare_budget(cpu, ours.time as i64, kernels as i64);
        if let Some(kernels) = record.number("thr") {
            self.compare_throttled(cpu, ours.throttled, kernels & 1 != 0);
        }
    }

    fn compare_time_slice(&mut self, cpu: CpuId, record: &Record) {
        let running = self.sched.curr(cpu);
        if let Some(kernels) = record.number("ts")
            && running != TaskId::IDLE
            && !self.is_fair(running)
        {
            let ours = u64::from(self.sched.time_slice(running));
            let equal = self.report.state.time_slice.add(ours == kernels);
            self.expect_equal(cpu, "time_slice", equal, ours, kernels);
        }
    }

    fn compare_server(&mut self, cpu: CpuId, record: &Record, started: bool) {
        let (Some(runtime), Some(deadline)) = (record.signed("rt"), record.number("dl")) else { return };
        let Some(ours) = self.sched.fair_server_state(cpu) else { return };
        if !std::mem::replace(&mut self.cpus[cpu.index()].server_known, true) {
            let told = |key| record.number(key).is_some_and(|flag| flag & 1 != 0);
            let deadline = Time::from_nanos(deadline);
            let state = DlState { runtime, deadline, throttled: told("thr"), overruns: 0 };
            self.sched.assume_fair_server(cpu, state, started, told("run"));
            self.cpus[cpu.index()].server_timer =
                self.sched.fair_server_timer(cpu).and_then(|timer| self.sched.armed(timer));
            return;
        }
        // Before it starts on an idle CPU the idle time is taken off, which ours does on the way.
        let idle = self.sched.curr(cpu) == TaskId::IDLE;
        if !(idle && record.number("srv").is_none()) {
            self.compare_budget(cpu, ours.runtime, runtime);
        }
        self.compare_budget(cpu, ours.deadline.as_nanos() as i64, deadline as i64);
        if let Some(kernels) = record.number("thr") {
            self.compare_throttled(cpu, ours.throttled, kernels & 1 != 0);
        }
    }

    fn compare_deadline_task(&mut self, cpu: CpuId, task: TaskId, record: &Record) {
        let Some(ours) = self.sched.dl_state(task) else { return };
        if let Some(kernels) = record.signed("rt") {
            self.compare_budget(cpu, ours.runtime, kernels);
        }
        if let Some(kernels) = record.signed("dl") {
            self.compare_budget(cpu, ours.deadline.as_nanos() as i64, kernels);
        }
        if let Some(kernels) = record.number("thr") {
            self.compare_throttled(cpu, ours.throttled, kernels & 1 != 0);
        }
    }

    /// Compares what is shown of the state after the section: the task that was set, and where an enqueued one was placed.
    pub(super) fn compare_after(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        self.learn_queues(cpu, section);
        if !self.compares() {
            return;
        }
        for entry in section.iter().filter(|entry| matches!(entry.what, What::Set | What::SetTask)) {
            let record = entry.record;
            let se = match entry.what {
                What::Set => self.entity_of(record),
                _ => {
                    let task = entry.pid().and_then(|pid| self.task_of(pid)).filter(|task| *task != TaskId::IDLE);
                    task.map(|task| self.sched.task(task).se)
                }
            };
            let Some(se) = se else { continue };
            let entity = self.sched.entity_at(se);
            let slice = entity.slice;
            let (vruntime, deadline) = match self.sched.decider.next {
                Some((next, vruntime, deadline)) if next == se => (vruntime, deadline),
                _ => (entity.vruntime, entity.deadline),
            };
            let Some(kernels) = record.number("vr") else { continue };
            self.compare_vruntime(cpu, se, vruntime, kernels);
            if let Some(naive) = self.task_of_entity(se).and_then(|task| self.placed.remove(&task)) {
                self.report.decisions.placement.add(vruntime.0 == kernels, naive == kernels);
            }
            if self.is_doubtful(se) {
                continue;
            }
            if let Some(kernels) = record.number("dl") {
                let equal = self.report.state.deadline.add(deadline.0, kernels);
                self.expect_equal(cpu, "deadline", equal, deadline.0, kernels);
            }
            if let Some(kernels) = record.number("sl") {
                let equal = self.report.state.slice.add(slice, kernels);
                self.expect_equal(cpu, "slice", equal, slice, kernels);
            }
        }
        if self.alone() {
            self.compare_charges(cpu, section);
        }
        let mut ends = BTreeMap::new();
        for (at, entry) in section.iter().enumerate() {
            let Some(address) = entry.record.number("cfs") else { continue };
            let Some(queue) = self.groups.queue(address) else { continue };
            match entry.what {
                What::Unthrottle if !self.sched.rules().throttles_tasks => ends.insert(queue.0, (queue, false)),
                // The task that runs there may have used up the new runtime meanwhile.
                What::Throttle | What::Unthrottle if self.alone() => {
                    let throttled = is_throttled_from(address, section[at + 1..].iter().chain(self.ahead));
                    throttled.and_then(|throttled| ends.insert(queue.0, (queue, throttled)))
                }
                _ => None,
            };
        }
        for (queue, kernels) in ends.into_values() {
            self.compare_throttled(cpu, self.sched.queue(queue).throttled, kernels);
        }
    }

    /// The virtual time that a charge came to, and the queue's least one as a task was placed or set (CFS).
    fn compare_charges(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        for entry in section {
            let record = entry.record;
            match (entry.what, &record.kind) {
                (_, RecordKind::StatRuntime { pid, vruntime: Some(kernels), .. }) => {
                    // What a task of a higher class shows for a virtual time is none, and one that changes is placed anew.
                    let anew = |entry: &Entry<'a>| matches!(entry.what, What::Enqueue(_)) && entry.pid() == Some(*pid);
                    let fair = self.task_of(*pid).filter(|task| self.is_fair(*task));
                    let Some(task) = fair.filter(|_| !section.iter().any(anew)) else { continue };
                    let se = self.sched.task(task).se;
                    self.compare_vruntime(cpu, se, self.sched.entity_at(se).vruntime, *kernels);
                }
                (What::Place | What::Set, _) => {
                    let queue = record.number("cfs").and_then(|address| self.groups.queue(address));
                    if let (Some(queue), Some(kernels)) = (queue, record.number("minv")) {
                        let least = self.sched.queue(queue).min_vruntime.0;
                        let equal = self.report.state.min_vruntime.add(least, kernels);
                        self.expect_equal(cpu, "min_vruntime", equal, least, kernels);
                    }
                }
                _ => {}
            }
        }
    }

    /// The queues that a pick looks at, with their current tasks before; `left` is about to be taken off.
    pub(super) fn queues_before(&mut self, section: &[Entry<'a>], left: Option<EntityId>) -> Vec<Looked<'a>> {
        let mut looked: Vec<Looked<'a>> = Vec::new();
        // A queue that is throttled or emptied after the look is another one then.
        if !self.compares() || section.iter().any(|entry| matches!(entry.what, What::Throttle | What::Unthrottle)) {
            return looked;
        }
        for (at, entry) in section.iter().enumerate().filter(|(_, entry)| entry.what == What::Pick) {
            let queue = entry.record.number("cfs").and_then(|address| self.groups.queue(address));
            let Some(queue) = queue else { continue };
            looked.retain(|earlier| earlier.queue != queue);
            let ours = self.sched.queue(queue);
            // A task that leaves is no buddy any more as the kernel looks.
            let buddies = [ours.next, ours.last, ours.skip].map(|buddy| buddy.filter(|buddy| Some(*buddy) != left));
            let dequeued_delayed = section[at..].iter().any(|entry| self.takes_off_delayed(entry));
            looked.push(Looked { queue, running: ours.curr, buddies, dequeued_delayed, record: entry.record });
        }
        looked
    }

    /// What the last look at each queue saw, against ours now: since then the task picked there came off the timeline, and the previous
    /// one went onto it.
    pub(super) fn compare_looks(&mut self, cpu: CpuId, looked: &[Looked<'a>]) {
        for Looked { queue, running, buddies, dequeued_delayed, record } in looked {
            let ours = self.sched.queue(*queue);
            let (now, tasks) = (ours.curr, ours.nr_running);
            if let Some(kernels) = record.number("nr").filter(|_| !*dequeued_delayed) {
                let equal = self.report.state.nr_running.add(u64::from(tasks) == kernels);
                self.expect_equal(cpu, "nr_running", equal, tasks, kernels);
            }
            if let Some(kernels) = record.number("lw") {
                let load = self.sched.queue(*queue).load.scaled;
                let equal = self.report.state.load.add(load == kernels);
                self.expect_equal(cpu, "load", equal, load, kernels);
            }
            if let Some(kernels) = record.number("minv") {
                let least = self.sched.queue(*queue).min_vruntime.0;
                let equal = self.report.state.min_vruntime.add(least, kernels);
                self.expect_equal(cpu, "min_vruntime", equal, least, kernels);
            }
            if self.eevdf() && !*dequeued_delayed {
                self.compare_sum(cpu, *queue, *running, now, record);
            }
            self.compare_buddies(cpu, *buddies, record);
        }
    }

    /// The buddies that a look shows (CFS): tasks alone have numbers.
    fn compare_buddies(&mut self, cpu: CpuId, buddies: [Option<EntityId>; 3], record: &Record) {
        let kernels = ["next", "last", "skip"].map(|key| record.number(key).map(|pid| pid as Pid));
        let [Some(next), Some(last), Some(skip)] = kernels else { return };
        if buddies.into_iter().flatten().any(|buddy| self.task_of_entity(buddy).is_none()) {
            return;
        }
        let pid = |buddy: Option<EntityId>| {
            buddy.and_then(|buddy| self.task_of_entity(buddy)).map_or(0, |task| self.pid(task))
        };
        let (ours, kernels) = (buddies.map(pid), [next, last, skip]);
        let equal = self.report.state.buddies.add(ours == kernels);
        self.expect_equal(cpu, "buddies", equal, format!("{ours:?}"), format!("{kernels:?}"));
    }

    /// What the look at a queue for a wakeup preemption saw: no task was taken from it.
    pub(super) fn compare_looks_of_wakeup(&mut self, cpu: CpuId, section: &[Entry<'a>]) {
        if section.iter().any(|entry| self.takes_off_delayed(entry)) {
            return;
        }
        let look = section.iter().rfind(|entry| entry.what == What::Pick);
        let queue = look.and_then(|look| self.groups.queue(look.record.number("cfs")?));
        if let (Some(look), Some(queue)) = (look, queue) {
            self.compare_sum(cpu, queue, None, None, look.record);
        }
    }

    fn compare_sum(
        &mut self,
        cpu: CpuId,
        queue: CfsRqId,
        before: Option<EntityId>,
        now: Option<EntityId>,
        record: &Record,
    ) {
        let (Some(zero), Some(average), Some(load)) = (record.number("zv"), record.signed("av"), record.signed("al"))
        else {
            return;
        };
        // With a single timeline a task's part of its groups is another one once it runs or waits again, and its weight in V with it.
        let in_group = |se: Option<EntityId>| se.is_some_and(|se| self.sched.entity_at(se).parent.is_some());
        if self.sched.rules().single_timeline && before != now && (in_group(before) || in_group(now)) {
            return;
        }
        let swapped = [(now, 1), (before, -1)].into_iter().filter(|_| before != now);
        let queued = swapped.filter_map(|(se, sign)| Some((self.sched.entity_at(se?), sign)));
        let others = queued.filter(|(entity, _)| entity.on_rq);
        let (sum, our_load) = self.sched.queue(queue).sums_about(Vruntime(zero), others, self.sched.rules());
        let equal = self.report.state.avg_vruntime.add(sum == average);
        self.expect_equal(cpu, "avg_vruntime", equal, sum, average);
        let equal = self.report.state.load.add(our_load == load);
        self.expect_equal(cpu, "load", equal, our_load, load);
    }
}

/// Whether `throttle_cfs_rq` throttled a queue, or found some runtime after all, and whether `unthrottle_cfs_rq` let it go: a throttled one is unthrottled before it is asked for
/// again. None where the recording ends before that.
fn is_throttled_from<'a>(address: u64, mut later: impl Iterator<Item = &'a Entry<'a>>) -> Option<bool> {
    let concerns = |entry: &&Entry<'_>| {
        matches!(entry.what, What::Throttle | What::Unthrottle) && entry.record.number("cfs") == Some(address)
    };
    later.find(concerns).map(|entry| entry.what == What::Unthrottle)
}
