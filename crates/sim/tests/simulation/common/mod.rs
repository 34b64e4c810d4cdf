//! What the tests share: machines, runs, and a watcher that follows the events of a run.
#![allow(dead_code, reason = "each test takes what it needs")]

pub mod policies;
pub mod random;
pub mod watcher;

use schedlab_model::{
    Attributes, Costs, Event, EventKind, Machine, Outcome, Policy, Scheduler, Step, Task, TaskKind, Time, Workload,
};
use schedlab_program::Program;
use schedlab_sim::{Options, SimError, simulate};

/// One release of each series.
pub const RELEASES: [&str; 7] = ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

/// Some machine's costs, of the order of a real one's, no two alike.
pub fn some_costs() -> Costs {
    let nanos = Time::from_nanos;
    Costs {
        switch: nanos(1100),
        schedule: nanos(450),
        put_prev: nanos(120),
        cache_refill: nanos(120),
        cache_refill_limit: nanos(2000),
        cache_refill_llc: nanos(3300),
        wakeup: nanos(700),
        wakeup_preempt: Time::ZERO,
        wakeup_select: Time::ZERO,
        wakeup_remote: nanos(900),
        wakeup_far: Time::ZERO,
        schedule_far: Time::ZERO,
        ipi: nanos(700),
        ipi_idle: nanos(1100),
        ipi_halted: Time::ZERO,
        ipi_taken: nanos(400),
        idle_exit: nanos(2500),
        halt_exit: Time::ZERO,
        halt_deeper: Time::ZERO,
        idle_charged: nanos(1800),
        idle_switch: Time::ZERO,
        tick_restart: nanos(1300),
        tick: nanos(1500),
        steal: Time::ZERO,
        steal_period: Time::ZERO,
        system_call: nanos(90),
        pipe_write: nanos(250),
        pipe_read: nanos(240),
        socket_write: nanos(710),
        socket_read: nanos(500),
        pipe_empty: Time::ZERO,
        pipe_far: Time::ZERO,
        pipe_far_message: Time::ZERO,
        socket_far: Time::ZERO,
        socket_far_write: Time::ZERO,
        socket_far_read: Time::ZERO,
        file_reference: Time::ZERO,
        copy_per_kib: nanos(80),
        copy_far_per_kib: Time::ZERO,
        skb_per_kib: nanos(30),
        slab: Time::ZERO,
        slab_free: Time::ZERO,
        page: Time::ZERO,
        page_free: Time::ZERO,
        compute: Time::ZERO,
        lingering: Time::ZERO,
        begin_process: Time::ZERO,
        sleep_timer: nanos(420),
        next_timer: nanos(310),
        interrupt: nanos(380),
        timer_taken: Time::ZERO,
        timer_switch: Time::ZERO,
        futex_wake: nanos(270),
        futex_wait: nanos(330),
        clock: nanos(30),
        block: nanos(350),
        migration: nanos(600),
        balance: nanos(20),
        newidle: nanos(20_000),
        operation: nanos(35),
        tcp_connect: nanos(25_000),
        tcp_accept: nanos(7000),
        tcp_write: nanos(8000),
        tcp_read: nanos(1500),
        tcp_connect_tail: nanos(9000),
        tcp_write_tail: nanos(3000),
        tcp_client_closes: nanos(6000),
        tcp_client_closes_last: nanos(7000),
        tcp_server_closes: nanos(5500),
        tcp_server_closes_last: nanos(2500),
        start_process: nanos(45_000),
        start_thread: nanos(4000),
        fork_process: nanos(60_000),
        fork_thread: nanos(15_000),
        exit_process: nanos(40_000),
        exit_thread: nanos(6000),
        reap: nanos(9000),
        grace_period: Time::ZERO,
        unknown: Vec::new(),
    }
}

/// Whether nothing lies between a wake-up on an idle CPU and the switch to the woken task.
pub fn leave_idle_at_once(costs: &Costs) -> bool {
    let waking = [costs.wakeup, costs.wakeup_remote, costs.ipi_idle, costs.ipi_halted];
    waking == [Time::ZERO; 4]
        && [costs.idle_exit, costs.halt_exit, costs.tick_restart, costs.schedule] == [Time::ZERO; 4]
}

pub fn milliseconds(count: u64) -> schedlab_model::Duration {
    schedlab_model::Duration::Fixed(Time::from_millis(count))
}

pub fn microseconds(count: u64) -> schedlab_model::Duration {
    schedlab_model::Duration::Fixed(Time::from_micros(count))
}

pub fn scheduler(release: &str) -> Scheduler {
    Scheduler::new(release.parse().expect("a known release"))
}

pub fn task(name: &str, instances: u32, attributes: Attributes, steps: Vec<Step>) -> Task {
    Task {
        name: name.into(),
        instances,
        kind: TaskKind::Process,
        attributes: Some(attributes),
        steps,
        ..Task::default()
    }
}

pub fn workload(tasks: Vec<Task>) -> Workload {
    Workload {
        name: "test".into(),
        channels: Default::default(),
        latches: vec!["go".into()],
        tasks,
        ..Workload::default()
    }
}

/// A word as the command line takes it.
pub fn word(text: &str) -> Workload {
    schedlab_workloads::parse(text).expect("a workload")
}

/// Runs and keeps every event.
pub fn run_with(
    workload: &Workload,
    scheduler: &Scheduler,
    machine: &Machine,
    options: &Options,
) -> Result<(Outcome, Vec<Event>), SimError> {
    let program = Program::compile(workload).expect("a workload that compiles");
    let mut events = Vec::new();
    let outcome = simulate(&program, scheduler, machine, options, &mut events)?;
    Ok((outcome, events))
}

/// Runs to the end and keeps every event: the same with every tick as with those skipped that change nothing.
pub fn run_in_both_ways(workload: &Workload, scheduler: &Scheduler, machine: &Machine) -> (Outcome, Vec<Event>) {
    let every = Options { no_tick_skip: true, ..Options::default() };
    let (outcome, events) = run_with(workload, scheduler, machine, &Options::default()).expect("a run that ends");
    let (_, again) = run_with(workload, scheduler, machine, &every).expect("a run that ends");
    assert_eq!(events, again, "skipping ticks changes nothing");
    (outcome, events)
}

/// Runs to the end and keeps every event.
pub fn run(workload: &Workload, release: &str, machine: &Machine) -> (Outcome, Vec<Event>) {
    run_with(workload, &scheduler(release), machine, &Options::default()).expect("a run that ends")
}

pub fn fifo(priority: u8) -> Attributes {
    Attributes { policy: Policy::Fifo(priority), ..Attributes::default() }
}

pub fn micros(count: u64) -> Time {
    Time::from_micros(count)
}

/// The switches: when (in microseconds), on which CPU, to which task.
pub fn switches(events: &[Event]) -> Vec<(u64, u32, u32)> {
    let switch = |event: &Event| match event.kind {
        EventKind::Switch { next, .. } => Some((event.time.as_nanos() / 1000, event.cpu.0, next.0)),
        _ => None,
    };
    events.iter().filter_map(switch).collect()
}

/// A task's life, run, wait and sleep, in microseconds.
pub fn shares(outcome: &Outcome, task: usize) -> [u64; 4] {
    let task = &outcome.tasks[task];
    [task.life_ns, task.run_ns, task.wait_ns, task.sleep_ns].map(|time| time / 1000)
}
