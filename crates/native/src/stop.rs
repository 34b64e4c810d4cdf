//! The end of a run whose time is over: every task is stopped where it is, and its counters are read from outside.

use std::fs;
use std::sync::atomic::Ordering::SeqCst;

use crate::shared::{LIVING, Slot};
use crate::system::{self, monotonic};
use crate::task::World;

/// How long is waited until a task has stopped, in nanoseconds: one that waits for a CPU's turn is not late for long.
const PATIENCE: u64 = 100_000_000;

/// How long the runner sleeps between two looks at a task, in nanoseconds.
const PAUSE: u64 = 50_000;

/// Stops the tasks of some process groups and stores their counters in their slots.
///
/// A process takes a signal by any of its threads, mostly its first, which may wait for a CPU as long as a real-time thread of its own does not
/// sleep. So the signal goes to each thread that is a task, which stops the others of its process as well.
pub(crate) fn stop_tasks<'a>(world: &World, groups: impl Iterator<Item = &'a libc::pid_t>) {
    let living = || world.shared.taken().iter().filter(|slot| slot.state.load(SeqCst) == LIVING);
    for slot in living() {
        system::stop_thread(slot.process.load(SeqCst), slot.thread.load(SeqCst));
    }
    for group in groups {
        // SAFETY: the groups are the tasks' own, and not all of them have been collected.
        unsafe { libc::kill(-group, libc::SIGSTOP) };
    }
    let end = monotonic();
    for slot in living() {
        measure(slot, end, world.delays);
    }
}

fn measure(slot: &Slot, end: u64, delays: bool) {
    let place = format!("/proc/{}/task/{}", slot.process.load(SeqCst), slot.thread.load(SeqCst));
    let Some(mut stat) = stat(&place) else { return };
    while stat.state == 'R' && monotonic() < end + PATIENCE {
        // The runner is of a real-time class: a task of another, on its CPU, stops only while it sleeps.
        system::sleep(PAUSE);
        stat = match self::stat(&place) {
            Some(stat) => stat,
            None => return,
        };
    }
    let numbers = |file: &str| fs::read_to_string(format!("{place}/{file}")).unwrap_or_default();
    let times: Vec<u64> = numbers("schedstat").split_whitespace().map_while(|word| word.parse().ok()).collect();
    let status = numbers("status");
    let switches = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let since = |now: u64, before: usize| now.saturating_sub(slot.before[before].load(SeqCst));
    // Without schedstat the kernel's ticks must do.
    let run = times.first().copied().unwrap_or((stat.user + stat.system) * 10_000_000);
    slot.run.store(since(run, 0), SeqCst);
    slot.user.store(since(stat.user * 10_000_000, 1), SeqCst);
    slot.system.store(since(stat.system * 10_000_000, 2), SeqCst);
    // Being stopped is a switch, too, and not the workload's.
    let stopped = u64::from(stat.state == 'T');
    slot.voluntary.store(since(switches("voluntary_ctxt_switches:"), 3).saturating_sub(stopped), SeqCst);
    slot.involuntary.store(since(switches("nonvoluntary_ctxt_switches:"), 4), SeqCst);
    if let (true, [_, wait, delays, ..]) = (delays, &times[..]) {
        slot.wait.store(since(*wait, 5), SeqCst);
        slot.delays.store(since(*delays, 6), SeqCst);
    }
    slot.end.store(end, SeqCst);
}

/// What `/proc/PID/task/TID/stat` says: the state, and CPU time in hundredths of a second.
struct Stat {
    state: char,
    user: u64,
    system: u64,
}

fn stat(place: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("{place}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.chars().next()?;
    let mut words = words.skip(10);
    Some(Stat { state, user: words.next()?.parse().ok()?, system: words.next()?.parse().ok()? })
}
