//! Load tracking as the rules use it (`update_load_avg`): bit for bit what a reference gives that follows what each task and queue
//! was doing, and close to the real-valued sums that it stands for. Source: `kernel/sched/pelt.c`, `Documentation/scheduler/sched-pelt.c`.

use proptest::prelude::*;
use schedlab_model::{Policy, TaskId};
use schedlab_sched::pelt::SchedAvg;
use schedlab_sched::{CfsRq, GroupId};

use crate::groups::{group, member};
use crate::lab::{CPU0, CPU1, Lab, MS, attributes};
use crate::pelt_reference::{Doing, Reference};

/// The tasks, groups and root queue of CPU 0 whose averages are followed.
struct Followed {
    tasks: Vec<(TaskId, Reference)>,
    root: Reference,
    groups: Vec<(GroupId, Reference, Reference)>,
    /// How many runnable tasks each group's entity stands for: it is updated as a task comes or goes below it (`se_update_runnable`),
    /// not as a delayed dequeue begins or ends. And whether the number is not known, as the order of the tasks that left is not.
    told: Vec<(u32, bool)>,
}

/// Where a task is in a step.
#[derive(Debug, Clone, Copy)]
struct State {
    task: TaskId,
    depth: usize,
    queued: bool,
    delayed: bool,
}

/// By how much the number of runnable tasks that a queue counted until now differs from what it was before the step: `set_delayed` and
/// `clear_delayed` change it on the queues above a task's own without bringing these up to date, so that it counts for the time since
/// they last were. `requeue_delayed_entity` of 7.3 brings the root's queue up to date, and not the task's own. None where tasks leave within a
/// pick: then it depends on their order, which does not show.
fn change_of_delayed(
    depth: usize,
    actor: Option<TaskId>,
    before: &[State],
    after: &[State],
    single_timeline: bool,
) -> Option<i64> {
    // Only a task of this depth or below is on the queue's account.
    let below = |state: &&(&State, &State)| state.0.depth >= depth && (state.0.queued || state.1.queued);
    let states: Vec<(&State, &State)> = before.iter().zip(after).collect();
    // A task that goes to sleep may have been dequeued within the same pick as delayed tasks.
    let left = |(old, new): &&(&State, &State)| (old.delayed || Some(old.task) == actor && old.queued) && !new.queued;
    if states.iter().filter(below).any(|state| left(&state)) {
        return None;
    }
    let moved = states.iter().filter(below).find(|(old, new)| Some(old.task) == actor && old.queued && new.queued);
    let count = moved.filter(|(old, new)| {
        let requeued = single_timeline && old.delayed && !new.delayed;
        if requeued { depth > 0 } else { old.depth > depth }
    });
    Some(count.map_or(0, |(old, new)| i64::from(old.delayed) - i64::from(new.delayed)))
}

fn of_queue(queue: &CfsRq) -> Doing {
    Doing {
        load: queue.load.scaled >> 10,
        runnable: u64::from(queue.h_nr_runnable()),
        running: queue.level_curr().is_some(),
    }
}

fn of_task(lab: &Lab, task: TaskId) -> Doing {
    let entity = lab.entity(task);
    Doing {
        load: u64::from(entity.on_rq),
        runnable: u64::from(entity.on_rq && !entity.sched_delayed),
        running: lab.curr(CPU0) == task,
    }
}

fn of_group(lab: &Lab, group: GroupId, told: u32) -> Doing {
    let entity = lab.sched.group_entity(group, CPU0).expect("a group with tasks");
    let queue = lab.sched.group_queue(group, CPU0).expect("a group with tasks");
    // A group's entity runs while one of its tasks does.
    let runnable = if entity.sched_delayed { 0 } else { u64::from(told) };
    Doing { load: u64::from(entity.on_rq), runnable, running: queue.level_curr().is_some() }
}

