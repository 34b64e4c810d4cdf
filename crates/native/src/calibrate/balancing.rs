//! What balancing costs, as the kernel's own clock has it.

use std::fs::{read_dir, read_to_string};

/// Where the scheduler shows its domains (`sched_debug`, since 5.13): none as long as `verbose` beside it is off, which guests have on.
const DOMAINS: &str = "/sys/kernel/debug/sched/domains";

/// What newly idle balancing cost at most in each CPU's lowest domain (`max_newidle_lb_cost`), in nanoseconds: none where the kernel does not show it,
/// or keeps it from its users (lockdown).
pub(crate) fn newidle() -> Vec<f64> {
    let Ok(cpus) = read_dir(DOMAINS) else { return Vec::new() };
    let costs = cpus.flatten().map(|cpu| cpu.path().join("domain0/max_newidle_lb_cost"));
    costs.filter_map(|path| read_to_string(path).ok()?.trim().parse().ok()).collect()
}
