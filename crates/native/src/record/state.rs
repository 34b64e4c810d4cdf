//! The system before a recording: settings, topology, tasks, groups.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;
use std::mem::size_of;
use std::path::{Path, PathBuf};

use crate::system::SchedAttr;

use super::format::printable;

/// Text files that are kept as they are, where they exist; `*` stands for any part of a name.
const FILES: &[&str] = &[
    "/proc/cmdline",
    "/proc/sys/kernel/sched_*",
    "/sys/kernel/debug/sched_features",
    "/sys/kernel/debug/sched/*",
    "/sys/kernel/debug/sched/*/*/*",
    "/proc/sys/kernel/sched_domain/*/*/*",
    "/sys/kernel/debug/sched/domains/*/*/*",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/nohz_full",
    "/sys/devices/system/cpu/cpu*/cpu_capacity",
    "/sys/devices/system/cpu/cpu*/topology/*_cpus_list",
    "/sys/devices/system/cpu/cpu*/cache/index*/level",
    "/sys/devices/system/cpu/cpu*/cache/index*/shared_cpu_list",
    "/sys/devices/system/node/node*/cpulist",
    "/sys/devices/system/node/node*/distance",
];

/// The scheduler's own account, in one of these places.
const DEBUG: [&str; 2] = ["/sys/kernel/debug/sched/debug", "/proc/sched_debug"];

/// A file's text, each line marked as part of the head.
pub(super) fn section(text: &mut String, title: &str, content: &str) {
    let _ = writeln!(text, "# {title}");
    for line in content.lines() {
        let _ = writeln!(text, "#| {}", printable(&line.replace('\t', "        ")));
    }
}

/// Settings and topology.
pub(super) fn settings(text: &mut String) {
    let files: BTreeSet<PathBuf> = FILES.iter().flat_map(|pattern| matching(pattern)).collect();
    for path in files.iter().filter(|path| !DEBUG.iter().any(|debug| path.as_path() == Path::new(debug))) {
        // Some of them cannot be read; the kernel may also refuse by lockdown.
        if let Ok(content) = fs::read(path) {
            section(text, &format!("file: {}", path.display()), &String::from_utf8_lossy(&content));
        }
    }
}

/// The scheduler's own account of its queues and tasks, as it is now.
pub(super) fn debug(text: &mut String) {
    if let Some((path, content)) = debug_text() {
        section(text, &format!("file: {path}"), &content);
    }
}

/// The same, with where it was found.
pub(super) fn debug_text() -> Option<(&'static str, String)> {
    let (path, content) = DEBUG.iter().find_map(|path| Some((path, fs::read(path).ok()?)))?;
    Some((path, String::from_utf8_lossy(&content).into_owned()))
}

/// The existing files that match a pattern whose names may hold one `*` each.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Some((head, tail)) = part.split_once('*') else {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        let inside = |directory: &PathBuf| {
            let names = fs::read_dir(directory).into_iter().flatten().flatten();
            let names = names.filter_map(|entry| entry.file_name().into_string().ok());
            let fits =
                |name: &String| name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail);
            names.filter(fits).map(|name| directory.join(name)).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(inside).collect();
    }
    found.retain(|path| path.is_file());
    found
}

/// A thread of the system.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    /// Its id.
    pub(super) pid: i32,
    /// Its name.
    pub(super) name: String,
    line: String,
}

/// Every thread there is.
pub(super) fn threads() -> Vec<Thread> {
    let mut threads: Vec<Thread> = pids().into_iter().filter_map(|(process, pid)| thread(process, pid)).collect();
    threads.sort_by_key(|thread| thread.pid);
    threads
}

/// Every thread's process and id.
pub(super) fn pids() -> Vec<(i32, i32)> {
    let tasks = |process: i32| numbers(&PathBuf::from(format!("/proc/{process}/task")));
    let processes = numbers(Path::new("/proc")).into_iter();
    processes.flat_map(|process| tasks(process).into_iter().map(move |pid| (process, pid))).collect()
}

/// The table of tasks.
pub(super) fn tasks(text: &mut String, threads: &[Thread]) {
    let head = "pid tgid ppid state cpu prio nice policy flags rt_priority runtime deadline period affinity autogroup cgroup comm";
    let lines: Vec<&str> = threads.iter().map(|thread| thread.line.as_str()).collect();
    section(text, "table: tasks", &format!("{head}\n{}", lines.join("\n")));
}

