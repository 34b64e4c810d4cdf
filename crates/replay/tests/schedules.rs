//! Both schedules in one trace: the kernel's on CPU 0, ours on CPU 1.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod common;

use std::collections::BTreeMap;

use common::{fixture, replay_with};
use prost::Message;
use schedlab_model::Time;
use schedlab_replay::{Options, Report, replay_file};
use schedlab_trace::proto::ftrace_event::Event;
use schedlab_trace::proto::trace_packet::Data;
use schedlab_trace::proto::{SchedSwitchFtraceEvent, Trace};
use schedlab_trace::{RecordKind, open};

/// Our tasks' numbers are the kernel's pids plus 2^23.
const OFFSET: i32 = 1 << 23;

type Switches = BTreeMap<u32, Vec<(u64, SchedSwitchFtraceEvent)>>;

/// The switches of each CPU, and how many marks there are.
fn written(report: &Report) -> (Switches, usize) {
    let mut bytes = Vec::new();
    report.schedules.write_perfetto(&mut bytes, &report.release).unwrap();
    let (mut switches, mut marks) = (Switches::new(), 0);
    for packet in Trace::decode(&*bytes).unwrap().packet {
        let Some(Data::FtraceEvents(bundle)) = packet.data else { continue };
        for event in bundle.event {
            match event.event.unwrap() {
                Event::SchedSwitch(switch) => {
                    switches.entry(bundle.cpu.unwrap()).or_default().push((event.timestamp.unwrap(), switch));
                }
                Event::Print(_) => marks += 1,
                _ => {}
            }
        }
    }
    (switches, marks)
}

#[test]
fn cpu_0_runs_what_the_recording_says_and_cpu_1_the_same_where_nothing_differs() {
    let report = replay_file(&fixture("hogs-6.1.txt.gz"), &Options::default()).unwrap();
    let (switches, marks) = written(&report);
    let recorded = open(&fixture("hogs-6.1.txt.gz")).unwrap().filter_map(|record| match record.unwrap().kind {
        RecordKind::Switch { next, .. } => Some(i32::try_from(next.pid).unwrap()),
        _ => None,
    });
    let recorded: Vec<i32> = recorded.collect();
    let nexts = |cpu: u32| -> Vec<i32> { switches[&cpu].iter().map(|(_, switch)| switch.next_pid.unwrap()).collect() };
    assert_eq!(nexts(0), recorded);
    let shifted: Vec<i32> = nexts(0).into_iter().map(|pid| if pid == 0 { 0 } else { pid + OFFSET }).collect();
    assert_eq!(nexts(1), shifted);
    assert_eq!(marks, 0);
    for row in switches.values() {
        // What leaves is what came.
        assert!(row.windows(2).all(|pair| pair[0].1.next_pid == pair[1].1.prev_pid));
        assert!(row.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
}

#[test]
fn a_mark_stands_at_each_pick_that_differs() {
    // Without the last buddy, which the recorded kernel has, some picks differ (k61.rs).
    let report = replay_with("k61-hackbench.txt.gz", "6.1", |tunables| {
        tunables.features.last_buddy = false;
        tunables.latency = Time::from_millis(6);
    });
    let pick = report.decisions.pick;
    assert!(pick.equal < pick.compared);
    let (switches, marks) = written(&report);
    assert_eq!(marks as u64, pick.compared - pick.equal);
    let ran = |cpu: u32, offset: i32| {
        switches[&cpu].iter().map(|(time, switch)| (*time, switch.next_pid.unwrap() - offset)).collect::<Vec<_>>()
    };
    assert_ne!(ran(0, 0), ran(1, OFFSET));
}

#[test]
fn nothing_is_left_behind_of_a_file_that_cannot_be_written() {
    let report = replay_file(&fixture("hogs-6.1.txt.gz"), &Options::default()).unwrap();
    let path = std::path::Path::new("/nowhere/schedules.pftrace");
    let error = report.schedules.save(path, &report.release).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/schedules.pftrace: "), "{error}");
}
