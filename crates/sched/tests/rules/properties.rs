//! What holds after any sequence of operations, on every kernel: sums, places, clocks and times.

use std::collections::BTreeSet;

use proptest::prelude::*;
use schedlab_model::{Attributes, CpuId, Policy, TaskId, TaskState, Time};
use schedlab_sched::{Class, EntityId, WakeKind};

use crate::lab::{Lab, MS, attributes, pinned, rules};

#[derive(Debug, Clone)]
enum Operation {
    Advance(u64),
    Tick(u32),
    Schedule(u32),
    Sleep(u32),
    Exit(u32),
    Yield(u32),
    Spawn(u32, Policy, i8),
    Fork(u32),
    Wake(usize, u32),
    Nice(usize, i8),
    /// Policy, nice level and, in milliseconds, the slice asked for.
    Change(usize, Policy, i8, Option<u64>),
    Pin(usize, u32),
    Move(usize, u32),
    Pull(u32),
}

use Operation::{Advance, Change, Exit, Fork, Move, Nice, Pin, Pull, Schedule, Sleep, Spawn, Tick, Wake, Yield};

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        8 => Just(Policy::Other),
        2 => Just(Policy::Batch),
        2 => Just(Policy::Idle),
        1 => (1u8..4).prop_map(Policy::Fifo),
        1 => (1u8..4).prop_map(Policy::Rr),
    ]
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let (cpu, task, nice) = (0u32..3, 0usize..24, -20i8..=19);
    let operation = prop_oneof![
        10 => (0u64..12 * MS).prop_map(Advance),
        8 => cpu.clone().prop_map(Tick),
        3 => cpu.clone().prop_map(Schedule),
        6 => cpu.clone().prop_map(Sleep),
        1 => cpu.clone().prop_map(Exit),
        2 => cpu.clone().prop_map(Yield),
        3 => (cpu.clone(), policies(), nice.clone()).prop_map(|(cpu, policy, nice)| Spawn(cpu, policy, nice)),
        3 => cpu.clone().prop_map(Fork),
        10 => (task.clone(), cpu.clone()).prop_map(|(task, waker)| Wake(task, waker)),
        2 => (task.clone(), nice.clone()).prop_map(|(task, nice)| Nice(task, nice)),
        2 => (task.clone(), policies(), nice, proptest::option::of(1u64..100))
            .prop_map(|(task, policy, nice, slice)| Change(task, policy, nice, slice)),
        1 => (task.clone(), cpu.clone()).prop_map(|(task, cpu)| Pin(task, cpu)),
        2 => (task, cpu.clone()).prop_map(|(task, cpu)| Move(task, cpu)),
        2 => cpu.prop_map(Pull),
    ];
    proptest::collection::vec(operation, 1..150)
}

const MOST_TASKS: usize = 24;

/// A lab beside plain books of where each task is and how long it ran.
struct World {
    lab: Lab,
    tasks: Vec<TaskId>,
    states: Vec<State>,
    /// CPU time of each task up to the last switch.
    ran: Vec<u64>,
    /// Since when each CPU's current task runs.
    since: Vec<u64>,
    min_vruntimes: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runnable,
    Asleep,
    Dead,
}

impl World {
    fn new(release: &str, hz: u32, knobs: &[(&str, &str)]) -> Self {
        let lab = Lab::with_rules(rules(release, hz, knobs), 3);
        let min_vruntimes = lab.cpus().map(|cpu| lab.queue(cpu).min_vruntime.0).collect();
        let since = lab.cpus().map(|_| lab.now).collect();
        Self { lab, tasks: Vec::new(), states: Vec::new(), ran: Vec::new(), since, min_vruntimes }
    }

    fn index(&self, task: TaskId) -> usize {
        task.index()
    }

    /// Has the CPU schedule, with its current task in `state`, and keeps the books.
    fn leave(&mut self, cpu: CpuId, state: TaskState) {
        let previous = self.lab.curr(cpu);
        let next = self.lab.leave(cpu, state);
        if previous != TaskId::IDLE {
            let index = self.index(previous);
            self.ran[index] += self.lab.now - self.since[cpu.index()];
            self.states[index] = match state {
                TaskState::Running => State::Runnable,
                TaskState::Dead => State::Dead,
                _ => State::Asleep,
            };
        }
        self.since[cpu.index()] = self.lab.now;
        assert_eq!(self.lab.curr(cpu), next);
    }

