//! The short way of flat queues against the long one: random flat workloads run both ways, and everything that a run leaves behind is
//! compared.

use proptest::prelude::*;
use schedlab_model::{
    Attributes, Channel, ChannelKind, Costs, CpuId, Duration, Event, EventSink, Group, Machine, NoEvents, Scheduler,
    Series, Standing, Step, Task, TaskId, Time, Workload,
};
use schedlab_program::Program;
use schedlab_sched::GroupId;

use crate::arena::Arena;
use crate::engine::{Engine, STANDSTILL};
use crate::{Options, SimError};

/// A sink that keeps everything.
#[derive(Debug, Default, PartialEq)]
struct Everything {
    events: Vec<Event>,
    standings: Vec<Standing>,
}

impl EventSink for Everything {
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    fn standing(&mut self, standing: Standing) {
        self.standings.push(standing);
    }
}

/// What a run leaves behind, in words: its outcome, and each queue, entity and average as they stand at the end.
type Left = Result<(String, Vec<String>), SimError>;

fn run<S: EventSink + Default>(
    workload: &Workload,
    scheduler: &Scheduler,
    machine: &Machine,
    options: &Options<'_>,
) -> (Left, S) {
    let program = Program::compile(workload).unwrap();
    let (mut arena, mut sink) = (Arena::default(), S::default());
    let mut engine = Engine::new(&program, scheduler, machine, options, &mut arena, &mut sink).unwrap();
    let flat = engine.is_flat();
    let end = engine.run();
    let short = !options.no_tick_skip && machine.cpus > 1;
    assert_eq!(flat, short, "the short way is taken where it should be");
    let left = end.map(|()| {
        let sched = &engine.sched;
        let mut states = vec![];
        for task in (0..engine.arena.tasks.len() as u32).map(TaskId) {
            let (se, cpu) = (sched.entity(task), sched.task_cpu(task));
            let timed =
                (se.vruntime, se.exec_start, se.sum_exec_runtime, se.prev_sum_exec_runtime, se.deadline, se.vlag);
            let placed = (se.vprot, se.slice, se.cfs_rq, se.on_rq, se.sched_delayed, se.rel_deadline);
            let load = (sched.load_of(task), sched.util_est_of(task));
            let account = &engine.arena.tasks[task.index()].account;
            states.push(format!("task {task:?} on {cpu:?}: {timed:?} {placed:?} {load:?} {account:?}"));
        }
        for cpu in (0..machine.cpus).map(CpuId) {
            let queue = sched.cfs_rq(cpu);
            let counts = (queue.load.scaled, queue.nr_running, queue.h_nr_running, queue.h_nr_delayed);
            let virtual_time = (queue.min_vruntime, queue.zero_vruntime, queue.avg_vruntime, queue.avg_load);
            let who = (queue.curr, queue.next, queue.last, queue.skip, queue.timeline.iter().collect::<Vec<_>>());
            let slices = (queue.timeline.shortest_slice(), queue.timeline.longest_slice());
            let loads = (sched.load_of_cpu(cpu), sched.load_left_on_cpu(cpu), sched.util_est_of_cpu(cpu));
            let balance = (sched.domains(cpu), sched.balance_state(cpu), sched.fair_server_state(cpu));
            states.push(format!("{cpu:?}: {counts:?} {virtual_time:?} {who:?} {slices:?} {loads:?} {balance:?}"));
        }
        // The root group's queues and entities are those above.
        for group in (1..=program.groups().len() as u32).map(GroupId) {
            for cpu in (0..machine.cpus).map(CpuId) {
                let (mut entity, mut queue) =
                    (sched.group_entity(group, cpu).cloned(), sched.group_queue(group, cpu).cloned());
                // Found where it is first needed, and remembered: a division of the weight, which is compared.
                entity.iter_mut().for_each(|entity| entity.load.inverse = 0);
                queue.iter_mut().for_each(|queue| queue.load.inverse = 0);
                states.push(format!("{group:?} on {cpu:?}: {entity:?} {queue:?}"));
            }
        }
        states.push(format!("timer {:?}", sched.next_timer()));
        // The instant of the last operation, and how many there were at it.
        states.push(format!("counted {:?}", engine.counted));
        (format!("{:?}", engine.outcome(&Scheduler::new(Series::V6_1.newest_known()))), states)
    });
    drop(engine);
    (left, sink)
}

