//! How much CPU time other tasks took during a real run, from two readings of `/proc/stat`.

use serde::{Deserialize, Serialize};

/// The part of the CPU time above which other tasks disturb a measurement.
const BOUND: f64 = 0.05;

/// The unit of `/proc/stat`: `USER_HZ` is 100 on every architecture that this runs on.
const UNIT_NS: u64 = 10_000_000;

/// CPU time that the run's CPUs spent on other work during the run. All times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// The CPUs that were watched: those that the run could use.
    pub cpus: u32,
    /// How long they were watched.
    pub elapsed_ns: u64,
    /// CPU time of other tasks on them.
    pub others_ns: u64,
    /// Time for which the hypervisor ran something else.
    pub steal_ns: u64,
    /// By how much `others_ns` may be wrong: the kernel counts CPU time in ticks.
    pub uncertainty_ns: u64,
    /// Whether other tasks and the hypervisor certainly took more than 5 % of the CPU time.
    pub disturbed: bool,
}

/// A watched run: its CPUs, its length and its own CPU time.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// The CPUs that it could use.
    pub cpus: &'a [u32],
    /// How long the run was watched, in nanoseconds.
    pub elapsed_ns: u64,
    /// The run's own CPU time meanwhile, in nanoseconds.
    pub own_ns: u64,
    /// Timer interrupts a second.
    pub hz: u32,
}

/// A CPU's line in `/proc/stat`, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    tasks: u64,
    idle: u64,
    steal: u64,
}

impl Disturbance {
    /// What other tasks took between two readings of `/proc/stat`; none where the readings do not show it.
    ///
    /// Tasks' time is counted by ticks, which miss or hit short tasks if these keep step with them; the time that is not idle is exact, but
    /// has interrupts and switches in it. Both are upper bounds in what they get wrong, so the lower one counts.
    ///
    /// ```
    /// use schedlab_model::{Disturbance, Watched};
    /// let watched = Watched { cpus: &[0], elapsed_ns: 10_000_000_000, own_ns: 4_000_000_000, hz: 250 };
    /// // Ten seconds, nine of them in user mode: five are others'.
    /// let found = Disturbance::between("cpu0 0 0 0 0 0 0 0 0", "cpu0 900 0 0 100 0 0 0 0", watched).unwrap();
    /// assert_eq!(found.others_ns, 5_000_000_000);
    /// assert!(found.disturbed);
    /// ```
    #[must_use]
    pub fn between(before: &str, after: &str, watched: Watched<'_>) -> Option<Self> {
        let Watched { cpus, elapsed_ns, own_ns, hz } = watched;
        let (mut tasks, mut idle, mut steal) = (0u64, 0u64, 0u64);
        for cpu in cpus {
            let (before, after) = (times(before, *cpu)?, times(after, *cpu)?);
            tasks += after.tasks.saturating_sub(before.tasks);
            idle += after.idle.saturating_sub(before.idle);
            steal += after.steal.saturating_sub(before.steal);
        }
        let count = u64::try_from(cpus.len()).ok().filter(|count| *count > 0)?;
        let capacity = elapsed_ns.saturating_mul(count);
        let unless_idle = capacity.saturating_sub(idle).saturating_sub(steal);
        let others_ns = tasks.min(unless_idle).saturating_sub(own_ns);
        // Twice the standard deviation of as many samples as there were ticks, at its largest, and a unit a CPU.
        let tick = 1e9 / f64::from(hz.max(1));
        let sampling = (capacity as f64 / tick).sqrt() * tick;
        let uncertainty_ns = sampling as u64 + UNIT_NS * count;
        let certain = (others_ns + steal).saturating_sub(uncertainty_ns);
        Some(Self {
            cpus: u32::try_from(count).unwrap_or(u32::MAX),
            elapsed_ns,
            others_ns,
            steal_ns: steal,
            uncertainty_ns,
            disturbed: certain as f64 > BOUND * capacity as f64,
        })
    }

