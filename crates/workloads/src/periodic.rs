//! Periodic real-time task sets, drawn by UUniFast.

use schedlab_model::{Attributes, Duration, Policy, Step, Task, TaskKind, Time, Workload};

use crate::keys::Values;
use crate::{Key, KeyKind, WorkloadError};

const TASKS: KeyKind = KeyKind::Count { low: 1, high: 98 };
const PERCENT: KeyKind = KeyKind::Count { low: 1, high: 100 * 4096 };
const PERIOD: KeyKind = KeyKind::Time { low: Time::from_millis(1), high: Time::from_millis(4_000) };
const DURATION: KeyKind = KeyKind::Time { low: Time::from_millis(1), high: Time::from_millis(86_400_000) };
const SEED: KeyKind = KeyKind::Count { low: 0, high: u64::MAX };

/// Periodic tasks whose utilisations add up to a given one and are otherwise uniformly distributed (UUniFast: Bini and Buttazzo,
/// "Measuring the Performance of Schedulability Tests", 2005), with periods uniformly distributed on a logarithmic scale.
///
/// They are served by rate (`SCHED_FIFO`, the shorter period the more urgent) or by deadline (`SCHED_DEADLINE`, a tenth more runtime
/// than they use).
///
/// ```
/// use schedlab_workloads::Periodic;
/// let workload = Periodic { tasks: 5, ..Periodic::default() }.build()?;
/// assert_eq!(workload.tasks.len(), 5);
/// # Ok::<(), schedlab_workloads::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Periodic {
    /// How many, 1 to 98.
    pub tasks: u32,
    /// Percent of a CPU that they use together.
    pub utilisation: u64,
    /// The shortest period.
    pub shortest: Time,
    /// The longest.
    pub longest: Time,
    /// By deadline instead of by rate.
    pub deadline: bool,
    /// Seed of what is drawn.
    pub seed: u64,
    /// How long it runs.
    pub duration: Time,
}

impl Default for Periodic {
    fn default() -> Self {
        Self {
            tasks: 10,
            utilisation: 70,
            shortest: Time::from_millis(10),
            longest: Time::from_millis(1_000),
            deadline: false,
            seed: 1,
            duration: Time::from_millis(10_000),
        }
    }
}

const NAME: &str = "periodic";

impl Periodic {
    pub(crate) const KEYS: &'static [Key] = &[
        Key { name: "tasks", kind: TASKS, default: "10", summary: "how many" },
        Key { name: "utilisation", kind: PERCENT, default: "70", summary: "percent of a CPU that they use together" },
        Key { name: "shortest", kind: PERIOD, default: "10ms", summary: "the shortest period" },
        Key { name: "longest", kind: PERIOD, default: "1s", summary: "the longest period" },
        Key { name: "deadline", kind: KeyKind::Switch, default: "0", summary: "SCHED_DEADLINE instead of SCHED_FIFO" },
        Key { name: "seed", kind: SEED, default: "1", summary: "seed of what is drawn" },
        Key { name: "duration", kind: DURATION, default: "10s", summary: "how long it runs" },
    ];

    pub(crate) fn from_values(values: &Values) -> Self {
        let default = Self::default();
        let time = |key, default: Time| Time::from_nanos(values.get(key, default.as_nanos()));
        Self {
            tasks: values.get("tasks", default.tasks.into()) as u32,
            utilisation: values.get("utilisation", default.utilisation),
            shortest: time("shortest", default.shortest),
            longest: time("longest", default.longest),
            deadline: values.get("deadline", default.deadline.into()) == 1,
            seed: values.get("seed", default.seed),
            duration: time("duration", default.duration),
        }
    }

    /// Builds the workload.
    ///
    /// # Errors
    /// [`WorkloadError::Value`] for a field out of its range, [`WorkloadError::Together`] for a task that would need more than a CPU, or
    /// periods the wrong way round.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        let Self { tasks, utilisation, shortest, longest, deadline, seed, duration } = *self;
        for (key, value) in [
            ("tasks", u64::from(tasks)),
            ("utilisation", utilisation),
            ("shortest", shortest.as_nanos()),
            ("longest", longest.as_nanos()),
            ("seed", seed),
            ("duration", duration.as_nanos()),
        ] {
            Key::check(NAME, Self::KEYS, key, value)?;
        }
        let wrong = |why: String| Err(WorkloadError::Together { workload: NAME, why });
        if shortest > longest {
            return wrong(format!("shortest = {shortest} is longer than longest = {longest}"));
        }
        if utilisation > 100 * u64::from(tasks) {
            return wrong(format!("{utilisation} percent are more than {tasks} tasks can use; allowed: 100 each"));
        }
        let drawn = self.draw();
        let mut by_rate: Vec<Time> = drawn.iter().map(|(_, period)| *period).collect();
        by_rate.sort_unstable();
        let set = drawn.iter().enumerate().map(|(number, (run, period))| {
            let policy = if deadline {
                let runtime = Time::from_nanos((run.as_nanos() / 10 * 11).clamp(2_000, period.as_nanos()));
                Policy::Deadline { runtime, deadline: *period, period: *period }
            } else {
                let before = by_rate.partition_point(|other| other < period);
                Policy::Fifo(98 - before as u8)
            };
            let timer = Step::Timer { timer: "unique".to_owned(), period: *period, own: true, absolute: true };
            Task {
                name: format!("periodic.{number}"),
                instances: 1,
                kind: TaskKind::Thread,
                attributes: Some(Attributes { policy, ..Attributes::default() }),
                steps: vec![Step::Forever(vec![Step::Run(Duration::Fixed(*run)), timer])],
                ..Task::default()
            }
        });
        let switch = u8::from(deadline);
        let name = format!(
            "{NAME}:tasks={tasks},utilisation={utilisation},shortest={shortest},longest={longest},deadline={switch},\
             seed={seed},duration={duration}"
        );
        Ok(Workload { name, tasks: set.collect(), duration: Some(duration), ..Workload::default() })
    }

    /// Runtime and period of each task. A set in which one would need more than a CPU is drawn anew (UUniFast-Discard).
    fn draw(&self) -> Vec<(Time, Time)> {
        let mut random = Random(self.seed);
        let utilisations = loop {
            let mut left = self.utilisation as f64 / 100.0;
            let mut all = Vec::new();
            for others in (1..self.tasks).rev() {
                let rest = left * libm::pow(random.next(), 1.0 / f64::from(others));
                all.push(left - rest);
                left = rest;
            }
            all.push(left);
            if all.iter().all(|part| *part <= 1.0) {
                break all;
            }
            if self.utilisation > 90 * u64::from(self.tasks) {
                // Hardly any drawn set qualifies; tasks that all have the same utilisation do.
                break vec![self.utilisation as f64 / 100.0 / f64::from(self.tasks); self.tasks as usize];
            }
        };
        let (low, high) = (libm::log(self.shortest.as_nanos() as f64), libm::log(self.longest.as_nanos() as f64));
        let mut task = |part: f64| {
            let period = libm::round(libm::exp(low + (high - low) * random.next()) / 1e3) * 1e3;
            let period = period.clamp(self.shortest.as_nanos() as f64, self.longest.as_nanos() as f64);
            let run = libm::round((part * period).max(1e3));
            (Time::from_nanos(run as u64), Time::from_nanos(period as u64))
        };
        utilisations.into_iter().map(&mut task).collect()
    }
}

/// Numbers from 0 to 1, by SplitMix64 (Steele, Lea and Flood 2014): the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
