//! Decisions and reasons as text for a reader.

use std::fmt;

use super::{
    AffineRule, BalanceRule, Candidate, NewidleRule, PassedOver, PickClass, PickRule, PlaceRule, Reason, SelectRule,
    TurnRule, WakeupRule,
};
use crate::TaskId;

impl Reason {
    /// The decision in one line; `name` names tasks and groups.
    ///
    /// ```
    /// use schedlab_model::{Candidate, Reason, TaskId, TurnRule};
    /// let current = Candidate::Task(TaskId(3));
    /// let by = TurnRule::ProtectedSlice(1_200_000);
    /// let reason = Reason::Turn { current, tick: true, preempts: false, by };
    /// let text = reason.text(&|_| "batch".to_owned());
    /// assert_eq!(text, "tick: batch goes on, its protected slice (RUN_TO_PARITY) has 1.2 ms left");
    /// ```
    pub fn text(&self, name: &dyn Fn(Candidate) -> String) -> String {
        let name = |candidate: Candidate| match candidate {
            Candidate::Task(TaskId::IDLE) => "the idle task".to_owned(),
            candidate => name(candidate),
        };
        let task = |task: TaskId| name(Candidate::Task(task));
        match self {
            Self::Pick { task: TaskId::IDLE, .. } => "pick: idle, no task can run".to_owned(),
            Self::Pick { task: picked, candidates, class, levels } => {
                let mut text = format!("pick: {} of {candidates}", task(*picked));
                match class {
                    PickClass::Stop => text += ", the stopper comes before all classes",
                    PickClass::Deadline => text += ", deadline class",
                    PickClass::Realtime(priority) => text += &format!(", real-time priority {priority}"),
                    PickClass::Custom => text += ", by the custom policy",
                    PickClass::Fair | PickClass::Idle => {}
                }
                let mut within = None;
                for level in levels {
                    text += &match within {
                        None => ": ".to_owned(),
                        Some(group) => format!("; in {}: ", name(group)),
                    };
                    if let Candidate::Group(_) = level.picked {
                        text += &format!("{} by ", name(level.picked));
                    }
                    text += &level.by.to_string();
                    for (other, by) in &level.others {
                        text += &format!(", not {} ({by})", name(*other));
                    }
                    within = Some(level.picked);
                }
                text
            }
            Self::WakeupPreempt { woken, current, preempts, by } => {
                let verb = if *preempts { "preempts" } else { "does not preempt" };
                format!("wakeup: {} {verb} {}, {by}", task(*woken), task(*current))
            }
            Self::Turn { current, tick, preempts, by } => {
                let point = if *tick { "tick" } else { "charge" };
                let verb = if *preempts { "is preempted" } else { "goes on" };
                format!("{point}: {} {verb}, {by}", name(*current))
            }
            Self::Place { entity, within, initial, by } => {
                let new = if *initial { "new " } else { "" };
                let within =
                    if *within == 0 { String::new() } else { format!(" in {}", name(Candidate::Group(*within))) };
                format!("place: {new}{}{within} {by}", name(*entity))
            }
            Self::Select { task: who, previous, chosen, target, by } => {
                let mut text = format!("select: {} goes to CPU {}, {by}", task(*who), chosen.0);
                if let Some(target) = target.filter(|target| target.by != AffineRule::Same) {
                    text += &format!("; the target was CPU {}, {}", target.cpu.0, target.by);
                }
                if chosen != previous {
                    text += &format!("; it ran on CPU {} last", previous.0);
                }
                text
            }
            Self::Newidle { runs, by } => {
                format!("newidle: {}, {by}", if *runs { "has work" } else { "idles" })
            }
            Self::Balance { level, newly_idle, moved, from, by } => {
                let point = if *newly_idle { "newidle balance" } else { "balance" };
                let from = from.map_or_else(String::new, |from| format!(" from CPU {}", from.0));
                match moved {
                    0 => format!("{point}: domain {level}, nothing moved{from}, {by}"),
                    1 => format!("{point}: domain {level}, 1 task moved{from}"),
                    moved => format!("{point}: domain {level}, {moved} tasks moved{from}"),
                }
            }
            Self::Throttle { group, until_refill } => {
                let group = name(Candidate::Group(*group));
                format!("throttle: {group} has used up its quota, refilled in {}", Span(*until_refill))
            }
            Self::Unthrottle { group, after } => {
                let group = name(Candidate::Group(*group));
                format!("unthrottle: {group} was throttled by its quota for {}", Span(*after))
            }
        }
    }
}