/// Times that often fall on the same instant as others, or on a tick, and times that never do, in microseconds.
fn times(longest: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => prop::sample::select(&[50u64, 100, 250, 500, 1000, 2000, 3000][..]),
        2 => 1..longest,
        1 => 1u64..100,
    ]
}

pub(crate) fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let nice = prop_oneof![3 => Just(0i8), 1 => -20i8..=19];
    let slice = prop::option::weighted(0.1, 100u64..20_000);
    let run = prop_oneof![3 => times(4_000), 1 => Just(400_000)];
    let sleep = prop::option::weighted(0.8, (times(30_000), any::<bool>()));
    let kind = (1u32..9, nice, slice, run, sleep, prop::option::of(1u64..6), 0u64..4);
    prop::collection::vec(kind, 1..5).prop_map(|kinds| {
        let micros = |time| Duration::Fixed(Time::from_micros(time));
        let tasks = (0..).zip(kinds).map(|(number, (instances, nice, slice, run, sleep, count, delay))| {
            let attributes = Attributes { nice, slice: slice.map(Time::from_micros), ..Attributes::default() };
            let mut steps = vec![Step::Run(micros(run))];
            if let Some((sleep, drawn)) = sleep {
                let (low, high) = (Time::from_micros(sleep / 2), Time::from_micros(sleep));
                steps.push(Step::Sleep(if drawn { Duration::Uniform { low, high } } else { micros(sleep) }));
            }
            let steps = match count {
                Some(count) => vec![Step::Loop { count, steps }],
                None => vec![Step::Forever(steps)],
            };
            let (name, attributes) = (format!("kind{number}"), Some(attributes));
            Task { name, instances, attributes, steps, delay: Time::from_millis(3 * delay), ..Task::default() }
        });
        tasks.collect()
    })
}

fn machines() -> impl Strategy<Value = Machine> {
    let costs = prop_oneof![
        3 => Just(Costs::ideal()),
        1 => Just(Costs {
            switch: Time::from_nanos(1100),
            schedule: Time::from_nanos(450),
            put_prev: Time::from_nanos(120),
            cache_refill: Time::from_nanos(120),
            wakeup: Time::from_nanos(700),
            wakeup_preempt: Time::from_nanos(60),
            wakeup_select: Time::from_nanos(430),
            wakeup_remote: Time::from_nanos(900),
            wakeup_far: Time::from_nanos(640),
            schedule_far: Time::from_nanos(810),
            ipi: Time::from_nanos(700),
            ipi_idle: Time::from_nanos(1100),
            ipi_halted: Time::from_nanos(4100),
            steal: Time::from_micros(27),
            steal_period: Time::from_millis(1),
            ipi_taken: Time::from_nanos(400),
            idle_exit: Time::from_nanos(2500),
            halt_exit: Time::from_nanos(7300),
            halt_deeper: Time::from_nanos(2100),
            idle_charged: Time::from_nanos(1800),
            idle_switch: Time::from_nanos(800),
            tick_restart: Time::from_nanos(1300),
            tick: Time::from_nanos(1500),
            system_call: Time::from_nanos(90),
            migration: Time::from_nanos(600),
            balance: Time::from_nanos(20),
            newidle: Time::from_nanos(20_000),
            operation: Time::from_nanos(35),
            compute: Time::from_nanos(45),
            block: Time::from_nanos(800),
            sleep_timer: Time::from_nanos(1700),
            next_timer: Time::from_nanos(600),
            lingering: Time::from_nanos(150),
            interrupt: Time::from_nanos(380),
            timer_taken: Time::from_nanos(290),
            timer_switch: Time::from_nanos(170),
            ..Costs::ideal()
        }),
        1 => Just(Costs { balance: Time::from_nanos(50), ..Costs::ideal() }),
        1 => Just(Costs { wakeup_far: Time::from_nanos(640), ..Costs::ideal() }),
        1 => Just(Costs { wakeup_select: Time::from_nanos(430), ..Costs::ideal() }),
        1 => Just(Costs {
            pipe_far: Time::from_nanos(170),
            schedule_far: Time::from_nanos(810),
            wakeup_far: Time::from_nanos(640),
            ..Costs::ideal()
        }),
        1 => Just(Costs { sleep_timer: Time::from_micros(13), next_timer: Time::from_micros(5), ..Costs::ideal() }),
        1 => Just(Costs { idle_exit: Time::from_micros(10), ..Costs::ideal() }),
        1 => Just(Costs { ipi_halted: Time::from_micros(15), ..Costs::ideal() }),
        1 => Just(Costs { halt_deeper: Time::from_micros(7), ..Costs::ideal() }),
        1 => Just(Costs { halt_exit: Time::from_micros(20), ..Costs::ideal() }),
        1 => Just(Costs { steal: Time::from_micros(20), steal_period: Time::from_micros(300), ..Costs::ideal() }),
        1 => Just(Costs { timer_taken: Time::from_micros(12), ..Costs::ideal() }),
        1 => Just(Costs { tick_restart: Time::from_micros(10), ..Costs::ideal() }),
    ];
    // More CPUs than the event queue looks through one by one, too.
    let few = [(1u32, "smt=1"), (2, "smt=1"), (3, "smt=1"), (4, "smt=1"), (4, "smt=2"), (4, "llc=2")];
    let many = [(8, "llc=2,node=4"), (12, "smt=1"), (12, "llc=4")];
    let place = prop_oneof![3 => prop::sample::select(few.to_vec()), 2 => prop::sample::select(many.to_vec())];
    (costs, place).prop_map(|(costs, (cpus, topology))| Machine {
        topology: topology.parse().unwrap(),
        ..Machine::new(cpus, costs)
    })
}

