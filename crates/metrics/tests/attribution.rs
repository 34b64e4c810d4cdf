//! Each cause of waiting, from decisions and events worked out by hand.

use schedlab_metrics::{Attribution, Cause, Waits};
use schedlab_model::{
    BalanceRule, Candidate, CpuId, Decision, Event, EventKind, EventSink, NewidleRule, PassedOver, PickClass,
    PickLevel, PickRule, PlaceRule, Reason, RuleSet, SelectRule, TaskId, TaskState, Time, TurnRule, WakeupRule,
};

const BATCH: TaskId = TaskId(0);
const WORKER: TaskId = TaskId(1);
const IDLE: TaskId = TaskId::IDLE;

/// A run told by hand, in microseconds.
struct Story(Attribution);

impl Story {
    /// On `cpus` CPUs, the first of which runs `BATCH` from 0 on.
    fn on(cpus: u32, release: &str) -> Self {
        let mut story = Self(Attribution::new(cpus, &RuleSet::of(release.parse().expect("a release"))));
        story.pick(0, 0, BATCH, PickClass::Fair, vec![]);
        story.switch(0, 0, IDLE, TaskState::Running, BATCH);
        story
    }

    fn decide(&mut self, at: u64, cpu: u32, reason: Reason) {
        self.0.decision(Decision { time: Time::from_micros(at), cpu: CpuId(cpu), reason });
    }

    fn happen(&mut self, at: u64, cpu: u32, kind: EventKind) {
        self.0.event(Event { time: Time::from_micros(at), cpu: CpuId(cpu), kind });
    }

    fn pick(&mut self, at: u64, cpu: u32, task: TaskId, class: PickClass, others: Vec<(Candidate, PassedOver)>) {
        let levels = match class {
            PickClass::Fair => {
                vec![PickLevel { picked: Candidate::Task(task), by: PickRule::EarliestDeadline, others }]
            }
            _ => vec![],
        };
        self.decide(at, cpu, Reason::Pick { task, candidates: 2, class, levels });
    }

    fn switch(&mut self, at: u64, cpu: u32, previous: TaskId, state: TaskState, next: TaskId) {
        self.happen(at, cpu, EventKind::Switch { previous, state, next });
    }

    /// The worker wakes on a CPU, by a rule that does not let it preempt.
    fn wake(&mut self, at: u64, cpu: u32, by: WakeupRule) {
        self.decide(at, cpu, Reason::WakeupPreempt { woken: WORKER, current: BATCH, preempts: false, by });
        self.happen(at, cpu, EventKind::Waking { task: WORKER, waker: IDLE, target: CpuId(cpu) });
    }

    /// What runs on the first CPU sleeps, and the worker comes.
    fn come(&mut self, at: u64, after: TaskId) {
        self.pick(at, 0, WORKER, PickClass::Fair, vec![]);
        self.switch(at, 0, after, TaskState::Interruptible, WORKER);
    }

    /// The spans of the worker's only wait: cause, what is behind it, microseconds, margin in nanoseconds.
    fn spans(self, end: u64) -> Vec<(Cause, TaskId, u64, u64)> {
        let waits: Waits = self.0.finish(Time::from_micros(end));
        let wait = waits.iter().find(|wait| wait.task == WORKER).expect("it waited");
        let spans = waits.spans(wait).iter();
        spans.map(|span| (span.cause, span.behind, span.length.as_nanos() / 1_000, span.margin)).collect()
    }
}

