//! What fits into pipes and sockets, and which tasks are woken.

use super::*;

/// As before 6.15.
const KEEPS: Keeps = Keeps { pages_of_a_pipe: 1, slabs: false };

/// Writes messages until one would have to wait; how many went in whole.
fn fill(channel: &mut Channel, bytes: u32) -> u32 {
    (0..).find(|_| channel.writable(bytes, true) < bytes || channel.write(bytes, true, 0).bytes < bytes).unwrap()
}

#[test]
fn a_pipe_holds_forty_small_messages_a_page() {
    // Messages of 100 bytes are merged while all of one fits behind what is there: ⌊4096/100⌋ = 40 a page, × 16 = 640,
    // which is also what a running kernel takes.
    let mut pipe = Channel::new(ChannelKind::Pipe, KEEPS);
    assert_eq!(fill(&mut pipe, 100), 640);
    assert_eq!(fill(&mut Channel::new(ChannelKind::Pipe, KEEPS), 4096), 16);
    // Single bytes fill all pages to the brim.
    assert_eq!(fill(&mut Channel::new(ChannelKind::Pipe, KEEPS), 1), 65_536);
}

#[test]
fn a_pipe_wakes_a_reader_if_it_was_empty_and_a_writer_if_it_was_full() {
    let mut pipe = Channel::new(ChannelKind::Pipe, KEEPS);
    assert_eq!(pipe.write(100, true, 0), Transfer { bytes: 100, wake: Wake::One });
    assert_eq!(pipe.write(100, true, 0), Transfer { bytes: 100, wake: Wake::None });
    fill(&mut pipe, 100);
    // Full: even a read that frees no page wakes a writer, who then finds no room.
    assert_eq!(pipe.read(100, 0), Transfer { bytes: 100, wake: Wake::One });
    assert_eq!(pipe.writable(100, true), 0);
    // Reads of 3900 more bytes empty the first page.
    assert_eq!(pipe.read(3900, 0), Transfer { bytes: 3900, wake: Wake::One });
    assert_eq!(pipe.writable(100, true), 100);
    assert_eq!(pipe.read(100, 0).wake, Wake::None);
}

#[test]
fn only_the_odd_part_of_a_write_merges_and_only_if_it_fits() {
    // 5000 = 4096 + 904. Behind 3000 bytes there is room for 904, so the first page takes them and the next a whole page.
    let mut pipe = Channel::new(ChannelKind::Pipe, KEEPS);
    pipe.write(3000, true, 0);
    pipe.write(5000, true, 0);
    let Buffer::Pipe(ring) = &pipe.buffer else { panic!("made as a pipe") };
    assert_eq!((ring.head, ring.slots[0].length, ring.slots[1].length), (2, 3904, 4096));
    // Behind 3904 there is none for 904: two new pages.
    pipe.write(5000, true, 0);
    let Buffer::Pipe(ring) = &pipe.buffer else { panic!("made as a pipe") };
    assert_eq!((ring.head, ring.slots[2].length, ring.slots[3].length), (4, 4096, 904));
}

#[test]
fn a_pipe_needs_a_page_a_slot_and_keeps_one_that_was_read() {
    let mut slabs = Slabs::new(KEEPS, 1);
    let mut pipe = Channel::new(ChannelKind::Pipe, KEEPS);
    assert_eq!(pipe.fetch(100, true, &mut slabs).pages, 1);
    pipe.write(100, true, 0);
    // Merged, and then a page and a half more.
    assert_eq!((pipe.fetch(100, true, &mut slabs).pages, pipe.fetch(6096, false, &mut slabs).pages), (0, 2));
    pipe.read(100, 0);
    assert_eq!((pipe.fetch(100, true, &mut slabs).pages, pipe.fetch(6096, true, &mut slabs).pages), (0, 1));
    pipe.write(6096, true, 0);
    assert_eq!(pipe.fetch(4096, true, &mut slabs).pages, 1);
    pipe.read(6096, 0);
    // Of the two pages one is kept.
    assert_eq!(pipe.fetch(8192, true, &mut slabs).pages, 1);
    // Both are where a pipe keeps two: of three one is to be fetched, then none is left.
    let mut pipe = Channel::new(ChannelKind::Pipe, Keeps { pages_of_a_pipe: 2, ..KEEPS });
    pipe.write(8192, true, 0);
    pipe.read(8192, 0);
    assert_eq!(pipe.fetch(12_288, true, &mut slabs).pages, 1);
    pipe.write(12_288, true, 0);
    assert_eq!(pipe.fetch(4096, true, &mut slabs).pages, 1);
}

#[test]
fn a_read_takes_what_is_there() {
    let mut pipe = Channel::new(ChannelKind::Pipe, KEEPS);
    pipe.write(100, true, 0);
    assert_eq!(pipe.read(300, 0).bytes, 100);
    assert_eq!(pipe.read(300, 0).bytes, 0);
}

#[test]
fn messages_weigh_their_blocks() {
    // 100 bytes: 128 aligned + 320 = 448, a block of 512, + 256 for the skb = 768. The others likewise; 3777 exceeds a head by
    // one byte, so it lies in a page of its own beside an empty head (320 → 512). A running 6.18 shows the same in SIOCOUTQ:
    // 768, 1280, 2304, 4352, 4864, 8960.
    for (size, weight) in [
        (1, 768),
        (100, 768),
        (192, 768),
        (193, 1280),
        (700, 1280),
        (1000, 2304),
        (3776, 4352),
        (3777, 4864),
        (8000, 8960),
    ] {
        assert_eq!(truesize(size), weight, "{size}");
    }
    // Largest: a full head (4096 + 256) and 8 pages.
    assert_eq!(truesize(skb_size(40_000)), 4352 + 32_768);
}

#[test]
fn a_socket_holds_278_small_messages() {
    // An skb may be had while the account is below 212,992: ⌈212,992 / 768⌉ = 278 messages of 100 bytes, and
    // ⌈212,992 / 4864⌉ = 44 of 4000, as a running kernel takes.
    assert_eq!(fill(&mut Channel::new(ChannelKind::Socket, KEEPS), 100), 278);
    assert_eq!(fill(&mut Channel::new(ChannelKind::Socket, KEEPS), 4000), 44);
}

#[test]
fn a_socket_wakes_its_writers_at_a_quarter() {
    // (768 n + 2) · 4 ≤ 212,992 ⇔ n ≤ 69.3: the read that leaves 69 messages is the first to wake.
    let mut socket = Channel::new(ChannelKind::Socket, KEEPS);
    fill(&mut socket, 100);
    let wakes: Vec<Wake> = (0..209).map(|_| socket.read(100, 0).wake).collect();
    assert_eq!(wakes.iter().position(|&wake| wake == Wake::All), Some(208));
    assert_eq!(wakes.iter().filter(|&&wake| wake == Wake::None).count(), 208);
}

#[test]
fn a_socket_read_spans_messages() {
    let mut socket = Channel::new(ChannelKind::Socket, KEEPS);
    for _ in 0..3 {
        assert_eq!(socket.write(100, true, 0), Transfer { bytes: 100, wake: Wake::All });
    }
    assert_eq!(socket.read(150, 0).bytes, 150);
    // 50 bytes of the second message and all of the third; both are freed.
    assert_eq!(socket.read(1000, 0), Transfer { bytes: 150, wake: Wake::All });
    let Buffer::Socket(socket) = &socket.buffer else { panic!("made as a socket") };
    assert_eq!((socket.allocated, socket.bytes), (0, 0));
}
