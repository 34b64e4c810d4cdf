//! Setting a task's policy, nice level, slice and affinity, and saying why that failed.

use std::io;

use schedlab_model::{Attributes, Clamp, Policy, Release, RuleSet, Time};

use crate::system::{SchedAttr, in_child, limit, sched_getattr, sched_set_clamps, sched_setattr, set_affinity};

/// The policy's number in `sched_setattr(2)`, and its real-time priority.
pub(crate) const fn number(policy: Policy) -> (u32, u32) {
    match policy {
        Policy::Other => (libc::SCHED_OTHER as u32, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO as u32, priority as u32),
        Policy::Rr(priority) => (libc::SCHED_RR as u32, priority as u32),
        Policy::Batch => (libc::SCHED_BATCH as u32, 0),
        Policy::Idle => (libc::SCHED_IDLE as u32, 0),
        Policy::Deadline { .. } => (libc::SCHED_DEADLINE as u32, 0),
    }
}

/// Policy, nice level and slice, or a deadline task's reservation, of the calling thread.
pub(crate) fn set_policy(attributes: &Attributes) -> io::Result<()> {
    if let Policy::Deadline { runtime, deadline, period } = attributes.policy {
        let [runtime, deadline, period] = [runtime, deadline, period].map(Time::as_nanos);
        let (policy, _) = number(attributes.policy);
        return sched_setattr(SchedAttr { policy, runtime, deadline, period, ..SchedAttr::default() });
    }
    let (policy, priority) = number(attributes.policy);
    let (nice, runtime) = match attributes.policy.is_realtime() {
        true => (0, 0),
        false => (i32::from(attributes.nice), attributes.slice.map_or(0, Time::as_nanos)),
    };
    sched_setattr(SchedAttr { policy, priority, nice, runtime, ..SchedAttr::default() })
}

/// Whether the calling thread has that policy and nice level, which it has inherited. Asking for them again changes something: from 6.12 on
/// it is requeued (`sched_setattr`), and from 6.18.17 on it loses the protection of its slice, which begins with a pick (`set_next_entity`).
pub(crate) fn has_policy(attributes: &Attributes) -> bool {
    let (policy, _) = number(attributes.policy);
    let fair = matches!(attributes.policy, Policy::Other | Policy::Batch | Policy::Idle);
    fair && sched_getattr().is_ok_and(|now| now.policy == policy && now.nice == i32::from(attributes.nice))
}

/// Whether this process has a slice of its own, and not the kernel's. Tried in a child that is thrown away.
pub(crate) fn has_own_slice() -> bool {
    in_child(|| {
        let slice = || sched_getattr().map(|attr| (attr.nice, attr.runtime));
        let Ok((nice, before)) = slice() else { return false };
        let nice = i8::try_from(nice).unwrap_or_default();
        let set = set_policy(&Attributes { nice, ..Attributes::default() });
        set.and_then(|()| slice()).is_ok_and(|(_, after)| before != after)
    })
}

/// Affinity of the calling thread; nothing to do where all CPUs are allowed.
pub(crate) fn set_cpus(attributes: &Attributes) -> io::Result<()> {
    if attributes.affinity.is_empty() { Ok(()) } else { set_affinity(0, &attributes.affinity) }
}

/// Affinity of the calling thread, with all CPUs that the run may use where the list is empty.
pub(crate) fn set_cpus_or_all(attributes: &Attributes, all: &[u32]) -> io::Result<()> {
    set_affinity(0, if attributes.affinity.is_empty() { all } else { &attributes.affinity })
}

/// Bounds of the calling thread's utilisation.
pub(crate) fn set_clamp(clamp: Clamp) -> io::Result<()> {
    if clamp.is_none() {
        return Ok(());
    }
    let mut flags = (libc::SCHED_FLAG_KEEP_POLICY | libc::SCHED_FLAG_KEEP_PARAMS) as u64;
    if clamp.min.is_some() {
        flags |= libc::SCHED_FLAG_UTIL_CLAMP_MIN as u64;
    }
    if clamp.max.is_some() {
        flags |= libc::SCHED_FLAG_UTIL_CLAMP_MAX as u64;
    }
    sched_set_clamps(flags, clamp.min.unwrap_or(0).into(), clamp.max.unwrap_or(1024).into())
}

/// Why setting policy, nice level and slice failed, and what it needs.
pub(crate) fn policy_refusal(attributes: &Attributes, error: &io::Error) -> String {
    let Attributes { policy, nice, slice, .. } = attributes;
    match policy {
        Policy::Fifo(priority) | Policy::Rr(priority) => {
            let (soft, _) = limit(libc::RLIMIT_RTPRIO);
            match error.raw_os_error() {
                Some(libc::EPERM) => format!(
                    "setting policy {policy} needs CAP_SYS_NICE or RLIMIT_RTPRIO of at least {priority} (it is {soft}), \
                     and a cgroup with real-time runtime"
                ),
                _ => format!("setting policy {policy} failed: {error}"),
            }
        }
        Policy::Deadline { .. } => match error.raw_os_error() {
            Some(libc::EBUSY) => {
                format!("setting policy {policy}: the deadline tasks of these CPUs would have too much bandwidth")
            }
            Some(libc::EPERM) => {
                format!("setting policy {policy} needs CAP_SYS_NICE and every CPU of the machine allowed")
            }
            _ => format!("setting policy {policy} failed: {error}"),
        },
        _ => {
            let slice = slice.map_or(String::new(), |slice| format!(", slice {slice}"));
            match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => format!(
                    "setting policy {policy}, nice {nice}{slice} needs CAP_SYS_NICE or RLIMIT_NICE of at least {}",
                    20 - i32::from(*nice)
                ),
                _ => format!("setting policy {policy}, nice {nice}{slice} failed: {error}"),
            }
        }
    }
}

/// Why setting the affinity failed.
pub(crate) fn affinity_refusal(attributes: &Attributes, error: &io::Error) -> String {
    let list: Vec<String> = attributes.affinity.iter().map(u32::to_string).collect();
    let cpus: Vec<String> = crate::system::allowed_cpus().iter().map(u32::to_string).collect();
    format!("binding to CPUs {} failed: {error}; here are CPUs {}", list.join(","), cpus.join(","))
}

/// Whether this kernel gives fair tasks custom slices: whether it reports the slice that was set. Tried in a child that is thrown away.
pub(crate) fn slices_supported() -> bool {
    in_child(|| {
        let asked = Attributes { slice: Some(Time::from_micros(3_100)), ..Attributes::default() };
        let set = sched_getattr().and_then(|before| {
            let nice = i8::try_from(before.nice).unwrap_or_default();
            set_policy(&Attributes { nice, ..asked.clone() })
        });
        let said = set.and_then(|()| sched_getattr()).map(|attr| attr.runtime);
        said.is_ok_and(|said| asked.slice == Some(Time::from_nanos(said)))
    })
}

/// Why a slice cannot be set here.
pub(crate) fn slice_refusal(slice: Time, release: &str) -> String {
    let old = Release::or_nearest(release).is_ok_and(|release| !RuleSet::of(release).eevdf);
    let since = if old { " (slices came with 6.12)" } else { "" };
    format!("setting slice {slice}: kernel {release} has no custom slices{since}")
}
