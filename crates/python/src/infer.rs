//! Workloads from recordings, and how simulated runs behave beside them.

use std::path::PathBuf;

use pyo3::prelude::*;
use schedlab_infer::{Ending, Options as Wanted};
use schedlab_metrics::Behaviour;
use schedlab_model::{Costs, Time};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate};
use schedlab_workloads::rtapp;

use crate::simulate::Inputs;
use crate::{background, errors};

/// Infers a workload from a recording: the workload as rt-app's JSON, and as JSON what it was inferred from, how the kernel was set and how
/// the tasks behaved.
#[pyfunction]
#[pyo3(signature = (trace, name, costs, start=None, end=None, ending=None))]
pub fn infer(
    py: Python<'_>,
    trace: PathBuf,
    name: String,
    costs: &str,
    start: Option<&str>,
    end: Option<&str>,
    ending: Option<&str>,
) -> PyResult<(String, String)> {
    let costs: Costs = serde_json::from_str(costs).map_err(errors::json("costs"))?;
    let time = |text: Option<&str>| text.map(str::parse::<Time>).transpose().map_err(errors::input);
    let ending = match ending {
        None => None,
        Some("work") => Some(Ending::Work),
        Some("time") => Some(Ending::Time),
        Some(other) => return Err(errors::input(format!("a run ends by '{other}'; allowed: work, time"))),
    };
    let wanted = Wanted { name, costs, from: time(start)?, to: time(end)?, ending };
    let file = trace.display().to_string();
    let (text, inferred) = background::run(py, move |_| {
        let inferred = schedlab_infer::infer_file(&trace, &wanted)?;
        Program::compile(&inferred.workload)?;
        Ok::<_, schedlab_infer::InferError>((rtapp::export(&inferred.workload), inferred))
    })?
    .map_err(|error| match error.to_string() {
        // What cannot be opened is named already.
        text if text.starts_with(&file) => errors::input(text),
        text => errors::input(format!("{file}: {text}")),
    })?;
    let recorded = inferred.recorded.map(|recorded| {
        let knobs: serde_json::Map<String, serde_json::Value> =
            recorded.scheduler.knobs.iter().map(|(name, value)| (name.clone(), value.to_string().into())).collect();
        let (release, hz) = (recorded.scheduler.release.to_string(), recorded.scheduler.hz);
        serde_json::json!({"release": release, "hz": hz, "knobs": knobs, "cpus": recorded.cpus, "level": recorded.level})
    });
    let summary = serde_json::json!({
        "counts": inferred.counts, "ending": inferred.ending, "recorded": recorded,
        "phase_ns": inferred.phase.map_or(0, Time::as_nanos), "behaved": inferred.behaved, "limits": inferred.limits,
    });
    Ok((text, summary.to_string()))
}

/// Simulates one run, begun `phase` nanoseconds after a tick, and returns how the tasks behaved, as JSON: CPU time, switches and wake-up
/// latencies, from its events.
#[pyfunction]
#[pyo3(signature = (workload, scheduler, machine, seed, *, phase=0))]
pub fn behaviour(
    py: Python<'_>,
    workload: &str,
    scheduler: &str,
    machine: &str,
    seed: u64,
    phase: u64,
) -> PyResult<String> {
    let inputs = Inputs::read(workload, scheduler, machine)?;
    let behaved = background::run(py, move |abandoned| {
        let options = Options { seed, phase: Time::from_nanos(phase), cancel: Some(abandoned), ..Options::default() };
        let Inputs { program, scheduler, machine } = &inputs;
        let background = program.roots().map(|(template, _)| program.template(template).background).collect();
        let mut behaviour = Behaviour::beside(background);
        let outcome = simulate(program, scheduler, machine, &options, &mut behaviour).map_err(errors::simulation)?;
        let name =
            |task: schedlab_model::TaskId| outcome.tasks.get(task.index()).map_or("?", |task| &task.name).to_owned();
        let mut behaved = serde_json::to_value(behaviour.summary(Time::from_nanos(outcome.elapsed_ns), name))
            .map_err(errors::json("behaviour"))?;
        behaved["turnaround_ns"] = outcome.turnaround_ns.into();
        Ok::<_, PyErr>(behaved)
    })??;
    Ok(behaved.to_string())
}