/// Nanoseconds for a reader: three significant digits and a unit.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = match self.0 {
            0..1_000 => return write!(formatter, "{} ns", self.0),
            1_000..1_000_000 => ("µs", 1e3),
            1_000_000..1_000_000_000 => ("ms", 1e6),
            _ => ("s", 1e9),
        };
        let value = self.0 as f64 / scale;
        // 9.995 and more are shown as 10.0, which has a digit less behind the point.
        let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        let text = format!("{value:.digits$}");
        let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        write!(formatter, "{text} {unit}")
    }
}

/// A signed span of virtual time, without its sign.
fn span(nanoseconds: i64) -> Span {
    Span(nanoseconds.unsigned_abs())
}

impl fmt::Display for PickRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Only => "the only one",
            Self::LeastVruntime => "least vruntime",
            Self::AfterYield => "second in vruntime, as the first yielded",
            Self::NextBuddy => "next buddy",
            Self::LastBuddy => "last buddy (LAST_BUDDY)",
            Self::ProtectedSlice => "protected slice (RUN_TO_PARITY)",
            Self::EarliestDeadline => "earliest deadline of those eligible",
            Self::NoneEligible => "no other is eligible",
        })
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LaterVruntime(0) => formatter.write_str("same vruntime, queued later"),
            Self::LaterDeadline(0) => formatter.write_str("same deadline, queued later"),
            Self::LaterVruntime(by) => write!(formatter, "vruntime {} later", span(*by)),
            Self::Buddy(by) => write!(formatter, "vruntime {} earlier, but no buddy", span(*by)),
            Self::NotEligible(lag) => write!(formatter, "not eligible, lag -{}", span(*lag)),
            Self::LaterDeadline(by) => write!(formatter, "deadline {} later", span(*by)),
            Self::ProtectedSlice(left) => {
                write!(formatter, "the protected slice (RUN_TO_PARITY) has {} left", Span(*left))
            }
            Self::NextBuddy => formatter.write_str("no buddy"),
            Self::Delayed => formatter.write_str("asleep (DELAY_DEQUEUE)"),
        }
    }
}

impl fmt::Display for WakeupRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HigherClass => formatter.write_str("higher class"),
            Self::LowerClass => formatter.write_str("lower class"),
            Self::AlreadyMarked => formatter.write_str("which is marked for rescheduling already"),
            Self::Throttled => formatter.write_str("its group is throttled"),
            Self::FeatureOff => formatter.write_str("WAKEUP_PREEMPTION is off"),
            Self::CurrentIsIdle => formatter.write_str("which is SCHED_IDLE"),
            Self::WokenIsBatch => formatter.write_str("it is SCHED_BATCH or SCHED_IDLE"),
            Self::Granularity { ahead, .. } if *ahead <= 0 => write!(formatter, "vruntime {} behind", span(*ahead)),
            Self::Granularity { ahead, granularity } => {
                let relation = if *ahead as u64 > *granularity { '>' } else { '≤' };
                let granularity = Span(*granularity);
                write!(formatter, "vruntime {} ahead {relation} wakeup granularity {granularity}", span(*ahead))
            }
            Self::Picked => formatter.write_str("it would be picked now"),
            Self::ShorterSlice => formatter.write_str("its slice is shorter (PREEMPT_SHORT)"),
            Self::NotPicked(why) => write!(formatter, "{why}"),
            Self::SyncBuddy => formatter.write_str("next buddy of a waker that is about to sleep"),
            Self::WaitsForWaker => formatter.write_str("which is about to sleep (WF_SYNC)"),
            Self::NewOrDelayed => formatter.write_str("new and delayed tasks do not"),
            Self::Priority(by) if *by > 0 => write!(formatter, "priority {by} higher"),
            Self::Priority(0) => formatter.write_str("same priority"),
            Self::Priority(by) => write!(formatter, "priority {} lower", by.unsigned_abs()),
            Self::Deadline(by) if *by > 0 => write!(formatter, "deadline {} earlier", span(*by)),
            Self::Deadline(by) => write!(formatter, "deadline {} later", span(*by)),
            Self::Custom => formatter.write_str("by the custom policy"),
        }
    }
}

