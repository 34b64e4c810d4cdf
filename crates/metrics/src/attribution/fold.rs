//! The fold: events and decisions to waits with their causes.

use std::mem;

use schedlab_model::{
    Candidate, CpuId, Decision, Event, EventKind, EventSink, PassedOver, PickClass, Reason, RuleSet, TaskId, TaskState,
    Time, TurnRule, WakeupRule,
};

use super::cause::Verdict;
use super::records::{Class, CpuRecord, Held, Phase, Picked, TaskRecord, switching};
use super::task_groups::TaskGroups;
use super::waits::{OpenWait, WaitKind};
use super::{Cause, Waits};

/// Attributes waiting time to causes. O(waiting tasks of a CPU) a decision; memory for each wait.
///
/// ```
/// use schedlab_metrics::{Attribution, Cause};
/// use schedlab_model::{
///     CpuId, Decision, Event, EventKind, EventSink, Reason, RuleSet, TaskId, TaskState, Time, WakeupRule,
/// };
/// let mut attribution = Attribution::new(1, &RuleSet::of("6.1".parse()?));
/// let (batch, worker, cpu) = (TaskId(0), TaskId(1), CpuId(0));
/// let at = Time::from_micros;
/// let mut happen = |micros, kind| attribution.event(Event { time: at(micros), cpu, kind });
/// happen(0, EventKind::Switch { previous: TaskId::IDLE, state: TaskState::Running, next: batch });
/// // The worker's lead of 0.4 ms is within the granularity of 1 ms, and it waits until batch sleeps.
/// let by = WakeupRule::Granularity { ahead: 400_000, granularity: 1_000_000 };
/// let reason = Reason::WakeupPreempt { woken: worker, current: batch, preempts: false, by };
/// attribution.decision(Decision { time: at(5), cpu, reason });
/// let mut happen = |micros, kind| attribution.event(Event { time: at(micros), cpu, kind });
/// happen(5, EventKind::Waking { task: worker, waker: TaskId::IDLE, target: cpu });
/// happen(12, EventKind::Switch { previous: batch, state: TaskState::Interruptible, next: worker });
/// let waits = attribution.finish(at(12));
/// let wait = waits.iter().next().unwrap();
/// let spans = waits.spans(wait);
/// assert_eq!((spans[0].cause, spans[0].behind, spans[0].length), (Cause::WakeupGranularity, batch, at(7)));
/// assert_eq!(spans[0].margin, 600_000);
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Attribution {
    pub(super) tasks: Vec<TaskRecord>,
    pub(super) cpus: Vec<CpuRecord>,
    pub(super) groups: TaskGroups,
    /// Real-time tasks are throttled; else the fair server runs in their place.
    pub(super) rt_throttling: bool,
    /// Fair tasks are marked for rescheduling lazily.
    lazy: bool,
    /// How many CPUs are free; kept where there are several.
    pub(super) free: usize,
    waits: Waits,
    /// By task and by group, the number of the pick that passed it over and the place among its others.
    pub(super) passed: [Vec<(u64, usize)>; 2],
    pub(super) picks: u64,
}

impl Attribution {
    /// For a machine of `cpus` CPUs that idle at first, under these rules.
    pub fn new(cpus: u32, rules: &RuleSet) -> Self {
        Self {
            tasks: Vec::new(),
            cpus: vec![CpuRecord::IDLE; cpus as usize],
            groups: TaskGroups::default(),
            rt_throttling: rules.rt_throttling,
            lazy: rules.lazy,
            free: cpus as usize,
            waits: Waits::default(),
            passed: [Vec::new(), Vec::new()],
            picks: 0,
        }
    }

    /// A task is moved to another group: its groups from its own upwards, the root group left out.
    pub fn moved(&mut self, task: TaskId, groups: &[u32]) {
        if self.has(task) {
            self.groups.enter(task, groups);
        }
    }

    /// All waits until `end`; those that go on are cut there.
    pub fn finish(mut self, end: Time) -> Waits {
        for index in 0..self.tasks.len() {
            let task = TaskId(index as u32);
            self.close(task, end);
            if let Some(open) = self.tasks[index].wait.take() {
                let cpu = self.tasks[index].cpu;
                self.waits.end(task, cpu, open, end, false);
            }
        }
        self.waits
    }

