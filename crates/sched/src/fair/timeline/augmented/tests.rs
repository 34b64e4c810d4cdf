//! The tree against its definition, and against values that were worked out or recorded.

use proptest::prelude::*;

use super::*;
use crate::entity::EntityId;

const LONGEST: [Longest; 3] = [Longest::Absent, Longest::Kept, Longest::Own];

fn entry(entity: u32, sequence: u64, deadline: u64, vruntime: u64, slice: u64) -> Entry {
    Entry { key: Vruntime(deadline), sequence, vruntime: Vruntime(vruntime), slice, entity: EntityId(entity) }
}

/// A tree with entities 0, 1, 2 … that came in this order, each with its deadline, which is its `vruntime` too, and slice.
fn tree_of(augmentation: Augmentation, entities: &[(u64, u64)]) -> AugmentedTree {
    let mut tree = AugmentedTree::new(augmentation);
    for (number, (deadline, slice)) in (0..).zip(entities) {
        tree.insert(entry(number, u64::from(number), *deadline, *deadline, *slice));
    }
    tree
}

impl AugmentedTree {
    /// Checks what is below a node: the entries in order, the number of black nodes on each way down, and the fields by their definition.
    fn check(&self, place: usize, above: usize, order: &mut Vec<u64>) -> (u32, Option<Fields>) {
        let Some(node) = self.nodes.get(place) else { return (0, None) };
        assert_eq!(node.parent, above);
        assert!(!node.red || self.nodes.get(above).is_some_and(|above| !above.red), "a red node has a black parent");
        let (left_black, left) = self.check(node.children[LEFT], place, order);
        order.push(node.entry.sequence);
        let (right_black, right) = self.check(node.children[RIGHT], place, order);
        assert_eq!(left_black, right_black, "as many black nodes on each way down");
        let own = self.augmentation.of(&node.entry);
        let exact = [left, right].into_iter().flatten().fold(own, |exact, below| Fields {
            least: exact.least.min(below.least),
            shortest: exact.shortest.min(below.shortest),
            longest: exact.longest.max(below.longest),
        });
        assert_eq!(node.fields.least, exact.least, "the least virtual time always moves with a place");
        if self.augmentation.is_exact() {
            assert_eq!(node.fields, exact);
        }
        (left_black + u32::from(!node.red), Some(exact))
    }
}

proptest! {
    /// Any kernel's is a red-black tree in the order of keys, then arrivals; after both fixes each field is what its definition says.
    #[test]
    fn it_is_a_red_black_tree(
        base: u64,
        (moves_slices, longest) in (any::<bool>(), prop::sample::select(&LONGEST[..])),
        steps in prop::collection::vec((0u32..3, 0u64..40, 1u64..9, any::<prop::sample::Index>()), 1..400),
    ) {
        let mut tree = AugmentedTree::new(Augmentation { moves_slices, longest });
        let mut model: Vec<(u64, u64, u64)> = Vec::new();
        for (sequence, (kind, key, slice, which)) in (0..).zip(steps) {
            let place = |key: u64| Vruntime(base.wrapping_add(key));
            if model.is_empty() || kind == 0 {
                let vruntime = place(key ^ 21);
                tree.insert(Entry { key: place(key), sequence, vruntime, slice, entity: EntityId(sequence as u32) });
                model.insert(model.partition_point(|(queued, _, _)| *queued <= key), (key, sequence, slice));
            } else if kind == 1 {
                let (key, sequence, _) = model.remove(which.index(model.len()));
                tree.remove(place(key), sequence);
                tree.remove(place(key), sequence);
            } else {
                let queued = which.get_mut(&mut model);
                queued.2 = slice;
                tree.set_slice(place(queued.0), queued.1, slice);
            }
            let mut order = Vec::new();
            tree.check(tree.root, NONE, &mut order);
            prop_assert_eq!(order, model.iter().map(|(_, sequence, _)| *sequence).collect::<Vec<_>>());
            if tree.augmentation.is_exact() {
                prop_assert_eq!(tree.shortest(), model.iter().map(|(_, _, slice)| *slice).min());
                let longest = model.iter().map(|(_, _, slice)| *slice).max();
                prop_assert_eq!(tree.longest(), longest.filter(|_| tree.augmentation.longest == Longest::Own));
            }
        }
    }

    /// Where all slices are equal the root says so whatever its shape, on any kernel: no tree is needed there.
    #[test]
    fn equal_slices_need_no_tree(
        steps in prop::collection::vec((any::<bool>(), 0u64..40, any::<prop::sample::Index>()), 1..400),
    ) {
        let before = Augmentation { moves_slices: false, longest: Longest::Kept };
        let (mut tree, mut queued) = (AugmentedTree::new(before), Vec::new());
        for (sequence, (comes, key, which)) in (0..).zip(steps) {
            if queued.is_empty() || comes {
                tree.insert(entry(sequence as u32, sequence, key, key, 3));
                queued.push((key, sequence));
            } else {
                let (key, sequence) = queued.swap_remove(which.index(queued.len()));
                tree.remove(Vruntime(key), sequence);
            }
            let slice = (!queued.is_empty()).then_some(3);
            prop_assert_eq!((tree.shortest(), tree.longest()), (slice, slice));
        }
    }
}

