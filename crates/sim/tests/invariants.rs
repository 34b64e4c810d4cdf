//! What must hold of every run, whatever runs under whichever scheduler.

mod common;

use common::random::{Case, case, grouped_case, limited};
use common::{run_with, watcher};
use proptest::prelude::*;
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
