//! The contents of real kernels' recordings, and which recordings are refused.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use proptest::prelude::*;
use schedlab_trace::{Probe, Reader, RecordKind, RecordState, TraceError};

fn read_all(text: &str) -> Result<Vec<schedlab_trace::Record>, TraceError> {
    Reader::new(text.as_bytes()).collect()
}

fn kind(line: &str) -> RecordKind {
    read_all(line).unwrap().remove(0).kind
}

#[test]
fn trace_cmd_and_the_kernel_write_the_same_switch() {
    let trace_cmd = kind("cat-240 0d..2. 15.1: sched_switch: my cat:240 [115] R ==> swapper/0:0 [120]");
    let kernel = kind(
        "cat-240 [000] d..2. 15.1: sched_switch: prev_comm=my cat prev_pid=240 prev_prio=115 prev_state=R+ ==> \
         next_comm=swapper/0 next_pid=0 next_prio=120",
    );
    assert_eq!(trace_cmd, kernel);
    let RecordKind::Switch { previous, state, next } = kernel else { panic!("not a switch") };
    assert_eq!((&*previous.name, previous.pid, previous.priority), ("my cat", 240, 115));
    assert_eq!((state, next.pid), (RecordState::Running, 0));
}

#[test]
fn wakeups_are_read_in_both_forms() {
    let trace_cmd = kind("x-1 0dNh6. 15.1: sched_wakeup: kworker/0:1:17 [120] CPU:002");
    let kernel = kind("x-1 [000] dNh6. 15.1: sched_wakeup: comm=kworker/0:1 pid=17 prio=120 target_cpu=002");
    assert_eq!(trace_cmd, kernel);
    let RecordKind::Wakeup { task, target } = kernel else { panic!("not a wakeup") };
    assert_eq!((&*task.name, task.pid, target), ("kworker/0:1", 17, 2));
}

#[test]
fn a_nice_level_is_a_signed_number_in_hexadecimal() {
    // 0xfffffffb are the bits of −5 in 32-bit two's complement.
    let line = "A-242 0...1. 14.5: sys_enter_setpriority: which: 0x00000000, who: 0x00000000, niceval: 0xfffffffb";
    assert_eq!(kind(line), RecordKind::SetPriority { which: 0, who: 0, nice: -5 });
}

#[test]
fn runtime_without_vruntime_is_a_newer_kernels() {
    let line = "x-1 0d.h2. 53.3: sched_stat_runtime: comm=rcu_preempt pid=19 runtime=4284780 [ns]";
    let RecordKind::StatRuntime { pid, runtime, vruntime, .. } = kind(line) else { panic!("not a runtime") };
    assert_eq!((pid, runtime, vruntime), (19, 4_284_780, None));
}

#[test]
fn probes_of_both_fair_classes_are_told_apart_by_their_fields() {
    let cfs = kind("x-1 0d..2. 1.0: k_place: (ffff) pid=15 vr=7 minv=9 init=1");
    assert_eq!(cfs, RecordKind::Probe(Probe::Place { pid: 15, vruntime: 7, min_vruntime: 9, initial: true }));
    let eevdf = kind("x-1 0d..2. 1.0: k_set: (ffff) pid=19 vr=20 dl=21 vlag=-5 sl=700000");
    let expected = Probe::SetNextEevdf { pid: 19, vruntime: 20, deadline: 21, vlag: -5, slice: 700_000 };
    assert_eq!(eevdf, RecordKind::Probe(expected));
}

#[test]
fn unknown_events_are_kept_as_text() {
    let expected = RecordKind::Other { event: "sched_process_exec".into(), text: "filename=/bin/cat pid=1".into() };
    assert_eq!(kind("x-1 0..... 1.0: sched_process_exec: filename=/bin/cat pid=1"), expected);
}

