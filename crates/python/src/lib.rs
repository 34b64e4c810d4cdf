//! The bindings: `schedlab._core`. Structures cross as JSON, batches as NumPy arrays; the GIL is released while Rust works.

mod attribution;
mod background;
mod bench;
mod disturbance;
mod errors;
mod infer;
mod invariants;
mod knobs;
mod language;
mod nouns;
mod page;
mod policy;
mod reasons;
mod replay;
mod rules;
mod simulate;
mod wakeups;

use pyo3::prelude::*;

/// The core of schedlab, written in Rust.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    background::keep_panics();
    module.add_function(wrap_pyfunction!(nouns::parse_time, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::format_time, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::scheduler, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::thread_weight_factor, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::costs, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::machine, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::background, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::attributes, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::with_attributes, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::with_groups, module)?)?;
    module.add_function(wrap_pyfunction!(nouns::weights_remark, module)?)?;
    module.add_function(wrap_pyfunction!(disturbance::disturbance, module)?)?;
    module.add_function(wrap_pyfunction!(knobs::knobs, module)?)?;
    module.add_function(wrap_pyfunction!(knobs::release, module)?)?;
    module.add_function(wrap_pyfunction!(knobs::releases, module)?)?;
    module.add_function(wrap_pyfunction!(rules::rules, module)?)?;
    module.add_function(wrap_pyfunction!(rules::resolved_rules, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::workload, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::check_workload, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::workloads, module)?)?;
    module.add_function(wrap_pyfunction!(language::read_workload, module)?)?;
    module.add_function(wrap_pyfunction!(language::export_workload, module)?)?;
    module.add_function(wrap_pyfunction!(language::workload_schema, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate_many, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::standings, module)?)?;
    module.add_function(wrap_pyfunction!(bench::bench, module)?)?;
    module.add_function(wrap_pyfunction!(policy::simulate_policy, module)?)?;
    module.add_function(wrap_pyfunction!(invariants::check_invariants, module)?)?;
    module.add_function(wrap_pyfunction!(replay::replay, module)?)?;
    module.add_function(wrap_pyfunction!(infer::infer, module)?)?;
    module.add_function(wrap_pyfunction!(infer::behaviour, module)?)?;
    module.add_function(wrap_pyfunction!(page::answer_page, module)?)?;
    module.add_function(wrap_pyfunction!(attribution::attribute_run, module)?)?;
    module.add_function(wrap_pyfunction!(attribution::attribute_recording, module)?)?;
    module.add_function(wrap_pyfunction!(attribution::wait_lengths, module)?)?;
    module.add_function(wrap_pyfunction!(wakeups::wakeup_latency, module)?)?;
    Ok(())
}
