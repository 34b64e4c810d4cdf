//! `tasks_timeline`: the ordered queue of a fair run queue.
//!
//! The kernel keeps a red-black tree. What decides is only the order (key, then arrival: an equal key goes to the right of its
//! equals) and, for EEVDF, the least `vruntime` below a node. A list of short sorted runs gives the same order; it touches one or
//! two cache lines where a tree walks seven, and stays logarithmic by splitting runs.

use crate::entity::{EntityId, Vruntime};

/// A run holds at most so many entries; a full one is split in halves.
const RUN: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// `vruntime` (CFS) or `deadline` (EEVDF).
    key: Vruntime,
    /// Arrival among equal keys.
    sequence: u64,
    /// `vruntime`, for eligibility.
    vruntime: Vruntime,
    /// The slice, for the shortest one.
    slice: u64,
    entity: EntityId,
}

impl Entry {
    fn before(&self, key: Vruntime, sequence: u64) -> bool {
        let distance = self.key.since(key);
        distance < 0 || (distance == 0 && self.sequence < sequence)
    }
}

#[derive(Debug, Clone)]
struct Run {
    entries: Vec<Entry>,
    /// The least `vruntime` of the run, as the kernel's augmented `min_vruntime`.
    least: Vruntime,
    /// The shortest slice of the run, as the kernel's augmented `min_slice`.
    shortest: u64,
}

impl Run {
    fn of(entries: Vec<Entry>) -> Self {
        let mut run = Self { entries, least: Vruntime::default(), shortest: u64::MAX };
        run.refresh();
        run
    }

    fn refresh(&mut self) {
        if let Some((first, rest)) = self.entries.split_first() {
            self.least = rest.iter().fold(first.vruntime, |least, entry| least.min(entry.vruntime));
            self.shortest = rest.iter().fold(first.slice, |shortest, entry| shortest.min(entry.slice));
        }
    }
}

/// Entities in the order of their keys; equal keys leave in the order in which they came.
///
/// ```
/// use schedlab_sched::{EntityId, Timeline, Vruntime};
/// let mut timeline = Timeline::default();
/// let first = timeline.insert(Vruntime(5), Vruntime(5), 1, EntityId(0));
/// timeline.insert(Vruntime(5), Vruntime(5), 1, EntityId(1));
/// timeline.insert(Vruntime(3), Vruntime(3), 1, EntityId(2));
/// assert_eq!(timeline.first(), Some(EntityId(2)));
/// assert_eq!(timeline.iter().collect::<Vec<_>>(), [EntityId(2), EntityId(0), EntityId(1)]);
/// timeline.remove(Vruntime(5), first);
/// assert_eq!(timeline.len(), 2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    runs: Vec<Run>,
    length: usize,
    arrivals: u64,
}

impl Timeline {
    /// How many entities are queued. O(1).
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is queued. O(1).
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Queues an entity behind its equals and gives the sequence by which [`Timeline::remove`] finds it. O(log n).
    pub fn insert(&mut self, key: Vruntime, vruntime: Vruntime, slice: u64, entity: EntityId) -> u64 {
        let sequence = self.arrivals;
        self.arrivals += 1;
        self.length += 1;
        let entry = Entry { key, sequence, vruntime, slice, entity };
        if self.runs.is_empty() {
            self.runs.push(Run { entries: Vec::with_capacity(RUN), least: vruntime, shortest: slice });
        }
        let place = self.run_of(key, sequence);
        let run = &mut self.runs[place];
        let position = run.entries.partition_point(|queued| queued.before(key, sequence));
        if run.entries.is_empty() {
            (run.least, run.shortest) = (vruntime, slice);
        } else {
            (run.least, run.shortest) = (run.least.min(vruntime), run.shortest.min(slice));
        }
        run.entries.insert(position, entry);
        if run.entries.len() == RUN {
            let mut upper = Vec::with_capacity(RUN);
            upper.extend(run.entries.drain(RUN / 2..));
            run.refresh();
            self.runs.insert(place + 1, Run::of(upper));
        }
        sequence
    }

    /// Takes out the entity that was queued under `key` with `sequence`; false if there is none. O(log n).
    pub fn remove(&mut self, key: Vruntime, sequence: u64) -> bool {
        if self.runs.is_empty() {
            return false;
        }
        let place = self.run_of(key, sequence);
        let run = &mut self.runs[place];
        let position = run.entries.partition_point(|queued| queued.before(key, sequence));
        if run.entries.get(position).is_none_or(|entry| entry.sequence != sequence) {
            return false;
        }
        let entry = run.entries.remove(position);
        self.length -= 1;
        if run.entries.is_empty() {
            if self.runs.len() > 1 {
                self.runs.remove(place);
            }
        } else if entry.vruntime == run.least || entry.slice == run.shortest {
            run.refresh();
        }
        true
    }

