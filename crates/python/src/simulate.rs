//! Simulated runs: one with all its details, or many at once.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use numpy::{PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use schedlab_model::{
    Attributes, Decision, Event, EventKind, KnobKind, KnobValue, Machine, NoEvents, Outcome, Scheduler, Standing,
    TaskId, TaskKind, Time, Workload, find_knob,
};
use schedlab_program::Program;
use schedlab_sched::{ThreadFair, ThreadFairKnobs};
use schedlab_sim::{Options, SimError};
use schedlab_trace::{PerfettoOptions, TaskLabel, write_ftrace, write_perfetto};

use crate::{background, errors, reasons};

/// Builds the workload that `text` names, as JSON.
#[pyfunction]
pub fn workload(text: &str) -> PyResult<String> {
    let workload = schedlab_workloads::parse(text).map_err(errors::input)?;
    serde_json::to_string(&workload).map_err(errors::json("workload"))
}

/// Checks a workload given as JSON and hands back its name, and it complete.
#[pyfunction]
pub fn check_workload(text: &str) -> PyResult<(String, String)> {
    let workload: Workload = serde_json::from_str(text).map_err(errors::json("workload"))?;
    Program::compile(&workload).map_err(errors::input)?;
    let complete = serde_json::to_string(&workload).map_err(errors::json("workload"))?;
    Ok((workload.name, complete))
}

/// The built-in workloads with their keys, as a JSON array.
#[pyfunction]
pub fn workloads() -> PyResult<String> {
    let rows: Vec<_> = schedlab_workloads::BUILDERS
        .iter()
        .map(|builder| {
            let keys: Vec<_> = builder.keys.iter().map(|key| {
                serde_json::json!({"name": key.name, "default": key.default, "allowed": key.kind.to_string(), "summary": key.summary})
            }).collect();
            serde_json::json!({"name": builder.name, "summary": builder.summary, "keys": keys})
        })
        .collect();
    serde_json::to_string(&rows).map_err(errors::json("workloads"))
}

pub(crate) struct Inputs {
    pub(crate) program: Program,
    pub(crate) scheduler: Scheduler,
    pub(crate) machine: Machine,
}

impl Inputs {
    pub(crate) fn read(workload: &str, scheduler: &str, machine: &str) -> PyResult<Self> {
        let workload: Workload = serde_json::from_str(workload).map_err(errors::json("workload"))?;
        let machine: Machine = serde_json::from_str(machine).map_err(errors::json("machine"))?;
        let workload = machine.with_background(workload).map_err(errors::input)?;
        Ok(Self {
            program: Program::compile(&workload).map_err(errors::input)?,
            scheduler: serde_json::from_str(scheduler).map_err(errors::json("scheduler"))?,
            machine,
        })
    }
}

pub(crate) fn options(seed: u64, [phase, origin]: [u64; 2], no_tick_skip: bool, cancel: &AtomicBool) -> Options<'_> {
    let [phase, origin] = [phase, origin].map(Time::from_nanos);
    Options { seed, phase, origin, no_tick_skip, cancel: Some(cancel), ..Options::default() }
}