/// It wakes at 100 us and comes at 250: one cause, 150 us. The margin is what the rule of the wakeup says.
#[test]
fn a_wakeup_that_does_not_preempt_gives_its_rule() {
    let cases = [
        (WakeupRule::Granularity { ahead: 400_000, granularity: 1_000_000 }, Cause::WakeupGranularity, 600_000),
        (WakeupRule::Granularity { ahead: -300_000, granularity: 1_000_000 }, Cause::LaterVruntime, 300_000),
        (WakeupRule::NotPicked(PassedOver::NotEligible(-7)), Cause::NotEligible, 7),
        (WakeupRule::NotPicked(PassedOver::LaterDeadline(9)), Cause::LaterDeadline, 9),
        (WakeupRule::NotPicked(PassedOver::NextBuddy), Cause::Buddy, 0),
        (WakeupRule::FeatureOff, Cause::FeatureOff, 0),
        (WakeupRule::WokenIsBatch, Cause::Batch, 0),
        (WakeupRule::NewOrDelayed, Cause::NewOrDelayed, 0),
        (WakeupRule::WaitsForWaker, Cause::WaitsForWaker, 0),
        (WakeupRule::Priority(0), Cause::RealtimePeer, 0),
        (WakeupRule::Priority(-3), Cause::RealtimeAbove, 3),
        (WakeupRule::Deadline(-5), Cause::EarlierDeadline, 5),
        (WakeupRule::Custom, Cause::Custom, 0),
    ];
    for (by, cause, margin) in cases {
        let mut story = Story::on(1, "6.12");
        story.wake(100, 0, by);
        story.come(250, BATCH);
        assert_eq!(story.spans(250), [(cause, BATCH, 150, margin)], "{by:?}");
    }
}

/// The protected slice has 60 us left at 100: it is over at 160, and the tick that ends the turn comes at 250. The switch follows at 253.
#[test]
fn a_protected_slice_ends_before_the_tick_that_finds_so() {
    let mut story = Story::on(1, "6.12");
    story.wake(100, 0, WakeupRule::NotPicked(PassedOver::ProtectedSlice(60_000)));
    let by = TurnRule::ProtectionOver;
    story.decide(250, 0, Reason::Turn { current: Candidate::Task(BATCH), tick: true, preempts: true, by });
    story.pick(253, 0, WORKER, PickClass::Fair, vec![]);
    story.switch(253, 0, BATCH, TaskState::Running, WORKER);
    let expected = [
        (Cause::ProtectedSlice, BATCH, 60, 60_000),
        (Cause::AwaitingTick, BATCH, 90, 0),
        (Cause::Rescheduling, IDLE, 3, 0),
    ];
    assert_eq!(story.spans(253), expected);
}

/// At 130 a tick lets the task go on, whose slice has 500 us left: the wakeup's rule accounts for 30 us, the tick's for the other 120.
#[test]
fn a_tick_that_lets_the_current_task_go_on_takes_over() {
    let mut story = Story::on(1, "6.1");
    story.wake(100, 0, WakeupRule::Granularity { ahead: 1, granularity: 2 });
    let by = TurnRule::SliceLeft(500_000);
    story.decide(130, 0, Reason::Turn { current: Candidate::Task(BATCH), tick: true, preempts: false, by });
    story.come(250, BATCH);
    let expected = [(Cause::WakeupGranularity, BATCH, 30, 1), (Cause::SliceLeft, BATCH, 120, 500_000)];
    assert_eq!(story.spans(250), expected);
}

/// A task of higher priority is picked while the worker waits, from 150 to 190.
#[test]
fn a_pick_of_a_higher_class_takes_over() {
    for (class, cause) in [
        (PickClass::Realtime(5), Cause::RealtimeAbove),
        (PickClass::Deadline, Cause::DeadlineAbove),
        (PickClass::Stop, Cause::Stopper),
        (PickClass::Custom, Cause::Custom),
    ] {
        let above = TaskId(2);
        let mut story = Story::on(1, "6.12");
        story.wake(100, 0, WakeupRule::FeatureOff);
        story.pick(150, 0, above, class, vec![]);
        story.switch(150, 0, BATCH, TaskState::Interruptible, above);
        story.come(190, above);
        assert_eq!(story.spans(190), [(Cause::FeatureOff, BATCH, 50, 0), (cause, above, 40, 0)]);
    }
}

