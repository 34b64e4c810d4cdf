//! Which recordings a replay refuses, and which of its results it marks as unsure.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::path::Path;

use proptest::prelude::*;
use schedlab_replay::{Level, Options, ReplayError, Report, Settings, replay, replay_file};
use schedlab_trace::Reader;

fn settings() -> Settings {
    Settings::defaults("6.1".parse().unwrap()).unwrap()
}

fn replay_text(text: &str) -> Result<Report, ReplayError> {
    replay(Reader::new(text.as_bytes()), &settings())
}

#[test]
fn an_empty_recording_fails() {
    for text in ["", "cpus=1\n", "# tracer: nop\n\n"] {
        assert!(matches!(replay_text(text), Err(ReplayError::Empty)), "{text:?}");
    }
}

#[test]
fn a_recording_without_decisions_is_not_exact() {
    let report =
        replay_text("bash-1 0d..2. 1.0: sched_stat_runtime: comm=bash pid=1 runtime=5 [ns] vruntime=7\n").unwrap();
    assert_eq!(report.decisions.pick.compared, 0);
    assert!(!report.is_exact());
}

#[test]
fn a_malformed_line_is_named() {
    let error = replay_text("cpus=1\nbash-1 0d..2. 1.0: k_tick: (f) pid=\n").unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
}

fn with_snapshot(snapshot: &Path) -> Options<'_> {
    Options { snapshot: Some(snapshot), ..Options::default() }
}

#[test]
fn a_missing_file_is_named() {
    let error = replay_file(Path::new("/nowhere/trace.txt"), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/trace.txt"), "{error}");
    let error =
        replay_file(Path::new("/nowhere/t"), &with_snapshot(Path::new("/nowhere/snap"))).unwrap_err().to_string();
    assert!(error.contains("/nowhere/snap"), "{error}");
}

#[test]
fn a_release_that_contradicts_the_snapshot_is_refused() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let release = Some("5.10".parse().unwrap());
    let error = replay_file(
        &fixtures.join("k61-hogs.txt.gz"),
        &Options { release, ..with_snapshot(&fixtures.join("k61-hogs.snap1")) },
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("of kernel 6.1.0, not of 5.10"), "{error}");
}

#[test]
fn an_eevdf_recording_is_not_replayed_under_cfs_rules() {
    // Neither recording has a head: the probes alone tell the fair class.
    let [cfs, eevdf] = ["k61-hackbench.txt.gz", "k612-hackbench.txt.gz"]
        .map(|file| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(file));
    let refused = |path: &Path, release: Option<&str>| {
        let release = release.map(|release| release.parse().unwrap());
        replay_file(path, &Options { release, ..Options::default() }).unwrap_err().to_string()
    };
    assert!(refused(&eevdf, None).contains("does not say its kernel"), "{}", refused(&eevdf, None));
    assert!(refused(&eevdf, Some("6.1")).contains("probes are of EEVDF"));
    assert!(refused(&cfs, Some("6.12")).contains("probes are of CFS"));
    let report = replay_file(&cfs, &Options::default()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("does not say its kernel")), "{:?}", report.notes);
}

