//! A separate instance of the kernel's tracing, that leaves all others as they were.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::NativeError;
use crate::system;

use super::build::{Built, Missing};
use super::state;

/// What the names of our instances begin with; the recorder's mark follows ([`system::mark`]).
const INSTANCE: &str = "schedlab-";
/// Likewise of our groups of probes, whose names must be words.
const GROUP: &str = "schedlab_";

/// An instance of tracing with its probes, both gone when it is dropped.
pub(crate) struct Instance {
    root: PathBuf,
    /// The instance's directory.
    pub(crate) path: PathBuf,
    /// The probes' group.
    pub(crate) group: String,
    probes: Vec<&'static str>,
}

/// A line that says why there is no recording.
pub(crate) fn refused(why: impl Into<String>) -> NativeError {
    NativeError::Recording(why.into())
}

/// Where tracefs is mounted.
///
/// # Errors
/// Without permission, or where it is not mounted.
pub(crate) fn find() -> Result<PathBuf, NativeError> {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Err(refused("recording needs root: tracing is not permitted to others"));
    }
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    places.into_iter().find(|path| path.join("instances").is_dir()).ok_or_else(|| {
        refused(
            "no tracefs in /sys/kernel/tracing or /sys/kernel/debug/tracing: mount it with 'mount -t tracefs tracefs \
             /sys/kernel/tracing', or this kernel was built without tracing",
        )
    })
}

/// Writes a setting in one go.
pub(crate) fn put(path: &Path, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Removes what recorders left behind that were killed, of this PID namespace.
pub(crate) fn clean(root: &Path) {
    let Ok(instances) = fs::read_dir(root.join("instances")) else { return };
    for name in instances.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if name.strip_prefix(INSTANCE).is_some_and(|mark| system::is_gone(mark, '-')) {
            remove_instance(&root.join("instances").join(&name));
        }
    }
    let known = fs::read_to_string(root.join("kprobe_events")).unwrap_or_default();
    let left: Vec<String> = known.lines().filter_map(removal).collect();
    remove_probes(root, &left);
}

/// What removes the probe that a line of `kprobe_events` shows, if it is a dead recorder's.
fn removal(line: &str) -> Option<String> {
    // p:schedlab_123_4567_4026531836/k_enq enqueue_task_fair …; return probes may say how many at once: r4:…
    let (_, rest) = line.split_once(':')?;
    let name = rest.split_whitespace().next()?;
    let mark = name.strip_prefix(GROUP)?.split('/').next()?;
    system::is_gone(mark, '_').then(|| format!("-:{name}"))
}

/// The process that wrote `mark`, and the child that it made, in the text of a trace.
fn pids_in(text: &str, mark: &str) -> Option<[libc::pid_t; 2]> {
    //   schedlab-native-812     [001] .....  3.012: sched_process_fork: comm=… pid=812 child_comm=… child_pid=813
    let task = |line: &str| line.split_once(" [")?.0.trim().rsplit_once('-')?.1.parse().ok();
    let own = text.lines().find(|line| line.ends_with(mark)).and_then(task)?;
    let forks = text.lines().filter(|line| line.contains(": sched_process_fork: ") && task(line) == Some(own));
    let child = forks.filter_map(|line| line.rsplit_once(" child_pid=")?.1.trim().parse().ok()).next()?;
    Some([own, child])
}

fn remove_instance(path: &Path) {
    // Without events nothing keeps the probes, and nothing else is written.
    let _ = put(&path.join("tracing_on"), "0");
    let _ = put(&path.join("events/enable"), "0");
    let _ = fs::remove_dir(path);
}

fn remove_probes(root: &Path, removals: &[String]) {
    let Ok(mut file) = fs::OpenOptions::new().append(true).open(root.join("kprobe_events")) else { return };
    for removal in removals {
        let _ = file.write_all(format!("{removal}\n").as_bytes());
    }
}