    fn added(&mut self, task: TaskId) {
        assert_eq!(task.index(), self.tasks.len());
        self.tasks.push(task);
        self.states.push(State::Runnable);
        self.ran.push(0);
    }

    fn running(&self, cpu: CpuId) -> Option<TaskId> {
        Some(self.lab.curr(cpu)).filter(|task| *task != TaskId::IDLE)
    }

    fn do_one(&mut self, operation: &Operation) {
        match *operation {
            Advance(nanoseconds) => self.lab.advance(nanoseconds),
            Tick(cpu) => {
                self.lab.tick_after(CpuId(cpu), 0);
            }
            Schedule(cpu) => self.leave(CpuId(cpu), TaskState::Running),
            Sleep(cpu) if self.running(CpuId(cpu)).is_some() => self.leave(CpuId(cpu), TaskState::Interruptible),
            Exit(cpu) if self.running(CpuId(cpu)).is_some() => self.leave(CpuId(cpu), TaskState::Dead),
            Yield(cpu) => {
                self.lab.sync(CpuId(cpu));
                self.lab.sched.sched_yield(CpuId(cpu));
                self.leave(CpuId(cpu), TaskState::Running);
            }
            Spawn(cpu, policy, nice) if self.tasks.len() < MOST_TASKS => {
                let task = self.lab.spawn_on(CpuId(cpu), policy, nice);
                self.added(task);
            }
            Fork(cpu) if self.tasks.len() < MOST_TASKS => {
                let Some(parent) = self.running(CpuId(cpu)) else { return };
                self.lab.sync(CpuId(cpu));
                let child = self.lab.sched.sched_fork(parent, false);
                let target = self.lab.place(child, CpuId(cpu), WakeKind::Fork);
                self.lab.sync(target);
                self.lab.sched.wake_up_new_task(child, target);
                self.added(child);
            }
            Wake(task, waker) => {
                let Some(task) = self.tasks.get(task).copied() else { return };
                let asleep = self.states[task.index()] == State::Asleep;
                if !asleep {
                    assert!(!self.lab.sched.try_to_wake_up(task, self.lab.sched.task_cpu(task)));
                    return;
                }
                self.lab.sync(self.lab.sched.task_cpu(task));
                let target = self.lab.place(task, CpuId(waker), WakeKind::Wakeup { sync: false });
                self.lab.wake_on(task, target);
                self.states[task.index()] = State::Runnable;
            }
            Nice(task, nice) => {
                let Some(task) = self.living(task) else { return };
                self.lab.sync(self.lab.sched.task_cpu(task));
                self.lab.sched.set_user_nice(task, nice);
            }
            Change(task, policy, nice, slice) => {
                let Some(task) = self.living(task) else { return };
                self.lab.sync(self.lab.sched.task_cpu(task));
                let slice = slice.map(Time::from_millis);
                self.lab.sched.sched_setattr(task, &Attributes { slice, ..attributes(policy, nice) });
            }
            Pin(task, other) => {
                let Some(task) = self.living(task) else { return };
                let cpu = self.lab.sched.task_cpu(task);
                self.lab.sync(cpu);
                let present = self.lab.sched.attributes(task);
                let affinity = pinned(&[cpu.0, other]).affinity;
                self.lab.sched.sched_setattr(task, &Attributes { affinity, ..present });
            }
            Move(task, to) => {
                let Some(task) = self.living(task) else { return };
                let (from, to) = (self.lab.sched.task_cpu(task), CpuId(to));
                let waits = self.states[task.index()] == State::Runnable && self.lab.curr(from) != task;
                if waits && from != to && self.lab.sched.task(task).may_run_on(to) {
                    self.lab.sync(from);
                    self.lab.sync(to);
                    self.lab.sched.move_queued_task(task, to);
                }
            }
            Pull(cpu) => {
                let to = CpuId(cpu);
                let Some(from) = self.lab.sched.newly_idle_balance(to) else { return };
                self.lab.sync(from);
                self.lab.sync(to);
                let pulled = self.lab.sched.pull_task(from, to);
                assert!(pulled.is_some_and(|task| self.lab.sched.task_cpu(task) == to));
            }
            _ => {}
        }
    }

    fn living(&self, task: usize) -> Option<TaskId> {
        self.tasks.get(task).copied().filter(|task| self.states[task.index()] != State::Dead)
    }

    /// A driver that reschedules as soon as it is asked to.
    fn obey(&mut self) {
        for cpu in self.lab.cpus() {
            if self.lab.sched.need_resched(cpu) {
                self.leave(cpu, TaskState::Running);
                assert!(!self.lab.sched.need_resched(cpu));
            }
        }
    }

