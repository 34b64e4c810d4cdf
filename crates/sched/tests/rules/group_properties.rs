//! Random operations on groups: counts stay those of the tasks, time is charged once, and no task is lost.

use proptest::prelude::*;
use schedlab_model::{CpuId, Policy, TaskId, TaskState, Time};
use schedlab_sched::{GroupId, WakeKind};

use crate::lab::{Lab, MS, attributes};

#[derive(Debug, Clone)]
enum Act {
    Spawn(usize, i8, bool),
    Fork(usize),
    Sleep(usize),
    Exit(usize),
    Wake(usize),
    Move(usize, usize),
    Pull(usize),
    Weight(usize, u64),
    Idle(usize, bool),
    Limit(usize, Option<u64>),
    Nice(usize, i8),
    Realtime(usize, bool),
    Yield(usize),
    Pass(u64),
}

const CPUS: u32 = 2;
const GROUPS: usize = 5;

fn act() -> impl Strategy<Value = Act> {
    let which = 0usize..64;
    prop_oneof![
        2 => (which.clone(), -10i8..10, any::<bool>()).prop_map(|(at, nice, idle)| Act::Spawn(at, nice, idle)),
        1 => which.clone().prop_map(Act::Fork),
        3 => which.clone().prop_map(Act::Sleep),
        1 => which.clone().prop_map(Act::Exit),
        3 => which.clone().prop_map(Act::Wake),
        3 => (which.clone(), which.clone()).prop_map(|(task, group)| Act::Move(task, group)),
        1 => which.clone().prop_map(Act::Pull),
        1 => (which.clone(), 1u64..10_000).prop_map(|(group, weight)| Act::Weight(group, weight)),
        1 => (which.clone(), any::<bool>()).prop_map(|(group, idle)| Act::Idle(group, idle)),
        1 => (which.clone(), proptest::option::of(1u64..40)).prop_map(|(group, quota)| Act::Limit(group, quota)),
        1 => (which.clone(), -20i8..20).prop_map(|(task, nice)| Act::Nice(task, nice)),
        1 => (which.clone(), any::<bool>()).prop_map(|(task, realtime)| Act::Realtime(task, realtime)),
        1 => which.prop_map(Act::Yield),
        8 => (1u64..9_000).prop_map(Act::Pass),
    ]
}

struct World {
    lab: Lab,
    groups: Vec<GroupId>,
    tasks: Vec<TaskId>,
    asleep: Vec<TaskId>,
    busy: u64,
}

impl World {
    fn sync(&mut self) {
        self.lab.cpus().for_each(|cpu| self.lab.sync(cpu));
    }

    fn settle(&mut self) {
        for cpu in self.lab.cpus() {
            if self.lab.must_switch(cpu) {
                self.lab.schedule(cpu);
            }
        }
    }

    fn act(&mut self, act: Act) {
        self.sync();
        let cpu = |at: usize| CpuId(at as u32 % CPUS);
        match act {
            Act::Spawn(at, nice, idle) if self.tasks.len() < 24 => {
                let policy = if idle { Policy::Idle } else { Policy::Other };
                let task = self.lab.spawn_on(cpu(at), policy, nice);
                self.tasks.push(task);
            }
            Act::Fork(at) if self.tasks.len() < 24 => {
                let parent = self.lab.curr(cpu(at));
                if parent != TaskId::IDLE {
                    let child = self.lab.sched.sched_fork(parent, false);
                    let target = self.lab.sched.select_task_rq(child, cpu(at), WakeKind::Fork);
                    self.lab.sched.wake_up_new_task(child, target);
                    self.tasks.push(child);
                }
            }
            Act::Sleep(at) => {
                let task = self.lab.curr(cpu(at));
                if task != TaskId::IDLE {
                    self.lab.leave(cpu(at), TaskState::Interruptible);
                    self.asleep.push(task);
                }
            }
            Act::Exit(at) => {
                let task = self.lab.curr(cpu(at));
                if task != TaskId::IDLE {
                    self.lab.sched.sched_move_task(task, GroupId::ROOT);
                    self.lab.leave(cpu(at), TaskState::Dead);
                    self.tasks.retain(|one| *one != task);
                }
            }
            Act::Wake(which) if !self.asleep.is_empty() => {
                let task = self.asleep.remove(which % self.asleep.len());
                let target = self.lab.sched.select_task_rq(task, CpuId(0), WakeKind::Wakeup { sync: false });
                assert!(self.lab.sched.try_to_wake_up(task, target));
            }
            Act::Move(which, group) if !self.tasks.is_empty() => {
                let task = self.tasks[which % self.tasks.len()];
                self.lab.sched.sched_move_task(task, self.groups[group % GROUPS]);
            }
            Act::Pull(at) => {
                let to = cpu(at);
                if let Some(from) = self.lab.sched.newly_idle_balance(to) {
                    self.lab.sched.pull_task(from, to);
                }
            }
            // Refusals (the root, an idle group, a release without) leave all as it is.
            Act::Weight(group, weight) => drop(self.lab.sched.set_group_weight(self.groups[group % GROUPS], weight)),
            Act::Idle(group, idle) => drop(self.lab.sched.set_group_idle(self.groups[group % GROUPS], idle)),
            Act::Limit(group, quota) => {
                let (quota, period) = (quota.map(Time::from_millis), Time::from_millis(40));
                drop(self.lab.sched.set_group_bandwidth(self.groups[group % GROUPS], quota, period, Time::ZERO));
            }
            Act::Nice(which, nice) if !self.tasks.is_empty() => {
                self.lab.sched.set_user_nice(self.tasks[which % self.tasks.len()], nice);
            }
            Act::Realtime(which, realtime) if !self.tasks.is_empty() => {
                let policy = if realtime { Policy::Fifo(10) } else { Policy::Other };
                self.lab.sched.sched_setattr(self.tasks[which % self.tasks.len()], &attributes(policy, 0));
            }
            Act::Yield(at) if self.lab.curr(cpu(at)) != TaskId::IDLE => {
                self.lab.yields(cpu(at));
            }
            Act::Pass(microseconds) => self.pass(microseconds),
            _ => {}
        }
        self.sync();
        self.settle();
    }

