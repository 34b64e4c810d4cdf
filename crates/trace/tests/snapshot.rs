//! The snapshot of the kernel's scheduler debug file.

use proptest::prelude::*;
use schedlab_model::Time;
use schedlab_trace::{Snapshot, TraceError};

const CFS: &str = "\
Sched Debug Version: v0.11, 6.1.0-50-amd64 #1
ktime                                   : 14475.661082

sysctl_sched
  .sysctl_sched_latency                    : 6.000000
  .sysctl_sched_child_runs_first           : 0
  .sysctl_sched_features                   : 125720123
  .sysctl_sched_tunable_scaling            : 1 (logarithmic)

cpu#0, 2594.231 MHz
  .nr_running                    : 1
  .clock                         : 14441.519531

cfs_rq[0]:/
  .min_vruntime                  : 7799.819194
  .nr_running                    : 1

rt_rq[0]:
  .rt_nr_running                 : 0

runnable tasks:
 S            task   PID         tree-key  switches  prio     wait-time             sum-exec        sum-sleep
-------------------------------------------------------------------------------------------------------------
 S     migration/0    16         0.000000         9     0         0.000000         3.740882         0.000000         0.000000 0 0 /
 S   (two words)  2    127        -1.796474         3    49         0.000000         0.889700         0.000000         0.000000 0 0 /
>R             cat   240      7799.819194        51   120         0.000000        58.250978         0.000000         0.000000 0 0 /
";

#[test]
fn milliseconds_with_six_decimals_are_nanoseconds() {
    let snapshot: Snapshot = CFS.parse().unwrap();
    assert_eq!(snapshot.release, "6.1.0-50-amd64");
    // 6.000000 ms = 6,000,000 ns; 7799.819194 ms = 7,799,819,194 ns.
    assert_eq!(snapshot.time("latency"), Some(Time::from_millis(6)));
    assert_eq!(snapshot.number("features"), Some(125_720_123));
    assert_eq!(snapshot.number("tunable_scaling"), Some(1));
    let queue = snapshot.queues[0];
    assert_eq!((queue.cpu, queue.min_vruntime, queue.running), (0, Some(7_799_819_194), 1));
    assert_eq!(queue.clock, Time::from_nanos(14_441_519_531));
    let cat = snapshot.task(240).unwrap();
    assert_eq!((cat.state, cat.vruntime, cat.priority, &*cat.group), ('R', 7_799_819_194, 120, "/"));
    assert!(cat.running && !snapshot.task(16).unwrap().running);
}

#[test]
fn a_name_may_hold_blanks_and_numbers_and_a_vruntime_may_be_negative() {
    let snapshot: Snapshot = CFS.parse().unwrap();
    let task = snapshot.task(127).unwrap();
    assert_eq!((&*task.name, task.vruntime, task.priority), ("(two words) 2", -1_796_474, 49));
}

#[test]
fn eevdf_tables_have_their_columns_elsewhere() {
    let text = "\
Sched Debug Version: v0.11, 6.12.95+deb12-amd64 #1
cfs_rq[0]:/
  .zero_vruntime                 : 21771.472561
  .nr_queued                     : 1
runnable tasks:
 S            task   PID       vruntime   eligible    deadline             slice          sum-exec      switches  prio  wait-time        sum-sleep       sum-block  node   group-id  group-path
 S  virtme-ng-init     1     18766.987291   E       18767.458076           0.700000      3036.418603       893     125         0.000000         0.000000         0.000000   0      0        /
";
    let snapshot: Snapshot = text.parse().unwrap();
    assert_eq!(snapshot.queues[0].zero_vruntime, Some(21_771_472_561));
    assert_eq!(snapshot.task(1).unwrap().priority, 125);
}

/// 7.3 shows what a task weighs in the timeline before its virtual time; names may end in numbers.
#[test]
fn a_weight_may_come_before_the_virtual_time() {
    let text = "\
Sched Debug Version: v0.11, 7.3.4+deb13-amd64 #1
cfs_rq[0]:/
  .zero_vruntime                 : 9040.000000
  .nr_queued                     : 1
runnable tasks:
 S            task   PID     weight       vruntime   eligible    deadline             slice          sum-exec      switches  prio         wait-time        sum-sleep       sum-block  node   group-id  group-path
 S            init     1    1048576      9040.974710   E        9041.316824           0.700000      3424.161632       566     120         0.000000         0.000000         0.000000   0      0        /
 I       worker 77     4   90891264        13.512074   E          13.516871           0.700000         0.329314         2     100         0.000000         0.000000         0.000000   0      0        /
";
    let snapshot: Snapshot = text.parse().unwrap();
    let task = |pid| snapshot.task(pid).map(|task| (task.name.clone(), task.vruntime, task.priority));
    assert_eq!(task(1), Some(("init".to_owned(), 9_040_974_710, 120)));
    assert_eq!(task(4), Some(("worker 77".to_owned(), 13_512_074, 100)));
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    let error = "".parse::<Snapshot>().unwrap_err();
    assert!(matches!(&error, TraceError::Missing { what } if what.contains("Sched Debug Version")), "{error}");
    let error = "Sched Debug Version: v0.11, 6.1 #1\n".parse::<Snapshot>().unwrap_err();
    assert!(error.to_string().contains("task table"), "{error}");
    let error = CFS.replace("7799.819194        51", "7799,81        51").parse::<Snapshot>().unwrap_err();
    assert!(matches!(error, TraceError::Malformed { line: 26, .. }), "{error}");
    let error = CFS.replace(".min_vruntime                  : 7", ".min_vruntime                  : x");
    let error = error.parse::<Snapshot>().unwrap_err();
    assert!(error.to_string().contains("line 15"), "{error}");
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        let _ = text.parse::<Snapshot>();
    }

    #[test]
    fn mutilated_snapshots_never_panic(cut in 0usize..1600, replacement in "\\PC{0,4}") {
        let cut = cut.min(CFS.len());
        let text = format!("{}{replacement}{}", &CFS[..cut], CFS[cut..].chars().skip(3).collect::<String>());
        let _ = text.parse::<Snapshot>();
    }
}