    /// The part of the CPU time that other tasks and the hypervisor took, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        let capacity = self.elapsed_ns as f64 * f64::from(self.cpus);
        if capacity > 0.0 { ((self.others_ns + self.steal_ns) as f64 / capacity).min(1.0) } else { 0.0 }
    }

    /// A sentence where other tasks or the hypervisor disturbed the run.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let steal = self.steal_ns as f64 / (self.others_ns + self.steal_ns).max(1) as f64;
        let who = match steal {
            steal if steal > 0.8 => "the hypervisor",
            steal if steal > 0.2 => "other tasks and the hypervisor",
            _ => "other tasks",
        };
        self.disturbed.then(|| {
            format!(
                "{who} took {:.0} % of the CPU time while this ran; an idle machine gives other results",
                100.0 * self.share()
            )
        })
    }
}

/// One CPU's times.
fn times(stat: &str, cpu: u32) -> Option<Times> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
    let field = |number: usize| fields.get(number).map(|units| units.saturating_mul(UNIT_NS));
    Some(Times {
        tasks: field(0)? + field(1)? + field(2)?,
        idle: field(3)? + field(4).unwrap_or(0),
        steal: field(7).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn between(after: &str, elapsed_ns: u64, own_ns: u64) -> Disturbance {
        let zero = "cpu 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\ncpu10 9 9 9 9 9 9 9 9\n";
        Disturbance::between(zero, after, Watched { cpus: &[0, 1], elapsed_ns, own_ns, hz: 250 }).unwrap()
    }

    #[test]
    fn what_is_neither_idle_nor_the_runs_own_is_others() {
        // Two CPUs for 10 s: 10 s + 4 s busy, of which 9 s are the run's; 5 of 20 are a quarter.
        let found = between("cpu0 600 300 100 0 0 0 0 0\ncpu1 400 0 0 600 0 0 0 0\n", 10 * SECOND, 9 * SECOND);
        assert_eq!((found.others_ns, found.share()), (5 * SECOND, 0.25));
        assert_eq!(
            found.note().unwrap(),
            "other tasks took 25 % of the CPU time while this ran; an idle machine gives other results"
        );
    }

    #[test]
    fn ticks_that_keep_step_with_short_tasks_are_no_disturbance() {
        // By ticks always busy; by the time that was not idle, 3 s of 20, all of them the run's own.
        let found = between("cpu0 1000 0 0 850 0 0 0 0\ncpu1 1000 0 0 850 0 0 0 0\n", 10 * SECOND, 3 * SECOND);
        assert_eq!((found.others_ns, found.disturbed, found.note()), (0, false, None));
    }

    #[test]
    fn interrupts_between_short_tasks_are_no_disturbance() {
        // Not idle for 10 s of 20, but tasks ran for the run's own 4 s only.
        let found = between("cpu0 200 0 0 500 0 300 0 0\ncpu1 200 0 0 500 0 300 0 0\n", 10 * SECOND, 4 * SECOND);
        assert_eq!((found.others_ns, found.disturbed), (0, false));
    }

    #[test]
    fn a_short_run_says_nothing_that_ticks_cannot_bear() {
        // 20 ms on two CPUs: ten ticks, of which two hit another task. 20 % by chance.
        let found = between("cpu0 1 0 0 1 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0\n", 20_000_000, 12_000_000);
        assert!(found.share() > 0.05);
        assert_eq!(found.note(), None);
    }

    #[test]
    fn stolen_time_disturbs_like_other_tasks() {
        let found = between("cpu0 500 0 0 300 0 0 0 200\ncpu1 500 0 0 300 0 0 0 200\n", 10 * SECOND, 10 * SECOND);
        assert_eq!((found.others_ns, found.steal_ns, found.disturbed), (0, 4 * SECOND, true));
        assert!(found.note().unwrap().starts_with("the hypervisor took 20 %"));
    }

    #[test]
    fn a_cpu_that_is_not_listed_tells_nothing() {
        let watched = Watched { cpus: &[1], elapsed_ns: SECOND, own_ns: 0, hz: 250 };
        assert_eq!(Disturbance::between("cpu10 1 1 1 1", "cpu10 1 1 1 1", watched), None);
    }
}
