//! What is shown while the scheduler runs: shares and switches, from one look to the next.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::ExtError;
use crate::scheduler::{Counted, Scheduler};

/// Processes shown a time.
const SHOWN: usize = 6;

/// One process over some time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its id.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
    /// Threads when it last ran.
    pub threads: u32,
    /// CPU time in nanoseconds.
    pub runtime_ns: u64,
    /// Of all CPU time that the scheduler gave.
    pub share: f64,
    /// How often one of its threads was put on a CPU.
    pub switches: u64,
}

/// The counters at one moment.
pub struct Look {
    at: Instant,
    processes: BTreeMap<u32, Counted>,
}

impl Look {
    /// Look now.
    ///
    /// # Errors
    ///
    /// [`ExtError::System`].
    pub fn now(scheduler: &Scheduler) -> Result<Self, ExtError> {
        let processes = scheduler.processes()?.into_iter().map(|process| (process.pid, process)).collect();
        Ok(Self { at: Instant::now(), processes })
    }

    /// What happened since an earlier look, most CPU time first.
    pub fn since(&self, earlier: &Self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .processes
            .values()
            .map(|now| {
                let before = earlier.processes.get(&now.pid).map_or((0, 0), |old| (old.runtime, old.switches));
                Row {
                    pid: now.pid,
                    name: now.name.clone(),
                    threads: now.threads,
                    runtime_ns: now.runtime.saturating_sub(before.0),
                    share: 0.0,
                    switches: now.switches.saturating_sub(before.1),
                }
            })
            .filter(|row| row.runtime_ns > 0 || row.switches > 0)
            .collect();
        let all: u64 = rows.iter().map(|row| row.runtime_ns).sum();
        for row in &mut rows {
            row.share = if all == 0 { 0.0 } else { row.runtime_ns as f64 / all as f64 };
        }
        rows.sort_by_key(|row| (std::cmp::Reverse(row.runtime_ns), row.pid));
        rows
    }

    /// How long after an earlier look.
    pub fn after(&self, earlier: &Self) -> Duration {
        self.at.duration_since(earlier.at)
    }
}

/// Some lines for people: how busy the CPUs were, and which processes had them.
pub fn lines(rows: &[Row], began: Duration, span: Duration, online: u32) -> String {
    let used: u64 = rows.iter().map(|row| row.runtime_ns).sum();
    let switches: u64 = rows.iter().map(|row| row.switches).sum();
    let seconds = span.as_secs_f64().max(1e-9);
    let busy = used as f64 / (seconds * 1e9 * f64::from(online.max(1)));
    let mut text = format!(
        "{:7.1} s  {online} CPUs {:5.1} % busy, {:.0} switches/s\n",
        began.as_secs_f64(),
        busy * 100.0,
        switches as f64 / seconds
    );
    for row in rows.iter().take(SHOWN) {
        let threads = if row.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", row.threads) };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "           {:5.1} %  {} ({}, {threads}), {} switches",
            row.share * 100.0,
            row.name,
            row.pid,
            row.switches
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at: Instant, counts: &[(u32, u64, u64)]) -> Look {
        let process = |&(pid, runtime, switches): &(u32, u64, u64)| {
            (pid, Counted { pid, name: format!("p{pid}"), runtime, switches, threads: 2 })
        };
        Look { at, processes: counts.iter().map(process).collect() }
    }

    #[test]
    fn shares_are_of_what_was_given_meanwhile() {
        let began = Instant::now();
        let first = look(began, &[(1, 500, 5), (2, 100, 1)]);
        // Process 1 ran 300 ns more, 2 rested, 3 is new with 100 ns: shares 3/4 and 1/4.
        let second = look(began + Duration::from_nanos(200), &[(1, 800, 8), (2, 100, 1), (3, 100, 2)]);
        let rows = second.since(&first);
        let seen: Vec<(u32, u64, f64, u64)> =
            rows.iter().map(|row| (row.pid, row.runtime_ns, row.share, row.switches)).collect();
        assert_eq!(seen, [(1, 300, 0.75, 3), (3, 100, 0.25, 2)]);
        // 400 ns of CPU time in 200 ns on 2 CPUs: all of it. 5 switches in 200 ns: 25 million a second.
        let text = lines(&rows, Duration::from_secs(1), second.after(&first), 2);
        assert!(text.starts_with("    1.0 s  2 CPUs 100.0 % busy, 25000000 switches/s\n"), "{text}");
        assert!(text.contains(" 75.0 %  p1 (1, 2 threads), 3 switches\n"), "{text}");
    }
}
