//! A machine under test: virtual time set by hand, one call a sequence of the scheduler.

use schedlab_model::{Attributes, CpuId, Policy, Scheduler, TaskId, TaskState, Time};
use schedlab_sched::{CfsRq, Clocks, Entity, Ours, Rules, Sched, Vruntime, WakeKind};

pub const CPU0: CpuId = CpuId(0);
pub const CPU1: CpuId = CpuId(1);

/// One microsecond and one millisecond, in nanoseconds.
pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;

/// Where virtual time starts on every queue: 2^20 ns before it wraps (`init_cfs_rq`).
pub const ORIGIN: Vruntime = Vruntime(0u64.wrapping_sub(1 << 20));

/// A scheduler with a clock that the test moves.
#[derive(Debug, Clone)]
pub struct Lab {
    pub sched: Sched<Ours>,
    /// Nanoseconds since the machine started.
    pub now: u64,
    cpus: u32,
}

/// The rules of `release` for one CPU's defaults with knobs set.
pub fn rules(release: &str, hz: u32, knobs: &[(&str, &str)]) -> Rules {
    let mut scheduler = Scheduler::new(release.parse().expect("a kernel release"));
    scheduler.hz = hz;
    for (name, value) in knobs {
        scheduler.set(name, value).expect("a knob of the release");
    }
    let mut rules = Rules::new(&scheduler, 1).expect("valid settings");
    // A test that wants real-time tasks throttled says so, as it has to run the period timer.
    if !knobs.iter().any(|(name, _)| *name == "rt_runtime") {
        rules.tunables.rt_runtime = None;
    }
    rules
}

pub fn attributes(policy: Policy, nice: i8) -> Attributes {
    Attributes { policy, nice, ..Attributes::default() }
}

pub fn pinned(cpus: &[u32]) -> Attributes {
    Attributes { affinity: cpus.to_vec(), ..Attributes::default() }
}

impl Lab {
    /// One CPU, the release's defaults but for `knobs`, at time 1 s.
    pub fn new(release: &str, knobs: &[(&str, &str)]) -> Self {
        Self::with_cpus(release, 1, knobs)
    }

    /// Several CPUs. Knob defaults are those of one CPU, so that a test's arithmetic does not depend on how many there are.
    pub fn with_cpus(release: &str, cpus: u32, knobs: &[(&str, &str)]) -> Self {
        Self::with_rules(rules(release, 250, knobs), cpus)
    }

