//! Reasons of decisions: the rule that decided, and its margin.

use schedlab_model::{
    Candidate, PassedOver, PickLevel, PickRule, PlaceRule, Policy, Reason, TaskId, TurnRule, WakeupRule,
};
use schedlab_sched::Ours;

use crate::lab::{CPU0, Lab, MS, US};

/// One CPU of the release whose decisions are kept from here on.
fn explaining(release: &str, knobs: &[(&str, &str)]) -> Lab {
    let mut lab = Lab::new(release, knobs);
    lab.sched.decider = Ours::explaining();
    lab
}

/// The decisions since this was last called, all of CPU 0.
fn decisions(lab: &mut Lab) -> Vec<Reason> {
    let reasons = lab.sched.decider.take_reasons();
    reasons.into_iter().inspect(|(cpu, _)| assert_eq!(*cpu, CPU0)).map(|(_, reason)| reason).collect()
}

fn tick(lab: &mut Lab) -> TurnRule {
    lab.sync(CPU0);
    lab.sched.sched_tick(CPU0);
    let turns: Vec<TurnRule> = decisions(lab)
        .into_iter()
        .filter_map(|reason| match reason {
            Reason::Turn { tick: true, by, preempts, .. } => {
                assert_eq!(preempts, by.preempts());
                Some(by)
            }
            _ => None,
        })
        .collect();
    assert_eq!(turns.len(), 1, "{turns:?}");
    turns[0]
}

/// One task runs, another sleeps since before that.
fn runner_and_sleeper(lab: &mut Lab) -> [TaskId; 2] {
    let sleeper = lab.task();
    lab.schedule(CPU0);
    let runner = lab.task();
    assert_eq!(lab.sleep(CPU0), runner);
    lab.sched.decider.take_reasons();
    [runner, sleeper]
}

/// 6.1 on one CPU: a sleeper comes in half a latency, 3 ms, before `min_vruntime`, which is the current task's vruntime here. So it is 3 ms
/// ahead, against a granularity of 1 ms by default.
#[test]
fn a_cfs_wakeup_tells_its_lead_and_the_granularity() {
    for (granularity, preempts) in [("1ms", true), ("4ms", false)] {
        let mut lab = explaining("6.1", &[("wakeup_granularity", granularity)]);
        let [runner, sleeper] = runner_and_sleeper(&mut lab);
        lab.advance(10 * MS);
        assert_eq!(lab.wake(sleeper), preempts);
        let granularity = if preempts { MS } else { 4 * MS };
        let placed = Reason::Place {
            entity: Candidate::Task(sleeper),
            within: 0,
            initial: false,
            by: PlaceRule::SleeperCredit(3 * MS),
        };
        let by = WakeupRule::Granularity { ahead: 3 * MS as i64, granularity };
        let woken = Reason::WakeupPreempt { woken: sleeper, current: runner, preempts, by };
        assert_eq!(decisions(&mut lab), [placed, woken]);
    }
}

/// One that slept for 1 ms keeps its vruntime, 1 ms before `min_vruntime`: 2 ms later than the credit of 3 ms would place it.
#[test]
fn a_short_sleeper_is_placed_where_it_left() {
    let mut lab = explaining("6.1", &[]);
    let [runner, sleeper] = runner_and_sleeper(&mut lab);
    assert_eq!(lab.entity(runner).vruntime, lab.entity(sleeper).vruntime);
    lab.advance(MS);
    lab.wake(sleeper);
    let by = PlaceRule::WhereItLeft(2 * MS);
    let placed = Reason::Place { entity: Candidate::Task(sleeper), within: 0, initial: false, by };
    assert_eq!(decisions(&mut lab)[0], placed);
}

/// 6.1: two tasks share a latency of 6 ms, a slice is 3 ms but for the rounding of weights, 2999998 ns (periods.rs).
#[test]
fn a_cfs_tick_tells_what_is_left_of_the_slice() {
    let mut lab = explaining("6.1", &[]);
    let [_, sleeper] = runner_and_sleeper(&mut lab);
    lab.wake(sleeper);
    lab.schedule(CPU0);
    lab.sched.decider.take_reasons();
    lab.advance(MS);
    assert_eq!(tick(&mut lab), TurnRule::SliceLeft(1_999_998));
    lab.advance(3 * MS);
    assert_eq!(tick(&mut lab), TurnRule::SliceOver(1_000_002));
}

