//! State: what probes show before a step, and what it came to.

use std::collections::BTreeSet;

use schedlab_model::{CpuId, TaskId};
use schedlab_sched::pelt::SchedAvg;
use schedlab_sched::{EntityId, Vruntime};
use schedlab_trace::{Pid, Record};

use super::Several;
use crate::read::section::{Entry, What};

/// Bits by which the rules drop a weight to its nice-table value (`scale_load_down`).
const LOAD_SHIFT: u32 = 10;

impl<'a> Several<'a> {
    /// Our queue: the running entity, then the others in order.
    pub(super) fn queue_lines(&self, cpu: CpuId) -> Vec<String> {
        let queue = self.sched.cfs_rq(cpu);
        let line = |se: EntityId| {
            let entity = self.sched.entity_at(se);
            let deadline = if self.eevdf() { format!(" {}", entity.deadline.0) } else { String::new() };
            let lingers = if entity.sched_delayed { " lingers" } else { "" };
            let pid = self.task_of_entity(se).map_or(0, |task| self.pid(task));
            format!("{pid} {}{deadline} {}{lingers}", entity.vruntime.0, entity.load.scaled >> LOAD_SHIFT)
        };
        queue.curr.into_iter().chain(queue.timeline.iter()).map(line).collect()
    }

    /// What orders the timeline.
    pub(super) fn key(&self, task: TaskId) -> Vruntime {
        let entity = self.sched.entity(task);
        if self.eevdf() { entity.deadline } else { entity.vruntime }
    }

    fn fair_task(&self, record: &Record) -> Option<TaskId> {
        let task = record.number("pid").and_then(|pid| self.task_of(pid as Pid))?;
        (self.is_fair(task) && self.verifiable(task)).then_some(task)
    }

