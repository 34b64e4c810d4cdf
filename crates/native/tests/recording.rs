//! Real recordings of this kernel, and refused requests; each leaves tracing as it was. Without root and tracefs there is nothing to
//! record, and the tests say so.

#[expect(dead_code, reason = "every test file uses a part of it")]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use common::{native, processes, refused, unique};
use schedlab_trace::{Reader, Record, RecordKind};

/// Recordings come one after the other, so that each finds the tracing that it is to leave.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Where tracefs is, for root.
fn tracefs() -> Option<PathBuf> {
    // SAFETY: no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let found = places.into_iter().find(|path| root && path.join("instances").is_dir());
    if found.is_none() {
        eprintln!("skipped: recording needs root and tracefs");
    }
    found
}

/// All of tracing that a recorder could leave changed: instances, probes, what is switched on and the clock.
fn state(root: &Path) -> BTreeMap<String, String> {
    let files = ["kprobe_events", "tracing_on", "set_event", "trace_clock", "buffer_size_kb", "options/overwrite"];
    let mut state: BTreeMap<String, String> = files
        .into_iter()
        .map(|name| (name.to_owned(), fs::read_to_string(root.join(name)).unwrap_or_default()))
        .collect();
    let instances = fs::read_dir(root.join("instances")).expect("tracefs is there").flatten();
    let instances: BTreeSet<_> = instances.map(|entry| entry.file_name()).collect();
    state.insert("instances".into(), format!("{instances:?}"));
    state
}

/// A directory of its own that goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("schedlab-recording-{}", unique()));
        fs::create_dir(&path).expect("a new directory");
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is there").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn recorder(output: &Path, options: &[&str], command: &[&str]) -> Command {
    let mut recorder = native();
    recorder.arg("record").arg("-o").arg(output).args(options).arg("--").args(command);
    recorder
}

fn record(output: &Path, options: &[&str], command: &[&str]) -> Output {
    recorder(output, options, command).output().expect("the program starts")
}

/// A recording of a command that may be run again: a virtual machine's kernel may lose events without counting them, which is told.
/// Where it always does, there is nothing to look at, and the test that asked is told so.
fn recorded(output: &Path, options: &[&str], command: &[&str]) -> bool {
    let kept = (0..20).any(|_| {
        let output = record(output, options, command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || said.contains("lost events without counting them"), "{said}");
        output.status.success()
    });
    if !kept {
        eprintln!("SKIPPED: this kernel keeps losing events");
    }
    kept
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_schedlab-native")
}

