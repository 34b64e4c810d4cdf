//! Load averages of a sleeper that moves between a group and the root, changes its weight, and leaves the fair class for a while: every
//! sum equal to the last bit to a reference that follows the source of each release (`kernel/sched/fair.c`: `attach_entity_load_avg`,
//! `detach_entity_load_avg`, `update_tg_cfs_util`, `update_tg_cfs_runnable`, `update_tg_cfs_load`, `reweight_entity`).

use proptest::prelude::*;
use schedlab_model::{Policy, TaskId};
use schedlab_sched::GroupId;
use schedlab_sched::pelt::SchedAvg;

use crate::groups::{group, member};
use crate::lab::{CPU0, Lab, MS, attributes};
use crate::pelt_reference::{Doing, Reference};

const LEAST: u128 = 47_742 - 1024;
const NOTHING: Doing = Doing { load: 0, runnable: 0, running: false };
const LOAD: usize = 0;
const RUNNABLE: usize = 1;
const UTIL: usize = 2;

#[derive(Debug, Clone)]
enum Act {
    Pass(u64),
    Move,
    Nice(i8),
    SwitchClass,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (1u64..40_000_000).prop_map(Act::Pass),
        3 => Just(Act::Move),
        2 => (-20i8..20).prop_map(Act::Nice),
        1 => Just(Act::SwitchClass),
    ];
    proptest::collection::vec(act, 1..60)
}

/// What a release makes of a sum.
#[derive(Debug, Clone, Copy)]
struct Release {
    anew: bool,
    whole: bool,
}

impl Release {
    /// `max_t(u32, …)` looks at 32 bits; 7.2 at the sum's own, of which utilisation alone has 32.
    fn floor(self, kind: usize, sum: u128, average: u64) -> u128 {
        let bits = if self.whole && kind != UTIL { 64 } else { 32 };
        let cut = |value: u128| value & ((1 << bits) - 1);
        cut(sum).max(cut(u128::from(average) * LEAST))
    }

    /// An average and a sum less some, 0 at least.
    fn less(self, to: &mut Reference, kind: usize, average: u64, sum: u128) {
        to.averages[kind] = to.averages[kind].saturating_sub(average);
        to.sums[kind] = to.sums[kind].saturating_sub(sum);
    }

    fn detach(self, queue: &mut Reference, task: &Reference, weight: u64) {
        self.less(queue, LOAD, task.averages[LOAD], u128::from(weight) * task.sums[LOAD]);
        for kind in [RUNNABLE, UTIL] {
            self.less(queue, kind, task.averages[kind], task.sums[kind]);
        }
        for kind in [LOAD, RUNNABLE, UTIL] {
            match (self.anew, kind) {
                // 5.10 lets the load's sum be what is left.
                (true, LOAD) => {}
                (true, _) => queue.sums[kind] = u128::from(queue.averages[kind]) * divider(queue),
                (false, _) => queue.sums[kind] = self.floor(kind, queue.sums[kind], queue.averages[kind]),
            }
        }
    }

    fn attach(self, queue: &mut Reference, task: &mut Reference, weight: u64) {
        (task.at, task.place) = (queue.at, queue.place);
        task.sums = task.averages.map(|average| u128::from(average) * divider(queue));
        let load = task.sums[LOAD];
        task.sums[LOAD] = if u128::from(weight) < load { load / u128::from(weight) } else { 1 };
        for kind in [LOAD, RUNNABLE, UTIL] {
            queue.averages[kind] += task.averages[kind];
            queue.sums[kind] += task.sums[kind] * if kind == LOAD { u128::from(weight) } else { 1 };
        }
        self.lift(queue);
    }

    /// From 7.2 on what was added is looked at too (`enqueue_load_avg` by `__update_sa`).
    fn lift(self, queue: &mut Reference) {
        if self.whole {
            queue.sums[LOAD] = self.floor(LOAD, queue.sums[LOAD], queue.averages[LOAD]);
        }
    }