    fn check(&mut self) {
        self.each_current_task_is_on_its_cpu();
        for cpu in self.lab.cpus() {
            self.queue_is_what_its_tasks_make_it(cpu);
            self.virtual_time_keeps_its_bounds(cpu);
        }
        self.time_is_conserved();
    }

    fn each_current_task_is_on_its_cpu(&self) {
        let current: Vec<TaskId> = self.lab.cpus().filter_map(|cpu| self.running(cpu)).collect();
        assert_eq!(current.iter().collect::<BTreeSet<_>>().len(), current.len(), "one task on two CPUs");
        for cpu in self.lab.cpus() {
            if let Some(task) = self.running(cpu) {
                assert_eq!(self.lab.sched.task_cpu(task), cpu);
                assert!(self.lab.entity(task).on_rq);
                assert_eq!(self.states[task.index()], State::Runnable);
            } else {
                // A task that waits on an idle CPU gets it at the pending reschedule.
                let waits = self.lab.sched.nr_running(cpu) > 0;
                assert!(!waits || self.lab.sched.need_resched(cpu), "{cpu:?} idles while tasks wait");
            }
            assert_eq!(
                self.lab.sched.idle_cpu(cpu),
                self.lab.sched.nr_running(cpu) == 0 && self.running(cpu).is_none()
            );
        }
    }

    fn queue_is_what_its_tasks_make_it(&self, cpu: CpuId) {
        let (sched, queue) = (&self.lab.sched, self.lab.queue(cpu));
        let on_queue = |task: &TaskId| sched.task_cpu(*task) == cpu && sched.entity(*task).on_rq;
        let queued: Vec<TaskId> = self.tasks.iter().copied().filter(on_queue).collect();
        for task in &self.tasks {
            let entity = sched.entity(*task);
            let asleep = self.states[task.index()] != State::Runnable;
            assert_eq!(entity.on_rq, !asleep || entity.sched_delayed, "{task:?}");
            assert!(!entity.sched_delayed || self.states[task.index()] == State::Asleep, "{task:?}");
        }
        let fair: Vec<TaskId> = queued.iter().copied().filter(|task| sched.task(*task).class == Class::Fair).collect();
        assert_eq!(sched.nr_running(cpu) as usize, queued.len());
        assert_eq!(queue.nr_running as usize, fair.len());
        assert_eq!(queue.h_nr_running as usize, fair.len());
        let idle = fair.iter().filter(|task| sched.task(**task).policy == Policy::Idle).count();
        assert_eq!(queue.idle_h_nr_running as usize, idle);
        assert_eq!(queue.load.scaled, fair.iter().map(|task| sched.entity(*task).weight).sum::<u64>());

        let current = self.running(cpu).filter(|task| sched.task(*task).class == Class::Fair);
        assert_eq!(queue.curr, current.map(|task| sched.task(task).se));
        let waiting: Vec<EntityId> = queue.timeline.iter().collect();
        let expected: BTreeSet<u32> =
            fair.iter().filter(|task| Some(**task) != current).map(|task| sched.task(*task).se.0).collect();
        assert_eq!(waiting.len(), queue.timeline.len());
        assert_eq!(waiting.len(), expected.len());
        assert_eq!(waiting.iter().map(|se| se.0).collect::<BTreeSet<_>>(), expected);

        let task_of =
            |se: &EntityId| self.tasks.iter().copied().find(|task| sched.task(*task).se == *se).expect("a task");
        let eevdf = sched.rules().eevdf;
        let key = |se: &EntityId| {
            let entity = sched.entity(task_of(se));
            if eevdf { entity.deadline } else { entity.vruntime }
        };
        assert!(waiting.windows(2).all(|pair| key(&pair[1]).since(key(&pair[0])) >= 0), "the timeline is in order");
        for buddy in [queue.next, queue.last, queue.skip].into_iter().flatten() {
            assert!(fair.contains(&task_of(&buddy)), "a buddy that is not on the queue");
        }
        if eevdf {
            // Σ weight and Σ (vruntime − zero) · weight of what waits, in unscaled weights; 7.2 takes all their bits.
            let shift = if sched.rules().full_weights { 0 } else { 10 };
            let terms = waiting.iter().map(|se| {
                let entity = sched.entity(task_of(se));
                let weight = (entity.load.scaled >> shift) as i64;
                (weight, entity.vruntime.since(queue.zero_vruntime).wrapping_mul(weight))
            });
            let sums = terms.fold((0i64, 0i64), |sums, term| (sums.0 + term.0, sums.1.wrapping_add(term.1)));
            assert_eq!((queue.avg_load, queue.avg_vruntime), sums);
        }
    }