impl Followed {
    fn new(lab: &Lab, tasks: &[TaskId], groups: &[GroupId]) -> Self {
        let weight = |task: TaskId| lab.entity(task).weight >> 10;
        let task = |task: &TaskId| (*task, Reference::from(lab.sched.load_of(*task).expect("kept"), weight(*task)));
        let group = |group: &GroupId| {
            let (entity, queue) = lab.sched.load_of_group(*group, CPU0).expect("kept");
            let weight = lab.sched.group_entity(*group, CPU0).expect("with tasks").weight >> 10;
            (*group, Reference::from(entity, weight), Reference::from(queue, 1))
        };
        let told = |group: &GroupId| lab.sched.group_queue(*group, CPU0).expect("with tasks").h_nr_runnable();
        let told = |group: &GroupId| (told(group), false);
        Self {
            told: groups.iter().map(told).collect(),
            tasks: tasks.iter().map(task).collect(),
            root: Reference::from(lab.sched.load_of_cpu(CPU0).expect("kept"), 1),
            groups: groups.iter().map(group).collect(),
        }
    }

    /// Does something to the task `actor` and follows: each task, group or queue whose averages moved spent the time until now in its
    /// previous state.
    fn step(&mut self, lab: &mut Lab, actor: Option<TaskId>, act: impl FnOnce(&mut Lab)) -> Result<(), TestCaseError> {
        let tasks: Vec<Doing> = self.tasks.iter().map(|(task, _)| of_task(lab, *task)).collect();
        let entities: Vec<Doing> =
            self.groups.iter().zip(&self.told).map(|((group, ..), (told, _))| of_group(lab, *group, *told)).collect();
        let queues: Vec<Doing> = (0..=self.groups.len()).map(|depth| of_queue(self.queue(lab, depth))).collect();
        let (weights, queued, states) = (self.group_weights(lab), self.queued(lab), self.states(lab));
        act(lab);
        let (now, tasks_here) = (lab.now, self.tasks.len() as u64);
        let single_timeline = lab.sched.rules().single_timeline;
        let states_after = self.states(lab);
        for ((task, reference), doing) in self.tasks.iter_mut().zip(tasks) {
            reference.follow(now, lab.sched.load_of(*task).expect("kept"), &[doing]);
        }
        for (((group, entity, _), doing), (_, unsure)) in self.groups.iter_mut().zip(entities).zip(&self.told) {
            // What it was told within a pick in which tasks left depends on their order. Since 7.3 a delayed task is counted off its group a
            // second time as it leaves, until `clear_delayed` at the end (`dequeue_hierarchy`): of a group that has no other runnable task
            // the entity is told -1, as an unsigned int.
            let told = if *unsure { 0..=tasks_here } else { doing.runnable..=doing.runnable };
            let less_than_none = (*unsure && single_timeline).then(|| u64::from(u32::MAX));
            let doings: Vec<Doing> = told.chain(less_than_none).map(|runnable| Doing { runnable, ..doing }).collect();
            entity.follow(now, lab.sched.load_of_group(*group, CPU0).expect("kept").0, &doings);
        }
        for (depth, doing) in queues.iter().enumerate() {
            let counts = change_of_delayed(depth, actor, &states, &states_after, single_timeline);
            let counts = counts.map_or(0..=tasks_here, |count| {
                let count = doing.runnable.wrapping_add_signed(count);
                count..=count
            });
            let doings: Vec<Doing> = counts.map(|runnable| Doing { runnable, ..*doing }).collect();
            match depth.checked_sub(1) {
                Some(group) => {
                    let average = lab.sched.load_of_group(self.groups[group].0, CPU0).expect("kept").1;
                    self.groups[group].2.follow(now, average, &doings);
                }
                None => self.root.follow(now, lab.sched.load_of_cpu(CPU0).expect("kept"), &doings),
            }
        }
        self.change_weights(&weights, &self.group_weights(lab));
        for (number, (before, after)) in queued.into_iter().zip(self.queued(lab)).enumerate() {
            if before != after {
                let unsure = states.iter().zip(&states_after).any(|(old, new)| old.queued && !new.queued);
                let unsure = unsure || before.1 != after.1;
                self.told[number] = (self.queue(lab, number + 1).h_nr_runnable(), unsure);
            }
        }
        self.check(lab, queues[0].load)
    }

