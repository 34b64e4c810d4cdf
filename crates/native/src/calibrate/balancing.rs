//! What balancing costs, as the kernel's own clock has it.

use std::fs::{read_dir, read_to_string, write};
use std::path::Path;

/// Where the scheduler says what it knows of its domains (`sched_debug`, since 5.13); below it `verbose` says whether it does.
const SCHED: &str = "/sys/kernel/debug/sched";

/// What newly idle balancing cost at most in each CPU's lowest domain (`max_newidle_lb_cost`), in nanoseconds: none where the kernel does not say,
/// or keeps it from its users (lockdown).
pub(crate) fn newidle() -> Vec<f64> {
    let verbose = Path::new(SCHED).join("verbose");
    let Ok(before) = read_to_string(&verbose) else { return Vec::new() };
    let silent = before.trim() == "N";
    if silent && write(&verbose, "Y").is_err() {
        return Vec::new();
    }
    let found = lowest_domains();
    if silent {
        // It was written a moment ago.
        let _ = write(&verbose, before);
    }
    found
}

fn lowest_domains() -> Vec<f64> {
    let Ok(cpus) = read_dir(Path::new(SCHED).join("domains")) else { return Vec::new() };
    let costs = cpus.flatten().map(|cpu| cpu.path().join("domain0/max_newidle_lb_cost"));
    costs.filter_map(|path| read_to_string(path).ok()?.trim().parse().ok()).collect()
}
