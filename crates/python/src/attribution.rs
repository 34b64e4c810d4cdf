//! Where the waiting time of a run or a recording went.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pyo3::prelude::*;
use rayon::prelude::*;
use schedlab_metrics::{Attribution, Metrics, Names, Summary, WaitLengths, Waits, nearest_rank};
use schedlab_model::{Candidate, Event, Release, TaskId, Time};
use schedlab_replay::{Level, Options as Replayed};
use schedlab_sched::Rules;

use crate::simulate::{Inputs, options};
use crate::{background, errors};

/// What the names of equal tasks have in common: `sender` of `sender.g0[3]`, and `cc1` of a recording's `cc1[4711]`.
fn kind(name: &str) -> String {
    name.split(['.', '[']).next().filter(|kind| !kind.is_empty()).unwrap_or(name).to_owned()
}

/// What is asked of the waits.
struct Wanted {
    task: Option<String>,
    percentile: f64,
    worst: usize,
}

impl Wanted {
    fn summary(&self, waits: &Waits, events: &[Event], one: &dyn Fn(Candidate) -> String) -> PyResult<Summary> {
        let name = |task: TaskId| one(Candidate::Task(task));
        let Some(wanted) = &self.task else {
            let names = Names { one, kind: &|task| kind(&name(task)) };
            let all = Summary::of(waits, events, &names, &|_| true, self.percentile, 0);
            // The kind that waited longest is the one whose worst waits are shown.
            let first = all.tasks.first().map(|task| task.name.clone());
            let select = |task: TaskId| Some(kind(&name(task))) == first;
            return Ok(Summary::of(waits, events, &names, &select, self.percentile, self.worst));
        };
        let known: BTreeSet<TaskId> = waits.iter().map(|wait| wait.task).collect();
        let is_one = known.iter().any(|task| name(*task) == *wanted);
        let is_kind = known.iter().any(|task| kind(&name(*task)) == *wanted);
        if !is_one && !is_kind {
            let kinds: BTreeSet<String> = known.iter().map(|task| kind(&name(*task))).collect();
            let mut allowed: Vec<String> = kinds.into_iter().collect();
            if allowed.len() > 12 {
                allowed.truncate(12);
                allowed.push("…".to_owned());
            }
            return Err(errors::input(format!("no task '{wanted}' waited; allowed: {}", allowed.join(", "))));
        }
        // One task of a kind stands for itself, beside the others of its kind.
        let kind_of = |task: TaskId| if name(task) == *wanted { wanted.clone() } else { kind(&name(task)) };
        let names = Names { one, kind: &kind_of };
        Ok(Summary::of(waits, events, &names, &|task| kind_of(task) == *wanted, self.percentile, self.worst))
    }
}

/// Simulates one run and returns where its tasks' waiting time went, as JSON: by task and by cause, and the `worst` waits of `task`, a task
/// or the name that several have in common.
#[pyfunction]
#[pyo3(signature = (workload, scheduler, machine, seed, *, phase=0, origin=0, task=None, percentile=99.0, worst=10))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub fn attribute_run(
    py: Python<'_>,
    workload: &str,
    scheduler: &str,
    machine: &str,
    seed: u64,
    phase: u64,
    origin: u64,
    task: Option<String>,
    percentile: f64,
    worst: usize,
) -> PyResult<String> {
    let inputs = Inputs::read(workload, scheduler, machine)?;
    let wanted = Wanted { task, percentile, worst };
    let summary = background::run(py, move |abandoned| {
        let Inputs { program, scheduler, machine } = &inputs;
        let rules = Rules::new(scheduler, machine.cpus).map_err(errors::input)?;
        let mut sinks = (Attribution::new(machine.cpus, &rules.set), Vec::<Event>::new());
        let options = options(seed, [phase, origin], false, abandoned);
        let outcome =
            schedlab_sim::simulate(program, scheduler, machine, &options, &mut sinks).map_err(errors::simulation)?;
        let (attribution, events) = sinks;
        let mut waits = attribution.finish(Time::from_nanos(outcome.elapsed_ns));
        waits.retain(|task| !outcome.is_background(task));
        let summary = wanted.summary(&waits, &events, &|candidate| outcome.name_of(candidate))?;
        let mut value = serde_json::to_value(&summary).map_err(errors::json("summary"))?;
        value["events"] = events.len().into();
        value["elapsed_ns"] = outcome.elapsed_ns.into();
        Ok::<_, PyErr>(value)
    })??;
    Ok(summary.to_string())
}

