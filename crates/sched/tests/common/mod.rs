//! A machine of several CPUs with the kernel's placement and balancing, whose clock a test moves.
#![allow(dead_code, reason = "each test takes what it needs")]

use schedlab_model::{Attributes, CpuId, Policy, Scheduler, TaskId, TaskState, Time};
use schedlab_sched::{Clocks, Ours, Rules, Sched, WakeKind};

/// A release of each series whose balancing is modelled.
pub const CURRENT: [&str; 5] = ["5.10", "6.1", "6.12", "7.2", "7.3"];

/// A tick of 250 Hz, in nanoseconds.
pub const TICK: u64 = 4_000_000;

pub struct Machine {
    pub sched: Sched<Ours>,
    /// Nanoseconds since the machine started.
    pub now: u64,
    cpus: u32,
}

impl Machine {
    pub fn new(release: &str, cpus: u32, topology: &str) -> Self {
        Self::with(release, cpus, topology, &[])
    }

    /// With knobs set.
    pub fn with(release: &str, cpus: u32, topology: &str, knobs: &[(&str, &str)]) -> Self {
        let mut scheduler = Scheduler::new(release.parse().expect("a release"));
        knobs.iter().for_each(|(name, value)| scheduler.set(name, value).expect("a knob of the release"));
        let rules = Rules::new(&scheduler, cpus).expect("rules");
        let mut sched = Sched::new(rules, cpus, Ours::default());
        sched.set_topology(&topology.parse().expect("a topology"), 0, 1);
        let mut machine = Self { sched, now: 0, cpus };
        machine.advance(1_000_000);
        machine
    }

    /// Lets so many nanoseconds pass, with a tick on every CPU that runs a task; CPUs marked for rescheduling schedule.
    pub fn advance(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while self.now < end {
            self.now = ((self.now / TICK + 1) * TICK).min(end);
            self.sched.set_machine_clock(Time::from_nanos(self.now));
            for cpu in (0..self.cpus).map(CpuId) {
                self.sched.set_clocks(cpu, Clocks::all(Time::from_nanos(self.now)));
                if self.now.is_multiple_of(TICK) && self.sched.curr(cpu) != TaskId::IDLE {
                    self.sched.sched_tick(cpu);
                }
            }
            for cpu in (0..self.cpus).map(CpuId) {
                if self.sched.need_resched(cpu) {
                    self.sched.schedule(cpu, TaskState::Running);
                }
            }
        }
    }

    /// Lets time pass up to the next tick, that included.
    pub fn advance_to_tick(&mut self) {
        self.advance(TICK - self.now % TICK);
    }

    /// The current task of `cpu` goes to sleep; the task that runs then.
    pub fn sleeps(&mut self, cpu: u32) -> TaskId {
        self.sched.schedule(CpuId(cpu), TaskState::Interruptible);
        self.sched.curr(CpuId(cpu))
    }

    /// A new task that may run on `cpus` only (everywhere if there is none), and is put on `cpu`.
    pub fn start(&mut self, cpu: u32, cpus: &[u32], policy: Policy) -> TaskId {
        let attributes = Attributes { affinity: cpus.to_vec(), policy, ..Attributes::default() };
        let task = self.sched.new_task(&attributes);
        self.sched.wake_up_new_task(task, CpuId(cpu));
        self.sched.schedule(CpuId(cpu), TaskState::Running);
        task
    }

    /// A CPU-bound task that stays on a CPU.
    pub fn hog(&mut self, cpu: u32) -> TaskId {
        self.start(cpu, &[cpu], Policy::Other)
    }

    /// A task that ran on `cpu` and sleeps.
    pub fn sleeper(&mut self, cpu: u32) -> TaskId {
        self.slept(cpu, &[], Policy::Other)
    }

    /// A task that ran on `cpu` and sleeps, and may run on `cpus` only.
    pub fn slept(&mut self, cpu: u32, cpus: &[u32], policy: Policy) -> TaskId {
        let task = self.start(cpu, cpus, policy);
        assert_eq!(self.sched.curr(CpuId(cpu)), task, "it runs");
        self.sleeps(cpu);
        task
    }

    /// A sleeper is woken on `cpu`, and runs there.
    pub fn runs(&mut self, cpu: u32, task: TaskId) {
        self.sched.try_to_wake_up(task, CpuId(cpu));
        self.sched.schedule(CpuId(cpu), TaskState::Running);
        assert_eq!(self.sched.curr(CpuId(cpu)), task, "it runs");
    }

    pub fn wakes(&mut self, cpu: u32, task: TaskId, sync: bool) -> u32 {
        self.sched.select_task_rq(task, CpuId(cpu), WakeKind::Wakeup { sync }).0
    }

    pub fn forks(&mut self, cpu: u32) -> u32 {
        let parent = self.sched.curr(CpuId(cpu));
        let child = self.sched.sched_fork(parent, false);
        self.sched.sched_setattr(child, &Attributes::default());
        self.sched.select_task_rq(child, CpuId(cpu), WakeKind::Fork).0
    }
}
