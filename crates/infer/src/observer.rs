//! Watches a recording event by event: which tasks run and sleep, and which task wakes which.

mod switches;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_metrics::Behaviour;
use schedlab_model::{Change, CpuId, Event, EventKind, EventSink, TaskId, TaskState, Time};
use schedlab_trace::{Context, Pid, Probe, Record, RecordKind, TaskRef};

use crate::activity::{Activity, ActivityLog, Cause};
use crate::call::Call;
use crate::cost_model::CostModel;
use crate::task_trace::{State, TaskTrace};
use crate::ticks::{Ticks, held_up, is_tick};
use crate::wake_group::{Pending, WakeGroups};
use crate::{Counts, InferError};

/// The most steps that are kept; 16 bytes each.
pub const MAX_DOINGS: usize = 8_000_000;
/// The most tasks.
pub const MAX_RECORDED_TASKS: usize = 100_000;

/// What is known of a CPU.
#[derive(Debug, Clone, Default)]
struct Cpu {
    /// The task on it; none while it idles, or runs the recorder.
    current: Option<u32>,
    /// The pid on it, 0 while it idles; none before its first event.
    pid: Option<Pid>,
    /// Switches to other tasks than it had last.
    switches: u64,
    /// The task that the CPU had last.
    last: Option<u32>,
    /// The function of the timer whose interrupt is being served.
    timer: Option<Box<str>>,
    /// When an interrupt on it last woke a task while another was current, until that one is switched out.
    interrupted: Option<u64>,
    /// Whether the task on it goes on waking in one system call.
    pending: Pending,
    /// When it last had a tick, in nanoseconds, if it has been busy with what was recorded ever since.
    ticked: Option<u64>,
}

/// The watcher.
pub(crate) struct Observer {
    pub(crate) traces: Vec<TaskTrace>,
    pub(crate) changes: Vec<Change>,
    pub(crate) counts: Counts,
    pub(crate) behaviour: Behaviour,
    by_pid: BTreeMap<Pid, u32>,
    /// The control groups of tasks as the head tells them.
    groups: BTreeMap<Pid, String>,
    /// Tasks that are no part of what was recorded: those that recorded it.
    left_out: BTreeSet<Pid>,
    cpus: Vec<Cpu>,
    pub(crate) costs: CostModel,
    /// Nanoseconds from tick to tick.
    pub(crate) period: u64,
    /// The time of the beginning; none before it.
    pub(crate) begin: Option<u64>,
    /// The paths of control groups by their numbers.
    pub(crate) group_paths: BTreeMap<u64, String>,
    /// Weights that groups were given, as `cpu.shares`, and their limits, by path.
    pub(crate) group_shares: BTreeMap<String, u64>,
    pub(crate) activities: usize,
    pub(crate) wake_groups: WakeGroups,
    ticks: Ticks,
}

impl Observer {
    pub(crate) fn new(
        left_out: BTreeSet<Pid>,
        costs: CostModel,
        period: u64,
        group_paths: BTreeMap<u64, String>,
        groups: BTreeMap<Pid, String>,
    ) -> Self {
        Self {
            traces: Vec::new(),
            changes: Vec::new(),
            counts: Counts::default(),
            behaviour: Behaviour::default(),
            by_pid: BTreeMap::new(),
            groups,
            left_out,
            cpus: Vec::new(),
            costs,
            period: period.max(1),
            begin: None,
            group_paths,
            group_shares: BTreeMap::new(),
            activities: 0,
            wake_groups: WakeGroups::default(),
            ticks: Ticks::default(),
        }
    }

    /// The number of CPUs that events named.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// The number of a task by its pid.
    pub(crate) fn number_of(&self, pid: Pid) -> Option<u32> {
        self.by_pid.get(&pid).copied()
    }

    /// How long after a tick the beginning is, where ticks were seen.
    pub(crate) fn phase(&self) -> Option<Time> {
        self.ticks.phase(self.begin?, self.period).map(Time::from_nanos)
    }

