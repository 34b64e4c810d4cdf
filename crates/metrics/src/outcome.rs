//! From the fold to the schema of outcomes.

use schedlab_model::{MetricSource, Outcome, TaskId, TaskOutcome, Time};

use crate::{Metrics, TaskMetrics};

impl TaskMetrics {
    /// As a [`TaskOutcome`]. Events do not tell user from system time; both are 0 there.
    pub fn to_outcome(&self, name: String) -> TaskOutcome {
        TaskOutcome {
            background: false,
            name,
            source: MetricSource::Events,
            life_ns: self.life.as_nanos(),
            run_ns: self.run.as_nanos(),
            user_ns: 0,
            system_ns: 0,
            wait_ns: self.wait.as_nanos(),
            sleep_ns: self.sleep.as_nanos(),
            voluntary: self.voluntary,
            involuntary: self.involuntary,
            migrations: self.migrations,
            wakeups: self.wakeups,
            delay_ns: self.delay.as_nanos(),
            delays: self.delays,
            max_delay_ns: self.max_delay.as_nanos(),
        }
    }
}

impl Metrics {
    /// The outcomes of all tasks until `end`, in the order of their ids, each under the name that `name` gives it.
    pub fn task_outcomes(&self, end: Time, name: impl Fn(TaskId) -> String) -> Vec<TaskOutcome> {
        let ids = (0..self.tasks()).map(|index| TaskId(index as u32));
        ids.filter_map(|task| Some(self.task(task, end)?.to_outcome(name(task)))).collect()
    }

    /// Writes what events tell into `outcome`: tasks, CPU times, switches. The rest of it (turnaround, messages, facts of the
    /// run) stays as it is; the tasks are those of the events, until the end of `outcome`'s elapsed time.
    pub fn write_into(&self, outcome: &mut Outcome, name: impl Fn(TaskId) -> String) {
        let end = Time::from_nanos(outcome.elapsed_ns).max(self.last());
        outcome.tasks = self.task_outcomes(end, name);
        outcome.cpu_busy_ns = self.cpu_busy(end).into_iter().map(Time::as_nanos).collect();
        outcome.cpu_busy_ns.resize(outcome.cpu_busy_ns.len().max(outcome.cpus as usize), 0);
        outcome.switches = self.switches();
    }
}
