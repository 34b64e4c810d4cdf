//! How tasks end while others wait.

use crate::common;

use common::{microseconds, milliseconds, run_in_both_ways, scheduler, task, workload};
use schedlab_model::{Attributes, Event, EventKind, Machine, Outcome, Step, TaskKind, TaskState, Time, Workload};

/// One that computes and ends, and one that computes on.
fn two(first: u64, kind: TaskKind) -> Workload {
    let mut tasks = vec![
        task("ends", 1, Attributes::default(), vec![Step::Run(microseconds(first))]),
        task("stays", 1, Attributes::default(), vec![Step::Run(milliseconds(30))]),
    ];
    tasks.iter_mut().for_each(|task| task.kind = kind);
    workload(tasks)
}

/// When the first task is switched out, in microseconds, and in which state; the same with every tick.
fn leaves(workload: &Workload, release: &str, machine: &Machine) -> (Vec<(u64, TaskState)>, Outcome) {
    let (outcome, events) = run_in_both_ways(workload, &scheduler(release), machine);
    let left = |event: &Event| match event.kind {
        EventKind::Switch { previous, state, .. } if previous.0 == 0 => Some((event.time.as_nanos() / 1000, state)),
        _ => None,
    };
    (events.iter().filter_map(left).collect(), outcome)
}

/// 7.2: both come at the same virtual time, with a request of 350 µs (PLACE_DEADLINE_INITIAL). The first ends after 200 µs, at V = 100 µs: it
/// is not eligible, and as it leaves its autogroup the other one comes, until its request is served at v = 350 µs. Then V is 275 µs, the first is
/// eligible, and ends. Its switches were read before. Kernels that let system calls end do not switch there.
#[test]
fn a_task_that_exits_out_of_turn_on_7_2_is_switched_out_first() {
    for kind in [TaskKind::Process, TaskKind::Thread] {
        let workload = two(200, kind);
        let (left, outcome) = leaves(&workload, "7.2", &Machine::ideal(1));
        assert_eq!(left, [(200, TaskState::Running), (550, TaskState::Dead)]);
        assert_eq!((outcome.tasks[0].involuntary, outcome.tasks[0].run_ns), (0, 200_000));
        for release in ["2.6.24", "5.10", "6.1", "6.12", "6.18"] {
            assert_eq!(leaves(&workload, release, &Machine::ideal(1)).0, [(200, TaskState::Dead)], "{release}");
        }
    }
}

/// A request of 350 µs is long served when the first task ends after 1 ms, and no tick has come. As it reads its own CPU time it is
/// charged: under EEVDF it is switched out there, and ends once the tick at 4 ms has ended the other one's turn. CFS looks at slices at
/// ticks alone. And where system calls are not simulated no task reads its CPU time.
#[test]
fn a_task_that_reads_its_cpu_time_may_be_preempted() {
    let workload = two(1000, TaskKind::Process);
    let machine = || {
        let mut machine = Machine::ideal(1);
        machine.costs.system_call = Time::from_nanos(1);
        machine
    };
    for release in ["6.12", "6.18"] {
        let (left, outcome) = leaves(&workload, release, &machine());
        assert_eq!(left, [(1000, TaskState::Running), (4000, TaskState::Dead)], "{release}");
        assert_eq!(outcome.tasks[0].involuntary, 1, "{release}");
        assert_eq!(leaves(&workload, release, &Machine::ideal(1)).0, [(1000, TaskState::Dead)], "{release}");
    }
    for release in ["5.10", "6.1"] {
        assert_eq!(leaves(&workload, release, &machine()).0, [(1000, TaskState::Dead)], "{release}");
    }
}

/// Two sleep 100 µs, compute 1 ms, a CPU each, and take 100 µs to end. Half of that is over as two of nice −20 wake up beside the first. CFS
/// lets one preempt (1.05 ms of virtual time are more than its granularity of 23 µs); the other is what CPU 1 takes once its own task is gone. It
/// computes 3 ms, takes 100 µs to end, and 50 µs later the first is gone: with no involuntary switch, as what it came to was read before it
/// began to end. On flat queues of several CPUs, too.
#[test]
fn switches_of_an_exiting_task_are_not_counted() {
    let urgent = Attributes { nice: -20, ..Attributes::default() };
    let workload = workload(vec![
        task("ends", 2, Attributes::default(), vec![Step::Sleep(microseconds(100)), Step::Run(milliseconds(1))]),
        task("wakes", 2, urgent, vec![Step::Sleep(microseconds(1150)), Step::Run(milliseconds(3))]),
    ]);
    let mut machine = Machine::ideal(2);
    machine.costs.exit_process = Time::from_micros(100);
    for release in ["5.10", "6.1"] {
        let (left, outcome) = leaves(&workload, release, &machine);
        assert_eq!(
            left,
            [(0, TaskState::Interruptible), (1150, TaskState::Running), (4300, TaskState::Dead)],
            "{release}"
        );
        assert_eq!(outcome.tasks[0].involuntary, 0, "{release}");
    }
}
