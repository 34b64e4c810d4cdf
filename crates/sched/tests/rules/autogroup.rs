//! Sessions (`kernel/sched/autogroup.c`): a task that begins one, and all it forks, share one group's weight.

use schedlab_model::TaskId;
use schedlab_sched::GroupId;

use crate::lab::{CPU0, Lab, MS};

const RELEASES: [&str; 6] = ["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

/// The parts of the CPU, in per cent, over `seconds` at 250 Hz.
fn parts(lab: &mut Lab, tasks: &[&[TaskId]], seconds: u64) -> Vec<f64> {
    let of = |lab: &Lab, tasks: &[TaskId]| tasks.iter().map(|task| lab.sched.sum_exec_runtime(*task)).sum::<u64>();
    let before: Vec<u64> = tasks.iter().map(|tasks| of(lab, tasks)).collect();
    for _ in 0..seconds * 250 {
        if lab.tick_after(CPU0, 4 * MS) {
            lab.schedule(CPU0);
        }
    }
    tasks
        .iter()
        .zip(before)
        .map(|(tasks, before)| (of(lab, tasks) - before) as f64 / (seconds * 10 * MS) as f64)
        .collect()
}

/// A compiler with eight jobs beside a player: of nine equals the player has 11 %, in a session of its own half.
#[test]
fn a_session_of_one_gets_as_much_as_one_of_eight() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let player = lab.task();
        let make = lab.task();
        let sessions = [player, make].map(|task| lab.sched.setsid(task).expect("a release with groups"));
        assert_ne!(sessions[0], sessions[1]);
        lab.schedule(CPU0);
        while lab.curr(CPU0) != make {
            lab.tick_after(CPU0, 4 * MS);
            lab.schedule(CPU0);
        }
        // What it forks is in its session.
        let jobs: Vec<TaskId> = (0..7).map(|_| lab.fork(make, CPU0)).chain([make]).collect();
        for job in &jobs {
            assert_eq!(lab.sched.group_of(*job), sessions[1], "{release}");
        }
        let found = parts(&mut lab, &[&[player], &jobs], 40);
        assert!((found[0] - 50.0).abs() < 0.5 && (found[1] - 50.0).abs() < 0.5, "{release}: {found:?}");
    }
}

/// `/proc/PID/autogroup`: nice 5 for a session is 335 shares: 335 / 1359 = 24.65 % beside a session at 0, however many tasks are in it.
#[test]
fn a_session_s_nice_level_is_its_weight() {
    for release in RELEASES {
        let mut lab = Lab::new(release, &[]);
        let (one, first, second) = (lab.task(), lab.task(), lab.task());
        lab.sched.setsid(one).expect("a session");
        let nice = lab.sched.setsid(first).expect("a session");
        lab.sched.sched_move_task(second, nice);
        lab.sched.set_autogroup_nice(nice, 5).expect("a session");
        assert_eq!(lab.sched.group_entity(nice, CPU0).map(|se| se.weight >> 10), Some(335), "{release}");
        lab.schedule(CPU0);
        let found = parts(&mut lab, &[&[one], &[first, second]], 40);
        assert!((found[1] - 24.65).abs() < 0.5, "{release}: {found:?}");
        // A nice level within the session divides what the session has: 24.65 % · 335 / 1359 = 6.08 %.
        lab.sync(CPU0);
        lab.sched.set_user_nice(second, 5);
        let found = parts(&mut lab, &[&[one], &[first], &[second]], 100);
        assert!((found[2] - 6.08).abs() < 0.3, "{release}: {found:?}");
    }
}

/// Without groups there are no sessions: 2.6.24 says so. The root group has no nice level.
#[test]
fn what_cannot_be_a_session_is_refused() {
    let mut lab = Lab::new("2.6.24", &[]);
    let task = lab.task();
    assert!(lab.sched.setsid(task).is_err());
    let mut lab = Lab::new("6.1", &[]);
    assert!(lab.sched.set_autogroup_nice(GroupId::ROOT, 5).is_err());
}