    /// From now on what happens counts; until then only each task's state and CPU were noted.
    pub(crate) fn begin(&mut self, time: u64) {
        self.begin = Some(time);
        for trace in &mut self.traces {
            // It may have changed since the tables were written.
            trace.first_priority = trace.priority;
            (trace.since, trace.parent, trace.born, trace.ran) = (0, None, false, false);
            (trace.log, trace.changes) = (ActivityLog::charging(self.costs.operation, self.costs.compute), Vec::new());
        }
        for cpu in 0..self.cpus.len() {
            if let Some(task) = self.cpus[cpu].current {
                self.traces[task as usize].ran = true;
                self.emit(0, cpu as u32, switch(None, TaskState::Running, Some(task)));
            }
        }
    }

    /// The observed part ends: each running task has run until then.
    pub(crate) fn end(&mut self, time: u64) {
        let now = self.since_begin(time);
        for trace in &mut self.traces {
            trace.charge(now, self.costs.tick, self.period);
            trace.log.settle();
        }
    }

    fn since_begin(&self, time: u64) -> u64 {
        time.saturating_sub(self.begin.unwrap_or(time))
    }

    fn emit(&mut self, now: u64, cpu: u32, kind: EventKind) {
        if self.begin.is_some() {
            self.behaviour.event(Event { time: Time::from_nanos(now), cpu: CpuId(cpu), kind });
        }
    }

