//! CPUs that share cores and have turbo, and caches that are cold: derived runs, and that no work is lost or won.

use crate::common;

use std::collections::BTreeMap;

use common::random::{Case, case, limited};
use common::{microseconds, milliseconds, run, run_with, scheduler, task, workload};
use proptest::prelude::*;
use schedlab_model::{
    Attributes, Costs, Duration, Event, EventKind, Machine, Outcome, Policy, Scheduler, Speed, Step, TaskId, Time,
    Workload,
};
use schedlab_sim::{Options, SimError};

fn machine(cpus: u32, topology: &str, speed: &str, costs: Costs) -> Machine {
    let topology = topology.parse().expect("a topology");
    Machine { topology, speed: speed.parse().expect("a speed"), ..Machine::new(cpus, costs) }
}

fn on(cpu: u32) -> Attributes {
    Attributes { policy: Policy::Fifo(1), affinity: vec![cpu], ..Attributes::default() }
}

fn computes(name: &str, cpu: u32, millis: u64) -> schedlab_model::Task {
    task(name, 1, on(cpu), vec![Step::Run(milliseconds(millis))])
}

/// When each task ended, in nanoseconds.
fn ends(tasks: Vec<schedlab_model::Task>, machine: &Machine) -> Vec<u64> {
    let (outcome, _) = run(&workload(tasks), "6.1", machine);
    assert!(
        outcome.tasks.iter().all(|task| task.wait_ns == 0 && task.system_ns == 0),
        "each has its CPU and costs nothing"
    );
    outcome.tasks.iter().map(|task| task.life_ns).collect()
}

#[test]
fn threads_of_a_core_share_it() {
    // 10 and 5 ms of work on the two threads of a core at 62.5 % each: the second ends after 5 / 0.625 = 8 ms; by then 5 ms of the
    // first are done, and the other 5 it does alone. On another core it has nothing to do with the first.
    let machine = machine(4, "smt=2", "smt=62.5%", Costs::ideal());
    assert_eq!(ends(vec![computes("a", 0, 10), computes("b", 1, 5)], &machine), [13_000_000, 8_000_000]);
    assert_eq!(ends(vec![computes("a", 0, 10), computes("b", 2, 5)], &machine), [10_000_000, 5_000_000]);
    // Numbered the other way, CPU 2 is the sibling.
    let last = self::machine(4, "smt=2,siblings=last", "smt=62.5%", Costs::ideal());
    assert_eq!(ends(vec![computes("a", 0, 10), computes("b", 2, 5)], &last), [13_000_000, 8_000_000]);
}

#[test]
fn fewer_busy_cores_are_faster() {
    // 26 and 12 ms on two cores at 120 %: the second ends at 10 ms; of the first 14 ms are left, at 130 % for 14 / 1.3 = 10.769230769…
    // ms, and what is left of a nanosecond takes a whole one.
    let machine = machine(4, "smt=1", "turbo=130%/120%/100%", Costs::ideal());
    assert_eq!(ends(vec![computes("a", 0, 26), computes("b", 1, 12)], &machine), [20_769_231, 10_000_000]);
    // Three: 10 ms each at 100 %, the last number, which holds for four too.
    let three: Vec<_> = (0..3).map(|cpu| computes(&format!("hog{cpu}"), cpu, 10)).collect();
    assert_eq!(ends(three, &machine), [10_000_000; 3]);
    // Two sockets of two cores: each goes by its own.
    let sockets = self::machine(4, "node=2", "turbo=125%/100%", Costs::ideal());
    assert_eq!(ends(vec![computes("a", 0, 10), computes("b", 2, 5)], &sockets), [8_000_000, 4_000_000]);
    // Both threads of one core are one busy core: each at 130 % × 50 %.
    let both = self::machine(4, "smt=2", "smt=50%,turbo=130%/100%", Costs::ideal());
    assert_eq!(ends(vec![computes("a", 0, 13), computes("b", 1, 13)], &both), [20_000_000, 20_000_000]);
}

#[test]
fn what_a_nanosecond_holds_beyond_an_operation_is_kept() {
    // At 150 % three operations of 1 ns are done after 1, 2 and 2 ns: the first leaves half a nanosecond of work over.
    let machine = machine(1, "smt=1", "turbo=150%", Costs::ideal());
    let three = vec![Step::Run(Duration::Fixed(Time::from_nanos(1))), Step::Yield];
    for (count, time) in [(1, 1), (2, 2), (3, 2), (300, 200), (3001, 2001)] {
        let steps = vec![Step::Loop { count, steps: three.clone() }];
        assert_eq!(ends(vec![task("short", 1, on(0), steps)], &machine), [time], "{count}");
    }
    // Across sleeps too: five times 1 µs at 30 % are 16.666 µs, of which 10 µs and 2.333 fall between sleeps of 1 ms.
    let slow = self::machine(2, "smt=2", "smt=30%", Costs::ideal());
    let steps = vec![Step::Loop { count: 5, steps: vec![Step::Run(microseconds(1)), Step::Sleep(milliseconds(1))] }];
    let tasks = vec![task("naps", 1, on(0), steps), computes("beside", 1, 10)];
    let (outcome, _) = run(&workload(tasks), "6.1", &slow);
    assert_eq!(outcome.tasks[0].run_ns, 16_667);
}

