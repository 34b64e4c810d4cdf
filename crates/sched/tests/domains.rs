//! Scheduling domains against `Documentation/scheduler/sched-domains.rst` and the examples in `kernel/sched/topology.c`.

use proptest::prelude::*;
use schedlab_model::{CpuId, Scheduler, Topology};
use schedlab_sched::{DomainFlags, Ours, Rules, Sched};

fn machine(release: &str, cpus: u32, topology: &Topology) -> Sched<Ours> {
    topology.validate(cpus).expect("a topology");
    let rules = Rules::new(&Scheduler::new(release.parse().expect("a release")), cpus).expect("rules");
    let mut sched = Sched::new(rules, cpus, Ours::default());
    sched.set_topology(topology, 0, 1);
    sched
}

fn text(text: &str) -> Topology {
    text.parse().expect("a topology")
}

/// Name, CPUs and groups of a domain.
type Level = (&'static str, Vec<u32>, Vec<Vec<u32>>);

fn tree(sched: &Sched<Ours>, cpu: u32) -> Vec<Level> {
    let levels = sched.domains(CpuId(cpu)).iter().enumerate();
    levels
        .map(|(level, domain)| {
            let groups = sched.domain_groups(CpuId(cpu), level).into_iter().map(|(_, cpus)| cpus).collect();
            (domain.shape.name, domain.shape.cpus(), groups)
        })
        .collect()
}

/// Threads, caches, package: groups of a domain are the domains below it, the CPU's first. `sd_init`: intervals of as many
/// milliseconds as CPUs and twice that; 110 % among threads, 117 % elsewhere; one attempt of cache-hot tasks' patience, none
/// among threads, which share all caches.
#[test]
fn cores_caches_and_the_package() {
    let sched = machine("6.1", 8, &text("smt=2,llc=4"));
    let all = vec![0, 1, 2, 3, 4, 5, 6, 7];
    assert_eq!(
        tree(&sched, 3),
        [
            ("SMT", vec![2, 3], vec![vec![3], vec![2]]),
            ("MC", vec![0, 1, 2, 3], vec![vec![2, 3], vec![0, 1]]),
            ("DIE", all, vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]),
        ]
    );
    let values: Vec<_> = sched
        .domains(CpuId(3))
        .iter()
        .map(|domain| {
            let shape = &domain.shape;
            (shape.min_interval, shape.max_interval(), shape.busy_factor, shape.imbalance_pct, shape.cache_nice_tries)
        })
        .collect();
    assert_eq!(values, [(2, 4, 16, 110, 0), (4, 8, 16, 117, 1), (8, 16, 16, 117, 1)]);
    let shares: Vec<_> = sched
        .domains(CpuId(3))
        .iter()
        .map(|domain| {
            let flags = domain.shape.flags;
            (flags.has(DomainFlags::SHARE_CPUCAPACITY), flags.has(DomainFlags::SHARE_LLC))
        })
        .collect();
    assert_eq!(shares, [(true, true), (false, true), (false, false)]);
}

/// Levels that add nothing leave (`sd_degenerate`, `sd_parent_degenerate`): of CPUs that are all alike only MC stays, of CPUs with a
/// cache each only the package, which is called DIE up to 6.6 and PKG from then on.
#[test]
fn superfluous_levels_leave() {
    let groups = vec![vec![1], vec![2], vec![3], vec![0]];
    assert_eq!(tree(&machine("6.1", 4, &Topology::default()), 1), [("MC", vec![0, 1, 2, 3], groups.clone())]);
    assert_eq!(tree(&machine("6.1", 4, &text("llc=1")), 1), [("DIE", vec![0, 1, 2, 3], groups.clone())]);
    assert_eq!(tree(&machine("6.12", 4, &text("llc=1")), 1), [("PKG", vec![0, 1, 2, 3], groups)]);
}