#[test]
fn a_recording_holds_all_that_happened() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let before = state(&root);
    let directory = Directory::new();
    let file = directory.0.join("trace.txt");
    let kept = recorded(&file, &["--level", "L0"], &[program(), "run", "hackbench:groups=1,loops=3,fds=4"]);
    let left = if kept { vec!["trace.txt".to_owned()] } else { vec![] };
    assert_eq!((state(&root), directory.names()), (before, left));
    if !kept {
        return;
    }

    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# schedlab recording 1\n"));
    for part in
        ["# release: ", "# level: L0\n", "# cpus: 0", "# file: /proc/cmdline\n#| ", "# table: tasks\n#| pid tgid"]
    {
        assert!(text.contains(part), "{part}");
    }
    let records: Vec<Record> = Reader::new(text.as_bytes()).collect::<Result<_, _>>().unwrap();
    assert_eq!(text.lines().last().unwrap(), format!("# end: events={}", records.len()));
    // The recorder's own marks stand around everything.
    let marks: Vec<&str> = records
        .iter()
        .filter_map(|record| match &record.kind {
            RecordKind::Other { event, text } if &**event == "tracing_mark_write" => Some(&**text),
            _ => None,
        })
        .collect();
    assert_eq!(marks, ["schedlab: snapshot", "schedlab: begin", "schedlab: end"]);
    // The previous task of each switch is the next task of the switch before: not a single switch is missing.
    let mut running = BTreeMap::new();
    let mut last = 0;
    for record in &records {
        assert!(record.time.as_nanos() >= last, "line {}", record.line);
        last = record.time.as_nanos();
        if let RecordKind::Switch { previous, next, .. } = &record.kind
            && let Some(known) = running.insert(record.cpu, next.pid)
        {
            assert_eq!(known, previous.pid, "line {}", record.line);
        }
    }
    // One group of 4 senders and 4 receivers, the first task, and the one that makes them.
    let forks = records.iter().filter(|record| matches!(record.kind, RecordKind::Fork { .. })).count();
    assert!(forks >= 9, "{forks}");
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let before = state(&root);
    let directory = Directory::new();
    let file = directory.0.join("trace.txt.gz");
    refused(&record(&file, &[], &["/nonexistent/command"]), 2, &["'/nonexistent/command'", "No such file"]);
    refused(&record(&file, &[], &["false"]), 1, &["'false'", "ended with code 1", "not kept"]);
    refused(&record(&file, &["--timeout", "100ms"], &["sleep", "100"]), 1, &["100ms"]);
    refused(&record(&directory.0.join("none/trace.txt"), &[], &["true"]), 2, &["none/trace.txt", "No such file"]);
    if !root.join("kprobe_events").exists() {
        refused(&record(&file, &["--level", "L1"], &["true"]), 2, &["level L0 at most, not L1", "kprobe_events"]);
    }
    // A page or two for each CPU cannot hold hundreds of tasks' beginnings and ends.
    let many = [program(), "scenario", "forks", "--length", "300ms"];
    refused_after_output(&record(&file, &["--buffer", "4"], &many), &["lost", "--buffer"]);
    assert_eq!((state(&root), directory.names()), (before, vec![]));
}

#[test]
fn only_root_records() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let before = state(&root);
    let directory = Directory::new();
    let copy = Directory::new();
    // The program may be where other users may not read.
    fs::copy(program(), copy.0.join("native")).unwrap();
    let mut command = Command::new(copy.0.join("native"));
    command.args(["record", "-o"]).arg(directory.0.join("t")).args(["--", "true"]).uid(65_534).gid(65_534);
    refused(&command.output().unwrap(), 2, &["needs root"]);
    assert_eq!((state(&root), directory.names()), (before, vec![]));
}

#[test]
fn a_full_disk_leaves_nothing() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let directory = Directory::new();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"]).arg(&directory.0).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no file system of 16 KiB can be mounted");
        return;
    }
    let before = state(&root);
    let output = record(&directory.0.join("trace.txt"), &[], &[program(), "scenario", "forks", "--length", "100ms"]);
    let names = directory.names();
    assert!(Command::new("umount").arg(&directory.0).status().unwrap().success());
    refused_after_output(&output, &["No space left"]);
    assert_eq!((state(&root), names), (before, vec![]));
}

/// The command has printed its own result already.
#[track_caller]
fn refused_after_output(output: &Output, parts: &[&str]) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), line.trim_end().lines().count()), (Some(2), 1), "{line}");
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
}

