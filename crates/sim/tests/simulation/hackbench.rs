//! hackbench from end to end.

use crate::common;

use common::{run, some_costs, word};
use schedlab_model::Machine;

#[test]
fn every_message_arrives() {
    // 5 groups × 20 senders × 20 receivers × loops messages of 100 bytes; 5 × 40 workers and the main task; each worker has
    // also written one byte, which the main task reads.
    for text in ["hackbench:groups=5,loops=3", "hackbench:groups=5,loops=3,pipe", "hackbench:groups=5,loops=3,threads"]
    {
        for release in common::RELEASES {
            for cpus in [1, 4] {
                for machine in [Machine::ideal(cpus), Machine::new(cpus, some_costs())] {
                    let (outcome, _) = run(&word(text), release, &machine);
                    assert_eq!(outcome.tasks.len(), 201, "{text} {release} {cpus}");
                    assert_eq!(outcome.messages, 5 * 20 * 20 * 3 + 200);
                    assert_eq!(outcome.bytes, 5 * 20 * 20 * 3 * 100 + 200);
                }
            }
        }
    }
}
