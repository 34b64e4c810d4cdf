//! hackbench from end to end.

use schedlab_model::{Costs, Machine, NoEvents, Outcome, Scheduler, Time};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate};

/// Some machine's costs, of the order of a real one's.
fn machine(cpus: u32) -> Machine {
    let nanos = Time::from_nanos;
    let costs = Costs {
        switch: nanos(1100),
        cache_refill: nanos(120),
        cache_refill_limit: nanos(2000),
        wakeup: nanos(700),
        wakeup_remote: nanos(900),
        idle_exit: nanos(2500),
        tick: nanos(1500),
        system_call: nanos(90),
        pipe_write: nanos(250),
        pipe_read: nanos(240),
        socket_write: nanos(700),
        socket_read: nanos(500),
        copy_per_kib: nanos(90),
        block: nanos(350),
        migration: nanos(600),
        fork_process: nanos(60_000),
        fork_thread: nanos(15_000),
        exit_process: nanos(40_000),
        exit_thread: nanos(6000),
        reap: nanos(9000),
    };
    Machine { cpus, costs }
}

fn run(text: &str, release: &str, machine: &Machine) -> Outcome {
    let program = Program::compile(&schedlab_workloads::parse(text).unwrap()).unwrap();
    let scheduler = Scheduler::new(release.parse().unwrap());
    simulate(&program, &scheduler, machine, &Options::default(), &mut NoEvents).unwrap()
}

#[test]
fn every_message_arrives() {
    // 5 groups × 20 senders × 20 receivers × loops messages of 100 bytes; 5 × 40 workers and the main task; each worker has
    // also written one byte, which the main task reads.
    for text in ["hackbench:groups=5,loops=3", "hackbench:groups=5,loops=3,pipe", "hackbench:groups=5,loops=3,threads"]
    {
        for release in ["2.6.24", "5.10", "6.1"] {
            for cpus in [1, 4] {
                for machine in [Machine::ideal(cpus), machine(cpus)] {
                    let outcome = run(text, release, &machine);
                    assert_eq!(outcome.tasks.len(), 201, "{text} {release} {cpus}");
                    assert_eq!(outcome.messages, 5 * 20 * 20 * 3 + 200);
                    assert_eq!(outcome.bytes, 5 * 20 * 20 * 3 * 100 + 200);
                }
            }
        }
    }
}
