//! The scheduler under study: a kernel release and the settings of its knobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::knobs::set_feature;
use crate::{Features, KnobKind, KnobValue, ModelError, Release, RuleSet, Series, ThreadWeights, Time, find_knob};

/// A kernel release with knobs; what is not set has the release's default for the machine's number of CPUs.
///
/// ```
/// use schedlab_model::{Scheduler, Time};
/// let mut scheduler = Scheduler::new("2.6.24".parse()?);
/// scheduler.set("latency", "30ms")?;
/// let tunables = scheduler.tunables(1)?;
/// assert_eq!(tunables.latency, Time::from_millis(30));
/// assert_eq!(tunables.min_granularity, Time::from_millis(4));
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// The kernel release.
    pub release: Release,
    /// Timer interrupts a second (`CONFIG_HZ`).
    #[serde(default = "default_hz")]
    pub hz: u32,
    /// Knob settings by name.
    #[serde(default)]
    pub knobs: BTreeMap<String, KnobValue>,
    /// How the number of a process's threads changes their weights.
    #[serde(default, skip_serializing_if = "ThreadWeights::is_none")]
    pub weights: ThreadWeights,
    /// Rules switched on or off against what the release has, by name. See [`RuleSet::switched`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, bool>,
}

const fn default_hz() -> u32 {
    250
}

/// The values of every setting that the rules act on, resolved for one release and machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunables {
    /// `sysctl_sched_latency`.
    pub latency: Time,
    /// `sysctl_sched_min_granularity`.
    pub min_granularity: Time,
    /// `sysctl_sched_idle_min_granularity` (6.1).
    pub idle_min_granularity: Time,
    /// `sysctl_sched_wakeup_granularity`.
    pub wakeup_granularity: Time,
    /// `sysctl_sched_base_slice` (EEVDF).
    pub base_slice: Time,
    /// `sysctl_sched_child_runs_first`.
    pub child_runs_first: bool,
    /// `sched_rr_timeslice`.
    pub rr_timeslice: Time,
    /// `sysctl_sched_rt_runtime`; none where it is unlimited, or where the kernel has no such limit.
    pub rt_runtime: Option<Time>,
    /// `sysctl_sched_rt_period`.
    pub rt_period: Time,
    /// The fair server's runtime (6.12 on); zero where there is no such server.
    pub fair_server_runtime: Time,
    /// The fair server's period.
    pub fair_server_period: Time,
    /// `sysctl_sched_migration_cost`.
    pub migration_cost: Time,
    /// `sysctl_sched_nr_migrate`: how many tasks one run of the balancer looks at.
    pub nr_migrate: u32,
    /// Feature flags.
    pub features: Features,
}

impl Scheduler {
    /// The release with every knob at its default and 250 timer interrupts a second, as Debian builds its kernels.
    pub const fn new(release: Release) -> Self {
        Self { release, hz: default_hz(), knobs: BTreeMap::new(), weights: ThreadWeights::None, rules: BTreeMap::new() }
    }

    /// The rules in force: the release's, with those that are switched.
    ///
    /// # Errors
    /// [`ModelError::Rule`] for a rule that cannot be switched so.
    pub fn rule_set(&self) -> Result<RuleSet, ModelError> {
        RuleSet::switched(self.release, &self.rules)
    }

    /// What runs: the release, and if rules are switched so that no kernel has them all, that it is a hybrid, and which.
    ///
    /// ```
    /// use schedlab_model::Scheduler;
    /// let mut scheduler = Scheduler::new("6.12".parse()?);
    /// scheduler.switch("yield_forfeits", false)?;
    /// assert_eq!(scheduler.label(), "6.12.95, hybrid: yield_forfeits=off");
    /// # Ok::<(), schedlab_model::ModelError>(())
    /// ```
    pub fn label(&self) -> String {
        match RuleSet::hybrid(self.release, &self.rules) {
            Ok(Some(hybrid)) => format!("{}, hybrid: {hybrid}", self.release),
            _ => self.release.to_string(),
        }
    }

