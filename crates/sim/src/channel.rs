//! Pipes and stream sockets: what fits into them, and which tasks a transfer wakes.
//!
//! The rules are Linux 6.1's for every release that is simulated: `pipe_read` and `pipe_write` (`fs/pipe.c`),
//! `unix_stream_sendmsg` and `unix_stream_read_generic` (`net/unix/af_unix.c`) with the buffer accounting of
//! `net/core/sock.c` and `net/core/skbuff.c`.

use std::collections::VecDeque;

use schedlab_model::ChannelKind;

use crate::slabs::{Fetched, Keeps, PAGE, Slabs};
use crate::wait::{NONE, WaitQueue};

/// `PIPE_DEF_BUFFERS`: slots of a pipe, one page each.
const SLOTS: u32 = 16;
/// `sysctl_wmem_default`: 256 × `SKB_TRUESIZE(256)` = 256 × (256 + 256 + 320).
pub(crate) const SEND_BUFFER: u32 = 212_992;
/// `SKB_DATA_ALIGN(sizeof(struct sk_buff))` on 64-bit.
pub(crate) const SK_BUFF: u32 = 256;
/// `SKB_DATA_ALIGN(sizeof(struct skb_shared_info))` on 64-bit.
const SHARED_INFO: u32 = 320;
/// `SKB_MAX_HEAD(0)`: what one page holds beside the shared info.
const MAX_HEAD: u32 = PAGE - SHARED_INFO;
/// `UNIX_SKB_FRAGS_SZ`: what an skb holds in pages of its own.
const FRAGMENTS: u32 = 32_768;

/// Which tasks a transfer wakes at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    None,
    /// The longest waiting one (exclusive waiters).
    One,
    All,
}

/// What one transfer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// Bytes moved; none if it must wait.
    pub(crate) bytes: u32,
    /// Which tasks it wakes at the other end.
    pub(crate) wake: Wake,
}

/// A channel, and the tasks that sleep at its ends.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub(crate) buffer: Buffer,
    /// The CPUs that used it last, and that read from it last; [`NONE`] before.
    pub(crate) used_by: u32,
    pub(crate) read_by: u32,
    /// Until when its lock is held.
    locked_until: u64,
    pub(crate) readers: WaitQueue,
    pub(crate) writers: WaitQueue,
}

#[derive(Debug, Clone)]
pub(crate) enum Buffer {
    Pipe(Pipe),
    Socket(Socket),
}

impl Channel {
    pub(crate) fn new(kind: ChannelKind, keeps: Keeps) -> Self {
        let buffer = match kind {
            ChannelKind::Pipe => Buffer::Pipe(Pipe::new(keeps)),
            ChannelKind::Socket => Buffer::Socket(Socket::default()),
        };
        Self {
            buffer,
            used_by: NONE,
            read_by: NONE,
            locked_until: 0,
            readers: WaitQueue::EMPTY,
            writers: WaitQueue::EMPTY,
        }
    }

    /// Empties it, keeping its memory, for a new run in which it is of this kind.
    pub(crate) fn reset(&mut self, kind: ChannelKind, keeps: Keeps) {
        match (&mut self.buffer, kind) {
            (Buffer::Pipe(pipe), ChannelKind::Pipe) => *pipe = Pipe::new(keeps),
            (Buffer::Socket(socket), ChannelKind::Socket) => socket.reset(),
            _ => *self = Self::new(kind, keeps),
        }
        (self.used_by, self.read_by, self.locked_until) = (NONE, NONE, 0);
        (self.readers, self.writers) = (WaitQueue::EMPTY, WaitQueue::EMPTY);
    }

    pub(crate) const fn is_pipe(&self) -> bool {
        matches!(self.buffer, Buffer::Pipe(_))
    }

    /// Bytes that a read would find now.
    #[inline]
    pub(crate) fn readable(&self) -> u32 {
        match &self.buffer {
            Buffer::Pipe(pipe) => pipe.bytes,
            Buffer::Socket(socket) => socket.bytes,
        }
    }

    /// How many of `bytes` the next step of a write would move now; `merge` as in [`Pipe::write`].
    #[inline]
    pub(crate) fn writable(&self, bytes: u32, merge: bool) -> u32 {
        match &self.buffer {
            Buffer::Pipe(pipe) => pipe.writable(bytes, merge),
            Buffer::Socket(socket) => socket.writable(bytes),
        }
    }