    /// The queue so many groups below the root's, which are one below the other.
    fn queue<'lab>(&self, lab: &'lab Lab, depth: usize) -> &'lab CfsRq {
        match depth.checked_sub(1) {
            Some(group) => lab.sched.group_queue(self.groups[group].0, CPU0).expect("kept"),
            None => lab.queue(CPU0),
        }
    }

    /// Of each task: itself, how many groups above it, whether it is queued, whether it is delayed.
    fn states(&self, lab: &Lab) -> Vec<State> {
        let depth = |task| {
            let home = lab.sched.group_of(task);
            self.groups.iter().position(|(group, ..)| *group == home).map_or(0, |place| place + 1)
        };
        let state = |task: TaskId| {
            let entity = lab.entity(task);
            State { task, depth: depth(task), queued: entity.on_rq, delayed: entity.on_rq && entity.sched_delayed }
        };
        self.tasks.iter().map(|(task, _)| state(*task)).collect()
    }

    /// Which tasks, and which groups, are on the queues of each group and of those below it.
    fn queued(&self, lab: &Lab) -> Vec<(Vec<TaskId>, Vec<bool>)> {
        let groups: Vec<GroupId> = self.groups.iter().map(|(group, ..)| *group).collect();
        let below = |number: usize| {
            let queued = self.tasks.iter().map(|(task, _)| *task).filter(|task| lab.entity(*task).on_rq);
            let tasks = queued.filter(|task| groups[number..].contains(&lab.sched.group_of(*task))).collect();
            let on_rq = |group: &GroupId| lab.sched.group_entity(*group, CPU0).expect("with tasks").on_rq;
            (tasks, groups[number..].iter().map(on_rq).collect())
        };
        (0..groups.len()).map(below).collect()
    }

    /// `se_weight` of each group's entity.
    fn group_weights(&self, lab: &Lab) -> Vec<f64> {
        let weight = |group| lab.sched.group_entity(group, CPU0).expect("with tasks").weight >> 10;
        self.groups.iter().map(|(group, ..)| weight(*group).max(2) as f64).collect()
    }

    /// `reweight_entity` takes an entity's load off its queue at the old weight and adds it at the new one, its past included. CFS gives
    /// MIN_SHARES to the entity of an empty group whose load has decayed to 0 (`calc_group_shares`).
    fn change_weights(&mut self, before: &[f64], after: &[f64]) {
        for number in 0..self.groups.len() {
            let change = (after[number] - before[number]) * self.groups[number].1.real[0];
            // The groups are one below the other.
            let queue = if number == 0 { &mut self.root } else { &mut self.groups[number - 1].2 };
            queue.real[0] += change;
            queue.reweighted += change;
        }
    }

    fn check(&mut self, lab: &Lab, root_load: u64) -> Result<(), TestCaseError> {
        let reweights = !self.groups.is_empty() && !lab.sched.rules().eevdf;
        let check = |who: &str, reference: &mut Reference, average: SchedAvg, most| {
            if reweights && who != "a task" {
                reference.reweighted(average);
            }
            reference.check(who, average, most)
        };
        for (task, reference) in &mut self.tasks {
            check("a task", reference, lab.sched.load_of(*task).expect("kept"), [1.0; 3])?;
        }
        let count = self.tasks.len() as f64;
        let heavy: u64 = self.tasks.iter().map(|(_, reference)| reference.weight).sum();
        let most = [heavy.max(root_load) as f64, count, 1.0];
        for (group, entity, queue) in &mut self.groups {
            let (one, other) = lab.sched.load_of_group(*group, CPU0).expect("kept");
            check("a group's entity", entity, one, [1.0, count, 1.0])?;
            check("a group's queue", queue, other, most)?;
        }
        check("the root queue", &mut self.root, lab.sched.load_of_cpu(CPU0).expect("kept"), most)?;
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Act {
    Pass(u64),
    Tick,
    Sleep,
    Wake(usize),
    Schedule,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1u64..6_000_000).prop_map(Act::Pass),
        1 => (1u64..400_000_000).prop_map(Act::Pass),
        4 => Just(Act::Tick),
        3 => Just(Act::Sleep),
        3 => (0usize..8).prop_map(Act::Wake),
        1 => Just(Act::Schedule),
    ];
    proptest::collection::vec(act, 1..120)
}

