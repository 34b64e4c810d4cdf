//! What is measured: workloads of CPU-bound tasks and of tasks that block and wake.

use schedlab_model::{Attributes, Costs, Duration, Group, Machine, NoEvents, Scheduler, Step, Task, Time, Workload};
use schedlab_program::Program;

use crate::arena::Arena;
use crate::engine::Engine;
use crate::speed::ceiling::ceiling;
use crate::speed::floor::{floor_of_hogs, floor_of_pairs};
use crate::{Options, SimError};

/// How long a task of a pair computes.
const RUN: Time = Time::from_micros(50);

/// A time drawn anew each time, `mean` on average.
fn half_to_one_and_a_half(mean: Time) -> Duration {
    let half = Time::from_nanos(mean.as_nanos() / 2);
    Duration::Uniform { low: mean - half, high: mean + half }
}

/// Which scenarios belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Those that are measured where none is named.
    Basic,
    /// From 100 to 100,000 tasks at the same rate of wake-ups.
    Scaling,
    /// As many CPUs and tasks as there may be, for the memory they take.
    Large,
    /// The averages of load that the basic ones keep, and nothing else.
    Floor,
    /// What users run: the costs of a measured machine, newer kernels, groups.
    Typical,
}

/// What the tasks of a scenario do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// They compute without end.
    Hogs,
    /// They run 50 µs and sleep; 10 of them a CPU a millisecond.
    Pairs,
    /// As [`Load::Pairs`], but only the timers, and no rules.
    Timers,
    /// They run 50 µs and sleep 10 ms on average, with a machine's costs, the first so many of them in a group each.
    Cycles(u32),
    /// As [`Load::Hogs`], with a machine's costs.
    CostlyHogs,
    /// As [`Load::Hogs`], but only the averages of load, with so many ticks from switch to switch.
    AveragesOfHogs(u32),
    /// As [`Load::Pairs`], but only the averages of load and the timers.
    AveragesOfPairs,
}

/// One scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name, the same in all figures that were ever kept.
    pub name: &'static str,
    /// Which it belongs to.
    pub set: Set,
    /// Milliseconds that it must take at most, if anything was set.
    pub goal_ms: Option<f64>,
    /// The kernel whose rules apply.
    pub release: &'static str,
    /// How many tasks.
    pub tasks: u32,
    /// How many CPUs.
    pub cpus: u32,
    /// Simulated time, in milliseconds.
    pub simulated_ms: u64,
    load: Load,
}

const fn basic(name: &'static str, load: Load, tasks: u32, cpus: u32) -> Scenario {
    Scenario { name, set: Set::Basic, goal_ms: None, release: "6.1", tasks, cpus, simulated_ms: 60_000, load }
}

const fn scaling(name: &'static str, tasks: u32) -> Scenario {
    Scenario { set: Set::Scaling, simulated_ms: 10_000, ..basic(name, Load::Pairs, tasks, 4) }
}

const fn typical(name: &'static str, release: &'static str, load: Load, tasks: u32) -> Scenario {
    Scenario { set: Set::Typical, release, simulated_ms: 10_000, ..basic(name, load, tasks, 4) }
}

const fn typical_hogs(name: &'static str, release: &'static str) -> Scenario {
    Scenario { simulated_ms: 60_000, ..typical(name, release, Load::CostlyHogs, 64) }
}

const fn floor(name: &'static str, load: Load, tasks: u32, cpus: u32) -> Scenario {
    Scenario { set: Set::Floor, ..basic(name, load, tasks, cpus) }
}