    /// What to know before relying on its rules: a sentence where others stand in for the release's, one where no kernel has them.
    pub fn notes(&self) -> Vec<String> {
        let hybrid = RuleSet::hybrid(self.release, &self.rules).ok().flatten();
        let hybrid =
            hybrid.map(|rules| format!("the rules are a hybrid that no kernel has: {} with {rules}", self.release));
        self.release.note().into_iter().chain(hybrid).collect()
    }

    /// Switches a rule on or off.
    ///
    /// # Errors
    /// [`ModelError::Rule`]; the scheduler is left as it was.
    pub fn switch(&mut self, name: &str, on: bool) -> Result<(), ModelError> {
        let mut rules = self.rules.clone();
        rules.insert(name.to_owned(), on);
        RuleSet::switched(self.release, &rules)?;
        self.rules = rules;
        Ok(())
    }

    /// The release whose knobs and features apply: with another fair class than the release's own, those of that class.
    pub fn knobs_release(&self) -> Release {
        let own = RuleSet::of(self.release).eevdf;
        match self.rule_set().map_or(own, |set| set.eevdf) {
            eevdf if eevdf == own => self.release,
            true => Series::FIRST_EEVDF.newest_known(),
            false => Series::LAST_CFS.newest_known(),
        }
    }

    /// Sets a knob from the text a person wrote, checking name, release, form and range.
    ///
    /// # Errors
    /// Any of [`ModelError`]'s knob variants; the scheduler is left as it was.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ModelError> {
        let release = self.knobs_release();
        let value = if let Some(feature) = name.strip_prefix("feature.") {
            let on = match value {
                "0" | "off" | "false" => false,
                "1" | "on" | "true" => true,
                _ => {
                    let why = "allowed: 0 or 1".to_owned();
                    return Err(ModelError::KnobValue { name: name.to_owned(), found: value.to_owned(), why });
                }
            };
            set_feature(&mut Features::default(), release, feature, KnobValue::Switch(on))?;
            KnobValue::Switch(on)
        } else {
            let knob = find_knob(name)?;
            knob.default(release, 1)?;
            knob.parse(value)?
        };
        self.knobs.insert(name.to_owned(), value);
        Ok(())
    }

    /// Resolves every setting for a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// [`ModelError`] for a knob that is unknown, absent from the release, of the wrong kind or out of range, and for an
    /// impossible `hz`.
    pub fn tunables(&self, cpus: u32) -> Result<Tunables, ModelError> {
        if !(24..=10_000).contains(&self.hz) {
            return Err(ModelError::Machine(format!("hz = {} is out of range; allowed: 24 to 10000", self.hz)));
        }
        self.rule_set()?;
        let release = self.knobs_release();
        let mut features = Features::defaults(release.series());
        for (name, value) in &self.knobs {
            if let Some(feature) = name.strip_prefix("feature.") {
                set_feature(&mut features, release, feature, *value)?;
            } else {
                let knob = find_knob(name)?;
                let written = match (knob.kind, value) {
                    (KnobKind::Switch, KnobValue::Count(count)) => count.to_string(),
                    _ => value.to_string(),
                };
                knob.parse(&written)?;
                knob.default(release, cpus)?;
            }
        }
        let time = |name: &str, absent: Time| -> Result<Time, ModelError> {
            let knob = find_knob(name)?;
            match self.knobs.get(name).copied().map_or_else(|| knob.default(release, cpus), Ok) {
                Ok(KnobValue::Time(time)) => Ok(time),
                Ok(_) | Err(ModelError::KnobNotInRelease { .. }) => Ok(absent),
                Err(error) => Err(error),
            }
        };
        let switch = |name: &str| -> bool {
            let value = self.knobs.get(name).copied();
            let value = value.or_else(|| find_knob(name).and_then(|knob| knob.default(release, cpus)).ok());
            matches!(value, Some(KnobValue::Switch(true) | KnobValue::Count(1)))
        };
        let base_slice = time("base_slice", Time::from_micros(700))?;
        let second = Time::from_millis(1000);
        let rt_period = time("rt_period", second)?;
        let rt_runtime = match self.knobs.get("rt_runtime") {
            Some(KnobValue::Unlimited) => None,
            _ if find_knob("rt_runtime")?.setting(release.series()).is_none() => None,
            _ => Some(time("rt_runtime", rt_period)?),
        };
        let fair_server_runtime = time("fair_server_runtime", Time::ZERO)?;
        let fair_server_period = time("fair_server_period", second)?;
        if let Some(runtime) = rt_runtime {
            within("rt_runtime", runtime, "rt_period", rt_period)?;
        }
        within("fair_server_runtime", fair_server_runtime, "fair_server_period", fair_server_period)?;
        if let Some(runtime) = rt_runtime {
            admitted([fair_server_runtime, fair_server_period], [runtime, rt_period])?;
        }
        Ok(Tunables {
            latency: time("latency", Time::ZERO)?,
            min_granularity: time("min_granularity", base_slice)?,
            idle_min_granularity: Time::from_micros(750),
            wakeup_granularity: time("wakeup_granularity", Time::ZERO)?,
            base_slice,
            child_runs_first: switch("child_runs_first"),
            rr_timeslice: time("rr_timeslice", Time::from_millis(100))?,
            rt_runtime,
            rt_period,
            fair_server_runtime,
            fair_server_period,
            migration_cost: time("migration_cost", Time::from_micros(500))?,
            nr_migrate: match self.knobs.get("nr_migrate") {
                Some(KnobValue::Count(count)) => u32::try_from(*count).unwrap_or(u32::MAX),
                _ => 32,
            },
            features,
        })
    }

    /// Whether the tasks of a session share one group's weight (`sysctl_sched_autogroup_enabled`); the kernel's default is on.
    pub fn autogroup(&self) -> bool {
        match self.knobs.get("autogroup") {
            Some(KnobValue::Switch(on)) => *on,
            Some(KnobValue::Count(count)) => *count != 0,
            _ => find_knob("autogroup").is_ok_and(|knob| knob.setting(self.series()).is_some()),
        }
    }

    /// The names of set knobs that the simulator does not act on yet, for an error.
    pub fn unsimulated(&self) -> Vec<&str> {
        let known = |name: &&str| find_knob(name).is_ok_and(|knob| !knob.simulated_on(self.series()));
        self.knobs.keys().map(String::as_str).filter(known).collect()
    }

    /// The series whose rules apply.
    pub fn series(&self) -> Series {
        self.release.series()
    }
}