fn live(lab: &mut Lab, followed: &mut Followed, acts: Vec<Act>) -> Result<(), TestCaseError> {
    let tasks: Vec<TaskId> = followed.tasks.iter().map(|(task, _)| *task).collect();
    let mut asleep: Vec<TaskId> = Vec::new();
    for act in acts {
        match act {
            Act::Pass(nanoseconds) => lab.advance(nanoseconds),
            Act::Tick => {
                followed.step(lab, None, |lab| {
                    lab.tick_after(CPU0, 0);
                })?;
                // entity_tick: the current task and its queue are up to date with each tick, to the unit of 1024 ns.
                if lab.curr(CPU0) != TaskId::IDLE {
                    let average = lab.sched.load_of(lab.curr(CPU0)).expect("kept");
                    prop_assert!(lab.now - average.last_update_time < 1024);
                    let root = lab.sched.load_of_cpu(CPU0).expect("kept");
                    prop_assert!(lab.now - root.last_update_time < 1024);
                }
            }
            Act::Sleep if lab.curr(CPU0) != TaskId::IDLE => {
                let task = lab.curr(CPU0);
                asleep.push(task);
                followed.step(lab, Some(task), |lab| {
                    lab.sleep(CPU0);
                })?;
            }
            Act::Wake(which) if tasks.get(which).is_some_and(|task| asleep.contains(task)) => {
                asleep.retain(|task| *task != tasks[which]);
                followed.step(lab, Some(tasks[which]), |lab| {
                    lab.wake(tasks[which]);
                })?;
            }
            Act::Schedule => followed.step(lab, None, |lab| {
                lab.schedule(CPU0);
            })?,
            _ => {}
        }
        if lab.sched.need_resched(CPU0) {
            followed.step(lab, None, |lab| {
                lab.schedule(CPU0);
            })?;
        }
    }
    Ok(())
}

fn lab_of(release: &str) -> Lab {
    let mut lab = Lab::new(release, &[]);
    lab.sched.track_load();
    lab
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Tasks of any weight that run, wait and sleep on one queue.
    #[test]
    fn tasks_and_their_queue_equal_the_reference(
        release in proptest::sample::select(vec!["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"]),
        nices in proptest::collection::vec(-20i8..20, 1..6),
        acts in acts(),
    ) {
        let mut lab = lab_of(release);
        let tasks: Vec<TaskId> = nices.iter().map(|nice| lab.spawn(Policy::Other, *nice)).collect();
        lab.schedule(CPU0);
        let mut followed = Followed::new(&lab, &tasks, &[]);
        live(&mut lab, &mut followed, acts)?;
    }

    /// Two groups, one below the other, with tasks in both and beside them: the groups' entities and queues as well.
    #[test]
    fn groups_and_their_queues_equal_the_reference(
        release in proptest::sample::select(vec!["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"]),
        weights in (20u64..500, 20u64..500),
        places in proptest::collection::vec(0usize..3, 1..6),
        acts in acts(),
    ) {
        let mut lab = lab_of(release);
        let outer = group(&mut lab, GroupId::ROOT, weights.0);
        let inner = group(&mut lab, outer, weights.1);
        let homes = [GroupId::ROOT, outer, inner];
        // One in the innermost, so that both have a queue.
        let mut tasks = vec![member(&mut lab, inner)];
        tasks.extend(places.iter().map(|place| member(&mut lab, homes[*place])));
        lab.schedule(CPU0);
        // What came with the tasks reaches the groups above first, as each is taken out and put back.
        for task in &tasks {
            lab.sched.sched_move_task(*task, lab.sched.group_of(*task));
        }
        lab.schedule(CPU0);
        let mut followed = Followed::new(&lab, &tasks, &[outer, inner]);
        live(&mut lab, &mut followed, acts)?;
    }
}