    fn has(&mut self, task: TaskId) -> bool {
        if task == TaskId::IDLE {
            return false;
        }
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, TaskRecord::NEW);
        }
        true
    }

    fn has_cpu(&mut self, cpu: CpuId) {
        if self.cpus.len() <= cpu.index() {
            self.free += cpu.index() + 1 - self.cpus.len();
            self.cpus.resize(cpu.index() + 1, CpuRecord::IDLE);
        }
    }

    fn is_waiting_on(&self, task: TaskId, cpu: CpuId) -> bool {
        self.tasks.get(task.index()).is_some_and(|record| record.phase == Phase::Waiting && record.cpu == cpu)
    }

    /// Accounts for a waiting task's time up to now.
    fn close(&mut self, task: TaskId, now: Time) {
        let record = &mut self.tasks[task.index()];
        let Some(wait) = &mut record.wait else { return };
        let Held { verdict, behind, at } = record.held;
        let decided = match (verdict.cause, record.elsewhere) {
            // A CPU that idles does not help a throttled task.
            (Cause::Quota(_) | Cause::RealtimeThrottled | Cause::DeadlineThrottled, _) | (_, None) => verdict,
            (_, Some(elsewhere)) => elsewhere,
        };
        let Verdict { cause, margin, lasts } = decided;
        if let Some(lasts) = lasts {
            let until = at + Time::from_nanos(lasts);
            wait.add(until.min(now), cause, behind, margin);
            wait.add(now, Cause::AwaitingTick, behind, 0);
        } else {
            wait.add(now, cause, behind, margin);
        }
    }

    fn hold(&mut self, task: TaskId, verdict: Verdict, behind: TaskId, now: Time) {
        self.close(task, now);
        let behind = if verdict.cause.is_behind() { behind } else { TaskId::IDLE };
        self.tasks[task.index()].held = Held { verdict, behind, at: now };
    }

    fn mark_passed(&mut self, others: &[(Candidate, PassedOver)]) {
        self.picks += 1;
        for (place, (candidate, _)) in others.iter().enumerate() {
            let (table, index) = match candidate {
                // A hostile recording wakes the idle task, whose number is the greatest there is.
                Candidate::Task(TaskId::IDLE) => continue,
                Candidate::Task(task) => (&mut self.passed[0], task.index()),
                Candidate::Group(group) => (&mut self.passed[1], *group as usize),
            };
            if table.len() <= index {
                table.resize(index + 1, (0, 0));
            }
            table[index] = (self.picks, place);
        }
    }

    fn picked(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        class: PickClass,
        levels: Vec<schedlab_model::PickLevel>,
        now: Time,
    ) {
        let marked = self.cpus[cpu.index()].marked.take();
        if class == PickClass::Fair {
            self.groups.pick(&levels);
        }
        if self.has(task) {
            self.tasks[task.index()].class = match class {
                PickClass::Fair => Class::Fair,
                PickClass::Realtime(priority) => Class::Realtime(priority),
                PickClass::Deadline => Class::Deadline,
                _ => self.tasks[task.index()].class,
            };
        }
        let bare = levels.is_empty();
        let others: Vec<_> = levels.into_iter().flat_map(|level| level.others).collect();
        self.mark_passed(&others);
        self.cpus[cpu.index()].pick = Some(Picked { task, class, others, bare });
        let waiting = mem::take(&mut self.cpus[cpu.index()].waiting);
        for other in waiting.iter().copied() {
            if other == task {
                if let Some((marked, lazily)) = marked {
                    // It waited for the switch alone, since the CPU was marked for rescheduling.
                    let since = self.tasks[other.index()].wait.as_ref().map_or(now, |wait| wait.since);
                    let running = self.cpus[cpu.index()].current;
                    self.hold(other, switching(running, lazily), running, since.max(marked));
                    self.tasks[other.index()].elsewhere = None;
                }
            } else if let Some(verdict) = self.passed_over(other, cpu) {
                self.hold(other, verdict, task, now);
            }
        }
        self.cpus[cpu.index()].waiting = waiting;
    }

    /// The running task continues: the cause of the others' waits until the next decision.
    fn goes_on(&mut self, cpu: CpuId, current: Candidate, verdict: Verdict, now: Time) {
        let record = &mut self.cpus[cpu.index()];
        if record.marked.is_some() {
            return;
        }
        let (waiting, running) = (mem::take(&mut record.waiting), record.current);
        for task in waiting.iter().copied() {
            let fair = matches!(self.tasks[task.index()].class, Class::Unknown | Class::Fair);
            let held = self.tasks[task.index()].held.verdict.cause;
            if fair && !matches!(held, Cause::Quota(_)) && self.groups.competes(current, task) {
                self.hold(task, verdict, running, now);
            }
        }
        self.cpus[cpu.index()].waiting = waiting;
    }

    fn woken(&mut self, cpu: CpuId, woken: TaskId, preempts: bool, by: WakeupRule, now: Time) {
        if !self.has(woken) {
            return;
        }
        let current = self.cpus[cpu.index()].current;
        let verdict = if preempts {
            let above = matches!(by, WakeupRule::HigherClass | WakeupRule::Priority(_) | WakeupRule::Deadline(_));
            let lazily = self.lazy && !above;
            self.mark(cpu, lazily, now);
            switching(current, lazily)
        } else {
            Verdict::of_wakeup(by).unwrap_or_else(|| self.by_class(cpu, woken, by))
        };
        let held = Held { verdict, behind: if verdict.cause.is_behind() { current } else { TaskId::IDLE }, at: now };
        if self.is_waiting_on(woken, cpu) {
            let record = &mut self.tasks[woken.index()];
            // Of a task that is moved away and back at one instant all decisions are told before all moves.
            record.back = Some((cpu, held));
            match &record.wait {
                // A recording has the wake-up before the decision on it.
                Some(wait) if wait.since == wait.began && record.held.verdict.cause == Cause::Unknown => {
                    record.held = held
                }
                _ => self.hold(woken, verdict, current, now),
            }
        } else {
            self.tasks[woken.index()].woken = Some((cpu, held));
        }
    }

    /// A CPU is marked for rescheduling; a lazy mark may be followed by an immediate one.
    fn mark(&mut self, cpu: CpuId, lazily: bool, now: Time) {
        let marked = self.cpus[cpu.index()].marked.get_or_insert((now, lazily));
        marked.1 &= lazily;
    }

    fn throttle(&mut self, cpu: CpuId, group: u32, now: Time) {
        self.cpus[cpu.index()].throttled.push(group);
        let waiting = mem::take(&mut self.cpus[cpu.index()].waiting);
        for task in waiting.iter().copied().filter(|_| group != 0) {
            if self.groups.is_in(task, group) {
                self.hold(task, Verdict::of(Cause::Quota(group)), TaskId::IDLE, now);
            }
        }
        self.cpus[cpu.index()].waiting = waiting;
    }

    fn unthrottle(&mut self, cpu: CpuId, group: u32, now: Time) {
        self.cpus[cpu.index()].throttled.retain(|other| *other != group);
        let (waiting, current) = (mem::take(&mut self.cpus[cpu.index()].waiting), self.cpus[cpu.index()].current);
        for task in waiting.iter().copied() {
            if matches!(self.tasks[task.index()].held.verdict.cause, Cause::Quota(_)) {
                let after = if current == TaskId::IDLE { Cause::IdleExit } else { Cause::Refilled };
                let verdict = self.throttled(task, cpu).unwrap_or(Verdict::of(after));
                self.hold(task, verdict, current, now);
            }
        }
        self.cpus[cpu.index()].waiting = waiting;
    }

    /// A task waits on a CPU from now on.
    fn begin(&mut self, task: TaskId, cpu: CpuId, kind: WaitKind, now: Time) {
        if self.tasks[task.index()].wait.is_none() {
            self.tasks[task.index()].wait = Some(OpenWait::new(kind, now));
        }
        self.change(cpu, |record| record.waiting.push(task), now);
        let record = &mut self.tasks[task.index()];
        (record.phase, record.cpu) = (Phase::Waiting, cpu);
        // A decision about another CPU belongs to a migration whose event is still to come.
        let told = record.woken.take_if(|(on, _)| *on == cpu);
        let told =
            told.or_else(|| record.back.take_if(|(on, held)| *on == cpu && held.at == now)).map(|(_, held)| held);
        let queue = &self.cpus[cpu.index()];
        let current = queue.current;
        let held = match (self.throttled(task, cpu), told) {
            (Some(verdict), _) => Held { verdict, behind: TaskId::IDLE, at: now },
            (None, Some(held)) => held,
            (None, None) => {
                let idle = (current == TaskId::IDLE).then_some(Verdict::of(Cause::IdleExit));
                let marked = queue.marked.map(|(_, lazily)| switching(current, lazily));
                let verdict = idle.or(marked).or_else(|| self.below_current(task, cpu));
                let verdict = verdict.unwrap_or(Verdict::of(Cause::Unknown));
                Held { verdict, behind: current, at: now }
            }
        };
        self.hold(task, held.verdict, held.behind, now);
        self.look_elsewhere(task, now);
    }

    /// A change of a CPU's record after which it may be free, or not any more.
    fn change(&mut self, cpu: CpuId, change: impl FnOnce(&mut CpuRecord), now: Time) {
        let record = &mut self.cpus[cpu.index()];
        let before = record.is_free();
        change(record);
        let after = record.is_free();
        if before != after {
            self.free = if after { self.free + 1 } else { self.free.saturating_sub(1) };
            self.look_everywhere(now);
        }
    }

    fn look_everywhere(&mut self, now: Time) {
        if self.cpus.len() < 2 {
            return;
        }
        for cpu in 0..self.cpus.len() {
            for place in 0..self.cpus[cpu].waiting.len() {
                self.look_elsewhere(self.cpus[cpu].waiting[place], now);
            }
        }
    }

    /// Whether another CPU idles on which a waiting task may run, and what keeps it from there.
    fn look_elsewhere(&mut self, task: TaskId, now: Time) {
        let elsewhere = self.elsewhere(task);
        if elsewhere != self.tasks[task.index()].elsewhere {
            self.close(task, now);
            self.tasks[task.index()].elsewhere = elsewhere;
        }
    }

    /// What a CPU decided about taking a task from another one.
    fn idled(&mut self, cpu: CpuId, verdict: Verdict, now: Time) {
        let general = verdict.cause == Cause::Newidle(schedlab_model::NewidleRule::NothingToPull);
        let record = &mut self.cpus[cpu.index()];
        // Why a domain gave nothing tells more than that none did.
        if general && record.idled.is_some_and(|(time, _)| time == now) {
            return;
        }
        record.idled = Some((now, verdict));
        self.look_everywhere(now);
    }

    fn switch(&mut self, cpu: CpuId, previous: TaskId, state: TaskState, next: TaskId, now: Time) {
        let told = self.cpus[cpu.index()].pick.as_ref().is_some_and(|pick| pick.task == next);
        self.change(cpu, |record| (record.current, record.marked) = (next, None), now);
        if self.has(next) {
            self.close(next, now);
            let record = &mut self.tasks[next.index()];
            let waited_on = mem::replace(&mut record.cpu, cpu);
            record.phase = Phase::Running;
            (record.woken, record.elsewhere) = (None, None);
            if let Some(open) = record.wait.take() {
                self.waits.end(next, cpu, open, now, true);
                self.change(waited_on, |queue| queue.waiting.retain(|waiting| *waiting != next), now);
            }
        }
        if !told {
            // A switch that no decision accounts for.
            self.cpus[cpu.index()].pick = None;
            let waiting = self.cpus[cpu.index()].waiting.clone();
            waiting.into_iter().for_each(|task| self.hold(task, Verdict::of(Cause::Unknown), TaskId::IDLE, now));
        }
        if self.has(previous) {
            if state == TaskState::Running {
                self.begin(previous, cpu, WaitKind::Preempted, now);
                if let Some(verdict) = self.passed_over(previous, cpu) {
                    self.hold(previous, verdict, next, now);
                }
            } else {
                let record = &mut self.tasks[previous.index()];
                (record.phase, record.woken, record.selected) = (Phase::Asleep, None, None);
            }
        }
        if self.cpus.len() > 1 {
            // Its tasks do not wait on an idle CPU any more.
            for place in 0..self.cpus[cpu.index()].waiting.len() {
                self.look_elsewhere(self.cpus[cpu.index()].waiting[place], now);
            }
        }
    }

    fn migrate(&mut self, task: TaskId, to: CpuId, now: Time) {
        if self.tasks[task.index()].phase != Phase::Waiting {
            return;
        }
        self.close(task, now);
        let from = self.tasks[task.index()].cpu;
        self.change(from, |queue| queue.waiting.retain(|waiting| *waiting != task), now);
        self.begin(task, to, WaitKind::Preempted, now);
        if self.cpus[to.index()].pick.as_ref().is_some_and(|pick| pick.task == task) {
            // It was picked there as it came.
            self.hold(task, Verdict::of(Cause::Rescheduling), TaskId::IDLE, now);
        }
    }
}

