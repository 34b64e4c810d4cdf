//! Recording what the kernel's scheduler does: its events, what they depend on, and the state before them, in one file.
//!
//! `docs/concepts/recording.md` describes the file and what each probe is for. Everything happens in a separate instance of tracing; the
//! recorder is a real-time task that sleeps while the command runs, so that it is seen at the ends of a recording only.

mod arrivals;
mod averages;
mod build;
pub(crate) mod child;
mod continuity;
mod format;
mod level;
mod output;
mod overhead;
mod probes;
mod render;
mod ring;
mod state;
pub(crate) mod tracefs;
mod types;

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use schedlab_model::Time;
use serde::Serialize;

use crate::NativeError;
use crate::error::during;
use crate::system::{self, SchedAttr};

use arrivals::Arrivals;
use build::{Built, Missing, build};
use child::{Child, Signals};
use output::{Output, Written};
use tracefs::{Instance, refused};

pub use level::Level;
pub use overhead::Overhead;

/// What is traced besides the probes: system and name. Those that a kernel lacks are left out.
const TRACEPOINTS: &[(&str, &str)] = &[
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_wakeup"),
    ("sched", "sched_wakeup_new"),
    ("sched", "sched_migrate_task"),
    ("sched", "sched_stat_runtime"),
    ("sched", "sched_process_fork"),
    ("sched", "sched_process_exit"),
    ("sched", "sched_process_exec"),
    ("sched", "sched_pi_setprio"),
    ("timer", "hrtimer_expire_entry"),
    ("timer", "hrtimer_expire_exit"),
    ("cgroup", "cgroup_mkdir"),
    ("cgroup", "cgroup_rmdir"),
    ("cgroup", "cgroup_attach_task"),
    ("syscalls", "sys_enter_setpriority"),
    ("syscalls", "sys_enter_sched_yield"),
    ("syscalls", "sys_enter_sched_setscheduler"),
    ("syscalls", "sys_enter_sched_setparam"),
    ("syscalls", "sys_enter_sched_setattr"),
    ("syscalls", "sys_enter_sched_setaffinity"),
];

/// Those of them that [`Level::Switches`] has.
const SWITCHES: &[&str] = &["sched_switch", "sched_waking", "sched_process_fork"];

/// Where the kernel describes its types.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// How a recording is made.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// The file that it is written to; gzipped if its name ends in `.gz`. Without one nothing is kept: the command runs as if it were
    /// recorded, however long it takes.
    pub output: Option<PathBuf>,
    /// What is recorded; none: as much as this kernel allows.
    pub level: Option<Level>,
    /// Size of each CPU's buffer in KiB; it must hold the whole recording.
    pub buffer: u64,
    /// How long the command may take before it is killed.
    pub timeout: Time,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// What was recorded.
#[derive(Debug, Clone, Serialize)]
pub struct Recorded {
    /// The file, where there is one.
    pub output: Option<PathBuf>,
    /// The kernel's release.
    pub release: String,
    /// Its level.
    pub level: String,
    /// The highest level that this kernel allows.
    pub allowed: String,
    /// The probes that this kernel cannot have, each with its function and why.
    pub missing: Vec<String>,
    /// The CPUs that were online.
    pub cpus: usize,
    /// The trace's clock.
    pub clock: String,
    /// How many events.
    pub events: u64,
    /// How many switches are missing, all away from tasks of which the kernel traces nothing, to tasks that caused no event either; only a
    /// recording of the lowest level has any.
    pub untold: usize,
    /// What recording costs, where it could be measured.
    pub overhead: Option<Overhead>,
}

