//! Leaves of a file's extent tree: when a worker writes one, and when it sleeps for one that another worker writes.

use crate::common;

use common::*;
use schedlab_model::{Attributes, Costs, Devices, File, FileAccess, Machine, Offset, Opening, Step, Time};

fn micros(count: u64) -> Time {
    Time::from_micros(count)
}

/// A machine on which kernel threads complete writes: 20 us each, 7 more for the first one of a block, and 13 for each access of the disk, which
/// takes 100.
fn machine() -> Machine {
    let costs = Costs { system_call: micros(1), block: micros(5), ..Costs::ideal() };
    let devices = Devices {
        disk_access: micros(40),
        disk_latency: micros(100),
        disk_per_kib: Time::ZERO,
        completion: micros(20),
        first_completion: micros(7),
        completion_access: micros(13),
        ..Devices::default()
    };
    Machine { devices, ..Machine::new(1, costs) }
}

/// A task that begins so many writes of a file of so many blocks, `depth` at a time, one block after the other or anywhere.
fn writes(count: u64, blocks: u64, depth: u32, offset: Offset) -> schedlab_model::Workload {
    let access = FileAccess { file: "f".into(), bytes: 4096, offset };
    let submit = Step::Loop { count, steps: vec![Step::SubmitWrite { access, depth }] };
    let mut all = workload(vec![task("writer", 1, Attributes::default(), vec![submit, Step::AwaitFiles])]);
    all.files = [("f".to_owned(), File { size: blocks * 4096, open: Opening::Direct })].into();
    all
}

#[test]
fn extents_that_the_inode_holds_itself_have_no_leaf_to_write() {
    // In microseconds. Blocks that are written in their order are one extent, beside one that is unwritten: each write is begun (1 + 40), done by the
    // disk (100), completed (27) and, as the inode changed with the extents, its table block written (13 and 100). Before 6.5 that is so only where its
    // times changed: once in each tick, of 4 ms.
    for (release, each) in [("5.10", 168), ("6.1", 168), ("6.12", 281), ("7.2", 281)] {
        let all = machine().with_background(writes(8, 64, 1, Offset::Next)).unwrap();
        let (outcome, _) = run(&all, release, &machine());
        assert_eq!(outcome.turnaround_ns, (281 + 7 * each) * 1_000, "{release}");
    }
}

#[test]
fn a_worker_writes_a_leaf_once_the_inode_holds_no_more_extents() {
    // Of 64 blocks anywhere in so large a file hardly two are neighbours: the first one leaves three extents and the second one five, which make a leaf.
    // That is handed to the disk (13, of which 5 are going to sleep) and written (100), so that each write but the first takes 108 more than above. The
    // 85th extent divides the leaf: the new one is written with it, in one access as their blocks follow one another, for 8 more.
    let all = machine().with_background(writes(64, 1 << 17, 1, Offset::Random)).unwrap();
    let (outcome, _) = run(&all, "6.1", &machine());
    let expected = 64 * 168 + 63 * 108 + 8;
    let beyond = outcome.turnaround_ns / 1_000 - expected;
    // The table block (113), once in each tick of 4 ms.
    assert!(beyond % 113 == 0 && (4..=6).contains(&(beyond / 113)), "{beyond}");
}

#[test]
fn workers_that_come_while_one_sleeps_for_a_leaf_write_none() {
    // The thread that hands accesses over takes 2 us for each KiB, so that its CPU time counts them beside the 30 writes of 4 KiB: one after the other,
    // these take 29 leaves (the first 41 blocks are of one leaf), and a table block each, or from 6.1 back for each tick. Eight at a time, all workers
    // that come while one sleeps for the leaf find nothing to write.
    let devices = Devices { dispatch: micros(8), disk_per_kib: micros(2), ..machine().devices };
    let machine = Machine { devices, ..machine() };
    let accesses = |depth, release: &str| {
        let all = machine.with_background(writes(30, 1 << 17, depth, Offset::Random)).unwrap();
        let outcome = run(&all, release, &machine).0;
        let thread = outcome.tasks.iter().find(|task| task.name == "kworker/0H:kblockd").unwrap();
        thread.run_ns / 2_000 - 30 * 4
    };
    for (release, tables) in [("5.10", 2..=4), ("6.1", 2..=4), ("6.12", 30..=30), ("7.2", 30..=30)] {
        let alone = accesses(1, release);
        assert!(tables.contains(&(alone - 29)), "{release} {alone}");
        let together = accesses(8, release);
        assert!((3..alone - 10).contains(&together), "{release} {together} {alone}");
    }
}
