//! How fast the simulator is here.

use std::sync::atomic::Ordering::Relaxed;

use pyo3::prelude::*;
use schedlab_model::Machine;
use schedlab_sim::speed::{SCENARIOS, Scenario, Set, facts, measure, measure_batch};

use crate::{background, errors};

/// The sets of scenarios beside single ones' names.
const SETS: [(&str, Set); 5] = [
    ("basic", Set::Basic),
    ("typical", Set::Typical),
    ("floor", Set::Floor),
    ("scaling", Set::Scaling),
    ("large", Set::Large),
];

/// Measures the scenarios of these names or sets (`batch` among them), each `repeats` times, and returns the figures as JSON. The typical
/// scenarios have the costs of `machine`.
#[pyfunction]
pub fn bench(py: Python<'_>, names: Vec<String>, repeats: usize, machine: &str) -> PyResult<String> {
    let machine: Machine = serde_json::from_str(machine).map_err(errors::json("machine"))?;
    if repeats == 0 {
        return Err(errors::input("repeats = 0 is out of range; allowed: 1 or more"));
    }
    let mut chosen: Vec<&'static Scenario> = Vec::new();
    let mut batch = false;
    for name in &names {
        if let Some((_, set)) = SETS.iter().find(|(word, _)| word == name) {
            chosen.extend(SCENARIOS.iter().filter(|scenario| scenario.set == *set));
        } else if name == "batch" {
            batch = true;
        } else {
            let known = SCENARIOS.iter().map(|scenario| scenario.name).chain(SETS.map(|(word, _)| word));
            let allowed = known.chain(["batch"]).collect::<Vec<_>>().join(", ");
            let unknown = || errors::input(format!("there is no scenario '{name}'; allowed: {allowed}"));
            chosen.push(Scenario::find(name).ok_or_else(unknown)?);
        }
    }
    let (scenarios, batch) = background::run(py, move |abandoned| {
        let scenarios =
            measure(&chosen, repeats, &machine.costs, |_| !abandoned.load(Relaxed)).map_err(errors::input)?;
        let batch = batch.then(|| measure_batch(1_000, 2, repeats)).transpose().map_err(errors::input)?;
        PyResult::Ok((scenarios, batch))
    })??;
    let mut value = serde_json::json!({"machine": facts(), "scenarios": scenarios});
    if let Some(batch) = batch {
        value["batch"] = serde_json::to_value(batch).map_err(errors::json("batch"))?;
    }
    Ok(value.to_string())
}
