//! Working sets: what a task pays to have its memory in the caches again, after others ran on its CPU and after a move to another.

use std::hint::black_box;

use schedlab_model::Policy;

use super::bench::{Bench, Link};
use crate::NativeError;
use crate::system::thread_cpu;

/// Working sets that are measured, in KiB: one that fits beside others in an inner cache, and one that does not.
pub(crate) const SETS: [usize; 2] = [64, 1024];

/// Bytes of a cache line, on the machines that matter here.
const LINE: usize = 64;

/// Bytes that the neighbour walks through: more than inner caches hold.
const NEIGHBOUR: usize = 8 << 20;

/// What walking through a working set takes longer when it has gone cold, in nanoseconds a walk.
pub(crate) struct Refills {
    /// After another task of the same CPU walked through its own memory.
    pub(crate) after_preemption: Vec<f64>,
    /// On another CPU, just after the move; nothing where there is one CPU.
    pub(crate) after_migration: Vec<f64>,
}

/// Walks through `kib` KiB, line by line, changing each.
pub(crate) fn refill(bench: &Bench, kib: usize) -> Result<Refills, NativeError> {
    let mut memory = vec![1_u8; kib << 10];
    let (go, done) = (bench.pipe()?, bench.pipe()?);
    let _neighbour = bench.helper(bench.here, Policy::Other, || {
        let mut memory = vec![1_u8; NEIGHBOUR];
        loop {
            go.receive();
            walk(&mut memory);
            done.send();
        }
    })?;
    let mut walked = || {
        let start = thread_cpu();
        walk(&mut memory);
        bench.since(start)
    };
    let batches = bench.batches / 2 + 1;
    let mut refills = Refills { after_preemption: Vec::new(), after_migration: Vec::new() };
    for _ in 0..batches {
        walked();
        let warm = walked();
        go.send();
        done.receive();
        refills.after_preemption.push(walked() - warm);
        if let Some(there) = bench.there {
            let warm = walked();
            bench.stand(there)?;
            refills.after_migration.push(walked() - warm);
            bench.stand(bench.here)?;
        }
    }
    Ok(refills)
}

fn walk(memory: &mut [u8]) {
    for line in memory.chunks_mut(LINE) {
        line[0] = line[0].wrapping_add(1);
    }
    black_box(memory);
}