    /// What the next step of a write that moves `bytes` takes of memory that neither the pipe nor, among `slabs`, other sockets have
    /// at hand; `merge` as in [`Pipe::write`].
    #[inline]
    pub(crate) fn fetch(&self, bytes: u32, merge: bool, slabs: &mut Slabs) -> Fetched {
        match &self.buffer {
            Buffer::Pipe(pipe) => {
                let pages = pipe.fresh_pages(bytes, merge);
                Fetched { elsewhere: false, fresh: pages, pages }
            }
            Buffer::Socket(socket) if socket.writable(bytes) > 0 => slabs.fetch(socket.truesize(skb_size(bytes))),
            Buffer::Socket(_) => Fetched::default(),
        }
    }

    /// What a read that moves `bytes` gives back of memory that neither the pipe nor, among `slabs`, other sockets keep.
    #[inline]
    pub(crate) fn free(&self, bytes: u32, slabs: &Slabs) -> Fetched {
        match &self.buffer {
            Buffer::Pipe(pipe) => {
                let pages = pipe.freed_pages(bytes);
                Fetched { elsewhere: false, fresh: pages, pages }
            }
            Buffer::Socket(socket) => slabs.free(socket.freed(bytes)),
        }
    }

    /// What messages on their way weigh of memory that all sockets share.
    #[inline]
    pub(crate) fn weight(&self) -> u32 {
        match &self.buffer {
            Buffer::Pipe(_) => 0,
            Buffer::Socket(socket) => socket.allocated,
        }
    }

    /// Moves up to `bytes` in on `cpu`; `merge` as in [`Pipe::write`].
    #[inline]
    pub(crate) fn write(&mut self, bytes: u32, merge: bool, cpu: u32) -> Transfer {
        match &mut self.buffer {
            Buffer::Pipe(pipe) => pipe.write(bytes, merge, cpu),
            Buffer::Socket(socket) => socket.write(bytes, cpu),
        }
    }

    /// A call on `cpu` that takes `time` begins. A pipe is locked for all of it but the way in and out of the kernel (`pipe->mutex`); returns for how long
    /// another CPU's call, which is under way, keeps it waiting.
    #[inline]
    pub(crate) fn enter(&mut self, cpu: u32, now: u64, time: u64, system_call: u64) -> u64 {
        let other = std::mem::replace(&mut self.used_by, cpu) != cpu;
        if !self.is_pipe() {
            return 0;
        }
        let wait = if other { self.locked_until.saturating_sub(now + system_call / 2) } else { 0 };
        self.locked_until = (now + wait + time).saturating_sub(system_call / 2);
        wait
    }

    /// The CPU that wrote what the next read finds first; [`NONE`] where it finds nothing.
    #[inline]
    pub(crate) fn written_by(&self) -> u32 {
        match &self.buffer {
            Buffer::Pipe(pipe) if pipe.bytes > 0 => pipe.slots[(pipe.tail % SLOTS) as usize].cpu,
            Buffer::Pipe(_) => NONE,
            Buffer::Socket(socket) => socket.queue.front().map_or(NONE, |run| run.cpu),
        }
    }

    /// Moves up to `bytes` out on `cpu`.
    #[inline]
    pub(crate) fn read(&mut self, bytes: u32, cpu: u32) -> Transfer {
        self.read_by = cpu;
        match &mut self.buffer {
            Buffer::Pipe(pipe) => pipe.read(bytes),
            Buffer::Socket(socket) => socket.read(bytes),
        }
    }

    /// Whether a writer that slept and has now finished wakes the next one (`wake_next_writer`).
    pub(crate) fn next_writer(&self) -> bool {
        matches!(&self.buffer, Buffer::Pipe(pipe) if !pipe.full())
    }

    /// Whether a reader that slept and has now finished wakes the next one (`wake_next_reader`).
    pub(crate) fn next_reader(&self) -> bool {
        matches!(&self.buffer, Buffer::Pipe(pipe) if pipe.bytes > 0)
    }
}

/// `struct pipe_inode_info`: a ring of 16 pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pipe {
    slots: [Slot; SLOTS as usize],
    head: u32,
    tail: u32,
    bytes: u32,
    /// `tmp_page`: pages that were read and that it keeps for the next messages, and how many of them it may keep.
    kept: u8,
    keeps: u8,
}

