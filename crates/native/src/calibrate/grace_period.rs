//! The kernel thread that begins and ends RCU's grace periods: its CPU time, while a task leaves memory to RCU.

use std::fs;
use std::path::Path;

use super::schedstat::Schedstat;
use super::stats::Samples;
use crate::NativeError;
use crate::error::during;
use crate::network::{Listening, close, leave};
use crate::system;

/// Connections that are ended, one at a time.
const CONNECTIONS: usize = 32;

/// Ticks in which a grace period begins, ends, and its memory is freed.
const TICKS: u64 = 4;

/// What the thread is called, by what a kernel takes for a reader (`RCU_NAME`).
const NAMES: [&str; 2] = ["rcu_preempt", "rcu_sched"];

/// Measures the CPU time of a run of the thread, its switch included. Nothing where the thread is not to be seen or does not run.
pub(crate) fn runs(hz: u32, samples: &mut Samples) -> Result<(), NativeError> {
    let Some(thread) = find() else { return Ok(()) };
    let port = Listening::open().map_err(during("opening a port"))?;
    let mut runs = Vec::new();
    for _ in 0..CONNECTIONS {
        let before = thread.read();
        let client = port.connect().map_err(during("connecting over the loopback interface"))?;
        let server = port.take().map_err(during("connecting over the loopback interface"))?;
        leave(client);
        close(server);
        system::sleep(TICKS * 1_000_000_000 / u64::from(hz));
        if let (Ok(before), Ok(after)) = (before, thread.read())
            && after.runs > before.runs
        {
            runs.push(after.run.saturating_sub(before.run) as f64 / (after.runs - before.runs) as f64);
        }
    }
    port.close();
    samples.add("run_of_rcu_s_thread", runs);
    Ok(())
}

/// The thread's `schedstat`.
fn find() -> Option<Schedstat> {
    let of_rcu = |path: &Path| fs::read_to_string(path.join("comm")).is_ok_and(|name| NAMES.contains(&name.trim_end()));
    // A child of kthreadd's, so that it is no program of that name.
    let of_kernel = |path: &Path| fs::read_to_string(path.join("cmdline")).is_ok_and(|line| line.is_empty());
    let mut paths = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let path = paths.find(|path| of_rcu(path) && of_kernel(path))?;
    Schedstat::open(&path).ok()
}
