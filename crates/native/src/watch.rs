//! Watches how much CPU time other tasks take while a run goes on.

use std::sync::atomic::Ordering::SeqCst;

use schedlab_model::{Disturbance, Watched};
use schedlab_program::Program;

use crate::system::{hz, monotonic, usage_of};
use crate::task::World;

/// A run that is being watched, from when its gate was opened.
#[derive(Debug)]
pub(crate) struct Watch {
    stat: String,
    begun: u64,
    own: u64,
}

impl Watch {
    /// Begins; nothing where the kernel does not report CPU times.
    pub(crate) fn begin() -> Option<Self> {
        Some(Self { stat: stat()?, begun: monotonic(), own: own() })
    }

    /// The CPU time that other tasks took by now, when all tasks have been collected.
    pub(crate) fn end(&self, world: &World) -> Option<Disturbance> {
        // A collected task's time is whole: what it took before the gate was opened was not watched.
        let first = world.shared.taken().iter().take(world.program.roots().count());
        let before: u64 = first.map(|slot| slot.before[0].load(SeqCst)).sum();
        let watched = Watched {
            cpus: &cpus(world.program, &world.cpus),
            elapsed_ns: monotonic() - self.begun,
            own_ns: own().saturating_sub(self.own).saturating_sub(before),
            hz: hz(),
        };
        Disturbance::between(&self.stat, &stat()?, watched)
    }
}

fn stat() -> Option<String> {
    std::fs::read_to_string("/proc/stat").ok()
}

/// CPU time of this process and of those it has collected.
fn own() -> u64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(usage_of).iter().map(|usage| usage.user + usage.system).sum()
}

/// The CPUs that some task may use, of those that are allowed.
fn cpus(program: &Program, allowed: &[u32]) -> Vec<u32> {
    let of = |template: &schedlab_program::Template| {
        template.attributes.as_ref().map(|attributes| attributes.affinity.clone()).unwrap_or_default()
    };
    let affinities: Vec<Vec<u32>> = program.templates().iter().map(of).collect();
    if affinities.iter().any(Vec::is_empty) {
        return allowed.to_vec();
    }
    allowed.iter().copied().filter(|cpu| affinities.iter().any(|affinity| affinity.contains(cpu))).collect()
}
