//! The costs of this machine's operations, each measured alone.
//!
//! Nothing here is hackbench or any other workload that the costs are validated on. Every micro-benchmark is repeated in several passes
//! over all of them, and each figure is the median over all its batches: ticks do little harm, nor do a CPU's and its neighbours'
//! slow spells, which last longer than a benchmark. What none can see alone is what remains of one when everything measured elsewhere
//! is taken off, and so the parts add up to the whole.

mod balancing;
mod begun;
mod bench;
mod derive;
mod devices;
mod disk;
mod fork_cost;
mod grace_period;
mod idling;
mod interrupts;
mod labels;
mod messages;
mod ports;
mod refill;
mod schedstat;
mod sleeping;
mod stats;
mod switching;
mod waking;

use std::collections::BTreeMap;
use std::path::Path;

use schedlab_model::{ChannelKind, Costs, TaskKind, Time};
use serde::Serialize;

use crate::NativeError;
use crate::system::{exit_now, hz, kernel, monotonic};
use bench::Bench;
use derive::Derived;
use labels::{
    BURST, BURST_HERE, BURST_THERE, DELAYS, FEW_HOP, LATE_LONG, LATE_LONGER, LATE_SHORT, MORE_HOP, NORMAL_HOP,
    READ_IN_A_FLOW, SEMAPHORE_HOP, WAKES, WRITE_IN_A_FLOW, WRITES, hop, message, sizes,
};
use stats::Samples;
pub use stats::Spread;
use waking::Where;