/// A runtime may not exceed its period (`sched_rt_global_validate`, `sched_fair_server_write`).
fn within(name: &str, runtime: Time, period_name: &str, period: Time) -> Result<(), ModelError> {
    if runtime <= period {
        return Ok(());
    }
    let why = format!("allowed: at most {period_name}, which is {period} (set both)");
    Err(ModelError::KnobValue { name: name.to_owned(), found: runtime.to_string(), why })
}

/// The fair servers' bandwidth counts among the deadline tasks' (`__dl_overflow`, `sched_dl_global_validate`).
fn admitted(server: [Time; 2], limit: [Time; 2]) -> Result<(), ModelError> {
    let [server_bandwidth, all] =
        [server, limit].map(|[runtime, period]| (runtime.as_nanos() << 20) / period.as_nanos());
    if server_bandwidth <= all {
        return Ok(());
    }
    let [runtime, period] = limit;
    let why =
        format!("allowed: of each fair_server_period ({}) no more than rt_runtime, {runtime}, of {period}", server[1]);
    Err(ModelError::KnobValue { name: "fair_server_runtime".to_owned(), found: server[0].to_string(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler(release: &str) -> Scheduler {
        Scheduler::new(release.parse().unwrap())
    }

    #[test]
    fn defaults_scale_as_the_kernels_do() {
        // 2.6.24: 20 ms × (1 + log2 4 = 3) = 60 ms; × (1 + log2 1024 = 11) = 220 ms, capped at 200 ms.
        assert_eq!(scheduler("2.6.24").tunables(4).unwrap().latency, Time::from_millis(60));
        assert_eq!(scheduler("2.6.24").tunables(1024).unwrap().latency, Time::from_millis(200));
        // 6.1: 6 ms × 4 from 8 CPUs on, for the factor counts at most 8 of them.
        assert_eq!(scheduler("6.1").tunables(8).unwrap().latency, Time::from_millis(24));
        assert_eq!(scheduler("6.1").tunables(64).unwrap().latency, Time::from_millis(24));
    }

    #[test]
    fn a_backport_changed_the_base_slice() {
        assert_eq!(scheduler("6.12.30").tunables(1).unwrap().base_slice, Time::from_micros(750));
        assert_eq!(scheduler("6.12.31").tunables(1).unwrap().base_slice, Time::from_micros(700));
    }

    #[test]
    fn a_knob_the_kernel_lacks_is_refused_with_what_took_its_place() {
        let error = scheduler("6.12").set("latency", "20ms").unwrap_err().to_string();
        assert!(error.contains("base_slice"), "{error}");
        let error = scheduler("6.1").set("feature.PLACE_LAG", "1").unwrap_err().to_string();
        assert!(error.contains("GENTLE_FAIR_SLEEPERS"), "{error}");
    }

    #[test]
    fn wrong_values_name_what_is_allowed() {
        let mut scheduler = scheduler("6.1");
        for (name, value, said) in [
            ("latency", "20", "unit"),
            ("latency", "1us", "100us to 1s"),
            ("child_runs_first", "yes", "0 or 1"),
            ("latencee", "1ms", "known: latency"),
            ("sched_latency_ns", "1ms", "did you mean 'latency'"),
            ("feature.START_DEBIT", "2", "0 or 1"),
        ] {
            let error = scheduler.set(name, value).unwrap_err().to_string();
            assert!(error.contains(said), "{name}={value}: {error}");
        }
        assert!(scheduler.knobs.is_empty());
    }

    #[test]
    fn a_runtime_is_within_its_period() {
        // rt_runtime is 950 ms unless set, more than a period of 100 ms.
        let mut scheduler = scheduler("6.1");
        scheduler.set("rt_period", "100ms").unwrap();
        let error = scheduler.tunables(1).unwrap_err().to_string();
        assert!(error.contains("rt_runtime") && error.contains("100ms"), "{error}");
        scheduler.set("rt_runtime", "unlimited").unwrap();
        assert_eq!(scheduler.tunables(1).unwrap().rt_runtime, None);
        scheduler.set("rt_runtime", "95ms").unwrap();
        assert_eq!(scheduler.tunables(1).unwrap().rt_runtime, Some(Time::from_millis(95)));
    }

    #[test]
    fn a_scheduler_survives_json() {
        let mut scheduler = scheduler("6.1");
        for (name, value) in
            [("latency", "5ms"), ("child_runs_first", "1"), ("rt_runtime", "-1"), ("feature.LAST_BUDDY", "0")]
        {
            scheduler.set(name, value).unwrap();
        }
        let json = serde_json::to_string(&scheduler).unwrap();
        assert_eq!(serde_json::from_str::<Scheduler>(&json).unwrap(), scheduler, "{json}");
        assert!(!json.contains("weights"), "what was stored before there were rules reads the same: {json}");

        scheduler.weights = "dw-cfs:beta=1.25".parse().unwrap();
        let json = serde_json::to_string(&scheduler).unwrap();
        assert!(json.contains(r#""weights":"dw-cfs:beta=1.25""#), "{json}");
        assert_eq!(serde_json::from_str::<Scheduler>(&json).unwrap(), scheduler);
        let error = serde_json::from_str::<Scheduler>(&json.replace("1.25", "0.5")).unwrap_err().to_string();
        assert!(error.contains("above 1"), "{error}");
    }
}
