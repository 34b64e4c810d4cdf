//! Recordings of perf and Perfetto: the same events from every program.
//!
//! `perf-sched*.txt.gz` is what `perf script --ns` prints of `perf sched record -- hackbench`; the `.perfetto-trace` files were written from
//! it by the protocol buffers of Perfetto's own Python package, event by event and as compact events.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::path::{Path, PathBuf};

use schedlab_trace::{Pid, Record, RecordKind, RecordState, TraceError, open, open_bytes};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read(name: &str) -> Vec<Record> {
    open(&fixture(name)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// What both say of a switch or a wake-up: time, CPU, tasks and state; compact events leave out the priority of what is switched out.
fn told(records: &[Record]) -> Vec<(u64, u32, Pid, Pid, Option<RecordState>, i32)> {
    let one = |record: &Record| match &record.kind {
        RecordKind::Switch { previous, state, next } => {
            Some((record.time.as_nanos(), record.cpu, previous.pid, next.pid, Some(*state), next.priority))
        }
        RecordKind::Waking { task, target } => {
            Some((record.time.as_nanos(), record.cpu, *target, task.pid, None, task.priority))
        }
        _ => None,
    };
    records.iter().filter_map(one).collect()
}

/// A compact trace does not say what ran before the first switch of each CPU, which is left out.
fn without_first_switches(records: Vec<Record>) -> Vec<Record> {
    let mut seen = std::collections::BTreeSet::new();
    let keep = |record: &Record| !matches!(record.kind, RecordKind::Switch { .. }) || !seen.insert(record.cpu);
    records.into_iter().filter(keep).collect()
}

#[test]
fn perfetto_tells_what_perf_tells() {
    for (text, single, compact) in [
        ("perf-sched-6.18.txt.gz", "one-cpu.perfetto-trace", "one-cpu-compact.perfetto-trace"),
        ("perf-sched-2-cpus-6.18.txt.gz", "two-cpus.perfetto-trace", "two-cpus-compact.perfetto-trace"),
    ] {
        let records = read(text);
        let expected = told(&records);
        assert!(expected.len() > 400, "{}", expected.len());
        assert_eq!(told(&read(single)), expected, "{single}");
        assert_eq!(told(&read(compact)), told(&without_first_switches(records)), "{compact}");
    }
}

#[test]
fn other_programs_recordings_say_their_kernel_and_what_they_cannot_show() {
    for (name, limits) in [("perf-sched-6.18.txt.gz", 3), ("one-cpu-compact.perfetto-trace", 4)] {
        let mut reader = open(&fixture(name)).unwrap();
        reader.by_ref().for_each(|record| drop(record.unwrap()));
        assert_eq!(reader.release(), Some("6.18.44-fc-v657"), "{name}");
        // Settings, flags and sched_wakeup are missing of both, of the trace run times too.
        assert_eq!(reader.limits().len(), limits, "{name}: {:?}", reader.limits());
    }
}

#[test]
fn binary_files_of_other_programs_name_the_command_that_prints_them() {
    for (bytes, command) in [(&b"PERFILE2\x68\0\0"[..], "perf script"), (b"\x17\x08\x44tracing6\0", "trace-cmd report")]
    {
        let error = open_bytes(bytes.to_vec()).next().unwrap().unwrap_err().to_string();
        assert!(error.contains(command), "{error}");
    }
}

/// A packet of these bytes (`Trace.packet`, field 1).
fn packet(bytes: &[u8]) -> Vec<u8> {
    [&[0x0a, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

#[test]
fn broken_traces_are_refused_by_packet() {
    // ftrace_events (field 1) with cpu (field 1) 5000; with compact_sched (field 4) whose only column is switch_timestamp (field 1).
    for (bytes, expected) in [
        (packet(&[0x0a, 0x03, 0x08, 0x88, 0x27]), "a CPU below 4096"),
        (packet(&[0x0a, 0x05, 0x22, 0x03, 0x0a, 0x01, 0x05]), "as many values in each column"),
        ([&packet(&[])[..], &[0x0a, 0x7f, 0x01]].concat(), "as many bytes as the packet's length says"),
        ([&packet(&[])[..], &[0x77]].concat(), "tag 0x0a"),
        ([&[0x0a, 0xff, 0xff, 0xff, 0x7f][..]].concat(), "at most 8 MiB"),
    ] {
        let error = open_bytes(bytes).next().unwrap().unwrap_err();
        assert!(matches!(error, TraceError::Packet { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn lost_events_of_perf_are_refused() {
    let text = "a 5 [000] 1.000000001: PERF_RECORD_LOST lost 12\n";
    let error = open_bytes(text.as_bytes().to_vec()).next().unwrap().unwrap_err();
    assert!(matches!(error, TraceError::LostEvents { .. }), "{error}");
}
