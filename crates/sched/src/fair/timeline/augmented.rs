//! The kernel's own tree of a timeline: what its root says of slices depends on its shape.
//!
//! Each node is augmented with the least `vruntime` and the shortest slice of itself and all nodes below it, since 6e3c0a4e1ad1 (7.0, 6.18.17)
//! with the longest slice too (`min_vruntime_update`). A node that takes another one's place must take over all of these fields, for the walk
//! that brings the nodes above up to date ends at the first one that does not change. Until 51b0e68cfa0a (7.3, 7.2.7, 6.18.53) a node takes over
//! the least `vruntime` alone, and keeps the slices that it had when it was computed last.

use std::collections::BTreeMap;

use crate::entity::Vruntime;
use crate::fair::timeline::Entry;

/// No node.
const NONE: usize = usize::MAX;
const LEFT: usize = 0;
const RIGHT: usize = 1;

/// The augmented fields of a node: what it and all nodes below it have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fields {
    /// `min_vruntime`.
    least: Vruntime,
    /// `min_slice`.
    shortest: u64,
    /// `max_slice`; 0 where there is no such field.
    longest: u64,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    entry: Entry,
    fields: Fields,
    parent: usize,
    /// Left and right.
    children: [usize; 2],
    red: bool,
}

/// The longest slice of an arriving node (`max_slice`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Longest {
    /// There is no such field.
    Absent,
    /// What the entity left with, until the node is computed.
    Kept,
    /// The entity's own slice (since 9a8bc9bb4c3f).
    Own,
}

/// What a kernel does with the fields for slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Augmentation {
    /// A node that takes another one's place takes over its slices (since 51b0e68cfa0a).
    pub(crate) moves_slices: bool,
    pub(crate) longest: Longest,
}

impl Augmentation {
    /// Whether the root's fields are those of all nodes, so that no tree is needed to know them.
    pub(crate) const fn is_exact(self) -> bool {
        self.moves_slices && !matches!(self.longest, Longest::Kept)
    }

    /// The fields of an entity alone.
    fn of(self, entry: &Entry) -> Fields {
        let longest = if self.longest == Longest::Absent { 0 } else { entry.slice };
        Fields { least: entry.vruntime, shortest: entry.slice, longest }
    }
}

/// A red-black tree that is rebalanced and augmented as the kernel's (`lib/rbtree.c`, `include/linux/rbtree_augmented.h`).
#[derive(Debug, Clone)]
pub(super) struct AugmentedTree {
    nodes: Vec<Node>,
    /// Places in `nodes` that hold none.
    free: Vec<usize>,
    root: usize,
    augmentation: Augmentation,
    /// The longest slice that each entity left with, where it is kept ([`Longest::Kept`]).
    left_with: BTreeMap<u32, u64>,
}