/// Simulates one run and returns its outcome as JSON.
///
/// It begins `phase` nanoseconds after a tick, and its tasks' timers count from `origin` on. With `ext` the sched_ext scheduler of `crates/ext` is in the fair class's place. With `trace` the events go to that file, as ftrace text where `ftrace` is true and for Perfetto otherwise. With `decisions` each decision goes to that file with its reason, as JSON lines where `json_lines` is true.
#[pyfunction]
#[pyo3(signature = (workload, scheduler, machine, seed, *, phase=0, origin=0, trace=None, ftrace=false, decisions=None, json_lines=false, no_tick_skip=false, ext=false))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub fn simulate(
    py: Python<'_>,
    workload: &str,
    scheduler: &str,
    machine: &str,
    seed: u64,
    phase: u64,
    origin: u64,
    trace: Option<PathBuf>,
    ftrace: bool,
    decisions: Option<PathBuf>,
    json_lines: bool,
    no_tick_skip: bool,
    ext: bool,
) -> PyResult<String> {
    let inputs = Inputs::read(workload, scheduler, machine)?;
    let outcome = background::run(py, move |abandoned| {
        let options = options(seed, [phase, origin], no_tick_skip, abandoned);
        let mut events: Vec<Event> = Vec::new();
        let mut made: Vec<Decision> = Vec::new();
        let outcome = match (&trace, &decisions) {
            (None, None) => run_as(ext, &inputs, &options, &mut NoEvents),
            (Some(_), None) => run_as(ext, &inputs, &options, &mut events),
            (None, Some(_)) => run_as(ext, &inputs, &options, &mut made),
            (Some(_), Some(_)) => run_as(ext, &inputs, &options, &mut (&mut events, &mut made)),
        };
        let outcome = outcome.map_err(errors::simulation)?;
        if let Some(path) = trace {
            write(&path, ftrace, &inputs, &events, &outcome).map_err(errors::input)?;
        }
        if let Some(path) = decisions {
            let kernels = outcome.release == inputs.scheduler.release.to_string();
            let hybrid = (!kernels).then_some(outcome.release.as_str());
            reasons::write(&path, json_lines, hybrid, &made, &|candidate| outcome.name_of(candidate))
                .map_err(|error| errors::input(format!("{}: {error}", path.display())))?;
        }
        Ok::<_, PyErr>(outcome)
    })??;
    serde_json::to_string(&outcome).map_err(errors::json("outcome"))
}

/// A task's number, when, its vruntime and its lag, in nanoseconds.
type Told = (u32, u64, i64, Option<i64>);

/// Simulates one run and returns each fair task's virtual time and lag as it was switched in or out.
#[pyfunction]
pub fn standings(py: Python<'_>, workload: &str, scheduler: &str, machine: &str, seed: u64) -> PyResult<Vec<Told>> {
    let inputs = Inputs::read(workload, scheduler, machine)?;
    let found = background::run(py, move |abandoned| {
        let mut found: Vec<Standing> = Vec::new();
        run(&inputs, &options(seed, [0; 2], false, abandoned), &mut found).map_err(errors::simulation)?;
        Ok::<_, PyErr>(found)
    })??;
    Ok(found.into_iter().map(|one| (one.task.0, one.time.as_nanos(), one.vruntime, one.lag)).collect())
}

fn run<S: schedlab_model::EventSink>(
    inputs: &Inputs,
    options: &Options<'_>,
    sink: &mut S,
) -> Result<Outcome, SimError> {
    schedlab_sim::simulate(&inputs.program, &inputs.scheduler, &inputs.machine, options, sink)
}

fn run_as<S: schedlab_model::EventSink>(
    ext: bool,
    inputs: &Inputs,
    options: &Options<'_>,
    sink: &mut S,
) -> Result<Outcome, SimError> {
    if !ext {
        return run(inputs, options, sink);
    }
    let Inputs { program, scheduler, machine } = inputs;
    machine.topology.validate(machine.cpus)?;
    let caches: Vec<u32> = (0..machine.cpus).map(|cpu| machine.topology.cache(cpu, machine.cpus)).collect();
    let policy = ThreadFair::new(&caches, ThreadFairKnobs::default());
    schedlab_sim::simulate_policy(program, scheduler, machine, options, Box::new(policy), sink)
}

fn write(
    path: &Path,
    ftrace: bool,
    inputs: &Inputs,
    events: &[Event],
    outcome: &Outcome,
) -> Result<(), schedlab_trace::TraceError> {
    let io = |source| schedlab_trace::TraceError::Io { what: path.display().to_string(), source };
    let output = BufWriter::new(File::create(path).map_err(io)?);
    let labels = labels(&inputs.program, events, outcome);
    if ftrace {
        return write_ftrace(output, events, &labels, &outcome.release, outcome.cpus);
    }
    let options = PerfettoOptions { release: outcome.release.clone(), cpus: outcome.cpus };
    write_perfetto(output, events, &labels, &options)
}

