//! The scheduler in the kernel: loaded, attached, kept right, and read.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel, RingBufferBuilder, set_print};
use schedlab_model::{ThreadWeights, Time};
use schedlab_sched::thread_fairness::FACTOR_SHIFT;

use crate::error::{asking, during};
use crate::shared::{self, Parameters, Process, Report, Settings};
use crate::topology::{Queues, domains};
use crate::{ExtError, kernel, weights};

/// The compiled scheduler. `make ext-object` builds it from bpf/.
pub const OBJECT: &[u8] = include_bytes!("../bpf/thread_fair.bpf.o");

/// What can be chosen.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the number of a process's threads does to their weight.
    pub weights: ThreadWeights,
    /// How long a thread runs before others are looked at.
    pub slice: Time,
    /// How much virtual time a thread may be put back by: what passes in this time.
    pub lag_cap: Time,
    /// After how long the kernel takes scheduling back from a scheduler that lets a thread wait.
    pub watchdog: Time,
    /// How CPUs share queues.
    pub queues: Queues,
    /// Another object in place of the embedded one.
    pub object: Option<PathBuf>,
}

impl Options {
    /// How long a thread waits before it is taken out of turn: the lag cap's time, and early enough for the watchdog.
    fn patience(&self) -> Time {
        self.lag_cap.min(Time::from_nanos(self.watchdog.as_nanos() / 3))
    }
}

/// A process as the scheduler counted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Its id.
    pub pid: u32,
    /// The name of its first thread.
    pub name: String,
    /// CPU time in nanoseconds.
    pub runtime: u64,
    /// How often one of its threads was put on a CPU.
    pub switches: u64,
    /// Its threads when it last ran.
    pub threads: u32,
}

/// The scheduler, attached; scheduling goes back to the kernel's own class when this is dropped, or when the process ends.
pub struct Scheduler {
    // The link goes first: nothing that it uses may be gone before it.
    link: Link,
    object: Object,
    /// Shared queues.
    pub queues: u32,
}

/// What libbpf had to say while it loaded the object.
static WORDS: Mutex<String> = Mutex::new(String::new());

fn listen(_: PrintLevel, text: String) {
    if let Ok(mut words) = WORDS.lock() {
        words.push_str(&text);
    }
}

/// Everything that libbpf and the verifier said.
pub fn words() -> String {
    WORDS.lock().map(|words| words.clone()).unwrap_or_default()
}

impl Scheduler {
    /// Load and attach the scheduler; from here on it schedules.
    ///
    /// # Errors
    ///
    /// What [`kernel::missing`] and [`kernel::free`] say, and [`ExtError::Rejected`] if the kernel does not take it. Nothing is
    /// changed then.
    pub fn attach(options: &Options) -> Result<Self, ExtError> {
        kernel::missing()?;
        kernel::free()?;
        let domains = domains(options.queues)?;
        let queues = domains.iter().max().map_or(1, |last| last + 1);
        set_print(Some((PrintLevel::Warn, listen)));
        let mut builder = ObjectBuilder::default();
        let opened = match &options.object {
            None => builder.open_memory(OBJECT),
            Some(path) => builder.open_memory(&fs::read(path).map_err(during("reading the object"))?),
        };
        let mut opened = opened.map_err(|error| rejected(&error))?;
        let parameters = Parameters {
            slice: options.slice.as_nanos(),
            lag_cap: options.lag_cap.as_nanos(),
            patience: options.patience().as_nanos(),
            base_weights: weights::base_weights(),
            least_weight: weights::LEAST_WEIGHT,
            factor_shift: FACTOR_SHIFT,
            shared_queues: queues,
            cpus: u32::try_from(domains.len()).unwrap_or(0),
            unused: 0,
        };
        let factors = weights::factors(options.weights, parameters.cpus);
        for mut map in opened.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == "factors" {
                map.set_max_entries(u32::try_from(factors.len()).unwrap_or(0)).map_err(|error| rejected(&error))?;
            }
            let Some(bytes) = map.initial_value_mut() else { continue };
            let fits = if name.ends_with(".rodata") {
                shared::write(bytes, parameters)
            } else if name == "thread_fair" {
                let settings = shared::read::<Settings>(bytes);
                let timeout_ms = u32::try_from(options.watchdog.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
                settings.is_some_and(|settings| shared::write(bytes, Settings { timeout_ms, ..settings }))
            } else {
                true
            };
            if !fits {
                return Err(unlike(&name));
            }
        }
        let mut object = opened.load().map_err(|error| rejected(&error))?;
        fill_domains(&object, &domains)?;
        fill(&object, &factors)?;
        let mut operations =
            object.maps_mut().find(|map| map.name() == "thread_fair").ok_or_else(|| unlike("thread_fair"))?;
        let link = operations.attach_struct_ops().map_err(|error| refused(&error))?;
        Ok(Self { link, object, queues })
    }

    /// What the scheduler reports.
    ///
    /// # Errors
    ///
    /// [`ExtError::System`].
    pub fn report(&self) -> Result<Report, ExtError> {
        let bytes = map(&self.object, ".bss")?
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(asking("reading the scheduler's report"))?;
        bytes.as_deref().and_then(shared::read).ok_or_else(|| unlike(".bss"))
    }

    /// Why the kernel took scheduling back, if it did.
    ///
    /// # Errors
    ///
    /// [`ExtError::System`].
    pub fn ejected(&self) -> Result<Option<ExtError>, ExtError> {
        let report = self.report()?;
        if report.exit_kind == 0 {
            return Ok(None);
        }
        let (reason, message) = (shared::text(&report.exit_reason), shared::text(&report.exit_message));
        let why = if message.is_empty() { reason } else { format!("{reason} ({message})") };
        Ok(Some(ExtError::Ejected(why)))
    }

