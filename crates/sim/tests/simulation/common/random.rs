//! Random workloads that always come to an end.

use std::collections::BTreeMap;

use proptest::prelude::*;
use schedlab_model::{
    Attributes, Channel, ChannelKind, Costs, Duration, Group, GroupMax, Machine, Policy, RowKind, RuleSet, Scheduler,
    Series, Speed, Step, Task, TaskKind, Time, Topology, Workload,
};

use super::{RELEASES, leave_idle_at_once, scheduler, some_costs, word};

/// A workload, the machine it runs on and the scheduler.
#[derive(Debug, Clone)]
pub struct Case {
    pub workload: Workload,
    pub machine: Machine,
    pub scheduler: Scheduler,
}

impl Case {
    /// For how many nanoseconds a CPU may idle beside work that it may do; none where the kernel gives no bound.
    ///
    /// Without the kernel's balancing (2.6.24, one CPU) only while it leaves idle. With it the first tick of a busy CPU finds the waiting
    /// task, once an idle CPU's next balancing is due: that is at most twice the domain's weight in milliseconds away (`max_interval`); or,
    /// where it has pulled a task, 16 times the weight, as it was busy then (`busy_factor`): if that task sleeps before a tick, the CPU's
    /// tick counts as stopped all the time (`nohz_tick_stopped`), and the earlier due time is not taken over (`needs_update`). A task that
    /// just ran may stay for as many attempts as `cache_nice_tries` (2 at most) allows and one more, each of them a weight's milliseconds
    /// after the other, and each at a tick. A larger domain comes after the smaller. Affinity and other classes can make it take any time.
    /// Between nodes a difference of two tasks is let be (`adjust_numa_imbalance`): there it holds within each node.
    pub fn patience(&self) -> Option<u64> {
        if self.scheduler.series() == Series::V2_6_24 || self.machine.cpus == 1 {
            return leave_idle_at_once(&self.machine.costs).then_some(0);
        }
        let fair = |attributes: &Attributes| {
            !attributes.policy.is_deadline()
                && !matches!(attributes.policy, Policy::Fifo(_) | Policy::Rr(_))
                && attributes.affinity.is_empty()
        };
        let plain = self.workload.groups.is_empty()
            && self.workload.tasks.iter().all(|task| task.attributes.as_ref().is_none_or(fair));
        let tick = 1_000_000_000 / u64::from(self.scheduler.hz);
        let weight = u64::from(self.machine.cpus) * 1_000_000;
        plain.then_some((16 * weight + tick) + 4 * (weight + tick) + tick)
    }

    /// Whether the task with this number may run on this CPU, from its template's attributes or, where it has none, its parent's.
    pub fn allowed(&self, names: &[String]) -> impl Fn(usize, usize) -> bool + use<> {
        let template = |name: &str| {
            let name = name.split('[').next().unwrap_or_default();
            self.workload.tasks.iter().find(|task| task.name == name).cloned()
        };
        let forks = |steps: &[Step], child: &str| {
            steps.iter().any(|step| matches!(step, Step::Fork { task, .. } if task.as_str() == child))
        };
        let sets: Vec<Vec<u32>> = names
            .iter()
            .map(|name| {
                let own = template(name).expect("named after its template");
                let parent = self.workload.tasks.iter().find(|task| forks(&task.steps, &own.name));
                let from = own.attributes.or_else(|| parent.and_then(|parent| parent.attributes.clone()));
                from.map(|attributes| attributes.affinity).unwrap_or_default()
            })
            .collect();
        move |task, cpu| sets[task].is_empty() || sets[task].contains(&(cpu as u32))
    }
}