/// Records what the scheduler does while a command runs.
///
/// Call it once a process, before any thread was made. Tracing is left as it was found, whatever happens; should the recorder be
/// killed, the next one removes what is left.
///
/// # Errors
/// [`NativeError`]: no permission, no tracing, a level that this kernel does not allow, lost events, a command that cannot begin, fails or
/// takes too long, a signal, a file that cannot be written. Then there is no file.
pub fn record(options: &RecordOptions) -> Result<Recorded, NativeError> {
    let root = tracefs::find()?;
    let signals = Signals::block();
    tracefs::clean(&root);
    let mut output = options.output.as_deref().map(Output::create).transpose()?;
    let cpus = online_cpus()?;
    // One CPU's events are in the order of its own clock; those of several need one that all of them share.
    let clock = if cpus.len() == 1 { "local" } else { "mono" };
    let mut instance = Instance::new(root.clone(), options.buffer, clock)?;
    if output.is_none() {
        instance.set("options/overwrite", "1")?;
    }
    let alone = options.level == Some(Level::Switches);
    let (probes, missing) = if alone { Default::default() } else { define(&mut instance, &root) };
    let allowed = if alone { Level::Switches } else { allowed(&probes, &missing) };
    let level = options.level.unwrap_or(allowed);
    if level > allowed {
        let lacking: Vec<Missing> =
            missing.into_iter().filter(|probe| probe.essential && probe.level <= level).collect();
        let lacking = descriptions(&lacking);
        return Err(refused(format!(
            "this kernel allows level {allowed} at most, not {level}: {}",
            lacking.join("; ")
        )));
    }
    let mut missing = descriptions(&missing);
    let wanted = |probe: &Built| probe.level <= level && (cpus.len() > 1 || !probe.several);
    let probes: Vec<Built> = probes.into_iter().filter(wanted).collect();
    let has_event_pids = system::has_event_pids();
    let begin = || Child::new(&options.command, signals);
    let (mut child, pids) = if has_event_pids {
        let child = begin()?;
        let pids = [system::pid(), child.pid];
        (child, pids)
    } else {
        missing.push("table of tasks, arrivals: a container's process ids are not those of the events".to_owned());
        instance.pids_of_fork(begin)?
    };
    let head = Head { options, level, allowed, clock, cpus: &cpus, probes: &probes, missing: &missing, pids };
    let mut text = head.text();
    let mut groups = None;
    if !alone {
        state::settings(&mut text);
        groups = state::Groups::look(&mut text);
    }
    let layouts = enable(&instance, &root, level, &probes)?;
    let threads = if alone { Vec::new() } else { state::threads() };
    let told: &[state::Thread] = if has_event_pids { &threads } else { &[] };
    state::tasks(&mut text, told);

    // From here to the end no task of a lower class runs while the recorder does not sleep.
    let realtime = become_realtime();
    let _ = writeln!(text, "# snapshot: {}", if realtime { "realtime" } else { "ordinary" });
    if !alone {
        state::debug(&mut text);
    }
    // One CPU's idle task is the first task of all, of which every kernel tells.
    // Perf translates process ids into those of a container.
    let arrivals = (level == Level::Switches && cpus.len() > 1 && has_event_pids)
        .then(|| Arrivals::open(&cpus, options.buffer, output.is_some()).ok())
        .flatten();
    instance.set("tracing_on", "1")?;
    instance.mark("schedlab: snapshot")?;
    // On several CPUs the others go on meanwhile, so that a second look is needed at what they do with tasks not looked at yet.
    for _ in 0..cpus.len().min(2) {
        threads.iter().for_each(|thread| show_state(thread.pid));
    }
    // A full buffer takes no mark either; what was lost is the better reason.
    let marked = instance.mark("schedlab: begin");
    // A replay of several CPUs needs all probes; other recordings need no look that costs events.
    let averages = cpus.len() > 1 && level == Level::L1;
    let mut looked = Ok(());
    let begun = system::monotonic();
    let ended = child.begin().and_then(|()| {
        if averages && !child.ends_within(MIDWAY.min(options.timeout))? {
            looked = show_averages(&instance, &mut text, "midway");
        }
        watch(&mut child, options.timeout, groups.as_mut())
    });
    groups.iter().for_each(|groups| groups.tell_later(&mut text));
    if averages && ended.is_ok() {
        looked = looked.and_then(|()| show_averages(&instance, &mut text, "last"));
    }
    let marked = marked.and(looked).and_then(|()| instance.mark("schedlab: end"));
    instance.set("tracing_on", "0")?;
    let elapsed = system::monotonic() - begun;
    become_ordinary();
    ended?;
    drop(child);
    let mut measured = None;
    let written = match &mut output {
        None => Written::default(),
        Some(output) => {
            check_losses(&instance, &cpus, &probes, options.buffer)?;
            marked?;
            let arrived = arrivals.map(|arrivals| arrivals.all());
            let arrived = arrived.unwrap_or_else(|| cpus.iter().map(|&cpu| (cpu, Vec::new())).collect());
            let _ = writeln!(text, "# events");
            let _ = writeln!(text, "cpus={}", cpus.len());
            output.write(&text)?;
            let mut renderer = renderer(layouts, told, alone)?;
            // Switches and wakeups can be read with some missing; a replay needs all of them.
            let partly = level == Level::Switches;
            let written = output::events(output, &instance, &root, arrived, &mut renderer, signals, partly)?;
            let Written { events, untold, lag } = written;
            measured = overhead::measure(&instance, events, elapsed, cpus.len());
            let cost = measured.map_or_else(String::new, |one| {
                format!("# overhead: {:.0} ns an event, {:.4} of the CPUs' time\n", one.event_ns, one.share)
            });
            output.write(&format!(
                "# begun: {begun}\n# untold: {untold}\n# arrival_lag: {lag}\n{cost}# end: events={events}\n"
            ))?;
            written
        }
    };
    output.map_or(Ok(()), Output::finish)?;
    Ok(Recorded {
        output: options.output.clone(),
        release: system::kernel().0,
        level: level.to_string(),
        allowed: allowed.to_string(),
        missing,
        cpus: cpus.len(),
        clock: clock.to_owned(),
        events: written.events,
        untold: written.untold,
        overhead: measured,
    })
}

