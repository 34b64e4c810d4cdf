//! Groups of tasks as cgroups of the `cpu` controller, version 1 or 2.
//!
//! All groups of a run are below one cgroup that the run makes, in which tasks without a group are, so that these compete with the groups
//! as they do below the root. Under version 2 it is a threaded domain: threads of one process may be in different groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schedlab_model::{Group, Time};
use schedlab_program::{Membership, Program};

use crate::NativeError;
use crate::janitor::Janitor;
use crate::system::{self, pid};

/// Which files a cgroup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The cgroups of a run.
#[derive(Debug)]
pub(crate) struct Groups {
    version: Version,
    /// The run's own cgroup.
    base: PathBuf,
    /// The program's groups.
    members: Vec<PathBuf>,
    janitor: Janitor,
}

/// What a group's limit did (`cpu.stat`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Throttling {
    pub(crate) periods: u64,
    pub(crate) throttled: u64,
    pub(crate) throttled_ns: u64,
}

fn refused(what: String) -> NativeError {
    schedlab_model::ModelError::Group(what).into()
}

/// For `map_err`: says what was being done to which file.
fn doing<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> NativeError + 'a {
    move |error| {
        let right = match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => " (it needs root, or a delegated cgroup)",
            _ => "",
        };
        refused(format!("{what} {}: {error}{right}", path.display()))
    }
}

impl Groups {
    /// Makes the program's groups; nothing where it has none.
    pub(crate) fn make(program: &Program) -> Result<Option<Self>, NativeError> {
        if program.groups().is_empty() {
            return Ok(None);
        }
        let (version, above) = place()?;
        let base = above.join(format!("schedlab-{}", system::mark()));
        let paths: Vec<PathBuf> = program.groups().iter().map(|node| base.join(&node.path[1..])).collect();
        // The process that removes the directories has to be there before the first of them.
        let janitor = Janitor::hire(std::iter::once(base.clone()).chain(paths.iter().cloned()).collect())
            .map_err(|error| refused(format!("the process that removes the cgroups could not be started: {error}")))?;
        let groups = Self { version, base, members: paths, janitor };
        groups.make_directories(program)?;
        Ok(Some(groups))
    }

    fn make_directories(&self, program: &Program) -> Result<(), NativeError> {
        fs::create_dir(&self.base).map_err(doing("making cgroup", &self.base))?;
        for path in &self.members {
            fs::create_dir(path).map_err(doing("making cgroup", path))?;
            if self.version == Version::Two {
                let kind = path.join("cgroup.type");
                fs::write(&kind, "threaded").map_err(doing("setting", &kind))?;
            }
        }
        if self.version == Version::Two {
            let inner =
                self.members.iter().filter(|path| self.members.iter().any(|child| child.parent() == Some(path)));
            for path in std::iter::once(&self.base).chain(inner) {
                let control = path.join("cgroup.subtree_control");
                fs::write(&control, "+cpu").map_err(doing("setting", &control))?;
            }
        }
        for (node, path) in program.groups().iter().zip(&self.members) {
            for (file, value) in settings(&node.settings, self.version) {
                let file = path.join(file);
                fs::write(&file, value).map_err(doing("setting", &file))?;
            }
        }
        Ok(())
    }

    /// Moves the calling process, of one thread, to the run's own cgroup.
    pub(crate) fn enter(&self) -> io::Result<()> {
        fs::write(self.base.join("cgroup.procs"), pid().to_string())
    }

    /// Moves the calling thread.
    pub(crate) fn join(&self, membership: Membership) -> io::Result<()> {
        let file = match self.version {
            Version::One => "tasks",
            Version::Two => "cgroup.threads",
        };
        let path = match membership {
            Membership::Root => &self.base,
            Membership::Group(group) => &self.members[group as usize],
        };
        fs::write(path.join(file), crate::system::thread_id().to_string())
    }

