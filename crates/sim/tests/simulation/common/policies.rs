//! Runs under a policy that takes the fair class's place, and what must hold of any of them.

use super::leave_idle_at_once;
use super::random::{Case, limited};
use super::watcher;
use proptest::prelude::*;
use schedlab_model::{Event, Machine, Outcome, Scheduler, Workload};
use schedlab_program::Program;
use schedlab_sched::CustomClass;
use schedlab_sim::{Options, SimError, simulate_policy};

/// Runs and keeps every event.
pub fn run(
    workload: &Workload,
    scheduler: &Scheduler,
    machine: &Machine,
    options: &Options,
    policy: Box<dyn CustomClass>,
) -> Result<(Outcome, Vec<Event>), SimError> {
    let program = Program::compile(workload).expect("a workload that compiles");
    let mut events = Vec::new();
    let outcome = simulate_policy(&program, scheduler, machine, options, policy, &mut events)?;
    Ok((outcome, events))
}

/// Whatever runs, the books are kept, no CPU idles beside a task that may run there, and skipping ticks changes nothing.
pub fn keeps_the_books<P: CustomClass + 'static>(
    case: Case,
    policy: fn(&Machine) -> Box<P>,
) -> Result<(), TestCaseError> {
    // A CPU whose real-time tasks are throttled idles beside them.
    let case = Case { scheduler: limited(case.scheduler, Some("unlimited")), ..case };
    let Case { workload, scheduler, machine, .. } = &case;
    let options = Options { seed: 3, ..Options::default() };
    let one = run(workload, scheduler, machine, &options, policy(machine))
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let names: Vec<String> = one.0.tasks.iter().map(|task| task.name.clone()).collect();
    let patience = leave_idle_at_once(&machine.costs).then_some(0);
    watcher::check(&one.1, &one.0, machine, patience, case.allowed(&names)).map_err(TestCaseError::fail)?;
    let every = Options { no_tick_skip: true, ..options };
    let every = run(workload, scheduler, machine, &every, policy(machine));
    prop_assert_eq!(Ok(&one), every.as_ref());
    Ok(())
}