/// What writes the events that have these layouts.
fn renderer(
    layouts: Vec<(Known, format::Layout)>,
    threads: &[state::Thread],
    alone: bool,
) -> Result<render::Renderer, NativeError> {
    let symbols = if alone { String::new() } else { fs::read_to_string("/proc/kallsyms").unwrap_or_default() };
    let symbols = render::Symbols::parse(&symbols);
    let mut renderer = render::Renderer::new(state::names(threads), symbols);
    for (known, layout) in layouts {
        let (name, added) = match &known {
            Known::Tracepoint(name) => (*name, renderer.add(name, layout)),
            Known::Probe(built) => (built.name, renderer.add_probe(built, layout)),
        };
        if !added {
            return Err(refused(format!("the event {name} does not have the fields that are known")));
        }
    }
    Ok(renderer)
}

/// When all load averages are shown for the first time, after the command began; on several CPUs.
const MIDWAY: Time = Time::from_millis(400);

/// Between two looks at the groups that the command makes.
const LOOKS: Time = Time::from_millis(250);

/// Waits for the command's end, and looks meanwhile at the groups that are made.
fn watch(child: &mut Child, timeout: Time, groups: Option<&mut state::Groups>) -> Result<(), NativeError> {
    let Some(groups) = groups else { return child.wait(timeout) };
    let end = system::monotonic().saturating_add(timeout.as_nanos());
    loop {
        let left = end.saturating_sub(system::monotonic());
        if child.ends_within(LOOKS.min(Time::from_nanos(left)))? {
            return Ok(());
        }
        if left == 0 {
            return Err(NativeError::Timeout(timeout));
        }
        groups.look_again();
    }
}

/// Every task's and queue's load averages, between two marks.
fn show_averages(instance: &Instance, text: &mut String, when: &str) -> Result<(), NativeError> {
    instance.mark(&format!("schedlab: averages {when}"))?;
    averages::table(text, &format!("averages {when}"));
    instance.mark(&format!("schedlab: averages {when} end"))
}

/// An event that is recorded.
enum Known {
    Tracepoint(&'static str),
    Probe(Built),
}

/// Defines every probe that this kernel can have.
fn define(instance: &mut Instance, root: &Path) -> (Vec<Built>, Vec<Missing>) {
    if !root.join("kprobe_events").exists() {
        return (Vec::new(), build::all_missing("this kernel has no kprobe_events"));
    }
    let (candidates, mut missing) = match types::Types::read(Path::new(BTF)) {
        Ok(types) => build(&types),
        Err(why) => return (Vec::new(), build::all_missing(&why)),
    };
    let mut probes = Vec::new();
    for candidates in candidates {
        match instance.define(candidates) {
            Ok(built) => probes.push(built),
            Err(absent) => missing.push(absent),
        }
    }
    (probes, missing)
}

/// The highest level all of whose essential probes are there.
fn allowed(probes: &[Built], missing: &[Missing]) -> Level {
    let whole = |level: Level| {
        let lacks = missing.iter().any(|probe| probe.essential && probe.level <= level);
        !lacks && probes.iter().any(|probe| probe.level == level)
    };
    [Level::L1, Level::L0k].into_iter().find(|level| whole(*level)).unwrap_or(Level::L0)
}

/// A line for each probe, or for all that are missing for the same reason.
fn descriptions(missing: &[Missing]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&Missing>)> = Vec::new();
    for probe in missing {
        match reasons.iter_mut().find(|(why, _)| *why == probe.why) {
            Some((_, probes)) => probes.push(probe),
            None => reasons.push((&probe.why, vec![probe])),
        }
    }
    let describe = |(why, probes): (&str, Vec<&Missing>)| {
        let mut names: Vec<&str> = probes.iter().map(|probe| probe.name).collect();
        names.dedup();
        format!("{}: {why}", names.join(" "))
    };
    reasons.into_iter().map(describe).collect()
}