#[test]
fn ticks_and_costs_are_slowed_as_all_work_is() {
    // Two threads at 50 %, ticks of 10 µs at 1000 Hz: 1.001 ms of work take 2.002 ms without ticks; those at 1 and 2 ms add 20 µs each.
    let costs = Costs { tick: Time::from_micros(10), ..Costs::ideal() };
    let machine = machine(2, "smt=2", "smt=50%", costs.clone());
    let hog = |cpu, micros| task(&format!("hog{cpu}"), 1, on(cpu), vec![Step::Run(microseconds(micros))]);
    let both = |micros| vec![hog(0, micros), hog(1, micros)];
    for no_tick_skip in [false, true] {
        let options = Options { no_tick_skip, ..Options::default() };
        let scheduler = Scheduler { hz: 1000, ..scheduler("6.1") };
        for (work, end) in [(1001, 2042), (500, 1000), (501, 1022)] {
            let (outcome, _) = run_with(&workload(both(work)), &scheduler, &machine, &options).expect("it ends");
            assert_eq!(outcome.elapsed_ns, end * 1000, "{work} us");
            // Of its time as of its work: half as fast throughout.
            let task = &outcome.tasks[0];
            assert_eq!(task.user_ns + task.system_ns, end * 1000);
            assert_eq!(task.user_ns, work * 2000);
        }
    }
    // Ticks that leave nothing at the least speed are refused, as those that leave nothing at all are.
    let much = self::machine(2, "smt=2", "smt=1%", costs);
    let scheduler = Scheduler { hz: 1000, ..scheduler("6.1") };
    let refused = run_with(&workload(both(1)), &scheduler, &much, &Options::default());
    assert!(matches!(refused, Err(SimError::TickCost { .. })), "{refused:?}");
}

#[test]
fn a_task_that_waits_for_the_clock_is_not_slower() {
    // Spinning until 10 ms have passed takes 10 ms; beside it 5 ms of work take 10 at 50 %, and do so whichever began first.
    let machine = machine(2, "smt=2", "smt=50%", Costs::ideal());
    let spins = |cpu| task("spins", 1, on(cpu), vec![Step::Busy(milliseconds(10))]);
    assert_eq!(ends(vec![spins(0), computes("works", 1, 5)], &machine), [10_000_000, 10_000_000]);
    assert_eq!(ends(vec![computes("works", 1, 5), spins(0)], &machine), [10_000_000, 10_000_000]);
}

#[test]
fn cpus_that_have_turns_share_one() {
    // 10 and 4 ms of work on two of four CPUs: each does half of it in a time, so that the second ends at 8 ms, when 4 ms of the first are done, which
    // does the other 6 alone. Cores, caches and sockets are no matter.
    for topology in ["smt=1", "smt=2", "node=2"] {
        let machine = machine(4, topology, "turns", Costs::ideal());
        assert_eq!(ends(vec![computes("a", 0, 10), computes("b", 3, 4)], &machine), [14_000_000, 8_000_000]);
    }
    // Four of 3 ms end together when all of their work is done.
    let four: Vec<_> = (0..4).map(|cpu| computes(&format!("hog{cpu}"), cpu, 3)).collect();
    assert_eq!(ends(four, &machine(4, "smt=1", "turns", Costs::ideal())), [12_000_000; 4]);
}

/// Ordinary, on one CPU.
fn pinned(cpu: u32) -> Attributes {
    Attributes { affinity: vec![cpu], ..Attributes::default() }
}

#[test]
fn clocks_go_on_in_others_turns() {
    // Computing for 10 ms by a clock takes that, and before its first look at the clock 200 µs of setting up: twice as long where both CPUs are busy,
    // which they are throughout. The system call after it is no computing, and takes twice as long, too; that of the longer task is made alone.
    // A task that begins to compute beside another sees on average 2500 · 1² / (2 · 2) = 625 ns late that its time is up, in whole ns of work 312 · 2.
    let (compute, system_call) = (Time::from_micros(200), Time::from_micros(50));
    let machine = machine(2, "smt=1", "turns", Costs { compute, system_call, ..Costs::ideal() });
    let hog = |name, cpu, millis| task(name, 1, pinned(cpu), vec![Step::Run(milliseconds(millis)), Step::Yield]);
    let (outcome, _) = run(&workload(vec![hog("a", 0, 20), hog("b", 1, 10)]), "6.1", &machine);
    let ends: Vec<u64> = outcome.tasks.iter().map(|task| task.life_ns).collect();
    assert_eq!(ends, [400_000 + 20_000_000 + 50_000, 400_000 + 10_000_000 + 624 + 100_000]);
}