#[test]
fn malformed_lines_name_their_number_what_was_found_and_what_was_expected() {
    for (text, line, expected) in [
        ("cpus=1\nnonsense\n", 2, "TASK-PID"),
        ("# comment\n\nx-1 0d..2. 1.0: sched_switch: a:1 [120] R\n", 3, "PREVIOUS STATE ==> NEXT"),
        ("x-1 0d..2. 1.0: k_tick: (ffff) pid=minus\n", 1, "a number in 'pid=' in k_tick"),
        ("x-1 0d..2. 1.0: k_enq: (ffff) pid=1 fl=9\n", 1, "hexadecimal number in 'fl=0x'"),
        ("x-1 0d..2. 1.0: k_place: (ffff) pid=1 vr=1 minv=1 init=2\n", 1, "0 or 1 in 'init='"),
        ("x-1 0d..2. 1.0: sched_wakeup: a:1 [120]\n", 1, "CPU:NUMBER"),
        ("cpus=many\n", 1, "number of CPUs"),
    ] {
        let error = read_all(text).unwrap_err();
        let TraceError::Malformed { line: at, .. } = &error else { panic!("{error}") };
        assert_eq!(*at, line, "{text}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_recording_that_lost_events_is_refused() {
    for line in ["CPU:0 [LOST 12 EVENTS]", "CPU:1 [EVENTS DROPPED]"] {
        let error = read_all(&format!("cpus=1\n{line}\n")).unwrap_err();
        assert!(matches!(error, TraceError::LostEvents { line: 2, .. }), "{error}");
    }
}

#[test]
fn a_recording_whose_time_goes_back_is_refused() {
    let line = |cpu: u32, time: &str| format!("a-1 {cpu}d..2. {time}: k_tick: pid=1\n");
    // Each CPU by itself: merged buffers may be a little out of order.
    let text = format!("{}{}{}", line(0, "5.000000002"), line(1, "5.000000001"), line(0, "5.000000002"));
    assert_eq!(read_all(&text).unwrap().len(), 3);
    let error = read_all(&format!("{text}{}", line(1, "5.000000000"))).unwrap_err().to_string();
    assert!(error.contains("line 4") && error.contains("no earlier time"), "{error}");
}

#[test]
fn a_later_form_is_refused() {
    let error = read_all("# schedlab recording 2\n# end: events=0\n").unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("'# schedlab recording 1'"), "{error}");
}

#[test]
fn nothing_comes_after_an_error() {
    let mut reader = Reader::new("bad\nx-1 0d..2. 1.0: k_tick: pid=1\n".as_bytes());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let error = Reader::new(&b"x-1 \xff\xfe\n"[..]).next().unwrap().unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
    let endless = vec![b'x'; 100_000];
    let error = Reader::new(&endless[..]).next().unwrap().unwrap_err();
    assert!(error.to_string().contains("at most"), "{error}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for record in Reader::new(&bytes[..]) {
            let _ = record;
        }
    }

    /// Lines that are nearly right reach deeper than noise does.
    #[test]
    fn mutilated_lines_never_panic(which in 0usize..8, cut in 0usize..200, replacement in "\\PC{0,4}") {
        let line = [
            "bash-236 0d..2. 15.100209785: sched_switch: bash:236 [120] S ==> bash:240 [120]",
            "bash-236 [000] d..2. 15.1: sched_switch: prev_comm=a prev_pid=1 prev_prio=1 prev_state=S ==> next_comm=b next_pid=2 next_prio=3",
            "cat-240 0d.h6. 15.102120310: k_enq: (ffffffffaf0ef840) pid=240 fl=0x9",
            "cat-240 0d.h6. 15.1: k_place: (ff) pid=15 vr=1 dl=2 vlag=3 zv=4 av=0 al=0 fl=0x9 rel=0",
            "cat-240 0d.h6. 15.1: k_pick: (ff) cpid=240 minv=7 nr=2 lw=2097152 next=15 last=0 skip=0",
            "A-242 0...1. 14.5: sys_enter_setpriority: which: 0x00000000, who: 0x00000000, niceval: 0xfffffffb",
            "cat-240 0d.h1. 15.1: hrtimer_expire_entry: hrtimer=0xff now=1 function=tick_sched_timer/0x0",
            "cat-240 0d.h1. 15.1: sched_stat_runtime: comm=bash pid=240 runtime=366712 [ns] vruntime=7691237601 [ns]",
        ][which];
        let cut = (0..=cut.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = line.split_at(cut);
        let after: String = after.chars().skip(2).collect();
        for record in Reader::new(format!("{before}{replacement}{after}").as_bytes()) {
            let _ = record;
        }
    }
}

mod own_recordings {
    use schedlab_trace::{EntityRef, Probe, QueueClocks, Reader, RecordKind, TraceError};

    use super::read_all;

    const HEAD: &str = "\
# schedlab recording 1
# kernel: 6.1.176
# recorder: 12 13
# file: /proc/cmdline
#| quiet
#|   noautogroup
# table: groups
#| inode path weight
#| 77 /a 100
# events
";

    #[test]
    fn the_head_is_kept() {
        let text = format!("{HEAD}a-1 0d..2. 1.0: k_pnt: c=6 ct=5\n# end: events=1\n");
        let mut reader = Reader::new(text.as_bytes());
        let record = reader.next().unwrap().unwrap();
        assert_eq!(record.clocks, Some(QueueClocks { clock: Some(6), task: 5 }));
        let head = reader.head().unwrap();
        assert_eq!((head.fact("kernel"), head.fact("hz")), (Some("6.1.176"), None));
        assert_eq!(head.recorder(), [12, 13]);
        assert_eq!(head.file("/proc/cmdline"), Some("quiet\n  noautogroup\n"));
        assert_eq!(head.table("groups").collect::<Vec<_>>(), [["77", "/a", "100"]]);
        assert!(reader.next().is_none());
    }

    #[test]
    fn one_cut_short_is_refused() {
        let event = "a-1 0d..2. 1.0: k_pnt: c=6 ct=5\n";
        let error = read_all(&format!("{HEAD}{event}")).unwrap_err();
        assert!(matches!(error, TraceError::Missing { .. }), "{error}");
        let error = read_all(&format!("{HEAD}{event}# end: events=2\n")).unwrap_err().to_string();
        assert!(error.contains("1 events") && error.contains("2"), "{error}");
    }

    #[test]
    fn a_tasks_state_is_read_with_what_its_kernel_has() {
        let line = "a-1 0d..2. 1.0: k_snap: pid=9 pol=3 sp=125 nprio=125 onrq=1 vr=7 w=335872 xs=1 sum=2 tg=0xa \
                    ptg=0x0 cfs=0xb dl=9 vlag=-1 sl=700000 rel=0 del=1 zv=5 av=-3 al=1024";
        let RecordKind::Snap(snap) = &read_all(line).unwrap()[0].kind else { panic!("no snap") };
        assert_eq!((snap.pid, snap.policy, snap.static_priority, snap.on_rq), (9, 3, 125, true));
        let eevdf = snap.eevdf.unwrap();
        assert_eq!((eevdf.vlag, eevdf.delayed, eevdf.avg_vruntime), (-1, true, -3));
        assert_eq!((snap.min_vruntime, snap.time_slice), (None, 0));
    }

    #[test]
    fn a_groups_entity_is_told_by_the_queue_it_owns() {
        let line = "a-1 0d..2. 1.0: k_set: pid=0 vr=7 minv=6 se=0x10 my=0x20 cfs=0x30";
        let record = &read_all(line).unwrap()[0];
        assert_eq!(record.entity, Some(EntityRef { entity: 0x10, owned: 0x20, queue: 0x30 }));
        assert_eq!(record.kind, RecordKind::Probe(Probe::SetNext { pid: 0, vruntime: 7, min_vruntime: 6 }));
    }
}