/// `struct pipe_buffer`: what of its page is still to be read.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    offset: u16,
    length: u16,
    /// Which CPU wrote to it last.
    cpu: u32,
}

impl Pipe {
    fn new(keeps: Keeps) -> Self {
        Self { keeps: keeps.pages_of_a_pipe, ..Self::default() }
    }

    fn full(&self) -> bool {
        self.head.wrapping_sub(self.tail) >= SLOTS
    }

    /// Of `bytes`, those that go into the last page: the odd part, if all of it fits behind what is there.
    fn mergeable(&self, bytes: u32) -> u32 {
        let odd = bytes % PAGE;
        if odd == 0 || self.bytes == 0 {
            return 0;
        }
        let last = self.slots[(self.head.wrapping_sub(1) % SLOTS) as usize];
        if u32::from(last.offset) + u32::from(last.length) + odd <= PAGE { odd } else { 0 }
    }

    /// A page for each slot but those that it keeps.
    fn fresh_pages(&self, bytes: u32, merge: bool) -> u64 {
        let merged = if merge { self.mergeable(bytes) } else { 0 };
        u64::from((bytes - merged).div_ceil(PAGE).saturating_sub(u32::from(self.kept)))
    }

    /// Pages that a read of so many bytes uses up, but those that it keeps.
    fn freed_pages(&self, bytes: u32) -> u64 {
        let (mut left, mut used_up) = (bytes, 0u32);
        let mut place = self.tail;
        while left > 0 && place != self.head {
            let length = u32::from(self.slots[(place % SLOTS) as usize].length);
            if left < length {
                break;
            }
            left -= length;
            used_up += 1;
            place = place.wrapping_add(1);
        }
        u64::from(used_up.saturating_sub(u32::from(self.keeps - self.kept)))
    }

    fn writable(&self, bytes: u32, merge: bool) -> u32 {
        let merged = if merge { self.mergeable(bytes) } else { 0 };
        let free = (SLOTS - self.head.wrapping_sub(self.tail)) * PAGE;
        merged + (bytes - merged).min(free)
    }

    /// `pipe_write`, up to the point where it is done or must sleep. Only the first step of a system call merges into the
    /// last page. One reader is woken if the pipe was empty.
    fn write(&mut self, bytes: u32, merge: bool, cpu: u32) -> Transfer {
        let was_empty = self.bytes == 0;
        let mut left = bytes;
        if merge {
            let merged = self.mergeable(bytes);
            if merged > 0 {
                let last = &mut self.slots[(self.head.wrapping_sub(1) % SLOTS) as usize];
                // At most a page, so within 16 bits.
                last.length += merged as u16;
                last.cpu = cpu;
                left -= merged;
            }
        }
        while left > 0 && !self.full() {
            let length = left.min(PAGE);
            self.slots[(self.head % SLOTS) as usize] = Slot { offset: 0, length: length as u16, cpu };
            self.head = self.head.wrapping_add(1);
            self.kept = self.kept.saturating_sub(1);
            left -= length;
        }
        let moved = bytes - left;
        self.bytes += moved;
        Transfer { bytes: moved, wake: if was_empty && moved > 0 { Wake::One } else { Wake::None } }
    }

    /// `pipe_read`: what is there, up to `bytes`. One writer is woken if the pipe was full when the read began, whether or
    /// not a page came free.
    fn read(&mut self, bytes: u32) -> Transfer {
        let was_full = self.full();
        let mut left = bytes;
        while left > 0 && self.head != self.tail {
            let slot = &mut self.slots[(self.tail % SLOTS) as usize];
            let length = left.min(u32::from(slot.length));
            slot.offset += length as u16;
            slot.length -= length as u16;
            if slot.length == 0 {
                self.tail = self.tail.wrapping_add(1);
                // `anon_pipe_buf_release`
                self.kept = (self.kept + 1).min(self.keeps);
            }
            left -= length;
        }
        let moved = bytes - left;
        self.bytes -= moved;
        Transfer { bytes: moved, wake: if was_full && moved > 0 { Wake::One } else { Wake::None } }
    }
}