impl AugmentedTree {
    pub(super) fn new(augmentation: Augmentation) -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NONE, augmentation, left_with: BTreeMap::new() }
    }

    pub(super) const fn augmentation(&self) -> Augmentation {
        self.augmentation
    }

    /// `min_slice` of the root, in nanoseconds.
    pub(super) fn shortest(&self) -> Option<u64> {
        Some(self.nodes.get(self.root)?.fields.shortest)
    }

    /// `max_slice` of the root, in nanoseconds; none where there is no such field.
    pub(super) fn longest(&self) -> Option<u64> {
        let root = self.nodes.get(self.root).filter(|_| self.augmentation.longest != Longest::Absent)?;
        Some(root.fields.longest)
    }

    /// `rb_add_augmented_cached`: an equal key goes to the right. O(log n).
    pub(super) fn insert(&mut self, entry: Entry) {
        let mut fields = self.augmentation.of(&entry);
        if self.augmentation.longest == Longest::Kept {
            fields.longest = self.left_with.remove(&entry.entity.0).unwrap_or(entry.slice);
        }
        let (mut parent, mut side, mut place) = (NONE, LEFT, self.root);
        while place != NONE {
            (parent, side) = (place, usize::from(!entry.key.before(self.nodes[place].entry.key)));
            place = self.nodes[place].children[side];
        }
        let node = Node { entry, fields, parent, children: [NONE; 2], red: true };
        let place = self.free.pop().unwrap_or(self.nodes.len());
        if place == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[place] = node;
        }
        if parent == NONE {
            self.root = place;
        } else {
            self.nodes[parent].children[side] = place;
        }
        self.propagate(parent, NONE);
        self.rebalance_after_insertion(place);
    }

    /// `rb_erase_augmented_cached`: the node in between takes the place of one with two children. O(log n).
    pub(super) fn remove(&mut self, key: Vruntime, sequence: u64) {
        let gone = self.find(key, sequence);
        let Some(&Node { entry, fields, parent, children: [left, right], red }) = self.nodes.get(gone) else { return };
        self.free.push(gone);
        if self.augmentation.longest == Longest::Kept {
            self.left_with.insert(entry.entity.0, fields.longest);
        }
        // What is above a missing black node, if one is missing.
        let missing;
        if left == NONE || right == NONE {
            let child = if left == NONE { right } else { left };
            self.replace(gone, child, parent);
            if let Some(child) = self.nodes.get_mut(child) {
                (child.parent, child.red) = (parent, red);
                missing = NONE;
            } else {
                missing = if red { NONE } else { parent };
            }
            self.propagate(parent, NONE);
        } else {
            let mut next = right;
            while self.nodes[next].children[LEFT] != NONE {
                next = self.nodes[next].children[LEFT];
            }
            let child = self.nodes[next].children[RIGHT];
            let mut above = self.nodes[next].parent;
            if next == right {
                above = next;
                self.take_over(gone, next);
            } else {
                self.nodes[above].children[LEFT] = child;
                self.nodes[next].children[RIGHT] = right;
                self.nodes[right].parent = next;
                self.take_over(gone, next);
                self.propagate(above, next);
            }
            self.nodes[next].children[LEFT] = left;
            self.nodes[left].parent = next;
            self.replace(gone, next, parent);
            let was_red = self.nodes[next].red;
            if let Some(child) = self.nodes.get_mut(child) {
                (child.parent, child.red) = (above, false);
                missing = NONE;
            } else {
                missing = if was_red { NONE } else { above };
            }
            (self.nodes[next].parent, self.nodes[next].red) = (parent, red);
            self.propagate(next, NONE);
        }
        if missing != NONE {
            self.rebalance_after_removal(missing);
        }
    }

    /// Gives a node another slice, and brings those above it up to date. O(log n).
    pub(super) fn set_slice(&mut self, key: Vruntime, sequence: u64, slice: u64) {
        let place = self.find(key, sequence);
        if let Some(node) = self.nodes.get_mut(place) {
            node.entry.slice = slice;
            self.propagate(place, NONE);
        }
    }

    fn find(&self, key: Vruntime, sequence: u64) -> usize {
        let mut place = self.root;
        while let Some(node) = self.nodes.get(place) {
            if node.entry.sequence == sequence {
                break;
            }
            place = node.children[usize::from(node.entry.before(key, sequence))];
        }
        place
    }

    /// `min_vruntime_update`: whether nothing changed.
    fn compute(&mut self, place: usize) -> bool {
        let Node { entry, fields: before, children, .. } = self.nodes[place];
        let mut fields = self.augmentation.of(&entry);
        for child in children.into_iter().filter_map(|child| self.nodes.get(child)) {
            fields.least = fields.least.min(child.fields.least);
            fields.shortest = fields.shortest.min(child.fields.shortest);
            fields.longest = fields.longest.max(child.fields.longest);
        }
        self.nodes[place].fields = fields;
        fields == before
    }

    /// Brings a node and those above it, up to `stop`, up to date; it ends at the first that does not change.
    fn propagate(&mut self, mut place: usize, stop: usize) {
        while place != stop && !self.compute(place) {
            place = self.nodes[place].parent;
        }
    }

    /// A node takes over the fields of the one whose place it takes.
    fn take_over(&mut self, old: usize, new: usize) {
        let fields = self.nodes[old].fields;
        if self.augmentation.moves_slices {
            self.nodes[new].fields = fields;
        } else {
            self.nodes[new].fields.least = fields.least;
        }
    }

    /// Below `parent` there is `new` where `old` was.
    fn replace(&mut self, old: usize, new: usize, parent: usize) {
        match self.nodes.get_mut(parent) {
            Some(parent) => parent.children[usize::from(parent.children[RIGHT] == old)] = new,
            None => self.root = new,
        }
    }

    /// The child on a side takes the place of its parent, which becomes its child on the other side: that child.
    fn rotate(&mut self, old: usize, side: usize) -> usize {
        let new = self.nodes[old].children[side];
        let (inner, parent) = (self.nodes[new].children[1 - side], self.nodes[old].parent);
        self.nodes[old].children[side] = inner;
        if let Some(inner) = self.nodes.get_mut(inner) {
            inner.parent = old;
        }
        self.nodes[new].children[1 - side] = old;
        self.nodes[new].parent = parent;
        self.nodes[old].parent = new;
        self.replace(old, new, parent);
        self.take_over(old, new);
        self.compute(old);
        new
    }

    fn is_red(&self, place: usize) -> bool {
        self.nodes.get(place).is_some_and(|node| node.red)
    }

    /// `__rb_insert_augmented`: no red node has a red child.
    fn rebalance_after_insertion(&mut self, mut place: usize) {
        loop {
            let parent = self.nodes[place].parent;
            if parent == NONE {
                self.nodes[place].red = false;
                return;
            }
            if !self.nodes[parent].red {
                return;
            }
            // A red parent is not the root.
            let above = self.nodes[parent].parent;
            let side = usize::from(self.nodes[above].children[RIGHT] == parent);
            let uncle = self.nodes[above].children[1 - side];
            if self.is_red(uncle) {
                (self.nodes[uncle].red, self.nodes[parent].red, self.nodes[above].red) = (false, false, true);
                place = above;
                continue;
            }
            if self.nodes[parent].children[1 - side] == place {
                self.rotate(parent, 1 - side);
            }
            let top = self.rotate(above, side);
            (self.nodes[top].red, self.nodes[above].red) = (false, true);
            return;
        }
    }

    /// `__rb_erase_color`: as many black nodes on each way down. One is missing below `parent`, where there is no node first.
    fn rebalance_after_removal(&mut self, mut parent: usize) {
        let mut place = NONE;
        while parent != NONE {
            let side = usize::from(self.nodes[parent].children[RIGHT] == place);
            let mut sibling = self.nodes[parent].children[1 - side];
            if self.nodes[sibling].red {
                self.rotate(parent, 1 - side);
                (self.nodes[sibling].red, self.nodes[parent].red) = (false, true);
                sibling = self.nodes[parent].children[1 - side];
            }
            if !self.is_red(self.nodes[sibling].children[1 - side]) {
                if !self.is_red(self.nodes[sibling].children[side]) {
                    self.nodes[sibling].red = true;
                    if self.nodes[parent].red {
                        self.nodes[parent].red = false;
                        return;
                    }
                    (place, parent) = (parent, self.nodes[parent].parent);
                    continue;
                }
                sibling = self.rotate(sibling, side);
            }
            let far = self.nodes[sibling].children[1 - side];
            self.nodes[far].red = false;
            let top = self.rotate(parent, 1 - side);
            (self.nodes[top].red, self.nodes[parent].red) = (self.nodes[parent].red, false);
            return;
        }
    }
}

#[cfg(test)]
mod tests;
