//! Impossible requests are refused in one line, and leave nothing behind.

#[expect(dead_code, reason = "every test file uses a part of it")]
mod common;

use std::process::Command;

use common::{feed, feed_text, native, processes, refused, run, unique, with_limit, without_capability};
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
fn a_forked_task_of_another_session_is_refused() {
    // The kernel has no call by which a process joins a session.
    let text =
        r#"{"tasks": {"t": {"loop": 1, "fork": "u"}, "u": {"instance": 0, "loop": 1, "run": 1, "session": "tty1"}}}"#;
    let output = feed_text(native().args(["run", "-"]), text);
    refused(&output, 2, &["group: 'tty1'", "'u' is forked by 't'", "the session it is born in"]);
}

#[test]
fn what_this_machine_has_not_is_refused_in_one_line() {
    let text = |task: &str, rest: &str| format!(r#"{{"tasks": {{"t": {{"loop": 1, {task}, "run": 1}}}}{rest}}}"#);
    let file = |size: u64| format!(r#", "resources": {{"f": {{"type": "file", "size": {size}}}}}"#);
    for (text, parts) in [
        (
            text(r#""write_file": {"file": "f", "bytes": 1}"#, &file(1 << 40)),
            &["file 'f' of 1099511627776 bytes", "--directory"][..],
        ),
        (
            text(r#""submit_write": {"file": "f", "bytes": 1000, "depth": 1}"#, &file(10_000)),
            &["'f'", "1000 bytes", "multiple of 4096"][..],
        ),
        (
            text(r#""memrun": {"type": "read", "size": 17179869184, "count": 1}, "instance": 1000"#, ""),
            &["touches 17179869184000 bytes", "available"],
        ),
        (text(r#""iorun": 1"#, r#", "global": {"io_device": "/nonexistent/x"}"#), &["/nonexistent/x", "io_device"]),
        (text(r#""nodes_membind": [900]"#, ""), &["task 't'", "NUMA"]),
        (text(r#""cpus": [4000]"#, ""), &["task 't'", "CPUs 4000"]),
        (text(r#""instance": 1000000"#, ""), &["1000000 tasks"]),
    ] {
        refused(&feed_text(native().args(["run", "-"]), &text), 2, parts);
    }
}

#[test]
fn bad_input_is_refused() {
    refused(&run("hackbench:groups=0", &[]), 2, &["groups = '0'", "1 to 100000"]);
    refused(&run("/nonexistent/workload.json", &[]), 2, &["/nonexistent/workload.json", "No such file", "hackbench"]);
    refused(&run(env!("CARGO_MANIFEST_PATH"), &[]), 2, &["Cargo.toml", "line 1"]);
    let mut forever = one_task(Attributes::default());
    forever.tasks[0].steps = vec![Step::Fork { task: "t".into(), count: 1 }];
    refused(&feed(native().args(["run", "-"]), &forever), 2, &["task 't'", "lead back to itself"]);
    // What the command line's parser refuses, it explains in more than one line.
    let output = run("pipe", &["--timeout", "5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no unit"));
}