/// One direction of `socketpair(AF_UNIX, SOCK_STREAM)`: the receiver's queue and the sending socket's account.
#[derive(Debug, Clone, Default)]
pub(crate) struct Socket {
    /// Messages of equal size and from the same CPU that lie in the queue one behind the other.
    queue: VecDeque<Run>,
    /// Bytes of the first message that were read already.
    consumed: u32,
    bytes: u32,
    /// `sk_wmem_alloc` of the sending socket, without the one that the socket itself holds.
    allocated: u32,
    /// A message's size and what it weighs: mostly the next one is as long as the last.
    weighed: (u32, u32),
}

#[derive(Debug, Clone, Copy)]
struct Run {
    size: u32,
    count: u32,
    /// Which CPU wrote them.
    cpu: u32,
}

impl Socket {
    fn reset(&mut self) {
        self.queue.clear();
        (self.consumed, self.bytes, self.allocated) = (0, 0, 0);
    }

    /// [`truesize`] of a message of the socket.
    #[inline]
    fn truesize(&self, size: u32) -> u32 {
        if size == self.weighed.0 { self.weighed.1 } else { truesize(size) }
    }

    /// `sock_alloc_send_pskb`: an skb may be had while the account is below the send buffer's size, however large it is.
    #[inline]
    fn writable(&self, bytes: u32) -> u32 {
        if self.allocated < SEND_BUFFER { skb_size(bytes) } else { 0 }
    }

    /// What the first message weighs, if a read of so many bytes uses it up.
    fn freed(&self, bytes: u32) -> u32 {
        match self.queue.front() {
            Some(run) if bytes >= run.size - self.consumed => self.truesize(run.size),
            _ => 0,
        }
    }

    /// One round of `unix_stream_sendmsg`'s loop: one skb, of which `sock_def_readable` tells all readers.
    #[inline]
    fn write(&mut self, bytes: u32, cpu: u32) -> Transfer {
        let size = self.writable(bytes);
        if size == 0 {
            return Transfer { bytes: 0, wake: Wake::None };
        }
        match self.queue.back_mut() {
            Some(run) if run.size == size && run.cpu == cpu => run.count += 1,
            _ => self.queue.push_back(Run { size, count: 1, cpu }),
        }
        self.weighed = (size, self.truesize(size));
        self.allocated += self.weighed.1;
        self.bytes += size;
        Transfer { bytes: size, wake: Wake::All }
    }

    /// `unix_stream_read_generic`: skb by skb up to `bytes`. Each skb that is used up is freed, and `unix_write_space` wakes all
    /// writers if then at most a quarter of the send buffer is taken; the skb being freed and the socket count for one byte each.
    #[inline]
    fn read(&mut self, bytes: u32) -> Transfer {
        let mut left = bytes;
        let mut freed = false;
        while left > 0
            && let Some(run) = self.queue.front_mut()
        {
            let length = left.min(run.size - self.consumed);
            left -= length;
            self.consumed += length;
            if self.consumed < run.size {
                break;
            }
            self.consumed = 0;
            let weight = if run.size == self.weighed.0 { self.weighed.1 } else { truesize(run.size) };
            self.allocated -= weight;
            freed = true;
            run.count -= 1;
            if run.count == 0 {
                self.queue.pop_front();
            }
        }
        let moved = bytes - left;
        self.bytes -= moved;
        let space = freed && (self.allocated + 2) * 4 <= SEND_BUFFER;
        Transfer { bytes: moved, wake: if space { Wake::All } else { Wake::None } }
    }
}

/// How many of `bytes` go into the next skb (`unix_stream_sendmsg`): "keep two messages in the pipe", and no more than a head and
/// its fragments hold.
fn skb_size(bytes: u32) -> u32 {
    bytes.min(SEND_BUFFER / 2 - 64).min(MAX_HEAD + FRAGMENTS)
}

/// `truesize` of an skb of `size` bytes: `alloc_skb_with_frags`, `__build_skb_around`.
///
/// What exceeds a head goes to whole pages. The head's data and the shared info are one `kmalloc` block; the skb itself is
/// another.
fn truesize(size: u32) -> u32 {
    let data = size.saturating_sub(MAX_HEAD).next_multiple_of(PAGE).min(size);
    let head = size - data;
    // Between 384 and 4096 bytes, where the size classes of kmalloc are the powers of two.
    let block = (head.next_multiple_of(64) + SHARED_INFO).next_power_of_two();
    SK_BUFF + block + data.next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests;