/// The machine in the comment of `build_overlap_sched_groups`: four nodes in a line. NUMA-1 is as drawn there; at NUMA-2 no group
/// may reach beyond the domain, so that node 0 has {0-1} and, of node 2, what lies within: {2}.
#[test]
fn four_nodes_in_a_line() {
    let distances = [[10, 20, 30, 40], [20, 10, 20, 30], [30, 20, 10, 20], [40, 30, 20, 10]];
    let line = Topology { node: Some(1), distances: distances.map(Vec::from).to_vec(), ..Topology::default() };
    let sched = machine("6.1", 4, &line);
    assert_eq!(
        tree(&sched, 1),
        [
            ("NUMA", vec![0, 1, 2], vec![vec![1], vec![2], vec![0]]),
            ("NUMA", vec![0, 1, 2, 3], vec![vec![0, 1, 2], vec![2, 3]]),
        ]
    );
    assert_eq!(
        tree(&sched, 0),
        [
            ("NUMA", vec![0, 1], vec![vec![0], vec![1]]),
            ("NUMA", vec![0, 1, 2], vec![vec![0, 1], vec![2]]),
            ("NUMA", vec![0, 1, 2, 3], vec![vec![0, 1, 2], vec![1, 2, 3]]),
        ]
    );
    // Beyond a distance of 30 (RECLAIM_DISTANCE) nothing is spread at fork, exec or wake-up.
    let spreads: Vec<bool> =
        sched.domains(CpuId(0)).iter().map(|domain| domain.shape.flags.has(DomainFlags::BALANCE_FORK)).collect();
    assert_eq!(spreads, [true, true, false]);
}

/// Two nodes of one cache each, eight CPUs together: `imb_numa_nr` of a domain of one cache a node is an eighth of its CPUs and at
/// least one; the package's 4 / 8 makes 1. Above it, at the first NUMA level, whose 8 CPUs are the reference, the same.
#[test]
fn nodes_may_differ_by_a_little() {
    let sched = machine("6.1", 8, &text("node=4"));
    let names: Vec<_> =
        sched.domains(CpuId(0)).iter().map(|domain| (domain.shape.name, domain.shape.imb_numa_nr)).collect();
    assert_eq!(names, [("MC", 0), ("NUMA", 1)]);
    // Four caches a node of 16 CPUs: 16 / 4 = 4 caches, so four tasks.
    let sched = machine("6.1", 32, &text("llc=4,node=16"));
    let names: Vec<_> =
        sched.domains(CpuId(0)).iter().map(|domain| (domain.shape.name, domain.shape.imb_numa_nr)).collect();
    assert_eq!(names, [("MC", 0), ("DIE", 4), ("NUMA", 4)]);
}

fn topologies() -> impl Strategy<Value = (u32, Topology)> {
    let sizes = (1u32..3, 1u32..5, 1u32..4, 1u32..5);
    (sizes, any::<bool>(), prop::collection::vec(11u32..50, 16)).prop_map(
        |((smt, cores, caches, nodes), siblings_last, numbers)| {
            let (llc, node) = (smt * cores, smt * cores * caches);
            let near = |from: usize, to: usize| if from == to { 10 } else { numbers[from.min(to) * 4 + from.max(to)] };
            let distances =
                (0..nodes as usize).map(|from| (0..nodes as usize).map(|to| near(from, to)).collect()).collect();
            (node * nodes, Topology { smt, llc: Some(llc), node: Some(node), siblings_last, distances })
        },
    )
}

proptest! {
    /// The rules of sched-domains.rst: a domain's span is a superset of its child's, the base domain's has the CPU itself; its
    /// groups' union is its span, and they do not overlap unless nodes do; the first group has the CPU. The top spans the machine.
    #[test]
    fn every_tree_is_as_documented(
        (cpus, topology) in topologies(),
        release in prop::sample::select(&["5.10", "6.1", "6.12", "7.2", "7.3"][..]),
    ) {
        let sched = machine(release, cpus, &topology);
        for cpu in 0..cpus {
            let domains = sched.domains(CpuId(cpu));
            prop_assert_eq!(domains.is_empty(), cpus == 1);
            let mut below = vec![cpu];
            for (level, domain) in domains.iter().enumerate() {
                let span = domain.shape.cpus();
                prop_assert!(below.iter().all(|cpu| span.contains(cpu)) && span.len() > below.len());
                prop_assert_eq!(domain.shape.weight as usize, span.len());
                let groups = sched.domain_groups(CpuId(cpu), level);
                prop_assert!(groups[0].1.contains(&cpu) && groups.len() > 1);
                let mut union: Vec<u32> = groups.iter().flat_map(|(_, cpus)| cpus.clone()).collect();
                let counted = union.len();
                union.sort_unstable();
                union.dedup();
                prop_assert_eq!(&union, &span);
                prop_assert!(counted == union.len() || domain.shape.flags.has(DomainFlags::OVERLAP));
                below = span;
            }
            if cpus > 1 {
                prop_assert_eq!(below.len() as u32, cpus, "the top is the machine");
            }
        }
    }
}