/// A first task comes to an empty queue with load_avg its weight (`init_entity_runnable_average`) and util_avg half of all there is,
/// 1024 / 2 (`post_init_entity_util_avg`); attaching makes sums of them, times the divider 47742 − 1024 + 0.
#[test]
fn a_new_task_s_load_joins_its_queue() {
    let mut lab = lab_of("6.1");
    let task = lab.task();
    let (own, queue) = (lab.sched.load_of(task).expect("kept"), lab.sched.load_of_cpu(CPU0).expect("kept"));
    assert_eq!((own.load_avg, own.util_avg, own.runnable_avg), (1024, 512, 512));
    // The queue counts since time 0, when 1 s had passed: 10⁹ / 1024 = 976562 µs, 978 places into a period; but an empty queue's
    // update leaves that place too. 47742 − 1024 + 690 (976562 mod 1024).
    let divider = u64::from(own.divider());
    assert_eq!(divider, 47_742 - 1024 + 976_562 % 1024);
    // load_sum is without the weight: 1024 · divider / 1024.
    assert_eq!((own.load_sum, u64::from(own.util_sum), own.runnable_sum), (divider, 512 * divider, 512 * divider));
    assert_eq!((queue.load_avg, queue.util_avg, queue.runnable_avg), (1024, 512, 512));
    assert_eq!((queue.load_sum, u64::from(queue.util_sum)), (1024 * divider, 512 * divider));
    // The second one: a quarter of the rest, (1024 − 512) / 2 = 256, is less than in proportion to its weight: 512 · 1024 · 1024 / 1025.
    let second = lab.task();
    assert_eq!(lab.sched.load_of(second).expect("kept").util_avg, 256);
    // A light one: 512 + 256 = 768 used by 2048 of weight: 768 · (15 · 1024) / 2049 = 5757; capped at (1024 − 768) / 2 = 128.
    let light = lab.spawn(Policy::Other, 19);
    assert_eq!(lab.sched.load_of(light).expect("kept").util_avg, 128);
}

/// What a task has goes to its group's queue, the group's entity and the root queue when it moves (`propagate_entity_cfs_rq`), and
/// leaves the queue that it was on.
#[test]
fn a_moved_task_takes_its_load_along() {
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let mut lab = lab_of(release);
        let home = group(&mut lab, GroupId::ROOT, 100);
        let task = lab.task();
        lab.schedule(CPU0);
        assert_eq!(lab.sched.load_of_cpu(CPU0).expect("kept").util_avg, 512);
        lab.sched.sched_move_task(task, home);
        let (entity, queue) = lab.sched.load_of_group(home, CPU0).expect("kept");
        assert_eq!((queue.load_avg, queue.util_avg, queue.runnable_avg), (1024, 512, 512), "{release}");
        assert_eq!((entity.util_avg, entity.runnable_avg), (512, 512), "{release}");
        // The group weighs 1024, and so its load is what its task's is, a unit of truncation aside.
        assert!(entity.load_avg.abs_diff(1024) <= 1, "{release}: {entity:?}");
        let root = lab.sched.load_of_cpu(CPU0).expect("kept");
        assert_eq!((root.util_avg, root.runnable_avg), (512, 512), "{release}");
        // And back.
        lab.sched.sched_move_task(task, GroupId::ROOT);
        let (entity, queue) = lab.sched.load_of_group(home, CPU0).expect("kept");
        assert_eq!((queue.load_avg, queue.util_avg, queue.runnable_avg), (0, 0, 0), "{release}");
        assert_eq!((entity.load_avg, entity.util_avg, entity.runnable_avg), (0, 0, 0), "{release}");
        assert_eq!(lab.sched.load_of_cpu(CPU0).expect("kept").util_avg, 512, "{release}");
    }
}

