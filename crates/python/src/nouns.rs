//! Workloads, schedulers, machines and times: read, checked and handed back as JSON.

use pyo3::prelude::*;
use schedlab_model::{
    Attributes, Costs, Duration, MAX_CPUS, Machine, Placement, Policy, Scheduler, Step, Task, ThreadWeights, Time,
    Workload,
};
use schedlab_program::Program;
use schedlab_sched::thread_fairness::{FACTOR_ONE, factor_fixed};

use crate::errors;

/// Nanoseconds of a time as a person writes it, such as `20ms`.
#[pyfunction]
pub fn parse_time(text: &str) -> PyResult<u64> {
    text.parse::<Time>().map(Time::as_nanos).map_err(errors::input)
}

/// A time as a person reads it, exactly: 20000000 is `20ms`.
#[pyfunction]
pub fn format_time(nanoseconds: u64) -> String {
    Time::from_nanos(nanoseconds).to_string()
}

/// A release with its knobs, its rule of thread weights and switched rules, each checked, as JSON.
#[pyfunction]
#[pyo3(signature = (release, hz, knobs, weights = "none", rules = Vec::new()))]
pub fn scheduler(
    release: &str,
    hz: u32,
    knobs: Vec<(String, String)>,
    weights: &str,
    rules: Vec<(String, bool)>,
) -> PyResult<String> {
    let mut scheduler = Scheduler::new(release.parse().map_err(errors::input)?);
    scheduler.hz = hz;
    scheduler.weights = weights.parse().map_err(errors::input)?;
    // What there is to set depends on the fair class.
    scheduler.rules = rules.into_iter().collect();
    scheduler.rule_set().map_err(errors::input)?;
    for (name, value) in &knobs {
        scheduler.set(name, value).map_err(errors::input)?;
    }
    scheduler.tunables(1).map_err(errors::input)?;
    serde_json::to_string(&scheduler).map_err(errors::json("scheduler"))
}

/// The factor of the rule for the weight of each of a process's threads, in fixed point as in the simulator.
#[pyfunction]
pub fn thread_weight_factor(rule: &str, threads: u32, online: u32) -> PyResult<f64> {
    let rule = rule.parse().map_err(errors::input)?;
    if threads == 0 || online == 0 {
        return Err(errors::input("threads and CPUs on line are counted from 1"));
    }
    Ok(f64::from(factor_fixed(rule, threads, online)) / f64::from(FACTOR_ONE))
}

/// The costs called `preset` (`ideal` or `linsched`), as JSON.
#[pyfunction]
pub fn costs(preset: &str) -> PyResult<String> {
    let costs = match preset {
        "ideal" => Costs::ideal(),
        "linsched" => Costs::linsched(),
        _ => return Err(errors::input(format!("no costs are called '{preset}'; built in: ideal, linsched"))),
    };
    serde_json::to_string(&costs).map_err(errors::json("costs"))
}

/// A machine with its costs checked and completed, as JSON.
#[pyfunction]
pub fn machine(text: &str) -> PyResult<String> {
    let machine: Machine = serde_json::from_str(text).map_err(errors::json("machine"))?;
    machine.validate().map_err(errors::input)?;
    serde_json::to_string(&machine).map_err(errors::json("machine"))
}

/// A workload as other work of a machine, checked, as JSON: its tasks are background tasks, and it has no end of its own.
#[pyfunction]
pub fn background(text: &str) -> PyResult<String> {
    let mut workload: Workload = serde_json::from_str(text).map_err(errors::json("background"))?;
    (workload.duration, workload.turnaround_from) = (None, None);
    workload.tasks.iter_mut().for_each(|task| task.background = true);
    // Background alone is no workload.
    let steps = vec![Step::Run(Duration::Fixed(Time::from_nanos(1)))];
    let any = Task { name: String::new(), instances: 1, steps, ..Task::default() };
    let own = Workload { name: workload.name.clone(), tasks: vec![any], ..Workload::default() };
    Program::compile(&own.beside(&workload, MAX_CPUS).map_err(errors::input)?).map_err(errors::input)?;
    serde_json::to_string(&workload).map_err(errors::json("background"))
}

/// Scheduling attributes, checked, as JSON.
#[pyfunction]
pub fn attributes(policy: &str, nice: i64, slice: Option<&str>, affinity: Vec<u32>) -> PyResult<String> {
    let policy: Policy = policy.parse().map_err(errors::input)?;
    let nice = i8::try_from(nice)
        .ok()
        .filter(|nice| (-20..=19).contains(nice))
        .ok_or_else(|| errors::input(format!("nice is {nice}; allowed: -20 to 19")))?;
    if nice != 0 && matches!(policy, Policy::Fifo(_) | Policy::Rr(_) | Policy::Deadline { .. }) {
        let why =
            format!("nice is {nice}, which has no effect under {policy}; allowed: 0, or one of other, batch, idle");
        return Err(errors::input(why));
    }
    let slice: Option<Time> = slice.map(str::parse).transpose().map_err(errors::input)?;
    if let Some(slice) = slice.filter(|slice| *slice < Time::from_micros(100) || *slice > Time::from_millis(100)) {
        return Err(errors::input(format!("slice is {slice}; allowed: 100us to 100ms")));
    }
    let attributes = Attributes { policy, nice, slice, affinity };
    serde_json::to_string(&attributes).map_err(errors::json("attributes"))
}

/// A note for the user about a rule of thread weights on so many CPUs, if there is one.
#[pyfunction]
pub fn weights_remark(weights: &str, cpus: u32) -> PyResult<Option<&'static str>> {
    Ok(weights.parse::<ThreadWeights>().map_err(errors::input)?.remark(cpus))
}

/// `workload` with its tasks in groups and sessions, each as [`Placement`] reads it.
#[pyfunction]
pub fn with_groups(workload: &str, groups: Vec<String>, sessions: Vec<String>) -> PyResult<String> {
    let workload: Workload = serde_json::from_str(workload).map_err(errors::json("workload"))?;
    let groups = groups.iter().map(|text| Placement::group(text));
    let placements = groups.chain(sessions.iter().map(|text| Placement::session(text))).collect::<Result<Vec<_>, _>>();
    let workload = placements.and_then(|placements| workload.with_placements(&placements)).map_err(errors::input)?;
    serde_json::to_string(&workload).map_err(errors::json("workload"))
}

/// `workload` with every task under `attributes`, both as JSON.
#[pyfunction]
pub fn with_attributes(workload: &str, attributes: &str) -> PyResult<String> {
    let workload: Workload = serde_json::from_str(workload).map_err(errors::json("workload"))?;
    let attributes: Attributes = serde_json::from_str(attributes).map_err(errors::json("attributes"))?;
    serde_json::to_string(&workload.with_attributes(&attributes)).map_err(errors::json("workload"))
}