/// Three come in the order of their deadlines, each to the right of the one before. The third one's parent is red and it has no uncle, so the
/// second takes the first one's place: as its right child it had seen slices of 5 alone, and still says so though the first, now below it, has
/// another. Once the third, its child, leaves it is computed anew.
#[test]
fn a_rotation_leaves_a_slice_behind() {
    for (first, [shortest, longest]) in [(1, [1, 5]), (9, [5, 9])] {
        let [mut before, mut after] = [false, true].map(|moves_slices| {
            tree_of(Augmentation { moves_slices, longest: Longest::Own }, &[(10, first), (20, 5), (30, 5)])
        });
        assert_eq!((before.shortest(), before.longest()), (Some(5), Some(5)));
        assert_eq!((after.shortest(), after.longest()), (Some(shortest), Some(longest)));
        for tree in [&mut before, &mut after] {
            tree.remove(Vruntime(30), 2);
            assert_eq!((tree.shortest(), tree.longest()), (Some(shortest), Some(longest)));
        }
    }
}

/// The same three, of which the first has a slice of 1 and the root says 5. A fourth comes below the first, with a later virtual time and a slice of
/// 7. Without a longest slice the first one's fields stay as they are, and the walk ends there; with one it goes on to the root, which is
/// computed.
#[test]
fn a_walk_ends_at_a_node_that_does_not_change() {
    for (longest, shortest) in [(Longest::Absent, 5), (Longest::Own, 1)] {
        let mut tree = tree_of(Augmentation { moves_slices: false, longest }, &[(10, 1), (20, 5), (30, 5)]);
        tree.insert(entry(3, 3, 5, 15, 7));
        assert_eq!(tree.shortest(), Some(shortest));
    }
}

/// An arriving node is not computed before another one comes below it. Until 9a8bc9bb4c3f (7.3, 7.2.7, 6.18.53) its longest slice is the one
/// that it left with: entity 0 saw 9 below it as it left, and has a slice of 3.
#[test]
fn an_arriving_node_keeps_its_longest_slice() {
    for (longest, [at_first, computed]) in [(Longest::Kept, [9, 9]), (Longest::Own, [3, 4])] {
        let mut tree = tree_of(Augmentation { moves_slices: true, longest }, &[(10, 3), (20, 9)]);
        tree.remove(Vruntime(10), 0);
        tree.remove(Vruntime(20), 1);
        tree.insert(entry(0, 2, 15, 15, 3));
        assert_eq!((tree.shortest(), tree.longest()), (Some(3), Some(at_first)));
        // With another one below it, which left with 9 and has 4 now, it is computed.
        tree.insert(entry(1, 3, 25, 25, 4));
        assert_eq!(tree.longest(), Some(computed));
    }
}

/// A task that comes to wait, with its deadline and virtual time, or is picked: then for how long it is protected, in nanoseconds.
type Step = (usize, Option<(u64, u64)>, u64);

/// Five tasks of a recording of 6.18.15, each with a slice of its own (ns), as they came to wait (`Some` deadline and virtual time) and were
/// picked. With a shorter slice waiting than its own a task is protected for that one (`set_protect_slice`), and the recording shows until
/// when: the last task, for its own 2.324 ms, though one with 0.313 ms waits. The picks before it saw the slice that waits, or have the
/// shortest one themselves.
#[test]
fn a_recorded_kernel_misses_the_shortest_slice() {
    const SLICES: [u64; 5] = [313_000, 5_073_000, 2_324_000, 4_809_000, 2_840_000];
    const STEPS: [Step; 24] = [
        (4, Some((421_752_679, 418_912_679)), 0),
        (0, Some((419_225_679, 418_912_679)), 0),
        (1, Some((421_821_764, 416_748_764)), 0),
        (2, Some((420_515_374, 418_191_374)), 0),
        (3, Some((423_000_374, 418_191_374)), 0),
        (2, None, 313_000),
        (2, Some((420_515_374, 419_306_638)), 0),
        (1, None, 313_000),
        (1, Some((421_821_764, 418_882_236)), 0),
        (3, None, 313_000),
        (3, Some((423_000_374, 419_358_606)), 0),
        (0, None, 313_000),
        (0, Some((420_102_319, 420_086_823)), 0),
        (2, None, 313_000),
        (2, Some((422_874_958, 420_550_958)), 0),
        (4, None, 313_000),
        (4, Some((421_752_679, 420_083_847)), 0),
        (1, None, 313_000),
        (1, Some((421_821_764, 421_103_292)), 0),
        (0, None, 313_000),
        (0, Some((421_221_327, 421_197_671)), 0),
        (4, None, 313_000),
        (4, Some((421_752_679, 421_206_535)), 0),
        (2, None, 2_324_000),
    ];
    let mut tree = AugmentedTree::new(Augmentation { moves_slices: false, longest: Longest::Absent });
    let mut queued = [(0, 0); 5];
    for (sequence, (task, comes, protected)) in (0..).zip(&STEPS) {
        let slice = SLICES[*task];
        if let Some((deadline, vruntime)) = *comes {
            tree.insert(entry(*task as u32, sequence, deadline, vruntime, slice));
            queued[*task] = (deadline, sequence);
        } else {
            let (deadline, sequence) = queued[*task];
            tree.remove(Vruntime(deadline), sequence);
            assert_eq!(tree.shortest().unwrap().min(slice), *protected, "{task} at {sequence}");
        }
    }
}