/// Replays a recording and returns where its tasks' waiting time went, as [`attribute_run`] does; with the replay's report beside it.
#[pyfunction]
#[pyo3(signature = (trace, *, snapshot=None, release=None, level=None, task=None, percentile=99.0, worst=10))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub fn attribute_recording(
    py: Python<'_>,
    trace: PathBuf,
    snapshot: Option<PathBuf>,
    release: Option<&str>,
    level: Option<&str>,
    task: Option<String>,
    percentile: f64,
    worst: usize,
) -> PyResult<String> {
    let release: Option<Release> = release.map(str::parse).transpose().map_err(errors::input)?;
    let level: Option<Level> = level.map(str::parse).transpose().map_err(errors::input)?;
    let wanted = Wanted { task, percentile, worst };
    let file = trace.display().to_string();
    let value = background::run(py, move |_| {
        let options = Replayed { snapshot: snapshot.as_deref(), release, level, reasons: true };
        let found = schedlab_replay::attribute_file(&trace, &options).map_err(|error| match error.to_string() {
            // What cannot be opened is named already.
            text if text.starts_with(&file) => errors::input(text),
            text => errors::input(format!("{file}: {text}")),
        })?;
        let summary = wanted.summary(&found.waits, &found.events, &|candidate| found.name_of(candidate))?;
        let mut value = serde_json::to_value(&summary).map_err(errors::json("summary"))?;
        value["events"] = found.events.len().into();
        value["elapsed_ns"] = found.report.span_ns.into();
        value["cpus"] = found.cpus.into();
        value["release"] = found.report.release.clone().into();
        value["level"] = found.report.level.to_string().into();
        value["notes"] = found.report.notes.clone().into();
        Ok::<_, PyErr>(value)
    })??;
    Ok(value.to_string())
}

/// Simulates a run for each pair of a seed and a phase, on all CPUs, and returns as JSON what each came to: turnaround, switches, and by kind
/// of task how long it ran and waited, with the exact percentile of its waits (from wake-ups, where it has any).
#[pyfunction]
pub fn wait_lengths(
    py: Python<'_>,
    workload: &str,
    scheduler: &str,
    machine: &str,
    runs: Vec<(u64, u64)>,
    percentile: f64,
) -> PyResult<String> {
    let inputs = Inputs::read(workload, scheduler, machine)?;
    let found = background::run(py, move |abandoned| {
        let one = |(seed, phase): &(u64, u64)| {
            let Inputs { program, scheduler, machine } = &inputs;
            let mut sinks = (WaitLengths::default(), Metrics::default());
            let options = options(*seed, [*phase, 0], false, abandoned);
            let outcome = schedlab_sim::simulate(program, scheduler, machine, &options, &mut sinks)
                .map_err(errors::simulation)?;
            let (lengths, metrics) = sinks;
            let end = Time::from_nanos(outcome.elapsed_ns).max(metrics.last());
            let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
            let names: Vec<String> = outcome.tasks.iter().map(|task| kind(&task.name)).collect();
            let of = |task: TaskId| names.get(task.index()).cloned().unwrap_or_default();
            let own = |task: &TaskId| !outcome.is_background(*task);
            for task in (0..metrics.tasks() as u32).map(TaskId).filter(own) {
                if let Some(metrics) = metrics.task(task, end) {
                    let entry = kinds.entry(of(task)).or_default();
                    entry.tasks += 1;
                    entry.run += metrics.run.as_nanos();
                    entry.wait += metrics.wait.as_nanos();
                }
            }
            for (task, woken, length) in lengths.ended().iter().filter(|(task, ..)| own(task)) {
                let entry = kinds.entry(of(*task)).or_default();
                let list = if *woken { &mut entry.woken } else { &mut entry.others };
                list.push(*length);
            }
            let tasks: serde_json::Map<String, serde_json::Value> =
                kinds.into_iter().map(|(name, kind)| (name, kind.json(percentile))).collect();
            Ok::<_, PyErr>(serde_json::json!({
                "turnaround_ns": outcome.turnaround_ns, "switches": outcome.switches, "elapsed_ns": outcome.elapsed_ns,
                "messages": outcome.messages, "tasks": tasks,
            }))
        };
        runs.par_iter().map(one).collect::<PyResult<Vec<_>>>()
    })??;
    serde_json::to_string(&found).map_err(errors::json("runs"))
}

/// What the tasks of a kind came to, in nanoseconds.
#[derive(Default)]
struct Kind {
    tasks: u64,
    run: u64,
    wait: u64,
    woken: Vec<u64>,
    others: Vec<u64>,
}

impl Kind {
    fn json(self, percentile: f64) -> serde_json::Value {
        let wakeups = self.woken.len();
        let mut lengths = if wakeups > 0 { self.woken } else { self.others };
        lengths.sort_unstable();
        let mean = lengths.iter().sum::<u64>() / (lengths.len() as u64).max(1);
        serde_json::json!({
            "tasks": self.tasks, "run_ns": self.run, "wait_ns": self.wait, "wakeups": wakeups,
            "percentile_ns": nearest_rank(&lengths, percentile), "mean_ns": mean,
        })
    }
}