    /// Takes in one event.
    pub(crate) fn record(&mut self, record: &Record) -> Result<(), InferError> {
        let now = self.since_begin(record.time.as_nanos());
        let cpu = record.cpu as usize;
        if cpu >= self.cpus.len() {
            if cpu >= schedlab_model::MAX_CPUS as usize {
                let limit = schedlab_model::MAX_CPUS as usize;
                return Err(InferError::TooMuch { what: "CPUs", limit });
            }
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        if record.flags.context != Context::HardInterrupt && record.flags.context != Context::HardInSoftInterrupt {
            self.cpus[cpu].timer = None;
        }
        self.bridge(now, record)?;
        self.cpus[cpu].pending.event(record.flags);
        self.counts.events += u64::from(self.begin.is_some());
        match &record.kind {
            RecordKind::Switch { previous, state, next } => self.switch(now, record.cpu, previous, *state, next)?,
            RecordKind::Waking { task, target } => self.woken(now, record, task, *target)?,
            // Where sched_waking was not recorded; otherwise it is awake by now.
            RecordKind::Wakeup { task, target } => {
                self.woken(now, record, task, *target)?;
                self.cpus[cpu].pending.queued(task.pid, record.flags);
            }
            RecordKind::WakeupNew { task, target } => {
                if let Some(new) = self.task(task)? {
                    self.emit(now, record.cpu, EventKind::WakeupNew { task: TaskId(new), target: CpuId(*target) });
                }
            }
            RecordKind::Fork { parent, child_name, child } => {
                self.fork(now, record.cpu, *parent, child_name, *child)?
            }
            RecordKind::Migrate { task, from, to } => {
                if let Some(task) = self.task(task)? {
                    let (task, from, to) = (TaskId(task), CpuId(*from), CpuId(*to));
                    self.emit(now, record.cpu, EventKind::Migrate { task, from, to });
                }
            }
            RecordKind::TimerEntry { function } => {
                self.ticks.note(function, record.time.as_nanos());
                if is_tick(function) && self.begin.is_some() {
                    let time = record.time.as_nanos();
                    // One tick may still come while the CPU idles; the next is as late as the CPU sleeps long.
                    let busy = self.cpus[cpu].current.is_some();
                    let ticked = std::mem::replace(&mut self.cpus[cpu].ticked, busy.then_some(time));
                    self.counts.held_up_ns += ticked.map_or(0, |last| held_up(last, time, self.period));
                }
                self.cpus[cpu].timer = Some(function.clone());
            }
            RecordKind::TimerExit => self.cpus[cpu].timer = None,
            RecordKind::Probe(Probe::Parameters { pid, policy, static_priority, rt_priority, slice }) => {
                self.parameters(now, *pid, *policy, *static_priority, *rt_priority, *slice);
            }
            RecordKind::Other { event, .. } => self.other(now, event, record),
            _ if &*record.event == "k_shares" => {
                if let (Some(path), Some(shares)) = (self.group_of(record, "cg"), record.number("shares")) {
                    // As the kernel keeps them on 64 bits: scaled up by 2¹⁰.
                    self.group_shares.insert(path, shares >> 10);
                }
            }
            _ => {}
        }
        if self.activities > MAX_DOINGS {
            return Err(InferError::TooMuch { what: "steps", limit: MAX_DOINGS });
        }
        Ok(())
    }

    /// The number of the task that an event names; none of idle tasks and of the recorder's.
    fn task(&mut self, task: &TaskRef) -> Result<Option<u32>, InferError> {
        let Some(number) = self.pid(task.pid, &task.name)? else { return Ok(None) };
        let trace = &mut self.traces[number as usize];
        if trace.name != task.name {
            trace.name = task.name.clone();
        }
        Ok(Some(number))
    }

    pub(crate) fn pid(&mut self, pid: Pid, name: &str) -> Result<Option<u32>, InferError> {
        if pid == 0 || self.left_out.contains(&pid) {
            return Ok(None);
        }
        if let Some(number) = self.by_pid.get(&pid) {
            return Ok(Some(*number));
        }
        self.add(pid, name).map(Some)
    }

    fn add(&mut self, pid: Pid, name: &str) -> Result<u32, InferError> {
        if self.traces.len() >= MAX_RECORDED_TASKS {
            return Err(InferError::TooMuch { what: "tasks", limit: MAX_RECORDED_TASKS });
        }
        let number = self.traces.len() as u32;
        let mut trace = TaskTrace::new(pid, name, ActivityLog::charging(self.costs.operation, self.costs.compute));
        trace.group = self.groups.get(&pid).cloned();
        self.traces.push(trace);
        self.by_pid.insert(pid, number);
        Ok(number)
    }

    fn woken(&mut self, now: u64, record: &Record, task: &TaskRef, target: u32) -> Result<(), InferError> {
        let Some(number) = self.task(task)? else { return Ok(()) };
        let trace = &mut self.traces[number as usize];
        if trace.state == State::Unseen {
            // It slept from the beginning on.
            trace.state = State::Asleep;
        }
        if trace.state != State::Asleep {
            return Ok(());
        }
        let cause = self.cause(record, number);
        let joins = match cause {
            Cause::Task(waker) => self.cpus[record.cpu as usize].pending.wakes(waker, task.pid, record.flags),
            _ => false,
        };
        self.wake(now, number, cause, joins, [record.cpu, target]);
        Ok(())
    }

    /// Which task or interrupt wakes `task`, by the context in which that happens.
    fn cause(&self, record: &Record, task: u32) -> Cause {
        let cpu = &self.cpus[record.cpu as usize];
        match (record.flags.context, &cpu.timer, cpu.current) {
            (Context::Task, _, Some(waker)) if waker != task => Cause::Task(waker),
            (Context::Task, ..) => Cause::Unknown,
            (_, Some(function), _) if &**function == "hrtimer_wakeup" => Cause::Timer,
            _ => Cause::Interrupt,
        }
    }

    /// A task is woken on a CPU for another one; `joins` if that is in the system call of its waker's last wake-up.
    fn wake(&mut self, now: u64, task: u32, cause: Cause, joins: bool, [cpu, target]: [u32; 2]) {
        let counting = self.begin.is_some();
        let trace = &mut self.traces[task as usize];
        let slept = now.saturating_sub(trace.since);
        (trace.state, trace.since) = (State::Runnable, now);
        if counting {
            let costs = self.costs;
            let before = trace.log.activities.len();
            // A task that is asleep at the beginning went to sleep before.
            let went = trace.born || trace.ran;
            // It asked to sleep from the time on at which it set its timer.
            let asked = slept + if went { costs.armed } else { 0 };
            match cause {
                Cause::Task(_) => {
                    trace.log.owes(if went { costs.wait } else { 0 });
                    trace.log.did(Activity::Await);
                }
                Cause::Timer => {
                    trace.log.owes(if went { costs.sleep } else { 0 });
                    trace.log.timed(asked, now);
                }
                Cause::Interrupt | Cause::Unknown => {
                    trace.log.owes(if went { costs.sleep } else { 0 });
                    trace.log.did(Activity::Sleep(asked));
                }
            }
            self.activities += trace.log.activities.len() - before;
            let call = trace.call;
            let waker = match cause {
                Cause::Task(waker) => {
                    match call {
                        Some(Call::Lock) => self.counts.at_locks += 1,
                        Some(Call::Channel) => self.counts.at_channels += 1,
                        Some(Call::Child) => self.counts.at_children += 1,
                        Some(Call::Other) | None => {}
                    }
                    let waker = &mut self.traces[waker as usize];
                    waker.charge(now, costs.tick, self.period);
                    let before = waker.log.activities.len();
                    let remote = cpu != target;
                    let groups = &mut self.wake_groups;
                    if joins && waker.log.woke_too(costs.wake_more(remote), |woke| groups.add(woke, task)) {
                        self.activities += 1;
                    } else {
                        waker.log.owes(costs.wake(remote));
                        waker.log.did(Activity::Wake(task));
                        self.activities += waker.log.activities.len() - before;
                    }
                    self.counts.woken_by_tasks += 1;
                    true
                }
                Cause::Timer => {
                    self.counts.woken_by_timers += 1;
                    false
                }
                Cause::Interrupt => {
                    self.counts.woken_by_interrupts += 1;
                    false
                }
                Cause::Unknown => {
                    self.counts.woken_by_unknown += 1;
                    false
                }
            };
            if !waker && let Some(current) = self.cpus[cpu as usize].current {
                self.traces[current as usize].log.interrupted(costs.wakeup.saturating_add(costs.interrupt));
                self.cpus[cpu as usize].interrupted = Some(now);
            }
        }
        let waker = match cause {
            Cause::Task(waker) => TaskId(waker),
            _ => TaskId::IDLE,
        };
        self.emit(now, cpu, EventKind::Waking { task: TaskId(task), waker, target: CpuId(target) });
    }

    fn fork(&mut self, now: u64, cpu: u32, parent: Pid, name: &str, child: Pid) -> Result<(), InferError> {
        if child == 0 || self.left_out.contains(&child) {
            return Ok(());
        }
        // A pid may be given again once the task that had it is gone.
        self.by_pid.remove(&child);
        let number = self.add(child, name)?;
        let above = self.by_pid.get(&parent).copied();
        if let Some(above) = above {
            let priority = self.traces[above as usize].priority;
            let trace = &mut self.traces[number as usize];
            (trace.priority, trace.first_priority) = (priority, priority);
        }
        // A child begins in its parent's group.
        let group = match above {
            Some(above) => self.traces[above as usize].group.clone(),
            None => self.groups.get(&parent).cloned(),
        };
        let trace = &mut self.traces[number as usize];
        (trace.state, trace.since, trace.born, trace.group) = (State::Runnable, now, true, group);
        trace.log.owes(self.costs.start);
        if self.begin.is_some()
            && let Some(above) = above
        {
            trace.parent = Some(above);
            let maker = &mut self.traces[above as usize];
            maker.charge(now, self.costs.tick, self.period);
            maker.log.owes(self.costs.fork);
            maker.log.did(Activity::Fork(number));
            self.activities += 2;
            self.counts.forks += 1;
        } else if self.begin.is_some() && now > 0 {
            // Its parent is no part of the workload: the task is there from the start and sleeps until then.
            trace.log.did(Activity::Sleep(now));
        }
        let parent = above.map_or(TaskId::IDLE, TaskId);
        self.emit(now, cpu, EventKind::Fork { parent, child: TaskId(number) });
        Ok(())
    }
}

fn switch(previous: Option<u32>, state: TaskState, next: Option<u32>) -> EventKind {
    let task = |number: Option<u32>| number.map_or(TaskId::IDLE, TaskId);
    let state = if previous.is_none() { TaskState::Running } else { state };
    EventKind::Switch { previous: task(previous), state, next: task(next) }
}
