//! The kernel thread that begins and ends RCU's grace periods: its CPU time, while a task leaves memory to RCU.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

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
        let before = cpu(&thread);
        let client = port.connect().map_err(during("connecting over the loopback interface"))?;
        let server = port.take().map_err(during("connecting over the loopback interface"))?;
        leave(client);
        close(server);
        system::sleep(TICKS * 1_000_000_000 / u64::from(hz));
        if let (Some((cpu_before, before)), Some((cpu, after))) = (before, cpu(&thread))
            && after > before
        {
            runs.push(cpu.saturating_sub(cpu_before) as f64 / (after - before) as f64);
        }
    }
    port.close();
    samples.add("run_of_rcu_s_thread", runs);
    Ok(())
}

/// The thread's `schedstat`.
fn find() -> Option<File> {
    let of_rcu = |path: &Path| fs::read_to_string(path.join("comm")).is_ok_and(|name| NAMES.contains(&name.trim_end()));
    // A child of kthreadd's, so that it is no program of that name.
    let of_kernel = |path: &Path| fs::read_to_string(path.join("cmdline")).is_ok_and(|line| line.is_empty());
    let mut paths = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let path = paths.find(|path| of_rcu(path) && of_kernel(path))?;
    File::open(path.join("schedstat")).ok()
}

/// The CPU time that it took so far, in nanoseconds, and how often it was switched in: the first and the third number.
fn cpu(thread: &File) -> Option<(u64, u64)> {
    let mut text = [0; 64];
    let length = thread.read_at(&mut text, 0).ok()?;
    let mut numbers = std::str::from_utf8(&text[..length]).ok()?.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.nth(1)?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_s_cpu_time_and_runs_are_the_first_and_the_third_number() {
        let own = File::open("/proc/self/schedstat").unwrap();
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let (time, runs) = cpu(&own).unwrap();
        // The thread of a test is not the process's first one; both have run.
        assert!(time > 0 && runs > 0 && numbers.len() == 3, "{text}");
    }
}
