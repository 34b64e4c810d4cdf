//! What must hold of groups whatever their number, nesting, weights and limits.

use crate::common;

use std::collections::BTreeMap;

use common::{milliseconds, run_with, scheduler, task, workload};
use proptest::prelude::*;
use schedlab_model::{Attributes, Event, EventKind, Group, GroupMax, Machine, Outcome, Step, Task, Time, Workload};
use schedlab_sim::Options;

const RELEASES: [&str; 6] = ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

/// Some groups of some hogs each that never sleep; every group is either above others or has hogs.
#[derive(Debug, Clone)]
struct Tree {
    weight: u64,
    below: Vec<Tree>,
    hogs: u32,
}

fn tree() -> impl Strategy<Value = Tree> {
    let weight = || 20u64..=500;
    let leaf = (weight(), 1u32..4).prop_map(|(weight, hogs)| Tree { weight, below: vec![], hogs });
    leaf.prop_recursive(2, 9, 3, move |inner| {
        let below = prop::collection::vec(inner, 1..4);
        (weight(), below).prop_map(|(weight, below)| Tree { weight, below, hogs: 0 })
    })
}

impl Tree {
    /// Adds the group and those below it, with the part of the CPU that each should get.
    fn add(&self, path: String, part: f64, workload: &mut Workload, parts: &mut Vec<(String, f64)>) {
        let group = Group { weight: Some(self.weight), ..Group::default() };
        workload.groups.insert(path.clone(), group);
        if self.hogs > 0 {
            // Four groups of hogs or one, each works longer than the window of its share; 40 s of CPU time a group is enough.
            let steps = vec![Step::Run(milliseconds(40_000))];
            let name = path.replace('/', "-");
            workload
                .tasks
                .push(Task { taskgroup: Some(path.clone()), ..task(&name, self.hogs, Attributes::default(), steps) });
        }
        let all: u64 = self.below.iter().map(|tree| tree.weight).sum();
        for (number, tree) in self.below.iter().enumerate() {
            tree.add(format!("{path}/{number}"), part * tree.weight as f64 / all as f64, workload, parts);
        }
        parts.push((path, part));
    }
}

/// CPU time of each period, in turn, from the events of a run in which all tasks are in one group.
fn used(events: &[Event], outcome: &Outcome, period: u64) -> Vec<u64> {
    let mut used = vec![0; (outcome.elapsed_ns / period + 1) as usize];
    let mut since = vec![0u64; outcome.cpus as usize];
    for event in events {
        let EventKind::Switch { previous, .. } = event.kind else { continue };
        let now = event.time.as_nanos();
        let mut began = std::mem::replace(&mut since[event.cpu.index()], now);
        while previous.index() < outcome.tasks.len() && began < now {
            let end = now.min((began / period + 1) * period);
            used[(began / period) as usize] += end - began;
            began = end;
        }
    }
    used
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each group gets its weight's part of what the group above it gets, within 1 % of the CPU, over 40 s or more.
    #[test]
    fn shares_are_proportional_to_weights(trees in prop::collection::vec(tree(), 2..4), release in prop::sample::select(&RELEASES[..])) {
        let mut workload = workload(Vec::new());
        let mut parts = Vec::new();
        let all: u64 = trees.iter().map(|tree| tree.weight).sum();
        for (number, tree) in trees.iter().enumerate() {
            tree.add(format!("/{number}"), tree.weight as f64 / all as f64, &mut workload, &mut parts);
        }
        let (outcome, _) = run_with(&workload, &scheduler(release), &Machine::ideal(1), &Options::default())
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        for (path, part) in parts {
            let found = outcome.groups.iter().find(|group| group.name == path).expect("a group of the run").share;
            prop_assert!((found - part).abs() < 0.01, "{release}, {path}: {found} instead of {part}");
        }
    }

    /// By the end of its n-th period a group has used n quotas at most, and at most a tick more on each CPU, for it is charged at
    /// ticks; in no period more than quota and burst, the slices that CPUs had left, and those ticks.
    #[test]
    fn limits_are_kept(
        (quota, period, burst) in (1u64..60, 10u64..120, 0u64..60),
        (cpus, hogs, slice) in (1u32..5, 1u32..7, 1u64..8),
        (rest, work) in (1u64..30, 1u64..30),
        release in prop::sample::select(&RELEASES[1..]),
    ) {
        let times = [quota, period, burst.min(quota)].map(Time::from_millis);
        let group = Group { max: Some(GroupMax { quota: times[0], period: times[1], burst: times[2] }), ..Group::default() };
        let round = vec![Step::Run(milliseconds(work)), Step::Sleep(milliseconds(rest))];
        let naps = task("naps", 1, Attributes::default(), vec![Step::Loop { count: 20, steps: round }]);
        let hogs = task("hog", hogs, Attributes::default(), vec![Step::Run(milliseconds(400))]);
        let tasks = [naps, hogs].map(|task| Task { taskgroup: Some("/g".into()), ..task }).to_vec();
        let workload = Workload { groups: BTreeMap::from([("/g".to_owned(), group)]), ..workload(tasks) };
        let mut scheduler = scheduler(release);
        scheduler.set("cfs_bandwidth_slice", &format!("{slice}ms")).expect("a knob");
        let (outcome, events) = run_with(&workload, &scheduler, &Machine::ideal(cpus), &Options::default())
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let [quota, period, burst] = times.map(Time::as_nanos);
        let (ticks, slices) = (u64::from(cpus) * 4_000_000, u64::from(cpus) * slice * 1_000_000);
        let mut sum = 0;
        for (number, used) in (1u64..).zip(used(&events, &outcome, period)) {
            sum += used;
            prop_assert!(sum <= number * quota + ticks, "{sum} ns by the end of period {number}");
            prop_assert!(used <= quota + burst + slices + ticks, "{used} ns in period {number}");
        }
        prop_assert_eq!(sum, outcome.tasks.iter().map(|task| task.run_ns).sum::<u64>());
    }
}