#[test]
fn in_a_container_the_head_has_the_events_process_ids() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let before = state(&root);
    let directory = Directory::new();
    let file = directory.0.join("trace.txt");
    let mut kept = false;
    for _ in 0..20 {
        let mut command = Command::new("unshare");
        command
            .args([
                "--pid",
                "--fork",
                "--mount-proc",
                "--propagation",
                "unchanged",
                program(),
                "record",
                "--level",
                "switches",
                "-o",
            ])
            .arg(&file);
        let output = command.args(["--", program(), "run", "hogs:tasks=2,time=5ms"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || said.contains("lost events without counting them"), "{said}");
        kept = output.status.success();
        if kept {
            break;
        }
    }
    assert_eq!(state(&root), before);
    if !kept {
        eprintln!("SKIPPED: this kernel keeps losing events");
        return;
    }
    let mut reader = schedlab_trace::open(&file).unwrap();
    let records: Vec<Record> = reader.by_ref().collect::<Result<_, _>>().unwrap();
    let head = reader.head().unwrap();
    // There the recorder is process 1 of its own and the command 2 or so: events have the system's ids.
    let [recorder, command] = head.recorder()[..] else { panic!("{:?}", head.recorder()) };
    let mark = records.iter().find(|record| record.text.contains("schedlab: begin")).unwrap();
    assert_eq!(mark.pid, recorder);
    let forked = |record: &Record| matches!(record.kind, RecordKind::Fork { parent, .. } if parent == command);
    assert!(records.iter().any(forked), "the command {command} makes the workload's task");
    // A table with other ids would say false things of the events' tasks.
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("# missing: table of tasks, arrivals: "), "{text}");
    let table = text.split_once("# table: tasks\n").unwrap().1;
    assert_eq!(table.lines().take_while(|line| line.starts_with("#|")).count(), 1);
}

#[test]
fn what_a_killed_recorder_leaves_the_next_one_removes() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let before = state(&root);
    let directory = Directory::new();
    let mark = unique();
    let sleep = ["sh", "-c", "sleep 100", &mark.to_string()].map(str::to_owned);
    let sleep: Vec<&str> = sleep.iter().map(String::as_str).collect();
    let mut recorder = recorder(&directory.0.join("a"), &[], &sleep);
    let mut killed = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let instance = instance_of(&root, killed.id());
    await_that(|| fs::read_to_string(instance.join("tracing_on")).is_ok_and(|on| on.trim() == "1"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(instance.is_dir());
    // The command dies with the recorder.
    await_that(|| processes(mark).is_empty());
    recorded(&directory.0.join("b"), &[], &["true"]);
    assert_eq!(state(&root), before);
}

#[test]
fn an_interrupt_leaves_nothing() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let before = state(&root);
    let directory = Directory::new();
    let mut recorder = recorder(&directory.0.join("a"), &[], &["sleep", "100"]);
    let child = recorder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let on = instance_of(&root, child.id()).join("tracing_on");
    await_that(|| fs::read_to_string(&on).is_ok_and(|on| on.trim() == "1"));
    // SAFETY: a signal to the child that was just made.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    refused(&child.wait_with_output().unwrap(), 130, &["signal 15"]);
    assert_eq!((state(&root), directory.names()), (before, vec![]));
}

/// A recorder in another PID namespace, as a container's, has an id that means nothing here.
#[test]
fn a_recorder_of_another_namespace_keeps_its_instance() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let directory = Directory::new();
    let instance = root.join("instances/schedlab-4194305-1-1");
    fs::create_dir(&instance).unwrap();
    recorded(&directory.0.join("a"), &[], &["true"]);
    assert!(instance.is_dir());
    fs::remove_dir(&instance).unwrap();
}

/// The instance of the recorder with this process id, once it is there.
fn instance_of(root: &Path, recorder: u32) -> PathBuf {
    let begins = format!("schedlab-{recorder}-");
    let find = || {
        let instances = fs::read_dir(root.join("instances")).into_iter().flatten().flatten();
        instances
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins)))
    };
    await_that(|| find().is_some());
    find().expect("it was there a moment ago")
}

#[track_caller]
fn await_that(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn without_a_file_nothing_is_kept() {
    let (_alone, Some(root)) = (alone(), tracefs()) else { return };
    let before = state(&root);
    // Many more events than 4 KiB hold: they are written over.
    let mut recorder = native();
    recorder.args(["record", "--level", "switches", "--buffer", "4", "--", program(), "run"]);
    let output = recorder.arg("hackbench:groups=1,loops=20,fds=4").output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.trim_end().lines().last().unwrap_or_default();
    assert!(output.status.success() && last.contains("\"output\":null") && last.contains("\"events\":0"), "{output:?}");
    assert_eq!(state(&root), before);
}
