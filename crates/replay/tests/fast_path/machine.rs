//! A machine that is driven by one path or the other.

use proptest::sample::Index;
use schedlab_model::{CpuId, TaskId, TaskState, Time, Topology};
use schedlab_sched::{Books, Clocks, Ours, Sched, WakeKind};

use crate::queue::Queue;

/// By which sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Those of `core.rs`, tick by tick.
    General,
    /// Those of `fast_path/` where they apply, with ticks put off.
    Fast,
}

/// What happens.
#[derive(Debug, Clone)]
pub enum Op {
    /// One of those that sleep wakes, by an interrupt on the CPU where it ran last.
    Wake(Index),
    /// One of those that run goes to sleep.
    Sleep(Index),
    /// One of those that run goes to sleep so many nanoseconds after a task woke on its CPU: by then it may be marked for rescheduling, and
    /// be a buddy (LAST_BUDDY).
    WakeAndSleep(Index, u64),
    /// One of those that run goes to sleep, and then so does each that runs after it on its CPU, so many nanoseconds later each time.
    SleepInTurn(Index, Vec<u64>),
    /// Time passes.
    Nothing,
}

/// No tick is to come.
const NEVER: u64 = u64::MAX;

/// The time at which all recorded queues are taken to stand, an hour after the start.
const START: u64 = 3_600_000_000_000;

/// A run.
pub struct Run {
    sched: Sched<Ours>,
    path: Path,
    now: u64,
    period: u64,
    /// By CPU, the first tick that was not done, and the first that may act; [`NEVER`] while it idles.
    ticks: Vec<[u64; 2]>,
}

/// Of nothing that CPUs do alone is a book kept.
struct NoBooks;

impl Books for NoBooks {
    fn switched(&mut self, _: u64, _: TaskId, _: TaskId) {}
}

fn clocks(now: u64) -> Clocks {
    Clocks::all(Time::from_nanos(now))
}

impl Run {
    /// Each CPU has one of the queues.
    pub fn start(queues: &[&Queue], topology: &str, path: Path) -> Self {
        let mut sched = Sched::new(queues[0].rules, queues.len() as u32, Ours::default());
        sched.set_topology(&topology.parse::<Topology>().unwrap(), 0, 1);
        let now = START;
        sched.set_machine_clock(Time::from_nanos(now));
        let period = sched.rules().tick;
        for (cpu, queue) in sched.cpus().zip(queues) {
            sched.set_clocks(cpu, clocks(now));
            queue.put_on(&mut sched, cpu, Time::from_nanos(now));
        }
        assert!(sched.is_flat(), "the fast path applies");
        let mut run = Self { ticks: vec![[NEVER; 2]; queues.len()], sched, path, now, period };
        run.settle();
        run
    }

    fn eevdf(&self) -> bool {
        self.sched.rules().eevdf
    }

    /// The first tick of a CPU after now. Each CPU has its own phase, so that no two ticks are at one instant.
    fn tick_after_now(&self, cpu: CpuId) -> u64 {
        let phase = u64::from(cpu.0) * 10_007 + 1;
        (self.now - phase) / self.period * self.period + self.period + phase
    }

    /// Time goes on, with all ticks and timers that are due meanwhile.
    pub fn advance(&mut self, time: Time) {
        let until = self.now + time.as_nanos();
        loop {
            if self.path == Path::Fast {
                self.go_on_alone(until);
            }
            let (due, cpu) = self.ticks.iter().map(|ticks| ticks[1]).zip(self.sched.cpus()).min().unwrap();
            let timer = self.sched.next_timer_expires().as_nanos();
            if due.min(timer) > until {
                break;
            }
            self.now = self.now.max(due.min(timer));
            self.sched.set_machine_clock(Time::from_nanos(self.now));
            if timer <= due {
                self.timer()
            } else {
                self.tick(cpu)
            }
            self.settle();
        }
        self.now = until;
        self.sched.set_machine_clock(Time::from_nanos(until));
    }

    /// CPUs that all compute go on alone until something else may happen.
    fn go_on_alone(&mut self, until: u64) {
        if self.eevdf() {
            return;
        }
        let Some(horizon) = self.sched.flat_horizon() else { return };
        let horizon = horizon.min(until).min(self.sched.next_timer_expires().as_nanos());
        for cpu in self.sched.cpus() {
            let ticks = &mut self.ticks[cpu.index()];
            if ticks[1] < horizon
                && let Some(done) = self.sched.flat_slices(cpu, *ticks, horizon, &mut NoBooks)
            {
                *ticks = done.ticks;
            }
        }
    }

    fn timer(&mut self) {
        let Some((time, timer)) = self.sched.next_timer() else { return };
        let touched: Vec<CpuId> = match self.sched.timer_cpu(timer) {
            Some(cpu) => vec![cpu],
            None => self.sched.cpus().collect(),
        };
        touched.into_iter().for_each(|cpu| self.touch(cpu));
        if self.sched.next_timer() == Some((time, timer)) {
            self.sched.run_timer();
        }
    }

