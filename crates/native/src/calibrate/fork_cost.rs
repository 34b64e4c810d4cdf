//! Making, ending and collecting processes and threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use schedlab_model::{
    Attributes, Channel, ChannelKind, Duration, Outcome, Policy, Step, Task, TaskKind, Time, Workload,
};
use schedlab_program::Program;

use super::bench::Bench;
use super::stats::Spread;
use crate::NativeError;
use crate::supervise::{RunOptions, run};
use crate::system::{self, exit_now, set_affinity, thread_cpu, wait_own};

/// Tasks made in one batch.
const LITTER: usize = 32;

/// Tasks that end at the same time.
const ENDING: u32 = 100;

/// Threads made at a time: as many as programs have, since each further one has more mappings to go beside (165 us of 20, 174 of 100, on 6.1).
const FEW: u32 = 20;

/// What making and collecting tasks takes their parent, in nanoseconds.
#[derive(Default)]
pub(crate) struct Births {
    /// Making one.
    pub(crate) forks: Vec<f64>,
    /// Collecting one that has ended; of processes only.
    pub(crate) reaps: Vec<f64>,
}

/// The births of processes or threads, batch by batch, each batch in a fresh process on one CPU.
///
/// All are SCHED_BATCH, so that no child preempts its parent; they run once the parent sleeps.
pub(crate) fn births(bench: &Bench, kind: TaskKind) -> Result<Births, NativeError> {
    let mut births = Births::default();
    let (forks, rest) = bench.words.split_at(LITTER);
    let reaps = &rest[..LITTER];
    for _ in 0..bench.batches / 3 + 1 {
        forks.iter().chain(reaps).for_each(|word| word.store(0, SeqCst));
        let parent = bench.helper(bench.here, Policy::Batch, || match kind {
            TaskKind::Process => litter_of_processes(forks, reaps),
            TaskKind::Thread => litter_of_threads(forks),
        })?;
        parent.finish();
        // The first ones find cold caches and the parent's pages still shared: the middle of each batch counts.
        let median = |words: &[AtomicU64]| {
            let times = words.iter().map(|word| word.load(SeqCst) as f64).filter(|time| *time > 0.0);
            Spread::of(times.collect()).map(|spread| spread.median_ns - bench.cpu_clock)
        };
        births.forks.extend(median(forks));
        births.reaps.extend(median(reaps));
    }
    Ok(births)
}

fn litter_of_processes(forks: &[AtomicU64], reaps: &[AtomicU64]) {
    let mut children = Vec::with_capacity(LITTER);
    for fork in forks {
        let start = thread_cpu();
        // SAFETY: a helper has no other threads.
        match unsafe { system::fork() } {
            Ok(0) => exit_now(0),
            Ok(child) => {
                fork.store(thread_cpu() - start, SeqCst);
                children.push(child);
            }
            Err(_) => return,
        }
    }
    // They end one after the other on this CPU while we sleep; a little longer, for the kernel to be done with the last.
    system::sleep(LITTER as u64 * 100_000);
    for (child, reap) in children.into_iter().zip(reaps) {
        system::await_end(child);
        let start = thread_cpu();
        let _ = wait_own(child);
        reap.store(thread_cpu() - start, SeqCst);
    }
}

fn litter_of_threads(forks: &[AtomicU64]) {
    std::thread::scope(|scope| {
        for fork in forks {
            let start = thread_cpu();
            let made = std::thread::Builder::new().stack_size(crate::task::STACK).spawn_scoped(scope, || {});
            fork.store(thread_cpu() - start, SeqCst);
            if made.is_err() {
                return;
            }
        }
    });
}

/// Many tasks that wait at a latch and have nothing to do but end when it opens. CPU time of each until it is collected, its waking,
/// switches and collecting included: all of two CPUs' time (or of the only one's) divided among the tasks.
///
/// They end together on all CPUs and touch, like any task, some of their memory for the first time before they do: one that ends
/// alone and untouched, as in [`births`], is done in half of the time.
pub(crate) fn endings(bench: &Bench, kind: TaskKind) -> Result<Vec<f64>, NativeError> {
    let program = Program::compile(&ending(kind))?;
    let cpus: Vec<u32> = [Some(bench.here), bench.there].into_iter().flatten().collect();
    let mut times = Vec::new();
    for _ in 0..bench.batches / 8 + 1 {
        let took = measured(bench, &program, &cpus, |outcome| outcome.turnaround_ns)?;
        let time = took as f64 * cpus.len() as f64 / f64::from(ENDING);
        times.extend((time > 0.0).then_some(time));
    }
    Ok(times)
}

/// Nanoseconds that a process computes in [`beginnings`]: so long that what it touches by computing is within its time, as it is mostly.
pub(crate) const FIRST_WORK: u64 = 200_000;