    fn virtual_time_keeps_its_bounds(&mut self, cpu: CpuId) {
        let rules = self.lab.sched.rules();
        if rules.eevdf {
            return;
        }
        let queue = self.lab.queue(cpu);
        let now = queue.min_vruntime;
        let before = std::mem::replace(&mut self.min_vruntimes[cpu.index()], now.0);
        assert!(now.0.wrapping_sub(before) as i64 >= 0, "min_vruntime went back");
        // No entity is further behind min_vruntime than a latency, the most a sleeper is credited. (2.6.24 may move min_vruntime past a
        // task whose nice level changes, or past a child that was swapped with its parent.)
        if rules.relative_vruntime {
            let credit = rules.tunables.latency.max(rules.tunables.min_granularity).as_nanos();
            for se in queue.timeline.iter() {
                let entity = self.tasks.iter().map(|task| self.lab.entity(*task)).find(|entity| entity.task.0 == se.0);
                let behind = now.since(entity.expect("tasks and entities are numbered alike").vruntime);
                assert!(behind <= credit as i64, "{se:?} is {behind} ns behind, more than {credit}");
            }
        }
    }

    /// Every nanosecond that a CPU was not idle is charged to the one task that had it.
    fn time_is_conserved(&self) {
        let mut lab = self.lab.clone();
        let mut expected = self.ran.clone();
        for cpu in lab.cpus() {
            lab.sync(cpu);
            lab.sched.update_curr(cpu);
            if let Some(task) = self.running(cpu) {
                expected[task.index()] += lab.now - self.since[cpu.index()];
            }
        }
        let charged: Vec<u64> = self.tasks.iter().map(|task| lab.sched.sum_exec_runtime(*task)).collect();
        assert_eq!(charged, expected);
    }
}

fn settings() -> impl Strategy<Value = (&'static str, Vec<(&'static str, &'static str)>)> {
    let cfs = prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec![("latency", "20ms"), ("wakeup_granularity", "0ns")]),
        1 => Just(vec![("min_granularity", "50ms"), ("child_runs_first", "1")]),
        1 => Just(vec![("feature.START_DEBIT", "0"), ("feature.WAKEUP_PREEMPTION", "0")]),
    ];
    let buddies = prop_oneof![
        Just(vec![("feature.NEXT_BUDDY", "1"), ("min_granularity", "6ms")]),
        Just(vec![("feature.LAST_BUDDY", "0"), ("feature.GENTLE_FAIR_SLEEPERS", "0")]),
    ];
    let eevdf = prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec![("base_slice", "10ms"), ("feature.NEXT_BUDDY", "1")]),
        1 => Just(vec![("feature.RUN_TO_PARITY", "0"), ("feature.PLACE_LAG", "0")]),
        1 => Just(vec![("feature.DELAY_DEQUEUE", "0"), ("feature.PREEMPT_SHORT", "0")]),
        1 => Just(vec![("feature.DELAY_ZERO", "0"), ("feature.PLACE_REL_DEADLINE", "0")]),
    ];
    prop_oneof![
        3 => (prop_oneof![Just("2.6.24"), Just("5.10"), Just("6.1")], cfs),
        1 => (prop_oneof![Just("5.10"), Just("6.1")], buddies),
        3 => (prop_oneof![Just("6.12"), Just("6.18"), Just("7.2"), Just("7.3")], eevdf),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// With a driver that reschedules at once when asked to, or only when it pleases.
    #[test]
    fn the_books_balance_after_any_operations((release, knobs) in settings(), prompt: bool, operations in operations()) {
        let mut world = World::new(release, 250, &knobs);
        for operation in &operations {
            world.do_one(operation);
            world.check();
            if prompt {
                world.obey();
                world.check();
            }
        }
    }

    /// The same operations again come to the same state, to the last field.
    #[test]
    fn the_same_operations_come_to_the_same_state((release, knobs) in settings(), operations in operations()) {
        let run = || {
            let mut world = World::new(release, 1000, &knobs);
            for operation in &operations {
                world.do_one(operation);
                world.obey();
            }
            format!("{:?}", world.lab.sched)
        };
        prop_assert_eq!(run(), run());
    }
}
