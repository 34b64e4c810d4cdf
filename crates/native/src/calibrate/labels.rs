//! The names of measured times.

/// The names of sleepers' delays: of sleeps shorter than a tick, and of longer ones.
pub(super) const LATE_SHORT: &str = "late_after_a_quarter_of_a_tick";
pub(super) const LATE_LONGER: &str = "late_after_three_quarters_of_a_tick";
pub(super) const LATE_LONG: &str = "late_after_two_ticks";

/// The names of wake-ups on another CPU that has idled briefly, and on one that its hypervisor has given away: some writes' mean time, and when the
/// woken task runs.
pub(super) const WRITES: [&str; 2] = ["writes_that_wake_on_an_idle_cpu", "writes_that_wake_on_a_halted_cpu"];
pub(super) const DELAYS: [&str; 2] = ["delay_of_a_task_woken_on_an_idle_cpu", "delay_of_a_task_woken_on_a_halted_cpu"];

/// The names of wake-ups here, while another CPU computes: of tasks that are bound to this one, and of such as may run on either.
pub(super) const WAKES: [&str; 2] = ["write_that_wakes_here_beside_another", "write_that_wakes_a_free_task_here"];

/// The names of hops in the two rings of sockets.
pub(super) const FEW_HOP: &str = "hop_in_a_ring_of_2_sockets";
pub(super) const MORE_HOP: &str = "hop_in_a_ring_of_4_sockets";

/// The name of a hop in the shortest ring of pipes whose members are ordinary tasks, and not `SCHED_BATCH`.
pub(super) const NORMAL_HOP: &str = "hop_in_a_ring_of_4_normal_tasks";

/// The name of a hop in the ring of semaphores.
pub(super) const SEMAPHORE_HOP: &str = "hop_in_a_ring_of_4_semaphores";

/// Bytes of the two sizes of message whose difference is copying: a page for a pipe, and for a socket half of one, which fits with
/// its header into a block of a page.
pub(super) fn sizes(kind: &str) -> [usize; 2] {
    [1, if kind == "pipe" { 4096 } else { 2048 }]
}

/// Messages of a burst, and what messages are named after that come in such and are read on another CPU.
pub(super) const BURST: usize = 8;
pub(super) const BURST_THERE: &str = "there_in_bursts";
pub(super) const BURST_HERE: &str = "here_in_bursts";

/// Sockets through which two CPUs write and read at once, and the names of what a write and a read take then.
pub(super) const FLOWS: usize = 8;
pub(super) const WRITE_IN_A_FLOW: &str = "socket_write_in_a_flow";
pub(super) const READ_IN_A_FLOW: &str = "socket_read_in_a_flow";

/// The name of a message's time.
pub(super) fn message(kind: &str, verb: &str, bytes: usize, place: &str) -> String {
    format!("{kind}_{verb}_{bytes:04}_bytes_read_{place}")
}

/// The name of a hop's time.
pub(super) fn hop(length: usize) -> String {
    format!("hop_in_a_ring_of_{length:03}")
}