    /// Every process that ran.
    ///
    /// # Errors
    ///
    /// [`ExtError::System`].
    pub fn processes(&self) -> Result<Vec<Counted>, ExtError> {
        let processes = map(&self.object, "processes")?;
        let mut found = Vec::new();
        for key in processes.keys() {
            let Ok(Some(value)) = processes.lookup(&key, MapFlags::ANY) else { continue };
            let (Some(process), Ok(pid)) = (shared::read::<Process>(&value), <[u8; 4]>::try_from(key.as_slice()))
            else {
                continue;
            };
            found.push(Counted {
                pid: u32::from_ne_bytes(pid),
                name: shared::text(&process.name),
                runtime: process.runtime,
                switches: process.switches,
                threads: process.threads,
            });
        }
        Ok(found)
    }

    /// Wait until the scheduler has something to tell, a signal comes or the time is over.
    ///
    /// # Errors
    ///
    /// [`ExtError::System`].
    pub fn wait(&self, time: Duration) -> Result<(), ExtError> {
        let events = map(&self.object, "events")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&events, |_| 0).map_err(asking("waiting for the scheduler"))?;
        let ring = builder.build().map_err(asking("waiting for the scheduler"))?;
        // An interrupted wait is for the caller to look at its flags.
        ring.poll_raw(time);
        Ok(())
    }

    /// Give scheduling back to the kernel's own class, and wait until that has happened.
    ///
    /// # Errors
    ///
    /// [`ExtError::System`] if it takes longer than ten seconds.
    pub fn detach(self) -> Result<(), ExtError> {
        let Self { link, object, .. } = self;
        drop(link);
        drop(object);
        for _ in 0..1000 {
            if kernel::free().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(ExtError::System { what: "handing scheduling back", source: io::ErrorKind::TimedOut.into() })
    }
}

/// A map whose name ends so; libbpf puts the object's name before those of sections.
fn map(object: &Object, name: &'static str) -> Result<MapHandle, ExtError> {
    let found = object.maps().find(|map| map.name().to_string_lossy().ends_with(name)).ok_or_else(|| unlike(name))?;
    MapHandle::try_from(&found).map_err(asking("taking hold of a map"))
}

fn fill(object: &Object, factors: &[u32]) -> Result<(), ExtError> {
    let count = u32::try_from(factors.len()).unwrap_or(0);
    let keys: Vec<u8> = (0..count).flat_map(u32::to_ne_bytes).collect();
    let values: Vec<u8> = factors.iter().copied().flat_map(u32::to_ne_bytes).collect();
    map(object, "factors")?
        .update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)
        .map_err(asking("filling the table of factors"))
}

fn fill_domains(object: &Object, domains: &[u32]) -> Result<(), ExtError> {
    let map = map(object, "domains")?;
    for (cpu, domain) in (0u32..).zip(domains) {
        map.update(&cpu.to_ne_bytes(), &domain.to_ne_bytes(), MapFlags::ANY)
            .map_err(asking("telling which CPUs share"))?;
    }
    Ok(())
}

fn unlike(part: &str) -> ExtError {
    ExtError::Rejected { release: kernel::release(), why: format!("the object is another loader's ('{part}')") }
}

/// The kernel, or libbpf before it, does not take the object.
fn rejected(error: &libbpf_rs::Error) -> ExtError {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && verdict(&words()).is_none() {
        return ExtError::Permission(format!(
            "the kernel does not let this user load a scheduler ({error}): run it as root"
        ));
    }
    let why = verdict(&words()).unwrap_or_else(|| error.to_string());
    ExtError::Rejected { release: kernel::release(), why }
}

/// The kernel does not enable the scheduler it has verified.
fn refused(error: &libbpf_rs::Error) -> ExtError {
    match kernel::free() {
        Err(busy) => busy,
        Ok(()) => ExtError::Rejected { release: kernel::release(), why: error.to_string() },
    }
}

/// The line that says why, of all that libbpf said: the verifier's last before its statistics, else libbpf's first.
fn verdict(words: &str) -> Option<String> {
    let lines: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let program = lines.iter().find_map(|line| line.split("prog '").nth(1)?.split('\'').next());
    if let Some(end) = lines.iter().position(|line| line.starts_with("processed ")) {
        let said = lines[..end].last()?;
        return Some(format!("its verifier says of '{}': {said}", program.unwrap_or("a program")));
    }
    Some(lines.first()?.trim_start_matches("libbpf: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_is_quoted_in_one_line() {
        let words = "libbpf: prog 'dispatch': BPF program load failed: -EACCES\n\
                     libbpf: prog 'dispatch': -- BEGIN PROG LOAD LOG --\n\
                     0: R1=ctx() R10=fp0\n0: (79) r0 = *(u64 *)(r9 +0)\nR9 !read_ok\n\
                     processed 1 insns (limit 1000000) max_states_per_insn 0\n-- END PROG LOAD LOG --\n";
        assert_eq!(verdict(words).unwrap(), "its verifier says of 'dispatch': R9 !read_ok");
        let words =
            "libbpf: extern (func ksym) 'scx_bpf_kick_cpu': not found in kernel or module BTFs\nlibbpf: failed\n";
        assert_eq!(
            verdict(words).unwrap(),
            "extern (func ksym) 'scx_bpf_kick_cpu': not found in kernel or module BTFs"
        );
        assert_eq!(verdict(""), None);
    }
}