/// From the start signal until a process that waited for it has done its first work, a little computing ([`FIRST_WORK`]), with all that it does
/// in between and the memory that it touches for the first time. One alone: of several some would end before others begin.
pub(crate) fn beginnings(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let steps = vec![Step::Run(Duration::Fixed(Time::from_nanos(FIRST_WORK)))];
    let task = Task { name: "beginning".into(), instances: 1, kind: TaskKind::Process, steps, ..Task::default() };
    let program = Program::compile(&Workload { name: "beginnings".into(), tasks: vec![task], ..Workload::default() })?;
    let mut times = Vec::new();
    for _ in 0..bench.batches / 8 + 1 {
        let took = measured(bench, &program, &[bench.here], |outcome| outcome.turnaround_ns)?;
        times.extend((took > 0).then_some(took as f64));
    }
    Ok(times)
}

/// What making a task takes its parent in CPU time, with the pages that it copies because it has a child, in nanoseconds: of many, SCHED_BATCH, so that
/// none preempts the task that makes them. That sleeps until they are done before it collects them.
///
/// Threads are [`FEW`] and end as soon as they run. Processes wait at a latch that their parent opens: those that end at once leave the next ones their memory, which is
/// less work to get than any of the page allocator's (`rmqueue_bulk`), some 25 us of 420 on 6.1.
pub(crate) fn makings(bench: &Bench, kind: TaskKind) -> Result<Vec<f64>, NativeError> {
    let sleep = Step::Sleep(Duration::Fixed(Time::from_millis(30)));
    let count = if matches!(kind, TaskKind::Thread) { FEW } else { ENDING };
    let fork = Step::Fork { task: CHILD.into(), count };
    let (main, child) = match kind {
        TaskKind::Process => {
            let open = Step::OpenLatch(START.into());
            (vec![fork, sleep.clone(), open, sleep, Step::Join], vec![Step::AwaitLatch(START.into())])
        }
        TaskKind::Thread => (vec![fork, sleep, Step::Join], Vec::new()),
    };
    let program = Program::compile(&family("makings", kind, main, child, Some(Policy::Batch)))?;
    let mut times = Vec::new();
    for _ in 0..bench.batches / 30 + 1 {
        let took = measured(bench, &program, &[bench.here], |outcome| run_of(outcome, MAIN))?;
        times.extend((took > 0).then(|| took as f64 / f64::from(count)));
    }
    Ok(times)
}

/// What a task takes in CPU time from its birth to its end, in nanoseconds, all but its ending: it reports that it has begun, waits at a
/// latch, and ends once that opens. Tasks that are forked to work do so too, and touch their memory for the first time before their first
/// sleep.
///
/// All are SCHED_BATCH, and their parent sleeps until all wait: they wake and preempt no task.
pub(crate) fn starts(bench: &Bench, kind: TaskKind) -> Result<Vec<f64>, NativeError> {
    let count = ENDING / 2;
    let sleep = Step::Sleep(Duration::Fixed(Time::from_millis(30)));
    let fork = Step::Fork { task: CHILD.into(), count };
    let read = Step::Loop { count: count.into(), steps: vec![ready(|channel, bytes| Step::Read { channel, bytes })] };
    let main = vec![fork, sleep, read, Step::OpenLatch(START.into()), Step::Join];
    let program = Program::compile(&family("starts", kind, main, waiting(), Some(Policy::Batch)))?;
    let options = RunOptions { from_birth: true, ..RunOptions::default() };
    let mut times = Vec::new();
    for _ in 0..bench.batches / 30 + 1 {
        let took = measured_with(bench, &program, &[bench.here], &options, |outcome| run_of(outcome, CHILD))?;
        times.extend((took > 0).then(|| took as f64 / f64::from(count)));
    }
    Ok(times)
}

fn run_of(outcome: &Outcome, name: &str) -> u64 {
    outcome.tasks.iter().filter(|task| task.name.starts_with(name)).map(|task| task.run_ns).sum()
}

/// CPU time that a task of the runner takes to write a byte to a pipe and to read it again, in nanoseconds: two operations.
pub(crate) fn exchanges(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    const ROUNDS: u64 = 2_500;
    let pipe = "pipe".to_owned();
    let exchange =
        vec![Step::Write { channel: pipe.clone(), bytes: 1 }, Step::Read { channel: pipe.clone(), bytes: 1 }];
    let steps = vec![Step::Loop { count: ROUNDS, steps: exchange }];
    let task = Task { name: "writer".into(), instances: 1, kind: TaskKind::Process, steps, ..Task::default() };
    let channels = [(pipe, Channel { kind: ChannelKind::Pipe })].into();
    let program =
        Program::compile(&Workload { name: "exchange".into(), channels, tasks: vec![task], ..Workload::default() })?;
    let mut times = Vec::new();
    for _ in 0..bench.batches / 30 + 1 {
        let run = |outcome: &Outcome| outcome.tasks.first().map_or(0, |task| task.run_ns);
        let took = measured(bench, &program, &[bench.here], run)?;
        times.extend((took > 0).then(|| took as f64 / ROUNDS as f64));
    }
    Ok(times)
}