/// How CPUs may belong together on a machine of so many.
pub fn topology(cpus: u32) -> impl Strategy<Value = Topology> {
    let ring = |distances: [[u32; 4]; 4]| Topology {
        node: Some(1),
        distances: distances.map(Vec::from).to_vec(),
        ..Topology::default()
    };
    let text = |text: &str| text.parse().expect("a topology");
    let some: Vec<Topology> = match cpus {
        2 => vec![text("smt=1"), text("smt=2"), text("llc=1"), text("node=1")],
        4 => vec![
            text("smt=1"),
            text("smt=2"),
            text("smt=2,siblings=last"),
            text("llc=2"),
            text("smt=2,llc=2"),
            text("smt=2,node=2"),
            text("llc=1,node=2"),
            ring([[10, 20, 30, 20], [20, 10, 20, 30], [30, 20, 10, 20], [20, 30, 20, 10]]),
            ring([[10, 20, 40, 20], [20, 10, 20, 40], [40, 20, 10, 20], [20, 40, 20, 10]]),
        ],
        _ => vec![Topology::default()],
    };
    prop::sample::select(some)
}

/// How fast CPUs of that topology may be; mostly always as fast, and never so slow that ticks leave nothing.
fn speed(topology: &Topology, cpus: u32, costs: &Costs, pick: usize) -> Speed {
    let cores = topology.node.unwrap_or(cpus) / topology.smt;
    let turbo = ["turbo=130%", "turbo=170%/120%", "turbo=133.3%/100%/70%", "turbo=99.9%/66.7%"];
    let text = match (topology.smt, pick) {
        (2, 0) => "smt=62.5%",
        (2, 1) => "smt=57.1%,turbo=110%",
        (1, 0..4) if turbo[pick].split('/').count() as u32 <= cores => turbo[pick],
        (1, 4) if topology.node.is_none() => "turns",
        _ => return Speed::default(),
    };
    if costs.tick > Time::from_micros(500) { Speed::default() } else { text.parse().expect("a speed") }
}

pub fn case() -> impl Strategy<Value = Case> {
    let cpus = prop_oneof![Just(1), Just(2), Just(3), Just(4), Just(7)];
    let costs = prop_oneof![
        Just(Costs::ideal()),
        Just(some_costs()),
        // Costs everywhere but on the way out of idle, so that no CPU may idle at all.
        Just(Costs {
            idle_exit: Time::ZERO,
            tick_restart: Time::ZERO,
            wakeup: Time::ZERO,
            wakeup_remote: Time::ZERO,
            ipi_idle: Time::ZERO,
            schedule: Time::ZERO,
            ..some_costs()
        }),
        // What others have used takes longer, and what is kept nowhere.
        Just(Costs {
            wakeup_preempt: Time::from_nanos(60),
            wakeup_select: Time::from_nanos(430),
            wakeup_far: Time::from_nanos(640),
            schedule_far: Time::from_nanos(810),
            ipi_halted: Time::from_nanos(4100),
            steal: Time::from_micros(27),
            steal_period: Time::from_millis(1),
            halt_exit: Time::from_nanos(7300),
            halt_deeper: Time::from_nanos(2100),
            pipe_empty: Time::from_nanos(45),
            pipe_far: Time::from_nanos(170),
            pipe_far_message: Time::from_nanos(20),
            socket_far: Time::from_nanos(210),
            socket_far_write: Time::from_nanos(90),
            socket_far_read: Time::from_nanos(140),
            file_reference: Time::from_nanos(30),
            copy_far_per_kib: Time::from_nanos(40),
            slab: Time::from_nanos(50),
            slab_free: Time::from_nanos(60),
            page: Time::from_nanos(300),
            page_free: Time::from_nanos(110),
            ..some_costs()
        }),
        Just(Costs { tick: Time::from_micros(900), ..Costs::ideal() }),
        // Those who compute look at clocks.
        Just(Costs { compute: Time::from_nanos(300), ..some_costs() }),
        Just(Costs::linsched()),
    ];
    let hz = prop_oneof![Just(100), Just(250), Just(1000)];
    let weights = prop_oneof![4 => Just("none"), 1 => Just("pfs"), 1 => Just("dw-cfs:beta=1.5")];
    let limit = prop::sample::select(&[None, None, Some("20ms"), Some("3ms"), Some("unlimited")][..]);
    let hrtick = prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let machine = (cpus, costs, 0usize..8);
    (machine, prop::sample::select(&RELEASES[..]), hz, weights, (limit, hrtick)).prop_flat_map(
        |((cpus, costs, pick), release, hz, weights, (limit, hrtick))| {
            (workload(cpus), topology(cpus)).prop_map(move |(workload, topology)| Case {
                workload,
                machine: Machine {
                    speed: speed(&topology, cpus, &costs, pick),
                    topology,
                    ..Machine::new(cpus, costs.clone())
                },
                // Where all the time goes into ticks or switches, a task whose runs are cut short gets nowhere.
                scheduler: limited(
                    timed(Scheduler { hz, weights: weights.parse().expect("a rule"), ..scheduler(release) }, hrtick),
                    limit.filter(|_| costs.tick.max(costs.switch) < Time::from_micros(10)),
                ),
            })
        },
    )
}

