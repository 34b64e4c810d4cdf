//! The recorded kernel's release and tunables.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_model::{Features, MAX_CPUS, Release, RuleSet, Scheduler, Time, Topology, Tunables};
use schedlab_sched::Rules;
use schedlab_trace::{Head, Pid, Snapshot};

use crate::ReplayError;
use crate::level::Level;
use crate::read::flags::FlagBits;

/// What the recorded kernel was set to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its release.
    pub release: Release,
    /// Its values.
    pub tunables: Tunables,
    /// `sched/debug` as it was when, or shortly after, the recording began.
    pub snapshot: Option<Snapshot>,
    /// Up to which level to read the recording, as if what is beyond had not been recorded; all of it if none.
    pub level: Option<Level>,
    /// Ticks a second.
    pub hz: u32,
    /// What a CPU takes of a group's quota at once.
    pub cfs_bandwidth_slice: Time,
    /// Whether the snapshot is older than all that is recorded.
    pub snapshot_is_older: bool,
    /// Whether the fair class asks for rescheduling lazily (`sched/preempt`), where the recording tells it; else as of the release.
    pub lazy: Option<bool>,
    /// CPUs on line.
    pub cpus: u32,
    /// How they share cores, caches and memory.
    pub topology: Topology,
    /// Load averages of tasks and CPUs' queues at some moments of the recording, by the names of these.
    pub averages: Vec<(&'static str, Vec<Averages>)>,
    /// Where tasks may run that may not run everywhere.
    pub affinities: BTreeMap<Pid, Vec<u32>>,
    /// Whether the report is to have each decision of ours with its reason.
    pub reasons: bool,
}

/// Load averages as `/proc/PID/sched` or `sched/debug` shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Averages {
    /// Whose.
    pub of: Tracked,
    /// Load, runnable time and utilisation.
    pub values: [u64; 3],
}

/// What load averages are kept of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracked {
    /// A task.
    Task(u32),
    /// A CPU's queue.
    Cpu(u32),
}

/// The moments, as the recorder calls them.
const MOMENTS: [&str; 2] = ["midway", "last"];

/// The first flags of `kernel/sched/features.h` of 5.10 and 6.1, from bit 0 on; later ones do not bear on one CPU.
const CFS_FEATURES: &[&str] =
    &["GENTLE_FAIR_SLEEPERS", "START_DEBIT", "NEXT_BUDDY", "LAST_BUDDY", CACHE_HOT_BUDDY, "WAKEUP_PREEMPTION"];

/// Those of 6.12.
const EEVDF_FEATURES: &[&str] = &[
    "PLACE_LAG",
    "PLACE_DEADLINE_INITIAL",
    "PLACE_REL_DEADLINE",
    "RUN_TO_PARITY",
    "PREEMPT_SHORT",
    "NEXT_BUDDY",
    PICK_BUDDY,
    CACHE_HOT_BUDDY,
    "DELAY_DEQUEUE",
    "DELAY_ZERO",
    "WAKEUP_PREEMPTION",
];

/// Bears on load balancing alone.
const CACHE_HOT_BUDDY: &str = "CACHE_HOT_BUDDY";
/// Bears on groups alone as long as NEXT_BUDDY is off.
const PICK_BUDDY: &str = "PICK_BUDDY";

