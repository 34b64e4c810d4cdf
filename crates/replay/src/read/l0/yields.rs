//! When a yield was done, where nothing tells but what the task is seen at next.

use schedlab_trace::{Context, Pid, Record, RecordKind};

use super::{Request, Traced};
use crate::read::flags::may_yield;

impl Traced<'_> {
    /// The task that entered `sched_yield(2)` is seen at something else, in an interrupt or by itself, and charges nothing for a yield
    /// after it: the yield came before and found nothing to charge.
    pub(super) fn yielded_uncharged(&self, at: usize) -> bool {
        let Some(record) = self.records.get(at) else { return false };
        if self.requests.get(&record.pid) != Some(&Request::Yield) {
            return false;
        }
        match (&record.kind, record.flags.context) {
            (RecordKind::StatRuntime { .. } | RecordKind::Switch { .. }, _) => false,
            (_, Context::Task) => true,
            (RecordKind::TimerEntry { .. }, _) => !self.yields_from(at, record.pid),
            _ => false,
        }
    }

    /// Whether the task that yielded leaves next without having been asked to.
    pub(super) fn schedules_from(&self, at: usize, pid: Pid) -> bool {
        let mut own =
            self.records[at..].iter().filter(|record| record.pid == pid && record.flags.context == Context::Task);
        let switches = |record: &Record| matches!(record.kind, RecordKind::Switch { .. });
        match own.next() {
            Some(charge) if matches!(charge.kind, RecordKind::StatRuntime { .. }) => {
                !charge.flags.wants_resched() && own.next().is_some_and(switches)
            }
            next => next.is_some_and(switches),
        }
    }

    /// Whether a task is seen next, by itself, at something else than being charged or leaving, while a schedule is asked for: none came
    /// since that was. Or it was so far before the interrupt that record `at` begins.
    pub(super) fn goes_on_from(&self, at: usize, pid: Pid) -> bool {
        let own = |record: &Record| record.pid == pid && record.flags.context == Context::Task;
        let schedules =
            |record: &Record| matches!(record.kind, RecordKind::StatRuntime { .. } | RecordKind::Switch { .. });
        let Some(next) = (at..self.records.len()).find(|next| own(&self.records[*next])) else { return false };
        let record = &self.records[next];
        !schedules(record) && (record.flags.wants_resched() || self.was_interrupted(next))
    }

    /// Whether an interrupt came while the record was written, between reading its flags and its place: the interrupt asked for a schedule,
    /// which is still asked for at the task's next record, though the one between does not say so.
    fn was_interrupted(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.records.get(before));
        let (record, after) = (&self.records[at], self.records.get(at + 1));
        let asked = before.is_some_and(|before| before.flags.context != Context::Task && before.flags.wants_resched());
        let asks = |after: &Record| {
            after.pid == record.pid && after.flags.context == Context::Task && after.flags.wants_resched()
        };
        asked && !record.flags.interrupts_off && !record.flags.wants_resched() && after.is_some_and(asks)
    }

    /// Whether the task that entered `sched_yield(2)` charges for a yield from record `at` on: what it does next by itself, a preemption
    /// aside.
    pub(super) fn yields_from(&self, at: usize, pid: Pid) -> bool {
        let own = |record: &&Record| record.pid == pid && record.flags.context == Context::Task;
        let preempted = |record: &&Record| match record.kind {
            RecordKind::StatRuntime { .. } => !may_yield(record.flags),
            RecordKind::Switch { .. } => true,
            _ => false,
        };
        let next = self.records[at..].iter().filter(own).find(|record| !preempted(record));
        next.is_some_and(|next| matches!(next.kind, RecordKind::StatRuntime { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use schedlab_trace::Reader;

    use crate::read::flags::FlagBits;
    use crate::read::step::Step;

    /// What the sequences of these lines are, without those that concern no queue.
    fn steps(text: &str, kernel: &str) -> Vec<&'static str> {
        let records: Vec<Record> = Reader::new(text.as_bytes()).map(|record| record.expect("a line")).collect();
        let mut traced =
            Traced::new(&records, FlagBits::of(&schedlab_model::RuleSet::of(kernel.parse().expect("a release"))));
        let (mut at, mut found) = (0, Vec::new());
        while at < records.len() {
            let (step, length) = traced.next(at);
            at += length;
            found.push(match step {
                Step::YieldNow { .. } => "yield",
                Step::PickAgain => "pick",
                Step::Tick { .. } => "tick",
                Step::Schedule { .. } => "schedule",
                Step::Nothing => continue,
                _ => "other",
            });
        }
        found
    }

    /// Of 7.2.13: the clock has not moved since the last charge, so that a yield charges nothing. An interrupt comes into it after that,
    /// which finds preemption disabled; the schedule that the yield ends in is the one that the interrupt asks for.
    #[test]
    fn a_yield_without_a_charge_comes_before_an_interrupt_in_it() {
        let text = "\
 a-368 0..... 233.230259977: sys_enter_sched_yield:
 a-368 0d.h1. 233.233678048: hrtimer_expire_entry: hrtimer=0x1 now=228857560914 function=tick_nohz_handler
 a-368 0d.h2. 233.233756876: sched_stat_runtime: comm=a pid=368 runtime=19879385
 a-368 0dBh1. 233.233985267: hrtimer_expire_exit: hrtimer=0x1
 a-368 0d..2. 233.234059337: sched_switch: prev_comm=a prev_pid=368 prev_prio=120 prev_state=R ==> next_comm=b next_pid=369 next_prio=49
";
        assert_eq!(steps(text, "7.2.13"), ["yield", "tick", "schedule"]);
    }

    /// Of 7.2.13: the same, but the interrupt comes after the yield's schedule, which picked the task again. That the yield was done shows
    /// as the task runs next: it charges nothing for one.
    #[test]
    fn a_yield_without_a_charge_that_goes_on_is_done_before_the_next_interrupt() {
        let preempted = "\
 a-368 0..... 238.233000000: sys_enter_sched_yield:
 a-368 0d.h.. 238.285423818: hrtimer_expire_entry: hrtimer=0x1 now=233909119764 function=tick_nohz_handler
 a-368 0dNh1. 238.285504759: sched_stat_runtime: comm=a pid=368 runtime=51990554
 a-368 0dNh.. 238.285575614: hrtimer_expire_exit: hrtimer=0x1
 a-368 0d..2. 238.285660381: sched_switch: prev_comm=a prev_pid=368 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=369 next_prio=49
 b-369 0d..2. 238.286998317: sched_switch: prev_comm=b prev_pid=369 prev_prio=49 prev_state=S ==> next_comm=a next_pid=368 next_prio=120
";
        let again = " a-368 0..... 238.287100000: sys_enter_sched_yield:\n";
        let done = ["yield", "pick", "tick", "schedule", "schedule"];
        assert_eq!(steps(&format!("{preempted}{again}"), "7.2.13"), done);
        // It charges for the yield only then: it had not come to it before.
        let charge = " a-368 0d..1. 238.287100000: sched_stat_runtime: comm=a pid=368 runtime=102000\n";
        assert_eq!(steps(&format!("{preempted}{charge}"), "7.2.13"), ["tick", "schedule", "schedule", "yield"]);
    }

    /// Of 6.12.107: the interrupt finds preemption enabled, but the yield's charge has asked for a schedule, which is still to come. It is
    /// the one that lets the task go.
    #[test]
    fn an_interrupt_that_finds_a_schedule_asked_for_comes_before_it() {
        let text = "\
 a-627 0...1. 8674.532195934: sys_enter_sched_yield:
 a-627 0d..1. 8674.532339518: sched_stat_runtime: comm=a pid=627 runtime=943552
 a-627 0dNh.. 8674.532501406: hrtimer_expire_entry: hrtimer=0x1 now=8674518136192 function=hrtimer_wakeup
 a-627 0dNh.. 8674.532697950: hrtimer_expire_exit: hrtimer=0x1
 a-627 0dN.2. 8674.532845886: sched_stat_runtime: comm=a pid=627 runtime=325408
 a-627 0d..2. 8674.532997726: sched_switch: prev_comm=a prev_pid=627 prev_prio=120 prev_state=R ==> next_comm=b next_pid=628 next_prio=49
";
        assert_eq!(steps(text, "6.12.107"), ["yield", "schedule"]);
    }

    /// Of 6.12.107: the interrupt finds preemption disabled, but not in the yield: the schedule after that picked the task again, for it
    /// enters a system call next, in which the interrupt came, and the schedule that the interrupt asks for is still to come.
    #[test]
    fn an_interrupt_in_the_next_system_call_comes_after_the_schedule() {
        let text = "\
 a-627 0...1. 8674.577934366: sys_enter_sched_yield:
 a-627 0d..1. 8674.578070718: sched_stat_runtime: comm=a pid=627 runtime=670752
 a-627 0d.h1. 8674.578562558: hrtimer_expire_entry: hrtimer=0x1 now=8674564197344 function=tick_nohz_handler
 a-627 0d.h2. 8674.578773470: sched_stat_runtime: comm=a pid=627 runtime=655552
 a-627 0dNh1. 8674.578901534: hrtimer_expire_exit: hrtimer=0x1
 a-627 0.N.1. 8674.579517086: sys_enter_sched_yield:
 a-627 0dN.1. 8674.579653502: sched_stat_runtime: comm=a pid=627 runtime=927232
 a-627 0d..2. 8674.579962590: sched_switch: prev_comm=a prev_pid=627 prev_prio=120 prev_state=R ==> next_comm=b next_pid=628 next_prio=49
";
        assert_eq!(steps(text, "6.12.107"), ["yield", "pick", "tick", "yield", "schedule"]);
    }

    /// Of 6.1.176: the interrupt comes into the yield, and the schedule that both ask for charges nothing and picks the task again.
    #[test]
    fn an_interrupt_in_a_yield_comes_before_its_schedule() {
        let text = "\
 a-574 0...1. 7129.177477929: sys_enter_sched_yield:
 a-574 0d..1. 7129.177602121: sched_stat_runtime: comm=a pid=574 runtime=1166337 vruntime=669109901587
 a-574 0d.h1. 7129.177634249: hrtimer_expire_entry: hrtimer=0x1 now=7129168067756 function=tick_sched_timer
 a-574 0d.h2. 7129.177834250: sched_stat_runtime: comm=a pid=574 runtime=183488 vruntime=669110085075
 a-574 0dNh1. 7129.177916330: hrtimer_expire_exit: hrtimer=0x1
 a-574 0...1. 7129.178517086: sys_enter_sched_yield:
";
        assert_eq!(steps(text, "6.1.176")[..3], ["yield", "tick", "pick"]);
    }

    /// Of 6.12.107: the same, but the interrupt came while the entry of that system call was written, which has the flags of before it, and
    /// the time of the interrupt's end or a later one.
    #[test]
    fn an_interrupt_in_the_record_of_the_next_system_call_comes_after_the_schedule() {
        for time in ["4787.186935450", "4787.186966938"] {
            let text = format!(
                "\
 a-649 0...1. 4787.185602905: sys_enter_sched_yield:
 a-649 0d..1. 4787.185739257: sched_stat_runtime: comm=a pid=649 runtime=974689
 a-649 0d.h3. 4787.186563450: hrtimer_expire_entry: hrtimer=0x1 now=4787172007138 function=tick_nohz_handler
 a-649 0d.h4. 4787.186773050: sched_stat_runtime: comm=a pid=649 runtime=987297
 a-649 0dNh3. 4787.186935450: hrtimer_expire_exit: hrtimer=0x1
 a-649 0...1. {time}: sys_enter_sched_yield:
 a-649 0dN.1. 4787.187098330: sched_stat_runtime: comm=a pid=649 runtime=372768
"
            );
            assert_eq!(steps(&text, "6.12.107"), ["yield", "pick", "tick", "yield"], "{time}");
        }
    }
}