fn numbers(directory: &Path) -> Vec<i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn thread(process: i32, pid: i32) -> Option<Thread> {
    let directory = format!("/proc/{process}/task/{pid}");
    let statistics = String::from_utf8_lossy(&fs::read(format!("{directory}/stat")).ok()?).into_owned();
    // The name stands between the first opening and the last closing bracket.
    let (name, rest) = (statistics.split_once('(')?.1.rsplit_once(')')?.0, statistics.rsplit_once(')')?.1);
    let words: Vec<&str> = rest.split_whitespace().collect();
    // Counted from the state, field 3 in proc(5): ppid 4, priority 18, nice 19, cpu 39, rt_priority 40, policy 41.
    let word = |field: usize| words.get(field - 3).copied();
    let attr = attributes(pid).unwrap_or_default();
    let affinity = line_after(&format!("{directory}/status"), "Cpus_allowed_list:").unwrap_or_else(|| "-".to_owned());
    let autogroup = fs::read_to_string(format!("/proc/{process}/autogroup")).unwrap_or_default();
    // `/autogroup-12 nice 0`.
    let autogroup =
        autogroup.split_whitespace().next().and_then(|path| path.strip_prefix("/autogroup-")).unwrap_or("-");
    let name = printable(name);
    let line = format!(
        "{pid} {process} {} {} {} {} {} {} {} {} {} {} {} {affinity} {autogroup} {} {name}",
        word(4)?,
        word(3)?,
        word(39)?,
        word(18)?,
        word(19)?,
        word(41)?,
        attr.flags,
        word(40)?,
        attr.runtime,
        attr.deadline,
        attr.period,
        cgroup(&directory).replace(' ', "?"),
    );
    Some(Thread { pid, name, line })
}

fn line_after(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()))
}

/// The group of the CPU controller: version 1's if it is mounted, else version 2's.
fn cgroup(directory: &str) -> String {
    let text = fs::read_to_string(format!("{directory}/cgroup")).unwrap_or_default();
    let mut unified = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.split(',').any(|name| name == "cpu") {
            return path.to_owned();
        }
        if controllers.is_empty() {
            unified = Some(path.to_owned());
        }
    }
    unified.unwrap_or_else(|| "-".to_owned())
}

/// `sched_getattr(2)` of another thread.
fn attributes(pid: i32) -> Option<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes to `attr`.
    let returned = unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut attr, size, 0) };
    (returned == 0).then_some(attr)
}

/// The groups that the CPU controller divides time among.
pub(super) struct Groups {
    version: u8,
    root: PathBuf,
    /// Those that were there before the recording.
    first: BTreeSet<u64>,
    /// A row of each that came since, by its inode, with the settings that it had when it was seen last.
    later: BTreeMap<u64, String>,
}

const GROUPS: &str = "inode path weight quota period burst idle";

impl Groups {
    /// Puts down the table of those that there are; nothing where the controller is not mounted.
    pub(super) fn look(text: &mut String) -> Option<Self> {
        let (version, root) = controller()?;
        let mut found = Vec::new();
        walk(version, &root, &root, &BTreeSet::new(), &mut found);
        let rows: Vec<&str> = found.iter().map(|(_, row)| row.as_str()).collect();
        section(text, &format!("cgroup: v{version} {}", root.display()), "");
        section(text, "table: groups", &[&[GROUPS], &rows[..]].concat().join("\n"));
        let first = found.iter().map(|(inode, _)| *inode).collect();
        Some(Self { version, root, first, later: BTreeMap::new() })
    }

    /// Looks at those that came since.
    pub(super) fn look_again(&mut self) {
        let mut found = Vec::new();
        walk(self.version, &self.root, &self.root, &self.first, &mut found);
        self.later.extend(found);
    }

    /// Puts down the table of those that came since and were seen.
    pub(super) fn tell_later(&self, text: &mut String) {
        if self.later.is_empty() {
            return;
        }
        let rows: Vec<&str> = std::iter::once(GROUPS).chain(self.later.values().map(String::as_str)).collect();
        section(text, "table: groups made", &rows.join("\n"));
    }
}

