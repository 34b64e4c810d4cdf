//! Invariants of every run, for every workload and scheduler.

use crate::common;

use common::random::{Case, case, grouped_case, limited};
use common::{run_with, watcher};
use proptest::prelude::*;
use schedlab_model::{Attributes, Channel, ChannelKind, Costs, Duration, Machine, Scheduler, Step, Time};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate_many};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_keeps_the_books(case in prop_oneof![2 => case().boxed(), 1 => grouped_case().boxed()]) {
        // A CPU whose tasks are throttled idles beside them.
        let mut case = Case { scheduler: limited(case.scheduler, Some("unlimited")), ..case };
        case.workload.groups.values_mut().for_each(|group| group.max = None);
        let options = Options { seed: 3, ..Options::default() };
        let (outcome, events) = run_with(&case.workload, &case.scheduler, &case.machine, &options)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let names: Vec<String> = outcome.tasks.iter().map(|task| task.name.clone()).collect();
        watcher::check(&events, &outcome, &case.machine, case.patience(), case.allowed(&names))
            .map_err(TestCaseError::fail)?;

        // What the program says will be read was read, and what ran was what was asked for.
        let program = Program::compile(&case.workload).expect("it ran");
        prop_assert_eq!(outcome.messages, program.traffic().iter().map(|channel| channel.messages_read).sum::<u64>());
        prop_assert_eq!(outcome.bytes, program.traffic().iter().map(|channel| channel.bytes_read).sum::<u64>());
        if case.machine.costs == schedlab_model::Costs::ideal() {
            prop_assert!(outcome.tasks.iter().all(|task| task.system_ns == 0), "nothing costs anything");
        }
    }

    #[test]
    fn the_same_again_is_the_same_to_the_byte_with_and_without_skipping_ticks(
        case in prop_oneof![2 => case().boxed(), 1 => grouped_case().boxed()],
    ) {
        let options = Options { seed: 5, ..Options::default() };
        let every = Options { no_tick_skip: true, ..options };
        let one = run_with(&case.workload, &case.scheduler, &case.machine, &options)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let again = run_with(&case.workload, &case.scheduler, &case.machine, &options);
        prop_assert_eq!(Ok(&one), again.as_ref());
        let every = run_with(&case.workload, &case.scheduler, &case.machine, &every);
        if let Ok(every) = &every {
            let differs = one.1.iter().zip(&every.1).position(|(left, right)| left != right);
            if let Some(at) = differs {
                let (left, right) = (one.1.get(at), every.1.get(at));
                prop_assert!(false, "event {at}: {left:?} where ticks are skipped, {right:?} where not");
            }
        }
        prop_assert_eq!(Ok(&one), every.as_ref());

        // In a batch, on memory that other runs used before.
        let program = Program::compile(&case.workload).expect("it ran");
        for summary in simulate_many(&program, &vec![case.scheduler.clone(); 3], &case.machine, &options) {
            let summary = summary.expect("it ran");
            prop_assert_eq!(summary.turnaround.as_nanos(), one.0.turnaround_ns);
            prop_assert_eq!(summary.elapsed.as_nanos(), one.0.elapsed_ns);
            let counts = (summary.switches, summary.messages, summary.bytes);
            prop_assert_eq!(counts, (one.0.switches, one.0.messages, one.0.bytes));
        }
    }
}

/// A producer that two readers wait for beside another one, which computes, and its four readers, on two CPUs without a common cache.
fn two_pipelines() -> Case {
    let task = |name: &str, instances, nice, count, steps| {
        common::task(name, instances, Attributes { nice, ..Attributes::default() }, vec![Step::Loop { count, steps }])
    };
    let write = |channel: &str| Step::Write { channel: channel.into(), bytes: 70_000 };
    let read = |channel: &str| Step::Read { channel: channel.into(), bytes: 70_000 };
    let run = |nanoseconds| Step::Run(Duration::Fixed(Time::from_nanos(nanoseconds)));
    let mut workload = common::workload(vec![
        task("quick", 1, 0, 36, vec![run(1), write("a")]),
        task("reader", 2, 0, 18, vec![read("a"), run(0)]),
        task("slow", 1, -8, 48, vec![run(74_000_000), write("b")]),
        task("computing", 4, 0, 12, vec![read("b"), run(5_000_000)]),
    ]);
    let pipe = Channel { kind: ChannelKind::Pipe };
    workload.channels = [("a".to_owned(), pipe.clone()), ("b".to_owned(), pipe)].into();
    let mut machine = Machine::new(2, Costs { tick: Time::from_micros(900), ..Costs::ideal() });
    machine.topology.llc = Some(1);
    Case { workload, machine, scheduler: Scheduler { hz: 1000, ..common::scheduler("6.18") } }
}

#[test]
fn a_cpu_whose_pulled_task_sleeps_at_once_balances_as_late_as_a_busy_one() {
    // At 5,157 ms CPU 0 pulls a task, which sleeps in the same instant. As it pulled it the CPU was busy: 2 ms × 16, less a jiffy, until it
    // balances again, at 5,188. The tick counts as stopped all the time, so that an idle CPU's due time, after 2 ms, is not taken over. So
    // it idles beside tasks that wait on CPU 1 for longer than an idle CPU's attempts take, 18 ms.
    let case = two_pipelines();
    let (outcome, events) =
        run_with(&case.workload, &case.scheduler, &case.machine, &Options::default()).expect("it runs");
    let check = |patience| watcher::check(&events, &outcome, &case.machine, patience, |_, _| true);
    assert!(check(Some(18_000_000)).is_err());
    assert_eq!(check(case.patience()), Ok(()));
}

#[test]
fn results_of_a_batch_come_in_the_order_of_its_schedulers() {
    // Two hogs of 30 ms on one CPU: those whose slices are longer switch less often, and each run is what it is in a batch of one.
    let hog = common::task("hog", 2, Attributes::default(), vec![Step::Run(Duration::Fixed(Time::from_millis(30)))]);
    let program = Program::compile(&common::workload(vec![hog])).expect("it compiles");
    let (machine, options) = (Machine::ideal(1), Options::default());
    let slices = [40, 3, 20, 2, 12, 30, 6, 1];
    let schedulers: Vec<Scheduler> = (0..200)
        .map(|number| {
            let mut scheduler = Scheduler { hz: 1000, ..common::scheduler("6.1") };
            scheduler.set("latency", &format!("{}ms", slices[number % slices.len()])).expect("a knob of the kernel's");
            scheduler
        })
        .collect();
    let alone: Vec<u64> = schedulers[..slices.len()]
        .iter()
        .map(|scheduler| {
            let batch = simulate_many(&program, std::slice::from_ref(scheduler), &machine, &options);
            batch[0].as_ref().expect("it runs").switches
        })
        .collect();
    assert!(alone[0] < alone[2] && alone[2] < alone[6] && alone[6] < alone[1], "{alone:?}");
    for (number, summary) in simulate_many(&program, &schedulers, &machine, &options).into_iter().enumerate() {
        assert_eq!(summary.expect("it runs").switches, alone[number % slices.len()], "run {number}");
    }
}