/// Of three fair tasks the pick at 150 passes over the worker, as another's deadline is 8 us earlier.
#[test]
fn a_pick_that_passes_a_task_over_gives_its_rule() {
    let third = TaskId(2);
    let mut story = Story::on(1, "6.12");
    story.wake(100, 0, WakeupRule::FeatureOff);
    let others = vec![(Candidate::Task(WORKER), PassedOver::LaterDeadline(8_000))];
    story.pick(150, 0, third, PickClass::Fair, others);
    story.switch(150, 0, BATCH, TaskState::Interruptible, third);
    story.come(190, third);
    assert_eq!(story.spans(190), [(Cause::FeatureOff, BATCH, 50, 0), (Cause::LaterDeadline, third, 40, 8_000)]);
}

/// The worker is in group 1, passed over as a whole: 1000 virtual nanoseconds later.
#[test]
fn a_group_that_is_passed_over_keeps_its_tasks() {
    let mut story = Story::on(1, "6.1");
    let place = |entity, within| Reason::Place { entity, within, initial: false, by: PlaceRule::MinVruntime };
    story.decide(100, 0, place(Candidate::Group(1), 0));
    story.decide(100, 0, place(Candidate::Task(WORKER), 1));
    story.wake(100, 0, WakeupRule::FeatureOff);
    let third = TaskId(2);
    let others = vec![(Candidate::Group(1), PassedOver::LaterVruntime(1_000))];
    story.pick(150, 0, third, PickClass::Fair, others);
    story.switch(150, 0, BATCH, TaskState::Interruptible, third);
    story.come(190, third);
    assert_eq!(story.spans(190), [(Cause::FeatureOff, BATCH, 50, 0), (Cause::LaterVruntime, third, 40, 1_000)]);
}

/// The worker was moved into group 2, below group 1, which no placement told; group 1 is passed over as a whole.
#[test]
fn a_moved_task_waits_behind_what_its_groups_were_passed_over_for() {
    let mut story = Story::on(1, "6.1");
    story.0.moved(WORKER, &[2, 1]);
    story.wake(100, 0, WakeupRule::FeatureOff);
    let third = TaskId(2);
    let others = vec![(Candidate::Group(1), PassedOver::LaterVruntime(1_000))];
    story.pick(150, 0, third, PickClass::Fair, others);
    story.switch(150, 0, BATCH, TaskState::Interruptible, third);
    story.come(190, third);
    assert_eq!(story.spans(190), [(Cause::FeatureOff, BATCH, 50, 0), (Cause::LaterVruntime, third, 40, 1_000)]);
}

/// The worker wakes below a real-time task, and nothing tells what that wake-up decided; from 150 on a fair task runs of whose pick the class
/// alone is known.
#[test]
fn a_wakeup_below_a_higher_class_waits_for_it_and_a_pick_of_the_class_alone_explains_no_fair_wait() {
    let mut story = Story::on(1, "6.12");
    let (control, third) = (TaskId(2), TaskId(3));
    story.pick(50, 0, control, PickClass::Realtime(9), vec![]);
    story.switch(50, 0, BATCH, TaskState::Interruptible, control);
    story.happen(100, 0, EventKind::Waking { task: WORKER, waker: IDLE, target: CpuId(0) });
    story.decide(150, 0, Reason::Pick { task: third, candidates: 0, class: PickClass::Fair, levels: vec![] });
    story.switch(150, 0, control, TaskState::Interruptible, third);
    story.come(190, third);
    assert_eq!(story.spans(190), [(Cause::RealtimeAbove, control, 50, 0), (Cause::Unknown, IDLE, 40, 0)]);
}

/// The quota of the worker's group is used up from 120 to 180; then it waits for batch again, which a refill does not preempt.
#[test]
fn a_throttled_group_waits_for_its_quota() {
    let mut story = Story::on(1, "6.1");
    let place = |entity, within| Reason::Place { entity, within, initial: false, by: PlaceRule::MinVruntime };
    story.decide(100, 0, place(Candidate::Task(WORKER), 1));
    story.wake(100, 0, WakeupRule::FeatureOff);
    story.decide(120, 0, Reason::Throttle { group: 1, until_refill: 60_000 });
    story.decide(180, 0, Reason::Unthrottle { group: 1, after: 60_000 });
    story.come(200, BATCH);
    let expected = [(Cause::FeatureOff, BATCH, 20, 0), (Cause::Quota(1), IDLE, 60, 0), (Cause::Refilled, BATCH, 20, 0)];
    assert_eq!(story.spans(200), expected);
}