    /// The last run that does not start after the given place.
    #[inline]
    fn run_of(&self, key: Vruntime, sequence: u64) -> usize {
        if self.runs.len() == 1 {
            return 0;
        }
        let after =
            self.runs.partition_point(|run| run.entries.first().is_none_or(|first| first.before(key, sequence)));
        // The entry itself may be the first of the run at `after`.
        match self.runs.get(after) {
            Some(run) if run.entries.first().is_some_and(|first| first.key == key && first.sequence == sequence) => {
                after
            }
            _ => after.saturating_sub(1),
        }
    }

    /// The first entity. O(1).
    #[inline]
    pub fn first(&self) -> Option<EntityId> {
        self.runs.first()?.entries.first().map(|entry| entry.entity)
    }

    /// The key of the first entity. O(1).
    #[inline]
    pub fn first_key(&self) -> Option<Vruntime> {
        self.runs.first()?.entries.first().map(|entry| entry.key)
    }

    /// The second entity. O(1).
    pub fn second(&self) -> Option<EntityId> {
        self.iter().nth(1)
    }

    /// The last entity. O(1).
    pub fn last(&self) -> Option<EntityId> {
        self.runs.last()?.entries.last().map(|entry| entry.entity)
    }

    /// The first entity whose `vruntime` is eligible, where eligibility only ends with growing `vruntime`. O(runs + run).
    pub fn first_eligible(&self, eligible: impl Fn(Vruntime) -> bool) -> Option<EntityId> {
        let run = self.runs.iter().find(|run| !run.entries.is_empty() && eligible(run.least))?;
        run.entries.iter().find(|entry| eligible(entry.vruntime)).map(|entry| entry.entity)
    }

    /// The least `vruntime` of all. O(runs).
    pub fn least_vruntime(&self) -> Option<Vruntime> {
        self.runs.iter().filter(|run| !run.entries.is_empty()).map(|run| run.least).reduce(Vruntime::min)
    }

    /// The shortest slice of all, in nanoseconds. O(runs).
    pub fn shortest_slice(&self) -> Option<u64> {
        self.runs.iter().filter(|run| !run.entries.is_empty()).map(|run| run.shortest).min()
    }

    /// All entities in order.
    pub fn iter(&self) -> impl Iterator<Item = EntityId> {
        self.runs.iter().flat_map(|run| &run.entries).map(|entry| entry.entity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain sorted list: stable insertion by signed difference, removal by identity.
        #[test]
        fn it_orders_as_a_stable_sorted_list(
            base: u64,
            steps in proptest::collection::vec((any::<bool>(), 0u64..50, 0usize..300), 1..600),
        ) {
            let mut timeline = Timeline::default();
            let mut model: Vec<(u64, u64, u32)> = Vec::new();
            for (number, (insert, offset, which)) in steps.into_iter().enumerate() {
                if insert || model.is_empty() {
                    let sequence = timeline.insert(
                        Vruntime(base.wrapping_add(offset)), Vruntime(offset ^ 21), offset ^ 5, EntityId(number as u32),
                    );
                    let position = model.partition_point(|(queued, _, _)| *queued <= offset);
                    model.insert(position, (offset, sequence, number as u32));
                } else {
                    let (offset, sequence, _) = model.remove(which % model.len());
                    prop_assert!(timeline.remove(Vruntime(base.wrapping_add(offset)), sequence));
                    prop_assert!(!timeline.remove(Vruntime(base.wrapping_add(offset)), sequence));
                }
                let expected: Vec<_> = model.iter().map(|(_, _, id)| EntityId(*id)).collect();
                prop_assert_eq!(timeline.iter().collect::<Vec<_>>(), expected.clone());
                prop_assert_eq!(timeline.first(), expected.first().copied());
                prop_assert_eq!(timeline.second(), expected.get(1).copied());
                prop_assert_eq!(timeline.last(), expected.last().copied());
                prop_assert_eq!(timeline.len(), expected.len());
                let least = model.iter().map(|(offset, _, _)| offset ^ 21).min();
                prop_assert_eq!(timeline.least_vruntime(), least.map(Vruntime));
                let shortest = model.iter().map(|(offset, _, _)| offset ^ 5).min();
                prop_assert_eq!(timeline.shortest_slice(), shortest);
                let eligible = |vruntime: Vruntime| vruntime.0 <= 20;
                let first = model.iter().find(|(offset, _, _)| offset ^ 21 <= 20).map(|(_, _, id)| EntityId(*id));
                prop_assert_eq!(timeline.first_eligible(eligible), first);
            }
        }
    }
}