    /// The group's entity takes over what changed on the group's queue, which weighs nothing as its one task sleeps; and the queue that
    /// the entity is on follows.
    fn propagate(self, above: &mut Reference, entity: &mut Reference, below: &Reference, change: i128, weight: u64) {
        let divider = divider(above);
        for kind in [UTIL, RUNNABLE] {
            let delta = i128::from(below.averages[kind]) - i128::from(entity.averages[kind]);
            if delta == 0 {
                continue;
            }
            let sum = u128::from(below.averages[kind]) * divider;
            let delta_sum = sum as i128 - entity.sums[kind] as i128;
            (entity.averages[kind], entity.sums[kind]) = (below.averages[kind], sum);
            self.follow(above, kind, delta, delta_sum);
        }
        if change == 0 {
            return;
        }
        let most = if change > 0 { (change as u128 + entity.sums[LOAD]).min(divider) } else { 0 };
        let sum = most.max(entity.sums[UTIL] >> 10);
        let average = (u128::from(weight) * sum / divider) as u64;
        let delta = i128::from(average) - i128::from(entity.averages[LOAD]);
        if delta == 0 && !self.anew {
            return;
        }
        let delta_sum = i128::from(weight) * (sum as i128 - entity.sums[LOAD] as i128);
        (entity.averages[LOAD], entity.sums[LOAD]) = (average, sum);
        self.follow(above, LOAD, delta, delta_sum);
    }

    fn follow(self, queue: &mut Reference, kind: usize, delta: i128, delta_sum: i128) {
        queue.averages[kind] = (i128::from(queue.averages[kind]) + delta).max(0) as u64;
        let sum = (queue.sums[kind] as i128 + delta_sum).max(0) as u128;
        let anew = u128::from(queue.averages[kind]) * divider(queue);
        queue.sums[kind] = if self.anew { anew } else { self.floor(kind, sum, queue.averages[kind]) };
    }
}

/// The greatest sum possible where the average stands.
fn divider(average: &Reference) -> u128 {
    LEAST + u128::from(average.place)
}

/// The sleeper, the group, its entity, the root queue, on which a task runs all the time.
struct Model {
    release: Release,
    task: Reference,
    below: Reference,
    entity: Reference,
    root: Reference,
    weight: u64,
    inside: bool,
    fair: bool,
    busy: Doing,
}

impl Model {
    fn leave(&mut self, now: u64) {
        self.task.update(now, NOTHING);
        if self.inside {
            self.below.update(now, NOTHING);
            self.release.detach(&mut self.below, &self.task, self.weight);
            self.propagate(now, -(self.task.sums[LOAD] as i128));
        } else {
            self.root.update(now, self.busy);
            self.release.detach(&mut self.root, &self.task, self.weight);
        }
    }

    fn come(&mut self, now: u64) {
        if self.inside {
            self.below.update(now, NOTHING);
            self.release.attach(&mut self.below, &mut self.task, self.weight);
            self.propagate(now, self.task.sums[LOAD] as i128);
        } else {
            self.root.update(now, self.busy);
            self.release.attach(&mut self.root, &mut self.task, self.weight);
        }
    }

    fn propagate(&mut self, now: u64, change: i128) {
        self.entity.update(now, NOTHING);
        self.root.update(now, self.busy);
        let weight = self.entity.weight;
        self.release.propagate(&mut self.root, &mut self.entity, &self.below, change, weight);
    }

    fn reweight(&mut self, weight: u64) {
        let queue = if self.inside { &mut self.below } else { &mut self.root };
        self.release.less(queue, LOAD, self.task.averages[LOAD], u128::from(self.weight) * self.task.sums[LOAD]);
        if !self.release.anew {
            queue.sums[LOAD] = self.release.floor(LOAD, queue.sums[LOAD], queue.averages[LOAD]);
        }
        let average = u128::from(weight) * self.task.sums[LOAD] / divider(&self.task);
        self.task.averages[LOAD] = average as u64;
        queue.averages[LOAD] += self.task.averages[LOAD];
        queue.sums[LOAD] += u128::from(weight) * self.task.sums[LOAD];
        self.release.lift(queue);
        (self.weight, self.task.weight) = (weight, weight);
    }

