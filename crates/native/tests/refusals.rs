//! What cannot be done is refused in one line, and nothing is left behind.

#[expect(dead_code, reason = "every test file uses a part of it")]
mod common;

use std::process::Command;

use common::{feed, native, processes, refused, run, unique, with_limit, without_capability};
use schedlab_model::{Attributes, Duration, Policy, Step, Task, TaskKind, Time, Workload};

const CAP_SYS_NICE: u64 = 23;

fn one_task(attributes: Attributes) -> Workload {
    let steps = vec![Step::Run(Duration::Fixed(Time::from_millis(1)))];
    Workload {
        name: "test".into(),
        channels: Default::default(),
        latches: vec![],
        tasks: vec![Task {
            name: "t".into(),
            instances: 3,
            kind: TaskKind::Process,
            attributes: Some(attributes),
            steps,
            ..Task::default()
        }],
        ..Workload::default()
    }
}

/// A command that may set nothing special, and a number by which its processes are found.
fn unprivileged() -> (Command, u64) {
    let seed = unique();
    let mut command = native();
    command.args(["run", "-", "--seed", &seed.to_string()]);
    without_capability(&mut command, CAP_SYS_NICE);
    with_limit(&mut command, libc::RLIMIT_RTPRIO, 0);
    with_limit(&mut command, libc::RLIMIT_NICE, 0);
    (command, seed)
}

#[test]
fn a_policy_without_permission_is_refused() {
    for (attributes, parts) in [
        (
            Attributes { policy: Policy::Fifo(50), ..Attributes::default() },
            ["task 't'", "policy fifo:50", "CAP_SYS_NICE", "RLIMIT_RTPRIO of at least 50"],
        ),
        (
            // 20 − (−7) = 27.
            Attributes { nice: -7, ..Attributes::default() },
            ["task 't'", "nice -7", "CAP_SYS_NICE", "RLIMIT_NICE of at least 27"],
        ),
    ] {
        let (mut command, seed) = unprivileged();
        refused(&feed(&mut command, &one_task(attributes)), 2, &parts);
        assert!(processes(seed).is_empty());
    }
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    let attributes = Attributes { affinity: vec![4095], ..Attributes::default() };
    let output = feed(native().args(["run", "-"]), &one_task(attributes));
    refused(&output, 2, &["task 't'", "CPUs 4095", "here are CPUs 0"]);
}

#[test]
fn too_many_files_are_refused() {
    // 5 groups × 20 channels and the ready channel, and a latch, of 2 descriptors each, and 16 to spare.
    let mut command = native();
    command.args(["run", "hackbench:groups=5"]);
    let output = with_limit(&mut command, libc::RLIMIT_NOFILE, 100).output().unwrap();
    refused(&output, 2, &["hackbench", "needs 220 file descriptors", "at most 100"]);
}

#[test]
fn groups_are_refused() {
    let mut workload = one_task(Attributes::default());
    workload.groups.insert("/g".into(), schedlab_model::Group::default());
    refused(&feed(native().args(["run", "-"]), &workload), 2, &["group: '/g'", "not yet"]);
    let mut workload = one_task(Attributes::default());
    workload.tasks[0].session = Some("tty1".into());
    refused(&feed(native().args(["run", "-"]), &workload), 2, &["group: 'tty1'", "not yet"]);
}

#[test]
fn bad_input_is_refused() {
    refused(&run("hackbench:groups=0", &[]), 2, &["groups = '0'", "1 to 100000"]);
    refused(&run("/nonexistent/workload.json", &[]), 2, &["/nonexistent/workload.json", "No such file", "hackbench"]);
    refused(&run(env!("CARGO_MANIFEST_PATH"), &[]), 2, &["Cargo.toml", "no workload", "line 1"]);
    let mut forever = one_task(Attributes::default());
    forever.tasks[0].steps = vec![Step::Fork { task: "t".into(), count: 1 }];
    refused(&feed(native().args(["run", "-"]), &forever), 2, &["task 't'", "lead back to itself"]);
    // What the command line's parser refuses, it explains in more than one line.
    let output = run("pipe", &["--timeout", "5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no unit"));
}
