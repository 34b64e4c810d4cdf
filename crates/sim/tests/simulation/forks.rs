//! Children of real-time parents that reset on fork.

use crate::common;

use common::*;
use schedlab_model::{Attributes, Machine, Step};

#[test]
fn an_ordinary_child_of_a_real_time_parent_is_placed_in_debt() {
    // On CFS the first child, alone on the queue, is placed a latency (6 ms) after it, the second half of that, as two are there then:
    // the one made last comes first. A child that is not placed would stand at the queue's time, and the first one come first.
    let ordinary = |name: &str| task(name, 0, Attributes::default(), vec![Step::Run(milliseconds(1))]);
    let fork = |name: &str| Step::Fork { task: name.into(), count: 1 };
    let parent = task("parent", 1, fifo(50), vec![fork("first"), fork("second"), Step::Join]);
    let all = workload(vec![parent, ordinary("first"), ordinary("second")]);
    let (_, events) = run(&all, "5.10", &Machine::ideal(1));
    let order: Vec<u32> =
        switches(&events).into_iter().map(|(_, _, next)| next).filter(|next| [1, 2].contains(next)).collect();
    assert_eq!(order[0], 2, "{order:?}");
}

#[test]
fn an_ordinary_child_of_a_real_time_parent_runs_where_it_may() {
    // The parent has the first of two CPUs for 5 ms. Its child of 1 ms waits for that if it may run there alone, even if its parent may run
    // anywhere; and it has the other one if it may run anywhere, even if its parent may not.
    for (parent_may, child_may, at) in [(vec![], vec![0], (5_000, 0)), (vec![0], vec![], (0, 1))] {
        let attributes = Attributes { affinity: child_may, ..Attributes::default() };
        let child = task("child", 0, attributes, vec![Step::Run(milliseconds(1))]);
        let fork = Step::Fork { task: "child".into(), count: 1 };
        let parent = Attributes { affinity: parent_may, ..fifo(50) };
        let parent = task("parent", 1, parent, vec![fork, Step::Run(milliseconds(5)), Step::Join]);
        let (_, events) = run(&workload(vec![parent, child]), "6.1", &Machine::ideal(2));
        let comes = switches(&events).into_iter().find(|(_, _, next)| *next == 1);
        assert_eq!(comes.map(|(time, cpu, _)| (time, cpu)), Some(at));
    }
}
