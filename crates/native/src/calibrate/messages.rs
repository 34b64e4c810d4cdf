//! System calls and messages that make nobody wait.

use std::sync::atomic::Ordering::SeqCst;

use schedlab_model::{ChannelKind, Policy};

use super::bench::{Bench, Helper, Pipe, timed};
use crate::NativeError;
use crate::system::monotonic;

/// Channels of a bulk transfer, and messages that each holds before any is read: a pipe holds 16 pages, so that even 4096 bytes each
/// never block. They are as many as make messages leave the innermost cache, and few enough to stay on the chip.
const CHANNELS: usize = 64;
const IN_FLIGHT: usize = 12;

/// Entering and leaving the kernel: `getppid(2)`, which does nothing else.
pub(crate) fn system_call(bench: &Bench) -> Vec<f64> {
    let call = || {
        // SAFETY: no preconditions; `syscall` because the library may remember the answer.
        unsafe { libc::syscall(libc::SYS_getppid) };
    };
    (0..bench.batches).map(|_| timed(2_000, call)).collect()
}

/// A write and a read of one byte through one pipe, again and again: all in the innermost cache.
pub(crate) fn exchange(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let pipe = bench.pipe()?;
    let exchange = || {
        pipe.send();
        pipe.receive();
    };
    Ok((0..bench.batches).map(|_| timed(500, exchange)).collect())
}

/// Many messages of so many bytes in many channels: all are written here, and then all are read on CPU `reader`. Times of a write and
/// of a read, system calls included.
pub(crate) fn bulk(
    bench: &Bench,
    kind: ChannelKind,
    bytes: usize,
    reader: u32,
) -> Result<(Vec<f64>, Vec<f64>), NativeError> {
    let open = || match kind {
        ChannelKind::Pipe => bench.pipe(),
        ChannelKind::Socket => bench.socket(),
    };
    let channels = (0..CHANNELS).map(|_| open()).collect::<Result<Vec<Pipe>, _>>()?;
    let message = vec![b'-'; bytes];
    let mut buffer = message.clone();
    let per_message = |time: u64| (time as f64 - bench.clock) / (CHANNELS * IN_FLIGHT) as f64;
    let mut drain = || {
        let start = monotonic();
        (0..IN_FLIGHT).for_each(|_| channels.iter().for_each(|channel| channel.read(&mut buffer)));
        monotonic() - start
    };
    // A reader elsewhere sleeps until all is written, and says what it took.
    let (go, done, took) = (bench.pipe()?, bench.pipe()?, &bench.words[0]);
    let elsewhere: Option<Helper> = if reader == bench.here {
        None
    } else {
        Some(bench.helper(reader, Policy::Other, || {
            loop {
                go.receive();
                took.store(drain(), SeqCst);
                done.send();
            }
        })?)
    };
    let mut batch = || {
        let start = monotonic();
        (0..IN_FLIGHT).for_each(|_| channels.iter().for_each(|channel| channel.write(&message)));
        let write = monotonic() - start;
        let read = if elsewhere.is_some() {
            go.send();
            done.receive();
            took.load(SeqCst)
        } else {
            drain()
        };
        (per_message(write), per_message(read))
    };
    // The first batches find fresh memory.
    (0..2).for_each(|_| {
        let _ = batch();
    });
    Ok((0..bench.batches / 2 + 1).map(|_| batch()).unzip())
}