    fn pass(&mut self, microseconds: u64) {
        self.settle();
        let running = self.lab.cpus().filter(|cpu| self.lab.curr(*cpu) != TaskId::IDLE).count() as u64;
        self.busy += running * microseconds * 1_000;
        self.lab.advance(microseconds * 1_000);
        self.sync();
        while let Some(timer) = self.lab.sched.bandwidth_timer().filter(|timer| timer.at.as_nanos() <= self.lab.now) {
            assert!(timer.at.as_nanos() + 200 * MS > self.lab.now, "a timer stands still");
            self.lab.sched.run_bandwidth_timer(timer);
        }
        self.lab.cpus().for_each(|cpu| self.lab.sched.sched_tick(cpu));
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let sched = &self.lab.sched;
        for cpu in self.lab.cpus() {
            let root = sched.cfs_rq(cpu);
            let on = |task: &&TaskId| sched.task_cpu(**task) == cpu && sched.entity(**task).on_rq;
            let throttled = |task: &&TaskId| sched.is_throttled(**task);
            let queued = self.tasks.iter().filter(on).filter(|task| !throttled(task)).count() as u32;
            prop_assert_eq!(sched.nr_running(cpu), queued, "nr_running of {:?}", cpu);
            let fair = |task: &&TaskId| !sched.task(**task).policy.is_realtime();
            let fair = self.tasks.iter().filter(on).filter(|task| !throttled(task)).filter(fair).count() as u32;
            prop_assert_eq!(root.h_nr_running, fair, "h_nr_running of {:?}", cpu);
            prop_assert!(queued == 0 || sched.curr(cpu) != TaskId::IDLE || self.all_delayed(cpu), "{:?} idles", cpu);
        }
        if let Some(timer) = sched.bandwidth_timer() {
            prop_assert!(timer.at.as_nanos() > self.lab.now, "a timer is late");
        }
        Ok(())
    }

    /// Whether all tasks queued on the CPU are delayed.
    fn all_delayed(&self, cpu: CpuId) -> bool {
        let sched = &self.lab.sched;
        let here = self.tasks.iter().filter(|task| sched.task_cpu(**task) == cpu && sched.entity(**task).on_rq);
        here.filter(|task| !sched.is_throttled(**task)).all(|task| sched.entity(*task).sched_delayed)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_books_of_groups_balance(
        release in proptest::sample::select(vec!["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"]),
        acts in proptest::collection::vec(act(), 1..250),
    ) {
        let mut lab = Lab::with_cpus(release, CPUS, &[]);
        let mut groups = vec![GroupId::ROOT];
        for parent in [0, 0, 2, 3] {
            let parent = groups[parent];
            groups.push(lab.sched.create_group(parent).expect("a release with groups"));
        }
        let mut world = World { lab, groups, tasks: Vec::new(), asleep: Vec::new(), busy: 0 };
        let mut charged = 0;
        let mut made = 0;
        for act in acts {
            world.act(act);
            world.check()?;
            made = made.max(world.tasks.last().map_or(0, |task| task.0 + 1));
        }
        world.sync();
        world.lab.cpus().for_each(|cpu| world.lab.sched.update_curr(cpu));
        for task in 0..made {
            charged += world.lab.sched.sum_exec_runtime(TaskId(task));
        }
        prop_assert_eq!(charged, world.busy, "every nanosecond of a busy CPU is one task's");
    }
}
