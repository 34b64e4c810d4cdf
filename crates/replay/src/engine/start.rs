//! The state in which a recording begins, from its `k_snap` probes.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{Attributes, CpuId, Policy, TaskId, TaskState, Time};
use schedlab_sched::{EntityId, GroupId, Vruntime};
use schedlab_trace::{Pid, Record};

use super::Engine;
use crate::read::section::{Entry, What};

/// The one CPU of a recording in which only the recorder runs while it takes the snapshot of the tasks.
const CPU: CpuId = CpuId(0);

/// A task that was woken before its snapshot.
struct Woken<'a> {
    /// It was on its queue all along (`sched_delayed`).
    delayed: bool,
    /// Its `place_entity`, which shows what it was given.
    placed: Option<&'a Record>,
}

impl Woken<'_> {
    /// Whether it was on its queue before that, and whether it was there for its delayed dequeue only.
    fn before(&self) -> (bool, bool) {
        (self.delayed, self.delayed)
    }
}

impl<'a> Engine<'a> {
    /// The recorder runs, above all other tasks, while it takes their snapshots.
    pub(super) fn begin_alone(&mut self, entries: &[Entry<'a>]) {
        let Some(first) = entries.first() else { return };
        let told = entries.iter().find_map(|entry| entry.record.clocks);
        let clocks = &mut self.cpus[CPU.index()].clocks;
        if let Some(told) = told {
            clocks.clock = Time::from_nanos(told.clock.unwrap_or(told.task).saturating_sub(1));
            clocks.clock_task = Time::from_nanos(told.task.saturating_sub(1));
            clocks.clock_pelt = clocks.clock_task;
        }
        self.sched.set_clocks(CPU, *clocks);
        if first.record.pid != 0 {
            self.run_recorder(first.record.pid, CPU);
            self.foresee(entries);
        }
    }

    /// The recorder runs on `cpu`, above all other tasks.
    pub(super) fn run_recorder(&mut self, pid: Pid, cpu: CpuId) -> TaskId {
        let attributes = Attributes { policy: Policy::Fifo(99), ..Attributes::default() };
        let task = self.add(pid, &attributes, GroupId::ROOT);
        self.sched.assume_asleep(task, cpu);
        self.sched.decider.expect_nothing();
        self.sched.try_to_wake_up(task, cpu);
        self.sched.schedule(cpu, TaskState::Running);
        task
    }

    /// Each task of the snapshot was there from the beginning, and only the recorder ran meanwhile. So a task without events before its
    /// snapshot began in the state of the snapshot, and one that was woken before it is put back to sleep, to be woken by its own event.
    fn foresee(&mut self, entries: &[Entry<'a>]) {
        let telling = entries.iter().position(|entry| is_begin(entry.record)).unwrap_or(entries.len());
        let mut woken: BTreeMap<Pid, Woken<'a>> = BTreeMap::new();
        let mut told = BTreeSet::new();
        let mut last = None;
        for entry in &entries[..telling] {
            let Some(pid) = entry.pid() else { continue };
            match entry.what {
                What::Snap => {
                    last = told.insert(pid).then_some(pid);
                    if last.is_some() {
                        self.snap_as_of(entry.record, woken.get(&pid));
                    }
                }
                What::GroupSnap if last == Some(pid) => self.group_snap(entry.record),
                What::Enqueue(_) if !told.contains(&pid) => {
                    let delayed = entry.flags() & self.flags.delayed != 0;
                    woken.entry(pid).or_insert(Woken { delayed, placed: None });
                }
                What::Place if entry.record.number("my") == Some(0) => {
                    if let Some(woken) = woken.get_mut(&pid) {
                        woken.placed.get_or_insert(entry.record);
                    }
                }
                _ => {}
            }
        }
    }

    /// `k_snap`, `k_snaprt`: one task's state.
    pub(super) fn snap_alone(&mut self, record: &Record) {
        self.snap_as_of(record, None);
    }

    /// One task's state, taken back to the time before it was woken.
    fn snap_as_of(&mut self, record: &Record, woken: Option<&Woken<'a>>) {
        let Some(pid) = record.number("pid").map(|pid| pid as Pid) else { return };
        let number = |key: &str| record.number(key).unwrap_or(0);
        self.note_base(CPU, record);
        if self.tasks.of_pid(pid).is_some() {
            return;
        }
        let group = self.group_at(record);
        let task = self.add(pid, &attributes_of(record), group);
        self.report.first_sights.snapshot += 1;
        self.sched.assume_time_slice(task, number("rts") as u32);
        let (queued, was_delayed) = woken.map_or((number("onrq") != 0, number("del") != 0), Woken::before);
        // What placing a task changes, it shows first.
        let placed = woken.and_then(|woken| woken.placed).unwrap_or(record);
        self.set_entity(task, record, placed);
        let delayed = was_delayed && queued && self.eevdf();
        self.sched.entity_mut(task).sched_delayed = delayed;
        self.sched.decider.expect_nothing();
        if !queued {
            self.sched.assume_asleep(task, CPU);
        } else if self.is_fair(task) {
            self.sched.assume_queued(task, CPU);
            self.unordered.insert(task);
            self.waits(task);
        } else {
            self.sched.assume_asleep(task, CPU);
            self.sched.try_to_wake_up(task, CPU);
            self.waits(task);
        }
        let (address, queue) = (number("cfs"), self.sched.entity(task).cfs_rq);
        self.groups.queues.insert(address, queue);
    }

    /// Sets an entity to its snapshot; what placing it changes, `placed` shows.
    pub(super) fn set_entity(&mut self, task: TaskId, record: &Record, placed: &Record) {
        let number = |key: &str| record.number(key).unwrap_or(0);
        let eevdf = self.eevdf();
        if let Some(weight) = record.number("hw") {
            self.sched.assume_timeline_weight(task, weight);
        }
        let entity = self.sched.entity_mut(task);
        entity.vruntime = Vruntime(placed.number("vr").unwrap_or(0));
        entity.deadline = Vruntime(placed.number("dl").unwrap_or(0));
        entity.rel_deadline = placed.number("rel").is_some_and(|relative| relative != 0);
        // A delayed task is queued.
        entity.sched_delayed = number("del") != 0 && number("onrq") != 0 && eevdf;
        entity.vlag = placed.signed("vlag").unwrap_or(0);
        entity.vprot = Vruntime(record.number("vp").unwrap_or(entity.vlag as u64));
        entity.exec_start = number("xs");
        entity.sum_exec_runtime = number("sum");
        entity.prev_sum_exec_runtime = number("psum");
        if let Some(slice) = placed.number("sl") {
            entity.slice = slice;
        }
    }

    /// From where the root queue counts, until the workload begins: later it must come out by itself.
    pub(super) fn note_base(&mut self, cpu: CpuId, record: &Record) {
        if record.number("ptg") != Some(0) {
            return;
        }
        if let Some(least) = record.number("minv") {
            self.sched.cfs_rq_mut(cpu).min_vruntime = Vruntime(least);
        }
        if let Some(zero) = record.number("zv") {
            self.sched.cfs_rq_mut(cpu).count_from(Vruntime(zero));
        }
    }

    /// `k_snap1` to `k_snap3`: the group entities above the task whose `k_snap` came before.
    pub(super) fn group_snap(&mut self, record: &Record) {
        let task = record.number("pid").and_then(|pid| self.task_of(pid as Pid));
        let Some(task) = task.filter(|task| *task != TaskId::IDLE) else { return };
        let levels = match &*record.event {
            "k_snap1" => 1,
            "k_snap2" => 2,
            _ => 3,
        };
        let mut entity = Some(self.sched.task(task).se);
        for _ in 0..levels {
            entity = entity.and_then(|se| self.sched.entity_at(se).parent);
        }
        let Some(se) = entity else { return };
        self.note_group_entity(se, record);
    }

    fn note_group_entity(&mut self, se: EntityId, record: &Record) {
        let number = |key: &str| record.number(key).unwrap_or(0);
        self.groups.entities.insert(number("se"), se);
        let entity = self.sched.entity_at_mut(se);
        (entity.vruntime, entity.deadline) = (Vruntime(number("vr")), Vruntime(number("dl")));
        entity.vlag = record.signed("vlag").unwrap_or(0);
        (entity.exec_start, entity.sum_exec_runtime) = (number("xs"), number("sum"));
        entity.prev_sum_exec_runtime = number("psum");
        entity.rel_deadline = number("rel") != 0;
        if let Some(slice) = record.number("sl") {
            entity.slice = slice;
        }
        let (owned, above) = (entity.my_q, entity.cfs_rq);
        self.groups.queues.insert(number("cfs"), above);
        if let Some(owned) = owned {
            self.groups.queues.insert(number("my"), owned);
        }
    }

    /// A task that the recording concerns, known or first seen now.
    pub(super) fn known(&mut self, pid: Pid, cpu: CpuId, entry: Option<&Entry<'a>>) -> Option<TaskId> {
        if let Some(task) = self.task_of(pid) {
            return Some(task);
        }
        // Until all were told of, its own snapshot will come.
        if !self.begun {
            return None;
        }
        let attributes = entry.map_or_else(Attributes::default, |entry| attributes_of(entry.record));
        let task = self.add(pid, &attributes, GroupId::ROOT);
        self.report.first_sights.recording += 1;
        self.sched.assume_asleep(task, cpu);
        self.guessed.insert(task);
        Some(task)
    }

    pub(super) fn add_stopper(&mut self, pid: Pid, cpu: CpuId) -> TaskId {
        let attributes = Attributes { policy: Policy::Fifo(99), ..Attributes::default() };
        let task = self.add(pid, &attributes, GroupId::ROOT);
        self.sched.assume_asleep(task, cpu);
        self.sched.assume_stopper(task, cpu);
        self.stoppers.insert(task);
        task
    }

    pub(super) fn waits(&mut self, task: TaskId) {
        self.sequence += 1;
        self.waiting_since.insert(task, self.sequence);
    }
}

/// What a snapshot's or a parameter's `pol`, `sp`, `nprio` or `rtp`, `sl` and `cs` make of a task.
pub(crate) fn attributes_of(record: &Record) -> Attributes {
    let nice = record.signed("sp").map_or(0, |priority| (priority - 120).clamp(-20, 19) as i8);
    let priority = match (record.signed("rtp"), record.signed("nprio")) {
        (Some(priority), _) => priority,
        (None, Some(priority)) => 99 - priority,
        _ => 1,
    };
    let priority = priority.clamp(1, 99) as u8;
    let time = |key: &str| Time::from_nanos(record.number(key).unwrap_or(0));
    let policy = match record.number("pol") {
        Some(1) => Policy::Fifo(priority),
        Some(2) => Policy::Rr(priority),
        Some(3) => Policy::Batch,
        Some(5) => Policy::Idle,
        Some(6) => Policy::Deadline { runtime: time("dlr"), deadline: time("dld"), period: time("dlp") },
        _ => Policy::Other,
    };
    let slice = (record.number("cs") == Some(1)).then(|| time("sl"));
    Attributes { policy, nice, slice, ..Attributes::default() }
}

/// The recorder's mark where it has told of all tasks, and the workload begins.
pub(super) fn is_begin(record: &Record) -> bool {
    &*record.event == "tracing_mark_write" && record.text.contains("schedlab: begin")
}

/// Whether any record of a section is `what`.
pub(crate) fn has(section: &[Entry<'_>], what: What) -> bool {
    section.iter().any(|entry| entry.what == what)
}
