//! On which CPU a task is placed, and what an idle CPU pulls (`select_task_rq`, `newly_idle_balance`). The kernel's balancing is simplified
//! to what keeps CPUs busy (docs/concepts/simplifications.md); these are its rules.

use schedlab_model::{CpuId, Policy, TaskId};
use schedlab_sched::WakeKind;

use crate::lab::{CPU0, CPU1, Lab, MS, attributes, pinned};

const WAKEUP: WakeKind = WakeKind::Wakeup { sync: false };
const CPU2: CpuId = CpuId(2);

/// Four CPUs with so many running tasks each, and one task asleep that last ran on CPU 1.
fn machine(running: [u32; 4]) -> (Lab, TaskId) {
    let mut lab = Lab::with_cpus("6.1", 4, &[]);
    let sleeper = lab.spawn_on(CPU1, Policy::Other, 0);
    lab.schedule(CPU1);
    lab.sleep(CPU1);
    for (cpu, count) in (0..).map(CpuId).zip(running) {
        for _ in 0..count {
            lab.spawn_on(cpu, Policy::Other, 0);
        }
        lab.schedule(cpu);
    }
    (lab, sleeper)
}

/// A woken task goes where it last ran, if that is idle; else to the waker's CPU, if that is; else to any idle one; else where it ran.
#[test]
fn a_woken_task_prefers_its_last_cpu_then_its_waker_s_then_any_idle() {
    for (running, waker, chosen) in [
        ([0, 0, 0, 0], CPU2, CPU1),
        ([1, 0, 1, 1], CPU2, CPU1),
        ([0, 1, 0, 0], CPU2, CPU2),
        ([0, 1, 1, 0], CPU2, CPU0),
        ([1, 1, 1, 1], CPU2, CPU1),
        ([1, 5, 1, 1], CPU2, CPU1),
    ] {
        let (mut lab, sleeper) = machine(running);
        assert_eq!(lab.place(sleeper, waker, WAKEUP), chosen, "{running:?}");
    }
}

/// A new task goes to its parent's CPU if that idles, else to an idle one, else to the least loaded, the parent's before equals.
#[test]
fn a_new_task_goes_where_there_is_least_to_do() {
    for (running, parent_cpu, chosen) in
        [([1, 0, 0, 1], CPU0, CPU1), ([2, 3, 1, 2], CPU0, CPU2), ([2, 2, 2, 2], CPU2, CPU2), ([1, 2, 2, 1], CPU2, CPU0)]
    {
        let (mut lab, _) = machine(running);
        let new = lab.sched.new_task(&attributes(Policy::Other, 0));
        assert_eq!(lab.place(new, parent_cpu, WakeKind::Fork), chosen, "{running:?}");
    }
}

/// Affinity stands above all.
#[test]
fn a_task_is_only_put_where_it_may_run() {
    for (running, allowed, chosen) in
        [([0, 0, 0, 1], vec![3], CpuId(3)), ([1, 0, 1, 0], vec![0, 3], CpuId(3)), ([3, 0, 2, 0], vec![0, 2], CPU2)]
    {
        let (mut lab, sleeper) = machine(running);
        lab.sched.sched_setattr(sleeper, &pinned(&allowed));
        assert_eq!(lab.place(sleeper, CPU1, WAKEUP), chosen, "{running:?} {allowed:?}");
        let new = lab.sched.new_task(&pinned(&allowed));
        assert_eq!(lab.place(new, CPU1, WakeKind::Fork), chosen, "{running:?} {allowed:?}");
    }
}

/// An idle CPU pulls from the CPU with most tasks, the first of equals, and only where one waits.
#[test]
fn an_idle_cpu_pulls_from_the_busiest() {
    for (running, busiest) in
        [([0, 1, 1, 1], None), ([0, 2, 1, 1], Some(CPU1)), ([0, 2, 3, 3], Some(CPU2)), ([0, 3, 2, 3], Some(CPU1))]
    {
        let (lab, _) = machine(running);
        assert_eq!(lab.sched.newly_idle_balance(CPU0), busiest, "{running:?}");
    }
}

/// It takes the task that would run next there, never the running one, and only one that may come.
#[test]
fn a_pull_takes_the_first_waiting_task_that_may_come() {
    let mut lab = Lab::with_cpus("6.1", 2, &[]);
    let (running, stays, comes) = (lab.task(), lab.task(), lab.task());
    lab.schedule(CPU0);
    lab.sched.sched_setattr(stays, &pinned(&[0]));
    assert_eq!(lab.sched.newly_idle_balance(CPU1), Some(CPU0));
    lab.sync(CPU0);
    lab.sync(CPU1);
    assert_eq!(lab.sched.pull_task(CPU0, CPU1), Some(comes));
    assert_eq!(lab.schedule(CPU1), comes);
    assert_eq!((lab.curr(CPU0), lab.sched.nr_running(CPU0)), (running, 2));
    // Only the pinned one waits now.
    lab.sleep(CPU1);
    assert_eq!(lab.sched.newly_idle_balance(CPU1), None);
    assert_eq!(lab.sched.pull_task(CPU0, CPU1), None);
}

/// Real-time tasks that wait are pulled before fair ones.
#[test]
fn a_pull_takes_real_time_tasks_first() {
    let mut lab = Lab::with_cpus("6.1", 2, &[]);
    lab.task();
    lab.spawn(Policy::Fifo(9), 0);
    lab.schedule(CPU0);
    let (low, high) = (lab.spawn(Policy::Fifo(3), 0), lab.spawn(Policy::Fifo(5), 0));
    lab.sync(CPU1);
    assert_eq!(lab.sched.pull_task(CPU0, CPU1), Some(high));
    assert_eq!(lab.sched.pull_task(CPU0, CPU1), Some(low));
}

/// A CPU idles from when its last task leaves to when the next is queued.
#[test]
fn a_cpu_idles_exactly_while_it_has_no_task() {
    let mut lab = Lab::with_cpus("6.1", 2, &[]);
    assert!(lab.sched.idle_cpu(CPU0));
    let task = lab.task();
    assert!(!lab.sched.idle_cpu(CPU0), "queued, though no task runs yet");
    lab.schedule(CPU0);
    lab.run(CPU0, MS);
    assert_eq!(lab.sleep(CPU0), TaskId::IDLE);
    assert!(lab.sched.idle_cpu(CPU0));
    assert_eq!(lab.place(task, CPU1, WAKEUP), CPU0);
    lab.wake(task);
    assert!(!lab.sched.idle_cpu(CPU0));
}
