//! How measured times are called.

/// How it is called by how much sleepers come too late that sleep for less than a tick, and for more.
pub(super) const LATE_SHORT: &str = "late_after_a_quarter_of_a_tick";
pub(super) const LATE_LONG: &str = "late_after_two_ticks";

/// How hops in the two rings of sockets are called.
pub(super) const FEW_HOP: &str = "hop_in_a_ring_of_2_sockets";
pub(super) const MORE_HOP: &str = "hop_in_a_ring_of_4_sockets";

/// How a hop in the ring of semaphores is called.
pub(super) const SEMAPHORE_HOP: &str = "hop_in_a_ring_of_4_semaphores";

/// Bytes of the two sizes of message whose difference is copying.
pub(super) const SIZES: [usize; 2] = [1, 4096];

/// How the time of a message is called.
pub(super) fn message(kind: &str, verb: &str, bytes: usize, place: &str) -> String {
    format!("{kind}_{verb}_{bytes:04}_bytes_read_{place}")
}

/// How the time of a hop is called.
pub(super) fn hop(length: usize) -> String {
    format!("hop_in_a_ring_of_{length:03}")
}
