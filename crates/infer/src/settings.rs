//! The settings of the recorded kernel, and its machine.

use schedlab_model::{Features, KNOBS, KnobValue, MAX_CPUS, Place, Release, Scheduler};
use schedlab_trace::{Head, Snapshot};

use crate::InferError;
use crate::task_table::cpu_list;

/// The kernel and machine of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Release, ticks a second, and the knobs that are not at their defaults.
    pub scheduler: Scheduler,
    /// CPUs that were on line.
    pub cpus: u32,
    /// How much was recorded: `switches`, `L0`, `L0k` or `L1`; none where the head names no such level.
    pub level: Option<&'static str>,
}

/// What recordings may hold.
const LEVELS: [&str; 4] = ["switches", "L0", "L0k", "L1"];

/// The defaults of a release, for a recording without settings; CPUs are counted as its events name them.
pub(crate) fn of_release(release: &str) -> Result<Recorded, InferError> {
    let release = Release::or_nearest(release).map_err(|error| InferError::Head(format!("os release: {error}")))?;
    Ok(Recorded { scheduler: Scheduler::new(release), cpus: 1, level: None })
}

/// What the head says; none where there is no head.
pub(crate) fn recorded(head: &Head) -> Result<Recorded, InferError> {
    let wrong = |why: String| InferError::Head(why);
    let release = head.fact("kernel").ok_or_else(|| wrong("'kernel: RELEASE' is missing".to_owned()))?;
    let release = Release::or_nearest(release).map_err(|error| wrong(format!("kernel: {error}")))?;
    let cpus = head.fact("cpus").unwrap_or("0");
    let cpus = cpu_list(cpus).filter(|cpus| !cpus.is_empty());
    let cpus = cpus.ok_or_else(|| wrong("'cpus' is not a list of CPUs".to_owned()))?;
    // CPUs are numbered from 0 on; those that were off line had nothing to run.
    let cpus = cpus.last().map_or(1, |last| last + 1).min(MAX_CPUS);
    let mut scheduler = Scheduler::new(release);
    if let Some(hz) = head.fact("hz").and_then(|hz| hz.parse().ok()) {
        scheduler.hz = hz;
    }
    let snapshot: Option<Snapshot> = head.file("/sys/kernel/debug/sched/debug").and_then(|text| text.parse().ok());
    for knob in KNOBS.iter().filter(|knob| knob.simulated_on(release.series())) {
        let (Some(setting), Ok(default)) = (knob.setting(release.series()), knob.default(release, cpus)) else {
            continue;
        };
        let in_snapshot = || match default {
            KnobValue::Time(_) => snapshot.as_ref()?.time(knob.name).map(|time| time.as_nanos() as i64),
            _ => snapshot.as_ref()?.number(knob.name).map(|number| number as i64),
        };
        let number = head.file(&setting.place.path()).and_then(|text| text.trim().parse().ok());
        let Some(number) = number.or_else(in_snapshot) else { continue };
        let value = value(setting.place, default, number);
        if value != default.to_string() {
            scheduler.set(knob.name, &value).map_err(|error| wrong(error.to_string()))?;
        }
    }
    if head.file("/proc/cmdline").is_some_and(|line| line.split_whitespace().any(|word| word == "noautogroup")) {
        // The parameter is not shown by the file that the knob is written to.
        scheduler.set("autogroup", "0").map_err(|error| wrong(error.to_string()))?;
    }
    set_features(&mut scheduler, head);
    scheduler.tunables(cpus).map_err(|error| wrong(error.to_string()))?;
    let level = head.fact("level").and_then(|level| LEVELS.into_iter().find(|known| *known == level));
    Ok(Recorded { scheduler, cpus, level })
}

/// A file's number as a person would write the knob's value.
fn value(place: Place, default: KnobValue, number: i64) -> String {
    match (default, number) {
        (KnobValue::Time(_) | KnobValue::Unlimited, ..0) => "unlimited".to_owned(),
        (KnobValue::Time(_) | KnobValue::Unlimited, _) => {
            let nanoseconds = number.unsigned_abs().saturating_mul(place.unit());
            schedlab_model::Time::from_nanos(nanoseconds).to_string()
        }
        _ => number.to_string(),
    }
}

/// Features that are not at their defaults, of those that the rules know.
fn set_features(scheduler: &mut Scheduler, head: &Head) {
    let files = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];
    let Some(names) = files.into_iter().find_map(|path| head.file(path)) else { return };
    let defaults = Features::defaults(scheduler.series());
    for word in names.split_whitespace() {
        let (name, on) = word.strip_prefix("NO_").map_or((word, true), |name| (name, false));
        if defaults.get(name).is_some_and(|default| default != on) {
            // One that this release does not have acts on nothing.
            let _ = scheduler.set(&format!("feature.{name}"), if on { "1" } else { "0" });
        }
    }
}

#[cfg(test)]
mod tests {
    use schedlab_trace::Reader;

    use super::*;

    fn head(facts: &str) -> Head {
        let text = format!("# schedlab recording 1\n{facts}# end: events=0\n");
        let mut reader = Reader::new(text.as_bytes());
        assert!(reader.next().is_none());
        reader.head().cloned().unwrap_or_default()
    }

    #[test]
    fn knobs_away_from_their_defaults_are_told() {
        // 6.1's latency is 6 ms × (1 + log2 2) = 12 ms on two CPUs, and its wake-up granularity 2 ms.
        let head = head(concat!(
            "# kernel: 6.1.176\n# hz: 250\n# cpus: 0-1\n",
            "# file: /sys/kernel/debug/sched/latency_ns\n#| 12000000\n",
            "# file: /sys/kernel/debug/sched/wakeup_granularity_ns\n#| 3000000\n",
            "# file: /proc/sys/kernel/sched_rt_runtime_us\n#| -1\n",
            "# file: /sys/kernel/debug/sched/features\n#| GENTLE_FAIR_SLEEPERS NO_START_DEBIT WA_IDLE\n",
            "# file: /proc/cmdline\n#| quiet noautogroup\n",
        ));
        let Recorded { scheduler, cpus, .. } = recorded(&head).unwrap();
        let knobs: Vec<String> = scheduler.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = ["autogroup=0", "feature.START_DEBIT=0", "rt_runtime=unlimited", "wakeup_granularity=3ms"];
        assert_eq!((cpus, knobs.as_slice()), (2, expected.map(str::to_owned).as_slice()));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (facts, said) in [
            ("", "'kernel: RELEASE' is missing"),
            ("# kernel: six\n", "kernel: "),
            ("# kernel: 6.1.176\n# cpus: none\n", "not a list of CPUs"),
            ("# kernel: 6.1.176\n# hz: 1\n", "hz = 1"),
            ("# kernel: 6.1.176\n# file: /sys/kernel/debug/sched/latency_ns\n#| 5\n", "latency"),
        ] {
            let error = recorded(&head(facts)).unwrap_err().to_string();
            assert!(error.contains(said) && error.starts_with("the recording's head: "), "{facts}: {error}");
        }
    }
}