impl fmt::Display for TurnRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SliceOver(by) => write!(formatter, "its slice is over by {}", Span(*by)),
            Self::TooFarAhead(by) => write!(formatter, "vruntime further ahead than a slice by {}", Span(*by)),
            Self::SliceLeft(left) => write!(formatter, "its slice has {} left", Span(*left)),
            Self::RequestServed => formatter.write_str("its deadline is reached"),
            Self::ProtectionOver => formatter.write_str("its slice is not protected any more"),
            Self::ProtectedSlice(left) => {
                write!(formatter, "its protected slice (RUN_TO_PARITY) has {} left", Span(*left))
            }
            Self::RequestLeft(left) => write!(formatter, "its deadline is {} away", Span(*left)),
            Self::Alone => formatter.write_str("no other task waits"),
            Self::RoundRobin => formatter.write_str("its round-robin slice is over"),
        }
    }
}

impl fmt::Display for PlaceRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SleeperCredit(credit) => write!(formatter, "{} before min_vruntime (sleeper credit)", Span(*credit)),
            Self::WhereItLeft(after) => {
                write!(formatter, "at its old vruntime, {} later than with full sleeper credit", Span(*after))
            }
            Self::StartDebit(debit) => write!(formatter, "{} after min_vruntime (START_DEBIT)", Span(*debit)),
            Self::MinVruntime => formatter.write_str("at min_vruntime"),
            Self::Lag { kept, placed } => {
                let side = if *placed < 0 { "after" } else { "before" };
                let sign = if *kept < 0 { "-" } else { "" };
                write!(formatter, "{} {side} the average (PLACE_LAG, lag {sign}{})", span(*placed), span(*kept))
            }
            Self::Average => formatter.write_str("at the average, without lag"),
        }
    }
}

impl fmt::Display for AffineRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Same => "the waker's and the previous one",
            Self::NotAffine => "as waker and wakee are spread (wake_wide) or affinity forbids the waker's",
            Self::NoCommonDomain => "as the waker's is too far away",
            Self::BothIdle => "idle as the waker's",
            Self::WakerIdle => "the waker's, idle and sharing the cache",
            Self::Sync => "the waker's, which is about to sleep (WF_SYNC)",
            Self::PreviousIdle => "the previous one, idle",
            Self::LessLoad => "the waker's, with less load (WA_WEIGHT)",
            Self::NoLessLoad => "the previous one, as the waker's has no less load (WA_WEIGHT)",
        })
    }
}

impl fmt::Display for SelectRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyOne => formatter.write_str("the only one"),
            Self::StillQueued => formatter.write_str("queued there still (DELAY_DEQUEUE)"),
            Self::TargetIdle => formatter.write_str("target idle"),
            Self::PreviousIdle => formatter.write_str("previous CPU idle and sharing the target's LLC"),
            Self::RecentIdle => formatter.write_str("recently used CPU idle and sharing the target's LLC"),
            Self::IdleCore => formatter.write_str("idle core of the target's LLC"),
            Self::IdleSibling => formatter.write_str("idle SMT sibling"),
            Self::IdleCpu(looked) => write!(formatter, "idle CPU of the target's LLC ({looked} scanned)"),
            Self::NoIdleCpu(looked) => write!(formatter, "no idle CPU in the target's LLC ({looked} scanned)"),
            Self::ScanLimit(looked) => write!(formatter, "no idle CPU before the scan's limit ({looked} scanned)"),
            Self::NotScanned => formatter.write_str("a scan for an idle CPU is not worth its cost"),
            Self::NoSharedCache => formatter.write_str("no other CPU shares the target's LLC"),
            Self::Idlest => formatter.write_str("idlest CPU of the idlest group"),
            Self::NoIdlerGroup => formatter.write_str("no group is idler than the local one"),
            Self::Packed => formatter.write_str("the waker's in place of an idle one (VCPU_PACK)"),
            Self::Fallback => formatter.write_str("as the chosen one is off line or not allowed"),
            Self::NotModelled => formatter.write_str("any idle one, else the previous (placement not modelled)"),
            Self::OtherClass => formatter.write_str("by its priority or deadline"),
        }
    }
}

impl fmt::Display for NewidleRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found => formatter.write_str("a task was pulled or queued"),
            Self::NothingToPull => formatter.write_str("no task could be pulled"),
            Self::NotOverloaded => formatter.write_str("no CPU has more than one task"),
            Self::TooShort { avg_idle, cost } => {
                write!(formatter, "idle for {} on average < cost of balancing {}", Span(*avg_idle), Span(*cost))
            }
            Self::NoDomain => formatter.write_str("off line or in no domain"),
        }
    }
}

