//! What recording costs: two processes that wake each other up, with the recorded events switched on and off.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use serde::Serialize;

use crate::system::{self, die_with, exit_now};

use super::tracefs::Instance;

/// Round trips of a measurement; two switches each.
const ROUNDS: u64 = 300;
/// Measurements of which the least counts: other tasks only lengthen one.
const TRIES: usize = 5;

/// What recording costs, as measured after the recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Overhead {
    /// Nanoseconds an event.
    pub event_ns: f64,
    /// The part of the time of all CPUs, from the command's start to its end, that the recorded events cost: 0 to 1.
    pub share: f64,
}

impl Overhead {
    /// The overhead of `events` in `elapsed` nanoseconds of `cpus` CPUs, where round trips cost so many nanoseconds with the events and
    /// without, and record so many events.
    fn of(with: u64, without: u64, recorded: u64, events: u64, elapsed: u64, cpus: usize) -> Option<Self> {
        if recorded == 0 {
            return None;
        }
        let event_ns = with.saturating_sub(without) as f64 / recorded as f64;
        let time = (elapsed as f64 * cpus as f64).max(1.0);
        Some(Self { event_ns, share: (event_ns * events as f64 / time).min(1.0) })
    }
}

/// Measures what an event costs, on the first CPU that this process may use; none where the measurement is not possible.
///
/// The recording has to be read already: its buffers take further events, and all events are switched off at the end.
pub(super) fn measure(instance: &Instance, events: u64, elapsed: u64, cpus: usize) -> Option<Overhead> {
    let allowed = system::allowed_cpus();
    let cpu = *allowed.first()?;
    system::set_affinity(0, &[cpu]).ok()?;
    let found = Partner::new().ok().and_then(|partner| {
        instance.set("tracing_on", "1").ok()?;
        let before = instance.kept(cpu).ok()?;
        let with = partner.least(TRIES).ok()?;
        let recorded = instance.kept(cpu).ok()?.saturating_sub(before) / TRIES as u64;
        instance.set("events/enable", "0").ok()?;
        let without = partner.least(TRIES).ok()?;
        instance.set("tracing_on", "0").ok()?;
        Overhead::of(with, without, recorded, events, elapsed, cpus)
    });
    let _ = system::set_affinity(0, &allowed);
    found
}

/// A process that answers each byte; it ends as its pipes are closed.
struct Partner {
    ask: Option<OwnedFd>,
    answer: OwnedFd,
    pid: libc::pid_t,
}

impl Partner {
    fn new() -> io::Result<Self> {
        let (asked, ask) = system::pipe()?;
        let (answer, answering) = system::pipe()?;
        let parent = system::pid();
        // SAFETY: the recorder has one thread.
        let pid = unsafe { system::fork() }?;
        if pid == 0 {
            // SAFETY: the parent's ends, which this process does not use; its end of the pipe would keep it open.
            unsafe {
                libc::close(ask);
                libc::close(answer);
            }
            let mut byte = [0];
            let is_child = die_with(parent);
            while is_child
                && system::read(asked, &mut byte).is_ok_and(|read| read == 1)
                && system::write(answering, &byte).is_ok()
            {}
            exit_now(0);
        }
        // SAFETY: descriptors of the pipes just made, each owned once; those of the child's ends are closed.
        unsafe {
            libc::close(asked);
            libc::close(answering);
            Ok(Self { ask: Some(OwnedFd::from_raw_fd(ask)), answer: OwnedFd::from_raw_fd(answer), pid })
        }
    }

    /// The shortest of so many measurements of [`ROUNDS`] round trips, in nanoseconds.
    fn least(&self, tries: usize) -> io::Result<u64> {
        let times: io::Result<Vec<u64>> = (0..tries).map(|_| self.rounds()).collect();
        Ok(times?.into_iter().min().unwrap_or(0))
    }

    fn rounds(&self) -> io::Result<u64> {
        let Some(ask) = &self.ask else { return Ok(0) };
        let begun = system::monotonic();
        let mut byte = [0];
        for _ in 0..ROUNDS {
            system::write(ask.as_raw_fd(), b"!")?;
            if system::read(self.answer.as_raw_fd(), &mut byte)? != 1 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(system::monotonic() - begun)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.ask = None;
        let mut status = 0;
        // SAFETY: `status` is an int to write to; the child ends, as its pipe is closed.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overhead_is_what_the_events_cost_of_all_cpus_time() {
        // 600 us more for 1,200 events: 0.5 us each; 10,000 of them are 5 ms of 2 CPUs' 50 ms.
        let found = Overhead::of(1_600_000, 1_000_000, 1_200, 10_000, 50_000_000, 2).unwrap();
        assert_eq!(found, Overhead { event_ns: 500.0, share: 0.05 });
        assert_eq!(Overhead::of(10, 5, 0, 7, 100, 1), None, "no event was recorded");
        let slower = Overhead::of(5, 10, 4, 7, 100, 1).unwrap();
        assert_eq!(slower, Overhead { event_ns: 0.0, share: 0.0 }, "less than what can be measured");
    }

    #[test]
    fn a_partner_answers_and_ends() {
        let partner = Partner::new().unwrap();
        assert!(partner.least(2).unwrap() > 0);
    }
}
