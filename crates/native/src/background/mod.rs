//! What else runs on this machine: kernel threads, other people's work, interrupts.
//!
//! Two phases are watched through tracepoints, in an instance of tracing that is gone afterwards: the machine as it is, and with one task that
//! computes on each CPU. Of each thread only the times count of which both switches were seen, to it and away from it: kernels of
//! virtual machines may leave switches from and to idle untraced, and count none of them as lost.

mod observe;

use std::collections::BTreeMap;
use std::fs;

use schedlab_model::{Policy, Time};
use serde::Serialize;

use crate::NativeError;
use crate::error::during;
use crate::record::child::Signals;
use crate::record::tracefs::{self, Instance};
use crate::system::{self, die_with, exit_now, set_affinity};

pub use observe::Interrupts;
use observe::{Observed, Thread, observe};

/// KiB of each CPU's buffer: some 100,000 events.
const BUFFER: u64 = 16_384;
/// What the tasks that compute are called.
const LOAD: &std::ffi::CStr = c"schedlab-load";
/// This program's own tasks.
const OWN: &[&str] = &["schedlab-load", "schedlab-native"];
/// A thread of the kernel, among the flags of `/proc/PID/stat` (`PF_KTHREAD`).
const PF_KTHREAD: u64 = 0x0020_0000;
/// What is traced; what a kernel lacks is left out.
const EVENTS: &[(&str, &str)] = &[
    ("sched", "sched_switch"),
    ("irq", "irq_handler_entry"),
    ("irq", "irq_handler_exit"),
    ("irq", "softirq_entry"),
    ("irq", "softirq_exit"),
    ("irq_vectors", "local_timer_entry"),
    ("irq_vectors", "local_timer_exit"),
];

/// What else runs on a machine.
#[derive(Debug, Clone, Serialize)]
pub struct Background {
    /// The kernel's release.
    pub release: String,
    /// CPUs that were watched.
    pub cpus: u32,
    /// While nothing else was asked for.
    pub idle: Watched,
    /// While a task computed on each CPU.
    pub load: Watched,
}

/// One phase.
#[derive(Debug, Clone, Serialize)]
pub struct Watched {
    /// How long it was watched, in nanoseconds.
    pub elapsed_ns: u64,
    /// Switches of which the one before them on their CPU was seen, too.
    pub paired: u64,
    /// Switches away from a task of which it was not seen that it came: its time is in none of the figures.
    pub unpaired: u64,
    /// Events that did not fit into the buffers.
    pub lost: u64,
    /// Threads of one class, policy, nice level and choice of CPUs together, the most frequent first.
    pub tasks: Vec<Group>,
    /// Interrupts, software interrupts and timers, by name.
    pub interrupts: BTreeMap<String, Interrupts>,
}

/// Threads of one class, policy, nice level and choice of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// `kworker/0`, `rcu_preempt`; of programs the name of the task.
    pub name: String,
    /// What they are: the name of a kernel's thread without its CPU, `other` for programs.
    pub class: String,
    /// How the scheduler treats them.
    pub policy: Policy,
    /// Their nice level.
    pub nice: i8,
    /// The CPUs they may run on; any where there are none.
    pub affinity: Vec<u32>,
    /// How many threads.
    pub threads: u32,
    /// CPU time from each wake-up to the sleep after it, in nanoseconds, shortest first.
    pub runs_ns: Vec<u64>,
    /// From the beginning of each of these to the next one's, in nanoseconds, shortest first.
    pub intervals_ns: Vec<u64>,
}

/// Watches what else runs, for `time` as the machine is, and as long under load.
///
/// Call it once a process, before any thread was made. Tracing is left as it was found; should this be killed, the next recording
/// removes what is left.
///
/// # Errors
/// [`NativeError`]: no permission, no tracing, a signal.
pub fn background(time: Time) -> Result<Background, NativeError> {
    let root = tracefs::find()?;
    let signals = Signals::block();
    tracefs::clean(&root);
    let cpus = system::allowed_cpus();
    let idle = watch(&root, &cpus, time, signals)?;
    let load = Load::new(&cpus)?;
    // The tasks come to their CPUs first.
    signals.sleep(Time::from_millis(100))?;
    let loaded = watch(&root, &cpus, time, signals)?;
    drop(load);
    let cpus = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
    Ok(Background { release: system::kernel().0, cpus, idle, load: loaded })
}

