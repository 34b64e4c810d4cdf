//! VCPU_PACK, a vendor's rule for virtual machines: a woken task stays with its waker instead of rousing an idle CPU, if at most one task
//! runs there and both use less than two thirds of it. What is expected follows from that sentence and from how averages grow and
//! decay (`y` is 0.5^(1/32) a millisecond); a task begins with half of what its CPU has to spare (`post_init_entity_util_avg`).

mod common;

use common::Machine;
use schedlab_model::{CpuId, Policy, TaskId};

const LONG: u64 = 400_000_000;

fn machine(packs: &str) -> Machine {
    Machine::with("6.18", 2, "smt=1", &[("feature.VCPU_PACK", packs)])
}

/// A machine on whose CPU 0 a task runs that has used nothing of late, and a task that slept there as long.
fn beside_a_light_waker(packs: &str) -> (Machine, TaskId) {
    let mut machine = machine(packs);
    let waker = machine.slept(0, &[0], Policy::Other);
    let task = machine.sleeper(0);
    machine.advance(LONG);
    machine.runs(0, waker);
    (machine, task)
}

/// The last CPU is the waker's and CPU 1 idles: Linux goes there, packing stays.
#[test]
fn a_task_with_room_beside_the_waker_stays() {
    for (packs, expected) in [("0", 1), ("1", 0)] {
        let (mut machine, task) = beside_a_light_waker(packs);
        assert_eq!(machine.wakes(0, task, false), expected, "VCPU_PACK={packs}");
    }
}

/// The waker alone has used 1 − y^t of its CPU after t ms, by its last tick: 0.64 at that of 48 ms, which are 46.9 periods of 1.024 ms, 0.69 at that of
/// 56 ms, 54.7 periods.
#[test]
fn a_waker_that_uses_two_thirds_leaves_no_room() {
    for (millis, expected) in [(49, 0), (57, 1)] {
        let (mut machine, task) = beside_a_light_waker("1");
        machine.advance(millis * 1_000_000);
        assert_eq!(machine.wakes(0, task, false), expected, "after {millis} ms");
    }
}

/// Two tasks are there, however little they use: the waiting one has slept for long, too.
#[test]
fn there_is_room_for_one_beside_one() {
    let mut machine = machine("1");
    let [waker, waits, task] = [0; 3].map(|cpu| machine.slept(cpu, &[], Policy::Other));
    machine.advance(LONG);
    machine.runs(0, waker);
    assert_eq!(machine.wakes(0, task, false), 0, "with one");
    machine.sched.try_to_wake_up(waits, CpuId(0));
    assert_eq!(machine.wakes(0, task, false), 1, "with two");
}

/// Both CPUs idle, and an interrupt on CPU 0 wakes: Linux leaves the task where it was, packing takes it to the CPU that is up.
#[test]
fn an_interrupt_draws_to_its_idle_cpu() {
    for (packs, expected) in [("0", 1), ("1", 0)] {
        let mut machine = machine(packs);
        let task = machine.sleeper(1);
        assert_eq!(machine.wakes(0, task, false), expected, "VCPU_PACK={packs}");
    }
}

/// What the task itself used when it last ran counts, undecayed, where it comes from the other CPU: with a half there is room beside a
/// task that used nothing, and none beside one that begins with a half.
#[test]
fn the_tasks_own_use_counts() {
    let (mut machine, _) = beside_a_light_waker("1");
    let task = machine.sleeper(1);
    assert_eq!(machine.wakes(0, task, false), 0);
    let mut machine = self::machine("1");
    let task = machine.sleeper(1);
    machine.hog(0);
    assert_eq!(machine.wakes(0, task, false), 1);
}

/// Packing draws no task to a CPU outside its affinity.
#[test]
fn affinity_comes_first() {
    let (mut machine, _) = beside_a_light_waker("1");
    let task = machine.slept(1, &[1], Policy::Other);
    assert_eq!(machine.wakes(0, task, false), 1);
}
