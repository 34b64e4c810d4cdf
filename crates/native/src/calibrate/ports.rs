//! Connections over the loopback interface, both ends of which are this process: nobody waits. And how long whoever waits at an end
//! takes to come once it was woken.

use schedlab_model::Policy;

use crate::NativeError;
use crate::error::during;
use crate::network::{Listening, close, leave, read_all, write_all};
use crate::system::{self, thread_cpu};

use super::bench::Bench;

/// Connections in one batch.
const CONNECTIONS: usize = 20;

/// What a connection takes, in nanoseconds of CPU time, all system calls included. What happens in soft interrupts meanwhile is
/// whoever causes it billed for, as with real clients and servers.
#[derive(Default)]
pub(crate) struct Connections {
    /// Making one and ending it, the client's part.
    pub(crate) connects: Vec<f64>,
    /// Taking one and ending it, the server's part.
    pub(crate) accepts: Vec<f64>,
    /// Writing a byte.
    pub(crate) writes: Vec<f64>,
    /// Reading a byte.
    pub(crate) reads: Vec<f64>,
}

/// Connections that are made, used both ways and ended, one after the other.
pub(crate) fn connections(bench: &Bench) -> Result<Connections, NativeError> {
    let failed = during("connecting over the loopback interface");
    let port = Listening::open().map_err(during("opening a port"))?;
    let mut found = Connections::default();
    let mut byte = [b'*'];
    for _ in 0..bench.batches / 2 + 1 {
        let mut sums = [0.0; 4];
        let mut round = || {
            let mut start = thread_cpu();
            let mut lap = |sums: &mut [f64; 4], of: usize| {
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
            close(server);
            lap(&mut sums, 1);
            read_all(client, &mut byte)?;
            lap(&mut sums, 3);
            leave(client);
            lap(&mut sums, 0);
            Ok(())
        };
        (0..CONNECTIONS).try_for_each(|_| round()).map_err(&failed)?;
        let [connects, accepts, writes, reads] = sums.map(|sum| sum / CONNECTIONS as f64);
        found.connects.push(connects);
        found.accepts.push(accepts);
        found.writes.push(writes / 2.0);
        found.reads.push(reads / 2.0);
    }
    port.close();
    Ok(found)
}

/// Nanoseconds over which a reader is watched.
const WATCHED: u64 = 2_000_000;

/// So many times as long at most, where it did not run at all.
const PATIENCE: usize = 50;

/// From being woken to running, of the reader of a pipe.
pub(crate) fn delays_of_a_pipe(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let pipe = bench.pipe()?;
    delays(bench, || pipe.send(), || pipe.receive())
}

/// The same of the reader of a connection.
pub(crate) fn delays_of_a_connection(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let failed = during("connecting over the loopback interface");
    let port = Listening::open().map_err(during("opening a port"))?;
    let client = port.connect().map_err(&failed)?;
    let server = port.take().map_err(&failed)?;
    let send = || {
        let _ = write_all(client, b"*");
    };
    let receive = || {
        let _ = read_all(server, &mut [0]);
    };
    let found = delays(bench, send, receive);
    close(server);
    leave(client);
    port.close();
    found
}

/// How long a reader waits for the CPU each time, by the kernel's own account (`schedstat`), which counts from the wake-up. The writer is
/// SCHED_IDLE, whom any wake-up preempts as soon as that can be. Nothing where there is no such account.
fn delays(bench: &Bench, send: impl Fn(), receive: impl Fn()) -> Result<Vec<f64>, NativeError> {
    let reader = bench.helper(bench.here, Policy::Other, || {
        loop {
            receive();
        }
    })?;
    let _writer = bench.helper(bench.here, Policy::Idle, || {
        loop {
            send();
        }
    })?;
    system::sleep(WATCHED);
    let account = || {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", reader.pid)).ok()?;
        let mut words = text.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
        Some((words.next()?, words.next()?))
    };
    let sample = || {
        let (waited, times) = account()?;
        // On a busy machine the two may have to wait for their turn.
        (0..PATIENCE).find_map(|_| {
            system::sleep(WATCHED);
            let (waited_then, times_then) = account()?;
            (times_then > times).then(|| (waited_then - waited) as f64 / (times_then - times) as f64)
        })
    };
    Ok((0..bench.batches / 2 + 1).filter_map(|_| sample()).collect())
}