#[test]
fn a_task_that_is_preempted_before_it_looks_at_the_clock_has_as_much_left_to_do() {
    // "low" sets up its computing for 100 µs, twice as long beside another busy CPU. After 100 µs, when half is done, "high" comes to its CPU and computes
    // for 1 ms by the clock, 200 µs of setting up before that, and sees 624 ns late that it has. "low" then takes 100 µs more, and its 5 ms.
    let compute = Time::from_micros(100);
    let machine = machine(2, "smt=1", "turns", Costs { compute, ..Costs::ideal() });
    let idle = Attributes { policy: Policy::Idle, ..pinned(0) };
    let tasks = vec![
        task("high", 1, pinned(0), vec![Step::Sleep(microseconds(100)), Step::Run(milliseconds(1))]),
        task("low", 1, idle, vec![Step::Run(milliseconds(5))]),
        task("beside", 1, pinned(1), vec![Step::Run(milliseconds(20))]),
    ];
    let (outcome, _) = run(&workload(tasks), "6.1", &machine);
    let low = &outcome.tasks[1];
    assert_eq!((low.run_ns, low.life_ns), (200_000 + 5_000_000, 100_000 + 1_200_000 + 624 + 100_000 + 5_000_000));
}

#[test]
fn the_way_out_of_idle_takes_as_many_turns() {
    // A pass of 30 µs lies between a timer on an idle CPU and the switch to its sleeper: 60 beside a busy CPU. So it does beside a waker on another CPU,
    // and beside a third it takes 90. A CPU is notified once its waker has done the wake-up's work, of 10, and has no turns before: 10 or 20 more.
    let costs = Costs { schedule: Time::from_micros(30), wakeup: Time::from_micros(10), ..Costs::ideal() };
    let hog = |cpu| task("hog", 1, pinned(cpu), vec![Step::Run(milliseconds(9))]);
    let sleeper = || task("woken", 1, pinned(0), vec![Step::Sleep(milliseconds(2))]);
    let latency = |tasks: Vec<schedlab_model::Task>| {
        let (outcome, events) = run(&workload(tasks), "6.1", &machine(4, "smt=1", "turns", costs.clone()));
        let woken = TaskId(outcome.tasks.iter().position(|task| task.name == "woken").expect("it ran") as u32);
        let waking = |event: &&Event| matches!(event.kind, EventKind::Waking { task, .. } if task == woken);
        let comes = |event: &&Event| matches!(event.kind, EventKind::Switch { next, .. } if next == woken);
        let last = |found: Vec<u64>| found.last().copied().expect("it was woken");
        let times =
            |of: &dyn Fn(&&Event) -> bool| events.iter().filter(of).map(|event| event.time.as_nanos()).collect();
        last(times(&comes)) - last(times(&waking))
    };
    // A timer's interrupt does its wake-up itself.
    assert_eq!(latency(vec![sleeper()]), 40_000);
    assert_eq!(latency(vec![sleeper(), hog(1)]), 80_000);
    let waits = || task("woken", 1, pinned(0), vec![Step::Acquire("ready".into())]);
    let posts = |micros| {
        let steps = vec![Step::Run(milliseconds(2)), Step::Post("ready".into()), Step::Run(microseconds(micros))];
        task("posts", 1, pinned(1), steps)
    };
    assert_eq!(latency(vec![waits(), posts(2_000)]), 10_000 + 60_000);
    assert_eq!(latency(vec![waits(), posts(2_000), hog(2)]), 20_000 + 90_000);
    // After the wake-up the waker works for 20, until 40 later. The pass, of which 20 are done by then, has the CPU for itself for the rest.
    assert_eq!(latency(vec![waits(), posts(20)]), 10_000 + 40_000 + 10_000);
}

