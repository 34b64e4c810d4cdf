//! The groups of scheduling domains (`build_sched_groups`, `build_overlap_sched_groups` of `kernel/sched/topology.c`).

use std::collections::HashMap;
use std::sync::Arc;

use crate::balance::domains::{DomainFlags, Group};
use crate::bitmap::Bitmap;

/// Groups already made, by level and span.
type Known = HashMap<(usize, Arc<Bitmap>), u32>;

/// A domain before groups are made and superfluous levels leave.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) name: &'static str,
    pub(super) level: usize,
    pub(super) flags: DomainFlags,
    pub(super) span: Arc<Bitmap>,
    pub(super) weight: u32,
    pub(super) imbalance_pct: u64,
    pub(super) cache_nice_tries: u32,
    pub(super) imb_numa_nr: u32,
    pub(super) groups: Vec<u32>,
}

/// Makes the groups of every domain of every CPU, each domain's own CPU's group first.
pub(super) fn build_groups(drafts: &mut [Vec<Draft>], groups: &mut Vec<Group>, cpus: u32) {
    let single: Vec<Arc<Bitmap>> = (0..cpus as usize)
        .map(|cpu| {
            let mut mask = Bitmap::new(cpus as usize);
            mask.insert(cpu);
            Arc::new(mask)
        })
        .collect();
    let mut known = Known::new();
    let mut lists: HashMap<(usize, Arc<Bitmap>), Vec<u32>> = HashMap::new();
    for cpu in 0..cpus as usize {
        for level in 0..drafts[cpu].len() {
            let overlap = drafts[cpu][level].flags.has(DomainFlags::OVERLAP);
            let span = Arc::clone(&drafts[cpu][level].span);
            let key = (level, Arc::clone(&span));
            if let Some(list) = lists.get(&key).filter(|_| !overlap) {
                // The same circular list, from this CPU's own group on.
                let mut list = list.clone();
                let own = list.iter().position(|group| groups[*group as usize].span.contains(cpu)).unwrap_or(0);
                list.rotate_left(own);
                drafts[cpu][level].groups = list;
                continue;
            }
            let mut covered = Bitmap::new(cpus as usize);
            let mut list = Vec::new();
            for other in span.iter_wrap(cpu) {
                if covered.contains(other) {
                    continue;
                }
                // A tree of less depth ends before this level.
                let Some(sibling) = drafts[other].get(level) else { continue };
                if !sibling.span.contains(other) {
                    continue;
                }
                let (below, flags) = group_of(drafts, other, level, &span, &single);
                covered.join(&below);
                let group = *known.entry((level, Arc::clone(&below))).or_insert_with(|| {
                    let balance_mask = if overlap { balance_mask(drafts, level, &below) } else { Arc::clone(&below) };
                    let weight = below.count();
                    let capacity = u64::from(weight) << 10;
                    let span = below;
                    groups.push(Group {
                        span,
                        weight,
                        balance_mask,
                        flags,
                        capacity,
                        next_update: 0,
                        imbalance: false,
                    });
                    groups.len() as u32 - 1
                });
                list.push(group);
            }
            if !overlap {
                lists.insert(key, list.clone());
            }
            drafts[cpu][level].groups = list;
        }
    }
}

/// The span and flags of the group that a CPU stands for: its domain below, or, where that reaches beyond the domain that is being
/// built, one further below that does not (`find_descended_sibling`).
fn group_of(
    drafts: &[Vec<Draft>],
    cpu: usize,
    level: usize,
    span: &Bitmap,
    single: &[Arc<Bitmap>],
) -> (Arc<Bitmap>, DomainFlags) {
    let below = drafts[cpu][..level].iter().rev().find(|domain| domain.span.is_subset(span));
    below.map_or_else(
        || (Arc::clone(&single[cpu]), DomainFlags::default()),
        |below| (Arc::clone(&below.span), below.flags),
    )
}

/// `build_balance_mask`: of a group, the CPUs whose domain below is the group.
fn balance_mask(drafts: &[Vec<Draft>], level: usize, group: &Arc<Bitmap>) -> Arc<Bitmap> {
    let mut mask = (**group).clone();
    for cpu in group.iter() {
        if !drafts[cpu][..level.min(drafts[cpu].len())].iter().any(|domain| domain.span == *group) {
            mask.remove(cpu);
        }
    }
    Arc::new(mask)
}