/// Every scenario.
pub static SCENARIOS: [Scenario; 22] = [
    Scenario { goal_ms: Some(5.0), ..basic("hogs-64x4", Load::Hogs, 64, 4) },
    Scenario { goal_ms: Some(100.0), ..basic("hogs-400x64", Load::Hogs, 400, 64) },
    Scenario { goal_ms: Some(240.0), ..basic("pairs-400x4-cfs", Load::Pairs, 400, 4) },
    Scenario { goal_ms: Some(300.0), release: "6.12", ..basic("pairs-400x4-eevdf", Load::Pairs, 400, 4) },
    basic("ceiling", Load::Timers, 400, 4),
    scaling("scaling-100", 100),
    scaling("scaling-1000", 1_000),
    scaling("scaling-10000", 10_000),
    scaling("scaling-100000", 100_000),
    // CFS gives each of 16 tasks 2.25 ms of its CPU at a time, and each of six 4 ms, which end with a tick.
    floor("floor-hogs-64x4", Load::AveragesOfHogs(3), 64, 4),
    floor("floor-hogs-400x64", Load::AveragesOfHogs(4), 400, 64),
    floor("floor-pairs-400x4", Load::AveragesOfPairs, 400, 4),
    typical("typical-6.1", "6.1", Load::Cycles(0), 400),
    typical("typical-6.12", "6.12", Load::Cycles(0), 400),
    typical("typical-6.18", "6.18", Load::Cycles(0), 400),
    typical("typical-7.2", "7.2", Load::Cycles(0), 400),
    typical("typical-groups-6.1", "6.1", Load::Cycles(2), 400),
    typical("typical-groups-7.2", "7.2", Load::Cycles(2), 400),
    typical_hogs("typical-hogs-6.1", "6.1"),
    typical_hogs("typical-hogs-6.12", "6.12"),
    typical_hogs("typical-hogs-7.2", "7.2"),
    Scenario { set: Set::Large, simulated_ms: 1_000, ..basic("large-100000x512", Load::Pairs, 100_000, 512) },
];

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Times that a task blocked and was woken.
    pub pairs: u64,
    /// Context switches, to and from idle included.
    pub switches: u64,
    /// Events, entries of queues that were compared or moved, and CPUs that were looked at.
    pub operations: u64,
}

/// A scenario that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    scenario: Scenario,
    program: Program,
    scheduler: Scheduler,
    machine: Machine,
}

impl Scenario {
    /// The scenario of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// The same, for so many milliseconds of simulated time.
    #[must_use]
    pub fn lasting(&self, simulated_ms: u64) -> Self {
        Self { simulated_ms, ..self.clone() }
    }

    /// What its tasks do. 10 pairs a CPU a millisecond: each of `tasks` runs 50 µs and then sleeps what is left of
    /// tasks / (10 · CPUs) ms on average.
    fn workload(&self) -> Workload {
        let steps = match self.load {
            Load::Hogs | Load::CostlyHogs | Load::AveragesOfHogs(_) => {
                vec![Step::Run(Duration::Fixed(Time::from_millis(10 * self.simulated_ms)))]
            }
            Load::Pairs | Load::Timers | Load::AveragesOfPairs => {
                let run = RUN;
                let sleep = self.round() - run;
                vec![Step::Forever(vec![Step::Run(Duration::Fixed(run)), Step::Sleep(half_to_one_and_a_half(sleep))])]
            }
            Load::Cycles(_) => {
                let sleep = half_to_one_and_a_half(Time::from_millis(10));
                vec![Step::Forever(vec![Step::Run(Duration::Fixed(RUN)), Step::Sleep(sleep)])]
            }
        };
        let groups = if let Load::Cycles(groups) = self.load { groups } else { 0 };
        let parts = groups.max(1);
        let task = |number: u32| Task {
            name: format!("task{number}"),
            instances: self.tasks / parts,
            attributes: Some(Attributes::default()),
            steps: steps.clone(),
            taskgroup: (groups > 0).then(|| format!("/{number}")),
            ..Task::default()
        };
        Workload {
            name: self.name.into(),
            duration: Some(Time::from_millis(self.simulated_ms)),
            tasks: (0..parts).map(task).collect(),
            groups: (0..groups).map(|number| (format!("/{number}"), Group::default())).collect(),
            ..Workload::default()
        }
    }

    /// From one wake-up of a task to its next, on average.
    fn round(&self) -> Time {
        Time::from_micros(100 * u64::from(self.tasks) / u64::from(self.cpus))
    }

    /// Everything up to the run itself. HZ is 1000, and load is balanced as in any run. Operations cost what `costs` says in the typical
    /// scenarios; in the others operations but computing cost nothing.
    ///
    /// # Errors
    /// None that a scenario of [`SCENARIOS`] has with the costs of a machine.
    pub fn prepare(&self, costs: &Costs) -> Result<Prepared, Box<dyn std::error::Error + Send + Sync>> {
        let ideal = Machine::ideal(self.cpus);
        Ok(Prepared {
            scenario: self.clone(),
            program: Program::compile(&self.workload())?,
            scheduler: Scheduler { hz: 1000, ..Scheduler::new(self.release.parse()?) },
            machine: if self.set == Set::Typical { Machine { costs: costs.clone(), ..ideal } } else { ideal },
        })
    }
}

