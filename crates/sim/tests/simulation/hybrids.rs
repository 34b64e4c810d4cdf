//! Rules switched against what a kernel has: whatever the combination, a run keeps what must hold of every run.

use crate::common;

use common::random::{Case, hybrid_case, limited};
use common::{run_with, watcher};
use proptest::prelude::*;
use schedlab_model::Time;
use schedlab_sim::{Options, SimError};

/// Simulated: what ends at all ends within seconds.
const LIMIT: Time = Time::from_millis(60_000);

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hybrid_keeps_the_books(case in hybrid_case()) {
        let mut case = Case { scheduler: limited(case.scheduler, Some("unlimited")), ..case };
        case.workload.groups.values_mut().for_each(|group| group.max = None);
        let options = Options { seed: 3, time_limit: LIMIT, ..Options::default() };
        let ran = run_with(&case.workload, &case.scheduler, &case.machine, &options);
        // Some starve their tasks: without `relative_vruntime` a task that is pulled waits until its new queue has caught up.
        prop_assume!(!matches!(ran, Err(SimError::TimeLimit { .. })));
        let (outcome, events) = ran.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let names: Vec<String> = outcome.tasks.iter().map(|task| task.name.clone()).collect();
        // No kernel says for how long its CPUs may idle beside work.
        watcher::check(&events, &outcome, &case.machine, None, case.allowed(&names)).map_err(TestCaseError::fail)?;
        prop_assert_eq!(outcome.release.contains("hybrid"), !outcome.notes.is_empty());
    }

    #[test]
    fn a_hybrid_is_the_same_with_and_without_skipping_ticks(case in hybrid_case()) {
        let options = Options { seed: 5, time_limit: LIMIT, ..Options::default() };
        let every = Options { no_tick_skip: true, ..options };
        let one = run_with(&case.workload, &case.scheduler, &case.machine, &options);
        let every = run_with(&case.workload, &case.scheduler, &case.machine, &every);
        prop_assert_eq!(one, every);
    }
}
