//! What this kernel permits this user. Each question is tried in a child that is thrown away.

use schedlab_model::{Attributes, Policy};
use serde::Serialize;

use crate::attributes::{policy_refusal, set_policy, slices_supported};
use crate::system::{SchedAttr, allowed_cpus, hz, in_child, kernel, limit, sched_setattr};

/// The host, and what may be set on it.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// `uname -r`.
    pub release: String,
    /// `uname -m`.
    pub machine: String,
    /// The CPUs that this process may use.
    pub cpus: Vec<u32>,
    /// Timer interrupts a second.
    pub hz: u32,
    /// The effective user.
    pub user: u32,
    /// Each policy that can be asked for.
    pub policies: Vec<Allowed>,
    /// The lowest nice level that can be set; none where the level cannot be lowered or raised at all.
    pub lowest_nice: Option<i8>,
    /// Whether fair tasks can have slices of their own.
    pub slices: bool,
    /// Whether every task's delays can be read (`/proc/thread-self/schedstat`).
    pub delays: bool,
    /// Open files, at most.
    pub files: u64,
    /// Processes and threads of this user, at most.
    pub processes: u64,
    /// The kernel lockdown in force; none where the kernel does not report it.
    pub lockdown: Option<String>,
}

/// Whether something may be set.
#[derive(Debug, Clone, Serialize)]
pub struct Allowed {
    /// The policy, as `fifo:1`; for real-time policies with the highest priority that can be set, or the lowest there is.
    pub policy: String,
    /// Whether it can be set.
    pub allowed: bool,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Tries what this kernel lets this user set. Call it before any thread was made.
pub fn probe() -> Probe {
    let (release, machine) = kernel();
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let mut policies: Vec<Allowed> =
        [Policy::Other, Policy::Batch, Policy::Idle].into_iter().map(|policy| allowed(policy, policy)).collect();
    for of in [Policy::Fifo, Policy::Rr] {
        let highest = highest(1..=99, |priority| can(&Attributes { policy: of(priority), ..Attributes::default() }));
        policies.push(allowed(of(highest.unwrap_or(1)), of(1)));
    }
    // From 19 down to −20, as ever less is permitted.
    let lowest = highest(0..=39, |steps| can(&Attributes { nice: 19 - steps as i8, ..Attributes::default() }));
    Probe {
        release,
        machine,
        cpus: allowed_cpus(),
        hz: hz(),
        user,
        policies,
        lowest_nice: lowest.map(|steps| 19 - steps as i8),
        slices: slices_supported(),
        delays: crate::task::delays().is_some(),
        files: limit(libc::RLIMIT_NOFILE).1,
        processes: limit(libc::RLIMIT_NPROC).0,
        lockdown: lockdown(),
    }
}

fn allowed(policy: Policy, least: Policy) -> Allowed {
    let attributes = Attributes { policy: least, ..Attributes::default() };
    let allowed = can(&attributes);
    let why = (!allowed).then(|| policy_refusal(&attributes, &std::io::Error::from_raw_os_error(libc::EPERM)));
    Allowed { policy: policy.to_string(), allowed, why }
}

/// Whether a task may have these attributes. A real-time one goes back to the fair policy at once.
fn can(attributes: &Attributes) -> bool {
    in_child(|| {
        let set = set_policy(attributes).is_ok();
        let _ = sched_setattr(SchedAttr::default());
        set
    })
}

/// The highest of these numbers that passes, where all up to some limit pass and none beyond it.
fn highest(range: std::ops::RangeInclusive<u8>, passes: impl Fn(u8) -> bool) -> Option<u8> {
    let (mut low, mut high) = range.into_inner();
    if !passes(low) {
        return None;
    }
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if passes(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Some(low)
}

/// The chosen word in `none [integrity] confidentiality`.
fn lockdown() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_that_passes_is_found() {
        for limit in 1..=99 {
            assert_eq!(highest(1..=99, |number| number <= limit), Some(limit));
        }
        assert_eq!(highest(1..=99, |_| false), None);
    }
}
