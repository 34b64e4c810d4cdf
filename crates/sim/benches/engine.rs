//! The engine's speed, one thread but for the study's batch. `benches/history.csv` keeps what was measured on 2 virtual
//! CPUs of an AMD EPYC at 3.35 GHz; it is the quietest runs that are kept, for the machine has other work, too.
#![expect(missing_docs, reason = "criterion_group! makes a public function without any")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schedlab_model::{
    Attributes, Channel, ChannelKind, Costs, Event, EventKind, EventSink, Machine, Scheduler, Step, Task, TaskKind,
    Time, Workload,
};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate, simulate_many};

fn scheduler(release: &str) -> Scheduler {
    Scheduler::new(release.parse().expect("a known release"))
}

fn compile(workload: &Workload) -> Program {
    Program::compile(workload).expect("a workload that compiles")
}

fn word(text: &str) -> Program {
    compile(&schedlab_workloads::parse(text).expect("a workload"))
}

/// Costs of a few hundred nanoseconds each, so that ticks, preemption and idle CPUs all take part.
fn machine(cpus: u32) -> Machine {
    let nanos = Time::from_nanos;
    let costs = Costs {
        switch: nanos(1000),
        wakeup: nanos(500),
        tick: nanos(1000),
        system_call: nanos(100),
        pipe_write: nanos(300),
        pipe_read: nanos(300),
        socket_write: nanos(600),
        socket_read: nanos(600),
        block: nanos(300),
        fork_process: nanos(50_000),
        exit_process: nanos(30_000),
        ..Costs::ideal()
    };
    Machine::new(cpus, costs)
}

/// Counts switch events, from and to idle included: what the engine has to do.
#[derive(Default)]
struct Switches(u64);

impl EventSink for Switches {
    fn event(&mut self, event: Event) {
        self.0 += u64::from(matches!(event.kind, EventKind::Switch { .. }));
    }
}

fn switches(program: &Program, machine: &Machine) -> u64 {
    let mut switches = Switches::default();
    simulate(program, &scheduler("6.1"), machine, &Options::default(), &mut switches).expect("a run that ends");
    switches.0
}

/// hackbench, 5 groups, 1 message: the unit of a tuning study. The goal is 2 ms.
fn hackbench(criterion: &mut Criterion) {
    let program = word("hackbench:groups=5,loops=1");
    for (release, cpus) in [("2.6.24", 1), ("2.6.24", 2), ("6.1", 2), ("6.1", 8), ("6.18", 2)] {
        let (machine, scheduler) = (machine(cpus), [scheduler(release)]);
        criterion.bench_function(&format!("hackbench-5x1 {release} cpus={cpus}"), |bencher| {
            bencher.iter(|| simulate_many(black_box(&program), &scheduler, &machine, &Options::default()));
        });
    }
}

/// 400 tasks on 4 CPUs that run 50 µs and sleep: each switch to a task comes with a wake-up and a block. The goal is 120 ns each.
///
/// `half` sleeps 10 ms on average: 10 pairs a CPU a ms, which takes half of each CPU. `full` sleeps 5 ms: no CPU ever idles.
fn pairs(criterion: &mut Criterion) {
    let (rounds, tasks) = (100, 400);
    let mut group = criterion.benchmark_group("pairs-400x4");
    group.throughput(Throughput::Elements(rounds * u64::from(tasks)));
    for (load, low, high) in [("half", 5, 15), ("full", 1, 9)] {
        let run = Step::Run(schedlab_model::Duration::Fixed(Time::from_micros(50)));
        let sleep = schedlab_model::Duration::Uniform { low: Time::from_millis(low), high: Time::from_millis(high) };
        let workload = Workload {
            name: "pairs".into(),
            channels: Default::default(),
            latches: vec![],
            tasks: vec![task("sleeper", tasks, rounds, vec![run, Step::Sleep(sleep)])],
            ..Workload::default()
        };
        let sleepers = compile(&workload);
        for release in ["2.6.24", "6.1", "6.18"] {
            let scheduler = [scheduler(release)];
            group.bench_function(format!("{load} {release}"), |bencher| {
                bencher
                    .iter(|| simulate_many(black_box(&sleepers), &scheduler, &Machine::ideal(4), &Options::default()));
            });
        }
    }
    group.finish();
}