/// Tasks that mostly compute, for long, with or without an end; now and then one sleeps, rarely and for long.
fn hogs() -> impl Strategy<Value = Vec<Task>> {
    let nice = prop_oneof![4 => Just(0i8), 1 => -20i8..=19];
    let run = prop_oneof![3 => Just(10_000_000), 2 => 1..400_000u64];
    let sleep = prop::option::weighted(0.2, 20_000..200_000u64);
    let kind = (1u32..24, nice, run, sleep, any::<bool>(), 0u64..4);
    prop::collection::vec(kind, 1..4).prop_map(|kinds| {
        let tasks = (0..).zip(kinds).map(|(number, (instances, nice, run, sleep, ends, delay))| {
            let attributes = Some(Attributes { nice, ..Attributes::default() });
            let micros = |time| Duration::Fixed(Time::from_micros(time));
            let mut steps = vec![Step::Run(micros(run))];
            steps.extend(sleep.map(|sleep| Step::Sleep(micros(sleep))));
            let steps = if ends { steps } else { vec![Step::Forever(steps)] };
            let delay = Time::from_millis(15 * delay);
            Task { name: format!("kind{number}"), instances, attributes, steps, delay, ..Task::default() }
        });
        tasks.collect()
    })
}

/// Channels of each workload, sockets and pipes.
const CHANNELS: u32 = 2;

/// Pairs of writers and readers of as many messages, of one size each: mostly some wait on the way. Another task computes and sleeps.
fn messages() -> impl Strategy<Value = Vec<Task>> {
    let bytes = prop_oneof![3 => 1u32..300, 1 => 300u32..9_000];
    let pair = (1u32..5, bytes, 0..CHANNELS, 1u64..80, prop::option::of(1u64..200), prop::option::of(1u64..200));
    prop::collection::vec(pair, 1..4).prop_map(|pairs| {
        let micros = |time| Duration::Fixed(Time::from_micros(time));
        let mut tasks = vec![];
        for (number, (instances, bytes, channel, count, writes, reads)) in (0..).zip(pairs) {
            let channel = format!("channel{channel}");
            let mut end = |name: &str, step, pause: Option<u64>| {
                let steps: Vec<Step> = [step].into_iter().chain(pause.map(|pause| Step::Run(micros(pause)))).collect();
                let steps = vec![Step::Loop { count, steps }];
                tasks.push(Task { name: format!("{name}{number}"), instances, steps, ..Task::default() });
            };
            end("writer", Step::Write { channel: channel.clone(), bytes }, writes);
            end("reader", Step::Read { channel, bytes }, reads);
        }
        let steps = vec![Step::Forever(vec![Step::Run(micros(300)), Step::Sleep(micros(900))])];
        tasks.push(Task { name: "beside".into(), instances: 1, steps, ..Task::default() });
        tasks
    })
}

