//! Tasks' virtual-time positions, as a run reports them to an observer.

use crate::common;

use common::{milliseconds, scheduler, task, workload};
use schedlab_model::{Attributes, Costs, Machine, Standing, Step, Time};
use schedlab_program::Program;
use schedlab_sim::{Options, simulate};

fn standings(release: &str, nice: [i8; 2]) -> Vec<Standing> {
    let hog = |name: &str, nice| {
        let attributes = Attributes { nice, ..Attributes::default() };
        task(name, 1, attributes, vec![Step::Run(milliseconds(40))])
    };
    let program = Program::compile(&workload(vec![hog("one", nice[0]), hog("two", nice[1])])).expect("a workload");
    let mut found: Vec<Standing> = Vec::new();
    simulate(&program, &scheduler(release), &Machine::ideal(1), &Options::default(), &mut found).expect("it ends");
    found
}

/// Of each task: how much further its virtual time is at its last switch than at its first.
fn gained(found: &[Standing], task: u32) -> i64 {
    let of = |one: &&Standing| one.task.0 == task;
    let (first, last) = (found.iter().find(of).expect("one"), found.iter().rev().find(of).expect("one"));
    last.vruntime - first.vruntime
}

#[test]
fn virtual_time_grows_as_weighted_run_time() {
    for release in ["5.10", "6.1", "6.12", "7.2"] {
        // 40 ms of run time at nice 0 are 40 ms of virtual time; at nice -5, weight 3121 to 1024, they are 40 × 1024 / 3121 = 13.124 ms.
        // Rounding down at each charge loses less than a nanosecond, of some dozens of them.
        let found = standings(release, [0, -5]);
        assert_eq!(gained(&found, 0), 40_000_000, "{release}");
        let other = gained(&found, 1);
        assert!((13_124_000 - 100..13_125_000).contains(&other), "{release}: {other}");
        assert!(found.is_sorted_by_key(|one| one.time), "{release}");
    }
}

#[test]
fn lag_is_eevdfs_and_adds_up_to_nothing() {
    assert!(standings("6.1", [0, 0]).iter().all(|one| one.lag.is_none()));
    // Of two queued tasks of one weight V is the middle, so that at a switch from one to the other, their lags are opposite but for V's
    // rounding; the next task's lag is not negative. The last milliseconds one of them has alone.
    let found = standings("6.12", [0, 0]);
    let both = |one: &Standing| one.time < schedlab_model::Time::from_millis(70);
    let switches =
        found.windows(2).filter(|pair| both(&pair[1]) && pair[0].time == pair[1].time && pair[0].task != pair[1].task);
    let mut count = 0;
    for pair in switches {
        let [left, came] = [pair[0].lag.expect("EEVDF's"), pair[1].lag.expect("EEVDF's")];
        assert!(came >= 0, "{pair:?}");
        assert!((left + came).abs() <= 1, "{pair:?}");
        count += 1;
    }
    assert!(count > 5, "they take turns");
}

#[test]
fn a_pass_of_the_scheduler_is_charged_to_the_next_task() {
    // Microseconds: a pass takes 2, going to sleep 3 with the pass within, a system call 1. The first task is picked by the pass that ends at 2,
    // and charged from 0 on. It computes until 1002 and has gone to sleep at 1006, where the pass began at 1004; from then on the other one is
    // charged, which computes until 11,006 and ends.
    let costs = Costs {
        schedule: Time::from_micros(2),
        block: Time::from_micros(3),
        system_call: Time::from_micros(1),
        ..Costs::ideal()
    };
    let sleeper = vec![Step::Run(milliseconds(1)), Step::Sleep(milliseconds(100))];
    let tasks = vec![
        task("sleeper", 1, Attributes::default(), sleeper),
        task("hog", 1, Attributes::default(), vec![Step::Run(milliseconds(10))]),
    ];
    let program = Program::compile(&workload(tasks)).expect("a workload");
    // 7.2 lets tasks take turns sooner (HRTICK).
    for release in ["5.10", "6.1", "6.12"] {
        let mut found: Vec<Standing> = Vec::new();
        simulate(&program, &scheduler(release), &Machine::new(1, costs.clone()), &Options::default(), &mut found)
            .expect("it ends");
        let turn = |task: u32| {
            let mut own = found.iter().filter(|one| one.task.0 == task);
            let [came, left] = [own.next().expect("it comes"), own.next().expect("it goes")];
            [came.time.as_nanos(), left.time.as_nanos(), (left.vruntime - came.vruntime) as u64].map(|time| time / 1000)
        };
        assert_eq!([turn(0), turn(1)], [[2, 1006, 1004], [1006, 11_006, 10_002]], "{release}");
    }
}