impl fmt::Display for BalanceRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Balanced => "balanced",
            Self::NotItsTurn => "another CPU of the group balances",
            Self::Moved => "moved",
            Self::NoneFits => "the waiting tasks run, are cache-hot or exceed the imbalance",
            Self::Pinned => "all waiting tasks are bound elsewhere",
            Self::Push => "the busiest CPU pushes its current task",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decision, PickLevel};
    use super::*;
    use crate::{CpuId, Time};

    fn name(candidate: Candidate) -> String {
        match candidate {
            Candidate::Task(task) => ["worker", "batch"][task.index()].to_owned(),
            Candidate::Group(_) => "/svc".to_owned(),
        }
    }

    #[test]
    fn spans_have_three_digits_and_a_unit() {
        let shown = |nanoseconds: u64| Span(nanoseconds).to_string();
        assert_eq!(shown(999), "999 ns");
        assert_eq!(shown(1_000), "1 µs");
        assert_eq!(shown(1_234_567), "1.23 ms");
        assert_eq!(shown(9_996_000), "10 ms");
        assert_eq!(shown(12_000_000), "12 ms");
        assert_eq!(shown(250_400_000), "250 ms");
        assert_eq!(shown(100_000_000), "100 ms");
        assert_eq!(shown(61_000_000_000), "61 s");
    }

    #[test]
    fn a_wakeup_shows_both_sides_of_its_comparison() {
        let by = WakeupRule::Granularity { ahead: 400_000, granularity: 1_000_000 };
        let reason = Reason::WakeupPreempt { woken: TaskId(0), current: TaskId(1), preempts: false, by };
        let text = "wakeup: worker does not preempt batch, vruntime 400 µs ahead ≤ wakeup granularity 1 ms";
        assert_eq!(reason.text(&name), text);
    }

    #[test]
    fn a_throttled_group_says_for_how_long() {
        let reason = Reason::Unthrottle { group: 1, after: 12_000_000 };
        assert_eq!(reason.text(&name), "unthrottle: /svc was throttled by its quota for 12 ms");
    }

    #[test]
    fn a_pick_names_those_that_were_passed_over() {
        let others = vec![(Candidate::Task(TaskId(1)), PassedOver::NotEligible(-300_000))];
        let level = PickLevel { picked: Candidate::Task(TaskId(0)), by: PickRule::EarliestDeadline, others };
        let reason = Reason::Pick { task: TaskId(0), candidates: 2, class: PickClass::Fair, levels: vec![level] };
        let text = "pick: worker of 2: earliest deadline of those eligible, not batch (not eligible, lag -300 µs)";
        assert_eq!(reason.text(&name), text);
    }

    #[test]
    fn a_pick_within_a_group_says_why_on_each_level() {
        let [worker, batch] = [0, 1].map(|task| Candidate::Task(TaskId(task)));
        let above = PickLevel {
            picked: Candidate::Group(1),
            by: PickRule::LeastVruntime,
            others: vec![(batch, PassedOver::LaterVruntime(2_000_000))],
        };
        let below = PickLevel { picked: worker, by: PickRule::Only, others: Vec::new() };
        let levels = vec![above, below];
        let reason = Reason::Pick { task: TaskId(0), candidates: 2, class: PickClass::Fair, levels };
        let text = "pick: worker of 2: /svc by least vruntime, not batch (vruntime 2 ms later); in /svc: the only one";
        assert_eq!(reason.text(&name), text);
    }

    #[test]
    fn json_says_what_was_decided_first() {
        let reason = Reason::Turn {
            current: Candidate::Task(TaskId(1)),
            tick: true,
            preempts: true,
            by: TurnRule::SliceOver(5),
        };
        let decision = Decision { time: Time::from_millis(1), cpu: CpuId(0), reason };
        let expected = serde_json::json!({
            "time": "1ms", "cpu": 0, "decision": "turn", "current": {"task": 1}, "tick": true, "preempts": true,
            "by": {"slice_over": 5}
        });
        assert_eq!(serde_json::to_value(&decision).unwrap(), expected);
        let idle = Reason::Pick { task: TaskId::IDLE, candidates: 0, class: PickClass::Idle, levels: Vec::new() };
        assert_eq!(serde_json::to_value(&idle).unwrap()["task"], serde_json::Value::Null);
    }
}
