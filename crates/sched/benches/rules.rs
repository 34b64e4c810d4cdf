//! What the rules alone cost, without an engine: a block, a wake-up and the switches between them, with 400 tasks on 4 CPUs, and ticks.
#![expect(missing_docs, reason = "criterion_group! makes a public function without any")]

use std::collections::VecDeque;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schedlab_model::{Attributes, CpuId, Scheduler, TaskId, TaskState, Time};
use schedlab_sched::{Clocks, Ours, Rules, Sched, WakeKind};

const CPUS: u32 = 4;
const TASKS: u32 = 400;
const RELEASES: [&str; 5] = ["2.6.24", "5.10", "6.1", "6.12", "6.18"];

/// A machine on which half of the tasks sleep, and one that wakes the longest asleep each time another blocks.
struct Bench {
    sched: Sched<Ours>,
    now: u64,
    asleep: VecDeque<TaskId>,
}

impl Bench {
    fn new(release: &str) -> Self {
        let scheduler = Scheduler::new(release.parse().expect("a known release"));
        let sched = Sched::new(Rules::new(&scheduler, CPUS).expect("defaults"), CPUS, Ours::default());
        let mut bench = Self { sched, now: 1_000_000_000, asleep: VecDeque::new() };
        for number in 0..TASKS {
            let task = bench.sched.new_task(&Attributes::default());
            let cpu = CpuId(number % CPUS);
            bench.sync(cpu);
            bench.sched.wake_up_new_task(task, cpu);
        }
        for cpu in (0..CPUS).map(CpuId) {
            bench.sched.schedule(cpu, TaskState::Running);
        }
        for number in 0..TASKS / 2 {
            bench.block(CpuId(number % CPUS));
        }
        bench
    }

    fn sync(&mut self, cpu: CpuId) {
        self.sched.set_clocks(cpu, Clocks::all(Time::from_nanos(self.now)));
    }

    /// The running task of `cpu` has run 10 µs and sleeps.
    fn block(&mut self, cpu: CpuId) {
        self.now += 10_000;
        self.sync(cpu);
        let scheduled = self.sched.schedule(cpu, TaskState::Interruptible);
        if scheduled.previous != TaskId::IDLE {
            self.asleep.push_back(scheduled.previous);
        }
    }

    /// The longest asleep wakes, and runs at once if it preempts.
    fn wake(&mut self, waker: CpuId) {
        let Some(task) = self.asleep.pop_front() else { return };
        let cpu = self.sched.select_task_rq(task, waker, WakeKind::Wakeup { sync: false });
        self.sync(cpu);
        self.sched.try_to_wake_up(task, cpu);
        if self.sched.need_resched(cpu) {
            self.sched.schedule(cpu, TaskState::Running);
        }
    }
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("block and wake");
    group.throughput(Throughput::Elements(1_000));
    for release in RELEASES {
        let mut bench = Bench::new(release);
        group.bench_function(release, |bencher| {
            bencher.iter(|| {
                for number in 0..1_000 {
                    let cpu = CpuId(number % CPUS);
                    bench.block(cpu);
                    bench.wake(cpu);
                }
            });
        });
    }
    group.finish();
}

fn ticks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tick");
    group.throughput(Throughput::Elements(1_000));
    for release in RELEASES {
        let mut bench = Bench::new(release);
        group.bench_function(release, |bencher| {
            bencher.iter(|| {
                for _ in 0..1_000 {
                    bench.now += 4_000_000;
                    bench.sync(CpuId(0));
                    bench.sched.sched_tick(CpuId(0));
                    if bench.sched.need_resched(CpuId(0)) {
                        bench.sched.schedule(CpuId(0), TaskState::Running);
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pairs, ticks);
criterion_main!(benches);
