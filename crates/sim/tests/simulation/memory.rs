//! What a run of the largest size keeps in memory.

use schedlab_sim::speed::{Scenario, peak_memory};

/// 100,000 tasks on 512 CPUs have started: all that a run keeps of them is there. This process does nothing else.
#[test]
fn as_many_tasks_and_cpus_as_there_may_be_take_less_than_two_gibibytes() {
    let large = Scenario::find("large-100000x512").expect("a scenario").lasting(2);
    assert_eq!((large.tasks, large.cpus), (100_000, 512));
    let counts = large.prepare(&schedlab_model::Costs::ideal()).expect("it compiles").run().expect("it runs");
    // 512 CPUs for 2 ms, 50 µs each time: 20,480 tasks have run and sleep.
    assert!(counts.pairs >= 19_000, "{counts:?}");
    let peak = peak_memory().unwrap_or_default();
    assert!(peak < 2 << 30, "{peak} bytes");
}