/// Tasks that compute for long before each message to a task that waits for it.
fn rare_messages() -> impl Strategy<Value = Vec<Task>> {
    let pair = (1u32..3, 0..CHANNELS, 5_000u64..60_000, 10u64..5_000);
    prop::collection::vec(pair, 0..3).prop_map(|pairs| {
        let micros = |time| Step::Run(Duration::Fixed(Time::from_micros(time)));
        let ends = (0..).zip(pairs).flat_map(|(number, (instances, channel, writes, reads))| {
            let channel = format!("channel{channel}");
            let writer = vec![micros(writes), Step::Write { channel: channel.clone(), bytes: 1 }];
            let reader = vec![Step::Read { channel, bytes: 1 }, micros(reads)];
            [("writer", writer), ("reader", reader)].map(|(name, steps)| {
                let (name, steps) = (format!("{name}{number}"), vec![Step::Loop { count: 20, steps }]);
                Task { name, instances, steps, ..Task::default() }
            })
        });
        ends.collect()
    })
}

/// Up to two groups at the top with one below the first, each with a weight of its own or the default, and which of them, if any, each kind of task is
/// in.
fn groups() -> impl Strategy<Value = (Vec<Option<u64>>, Vec<usize>)> {
    let weight = prop::option::weighted(0.4, prop_oneof![3 => 20u64..500, 1 => 1u64..10_000]);
    (prop::collection::vec(weight, 3), prop::collection::vec(0usize..5, 4))
}

/// The names of [`groups`].
const GROUPS: [&str; 3] = ["/a", "/b", "/a/c"];

/// Checks that the fast path, with a sink that listens and with one that does not, leaves the same run as the general path.
fn is_the_same_both_ways(
    busy: (Vec<Task>, Machine),
    scheduler: &Scheduler,
    times: (u64, u64),
) -> Result<(), TestCaseError> {
    is_the_same_in_groups(busy, scheduler, times, &[])
}