/// The same with some of its tasks in groups, weighted, idle, limited or nested, and in sessions.
pub fn grouped_case() -> impl Strategy<Value = Case> {
    let max = (5u64..30, 20u64..60, 0u64..5).prop_map(|(quota, period, burst)| {
        let [quota, period, burst] = [quota, period, burst].map(Time::from_millis);
        GroupMax { quota, period, burst }
    });
    let group = (prop::option::of(1u64..1000), any::<bool>(), prop::option::weighted(0.4, max))
        .prop_map(|(weight, idle, max)| Group { weight, idle: idle && weight.is_none(), max, ..Group::default() });
    let paths = ["/a", "/a/x", "/a/y/z", "/b"];
    let groups = prop::collection::vec(group, paths.len());
    let place = (prop::option::of(0usize..5), prop::option::of(0usize..2));
    (case(), groups, prop::collection::vec(place, 12), any::<bool>()).prop_map(move |(mut case, groups, places, on)| {
        if case.scheduler.series() == Series::V2_6_24 {
            return case;
        }
        case.workload.groups = paths.iter().map(|path| (*path).to_owned()).zip(groups).collect();
        for group in case.workload.groups.values_mut() {
            if case.scheduler.series() == Series::V5_10 {
                group.idle = false;
                group.max = group.max.map(|max| GroupMax { burst: Time::ZERO, ..max });
            }
        }
        let path = |number: usize| paths.get(number).copied().unwrap_or("/").to_owned();
        for (task, (group, session)) in case.workload.tasks.iter_mut().zip(places) {
            task.taskgroup = group.map(path);
            task.session = session.map(|number| format!("tty{number}"));
        }
        case.scheduler.set("autogroup", if on { "1" } else { "0" }).expect("a knob of the release");
        case
    })
}

/// The same, or one of tasks without groups, with one to three rules switched against what the release has.
pub fn hybrid_case() -> impl Strategy<Value = Case> {
    let switchable: Vec<&'static str> =
        RuleSet::ROWS.iter().filter(|row| row.kind != RowKind::Fact).map(|row| row.name).collect();
    let switches = prop::collection::vec((prop::sample::select(switchable), any::<bool>()), 1..4);
    (prop_oneof![case().boxed(), grouped_case().boxed()], switches).prop_map(|(mut case, switches)| {
        let plain = Scheduler { knobs: BTreeMap::new(), ..case.scheduler.clone() };
        let mut scheduler = plain.clone();
        for (name, on) in switches {
            // What cannot be, such as a part of EEVDF in a CFS, is refused.
            let _ = scheduler.switch(name, on);
        }
        if scheduler.rule_set().expect("what was switched").eevdf == RuleSet::of(plain.release).eevdf {
            scheduler.knobs.clone_from(&case.scheduler.knobs);
        }
        case.scheduler = scheduler;
        case
    })
}