/// The costs of this machine, and how they were found.
#[derive(Debug, Clone, Serialize)]
pub struct Calibration {
    /// The kernel's release.
    pub release: String,
    /// Timer interrupts a second.
    pub hz: u32,
    /// CPUs that this process may use.
    pub cpus: u32,
    /// How long it took.
    pub elapsed_ns: u64,
    /// The costs.
    pub costs: Costs,
    /// Quartiles of each cost, under its name; absent where it could not be measured (and is zero).
    pub spread: BTreeMap<&'static str, Spread>,
    /// Quartiles of what was measured directly, from which costs and devices were derived.
    pub measured: BTreeMap<String, Spread>,
    /// What memory and, where one was measured, the disk take: fields of [`schedlab_model::Devices`].
    pub devices: BTreeMap<&'static str, Time>,
    /// The CPU that takes all of the disk's interrupts, as one of those that this process may use; none where the CPU that asks takes them.
    pub disk_cpu: Option<u32>,
    /// Quartiles of what nothing of the simulator's charges yet: working sets gone cold, files that the page cache has.
    pub later: BTreeMap<String, Spread>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

/// Measures what the operations of this machine cost: in about five seconds, or one.
///
/// Call it before any thread was made. Nothing needs a privilege. The disk is the one of `directory`, where given: 16 MiB are written
/// to a file there that has no name and is gone afterwards.
///
/// # Errors
/// [`NativeError`] where no helper process or pipe could be made, or no file written.
pub fn calibrate(quick: bool, directory: Option<&Path>) -> Result<Calibration, NativeError> {
    let started = monotonic();
    end_on_interrupt();
    let bench = Bench::new(if quick { 12 } else { 30 })?;
    let mut samples = Samples::default();
    for _ in 0..if quick { 2 } else { 5 } {
        pass(&bench, &mut samples)?;
        // On a machine that is busy otherwise, fewer passes have to do.
        if monotonic() - started > LONG_ENOUGH {
            break;
        }
    }
    let mut later = Samples::default();
    for kib in refill::SETS {
        let refills = refill::refill(&bench, kib)?;
        later.add(&format!("refill_of_{kib}_kib_after_preemption"), refills.after_preemption);
        later.add(&format!("refill_of_{kib}_kib_after_migration"), refills.after_migration);
    }
    devices::memory(&mut samples);
    grace_period::runs(hz(), &mut samples)?;
    // After all that tasks went from CPU to CPU for.
    samples.add("newidle_balance", balancing::newidle());
    let (disk_cpu, unmeasured) = match directory {
        Some(directory) => disk::disk(&bench, directory, &mut samples, &mut later)?,
        None => (None, Vec::new()),
    };
    // SAFETY: no preconditions; nothing is left that could hang.
    unsafe { libc::alarm(0) };
    let mut measured = samples.spreads();
    let crowding = measured.remove(CROWDING).map_or(1.0, |spread| spread.median_ns);
    let Derived { costs, spread, mut notes } = derive::derive(&measured, bench.cpus, hz());
    if crowding > 1.1 {
        let why = "caches and idling cost too much here, so cache_refill_limit, ipi, ipi_idle, idle_exit and exits are too high";
        notes.push(format!("other work took {:.0}% of a CPU meanwhile: {why}", 100.0 * (1.0 - 1.0 / crowding)));
    }
    notes.extend(unmeasured);
    let devices = devices::devices(&measured, &costs, &mut notes);
    let elapsed_ns = monotonic() - started;
    Ok(Calibration {
        release: kernel().0,
        hz: hz(),
        cpus: bench.cpus,
        elapsed_ns,
        costs,
        spread,
        measured,
        devices,
        disk_cpu,
        later: later.spreads(),
        notes,
    })
}

/// The name of the factor by which other work slows this one down.
const CROWDING: &str = "crowding";

/// No pass begins after so many nanoseconds.
const LONG_ENOUGH: u64 = 5_500_000_000;

/// Every micro-benchmark once.
fn pass(bench: &Bench, samples: &mut Samples) -> Result<(), NativeError> {
    samples.add(CROWDING, vec![messages::crowding()]);
    samples.add("system_call", messages::system_call(bench));
    samples.add("exchange_of_a_byte", messages::exchange(bench)?);
    samples.add("exchange_among_threads", messages::exchange_among_threads(bench)?);
    let (writes, reads) = messages::backlog(bench)?;
    samples.add("write_behind_a_backlog", writes);
    samples.add("read_before_a_backlog", reads);
    for (kind, name) in [(ChannelKind::Pipe, "pipe"), (ChannelKind::Socket, "socket")] {
        for bytes in sizes(name) {
            for (place, cpu) in [("here", Some(bench.here)), ("there", bench.there)] {
                let Some(cpu) = cpu else { continue };
                let (writes, reads) = messages::stream(bench, kind, bytes, cpu, 1)?;
                samples.add(&message(name, "write", bytes, place), writes);
                samples.add(&message(name, "read", bytes, place), reads);
            }
        }
        if let Some(there) = bench.there {
            let (writes, reads) = messages::stream(bench, kind, 1, there, BURST)?;
            samples.add(&message(name, "write", 1, BURST_THERE), writes);
            samples.add(&message(name, "read", 1, BURST_THERE), reads);
        }
    }
    for (place, cpu) in [(BURST_HERE, Some(bench.here)), (BURST_THERE, bench.there)] {
        let Some(cpu) = cpu else { continue };
        let (writes, reads) = messages::stream(bench, ChannelKind::Pipe, messages::PAGE, cpu, messages::PAGES)?;
        samples.add(&message("pipe", "write", messages::PAGE, place), writes);
        samples.add(&message("pipe", "read", messages::PAGE, place), reads);
    }
    let (taken, given) = messages::fresh_pages(bench)?;
    samples.add("fresh_page", taken);
    if let Some(there) = bench.there {
        let (writes, reads) = messages::flow(bench, there)?;
        samples.add(WRITE_IN_A_FLOW, writes);
        samples.add(READ_IN_A_FLOW, reads);
    }
    samples.add("page_given_back", given);
    samples.add("yield_alone", switching::yields_alone(bench));
    samples.add("switch", switching::switch(bench)?);
    for length in switching::RINGS {
        samples.add(&hop(length), switching::ring(bench, length)?);
    }
    samples.add(NORMAL_HOP, switching::normal_ring(bench)?);
    let [few, more] = switching::socket_rings(bench)?;
    samples.add(FEW_HOP, few);
    samples.add(MORE_HOP, more);
    samples.add(SEMAPHORE_HOP, switching::semaphore_ring(bench)?);
    samples.add("write_that_wakes_here", waking::wakeup(bench, Where::Here)?);
    samples.add("post_that_wakes_here", waking::post(bench)?);
    samples.add("look_at_the_clock", messages::looks(bench));
    let sleeps = sleeping::sleeps(bench)?;
    samples.add("sleep_alone", sleeps.alone);
    samples.add("sleep_by_turns", sleeps.by_turns);
    samples.add("interrupt_that_wakes_here", sleeping::interrupts(bench)?);
    if let Some(there) = bench.there {
        samples.add("write_that_wakes_on_a_busy_cpu", waking::wakeup(bench, Where::Busy(there))?);
        for (name, free) in WAKES.into_iter().zip([false, true]) {
            samples.add(name, waking::wakeup(bench, Where::Beside { there, free })?);
        }
        let crossings = waking::crossings(bench, there)?;
        samples.add("write_that_wakes_on_a_switching_cpu", crossings.writes);
        samples.add("run_of_a_task_woken_on_a_switching_cpu", crossings.runs);
        let [idle, halted] = [waking::BRIEFLY, waking::LONG].map(|span| waking::rousings(bench, there, span));
        let (idle, halted) = (idle?, halted?);
        samples.add(WRITES[0], idle.mean_writes());
        samples.add(WRITES[1], halted.mean_writes());
        samples.add(DELAYS[0], idle.delays);
        samples.add(DELAYS[1], halted.delays);
        samples.add("write_that_wakes_on_an_idle_cpu", idle.writes);
        samples.add("run_of_a_task_woken_on_an_idle_cpu", idle.runs);
        let preemptions = waking::preemptions(bench, there)?;
        samples.add("write_that_preempts_on_a_busy_cpu", preemptions.writes);
        samples.add("preemption_on_a_busy_cpu", preemptions.gaps);
        samples.add("half_round_trip_there", switching::ping_pong(bench, there)?);
        samples.add("migration", interrupts::migration(bench, there)?);
    }
    for (kind, name) in [(TaskKind::Process, "process"), (TaskKind::Thread, "thread")] {
        let births = fork_cost::births(bench, kind)?;
        samples.add(&format!("forking_a_{name}"), births.forks);
        samples.add(&format!("collecting_a_{name}"), births.reaps);
        samples.add(&format!("ending_of_a_{name}"), fork_cost::endings(bench, kind)?);
        samples.add(&format!("making_a_{name}"), fork_cost::makings(bench, kind)?);
        samples.add(&format!("start_of_a_{name}"), fork_cost::starts(bench, kind)?);
    }
    samples.add("beginning_of_a_process", fork_cost::beginnings(bench)?);
    ports::connections(bench, samples)?;
    ports::waits(bench, samples)?;
    samples.add("runner_s_exchange_of_a_byte", fork_cost::exchanges(bench)?);
    samples.add("computation", fork_cost::computations(bench)?);
    let interruptions = interrupts::interruptions(bench, hz());
    samples.add("tick", interruptions.ticks);
    samples.add("hypervisor_s_tick", interruptions.steals);
    samples.add("hypervisor_s_tick_period", interruptions.period);
    let [short, longer, long] = idling::lateness(hz());
    samples.add(LATE_SHORT, short);
    samples.add(LATE_LONGER, longer);
    samples.add(LATE_LONG, long);
    Ok(())
}

/// Seconds after which a calibration must have hung.
const HUNG: u32 = 180;

/// Helpers die with us; all that an interrupt needs is the exit code, and all that a benchmark needs whose helper was killed.
fn end_on_interrupt() {
    type Handler = extern "C" fn(libc::c_int);
    extern "C" fn end(_: libc::c_int) {
        exit_now(130)
    }
    extern "C" fn hung(_: libc::c_int) {
        let line = b"schedlab-native: a helper of the calibration ended too early or never ran\n";
        let _ = crate::system::write(2, line);
        exit_now(1)
    }
    for (signal, handler) in
        [(libc::SIGINT, end as Handler), (libc::SIGTERM, end), (libc::SIGHUP, end), (libc::SIGALRM, hung)]
    {
        // SAFETY: the handlers do nothing but write and end the process, which is allowed in a handler.
        unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    }
    // SAFETY: no preconditions.
    unsafe { libc::alarm(HUNG) };
}