fn watch(root: &std::path::Path, cpus: &[u32], time: Time, signals: Signals) -> Result<Watched, NativeError> {
    let clock = if cpus.len() == 1 { "local" } else { "mono" };
    let instance = Instance::new(root.to_owned(), BUFFER, clock)?;
    for (system, name) in EVENTS {
        if let Some(event) = instance.event(system, name) {
            tracefs::put(&event.join("enable"), "1")
                .map_err(|error| tracefs::refused(format!("the event {name} cannot be switched on: {error}")))?;
        }
    }
    instance.set("tracing_on", "1")?;
    let began = system::monotonic();
    signals.sleep(time)?;
    instance.set("tracing_on", "0")?;
    let elapsed_ns = system::monotonic() - began;
    let text = fs::read(instance.path.join("trace")).map_err(during("reading the trace"))?;
    let lost = cpus.iter().filter_map(|cpu| instance.lost(*cpu).ok()).sum();
    drop(instance);
    let Observed { threads, interrupts, paired, unpaired } = observe(&String::from_utf8_lossy(&text), OWN);
    let tasks = group(threads, cpus);
    Ok(Watched { elapsed_ns, paired, unpaired, lost, tasks, interrupts })
}

/// Name, class, policy, nice level and CPUs of threads that are alike.
type Key = (String, String, String, i8, Vec<u32>);

/// Puts threads together that are alike.
fn group(threads: BTreeMap<u32, Thread>, cpus: &[u32]) -> Vec<Group> {
    let mut groups: BTreeMap<Key, (Group, Vec<u64>)> = BTreeMap::new();
    for (pid, thread) in threads {
        if thread.runs.is_empty() {
            continue;
        }
        let Identity { name, class, policy, nice, affinity } = identity(pid, &thread, cpus);
        let key = (name.clone(), class.clone(), policy.to_string(), nice, affinity.clone());
        let fresh =
            Group { name, class, policy, nice, affinity, threads: 0, runs_ns: Vec::new(), intervals_ns: vec![] };
        let (group, began) = groups.entry(key).or_insert_with(|| (fresh, Vec::new()));
        group.threads += 1;
        group.runs_ns.extend(&thread.runs);
        began.extend(&thread.began);
    }
    let mut found: Vec<Group> = groups
        .into_values()
        .map(|(mut group, mut began)| {
            began.sort_unstable();
            group.intervals_ns = began.windows(2).map(|pair| pair[1] - pair[0]).collect();
            group.intervals_ns.sort_unstable();
            group.runs_ns.sort_unstable();
            group
        })
        .collect();
    found.sort_by(|one, other| other.runs_ns.len().cmp(&one.runs_ns.len()).then_with(|| one.name.cmp(&other.name)));
    found
}

/// Who a thread is.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    name: String,
    class: String,
    policy: Policy,
    nice: i8,
    affinity: Vec<u32>,
}

fn identity(pid: u32, thread: &Thread, cpus: &[u32]) -> Identity {
    let (mut policy, nice) = policy_of(thread.prio);
    // A thread that has ended, or whose number is another one in this PID namespace, is known by its name alone.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok().filter(|stat| stat.contains(&thread.comm));
    let of_kernel = match stat.as_deref().and_then(flags) {
        Some((flags, number)) => {
            if policy == Policy::Other && number == libc::SCHED_IDLE as u64 {
                policy = Policy::Idle;
            } else if policy == Policy::Other && number == libc::SCHED_BATCH as u64 {
                policy = Policy::Batch;
            }
            flags & PF_KTHREAD != 0
        }
        None => {
            cpu_of(&thread.comm).is_some() || thread.comm.starts_with("kworker/") || thread.comm.starts_with("rcu_")
        }
    };
    if !of_kernel {
        return Identity { name: thread.comm.clone(), class: "other".to_owned(), policy, nice, affinity: Vec::new() };
    }
    let name = thread.comm.split([':', '-']).next().unwrap_or_default().to_owned();
    let class = name.split('/').next().unwrap_or_default().to_owned();
    let affinity = cpu_of(&name).filter(|cpu| cpus.contains(cpu)).map_or_else(Vec::new, |cpu| vec![cpu]);
    Identity { name, class, policy, nice, affinity }
}

