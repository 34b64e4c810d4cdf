//! Helpers that start the real program and look for processes and files that it left.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use schedlab_model::{Outcome, TaskOutcome, Workload};

/// A number that no other call of this test run gets, and that is found again in the command line of every process of a run.
pub fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    u64::from(std::process::id()) * 1_000_000_000 + 987_000_000 + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The program.
pub fn native() -> Command {
    Command::new(env!("CARGO_BIN_EXE_schedlab-native"))
}

/// Runs a workload by its text, with further options.
pub fn run(text: &str, options: &[&str]) -> Output {
    native().arg("run").arg(text).args(options).output().expect("the program starts")
}

/// The outcome of a run that succeeds.
#[track_caller]
pub fn outcome(text: &str, options: &[&str]) -> Outcome {
    read(&run(text, options))
}

/// The outcome of a run of a workload given on standard input.
#[track_caller]
pub fn outcome_of(workload: &Workload, options: &[&str]) -> Outcome {
    read(&feed(native().args(["run", "-"]).args(options), workload))
}

/// Runs a command with a workload on its standard input.
pub fn feed(command: &mut Command, workload: &Workload) -> Output {
    feed_text(command, &serde_json::to_string(workload).expect("a workload is JSON"))
}

/// Runs a command with a text on its standard input.
pub fn feed_text(command: &mut Command, text: &str) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("the program reads its input");
    child.wait_with_output().expect("the program ends")
}

/// The outcome of a run of rt-app's JSON.
#[track_caller]
pub fn outcome_of_text(text: &str, options: &[&str]) -> Outcome {
    read(&feed_text(native().args(["run", "-"]).args(options), text))
}

#[track_caller]
fn read(output: &Output) -> Outcome {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("an outcome is printed")
}

/// Checks that a command was refused with this exit code and one line that has all of these parts.
#[track_caller]
pub fn refused(output: &Output, code: i32, parts: &[&str]) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    assert!(output.stdout.is_empty());
    for part in parts {
        assert!(line.contains(part), "'{part}' is not in: {line}");
    }
}

/// The processes whose command line holds this number.
pub fn processes(seed: u64) -> Vec<PathBuf> {
    let seed = seed.to_string();
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let ours = entries.map(|entry| entry.path()).filter(|path| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == seed.as_bytes())
    });
    ours.collect()
}

/// Waits until so many processes hold this number; gives up after ten seconds.
pub fn await_processes(seed: u64, count: usize) {
    let start = Instant::now();
    while processes(seed).len() != count {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?} instead of {count}", processes(seed));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes a capability from a command that root runs; others do not have it.
pub fn without_capability(command: &mut Command, capability: u64) -> &mut Command {
    // SAFETY: `prctl` may be called between fork and exec; that an ordinary user may not drop what it has not got does no harm.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            Ok(())
        })
    }
}

/// Sets a limit of a command, soft and hard.
pub fn with_limit(command: &mut Command, resource: libc::__rlimit_resource_t, value: u64) -> &mut Command {
    // SAFETY: `setrlimit` may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
            libc::setrlimit(resource, &raw const limit);
            Ok(())
        })
    }
}

/// A run with each task as it was in the run with its middle CPU time of five. What a virtual machine loses to its neighbours while a task
/// holds the CPU is charged to the task (13 ms in place of 6 were seen); where the kernel learns of it, it takes that off again, and a
/// runner that asked for nothing meanwhile has counted it as used.
pub fn undisturbed(run: impl Fn() -> Outcome) -> Outcome {
    let runs: [Outcome; 5] = std::array::from_fn(|_| run());
    let mut middle = runs[0].clone();
    for (at, task) in middle.tasks.iter_mut().enumerate() {
        let mut times: Vec<&TaskOutcome> = runs.iter().map(|run| &run.tasks[at]).collect();
        assert!(times.iter().all(|found| found.name == task.name), "{runs:?}");
        times.sort_by_key(|found| found.run_ns);
        *task = times[2].clone();
    }
    middle
}

/// CPU time that is near enough to what was asked for: within 1 %, more by interrupts and less by what [`undisturbed`] tells of, of which
/// 55 us were seen in the middle one of five runs beside a busy neighbour; 100 are allowed. Besides, what the kernel does in the task's
/// name counts as its own: sleeping and waking, first touches of pages, clock reads, the report at the end. In a virtual machine with a
/// neighbour at work, where setting a timer leaves the machine, that was seen to take 140 us a step.
#[track_caller]
pub fn near(found: u64, asked: u64, steps: u64) {
    assert!(found + asked / 100 + 100_000 >= asked, "{found} ns of {asked}");
    assert!(found <= asked + asked / 100 + 250_000 * steps, "{found} ns of {asked}");
}
