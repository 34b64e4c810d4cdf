//! Timers: when they expire is recorded, and ours are made to then.

use schedlab_model::TaskId;
use schedlab_sched::{GroupId, Timer};
use schedlab_trace::RecordKind;

use super::section::{Entry, What};
use super::{CPU, Classes};

impl<'a> Classes<'a> {
    pub(super) fn timer(&mut self, section: &[Entry<'a>]) {
        self.compare_before(section);
        let Some(first) = section.first() else { return };
        let RecordKind::TimerEntry { function } = &first.record.kind else { return };
        let now = self.clocks.clock.as_nanos();
        self.sched.decider.expect_nothing();
        match &**function {
            "sched_rt_period_timer" => self.sched.fire_timer(Timer::RtPeriod, now),
            "dl_task_timer" => self.fire_deadline(section, now),
            _ if is_group_timer(first) => {
                let Some(group) = self.group_of_timer(first) else { return };
                self.sched.fire_bandwidth_timer(group, is_slack(first), now);
            }
            _ => {}
        }
        self.compare_after(section);
    }

    fn fire_deadline(&mut self, section: &[Entry<'a>], now: u64) {
        let Some(entry) = section.iter().find(|entry| entry.what == What::DlTimer) else { return };
        let timer = if entry.record.number("srv") == Some(1) {
            Some(self.sched.fair_server_timer(CPU))
        } else {
            entry
                .pid()
                .and_then(|pid| self.task_of(pid))
                .filter(|task| *task != TaskId::IDLE)
                .and_then(|task| self.sched.dl_timer_of(task))
        };
        let Some(timer) = timer else { return self.lose_track("a deadline timer of nobody") };
        // Ours and the kernel's are due at the same moment of the queue's clock; interrupts may come late.
        if let Some(due) = self.sched.armed(timer) {
            self.report.state.timer.add(due.min(now), now);
        } else {
            self.differ("timer", "not armed", "expires");
            self.report.state.throttling.add(false);
        }
        self.sched.fire_timer(timer, now);
    }

    /// A timer lies within its group's structure.
    fn group_of_timer(&self, entry: &Entry<'a>) -> Option<GroupId> {
        /// `sizeof(struct task_group)` is less.
        const GROUP_SIZE: u64 = 0x400;
        let timer = entry.record.number("hrtimer")?;
        let (address, group) = self.by_address.range(..timer).next_back()?;
        (timer - address < GROUP_SIZE).then_some(*group)
    }
}

fn is_group_timer(entry: &Entry<'_>) -> bool {
    matches!(&entry.record.kind, RecordKind::TimerEntry { function } if function.starts_with("sched_cfs_"))
}

fn is_slack(entry: &Entry<'_>) -> bool {
    matches!(&entry.record.kind, RecordKind::TimerEntry { function } if function.starts_with("sched_cfs_slack"))
}