/// A sleeper that wakes on another CPU is taken off the old queue's account when that is next updated (`removed`), not before, and is on
/// the new one's at once.
#[test]
fn a_migrated_sleeper_s_load_follows_it() {
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let mut lab = Lab::with_cpus(release, 2, &[]);
        lab.sched.track_load();
        let (stays, goes) = (lab.task(), lab.task());
        lab.schedule(CPU0);
        let (here, there) = if lab.curr(CPU0) == goes { (goes, stays) } else { (stays, goes) };
        lab.sleep(CPU0);
        let before = lab.sched.load_of_cpu(CPU0).expect("kept");
        assert_eq!(before.load_avg, 2048, "{release}");
        lab.wake_on(here, CPU1);
        assert_eq!(lab.sched.load_of_cpu(CPU0).expect("kept").load_avg, 2048, "{release}: not looked at yet");
        assert_eq!(lab.sched.load_of_cpu(CPU1).expect("kept").load_avg, 1024, "{release}");
        lab.tick_after(CPU0, 1024 * 1024);
        assert_eq!(lab.curr(CPU0), there);
        // A period on: the one that stayed has all of its 1024.
        let after = lab.sched.load_of_cpu(CPU0).expect("kept").load_avg;
        assert!(after.abs_diff(1024) <= 1, "{release}: {after}");
    }
}

/// A new weight changes the load at once, and only its average: of nice 5 it is 335/1024 (`reweight_entity`).
#[test]
fn a_new_weight_scales_the_load() {
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let mut lab = lab_of(release);
        let task = lab.task();
        lab.schedule(CPU0);
        let before = lab.sched.load_of(task).expect("kept");
        lab.sched.set_user_nice(task, 5);
        let after = lab.sched.load_of(task).expect("kept");
        assert_eq!((after.load_sum, after.util_avg), (before.load_sum, before.util_avg), "{release}");
        assert_eq!(after.load_avg, 335, "{release}");
        assert_eq!(lab.sched.load_of_cpu(CPU0).expect("kept").load_avg, 335, "{release}");
    }
}

/// While a group is throttled its clock stands still: nothing decays in it (`throttled_clock_pelt`), and goes on where it was.
#[test]
fn a_throttled_group_s_averages_stand_still() {
    for release in ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"] {
        let mut lab = lab_of(release);
        let limited = group(&mut lab, GroupId::ROOT, 100);
        let time = schedlab_model::Time::from_millis;
        lab.sched.set_group_bandwidth(limited, Some(time(5)), time(1000), time(0)).expect("in range");
        let task = member(&mut lab, limited);
        lab.schedule(CPU0);
        assert!(lab.tick_after(CPU0, 6 * MS), "{release}: used up");
        lab.schedule(CPU0);
        assert!(lab.sched.is_throttled(task), "{release}");
        let before = lab.sched.load_of(task).expect("kept");
        lab.advance(500 * MS);
        lab.sync(CPU0);
        // Looked at: a new nice level brings it up to date first.
        lab.sched.sched_setattr(task, &attributes(Policy::Other, 1));
        let after = lab.sched.load_of(task).expect("kept");
        assert_eq!((before.util_avg, before.util_sum), (after.util_avg, after.util_sum), "{release}");
    }
}