impl Settings {
    /// A kernel of one CPU with the defaults of its release.
    ///
    /// # Errors
    /// [`ReplayError::Unsupported`] if releases of this series cannot be replayed.
    ///
    /// ```
    /// use schedlab_model::Time;
    /// use schedlab_replay::Settings;
    /// let settings = Settings::defaults("6.1".parse()?)?;
    /// assert_eq!(settings.tunables.latency, Time::from_millis(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn defaults(release: Release) -> Result<Self, ReplayError> {
        supported(release)?;
        let tunables = Scheduler::new(release).tunables(1).map_err(|error| ReplayError::Settings(error.to_string()))?;
        let cfs_bandwidth_slice = Time::from_millis(5);
        let snapshot_is_older = false;
        Ok(Self {
            release,
            tunables,
            snapshot: None,
            level: None,
            hz: HZ,
            cfs_bandwidth_slice,
            snapshot_is_older,
            lazy: None,
            cpus: 1,
            topology: Topology::default(),
            averages: Vec::new(),
            affinities: BTreeMap::new(),
            reasons: false,
        })
    }

    /// What a snapshot of `sched/debug` says.
    ///
    /// # Errors
    /// [`ReplayError::Settings`] if its release is unknown or a tunable is missing, [`ReplayError::Unsupported`] as for
    /// [`Settings::defaults`].
    pub fn from_snapshot(snapshot: Snapshot) -> Result<Self, ReplayError> {
        let settings = |error: String| ReplayError::Settings(error);
        let release = Release::or_nearest(&snapshot.release).map_err(|error| settings(format!("{error}")))?;
        let mut result = Self::defaults(release)?;
        let time = |name: &str| {
            snapshot.time(name).ok_or_else(|| settings(format!("the snapshot has no time called sysctl_sched_{name}")))
        };
        let number = |name: &str| {
            snapshot
                .number(name)
                .ok_or_else(|| settings(format!("the snapshot has no number called sysctl_sched_{name}")))
        };
        let tunables = &mut result.tunables;
        if RuleSet::of(release).eevdf {
            tunables.base_slice = time("base_slice")?;
            set_features(&mut tunables.features, EEVDF_FEATURES, number("features")?);
        } else {
            tunables.latency = time("latency")?;
            tunables.min_granularity = time("min_granularity")?;
            tunables.wakeup_granularity = time("wakeup_granularity")?;
            tunables.child_runs_first = number("child_runs_first")? != 0;
            if let Some(granularity) = snapshot.time("idle_min_granularity") {
                tunables.idle_min_granularity = granularity;
            }
            set_features(&mut tunables.features, CFS_FEATURES, number("features")?);
        }
        result.snapshot = Some(snapshot);
        Ok(result)
    }

    /// What the head of an own recording says: the release, and `sched/debug` as it was before the recording began.
    ///
    /// # Errors
    /// As [`Settings::from_snapshot`]; [`ReplayError::Settings`] also if the release or the file is not there, and
    /// [`ReplayError::Trace`] if the file is not what it should be.
    pub fn from_head(head: &Head) -> Result<Self, ReplayError> {
        let missing = |what: &str| ReplayError::Settings(format!("the recording's head has no '# {what}'"));
        let release = head.fact("kernel").ok_or_else(|| missing("kernel: RELEASE"))?;
        let debug = ["/sys/kernel/debug/sched/debug", "/proc/sched_debug"].into_iter().find_map(|path| head.file(path));
        let debug = debug.ok_or_else(|| missing("file: /sys/kernel/debug/sched/debug"))?;
        let mut snapshot: Snapshot = debug.parse()?;
        // Its own name for the release is the distribution's.
        release.clone_into(&mut snapshot.release);
        let mut settings = Self::from_snapshot(snapshot)?;
        // The file's bits have their meaning by release; the names speak for themselves.
        let features = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];
        if let Some(names) = features.into_iter().find_map(|path| head.file(path)) {
            for name in names.split_whitespace() {
                match name.strip_prefix("NO_") {
                    Some(off) => settings.tunables.features.set(off, false),
                    None => settings.tunables.features.set(name, true),
                };
            }
        }
        let chosen =
            |path: &str| head.file(path).and_then(|text| Some(text.split_once('(')?.1.split_once(')')?.0.to_owned()));
        settings.lazy = chosen("/sys/kernel/debug/sched/preempt").map(|model| model == "lazy");
        if let Some(mode) = chosen("/sys/kernel/debug/sched/cgroup_mode").filter(|mode| mode != "concur") {
            let why = "groups' weights are known by the default, concur";
            return Err(ReplayError::Unsupported { what: format!("a recording with cgroup_mode {mode}"), why });
        }
        settings.snapshot_is_older = head.fact("snapshot") == Some("realtime");
        settings.add_classes(head);
        settings.add_topology(head);
        let bound = |(_, allowed): &(Pid, BTreeSet<u32>)| (allowed.len() as u32) < settings.cpus;
        settings.affinities =
            affinities(head).filter(bound).map(|(pid, cpus)| (pid, cpus.into_iter().collect())).collect();
        settings.averages = MOMENTS.into_iter().map(|moment| (moment, averages_of(head, moment))).collect();
        Ok(settings)
    }

    /// The CPUs, and what the first one shares with others: cores, caches and nodes are taken to be of one size.
    fn add_topology(&mut self, head: &Head) {
        let count = |path: &str| head.file(path).map(|list| cpus_in(list.trim()));
        let cpu = "/sys/devices/system/cpu";
        self.cpus = count(&format!("{cpu}/online")).unwrap_or(1).max(1);
        let smt = count(&format!("{cpu}/cpu0/topology/core_cpus_list")).unwrap_or(1);
        // The highest level is the last.
        let cache = (0..8).rev().find_map(|index| count(&format!("{cpu}/cpu0/cache/index{index}/shared_cpu_list")));
        let package = count(&format!("{cpu}/cpu0/topology/package_cpus_list"));
        let node = count("/sys/devices/system/node/node0/cpulist");
        let topology = Topology {
            smt: smt.max(1),
            llc: cache.or(package).filter(|llc| *llc > 0),
            node: node.filter(|node| *node > 0),
            ..Topology::default()
        };
        if topology.validate(self.cpus).is_ok() {
            self.topology = topology;
        }
    }

    /// What the head says beyond the fair class: what it does not say stays at its default.
    fn add_classes(&mut self, head: &Head) {
        let number = |path: &str| head.file(path).and_then(|text| text.trim().parse::<i64>().ok());
        let time = |path: &str, unit: u64| {
            number(path)
                .and_then(|value| u64::try_from(value).ok())
                .and_then(|value| value.checked_mul(unit))
                .map(Time::from_nanos)
        };
        const MICROSECOND: u64 = 1_000;
        const MILLISECOND: u64 = 1_000_000;
        let tunables = &mut self.tunables;
        if let Some(runtime) = number("/proc/sys/kernel/sched_rt_runtime_us") {
            tunables.rt_runtime =
                u64::try_from(runtime).ok().map(|runtime| Time::from_nanos(runtime.saturating_mul(MICROSECOND)));
        }
        if let Some(period) = time("/proc/sys/kernel/sched_rt_period_us", MICROSECOND) {
            tunables.rt_period = period;
        }
        if let Some(slice) = time("/proc/sys/kernel/sched_rr_timeslice_ms", MILLISECOND) {
            tunables.rr_timeslice = slice;
        }
        let server = "/sys/kernel/debug/sched/fair_server/cpu0";
        if let Some(runtime) = time(&format!("{server}/runtime"), 1) {
            tunables.fair_server_runtime = runtime;
        }
        if let Some(period) = time(&format!("{server}/period"), 1) {
            tunables.fair_server_period = period;
        }
        if let Some(slice) = time("/proc/sys/kernel/sched_cfs_bandwidth_slice_us", MICROSECOND) {
            self.cfs_bandwidth_slice = slice;
        }
        if let Some(hz) = head.fact("hz").and_then(|hz| hz.parse().ok()).filter(|hz| (1..=10_000).contains(hz)) {
            self.hz = hz;
        }
    }

    /// Which rules the recorded kernel has.
    pub(crate) fn rule_set(&self) -> RuleSet {
        let set = RuleSet::of(self.release);
        RuleSet { lazy: self.lazy.unwrap_or(set.lazy), ..set }
    }

    /// The rules of all classes.
    pub(crate) fn rules_of_classes(&self) -> Rules {
        let rules = Rules::from_tunables(self.rule_set(), self.hz, self.tunables);
        Rules { cfs_bandwidth_slice: self.cfs_bandwidth_slice.as_nanos(), ..rules }
    }

    pub(crate) fn flags(&self) -> FlagBits {
        FlagBits::of(&self.rule_set())
    }

    pub(crate) fn rules(&self) -> Rules {
        // The recording shows which tasks ran: the replay must not throttle any of them itself.
        let tunables = Tunables { rt_runtime: None, fair_server_runtime: Time::ZERO, ..self.tunables };
        Rules::from_tunables(self.rule_set(), HZ, tunables)
    }
}