/// A real-time task that waits while a fair one is picked: before 6.12 its class is throttled, later the fair server runs.
#[test]
fn a_real_time_task_waits_for_its_bandwidth_or_the_fair_server() {
    for (release, cause, behind) in [("6.1", Cause::RealtimeThrottled, IDLE), ("6.12", Cause::FairServer, BATCH)] {
        let mut story = Story::on(1, release);
        story.pick(50, 0, WORKER, PickClass::Realtime(1), vec![]);
        story.switch(50, 0, BATCH, TaskState::Running, WORKER);
        story.pick(100, 0, BATCH, PickClass::Fair, vec![]);
        story.switch(100, 0, WORKER, TaskState::Running, BATCH);
        story.pick(150, 0, WORKER, PickClass::Realtime(1), vec![]);
        story.switch(150, 0, BATCH, TaskState::Running, WORKER);
        assert_eq!(story.spans(150), [(cause, behind, 50, 0)], "{release}");
    }
}

/// The worker is queued on CPU 0 while CPU 1 idles, as a scan was not worth it; at 140 CPU 1 balances and finds its tasks cache-hot.
/// From 170 on CPU 1 is busy, and the worker's own CPU accounts for the rest.
#[test]
fn a_cpu_that_idles_beside_it_is_the_cause() {
    let mut story = Story::on(2, "6.12");
    let select = |by| Reason::Select { task: WORKER, previous: CpuId(0), chosen: CpuId(0), target: None, by };
    story.decide(100, 0, select(SelectRule::NotScanned));
    story.wake(100, 0, WakeupRule::FeatureOff);
    let balance =
        Reason::Balance { level: 0, newly_idle: false, moved: 0, from: Some(CpuId(0)), by: BalanceRule::NoneFits };
    story.decide(140, 1, balance);
    let other = TaskId(3);
    story.pick(170, 1, other, PickClass::Fair, vec![]);
    story.switch(170, 1, IDLE, TaskState::Running, other);
    story.come(200, BATCH);
    let expected = [
        (Cause::Selection(SelectRule::NotScanned), BATCH, 40, 0),
        (Cause::Balance(BalanceRule::NoneFits), BATCH, 30, 0),
        (Cause::FeatureOff, BATCH, 30, 0),
    ];
    assert_eq!(story.spans(200), expected);
}

/// CPU 1 idles from 130 on, expects to idle for 5 us less than balancing costs, and takes no task. Where it may not run the worker, that is
/// no cause.
#[test]
fn a_newly_idle_cpu_that_takes_nothing_is_the_cause_where_the_task_may_run_there() {
    for (allowed, expected) in [
        (&[0, 1][..], [(Cause::FeatureOff, 30, 0), (Cause::Newidle(TOO_SHORT), 70, 5_000)].as_slice()),
        (&[0][..], [(Cause::FeatureOff, 100, 0)].as_slice()),
    ] {
        let mut story = Story::on(2, "6.12");
        let other = TaskId(3);
        story.pick(0, 1, other, PickClass::Fair, vec![]);
        story.switch(0, 1, IDLE, TaskState::Running, other);
        story.0.affinity(WORKER, allowed);
        story.wake(100, 0, WakeupRule::FeatureOff);
        let by = NewidleRule::TooShort { avg_idle: 20_000, cost: 25_000 };
        story.pick(130, 1, IDLE, PickClass::Idle, vec![]);
        story.decide(130, 1, Reason::Newidle { runs: false, by });
        story.switch(130, 1, other, TaskState::Interruptible, IDLE);
        story.come(200, BATCH);
        let found: Vec<_> =
            story.spans(200).into_iter().map(|(cause, _, length, margin)| (cause, length, margin)).collect();
        assert_eq!(found, expected);
    }
}

