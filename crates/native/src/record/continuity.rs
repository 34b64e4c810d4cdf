//! Switches that a recording does not have: a task runs that no recorded switch switched in.
//!
//! A kernel may trace nothing of some tasks, such as those of a virtual machine's agent: the switch to such a task is recorded, the one
//! away from it is not, and neither is any other event that the task causes. Nothing else is missing then, unlike where events were lost.
//! The arrival of the next task may still be recorded.

use std::collections::{BTreeMap, BTreeSet};

/// The current task of each CPU, by the switches and by the tasks that cause the events.
#[derive(Debug, Default)]
pub(super) struct Continuity {
    running: BTreeMap<u32, i64>,
    /// When the last switch was on each CPU, until the next arrival.
    switched: BTreeMap<u32, u64>,
    /// How long after a switch the arrival of the next task was recorded.
    lags: Vec<u64>,
    /// The tasks that caused an event themselves, and not an interrupt while they ran. Each CPU has its idle task.
    tells: BTreeSet<(i64, Option<u32>)>,
    gaps: Vec<Gap>,
}

/// A switch that is missing.
#[derive(Debug)]
struct Gap {
    cpu: u32,
    /// That of the first event after it.
    time: u64,
    /// The current task by the recorded switches, and the one that runs.
    known: i64,
    pid: i64,
}

/// What an event shows of the current task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    /// The task that runs.
    pub(super) pid: i64,
    /// Whether it caused the event itself.
    pub(super) own: bool,
    /// The next task, if the event is a switch.
    pub(super) next: Option<i64>,
}

impl Continuity {
    /// Sees an event on a CPU.
    pub(super) fn see(&mut self, cpu: u32, time: u64, event: Sight) {
        let Sight { pid, own, next } = event;
        if own {
            self.tells.insert(task(cpu, pid));
        }
        let known = self.running.insert(cpu, next.unwrap_or(pid));
        if next.is_some() {
            self.switched.insert(cpu, time);
        }
        if let Some(known) = known.filter(|&known| known != pid) {
            self.gaps.push(Gap { cpu, time, known, pid });
        }
    }

    /// Sees that a task has arrived on a CPU; whether no switch had brought it.
    pub(super) fn arrives(&mut self, cpu: u32, time: u64, pid: i64) -> bool {
        let switched = self.switched.remove(&cpu);
        let told = self.running.insert(cpu, pid).is_none_or(|known| known == pid);
        if let (true, Some(switched)) = (told, switched) {
            self.lags.push(time.saturating_sub(switched));
        }
        !told
    }

    /// How much later than a switch an arrival is recorded, at half of all; 0 where none was recorded.
    pub(super) fn lag(&mut self) -> u64 {
        self.lags.sort_unstable();
        self.lags.get(self.lags.len() / 2).copied().unwrap_or(0)
    }

    /// Whether the task that was switched out in a gap causes events itself.
    fn tells(&self, gap: &Gap) -> bool {
        self.tells.contains(&task(gap.cpu, gap.known))
    }

    /// How many switches away from tasks that cause no events are missing.
    pub(super) fn untold(&self) -> usize {
        self.gaps.iter().filter(|gap| !self.tells(gap)).count()
    }

    /// What else is missing, if anything is; without `partly` all that is missing.
    pub(super) fn complaint(&self, partly: bool) -> Option<String> {
        let lost: Vec<&Gap> = self.gaps.iter().filter(|gap| !partly || self.tells(gap)).collect();
        let first = lost.first()?;
        let (seconds, nanoseconds) = (first.time / 1_000_000_000, first.time % 1_000_000_000);
        let advice = if lost.iter().all(|gap| gap.known == 0 || gap.pid == 0) {
            "all of them are from idle or to it, which this kernel does not always tell of: try again with the CPUs kept busy"
        } else if self.untold() == self.gaps.len() {
            "all of them are from tasks of which this kernel tells nothing: try again, shorter, or with --level=switches"
        } else {
            "try again, shorter or on an idler machine"
        };
        Some(format!(
            "the kernel lost events without counting them ({} switches are missing, the first on CPU {} before \
             {seconds}.{nanoseconds:09}), so the recording was not kept: {advice}",
            lost.len(),
            first.cpu
        ))
    }
}

