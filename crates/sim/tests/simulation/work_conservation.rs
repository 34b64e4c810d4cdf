//! No CPU idles while a task that may run there waits, up to the delay that the kernel's balancing itself has: among tasks that always have
//! something to do, whatever their groups and the CPUs that they may run on.

use crate::common;

use common::watcher;
use common::{milliseconds, run, run_with, scheduler, task, workload};
use proptest::prelude::*;
use schedlab_model::{Attributes, CpuId, EventKind, Group, Machine, Scheduler, Step, Workload};
use schedlab_sim::Options;

const CURRENT: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];

#[derive(Debug, Clone)]
struct Case {
    machine: Machine,
    scheduler: Scheduler,
    workload: Workload,
}

/// Hogs of a second or two: where they may run (anywhere if that is empty), and in which of some groups they are.
fn case(pinned: bool, machines: impl Strategy<Value = Machine>) -> impl Strategy<Value = Case> {
    let hog = (300u64..2000, any::<u8>(), prop::bool::weighted(0.5), prop::option::of(0usize..3));
    let groups = prop::collection::vec((1u64..1000, prop::bool::weighted(0.2)), 3);
    let hz = prop_oneof![Just(100), Just(250), Just(1000)];
    (machines, prop::collection::vec(hog, 1..14), groups, prop::sample::select(&CURRENT[..]), hz).prop_map(
        move |(machine, hogs, groups, release, hz)| {
            let mut all = workload(vec![]);
            for (number, (time, mask, bound, group)) in hogs.into_iter().enumerate() {
                let may = |cpu: &u32| mask >> (cpu % 8) & 1 != 0;
                let affinity: Vec<u32> = (0..machine.cpus).filter(may).filter(|_| bound && pinned).collect();
                let attributes = Attributes { affinity, ..Attributes::default() };
                let mut hog = task(&format!("t{number}"), 1, attributes, vec![Step::Run(milliseconds(time))]);
                hog.taskgroup = group.map(|group| format!("/g{group}"));
                all.tasks.push(hog);
            }
            for (number, (weight, idle)) in groups.into_iter().enumerate() {
                let idle = idle && release != "5.10";
                let group = Group { weight: (!idle).then_some(weight), idle, ..Group::default() };
                all.groups.insert(format!("/g{number}"), group);
            }
            Case { machine, scheduler: Scheduler { hz, ..scheduler(release) }, workload: all }
        },
    )
}

fn holds(case: &Case, patience: u64) -> Result<(), TestCaseError> {
    let (outcome, events) =
        run_with(&case.workload, &case.scheduler, &case.machine, &Options { seed: 3, ..Options::default() })
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let affinities: Vec<Vec<u32>> = outcome
        .tasks
        .iter()
        .map(|told| {
            let own = case.workload.tasks.iter().find(|task| task.name == told.name);
            own.and_then(|task| task.attributes.clone()).map(|attributes| attributes.affinity).unwrap_or_default()
        })
        .collect();
    let allowed = |task: usize, cpu: usize| affinities[task].is_empty() || affinities[task].contains(&(cpu as u32));
    watcher::check(&events, &outcome, &case.machine, Some(patience), allowed).map_err(TestCaseError::fail)
}

fn tick(case: &Case) -> u64 {
    1_000_000_000 / u64::from(case.scheduler.hz)
}

/// The longest `balance_interval` of a domain with all CPUs, two milliseconds for each, with the tick at which it is found to be over.
fn attempt(case: &Case) -> u64 {
    2 * u64::from(case.machine.cpus) * 1_000_000 + tick(case)
}

/// `cache_nice_tries` + 3 attempts in vain, with 2 for the former between nodes and 1 within one, then even the task that runs is pushed; and one
/// in which that is done.
const ATTEMPTS: u64 = 6;

/// `MAX_PINNED_INTERVAL`, up to which `balance_interval` is doubled while all who wait elsewhere are bound.
const PINNED: u64 = 512_000_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Groups' weights count where load is compared; an idle CPU has capacity to spare, and takes tasks, whatever they weigh, as long as each
    /// CPU is a group of its own.
    #[test]
    fn groups_do_not_keep_cpus_idle(case in case(false, (2u32..9).prop_map(Machine::ideal))) {
        let near = tick(&case) + ATTEMPTS * attempt(&case);
        holds(&case, near)?;
    }

    /// The same where tasks may run on some CPUs only, as long as each CPU is a group of its own (see below). A balancer that finds only
    /// tasks that are bound leaves their CPU out and looks on (`LBF_ALL_PINNED`), but in longer and longer intervals; a task that may move
    /// is taken as it waits, or pushed as it runs.
    #[test]
    fn affinity_does_not_keep_cpus_idle(case in case(true, (2u32..9).prop_map(Machine::ideal))) {
        let near = PINNED + tick(&case) + ATTEMPTS * attempt(&case);
        holds(&case, near)?;
    }
}

/// The kernel's limit: groups of CPUs are compared as a whole. Of one cache, CPU 0 idles beside four hogs that are bound to CPU 1: more
/// tasks than CPUs, more of them runnable than 117 % of two CPUs' capacity (`group_is_overloaded`), and a load of 4 · 1024. The other one
/// has 3 · 1024: two hogs on CPU 2 that may run on CPU 0, too, and one that is bound to CPU 3. An overloaded group takes no task from one
/// of less load (`sched_balance_find_src_group`). So CPU 0 runs the three that are bound to it, for 3 · 60 ms, and idles from then on.
#[test]
fn an_idle_cpu_of_a_crowded_cache_takes_no_task_from_another_one() {
    let hogs = |name: &str, instances, affinity: &[u32], time| {
        // No task is moved to where the first ones are.
        let nice = if name == "first" { -20 } else { 0 };
        let attributes = Attributes { affinity: affinity.to_vec(), nice, ..Attributes::default() };
        task(name, instances, attributes, vec![Step::Run(milliseconds(time))])
    };
    let tasks = vec![
        hogs("first", 3, &[0], 60),
        hogs("crowd", 4, &[1], 400),
        hogs("alone", 1, &[3], 1600),
        hogs("two", 2, &[0, 2], 300),
    ];
    // On 7.2 one of the two is born on CPU 0, and stays there.
    for release in ["5.10", "6.1", "6.12"] {
        let machine = Machine { topology: "llc=2".parse().expect("a topology"), ..Machine::ideal(4) };
        let (outcome, events) = run(&workload(tasks.clone()), release, &machine);
        let busy = |cpu: usize| outcome.cpu_busy_ns[cpu];
        // One of the two may have begun there, for a tick.
        assert!((180_000_000..=184_000_000).contains(&busy(0)), "{release}: {}", busy(0));
        assert_eq!((busy(1), busy(0) + busy(2), busy(3)), (1_600_000_000, 780_000_000, 1_600_000_000), "{release}");
        let last =
            events.iter().rev().find(|event| event.cpu == CpuId(0) && matches!(event.kind, EventKind::Switch { .. }));
        assert_eq!(last.map(|event| event.time.as_nanos()), Some(busy(0)), "{release}: it idles from then on");
    }
}