#[test]
fn caches_are_cold_for_a_task_from_another_core() {
    // CPUs 0 and 1 are a core, 2 and 3 another, 4 and on have another cache. A task that moves pays 10 µs for a switch; 2 more (the limit)
    // from another core, and 5 more from another cache. Its first switch costs the limit.
    let costs = Costs {
        switch: Time::from_micros(10),
        cache_refill: Time::from_micros(1),
        cache_refill_limit: Time::from_micros(2),
        cache_refill_llc: Time::from_micros(5),
        ..Costs::ideal()
    };
    let machine = machine(8, "smt=2,llc=4", "turbo=100%", costs);
    for (to, cost) in [(0, 0), (1, 10), (2, 12), (4, 17)] {
        let moved = Step::Set(schedlab_model::Change { affinity: Some(vec![to]), ..schedlab_model::Change::default() });
        let steps = vec![Step::Run(microseconds(100)), moved, Step::Run(microseconds(100))];
        let (outcome, _) = run(&workload(vec![task("moves", 1, on(0), steps)]), "6.1", &machine);
        assert_eq!(outcome.elapsed_ns, (12 + 100 + cost + 100) * 1000, "to CPU {to}");
    }
}

/// What CPUs did for each task, in millionths of a nanosecond of nominal work, from the events alone.
fn work_done(events: &[Event], machine: &Machine) -> Vec<u128> {
    let cpus = machine.cpus;
    let place = |cpu: u32| (machine.topology.core(cpu, cpus), machine.topology.node_of(cpu, cpus));
    let mut current: Vec<Option<usize>> = vec![None; cpus as usize];
    let (mut work, mut now) = (Vec::new(), 0);
    for event in events {
        let passed = u128::from(event.time.as_nanos() - now);
        now = event.time.as_nanos();
        let busy: Vec<u32> = (0..cpus).filter(|cpu| current[*cpu as usize].is_some()).collect();
        for cpu in &busy {
            let (core, socket) = place(*cpu);
            let threads = busy.iter().filter(|other| place(**other).0 == core).count();
            let cores: std::collections::BTreeSet<u32> =
                busy.iter().map(|other| place(*other)).filter(|other| other.1 == socket).map(|other| other.0).collect();
            let rate = machine.speed.rate(threads as u32, cores.len() as u32);
            work[current[*cpu as usize].expect("it is busy")] += passed * u128::from(rate);
        }
        match event.kind {
            EventKind::Fork { .. } => work.push(0),
            EventKind::Switch { next, .. } => {
                current[event.cpu.index()] = (next != TaskId::IDLE).then_some(next.index());
            }
            _ => {}
        }
    }
    work
}

/// By name and instance, so that the order of creation does not matter.
fn by_name<T>(outcome: &Outcome, of: impl IntoIterator<Item = T>) -> BTreeMap<String, T> {
    outcome.tasks.iter().map(|task| task.name.clone()).zip(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without costs a task's work is its computing, however fast and wherever it is done: as much as at the nominal speed, where
    /// work and time are the same, and less than a nanosecond of the fastest speed beyond.
    #[test]
    fn the_work_done_is_the_work_there_was(case in case()) {
        let nominal = Machine { speed: Speed::default(), costs: Costs::ideal(), ..case.machine.clone() };
        let paced = Machine { costs: Costs::ideal(), ..case.machine.clone() };
        let scheduler = limited(case.scheduler.clone(), Some("unlimited"));
        let run = |workload: &Workload, machine| run_with(workload, &scheduler, machine, &Options::default())
            .map_err(|error| TestCaseError::fail(error.to_string()));
        let (wanted, _) = run(&case.workload, &nominal)?;
        let (outcome, events) = run(&case.workload, &paced)?;
        let wanted = by_name(&wanted, wanted.tasks.iter().map(|task| u128::from(task.run_ns) * u128::from(Speed::NOMINAL)));
        let fastest = u128::from(paced.speed.rate(1, 1));
        let done = by_name(&outcome, work_done(&events, &paced));
        prop_assert_eq!(wanted.len(), outcome.tasks.len());
        for (name, done) in done {
            let beyond = done.checked_sub(wanted[&name]);
            prop_assert!(beyond.is_some_and(|beyond| beyond < fastest), "{name}: {done}, wanted {}", wanted[&name]);
        }
        let run_ns: u64 = outcome.tasks.iter().map(|task| task.run_ns).sum();
        prop_assert_eq!(run_ns, outcome.cpu_busy_ns.iter().sum::<u64>());
        prop_assert!(outcome.tasks.iter().all(|task| task.system_ns == 0), "nothing costs anything");
    }

    /// A speed of 100 % for every number of busy threads and cores changes nothing.
    #[test]
    fn a_speed_that_never_changes_changes_nothing(case in case()) {
        let plain = Case { machine: Machine { speed: Speed::default(), ..case.machine.clone() }, ..case };
        let mut paced = plain.machine.clone();
        paced.speed = "turbo=100%".parse().expect("a speed");
        let options = Options::default();
        let one = run_with(&plain.workload, &plain.scheduler, &plain.machine, &options);
        prop_assert_eq!(one, run_with(&plain.workload, &plain.scheduler, &paced, &options));
    }
}