/// [`is_the_same_both_ways`] of a workload with groups of these weights.
fn is_the_same_in_groups(
    (tasks, machine): (Vec<Task>, Machine),
    scheduler: &Scheduler,
    (millis, phase): (u64, u64),
    weights: &[Option<u64>],
) -> Result<(), TestCaseError> {
    let duration = Some(Time::from_millis(millis));
    let channels = (0..CHANNELS).map(|number| {
        let kind = if number % 2 == 0 { ChannelKind::Socket } else { ChannelKind::Pipe };
        (format!("channel{number}"), Channel { kind })
    });
    let groups = GROUPS.iter().zip(weights).map(|(name, weight)| {
        let group = Group { weight: *weight, ..Group::default() };
        ((*name).to_owned(), group)
    });
    let (channels, groups) = (channels.collect(), groups.collect());
    let workload = Workload { name: "fast".into(), duration, channels, groups, tasks, ..Workload::default() };
    let options = Options { phase: Time::from_micros(phase), ..Options::default() };
    let long = Options { no_tick_skip: true, ..options };
    let (short, told): (_, Everything) = run(&workload, scheduler, &machine, &options);
    let (long, told_long): (_, Everything) = run(&workload, scheduler, &machine, &long);
    let (quiet, _): (_, NoEvents) = run(&workload, scheduler, &machine, &options);
    if let Some(at) = told.events.iter().zip(&told_long.events).position(|(one, other)| one != other) {
        prop_assert!(
            false,
            "event {}: {:?} the short way, {:?} the long one",
            at,
            told.events[at],
            told_long.events[at]
        );
    }
    prop_assert_eq!(told, told_long);
    for left in [short, quiet] {
        match (left, &long) {
            (Ok((outcome, states)), Ok((outcome_long, states_long))) => {
                for (state, state_long) in states.iter().zip(states_long) {
                    prop_assert_eq!(state, state_long);
                }
                prop_assert_eq!(&outcome, outcome_long);
            }
            (left, long) => prop_assert_eq!(&left, long),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn the_short_way_leaves_what_the_long_one_does(
        busy in (tasks(), machines()),
        release in prop::sample::select(&["5.10", "6.1", "6.1", "6.12", "6.12", "6.18.17", "6.18.20", "6.18", "7.2", "7.2"][..]),
        hz in prop::sample::select(&[100u32, 250, 1000][..]),
        (millis, phase) in (5u64..150, 0u64..1000),
    ) {
        let scheduler = Scheduler { hz, ..Scheduler::new(release.parse().unwrap()) };
        is_the_same_both_ways(busy, &scheduler, (millis, phase))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Where no task waits, messages are written and read without a look at the wait queues (`fast_path/message.rs`).
    #[test]
    fn messages_leave_what_they_do_the_long_way(
        busy in (messages(), machines()),
        release in prop::sample::select(&["5.10", "6.1", "6.12", "6.18", "7.2"][..]),
        hz in prop::sample::select(&[250u32, 1000][..]),
        (millis, phase) in (5u64..60, 0u64..1000),
    ) {
        let scheduler = Scheduler { hz, ..Scheduler::new(release.parse().unwrap()) };
        is_the_same_both_ways(busy, &scheduler, (millis, phase))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// CPUs go on alone for a while where the sink does not listen (`fast_path/alone.rs`).
    #[test]
    fn cpus_that_go_on_alone_leave_what_the_long_way_does(
        (mut hogs, machine) in (hogs(), machines()),
        // A wake-up by another CPU's task may move a sleeper off a queue whose ticks were done alone.
        messages in rare_messages(),
        release in prop::sample::select(&["5.10", "6.1"][..]),
        hz in prop::sample::select(&[250u32, 1000, 1000][..]),
        (millis, phase) in (50u64..600, 0u64..1000),
    ) {
        hogs.extend(messages);
        let scheduler = Scheduler { hz, ..Scheduler::new(release.parse().unwrap()) };
        is_the_same_both_ways((hogs, machine), &scheduler, (millis, phase))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// CPU-bound tasks under EEVDF: ticks are put off for long, and fair servers use up their runtime (`fast_path/tick.rs`).
    #[test]
    fn cpu_bound_tasks_of_eevdf_leave_what_they_do_on_the_general_path(
        busy in (hogs(), machines()),
        release in prop::sample::select(&["6.12", "6.18", "7.2"][..]),
        hz in prop::sample::select(&[250u32, 1000, 1000][..]),
        (millis, phase) in (50u64..600, 0u64..1000),
    ) {
        let scheduler = Scheduler { hz, ..Scheduler::new(release.parse().unwrap()) };
        is_the_same_both_ways(busy, &scheduler, (millis, phase))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// Tasks of groups, and beside groups (`fast_path/groups.rs`).
    #[test]
    fn tasks_of_groups_leave_what_they_do_on_the_general_path(
        busy in (prop_oneof![4 => tasks(), 1 => messages()], machines()),
        (weights, places) in groups(),
        release in prop::sample::select(&["5.10", "6.1", "6.1", "6.12", "6.12", "6.18.17", "6.18.20", "6.18", "7.2", "7.2"][..]),
        hz in prop::sample::select(&[100u32, 250, 1000][..]),
        (millis, phase) in (5u64..150, 0u64..1000),
    ) {
        let (mut tasks, machine) = busy;
        for (task, place) in tasks.iter_mut().zip(places.iter().cycle()) {
            task.taskgroup = GROUPS.get(*place).map(|name| (*name).to_owned());
        }
        let scheduler = Scheduler { hz, ..Scheduler::new(release.parse().unwrap()) };
        is_the_same_in_groups((tasks, machine), &scheduler, (millis, phase), &weights)?;
    }
}

/// A step that computes for so many microseconds.
fn computes(micros: u64) -> Step {
    Step::Run(Duration::Fixed(Time::from_micros(micros)))
}

/// Found by the test above. At 7.906 ms the computation of `beside` ends, it goes to sleep, which costs nothing here, and the writers and readers of
/// `channel0` get its CPU. Their messages need no time either: at that instant the run reaches [`STANDSTILL`] operations, and gives up.
///
/// Each operation that ends at an instant counts there ([`Engine::count_operation`]), so that the computation is the first, the sleep the second, and 998
/// are left for messages. The fast path did not count the computation, because time had passed for it, and went on for one operation more.
#[test]
fn messages_that_take_no_time_after_a_computation_end_at_the_same_operation() {
    let ends = |name: &str, count, steps: Vec<Step>, group: Option<&str>| Task {
        name: name.into(),
        instances: 4,
        taskgroup: group.map(str::to_owned),
        steps: vec![Step::Loop { count, steps }],
        ..Task::default()
    };
    let write = |bytes| Step::Write { channel: "channel0".into(), bytes };
    let read = |bytes| Step::Read { channel: "channel0".into(), bytes };
    let beside = vec![Step::Forever(vec![computes(300), Step::Sleep(Duration::Fixed(Time::from_micros(900)))])];
    let tasks = vec![
        ends("writer0", 37, vec![write(202), computes(14)], None),
        ends("reader0", 37, vec![read(202), computes(154)], None),
        ends("writer1", 67, vec![write(227)], None),
        ends("reader1", 67, vec![read(227)], Some("/a")),
        Task { name: "beside".into(), instances: 1, steps: beside, ..Task::default() },
    ];
    let machine = Machine {
        topology: "llc=2".parse().unwrap(),
        ..Machine::new(4, Costs { timer_taken: Time::from_micros(12), ..Costs::ideal() })
    };
    let scheduler = Scheduler { hz: 250, ..Scheduler::new("6.18.17".parse().unwrap()) };
    is_the_same_in_groups((tasks, machine), &scheduler, (8, 394), &[Some(20), None, None]).unwrap();
}

/// Beside a task that computes and goes to sleep, another one ends a computation and yields as often as it takes to reach [`STANDSTILL`] operations at
/// that instant: the computation and the sleep of the first, the computation of the second, and its yields. Where going to sleep costs 13 µs the sleep
/// ends by itself, 13 µs later than the computation.
#[test]
fn each_operation_that_ends_at_an_instant_counts() {
    let sleep_timer = Time::from_micros(13);
    let costs = [
        (Costs::ideal(), 1000, 2 + 1),
        (Costs { timer_taken: Time::from_micros(12), ..Costs::ideal() }, 1000, 2 + 1),
        (Costs { sleep_timer, ..Costs::ideal() }, 1000, 1 + 1),
        (Costs { sleep_timer, ..Costs::ideal() }, 1000 + 13, 1 + 1),
    ];
    for (costs, at, counted) in costs {
        for (release, no_tick_skip) in [("6.1", false), ("6.1", true), ("6.12", false), ("6.12", true)] {
            let ends = |yields| {
                let sleep = Step::Sleep(Duration::Fixed(Time::from_millis(90)));
                let yields = Step::Loop { count: yields, steps: vec![Step::Yield] };
                let task = |name: &str, steps| Task { name: name.into(), instances: 1, steps, ..Task::default() };
                let sleeper = task("sleeper", vec![computes(1000), sleep]);
                let tasks = vec![sleeper, task("yielder", vec![computes(at), yields, computes(9)])];
                let workload = Workload { name: "fast".into(), tasks, ..Workload::default() };
                let scheduler = Scheduler { hz: 250, ..Scheduler::new(release.parse().unwrap()) };
                let options = Options { no_tick_skip, ..Options::default() };
                let (left, _): (_, NoEvents) = run(&workload, &scheduler, &Machine::new(2, costs.clone()), &options);
                left.map(|_| ())
            };
            let error = SimError::NoProgress { time: Time::from_micros(at), operations: STANDSTILL };
            let case = format!("{release}, {no_tick_skip}, at {at} of {costs:?}");
            assert_eq!(ends(STANDSTILL - counted), Ok(()), "{case}");
            assert_eq!(ends(STANDSTILL - counted + 1), Err(error), "{case}");
        }
    }
}
