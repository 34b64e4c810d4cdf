//! Random workloads with the scheduler's decisions told: the run comes to the same, each decision is one that the events show, and each margin
//! has the sign that its rule gives it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use schedlab_model::{
    Candidate, Costs, CpuId, Decision, Event, EventKind, EventSink, Group, GroupMax, Machine, NoEvents, PassedOver,
    PickClass, PickRule, Reason, Scheduler, TaskId, Time, TurnRule, WakeupRule, Workload,
};
use schedlab_program::Program;

use crate::fast_path_tests::tasks;
use crate::{Options, simulate};

/// Checks each decision, and that the events after it are what was decided.
#[derive(Debug, Default)]
struct Watcher {
    /// By CPU, the task that was picked last.
    picked: BTreeMap<CpuId, (Time, TaskId)>,
    /// By task, the CPU that was chosen last.
    chosen: BTreeMap<TaskId, (Time, CpuId)>,
    throttled: u64,
    /// The run has groups, and a queue's tasks stand for more than themselves.
    grouped: bool,
    decisions: u64,
}

impl EventSink for Watcher {
    const EXPLAINS: bool = true;

    fn event(&mut self, event: Event) {
        match event.kind {
            EventKind::Switch { next, .. } => {
                assert_eq!(self.picked.get(&event.cpu), Some(&(event.time, next)), "{event:?}");
            }
            EventKind::Waking { task, target, .. } | EventKind::WakeupNew { task, target } => {
                // A task that begins is placed as it is forked or started, before its wake-up event.
                let (_, chosen) = self.chosen[&task];
                assert_eq!(chosen, target, "{event:?}");
            }
            _ => {}
        }
    }

    fn decision(&mut self, Decision { time, cpu, reason }: Decision) {
        self.decisions += 1;
        match reason {
            Reason::Pick { task, candidates, class, ref levels } => {
                self.picked.insert(cpu, (time, task));
                assert_eq!(class == PickClass::Fair, !levels.is_empty(), "{reason:?}");
                assert!(levels.last().is_none_or(|level| level.picked == Candidate::Task(task)), "{reason:?}");
                for level in levels {
                    assert_eq!(level.by == PickRule::Only, level.others.is_empty(), "{reason:?}");
                    assert!(level.others.iter().all(|(_, by)| has_sign(*by, level.by)), "{reason:?}");
                }
                if let ([level], false) = (&levels[..], self.grouped) {
                    assert_eq!(level.others.len() as u32 + 1, candidates, "{reason:?}");
                }
            }
            Reason::Select { task, chosen, .. } => {
                self.chosen.insert(task, (time, chosen));
            }
            Reason::Turn { preempts, by, tick, .. } => {
                assert_eq!(preempts, by.preempts(), "{reason:?}");
                // A charge has a decision only where it ends a turn.
                assert!(tick || preempts, "{reason:?}");
                let positive = match by {
                    TurnRule::SliceOver(by) | TurnRule::TooFarAhead(by) => by > 0,
                    _ => true,
                };
                assert!(positive, "{reason:?}");
            }
            Reason::WakeupPreempt { by: WakeupRule::Granularity { ahead, granularity }, preempts, .. } => {
                assert_eq!(preempts, ahead > granularity as i64, "{reason:?}");
            }
            Reason::WakeupPreempt { by: WakeupRule::NotPicked(why), preempts, .. } => {
                assert!(!preempts && !matches!(why, PassedOver::LaterVruntime(_)), "{reason:?}");
            }
            Reason::Unthrottle { after, .. } => self.throttled += after,
            _ => {}
        }
    }
}

/// Whether a margin has the sign that its rule gives it.
fn has_sign(why: PassedOver, by: PickRule) -> bool {
    match why {
        PassedOver::LaterVruntime(later) => later >= 0,
        // Only a buddy, or the second after one that yielded, is picked before the least vruntime.
        PassedOver::Buddy(earlier) => {
            earlier > 0 && matches!(by, PickRule::NextBuddy | PickRule::LastBuddy | PickRule::AfterYield)
        }
        PassedOver::NotEligible(lag) => lag < 0,
        PassedOver::LaterDeadline(later) => later >= 0 || by != PickRule::EarliestDeadline,
        PassedOver::ProtectedSlice(_) => by == PickRule::ProtectedSlice,
        PassedOver::NextBuddy => by == PickRule::NextBuddy,
        PassedOver::Delayed => true,
    }
}

fn releases() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2"])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_run_that_is_explained_comes_to_the_same(
        release in releases(),
        tasks in tasks(),
        cpus in 1u32..5,
        quota in prop::option::weighted(0.4, 1u64..8),
        priced in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let grouped = quota.filter(|_| release != "2.6.24");
        let mut workload = Workload { name: "random".into(), tasks, ..Workload::default() };
        // Tasks that go on for ever are ended.
        workload.duration = Some(Time::from_millis(120));
        if let Some(quota) = grouped {
            let max = GroupMax {
                quota: Time::from_millis(quota),
                period: Time::from_millis(10),
                burst: Time::ZERO,
            };
            workload.groups.insert("/svc".into(), Group { max: Some(max), ..Group::default() });
            if let Some(first) = workload.tasks.first_mut() {
                first.taskgroup = Some("/svc".into());
            }
        }
        let program = Program::compile(&workload).unwrap();
        let scheduler = Scheduler::new(release.parse().unwrap());
        let mut machine = Machine::ideal(cpus);
        if priced {
            machine.costs = Costs { switch: Time::from_micros(2), wakeup: Time::from_micros(1), ..machine.costs };
        }
        let options = Options { seed, ..Options::default() };
        let plain = simulate(&program, &scheduler, &machine, &options, &mut NoEvents).unwrap();
        let mut watcher = Watcher { grouped: grouped.is_some(), ..Watcher::default() };
        let explained = simulate(&program, &scheduler, &machine, &options, &mut watcher).unwrap();
        prop_assert_eq!(format!("{plain:?}"), format!("{explained:?}"));
        prop_assert!(watcher.decisions > 0);
        // What the kernel counts as throttled, but for what is throttled at the end.
        let counted: u64 = explained.groups.iter().map(|group| group.throttled_ns).sum();
        prop_assert_eq!(watcher.throttled, counted);
    }
}