/// Ticks come from the recording; the rate only sets round-robin slices, which fair tasks have none of.
const HZ: u32 = 250;

fn supported(release: Release) -> Result<(), ReplayError> {
    if release.series().is_replayed() {
        return Ok(());
    }
    let why = "so far recordings of kernels with the rules of 5.10, 6.1, 6.12, 6.18, 7.2 and 7.3 can be";
    Err(ReplayError::Unsupported { what: format!("a recording of kernel {release}"), why })
}

/// Sets the flags that `bits`, the number `sched/debug` prints, has; `names` are theirs from bit 0 on.
fn set_features(features: &mut Features, names: &[&str], bits: u64) {
    for (bit, name) in names.iter().enumerate() {
        // False for a flag that the rules do not act on.
        features.set(name, bits >> bit & 1 != 0);
    }
}

/// The rows of one of the recording's tables of averages.
fn averages_of(head: &Head, moment: &str) -> Vec<Averages> {
    let row = |row: Vec<&str>| {
        let [of, values @ ..] = row.as_slice() else { return None };
        let of = match of.strip_prefix("cpu") {
            Some(cpu) => Tracked::Cpu(cpu.parse().ok()?),
            None => Tracked::Task(of.parse().ok()?),
        };
        let values: Vec<u64> = values.iter().map(|value| value.parse()).collect::<Result<_, _>>().ok()?;
        Some(Averages { of, values: values.try_into().ok()? })
    };
    head.table(&format!("averages {moment}")).filter_map(row).collect()
}