const TOO_SHORT: NewidleRule = NewidleRule::TooShort { avg_idle: 0, cost: 0 };

/// The worker preempts at 100, and the switch takes until 104; on an idle CPU the same is the way out of idle.
#[test]
fn a_wakeup_that_preempts_waits_for_the_switch() {
    let mut story = Story::on(1, "6.1");
    let wakes = |current| Reason::WakeupPreempt { woken: WORKER, current, preempts: true, by: WakeupRule::Picked };
    story.decide(100, 0, wakes(BATCH));
    story.happen(100, 0, EventKind::Waking { task: WORKER, waker: IDLE, target: CpuId(0) });
    story.pick(104, 0, WORKER, PickClass::Fair, vec![]);
    story.switch(104, 0, BATCH, TaskState::Running, WORKER);
    assert_eq!(story.spans(104), [(Cause::Rescheduling, IDLE, 4, 0)]);

    let mut story = Story::on(1, "6.1");
    story.pick(50, 0, IDLE, PickClass::Idle, vec![]);
    story.switch(50, 0, BATCH, TaskState::Interruptible, IDLE);
    story.decide(100, 0, wakes(IDLE));
    story.happen(100, 0, EventKind::Waking { task: WORKER, waker: IDLE, target: CpuId(0) });
    story.pick(104, 0, WORKER, PickClass::Fair, vec![]);
    story.switch(104, 0, IDLE, TaskState::Running, WORKER);
    assert_eq!(story.spans(104), [(Cause::IdleExit, IDLE, 4, 0)]);
}

/// A switch that no decision accounts for leaves what waits without a cause, until the next decision.
#[test]
fn what_no_decision_accounts_for_is_unknown() {
    let third = TaskId(2);
    let mut story = Story::on(1, "6.12");
    story.wake(100, 0, WakeupRule::FeatureOff);
    story.switch(150, 0, BATCH, TaskState::Interruptible, third);
    let by = TurnRule::RequestLeft(400_000);
    story.decide(170, 0, Reason::Turn { current: Candidate::Task(third), tick: true, preempts: false, by });
    story.come(200, third);
    let expected =
        [(Cause::FeatureOff, BATCH, 50, 0), (Cause::Unknown, IDLE, 20, 0), (Cause::SliceLeft, third, 30, 400_000)];
    assert_eq!(story.spans(200), expected);
}

/// On a kernel with PREEMPT_LAZY batch goes on for 104 us after the worker's wakeup preempts it: until it returns to user space.
#[test]
fn a_lazy_preemption_is_told_from_the_latency_of_a_switch() {
    let mut story = Story::on(1, "7.2");
    let by = WakeupRule::Picked;
    story.decide(100, 0, Reason::WakeupPreempt { woken: WORKER, current: BATCH, preempts: true, by });
    story.happen(100, 0, EventKind::Waking { task: WORKER, waker: IDLE, target: CpuId(0) });
    story.pick(204, 0, WORKER, PickClass::Fair, vec![]);
    story.switch(204, 0, BATCH, TaskState::Running, WORKER);
    assert_eq!(story.spans(204), [(Cause::LazyRescheduling, BATCH, 104, 0)]);
}

/// A real-time task runs since before the events: that it is of a higher class is all that a wakeup tells.
#[test]
fn a_task_of_a_higher_class_that_was_never_picked_is_told_by_the_wakeup() {
    let mut story = Story(Attribution::new(1, &RuleSet::of("6.1".parse().expect("a release"))));
    story.switch(0, 0, IDLE, TaskState::Running, BATCH);
    story.wake(100, 0, WakeupRule::LowerClass);
    story.come(250, BATCH);
    assert_eq!(story.spans(250), [(Cause::HigherClass, BATCH, 150, 0)]);
}