impl EventSink for Attribution {
    const EXPLAINS: bool = true;

    fn event(&mut self, event: Event) {
        let Event { time: now, cpu, kind } = event;
        self.has_cpu(cpu);
        match kind {
            EventKind::Fork { parent, child } => {
                if self.has(parent) && self.has(child) {
                    self.groups.fork(parent, child);
                }
            }
            EventKind::Waking { task, target, .. } | EventKind::WakeupNew { task, target } => {
                self.has_cpu(target);
                if self.has(task) && matches!(self.tasks[task.index()].phase, Phase::Unknown | Phase::Asleep) {
                    let new = matches!(kind, EventKind::WakeupNew { .. });
                    self.begin(task, target, if new { WaitKind::New } else { WaitKind::Woken }, now);
                }
            }
            EventKind::Switch { previous, state, next } => self.switch(cpu, previous, state, next, now),
            EventKind::Migrate { task, to, .. } => {
                self.has_cpu(to);
                if self.has(task) {
                    self.migrate(task, to, now);
                }
            }
            EventKind::Exit { .. } | EventKind::Mark { .. } => {}
        }
    }

    fn decision(&mut self, decision: Decision) {
        let Decision { time: now, cpu, reason } = decision;
        self.has_cpu(cpu);
        match reason {
            Reason::Pick { task, class, levels, .. } => self.picked(cpu, task, class, levels, now),
            Reason::WakeupPreempt { woken, preempts, by, .. } => self.woken(cpu, woken, preempts, by, now),
            Reason::Turn { current, preempts, by, .. } => match Verdict::of_turn(by) {
                _ if preempts => self.mark(cpu, self.lazy && by != TurnRule::RoundRobin, now),
                Some(verdict) => self.goes_on(cpu, current, verdict, now),
                None => {}
            },
            Reason::Place { entity, within, .. } => {
                self.groups.place(entity, within);
                if let Candidate::Task(task) = entity
                    && self.has(task)
                {
                    self.tasks[task.index()].class = Class::Fair;
                }
            }
            Reason::Select { task, by, .. } => {
                if self.has(task) {
                    self.tasks[task.index()].selected = Some(by);
                }
            }
            Reason::Newidle { runs: false, by } => {
                self.change(cpu, |record| record.offline = by == schedlab_model::NewidleRule::NoDomain, now);
                self.idled(cpu, Verdict::of_newidle(by), now);
            }
            Reason::Balance { moved: 0, by, .. } => self.idled(cpu, Verdict::of(Cause::Balance(by)), now),
            Reason::Newidle { .. } | Reason::Balance { .. } => {}
            Reason::Throttle { group, .. } => self.throttle(cpu, group, now),
            Reason::Unthrottle { group, .. } => self.unthrottle(cpu, group, now),
        }
    }

    fn affinity(&mut self, task: TaskId, cpus: &[u32]) {
        if self.has(task) {
            self.tasks[task.index()].allowed = cpus.to_vec();
        }
    }
}
