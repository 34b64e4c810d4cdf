//! Connections over the loopback interface, both ends of which are this process: no task waits.

use crate::NativeError;
use crate::error::during;
use crate::network::{Listening, close, leave, read_all, write_all};
use crate::system::thread_cpu;

use super::bench::Bench;

/// Connections in one batch.
const CONNECTIONS: usize = 20;

/// What a connection costs, in nanoseconds of CPU time, all system calls included. Soft interrupts meanwhile are billed to the task that
/// causes them, as with real clients and servers.
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