/// 6.12 on one CPU: a request is 700 us long. A task that wakes alone has its whole request before it, and one that wakes 200 us later finds
/// 500 us of it protected, though it is eligible: both are at the average.
#[test]
fn an_eevdf_wakeup_tells_how_long_the_slice_is_protected() {
    let mut lab = explaining("6.12", &[("base_slice", "700us")]);
    let [first, second] = [lab.task(), lab.task()];
    lab.schedule(CPU0);
    while lab.sleep(CPU0) != TaskId::IDLE {}
    assert!(lab.wake(first));
    assert_eq!(lab.schedule(CPU0), first);
    lab.sched.decider.take_reasons();
    lab.advance(200 * US);
    assert!(!lab.wake(second));
    let by = WakeupRule::NotPicked(PassedOver::ProtectedSlice(500 * US));
    let woken = Reason::WakeupPreempt { woken: second, current: first, preempts: false, by };
    assert!(decisions(&mut lab).contains(&woken));
    lab.advance(300 * US);
    assert_eq!(tick(&mut lab), TurnRule::ProtectedSlice(200 * US));
    // 100 us beyond the deadline.
    lab.advance(300 * US);
    assert_eq!(tick(&mut lab), TurnRule::RequestServed);
    // The first ran 800 us, of which 200 before the second came. From the same place on one got 600 us and the other nothing: the average is
    // 300 us after that place, and the first 300 us ahead of it.
    let second_place = lab.entity(second).vruntime;
    assert_eq!(lab.schedule(CPU0), second);
    let lead = lab.entity(first).vruntime.since(second_place);
    let lag = -(lead + 1) / 2;
    let level = PickLevel {
        picked: Candidate::Task(second),
        by: PickRule::EarliestDeadline,
        others: vec![(Candidate::Task(first), PassedOver::NotEligible(lag))],
    };
    let reasons = decisions(&mut lab);
    let Some(Reason::Pick { levels, candidates: 2, .. }) = reasons.last() else { panic!("{reasons:?}") };
    assert_eq!(levels[..], [level]);
}

/// With RUN_TO_PARITY off nothing is protected: an eligible task with the earlier deadline preempts.
#[test]
fn an_eevdf_wakeup_without_protection_is_decided_by_deadlines() {
    let mut lab = explaining("6.12", &[("base_slice", "700us"), ("feature.RUN_TO_PARITY", "off")]);
    let [first, second] = [lab.task(), lab.task()];
    lab.schedule(CPU0);
    while lab.sleep(CPU0) != TaskId::IDLE {}
    lab.wake(first);
    lab.schedule(CPU0);
    lab.sched.decider.take_reasons();
    lab.advance(200 * US);
    // At the average, which is where the first stands, its deadline is a request away, the first's 200 us nearer.
    assert!(!lab.wake(second));
    let by = WakeupRule::NotPicked(PassedOver::LaterDeadline(200 * US as i64));
    let woken = Reason::WakeupPreempt { woken: second, current: first, preempts: false, by };
    assert!(decisions(&mut lab).contains(&woken));
}

#[test]
fn a_realtime_wakeup_tells_by_how_much_its_priority_is_higher() {
    let mut lab = explaining("6.1", &[]);
    let low = lab.spawn(Policy::Fifo(10), 0);
    lab.schedule(CPU0);
    lab.sched.decider.take_reasons();
    let high = lab.spawn(Policy::Fifo(15), 0);
    let wakeup = |woken, current, by| Reason::WakeupPreempt { woken, current, preempts: true, by };
    assert_eq!(decisions(&mut lab), [wakeup(high, low, WakeupRule::Priority(5))]);
    lab.schedule(CPU0);
    lab.sched.decider.take_reasons();
    let fair = lab.task();
    let by = WakeupRule::LowerClass;
    let expected = Reason::WakeupPreempt { woken: fair, current: high, preempts: false, by };
    assert_eq!(decisions(&mut lab).last(), Some(&expected));
}

/// Nothing is kept unless the decider asks.
#[test]
fn without_a_listener_there_are_no_reasons() {
    let mut lab = Lab::new("6.12", &[]);
    lab.task();
    lab.schedule(CPU0);
    assert!(lab.sched.decider.take_reasons().is_empty());
}
