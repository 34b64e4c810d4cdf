//! The tasks' identities: their policies, groups and sessions, from the head's tables.

use std::collections::BTreeMap;

use schedlab_model::{Attributes, Group, GroupMax, Policy, Time};
use schedlab_trace::{Head, Pid};

use crate::InferError;

/// What the head's table says of a task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownTask {
    pub(crate) attributes: Attributes,
    /// The kernel's priority that follows.
    pub(crate) priority: i32,
    /// Whether the kernel made it (`PF_KTHREAD`).
    pub(crate) of_kernel: bool,
    /// The path of its control group.
    pub(crate) group: Option<String>,
    /// The number of its autogroup.
    pub(crate) session: Option<String>,
}

/// The table of tasks, by pid.
///
/// `cpus` is how many CPUs there are, `slice` the slice of fair tasks that asked for none.
pub(crate) fn known_tasks(head: &Head, cpus: u32, slice: Option<Time>) -> Result<BTreeMap<Pid, KnownTask>, InferError> {
    let mut known_tasks = BTreeMap::new();
    for row in head.table("tasks") {
        let known = known(&row, cpus, slice);
        let (pid, known) =
            known.ok_or_else(|| InferError::Head(format!("not a row of the table of tasks: '{}'", shown(&row))))?;
        known_tasks.insert(pid, known);
    }
    Ok(known_tasks)
}

fn shown(row: &[&str]) -> String {
    let text: String = row.join(" ").chars().filter(|letter| !letter.is_control()).take(80).collect();
    text
}

/// pid, tgid, ppid, state, cpu, prio, nice, policy, flags, rt_priority, runtime, deadline, period, affinity, autogroup, cgroup, comm.
fn known(row: &[&str], cpus: u32, slice: Option<Time>) -> Option<(Pid, KnownTask)> {
    let [
        pid,
        _,
        parent,
        _,
        _,
        _,
        nice,
        policy,
        _,
        rt_priority,
        runtime,
        deadline,
        period,
        affinity,
        autogroup,
        cgroup,
        ..,
    ] = row
    else {
        return None;
    };
    let pid: Pid = pid.parse().ok()?;
    let parent: Pid = parent.parse().ok()?;
    let nice: i8 = nice.parse().ok().filter(|nice| (-20..=19).contains(nice))?;
    let real_time: u8 = rt_priority.parse().ok().filter(|priority| *priority <= 99)?;
    let time = |text: &str| text.parse().ok().map(Time::from_nanos);
    let (policy, priority) = match policy.parse::<u32>().ok()? {
        1 => (Policy::Fifo(real_time.max(1)), 99 - i32::from(real_time)),
        2 => (Policy::Rr(real_time.max(1)), 99 - i32::from(real_time)),
        3 => (Policy::Batch, 120 + i32::from(nice)),
        5 => (Policy::Idle, 120 + i32::from(nice)),
        6 => {
            let policy = Policy::Deadline { runtime: time(runtime)?, deadline: time(deadline)?, period: time(period)? };
            if policy.fault().is_some() {
                return None;
            }
            (policy, -1)
        }
        _ => (Policy::Other, 120 + i32::from(nice)),
    };
    let fair = matches!(policy, Policy::Other | Policy::Batch | Policy::Idle);
    let own_slice = time(runtime).filter(|own| fair && own.as_nanos() > 0 && Some(*own) != slice && slice.is_some());
    let allowed = cpu_list(affinity)?;
    let everywhere = (0..cpus).all(|cpu| allowed.contains(&cpu));
    let attributes = Attributes {
        policy,
        nice,
        slice: own_slice,
        affinity: if everywhere { Vec::new() } else { allowed.into_iter().filter(|cpu| *cpu < cpus).collect() },
    };
    let group = Some(group_path(cgroup)).filter(|path| path != "/" && *cgroup != "-");
    let session = (*autogroup != "-").then(|| format!("autogroup-{autogroup}"));
    // kthreadd, and what it made.
    let of_kernel = pid == 2 || parent == 2;
    Some((pid, KnownTask { attributes, priority, of_kernel, group, session }))
}