#[test]
fn a_recording_of_an_unknown_series_is_replayed_only_where_the_nearest_is_asked_for() {
    let directory = std::env::temp_dir().join(format!("schedlab-unknown-series-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let snapshot = directory.join("snap");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let text = std::fs::read_to_string(fixtures.join("k612-hogs.snap1")).unwrap();
    let head = text.lines().find(|line| line.starts_with("Sched Debug Version")).unwrap();
    // 6.13 is one release after 6.12 and five before 6.18.
    std::fs::write(&snapshot, text.replace(head, "Sched Debug Version: v0.11, 6.13.2 #1")).unwrap();
    let replayed = |release: Option<&str>| {
        let release = release.map(|release| release.parse().unwrap());
        replay_file(&fixtures.join("k612-hogs.txt.gz"), &Options { release, ..with_snapshot(&snapshot) })
    };
    let refused = replayed(None).unwrap_err().to_string();
    let report = replayed(Some("~6.13")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(refused.contains("~6.13.2") && refused.contains("6.12"), "{refused}");
    assert_eq!(report.release, "~6.13.2");
    assert!(report.notes[0].contains("6.12.95"), "{:?}", report.notes);
}

/// What ran before the recording began is not in it: the running task's slice is unknown until it is set anew.
#[test]
fn a_tick_in_a_slice_that_began_before_the_recording_is_unverifiable() {
    let text = "\
a-7 0d.s2. 1.000000000: k_enq: (f) pid=8 fl=0x9
a-7 0d.s2. 1.000000001: sched_stat_runtime: comm=a pid=7 runtime=5 [ns] vruntime=20000000
a-7 0d.s2. 1.000000002: k_place: (f) pid=8 vr=19000000 minv=20000000 init=0
a-7 0d.s2. 1.000000003: k_cpw: (f) pid=8 wf=0x0 tif=0x0 cpid=7
a-7 0d.s2. 1.000000004: sched_wakeup: b:8 [120] CPU:000
a-7 0d.h2. 1.001000000: k_tick: (f) pid=7
a-7 0d.h2. 1.001000001: sched_stat_runtime: comm=a pid=7 runtime=1000000 [ns] vruntime=21000000
";
    let report = replay_text(text).unwrap();
    assert_eq!((report.decisions.tick.compared, report.decisions.tick.unverifiable), (0, 1));
    // b lies exactly 1 ms before a, and a granularity of 1 ms asks for more than that: no preemption, as recorded. The naive
    // rule would have preempted.
    let wakeup = report.decisions.wakeup;
    assert_eq!((wakeup.compared, wakeup.equal, wakeup.naive_equal), (1, 1, 0));
    // b was placed and never picked.
    assert_eq!(report.decisions.placement.unverifiable, 1);
    assert_eq!(report.state.vruntime.max_error_ns, 0);
}

/// A task that was never enqueued cannot be picked: our state is in doubt from there on.
#[test]
fn an_impossible_recording_loses_track_and_says_so() {
    let text = "\
a-7 0d..2. 1.000000000: k_pick: (f) cpid=7 minv=5 nr=1 lw=1048576 next=0 last=0 skip=0
a-7 0d..2. 1.000000001: k_set: (f) pid=9 vr=5 minv=5
a-7 0d..2. 1.000000002: sched_switch: a:7 [120] S ==> c:9 [120]
c-9 0d..2. 1.000000003: k_deq: (f) pid=9 fl=0x9
c-9 0d..2. 1.000000004: sched_switch: c:9 [120] S ==> swapper/0:0 [120]
c-9 0d..2. 1.000000005: k_pick: (f) cpid=9 minv=5 nr=1 lw=1048576 next=0 last=0 skip=0
c-9 0d..2. 1.000000006: k_set: (f) pid=9 vr=5 minv=5
";
    let report = replay_text(text).unwrap();
    assert!(report.resynchronisations > 0);
    assert!(!report.is_exact());
}

const CFS: [&str; 12] = [
    "k_enq: (f) pid=PID fl=0x9",
    "k_enq: (f) pid=PID fl=0x8",
    "k_enq: (f) pid=PID fl=0xe",
    "k_deq: (f) pid=PID fl=0x9",
    "k_deq: (f) pid=PID fl=0xe",
    "k_place: (f) pid=PID vr=5000 minv=7000 init=1",
    "k_cpw: (f) pid=PID wf=0x0 tif=0x0 cpid=1",
    "k_pick: (f) cpid=0 minv=7000 nr=1 lw=1048576 next=PID last=0 skip=0",
    "k_set: (f) pid=PID vr=5000 minv=7000",
    "sched_stat_runtime: comm=x pid=PID runtime=900 [ns] vruntime=8000",
    "sched_switch: a:PID [120] S ==> b:2 [120]",
    "k_rew: (f) pid=PID w=343040",
];

const EEVDF: [&str; 16] = [
    "k_enq: (f) pid=PID fl=0x9",
    "k_enq: (f) pid=PID fl=0x88",
    "k_enq: (f) pid=PID fl=0x208",
    "k_enq: (f) pid=PID fl=0xe",
    "k_deq: (f) pid=PID fl=0x9",
    "k_deq: (f) pid=PID fl=0xe",
    "k_deqs: (f) pid=PID fl=0x201",
    "k_rqd: (f) pid=PID",
    "k_place: (f) pid=PID vr=5000 dl=705000 vlag=-300 zv=7000 av=0 al=0 fl=0x9 rel=0",
    "k_cpw: (f) pid=PID wf=0x0 tif=0x0 cpid=1",
    "k_eevdf: (f) zv=7000 av=0 al=1024 nr=2 cpid=0 next=PID",
    "k_set: (f) pid=PID vr=5000 dl=705000 vlag=9 sl=700000",
    "sched_stat_runtime: comm=x pid=PID runtime=900000 [ns]",
    "sched_switch: a:PID [120] S ==> b:2 [120]",
    "sched_process_fork: comm=a pid=1 child_comm=b child_pid=PID",
    "k_rew: (f) pid=PID w=343040",
];

/// Picks lines at random, each of any of four tasks.
fn nonsense(fragments: &[&str], lines: &[(prop::sample::Index, u32)]) -> String {
    let line = |(number, (which, pid)): (usize, &(prop::sample::Index, u32))| {
        let fragment = which.get(fragments).replace("PID", &pid.to_string());
        format!("a-1 0d..2. 1.{number:09}: {fragment}\n")
    };
    lines.iter().enumerate().map(line).collect()
}

proptest! {
    /// Nonsense in the form of a recording is replayed to a verdict, and never to an exact one.
    #[test]
    fn nonsense_never_panics(lines in proptest::collection::vec((any::<prop::sample::Index>(), 0u32..4), 1..60)) {
        for (release, fragments) in [("6.1", &CFS[..]), ("6.12", &EEVDF[..])] {
            let settings = Settings::defaults(release.parse().unwrap()).unwrap();
            let report = replay(Reader::new(nonsense(fragments, &lines).as_bytes()), &settings).unwrap();
            prop_assert!(!report.is_exact());
        }
    }
}

/// What an own recording is made of, for tasks 1 to 3; 0 is the idle task.
const OWN: [&str; 30] = [
    "k_snap: pid=PID pol=0 sp=120 nprio=120 onrq=1 vr=5000 w=1048576 xs=1 sum=2 psum=1 tg=0xa ptg=0x0 cfs=0xb minv=4000 ct=50 c=50",
    "k_snap: pid=PID pol=3 sp=125 nprio=125 onrq=0 vr=5000 w=343040 xs=1 sum=2 tg=0xa ptg=0x0 cfs=0xb dl=9000 vlag=-300 sl=700000 \
     cs=0 rel=0 del=1 zv=5 av=-3 al=1024 ct=50",
    "sched_waking: comm=x pid=PID prio=120 target_cpu=000",
    "sched_waking: comm=x pid=PID prio=40 target_cpu=000",
    "sched_wakeup: comm=x pid=PID prio=120 target_cpu=000",
    "sched_wakeup_new: comm=x pid=PID prio=120 target_cpu=000",
    "sched_process_exit: comm=x pid=PID prio=120",
    "hrtimer_expire_entry: hrtimer=0xff now=5 function=tick_sched_timer",
    "hrtimer_expire_entry: hrtimer=0xff now=5 function=hrtick",
    "hrtimer_expire_exit: hrtimer=0xff",
    "sys_enter_sched_yield:",
    "sys_enter_sched_setattr: pid: 0xPID, uattr: 0x7ffe, flags: 0x0",
    "sys_enter_sched_setscheduler: pid: 0x0, policy: 0x5, param: 0x7ffe",
    "sys_enter_sched_setaffinity: pid: 0xPID, len: 0x8, user_mask_ptr: 0x7ffe",
    "sys_enter_setpriority: which: 0x0, who: 0xPID, niceval: 0x5",
    "k_param: pid=PID pol=0 sp=115 rtp=0 dlr=0 dld=0 dlp=0 dlf=0x0 sl=700000 cs=0 rof=0",
    "k_param: pid=PID pol=1 sp=120 rtp=50 dlr=0 dld=0 dlp=0 dlf=0x0 rof=0",
    "k_param: pid=PID pol=5 sp=120 rtp=0 dlr=0 dld=0 dlp=0 dlf=0x0 sl=3000000 cs=1 rof=0",
    "k_place: pid=PID vr=5000 minv=7000 init=0 se=0x1 my=0x0 cfs=0xb",
    "k_place: pid=PID vr=5000 dl=705000 vlag=-300 zv=7000 av=0 al=0 fl=0x9 rel=0 sl=700000 se=0x1 my=0x0 cfs=0xb",
    "k_uc: cfs=0xb cse=0x1 cmy=0x0 pid=PID vr=5000 dl=705000 xs=1 ct=70000",
    "k_pnt: c=80000 ct=80000",
    "k_resched: cpu=0 tif=4 cpid=PID",
    "k_resched: cpu=0 tif=5 cpid=PID",
    "k_tick: pid=PID ct=90000 c=90000",
    "k_sett: pid=PID first=1 vr=5000 dl=705000 vlag=9 sl=700000 vp=5 ct=95000 c=95000",
    "k_deq: pid=PID fl=0xe ct=99000 c=99000 pol=0 sp=120 w=1048576",
    "k_enq: pid=PID fl=0xe ct=99000 c=99000 pol=0 sp=120 w=1048576",
    "k_deqs: pid=PID fl=0x21 se=0x1 my=0x0",
    "sched_switch: prev_comm=a prev_pid=PID prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=2 next_prio=120",
];

proptest! {
    /// Random lines of the kinds that our recorder writes, read without its probes and by the rules of each kernel.
    #[test]
    fn nonsense_of_an_own_recording_never_panics(
        lines in proptest::collection::vec((any::<prop::sample::Index>(), 0u32..4, 0usize..4), 1..60),
    ) {
        let fragments: Vec<&str> = CFS.iter().chain(&EEVDF).chain(&OWN).copied().collect();
        let line = |(number, (which, pid, flags)): (usize, &(prop::sample::Index, u32, usize))| {
            let fragment = which.get(&fragments).replace("PID", &pid.to_string());
            let flags = ["0d..2.", "0dN.1.", "0dlh2.", "0....."][*flags];
            format!("a-{} {flags} 1.{number:09}: {fragment}\n", number % 3)
        };
        let text: String = lines.iter().enumerate().map(line).collect();
        for release in ["5.10", "6.1", "6.12", "7.2"] {
            for level in [Level::L0, Level::L0Place] {
                let mut settings = Settings::defaults(release.parse().unwrap()).unwrap();
                settings.level = Some(level);
                match replay(Reader::new(text.as_bytes()), &settings) {
                    Ok(report) => prop_assert!(!report.is_exact()),
                    Err(ReplayError::Empty) => {}
                    Err(error) => prop_assert!(false, "{error}"),
                }
            }
        }
    }
}
