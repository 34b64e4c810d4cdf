//! A calibration has every cost and a probe every answer; their values depend on the machine.

#[expect(dead_code, reason = "every test file uses a part of it")]
mod common;

use common::native;
use schedlab_model::{Costs, Time};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let output = native().args(arguments).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON is printed")
}

/// The costs that a calibration measures.
fn measured(calibration: &Value) -> impl Iterator<Item = &str> {
    let several = calibration["cpus"].as_u64().is_some_and(|cpus| cpus > 1);
    // The costs of a look for the busiest CPU and of filling a last-level cache anew are not measured: they stay 0, as do those that only a
    // recording tells apart. RCU's thread may not be seen from a container, nor what a kernel that is locked down knows of its domains.
    let never = [
        "balance",
        "newidle",
        "cache_refill_llc",
        "idle_switch",
        "timer_switch",
        "put_prev",
        "grace_period",
        "steal",
        "steal_period",
        "unknown",
    ];
    let between = [
        "wakeup_select",
        "wakeup_remote",
        "wakeup_far",
        "schedule_far",
        "ipi",
        "ipi_idle",
        "ipi_halted",
        "ipi_taken",
        "idle_exit",
        "halt_exit",
        "idle_charged",
        "migration",
        "pipe_far",
        "pipe_far_message",
        "socket_far",
        "socket_far_write",
        "socket_far_read",
        "copy_far_per_kib",
    ];
    // Other work may preempt every ring of ordinary tasks, and keep readers from following their writer.
    let disturbed = ["wakeup_preempt", "wakeup_far", "schedule_far"];
    // Where virtual CPUs are held up often, too few interrupts are found alone in a task's time.
    let unknown = calibration["costs"]["unknown"].as_array().cloned().unwrap_or_default();
    let hidden = move |name: &str| name == "ipi_taken" && unknown.iter().any(|cost| cost == name);
    let names = calibration["costs"].as_object().into_iter().flat_map(|costs| costs.keys()).map(String::as_str);
    names.filter(move |name| {
        !never.contains(name) && !disturbed.contains(name) && !hidden(name) && (several || !between.contains(name))
    })
}

#[test]
fn a_calibration_measures_every_cost() {
    let mut calibration = json(&["calibrate", "--quick"]);
    // Beside other work a cost may stay unknown.
    for _ in 0..4 {
        if measured(&calibration).all(|name| calibration["spread"].get(name).is_some()) {
            break;
        }
        calibration = json(&["calibrate", "--quick"]);
    }
    let costs: Costs = serde_json::from_value(calibration["costs"].clone()).unwrap();
    // None of these can be free on any machine.
    for cost in [
        costs.switch,
        costs.wakeup,
        costs.system_call,
        costs.pipe_write,
        costs.pipe_read,
        costs.socket_write,
        costs.socket_read,
        costs.copy_per_kib,
        costs.fork_process,
        costs.fork_thread,
        costs.exit_process,
        costs.exit_thread,
        costs.reap,
    ] {
        assert!(cost > Time::ZERO, "{calibration:#}");
    }
    let spread = calibration["spread"].as_object().unwrap();
    for name in measured(&calibration) {
        let quartiles = spread.get(name).unwrap_or_else(|| unreachable!("{name} has no spread"));
        let value = |key: &str| quartiles[key].as_f64().unwrap();
        assert!(value("p25_ns") <= value("p75_ns"), "{name}: {quartiles}");
        assert!(quartiles["samples"].as_u64().unwrap() > 0, "{name}: {quartiles}");
    }
}

#[test]
fn a_probe_says_what_the_kernel_says() {
    let probe = json(&["probe"]);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(probe["release"], release.trim());
    assert!(!probe["cpus"].as_array().unwrap().is_empty());
    assert_eq!(probe["policies"].as_array().unwrap().len(), 5);
    for policy in probe["policies"].as_array().unwrap() {
        // What is not allowed comes with a reason.
        assert_eq!(policy["allowed"] == true, policy.get("why").is_none(), "{policy}");
    }
    // Linux is built with 100, 250, 300 or 1000 interrupts a second.
    assert!([100, 250, 300, 1000].contains(&probe["hz"].as_u64().unwrap()), "{probe}");
}