    pub fn with_rules(rules: Rules, cpus: u32) -> Self {
        let mut lab = Self { sched: Sched::new(rules, cpus, Ours::default()), now: 0, cpus };
        lab.advance(1_000 * MS);
        lab.cpus().for_each(|cpu| lab.sync(cpu));
        lab
    }

    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus).map(CpuId)
    }

    /// Lets time pass. A queue sees it at its next critical section.
    pub fn advance(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
    }

    /// `update_rq_clock`.
    pub fn sync(&mut self, cpu: CpuId) {
        self.sched.set_clocks(cpu, Clocks::all(Time::from_nanos(self.now)));
    }

    /// A first task on CPU 0, woken there.
    pub fn spawn(&mut self, policy: Policy, nice: i8) -> TaskId {
        self.spawn_on(CPU0, policy, nice)
    }

    pub fn spawn_on(&mut self, cpu: CpuId, policy: Policy, nice: i8) -> TaskId {
        let task = self.sched.new_task(&attributes(policy, nice));
        self.sync(cpu);
        self.sched.wake_up_new_task(task, cpu);
        task
    }

    /// A nice-0 SCHED_OTHER task on CPU 0.
    pub fn task(&mut self) -> TaskId {
        self.spawn(Policy::Other, 0)
    }

    /// Forks the running task of `cpu` and wakes the child on `target`.
    pub fn fork(&mut self, parent: TaskId, target: CpuId) -> TaskId {
        self.sync(self.sched.task_cpu(parent));
        let child = self.sched.sched_fork(parent, false);
        self.sync(target);
        self.sched.wake_up_new_task(child, target);
        child
    }

    /// `schedule()` with the running task still runnable.
    pub fn schedule(&mut self, cpu: CpuId) -> TaskId {
        self.leave(cpu, TaskState::Running)
    }

    /// The running task goes to sleep; the task that runs then.
    pub fn sleep(&mut self, cpu: CpuId) -> TaskId {
        self.leave(cpu, TaskState::Interruptible)
    }

    pub fn leave(&mut self, cpu: CpuId, state: TaskState) -> TaskId {
        self.sync(cpu);
        if state == TaskState::Running {
            self.sched.exit_to_user(cpu);
        }
        let mut next = self.sched.schedule(cpu, state).next;
        while self.sched.exit_to_user(cpu) {
            next = self.sched.schedule(cpu, TaskState::Running).next;
        }
        next
    }

    /// Wakes `task` on `cpu`; says whether the running task is to be preempted.
    pub fn wake_on(&mut self, task: TaskId, cpu: CpuId) -> bool {
        self.sync(self.sched.task_cpu(task));
        self.sync(cpu);
        assert!(self.sched.try_to_wake_up(task, cpu), "{task:?} was not asleep");
        self.sched.need_resched(cpu)
    }

    /// Wakes `task` where it last ran.
    pub fn wake(&mut self, task: TaskId) -> bool {
        self.wake_on(task, self.sched.task_cpu(task))
    }

    /// A tick after `nanoseconds` more; says whether it asks for a reschedule.
    pub fn tick_after(&mut self, cpu: CpuId, nanoseconds: u64) -> bool {
        self.advance(nanoseconds);
        self.sync(cpu);
        self.sched.sched_tick(cpu);
        self.must_switch(cpu)
    }

    /// Whether the current task of `cpu`, in user space, has to go: for another task, or as its group is throttled.
    pub fn must_switch(&self, cpu: CpuId) -> bool {
        self.sched.need_resched(cpu) || self.sched.is_throttle_pending(cpu)
    }

    /// Lets the running task of `cpu` run for `nanoseconds` and charges it; no tick.
    pub fn run(&mut self, cpu: CpuId, nanoseconds: u64) {
        self.advance(nanoseconds);
        self.sync(cpu);
        self.sched.update_curr(cpu);
    }

    /// What a tick would say so much later, leaving everything as it is.
    pub fn would_preempt_after(&self, cpu: CpuId, nanoseconds: u64) -> bool {
        self.clone().tick_after(cpu, nanoseconds)
    }

    /// `sched_yield(2)`: the task that runs then.
    pub fn yields(&mut self, cpu: CpuId) -> TaskId {
        self.sync(cpu);
        self.sched.sched_yield(cpu);
        self.schedule(cpu)
    }

    pub fn place(&mut self, task: TaskId, waker_cpu: CpuId, why: WakeKind) -> CpuId {
        self.sched.select_task_rq(task, waker_cpu, why)
    }

    pub fn curr(&self, cpu: CpuId) -> TaskId {
        self.sched.curr(cpu)
    }

    pub fn entity(&self, task: TaskId) -> &Entity {
        self.sched.entity(task)
    }

    pub fn queue(&self, cpu: CpuId) -> &CfsRq {
        self.sched.cfs_rq(cpu)
    }

    /// A task's virtual time, from where its queue started.
    pub fn vruntime(&self, task: TaskId) -> i64 {
        self.entity(task).vruntime.since(ORIGIN)
    }

    pub fn min_vruntime(&self, cpu: CpuId) -> i64 {
        self.queue(cpu).min_vruntime.since(ORIGIN)
    }

    /// Asserts that a tick lets the running task of `cpu`, just picked, have exactly `slice`.
    pub fn assert_slice(&self, cpu: CpuId, slice: u64) {
        assert!(!self.would_preempt_after(cpu, slice), "a tick at {slice} ns already preempts");
        assert!(self.would_preempt_after(cpu, slice + 1), "a tick at {} ns does not preempt", slice + 1);
    }
}
