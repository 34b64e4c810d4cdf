//! `kernel/sched/topology.c`: from a machine's description to the scheduling domains of each CPU.

use std::collections::HashMap;
use std::sync::Arc;

use schedlab_model::{RuleSet, Topology};

use crate::balance::domains::{CpuDomains, Domain, DomainFlags, Domains, Group, Shape, Shared};
use crate::balance::groups::{Draft, build_groups};
use crate::bitmap::Bitmap;

/// `struct sched_domain_topology_level`.
struct Level {
    name: &'static str,
    flags: DomainFlags,
    /// By CPU: the CPUs it sees at this level.
    masks: Vec<Arc<Bitmap>>,
}

/// What CPUs share, by level, span, groups and flags.
type Shapes = HashMap<(usize, Arc<Bitmap>, Vec<u32>, DomainFlags), Arc<Shape>>;

/// `RECLAIM_DISTANCE` (`node_reclaim_distance`): nodes further apart share no work at wake-up, fork and exec.
const RECLAIM_DISTANCE: u32 = 30;

/// The masks of one level, one bitmap for each distinct set.
fn masks(cpus: u32, active: &Bitmap, of: impl Fn(u32, u32) -> bool) -> Vec<Arc<Bitmap>> {
    let mut known: HashMap<Bitmap, Arc<Bitmap>> = HashMap::new();
    let mask = |cpu| {
        let mut mask = Bitmap::new(cpus as usize);
        (0..cpus)
            .filter(|other| active.contains(*other as usize) && of(cpu, *other))
            .for_each(|other| mask.insert(other as usize));
        mask
    };
    (0..cpus)
        .map(|cpu| {
            let mask = mask(cpu);
            Arc::clone(known.entry(mask.clone()).or_insert_with(|| Arc::new(mask)))
        })
        .collect()
}