/// 200 pairs of tasks on 4 CPUs that hand a byte to and fro and compute in between: each hand-over is a wake-up, a block and a switch.
fn pingpong(criterion: &mut Criterion) {
    let (pairs, rounds) = (200, 100);
    let pipe = Channel { kind: ChannelKind::Pipe };
    let step = |write: &str, read: &str| {
        let work = Step::Run(schedlab_model::Duration::Fixed(Time::from_micros(20)));
        let write = Step::Write { channel: write.into(), bytes: 1 };
        let read = Step::Read { channel: read.into(), bytes: 1 };
        (work, write, read)
    };
    let mut workload = Workload {
        name: "pingpong".into(),
        channels: Default::default(),
        latches: vec![],
        tasks: vec![],
        ..Workload::default()
    };
    for pair in 0..pairs {
        let (to, fro) = (format!("to.{pair}"), format!("fro.{pair}"));
        workload.channels.insert(to.clone(), pipe.clone());
        workload.channels.insert(fro.clone(), pipe.clone());
        let (work, write, read) = step(&to, &fro);
        workload.tasks.push(task(&format!("ping.{pair}"), 1, rounds, vec![work, write, read]));
        let (work, write, read) = step(&fro, &to);
        workload.tasks.push(task(&format!("pong.{pair}"), 1, rounds, vec![read, work, write]));
    }
    let program = compile(&workload);
    let mut group = criterion.benchmark_group("pairs-400x4");
    group.throughput(Throughput::Elements(2 * rounds * pairs));
    for release in ["2.6.24", "6.1", "6.18"] {
        let scheduler = [scheduler(release)];
        group.bench_function(format!("pipe {release}"), |bencher| {
            bencher.iter(|| simulate_many(black_box(&program), &scheduler, &Machine::ideal(4), &Options::default()));
        });
    }
    group.finish();
}

fn task(name: &str, instances: u32, rounds: u64, steps: Vec<Step>) -> Task {
    Task {
        name: name.into(),
        instances,
        kind: TaskKind::Process,
        attributes: Some(Attributes::default()),
        steps: vec![Step::Loop { count: rounds, steps }],
        ..Task::default()
    }
}

/// 640 workers on 64 CPUs.
fn many_cpus(criterion: &mut Criterion) {
    let program = word("hackbench:groups=16,loops=5");
    let machine = machine(64);
    let mut group = criterion.benchmark_group("hackbench-16x5");
    group.throughput(Throughput::Elements(switches(&program, &machine)));
    group.bench_function("cpus=64, per switch", |bencher| {
        let scheduler = [scheduler("6.1")];
        bencher.iter(|| simulate_many(black_box(&program), &scheduler, &machine, &Options::default()));
    });
    group.finish();
}

/// A tuning study's 620 executions, each with knobs of its own, on as many threads as there are. The goal is 1 s on two cores.
fn study(criterion: &mut Criterion) {
    let program = word("hackbench:groups=5,loops=1");
    let machine = Machine::new(1, Costs::linsched());
    let schedulers: Vec<Scheduler> = (0..620u64)
        .map(|number| {
            let mut scheduler = Scheduler { hz: 1000, ..scheduler("2.6.24") };
            for (knob, factor) in
                [("latency", 1_600_001), ("min_granularity", 1_500_007), ("wakeup_granularity", 977_003)]
            {
                let value = 100_000 + number * factor % 999_900_000;
                scheduler.set(knob, &format!("{value}ns")).expect("a value in the knob's range");
            }
            scheduler
        })
        .collect();
    criterion.bench_function("study-620", |bencher| {
        bencher.iter(|| simulate_many(black_box(&program), &schedulers, &machine, &Options::default()));
    });
}

fn configuration() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
}

criterion_group! { name = benches; config = configuration(); targets = hackbench, pairs, pingpong, many_cpus, study }
criterion_main!(benches);
