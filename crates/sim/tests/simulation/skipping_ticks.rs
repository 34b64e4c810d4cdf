//! Ticks that are skipped beside other CPUs' balancing leave no trace: with and without skipping every event is the same to the byte.
//!
//! `invariants.rs` asks this of workloads that mostly block. Here CPUs are busy for long, so that thousands of ticks are skipped, while
//! load is uneven, tasks come and go, and idle CPUs appear in between.

use crate::common;

use common::{milliseconds, run_with, scheduler, some_costs, task};
use proptest::prelude::*;
use schedlab_model::{
    Attributes, Costs, CpuChange, Duration, Machine, Policy, Scheduler, Step, Task, Time, Topology, Workload,
};
use schedlab_sim::Options;

/// Several equal tasks: how many, nice level, policy, CPUs they may use, milliseconds of each run, microseconds of each sleep.
type Kind = (u32, i8, Policy, Vec<u32>, u64, u64);

fn kinds(cpus: u32) -> impl Strategy<Value = Vec<Kind>> {
    let policy = prop_oneof![
        12 => Just(Policy::Other),
        2 => Just(Policy::Batch),
        2 => Just(Policy::Idle),
        1 => Just(Policy::Rr(3)),
    ];
    let affinity = prop_oneof![
        4 => Just(vec![]),
        1 => prop::collection::btree_set(0..cpus, 1..=cpus as usize).prop_map(|set| set.into_iter().collect()),
    ];
    let nice = prop_oneof![3 => Just(0i8), 1 => -20i8..=19];
    let sleep = prop_oneof![3 => Just(0u64), 2 => 1u64..30_000];
    prop::collection::vec((1u32..7, nice, policy, affinity, 1u64..120, sleep), 1..5)
}

fn topologies(cpus: u32) -> impl Strategy<Value = Topology> {
    let texts: &[&str] = match cpus {
        2 => &["smt=1", "smt=2", "llc=1", "node=1"],
        4 => &["smt=1", "smt=2", "llc=2", "smt=2,node=2"],
        8 => &["smt=1", "smt=2,llc=4", "llc=2,node=4"],
        _ => &["smt=1"],
    };
    prop::sample::select(texts).prop_map(|text| text.parse().expect("a topology"))
}

fn workload(kinds: Vec<Kind>, millis: u64) -> Workload {
    let tasks = (0..).zip(kinds).map(|(number, (instances, nice, policy, affinity, run, sleep))| {
        let attributes = Attributes { policy, nice, affinity, ..Attributes::default() };
        let mut steps = vec![Step::Run(milliseconds(run))];
        if sleep > 0 {
            let (low, high) = (Time::from_micros(sleep / 2), Time::from_micros(sleep));
            steps.push(Step::Sleep(Duration::Uniform { low, high }));
        }
        let steps = vec![Step::Loop { count: 3, steps }];
        Task { delay: Time::from_millis(7 * number), ..task(&format!("kind{number}"), instances, attributes, steps) }
    });
    Workload {
        name: "busy".into(),
        duration: Some(Time::from_millis(millis)),
        tasks: tasks.collect(),
        ..Workload::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn busy_cpus_do_not_tell_whether_their_ticks_were_skipped(
        (machine, workload, scheduler) in prop::sample::select(&[2u32, 3, 4, 8][..]).prop_flat_map(|cpus| {
            let release = prop::sample::select(&["5.10", "6.1", "6.12", "6.18", "7.2"][..]);
            let hz = prop::sample::select(&[100u32, 250, 300, 1000][..]);
            let costs = prop_oneof![2 => Just(Costs::ideal()), 1 => Just(some_costs())];
            let change = prop::option::weighted(0.2, (1..cpus, 5u64..200));
            let machine = (topologies(cpus), costs, change);
            (kinds(cpus), machine, release, hz).prop_map(move |(kinds, (topology, costs, change), release, hz)| {
                let mut machine = Machine { topology, ..Machine::new(cpus, costs) };
                if let Some((cpu, at)) = change {
                    let [off, on] = [at, at + 100].map(Time::from_millis);
                    machine.changes = vec![
                        CpuChange { at: off, cpu, online: false },
                        CpuChange { at: on, cpu, online: true },
                    ];
                }
                (machine, workload(kinds, 400), Scheduler { hz, ..scheduler(release) })
            })
        }),
    ) {
        let skipped = Options::default();
        let every = Options { no_tick_skip: true, ..skipped };
        let [skipped, every] = [skipped, every].map(|options| run_with(&workload, &scheduler, &machine, &options));
        if let (Ok(one), Ok(other)) = (&skipped, &every) {
            let differs = one.1.iter().zip(&other.1).position(|(left, right)| left != right);
            if let Some(at) = differs {
                let (left, right) = (one.1.get(at), other.1.get(at));
                prop_assert!(false, "event {}: {:?} where ticks are skipped, {:?} where not", at, left, right);
            }
        }
        let [one, other] = [skipped, every].map(|result| result.map(|(outcome, _)| outcome));
        prop_assert_eq!(one, other);
    }
}
