//! System calls and messages for which no task waits.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;

use schedlab_model::{ChannelKind, Policy};

use super::bench::{Bench, Helper, Link, Pipe, timed};
use super::labels::FLOWS;
use crate::NativeError;
use crate::spin;
use crate::system::{monotonic, thread_cpu};

/// Channels of a stream, and messages on their way in each as others are written and read, if it holds so many: a pipe's leave the inner caches before
/// they are read, as they do wherever writers run ahead of readers. What that takes a socket's is measured as a backlog's, so that theirs are as few as
/// fit into a slab.
///
/// Bursts of pages leave a pipe empty, so that each page is a fresh one, and given back.
const fn breadth(kind: ChannelKind, bytes: usize, burst: usize) -> (usize, usize) {
    match kind {
        ChannelKind::Pipe if bytes == PAGE && burst > 1 => (4, 0),
        ChannelKind::Pipe => (32, 200),
        ChannelKind::Socket => (if burst == 1 { 8 } else { 2 }, 0),
    }
}

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

/// [`exchange`] in a process of two threads, of which the other one sleeps: in a helper, as a process that has had threads is another one, and takes
/// longer to fork.
pub(crate) fn exchange_among_threads(bench: &Bench) -> Result<Vec<f64>, NativeError> {
    let words = &bench.words[..bench.batches];
    words.iter().for_each(|word| word.store(0, SeqCst));
    let helper = bench.helper(bench.here, Policy::Other, || {
        let (_held, awaits) = channel::<()>();
        std::thread::spawn(move || awaits.recv());
        let found = exchange(bench).unwrap_or_default();
        words.iter().zip(found).for_each(|(word, time)| word.store(time.to_bits(), SeqCst));
    })?;
    helper.finish();
    let found = words.iter().map(|word| f64::from_bits(word.load(SeqCst)));
    Ok(found.filter(|time| *time > 0.0).collect())
}

/// Pages of a pipe (`PIPE_DEF_BUFFERS`), and bytes of a page.
pub(super) const PAGES: usize = 16;
pub(super) const PAGE: usize = 4096;

/// A page that a pipe does not have at hand: filling a pipe page by page and emptying it again, beyond writing and reading as many pages
/// one by one, for which it uses the same one over and over (`tmp_page`).
///
/// What that is of writing, and of reading.
pub(crate) fn fresh_pages(bench: &Bench) -> Result<(Vec<f64>, Vec<f64>), NativeError> {
    let pipe = bench.pipe()?;
    let message = vec![b'-'; PAGE];
    let mut buffer = message.clone();
    let pages = pipe.depth(&message, PAGES);
    if pages < 2 {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut batch = || {
        let (mut writing, mut reading) = (0.0, 0.0);
        for _ in 0..pages {
            let start = thread_cpu();
            pipe.write(&message);
            writing -= bench.since(start);
            let start = thread_cpu();
            pipe.read(&mut buffer);
            reading -= bench.since(start);
        }
        let start = thread_cpu();
        (0..pages).for_each(|_| pipe.write(&message));
        writing += bench.since(start);
        let start = thread_cpu();
        (0..pages).for_each(|_| pipe.read(&mut buffer));
        reading += bench.since(start);
        // The first page is the one that was kept.
        let further = (pages - 1) as f64;
        (writing / further, reading / further)
    };
    let _ = batch();
    Ok((0..bench.batches).map(|_| batch()).unzip())
}

/// Messages of a backlog: more than a slab holds, and no more than of empty slabs are kept.
const BACKLOG: usize = 128;

/// A write of a byte to a socket behind a backlog of others, and a read of one before it, the system calls included.
pub(crate) fn backlog(bench: &Bench) -> Result<(Vec<f64>, Vec<f64>), NativeError> {
    let socket = bench.socket()?;
    let batch = || {
        let start = thread_cpu();
        (0..BACKLOG).for_each(|_| socket.send());
        let writing = bench.since(start);
        let start = thread_cpu();
        (0..BACKLOG).for_each(|_| socket.receive());
        (writing / BACKLOG as f64, bench.since(start) / BACKLOG as f64)
    };
    let _ = batch();
    Ok((0..bench.batches).map(|_| batch()).unzip())
}

/// Messages that lie in each socket of a flow, and that are read from it one after the other.
const LAID: usize = 64;

/// Messages of a byte through several sockets, written here and read on CPU `there` at the same time: one is written to each in turn, and many are read
/// from each. Times of a write and of a read, system calls included; none where CPUs have turns, as a task's CPU time contains the others'
/// there.
pub(crate) fn flow(bench: &Bench, there: u32) -> Result<(Vec<f64>, Vec<f64>), NativeError> {
    if spin::have_turns() {
        return Ok((Vec::new(), Vec::new()));
    }
    let sockets = (0..FLOWS).map(|_| bench.socket()).collect::<Result<Vec<Pipe>, _>>()?;
    let [begun, ended, took] = [0, 1, 2].map(|word| &bench.words[word]);
    [begun, ended, took].iter().for_each(|word| word.store(0, SeqCst));
    let await_word = |word: &AtomicU64, number: u64| {
        while word.load(SeqCst) < number {
            std::hint::spin_loop();
        }
    };
    let _reader = bench.helper(there, Policy::Other, || {
        for number in 1.. {
            await_word(begun, number);
            let start = thread_cpu();
            sockets.iter().for_each(|socket| (0..LAID).for_each(|_| socket.receive()));
            took.store(bench.since(start) as u64, SeqCst);
            ended.store(number, SeqCst);
        }
    })?;
    let write = || (0..LAID).for_each(|_| sockets.iter().for_each(Link::send));
    write();
    let messages = (FLOWS * LAID) as f64;
    let batch = |number: u64| {
        begun.store(number, SeqCst);
        let start = thread_cpu();
        write();
        let writing = bench.since(start);
        await_word(ended, number);
        (writing / messages, took.load(SeqCst) as f64 / messages)
    };
    // The first ones find fresh memory.
    let _ = [1, 2].map(&batch);
    Ok((3..3 + bench.batches as u64).map(batch).unzip())
}

/// Streams of messages of so many bytes through many channels: in turn, a `burst` of them is written to each here, and as many are read from each on
/// CPU `reader`. Times of a write and of a read, system calls included.
pub(crate) fn stream(
    bench: &Bench,
    kind: ChannelKind,
    bytes: usize,
    reader: u32,
    burst: usize,
) -> Result<(Vec<f64>, Vec<f64>), NativeError> {
    let open = || match kind {
        ChannelKind::Pipe => bench.pipe(),
        ChannelKind::Socket => bench.socket(),
    };
    let (count, most) = breadth(kind, bytes, burst);
    let channels = (0..count).map(|_| open()).collect::<Result<Vec<Pipe>, _>>()?;
    let message = vec![b'-'; bytes];
    let mut buffer = message.clone();
    let depth = channels.iter().map(|channel| channel.depth(&message, most)).min().unwrap_or_default();
    let mut drain = || {
        let start = thread_cpu();
        channels.iter().for_each(|channel| (0..burst).for_each(|_| channel.read(&mut buffer)));
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
            channels.iter().for_each(|channel| (0..burst).for_each(|_| channel.write(&message)));
            writing += bench.since(start);
            if elsewhere.is_some() {
                go.send();
                done.receive();
            } else {
                reading += drain();
            }
        }
        reading += took.load(SeqCst) as f64;
        let messages = (ROUNDS * count * burst) as f64;
        (writing / messages, reading / messages)
    };
    // The first batch finds fresh memory.
    let _ = batch();
    Ok((0..bench.batches / 3 + 1).map(|_| batch()).unzip())
}
