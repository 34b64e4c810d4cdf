//! A scheduling policy: round-robin, ten milliseconds a turn, whatever the nice level.
//!
//! `cargo run --release` in this directory runs three tasks of nice 0, 0 and 5 under it and under 6.1's fair class. Copy the directory
//! to write a policy of your own; `docs/guides/write-a-policy.md` says what each method is for.

use std::collections::VecDeque;

use schedlab_model::{CpuId, Machine, NoEvents, Scheduler, TaskId, Time, Workload};
use schedlab_program::Program;
use schedlab_sched::{CustomClass, DequeueFlags, EnqueueFlags, View};
use schedlab_sim::{Options, SimError, simulate, simulate_policy};

/// Every task in turn, each for a quantum. The running task stays at the head of its CPU's list.
#[derive(Debug, Clone)]
pub struct RoundRobin {
    lists: Vec<VecDeque<TaskId>>,
    quantum: Time,
}

impl RoundRobin {
    /// For a machine of `cpus` CPUs.
    pub fn new(cpus: u32, quantum: Time) -> Self {
        Self { lists: vec![VecDeque::new(); cpus as usize], quantum }
    }

    fn list(&mut self, view: &View<'_>) -> &mut VecDeque<TaskId> {
        &mut self.lists[view.cpu().index()]
    }

    fn rotate(&mut self, view: &View<'_>, task: TaskId) {
        let list = self.list(view);
        list.retain(|queued| *queued != task);
        list.push_back(task);
    }
}

impl CustomClass for RoundRobin {
    fn enqueue_task(&mut self, view: &View<'_>, task: TaskId, _flags: EnqueueFlags) {
        self.list(view).push_back(task);
    }

    fn dequeue_task(&mut self, view: &View<'_>, task: TaskId, _flags: DequeueFlags) {
        self.list(view).retain(|queued| *queued != task);
    }

    fn pick_task(&mut self, view: &View<'_>) -> Option<TaskId> {
        self.list(view).front().copied()
    }

    fn task_tick(&mut self, view: &View<'_>, task: TaskId) -> bool {
        let over = self.list(view).len() > 1 && view.ran(task) >= self.quantum;
        if over {
            self.rotate(view, task);
        }
        over
    }

    fn yield_task(&mut self, view: &View<'_>, task: TaskId) {
        self.rotate(view, task);
    }

    fn runnable(&self, cpu: CpuId) -> Vec<TaskId> {
        self.lists[cpu.index()].iter().copied().collect()
    }

    fn boxed_clone(&self) -> Box<dyn CustomClass> {
        Box::new(self.clone())
    }

    // Not needed, but it makes long runs fast: a tick within the quantum, or without another task, does nothing.
    fn inactive_ticks(&self, view: &View<'_>, next_tick: Time) -> u64 {
        let (Some(task), [_, _, ..]) = (view.curr(), self.runnable(view.cpu()).as_slice()) else { return u64::MAX };
        let ran = view.ran(task) + next_tick.saturating_sub(view.now());
        self.quantum.saturating_sub(ran).as_nanos().div_ceil(view.tick().as_nanos())
    }
}

/// Runs `workload` on one CPU under the policy.
///
/// # Errors
/// As [`simulate`]'s.
pub fn run(program: &Program, scheduler: &Scheduler, machine: &Machine) -> Result<schedlab_model::Outcome, SimError> {
    let policy = RoundRobin::new(machine.cpus, Time::from_millis(10));
    simulate_policy(program, scheduler, machine, &Options::default(), Box::new(policy), &mut NoEvents)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hog = |name: &str, nice: i8| serde_json::json!({"name": name, "instances": 1, "attributes": {"nice": nice}, "steps": [{"run": {"fixed": "100ms"}}]});
    let workload = serde_json::json!({"name": "three", "tasks": [hog("a", 0), hog("b", 0), hog("nice", 5)]});
    let program = Program::compile(&serde_json::from_value::<Workload>(workload)?)?;
    let scheduler = Scheduler::new("6.1".parse()?);
    let machine = Machine::ideal(1);
    let fair = simulate(&program, &scheduler, &machine, &Options::default(), &mut NoEvents)?;
    let ours = run(&program, &scheduler, &machine)?;
    println!("{:6} {:>14} {:>14}", "task", "round-robin", "fair (6.1)");
    for (ours, fair) in ours.tasks.iter().zip(&fair.tasks) {
        let ended = |nanos| Time::from_nanos(nanos).to_string();
        println!("{:6} {:>14} {:>14}", ours.name, ended(ours.life_ns), ended(fair.life_ns));
    }
    println!("{:6} {:>14} {:>14}", "switches", ours.switches, fair.switches);
    Ok(())
}