    fn tick(&mut self, cpu: CpuId) {
        let (now, period) = (self.now, self.period);
        let [first, due] = self.ticks[cpu.index()];
        if self.path == Path::Fast {
            let count = (due - first) / period + 1;
            if let Some(tick) = self.sched.flat_tick(cpu, Time::from_nanos(first), count) {
                let next = due + period;
                self.ticks[cpu.index()] = [next, next.saturating_add(tick.inactive.saturating_mul(period))];
                return;
            }
            if first < due {
                self.catch_up_before(cpu, due);
            } else if self.puts_off(cpu) {
                return;
            }
            if self.ticks.iter().all(|[first, due]| first == due) {
                if self.sched.flat_tick_alone(cpu).is_some() {
                    self.ticks[cpu.index()] = [due + period; 2];
                    return;
                }
            } else if self.sched.tick_balances(cpu) {
                self.ticks[cpu.index()] = [due + period; 2];
                self.look_at_all();
            }
        }
        self.ticks[cpu.index()] = [due + period; 2];
        self.sched.set_clocks(cpu, clocks(now));
        self.sched.sched_tick(cpu);
    }

    /// Whether the tick that is due, and others after it, can be made up for later.
    fn puts_off(&mut self, cpu: CpuId) -> bool {
        let due = self.ticks[cpu.index()][1];
        let inactive = self.sched.inactive_ticks(cpu, Time::from_nanos(due));
        self.ticks[cpu.index()][1] = due.saturating_add(inactive.saturating_mul(self.period));
        inactive > 0
    }

    /// Makes up for a CPU's ticks before `time`.
    fn catch_up_before(&mut self, cpu: CpuId, time: u64) {
        let [first, due] = &mut self.ticks[cpu.index()];
        if *first < time {
            let count = (time - *first).div_ceil(self.period);
            self.sched.skip_ticks(cpu, Time::from_nanos(*first), count);
            *first += count * self.period;
            assert!(*first <= *due, "a tick that may act was put off");
        }
    }

    /// Makes up for a CPU's ticks, whose queue is to be looked at or changed.
    fn catch_up(&mut self, cpu: CpuId) {
        self.catch_up_before(cpu, self.now + 1);
        let [first, due] = &mut self.ticks[cpu.index()];
        *due = *first;
    }

    fn touch(&mut self, cpu: CpuId) {
        self.catch_up(cpu);
        self.sched.set_clocks(cpu, clocks(self.now));
    }

    fn look_at_all(&mut self) {
        self.sched.cpus().for_each(|cpu| self.catch_up(cpu));
    }

    /// What an operation, a tick or a timer brought about on the CPUs: those that are to schedule do.
    fn settle(&mut self) {
        let mut rounds = 0;
        loop {
            self.sched.take_migrations_into(&mut vec![]);
            self.sched.take_touched();
            self.sched.take_looked_at();
            let asked = |cpu: &CpuId| {
                let idles = self.sched.curr(*cpu) == TaskId::IDLE;
                self.sched.need_resched(*cpu) || idles && self.sched.nr_running(*cpu) > 0
            };
            let Some(cpu) = self.sched.cpus().find(asked) else { break };
            self.schedule(cpu, TaskState::Running);
            rounds += 1;
            assert!(rounds < 1_000, "CPUs schedule for ever");
        }
        for cpu in self.sched.cpus() {
            let idles = self.sched.curr(cpu) == TaskId::IDLE;
            let ticks = self.ticks[cpu.index()][0] != NEVER;
            if idles == ticks {
                let next = if idles { NEVER } else { self.tick_after_now(cpu) };
                self.ticks[cpu.index()] = [next; 2];
            }
        }
    }

    /// The CPU schedules; the current task is in `state`.
    fn schedule(&mut self, cpu: CpuId, state: TaskState) {
        if self.path == Path::Fast {
            if self.sched.looks_at_others(cpu, state) {
                self.look_at_all();
            }
            self.touch(cpu);
            let done = match (state, self.eevdf()) {
                (TaskState::Running, _) => self.sched.flat_preempt(cpu).is_some(),
                (_, true) => self.sched.flat_block::<true>(cpu).is_some(),
                (_, false) => self.sched.flat_block::<false>(cpu).is_some(),
            };
            if done {
                return;
            }
        }
        self.touch(cpu);
        self.sched.schedule(cpu, state);
    }

    /// Carries out an operation, if there is a task for it.
    pub fn carry_out(&mut self, op: &Op) {
        match op {
            Op::Nothing => {}
            Op::Sleep(which) => {
                if let Some(cpu) = self.one_of_busy(which) {
                    self.schedule(cpu, TaskState::Interruptible);
                }
            }
            Op::SleepInTurn(which, pauses) => {
                let Some(cpu) = self.one_of_busy(which) else { return };
                for pause in pauses {
                    if self.sched.curr(cpu) == TaskId::IDLE {
                        break;
                    }
                    self.schedule(cpu, TaskState::Interruptible);
                    self.settle();
                    self.advance(Time::from_nanos(*pause));
                }
            }
            Op::Wake(which) => {
                self.wake_one_of(which);
            }
            Op::WakeAndSleep(which, later) => {
                let idled: Vec<bool> = self.sched.cpus().map(|cpu| self.sched.curr(cpu) == TaskId::IDLE).collect();
                let woken = self.wake_one_of(which).map(|task| self.sched.task_cpu(task));
                if let Some(cpu) = woken.filter(|cpu| !idled[cpu.index()]) {
                    self.go_on_before_events(*later);
                    self.schedule(cpu, TaskState::Interruptible);
                }
            }
        }
        self.settle();
    }

