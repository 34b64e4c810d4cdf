//! What this machine's operations cost, each measured alone.
//!
//! Nothing here is hackbench or any other workload that the costs are validated on. Each figure is the median over batches, so that
//! ticks and neighbours do little harm; what a benchmark cannot see alone is what remains of one when everything measured elsewhere is
//! taken off, and so the parts always add up to the whole.

mod bench;
mod births;
mod interrupts;
mod messages;
mod stats;
mod switching;
mod waking;

use std::collections::BTreeMap;

use schedlab_model::{ChannelKind, Costs, Time};
use serde::Serialize;

use crate::NativeError;
use crate::system::{exit_now, hz, kernel, monotonic};
use bench::Bench;
use messages::Exchange;
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
    /// Quartiles of what was measured directly, from which costs were derived.
    pub measured: BTreeMap<String, Spread>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

/// Measures what the operations of this machine cost: in about five seconds, or two.
///
/// Call it before any thread was made. Nothing needs a privilege.
///
/// # Errors
/// [`NativeError`] where no helper process or pipe could be made.
pub fn calibrate(quick: bool) -> Result<Calibration, NativeError> {
    let started = monotonic();
    end_on_interrupt();
    let bench = Bench::new(quick)?;
    let cpus = bench.cpus;
    let mut found = Found::default();
    messages(&bench, &mut found)?;
    switching(&bench, &mut found)?;
    waking(&bench, &mut found)?;
    births(&bench, &mut found)?;
    found.cost("tick", interrupts::tick(&bench, hz(), quick), 0.0);
    found.cost("migration", interrupts::migration(&bench)?, 0.0);
    if bench.there.is_none() {
        found.notes.push("one CPU: wakeup_remote, idle_exit and migration cannot be measured and are zero".to_owned());
    }
    let costs = found.costs();
    let Found { spread, measured, notes, .. } = found;
    let elapsed_ns = monotonic() - started;
    Ok(Calibration { release: kernel().0, hz: hz(), cpus, elapsed_ns, costs, spread, measured, notes })
}