/// Every task's name, priority and process: its template's, or what it took from its parent.
fn labels(program: &Program, events: &[Event], outcome: &Outcome) -> Vec<TaskLabel> {
    let mut parents = vec![TaskId::IDLE; outcome.tasks.len()];
    for event in events {
        if let EventKind::Fork { parent, child } = event.kind
            && let Some(slot) = parents.get_mut(child.index())
        {
            *slot = parent;
        }
    }
    let mut attributes: Vec<Attributes> = Vec::with_capacity(parents.len());
    let mut labels: Vec<TaskLabel> = Vec::with_capacity(parents.len());
    // Parents are made before their children.
    for (task, parent) in outcome.tasks.iter().zip(parents) {
        let template = program.template_of(&task.name);
        let own = template.and_then(|template| template.attributes.clone());
        let taken = own.or_else(|| attributes.get(parent.index()).cloned()).unwrap_or_default();
        let mut label = TaskLabel::new(&task.name).with_attributes(&taken);
        label.background = task.background;
        if template.is_some_and(|template| template.kind == TaskKind::Thread) && parent != TaskId::IDLE {
            label.process = labels.get(parent.index()).map(|above| above.process.unwrap_or(parent));
        }
        attributes.push(taken);
        labels.push(label);
    }
    labels
}

/// Simulates one run for each row of `values`, settings of `knobs` in nanoseconds, counts or 0/1, and returns the turnaround of each
/// in nanoseconds.
///
/// Runs are spread over all CPUs, or made one after the other where the process shares them with others like it. A run's result does not
/// depend on the others.
#[pyfunction]
#[pyo3(signature = (workload, scheduler, machine, knobs, values, seed, *, in_turn=false))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keyword arguments")]
pub fn simulate_many<'py>(
    py: Python<'py>,
    workload: &str,
    scheduler: &str,
    machine: &str,
    knobs: Vec<String>,
    values: PyReadonlyArray2<'py, i64>,
    seed: u64,
    in_turn: bool,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let inputs = Inputs::read(workload, scheduler, machine)?;
    let values = values.as_array();
    if values.ncols() != knobs.len() {
        return Err(errors::input(format!("values has {} columns for {} knobs", values.ncols(), knobs.len())));
    }
    let mut schedulers = Vec::with_capacity(values.nrows());
    for row in values.rows() {
        let mut scheduler = inputs.scheduler.clone();
        for (name, value) in knobs.iter().zip(row) {
            set(&mut scheduler, name, *value)?;
        }
        schedulers.push(scheduler);
    }
    let results = background::run(py, move |abandoned| {
        let options = options(seed, [0; 2], false, abandoned);
        let simulate = if in_turn { schedlab_sim::simulate_in_turn } else { schedlab_sim::simulate_many };
        simulate(&inputs.program, &schedulers, &inputs.machine, &options)
    })?;
    let mut turnarounds = Vec::with_capacity(results.len());
    for result in results {
        let turnaround = result.map_err(errors::simulation)?.turnaround;
        turnarounds.push(i64::try_from(turnaround.as_nanos()).unwrap_or(i64::MAX));
    }
    Ok(PyArray1::from_vec(py, turnarounds))
}

/// Sets a knob from its number, without the detour through text.
fn set(scheduler: &mut Scheduler, name: &str, value: i64) -> PyResult<()> {
    if name.starts_with("feature.") {
        return scheduler.set(name, &value.to_string()).map_err(errors::input);
    }
    let knob = find_knob(name).map_err(errors::input)?;
    let number = u64::try_from(value).unwrap_or(u64::MAX);
    let value = match knob.kind {
        KnobKind::Time { .. } => KnobValue::Time(Time::from_nanos(number)),
        KnobKind::Count { .. } => KnobValue::Count(number),
        KnobKind::Switch if number <= 1 => KnobValue::Switch(number == 1),
        KnobKind::Switch => return Err(errors::input(format!("knob '{name}' = {value}: allowed: 0 or 1"))),
    };
    scheduler.knobs.insert(name.to_owned(), value);
    Ok(())
}