/// `default_topology` and `sched_init_numa`: SMT, MC, PKG (DIE before 6.7), then one NUMA level for each distance.
fn levels(rules: &RuleSet, topology: &Topology, cpus: u32, active: &Bitmap) -> Vec<Level> {
    let smt = DomainFlags::SHARE_CPUCAPACITY.and(DomainFlags::SHARE_LLC);
    let package = if rules.pkg_domain { "PKG" } else { "DIE" };
    let core = |one, other| topology.core(one, cpus) == topology.core(other, cpus);
    let cache = |one, other| topology.cache(one, cpus) == topology.cache(other, cpus);
    let distance = |one, other| topology.distance(topology.node_of(one, cpus), topology.node_of(other, cpus));
    let node = |one, other| topology.node_of(one, cpus) == topology.node_of(other, cpus);
    let level = |name, flags, masks| Level { name, flags, masks };
    let mut levels = vec![
        level("SMT", smt, masks(cpus, active, core)),
        level("MC", DomainFlags::SHARE_LLC, masks(cpus, active, cache)),
        level(package, DomainFlags::default(), masks(cpus, active, node)),
    ];
    let nodes = topology.nodes(cpus);
    let mut distances: Vec<u32> = (0..nodes)
        .flat_map(|from| (0..nodes).map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
        .map(|(from, to)| topology.distance(from, to))
        .collect();
    distances.sort_unstable();
    distances.dedup();
    for limit in distances {
        let mut flags = DomainFlags::NUMA.and(DomainFlags::OVERLAP);
        if limit > RECLAIM_DISTANCE {
            flags = flags.and(FAR);
        }
        levels.push(level("NUMA", flags, masks(cpus, active, |one, other| distance(one, other) <= limit)));
    }
    levels
}

/// Marks a NUMA level beyond [`RECLAIM_DISTANCE`], within this file.
const FAR: DomainFlags = DomainFlags(1 << 31);

/// `sd_init`.
fn sd_init(number: usize, level: &Level, cpu: usize) -> Draft {
    let base = DomainFlags::BALANCE_NEWIDLE
        .and(DomainFlags::BALANCE_EXEC)
        .and(DomainFlags::BALANCE_FORK)
        .and(DomainFlags::WAKE_AFFINE)
        .and(DomainFlags::PREFER_SIBLING);
    let mut flags = base.and(level.flags.without(FAR));
    let (mut imbalance_pct, mut cache_nice_tries) = (117, 1);
    if flags.has(DomainFlags::SHARE_CPUCAPACITY) {
        (imbalance_pct, cache_nice_tries) = (110, 0);
    } else if flags.has(DomainFlags::NUMA) {
        cache_nice_tries = 2;
        flags = flags.without(DomainFlags::PREFER_SIBLING).and(DomainFlags::SERIALIZE);
        if level.flags.has(FAR) {
            let spread = DomainFlags::BALANCE_EXEC.and(DomainFlags::BALANCE_FORK).and(DomainFlags::WAKE_AFFINE);
            flags = flags.without(spread);
        }
    }
    let span = Arc::clone(&level.masks[cpu]);
    Draft {
        name: level.name,
        level: number,
        flags,
        weight: span.count(),
        span,
        imbalance_pct,
        cache_nice_tries,
        imb_numa_nr: 0,
        groups: Vec::new(),
    }
}

/// The end of `build_sched_domains` before domains are attached: how much a node may have more than others.
fn allow_numa_imbalance(domains: &mut [Draft]) {
    let (mut imbalance, mut imbalance_span) = (0, 1);
    for level in 0..domains.len() {
        let weight = domains[level].weight;
        let child = level.checked_sub(1).map(|child| &domains[child]);
        let above_cache = !domains[level].flags.has(DomainFlags::SHARE_LLC);
        match child.filter(|child| above_cache && child.flags.has(DomainFlags::SHARE_LLC)) {
            Some(child) => {
                let caches = weight / child.weight;
                imbalance = if caches == 1 { weight >> 3 } else { caches }.max(1);
                domains[level].imb_numa_nr = imbalance;
                let numa = domains[level + 1..].iter().find(|domain| domain.flags.has(DomainFlags::NUMA));
                imbalance_span = numa.map_or(weight, |domain| domain.weight);
            }
            None => domains[level].imb_numa_nr = imbalance * (weight / imbalance_span).max(1),
        }
    }
}

/// `cpu_attach_domain`: levels that add nothing leave. Groups of the level above take the flags of who stays below it.
fn attach(mut domains: Vec<Draft>, groups: &mut [Group]) -> Vec<Draft> {
    let mut level = 0;
    while level + 1 < domains.len() {
        // sd_parent_degenerate: a single CPU, or nothing that the child does not have.
        if domains[level + 1].weight > 1 && domains[level + 1].span != domains[level].span {
            level += 1;
            continue;
        }
        let parent = domains.remove(level + 1);
        if let Some(above) = domains.get(level + 1) {
            groups[above.groups[0] as usize].flags = domains[level].flags;
        }
        if parent.flags.has(DomainFlags::PREFER_SIBLING) {
            domains[level].flags = domains[level].flags.and(DomainFlags::PREFER_SIBLING);
        }
    }
    // sd_degenerate
    if domains.first().is_some_and(|lowest| lowest.weight == 1) {
        domains.remove(0);
        if let Some(lowest) = domains.first() {
            lowest.groups.iter().for_each(|group| groups[*group as usize].flags = DomainFlags::default());
        }
    }
    domains
}

impl Domains {
    /// `build_sched_domains` for the CPUs of `active`.
    pub(crate) fn build(rules: &RuleSet, topology: &Topology, active: &Bitmap, cpus: u32) -> Self {
        let levels = levels(rules, topology, cpus, active);
        let mut drafts: Vec<Vec<Draft>> = vec![Vec::new(); cpus as usize];
        for cpu in active.iter() {
            for (number, level) in levels.iter().enumerate() {
                let domain = sd_init(number, level, cpu);
                let all = *domain.span == *active;
                drafts[cpu].push(domain);
                if all {
                    break;
                }
            }
            allow_numa_imbalance(&mut drafts[cpu]);
        }
        let mut built = Self {
            topology: topology.clone(),
            cpus: vec![CpuDomains::default(); cpus as usize],
            active: active.clone(),
            ..Self::default()
        };
        build_groups(&mut drafts, &mut built.groups, cpus);
        let mut shapes: Shapes = HashMap::new();
        let mut caches: HashMap<Arc<Bitmap>, u32> = HashMap::new();
        for cpu in active.iter() {
            let drafts = attach(std::mem::take(&mut drafts[cpu]), &mut built.groups);
            let record = &mut built.cpus[cpu];
            for draft in drafts {
                record.levels.push(shape_of(draft, &mut shapes));
            }
            // update_top_cache_domain
            record.llc = record.levels.iter().rposition(|domain| domain.shape.flags.has(DomainFlags::SHARE_LLC));
            (record.llc_id, record.llc_size) = (cpu as u32, 1);
            if let Some(llc) = record.llc {
                let shape = &record.levels[llc].shape;
                record.llc_id = shape.span.first().unwrap_or(cpu) as u32;
                record.llc_size = shape.weight;
                let shared = &mut built.shared;
                record.shared = Some(*caches.entry(Arc::clone(&shape.span)).or_insert_with(|| {
                    // As after a first balance of an idle machine.
                    let weight = shape.weight;
                    shared.push(Shared { nr_busy_cpus: 0, has_idle_cores: false, nr_idle_scan: weight });
                    shared.len() as u32 - 1
                }));
            }
            record.settle(topology.smt > 1);
        }
        if topology.smt > 1 {
            built.smt = levels[0].masks.clone();
            built.shared.iter_mut().for_each(|shared| shared.has_idle_cores = true);
        }
        built
    }
}

/// The CPU's domain of a draft: groups are put in the order of their list from the lowest on, so that CPUs can share it.
fn shape_of(draft: Draft, shapes: &mut Shapes) -> Domain {
    let own = draft.groups[0];
    let least = draft.groups.iter().enumerate().min_by_key(|(_, group)| **group).map_or(0, |(at, _)| at);
    let mut groups = draft.groups;
    groups.rotate_left(least);
    let first = groups.iter().position(|group| *group == own).unwrap_or(0) as u32;
    let key = (draft.level, Arc::clone(&draft.span), groups.clone(), draft.flags);
    let shape = shapes.entry(key).or_insert_with(|| {
        Arc::new(Shape {
            name: draft.name,
            flags: draft.flags,
            span: draft.span,
            weight: draft.weight,
            min_interval: u64::from(draft.weight),
            busy_factor: 16,
            imbalance_pct: draft.imbalance_pct,
            cache_nice_tries: draft.cache_nice_tries,
            imb_numa_nr: draft.imb_numa_nr,
            groups,
        })
    });
    Domain::new(Arc::clone(shape), first)
}