impl Prepared {
    /// Runs it once.
    ///
    /// # Errors
    /// [`SimError`]: none that a scenario of [`SCENARIOS`] has.
    pub fn run(&self) -> Result<Counts, SimError> {
        self.run_with(&Options::default())
    }

    /// The same with other options.
    ///
    /// # Errors
    /// As [`Prepared::run`]'s.
    pub fn run_with(&self, options: &Options<'_>) -> Result<Counts, SimError> {
        let scenario = &self.scenario;
        let (tasks, cpus, round) = (scenario.tasks, scenario.cpus, scenario.round());
        let pairs = scenario.simulated_ms * 1_000_000 / round.as_nanos() * u64::from(tasks);
        match scenario.load {
            Load::Timers => {
                let (pairs, operations) = ceiling(tasks, pairs, round);
                return Ok(Counts { pairs, switches: 0, operations });
            }
            Load::AveragesOfPairs => {
                let (pairs, operations) = floor_of_pairs(tasks, cpus, pairs, round, RUN);
                return Ok(Counts { pairs, switches: 0, operations });
            }
            Load::AveragesOfHogs(slice) => {
                let switches = floor_of_hogs(tasks, cpus, scenario.simulated_ms, slice);
                return Ok(Counts { pairs: 0, switches, operations: 0 });
            }
            Load::Hogs | Load::Pairs | Load::Cycles(_) | Load::CostlyHogs => {}
        }
        let (mut arena, mut sink) = (Arena::default(), NoEvents);
        let mut engine = Engine::new(&self.program, &self.scheduler, &self.machine, options, &mut arena, &mut sink)?;
        engine.run()?;
        let pairs = engine.arena.tasks.iter().map(|task| task.account.voluntary).sum();
        Ok(Counts { pairs, switches: engine.switches, operations: engine.cost() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operations that a pair takes, among so many tasks on 4 CPUs, once all have started: in the third second. At the start all are
    /// runnable at once, which with 100,000 tasks that run 50 µs takes 1.25 s.
    fn operations(release: &'static str, tasks: u32) -> f64 {
        let [before, after] = [2_000, 3_000].map(|simulated_ms| {
            let scenario = Scenario { release, simulated_ms, ..scaling("scaling", tasks) };
            scenario.prepare(&Costs::ideal()).unwrap().run().unwrap()
        });
        (after.operations - before.operations) as f64 / (after.pairs - before.pairs) as f64
    }

    /// In a second 400 tasks that run 50 µs and sleep 10 ms block 99.5 times each, and once more where the last sleep lasts beyond it;
    /// until the last one first runs 5 ms pass.
    #[test]
    fn typical_tasks_run_and_sleep_as_often_as_their_times_allow() {
        for name in ["typical-6.1", "typical-7.2", "typical-groups-7.2"] {
            let prepared = Scenario::find(name).unwrap().lasting(1_000).prepare(&Costs::ideal()).unwrap();
            let cycles = prepared.run().unwrap().pairs;
            assert!((39_000..=40_200).contains(&cycles), "{name}: {cycles}");
            assert_eq!(prepared.program.groups().len(), if name.contains("groups") { 2 } else { 0 }, "{name}");
        }
    }

    /// Sleepers' timers take O(1) or as many steps as their times have digits, runnable tasks are in sorted runs that are searched by halves.
    #[test]
    fn a_pair_takes_no_more_operations_than_the_logarithm_of_the_number_of_tasks() {
        for release in ["6.1", "6.12", "7.2"] {
            let few = operations(release, 100);
            for tasks in [1_000, 10_000, 100_000] {
                let (many, growth) = (operations(release, tasks), f64::from(tasks).log2() / 100f64.log2());
                assert!(many <= few * growth, "{release}: {many:.1} operations with {tasks} tasks, {few:.1} with 100");
            }
        }
    }
}