/// The CPU that the name of a kernel's thread says: `ksoftirqd/0`, `kworker/1:2H`.
fn cpu_of(name: &str) -> Option<u32> {
    name.split_once('/')?.1.split(':').next()?.parse().ok()
}

/// The flags and the policy's number in `/proc/PID/stat` (proc_pid_stat(5)).
fn flags(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(6)?.parse().ok()?, fields.get(38)?.parse().ok()?))
}

/// The policy and nice level of a priority as tracepoints have it.
fn policy_of(prio: i32) -> (Policy, i8) {
    match prio {
        // `MAX_RT_PRIO - 1 - prio`; stop-class threads have 0, which no user can set.
        ..100 => (Policy::Fifo(u8::try_from((99 - prio).clamp(1, 99)).unwrap_or(99)), 0),
        _ => (Policy::Other, i8::try_from((prio - 120).clamp(-20, 19)).unwrap_or_default()),
    }
}

/// A task that computes on each CPU; all end when this is dropped.
struct Load(Vec<libc::pid_t>);

impl Load {
    fn new(cpus: &[u32]) -> Result<Self, NativeError> {
        let parent = system::pid();
        let mut load = Self(Vec::new());
        for cpu in cpus {
            // SAFETY: this process has one thread.
            match unsafe { system::fork() }.map_err(during("making a task that computes"))? {
                0 => {
                    system::set_name(LOAD);
                    if die_with(parent) && set_affinity(0, &[*cpu]).is_ok() {
                        // No `spin_loop`: in a guest whose instructions are translated each ends a turn of its CPU.
                        let mut turns = 0_u64;
                        loop {
                            turns = std::hint::black_box(turns.wrapping_add(1));
                        }
                    }
                    exit_now(0)
                }
                pid => load.0.push(pid),
            }
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for pid in &self.0 {
            // SAFETY: children made here, not collected yet.
            unsafe {
                libc::kill(*pid, libc::SIGKILL);
                libc::waitpid(*pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_policies_and_nice_levels() {
        // include/linux/sched/prio.h: MAX_RT_PRIO 100, DEFAULT_PRIO 120.
        assert_eq!(policy_of(120), (Policy::Other, 0));
        assert_eq!(policy_of(100), (Policy::Other, -20));
        assert_eq!(policy_of(139), (Policy::Other, 19));
        assert_eq!(policy_of(49), (Policy::Fifo(50), 0));
        assert_eq!(policy_of(0), (Policy::Fifo(99), 0));
    }

    #[test]
    fn the_names_of_kernel_threads_say_their_cpus() {
        assert_eq!(cpu_of("ksoftirqd/0"), Some(0));
        assert_eq!(cpu_of("kworker/11:2H"), Some(11));
        assert_eq!(cpu_of("kworker/u8:1"), None);
        assert_eq!(cpu_of("rcu_preempt"), None);
    }

    #[test]
    fn threads_of_one_class_and_cpu_are_one_task() {
        let thread = |comm: &str, began: &[u64]| Thread {
            comm: comm.to_owned(),
            prio: 120,
            runs: began.iter().map(|time| time / 10).collect(),
            began: began.to_vec(),
            cpus: vec![0],
        };
        // Above the highest process id there can be (2^22), so that nothing is read of them.
        let threads = BTreeMap::from([
            (5_000_000, thread("kworker/0:1", &[100, 400])),
            (5_000_001, thread("kworker/0:2-eve", &[200])),
            (5_000_002, thread("make", &[300])),
        ]);
        let found = group(threads, &[0, 1]);
        assert_eq!(found.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["kworker/0", "make"]);
        assert_eq!((&found[0].class[..], &found[0].affinity[..], found[0].threads), ("kworker", &[0][..], 2));
        assert_eq!((&found[0].runs_ns[..], &found[0].intervals_ns[..]), (&[10, 20, 40][..], &[100, 200][..]));
        assert_eq!((&found[1].class[..], &found[1].affinity[..]), ("other", &[][..]));
    }

    #[test]
    fn flags_and_policy_stand_behind_the_name() {
        let fields: Vec<String> = (3..=52).map(|number: u32| number.to_string()).collect();
        // Fields are numbered from 1; 9 are the flags, 41 the policy.
        assert_eq!(flags(&format!("7 (a b) c) {}", fields.join(" "))), Some((9, 41)));
        assert_eq!(flags("7 (a"), None);
    }
}