    fn check(&self, lab: &Lab, task: TaskId, home: GroupId) -> Result<(), TestCaseError> {
        let (entity, below) = lab.sched.load_of_group(home, CPU0).expect("kept");
        let root = lab.sched.load_of_cpu(CPU0).expect("kept");
        let own = lab.sched.load_of(task).expect("kept");
        let pairs = [
            ("task", own, self.task),
            ("group", below, self.below),
            ("entity", entity, self.entity),
            ("root", root, self.root),
        ];
        for (who, ours, model) in pairs {
            prop_assert_eq!(sums(ours), model.sums, "{}", who);
            prop_assert_eq!([ours.load_avg, ours.runnable_avg, ours.util_avg], model.averages, "{}", who);
        }
        Ok(())
    }
}

fn sums(average: SchedAvg) -> [u128; 3] {
    [average.load_sum, average.runnable_sum, u64::from(average.util_sum)].map(u128::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_moves_is_added_and_taken_as_the_release_does(
        release in proptest::sample::select(vec!["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"]),
        ran in 1u64..60,
        acts in acts(),
    ) {
        let eevdf = !(release.starts_with('5') || release == "6.1");
        // Without delayed dequeue, so that a sleeper is not queued.
        let mut lab = Lab::new(release, if eevdf { &[("feature.DELAY_DEQUEUE", "0")] } else { &[] });
        lab.sched.track_load();
        let home = group(&mut lab, GroupId::ROOT, 100);
        let task = member(&mut lab, home);
        lab.schedule(CPU0);
        (0..ran).for_each(|_| { lab.tick_after(CPU0, MS / 2 + ran * 1000); });
        lab.sleep(CPU0);
        let busy = lab.spawn(Policy::Other, 3);
        lab.schedule(CPU0);
        prop_assert_eq!(lab.curr(CPU0), busy);
        // Out and in again, so that nothing is under way upwards.
        lab.sched.sched_move_task(task, GroupId::ROOT);
        lab.sched.sched_move_task(task, home);
        let (entity, below) = lab.sched.load_of_group(home, CPU0).expect("kept");
        let weight = |entity: &schedlab_sched::Entity| entity.weight >> 10;
        let (own, group_weight) = (weight(lab.entity(task)), weight(lab.sched.group_entity(home, CPU0).expect("made")));
        let mut model = Model {
            release: Release { anew: release == "5.10", whole: release.starts_with("7.") },
            task: Reference::from(lab.sched.load_of(task).expect("kept"), own),
            below: Reference::from(below, 1),
            entity: Reference::from(entity, group_weight),
            root: Reference::from(lab.sched.load_of_cpu(CPU0).expect("kept"), 1),
            weight: own,
            inside: true,
            fair: true,
            busy: Doing { load: weight(lab.entity(busy)), runnable: 1, running: true },
        };
        for act in acts {
            lab.sync(CPU0);
            match act {
                Act::Pass(nanoseconds) => lab.advance(nanoseconds),
                Act::Move if model.fair => {
                    lab.sched.sched_move_task(task, if model.inside { GroupId::ROOT } else { home });
                    model.leave(lab.now);
                    model.inside = !model.inside;
                    model.come(lab.now);
                }
                // The same again changes nothing (`__sched_setscheduler`).
                Act::Nice(nice) if model.fair && nice != lab.sched.attributes(task).nice => {
                    lab.sched.sched_setattr(task, &attributes(Policy::Other, nice));
                    model.reweight(weight(lab.entity(task)));
                }
                Act::SwitchClass if model.fair => {
                    let nice = lab.sched.attributes(task).nice;
                    lab.sched.sched_setattr(task, &attributes(Policy::Fifo(1), nice));
                    // set_load_weight comes while it is still a fair one: the same weight, the averages anew.
                    // 7.3 leaves a weight that stays.
                    if release != "7.3" {
                        model.reweight(model.weight);
                    }
                    model.leave(lab.now);
                    model.fair = false;
                }
                Act::SwitchClass => {
                    let nice = lab.sched.attributes(task).nice;
                    lab.sched.sched_setattr(task, &attributes(Policy::Other, nice));
                    // It aged meanwhile.
                    model.task.update(lab.now, NOTHING);
                    model.come(lab.now);
                    model.fair = true;
                }
                Act::Move | Act::Nice(_) => {}
            }
            model.check(&lab, task, home)?;
        }
    }
}
