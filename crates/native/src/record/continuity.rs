//! Events that a kernel lost without counting them: somebody runs whom no switch has brought.

use std::collections::BTreeMap;

/// Who runs on each CPU, by the switches and by who causes the events.
#[derive(Debug, Default)]
pub(super) struct Continuity {
    running: BTreeMap<u32, i64>,
    gaps: u64,
    /// Those of them where a CPU leaves idle or comes to it.
    at_idle: u64,
    first: Option<(u32, u64)>,
}

impl Continuity {
    /// Sees an event at `time` on a CPU that task `pid` caused; `next` if it switches to another one.
    pub(super) fn see(&mut self, cpu: u32, time: u64, pid: i64, next: Option<i64>) {
        let known = self.running.insert(cpu, next.unwrap_or(pid));
        if let Some(known) = known.filter(|&known| known != pid) {
            self.gaps += 1;
            self.at_idle += u64::from(known == 0 || pid == 0);
            self.first.get_or_insert((cpu, time));
        }
    }

    /// What is missing, if anything is.
    pub(super) fn complaint(&self) -> Option<String> {
        let (cpu, time) = self.first?;
        let (seconds, nanoseconds) = (time / 1_000_000_000, time % 1_000_000_000);
        let advice = if self.at_idle == self.gaps {
            "all of them are from idle or to it, which this kernel does not always tell of: try again with the CPUs kept busy"
        } else {
            "try again, shorter or on an idler machine"
        };
        Some(format!(
            "the kernel lost events without counting them ({} switches are missing, the first on CPU {cpu} before \
             {seconds}.{nanoseconds:09}), so the recording was not kept: {advice}",
            self.gaps
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_switch_is_noticed() {
        let mut seen = Continuity::default();
        // 7 runs already when the recording begins; it goes, 8 comes, and the other CPU is another matter.
        for (cpu, pid, next) in
            [(0, 7, None), (0, 7, Some(8)), (1, 3, None), (0, 8, None), (0, 8, Some(0)), (0, 0, None)]
        {
            seen.see(cpu, 5, pid, next);
        }
        assert_eq!(seen.complaint(), None);
        // Nobody brought 9; after that it runs and is no second gap. 4 leaves the other CPU, where 3 was.
        seen.see(0, 1_000_000_007, 9, None);
        seen.see(0, 1_000_000_008, 9, Some(2));
        seen.see(1, 1_000_000_009, 4, Some(3));
        let complaint = seen.complaint().unwrap();
        assert!(complaint.contains("2 switches") && complaint.contains("CPU 0 before 1.000000007"), "{complaint}");
        assert!(complaint.contains("shorter"), "{complaint}");
    }

    #[test]
    fn gaps_at_idle_alone_are_another_matter() {
        let mut seen = Continuity::default();
        seen.see(0, 5, 7, Some(0));
        // 8 runs where the CPU was idle as far as we know.
        seen.see(0, 6, 8, Some(0));
        let complaint = seen.complaint().unwrap();
        assert!(complaint.contains("1 switches") && complaint.contains("kept busy"), "{complaint}");
    }
}
