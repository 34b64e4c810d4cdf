//! State: what probes show before a sequence acts, and what it came to.

use std::collections::BTreeSet;

use schedlab_model::TaskId;
use schedlab_sched::{CfsRqId, DlState, EntityId, Vruntime};
use schedlab_trace::Record;

use super::{CPU, Classes, LOAD_SHIFT};
use crate::read::section::{Entry, What};

/// A queue as the kernel last looked at it in a section, and who ran there by ours before the section.
pub(super) struct Looked<'a> {
    queue: CfsRqId,
    running: Option<EntityId>,
    record: &'a Record,
}

impl<'a> Classes<'a> {
    /// Our queues, the top one first: the running entity, then the others in order.
    pub(super) fn queue_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.lines_of(self.sched.cfs_rq(CPU), 0, &mut lines);
        lines
    }

    fn lines_of(&self, queue: &schedlab_sched::CfsRq, depth: usize, lines: &mut Vec<String>) {
        for se in queue.curr.into_iter().chain(queue.timeline.iter()) {
            let entity = self.sched.entity_at(se);
            let deadline = if self.eevdf() { format!(" {}", entity.deadline.0) } else { String::new() };
            let lingers = if entity.sched_delayed { " lingers" } else { "" };
            let name = self.task_of_entity(se).map_or_else(|| "group".to_owned(), |task| self.pid(task).to_string());
            let indent = "  ".repeat(depth);
            lines.push(format!(
                "{indent}{name} {}{deadline} {}{lingers}",
                entity.vruntime.0,
                entity.load.scaled >> LOAD_SHIFT
            ));
            if let Some(below) = entity.my_q {
                self.lines_of(self.sched.queue(below), depth + 1, lines);
            }
        }
    }

    pub(super) fn compare_need_resched(&mut self, record: &Record) {
        let kernels = record.flags.need_resched || record.flags.need_resched_lazy;
        let ours = self.sched.need_resched(CPU);
        let running = self.sched.curr(CPU);
        if ours && !kernels && !self.is_fair(running) {
            // A real-time or deadline task that is picked again, or nobody once more, shows nowhere else.
            return self.schedule_again(running, record);
        }
        let equal = self.report.state.need_resched.add(ours == kernels);
        self.expect_equal("need_resched", equal, ours, kernels);
    }

    /// Our entity for the one a record concerns, where that can be told.
    fn entity_of(&mut self, record: &Record) -> Option<EntityId> {
        let [own, group] = ["se", "cse"].map(|key| record.number(key));
        let address = own.or(group).filter(|address| *address != 0)?;
        let owned = record.number("my").or_else(|| record.number("cmy")).unwrap_or(0);
        if owned == 0 {
            let task = record.number("pid").and_then(|pid| self.task_of(pid as u32))?;
            return (task != TaskId::IDLE).then(|| self.sched.task(task).se);
        }
        if let Some(known) = self.entities.get(&address) {
            return Some(*known);
        }
        let queue = *self.queues.get(&owned)?;
        let (_, se) = self.sched.ids_of_group(self.sched.queue(queue).group, CPU);
        let se = se?;
        self.entities.insert(address, se);
        Some(se)
    }

    /// Pairs the kernel's queues with ours: a task's queue is its group's.
    fn learn_queues(&mut self, section: &[Entry<'a>]) {
        // Before it moves it is on another one.
        let from = section.iter().rposition(|entry| entry.what == What::Move).unwrap_or(0);
        for entry in &section[from..] {
            let record = entry.record;
            if !matches!(entry.what, What::Place | What::Set | What::UpdateCurr) {
                continue;
            }
            let owned = record.number("my").or_else(|| record.number("cmy"));
            let (Some(0), Some(address)) = (owned, record.number("cfs")) else { continue };
            let Some(task) = record.number("pid").and_then(|pid| self.task_of(pid as u32)) else { continue };
            if task != TaskId::IDLE {
                self.queues.insert(address, self.sched.entity(task).cfs_rq);
            }
        }
    }

    /// What is shown of the state before the section.
    pub(super) fn compare_before(&mut self, section: &[Entry<'a>]) {
        if !section.iter().any(|entry| matches!(entry.what, What::Move | What::Parameters)) {
            self.learn_queues(section);
        }
        let new = section.iter().any(|entry| entry.what == What::WakeupNew);
        let mut seen = BTreeSet::new();
        let mut queues = BTreeSet::new();
        let (mut real_time, mut server) = (false, false);
        for entry in section {
            let record = entry.record;
            match entry.what {
                What::UpdateCurr => {
                    let Some(se) = self.entity_of(record) else { continue };
                    let runs = self.sched.queue(self.sched.entity_at(se).cfs_rq).curr == Some(se);
                    if seen.insert(se.0) && runs {
                        self.compare_entity(se, record);
                    }
                }
                What::Place => {
                    let Some(se) = self.entity_of(record) else { continue };
                    // A new task has no past of its own.
                    let past = !new || self.sched.entity_at(se).my_q.is_some();
                    if seen.insert(se.0) && past {
                        self.compare_sleeper(se, record);
                    }
                }
                What::Reweight | What::Lingers => {
                    if let Some(se) = self.entity_of(record) {
                        seen.insert(se.0);
                    }
                }
                What::Account => {
                    let queue = record.number("cfs").and_then(|address| self.queues.get(&address).copied());
                    if let (Some(queue), Some(kernels)) = (queue, record.signed("rr"))
                        && queues.insert(queue.0)
                    {
                        self.compare_budget(self.sched.queue(queue).runtime_remaining, kernels);
                    }
                }
                What::RtCharge if !std::mem::replace(&mut real_time, true) => self.compare_rt(record),
                What::Tick => self.compare_time_slice(record),
                What::ServerCharge | What::ServerStart
                    if record.number("srv") != Some(0) && !std::mem::replace(&mut server, true) =>
                {
                    // Starting it asks for a schedule, unless it is started.
                    let starts = entry.what == What::ServerStart && super::start::has(section, What::Resched);
                    self.compare_server(record, !starts);
                }
                What::DlTimer
                    if record.number("srv") == Some(1)
                        && self.server_known
                        && !std::mem::replace(&mut server, true) =>
                {
                    self.compare_server(record, true);
                }
                // A server's comes above.
                What::DlCharge
                | What::DlTimer
                | What::ServerCharge
                | What::Enqueue(crate::read::section::Of::Deadline)
                | What::Dequeue(crate::read::section::Of::Deadline) => {
                    let Some(task) = entry.pid().and_then(|pid| self.task_of(pid)) else { continue };
                    if task != TaskId::IDLE && seen.insert(u32::MAX - task.0) {
                        self.compare_deadline_task(task, record);
                    }
                }
                _ => {}
            }
        }
    }

    fn compare_vruntime(&mut self, se: EntityId, ours: Vruntime, kernels: u64) {
        if self.is_doubtful(se) {
            return;
        }
        let equal = self.report.state.vruntime.add(ours.0, kernels);
        if self.sched.entity_at(se).my_q.is_some() {
            self.report.state.group_vruntime.add(ours.0, kernels);
        }
        self.expect_equal("vruntime", equal, ours.0, kernels);
    }

    /// Whether the entity's state was never told.
    fn is_doubtful(&self, se: EntityId) -> bool {
        self.task_of_entity(se).is_some_and(|task| self.guessed.contains(&task))
    }

    fn compare_entity(&mut self, se: EntityId, record: &Record) {
        let entity = self.sched.entity_at(se);
        let (vruntime, deadline, start) = (entity.vruntime, entity.deadline, entity.exec_start);
        if let Some(kernels) = record.number("vr") {
            self.compare_vruntime(se, vruntime, kernels);
        }
        if let Some(kernels) = record.number("dl").filter(|_| !self.is_doubtful(se)) {
            let equal = self.report.state.deadline.add(deadline.0, kernels);
            self.expect_equal("deadline", equal, deadline.0, kernels);
        }
        if let Some(kernels) = record.number("xs") {
            let equal = self.report.state.exec_start.add(start, kernels);
            self.expect_equal("exec_start", equal, start, kernels);
        }
    }

    /// What an entity kept while it was off its queue.
    fn compare_sleeper(&mut self, se: EntityId, record: &Record) {
        let entity = self.sched.entity_at(se);
        let (vruntime, deadline, lag) = (entity.vruntime, entity.deadline, entity.vlag);
        let (on_rq, relative) = (entity.on_rq, entity.rel_deadline);
        // Taken off within the section, or being made.
        if on_rq && !entity.sched_delayed || record.word("init") == Some("1") {
            return;
        }
        let delayed = entity.sched_delayed;
        if let Some(kernels) = record.number("vr") {
            self.compare_vruntime(se, vruntime, kernels);
        }
        if !self.eevdf() || self.is_doubtful(se) {
            return;
        }
        if let Some(kernels) = record.number("dl") {
            let equal = self.report.state.deadline.add(deadline.0, kernels);
            self.expect_equal("deadline", equal, deadline.0, format!("{kernels} (relative: {relative})"));
        }
        if let Some(kernels) = record.signed("vlag").filter(|_| !delayed) {
            let equal = self.report.state.lag.add(lag as u64, kernels as u64);
            self.expect_equal("lag", equal, lag, kernels);
        }
    }

    fn compare_budget(&mut self, ours: i64, kernels: i64) {
        let equal = self.report.state.budgets.add(ours as u64, kernels as u64);
        self.expect_equal("budget", equal, ours, kernels);
    }

    pub(super) fn compare_throttled(&mut self, ours: bool, kernels: bool) {
        let equal = self.report.state.throttling.add(ours == kernels);
        self.expect_equal("throttled", equal, ours, kernels);
    }

    fn compare_rt(&mut self, record: &Record) {
        let (Some(ours), Some(kernels)) = (self.sched.rt_state(CPU), record.number("rtt")) else { return };
        if !std::mem::replace(&mut self.rt_known, true) {
            self.sched.assume_rt_time(CPU, kernels);
            let running = self.sched.curr(CPU);
            if let Some(start) = record.number("xs").filter(|_| running != TaskId::IDLE) {
                self.sched.entity_mut(running).exec_start = start;
            }
            return;
        }
        self.compare_budget(ours.time as i64, kernels as i64);
        if let Some(kernels) = record.number("thr") {
            self.compare_throttled(ours.throttled, kernels & 1 != 0);
        }
    }

    fn compare_time_slice(&mut self, record: &Record) {
        let running = self.sched.curr(CPU);
        if let Some(kernels) = record.number("ts")
            && running != TaskId::IDLE
            && !self.is_fair(running)
        {
            let ours = u64::from(self.sched.time_slice(running));
            let equal = self.report.state.time_slice.add(ours == kernels);
            self.expect_equal("time_slice", equal, ours, kernels);
        }
    }

    fn compare_server(&mut self, record: &Record, started: bool) {
        let (Some(runtime), Some(deadline)) = (record.signed("rt"), record.number("dl")) else { return };
        let Some(ours) = self.sched.fair_server_state(CPU) else { return };
        if !std::mem::replace(&mut self.server_known, true) {
            let told = |key| record.number(key).is_some_and(|flag| flag & 1 != 0);
            let deadline = schedlab_model::Time::from_nanos(deadline);
            let state = DlState { runtime, deadline, throttled: told("thr"), overruns: 0 };
            self.sched.assume_fair_server(CPU, state, started, told("run"));
            self.server_timer = self.sched.fair_server_timer(CPU).and_then(|timer| self.sched.armed(timer));
            return;
        }
        // Before it starts on an idle CPU the idle time is taken off, which ours does on the way.
        let idle = self.sched.curr(CPU) == TaskId::IDLE;
        if !(idle && record.number("srv").is_none()) {
            self.compare_budget(ours.runtime, runtime);
        }
        self.compare_budget(ours.deadline.as_nanos() as i64, deadline as i64);
        if let Some(kernels) = record.number("thr") {
            self.compare_throttled(ours.throttled, kernels & 1 != 0);
        }
    }

    fn compare_deadline_task(&mut self, task: TaskId, record: &Record) {
        let Some(ours) = self.sched.dl_state(task) else { return };
        if let Some(kernels) = record.signed("rt") {
            self.compare_budget(ours.runtime, kernels);
        }
        if let Some(kernels) = record.signed("dl") {
            self.compare_budget(ours.deadline.as_nanos() as i64, kernels);
        }
        if let Some(kernels) = record.number("thr") {
            self.compare_throttled(ours.throttled, kernels & 1 != 0);
        }
    }

    /// What is shown of the state after the section: whoever was set, and where who came was placed.
    pub(super) fn compare_after(&mut self, section: &[Entry<'a>]) {
        self.learn_queues(section);
        for entry in section.iter().filter(|entry| matches!(entry.what, What::Set | What::SetTask)) {
            let record = entry.record;
            let se = match entry.what {
                What::Set => self.entity_of(record),
                _ => entry.pid().and_then(|pid| self.task_of(pid)).map(|task| self.sched.task(task).se),
            };
            let Some(se) = se else { continue };
            let entity = self.sched.entity_at(se);
            let (vruntime, deadline, slice) = (entity.vruntime, entity.deadline, entity.slice);
            let Some(kernels) = record.number("vr") else { continue };
            self.compare_vruntime(se, vruntime, kernels);
            if let Some(naive) = self.task_of_entity(se).and_then(|task| self.placed.remove(&task)) {
                self.report.decisions.placement.add(vruntime.0 == kernels, naive == kernels);
            }
            if self.is_doubtful(se) {
                continue;
            }
            if let Some(kernels) = record.number("dl") {
                let equal = self.report.state.deadline.add(deadline.0, kernels);
                self.expect_equal("deadline", equal, deadline.0, kernels);
            }
            if let Some(kernels) = record.number("sl") {
                let equal = self.report.state.slice.add(slice, kernels);
                self.expect_equal("slice", equal, slice, kernels);
            }
        }
        let mut ends = std::collections::BTreeMap::new();
        for (at, entry) in section.iter().enumerate() {
            let Some(address) = entry.record.number("cfs") else { continue };
            let Some(queue) = self.queues.get(&address) else { continue };
            match entry.what {
                What::Unthrottle if !self.sched.rules().throttles_tasks => ends.insert(queue.0, (*queue, false)),
                // Who runs there may have used up meanwhile what it got.
                What::Throttle | What::Unthrottle => {
                    let throttled = is_throttled_from(address, section[at + 1..].iter().chain(self.ahead));
                    throttled.and_then(|throttled| ends.insert(queue.0, (*queue, throttled)))
                }
                _ => None,
            };
        }
        for (queue, kernels) in ends.into_values() {
            self.compare_throttled(self.sched.queue(queue).throttled, kernels);
        }
    }

    /// The queues that a pick looks at, with who runs there before.
    pub(super) fn queues_before(&mut self, section: &[Entry<'a>]) -> Vec<Looked<'a>> {
        let mut looked: Vec<Looked<'a>> = Vec::new();
        // A queue that is throttled or emptied after the look is another one then.
        if section.iter().any(|entry| matches!(entry.what, What::Throttle | What::Unthrottle)) {
            return looked;
        }
        for entry in section.iter().filter(|entry| entry.what == What::Pick) {
            let queue = entry.record.number("cfs").and_then(|address| self.queues.get(&address).copied());
            let Some(queue) = queue else { continue };
            looked.retain(|earlier| earlier.queue != queue);
            let running = self.sched.queue(queue).curr;
            looked.push(Looked { queue, running, record: entry.record });
        }
        looked
    }

    /// What the last look at each queue saw, against ours now: since then whoever was picked there came off the timeline, and
    /// whoever ran went onto it.
    pub(super) fn compare_looks(&mut self, looked: &[Looked<'a>], section: &[Entry<'a>]) {
        let lingered = section.iter().any(|entry| entry.what == What::Lingers);
        for Looked { queue, running, record } in looked {
            let ours = self.sched.queue(*queue);
            let (now, tasks) = (ours.curr, ours.nr_running);
            if let Some(kernels) = record.number("nr").filter(|_| !lingered) {
                let equal = self.report.state.nr_running.add(u64::from(tasks) == kernels);
                self.expect_equal("nr_running", equal, tasks, kernels);
            }
            if let Some(kernels) = record.number("lw") {
                let load = self.sched.queue(*queue).load.scaled;
                let equal = self.report.state.load.add(load == kernels);
                self.expect_equal("load", equal, load, kernels);
            }
            if let Some(kernels) = record.number("minv") {
                let least = self.sched.queue(*queue).min_vruntime.0;
                let equal = self.report.state.min_vruntime.add(least, kernels);
                self.expect_equal("min_vruntime", equal, least, kernels);
            }
            if self.sched.rules().eevdf && !self.sched.rules().full_weights && !lingered {
                self.compare_sum(*queue, *running, now, record);
            }
        }
    }

    fn compare_sum(&mut self, queue: CfsRqId, before: Option<EntityId>, now: Option<EntityId>, record: &Record) {
        let (Some(zero), Some(average), Some(load)) = (record.number("zv"), record.signed("av"), record.signed("al"))
        else {
            return;
        };
        let zero = Vruntime(zero);
        let ours = self.sched.queue(queue);
        let moved = ours.zero_vruntime.since(zero);
        let mut our_load = ours.avg_load;
        let mut sum = ours.avg_vruntime.wrapping_add(moved.wrapping_mul(our_load));
        let swapped = [(now, 1), (before, -1)];
        for (se, sign) in swapped.into_iter().filter(|_| before != now) {
            let Some(entity) = se.map(|se| self.sched.entity_at(se)).filter(|entity| entity.on_rq) else { continue };
            let weight = (entity.load.scaled >> LOAD_SHIFT) as i64 * sign;
            sum = sum.wrapping_add(entity.vruntime.since(zero).wrapping_mul(weight));
            our_load += weight;
        }
        let equal = self.report.state.avg_vruntime.add(sum == average);
        self.expect_equal("avg_vruntime", equal, sum, average);
        let equal = self.report.state.load.add(our_load == load);
        self.expect_equal("load", equal, our_load, load);
    }

    fn key(&self, se: EntityId) -> Vruntime {
        let entity = self.sched.entity_at(se);
        if self.eevdf() { entity.deadline } else { entity.vruntime }
    }

    /// Whether a fair task, or the group above it, is before the running one where both share a queue.
    pub(super) fn is_before_running(&self, task: TaskId, running: TaskId) -> bool {
        if task == TaskId::IDLE || running == TaskId::IDLE {
            return false;
        }
        let path = |task: TaskId| {
            let next = |se: &EntityId| self.sched.entity_at(*se).parent;
            std::iter::successors(Some(self.sched.task(task).se), next).collect::<Vec<_>>()
        };
        let (one, other) = (path(task), path(running));
        let shared = one.iter().find_map(|one| {
            let queue = self.sched.entity_at(*one).cfs_rq;
            let other = other.iter().find(|other| self.sched.entity_at(**other).cfs_rq == queue)?;
            Some((*one, *other))
        });
        shared.is_some_and(|(one, other)| self.key(one).before(self.key(other)))
    }

    /// The naive rule for ticks: whoever is first should run.
    pub(super) fn first_is_before_running(&self, running: TaskId) -> bool {
        if !self.is_fair(running) {
            return false;
        }
        let mut level = Some(self.sched.task(running).se);
        while let Some(se) = level {
            let entity = self.sched.entity_at(se);
            let first = self.sched.queue(entity.cfs_rq).timeline.first();
            if first.is_some_and(|first| self.key(first).before(self.key(se))) {
                return true;
            }
            level = entity.parent;
        }
        false
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