/// How many CPUs a list such as `0-2,5` has.
fn cpus_in(list: &str) -> u32 {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(last.trim().parse::<u32>().ok()?.saturating_sub(first.trim().parse().ok()?).saturating_add(1))
    };
    list.split(',').filter_map(range).fold(0, |sum, count| sum.saturating_add(count).min(MAX_CPUS))
}

/// Where tasks may run, from the head's table of tasks.
pub(crate) fn affinities(head: &Head) -> impl Iterator<Item = (Pid, BTreeSet<u32>)> {
    /// The columns `pid` and `affinity`.
    const COLUMNS: [usize; 2] = [0, 13];
    let row = |row: Vec<&str>| {
        let [pid, list] = COLUMNS.map(|column| row.get(column).copied());
        Some((pid?.parse().ok()?, cpu_list(list?)?))
    };
    head.table("tasks").filter_map(row)
}

/// `0-2,5`.
fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        cpus.extend(from..=to.min(from.saturating_add(1 << 16)));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_bits_stand_in_the_order_of_features_h() {
        // 59 = 0b111011: GENTLE_FAIR_SLEEPERS, START_DEBIT, LAST_BUDDY, CACHE_HOT_BUDDY, WAKEUP_PREEMPTION.
        let mut features = Features::default();
        set_features(&mut features, CFS_FEATURES, 59);
        let on: Vec<_> = Features::NAMES.iter().filter(|name| features.get(name) == Some(true)).collect();
        let expected = ["GENTLE_FAIR_SLEEPERS", "START_DEBIT", "LAST_BUDDY", "WAKEUP_PREEMPTION", "CACHE_HOT_BUDDY"];
        assert_eq!(on, expected.each_ref());
    }

    #[test]
    fn series_whose_recordings_are_not_known_are_refused() {
        let error = Settings::defaults(Release::new(2, 6, 24)).unwrap_err().to_string();
        assert!(error.contains("2.6.24"), "{error}");
    }

    #[test]
    fn cpu_lists_are_ranges_and_numbers() {
        assert_eq!(cpu_list("0-2,5"), Some(BTreeSet::from([0, 1, 2, 5])));
        assert_eq!(cpu_list("x"), None);
    }
}