impl Instance {
    /// Makes an instance, switched off, with a buffer of so many KiB for each CPU and the given clock.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub(crate) fn new(root: PathBuf, buffer: u64, clock: &str) -> Result<Self, NativeError> {
        let mark = system::mark();
        let path = root.join("instances").join(format!("{INSTANCE}{mark}"));
        fs::create_dir(&path)
            .map_err(|error| refused(format!("no instance of tracing can be made ({}): {error}", path.display())))?;
        let instance = Self { root, path, group: format!("{GROUP}{}", mark.replace('-', "_")), probes: Vec::new() };
        instance.set("tracing_on", "0")?;
        // What comes first is kept, so that a buffer that is too small is noticed and never hides the beginning.
        instance.set("options/overwrite", "0")?;
        instance.set("trace_clock", clock)?;
        put(&instance.path.join("buffer_size_kb"), &buffer.to_string()).map_err(|error| {
            refused(format!(
                "a buffer of {buffer} KiB for each CPU is not available ({error}); choose another with --buffer"
            ))
        })?;
        Ok(instance)
    }

    /// Makes a child by `fork`, and tells the process ids of this process and of the child as events have them.
    ///
    /// # Errors
    /// `fork`'s, and where the kernel shows no such event.
    pub(crate) fn pids_of_fork<T>(
        &self,
        fork: impl FnOnce() -> Result<T, NativeError>,
    ) -> Result<(T, [libc::pid_t; 2]), NativeError> {
        const MARK: &str = "schedlab: process ids";
        let switch = |value| {
            put(&self.path.join("events/sched/sched_process_fork/enable"), value)
                .map_err(|error| refused(format!("the event sched_process_fork cannot be switched: {error}")))
        };
        switch("1")?;
        self.set("tracing_on", "1")?;
        self.mark(MARK)?;
        let child = fork()?;
        self.set("tracing_on", "0")?;
        switch("0")?;
        let text = fs::read_to_string(self.path.join("trace")).unwrap_or_default();
        // Opened anew it is emptied.
        fs::write(self.path.join("trace"), "")
            .map_err(|error| refused(format!("the trace cannot be emptied: {error}")))?;
        let pids = pids_in(&text, MARK);
        pids.map(|pids| (child, pids)).ok_or_else(|| refused("the trace does not show the process ids of the recorder"))
    }

    /// Writes one of the instance's settings.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), NativeError> {
        let path = self.path.join(name);
        put(&path, value).map_err(|error| refused(format!("{} cannot be set to {value}: {error}", path.display())))
    }

    /// The directory of an event, where the kernel has it.
    pub(crate) fn event(&self, system: &str, name: &str) -> Option<PathBuf> {
        Some(self.path.join("events").join(system).join(name)).filter(|path| path.is_dir())
    }

    /// Defines the first of the candidates that the kernel takes.
    pub(super) fn define(&mut self, candidates: Vec<Built>) -> Result<Built, Missing> {
        let mut why = Vec::new();
        for built in &candidates {
            let definition = format!("{}\n", built.definition(&self.group));
            let file = fs::OpenOptions::new().append(true).open(self.root.join("kprobe_events"));
            match file.and_then(|mut file| file.write_all(definition.as_bytes())) {
                Ok(()) => {
                    self.probes.push(built.name);
                    return Ok(built.clone());
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                    why.push(format!("{} is inlined or not there", built.function));
                }
                Err(error) => why.push(format!("{}: {error}", built.function)),
            }
        }
        let first = candidates.first();
        Err(Missing {
            name: first.map_or("", |built| built.name),
            why: why.join("; "),
            level: first.map_or(super::level::Level::L1, |built| built.level),
            essential: first.is_some_and(|built| built.essential),
        })
    }

    /// The probes that were hit and could not record, because another was at work, each with how often.
    ///
    /// Before 5.14 a kernel also counts there that a fetch went through a null pointer, for every probe of the function
    /// (`kprobe_fault_handler`), so of these kernels' probes only those are asked that never do.
    pub(super) fn misses(&self, probes: &[Built]) -> Vec<(String, u64)> {
        let honest = state::at_least(&system::kernel().0, 5, 14);
        let goes_through_null = |function| {
            probes
                .iter()
                .any(|built| built.function == function && built.fields.iter().any(|field| !field.needs.is_empty()))
        };
        let profile = fs::read_to_string(self.root.join("kprobe_profile")).unwrap_or_default();
        let missed = |line: &str| {
            let mut words = line.split_whitespace();
            // The file names events without their groups; their hits follow, then their misses.
            let name = words.next()?;
            let built = probes.iter().find(|built| built.name == name)?;
            let missed = words.nth(1)?.parse().ok().filter(|missed| *missed > 0)?;
            (honest || !goes_through_null(built.function)).then(|| (name.to_owned(), missed))
        };
        profile.lines().filter_map(missed).collect()
    }

    /// Writes a line into the recording.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub(crate) fn mark(&self, text: &str) -> Result<(), NativeError> {
        self.set("trace_marker", text)
    }

    /// Opens the raw pages of a CPU.
    pub(crate) fn pages(&self, cpu: u32) -> io::Result<fs::File> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
    }

    /// Events of a CPU that could not be kept.
    pub(crate) fn lost(&self, cpu: u32) -> io::Result<u64> {
        self.counted(cpu, &["overrun:", "commit overrun:", "dropped events:"])
    }

    /// Events of a CPU that are in its buffer and were not read yet.
    pub(super) fn kept(&self, cpu: u32) -> io::Result<u64> {
        self.counted(cpu, &["entries:"])
    }

    /// The sum of these counters of a CPU's buffer.
    fn counted(&self, cpu: u32, names: &[&str]) -> io::Result<u64> {
        let statistics = fs::read_to_string(self.path.join(format!("per_cpu/cpu{cpu}/stats")))?;
        let of = |name: &&str| {
            let line = statistics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            line.unwrap_or(0)
        };
        Ok(names.iter().map(of).sum())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove_instance(&self.path);
        let removals: Vec<String> = self.probes.iter().map(|name| format!("-:{}/{name}", self.group)).collect();
        remove_probes(&self.root, &removals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_tells_the_process_ids_of_the_recorder_and_its_child() {
        let text = "\
# tracer: nop
            bash-77      [000] .....     2.000: sched_process_fork: comm=bash pid=77 child_comm=bash child_pid=811
  schedlab-native-812     [001] .....     3.000: tracing_mark_write: here
            bash-77      [000] .....     3.001: sched_process_fork: comm=bash pid=77 child_comm=bash child_pid=815
  schedlab-native-812     [001] .....     3.002: sched_process_fork: comm=schedlab-native pid=812 child_comm=schedlab-native child_pid=816
";
        assert_eq!(pids_in(text, "here"), Some([812, 816]));
        assert_eq!(pids_in(text, "there"), None);
        assert_eq!(pids_in("", "here"), None);
    }

    #[test]
    fn only_a_dead_recorders_probes_are_removed() {
        // Above the highest id there can be (2^22) nothing runs; our own process does.
        let ours = system::mark().replace('-', "_");
        let namespace = ours.rsplit('_').next().unwrap();
        let dead = format!("p:schedlab_4194305_1_{namespace}/k_enq enqueue_task_fair pid=+1256(%si):s32");
        assert_eq!(removal(&dead), Some(format!("-:schedlab_4194305_1_{namespace}/k_enq")));
        assert_eq!(removal(&dead.replace("p:", "r8:")), Some(format!("-:schedlab_4194305_1_{namespace}/k_enq")));
        assert_eq!(removal(&format!("p:schedlab_{ours}/k_enq enqueue_task_fair")), None);
        assert_eq!(removal("p:schedlab_4194305_1_2/k_enq enqueue_task_fair"), None, "another namespace's");
        assert_eq!(removal("p:kprobes/mine do_exit"), None);
        assert_eq!(removal("p:schedlab_/mine do_exit"), None);
        assert_eq!(removal(""), None);
    }
}