/// A task, by its pid and, if it is an idle one, its CPU.
fn task(cpu: u32, pid: i64) -> (i64, Option<u32>) {
    (pid, (pid == 0).then_some(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a task does itself.
    fn own(pid: i64, next: Option<i64>) -> Sight {
        Sight { pid, own: true, next }
    }

    #[test]
    fn a_missing_switch_is_noticed() {
        let mut seen = Continuity::default();
        // 7 runs already when the recording begins; it goes, 8 comes, and the other CPU is another matter.
        for (cpu, pid, next) in
            [(0, 7, None), (0, 7, Some(8)), (1, 3, None), (0, 8, None), (0, 8, Some(0)), (0, 0, None)]
        {
            seen.see(cpu, 5, own(pid, next));
        }
        assert_eq!(seen.complaint(false), None);
        // No switch switched 9 in; after that it runs and is no second gap. 4 is switched out on the other CPU, where 3 was.
        seen.see(0, 1_000_000_007, own(9, None));
        seen.see(0, 1_000_000_008, own(9, Some(2)));
        seen.see(1, 1_000_000_009, own(4, Some(3)));
        let complaint = seen.complaint(true).unwrap();
        assert!(complaint.contains("2 switches") && complaint.contains("CPU 0 before 1.000000007"), "{complaint}");
        assert!(complaint.contains("shorter"), "{complaint}");
    }

    #[test]
    fn gaps_at_idle_alone_are_another_matter() {
        let mut seen = Continuity::default();
        seen.see(0, 5, own(7, Some(0)));
        seen.see(0, 5, own(0, None));
        // 8 runs where the CPU was idle as far as we know.
        seen.see(0, 6, own(8, Some(0)));
        let complaint = seen.complaint(true).unwrap();
        assert!(complaint.contains("1 switches") && complaint.contains("kept busy"), "{complaint}");
    }

    #[test]
    fn an_arrival_closes_the_gap() {
        let mut seen = Continuity::default();
        // 7 goes to 70, of which nothing is told, and 8 arrives; then 7 does as a switch says, 3 later.
        seen.see(0, 5, own(7, Some(70)));
        assert!(seen.arrives(0, 9, 8));
        seen.see(0, 10, own(8, Some(7)));
        assert!(!seen.arrives(0, 13, 7));
        assert_eq!((seen.untold(), seen.complaint(false), seen.lag()), (0, None, 3));
    }

    #[test]
    fn a_task_of_which_nothing_is_told_leaves_untold() {
        let mut seen = Continuity::default();
        // 7 goes to 70, which an interrupt finds running, and then 8 runs.
        seen.see(0, 5, own(7, Some(70)));
        seen.see(0, 6, Sight { pid: 70, own: false, next: None });
        seen.see(0, 7, own(8, Some(7)));
        assert_eq!((seen.untold(), seen.complaint(true)), (1, None));
        // That the idle task of CPU 0 tells says nothing of the one of CPU 1.
        seen.see(0, 7, own(7, Some(0)));
        seen.see(0, 7, own(0, Some(7)));
        seen.see(1, 7, own(3, Some(0)));
        seen.see(1, 7, own(3, None));
        assert_eq!((seen.untold(), seen.complaint(true)), (2, None));
        let complaint = seen.complaint(false).unwrap();
        assert!(complaint.contains("2 switches") && complaint.contains("--level=switches"), "{complaint}");
        // Once 70 has caused an event, the switch away from it should have been recorded as well.
        seen.see(0, 8, own(7, Some(70)));
        seen.see(0, 9, own(70, Some(7)));
        let complaint = seen.complaint(true).unwrap();
        assert!(complaint.contains("1 switches") && complaint.contains("idler"), "{complaint}");
        assert_eq!(seen.untold(), 1);
    }
}
