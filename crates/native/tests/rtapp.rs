//! rt-app's events on the running kernel do what they say, and nothing of a run is left behind.

#[expect(dead_code, reason = "every test file uses a part of it")]
mod common;

use std::path::Path;
use std::process::Stdio;

use common::{await_processes, native, near, outcome_of_text, processes, undisturbed, unique};
use schedlab_model::{Outcome, TaskOutcome};

fn task<'a>(outcome: &'a Outcome, name: &str) -> &'a TaskOutcome {
    outcome.tasks.iter().find(|task| task.name == name).unwrap_or_else(|| unreachable!("task '{name}' is there"))
}

#[test]
fn tasks_that_wake_each_other_take_turns() {
    // A semaphore remembers: three posts, three rounds. A barrier lets both go on, twice.
    let outcome = undisturbed(|| {
        outcome_of_text(
            r#"{"tasks": {
            "giver": {"loop": 3, "run": 1000, "sem_post": "s", "barrier": "b"},
            "taker": {"loop": 3, "sem_wait": "s", "run": 2000, "barrier": "b"},
            "holder": {"loop": 1, "lock": "m", "run": 3000, "broad": "c", "unlock": "m"},
            "other": {"loop": 1, "lock": "m", "run": 500, "unlock": "m"}}}"#,
            &[],
        )
    });
    near(task(&outcome, "giver").run_ns, 3_000_000, 3);
    near(task(&outcome, "taker").run_ns, 6_000_000, 3);
    near(task(&outcome, "holder").run_ns, 3_000_000, 1);
    near(task(&outcome, "other").run_ns, 500_000, 1);
    assert!(outcome.latencies.get("wakeup s").is_none_or(|latency| (1..=3).contains(&latency.count)));
}

#[test]
fn a_timer_keeps_its_period_and_a_run_its_duration() {
    // 20 ms of 10 ms periods: the timer expires twice, and the third expiry comes after the end. A delayed task's timers begin later.
    // Both count from the run's start, which a task may be late for: the run's length tells, not a task's life.
    let periodic = r#"{"tasks": {"t": {"loop": 3, "run": 1000, "timer": {"ref": "unique", "period": 10000}}}}"#;
    let outcome = outcome_of_text(periodic, &[]);
    assert!(outcome.elapsed_ns >= 30_000_000, "{outcome:?}");
    let late = r#"{"tasks": {"t": {"delay": 25000, "loop": 1, "run": 1000,
        "timer": {"ref": "unique", "period": 10000, "mode": "absolute"}}}}"#;
    let outcome = outcome_of_text(late, &[]);
    assert!(outcome.elapsed_ns >= 35_000_000, "{outcome:?}");
    let cut = outcome_of_text(
        r#"{"tasks": {"for_ever": {"run": 1000, "sleep": 1000}, "waits": {"loop": 1, "suspend": "", "run": 1}},
            "global": {"duration": "80ms"}}"#,
        &[],
    );
    assert!(cut.elapsed_ns >= 80_000_000, "{cut:?}");
    assert!(task(&cut, "for_ever").run_ns > 1_000_000 && task(&cut, "waits").run_ns < 10_000_000, "{cut:?}");
}

#[test]
fn a_task_that_is_made_in_the_run_waits_from_then_on() {
    // It has its maker's policy and CPU as it is made, where it waits until that has computed for 20 ms.
    let outcome = outcome_of_text(
        r#"{"tasks": {
            "parent": {"policy": "SCHED_FIFO", "priority": 5, "cpus": [0], "loop": 1, "fork": "child", "run": 20000},
            "child": {"instance": 0, "cpus": [0], "loop": 1, "run": 500}}}"#,
        &["--delays"],
    );
    assert!(task(&outcome, "child").wait_ns >= 15_000_000, "{outcome:?}");
}

#[test]
fn requests_files_and_memory_are_real() {
    let directory = std::env::temp_dir();
    let outcome = outcome_of_text(
        r#"{"resources": {"f": {"type": "file", "size": 1048576, "open": "sync"}},
            "tasks": {
                "server": {"instance": 2, "kind": "process", "loop": 6, "accept": {"port": "p", "bytes": 100}, "run": 200, "reply": 30000},
                "client": {"instance": 4, "loop": 3, "start": "asked", "request": {"port": "p", "bytes": 100, "reply": 30000}, "stop": "asked"},
                "disk": {"loop": 4, "write_file": {"file": "f", "bytes": 4096}, "read_file": {"file": "f", "bytes": 4096, "offset": "random"}},
                "memory": {"loop": 2, "mem": 100000, "iorun": 100000, "memrun": {"type": "chase", "size": 65536, "count": 1000},
                    "memrun2": {"type": "write", "size": 4096, "count": 10000, "ref": "shared"}}}}"#,
        &["--directory", &directory.to_string_lossy()],
    );
    // 4 clients ask 3 times each; a request and a reply are a message each.
    assert_eq!(outcome.messages, 2 * 12);
    assert_eq!(outcome.bytes, 12 * (100 + 30_000));
    let asked = outcome.latencies["asked"];
    assert_eq!(asked.count, 12);
    // No reply comes before its server has computed.
    assert!(asked.p50_ns >= 150_000 && asked.max_ns >= asked.p99_ns, "{asked:?}");
    assert!(outcome.tasks.iter().all(|task| task.run_ns > 0));
}