/// The version of the mounted CPU controller and where it is.
fn controller() -> Option<(u8, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut unified = None;
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, place, kind, options, ..] = words.as_slice() else { continue };
        if *kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
            return Some((1, PathBuf::from(place)));
        }
        if *kind == "cgroup2" {
            unified = Some((2, PathBuf::from(place)));
        }
    }
    unified
}

/// The rows of the groups from `directory` downwards but for those that are `known`, each with its inode.
fn walk(version: u8, root: &Path, directory: &Path, known: &BTreeSet<u64>, rows: &mut Vec<(u64, String)>) {
    use std::os::unix::fs::MetadataExt;

    let Ok(metadata) = fs::metadata(directory) else { return };
    if !known.contains(&metadata.ino()) {
        rows.push((metadata.ino(), row(version, root, directory, metadata.ino())));
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut inner: Vec<PathBuf> =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect();
    inner.sort();
    inner.iter().for_each(|inner| walk(version, root, inner, known, rows));
}

fn row(version: u8, root: &Path, directory: &Path, inode: u64) -> String {
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok().map(|value| value.trim().to_owned());
    let word = |name: &str| read(name).unwrap_or_else(|| "-".to_owned());
    let (weight, quota, period, burst) = if version == 1 {
        let (quota, period) = (word("cpu.cfs_quota_us"), word("cpu.cfs_period_us"));
        (word("cpu.shares"), quota, period, word("cpu.cfs_burst_us"))
    } else {
        let limit = read("cpu.max").unwrap_or_else(|| "- -".to_owned());
        let (quota, period) = limit.split_once(' ').unwrap_or(("-", "-"));
        (word("cpu.weight"), quota.replace("max", "-1"), period.to_owned(), word("cpu.max.burst"))
    };
    let path = directory.strip_prefix(root).unwrap_or(directory);
    let path = printable(&format!("/{}", path.display())).replace(' ', "?");
    format!("{inode} {path} {weight} {quota} {period} {burst} {}", word("cpu.idle"))
}

/// The release of the stable series: Debian names it in the version only, as `Debian 6.1.176-1`.
pub(super) fn stable_release(release: &str, version: &str) -> String {
    let packaged = version.split_once("Debian ").and_then(|(_, rest)| rest.split([' ', '-', '~']).next());
    let packaged = packaged.filter(|name| name.starts_with(|first: char| first.is_ascii_digit()));
    let own = || release.split(|letter: char| letter != '.' && !letter.is_ascii_digit()).next().unwrap_or(release);
    packaged.unwrap_or_else(own).to_owned()
}

/// Whether a release is of the series MAJOR.MINOR or a later one.
pub(super) fn at_least(release: &str, major: u32, minor: u32) -> bool {
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// The tasks' names by pid.
pub(super) fn names(threads: &[Thread]) -> HashMap<i64, String> {
    threads.iter().map(|thread| (i64::from(thread.pid), thread.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stable_release_is_found() {
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-10-01)";
        assert_eq!(stable_release("6.1.0-50-amd64", debian), "6.1.176");
        assert_eq!(stable_release("6.18.44-fc-v595", "#1 SMP PREEMPT_DYNAMIC @0"), "6.18.44");
    }

    #[test]
    fn series_are_compared_by_number() {
        assert!(
            at_least("5.14.0", 5, 14) && at_least("6.1.0-50-amd64", 5, 14) && at_least("7.2.13+deb14-amd64", 5, 14)
        );
        assert!(!at_least("5.10.0-32-amd64", 5, 14) && !at_least("5.9", 5, 14));
    }

    #[test]
    fn sections_never_look_like_events_or_keys() {
        let mut text = String::new();
        section(&mut text, "file: /x", "a\tb\n# end: events=0\n");
        assert_eq!(text, "# file: /x\n#| a        b\n#| # end: events=0\n");
    }

    #[test]
    fn the_own_thread_is_in_the_table() {
        let threads = threads();
        let own = threads.iter().find(|thread| thread.pid == std::process::id() as i32).unwrap();
        assert_eq!(own.line.split(' ').nth(1).unwrap(), std::process::id().to_string());
        let mut text = String::new();
        tasks(&mut text, &threads);
        assert!(text.starts_with("# table: tasks\n#| pid tgid "));
    }
}
