//! Effects of the kernel's load balancing on whole runs.

use crate::common;

use common::{milliseconds, run, scheduler, task, workload};
use schedlab_model::{Attributes, EventKind, Machine, Step, Workload};

const CURRENT: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];

fn hogs(instances: u32, millis: u64) -> Workload {
    workload(vec![task("hog", instances, Attributes::default(), vec![Step::Run(milliseconds(millis))])])
}

fn machine(cpus: u32, topology: &str) -> Machine {
    Machine { topology: topology.parse().expect("a topology"), ..Machine::ideal(cpus) }
}

/// As many hogs as CPUs: each gets its own at once (`sched_balance_find_dst_group` counts idle CPUs), whatever the machine looks like, but where few
/// tasks may stay on a node; so no task waits, and all end together.
#[test]
fn each_its_own_cpu() {
    for release in CURRENT {
        for topology in ["smt=1", "smt=2", "llc=2", "smt=2,llc=4", "llc=1"] {
            let (outcome, _) = run(&hogs(8, 50), release, &machine(8, topology));
            assert_eq!(outcome.elapsed_ns, 50_000_000, "{release} {topology}");
            assert!(outcome.tasks.iter().all(|task| task.wait_ns == 0 && task.migrations == 0), "{release} {topology}");
        }
    }
}

/// Half as many hogs as threads: each gets a core of its own. CPU 0's core has CPU 1 beside it, and so on.
#[test]
fn cores_before_threads() {
    for release in CURRENT {
        let (_, events) = run(&hogs(4, 50), release, &machine(8, "smt=2"));
        let mut cores: Vec<u32> = events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::WakeupNew { target, .. } => Some(target.0 / 2),
                _ => None,
            })
            .collect();
        cores.sort_unstable();
        assert_eq!(cores, [0, 1, 2, 3], "{release}");
    }
}

/// Three equal hogs on two CPUs. Left where they are, one would be done after 600 ms and the others after 1200 ms. The busy CPU with
/// one task finds the other overloaded: averages 1024 and 2048, of the domain 1536, an imbalance of 512, less than the load of one
/// task until one attempt failed (`shr_bound`). So every second balancing moves one, 2 · (2 · 16) ms apart, and all three get about
/// two thirds of a CPU: 900 ms, and at most a few such periods more.
#[test]
fn three_hogs_share_two_cpus() {
    for release in CURRENT {
        let (outcome, _) = run(&hogs(3, 600), release, &machine(2, "smt=1"));
        let millis = outcome.elapsed_ns / 1_000_000;
        assert!((900..900 + 3 * 64).contains(&millis), "{release}: {millis} ms");
        assert!(outcome.tasks.iter().map(|task| task.migrations).sum::<u64>() >= 4, "{release}");
    }
}

/// A hog that is forked beside another while all others are busy is taken by the first CPU that runs out of work: at once by newly
/// idle balancing if the machine is known to be overloaded (`rd->overload`), else by the next idle balancing.
#[test]
fn an_idle_cpu_finds_work() {
    for release in CURRENT {
        let short = task("short", 1, Attributes::default(), vec![Step::Run(milliseconds(30))]);
        let mut both = hogs(2, 100);
        both.tasks.push(short);
        // 230 ms of work on two CPUs: no less than 115 ms. After 60 ms at the latest the short one is done.
        let (outcome, _) = run(&both, release, &machine(2, "smt=1"));
        let millis = outcome.elapsed_ns / 1_000_000;
        assert!((115..=160).contains(&millis), "{release}: {millis} ms");
    }
}

/// Four hogs that may run on one cache of two only, and two that may run anywhere: these leave that cache to them.
#[test]
fn affinity_makes_room() {
    for release in CURRENT {
        let here = Attributes { affinity: vec![0, 1], ..Attributes::default() };
        let mut all = hogs(2, 200);
        all.tasks.push(task("here", 4, here, vec![Step::Run(milliseconds(100))]));
        let (outcome, _) = run(&all, release, &machine(4, "llc=2"));
        // Two CPUs for 400 ms, two for 400 ms: 200 ms if nothing is lost.
        let millis = outcome.elapsed_ns / 1_000_000;
        assert!((200..=280).contains(&millis), "{release}: {millis} ms");
    }
}

/// `nr_migrate` 0 looks at no task at all (`loop_max`), so that a task moves only while it wakes or is new. The two that share a CPU stay
/// on it: 2 · 200 ms.
#[test]
fn no_task_moves_where_none_may_be_looked_at() {
    for release in CURRENT {
        let mut still = scheduler(release);
        still.set("nr_migrate", "0").expect("a knob of the release");
        let options = schedlab_sim::Options { seed: 1, ..schedlab_sim::Options::default() };
        let (outcome, _) = common::run_with(&hogs(3, 200), &still, &machine(2, "smt=1"), &options).expect("it runs");
        assert_eq!(outcome.elapsed_ns, 400_000_000, "{release}");
        assert!(outcome.tasks.iter().all(|task| task.migrations == 0), "{release}");
    }
}

/// `active_load_balance_cpu_stop`: two that run on both threads of a core, beside a core that idles, wait for nothing that could be
/// pulled; after `cache_nice_tries` + 2 attempts, 3 within a cache, a running one is pushed.
#[test]
fn a_running_task_is_pushed_to_an_idle_core() {
    for release in CURRENT {
        let there = Attributes { affinity: vec![2, 3], ..Attributes::default() };
        let mut all = hogs(2, 400);
        all.tasks.insert(0, task("there", 2, there, vec![Step::Run(milliseconds(20))]));
        let (outcome, events) = run(&all, release, &machine(4, "smt=2"));
        let mut last = std::collections::BTreeMap::new();
        for event in &events {
            if let EventKind::Switch { next, .. } = event.kind {
                last.insert(next.index(), event.cpu.0 / 2);
            }
        }
        let hogs = || outcome.tasks.iter().enumerate().filter(|(_, task)| task.name.starts_with("hog"));
        let cores: std::collections::BTreeSet<u32> = hogs().map(|(number, _)| last[&number]).collect();
        assert_eq!((hogs().count(), cores.len()), (2, 2), "{release}: {last:?}");
        assert!(hogs().any(|(_, task)| task.migrations > 0), "{release}: they began on one core");
    }
}