/// With the high-resolution tick on or off, where that is said and the release has it.
fn timed(mut scheduler: Scheduler, hrtick: Option<bool>) -> Scheduler {
    for name in ["feature.HRTICK", "feature.HRTICK_DL"] {
        // 2.6.24 has neither, 5.10 no HRTICK_DL.
        let _ = hrtick.map(|on| scheduler.set(name, if on { "1" } else { "0" }));
    }
    scheduler
}

/// With real-time tasks limited to so much of each 25 ms, where the release can.
pub fn limited(mut scheduler: Scheduler, runtime: Option<&str>) -> Scheduler {
    let series = scheduler.knobs_release().series();
    if let (Some(runtime), true) = (runtime, matches!(series, Series::V5_10 | Series::V6_1)) {
        for (name, value) in [("rt_period", "25ms"), ("rt_runtime", runtime)] {
            scheduler.set(name, value).expect("a knob of the release");
        }
        // CPUs share on 5.10, so that both are tried.
        if series == Series::V5_10 {
            scheduler.set("feature.RT_RUNTIME_SHARE", "1").expect("a feature of the release");
        }
    }
    scheduler
}

fn workload(cpus: u32) -> impl Strategy<Value = Workload> {
    let part = prop_oneof![
        4 => loners(cpus).boxed(),
        3 => pipeline(cpus).boxed(),
        2 => family(cpus).boxed(),
        1 => Just(hackbench()).boxed(),
    ];
    prop::collection::vec(part, 1..4).prop_map(|parts| {
        let mut whole = super::workload(Vec::new());
        whole.latches.clear();
        for (number, part) in parts.into_iter().enumerate() {
            part.append_to(&mut whole, number);
        }
        whole
    })
}

/// Tasks, channels and latches whose names are still to be made unique.
#[derive(Debug, Clone)]
struct Part {
    tasks: Vec<Task>,
    channels: Vec<(String, ChannelKind)>,
    latches: Vec<String>,
}

impl Part {
    fn append_to(self, whole: &mut Workload, number: usize) {
        let unique = |name: &String| format!("{name}.{number}");
        whole.latches.extend(self.latches.iter().map(unique));
        whole.channels.extend(self.channels.iter().map(|(name, kind)| (unique(name), Channel { kind: *kind })));
        whole.tasks.extend(self.tasks.into_iter().map(|task| {
            let steps = task.steps.iter().map(|step| renamed(step, &unique)).collect();
            Task { name: unique(&task.name), steps, ..task }
        }));
    }
}

fn renamed(step: &Step, unique: &impl Fn(&String) -> String) -> Step {
    match step {
        Step::Write { channel, bytes } => Step::Write { channel: unique(channel), bytes: *bytes },
        Step::Read { channel, bytes } => Step::Read { channel: unique(channel), bytes: *bytes },
        Step::OpenLatch(name) => Step::OpenLatch(unique(name)),
        Step::AwaitLatch(name) => Step::AwaitLatch(unique(name)),
        Step::Fork { task, count } => Step::Fork { task: unique(task), count: *count },
        Step::Loop { count, steps } => {
            Step::Loop { count: *count, steps: steps.iter().map(|step| renamed(step, unique)).collect() }
        }
        step => step.clone(),
    }
}

fn attributes(cpus: u32) -> impl Strategy<Value = Attributes> {
    let policy = prop_oneof![
        6 => Just(Policy::Other),
        1 => Just(Policy::Batch),
        1 => Just(Policy::Idle),
        2 => (1u8..4).prop_map(Policy::Fifo),
        2 => (1u8..4).prop_map(Policy::Rr),
    ];
    let nice = prop_oneof![3 => Just(0i8), 1 => -20i8..20];
    let affinity = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::btree_set(0..cpus, 1..=cpus as usize).prop_map(|cpus| cpus.into_iter().collect()),
    ];
    (policy, nice, affinity).prop_map(|(policy, nice, affinity)| Attributes { policy, nice, slice: None, affinity })
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::Fixed(Time::ZERO)),
        // Whole ticks, so that things fall on the same instant.
        (1u64..13).prop_map(|count| Duration::Fixed(Time::from_millis(count))),
        (1u64..3_000_000).prop_map(|count| Duration::Fixed(Time::from_nanos(count))),
        (1u64..5000).prop_map(|mean| Duration::Exponential { mean: Time::from_micros(mean) }),
        (1u64..80).prop_map(|count| Duration::Fixed(Time::from_millis(count))),
    ]
}

