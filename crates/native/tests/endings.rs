//! No process is left, however a run ends.

#[expect(dead_code, reason = "every test file uses a part of it")]
mod common;

use std::process::{Child, Stdio};

use common::{await_processes, native, processes, refused, run, unique};

/// Starts tasks that compute for a minute, and waits until all are there beside their supervisor.
fn start(workload: &str, count: usize) -> (Child, u64) {
    let seed = unique();
    let mut command = native();
    command.args(["run", workload, "--seed", &seed.to_string()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    await_processes(seed, 1 + count);
    (child, seed)
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: our own child, which has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

#[test]
fn an_interrupt_ends_all_tasks() {
    for (number, name) in [(libc::SIGINT, "signal 2"), (libc::SIGTERM, "signal 15")] {
        let (child, seed) = start("hogs:tasks=3,time=60s", 3);
        signal(&child, number);
        refused(&child.wait_with_output().unwrap(), 130, &["interrupted", name]);
        assert!(processes(seed).is_empty());
    }
}

#[test]
fn workers_of_workers_end_too() {
    // Main and 4 workers, which pass messages for far longer than the test waits.
    let (child, seed) = start("hackbench:groups=1,fds=2,loops=1000000000", 5);
    signal(&child, libc::SIGINT);
    refused(&child.wait_with_output().unwrap(), 130, &["interrupted"]);
    assert!(processes(seed).is_empty());
}

#[test]
fn tasks_die_with_their_supervisor() {
    for (workload, count) in [("hogs:tasks=3,time=60s", 3), ("hackbench:groups=1,fds=2,loops=1000000000", 5)] {
        let (mut child, seed) = start(workload, count);
        child.kill().unwrap();
        child.wait().unwrap();
        await_processes(seed, 0);
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let seed = unique();
    let output = run("hogs:tasks=3,time=60s", &["--timeout", "100ms", "--seed", &seed.to_string()]);
    refused(&output, 1, &["did not end within 100ms"]);
    assert!(processes(seed).is_empty());
}

#[test]
fn tasks_in_sessions_end_too() {
    let hog = |session: &str| {
        format!(
            r#"{{"name": "{session}", "instances": 2, "session": "{session}", "steps": [{{"run": {{"fixed": "60s"}}}}]}}"#
        )
    };
    let file = std::env::temp_dir().join(format!("schedlab-sessions-{}.json", unique()));
    std::fs::write(&file, format!(r#"{{"name": "two", "tasks": [{}, {}]}}"#, hog("a"), hog("b"))).unwrap();
    let workload = file.to_str().unwrap();
    // Four tasks, and the leader of each of the two sessions.
    let (child, seed) = start(workload, 6);
    signal(&child, libc::SIGINT);
    refused(&child.wait_with_output().unwrap(), 130, &["interrupted"]);
    assert!(processes(seed).is_empty());
    let (mut child, seed) = start(workload, 6);
    child.kill().unwrap();
    child.wait().unwrap();
    await_processes(seed, 0);
    std::fs::remove_file(&file).unwrap();
}

/// The id that the newest process or thread of the machine has (`/proc/loadavg`).
fn newest() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").expect("/proc is mounted");
    text.split_whitespace().last().and_then(|word| word.parse().ok()).expect("it ends in an id")
}

#[test]
fn the_time_limit_counts_from_before_the_first_task() {
    // Six thousand processes take far longer to make than 20 ms: most of them never are. Ids are given in turn, up to pid_max.
    let (before, seed) = (newest(), unique());
    let output = run("hogs:tasks=6000,time=60s", &["--timeout", "20ms", "--seed", &seed.to_string()]);
    refused(&output, 1, &["did not end within 20ms"]);
    let most: u64 = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    assert!((newest() + most - before) % most < 6000);
    assert!(processes(seed).is_empty());
}
