//! The outcome of a run: one set of metrics for simulated and real runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Candidate, Disturbance, Latency, TaskId};

/// Where a metric came from; comparisons use a source that both sides have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSource {
    /// Folded from scheduler events.
    Events,
    /// From counters: the simulator's own accounting, or `getrusage` and `/proc`.
    Counters,
}

/// The outcome of one run. All times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The workload's name.
    pub workload: String,
    /// The kernel release whose scheduler ran.
    pub release: String,
    /// Where it ran: `sim`, `host`, …
    pub target: String,
    /// CPUs of the machine.
    pub cpus: u32,
    /// The seed of every random stream.
    pub seed: u64,
    /// What the workload itself calls its time (hackbench: from the start signal until every worker is collected); the
    /// whole run where it marks none.
    pub turnaround_ns: u64,
    /// From the first task's start to the last one's end.
    pub elapsed_ns: u64,
    /// Whole jiffies of `turnaround_ns`, rounded up, at the scheduler's HZ (1 ms each at 1000).
    pub turnaround_jiffies: u64,
    /// CPU time used, each CPU's in turn; empty where it was not measured.
    pub cpu_busy_ns: Vec<u64>,
    /// Context switches: the voluntary and involuntary ones of all tasks, simulated as real. A CPU that leaves idling, and a task's end,
    /// count nothing.
    pub switches: u64,
    /// Messages read in full.
    pub messages: u64,
    /// Bytes read in full.
    pub bytes: u64,
    /// Each task's share, in the order in which they were made.
    pub tasks: Vec<TaskOutcome>,
    /// What each group of the workload got, and each session under autogroup (`session NAME`); empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupOutcome>,
    /// What the workload's stopwatches measured, by name; `wakeup NAME` from a semaphore's post until the task that waited for it runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latencies: BTreeMap<String, Latency>,
    /// When its tasks began; none for a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Begun>,
    /// CPU time that other tasks took meanwhile; none for a simulation, and where the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// What a reader has to know before relying on these numbers, one sentence each: rules or costs that stand in for others, costs
    /// that were never measured, a disturbed machine. Empty where there is nothing to say.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Outcome {
    /// Whether a task of the run was other work of the machine.
    pub fn is_background(&self, task: TaskId) -> bool {
        self.tasks.get(task.index()).is_some_and(|task| task.background)
    }

    /// What a task or group of the run is called.
    pub fn name_of(&self, candidate: Candidate) -> String {
        match candidate {
            Candidate::Task(task) => self.tasks.get(task.index()).map(|task| task.name.clone()),
            // The rules number groups in the order of the outcome, after the root group.
            Candidate::Group(group) => {
                let place = (group as usize).checked_sub(1);
                place.and_then(|place| self.groups.get(place)).map(|group| group.name.clone())
            }
        }
        .unwrap_or_else(|| format!("{candidate:?}"))
    }
}

/// When a real run's tasks were let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// By `CLOCK_MONOTONIC`.
    pub monotonic_ns: u64,
    /// How long after a timer interrupt.
    pub phase_ns: u64,
}

/// What the tasks of a group got, those of the groups below it among them. All times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// The group's path, or `session NAME`.
    pub name: String,
    /// How many tasks.
    pub tasks: u64,
    /// On a CPU.
    pub run_ns: u64,
    /// Of that, while all groups compete: until the first of them, or of the tasks in no group, has ended. Shares are meaningful in that
    /// time alone.
    pub contended_ns: u64,
    /// The part of all tasks' CPU time in that time, tasks of no group included; 0 to 1.
    pub share: f64,
    /// Periods of its limit that ended (`nr_periods` of `cpu.stat`).
    pub periods: u64,
    /// Of those, the ones in which it was throttled (`nr_throttled`).
    pub throttled_periods: u64,
    /// Over all CPUs, how long it was throttled (`throttled_usec`).
    pub throttled_ns: u64,
}

impl GroupOutcome {
    /// Fills in the shares: each group's part of `total`, all tasks' CPU time while all compete.
    pub fn fill_shares(groups: &mut [Self], total: u64) {
        for group in groups {
            group.share = if total == 0 { 0.0 } else { group.contended_ns as f64 / total as f64 };
        }
    }
}

/// What one task got. All times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskOutcome {
    /// Name and instance: `sender.g0[3]`.
    pub name: String,
    /// It was other work of the machine, of which no figure of the whole run counts but the CPUs' times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Where these metrics came from.
    pub source: MetricSource,
    /// From its start to its end.
    pub life_ns: u64,
    /// On a CPU.
    pub run_ns: u64,
    /// Of that, in user mode.
    pub user_ns: u64,
    /// Of that, in the kernel.
    pub system_ns: u64,
    /// Runnable but not running, as a kernel counts it (`run_delay`, `sched_info_arrive`): by the clock of its run queue, which stands from a wake-up that
    /// is followed by a switch up to that switch. 0 where it was not measured.
    pub wait_ns: u64,
    /// Asleep; 0 where it was not measured.
    pub sleep_ns: u64,
    /// Switches because it went to sleep.
    pub voluntary: u64,
    /// Switches because it was preempted.
    pub involuntary: u64,
    /// Times its CPU changed.
    pub migrations: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// Sum of the delays from becoming runnable to running (`perf sched latency`).
    pub delay_ns: u64,
    /// Number of those delays.
    pub delays: u64,
    /// The longest of them.
    pub max_delay_ns: u64,
}