/// Nanoseconds that a task computes in [`computations`].
pub(crate) const COMPUTATION: u64 = 100_000;

/// CPU time of computing for [`COMPUTATION`] after a sleep, in nanoseconds: what a task has beyond one that only sleeps, as often and as long.
pub(crate) fn computations(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    const ROUNDS: u64 = 200;
    let step = |time| Duration::Fixed(Time::from_nanos(time));
    let rounds = |steps: Vec<Step>| {
        let steps = vec![Step::Loop { count: ROUNDS, steps }];
        let task = Task { name: "worker".into(), instances: 1, kind: TaskKind::Process, steps, ..Task::default() };
        Program::compile(&Workload { name: "rounds".into(), tasks: vec![task], ..Workload::default() })
    };
    let sleep = Step::Sleep(step(COMPUTATION));
    let works = rounds(vec![Step::Run(step(COMPUTATION)), sleep.clone()])?;
    let sleeps = rounds(vec![sleep])?;
    let run = |outcome: &Outcome| outcome.tasks.first().map_or(0, |task| task.run_ns);
    let mut times = Vec::new();
    for _ in 0..bench.batches / 30 + 1 {
        let both = measured(bench, &works, &[bench.here], run)?;
        let alone = measured(bench, &sleeps, &[bench.here], run)?;
        times.extend((alone > 0).then(|| (both as f64 - alone as f64) / ROUNDS as f64));
    }
    Ok(times)
}

/// Runs a program on some CPUs, and returns a number of its outcome; 0 where it could not be run.
pub(super) fn measured(
    bench: &Bench,
    program: &Program,
    cpus: &[u32],
    number: impl Fn(&Outcome) -> u64,
) -> Result<u64, NativeError> {
    measured_with(bench, program, cpus, &RunOptions::default(), number)
}

fn measured_with(
    bench: &Bench,
    program: &Program,
    cpus: &[u32],
    options: &RunOptions,
    number: impl Fn(&Outcome) -> u64,
) -> Result<u64, NativeError> {
    let took = &bench.words[0];
    took.store(0, SeqCst);
    let supervisor = bench.helper(bench.here, Policy::Other, || {
        let outcome = set_affinity(0, cpus).ok().and_then(|()| run(program.clone(), options).ok());
        took.store(outcome.as_ref().map_or(0, &number), SeqCst);
    })?;
    supervisor.finish();
    Ok(took.load(SeqCst))
}

/// The names of tasks of families, and of their mark, latch and channel.
const MAIN: &str = "main";
const CHILD: &str = "child";
const START: &str = "start";
const READY: &str = "ready";

fn ready(step: fn(String, u32) -> Step) -> Step {
    step(READY.to_owned(), 1)
}

/// The steps of a task that reports that it has begun, and waits.
fn waiting() -> Vec<Step> {
    vec![ready(|channel, bytes| Step::Write { channel, bytes }), Step::AwaitLatch(START.into())]
}

/// A task that makes others, and these, which inherit its policy.
fn family(name: &str, kind: TaskKind, main: Vec<Step>, child: Vec<Step>, policy: Option<Policy>) -> Workload {
    let task =
        |name: &str, instances, kind, steps| Task { name: name.into(), instances, kind, steps, ..Task::default() };
    let attributes = policy.map(|policy| Attributes { policy, ..Attributes::default() });
    let main = Task { attributes, ..task(MAIN, 1, TaskKind::Process, main) };
    Workload {
        name: name.into(),
        channels: BTreeMap::from([(READY.to_owned(), Channel { kind: ChannelKind::Pipe })]),
        latches: vec![START.into()],
        tasks: vec![main, task(CHILD, 0, kind, child)],
        ..Workload::default()
    }
}

fn ending(kind: TaskKind) -> Workload {
    let read = ready(|channel, bytes| Step::Read { channel, bytes });
    let main = vec![
        Step::Fork { task: CHILD.into(), count: ENDING },
        Step::Loop { count: ENDING.into(), steps: vec![read] },
        Step::Mark(START.into()),
        Step::OpenLatch(START.into()),
        Step::Join,
    ];
    Workload { turnaround_from: Some(START.into()), ..family("endings", kind, main, waiting(), None) }
}