    /// What is shown of the state before the step on `cpu`.
    pub(super) fn compare_before(&mut self, cpu: CpuId, step: &[Entry<'a>]) {
        if !self.begun {
            return;
        }
        let mut seen = BTreeSet::new();
        let (mut loads, mut queues) = (BTreeSet::new(), BTreeSet::new());
        for entry in step {
            let record = entry.record;
            match (entry.what, &*record.event) {
                (What::UpdateCurr, _) => {
                    let Some(task) = self.fair_task(record) else { continue };
                    if seen.insert(task) && self.sched.curr(cpu) == task {
                        self.compare_running(cpu, task, record);
                    }
                }
                (What::Place, _) => {
                    let Some(task) = self.fair_task(record) else { continue };
                    let own = !self.newborn.contains(&task) && !self.migrating.contains(&task);
                    if seen.insert(task) && own && !self.detached.contains(&task) {
                        self.compare_sleeper(cpu, task, record);
                    }
                }
                (What::Reweight, _) => {
                    seen.extend(self.fair_task(record));
                }
                (_, "k_lase") => {
                    let Some(task) = self.fair_task(record) else { continue };
                    if loads.insert(task)
                        && let Some(ours) = self.sched.load_of(task)
                    {
                        self.compare_load(cpu, "load of task", ours, record);
                    }
                }
                (_, "k_lacfs") => {
                    if record.number("cpu") == Some(u64::from(cpu.0))
                        && queues.insert(cpu)
                        && let Some(ours) = self.sched.load_left_on_cpu(cpu)
                    {
                        self.compare_load(cpu, "load of queue", ours, record);
                    }
                }
                _ => {}
            }
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

    fn compare_vruntime(&mut self, cpu: CpuId, ours: u64, kernels: u64) {
        let equal = self.report.state.vruntime.add(ours, kernels);
        self.expect_equal(cpu, "vruntime", equal, ours, kernels);
    }

    fn compare_running(&mut self, cpu: CpuId, task: TaskId, record: &Record) {
        let entity = self.sched.entity(task);
        let (vruntime, deadline, start) = (entity.vruntime.0, entity.deadline.0, entity.exec_start);
        if let Some(kernels) = record.number("vr") {
            self.compare_vruntime(cpu, vruntime, kernels);
        }
        if let Some(kernels) = record.number("dl") {
            let equal = self.report.state.deadline.add(deadline, kernels);
            self.expect_equal(cpu, "deadline", equal, deadline, kernels);
        }
        if let Some(kernels) = record.number("xs") {
            let equal = self.report.state.exec_start.add(start, kernels);
            self.expect_equal(cpu, "exec_start", equal, start, kernels);
        }
    }

    /// What a task kept while it was off its queue.
    fn compare_sleeper(&mut self, cpu: CpuId, task: TaskId, record: &Record) {
        let entity = self.sched.entity(task);
        let (vruntime, deadline, lag, delayed) =
            (entity.vruntime.0, entity.deadline.0, entity.vlag, entity.sched_delayed);
        if entity.on_rq && !delayed || record.word("init") == Some("1") {
            return;
        }
        if let Some(kernels) = record.number("vr") {
            self.compare_vruntime(cpu, vruntime, kernels);
        }
        if !self.eevdf() {
            return;
        }
        if let Some(kernels) = record.number("dl") {
            let equal = self.report.state.deadline.add(deadline, kernels);
            self.expect_equal(cpu, "deadline", equal, deadline, kernels);
        }
        if let Some(kernels) = record.signed("vlag").filter(|_| !delayed) {
            let equal = self.report.state.lag.add(lag as u64, kernels as u64);
            self.expect_equal(cpu, "lag", equal, lag, kernels);
        }
    }

    /// What is shown of the state after the step: whoever was set, and so where who came was placed.
    pub(super) fn compare_after(&mut self, step: &[Entry<'a>]) {
        for entry in step.iter().filter(|entry| matches!(entry.what, What::Set | What::SetTask)) {
            let record = entry.record;
            let Some(task) = self.fair_task(record) else { continue };
            let cpu = self.sched.task_cpu(task);
            let entity = self.sched.entity(task);
            let (vruntime, deadline, slice) = (entity.vruntime.0, entity.deadline.0, entity.slice);
            let Some(kernels) = record.number("vr").filter(|_| self.begun) else { continue };
            if let Some(naive) = self.placed.remove(&task) {
                self.report.decisions.placement.add(vruntime == kernels, naive == kernels);
            }
            self.compare_vruntime(cpu, vruntime, kernels);
            if let Some(kernels) = record.number("dl") {
                let equal = self.report.state.deadline.add(deadline, kernels);
                self.expect_equal(cpu, "deadline", equal, deadline, kernels);
            }
            if let Some(kernels) = record.number("sl") {
                let equal = self.report.state.slice.add(slice, kernels);
                self.expect_equal(cpu, "slice", equal, slice, kernels);
            }
        }
    }

    /// What the last look at the queue saw, against ours now: since then whoever was picked came off the timeline, and whoever ran
    /// before went onto it.
    pub(super) fn compare_look(&mut self, cpu: CpuId, step: &[Entry<'a>], before: Option<EntityId>) {
        let lingered = step.iter().any(|entry| entry.what == What::Lingers);
        let Some(look) = step.iter().rfind(|entry| entry.what == What::Pick).filter(|_| self.begun && !lingered) else {
            return;
        };
        let record = look.record;
        let (now, tasks) = (self.sched.cfs_rq(cpu).curr, self.sched.cfs_rq(cpu).nr_running);
        if let Some(kernels) = record.number("nr") {
            let equal = self.report.state.nr_running.add(u64::from(tasks) == kernels);
            self.expect_equal(cpu, "nr_running", equal, tasks, kernels);
        }
        if let Some(kernels) = record.number("lw") {
            let load = self.sched.cfs_rq(cpu).load.scaled;
            let equal = self.report.state.load.add(load == kernels);
            self.expect_equal(cpu, "load", equal, load, kernels);
        }
        if let Some(kernels) = record.number("minv") {
            let least = self.sched.cfs_rq(cpu).min_vruntime.0;
            let equal = self.report.state.min_vruntime.add(least, kernels);
            self.expect_equal(cpu, "min_vruntime", equal, least, kernels);
        }
        if self.sched.rules().eevdf && !self.sched.rules().full_weights {
            self.compare_sum(cpu, before, now, record);
        }
    }

    /// The queue's weighted sum of virtual times, counted from where the kernel's is.
    fn compare_sum(&mut self, cpu: CpuId, before: Option<EntityId>, now: Option<EntityId>, record: &Record) {
        let (Some(zero), Some(average), Some(load)) = (record.number("zv"), record.signed("av"), record.signed("al"))
        else {
            return;
        };
        let zero = Vruntime(zero);
        let ours = self.sched.cfs_rq(cpu);
        let mut our_load = ours.avg_load;
        let mut sum = ours.avg_vruntime.wrapping_add(ours.zero_vruntime.since(zero).wrapping_mul(our_load));
        for (se, sign) in [(now, 1), (before, -1)].into_iter().filter(|_| before != now) {
            let Some(entity) = se.map(|se| self.sched.entity_at(se)).filter(|entity| entity.on_rq) else { continue };
            let weight = (entity.load.scaled >> LOAD_SHIFT) as i64 * sign;
            sum = sum.wrapping_add(entity.vruntime.since(zero).wrapping_mul(weight));
            our_load += weight;
        }
        let equal = self.report.state.avg_vruntime.add(sum == average);
        self.expect_equal(cpu, "avg_vruntime", equal, sum, average);
        let equal = self.report.state.load.add(our_load == load);
        self.expect_equal(cpu, "load", equal, our_load, load);
    }
}