#[test]
fn forks_and_changes_of_policy_are_made() {
    let outcome = undisturbed(|| {
        outcome_of_text(
            r#"{"tasks": {
            "parent": {"loop": 2, "phases": {"a": {"policy": "SCHED_BATCH", "fork": "child", "run": 1000},
                                             "b": {"policy": "SCHED_OTHER", "nice": 3, "run": 1000}}},
            "child": {"instance": 0, "loop": 1, "run": 500}}}"#,
            &[],
        )
    });
    let names: Vec<&str> = outcome.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["parent", "child[0]", "child[1]"]);
    // Making a thread takes it a while too.
    near(outcome.tasks[0].run_ns, 4_000_000, 4 + 2);
    near(outcome.tasks[1].run_ns, 500_000, 1);
}

/// The run's cgroups, where there is a controller for them.
fn cgroups(process: u32) -> Option<std::path::PathBuf> {
    // The mark of its owner: process, start time, PID namespace.
    let name = format!("schedlab-{process}-");
    let mounts = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];
    fn find(directory: &Path, name: &str, depth: u32) -> Option<std::path::PathBuf> {
        let entries = std::fs::read_dir(directory).ok()?.flatten().filter(|entry| entry.path().is_dir());
        let mut deeper = Vec::new();
        for entry in entries {
            if entry.file_name().to_string_lossy().starts_with(name) {
                return Some(entry.path());
            }
            deeper.push(entry.path());
        }
        if depth == 0 { None } else { deeper.iter().find_map(|path| find(path, name, depth - 1)) }
    }
    mounts.iter().find_map(|mount| find(Path::new(mount), &name, 3))
}

const GROUPS: &str = r#"{"tasks": {
    "a": {"taskgroup": "/g/a", "cpus": [0], "run": 1000},
    "b": {"taskgroup": "/g/b", "cpus": [0], "phases": {"one": {"run": 1000}, "two": {"taskgroup": "/g/a", "run": 1000}}}},
    "groups": {"/g/b": {"weight": 300}}, "global": {"duration": DURATION}}"#;

#[test]
fn groups_are_cgroups_and_are_gone_afterwards() {
    let seed = unique();
    for signal in [None, Some(libc::SIGINT), Some(libc::SIGTERM), Some(libc::SIGKILL)] {
        let mut command = native();
        command.args(["run", "-", "--seed", &seed.to_string()]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let duration = if signal.is_some() { "60" } else { "\"100ms\"" };
        let text = GROUPS.replace("DURATION", duration);
        std::io::Write::write_all(&mut child.stdin.take().expect("it is piped"), text.as_bytes()).expect("it reads");
        let process = child.id();
        if let Some(signal) = signal {
            let start = std::time::Instant::now();
            let refused = loop {
                if cgroups(process).is_some() {
                    break false;
                }
                if child.try_wait().expect("it is ours").is_some() {
                    break true;
                }
                assert!(start.elapsed() < std::time::Duration::from_secs(10), "neither cgroups nor an end");
                std::thread::sleep(std::time::Duration::from_millis(2));
            };
            if refused {
                let output = child.wait_with_output().expect("it has ended");
                eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
                return;
            }
            // SAFETY: our own child, which has not been waited for.
            unsafe { libc::kill(process as i32, signal) };
        }
        let output = child.wait_with_output().expect("it ends");
        if signal.is_none() && !output.status.success() {
            eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        if signal.is_none() {
            let outcome: Outcome = serde_json::from_slice(&output.stdout).expect("an outcome");
            let names: Vec<&str> = outcome.groups.iter().map(|group| group.name.as_str()).collect();
            assert_eq!(names, ["/g", "/g/a", "/g/b"]);
            assert_eq!(outcome.groups[0].tasks, 2);
        }
        await_processes(seed, 0);
        let start = std::time::Instant::now();
        while let Some(path) = cgroups(process) {
            assert!(start.elapsed() < std::time::Duration::from_secs(10), "{} is left", path.display());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn a_real_time_thread_is_stopped_as_its_time_is_over() {
    // One on each CPU computes for 200 ms, so that their process's first thread, an ordinary one, runs on none. Where only that one was told to
    // stop, a round of looks at what still runs preempted a thread some hundred times. The run's end does once, and a thread of the kernel's at times.
    let cpus = std::thread::available_parallelism().expect("its CPUs can be counted").get();
    let tasks: Vec<String> = (0..cpus)
        .map(|cpu| format!(r#""t{cpu}": {{"policy": "SCHED_RR", "priority": 5, "cpus": [{cpu}], "run": 1000}}"#))
        .collect();
    let text =
        format!(r#"{{"tasks": {{{}}}, "global": {{"duration": "200ms", "lock_pages": false}}}}"#, tasks.join(", "));
    let output = common::feed_text(native().args(["run", "-"]), &text);
    let line = String::from_utf8_lossy(&output.stderr);
    if line.contains("CAP_SYS_NICE") {
        eprintln!("SKIPPED: {line}");
        return;
    }
    assert!(output.status.success(), "{line}");
    let outcome: Outcome = serde_json::from_slice(&output.stdout).expect("an outcome is printed");
    for task in &outcome.tasks {
        assert!(task.involuntary < 20, "{outcome:?}");
    }
}

#[test]
fn a_runaway_real_time_task_is_ended() {
    let seed = unique().to_string();
    // The most urgent tasks there can be, on every CPU that there is.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let text = format!(
        r#"{{"tasks": {{"runaway": {{"instance": {cpus}, "policy": "SCHED_FIFO", "priority": 98, "loop": 1, "run": 60000000}}}},
            "global": {{"lock_pages": false}}}}"#
    );
    let output = common::feed_text(native().args(["run", "-", "--timeout", "300ms", "--seed", &seed]), &text);
    let line = String::from_utf8_lossy(&output.stderr);
    if line.contains("CAP_SYS_NICE") {
        eprintln!("SKIPPED: {line}");
        return;
    }
    assert!(line.contains("did not end within 300ms"), "{line}");
    assert!(processes(seed.parse().expect("a number")).is_empty());
}
