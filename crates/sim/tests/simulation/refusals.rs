//! Refused input and endless runs, each with one line that says what and why.

use crate::common;

use common::{milliseconds, run_with, scheduler, task, workload};
use schedlab_model::{Attributes, Channel, ChannelKind, Costs, Machine, Scheduler, Step, Time, Workload};
use schedlab_program::Program;
use schedlab_sim::{Options, SimError, simulate_many};

fn refused(workload: &Workload, scheduler: &Scheduler, machine: &Machine, options: &Options) -> SimError {
    let error = run_with(workload, scheduler, machine, options).map(|_| ()).expect_err("it is refused");
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

fn hog() -> Workload {
    workload(vec![task("hog", 1, Attributes::default(), vec![Step::Run(milliseconds(10_000))])])
}

#[test]
fn a_deadlock_names_the_waiting_tasks() {
    // Each reads first what the other writes only then.
    let step = |name: &str| Step::Read { channel: name.into(), bytes: 8 };
    let write = |name: &str| Step::Write { channel: name.into(), bytes: 8 };
    let one = task("one", 1, Attributes::default(), vec![Step::Run(milliseconds(1)), step("a"), write("b")]);
    let two = task("two", 1, Attributes::default(), vec![step("b"), write("a")]);
    let mut both = workload(vec![one, two]);
    both.channels = ["a", "b"].map(|name| (name.to_owned(), Channel { kind: ChannelKind::Pipe })).into();
    let error = refused(&both, &scheduler("6.1"), &Machine::ideal(2), &Options::default());
    assert_eq!(
        error.to_string(),
        "deadlock at 1ms: task 'one' waits to read 8 of 8 bytes from pipe 'a'; task 'two' waits to read 8 of 8 bytes from pipe 'b'"
    );
}

#[test]
fn a_run_beyond_the_time_limit_is_given_up() {
    let options = Options { time_limit: Time::from_millis(9_999), ..Options::default() };
    for no_tick_skip in [false, true] {
        let options = Options { no_tick_skip, ..options };
        let error = refused(&hog(), &scheduler("6.1"), &Machine::ideal(1), &options);
        assert_eq!(error, SimError::TimeLimit { limit: Time::from_millis(9_999), left: 1, made: 1 });
    }
    let options = Options { time_limit: Time::from_millis(10_000), ..Options::default() };
    assert!(run_with(&hog(), &scheduler("6.1"), &Machine::ideal(1), &options).is_ok());
    // Work and sleep beyond all counting end there, too.
    for step in [Step::Run, Step::Sleep] {
        let steps = vec![step(schedlab_model::Duration::Fixed(Time::MAX))];
        let endless = workload(vec![task("endless", 1, Attributes::default(), steps)]);
        let error = refused(&endless, &scheduler("6.1"), &Machine::ideal(1), &Options::default());
        assert!(matches!(error, SimError::TimeLimit { .. }), "{error}");
    }
}

#[test]
fn knobs_without_effect_are_refused_by_name() {
    // The first kernel's balancing is not modelled.
    let mut scheduler = scheduler("2.6.24");
    scheduler.set("migration_cost", "900us").expect("a knob of the kernel's");
    let error = refused(&hog(), &scheduler, &Machine::ideal(1), &Options::default());
    assert!(error.to_string().contains("migration_cost"), "{error}");
    // In a batch only that one is.
    let program = Program::compile(&hog()).expect("it compiles");
    let results =
        simulate_many(&program, &[scheduler, common::scheduler("6.1")], &Machine::ideal(1), &Options::default());
    assert!(results[0].is_err() && results[1].is_ok());
}

#[test]
fn a_task_without_a_cpu_is_refused() {
    let affinity = Attributes { affinity: vec![2, 5], ..Attributes::default() };
    let lost = workload(vec![task("lost", 1, affinity, vec![Step::Yield])]);
    let error = refused(&lost, &scheduler("6.1"), &Machine::ideal(2), &Options::default());
    assert_eq!(error.to_string(), "task 'lost' may run on CPUs 2, 5 only; the machine has CPUs 0 to 1");
}

#[test]
fn impossible_machines_are_refused() {
    let machine = |costs| Machine::new(1, costs);
    let period = Time::from_millis(4);
    let error =
        refused(&hog(), &scheduler("6.1"), &machine(Costs { tick: period, ..Costs::ideal() }), &Options::default());
    assert_eq!(error, SimError::TickCost { cost: period, period });
    let dear = Costs { block: Time::from_millis(1_000_001), ..Costs::ideal() };
    let error = refused(&hog(), &scheduler("6.1"), &machine(dear), &Options::default());
    assert!(error.to_string().contains("costs.block = 1000.001s"), "{error}");
    let error = refused(&hog(), &scheduler("6.1"), &Machine::ideal(0), &Options::default());
    assert!(error.to_string().contains("cpus = 0"), "{error}");
}
