//! How many tasks this machine can have, as far as that can be known before one is made.

use std::fs;
use std::path::{Path, PathBuf};

use schedlab_model::TaskKind;
use schedlab_program::Program;

use crate::NativeError;
use crate::system::limit;

/// Memory that the kernel needs for a task, at least: its stack of 16 KiB and its `task_struct`; a process has page tables besides.
const THREAD_BYTES: u64 = 24 << 10;
const PROCESS_BYTES: u64 = 40 << 10;

/// Refuses a program whose first tasks, which all exist at once, are more than this machine can have.
///
/// # Errors
/// [`NativeError::Limit`] that names the limit.
pub(crate) fn check_tasks(program: &Program) -> Result<(), NativeError> {
    let wanted = program.roots().count() as u64;
    match exceeded(wanted, limits()) {
        Some((room, limit)) => Err(NativeError::Limit(format!(
            "workload '{}' starts {wanted} tasks at once; this machine can start {room} more ({limit})",
            program.name()
        ))),
        None => Ok(()),
    }
}

/// The lowest of some limits, if it is below what is wanted.
fn exceeded(wanted: u64, limits: Vec<(u64, String)>) -> Option<(u64, String)> {
    limits.into_iter().min_by_key(|(room, _)| *room).filter(|(room, _)| wanted > *room)
}

/// Memory that the kernel needs for a program's first tasks, at least.
pub(crate) fn kernel_bytes(program: &Program) -> u64 {
    let of = |kind: TaskKind| if kind == TaskKind::Thread { THREAD_BYTES } else { PROCESS_BYTES };
    program.roots().map(|(template, _)| of(program.template(template).kind)).sum()
}

/// What limits further tasks: how many there may be, and the limit's name.
fn limits() -> Vec<(u64, String)> {
    let there = present().unwrap_or(0);
    let mut found = Vec::new();
    for name in ["pid_max", "threads-max"] {
        let most = number(Path::new("/proc/sys/kernel").join(name));
        found.extend(most.map(|most| (most.saturating_sub(there), format!("kernel.{name}"))));
    }
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        found.push((limit(libc::RLIMIT_NPROC).0, "ulimit -u".to_owned()));
    }
    found.extend(controllers().into_iter().filter_map(|group| {
        let (most, now) = (number(group.join("pids.max"))?, number(group.join("pids.current"))?);
        Some((most.saturating_sub(now), format!("{}/pids.max", group.display())))
    }));
    found
}

/// Tasks that there are now: `/proc/loadavg` ends in running/all and the last process id.
fn present() -> Option<u64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// The number in a file; nothing where it says `max`.
fn number(path: PathBuf) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// This process's cgroups of the `pids` controller, from its own up to the mount.
fn controllers() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let one = controllers.split(',').any(|each| each == "pids");
        if !one && !controllers.is_empty() {
            continue;
        }
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
            let fits =
                if one { kind == "cgroup" && options.split(',').any(|each| each == "pids") } else { kind == "cgroup2" };
            fits.then(|| PathBuf::from(place))
        });
        let Some(mount) = mount else { continue };
        let group = mount.join(path.trim_start_matches('/'));
        found.extend(group.ancestors().take_while(|group| group.starts_with(&mount)).map(Path::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_refuses_what_exceeds_it() {
        let limits = || vec![(90, "kernel.pid_max".to_owned()), (40, "ulimit -u".to_owned())];
        assert_eq!(exceeded(40, limits()), None);
        assert_eq!(exceeded(41, limits()), Some((40, "ulimit -u".to_owned())));
        assert_eq!(exceeded(u64::MAX, Vec::new()), None);
    }

    #[test]
    fn tasks_that_are_there_count_against_the_kernels_limits() {
        let most = number(PathBuf::from("/proc/sys/kernel/pid_max")).unwrap();
        let (room, _) = limits().into_iter().find(|(_, name)| name == "kernel.pid_max").unwrap();
        // This task is there itself.
        assert!(room < most);
    }
}
