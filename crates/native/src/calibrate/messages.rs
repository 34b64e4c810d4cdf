//! System calls and messages for which no task waits.

use std::sync::atomic::Ordering::SeqCst;

use schedlab_model::{ChannelKind, Policy};

use super::bench::{Bench, Helper, Link, Pipe, timed};
use crate::NativeError;
use crate::system::{monotonic, thread_cpu};

/// Channels of a stream, and messages on their way in each, if it holds so many: messages leave the inner caches before they are
/// read, as they do wherever writers run ahead of readers.
const CHANNELS: usize = 32;
const DEPTH: usize = 200;

/// Messages written to each channel, and read from each, in one batch.
const ROUNDS: usize = 20;

/// Entering and leaving the kernel: `getppid(2)`, which does nothing else.
pub(crate) fn system_call(bench: &Bench) -> Vec<f64> {
    let call = || {
        // SAFETY: no preconditions; `syscall` because the library may remember the answer.
        unsafe { libc::syscall(libc::SYS_getppid) };
    };
    (0..bench.batches).map(|_| timed(2_000, call)).collect()
}

/// Looking at the clock.
pub(crate) fn looks(bench: &Bench) -> Vec<f64> {
    let look = || {
        let _ = monotonic();
    };
    (0..bench.batches).map(|_| timed(2_000, look)).collect()
}

/// How much longer than its CPU time a computation takes, as a factor: 1 where no other task wants the CPU.
pub(crate) fn crowding() -> f64 {
    let (start, cpu) = (monotonic(), thread_cpu());
    while monotonic() - start < 20_000_000 {
        std::hint::spin_loop();
    }
    (monotonic() - start) as f64 / (thread_cpu() - cpu).max(1) as f64
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

/// Pages of a pipe (`PIPE_DEF_BUFFERS`), and bytes of a page.
const PAGES: usize = 16;
const PAGE: usize = 4096;

/// A page that a pipe does not have at hand: filling a pipe page by page and emptying it again, beyond writing and reading as many pages
/// one by one, for which it uses the same one over and over (`tmp_page`).
pub(crate) fn fresh_pages(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let pipe = bench.pipe()?;
    let message = vec![b'-'; PAGE];
    let mut buffer = message.clone();
    let pages = pipe.depth(&message, PAGES);
    if pages < 2 {
        return Ok(Vec::new());
    }
    let mut batch = || {
        let start = thread_cpu();
        for _ in 0..pages {
            pipe.write(&message);
            pipe.read(&mut buffer);
        }
        let kept = bench.since(start);
        let start = thread_cpu();
        (0..pages).for_each(|_| pipe.write(&message));
        (0..pages).for_each(|_| pipe.read(&mut buffer));
        // The first page is the one that was kept.
        (bench.since(start) - kept) / (pages - 1) as f64
    };
    let _ = batch();
    Ok((0..bench.batches).map(|_| batch()).collect())
}

/// Messages of a backlog: more than a slab holds, and no more than of empty slabs are kept.
const BACKLOG: usize = 128;

/// A write of a byte to a socket behind a backlog of others, the system call included.
pub(crate) fn backlog(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let socket = bench.socket()?;
    let batch = || {
        let start = thread_cpu();
        (0..BACKLOG).for_each(|_| socket.send());
        let writing = bench.since(start);
        (0..BACKLOG).for_each(|_| socket.receive());
        writing / BACKLOG as f64
    };
    let _ = batch();
    Ok((0..bench.batches).map(|_| batch()).collect())
}

/// Streams of messages of so many bytes through many channels: in turn, one is written to each here, and one is read from each on CPU
/// `reader`. Times of a write and of a read, system calls included.
pub(crate) fn stream(
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
    let depth = channels.iter().map(|channel| channel.depth(&message, DEPTH)).min().unwrap_or(1);
    let mut drain = || {
        let start = thread_cpu();
        channels.iter().for_each(|channel| channel.read(&mut buffer));
        bench.since(start)
    };
    // A reader on another CPU sleeps until it is its turn, and adds up its CPU time, in whole nanoseconds.
    let (go, done, took) = (bench.pipe()?, bench.pipe()?, &bench.words[0]);
    took.store(0, SeqCst);
    let elsewhere: Option<Helper> = if reader == bench.here {
        None
    } else {
        Some(bench.helper(reader, Policy::Other, || {
            loop {
                go.receive();
                took.fetch_add(drain() as u64, SeqCst);
                done.send();
            }
        })?)
    };
    (0..depth).for_each(|_| channels.iter().for_each(|channel| channel.write(&message)));
    let mut batch = || {
        let (mut writing, mut reading) = (0.0, 0.0);
        took.store(0, SeqCst);
        for _ in 0..ROUNDS {
            let start = thread_cpu();
            channels.iter().for_each(|channel| channel.write(&message));
            writing += bench.since(start);
            if elsewhere.is_some() {
                go.send();
                done.receive();
            } else {
                reading += drain();
            }
        }
        reading += took.load(SeqCst) as f64;
        let messages = (ROUNDS * CHANNELS) as f64;
        (writing / messages, reading / messages)
    };
    // The first batch finds fresh memory.
    let _ = batch();
    Ok((0..bench.batches / 3 + 1).map(|_| batch()).unzip())
}