    /// What each group's limit did.
    pub(crate) fn throttling(&self) -> Vec<Throttling> {
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path.join("cpu.stat")).unwrap_or_default();
            let value = |key: &str| {
                let mut words = text.lines().filter_map(|line| line.split_once(' '));
                words.find(|(name, _)| *name == key).and_then(|(_, value)| value.parse::<u64>().ok()).unwrap_or(0)
            };
            let throttled_ns = match self.version {
                Version::One => value("throttled_time"),
                Version::Two => value("throttled_usec").saturating_mul(1_000),
            };
            Throttling { periods: value("nr_periods"), throttled: value("nr_throttled"), throttled_ns }
        };
        self.members.iter().map(read).collect()
    }

    /// Removes the cgroups; all their tasks must have ended.
    pub(crate) fn remove(&self) {
        self.janitor.dismiss();
    }
}

/// The files of a group's settings and what goes into them.
fn settings(group: &Group, version: Version) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    let micros = |time: Time| (time.as_nanos() / 1_000).to_string();
    match version {
        Version::One => {
            // cpu.weight's default of 100 is cpu.shares' of 1024 (sched_weight_from_cgroup).
            let shares = group.shares.or(group.weight.map(|weight| (weight * 1024 / 100).max(2)));
            files.extend(shares.map(|shares| ("cpu.shares", shares.to_string())));
            if let Some(max) = group.max {
                files.push(("cpu.cfs_period_us", micros(max.period)));
                files.push(("cpu.cfs_quota_us", micros(max.quota)));
                if max.burst > Time::ZERO {
                    files.push(("cpu.cfs_burst_us", micros(max.burst)));
                }
            }
        }
        Version::Two => {
            let weight = group.weight.or(group.shares.map(|shares| (shares * 100 / 1024).clamp(1, 10_000)));
            files.extend(weight.map(|weight| ("cpu.weight", weight.to_string())));
            if let Some(max) = group.max {
                files.push(("cpu.max", format!("{} {}", micros(max.quota), micros(max.period))));
                if max.burst > Time::ZERO {
                    files.push(("cpu.max.burst", micros(max.burst)));
                }
            }
        }
    }
    if group.idle {
        files.push(("cpu.idle", "1".to_owned()));
    }
    files
}

/// The cgroup below which the run's own is made.
fn place() -> Result<(Version, PathBuf), NativeError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mount = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (place, found, options) = (words.next()?, words.next()?, words.next()?);
            let right = found == kind && option.is_none_or(|option| options.split(',').any(|each| each == option));
            right.then(|| PathBuf::from(place))
        })
    };
    if let Some(mount) = mount("cgroup", Some("cpu")) {
        let path = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers.split(',').any(|each| each == "cpu").then_some(path)
        });
        return Ok((Version::One, mount.join(path.unwrap_or("/").trim_start_matches('/'))));
    }
    let Some(mount) = mount("cgroup2", None) else {
        return Err(refused("no cgroups with the cpu controller are mounted here".to_owned()));
    };
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let mut why = "the cpu controller is not there".to_owned();
    // The root may have processes beside cgroups with controllers; any other may not.
    for above in [mount.clone(), mount.join(path.trim_start_matches('/'))] {
        let has = |file: &str| {
            fs::read_to_string(above.join(file)).is_ok_and(|text| text.split_whitespace().any(|each| each == "cpu"))
        };
        if !has("cgroup.controllers") {
            continue;
        }
        let control = above.join("cgroup.subtree_control");
        if has("cgroup.subtree_control") {
            return Ok((Version::Two, above));
        }
        match fs::write(&control, "+cpu") {
            Ok(()) => return Ok((Version::Two, above)),
            Err(error) => why = format!("enabling it in {} failed: {error}", control.display()),
        }
    }
    Err(refused(format!("cgroups cannot have the cpu controller below {}: {why}", mount.display())))
}

#[cfg(test)]
mod tests {
    use schedlab_model::GroupMax;

    use super::*;

    #[test]
    fn settings_have_the_files_of_their_version() {
        let max = GroupMax { quota: Time::from_millis(20), period: Time::from_millis(100), burst: Time::ZERO };
        let group = Group { weight: Some(200), max: Some(max), ..Group::default() };
        let told = |version| {
            settings(&group, version).into_iter().map(|(file, value)| format!("{file}={value}")).collect::<Vec<_>>()
        };
        // 200 of 100 is 2048 of 1024.
        assert_eq!(told(Version::One), ["cpu.shares=2048", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=20000"]);
        assert_eq!(told(Version::Two), ["cpu.weight=200", "cpu.max=20000 100000"]);
    }
}
