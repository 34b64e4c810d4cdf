//! Shares of tasks in trees of groups: whatever the weights and however the groups are nested, each gets its part of its parent's part.

use proptest::prelude::*;
use schedlab_model::{Policy, TaskId};
use schedlab_sched::{GroupId, shares_of_cgroup_weight, weight_of_nice};

use crate::groups::group;
use crate::lab::{CPU0, Lab, MS};

/// A tree in the making: which earlier group (0 is the root) a group stands below, and its `cpu.weight`; where a task is, and its nice level.
type Tree = (Vec<(usize, u64)>, Vec<(usize, i8)>);

fn trees() -> impl Strategy<Value = Tree> {
    let groups = proptest::collection::vec((0usize..6, 30u64..400), 1..5);
    let tasks = proptest::collection::vec((0usize..6, -4i8..5), 2..8);
    (groups, tasks)
}

/// Each task's part of the CPU, from the top down: a group's or task's weight over that of all its siblings that hold a task.
fn expected(groups: &[(usize, u64)], tasks: &[(usize, i8)], weight: impl Fn(i8) -> u64) -> Vec<f64> {
    // Group n + 1 stands below groups[n].0, which is one made before.
    let holds = |group: usize| {
        tasks.iter().any(|(home, _)| {
            let mut at = *home;
            while at != group && at != 0 {
                at = groups[at - 1].0;
            }
            at == group
        })
    };
    let total = |parent: usize| {
        let below = (1..=groups.len()).filter(|one| groups[one - 1].0 == parent && holds(*one));
        let groups: u64 = below.map(|one| shares_of_cgroup_weight(groups[one - 1].1)).sum();
        groups + tasks.iter().filter(|(home, _)| *home == parent).map(|(_, nice)| weight(*nice)).sum::<u64>()
    };
    let part = |home: usize, own: u64| {
        let mut part = own as f64 / total(home) as f64;
        let mut at = home;
        while at != 0 {
            let (parent, weight) = groups[at - 1];
            part *= shares_of_cgroup_weight(weight) as f64 / total(parent) as f64;
            at = parent;
        }
        part
    };
    tasks.iter().map(|(home, nice)| part(*home, weight(*nice))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Over 60 s at 1000 Hz within 1 % of the CPU, and of what it should be within 5 %: a task with a hundredth of the CPU has turns of
    /// some ms, up to four times as long as it has to wait for its siblings, so 60 s are a hundred turns and more.
    #[test]
    fn each_gets_its_part_of_its_parent_s_part(
        release in proptest::sample::select(vec!["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"]),
        (groups, tasks) in trees(),
    ) {
        let mut lab = Lab::with_rules(crate::lab::rules(release, 1000, &[]), 1);
        let groups: Vec<(usize, u64)> =
            groups.into_iter().enumerate().map(|(number, (parent, weight))| (parent % (number + 1), weight)).collect();
        let tasks: Vec<(usize, i8)> = tasks.into_iter().map(|(home, nice)| (home % (groups.len() + 1), nice)).collect();
        let mut ids = vec![GroupId::ROOT];
        for (parent, weight) in &groups {
            let made = group(&mut lab, ids[*parent], *weight);
            ids.push(made);
        }
        let made: Vec<TaskId> = tasks
            .iter()
            .map(|(home, nice)| {
                let task = lab.spawn(Policy::Other, *nice);
                lab.sched.sched_move_task(task, ids[*home]);
                task
            })
            .collect();
        lab.schedule(CPU0);
        let window = 60_000;
        for _ in 0..window {
            if lab.tick_after(CPU0, MS) {
                lab.schedule(CPU0);
            }
        }
        let rules = *lab.sched.rules();
        let expected = expected(&groups, &tasks, |nice| weight_of_nice(&rules, Policy::Other, nice).scaled >> 10);
        for (task, part) in made.iter().zip(&expected) {
            let found = lab.sched.sum_exec_runtime(*task) as f64 / (window * MS) as f64;
            prop_assert!((found - part).abs() < 0.01, "{found} instead of {part}");
            prop_assert!(*part < 0.01 || (found / part - 1.0).abs() < 0.05, "{found} instead of {part}");
        }
    }
}