/// Helpers die with us; all that an interrupt needs is the exit code.
fn end_on_interrupt() {
    extern "C" fn end(_: libc::c_int) {
        exit_now(130)
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only ends the process, which is allowed in a handler.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
}

#[derive(Default)]
struct Found {
    spread: BTreeMap<&'static str, Spread>,
    measured: BTreeMap<String, Spread>,
    notes: Vec<String>,
}

impl Found {
    /// Notes a cost: a measurement without the parts that are other costs.
    fn cost(&mut self, name: &'static str, measured: Option<Spread>, parts: f64) {
        let Some(measured) = measured else { return };
        let spread = measured.less(parts);
        if spread.median_ns < 0.0 {
            self.notes.push(format!("{name}: {:.0} ns, taken as zero", spread.median_ns));
        }
        self.spread.insert(name, spread);
    }

    /// Notes what a cost will be derived from.
    fn direct(&mut self, name: &str, measured: Option<Spread>) -> Option<Spread> {
        measured.inspect(|spread| {
            self.measured.insert(name.to_owned(), *spread);
        })
    }

    /// A cost found so far, in nanoseconds, not below zero.
    fn get(&self, name: &str) -> f64 {
        self.spread.get(name).map_or(0.0, |spread| spread.median_ns.max(0.0))
    }

    /// A direct measurement made so far, in nanoseconds.
    fn measured(&self, name: &str) -> f64 {
        self.measured.get(name).map_or(0.0, |spread| spread.median_ns)
    }

    fn costs(&self) -> Costs {
        let time = |name: &str| self.spread.get(name).map_or(Time::ZERO, |spread| spread.time());
        Costs {
            switch: time("switch"),
            cache_refill: time("cache_refill"),
            cache_refill_limit: time("cache_refill_limit"),
            wakeup: time("wakeup"),
            wakeup_remote: time("wakeup_remote"),
            idle_exit: time("idle_exit"),
            tick: time("tick"),
            system_call: time("system_call"),
            pipe_write: time("pipe_write"),
            pipe_read: time("pipe_read"),
            socket_write: time("socket_write"),
            socket_read: time("socket_read"),
            copy_per_kib: time("copy_per_kib"),
            block: time("block"),
            migration: time("migration"),
            fork_process: time("fork_process"),
            fork_thread: time("fork_thread"),
            exit_process: time("exit_process"),
            exit_thread: time("exit_thread"),
            reap: time("reap"),
        }
    }
}

/// Bytes of the two sizes of message whose difference is copying.
const SIZES: [usize; 2] = [1, 4096];

fn messages(bench: &Bench, found: &mut Found) -> Result<(), NativeError> {
    found.cost("system_call", messages::system_call(bench), 0.0);
    found.direct("exchange_of_a_byte", messages::exchange(bench)?);
    let system_call = found.get("system_call");
    let mut copies = Vec::new();
    for (kind, name, write, read) in [
        (ChannelKind::Pipe, "pipe", "pipe_write", "pipe_read"),
        (ChannelKind::Socket, "socket", "socket_write", "socket_read"),
    ] {
        let small = anywhere(bench, found, kind, name, SIZES[0])?;
        let large = anywhere(bench, found, kind, name, SIZES[1])?;
        found.cost(write, small.write, system_call);
        found.cost(read, small.read, system_call);
        for (small, large) in [(small.write, large.write), (small.read, large.read)] {
            let (Some(small), Some(large)) = (small, large) else { continue };
            copies.push(large.less(small.median_ns).times(1024.0 / (SIZES[1] - SIZES[0]) as f64));
        }
    }
    // Four ways of copying, one cost: their mean.
    if let Some(mean) = Spread::mean(&copies.iter().map(|copy| (*copy, 1.0)).collect::<Vec<_>>()) {
        found.cost("copy_per_kib", Some(mean), 0.0);
    }
    Ok(())
}

/// A message in bulk whose reader is on any CPU with equal chance.
fn anywhere(
    bench: &Bench,
    found: &mut Found,
    kind: ChannelKind,
    name: &str,
    bytes: usize,
) -> Result<Exchange, NativeError> {
    let mut writes = Vec::new();
    let mut reads = Vec::new();
    let others = bench.cpus.saturating_sub(1);
    for (reader, place, weight) in [(Some(bench.here), "here", 1), (bench.there, "there", others)] {
        let Some(reader) = reader else { continue };
        let exchange = messages::bulk(bench, kind, bytes, reader)?;
        for (spread, verb, all) in [(exchange.write, "write", &mut writes), (exchange.read, "read", &mut reads)] {
            let spread = found.direct(&format!("{name}_{verb}_{bytes:04}_bytes_read_{place}"), spread);
            all.extend(spread.map(|spread| (spread, f64::from(weight))));
        }
    }
    Ok(Exchange { write: Spread::mean(&writes), read: Spread::mean(&reads) })
}

fn switching(bench: &Bench, found: &mut Found) -> Result<(), NativeError> {
    found.cost("switch", switching::switch(bench)?, 0.0);
    let exchange = found.measured("exchange_of_a_byte");
    let wakeup = found.direct("write_that_wakes_here", waking::wakeup(bench, Where::Here)?);
    found.cost("wakeup", wakeup, exchange / 2.0);
    let mut hops = Vec::new();
    for length in switching::RINGS {
        let hop = found.direct(&format!("hop_in_a_ring_of_{length:03}"), switching::ring(bench, length)?);
        hops.extend(hop);
    }
    found.cost("block", hops.first().copied(), exchange + found.get("switch") + found.get("wakeup"));
    let samples = hops.iter().map(|hop| hop.samples).sum();
    let [middle, low, high] =
        [refill(&hops, |hop| hop.median_ns), refill(&hops, |hop| hop.p25_ns), refill(&hops, |hop| hop.p75_ns)];
    let spread = |median_ns: f64, low: f64, high: f64| {
        Some(Spread { median_ns, p25_ns: low.min(high), p75_ns: low.max(high), samples })
    };
    found.cost("cache_refill", spread(middle.0, low.0, high.0), 0.0);
    found.cost("cache_refill_limit", spread(middle.1, low.1, high.1), 0.0);
    Ok(())
}

fn refill(hops: &[Spread], value: fn(&Spread) -> f64) -> (f64, f64) {
    switching::refill(&hops.iter().map(value).collect::<Vec<_>>())
}

fn waking(bench: &Bench, found: &mut Found) -> Result<(), NativeError> {
    let exchange = found.measured("exchange_of_a_byte");
    let busy = found.direct("write_that_wakes_on_a_busy_cpu", waking::wakeup(bench, Where::Busy)?);
    found.cost("wakeup_remote", busy, exchange / 2.0 + found.get("wakeup"));
    found.direct("write_that_wakes_on_an_idle_cpu", waking::wakeup(bench, Where::Idle)?);
    if let Some(there) = bench.there {
        let half = found.direct("half_round_trip_there", switching::ping_pong(bench, there)?);
        let parts = ["switch", "wakeup", "wakeup_remote", "block"].map(|name| found.get(name)).iter().sum::<f64>();
        found.cost("idle_exit", half, exchange + parts);
    }
    Ok(())
}

fn births(bench: &Bench, found: &mut Found) -> Result<(), NativeError> {
    let switch = found.get("switch");
    let processes = births::births(bench, false)?;
    found.cost("fork_process", processes.fork, 0.0);
    found.cost("exit_process", processes.exit, switch);
    found.cost("reap", processes.reap, 0.0);
    let threads = births::births(bench, true)?;
    found.cost("fork_thread", threads.fork, 0.0);
    found.cost("exit_thread", threads.exit, switch);
    Ok(())
}