    fn one_of_busy(&self, which: &Index) -> Option<CpuId> {
        let busy: Vec<CpuId> = self.sched.cpus().filter(|cpu| self.sched.curr(*cpu) != TaskId::IDLE).collect();
        (!busy.is_empty()).then(|| *which.get(&busy))
    }

    /// Time goes on before a CPU that is marked for rescheduling schedules, unless there is a tick or a timer in between.
    fn go_on_before_events(&mut self, time: u64) {
        let until = self.now + time;
        let tick = self.sched.cpus().map(|cpu| self.tick_after_now(cpu)).min().unwrap();
        if tick.min(self.sched.next_timer_expires().as_nanos()) > until {
            self.now = until;
            self.sched.set_machine_clock(Time::from_nanos(until));
        }
    }

    /// Wakes one of the sleeping tasks, if there is one, and returns it.
    fn wake_one_of(&mut self, which: &Index) -> Option<TaskId> {
        let sleeps = |task: &TaskId| {
            let entity = self.sched.entity(*task);
            !entity.on_rq || entity.sched_delayed
        };
        let asleep: Vec<TaskId> = self.sched.tasks().filter(sleeps).collect();
        let woken = (!asleep.is_empty()).then(|| *which.get(&asleep));
        woken.inspect(|task| self.wake(*task))
    }

    fn wake(&mut self, task: TaskId) {
        let home = self.sched.task_cpu(task);
        self.catch_up(home);
        match (self.path, self.eevdf()) {
            (Path::General, _) => {
                let target = self.sched.select_task_rq(task, home, WakeKind::Wakeup { sync: false });
                self.touch(target);
                assert!(self.sched.try_to_wake_up(task, target));
            }
            (Path::Fast, true) => self.wake_fast::<true>(task, home),
            (Path::Fast, false) => self.wake_fast::<false>(task, home),
        }
    }

    fn wake_fast<const EEVDF: bool>(&mut self, task: TaskId, home: CpuId) {
        let wakeup = self.sched.flat_select::<EEVDF>(task);
        let target = wakeup.cpu();
        if target != home {
            self.catch_up(home);
        }
        if self.sched.curr(target) == TaskId::IDLE {
            self.sched.flat_wake::<EEVDF, false>(wakeup, true);
            return;
        }
        self.touch(target);
        self.sched.flat_wake_later::<EEVDF>(wakeup);
    }

    /// The task that runs on each CPU, and where all tasks are.
    pub fn placements(&self) -> String {
        let runs: Vec<TaskId> = self.sched.cpus().map(|cpu| self.sched.curr(cpu)).collect();
        let places: Vec<u32> = self.sched.tasks().map(|task| self.sched.task_cpu(task).0).collect();
        format!("at {}: {runs:?} run, tasks on {places:?}", self.now)
    }

    /// All that is left behind: each task, each queue, averages and what balancing remembers.
    pub fn state(&mut self) -> Vec<String> {
        self.look_at_all();
        let sched = &self.sched;
        let tasks = sched.tasks().map(|task| {
            let (se, load) = (sched.entity(task), (sched.load_of(task), sched.util_est_of(task)));
            let timed =
                (se.vruntime, se.exec_start, se.sum_exec_runtime, se.prev_sum_exec_runtime, se.deadline, se.vlag);
            let placed = (se.vprot, se.slice, se.cfs_rq, se.on_rq, se.sched_delayed, se.rel_deadline);
            format!("at {} task {task:?}: {timed:?} {placed:?} {load:?} {:?}", self.now, sched.task(task))
        });
        let queues = sched.cpus().map(|cpu| {
            let queue = sched.cfs_rq(cpu);
            let counts = (queue.load.scaled, queue.nr_running, queue.h_nr_running, queue.h_nr_delayed);
            let virtual_time = (queue.min_vruntime, queue.zero_vruntime, queue.avg_vruntime, queue.avg_load);
            let who = (queue.curr, queue.next, queue.last, queue.skip, queue.timeline.iter().collect::<Vec<_>>());
            let loads = (sched.load_of_cpu(cpu), sched.load_left_on_cpu(cpu), sched.util_est_of_cpu(cpu));
            let balance = (sched.domains(cpu), sched.balance_state(cpu), sched.fair_server_state(cpu));
            format!("at {} {cpu:?}: {counts:?} {virtual_time:?} {who:?} {loads:?} {balance:?}", self.now)
        });
        let timer = format!("at {} timer {:?}", self.now, sched.next_timer());
        tasks.chain(queues).chain([timer]).collect()
    }
}