/// Switches on the recorded events; returns their layouts.
fn enable(
    instance: &Instance,
    root: &Path,
    level: Level,
    probes: &[Built],
) -> Result<Vec<(Known, format::Layout)>, NativeError> {
    let layout = |path: &Path| {
        let text = fs::read_to_string(path).ok()?;
        format::Layout::parse(&text)
    };
    let unreadable = |path: &Path| refused(format!("{} does not have the form of an event's format", path.display()));
    let mut layouts = Vec::new();
    let mut add = |known: Known, path: &Path| {
        let file = path.join("format");
        layouts.push((known, layout(&file).ok_or_else(|| unreadable(&file))?));
        tracefs::put(&path.join("enable"), "1")
            .map_err(|error| refused(format!("{} cannot be switched on: {error}", path.display())))
    };
    let wanted = |name: &str| level > Level::Switches || SWITCHES.contains(&name);
    for (system, name) in TRACEPOINTS.iter().filter(|(_, name)| wanted(name)) {
        match instance.event(system, name) {
            Some(path) => add(Known::Tracepoint(name), &path)?,
            None if *name == "sched_switch" => return Err(refused("this kernel has no scheduler tracepoints")),
            None => {}
        }
    }
    for built in probes {
        if let Some(path) = instance.event(&instance.group, built.name) {
            add(Known::Probe(built.clone()), &path)?;
        }
    }
    let marker = root.join("events/ftrace/print/format");
    layouts.push((Known::Tracepoint("print"), layout(&marker).ok_or_else(|| unreadable(&marker))?));
    Ok(layouts)
}

fn check_losses(instance: &Instance, cpus: &[u32], probes: &[Built], buffer: u64) -> Result<(), NativeError> {
    for &cpu in cpus {
        let lost = instance.lost(cpu).map_err(during("reading the trace's statistics"))?;
        if lost > 0 {
            return Err(refused(format!(
                "CPU {cpu} lost {lost} events, so the recording was not kept: a buffer of {buffer} KiB is too small (--buffer)"
            )));
        }
    }
    let missed: Vec<String> =
        instance.misses(probes).iter().map(|(name, missed)| format!("{name} {missed} times")).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(refused(format!("probes were hit and could not record, so the recording was not kept: {}", missed.join(", "))))
}

/// The online CPUs.
fn online_cpus() -> Result<Vec<u32>, NativeError> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").map_err(during("reading the online CPUs"))?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    let cpus: Vec<u32> = text.trim().split(',').filter_map(range).flatten().collect();
    if cpus.is_empty() { Err(refused("the kernel does not say which CPUs are online")) } else { Ok(cpus) }
}

/// Asks for a task's time slice, which shows its state in the recording; a task that has ended meanwhile shows nothing.
fn show_state(pid: i32) {
    let mut slice = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `slice` is a timespec to write to.
    unsafe { libc::sched_rr_get_interval(pid, &raw mut slice) };
}

/// Puts the recorder above all but stop and deadline tasks; whether that was permitted.
fn become_realtime() -> bool {
    system::sched_setattr(SchedAttr { policy: libc::SCHED_FIFO as u32, priority: 99, ..SchedAttr::default() }).is_ok()
}

fn become_ordinary() {
    // It may always go down.
    let _ = system::sched_setattr(SchedAttr::default());
}

/// What the head of a recording says before the files.
struct Head<'a> {
    options: &'a RecordOptions,
    level: Level,
    allowed: Level,
    clock: &'a str,
    cpus: &'a [u32],
    probes: &'a [Built],
    missing: &'a [String],
    /// The process ids of the recorder and of the command, as events have them.
    pids: [libc::pid_t; 2],
}

impl Head<'_> {
    fn text(&self) -> String {
        let (release, machine) = system::kernel();
        let version = fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
        let command: Vec<_> = self.options.command.iter().map(|word| word.to_string_lossy()).collect();
        let cpus: Vec<_> = self.cpus.iter().map(u32::to_string).collect();
        let keys = [
            ("release", release.clone()),
            ("version", version.trim().to_owned()),
            ("kernel", state::stable_release(&release, &version)),
            ("machine", machine),
            ("hz", system::hz().to_string()),
            ("level", self.level.to_string()),
            ("allowed", self.allowed.to_string()),
            ("clock", self.clock.to_owned()),
            ("cpus", cpus.join(",")),
            ("buffer", format!("{} KiB for each CPU", self.options.buffer)),
            ("recorder", format!("{} {}", self.pids[0], self.pids[1])),
            ("command", command.join(" ")),
        ];
        let mut text = "# schedlab recording 1\n".to_owned();
        for (key, value) in keys {
            let _ = writeln!(text, "# {key}: {}", format::printable(&value));
        }
        for built in self.probes {
            let fields: Vec<_> = built.fields.iter().map(|field| field.name.as_str()).collect();
            let _ = writeln!(text, "# probe: {} {} {}", built.name, built.function, fields.join(" "));
        }
        for missing in self.missing {
            let _ = writeln!(text, "# missing: {missing}");
        }
        text
    }
}
