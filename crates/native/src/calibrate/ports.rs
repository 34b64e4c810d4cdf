//! Connections over the loopback interface, both ends of which are this process: no task waits. What a call takes after it has woken the
//! other side is measured with another process.

use std::io;

use schedlab_model::Policy;

use crate::NativeError;
use crate::error::during;
use crate::network::{Listening, close, leave, read_all, write_all};
use crate::system::{self, thread_cpu};

use super::bench::{Bench, Helper, Link};
use super::schedstat::Schedstat;
use super::stats::Samples;

/// Connections in one batch.
const CONNECTIONS: usize = 20;

/// Wake-ups of each kind, and how long the waker sleeps before and after each, in nanoseconds.
const WAKEUPS: usize = 40;
const PAUSE: u64 = 1_000_000;

/// What is measured of each connection, by the side that ends it first, in nanoseconds of CPU time, all system calls included. Soft interrupts
/// meanwhile are billed to the task that causes them, as with real clients and servers.
const PARTS: [&str; 8] = [
    "tcp_connect",
    "tcp_accept",
    "tcp_write",
    "tcp_read",
    "tcp_server_closes",
    "tcp_client_closes_last",
    "tcp_client_closes",
    "tcp_server_closes_last",
];

/// Connections that are made, used both ways and ended, one after the other.
pub(crate) fn connections(bench: &Bench, samples: &mut Samples) -> Result<(), NativeError> {
    let failed = during("connecting over the loopback interface");
    let port = Listening::open().map_err(during("opening a port"))?;
    let mut byte = [b'*'];
    let mut found = [const { Vec::new() }; PARTS.len()];
    for _ in 0..bench.batches / 2 + 1 {
        let mut sums = [0.0; PARTS.len()];
        let mut round = |server_first: bool| {
            let mut start = thread_cpu();
            let mut lap = |sums: &mut [f64; PARTS.len()], of: usize| {
                sums[of] += bench.since(start);
                start = thread_cpu();
            };
            let client = port.connect()?;
            lap(&mut sums, 0);
            let server = port.take()?;
            lap(&mut sums, 1);
            write_all(client, &byte)?;
            lap(&mut sums, 2);
            read_all(server, &mut byte)?;
            lap(&mut sums, 3);
            write_all(server, &byte)?;
            lap(&mut sums, 2);
            if server_first {
                close(server);
                lap(&mut sums, 4);
            }
            read_all(client, &mut byte)?;
            lap(&mut sums, 3);
            leave(client);
            lap(&mut sums, if server_first { 5 } else { 6 });
            if !server_first {
                close(server);
                lap(&mut sums, 7);
            }
            Ok(())
        };
        (0..CONNECTIONS).try_for_each(|number| round(number % 2 == 0)).map_err(&failed)?;
        for (part, sum) in sums.into_iter().enumerate() {
            // Each connection is written to and read from twice, and is ended in one way.
            let each = [1.0, 1.0, 2.0, 2.0, 0.5, 0.5, 0.5, 0.5][part] * CONNECTIONS as f64;
            found[part].push(sum / each);
        }
    }
    port.close();
    PARTS.into_iter().zip(found).for_each(|(name, times)| samples.add(name, times));
    Ok(())
}

/// How long a task that is woken, and does not preempt, waits for its waker to sleep, by what wakes it: the more, the earlier within the
/// call it is woken. Nothing where the kernel does not count such waits.
pub(crate) fn waits(bench: &Bench, samples: &mut Samples) -> Result<(), NativeError> {
    let pipe = bench.pipe()?;
    let reader = bench.helper(bench.here, Policy::Batch, || {
        loop {
            pipe.receive();
        }
    })?;
    let Ok(reader) = Woken::new(reader) else { return Ok(()) };
    let wait = || {
        reader.wait(|| {
            pipe.send();
            Ok(())
        })
    };
    let waits: io::Result<Vec<f64>> = (0..WAKEUPS).map(|_| wait()).collect();
    samples.add("wait_for_a_pipe_s_writer", of_sleepers(waits.map_err(during("reading schedstat"))?));

    let port = Listening::open().map_err(during("opening a port"))?;
    let server = bench.helper(bench.here, Policy::Batch, || {
        while let Ok(client) = port.take() {
            let _ = read_all(client, &mut [0]);
            close(client);
        }
    })?;
    let server = Woken::new(server).map_err(during("opening schedstat"))?;
    let [mut connecting, mut writing] = [const { Vec::new() }; 2];
    // Early packets of a connection are acknowledged at once, so each is written to once, as a client does.
    let mut round = || {
        let mut client = None;
        connecting.push(server.wait(|| {
            client = Some(port.connect()?);
            Ok(())
        })?);
        if let Some(client) = client {
            writing.push(server.wait(|| write_all(client, b"*"))?);
            leave(client);
        }
        Ok(())
    };
    (0..WAKEUPS).try_for_each(|_| round()).map_err(during("connecting over the loopback interface"))?;
    samples.add("wait_for_a_connecting_client", of_sleepers(connecting));
    samples.add("wait_for_a_connection_s_writer", of_sleepers(writing));
    drop(server);
    port.close();
    Ok(())
}

/// The waits of helpers that slept as they were to be woken: beside other work one may not have come to sleep by then, and waits for nothing.
fn of_sleepers(mut waits: Vec<f64>) -> Vec<f64> {
    waits.retain(|wait| *wait > 0.0);
    waits
}

/// A helper on this CPU that sleeps, and what is counted of it.
struct Woken {
    _helper: Helper,
    counts: Schedstat,
}

impl Woken {
    fn new(helper: Helper) -> io::Result<Self> {
        let counts = helper.counts()?;
        Ok(Self { _helper: helper, counts })
    }

    /// How long it waits as something wakes it once, in nanoseconds.
    fn wait(&self, wake: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
        system::sleep(PAUSE);
        let before = self.counts.read()?.wait;
        wake()?;
        system::sleep(PAUSE);
        Ok(self.counts.read()?.wait.saturating_sub(before) as f64)
    }
}