/// `0-3,8`; `None` for any other text.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= schedlab_model::MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// A control group's path as workloads may name it: what they may not is written `_`.
pub(crate) fn group_path(path: &str) -> String {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.@:".contains(letter);
    let name = |name: &str| {
        let clean: String = name.chars().map(|c| if letter(c) { c } else { '_' }).take(100).collect();
        clean.strip_prefix('.').map(|rest| format!("_{rest}")).unwrap_or(clean)
    };
    let names: Vec<String> = path.split('/').filter(|name| !name.is_empty()).take(16).map(name).collect();
    format!("/{}", names.join("/"))
}

/// The tables of groups that were there before the recording and of those that were made meanwhile: number, path as workloads name it, settings.
pub(crate) fn groups(head: &Head) -> Result<Vec<(u64, String, Group)>, InferError> {
    let version_1 = head.fact("cgroup").is_some_and(|cgroup| cgroup.starts_with("v1"));
    let mut groups = Vec::new();
    for row in head.table("groups").chain(head.table("groups made")) {
        let wrong = || InferError::Head(format!("not a row of the table of groups: '{}'", shown(&row)));
        let [number, path, weight, quota, period, burst, idle] = row[..] else { return Err(wrong()) };
        let micros = |text: &str| text.parse().ok().map(Time::from_micros);
        let weight: Option<u64> = weight.parse().ok();
        let max = match (quota.parse::<i64>(), micros(period)) {
            (Ok(quota @ 1..), Some(period)) => {
                let quota = Time::from_micros(quota.unsigned_abs());
                Some(GroupMax { quota, period, burst: micros(burst).unwrap_or(Time::ZERO) })
            }
            _ => None,
        };
        let idle = idle == "1";
        let (weight, shares) = match (version_1, idle) {
            (_, true) => (None, None),
            // A weight of 100 and shares of 1024 are the defaults.
            (true, _) => (None, weight.filter(|shares| *shares != 1024)),
            (false, _) => (weight.filter(|weight| *weight != 100), None),
        };
        let settings = Group { weight, shares, max, idle };
        if let Some(fault) = settings.fault() {
            return Err(InferError::Head(format!("group {}: {fault}", group_path(path))));
        }
        groups.push((number.parse().map_err(|_| wrong())?, group_path(path), settings));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_who_a_task_is() {
        let row = "35 35 2 S 0 39 19 0 0 0 700000 0 0 0-1 - / khugepaged";
        let words: Vec<&str> = row.split(' ').collect();
        let (pid, known) = known(&words, 2, Some(Time::from_micros(700))).unwrap();
        assert_eq!((pid, known.priority, known.of_kernel), (35, 139, true));
        assert_eq!(known.attributes, Attributes { nice: 19, ..Attributes::default() });
        // On four CPUs 0-1 are not all, and 700 µs are a slice of its own where others have 1 ms.
        let (_, known) = super::known(&words, 4, Some(Time::from_millis(1))).unwrap();
        assert_eq!(known.attributes.affinity, [0, 1]);
        assert_eq!(known.attributes.slice, Some(Time::from_micros(700)));
    }

    #[test]
    fn rows_that_are_none_are_refused() {
        for row in ["", "1 2 3", "1 1 0 S 0 20 99 0 0 0 0 0 0 0 - / a", "1 1 0 S 0 20 0 6 0 0 5 5 5 0 - / a"] {
            assert_eq!(known(&row.split(' ').collect::<Vec<_>>(), 1, None), None, "{row}");
        }
        assert_eq!(cpu_list("3-1"), None);
        assert_eq!(cpu_list("0-99999999"), None);
        assert_eq!(cpu_list("0,2-3"), Some(vec![0, 2, 3]));
    }

    #[test]
    fn paths_are_those_of_workloads() {
        assert_eq!(group_path("/user.slice/user\\x2d1/.a"), "/user.slice/user_x2d1/_a");
        assert_eq!(group_path("/"), "/");
    }
}