/// Tasks that compute, sleep and yield, each for itself.
fn loners(cpus: u32) -> impl Strategy<Value = Part> {
    let step = prop_oneof![
        4 => duration().prop_map(Step::Run),
        2 => duration().prop_map(Step::Sleep),
        1 => Just(Step::Yield),
    ];
    (1u32..5, attributes(cpus), prop::collection::vec(step, 1..5), 1u64..6).prop_map(
        |(instances, attributes, steps, count)| Part {
            tasks: vec![super::task("loner", instances, attributes, vec![Step::Loop { count, steps }])],
            channels: vec![],
            latches: vec![],
        },
    )
}

/// Stages that pass messages from one to the next, each with some tasks; twelve messages, or a multiple of twelve, in all.
fn pipeline(cpus: u32) -> impl Strategy<Value = Part> {
    let kind = prop_oneof![Just(ChannelKind::Pipe), Just(ChannelKind::Socket)];
    let bytes = prop_oneof![Just(1u32), Just(100), Just(4096), Just(70_000), Just(300_000)];
    let stage = (attributes(cpus), 1u32..5, duration(), kind);
    (prop::collection::vec(stage, 2..5), bytes, 1u64..8).prop_map(|(stages, bytes, dozens)| {
        let last = stages.len() - 1;
        let mut part = Part { tasks: vec![], channels: vec![], latches: vec![] };
        for (number, (attributes, instances, work, kind)) in stages.into_iter().enumerate() {
            let mut steps = Vec::new();
            if number > 0 {
                steps.push(Step::Read { channel: format!("c{}", number - 1), bytes });
            }
            steps.push(Step::Run(work));
            if number < last {
                steps.push(Step::Write { channel: format!("c{number}"), bytes });
                part.channels.push((format!("c{number}"), kind));
            }
            // Twelve is a multiple of every number of tasks.
            let steps = vec![Step::Loop { count: 12 * dozens / u64::from(instances), steps }];
            part.tasks.push(super::task(&format!("stage{number}"), instances, attributes, steps));
        }
        part
    })
}

/// A parent that forks children, lets them wait at a latch, opens it and collects them.
fn family(cpus: u32) -> impl Strategy<Value = Part> {
    let kind = prop_oneof![Just(TaskKind::Process), Just(TaskKind::Thread)];
    (attributes(cpus), proptest::option::of(attributes(cpus)), 1u32..6, duration(), duration(), kind).prop_map(
        |(attributes, child, count, before, work, kind)| {
            let steps = vec![Step::AwaitLatch("latch".into()), Step::Run(work), Step::Sleep(before)];
            let child = Task { name: "child".into(), instances: 0, kind, attributes: child, steps, ..Task::default() };
            let fork = || Step::Fork { task: "child".into(), count };
            let open = Step::OpenLatch("latch".into());
            let steps = vec![fork(), Step::Run(before), open, Step::Join, fork(), Step::Yield, Step::Join];
            let parent = super::task("parent", 1, attributes, steps);
            Part { tasks: vec![parent, child], channels: vec![], latches: vec!["latch".into()] }
        },
    )
}

fn hackbench() -> Part {
    let workload = word("hackbench:groups=2,fds=3,loops=4");
    Part {
        tasks: workload.tasks,
        channels: workload.channels.into_iter().map(|(name, channel)| (name, channel.kind)).collect(),
        latches: workload.latches,
    }
}
